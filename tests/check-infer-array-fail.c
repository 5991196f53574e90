// SPDX-License-Identifier: MIT
/*
 * What the caller's outputs hold when a call fails: as before, or zeros. And
 * that the next call is right, and nothing is left over.
 */
#include "check-infer-array.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "count-alloc.h"
#include "counters.h"
#include "model.h"
#include "sim.h"
#include "soft/soft.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define NUM_ITEMS 40

/* A time limit that no delay of 1 ms and more keeps. */
static const struct qbrt_infer_options hurried = {
	.size = sizeof(hurried),
	.timeout = QBRT_NS_PER_MS,
};

/* Q331 Q340 */
START_TEST(a_job_out_of_time_leaves_the_outputs)
{
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct array_rig rig;

	fill_bytes(from, 64, 1);
	memset(to, 0xee, 64);
	array_rig_open(&rig, models_load_slow(20, 0));
	ck_assert_status(array_infer(&rig, &hurried, &in, &out),
			 QBRT_ACC_NPU_TIMEOUT);
	ck_assert(holds_value(to, 64, 0xee));
	ck_assert_uint_eq(get_array_counters(rig.model).copied_nbytes, 64);
	/* the staging is as good as new */
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert(holds_bytes(to, 64, 1));
	ck_assert_uint_eq(rig.model->launched->staging.num_sets, 1);
	array_rig_close(&rig);
}
END_TEST

/* Q340: nothing was submitted, and the staging rests again. */
START_TEST(who_gets_no_slot_in_time_changes_nothing)
{
	uint8_t from[64] = { 0 };
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	struct qbrt_slot *slot;
	struct array_rig rig;

	memset(to, 0xee, 64);
	array_rig_open(&rig, models_load_slow(0, 1));
	ck_assert_int_eq(qbrt_slots_take(&rig.model->launched->slots, 0, &slot),
			 QBRT_OK);
	ck_assert_status(array_infer(&rig, &hurried, &in, &out),
			 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert(holds_value(to, 64, 0xee));
	qbrt_slots_leave(&rig.model->launched->slots, slot);
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_uint_eq(rig.model->launched->staging.num_sets, 1);
	array_rig_close(&rig);
}
END_TEST

struct batch_call {
	const struct array_rig *rig;
	const struct qbrt_infer_options *options;
	const struct qbrt_array *in;
	const struct qbrt_array *out;
	enum qbrt_status status;
	char detail[1024];
};

static void *run_batch(void *arg)
{
	struct batch_call *call = arg;

	call->status =
		array_infer(call->rig, call->options, call->in, call->out);
	strncpy(call->detail, qbrt_error_detail(), sizeof(call->detail) - 1);
	return NULL;
}

/*
 * A batch of 40 in jobs of 16; the job number _i fails on the device. Q335: its
 * item is named. Q331: what earlier jobs gave is gone.
 */
START_TEST(a_failed_item_fails_the_batch)
{
	static const struct {
		const char *item;
		uint8_t value;
	} expected[] = {
		{ "item 0 of the batch: ", 0xee },
		{ "item 16 of the batch: ", 0 },
		{ "item 32 of the batch: ", 0 },
	};
	static uint8_t from[NUM_ITEMS][64];
	static uint8_t to[NUM_ITEMS][64];
	const struct qbrt_array in = ARRAY(from, UINT8, NUM_ITEMS, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, NUM_ITEMS, 64);
	struct batch_call call = { .in = &in, .out = &out };
	struct array_rig rig;
	struct qbnpu_job *job;
	pthread_t thread;
	struct sim sim;

	fill_bytes(from, sizeof(from), 1);
	memset(to, 0xee, sizeof(to));
	array_rig_open(&rig, models_load_copy64());
	sim_attach(&sim, qbnpu_soft_npu(0));
	call.rig = &rig;
	ck_assert(!pthread_create(&thread, NULL, run_batch, &call));
	for (int i = 0; i <= _i; i++) {
		sim_wait_submitted(&sim, (uint64_t)i + 1);
		job = sim_begin(&sim);
		ck_assert_uint_eq(job->item_count, i < 2 ? 16 : 8);
		ck_assert(sim_finish(&sim, job,
				     i == _i ? QBNPU_CAUSE_MEMORY
					     : QBNPU_CAUSE_NONE));
	}
	ck_assert(!pthread_join(thread, NULL));
	sim_detach(&sim);
	ck_assert_int_eq(call.status, QBRT_MODEL_PREDICT_ERROR);
	ck_assert_msg(strstr(call.detail, expected[_i].item) != NULL, "%s",
		      call.detail);
	ck_assert_int_eq(strstr(call.detail, "zeros now") != NULL, _i > 0);
	ck_assert(holds_value(to, sizeof(to), expected[_i].value));
	ck_assert_ok(array_infer(&rig, NULL, &in, &out));
	ck_assert_mem_eq(to, from, sizeof(to));
	array_rig_close(&rig);
}
END_TEST

/* Q331 Q340: of a batch that has begun no sentence says that nothing changed. */
START_TEST(a_later_job_that_is_too_late_says_what_is_true)
{
	static uint8_t from[NUM_ITEMS][64];
	static uint8_t to[NUM_ITEMS][64];
	const struct qbrt_array in = ARRAY(from, UINT8, NUM_ITEMS, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, NUM_ITEMS, 64);
	struct array_rig rig;

	memset(to, 0xee, sizeof(to));
	array_rig_open(&rig, models_load_copy64());
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, (unsigned int)_i + 1, ETIME);
	ck_assert_status(array_infer(&rig, NULL, &in, &out),
			 QBRT_ACC_NPU_TIMEOUT);
	ck_assert_int_eq(strstr(qbrt_error_detail(), "outputs are unchanged") !=
				 NULL,
			 !_i);
	ck_assert_int_eq(strstr(qbrt_error_detail(),
				"all its outputs are zeros now") != NULL,
			 _i);
	ck_assert(holds_value(to, sizeof(to), _i ? 0 : 0xee));
	array_rig_close(&rig);
}
END_TEST

/*
 * Q340: the caller's limit ends all jobs of a batch at one time, the default
 * one each job at its own.
 */
START_TEST(a_limit_of_the_caller_is_for_the_whole_batch)
{
	static uint8_t from[NUM_ITEMS][64];
	static uint8_t to[NUM_ITEMS][64];
	const struct qbrt_infer_options limited = {
		.size = sizeof(limited),
		.timeout = 50 * QBRT_NS_PER_SEC,
	};
	const struct qbrt_array in = ARRAY(from, UINT8, NUM_ITEMS, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, NUM_ITEMS, 64);
	struct batch_call call = { .in = &in, .out = &out };
	int64_t deadlines[3];
	struct array_rig rig;
	pthread_t thread;
	struct sim sim;

	array_rig_open(&rig, models_load_copy64());
	sim_attach(&sim, qbnpu_soft_npu(0));
	call.rig = &rig;
	call.options = _i ? &limited : NULL;
	ck_assert(!pthread_create(&thread, NULL, run_batch, &call));
	for (int i = 0; i < 3; i++) {
		struct qbnpu_job *job;

		sim_wait_submitted(&sim, (uint64_t)i + 1);
		job = sim_begin(&sim);
		deadlines[i] = job->deadline_ns;
		ck_assert(sim_finish(&sim, job, QBNPU_CAUSE_NONE));
	}
	ck_assert(!pthread_join(thread, NULL));
	sim_detach(&sim);
	ck_assert_int_eq(call.status, QBRT_OK);
	for (int i = 1; i < 3; i++)
		ck_assert_int_eq(deadlines[i] == deadlines[0], _i);
	array_rig_close(&rig);
}
END_TEST

static const struct {
	unsigned long request;
	int err;
	enum qbrt_status status;
} refusals[] = {
	{ DRM_IOCTL_QBNPU_BO_CREATE, ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_QBNPU_BO_INFO, ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_QBNPU_QUEUE_CREATE, ENOMEM,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_QBNPU_SUBMIT, ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_QBNPU_SUBMIT, EINVAL, QBRT_INTERNAL_ERROR },
	{ DRM_IOCTL_QBNPU_SUBMIT, ENOMEM,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
};

/* ST7: the n-th request of a first call, until the call succeeds. */
START_TEST(every_refused_request_changes_nothing)
{
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	enum qbrt_status status = refusals[_i].status;

	fill_bytes(from, 64, 1);
	for (unsigned int n = 1; status; n++) {
		struct array_rig rig;

		array_rig_open(&rig, models_load_copy64());
		memset(to, 0xee, 64);
		qbnpu_soft_fail(refusals[_i].request, n, refusals[_i].err);
		status = array_infer(&rig, NULL, &in, &out);
		qbnpu_soft_fail(refusals[_i].request, 0, 0);
		ck_assert(!status || status == refusals[_i].status);
		ck_assert(!status || *qbrt_error_detail());
		ck_assert(status ? holds_value(to, 64, 0xee)
				 : holds_bytes(to, 64, 1));
		ck_assert_uint_eq(get_array_counters(rig.model).submitted,
				  !status);
		ck_assert_ok(array_infer(&rig, NULL, &in, &out));
		ck_assert(holds_bytes(to, 64, 1));
		array_rig_close(&rig);
		ck_assert_uint_lt(n, 4);
	}
}
END_TEST

/* ST7: of a first call, which makes its staging. */
START_TEST(every_failed_allocation_changes_nothing)
{
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);
	enum qbrt_status status;
	long num;
	long n = 0;

	fill_bytes(from, 64, 1);
	do {
		struct array_rig rig;

		array_rig_open(&rig, models_load_copy64());
		memset(to, 0xee, 64);
		count_alloc_begin(++n);
		status = array_infer(&rig, NULL, &in, &out);
		num = count_alloc_end();
		ck_assert(!status ||
			  status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert(status ? holds_value(to, 64, 0xee)
				 : holds_bytes(to, 64, 1));
		/* one in the driver may be asked for again, with success */
		ck_assert(!status || num >= n);
		ck_assert_ok(array_infer(&rig, NULL, &in, &out));
		ck_assert(holds_bytes(to, 64, 1));
		array_rig_close(&rig);
	} while (num >= n);
	ck_assert_int_gt(n, 6);
}
END_TEST

void add_array_fail_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_job_out_of_time_leaves_the_outputs),
		QBRT_TEST(who_gets_no_slot_in_time_changes_nothing),
		QBRT_LOOP_TEST(a_later_job_that_is_too_late_says_what_is_true,
			       2),
		QBRT_LOOP_TEST(a_failed_item_fails_the_batch, 3),
		QBRT_LOOP_TEST(a_limit_of_the_caller_is_for_the_whole_batch, 2),
		QBRT_LOOP_TEST(every_refused_request_changes_nothing,
			       qbrt_array_size(refusals)),
		QBRT_TEST(every_failed_allocation_changes_nothing),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
