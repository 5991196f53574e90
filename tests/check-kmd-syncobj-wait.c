// SPDX-License-Identifier: MIT
/*
 * Who waits for points of timelines (docs/spec/kernel.md, 3): threads, with
 * each of their flags, and jobs; by whatever the point comes.
 */
#include "check-kmd-syncobj.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "util.h"

#define NUM_ROUNDS 2000u
#define NUM_THREADS 4
#define NUM_SHARED 4

/* ---- TIMELINE_WAIT ---- */

/* Section 3, B66: what has not been submitted, what has, what has come */
START_TEST(waits_end_as_their_flags_say)
{
	struct kmd_gate gate;
	uint32_t handle;

	kmd_close_gate(&gate, _i);
	handle = gate.set.syncobj;
	ck_assert_points(handle, 0, 1);
	ck_assert_int_eq(kmd_wait_point(handle, 1, 0, 0), -ETIME);
	ck_assert_int_eq(kmd_wait_point(handle, 1, 0, INT64_MIN), -ETIME);
	ck_assert_int_eq(kmd_wait_point(handle, 1, 0, qbrt_now_ns() + 1000),
			 -ETIME);
	ck_assert_int_eq(kmd_wait_point(handle, 1, KMD_AVAILABLE, 0), 0);
	ck_assert_int_eq(kmd_wait_point(handle, 2, 0, KMD_FOREVER), -EINVAL);
	ck_assert_int_eq(kmd_wait_point(handle, 2, KMD_FOR_SUBMIT, 0), -ETIME);
	ck_assert_int_eq(
		kmd_wait_point(handle, 2, KMD_FOR_SUBMIT | KMD_AVAILABLE, 0),
		-ETIME);
	kmd_open_gate(&gate);
	ck_assert_points(handle, 1, 1);
	ck_assert_int_eq(kmd_wait_point(handle, 1, 0, 0), 0);
	ck_assert_int_eq(kmd_wait_point(handle, 1, 0, INT64_MIN), 0);
	kmd_end_gate(&gate);
}
END_TEST

START_TEST(waits_for_one_or_for_all_tell_the_first)
{
	uint32_t handles[3], first;
	const uint64_t points[3] = { 4, 4, 4 };

	kmd_begin(_i);
	for (int i = 0; i < 3; i++)
		handles[i] = kmd_create_syncobj();
	kmd_signal(handles[2], 4);
	ck_assert_int_eq(kmd_wait_points(handles, points, 3, 0, 0, &first),
			 -EINVAL);
	ck_assert_int_eq(
		kmd_wait_points(handles, points, 3, KMD_FOR_SUBMIT, 0, &first),
		0);
	ck_assert_uint_eq(first, 2);
	ck_assert_int_eq(kmd_wait_points(handles, points, 3,
					 KMD_FOR_SUBMIT | KMD_WAIT_ALL, 0,
					 &first),
			 -ETIME);
	kmd_signal(handles[1], 5);
	ck_assert_int_eq(
		kmd_wait_points(handles, points, 3, KMD_FOR_SUBMIT, 0, &first),
		0);
	ck_assert_uint_eq(first, 1);
	kmd_signal(handles[0], 4);
	ck_assert_int_eq(
		kmd_wait_points(handles, points, 3, KMD_WAIT_ALL, 0, &first),
		0);
	ck_assert_uint_eq(first, 0);
	kmd_end();
}
END_TEST

struct waiter {
	pthread_t thread;
	uint32_t handles[2];
	uint64_t points[2];
	uint32_t num, flags;
	int err;
	uint32_t first;
	atomic_bool has_ended;
};

static void *run_waiter(void *arg)
{
	struct waiter *waiter = arg;

	waiter->err =
		kmd_wait_points(waiter->handles, waiter->points, waiter->num,
				waiter->flags, KMD_FOREVER, &waiter->first);
	atomic_store(&waiter->has_ended, true);
	return NULL;
}

static void start_waiter(struct waiter *waiter)
{
	ck_assert_int_eq(
		pthread_create(&waiter->thread, NULL, run_waiter, waiter), 0);
}

static void end_waiter(struct waiter *waiter, int err)
{
	ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
	ck_assert_int_eq(waiter->err, err);
}

/* K082: a second thread waits for a job's point at once */
START_TEST(threads_wait_for_the_points_of_jobs)
{
	struct waiter waiters[NUM_THREADS] = { 0 };
	struct kmd_gate gate;

	kmd_close_gate(&gate, _i);
	for (int i = 0; i < NUM_THREADS; i++) {
		waiters[i].handles[0] = gate.set.syncobj;
		waiters[i].points[0] = gate.job;
		waiters[i].num = 1;
		start_waiter(&waiters[i]);
	}
	kmd_open_gate(&gate);
	for (int i = 0; i < NUM_THREADS; i++)
		end_waiter(&waiters[i], 0);
	kmd_end_gate(&gate);
}
END_TEST

/* B66: the point comes by a request of another thread, or is only submitted. */
START_TEST(threads_wait_for_what_is_not_submitted_yet)
{
	struct waiter all = { .num = 2,
			      .flags = KMD_WAIT_ALL | KMD_FOR_SUBMIT };
	struct waiter any = { .num = 2, .flags = KMD_FOR_SUBMIT };
	struct waiter available = { .num = 1, .flags = KMD_AVAILABLE };
	struct kmd_gate gate;

	kmd_close_gate(&gate, _i);
	for (int i = 0; i < 2; i++) {
		all.handles[i] = kmd_create_syncobj();
		any.handles[i] = all.handles[i];
		all.points[i] = 1;
		any.points[i] = i ? 1 : UINT64_MAX;
	}
	available.handles[0] = kmd_create_syncobj();
	available.points[0] = 3;
	start_waiter(&all);
	start_waiter(&any);
	start_waiter(&available);
	kmd_signal(all.handles[1], 1);
	end_waiter(&any, 0);
	ck_assert_uint_eq(any.first, 1);
	ck_assert(!atomic_load(&all.has_ended));
	kmd_signal(all.handles[0], 1);
	end_waiter(&all, 0);
	/* submitted, and held up by the gate */
	ck_assert_int_eq(kmd_transfer(gate.set.syncobj, gate.job,
				      available.handles[0], 3, 0),
			 0);
	end_waiter(&available, 0);
	ck_assert_points(available.handles[0], 0, 3);
	kmd_open_gate(&gate);
	ck_assert_int_eq(
		kmd_wait_point(available.handles[0], 3, 0, KMD_FOREVER), 0);
	kmd_end_gate(&gate);
}
END_TEST

struct pair {
	uint32_t ping, pong;
};

static void *answer(void *arg)
{
	const struct pair *pair = arg;

	for (uint64_t i = 1; i <= NUM_ROUNDS; i++) {
		ck_assert_int_eq(kmd_wait_point(pair->ping, i, KMD_FOR_SUBMIT,
						KMD_FOREVER),
				 0);
		kmd_signal(pair->pong, i);
	}
	return NULL;
}

/* No wake-up is lost */
START_TEST(two_threads_take_turns)
{
	pthread_t thread;
	struct pair pair;

	kmd_begin(_i);
	pair.ping = kmd_create_syncobj();
	pair.pong = kmd_create_syncobj();
	ck_assert_int_eq(pthread_create(&thread, NULL, answer, &pair), 0);
	for (uint64_t i = 1; i <= NUM_ROUNDS; i++) {
		kmd_signal(pair.ping, i);
		ck_assert_int_eq(kmd_wait_point(pair.pong, i, KMD_FOR_SUBMIT,
						KMD_FOREVER),
				 0);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	kmd_end();
}
END_TEST

static void ignore_signal(int number)
{
	(void)number;
}

/* K009: it had no effect, and is to be repeated */
START_TEST(a_signal_interrupts_a_wait)
{
	struct waiter waiter = { .num = 1, .flags = KMD_FOR_SUBMIT };
	struct sigaction action = { .sa_handler = ignore_signal };

	kmd_begin(_i);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	waiter.handles[0] = kmd_create_syncobj();
	waiter.points[0] = 1;
	start_waiter(&waiter);
	/* until one comes while it sleeps */
	while (!atomic_load(&waiter.has_ended))
		ck_assert_int_eq(pthread_kill(waiter.thread, SIGUSR1), 0);
	end_waiter(&waiter, -EINTR);
	start_waiter(&waiter);
	kmd_signal(waiter.handles[0], 1);
	ck_assert_int_eq(pthread_join(waiter.thread, NULL), 0);
	kmd_end();
}
END_TEST

/* ---- jobs ---- */

/* K083 K085: each fate raises the point */
START_TEST(every_job_raises_the_point)
{
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (uint64_t i = 1; i <= 1000; i++) {
		if (i % 2)
			kmd_prepare(&job, set.queue, set.copy64, &set.input,
				    &set.output);
		else
			kmd_prepare_empty(&job, set.queue);
		ck_assert_uint_eq(kmd_submit(&job), i);
		if (i % 3 == 0)
			kmd_cancel(set.queue, i);
		/* a queue takes 256 */
		if (i % 100 == 0)
			ck_assert_int_eq(
				kmd_wait_point(set.syncobj, i, 0, KMD_FOREVER),
				0);
	}
	ck_assert_int_eq(kmd_wait_point(set.syncobj, 1000, 0, KMD_FOREVER), 0);
	ck_assert_points(set.syncobj, 1000, 1000);
	kmd_end_set(&set);
}
END_TEST

/* K082 K084: points that requests bring, and their source's failure */
START_TEST(jobs_wait_for_points_of_requests)
{
	uint32_t handle, queue;
	struct kmd_job job, early;
	struct kmd_gate gate;

	kmd_close_gate(&gate, _i);
	handle = kmd_create_syncobj();
	queue = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&early, queue);
	kmd_add_sync(&early, handle, 7, 0);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &early.submit, EINVAL,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(early.submit));
	ck_assert_uint_eq(early.submit.fail_what, DRM_QBNPU_FAIL_IN_SYNC);
	kmd_signal(handle, 7);
	ck_assert_int_eq(kmd_wait(queue, kmd_submit(&early)).status, 0);

	ck_assert_int_eq(kmd_transfer(gate.set.syncobj, gate.job, handle, 9, 0),
			 0);
	kmd_prepare_empty(&job, queue);
	kmd_add_sync(&job, handle, 8, 0);
	ck_assert_uint_eq(kmd_submit(&job), 2);
	job.syncs[0].flags = DRM_QBNPU_SYNC_ANY_RESULT;
	ck_assert_uint_eq(kmd_submit(&job), 3);
	ck_assert_uint_eq(kmd_get_state(queue, 2), DRM_QBNPU_JOB_WAITS);
	kmd_open_gate(&gate);
	ck_assert_int_eq(kmd_wait(queue, 2).status, -ECANCELED);
	ck_assert_uint_eq(kmd_wait(queue, 2).cause, DRM_QBNPU_CAUSE_FENCE);
	ck_assert_int_eq(kmd_wait(queue, 3).status, 0);
	ck_assert_points(handle, 9, 9);
	/* complete before SUBMIT counts as good */
	job.syncs[0].flags = 0;
	ck_assert_int_eq(kmd_wait(queue, kmd_submit(&job)).status, 0);
	kmd_end_gate(&gate);
}
END_TEST

/* K078: a waiter holds the timeline, whoever goes first */
START_TEST(timeline_and_queue_go_under_a_waiter)
{
	for (int is_queue_first = 0; is_queue_first < 2; is_queue_first++) {
		struct waiter waiter = { .num = 1 };
		struct kmd_gate gate;
		uint32_t queue;
		struct kmd_job job;

		kmd_close_gate(&gate, _i);
		queue = kmd_create_queue(0, &waiter.handles[0]);
		kmd_prepare_empty(&job, queue);
		kmd_add_sync(&job, gate.set.syncobj, gate.job,
			     DRM_QBNPU_SYNC_ANY_RESULT);
		waiter.points[0] = kmd_submit(&job);
		if (is_queue_first)
			kmd_destroy_queue(queue);
		/* a job that waits has to be told of as well */
		kmd_prepare_empty(&job, gate.set.queue);
		kmd_add_sync(&job, waiter.handles[0], 1, 0);
		ck_assert_uint_eq(kmd_submit(&job), 2);
		waiter.flags = KMD_FOR_SUBMIT;
		start_waiter(&waiter);
		kmd_open_gate(&gate);
		end_waiter(&waiter, 0);
		kmd_destroy_syncobj(waiter.handles[0]);
		if (!is_queue_first)
			kmd_destroy_queue(queue);
		ck_assert_int_eq(kmd_wait(gate.set.queue, 2).status, 0);
		kmd_end_gate(&gate);
	}
}
END_TEST

/* K078: it disorders this timeline, and nothing else */
START_TEST(a_point_signalled_in_advance_harms_nobody_else)
{
	struct kmd_gate gate;
	struct kmd_job job;

	kmd_close_gate(&gate, _i);
	kmd_signal(gate.set.syncobj, 100);
	/* the job's own point comes before it */
	ck_assert_points(gate.set.syncobj, 0, 100);
	kmd_prepare(&job, gate.set.queue, gate.set.copy64, &gate.set.input,
		    &gate.set.output);
	ck_assert_uint_eq(kmd_submit(&job), 2);
	ck_assert_uint_eq(kmd_get_state(gate.set.queue, 2),
			  DRM_QBNPU_JOB_QUEUED);
	kmd_open_gate(&gate);
	ck_assert_int_eq(kmd_wait(gate.set.queue, 2).status, 0);
	ck_assert_mem_eq(gate.set.output.data, gate.set.input.data, KMD_BYTES);
	ck_assert_points(gate.set.syncobj, 100, 100);
	kmd_end_gate(&gate);
}
END_TEST

/* ---- threads ---- */

struct shared {
	struct kmd_set *set;
	int eventfd;
	_Atomic uint32_t handles[NUM_SHARED];
	atomic_uint seed;
};

static void use_any(struct shared *shared, unsigned int random)
{
	uint32_t one = atomic_load(&shared->handles[random % NUM_SHARED]);
	uint32_t two = atomic_load(&shared->handles[random / 4 % NUM_SHARED]);
	int64_t soon_ns = qbrt_now_ns() + 50000;
	struct kmd_job job;
	int err = 0;

	switch (random / 16 % 6) {
	case 0:
		err = kmd_try_signal(one, random / 256 % 64 + 1);
		break;
	case 1:
		err = kmd_transfer(one, random / 256 % 32 + 1, two,
				   random / 8192 % 64 + 1, 0);
		break;
	case 2:
		err = kmd_wait_point(
			one, random / 256 % 64 + 1,
			random & 128 ? KMD_FOR_SUBMIT : KMD_AVAILABLE, soon_ns);
		break;
	case 3:
		kmd_prepare(&job, shared->set->queue, shared->set->copy64,
			    &shared->set->input, &shared->set->output);
		kmd_add_sync(&job, one, random / 256 % 16 + 1, 0);
		err = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
		break;
	case 4:
		if (kmd_has_eventfd())
			err = kmd_register_eventfd(one, random / 256 % 64 + 1,
						   0, shared->eventfd);
		break;
	default:
		err = kmd_transfer(shared->set->syncobj, random / 256 % 8 + 1,
				   one, random / 8192 % 64 + 1, 0);
		break;
	}
	ck_assert(!err || err == -ENOENT || err == -EINVAL || err == -ETIME ||
		  err == -ENOSPC);
}

static void *mix(void *arg)
{
	struct shared *shared = arg;
	unsigned int random = atomic_fetch_add(&shared->seed, 1) * 2654435761u;

	for (int i = 0; i < 400; i++) {
		random = random * 1664525u + 1013904223u;
		use_any(shared, random >> 3);
		if (i % 16 == 0) {
			struct drm_syncobj_destroy destroy = { 0 };
			uint32_t made = kmd_create_syncobj();
			int err;

			destroy.handle = atomic_exchange(
				&shared->handles[random >> 7 & 3], made);
			err = kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
			ck_assert_int_eq(err, 0);
		}
	}
	return NULL;
}

/* K011: and the file closes on what is still to come */
START_TEST(four_threads_use_each_others_timelines)
{
	struct shared shared = { .seed = 1 };
	pthread_t threads[NUM_THREADS];
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	shared.set = &set;
	shared.eventfd = kmd_make_eventfd();
	for (int i = 0; i < NUM_SHARED; i++)
		shared.handles[i] = kmd_create_syncobj();
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, mix, &shared), 0);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(close(shared.eventfd), 0);
	kmd_end_set(&set);
}
END_TEST

void kmd_syncobj_wait_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(waits_end_as_their_flags_say),
		QBRT_TEST(waits_for_one_or_for_all_tell_the_first),
		QBRT_TEST(threads_wait_for_the_points_of_jobs),
		QBRT_TEST(threads_wait_for_what_is_not_submitted_yet),
		QBRT_TEST(two_threads_take_turns),
		QBRT_TEST(a_signal_interrupts_a_wait),
		QBRT_TEST(every_job_raises_the_point),
		QBRT_TEST(jobs_wait_for_points_of_requests),
		QBRT_TEST(timeline_and_queue_go_under_a_waiter),
		QBRT_TEST(a_point_signalled_in_advance_harms_nobody_else),
		QBRT_TEST(four_threads_use_each_others_timelines),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
