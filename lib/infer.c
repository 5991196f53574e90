// SPDX-License-Identifier: MIT
/*
 * The hot call: check, take the buffers' uses, a slot with its queue, one
 * SUBMIT that also waits, and the result. The order of the first and the
 * reverse order of giving back are what keeps dispose, other calls and failures
 * apart.
 */
#include "infer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "interrupt.h"
#include "pinned-memory.h"
#include "queue.h"
#include "status.h"
#include "trace.h"
#include "util.h"

#define TEXT_SIZE 512

/* How long a call stays away from a queue that others have filled. */
#define FULL_QUEUE_PAUSE_NS 1000000

/* From the beginning of the public call; the device's longest bounds it. */
static int64_t compute_deadline(const struct qbrt_inference *inference,
				int64_t begin_ns)
{
	int64_t limit = qbrt_get_limit_ns(inference->launched->device,
					  inference->timeout);
	int64_t deadline;

	if (__builtin_add_overflow(begin_ns, limit, &deadline))
		return INT64_MAX;
	return deadline;
}

void qbrt_inference_enter(struct qbrt_inference *inference,
			  struct qbrt_launched *launched, int64_t begin_ns)
{
	inference->launched = launched;
	inference->begin_ns = begin_ns;
	inference->deadline_ns = compute_deadline(inference, begin_ns);
	inference->joins_others = false;
}

uint64_t qbrt_variant_get_stride(const struct qbrt_launched_variant *variant,
				 size_t number)
{
	const struct drm_qbnpu_binding *binding = &variant->bindings[number];
	uint32_t align_log2 =
		variant->facts->bindings[binding->index].align_log2;

	return qbrt_round_up(binding->length, UINT64_C(1) << align_log2);
}

/* With one item there is no stride, as the driver wants it. */
static void fill_strides(const struct qbrt_inference *inference,
			 struct drm_qbnpu_binding *bindings)
{
	uint64_t num_steps = inference->item_count - 1;
	size_t num = inference->num_inputs + inference->num_outputs;

	for (size_t i = 0; i < num; i++) {
		bindings[i].item_stride =
			qbrt_variant_get_stride(inference->variant, i);
		bindings[i].length += num_steps * bindings[i].item_stride;
	}
}

/* The template with this buffer in it. */
static void fill_binding(const struct drm_qbnpu_binding *given,
			 const struct qbrt_pinned_memory *mem,
			 struct drm_qbnpu_binding *binding)
{
	*binding = *given;
	binding->handle = mem->storage->buffer.handle;
	binding->offset = mem->offset;
}

static void fill_bindings(const struct qbrt_inference *inference,
			  struct drm_qbnpu_binding *bindings)
{
	const struct drm_qbnpu_binding *given = inference->variant->bindings;
	struct drm_qbnpu_binding *binding = bindings;

	for (size_t i = 0; i < inference->num_inputs; i++)
		fill_binding(given++, inference->inputs[i], binding++);
	for (size_t i = 0; i < inference->num_outputs; i++)
		fill_binding(given++, inference->outputs[i], binding++);
	if (inference->item_count > 1)
		fill_strides(inference, bindings);
}

/* A timeline is named once: its last point comes after the others. */
static uint32_t fill_syncs(const struct qbrt_inference *inference,
			   struct drm_qbnpu_sync *syncs)
{
	uint32_t num = 0;
	uint32_t at;

	for (uint32_t i = 0; i < inference->num_writers; i++) {
		const struct qbrt_job *writer = inference->writers[i];

		for (at = 0; at < num; at++)
			if (syncs[at].handle == writer->queue->syncobj)
				break;
		if (at == num)
			syncs[num++] = (struct drm_qbnpu_sync){
				.handle = writer->queue->syncobj,
			};
		if (syncs[at].point < writer->number)
			syncs[at].point = writer->number;
	}
	return num;
}

void qbrt_inference_fill(const struct qbrt_inference *inference,
			 struct qbrt_inference_arrays *arrays,
			 struct drm_qbnpu_submit *submit)
{
	const struct qbrt_launched *launched = inference->launched;

	*submit = (struct drm_qbnpu_submit){
		.program = inference->variant->program,
		.mode = launched->mode,
		.core_mask = launched->core_mask,
		.bindings = (uintptr_t)arrays->bindings,
		.binding_count = (uint32_t)(inference->num_inputs +
					    inference->num_outputs),
		.binding_size = sizeof(arrays->bindings[0]),
		.item_count = inference->item_count,
		.deadline_ns = inference->deadline_ns,
		.user_data = qbrt_model_get_trace_number(inference->model),
	};
	memcpy(submit->params, inference->params, sizeof(submit->params));
	fill_bindings(inference, arrays->bindings);
	if (!inference->num_writers)
		return;
	submit->in_syncs = (uintptr_t)arrays->syncs;
	submit->sync_size = sizeof(arrays->syncs[0]);
	submit->in_count = fill_syncs(inference, arrays->syncs);
}

static uint64_t sum_nbytes(struct qbrt_pinned_memory *const *buffers,
			   size_t num)
{
	uint64_t nbytes = 0;

	for (size_t i = 0; i < num; i++)
		nbytes += buffers[i]->nbytes;
	return nbytes;
}

void qbrt_inference_describe(const struct qbrt_inference *inference,
			     struct qbrt_model_run *run)
{
	run->model = inference->model;
	run->launched = inference->launched;
	run->variant = inference->variant;
	run->input_nbytes =
		sum_nbytes(inference->inputs, inference->num_inputs);
	run->output_nbytes =
		sum_nbytes(inference->outputs, inference->num_outputs);
	run->timeout = inference->timeout;
	run->is_queued = false;
	run->has_items = inference->has_items;
	run->first_item = inference->first_item;
	run->has_to_wait = inference->num_writers || inference->joins_others;
}

enum qbrt_status
qbrt_inference_fail_disposed(const struct qbrt_inference *inference)
{
	return qbrt_fail(QBRT_MODEL_NOT_ALIVE,
			 "%s: was disposed before the inference began%s",
			 inference->model->name,
			 qbrt_inference_unchanged(inference));
}

/* All else that the driver asks of a binding has been checked. */
static bool is_misplaced(const struct qbrt_inference *inference,
			 const struct drm_qbnpu_submit *submit, int err)
{
	const struct qbrt_launched_variant *variant = inference->variant;
	uint32_t i = submit->fail_index;
	uint32_t binding;

	if (err != -EINVAL || submit->fail_what != DRM_QBNPU_FAIL_BINDING ||
	    i >= submit->binding_count)
		return false;
	binding = variant->bindings[i].index;
	return submit->fail_limit ==
	       UINT64_C(1) << variant->facts->bindings[binding].align_log2;
}

static enum qbrt_status fail_misplaced(const struct qbrt_inference *inference,
				       const struct drm_qbnpu_submit *submit)
{
	size_t i = submit->fail_index;
	bool is_input = i < inference->num_inputs;

	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "%s: %s %zu does not begin at a multiple of %llu "
			 "bytes of the device, as the model wants it: allocate "
			 "it with that alignment",
			 inference->model->name, is_input ? "input" : "output",
			 is_input ? i : i - inference->num_inputs,
			 (unsigned long long)submit->fail_limit);
}

enum qbrt_status
qbrt_inference_fail_submit(const struct qbrt_inference *inference,
			   const struct drm_qbnpu_submit *submit, int err)
{
	struct qbrt_model_run run;
	char timeout[96];

	if (err == -ETIME) {
		qbrt_inference_describe(inference, &run);
		return qbrt_fail_errno(QBRT_AT_SUBMIT, err,
				       "%s: %s, before the inference began%s",
				       inference->model->name,
				       qbrt_model_describe_timeout(
					       &run, timeout, sizeof(timeout)),
				       qbrt_inference_unchanged(inference));
	}
	if (err == -ESHUTDOWN)
		return qbrt_inference_fail_disposed(inference);
	if (err == -EINTR)
		return qbrt_fail(QBRT_INTERRUPTED,
				 "%s: the interrupt function ended the wait "
				 "for room in the driver's queue%s",
				 inference->model->name,
				 qbrt_inference_unchanged(inference));
	if (err == -ENOMEM)
		return qbrt_fail_errno(
			QBRT_AT_SUBMIT, err,
			"%s: %s has no memory, or gets no thread, for the "
			"inference%s",
			inference->model->name, inference->launched->device->id,
			qbrt_inference_unchanged(inference));
	if (is_misplaced(inference, submit, err))
		return fail_misplaced(inference, submit);
	return qbrt_fail_errno(
		QBRT_AT_SUBMIT, err,
		"%s: %s did not take the inference: %s (what %u, index %u, "
		"limit %llu)",
		inference->model->name, inference->launched->device->id,
		qbrt_errno_words(err), submit->fail_what, submit->fail_index,
		(unsigned long long)submit->fail_limit);
}

/*
 * SUBMIT until the driver takes the job. A full queue is one that many calls
 * share: a pause gives it time, and the deadline ends the tries.
 */
static int submit_job(const struct qbrt_inference *inference,
		      struct qbrt_queue *queue, struct drm_qbnpu_submit *submit)
{
	struct timespec pause = { .tv_nsec = FULL_QUEUE_PAUSE_NS };
	int err;

	submit->queue = queue->number;
	for (;;) {
		/* results that others have yet to see must not grow too old */
		if (atomic_load(&queue->num_jobs))
			qbrt_queue_collect(queue);
		err = queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_SUBMIT,
					submit);
		if (err != -ENOSPC)
			return err;
		if (qbrt_now_ns() >= inference->deadline_ns)
			return -ETIME;
		(void)nanosleep(&pause, NULL);
		if (qbrt_interrupt_ask())
			return -EINTR;
		if (atomic_load(&inference->launched->is_stopping))
			return -ESHUTDOWN;
	}
}

QBRT_TRACE_COLD static void trace_job(const struct qbrt_inference *inference,
				      const struct qbrt_queue *queue,
				      uint64_t job,
				      const struct drm_qbnpu_wait *wait)
{
	const struct qbrt_trace_event call = {
		.begin_ns = inference->begin_ns,
		.end_ns = qbrt_now_ns(),
		.model = qbrt_model_get_trace_number(inference->model),
		.queue = queue->number,
		.job = job,
	};

	qbrt_trace_job(&call, wait->submit_ns, wait->start_ns);
}

/* What comes before may have failed without the device knowing (K084). */
static enum qbrt_status judge_writers(const struct qbrt_inference *inference)
{
	for (uint32_t i = 0; i < inference->num_writers; i++) {
		struct qbrt_job *writer = inference->writers[i];

		if (!qbrt_job_poll(writer) || !writer->status)
			continue;
		/* of a long chain the first reason must still be read */
		if (writer->status == QBRT_STREAM_FAILED && writer->detail)
			return qbrt_fail(QBRT_STREAM_FAILED, "%s",
					 writer->detail);
		return qbrt_fail(
			QBRT_STREAM_FAILED,
			"%s: an inference that writes its input failed "
			"with %s: %s",
			inference->model->name,
			qbrt_status_name(writer->status),
			writer->detail ? writer->detail : "");
	}
	return QBRT_OK;
}

static enum qbrt_status fail_job(const struct qbrt_inference *inference,
				 const struct qbrt_model_run *run, int err,
				 const struct drm_qbnpu_wait *wait)
{
	char text[TEXT_SIZE];
	enum qbrt_status status =
		qbrt_model_judge(run, err, wait, text, sizeof(text));

	if (!err && wait->cause == DRM_QBNPU_CAUSE_FENCE &&
	    judge_writers(inference))
		status = QBRT_STREAM_FAILED;
	else
		(void)qbrt_fail(status, "%s", text);
	if (!qbrt_has_not_run(err, wait))
		qbrt_inference_invalidate_outputs(inference, status);
	return status;
}

/* The job has ended, and not as it should: or its result is lost. */
static enum qbrt_status end_badly(const struct qbrt_inference *inference,
				  bool is_stopped, int err,
				  const struct drm_qbnpu_wait *wait)
{
	enum qbrt_status status;
	struct qbrt_model_run run;

	qbrt_inference_describe(inference, &run);
	qbrt_model_count_submit(&run);
	qbrt_model_count_end(&run, err, wait);
	if (!is_stopped && (err || wait->status))
		return fail_job(inference, &run, err, wait);
	status = is_stopped ? qbrt_fail(QBRT_INTERRUPTED,
					"%s: the interrupt function ended the "
					"inference",
					inference->model->name)
			    : judge_writers(inference);
	if (status)
		qbrt_inference_invalidate_outputs(inference, status);
	else
		qbrt_inference_validate_outputs(inference);
	return status;
}

static void end_well(const struct qbrt_inference *inference,
		     const struct drm_qbnpu_wait *wait)
{
	struct qbrt_model_totals *totals = &inference->model->totals;

	qbrt_totals_add(&totals->submitted, 1);
	qbrt_totals_add(&totals->input_nbytes,
			sum_nbytes(inference->inputs, inference->num_inputs));
	qbrt_totals_add_success(
		totals, wait,
		sum_nbytes(inference->outputs, inference->num_outputs));
	qbrt_inference_validate_outputs(inference);
}

/* The job on this queue, to its end. */
static enum qbrt_status run_job(const struct qbrt_inference *inference,
				struct qbrt_queue *queue)
{
	struct drm_qbnpu_wait wait = {
		.flags = inference->wait_flags,
		.timeout_ns = qbrt_interrupt_slice(INT64_MAX),
	};
	struct qbrt_inference_arrays arrays;
	struct drm_qbnpu_submit submit;
	bool is_stopped = false;
	int err;

	qbrt_inference_fill(inference, &arrays, &submit);
	submit.wait = (uintptr_t)&wait;
	submit.wait_size = sizeof(wait);
	err = submit_job(inference, queue, &submit);
	if (err)
		return qbrt_inference_fail_submit(inference, &submit, err);
	if (wait.state != DRM_QBNPU_JOB_COMPLETE)
		is_stopped = qbrt_inference_wait_on(inference, queue,
						    submit.job, &err, &wait);
	if (!err && qbrt_trace_is_on())
		trace_job(inference, queue, submit.job, &wait);
	if (is_stopped || err || wait.status || inference->num_writers)
		return end_badly(inference, is_stopped, err, &wait);
	end_well(inference, &wait);
	return QBRT_OK;
}

static enum qbrt_status fail_slot(const struct qbrt_inference *inference,
				  enum qbrt_status status)
{
	const char *name = inference->model->name;
	unsigned int num = inference->launched->num_slots;

	if (status == QBRT_MODEL_NOT_ALIVE)
		return qbrt_inference_fail_disposed(inference);
	if (status == QBRT_INTERRUPTED)
		return qbrt_fail(status,
				 "%s: the interrupt function ended the wait "
				 "for an activation slot (of %u)%s",
				 name, num,
				 qbrt_inference_unchanged(inference));
	if (status == QBRT_MODEL_TASK_QUEUE_TIMEOUT)
		return qbrt_fail(status,
				 "%s: no activation slot (of %u) came free "
				 "within the time limit%s",
				 name, num,
				 qbrt_inference_unchanged(inference));
	return status;
}

static enum qbrt_status run_in_slot(struct qbrt_inference *inference,
				    struct qbrt_slot *slot)
{
	inference->joins_others = atomic_load(&slot->users) > 1;
	/* who disposes has cancelled the slots that were in use then */
	if (atomic_load(&inference->launched->is_stopping))
		return fail_slot(inference, QBRT_MODEL_NOT_ALIVE);
	return run_job(inference, slot->queue);
}

enum qbrt_status qbrt_inference_run(struct qbrt_inference *inference)
{
	struct qbrt_slots *slots = &inference->launched->slots;
	struct qbrt_slot *slot;
	enum qbrt_status status = qbrt_inference_begin_uses(inference);

	if (status)
		return status;
	status = qbrt_slots_take(slots, inference->deadline_ns, &slot);
	if (status) {
		status = fail_slot(inference, status);
	} else {
		status = run_in_slot(inference, slot);
		qbrt_slots_leave(slots, slot);
	}
	qbrt_inference_end_uses(inference);
	if (inference->num_writers)
		qbrt_inference_drop_writers(inference);
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
	inference.item_count = 1;
	inference.has_items = false;
	status = qbrt_inference_read_options(&inference, options,
					     QBRT_INFER_BLOCKING);
	if (!status)
		status = qbrt_inference_check_available(&inference);
	if (!status)
		status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	qbrt_inference_enter(&inference, launched, begin_ns);
	status = qbrt_inference_check_buffers(&inference);
	if (!status)
		status = qbrt_inference_run(&inference);
	qbrt_model_leave(model);
	return status;
}
