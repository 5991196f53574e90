// SPDX-License-Identifier: MIT
/*
 * Which jobs a plan strikes. Jobs run one after the other, each by itself, so
 * which ones failed is a fact and no race.
 */
#include <errno.h>
#include <string.h>

#include "check-fault.h"
#include "util.h"

#define NUM_JOBS 12

/* Job i is of queue i % 3 + 1 and runs on core i % 2. */
static void run_jobs(struct fault_stage *stage, char *failed)
{
	for (uint32_t i = 0; i < NUM_JOBS; i++) {
		struct device_job job;
		int status;

		fault_job(&job, stage);
		job.job.queue = i % 3 + 1;
		job.job.core_mask = 1u << i % 2;
		status = device_job_submit_wait(stage->npu, &job);
		ck_assert_int_eq(status, status ? -EIO : 0);
		fault_check_output(stage, 0, status ? 0 : 2);
		memset(stage->memory.ranges[1].base, 0xee, FAULT_BYTES);
		failed[i] = status ? 'x' : '.';
		device_job_end(&job);
	}
	failed[NUM_JOBS] = '\0';
}

static const struct {
	const char *plan;
	const char *failed;
} choices[] = {
	{ "error", "x..........." },
	{ "error:job=3", "..x........." },
	{ "error:job=13", "............" },
	{ "error:count=3", "xxx........." },
	{ "error:count=0", "xxxxxxxxxxxx" },
	{ "error:every=4", "...x........" },
	{ "error:every=4,count=2", "...x...x...." },
	{ "error:every=4,count=0", "...x...x...x" },
	{ "error:every=4,job=2,count=0", ".x...x...x.." },
	{ "error:job=10,count=0", ".........xxx" },
	{ "error:queue=2,count=0", ".x..x..x..x." },
	{ "error:queue=2,job=3", ".......x...." },
	{ "error:queue=4,count=0", "............" },
	{ "error:core=0.1,count=0", ".x.x.x.x.x.x" },
	{ "error:core=0.1,queue=1,count=0", "...x.....x.." },
	{ "error:core=1.1,count=0", "............" },
	{ "error:core=7.7,count=0", "............" },
	{ "error:dev=0", "x..........." },
	{ "error:dev=1,count=0", "............" },
	{ "error:p=0,count=0", "............" },
	{ "error:p=1,count=0", "xxxxxxxxxxxx" },
	/* splitmix64 of the seed, and nothing else, decides */
	{ "error:p=0.5,seed=1,count=0", ".x.....xx.x." },
	{ "error:p=0.5,seed=1,count=2", ".x.....x...." },
	/* each counts all jobs; the first one has it, the other the next */
	{ "error:job=2;error:job=5", ".x..x......." },
	{ "error:job=2;error:job=2", ".xx........." },
	{ "error:job=2;error:job=2,every=4", ".x...x......" },
	{ "error:job=2;error:job=2,count=2", ".xxx........" },
	/* what no command of the program has happens to nobody */
	{ "error:cmd=2,count=0", "............" },
	{ "error:item=1,count=0", "............" },
};

/* FI01: by round; what is in the tree twice is the same twice */
START_TEST(the_keys_choose_the_jobs)
{
	struct fault_stage stage;
	char failed[NUM_JOBS + 1];
	uint64_t num_failed = 0;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	for (int round = 0; round < 2; round++) {
		num_failed = 0;
		id = fault_add(&stage, choices[_i].plan);
		run_jobs(&stage, failed);
		ck_assert_msg(!strcmp(failed, choices[_i].failed),
			      "%s: %s, not %s", choices[_i].plan, failed,
			      choices[_i].failed);
		for (int i = 0; i < NUM_JOBS; i++)
			num_failed += failed[i] == 'x';
		ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, id), num_failed);
		ck_assert_int_eq(qbnpu_fault_remove(stage.npu, id), 0);
	}
	fault_end(&stage);
}
END_TEST

/* FI01 DV01: a plan of the configuration; dev= is the number given there */
START_TEST(a_device_is_opened_with_a_plan)
{
	struct qbnpu_config config = {
		.name = "aries-rb",
		.backend = QBNPU_BACKEND_REF,
		.number = 3,
		.fault_plan = "error:dev=2;error:job=2,dev=3",
	};
	struct qbnpu_npu *none = NULL;
	struct fault_stage stage;
	char failed[NUM_JOBS + 1];

	fault_begin(&stage, 1, &config);
	run_jobs(&stage, failed);
	ck_assert_str_eq(failed, ".x..........");
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, 1), 1);
	fault_end(&stage);
	config.fault_plan = "error:";
	ck_assert_int_eq(qbnpu_npu_open(&config, &none), -EINVAL);
	config.fault_plan = "";
	ck_assert_int_eq(qbnpu_npu_open(&config, &none), -EINVAL);
	ck_assert_ptr_null(none);
}
END_TEST

/* FI01: numbers are never given twice; what is removed strikes no more */
START_TEST(plans_are_added_and_removed)
{
	struct fault_stage stage;
	char failed[NUM_JOBS + 1];
	uint32_t first, second, third, untouched = 77;

	fault_begin(&stage, 1, NULL);
	ck_assert_int_eq(qbnpu_fault_add(stage.npu, "hang:x", &untouched),
			 -EINVAL);
	ck_assert_uint_eq(untouched, 77);
	first = fault_add(&stage, "error:count=0,core=0.0");
	second = fault_add(&stage, "error:count=0");
	ck_assert_uint_ne(first, second);
	run_jobs(&stage, failed);
	ck_assert_str_eq(failed, "xxxxxxxxxxxx");
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, first), 6);
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, second), 6);
	ck_assert_int_eq(qbnpu_fault_remove(stage.npu, second), 0);
	ck_assert_int_eq(qbnpu_fault_remove(stage.npu, second), -ENOENT);
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, second), 0);
	run_jobs(&stage, failed);
	ck_assert_str_eq(failed, "x.x.x.x.x.x.");
	third = fault_add(&stage, "error");
	ck_assert_uint_ne(third, second);
	/* the other one is still first where both would strike */
	run_jobs(&stage, failed);
	ck_assert_str_eq(failed, "xxx.x.x.x.x.");
	ck_assert_uint_eq(qbnpu_fault_fired(stage.npu, third), 1);
	fault_end(&stage);
}
END_TEST

/* FI07: neither a device without a plan nor one that is rid of it looks */
START_TEST(without_a_plan_no_job_is_looked_at)
{
	struct fault_stage stage;
	struct device_job job;
	uint32_t id;

	fault_begin(&stage, 1, NULL);
	for (int round = 0; round < 3; round++) {
		if (round == 1)
			id = fault_add(&stage, "error:job=9");
		fault_job(&job, &stage);
		ck_assert_int_eq(device_job_submit_wait(stage.npu, &job), 0);
		ck_assert_int_eq(job.job.fault.word,
				 round == 1 ? QBNPU_FAULT_NONE
					    : QBNPU_FAULT_UNDECIDED);
		if (round == 1)
			ck_assert_int_eq(qbnpu_fault_remove(stage.npu, id), 0);
		device_job_end(&job);
	}
	fault_end(&stage);
}
END_TEST

void fault_choice_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(the_keys_choose_the_jobs,
			       qbrt_array_size(choices)),
		QBRT_TEST(a_device_is_opened_with_a_plan),
		QBRT_TEST(plans_are_added_and_removed),
		QBRT_TEST(without_a_plan_no_job_is_looked_at),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
