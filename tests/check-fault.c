// SPDX-License-Identifier: MIT
/*
 * What each fault does to a job of the device, queued and inline, and how the
 * job ends. Order comes from how often a plan has fired; a time is only ever
 * compared with what it cannot be below.
 */
#include "check-fault.h"

#include <errno.h>
#include <sched.h>

#include "count-alloc.h"
#include "util.h"

void fault_begin(struct fault_stage *stage, uint32_t num_items,
		 const struct qbnpu_config *config)
{
	uint16_t in, out;

	if (config)
		ck_assert_int_eq(qbnpu_npu_open(config, &stage->npu), 0);
	else
		stage->npu = device_open("aries-rb");
	prog_begin(&stage->prog);
	in = prog_input(&stage->prog, QBNPU_DTYPE_U8, DIMS(FAULT_BYTES));
	out = prog_output(&stage->prog, QBNPU_DTYPE_U8, DIMS(FAULT_BYTES));
	prog_copy(&stage->prog, in, out);
	prog_fill(&stage->prog, out, FAULT_FILL);
	prog_finish(&stage->prog);
	device_load(stage->npu, &stage->prog, 0, &stage->program);
	device_memory_alloc(&stage->memory, &stage->program, num_items);
	for (uint32_t i = 0; i < num_items; i++) {
		uint8_t *input = device_memory_at(&stage->memory, 0, i);

		for (uint32_t j = 0; j < FAULT_BYTES; j++)
			input[j] = (uint8_t)(i + j + 1);
	}
}

void fault_end(struct fault_stage *stage)
{
	qbnpu_npu_close(stage->npu);
	device_memory_check(&stage->memory);
	device_memory_free(&stage->memory);
	device_unload(&stage->program);
	prog_end(&stage->prog);
}

void fault_job(struct device_job *job, struct fault_stage *stage)
{
	device_job_begin(job, &stage->program, &stage->memory);
	job->job.core_mask = 1;
}

uint32_t fault_add(struct fault_stage *stage, const char *plan)
{
	uint32_t id = 0;

	ck_assert_int_eq(qbnpu_fault_add(stage->npu, plan, &id), 0);
	ck_assert_uint_ne(id, 0);
	return id;
}

void fault_wait_fired(struct fault_stage *stage, uint32_t id, uint64_t num)
{
	while (qbnpu_fault_fired(stage->npu, id) < num)
		(void)sched_yield();
}

void fault_check_output(struct fault_stage *stage, uint32_t item,
			uint32_t num_commands)
{
	const uint8_t *input = device_memory_at(&stage->memory, 0, item);
	const uint8_t *output = device_memory_at(&stage->memory, 1, item);
	const uint8_t left[3] = { 0xee, 0, FAULT_FILL };

	for (uint32_t i = 0; i < FAULT_BYTES; i++)
		ck_assert_uint_eq(output[i], num_commands == 1
						     ? input[i]
						     : left[num_commands]);
}

void fault_run_to(struct fault_stage *stage, struct device_job *job,
		  bool is_inline, int status, uint32_t cause)
{
	if (is_inline)
		ck_assert_int_eq(qbnpu_npu_run(stage->npu, &job->job), 0);
	else
		ck_assert_int_eq(qbnpu_npu_submit(stage->npu, &job->job, NULL),
				 0);
	ck_assert_int_eq(device_job_wait(job), status);
	ck_assert_uint_eq(job->job.result.cause, cause);
}

void fault_check_place(const struct device_job *job, uint32_t list,
		       uint32_t command, uint32_t item)
{
	ck_assert_uint_eq(job->job.result.list, list);
	ck_assert_uint_eq(job->job.result.command, command);
	ck_assert_uint_eq(job->job.result.item, item);
}

void fault_check_next_job(struct fault_stage *stage)
{
	struct device_job job;

	fault_job(&job, stage);
	fault_run_to(stage, &job, false, 0, QBNPU_CAUSE_NONE);
	fault_check_output(stage, 0, 2);
	device_job_end(&job);
}

static uint64_t get_count(const atomic_uint_fast64_t *counter)
{
	return atomic_load(counter);
}

/* FI01 SU06 Q125: before the command, and no later one runs; by round */
START_TEST(error_fails_before_its_command)
{
	const uint32_t command = (uint32_t)_i / 2;
	struct fault_stage stage;
	struct device_job job;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	id = fault_add(&stage, command ? "error:cmd=1" : "error");
	fault_job(&job, &stage);
	fault_run_to(&stage, &job, _i % 2, -EIO, QBNPU_CAUSE_INJECTED);
	fault_check_place(&job, 0, command, 0);
	ck_assert_int_gt(job.job.result.start_ns, 0);
	fault_check_output(&stage, 0, command);
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, id), 1);
	ck_assert_uint_eq(get_count(&qbnpu_npu_get_counters(stage.npu)->failed),
			  1);
	device_job_end(&job);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

/* FI01 SU06 */
START_TEST(error_takes_its_item)
{
	struct fault_stage stage;
	struct device_job job;

	fault_begin(&stage, 4, NULL);
	(void)fault_add(&stage, "error:item=2,cmd=1");
	fault_job(&job, &stage);
	fault_run_to(&stage, &job, false, -EIO, QBNPU_CAUSE_INJECTED);
	fault_check_place(&job, 0, 1, 2);
	fault_check_output(&stage, 0, 2);
	fault_check_output(&stage, 1, 2);
	fault_check_output(&stage, 2, 1);
	/* no item is given out after a failure */
	fault_check_output(&stage, 3, 0);
	device_job_end(&job);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

/* FI01 K087 Q125: the limit, the deadline; queued, inline */
START_TEST(hang_lasts_until_its_time_is_over)
{
	int64_t limit = QBRT_NS_PER_MS, start;
	struct fault_stage stage;
	struct device_job job;
	uint64_t num_rounds = 0;
	bool has_fired = false;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	/* a deadline may pass before the job has begun: then a later one */
	for (; !has_fired; limit *= 2, num_rounds++) {
		id = fault_add(&stage, "hang:cmd=1");
		fault_job(&job, &stage);
		start = qbrt_now_ns();
		if (_i / 2)
			job.job.deadline_ns = start + limit;
		else
			job.job.limit_ns = limit;
		fault_run_to(&stage, &job, _i % 2, -ETIMEDOUT,
			     QBNPU_CAUSE_TIME);
		ck_assert_int_ge(job.job.result.end_ns, start + limit);
		has_fired = qbnpu_fault_fired(stage.npu, id);
		ck_assert(has_fired || _i / 2);
		if (has_fired)
			fault_check_place(&job, 0, 1, 0);
		ck_assert_int_eq(qbnpu_fault_remove(stage.npu, id), 0);
		device_job_end(&job);
	}
	fault_check_output(&stage, 0, 1);
	ck_assert_uint_eq(
		get_count(&qbnpu_npu_get_counters(stage.npu)->timeouts),
		num_rounds);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

static void *run_inline(void *arg)
{
	struct fault_runner *runner = arg;

	ck_assert_int_eq(qbnpu_npu_run(runner->stage->npu, &runner->job->job),
			 0);
	return NULL;
}

void fault_start(struct fault_runner *runner, bool is_inline, pthread_t *thread)
{
	if (is_inline)
		ck_assert_int_eq(
			pthread_create(thread, NULL, run_inline, runner), 0);
	else
		ck_assert_int_eq(qbnpu_npu_submit(runner->stage->npu,
						  &runner->job->job, NULL),
				 0);
}

/* FI01 K115: also when its plan is gone by then; queued, inline */
START_TEST(hang_ends_when_it_is_cancelled)
{
	struct fault_stage stage;
	struct device_job job;
	struct fault_runner runner = { &stage, &job };
	pthread_t thread;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	id = fault_add(&stage, "hang");
	fault_job(&job, &stage);
	fault_start(&runner, _i, &thread);
	fault_wait_fired(&stage, id, 1);
	ck_assert_int_eq(qbnpu_fault_remove(stage.npu, id), 0);
	ck_assert(!device_job_is_done(&job));
	qbnpu_npu_cancel(stage.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(device_job_wait(&job), -ECANCELED);
	ck_assert_uint_eq(job.job.result.cause, QBNPU_CAUSE_CANCELLED);
	fault_check_place(&job, 0, 0, 0);
	fault_check_output(&stage, 0, 0);
	if (_i)
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	device_job_end(&job);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

/* FI01 K087: a job behind the hanging one, handed in before or after */
START_TEST(hang_lets_those_behind_it_time_out)
{
	struct fault_stage stage;
	struct device_job job, behind, other;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	id = fault_add(&stage, "hang");
	fault_job(&job, &stage);
	ck_assert_int_eq(qbnpu_npu_submit(stage.npu, &job.job, NULL), 0);
	fault_wait_fired(&stage, id, 1);
	fault_job(&other, &stage);
	ck_assert_int_eq(qbnpu_npu_submit(stage.npu, &other.job, NULL), 0);
	for (int i = 0; i < 3; i++) {
		fault_job(&behind, &stage);
		behind.job.deadline_ns = qbrt_now_ns() + 100000;
		fault_run_to(&stage, &behind, false, -ETIMEDOUT,
			     QBNPU_CAUSE_TIME);
		fault_check_place(&behind, QBNPU_NONE32, QBNPU_NONE32, 0);
		ck_assert_int_eq(behind.job.result.start_ns, 0);
		device_job_end(&behind);
	}
	ck_assert(!device_job_is_done(&job));
	ck_assert(!device_job_is_done(&other));
	qbnpu_npu_cancel(stage.npu, &job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(device_job_wait(&job), -ECANCELED);
	/* FI03: the core goes on with what waited */
	ck_assert_int_eq(device_job_wait(&other), 0);
	device_job_end(&job);
	device_job_end(&other);
	fault_end(&stage);
}
END_TEST

/* FI01: a copy has one command, before which nothing is written */
START_TEST(copies_are_struck_before_they_write)
{
	const struct qbnpu_copy_shape shape = {
		.rank = 1,
		.element_size = 1,
		.dims = { FAULT_BYTES },
		.src = { .strides = { 1 } },
		.dst = { .strides = { 1 } },
	};
	struct fault_stage stage;
	struct device_job job;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	id = fault_add(&stage, _i ? "hang" : "error");
	for (int round = 0; round < 3; round++) {
		device_job_begin(&job, NULL, NULL);
		job.job.type = QBNPU_JOB_COPY;
		job.job.copy = &shape;
		job.job.copy_src = stage.memory.ranges[0].base;
		job.job.copy_dst = stage.memory.ranges[1].base;
		job.job.limit_ns = round ? job.job.limit_ns : 100000;
		if (round == 1)
			id = fault_add(&stage,
				       _i ? "hang:cmd=1" : "error:cmd=1");
		if (round)
			fault_run_to(&stage, &job, round == 2, 0,
				     QBNPU_CAUSE_NONE);
		else if (_i)
			fault_run_to(&stage, &job, false, -ETIMEDOUT,
				     QBNPU_CAUSE_TIME);
		else
			fault_run_to(&stage, &job, false, -EIO,
				     QBNPU_CAUSE_INJECTED);
		ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, id), !round);
		if (!round)
			fault_check_place(&job, QBNPU_NONE32, QBNPU_NONE32, 0);
		fault_check_output(&stage, 0, round ? 1 : 0);
		device_job_end(&job);
	}
	fault_end(&stage);
}
END_TEST

/* FI01 V60: poisoned before the job, whichever command it stops at */
START_TEST(a_failed_job_leaves_poison)
{
	const struct qbnpu_config config = {
		.name = "aries-rb",
		.backend = QBNPU_BACKEND_REF,
		.poison = true,
		.fault_plan = "error",
	};
	struct fault_stage stage;
	struct device_job job;
	const uint8_t *output;

	fault_begin(&stage, 1, &config);
	output = device_memory_at(&stage.memory, 1, 0);
	fault_job(&job, &stage);
	fault_run_to(&stage, &job, _i, -EIO, QBNPU_CAUSE_INJECTED);
	for (uint32_t i = 0; i < FAULT_BYTES; i++)
		ck_assert_uint_eq(output[i], 0xa5);
	device_job_end(&job);
	fault_check_next_job(&stage);
	fault_end(&stage);
}
END_TEST

/* FI01 */
START_TEST(a_failing_allocation_adds_nothing)
{
	struct fault_stage stage;
	struct qbnpu_npu *npu = NULL;
	const struct qbnpu_config config = {
		.name = "aries-rb",
		.fault_plan = "error",
	};
	uint32_t id = 77;
	int err;

	fault_begin(&stage, 1, NULL);
	count_alloc_begin(1);
	err = qbnpu_fault_add(stage.npu, "error", &id);
	ck_assert_int_eq(count_alloc_end(), 1);
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_uint_eq(id, 77);
	fault_check_next_job(&stage);
	fault_end(&stage);
	for (long n = 1; !npu; n++) {
		count_alloc_begin(n);
		err = qbnpu_npu_open(&config, &npu);
		(void)count_alloc_end();
		ck_assert_int_eq(err, npu ? 0 : -ENOMEM);
	}
	qbnpu_npu_close(npu);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(error_fails_before_its_command, 4),
		QBRT_TEST(error_takes_its_item),
		QBRT_LOOP_TEST(hang_lasts_until_its_time_is_over, 4),
		QBRT_LOOP_TEST(hang_ends_when_it_is_cancelled, 2),
		QBRT_TEST(hang_lets_those_behind_it_time_out),
		QBRT_LOOP_TEST(copies_are_struck_before_they_write, 2),
		QBRT_LOOP_TEST(a_failed_job_leaves_poison, 2),
		QBRT_TEST(a_failing_allocation_adds_nothing),
	};
	static struct qbrt_tests all;

	fault_plan_tests(&all);
	fault_choice_tests(&all);
	fault_time_tests(&all);
	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	return qbrt_test_run("fault", all.tests, all.num);
}
