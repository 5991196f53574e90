// SPDX-License-Identifier: MIT
/* Chains: each job reads what the one before it writes, and nobody asks. */
#include "check-future.h"

#include <pthread.h>

#include "future.h"
#include "util.h"

#define CHAIN_MODELS 8
#define NUM_CHAINED 64 /* of each model */
#define SMALL_STACK_SIZE (128 << 10)

static void *take_future(void *arg)
{
	return (void *)(uintptr_t)qbrt_future_query_result(arg, NULL, 0);
}

/* On a thread with a small stack. */
static enum qbrt_status take_on_small_stack(struct qbrt_future *future)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *status;

	ck_assert(!pthread_attr_init(&attr));
	ck_assert(!pthread_attr_setstacksize(&attr, SMALL_STACK_SIZE));
	ck_assert(!pthread_create(&thread, &attr, take_future, future));
	ck_assert(!pthread_join(thread, &status));
	ck_assert(!pthread_attr_destroy(&attr));
	return (enum qbrt_status)(uintptr_t)status;
}

/* Each job reads what the one before it writes; NUM_CHAINED per model. */
static struct qbrt_future *submit_chain(struct gated *gated,
					struct qbrt_model *const *models,
					struct qbrt_pinned_memory **mems,
					struct qbrt_future **futures)
{
	const unsigned int num = CHAIN_MODELS * NUM_CHAINED;

	for (unsigned int i = 0; i < num; i++) {
		mems[i + 1] = alloc_64(&gated->rig);
		ck_assert_ok(qbrt_model_submit_pinned_memory(
			models[i / NUM_CHAINED], NULL, &mems[i], 1,
			&mems[i + 1], 1, &futures[i]));
	}
	return futures[num - 1];
}

/*
 * K084 Q366: nobody has asked for any of a long chain: who asks for the last
 * ends all, needs no stack for each, and has the first one's failure.
 */
START_TEST(a_long_chain_ends_on_a_small_stack)
{
	static struct qbrt_pinned_memory *mems[CHAIN_MODELS * NUM_CHAINED + 1];
	static struct qbrt_future *futures[CHAIN_MODELS * NUM_CHAINED];
	struct qbrt_model *models[CHAIN_MODELS];
	struct qbrt_future *last;
	struct gated gated;

	gated_open(&gated, 1);
	models[0] = gated.rig.model;
	for (int i = 1; i < CHAIN_MODELS; i++) {
		models[i] = load_copy(2);
		ck_assert_ok(qbrt_model_launch(models[i], gated.rig.acc));
	}
	mems[0] = gated.rig.in;
	fill(mems[0], 5);
	last = submit_chain(&gated, models, mems, futures);
	if (_i)
		ck_assert(sim_finish(&gated.sim, sim_begin(&gated.sim),
				     QBNPU_CAUSE_INJECTED));
	sim_finish_all(&gated.sim);
	ck_assert_int_eq(take_on_small_stack(last),
			 _i ? QBRT_STREAM_FAILED : QBRT_OK);
	for (int i = 0; i < CHAIN_MODELS * NUM_CHAINED; i++) {
		ck_assert(qbrt_job_has_ended(&futures[i]->job));
		ck_assert_int_eq(qbrt_future_get_status(futures[i]),
				 !_i  ? QBRT_OK
				 : !i ? QBRT_MODEL_PREDICT_ERROR
				      : QBRT_STREAM_FAILED);
		qbrt_future_free(futures[i]);
		qbrt_pinned_memory_free(mems[i + 1]);
	}
	for (int i = 1; i < CHAIN_MODELS; i++)
		qbrt_model_free(models[i]);
	gated_close(&gated);
}
END_TEST

/* Q616: however many jobs lie between. */
START_TEST(the_end_of_a_chain_tells_the_first_reason)
{
	enum {
		NUM = 20
	};
	struct qbrt_pinned_memory *mems[NUM + 1];
	struct qbrt_future *futures[NUM];
	struct gated gated;

	gated_open(&gated, 0);
	mems[0] = gated.rig.in;
	for (int i = 0; i < NUM; i++) {
		mems[i + 1] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, mems[i], mems[i + 1]);
	}
	ck_assert(sim_finish(&gated.sim, sim_begin(&gated.sim),
			     QBNPU_CAUSE_INJECTED));
	ck_assert_status(qbrt_model_infer_pinned_memory(gated.rig.model, NULL,
							&mems[NUM], 1,
							&gated.rig.out, 1),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("injected fault");
	for (int i = 0; i < NUM; i++) {
		ck_assert_status(take(futures[i]),
				 i ? QBRT_STREAM_FAILED
				   : QBRT_MODEL_PREDICT_ERROR);
		ck_assert_detail("injected fault");
		qbrt_pinned_memory_free(mems[i + 1]);
	}
	gated_close(&gated);
}
END_TEST

void add_future_chain_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_long_chain_ends_on_a_small_stack, 2),
		QBRT_TEST(the_end_of_a_chain_tells_the_first_reason),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
