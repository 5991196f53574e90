// SPDX-License-Identifier: MIT
/*
 * Order statistics and the bootstrap (P03, P15). The generator is xorshift64*:
 * the same seed gives the same order of blocks and the same interval anywhere.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define NUM_RESAMPLES 1000

uint64_t bench_random_next(struct bench_random *random)
{
	uint64_t x = random->state ? random->state : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	random->state = x;
	return x * UINT64_C(0x2545f4914f6cdd1d);
}

void bench_random_order(struct bench_random *random, unsigned int *order,
			unsigned int num)
{
	for (unsigned int i = 0; i < num; i++) {
		unsigned int at =
			(unsigned int)((bench_random_next(random) >> 33) %
				       (i + 1));

		order[i] = order[at];
		order[at] = i;
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The smallest value that part of them do not exceed. */
static double get_quantile(const double *sorted, size_t num, double part)
{
	size_t at = (size_t)(part * (double)(num - 1) + 0.5);

	return sorted[at];
}

static double *copy_sorted(const double *values, size_t num)
{
	double *sorted = malloc(num * sizeof(*sorted));

	if (!sorted)
		return NULL;
	memcpy(sorted, values, num * sizeof(*sorted));
	qsort(sorted, num, sizeof(*sorted), compare);
	return sorted;
}

bool bench_compute_statistics(const double *values, size_t num,
			      struct bench_statistics *statistics)
{
	double *sorted = copy_sorted(values, num);

	if (!sorted)
		return false;
	*statistics = (struct bench_statistics){
		.min = sorted[0],
		.p50 = get_quantile(sorted, num, 0.5),
		.p90 = get_quantile(sorted, num, 0.9),
		.p99 = get_quantile(sorted, num, 0.99),
		.count = num,
	};
	free(sorted);
	return true;
}

/* The median of as many as there are, drawn with replacement. */
static double draw_median(const double *values, size_t num, double *drawn,
			  struct bench_random *random)
{
	for (size_t j = 0; j < num; j++)
		drawn[j] = values[bench_random_next(random) % num];
	qsort(drawn, num, sizeof(*drawn), compare);
	return get_quantile(drawn, num, 0.5);
}

/* then NULL: the interval of now alone, else of now divided by then. */
static bool resample(const double *now, size_t num_now, const double *then,
		     size_t num_then, uint64_t seed,
		     struct bench_interval *interval)
{
	struct bench_random random = { .state = seed };
	size_t num_max = num_now > num_then ? num_now : num_then;
	double *medians = malloc(NUM_RESAMPLES * sizeof(*medians));
	double *drawn = malloc(num_max * sizeof(*drawn));
	double *sorted = copy_sorted(now, num_now);
	double *other = then ? copy_sorted(then, num_then) : NULL;
	bool is_good = medians && drawn && sorted && (other || !then);

	for (size_t i = 0; is_good && i < NUM_RESAMPLES; i++) {
		medians[i] = draw_median(now, num_now, drawn, &random);
		if (then)
			medians[i] /=
				draw_median(then, num_then, drawn, &random);
	}
	if (is_good) {
		qsort(medians, NUM_RESAMPLES, sizeof(*medians), compare);
		interval->value = get_quantile(sorted, num_now, 0.5);
		if (then)
			interval->value /= get_quantile(other, num_then, 0.5);
		interval->low = get_quantile(medians, NUM_RESAMPLES, 0.025);
		interval->high = get_quantile(medians, NUM_RESAMPLES, 0.975);
	}
	free(medians);
	free(drawn);
	free(sorted);
	free(other);
	return is_good;
}

bool bench_compute_interval(const double *values, size_t num, uint64_t seed,
			    struct bench_interval *interval)
{
	return resample(values, num, NULL, 0, seed, interval);
}

bool bench_compare_runs(const double *now, size_t num_now, const double *then,
			size_t num_then, uint64_t seed,
			struct bench_interval *interval)
{
	return resample(now, num_now, then, num_then, seed, interval);
}
