// SPDX-License-Identifier: MIT
/*
 * Two readings of a device make a sample: rates are differences of counters
 * over the time that was measured between them. A counter that went back counts
 * another life of the device: there is no rate then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stat.h"

#define NS_PER_SEC 1e9

/* By enum stat_count. */
static const enum field_id counters[STAT_NUM_COUNTS] = {
	FIELD_SUBMITTED, FIELD_COMPLETED, FIELD_FAILED,
	FIELD_BUSY_TIME, FIELD_WAIT_TIME,
};

void stat_add_core(struct stat_reading *reading, const struct stat_core *core)
{
	if (reading->num_cores == reading->max_cores) {
		size_t max = reading->max_cores ? 2 * reading->max_cores : 16;
		struct stat_core *cores =
			realloc(reading->cores, max * sizeof(*cores));

		if (!cores) {
			(void)fputs("qbinfo: out of memory\n", stderr);
			exit(1);
		}
		reading->cores = cores;
		reading->max_cores = max;
	}
	reading->cores[reading->num_cores++] = *core;
}

void stat_keep_counts(struct stat_reading *reading, const struct record *device)
{
	for (size_t i = 0; i < STAT_NUM_COUNTS; i++) {
		reading->is_known[i] = record_see(device, counters[i])->is_set;
		reading->counts[i] = record_get_integer(device, counters[i], 0);
	}
}

/* ---- differences ---- */

/* What is between two readings, or why that cannot be told. */
struct span {
	const struct record *device;
	const struct stat_reading *before, *now;
	uint64_t ns; /* 0: not known */
};

/* false: the field of the sample has its reason. */
static bool get_difference(const struct span *span, struct record *sample,
			   enum field_id field, enum stat_count count,
			   uint64_t *difference)
{
	const struct value *value = record_see(span->device, counters[count]);

	if (!value->is_set)
		set_absent(sample, field, value->reason, value->detail);
	else if (!span->ns)
		set_absent(sample, field, REASON_INVALID, "monotonic_ns");
	else if (!span->before->is_known[count])
		set_absent(sample, field, REASON_NEEDS_INTERVAL, NULL);
	else if (span->now->counts[count] < span->before->counts[count])
		set_absent(sample, field, REASON_NEEDS_INTERVAL,
			   inventory_format("%s went back",
					    field_get(counters[count])->path));
	else {
		*difference =
			span->now->counts[count] - span->before->counts[count];
		return true;
	}
	return false;
}

static void set_rate(const struct span *span, struct record *sample,
		     enum field_id field, enum stat_count count)
{
	uint64_t num;

	if (get_difference(span, sample, field, count, &num))
		set_number(sample, field,
			   (double)num * NS_PER_SEC / (double)span->ns);
}

/* Over the jobs that came to their end in the interval. */
static void set_mean(const struct span *span, struct record *sample,
		     enum field_id field, enum stat_count count)
{
	uint64_t ns, completed, failed;

	if (!get_difference(span, sample, field, count, &ns) ||
	    !get_difference(span, sample, field, STAT_COMPLETED, &completed) ||
	    !get_difference(span, sample, field, STAT_FAILED, &failed))
		return;
	if (completed + failed < completed)
		set_absent(sample, field, REASON_INVALID, "COUNTERS");
	else if (completed + failed)
		set_integer(sample, field, ns / (completed + failed));
	else
		set_absent(sample, field, REASON_ABSENT, NULL);
}

/* ---- utilisation ---- */

/* The account may be a little younger than the clock. */
static double get_ratio(double busy, double ns)
{
	double ratio = busy / ns;

	return ratio > 1 ? 1 : ratio;
}

static const struct stat_core *find_core(const struct stat_reading *reading,
					 const struct stat_core *core)
{
	for (size_t i = 0; i < reading->num_cores; i++) {
		if (reading->cores[i].cluster == core->cluster &&
		    reading->cores[i].core == core->core)
			return &reading->cores[i];
	}
	return NULL;
}

/* Whether the time of the core is known, which is added to busy. */
static bool set_core(const struct span *span, struct record *record,
		     const struct stat_core *now, double *busy)
{
	const struct stat_core *before = find_core(span->before, now);

	set_integer(record, FIELD_CORE_CLUSTER, now->cluster);
	set_integer(record, FIELD_CORE_CORE, now->core);
	if (!now->is_known)
		set_absent(record, FIELD_CORE_BUSY, REASON_INVALID, "CORES");
	else if (!span->ns)
		set_absent(record, FIELD_CORE_BUSY, REASON_INVALID,
			   "monotonic_ns");
	else if (!before || !before->is_known)
		set_absent(record, FIELD_CORE_BUSY, REASON_NEEDS_INTERVAL,
			   NULL);
	else if (now->busy < before->busy)
		set_absent(record, FIELD_CORE_BUSY, REASON_NEEDS_INTERVAL,
			   "its busy time went back");
	else {
		double ns = (double)(now->busy - before->busy);

		set_number(record, FIELD_CORE_BUSY,
			   get_ratio(ns, (double)span->ns));
		*busy += ns;
		return true;
	}
	return false;
}

/* Of each core, and of all if each is known. */
static void set_cores(const struct span *span, struct record *sample)
{
	const struct stat_reading *now = span->now;
	struct records *records = records_alloc(LIST_CORES);
	double busy = 0;
	const struct value *unknown = NULL;

	for (size_t i = 0; i < now->num_cores; i++) {
		struct record *record = records_add(records);

		if (!set_core(span, record, &now->cores[i], &busy))
			unknown = record_see(record, FIELD_CORE_BUSY);
	}
	set_records(sample, FIELD_SAMPLE_CORES, records);
	if (unknown)
		set_absent(sample, FIELD_SAMPLE_BUSY, unknown->reason,
			   unknown->detail);
	else
		set_number(sample, FIELD_SAMPLE_BUSY,
			   get_ratio(busy, (double)span->ns *
						   (double)now->num_cores));
}

/* By the counter of all cores, where no core tells its own. */
static void set_busy(const struct span *span, struct record *sample,
		     uint64_t num_cores)
{
	uint64_t busy;

	if (num_cores &&
	    get_difference(span, sample, FIELD_SAMPLE_BUSY, STAT_BUSY, &busy))
		set_number(sample, FIELD_SAMPLE_BUSY,
			   get_ratio((double)busy,
				     (double)span->ns * (double)num_cores));
}

/* ---- samples ---- */

/* What has the same path in both lists has the same value. */
static void copy_values(struct record *sample, const struct record *device)
{
	const struct list *to = list_get(LIST_SAMPLES);
	const struct list *from = list_get(LIST_DEVICES);

	for (size_t i = 0; i < to->num_fields; i++) {
		enum field_id field = to->first + (enum field_id)i;

		for (size_t j = 0; j < from->num_fields; j++) {
			enum field_id other = from->first + (enum field_id)j;

			if (!strcmp(field_get(field)->path,
				    field_get(other)->path))
				*record_get(sample, field) =
					*record_see(device, other);
		}
	}
}

void stat_set_sample(struct record *sample, const struct record *device,
		     const struct stat_reading *before,
		     const struct stat_reading *now, uint64_t num_cores)
{
	struct span span = { .device = device, .before = before, .now = now };

	if (before->monotonic >= 0 && now->monotonic > before->monotonic)
		span.ns = (uint64_t)(now->monotonic - before->monotonic);
	copy_values(sample, device);
	if (span.ns)
		set_integer(sample, FIELD_SAMPLE_WINDOW, span.ns);
	else
		set_absent(sample, FIELD_SAMPLE_WINDOW, REASON_INVALID,
			   "monotonic_ns");
	set_rate(&span, sample, FIELD_SAMPLE_SUBMIT_RATE, STAT_SUBMITTED);
	set_rate(&span, sample, FIELD_SAMPLE_COMPLETE_RATE, STAT_COMPLETED);
	set_rate(&span, sample, FIELD_SAMPLE_FAIL_RATE, STAT_FAILED);
	set_mean(&span, sample, FIELD_SAMPLE_WAIT, STAT_WAIT);
	set_mean(&span, sample, FIELD_SAMPLE_RUN, STAT_BUSY);
	if (now->num_cores)
		set_cores(&span, sample);
	else
		set_busy(&span, sample, num_cores);
}
