// SPDX-License-Identifier: MIT
/*
 * What a device tells at a tick: live through a handle that stays open, since
 * its account ends with it; of a captured system from the replies that its file
 * has for later ticks, on a clock that jumps from one to the next.
 */
#include <stdlib.h>
#include <time.h>

#include <json-c/json.h>
#include <qbruntime/qbrt.h>

#include "collect.h"
#include "qbinfo.h"
#include "reply.h"
#include "source.h"
#include "stat.h"

#define NS_PER_SEC INT64_C(1000000000)
/* No clock of a captured system is later: a century from its start. */
#define LAST_INSTANT (INT64_MAX / 2)

static int64_t captured_now;

int64_t stat_now(void)
{
	struct timespec now;

	if (source_get_sysroot())
		return captured_now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

void stat_wait_until(int64_t instant)
{
	struct timespec until = { .tv_sec = instant / NS_PER_SEC,
				  .tv_nsec = instant % NS_PER_SEC };

	if (source_get_sysroot())
		captured_now = instant;
	else
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until,
				      NULL);
}

/* ---- live ---- */

static int open_live(struct stat_device *device)
{
	enum qbrt_status status = qbrt_accelerator_open(
		record_get_text(device->info, FIELD_NAME),
		(int)record_get_integer(device->info, FIELD_NUMBER, 0),
		&device->acc);
	struct failure what = {
		.exit = 1, .device = record_get_text(device->info, FIELD_ID)
	};

	if (!status)
		return 0;
	if (status == QBRT_ACC_PERMISSION_DENIED)
		what.exit = 4;
	else if (status == QBRT_ACC_DEVICE_LOST)
		what.exit = 7;
	what.status = qbrt_status_name(status);
	what.message = inventory_copy(qbrt_error_detail());
	return fail_with(&what);
}

static enum qbrt_status read_cores(struct stat_device *device,
				   struct stat_reading *reading)
{
	struct qbrt_core_state *states;
	size_t num, max;
	enum qbrt_status status =
		qbrt_accelerator_query_core_states(device->acc, NULL, 0, &max);

	if (status)
		return status;
	states = inventory_alloc((max + 1) * sizeof(*states));
	status = qbrt_accelerator_query_core_states(device->acc, states, max,
						    &num);
	for (size_t i = 0; !status && i < num && i < max; i++) {
		struct qbrt_core_id id = states[i].core_id;
		struct stat_core core = {
			.cluster = ((uint64_t)id.cluster >> 16) - 1,
			.core = (uint64_t)id.core - 1,
			.is_known = states[i].busy_time >= 0,
			.busy = (uint64_t)states[i].busy_time,
		};

		if (id.cluster == QBRT_CLUSTER_ERROR)
			continue;
		if (id.core == QBRT_CORE_GLOBAL)
			core.core = record_get_integer(device->info,
						       FIELD_LOCAL_CORES, 0);
		stat_add_core(reading, &core);
	}
	return status;
}

static void read_live(struct stat_device *device, struct stat_reading *reading,
		      struct record *record)
{
	enum qbrt_status cores = read_cores(device, reading);
	enum qbrt_status counters = collect_counters(record, device->acc);
	enum qbrt_status sensors;

	collect_mark_failed(record, "queues health", counters);
	sensors = collect_sensors(record, device->acc);
	collect_mark_failed(record, "clocks power thermal", sensors);
	device->is_gone = cores == QBRT_ACC_DEVICE_LOST ||
			  counters == QBRT_ACC_DEVICE_LOST ||
			  sensors == QBRT_ACC_DEVICE_LOST;
}

/* ---- recorded ---- */

static void open_recorded(struct stat_device *device)
{
	const char *node = record_get_text(device->info, FIELD_NODE);
	int err;

	if (node)
		device->reply = reply_read_node(node, &err);
	device->query = json_object_get(reply_get(device->reply, "query"));
	device->later = reply_get(device->reply, "later");
	if (json_object_is_type(device->later, json_type_array))
		device->num_later = json_object_array_length(device->later);
}

/* What an entry does not name is as in the one before. */
static void take_entry(struct stat_device *device, struct stat_reading *reading)
{
	struct json_object *entry =
		json_object_array_get_idx(device->later, device->next++);
	struct json_object *query = reply_get(entry, "query");
	enum member member =
		reply_find_number(entry, "monotonic_ns", &reading->monotonic);

	if (member == MEMBER_ABSENT)
		reading->monotonic = captured_now;
	else if (member == MEMBER_INVALID || reading->monotonic > LAST_INSTANT)
		reading->monotonic = -1;
	if (reading->monotonic > captured_now)
		captured_now = reading->monotonic;
	device->is_gone = reply_get_open(entry) != 0;
	if (!json_object_is_type(query, json_type_object) ||
	    !json_object_is_type(device->query, json_type_object))
		return;
	json_object_object_foreach(query, name, value)
	{
		(void)json_object_object_add(device->query, name,
					     json_object_get(value));
	}
}

static void take_cores(struct stat_device *device, struct stat_reading *reading)
{
	struct json_object *cores = reply_get(device->query, "CORES");
	size_t num = json_object_is_type(cores, json_type_array)
			     ? json_object_array_length(cores)
			     : 0;

	for (size_t i = 0; i < num; i++) {
		struct json_object *one = json_object_array_get_idx(cores, i);
		struct stat_core core = { .cluster = 0 };
		uint64_t kind;

		/* of what is not told */
		if (reply_find_count(one, "cluster", UINT32_MAX,
				     &core.cluster) != MEMBER_VALUE ||
		    reply_find_count(one, "core", UINT32_MAX, &core.core) !=
			    MEMBER_VALUE)
			continue;
		if (reply_find_count(one, "kind", UINT32_MAX, &kind) ==
			    MEMBER_VALUE &&
		    kind == 1)
			core.core = record_get_integer(device->info,
						       FIELD_LOCAL_CORES, 0);
		core.is_known = reply_find_count(one, "busy_ns", UINT64_MAX,
						 &core.busy) == MEMBER_VALUE;
		stat_add_core(reading, &core);
	}
}

static void read_recorded(struct stat_device *device,
			  struct stat_reading *reading, struct record *record)
{
	take_cores(device, reading);
	collect_reply_counters(record, device->query);
	collect_reply_sensors(record, device->query);
}

/* ---- both ---- */

int stat_open(struct stat_device *device, struct record *info)
{
	device->info = info;
	if (!source_get_sysroot())
		return open_live(device);
	open_recorded(device);
	return 0;
}

void stat_close(struct stat_device *device)
{
	qbrt_accelerator_close(device->acc);
	json_object_put(device->query);
	json_object_put(device->reply);
	for (size_t i = 0; i < 2; i++)
		free(device->readings[i].cores);
}

bool stat_has_more(const struct stat_device *device)
{
	return !device->is_gone &&
	       (device->acc || device->next < device->num_later);
}

static void read_device(struct stat_device *device, struct record *record)
{
	struct stat_reading *reading = &device->readings[device->turn];

	reading->num_cores = 0;
	if (device->acc)
		read_live(device, reading, record);
	else
		read_recorded(device, reading, record);
	stat_keep_counts(reading, record);
}

void stat_read_first(struct stat_device *device, const struct record *tool)
{
	struct stat_reading *reading = &device->readings[0];
	uint64_t start = record_get_integer(tool, FIELD_TOOL_MONOTONIC, 0);

	if (!device->acc)
		captured_now = start < LAST_INSTANT ? (int64_t)start : 0;
	reading->monotonic = stat_now();
	read_device(device, record_alloc(LIST_DEVICES));
}

/* All that it would have told is gone, too. */
static void mark_gone(struct record *sample)
{
	const struct list *list = list_get(LIST_SAMPLES);

	for (size_t i = 0; i < list->num_fields; i++)
		set_absent(sample, list->first + (enum field_id)i, REASON_GONE,
			   NULL);
}

static uint64_t get_num_cores(const struct record *info)
{
	return record_get_integer(info, FIELD_CLUSTERS, 0) *
	       (record_get_integer(info, FIELD_LOCAL_CORES, 0) +
		record_get_integer(info, FIELD_GLOBAL_CORES, 0));
}

void stat_read_next(struct stat_device *device, const struct record *tool,
		    struct record *sample)
{
	struct record *record = record_alloc(LIST_DEVICES);
	struct stat_reading *before = &device->readings[device->turn];
	struct stat_reading *now;
	uint64_t monotonic = 0;
	const char *time;

	device->turn = !device->turn;
	now = &device->readings[device->turn];
	if (device->acc) {
		time = collect_now(&monotonic);
		now->monotonic = (int64_t)monotonic;
	} else {
		take_entry(device, now);
		monotonic = (uint64_t)captured_now;
		time = collect_time_at(tool, captured_now);
	}
	read_device(device, record);
	if (device->is_gone)
		mark_gone(sample);
	else
		stat_set_sample(sample, record, before, now,
				get_num_cores(device->info));
	set_text(sample, FIELD_SAMPLE_TIME, time);
	if (!time)
		set_absent(sample, FIELD_SAMPLE_TIME, REASON_INVALID, "clock");
	set_integer(sample, FIELD_SAMPLE_MONOTONIC, monotonic);
	set_text(sample, FIELD_SAMPLE_ID,
		 record_get_text(device->info, FIELD_ID));
}
