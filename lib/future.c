// SPDX-License-Identifier: MIT
/*
 * The end of a queued inference, and its public handle. end() runs on the
 * thread that found the job complete, whichever that is: it must not touch that
 * thread's sentence, wait, or collect other jobs.
 */
#include "future.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinned-memory.h"
#include "retire.h"
#include "status.h"
#include "util.h"

#define TEXT_SIZE 512

/* of marks; who sets the second one lets the outputs go */
#define MARK_ENDED 1u
#define MARK_TAKEN 2u

static struct qbrt_future *from_job(const struct qbrt_job *job)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is not const in itself */
	return (struct qbrt_future *)(uintptr_t)job;
}

static struct qbrt_storage **get_outputs(struct qbrt_future *future)
{
	return future->storages + future->num_inputs;
}

/* ---- the job ---- */

static bool is_aliased(const struct qbrt_future *future, uint32_t input)
{
	return future->aliased_inputs >> input & 1;
}

static enum qbrt_job_use get_use(const struct qbrt_job *job,
				 const struct qbrt_storage *storage)
{
	const struct qbrt_future *future = from_job(job);
	uint32_t num = future->num_inputs + future->num_outputs;
	uint32_t i;

	for (i = future->num_inputs; i < num; i++)
		if (future->storages[i] == storage)
			return QBRT_JOB_WRITES;
	for (i = 0; i < future->num_inputs; i++)
		if (future->storages[i] == storage)
			return QBRT_JOB_READS;
	return QBRT_JOB_USES_NOT;
}

static struct qbrt_job *get_before(const struct qbrt_job *job, uint32_t index)
{
	const struct qbrt_future *future = from_job(job);

	return index < future->num_writers ? future->writers[index] : NULL;
}

/*
 * The first failure of what had to come before: its job may have failed after
 * this one was submitted without the device knowing (K084). It has been ended,
 * if it is complete.
 */
static enum qbrt_status judge_writers(struct qbrt_future *future, char *text)
{
	enum qbrt_status status = QBRT_OK;

	for (uint32_t i = 0; i < future->num_writers && !status; i++) {
		const struct qbrt_job *writer = future->writers[i];

		if (!qbrt_job_has_ended(writer) || !writer->status)
			continue;
		status = QBRT_STREAM_FAILED;
		/* of a long chain the first reason must still be read */
		if (writer->status == QBRT_STREAM_FAILED && writer->detail) {
			(void)snprintf(text, TEXT_SIZE, "%s", writer->detail);
			break;
		}
		(void)snprintf(text, TEXT_SIZE,
			       "%s: an inference that writes its input failed "
			       "with %s: %s",
			       future->run.model->name,
			       qbrt_status_name(writer->status),
			       writer->detail ? writer->detail : "");
	}
	return status;
}

/* Outputs of what arrays are staged in, or of a freed future, are not held. */
static void end_uses(struct qbrt_future *future)
{
	struct qbrt_storage **outputs = get_outputs(future);
	uint32_t i;

	future->holds =
		!future->arrays && !(atomic_load(&future->marks) & MARK_TAKEN);

	for (i = 0; i < future->num_inputs; i++)
		if (!is_aliased(future, i))
			qbrt_storage_end_read(future->storages[i]);
	for (i = 0; i < future->num_outputs; i++) {
		if (future->job.status)
			qbrt_storage_invalidate(
				outputs[i], future->job.status,
				future->job.detail ? future->job.detail : "");
		else
			qbrt_storage_validate(outputs[i]);
		if (future->holds)
			qbrt_storage_end_write_and_hold(outputs[i]);
		else
			qbrt_storage_end_write(outputs[i]);
	}
}

/* Nobody keeps the outputs from other jobs any more. */
static void let_go(struct qbrt_future *future)
{
	struct qbrt_storage **outputs = get_outputs(future);

	for (uint32_t i = 0; i < future->num_outputs && future->holds; i++)
		qbrt_storage_unhold(outputs[i]);
}

/* true: the other mark is set, and this was the second. */
static bool set_mark(struct qbrt_future *future, unsigned int mark)
{
	unsigned int before = atomic_fetch_or(&future->marks, mark);

	return !(before & mark) && before;
}

static void end(struct qbrt_job *job, int err,
		const struct drm_qbnpu_wait *wait)
{
	struct qbrt_future *future = from_job(job);
	struct qbrt_launched *launched = future->run.launched;
	char text[TEXT_SIZE] = "";

	job->status =
		qbrt_model_judge(&future->run, err, wait, text, sizeof(text));
	if (!job->status || wait->cause == DRM_QBNPU_CAUSE_FENCE) {
		enum qbrt_status status = judge_writers(future, text);

		job->status = status ? status : job->status;
	}
	future->has_not_run = qbrt_has_not_run(err, wait);
	if (job->status)
		job->detail = strdup(text);
	qbrt_model_count_end(&future->run, err, wait);
	qbrt_model_trace_queue(future->run.model, job, err, wait);
	end_uses(future);
	for (uint32_t i = 0; i < future->num_writers; i++)
		qbrt_job_unref(future->writers[i]);
	future->num_writers = 0;
	if (future->arrays)
		future->arrays->end(future);
	qbrt_launched_remove_job(launched, job);
	qbrt_slots_leave_queued(&launched->slots, future->slot);
	qbrt_model_leave(future->run.model);
	if (set_mark(future, MARK_ENDED))
		let_go(future);
}

static void free_future(struct qbrt_job *job)
{
	struct qbrt_future *future = from_job(job);
	uint32_t num = future->num_inputs + future->num_outputs;

	if (future->arrays)
		future->arrays->free(future->staging);
	for (uint32_t i = 0; i < num; i++)
		qbrt_storage_unref(future->storages[i]);
	qbrt_model_unref(future->run.model);
	free(future);
}

static const struct qbrt_job_ops job_ops = {
	.end = end,
	.notify = qbrt_future_notify,
	.free = free_future,
	.get_use = get_use,
	.get_before = get_before,
};

struct qbrt_future *
qbrt_future_alloc(struct qbrt_model *model,
		  struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
		  struct qbrt_pinned_memory *const outputs[],
		  size_t num_outputs)
{
	size_t num = num_inputs + num_outputs;
	struct qbrt_future *future =
		malloc(sizeof(*future) + (num + num_inputs) * sizeof(void *));

	if (!future)
		return NULL;
	/* no more than its free and its functions look at */
	qbrt_job_start(&future->job, &job_ops);
	future->run.model = qbrt_model_ref(model);
	atomic_init(&future->marks, 0);
	future->num_inputs = (uint32_t)num_inputs;
	future->num_outputs = (uint32_t)num_outputs;
	future->num_writers = 0;
	future->has_not_run = false;
	atomic_init(&future->callback, QBRT_CALLBACK_NONE);
	future->arrays = NULL;
	for (size_t i = 0; i < num_inputs; i++)
		future->storages[i] = qbrt_storage_ref(inputs[i]->storage);
	for (size_t i = 0; i < num_outputs; i++)
		future->storages[num_inputs + i] =
			qbrt_storage_ref(outputs[i]->storage);
	future->writers = (struct qbrt_job **)(void *)(future->storages + num);
	return future;
}

/* ---- the handle ---- */

enum qbrt_status qbrt_future_check(const struct qbrt_future *future,
				   const char *function)
{
	if (!future)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s: future is NULL",
				 function);
	return qbrt_device_check_fork(qbrt_future_get_device(future));
}

static enum qbrt_status fail_taken(const struct qbrt_future *future)
{
	return qbrt_fail(QBRT_FUTURE_NOT_VALID,
			 "%s: the result of this future has been taken",
			 future->run.model->name);
}

static bool is_taken(const struct qbrt_future *future)
{
	return atomic_load(&future->marks) & MARK_TAKEN;
}

static enum qbrt_status wait_ended(struct qbrt_future *future, int64_t timeout)
{
	int64_t deadline_ns = timeout < 0 ? INT64_MAX : 0;
	int err;

	if (timeout > 0)
		deadline_ns = qbrt_deadline_ns(timeout);
	/* who only looks leaves no event in a trace */
	err = timeout ? qbrt_model_wait_job(future->run.model, &future->job,
					    deadline_ns)
		      : qbrt_job_wait(&future->job, 0);
	if (err == -ETIME)
		return qbrt_fail(
			QBRT_TIMED_OUT,
			"%s: the inference is not complete within %lld "
			"ns; it goes on",
			future->run.model->name, (long long)timeout);
	if (err)
		return qbrt_fail(QBRT_INTERRUPTED,
				 "%s: the interrupt function ended the wait; "
				 "the inference goes on",
				 future->run.model->name);
	return QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_future_wait(struct qbrt_future *future,
					   int64_t timeout)
{
	enum qbrt_status status = qbrt_future_check(future, "qbrt_future_wait");

	if (status)
		return status;
	if (is_taken(future))
		return fail_taken(future);
	return wait_ended(future, timeout);
}

QBRT_API enum qbrt_status qbrt_future_query(const struct qbrt_future *future,
					    bool *done)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_query");

	if (status)
		return status;
	if (!done)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_future_query: done is NULL");
	*done = qbrt_future_has_ended(future);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_future_query_output(const struct qbrt_future *future, size_t index,
			 struct qbrt_io_info *info)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_query_output");

	if (status)
		return status;
	if (future->arrays)
		return future->arrays->query_output(future, index, info);
	return qbrt_model_query_output(future->run.model, future->variant,
				       index, info);
}

QBRT_API enum qbrt_status
qbrt_future_query_result(struct qbrt_future *future,
			 const struct qbrt_array *outputs, size_t num_outputs)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_query_result");

	if (status)
		return status;
	if (is_taken(future))
		return fail_taken(future);
	if (future->arrays)
		status = future->arrays->check(future, outputs, num_outputs);
	else if (outputs || num_outputs)
		status = qbrt_fail(QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
				   "%s: the outputs lie in pinned memory: NULL "
				   "and 0 expected, %zu array%s given",
				   future->run.model->name, num_outputs,
				   qbrt_plural(num_outputs));
	if (!status)
		status = wait_ended(future, -1);
	if (status)
		return status;
	/* ENDED is set: whoever sets TAKEN first has the result */
	if (!set_mark(future, MARK_TAKEN))
		return fail_taken(future);
	if (future->job.status)
		status =
			qbrt_fail(future->job.status, "%s",
				  future->job.detail ? future->job.detail : "");
	else if (future->arrays)
		future->arrays->take(future, outputs);
	let_go(future);
	return status;
}

QBRT_API enum qbrt_status
qbrt_future_get_status(const struct qbrt_future *future)
{
	if (!future ||
	    qbrt_device_is_inherited(qbrt_future_get_device(future)) ||
	    !qbrt_future_has_ended(future))
		return QBRT_OK;
	return future->job.status;
}

QBRT_API const char *qbrt_future_get_detail(const struct qbrt_future *future)
{
	if (!future ||
	    qbrt_device_is_inherited(qbrt_future_get_device(future)) ||
	    !qbrt_future_has_ended(future) || !future->job.detail)
		return "";
	return future->job.detail;
}

/* In a child of fork: only the child's own memory, and no lock. */
static void free_inherited(struct qbrt_future *future)
{
	if (!qbrt_job_is_queued(&future->job) &&
	    !qbrt_job_has_ended(&future->job))
		return;
	free(future->job.detail);
	free_future(&future->job);
}

QBRT_API void qbrt_future_free(struct qbrt_future *future)
{
	unsigned int state;

	if (!future)
		return;
	if (qbrt_device_is_inherited(qbrt_future_get_device(future))) {
		free_inherited(future);
		return;
	}
	/* a callback that has not begun is not wanted any more */
	state = QBRT_CALLBACK_SET;
	(void)atomic_compare_exchange_strong(&future->callback, &state,
					     QBRT_CALLBACK_DONE);
	if (set_mark(future, MARK_TAKEN))
		let_go(future);
	/* without a thread that would end it, the call waits itself */
	if (!qbrt_future_has_ended(future) &&
	    qbrt_retire_watch(qbrt_future_get_device(future), &future->job))
		while (qbrt_job_wait(&future->job, INT64_MAX))
			;
	qbrt_job_unref(&future->job);
}
