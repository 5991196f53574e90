/* SPDX-License-Identifier: MIT */
/* The parts of check-future: each adds its tests and returns how many. */
#ifndef TESTS_CHECK_FUTURE_H
#define TESTS_CHECK_FUTURE_H

#include "gated.h"
#include "test-util.h"

size_t add_future_callback_tests(struct qbrt_test *all);
size_t add_future_chain_tests(struct qbrt_test *all);
size_t add_future_end_tests(struct qbrt_test *all);
size_t add_future_fault_tests(struct qbrt_test *all);
size_t add_future_fork_tests(struct qbrt_test *all);
size_t add_future_order_tests(struct qbrt_test *all);
size_t add_future_thread_tests(struct qbrt_test *all);
size_t add_future_use_tests(struct qbrt_test *all);

#endif
