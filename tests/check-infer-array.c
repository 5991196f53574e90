// SPDX-License-Identifier: MIT
/*
 * Inference on plain arrays: layouts, strides, quantisation, and what a call
 * costs.
 */
#include "check-infer-array.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "build-model.h"
#include "count-alloc.h"
#include "counters.h"
#include "kmd-watch.h"
#include "model.h"
#include "pinned-memory.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_CALLS 1000

void array_rig_open(struct array_rig *rig, struct qbrt_model *model)
{
	rig->model = model;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig->acc));
	ck_assert_ok(qbrt_model_launch(model, rig->acc));
}

void array_rig_close(struct array_rig *rig)
{
	qbrt_model_free(rig->model);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	qbrt_accelerator_close(rig->acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors), 0);
}

enum qbrt_status array_infer(const struct array_rig *rig,
			     const struct qbrt_infer_options *options,
			     const struct qbrt_array *in,
			     const struct qbrt_array *out)
{
	return qbrt_model_infer(rig->model, options, in, 1, out, 1);
}

void fill_bytes(void *bytes, size_t nbytes, unsigned int seed)
{
	for (size_t i = 0; i < nbytes; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(seed * 31 + i * 7 + 1);
}

bool holds_bytes(const void *bytes, size_t nbytes, unsigned int seed)
{
	for (size_t i = 0; i < nbytes; i++)
		if (((const uint8_t *)bytes)[i] !=
		    (uint8_t)(seed * 31 + i * 7 + 1))
			return false;
	return true;
}

bool holds_value(const void *bytes, size_t nbytes, uint8_t value)
{
	for (size_t i = 0; i < nbytes; i++)
		if (((const uint8_t *)bytes)[i] != value)
			return false;
	return true;
}

struct qbrt_model_counters get_array_counters(const struct qbrt_model *model)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };

	qbrt_model_get_counters(model, &counters);
	return counters;
}

/* What the device was given last as input 0. */
static const uint8_t *get_staged(const struct array_rig *rig)
{
	const struct qbrt_staging_set *set =
		rig->model->launched->staging.first;

	return set->buffers[0]->storage->buffer.data;
}

/* Q323: in C order, and again with other data. */
START_TEST(arrays_go_in_and_come_out)
{
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct array_rig rig;

	array_rig_open(&rig, models_load_copy64());
	for (unsigned int seed = 0; seed < 50; seed++) {
		fill_bytes(from, 64, seed);
		ck_assert_ok(array_infer(&rig, NULL, &in, &out));
		ck_assert(holds_bytes(to, 64, seed));
		ck_assert(holds_bytes(from, 64, seed));
	}
	array_rig_close(&rig);
}
END_TEST

/* Q306 Q324: CHW in, CHW out, and the device has HWC. */
START_TEST(images_reach_the_device_in_its_order)
{
	uint8_t hwc[2][3][5];
	uint8_t chw[5][2][3];
	uint8_t to[30];
	const struct qbrt_array in_hwc = ARRAY(hwc, UINT8, 2, 3, 5);
	const struct qbrt_array in_chw = ARRAY(chw, UINT8, 5, 2, 3);
	const struct qbrt_array out_hwc = ARRAY(to, UINT8, 2, 3, 5);
	const struct qbrt_array out_chw = ARRAY(to, UINT8, 5, 2, 3);
	struct array_rig rig;
	struct build build;

	fill_bytes(hwc, sizeof(hwc), 3);
	for (int h = 0; h < 2; h++)
		for (int w = 0; w < 3; w++)
			for (int c = 0; c < 5; c++)
				chw[c][h][w] = hwc[h][w][c];
	build_copy(&build, QBNPU_DTYPE_U8, DIMS(2, 3, 5));
	build.ios[0].layout = build.ios[1].layout = 1;
	array_rig_open(&rig, build_load(&build));
	ck_assert_ok(array_infer(&rig, NULL, &in_chw, &out_chw));
	ck_assert_mem_eq(to, chw, sizeof(chw));
	ck_assert_mem_eq(get_staged(&rig), hwc, sizeof(hwc));
	ck_assert_ok(array_infer(&rig, NULL, &in_hwc, &out_hwc));
	ck_assert_mem_eq(to, hwc, sizeof(hwc));
	/* an output in the other order is another shape */
	ck_assert_status(array_infer(&rig, NULL, &in_hwc, &out_chw),
			 QBRT_MODEL_SHAPE_MISMATCHED);
	ck_assert_detail("output 0 (y): shape (2, 3, 5) expected, (5, 2, 3) "
			 "given");
	array_rig_close(&rig);
}
END_TEST

/* Q309: reversed, transposed, with gaps, and the gaps stay. */
START_TEST(arrays_of_any_strides_are_taken)
{
	static const int64_t shape[] = { 4, 6 };
	static const int64_t back[] = { -8, 1 };
	static const int64_t turned[] = { 3, 12 };
	uint8_t from[4][8];
	uint8_t to[6 * 12];
	struct qbrt_array in = { from[3], shape, back, 2, QBRT_DTYPE_UINT8, 0 };
	struct qbrt_array out = { to, shape, turned, 2, QBRT_DTYPE_UINT8, 0 };
	struct array_rig rig;
	struct build build;

	fill_bytes(from, sizeof(from), 1);
	memset(to, 0xee, sizeof(to));
	build_copy(&build, QBNPU_DTYPE_U8, DIMS(4, 6));
	array_rig_open(&rig, build_load(&build));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	for (int i = 0; i < 6 * 12; i++) {
		bool is_element = i % 12 % 3 == 0 && i % 12 / 3 < 4;

		ck_assert_uint_eq(to[i], is_element
						 ? from[3 - i % 12 / 3][i / 12]
						 : 0xee);
	}
	array_rig_close(&rig);
}
END_TEST

static struct qbrt_model *load_quantised(uint32_t dtype, bool is_per_channel,
					 int32_t zero_point)
{
	struct build build;

	build_copy(&build, dtype, DIMS(4, 3));
	for (int i = 0; i < 2; i++) {
		struct qbm_io *io = &build.ios[i];

		io->host_dtype = QBNPU_DTYPE_F32;
		io->accepted_dtypes |= 1u << QBNPU_DTYPE_F32;
		io->zero_point = zero_point;
		io->scale = is_per_channel ? 0.0f : 0.5f;
		if (!is_per_channel)
			continue;
		io->scale_count = 3;
		io->scale_axis = 1;
	}
	build.num_scales = is_per_channel ? 3 : 0;
	for (int i = 0; i < 3; i++)
		build.scales[i] = 0.25f * (float)(i + 1);
	return build_load(&build);
}

/* FM33 Q355 Q312: per tensor and per channel. */
START_TEST(floats_are_quantised_and_come_back)
{
	static const float scales[] = { 0.25f, 0.5f, 0.75f };
	static const float numbers[] = { 0.1f,  -3.3f,   7.77f,  1000.0f,
					 -1e9f, 0.125f,  0.375f, -0.375f,
					 31.9f, -63.99f, 2.5f,   0.0f };
	bool is_per_channel = _i;
	float from[12];
	int8_t raw[12];
	float to[12];
	const struct qbrt_array in = ARRAY(from, FLOAT32, 4, 3);
	const struct qbrt_array in_raw = ARRAY(raw, INT8, 4, 3);
	const struct qbrt_array out = ARRAY(to, FLOAT32, 4, 3);
	const struct qbrt_array out_raw = ARRAY(raw, INT8, 4, 3);
	const struct qbrt_infer_options to_float = {
		.size = sizeof(to_float),
		.flags = QBRT_INFER_TO_FLOAT,
	};
	struct array_rig rig;

	array_rig_open(&rig,
		       load_quantised(QBNPU_DTYPE_I8, is_per_channel, -7));
	memcpy(from, numbers, sizeof(from));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	/* the stored numbers, asked for by the output's type */
	ck_assert_ok(array_infer(&rig, NULL, &in, &out_raw));
	for (int i = 0; i < 12; i++) {
		float scale = is_per_channel ? scales[i % 3] : 0.5f;
		double exact = (double)numbers[i] / (double)scale;
		int32_t stored =
			(int32_t)__builtin_rint(exact < -500  ? -500
						: exact > 500 ? 500
							      : exact) -
			7;

		stored = stored < -128 ? -128 : stored > 127 ? 127 : stored;
		ck_assert_int_eq(raw[i], stored);
		ck_assert(to[i] == (float)(stored + 7) * scale);
	}
	/* and back: stored numbers in, floats out */
	memset(to, 0, sizeof(to));
	ck_assert_ok(array_infer(&rig, &to_float, &in_raw, &out));
	ck_assert(to[0] ==
		  (float)(raw[0] + 7) * (is_per_channel ? scales[0] : 0.5f));
	array_rig_close(&rig);
}
END_TEST

/* Q311 Q320: TO_FLOAT asks for float outputs, and nothing is cast. */
START_TEST(output_types_that_the_model_does_not_give_are_refused)
{
	int8_t raw[12] = { 0 };
	uint8_t bytes[12];
	const struct qbrt_array in = ARRAY(raw, INT8, 4, 3);
	const struct qbrt_array out_raw = ARRAY(bytes, INT8, 4, 3);
	const struct qbrt_array out_bytes = ARRAY(bytes, UINT8, 4, 3);
	const struct qbrt_infer_options to_float = {
		.size = sizeof(to_float),
		.flags = QBRT_INFER_TO_FLOAT | QBRT_INFER_HWC,
	};
	struct array_rig rig;

	memset(bytes, 0xee, sizeof(bytes));
	array_rig_open(&rig, load_quantised(QBNPU_DTYPE_I8, false, 0));
	ck_assert_status(array_infer(&rig, &to_float, &in, &out_raw),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("output 0 (y): Int8 given, supported is Float32");
	ck_assert_status(array_infer(&rig, NULL, &in, &out_bytes),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("supported is Float32, Int8");
	ck_assert(holds_value(bytes, sizeof(bytes), 0xee));
	ck_assert_uint_eq(get_array_counters(rig.model).submitted, 0);
	array_rig_close(&rig);
}
END_TEST

/* Q314: memory that cannot be written. */
START_TEST(inputs_are_only_read)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *from = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct array_rig rig;

	ck_assert(from != MAP_FAILED);
	fill_bytes(from, 64, 2);
	ck_assert(!mprotect(from, (size_t)page, PROT_READ));
	array_rig_open(&rig, models_load_copy64());
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert(holds_bytes(to, 64, 2));
	/* and not looked at after the call */
	ck_assert(!munmap(from, (size_t)page));
	array_rig_close(&rig);
}
END_TEST

/* Q787: per call one request, no allocation, each byte once per side. */
START_TEST(a_call_in_the_steady_state_allocates_nothing)
{
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct qbrt_model_counters counters;
	struct array_rig rig;
	long num_allocations;

	array_rig_open(&rig, models_load_copy64());
	fill_bytes(from, 64, 1);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	kmd_watch_begin(rig.acc);
	count_alloc_begin(0);
	for (int i = 1; i < NUM_CALLS; i++)
		if (array_infer(&rig, NULL, &in, &out))
			break;
	num_allocations = count_alloc_end();
	ck_assert_int_eq(num_allocations, 0);
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), NUM_CALLS - 1);
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT),
			  NUM_CALLS - 1);
	counters = get_array_counters(rig.model);
	ck_assert_uint_eq(counters.completed, NUM_CALLS);
	ck_assert_uint_eq(counters.input_nbytes, NUM_CALLS * 64);
	ck_assert_uint_eq(counters.output_nbytes, NUM_CALLS * 64);
	ck_assert_uint_eq(counters.copied_nbytes, NUM_CALLS * 128);
	/* one set: an input and an output */
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 2);
	array_rig_close(&rig);
}
END_TEST

/* Q787: a conversion counts what it writes. */
START_TEST(converted_bytes_are_counted_as_written)
{
	float from[12] = { 0 };
	float to[12];
	const struct qbrt_array in = ARRAY(from, FLOAT32, 4, 3);
	const struct qbrt_array out = ARRAY(to, FLOAT32, 4, 3);
	struct qbrt_model_counters counters;
	struct array_rig rig;

	array_rig_open(&rig, load_quantised(QBNPU_DTYPE_I8, false, 0));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	counters = get_array_counters(rig.model);
	ck_assert_uint_eq(counters.input_nbytes, 12);
	ck_assert_uint_eq(counters.output_nbytes, 12);
	ck_assert_uint_eq(counters.copied_nbytes, 12 + 48);
	array_rig_close(&rig);
}
END_TEST

/* FM30: data of the actual size is a prefix of the buffer. */
START_TEST(a_variable_axis_is_packed)
{
	static const int64_t shape[] = { 8, 6 };
	static const int64_t strides[] = { 10, 1 };
	uint8_t from[8][10];
	uint8_t to[8][6];
	const struct qbrt_array in = {
		from, shape, strides, 2, QBRT_DTYPE_UINT8, 0
	};
	const struct qbrt_array out = ARRAY(to, UINT8, 8, 6);
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct array_rig rig;
	uint16_t tensors[2];
	uint8_t rows;

	prog_begin(&prog);
	rows = prog_param(&prog, QBNPU_PARAM_OTHER, 4, 32, 4);
	tensors[0] = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(32, 6));
	tensors[1] = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(32, 6));
	for (size_t i = 0; i < 2; i++)
		prog_get_tensor(&prog, tensors[i])->extent_params[0] = rows;
	prog_copy(&prog, tensors[0], tensors[1]);
	rig.model = models_load(&spec);
	fill_bytes(from, sizeof(from), 4);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig.acc));
	kmd_watch_begin(rig.acc);
	atomic_store(&kmd_watch.answers_programs, true);
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_uint_eq(kmd_watch.params[0], 8);
	for (int i = 0; i < 8; i++)
		ck_assert_mem_eq(get_staged(&rig) + 6 * i, from[i], 6);
	ck_assert_uint_eq(get_array_counters(rig.model).input_nbytes, 48);
	ck_assert_uint_eq(get_array_counters(rig.model).output_nbytes, 48);
	/* Q350: at the largest */
	ck_assert_ok(qbrt_model_infer_speedrun(rig.model, 0));
	ck_assert_uint_eq(kmd_watch.params[0], 32);
	array_rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q350 */
START_TEST(a_speedrun_runs_and_copies_nothing)
{
	struct qbrt_model_counters counters;
	struct array_rig rig;

	array_rig_open(&rig, models_load_copy64());
	ck_assert_ok(qbrt_model_infer_speedrun(rig.model, 0));
	counters = get_array_counters(rig.model);
	ck_assert_uint_eq(counters.completed, 1);
	ck_assert_uint_eq(counters.input_nbytes, 64);
	ck_assert_uint_eq(counters.copied_nbytes, 0);
	ck_assert_status(qbrt_model_infer_speedrun(rig.model, 1),
			 QBRT_MODEL_INVALID_VARIANT_IDX);
	ck_assert_detail("variant 1 asked for, the number of them is 1");
	ck_assert_status(qbrt_model_infer_speedrun(NULL, 0),
			 QBRT_INVALID_ARGUMENT);
	array_rig_close(&rig);
}
END_TEST

/* A model of weights alone has one inference without inputs. */
START_TEST(a_model_without_inputs_runs)
{
	uint8_t weights[64];
	uint8_t to[64];
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.weights = weights,
		.weights_size = sizeof(weights),
	};
	struct array_rig rig;

	fill_bytes(weights, 64, 5);
	prog_begin(&prog);
	prog_copy(&prog, prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(64)),
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	array_rig_open(&rig, models_load(&spec));
	ck_assert_ok(qbrt_model_infer(rig.model, NULL, NULL, 0, &out, 1));
	ck_assert(holds_bytes(to, 64, 5));
	array_rig_close(&rig);
	prog_end(&prog);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(arrays_go_in_and_come_out),
		QBRT_TEST(images_reach_the_device_in_its_order),
		QBRT_TEST(arrays_of_any_strides_are_taken),
		QBRT_LOOP_TEST(floats_are_quantised_and_come_back, 2),
		QBRT_TEST(
			output_types_that_the_model_does_not_give_are_refused),
		QBRT_TEST(inputs_are_only_read),
		QBRT_TEST(a_call_in_the_steady_state_allocates_nothing),
		QBRT_TEST(converted_bytes_are_counted_as_written),
		QBRT_TEST(a_variable_axis_is_packed),
		QBRT_TEST(a_speedrun_runs_and_copies_nothing),
		QBRT_TEST(a_model_without_inputs_runs),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_array_batch_tests(&all);
	add_array_fail_tests(&all);
	add_array_place_tests(&all);
	add_array_refuse_tests(&all);
	add_array_submit_tests(&all);
	add_array_thread_tests(&all);
	return qbrt_test_run("infer-array", all.tests, all.num);
}
