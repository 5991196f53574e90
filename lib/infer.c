// SPDX-License-Identifier: MIT
/*
 * The hot call: check, take the buffers' uses, a slot and a queue, one SUBMIT
 * that also waits, and the result. The order of the first and the reverse order
 * of giving back are what keeps dispose, other calls and failures apart.
 */
#include "infer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "pinned-memory.h"
#include "queue.h"
#include "status.h"
#include "util.h"

/* How long a call stays away from a queue that others have filled. */
#define FULL_QUEUE_PAUSE_NS 1000000

/* From the beginning of the public call; the device's longest bounds it. */
static int64_t compute_deadline(const struct qbrt_inference *inference,
				int64_t begin_ns)
{
	const struct qbrt_device *device = inference->launched->device;
	uint64_t longest = device->facts.max_job_ns;
	int64_t limit = inference->timeout;
	int64_t deadline;

	if (limit == 0)
		limit = device->npu_timeout_ns;
	if (limit <= 0 || (uint64_t)limit > longest)
		limit = longest > INT64_MAX ? INT64_MAX : (int64_t)longest;
	if (__builtin_add_overflow(begin_ns, limit, &deadline))
		return INT64_MAX;
	return deadline;
}

/* The template with this call's buffers in it. */
static void fill_bindings(const struct qbrt_inference *inference,
			  struct drm_qbnpu_binding *bindings)
{
	size_t num_inputs = inference->num_inputs;
	size_t num_outputs = inference->num_outputs;

	memcpy(bindings, inference->variant->bindings,
	       (num_inputs + num_outputs) * sizeof(bindings[0]));
	for (size_t i = 0; i < num_inputs; i++)
		bindings[i].handle =
			inference->inputs[i]->storage->buffer.handle;
	for (size_t i = 0; i < num_outputs; i++)
		bindings[num_inputs + i].handle =
			inference->outputs[i]->storage->buffer.handle;
}

static void count_end(struct qbrt_model_totals *totals,
		      const struct drm_qbnpu_wait *wait, uint64_t output_nbytes)
{
	atomic_uint_fast64_t *end = &totals->failed;

	if (!wait->status) {
		end = &totals->completed;
		atomic_fetch_add_explicit(&totals->output_nbytes, output_nbytes,
					  memory_order_relaxed);
	} else if (wait->cause == DRM_QBNPU_CAUSE_CANCELLED) {
		end = &totals->cancelled;
	}
	atomic_fetch_add_explicit(end, 1, memory_order_relaxed);
	if (wait->start_ns)
		atomic_fetch_add_explicit(&totals->queue_time,
					  wait->start_ns - wait->submit_ns,
					  memory_order_relaxed);
	atomic_fetch_add_explicit(&totals->device_time, (int64_t)wait->busy_ns,
				  memory_order_relaxed);
}

static uint64_t sum_nbytes(struct qbrt_pinned_memory *const *buffers,
			   size_t num)
{
	uint64_t nbytes = 0;

	for (size_t i = 0; i < num; i++)
		nbytes += buffers[i]->nbytes;
	return nbytes;
}

static void count_submit(const struct qbrt_inference *inference)
{
	struct qbrt_model_totals *totals = &inference->model->totals;

	atomic_fetch_add_explicit(&totals->submitted, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(
		&totals->input_nbytes,
		sum_nbytes(inference->inputs, inference->num_inputs),
		memory_order_relaxed);
}

/* The job ended, and not well. */
static enum qbrt_status fail_job(const struct qbrt_inference *inference,
				 const struct drm_qbnpu_wait *wait)
{
	enum qbrt_status status = qbrt_status_of_job(wait->status, wait->cause);
	const struct qbrt_model *model = inference->model;
	const char *node;

	if (wait->command == DRM_QBNPU_NONE)
		return qbrt_fail(status, "%s: the inference failed: %s",
				 model->name, qbrt_cause_words(wait->cause));
	node = qbrt_model_file_get_node(
		model->file, inference->variant->instance, wait->command);
	return qbrt_fail(
		status, "%s: the inference failed: %s, at command %u%s%s%s",
		model->name, qbrt_cause_words(wait->cause), wait->command,
		*node ? " (" : "", node, *node ? ")" : "");
}

/*
 * SUBMIT until the driver takes the job. A full queue is one that many calls
 * share: a pause gives it time, and the deadline ends the tries.
 */
static int submit_job(const struct qbrt_inference *inference,
		      struct drm_qbnpu_submit *submit)
{
	const struct qbrt_device *device = inference->launched->device;
	struct timespec pause = { .tv_nsec = FULL_QUEUE_PAUSE_NS };
	int err;

	for (;;) {
		err = device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_SUBMIT,
					 submit);
		if (err != -ENOSPC)
			return err;
		(void)nanosleep(&pause, NULL);
	}
}

/* One SUBMIT, and what is left of the wait if a signal ended it early. */
static enum qbrt_status submit_and_wait(const struct qbrt_inference *inference,
					const struct qbrt_queue *queue,
					struct drm_qbnpu_wait *wait)
{
	const struct qbrt_launched *launched = inference->launched;
	struct drm_qbnpu_binding bindings[QBNPU_MAX_BINDINGS];
	struct drm_qbnpu_submit submit = {
		.queue = queue->number,
		.program = inference->variant->program,
		.mode = launched->mode,
		.core_mask = launched->core_mask,
		.bindings = (uintptr_t)bindings,
		.binding_count = (uint32_t)(inference->num_inputs +
					    inference->num_outputs),
		.binding_size = sizeof(bindings[0]),
		.wait = (uintptr_t)wait,
		.wait_size = sizeof(*wait),
		.item_count = 1,
		.deadline_ns = inference->deadline_ns,
	};
	enum qbrt_status status;
	int err;

	memcpy(submit.params, inference->params, sizeof(submit.params));
	fill_bindings(inference, bindings);
	err = submit_job(inference, &submit);
	if (err == -ETIME)
		return qbrt_fail_errno(
			QBRT_AT_SUBMIT, err,
			"%s: the time limit passed before the inference "
			"started; nothing ran, the outputs are unchanged",
			inference->model->name);
	if (err)
		return qbrt_fail_errno(
			QBRT_AT_SUBMIT, err,
			"%s: %s did not take the inference (what %u, index "
			"%u, limit %llu)",
			inference->model->name, launched->device->id,
			submit.fail_what, submit.fail_index,
			(unsigned long long)submit.fail_limit);
	count_submit(inference);
	if (wait->state == DRM_QBNPU_JOB_COMPLETE)
		return QBRT_OK;
	err = qbrt_queue_wait(queue, submit.job, inference->wait_flags, wait);
	if (!err)
		return QBRT_OK;
	atomic_fetch_add_explicit(&inference->model->totals.failed, 1,
				  memory_order_relaxed);
	status = qbrt_fail_errno(QBRT_AT_WAIT, err,
				 "%s: the result of the inference is lost",
				 inference->model->name);
	qbrt_inference_invalidate_outputs(inference, status);
	return status;
}

/* The job on this queue, to its end. */
static enum qbrt_status run_job(const struct qbrt_inference *inference,
				const struct qbrt_queue *queue)
{
	struct drm_qbnpu_wait wait = {
		.flags = inference->wait_flags,
		.timeout_ns = INT64_MAX,
	};
	enum qbrt_status status = submit_and_wait(inference, queue, &wait);

	if (status)
		return status;
	count_end(&inference->model->totals, &wait,
		  sum_nbytes(inference->outputs, inference->num_outputs));
	if (wait.status) {
		status = fail_job(inference, &wait);
		qbrt_inference_invalidate_outputs(inference, status);
		return status;
	}
	qbrt_inference_validate_outputs(inference);
	return QBRT_OK;
}

static enum qbrt_status run_in_slot(const struct qbrt_inference *inference,
				    struct qbrt_launched *launched)
{
	struct qbrt_device *device = launched->device;
	struct qbrt_queue *queue;
	enum qbrt_status status =
		qbrt_slots_take(&launched->slots, inference->deadline_ns);

	if (status == QBRT_MODEL_NOT_ALIVE)
		return qbrt_fail(status,
				 "%s: was disposed while the call waited for "
				 "one of its %u activation slots",
				 inference->model->name, launched->num_slots);
	if (status)
		return qbrt_fail(status,
				 "%s: none of its %u activation slots came "
				 "free within the time limit",
				 inference->model->name, launched->num_slots);
	status = qbrt_device_take_queue(device, &queue);
	if (!status) {
		status = run_job(inference, queue);
		qbrt_device_give_queue(device, queue);
	}
	qbrt_slots_give(&launched->slots);
	return status;
}

static enum qbrt_status run_inside(struct qbrt_inference *inference,
				   struct qbrt_launched *launched,
				   int64_t begin_ns)
{
	enum qbrt_status status;

	inference->launched = launched;
	inference->deadline_ns = compute_deadline(inference, begin_ns);
	status = qbrt_inference_check_buffers(inference);
	if (status)
		return status;
	status = qbrt_inference_begin_uses(inference);
	if (status)
		return status;
	status = run_in_slot(inference, launched);
	qbrt_inference_end_uses(inference);
	return status;
}

QBRT_API enum qbrt_status qbrt_model_infer_pinned_memory(
	struct qbrt_model *model, const struct qbrt_infer_options *options,
	struct qbrt_pinned_memory *const inputs[], size_t num_inputs,
	struct qbrt_pinned_memory *const outputs[], size_t num_outputs)
{
	int64_t begin_ns = qbrt_now_ns();
	struct qbrt_inference inference;
	struct qbrt_launched *launched;
	enum qbrt_status status;

	if (!model)
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT,
			"qbrt_model_infer_pinned_memory: model is NULL");
	inference.model = model;
	inference.inputs = inputs;
	inference.num_inputs = num_inputs;
	inference.outputs = outputs;
	inference.num_outputs = num_outputs;
	status = qbrt_inference_read_options(&inference, options);
	if (!status)
		status = qbrt_inference_check_available(&inference);
	if (!status)
		status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	status = run_inside(&inference, launched, begin_ns);
	qbrt_model_leave(model);
	return status;
}
