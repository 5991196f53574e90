/* SPDX-License-Identifier: MIT */
/*
 * One inference on pinned memory, on the stack of its caller: the checks
 * (infer-check.c), the uses of its buffers (infer-uses.c), the job that is
 * waited for (infer.c, infer-wait.c) or not (infer-submit.c). What is waited for allocates
 * nothing, copies no contents, and takes no lock.
 */
#ifndef QBRT_INFER_H
#define QBRT_INFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "job.h"
#include "model.h"

struct qbrt_future_arrays;

struct qbrt_inference {
	struct qbrt_model *model;
	struct qbrt_pinned_memory *const *inputs;
	size_t num_inputs;
	struct qbrt_pinned_memory *const *outputs;
	size_t num_outputs;
	/*
	 * executions of one job, in each buffer one behind the other in steps
	 * of qbrt_variant_get_stride, and of a batch the first one's number
	 */
	uint32_t item_count;
	size_t first_item;
	bool has_items; /* a batch: sentences name the item */
	/* of a queued call on arrays, for its future; NULL: there are none */
	const struct qbrt_future_arrays *arrays;
	void *staging;
	int64_t timeout;     /* as in qbrt_infer_options */
	uint32_t wait_flags; /* DRM_QBNPU_WAIT_... */
	bool is_try;         /* QBRT_INFER_TRY */
	/* from here on: of the launched model */
	struct qbrt_launched *launched;
	const struct qbrt_launched_variant *variant;
	int64_t begin_ns; /* of the public call */
	int64_t deadline_ns;
	uint64_t aliased_inputs; /* bit i: input i is also an output */
	uint64_t late_inputs;    /* bit i: a queued job writes input i */
	uint32_t params[QBNPU_MAX_PARAMS];
	/* queued jobs that write inputs, with references: the job's in-syncs */
	uint32_t num_writers;
	struct qbrt_job *writers[QBNPU_MAX_BINDINGS];
	bool joins_others; /* its slot has jobs before it */
};

/* What a SUBMIT points to. */
struct qbrt_inference_arrays {
	struct drm_qbnpu_binding bindings[QBNPU_MAX_BINDINGS];
	struct drm_qbnpu_sync syncs[QBNPU_MAX_BINDINGS];
};

/* Q731: options (NULL: defaults) as this version knows them. */
enum qbrt_status qbrt_infer_options_read(const struct qbrt_infer_options *from,
					 struct qbrt_infer_options *to);

/* Refuses flags beside those allowed, by their names. */
enum qbrt_status qbrt_infer_options_check_flags(uint32_t flags,
						uint32_t allowed);

/* Takes timeout and flags from options (NULL: defaults); allowed: flags. */
enum qbrt_status
qbrt_inference_read_options(struct qbrt_inference *inference,
			    const struct qbrt_infer_options *options,
			    uint32_t allowed);

/*
 * Bytes from one item of input or output number to the next: it counts inputs,
 * then outputs.
 */
uint64_t qbrt_variant_get_stride(const struct qbrt_launched_variant *variant,
				 size_t number);

/* Buffers that are there, and whose device is this process's. */
enum qbrt_status
qbrt_inference_check_available(const struct qbrt_inference *inference);

/*
 * With launched set: counts, shapes, types, device, aliasing. Chooses the
 * variant, fills params and aliased_inputs.
 */
enum qbrt_status qbrt_inference_check_buffers(struct qbrt_inference *inference);

/*
 * Takes the uses of all buffers, or none: notes the queued jobs that write
 * inputs, waits for the writes of others until the deadline (with is_try not at
 * all), refuses an output in use and an input that a failed job left half written.
 */
enum qbrt_status qbrt_inference_begin_uses(struct qbrt_inference *inference);
void qbrt_inference_end_uses(const struct qbrt_inference *inference);

/* Drops the references on writers. */
void qbrt_inference_drop_writers(struct qbrt_inference *inference);

/* Before the uses end: what the outputs hold after the job. */
void qbrt_inference_validate_outputs(const struct qbrt_inference *inference);
void qbrt_inference_invalidate_outputs(const struct qbrt_inference *inference,
				       enum qbrt_status status);

/* Inside launched: sets it and the deadline of a call that began then. */
void qbrt_inference_enter(struct qbrt_inference *inference,
			  struct qbrt_launched *launched, int64_t begin_ns);

/* All of a SUBMIT but the queue and wait. */
void qbrt_inference_fill(const struct qbrt_inference *inference,
			 struct qbrt_inference_arrays *arrays,
			 struct drm_qbnpu_submit *submit);

/* For the counters and sentences of its job. */
void qbrt_inference_describe(const struct qbrt_inference *inference,
			     struct qbrt_model_run *run);

/* The end of a sentence: nothing ran. A batch may have had earlier jobs. */
static inline const char *
qbrt_inference_unchanged(const struct qbrt_inference *inference)
{
	return qbrt_say_unchanged(inference->has_items &&
				  inference->first_item);
}

/* The sentence of a call that had not submitted its job yet. */
enum qbrt_status
qbrt_inference_fail_disposed(const struct qbrt_inference *inference);

/*
 * err: of SUBMIT; -EINTR: the interrupt function ended the tries; -ESHUTDOWN:
 * dispose did.
 */
enum qbrt_status
qbrt_inference_fail_submit(const struct qbrt_inference *inference,
			   const struct drm_qbnpu_submit *submit, int err);

/*
 * Everything of a blocking call after the checks: uses, slot, job, result.
 * Entered and with a variant.
 */
enum qbrt_status qbrt_inference_run(struct qbrt_inference *inference);

/*
 * infer-wait.c: what is left of the wait when a signal or the end of a slice
 * ended SUBMIT's. Asks the interrupt function first, which may take as long as
 * it likes. true: it asked to stop, and the job was cancelled. err, wait: of
 * WAIT.
 */
bool qbrt_inference_wait_on(const struct qbrt_inference *inference,
			    struct qbrt_queue *queue, uint64_t number, int *err,
			    struct drm_qbnpu_wait *wait);

/* Everything of a queued call after the checks. */
enum qbrt_status qbrt_inference_submit(struct qbrt_inference *inference,
				       struct qbrt_future **result);

#endif
