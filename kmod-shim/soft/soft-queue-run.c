// SPDX-License-Identifier: MIT
/*
 * The life of a job: record, number, waits, device, result, point. A queue is
 * a list in order of numbers. Its first job goes to the device when nothing is
 * left to wait for; a job that ended early (cancelled, late) stays in the list
 * as complete until those before it are, so points come in order (K083, K085).
 *
 * The device reports through finish_job on a thread that holds no lock. All
 * else is under the file lock, which is also held while a job is handed over:
 * so CANCEL finds a job either here or on the device.
 */
#include "soft/soft-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define ROOM_STEP 8u

/* ---- records ---- */

static struct qbnpu_soft_job *alloc_record(struct qbnpu_soft_queue *queue,
					   uint32_t num_buffers,
					   uint32_t num_waits)
{
	uint32_t max_buffers = qbrt_round_up(num_buffers + 1, ROOM_STEP);
	uint32_t max_waits = qbrt_round_up(num_waits + 1, ROOM_STEP);
	struct qbnpu_soft_job *job;
	char *room;

	job = malloc(sizeof(*job) + max_waits * sizeof(*job->waits) +
		     max_buffers * (sizeof(struct qbnpu_range) +
				    sizeof(struct qbnpu_soft_buffer *)));
	if (!job)
		return NULL;
	room = (char *)(job + 1);
	job->waits = (struct qbnpu_soft_wait *)(void *)room;
	room += max_waits * sizeof(*job->waits);
	job->ranges = (struct qbnpu_range *)(void *)room;
	room += max_buffers * sizeof(*job->ranges);
	job->buffers = (struct qbnpu_soft_buffer **)(void *)room;
	job->max_buffers = max_buffers;
	job->max_waits = max_waits;
	job->queue = queue;
	return job;
}

struct qbnpu_soft_job *qbnpu_soft_job_alloc(struct qbnpu_soft_queue *queue,
					    uint32_t num_buffers,
					    uint32_t num_waits)
{
	const size_t first = offsetof(struct qbnpu_soft_job, npu.next);
	struct qbnpu_soft_job *job = queue->pool;

	if (job)
		queue->pool = job->next;
	if (!job || job->max_buffers < num_buffers ||
	    job->max_waits < num_waits) {
		free(job);
		job = alloc_record(queue, num_buffers, num_waits);
		if (!job)
			return NULL;
	}
	memset((char *)job + first, 0,
	       offsetof(struct qbnpu_soft_job, type) - first);
	job->references = 1;
	return job;
}

/* Also without the file lock: nobody else has these pointers any more. */
static inline void drop_memory(struct qbnpu_soft_job *job)
{
	for (uint32_t i = 0; i < job->num_buffers; i++)
		qbnpu_soft_buffer_drop(job->buffers[i],
				       QBNPU_SOFT_JOB_REFERENCE);
	job->num_buffers = 0;
	if (job->program)
		qbnpu_soft_program_unref(job->program);
	job->program = NULL;
}

void qbnpu_soft_job_unref(struct qbnpu_soft_job *job)
{
	struct qbnpu_soft_queue *queue = job->queue;

	if (--job->references)
		return;
	/* a job that was on the device has nothing left to drop */
	if (job->num_buffers || job->program)
		drop_memory(job);
	job->next = queue->pool;
	queue->pool = job;
}

/* ---- the way through the queue ---- */

static struct drm_qbnpu_progress *
get_progress(const struct qbnpu_soft_queue *queue)
{
	return &queue->file->progress[queue->index];
}

/* The page has readers that hold no lock. */
// NOLINTNEXTLINE(readability-non-const-parameter): the builtin writes
static void store_progress(__u64 *field, uint64_t value)
{
	__atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static void count(atomic_uint_fast64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Kept out of the way: usually nobody waits for a point to be submitted. */
__attribute__((noinline, cold)) static void
tell_submitted(struct qbnpu_soft_timeline *timeline,
	       struct qbnpu_soft_eventfd **told)
{
	struct qbnpu_soft_wakes wakes = { .eventfds = *told };
	struct qbnpu_soft_queue *todo = NULL;

	/* a point that is only submitted starts no job */
	qbnpu_soft_timeline_tell(timeline, 0, &todo, &wakes);
	qbnpu_soft_wakes_flush_words(&wakes);
	*told = wakes.eventfds;
}

void qbnpu_soft_job_queue(struct qbnpu_soft_job *job, uint64_t user_data,
			  struct qbnpu_soft_eventfd **told)
{
	struct qbnpu_soft_queue *queue = job->queue;
	struct qbnpu_soft_result *kept;

	job->number = ++queue->last;
	if (queue->waiters)
		qbnpu_soft_queue_leave_result(
			queue, job->number - QBNPU_SOFT_NUM_RESULTS);
	kept = qbnpu_soft_queue_get_result(queue, job->number);
	kept->submit_ns = job->npu.submit_ns;
	kept->user_data = user_data;
	kept->state =
		job->num_pending ? DRM_QBNPU_JOB_WAITS : DRM_QBNPU_JOB_QUEUED;
	job->kept = kept;
	/* not below a point that a request added (K078) */
	if (queue->timeline->submitted < job->number)
		queue->timeline->submitted = job->number;
	if (queue->timeline->watches)
		tell_submitted(queue->timeline, told);
	*queue->tail = job;
	queue->tail = &job->next;
	queue->references++;
	queue->num_jobs++;
	queue->file->num_jobs++;
	queue->file->counters.submitted++;
	count(&queue->file->device->fates.submitted);
}

void qbnpu_soft_job_set_running(struct qbnpu_soft_job *job)
{
	job->is_on_device = true;
	job->kept->state = DRM_QBNPU_JOB_RUNNING;
	store_progress(&get_progress(job->queue)->started, job->number);
}

static void count_end(const struct qbnpu_soft_job *job,
		      const struct qbnpu_result *result)
{
	struct qbnpu_soft_file *file = job->queue->file;
	struct qbnpu_soft_counters *own = &file->counters;
	struct qbnpu_soft_fates *all = &file->device->fates;

	switch (result->status) {
	case 0:
		own->completed++;
		count(&all->completed);
		own->macs += job->num_macs;
		own->copy_bytes += job->copy_size;
		break;
	case -ECANCELED:
		own->cancelled++;
		count(&all->cancelled);
		break;
	case -ETIMEDOUT:
		own->timeouts++;
		count(&all->timeouts);
		own->failed++;
		count(&all->failed);
		break;
	default:
		own->failed++;
		count(&all->failed);
		break;
	}
	own->busy_ns += result->busy_ns;
	if (result->start_ns)
		own->wait_ns +=
			(uint64_t)(result->start_ns - job->npu.submit_ns);
}

static void tell_event(const struct qbnpu_soft_job *job,
		       const struct qbnpu_result *result)
{
	struct drm_qbnpu_query_event event = {
		.kind = result->status == -ETIMEDOUT
				? DRM_QBNPU_EVENT_TIMEOUT
				: DRM_QBNPU_EVENT_JOB_ERROR,
		.status = result->status,
		.queue = job->queue->number,
		.core = result->core,
		.arg = { job->number },
	};

	qbnpu_soft_event_add(job->queue->file->device, job->queue->file->id,
			     &event);
}

/* Keeps the result, wakes who waits for it; the point comes in order later. */
static void complete(struct qbnpu_soft_job *job,
		     const struct qbnpu_result *result,
		     struct qbnpu_soft_wakes *wakes)
{
	struct qbnpu_soft_queue *queue = job->queue;
	struct qbnpu_soft_result *kept = job->kept;

	kept->of_device = *result;
	kept->time_source = DRM_QBNPU_TIME_DEVICE;
	if (!result->status) {
		kept->of_device.list = DRM_QBNPU_NONE;
		kept->of_device.command = DRM_QBNPU_NONE;
		kept->of_device.item = DRM_QBNPU_NONE;
	}
	if (!result->start_ns) {
		/* it never ran, wherever the device had put it */
		kept->of_device.item = DRM_QBNPU_NONE;
		kept->of_device.core = DRM_QBNPU_NONE;
		kept->of_device.busy_ns = 0;
		kept->time_source = DRM_QBNPU_TIME_HOST;
	}
	for (uint32_t i = 0; i < job->num_waits; i++)
		qbnpu_soft_wait_stop(&job->waits[i]);
	job->is_on_device = false;
	job->is_complete = true;
	kept->state = DRM_QBNPU_JOB_COMPLETE;
	qbnpu_soft_queue_wake(queue, wakes);
	count_end(job, result);
	if (result->status && result->status != -ECANCELED)
		tell_event(job, result);
}

void qbnpu_soft_job_end(struct qbnpu_soft_job *job, int32_t status,
			uint32_t cause, struct qbnpu_soft_wakes *wakes)
{
	const struct qbnpu_result result = {
		.status = status,
		.cause = cause,
		.list = DRM_QBNPU_NONE,
		.command = DRM_QBNPU_NONE,
		.item = DRM_QBNPU_NONE,
		.core = DRM_QBNPU_NONE,
		.end_ns = qbrt_now_ns(),
	};

	complete(job, &result, wakes);
}

static void list_queue(struct qbnpu_soft_queue *queue,
		       struct qbnpu_soft_queue **todo)
{
	if (queue->is_listed)
		return;
	queue->is_listed = true;
	queue->next_listed = *todo;
	*todo = queue;
}

/* The last point that job waited for came. */
static void note_ready(struct qbnpu_soft_job *job,
		       struct qbnpu_soft_queue **todo)
{
	struct qbnpu_soft_queue *queue = job->queue;

	job->kept->state = DRM_QBNPU_JOB_QUEUED;
	if (queue->head == job)
		list_queue(queue, todo);
}

void qbnpu_soft_queue_end_waits(struct qbnpu_soft_timeline *timeline,
				int32_t status, struct qbnpu_soft_queue **todo)
{
	struct qbnpu_soft_wait *wait = timeline->waits;

	while (wait) {
		struct qbnpu_soft_wait *next = wait->next;
		struct qbnpu_soft_job *job = wait->job;

		if (wait->point <= timeline->completed) {
			if (status &&
			    !(wait->flags & DRM_QBNPU_SYNC_ANY_RESULT))
				job->has_bad_fence = true;
			qbnpu_soft_wait_stop(wait);
			if (!job->num_pending)
				note_ready(job, todo);
		}
		wait = next;
	}
}

/* Takes the first job, which is complete, off the list and signals its point. */
static void pop(struct qbnpu_soft_queue *queue, struct qbnpu_soft_queue **todo,
		struct qbnpu_soft_wakes *wakes)
{
	struct drm_qbnpu_progress *progress = get_progress(queue);
	struct qbnpu_soft_file *file = queue->file;
	struct qbnpu_soft_job *job = queue->head;
	const struct qbnpu_result *result = &job->kept->of_device;

	if (result->status) {
		store_progress(&progress->failed, progress->failed + 1);
		store_progress(&progress->last_failed, job->number);
		if (queue->is_sticky) {
			queue->is_failed = true;
			__atomic_store_n(&progress->state,
					 DRM_QBNPU_QUEUE_FAILED,
					 __ATOMIC_RELAXED);
		}
	}
	if (result->end_ns > progress->completed_ns)
		__atomic_store_n(&progress->completed_ns, result->end_ns,
				 __ATOMIC_RELAXED);
	__atomic_store_n(&progress->completed, job->number, __ATOMIC_RELEASE);
	if (queue->timeline->completed < job->number)
		queue->timeline->completed = job->number;
	if (queue->timeline->waits)
		qbnpu_soft_queue_end_waits(queue->timeline, result->status,
					   todo);
	if (queue->timeline->watches)
		qbnpu_soft_timeline_tell(queue->timeline, result->status, todo,
					 wakes);

	queue->head = job->next;
	if (!queue->head)
		queue->tail = &queue->head;
	queue->num_jobs--;
	if (!--file->num_jobs && file->is_closing) {
		(void)pthread_cond_signal(&file->is_idle);
		(void)pthread_cond_signal(&file->helper_wake);
	}
	qbnpu_soft_job_unref(job);
	qbnpu_soft_queue_unref(queue);
}

/* Starts or ends the first job of a queue, if its time has come. */
static void start(struct qbnpu_soft_job *job, struct qbnpu_soft_wakes *wakes)
{
	struct qbnpu_soft_queue *queue = job->queue;

	if (job->is_on_device || job->is_complete)
		return;
	if (queue->is_failed) {
		qbnpu_soft_job_end(job, -ECANCELED,
				   DRM_QBNPU_CAUSE_QUEUE_FAILED, wakes);
	} else if (job->num_pending) {
		return;
	} else if (job->has_bad_fence) {
		qbnpu_soft_job_end(job, -ECANCELED, DRM_QBNPU_CAUSE_FENCE,
				   wakes);
	} else if (job->type == QBNPU_SOFT_JOB_EMPTY) {
		qbnpu_soft_job_end(job, 0, DRM_QBNPU_CAUSE_NONE, wakes);
	} else {
		qbnpu_soft_job_set_running(job);
		wakes->npu = queue->file->npu;
		if (!qbnpu_npu_submit(wakes->npu, &job->npu, &wakes->cores))
			return;
		qbnpu_soft_job_end(job, -ENOMEM, DRM_QBNPU_CAUSE_MEMORY, wakes);
	}
}

/* From this queue on, then from those in the list. */
static void advance_from(struct qbnpu_soft_queue *queue,
			 struct qbnpu_soft_queue *todo,
			 struct qbnpu_soft_wakes *wakes)
{
	for (;;) {
		queue->references++;
		while (queue->head) {
			start(queue->head, wakes);
			if (!queue->head->is_complete)
				break;
			pop(queue, &todo, wakes);
		}
		qbnpu_soft_queue_unref(queue);
		queue = todo;
		if (!queue)
			return;
		todo = queue->next_listed;
		queue->is_listed = false;
	}
}

void qbnpu_soft_queue_advance(struct qbnpu_soft_queue *queue,
			      struct qbnpu_soft_wakes *wakes)
{
	advance_from(queue, NULL, wakes);
}

void qbnpu_soft_queue_advance_all(struct qbnpu_soft_queue *todo,
				  struct qbnpu_soft_wakes *wakes)
{
	if (!todo)
		return;
	todo->is_listed = false;
	advance_from(todo, todo->next_listed, wakes);
}

void qbnpu_soft_job_done(struct qbnpu_job *npu)
{
	struct qbnpu_soft_job *job;
	struct qbnpu_soft_wakes wakes;
	struct qbnpu_soft_file *file;

	qbnpu_soft_wakes_begin(&wakes);
	job = qbrt_container_of(npu, struct qbnpu_soft_job, npu);
	file = job->queue->file;
	/* what this frees is unmapped, which nobody has to wait for */
	drop_memory(job);
	(void)pthread_mutex_lock(&file->lock);
	complete(job, &npu->result, &wakes);
	if (job->inline_wait)
		qbnpu_soft_result_tell(job->kept, job->inline_wait);
	qbnpu_soft_queue_advance(job->queue, &wakes);
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_soft_wakes_flush(&wakes);
}

/* ---- ending before its time ---- */

void qbnpu_soft_job_cancel(struct qbnpu_soft_job *job, uint32_t cause)
{
	struct qbnpu_soft_queue *queue = job->queue;
	struct qbnpu_soft_file *file = queue->file;
	struct qbnpu_soft_wakes wakes;

	if (job->is_complete || job->stop_cause)
		return;
	qbnpu_soft_wakes_begin(&wakes);
	job->stop_cause = cause;
	if (!job->is_on_device) {
		qbnpu_soft_job_end(job, qbnpu_soft_get_stop_status(cause),
				   cause, &wakes);
		qbnpu_soft_queue_advance(queue, &wakes);
		qbnpu_soft_wakes_flush_locked(&wakes, file);
		return;
	}
	job->references++;
	queue->references++;
	(void)pthread_mutex_unlock(&file->lock);
	qbnpu_npu_cancel(file->npu, &job->npu, cause);
	(void)pthread_mutex_lock(&file->lock);
	qbnpu_soft_job_unref(job);
	qbnpu_soft_queue_unref(queue);
}

/* Only a queue's first job can be on the device: the others end first. */
static void cancel_queue(struct qbnpu_soft_queue *queue)
{
	struct qbnpu_soft_file *file = queue->file;
	struct qbnpu_soft_wakes wakes;

	qbnpu_soft_wakes_begin(&wakes);
	for (struct qbnpu_soft_job *job = queue->head; job; job = job->next) {
		if (job->is_complete || job->is_on_device)
			continue;
		job->stop_cause = DRM_QBNPU_CAUSE_CANCELLED;
		qbnpu_soft_job_end(job, -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED,
				   &wakes);
	}
	queue->references++;
	qbnpu_soft_queue_advance(queue, &wakes);
	if (queue->head)
		qbnpu_soft_job_cancel(queue->head, DRM_QBNPU_CAUSE_CANCELLED);
	qbnpu_soft_queue_unref(queue);
	qbnpu_soft_wakes_flush_locked(&wakes, file);
}

void qbnpu_soft_job_cancel_all(struct qbnpu_soft_file *file,
			       struct qbnpu_soft_queue *queue)
{
	if (queue) {
		cancel_queue(queue);
		return;
	}
	for (uint32_t i = 0; i < QBNPU_SOFT_MAX_QUEUES; i++) {
		if (file->queues[i])
			cancel_queue(file->queues[i]);
	}
}
