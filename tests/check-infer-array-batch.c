// SPDX-License-Identifier: MIT
/*
 * N inferences in one call: equal to N calls, in jobs of bounded size. And the
 * digits, one by one and together.
 */
#include "check-infer-array.h"

#include <stdio.h>
#include <string.h>

#include "build-model.h"
#include "counters.h"
#include "kmd-watch.h"
#include "model.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_ITEMS 40

/* Q335 Q322: in three jobs of at most 16 items, one copy in and out. */
START_TEST(a_batch_is_as_many_inferences)
{
	static uint8_t from[NUM_ITEMS][100];
	static uint8_t to[NUM_ITEMS][100];
	const struct qbrt_array in = ARRAY(from, UINT8, NUM_ITEMS, 100);
	const struct qbrt_array out = ARRAY(to, UINT8, NUM_ITEMS, 100);
	struct qbrt_model_counters counters;
	struct array_rig rig;

	fill_bytes(from, sizeof(from), 1);
	array_rig_open(&rig, models_load_copy(100, 0));
	kmd_watch_begin(rig.acc);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_mem_eq(to, from, sizeof(to));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), 3);
	counters = get_array_counters(rig.model);
	ck_assert_uint_eq(counters.completed, 3);
	ck_assert_uint_eq(counters.input_nbytes, sizeof(from));
	ck_assert_uint_eq(counters.output_nbytes, sizeof(to));
	ck_assert_uint_eq(counters.copied_nbytes, sizeof(from) + sizeof(to));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 2);
	array_rig_close(&rig);
}
END_TEST

/* Q335: sizes around a job's, after each other in the same staging. */
START_TEST(batches_of_every_size_are_right)
{
	static uint8_t from[NUM_ITEMS][64];
	static uint8_t to[NUM_ITEMS][64];
	struct array_rig rig;

	array_rig_open(&rig, models_load_copy64());
	for (int64_t n = 1; n <= NUM_ITEMS; n++) {
		const struct qbrt_array in = ARRAY(from, UINT8, n, 64);
		const struct qbrt_array out = ARRAY(to, UINT8, n, 64);

		fill_bytes(from, sizeof(from), (unsigned int)n);
		memset(to, 0xee, sizeof(to));
		ck_assert_ok(array_infer(&rig, NULL, &in, &out));
		ck_assert_mem_eq(to, from, (size_t)n * 64);
		ck_assert(
			holds_value(to + n, sizeof(to) - (size_t)n * 64, 0xee));
	}
	ck_assert_uint_eq(rig.model->launched->staging.num_sets, 1);
	array_rig_close(&rig);
}
END_TEST

/* Q303 Q324 Q309: images in CHW order, taken backwards, into a wider array. */
START_TEST(a_batch_of_images_in_any_order_is_right)
{
	static const int64_t shape[] = { 20, 3, 4, 5 };
	static const int64_t back[] = { -60, 20, 5, 1 };
	static const int64_t wide[] = { 80, 25, 6, 1 };
	static uint8_t from[20][3][4][5];
	static uint8_t to[20 * 80];
	const struct qbrt_array in = { from[19],         shape, back, 4,
				       QBRT_DTYPE_UINT8, 0 };
	const struct qbrt_array out = {
		to, shape, wide, 4, QBRT_DTYPE_UINT8, 0
	};
	struct array_rig rig;
	struct build build;

	fill_bytes(from, sizeof(from), 1);
	build_copy(&build, QBNPU_DTYPE_U8, DIMS(4, 5, 3));
	build.ios[0].layout = build.ios[1].layout = 1;
	array_rig_open(&rig, build_load(&build));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	for (int n = 0; n < 20; n++)
		for (int c = 0; c < 3; c++)
			for (int h = 0; h < 4; h++)
				ck_assert_mem_eq(&to[n * 80 + c * 25 + h * 6],
						 from[19 - n][c][h], 5);
	array_rig_close(&rig);
}
END_TEST

/* Q335 FM30: executions of a program that computes three at once. */
START_TEST(a_program_of_three_takes_a_batch_of_sixty)
{
	static uint8_t from[60][16];
	static uint8_t to[60][16];
	const struct qbrt_array in = ARRAY(from, UINT8, 60, 16);
	const struct qbrt_array out = ARRAY(to, UINT8, 60, 16);
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct array_rig rig;
	uint16_t tensor;

	prog_begin(&prog);
	prog.batch = 3;
	tensor = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(3, 16));
	prog_copy(&prog, tensor,
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(3, 16)));
	fill_bytes(from, sizeof(from), 1);
	array_rig_open(&rig, models_load(&spec));
	kmd_watch_begin(rig.acc);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_mem_eq(to, from, sizeof(to));
	/* 20 executions: 16 and 4 */
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), 2);
	array_rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q335: no more items at once than the model has slots. */
START_TEST(slots_bound_a_job_of_a_batch)
{
	static uint8_t from[5][64];
	static uint8_t to[5][64];
	const struct qbrt_array in = ARRAY(from, UINT8, 5, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 5, 64);
	struct array_rig rig;

	fill_bytes(from, sizeof(from), 1);
	array_rig_open(&rig, models_load_slow(0, 2));
	kmd_watch_begin(rig.acc);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_mem_eq(to, from, sizeof(to));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), 3);
	array_rig_close(&rig);
}
END_TEST

/* Q335 Q337: bitwise as one by one, on the digits. */
START_TEST(sixteen_digits_in_one_call_are_the_same)
{
	FILE *pixels = fopen(TEST_TOP_SRCDIR "/examples/digits-16.u8", "r");
	struct qbrt_model *model = NULL;
	uint8_t pictures[16][64];
	float together[16][10];
	float alone[10];
	const struct qbrt_array in = ARRAY(pictures, UINT8, 16, 1, 8, 8);
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_array out = { .data = together,
				  .dtype = QBRT_DTYPE_FLOAT32 };
	struct array_rig rig;

	ck_assert(pixels != NULL);
	ck_assert_uint_eq(fread(pictures, 64, 16, pixels), 16);
	fclose(pixels);
	ck_assert_ok(qbrt_model_load(TEST_TOP_SRCDIR "/examples/digits.qbm",
				     NULL, &model));
	array_rig_open(&rig, model);
	ck_assert_ok(
		qbrt_model_query_match_output(model, NULL, &in, 1, 0, &info));
	ck_assert_int_eq(info.shape[0], 16);
	out.shape = info.shape;
	out.ndim = info.ndim;
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	for (int i = 0; i < 16; i++) {
		const struct qbrt_array one =
			ARRAY(pictures[i], UINT8, 8, 8, 1);
		const struct qbrt_array result = {
			.data = alone,
			.shape = info.shape + 1,
			.ndim = info.ndim - 1,
			.dtype = QBRT_DTYPE_FLOAT32,
		};

		ck_assert_ok(array_infer(&rig, NULL, &one, &result));
		ck_assert_mem_eq(alone, together[i], sizeof(alone));
	}
	array_rig_close(&rig);
}
END_TEST

/* FM32: a source's own shape runs too, with its scales along the right axis. */
START_TEST(an_array_of_the_source_shape_runs)
{
	static const float scales[] = { 0.25f, 0.5f, 0.75f };
	float from[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
	int8_t to[6];
	const struct qbrt_array in = ARRAY(from, FLOAT32, 2, 3);
	const struct qbrt_array out = ARRAY(to, INT8, 1, 2, 3);
	struct array_rig rig;
	struct build build;

	build_copy(&build, QBNPU_DTYPE_I8, DIMS(1, 2, 3));
	for (int i = 0; i < 2; i++) {
		struct qbm_io *io = &build.ios[i];

		io->host_dtype = QBNPU_DTYPE_F32;
		io->accepted_dtypes |= 1u << QBNPU_DTYPE_F32;
		io->scale = 0.0f;
		io->scale_count = 3;
		io->scale_axis = 2;
		io->source_rank = 2;
		io->source_shape[0] = 2;
		io->source_shape[1] = 3;
		io->source_shape[2] = 0;
		io->source_perm[0] = QBNPU_NONE8;
		io->source_perm[1] = 0;
		io->source_perm[2] = 1;
	}
	build.num_scales = 3;
	memcpy(build.scales, scales, sizeof(scales));
	array_rig_open(&rig, build_load(&build));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(
			to[i], __builtin_rintf((float)(i + 1) / scales[i % 3]));
	array_rig_close(&rig);
}
END_TEST

/* Q484: bitwise what pinned memory gives; FM32: in each shape that is taken. */
START_TEST(the_digits_are_the_same_as_on_pinned_memory)
{
	FILE *pixels = fopen(TEST_TOP_SRCDIR "/examples/digits-16.u8", "r");
	struct qbrt_model *model = NULL;
	struct qbrt_pinned_memory *pinned_in = NULL;
	struct qbrt_pinned_memory *pinned_out = NULL;
	uint8_t picture[64];
	float logits[10];
	const struct qbrt_array ins[] = { ARRAY(picture, UINT8, 8, 8, 1),
					  ARRAY(picture, UINT8, 1, 8, 8) };
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_array out = { .data = logits, .dtype = QBRT_DTYPE_FLOAT32 };
	struct array_rig rig;

	ck_assert(pixels != NULL);
	ck_assert_ok(qbrt_model_load(TEST_TOP_SRCDIR "/examples/digits.qbm",
				     NULL, &model));
	array_rig_open(&rig, model);
	ck_assert_ok(qbrt_model_alloc_input(model, 0, &pinned_in));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &pinned_out));
	for (int i = 0; i < 16; i++) {
		ck_assert_uint_eq(fread(picture, 1, 64, pixels), 64);
		memcpy(qbrt_pinned_memory_get_data(pinned_in), picture, 64);
		ck_assert_ok(qbrt_model_infer_pinned_memory(
			model, NULL, &pinned_in, 1, &pinned_out, 1));
		ck_assert_ok(qbrt_model_query_match_output(
			model, NULL, &ins[i % 2], 1, 0, &info));
		ck_assert_int_eq(info.dtype, QBRT_DTYPE_FLOAT32);
		out.shape = info.shape;
		out.ndim = info.ndim;
		ck_assert_ok(array_infer(&rig, NULL, &ins[i % 2], &out));
		ck_assert_mem_eq(logits,
				 qbrt_pinned_memory_get_data(pinned_out), 40);
	}
	fclose(pixels);
	qbrt_pinned_memory_free(pinned_in);
	qbrt_pinned_memory_free(pinned_out);
	array_rig_close(&rig);
}
END_TEST

void add_array_batch_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_batch_is_as_many_inferences),
		QBRT_TEST(batches_of_every_size_are_right),
		QBRT_TEST(a_batch_of_images_in_any_order_is_right),
		QBRT_TEST(a_program_of_three_takes_a_batch_of_sixty),
		QBRT_TEST(an_array_of_the_source_shape_runs),
		QBRT_TEST(slots_bound_a_job_of_a_batch),
		QBRT_TEST(the_digits_are_the_same_as_on_pinned_memory),
		QBRT_TEST(sixteen_digits_in_one_call_are_the_same),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
