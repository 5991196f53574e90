/* SPDX-License-Identifier: MIT */
/* What the files of check-soft share: the tests of one file each. */
#ifndef TESTS_CHECK_SOFT_H
#define TESTS_CHECK_SOFT_H

#include "check-kmd.h"

void soft_bo_tests(struct qbrt_tests *all);
void soft_cancel_tests(struct qbrt_tests *all);
void soft_eventfd_tests(struct qbrt_tests *all);
void soft_fd_tests(struct qbrt_tests *all);
void soft_user_tests(struct qbrt_tests *all);
void soft_job_tests(struct qbrt_tests *all);
void soft_inline_tests(struct qbrt_tests *all);
void soft_limit_tests(struct qbrt_tests *all);
void soft_share_tests(struct qbrt_tests *all);
void soft_sync_tests(struct qbrt_tests *all);

#endif
