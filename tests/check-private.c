// SPDX-License-Identifier: MIT
/*
 * The hooks of the map node QBRUNTIME_PRIVATE, through the shared library and
 * its exported symbols alone: no other object of the tree is linked, so no
 * Check and no private function either. TAP.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <qbruntime/qbrt.h>

#include "device/fault.h"
#include "soft/soft.h"

#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"

static int num_tests, num_failed;

static void expect(int is_true, const char *claim)
{
	num_tests++;
	num_failed += !is_true;
	(void)printf("%s %d - %s\n", is_true ? "ok" : "not ok", num_tests,
		     claim);
	if (!is_true)
		(void)printf("# %s\n", qbrt_error_detail());
}

struct rig {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in, *out;
};

static enum qbrt_status rig_open(struct rig *rig)
{
	enum qbrt_status status = qbrt_accelerator_open(NULL, -1, &rig->acc);

	if (!status)
		status = qbrt_model_load(GOLDEN_MODEL, NULL, &rig->model);
	if (!status)
		status = qbrt_model_launch(rig->model, rig->acc);
	if (!status)
		status = qbrt_model_alloc_input(rig->model, 0, &rig->in);
	if (!status)
		status = qbrt_model_alloc_output(rig->model, 0, &rig->out);
	return status;
}

static void rig_close(struct rig *rig)
{
	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	qbrt_accelerator_close(rig->acc);
}

static enum qbrt_status infer(struct rig *rig)
{
	return qbrt_model_infer_pinned_memory(rig->model, NULL, &rig->in, 1,
					      &rig->out, 1);
}

/* FI01 */
static void test_device_faults(struct rig *rig)
{
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	uint32_t id = 0, untouched = 77;

	expect(npu != NULL && !qbnpu_soft_npu(1),
	       "an open device is found by its number");
	expect(!qbnpu_fault_add(npu, "error:count=2", &id) && id,
	       "a plan is added");
	expect(infer(rig) == QBRT_MODEL_PREDICT_ERROR &&
		       strstr(qbrt_error_detail(), "injected"),
	       "an inference fails by it");
	expect(qbnpu_fault_fired(npu, id) == 1, "it has fired once");
	expect(!qbnpu_fault_remove(npu, id) &&
		       qbnpu_fault_remove(npu, id) == -ENOENT,
	       "it is removed once");
	expect(infer(rig) == QBRT_OK, "the next inference succeeds");
	expect(qbnpu_fault_add(npu, "error:", &untouched) == -EINVAL &&
		       untouched == 77,
	       "what is no plan is refused");
}

/* K316 */
static void test_request_faults(struct rig *rig)
{
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, ENODEV);
	expect(infer(rig) == QBRT_ACC_DEVICE_LOST, "a request fails");
	expect(infer(rig) == QBRT_OK, "the next one succeeds");
}

int main(void)
{
	struct rig rig = { 0 };

	if (rig_open(&rig)) {
		expect(0, "the golden model runs");
	} else {
		test_device_faults(&rig);
		test_request_faults(&rig);
	}
	rig_close(&rig);
	expect(!qbnpu_soft_npu(0), "a closed device is not found");
	(void)printf("1..%d\n", num_tests);
	return num_failed != 0;
}
