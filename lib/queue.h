/* SPDX-License-Identifier: MIT */
/*
 * A queue of the uAPI and its timeline. Queues of an open device live in its
 * pool (accelerator.h): a job takes one for its run and gives it back. Jobs
 * that nobody waits for inside SUBMIT stay in the queue's list until somebody
 * has seen their end (job.h).
 */
#ifndef QBRT_QUEUE_H
#define QBRT_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "kmd.h"
#include "uapi/qbnpu_drm.h"

struct qbrt_job;

struct qbrt_queue {
	const struct qbrt_kmd *kmd;
	int file;
	uint32_t pool_index;     /* in its device's pool */
	uint32_t number;         /* of the driver */
	uint32_t syncobj;        /* its timeline's handle */
	uint32_t progress_index; /* in the progress page */
	uint64_t progress_offset;
	/* its entry of the page, NULL: the driver has none */
	const struct drm_qbnpu_progress *progress;
	/* jobs in the list; read without the lock to see that there are none */
	atomic_uint num_jobs;
	pthread_mutex_t lock; /* guards the list, and the order in it */
	struct qbrt_job *first, *last;
	/* until then no time limit of a job in the list passes; lock to write */
	_Atomic int64_t limit_ns;
};

/* QBRT_AT_QUEUE_CREATE's statuses; -ENOSPC is handed out as err alone. */
int qbrt_queue_open(const struct qbrt_kmd *kmd, int file,
		    struct qbrt_queue *queue);
void qbrt_queue_close(struct qbrt_queue *queue);

/*
 * Waits for job until the absolute deadline (0: polls, INT64_MAX: none),
 * however often a signal ends a request; wait holds its result afterwards. 0,
 * -ETIME, -EINTR: the program's interrupt function asked to stop, or another
 * negative errno of WAIT.
 */
int qbrt_queue_wait(const struct qbrt_queue *queue, uint64_t job,
		    uint32_t flags, int64_t deadline_ns,
		    struct drm_qbnpu_wait *wait);

/* Has the job ended cancelled; 0 names every job of the queue. */
int qbrt_queue_cancel(const struct qbrt_queue *queue, uint64_t job);

#endif
