// SPDX-License-Identifier: MIT
/*
 * Probes that submit and collect later: P21 P22 P23 P24 P25 P36. Each job has
 * an output of its own, which belongs to its future until that is freed.
 */
#include <sched.h>
#include <stdlib.h>

#include "bench-subject.h"

/* jobs in flight at once */
#define DEPTH 32
/* jobs of a sample of the rate */
#define RATE_JOBS 256

struct queue {
	struct subject *subject;
	struct qbrt_model *holder; /* keeps the core busy; NULL: nothing does */
	struct qbrt_pinned_memory *held; /* its output */
	struct qbrt_pinned_memory *outs[DEPTH];
	struct qbrt_future *futures[DEPTH];
	pid_t core;
	uint32_t flags;
};

static bool submit(struct queue *queue, uint32_t at)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .flags = queue->flags };

	if (!qbrt_model_submit_pinned_memory(
		    queue->subject->model, queue->flags ? &options : NULL,
		    &queue->subject->in, 1, &queue->outs[at], 1,
		    &queue->futures[at]))
		return true;
	bench_set_wrong("a failed job", qbrt_error_detail());
	return false;
}

/* Waits for the job there, if there is one. */
static bool collect(struct queue *queue, uint32_t at)
{
	bool is_good = true;

	if (queue->futures[at])
		is_good = !qbrt_future_wait(queue->futures[at], -1) &&
			  !qbrt_future_get_status(queue->futures[at]);
	if (!is_good)
		bench_set_wrong("a failed job",
				qbrt_future_get_detail(queue->futures[at]));
	qbrt_future_free(queue->futures[at]);
	queue->futures[at] = NULL;
	return is_good;
}

static bool collect_all(struct queue *queue)
{
	bool is_good = true;

	for (uint32_t i = 0; i < DEPTH; i++)
		is_good &= collect(queue, i);
	return is_good;
}

static void close_queue(void *state)
{
	struct queue *queue = state;

	(void)collect_all(queue);
	for (uint32_t i = 0; i < DEPTH; i++)
		qbrt_pinned_memory_free(queue->outs[i]);
	qbrt_pinned_memory_free(queue->held);
	qbrt_model_free(queue->holder);
	subject_close(queue->subject);
	free(queue);
}

static bool start_queue(struct queue *queue, bool is_held)
{
	struct subject *subject = queue->subject;

	for (uint32_t i = 0; i < DEPTH; i++)
		if (qbrt_model_alloc_output(subject->model, 0, &queue->outs[i]))
			return false;
	if (is_held) {
		queue->holder = subject_load(&subject_300us);
		if (!queue->holder ||
		    qbrt_model_launch(queue->holder, subject->acc) ||
		    qbrt_model_alloc_output(queue->holder, 0, &queue->held))
			return false;
	}
	/* the core's thread begins with the first job */
	if (!submit(queue, 0) || !collect(queue, 0))
		return false;
	queue->core = subject_place_core(subject->placement);
	if (!queue->core)
		bench_set_reason("/proc/self/task tells no thread of the core");
	return queue->core;
}

static struct queue *open_queue(const struct bench_case *bench_case,
				const struct subject_program *program,
				bool is_held)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->subject = subject_open(bench_case, program);
	if (!queue->subject) {
		free(queue);
		return NULL;
	}
	bench_set_reason(qbrt_error_detail());
	if (start_queue(queue, is_held))
		return queue;
	close_queue(queue);
	return NULL;
}

static void *open_plain(const struct bench_case *bench_case)
{
	return open_queue(bench_case, &subject_nop, false);
}

static void count_queue(const void *state, struct bench_counters *counters)
{
	const struct queue *queue = state;

	subject_count(queue->subject, counters);
}

/* Hand over and back; is_asleep: the core's thread sleeps before each. */
static int64_t run_trip(struct queue *queue, uint32_t num, bool is_asleep)
{
	int64_t sum = 0;

	while (num--) {
		int64_t begin;

		if (is_asleep)
			bench_wait_asleep(queue->core);
		begin = bench_now_ns();
		if (!submit(queue, 0) ||
		    qbrt_future_wait(queue->futures[0], -1))
			return -1;
		sum += bench_now_ns() - begin;
		if (!collect(queue, 0))
			return -1;
	}
	return sum;
}

/* P21: the core is as awake as the job before has left it. */
static int64_t run_polling(void *state, uint32_t num)
{
	return run_trip(state, num, false);
}

const struct bench_probe probe_polling = {
	.name = "submit and wait, core awake",
	.open = open_plain,
	.run = run_polling,
	.close = close_queue,
	.count = count_queue,
};

static void *open_blocking(const struct bench_case *bench_case)
{
	struct queue *queue = open_queue(bench_case, &subject_nop, false);

	if (!queue)
		return NULL;
	queue->flags = QBRT_INFER_BLOCKING;
	if (submit(queue, 0) && collect(queue, 0))
		return queue;
	close_queue(queue);
	return NULL;
}

static int64_t run_blocking(void *state, uint32_t num)
{
	return run_trip(state, num, true);
}

const struct bench_probe probe_blocking = {
	.name = "submit and wait, core asleep",
	.open = open_blocking,
	.run = run_blocking,
	.close = close_queue,
	.count = count_queue,
};

/* P23: the core runs another job meanwhile, so that no wake is due. */
static void *open_held(const struct bench_case *bench_case)
{
	return open_queue(bench_case, &subject_nop, true);
}

static int64_t run_submit(void *state, uint32_t num)
{
	struct queue *queue = state;
	int64_t sum = 0;

	while (num) {
		uint32_t now = num < DEPTH ? num : DEPTH;
		struct qbrt_future *holder;
		int64_t begin;
		bool is_good = true;

		if (qbrt_model_submit_pinned_memory(queue->holder, NULL,
						    &queue->subject->in, 1,
						    &queue->held, 1, &holder))
			return -1;
		begin = bench_now_ns();
		for (uint32_t i = 0; i < now; i++)
			is_good &= submit(queue, i);
		sum += bench_now_ns() - begin;
		is_good &= !qbrt_future_wait(holder, -1);
		qbrt_future_free(holder);
		if (!collect_all(queue) || !is_good)
			return -1;
		num -= now;
	}
	return sum;
}

const struct bench_probe probe_submit = {
	.name = "submit, core busy",
	.open = open_held,
	.run = run_submit,
	.close = close_queue,
	.count = count_queue,
};

/* P24 */
static int64_t run_submit_wake(void *state, uint32_t num)
{
	struct queue *queue = state;
	int64_t sum = 0;

	while (num--) {
		int64_t begin;

		bench_wait_asleep(queue->core);
		begin = bench_now_ns();
		if (!submit(queue, 0))
			return -1;
		sum += bench_now_ns() - begin;
		if (!collect(queue, 0))
			return -1;
	}
	return sum;
}

const struct bench_probe probe_submit_wake = {
	.name = "submit, core asleep",
	.open = open_plain,
	.run = run_submit_wake,
	.close = close_queue,
	.count = count_queue,
};

/* P25: as many in flight as there are outputs. */
static int64_t run_pipelined(void *state, uint32_t num)
{
	struct queue *queue = state;
	int64_t begin = bench_now_ns();

	for (uint32_t i = 0; i < num * RATE_JOBS; i++)
		if (!collect(queue, i % DEPTH) || !submit(queue, i % DEPTH))
			return -1;
	if (!collect_all(queue))
		return -1;
	return (bench_now_ns() - begin) / RATE_JOBS;
}

const struct bench_probe probe_pipelined = {
	.name = "pipelined",
	.open = open_plain,
	.run = run_pipelined,
	.close = close_queue,
	.count = count_queue,
};

/* P36: the CPU time of who waits for a job of 10 ms. */
static void *open_long(const struct bench_case *bench_case)
{
	return open_queue(bench_case, &subject_10ms, false);
}

static int64_t run_wait_cpu(void *state, uint32_t num)
{
	struct queue *queue = state;
	int64_t begin = bench_thread_cpu_ns();

	while (num--)
		if (!submit(queue, 0) || !collect(queue, 0))
			return -1;
	return bench_thread_cpu_ns() - begin;
}

const struct bench_probe probe_wait_cpu = {
	.name = "CPU time of a wait",
	.open = open_long,
	.run = run_wait_cpu,
	.close = close_queue,
	.count = count_queue,
};
