// SPDX-License-Identifier: MIT
/*
 * Timelines by the generic requests (docs/spec/kernel.md, 3): points that
 * requests add, what is refused, and points taken from other timelines.
 */
#include "check-kmd-syncobj.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

#define MAX_COUNT 65536u
#define CHAIN_LENGTH 1000u

/* ---- points ---- */

/* K307: points only grow, and no descriptor stands for them */
START_TEST(a_timeline_begins_at_zero_and_grows)
{
	uint32_t handle, other;
	long num_descriptors;

	kmd_begin(_i);
	num_descriptors = qbrt_test_count_descriptors();
	handle = kmd_create_syncobj();
	other = kmd_create_syncobj();
	ck_assert_uint_ne(handle, other);
	ck_assert_int_eq(qbrt_test_count_descriptors(), num_descriptors);
	ck_assert_points(handle, 0, 0);
	kmd_signal(handle, 5);
	ck_assert_points(handle, 5, 5);
	kmd_signal(handle, UINT64_MAX);
	ck_assert_points(handle, UINT64_MAX, UINT64_MAX);
	ck_assert_points(other, 0, 0);
	kmd_destroy_syncobj(handle);
	ck_assert_uint_eq(kmd_create_syncobj(), handle);
	ck_assert_points(handle, 0, 0);
	kmd_end();
}
END_TEST

/* Section 3, K002 K003 */
START_TEST(bad_syncobj_requests_are_refused)
{
	struct drm_syncobj_create create = { .handle = 7 };
	struct drm_syncobj_destroy destroy = { 0 };
	struct drm_syncobj_timeline_array array = { 0 };
	struct drm_syncobj_timeline_wait wait = { 0 };
	struct drm_syncobj_transfer transfer = { .src_point = 1,
						 .dst_point = 1 };
	uint64_t points[2] = { 1, 1 };
	uint32_t handles[2];

	kmd_begin(_i);
	handles[0] = kmd_create_syncobj();
	handles[1] = 9999;
	create.flags = DRM_SYNCOBJ_CREATE_SIGNALED;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_CREATE, &create, EINVAL);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy, EINVAL);
	destroy.handle = handles[0];
	destroy.pad = 1;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy, EINVAL);

	array.handles = (uintptr_t)handles;
	array.points = (uintptr_t)points;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, EINVAL);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, EINVAL);
	array.count_handles = 2;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, ENOENT);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, ENOENT);
	ck_assert_uint_eq(points[0], 1);
	ck_assert_points(handles[0], 0, 0);
	array.count_handles = 1;
	for (int bit = 0; bit < 32; bit++) {
		array.flags = 1u << bit;
		kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, EINVAL);
		if (array.flags != DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED)
			kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, EINVAL);
		transfer.flags = 1u << bit;
		if (transfer.flags != KMD_FOR_SUBMIT)
			kmd_refuse(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer,
				   EINVAL);
		wait.flags = 1u << bit;
		/* the core knows one more: a deadline hint */
		if (bit > 3)
			kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait,
				   EINVAL);
	}
	transfer.flags = 0;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer, ENOENT);
	transfer.dst_handle = handles[0];
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer, ENOENT);
	transfer.src_handle = handles[0];
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer, EINVAL);
	transfer.pad = 1;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer, EINVAL);

	wait.flags = 0;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait), 0);
	wait.handles = (uintptr_t)handles;
	wait.points = (uintptr_t)points;
	wait.count_handles = 2;
	wait.first_signaled = 0xbad;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait, ENOENT);
	wait.count_handles = 1;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait, EINVAL);
	kmd_end();
}
END_TEST

/* K126: the core would allocate for them first */
START_TEST(long_arrays_are_refused_unread)
{
	const uint32_t counts[] = { MAX_COUNT + 1, 1u << 28, UINT32_MAX };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(counts); i++) {
		struct drm_syncobj_timeline_array array = {
			.count_handles = counts[i],
		};
		struct drm_syncobj_timeline_wait wait = {
			.count_handles = counts[i],
		};

		kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, EINVAL);
		kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, EINVAL);
		kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait, EINVAL);
	}
	kmd_end();
}
END_TEST

/* K126: the longest array is taken, element by element */
START_TEST(the_longest_array_is_taken)
{
	struct {
		uint32_t handles[MAX_COUNT];
		uint64_t points[MAX_COUNT];
	} * arrays;
	struct drm_syncobj_timeline_array array = {
		.count_handles = MAX_COUNT,
	};
	uint32_t first;

	kmd_begin(_i);
	arrays = mmap(NULL, sizeof(*arrays), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(arrays, MAP_FAILED);
	arrays->handles[0] = kmd_create_syncobj();
	for (uint32_t i = 0; i < MAX_COUNT; i++) {
		arrays->handles[i] = arrays->handles[0];
		arrays->points[i] = i + 1;
	}
	array.handles = (uintptr_t)arrays->handles;
	array.points = (uintptr_t)arrays->points;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array),
			 0);
	ck_assert_points(arrays->handles[0], MAX_COUNT, MAX_COUNT);
	ck_assert_int_eq(kmd_wait_points(arrays->handles, arrays->points,
					 MAX_COUNT, KMD_WAIT_ALL, 0, &first),
			 0);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_QUERY, &array), 0);
	ck_assert_uint_eq(arrays->points[MAX_COUNT - 1], MAX_COUNT);
	ck_assert_int_eq(munmap(arrays, sizeof(*arrays)), 0);
	kmd_end();
}
END_TEST

/* K007 */
START_TEST(bad_addresses_are_refused)
{
	struct drm_syncobj_timeline_array array = { .count_handles = 1 };
	struct drm_syncobj_timeline_wait wait = { .count_handles = 1 };
	uint64_t point = 1;
	uint32_t handle;
	void *nowhere;

	kmd_begin(_i);
	nowhere =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(nowhere, MAP_FAILED);
	handle = kmd_create_syncobj();
	array.handles = (uintptr_t)nowhere;
	array.points = (uintptr_t)&point;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, EFAULT);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, EFAULT);
	wait.handles = (uintptr_t)nowhere;
	wait.points = (uintptr_t)&point;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait, EFAULT);
	array.handles = (uintptr_t)&handle;
	array.points = (uintptr_t)nowhere;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_QUERY, &array, EFAULT);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, EFAULT);
	wait.handles = (uintptr_t)&handle;
	wait.points = (uintptr_t)nowhere;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait, EFAULT);
	ck_assert_points(handle, 0, 0);
	ck_assert_int_eq(munmap(nowhere, 4096), 0);
	kmd_end();
}
END_TEST

/* K320: where sync_files are not offered there are no binary syncobjs */
START_TEST(point_zero_is_no_point_of_a_timeline)
{
	const uint64_t zero = 0;
	uint32_t handle, first;

	kmd_begin(_i);
	handle = kmd_create_syncobj();
	kmd_signal(handle, 5);
	if (!(kmd_device.features & DRM_QBNPU_FEATURE_SYNC_FILE)) {
		ck_assert_int_eq(kmd_try_signal(handle, 0), -EOPNOTSUPP);
		ck_assert_int_eq(kmd_transfer(handle, 5, handle, 0, 0),
				 -EOPNOTSUPP);
		ck_assert_int_eq(kmd_transfer(handle, 0, handle, 6, 0),
				 -EOPNOTSUPP);
		ck_assert_int_eq(kmd_wait_point(handle, 0, 0, 0), -EOPNOTSUPP);
		ck_assert_int_eq(
			kmd_wait_points(&handle, NULL, 1, 0, 0, &first),
			-EOPNOTSUPP);
		ck_assert_int_eq(
			kmd_register_eventfd(handle, zero, 0, STDIN_FILENO),
			-EOPNOTSUPP);
		ck_assert_points(handle, 5, 5);
	}
	kmd_end();
}
END_TEST

/* ---- TRANSFER ---- */

START_TEST(a_later_point_comes_after_those_before_it)
{
	struct kmd_gate gate;
	uint32_t handle;

	kmd_close_gate(&gate, _i);
	handle = kmd_create_syncobj();
	ck_assert_int_eq(kmd_transfer(gate.set.syncobj, 2, handle, 3, 0),
			 -EINVAL);
	ck_assert_points(handle, 0, 0);
	ck_assert_int_eq(kmd_transfer(gate.set.syncobj, gate.job, handle, 3, 0),
			 0);
	kmd_signal(handle, 6);
	ck_assert_points(handle, 0, 6);
	ck_assert_int_eq(kmd_wait_point(handle, 6, 0, 0), -ETIME);
	kmd_open_gate(&gate);
	ck_assert_points(handle, 6, 6);
	kmd_end_gate(&gate);
}
END_TEST

/* A chain of any length, whose links nobody but the chain holds any more */
START_TEST(a_point_goes_through_a_chain_of_timelines)
{
	struct kmd_gate gate;
	uint32_t last, next;

	kmd_close_gate(&gate, _i);
	last = kmd_create_syncobj();
	ck_assert_int_eq(kmd_transfer(gate.set.syncobj, gate.job, last, 1, 0),
			 0);
	for (uint32_t i = 0; i < CHAIN_LENGTH; i++) {
		next = kmd_create_syncobj();
		ck_assert_int_eq(kmd_transfer(last, 1, next, 1, 0), 0);
		kmd_destroy_syncobj(last);
		last = next;
	}
	ck_assert_points(last, 0, 1);
	kmd_open_gate(&gate);
	ck_assert_int_eq(kmd_wait_point(last, 1, 0, KMD_FOREVER), 0);
	ck_assert_points(last, 1, 1);
	kmd_end_gate(&gate);
}
END_TEST

struct pair {
	uint32_t ping, pong;
};

static void *transfer_later(void *arg)
{
	const struct pair *pair = arg;

	ck_assert_int_eq(
		kmd_transfer(pair->ping, 4, pair->pong, 8, KMD_FOR_SUBMIT), 0);
	return NULL;
}

/* The one wait of TRANSFER */
START_TEST(transfer_waits_for_the_source_to_be_submitted)
{
	pthread_t thread;
	struct pair pair;

	kmd_begin(_i);
	pair.ping = kmd_create_syncobj();
	pair.pong = kmd_create_syncobj();
	ck_assert_int_eq(pthread_create(&thread, NULL, transfer_later, &pair),
			 0);
	kmd_signal(pair.ping, 4);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_points(pair.pong, 8, 8);
	kmd_end();
}
END_TEST

void kmd_syncobj_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_timeline_begins_at_zero_and_grows),
		QBRT_TEST(bad_syncobj_requests_are_refused),
		QBRT_TEST(long_arrays_are_refused_unread),
		QBRT_TEST(the_longest_array_is_taken),
		QBRT_TEST(bad_addresses_are_refused),
		QBRT_TEST(point_zero_is_no_point_of_a_timeline),
		QBRT_TEST(a_later_point_comes_after_those_before_it),
		QBRT_TEST(a_point_goes_through_a_chain_of_timelines),
		QBRT_TEST(transfer_waits_for_the_source_to_be_submitted),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
