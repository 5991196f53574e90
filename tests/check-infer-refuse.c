// SPDX-License-Identifier: MIT
/*
 * What an inference refuses before it has any effect: each with its status, a
 * sentence that names the buffer, outputs untouched, and no request.
 */
#include "check-infer.h"

#include <stdlib.h>
#include <string.h>

#include "kmd-watch.h"
#include "util.h"

#define MARK 9 /* what outputs hold before */

/* A refused call changes nothing and asks the driver nothing. */
static void check_refused(const struct rig *rig, enum qbrt_status got,
			  enum qbrt_status expected)
{
	ck_assert_status(got, expected);
	ck_assert(holds(rig->out, MARK));
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), 0);
	ck_assert_uint_eq(get_counters(rig->model).submitted, 0);
}

static void open_marked(struct rig *rig, struct qbrt_model *model)
{
	rig_open(rig, NULL, model);
	fill(rig->out, MARK);
	kmd_watch_begin(rig->acc);
}

/* Nothing of a refused call is left: the next good one runs. */
static void close_marked(struct rig *rig)
{
	ck_assert_ok(rig_infer(rig, NULL));
	rig_close(rig);
}

/* Q733 */
START_TEST(null_handles_and_arrays_are_refused)
{
	struct qbrt_pinned_memory *none = NULL;
	struct rig rig;

	open_marked(&rig, models_load_copy64());
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(NULL, NULL, &rig.in, 1,
						     &rig.out, 1),
		      QBRT_INVALID_ARGUMENT);
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, NULL, 1,
						     &rig.out, 1),
		      QBRT_INVALID_ARGUMENT);
	ck_assert_detail("inputs is NULL");
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, NULL, 1),
		      QBRT_INVALID_ARGUMENT);
	ck_assert_detail("outputs is NULL");
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &none, 1,
						     &rig.out, 1),
		      QBRT_INVALID_ARGUMENT);
	ck_assert_detail("input 0 is NULL");
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, &none, 1),
		      QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 0 is NULL");
	close_marked(&rig);
}
END_TEST

static const struct {
	struct qbrt_infer_options options;
	enum qbrt_status status;
	const char *detail;
} bad_options[] = {
	{ { .size = 4 }, QBRT_INVALID_ARGUMENT, "size is 4" },
	{ { .size = SIZE_MAX }, QBRT_INVALID_ARGUMENT, "size" },
	{ { .flags = QBRT_INFER_TRY },
	  QBRT_INVALID_ARGUMENT,
	  "does not take QBRT_INFER_TRY, it takes QBRT_INFER_BLOCKING" },
	{ { .flags = QBRT_INFER_HWC },
	  QBRT_INVALID_ARGUMENT,
	  "QBRT_INFER_HWC" },
	{ { .flags = QBRT_INFER_CHW },
	  QBRT_INVALID_ARGUMENT,
	  "QBRT_INFER_CHW" },
	{ { .flags = QBRT_INFER_TO_FLOAT },
	  QBRT_INVALID_ARGUMENT,
	  "QBRT_INFER_TO_FLOAT" },
	{ { .flags = 0x20 }, QBRT_INVALID_ARGUMENT, "0x20 are unknown" },
	{ { .reserved = 1 }, QBRT_INVALID_ARGUMENT, "reserved" },
	{ { .num_items = 1 }, QBRT_INVALID_ARGUMENT, "items" },
	{ { .items = (const void *)&bad_options },
	  QBRT_INVALID_ARGUMENT,
	  "items" },
	{ { .cache_size = 5 }, QBRT_INVALID_ARGUMENT, "cache_size is 5" },
	{ { .stream = (void *)(uintptr_t)&bad_options },
	  QBRT_NOT_IMPLEMENTED,
	  "streams" },
};

/* Q731 */
START_TEST(options_that_the_call_does_not_take_are_refused)
{
	struct qbrt_infer_options options = bad_options[_i].options;
	struct rig rig;

	if (!options.size)
		options.size = sizeof(options);
	open_marked(&rig, models_load_copy64());
	check_refused(&rig, rig_infer(&rig, &options), bad_options[_i].status);
	ck_assert_detail(bad_options[_i].detail);
	close_marked(&rig);
}
END_TEST

/* Q266 Q481 */
START_TEST(unlaunched_and_disposed_models_do_not_run)
{
	struct qbrt_model *unlaunched = models_load_copy64();
	struct rig rig;

	open_marked(&rig, models_load_copy64());
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(unlaunched, NULL, &rig.in,
						     1, &rig.out, 1),
		      QBRT_MODEL_NOT_LAUNCHED);
	ck_assert_detail("qbrt_model_launch");
	ck_assert_ok(qbrt_model_dispose(rig.model));
	memset(&kmd_watch, 0, sizeof(kmd_watch));
	check_refused(&rig, rig_infer(&rig, NULL), QBRT_MODEL_NOT_ALIVE);
	ck_assert_detail("disposed");
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	qbrt_model_free(unlaunched);
	close_marked(&rig);
}
END_TEST

/* Q481 */
START_TEST(wrong_counts_are_refused)
{
	struct qbrt_pinned_memory *two[2];
	struct rig rig;

	open_marked(&rig, models_load_copy64());
	two[0] = rig.in;
	two[1] = rig.in;
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, two, 2,
						     &rig.out, 1),
		      QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	ck_assert_detail("1 input expected, 2 given");
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, NULL, 0,
						     &rig.out, 1),
		      QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, NULL, 0),
		      QBRT_MODEL_OUTPUT_COUNT_MISMATCHED);
	ck_assert_detail("1 output expected, 0 given");
	close_marked(&rig);
}
END_TEST

static const struct {
	enum qbrt_dtype dtype;
	size_t ndim;
	int64_t shape[4];
	enum qbrt_status status;
	const char *detail;
} bad_buffers[] = {
	{ QBRT_DTYPE_UINT8, 1, { 63 }, QBRT_MODEL_SHAPE_MISMATCHED, "(63)" },
	{ QBRT_DTYPE_UINT8, 1, { 65 }, QBRT_MODEL_SHAPE_MISMATCHED, "(65)" },
	{ QBRT_DTYPE_UINT8,
	  2,
	  { 8, 8 },
	  QBRT_MODEL_SHAPE_MISMATCHED,
	  "(8, 8)" },
	{ QBRT_DTYPE_UINT8, 2, { 64, 1 }, QBRT_MODEL_SHAPE_MISMATCHED, "(64)" },
	{ QBRT_DTYPE_UINT8, 2, { 2, 64 }, QBRT_MODEL_SHAPE_MISMATCHED, "(2, " },
	{ QBRT_DTYPE_UINT8,
	  3,
	  { 1, 1, 64 },
	  QBRT_MODEL_SHAPE_MISMATCHED,
	  "expected" },
	{ QBRT_DTYPE_INT8,
	  1,
	  { 64 },
	  QBRT_MODEL_DTYPE_MISMATCHED,
	  "Int8 given" },
	{ QBRT_DTYPE_FLOAT32,
	  1,
	  { 64 },
	  QBRT_MODEL_DTYPE_MISMATCHED,
	  "Uint8 expected, Float32 given" },
	{ QBRT_DTYPE_BOOL,
	  1,
	  { 64 },
	  QBRT_MODEL_DTYPE_MISMATCHED,
	  "Bool given" },
	/* two faults: the shape comes first */
	{ QBRT_DTYPE_FLOAT32, 1, { 16 }, QBRT_MODEL_SHAPE_MISMATCHED, "(16)" },
};

/* Q481 Q482 Q491: as input and as output. */
START_TEST(wrong_shapes_and_types_are_refused)
{
	struct qbrt_pinned_memory *bad;
	struct rig rig;

	open_marked(&rig, models_load_copy64());
	bad = rig_alloc(&rig, bad_buffers[_i].dtype, bad_buffers[_i].ndim,
			bad_buffers[_i].shape);
	memset(&kmd_watch, 0, sizeof(kmd_watch));
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &bad, 1,
						     &rig.out, 1),
		      bad_buffers[_i].status);
	ck_assert_detail("input 0");
	ck_assert_detail(bad_buffers[_i].detail);
	fill(bad, MARK);
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, &bad, 1),
		      bad_buffers[_i].status);
	ck_assert_detail("output 0");
	ck_assert_detail(bad_buffers[_i].detail);
	ck_assert(holds(bad, MARK));
	qbrt_pinned_memory_free(bad);
	close_marked(&rig);
}
END_TEST

/* Q481: another device's buffer; another handle's is fine. */
START_TEST(buffers_of_another_device_are_refused)
{
	struct qbrt_accelerator *other = NULL;
	struct qbrt_accelerator *again = NULL;
	struct qbrt_pinned_memory *far = NULL;
	struct qbrt_pinned_memory *near = NULL;
	const int64_t shape[] = { 64 };
	struct rig rig;

	setenv("QBRUNTIME_SOFT_DEVICES", "aries:2", 1);
	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, MARK);
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &other));
	ck_assert_ok(qbrt_accelerator_open(NULL, 0, &again));
	ck_assert_ok(qbrt_pinned_memory_alloc(other, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &far));
	ck_assert_ok(qbrt_pinned_memory_alloc(again, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &near));
	kmd_watch_begin(rig.acc);
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &far, 1,
						     &rig.out, 1),
		      QBRT_PINNED_MEMORY_WRONG_ACCELERATOR);
	ck_assert_detail("input 0");
	ck_assert_detail("aries-rb:1");
	ck_assert_detail("aries-rb:0");
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, &far, 1),
		      QBRT_PINNED_MEMORY_WRONG_ACCELERATOR);
	ck_assert_detail("output 0");
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, &near, 1,
						    &rig.out, 1));
	qbrt_pinned_memory_free(far);
	qbrt_pinned_memory_free(near);
	qbrt_accelerator_close(other);
	qbrt_accelerator_close(again);
	close_marked(&rig);
}
END_TEST

/* Q481 */
START_TEST(aliased_buffers_are_refused)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *two[2];
	struct rig rig;

	prog_begin(&prog);
	prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	for (int i = 0; i < 2; i++)
		prog_fill(&prog, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)),
			  1);
	open_marked(&rig, models_load(&spec));
	in = rig.in;
	two[0] = rig.out;
	two[1] = rig.out;
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, two, 2),
		      QBRT_PINNED_MEMORY_ALIASED);
	ck_assert_detail("outputs 0 and 1");
	two[1] = in;
	check_refused(&rig,
		      qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.in,
						     1, two, 2),
		      QBRT_PINNED_MEMORY_ALIASED);
	ck_assert_detail("input 0 and output 1");
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q481 PF07: what the model declares is allowed, and only that. */
START_TEST(an_alias_that_the_model_declares_is_allowed)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.may_alias = true,
	};
	struct qbrt_pinned_memory *inputs[2];
	const float *sums;
	uint16_t a;
	struct rig rig;

	prog_begin(&prog);
	a = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(16));
	prog_binary(&prog, QBNPU_BINARY_ADD, a,
		    prog_input(&prog, QBNPU_DTYPE_F32, DIMS(16)),
		    prog_output(&prog, QBNPU_DTYPE_F32, DIMS(16)));
	((struct qbnpu_cmd *)(void *)prog.commands)->flags = QBNPU_CMD_IN_PLACE;
	rig_open(&rig, NULL, models_load(&spec));
	ck_assert_ok(qbrt_model_alloc_input(rig.model, 1, &inputs[1]));
	inputs[0] = rig.in;
	sums = qbrt_pinned_memory_get_data(rig.in);
	for (int i = 0; i < 16; i++) {
		((float *)qbrt_pinned_memory_get_data(inputs[0]))[i] = (float)i;
		((float *)qbrt_pinned_memory_get_data(inputs[1]))[i] = 0.5f;
	}
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, inputs, 2,
						    &inputs[0], 1));
	for (int i = 0; i < 16; i++)
		ck_assert(sums[i] == (float)i + 0.5f);
	ck_assert_status(qbrt_model_infer_pinned_memory(rig.model, NULL, inputs,
							2, &inputs[1], 1),
			 QBRT_PINNED_MEMORY_ALIASED);
	ck_assert_detail("input 1 and output 0");
	/* the same memory for both inputs is no alias */
	{
		struct qbrt_pinned_memory *same[2] = { inputs[1], inputs[1] };

		ck_assert_ok(qbrt_model_infer_pinned_memory(
			rig.model, NULL, same, 2, &rig.out, 1));
	}
	qbrt_pinned_memory_free(inputs[1]);
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

void add_infer_refuse_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(null_handles_and_arrays_are_refused),
		QBRT_LOOP_TEST(options_that_the_call_does_not_take_are_refused,
			       qbrt_array_size(bad_options)),
		QBRT_TEST(unlaunched_and_disposed_models_do_not_run),
		QBRT_TEST(wrong_counts_are_refused),
		QBRT_LOOP_TEST(wrong_shapes_and_types_are_refused,
			       qbrt_array_size(bad_buffers)),
		QBRT_TEST(buffers_of_another_device_are_refused),
		QBRT_TEST(aliased_buffers_are_refused),
		QBRT_TEST(an_alias_that_the_model_declares_is_allowed),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
