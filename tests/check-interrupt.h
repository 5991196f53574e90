/* SPDX-License-Identifier: MIT */
/* The parts of check-interrupt, and the function that they set. */
#ifndef TESTS_CHECK_INTERRUPT_H
#define TESTS_CHECK_INTERRUPT_H

#include <pthread.h>
#include <stdatomic.h>

#include "test-util.h"

void add_interrupt_call_tests(struct qbrt_tests *all);
void add_interrupt_job_tests(struct qbrt_tests *all);

struct answer {
	atomic_bool says_stop;
	atomic_uint num_asked;
	pthread_t asked_on;
	struct qbrt_pinned_memory *mem; /* used when asked, unless NULL */
	enum qbrt_status status;
};

/* The function; arg is a struct answer. */
bool ask(void *arg);

#endif
