// SPDX-License-Identifier: MIT
/*
 * Timelines of the software driver beyond the contract: what they cost, what
 * of theirs is absent, and their end with the file.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check-kmd-syncobj.h"
#include "count-alloc.h"
#include "soft/soft-registry.h"
#include "soft/soft.h"
#include "util.h"

/* K310: whoever brings the point writes; jobs need the one thread */
START_TEST(an_eventfd_needs_no_thread)
{
	const long num_threads = qbrt_test_count_threads();
	uint64_t count = 0;
	uint32_t handle, queue;
	struct kmd_job job;
	char name[16];
	int fd;

	kmd_begin(0);
	handle = kmd_create_syncobj();
	fd = kmd_make_eventfd();
	ck_assert_int_eq(kmd_register_eventfd(handle, 1, 0, fd), 0);
	ck_assert_int_eq(kmd_wait_point(handle, 1, KMD_FOR_SUBMIT, 0), -ETIME);
	kmd_signal(handle, 1);
	ck_assert_int_eq(read(fd, &count, sizeof(count)), sizeof(count));
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(qbrt_test_count_threads(), num_threads);
	queue = kmd_create_queue(0, NULL);
	for (int i = 0; i < 3; i++) {
		kmd_prepare_empty(&job, queue);
		kmd_wait(queue, kmd_submit(&job));
		ck_assert_int_eq(qbrt_test_count_threads(), num_threads + 1);
	}
	ck_assert_int_eq(pthread_getname_np(
				 qbnpu_soft_registry_get_file(kmd_file)->helper,
				 name, sizeof(name)),
			 0);
	ck_assert_str_eq(name, "qbrt-soft");
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

/* K307: so many that descriptors would have run out */
START_TEST(a_file_has_65536_timelines)
{
	struct drm_syncobj_create create = { .handle = 7 };
	uint32_t handle = 0;

	kmd_begin(0);
	for (uint32_t i = 0; i < QBNPU_SOFT_MAX_SYNCOBJS; i++)
		handle = kmd_create_syncobj();
	kmd_refuse(DRM_IOCTL_SYNCOBJ_CREATE, &create, ENOSPC);
	kmd_destroy_syncobj(handle);
	ck_assert_uint_eq(kmd_create_syncobj(), handle);
	kmd_end();
}
END_TEST

/* K320: in no other form than as timelines of one file */
START_TEST(timelines_have_no_descriptors)
{
	struct drm_syncobj_handle arg = { 0 };

	kmd_begin(0);
	arg.handle = kmd_create_syncobj();
	arg.fd = -7;
	kmd_refuse(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &arg, EOPNOTSUPP);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &arg, EOPNOTSUPP);
	ck_assert(!(kmd_device.features & (DRM_QBNPU_FEATURE_SYNCOBJ_FD |
					   DRM_QBNPU_FEATURE_SYNC_FILE)));
	kmd_end();
}
END_TEST

static void *wait_for_ever(void *arg)
{
	const uint32_t *handle = arg;

	ck_assert_int_eq(
		kmd_wait_point(*handle, 1, KMD_FOR_SUBMIT, KMD_FOREVER),
		-ENODEV);
	return NULL;
}

static void *transfer_for_ever(void *arg)
{
	const uint32_t *handle = arg;

	ck_assert_int_eq(kmd_transfer(*handle, 1, *handle, 2, KMD_FOR_SUBMIT),
			 -ENODEV);
	return NULL;
}

static uint32_t count_sleepers(void)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_get_file(kmd_file);
	const struct qbnpu_soft_sleeper *sleeper;
	uint32_t num = 0;

	(void)pthread_mutex_lock(&file->lock);
	for (sleeper = file->sleepers; sleeper; sleeper = sleeper->next)
		num++;
	(void)pthread_mutex_unlock(&file->lock);
	return num;
}

/* K013: nobody sleeps on in a file that is closed */
START_TEST(close_ends_all_waits)
{
	pthread_t threads[3];
	uint32_t handle;

	kmd_begin(0);
	handle = kmd_create_syncobj();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL,
				       i ? wait_for_ever : transfer_for_ever,
				       &handle),
			0);
	while (count_sleepers() < 3)
		(void)sched_yield();
	kmd_end();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

/* K016 K312: not even those requests that a lost device answers */
START_TEST(a_child_of_fork_has_no_timelines)
{
	static const unsigned long requests[] = {
		DRM_IOCTL_SYNCOBJ_CREATE,
		DRM_IOCTL_SYNCOBJ_DESTROY,
		DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
		DRM_IOCTL_SYNCOBJ_QUERY,
		DRM_IOCTL_SYNCOBJ_TRANSFER,
		DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
		DRM_IOCTL_SYNCOBJ_EVENTFD,
		DRM_IOCTL_PRIME_HANDLE_TO_FD,
		DRM_IOCTL_PRIME_FD_TO_HANDLE,
	};
	uint8_t arg[256] = { 0 };
	pid_t child;
	int status;

	kmd_begin(0);
	kmd_create_syncobj();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		for (size_t i = 0; i < qbrt_array_size(requests); i++) {
			if (kmd_call(requests[i], arg) != -ENODEV)
				_exit((int)i + 1);
		}
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	kmd_end();
}
END_TEST

/* Section 4 */
START_TEST(an_eventfd_without_a_descriptor_left_is_refused)
{
	struct drm_syncobj_eventfd arg = { .point = 1 };
	struct rlimit limit, none;

	kmd_begin(0);
	arg.handle = kmd_create_syncobj();
	arg.fd = kmd_make_eventfd();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3; /* standard input, output and error */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(close(arg.fd), 0);
	kmd_end();
}
END_TEST

struct fault_case {
	unsigned long request;
	long num_allocations;
};

static const struct fault_case fault_cases[] = {
	{ DRM_IOCTL_SYNCOBJ_CREATE, 1 },
	{ DRM_IOCTL_SYNCOBJ_QUERY, 1 },
	{ DRM_IOCTL_SYNCOBJ_TRANSFER, 1 },
	{ DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, 3 },
	{ DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, 2 },
	{ DRM_IOCTL_SYNCOBJ_EVENTFD, 1 },
};

union fault_arg {
	struct drm_syncobj_create create;
	struct drm_syncobj_timeline_array array;
	struct drm_syncobj_transfer transfer;
	struct drm_syncobj_timeline_wait wait;
	struct drm_syncobj_eventfd eventfd;
};

/* A right request; the arrays have two elements. */
static void fill_arg(union fault_arg *arg, unsigned long request,
		     const uint32_t *handles, const uint64_t *points, int fd)
{
	memset(arg, 0, sizeof(*arg));
	switch (request) {
	case DRM_IOCTL_SYNCOBJ_CREATE:
		break;
	case DRM_IOCTL_SYNCOBJ_TRANSFER:
		arg->transfer.src_handle = handles[0];
		arg->transfer.dst_handle = handles[0];
		arg->transfer.src_point = 1;
		arg->transfer.dst_point = 3;
		break;
	case DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT:
		arg->wait.handles = (uintptr_t)handles;
		arg->wait.points = (uintptr_t)points;
		arg->wait.count_handles = 2;
		break;
	case DRM_IOCTL_SYNCOBJ_EVENTFD:
		arg->eventfd.handle = handles[0];
		arg->eventfd.point = 9;
		arg->eventfd.fd = fd;
		break;
	default:
		arg->array.handles = (uintptr_t)handles;
		arg->array.points = (uintptr_t)points;
		arg->array.count_handles = 2;
	}
}

/* ST7: the nth allocation fails, and the request had no effect */
START_TEST(no_memory_is_told_and_nothing_changed)
{
	const struct fault_case *fault = &fault_cases[_i];
	uint64_t points[2] = { 1, 1 };
	uint32_t handles[2];
	union fault_arg arg;
	long nth = 0;
	int fd, err;

	kmd_begin(0);
	handles[0] = kmd_create_syncobj();
	handles[1] = kmd_create_syncobj();
	kmd_signal(handles[0], 1);
	if (fault->request != DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL)
		kmd_signal(handles[1], 1);
	fd = kmd_make_eventfd();
	do {
		fill_arg(&arg, fault->request, handles, points, fd);
		count_alloc_begin(++nth);
		err = kmd_call(fault->request, &arg);
		(void)count_alloc_end();
		ck_assert(!err || err == -ENOMEM);
		if (err && fault->request == DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL)
			ck_assert_points(handles[1], 0, 0);
		if (err)
			ck_assert_points(handles[0], 1, 1);
	} while (err);
	ck_assert_int_eq(nth, fault->num_allocations + 1);
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

void soft_sync_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_eventfd_needs_no_thread),
		QBRT_TEST(a_file_has_65536_timelines),
		QBRT_TEST(timelines_have_no_descriptors),
		QBRT_TEST(close_ends_all_waits),
		QBRT_TEST(a_child_of_fork_has_no_timelines),
		QBRT_TEST(an_eventfd_without_a_descriptor_left_is_refused),
		QBRT_LOOP_TEST(no_memory_is_told_and_nothing_changed,
			       qbrt_array_size(fault_cases)),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
