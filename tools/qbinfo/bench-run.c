// SPDX-License-Identifier: MIT
/*
 * Measures one metric: its sides in blocks that alternate (P02), warm-up and
 * first call apart (P06), short operations in batches (P14), and the verdict.
 * A block ends after 1,000 samples or half a second.
 */
#include "bench.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_SAMPLES 1000
#define BLOCK_NS INT64_C(500000000)
#define MIN_ROUNDS 10
#define NUM_WARM_UPS 3
/* a batch is this long, so that reading the clock is below 0.2 % of it */
#define BATCH_NS 25000
/* from here on one call is one sample */
#define SINGLE_NS 1000
#define MAX_BATCH (1u << 20)

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t bench_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t bench_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

atomic_uint bench_num_steps;

static const char *last_reason;
static char wrong[512];

void bench_set_reason(const char *reason)
{
	last_reason = reason;
}

void bench_set_wrong(const char *what, const char *detail)
{
	(void)snprintf(wrong, sizeof(wrong), "%s%s%s", what ?: "",
		       detail && *detail ? ": " : "", detail ?: "");
}

const char *bench_get_wrong(void)
{
	return *wrong ? wrong : NULL;
}

const char *bench_get_reason(void)
{
	return last_reason ? last_reason : "its probe did not open";
}

const char *bench_verdict_name(enum bench_verdict verdict)
{
	static const char *const names[] = { "met", "missed", "noisy",
					     "not_measured", "no target" };

	return names[verdict];
}

/* Rows of floors are calls of the system, and all others of the library. */
static bool is_floor(const struct bench_probe *probe)
{
	return probe->name[0] == 'F' && isdigit((unsigned char)probe->name[1]);
}

/* Negative: it failed. Why: the library keeps that of its calls, floors errno. */
static int64_t run(const struct bench_series *series, uint32_t num)
{
	int64_t ns = series->probe->run(series->state, num);

	if (ns < 0 && !*wrong && is_floor(series->probe))
		bench_set_wrong(series->probe->name, strerror(errno));
	return ns;
}

/* The first call, the warm-up, and how many calls make a sample. */
static int warm_up(struct bench_series *series, bool is_smoke)
{
	int64_t ns = run(series, 1);

	series->first = (double)ns;
	series->batch = 1;
	if (ns < 0 || is_smoke)
		return ns < 0 ? -EIO : 0;
	for (int i = 1; i < NUM_WARM_UPS && ns >= 0; i++)
		ns = run(series, 1);
	if (ns < 0)
		return -EIO;
	if (ns >= SINGLE_NS || series->probe->is_single)
		return 0;
	while (ns < BATCH_NS && series->batch < MAX_BATCH) {
		series->batch *= 2;
		ns = run(series, series->batch);
		if (ns < 0)
			return -EIO;
	}
	return 0;
}

static int add_sample(struct bench_series *series, double value, uint32_t block)
{
	if (series->num_samples == series->max_samples) {
		size_t max = series->max_samples ? 2 * series->max_samples
						 : 2 * BLOCK_SAMPLES;
		double *samples =
			realloc(series->samples, max * sizeof(*samples));
		uint32_t *blocks;

		if (!samples)
			return -ENOMEM;
		series->samples = samples;
		blocks = realloc(series->blocks, max * sizeof(*blocks));
		if (!blocks)
			return -ENOMEM;
		series->blocks = blocks;
		series->max_samples = max;
	}
	series->samples[series->num_samples] = value;
	series->blocks[series->num_samples++] = block;
	return 0;
}

static struct bench_block *add_block(struct bench_result *result)
{
	if (result->num_blocks == result->max_blocks) {
		uint32_t max = 2 * result->max_blocks + 64;
		struct bench_block *blocks =
			realloc(result->blocks, max * sizeof(*blocks));

		if (!blocks)
			return NULL;
		result->blocks = blocks;
		result->max_blocks = max;
	}
	return &result->blocks[result->num_blocks++];
}

static int run_block(struct bench_result *result, uint32_t side,
		     const struct bench_options *options)
{
	struct bench_series *series = &result->series[side];
	struct bench_statistics statistics;
	struct bench_block *block = add_block(result);
	size_t begin = series->num_samples;
	int64_t end_ns;
	int err = 0;

	if (!block)
		return -ENOMEM;
	*block = (struct bench_block){ .side = side };
	bench_read_load(&block->before);
	end_ns = bench_now_ns() + (options->block_ns ?: BLOCK_NS);
	do {
		int64_t ns = run(series, series->batch);

		atomic_fetch_add_explicit(&bench_num_steps, 1,
					  memory_order_relaxed);
		err = ns < 0 ? -EIO
			     : add_sample(series,
					  (double)ns / (double)series->batch,
					  result->num_blocks - 1);
	} while (!err && !options->is_smoke &&
		 series->num_samples - begin < BLOCK_SAMPLES &&
		 bench_now_ns() < end_ns);
	bench_read_load(&block->after);
	if (err)
		return err;
	block->is_noisy = bench_is_noisy(&block->before, &block->after);
	result->num_noisy += block->is_noisy;
	if (!bench_compute_statistics(series->samples + begin,
				      series->num_samples - begin, &statistics))
		return -ENOMEM;
	series->medians[result->num_rounds] = statistics.p50;
	return 0;
}

static int add_round(struct bench_result *result)
{
	uint32_t max = 2 * result->max_rounds + MIN_ROUNDS;

	if (result->num_rounds < result->max_rounds)
		return 0;
	for (uint32_t i = 0; i < BENCH_MAX_SIDES; i++) {
		struct bench_series *series = &result->series[i];
		double *medians =
			realloc(series->medians, max * sizeof(*medians));

		if (!medians)
			return -ENOMEM;
		series->medians = medians;
	}
	result->max_rounds = max;
	return 0;
}

static int run_rounds(struct bench_result *result,
		      const struct bench_options *options)
{
	struct bench_random random = { .state = options->seed };
	int64_t end_ns =
		bench_now_ns() + (int64_t)(options->seconds * 1000000000);
	unsigned int order[BENCH_MAX_SIDES];
	int err = 0;

	do {
		err = add_round(result);
		bench_random_order(&random, order, BENCH_MAX_SIDES);
		for (uint32_t i = 0; i < BENCH_MAX_SIDES && !err; i++) {
			if (result->series[order[i]].probe)
				err = run_block(result, order[i], options);
		}
		if (!err)
			result->num_rounds++;
	} while (!err && !options->is_smoke &&
		 (result->num_rounds < MIN_ROUNDS || bench_now_ns() < end_ns));
	return err;
}

static int compare_with_floor(struct bench_result *result, uint64_t seed)
{
	const double *subject = result->series[0].medians;
	const double *floor = result->series[1].medians;
	uint32_t num = result->num_rounds;
	double *values = malloc(num * sizeof(*values));
	bool is_good = values;

	for (uint32_t i = 0; is_good && i < num; i++)
		values[i] = floor[i] > 0 ? subject[i] / floor[i] : 0;
	is_good = is_good &&
		  bench_compute_interval(values, num, seed, &result->ratio);
	for (uint32_t i = 0; is_good && i < num; i++)
		values[i] = subject[i] - floor[i];
	is_good = is_good && bench_compute_interval(values, num, seed,
						    &result->difference);
	free(values);
	return is_good ? 0 : -ENOMEM;
}

static enum bench_verdict judge(const struct bench_result *result)
{
	const struct bench_metric *metric = result->metric;
	double subject = result->series[0].statistics.p50;
	double floor = result->series[1].statistics.p50;

	if (!metric->target)
		return BENCH_NO_TARGET;
	if (2 * result->num_noisy > result->num_blocks)
		return BENCH_NOISY;
	if (metric->gain > 0)
		return floor - subject >=
				       metric->gain *
					       result->series[2].statistics.p50
			       ? BENCH_MET
			       : BENCH_MISSED;
	return subject <= metric->factor * floor + metric->extra_ns
		       ? BENCH_MET
		       : BENCH_MISSED;
}

static int summarise(struct bench_result *result,
		     const struct bench_options *options)
{
	for (uint32_t i = 0; i < BENCH_MAX_SIDES; i++) {
		struct bench_series *series = &result->series[i];

		if (series->num_samples &&
		    !bench_compute_statistics(series->samples,
					      series->num_samples,
					      &series->statistics))
			return -ENOMEM;
	}
	result->verdict = judge(result);
	if (options->is_smoke) {
		result->verdict = BENCH_NOT_MEASURED;
		result->reason = "one call each, to see that it works";
	}
	if (!result->metric->floor)
		return 0;
	return compare_with_floor(result, options->seed);
}

/* false: one of them cannot be measured here. */
static bool open_sides(struct bench_result *result)
{
	const struct bench_metric *metric = result->metric;
	struct bench_case bench_case = { .placement = result->placement,
					 .size = metric->size };
	const struct bench_probe *const probes[BENCH_MAX_SIDES] = {
		metric->subject, metric->floor, metric->peer
	};

	for (uint32_t i = 0; i < BENCH_MAX_SIDES; i++) {
		struct bench_series *series = &result->series[i];

		if (!probes[i])
			continue;
		bench_set_reason(NULL);
		bench_case.probe = probes[i];
		series->state = probes[i]->open(&bench_case);
		if (!series->state)
			return false;
		series->probe = probes[i];
	}
	return true;
}

int bench_measure(const struct bench_metric *metric,
		  enum bench_placement placement,
		  const struct bench_options *options,
		  struct bench_result *result)
{
	int err = 0;

	*result = (struct bench_result){ .metric = metric,
					 .placement = placement,
					 .verdict = BENCH_NOT_MEASURED };
	bench_set_wrong(NULL, NULL);
	if (!bench_can_place(placement)) {
		result->reason = "this machine lets us have one CPU";
		return 0;
	}
	if (open_sides(result)) {
		bench_place(placement, 0, gettid());
		for (uint32_t i = 0; i < BENCH_MAX_SIDES && !err; i++)
			if (result->series[i].probe)
				err = warm_up(&result->series[i],
					      options->is_smoke);
		if (!err)
			err = run_rounds(result, options);
		bench_unplace(gettid());
		result->has_counters = metric->subject->count;
		if (result->has_counters)
			metric->subject->count(result->series[0].state,
					       &result->counters);
		if (!err)
			err = summarise(result, options);
	} else {
		result->reason = bench_get_reason();
		err = *wrong ? -EIO : 0;
	}
	for (uint32_t i = 0; i < BENCH_MAX_SIDES; i++) {
		if (result->series[i].probe)
			result->series[i].probe->close(result->series[i].state);
	}
	return err;
}

void bench_result_free(struct bench_result *result)
{
	for (uint32_t i = 0; i < BENCH_MAX_SIDES; i++) {
		free(result->series[i].samples);
		free(result->series[i].blocks);
		free(result->series[i].medians);
	}
	free(result->blocks);
}
