// SPDX-License-Identifier: MIT
/*
 * One model, many threads: right results, inputs that wait, outputs that
 * refuse, dispose and fork in the middle. Order comes from uses and slots that
 * the test takes itself.
 */
#include "check-infer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"
#include "pinned-memory.h"
#include "util.h"

#define NUM_THREADS 16
#define NUM_CALLS 1000

struct worker {
	pthread_t thread;
	const struct rig *rig;
	unsigned int number;
	unsigned int num_wrong;
	atomic_uint *num_started;
	enum qbrt_status status; /* the first that is not QBRT_OK */
};

static void start_workers(struct worker *workers, const struct rig *rig,
			  void *(*work)(void *), atomic_uint *num_started)
{
	memset(workers, 0, NUM_THREADS * sizeof(workers[0]));
	for (unsigned int i = 0; i < NUM_THREADS; i++) {
		workers[i].rig = rig;
		workers[i].number = i;
		workers[i].num_started = num_started;
		ck_assert(!pthread_create(&workers[i].thread, NULL, work,
					  &workers[i]));
	}
}

static void join_workers(struct worker *workers)
{
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert(!pthread_join(workers[i].thread, NULL));
}

/* Buffers of its own, other bytes in each call. */
static void *infer_often(void *arg)
{
	struct worker *worker = arg;
	struct rig own = *worker->rig;

	if (qbrt_model_alloc_input(own.model, 0, &own.in) ||
	    qbrt_model_alloc_output(own.model, 0, &own.out)) {
		worker->status = QBRT_INTERNAL_ERROR;
		return NULL;
	}
	for (unsigned int i = 0; i < NUM_CALLS && !worker->status; i++) {
		fill(own.in, worker->number * NUM_CALLS + i);
		worker->status = rig_infer(&own, NULL);
		if (!holds(own.out, worker->number * NUM_CALLS + i))
			worker->num_wrong++;
	}
	qbrt_pinned_memory_free(own.in);
	qbrt_pinned_memory_free(own.out);
	return NULL;
}

/* Q337 Q740 */
START_TEST(sixteen_threads_get_their_own_results)
{
	struct worker workers[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	start_workers(workers, &rig, infer_often, NULL);
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(workers[i].status, QBRT_OK);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	ck_assert_uint_eq(get_counters(rig.model).completed,
			  NUM_THREADS * NUM_CALLS);
	ck_assert_uint_eq(atomic_load(&rig.model->launched->slots.free),
			  0xffff);
	rig_close(&rig);
}
END_TEST

/* Q488: one input, outputs of their own. */
static void *read_shared(void *arg)
{
	struct worker *worker = arg;
	struct rig own = *worker->rig;

	if (qbrt_model_alloc_output(own.model, 0, &own.out)) {
		worker->status = QBRT_INTERNAL_ERROR;
		return NULL;
	}
	for (int i = 0; i < NUM_CALLS && !worker->status; i++) {
		worker->status = rig_infer(&own, NULL);
		if (!holds(own.out, 7))
			worker->num_wrong++;
	}
	qbrt_pinned_memory_free(own.out);
	return NULL;
}

/* Q488 */
START_TEST(threads_share_an_input)
{
	struct worker workers[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 7);
	start_workers(workers, &rig, read_shared, NULL);
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(workers[i].status, QBRT_OK);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	ck_assert_uint_eq(atomic_load(&rig.in->storage->uses), 0);
	rig_close(&rig);
}
END_TEST

/* Q481 Q488: while another call writes or reads it. */
START_TEST(an_output_in_use_is_refused)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.out, 9);
	ck_assert(_i ? qbrt_storage_begin_write(rig.out->storage)
		     : qbrt_storage_begin_read(rig.out->storage));
	ck_assert_status(rig_infer(&rig, NULL), QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_detail("output 0");
	ck_assert(holds(rig.out, 9));
	ck_assert_uint_eq(atomic_load(&rig.in->storage->uses), 0);
	if (_i)
		qbrt_storage_end_write(rig.out->storage);
	else
		qbrt_storage_end_read(rig.out->storage);
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* Q481: and holds nothing while it waits. */
START_TEST(an_input_that_is_written_is_waited_for)
{
	struct call call = { 0 };
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	ck_assert(qbrt_storage_begin_write(rig.in->storage));
	call.rig = &rig;
	call.in = rig.in;
	call.out = rig.out;
	call_start(&call);
	while (!atomic_load(&rig.in->storage->waiters))
		sched_yield();
	/* the output is free meanwhile: who waits holds nothing */
	ck_assert(qbrt_storage_begin_write(rig.out->storage));
	qbrt_storage_end_write(rig.out->storage);
	fill(rig.in, 8);
	qbrt_storage_end_write(rig.in->storage);
	ck_assert_int_eq(call_join(&call), QBRT_OK);
	ck_assert(holds(rig.out, 8));
	rig_close(&rig);
}
END_TEST

/* Crossed buffers: what one call reads the other writes. */
static void *infer_crossed(void *arg)
{
	struct worker *worker = arg;
	struct rig own = *worker->rig;

	if (worker->number % 2) {
		own.in = worker->rig->out;
		own.out = worker->rig->in;
	}
	for (int i = 0; i < NUM_CALLS; i++) {
		enum qbrt_status status = rig_infer(&own, NULL);

		if (status && status != QBRT_PINNED_MEMORY_IN_USE)
			worker->status = status;
	}
	return NULL;
}

/* Q481: uses are taken all or none, so no order of buffers can deadlock. */
START_TEST(crossed_buffers_do_not_deadlock)
{
	struct worker workers[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 3);
	fill(rig.out, 3);
	start_workers(workers, &rig, infer_crossed, NULL);
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(workers[i].status, QBRT_OK);
	ck_assert(holds(rig.in, 3));
	ck_assert(holds(rig.out, 3));
	ck_assert_uint_eq(atomic_load(&rig.in->storage->uses), 0);
	ck_assert_uint_eq(atomic_load(&rig.out->storage->uses), 0);
	rig_close(&rig);
}
END_TEST

/* Until the model is gone for it; every result before is right. */
static void *infer_until_disposed(void *arg)
{
	struct worker *worker = arg;
	struct rig own = *worker->rig;

	if (qbrt_pinned_memory_alloc(own.acc, QBRT_DTYPE_UINT8,
				     (const int64_t[]){ 64 }, 1, NULL,
				     &own.out)) {
		worker->status = QBRT_INTERNAL_ERROR;
		return NULL;
	}
	atomic_fetch_add(worker->num_started, 1);
	while (worker->status == QBRT_OK) {
		worker->status = rig_infer(&own, NULL);
		if (worker->status == QBRT_OK && !holds(own.out, 7))
			worker->num_wrong++;
	}
	qbrt_pinned_memory_free(own.out);
	return NULL;
}

/* Q742 */
START_TEST(dispose_under_load_neither_hangs_nor_crashes)
{
	struct worker workers[NUM_THREADS];
	atomic_uint num_started = 0;
	struct rig rig;

	rig_open(&rig, NULL, models_load_slow(0, _i % 2 ? 2 : 0));
	fill(rig.in, 7);
	start_workers(workers, &rig, infer_until_disposed, &num_started);
	while (atomic_load(&num_started) < NUM_THREADS ||
	       get_counters(rig.model).completed < 50)
		sched_yield();
	ck_assert_ok(qbrt_model_dispose(rig.model));
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(workers[i].status, QBRT_MODEL_NOT_ALIVE);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	ck_assert_ok(qbrt_model_launch(rig.model, rig.acc));
	ck_assert_ok(rig_infer(&rig, NULL));
	rig_close(&rig);
}
END_TEST

/* Launch and dispose against inferences and each other. */
static void *launch_and_dispose(void *arg)
{
	struct worker *worker = arg;

	for (int i = 0; i < 50; i++) {
		enum qbrt_status status =
			qbrt_model_launch(worker->rig->model, worker->rig->acc);

		if (status && status != QBRT_MODEL_ALREADY_LAUNCHED)
			worker->status = status;
		status = rig_infer(worker->rig, NULL);
		if (status && status != QBRT_MODEL_NOT_ALIVE &&
		    status != QBRT_PINNED_MEMORY_IN_USE)
			worker->status = status;
		if (qbrt_model_dispose(worker->rig->model))
			worker->status = QBRT_INTERNAL_ERROR;
	}
	return NULL;
}

/* Q740 Q742 */
START_TEST(launches_and_disposes_race)
{
	struct worker workers[NUM_THREADS];
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	start_workers(workers, &rig, launch_and_dispose, NULL);
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(workers[i].status, QBRT_OK);
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_ptr_null(rig.model->launched);
	rig_close(&rig);
}
END_TEST

/* Every call on inherited handles, and the child's own device. */
static int run_child(const struct rig *rig)
{
	struct rig own;

	if (rig_infer(rig, NULL) != QBRT_FORKED_PROCESS)
		return 1;
	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	qbrt_accelerator_close(rig->acc);
	rig_open(&own, NULL, models_load_copy64());
	fill(own.in, 1);
	if (rig_infer(&own, NULL) || !holds(own.out, 1))
		return 2;
	rig_close(&own);
	return 0;
}

/* Q748 DV14: the parent's threads are inside infer all the time. */
START_TEST(a_fork_under_load_disturbs_nobody)
{
	struct worker workers[NUM_THREADS];
	atomic_uint num_started = 0;
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	fill(rig.in, 7);
	start_workers(workers, &rig, infer_until_disposed, &num_started);
	while (atomic_load(&num_started) < NUM_THREADS)
		sched_yield();
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		int status;

		ck_assert_int_ge(child, 0);
		if (!child)
			_exit(run_child(&rig));
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	ck_assert_ok(qbrt_model_dispose(rig.model));
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	rig_close(&rig);
}
END_TEST

/* Q266: while a launch, which may take long, holds it. */
START_TEST(a_refused_call_takes_no_lock)
{
	struct rig rig;

	rig_open(&rig, NULL, models_load_copy64());
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert(!pthread_mutex_lock(&rig.model->launch_lock));
	ck_assert_status(rig_infer(&rig, NULL), QBRT_MODEL_NOT_ALIVE);
	ck_assert_ok(qbrt_model_dispose(rig.model));
	ck_assert_uint_eq(atomic_load(&rig.model->users), 0);
	ck_assert(!pthread_mutex_unlock(&rig.model->launch_lock));
	rig_close(&rig);
}
END_TEST

void add_infer_thread_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(sixteen_threads_get_their_own_results),
		QBRT_TEST(threads_share_an_input),
		QBRT_LOOP_TEST(an_output_in_use_is_refused, 2),
		QBRT_TEST(an_input_that_is_written_is_waited_for),
		QBRT_TEST(crossed_buffers_do_not_deadlock),
		QBRT_LOOP_TEST(dispose_under_load_neither_hangs_nor_crashes, 4),
		QBRT_TEST(launches_and_disposes_race),
		QBRT_TEST(a_fork_under_load_disturbs_nobody),
		QBRT_TEST(a_refused_call_takes_no_lock),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
