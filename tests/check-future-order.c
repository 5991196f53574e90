// SPDX-License-Identifier: MIT
/*
 * Inputs wait, outputs refuse: who comes after whom, each case with gates. The
 * device takes no step but those of the test, and no thread sleeps.
 */
#include "check-future.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "future.h"
#include "model.h"
#include "pinned-memory.h"
#include "storage.h"
#include "util.h"

/* Q337 Q364: two jobs of one model, both in flight. */
START_TEST(jobs_of_one_model_run_side_by_side)
{
	struct qbrt_future *futures[8];
	struct qbrt_pinned_memory *outs[8];
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 3);
	for (int i = 0; i < 8; i++) {
		outs[i] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, gated.rig.in, outs[i]);
	}
	for (int i = 0; i < 8; i++)
		ck_assert_ptr_nonnull(sim_begin(&gated.sim));
	ck_assert_uint_eq(sim_num_running(&gated.sim), 8);
	/* complete from the last to the first */
	for (int i = 7; i >= 0; i--) {
		ck_assert(!is_done(futures[i]));
		ck_assert(sim_finish(&gated.sim, gated.sim.running[i],
				     QBNPU_CAUSE_NONE));
		ck_assert(is_done(futures[i]));
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(outs[i], 3));
		qbrt_pinned_memory_free(outs[i]);
	}
	gated_close(&gated);
}
END_TEST

/* Q481 PM17: the caller is not blocked, the device waits. */
START_TEST(an_input_waits_for_the_job_that_writes_it)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first, *second;
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	fill(gated.rig.in, 4);
	first = submit(&gated.rig, gated.rig.in, middle);
	second = submit(&gated.rig, middle, gated.rig.out);
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	ck_assert(is_done(first));
	ck_assert(!is_done(second));
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(second));
	ck_assert_ok(take(first));
	ck_assert(holds(gated.rig.out, 4));
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

/* Q481 PM17: a chain in one slot, and one that reads both of its ends. */
START_TEST(a_chain_of_jobs_runs_in_its_order)
{
	struct qbrt_pinned_memory *mems[9];
	struct qbrt_future *futures[8];
	struct gated gated;

	gated_open(&gated, _i ? 1 : 0);
	mems[0] = gated.rig.in;
	fill(mems[0], 8);
	for (int i = 0; i < 8; i++) {
		mems[i + 1] = alloc_64(&gated.rig);
		futures[i] = submit(&gated.rig, mems[i], mems[i + 1]);
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
		ck_assert(sim_step(&gated.sim));
		ck_assert(is_done(futures[i]));
	}
	for (int i = 0; i < 8; i++) {
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(mems[i + 1], 8));
		qbrt_pinned_memory_free(mems[i + 1]);
	}
	gated_close(&gated);
}
END_TEST

/* Q481 */
START_TEST(a_blocking_call_waits_for_the_job_that_writes_its_input)
{
	struct qbrt_pinned_memory *middle;
	struct qbrt_future *first;
	struct call call = { 0 };
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	fill(gated.rig.in, 5);
	first = submit(&gated.rig, gated.rig.in, middle);
	call.rig = &gated.rig;
	call.in = middle;
	call.out = gated.rig.out;
	call_start(&call);
	/* the call has taken its output, and the device has one job still */
	while (!atomic_load(&gated.rig.out->storage->uses))
		sched_yield();
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	sim_wait_submitted(&gated.sim, 2);
	ck_assert(sim_step(&gated.sim));
	ck_assert_int_eq(call_join(&call), QBRT_OK);
	ck_assert(holds(gated.rig.out, 5));
	ck_assert_ok(take(first));
	qbrt_pinned_memory_free(middle);
	gated_close(&gated);
}
END_TEST

/* Q481 PM17: read by a queued job, written by one, and not taken. */
START_TEST(an_output_that_a_queued_job_uses_is_refused)
{
	struct qbrt_pinned_memory *other;
	struct qbrt_future *first, *second = NULL;
	struct gated gated;

	gated_open(&gated, 0);
	other = alloc_64(&gated.rig);
	fill(other, 9);
	first = submit(&gated.rig, gated.rig.in, gated.rig.out);
	/* it writes it */
	ck_assert_status(
		try_submit(&gated.rig, other, gated.rig.out, NULL, &second),
		QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_detail("in use by another call");
	ck_assert_status(rig_infer(&gated.rig, NULL),
			 QBRT_PINNED_MEMORY_IN_USE);
	/* it reads it */
	ck_assert_status(
		try_submit(&gated.rig, other, gated.rig.in, NULL, &second),
		QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	/* nobody has asked for the job, and its read is over all the same */
	second = submit(&gated.rig, other, gated.rig.in);
	/* the result has not been taken */
	ck_assert_status(try_submit(&gated.rig, other, gated.rig.out, NULL,
				    &(struct qbrt_future *){ NULL }),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_detail("has not been taken");
	ck_assert_ok(qbrt_future_query_result(first, NULL, 0));
	qbrt_future_free(submit(&gated.rig, other, gated.rig.out));
	qbrt_future_free(first);
	sim_finish_all(&gated.sim);
	ck_assert_ok(take(second));
	ck_assert(holds(gated.rig.in, 9));
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

/* PM17: freed is as good as taken. */
START_TEST(a_freed_future_lets_its_outputs_go)
{
	struct qbrt_future *future;
	struct gated gated;

	gated_open(&gated, 0);
	qbrt_future_free(submit(&gated.rig, gated.rig.in, gated.rig.out));
	ck_assert_status(try_submit(&gated.rig, gated.rig.in, gated.rig.out,
				    NULL, &(struct qbrt_future *){ NULL }),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert(sim_step(&gated.sim));
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

/* PM17: it never holds them, not even while its job ends. */
START_TEST(a_freed_future_holds_nothing)
{
	struct qbrt_future *future;
	struct gated gated;

	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	(void)qbrt_job_ref(&future->job);
	if (!_i)
		qbrt_future_free(future);
	ck_assert(sim_step(&gated.sim));
	ck_assert(qbrt_job_poll(&future->job));
	ck_assert(future->holds == _i);
	ck_assert(qbrt_storage_is_held(gated.rig.out->storage) == _i);
	if (_i)
		qbrt_future_free(future);
	ck_assert(!qbrt_storage_is_held(gated.rig.out->storage));
	qbrt_job_unref(&future->job);
	gated_close(&gated);
}
END_TEST

/* PM17: what is not taken may be an input, of several. */
START_TEST(an_untaken_output_is_an_input_all_the_same)
{
	struct qbrt_pinned_memory *middle, *other;
	struct qbrt_future *first, *second, *third;
	struct gated gated;

	gated_open(&gated, 0);
	middle = alloc_64(&gated.rig);
	other = alloc_64(&gated.rig);
	fill(gated.rig.in, 6);
	first = submit(&gated.rig, gated.rig.in, middle);
	ck_assert(sim_step(&gated.sim));
	second = submit(&gated.rig, middle, gated.rig.out);
	third = submit(&gated.rig, middle, other);
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 2);
	sim_finish_all(&gated.sim);
	ck_assert_ok(take(third));
	ck_assert_ok(take(second));
	ck_assert_ok(take(first));
	ck_assert(holds(other, 6));
	ck_assert(holds(gated.rig.out, 6));
	qbrt_pinned_memory_free(middle);
	qbrt_pinned_memory_free(other);
	gated_close(&gated);
}
END_TEST

struct host {
	pthread_t thread;
	struct qbrt_pinned_memory *mem;
	atomic_bool is_done;
	uint8_t value;
	enum qbrt_status status;
};

static void *read_first(void *arg)
{
	struct host *host = arg;

	host->status = qbrt_pinned_memory_read_at(
		host->mem, (int64_t[]){ 0 }, 1, QBRT_DTYPE_UINT8, &host->value);
	atomic_store(&host->is_done, true);
	return NULL;
}

static void *write_first(void *arg)
{
	struct host *host = arg;

	host->status = qbrt_pinned_memory_write_at(
		host->mem, (int64_t[]){ 0 }, 1, QBRT_DTYPE_UINT8, &host->value);
	atomic_store(&host->is_done, true);
	return NULL;
}

static void start_host(struct host *host, void *(*access)(void *arg))
{
	atomic_init(&host->is_done, false);
	ck_assert(!pthread_create(&host->thread, NULL, access, host));
}

/* Q499 PM11 */
START_TEST(a_host_read_waits_for_the_job_that_writes)
{
	struct qbrt_future *future;
	struct host host;
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 2);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	host.mem = gated.rig.out;
	start_host(&host, read_first);
	while (!atomic_load(&host.mem->storage->waiters))
		sched_yield();
	ck_assert(!atomic_load(&host.is_done));
	ck_assert(sim_step(&gated.sim));
	ck_assert(!pthread_join(host.thread, NULL));
	ck_assert_int_eq(host.status, QBRT_OK);
	ck_assert_uint_eq(host.value, 2 * 31 + 1);
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

/* Q499: a write waits for readers, and new readers stand behind it. */
START_TEST(a_host_write_waits_for_the_jobs_that_read)
{
	struct qbrt_future *future;
	struct host host;
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 2);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	host.mem = gated.rig.in;
	host.value = 77;
	start_host(&host, write_first);
	while (!atomic_load(&host.mem->storage->waiters))
		sched_yield();
	ck_assert(!qbrt_storage_begin_read(host.mem->storage));
	ck_assert(!atomic_load(&host.is_done));
	ck_assert(sim_step(&gated.sim));
	ck_assert(!pthread_join(host.thread, NULL));
	ck_assert_int_eq(host.status, QBRT_OK);
	ck_assert_ok(take(future));
	ck_assert(holds(gated.rig.out, 2));
	ck_assert_uint_eq(*(uint8_t *)qbrt_pinned_memory_get_data(gated.rig.in),
			  77);
	gated_close(&gated);
}
END_TEST

/* Q499: a host write that waits already finds the job submitted after. */
START_TEST(a_waiting_host_write_sees_a_job_that_comes_meanwhile)
{
	struct qbrt_future *future;
	struct host host;
	struct gated gated;

	gated_open(&gated, 0);
	/* the use of a job on its way into a queue */
	ck_assert(qbrt_storage_begin_write(gated.rig.out->storage));
	host.mem = gated.rig.out;
	start_host(&host, read_first);
	while (!atomic_load(&host.mem->storage->waiters))
		sched_yield();
	qbrt_storage_end_write(gated.rig.out->storage);
	ck_assert(!pthread_join(host.thread, NULL));
	fill(gated.rig.in, 1);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	start_host(&host, read_first);
	while (!atomic_load(&host.mem->storage->waiters))
		sched_yield();
	ck_assert(sim_step(&gated.sim));
	ck_assert(!pthread_join(host.thread, NULL));
	ck_assert_uint_eq(host.value, 32);
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

/* Q481 PM12 */
START_TEST(a_buffer_open_for_the_cpu_is_refused)
{
	struct qbrt_future *future = NULL;
	struct gated gated;

	gated_open(&gated, 0);
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(gated.rig.in,
							 QBRT_CPU_WRITE));
	ck_assert_status(try_submit(&gated.rig, gated.rig.in, gated.rig.out,
				    NULL, &future),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_detail("input 0");
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(gated.rig.in));
	/* to read an input harms nobody; to read an output does */
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(gated.rig.in,
							 QBRT_CPU_READ));
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(gated.rig.out,
							 QBRT_CPU_READ));
	ck_assert_status(try_submit(&gated.rig, gated.rig.in, gated.rig.out,
				    NULL, &future),
			 QBRT_PINNED_MEMORY_IN_USE);
	ck_assert_detail("output 0");
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(gated.rig.out));
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(take(future));
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(gated.rig.in));
	ck_assert_status(qbrt_pinned_memory_end_cpu_access(gated.rig.in),
			 QBRT_INVALID_ARGUMENT);
	gated_close(&gated);
}
END_TEST

/* Q489: nested, reading and writing mixed. */
START_TEST(brackets_nest)
{
	struct gated gated;

	gated_open(&gated, 0);
	for (int i = 0; i < 48; i++)
		ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(
			gated.rig.in, i % 3 ? QBRT_CPU_READ
					    : QBRT_CPU_READ | QBRT_CPU_WRITE));
	ck_assert_status(qbrt_pinned_memory_begin_cpu_access(gated.rig.in,
							     QBRT_CPU_READ),
			 QBRT_INVALID_ARGUMENT);
	for (int i = 0; i < 48; i++)
		ck_assert_ok(qbrt_pinned_memory_end_cpu_access(gated.rig.in));
	ck_assert_status(qbrt_pinned_memory_begin_cpu_access(gated.rig.in, 0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_begin_cpu_access(gated.rig.in, 4),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_uint_eq(atomic_load(&gated.rig.in->storage->brackets), 0);
	gated_close(&gated);
}
END_TEST

/* PM11 */
START_TEST(memory_tells_whether_it_is_still_written)
{
	struct qbrt_future *future;
	struct gated gated;
	bool ready;

	gated_open(&gated, 0);
	ck_assert_ok(qbrt_pinned_memory_query(gated.rig.out, &ready));
	ck_assert(ready);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_pinned_memory_query(gated.rig.out, &ready));
	ck_assert(!ready);
	ck_assert_ok(qbrt_pinned_memory_query(gated.rig.in, &ready));
	ck_assert(ready);
	ck_assert_status(qbrt_pinned_memory_wait(gated.rig.out, 0),
			 QBRT_TIMED_OUT);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(qbrt_pinned_memory_query(gated.rig.out, &ready));
	ck_assert(ready);
	ck_assert_ok(qbrt_pinned_memory_wait(gated.rig.out, -1));
	ck_assert_ok(take(future));
	gated_close(&gated);
}
END_TEST

void add_future_order_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(jobs_of_one_model_run_side_by_side),
		QBRT_TEST(an_input_waits_for_the_job_that_writes_it),
		QBRT_LOOP_TEST(a_chain_of_jobs_runs_in_its_order, 2),
		QBRT_TEST(
			a_blocking_call_waits_for_the_job_that_writes_its_input),
		QBRT_TEST(an_output_that_a_queued_job_uses_is_refused),
		QBRT_TEST(a_freed_future_lets_its_outputs_go),
		QBRT_LOOP_TEST(a_freed_future_holds_nothing, 2),
		QBRT_TEST(an_untaken_output_is_an_input_all_the_same),
		QBRT_TEST(a_host_read_waits_for_the_job_that_writes),
		QBRT_TEST(a_host_write_waits_for_the_jobs_that_read),
		QBRT_TEST(a_waiting_host_write_sees_a_job_that_comes_meanwhile),
		QBRT_TEST(a_buffer_open_for_the_cpu_is_refused),
		QBRT_TEST(brackets_nest),
		QBRT_TEST(memory_tells_whether_it_is_still_written),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
