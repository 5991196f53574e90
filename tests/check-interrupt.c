// SPDX-License-Identifier: MIT
/* The interrupt function: set, asked, and how long nobody asks it. */
#include "interrupt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check-interrupt.h"
#include "util.h"

/* It may use the library: no lock is held. */
bool ask(void *arg)
{
	struct answer *answer = arg;
	bool ready;

	answer->asked_on = pthread_self();
	if (answer->mem)
		answer->status = qbrt_pinned_memory_query(answer->mem, &ready);
	atomic_fetch_add(&answer->num_asked, 1);
	return atomic_load(&answer->says_stop);
}

/* Q739: nothing is cut and nobody asked. */
START_TEST(without_a_function_waits_are_whole)
{
	ck_assert_int_eq(qbrt_interrupt_slice(INT64_MAX), INT64_MAX);
	ck_assert_int_eq(qbrt_interrupt_slice(0), 0);
	ck_assert(!qbrt_interrupt_ask());
}
END_TEST

/* Q739: slices of 100 ms, and no longer than the deadline. */
START_TEST(with_a_function_waits_come_in_slices)
{
	struct answer answer = { .says_stop = false };
	int64_t before, until;

	qbrt_set_interrupt_function(ask, &answer);
	before = qbrt_now_ns();
	until = qbrt_interrupt_slice(INT64_MAX);
	ck_assert_int_ge(until, before + 100 * QBRT_NS_PER_MS);
	ck_assert_int_le(until, qbrt_now_ns() + 100 * QBRT_NS_PER_MS);
	ck_assert_int_eq(qbrt_interrupt_slice(before), before);
	ck_assert(!qbrt_interrupt_ask());
	atomic_store(&answer.says_stop, true);
	ck_assert(qbrt_interrupt_ask());
	ck_assert_uint_eq(atomic_load(&answer.num_asked), 2);
	ck_assert(pthread_equal(answer.asked_on, pthread_self()));
	qbrt_set_interrupt_function(NULL, &answer);
	ck_assert(!qbrt_interrupt_ask());
	ck_assert_int_eq(qbrt_interrupt_slice(INT64_MAX), INT64_MAX);
	ck_assert_uint_eq(atomic_load(&answer.num_asked), 2);
}
END_TEST

static bool set_itself(void *arg)
{
	qbrt_set_interrupt_function(NULL, NULL);
	atomic_fetch_add((atomic_uint *)arg, 1);
	return true;
}

/* Q739: under no lock, so it may take itself away. */
START_TEST(a_function_may_set_another)
{
	atomic_uint num = 0;

	qbrt_set_interrupt_function(set_itself, &num);
	ck_assert(qbrt_interrupt_ask());
	ck_assert(!qbrt_interrupt_ask());
	ck_assert_uint_eq(atomic_load(&num), 1);
}
END_TEST

/* Function and argument are a pair: no call mixes two settings. */
static bool is_same(void *arg)
{
	return *(int *)arg != 1;
}

static bool is_other(void *arg)
{
	return *(int *)arg != 2;
}

static void *set_often(void *arg)
{
	int *values = arg;

	for (int i = 0; i < 10000; i++)
		qbrt_set_interrupt_function(i % 2 ? is_same : is_other,
					    &values[!(i % 2)]);
	return NULL;
}

/* Q739 */
START_TEST(function_and_argument_belong_together)
{
	int values[2] = { 1, 2 };
	unsigned int num_mixed = 0;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		ck_assert(
			!pthread_create(&threads[i], NULL, set_often, values));
	for (int i = 0; i < 10000; i++)
		num_mixed += qbrt_interrupt_ask();
	for (int i = 0; i < 2; i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(num_mixed, 0);
	qbrt_set_interrupt_function(NULL, NULL);
}
END_TEST

/* Q748: a child does not inherit the lock from a thread that it lacks. */
START_TEST(a_child_may_set_and_ask)
{
	int values[2] = { 1, 2 };
	pthread_t thread;

	if (qbrt_test_has_sanitizer())
		QBRT_TEST_SKIP(
			"sanitizers cannot follow a fork beside threads");
	qbrt_set_interrupt_function(is_same, &values[0]);
	ck_assert(!pthread_create(&thread, NULL, set_often, values));
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			alarm(30);
			if (qbrt_interrupt_ask())
				_exit(1);
			qbrt_set_interrupt_function(NULL, NULL);
			_exit(qbrt_interrupt_ask());
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	}
	ck_assert(!pthread_join(thread, NULL));
	qbrt_set_interrupt_function(NULL, NULL);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(without_a_function_waits_are_whole),
		QBRT_TEST(with_a_function_waits_come_in_slices),
		QBRT_TEST(a_function_may_set_another),
		QBRT_TEST(function_and_argument_belong_together),
		QBRT_TEST(a_child_may_set_and_ask),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_interrupt_call_tests(&all);
	add_interrupt_job_tests(&all);
	return qbrt_test_run("interrupt", all.tests, all.num);
}
