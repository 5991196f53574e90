// SPDX-License-Identifier: MIT
/*
 * Answers of drivers that hardware has: sensors, firmware, numbers that this
 * library does not know, arrays that are longer, shorter or grow.
 */
#include "check-accelerator-query.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "counters.h"
#include "util.h"

#define MANY 3000u /* more than the first question has room for */

/* Q735: as the page says, and no compiler adds to them */
START_TEST(structs_have_their_sizes)
{
	ck_assert_uint_eq(sizeof(struct qbrt_reading), 16);
	ck_assert_uint_eq(sizeof(struct qbrt_core_state), 40);
	ck_assert_uint_eq(sizeof(struct qbrt_device_event), 48);
	ck_assert_uint_eq(sizeof(struct qbrt_device_limits), 56);
	ck_assert_uint_eq(sizeof(struct qbrt_firmware_info), 48);
}
END_TEST

static const struct drm_qbnpu_query_value hot[] = {
	{ DRM_QBNPU_SENSOR_TEMPERATURE, 0, 61500 },
	{ DRM_QBNPU_SENSOR_TEMPERATURE, 1, -2000 },
	{ DRM_QBNPU_SENSOR_POWER, 0, 8100000 },
	{ 77, 3, INT64_MAX }, /* of a newer driver */
};

/* Q722: in the driver's order, absent ones absent, unknown ones too */
START_TEST(sensors_are_told_as_the_driver_has_them)
{
	struct qbrt_accelerator *acc = open_device();
	struct qbrt_reading readings[5], untouched;
	size_t num = 77;

	set_reply(DRM_QBNPU_QUERY_SENSORS, hot, sizeof(hot));
	memset(readings, 0x5a, sizeof(readings));
	untouched = readings[4];
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, readings, 5, &num));
	ck_assert_uint_eq(num, 4);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(readings[i].id, hot[i].id);
		ck_assert_uint_eq(readings[i].index, hot[i].index);
		ck_assert_int_eq(readings[i].value, hot[i].value);
	}
	ck_assert_mem_eq(&readings[4], &untouched, sizeof(untouched));
	ck_assert_str_eq(qbrt_sensor_name(readings[1].id), "temperature");
	ck_assert_str_eq(qbrt_sensor_name(readings[3].id), "Unknown");
	ck_assert_uint_eq(replies[DRM_QBNPU_QUERY_SENSORS].num_asked, 1);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q722: num is what exists, at most max are written */
START_TEST(a_short_array_gets_what_fits_and_the_number)
{
	struct qbrt_accelerator *acc = open_device();
	struct qbrt_reading readings[2], untouched;
	struct qbrt_core_state states[3], same_state;
	struct qbrt_device_event event, same_event;
	size_t num = 77;

	set_reply(DRM_QBNPU_QUERY_SENSORS, hot, sizeof(hot));
	memset(readings, 0x5a, sizeof(readings));
	untouched = readings[1];
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, NULL, 0, &num));
	ck_assert_uint_eq(num, 4);
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, readings, 0, &num));
	ck_assert_mem_eq(&readings[0], &untouched, sizeof(untouched));
	ck_assert_ok(qbrt_accelerator_query_sensors(acc, readings, 1, &num));
	ck_assert_uint_eq(num, 4);
	ck_assert_int_eq(readings[0].value, 61500);
	ck_assert_mem_eq(&readings[1], &untouched, sizeof(untouched));

	memset(states, 0x5a, sizeof(states));
	same_state = states[2];
	ck_assert_ok(qbrt_accelerator_query_core_states(acc, states, 2, &num));
	ck_assert_uint_eq(num, 10);
	ck_assert_int_eq(states[1].core_id.core, QBRT_CORE_1);
	ck_assert_mem_eq(&states[2], &same_state, sizeof(same_state));

	memset(&event, 0x5a, sizeof(event));
	same_event = event;
	ck_assert_ok(qbrt_accelerator_query_events(acc, 0, &event, 0, &num));
	ck_assert_uint_eq(num, 1);
	ck_assert_mem_eq(&event, &same_event, sizeof(event));
	qbrt_accelerator_close(acc);
}
END_TEST

/* K030: more than is usual, and a rest that is no whole element */
START_TEST(long_arrays_come_whole)
{
	static struct drm_qbnpu_query_value many[MANY];
	static struct qbrt_reading readings[MANY];
	struct qbrt_accelerator *acc = open_device();
	struct reply *reply = &replies[DRM_QBNPU_QUERY_COUNTERS];
	size_t num;

	for (uint32_t i = 0; i < MANY; i++)
		many[i] = (struct drm_qbnpu_query_value){ 5000 + i, i, i };
	set_reply(DRM_QBNPU_QUERY_COUNTERS, many, sizeof(many));
	ck_assert_ok(
		qbrt_accelerator_query_counters(acc, readings, MANY, &num));
	ck_assert_uint_eq(num, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_uint_eq(readings[i].id, 5000 + i);
		ck_assert_int_eq(readings[i].value, i);
	}
	ck_assert_uint_eq(reply->num_asked, 2);

	set_reply(DRM_QBNPU_QUERY_COUNTERS, many, sizeof(many[0]) * 2 + 7);
	memset(readings, 0x5a, sizeof(readings));
	ck_assert_ok(qbrt_accelerator_query_counters(acc, readings, 3, &num));
	ck_assert_uint_eq(num, 2);
	ck_assert_uint_eq(readings[1].id, 5001);
	ck_assert_uint_eq(readings[2].id, 0x5a5a5a5a);
	qbrt_accelerator_close(acc);
}
END_TEST

/* One more comes between two questions; then without end. */
START_TEST(arrays_that_grow_are_asked_for_again_and_not_for_ever)
{
	static struct drm_qbnpu_query_value many[MANY];
	struct qbrt_accelerator *acc = open_device();
	struct reply *reply = &replies[DRM_QBNPU_QUERY_COUNTERS];
	struct qbrt_reading reading, untouched;
	size_t num = 77;

	memset(&reading, 0x5a, sizeof(reading));
	untouched = reading;
	set_reply(DRM_QBNPU_QUERY_COUNTERS, many, 2000 * sizeof(many[0]));
	reply->grows = sizeof(many[0]);
	ck_assert_status(
		qbrt_accelerator_query_counters(acc, &reading, 1, &num),
		QBRT_ACC_DRIVER_PROTOCOL);
	ck_assert_detail("counters");
	ck_assert_uint_eq(num, 77);
	ck_assert_mem_eq(&reading, &untouched, sizeof(reading));
	ck_assert_uint_eq(reply->num_asked, 4);

	set_reply(DRM_QBNPU_QUERY_COUNTERS, NULL, 0);
	reply->size = UINT32_MAX - 15;
	reply->data = many;
	ck_assert_status(
		qbrt_accelerator_query_counters(acc, &reading, 0, &num),
		QBRT_ACC_DRIVER_PROTOCOL);
	ck_assert_uint_eq(reply->num_asked, 1);
	ck_assert_uint_eq(num, 77);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q722: what this library does not know of cores */
START_TEST(odd_cores_are_passed_on)
{
	const struct drm_qbnpu_query_core cores[] = {
		{ .cluster = 1, .core = 7, .state = DRM_QBNPU_CORE_STUCK },
		{ .cluster = 0, .core = 9, .state = DRM_QBNPU_CORE_OFF },
		{ .cluster = 8, .core = 0, .state = 4 },
		{ .cluster = 1,
		  .core = 12,
		  .kind = DRM_QBNPU_CORE_GLOBAL,
		  .state = DRM_QBNPU_CORE_BUSY,
		  .busy_ns = UINT64_MAX,
		  .jobs = UINT64_MAX,
		  .queued = 3,
		  .resets = 2 },
	};
	struct qbrt_accelerator *acc = open_device();
	struct qbrt_core_state states[4];
	size_t num;

	set_reply(DRM_QBNPU_QUERY_CORES, cores, sizeof(cores));
	ck_assert_ok(qbrt_accelerator_query_core_states(acc, states, 4, &num));
	ck_assert_uint_eq(num, 4);
	ck_assert_int_eq(states[0].core_id.cluster, QBRT_CLUSTER_1);
	ck_assert_int_eq(states[0].core_id.core, 8);
	ck_assert_int_eq(states[0].activity, QBRT_CORE_ACTIVITY_STUCK);
	ck_assert_int_eq(states[1].core_id.core, QBRT_CORE_ERROR);
	ck_assert_int_eq(states[1].activity, QBRT_CORE_ACTIVITY_OFF);
	ck_assert_int_eq(states[2].core_id.cluster, QBRT_CLUSTER_ERROR);
	ck_assert_int_eq(states[2].activity, QBRT_CORE_ACTIVITY_OFF);
	ck_assert_int_eq(states[3].core_id.cluster, QBRT_CLUSTER_1);
	ck_assert_int_eq(states[3].core_id.core, QBRT_CORE_GLOBAL);
	ck_assert_int_eq(states[3].activity, QBRT_CORE_ACTIVITY_BUSY);
	ck_assert_int_eq(states[3].busy_time, INT64_MAX);
	ck_assert_uint_eq(states[3].jobs, UINT64_MAX);
	ck_assert_uint_eq(states[3].queued, 3);
	ck_assert_uint_eq(states[3].resets, 2);
	qbrt_accelerator_close(acc);
}
END_TEST

static const struct {
	struct drm_qbnpu_query_event event;
	enum qbrt_status status;
	enum qbrt_cluster cluster;
	enum qbrt_core core;
} happenings[] = {
	{ { 9, 1, 6, 0, 0, DRM_QBNPU_NONE, { 0 } },
	  QBRT_OK,
	  QBRT_CLUSTER_ERROR,
	  QBRT_CORE_ERROR },
	{ { 10, 2, 8, -EIO, 5, 9, { 4, 0 } },
	  QBRT_MODEL_PREDICT_ERROR,
	  QBRT_CLUSTER_1,
	  QBRT_CORE_1 },
	{ { 11, 2, 3, -ETIMEDOUT, 5, 3, { 5, 0 } },
	  QBRT_ACC_NPU_TIMEOUT,
	  QBRT_CLUSTER_0,
	  QBRT_CORE_3 },
	{ { 12, 3, 8, -ENOMEM, 0, 0, { 0, 7 } },
	  QBRT_BAD_ALLOC,
	  QBRT_CLUSTER_0,
	  QBRT_CORE_0 },
	{ { 13, 4, 8, -ECANCELED, 0, 4, { 0 } },
	  QBRT_CANCELLED,
	  QBRT_CLUSTER_0,
	  QBRT_CORE_GLOBAL },
	{ { 14, 5, 14, -EIO, 0, 64, { 6, 0 } },
	  QBRT_ACC_DRIVER_PROTOCOL,
	  QBRT_CLUSTER_ERROR,
	  QBRT_CORE_ERROR },
	{ { 15, 6, 7, -ENODEV, 0, DRM_QBNPU_NONE, { 0 } },
	  QBRT_ACC_DEVICE_LOST,
	  QBRT_CLUSTER_ERROR,
	  QBRT_CORE_ERROR },
	{ { 16, 6, 99, 0, 0, DRM_QBNPU_NONE, { 1, 2 } },
	  QBRT_OK,
	  QBRT_CLUSTER_ERROR,
	  QBRT_CORE_ERROR },
};

#define NUM_HAPPENINGS qbrt_array_size(happenings)

/* Q722 Q615 Q616 K114 K121 */
START_TEST(events_have_the_status_of_their_jobs)
{
	struct drm_qbnpu_query_event all[NUM_HAPPENINGS];
	struct qbrt_device_event events[NUM_HAPPENINGS];
	struct qbrt_accelerator *acc = open_device();
	size_t num;

	for (size_t i = 0; i < NUM_HAPPENINGS; i++)
		all[i] = happenings[i].event;
	set_reply(DRM_QBNPU_QUERY_EVENTS, all, sizeof(all));
	/* 1 to 8 are lost, which the first number says */
	ck_assert_ok(qbrt_accelerator_query_events(acc, 1, events,
						   NUM_HAPPENINGS, &num));
	ck_assert_uint_eq(num, NUM_HAPPENINGS);
	for (size_t i = 0; i < num; i++) {
		ck_assert_uint_eq(events[i].sequence, 9 + i);
		ck_assert_int_eq(events[i].time, all[i].time_ns);
		ck_assert_uint_eq(events[i].kind, all[i].kind);
		ck_assert_int_eq(events[i].status, happenings[i].status);
		ck_assert_int_eq(events[i].core_id.cluster,
				 happenings[i].cluster);
		ck_assert_int_eq(events[i].core_id.core, happenings[i].core);
		ck_assert_mem_eq(events[i].args, all[i].arg,
				 sizeof(all[i].arg));
	}
	ck_assert_str_eq(qbrt_device_event_name(events[7].kind), "Unknown");
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q722: also where the request cannot say so: its numbers end at 2^32 - 1 */
START_TEST(events_begin_where_they_were_asked_for)
{
	struct drm_qbnpu_query_event all[] = {
		{ .seq = UINT32_MAX, .kind = 1, .core = DRM_QBNPU_NONE },
		{ .seq = UINT64_C(1) << 32, .kind = 2, .core = DRM_QBNPU_NONE },
		{ .seq = (UINT64_C(1) << 32) + 1,
		  .kind = 1,
		  .core = DRM_QBNPU_NONE },
	};
	struct qbrt_accelerator *acc = open_device();
	struct qbrt_device_event event;
	size_t num;

	ck_assert_ok(qbrt_accelerator_query_events(acc, 2, NULL, 0, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert_uint_eq(replies[DRM_QBNPU_QUERY_EVENTS].index, 2);
	set_reply(DRM_QBNPU_QUERY_EVENTS, all, sizeof(all));
	ck_assert_ok(qbrt_accelerator_query_events(acc, (UINT64_C(1) << 32) + 1,
						   &event, 1, &num));
	ck_assert_uint_eq(num, 1);
	ck_assert_uint_eq(event.sequence, (UINT64_C(1) << 32) + 1);
	ck_assert_uint_eq(replies[DRM_QBNPU_QUERY_EVENTS].index, UINT32_MAX);
	ck_assert_ok(qbrt_accelerator_query_events(acc, UINT64_MAX, &event, 1,
						   &num));
	ck_assert_uint_eq(num, 0);
	qbrt_accelerator_close(acc);
}
END_TEST

static struct drm_qbnpu_query_firmware make_firmware(uint32_t flags)
{
	struct drm_qbnpu_query_firmware firmware = {
		.flags = flags,
		.crc = 0xdeadbeef,
		.heartbeat_ns = 123,
		.version = "1.4.0",
		.build = "2026-01-31",
		.uptime_ns = 456,
	};

	return firmware;
}

/* Q722 Q735 */
START_TEST(firmware_is_told_with_what_is_known_of_it)
{
	struct drm_qbnpu_query_firmware firmware = make_firmware(15);
	struct qbrt_accelerator *acc = open_device();
	struct qbrt_firmware_info info = { .size = sizeof(info) };

	set_reply(DRM_QBNPU_QUERY_FIRMWARE, &firmware, sizeof(firmware));
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &info));
	ck_assert_str_eq(info.version, "1.4.0");
	ck_assert_str_eq(info.build, "2026-01-31");
	ck_assert_int_eq(info.heartbeat, 123);
	ck_assert_int_eq(info.uptime, 456);
	ck_assert_uint_eq(info.crc, 0xdeadbeef);
	ck_assert_uint_eq(info.flags, QBRT_FIRMWARE_CRC | QBRT_FIRMWARE_SECURE |
					      QBRT_FIRMWARE_HEARTBEAT);
	firmware = make_firmware(0);
	firmware.uptime_ns = UINT64_MAX;
	memset(firmware.build, 0, sizeof(firmware.build));
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &info));
	ck_assert_ptr_null(info.version);
	ck_assert_ptr_null(info.build);
	ck_assert_int_eq(info.heartbeat, 0);
	ck_assert_int_eq(info.uptime, INT64_MAX);
	ck_assert_uint_eq(info.crc, 0);
	ck_assert_uint_eq(info.flags, 0);
	/* a driver that tells less than it could */
	firmware = make_firmware(15);
	replies[DRM_QBNPU_QUERY_FIRMWARE].size =
		offsetof(struct drm_qbnpu_query_firmware, build);
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &info));
	ck_assert_str_eq(info.version, "1.4.0");
	ck_assert_ptr_null(info.build);
	ck_assert_int_eq(info.uptime, 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q736: the strings stay, also when the driver says something else later */
START_TEST(firmware_strings_live_as_long_as_the_accelerator)
{
	struct drm_qbnpu_query_firmware firmware = make_firmware(1);
	struct qbrt_firmware_info first = { .size = sizeof(first) };
	struct qbrt_firmware_info second = { .size = sizeof(second) };
	struct qbrt_accelerator *acc = open_device();
	const char *version;

	set_reply(DRM_QBNPU_QUERY_FIRMWARE, &firmware, sizeof(firmware));
	memset(firmware.version, 'v', sizeof(firmware.version));
	memset(firmware.build, 'b', sizeof(firmware.build));
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &first));
	version = first.version;
	ck_assert_uint_eq(strlen(first.version), 47);
	ck_assert_uint_eq(strlen(first.build), 47);
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &first));
	ck_assert_ptr_eq(first.version, version);
	strcpy(firmware.version, "2.0.0");
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &second));
	ck_assert_str_eq(second.version, "2.0.0");
	ck_assert_uint_eq(strlen(first.version), 47);
	ck_assert_uint_eq(strlen(first.build), 47);
	qbrt_accelerator_close(acc);
}
END_TEST

static void *ask_firmware(void *arg)
{
	struct qbrt_firmware_info info = { .size = sizeof(info) };

	for (int i = 0; i < 100; i++) {
		if (qbrt_accelerator_query_firmware(arg, &info) ||
		    strcmp(info.version, "1.4.0") != 0)
			return arg;
	}
	return NULL;
}

/* Q722: any thread, and the first answers may come at once */
START_TEST(threads_may_ask_for_firmware_together)
{
	const struct drm_qbnpu_query_firmware firmware = make_firmware(15);
	struct qbrt_accelerator *acc = open_device();
	pthread_t threads[4];
	void *failed;

	set_reply(DRM_QBNPU_QUERY_FIRMWARE, &firmware, sizeof(firmware));
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, ask_firmware, acc),
			0);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q735 */
START_TEST(a_firmware_struct_of_another_size_is_filled_so_far)
{
	struct drm_qbnpu_query_firmware firmware = make_firmware(15);
	struct qbrt_accelerator *acc = open_device();
	struct {
		struct qbrt_firmware_info info;
		uint64_t tail;
	} room;

	set_reply(DRM_QBNPU_QUERY_FIRMWARE, &firmware, sizeof(firmware));
	memset(&room, 0x5a, sizeof(room));
	room.info.size = offsetof(struct qbrt_firmware_info, build);
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &room.info));
	ck_assert_str_eq(room.info.version, "1.4.0");
	ck_assert_uint_eq(room.info.crc, 0x5a5a5a5a);
	room.info.size = sizeof(room);
	ck_assert_ok(qbrt_accelerator_query_firmware(acc, &room.info));
	ck_assert_uint_eq(room.info.crc, 0xdeadbeef);
	ck_assert_uint_eq(room.info.size, sizeof(room));
	ck_assert_uint_eq(room.tail, 0);
	room.info.size = sizeof(size_t) - 1;
	ck_assert_status(qbrt_accelerator_query_firmware(acc, &room.info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("size");
	qbrt_accelerator_close(acc);
}
END_TEST
/* Q721: the words of docs/spec/kernel.md, 2.1 and 2.2 */
START_TEST(numbers_have_names)
{
	ck_assert_str_eq(qbrt_sensor_name(0), "Unknown");
	ck_assert_str_eq(qbrt_sensor_name(1), "temperature");
	ck_assert_str_eq(qbrt_sensor_name(7), "power");
	ck_assert_str_eq(qbrt_sensor_name(13), "throttling");
	ck_assert_str_eq(qbrt_sensor_name(14), "Unknown");
	ck_assert_str_eq(qbrt_counter_name(0), "Unknown");
	ck_assert_str_eq(qbrt_counter_name(1), "submitted");
	ck_assert_str_eq(qbrt_counter_name(15), "busy_ns");
	ck_assert_str_eq(qbrt_counter_name(23), "device_lies");
	ck_assert_str_eq(qbrt_counter_name(24), "Unknown");
	ck_assert_str_eq(qbrt_counter_name(1000), "Unknown");
	ck_assert_str_eq(qbrt_counter_name(1001), "rejected_by_rule");
	ck_assert_str_eq(qbrt_counter_name(1999), "rejected_by_rule");
	ck_assert_str_eq(qbrt_counter_name(2000), "Unknown");
	ck_assert_str_eq(qbrt_device_event_name(0), "Unknown");
	ck_assert_str_eq(qbrt_device_event_name(1), "attach");
	ck_assert_str_eq(qbrt_device_event_name(14), "device_lied");
	ck_assert_str_eq(qbrt_device_event_name(15), "Unknown");
	for (uint32_t i = 1; i < 14; i++) {
		ck_assert_str_ne(qbrt_sensor_name(i), "Unknown");
		ck_assert_str_ne(qbrt_device_event_name(i), "Unknown");
	}
	for (uint32_t i = 1; i < 24; i++)
		ck_assert_str_ne(qbrt_counter_name(i), "Unknown");
	ck_assert_str_eq(qbrt_sensor_name(UINT32_MAX), "Unknown");
	ck_assert_str_eq(qbrt_counter_name(UINT32_MAX), "Unknown");
	ck_assert_str_eq(qbrt_device_event_name(UINT32_MAX), "Unknown");
}
END_TEST

void add_reply_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(structs_have_their_sizes),
		QBRT_TEST(numbers_have_names),
		QBRT_TEST(sensors_are_told_as_the_driver_has_them),
		QBRT_TEST(a_short_array_gets_what_fits_and_the_number),
		QBRT_TEST(long_arrays_come_whole),
		QBRT_TEST(
			arrays_that_grow_are_asked_for_again_and_not_for_ever),
		QBRT_TEST(odd_cores_are_passed_on),
		QBRT_TEST(events_have_the_status_of_their_jobs),
		QBRT_TEST(events_begin_where_they_were_asked_for),
		QBRT_TEST(firmware_is_told_with_what_is_known_of_it),
		QBRT_TEST(firmware_strings_live_as_long_as_the_accelerator),
		QBRT_TEST(threads_may_ask_for_firmware_together),
		QBRT_TEST(a_firmware_struct_of_another_size_is_filled_so_far),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
