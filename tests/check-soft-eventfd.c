// SPDX-License-Identifier: MIT
/*
 * How the software driver writes eventfds (docs/spec/kernel.md, K310): hooks in
 * poll and write see what it holds when it does.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check-kmd-syncobj.h"
#include "soft/soft-registry.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_SLEEPERS 20

static _Thread_local bool is_watched;
static int num_looks, num_writes, num_bad;

/*
 * Two threads must not both find the same room, and nobody else may have to
 * wait for a write: one under the file lock waits here for ever.
 */
static void look_at_locks(void)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_get_file(kmd_file);
	pthread_mutex_t *lock = qbnpu_soft_get_eventfd_lock();

	if (!pthread_mutex_trylock(lock)) {
		num_bad++;
		(void)pthread_mutex_unlock(lock);
	}
	(void)pthread_mutex_lock(&file->lock);
	(void)pthread_mutex_unlock(&file->lock);
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_poll(struct pollfd *fds, nfds_t num, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t num, int timeout);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

int __wrap_poll(struct pollfd *fds, nfds_t num, int timeout)
{
	if (is_watched) {
		num_looks++;
		look_at_locks();
	}
	return __real_poll(fds, num, timeout);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
	if (is_watched) {
		num_writes++;
		look_at_locks();
	}
	return __real_write(fd, bytes, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* The request tells num eventfds. */
static void call_watched(unsigned long request, void *arg, int num)
{
	int err;

	num_looks = num_writes = num_bad = 0;
	is_watched = true;
	err = kmd_call(request, arg);
	is_watched = false;
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(num_looks, num);
	ck_assert_int_eq(num_writes, num);
	ck_assert_int_eq(num_bad, 0);
}

/* K310 K010: a job's way, with `wait` and without, inline and queued */
START_TEST(submit_writes_eventfds_under_no_lock_of_the_file)
{
	struct kmd_set set;
	struct kmd_job job;
	uint64_t point = 0;
	int fd;

	kmd_begin_set(0, &set);
	fd = kmd_make_eventfd();
	for (int is_empty = 0; is_empty < 2; is_empty++) {
		for (int waits = 0; waits < 2; waits++) {
			if (is_empty)
				kmd_prepare_empty(&job, set.queue);
			else
				kmd_prepare(&job, set.queue, set.copy64,
					    &set.input, &set.output);
			if (waits)
				kmd_set_wait(&job);
			point++;
			ck_assert_int_eq(
				kmd_register_eventfd(set.syncobj, point,
						     KMD_AVAILABLE, fd),
				0);
			call_watched(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, 1);
			kmd_wait(set.queue, point);
		}
	}
	ck_assert_int_eq(close(fd), 0);
	kmd_end_set(&set);
}
END_TEST

/* K310 K010: jobs that do not run, by their number and all of them */
START_TEST(cancel_writes_eventfds_under_no_lock_of_the_file)
{
	struct drm_qbnpu_cancel cancel = { 0 };
	struct kmd_gate gate;
	struct kmd_job job;
	uint32_t syncobj;
	int fd;

	kmd_close_gate(&gate, 0);
	fd = kmd_make_eventfd();
	cancel.queue = kmd_create_queue(0, &syncobj);
	for (uint64_t i = 1; i <= 2; i++) {
		kmd_prepare_empty(&job, cancel.queue);
		kmd_add_sync(&job, gate.set.syncobj, gate.job, 0);
		ck_assert_uint_eq(kmd_submit(&job), i);
		ck_assert_int_eq(kmd_register_eventfd(syncobj, i, 0, fd), 0);
		cancel.job = i % 2;
		call_watched(DRM_IOCTL_QBNPU_CANCEL, &cancel, 1);
	}
	ck_assert_int_eq(close(fd), 0);
	kmd_open_gate(&gate);
	kmd_end_gate(&gate);
}
END_TEST

static void *sleep_for(void *arg)
{
	const uint32_t *handle = arg;

	return kmd_wait_point(*handle, 1, KMD_FOR_SUBMIT, KMD_FOREVER) ? arg
								       : NULL;
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

/* K310 K010: more threads to wake than are noted at a time */
START_TEST(many_sleepers_bring_no_write_under_a_lock_of_the_file)
{
	pthread_t threads[NUM_SLEEPERS];
	uint32_t handle;
	uint64_t point = 1;
	struct drm_syncobj_timeline_array array = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};
	void *failed;
	int fds[2];

	kmd_begin(0);
	handle = kmd_create_syncobj();
	for (uint32_t i = 0; i < 2; i++) {
		fds[i] = kmd_make_eventfd();
		if (i)
			ck_assert_int_eq(
				kmd_register_eventfd(handle, 1, 0, fds[1]), 0);
		for (uint32_t k = i * NUM_SLEEPERS / 2;
		     k < (i + 1) * NUM_SLEEPERS / 2; k++)
			ck_assert_int_eq(pthread_create(&threads[k], NULL,
							sleep_for, &handle),
					 0);
		while (count_sleepers() < (i + 1) * NUM_SLEEPERS / 2)
			(void)sched_yield();
		if (!i)
			ck_assert_int_eq(
				kmd_register_eventfd(handle, 1, 0, fds[0]), 0);
	}
	call_watched(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array, 2);
	for (int i = 0; i < NUM_SLEEPERS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	ck_assert_int_eq(close(fds[0]), 0);
	ck_assert_int_eq(close(fds[1]), 0);
	kmd_end();
}
END_TEST

void soft_eventfd_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(submit_writes_eventfds_under_no_lock_of_the_file),
		QBRT_TEST(cancel_writes_eventfds_under_no_lock_of_the_file),
		QBRT_TEST(
			many_sleepers_bring_no_write_under_a_lock_of_the_file),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
