// SPDX-License-Identifier: MIT
/*
 * Everything fails once (ST7): each scenario is run with its first, second,
 * third... allocation failing, then with its n-th request to the driver
 * failing, until it needs no more. A failure has a status of its row and a
 * sentence, leaks nothing, and the same call works the next time. A further
 * scenario is one more row.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "count-alloc.h"
#include "gated.h"
#include "kmd-watch.h"
#include "models.h"
#include "soft/soft.h"
#include "test-util.h"
#include "util.h"

#define MAX_FAULTS 2000

/* What a scenario may have; the test opens the rig before set_up. */
struct scene {
	struct gated gated; /* sim: only between attach and detach */
	struct rig *rig;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *mem;
	struct qbrt_future *future, *writer;
	atomic_uint num_calls;
	int fd;
};

struct scenario {
	const char *name;
	void (*set_up)(struct scene *scene);
	/* Once with the fault, and again without it if it failed. */
	enum qbrt_status (*run)(struct scene *scene);
	void (*tear_down)(struct scene *scene);
	/* What it answers to faults; none: it bears every one. */
	enum qbrt_status of_alloc[2], of_request[3];
};

/* ---- a model and memory ---- */

static void set_nothing(struct scene *scene)
{
	(void)scene;
}

static void write_model(struct scene *scene)
{
	struct prog prog;
	struct models_spec spec = { .programs = { &prog }, .num_programs = 1 };
	size_t nbytes;
	void *bytes;
	uint16_t in;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, in, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	bytes = models_build(&spec, &nbytes);
	prog_end(&prog);
	scene->fd = models_write(bytes, nbytes);
	free(bytes);
}

static enum qbrt_status load(struct scene *scene)
{
	return qbrt_model_load_fd(scene->fd, NULL, &scene->model);
}

static void free_loaded(struct scene *scene)
{
	qbrt_model_free(scene->model);
	ck_assert_int_eq(close(scene->fd), 0);
}

static void load_another(struct scene *scene)
{
	scene->model = load_copy(2);
}

static enum qbrt_status launch(struct scene *scene)
{
	return qbrt_model_launch(scene->model, scene->rig->acc);
}

static void use_and_free_model(struct scene *scene)
{
	ck_assert_ok(qbrt_model_infer_pinned_memory(
		scene->model, NULL, &scene->rig->in, 1, &scene->rig->out, 1));
	ck_assert(holds(scene->rig->out, 5));
	qbrt_model_free(scene->model);
}

static enum qbrt_status alloc_memory(struct scene *scene)
{
	return qbrt_pinned_memory_alloc(scene->rig->acc, QBRT_DTYPE_UINT8,
					(int64_t[]){ 64 }, 1, NULL,
					&scene->mem);
}

static void free_memory(struct scene *scene)
{
	qbrt_pinned_memory_free(scene->mem);
}

static enum qbrt_status begin_access(struct scene *scene)
{
	return qbrt_pinned_memory_begin_cpu_access(
		scene->rig->in, QBRT_CPU_READ | QBRT_CPU_WRITE);
}

static enum qbrt_status end_access(struct scene *scene)
{
	return qbrt_pinned_memory_end_cpu_access(scene->rig->in);
}

static void open_access(struct scene *scene)
{
	ck_assert_ok(begin_access(scene));
}

/* No bracket is left, neither the library's nor the driver's. */
static void use_memory(struct scene *scene)
{
	ck_assert_status(end_access(scene), QBRT_INVALID_ARGUMENT);
	ck_assert_ok(rig_infer(scene->rig, NULL));
	ck_assert(holds(scene->rig->out, 5));
}

static void close_access(struct scene *scene)
{
	ck_assert_ok(end_access(scene));
	use_memory(scene);
}

/* ---- jobs that run ---- */

static enum qbrt_status infer(struct scene *scene)
{
	return rig_infer(scene->rig, NULL);
}

static enum qbrt_status submit_one(struct scene *scene)
{
	return try_submit(scene->rig, scene->rig->in, scene->rig->out, NULL,
			  &scene->future);
}

static enum qbrt_status submit_and_take(struct scene *scene)
{
	enum qbrt_status status = submit_one(scene);

	if (!status)
		status = take(scene->future);
	return status;
}

static enum qbrt_status submit_and_wait(struct scene *scene)
{
	enum qbrt_status status = submit_one(scene);

	if (status)
		return status;
	status = qbrt_future_wait(scene->future, -1);
	/* a lost result is the job's end, told by its status */
	if (!status && qbrt_future_get_status(scene->future))
		status = qbrt_future_query_result(scene->future, NULL, 0);
	qbrt_future_free(scene->future);
	return status;
}

/* Whoever ends the job, its buffers are free after that. */
static enum qbrt_status submit_and_free(struct scene *scene)
{
	enum qbrt_status status = submit_one(scene);

	if (status)
		return status;
	qbrt_future_free(scene->future);
	return qbrt_pinned_memory_wait(scene->rig->out, -1);
}

static void check_output(struct scene *scene)
{
	ck_assert(holds(scene->rig->out, 5));
	ck_assert_ok(rig_infer(scene->rig, NULL));
}

static void take_output(struct scene *scene)
{
	ck_assert_ok(take(scene->future));
	check_output(scene);
}

/* ---- jobs that stand ---- */

static void submit_gated(struct scene *scene)
{
	sim_attach(&scene->gated.sim, qbnpu_soft_npu(0));
	ck_assert_ok(submit_one(scene));
}

static void end_gated(struct scene *scene)
{
	sim_finish_all(&scene->gated.sim);
	sim_detach(&scene->gated.sim);
}

static void submit_writer(struct scene *scene)
{
	scene->mem = alloc_64(scene->rig);
	sim_attach(&scene->gated.sim, qbnpu_soft_npu(0));
	scene->writer = submit(scene->rig, scene->rig->in, scene->mem);
}

static enum qbrt_status submit_behind(struct scene *scene)
{
	return try_submit(scene->rig, scene->mem, scene->rig->out, NULL,
			  &scene->future);
}

static void take_both(struct scene *scene)
{
	end_gated(scene);
	ck_assert_ok(take(scene->writer));
	ck_assert_ok(take(scene->future));
	ck_assert(holds(scene->rig->out, 5));
	qbrt_pinned_memory_free(scene->mem);
}

static void count_call(void *arg, struct qbrt_future *future)
{
	(void)future;
	atomic_fetch_add(&((struct scene *)arg)->num_calls, 1);
}

static enum qbrt_status set_callback(struct scene *scene)
{
	return qbrt_future_set_callback(scene->future, count_call, scene);
}

static void expect_call(struct scene *scene)
{
	ck_assert_uint_eq(atomic_load(&scene->num_calls), 0);
	end_gated(scene);
	while (!atomic_load(&scene->num_calls))
		sched_yield();
	take_output(scene);
	ck_assert_uint_eq(atomic_load(&scene->num_calls), 1);
}

static enum qbrt_status export_fd(struct scene *scene)
{
	return qbrt_future_export_fd(scene->future, &scene->fd);
}

static void close_fd(struct scene *scene)
{
	ck_assert_int_eq(close(scene->fd), 0);
	end_gated(scene);
	take_output(scene);
}

static enum qbrt_status cancel(struct scene *scene)
{
	return qbrt_future_cancel(scene->future, NULL);
}

/* It was cancelled, or the word of that is lost: never a result. */
static void expect_no_result(struct scene *scene)
{
	end_gated(scene);
	ck_assert_int_ne(take(scene->future), QBRT_OK);
	ck_assert_ok(rig_infer(scene->rig, NULL));
}

static enum qbrt_status dispose(struct scene *scene)
{
	return qbrt_model_dispose(scene->rig->model);
}

/* The job has ended in one way or another, and the model launches again. */
static void relaunch(struct scene *scene)
{
	end_gated(scene);
	ck_assert_ok(qbrt_future_wait(scene->future, -1));
	qbrt_future_free(scene->future);
	ck_assert_ok(qbrt_model_launch(scene->rig->model, scene->rig->acc));
	ck_assert_ok(rig_infer(scene->rig, NULL));
}

/* ---- the table ---- */

#define NO_MEMORY QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY
#define LOST QBRT_INTERNAL_ERROR

/* clang-format off */
static const struct scenario scenarios[] = {
	{ "load", write_model, load, free_loaded,
	  { NO_MEMORY }, { QBRT_OK } },
	{ "launch", load_another, launch, use_and_free_model,
	  { NO_MEMORY }, { QBRT_BAD_ALLOC } },
	{ "alloc", set_nothing, alloc_memory, free_memory,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "begin_cpu_access", set_nothing, begin_access, close_access,
	  { QBRT_OK }, { NO_MEMORY } },
	{ "end_cpu_access", open_access, end_access, use_memory,
	  { QBRT_OK }, { NO_MEMORY } },
	{ "infer", set_nothing, infer, check_output,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "submit", set_nothing, submit_one, take_output,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "submit behind another", submit_writer, submit_behind, take_both,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "submit and take", set_nothing, submit_and_take, check_output,
	  { NO_MEMORY }, { NO_MEMORY, LOST } },
	{ "submit and wait", set_nothing, submit_and_wait, check_output,
	  { NO_MEMORY }, { NO_MEMORY, LOST } },
	{ "submit and free", set_nothing, submit_and_free, check_output,
	  { NO_MEMORY }, { NO_MEMORY, QBRT_TENSOR_INVALID } },
	{ "set_callback", submit_gated, set_callback, expect_call,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "export_fd", submit_gated, export_fd, close_fd,
	  { NO_MEMORY }, { NO_MEMORY } },
	{ "cancel", submit_gated, cancel, expect_no_result,
	  { QBRT_OK }, { NO_MEMORY } },
	{ "dispose", submit_gated, dispose, relaunch,
	  { QBRT_OK }, { QBRT_OK } },
};
/* clang-format on */

static bool is_one_of(enum qbrt_status status, const enum qbrt_status *expected,
		      size_t num)
{
	for (size_t i = 0; i < num; i++)
		if (status == expected[i])
			return true;
	return false;
}

/* What fails: some calls ask twice before they give up. */
enum kind {
	ALLOCATION,
	REQUEST,
	TWO_REQUESTS,
	NUM_KINDS,
};

static void begin_faults(enum kind kind, long n)
{
	atomic_store(&kmd_watch.fail_more, kind == TWO_REQUESTS);
	atomic_store(&kmd_watch.fail_at, kind == ALLOCATION ? 0 : n);
	count_alloc_begin(kind == ALLOCATION ? n : 0);
}

/* true: the n-th was reached. */
static bool end_faults(enum kind kind, long n)
{
	long num_allocs = count_alloc_end();
	long left = atomic_exchange(&kmd_watch.fail_at, 0);

	atomic_store(&kmd_watch.fail_more, 0);
	return kind == ALLOCATION ? num_allocs >= n : left <= 0;
}

static void check_status(const struct scenario *scenario, enum kind kind,
			 long n, enum qbrt_status status)
{
	bool is_expected = kind == ALLOCATION
				   ? is_one_of(status, scenario->of_alloc, 2)
				   : is_one_of(status, scenario->of_request, 3);

	ck_assert_msg(is_expected, "%s, %s %ld: %s (%s)", scenario->name,
		      kind == ALLOCATION ? "allocation" : "request", n,
		      qbrt_status_name(status), qbrt_error_detail());
	ck_assert_msg(*qbrt_error_detail(), "%s, %ld: no sentence",
		      scenario->name, n);
}

/* With the n-th of them failing. false: there was no n-th. */
static bool run_with_fault(const struct scenario *scenario, enum kind kind,
			   long n, unsigned int *num_failed)
{
	struct scene scene = { .fd = -1 };
	long num_threads = qbrt_test_count_threads();
	enum qbrt_status status;
	bool was_reached;

	scene.rig = &scene.gated.rig;
	rig_open(scene.rig, NULL, load_copy(2));
	fill(scene.rig->in, 5);
	scenario->set_up(&scene);
	kmd_watch_begin(scene.rig->acc);
	begin_faults(kind, n);
	status = scenario->run(&scene);
	was_reached = end_faults(kind, n);
	if (status) {
		++*num_failed;
		check_status(scenario, kind, n, status);
		ck_assert_ok(scenario->run(&scene));
	}
	scenario->tear_down(&scene);
	rig_close(scene.rig);
	/* the retirement thread may be the last to have had the device */
	while (qbrt_test_count_threads() > num_threads)
		sched_yield();
	return was_reached;
}

/* ST7 */
START_TEST(each_allocation_and_each_request_may_fail)
{
	const struct scenario *scenario = &scenarios[_i / NUM_KINDS];
	enum kind kind = _i % NUM_KINDS;
	const enum qbrt_status *expected =
		kind == ALLOCATION ? scenario->of_alloc : scenario->of_request;
	unsigned int num_failed = 0;
	long n = 1;

	while (run_with_fault(scenario, kind, n, &num_failed))
		ck_assert_int_lt(++n, MAX_FAULTS);
	/* one request alone may be borne by asking again */
	if (kind != REQUEST || !expected[0])
		ck_assert_msg((num_failed > 0) == (expected[0] != 0),
			      "%s: %u of %ld failed", scenario->name,
			      num_failed, n - 1);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(each_allocation_and_each_request_may_fail,
			       NUM_KINDS * (int)qbrt_array_size(scenarios)),
	};

	return qbrt_test_run("faults", tests, qbrt_array_size(tests));
}
