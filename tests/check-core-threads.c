// SPDX-License-Identifier: MIT
/*
 * A device in a process that gets no more threads: what has a thread does the
 * work, inline runs wait for one another, and what nobody would ever run is
 * refused.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "device-case.h"
#include "device/core.h"
#include "no-threads.h"
#include "test-util.h"
#include "util.h"

#define SKIP_REASON "threads cannot be forbidden here"

/* Q337: one thread is enough for all cores of a mask */
START_TEST(jobs_wait_for_the_cores_that_have_a_thread)
{
	struct device_blocker blocker;
	struct device_job jobs[3];
	struct device_fixture f;
	bool is_forbidden;

	device_fixture_begin(&f, "aries-rb");
	device_block(&blocker, &f, 2);
	is_forbidden = forbid_threads();
	for (int i = 0; i < 3 && is_forbidden; i++) {
		device_fixture_job(&jobs[i], &f, 0xf);
		jobs[i].job.item_count = 1;
		ck_assert_int_eq(qbnpu_npu_prepare(f.npu, &jobs[i].job), 0);
		ck_assert_int_eq(qbnpu_npu_submit(f.npu, &jobs[i].job, NULL),
				 0);
	}
	device_unblock(&blocker, &f);
	for (int i = 0; i < 3 && is_forbidden; i++) {
		ck_assert_int_eq(device_job_wait(&jobs[i]), 0);
		ck_assert_uint_eq(jobs[i].job.result.core, 2);
		device_job_end(&jobs[i]);
	}
	device_fixture_end(&f);
	allow_threads();
	if (!is_forbidden)
		qbrt_test_note_skip(SKIP_REASON);
}
END_TEST

/* DV10: nothing is queued that no core would ever take */
START_TEST(without_any_thread_jobs_are_refused_and_run_inline)
{
	struct device_job job;
	struct device_fixture f;
	bool is_forbidden;

	device_fixture_begin(&f, "aries-rb");
	is_forbidden = forbid_threads();
	device_fixture_job(&job, &f, 0xf0f);
	if (is_forbidden) {
		ck_assert_int_eq(qbnpu_npu_prepare(f.npu, &job.job), -ENOMEM);
		ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL),
				 -ENOMEM);
		ck_assert_uint_eq(qbnpu_npu_get_counters(f.npu)->submitted, 0);
	}
	ck_assert_int_eq(job.num_done, 0);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_int_eq(job.num_done, 1);
	device_fixture_check(&f);
	device_job_end(&job);
	device_fixture_end(&f);
	allow_threads();
	if (!is_forbidden)
		qbrt_test_note_skip(SKIP_REASON);
}
END_TEST

/* A thread of the test, started before they are forbidden. */
struct runner {
	pthread_t thread;
	pthread_barrier_t *start;
	struct qbnpu_npu *npu;
	struct device_job *job;
	int err;
};

static void *run_inline(void *arg)
{
	struct runner *runner = arg;

	(void)pthread_barrier_wait(runner->start);
	runner->err = qbnpu_npu_run(runner->npu, &runner->job->job);
	return NULL;
}

static void start_runner(struct runner *runner, pthread_barrier_t *start,
			 struct device_fixture *f, struct device_job *job)
{
	*runner = (struct runner){ .start = start, .npu = f->npu, .job = job };
	(void)pthread_barrier_init(start, NULL, 2);
	ck_assert_int_eq(
		pthread_create(&runner->thread, NULL, run_inline, runner), 0);
}

static void let_go(struct runner *runner)
{
	(void)pthread_barrier_wait(runner->start);
}

static void join_runner(struct runner *runner)
{
	ck_assert_int_eq(pthread_join(runner->thread, NULL), 0);
	(void)pthread_barrier_destroy(runner->start);
}

static void wait_for_a_waiting_run(struct qbnpu_npu *npu)
{
	bool is_waiting = false;

	while (!is_waiting) {
		(void)sched_yield();
		(void)pthread_mutex_lock(&npu->lock);
		is_waiting = npu->num_waiting_runs == 1;
		(void)pthread_mutex_unlock(&npu->lock);
	}
}

/* How a run that waits for the only core ends. */
enum ending {
	FREED,
	CANCELLED,
	LATE,
	NUM_ENDINGS
};

static const int statuses[] = { 0, -ECANCELED, -ETIMEDOUT };

/* Q337 K087 K115: an inline run waits for the only core */
START_TEST(inline_runs_wait_for_one_another_without_threads)
{
	enum ending ending = (enum ending)_i;
	pthread_barrier_t starts[2];
	struct runner blocker, waiter;
	struct device_memory memory;
	struct device_job blocking, job;
	struct device_fixture f;
	bool is_forbidden;

	device_fixture_begin(&f, "regulus-ra");
	device_memory_alloc(&memory, &f.long_program, 1);
	device_job_begin(&blocking, &f.long_program, &memory);
	device_fixture_job(&job, &f, 1);
	start_runner(&blocker, &starts[0], &f, &blocking);
	start_runner(&waiter, &starts[1], &f, &job);
	is_forbidden = forbid_threads();
	let_go(&blocker);
	device_wait_busy(f.npu, 0);
	if (ending == LATE)
		job.job.deadline_ns = qbrt_now_ns() + 20 * QBRT_NS_PER_MS;
	let_go(&waiter);
	if (is_forbidden && ending != LATE)
		wait_for_a_waiting_run(f.npu);
	if (is_forbidden && ending == CANCELLED)
		qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	if (is_forbidden && ending != FREED)
		join_runner(&waiter);
	qbnpu_npu_cancel(f.npu, &blocking.job, QBNPU_CAUSE_CANCELLED);
	if (!is_forbidden || ending == FREED)
		join_runner(&waiter);
	join_runner(&blocker);
	ck_assert_int_eq(blocking.job.result.status, -ECANCELED);
	if (is_forbidden) {
		ck_assert_int_eq(waiter.err, 0);
		ck_assert_int_eq(job.num_done, 1);
		ck_assert_int_eq(job.job.result.status, statuses[ending]);
		ck_assert_int_eq(!job.job.result.start_ns, ending != FREED);
	}
	device_job_end(&job);
	device_job_end(&blocking);
	device_memory_free(&memory);
	device_fixture_end(&f);
	allow_threads();
	if (!is_forbidden)
		qbrt_test_note_skip(SKIP_REASON);
}
END_TEST

/* DV02 DV11: what waits while a run is inline gets its core, on a thread */
START_TEST(a_job_that_waits_gets_the_core_of_an_inline_run)
{
	struct device_job blocking, job;
	struct device_memory memory;
	pthread_barrier_t start;
	struct runner blocker;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_memory_alloc(&memory, &f.long_program, 1);
	device_job_begin(&blocking, &f.long_program, &memory);
	device_fixture_job(&job, &f, 1);
	start_runner(&blocker, &start, &f, &blocking);
	let_go(&blocker);
	device_wait_busy(f.npu, 0);
	ck_assert_uint_eq(atomic_load(&f.npu->idle_mask), 0);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL), 0);
	ck_assert_uint_eq(atomic_load(&f.npu->idle_mask), QBNPU_WATCHED);
	ck_assert_uint_eq(device_core_state(f.npu, 0).queued, 1);
	qbnpu_npu_cancel(f.npu, &blocking.job, QBNPU_CAUSE_CANCELLED);
	join_runner(&blocker);
	ck_assert_int_eq(blocker.err, 0);
	ck_assert_int_eq(blocking.job.result.status, -ECANCELED);
	ck_assert_int_eq(device_job_wait(&job), 0);
	ck_assert(!pthread_equal(job.done_on, blocker.thread));
	device_fixture_check(&f);
	/* nobody waits any more, so the next run needs no lock again */
	ck_assert_uint_eq(atomic_load(&f.npu->idle_mask), 1);
	device_job_end(&job);
	device_job_end(&blocking);
	device_memory_free(&memory);
	device_fixture_end(&f);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(jobs_wait_for_the_cores_that_have_a_thread),
		QBRT_TEST(without_any_thread_jobs_are_refused_and_run_inline),
		QBRT_LOOP_TEST(inline_runs_wait_for_one_another_without_threads,
			       NUM_ENDINGS),
		QBRT_TEST(a_job_that_waits_gets_the_core_of_an_inline_run),
	};

	return qbrt_test_run("core-threads", tests, qbrt_array_size(tests));
}
