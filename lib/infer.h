/* SPDX-License-Identifier: MIT */
/*
 * One inference on pinned memory, on the stack of its caller: the checks
 * (infer-check.c), the uses of its buffers (infer-uses.c), the job (infer.c).
 * Nothing here allocates, copies contents, or takes a lock.
 */
#ifndef QBRT_INFER_H
#define QBRT_INFER_H

#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "model.h"

struct qbrt_inference {
	struct qbrt_model *model;
	struct qbrt_pinned_memory *const *inputs;
	size_t num_inputs;
	struct qbrt_pinned_memory *const *outputs;
	size_t num_outputs;
	int64_t timeout;     /* as in qbrt_infer_options */
	uint32_t wait_flags; /* DRM_QBNPU_WAIT_... */
	/* from here on: of the launched model */
	const struct qbrt_launched *launched;
	const struct qbrt_launched_variant *variant;
	int64_t deadline_ns;
	uint64_t aliased_inputs; /* bit i: input i is also an output */
	uint32_t params[QBNPU_MAX_PARAMS];
};

/* Takes timeout and flags from options (NULL: defaults). */
enum qbrt_status
qbrt_inference_read_options(struct qbrt_inference *inference,
			    const struct qbrt_infer_options *options);

/* Buffers that are there, and whose device is this process's. */
enum qbrt_status
qbrt_inference_check_available(const struct qbrt_inference *inference);

/*
 * With launched set: counts, shapes, types, device, aliasing. Chooses the
 * variant, fills params and aliased_inputs.
 */
enum qbrt_status qbrt_inference_check_buffers(struct qbrt_inference *inference);

/*
 * Takes the uses of all buffers, or none: waits for writers of inputs until the
 * deadline, refuses an output in use and an input that a failed job left half
 * written.
 */
enum qbrt_status
qbrt_inference_begin_uses(const struct qbrt_inference *inference);
void qbrt_inference_end_uses(const struct qbrt_inference *inference);

/* Before the uses end: what the outputs hold after the job. */
void qbrt_inference_validate_outputs(const struct qbrt_inference *inference);
void qbrt_inference_invalidate_outputs(const struct qbrt_inference *inference,
				       enum qbrt_status status);

#endif
