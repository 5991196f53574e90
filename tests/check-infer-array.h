/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-infer-array, and what they share: a launched model, and
 * arrays in short.
 */
#ifndef TESTS_CHECK_INFER_ARRAY_H
#define TESTS_CHECK_INFER_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "models.h"
#include "test-util.h"

/* Each adds the tests of its part. */
void add_array_batch_tests(struct qbrt_tests *all);
void add_array_fail_tests(struct qbrt_tests *all);
void add_array_place_tests(struct qbrt_tests *all);
void add_array_refuse_tests(struct qbrt_tests *all);
void add_array_submit_tests(struct qbrt_tests *all);
void add_array_thread_tests(struct qbrt_tests *all);

struct array_rig {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
};

/* Takes the model. */
void array_rig_open(struct array_rig *rig, struct qbrt_model *model);
void array_rig_close(struct array_rig *rig);

/* A dense array of the C compiler's: ARRAY(bytes, UINT8, 2, 3) */
#define ARRAY(memory, type, ...) \
	{ \
		.data = (memory), .shape = (const int64_t[]){ __VA_ARGS__ }, \
		.ndim = sizeof((const int64_t[]){ __VA_ARGS__ }) / \
			sizeof(int64_t), \
		.dtype = QBRT_DTYPE_##type \
	}

/* Of one input and one output. */
enum qbrt_status array_infer(const struct array_rig *rig,
			     const struct qbrt_infer_options *options,
			     const struct qbrt_array *in,
			     const struct qbrt_array *out);

/* Bytes that depend on seed; true: holds exactly those. */
void fill_bytes(void *bytes, size_t nbytes, unsigned int seed);
bool holds_bytes(const void *bytes, size_t nbytes, unsigned int seed);

/* All of them are that value. */
bool holds_value(const void *bytes, size_t nbytes, uint8_t value);

struct qbrt_model_counters get_array_counters(const struct qbrt_model *model);

#endif
