// SPDX-License-Identifier: MIT
/*
 * Readings: firmware, sensors, counters; events are in collect-events.c.
 * Live each chosen device is opened once, asked and closed; under --sysroot the
 * same comes from its recorded reply. What a device does not tell stays null.
 */
#include <string.h>

#include <json-c/json.h>
#include <qbruntime/qbrt.h>

#include "collect.h"
#include "reply.h"
#include "source.h"

#define NUM(array) (sizeof(array) / sizeof(*(array)))

/* By qbrt_sensor_name; the unit of the field is divisor times that of it. */
static const struct {
	const char *name;
	enum field_id field;
	double divisor;
} sensors[] = {
	{ "temperature", FIELD_TEMPERATURE, 1e3 },
	{ "throttle_temperature", FIELD_THROTTLE_AT, 1e3 },
	{ "shutdown_temperature", FIELD_SHUTDOWN_AT, 1e3 },
	{ "npu_clock", FIELD_CLOCK, 1 },
	{ "npu_clock_max", FIELD_CLOCK_MAX, 1 },
	{ "interconnect_clock", FIELD_CLOCK_NOC, 1 },
	{ "power", FIELD_POWER, 1e6 },
	{ "power_limit", FIELD_POWER_LIMIT, 1e6 },
	{ "energy", FIELD_ENERGY, 1e6 },
	{ "voltage", FIELD_VOLTS, 1e6 },
	{ "current", FIELD_AMPERES, 1e6 },
	{ "fan", FIELD_FAN, 1e6 },
	{ "throttling", FIELD_THROTTLING, 1 },
};

/* By qbrt_counter_name; those of one field are added. */
static const struct {
	const char *name;
	enum field_id field;
} counters[] = {
	{ "submitted", FIELD_SUBMITTED },
	{ "completed", FIELD_COMPLETED },
	{ "failed", FIELD_FAILED },
	{ "cancelled", FIELD_CANCELLED },
	{ "timeouts", FIELD_TIMEOUTS },
	{ "queue_resets", FIELD_RESETS },
	{ "core_resets", FIELD_RESETS },
	{ "device_resets", FIELD_RESETS },
	{ "programs_created", FIELD_PROGRAMS },
	{ "programs_rejected", FIELD_REJECTED },
	{ "bytes_read", FIELD_BYTES_IN },
	{ "bytes_written", FIELD_BYTES_OUT },
	{ "copy_bytes", FIELD_BYTES_COPIED },
	{ "macs", FIELD_MACS },
	{ "busy_ns", FIELD_BUSY_TIME },
	{ "wait_ns", FIELD_WAIT_TIME },
	{ "ecc_corrected", FIELD_ECC_CORRECTED },
	{ "ecc_uncorrected", FIELD_ECC_UNCORRECTED },
	{ "dma_refusals", FIELD_DMA_FAULTS },
	{ "device_lies", FIELD_DEVICE_LIES },
};

/* All fields of topics that nobody has set. */
static void mark_unread(struct record *device, const char *topics,
			enum reason reason, const char *detail)
{
	const struct list *list = list_get(LIST_DEVICES);

	for (size_t i = 0; i < list->num_fields; i++) {
		enum field_id field = list->first + (enum field_id)i;

		if (strstr(topics, field_get(field)->topic) &&
		    *field_get(field)->topic &&
		    !record_see(device, field)->is_set)
			set_absent(device, field, reason, detail);
	}
}

/* ---- one reading; value NULL: it is no number ---- */

static void set_sensor(struct record *device, uint32_t id, uint32_t index,
		       const int64_t *value)
{
	const char *name = qbrt_sensor_name(id);
	size_t i = 0;

	/* 0 is the hottest place, and the whole */
	while (i < NUM(sensors) && strcmp(sensors[i].name, name) != 0)
		i++;
	if (i == NUM(sensors) || index)
		return;
	if (!value)
		set_absent(device, sensors[i].field, REASON_INVALID, name);
	else if (field_get(sensors[i].field)->type == TYPE_BOOLEAN)
		set_boolean(device, sensors[i].field, *value != 0);
	else if (field_get(sensors[i].field)->type == TYPE_NUMBER)
		set_number(device, sensors[i].field,
			   (double)*value / sensors[i].divisor);
	else if (*value < 0)
		set_absent(device, sensors[i].field, REASON_INVALID, name);
	else
		set_integer(device, sensors[i].field, (uint64_t)*value);
}

static void set_counter(struct record *device, uint32_t id, uint32_t index,
			const int64_t *value)
{
	const char *name = qbrt_counter_name(id);
	const struct value *seen;
	uint64_t sum;
	size_t i = 0;

	while (i < NUM(counters) && strcmp(counters[i].name, name) != 0)
		i++;
	if (i == NUM(counters) || index)
		return;
	seen = record_see(device, counters[i].field);
	/* a sum without one of its parts is none */
	if (!seen->is_set && seen->reason == REASON_INVALID)
		return;
	sum = record_get_integer(device, counters[i].field, 0);
	if (!value || *value < 0 ||
	    __builtin_add_overflow(sum, (uint64_t)*value, &sum))
		set_absent(device, counters[i].field, REASON_INVALID, name);
	else
		set_integer(device, counters[i].field, sum);
}

/* last: 0 is not known. */
static void set_heartbeat(struct record *device, bool is_offered, int64_t last,
			  uint64_t now)
{
	if (!is_offered || !last)
		set_absent(device, FIELD_HEARTBEAT_AGE, REASON_ABSENT, NULL);
	else if (last < 0)
		set_absent(device, FIELD_HEARTBEAT_AGE, REASON_INVALID,
			   "heartbeat_ns");
	else
		set_integer(device, FIELD_HEARTBEAT_AGE,
			    now > (uint64_t)last ? now - (uint64_t)last : 0);
}

/* What follows from counters. */
static void set_queues(struct record *device)
{
	static const enum field_id ended[] = { FIELD_COMPLETED, FIELD_FAILED,
					       FIELD_CANCELLED };
	uint64_t in_flight = record_get_integer(device, FIELD_SUBMITTED, 0);
	bool is_known = record_see(device, FIELD_SUBMITTED)->is_set;
	uint64_t jobs;

	for (size_t i = 0; i < NUM(ended); i++) {
		uint64_t num = record_get_integer(device, ended[i], 0);

		is_known &= record_see(device, ended[i])->is_set;
		in_flight -= num < in_flight ? num : in_flight;
	}
	if (is_known)
		set_integer(device, FIELD_IN_FLIGHT, in_flight);
	if (!record_see(device, FIELD_COMPLETED)->is_set ||
	    !record_see(device, FIELD_FAILED)->is_set ||
	    __builtin_add_overflow(
		    record_get_integer(device, FIELD_COMPLETED, 0),
		    record_get_integer(device, FIELD_FAILED, 0), &jobs))
		return;
	if (!jobs) {
		set_absent(device, FIELD_MEAN_WAIT, REASON_ABSENT, NULL);
		set_absent(device, FIELD_MEAN_RUN, REASON_ABSENT, NULL);
		return;
	}
	if (record_see(device, FIELD_WAIT_TIME)->is_set)
		set_integer(device, FIELD_MEAN_WAIT,
			    record_get_integer(device, FIELD_WAIT_TIME, 0) /
				    jobs);
	if (record_see(device, FIELD_BUSY_TIME)->is_set)
		set_integer(device, FIELD_MEAN_RUN,
			    record_get_integer(device, FIELD_BUSY_TIME, 0) /
				    jobs);
}

/* A capture holds values, and not why others are null. */
void collect_listed_readings(struct record *device)
{
	static const enum field_id last[] = { FIELD_LAST_TIME,
					      FIELD_LAST_STATUS,
					      FIELD_LAST_TEXT };

	set_queues(device);
	if (record_get_text(device, FIELD_FIRMWARE) &&
	    !record_see(device, FIELD_HEARTBEAT_AGE)->is_set)
		set_absent(device, FIELD_HEARTBEAT_AGE, REASON_ABSENT, NULL);
	for (size_t i = 0; i < NUM(last); i++) {
		if (record_see(device, FIELD_SUBMITTED)->is_set &&
		    !record_get_text(device, last[i]))
			set_absent(device, last[i], REASON_ABSENT, NULL);
	}
}

/* ---- live ---- */

static uint64_t get_now(void)
{
	uint64_t now = 0;

	(void)collect_now(&now);
	return now;
}

static enum qbrt_status read_firmware(struct record *device,
				      const struct qbrt_accelerator *acc)
{
	struct qbrt_firmware_info info = { .size = sizeof(info) };
	enum qbrt_status status = qbrt_accelerator_query_firmware(acc, &info);

	if (status)
		return status == QBRT_NOT_IMPLEMENTED ? QBRT_OK : status;
	set_text(device, FIELD_FIRMWARE, info.version);
	set_text(device, FIELD_FIRMWARE_BUILD, info.build);
	if (info.flags & QBRT_FIRMWARE_CRC)
		set_integer(device, FIELD_FIRMWARE_CRC, info.crc);
	set_boolean(device, FIELD_FIRMWARE_SECURE,
		    info.flags & QBRT_FIRMWARE_SECURE);
	set_heartbeat(device, info.flags & QBRT_FIRMWARE_HEARTBEAT,
		      info.heartbeat, get_now());
	return QBRT_OK;
}

typedef enum qbrt_status (*query_readings)(const struct qbrt_accelerator *acc,
					   struct qbrt_reading *readings,
					   size_t max_readings,
					   size_t *num_readings);
typedef void (*set_reading)(struct record *device, uint32_t id, uint32_t index,
			    const int64_t *value);

static enum qbrt_status read_all(struct record *device,
				 const struct qbrt_accelerator *acc,
				 query_readings query, set_reading set)
{
	struct qbrt_reading *readings;
	size_t num, max;
	enum qbrt_status status = query(acc, NULL, 0, &max);

	if (status)
		return status;
	readings = inventory_alloc((max + 1) * sizeof(*readings));
	status = query(acc, readings, max, &num);
	if (status)
		return status;
	for (size_t i = 0; i < (num < max ? num : max); i++)
		set(device, readings[i].id, readings[i].index,
		    &readings[i].value);
	return QBRT_OK;
}

enum qbrt_status collect_counters(struct record *device,
				  const struct qbrt_accelerator *acc)
{
	enum qbrt_status status = read_all(
		device, acc, qbrt_accelerator_query_counters, set_counter);

	set_queues(device);
	return status;
}

enum qbrt_status collect_sensors(struct record *device,
				 const struct qbrt_accelerator *acc)
{
	return read_all(device, acc, qbrt_accelerator_query_sensors,
			set_sensor);
}

void collect_mark_failed(struct record *device, const char *topics,
			 enum qbrt_status status)
{
	enum reason reason = REASON_ERROR;

	if (status == QBRT_ACC_DEVICE_LOST)
		reason = REASON_GONE;
	else if (status == QBRT_ACC_PERMISSION_DENIED)
		reason = REASON_NO_PERMISSION;
	if (status)
		mark_unread(device, topics, reason, qbrt_error_detail());
}

static void read_device(struct record *device, const struct record *tool)
{
	struct qbrt_accelerator *acc;
	enum qbrt_status status = qbrt_accelerator_open(
		record_get_text(device, FIELD_NAME),
		(int)record_get_integer(device, FIELD_NUMBER, 0), &acc);

	if (status) {
		collect_mark_failed(
			device, "firmware queues clocks power thermal health",
			status);
		return;
	}
	collect_mark_failed(device, "firmware", read_firmware(device, acc));
	collect_mark_failed(device, "clocks power thermal",
			    collect_sensors(device, acc));
	status = collect_counters(device, acc);
	if (!status)
		status = collect_events(device, tool, acc);
	collect_mark_failed(device, "queues health", status);
	qbrt_accelerator_close(acc);
}

/* ---- recorded ---- */

/* The array of a query; NULL: it was not asked, or is marked as broken. */
static struct json_object *get_array(struct record *device,
				     struct json_object *query,
				     const char *name, const char *topics)
{
	struct json_object *array = reply_get(query, name);

	if (!array || json_object_is_type(array, json_type_array))
		return array;
	mark_unread(device, topics, REASON_INVALID, name);
	return NULL;
}

static void take_all(struct record *device, struct json_object *array,
		     set_reading set)
{
	size_t num = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < num; i++) {
		struct json_object *one = json_object_array_get_idx(array, i);
		uint64_t id, index;
		int64_t value;

		/* of what is not told */
		if (reply_find_count(one, "id", UINT32_MAX, &id) !=
			    MEMBER_VALUE ||
		    reply_find_count(one, "index", UINT32_MAX, &index) !=
			    MEMBER_VALUE)
			continue;
		set(device, (uint32_t)id, (uint32_t)index,
		    reply_find_number(one, "value", &value) == MEMBER_VALUE
			    ? &value
			    : NULL);
	}
}

static void take_firmware(struct record *device, struct json_object *firmware,
			  uint64_t now)
{
	uint64_t flags;
	int64_t last;
	enum member has_last =
		reply_find_number(firmware, "heartbeat_ns", &last);
	enum member has_flags =
		reply_find_count(firmware, "flags", UINT32_MAX, &flags);

	reply_set_text(device, FIELD_FIRMWARE_BUILD, firmware, "build");
	/* kernel.md 2.1: bit 1 crc known, bit 2 secure, bit 3 heartbeat */
	if (flags & 2)
		reply_set_count(device, FIELD_FIRMWARE_CRC, firmware, "crc");
	if (has_flags == MEMBER_VALUE)
		set_boolean(device, FIELD_FIRMWARE_SECURE, flags & 4);
	else if (has_flags == MEMBER_INVALID)
		set_absent(device, FIELD_FIRMWARE_SECURE, REASON_INVALID,
			   "flags");
	if (has_flags == MEMBER_VALUE)
		set_heartbeat(device, flags & 8,
			      has_last == MEMBER_INVALID ? -1 : last, now);
	else if (has_flags == MEMBER_INVALID)
		set_absent(device, FIELD_HEARTBEAT_AGE, REASON_INVALID,
			   "flags");
}

void collect_reply_sensors(struct record *device, struct json_object *query)
{
	take_all(device,
		 get_array(device, query, "SENSORS", "clocks power thermal"),
		 set_sensor);
}

void collect_reply_counters(struct record *device, struct json_object *query)
{
	take_all(device, get_array(device, query, "COUNTERS", "queues health"),
		 set_counter);
	set_queues(device);
}

void collect_reply_readings(const struct inventory *inventory,
			    struct record *device, struct json_object *query)
{
	struct json_object *events;

	take_firmware(
		device, reply_get(query, "FIRMWARE"),
		record_get_integer(inventory->tool, FIELD_TOOL_MONOTONIC, 0));
	collect_reply_sensors(device, query);
	collect_reply_counters(device, query);
	events = get_array(device, query, "EVENTS", "health");
	if (events)
		collect_reply_events(device, inventory->tool, events);
}

/* ---- all ---- */

void collect_readings(struct inventory *inventory)
{
	static const enum field_id rates[] = { FIELD_BUSY, FIELD_BUSY_WINDOW,
					       FIELD_PER_CORE };

	for (struct record *device = inventory->devices.first; device;
	     device = device->next) {
		if (!source_get_sysroot())
			read_device(device, inventory->tool);
		collect_health(inventory, device);
		for (size_t i = 0; i < NUM(rates); i++)
			set_absent(device, rates[i], REASON_NEEDS_INTERVAL,
				   NULL);
	}
}
