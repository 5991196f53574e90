// SPDX-License-Identifier: MIT
/*
 * From a checked call to a queued job: what SUBMIT and COPY share. Objects are
 * looked up once and held by reference from then on, so that the pure checks
 * between run without a lock; what may have changed meanwhile (brackets, the
 * queue's state and room) is looked at last, in the section that queues.
 *
 * A record of the queue's pool, the stack and the file lock are all that a job
 * in the steady state needs: no allocation, and inline no system call.
 */
#include "soft/soft-submit.h"

#include <errno.h>
#include <string.h>

#include "util.h"

int qbnpu_soft_entry_fail(struct qbnpu_soft_entry *entry, uint32_t what,
			  uint32_t index, uint64_t limit, int err)
{
	entry->fail_what = what;
	entry->fail_index = index;
	entry->fail_limit = limit;
	return err;
}

/* ---- syncs ---- */

bool qbnpu_soft_entry_has_sync_size(uint32_t count, uint32_t size)
{
	if (!count && !size)
		return true;
	return qbnpu_soft_is_element_size(size, sizeof(struct drm_qbnpu_sync));
}

/* Larger elements keep their tails behind syncs[] until they are looked at. */
int qbnpu_soft_entry_copy_syncs(struct qbnpu_soft_entry *entry,
				uint64_t address, uint32_t count, uint32_t size)
{
	uint8_t bytes[QBNPU_SOFT_MAX_SYNCS * QBNPU_SOFT_MAX_ELEMENT];
	const size_t known = sizeof(entry->syncs[0]);

	if (qbnpu_soft_copy_from_user(bytes, address, (size_t)count * size))
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_IN_SYNC, 0,
					     0, -EFAULT);
	entry->num_syncs = count;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *element = bytes + (size_t)i * size;

		memcpy(&entry->syncs[i], element, known);
		/* an impossible flag stands for a tail that is not zero */
		if (!qbnpu_soft_is_zero(element + known, size - known))
			entry->syncs[i].flags = UINT32_MAX;
	}
	return 0;
}

int qbnpu_soft_entry_check_syncs(struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		if (entry->syncs[i].flags & ~DRM_QBNPU_SYNC_ANY_RESULT ||
		    !entry->syncs[i].point)
			return qbnpu_soft_entry_fail(
				entry, DRM_QBNPU_FAIL_IN_SYNC, i, 0, -EINVAL);
	}
	return 0;
}

static bool is_repeated(const struct qbnpu_soft_entry *entry, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (entry->syncs[i].handle == entry->syncs[index].handle)
			return true;
	}
	return false;
}

int qbnpu_soft_entry_find_timelines(struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		struct qbnpu_soft_timeline *timeline;

		timeline = qbnpu_soft_table_get(&entry->file->timelines,
						entry->syncs[i].handle);
		if (!timeline)
			return qbnpu_soft_entry_fail(
				entry, DRM_QBNPU_FAIL_IN_SYNC, i, 0, -ENOENT);
		timeline->references++;
		entry->timelines[entry->num_timelines++] = timeline;
	}
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		uint64_t submitted = entry->timelines[i]->submitted;

		if (is_repeated(entry, i) || entry->syncs[i].point > submitted)
			return qbnpu_soft_entry_fail(entry,
						     DRM_QBNPU_FAIL_IN_SYNC, i,
						     submitted, -EINVAL);
	}
	return 0;
}

/* ---- queue, buffers, deadline ---- */

int qbnpu_soft_entry_find_queue(struct qbnpu_soft_entry *entry, uint32_t number)
{
	struct qbnpu_soft_queue *queue;

	queue = qbnpu_soft_queue_get(entry->file, number);
	if (!queue)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0, 0,
					     -ENOENT);
	queue->references++;
	entry->queue = queue;
	return 0;
}

int qbnpu_soft_entry_find_buffer(struct qbnpu_soft_entry *entry,
				 uint32_t handle, uint32_t what, uint32_t index)
{
	const struct qbnpu_soft_bo *bo = qbnpu_soft_bo_get(entry->file, handle);
	struct qbnpu_soft_use *use = &entry->uses[entry->num_uses];

	if (!bo)
		return qbnpu_soft_entry_fail(entry, what, index, 0, -ENOENT);
	atomic_fetch_add(&bo->buffer->references, 1);
	use->buffer = bo->buffer;
	use->handle = handle;
	use->fail_what = what;
	use->fail_index = index;
	entry->num_uses++;
	return 0;
}

int qbnpu_soft_entry_check_deadline(struct qbnpu_soft_entry *entry)
{
	int64_t farthest_ns;

	entry->now_ns = qbrt_now_ns();
	farthest_ns = entry->now_ns + QBNPU_SOFT_MAX_JOB_NS;
	if (!entry->deadline_ns)
		return 0;
	if (entry->deadline_ns <= entry->now_ns)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_STRUCT, 0,
					     (uint64_t)entry->now_ns, -ETIME);
	if (entry->deadline_ns > farthest_ns)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_STRUCT, 0,
					     (uint64_t)farthest_ns, -ETIME);
	return 0;
}

/* Steps 11 to 13; file lock. */
static int check_queueing(struct qbnpu_soft_entry *entry)
{
	const struct qbnpu_soft_queue *queue = entry->queue;

	for (uint32_t i = 0; i < entry->num_uses; i++) {
		const struct qbnpu_soft_use *use = &entry->uses[i];
		const struct qbnpu_soft_bo *bo;

		bo = qbnpu_soft_bo_get(entry->file, use->handle);
		if (bo && bo->buffer == use->buffer && bo->num_writes)
			return qbnpu_soft_entry_fail(entry, use->fail_what,
						     use->fail_index, 0,
						     -EBUSY);
	}
	/* destroyed while the pure checks ran: as if it had been before */
	if (queue->is_gone)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0, 0,
					     -ENOENT);
	if (queue->is_failed)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0, 0,
					     -ECANCELED);
	if (queue->num_jobs >= QBNPU_SOFT_MAX_JOBS)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0,
					     QBNPU_SOFT_MAX_JOBS, -ENOSPC);
	return 0;
}

/* ---- queueing ---- */

static void add_buffer(struct qbnpu_soft_job *job,
		       struct qbnpu_soft_buffer *buffer)
{
	for (uint32_t i = 0; i < job->num_buffers; i++) {
		if (job->buffers[i] == buffer) {
			qbnpu_soft_buffer_unref(buffer);
			return;
		}
	}
	atomic_fetch_add(&buffer->num_jobs, 1);
	job->buffers[job->num_buffers++] = buffer;
}

/* The record, with the entry's references; file lock. */
static struct qbnpu_soft_job *make_job(struct qbnpu_soft_entry *entry)
{
	struct qbnpu_soft_job *job;

	job = qbnpu_soft_job_alloc(entry->queue, entry->room, entry->num_syncs);
	if (!job)
		return NULL;
	job->type = entry->type;
	job->program = entry->program;
	entry->program = NULL;
	job->npu.priority = entry->queue->priority;
	job->npu.item_count = 1;
	job->npu.submit_ns = entry->now_ns;
	job->npu.deadline_ns =
		entry->deadline_ns ? entry->deadline_ns : INT64_MAX;
	job->npu.limit_ns = entry->deadline_ns ? QBNPU_SOFT_MAX_JOB_NS
					       : QBNPU_SOFT_DEFAULT_JOB_NS;
	job->npu.ranges = job->ranges;
	job->npu.done = qbnpu_soft_job_done;
	if (entry->fill)
		entry->fill(job, entry);
	for (uint32_t i = 0; i < entry->num_uses; i++)
		add_buffer(job, entry->uses[i].buffer);
	entry->num_uses = 0;
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		struct qbnpu_soft_wait *wait = &job->waits[i];

		memset(wait, 0, sizeof(*wait));
		wait->job = job;
		wait->point = entry->syncs[i].point;
		wait->flags = entry->syncs[i].flags;
		qbnpu_soft_wait_start(wait, entry->timelines[i]);
	}
	job->num_waits = entry->num_syncs;
	return job;
}

/* K313: the caller would wait for all of it, and nothing has to come first. */
static bool may_run_inline(const struct qbnpu_soft_entry *entry)
{
	int64_t end_ns = entry->deadline_ns
				 ? entry->deadline_ns
				 : entry->now_ns + QBNPU_SOFT_DEFAULT_JOB_NS;

	if (!entry->wait_address || entry->type != QBNPU_SOFT_JOB_RUN ||
	    entry->program->mode != QBNPU_MODE_SINGLE || entry->item_count != 1)
		return false;
	if (entry->queue->head || entry->wait.timeout_ns < end_ns)
		return false;
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		if (entry->syncs[i].point > entry->timelines[i]->completed)
			return false;
	}
	return true;
}

/* File lock; dropped while the job runs. */
static void run_inline(struct qbnpu_soft_job *job)
{
	struct qbnpu_soft_queue *queue = job->queue;
	struct qbnpu_soft_file *file = queue->file;
	struct qbnpu_soft_wakes wakes = { 0 };
	int err;

	qbnpu_soft_job_set_running(job);
	(void)pthread_mutex_unlock(&file->lock);
	err = qbnpu_npu_run(file->npu, &job->npu);
	(void)pthread_mutex_lock(&file->lock);
	if (!err)
		return;
	/* no core was idle: the long way, if nobody cancelled it meanwhile */
	job->is_on_device = false;
	atomic_store(&job->npu.stop_cause, 0);
	if (job->stop_cause)
		qbnpu_soft_job_end(job,
				   qbnpu_soft_get_stop_status(job->stop_cause),
				   job->stop_cause, &wakes);
	else if (qbnpu_soft_helper_start(file))
		qbnpu_soft_job_end(job, -ENOMEM, DRM_QBNPU_CAUSE_MEMORY,
				   &wakes);
	else
		qbnpu_soft_helper_note_deadline(file, job->npu.deadline_ns);
	qbnpu_soft_queue_advance(queue, &wakes);
	qbnpu_soft_wakes_flush(&wakes);
}

/* Step 14 and the queueing; file lock. */
static int queue_job(struct qbnpu_soft_entry *entry)
{
	bool is_inline = may_run_inline(entry);
	struct qbnpu_soft_wakes wakes = { 0 };
	struct qbnpu_soft_job *job;

	if (!is_inline && qbnpu_soft_helper_start(entry->file))
		return -ENOMEM;
	job = make_job(entry);
	if (!job)
		return -ENOMEM;
	qbnpu_soft_job_queue(job, entry->user_data);
	entry->number = job->number;
	if (is_inline) {
		run_inline(job);
		return 0;
	}
	qbnpu_soft_helper_note_deadline(entry->file, job->npu.deadline_ns);
	qbnpu_soft_queue_advance(entry->queue, &wakes);
	qbnpu_soft_wakes_flush(&wakes);
	return 0;
}

/* ---- `wait` ---- */

static int write_state(const struct qbnpu_soft_entry *entry, uint32_t state)
{
	return qbnpu_soft_copy_to_user(
		entry->wait_address + offsetof(struct drm_qbnpu_wait, state),
		&state, sizeof(state));
}

/* K094: the job is queued, so what cannot be told here stays for WAIT. */
static void write_wait(const struct qbnpu_soft_entry *entry, int err)
{
	const size_t start = offsetof(struct drm_qbnpu_wait, status);

	if (err == -ENODATA)
		return;
	if (!err &&
	    qbnpu_soft_copy_to_user(entry->wait_address + start,
				    (const uint8_t *)&entry->wait + start,
				    sizeof(entry->wait) - start))
		return;
	(void)write_state(entry, entry->wait.state);
}

int qbnpu_soft_entry_submit(struct qbnpu_soft_entry *entry)
{
	pthread_mutex_t *lock = &entry->file->lock;
	uint32_t given_state = entry->wait.state;
	bool is_written = false;
	int wait_err = 0;
	int err;

	(void)pthread_mutex_lock(lock);
	err = check_queueing(entry);
	if (!err && entry->wait_address) {
		(void)pthread_mutex_unlock(lock);
		is_written = !write_state(entry, DRM_QBNPU_JOB_WAITS);
		(void)pthread_mutex_lock(lock);
		err = is_written ? check_queueing(entry) : -EFAULT;
	}
	if (!err)
		err = queue_job(entry);
	if (!err && entry->wait_address)
		wait_err = qbnpu_soft_queue_wait(entry->queue, entry->number,
						 true, &entry->wait);
	(void)pthread_mutex_unlock(lock);
	if (!err && entry->wait_address)
		write_wait(entry, wait_err);
	else if (err && is_written)
		(void)write_state(entry, given_state);
	return err;
}

void qbnpu_soft_entry_end(struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_uses; i++)
		qbnpu_soft_buffer_unref(entry->uses[i].buffer);
	if (entry->program)
		qbnpu_soft_program_unref(entry->program);
	if (!entry->queue && !entry->num_timelines)
		return;
	(void)pthread_mutex_lock(&entry->file->lock);
	for (uint32_t i = 0; i < entry->num_timelines; i++)
		qbnpu_soft_timeline_unref(entry->timelines[i]);
	if (entry->queue)
		qbnpu_soft_queue_unref(entry->queue);
	(void)pthread_mutex_unlock(&entry->file->lock);
}
