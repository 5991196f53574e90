// SPDX-License-Identifier: MIT
/* Calls that are inside a model when it is disposed, wherever they stand. */
#include "check-infer.h"

#include <sched.h>
#include <stdatomic.h>

#include "model.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "util.h"

/* Q268: who waits for a slot is woken by dispose, which waits for nobody. */
START_TEST(dispose_wakes_who_waits_for_a_slot)
{
	struct qbrt_slots *slots;
	struct qbrt_slot *slot;
	struct call call = { 0 };
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(0, 1));
	slots = &rig.model->launched->slots;
	ck_assert_int_eq(qbrt_slots_take(slots, 0, &slot), QBRT_OK);
	fill(rig.out, 9);
	call.rig = &rig;
	call.in = rig.in;
	call.out = rig.out;
	call_start(&call);
	while (atomic_load(&slots->num_waiting) == 0)
		sched_yield();
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_int_eq(call_join(&call), QBRT_MODEL_NOT_ALIVE);
	ck_assert(holds(rig.out, 9));
	ck_assert_uint_eq(atomic_load(&rig.out->storage->uses), 0);
	rig_close(&rig);
}
END_TEST

static void wait_until_busy(void)
{
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	struct qbnpu_core_state core;

	do {
		sched_yield();
		ck_assert_uint_ge(qbnpu_npu_get_core_states(npu, &core, 1), 1);
	} while (!core.is_busy);
}

/* Q268: of its own model; the other's call, which writes, goes on. */
START_TEST(dispose_wakes_who_waits_for_an_input)
{
	struct qbrt_model *writer = models_load_slow(60000, 1);
	struct call writing = { 0 }, reading = { 0 };
	struct rig rig, own;

	rig_open(&rig, NULL, models_load_copy64());
	own = rig;
	own.model = writer;
	ck_assert_ok(qbrt_model_launch(writer, rig.acc));
	writing.rig = &own;
	writing.in = rig.in;
	writing.out =
		rig_alloc(&rig, QBRT_DTYPE_UINT8, 1, (const int64_t[]){ 64 });
	call_start(&writing);
	wait_until_busy();
	reading.rig = &rig;
	reading.in = writing.out;
	reading.out = rig.out;
	call_start(&reading);
	while (!atomic_load(&writing.out->storage->waiters))
		sched_yield();
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_int_eq(call_join(&reading), QBRT_MODEL_NOT_ALIVE);
	ck_assert_uint_eq(get_counters(rig.model).submitted, 0);
	ck_assert_ok(qbrt_model_dispose(writer));
	ck_assert_int_eq(call_join(&writing), QBRT_MODEL_NOT_ALIVE);
	qbrt_pinned_memory_free(writing.out);
	qbrt_model_free(writer);
	rig_close(&rig);
}
END_TEST

/* Q268: one that got its slot, and nothing more, before. */
START_TEST(after_dispose_no_job_begins)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, 9);
	atomic_store(&rig.model->launched->is_stopping, true);
	ck_assert_status(rig_infer(&rig, NULL), QBRT_MODEL_NOT_ALIVE);
	ck_assert_detail("was disposed before the inference began");
	ck_assert(holds(rig.out, 9));
	ck_assert_uint_eq(get_counters(rig.model).submitted, 0);
	rig_close(&rig);
}
END_TEST

/* Q268: at once, however long it would run. */
START_TEST(dispose_ends_a_running_job)
{
	struct call call = { 0 };
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(60000, 1));
	fill(rig.in, 6);
	call.rig = &rig;
	call.in = rig.in;
	call.out = rig.out;
	call_start(&call);
	wait_until_busy();
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_status(rig_infer(&rig, NULL), QBRT_MODEL_NOT_ALIVE);
	ck_assert_int_eq(call_join(&call), QBRT_MODEL_NOT_ALIVE);
	ck_assert_status(qbrt_pinned_memory_wait(rig.out, 0),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("was disposed while the inference ran");
	ck_assert_uint_eq(get_counters(rig.model).cancelled, 1);
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	rig_close(&rig);
}
END_TEST

void add_infer_dispose_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(dispose_wakes_who_waits_for_a_slot),
		QBRT_TEST(dispose_wakes_who_waits_for_an_input),
		QBRT_TEST(after_dispose_no_job_begins),
		QBRT_TEST(dispose_ends_a_running_job),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
