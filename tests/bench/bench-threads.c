// SPDX-License-Identifier: MIT
/*
 * P37: eight threads on one model and one core, against one thread. A sample
 * is the time per call of a round in which each thread makes its share.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "subject.h"
#include "util.h"

#define MAX_THREADS 8
#define CALLS_PER_ROUND 1600

struct caller {
	pthread_t thread;
	struct team *team;
	struct qbrt_pinned_memory *in, *out;
};

struct team {
	struct subject *subject;
	unsigned int num_threads;
	pthread_barrier_t begin, end;
	bool is_over; /* between the barriers nobody writes it */
	atomic_bool has_failed;
	struct caller callers[MAX_THREADS];
};

static void *make_calls(void *arg)
{
	const struct caller *caller = arg;
	struct team *team = caller->team;
	unsigned int num = CALLS_PER_ROUND / team->num_threads;

	for (;;) {
		(void)pthread_barrier_wait(&team->begin);
		if (team->is_over)
			return NULL;
		for (unsigned int i = 0; i < num; i++)
			if (qbrt_model_infer_pinned_memory(team->subject->model,
							   NULL, &caller->in, 1,
							   &caller->out, 1))
				atomic_store(&team->has_failed, true);
		(void)pthread_barrier_wait(&team->end);
	}
}

static bool start_caller(struct team *team, struct caller *caller)
{
	struct qbrt_model *model = team->subject->model;

	caller->team = team;
	return !qbrt_model_alloc_input(model, 0, &caller->in) &&
	       !qbrt_model_alloc_output(model, 0, &caller->out) &&
	       !pthread_create(&caller->thread, NULL, make_calls, caller);
}

static void *open_team(const struct bench_case *bench_case,
		       unsigned int num_threads)
{
	struct team *team = calloc(1, sizeof(*team));

	if (!team)
		return NULL;
	team->num_threads = num_threads;
	team->subject = subject_open(bench_case, &subject_nop);
	if (!team->subject) {
		free(team);
		return NULL;
	}
	(void)pthread_barrier_init(&team->begin, NULL, num_threads + 1);
	(void)pthread_barrier_init(&team->end, NULL, num_threads + 1);
	/* a caller that does not start would leave the others at the barrier */
	for (unsigned int i = 0; i < num_threads; i++)
		if (!start_caller(team, &team->callers[i]))
			abort();
	return team;
}

static void *open_one(const struct bench_case *bench_case)
{
	return open_team(bench_case, 1);
}

static void *open_eight(const struct bench_case *bench_case)
{
	return open_team(bench_case, MAX_THREADS);
}

static int64_t run_team(void *state, uint32_t num)
{
	struct team *team = state;
	int64_t sum = 0;

	while (num--) {
		int64_t begin = bench_now_ns();

		(void)pthread_barrier_wait(&team->begin);
		(void)pthread_barrier_wait(&team->end);
		sum += (bench_now_ns() - begin) / CALLS_PER_ROUND;
	}
	return atomic_load(&team->has_failed) ? -1 : sum;
}

static void close_team(void *state)
{
	struct team *team = state;

	team->is_over = true;
	(void)pthread_barrier_wait(&team->begin);
	for (unsigned int i = 0; i < team->num_threads; i++) {
		(void)pthread_join(team->callers[i].thread, NULL);
		qbrt_pinned_memory_free(team->callers[i].in);
		qbrt_pinned_memory_free(team->callers[i].out);
	}
	(void)pthread_barrier_destroy(&team->begin);
	(void)pthread_barrier_destroy(&team->end);
	subject_close(team->subject);
	free(team);
}

static void count_team(const void *state, struct bench_counters *counters)
{
	const struct team *team = state;

	subject_count(team->subject, counters);
}

static const struct bench_probe probe_one = {
	.name = "one thread",
	.open = open_one,
	.run = run_team,
	.close = close_team,
};

static const struct bench_probe probe_eight = {
	.name = "eight threads",
	.open = open_eight,
	.run = run_team,
	.close = close_team,
	.count = count_team,
};

int main(int argc, char **argv)
{
	const struct bench_metric metrics[] = {
		{ .name = "threads8",
		  .row = "P37",
		  .placements = BENCH_FREE,
		  .subject = &probe_eight,
		  .floor = &probe_one,
		  .factor = 1 / 0.9,
		  .target = ">= 0.9 x the rate of one thread" },
	};

	subject_setup();
	return bench_main(argc, argv, metrics, qbrt_array_size(metrics));
}
