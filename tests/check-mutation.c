// SPDX-License-Identifier: MIT
/*
 * Every field of every good program of the corpus, one at a time, set to what
 * a careless or hostile writer would put there: refused with a rule, or run
 * inside its bindings. Fields are found by position: each aligned unit of 1,
 * 2, 4 and 8 bytes, which covers every field of section 4 and 5.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarded-run.h"
#include "test-util.h"
#include "util.h"

#define CORPUS TEST_SRCDIR "/fuzz/corpus/validate"
#define MAX_PROGRAM 16384u
#define MAX_GOOD 128

struct totals {
	long refused, ran;
};

static char names[MAX_GOOD][64];
static int num_names;

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void list_names(void)
{
	DIR *dir = opendir(CORPUS);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)) && num_names < MAX_GOOD) {
		if (!strncmp(entry->d_name, "good-", 5) &&
		    strlen(entry->d_name) < sizeof(names[0]))
			memcpy(names[num_names++], entry->d_name,
			       strlen(entry->d_name) + 1);
	}
	(void)closedir(dir);
	qsort(names, (size_t)num_names, sizeof(names[0]), compare_names);
}

static size_t read_program(const char *name, uint8_t *bytes)
{
	char path[512];
	size_t size;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", CORPUS, name);
	file = fopen(path, "rbe");
	ck_assert_ptr_nonnull(file);
	size = fread(bytes, 1, MAX_PROGRAM, file);
	(void)fclose(file);
	ck_assert_uint_ge(size, QBNPU_MIN_PROGRAM_SIZE);
	ck_assert_uint_lt(size, MAX_PROGRAM);
	return size;
}

static uint64_t mutate(uint64_t value, int kind, size_t width)
{
	switch (kind) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return UINT64_MAX;
	case 3:
		return value + 1;
	case 4:
		return value - 1;
	default:
		return __builtin_bswap64(value) >> (64 - 8 * width);
	}
}

static void run_mutant(struct qbnpu_npu *npu, const uint8_t *bytes, size_t size,
		       size_t offset, struct totals *totals)
{
	struct qbnpu_report report;
	enum guarded_end end;
	int mends_sums;

	for (mends_sums = 0; mends_sums < 2; mends_sums++) {
		end = guarded_run(npu, bytes, size, mends_sums, &report);
		/* Check writes a note for each assertion: too slow here */
		if (end != GUARDED_REFUSED && end != GUARDED_RAN)
			ck_abort_msg("offset %zu: end %d, rule %u, command %u",
				     offset, (int)end, report.rule,
				     report.command);
		totals->refused += end == GUARDED_REFUSED;
		totals->ran += end == GUARDED_RAN;
	}
}

static void mutate_program(struct qbnpu_npu *npu, uint8_t *bytes, size_t size,
			   struct totals *totals)
{
	size_t width, offset;
	uint64_t value, mutant;
	int kind;

	for (width = 1; width <= 8; width *= 2) {
		for (offset = 0; offset + width <= size; offset += width) {
			value = 0;
			memcpy(&value, bytes + offset, width);
			for (kind = 0; kind < 6; kind++) {
				mutant = mutate(value, kind, width);
				if (!memcmp(&mutant, &value, width))
					continue;
				memcpy(bytes + offset, &mutant, width);
				run_mutant(npu, bytes, size, offset, totals);
				memcpy(bytes + offset, &value, width);
			}
		}
	}
}

/* V62, by round over the good programs of the corpus */
START_TEST(each_mutant_is_refused_or_stays_inside_its_bindings)
{
	const struct qbnpu_config config = { .name = "regulus-ra",
					     .poison = _i % 2 };
	static uint8_t bytes[MAX_PROGRAM];
	struct totals totals = { 0, 0 };
	struct qbnpu_npu *npu = NULL;
	size_t size = read_program(names[_i], bytes);

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	mutate_program(npu, bytes, size, &totals);
	ck_assert_int_gt(totals.refused, 100);
	qbnpu_npu_close(npu);
}
END_TEST

/* V61: the corpus holds enough that runs, so that the test above has a point */
START_TEST(good_programs_of_the_corpus_run)
{
	const struct qbnpu_config config = { .name = "regulus-ra" };
	static uint8_t bytes[MAX_PROGRAM];
	struct qbnpu_report report;
	struct qbnpu_npu *npu = NULL;
	enum guarded_end end;
	int i, num_ran = 0;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	for (i = 0; i < num_names; i++) {
		const size_t size = read_program(names[i], bytes);

		end = guarded_run(npu, bytes, size, 0, &report);
		if (end == GUARDED_RAN)
			num_ran++;
		else
			ck_assert_msg(
				end == GUARDED_REFUSED &&
					(report.rule == 4 || report.rule == 32),
				"%s: end %d, rule %u", names[i], (int)end,
				report.rule);
	}
	ck_assert_int_ge(num_ran, 12);
	qbnpu_npu_close(npu);
}
END_TEST

int main(void)
{
	list_names();

	const struct qbrt_test tests[] = {
		QBRT_TEST(good_programs_of_the_corpus_run),
		QBRT_LOOP_TEST(
			each_mutant_is_refused_or_stays_inside_its_bindings,
			num_names ? num_names : 1),
	};

	return qbrt_test_run("mutation", tests, qbrt_array_size(tests));
}
