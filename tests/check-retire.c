// SPDX-License-Identifier: MIT
/*
 * The retirement thread of a device: there when it is needed and not before,
 * gone when the device is closed, by others or by the thread itself; and what
 * happens where no thread can be had.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "future.h"
#include "kmd-watch.h"
#include "no-threads.h"
#include "retire.h"
#include "test-util.h"
#include "unit-job.h"
#include "util.h"

#define NUM_QUEUES 20
#define NUM_JOBS 10 /* of a queue */

/* Threads of this process with that name. */
static unsigned int count_named(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned int num = 0;

	ck_assert_ptr_nonnull(tasks);
	while ((task = readdir(tasks))) {
		char path[300], comm[32] = "";
		FILE *file;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			       task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = '\0';
		num += !strcmp(comm, name);
		(void)fclose(file);
	}
	(void)closedir(tasks);
	return num;
}

static unsigned int count_retire_threads(void)
{
	return count_named("qbrt-retire");
}

static struct qbrt_device *get_device(const struct gated *gated)
{
	return gated->rig.acc->device;
}

/* SO8 Q366: calls that end their jobs themselves need no thread. */
START_TEST(there_is_no_thread_until_one_is_needed)
{
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	ck_assert_ok(rig_infer(&rig, NULL));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(qbrt_future_wait(future, -1));
	ck_assert_ok(qbrt_future_cancel(future, NULL));
	ck_assert_ok(take(future));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(take(future));
	ck_assert_ptr_null(atomic_load(&rig.acc->device->retire));
	ck_assert_uint_eq(count_retire_threads(), 0);
	rig_close(&rig);
}
END_TEST

/* Q382 */
START_TEST(a_watched_job_is_ended_and_told_once)
{
	struct unit_job *unit;
	struct qbrt_queue *queue;
	struct qbrt_future *gate;
	atomic_uint num_freed = 0;
	struct gated gated;

	gated_open(&gated, 0);
	ck_assert_ok(qbrt_device_take_queue(get_device(&gated), &queue));
	gate = submit(&gated.rig, gated.rig.in, gated.rig.out);
	unit = unit_job_alloc(get_device(&gated), &num_freed);
	ck_assert_int_eq(unit_job_submit(unit, queue, gate), 0);
	ck_assert_int_eq(qbrt_retire_watch(get_device(&gated), &unit->job), 0);
	ck_assert_int_eq(qbrt_retire_watch(get_device(&gated), &unit->job), 0);
	/* it names itself when it runs */
	while (count_retire_threads() != 1)
		sched_yield();
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 0);
	ck_assert_uint_eq(atomic_load(&unit->num_notified), 0);
	ck_assert(sim_step(&gated.sim));
	while (!atomic_load(&unit->num_notified))
		sched_yield();
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 1);
	/* the list's reference and the thread's are given back */
	while (atomic_load(&unit->job.references) != 1)
		sched_yield();
	ck_assert_uint_eq(atomic_load(&unit->num_notified), 1);
	qbrt_job_unref(&unit->job);
	ck_assert_ok(take(gate));
	qbrt_device_give_queue(get_device(&gated), queue);
	gated_close(&gated);
	ck_assert_uint_eq(count_retire_threads(), 0);
}
END_TEST

/* Q378: on many queues, let go by all others. */
START_TEST(one_thread_watches_all_queues)
{
	struct qbrt_queue *queues[NUM_QUEUES];
	struct qbrt_future *gate;
	atomic_uint num_freed = 0;
	struct gated gated;

	gated_open(&gated, 0);
	gate = submit(&gated.rig, gated.rig.in, gated.rig.out);
	for (int i = 0; i < NUM_QUEUES; i++)
		ck_assert_ok(
			qbrt_device_take_queue(get_device(&gated), &queues[i]));
	for (int i = 0; i < NUM_QUEUES * NUM_JOBS; i++) {
		struct unit_job *unit =
			unit_job_alloc(get_device(&gated), &num_freed);

		ck_assert_int_eq(unit_job_submit(unit, queues[i % NUM_QUEUES],
						 i % 3 ? gate : NULL),
				 0);
		ck_assert_int_eq(
			qbrt_retire_watch(get_device(&gated), &unit->job), 0);
		qbrt_job_unref(&unit->job);
	}
	ck_assert(sim_step(&gated.sim));
	while (atomic_load(&num_freed) < NUM_QUEUES * NUM_JOBS)
		sched_yield();
	ck_assert_uint_le(count_retire_threads(), 1);
	for (int i = 0; i < NUM_QUEUES; i++) {
		ck_assert_ptr_null(queues[i]->first);
		qbrt_device_give_queue(get_device(&gated), queues[i]);
	}
	ck_assert_ok(take(gate));
	gated_close(&gated);
	ck_assert_uint_eq(count_retire_threads(), 0);
}
END_TEST

struct watcher {
	pthread_t thread;
	struct qbrt_device *device;
	struct unit_job *unit;
	pthread_barrier_t *start;
	int err;
};

static void *watch(void *arg)
{
	struct watcher *watcher = arg;

	(void)pthread_barrier_wait(watcher->start);
	watcher->err = qbrt_retire_watch(watcher->device, &watcher->unit->job);
	return NULL;
}

/* SO8: all first at once. */
START_TEST(of_several_that_start_the_thread_one_does)
{
	struct watcher watchers[8];
	pthread_barrier_t start;
	atomic_uint num_freed = 0;
	struct qbrt_queue *queue;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	ck_assert_ok(qbrt_device_take_queue(rig.acc->device, &queue));
	ck_assert(!pthread_barrier_init(&start, NULL, 8));
	for (int i = 0; i < 8; i++) {
		watchers[i] = (struct watcher){ .device = rig.acc->device,
						.start = &start };
		watchers[i].unit = unit_job_alloc(rig.acc->device, &num_freed);
		ck_assert_int_eq(unit_job_submit(watchers[i].unit, queue, NULL),
				 0);
		ck_assert(!pthread_create(&watchers[i].thread, NULL, watch,
					  &watchers[i]));
	}
	for (int i = 0; i < 8; i++) {
		ck_assert(!pthread_join(watchers[i].thread, NULL));
		ck_assert_int_eq(watchers[i].err, 0);
		qbrt_job_unref(&watchers[i].unit->job);
	}
	while (atomic_load(&num_freed) < 8)
		sched_yield();
	ck_assert_uint_le(count_retire_threads(), 1);
	(void)pthread_barrier_destroy(&start);
	qbrt_device_give_queue(rig.acc->device, queue);
	rig_close(&rig);
	ck_assert_uint_eq(count_retire_threads(), 0);
}
END_TEST

static void *close_device(void *arg)
{
	qbrt_accelerator_close(arg);
	return NULL;
}

/* SO2: the last close, on any thread, waits for it. */
START_TEST(closing_ends_the_thread)
{
	struct qbrt_accelerator *acc = NULL;
	struct qbrt_queue *queue;
	struct unit_job *unit;
	atomic_uint num_freed = 0;
	pthread_t thread;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_device_take_queue(acc->device, &queue));
	unit = unit_job_alloc(acc->device, &num_freed);
	ck_assert_int_eq(unit_job_submit(unit, queue, NULL), 0);
	ck_assert_int_eq(qbrt_retire_watch(acc->device, &unit->job), 0);
	qbrt_job_unref(&unit->job);
	while (!atomic_load(&num_freed))
		sched_yield();
	qbrt_device_give_queue(acc->device, queue);
	ck_assert(!pthread_create(&thread, NULL, close_device, acc));
	ck_assert(!pthread_join(thread, NULL));
	/* who has been joined may be listed a moment longer */
	while (count_retire_threads())
		sched_yield();
}
END_TEST

/* SO2: the job that it watches is the last that has the device. */
START_TEST(the_thread_may_close_the_device_itself)
{
	struct gated gated, again;
	struct qbnpu_job *job;

	gated_open(&gated, 0);
	qbrt_future_free(submit(&gated.rig, gated.rig.in, gated.rig.out));
	job = sim_begin(&gated.sim);
	while (count_retire_threads() != 1)
		sched_yield();
	rig_close(&gated.rig);
	ck_assert_uint_eq(count_retire_threads(), 1);
	ck_assert(sim_finish(&gated.sim, job, QBNPU_CAUSE_NONE));
	/* the stepped engine went with its device */
	while (count_retire_threads())
		sched_yield();
	/* what is left of it opens anew */
	gated_open(&again, 0);
	gated_close(&again);
}
END_TEST

/* ST7: the request that wakes it is repeated, one that it needs is not. */
START_TEST(a_failed_request_loses_no_job)
{
	const unsigned long requests[] = {
		DRM_IOCTL_SYNCOBJ_CREATE,
		DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
		DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
	};
	struct qbrt_queue *queue;
	struct unit_job *unit;
	atomic_uint num_freed = 0;
	struct rig rig;
	int err;

	rig_open(&rig, NULL, load_copy(0));
	kmd_watch_begin(rig.acc);
	ck_assert_ok(qbrt_device_take_queue(rig.acc->device, &queue));
	unit = unit_job_alloc(rig.acc->device, &num_freed);
	ck_assert_int_eq(unit_job_submit(unit, queue, NULL), 0);
	atomic_store(&kmd_watch.fail_request, requests[_i]);
	atomic_store(&kmd_watch.fail_at, 1);
	err = qbrt_retire_watch(rig.acc->device, &unit->job);
	if (_i == 0) {
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_ptr_null(atomic_load(&rig.acc->device->retire));
		ck_assert_uint_eq(atomic_load(&unit->job.references), 2);
		err = qbrt_retire_watch(rig.acc->device, &unit->job);
	}
	ck_assert_int_eq(err, 0);
	qbrt_job_unref(&unit->job);
	while (!atomic_load(&num_freed))
		sched_yield();
	/* the close rings too */
	atomic_store(&kmd_watch.fail_at, 1);
	qbrt_device_give_queue(rig.acc->device, queue);
	rig_close(&rig);
}
END_TEST

static void count_call(void *arg, struct qbrt_future *future)
{
	(void)future;
	atomic_fetch_add((atomic_uint *)arg, 1);
}

struct stepper {
	pthread_t thread;
	struct sim *sim;
	atomic_bool may_step;
};

static void *step_when_told(void *arg)
{
	struct stepper *stepper = arg;

	while (!atomic_load(&stepper->may_step))
		sched_yield();
	(void)sim_step(stepper->sim);
	return NULL;
}

static void check_without_threads(struct gated *gated, struct stepper *stepper)
{
	struct qbrt_future *future =
		submit(&gated->rig, gated->rig.in, gated->rig.out);
	atomic_uint num_calls = 0;

	/* refused, and as if it had not been asked for */
	ck_assert_status(
		qbrt_future_set_callback(future, count_call, &num_calls),
		QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail("no thread for callbacks");
	ck_assert_ptr_null(atomic_load(&get_device(gated)->retire));
	/* the device's work does not depend on it */
	ck_assert(!is_done(future));
	atomic_store(&stepper->may_step, true);
	/* free waits itself: then the buffers are nobody's */
	qbrt_future_free(future);
	ck_assert_uint_eq(atomic_load(&num_calls), 0);
	ck_assert(holds(gated->rig.out, 5));
}

/* Q378 Q382 SO8: a process that gets no more threads. */
START_TEST(without_a_thread_the_calls_wait_themselves)
{
	struct stepper stepper = { .may_step = false };
	struct qbrt_future *future;
	struct gated gated;
	bool is_forbidden;

	gated_open(&gated, 0);
	fill(gated.rig.in, 5);
	stepper.sim = &gated.sim;
	ck_assert(!pthread_create(&stepper.thread, NULL, step_when_told,
				  &stepper));
	/* the device's own threads are there */
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	is_forbidden = forbid_threads();
	if (is_forbidden)
		check_without_threads(&gated, &stepper);
	atomic_store(&stepper.may_step, true);
	if (is_forbidden) {
		/* stopped by dispose; its future ends it */
		future = submit(&gated.rig, gated.rig.in, gated.rig.out);
		ck_assert_ok(qbrt_model_dispose(gated.rig.model));
		ck_assert_status(take(future),
				 QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE);
		ck_assert_ok(qbrt_model_launch(gated.rig.model, gated.rig.acc));
	}
	allow_threads();
	ck_assert(!pthread_join(stepper.thread, NULL));
	gated_close(&gated);
	if (!is_forbidden)
		qbrt_test_note_skip("threads cannot be forbidden here");
}
END_TEST

/* Q378: a callback that was refused may be set later. */
START_TEST(a_refused_callback_may_be_set_again)
{
	struct qbrt_future *future;
	atomic_uint num_calls = 0;
	struct gated gated;

	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	kmd_watch_begin(gated.rig.acc);
	atomic_store(&kmd_watch.fail_request, DRM_IOCTL_SYNCOBJ_CREATE);
	atomic_store(&kmd_watch.fail_at, 1);
	ck_assert_status(
		qbrt_future_set_callback(future, count_call, &num_calls),
		QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_ok(qbrt_future_set_callback(future, count_call, &num_calls));
	ck_assert(sim_step(&gated.sim));
	while (!atomic_load(&num_calls))
		sched_yield();
	ck_assert_ok(take(future));
	gated_close(&gated);
	ck_assert_uint_eq(atomic_load(&num_calls), 1);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(there_is_no_thread_until_one_is_needed),
		QBRT_TEST(a_watched_job_is_ended_and_told_once),
		QBRT_TEST(one_thread_watches_all_queues),
		QBRT_TEST(of_several_that_start_the_thread_one_does),
		QBRT_TEST(closing_ends_the_thread),
		QBRT_TEST(the_thread_may_close_the_device_itself),
		QBRT_LOOP_TEST(a_failed_request_loses_no_job, 3),
		QBRT_TEST(without_a_thread_the_calls_wait_themselves),
		QBRT_TEST(a_refused_callback_may_be_set_again),
	};

	return qbrt_test_run("retire", tests, qbrt_array_size(tests));
}
