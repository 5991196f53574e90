// SPDX-License-Identifier: MIT
/*
 * Events of a device, of which the last error is shown, and the time of day of
 * an instant of CLOCK_MONOTONIC.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>
#include <qbruntime/qbrt.h>

#include "collect.h"
#include "reply.h"

#define NUM(array) (sizeof(array) / sizeof(*(array)))
#define NS_PER_SEC INT64_C(1000000000)

/* ---- the last error ---- */

static void set_no_error(struct record *device)
{
	set_absent(device, FIELD_LAST_TIME, REASON_ABSENT, NULL);
	set_absent(device, FIELD_LAST_STATUS, REASON_ABSENT, NULL);
	set_absent(device, FIELD_LAST_TEXT, REASON_ABSENT, NULL);
}

static bool is_error(const char *event)
{
	static const char *const errors[] = {
		"timeout",
		"queue_reset",
		"core_reset",
		"device_reset",
		"lost",
		"job_error",
		"device_lied",
		"ecc_uncorrected",
		"heartbeat_missing",
	};

	for (size_t i = 0; i < NUM(errors); i++) {
		if (!strcmp(errors[i], event))
			return true;
	}
	return false;
}

static int get_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30,
				    31, 31, 30, 31, 30, 31 };
	bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && is_leap);
}

/*
 * By the two times of the tool, counted by hand: libc would read the time zone,
 * which lies outside of --sysroot.
 */
const char *collect_time_at(const struct record *tool, int64_t monotonic)
{
	static const int64_t ns_per_day = 86400 * NS_PER_SEC;
	const char *text = record_get_text(tool, FIELD_TOOL_TIME) ?: "";
	int64_t since =
		(int64_t)record_get_integer(tool, FIELD_TOOL_MONOTONIC, 0);
	int year, month, day, hour, minute, second;
	long ns;
	int64_t time;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%9ldZ", &year, &month, &day,
		   &hour, &minute, &second, &ns) != 7 ||
	    month < 1 || month > 12 || monotonic < 0 || since < 0 ||
	    __builtin_add_overflow(
		    (hour * INT64_C(3600) + minute * 60 + second) * NS_PER_SEC +
			    ns,
		    monotonic - since, &time))
		return NULL;
	for (; time < 0; time += ns_per_day) {
		if (--day > 0)
			continue;
		year -= month == 1;
		month = month == 1 ? 12 : month - 1;
		day = get_days(year, month);
	}
	for (; time >= ns_per_day; time -= ns_per_day) {
		if (++day <= get_days(year, month))
			continue;
		year += month == 12;
		month = month == 12 ? 1 : month + 1;
		day = 1;
	}
	second = (int)(time / NS_PER_SEC);
	return inventory_format("%04d-%02d-%02dT%02d:%02d:%02d.%09" PRId64 "Z",
				year, month, day, second / 3600,
				second / 60 % 60, second % 60,
				time % NS_PER_SEC);
}

static void set_last_time(struct record *device, const struct record *tool,
			  int64_t monotonic)
{
	const char *time =
		(uint64_t)monotonic > record_get_integer(
					      tool, FIELD_TOOL_MONOTONIC, 0)
			? NULL
			: collect_time_at(tool, monotonic);

	set_text(device, FIELD_LAST_TIME, time);
	if (!time)
		set_absent(device, FIELD_LAST_TIME, REASON_INVALID, "time");
}

static void set_event(struct record *device, const struct record *tool,
		      uint32_t kind, int64_t time)
{
	char *text = inventory_copy(qbrt_device_event_name(kind));

	if (!is_error(text))
		return;
	for (char *c = text; *c; c++) {
		if (*c == '_')
			*c = ' ';
	}
	set_last_time(device, tool, time);
	set_text(device, FIELD_LAST_TEXT, text);
}

enum qbrt_status collect_events(struct record *device,
				const struct record *tool,
				const struct qbrt_accelerator *acc)
{
	static struct qbrt_device_event events[256];
	size_t num;
	enum qbrt_status status = qbrt_accelerator_query_events(
		acc, 0, events, NUM(events), &num);

	if (status)
		return status;
	set_no_error(device);
	for (size_t i = 0; i < num && i < NUM(events); i++) {
		if (!is_error(qbrt_device_event_name(events[i].kind)))
			continue;
		set_event(device, tool, events[i].kind, events[i].time);
		set_absent(device, FIELD_LAST_STATUS, REASON_ABSENT, NULL);
		if (events[i].status)
			set_text(device, FIELD_LAST_STATUS,
				 qbrt_status_name(events[i].status));
	}
	return QBRT_OK;
}

/* Which may be the error that a broken one hides. */
void collect_reply_events(struct record *device, const struct record *tool,
			  struct json_object *events)
{
	set_no_error(device);
	for (size_t i = 0; i < json_object_array_length(events); i++) {
		struct json_object *one = json_object_array_get_idx(events, i);
		uint64_t kind;
		int64_t time;

		/* its errno gets a status in the library alone */
		if (reply_find_number(one, "time_ns", &time) == MEMBER_VALUE &&
		    reply_find_count(one, "kind", UINT32_MAX, &kind) ==
			    MEMBER_VALUE) {
			set_event(device, tool, (uint32_t)kind, time);
			continue;
		}
		set_absent(device, FIELD_LAST_TIME, REASON_INVALID, "EVENTS");
		set_absent(device, FIELD_LAST_TEXT, REASON_INVALID, "EVENTS");
	}
}
