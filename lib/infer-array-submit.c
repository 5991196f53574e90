// SPDX-License-Identifier: MIT
/*
 * Inference on arrays that nobody waits for. The future has the staging set
 * that its job writes, and converts out of it when the result is taken. A
 * program that takes nothing for long must not use up pinned memory: when many
 * sets are out, outputs move to plain memory as their job ends. A launch may be
 * over when its result is taken; the set then ends with the future.
 */
#include "infer-array.h"

#include <stdlib.h>
#include <string.h>

#include "future.h"
#include "infer.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

/* As many as a model may have in flight, beside its slots. */
#define MAX_SETS_OUT 64

#define SUBMIT_FLAGS \
	(QBRT_INFER_TRY | QBRT_INFER_HWC | QBRT_INFER_CHW | QBRT_INFER_TO_FLOAT)

struct array_result {
	struct qbrt_array_match match;
	struct qbrt_model *model; /* alive as long as the future */
	uint64_t launch;          /* number of the one whose set it is */
	struct qbrt_staging_set *set;
	char **moved; /* outputs that left the set, one block */
};

static struct qbrt_array_part get_part(const struct array_result *result)
{
	return (struct qbrt_array_part){
		.match = &result->match,
		.set = result->set,
		.moved = result->moved,
		.num = 1,
	};
}

/* The set rests with its launch, or ends if that is over. */
static void give_set(struct array_result *result)
{
	struct qbrt_staging_set *set = result->set;
	struct qbrt_launched *launched;

	result->set = NULL;
	if (!set)
		return;
	launched = qbrt_model_try_enter(result->model);
	if (launched && launched->number == result->launch)
		qbrt_staging_give(&launched->staging, set);
	else
		qbrt_staging_end(set);
	if (launched)
		qbrt_model_leave(result->model);
}

static void free_result(void *staging)
{
	struct array_result *result = staging;

	if (qbrt_model_is_inherited(result->model))
		qbrt_staging_end(result->set);
	else
		give_set(result);
	free(result->moved);
	free(result);
}

/* One block: a pointer per output, then their bytes. NULL: no memory. */
static char **copy_outputs(const struct array_result *result)
{
	size_t num = result->match.entry->output_count;
	struct qbrt_pinned_memory *const *buffers =
		result->set->buffers + result->match.entry->input_count;
	size_t nbytes = num * sizeof(char *);
	char **outputs;
	char *at;

	for (size_t i = 0; i < num; i++)
		nbytes += qbrt_round_up(buffers[i]->nbytes, 16);
	outputs = malloc(nbytes);
	if (!outputs)
		return NULL;
	at = (char *)(outputs + num);
	for (size_t i = 0; i < num; i++) {
		outputs[i] = at;
		memcpy(at, buffers[i]->storage->buffer.data,
		       buffers[i]->nbytes);
		at += qbrt_round_up(buffers[i]->nbytes, 16);
	}
	return outputs;
}

static void end_result(struct qbrt_future *future)
{
	struct array_result *result = future->staging;
	struct qbrt_staging_pool *pool = &future->run.launched->staging;

	if (!future->job.status) {
		if (qbrt_staging_count_out(pool) <=
		    future->run.launched->num_slots + MAX_SETS_OUT)
			return;
		result->moved = copy_outputs(result);
		if (!result->moved)
			return;
		qbrt_totals_add(&result->model->totals.copied_nbytes,
				future->run.output_nbytes);
	}
	qbrt_staging_give(pool, result->set);
	result->set = NULL;
}

static enum qbrt_status query_output(const struct qbrt_future *future,
				     size_t index, struct qbrt_io_info *info)
{
	const struct array_result *result = future->staging;

	if (!info || info->size < sizeof(info->size))
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT, "qbrt_future_query_output: %s",
			info ? "info->size is not set" : "info is NULL");
	return qbrt_match_describe_output(&result->match, index, info);
}

static enum qbrt_status check_outputs(const struct qbrt_future *future,
				      const struct qbrt_array *outputs,
				      size_t num_outputs)
{
	const struct array_result *result = future->staging;
	const struct qbrt_array_list list = { "output", outputs, num_outputs };
	enum qbrt_status status = qbrt_arrays_check(result->model, &list);

	if (!status)
		status = qbrt_match_check_outputs(&result->match, &list);
	if (!status)
		status = qbrt_arrays_check_memory(result->model, NULL, &list);
	return status;
}

static void take_result(struct qbrt_future *future,
			const struct qbrt_array *outputs)
{
	struct array_result *result = future->staging;
	const struct qbrt_array_part part = get_part(result);

	qbrt_totals_add(&result->model->totals.copied_nbytes,
			qbrt_array_copy_out(&part, outputs));
	give_set(result);
}

static const struct qbrt_future_arrays array_ops = {
	.query_output = query_output,
	.check = check_outputs,
	.end = end_result,
	.take = take_result,
	.free = free_result,
};

/* What stands against the call, before it has any effect. */
static enum qbrt_status check_call(const struct qbrt_model *model,
				   uint32_t flags,
				   const struct qbrt_array_list *inputs,
				   struct qbrt_array_match *match)
{
	enum qbrt_status status =
		qbrt_arrays_match(model, flags, inputs, match);

	if (status)
		return status;
	if (match->num_runs > 1)
		return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
				 "%s: a batch of %zu inferences given, and a "
				 "queued call takes one: submit each by itself",
				 model->name, match->num_runs);
	return QBRT_OK;
}

static enum qbrt_status submit_set(struct qbrt_inference *inference,
				   const struct qbrt_array_list *inputs,
				   struct array_result *result,
				   struct qbrt_future **future)
{
	struct qbrt_launched *launched = inference->launched;
	size_t variant = result->match.variant;
	struct qbrt_array_part part;
	uint64_t copied;
	enum qbrt_status status =
		qbrt_array_take_set(launched, variant, 1, &result->set);

	if (status)
		return status;
	part = get_part(result);
	inference->variant = &launched->variants[variant];
	inference->inputs = result->set->buffers;
	inference->num_inputs = result->match.entry->input_count;
	inference->outputs = result->set->buffers + inference->num_inputs;
	inference->num_outputs = result->match.entry->output_count;
	memcpy(inference->params, result->match.params,
	       sizeof(inference->params));
	copied = qbrt_array_copy_in(&part, inputs->arrays);
	status = qbrt_inference_submit(inference, future);
	/* what is refused has changed nothing (Q365) */
	if (!status)
		qbrt_totals_add(&result->model->totals.copied_nbytes, copied);
	return status;
}

static enum qbrt_status submit(struct qbrt_inference *inference,
			       const struct qbrt_array_match *match,
			       const struct qbrt_array_list *inputs,
			       struct qbrt_future **future)
{
	struct array_result *result = calloc(1, sizeof(*result));
	enum qbrt_status status;

	if (!result)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "%s: no memory for a future",
				 inference->model->name);
	result->match = *match;
	result->model = inference->model;
	result->launch = inference->launched->number;
	inference->arrays = &array_ops;
	inference->staging = result;
	status = submit_set(inference, inputs, result, future);
	if (status)
		free_result(result);
	return status;
}

static enum qbrt_status check_pipeline(const struct qbrt_model *model)
{
	if (!model->has_async_pipeline)
		return qbrt_fail(
			QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED,
			"%s: was loaded without the asynchronous pipeline: set "
			"it with qbrt_model_config_set_async_pipeline",
			model->name);
	if (model->file->cach || model->file->iotb->state_size)
		return qbrt_fail(
			QBRT_MODEL_ASYNC_PIPELINE_CHECK_FAILED,
			"%s: keeps state between inferences, which come one "
			"after the other",
			model->name);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_submit(struct qbrt_model *model,
		  const struct qbrt_infer_options *options,
		  const struct qbrt_array *inputs, size_t num_inputs,
		  struct qbrt_future **future)
{
	const struct qbrt_array_list list = { "input", inputs, num_inputs };
	int64_t begin_ns = qbrt_now_ns();
	struct qbrt_inference inference = {
		.model = model,
		.item_count = 1,
	};
	struct qbrt_infer_options known;
	struct qbrt_array_match match;
	struct qbrt_launched *launched;
	enum qbrt_status status;

	if (!model || !future)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_submit: %s is NULL",
				 model ? "future" : "model");
	status = check_pipeline(model);
	if (!status)
		status = qbrt_arrays_read_options(model, options, SUBMIT_FLAGS,
						  &known);
	if (!status)
		status = qbrt_arrays_check(model, &list);
	if (!status)
		status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	inference.timeout = known.timeout;
	inference.is_try = known.flags & QBRT_INFER_TRY;
	if (known.flags & QBRT_INFER_BLOCKING)
		inference.wait_flags = DRM_QBNPU_WAIT_BLOCKING;
	qbrt_inference_enter(&inference, launched, begin_ns);
	status = check_call(model, known.flags, &list, &match);
	if (!status)
		status = submit(&inference, &match, &list, future);
	qbrt_model_leave(model);
	return qbrt_match_end(status, &match, &list);
}
