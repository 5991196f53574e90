// SPDX-License-Identifier: MIT
/* Which shapes an inference takes: leading axes, HWC, variants, variable axes. */
#include "check-infer.h"

#include <unistd.h>

#include "kmd-watch.h"
#include "util.h"

/* A model that copies one tensor of this type and shape. */
static struct qbrt_model *load_copy_of(uint32_t dtype, uint32_t rank,
				       const uint32_t *dims, bool is_hwc,
				       bool is_float_host)
{
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.is_hwc = is_hwc,
		.is_float_host = is_float_host,
	};
	struct qbrt_model *model;
	uint16_t in;

	prog_begin(&prog);
	in = prog_input(&prog, dtype, rank, dims);
	prog_copy(&prog, in, prog_output(&prog, dtype, rank, dims));
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

static enum qbrt_status infer_shape(const struct rig *rig,
				    enum qbrt_dtype dtype, size_t ndim,
				    const int64_t *shape)
{
	struct qbrt_pinned_memory *in = rig_alloc(rig, dtype, ndim, shape);
	struct qbrt_pinned_memory *out = rig_alloc(rig, dtype, ndim, shape);
	enum qbrt_status status;

	fill(in, 5);
	status = qbrt_model_infer_pinned_memory(rig->model, NULL, &in, 1, &out,
						1);
	if (!status)
		ck_assert(holds(out, 5));
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	return status;
}

/* Q482 */
START_TEST(a_leading_axis_of_1_is_allowed)
{
	const int64_t plain[] = { 2, 3, 5 };
	const int64_t leading[] = { 1, 2, 3, 5 };
	const int64_t twice[] = { 1, 1, 2, 3, 5 };
	struct rig rig;

	rig_open(&rig, NULL,
		 load_copy_of(QBNPU_DTYPE_I32, DIMS(2, 3, 5), true, false));
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_INT32, 3, plain));
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_INT32, 4, leading));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_INT32, 5, twice),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("(2, 3, 5) expected, (1, 1, 2, 3, 5) given");
	rig_close(&rig);
}
END_TEST

/* Q482 */
START_TEST(chw_is_refused_with_its_own_sentence)
{
	const int64_t chw[] = { 5, 2, 3 };
	const int64_t leading[] = { 1, 5, 2, 3 };
	struct rig rig;

	rig_open(&rig, NULL,
		 load_copy_of(QBNPU_DTYPE_U8, DIMS(2, 3, 5), true, false));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 3, chw),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("CHW");
	ck_assert_detail("would be a copy");
	ck_assert_detail("(2, 3, 5)");
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 4, leading),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("CHW");
	rig_close(&rig);
	/* a tensor without a layout has no CHW form */
	rig_open(&rig, NULL,
		 load_copy_of(QBNPU_DTYPE_U8, DIMS(2, 3, 5), false, false));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 3, chw),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("(2, 3, 5) expected, (5, 2, 3) given");
	rig_close(&rig);
}
END_TEST

/* Q491: the host's type is not the pinned one, however large. */
START_TEST(the_pinned_type_counts_and_not_the_hosts)
{
	const int64_t shape[] = { 100, 100 };
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct rig rig;

	rig_open(&rig, NULL,
		 load_copy_of(QBNPU_DTYPE_U8, DIMS(100, 100), false, true));
	ck_assert_ok(qbrt_model_query_input(rig.model, 0, 0, &info));
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_FLOAT32);
	ck_assert_int_eq(info.pinned_dtype, QBRT_DTYPE_UINT8);
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_UINT8, 2, shape));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_FLOAT32, 2, shape),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Uint8 expected");
	ck_assert_detail("Float32 given");
	rig_close(&rig);
	/* nor is a buffer of a smaller type refused for its size */
	rig_open(&rig, NULL,
		 load_copy_of(QBNPU_DTYPE_F32, DIMS(100, 100), false, false));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 2, shape),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	rig_close(&rig);
}
END_TEST

/* Q481 MM01 */
START_TEST(the_first_variant_that_fits_runs)
{
	static const int64_t sizes[] = { 64, 100, 7 };
	const int64_t other[] = { 65 };
	struct prog progs[3];
	struct models_spec spec = {
		.programs = { &progs[0], &progs[1], &progs[2] },
		.num_programs = 3,
	};
	struct rig rig;

	for (int i = 0; i < 3; i++) {
		uint16_t in;

		prog_begin(&progs[i]);
		in = prog_input(&progs[i], QBNPU_DTYPE_U8,
				DIMS((uint32_t)sizes[i]));
		prog_copy(&progs[i], in,
			  prog_output(&progs[i], QBNPU_DTYPE_U8,
				      DIMS((uint32_t)sizes[i])));
	}
	rig_open(&rig, NULL, models_load(&spec));
	for (int i = 0; i < 3; i++) {
		ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_UINT8, 1, &sizes[i]));
		prog_end(&progs[i]);
	}
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 1, other),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("(64) expected, (65) given");
	ck_assert_detail("variant");
	rig_close(&rig);
}
END_TEST

/* Rows in multiples of 4, at most 32, of both tensors alike. */
static struct qbrt_model *load_rows(void)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_model *model;
	uint16_t in;
	uint16_t out;
	uint8_t rows;

	prog_begin(&prog);
	rows = prog_param(&prog, QBNPU_PARAM_OTHER, 4, 32, 4);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(32, 8));
	prog_get_tensor(&prog, in)->extent_params[0] = rows;
	prog_get_tensor(&prog, out)->extent_params[0] = rows;
	prog_copy(&prog, in, out);
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

static enum qbrt_status infer_rows(const struct rig *rig, int64_t num_in,
				   int64_t num_out)
{
	const int64_t in_shape[] = { num_in, 8 };
	const int64_t out_shape[] = { num_out, 8 };
	struct qbrt_pinned_memory *in =
		rig_alloc(rig, QBRT_DTYPE_UINT8, 2, in_shape);
	struct qbrt_pinned_memory *out =
		rig_alloc(rig, QBRT_DTYPE_UINT8, 2, out_shape);
	enum qbrt_status status = qbrt_model_infer_pinned_memory(
		rig->model, NULL, &in, 1, &out, 1);

	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	return status;
}

/*
 * Q308 FM30 PF02: what reaches the driver, for no device runs variable axes
 * yet.
 */
START_TEST(a_variable_axis_takes_its_multiples)
{
	struct rig rig = { .model = load_rows() };

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig.acc));
	kmd_watch_begin(rig.acc);
	atomic_store(&kmd_watch.answers_programs, true);
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	for (int64_t rows = 1; rows <= 36; rows++) {
		if (rows % 4 == 0 && rows <= 32) {
			ck_assert_ok(infer_rows(&rig, rows, rows));
			ck_assert_uint_eq(kmd_watch.params[0], (uint32_t)rows);
			ck_assert_uint_eq(kmd_watch.params[1], 0);
			continue;
		}
		ck_assert_status(infer_rows(&rig, rows, rows),
				 QBRT_MODEL_SHAPE_MISMATCHED);
		ck_assert_detail("input 0");
		ck_assert_detail("(-4, 8)");
	}
	/* unequal extents of one parameter */
	ck_assert_status(infer_rows(&rig, 8, 12), QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("output 0");
	ck_assert_detail("(12, 8)");
	qbrt_model_free(rig.model);
	qbrt_accelerator_close(rig.acc);
}
END_TEST

/* Q490: a variant that computes a batch in one go. */
START_TEST(a_batch_of_the_variant_is_a_leading_axis)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	const int64_t plain[] = { 16 };
	const int64_t batch[] = { 3, 16 };
	struct rig rig;
	uint16_t in;

	prog_begin(&prog);
	prog.batch = 3;
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(3, 16));
	prog_copy(&prog, in, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(3, 16)));
	rig_open(&rig, NULL, models_load(&spec));
	ck_assert_uint_eq(qbrt_pinned_memory_get_ndim(rig.in), 2);
	ck_assert_int_eq(qbrt_pinned_memory_get_shape(rig.in)[0], 3);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_UINT8, 2, batch));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_UINT8, 1, plain),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("(3, 16) expected, (16) given");
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q481: equal shapes, then the data types tell the variants apart. */
START_TEST(a_variant_of_the_same_shape_is_chosen_by_its_type)
{
	static const uint32_t dtypes[] = { QBNPU_DTYPE_U8, QBNPU_DTYPE_I32 };
	const int64_t shape[] = { 64 };
	struct prog progs[2];
	struct models_spec spec = {
		.programs = { &progs[0], &progs[1] },
		.num_programs = 2,
	};
	struct rig rig;

	for (int i = 0; i < 2; i++) {
		uint16_t in;

		prog_begin(&progs[i]);
		in = prog_input(&progs[i], dtypes[i], DIMS(64));
		prog_copy(&progs[i], in,
			  prog_output(&progs[i], dtypes[i], DIMS(64)));
	}
	rig_open(&rig, NULL, models_load(&spec));
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_UINT8, 1, shape));
	ck_assert_ok(infer_shape(&rig, QBRT_DTYPE_INT32, 1, shape));
	ck_assert_status(infer_shape(&rig, QBRT_DTYPE_FLOAT32, 1, shape),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Uint8 expected, Float32 given");
	rig_close(&rig);
	prog_end(&progs[0]);
	prog_end(&progs[1]);
}
END_TEST

/*
 * Q482: the model's own buffers fit it, also where its bindings want to lie on
 * a multiple of more than a page, the most that ISA 1.0 has. Several, as one
 * may lie there by chance.
 */
START_TEST(buffers_of_a_model_lie_as_its_bindings_want)
{
	struct qbrt_pinned_memory *ins[3], *outs[3];
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct rig rig;
	uint16_t in;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, in, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	prog.bindings[0].align_log2 = QBNPU_MAX_ALIGN_LOG2 - 1;
	prog.bindings[1].align_log2 = QBNPU_MAX_ALIGN_LOG2;
	rig_open(&rig, NULL, models_load(&spec));
	for (int i = 0; i < 3; i++) {
		ck_assert_ok(qbrt_model_alloc_input(rig.model, 0, &ins[i]));
		ck_assert_ok(qbrt_model_alloc_output(rig.model, 0, &outs[i]));
		fill(ins[i], i + 1);
		ck_assert_ok(qbrt_model_infer_pinned_memory(
			rig.model, NULL, &ins[i], 1, &outs[i], 1));
		ck_assert(holds(outs[i], i + 1));
	}
	for (int i = 0; i < 3; i++) {
		qbrt_pinned_memory_free(ins[i]);
		qbrt_pinned_memory_free(outs[i]);
	}
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q482: a part of an imported buffer may lie anywhere; what to do is said. */
START_TEST(a_buffer_that_lies_where_the_model_cannot_take_it_is_refused)
{
	const int64_t shape[] = { 64 };
	struct qbrt_pinned_memory *in, *out, *part;
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct rig rig;
	uint16_t from;
	int fd;

	prog_begin(&prog);
	from = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, from, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	prog.bindings[1].align_log2 = QBNPU_MIN_ALIGN_LOG2 + 1;
	rig_open(&rig, NULL, models_load(&spec));
	in = rig_alloc(&rig, QBRT_DTYPE_UINT8, 1, shape);
	out = rig_alloc(&rig, QBRT_DTYPE_UINT8, 1, shape);
	ck_assert_ok(qbrt_pinned_memory_export_fd(out, &fd));
	ck_assert_ok(qbrt_pinned_memory_import_fd(
		rig.acc, fd, 64, QBRT_DTYPE_UINT8, shape, 1, &part));
	ck_assert_int_eq(close(fd), 0);
	ck_assert_status(qbrt_model_infer_pinned_memory(rig.model, NULL, &in, 1,
							&part, 1),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 0 does not begin at a multiple of 128 bytes");
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, &part, 1,
						    &in, 1));
	qbrt_pinned_memory_free(part);
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(in);
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

void add_infer_shape_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_leading_axis_of_1_is_allowed),
		QBRT_TEST(chw_is_refused_with_its_own_sentence),
		QBRT_TEST(the_pinned_type_counts_and_not_the_hosts),
		QBRT_TEST(the_first_variant_that_fits_runs),
		QBRT_TEST(a_variant_of_the_same_shape_is_chosen_by_its_type),
		QBRT_TEST(a_variable_axis_takes_its_multiples),
		QBRT_TEST(a_batch_of_the_variant_is_a_leading_axis),
		QBRT_TEST(buffers_of_a_model_lie_as_its_bindings_want),
		QBRT_TEST(
			a_buffer_that_lies_where_the_model_cannot_take_it_is_refused),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
