/* SPDX-License-Identifier: MIT */
/* Shared by check-bind.c and its part check-bind-copy.c. */
#ifndef TESTS_CHECK_BIND_H
#define TESTS_CHECK_BIND_H

#include <stddef.h>
#include <stdint.h>

#include "isa/bind.h"
#include "test-util.h"

/* The tests of qbnpu_check_copy: stores them, returns how many. */
size_t get_copy_tests(struct qbrt_test *tests);

#endif
