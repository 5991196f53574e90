// SPDX-License-Identifier: MIT
/*
 * Faults as the library's callers see them: status and sentence of a failed
 * inference, outputs that cannot be used, and a device that is as before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check-soft-fault.h"
#include "models.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_ROUNDS 100
#define NUM_IMAGES 16
#define IMAGE_NBYTES 64
#define EXAMPLES TEST_TOP_SRCDIR "/examples/"

struct rig {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in, *out;
};

static void rig_open(struct rig *rig, struct qbrt_model *model)
{
	rig->model = model;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig->acc));
	ck_assert_ok(qbrt_model_launch(model, rig->acc));
	ck_assert_ok(qbrt_model_alloc_input(model, 0, &rig->in));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &rig->out));
}

static void rig_close(struct rig *rig)
{
	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	qbrt_accelerator_close(rig->acc);
}

static enum qbrt_status infer(struct rig *rig, int64_t timeout)
{
	const struct qbrt_infer_options options = {
		.size = sizeof(options),
		.timeout = timeout,
	};

	return qbrt_model_infer_pinned_memory(rig->model, &options, &rig->in, 1,
					      &rig->out, 1);
}

/* Fails one inference; a time limit may pass before the job has begun. */
static enum qbrt_status strike(struct rig *rig, const char *plan)
{
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	int64_t timeout = QBRT_NS_PER_MS;
	enum qbrt_status status;
	bool has_fired = false;
	uint32_t id;

	for (; !has_fired; timeout *= 2) {
		ck_assert_int_eq(qbnpu_fault_add(npu, plan, &id), 0);
		status = infer(rig, timeout);
		has_fired = qbnpu_fault_fired(npu, id);
		ck_assert_int_eq(qbnpu_fault_remove(npu, id), 0);
	}
	return status;
}

/* The images, and the answer that the model is known to give to each. */
struct digits {
	uint8_t images[NUM_IMAGES][IMAGE_NBYTES];
	int answers[NUM_IMAGES];
};

static void read_digits(struct digits *digits)
{
	FILE *pixels = fopen(EXAMPLES "digits-16.u8", "r");
	FILE *text = fopen(EXAMPLES "digits-16.txt", "r");
	char line[256];
	int num = 0;

	ck_assert(pixels && text);
	ck_assert_uint_eq(
		fread(digits->images, IMAGE_NBYTES, NUM_IMAGES, pixels),
		NUM_IMAGES);
	while (num < NUM_IMAGES && fgets(line, sizeof(line), text))
		num += sscanf(line, "%*d %*d %d", &digits->answers[num]) == 1;
	ck_assert_int_eq(num, NUM_IMAGES);
	(void)fclose(pixels);
	(void)fclose(text);
}

static void recognise_all(struct rig *rig, const struct digits *digits)
{
	const float *scores = qbrt_pinned_memory_get_data(rig->out);

	for (int i = 0; i < NUM_IMAGES; i++) {
		int largest = 0;

		memcpy(qbrt_pinned_memory_get_data(rig->in), digits->images[i],
		       IMAGE_NBYTES);
		ck_assert_ok(infer(rig, 0));
		for (int j = 1; j < 10; j++) {
			if (scores[j] > scores[largest])
				largest = j;
		}
		ck_assert_int_eq(largest, digits->answers[i]);
	}
}

static const struct {
	const char *plan;
	enum qbrt_status status;
} endings[] = {
	{ "hang:cmd=1", QBRT_ACC_NPU_TIMEOUT },
	{ "error:cmd=2", QBRT_MODEL_PREDICT_ERROR },
	{ "slow:ns=1000000000000", QBRT_ACC_NPU_TIMEOUT },
	{ "late:ns=1000000000000", QBRT_ACC_NPU_TIMEOUT },
};

/* FI04: by round; after the end the answers are those of every day */
START_TEST(the_digits_are_recognised_after_a_fault)
{
	struct digits digits;
	struct qbrt_model *model;
	struct rig rig;

	read_digits(&digits);
	ck_assert_ok(qbrt_model_load(EXAMPLES "digits.qbm", NULL, &model));
	rig_open(&rig, model);
	ck_assert_status(strike(&rig, endings[_i].plan), endings[_i].status);
	for (int round = 0; round < NUM_ROUNDS; round++)
		recognise_all(&rig, &digits);
	rig_close(&rig);
}
END_TEST

/* FI03 Q485 Q616 U38: command and node are named, the output is invalid until
 * a job succeeds; by round */
START_TEST(a_fault_invalidates_the_outputs)
{
	struct rig rig;

	rig_open(&rig, models_load_slow(0, 0));
	ck_assert_status(strike(&rig, _i ? "hang" : "error"),
			 _i ? QBRT_ACC_NPU_TIMEOUT : QBRT_MODEL_PREDICT_ERROR);
	ck_assert_detail("command 0");
	ck_assert_detail("slow_node");
	ck_assert_detail(_i ? "npu_watchdog: timeout after" : "injected");
	ck_assert_status(qbrt_model_infer_pinned_memory(
				 rig.model, NULL, &rig.out, 1, &rig.in, 1),
			 QBRT_TENSOR_INVALID);
	ck_assert_ok(infer(&rig, 0));
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.out,
						    1, &rig.in, 1));
	rig_close(&rig);
}
END_TEST

/* Q771: the second job of the device, from the environment */
START_TEST(a_variable_gives_the_plan)
{
	struct rig rig;

	ck_assert_int_eq(setenv("QBRUNTIME_SOFT_FAULT", "error:job=2", 1), 0);
	rig_open(&rig, models_load_copy64());
	ck_assert_ok(infer(&rig, 0));
	ck_assert_status(infer(&rig, 0), QBRT_MODEL_PREDICT_ERROR);
	ck_assert_ok(infer(&rig, 0));
	rig_close(&rig);
	ck_assert_int_eq(unsetenv("QBRUNTIME_SOFT_FAULT"), 0);
}
END_TEST

void fault_infer_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(the_digits_are_recognised_after_a_fault,
			       qbrt_array_size(endings)),
		QBRT_LOOP_TEST(a_fault_invalidates_the_outputs, 2),
		QBRT_TEST(a_variable_gives_the_plan),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
