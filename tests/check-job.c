// SPDX-License-Identifier: MIT
/*
 * Jobs that nobody waits for: the list of a queue, and that each ends exactly
 * once, on whichever thread finds it complete. The jobs are empty and stand
 * behind a gate on a stepped device.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "future.h"
#include "kmd-watch.h"
#include "test-util.h"
#include "unit-job.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_JOBS 8 /* of a thread */
#define NUM_ROUNDS 50

struct bench {
	struct gated gated;
	struct qbrt_device *device;
	struct qbrt_queue *queue;
	struct qbrt_future *gate;
	atomic_uint num_freed;
};

static void bench_open(struct bench *bench)
{
	gated_open(&bench->gated, 0);
	bench->device = bench->gated.rig.acc->device;
	ck_assert_ok(qbrt_device_take_queue(bench->device, &bench->queue));
	bench->gate = submit(&bench->gated.rig, bench->gated.rig.in,
			     bench->gated.rig.out);
	ck_assert_ptr_ne(bench->gate->job.queue, bench->queue);
	atomic_init(&bench->num_freed, 0);
}

static void open_gate(struct bench *bench)
{
	ck_assert(sim_step(&bench->gated.sim));
	ck_assert_ok(take(bench->gate));
}

static void bench_close(struct bench *bench)
{
	ck_assert_ptr_null(bench->queue->first);
	ck_assert_ptr_null(bench->queue->last);
	ck_assert_uint_eq(atomic_load(&bench->queue->num_jobs), 0);
	qbrt_device_give_queue(bench->device, bench->queue);
	gated_close(&bench->gated);
}

static struct unit_job *start(struct bench *bench,
			      const struct qbrt_future *gate)
{
	struct unit_job *unit =
		unit_job_alloc(bench->device, &bench->num_freed);

	ck_assert_int_eq(unit_job_submit(unit, bench->queue, gate), 0);
	return unit;
}

/* Q366 K083: SUBMIT's numbers, in their order, whoever submits. */
struct submitter {
	pthread_t thread;
	struct bench *bench;
	struct unit_job *jobs[NUM_JOBS];
};

static void *submit_some(void *arg)
{
	struct submitter *submitter = arg;

	for (int i = 0; i < NUM_JOBS; i++)
		submitter->jobs[i] =
			start(submitter->bench, submitter->bench->gate);
	return NULL;
}

START_TEST(the_list_is_in_the_order_of_numbers)
{
	struct submitter submitters[NUM_THREADS];
	struct bench bench;
	uint64_t number = 0;

	bench_open(&bench);
	for (int i = 0; i < NUM_THREADS; i++) {
		submitters[i].bench = &bench;
		ck_assert(!pthread_create(&submitters[i].thread, NULL,
					  submit_some, &submitters[i]));
	}
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_join(submitters[i].thread, NULL));
	for (struct qbrt_job *job = bench.queue->first; job; job = job->next)
		ck_assert_uint_eq(job->number, ++number);
	ck_assert_uint_eq(number, NUM_THREADS * NUM_JOBS);
	ck_assert_uint_eq(atomic_load(&bench.queue->num_jobs), number);
	ck_assert_uint_eq(bench.queue->last->number, number);
	open_gate(&bench);
	qbrt_queue_collect(bench.queue);
	/* in that order they end, too */
	for (int i = 0; i < NUM_THREADS; i++)
		for (int k = 0; k < NUM_JOBS; k++) {
			struct unit_job *unit = submitters[i].jobs[k];

			ck_assert_uint_eq(atomic_load(&unit->num_ends), 1);
			ck_assert_uint_eq(unit->place + 1, unit->job.number);
			qbrt_job_unref(&unit->job);
		}
	ck_assert_uint_eq(atomic_load(&bench.num_freed), number);
	bench_close(&bench);
}
END_TEST

/* K112: a job that comes to the list late, as any of three in its queue. */
START_TEST(a_job_is_listed_in_its_place)
{
	struct unit_job *units[3];
	struct bench bench;
	uint64_t number = 0;

	bench_open(&bench);
	for (int i = 0; i < 3; i++) {
		if (i == _i)
			number = unit_job_submit_unlisted(bench.queue,
							  bench.gate);
		else
			units[i] = start(&bench, bench.gate);
	}
	units[_i] = unit_job_alloc(bench.device, &bench.num_freed);
	qbrt_job_list(&units[_i]->job, bench.queue, number);
	number = 0;
	for (struct qbrt_job *job = bench.queue->first; job; job = job->next) {
		ck_assert_uint_eq(job->number, number + 1);
		ck_assert_ptr_eq(job, &units[number++]->job);
	}
	ck_assert_uint_eq(number, 3);
	ck_assert_ptr_eq(bench.queue->last, &units[2]->job);
	ck_assert_uint_eq(atomic_load(&bench.queue->num_jobs), 3);
	open_gate(&bench);
	qbrt_queue_collect(bench.queue);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(atomic_load(&units[i]->num_ends), 1);
		ck_assert_int_eq(units[i]->err, 0);
		qbrt_job_unref(&units[i]->job);
	}
	ck_assert_uint_eq(atomic_load(&bench.num_freed), 3);
	bench_close(&bench);
}
END_TEST

/* Q366: nothing ends before its time, however it is asked. */
START_TEST(a_job_in_flight_has_not_ended)
{
	struct unit_job *unit;
	struct bench bench;

	bench_open(&bench);
	unit = start(&bench, bench.gate);
	ck_assert(qbrt_job_is_queued(&unit->job));
	ck_assert(!qbrt_job_collect(&unit->job));
	ck_assert(!qbrt_job_poll(&unit->job));
	qbrt_queue_collect(bench.queue);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, 0), -ETIME);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, 1), -ETIME);
	ck_assert(!qbrt_job_has_ended(&unit->job));
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 0);
	open_gate(&bench);
	ck_assert(qbrt_job_collect(&unit->job));
	ck_assert(qbrt_job_has_ended(&unit->job));
	ck_assert(!qbrt_job_is_queued(&unit->job));
	ck_assert(qbrt_job_collect(&unit->job));
	ck_assert(qbrt_job_poll(&unit->job));
	ck_assert_int_eq(qbrt_job_wait(&unit->job, 0), 0);
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 1);
	ck_assert_int_eq(unit->status, 0);
	ck_assert_uint_eq(atomic_load(&unit->num_notified), 0);
	qbrt_job_unref(&unit->job);
	ck_assert_uint_eq(atomic_load(&bench.num_freed), 1);
	bench_close(&bench);
}
END_TEST

/* Q366: the list keeps a job that all others have let go. */
START_TEST(the_list_has_a_reference)
{
	struct bench bench;

	bench_open(&bench);
	qbrt_job_unref(&start(&bench, bench.gate)->job);
	qbrt_job_unref(&start(&bench, bench.gate)->job);
	ck_assert_uint_eq(atomic_load(&bench.num_freed), 0);
	open_gate(&bench);
	qbrt_queue_collect(bench.queue);
	ck_assert_uint_eq(atomic_load(&bench.num_freed), 2);
	bench_close(&bench);
}
END_TEST

/* Q366: one in the middle ends first when it is asked first. */
START_TEST(jobs_leave_the_list_in_any_order)
{
	struct unit_job *units[3];
	struct bench bench;

	bench_open(&bench);
	for (int i = 0; i < 3; i++)
		units[i] = start(&bench, bench.gate);
	open_gate(&bench);
	for (int i = 0; i < 3; i++) {
		int at = (i + _i) % 3;

		ck_assert_int_eq(qbrt_job_wait(&units[at]->job, INT64_MAX), 0);
		ck_assert_uint_eq(atomic_load(&bench.queue->num_jobs), 2 - i);
		ck_assert_uint_eq(atomic_load(&bench.num_freed), i);
		qbrt_job_unref(&units[at]->job);
	}
	bench_close(&bench);
}
END_TEST

/* K115: cancelled, while the one in front of it has not ended. */
START_TEST(poll_sees_what_the_progress_page_does_not_show)
{
	struct unit_job *first, *second;
	struct bench bench;

	bench_open(&bench);
	first = start(&bench, bench.gate);
	second = start(&bench, bench.gate);
	ck_assert_int_eq(qbrt_queue_cancel(bench.queue, second->job.number), 0);
	ck_assert(!qbrt_job_collect(&second->job));
	ck_assert(qbrt_job_poll(&second->job));
	ck_assert_int_eq(second->status, -ECANCELED);
	ck_assert(!qbrt_job_poll(&first->job));
	ck_assert_ptr_eq(bench.queue->first, &first->job);
	ck_assert_ptr_eq(bench.queue->last, &first->job);
	open_gate(&bench);
	ck_assert(qbrt_job_collect(&first->job));
	qbrt_job_unref(&first->job);
	qbrt_job_unref(&second->job);
	bench_close(&bench);
}
END_TEST

static bool has_number(const struct qbrt_job *job, void *arg)
{
	return qbrt_job_is_queued(job) && job->number == *(uint64_t *)arg;
}

/* Q481: who looks for a job has it, with a reference. */
START_TEST(a_job_is_found_in_its_queue)
{
	struct unit_job *units[3];
	struct qbrt_job *found;
	struct bench bench;
	uint64_t number = 1;

	bench_open(&bench);
	ck_assert_ptr_null(qbrt_queue_find(bench.queue, has_number, &number));
	for (int i = 0; i < 3; i++)
		units[i] = start(&bench, bench.gate);
	for (number = 1; number <= 3; number++) {
		found = qbrt_queue_find(bench.queue, has_number, &number);
		ck_assert_ptr_eq(found, &units[number - 1]->job);
		ck_assert_uint_eq(atomic_load(&found->references), 3);
		ck_assert_ptr_eq(
			qbrt_device_find_job(bench.device, has_number, &number),
			found);
		qbrt_job_unref(found);
		qbrt_job_unref(found);
	}
	ck_assert_ptr_null(qbrt_queue_find(bench.queue, has_number, &number));
	open_gate(&bench);
	qbrt_device_collect(bench.device);
	number = 1;
	ck_assert_ptr_null(qbrt_queue_find(bench.queue, has_number, &number));
	for (int i = 0; i < 3; i++)
		qbrt_job_unref(&units[i]->job);
	bench_close(&bench);
}
END_TEST

/* K080: then nothing happened. */
START_TEST(a_refused_submit_leaves_no_trace)
{
	struct unit_job *unit;
	struct bench bench;

	bench_open(&bench);
	kmd_watch_begin(bench.gated.rig.acc);
	unit = unit_job_alloc(bench.device, &bench.num_freed);
	atomic_store(&kmd_watch.fail_request, DRM_IOCTL_QBNPU_SUBMIT);
	atomic_store(&kmd_watch.fail_at, 1);
	ck_assert_int_eq(unit_job_submit(unit, bench.queue, NULL), -ENOMEM);
	ck_assert_ptr_null(bench.queue->first);
	ck_assert_uint_eq(atomic_load(&unit->job.references), 1);
	ck_assert(!atomic_load(&unit->job.is_submitted));
	/* it may be submitted again */
	ck_assert_int_eq(unit_job_submit(unit, bench.queue, NULL), 0);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, INT64_MAX), 0);
	qbrt_job_unref(&unit->job);
	open_gate(&bench);
	bench_close(&bench);
}
END_TEST

/* K112: the end comes all the same. */
START_TEST(a_lost_result_ends_the_job)
{
	struct unit_job *unit;
	struct bench bench;

	bench_open(&bench);
	kmd_watch_begin(bench.gated.rig.acc);
	unit = start(&bench, NULL);
	atomic_store(&kmd_watch.fail_request, DRM_IOCTL_QBNPU_WAIT);
	atomic_store(&kmd_watch.fail_at, 1);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, INT64_MAX), 0);
	ck_assert_int_eq(unit->err, -ENOMEM);
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 1);
	qbrt_job_unref(&unit->job);
	open_gate(&bench);
	bench_close(&bench);
}
END_TEST

static bool say_stop(void *arg)
{
	(void)arg;
	return true;
}

/* Q739: the job goes on. */
START_TEST(an_interrupted_wait_leaves_the_job_alone)
{
	struct unit_job *unit;
	struct bench bench;

	bench_open(&bench);
	unit = start(&bench, bench.gate);
	qbrt_set_interrupt_function(say_stop, NULL);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, INT64_MAX), -EINTR);
	qbrt_set_interrupt_function(NULL, NULL);
	ck_assert(qbrt_job_is_queued(&unit->job));
	ck_assert_uint_eq(atomic_load(&unit->num_ends), 0);
	open_gate(&bench);
	ck_assert_int_eq(qbrt_job_wait(&unit->job, INT64_MAX), 0);
	ck_assert_int_eq(unit->status, 0);
	qbrt_job_unref(&unit->job);
	bench_close(&bench);
}
END_TEST

struct asker {
	pthread_t thread;
	struct unit_job **units;
	struct qbrt_queue *queue;
	unsigned int number;
	unsigned int num_wrong;
};

/* Each thread has its way of asking, and sees what end() wrote. */
static void *ask_all(void *arg)
{
	struct asker *asker = arg;

	for (int i = 0; i < NUM_JOBS; i++) {
		struct unit_job *unit = asker->units[i];

		switch (asker->number % 4) {
		case 0:
			while (!qbrt_job_collect(&unit->job))
				sched_yield();
			break;
		case 1:
			while (!qbrt_job_poll(&unit->job))
				sched_yield();
			break;
		case 2:
			(void)qbrt_job_wait(&unit->job, INT64_MAX);
			break;
		default:
			while (!qbrt_job_has_ended(&unit->job))
				qbrt_queue_collect(asker->queue);
			break;
		}
		asker->num_wrong += unit->err || unit->status ||
				    !unit->job.number ||
				    atomic_load(&unit->num_ends) != 1;
	}
	return NULL;
}

/* Q366: whoever asks, and however many. */
START_TEST(a_job_ends_exactly_once)
{
	struct unit_job *units[NUM_JOBS];
	struct asker askers[NUM_THREADS];
	struct bench bench;

	bench_open(&bench);
	for (int round = 0; round < NUM_ROUNDS; round++) {
		for (int i = 0; i < NUM_JOBS; i++)
			units[i] = start(&bench, round ? NULL : bench.gate);
		for (unsigned int i = 0; i < NUM_THREADS; i++) {
			askers[i] = (struct asker){ .number = i,
						    .units = units,
						    .queue = bench.queue };
			ck_assert(!pthread_create(&askers[i].thread, NULL,
						  ask_all, &askers[i]));
		}
		if (!round)
			open_gate(&bench);
		for (int i = 0; i < NUM_THREADS; i++) {
			ck_assert(!pthread_join(askers[i].thread, NULL));
			ck_assert_uint_eq(askers[i].num_wrong, 0);
		}
		for (int i = 0; i < NUM_JOBS; i++) {
			ck_assert_uint_eq(atomic_load(&units[i]->num_ends), 1);
			qbrt_job_unref(&units[i]->job);
		}
	}
	ck_assert_uint_eq(atomic_load(&bench.num_freed), NUM_ROUNDS * NUM_JOBS);
	ck_assert_uint_eq(unit_job_num_ends(), NUM_ROUNDS * NUM_JOBS);
	bench_close(&bench);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_list_is_in_the_order_of_numbers),
		QBRT_LOOP_TEST(a_job_is_listed_in_its_place, 3),
		QBRT_TEST(a_job_in_flight_has_not_ended),
		QBRT_TEST(the_list_has_a_reference),
		QBRT_LOOP_TEST(jobs_leave_the_list_in_any_order, 3),
		QBRT_TEST(poll_sees_what_the_progress_page_does_not_show),
		QBRT_TEST(a_job_is_found_in_its_queue),
		QBRT_TEST(a_refused_submit_leaves_no_trace),
		QBRT_TEST(a_lost_result_ends_the_job),
		QBRT_TEST(an_interrupted_wait_leaves_the_job_alone),
		QBRT_TEST(a_job_ends_exactly_once),
	};

	return qbrt_test_run("job", tests, qbrt_array_size(tests));
}
