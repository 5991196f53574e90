// SPDX-License-Identifier: MIT
/* Ticks of qbinfo stat, on a clock of the test. */
#include "test-util.h"
#include "util.h"

#include "stat-ticks.c" /* NOLINT(bugprone-suspicious-include) */

static int64_t clock_now;
static int64_t oversleep;      /* ns, of the next wait */
static unsigned int num_early; /* waits that end halfway */

static int64_t read_clock(void)
{
	return clock_now;
}

static void wait_until(int64_t instant)
{
	if (num_early) {
		num_early--;
		clock_now += (instant - clock_now) / 2;
		return;
	}
	ck_assert_int_gt(instant, clock_now);
	clock_now = instant + oversleep;
	oversleep = 0;
}

static struct stat_ticks start(void)
{
	struct stat_ticks ticks = {
		.now = read_clock,
		.wait_until = wait_until,
		.interval = 100,
	};

	clock_now = 1000003;
	oversleep = 0;
	num_early = 0;
	stat_ticks_start(&ticks);
	return ticks;
}

#define ck_assert_ticks(ticks, at, records_, missed_) \
	do { \
		ck_assert_int_eq(clock_now - (ticks).start, at); \
		ck_assert_uint_eq((ticks).records, records_); \
		ck_assert_uint_eq((ticks).missed, missed_); \
	} while (0)

/* I100: whatever reading takes, and however late a wait ends */
START_TEST(tick_k_is_at_start_and_k_intervals)
{
	struct stat_ticks ticks = start();

	for (unsigned int k = 1; k <= 1000; k++) {
		oversleep = k % 7;
		stat_ticks_wait(&ticks);
		ck_assert_ticks(ticks, 100 * k + k % 7, k, 0);
		clock_now += k % 90;
	}
}
END_TEST

/* I100 */
START_TEST(a_late_tick_is_skipped_and_counted)
{
	struct stat_ticks ticks = start();

	stat_ticks_wait(&ticks);
	clock_now += 350; /* stopped while it read: 2 and 3 are over */
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 450, 2, 2);
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 500, 3, 2);
	oversleep = 270; /* stopped while it waited: 6 and 7 are over */
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 870, 4, 4);
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 900, 5, 4);
}
END_TEST

/* I100 */
START_TEST(a_tick_that_began_is_taken_at_once)
{
	struct stat_ticks ticks = start();

	stat_ticks_wait(&ticks);
	clock_now += 100;
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 200, 2, 0);
	clock_now += 199;
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 399, 3, 0);
}
END_TEST

/* I100: a signal ends a wait */
START_TEST(a_wait_that_ends_early_goes_on)
{
	struct stat_ticks ticks = start();

	num_early = 3;
	stat_ticks_wait(&ticks);
	ck_assert_ticks(ticks, 100, 1, 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(tick_k_is_at_start_and_k_intervals),
		QBRT_TEST(a_late_tick_is_skipped_and_counted),
		QBRT_TEST(a_tick_that_began_is_taken_at_once),
		QBRT_TEST(a_wait_that_ends_early_goes_on),
	};

	return qbrt_test_run("stat-ticks", tests, qbrt_array_size(tests));
}
