// SPDX-License-Identifier: MIT
/*
 * What a model tells about its inputs, outputs and caches, all of it from the
 * file, and buffers that fit.
 */
#include "model.h"

#include <string.h>

#include "pinned-memory.h"
#include "status.h"
#include "util.h"

/* The largest shape: the variable axis is what is left of the largest size. */
static void get_max_shape(const struct qbm_io *io, uint32_t batch,
			  int64_t *shape)
{
	uint64_t rest = io->size /
			qbrt_dtype_itemsize((enum qbrt_dtype)io->device_dtype);

	if (io->flags & QBRT_IO_BATCHED)
		rest /= batch;
	for (size_t i = 0; i < io->rank; i++) {
		shape[i] = io->shape[i];
		if (io->shape[i] > 0)
			rest /= (uint64_t)io->shape[i];
	}
	for (size_t i = 0; i < io->rank; i++)
		if (io->shape[i] < 0)
			shape[i] = (int64_t)rest;
}

static void describe(const struct qbrt_model *model,
		     const struct qbm_variant *variant, const struct qbm_io *io,
		     struct qbrt_io_info *info)
{
	struct qbrt_io_info now = {
		.size = info->size,
		.name = qbrt_model_file_string(model->file, io->name),
		.dtype = (enum qbrt_dtype)io->host_dtype,
		.pinned_dtype = (enum qbrt_dtype)io->device_dtype,
		.ndim = io->rank,
		.max_nbytes = io->size,
	};

	for (size_t i = 0; i < io->rank; i++)
		now.shape[i] = io->shape[i];
	get_max_shape(io, variant->batch, now.max_shape);
	qbrt_answer(info, now.size, &now, sizeof(now));
}

/* info: whose first field is its size. NULL: *status says why. */
static const struct qbm_io *find_io(const struct qbrt_model *model,
				    size_t number, bool is_input, size_t index,
				    const void *info, enum qbrt_status *status)
{
	const struct qbm_variant *variant;
	uint32_t first;
	uint32_t count;

	if (!model || !info || *(const size_t *)info < sizeof(size_t)) {
		*status = qbrt_fail(QBRT_INVALID_ARGUMENT, "model query: %s",
				    !model  ? "model is NULL"
				    : !info ? "info is NULL"
					    : "info->size is not set");
		return NULL;
	}
	if (number >= model->file->vari->variant_count) {
		*status = qbrt_fail(
			QBRT_MODEL_INVALID_VARIANT_IDX,
			"%s: variant %zu asked for, the number of them is %u",
			model->name, number, model->file->vari->variant_count);
		return NULL;
	}
	variant = &model->file->variants[number];
	first = is_input ? variant->first_input : variant->first_output;
	count = is_input ? variant->input_count : variant->output_count;
	if (index >= count) {
		*status = qbrt_fail(
			QBRT_INVALID_ARGUMENT,
			"%s: %s %zu of variant %zu asked for, the number of them is %u",
			model->name, is_input ? "input" : "output", index,
			number, count);
		return NULL;
	}
	*status = QBRT_OK;
	return &model->file->ios[first + index];
}

static enum qbrt_status query_io(const struct qbrt_model *model, size_t number,
				 bool is_input, size_t index,
				 struct qbrt_io_info *info)
{
	enum qbrt_status status;
	const struct qbm_io *io =
		find_io(model, number, is_input, index, info, &status);

	if (!io)
		return status;
	describe(model, &model->file->variants[number], io, info);
	return QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_model_query_input(const struct qbrt_model *model,
						 size_t variant, size_t index,
						 struct qbrt_io_info *info)
{
	return query_io(model, variant, true, index, info);
}

QBRT_API enum qbrt_status
qbrt_model_query_output(const struct qbrt_model *model, size_t variant,
			size_t index, struct qbrt_io_info *info)
{
	return query_io(model, variant, false, index, info);
}

/* MM05: 128 is the middle of unsigned bytes, so symmetric too. */
static bool is_asymmetric(const struct qbm_io *io)
{
	if (io->device_dtype == QBRT_DTYPE_UINT8 && io->zero_point == 128)
		return false;
	return io->zero_point != 0;
}

static enum qbrt_status query_scale(const struct qbrt_model *model,
				    size_t number, bool is_input, size_t index,
				    struct qbrt_scale_info *info)
{
	enum qbrt_status status;
	const struct qbm_io *io =
		find_io(model, number, is_input, index, info, &status);
	struct qbrt_scale_info now = { 0 };

	if (!io)
		return status;
	now.size = info->size;
	now.is_uniform = !io->scale_count;
	now.scales = now.is_uniform ? &io->scale
				    : model->file->scales + io->scale_first;
	now.num_scales = now.is_uniform ? 1 : io->scale_count;
	now.scale = io->scale;
	now.zero_point = io->zero_point;
	now.is_asymmetric = is_asymmetric(io);
	qbrt_answer(info, now.size, &now, sizeof(now));
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_query_input_scale(const struct qbrt_model *model, size_t variant,
			     size_t index, struct qbrt_scale_info *info)
{
	return query_scale(model, variant, true, index, info);
}

QBRT_API enum qbrt_status
qbrt_model_query_output_scale(const struct qbrt_model *model, size_t variant,
			      size_t index, struct qbrt_scale_info *info)
{
	return query_scale(model, variant, false, index, info);
}

static enum qbrt_status query_buffer(const struct qbrt_model *model,
				     size_t number, bool is_input, size_t index,
				     struct qbrt_buffer_info *info)
{
	enum qbrt_status status;
	const struct qbm_io *io =
		find_io(model, number, is_input, index, info, &status);
	struct qbrt_buffer_info now;

	if (!io)
		return status;
	now = (struct qbrt_buffer_info){
		.size = info->size,
		.original_height = io->buffer_info[0],
		.original_width = io->buffer_info[1],
		.original_channel = io->buffer_info[2],
		.reshaped_height = io->buffer_info[3],
		.reshaped_width = io->buffer_info[4],
		.reshaped_channel = io->buffer_info[5],
		.height = io->buffer_info[6],
		.width = io->buffer_info[7],
		.channel = io->buffer_info[8],
		.max_height = io->buffer_info[9],
		.max_width = io->buffer_info[10],
		.max_channel = io->buffer_info[11],
		.max_cache_size = io->buffer_info[12],
	};
	qbrt_answer(info, now.size, &now, sizeof(now));
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_query_input_buffer(const struct qbrt_model *model, size_t variant,
			      size_t index, struct qbrt_buffer_info *info)
{
	return query_buffer(model, variant, true, index, info);
}

QBRT_API enum qbrt_status
qbrt_model_query_output_buffer(const struct qbrt_model *model, size_t variant,
			       size_t index, struct qbrt_buffer_info *info)
{
	return query_buffer(model, variant, false, index, info);
}

QBRT_API enum qbrt_status qbrt_model_query_cache(const struct qbrt_model *model,
						 size_t layer,
						 struct qbrt_cache_info *info)
{
	const struct qbrt_model_file *file;
	struct qbrt_cache_info now = { 0 };

	if (!model || !info || info->size < sizeof(info->size))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_query_cache: %s",
				 !model  ? "model is NULL"
				 : !info ? "info is NULL"
					 : "info->size is not set");
	file = model->file;
	if (!file->cach)
		return qbrt_fail(QBRT_MODEL_NO_CACHE,
				 "%s: has no KV cache, layer %zu asked for",
				 model->name, layer);
	if (layer >= file->cach->count)
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT,
			"%s: cache layer %zu asked for, the number of them is %u",
			model->name, layer, file->cach->count);
	now.size = info->size;
	now.name = qbrt_model_file_string(file, file->caches[layer].name);
	now.layer_hash = model->layer_hashes[layer];
	now.nbytes = file->caches[layer].size;
	now.num_caches = file->cach->cache_count;
	now.type = (enum qbrt_cache_type)file->cach->cache_type;
	qbrt_answer(info, now.size, &now, sizeof(now));
	return QBRT_OK;
}

/* It lies where the binding of variant 0's input or output may lie. */
static struct qbrt_pinned_options
get_buffer_options(const struct qbrt_launched *launched, bool is_input,
		   size_t index)
{
	const struct qbrt_launched_variant *variant = &launched->variants[0];
	size_t number =
		is_input ? index : variant->variant->input_count + index;
	uint32_t binding = variant->bindings[number].index;

	return (struct qbrt_pinned_options){
		.size = sizeof(struct qbrt_pinned_options),
		.alignment = (size_t)1
			     << variant->facts->bindings[binding].align_log2,
	};
}

/* A buffer of variant 0's input or output at its largest. */
static enum qbrt_status alloc_io(struct qbrt_model *model, bool is_input,
				 size_t index, struct qbrt_pinned_memory **mem)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	int64_t shape[QBRT_PINNED_MAX_NDIM];
	const struct qbm_variant *variant;
	struct qbrt_pinned_options options;
	struct qbrt_launched *launched;
	const struct qbm_io *io;
	enum qbrt_status status;
	size_t ndim = 0;

	if (!mem)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "model buffer: mem is NULL");
	status = query_io(model, 0, is_input, index, &info);
	if (status)
		return status;
	variant = &model->file->variants[0];
	io = &model->file->ios[(is_input ? variant->first_input
					 : variant->first_output) +
			       index];
	if (io->flags & QBRT_IO_BATCHED && variant->batch > 1)
		shape[ndim++] = variant->batch;
	memcpy(shape + ndim, info.max_shape, info.ndim * sizeof(shape[0]));
	ndim += info.ndim;
	status = qbrt_model_enter(model, &launched);
	if (status)
		return status;
	options = get_buffer_options(launched, is_input, index);
	status =
		qbrt_pinned_memory_alloc_on(launched->device, info.pinned_dtype,
					    shape, ndim, &options, mem);
	qbrt_model_leave(model);
	return status;
}

QBRT_API enum qbrt_status
qbrt_model_alloc_input(struct qbrt_model *model, size_t index,
		       struct qbrt_pinned_memory **mem)
{
	return alloc_io(model, true, index, mem);
}

QBRT_API enum qbrt_status
qbrt_model_alloc_output(struct qbrt_model *model, size_t index,
			struct qbrt_pinned_memory **mem)
{
	return alloc_io(model, false, index, mem);
}
