// SPDX-License-Identifier: MIT
/*
 * The record of section 7: everything from which a reader recomputes (P07). It
 * is a record of the inventory, as all that qbinfo prints, so that the programs
 * of tests/bench/ and qbinfo bench write the same.
 */
#include "bench-record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "print.h"

/* Variables that change what is measured (P13): those with these beginnings. */
static const char *const prefixes[] = { "OPENBLAS_", "OMP_",   "KMP_",
					"ONEDNN_",   "DNNL_",  "MKL_",
					"POCL_",     "OCL_",   "QBRUNTIME_",
					"MALLOC_",   "GLIBC_", "LD_PRE",
					"MACCEL_" };

/* The fields of what all three sides have. */
struct side_fields {
	enum field_id name, samples, block, min, p50;
};

static const struct side_fields side_fields[BENCH_MAX_SIDES] = {
	{ NUM_FIELDS, FIELD_RESULT_SAMPLES, FIELD_RESULT_BLOCK,
	  FIELD_RESULT_MIN, FIELD_RESULT_P50 },
	{ FIELD_RESULT_FLOOR_NAME, FIELD_RESULT_FLOOR_SAMPLES,
	  FIELD_RESULT_FLOOR_BLOCK, FIELD_RESULT_FLOOR_MIN,
	  FIELD_RESULT_FLOOR_P50 },
	{ FIELD_RESULT_PEER_NAME, FIELD_RESULT_PEER_SAMPLES,
	  FIELD_RESULT_PEER_BLOCK, FIELD_RESULT_PEER_MIN,
	  FIELD_RESULT_PEER_P50 },
};

/* Six digits are more than was measured, and print short. */
static double round_to_six(double value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%.6g", value);
	return strtod(text, NULL);
}

static void set_measured(struct record *record, enum field_id id, double value)
{
	set_number(record, id, round_to_six(value));
}

static void set_samples(struct record *record, const struct side_fields *fields,
			const struct bench_series *series)
{
	size_t num = series->num_samples;
	double *samples = inventory_alloc((num + 1) * sizeof(*samples));
	int64_t *blocks = inventory_alloc((num + 1) * sizeof(*blocks));
	struct value *value = record_get(record, fields->samples);

	for (size_t i = 0; i < num; i++) {
		samples[i] = round_to_six(series->samples[i]);
		blocks[i] = series->blocks[i];
	}
	value->is_set = true;
	value->numbers.items = samples;
	value->numbers.num = num;
	set_integers(record, fields->block, blocks, num);
	if (!num)
		return;
	set_measured(record, fields->min, series->statistics.min);
	set_measured(record, fields->p50, series->statistics.p50);
}

static void set_subject(struct record *record,
			const struct bench_result *result)
{
	const struct bench_series *series = &result->series[0];

	set_samples(record, &side_fields[0], series);
	set_measured(record, FIELD_RESULT_P90, series->statistics.p90);
	set_measured(record, FIELD_RESULT_P99, series->statistics.p99);
	set_integer(record, FIELD_RESULT_COUNT, series->statistics.count);
	set_measured(record, FIELD_RESULT_FIRST, series->first);
	set_integer(record, FIELD_RESULT_BATCH, series->batch);
	if (result->metric->is_rate && series->statistics.p50 > 0)
		set_measured(record, FIELD_RESULT_RATE,
			     1e9 / series->statistics.p50);
	for (int i = 1; i < BENCH_MAX_SIDES; i++) {
		if (!result->series[i].probe)
			continue;
		set_text(record, side_fields[i].name,
			 result->series[i].probe->name);
		set_samples(record, &side_fields[i], &result->series[i]);
	}
	if (!result->series[2].probe)
		return;
	set_text(record, FIELD_RESULT_PEER_VERSION,
		 result->series[2].probe->version);
	set_text(record, FIELD_RESULT_PEER_SETTINGS, "one thread");
}

/* low and high follow the value in fields.def. */
static void set_interval(struct record *record, enum field_id id,
			 const struct bench_interval *interval)
{
	set_measured(record, id, interval->value);
	set_measured(record, id + 1, interval->low);
	set_measured(record, id + 2, interval->high);
}

static void add_block(struct records *blocks, const struct bench_block *block)
{
	static const char *const sides[] = { "subject", "floor", "peer" };
	struct record *entry = records_add(blocks);

	set_text(entry, FIELD_BLOCK_SIDE, sides[block->side]);
	if (block->before.pressure >= 0)
		set_measured(entry, FIELD_BLOCK_PSI_BEFORE,
			     block->before.pressure / 100);
	if (block->after.pressure >= 0)
		set_measured(entry, FIELD_BLOCK_PSI_AFTER,
			     block->after.pressure / 100);
	set_integer(entry, FIELD_BLOCK_INVOLUNTARY,
		    block->after.involuntary - block->before.involuntary);
	set_integer(entry, FIELD_BLOCK_STEAL,
		    block->after.steal - block->before.steal);
	set_integer(entry, FIELD_BLOCK_TICKS,
		    block->after.ticks - block->before.ticks);
	set_boolean(entry, FIELD_BLOCK_NOISY, block->is_noisy);
}

/* The first line of /proc/cpuinfo that begins with key, behind its colon. */
static void read_cpuinfo(const char *key, char *value, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[8192];

	value[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		const char *at = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) != 0 || !at)
			continue;
		(void)snprintf(value, size, "%s", at + 2);
		value[strcspn(value, "\n")] = 0;
		break;
	}
	if (file)
		(void)fclose(file);
}

static const char *find_isa(void)
{
	char flags[8192];

	read_cpuinfo("flags", flags, sizeof(flags));
	if (strstr(flags, "avx512_vnni"))
		return "avx512-vnni";
	if (strstr(flags, "avx512f"))
		return "avx512";
	if (strstr(flags, "avx2"))
		return "avx2";
	return *flags ? "sse" : "unknown";
}

static void set_variables(struct record *record)
{
	const char **texts;
	size_t num = 0;

	for (char **entry = environ; *entry; entry++)
		num++;
	texts = inventory_alloc((num + 1) * sizeof(*texts));
	num = 0;
	for (char **entry = environ; *entry; entry++)
		for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes);
		     i++)
			if (!strncmp(*entry, prefixes[i], strlen(prefixes[i])))
				texts[num++] = *entry;
	set_texts(record, FIELD_RESULT_ENVIRONMENT_VARIABLES, texts, num);
}

static void set_environment(struct record *record,
			    const struct bench_result *result,
			    const struct bench_options *options,
			    const char *command)
{
	struct records *blocks = records_alloc(LIST_BLOCKS);
	struct utsname kernel;
	char text[512];

	if (!uname(&kernel))
		set_text(record, FIELD_RESULT_ENVIRONMENT_KERNEL,
			 inventory_format("%s %s %s", kernel.sysname,
					  kernel.release, kernel.machine));
	read_cpuinfo("model name", text, sizeof(text));
	set_text(record, FIELD_RESULT_ENVIRONMENT_CPU, inventory_copy(text));
	set_integer(record, FIELD_RESULT_ENVIRONMENT_CPUS, bench_count_cpus());
	set_text(record, FIELD_RESULT_ENVIRONMENT_COMPILER, __VERSION__);
	set_text(record, FIELD_RESULT_ENVIRONMENT_FLAGS, BENCH_BUILD_FLAGS);
	set_text(record, FIELD_RESULT_ENVIRONMENT_VERSION, qbrt_version());
	set_text(record, FIELD_RESULT_ENVIRONMENT_COMMIT,
		 *qbrt_git_version() ? qbrt_git_version() : NULL);
	set_integer(record, FIELD_RESULT_ENVIRONMENT_SEED, options->seed);
	set_text(record, FIELD_RESULT_ENVIRONMENT_COMMAND, command);
	set_variables(record);
	for (uint32_t i = 0; i < result->num_blocks; i++)
		add_block(blocks, &result->blocks[i]);
	set_records(record, FIELD_RESULT_ENVIRONMENT_BLOCKS, blocks);
	set_integer(record, FIELD_RESULT_ENVIRONMENT_NOISY, result->num_noisy);
}

/* What is null is the answer, but for what could not be had. */
static void clear(struct record *record, const struct bench_result *result)
{
	const struct list *list = list_get(LIST_RESULTS);

	for (size_t i = 0; i < list->num_fields; i++)
		set_absent(record, list->first + (enum field_id)i,
			   REASON_ABSENT, NULL);
	for (enum field_id i = FIELD_RESULT_SAMPLES;
	     result->reason && i <= FIELD_RESULT_BATCH; i++)
		set_absent(record, i, REASON_NOT_SUPPORTED, result->reason);
}

void bench_fill_record(struct record *record, const struct bench_result *result,
		       const struct bench_options *options, const char *command)
{
	const struct bench_metric *metric = result->metric;

	clear(record, result);
	set_text(record, FIELD_RESULT_METRIC, metric->name);
	set_text(record, FIELD_RESULT_ROW, metric->row);
	set_text(record, FIELD_RESULT_UNIT, "ns");
	set_text(record, FIELD_RESULT_PLACEMENT,
		 bench_placement_name(result->placement));
	set_text(record, FIELD_RESULT_DEVICE, bench_device);
	set_text(record, FIELD_RESULT_KIND, bench_device ? bench_kind : NULL);
	set_text(record, FIELD_RESULT_BACKEND,
		 bench_device ? bench_backend : NULL);
	set_text(record, FIELD_RESULT_CPU_ISA, find_isa());
	set_text(record, FIELD_RESULT_TARGET, metric->target);
	if (result->verdict != BENCH_NO_TARGET)
		set_text(record, FIELD_RESULT_VERDICT,
			 bench_verdict_name(result->verdict));
	set_text(record, FIELD_RESULT_REASON,
		 result->reason ? inventory_copy(result->reason) : NULL);
	set_environment(record, result, options, command);
	if (result->has_counters) {
		set_integer(record, FIELD_RESULT_JOBS, result->counters.jobs);
		set_integer(record, FIELD_RESULT_COPIED,
			    result->counters.copied_nbytes);
		/* a run cannot count these by itself (P134) */
		set_absent(record, FIELD_RESULT_ALLOCATIONS,
			   REASON_NOT_SUPPORTED,
			   "counted by tests/bench/count-steady");
		set_absent(record, FIELD_RESULT_CALLS, REASON_NOT_SUPPORTED,
			   "counted by tests/bench/count-steady");
	}
	if (!result->series[0].num_samples)
		return;
	set_subject(record, result);
	if (!result->series[1].probe)
		return;
	set_interval(record, FIELD_RESULT_RATIO, &result->ratio);
	set_interval(record, FIELD_RESULT_DIFFERENCE, &result->difference);
}

void bench_write_record(FILE *file, const struct bench_result *result,
			const struct bench_options *options,
			const char *command)
{
	struct record *record = record_alloc(LIST_RESULTS);

	bench_fill_record(record, result, options, command);
	print_record(file, record);
}
