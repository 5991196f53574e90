// SPDX-License-Identifier: MIT
/*
 * Faults that only take time: slow and late jobs, and how they end when theirs
 * is over. A time is only ever compared with what it cannot be below.
 */
#include <errno.h>

#include "check-fault.h"
#include "util.h"

/* FI01: nothing but time; queued, inline; of one and of two items */
START_TEST(slow_takes_longer)
{
	const uint32_t num_items = _i / 2 + 1;
	struct fault_stage stage;
	struct device_job job;
	int64_t ns;

	fault_begin(&stage, num_items, NULL);
	(void)fault_add(&stage, "slow:ns=2000000;slow:factor=1,job=2");
	for (int round = 0; round < 2; round++) {
		fault_job(&job, &stage);
		fault_run_to(&stage, &job, !(_i / 2) && _i % 2, 0,
			     QBNPU_CAUSE_NONE);
		ns = job.job.result.end_ns - job.job.result.start_ns;
		if (!round)
			ck_assert_int_ge(ns, 2000000);
		for (uint32_t i = 0; i < num_items; i++)
			fault_check_output(&stage, i, 2);
		device_job_end(&job);
	}
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, 1), 2);
	fault_end(&stage);
}
END_TEST

/* FI01: a job that lasts a millisecond by itself */
START_TEST(slow_multiplies_the_time)
{
	struct device_program program;
	struct device_memory memory;
	struct qbnpu_npu *npu = device_open("aries-rb");
	struct qbnpu_cmd_nop *nop;
	struct device_job job;
	struct prog prog;
	uint32_t id;

	prog_begin(&prog);
	nop = prog_cmd(&prog, QBNPU_OP_NOP);
	nop->delay_ns = QBRT_NS_PER_MS;
	prog_fill(&prog, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)), 7);
	prog_finish(&prog);
	device_load(npu, &prog, 1, &program);
	device_memory_alloc(&memory, &program, 1);
	ck_assert_int_eq(qbnpu_fault_add(npu, "slow:factor=5", &id), 0);
	device_job_begin(&job, &program, &memory);
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	ck_assert_int_ge(job.job.result.end_ns - job.job.result.start_ns,
			 5 * QBRT_NS_PER_MS);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* FI01 K088 K115: slow work is not done yet; late work is. By round: slow and
 * late, ended by a cancel and by the deadline, queued and inline */
START_TEST(slow_and_late_jobs_end_early)
{
	const bool is_late = _i & 1, is_timed = _i & 2, is_inline = _i & 4;
	struct fault_stage stage;
	struct device_job job;
	struct fault_runner runner = { &stage, &job };
	pthread_t thread;
	uint32_t id, command;
	int status;

	fault_begin(&stage, 1, NULL);
	id = fault_add(&stage, is_late ? "late:ns=1000000000000"
				       : "slow:ns=1000000000000");
	fault_job(&job, &stage);
	if (is_timed)
		job.job.limit_ns = QBRT_NS_PER_MS;
	fault_start(&runner, is_inline, &thread);
	fault_wait_fired(&stage, id, 1);
	/* nothing is written between the work and the end */
	if (!is_timed)
		qbnpu_npu_cancel(stage.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	status = device_job_wait(&job);
	fault_check_output(&stage, 0, 2);
	if (is_inline)
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	if (is_timed)
		ck_assert_int_eq(status, -ETIMEDOUT);
	else
		ck_assert_int_eq(status, is_late ? 0 : -ECANCELED);
	command = is_late ? QBNPU_NONE32 : 1;
	if (status)
		fault_check_place(&job, is_late ? QBNPU_NONE32 : 0, command, 0);
	device_job_end(&job);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

/* FI01: the work of all items, then the time */
START_TEST(late_completes_after_the_work)
{
	struct fault_stage stage;
	struct device_job job;

	fault_begin(&stage, 3, NULL);
	(void)fault_add(&stage, "late:ns=2000000");
	fault_job(&job, &stage);
	fault_run_to(&stage, &job, false, 0, QBNPU_CAUSE_NONE);
	ck_assert_int_ge(job.job.result.end_ns - job.job.result.start_ns,
			 2000000);
	for (uint32_t i = 0; i < 3; i++)
		fault_check_output(&stage, i, 2);
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, 1), 1);
	device_job_end(&job);
	fault_end(&stage);
}
END_TEST

void fault_time_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(slow_takes_longer, 3),
		QBRT_TEST(slow_multiplies_the_time),
		QBRT_LOOP_TEST(slow_and_late_jobs_end_early, 8),
		QBRT_TEST(late_completes_after_the_work),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
