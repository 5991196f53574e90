// SPDX-License-Identifier: MIT
/*
 * A whole model with its buffers and arrays. Inputs are zeros, and every output
 * must be that of the first inference, bit for bit (P11).
 */
#include "bench-model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench-subject.h"

const char *bench_model_path;

void whole_close(void *state)
{
	struct whole *whole = state;
	size_t num = whole->num_inputs + whole->num_outputs;

	for (size_t i = 0; i < WHOLE_MAX_DEPTH; i++) {
		if (!whole->futures[i])
			continue;
		(void)!qbrt_future_wait(whole->futures[i], -1);
		qbrt_future_free(whole->futures[i]);
	}
	for (size_t i = 0; whole->inputs && i < whole->num_inputs; i++)
		qbrt_pinned_memory_free(whole->inputs[i]);
	for (size_t i = 0;
	     whole->outputs && i < whole->depth * whole->num_outputs; i++)
		qbrt_pinned_memory_free(whole->outputs[i]);
	for (size_t i = 0; whole->arrays && i < num; i++)
		free(whole->arrays[i].data);
	for (size_t i = 0; whole->expected && i < 2 * whole->num_outputs; i++)
		free(whole->expected[i]);
	if (whole->trace >= 0)
		(void)close(whole->trace);
	qbrt_model_free(whole->model);
	qbrt_accelerator_close(whole->acc);
	free(whole->inputs);
	free(whole->outputs);
	free(whole->arrays);
	free(whole->infos);
	free(whole->expected);
	free(whole);
}

enum qbrt_status whole_load(size_t depth, struct qbrt_model **model)
{
	struct qbrt_model_config *config;
	enum qbrt_status status = qbrt_model_config_alloc(&config);

	if (status)
		return status;
	status = qbrt_model_config_set_activation_slots(config, depth);
	if (!status)
		status = qbrt_model_load(bench_model_path, config, model);
	if (status == QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH &&
	    !qbrt_model_config_set_single_core_mode(config, 0))
		status = qbrt_model_load(bench_model_path, config, model);
	qbrt_model_config_free(config);
	return status;
}

size_t whole_get_nbytes(const struct qbrt_array *array)
{
	size_t nbytes = qbrt_dtype_itemsize(array->dtype);

	for (size_t i = 0; i < array->ndim; i++)
		nbytes *= (size_t)array->shape[i];
	return nbytes;
}

/* An array of the largest shape, zeros, of the type that infer takes. */
static bool make_array(struct whole *whole, size_t at)
{
	struct qbrt_io_info *info = &whole->infos[at];
	struct qbrt_array *array = &whole->arrays[at];
	bool is_input = at < whole->num_inputs;

	info->size = sizeof(*info);
	if (is_input ? qbrt_model_query_input(whole->model, 0, at, info)
		     : qbrt_model_query_output(whole->model, 0,
					       at - whole->num_inputs, info))
		return false;
	array->shape = info->max_shape;
	array->ndim = info->ndim;
	array->dtype = info->dtype;
	array->data = calloc(1, whole_get_nbytes(array) + 1);
	return array->data;
}

static bool alloc_buffers(struct whole *whole)
{
	size_t num = whole->num_inputs + whole->num_outputs;

	whole->inputs = calloc(whole->num_inputs, sizeof(*whole->inputs));
	whole->outputs = calloc(whole->depth * whole->num_outputs,
				sizeof(*whole->outputs));
	whole->arrays = calloc(num, sizeof(*whole->arrays));
	whole->infos = calloc(num, sizeof(*whole->infos));
	whole->expected = calloc(2 * whole->num_outputs, sizeof(void *));
	if (!whole->inputs || !whole->outputs || !whole->arrays ||
	    !whole->infos || !whole->expected)
		return false;
	for (size_t i = 0; i < whole->num_inputs; i++)
		if (qbrt_model_alloc_input(whole->model, i, &whole->inputs[i]))
			return false;
	for (size_t i = 0; i < whole->depth * whole->num_outputs; i++)
		if (qbrt_model_alloc_output(whole->model,
					    i % whole->num_outputs,
					    &whole->outputs[i]))
			return false;
	for (size_t i = 0; i < num; i++)
		if (!make_array(whole, i))
			return false;
	return true;
}

static enum qbrt_status open_depth(size_t depth, struct whole **opened)
{
	struct whole *whole = calloc(1, sizeof(*whole));
	enum qbrt_status status;

	*opened = whole;
	if (!whole)
		return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	whole->trace = -1;
	whole->depth = depth;
	status = qbrt_accelerator_open(bench_setup.name, bench_setup.number,
				       &whole->acc);
	if (!status) {
		bench_device = bench_setup.id;
		status = whole_load(depth, &whole->model);
	}
	if (!status)
		status = qbrt_model_launch(whole->model, whole->acc);
	whole->num_inputs = qbrt_model_get_num_inputs(whole->model);
	whole->num_outputs = qbrt_model_get_num_outputs(whole->model);
	if (!status && !alloc_buffers(whole))
		status = QBRT_BAD_ALLOC;
	return status;
}

void *whole_open_depth(size_t depth)
{
	struct whole *whole;

	if (!open_depth(depth, &whole))
		return whole;
	bench_set_reason(qbrt_error_detail());
	if (whole)
		whole_close(whole);
	return NULL;
}

void *whole_open(const struct bench_case *bench_case)
{
	(void)bench_case;
	return whole_open_depth(1);
}

enum qbrt_status bench_model_try(void)
{
	struct whole *whole;
	enum qbrt_status status = open_depth(1, &whole);

	if (whole)
		whole_close(whole);
	return status;
}

void whole_count(const void *state, struct bench_counters *counters)
{
	const struct whole *whole = state;
	struct qbrt_model_counters sums = { .size = sizeof(sums) };

	qbrt_model_get_counters(whole->model, &sums);
	counters->jobs = sums.completed;
	counters->copied_nbytes = sums.copied_nbytes;
}

/* ---- inference ---- */

/* The first answer is kept, and all others must be equal. */
static bool is_expected(void **expected, const void *data, size_t nbytes)
{
	if (*expected && memcmp(*expected, data, nbytes) != 0)
		bench_set_wrong("a wrong result", "another output than that of "
						  "the first inference");
	if (*expected)
		return !bench_get_wrong();
	*expected = malloc(nbytes + 1);
	if (*expected)
		memcpy(*expected, data, nbytes);
	else
		bench_set_wrong("out of memory", NULL);
	return *expected;
}

bool whole_check_buffers(struct whole *whole, size_t at)
{
	struct qbrt_pinned_memory **outputs =
		whole->outputs + at * whole->num_outputs;

	for (size_t i = 0; i < whole->num_outputs; i++)
		if (!is_expected(&whole->expected[whole->num_outputs + i],
				 qbrt_pinned_memory_get_data(outputs[i]),
				 qbrt_pinned_memory_get_nbytes(outputs[i])))
			return false;
	return true;
}

bool whole_check_arrays(struct whole *whole)
{
	const struct qbrt_array *outputs = whole->arrays + whole->num_inputs;

	for (size_t i = 0; i < whole->num_outputs; i++)
		if (!is_expected(&whole->expected[i], outputs[i].data,
				 whole_get_nbytes(&outputs[i])))
			return false;
	return true;
}

bool whole_infer_pinned(const struct whole *whole, uint32_t num)
{
	while (num--)
		if (qbrt_model_infer_pinned_memory(
			    whole->model, NULL, whole->inputs,
			    whole->num_inputs, whole->outputs,
			    whole->num_outputs))
			return false;
	return true;
}

bool whole_infer_arrays(const struct whole *whole, uint32_t num)
{
	while (num--)
		if (qbrt_model_infer(whole->model, NULL, whole->arrays,
				     whole->num_inputs,
				     whole->arrays + whole->num_inputs,
				     whole->num_outputs))
			return false;
	return true;
}
