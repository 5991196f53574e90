// SPDX-License-Identifier: MIT
/* Futures: what they answer before, at and after the end of their job. */
#include "check-future.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "future.h"
#include "util.h"

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
	const struct qbrt_infer_options layout = {
		.size = sizeof(layout),
		.flags = QBRT_INFER_HWC,
	};
	const struct qbrt_infer_options both = {
		.size = sizeof(both),
		.flags = QBRT_INFER_TRY | QBRT_INFER_BLOCKING,
	};
	struct qbrt_future *future = NULL;
	struct rig rig;

	rig_open(&rig, NULL, load_copy(0));
	ck_assert_status(try_submit(&rig, rig.in, rig.out, &layout, &future),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ptr_null(future);
	ck_assert_status(rig_infer(&rig, &both), QBRT_INVALID_ARGUMENT);
	ck_assert_ok(try_submit(&rig, rig.in, rig.out, &both, &future));
	/* who waits for it sleeps at once */
	ck_assert_uint_eq(future->job.wait_flags, DRM_QBNPU_WAIT_BLOCKING);
	ck_assert_ok(take(future));
	rig_close(&rig);
}
END_TEST

/* Q381 Q738 Q788 */
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
	qbrt_test_close_standard(STDIN_FILENO);
	ck_assert_ok(qbrt_future_export_fd(future, &after.fd));
	qbrt_test_reopen_standard(STDIN_FILENO);
	ck_assert_int_gt(after.fd, STDERR_FILENO);
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

/* 512 bytes, in performance.md's table of bytes kept */
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
		QBRT_TEST(a_job_outlives_its_freed_future),
		QBRT_TEST(a_future_outlives_everything_else),
		QBRT_TEST(as_many_wait_as_the_queue_takes),
		QBRT_TEST(a_future_is_small),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_future_order_tests(&all);
	add_future_use_tests(&all);
	add_future_chain_tests(&all);
	add_future_end_tests(&all);
	add_future_fault_tests(&all);
	add_future_limit_tests(&all);
	add_future_callback_tests(&all);
	add_future_thread_tests(&all);
	add_future_fork_tests(&all);
	return qbrt_test_run("future", all.tests, all.num);
}
