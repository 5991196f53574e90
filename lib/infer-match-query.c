// SPDX-License-Identifier: MIT
/*
 * What a match means for the outputs: type, shape, and whether arrays that are
 * given for them are right; the queries that tell it; the options of plain
 * calls, which queries and calls share.
 */
#include <string.h>

#include "dtype.h"
#include "infer-match.h"
#include "infer.h"
#include "layout.h"
#include "status.h"
#include "util.h"

static enum qbrt_status check_items(const struct qbrt_model *model,
				    const struct qbrt_infer_options *known)
{
	if (!known->items && !known->num_items && !known->cache_size)
		return QBRT_OK;
	if (!model->file->cach)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: has no cache, and the options have %s",
				 model->name,
				 known->cache_size ? "cache_size" : "items");
	return qbrt_fail(QBRT_NOT_IMPLEMENTED,
			 "%s: caches are not offered yet: leave items and "
			 "cache_size 0",
			 model->name);
}

enum qbrt_status
qbrt_arrays_read_options(const struct qbrt_model *model,
			 const struct qbrt_infer_options *options,
			 uint32_t taken_flags, struct qbrt_infer_options *known)
{
	const uint32_t both = QBRT_INFER_HWC | QBRT_INFER_CHW;
	enum qbrt_status status = qbrt_infer_options_read(options, known);

	if (!status)
		status = qbrt_infer_options_check_flags(known->flags,
							taken_flags);
	if (status)
		return status;
	if ((known->flags & both) == both)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: QBRT_INFER_HWC and "
				 "QBRT_INFER_CHW exclude each other");
	if (known->reserved)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: reserved is not 0");
	if (known->stream)
		return qbrt_fail(QBRT_NOT_IMPLEMENTED,
				 "infer options: streams are not offered yet: "
				 "pass NULL");
	return check_items(model, known);
}

enum qbrt_dtype qbrt_match_get_dtype(const struct qbrt_array_match *match,
				     size_t output)
{
	const struct qbm_io *io = &match->outputs[output];
	enum qbrt_dtype device_dtype = (enum qbrt_dtype)io->device_dtype;
	enum qbrt_dtype host_dtype = (enum qbrt_dtype)io->host_dtype;

	if (match->is_to_float &&
	    qbrt_layout_converts(device_dtype, QBRT_DTYPE_FLOAT32))
		return QBRT_DTYPE_FLOAT32;
	if (match->is_raw && device_dtype == QBRT_DTYPE_INT8)
		return device_dtype;
	return qbrt_layout_converts(device_dtype, host_dtype) ? host_dtype
							      : device_dtype;
}

size_t qbrt_match_get_shape(const struct qbrt_array_match *match, size_t output,
			    int64_t *shape)
{
	const struct qbm_io *io = &match->outputs[output];
	size_t num = match->num_runs * qbrt_match_get_unit(match, io);
	bool has_batch = match->has_batch || num > 1;

	if (has_batch)
		*shape++ = (int64_t)num;
	for (size_t i = 0; i < io->rank; i++)
		shape[qbrt_match_get_axis(match, io, i)] =
			qbrt_match_get_extent(match, io, i);
	return io->rank + has_batch;
}

/* Of the type that TO_FLOAT asks for, else of any that the container allows. */
static bool takes_dtype(const struct qbrt_array_match *match, size_t output,
			enum qbrt_dtype dtype, uint32_t *supported)
{
	const struct qbm_io *io = &match->outputs[output];

	*supported = 1u << qbrt_match_get_dtype(match, output);
	if (!match->is_to_float)
		*supported |= io->accepted_dtypes;
	return *supported >> dtype & 1 &&
	       qbrt_layout_converts((enum qbrt_dtype)io->device_dtype, dtype);
}

static enum qbrt_status check_output(const struct qbrt_array_match *match,
				     const struct qbrt_array_list *outputs,
				     size_t index)
{
	const struct qbrt_array *array = &outputs->arrays[index];
	const struct qbrt_model *model = match->model;
	int64_t shape[QBRT_ARRAY_MAX_NDIM];
	size_t ndim = qbrt_match_get_shape(match, index, shape);
	uint32_t supported;
	char expected[192];
	char given[192];

	if (array->ndim != ndim ||
	    (ndim && memcmp(array->shape, shape, ndim * sizeof(shape[0])) != 0))
		return qbrt_fail(
			QBRT_MODEL_SHAPE_MISMATCHED,
			"%s: output %zu (%s): shape %s expected, %s given",
			model->name, index,
			qbrt_model_file_string(model->file,
					       match->outputs[index].name),
			qbrt_shape_text(shape, ndim, expected,
					sizeof(expected)),
			qbrt_shape_text(array->shape, array->ndim, given,
					sizeof(given)));
	if (!takes_dtype(match, index, array->dtype, &supported))
		return qbrt_match_refuse_dtype(match, outputs, index,
					       supported);
	return QBRT_OK;
}

enum qbrt_status qbrt_match_check_outputs(const struct qbrt_array_match *match,
					  const struct qbrt_array_list *outputs)
{
	enum qbrt_status status = QBRT_OK;

	if (outputs->num != match->entry->output_count)
		return qbrt_fail(QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
				 "%s: %u output%s expected, %zu given",
				 match->model->name, match->entry->output_count,
				 qbrt_plural(match->entry->output_count),
				 outputs->num);
	for (size_t i = 0; i < outputs->num && !status; i++)
		status = check_output(match, outputs, i);
	return status;
}

/* What both queries ask of a model that is there. */
static enum qbrt_status match_query(const struct qbrt_model *model,
				    const struct qbrt_infer_options *options,
				    const struct qbrt_array_list *inputs,
				    struct qbrt_array_match *match)
{
	struct qbrt_infer_options known;
	enum qbrt_status status = qbrt_arrays_read_options(
		model, options, QBRT_ARRAY_FLAGS, &known);

	if (!status)
		status = qbrt_arrays_check(model, inputs);
	if (status)
		return status;
	status = qbrt_arrays_match(model, known.flags, inputs, match);
	return qbrt_match_end(status, match, inputs);
}

QBRT_API enum qbrt_status
qbrt_model_query_match(const struct qbrt_model *model,
		       const struct qbrt_infer_options *options,
		       const struct qbrt_array *inputs, size_t num_inputs,
		       struct qbrt_match *match)
{
	const struct qbrt_array_list list = { "input", inputs, num_inputs };
	struct qbrt_array_match found;
	struct qbrt_match now = { 0 };
	enum qbrt_status status;

	if (!model || !match || match->size < sizeof(match->size))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_query_match: %s",
				 !model   ? "model is NULL"
				 : !match ? "match is NULL"
					  : "match->size is not set");
	status = match_query(model, options, &list, &found);
	if (status)
		return status;
	now.size = match->size;
	now.variant = found.variant;
	if (found.has_batch)
		now.batch = found.num_runs * found.entry->batch;
	now.layout = found.is_chw ? QBRT_LAYOUT_CHW : QBRT_LAYOUT_HWC;
	now.is_ambiguous = found.is_ambiguous;
	qbrt_answer(match, now.size, &now, sizeof(now));
	return QBRT_OK;
}

enum qbrt_status
qbrt_match_describe_output(const struct qbrt_array_match *match, size_t index,
			   struct qbrt_io_info *info)
{
	const struct qbrt_model *model = match->model;
	struct qbrt_io_info now = { 0 };
	const struct qbm_io *io;

	if (index >= match->entry->output_count)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: output %zu asked for, the number of them "
				 "is %u",
				 model->name, index,
				 match->entry->output_count);
	io = &match->outputs[index];
	now.size = info->size;
	now.name = qbrt_model_file_string(model->file, io->name);
	now.dtype = qbrt_match_get_dtype(match, index);
	now.pinned_dtype = (enum qbrt_dtype)io->device_dtype;
	now.ndim = qbrt_match_get_shape(match, index, now.shape);
	memcpy(now.max_shape, now.shape, sizeof(now.shape));
	now.max_nbytes = qbrt_dtype_itemsize(now.pinned_dtype);
	for (size_t i = 0; i < now.ndim; i++)
		if (qbrt_mul_overflows(now.max_nbytes, (uint64_t)now.shape[i],
				       &now.max_nbytes))
			now.max_nbytes = SIZE_MAX;
	qbrt_answer(info, now.size, &now, sizeof(now));
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_query_match_output(const struct qbrt_model *model,
			      const struct qbrt_infer_options *options,
			      const struct qbrt_array *inputs,
			      size_t num_inputs, size_t index,
			      struct qbrt_io_info *info)
{
	const struct qbrt_array_list list = { "input", inputs, num_inputs };
	struct qbrt_array_match match;
	enum qbrt_status status;

	if (!model || !info || info->size < sizeof(info->size))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_query_match_output: %s",
				 !model  ? "model is NULL"
				 : !info ? "info is NULL"
					 : "info->size is not set");
	status = match_query(model, options, &list, &match);
	return status ? status
		      : qbrt_match_describe_output(&match, index, info);
}
