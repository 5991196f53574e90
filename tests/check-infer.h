/* SPDX-License-Identifier: MIT */
/* The parts of check-infer. */
#ifndef TESTS_CHECK_INFER_H
#define TESTS_CHECK_INFER_H

#include <stddef.h>

#include "rig.h"
#include "test-util.h"

/* Add the tests of a part behind those that are there; return how many. */
size_t add_infer_refuse_tests(struct qbrt_test *all);
size_t add_infer_shape_tests(struct qbrt_test *all);
size_t add_infer_job_tests(struct qbrt_test *all);
size_t add_infer_thread_tests(struct qbrt_test *all);
size_t add_infer_fork_tests(struct qbrt_test *all);
size_t add_infer_shared_tests(struct qbrt_test *all);
size_t add_infer_copy_tests(struct qbrt_test *all);

#endif
