/* SPDX-License-Identifier: MIT */
/* Shared by check-bind.c and its part check-bind-copy.c. */
#ifndef TESTS_CHECK_BIND_H
#define TESTS_CHECK_BIND_H

#include <stddef.h>
#include <stdint.h>

#include "isa/bind.h"
#include "test-util.h"

/* Adds the tests of qbnpu_check_copy. */
void add_copy_tests(struct qbrt_tests *all);

#endif
