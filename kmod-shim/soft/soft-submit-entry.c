// SPDX-License-Identifier: MIT
/*
 * From a copied call to a queued job: what SUBMIT and COPY share. All that is
 * checked is one section under the file lock, up to the queueing: nothing can
 * change in between, and objects need no references of the request's own. An
 * inline run takes the lock once more, when it ends.
 *
 * A record of the queue's pool, the stack and the file lock are all that a job
 * in the steady state needs: no allocation, and inline no system call.
 */
#include "soft/soft-submit.h"

#include <errno.h>
#include <sched.h>
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

int qbnpu_soft_entry_copy_syncs(struct qbnpu_soft_entry *entry,
				uint64_t address, uint32_t count, uint32_t size)
{
	if (!count)
		return 0;
	if (qbnpu_soft_copy_elements(entry->stack, entry->syncs,
				     sizeof(entry->syncs[0]), address, size,
				     count, &entry->bad_sync))
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_IN_SYNC, 0,
					     0, -EFAULT);
	entry->num_syncs = count;
	return 0;
}

int qbnpu_soft_entry_check_syncs(struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		if (entry->syncs[i].flags & ~DRM_QBNPU_SYNC_ANY_RESULT ||
		    !entry->syncs[i].point || i == entry->bad_sync)
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

/* After check_timelines has seen that it is there. */
static struct qbnpu_soft_timeline *
get_timeline(const struct qbnpu_soft_entry *entry, uint32_t index)
{
	return entry->file->timelines.items[entry->syncs[index].handle - 1];
}

int qbnpu_soft_entry_check_timelines(struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		if (!qbnpu_soft_table_get(&entry->file->timelines,
					  entry->syncs[i].handle))
			return qbnpu_soft_entry_fail(
				entry, DRM_QBNPU_FAIL_IN_SYNC, i, 0, -ENOENT);
	}
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		uint64_t submitted = get_timeline(entry, i)->submitted;

		if (is_repeated(entry, i) || entry->syncs[i].point > submitted)
			return qbnpu_soft_entry_fail(entry,
						     DRM_QBNPU_FAIL_IN_SYNC, i,
						     submitted, -EINVAL);
	}
	return 0;
}

/* ---- queue, buffers, deadline ---- */

/* The buffer with this place among the entry's. */
int qbnpu_soft_entry_fail_buffer(struct qbnpu_soft_entry *entry, uint32_t place,
				 int err)
{
	if (entry->type == QBNPU_SOFT_JOB_COPY)
		return qbnpu_soft_entry_fail(entry,
					     place ? DRM_QBNPU_FAIL_DESTINATION
						   : DRM_QBNPU_FAIL_SOURCE,
					     0, 0, err);
	return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_BINDING, place, 0,
				     err);
}

int qbnpu_soft_entry_check_deadline(struct qbnpu_soft_entry *entry)
{
	int64_t farthest_ns = entry->now_ns + QBNPU_SOFT_MAX_JOB_NS;

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

	for (uint32_t i = 0; entry->is_any_open && i < entry->num_buffers;
	     i++) {
		if (entry->buffers[i]->num_writes)
			return qbnpu_soft_entry_fail_buffer(entry, i, -EBUSY);
	}
	if (queue->is_failed)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0, 0,
					     -ECANCELED);
	if (queue->num_jobs >= QBNPU_SOFT_MAX_JOBS)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_QUEUE, 0,
					     QBNPU_SOFT_MAX_JOBS, -ENOSPC);
	return 0;
}

/* ---- `wait` ---- */

static int write_state(const struct qbnpu_soft_entry *entry, uint32_t state)
{
	const size_t offset = offsetof(struct drm_qbnpu_wait, state);

	if (!entry->stack_wait)
		return qbnpu_soft_copy_to_user(entry->wait_address + offset,
					       &state, sizeof(state));
	entry->stack_wait->state = state;
	return 0;
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

/* ---- queueing ---- */

/* The record, which waits for nothing yet; file lock. */
static struct qbnpu_soft_job *make_job(const struct qbnpu_soft_entry *entry)
{
	struct qbnpu_soft_job *job;

	job = qbnpu_soft_job_alloc(entry->queue, entry->room, entry->num_syncs);
	if (!job)
		return NULL;
	job->type = entry->type;
	job->copy_size = 0;
	job->num_macs = 0;
	job->program = entry->program;
	if (job->program)
		atomic_fetch_add(&job->program->references, 1);
	job->npu.priority = entry->queue->priority;
	job->npu.queue = entry->queue->number;
	job->npu.item_count = 1;
	job->npu.submit_ns = entry->now_ns;
	job->npu.deadline_ns =
		entry->deadline_ns ? entry->deadline_ns : INT64_MAX;
	job->npu.limit_ns = entry->deadline_ns ? QBNPU_SOFT_MAX_JOB_NS
					       : QBNPU_SOFT_DEFAULT_JOB_NS;
	job->npu.ranges = job->ranges;
	job->npu.done = qbnpu_soft_job_done;
	entry->fill(job, entry);
	return job;
}

static void start_waits(struct qbnpu_soft_job *job,
			const struct qbnpu_soft_entry *entry)
{
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		struct qbnpu_soft_wait *wait = &job->waits[i];

		memset(wait, 0, sizeof(*wait));
		wait->job = job;
		wait->point = entry->syncs[i].point;
		wait->flags = entry->syncs[i].flags;
		qbnpu_soft_wait_start(wait, get_timeline(entry, i));
	}
	job->num_waits = entry->num_syncs;
}

/* A job that ends soon does so before this. */
#define SOON_NS INT64_C(50000000)

__attribute__((noinline, cold)) static bool
ends_before_wait(const struct qbnpu_soft_entry *entry)
{
	return entry->wait.timeout_ns - entry->now_ns >= SOON_NS &&
	       qbnpu_npu_ends_soon(entry->file->npu,
				   entry->program->executable);
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
	if (entry->queue->head)
		return false;
	if (entry->wait.timeout_ns < end_ns && !ends_before_wait(entry))
		return false;
	for (uint32_t i = 0; i < entry->num_syncs; i++) {
		if (entry->syncs[i].point > get_timeline(entry, i)->completed)
			return false;
	}
	return true;
}

/* Whoever is needed later is there before the job is queued; file lock. */
static int start_threads(struct qbnpu_soft_job *job)
{
	struct qbnpu_soft_file *file = job->queue->file;

	if (qbnpu_soft_helper_start(file))
		return -ENOMEM;
	return job->type == QBNPU_SOFT_JOB_EMPTY
		       ? 0
		       : qbnpu_npu_prepare(file->npu, &job->npu);
}

/* Step 14 and the queueing; file lock. NULL: no memory, nothing is queued. */
static struct qbnpu_soft_job *queue_job(struct qbnpu_soft_entry *entry,
					bool is_inline)
{
	struct qbnpu_soft_job *job = make_job(entry);

	if (!job)
		return NULL;
	if (!is_inline && start_threads(job)) {
		qbnpu_soft_job_unref(job);
		return NULL;
	}
	start_waits(job, entry);
	qbnpu_soft_job_queue(job, entry->user_data, &entry->told);
	return job;
}

__attribute__((noinline, cold)) static void
tell_eventfds(struct qbnpu_soft_entry *entry)
{
	struct qbnpu_soft_wakes wakes = { .eventfds = entry->told };

	entry->told = NULL;
	qbnpu_soft_wakes_flush(&wakes);
}

/*
 * File lock, dropped while the job runs, and for good when that is true. Its
 * end tells the result right where the caller has it.
 */
static bool run_inline(struct qbnpu_soft_entry *entry,
		       struct qbnpu_soft_job *job)
{
	pthread_mutex_t *lock = &entry->file->lock;

	job->inline_wait = entry->stack_wait ? entry->stack_wait : &entry->wait;
	qbnpu_soft_job_set_running(job);
	(void)pthread_mutex_unlock(lock);
	if (entry->told)
		tell_eventfds(entry);
	if (!qbnpu_npu_run(entry->file->npu, &job->npu))
		return true;
	(void)pthread_mutex_lock(lock);
	job->inline_wait = NULL;
	job->is_on_device = false;
	atomic_store(&job->npu.stop_cause, 0);
	/* without it the device's own looks end a job that is late */
	(void)qbnpu_soft_helper_start(entry->file);
	return false;
}

/*
 * Has the job go its way, and waits for it if the entry waits. File lock, which
 * it gives back.
 */
static int run_queued(struct qbnpu_soft_entry *entry,
		      struct qbnpu_soft_job *job)
{
	struct qbnpu_soft_queue *queue = entry->queue;
	struct qbnpu_soft_wakes wakes;
	int err = 0;

	qbnpu_soft_wakes_begin(&wakes);
	wakes.eventfds = entry->told;
	queue->references++;
	job->npu.cpu = sched_getcpu();
	/* cancelled on the way to the device */
	if (job->stop_cause)
		qbnpu_soft_job_end(job,
				   qbnpu_soft_get_stop_status(job->stop_cause),
				   job->stop_cause, &wakes);
	else
		qbnpu_soft_helper_note_deadline(entry->file,
						job->npu.deadline_ns);
	qbnpu_soft_queue_advance(queue, &wakes);
	if (entry->wait_address)
		err = qbnpu_soft_queue_wait(queue, entry->number, &wakes,
					    &entry->wait);
	qbnpu_soft_queue_unref(queue);
	(void)pthread_mutex_unlock(&entry->file->lock);
	qbnpu_soft_wakes_flush(&wakes);
	return err;
}

/*
 * Steps 3 to 14 and the queueing; file lock. can_tell: the caller's wait can be
 * written.
 */
static int queue_entry(struct qbnpu_soft_entry *entry, bool can_tell,
		       bool *is_inline, struct qbnpu_soft_job **job)
{
	int err = entry->check(entry);

	if (!err)
		err = check_queueing(entry);
	if (err)
		return err;
	if (!can_tell)
		return -EFAULT;
	*is_inline = may_run_inline(entry);
	*job = queue_job(entry, *is_inline);
	if (!*job)
		return -ENOMEM;
	entry->number = (*job)->number;
	return 0;
}

int qbnpu_soft_entry_submit(struct qbnpu_soft_entry *entry)
{
	pthread_mutex_t *lock = &entry->file->lock;
	struct qbnpu_soft_job *job;
	bool is_inline;
	int err, wait_err = 0;

	entry->now_ns = qbrt_now_ns();
	/*
	 * what may fault, also a page of the stack that its owner protected, is
	 * not touched for the first time under the lock, so before it
	 */
	if (entry->wait_address)
		wait_err = write_state(entry, DRM_QBNPU_JOB_WAITS);
	(void)pthread_mutex_lock(lock);
	err = queue_entry(entry, !wait_err, &is_inline, &job);
	if (err) {
		(void)pthread_mutex_unlock(lock);
		if (entry->wait_address && !wait_err)
			(void)write_state(entry, entry->wait.state);
		return err;
	}
	if (is_inline && run_inline(entry, job)) {
		if (entry->wait_address && !entry->stack_wait)
			write_wait(entry, 0);
		return 0;
	}
	err = run_queued(entry, job);
	if (entry->wait_address)
		write_wait(entry, err);
	return 0;
}
