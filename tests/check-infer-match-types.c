// SPDX-License-Identifier: MIT
/*
 * Which types a match takes and gives, shapes of the source model, how answers
 * are written, and which arguments no model takes.
 */
#include "check-infer-match.h"

#include <stdio.h>
#include <string.h>

#include "build-model.h"
#include "models.h"
#include "util.h"

static char logged[256];

static void note_line(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	(void)arg;
	(void)component;
	ck_assert_int_eq(level, QBRT_LOG_LEVEL_ERR);
	(void)snprintf(logged, sizeof(logged), "%s", sentence);
}

/* Q311 Q312: host and stored type, no other, and the line of the vendor's. */
START_TEST(types_are_never_cast_silently)
{
	const struct qbrt_array good[] = { SHAPE(UINT8, 4, 4, 3),
					   SHAPE(FLOAT32, 4, 4, 3) };
	const struct qbrt_array bad = SHAPE(INT8, 4, 4, 3);
	struct build build;
	struct qbrt_model *model;

	build_plain(&build);
	build.target = 0;
	model = build_load(&build);
	qbrt_set_log_function(note_line, NULL);
	for (size_t i = 0; i < 2; i++)
		ck_assert_match(model, 0, &good[i], 1, 0, 0, HWC);
	ck_assert_str_eq(logged, "");
	check_no_match(model, 0, &bad, 1, QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("input 0 (x): Int8 given, supported is Float32, "
			 "Uint8 (the model itself normalises it)");
	ck_assert_str_eq(logged, "Invalid input data type - Input: Int8, "
				 "Supported: Float32, Uint8");
	qbrt_set_log_function(NULL, NULL);
	qbrt_model_free(model);
}
END_TEST

/* Q305 Q311: equal shapes, then the type tells the variants apart. */
START_TEST(a_variant_of_the_right_type_is_found)
{
	static const uint32_t dtypes[] = { QBNPU_DTYPE_U8, QBNPU_DTYPE_I32 };
	const struct qbrt_array bytes = SHAPE(UINT8, 64);
	const struct qbrt_array words = SHAPE(INT32, 64);
	const struct qbrt_array floats = SHAPE(FLOAT32, 64);
	struct prog progs[2];
	struct models_spec spec = {
		.programs = { &progs[0], &progs[1] },
		.num_programs = 2,
	};
	struct qbrt_model *model;

	for (int i = 0; i < 2; i++) {
		uint16_t in;

		prog_begin(&progs[i]);
		in = prog_input(&progs[i], dtypes[i], DIMS(64));
		prog_copy(&progs[i], in,
			  prog_output(&progs[i], dtypes[i], DIMS(64)));
	}
	model = models_load(&spec);
	ck_assert_match(model, 0, &bytes, 1, 0, 0, HWC);
	ck_assert_match(model, 0, &words, 1, 1, 0, HWC);
	check_no_match(model, 0, &floats, 1, QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("supported is Uint8");
	qbrt_model_free(model);
	prog_end(&progs[0]);
	prog_end(&progs[1]);
}
END_TEST

static struct qbrt_model *load_quantised(uint32_t device_dtype,
					 uint32_t host_dtype)
{
	struct build build;

	build_copy(&build, device_dtype, DIMS(16));
	for (int i = 0; i < 2; i++) {
		build.ios[i].host_dtype = (uint8_t)host_dtype;
		build.ios[i].accepted_dtypes |= 1u << host_dtype;
	}
	return build_load(&build);
}

/* Q320 */
START_TEST(the_output_type_follows_the_input_type)
{
	const struct qbrt_array floats = SHAPE(FLOAT32, 16);
	const struct qbrt_array raw = SHAPE(INT8, 16);
	const struct qbrt_array bytes = SHAPE(UINT8, 16);
	const struct qbrt_array words = SHAPE(INT32, 16);
	struct qbrt_model *model =
		load_quantised(QBNPU_DTYPE_I8, QBNPU_DTYPE_F32);
	struct qbrt_io_info info;

	info = ask_output(model, 0, &floats, 1, 0);
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_FLOAT32);
	ck_assert_int_eq(info.pinned_dtype, QBRT_DTYPE_INT8);
	info = ask_output(model, 0, &raw, 1, 0);
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_INT8);
	info = ask_output(model, QBRT_INFER_TO_FLOAT, &raw, 1, 0);
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_FLOAT32);
	qbrt_model_free(model);
	model = load_quantised(QBNPU_DTYPE_U8, QBNPU_DTYPE_F32);
	info = ask_output(model, 0, &bytes, 1, 0);
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_FLOAT32);
	qbrt_model_free(model);
	model = load_quantised(QBNPU_DTYPE_I32, QBNPU_DTYPE_I32);
	info = ask_output(model, QBRT_INFER_TO_FLOAT, &words, 1, 0);
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_INT32);
	qbrt_model_free(model);
}
END_TEST

/* FM34: a pair of types that the container allows and nothing converts yet. */
START_TEST(a_conversion_that_is_not_offered_is_said)
{
	const struct qbrt_array floats = SHAPE(FLOAT32, 16);
	const struct qbrt_array halves = SHAPE(FLOAT16, 16);
	struct qbrt_model *model =
		load_quantised(QBNPU_DTYPE_F16, QBNPU_DTYPE_F32);

	check_no_match(model, 0, &floats, 1, QBRT_NOT_IMPLEMENTED);
	ck_assert_detail("from Float32 to Float16");
	ck_assert_match(model, 0, &halves, 1, 0, 0, HWC);
	ck_assert_int_eq(ask_output(model, 0, &halves, 1, 0).dtype,
			 QBRT_DTYPE_FLOAT16);
	qbrt_model_free(model);
}
END_TEST

/* Q322 Q323 Q725: all that is needed to allocate it. */
START_TEST(an_output_is_described_whole)
{
	const struct qbrt_array batch = SHAPE(UINT8, 7, 5, 2, 3);
	struct qbrt_model *model = load_image(QBNPU_DTYPE_U8, DIMS(2, 3, 5));
	struct qbrt_io_info info = ask_output(model, 0, &batch, 1, 0);
	const struct qbrt_infer_options options = make_options(0);

	ck_assert_str_eq(info.name, "y");
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_UINT8);
	ck_assert_shape(info, 7, 5, 2, 3);
	ck_assert_mem_eq(info.max_shape, info.shape, sizeof(info.shape));
	ck_assert_uint_eq(info.max_nbytes, 7 * 30);
	memset(&info, 0xaa, sizeof(info));
	info.size = sizeof(info);
	ck_assert_status(qbrt_model_query_match_output(model, &options, &batch,
						       1, 1, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 1 asked for, the number of them is 1");
	ck_assert_uint_eq(info.ndim, 0xaaaaaaaaaaaaaaaau);
	qbrt_model_free(model);
}
END_TEST

/* x (1, 1, 10) that was (1, 10) in the source model. */
static struct qbrt_model *load_padded(int32_t first, int32_t second,
				      const uint8_t *perm)
{
	struct build build;

	build_copy(&build, QBNPU_DTYPE_F32, DIMS(1, 1, 10));
	for (int i = 0; i < 2; i++) {
		build.ios[i].source_rank = 2;
		build.ios[i].source_shape[0] = first;
		build.ios[i].source_shape[1] = second;
		build.ios[i].source_shape[2] = 0;
		for (int j = 0; j < 3; j++)
			build.ios[i].source_perm[j] = perm[j];
	}
	return build_load(&build);
}

/* FM32: last of all, and only if the bytes are the same. */
START_TEST(the_shape_of_the_source_model_is_taken)
{
	static const uint8_t padded[] = { QBNPU_NONE8, 0, 1 };
	static const uint8_t turned[] = { QBNPU_NONE8, 1, 0 };
	const struct qbrt_array source = SHAPE(FLOAT32, 1, 10);
	const struct qbrt_array declared = SHAPE(FLOAT32, 3, 1, 1, 10);
	const struct qbrt_array other = SHAPE(FLOAT32, 1, 12);
	const struct qbrt_array column = SHAPE(FLOAT32, 10, 1);
	struct qbrt_model *model = load_padded(1, 10, padded);

	ck_assert_match(model, 0, &source, 1, 0, 0, HWC);
	ck_assert_shape(ask_output(model, 0, &source, 1, 0), 1, 1, 10);
	ck_assert_match(model, 0, &declared, 1, 0, 3, HWC);
	check_no_match(model, 0, &other, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	/* a file's word is not taken for it */
	model = load_padded(1, 12, padded);
	check_no_match(model, 0, &other, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	model = load_padded(-1, 10, padded);
	check_no_match(model, 0, &source, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	model = load_padded(10, 1, turned);
	check_no_match(model, 0, &column, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
}
END_TEST

static const int64_t a_shape[] = { 64 };
static const int64_t minus_one[] = { -1 };
static const int64_t far_stride[] = { INT64_MAX };

/* Q731 Q733: each with the word that its sentence has. */
static const struct {
	struct qbrt_array array;
	const char *word;
} bad_arrays[] = {
	{ { NULL, a_shape, NULL, 1, QBRT_DTYPE_UINT8, 0 }, "data is NULL" },
	{ { &byte, NULL, NULL, 1, QBRT_DTYPE_UINT8, 0 }, "shape is NULL" },
	{ { &byte, a_shape, NULL, 1, (enum qbrt_dtype)13, 0 }, "dtype is 13" },
	{ { &byte, a_shape, NULL, 1, QBRT_DTYPE_ERROR, 0 }, "dtype is 15" },
	{ { &byte, a_shape, NULL, 1, QBRT_DTYPE_UINT8, 1 }, "reserved 1" },
	{ { &byte, minus_one, NULL, 1, QBRT_DTYPE_UINT8, 0 }, "negative" },
	{ { &byte, a_shape, far_stride, 1, QBRT_DTYPE_UINT8, 0 },
	  "address space" },
};

START_TEST(what_is_no_array_is_refused)
{
	struct qbrt_model *model = models_load_copy64();

	check_no_match(model, 0, &bad_arrays[_i].array, 1,
		       QBRT_INVALID_ARGUMENT);
	ck_assert_detail("input 0");
	ck_assert_detail(bad_arrays[_i].word);
	qbrt_model_free(model);
}
END_TEST

/* Q733 Q735 */
START_TEST(answers_are_as_long_as_the_caller_says)
{
	const struct qbrt_array array = SHAPE(UINT8, 64);
	struct qbrt_model *model = models_load_copy64();
	struct {
		struct qbrt_match match;
		uint64_t newer;
	} longer = { .match.size = sizeof(longer), .newer = ~UINT64_C(0) };
	struct qbrt_match short_one = { .size = 16, .batch = 77 };
	struct qbrt_io_info info = { .size = 4 };

	ck_assert_ok(
		qbrt_model_query_match(model, NULL, &array, 1, &longer.match));
	ck_assert_uint_eq(longer.newer, 0);
	ck_assert_ok(
		qbrt_model_query_match(model, NULL, &array, 1, &short_one));
	ck_assert_uint_eq(short_one.batch, 77);
	short_one.size = 7;
	ck_assert_status(
		qbrt_model_query_match(model, NULL, &array, 1, &short_one),
		QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_match(model, NULL, &array, 1, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_model_query_match(NULL, NULL, &array, 1, &longer.match),
		QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_model_query_match(model, NULL, NULL, 1, &longer.match),
		QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_model_query_match_output(model, NULL, &array, 1, 0, &info),
		QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_model_query_match_output(model, NULL, &array, 1, 0, NULL),
		QBRT_INVALID_ARGUMENT);
	qbrt_model_free(model);
}
END_TEST

/* Q731 */
START_TEST(options_that_a_plain_call_does_not_take_are_refused)
{
	static const struct qbrt_batch_item item = { .sequence_length = 1 };
	struct qbrt_infer_options options[] = {
		make_options(QBRT_INFER_TRY),
		make_options(0x20),
		make_options(0),
		make_options(0),
		make_options(0),
		make_options(0),
		make_options(0),
	};
	const struct qbrt_array array = SHAPE(UINT8, 64);
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_match answer = { .size = sizeof(answer) };

	options[2].reserved = 1;
	options[3].items = &item;
	options[4].num_items = 1;
	options[5].cache_size = 1;
	options[6].size = 3;
	for (size_t i = 0; i < qbrt_array_size(options); i++)
		ck_assert_status(qbrt_model_query_match(model, &options[i],
							&array, 1, &answer),
				 QBRT_INVALID_ARGUMENT);
	options[0] = make_options(QBRT_INFER_BLOCKING);
	ck_assert_ok(
		qbrt_model_query_match(model, &options[0], &array, 1, &answer));
	options[0].stream = (struct qbrt_stream *)(void *)&byte;
	ck_assert_status(
		qbrt_model_query_match(model, &options[0], &array, 1, &answer),
		QBRT_NOT_IMPLEMENTED);
	qbrt_model_free(model);
}
END_TEST

/* Q731: a model that has caches may be told of them, in a later version. */
START_TEST(caches_are_refused_by_name)
{
	const struct qbrt_array tokens = SHAPE(FLOAT32, 2, 4);
	struct qbrt_match answer = { .size = sizeof(answer) };
	struct qbrt_infer_options options = make_options(0);
	struct qbrt_model *model;
	struct build build;

	build_full(&build);
	model = build_load(&build);
	options.cache_size = 4;
	ck_assert_status(
		qbrt_model_query_match(model, &options, &tokens, 1, &answer),
		QBRT_NOT_IMPLEMENTED);
	ck_assert_detail("caches are not offered yet");
	qbrt_model_free(model);
}
END_TEST

void add_match_type_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(types_are_never_cast_silently),
		QBRT_TEST(a_variant_of_the_right_type_is_found),
		QBRT_TEST(the_output_type_follows_the_input_type),
		QBRT_TEST(a_conversion_that_is_not_offered_is_said),
		QBRT_TEST(an_output_is_described_whole),
		QBRT_TEST(the_shape_of_the_source_model_is_taken),
		QBRT_TEST(answers_are_as_long_as_the_caller_says),
		QBRT_TEST(options_that_a_plain_call_does_not_take_are_refused),
		QBRT_TEST(caches_are_refused_by_name),
		QBRT_LOOP_TEST(what_is_no_array_is_refused,
			       qbrt_array_size(bad_arrays)),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
