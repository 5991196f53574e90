// SPDX-License-Identifier: MIT
/* Futures: what they answer before, at and after the end of their job. */
#include "check-future.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "count-alloc.h"
#include "future.h"
#include "kmd-watch.h"
#include "model.h"
#include "soft/soft.h"
#include "util.h"

#define NUM_UNTAKEN 200

struct qbrt_model *load_copy(unsigned int activation_slots)
{
	return models_load_slow(0, activation_slots);
}

void gated_open(struct gated *gated, unsigned int activation_slots)
{
	rig_open(&gated->rig, NULL, load_copy(activation_slots));
	sim_attach(&gated->sim, qbnpu_soft_npu(0));
}

void gated_close(struct gated *gated)
{
	sim_finish_all(&gated->sim);
	sim_detach(&gated->sim);
	rig_close(&gated->rig);
}

struct qbrt_pinned_memory *alloc_64(const struct rig *rig)
{
	return rig_alloc(rig, QBRT_DTYPE_UINT8, 1, (const int64_t[]){ 64 });
}

enum qbrt_status try_submit(const struct rig *rig,
			    struct qbrt_pinned_memory *in,
			    struct qbrt_pinned_memory *out,
			    const struct qbrt_infer_options *options,
			    struct qbrt_future **future)
{
	return qbrt_model_submit_pinned_memory(rig->model, options, &in, 1,
					       &out, 1, future);
}

struct qbrt_future *submit(const struct rig *rig, struct qbrt_pinned_memory *in,
			   struct qbrt_pinned_memory *out)
{
	struct qbrt_future *future = NULL;

	ck_assert_ok(try_submit(rig, in, out, NULL, &future));
	ck_assert_ptr_nonnull(future);
	return future;
}

bool is_done(const struct qbrt_future *future)
{
	bool done = false;

	ck_assert_ok(qbrt_future_query(future, &done));
	return done;
}

enum qbrt_status take(struct qbrt_future *future)
{
	enum qbrt_status status = qbrt_future_query_result(future, NULL, 0);

	qbrt_future_free(future);
	return status;
}

/* Q486 Q737 */
START_TEST(a_future_gives_what_its_job_wrote)
{
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	for (unsigned int i = 0; i < 100; i++) {
		fill(rig.in, i);
		future = submit(&rig, rig.in, rig.out);
		ck_assert_ok(qbrt_future_wait(future, -1));
		ck_assert(is_done(future));
		ck_assert(holds(rig.out, i));
		ck_assert_ok(take(future));
	}
	ck_assert_uint_eq(get_counters(rig.model).completed, 100);
	ck_assert_uint_eq(get_counters(rig.model).copied_nbytes, 0);
	rig_close(&rig);
}
END_TEST

/* Q373 Q376 Q738 */
START_TEST(submit_returns_while_its_job_waits_for_the_device)
{
	struct qbrt_future *future;
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 1);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(!is_done(future));
	ck_assert_status(qbrt_future_wait(future, 0), QBRT_TIMED_OUT);
	ck_assert_status(qbrt_future_wait(future, 1000), QBRT_TIMED_OUT);
	ck_assert_int_eq(qbrt_future_get_status(future), QBRT_OK);
	ck_assert_str_eq(qbrt_future_get_detail(future), "");
	ck_assert(sim_step(&gated.sim));
	ck_assert(is_done(future));
	ck_assert_ok(qbrt_future_wait(future, 0));
	ck_assert_ok(qbrt_future_wait(future, 0));
	ck_assert_ok(take(future));
	ck_assert(holds(gated.rig.out, 1));
	gated_close(&gated);
}
END_TEST

/* Q374 Q737 */
START_TEST(a_result_is_taken_once)
{
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(qbrt_future_query_result(future, NULL, 0));
	ck_assert_status(qbrt_future_query_result(future, NULL, 0),
			 QBRT_FUTURE_NOT_VALID);
	ck_assert_status(qbrt_future_wait(future, 0), QBRT_FUTURE_NOT_VALID);
	ck_assert(is_done(future));
	ck_assert_int_eq(qbrt_future_get_status(future), QBRT_OK);
	qbrt_future_free(future);
	rig_close(&rig);
}
END_TEST

/* Q737: wrong arrays take nothing. */
START_TEST(a_pinned_result_takes_no_arrays)
{
	const struct qbrt_array array = { .ndim = 0 };
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_status(qbrt_future_query_result(future, &array, 1),
			 QBRT_MODEL_OUTPUT_COUNT_MISMATCHED);
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

/* Q725 */
START_TEST(a_future_describes_its_outputs)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_ok(qbrt_future_query_output(future, 0, &info));
	ck_assert_uint_eq(info.ndim, 1);
	ck_assert_int_eq(info.shape[0], 64);
	ck_assert_int_eq(info.pinned_dtype, QBRT_DTYPE_UINT8);
	ck_assert_status(qbrt_future_query_output(future, 1, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

/* Q733 */
START_TEST(nothing_crashes_on_null)
{
	struct qbrt_future *future;
	struct rig rig;
	bool done;
	int fd;

	rig_open(&rig, NULL, load_copy(0));
	ck_assert_status(try_submit(&rig, rig.in, rig.out, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_model_submit_pinned_memory(NULL, NULL, &rig.in, 1,
							 &rig.out, 1, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_wait(NULL, 0), QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_query(NULL, &done), QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_query_output(NULL, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_query_result(NULL, NULL, 0),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_cancel(NULL, NULL), QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_set_callback(NULL, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_export_fd(NULL, &fd),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(qbrt_future_get_status(NULL), QBRT_OK);
	ck_assert_str_eq(qbrt_future_get_detail(NULL), "");
	qbrt_future_free(NULL);
	future = submit(&rig, rig.in, rig.out);
	ck_assert_status(qbrt_future_query(future, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_query_output(future, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_set_callback(future, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_future_export_fd(future, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

/* Q731 */
START_TEST(submit_takes_its_own_flags_alone)
{
	const struct qbrt_infer_options blocking = {
		.size = sizeof(blocking),
		.flags = QBRT_INFER_BLOCKING,
	};
	const struct qbrt_infer_options tries = {
		.size = sizeof(tries),
		.flags = QBRT_INFER_TRY,
	};
	struct qbrt_future *future = NULL;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	ck_assert_status(try_submit(&rig, rig.in, rig.out, &blocking, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ptr_null(future);
	ck_assert_status(rig_infer(&rig, &tries), QBRT_INVALID_ARGUMENT);
	ck_assert_ok(try_submit(&rig, rig.in, rig.out, &tries, &future));
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

/* Q381 Q738 */
START_TEST(a_descriptor_becomes_readable_when_the_job_ends)
{
	struct pollfd ready = { .events = POLLIN };
	struct pollfd after = { .events = POLLIN };
	struct qbrt_future *future;
	struct gated gated;

	gated_open(&gated, 0);
	future = submit(&gated.rig, gated.rig.in, gated.rig.out);
	ck_assert_ok(qbrt_future_export_fd(future, &ready.fd));
	ck_assert_int_eq(poll(&ready, 1, 0), 0);
	ck_assert(sim_step(&gated.sim));
	ck_assert_int_eq(poll(&ready, 1, -1), 1);
	ck_assert_ok(qbrt_future_export_fd(future, &after.fd));
	ck_assert_int_eq(poll(&after, 1, 0), 1);
	ck_assert_ok(take(future));
	ck_assert_int_eq(poll(&ready, 1, 0), 1);
	ck_assert_int_eq(close(ready.fd), 0);
	ck_assert_int_eq(close(after.fd), 0);
	gated_close(&gated);
}
END_TEST

/* Q615: no descriptor left is 13, and nothing is lost. */
START_TEST(no_descriptor_left_is_said_and_harmless)
{
	struct rlimit old, none;
	struct qbrt_future *future;
	struct rig rig;
	int fd = -1;

	rig_open(&rig, NULL, load_copy(0));
	future = submit(&rig, rig.in, rig.out);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_status(qbrt_future_export_fd(future, &fd),
			 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ck_assert_int_eq(fd, -1);
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

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

/* Q382: neither cancelled nor leaked. */
START_TEST(a_job_outlives_its_freed_future)
{
	struct gated gated;

	gated_open(&gated, 0);
	fill(gated.rig.in, 5);
	qbrt_future_free(submit(&gated.rig, gated.rig.in, gated.rig.out));
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert(sim_step(&gated.sim));
	ck_assert_ok(qbrt_pinned_memory_wait(gated.rig.out, -1));
	ck_assert(holds(gated.rig.out, 5));
	gated_close(&gated);
}
END_TEST

/* SO2 Q382: any closing order is safe. */
START_TEST(a_future_outlives_everything_else)
{
	struct qbrt_future *future;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	future = submit(&rig, rig.in, rig.out);
	rig_close(&rig);
	ck_assert_ok(qbrt_future_wait(future, -1));
	qbrt_future_free(future);
}
END_TEST

/* Q366: none is read until the end, and no slot is kept. */
START_TEST(untaken_futures_stall_nobody)
{
	struct qbrt_future *futures[NUM_UNTAKEN];
	struct qbrt_pinned_memory *ins[NUM_UNTAKEN];
	struct qbrt_pinned_memory *outs[NUM_UNTAKEN];
	struct rig rig;

	rig_open(&rig, NULL, load_copy(1));
	for (unsigned int i = 0; i < NUM_UNTAKEN; i++) {
		ins[i] = alloc_64(&rig);
		outs[i] = alloc_64(&rig);
		fill(ins[i], i);
		futures[i] = submit(&rig, ins[i], outs[i]);
	}
	ck_assert_ok(rig_infer(&rig, NULL));
	for (unsigned int i = 0; i < NUM_UNTAKEN; i++) {
		ck_assert_ok(take(futures[i]));
		ck_assert(holds(outs[i], i));
		qbrt_pinned_memory_free(ins[i]);
		qbrt_pinned_memory_free(outs[i]);
	}
	rig_close(&rig);
}
END_TEST

/* Q365 */
START_TEST(as_many_wait_as_the_queue_takes)
{
	const struct qbrt_infer_options tries = {
		.size = sizeof(tries),
		.flags = QBRT_INFER_TRY,
	};
	const struct qbrt_infer_options hurried = {
		.size = sizeof(hurried),
		.timeout = QBRT_NS_PER_MS,
	};
	struct qbrt_future *futures[66];
	struct qbrt_future *more = NULL;
	struct qbrt_pinned_memory *outs[66];
	struct gated gated;

	gated_open(&gated, 1);
	for (int i = 0; i < 66; i++)
		outs[i] = alloc_64(&gated.rig);
	for (int i = 0; i < 65; i++)
		futures[i] = submit(&gated.rig, gated.rig.in, outs[i]);
	/* one slot: one job on the device */
	ck_assert_uint_eq(sim_num_queued(&gated.sim), 1);
	ck_assert_status(
		try_submit(&gated.rig, gated.rig.in, outs[65], &tries, &more),
		QBRT_WOULD_BLOCK);
	ck_assert_status(
		try_submit(&gated.rig, gated.rig.in, outs[65], &hurried, &more),
		QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_ptr_null(more);
	ck_assert(sim_step(&gated.sim));
	futures[65] = submit(&gated.rig, gated.rig.in, outs[65]);
	sim_finish_all(&gated.sim);
	for (int i = 0; i < 66; i++) {
		ck_assert_ok(take(futures[i]));
		qbrt_pinned_memory_free(outs[i]);
	}
	gated_close(&gated);
}
END_TEST

/* ST7 */
START_TEST(every_failed_allocation_of_a_submit_changes_nothing)
{
	enum qbrt_status status = QBRT_BAD_ALLOC;
	long n;

	for (n = 1; status; n++) {
		struct qbrt_future *future = NULL;
		struct rig rig;

		rig_open(&rig, NULL, load_copy(0));
		fill(rig.in, 1);
		fill(rig.out, 9);
		count_alloc_begin(n);
		status = try_submit(&rig, rig.in, rig.out, NULL, &future);
		(void)count_alloc_end();
		ck_assert(!status ||
			  status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		if (status) {
			ck_assert_ptr_null(future);
			ck_assert(holds(rig.out, 9));
			future = submit(&rig, rig.in, rig.out);
		}
		ck_assert_ok(take(future));
		ck_assert(holds(rig.out, 1));
		rig_close(&rig);
	}
	ck_assert_int_gt(n, 3);
}
END_TEST

/* P63 */
START_TEST(a_future_is_small)
{
	ck_assert_uint_le(sizeof(struct qbrt_future) + 4 * sizeof(void *), 512);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_future_gives_what_its_job_wrote),
		QBRT_TEST(submit_returns_while_its_job_waits_for_the_device),
		QBRT_TEST(a_result_is_taken_once),
		QBRT_TEST(a_pinned_result_takes_no_arrays),
		QBRT_TEST(a_future_describes_its_outputs),
		QBRT_TEST(nothing_crashes_on_null),
		QBRT_TEST(submit_takes_its_own_flags_alone),
		QBRT_TEST(a_descriptor_becomes_readable_when_the_job_ends),
		QBRT_TEST(no_descriptor_left_is_said_and_harmless),
		QBRT_TEST(a_callback_comes_once_on_a_thread_of_the_library),
		QBRT_TEST(a_callback_on_a_complete_job_comes_at_once),
		QBRT_TEST(a_callback_may_free_its_future),
		QBRT_TEST(a_freed_future_calls_nothing),
		QBRT_TEST(a_job_outlives_its_freed_future),
		QBRT_TEST(a_future_outlives_everything_else),
		QBRT_TEST(untaken_futures_stall_nobody),
		QBRT_TEST(as_many_wait_as_the_queue_takes),
		QBRT_TEST(every_failed_allocation_of_a_submit_changes_nothing),
		QBRT_TEST(a_future_is_small),
	};
	struct qbrt_test all[64];
	size_t num = qbrt_array_size(tests);

	memcpy(all, tests, sizeof(tests));
	num += add_future_order_tests(all + num);
	num += add_future_end_tests(all + num);
	return qbrt_test_run("future", all, num);
}
