// SPDX-License-Identifier: MIT
/*
 * Jobs of calls that ask the interrupt function: where they run, and how long
 * their results are kept.
 */
#include "check-interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gated.h"
#include "soft/soft.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_MEANWHILE 1100

static _Thread_local bool is_held;

struct hold {
	struct gated *gated;
	atomic_bool has_begun, may_end;
	enum qbrt_status status;
};

/* The thread that is to be held is, in the middle of its call. */
static bool hold_thread(void *arg)
{
	struct hold *hold = arg;

	if (!is_held)
		return false;
	atomic_store(&hold->has_begun, true);
	while (!atomic_load(&hold->may_end))
		sched_yield();
	return false;
}

static void *infer_held(void *arg)
{
	struct hold *hold = arg;

	is_held = true;
	hold->status = rig_infer(&hold->gated->rig, NULL);
	return NULL;
}

/* K112 Q366: more jobs in its queue meanwhile than the driver keeps results. */
START_TEST(a_result_is_kept_while_the_program_is_asked)
{
	struct hold hold = { .may_end = false };
	struct qbrt_pinned_memory *other;
	struct gated gated;
	pthread_t thread;

	gated_open(&gated, 1);
	hold.gated = &gated;
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 4);
	qbrt_set_interrupt_function(hold_thread, &hold);
	ck_assert(!pthread_create(&thread, NULL, infer_held, &hold));
	while (!atomic_load(&hold.has_begun))
		sched_yield();
	for (int i = 0; i < NUM_MEANWHILE; i++) {
		struct qbrt_future *future =
			submit(&gated.rig, gated.rig.in, other);

		sim_finish_all(&gated.sim);
		ck_assert_ok(take(future));
	}
	atomic_store(&hold.may_end, true);
	ck_assert(!pthread_join(thread, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_int_eq(hold.status, QBRT_OK);
	ck_assert(holds(gated.rig.out, 4));
	ck_assert_uint_eq(get_counters(gated.rig.model).completed,
			  NUM_MEANWHILE + 1);
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* Q739 K313: a short job is over before there is anything to ask. */
START_TEST(with_a_function_short_jobs_run_inline)
{
	struct answer answer = { .says_stop = true };
	struct gated gated;

	gated_open(&gated, 1);
	sim_allow_inline(&gated.sim, true);
	qbrt_set_interrupt_function(ask, &answer);
	ck_assert_ok(_i ? qbrt_model_infer_speedrun(gated.rig.model, 0)
			: rig_infer(&gated.rig, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_uint_eq(atomic_load(&answer.num_asked), 0);
	sim_allow_inline(&gated.sim, false);
	gated_close(&gated);
}
END_TEST

/* Q739 K313: a planned fault may make any job long, so who waits can ask. */
START_TEST(with_a_function_a_job_that_hangs_is_left)
{
	struct answer answer = { .says_stop = true };
	struct rig rig;

	ck_assert(!setenv("QBRUNTIME_SOFT_FAULT", "hang", 1));
	rig_open(&rig, NULL, load_copy(1));
	qbrt_set_interrupt_function(ask, &answer);
	ck_assert_status(_i ? qbrt_model_infer_speedrun(rig.model, 0)
			    : rig_infer(&rig, NULL),
			 QBRT_INTERRUPTED);
	qbrt_set_interrupt_function(NULL, NULL);
	rig_close(&rig);
	ck_assert(!unsetenv("QBRUNTIME_SOFT_FAULT"));
}
END_TEST

/* Q739 Q615: tries for room in a queue that others have filled. */
START_TEST(who_tries_a_full_queue_asks)
{
	struct answer answer = { .says_stop = true };
	struct qbrt_future *future = NULL;
	struct gated gated;

	gated_open(&gated, 1);
	qbrt_set_interrupt_function(ask, &answer);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, ENOSPC);
	ck_assert_status(_i ? try_submit(&gated.rig, gated.rig.in,
					 gated.rig.out, NULL, &future)
			    : rig_infer(&gated.rig, NULL),
			 QBRT_INTERRUPTED);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_detail("the outputs are unchanged");
	ck_assert_ptr_null(future);
	ck_assert_uint_eq(count_submitted(&gated), 0);
	ck_assert_ok(qbrt_pinned_memory_wait(gated.rig.out, 0));
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

/* More items than run before the first question is due. */
static enum qbrt_status infer_batch(struct rig *rig, int64_t num_items)
{
	size_t nbytes = (size_t)num_items * 64;
	uint8_t *bytes = calloc(2, nbytes);
	const int64_t shape[] = { num_items, 64 };
	struct qbrt_array in = { .data = bytes,
				 .shape = shape,
				 .ndim = 2,
				 .dtype = QBRT_DTYPE_UINT8 };
	struct qbrt_array out = in;
	enum qbrt_status status;

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 3, nbytes);
	out.data = bytes + nbytes;
	status = qbrt_model_infer(rig->model, NULL, &in, 1, &out, 1);
	/* part of a result is none */
	ck_assert_int_eq(bytes[nbytes], status ? 0 : 3);
	free(bytes);
	return status;
}

/* Q339 Q739: none of its jobs is long enough to ask in. */
START_TEST(a_batch_of_short_jobs_asks)
{
	struct answer answer = { .says_stop = true };
	enum qbrt_status status = QBRT_OK;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(1));
	qbrt_set_interrupt_function(ask, &answer);
	for (int64_t num = 1 << 16; num <= 1 << 22 && !status; num *= 2)
		status = infer_batch(&rig, num);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_status(status, QBRT_INTERRUPTED);
	ck_assert_detail("all its outputs are zeros now");
	ck_assert_ok(infer_batch(&rig, 2));
	rig_close(&rig);
}
END_TEST

struct touch {
	struct qbrt_pinned_memory *in, *out;
	enum qbrt_status read, write, wait, other;
	unsigned int num;
};

/* What the call that asks has in use, and what it reads alone. */
static bool touch_all(void *arg)
{
	struct touch *touch = arg;
	uint8_t value = 1;

	if (touch->num++)
		return false;
	touch->read = qbrt_pinned_memory_read_at(touch->out, (int64_t[]){ 0 },
						 1, QBRT_DTYPE_UINT8, &value);
	touch->write = qbrt_pinned_memory_write_at(touch->in, (int64_t[]){ 0 },
						   1, QBRT_DTYPE_UINT8, &value);
	touch->wait = qbrt_pinned_memory_wait(touch->out, -1);
	touch->other = qbrt_pinned_memory_read_at(touch->in, (int64_t[]){ 0 },
						  1, QBRT_DTYPE_UINT8, &value);
	return true;
}

/* Q739 Q750: it would be waited for by the one who waits for it. */
START_TEST(a_function_does_not_wait_for_its_own_call)
{
	struct touch touch = { .num = 0 };
	struct gated gated;

	gated_open(&gated, 1);
	touch.in = gated.rig.in;
	touch.out = gated.rig.out;
	qbrt_set_interrupt_function(touch_all, &touch);
	ck_assert_status(rig_infer(&gated.rig, NULL), QBRT_INTERRUPTED);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_int_eq(touch.read, QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_int_eq(touch.write, QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_int_eq(touch.wait, QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_int_eq(touch.other, QBRT_OK);
	gated_close(&gated);
}
END_TEST

static bool dispose_it(void *arg)
{
	ck_assert_ok(qbrt_model_dispose(arg));
	return false;
}

/* Q268 Q615: between two tries, of a call and of a queued job (by case). */
START_TEST(dispose_ends_the_tries_at_a_full_queue)
{
	struct qbrt_future *future = NULL;
	struct gated gated;

	gated_open(&gated, 1);
	qbrt_set_interrupt_function(dispose_it, gated.rig.model);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, ENOSPC);
	ck_assert_status(_i ? try_submit(&gated.rig, gated.rig.in,
					 gated.rig.out, NULL, &future)
			    : rig_infer(&gated.rig, NULL),
			 QBRT_MODEL_NOT_ALIVE);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert_detail("was disposed before the inference began");
	ck_assert_uint_eq(count_submitted(&gated), 0);
	gated_close(&gated);
}
END_TEST

void add_interrupt_job_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_result_is_kept_while_the_program_is_asked),
		QBRT_LOOP_TEST(with_a_function_short_jobs_run_inline, 2),
		QBRT_LOOP_TEST(with_a_function_a_job_that_hangs_is_left, 2),
		QBRT_LOOP_TEST(who_tries_a_full_queue_asks, 2),
		QBRT_TEST(a_function_does_not_wait_for_its_own_call),
		QBRT_TEST(a_batch_of_short_jobs_asks),
		QBRT_LOOP_TEST(dispose_ends_the_tries_at_a_full_queue, 2),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
