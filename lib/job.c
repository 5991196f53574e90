// SPDX-License-Identifier: MIT
/*
 * From SUBMIT to the end. A job leaves QUEUED under its queue's lock, so who
 * holds the lock and sees it there knows that its effects last; it leaves the
 * list only when they are over, so who collects a queue has waited for all of
 * them. end() must not collect: it may be what the collector waits for.
 */
#include "job.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "futex.h"
#include "util.h"

/* Of a chain's way down; a longer chain is walked more than once. */
#define PATH_LENGTH 32

enum job_state {
	QUEUED,
	ENDING,
	ENDING_AWAITED, /* and somebody sleeps until it has ended */
	ENDED,
};

void qbrt_job_start(struct qbrt_job *job, const struct qbrt_job_ops *ops)
{
	memset(job, 0, sizeof(*job));
	job->ops = ops;
	atomic_init(&job->references, 1);
	atomic_init(&job->state, QUEUED);
}

struct qbrt_job *qbrt_job_ref(struct qbrt_job *job)
{
	atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
	return job;
}

void qbrt_job_unref(struct qbrt_job *job)
{
	if (atomic_fetch_sub_explicit(&job->references, 1,
				      memory_order_acq_rel) != 1)
		return;
	free(job->detail);
	job->ops->free(job);
}

/* Lock held. */
static void lower_limit(struct qbrt_queue *queue, int64_t deadline_ns)
{
	if (deadline_ns < atomic_load(&queue->limit_ns))
		atomic_store(&queue->limit_ns, deadline_ns);
}

/* The lock keeps the list in the order of the numbers that SUBMIT gives. */
int qbrt_job_submit(struct qbrt_job *job, struct qbrt_queue *queue,
		    struct drm_qbnpu_submit *submit)
{
	int err;

	(void)pthread_mutex_lock(&queue->lock);
	/* before its number is given: who submits next collects it first */
	atomic_fetch_add(&queue->num_jobs, 1);
	submit->queue = queue->number;
	err = queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_SUBMIT, submit);
	if (!err) {
		job->queue = queue;
		job->number = submit->job;
		job->deadline_ns =
			submit->deadline_ns ? submit->deadline_ns : INT64_MAX;
		job->next = NULL;
		lower_limit(queue, job->deadline_ns);
		(void)qbrt_job_ref(job);
		if (queue->last)
			queue->last->next = job;
		else
			queue->first = job;
		queue->last = job;
		atomic_store(&job->is_submitted, true);
	} else {
		atomic_fetch_sub(&queue->num_jobs, 1);
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return err;
}

void qbrt_job_list(struct qbrt_job *job, struct qbrt_queue *queue,
		   uint64_t number)
{
	struct qbrt_job *previous = NULL;

	(void)pthread_mutex_lock(&queue->lock);
	job->queue = queue;
	job->number = number;
	/* its caller waits for it, and sees the end at once */
	job->deadline_ns = INT64_MAX;
	job->next = queue->first;
	while (job->next && job->next->number < number) {
		previous = job->next;
		job->next = previous->next;
	}
	if (previous)
		previous->next = qbrt_job_ref(job);
	else
		queue->first = qbrt_job_ref(job);
	if (!job->next)
		queue->last = job;
	atomic_fetch_add(&queue->num_jobs, 1);
	atomic_store(&job->is_submitted, true);
	(void)pthread_mutex_unlock(&queue->lock);
}

static void take_off(struct qbrt_job *job)
{
	struct qbrt_queue *queue = job->queue;
	struct qbrt_job *previous = NULL;
	struct qbrt_job **link = &queue->first;

	(void)pthread_mutex_lock(&queue->lock);
	while (*link != job) {
		previous = *link;
		link = &previous->next;
	}
	*link = job->next;
	if (queue->last == job)
		queue->last = previous;
	atomic_fetch_sub(&queue->num_jobs, 1);
	(void)pthread_mutex_unlock(&queue->lock);
}

bool qbrt_job_has_ended(const struct qbrt_job *job)
{
	return atomic_load_explicit(&job->state, memory_order_acquire) == ENDED;
}

bool qbrt_job_is_queued(const struct qbrt_job *job)
{
	return atomic_load_explicit(&job->state, memory_order_relaxed) ==
	       QUEUED;
}

/* Somebody else is ending it: that takes no longer than end() does. */
static void await_end(struct qbrt_job *job)
{
	unsigned int state = atomic_load(&job->state);

	while (state != ENDED) {
		if (state == ENDING_AWAITED)
			qbrt_futex_wait(&job->state, ENDING_AWAITED, INT64_MAX);
		else if (atomic_compare_exchange_weak(&job->state, &state,
						      ENDING_AWAITED))
			continue;
		state = atomic_load(&job->state);
	}
}

/* Ends a job that is complete on the device, or waits for who does. */
static void end_job(struct qbrt_job *job, int err,
		    const struct drm_qbnpu_wait *wait)
{
	struct qbrt_queue *queue = job->queue;
	bool is_mine;

	(void)pthread_mutex_lock(&queue->lock);
	is_mine = qbrt_job_is_queued(job);
	if (is_mine)
		atomic_store_explicit(&job->state, ENDING,
				      memory_order_relaxed);
	(void)pthread_mutex_unlock(&queue->lock);
	if (!is_mine) {
		await_end(job);
		return;
	}
	job->ops->end(job, err, wait);
	take_off(job);
	if (atomic_exchange(&job->state, ENDED) == ENDING_AWAITED)
		qbrt_futex_wake(&job->state, INT_MAX);
	qbrt_job_unref(job);
}

bool qbrt_job_poll(struct qbrt_job *job)
{
	return !qbrt_job_wait(job, 0);
}

/* By a request, and not ended here. */
static bool is_complete_by_request(const struct qbrt_job *job)
{
	const struct qbrt_queue *queue = job->queue;
	struct drm_qbnpu_wait wait = {
		.queue = queue->number,
		.job = job->number,
	};
	int err = queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_WAIT, &wait);

	return err != -ETIME && err != -EINTR;
}

static bool is_complete(const struct qbrt_job *job)
{
	const struct drm_qbnpu_progress *progress = job->queue->progress;

	return !progress || __atomic_load_n(&progress->completed,
					    __ATOMIC_ACQUIRE) >= job->number;
}

bool qbrt_job_collect(struct qbrt_job *job)
{
	if (qbrt_job_has_ended(job))
		return true;
	if (!is_complete(job) && qbrt_now_ns() < job->deadline_ns)
		return false;
	return qbrt_job_poll(job);
}

/* One that job comes after, complete and not ended; NULL: there is none. */
static struct qbrt_job *ref_before(struct qbrt_job *job)
{
	struct qbrt_job *before = NULL;

	if (!job->has_before)
		return NULL;
	(void)pthread_mutex_lock(&job->queue->lock);
	/* who ends it has seen to that */
	for (uint32_t i = 0; qbrt_job_is_queued(job); i++) {
		before = job->ops->get_before(job, i);
		if (!before)
			break;
		if (qbrt_job_has_ended(before) ||
		    (!is_complete(before) && !is_complete_by_request(before)))
			continue;
		(void)qbrt_job_ref(before);
		break;
	}
	(void)pthread_mutex_unlock(&job->queue->lock);
	return before;
}

/* The way down a chain: the last jobs of it, each after the next one. */
struct path {
	struct qbrt_job *jobs[PATH_LENGTH]; /* a ring, with references */
	uint32_t top, num;
};

/* The oldest is forgotten when there is no room: the way is walked again. */
static void push(struct path *path, struct qbrt_job *job)
{
	path->top = (path->top + 1) % PATH_LENGTH;
	if (path->num == PATH_LENGTH)
		qbrt_job_unref(path->jobs[path->top]);
	else
		path->num++;
	path->jobs[path->top] = job;
}

/* Not empty. */
static struct qbrt_job *pop(struct path *path)
{
	struct qbrt_job *job = path->jobs[path->top];

	path->top = (path->top + PATH_LENGTH - 1) % PATH_LENGTH;
	path->num--;
	return job;
}

/* What job comes after, the deepest first, without recursion. */
static void end_before(struct qbrt_job *job)
{
	struct qbrt_job *at = ref_before(job);
	struct path path = { .top = 0, .num = 0 };
	struct qbrt_job *before;
	bool has_ended;

	while (at) {
		while ((before = ref_before(at))) {
			push(&path, at);
			at = before;
		}
		has_ended = qbrt_job_poll(at);
		qbrt_job_unref(at);
		if (!has_ended)
			break;
		at = path.num ? pop(&path) : ref_before(job);
	}
	while (path.num)
		qbrt_job_unref(pop(&path));
}

int qbrt_job_wait(struct qbrt_job *job, int64_t deadline_ns)
{
	struct drm_qbnpu_wait wait;
	int err;

	if (qbrt_job_has_ended(job))
		return 0;
	err = qbrt_queue_wait(job->queue, job->number, job->wait_flags,
			      deadline_ns, &wait);
	if (err == -ETIME || err == -EINTR)
		return err;
	if (job->has_before)
		end_before(job);
	end_job(job, err, &wait);
	return 0;
}

/* Any job of the list, to look at it without the lock. */
static struct qbrt_job *ref_first(struct qbrt_queue *queue)
{
	struct qbrt_job *job;

	(void)pthread_mutex_lock(&queue->lock);
	job = queue->first;
	if (job)
		(void)qbrt_job_ref(job);
	(void)pthread_mutex_unlock(&queue->lock);
	return job;
}

/* One whose time limit has passed; who ends it sees to the next limit. */
static struct qbrt_job *ref_late(struct qbrt_queue *queue, int64_t now_ns)
{
	struct qbrt_job *late = NULL;

	(void)pthread_mutex_lock(&queue->lock);
	atomic_store(&queue->limit_ns, INT64_MAX);
	for (struct qbrt_job *job = queue->first; job; job = job->next) {
		if (!qbrt_job_is_queued(job))
			continue;
		lower_limit(queue, job->deadline_ns);
		if (!late && job->deadline_ns <= now_ns)
			late = qbrt_job_ref(job);
	}
	(void)pthread_mutex_unlock(&queue->lock);
	return late;
}

/* Those that a time limit has ended before their turn, until one goes on. */
static void collect_late(struct qbrt_queue *queue)
{
	int64_t now_ns = qbrt_now_ns();
	bool has_ended = true;

	while (has_ended && now_ns >= atomic_load(&queue->limit_ns)) {
		struct qbrt_job *job = ref_late(queue, now_ns);

		if (!job)
			return;
		has_ended = qbrt_job_poll(job);
		qbrt_job_unref(job);
	}
}

void qbrt_queue_collect(struct qbrt_queue *queue)
{
	struct qbrt_job *job;
	bool has_ended = true;

	while (has_ended && atomic_load(&queue->num_jobs)) {
		job = ref_first(queue);
		if (!job)
			return;
		has_ended = qbrt_job_has_ended(job) ||
			    (is_complete(job) && qbrt_job_poll(job));
		qbrt_job_unref(job);
	}
	if (!has_ended)
		collect_late(queue);
}

struct qbrt_job *qbrt_queue_find(struct qbrt_queue *queue,
				 bool (*matches)(const struct qbrt_job *job,
						 void *arg),
				 void *arg)
{
	struct qbrt_job *job;

	if (!atomic_load(&queue->num_jobs))
		return NULL;
	(void)pthread_mutex_lock(&queue->lock);
	job = queue->first;
	while (job && !matches(job, arg))
		job = job->next;
	if (job)
		(void)qbrt_job_ref(job);
	(void)pthread_mutex_unlock(&queue->lock);
	return job;
}
