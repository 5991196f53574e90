// SPDX-License-Identifier: MIT
/* WAIT, and SUBMIT with `wait` (docs/spec/kernel.md, 2.6, K094, K110-K116). */
#include "check-kmd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

/* K110 K003 */
START_TEST(bad_waits_are_refused)
{
	struct drm_qbnpu_wait wait = { .queue = 99, .job = 1 };
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, ENOENT);
	wait.queue = set.queue;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, EINVAL);
	kmd_prepare_empty(&job, set.queue);
	kmd_wait(set.queue, kmd_submit(&job));
	wait.job = 2;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, EINVAL);
	wait.job = 0;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, EINVAL);
	wait.job = UINT64_MAX;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, EINVAL);
	kmd_end_set(&set);
}
END_TEST

/* K110: poll, past, and a time that comes; state alone is written */
START_TEST(a_wait_that_ends_early_tells_the_state)
{
	const size_t state = offsetof(struct drm_qbnpu_wait, state);
	struct drm_qbnpu_wait wait = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	wait.queue = set.queue;
	wait.job = kmd_submit(&job);
	for (int i = 0; i < 8; i++) {
		const int64_t times[] = { 0, 1, -1, qbrt_now_ns() + 1000000 };

		memset(&wait.state, 0x5a, sizeof(wait) - state);
		wait.flags = i % 2 ? DRM_QBNPU_WAIT_BLOCKING : 0;
		wait.timeout_ns = times[i / 2];
		kmd_refuse_but(DRM_IOCTL_QBNPU_WAIT, &wait, ETIME, state,
			       state + sizeof(wait.state));
		ck_assert_uint_eq(wait.state, DRM_QBNPU_JOB_RUNNING);
	}
	kmd_cancel(set.queue, wait.job);
	kmd_wait(set.queue, wait.job);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K111 K113 K083 */
START_TEST(results_are_the_same_for_every_reader)
{
	struct drm_qbnpu_wait first, again;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.user_data = 5;
	first = kmd_wait(set.queue, kmd_submit(&job));
	for (int i = 0; i < 10; i++) {
		again = kmd_wait(set.queue, 1);
		ck_assert_mem_eq(&again, &first, sizeof(first));
	}
	ck_assert_int_eq(first.status, 0);
	ck_assert_uint_eq(first.list, DRM_QBNPU_NONE);
	ck_assert_uint_eq(first.command, DRM_QBNPU_NONE);
	ck_assert_uint_eq(first.item, DRM_QBNPU_NONE);
	ck_assert_uint_eq(first.core, 0);
	ck_assert_uint_eq(first.time_source, DRM_QBNPU_TIME_DEVICE);
	ck_assert_int_gt(first.submit_ns, 0);
	ck_assert_int_ge(first.start_ns, first.submit_ns);
	ck_assert_int_ge(first.end_ns, first.start_ns);
	ck_assert_uint_le(first.busy_ns,
			  (uint64_t)(first.end_ns - first.start_ns));
	ck_assert_uint_eq(first.user_data, 5);
	kmd_end_set(&set);
}
END_TEST

/* K112 K141 */
START_TEST(results_of_1024_jobs_are_kept)
{
	struct drm_qbnpu_wait wait = { 0 };
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare_empty(&job, set.queue);
	for (uint64_t i = 1; i <= 1024; i++) {
		job.submit.user_data = i;
		kmd_submit(&job);
	}
	ck_assert_uint_eq(kmd_wait(set.queue, 1).user_data, 1);
	kmd_submit(&job);
	wait.queue = set.queue;
	wait.job = 1;
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, ENODATA);
	ck_assert_uint_eq(kmd_wait(set.queue, 2).user_data, 2);
	kmd_end_set(&set);
}
END_TEST

/* K094 K313 */
START_TEST(submit_waits_for_its_job)
{
	struct drm_qbnpu_wait again;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.user_data = 9;
	for (uint64_t i = 1; i <= 10; i++) {
		kmd_set_wait(&job);
		job.wait.flags = i % 2 ? DRM_QBNPU_WAIT_BLOCKING : 0;
		memset(set.output.data, 0, KMD_BYTES);
		ck_assert_uint_eq(kmd_submit(&job), i);
		ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
		ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
		ck_assert_int_eq(job.wait.status, 0);
		ck_assert_uint_eq(job.wait.user_data, 9);
		again = kmd_wait(set.queue, i);
		ck_assert_mem_eq(
			&again.state, &job.wait.state,
			sizeof(again) - offsetof(struct drm_qbnpu_wait, state));
	}
	kmd_end_set(&set);
}
END_TEST

/* K094: a time limit ends the wait, never the job, and nothing fails */
START_TEST(submit_succeeds_when_its_wait_ends_early)
{
	struct kmd_set set;
	struct kmd_job job;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	for (int i = 0; i < 3; i++) {
		const int64_t times[] = { 0, 1, qbrt_now_ns() + 1000000 };

		kmd_set_wait(&job);
		memset(&job.wait.status, 0x5a,
		       sizeof(job.wait) -
			       offsetof(struct drm_qbnpu_wait, status));
		job.wait.timeout_ns = times[i];
		ck_assert_uint_eq(kmd_submit(&job), (unsigned int)i + 1);
		ck_assert_uint_lt(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
		ck_assert_int_eq(job.wait.status, 0x5a5a5a5a);
		ck_assert_uint_eq(job.wait.user_data, 0x5a5a5a5a5a5a5a5a);
	}
	kmd_cancel(set.queue, 0);
	ck_assert_int_eq(kmd_wait(set.queue, 3).status, -ECANCELED);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

struct submitter {
	struct kmd_job *job;
	atomic_int is_done;
	int err;
};

static void *submit_in_thread(void *arg)
{
	struct submitter *submitter = arg;

	submitter->err =
		kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &submitter->job->submit);
	atomic_store(&submitter->is_done, 1);
	return NULL;
}

/* Until the job of the other thread is there: it cannot be seen otherwise. */
static void wait_until_submitted(uint32_t queue, uint64_t job)
{
	struct drm_qbnpu_wait wait = { .queue = queue, .job = job };

	while (kmd_call(DRM_IOCTL_QBNPU_WAIT, &wait) == -EINVAL)
		continue;
}

/* K094 K115: cancelled from elsewhere, inline or queued: returns 0 */
START_TEST(cancelling_a_job_ends_the_submit_that_waits)
{
	struct submitter submitter = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	pthread_t thread;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	for (uint64_t i = 1; i <= 50; i++) {
		kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
		kmd_set_wait(&job);
		submitter.job = &job;
		ck_assert_int_eq(pthread_create(&thread, NULL, submit_in_thread,
						&submitter),
				 0);
		wait_until_submitted(set.queue, i);
		kmd_cancel(set.queue, i);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_assert_int_eq(submitter.err, 0);
		ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
		ck_assert_int_eq(job.wait.status, -ECANCELED);
		ck_assert_uint_eq(job.wait.cause, DRM_QBNPU_CAUSE_CANCELLED);
	}
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K094: the queue goes, the wait does not end with it */
START_TEST(destroying_the_queue_does_not_end_the_submit)
{
	struct submitter submitter = { 0 };
	struct kmd_set set;
	struct kmd_job job, gate;
	uint32_t queue, slow, gate_syncobj, gate_queue;
	pthread_t thread;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	gate_queue = kmd_create_queue(0, &gate_syncobj);
	kmd_prepare(&gate, gate_queue, slow, &set.input, &set.output);
	kmd_submit(&gate);
	queue = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&job, queue);
	kmd_add_sync(&job, gate_syncobj, 1, DRM_QBNPU_SYNC_ANY_RESULT);
	kmd_set_wait(&job);
	submitter.job = &job;
	ck_assert_int_eq(
		pthread_create(&thread, NULL, submit_in_thread, &submitter), 0);
	wait_until_submitted(queue, 1);
	kmd_destroy_queue(queue);
	ck_assert_int_eq(atomic_load(&submitter.is_done), 0);
	kmd_cancel(gate_queue, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(submitter.err, 0);
	ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(job.wait.status, 0);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

static atomic_int num_signals;

static void note_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&num_signals, 1);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = note_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	atomic_store(&num_signals, 0);
}

/* K009: until the request is left; a signal too early is only counted */
static void send_signals(pthread_t thread, atomic_int *is_done)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (!atomic_load(is_done)) {
		(void)pthread_kill(thread, SIGUSR1);
		(void)nanosleep(&pause, NULL);
	}
}

struct waiter {
	struct drm_qbnpu_wait wait;
	atomic_int is_done;
	int err;
};

static void *wait_in_thread(void *arg)
{
	struct waiter *waiter = arg;

	waiter->err = kmd_call(DRM_IOCTL_QBNPU_WAIT, &waiter->wait);
	atomic_store(&waiter->is_done, 1);
	return NULL;
}

/* K009 */
START_TEST(a_signal_ends_a_wait_without_effect)
{
	struct waiter waiter = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	pthread_t thread;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	catch_signals();
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	waiter.wait.queue = set.queue;
	waiter.wait.job = kmd_submit(&job);
	waiter.wait.timeout_ns = KMD_FOREVER;
	waiter.wait.state = 0xbad;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_in_thread, &waiter),
			 0);
	send_signals(thread, &waiter.is_done);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(waiter.err, -EINTR);
	ck_assert_uint_eq(waiter.wait.state, 0xbad);
	kmd_cancel(set.queue, 1);
	kmd_wait(set.queue, 1);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K094: the job is queued all the same, once */
START_TEST(a_signal_ends_the_wait_of_a_submit_which_succeeds)
{
	struct submitter submitter = { 0 };
	struct kmd_set set;
	struct kmd_job job, blocker;
	pthread_t thread;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	catch_signals();
	slow = kmd_load_slow(60);
	/* behind another job, so that it sleeps and does not run inline */
	kmd_prepare(&blocker, set.queue, slow, &set.input, &set.output);
	kmd_submit(&blocker);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_set_wait(&job);
	submitter.job = &job;
	ck_assert_int_eq(
		pthread_create(&thread, NULL, submit_in_thread, &submitter), 0);
	send_signals(thread, &submitter.is_done);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(submitter.err, 0);
	ck_assert_uint_eq(job.submit.job, 2);
	ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_QUEUED);
	kmd_cancel(set.queue, 1);
	ck_assert_int_eq(kmd_wait(set.queue, 2).status, 0);
	job.submit.wait = 0;
	job.submit.wait_size = 0;
	ck_assert_uint_eq(kmd_submit(&job), 3);
	kmd_wait(set.queue, 3);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K094 K017: `wait` goes away meanwhile; WAIT has the result */
START_TEST(a_wait_that_cannot_be_written_any_more_is_no_failure)
{
	struct submitter submitter = { 0 };
	struct drm_qbnpu_wait *wait;
	struct kmd_set set;
	struct kmd_job job, blocker;
	pthread_t thread;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_prepare(&blocker, set.queue, slow, &set.input, &set.output);
	kmd_submit(&blocker);
	wait = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(wait, MAP_FAILED);
	wait->timeout_ns = KMD_FOREVER;
	wait->state = 0xbad;
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.wait = (uintptr_t)wait;
	job.submit.wait_size = sizeof(*wait);
	submitter.job = &job;
	ck_assert_int_eq(
		pthread_create(&thread, NULL, submit_in_thread, &submitter), 0);
	wait_until_submitted(set.queue, 2);
	ck_assert_uint_eq(wait->state, DRM_QBNPU_JOB_WAITS);
	ck_assert_int_eq(munmap(wait, 4096), 0);
	kmd_cancel(set.queue, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(submitter.err, 0);
	ck_assert_uint_eq(job.submit.job, 2);
	ck_assert_int_eq(kmd_wait(set.queue, 2).status, 0);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

/* K116: a queue that hangs does not hold the others up */
START_TEST(waits_are_not_delayed_by_other_queues)
{
	struct kmd_set set;
	struct kmd_job job;
	uint32_t slow, other;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	kmd_submit(&job);
	other = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&job, other);
	for (int i = 0; i < 100; i++)
		kmd_wait(other, kmd_submit(&job));
	ck_assert_uint_eq(kmd_get_state(set.queue, 1), DRM_QBNPU_JOB_RUNNING);
	kmd_cancel(set.queue, 1);
	kmd_wait(set.queue, 1);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

void kmd_wait_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(bad_waits_are_refused),
		QBRT_TEST(a_wait_that_ends_early_tells_the_state),
		QBRT_TEST(results_are_the_same_for_every_reader),
		QBRT_TEST(results_of_1024_jobs_are_kept),
		QBRT_TEST(submit_waits_for_its_job),
		QBRT_TEST(submit_succeeds_when_its_wait_ends_early),
		QBRT_TEST(cancelling_a_job_ends_the_submit_that_waits),
		QBRT_TEST(destroying_the_queue_does_not_end_the_submit),
		QBRT_TEST(a_signal_ends_a_wait_without_effect),
		QBRT_TEST(a_signal_ends_the_wait_of_a_submit_which_succeeds),
		QBRT_TEST(a_wait_that_cannot_be_written_any_more_is_no_failure),
		QBRT_TEST(waits_are_not_delayed_by_other_queues),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
