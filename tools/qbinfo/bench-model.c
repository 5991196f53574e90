// SPDX-License-Identifier: MIT
/*
 * What a whole model costs: load, inference on pinned memory and on plain
 * arrays, jobs in flight, and the phases of an inference on arrays. The host's
 * phases are read from a trace, those of the device from the model's counters.
 */
#include "bench-model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect.h"

/* inferences of a sample of the rate, for each that is in flight */
#define RATE_ROUNDS 4

static int64_t run_pinned(void *state, uint32_t num)
{
	int64_t begin = bench_now_ns();
	bool is_good = whole_infer_pinned(state, num);
	int64_t end = bench_now_ns();

	return is_good && whole_check_buffers(state, 0) ? end - begin : -1;
}

static int64_t run_arrays(void *state, uint32_t num)
{
	int64_t begin = bench_now_ns();
	bool is_good = whole_infer_arrays(state, num);
	int64_t end = bench_now_ns();

	return is_good && whole_check_arrays(state) ? end - begin : -1;
}

static const struct bench_probe probe_pinned = {
	.name = "infer on pinned memory",
	.open = whole_open,
	.run = run_pinned,
	.close = whole_close,
	.count = whole_count,
};

static const struct bench_probe probe_arrays = {
	.name = "infer on arrays",
	.open = whole_open,
	.run = run_arrays,
	.close = whole_close,
	.count = whole_count,
};

/* ---- load ---- */

static int64_t run_load(void *state, uint32_t num)
{
	const struct whole *whole = state;
	int64_t sum = 0;

	while (num--) {
		struct qbrt_model *model = NULL;
		int64_t begin = bench_now_ns();
		bool is_good = !whole_load(1, &model) &&
			       !qbrt_model_launch(model, whole->acc);

		sum += bench_now_ns() - begin;
		qbrt_model_free(model);
		if (!is_good)
			return -1;
	}
	return sum;
}

static const struct bench_probe probe_load = {
	.name = "load and launch",
	.open = whole_open,
	.run = run_load,
	.close = whole_close,
};

/* ---- in flight ---- */

static bool collect(struct whole *whole, size_t at)
{
	struct qbrt_future *future = whole->futures[at];
	bool is_good = !future || (!qbrt_future_wait(future, -1) &&
				   !qbrt_future_get_status(future));

	if (!is_good)
		bench_set_wrong("a failed job", qbrt_future_get_detail(future));
	atomic_fetch_add_explicit(&bench_num_steps, 1, memory_order_relaxed);
	qbrt_future_free(future);
	whole->futures[at] = NULL;
	return is_good;
}

static bool submit(struct whole *whole, size_t at)
{
	return !qbrt_model_submit_pinned_memory(
		whole->model, NULL, whole->inputs, whole->num_inputs,
		whole->outputs + at * whole->num_outputs, whole->num_outputs,
		&whole->futures[at]);
}

static int64_t run_depth(void *state, uint32_t num)
{
	struct whole *whole = state;
	size_t total = RATE_ROUNDS * whole->depth;
	int64_t begin = bench_now_ns();
	int64_t end;

	for (size_t i = 0; i < num * total; i++)
		if (!collect(whole, i % whole->depth) ||
		    !submit(whole, i % whole->depth))
			return -1;
	for (size_t i = 0; i < whole->depth; i++)
		if (!collect(whole, i))
			return -1;
	end = bench_now_ns();
	for (size_t i = 0; i < whole->depth; i++)
		if (!whole_check_buffers(whole, i))
			return -1;
	return (end - begin) / (int64_t)total;
}

#define DEPTH(n) \
	static void *open_##n(const struct bench_case *bench_case) \
	{ \
		(void)bench_case; \
		return whole_open_depth(n); \
	} \
	static const struct bench_probe probe_##n = { \
		.name = #n " in flight", \
		.open = open_##n, \
		.run = run_depth, \
		.close = whole_close, \
		.count = whole_count, \
	}

DEPTH(1);
DEPTH(2);
DEPTH(4);
DEPTH(8);

/* ---- phases ---- */

/* Of inferences on arrays, of which the counters tell that time. */
static int64_t run_counted(struct whole *whole, uint32_t num, bool is_queue)
{
	struct qbrt_model_counters before = { .size = sizeof(before) };
	struct qbrt_model_counters after = { .size = sizeof(after) };

	qbrt_model_get_counters(whole->model, &before);
	if (!whole_infer_arrays(whole, num) || !whole_check_arrays(whole))
		return -1;
	qbrt_model_get_counters(whole->model, &after);
	return is_queue ? after.queue_time - before.queue_time
			: after.device_time - before.device_time;
}

static int64_t run_device(void *state, uint32_t num)
{
	return run_counted(state, num, false);
}

static int64_t run_queue(void *state, uint32_t num)
{
	return run_counted(state, num, true);
}

static bool start_trace(const struct whole *whole)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", whole->trace);
	return !qbrt_trace_start(path);
}

/* Somebody else may be tracing. */
static void *open_traced(const struct bench_case *bench_case)
{
	struct whole *whole = whole_open(bench_case);

	if (!whole)
		return NULL;
	whole->trace = memfd_create("bench", MFD_CLOEXEC);
	if (start_trace(whole) && !qbrt_trace_stop())
		return whole;
	bench_set_reason(qbrt_error_detail());
	whole_close(whole);
	return NULL;
}

/* What the events of that name in the rows of threads took. */
static int64_t sum_events(int fd, const char *name)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
	char line[4096];
	char head[64];
	int64_t sum = 0;

	(void)snprintf(head, sizeof(head), "{\"name\":\"%s\",\"cat\":\"host\"",
		       name);
	if (file)
		rewind(file);
	while (file && fgets(line, sizeof(line), file)) {
		const char *took = strstr(line, "\"dur\":");

		if (strstr(line, head) && took)
			sum += (int64_t)(strtod(took + 6, NULL) * 1000 + 0.5);
	}
	if (file)
		(void)fclose(file);
	else if (copy >= 0)
		(void)close(copy);
	return file ? sum : -1;
}

static int64_t run_traced(struct whole *whole, uint32_t num, const char *name)
{
	bool is_good;

	if (!start_trace(whole))
		return -1;
	is_good = whole_infer_arrays(whole, num);
	if (qbrt_trace_stop() || !is_good || !whole_check_arrays(whole))
		return -1;
	return sum_events(whole->trace, name);
}

#define PHASE(phase, words, opener, call) \
	static const struct bench_probe phase_##phase = { \
		.name = words, \
		.open = opener, \
		.run = call, \
		.close = whole_close, \
		.is_single = true, \
	}
#define TRACED(phase) \
	static int64_t run_##phase(void *state, uint32_t num) \
	{ \
		return run_traced(state, num, #phase); \
	} \
	PHASE(phase, #phase, open_traced, run_##phase)

PHASE(device, "time on cores", whole_open, run_device);
PHASE(queue, "queue", whole_open, run_queue);
TRACED(submit);
TRACED(wait);
TRACED(copy);

/* ---- copies ---- */

static void add_copy(struct records *copies, const struct whole *whole,
		     size_t i)
{
	const struct qbrt_io_info *info = &whole->infos[i];
	bool is_input = i < whole->num_inputs;
	struct record *copy = records_add(copies);
	const char *change = "";

	if (info->dtype != info->pinned_dtype)
		change = inventory_format(
			", and %s becomes %s",
			collect_dtype_word(is_input ? info->dtype
						    : info->pinned_dtype),
			collect_dtype_word(is_input ? info->pinned_dtype
						    : info->dtype));
	set_text(copy, FIELD_COPY_TENSOR, inventory_copy(info->name));
	set_integer(copy, FIELD_COPY_NBYTES,
		    is_input ? info->max_nbytes
			     : whole_get_nbytes(&whole->arrays[i]));
	set_text(copy, FIELD_COPY_WHY,
		 inventory_format("an array %s pinned memory%s",
				  is_input ? "goes into" : "is filled from",
				  change));
}

void bench_model_set_copies(struct record *record)
{
	struct records *copies = records_alloc(LIST_COPIES);
	struct whole *whole = whole_open_depth(1);

	if (!whole)
		return;
	for (size_t i = 0; i < whole->num_inputs + whole->num_outputs; i++)
		add_copy(copies, whole, i);
	whole_close(whole);
	set_records(record, FIELD_RESULT_COPIES, copies);
}

#define METRIC(metric_name, probe, beside) \
	{ \
		.name = metric_name, .placements = BENCH_FREE, \
		.subject = &(probe), .floor = beside \
	}
#define RATE(metric_name, probe) \
	{ \
		.name = metric_name, .placements = BENCH_FREE, \
		.subject = &(probe), .is_rate = true \
	}

const struct bench_metric bench_model[] = {
	METRIC("model.load", probe_load, NULL),
	METRIC("model.infer", probe_pinned, &phase_device),
	METRIC("model.arrays", probe_arrays, &probe_pinned),
	RATE("model.depth.1", probe_1),
	RATE("model.depth.2", probe_2),
	RATE("model.depth.4", probe_4),
	RATE("model.depth.8", probe_8),
	METRIC("model.queue", phase_queue, NULL),
	METRIC("model.submit", phase_submit, NULL),
	METRIC("model.device", phase_device, NULL),
	METRIC("model.wait", phase_wait, NULL),
	METRIC("model.copy", phase_copy, NULL),
};
const struct bench_probe *const bench_model_arrays = &probe_arrays;
const size_t bench_num_model = sizeof(bench_model) / sizeof(*bench_model);
