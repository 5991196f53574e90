// SPDX-License-Identifier: MIT
/*
 * The rules of measuring (docs/spec/performance.md, section 2), with probes
 * that say a time instead of taking it.
 */
#include "bench-record.h"

#include <errno.h>
#include <json-c/json.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test-util.h"
#include "util.h"

#define FIRST_NS 90000

/* What a probe says: so much per call, something else the first time. */
struct said {
	int64_t per_call;
	uint64_t num_runs;
	uint64_t fail_at;
};

static struct said subject_said, floor_said;

static void *open_subject(const struct bench_case *bench_case)
{
	(void)bench_case;
	return &subject_said;
}

static void *open_floor(const struct bench_case *bench_case)
{
	(void)bench_case;
	return &floor_said;
}

static void *open_nothing(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("there is none");
	return NULL;
}

static int64_t say(void *state, uint32_t num)
{
	struct said *said = state;

	said->num_runs++;
	if (said->num_runs == said->fail_at)
		return -1;
	if (said->num_runs == 1)
		return FIRST_NS;
	/* not all alike, and the same in each run of the test */
	return said->per_call * num + (int64_t)(said->num_runs % 7);
}

static void close_nothing(void *state)
{
	(void)state;
}

static void count_nothing(const void *state, struct bench_counters *counters)
{
	const struct said *said = state;

	*counters = (struct bench_counters){ .jobs = said->num_runs };
}

static const struct bench_probe subject = {
	.name = "subject",
	.open = open_subject,
	.run = say,
	.close = close_nothing,
	.count = count_nothing,
};
static const struct bench_probe floor_probe = {
	.name = "floor",
	.open = open_floor,
	.run = say,
	.close = close_nothing,
};
static const struct bench_probe nothing = { .open = open_nothing };

static const struct bench_metric metric = {
	.name = "said",
	.row = "P20",
	.placements = BENCH_FREE,
	.subject = &subject,
	.floor = &floor_probe,
	.factor = 2,
	.target = "<= 2 x the floor",
};
static const struct bench_options options = { .seconds = 1e-9, .seed = 7 };

static struct bench_result measure(int64_t subject_ns, int64_t floor_ns)
{
	struct bench_result result;

	subject_said = (struct said){ .per_call = subject_ns };
	floor_said = (struct said){ .per_call = floor_ns };
	ck_assert_int_eq(bench_measure(&metric, BENCH_FREE, &options, &result),
			 0);
	return result;
}

/* P02 */
START_TEST(the_order_of_a_pair_comes_from_the_seed)
{
	struct bench_random a = { .state = 1 };
	struct bench_random b = { .state = 1 };
	unsigned int first = 0;

	for (int i = 0; i < 1000; i++) {
		unsigned int order[2];
		unsigned int again[2];

		bench_random_order(&a, order, 2);
		bench_random_order(&b, again, 2);
		ck_assert_mem_eq(order, again, sizeof(order));
		ck_assert_uint_eq(order[0] + order[1], 1);
		first += order[0];
	}
	ck_assert_uint_gt(first, 400);
	ck_assert_uint_lt(first, 600);
}
END_TEST

/* P02: ten rounds, each a block of 1,000 of either side. */
START_TEST(sides_alternate_in_ten_blocks_of_a_thousand)
{
	struct bench_result result = measure(3000, 2000);

	ck_assert_uint_eq(result.num_rounds, 10);
	ck_assert_uint_eq(result.num_blocks, 20);
	for (uint32_t i = 0; i < 20; i += 2)
		ck_assert_uint_eq(
			result.blocks[i].side + result.blocks[i + 1].side, 1);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(result.series[i].num_samples, 10000);
	bench_result_free(&result);
}
END_TEST

/* P06 */
START_TEST(the_first_call_is_in_no_statistic)
{
	struct bench_result result = measure(3000, 2000);
	const struct bench_series *series = &result.series[0];

	ck_assert_double_eq(series->first, FIRST_NS);
	for (size_t i = 0; i < series->num_samples; i++)
		ck_assert_double_lt(series->samples[i], 3007);
	/* the first one and two more */
	ck_assert_uint_eq(subject_said.num_runs, series->num_samples + 3);
	bench_result_free(&result);
}
END_TEST

/* P14 */
START_TEST(short_operations_are_timed_in_batches)
{
	struct bench_result result = measure(10, 2000);

	ck_assert_uint_ge(result.series[0].batch, 2500);
	ck_assert_uint_eq(result.series[1].batch, 1);
	ck_assert_double_eq_tol(result.series[0].statistics.p50, 10, 0.01);
	bench_result_free(&result);
}
END_TEST

/* P03 */
START_TEST(quantiles_are_values_that_were_measured)
{
	struct bench_statistics statistics;
	double values[101];

	for (int i = 0; i <= 100; i++)
		values[i] = (i * 37) % 101;
	ck_assert(bench_compute_statistics(values, 101, &statistics));
	ck_assert_double_eq(statistics.min, 0);
	ck_assert_double_eq(statistics.p50, 50);
	ck_assert_double_eq(statistics.p90, 90);
	ck_assert_double_eq(statistics.p99, 99);
	ck_assert_double_eq(values[1], 37);
}
END_TEST

/* P15 */
START_TEST(an_interval_holds_one_unless_the_sides_differ)
{
	struct bench_result result = measure(3000, 2000);
	double even[20];
	struct bench_interval interval;

	ck_assert_double_gt(result.ratio.low, 1.4);
	ck_assert_double_lt(result.ratio.high, 1.6);
	ck_assert_double_le(result.ratio.low, result.ratio.value);
	ck_assert_double_le(result.ratio.value, result.ratio.high);
	for (int i = 0; i < 20; i++)
		even[i] = i % 2 ? 0.9 : 1.1;
	ck_assert(bench_compute_interval(even, 20, 1, &interval));
	ck_assert_double_lt(interval.low, 1);
	ck_assert_double_gt(interval.high, 1);
	bench_result_free(&result);
}
END_TEST

/* P15: of two runs that are not paired. */
START_TEST(two_runs_differ_only_if_the_interval_says_so)
{
	struct bench_interval interval;
	double now[12], other[8], spread[8];

	for (int i = 0; i < 12; i++)
		now[i] = 100 + i;
	for (int i = 0; i < 8; i++) {
		other[i] = 200 + i;
		spread[i] = i % 2 ? 1 : 10000;
	}
	ck_assert(bench_compare_runs(now, 12, now, 12, 1, &interval));
	ck_assert_double_eq(interval.value, 1);
	ck_assert_double_lt(interval.low, 1);
	ck_assert_double_gt(interval.high, 1);
	ck_assert(bench_compare_runs(now, 12, other, 8, 1, &interval));
	ck_assert_double_lt(interval.high, 0.6);
	ck_assert(bench_compare_runs(other, 8, now, 12, 1, &interval));
	ck_assert_double_gt(interval.low, 1.7);
	ck_assert(bench_compare_runs(now, 12, spread, 8, 1, &interval));
	ck_assert_double_lt(interval.low, 1);
	ck_assert_double_gt(interval.high, 1);
}
END_TEST

/* P05 */
START_TEST(a_block_above_a_fifth_of_pressure_or_steal_is_noisy)
{
	struct bench_load quiet = { .pressure = 20 };
	struct bench_load loud = { .pressure = 20.5 };
	struct bench_load stolen = { .ticks = 100, .steal = 21 };
	struct bench_load unknown = { .pressure = -1 };

	ck_assert(!bench_is_noisy(&quiet, &quiet));
	ck_assert(bench_is_noisy(&quiet, &loud));
	ck_assert(bench_is_noisy(&loud, &quiet));
	ck_assert(bench_is_noisy(&unknown, &stolen));
	ck_assert(!bench_is_noisy(&unknown, &unknown));
}
END_TEST

/* P05: and then nothing is compared with the target. */
START_TEST(the_verdict_says_met_or_missed_only_when_quiet)
{
	struct bench_result result = measure(3000, 2000);
	bool is_noisy = 2 * result.num_noisy > result.num_blocks;

	ck_assert_int_eq(result.verdict, is_noisy ? BENCH_NOISY : BENCH_MET);
	bench_result_free(&result);
	result = measure(5000, 2000);
	is_noisy = 2 * result.num_noisy > result.num_blocks;
	ck_assert_int_eq(result.verdict, is_noisy ? BENCH_NOISY : BENCH_MISSED);
	bench_result_free(&result);
}
END_TEST

START_TEST(a_wrong_result_is_an_error)
{
	struct bench_result result;

	for (uint64_t at = 1; at < 10; at += 4) {
		subject_said = (struct said){ .per_call = 3000, .fail_at = at };
		floor_said = (struct said){ .per_call = 2000 };
		ck_assert_int_eq(
			bench_measure(&metric, BENCH_FREE, &options, &result),
			-EIO);
		bench_result_free(&result);
	}
}
END_TEST

/* P19 */
START_TEST(what_cannot_be_opened_is_not_measured)
{
	const struct bench_metric missing = { .name = "missing",
					      .row = "P20",
					      .subject = &nothing,
					      .floor = &floor_probe,
					      .target = "none" };
	struct bench_result result;

	ck_assert_int_eq(bench_measure(&missing, BENCH_FREE, &options, &result),
			 0);
	ck_assert_int_eq(result.verdict, BENCH_NOT_MEASURED);
	ck_assert_str_eq(result.reason, "there is none");
	bench_result_free(&result);
}
END_TEST

/* I13: neither waits for the other one's end with that end in its own hands */
START_TEST(a_killed_partner_is_an_error)
{
	const struct bench_case bench_case = { .placement = BENCH_FREE };
	const struct bench_probe *probe = &bench_floor_socket;
	char path[64];
	FILE *children;
	void *state;
	char line[32];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		       getpid());
	if (access(path, R_OK))
		QBRT_TEST_SKIP("this kernel does not list children");
	state = probe->open(&bench_case);
	ck_assert(state);
	ck_assert_int_ge(probe->run(state, 1), 0);
	children = fopen(path, "re");
	ck_assert(children);
	ck_assert(fgets(line, sizeof(line), children));
	ck_assert_int_eq(fclose(children), 0);
	ck_assert_int_eq(kill((pid_t)strtol(line, NULL, 10), SIGKILL), 0);
	ck_assert_int_lt(probe->run(state, 1), 0);
	ck_assert_str_eq(bench_get_wrong(), "no answer came from the partner");
	bench_set_wrong(NULL, NULL);
	probe->close(state);
}
END_TEST

/* P04 */
START_TEST(placed_threads_share_a_cpu_or_do_not)
{
	cpu_set_t before, same, cross, after;

	ck_assert(!sched_getaffinity(0, sizeof(before), &before));
	bench_place(BENCH_SAME, 1, gettid());
	ck_assert(!sched_getaffinity(0, sizeof(same), &same));
	ck_assert_int_eq(CPU_COUNT(&same), 1);
	if (bench_can_place(BENCH_CROSS)) {
		bench_place(BENCH_CROSS, 1, gettid());
		ck_assert(!sched_getaffinity(0, sizeof(cross), &cross));
		ck_assert_int_eq(CPU_COUNT(&cross), 1);
		ck_assert(!CPU_EQUAL(&same, &cross));
	}
	bench_unplace(gettid());
	ck_assert(!sched_getaffinity(0, sizeof(after), &after));
	ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

static struct json_object *get(struct json_object *object, const char *key)
{
	struct json_object *member = NULL;

	ck_assert_msg(json_object_object_get_ex(object, key, &member), "no %s",
		      key);
	return member;
}

/* P01 P07: a reader recomputes everything from the record. */
START_TEST(a_record_holds_all_members_and_every_sample)
{
	static const char *const members[] = {
		"metric",  "row",     "unit",        "placement",
		"device",  "kind",    "backend",     "cpu_isa",
		"samples", "block",   "min",         "p50",
		"p90",     "p99",     "count",       "first",
		"floor",   "peer",    "ratio",       "difference_ns",
		"target",  "verdict", "environment", "counters",
	};
	static const char *const around[] = {
		"kernel",  "cpu",          "cpus_allowed", "blocks",
		"seed",    "command",      "compiler",     "build_flags",
		"version", "noisy_blocks", "variables",
	};
	struct bench_result result = measure(3000, 2000);
	struct json_object *record;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	struct inventory inventory;

	inventory_start(&inventory);
	bench_write_record(file, &result, &options, "the command");
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_uint_eq(strcspn(text, "\n"), size - 1);
	record = json_tokener_parse(text);
	ck_assert(record);
	for (size_t i = 0; i < qbrt_array_size(members); i++)
		(void)get(record, members[i]);
	for (size_t i = 0; i < qbrt_array_size(around); i++)
		(void)get(get(record, "environment"), around[i]);
	ck_assert_uint_eq(json_object_array_length(get(record, "samples")),
			  10000);
	ck_assert_uint_eq(
		json_object_array_length(get(get(record, "floor"), "samples")),
		10000);
	ck_assert_int_eq(
		json_object_get_int64(get(get(record, "environment"), "seed")),
		7);
	(void)json_object_put(record);
	free(text);
	inventory_free();
	bench_result_free(&result);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_order_of_a_pair_comes_from_the_seed),
		QBRT_TEST(sides_alternate_in_ten_blocks_of_a_thousand),
		QBRT_TEST(the_first_call_is_in_no_statistic),
		QBRT_TEST(short_operations_are_timed_in_batches),
		QBRT_TEST(quantiles_are_values_that_were_measured),
		QBRT_TEST(an_interval_holds_one_unless_the_sides_differ),
		QBRT_TEST(two_runs_differ_only_if_the_interval_says_so),
		QBRT_TEST(a_block_above_a_fifth_of_pressure_or_steal_is_noisy),
		QBRT_TEST(the_verdict_says_met_or_missed_only_when_quiet),
		QBRT_TEST(a_wrong_result_is_an_error),
		QBRT_TEST(what_cannot_be_opened_is_not_measured),
		QBRT_TEST(a_killed_partner_is_an_error),
		QBRT_TEST(placed_threads_share_a_cpu_or_do_not),
		QBRT_TEST(a_record_holds_all_members_and_every_sample),
	};

	return qbrt_test_run("bench", tests, qbrt_array_size(tests));
}
