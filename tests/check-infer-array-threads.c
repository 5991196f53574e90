// SPDX-License-Identifier: MIT
/* One model, many threads with arrays of their own. */
#include "check-infer-array.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "counters.h"
#include "kmd-watch.h"
#include "model.h"
#include "sim.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_CALLS 500

struct worker {
	pthread_t thread;
	const struct array_rig *rig;
	unsigned int number;
	unsigned int num_wrong;
	atomic_uint *num_started;
	enum qbrt_status status; /* the first that is not QBRT_OK */
};

static void start_workers(struct worker *workers, const struct array_rig *rig,
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

/* Other bytes in each call; every third call is a batch. */
static void *infer_often(void *arg)
{
	struct worker *worker = arg;
	uint8_t from[3][64];
	uint8_t to[3][64];
	const struct qbrt_array ins[] = { ARRAY(from, UINT8, 64),
					  ARRAY(from, UINT8, 3, 64) };
	const struct qbrt_array outs[] = { ARRAY(to, UINT8, 64),
					   ARRAY(to, UINT8, 3, 64) };

	for (unsigned int i = 0; i < NUM_CALLS && !worker->status; i++) {
		size_t form = i % 3 == 0;
		size_t nbytes = form ? sizeof(to) : 64;

		fill_bytes(from, sizeof(from), worker->number * 1000 + i);
		worker->status =
			array_infer(worker->rig, NULL, &ins[form], &outs[form]);
		if (!holds_bytes(to, nbytes, worker->number * 1000 + i))
			worker->num_wrong++;
	}
	return NULL;
}

/* Q337: at most a set per thread. */
START_TEST(eight_threads_get_their_own_results)
{
	struct worker workers[NUM_THREADS];
	struct array_rig rig;

	array_rig_open(&rig, models_load_copy64());
	start_workers(workers, &rig, infer_often, NULL);
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(workers[i].status, QBRT_OK);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	ck_assert_uint_eq(get_array_counters(rig.model).completed,
			  NUM_THREADS * NUM_CALLS);
	ck_assert_uint_le(rig.model->launched->staging.num_sets, NUM_THREADS);
	array_rig_close(&rig);
}
END_TEST

static void *infer_once(void *arg)
{
	struct worker *worker = arg;
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);

	fill_bytes(from, 64, worker->number);
	worker->status = array_infer(worker->rig, NULL, &in, &out);
	worker->num_wrong = !holds_bytes(to, 64, worker->number);
	return NULL;
}

/* Q338: both jobs are begun before either has ended. */
START_TEST(two_models_run_at_once)
{
	struct worker workers[2] = { { .number = 0 }, { .number = 1 } };
	struct array_rig rigs[2];
	struct sim sim;

	for (int i = 0; i < 2; i++)
		array_rig_open(&rigs[i], models_load_copy64());
	sim_attach(&sim, qbnpu_soft_npu(0));
	for (int i = 0; i < 2; i++) {
		workers[i].rig = &rigs[i];
		ck_assert(!pthread_create(&workers[i].thread, NULL, infer_once,
					  &workers[i]));
	}
	sim_wait_submitted(&sim, 2);
	for (int i = 0; i < 2; i++)
		ck_assert_ptr_nonnull(sim_begin(&sim));
	ck_assert_uint_eq(sim_num_running(&sim), 2);
	sim_finish_all(&sim);
	for (int i = 0; i < 2; i++) {
		ck_assert(!pthread_join(workers[i].thread, NULL));
		ck_assert_int_eq(workers[i].status, QBRT_OK);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	sim_detach(&sim);
	qbrt_model_free(rigs[0].model);
	qbrt_accelerator_close(rigs[0].acc);
	array_rig_close(&rigs[1]);
}
END_TEST

/* Until the model is gone for it; every result before is right. */
static void *infer_until_disposed(void *arg)
{
	struct worker *worker = arg;
	uint8_t from[64];
	uint8_t to[64];
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	const struct qbrt_array out = ARRAY(to, UINT8, 64);

	fill_bytes(from, 64, worker->number);
	atomic_fetch_add(worker->num_started, 1);
	while (worker->status == QBRT_OK) {
		memset(to, 0xee, 64);
		worker->status = array_infer(worker->rig, NULL, &in, &out);
		if (worker->status ? !holds_value(to, 64, 0xee)
				   : !holds_bytes(to, 64, worker->number))
			worker->num_wrong++;
	}
	return NULL;
}

/* Q742 Q331 */
START_TEST(dispose_under_load_ends_calls_cleanly)
{
	struct worker workers[NUM_THREADS];
	atomic_uint num_started = 0;
	struct array_rig rig;

	array_rig_open(&rig, models_load_slow(0, 2));
	start_workers(workers, &rig, infer_until_disposed, &num_started);
	while (atomic_load(&num_started) < NUM_THREADS ||
	       get_array_counters(rig.model).completed < 50)
		sched_yield();
	ck_assert_ok(qbrt_model_dispose(rig.model));
	join_workers(workers);
	for (int i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(workers[i].status, QBRT_MODEL_NOT_ALIVE);
		ck_assert_uint_eq(workers[i].num_wrong, 0);
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	array_rig_close(&rig);
}
END_TEST

/* More results than may stay in staging: 64, and the slots (16 at most). */
#define NUM_HELD 81

/* A call that submits, and who ends its job before it goes on. */
struct overtaken {
	const struct array_rig *rig;
	struct qbrt_future *future;
	enum qbrt_status status;
	sem_t is_submitting;
};

static void tell_submitting(void *arg)
{
	(void)sem_post(arg);
}

/* It runs only when nobody else wants to. */
static void *submit_idly(void *arg)
{
	const struct sched_param param = { .sched_priority = 0 };
	struct overtaken *call = arg;
	uint8_t from[64] = { 0 };
	const struct qbrt_array in = ARRAY(from, UINT8, 64);

	(void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
	kmd_watch.before_submit_arg = &call->is_submitting;
	kmd_watch.before_submit = tell_submitting;
	call->status = qbrt_model_submit(call->rig->model, NULL, &in, 1,
					 &call->future);
	return NULL;
}

/*
 * Q361: a job that ends before its call has returned gives its set back, which
 * is another's then, or freed for a larger one: the call must not look at it.
 */
START_TEST(a_call_that_its_job_overtakes_leaves_the_set_alone)
{
	struct qbrt_model *model = models_load_copy64();
	struct qbrt_future *futures[NUM_HELD];
	uint8_t from[64] = { 0 };
	const struct qbrt_array in = ARRAY(from, UINT8, 64);
	struct overtaken call = { .status = QBRT_OK };
	struct qbrt_launched *launched;
	struct array_rig rig;
	cpu_set_t all, one;
	pthread_t thread;

	model->has_async_pipeline = true;
	array_rig_open(&rig, model);
	launched = model->launched;
	for (int i = 0; i < NUM_HELD; i++) {
		ck_assert_ok(
			qbrt_model_submit(model, NULL, &in, 1, &futures[i]));
		ck_assert_ok(qbrt_future_wait(futures[i], -1));
	}
	CPU_ZERO(&one);
	ck_assert(!sched_getaffinity(0, sizeof(all), &all));
	CPU_SET(sched_getcpu(), &one);
	ck_assert(!sched_setaffinity(0, sizeof(one), &one));
	call.rig = &rig;
	ck_assert(!sem_init(&call.is_submitting, 0, 0));
	kmd_watch_begin(rig.acc);
	ck_assert(!pthread_create(&thread, NULL, submit_idly, &call));
	ck_assert(!sem_wait(&call.is_submitting));
	while (atomic_load(&launched->jobs.num))
		qbrt_device_collect(launched->device);
	ck_assert_ptr_null(qbrt_staging_take(&launched->staging, 0, 16));
	ck_assert(!pthread_join(thread, NULL));
	ck_assert(!sched_setaffinity(0, sizeof(all), &all));
	ck_assert_ok(call.status);
	ck_assert_ok(qbrt_future_wait(call.future, 0));
	qbrt_future_free(call.future);
	for (int i = 0; i < NUM_HELD; i++)
		qbrt_future_free(futures[i]);
	(void)sem_destroy(&call.is_submitting);
	array_rig_close(&rig);
}
END_TEST

void add_array_thread_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(eight_threads_get_their_own_results),
		QBRT_TEST(two_models_run_at_once),
		QBRT_TEST(dispose_under_load_ends_calls_cleanly),
		QBRT_TEST(a_call_that_its_job_overtakes_leaves_the_set_alone),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
