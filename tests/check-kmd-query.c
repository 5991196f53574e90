// SPDX-License-Identifier: MIT
/*
 * QUERY: facts, accounts, counters, events (docs/spec/kernel.md, 2.1, 2.2,
 * 2.7).
 */
#include "check-kmd.h"

#include <errno.h>
#include <string.h>

#include "util.h"

static uint32_t query(uint32_t type, uint32_t index, uint32_t flags, void *data,
		      uint32_t size)
{
	struct drm_qbnpu_query query = {
		.type = type,
		.index = index,
		.data = (uintptr_t)data,
		.size = size,
		.flags = flags,
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return query.size;
}

struct answer_type {
	uint32_t type;
	uint32_t element; /* bytes of one, 0: not an array */
};

/* Answers that do not change by being asked for. */
static const struct answer_type steady[] = {
	{ DRM_QBNPU_QUERY_DEVICE, 0 },
	{ DRM_QBNPU_QUERY_MEMORY, 0 },
	{ DRM_QBNPU_QUERY_CORES, sizeof(struct drm_qbnpu_query_core) },
	{ DRM_QBNPU_QUERY_SENSORS, sizeof(struct drm_qbnpu_query_value) },
	{ DRM_QBNPU_QUERY_COUNTERS, sizeof(struct drm_qbnpu_query_value) },
	{ DRM_QBNPU_QUERY_EVENTS, sizeof(struct drm_qbnpu_query_event) },
};

/* K030 K002 */
START_TEST(an_answer_fills_the_room_and_no_byte_more)
{
	static uint8_t full[65536], part[65536];

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(steady); i++) {
		uint32_t type = steady[i].type;
		uint32_t element = steady[i].element;
		uint32_t exist = query(type, 0, 0, NULL, 0);
		const uint32_t rooms[] = { 1, exist - 1, exist, exist + 4096 };

		ck_assert_uint_eq(query(type, 0, 0, full, exist), exist);
		for (size_t r = 0; exist && r < qbrt_array_size(rooms); r++) {
			uint32_t written = rooms[r] < exist ? rooms[r] : exist;

			if (element)
				written -= written % element;
			memset(part, 0x5a, sizeof(part));
			ck_assert_uint_eq(query(type, 0, 0, part, rooms[r]),
					  exist);
			ck_assert_mem_eq(part, full, written);
			for (uint32_t b = written; b < exist + 4096; b++)
				ck_assert_uint_eq(part[b], 0x5a);
		}
	}
	kmd_end();
}
END_TEST

/* K030 */
START_TEST(arrays_are_read_from_the_index_on)
{
	struct drm_qbnpu_query_core all[80], from[80];
	uint32_t size;

	kmd_begin(_i);
	size = query(DRM_QBNPU_QUERY_CORES, 0, 0, all, sizeof(all));
	ck_assert_uint_eq(
		query(DRM_QBNPU_QUERY_CORES, 2, 0, from, sizeof(from)),
		size - 2 * sizeof(all[0]));
	ck_assert_mem_eq(from, all + 2, size - 2 * sizeof(all[0]));
	ck_assert_uint_eq(
		query(DRM_QBNPU_QUERY_CORES, 1000, 0, from, sizeof(from)), 0);
	kmd_end();
}
END_TEST

/* K002 K003 */
START_TEST(bad_queries_are_refused)
{
	struct drm_qbnpu_query args[] = {
		{ .type = DRM_QBNPU_QUERY_DEVICE, .index = 1 },
		{ .type = DRM_QBNPU_QUERY_DEVICE, .flags = 1 },
		{ .type = DRM_QBNPU_QUERY_COUNTERS, .flags = 2 },
		{ .type = DRM_QBNPU_QUERY_MEMORY, .index = 2 },
		{ .type = DRM_QBNPU_QUERY_MEMORY, .index = UINT32_MAX },
	};
	struct drm_qbnpu_query no_data = { .size = 8 };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(args); i++)
		kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &args[i], EINVAL);
	kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &no_data, EFAULT);
	kmd_end();
}
END_TEST

/* K141 K142 K150: the numbers that the specification fixes */
START_TEST(device_tells_the_limits)
{
	const struct drm_qbnpu_query_device *device = &kmd_device;

	kmd_begin(_i);
	ck_assert_uint_eq(device->uapi_major, 1);
	ck_assert_uint_eq(device->isa_major, 1);
	ck_assert_uint_eq(device->max_bindings, 64);
	ck_assert_uint_eq(device->max_syncs, 64);
	ck_assert_uint_eq(device->max_queues, 256);
	ck_assert_uint_eq(device->max_programs, 1024);
	ck_assert_uint_eq(device->max_jobs, 256);
	ck_assert_uint_eq(device->results_kept, 1024);
	ck_assert_uint_eq(device->max_program_size, 1u << 24);
	ck_assert_uint_eq(device->max_bo_size, UINT64_C(1) << 34);
	ck_assert_uint_eq(device->default_job_ns, UINT64_C(10000000000));
	ck_assert_uint_eq(device->max_job_ns, UINT64_C(600000000000));
	ck_assert_uint_eq(device->num_regions, 2);
	ck_assert_uint_eq(device->progress_size, 16384);
	ck_assert_int_eq(device->priority_max, 0);
	ck_assert(device->features & DRM_QBNPU_FEATURE_PROGRESS);
	ck_assert(device->features & DRM_QBNPU_FEATURE_COPY);
	ck_assert(!(device->features & DRM_QBNPU_FEATURE_FORCED_FAULTS) ==
		  (device->kind != DRM_QBNPU_KIND_SOFTWARE));
	ck_assert_uint_ne(device->instance, 0);
	ck_assert_uint_eq(device->state, DRM_QBNPU_STATE_READY);
	kmd_end();
}
END_TEST

/* K033 K320 Q122 Q123 K073 */
START_TEST(software_says_so_and_makes_nothing_up)
{
	const uint64_t never =
		DRM_QBNPU_FEATURE_SYNCOBJ_FD | DRM_QBNPU_FEATURE_SYNC_FILE;
	struct drm_qbnpu_query firmware = {
		.type = DRM_QBNPU_QUERY_FIRMWARE,
	};

	kmd_begin(_i);
	if (kmd_device.kind == DRM_QBNPU_KIND_SOFTWARE) {
		ck_assert_str_eq(kmd_device.name, "aries-rb");
		ck_assert_uint_eq(query(DRM_QBNPU_QUERY_SENSORS, 0, 0, NULL, 0),
				  0);
		kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &firmware, EOPNOTSUPP);
		ck_assert_uint_eq(kmd_device.features & never, 0);
		ck_assert_int_eq(kmd_device.priority_min, -2);
	}
	kmd_end();
}
END_TEST

/* Q124: busy time is the device's own account */
START_TEST(cores_are_listed_with_their_account)
{
	struct drm_qbnpu_query_core cores[80] = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	uint32_t num;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_wait(set.queue, kmd_submit(&job));
	num = query(DRM_QBNPU_QUERY_CORES, 0, 0, cores, sizeof(cores)) /
	      sizeof(cores[0]);
	ck_assert_uint_eq(num, kmd_device.clusters * (kmd_device.local_cores +
						      kmd_device.global_cores));
	ck_assert_uint_eq(cores[0].jobs, 1);
	ck_assert_uint_gt(cores[0].busy_ns, 0);
	for (uint32_t i = 0; i < num; i++) {
		bool is_local =
			i < kmd_device.clusters * kmd_device.local_cores;

		ck_assert_uint_eq(cores[i].kind, is_local ? 0 : 1);
		ck_assert_uint_eq(cores[i].jobs, i ? 0 : 1);
		ck_assert_uint_eq(cores[i].reserved, 0);
	}
	kmd_end_set(&set);
}
END_TEST

static int64_t read_counter(uint32_t flags, uint32_t id)
{
	struct drm_qbnpu_query_value values[128];
	uint32_t num;

	num = query(DRM_QBNPU_QUERY_COUNTERS, 0, flags, values,
		    sizeof(values)) /
	      sizeof(values[0]);
	ck_assert_uint_le(num, 128);
	for (uint32_t i = 0; i < num; i++) {
		if (values[i].id == id)
			return values[i].value;
	}
	return -1;
}

/* DV24: with CLIENT, one file's part of it */
START_TEST(counters_grow_with_what_is_done)
{
	struct kmd_set set;
	struct kmd_job job;
	int own_file, other_file;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	for (uint32_t flags = 0; flags < 2; flags++) {
		ck_assert_int_eq(read_counter(flags, 1), flags ? 3 : 0);
		for (int i = 0; i < 3; i++)
			kmd_wait(set.queue, kmd_submit(&job));
		ck_assert_int_eq(read_counter(flags, 1), flags ? 6 : 3);
		ck_assert_int_eq(read_counter(flags, 2), flags ? 6 : 3);
		ck_assert_int_eq(read_counter(flags, 9), 1);
		ck_assert_int_eq(read_counter(flags, 10), 0);
	}
	own_file = kmd_file;
	other_file = kmd_open_another();
	kmd_file = other_file;
	ck_assert_int_eq(read_counter(0, 2), 6);
	ck_assert_int_eq(read_counter(DRM_QBNPU_QUERY_CLIENT, 2), 0);
	kmd->close(other_file);
	kmd_file = own_file;
	kmd_end_set(&set);
}
END_TEST

static uint32_t read_counters(struct drm_qbnpu_query_value values[128])
{
	memset(values, 0, 128 * sizeof(values[0]));
	return query(DRM_QBNPU_QUERY_COUNTERS, 0, 0, values,
		     128 * sizeof(values[0]));
}

/* K032: the device is asked nothing, doorbells among the counters */
START_TEST(who_reads_values_is_no_load)
{
	struct drm_qbnpu_query_value before[128], after[128];
	struct kmd_set set;
	struct kmd_job job;
	uint32_t size;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_wait(set.queue, kmd_submit(&job));
	size = read_counters(before);
	ck_assert_uint_gt(size, 0);
	for (int i = 0; i < 10000; i++) {
		(void)query(DRM_QBNPU_QUERY_SENSORS, 0, 0, after,
			    sizeof(after));
		ck_assert_uint_eq(read_counters(after), size);
	}
	ck_assert_mem_eq(after, before, size);
	kmd_end_set(&set);
}
END_TEST

/* K063 K305: the account of a region and of a file */
START_TEST(memory_is_accounted_by_region_and_file)
{
	struct drm_qbnpu_query_memory before, after;
	struct drm_qbnpu_bo_create create = { .size = 3 * 4096 };

	kmd_begin(_i);
	for (uint32_t region = 0; region < 2; region++) {
		query(DRM_QBNPU_QUERY_MEMORY, region, 0, &before,
		      sizeof(before));
		ck_assert_uint_eq(before.region, region);
		ck_assert_uint_eq(before.client_used, 0);
		ck_assert_uint_le(before.free, before.total);
		ck_assert_uint_eq(before.align_log2_max, 21);
		create.region = region;
		create.size = 3 * 4096;
		ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create),
				 0);
		query(DRM_QBNPU_QUERY_MEMORY, region, 0, &after, sizeof(after));
		ck_assert_uint_eq(after.client_used, create.size);
		ck_assert_uint_eq(after.buffers, 1);
		ck_assert_uint_eq(before.free - after.free, create.size);
		kmd_close_buffer(create.handle);
		query(DRM_QBNPU_QUERY_MEMORY, region, 0, &after, sizeof(after));
		ck_assert_mem_eq(&after, &before, sizeof(after));
	}
	kmd_end();
}
END_TEST

/* K120 */
START_TEST(events_are_numbered_and_read_once_by_poll)
{
	struct drm_qbnpu_query_event event = { 0 };

	kmd_begin(_i);
	ck_assert_int_eq(kmd->poll(kmd_file, 0), 0);
	ck_assert_uint_ge(
		query(DRM_QBNPU_QUERY_EVENTS, 1, 0, &event, sizeof(event)),
		sizeof(event));
	ck_assert_uint_eq(event.seq, 1);
	ck_assert_uint_eq(event.kind, DRM_QBNPU_EVENT_ATTACH);
	ck_assert_int_gt(event.time_ns, 0);
	ck_assert_uint_eq(event.core, DRM_QBNPU_NONE);
	ck_assert_int_eq(kmd->poll(kmd_file, 0), -ETIME);
	ck_assert_int_eq(kmd->poll(kmd_file, 1), -ETIME);
	ck_assert_uint_eq(query(DRM_QBNPU_QUERY_EVENTS, 2, 0, NULL, 0), 0);
	kmd_end();
}
END_TEST

/* Ends a job by its deadline: an event of kind 3. */
static void time_out(const struct kmd_set *set, uint32_t slow)
{
	struct kmd_job job;

	kmd_prepare(&job, set->queue, slow, &set->input, &set->output);
	job.submit.deadline_ns = qbrt_now_ns() + 1000000;
	ck_assert_int_eq(kmd_wait(set->queue, kmd_submit(&job)).status,
			 -ETIMEDOUT);
}

/* K120 K121 */
START_TEST(events_of_other_files_show_no_job)
{
	struct drm_qbnpu_query_event event = { 0 };
	struct kmd_set set;
	int own_file, other_file;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(1);
	own_file = kmd_file;
	other_file = kmd_open_another();
	time_out(&set, slow);
	query(DRM_QBNPU_QUERY_EVENTS, 2, 0, &event, sizeof(event));
	ck_assert_uint_eq(event.kind, DRM_QBNPU_EVENT_TIMEOUT);
	ck_assert_int_eq(event.status, -ETIMEDOUT);
	ck_assert_uint_eq(event.queue, set.queue);
	ck_assert_uint_eq(event.arg[0], 1);
	kmd_file = other_file;
	ck_assert_int_eq(kmd->poll(kmd_file, 0), 0);
	query(DRM_QBNPU_QUERY_EVENTS, 2, 0, &event, sizeof(event));
	ck_assert_uint_eq(event.kind, DRM_QBNPU_EVENT_TIMEOUT);
	ck_assert_uint_eq(event.queue, 0);
	ck_assert_uint_eq(event.arg[0], 0);
	kmd->close(other_file);
	kmd_file = own_file;
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K120: the last 256 are kept, and the gap is seen */
START_TEST(old_events_are_lost_and_the_reader_sees_how_many)
{
	static struct drm_qbnpu_query_event events[300];
	struct kmd_set set;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(1);
	for (int i = 0; i < 300; i++)
		time_out(&set, slow);
	ck_assert_uint_eq(
		query(DRM_QBNPU_QUERY_EVENTS, 1, 0, events, sizeof(events)),
		256 * sizeof(events[0]));
	for (int i = 0; i < 256; i++)
		ck_assert_uint_eq(events[i].seq, (unsigned int)i + 301 - 255);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

void kmd_query_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_answer_fills_the_room_and_no_byte_more),
		QBRT_TEST(arrays_are_read_from_the_index_on),
		QBRT_TEST(bad_queries_are_refused),
		QBRT_TEST(device_tells_the_limits),
		QBRT_TEST(software_says_so_and_makes_nothing_up),
		QBRT_TEST(cores_are_listed_with_their_account),
		QBRT_TEST(counters_grow_with_what_is_done),
		QBRT_TEST(who_reads_values_is_no_load),
		QBRT_TEST(memory_is_accounted_by_region_and_file),
		QBRT_TEST(events_are_numbered_and_read_once_by_poll),
		QBRT_TEST(events_of_other_files_show_no_job),
		QBRT_TEST(old_events_are_lost_and_the_reader_sees_how_many),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
