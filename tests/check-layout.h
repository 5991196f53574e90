/* SPDX-License-Identifier: MIT */
/* The parts of check-layout. */
#ifndef TESTS_CHECK_LAYOUT_H
#define TESTS_CHECK_LAYOUT_H

#include "test-util.h"

void add_layout_convert_tests(struct qbrt_tests *all);

#endif
