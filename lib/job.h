/* SPDX-License-Identifier: MIT */
/*
 * A job that runs while nobody waits for it. No thread belongs to it: it ends
 * here when the first of those who ask (its future, the next submit to its
 * queue, somebody who needs its buffers) finds it complete on the device. Until
 * then it is in its queue's list, in the order of numbers, and its effects
 * (uses of buffers, a slot) last.
 *
 * Whoever ends a job runs its end() under no lock; all others wait for that.
 * What the job comes after, and is complete, has been ended before: end() asks
 * for no other job, so a chain of them needs no deep stack.
 */
#ifndef QBRT_JOB_H
#define QBRT_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "queue.h"

struct qbrt_storage;

enum qbrt_job_use {
	QBRT_JOB_USES_NOT,
	QBRT_JOB_READS,
	QBRT_JOB_WRITES,
};

struct qbrt_job_ops {
	/* Once. err: of WAIT, the result is lost; 0: it is in wait. */
	void (*end)(struct qbrt_job *job, int err,
		    const struct drm_qbnpu_wait *wait);
	/* Once, on the retirement thread, if it was watched; after end. */
	void (*notify)(struct qbrt_job *job);
	/* The last reference is gone. */
	void (*free)(struct qbrt_job *job);
	enum qbrt_job_use (*get_use)(const struct qbrt_job *job,
				     const struct qbrt_storage *storage);
	/*
	 * The index-th job that this one comes after, NULL: there are no more.
	 * Under the queue's lock, while the job is queued. Only of a job that
	 * has_before.
	 */
	struct qbrt_job *(*get_before)(const struct qbrt_job *job,
				       uint32_t index);
};

struct qbrt_job {
	const struct qbrt_job_ops *ops;
	struct qbrt_queue *queue; /* its device's: alive until free */
	uint64_t number;
	int64_t deadline_ns; /* of SUBMIT: may end it before its turn */
	atomic_uint references;
	atomic_uint state;             /* futex; queue lock to leave QUEUED */
	struct qbrt_job *next;         /* queue lock */
	struct qbrt_job *next_watched; /* retirement's lock */
	atomic_bool is_watched;
	atomic_bool is_submitted; /* queue and number are set */
	bool has_before;          /* jobs that it comes after; before SUBMIT */
	/* of the launched model's jobs (model-jobs.c), its lock */
	struct qbrt_job *next_of_model, *previous_of_model;
	bool was_stopped;
	uint32_t wait_flags; /* DRM_QBNPU_WAIT_... of who waits for it */
	/* when it has ended: its status and sentence, NULL: "" */
	enum qbrt_status status;
	char *detail;
};

/* Not submitted yet, with one reference. */
void qbrt_job_start(struct qbrt_job *job, const struct qbrt_job_ops *ops);
struct qbrt_job *qbrt_job_ref(struct qbrt_job *job);
void qbrt_job_unref(struct qbrt_job *job);

/*
 * SUBMIT without wait; the list gets a reference. 0, or SUBMIT's errno: then
 * nothing happened.
 */
int qbrt_job_submit(struct qbrt_job *job, struct qbrt_queue *queue,
		    struct drm_qbnpu_submit *submit);

/*
 * The list gets a job that a SUBMIT with wait has queued, in its place by
 * number: its result is fetched by whoever finds it complete, however long the
 * caller, who waits, does something else.
 */
void qbrt_job_list(struct qbrt_job *job, struct qbrt_queue *queue,
		   uint64_t number);

bool qbrt_job_has_ended(const struct qbrt_job *job);

/*
 * Ends the job if its turn has come and gone, or its time limit has passed and
 * the device ended it before its turn. true: it has ended.
 */
bool qbrt_job_collect(struct qbrt_job *job);

/*
 * The same by a request in any case, which also sees a job that was cancelled
 * before its turn.
 */
bool qbrt_job_poll(struct qbrt_job *job);

/*
 * Until the job has ended: 0, whatever became of it; -ETIME; -EINTR: the
 * interrupt function asked to stop.
 */
int qbrt_job_wait(struct qbrt_job *job, int64_t deadline_ns);

/*
 * Ends what is complete of the queue's jobs, in order, and those behind them
 * that a time limit has ended.
 */
void qbrt_queue_collect(struct qbrt_queue *queue);

/*
 * The first job in the list that matches, with a reference, or NULL. matches
 * runs under the queue's lock.
 */
struct qbrt_job *qbrt_queue_find(struct qbrt_queue *queue,
				 bool (*matches)(const struct qbrt_job *job,
						 void *arg),
				 void *arg);

/* In matches: the effects of the job last until the lock is given back. */
bool qbrt_job_is_queued(const struct qbrt_job *job);

#endif
