/* SPDX-License-Identifier: MIT */
/*
 * Queues and jobs: records, results, and the way of a job through its queue.
 * soft-queue.c has what callers ask of queues, soft-queue-run.c what becomes
 * of jobs. Private to soft/.
 */
#ifndef QBNPU_SOFT_QUEUE_H
#define QBNPU_SOFT_QUEUE_H

#include "soft/soft.h"

enum qbnpu_soft_job_type {
	QBNPU_SOFT_JOB_EMPTY = 0,
	QBNPU_SOFT_JOB_RUN = 1,
	QBNPU_SOFT_JOB_COPY = 2,
};

/* One of the last 1,024 jobs of a queue, by number. File lock. */
struct qbnpu_soft_result {
	uint32_t state; /* enum drm_qbnpu_job_state */
	uint32_t time_source;
	struct qbnpu_result of_device; /* as WAIT tells it */
	int64_t submit_ns;
	uint64_t user_data;
};

/*
 * On the stack of who waits. A number that takes the place of an awaited result
 * leaves it here, so it cannot grow too old before its waiter runs (K112).
 */
struct qbnpu_soft_waiter {
	struct qbnpu_soft_waiter *next, **link;
	uint64_t number;
	bool has_result;
	struct qbnpu_soft_result result;
};

/*
 * A job from SUBMIT on until its number is below the queue's completed point;
 * then the record goes to its queue's pool, and comes back with zeros from
 * npu.next up to type. File lock.
 */
struct qbnpu_soft_job {
	struct qbnpu_job npu;
	struct qbnpu_soft_job *next; /* in the queue, or in the pool */
	/* runs inline: where its end tells the result; NULL: does not */
	struct drm_qbnpu_wait *inline_wait;
	bool is_on_device;
	bool is_complete;
	uint32_t stop_cause;  /* why it was told to stop, 0: it was not */
	bool has_bad_fence;   /* a job that it waited for did not succeed */
	uint32_t num_pending; /* waits whose point did not come */
	uint32_t num_waits, num_buffers;
	/* set for each job */
	enum qbnpu_soft_job_type type;
	uint32_t references; /* the queue's, and who cancels it */
	uint64_t number;
	struct qbnpu_soft_result *kept; /* of this number */
	struct qbnpu_soft_program *program;
	uint64_t copy_size, num_macs; /* for the counters */
	struct qbnpu_copy_shape copy; /* COPY alone */
	/* the record's own, constant */
	struct qbnpu_soft_queue *queue;
	uint32_t max_waits, max_buffers; /* room in the arrays */
	struct qbnpu_soft_wait *waits;
	struct qbnpu_soft_buffer **buffers;
	struct qbnpu_range *ranges; /* one per binding of the program */
};

/* File lock; wake may be read without it. */
struct qbnpu_soft_queue {
	struct qbnpu_soft_file *file;
	uint32_t references; /* its number, jobs, waiters */
	uint32_t number;
	uint32_t index; /* in the progress page */
	int32_t priority;
	bool is_sticky;
	bool is_failed;    /* STICKY, and a job did not succeed */
	bool is_gone;      /* QUEUE_DESTROY */
	bool is_listed;    /* in qbnpu_soft_queue_advance's worklist */
	uint32_t num_jobs; /* in the list */
	uint32_t num_sleepers;
	atomic_uint wake; /* futex: counts completions */
	uint64_t last;    /* number of the newest job */
	struct qbnpu_soft_job *head, **tail;
	struct qbnpu_soft_job *pool;
	struct qbnpu_soft_queue *next_listed;
	struct qbnpu_soft_timeline *timeline;
	struct qbnpu_soft_result *results;
	struct qbnpu_soft_waiter *waiters;
};

/* The live queue of this number, or NULL. File lock. */
static inline struct qbnpu_soft_queue *
qbnpu_soft_queue_get(const struct qbnpu_soft_file *file, uint32_t number)
{
	struct qbnpu_soft_queue *queue;

	queue = file->queues[(number - 1) % QBNPU_SOFT_MAX_QUEUES];
	return queue && queue->number == number && !queue->is_gone ? queue
								   : NULL;
}

static inline struct qbnpu_soft_result *
qbnpu_soft_queue_get_result(const struct qbnpu_soft_queue *queue,
			    uint64_t number)
{
	return &queue->results[number % QBNPU_SOFT_NUM_RESULTS];
}

/* Has those who wait for jobs of the queue look again. */
static inline void qbnpu_soft_queue_wake(struct qbnpu_soft_queue *queue,
					 struct qbnpu_soft_wakes *wakes)
{
	unsigned int value;

	value = atomic_load_explicit(&queue->wake, memory_order_relaxed);
	atomic_store_explicit(&queue->wake, value + 1, memory_order_release);
	if (queue->num_sleepers)
		qbnpu_soft_wakes_add(wakes, &queue->wake);
}

/* What WAIT tells of a complete job. */
void qbnpu_soft_result_tell(const struct qbnpu_soft_result *kept,
			    struct drm_qbnpu_wait *wait);

/* File lock for all of these. */
void qbnpu_soft_queue_free(struct qbnpu_soft_queue *queue);
static inline void qbnpu_soft_queue_unref(struct qbnpu_soft_queue *queue)
{
	if (!--queue->references)
		qbnpu_soft_queue_free(queue);
}
void qbnpu_soft_queue_close_all(struct qbnpu_soft_file *file);

/*
 * Waits as WAIT does for a job that was submitted; drops the lock meanwhile.
 * wakes: inside SUBMIT, where the queue's end does not end the wait, what is to
 * be woken first; else NULL. Fills in wait's output fields; when it fails with
 * -ETIME or -EINTR state alone. 0, -ETIME, -EINTR, -ENOENT, -ENODATA.
 */
int qbnpu_soft_queue_wait(struct qbnpu_soft_queue *queue, uint64_t number,
			  struct qbnpu_soft_wakes *wakes,
			  struct drm_qbnpu_wait *wait);

/* This number's place is about to be the newest job's: to those who wait. */
void qbnpu_soft_queue_leave_result(const struct qbnpu_soft_queue *queue,
				   uint64_t number);

/* A record with room and one reference; its counts are 0. */
struct qbnpu_soft_job *qbnpu_soft_job_alloc(struct qbnpu_soft_queue *queue,
					    uint32_t num_buffers,
					    uint32_t num_waits);
/* Drops what the record refers to, and puts it into the pool. */
void qbnpu_soft_job_unref(struct qbnpu_soft_job *job);
/*
 * Gives the job its number and its place; does not start it. *told: eventfds
 * that wait for its point to be submitted, for when the lock is dropped.
 */
void qbnpu_soft_job_queue(struct qbnpu_soft_job *job, uint64_t user_data,
			  struct qbnpu_soft_eventfd **told);
/* Ends a job that is not on the device; advance makes it known. */
void qbnpu_soft_job_end(struct qbnpu_soft_job *job, int32_t status,
			uint32_t cause, struct qbnpu_soft_wakes *wakes);
/* Starts and ends what can be, from this queue on. */
void qbnpu_soft_queue_advance(struct qbnpu_soft_queue *queue,
			      struct qbnpu_soft_wakes *wakes);
/* The same from a list on, linked by next_listed. */
void qbnpu_soft_queue_advance_all(struct qbnpu_soft_queue *todo,
				  struct qbnpu_soft_wakes *wakes);
/*
 * Ends the waits of jobs for points of this timeline up to the one just
 * reached; lists the queues whose first job may start now.
 */
void qbnpu_soft_queue_end_waits(struct qbnpu_soft_timeline *timeline,
				int32_t status, struct qbnpu_soft_queue **todo);
/* Of a job that was told to stop for this cause (K114). */
static inline int32_t qbnpu_soft_get_stop_status(uint32_t cause)
{
	return cause == DRM_QBNPU_CAUSE_TIME ? -ETIMEDOUT : -ECANCELED;
}
/* What its device calls when it ended; no lock held. */
void qbnpu_soft_job_done(struct qbnpu_job *npu);
/* The job is on the device from here on. */
void qbnpu_soft_job_set_running(struct qbnpu_soft_job *job);

/*
 * Ends job with cause, wherever it is. Drops the lock while the device is
 * told, so whatever the caller knows of the file may have changed; job itself
 * is not touched afterwards. So for eventfds that are to be written.
 */
void qbnpu_soft_job_cancel(struct qbnpu_soft_job *job, uint32_t cause);
/* The same for every job of the file; for those of one queue if it is given. */
void qbnpu_soft_job_cancel_all(struct qbnpu_soft_file *file,
			       struct qbnpu_soft_queue *queue);

#endif
