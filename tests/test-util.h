/* SPDX-License-Identifier: MIT */
/*
 * The main of every check-<unit> program:
 *
 *	START_TEST(alloc_rejects_zero_size)
 *	{
 *		...
 *	}
 *	END_TEST
 *
 *	int main(void)
 *	{
 *		const struct qbrt_test tests[] = {
 *			QBRT_TEST(alloc_rejects_zero_size),
 *			QBRT_LOOP_TEST(every_dtype_has_a_name, QBRT_NUM_DTYPES),
 *		};
 *
 *		return qbrt_test_run("dtype", tests, qbrt_array_size(tests));
 *	}
 *
 * Prints TAP to standard output, one line per test (a loop test: per round,
 * Check's _i). Each test runs in a child of its own (CK_FORK=no: in this
 * process, for a debugger) and must leave open descriptors, shared mappings,
 * threads and live objects as it found them. CK_RUN_CASE=NAME runs one test.
 */
#ifndef TESTS_TEST_UTIL_H
#define TESTS_TEST_UTIL_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

#include <qbruntime/qbrt.h>

struct qbrt_test {
	const TTest *test;
	const char *name;
	int num_rounds;
};

#define QBRT_TEST(function) \
	{ \
		function, #function, 1 \
	}
#define QBRT_LOOP_TEST(function, rounds) \
	{ \
		function, #function, rounds \
	}

/* The tests of a program of several files, each of which adds its own. */
struct qbrt_tests {
	struct qbrt_test tests[512];
	size_t num;
};

/* Aborts where they are too many. */
void qbrt_tests_add(struct qbrt_tests *all, const struct qbrt_test *tests,
		    size_t num);

/* Runs them in order; what main returns: 0 if none failed. */
int qbrt_test_run(const char *unit, const struct qbrt_test *tests, size_t num);

/* Prints a plan that skips the whole program; what main returns then. */
int qbrt_test_skip_all(const char *reason);

/*
 * Ends the running test function: it counts as skipped, not as passed. Only in
 * the function of the test itself, before it holds anything.
 */
#define QBRT_TEST_SKIP(reason) \
	do { \
		qbrt_test_note_skip(reason); \
		return; \
	} while (0)
void qbrt_test_note_skip(const char *reason);

/* Descriptors, threads, MAP_SHARED mappings of this process, now. */
long qbrt_test_count_descriptors(void);
long qbrt_test_count_threads(void);
long qbrt_test_count_shared_mappings(void);

/* Makes one of the standard three free, as in a program that closed it. */
void qbrt_test_close_standard(int fd);
void qbrt_test_reopen_standard(int fd);

/* A thread of this process sleeps now; its number as of gettid(). */
bool qbrt_test_is_asleep(int thread);

/*
 * Call succeeds, or fails with exactly that status and a sentence. The
 * sentence is in the message when it does not.
 */
#define ck_assert_ok(call) ck_assert_status(call, QBRT_OK)

#define ck_assert_status(call, expected) \
	do { \
		enum qbrt_status ck_status = (call); \
		ck_assert_msg(ck_status == (expected), \
			      "%s: expected %s, got %s (%s)", #call, \
			      qbrt_status_name(expected), \
			      qbrt_status_name(ck_status), \
			      qbrt_error_detail()); \
		if (ck_status != QBRT_OK) \
			ck_assert_msg(*qbrt_error_detail(), "%s: no detail", \
				      #call); \
	} while (0)

/* The last failure's sentence contains text. */
#define ck_assert_detail(text) \
	ck_assert_msg(qbrt_test_contains(qbrt_error_detail(), text), \
		      "no \"%s\" in: %s", text, qbrt_error_detail())
bool qbrt_test_contains(const char *sentence, const char *text);

/* True where buffers may lie in 2 MiB pages and are rounded up to them. */
bool qbrt_test_has_huge_pages(void);

/* True under ASan, TSan or valgrind, where some limits cannot be tested. */
bool qbrt_test_is_instrumented(void);

/*
 * True under ASan and TSan: their children of fork inherit locks from threads
 * that they lack.
 */
bool qbrt_test_has_sanitizer(void);

#endif
