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

static enum qbrt_status query_io(const struct qbrt_model *model, size_t number,
				 bool is_input, size_t index,
				 struct qbrt_io_info *info)
{
	const struct qbm_variant *variant;
	uint32_t first;
	uint32_t count;

	if (!model || !info || info->size < sizeof(info->size))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "model query: %s",
				 !model  ? "model is NULL"
				 : !info ? "info is NULL"
					 : "info->size is not set");
	if (number >= model->file->vari->variant_count)
		return qbrt_fail(QBRT_MODEL_INVALID_VARIANT_IDX,
				 "%s: variant %zu asked for, there are %u",
				 model->name, number,
				 model->file->vari->variant_count);
	variant = &model->file->variants[number];
	first = is_input ? variant->first_input : variant->first_output;
	count = is_input ? variant->input_count : variant->output_count;
	if (index >= count)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: %s %zu of variant %zu asked for, there "
				 "are %u",
				 model->name, is_input ? "input" : "output",
				 index, number, count);
	describe(model, variant, &model->file->ios[first + index], info);
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

/* A buffer of variant 0's input or output at its largest. */
static enum qbrt_status alloc_io(struct qbrt_model *model, bool is_input,
				 size_t index, struct qbrt_pinned_memory **mem)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	int64_t shape[QBRT_PINNED_MAX_NDIM];
	const struct qbm_variant *variant;
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
	status = qbrt_pinned_memory_alloc_on(
		launched->device, info.pinned_dtype, shape, ndim, NULL, mem);
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
