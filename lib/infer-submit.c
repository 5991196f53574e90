// SPDX-License-Identifier: MIT
/*
 * Inference that nobody waits for: the same checks and uses, then a job in the
 * queue of a slot, and a future that holds all of it. As many run as the model
 * has slots, MAX_QUEUED more may wait; then the call waits for the oldest.
 */
#include "future.h"
#include "infer.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "interrupt.h"
#include "pinned-memory.h"
#include "status.h"
#include "trace.h"
#include "util.h"

#define MAX_QUEUED 64

/* How long a call stays away from a queue that others have filled. */
#define FULL_QUEUE_PAUSE_NS 1000000

static enum qbrt_status fail_full(const struct qbrt_inference *inference)
{
	return qbrt_fail(QBRT_WOULD_BLOCK,
			 "%s: all activation slots (%u) and the queue of %d "
			 "behind them are full",
			 inference->model->name, inference->launched->num_slots,
			 MAX_QUEUED);
}

static enum qbrt_status fail_wait(const struct qbrt_inference *inference,
				  int err)
{
	if (err == -EINTR)
		return qbrt_fail(QBRT_INTERRUPTED,
				 "%s: the interrupt function ended the wait "
				 "for room in the queue; nothing was submitted",
				 inference->model->name);
	return qbrt_fail(QBRT_MODEL_TASK_QUEUE_TIMEOUT,
			 "%s: the queue stayed full until the time limit; "
			 "nothing was submitted",
			 inference->model->name);
}

static bool is_full(const struct qbrt_inference *inference)
{
	struct qbrt_launched *launched = inference->launched;

	return atomic_load(&launched->jobs.num) >=
	       launched->num_slots + MAX_QUEUED;
}

static enum qbrt_status wait_for_room(const struct qbrt_inference *inference)
{
	struct qbrt_launched *launched = inference->launched;
	struct qbrt_job *oldest;
	int err = 0;

	while (is_full(inference) && !err) {
		qbrt_slots_collect(&launched->slots);
		if (!is_full(inference))
			break;
		if (inference->is_try)
			return fail_full(inference);
		oldest = qbrt_launched_ref_oldest_job(launched);
		if (!oldest) {
			/* all are on their way into a queue */
			(void)sched_yield();
			continue;
		}
		err = qbrt_job_wait(oldest, inference->deadline_ns);
		qbrt_job_unref(oldest);
	}
	if (err)
		return fail_wait(inference, err);
	if (atomic_load(&launched->is_stopping))
		return qbrt_inference_fail_disposed(inference);
	return QBRT_OK;
}

/* Everything that the job's end needs, before anybody can end it. */
static void fill_future(struct qbrt_future *future,
			const struct qbrt_inference *inference,
			struct qbrt_slot *slot)
{
	const struct qbrt_launched *launched = inference->launched;

	qbrt_inference_describe(inference, &future->run);
	future->run.is_queued = true;
	future->job.wait_flags = inference->wait_flags;
	future->slot = slot;
	future->variant = (size_t)(inference->variant - launched->variants);
	future->aliased_inputs = inference->aliased_inputs;
	future->arrays = inference->arrays;
	future->staging = inference->staging;
	future->num_writers = inference->num_writers;
	future->job.has_before = inference->num_writers;
	for (uint32_t i = 0; i < inference->num_writers; i++)
		future->writers[i] = inference->writers[i];
}

/* The job may have ended by now, and with it the set that arrays are in. */
static void publish_uses(const struct qbrt_future *future)
{
	uint32_t num = future->num_inputs + future->num_outputs;

	for (uint32_t i = 0; i < num; i++)
		qbrt_storage_tell_waiters(future->storages[i]);
}

/* -ENOSPC: others have filled the queue that they share with this slot. */
static int submit_job(const struct qbrt_inference *inference,
		      struct qbrt_future *future,
		      struct drm_qbnpu_submit *submit)
{
	struct timespec pause = { .tv_nsec = FULL_QUEUE_PAUSE_NS };
	struct qbrt_queue *queue = future->slot->queue;
	int err;

	qbrt_queue_collect(queue);
	for (;;) {
		err = qbrt_job_submit(&future->job, queue, submit);
		if (err != -ENOSPC || inference->is_try)
			return err;
		qbrt_queue_collect(queue);
		if (qbrt_now_ns() >= inference->deadline_ns)
			return -ETIME;
		(void)nanosleep(&pause, NULL);
		if (qbrt_interrupt_ask())
			return -EINTR;
		if (atomic_load(&inference->launched->is_stopping))
			return -ESHUTDOWN;
	}
}

static enum qbrt_status submit_in_slot(struct qbrt_inference *inference,
				       struct qbrt_future *future,
				       struct qbrt_slot *slot)
{
	struct qbrt_launched *launched = inference->launched;
	struct qbrt_inference_arrays arrays;
	struct drm_qbnpu_submit submit;
	int err;

	inference->joins_others = atomic_load(&slot->users) > 1;
	qbrt_inference_fill(inference, &arrays, &submit);
	fill_future(future, inference, slot);
	qbrt_launched_add_job(launched, &future->job);
	qbrt_model_enter_again(inference->model);
	err = submit_job(inference, future, &submit);
	if (!err) {
		inference->num_writers = 0;
		qbrt_model_count_submit(&future->run);
		publish_uses(future);
		if (atomic_load(&launched->is_stopping))
			qbrt_launched_stop_job(launched, &future->job);
		return QBRT_OK;
	}
	qbrt_model_leave(inference->model);
	qbrt_launched_remove_job(launched, &future->job);
	future->num_writers = 0;
	future->arrays = NULL;
	if (err == -ENOSPC)
		return fail_full(inference);
	return qbrt_inference_fail_submit(inference, &submit, err);
}

static enum qbrt_status submit_with_uses(struct qbrt_inference *inference,
					 struct qbrt_future *future)
{
	struct qbrt_slots *slots = &inference->launched->slots;
	struct qbrt_slot *slot;
	enum qbrt_status status = qbrt_slots_join(slots, &slot);

	if (status)
		return status;
	status = submit_in_slot(inference, future, slot);
	if (status)
		qbrt_slots_leave_queued(slots, slot);
	return status;
}

enum qbrt_status qbrt_inference_submit(struct qbrt_inference *inference,
				       struct qbrt_future **result)
{
	struct qbrt_future *future;
	enum qbrt_status status;

	future = qbrt_future_alloc(inference->model, inference->inputs,
				   inference->num_inputs, inference->outputs,
				   inference->num_outputs);
	if (!future)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "%s: no memory for a future",
				 inference->model->name);
	status = wait_for_room(inference);
	if (!status)
		status = qbrt_inference_begin_uses(inference);
	if (!status) {
		status = submit_with_uses(inference, future);
		if (!status) {
			*result = future;
			if (qbrt_trace_is_on())
				qbrt_model_trace_call(inference->model,
						      "submit", &future->job,
						      inference->begin_ns);
			return QBRT_OK;
		}
		qbrt_inference_end_uses(inference);
		qbrt_inference_drop_writers(inference);
	}
	qbrt_job_unref(&future->job);
	return status;
}

QBRT_API enum qbrt_status qbrt_model_submit_pinned_memory(
	struct qbrt_model *model, const struct qbrt_infer_options *options,
	struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
	struct qbrt_pinned_memory *const outputs[], size_t num_outputs,
	struct qbrt_future **future)
{
	int64_t begin_ns = qbrt_now_ns();
	struct qbrt_inference inference;
	struct qbrt_launched *launched;
	enum qbrt_status status;

	if (!model || !future)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_submit_pinned_memory: %s is NULL",
				 model ? "future" : "model");
	inference.model = model;
	inference.inputs = inputs;
	inference.num_inputs = num_inputs;
	inference.outputs = outputs;
	inference.num_outputs = num_outputs;
	inference.item_count = 1;
	inference.has_items = false;
	inference.arrays = NULL;
	inference.staging = NULL;
	status = qbrt_inference_read_options(
		&inference, options, QBRT_INFER_TRY | QBRT_INFER_BLOCKING);
	if (!status)
		status = qbrt_inference_check_available(&inference);
	if (!status)
		status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	qbrt_inference_enter(&inference, launched, begin_ns);
	status = qbrt_inference_check_buffers(&inference);
	if (!status)
		status = qbrt_inference_submit(&inference, future);
	qbrt_model_leave(model);
	return status;
}
