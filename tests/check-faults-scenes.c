// SPDX-License-Identifier: MIT
/* What is called while something fails. A further scenario is one more row. */
#include "check-faults.h"

#include <drm.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "soft/soft.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

/* ---- a model and memory ---- */

static void set_nothing(struct scene *scene)
{
	(void)scene;
}

/* 64 bytes to 64 bytes, with weights that nothing reads. */
static void write_model(struct scene *scene)
{
	static const uint8_t weights[4096];
	struct prog prog;
	struct models_spec spec = { .programs = { &prog },
				    .num_programs = 1,
				    .weights = weights,
				    .weights_size = sizeof(weights) };
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

static void load_weights(struct scene *scene)
{
	write_model(scene);
	ck_assert_ok(load(scene));
	ck_assert_int_eq(close(scene->fd), 0);
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

static enum qbrt_status export_memory(struct scene *scene)
{
	return qbrt_pinned_memory_export_fd(scene->rig->in, &scene->fd);
}

static void close_export(struct scene *scene)
{
	ck_assert_int_eq(close(scene->fd), 0);
}

static void export_first(struct scene *scene)
{
	ck_assert_ok(export_memory(scene));
}

static enum qbrt_status import_memory(struct scene *scene)
{
	return qbrt_pinned_memory_import_fd(scene->rig->acc, scene->fd, 0,
					    QBRT_DTYPE_UINT8, (int64_t[]){ 64 },
					    1, &scene->mem);
}

static void free_import(struct scene *scene)
{
	ck_assert(holds(scene->mem, 5));
	free_memory(scene);
	close_export(scene);
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

/* B65: no bracket is left, neither the library's nor the driver's. */
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
	scene->is_submitted = true;
	qbrt_future_free(scene->future);
	status = qbrt_pinned_memory_wait(scene->rig->out, -1);
	await_retirement(scene->rig);
	return status;
}

static void check_output_of_next(struct scene *scene)
{
	ck_assert_ok(rig_infer(scene->rig, NULL));
	ck_assert(holds(scene->rig->out, 5));
}

static void check_output(struct scene *scene)
{
	ck_assert(holds(scene->rig->out, 5));
	check_output_of_next(scene);
}

static void take_output(struct scene *scene)
{
	ck_assert_ok(take(scene->future));
	check_output(scene);
}

/* ---- arrays ---- */

#define ARRAY_64(memory) \
	{ \
		.data = (memory), .shape = (const int64_t[]){ 64 }, .ndim = 1, \
		.dtype = QBRT_DTYPE_UINT8 \
	}

static void fill_array(struct scene *scene)
{
	memset(scene->from, 7, sizeof(scene->from));
	scene->rig->model->has_async_pipeline = true;
}

static enum qbrt_status infer_array(struct scene *scene)
{
	const struct qbrt_array in = ARRAY_64(scene->from);
	const struct qbrt_array out = ARRAY_64(scene->to);

	return qbrt_model_infer(scene->rig->model, NULL, &in, 1, &out, 1);
}

static void check_array(struct scene *scene)
{
	ck_assert_mem_eq(scene->to, scene->from, sizeof(scene->to));
	check_output_of_next(scene);
}

static enum qbrt_status submit_array(struct scene *scene)
{
	const struct qbrt_array in = ARRAY_64(scene->from);

	return qbrt_model_submit(scene->rig->model, NULL, &in, 1,
				 &scene->future);
}

static enum qbrt_status get_array(struct scene *scene)
{
	const struct qbrt_array out = ARRAY_64(scene->to);
	enum qbrt_status status =
		qbrt_future_query_result(scene->future, &out, 1);

	qbrt_future_free(scene->future);
	return status;
}

static void take_array(struct scene *scene)
{
	ck_assert_ok(get_array(scene));
	check_array(scene);
}

static enum qbrt_status submit_and_take_array(struct scene *scene)
{
	enum qbrt_status status = submit_array(scene);

	return status ? status : get_array(scene);
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
	await_retirement(scene->rig);
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
	await_retirement(scene->rig);
	ck_assert_ok(qbrt_model_launch(scene->rig->model, scene->rig->acc));
	ck_assert_ok(rig_infer(scene->rig, NULL));
}

/* ---- the table ---- */

/* clang-format off */
static const struct scenario scenarios[] = {
	{ .name = "load", write_model, load, free_loaded },
	{ .name = "launch", load_another, launch, use_and_free_model },
	{ .name = "launch with weights", load_weights, launch,
	  use_and_free_model, .of_no_bo = QBRT_BAD_ALLOC },
	{ .name = "alloc", set_nothing, alloc_memory, free_memory },
	{ .name = "export memory", set_nothing, export_memory, close_export },
	{ .name = "import memory", export_first, import_memory, free_import },
	{ .name = "begin_cpu_access", set_nothing, begin_access, close_access },
	{ .name = "end_cpu_access", open_access, end_access, use_memory },
	{ .name = "infer", set_nothing, infer, check_output },
	{ .name = "infer arrays", fill_array, infer_array, check_array },
	{ .name = "submit", set_nothing, submit_one, take_output },
	{ .name = "submit behind another", submit_writer, submit_behind,
	  take_both, .has_queue = true },
	{ .name = "submit and take", set_nothing, submit_and_take,
	  check_output },
	{ .name = "submit and wait", set_nothing, submit_and_wait,
	  check_output },
	/* the buffer tells; the retirement thread may know better */
	{ .name = "submit and free", set_nothing, submit_and_free,
	  check_output, .borne = DRM_IOCTL_SYNCOBJ_CREATE,
	  .waits_twice = true, .of_lost = QBRT_TENSOR_INVALID },
	{ .name = "submit arrays", fill_array, submit_array, take_array },
	{ .name = "submit arrays and take", fill_array, submit_and_take_array,
	  check_array },
	{ .name = "set_callback", submit_gated, set_callback, expect_call },
	{ .name = "export_fd", submit_gated, export_fd, close_fd },
	/* the word of how it ended may be lost */
	{ .name = "cancel", submit_gated, cancel, expect_no_result,
	  .bears_allocations = true, .borne = DRM_IOCTL_QBNPU_WAIT },
	{ .name = "dispose", submit_gated, dispose, relaunch,
	  .bears_allocations = true, .bears_requests = true },
};
/* clang-format on */

const struct scenario *get_scenario(size_t index)
{
	return &scenarios[index];
}

size_t count_scenarios(void)
{
	return qbrt_array_size(scenarios);
}
