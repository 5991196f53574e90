// SPDX-License-Identifier: MIT
/*
 * What a trace says of inferences on the software device: rows of threads and
 * cores, and that neither recording nor starting and stopping disturbs them.
 */
#include "check-trace.h"

#include <drm.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accelerator.h"
#include "models.h"
#include "pinned-memory.h"
#include "soft/soft.h"
#include "trace-read.h"
#include "trace.h"
#include "util.h"

#define FIRST_PID 4194304
#define NUM_CALLS 100

static bool infer_once(const struct trace_load *load, long call,
		       struct qbrt_pinned_memory *in,
		       struct qbrt_pinned_memory *out)
{
	uint8_t *given = qbrt_pinned_memory_get_data(in);
	size_t nbytes = qbrt_pinned_memory_get_nbytes(in);

	for (size_t i = 0; i < nbytes; i++)
		given[i] = (uint8_t)((size_t)call * 31 + i * 7 + 1);
	if (qbrt_model_infer_pinned_memory(load->model, NULL, &in, 1, &out, 1))
		return false;
	return !memcmp(qbrt_pinned_memory_get_data(out), given, nbytes);
}

static void *infer_often(void *arg)
{
	struct trace_load *load = arg;
	struct qbrt_pinned_memory *out = NULL;
	struct qbrt_pinned_memory *in = NULL;
	long call;

	if (qbrt_model_alloc_input(load->model, 0, &in) ||
	    qbrt_model_alloc_output(load->model, 0, &out))
		atomic_fetch_add(&load->num_wrong, 1);
	atomic_fetch_add(&load->num_ready, 1);
	while (out && (call = atomic_fetch_sub(&load->num_left, 1)) > 0) {
		if (!infer_once(load, call, in, out))
			atomic_fetch_add(&load->num_wrong, 1);
		atomic_fetch_add(&load->num_calls, 1);
		if (load->progress_fd >= 0 &&
		    write(load->progress_fd, "", 1) != 1)
			break;
	}
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	return NULL;
}

void trace_load_open(struct trace_load *load, struct qbrt_model *model)
{
	memset(load, 0, sizeof(*load));
	load->progress_fd = -1;
	load->model = model;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &load->acc));
	ck_assert_ok(qbrt_model_launch(model, load->acc));
}

void trace_load_start(struct trace_load *load, int num_threads, long num_calls)
{
	load->num_threads = num_threads;
	atomic_store(&load->num_left, num_calls);
	for (int i = 0; i < num_threads; i++)
		ck_assert(!pthread_create(&load->threads[i], NULL, infer_often,
					  load));
}

void trace_load_await(struct trace_load *load, long num_calls)
{
	long wanted = atomic_load(&load->num_calls) + num_calls;

	while (atomic_load(&load->num_calls) < wanted)
		sched_yield();
}

void trace_load_await_all(struct trace_load *load)
{
	while (atomic_load(&load->num_ready) < load->num_threads)
		sched_yield();
}

void trace_load_join(struct trace_load *load)
{
	for (int i = 0; i < load->num_threads; i++)
		ck_assert(!pthread_join(load->threads[i], NULL));
	ck_assert_int_eq(atomic_load(&load->num_wrong), 0);
}

void trace_load_close(struct trace_load *load)
{
	qbrt_model_free(load->model);
	qbrt_accelerator_close(load->acc);
}

/* Of all cores, since the device was opened. */
static uint64_t get_busy_ns(void)
{
	struct qbnpu_core_state states[QBNPU_MAX_CORES];
	size_t num = qbnpu_npu_get_core_states(qbnpu_soft_npu(0), states,
					       qbrt_array_size(states));
	uint64_t busy_ns = 0;

	for (size_t i = 0; i < num; i++)
		busy_ns += states[i].busy_ns;
	return busy_ns;
}

static bool is_run(const struct trace_event *event)
{
	return !strcmp(event->name, "run");
}

/* Rows of one process: each pair of its X events nests or is apart. */
static void assert_rows_nest(const struct trace_file *file)
{
	for (size_t i = 0; i < file->num_events; i++) {
		const struct trace_event *a = &file->events[i];

		for (size_t j = 0; j < i; j++) {
			const struct trace_event *b = &file->events[j];

			if (a->phase != 'X' || b->phase != 'X' ||
			    a->pid != b->pid || a->tid != b->tid ||
			    a->end_ns <= b->begin_ns ||
			    b->end_ns <= a->begin_ns)
				continue;
			ck_assert_msg(!is_run(a), "%s overlaps %s", a->line,
				      b->line);
			ck_assert_msg((a->begin_ns >= b->begin_ns &&
				       a->end_ns <= b->end_ns) ||
					      (b->begin_ns >= a->begin_ns &&
					       b->end_ns <= a->end_ns),
				      "%s crosses %s", a->line, b->line);
		}
	}
}

/* The sum of their durations. */
static uint64_t check_runs(const struct trace_file *file, uint32_t identifier)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < file->num_events; i++) {
		const struct trace_event *run = &file->events[i];
		const struct trace_event *submit;
		const struct trace_event *wait;

		if (!is_run(run))
			continue;
		ck_assert_int_eq(run->pid, FIRST_PID);
		ck_assert_int_lt(run->tid, 8);
		ck_assert_int_eq(run->item, 0);
		ck_assert_int_eq(run->model, identifier);
		submit = trace_find(file, "submit", run->queue, run->job);
		wait = trace_find(file, "wait", run->queue, run->job);
		ck_assert_msg(submit && wait, "only %s", run->line);
		ck_assert_int_eq(submit->pid, getpid());
		ck_assert_int_eq(submit->tid, wait->tid);
		ck_assert_int_eq(submit->model, identifier);
		ck_assert_int_le(submit->begin_ns, run->begin_ns);
		ck_assert_int_le(submit->end_ns, wait->begin_ns);
		ck_assert_int_ge(wait->end_ns, run->end_ns);
		sum += (uint64_t)(run->end_ns - run->begin_ns);
	}
	return sum;
}

/* Q784 Q782 Q116 DV01 K319 */
START_TEST(a_hundred_inferences_are_a_hundred_runs)
{
	const struct trace_event *event;
	struct trace_folder folder;
	struct trace_load load;
	struct trace_file file;
	uint32_t identifier;
	uint64_t busy_ns;
	uint64_t sum;

	trace_folder_make(&folder);
	setenv("QBRUNTIME_SOFT_DEVICES", "aries", 1);
	ck_assert_ok(qbrt_trace_start(folder.path));
	trace_load_open(&load, models_load_slow(1, 0));
	identifier = qbrt_model_get_identifier(load.model);
	busy_ns = get_busy_ns();
	trace_load_start(&load, TRACE_NUM_THREADS, NUM_CALLS);
	trace_load_join(&load);
	busy_ns = get_busy_ns() - busy_ns;
	ck_assert_ok(qbrt_model_dispose(load.model));
	ck_assert_ok(qbrt_trace_stop());
	trace_load_close(&load);

	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "run"), NUM_CALLS);
	ck_assert_uint_eq(trace_count(&file, "submit"), NUM_CALLS);
	ck_assert_uint_eq(trace_count(&file, "wait"), NUM_CALLS);
	ck_assert_uint_eq(trace_count(&file, "queue"), 2 * NUM_CALLS);
	assert_rows_nest(&file);
	sum = check_runs(&file, identifier);
	ck_assert_uint_ge(sum, busy_ns - busy_ns / 100);
	ck_assert_uint_le(sum, busy_ns + busy_ns / 100);
	event = trace_find(&file, "launch", -1, -1);
	ck_assert_ptr_nonnull(event);
	ck_assert_int_eq(event->model, identifier);
	ck_assert_ptr_nonnull(strstr(event->line, "\"device\":\"aries-rb:0\""));
	ck_assert_uint_eq(trace_count(&file, "dispose"), 1);
	ck_assert_str_eq(file.events[1].text, "aries-rb:0");
	ck_assert_ptr_nonnull(strstr(file.events[1].line,
				     "\"kind\":\"software\",\"driver\":"));
	ck_assert_ptr_nonnull(strstr(file.events[1].line, "\"cores\":8"));
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

#define NUM_FUTURES 10

static void submit_futures(struct qbrt_model *model,
			   struct qbrt_pinned_memory *in[NUM_FUTURES],
			   struct qbrt_pinned_memory *out[NUM_FUTURES],
			   struct qbrt_future *futures[NUM_FUTURES])
{
	for (int i = 0; i < NUM_FUTURES; i++) {
		ck_assert_ok(qbrt_model_alloc_input(model, 0, &in[i]));
		ck_assert_ok(qbrt_model_alloc_output(model, 0, &out[i]));
		ck_assert_ok(qbrt_model_submit_pinned_memory(
			model, NULL, &in[i], 1, &out[i], 1, &futures[i]));
	}
}

/* The two ends of a job's queue event: the same id, in order. */
static void check_queue(const struct trace_file *file,
			const struct trace_event *run)
{
	const struct trace_event *begin =
		trace_find(file, "queue", run->queue, run->job);
	const struct trace_event *end = begin + 1;

	ck_assert_ptr_nonnull(begin);
	while (end < file->events + file->num_events &&
	       strcmp(end->id, begin->id) != 0)
		end++;
	ck_assert(end < file->events + file->num_events);
	ck_assert_int_eq(begin->phase, 'b');
	ck_assert_int_eq(end->phase, 'e');
	ck_assert_int_eq(end->job, run->job);
	ck_assert_int_eq(begin->model, run->model);
	ck_assert_int_le(begin->begin_ns, end->begin_ns);
	ck_assert_int_eq(end->begin_ns, run->begin_ns);
}

/* Q784: waited for by wait, and by who takes the result; free disposes. */
START_TEST(futures_have_the_events_of_calls)
{
	struct qbrt_pinned_memory *in[NUM_FUTURES], *out[NUM_FUTURES];
	struct qbrt_future *futures[NUM_FUTURES];
	struct trace_folder folder;
	struct trace_load load;
	struct trace_file file;
	uint32_t identifier;

	trace_folder_make(&folder);
	trace_load_open(&load, models_load_slow(1, 0));
	identifier = qbrt_model_get_identifier(load.model);
	ck_assert_ok(qbrt_trace_start(folder.path));
	submit_futures(load.model, in, out, futures);
	for (int i = 0; i < NUM_FUTURES; i++)
		ck_assert_ok(
			i % 2 ? qbrt_future_wait(futures[i], -1)
			      : qbrt_future_query_result(futures[i], NULL, 0));
	for (int i = 0; i < NUM_FUTURES; i++) {
		qbrt_future_free(futures[i]);
		qbrt_pinned_memory_free(in[i]);
		qbrt_pinned_memory_free(out[i]);
	}
	trace_load_close(&load);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	ck_assert_uint_eq(trace_count(&file, "run"), NUM_FUTURES);
	ck_assert_uint_eq(trace_count(&file, "submit"), NUM_FUTURES);
	ck_assert_uint_eq(trace_count(&file, "wait"), NUM_FUTURES);
	ck_assert_uint_eq(trace_count(&file, "queue"), 2 * NUM_FUTURES);
	ck_assert_uint_eq(trace_count(&file, "dispose"), 1);
	assert_rows_nest(&file);
	(void)check_runs(&file, identifier);
	for (size_t i = 0; i < file.num_events; i++)
		if (is_run(&file.events[i]))
			check_queue(&file, &file.events[i]);
	trace_free(&file);
	trace_folder_remove(&folder);
}
END_TEST

/* Q784: as exactly as the core's own account. */
START_TEST(a_job_past_its_limit_has_run_as_long_as_it_did)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .timeout = 2000000 };
	const struct trace_event *run;
	struct qbrt_pinned_memory *out;
	struct qbrt_pinned_memory *in;
	struct trace_folder folder;
	struct trace_load load;
	struct trace_file file;
	uint64_t busy_ns;

	trace_folder_make(&folder);
	trace_load_open(&load, models_load_slow(10000, 0));
	ck_assert_ok(qbrt_model_alloc_input(load.model, 0, &in));
	ck_assert_ok(qbrt_model_alloc_output(load.model, 0, &out));
	ck_assert_ok(qbrt_trace_start(folder.path));
	ck_assert_status(qbrt_model_infer_pinned_memory(load.model, &options,
							&in, 1, &out, 1),
			 QBRT_ACC_NPU_TIMEOUT);
	busy_ns = get_busy_ns();
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	run = trace_find(&file, "run", -1, -1);
	ck_assert_ptr_nonnull(run);
	ck_assert_uint_eq((uint64_t)(run->end_ns - run->begin_ns), busy_ns);
	ck_assert_uint_eq(trace_count(&file, "wait"), 1);
	trace_free(&file);
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	trace_load_close(&load);
	trace_folder_remove(&folder);
}
END_TEST

/* Runs a copy of the first nbytes on the device. */
static void copy_on_device(const struct trace_load *load, uint32_t queue,
			   struct qbrt_pinned_memory *const mem[2],
			   uint32_t nbytes)
{
	const struct qbrt_device *device = load->acc->device;
	struct drm_qbnpu_copy copy = {
		.queue = queue,
		.src = mem[0]->storage->buffer.handle,
		.dst = mem[1]->storage->buffer.handle,
		.rank = 1,
		.element_size = 1,
		.sync_size = sizeof(struct drm_qbnpu_sync),
		.dims = { nbytes },
		.src_strides = { 1 },
		.dst_strides = { 1 },
	};
	struct drm_qbnpu_wait wait = { .queue = queue,
				       .timeout_ns = INT64_MAX };

	ck_assert_int_eq(
		device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_COPY, &copy),
		0);
	wait.job = copy.job;
	ck_assert_int_eq(
		device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_WAIT, &wait),
		0);
}

/* Q784: their bytes are those of the device's counter. */
START_TEST(copies_add_up_to_the_counter)
{
	struct qbrt_pinned_memory *mem[2];
	struct trace_folder folder;
	struct qbrt_queue queue;
	struct trace_load load;
	struct trace_file file;
	int64_t nbytes = 0;

	trace_folder_make(&folder);
	trace_load_open(&load, models_load_copy64());
	ck_assert_ok(qbrt_model_alloc_input(load.model, 0, &mem[0]));
	ck_assert_ok(qbrt_model_alloc_output(load.model, 0, &mem[1]));
	ck_assert_int_eq(qbrt_queue_open(load.acc->device->kmd,
					 load.acc->device->file, &queue),
			 0);
	ck_assert_ok(qbrt_trace_start(folder.path));
	for (uint32_t i = 1; i <= 64; i++)
		copy_on_device(&load, queue.number, mem, i);
	ck_assert_ok(qbrt_trace_stop());
	trace_read(folder.path, false, &file);
	for (size_t i = 0; i < file.num_events; i++) {
		const struct trace_event *event = &file.events[i];

		if (strcmp(event->name, "copy") != 0)
			continue;
		ck_assert_int_ge(event->pid, FIRST_PID);
		nbytes += event->nbytes;
	}
	ck_assert_uint_eq((uint64_t)nbytes,
			  atomic_load(&qbnpu_npu_get_counters(qbnpu_soft_npu(0))
					       ->copy_bytes));
	ck_assert_int_eq(nbytes, 64 * 65 / 2);
	trace_free(&file);
	qbrt_queue_close(&queue);
	qbrt_pinned_memory_free(mem[0]);
	qbrt_pinned_memory_free(mem[1]);
	trace_load_close(&load);
	trace_folder_remove(&folder);
}
END_TEST

/* Q784 Q787: what the host copies for arrays, in the row of its thread. */
START_TEST(copies_of_arrays_add_up_to_the_counter)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };
	const int64_t shape[] = { 64 };
	uint8_t from[64] = { 1 };
	uint8_t to[64];
	const struct qbrt_array in = { .data = from,
				       .shape = shape,
				       .ndim = 1,
				       .dtype = QBRT_DTYPE_UINT8 };
	const struct qbrt_array out = {
		.data = to, .shape = shape, .ndim = 1, .dtype = QBRT_DTYPE_UINT8
	};
	struct trace_folder folder;
	struct trace_load load;
	struct trace_file file;
	uint64_t nbytes = 0;

	trace_folder_make(&folder);
	trace_load_open(&load, models_load_copy64());
	ck_assert_ok(qbrt_trace_start(folder.path));
	for (int i = 0; i < 10; i++)
		ck_assert_ok(
			qbrt_model_infer(load.model, NULL, &in, 1, &out, 1));
	ck_assert_ok(qbrt_trace_stop());
	qbrt_model_get_counters(load.model, &counters);
	trace_read(folder.path, false, &file);
	for (size_t i = 0; i < file.num_events; i++)
		if (file.events[i].nbytes > 0 && file.events[i].pid < FIRST_PID)
			nbytes += (uint64_t)file.events[i].nbytes;
	ck_assert_uint_eq(nbytes, counters.copied_nbytes);
	ck_assert_uint_eq(nbytes, 10 * 128);
	trace_free(&file);
	trace_load_close(&load);
	trace_folder_remove(&folder);
}
END_TEST

/* Q785 Q786: results are looked at in each call. */
START_TEST(a_thousand_starts_and_stops_under_load)
{
	int num_rounds = qbrt_test_is_instrumented() ? 100 : 1000;
	struct trace_folder folder;
	struct trace_load load;
	struct trace_file file;
	size_t num_events = 0;

	if (num_rounds != 1000)
		printf("# %d starts and stops instead of 1000\n", num_rounds);
	trace_folder_make(&folder);
	trace_load_open(&load, models_load_copy64());
	trace_load_start(&load, TRACE_NUM_THREADS, LONG_MAX);
	for (int i = 0; i < num_rounds; i++) {
		ck_assert_ok(qbrt_trace_start(folder.path));
		if (i % 10 == 0)
			trace_load_await(&load, TRACE_NUM_THREADS);
		ck_assert_ok(qbrt_trace_stop());
		trace_read(folder.path, false, &file);
		num_events += trace_count(&file, "wait");
		trace_free(&file);
		ck_assert_int_eq(unlink(folder.path), 0);
	}
	atomic_store(&load.num_left, 0);
	trace_load_join(&load);
	ck_assert_uint_ge(num_events, (size_t)num_rounds / 10);
	trace_load_close(&load);
	trace_folder_remove(&folder);
}
END_TEST

void add_trace_infer_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_hundred_inferences_are_a_hundred_runs),
		QBRT_TEST(futures_have_the_events_of_calls),
		QBRT_TEST(a_job_past_its_limit_has_run_as_long_as_it_did),
		QBRT_TEST(copies_add_up_to_the_counter),
		QBRT_TEST(copies_of_arrays_add_up_to_the_counter),
		QBRT_TEST(a_thousand_starts_and_stops_under_load),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
