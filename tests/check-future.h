/* SPDX-License-Identifier: MIT */
/* The parts of check-future: each adds its tests. */
#ifndef TESTS_CHECK_FUTURE_H
#define TESTS_CHECK_FUTURE_H

#include "gated.h"
#include "test-util.h"

void add_future_callback_tests(struct qbrt_tests *all);
void add_future_chain_tests(struct qbrt_tests *all);
void add_future_end_tests(struct qbrt_tests *all);
void add_future_fault_tests(struct qbrt_tests *all);
void add_future_fork_tests(struct qbrt_tests *all);
void add_future_limit_tests(struct qbrt_tests *all);
void add_future_order_tests(struct qbrt_tests *all);
void add_future_thread_tests(struct qbrt_tests *all);
void add_future_use_tests(struct qbrt_tests *all);

#endif
