// SPDX-License-Identifier: MIT
/* Queries that fail: arguments, refusals of the driver, memory that runs out. */
#include "check-accelerator-query.h"

#include <errno.h>
#include <string.h>

#include "count-alloc.h"
#include "util.h"

/* Each query by its type, with room for one. */
static enum qbrt_status ask(uint32_t type, const struct qbrt_accelerator *acc,
			    void *room, size_t *num)
{
	switch (type) {
	case DRM_QBNPU_QUERY_SENSORS:
		return qbrt_accelerator_query_sensors(acc, room, 1, num);
	case DRM_QBNPU_QUERY_COUNTERS:
		return qbrt_accelerator_query_counters(acc, room, 1, num);
	case DRM_QBNPU_QUERY_CORES:
		return qbrt_accelerator_query_core_states(acc, room, 1, num);
	case DRM_QBNPU_QUERY_EVENTS:
		return qbrt_accelerator_query_events(acc, 0, room, 1, num);
	default:
		return qbrt_accelerator_query_firmware(acc, room);
	}
}

static const struct {
	uint32_t type;
	const char *word; /* of each sentence */
} queries[] = {
	{ DRM_QBNPU_QUERY_SENSORS, "sensors" },
	{ DRM_QBNPU_QUERY_COUNTERS, "counters" },
	{ DRM_QBNPU_QUERY_CORES, "cores" },
	{ DRM_QBNPU_QUERY_EVENTS, "events" },
	{ DRM_QBNPU_QUERY_FIRMWARE, "firmware" },
};

#define NUM_ASKED qbrt_array_size(queries)

/* Room that is as it was before; a firmware's size is set. */
struct room {
	union {
		size_t size;
		uint8_t bytes[64];
	};
	size_t num;
};

static struct room make_room(void)
{
	struct room room;

	memset(&room, 0x5a, sizeof(room));
	room.size = sizeof(struct qbrt_firmware_info);
	return room;
}

/* Q615 Q612 */
START_TEST(a_refused_query_has_its_status_and_changes_nothing)
{
	static const struct {
		int err;
		enum qbrt_status status;
		const char *words;
	} refusals[] = {
		{ -ENODEV, QBRT_ACC_DEVICE_LOST, "aries-rb:0" },
		{ -EOPNOTSUPP, QBRT_NOT_IMPLEMENTED, "aries-rb:0" },
		{ -ENOMEM, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "aries-rb:0" },
		{ -EINVAL, QBRT_INTERNAL_ERROR, "QUERY answered EINVAL" },
		{ -EFAULT, QBRT_INTERNAL_ERROR, "QUERY answered EFAULT" },
		{ -EIO, QBRT_ACC_DRIVER_PROTOCOL, "QUERY answered EIO" },
	};
	struct qbrt_accelerator *acc = open_device();

	for (size_t i = 0; i < NUM_ASKED; i++) {
		for (size_t j = 0; j < qbrt_array_size(refusals); j++) {
			struct room room = make_room(), before = room;

			set_error(queries[i].type, refusals[j].err);
			ck_assert_status(ask(queries[i].type, acc, room.bytes,
					     &room.num),
					 refusals[j].status);
			ck_assert_detail(queries[i].word);
			ck_assert_detail(refusals[j].words);
			ck_assert_mem_eq(&room, &before, sizeof(room));
		}
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q733 */
START_TEST(null_arguments_are_refused)
{
	struct qbrt_accelerator *acc = open_device();

	for (size_t i = 0; i < NUM_ASKED; i++) {
		const bool is_array =
			queries[i].type != DRM_QBNPU_QUERY_FIRMWARE;
		struct room room = make_room(), before = room;

		ck_assert_status(
			ask(queries[i].type, NULL, room.bytes, &room.num),
			QBRT_INVALID_ARGUMENT);
		ck_assert_detail("acc");
		ck_assert_status(ask(queries[i].type, acc, NULL, &room.num),
				 QBRT_INVALID_ARGUMENT);
		ck_assert_detail(is_array ? "but max_" : "info");
		if (is_array) {
			ck_assert_status(
				ask(queries[i].type, acc, room.bytes, NULL),
				QBRT_INVALID_ARGUMENT);
			ck_assert_detail("num_");
		}
		ck_assert_mem_eq(&room, &before, sizeof(room));
		ck_assert_uint_eq(replies[queries[i].type].num_asked, 0);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* ST7 Q615 */
START_TEST(each_failing_allocation_fails_the_query)
{
	const struct drm_qbnpu_query_firmware firmware = {
		.version = "1",
	};
	struct qbrt_accelerator *acc = open_device();

	for (size_t i = 0; i < NUM_ASKED; i++) {
		long n = 0, num_allocations;

		set_reply(queries[i].type, &firmware, 48);
		do {
			struct room room = make_room(), before = room;
			enum qbrt_status status;

			count_alloc_begin(++n);
			status = ask(queries[i].type, acc, room.bytes,
				     &room.num);
			num_allocations = count_alloc_end();
			if (num_allocations < n) {
				ck_assert_ok(status);
				continue;
			}
			ck_assert_status(
				status,
				QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
			ck_assert_mem_eq(&room, &before, sizeof(room));
		} while (num_allocations >= n);
		ck_assert_int_eq(n, 2);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

void add_refuse_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_refused_query_has_its_status_and_changes_nothing),
		QBRT_TEST(null_arguments_are_refused),
		QBRT_TEST(each_failing_allocation_fails_the_query),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
