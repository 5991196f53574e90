// SPDX-License-Identifier: MIT
/*
 * Inference on pinned memory: the golden model end to end, what a call costs,
 * options, counters, and the digits.
 */
#include "check-infer.h"

#include <stdio.h>
#include <stdlib.h>

#include "count-alloc.h"
#include "kmd-watch.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_CALLS 1000
#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"

/* Q480 Q482 Q491: byte for byte, on the public surface alone. */
START_TEST(the_golden_copy64_copies_64_bytes)
{
	struct qbrt_model *model = NULL;
	struct rig rig;

	ck_assert_ok(qbrt_model_load(GOLDEN_MODEL, NULL, &model));
	rig_open(&rig, NULL, model);
	for (unsigned int seed = 0; seed < 100; seed++) {
		fill(rig.in, seed);
		ck_assert_ok(rig_infer(&rig, NULL));
		ck_assert(holds(rig.out, seed));
		ck_assert(holds(rig.in, seed));
	}
	rig_close(&rig);
}
END_TEST

/* Q483 P30: one request, no allocation, nothing copied, per call. */
START_TEST(a_call_is_one_request_and_allocates_nothing)
{
	struct rig rig;
	long num_allocations;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 1);
	for (int i = 0; i < 10; i++)
		ck_assert_ok(rig_infer(&rig, NULL));
	kmd_watch_begin(rig.acc);
	count_alloc_begin(0);
	for (int i = 0; i < NUM_CALLS; i++)
		if (rig_infer(&rig, NULL))
			break;
	num_allocations = count_alloc_end();
	ck_assert_int_eq(num_allocations, 0);
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), NUM_CALLS);
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), NUM_CALLS);
	ck_assert_uint_eq(get_counters(rig.model).copied_nbytes, 0);
	ck_assert_uint_eq(get_counters(rig.model).completed, NUM_CALLS + 10);
	ck_assert(holds(rig.out, 1));
	rig_close(&rig);
}
END_TEST

/* Q787 */
START_TEST(counters_say_what_happened)
{
	struct qbrt_model_counters counters;
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(1, 0));
	for (int i = 0; i < 3; i++)
		ck_assert_ok(rig_infer(&rig, NULL));
	counters = get_counters(rig.model);
	ck_assert_uint_eq(counters.size, sizeof(counters));
	ck_assert_uint_eq(counters.submitted, 3);
	ck_assert_uint_eq(counters.completed, 3);
	ck_assert_uint_eq(counters.failed, 0);
	ck_assert_uint_eq(counters.cancelled, 0);
	ck_assert_uint_eq(counters.input_nbytes, 3 * 64);
	ck_assert_uint_eq(counters.output_nbytes, 3 * 64);
	ck_assert_uint_eq(counters.copied_nbytes, 0);
	ck_assert_int_ge(counters.queue_time, 0);
	/* the delays of 1 ms are part of the job */
	ck_assert_int_ge(counters.device_time, 3 * QBRT_NS_PER_MS);
	rig_close(&rig);
}
END_TEST

/* Q731 */
START_TEST(options_are_optional_and_may_be_short)
{
	struct qbrt_infer_options options = { .size = sizeof(options.size) };
	struct {
		struct qbrt_infer_options options;
		uint64_t newer;
	} longer = { .options.size = sizeof(longer) };
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	/* what lies behind the size does not count */
	options.flags = 0xffffffff;
	ck_assert_ok(rig_infer(&rig, &options));
	ck_assert_ok(rig_infer(&rig, &longer.options));
	longer.newer = 1;
	ck_assert_status(rig_infer(&rig, &longer.options),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("byte 56");
	options = (struct qbrt_infer_options){ .size = sizeof(options),
					       .timeout = -1 };
	ck_assert_ok(rig_infer(&rig, &options));
	options.timeout = INT64_MAX;
	ck_assert_ok(rig_infer(&rig, &options));
	options.flags = QBRT_INFER_BLOCKING;
	ck_assert_ok(rig_infer(&rig, &options));
	rig_close(&rig);
}
END_TEST

/* Q480 Q482: several tensors, in the file's order. */
START_TEST(inputs_and_outputs_keep_their_order)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	struct qbrt_pinned_memory *inputs[3];
	struct qbrt_pinned_memory *outputs[3];
	uint16_t in[3];
	struct rig rig;

	prog_begin(&prog);
	for (int i = 0; i < 3; i++)
		in[i] = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(100));
	for (int i = 0; i < 3; i++)
		prog_copy(&prog, in[2 - i],
			  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(100)));
	rig_open(&rig, NULL, models_load(&spec));
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_ok(qbrt_model_alloc_input(rig.model, i, &inputs[i]));
		ck_assert_ok(
			qbrt_model_alloc_output(rig.model, i, &outputs[i]));
		fill(inputs[i], i);
	}
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, inputs, 3,
						    outputs, 3));
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert(holds(outputs[i], 2 - i));
		qbrt_pinned_memory_free(inputs[i]);
		qbrt_pinned_memory_free(outputs[i]);
	}
	rig_close(&rig);
	prog_end(&prog);
}
END_TEST

/* Q261: weights reach the device, and are read in each call. */
START_TEST(weights_reach_the_device)
{
	uint8_t weights[256];
	struct prog prog;
	struct models_spec spec = {
		.programs = { &prog },
		.num_programs = 1,
		.weights = weights,
		.weights_size = sizeof(weights),
	};
	struct qbrt_pinned_memory *out = NULL;
	struct qbrt_accelerator *acc = NULL;
	struct qbrt_model *model;

	for (size_t i = 0; i < sizeof(weights); i++)
		weights[i] = (uint8_t)(i * 7 + 1);
	prog_begin(&prog);
	prog_copy(&prog, prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(256)),
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(256)));
	model = models_load(&spec);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_model_launch(model, acc));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &out));
	ck_assert_ok(
		qbrt_model_infer_pinned_memory(model, NULL, NULL, 0, &out, 1));
	ck_assert(holds(out, 0));
	qbrt_pinned_memory_free(out);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	prog_end(&prog);
}
END_TEST

/* Q150: models at rest hold no queue. */
START_TEST(more_models_than_queues_are_launched_and_run)
{
	struct qbrt_model *models[300];
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	for (int i = 0; i < 300; i++) {
		models[i] = models_load_copy64();
		ck_assert_ok(qbrt_model_launch(models[i], rig.acc));
	}
	kmd_watch_begin(rig.acc);
	for (unsigned int i = 0; i < 300; i++) {
		fill(rig.in, i);
		ck_assert_ok(qbrt_model_infer_pinned_memory(
			models[i], NULL, &rig.in, 1, &rig.out, 1));
		ck_assert(holds(rig.out, i));
	}
	ck_assert_uint_le(kmd_watch_count(DRM_IOCTL_QBNPU_QUEUE_CREATE), 1);
	for (int i = 0; i < 300; i++)
		qbrt_model_free(models[i]);
	rig_close(&rig);
}
END_TEST

/* MO05 CT06 */
START_TEST(the_digits_are_recognised)
{
	FILE *pixels = fopen(TEST_TOP_SRCDIR "/examples/digits-16.u8", "r");
	FILE *text = fopen(TEST_TOP_SRCDIR "/examples/digits-16.txt", "r");
	struct qbrt_model *model = NULL;
	int num_right = 0;
	int num = 0;
	char line[256];
	struct rig rig;

	ck_assert(pixels && text);
	ck_assert_ok(qbrt_model_load(TEST_TOP_SRCDIR "/examples/digits.qbm",
				     NULL, &model));
	rig_open(&rig, NULL, model);
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(rig.in), 64);
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(rig.out), 40);
	while (fgets(line, sizeof(line), text)) {
		const float *logits = qbrt_pinned_memory_get_data(rig.out);
		int largest = 0;
		int label;
		int answer;

		if (sscanf(line, "%*d %d %d", &label, &answer) != 2)
			continue;
		ck_assert_uint_eq(fread(qbrt_pinned_memory_get_data(rig.in), 1,
					64, pixels),
				  64);
		ck_assert_ok(rig_infer(&rig, NULL));
		for (int i = 1; i < 10; i++)
			if (logits[i] > logits[largest])
				largest = i;
		ck_assert_int_eq(largest, answer);
		num_right += largest == label;
		num++;
	}
	ck_assert_int_eq(num, 16);
	ck_assert_int_ge(num_right, 15);
	fclose(pixels);
	fclose(text);
	rig_close(&rig);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_golden_copy64_copies_64_bytes),
		QBRT_TEST(a_call_is_one_request_and_allocates_nothing),
		QBRT_TEST(counters_say_what_happened),
		QBRT_TEST(options_are_optional_and_may_be_short),
		QBRT_TEST(inputs_and_outputs_keep_their_order),
		QBRT_TEST(weights_reach_the_device),
		QBRT_TEST(more_models_than_queues_are_launched_and_run),
		QBRT_TEST(the_digits_are_recognised),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_infer_refuse_tests(&all);
	add_infer_shape_tests(&all);
	add_infer_job_tests(&all);
	add_infer_thread_tests(&all);
	add_infer_dispose_tests(&all);
	add_infer_fork_tests(&all);
	add_infer_shared_tests(&all);
	add_infer_copy_tests(&all);
	return qbrt_test_run("infer", all.tests, all.num);
}
