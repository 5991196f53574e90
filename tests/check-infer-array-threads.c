// SPDX-License-Identifier: MIT
/* One model, many threads with arrays of their own. */
#include "check-infer-array.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "counters.h"
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

void add_array_thread_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(eight_threads_get_their_own_results),
		QBRT_TEST(two_models_run_at_once),
		QBRT_TEST(dispose_under_load_ends_calls_cleanly),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
