// SPDX-License-Identifier: MIT
/*
 * How queued jobs end that do not end well: the right future gets the right
 * status, its outputs are invalid and say so, others are right, and the device
 * goes on.
 */
#include "check-future.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "future.h"
#include "kmd-watch.h"
#include "model.h"
#include "pinned-memory.h"
#include "util.h"

static void expect_invalid(struct qbrt_pinned_memory *mem, const char *detail)
{
	uint8_t value = 0;

	ck_assert_status(qbrt_pinned_memory_read_at(mem, (int64_t[]){ 0 }, 1,
						    QBRT_DTYPE_UINT8, &value),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail(detail);
	ck_assert_status(qbrt_pinned_memory_wait(mem, 0), QBRT_TENSOR_INVALID);
	ck_assert_uint_eq(value, 0);
}

static const struct {
	uint32_t cause;
	enum qbrt_status status;
	const char *words;
} causes[] = {
	{ QBNPU_CAUSE_TIME, QBRT_ACC_NPU_TIMEOUT,
	  "npu_watchdog: timeout after 600000 ms (the longest that the device "
	  "takes)" },
	{ QBNPU_CAUSE_CANCELLED, QBRT_CANCELLED, "cancelled" },
	{ QBNPU_CAUSE_RESET, QBRT_MODEL_PREDICT_ERROR, "another job's fault" },
	{ QBNPU_CAUSE_MEMORY, QBRT_MODEL_PREDICT_ERROR, "memory error" },
	{ QBNPU_CAUSE_LOST, QBRT_ACC_DEVICE_LOST, "device hang" },
	{ QBNPU_CAUSE_INJECTED, QBRT_MODEL_PREDICT_ERROR, "injected fault" },
};

/* Q592 Q616 Q485 Q364: of three in flight the one in the middle fails. */
START_TEST(each_future_has_its_own_end)
{
	struct qbrt_pinned_memory *outs[3];
	struct qbrt_future *futures[3];
	struct qbnpu_job *jobs[3];
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 7);
	for (int i = 0; i < 3; i++) {
		outs[i] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, gated.rig.in, outs[i]);
		jobs[i] = sim_begin(&gated.sim);
	}
	ck_assert(sim_finish(&gated.sim, jobs[1], causes[_i].cause));
	ck_assert(sim_finish(&gated.sim, jobs[2], QBNPU_CAUSE_NONE));
	ck_assert(sim_finish(&gated.sim, jobs[0], QBNPU_CAUSE_NONE));
	ck_assert_int_eq(qbrt_future_get_status(futures[1]), causes[_i].status);
	ck_assert(strstr(qbrt_future_get_detail(futures[1]),
			 "the inference failed"));
	ck_assert_status(qbrt_future_query_result(futures[1], NULL, 0),
			 causes[_i].status);
	ck_assert_detail(causes[_i].words);
	expect_invalid(outs[1], qbrt_status_name(causes[_i].status));
	ck_assert_ok(take(futures[0]));
	ck_assert_ok(take(futures[2]));
	ck_assert(holds(outs[0], 7));
	ck_assert(holds(outs[2], 7));
	qbrt_future_free(futures[1]);
	/* a later success makes it valid */
	futures[1] = submit(&gated.rig, gated.rig.in, outs[1]);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(futures[1]));
	ck_assert_ok(qbrt_pinned_memory_wait(outs[1], 0));
	for (int i = 0; i < 3; i++)
		qbrt_pinned_memory_free(outs[i]);
	ck_assert_uint_eq(get_counters(gated.rig.model).completed, 3);
	gated_close(&gated);
}
END_TEST

/* Q616: an awaited job that failed. */
START_TEST(who_reads_what_a_failed_job_wrote_fails_with_it)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first, *second;
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	fill(gated.rig.out, 3);
	first = submit(&gated.rig, gated.rig.in, middle);
	second = submit(&gated.rig, middle, gated.rig.out);
	ck_assert(sim_finish(&gated.sim, sim_begin(&gated.sim),
			     QBNPU_CAUSE_INJECTED));
	ck_assert(is_done(second));
	ck_assert_status(take(second), QBRT_STREAM_FAILED);
	ck_assert_detail("injected fault");
	expect_invalid(gated.rig.out, "Stream_Failed");
	ck_assert_status(take(first), QBRT_MODEL_PREDICT_ERROR);
	/* known to be invalid before it is submitted */
	ck_assert_status(
		try_submit(&gated.rig, middle, gated.rig.in, NULL, &second),
		QBRT_TENSOR_INVALID);
	ck_assert_detail("injected fault");
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

static void fail_job(void *arg)
{
	struct gated *gated = arg;

	ck_assert(sim_finish(&gated->sim, sim_begin(&gated->sim),
			     QBNPU_CAUSE_INJECTED));
}

/*
 * K084: complete before SUBMIT, it counts as good to the device, and the second
 * job runs; the library knows better.
 */
START_TEST(a_failure_between_check_and_submit_is_noticed)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first, *second;
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	first = submit(&gated.rig, gated.rig.in, middle);
	kmd_watch_begin(gated.rig.acc);
	kmd_watch.before_submit = fail_job;
	kmd_watch.before_submit_arg = &gated;
	second = submit(&gated.rig, middle, gated.rig.out);
	ck_assert_ptr_null(kmd_watch.before_submit);
	ck_assert(sim_step(&gated.sim));
	ck_assert_status(take(second), QBRT_STREAM_FAILED);
	ck_assert_detail("injected fault");
	expect_invalid(gated.rig.out, "Stream_Failed");
	ck_assert_status(take(first), QBRT_MODEL_PREDICT_ERROR);
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

/* Q379 K115: it waits in its queue. */
START_TEST(a_job_that_has_not_begun_is_cancelled_at_once)
{
	struct qbrt_pinned_memory *other;
	struct qbrt_future *first, *second;
	struct gated gated;
	bool cancelled = false;

	gated_open(&gated, 1);
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 7);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	second = submit(&gated.rig, gated.rig.in, other);
	ck_assert_ok(qbrt_future_cancel(second, &cancelled));
	ck_assert(cancelled);
	/* though the one before it has not even begun */
	ck_assert(is_done(second));
	ck_assert(!is_done(first));
	ck_assert_status(qbrt_future_query_result(second, NULL, 0),
			 QBRT_CANCELLED);
	expect_invalid(other, "Cancelled");
	qbrt_future_free(second);
	ck_assert(sim_step(&gated.sim));
	ck_assert(!sim_step(&gated.sim));
	ck_assert_ok(take(first));
	ck_assert(holds(gated.rig.out, 7));
	ck_assert_uint_eq(get_counters(gated.rig.model).cancelled, 1);
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* Q379: it waits for the job that writes its input. */
START_TEST(a_job_that_waits_for_another_is_cancelled_at_once)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first, *second;
	struct gated gated;
	bool cancelled = false;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	first = submit(&gated.rig, gated.rig.in, middle);
	second = submit(&gated.rig, middle, gated.rig.out);
	ck_assert_ok(qbrt_future_cancel(second, &cancelled));
	ck_assert(cancelled);
	ck_assert_status(take(second), QBRT_CANCELLED);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(first));
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

/* Q605 K115: on the device. */
START_TEST(a_running_job_is_told_to_stop)
{
	struct qbrt_future *future;
	struct qbnpu_job *job;
	struct gated gated;
	bool cancelled = true;

	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	job = sim_begin(&gated.sim);
	ck_assert_ok(qbrt_future_cancel(future, &cancelled));
	ck_assert(!cancelled);
	ck_assert(!is_done(future));
	ck_assert(sim_finish(&gated.sim, job, QBNPU_CAUSE_NONE));
	ck_assert_status(qbrt_future_query_result(future, NULL, 0),
			 QBRT_CANCELLED);
	expect_invalid(gated.rig.out, "Cancelled");
	qbrt_future_free(future);
	gated_close(&gated);
}
END_TEST

/* K115 */
START_TEST(a_complete_job_stays_as_it_is)
{
	struct qbrt_future *future;
	struct gated gated;
	bool cancelled = true;

	gated_open(&gated, 0);
	fill(gated.rig.in, 7);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(qbrt_future_cancel(future, &cancelled));
	ck_assert(!cancelled);
	ck_assert_ok(qbrt_future_cancel(future, NULL));
	ck_assert_ok(take(future));
	ck_assert(holds(gated.rig.out, 7));
	gated_close(&gated);
}
END_TEST

/* Q340: behind another job until the limit. */
START_TEST(a_job_that_never_began_says_so)
{
	const struct qbrt_infer_options hurried = {
		.size = sizeof(hurried),
		.timeout = QBRT_NS_PER_MS,
	};
	struct qbrt_pinned_memory *other;
	struct qbrt_future *first, *second = NULL;
	struct gated gated;

	gated_open(&gated, 1);
	other = alloc_64(&gated.rig);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(
		try_submit(&gated.rig, gated.rig.in, other, &hurried, &second));
	ck_assert_ok(qbrt_future_wait(second, -1));
	ck_assert_status(qbrt_future_query_result(second, NULL, 0),
			 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_detail(
		"npu_watchdog: timeout after 1 ms (the call's timeout), "
		"before the inference began, behind the jobs");
	expect_invalid(other, "Model_TaskQueueTimeout");
	qbrt_future_free(second);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(first));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* Q369 Q268: nothing hangs, and dispose waits for nobody. */
START_TEST(dispose_ends_the_jobs_in_flight)
{
	struct qbrt_pinned_memory *others[3];
	struct qbrt_future *running, *queued[3];
	struct qbnpu_job *job;
	struct gated gated;

	gated_open(&gated, 1);
	running = submit(&gated.rig, gated.rig.in, gated.rig.out);
	job = sim_begin(&gated.sim);
	for (int i = 0; i < 3; i++) {
		others[i] = alloc_64(&gated.rig);
		queued[i] = submit(&gated.rig, gated.rig.in, others[i]);
	}
	ck_assert_ok(qbrt_model_dispose(gated.rig.model));
	for (int i = 0; i < 3; i++) {
		ck_assert(is_done(queued[i]));
		ck_assert_status(take(queued[i]),
				 QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE);
		ck_assert_detail("was disposed");
		expect_invalid(others[i], "was disposed");
		qbrt_pinned_memory_free(others[i]);
	}
	ck_assert(!is_done(running));
	ck_assert(sim_finish(&gated.sim, job, QBNPU_CAUSE_NONE));
	ck_assert_status(take(running), QBRT_MODEL_NOT_ALIVE);
	ck_assert_ok(qbrt_model_launch(gated.rig.model, gated.rig.acc));
	gated_close(&gated);
}
END_TEST

static void *launch_again(void *arg)
{
	struct gated *gated = arg;

	return (void *)(uintptr_t)qbrt_model_launch(gated->rig.model,
						    gated->rig.acc);
}

/* Q268: a future that nobody asks does not keep the launch. */
START_TEST(a_held_future_keeps_no_launch)
{
	struct qbrt_future *running;
	struct qbnpu_job *job;
	struct gated gated;
	pthread_t thread;
	void *status;

	gated_open(&gated, 1);
	running = submit(&gated.rig, gated.rig.in, gated.rig.out);
	job = sim_begin(&gated.sim);
	ck_assert_ok(qbrt_model_dispose(gated.rig.model));
	ck_assert(!pthread_create(&thread, NULL, launch_again, &gated));
	ck_assert(sim_finish(&gated.sim, job, QBNPU_CAUSE_NONE));
	ck_assert(!pthread_join(thread, &status));
	ck_assert_ptr_null(status);
	ck_assert_status(take(running), QBRT_MODEL_NOT_ALIVE);
	gated_close(&gated);
}
END_TEST

struct submitter {
	struct gated *gated;
	struct qbrt_pinned_memory *out;
	enum qbrt_status status;
	atomic_int thread; /* number of its thread, once it is there */
};

static void *submit_more(void *arg)
{
	struct submitter *submitter = arg;
	struct qbrt_future *future = NULL;

	atomic_store(&submitter->thread, gettid());
	submitter->status =
		try_submit(&submitter->gated->rig, submitter->gated->rig.in,
			   submitter->out, NULL, &future);
	qbrt_future_free(future);
	return NULL;
}

/* Q268: a submit that waits for room. */
START_TEST(dispose_wakes_who_waits_for_the_queue)
{
	struct qbrt_pinned_memory *outs[66];
	struct qbrt_future *futures[65];
	struct submitter submitter = { 0 };
	struct gated gated;
	pthread_t thread;

	gated_open(&gated, 1);
	for (int i = 0; i < 66; i++)
		outs[i] = alloc_64(&gated.rig);
	for (int i = 0; i < 65; i++)
		futures[i] = submit(&gated.rig, gated.rig.in, outs[i]);
	submitter.gated = &gated;
	submitter.out = outs[65];
	ck_assert(!pthread_create(&thread, NULL, submit_more, &submitter));
	while (!atomic_load(&submitter.thread))
		sched_yield();
	/* which only the wait for room can make it do */
	while (!qbrt_test_is_asleep(atomic_load(&submitter.thread)))
		sched_yield();
	ck_assert_ok(qbrt_model_dispose(gated.rig.model));
	ck_assert(!pthread_join(thread, NULL));
	ck_assert_int_eq(submitter.status, QBRT_MODEL_NOT_ALIVE);
	for (int i = 0; i < 65; i++)
		ck_assert_int_ne(take(futures[i]), QBRT_OK);
	for (int i = 0; i < 66; i++)
		qbrt_pinned_memory_free(outs[i]);
	gated_close(&gated);
}
END_TEST

/* Q383 */
static void *take_result(void *arg)
{
	return (void *)(uintptr_t)qbrt_future_query_result(arg, NULL, 0);
}

/* Q383 */
START_TEST(of_several_takers_one_has_the_result)
{
	struct qbrt_future *future;
	pthread_t threads[8];
	struct gated gated;
	unsigned int num_taken = 0;

	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	for (int i = 0; i < 8; i++)
		ck_assert(!pthread_create(&threads[i], NULL, take_result,
					  future));
	ck_assert(sim_step(&gated.sim));
	for (int i = 0; i < 8; i++) {
		void *status;

		ck_assert(!pthread_join(threads[i], &status));
		num_taken += !status;
		if (status)
			ck_assert_int_eq((int)(uintptr_t)status,
					 QBRT_FUTURE_NOT_VALID);
	}
	ck_assert_uint_eq(num_taken, 1);
	qbrt_future_free(future);
	gated_close(&gated);
}
END_TEST

void add_future_end_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(each_future_has_its_own_end,
			       qbrt_array_size(causes)),
		QBRT_TEST(who_reads_what_a_failed_job_wrote_fails_with_it),
		QBRT_TEST(a_failure_between_check_and_submit_is_noticed),
		QBRT_TEST(a_job_that_has_not_begun_is_cancelled_at_once),
		QBRT_TEST(a_job_that_waits_for_another_is_cancelled_at_once),
		QBRT_TEST(a_running_job_is_told_to_stop),
		QBRT_TEST(a_complete_job_stays_as_it_is),
		QBRT_TEST(a_job_that_never_began_says_so),
		QBRT_TEST(dispose_ends_the_jobs_in_flight),
		QBRT_TEST(a_held_future_keeps_no_launch),
		QBRT_TEST(dispose_wakes_who_waits_for_the_queue),
		QBRT_TEST(of_several_takers_one_has_the_result),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
