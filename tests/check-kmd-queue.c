// SPDX-License-Identifier: MIT
/* Queues and the progress page (docs/spec/kernel.md, 2.5). */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

#define NUM_LITMUS_JOBS 100000

static const struct drm_qbnpu_progress *map_progress(void)
{
	void *page;

	ck_assert_int_eq(kmd->mmap(kmd_file, 0, kmd_device.progress_size,
				   PROT_READ, &page),
			 0);
	return page;
}

/* The mapping as mmap gave it. */
static void *get_address(const struct drm_qbnpu_progress *page)
{
	// NOLINTNEXTLINE(performance-no-int-to-ptr)
	return (void *)(uintptr_t)page;
}

static void unmap_progress(const struct drm_qbnpu_progress *page)
{
	ck_assert_int_eq(kmd->munmap(kmd_file, get_address(page),
				     kmd_device.progress_size),
			 0);
}

static uint64_t load_completed(const struct drm_qbnpu_progress *entry)
{
	return __atomic_load_n(&entry->completed, __ATOMIC_ACQUIRE);
}

/* K071 */
START_TEST(numbers_start_at_one_and_never_come_back)
{
	uint32_t last = 0;

	kmd_begin(_i);
	ck_assert_uint_eq(kmd_create_queue(0, NULL), 1);
	ck_assert_uint_eq(kmd_create_queue(0, NULL), 2);
	for (int i = 0; i < 1000; i++) {
		uint32_t queue = kmd_create_queue(0, NULL);

		ck_assert_uint_gt(queue, last);
		last = queue;
		kmd_destroy_queue(queue);
	}
	kmd_end();
}
END_TEST

/* K072 K141 */
START_TEST(a_file_has_256_queues)
{
	struct drm_qbnpu_queue_create create = { .queue = 0xbad };

	kmd_begin(_i);
	for (int i = 0; i < 256; i++)
		kmd_create_queue(0, NULL);
	kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create, ENOSPC);
	kmd_destroy_queue(17);
	ck_assert_uint_gt(kmd_create_queue(0, NULL), 256);
	kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create, ENOSPC);
	kmd_end();
}
END_TEST

/* K073 */
START_TEST(priorities_outside_the_range_are_refused)
{
	const int32_t bad[] = { 1, 2, INT32_MAX, INT32_MIN };
	struct drm_qbnpu_queue_create create = { .queue = 0xbad };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(bad); i++) {
		create.priority = bad[i];
		kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create, EACCES);
	}
	create.priority = kmd_device.priority_min - 1;
	kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create, EACCES);
	for (int p = kmd_device.priority_min; p <= 0; p++) {
		create.priority = p;
		ck_assert_int_eq(
			kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create), 0);
	}
	kmd_end();
}
END_TEST

/* K076 K314 */
START_TEST(the_progress_page_is_read_only_for_good)
{
	const struct drm_qbnpu_progress *page;
	void *address;

	kmd_begin(_i);
	ck_assert_int_eq(kmd->mmap(kmd_file, 0, kmd_device.progress_size,
				   PROT_READ | PROT_WRITE, &address),
			 -EACCES);
	ck_assert_int_eq(kmd->mmap(kmd_file, 0, kmd_device.progress_size + 1,
				   PROT_READ, &address),
			 -EINVAL);
	page = map_progress();
	address = get_address(page);
	ck_assert_int_eq(mprotect(address, kmd_device.progress_size,
				  PROT_READ | PROT_WRITE),
			 -1);
	ck_assert_int_eq(errno, EACCES);
	unmap_progress(page);
	kmd_end();
}
END_TEST

/* K076 K083: number, point and completed are one number */
START_TEST(progress_follows_the_jobs)
{
	struct drm_qbnpu_queue_create create = { 0 };
	const struct drm_qbnpu_progress *page, *entry;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	page = map_progress();
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create), 0);
	ck_assert_uint_lt(create.progress_index, 256);
	ck_assert_uint_eq(create.progress_offset, 0);
	entry = &page[create.progress_index];
	ck_assert_uint_eq(load_completed(entry), 0);
	kmd_prepare(&job, create.queue, set.copy64, &set.input, &set.output);
	for (uint64_t i = 1; i <= 1000; i++) {
		int64_t end_ns;

		ck_assert_uint_eq(kmd_submit(&job), i);
		end_ns = kmd_wait(create.queue, i).end_ns;
		ck_assert_uint_eq(load_completed(entry), i);
		ck_assert_uint_eq(entry->started, i);
		ck_assert_int_eq(entry->completed_ns, end_ns);
	}
	ck_assert_uint_eq(entry->failed, 0);
	ck_assert_uint_eq(entry->state, DRM_QBNPU_QUEUE_GOOD);
	kmd_destroy_queue(create.queue);
	ck_assert_uint_eq(load_completed(entry), 1000);
	unmap_progress(page);
	kmd_end_set(&set);
}
END_TEST

/* K077 K085: a failed job moves completed, and is told apart */
START_TEST(progress_counts_failures)
{
	const struct drm_qbnpu_progress *page, *entry;
	struct kmd_set set;
	struct kmd_job job;
	uint64_t number;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	page = map_progress();
	entry = &page[0];
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	number = kmd_submit(&job);
	kmd_cancel(set.queue, number);
	kmd_wait(set.queue, number);
	ck_assert_uint_eq(load_completed(entry), 1);
	ck_assert_uint_eq(entry->failed, 1);
	ck_assert_uint_eq(entry->last_failed, 1);
	job.submit.program = set.copy64;
	kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_uint_eq(load_completed(entry), 2);
	ck_assert_uint_eq(entry->failed, 1);
	ck_assert_uint_eq(entry->last_failed, 1);
	ck_assert_uint_eq(entry->state, DRM_QBNPU_QUEUE_GOOD);
	unmap_progress(page);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

struct litmus {
	const struct drm_qbnpu_progress *entry;
	const volatile uint64_t *output;
	uint64_t num_bad;
};

/* Sees the output of job n, or of a later one, once completed is n. */
static void *watch_progress(void *arg)
{
	struct litmus *litmus = arg;
	uint64_t completed = 0;

	while (completed < NUM_LITMUS_JOBS) {
		completed = load_completed(litmus->entry);
		if (*litmus->output < completed)
			litmus->num_bad++;
	}
	return NULL;
}

/* K077 */
START_TEST(outputs_are_there_before_completed)
{
	const struct drm_qbnpu_progress *page;
	struct litmus litmus = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	pthread_t thread;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("jobs race with a plain reader on purpose");
	kmd_begin_set(_i, &set);
	page = map_progress();
	litmus.entry = page;
	litmus.output = (const uint64_t *)(const void *)set.output.data;
	ck_assert_int_eq(pthread_create(&thread, NULL, watch_progress, &litmus),
			 0);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_set_wait(&job);
	for (uint64_t i = 1; i <= NUM_LITMUS_JOBS; i++) {
		memcpy(set.input.data, &i, sizeof(i));
		kmd_submit(&job);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(litmus.num_bad, 0);
	unmap_progress(page);
	kmd_end_set(&set);
}
END_TEST

/* K074 */
START_TEST(jobs_of_a_destroyed_queue_go_on)
{
	const struct drm_qbnpu_progress *page;
	struct drm_qbnpu_wait wait = { .job = 1 };
	uint32_t queue, syncobj, slow;
	struct kmd_set set;
	struct kmd_job job;
	uint64_t gate;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	page = map_progress();
	/* the queue's job waits for a job of another queue */
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	gate = kmd_submit(&job);
	queue = kmd_create_queue(0, &syncobj);
	kmd_prepare(&job, queue, set.copy64, &set.input, &set.output);
	kmd_add_sync(&job, set.syncobj, gate, DRM_QBNPU_SYNC_ANY_RESULT);
	ck_assert_uint_eq(kmd_submit(&job), 1);
	kmd_destroy_queue(queue);
	wait.queue = queue;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, ENOENT);
	job.submit.in_count = 0;
	job.submit.job = 0;
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, ENOENT,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(job.submit));
	ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_QUEUE);
	ck_assert_uint_eq(load_completed(&page[1]), 0);
	kmd_cancel(set.queue, gate);
	/* its point signals, although nobody can name the queue any more */
	kmd_prepare_empty(&job, set.queue);
	kmd_add_sync(&job, syncobj, 1, 0);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert_uint_eq(load_completed(&page[1]), 1);
	ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
	unmap_progress(page);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K075 */
START_TEST(a_sticky_queue_stays_failed)
{
	const struct drm_qbnpu_progress *page;
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	uint32_t queue, slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	page = map_progress();
	queue = kmd_create_queue(DRM_QBNPU_QUEUE_STICKY, NULL);
	kmd_prepare(&job, queue, slow, &set.input, &set.output);
	kmd_submit(&job);
	job.submit.program = set.copy64;
	kmd_submit(&job);
	kmd_submit(&job);
	kmd_cancel(queue, 1);
	wait = kmd_wait(queue, 1);
	ck_assert_int_eq(wait.status, -ECANCELED);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_CANCELLED);
	for (uint64_t i = 2; i <= 3; i++) {
		wait = kmd_wait(queue, i);
		ck_assert_int_eq(wait.status, -ECANCELED);
		ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_QUEUE_FAILED);
		ck_assert_int_eq(wait.start_ns, 0);
	}
	ck_assert_uint_eq(load_completed(&page[1]), 3);
	ck_assert_uint_eq(page[1].state, DRM_QBNPU_QUEUE_FAILED);
	ck_assert_uint_eq(page[1].failed, 3);
	job.submit.job = 0xbad;
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, ECANCELED,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(job.submit));
	ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_QUEUE);
	kmd_destroy_queue(queue);
	unmap_progress(page);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K078: the timeline is the caller's */
START_TEST(timeline_and_queue_go_in_either_order)
{
	struct drm_syncobj_destroy destroy = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	uint32_t queue;

	kmd_begin_set(_i, &set);
	queue = kmd_create_queue(0, &destroy.handle);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
	kmd_prepare_empty(&job, queue);
	kmd_wait(queue, kmd_submit(&job));
	kmd_destroy_queue(queue);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy, EINVAL);

	queue = kmd_create_queue(0, &destroy.handle);
	kmd_prepare_empty(&job, queue);
	kmd_wait(queue, kmd_submit(&job));
	kmd_destroy_queue(queue);
	kmd_prepare_empty(&job, set.queue);
	kmd_add_sync(&job, destroy.handle, 1, 0);
	kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
	kmd_end_set(&set);
}
END_TEST

void kmd_queue_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(numbers_start_at_one_and_never_come_back),
		QBRT_TEST(a_file_has_256_queues),
		QBRT_TEST(priorities_outside_the_range_are_refused),
		QBRT_TEST(the_progress_page_is_read_only_for_good),
		QBRT_TEST(progress_follows_the_jobs),
		QBRT_TEST(progress_counts_failures),
		QBRT_TEST(outputs_are_there_before_completed),
		QBRT_TEST(jobs_of_a_destroyed_queue_go_on),
		QBRT_TEST(a_sticky_queue_stays_failed),
		QBRT_TEST(timeline_and_queue_go_in_either_order),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
