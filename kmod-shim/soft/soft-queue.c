// SPDX-License-Identifier: MIT
/*
 * Queues: numbers that are never given twice while the file lives, the
 * timeline and the progress entry of each, the results of the last 1,024 jobs,
 * WAIT and CANCEL. What happens to jobs is in soft-queue-run.c.
 */
#include "soft/soft-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/spin.h"
#include "util.h"

#define MAX_ROUNDS (UINT32_MAX / QBNPU_SOFT_MAX_QUEUES)

/* ---- creation and end ---- */

/* Mapped, so that results that were never needed cost no memory. */
static struct qbnpu_soft_result *map_results(void)
{
	void *results = mmap(
		NULL, QBNPU_SOFT_NUM_RESULTS * sizeof(struct qbnpu_soft_result),
		PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return results == MAP_FAILED ? NULL : results;
}

static void free_memory(struct qbnpu_soft_queue *queue)
{
	while (queue->pool) {
		struct qbnpu_soft_job *job = queue->pool;

		queue->pool = job->next;
		free(job);
	}
	if (queue->results)
		(void)munmap(queue->results,
			     QBNPU_SOFT_NUM_RESULTS * sizeof(*queue->results));
	if (queue->timeline)
		qbnpu_soft_timeline_unref(queue->timeline);
	free(queue);
}

void qbnpu_soft_queue_free(struct qbnpu_soft_queue *queue)
{
	queue->file->queues[queue->index] = NULL;
	free_memory(queue);
}

static struct qbnpu_soft_queue *alloc_queue(void)
{
	struct qbnpu_soft_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->references = 1;
	queue->tail = &queue->head;
	queue->results = map_results();
	queue->timeline = qbnpu_soft_timeline_alloc();
	if (!queue->results || !queue->timeline) {
		free_memory(queue);
		return NULL;
	}
	return queue;
}

/* File lock. An index whose numbers are used up is never free again. */
static int find_free_index(const struct qbnpu_soft_file *file, uint32_t *index)
{
	for (uint32_t i = 0; i < QBNPU_SOFT_MAX_QUEUES; i++) {
		if (!file->queues[i] && file->queue_rounds[i] < MAX_ROUNDS) {
			*index = i;
			return 0;
		}
	}
	return -ENOSPC;
}

/* File lock. number and index are one: number = round * 256 + index + 1. */
static int add_queue(struct qbnpu_soft_file *file,
		     struct qbnpu_soft_queue *queue, uint32_t *syncobj)
{
	struct drm_qbnpu_progress *progress;
	uint32_t index;
	int err = find_free_index(file, &index);

	if (err)
		return err;
	err = qbnpu_soft_table_add(&file->timelines, QBNPU_SOFT_MAX_SYNCOBJS,
				   queue->timeline, syncobj);
	if (err)
		return err;
	queue->timeline->references++;
	queue->file = file;
	queue->index = index;
	queue->number =
		file->queue_rounds[index]++ * QBNPU_SOFT_MAX_QUEUES + index + 1;
	file->queues[index] = queue;
	progress = &file->progress[index];
	__atomic_store_n(&progress->completed, 0, __ATOMIC_RELEASE);
	memset(progress, 0, sizeof(*progress));
	return 0;
}

int qbnpu_soft_ioctl_queue_create(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_queue_create *create = arg;
	struct qbnpu_soft_queue *queue;
	uint32_t syncobj;
	int err;

	if (create->flags & ~DRM_QBNPU_QUEUE_STICKY || create->reserved)
		return -EINVAL;
	if (create->priority < QBNPU_SOFT_PRIORITY_MIN || create->priority > 0)
		return -EACCES;
	queue = alloc_queue();
	if (!queue)
		return -ENOMEM;
	queue->priority = create->priority;
	queue->is_sticky = create->flags & DRM_QBNPU_QUEUE_STICKY;
	(void)pthread_mutex_lock(&file->lock);
	err = add_queue(file, queue, &syncobj);
	if (err) {
		free_memory(queue);
	} else {
		create->queue = queue->number;
		create->progress_index = queue->index;
		create->progress_offset = 0;
		create->syncobj = syncobj;
	}
	(void)pthread_mutex_unlock(&file->lock);
	return err;
}

int qbnpu_soft_ioctl_queue_destroy(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_qbnpu_queue_destroy *destroy = arg;
	struct qbnpu_soft_wakes wakes;
	struct qbnpu_soft_queue *queue;

	if (destroy->flags)
		return -EINVAL;
	qbnpu_soft_wakes_begin(&wakes);
	(void)pthread_mutex_lock(&file->lock);
	queue = qbnpu_soft_queue_get(file, destroy->queue);
	if (queue) {
		queue->is_gone = true;
		qbnpu_soft_queue_wake(queue, &wakes);
		qbnpu_soft_queue_unref(queue);
	}
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush(&wakes);
	return queue ? 0 : -ENOENT;
}

void qbnpu_soft_queue_close_all(struct qbnpu_soft_file *file)
{
	for (uint32_t i = 0; i < QBNPU_SOFT_MAX_QUEUES; i++) {
		if (file->queues[i])
			qbnpu_soft_queue_unref(file->queues[i]);
	}
}

/* ---- WAIT ---- */

void qbnpu_soft_result_tell(const struct qbnpu_soft_result *kept,
			    struct drm_qbnpu_wait *wait)
{
	const struct qbnpu_result *result = &kept->of_device;

	wait->state = DRM_QBNPU_JOB_COMPLETE;
	wait->status = result->status;
	wait->cause = result->cause;
	wait->list = result->list;
	wait->command = result->command;
	wait->item = result->item;
	wait->core = result->core;
	wait->time_source = kept->time_source;
	wait->submit_ns = kept->submit_ns;
	wait->start_ns = result->start_ns;
	wait->end_ns = result->end_ns;
	wait->busy_ns = result->busy_ns;
	wait->user_data = kept->user_data;
}

/* What is known of the job; NULL: nothing, and never will be. File lock. */
static const struct qbnpu_soft_result *
look(const struct qbnpu_soft_queue *queue,
     const struct qbnpu_soft_waiter *waiter, bool is_own, int *err)
{
	if (queue->is_gone && !is_own) {
		*err = -ENOENT;
		return NULL;
	}
	if (waiter->has_result)
		return &waiter->result;
	if (queue->last - waiter->number >= QBNPU_SOFT_NUM_RESULTS) {
		*err = -ENODATA;
		return NULL;
	}
	return qbnpu_soft_queue_get_result(queue, waiter->number);
}

static void begin_waiter(struct qbnpu_soft_queue *queue,
			 struct qbnpu_soft_waiter *waiter, uint64_t number)
{
	waiter->number = number;
	waiter->has_result = false;
	waiter->next = queue->waiters;
	waiter->link = &queue->waiters;
	if (waiter->next)
		waiter->next->link = &waiter->next;
	queue->waiters = waiter;
}

static void end_waiter(const struct qbnpu_soft_waiter *waiter)
{
	*waiter->link = waiter->next;
	if (waiter->next)
		waiter->next->link = waiter->link;
}

void qbnpu_soft_queue_leave_result(const struct qbnpu_soft_queue *queue,
				   uint64_t number)
{
	struct qbnpu_soft_waiter *waiter;

	for (waiter = queue->waiters; waiter; waiter = waiter->next) {
		if (waiter->number != number)
			continue;
		waiter->result = *qbnpu_soft_queue_get_result(queue, number);
		waiter->has_result = true;
	}
}

int qbnpu_soft_queue_wait(struct qbnpu_soft_queue *queue, uint64_t number,
			  struct qbnpu_soft_wakes *wakes,
			  struct drm_qbnpu_wait *wait)
{
	const bool is_own = wakes != NULL;
	bool may_spin = !(wait->flags & DRM_QBNPU_WAIT_BLOCKING) &&
			wait->timeout_ns > 0 && !qbnpu_has_one_cpu();
	pthread_mutex_t *lock = &queue->file->lock;
	const struct qbnpu_soft_result *result;
	struct qbnpu_soft_waiter waiter;
	int err = 0;

	queue->references++;
	begin_waiter(queue, &waiter, number);
	result = look(queue, &waiter, is_own, &err);
	while (result && result->state != DRM_QBNPU_JOB_COMPLETE && !err) {
		unsigned int value = atomic_load(&queue->wake);

		queue->num_sleepers += !may_spin;
		(void)pthread_mutex_unlock(lock);
		if (wakes)
			qbnpu_soft_wakes_flush(wakes);
		if (may_spin)
			qbnpu_spin(&queue->wake, value, wait->timeout_ns);
		else
			err = qbnpu_soft_sleep(&queue->wake, value,
					       wait->timeout_ns);
		(void)pthread_mutex_lock(lock);
		queue->num_sleepers -= !may_spin;
		may_spin = false;
		result = look(queue, &waiter, is_own, &err);
	}
	end_waiter(&waiter);
	if (result) {
		wait->state = result->state;
		if (result->state == DRM_QBNPU_JOB_COMPLETE) {
			qbnpu_soft_result_tell(result, wait);
			err = 0;
		}
	}
	qbnpu_soft_queue_unref(queue);
	return err;
}

int qbnpu_soft_ioctl_wait(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_wait *wait = arg;
	struct drm_qbnpu_wait out = *wait;
	struct qbnpu_soft_queue *queue;
	int err;

	if (wait->flags & ~DRM_QBNPU_WAIT_BLOCKING)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	queue = qbnpu_soft_queue_get(file, wait->queue);
	if (!queue)
		err = -ENOENT;
	else if (!wait->job || wait->job > queue->last)
		err = -EINVAL;
	else
		err = qbnpu_soft_queue_wait(queue, wait->job, NULL, &out);
	(void)pthread_mutex_unlock(&file->lock);
	if (!err)
		*wait = out;
	else if (err == -ETIME)
		wait->state = out.state;
	return err;
}

/* ---- CANCEL ---- */

int qbnpu_soft_ioctl_cancel(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_qbnpu_cancel *cancel = arg;
	struct qbnpu_soft_queue *queue;
	struct qbnpu_soft_job *job;
	int err = 0;

	if (cancel->flags)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	queue = qbnpu_soft_queue_get(file, cancel->queue);
	if (!queue) {
		err = -ENOENT;
	} else if (!cancel->job) {
		qbnpu_soft_job_cancel_all(file, queue);
	} else if (cancel->job > queue->last) {
		err = -EINVAL;
	} else {
		job = queue->head;
		while (job && job->number < cancel->job)
			job = job->next;
		if (job && job->number == cancel->job)
			qbnpu_soft_job_cancel(job, DRM_QBNPU_CAUSE_CANCELLED);
	}
	(void)pthread_mutex_unlock(&file->lock);
	return err;
}
