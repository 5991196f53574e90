/* SPDX-License-Identifier: MIT */
/*
 * What SUBMIT and COPY share: steps 1 to 3 and 10 to 14 of the checks
 * (docs/spec/kernel.md, 2.6) for the queue, the syncs and the deadline, and the
 * queueing itself. Part of soft-submit.c.
 */
#ifndef QBNPU_SOFT_SUBMIT_H
#define QBNPU_SOFT_SUBMIT_H

#include <string.h>

#include "soft/soft-queue.h"

/*
 * A job that is not one yet, on the stack of its request. Only the first
 * num_... elements of the arrays are ever set. Its pointers to objects are good
 * under the file lock, until the job is queued.
 */
struct qbnpu_soft_entry {
	struct qbnpu_soft_file *file;
	const struct qbnpu_soft_stack *stack; /* the caller's */
	/* steps 3 to 10; file lock */
	int (*check)(struct qbnpu_soft_entry *entry);
	/* fills in what is the type's own, its buffers too */
	void (*fill)(struct qbnpu_soft_job *job,
		     const struct qbnpu_soft_entry *entry);
	void *arg; /* of both */
	struct qbnpu_soft_queue *queue;
	uint32_t item_count;
	uint32_t bad_sync;   /* the first with a tail that is not zero */
	int64_t deadline_ns; /* as given */
	int64_t now_ns;
	uint64_t user_data;
	uint64_t number; /* out: of the job */
	/* begin as zeros */
	struct qbnpu_soft_program *program; /* NULL: none */
	uint64_t wait_address;              /* 0: does not wait */
	/* what is there if that can be written at any time */
	struct drm_qbnpu_wait *stack_wait;
	struct qbnpu_soft_eventfd *told; /* to be written without the lock */
	uint64_t fail_limit;
	uint32_t fail_what, fail_index;
	enum qbnpu_soft_job_type type;
	uint32_t room; /* elements of the record's buffer arrays */
	uint32_t num_syncs;
	uint32_t num_buffers;
	bool is_any_open; /* one of the buffers, for CPU writing */

	struct drm_qbnpu_sync syncs[QBNPU_SOFT_MAX_SYNCS];
	/* of bindings, or source and destination of a copy */
	struct qbnpu_soft_bo *buffers[QBNPU_MAX_BINDINGS];
	struct drm_qbnpu_wait wait;
};

static inline void qbnpu_soft_entry_begin(struct qbnpu_soft_entry *entry,
					  struct qbnpu_soft_file *file)
{
	const size_t first = offsetof(struct qbnpu_soft_entry, program);

	memset((char *)entry + first, 0,
	       offsetof(struct qbnpu_soft_entry, syncs) - first);
	entry->file = file;
	entry->stack = qbnpu_soft_get_stack();
}

/* err, after noting where. */
int qbnpu_soft_entry_fail(struct qbnpu_soft_entry *entry, uint32_t what,
			  uint32_t index, uint64_t limit, int err);

/* Steps 1 and 2 for the syncs. */
bool qbnpu_soft_entry_has_sync_size(uint32_t count, uint32_t size);
int qbnpu_soft_entry_copy_syncs(struct qbnpu_soft_entry *entry,
				uint64_t address, uint32_t count,
				uint32_t size);
int qbnpu_soft_entry_check_syncs(struct qbnpu_soft_entry *entry);

/* Step 3; file lock. */
static inline int qbnpu_soft_entry_find_queue(struct qbnpu_soft_entry *entry,
					      uint32_t number)
{
	entry->queue = qbnpu_soft_queue_get(entry->file, number);
	if (entry->queue)
		return 0;
	return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0, 0,
				     -ENOENT);
}
int qbnpu_soft_entry_check_timelines(struct qbnpu_soft_entry *entry);

/* The entry's buffer with this place among them. */
int qbnpu_soft_entry_fail_buffer(struct qbnpu_soft_entry *entry, uint32_t place,
				 int err);

static inline int qbnpu_soft_entry_find_buffer(struct qbnpu_soft_entry *entry,
					       uint32_t handle)
{
	struct qbnpu_soft_bo *bo = qbnpu_soft_bo_get(entry->file, handle);

	if (!bo)
		return qbnpu_soft_entry_fail_buffer(entry, entry->num_buffers,
						    -ENOENT);
	entry->is_any_open |= bo->num_writes > 0;
	entry->buffers[entry->num_buffers++] = bo;
	return 0;
}

/* For fill: the job holds on to the buffer, once however often it is bound. */
static inline void qbnpu_soft_job_add_buffer(struct qbnpu_soft_job *job,
					     struct qbnpu_soft_buffer *buffer)
{
	for (uint32_t i = 0; i < job->num_buffers; i++) {
		if (job->buffers[i] == buffer)
			return;
	}
	atomic_fetch_add(&buffer->references, QBNPU_SOFT_JOB_REFERENCE);
	job->buffers[job->num_buffers++] = buffer;
}

/* Step 10 for the deadline. */
int qbnpu_soft_entry_check_deadline(struct qbnpu_soft_entry *entry);

/*
 * Steps 3 to 14, then the job is queued, run if it can be, and waited for if
 * the entry waits. After 0 number is set.
 */
int qbnpu_soft_entry_submit(struct qbnpu_soft_entry *entry);

#endif
