/* SPDX-License-Identifier: MIT */
/*
 * Jobs without a program, for the units below the model: each counts what the
 * library does with it, and may come after a gate, which is a real job on the
 * stepped device of a struct gated.
 */
#ifndef TESTS_UNIT_JOB_H
#define TESTS_UNIT_JOB_H

#include <stdatomic.h>

#include "gated.h"
#include "job.h"

struct unit_job {
	struct qbrt_job job;        /* first */
	struct qbrt_device *device; /* a reference */
	atomic_uint num_ends, num_notified;
	atomic_uint *num_freed; /* of all: this one is gone then */
	/* of the end; written by who ends it, read by who saw it ended */
	int err, status;
	unsigned int place; /* in the order of ends */
};

/* With one reference, not submitted. */
struct unit_job *unit_job_alloc(struct qbrt_device *device,
				atomic_uint *num_freed);

/* On queue, after the job of gate; NULL: it completes when its turn comes. */
int unit_job_submit(struct unit_job *unit, struct qbrt_queue *queue,
		    const struct qbrt_future *gate);

/* The same without the queue's list: the job's number. */
uint64_t unit_job_submit_unlisted(const struct qbrt_queue *queue,
				  const struct qbrt_future *gate);

/* Ends since the beginning of the process. */
unsigned int unit_job_num_ends(void);

#endif
