// SPDX-License-Identifier: MIT
/*
 * Callbacks of futures: once, on the right thread, under no lock, whatever the
 * program does in one.
 */
#include "check-future.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "kmd-watch.h"
#include "model.h"
#include "soft/soft.h"
#include "util.h"

struct calls {
	atomic_uint num;
	struct qbrt_future *future;
	pthread_t thread;
	bool frees;
};

static void note_call(void *arg, struct qbrt_future *future)
{
	struct calls *calls = arg;

	ck_assert_ptr_eq(future, calls->future);
	ck_assert(is_done(future));
	calls->thread = pthread_self();
	if (calls->frees)
		qbrt_future_free(future);
	atomic_fetch_add(&calls->num, 1);
}

/* Q378 Q738 */
START_TEST(a_callback_comes_once_on_a_thread_of_the_library)
{
	struct calls calls = { .num = 0 };
	struct gated gated;

	gated_open(&gated, 0);
	calls.future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_future_set_callback(calls.future, note_call, &calls));
	ck_assert_status(
		qbrt_future_set_callback(calls.future, note_call, &calls),
		QBRT_INVALID_ARGUMENT);
	ck_assert_uint_eq(atomic_load(&calls.num), 0);
	ck_assert(sim_step(&gated.sim));
	while (!atomic_load(&calls.num))
		sched_yield();
	ck_assert(!pthread_equal(calls.thread, pthread_self()));
	ck_assert_ok(take(calls.future));
	gated_close(&gated);
	ck_assert_uint_eq(atomic_load(&calls.num), 1);
}
END_TEST

/* Q738 */
START_TEST(a_callback_on_a_complete_job_comes_at_once)
{
	struct calls calls = { .num = 0 };
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	calls.future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(qbrt_future_wait(calls.future, -1));
	ck_assert_ok(qbrt_future_set_callback(calls.future, note_call, &calls));
	ck_assert_uint_eq(atomic_load(&calls.num), 1);
	ck_assert(pthread_equal(calls.thread, pthread_self()));
	ck_assert_ok(take(calls.future));
	rig_close(&rig);
}
END_TEST

/* Q378: the commonest thing to do in one. */
START_TEST(a_callback_may_free_its_future)
{
	struct calls calls = { .frees = true };
	struct gated gated;

	gated_open(&gated, 0);
	calls.future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_future_set_callback(calls.future, note_call, &calls));
	ck_assert(sim_step(&gated.sim));
	while (!atomic_load(&calls.num))
		sched_yield();
	gated_close(&gated);
}
END_TEST

/* Q738 */
START_TEST(a_freed_future_calls_nothing)
{
	struct calls calls = { .num = 0 };
	struct gated gated;

	gated_open(&gated, 0);
	calls.future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_future_set_callback(calls.future, note_call, &calls));
	qbrt_future_free(calls.future);
	ck_assert(sim_step(&gated.sim));
	/* the closing of the device ends the thread that would have called */
	gated_close(&gated);
	ck_assert_uint_eq(atomic_load(&calls.num), 0);
}
END_TEST

/* Q378 Q379: its point is still to come, and the thread sleeps until then. */
START_TEST(one_that_is_cancelled_in_its_queue_calls_at_once)
{
	struct calls calls = { .num = 0 };
	struct qbrt_pinned_memory *other;
	struct qbrt_future *first;
	struct gated gated;

	gated_open(&gated, 1);
	kmd_watch_begin(gated.rig.acc);
	other = alloc_64(&gated.rig);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	calls.future = submit(&gated.rig, gated.rig.in, other);
	ck_assert_ok(qbrt_future_set_callback(calls.future, note_call, &calls));
	while (!kmd_watch_count(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT))
		sched_yield();
	ck_assert_ok(qbrt_future_cancel(calls.future, NULL));
	while (!atomic_load(&calls.num))
		sched_yield();
	ck_assert(!is_done(first));
	ck_assert_status(take(calls.future), QBRT_CANCELLED);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(first));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
	ck_assert_uint_eq(atomic_load(&calls.num), 1);
}
END_TEST

/* What a callback does with the library, and how that went. */
struct busy {
	struct gated *gated;
	struct qbrt_pinned_memory *in, *out;
	bool disposes;
	atomic_bool is_over;
	enum qbrt_status result, inferred, submitted, disposed;
};

static void use_library(void *arg, struct qbrt_future *future)
{
	struct busy *busy = arg;
	struct qbrt_model *model = busy->gated->rig.model;
	struct qbrt_future *more = NULL;

	busy->result = qbrt_future_query_result(future, NULL, 0);
	busy->inferred = qbrt_model_infer_pinned_memory(model, NULL, &busy->in,
							1, &busy->out, 1);
	busy->submitted =
		try_submit(&busy->gated->rig, busy->in, busy->out, NULL, &more);
	if (!busy->submitted)
		busy->submitted = qbrt_future_wait(more, -1);
	if (!busy->submitted)
		busy->submitted = take(more);
	if (busy->disposes)
		busy->disposed = qbrt_model_dispose(model);
	qbrt_future_free(future);
	atomic_store(&busy->is_over, true);
}

/* The device works while the test waits for others. */
static void step_until(struct sim *sim, atomic_bool *is_over)
{
	while (!atomic_load(is_over))
		if (!sim_step(sim))
			sched_yield();
}

/* One that waits for a slot behind the one that has it. */
static void start_calls(struct call *calls, struct gated *gated)
{
	struct qbrt_slots *slots = &gated->rig.model->launched->slots;

	for (int i = 0; i < 2; i++) {
		calls[i] = (struct call){ .rig = &gated->rig };
		calls[i].in = gated->rig.in;
		calls[i].out = alloc_64(&gated->rig);
		call_start(&calls[i]);
		sim_wait_submitted(&gated->sim, 1);
	}
	while (!atomic_load(&slots->num_waiting))
		sched_yield();
}

/* Q378 Q813: one slot, for which others wait; with and without dispose. */
START_TEST(a_callback_may_use_the_library)
{
	struct busy busy = { .disposes = _i };
	struct call calls[2];
	struct gated gated;
	struct qbrt_future *future;
	enum qbrt_status status;

	gated_open(&gated, 1);
	busy.gated = &gated;
	busy.in = alloc_64(&gated.rig);
	busy.out = alloc_64(&gated.rig);
	fill(busy.in, 3);
	start_calls(calls, &gated);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_future_set_callback(future, use_library, &busy));
	step_until(&gated.sim, &busy.is_over);
	sim_finish_all(&gated.sim);
	ck_assert_int_eq(busy.result, QBRT_OK);
	ck_assert_int_eq(busy.inferred, QBRT_OK);
	ck_assert_int_eq(busy.submitted, QBRT_OK);
	ck_assert_int_eq(busy.disposed, QBRT_OK);
	ck_assert(holds(busy.out, 3));
	for (int i = 0; i < 2; i++) {
		status = call_join(&calls[i]);
		ck_assert(!status || (_i && status == QBRT_MODEL_NOT_ALIVE));
		qbrt_pinned_memory_free(calls[i].out);
	}
	qbrt_pinned_memory_free(busy.in);
	qbrt_pinned_memory_free(busy.out);
	gated_close(&gated);
}
END_TEST

static void count_and_free(void *arg, struct qbrt_future *future)
{
	qbrt_future_free(future);
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Q378: many at once, from jobs that end in any order. */
START_TEST(each_of_many_callbacks_comes_once)
{
	struct qbrt_pinned_memory *outs[64];
	atomic_uint num = 0;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(8));
	for (int i = 0; i < 64; i++)
		outs[i] = alloc_64(&rig);
	for (unsigned int round = 1; round <= 20; round++) {
		for (int i = 0; i < 64; i++)
			ck_assert_ok(qbrt_future_set_callback(
				submit(&rig, rig.in, outs[i]), count_and_free,
				&num));
		while (atomic_load(&num) < round * 64)
			sched_yield();
	}
	for (int i = 0; i < 64; i++)
		qbrt_pinned_memory_free(outs[i]);
	rig_close(&rig);
	ck_assert_uint_eq(atomic_load(&num), 20 * 64);
}
END_TEST

struct relaunch {
	struct gated *gated;
	struct qbnpu_job *job; /* that runs meanwhile */
	bool is_in_callback;
	atomic_bool has_begun, may_end, is_over;
};

/* The job ends as late as dispose lets it. */
static void launch_anew(struct relaunch *relaunch)
{
	struct gated *gated = relaunch->gated;

	ck_assert_ok(qbrt_model_dispose(gated->rig.model));
	ck_assert(sim_finish(&gated->sim, relaunch->job, QBNPU_CAUSE_NONE));
	ck_assert_ok(qbrt_model_launch(gated->rig.model, gated->rig.acc));
}

static void occupy_thread(void *arg, struct qbrt_future *future)
{
	struct relaunch *relaunch = arg;

	(void)future;
	atomic_store(&relaunch->has_begun, true);
	if (relaunch->is_in_callback)
		launch_anew(relaunch);
	while (!atomic_load(&relaunch->may_end))
		sched_yield();
	atomic_store(&relaunch->is_over, true);
}

/* Its callback keeps the thread that would end the jobs of a dispose. */
static void keep_thread(struct relaunch *relaunch, struct qbrt_future *future,
			struct qbnpu_job *job)
{
	ck_assert_ok(qbrt_future_set_callback(future, occupy_thread, relaunch));
	ck_assert(sim_finish(&relaunch->gated->sim, job, QBNPU_CAUSE_NONE));
	while (!atomic_load(&relaunch->has_begun))
		sched_yield();
}

/*
 * Q267 Q369 Q378: launch waits for the jobs of the launch before it, and for no
 * thread: that one waits for the caller, is the caller, or cannot be had.
 */
START_TEST(a_launch_ends_the_jobs_before_it_itself)
{
	struct relaunch relaunch = { .is_in_callback = _i == 1 };
	struct qbrt_future *first, *second;
	struct qbrt_pinned_memory *other;
	struct qbnpu_job *job;
	struct gated gated;

	gated_open(&gated, 2);
	relaunch.gated = &gated;
	other = alloc_64(&gated.rig);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	second = submit(&gated.rig, gated.rig.in, other);
	job = sim_begin(&gated.sim);
	relaunch.job = sim_begin(&gated.sim);
	if (_i == 2) {
		ck_assert(sim_finish(&gated.sim, job, QBNPU_CAUSE_NONE));
		qbnpu_soft_fail(DRM_IOCTL_SYNCOBJ_CREATE, 1, ENOMEM);
	} else {
		keep_thread(&relaunch, first, job);
	}
	if (!relaunch.is_in_callback)
		launch_anew(&relaunch);
	atomic_store(&relaunch.may_end, true);
	while (_i != 2 && !atomic_load(&relaunch.is_over))
		sched_yield();
	ck_assert_ok(take(first));
	ck_assert_status(take(second), QBRT_MODEL_NOT_ALIVE);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	sim_finish_all(&gated.sim);
	ck_assert_ok(take(first));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

void add_future_callback_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_callback_comes_once_on_a_thread_of_the_library),
		QBRT_TEST(a_callback_on_a_complete_job_comes_at_once),
		QBRT_TEST(a_callback_may_free_its_future),
		QBRT_TEST(a_freed_future_calls_nothing),
		QBRT_TEST(one_that_is_cancelled_in_its_queue_calls_at_once),
		QBRT_LOOP_TEST(a_callback_may_use_the_library, 2),
		QBRT_TEST(each_of_many_callbacks_comes_once),
		QBRT_LOOP_TEST(a_launch_ends_the_jobs_before_it_itself, 3),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
