// SPDX-License-Identifier: MIT
/*
 * Which core has which item, priorities, cancel, deadlines, accounting. Order
 * comes from jobs that last until they are cancelled.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "device-case.h"
#include "device/core-jobs.h"
#include "test-util.h"
#include "util.h"

/* DV02 SU06 */
START_TEST(queued_job_runs_on_the_lowest_idle_core)
{
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "aries-rb");
	device_fixture_job(&job, &f, 0xc0a);
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), 0);
	device_fixture_check(&f);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_NONE);
	ck_assert_uint_eq(job.job.result.core, 1);
	ck_assert_uint_eq(job.job.result.item, QBNPU_NONE32);
	ck_assert_int_gt(job.job.result.start_ns, 0);
	ck_assert_int_ge(job.job.result.end_ns, job.job.result.start_ns);
	ck_assert(!pthread_equal(job.done_on, pthread_self()));
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* DV02: one core, three jobs behind a long one; the most urgent goes first */
START_TEST(priority_then_submission_order)
{
	static const int32_t priorities[] = { 0, -1, 0, -2, -1 };
	static const int order[] = { 3, 1, 4, 0, 2 };
	struct device_job jobs[5];
	struct device_blocker blocker;
	struct device_fixture f;
	int i;

	device_fixture_begin(&f, "regulus-ra");
	device_block(&blocker, &f, 0);
	for (i = 0; i < 5; i++) {
		device_fixture_job(&jobs[i], &f, 1);
		jobs[i].job.priority = priorities[i];
		ck_assert_int_eq(qbnpu_npu_submit(f.npu, &jobs[i].job, NULL),
				 0);
	}
	ck_assert_uint_eq(device_core_state(f.npu, 0).queued, 5);
	device_unblock(&blocker, &f);
	for (i = 0; i < 5; i++)
		ck_assert_int_eq(device_job_wait(&jobs[i]), 0);
	for (i = 1; i < 5; i++)
		ck_assert_int_ge(jobs[order[i]].job.result.start_ns,
				 jobs[order[i - 1]].job.result.end_ns);
	for (i = 0; i < 5; i++)
		device_job_end(&jobs[i]);
	device_fixture_end(&f);
}
END_TEST

/* DV02: queued items show on the shortest queues, lowest core first */
START_TEST(waiting_items_count_on_the_shortest_queues)
{
	struct device_blocker blockers[8];
	struct device_memory memory;
	struct device_job job;
	struct device_fixture f;
	int i;

	device_fixture_begin(&f, "aries-rb");
	for (i = 0; i < 8; i++)
		device_block(&blockers[i], &f, (uint32_t)(i / 4 * 8 + i % 4));
	device_memory_alloc(&memory, &f.program, 11);
	device_job_begin(&job, &f.program, &memory);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL), 0);
	for (i = 0; i < 8; i++)
		ck_assert_uint_eq(
			device_core_state(f.npu, (uint32_t)(i / 4 * 8 + i % 4))
				.queued,
			i < 3 ? 2 : 1);
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(job.num_done, 1);
	ck_assert_uint_eq(device_core_state(f.npu, 0).queued, 0);
	for (i = 0; i < 8; i++)
		device_unblock(&blockers[i], &f);
	device_job_end(&job);
	device_memory_free(&memory);
	device_fixture_end(&f);
}
END_TEST

/* SU04 NC41: 1,000 items over eight cores, each its own bytes */
START_TEST(items_spread_over_cores_and_give_their_own_bytes)
{
	enum {
		ITEMS = 1000
	};
	struct device_memory memory;
	struct device_job job;
	struct device_fixture f;
	uint64_t jobs = 0;
	uint32_t i;

	device_fixture_begin(&f, "aries-rb");
	device_memory_alloc(&memory, &f.program, ITEMS);
	for (i = 0; i < ITEMS; i++)
		memset(device_memory_at(&memory, 0, i), (int)(i % 251), 64);
	device_job_begin(&job, &f.program, &memory);
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), 0);
	for (i = 0; i < ITEMS; i++)
		ck_assert_mem_eq(device_memory_at(&memory, 0, i),
				 device_memory_at(&memory, 1, i), 64);
	for (i = 0; i < 8; i++)
		jobs += device_core_state(f.npu, i / 4 * 8 + i % 4).jobs;
	ck_assert_uint_eq(jobs, ITEMS);
	ck_assert_uint_eq(job.job.result.core, 0);
	device_job_end(&job);
	device_memory_check(&memory);
	device_memory_free(&memory);
	device_fixture_end(&f);
}
END_TEST

/* DV16: not begun, a cancelled job is complete when the call returns */
START_TEST(cancel_before_start_completes_at_once)
{
	struct device_blocker blocker;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_block(&blocker, &f, 0);
	device_fixture_job(&job, &f, 1);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL), 0);
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_RESET);
	ck_assert_int_eq(job.num_done, 1);
	ck_assert_int_eq(job.job.result.status, -ECANCELED);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_RESET);
	ck_assert_uint_eq(job.job.result.item, 0);
	ck_assert_uint_eq(job.job.result.command, QBNPU_NONE32);
	ck_assert_int_eq(job.job.result.start_ns, 0);
	/* it was not run later either: its output is as it was */
	device_unblock(&blocker, &f);
	ck_assert_uint_eq(*(uint8_t *)device_memory_at(&f.memory, 1, 0), 0xee);
	/* and again: no effect */
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(job.num_done, 1);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_RESET);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* DV11 DV16: cancelled on its way into an inline run, it ends once, unrun */
START_TEST(cancel_before_an_inline_run_ends_it)
{
	struct device_fixture f;
	struct device_job job;

	device_fixture_begin(&f, "regulus-ra");
	device_fixture_job(&job, &f, 1);
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(job.num_done, 0);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_int_eq(job.num_done, 1);
	ck_assert_int_eq(job.job.result.status, -ECANCELED);
	ck_assert_int_eq(job.job.result.start_ns, 0);
	ck_assert_uint_eq(job.job.result.command, QBNPU_NONE32);
	ck_assert_uint_eq(*(uint8_t *)device_memory_at(&f.memory, 1, 0), 0xee);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* A thread that cancels what another runs inline. */
struct canceller {
	struct device_fixture *f;
	struct device_job *job;
};

static void *cancel_job(void *arg)
{
	const struct canceller *canceller = arg;

	qbnpu_npu_cancel(canceller->f->npu, &canceller->job->job,
			 QBNPU_CAUSE_CANCELLED);
	return NULL;
}

/* DV16 CT10: whatever comes first, done() is called once */
START_TEST(cancel_and_inline_run_race_to_one_end)
{
	struct device_fixture f;
	struct device_job job;
	pthread_t thread;
	int i;

	device_fixture_begin(&f, "regulus-ra");
	for (i = 0; i < 500; i++) {
		struct canceller canceller = { .f = &f, .job = &job };

		device_fixture_job(&job, &f, 1);
		ck_assert_int_eq(
			pthread_create(&thread, NULL, cancel_job, &canceller),
			0);
		ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_assert_int_eq(job.num_done, 1);
		ck_assert(job.job.result.status == 0 ||
			  job.job.result.status == -ECANCELED);
		device_job_end(&job);
	}
	device_fixture_end(&f);
}
END_TEST

/* IS05 DV16 SU06: running, it stops within the command */
START_TEST(cancel_stops_a_running_job)
{
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_job_begin(&job, &f.long_program, &f.long_memory);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL), 0);
	device_wait_busy(f.npu, 0);
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_LOST);
	ck_assert_int_eq(device_job_wait(&job), -ENODEV);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_LOST);
	ck_assert_uint_eq(job.job.result.list, 0);
	ck_assert_uint_lt(job.job.result.command, DEVICE_LONG_SECONDS);
	ck_assert_uint_eq(job.job.result.item, 0);
	ck_assert_int_gt(job.job.result.start_ns, 0);
	/* the second command, which would have filled it, did not run */
	ck_assert_uint_eq(*(uint8_t *)device_memory_at(&f.long_memory, 0, 0),
			  0xee);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* SU06: of many items the lowest that did not end is told */
START_TEST(lowest_failing_item_is_reported)
{
	struct device_memory memory;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "aries-rb");
	device_memory_alloc(&memory, &f.long_program, 20);
	device_job_begin(&job, &f.long_program, &memory);
	job.job.core_mask = 6;
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &job.job, NULL), 0);
	device_wait_busy(f.npu, 1);
	device_wait_busy(f.npu, 2);
	qbnpu_npu_cancel(f.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(device_job_wait(&job), -ECANCELED);
	ck_assert_uint_eq(job.job.result.item, 0);
	ck_assert_uint_lt(job.job.result.command, DEVICE_LONG_SECONDS);
	device_job_end(&job);
	device_memory_free(&memory);
	device_fixture_end(&f);
}
END_TEST

/* SU06: of a job that ran, whichever item it was */
START_TEST(a_job_that_ran_has_a_core)
{
	struct device_memory memory;
	struct device_job job;
	struct device_fixture f;
	struct qbnpu_core *cores;

	device_fixture_begin(&f, "aries-rb");
	cores = f.npu->cores;
	device_memory_alloc(&memory, &f.program, 2);
	device_job_begin(&job, &f.program, &memory);
	/* as two cores would do it: the first item does not come to begin */
	(void)pthread_mutex_lock(&f.npu->lock);
	(void)atomic_fetch_and(&f.npu->idle_mask, ~UINT64_C(3));
	qbnpu_jobs_begin_job(f.npu, &job.job);
	qbnpu_jobs_give(&cores[0], &job.job);
	qbnpu_jobs_give(&cores[1], &job.job);
	(void)qbnpu_jobs_begin_item(&cores[1]);
	ck_assert(!qbnpu_jobs_stop(f.npu, &job.job, QBNPU_CAUSE_CANCELLED));
	ck_assert_ptr_eq(
		qbnpu_jobs_end_item(&cores[1], -ECANCELED, 0, qbrt_now_ns()),
		&job.job);
	(void)pthread_mutex_unlock(&f.npu->lock);
	ck_assert_int_gt(job.job.result.start_ns, 0);
	ck_assert_uint_eq(job.job.result.core, 1);
	ck_assert_uint_eq(job.job.result.item, 0);
	device_job_end(&job);
	device_memory_free(&memory);
	device_fixture_end(&f);
}
END_TEST

/* SU06: a limit counts from the start */
START_TEST(limit_ends_a_running_job)
{
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_job_begin(&job, &f.long_program, &f.long_memory);
	job.job.limit_ns = 2000000;
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), -ETIMEDOUT);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_TIME);
	ck_assert_int_ge(job.job.result.end_ns - job.job.result.start_ns,
			 2000000);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* SU06 K087 */
START_TEST(deadline_ends_a_running_job)
{
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_job_begin(&job, &f.long_program, &f.long_memory);
	job.job.deadline_ns = qbrt_now_ns() + 50000000;
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_int_eq(job.job.result.status, -ETIMEDOUT);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_TIME);
	ck_assert_int_gt(job.job.result.start_ns, 0);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* K087: a deadline that is past when its turn comes */
START_TEST(passed_deadline_never_starts)
{
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_fixture_job(&job, &f, 1);
	job.job.deadline_ns = qbrt_now_ns();
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), -ETIMEDOUT);
	ck_assert_int_eq(job.job.result.start_ns, 0);
	ck_assert_uint_eq(*(uint8_t *)device_memory_at(&f.memory, 1, 0), 0xee);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* K087: queued behind a slow job, its deadline still ends it */
START_TEST(deadline_ends_a_job_that_waits)
{
	struct device_job late, patient;
	struct device_blocker blocker;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	device_block(&blocker, &f, 0);
	device_fixture_job(&patient, &f, 1);
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &patient.job, NULL), 0);
	device_fixture_job(&late, &f, 1);
	late.job.deadline_ns = qbrt_now_ns() + 1000000;
	ck_assert_int_eq(qbnpu_npu_submit(f.npu, &late.job, NULL), 0);
	ck_assert_int_eq(device_job_wait(&late), -ETIMEDOUT);
	ck_assert_int_eq(late.job.result.start_ns, 0);
	ck_assert(!device_job_is_done(&blocker.job));
	ck_assert(!device_job_is_done(&patient));
	device_unblock(&blocker, &f);
	ck_assert_int_eq(device_job_wait(&patient), 0);
	device_job_end(&late);
	device_job_end(&patient);
	device_fixture_end(&f);
}
END_TEST

/* DV05: the account of a core */
START_TEST(accounting_follows_jobs)
{
	struct qbnpu_core_state before, after;
	struct device_blocker blocker;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	before = device_core_state(f.npu, 0);
	ck_assert_uint_eq(before.busy_ns, 0);
	device_block(&blocker, &f, 0);
	before = device_core_state(f.npu, 0);
	do /* grows while it runs */
		after = device_core_state(f.npu, 0);
	while (after.busy_ns <= before.busy_ns);
	ck_assert_uint_eq(after.jobs, 0);
	device_unblock(&blocker, &f);
	before = device_core_state(f.npu, 0);
	ck_assert_uint_eq(before.is_busy, 0);
	ck_assert_uint_eq(before.jobs, 0);
	device_fixture_job(&job, &f, 1);
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), 0);
	after = device_core_state(f.npu, 0);
	ck_assert_uint_eq(after.jobs, 1);
	ck_assert_uint_eq(after.busy_ns - before.busy_ns,
			  job.job.result.busy_ns);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* DV24 */
START_TEST(counters_follow_jobs)
{
	struct qbnpu_counters *counters;
	struct device_blocker blocker;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	counters = qbnpu_npu_get_counters(f.npu);
	ck_assert_uint_eq(counters->programs_loaded, 2);
	device_fixture_job(&job, &f, 1);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	device_job_end(&job);
	counters = qbnpu_npu_get_counters(f.npu);
	ck_assert_uint_eq(counters->submitted, 1);
	ck_assert_uint_eq(counters->completed, 1);
	ck_assert_uint_eq(counters->bytes_read, 64);
	ck_assert_uint_eq(counters->bytes_written, 64);
	device_block(&blocker, &f, 0);
	device_unblock(&blocker, &f);
	device_fixture_job(&job, &f, 1);
	job.job.deadline_ns = 1;
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	device_job_end(&job);
	counters = qbnpu_npu_get_counters(f.npu);
	ck_assert_uint_eq(counters->submitted, 3);
	ck_assert_uint_eq(counters->completed, 1);
	ck_assert_uint_eq(counters->cancelled, 1);
	ck_assert_uint_eq(counters->timeouts, 1);
	ck_assert_uint_eq(counters->failed, 0);
	device_fixture_end(&f);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(queued_job_runs_on_the_lowest_idle_core),
		QBRT_TEST(priority_then_submission_order),
		QBRT_TEST(waiting_items_count_on_the_shortest_queues),
		QBRT_TEST(items_spread_over_cores_and_give_their_own_bytes),
		QBRT_TEST(cancel_before_start_completes_at_once),
		QBRT_TEST(cancel_before_an_inline_run_ends_it),
		QBRT_TEST(cancel_and_inline_run_race_to_one_end),
		QBRT_TEST(cancel_stops_a_running_job),
		QBRT_TEST(lowest_failing_item_is_reported),
		QBRT_TEST(a_job_that_ran_has_a_core),
		QBRT_TEST(limit_ends_a_running_job),
		QBRT_TEST(deadline_ends_a_running_job),
		QBRT_TEST(passed_deadline_never_starts),
		QBRT_TEST(deadline_ends_a_job_that_waits),
		QBRT_TEST(accounting_follows_jobs),
		QBRT_TEST(counters_follow_jobs),
	};

	return qbrt_test_run("core-jobs", tests, qbrt_array_size(tests));
}
