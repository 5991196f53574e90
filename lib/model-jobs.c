// SPDX-License-Identifier: MIT
/*
 * The jobs of a launched model: those in flight that nobody waits for, what
 * disposing does to them, the counters, and what became of a job in words. A
 * job is in the list from before its SUBMIT until it has ended; one without a
 * number is still on its way, and who submits it looks at is_stopping after.
 */
#include "model.h"

#include <errno.h>
#include <stdio.h>

#include "retire.h"
#include "status.h"
#include "trace.h"
#include "util.h"

void qbrt_launched_add_job(struct qbrt_launched *launched, struct qbrt_job *job)
{
	struct qbrt_model_jobs *jobs = &launched->jobs;

	(void)pthread_mutex_lock(&jobs->lock);
	job->previous_of_model = jobs->last;
	if (jobs->last)
		jobs->last->next_of_model = job;
	else
		jobs->first = job;
	jobs->last = job;
	atomic_fetch_add(&jobs->num, 1);
	(void)pthread_mutex_unlock(&jobs->lock);
}

void qbrt_launched_remove_job(struct qbrt_launched *launched,
			      struct qbrt_job *job)
{
	struct qbrt_model_jobs *jobs = &launched->jobs;

	(void)pthread_mutex_lock(&jobs->lock);
	if (job->previous_of_model)
		job->previous_of_model->next_of_model = job->next_of_model;
	else
		jobs->first = job->next_of_model;
	if (job->next_of_model)
		job->next_of_model->previous_of_model = job->previous_of_model;
	else
		jobs->last = job->previous_of_model;
	atomic_fetch_sub(&jobs->num, 1);
	(void)pthread_mutex_unlock(&jobs->lock);
}

struct qbrt_job *qbrt_launched_ref_oldest_job(struct qbrt_launched *launched)
{
	struct qbrt_model_jobs *jobs = &launched->jobs;
	struct qbrt_job *job;

	(void)pthread_mutex_lock(&jobs->lock);
	job = jobs->first;
	while (job && !atomic_load(&job->is_submitted))
		job = job->next_of_model;
	if (job)
		(void)qbrt_job_ref(job);
	(void)pthread_mutex_unlock(&jobs->lock);
	return job;
}

/* Where no thread can be had, its future ends it, or the next launch. */
void qbrt_launched_stop_job(struct qbrt_launched *launched,
			    struct qbrt_job *job)
{
	(void)qbrt_queue_cancel(job->queue, job->number);
	if (!qbrt_job_poll(job))
		(void)qbrt_retire_watch(launched->device, job);
}

/* One that was not stopped yet, with a reference. */
static struct qbrt_job *ref_next_to_stop(struct qbrt_model_jobs *jobs)
{
	struct qbrt_job *job;

	(void)pthread_mutex_lock(&jobs->lock);
	job = jobs->first;
	while (job && job->was_stopped)
		job = job->next_of_model;
	if (job) {
		job->was_stopped = true;
		(void)qbrt_job_ref(job);
	}
	(void)pthread_mutex_unlock(&jobs->lock);
	return job;
}

void qbrt_launched_stop_jobs(struct qbrt_launched *launched)
{
	struct qbrt_job *job;

	atomic_store(&launched->is_stopping, true);
	qbrt_slots_stop(&launched->slots);
	qbrt_slots_cancel(&launched->slots);
	while ((job = ref_next_to_stop(&launched->jobs))) {
		if (atomic_load(&job->is_submitted))
			qbrt_launched_stop_job(launched, job);
		qbrt_job_unref(job);
	}
}

void qbrt_model_count_submit(const struct qbrt_model_run *run)
{
	struct qbrt_model_totals *totals = &run->model->totals;

	qbrt_totals_add(&totals->submitted, 1);
	qbrt_totals_add(&totals->input_nbytes, run->input_nbytes);
}

void qbrt_model_count_end(const struct qbrt_model_run *run, int err,
			  const struct drm_qbnpu_wait *wait)
{
	struct qbrt_model_totals *totals = &run->model->totals;

	if (!err && !wait->status) {
		qbrt_totals_add_success(totals, wait, run->output_nbytes);
		return;
	}
	if (!err && wait->cause == DRM_QBNPU_CAUSE_CANCELLED)
		qbrt_totals_add(&totals->cancelled, 1);
	else
		qbrt_totals_add(&totals->failed, 1);
	if (err || !wait->start_ns)
		return;
	atomic_fetch_add_explicit(&totals->queue_time,
				  wait->start_ns - wait->submit_ns,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&totals->device_time, (int64_t)wait->busy_ns,
				  memory_order_relaxed);
}

void qbrt_model_trace_call(const struct qbrt_model *model, const char *name,
			   const struct qbrt_job *job, int64_t begin_ns)
{
	const struct qbrt_trace_event event = {
		.name = name,
		.begin_ns = begin_ns,
		.end_ns = qbrt_now_ns(),
		.model = qbrt_model_get_trace_number(model),
		.queue = job->queue->number,
		.job = job->number,
	};

	qbrt_trace_host(&event);
}

QBRT_TRACE_COLD static void trace_queue(const struct qbrt_model *model,
					const struct qbrt_job *job,
					const struct drm_qbnpu_wait *wait)
{
	const struct qbrt_trace_event event = {
		.name = "queue",
		.begin_ns = wait->submit_ns,
		.end_ns = wait->start_ns ? wait->start_ns : wait->end_ns,
		.model = qbrt_model_get_trace_number(model),
		.queue = job->queue->number,
		.job = job->number,
	};

	qbrt_trace_queue(&event);
}

void qbrt_model_trace_queue(const struct qbrt_model *model,
			    const struct qbrt_job *job, int err,
			    const struct drm_qbnpu_wait *wait)
{
	if (!err && qbrt_trace_is_on())
		trace_queue(model, job, wait);
}

int qbrt_model_wait_job(const struct qbrt_model *model, struct qbrt_job *job,
			int64_t deadline_ns)
{
	int64_t begin_ns = qbrt_trace_begin();
	int err = qbrt_job_wait(job, deadline_ns);

	if (begin_ns)
		qbrt_model_trace_call(model, "wait", job, begin_ns);
	return err;
}

/* The job was cancelled because its model was disposed. */
static enum qbrt_status judge_disposed(const struct qbrt_model_run *run,
				       const struct drm_qbnpu_wait *wait,
				       char *text, size_t size)
{
	(void)snprintf(text, size, "%s: was disposed while the inference %s",
		       run->model->name, wait->start_ns ? "ran" : "waited");
	return run->is_queued && !wait->start_ns
		       ? QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE
		       : QBRT_MODEL_NOT_ALIVE;
}

const char *qbrt_model_describe_timeout(const struct qbrt_model_run *run,
					char *text, size_t size)
{
	const struct qbrt_device *device = run->launched->device;
	int64_t limit = qbrt_get_limit_ns(device, run->timeout);
	const char *what = "QBRUNTIME_NPU_TIMEOUT_MS";

	if (run->timeout == limit)
		what = run->has_items && run->first_item
			       ? "what was left of the call's timeout"
			       : "the call's timeout";
	else if ((uint64_t)limit == device->facts.max_job_ns)
		what = "the longest that the device takes";
	(void)snprintf(text, size, "npu_watchdog: timeout after %.10g ms (%s)",
		       (double)limit / (double)QBRT_NS_PER_MS, what);
	return text;
}

static enum qbrt_status judge_late(const struct qbrt_model_run *run, char *text,
				   size_t size)
{
	char timeout[96];

	(void)snprintf(
		text, size, "%s: %s, before the inference began%s%s",
		run->model->name,
		qbrt_model_describe_timeout(run, timeout, sizeof(timeout)),
		run->has_to_wait ? ", behind the jobs that it has to "
				   "come after"
				 : "",
		run->is_queued ? ""
			       : qbrt_say_unchanged(run->has_items &&
						    run->first_item));
	return run->has_to_wait ? QBRT_MODEL_TASK_QUEUE_TIMEOUT
				: QBRT_ACC_NPU_TIMEOUT;
}

static enum qbrt_status judge_failed(const struct qbrt_model_run *run,
				     const struct drm_qbnpu_wait *wait,
				     char *text, size_t size)
{
	const struct qbrt_model *model = run->model;
	const char *words = qbrt_cause_words(wait->cause);
	char item[48] = "";
	char timeout[96];
	const char *node;

	if (wait->cause == DRM_QBNPU_CAUSE_TIME)
		words = qbrt_model_describe_timeout(run, timeout,
						    sizeof(timeout));
	if (run->has_items && wait->item != DRM_QBNPU_NONE)
		(void)snprintf(item, sizeof(item), "item %zu of the batch: ",
			       (run->first_item + wait->item) *
				       run->variant->variant->batch);
	if (wait->command == DRM_QBNPU_NONE) {
		(void)snprintf(text, size, "%s: %sthe inference failed: %s",
			       model->name, item, words);
	} else {
		node = qbrt_model_file_get_node(
			model->file, run->variant->instance, wait->command);
		(void)snprintf(text, size,
			       "%s: %sthe inference failed: %s, at command "
			       "%u%s%s%s",
			       model->name, item, words, wait->command,
			       *node ? " (" : "", node, *node ? ")" : "");
	}
	return qbrt_status_of_job(wait->status, wait->cause);
}

enum qbrt_status qbrt_model_judge(const struct qbrt_model_run *run, int err,
				  const struct drm_qbnpu_wait *wait, char *text,
				  size_t size)
{
	if (err) {
		(void)snprintf(text, size,
			       "%s: the result of the inference is lost: WAIT "
			       "answered %s%s%s",
			       run->model->name, qbrt_errno_words(err),
			       err == -ENODEV ? "; " : "",
			       err == -ENODEV ? qbrt_lost_words : "");
		return err == -ENODEV ? QBRT_ACC_DEVICE_LOST
				      : QBRT_INTERNAL_ERROR;
	}
	if (!wait->status)
		return QBRT_OK;
	if (wait->cause == DRM_QBNPU_CAUSE_CANCELLED &&
	    atomic_load(&run->launched->is_stopping))
		return judge_disposed(run, wait, text, size);
	if (wait->status == -ETIMEDOUT && !wait->start_ns)
		return judge_late(run, text, size);
	return judge_failed(run, wait, text, size);
}
