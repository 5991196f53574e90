// SPDX-License-Identifier: MIT
/* What a model tells about itself, before and after a launch. */
#include "check-model.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "models.h"
#include "util.h"

static struct qbrt_model *load_golden(void)
{
	struct qbrt_model *model = NULL;

	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, NULL, &model));
	return model;
}

/* Q733 */
START_TEST(getters_of_null_answer_nothing)
{
	struct qbrt_model_counters counters;
	struct qbrt_core_id core = { QBRT_CLUSTER_0, QBRT_CORE_0 };

	memset(&counters, 0xff, sizeof(counters));
	counters.size = sizeof(counters);
	ck_assert_ptr_null(qbrt_model_get_path(NULL));
	ck_assert_ptr_null(qbrt_model_get_summary(NULL));
	ck_assert_uint_eq(qbrt_model_get_identifier(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_memory_estimate(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_num_variants(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_num_inputs(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_num_outputs(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_num_cache_layers(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_core_modes(NULL), 0);
	ck_assert_int_eq(qbrt_model_get_core_mode(NULL), 0);
	ck_assert_uint_eq(qbrt_model_get_activation_slots(NULL), 0);
	ck_assert(!qbrt_model_is_target(NULL, core));
	qbrt_model_get_counters(NULL, &counters);
	ck_assert_uint_eq(counters.size, sizeof(counters));
	ck_assert_uint_eq(counters.submitted, 0);
	ck_assert_int_eq(counters.device_time, 0);
	qbrt_model_get_counters(NULL, NULL);
}
END_TEST

/* MM01 MM08 Q272 Q281 Q282 Q288 */
START_TEST(the_golden_model_tells_what_is_in_it)
{
	struct qbrt_model *model = load_golden();
	struct qbrt_model *next = load_golden();

	ck_assert_str_eq(qbrt_model_get_path(model), GOLDEN_MODEL);
	ck_assert_uint_eq(qbrt_model_get_identifier(next),
			  qbrt_model_get_identifier(model) + 1);
	ck_assert_uint_eq(qbrt_model_get_num_variants(model), 1);
	ck_assert_uint_eq(qbrt_model_get_num_inputs(model), 1);
	ck_assert_uint_eq(qbrt_model_get_num_outputs(model), 1);
	ck_assert_uint_eq(qbrt_model_get_num_cache_layers(model), 0);
	ck_assert_uint_eq(qbrt_model_get_core_modes(model),
			  1u << QBRT_CORE_MODE_SINGLE);
	ck_assert_int_eq(qbrt_model_get_core_mode(model),
			 QBRT_CORE_MODE_SINGLE);
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 0);
	qbrt_model_free(next);
	qbrt_model_free(model);
}
END_TEST

/* Every question that a model has an answer to. */
static void ask_all(const struct qbrt_model *model)
{
	uint32_t num = (uint32_t)qbrt_model_get_num_variants(model);
	struct qbrt_model_counters counters = { .size = sizeof(counters) };

	ck_assert_uint_gt(num, 0);
	ck_assert_str_eq(qbrt_model_get_path(model), "");
	ck_assert_uint_ne(qbrt_model_get_core_modes(model), 0);
	ck_assert_uint_gt(qbrt_model_get_memory_estimate(model), 0);
	qbrt_model_get_counters(model, &counters);
	for (uint32_t variant = 0; variant < num; variant++) {
		struct qbrt_io_info info = { .size = sizeof(info) };

		for (size_t i = 0; i < qbrt_model_get_num_inputs(model); i++)
			ck_assert_ok(qbrt_model_query_input(model, variant, i,
							    &info));
		for (size_t i = 0; i < qbrt_model_get_num_outputs(model); i++)
			ck_assert_ok(qbrt_model_query_output(model, variant, i,
							     &info));
	}
}

/* Q292 */
START_TEST(a_model_answers_in_every_state)
{
	struct qbrt_accelerator *acc = open_device(NULL, -1);
	struct qbrt_model *model = load_two_variants();

	ask_all(model);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ask_all(model);
	ck_assert_ok(qbrt_model_dispose(model));
	ask_all(model);
	qbrt_accelerator_close(acc);
	ask_all(model);
	qbrt_model_free(model);
}
END_TEST

/* MM02 MM03 MM04 Q724 */
START_TEST(inputs_and_outputs_are_described)
{
	struct qbrt_model *model = load_golden();
	struct qbrt_io_info info = { .size = sizeof(info) };

	ck_assert_ok(qbrt_model_query_input(model, 0, 0, &info));
	ck_assert_str_eq(info.name, "x");
	ck_assert_int_eq(info.dtype, QBRT_DTYPE_UINT8);
	ck_assert_int_eq(info.pinned_dtype, QBRT_DTYPE_UINT8);
	ck_assert_uint_eq(info.ndim, 1);
	ck_assert_int_eq(info.shape[0], 64);
	ck_assert_int_eq(info.shape[1], 0);
	ck_assert_int_eq(info.max_shape[0], 64);
	ck_assert_uint_eq(info.max_nbytes, 64);
	ck_assert_ok(qbrt_model_query_output(model, 0, 0, &info));
	ck_assert_str_eq(info.name, "y");
	qbrt_model_free(model);
}
END_TEST

/* Q735 */
START_TEST(answers_are_as_long_as_the_caller_says)
{
	struct {
		struct qbrt_io_info info;
		uint64_t newer;
	} longer;
	struct qbrt_io_info shorter;
	struct qbrt_model *model = load_golden();

	ck_assert_uint_eq(sizeof(struct qbrt_io_info), 168);
	ck_assert_uint_eq(sizeof(struct qbrt_model_counters), 80);
	ck_assert_uint_eq(sizeof(struct qbrt_infer_options), 56);
	memset(&longer, 0xff, sizeof(longer));
	longer.info.size = sizeof(longer);
	ck_assert_ok(qbrt_model_query_input(model, 0, 0, &longer.info));
	ck_assert_uint_eq(longer.info.size, sizeof(longer));
	ck_assert_uint_eq(longer.newer, 0);
	memset(&shorter, 0xff, sizeof(shorter));
	shorter.size = offsetof(struct qbrt_io_info, ndim);
	ck_assert_ok(qbrt_model_query_input(model, 0, 0, &shorter));
	ck_assert_str_eq(shorter.name, "x");
	ck_assert_uint_eq(shorter.ndim, SIZE_MAX);
	qbrt_model_free(model);
}
END_TEST

/* Q275 Q733 */
START_TEST(queries_refuse_what_is_not_there)
{
	struct qbrt_model *model = load_golden();
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_io_info before = info;
	size_t num = 9;

	ck_assert_status(qbrt_model_query_input(model, 1, 0, &info),
			 QBRT_MODEL_INVALID_VARIANT_IDX);
	ck_assert_detail("variant 1");
	ck_assert_status(qbrt_model_query_output(model, 0, 1, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("output 1");
	ck_assert_status(qbrt_model_query_input(NULL, 0, 0, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_input(model, 0, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_mem_eq(&info, &before, sizeof(info));
	info.size = 0;
	ck_assert_status(qbrt_model_query_input(model, 0, 0, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("size");
	ck_assert_status(qbrt_model_query_target_cores(NULL, NULL, 0, &num),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_target_cores(model, NULL, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_query_target_cores(model, NULL, 1, &num),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_uint_eq(num, 9);
	qbrt_model_free(model);
}
END_TEST

/* MM02 FM30 Q276 Q277 */
START_TEST(a_variable_axis_has_a_largest_extent)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_model *model;
	uint16_t in;
	uint16_t out;
	uint8_t rows;

	prog_begin(&prog);
	rows = prog_param(&prog, QBNPU_PARAM_OTHER, 4, 32, 4);
	in = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(32, 8));
	out = prog_output(&prog, QBNPU_DTYPE_F32, DIMS(32, 8));
	prog_get_tensor(&prog, in)->extent_params[0] = rows;
	prog_get_tensor(&prog, out)->extent_params[0] = rows;
	prog_copy(&prog, in, out);
	model = models_load(&spec);
	ck_assert_ok(qbrt_model_query_input(model, 0, 0, &info));
	ck_assert_uint_eq(info.ndim, 2);
	ck_assert_int_eq(info.shape[0], -4);
	ck_assert_int_eq(info.shape[1], 8);
	ck_assert_int_eq(info.max_shape[0], 32);
	ck_assert_int_eq(info.max_shape[1], 8);
	ck_assert_uint_eq(info.max_nbytes, 32 * 8 * 4);
	ck_assert_ok(qbrt_model_query_output(model, 0, 0, &info));
	ck_assert_int_eq(info.shape[0], -4);
	ck_assert_int_eq(info.shape[1], 8);
	qbrt_model_free(model);
	prog_end(&prog);
}
END_TEST

/* Q273 Q271 Q289 MM11 */
START_TEST(cores_and_slots_are_known_while_launched)
{
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *model = load_golden();
	struct qbrt_core_id cores[12];
	struct qbrt_core_id first = { QBRT_CLUSTER_0, QBRT_CORE_0 };
	struct qbrt_core_id global = { QBRT_CLUSTER_0, QBRT_CORE_GLOBAL };
	size_t num = 9;

	ck_assert_ok(qbrt_model_query_target_cores(model, NULL, 0, &num));
	ck_assert_uint_eq(num, 0);
	ck_assert(!qbrt_model_is_target(model, first));
	ck_assert_ok(qbrt_model_launch(model, acc));
	memset(cores, 0, sizeof(cores));
	ck_assert_ok(qbrt_model_query_target_cores(model, cores, 7, &num));
	ck_assert_uint_eq(num, 8);
	ck_assert_int_eq(cores[7].cluster, 0);
	ck_assert_ok(qbrt_model_query_target_cores(model, cores, 12, &num));
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(cores[i].cluster,
				 i < 4 ? QBRT_CLUSTER_0 : QBRT_CLUSTER_1);
		ck_assert_int_eq(cores[i].core, QBRT_CORE_0 + i % 4);
	}
	ck_assert(qbrt_model_is_target(model, first));
	ck_assert(!qbrt_model_is_target(model, global));
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 16);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 0);
	ck_assert(!qbrt_model_is_target(model, first));
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* MM11 */
START_TEST(a_variant_bounds_the_slots)
{
	struct qbrt_accelerator *acc = open_device("aries", -1);
	struct qbrt_model *model = models_load_slow(0, 3);

	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 3);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* MM13: by hand, and equal to what the device's memory loses. */
START_TEST(the_memory_estimate_is_exact)
{
	static const uint8_t weights[5000];
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.weights = weights,
		.weights_size = sizeof(weights),
	};
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	uint16_t scratch;
	uint64_t nbytes;
	uint64_t free;

	if (qbrt_test_has_huge_pages())
		QBRT_TEST_SKIP("2 MiB pages are reserved: sizes are rounded");
	acc = open_device("aries", -1);
	free = get_memory_free(acc);
	prog_begin(&prog);
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(4097));
	prog_copy(&prog, prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(4097)),
		  scratch);
	prog_copy(&prog, scratch,
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(4097)));
	model = models_load(&spec);
	nbytes = 8192 + qbrt_round_up(prog.nbytes, 4096) + 8 * 8192;
	ck_assert_uint_eq(qbrt_model_get_memory_estimate(model), nbytes);
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_uint_eq(qbrt_model_get_memory_estimate(model), nbytes);
	ck_assert_uint_eq(free - get_memory_free(acc), nbytes);
	ck_assert_ok(qbrt_model_dispose(model));
	ck_assert_uint_eq(get_memory_free(acc), free);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* MM13: on another device, other cores. */
START_TEST(the_memory_estimate_follows_the_device)
{
	struct qbrt_accelerator *acc = open_device("regulus", -1);
	struct qbrt_model *model = models_load_copy(64, 100);
	uint64_t free = get_memory_free(acc);
	uint64_t estimate;

	ck_assert_uint_eq(qbrt_model_get_memory_estimate(model),
			  4096 + 8 * 4096);
	ck_assert_ok(qbrt_model_launch(model, acc));
	estimate = qbrt_model_get_memory_estimate(model);
	ck_assert_uint_eq(estimate, 4096 + 4096);
	ck_assert_uint_eq(free - get_memory_free(acc), estimate);
	ck_assert_uint_eq(qbrt_model_get_activation_slots(model), 2);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
}
END_TEST

/* A number of kB from /proc/self/status, in bytes. */
static size_t read_memory(const char *key)
{
	FILE *file = fopen("/proc/self/status", "re");
	size_t length = strlen(key);
	size_t nbytes = 0;
	char line[256];

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length))
			nbytes = strtoul(line + length, NULL, 10) * 1024;
	(void)fclose(file);
	return nbytes;
}

/* The highest resident size is the present one from here on. */
static bool forget_highest(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "we");

	if (!file)
		return false;
	(void)fputs("5", file);
	return fclose(file) == 0;
}

/* LD10: of a model that is nearly all weights. */
START_TEST(loading_takes_at_most_2_1_times_the_weights)
{
	const size_t weights_size = 15u << 20;
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.weights_size = weights_size,
	};
	struct qbrt_model *model;
	size_t before, nbytes;
	uint8_t *weights;
	void *bytes;
	int fd;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("sanitizers take memory of their own");
	if (!forget_highest())
		QBRT_TEST_SKIP("the kernel does not forget the highest size");
	weights = malloc(weights_size);
	ck_assert_ptr_nonnull(weights);
	memset(weights, 0x5a, weights_size);
	spec.weights = weights;
	prog_begin(&prog);
	prog_copy(&prog, prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(4096)),
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(4096)));
	bytes = models_build(&spec, &nbytes);
	fd = models_write(bytes, nbytes);
	free(bytes);
	free(weights);
	ck_assert(forget_highest());
	before = read_memory("VmRSS:");
	ck_assert_ok(qbrt_model_load_fd(fd, NULL, &model));
	ck_assert_uint_lt(before, read_memory("VmHWM:"));
	ck_assert_uint_le((read_memory("VmHWM:") - before) * 10,
			  weights_size * 21);
	qbrt_model_free(model);
	prog_end(&prog);
	(void)close(fd);
}
END_TEST

void add_model_info_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(getters_of_null_answer_nothing),
		QBRT_TEST(the_golden_model_tells_what_is_in_it),
		QBRT_TEST(a_model_answers_in_every_state),
		QBRT_TEST(inputs_and_outputs_are_described),
		QBRT_TEST(answers_are_as_long_as_the_caller_says),
		QBRT_TEST(queries_refuse_what_is_not_there),
		QBRT_TEST(a_variable_axis_has_a_largest_extent),
		QBRT_TEST(cores_and_slots_are_known_while_launched),
		QBRT_TEST(a_variant_bounds_the_slots),
		QBRT_TEST(the_memory_estimate_is_exact),
		QBRT_TEST(the_memory_estimate_follows_the_device),
		QBRT_TEST(loading_takes_at_most_2_1_times_the_weights),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
