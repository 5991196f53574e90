/* SPDX-License-Identifier: MIT */
/*
 * What SUBMIT and COPY share: steps 1 to 3 and 10 to 14 of the checks
 * (docs/spec/kernel.md, 2.6) for the queue, the syncs and the deadline, and the
 * queueing itself. Part of soft-submit.c.
 */
#ifndef QBNPU_SOFT_SUBMIT_H
#define QBNPU_SOFT_SUBMIT_H

#include "soft/soft.h"

/*
 * A job that is not one yet, on the stack of its request. Begins as zeros up
 * to syncs; only the first num_... elements of the arrays are ever set. Its
 * pointers to objects are good under the file lock, until the job is queued.
 */
struct qbnpu_soft_entry {
	struct qbnpu_soft_file *file;
	const struct qbnpu_soft_stack *stack; /* the caller's */
	/* steps 3 to 10; file lock */
	int (*check)(struct qbnpu_soft_entry *entry);
	/* fills in what is the type's own */
	void (*fill)(struct qbnpu_soft_job *job,
		     const struct qbnpu_soft_entry *entry);
	void *arg; /* of both */
	struct qbnpu_soft_queue *queue;
	struct qbnpu_soft_program *program; /* NULL: none */
	enum qbnpu_soft_job_type type;
	uint32_t item_count;
	uint64_t wait_address; /* 0: does not wait */
	bool is_wait_on_stack; /* so it can be written at any time */
	uint32_t room;         /* elements of the record's buffer arrays */
	uint32_t fail_what, fail_index;
	uint64_t fail_limit;
	int64_t deadline_ns; /* as given */
	int64_t now_ns;
	uint64_t user_data;
	uint64_t number;   /* out: of the job */
	uint32_t bad_sync; /* the first with a tail that is not zero */
	uint32_t num_syncs;
	uint32_t num_buffers;
	struct drm_qbnpu_sync syncs[QBNPU_SOFT_MAX_SYNCS];
	/* of bindings, or source and destination of a copy */
	struct qbnpu_soft_bo *buffers[QBNPU_MAX_BINDINGS];
	struct drm_qbnpu_wait wait;
};

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
int qbnpu_soft_entry_find_queue(struct qbnpu_soft_entry *entry,
				uint32_t number);
int qbnpu_soft_entry_find_buffer(struct qbnpu_soft_entry *entry,
				 uint32_t handle);
int qbnpu_soft_entry_check_timelines(struct qbnpu_soft_entry *entry);

/* Step 10 for the deadline. */
int qbnpu_soft_entry_check_deadline(struct qbnpu_soft_entry *entry);

/*
 * Steps 3 to 14, then the job is queued, run if it can be, and waited for if
 * the entry waits. After 0 number is set.
 */
int qbnpu_soft_entry_submit(struct qbnpu_soft_entry *entry);

#endif
