// SPDX-License-Identifier: MIT
/*
 * Jobs that end before their turn: their own time limit passes while one
 * without a limit stands in front of them in their queue, for as long as the
 * test wants. Whoever asks learns it, also where nobody waits for them.
 */
#include "check-future.h"

#include <sched.h>
#include <stdatomic.h>

#include "util.h"

#define LIMIT_NS (5 * QBRT_NS_PER_MS)
#define NUM_QUEUED 63 /* with the two of a scene there is no more room */

struct scene {
	struct gated gated; /* one slot */
	struct qbrt_future *gate;
	struct qbrt_future *late;
	struct qbrt_pinned_memory *out; /* of late */
	atomic_int num_calls;
};

static struct qbrt_future *submit_late(struct scene *scene,
				       struct qbrt_pinned_memory *out)
{
	struct qbrt_infer_options options = { .size = sizeof(options),
					      .timeout = LIMIT_NS };
	struct qbrt_future *future = NULL;

	ck_assert_ok(try_submit(&scene->gated.rig, scene->gated.rig.in, out,
				&options, &future));
	return future;
}

static void scene_open(struct scene *scene)
{
	atomic_init(&scene->num_calls, 0);
	gated_open(&scene->gated, 1);
	fill(scene->gated.rig.in, 5);
	scene->gate = submit(&scene->gated.rig, scene->gated.rig.in,
			     scene->gated.rig.out);
	scene->out = alloc_64(&scene->gated.rig);
	scene->late = submit_late(scene, scene->out);
}

static void scene_close(struct scene *scene)
{
	ck_assert(!is_done(scene->gate));
	sim_finish_all(&scene->gated.sim);
	ck_assert_ok(take(scene->gate));
	ck_assert(holds(scene->gated.rig.out, 5));
	qbrt_pinned_memory_free(scene->out);
	gated_close(&scene->gated);
}

static void count_call(void *arg, struct qbrt_future *future)
{
	struct scene *scene = arg;

	ck_assert_int_eq(qbrt_future_get_status(future),
			 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	atomic_fetch_add(&scene->num_calls, 1);
}

static void ask_query(struct scene *scene)
{
	while (!is_done(scene->late))
		sched_yield();
}

static void ask_status(struct scene *scene)
{
	while (!qbrt_future_get_status(scene->late))
		sched_yield();
}

static void ask_memory(struct scene *scene)
{
	bool is_ready = false;

	while (!is_ready) {
		sched_yield();
		ck_assert_ok(qbrt_pinned_memory_query(scene->out, &is_ready));
	}
}

static void ask_by_callback(struct scene *scene)
{
	ck_assert_ok(qbrt_future_set_callback(scene->late, count_call, scene));
	while (!atomic_load(&scene->num_calls))
		sched_yield();
}

static void (*const asks[])(struct scene *scene) = {
	ask_query,
	ask_status,
	ask_memory,
	ask_by_callback,
};

/* Q340 Q376 Q378 Q471 */
START_TEST(a_limit_that_passes_in_the_queue_is_told_whoever_asks)
{
	struct scene scene;

	scene_open(&scene);
	asks[_i](&scene);
	ck_assert(is_done(scene.late));
	ck_assert_status(take(scene.late), QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_detail("npu_watchdog");
	scene_close(&scene);
}
END_TEST

/* Q340 Q485: the output of a future that was freed. */
START_TEST(nobody_holds_the_output_of_a_job_whose_limit_passed)
{
	struct qbrt_future *other = NULL;
	enum qbrt_status status;
	struct scene scene;

	scene_open(&scene);
	qbrt_future_free(scene.late);
	do {
		sched_yield();
		status = try_submit(&scene.gated.rig, scene.gated.rig.in,
				    scene.out, NULL, &other);
	} while (status == QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_int_eq(status, QBRT_OK);
	ck_assert_int_eq(qbrt_future_cancel(other, NULL), QBRT_OK);
	ck_assert_status(take(other), QBRT_CANCELLED);
	scene_close(&scene);
}
END_TEST

/* Q340 Q366: jobs that have ended so take no room. */
START_TEST(a_try_finds_the_room_of_jobs_whose_limit_passed)
{
	struct qbrt_infer_options options = { .size = sizeof(options),
					      .flags = QBRT_INFER_TRY };
	struct qbrt_pinned_memory *outs[NUM_QUEUED];
	struct qbrt_future *late[NUM_QUEUED];
	struct qbrt_future *future = NULL;
	struct qbrt_pinned_memory *other;
	enum qbrt_status status;
	struct scene scene;
	int num = 0;

	scene_open(&scene);
	other = alloc_64(&scene.gated.rig);
	for (; num < NUM_QUEUED; num++) {
		outs[num] = alloc_64(&scene.gated.rig);
		late[num] = submit_late(&scene, outs[num]);
	}
	do {
		sched_yield();
		status = try_submit(&scene.gated.rig, scene.gated.rig.in, other,
				    &options, &future);
	} while (status == QBRT_WOULD_BLOCK);
	ck_assert_int_eq(status, QBRT_OK);
	ck_assert_ok(qbrt_future_cancel(future, NULL));
	ck_assert_status(take(future), QBRT_CANCELLED);
	while (num--) {
		ck_assert_status(take(late[num]),
				 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
		qbrt_pinned_memory_free(outs[num]);
	}
	qbrt_pinned_memory_free(other);
	ck_assert_status(take(scene.late), QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	scene_close(&scene);
}
END_TEST

void add_future_limit_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(
			a_limit_that_passes_in_the_queue_is_told_whoever_asks,
			qbrt_array_size(asks)),
		QBRT_TEST(nobody_holds_the_output_of_a_job_whose_limit_passed),
		QBRT_TEST(a_try_finds_the_room_of_jobs_whose_limit_passed),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
