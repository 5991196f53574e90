// SPDX-License-Identifier: MIT
/* What becomes of a thread that sleeps in WAIT (docs/spec/kernel.md, 2.6). */
#include "check-kmd.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "util.h"

struct sleeper {
	struct drm_qbnpu_wait wait;
	atomic_int thread; /* number of its thread, once it is there */
	int err;
};

/* Which here only the request can make it do. */
static void wait_until_asleep(struct sleeper *sleeper)
{
	while (!atomic_load(&sleeper->thread))
		continue;
	while (!qbrt_test_is_asleep(atomic_load(&sleeper->thread)))
		continue;
}

static void *sleep_in_wait(void *arg)
{
	struct sleeper *sleeper = arg;

	atomic_store(&sleeper->thread, gettid());
	sleeper->err = kmd_call(DRM_IOCTL_QBNPU_WAIT, &sleeper->wait);
	return NULL;
}

/* K074 */
START_TEST(destroying_a_queue_ends_its_waits)
{
	struct sleeper sleeper = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	uint64_t gate;
	uint32_t queue, slow;
	pthread_t thread;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	gate = kmd_submit(&job);
	queue = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&job, queue);
	kmd_add_sync(&job, set.syncobj, gate, 0);
	sleeper.wait.queue = queue;
	sleeper.wait.job = kmd_submit(&job);
	sleeper.wait.timeout_ns = KMD_FOREVER;
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_in_wait, &sleeper),
			 0);
	wait_until_asleep(&sleeper);
	kmd_destroy_queue(queue);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(sleeper.err, -ENOENT);
	ck_assert_uint_eq(kmd_get_state(set.queue, gate),
			  DRM_QBNPU_JOB_RUNNING);
	kmd_cancel(set.queue, gate);
	kmd_wait(set.queue, gate);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

static sem_t is_held, may_go;

static void hold(int signal)
{
	(void)signal;
	(void)sem_post(&is_held);
	while (sem_wait(&may_go))
		continue;
}

/* K112: however late the waiter runs */
START_TEST(a_wait_gets_its_result_after_1100_later_jobs)
{
	struct sigaction action = { .sa_handler = hold };
	struct sleeper sleeper = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	pthread_t thread;
	uint32_t slow;

	if (qbrt_test_has_sanitizer())
		QBRT_TEST_SKIP("TSan holds a signal back while its thread "
			       "sleeps in a system call");
	kmd_begin_set(_i, &set);
	ck_assert_int_eq(sem_init(&is_held, 0, 0), 0);
	ck_assert_int_eq(sem_init(&may_go, 0, 0), 0);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, slow, &set.input, &set.output);
	job.submit.user_data = 7;
	sleeper.wait.queue = set.queue;
	sleeper.wait.job = kmd_submit(&job);
	sleeper.wait.flags = DRM_QBNPU_WAIT_BLOCKING;
	sleeper.wait.timeout_ns = KMD_FOREVER;
	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_in_wait, &sleeper),
			 0);
	wait_until_asleep(&sleeper);
	ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
	ck_assert_int_eq(sem_wait(&is_held), 0);
	kmd_cancel(set.queue, sleeper.wait.job);
	kmd_prepare_empty(&job, set.queue);
	for (int i = 0; i < 1100; i++)
		kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_int_eq(sem_post(&may_go), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(sleeper.err, 0);
	ck_assert_uint_eq(sleeper.wait.state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(sleeper.wait.status, -ECANCELED);
	ck_assert_uint_eq(sleeper.wait.user_data, 7);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

void kmd_sleeper_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(destroying_a_queue_ends_its_waits),
		QBRT_TEST(a_wait_gets_its_result_after_1100_later_jobs),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
