// SPDX-License-Identifier: MIT
/* Queued inference on arrays: futures that own their staging. */
#include "check-infer-array.h"

#include <sched.h>
#include <string.h>

#include "build-model.h"
#include "count-alloc.h"
#include "model.h"
#include "models.h"
#include "sim.h"
#include "soft/soft.h"
#include "util.h"

#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"
#define NUM_UNTAKEN 500

static struct qbrt_model *load_async(unsigned int activation_slots)
{
	struct qbrt_model *model = models_load_slow(0, activation_slots);

	model->has_async_pipeline = true;
	return model;
}

static enum qbrt_status try_submit(const struct array_rig *rig,
				   const struct qbrt_infer_options *options,
				   const struct qbrt_array *in,
				   struct qbrt_future **future)
{
	return qbrt_model_submit(rig->model, options, in, 1, future);
}

/* 64 bytes that depend on seed, which are changed right after. */
static struct qbrt_future *submit_bytes(const struct array_rig *rig,
					unsigned int seed)
{
	struct qbrt_future *future = NULL;
	uint8_t from[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);

	fill_bytes(from, 64, seed);
	ck_assert_ok(try_submit(rig, NULL, &in, &future));
	memset(from, 0xee, 64);
	return future;
}

/* The result is that of seed; frees the future. */
static void expect_bytes(struct qbrt_future *future, unsigned int seed)
{
	uint8_t to[64] = { 0 };
	const struct qbrt_array out = ARRAY(to, UINT8, 64);

	ck_assert_ok(qbrt_future_query_result(future, &out, 1));
	ck_assert(holds_bytes(to, 64, seed));
	qbrt_future_free(future);
}

/* Q361 Q725 Q737 */
START_TEST(a_queued_call_gives_what_a_blocking_one_gives)
{
	struct qbrt_model_config *config;
	struct qbrt_model *model;
	struct array_rig rig;

	ck_assert_ok(qbrt_model_config_alloc(&config));
	ck_assert_ok(qbrt_model_config_set_async_pipeline(config, true));
	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, config, &model));
	qbrt_model_config_free(config);
	array_rig_open(&rig, model);
	for (unsigned int i = 0; i < 100; i++)
		expect_bytes(submit_bytes(&rig, i), i);
	ck_assert_uint_eq(get_array_counters(model).completed, 100);
	ck_assert_uint_eq(get_array_counters(model).copied_nbytes, 100 * 128);
	ck_assert_uint_eq(model->launched->staging.num_sets, 1);
	array_rig_close(&rig);
}
END_TEST

/* Q361 */
START_TEST(without_the_pipeline_nothing_is_queued)
{
	uint8_t from[64] = { 0 };
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	struct qbrt_future *future = NULL;
	struct array_rig rig;

	array_rig_open(&rig, models_load_slow(0, 0));
	ck_assert_status(try_submit(&rig, NULL, &in, &future),
			 QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED);
	ck_assert_ptr_null(future);
	ck_assert_uint_eq(get_array_counters(rig.model).submitted, 0);
	array_rig_close(&rig);
}
END_TEST

/* Q363: before all else, launched or not; by round, with a cache or without */
START_TEST(a_model_with_state_is_not_queued)
{
	float from[32] = { 0 };
	const struct qbrt_array in = ARRAY(from, FLOAT32, 8, 4);
	struct qbrt_future *future = NULL;
	struct qbrt_model *model;
	struct build build;

	build_full(&build);
	model = build_load(&build);
	if (_i)
		model->file->cach = NULL;
	model->has_async_pipeline = true;
	ck_assert_status(qbrt_model_submit(model, NULL, &in, 1, &future),
			 QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED);
	ck_assert_detail("keeps state");
	ck_assert_ptr_null(future);
	qbrt_model_free(model);
}
END_TEST

/* Q362 */
START_TEST(a_queued_call_takes_one_inference)
{
	uint8_t from[128] = { 0 };
	const struct qbrt_array one = ARRAY(from, UINT8, 1, 64);
	const struct qbrt_array two = ARRAY(from, UINT8, 2, 64);
	uint8_t to[64];
	const struct qbrt_array out = ARRAY(to, UINT8, 1, 64);
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_future *future = NULL;
	struct array_rig rig;

	array_rig_open(&rig, load_async(0));
	ck_assert_status(try_submit(&rig, NULL, &two, &future),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_ptr_null(future);
	ck_assert_ok(try_submit(&rig, NULL, &one, &future));
	/* Q322: the leading axis comes back */
	ck_assert_ok(qbrt_future_query_output(future, 0, &info));
	ck_assert_uint_eq(info.ndim, 2);
	ck_assert_int_eq(info.shape[0], 1);
	ck_assert_int_eq(info.shape[1], 64);
	ck_assert_ok(qbrt_future_query_result(future, &out, 1));
	qbrt_future_free(future);
	array_rig_close(&rig);
}
END_TEST

/* Q731 Q733 */
START_TEST(a_queued_call_checks_its_arguments)
{
	const struct qbrt_infer_options layouts = {
		.size = sizeof(layouts),
		.flags = QBRT_INFER_HWC | QBRT_INFER_CHW,
	};
	uint8_t from[64] = { 0 };
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array floats = ARRAY(from, FLOAT32, 16);
	const struct qbrt_array none = ARRAY(NULL, UINT8, 64);
	struct qbrt_future *future = NULL;
	struct array_rig rig;

	array_rig_open(&rig, load_async(0));
	ck_assert_status(try_submit(&rig, NULL, &in, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_submit(NULL, NULL, &in, 1, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(try_submit(&rig, &layouts, &in, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(try_submit(&rig, NULL, &none, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(try_submit(&rig, NULL, &floats, &future),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_status(qbrt_model_submit(rig.model, NULL, NULL, 0, &future),
			 QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	ck_assert_ptr_null(future);
	ck_assert_uint_eq(qbrt_staging_count_out(&rig.model->launched->staging),
			  0);
	array_rig_close(&rig);
}
END_TEST

/* Q737: wrong arrays take nothing. */
START_TEST(wrong_outputs_leave_the_result_where_it_is)
{
	uint8_t to[128] = { 0 };
	const struct qbrt_array shape = ARRAY(to, UINT8, 63);
	const struct qbrt_array type = ARRAY(to, INT8, 64);
	const struct qbrt_array two[] = { ARRAY(to, UINT8, 64),
					  ARRAY(to, UINT8, 64) };
	const int64_t folded[] = { 0 };
	struct qbrt_array fold = ARRAY(to, UINT8, 64);
	struct qbrt_future *future;
	struct array_rig rig;

	fold.strides = folded;
	array_rig_open(&rig, load_async(0));
	future = submit_bytes(&rig, 3);
	ck_assert_status(qbrt_future_query_result(future, &shape, 1),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_status(qbrt_future_query_result(future, &type, 1),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_status(qbrt_future_query_result(future, two, 2),
			 QBRT_MODEL_OUTPUT_COUNT_MISMATCHED);
	ck_assert_status(qbrt_future_query_result(future, NULL, 0),
			 QBRT_MODEL_OUTPUT_COUNT_MISMATCHED);
	ck_assert_status(qbrt_future_query_result(future, &fold, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert(holds_value(to, 128, 0));
	expect_bytes(future, 3);
	array_rig_close(&rig);
}
END_TEST

/* Q374 */
START_TEST(a_result_of_arrays_is_taken_once)
{
	uint8_t to[64];
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct qbrt_future *future;
	struct array_rig rig;

	array_rig_open(&rig, load_async(0));
	future = submit_bytes(&rig, 4);
	ck_assert_ok(qbrt_future_query_result(future, &out, 1));
	memset(to, 0xee, 64);
	ck_assert_status(qbrt_future_query_result(future, &out, 1),
			 QBRT_FUTURE_NOT_VALID);
	ck_assert(holds_value(to, 64, 0xee));
	qbrt_future_free(future);
	array_rig_close(&rig);
}
END_TEST

/* Q366: nothing is taken before the end, and staging stays bounded. */
START_TEST(untaken_results_use_up_no_pinned_memory)
{
	struct qbrt_future *futures[NUM_UNTAKEN];
	struct array_rig rig;

	array_rig_open(&rig, load_async(1));
	for (unsigned int i = 0; i < NUM_UNTAKEN; i++)
		futures[i] = submit_bytes(&rig, i);
	/* as many as wait, as are held, and the one on its way */
	ck_assert_uint_le(qbrt_staging_count_out(&rig.model->launched->staging),
			  2 * (1 + 64) + 1);
	for (unsigned int i = 0; i < NUM_UNTAKEN; i++)
		expect_bytes(futures[i], i);
	ck_assert_uint_eq(qbrt_staging_count_out(&rig.model->launched->staging),
			  0);
	array_rig_close(&rig);
}
END_TEST

/* Q329 Q375: valid after dispose, on another launch too. */
START_TEST(a_result_outlives_its_launch)
{
	struct qbrt_future *first, *second;
	struct array_rig rig;

	array_rig_open(&rig, load_async(0));
	first = submit_bytes(&rig, 5);
	second = submit_bytes(&rig, 6);
	ck_assert_ok(qbrt_future_wait(first, -1));
	ck_assert_ok(qbrt_future_wait(second, -1));
	ck_assert_ok(qbrt_model_dispose(rig.model));
	expect_bytes(first, 5);
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	expect_bytes(second, 6);
	/* the set of another launch does not rest with this one */
	ck_assert_uint_eq(rig.model->launched->staging.num_sets, 0);
	array_rig_close(&rig);
}
END_TEST

/* Q382 */
START_TEST(a_freed_future_gives_its_staging_back)
{
	struct array_rig rig;
	struct sim sim;

	array_rig_open(&rig, load_async(0));
	sim_attach(&sim, qbnpu_soft_npu(0));
	qbrt_future_free(submit_bytes(&rig, 1));
	qbrt_future_free(submit_bytes(&rig, 2));
	sim_finish_all(&sim);
	sim_detach(&sim);
	expect_bytes(submit_bytes(&rig, 3), 3);
	/* the retirement thread gives them back, in its own time */
	while (qbrt_staging_count_out(&rig.model->launched->staging))
		sched_yield();
	array_rig_close(&rig);
}
END_TEST

/* Q374 Q485: the job's own status, and outputs untouched. */
START_TEST(a_failed_job_writes_no_array)
{
	uint8_t to[64];
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct qbrt_future *future;
	struct array_rig rig;
	struct sim sim;

	memset(to, 0xee, 64);
	array_rig_open(&rig, load_async(0));
	sim_attach(&sim, qbnpu_soft_npu(0));
	future = submit_bytes(&rig, 1);
	ck_assert(sim_finish(&sim, sim_begin(&sim), QBNPU_CAUSE_INJECTED));
	ck_assert_status(qbrt_future_query_result(future, &out, 1),
			 QBRT_MODEL_PREDICT_ERROR);
	ck_assert_detail("injected fault");
	ck_assert(holds_value(to, 64, 0xee));
	qbrt_future_free(future);
	future = submit_bytes(&rig, 2);
	ck_assert(sim_step(&sim));
	expect_bytes(future, 2);
	sim_detach(&sim);
	array_rig_close(&rig);
}
END_TEST

/* ST7 */
START_TEST(every_failed_allocation_of_a_queued_call_changes_nothing)
{
	enum qbrt_status status = QBRT_BAD_ALLOC;
	uint8_t from[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	long n;

	fill_bytes(from, 64, 7);
	for (n = 1; status; n++) {
		struct qbrt_future *future = NULL;
		struct array_rig rig;

		array_rig_open(&rig, load_async(0));
		count_alloc_begin(n);
		status = try_submit(&rig, NULL, &in, &future);
		(void)count_alloc_end();
		ck_assert(!status ||
			  status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		if (status) {
			ck_assert_ptr_null(future);
			ck_assert_uint_eq(
				get_array_counters(rig.model).copied_nbytes, 0);
			ck_assert_uint_eq(
				qbrt_staging_count_out(
					&rig.model->launched->staging),
				0);
			future = submit_bytes(&rig, 7);
		}
		expect_bytes(future, 7);
		array_rig_close(&rig);
	}
	ck_assert_int_gt(n, 4);
}
END_TEST

void add_array_submit_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_queued_call_gives_what_a_blocking_one_gives),
		QBRT_TEST(without_the_pipeline_nothing_is_queued),
		QBRT_LOOP_TEST(a_model_with_state_is_not_queued, 2),
		QBRT_TEST(a_queued_call_takes_one_inference),
		QBRT_TEST(a_queued_call_checks_its_arguments),
		QBRT_TEST(wrong_outputs_leave_the_result_where_it_is),
		QBRT_TEST(a_result_of_arrays_is_taken_once),
		QBRT_TEST(untaken_results_use_up_no_pinned_memory),
		QBRT_TEST(a_result_outlives_its_launch),
		QBRT_TEST(a_freed_future_gives_its_staging_back),
		QBRT_TEST(a_failed_job_writes_no_array),
		QBRT_TEST(
			every_failed_allocation_of_a_queued_call_changes_nothing),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
