/* SPDX-License-Identifier: MIT */
/*
 * What tests of inference share: a device, a launched model, its first input
 * and output, bytes that can be told apart, and calls on threads of their own.
 */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "models.h"
#include "test-util.h"

struct rig {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
};

/* Takes the model; soft_devices: QBRUNTIME_SOFT_DEVICES, NULL as it is. */
void rig_open(struct rig *rig, const char *soft_devices,
	      struct qbrt_model *model);
void rig_close(struct rig *rig);

enum qbrt_status rig_infer(const struct rig *rig,
			   const struct qbrt_infer_options *options);

/* A buffer on the rig's device. */
struct qbrt_pinned_memory *rig_alloc(const struct rig *rig,
				     enum qbrt_dtype dtype, size_t ndim,
				     const int64_t *shape);

/* Fills with bytes that depend on seed; true: holds exactly those. */
void fill(struct qbrt_pinned_memory *mem, unsigned int seed);
bool holds(const struct qbrt_pinned_memory *mem, unsigned int seed);

/* An inference on a thread of its own. */
struct call {
	pthread_t thread;
	const struct rig *rig;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
	const struct qbrt_infer_options *options;
	enum qbrt_status status;
};
void call_start(struct call *call);
enum qbrt_status call_join(struct call *call);

struct qbrt_model_counters get_counters(const struct qbrt_model *model);

#endif
