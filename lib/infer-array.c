// SPDX-License-Identifier: MIT
/*
 * Inference on arrays of the caller: match, copy into staging, run what pinned
 * memory runs, copy out. A batch goes in jobs of as many items as there is
 * staging for; the device spreads the items of a job over the model's cores.
 * The caller's outputs are written after a job has succeeded; when a later job
 * of the same call fails they are zeros (Q331).
 */
#include "infer-array.h"

#include "infer.h"
#include "interrupt.h"
#include "layout.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

/* A call, on the stack. */
struct array_call {
	struct qbrt_model *model;
	struct qbrt_array_list inputs;
	struct qbrt_array_list outputs;
	struct qbrt_infer_options options;
	int64_t begin_ns;
	struct qbrt_launched *launched; /* entered */
	struct qbrt_array_match match;
};

static void view_array(const struct qbrt_array *array, struct qbrt_view *view)
{
	(void)qbrt_view_set(view, array->data, array->dtype, array->shape,
			    array->ndim, array->strides);
}

void qbrt_array_clear(const struct qbrt_array *array)
{
	struct qbrt_view view;

	view_array(array, &view);
	qbrt_layout_clear(&view);
}

static bool overlap(const struct qbrt_array *a, const struct qbrt_array *b)
{
	struct qbrt_view views[2];
	uintptr_t begin[2];
	uintptr_t end[2];

	view_array(a, &views[0]);
	view_array(b, &views[1]);
	qbrt_view_get_range(&views[0], &begin[0], &end[0]);
	qbrt_view_get_range(&views[1], &begin[1], &end[1]);
	return begin[0] < end[1] && begin[1] < end[0];
}

static enum qbrt_status check_overlaps(const struct qbrt_model *model,
				       const struct qbrt_array_list *outputs,
				       size_t output,
				       const struct qbrt_array_list *others,
				       size_t num_others)
{
	for (size_t i = 0; i < num_others; i++)
		if (overlap(&outputs->arrays[output], &others->arrays[i]))
			return qbrt_fail(QBRT_PINNED_MEMORY_ALIASED,
					 "%s: output %zu overlaps %s %zu in "
					 "memory: give each array its own",
					 model->name, output, others->what, i);
	return QBRT_OK;
}

enum qbrt_status qbrt_arrays_check_memory(const struct qbrt_model *model,
					  const struct qbrt_array_list *inputs,
					  const struct qbrt_array_list *outputs)
{
	enum qbrt_status status = QBRT_OK;
	struct qbrt_view view;

	for (size_t i = 0; i < outputs->num && !status; i++) {
		view_array(&outputs->arrays[i], &view);
		if (!qbrt_view_is_injective(&view))
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "%s: output %zu: its strides put "
					 "several elements into the same bytes",
					 model->name, i);
		if (inputs)
			status = check_overlaps(model, outputs, i, inputs,
						inputs->num);
		if (!status)
			status = check_overlaps(model, outputs, i, outputs, i);
	}
	return status;
}

/* What stands against the call, before it has any effect. */
static enum qbrt_status check_call(struct array_call *call)
{
	enum qbrt_status status = qbrt_arrays_match(
		call->model, call->options.flags, &call->inputs, &call->match);

	if (!status)
		status = qbrt_match_check_outputs(&call->match, &call->outputs);
	if (!status)
		status = qbrt_arrays_check_memory(call->model, &call->inputs,
						  &call->outputs);
	return status;
}

static struct qbrt_inference
make_inference(struct qbrt_model *model,
	       const struct qbrt_launched_variant *variant,
	       struct qbrt_pinned_memory *const *buffers)
{
	size_t num_inputs = variant->variant->input_count;

	return (struct qbrt_inference){
		.model = model,
		.inputs = buffers,
		.num_inputs = num_inputs,
		.outputs = buffers + num_inputs,
		.num_outputs = variant->variant->output_count,
		.item_count = 1,
		.variant = variant,
	};
}

static void count_copied(struct qbrt_model *model, uint64_t nbytes)
{
	atomic_fetch_add_explicit(&model->totals.copied_nbytes, nbytes,
				  memory_order_relaxed);
}

/*
 * The caller's own limit is for the whole batch, the default for each of its
 * jobs. What is left is at least 1 ns: 0 would be the default.
 */
static int64_t get_timeout(const struct array_call *call, int64_t begin_ns)
{
	int64_t passed = begin_ns - call->begin_ns;
	int64_t timeout = call->options.timeout;

	if (timeout <= 0)
		return timeout;
	return passed < timeout ? timeout - passed : 1;
}

static size_t get_step(const struct array_call *call)
{
	size_t step = qbrt_array_max_items(call->launched, call->match.variant);

	return call->match.num_runs < step ? call->match.num_runs : step;
}

static enum qbrt_status take_set(const struct array_call *call,
				 struct qbrt_array_part *part)
{
	if (part->set)
		return QBRT_OK;
	return qbrt_array_take_set(call->launched, call->match.variant,
				   get_step(call), &part->set);
}

static enum qbrt_status run_job(const struct array_call *call,
				const struct qbrt_array_part *part)
{
	struct qbrt_pinned_memory *buffers[QBNPU_MAX_BINDINGS];
	struct qbrt_inference inference =
		make_inference(call->model, part->variant, buffers);
	int64_t begin_ns = part->first ? qbrt_now_ns() : call->begin_ns;
	enum qbrt_status status;

	inference.timeout = get_timeout(call, begin_ns);
	if (call->options.flags & QBRT_INFER_BLOCKING)
		inference.wait_flags = DRM_QBNPU_WAIT_BLOCKING;
	inference.item_count = (uint32_t)part->num;
	inference.first_item = part->first;
	inference.has_items = call->match.num_runs > 1;
	for (size_t i = 0; i < QBNPU_MAX_PARAMS; i++)
		inference.params[i] = call->match.params[i];
	qbrt_array_place_part(part, buffers);
	count_copied(call->model,
		     qbrt_array_copy_in(part, call->inputs.arrays));
	qbrt_inference_enter(&inference, call->launched, begin_ns);
	status = qbrt_inference_run(&inference);
	if (!status)
		count_copied(call->model,
			     qbrt_array_copy_out(part, call->outputs.arrays));
	else
		qbrt_array_clear_places(part, call->outputs.arrays);
	return status;
}

/* Where an array's memory is in use, it is copied as any other's. */
static enum qbrt_status run_part(const struct array_call *call,
				 struct qbrt_array_part *part)
{
	enum qbrt_status status = run_job(call, part);

	if (status != QBRT_PINNED_MEMORY_IN_USE || !part->places->used)
		return status;
	qbrt_array_leave_places(part->places);
	status = take_set(call, part);
	return status ? status : run_job(call, part);
}

/* Earlier items are in the outputs already: part of a result is none. */
static enum qbrt_status fail_later_part(const struct array_call *call,
					enum qbrt_status status, size_t first)
{
	for (size_t i = 0; i < call->outputs.num; i++)
		qbrt_array_clear(&call->outputs.arrays[i]);
	return qbrt_fail(status,
			 "the batch ended in the job of item %zu, and all its "
			 "outputs are zeros now; of that job: %s",
			 first * call->match.entry->batch, qbrt_error_detail());
}

/* Jobs that are too short for anybody to ask while they run (Q739). */
static enum qbrt_status ask_between_parts(const struct array_call *call,
					  int64_t *ask_ns)
{
	int64_t now_ns;

	if (!atomic_load_explicit(&qbrt_interrupt_is_on, memory_order_relaxed))
		return QBRT_OK;
	now_ns = qbrt_now_ns();
	if (now_ns < *ask_ns)
		return QBRT_OK;
	*ask_ns = qbrt_interrupt_cut(INT64_MAX);
	if (!qbrt_interrupt_ask())
		return QBRT_OK;
	return qbrt_fail(QBRT_INTERRUPTED,
			 "%s: the interrupt function ended the batch",
			 call->model->name);
}

static enum qbrt_status run_parts(const struct array_call *call,
				  struct qbrt_array_places *places)
{
	const struct qbrt_array_match *match = &call->match;
	size_t step = get_step(call);
	struct qbrt_array_part part = {
		.match = match,
		.variant = &call->launched->variants[match->variant],
		.places = places,
	};
	int64_t ask_ns = qbrt_interrupt_slice(INT64_MAX);
	enum qbrt_status status = QBRT_OK;

	if (qbrt_array_has_to_copy(&part))
		status = take_set(call, &part);
	if (status)
		return status;
	for (; part.first < match->num_runs && !status; part.first += step) {
		part.num = match->num_runs - part.first;
		if (part.num > step)
			part.num = step;
		if (part.first)
			status = ask_between_parts(call, &ask_ns);
		if (!status)
			status = run_part(call, &part);
		if (status && part.first)
			status = fail_later_part(call, status, part.first);
	}
	if (part.set)
		qbrt_staging_give(&call->launched->staging, part.set);
	return status;
}

static enum qbrt_status run_call(const struct array_call *call)
{
	struct qbrt_array_places places;
	enum qbrt_status status;

	qbrt_array_find_places(call->launched, &call->match,
			       call->inputs.arrays, call->outputs.arrays,
			       &places);
	status = run_parts(call, &places);
	qbrt_array_leave_places(&places);
	return status;
}

QBRT_API enum qbrt_status
qbrt_model_infer(struct qbrt_model *model,
		 const struct qbrt_infer_options *options,
		 const struct qbrt_array *inputs, size_t num_inputs,
		 const struct qbrt_array *outputs, size_t num_outputs)
{
	struct array_call call = {
		.model = model,
		.inputs = { "input", inputs, num_inputs },
		.outputs = { "output", outputs, num_outputs },
		.begin_ns = qbrt_now_ns(),
	};
	enum qbrt_status status;

	if (!model)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_infer: model is NULL");
	status = qbrt_arrays_read_options(model, options, QBRT_ARRAY_FLAGS,
					  &call.options);
	if (!status)
		status = qbrt_arrays_check(model, &call.inputs);
	if (!status)
		status = qbrt_arrays_check(model, &call.outputs);
	if (!status)
		status = qbrt_model_enter(model, &call.launched);
	if (status)
		return status;
	status = check_call(&call);
	if (!status)
		status = run_call(&call);
	qbrt_model_leave(model);
	return qbrt_match_end(status, &call.match, &call.inputs);
}

/* Variable axes at their largest: the sizes that the staging has. */
static enum qbrt_status run_dummy(struct qbrt_model *model,
				  struct qbrt_launched *launched, size_t number,
				  int64_t begin_ns)
{
	const struct qbrt_launched_variant *variant =
		&launched->variants[number];
	struct qbrt_inference inference;
	struct qbrt_staging_set *set;
	enum qbrt_status status =
		qbrt_array_take_set(launched, number, 1, &set);

	if (status)
		return status;
	for (size_t i = 0; i < set->num_buffers; i++)
		set->buffers[i]->nbytes = variant->bindings[i].length;
	inference = make_inference(model, variant, set->buffers);
	for (uint32_t i = 0; i < variant->facts->param_count; i++)
		inference.params[i] = variant->facts->params[i].max;
	qbrt_inference_enter(&inference, launched, begin_ns);
	status = qbrt_inference_run(&inference);
	qbrt_staging_give(&launched->staging, set);
	return status;
}

QBRT_API enum qbrt_status qbrt_model_infer_speedrun(struct qbrt_model *model,
						    size_t variant)
{
	int64_t begin_ns = qbrt_now_ns();
	struct qbrt_launched *launched;
	enum qbrt_status status;

	if (!model)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_infer_speedrun: model is NULL");
	if (variant >= model->file->vari->variant_count)
		return qbrt_fail(
			QBRT_MODEL_INVALID_VARIANT_IDX,
			"%s: variant %zu asked for, the number of them is %u",
			model->name, variant, model->file->vari->variant_count);
	status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	status = run_dummy(model, launched, variant, begin_ns);
	qbrt_model_leave(model);
	return status;
}
