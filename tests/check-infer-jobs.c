// SPDX-License-Identifier: MIT
/*
 * What becomes of a call and its outputs when the driver refuses the job, the
 * job fails, or the wait ends early.
 */
#include "check-infer.h"

#include <errno.h>
#include <stdlib.h>

#include "count-alloc.h"
#include "kmd-watch.h"
#include "model.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "util.h"

/* A time limit that no delay of 1 ms and more keeps. */
static const struct qbrt_infer_options hurried = {
	.size = sizeof(hurried),
	.timeout = QBRT_NS_PER_MS,
};

/* Q340 Q485 */
START_TEST(a_job_out_of_time_invalidates_its_outputs)
{
	struct qbrt_model_counters counters;
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(200, 0));
	ck_assert_status(rig_infer(&rig, &hurried), QBRT_ACC_NPU_TIMEOUT);
	ck_assert_detail(
		"npu_watchdog: timeout after 1 ms (the call's timeout)");
	ck_assert_detail("slow_node");
	/* the output cannot be an input now */
	ck_assert_status(qbrt_model_infer_pinned_memory(
				 rig.model, NULL, &rig.out, 1, &rig.in, 1),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("Acc_NPUTimeout");
	counters = get_counters(rig.model);
	ck_assert_uint_eq(counters.submitted, 1);
	ck_assert_uint_eq(counters.failed, 1);
	ck_assert_uint_eq(counters.completed, 0);
	ck_assert_uint_eq(counters.output_nbytes, 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	const char *variable; /* QBRUNTIME_NPU_TIMEOUT_MS; NULL: not set */
	int64_t timeout;      /* of the call */
	const char *sentence;
} limits[] = {
	{ "20", 2 * QBRT_NS_PER_MS,
	  "npu_watchdog: timeout after 2 ms (the call's timeout)" },
	{ "3", 0,
	  "npu_watchdog: timeout after 3 ms (QBRUNTIME_NPU_TIMEOUT_MS)" },
	{ "0", 0,
	  "npu_watchdog: timeout after 4 ms (the longest that the device "
	  "takes)" },
	{ "20", -1,
	  "npu_watchdog: timeout after 4 ms (the longest that the device "
	  "takes)" },
};

/* Q592 Q340: who reads it knows what to change. */
START_TEST(an_expired_watchdog_says_whose_limit_it_was)
{
	const struct qbrt_infer_options options = {
		.size = sizeof(options),
		.timeout = limits[_i].timeout,
	};
	struct rig rig;

	ck_assert(!setenv("QBRUNTIME_NPU_TIMEOUT_MS", limits[_i].variable, 1));
	rig_open(&rig, NULL, models_load_slow(600, 0));
	rig.acc->device->facts.max_job_ns = 4 * QBRT_NS_PER_MS;
	ck_assert_status(rig_infer(&rig, &options), QBRT_ACC_NPU_TIMEOUT);
	ck_assert_detail(limits[_i].sentence);
	rig_close(&rig);
	ck_assert(!unsetenv("QBRUNTIME_NPU_TIMEOUT_MS"));
}
END_TEST

/* Q485: until a later job succeeds. */
START_TEST(a_later_success_makes_the_outputs_valid)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(20, 0));
	fill(rig.in, 1);
	ck_assert_status(rig_infer(&rig, &hurried), QBRT_ACC_NPU_TIMEOUT);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert(holds(rig.out, 1));
	ck_assert_ok(qbrt_model_infer_pinned_memory(rig.model, NULL, &rig.out,
						    1, &rig.in, 1));
	rig_close(&rig);
}
END_TEST

struct neighbour {
	atomic_bool is_over;
	unsigned int num_calls;
	unsigned int num_wrong;
};

/* A model of its own on the same device, whose results stay right. */
static void *infer_beside(void *arg)
{
	struct neighbour *neighbour = arg;
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	while (!atomic_load(&neighbour->is_over)) {
		fill(rig.in, neighbour->num_calls++);
		if (rig_infer(&rig, NULL) ||
		    !holds(rig.out, neighbour->num_calls - 1))
			neighbour->num_wrong++;
	}
	rig_close(&rig);
	return NULL;
}

/* Q340: for that call only. */
START_TEST(a_thousand_time_outs_disturb_nobody)
{
	struct neighbour neighbour = { 0 };
	pthread_t thread;
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(8, 0));
	ck_assert(!pthread_create(&thread, NULL, infer_beside, &neighbour));
	fill(rig.in, 2);
	for (int i = 0; i < 1000; i++) {
		ck_assert_status(rig_infer(&rig, &hurried),
				 QBRT_ACC_NPU_TIMEOUT);
		if (i % 100)
			continue;
		ck_assert_ok(rig_infer(&rig, NULL));
		ck_assert(holds(rig.out, 2));
	}
	atomic_store(&neighbour.is_over, true);
	ck_assert(!pthread_join(thread, NULL));
	ck_assert_uint_gt(neighbour.num_calls, 0);
	ck_assert_uint_eq(neighbour.num_wrong, 0);
	rig_close(&rig);
}
END_TEST

static const struct {
	int err;
	enum qbrt_status status;
} refusals[] = {
	{ ENODEV, QBRT_ACC_DEVICE_LOST },
	{ EACCES, QBRT_PINNED_MEMORY_READ_ONLY },
	{ EBUSY, QBRT_PINNED_MEMORY_IN_USE },
	{ ERANGE, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS },
	{ ETIME, QBRT_ACC_NPU_TIMEOUT },
	{ ENOMEM, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ EINVAL, QBRT_INTERNAL_ERROR },
	{ ENOENT, QBRT_INTERNAL_ERROR },
	{ EFAULT, QBRT_INTERNAL_ERROR },
};

/* Q592 Q615 SE6: a refused job did nothing, the outputs stay as they were. */
START_TEST(a_job_that_is_not_taken_changes_nothing)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 1);
	fill(rig.out, 9);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, refusals[_i].err);
	ck_assert_status(rig_infer(&rig, NULL), refusals[_i].status);
	if (refusals[_i].err == ENOMEM)
		ck_assert_detail("no memory, or gets no thread");
	if (refusals[_i].err == ETIME)
		ck_assert_detail("npu_watchdog: timeout after 10000 ms "
				 "(QBRUNTIME_NPU_TIMEOUT_MS), before");
	if (refusals[_i].err == ENODEV)
		ck_assert_detail("device hang");
	if (refusals[_i].err == ETIME || refusals[_i].err == ENOMEM)
		ck_assert_detail("nothing ran, the outputs are unchanged");
	ck_assert(holds(rig.out, 9));
	ck_assert_ok(qbrt_storage_check_valid(rig.out->storage));
	ck_assert_uint_eq(get_counters(rig.model).submitted, 0);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert(holds(rig.out, 1));
	rig_close(&rig);
}
END_TEST

/* Q615: -ENOSPC has no status, the call tries again. */
START_TEST(a_full_queue_is_waited_for)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 1);
	kmd_watch_begin(rig.acc);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_SUBMIT, 1, ENOSPC);
	ck_assert_ok(rig_infer(&rig, NULL));
	ck_assert(holds(rig.out, 1));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), 2);
	rig_close(&rig);
}
END_TEST

/* K094: who comes back early goes on with WAIT, and never submits twice. */
START_TEST(a_wait_that_ends_early_goes_on)
{
	const struct qbrt_infer_options blocking = {
		.size = sizeof(blocking),
		.flags = QBRT_INFER_BLOCKING,
	};
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(3, 0));
	fill(rig.in, 4);
	kmd_watch_begin(rig.acc);
	atomic_store(&kmd_watch.ends_waits, true);
	ck_assert_ok(rig_infer(&rig, _i ? &blocking : NULL));
	ck_assert(holds(rig.out, 4));
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_SUBMIT), 1);
	ck_assert_uint_eq(kmd_watch_count(DRM_IOCTL_QBNPU_WAIT), 1);
	rig_close(&rig);
}
END_TEST

/* Q615: a result that is lost is no success. */
START_TEST(a_result_that_is_lost_invalidates_the_outputs)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(1, 0));
	kmd_watch_begin(rig.acc);
	atomic_store(&kmd_watch.ends_waits, true);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_WAIT, 1, ENODATA);
	ck_assert_status(rig_infer(&rig, NULL), QBRT_INTERNAL_ERROR);
	ck_assert_detail("lost");
	ck_assert_uint_eq(get_counters(rig.model).submitted, 1);
	ck_assert_uint_eq(get_counters(rig.model).failed, 1);
	ck_assert_status(qbrt_storage_check_valid(rig.out->storage),
			 QBRT_TENSOR_INVALID);
	rig_close(&rig);
}
END_TEST

/* Q615: no queue can be had, and there is none to share. */
START_TEST(without_a_queue_nothing_runs)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, 9);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUEUE_CREATE, 1, ENOMEM);
	ck_assert_status(rig_infer(&rig, NULL),
			 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert(holds(rig.out, 9));
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* Q340: all slots are taken for longer than the limit. */
START_TEST(who_gets_no_slot_in_time_submits_nothing)
{
	struct qbrt_slots *slots;
	struct qbrt_slot *slot;
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(0, 1));
	slots = &rig.model->launched->slots;
	fill(rig.out, 9);
	ck_assert_int_eq(qbrt_slots_take(slots, 0, &slot), QBRT_OK);
	kmd_watch_begin(rig.acc);
	ck_assert_status(rig_infer(&rig, &hurried),
			 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_detail("no activation slot (of 1)");
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), 0);
	ck_assert(holds(rig.out, 9));
	qbrt_slots_leave(slots, slot);
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* Q340 Q485 */
START_TEST(a_limit_that_has_passed_changes_nothing)
{
	const struct qbrt_infer_options late = {
		.size = sizeof(late),
		.timeout = 1,
	};
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, 9);
	ck_assert_status(rig_infer(&rig, &late), QBRT_ACC_NPU_TIMEOUT);
	ck_assert_detail("nothing ran, the outputs are unchanged");
	ck_assert(holds(rig.out, 9));
	ck_assert_ok(qbrt_storage_check_valid(rig.out->storage));
	ck_assert_uint_eq(get_counters(rig.model).submitted, 0);
	rig_close(&rig);
}
END_TEST

/* Q340 Q481: waiting for an input counts. */
START_TEST(an_input_that_is_written_too_long_ends_the_call)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, 9);
	ck_assert(qbrt_storage_begin_write(rig.in->storage));
	kmd_watch_begin(rig.acc);
	ck_assert_status(rig_infer(&rig, &hurried),
			 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_detail("input 0");
	ck_assert_detail("nothing ran, the outputs are unchanged");
	ck_assert_uint_eq(atomic_load(&kmd_watch.total), 0);
	ck_assert(holds(rig.out, 9));
	ck_assert_uint_eq(atomic_load(&rig.out->storage->uses), 0);
	qbrt_storage_end_write(rig.in->storage);
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* ST7: of the first call, which makes its queue; later ones allocate nothing. */
START_TEST(every_failed_allocation_of_a_call_changes_nothing)
{
	enum qbrt_status status = QBRT_BAD_ALLOC;
	long num;
	long n;

	for (n = 1; status; n++) {
		struct rig rig;

		rig_open(&rig, NULL, models_load_copy64());
		fill(rig.in, 1);
		fill(rig.out, 9);
		count_alloc_begin(n);
		status = rig_infer(&rig, NULL);
		num = count_alloc_end();
		ck_assert(!status ||
			  status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert(holds(rig.out, status ? 9 : 1));
		ck_assert(!status == (num < n));
		ck_assert_ok(rig_infer(&rig, NULL));
		ck_assert(holds(rig.out, 1));
		rig_close(&rig);
	}
	ck_assert_int_gt(n, 2);
}
END_TEST

void add_infer_job_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_job_out_of_time_invalidates_its_outputs),
		QBRT_LOOP_TEST(an_expired_watchdog_says_whose_limit_it_was,
			       qbrt_array_size(limits)),
		QBRT_TEST(a_later_success_makes_the_outputs_valid),
		QBRT_TEST(a_thousand_time_outs_disturb_nobody),
		QBRT_LOOP_TEST(a_job_that_is_not_taken_changes_nothing,
			       qbrt_array_size(refusals)),
		QBRT_TEST(a_full_queue_is_waited_for),
		QBRT_LOOP_TEST(a_wait_that_ends_early_goes_on, 2),
		QBRT_TEST(a_result_that_is_lost_invalidates_the_outputs),
		QBRT_TEST(without_a_queue_nothing_runs),
		QBRT_TEST(who_gets_no_slot_in_time_submits_nothing),
		QBRT_TEST(a_limit_that_has_passed_changes_nothing),
		QBRT_TEST(an_input_that_is_written_too_long_ends_the_call),
		QBRT_TEST(every_failed_allocation_of_a_call_changes_nothing),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
