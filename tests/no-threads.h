/* SPDX-License-Identifier: MIT */
/*
 * A process that gets no more threads for a while: RLIMIT_NPROC, which does not
 * hold for root, so root becomes another user meanwhile.
 */
#ifndef TESTS_NO_THREADS_H
#define TESTS_NO_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test-util.h"

#define NO_THREADS_USER 65534

static struct rlimit thread_limit;
static bool was_root;

static void *end_at_once(void *arg)
{
	return arg;
}

/* false: threads still start here. allow_threads is to be called all the same. */
static bool forbid_threads(void)
{
	struct rlimit none;
	pthread_t thread;

	ck_assert_int_eq(getrlimit(RLIMIT_NPROC, &thread_limit), 0);
	was_root = !getuid();
	if (was_root)
		ck_assert_int_eq(setresuid(NO_THREADS_USER, NO_THREADS_USER, 0),
				 0);
	none = thread_limit;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &none), 0);
	if (pthread_create(&thread, NULL, end_at_once, NULL))
		return true;
	(void)pthread_join(thread, NULL);
	return false;
}

/* What looks for leaks at the end of the process needs a thread too. */
static void allow_threads(void)
{
	ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &thread_limit), 0);
	if (was_root)
		ck_assert_int_eq(setresuid(0, 0, 0), 0);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

#endif
