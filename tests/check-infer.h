/* SPDX-License-Identifier: MIT */
/* The parts of check-infer. */
#ifndef TESTS_CHECK_INFER_H
#define TESTS_CHECK_INFER_H

#include <stddef.h>

#include "rig.h"
#include "test-util.h"

/* Each adds the tests of its part. */
void add_infer_refuse_tests(struct qbrt_tests *all);
void add_infer_shape_tests(struct qbrt_tests *all);
void add_infer_job_tests(struct qbrt_tests *all);
void add_infer_thread_tests(struct qbrt_tests *all);
void add_infer_dispose_tests(struct qbrt_tests *all);
void add_infer_fork_tests(struct qbrt_tests *all);
void add_infer_shared_tests(struct qbrt_tests *all);
void add_infer_copy_tests(struct qbrt_tests *all);

#endif
