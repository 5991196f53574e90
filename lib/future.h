/* SPDX-License-Identifier: MIT */
/*
 * A future: a job of a model, and what its program still wants of it. It holds
 * the model and the storages until it is freed, and stays inside the launched
 * model, in its slot, until the job has ended. Its outputs belong to it until
 * it is taken or freed: until then no other job may write them.
 */
#ifndef QBRT_FUTURE_H
#define QBRT_FUTURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "job.h"
#include "model.h"
#include "storage.h"

/* What plain arrays add. All are called under no lock. */
struct qbrt_future_arrays {
	enum qbrt_status (*query_output)(const struct qbrt_future *future,
					 size_t index,
					 struct qbrt_io_info *info);
	/* The arrays are those to take the result into; waits for nothing. */
	enum qbrt_status (*check)(const struct qbrt_future *future,
				  const struct qbrt_array *outputs,
				  size_t num_outputs);
	/* The job has ended; inside the launched model still. */
	void (*end)(struct qbrt_future *future);
	/* The job succeeded. */
	void (*take)(struct qbrt_future *future,
		     const struct qbrt_array *outputs);
	/* Of the call that did not become a job, or with the future. */
	void (*free)(void *staging);
};

enum qbrt_callback_state {
	QBRT_CALLBACK_NONE,
	QBRT_CALLBACK_CHANGING,
	QBRT_CALLBACK_SET,
	QBRT_CALLBACK_DONE, /* called, or never to be */
};

struct qbrt_future {
	struct qbrt_job job; /* first */
	struct qbrt_model_run run;
	struct qbrt_slot *slot;
	size_t variant;
	atomic_uint marks;
	uint32_t num_inputs, num_outputs;
	uint32_t num_writers;
	uint64_t aliased_inputs; /* bit i: input i is also an output */
	bool has_not_run;        /* ended before it began */
	bool holds; /* ended, and nobody had freed it: its outputs */
	/* jobs that write its inputs and come before it, with references */
	struct qbrt_job **writers;
	atomic_uint callback; /* enum qbrt_callback_state */
	qbrt_future_function function;
	void *arg;
	const struct qbrt_future_arrays *arrays; /* NULL: pinned memory */
	void *staging;
	struct qbrt_storage *storages[]; /* inputs, then outputs */
};

/*
 * With references on model and storages, nothing else of them taken; the caller
 * sets the rest. NULL: no memory.
 */
struct qbrt_future *
qbrt_future_alloc(struct qbrt_model *model,
		  struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
		  struct qbrt_pinned_memory *const outputs[],
		  size_t num_outputs);

static inline struct qbrt_device *
qbrt_future_get_device(const struct qbrt_future *future)
{
	return future->storages[future->num_inputs]->device;
}

/* NULL, or of the parent of a fork. */
enum qbrt_status qbrt_future_check(const struct qbrt_future *future,
				   const char *function);

/* For who asks in passing: a const future's job may end here. */
static inline bool qbrt_future_has_ended(const struct qbrt_future *future)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): const is for the caller */
	return qbrt_job_collect((struct qbrt_job *)(uintptr_t)&future->job);
}

/* ---- future-tell.c ---- */

/* true: the callback is the caller's to call. */
bool qbrt_future_claim_callback(struct qbrt_future *future);

/* Calls the callback if there is one that was not called. */
void qbrt_future_notify(struct qbrt_job *job);

#endif
