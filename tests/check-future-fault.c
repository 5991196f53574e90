// SPDX-License-Identifier: MIT
/*
 * Futures whose job a fault plan makes slow or late, on the device's own cores:
 * the others go on meanwhile, and its end is the right one.
 */
#include "check-future.h"

#include <sched.h>

#include "device/fault.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_OTHERS 6

enum end {
	BY_ITSELF,
	BY_CANCEL,
	BY_DEADLINE,
};

static const struct {
	const char *plan;
	enum end end;
	enum qbrt_status status;
} cases[] = {
	{ "slow:ns=1000000", BY_ITSELF, QBRT_OK },
	{ "late:ns=1000000", BY_ITSELF, QBRT_OK },
	{ "slow:ns=1000000000000", BY_CANCEL, QBRT_CANCELLED },
	/* its work is done: there is nothing left to cancel */
	{ "late:ns=1000000000000", BY_CANCEL, QBRT_OK },
	{ "slow:ns=1000000000000", BY_DEADLINE, QBRT_ACC_NPU_TIMEOUT },
	{ "late:ns=1000000000000", BY_DEADLINE, QBRT_ACC_NPU_TIMEOUT },
};

/* In flight and struck; a time limit may pass before the job has begun. */
static struct qbrt_future *submit_struck(const struct rig *rig,
					 const char *plan, bool has_deadline)
{
	struct qbrt_infer_options options = {
		.size = sizeof(options),
		.timeout = has_deadline ? 10 * QBRT_NS_PER_MS : 0,
	};
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	struct qbrt_future *future = NULL;
	bool has_fired = false;
	uint32_t id;

	for (;; options.timeout *= 2) {
		ck_assert_int_eq(qbnpu_fault_add(npu, plan, &id), 0);
		ck_assert_ok(
			try_submit(rig, rig->in, rig->out, &options, &future));
		while (!has_fired && !(has_deadline &&
				       qbrt_future_wait(future, 0) == QBRT_OK))
			has_fired = qbnpu_fault_fired(npu, id);
		has_fired = has_fired || qbnpu_fault_fired(npu, id);
		ck_assert_int_eq(qbnpu_fault_remove(npu, id), 0);
		if (has_fired)
			return future;
		qbrt_future_free(future);
	}
}

static void expect_others(const struct rig *rig)
{
	struct qbrt_pinned_memory *outs[NUM_OTHERS];
	struct qbrt_future *futures[NUM_OTHERS];

	for (int i = 0; i < NUM_OTHERS; i++) {
		outs[i] = alloc_64(rig);
		futures[i] = submit(rig, rig->in, outs[i]);
	}
	for (int i = 0; i < NUM_OTHERS; i++) {
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(outs[i], 5));
		qbrt_pinned_memory_free(outs[i]);
	}
}

/* As the job before it ended. */
static void expect_reader(struct qbrt_future *reader,
			  const struct qbrt_pinned_memory *out,
			  enum qbrt_status before)
{
	ck_assert_status(take(reader), before ? QBRT_STREAM_FAILED : QBRT_OK);
	ck_assert(before || holds(out, 5));
}

/* FI03 Q379 Q485 Q616: and who reads its output comes after it; by case */
START_TEST(a_job_that_takes_its_time_holds_up_its_readers_alone)
{
	struct qbrt_pinned_memory *copy;
	struct qbrt_future *struck, *reader = NULL;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(8));
	copy = alloc_64(&rig);
	fill(rig.in, 5);
	struck = submit_struck(&rig, cases[_i].plan,
			       cases[_i].end == BY_DEADLINE);
	/* for good, as far as it is concerned */
	if (cases[_i].end == BY_CANCEL) {
		reader = submit(&rig, rig.out, copy);
		expect_others(&rig);
		ck_assert(!is_done(struck));
		ck_assert(!is_done(reader));
		ck_assert_ok(qbrt_future_cancel(struck, NULL));
	}
	ck_assert_ok(qbrt_future_wait(struck, -1));
	ck_assert_status(take(struck), cases[_i].status);
	ck_assert(cases[_i].status || holds(rig.out, 5));
	if (reader)
		expect_reader(reader, copy, cases[_i].status);
	expect_others(&rig);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert(holds(rig.out, 5));
	qbrt_pinned_memory_free(copy);
	rig_close(&rig);
}
END_TEST

void add_future_fault_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(
			a_job_that_takes_its_time_holds_up_its_readers_alone,
			qbrt_array_size(cases)),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
