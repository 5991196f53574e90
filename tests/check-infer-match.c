// SPDX-License-Identifier: MIT
/*
 * How arrays fit a model: shapes, batches, variants, order of axes, and what is
 * said when they do not. Nothing here is launched.
 */
#include "check-infer-match.h"

#include <string.h>

#include "build-model.h"
#include "models.h"
#include "util.h"

char byte;

struct qbrt_infer_options make_options(uint32_t flags)
{
	return (struct qbrt_infer_options){
		.size = sizeof(struct qbrt_infer_options),
		.flags = flags,
	};
}

struct qbrt_match match;

enum qbrt_status ask(const struct qbrt_model *model, uint32_t flags,
		     const struct qbrt_array *inputs, size_t num)
{
	const struct qbrt_infer_options options = make_options(flags);

	memset(&match, 0xaa, sizeof(match));
	match.size = sizeof(match);
	return qbrt_model_query_match(model, &options, inputs, num, &match);
}

/* No match writes nothing. */
void check_no_match(const struct qbrt_model *model, uint32_t flags,
		    const struct qbrt_array *inputs, size_t num,
		    enum qbrt_status status)
{
	struct qbrt_match before;

	ck_assert_status(ask(model, flags, inputs, num), status);
	memset(&before, 0xaa, sizeof(before));
	before.size = sizeof(before);
	ck_assert_mem_eq(&match, &before, sizeof(match));
}

struct qbrt_io_info ask_output(const struct qbrt_model *model, uint32_t flags,
			       const struct qbrt_array *inputs, size_t num,
			       size_t index)
{
	const struct qbrt_infer_options options = make_options(flags);
	struct qbrt_io_info info = { .size = sizeof(info) };

	ck_assert_ok(qbrt_model_query_match_output(model, &options, inputs, num,
						   index, &info));
	return info;
}

struct qbrt_model *load_image(uint32_t dtype, uint32_t rank,
			      const uint32_t *dims)
{
	struct build build;

	build_copy(&build, dtype, rank, dims);
	build.ios[0].layout = build.ios[1].layout = 1;
	return build_load(&build);
}

/* num inputs of these dims, each copied into an output. */
static struct qbrt_model *load_many(size_t num, uint32_t rank,
				    const uint32_t *dims)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.is_hwc = true,
	};
	struct qbrt_model *model;

	prog_begin(&prog);
	for (size_t i = 0; i < num; i++) {
		uint16_t in = prog_input(&prog, QBNPU_DTYPE_U8, rank, dims);

		prog_copy(&prog, in,
			  prog_output(&prog, QBNPU_DTYPE_U8, rank, dims));
	}
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

/* A variant per entry of sizes, each a copy of so many bytes. */
static struct qbrt_model *load_variants(const uint32_t *sizes, size_t num)
{
	struct prog progs[MODELS_MAX_VARIANTS];
	struct models_spec spec = { .num_programs = num };
	struct qbrt_model *model;

	for (size_t i = 0; i < num; i++) {
		uint16_t in;

		spec.programs[i] = &progs[i];
		prog_begin(&progs[i]);
		in = prog_input(&progs[i], QBNPU_DTYPE_U8, DIMS(sizes[i]));
		prog_copy(
			&progs[i], in,
			prog_output(&progs[i], QBNPU_DTYPE_U8, DIMS(sizes[i])));
	}
	model = models_load(&spec);
	for (size_t i = 0; i < num; i++)
		prog_end(&progs[i]);
	return model;
}

/* Q303: the model's rank, or one axis more. */
START_TEST(a_leading_axis_counts_inferences)
{
	const struct qbrt_array plain = SHAPE(UINT8, 2, 3, 5);
	const struct qbrt_array one = SHAPE(UINT8, 1, 2, 3, 5);
	const struct qbrt_array seven = SHAPE(UINT8, 7, 2, 3, 5);
	const struct qbrt_array bad[] = {
		SHAPE(UINT8, 0, 2, 3, 5),    SHAPE(UINT8, 2, 3),
		SHAPE(UINT8, 1, 1, 2, 3, 5), SHAPE(UINT8, 2, 3, 4),
		SHAPE(UINT8, 2, 0, 5),
	};
	struct qbrt_model *model = load_image(QBNPU_DTYPE_U8, DIMS(2, 3, 5));

	ck_assert_match(model, 0, &plain, 1, 0, 0, HWC);
	ck_assert_match(model, 0, &one, 1, 0, 1, HWC);
	ck_assert_match(model, 0, &seven, 1, 0, 7, HWC);
	for (size_t i = 0; i < qbrt_array_size(bad); i++)
		check_no_match(model, 0, &bad[i], 1,
			       QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
}
END_TEST

/* Q303: with and without the axis together for one inference only. */
START_TEST(all_inputs_have_one_batch)
{
	const struct qbrt_array four[] = { SHAPE(UINT8, 4, 8),
					   SHAPE(UINT8, 4, 8) };
	const struct qbrt_array mixed[] = { SHAPE(UINT8, 8),
					    SHAPE(UINT8, 1, 8) };
	const struct qbrt_array unequal[] = { SHAPE(UINT8, 4, 8),
					      SHAPE(UINT8, 3, 8) };
	const struct qbrt_array half[] = { SHAPE(UINT8, 8),
					   SHAPE(UINT8, 2, 8) };
	struct qbrt_model *model = load_many(2, DIMS(8));

	ck_assert_match(model, 0, four, 2, 0, 4, HWC);
	ck_assert_match(model, 0, mixed, 2, 0, 1, HWC);
	check_no_match(model, 0, unequal, 2, QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("input 1 has another number of inferences");
	check_no_match(model, 0, half, 2, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
}
END_TEST

/* Q303 FM30: a program that computes a batch in one go takes multiples of it. */
START_TEST(a_batch_of_the_program_divides_the_batch)
{
	const struct qbrt_array six = SHAPE(UINT8, 6, 16);
	const struct qbrt_array seven = SHAPE(UINT8, 7, 16);
	const struct qbrt_array plain = SHAPE(UINT8, 16);
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;
	uint16_t in;

	prog_begin(&prog);
	prog.batch = 3;
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(3, 16));
	prog_copy(&prog, in, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(3, 16)));
	model = models_load(&spec);
	ck_assert_match(model, 0, &six, 1, 0, 6, HWC);
	ck_assert_shape(ask_output(model, 0, &six, 1, 0), 6, 16);
	check_no_match(model, 0, &seven, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	check_no_match(model, 0, &plain, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	prog_end(&prog);
}
END_TEST

/*
 * Q303: an input without the axis of the program's batch counts executions, and
 * an output with it has that many times the batch, which must not wrap.
 */
START_TEST(a_batch_beyond_what_outputs_can_count_is_refused)
{
	static const int64_t most = INT64_MAX / 4;
	static uint8_t bytes[5];
	const int64_t strides[] = { 0, 1 };
	struct qbrt_array often = SHAPE(UINT8, most, 5);
	struct qbrt_array more = SHAPE(UINT8, (INT64_C(1) << 62) + 1, 5);
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;

	often.data = more.data = bytes;
	often.strides = more.strides = strides;
	prog_begin(&prog);
	prog.batch = 4;
	(void)prog_input(&prog, QBNPU_DTYPE_U8, DIMS(5));
	prog_fill(&prog, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(4, 16)), 7);
	model = models_load(&spec);
	ck_assert_match(model, 0, &often, 1, 0, most * 4, HWC);
	ck_assert_shape(ask_output(model, 0, &often, 1, 0), most * 4, 16);
	check_no_match(model, 0, &more, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	prog_end(&prog);
}
END_TEST

/* Q304 Q308 */
START_TEST(variable_axes_take_their_multiples_and_agree)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;
	uint16_t tensors[4];
	uint8_t rows;

	prog_begin(&prog);
	rows = prog_param(&prog, QBNPU_PARAM_OTHER, 4, 32, 4);
	tensors[0] = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	tensors[1] = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	tensors[2] = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	tensors[3] = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	for (size_t i = 0; i < 4; i++)
		prog_get_tensor(&prog, tensors[i])->extent_params[0] = rows;
	prog_copy(&prog, tensors[0], tensors[2]);
	prog_copy(&prog, tensors[1], tensors[3]);
	model = models_load(&spec);
	for (int64_t n = 0; n <= 40; n++) {
		const struct qbrt_array inputs[] = { SHAPE(UINT8, n, 8),
						     SHAPE(UINT8, n, 8) };
		const struct qbrt_array unequal[] = { SHAPE(UINT8, n, 8),
						      SHAPE(UINT8, 36 - n, 8) };

		if (n == 0 || n % 4 || n > 32) {
			check_no_match(model, 0, inputs, 2,
				       QBRT_MODEL_SHAPE_MISMATCHED);
			continue;
		}
		ck_assert_match(model, 0, inputs, 2, 0, 0, HWC);
		ck_assert_shape(ask_output(model, 0, inputs, 2, 0), n, 8);
		check_no_match(model, 0, unequal, 2,
			       QBRT_MODEL_SHAPE_MISMATCHED);
		if (n != 32)
			ck_assert_detail("input 1 has a variable axis unequal");
	}
	qbrt_model_free(model);
	prog_end(&prog);
}
END_TEST

/* Q304: without a launch, from what the file says. */
START_TEST(a_range_of_the_file_bounds_a_variable_axis)
{
	struct build build;
	struct qbrt_model *model;

	build_full(&build);
	model = build_load(&build);
	for (int64_t n = 1; n <= 9; n++) {
		const struct qbrt_array tokens = SHAPE(FLOAT32, n, 4);

		if (n == 9) {
			check_no_match(model, 0, &tokens, 1,
				       QBRT_MODEL_SHAPE_MISMATCHED);
			ck_assert_detail("out of its range");
			continue;
		}
		ck_assert_match(model, 0, &tokens, 1, 0, 0, HWC);
		ck_assert_shape(ask_output(model, 0, &tokens, 1, 0), n, 4);
		ck_assert_shape(ask_output(model, 0, &tokens, 1, 1), 16);
	}
	qbrt_model_free(model);
}
END_TEST

/* Q305 */
START_TEST(the_first_variant_that_fits_is_taken)
{
	static const uint32_t sizes[] = { 64, 100, 64, 7 };
	const struct qbrt_array arrays[] = { SHAPE(UINT8, 64),
					     SHAPE(UINT8, 5, 100),
					     SHAPE(UINT8, 64),
					     SHAPE(UINT8, 7) };
	static const size_t expected[] = { 0, 1, 0, 3 };
	struct qbrt_model *model = load_variants(sizes, 4);

	for (size_t i = 0; i < 4; i++)
		ck_assert_match(model, 0, &arrays[i], 1, expected[i],
				i == 1 ? 5 : 0, HWC);
	qbrt_model_free(model);
}
END_TEST

/* Q306 Q324: outputs come in the order of the inputs. */
START_TEST(chw_is_found_after_hwc)
{
	const struct qbrt_array chw = SHAPE(UINT8, 5, 2, 3);
	const struct qbrt_array many = SHAPE(UINT8, 9, 5, 2, 3);
	const struct qbrt_array hwc = SHAPE(UINT8, 2, 3, 5);
	struct qbrt_model *model = load_image(QBNPU_DTYPE_U8, DIMS(2, 3, 5));

	ck_assert_match(model, 0, &chw, 1, 0, 0, CHW);
	ck_assert_uint_eq(match.is_ambiguous, 0);
	ck_assert_shape(ask_output(model, 0, &chw, 1, 0), 5, 2, 3);
	ck_assert_match(model, 0, &many, 1, 0, 9, CHW);
	ck_assert_shape(ask_output(model, 0, &many, 1, 0), 9, 5, 2, 3);
	ck_assert_match(model, 0, &hwc, 1, 0, 0, HWC);
	ck_assert_shape(ask_output(model, 0, &hwc, 1, 0), 2, 3, 5);
	qbrt_model_free(model);
}
END_TEST

/* Q306: over all inputs together, and only where there is such a form. */
START_TEST(one_order_of_axes_is_for_all_inputs)
{
	const struct qbrt_array hwc[] = { SHAPE(UINT8, 2, 3, 5),
					  SHAPE(UINT8, 2, 3, 5) };
	const struct qbrt_array chw[] = { SHAPE(UINT8, 5, 2, 3),
					  SHAPE(UINT8, 5, 2, 3) };
	const struct qbrt_array mixed[] = { SHAPE(UINT8, 2, 3, 5),
					    SHAPE(UINT8, 5, 2, 3) };
	struct qbrt_model *model = load_many(2, DIMS(2, 3, 5));
	struct build build;

	ck_assert_match(model, 0, hwc, 2, 0, 0, HWC);
	ck_assert_match(model, 0, chw, 2, 0, 0, CHW);
	check_no_match(model, 0, mixed, 2, QBRT_MODEL_SHAPE_MISMATCHED);
	qbrt_model_free(model);
	build_copy(&build, QBNPU_DTYPE_U8, DIMS(2, 3, 5));
	model = build_load(&build);
	check_no_match(model, 0, chw, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	/* asked for: a tensor without a layout stays as it is */
	ck_assert_match(model, QBRT_INFER_CHW, hwc, 1, 0, 0, CHW);
	qbrt_model_free(model);
}
END_TEST

/* Q306 Q307 */
START_TEST(ambiguity_is_told_and_flags_end_it)
{
	const struct qbrt_array cube = SHAPE(UINT8, 3, 3, 3);
	const struct qbrt_array point = SHAPE(UINT8, 2, 1, 1, 1);
	struct qbrt_model *model = load_image(QBNPU_DTYPE_U8, DIMS(3, 3, 3));

	ck_assert_match(model, 0, &cube, 1, 0, 0, HWC);
	ck_assert_uint_eq(match.is_ambiguous, 1);
	ck_assert_match(model, QBRT_INFER_HWC, &cube, 1, 0, 0, HWC);
	ck_assert_uint_eq(match.is_ambiguous, 0);
	ck_assert_match(model, QBRT_INFER_CHW, &cube, 1, 0, 0, CHW);
	ck_assert_uint_eq(match.is_ambiguous, 0);
	qbrt_model_free(model);
	/* both forms, but no difference */
	model = load_image(QBNPU_DTYPE_U8, DIMS(1, 1, 1));
	ck_assert_match(model, 0, &point, 1, 0, 2, HWC);
	ck_assert_uint_eq(match.is_ambiguous, 0);
	qbrt_model_free(model);
}
END_TEST

/* Q307 */
START_TEST(flags_fix_the_order_of_axes)
{
	const struct qbrt_array hwc = SHAPE(UINT8, 2, 3, 5);
	const struct qbrt_array chw = SHAPE(UINT8, 5, 2, 3);
	struct qbrt_model *model = load_image(QBNPU_DTYPE_U8, DIMS(2, 3, 5));

	check_no_match(model, QBRT_INFER_HWC, &chw, 1,
		       QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("takes x (2, 3, 5), and input 0 has other extents");
	check_no_match(model, QBRT_INFER_CHW, &hwc, 1,
		       QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("takes x (5, 2, 3), and input 0 has other extents");
	check_no_match(model, QBRT_INFER_CHW | QBRT_INFER_HWC, &hwc, 1,
		       QBRT_INVALID_ARGUMENT);
	qbrt_model_free(model);
}
END_TEST

/* Q302 */
START_TEST(a_list_of_pictures_is_told_what_a_batch_is)
{
	const struct qbrt_array list[] = { SHAPE(UINT8, 8), SHAPE(UINT8, 8),
					   SHAPE(UINT8, 8) };
	struct qbrt_model *model = load_many(2, DIMS(8));

	check_no_match(model, 0, list, 3, QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	ck_assert_detail("2 inputs expected, 3 given");
	ck_assert_detail("a batch is one array with a leading axis");
	check_no_match(model, 0, list, 1, QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	check_no_match(model, 0, NULL, 0, QBRT_MODEL_INPUT_COUNT_MISMATCHED);
	qbrt_model_free(model);
}
END_TEST

/* Q310: given, and per variant what was tried and why not. */
START_TEST(no_match_says_what_each_variant_takes)
{
	static const uint32_t sizes[] = { 64, 100 };
	const struct qbrt_array array = SHAPE(UINT8, 3, 65);
	struct qbrt_model *model = load_variants(sizes, 2);

	check_no_match(model, 0, &array, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("given: (3, 65); ");
	ck_assert_detail("variant 0 (v0) takes t0 (64), and input 0 has other "
			 "extents");
	ck_assert_detail("variant 1 (v1) takes t2 (100), and input 0 has other "
			 "extents");
	qbrt_model_free(model);
	model = load_image(QBNPU_DTYPE_U8, DIMS(4, 5, 3));
	check_no_match(model, 0, &array, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("takes x (4, 5, 3) or (3, 4, 5), and input 0 has "
			 "neither these axes nor one more in front");
	qbrt_model_free(model);
}
END_TEST

/* Q303 Q310: more axes than any tensor has, and a leading one. */
START_TEST(too_many_axes_fit_no_model)
{
	const struct qbrt_array array =
		SHAPE(UINT8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 64);
	struct qbrt_model *model = models_load_copy64();

	check_no_match(model, 0, &array, 1, QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("given: (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 64); ");
	ck_assert_detail("input 0 has neither these axes nor one more");
	qbrt_model_free(model);
}
END_TEST

/* Q310: however much there is to say. */
START_TEST(a_long_complaint_is_cut)
{
	const struct qbrt_array large =
		SHAPE(UINT8, 12345, 12345, 12345, 12345);
	struct qbrt_array arrays[40];
	struct qbrt_model *model;

	for (size_t i = 0; i < 40; i++)
		arrays[i] = large;
	model = load_many(20, DIMS(2, 3, 5));
	check_no_match(model, 0, arrays, 20, QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("(12345, 12345, 12345, 12345), (12345");
	ck_assert_detail("...");
	qbrt_model_free(model);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_leading_axis_counts_inferences),
		QBRT_TEST(all_inputs_have_one_batch),
		QBRT_TEST(a_batch_of_the_program_divides_the_batch),
		QBRT_TEST(a_batch_beyond_what_outputs_can_count_is_refused),
		QBRT_TEST(variable_axes_take_their_multiples_and_agree),
		QBRT_TEST(a_range_of_the_file_bounds_a_variable_axis),
		QBRT_TEST(the_first_variant_that_fits_is_taken),
		QBRT_TEST(chw_is_found_after_hwc),
		QBRT_TEST(one_order_of_axes_is_for_all_inputs),
		QBRT_TEST(ambiguity_is_told_and_flags_end_it),
		QBRT_TEST(flags_fix_the_order_of_axes),
		QBRT_TEST(a_list_of_pictures_is_told_what_a_batch_is),
		QBRT_TEST(no_match_says_what_each_variant_takes),
		QBRT_TEST(too_many_axes_fit_no_model),
		QBRT_TEST(a_long_complaint_is_cut),
	};

	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_match_type_tests(&all);
	return qbrt_test_run("infer-match", all.tests, all.num);
}
