/* SPDX-License-Identifier: MIT */
/* The parts of check-model: launching, and what a model tells about itself. */
#ifndef TESTS_CHECK_MODEL_H
#define TESTS_CHECK_MODEL_H

#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "test-util.h"

/* Add the tests of a part behind those that are there; return how many. */
size_t add_model_launch_tests(struct qbrt_test *all);
size_t add_model_info_tests(struct qbrt_test *all);

#define GOLDEN_MODEL TEST_SRCDIR "/data/golden/copy64.qbm"

/* A device of its own kind by QBRUNTIME_SOFT_DEVICES; NULL: the default. */
struct qbrt_accelerator *open_device(const char *soft_devices, int number);

/* Bytes of device memory that are free now. */
uint64_t get_memory_free(const struct qbrt_accelerator *acc);

/* One inference of a model with one u8[64] input and output: the bytes agree. */
void check_copies(struct qbrt_model *model);

#endif
