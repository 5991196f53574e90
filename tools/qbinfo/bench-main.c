// SPDX-License-Identifier: MIT
/*
 * The options that every program of tests/bench/ has, and a line of text for
 * each metric and placement. --json writes records instead.
 */
#include "bench-record.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *bench_device;
const char *bench_kind = "software";
const char *bench_backend = "ref";

/* P02: the seed is chosen here when none is given, and always printed. */
static struct bench_options options = { .seconds = 1.0 };
static const char *wanted_metric;
static enum bench_placement wanted_placement;
static bool is_list, is_json;

static const char *const usage =
	"[--list] [--metric NAME] [--placement one|same|cross|free] "
	"[--seconds S] [--seed N] [--json] [--smoke]";

static const struct option long_options[] = {
	{ "list", no_argument, NULL, 'l' },
	{ "metric", required_argument, NULL, 'm' },
	{ "placement", required_argument, NULL, 'p' },
	{ "seconds", required_argument, NULL, 's' },
	{ "seed", required_argument, NULL, 'n' },
	{ "json", no_argument, NULL, 'j' },
	{ "smoke", no_argument, NULL, 'k' },
	{ 0 },
};

static bool take_option(int option, const char *value)
{
	char *end = NULL;

	switch (option) {
	case 'l':
		is_list = true;
		return true;
	case 'm':
		wanted_metric = value;
		return true;
	case 'p':
		return bench_placement_from_name(value, &wanted_placement);
	case 's':
		options.seconds = strtod(value, &end);
		return !*end && options.seconds > 0;
	case 'n':
		options.seed = strtoull(value, &end, 0);
		return !*end && options.seed;
	case 'j':
		is_json = true;
		return true;
	case 'k':
		options.is_smoke = true;
		return true;
	default:
		return false;
	}
}

static bool read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0)
		if (!take_option(option, optarg))
			return false;
	if (!options.seed)
		options.seed = (uint64_t)time(NULL);
	return optind == argc;
}

static void print_list(const struct bench_metric *metrics, size_t num)
{
	for (size_t i = 0; i < num; i++) {
		printf("%-24s %-5s", metrics[i].name, metrics[i].row);
		for (unsigned int p = 0; p < BENCH_NUM_PLACEMENTS; p++)
			if (metrics[i].placements >> p & 1)
				printf(" %s",
				       bench_placement_name((
					       enum bench_placement)(1u << p)));
		printf("%s%s\n", metrics[i].target ? "  " : "",
		       metrics[i].target ? metrics[i].target : "");
	}
}

static void print_other(const char *what, const struct bench_series *series)
{
	if (series->num_samples)
		printf("  %s %.4g (%s)", what, series->statistics.p50,
		       series->probe->name);
}

/* P01: never without the floor of the same run. */
static void print_result(const struct bench_result *result)
{
	const struct bench_series *subject = &result->series[0];

	printf("%-24s %-4s %-5s ", result->metric->name, result->metric->row,
	       bench_placement_name(result->placement));
	if (result->reason)
		printf("%s: %s", bench_verdict_name(result->verdict),
		       result->reason);
	if (subject->num_samples && !result->reason) {
		printf("min %.4g p50 %.4g p99 %.4g first %.4g ns",
		       subject->statistics.min, subject->statistics.p50,
		       subject->statistics.p99, subject->first);
		print_other("floor", &result->series[1]);
		print_other("peer", &result->series[2]);
		if (result->metric->floor)
			printf("  ratio %.3g [%.3g, %.3g]", result->ratio.value,
			       result->ratio.low, result->ratio.high);
		if (result->metric->target)
			printf("  target %s", result->metric->target);
		printf("  %s", bench_verdict_name(result->verdict));
	}
	printf("\n");
	(void)fflush(stdout);
}

/* The command line, for the record; the caller frees it. */
static char *join(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	(void)fputs(slash ? slash + 1 : argv[0], file);
	for (int i = 1; i < argc; i++)
		(void)fprintf(file, " %s", argv[i]);
	if (!fclose(file))
		return text;
	free(text);
	return NULL;
}

static int measure(const struct bench_metric *metric,
		   enum bench_placement placement, const char *command)
{
	struct bench_result result;
	int err = bench_measure(metric, placement, &options, &result);

	if (err)
		fprintf(stderr, "%s %s: %s\n", metric->name,
			bench_placement_name(placement),
			err != -EIO ? strerror(-err)
			: bench_get_wrong() ?: "a failed call");
	else if (is_json)
		bench_write_record(stdout, &result, &options, command);
	else
		print_result(&result);
	bench_result_free(&result);
	return err;
}

int bench_main(int argc, char **argv, const struct bench_metric *metrics,
	       size_t num_metrics)
{
	char *command = join(argc, argv);
	int num_failed = 0;
	int num = 0;

	if (!command || !read_options(argc, argv)) {
		fprintf(stderr, "usage: %s %s\n", argv[0], usage);
		free(command);
		return 2;
	}
	if (is_list) {
		print_list(metrics, num_metrics);
		free(command);
		return 0;
	}
	if (!is_json)
		printf("# %s: seed %llu\n", command,
		       (unsigned long long)options.seed);
	for (size_t i = 0; i < num_metrics; i++) {
		if (wanted_metric &&
		    strcmp(wanted_metric, metrics[i].name) != 0)
			continue;
		for (unsigned int p = 1; p < 1u << BENCH_NUM_PLACEMENTS; p *= 2)
			if (metrics[i].placements & p &&
			    (!wanted_placement || wanted_placement == p)) {
				num++;
				num_failed += measure(&metrics[i],
						      (enum bench_placement)p,
						      command) != 0;
			}
	}
	free(command);
	if (!num)
		fprintf(stderr, "%s: no such metric or placement; see --list\n",
			argv[0]);
	return num_failed ? 1 : num ? 0 : 2;
}
