// SPDX-License-Identifier: MIT
/*
 * Allocation and getters of pinned memory. What the handle says never changes
 * after alloc; it holds a reference on its storage, and that one on the
 * device, so it outlives the accelerator handle it came from.
 */
#include "pinned-memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "dtype.h"
#include "status.h"
#include "util.h"

#define MIN_ALIGNMENT 64
#define MAX_ALIGNMENT ((size_t)1 << 21)
#define TEXT_SIZE 192 /* of a shape of eight axes */
/* Longer options than this are garbage, not a newer library's. */
#define MAX_OPTIONS_NBYTES 4096

/* Q731: a shorter struct is filled up, a longer one must be zero beyond. */
static enum qbrt_status read_options(const struct qbrt_pinned_options *given,
				     struct qbrt_pinned_options *options)
{
	const unsigned char *bytes = (const unsigned char *)given;
	size_t i;

	memset(options, 0, sizeof(*options));
	if (given) {
		if (given->size < sizeof(given->size) ||
		    given->size > MAX_OPTIONS_NBYTES)
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "size of the options is %zu, expected "
					 "sizeof(struct qbrt_pinned_options)",
					 given->size);
		for (i = sizeof(*options); i < given->size; i++)
			if (bytes[i])
				return qbrt_fail(QBRT_INVALID_ARGUMENT,
						 "byte %zu of the options is "
						 "not known to this version",
						 i);
		memcpy(options, given,
		       given->size < sizeof(*options) ? given->size
						      : sizeof(*options));
	}
	if (options->flags & ~QBRT_PINNED_REQUIRE_CONTIGUOUS)
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT, "flags are 0x%x, known is 0x%x",
			options->flags, QBRT_PINNED_REQUIRE_CONTIGUOUS);
	if (options->reserved)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "reserved is %u, expected 0",
				 options->reserved);
	if (!options->alignment)
		options->alignment = MIN_ALIGNMENT;
	if (!qbrt_is_power_of_two(options->alignment) ||
	    options->alignment < MIN_ALIGNMENT ||
	    options->alignment > MAX_ALIGNMENT)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "alignment is %zu, expected a power of two "
				 "from %d to %zu",
				 options->alignment, MIN_ALIGNMENT,
				 MAX_ALIGNMENT);
	return QBRT_OK;
}

enum qbrt_status qbrt_pinned_memory_set_shape(struct qbrt_pinned_memory *mem,
					      const struct qbrt_device *device,
					      enum qbrt_dtype dtype,
					      const int64_t *shape, size_t ndim)
{
	char text[TEXT_SIZE];
	int64_t stride;
	size_t i;

	if (!qbrt_dtype_is_valid(dtype))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "dtype %d is none of enum qbrt_dtype",
				 (int)dtype);
	if (ndim > QBRT_PINNED_MAX_NDIM)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "shape has %zu axes, at most %d are possible",
				 ndim, QBRT_PINNED_MAX_NDIM);
	for (i = 0; i < ndim; i++)
		if (shape[i] < 1)
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "extent %zu of shape %s is not "
					 "positive",
					 i,
					 qbrt_shape_text(shape, ndim, text,
							 sizeof(text)));
	if (!qbrt_dtype_count(dtype, shape, ndim, &mem->num_elements,
			      &mem->nbytes) ||
	    mem->nbytes > device->facts.max_bo_size)
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT,
			"shape %s of %s is too large; a buffer of "
			"device %s has at most %llu bytes",
			qbrt_shape_text(shape, ndim, text, sizeof(text)),
			qbrt_dtype_name(dtype), device->id,
			(unsigned long long)device->facts.max_bo_size);
	mem->dtype = dtype;
	mem->itemsize = qbrt_dtype_itemsize(dtype);
	mem->ndim = ndim;
	stride = (int64_t)mem->itemsize;
	for (i = ndim; i--;) {
		mem->shape[i] = shape[i];
		mem->strides[i] = stride;
		stride *= shape[i];
	}
	return QBRT_OK;
}

enum qbrt_status
qbrt_pinned_memory_alloc_on(struct qbrt_device *device, enum qbrt_dtype dtype,
			    const int64_t *shape, size_t ndim,
			    const struct qbrt_pinned_options *options,
			    struct qbrt_pinned_memory **mem)
{
	struct qbrt_pinned_memory *handle = malloc(sizeof(*handle));
	struct qbrt_pinned_options full;
	struct qbrt_buffer buffer;
	enum qbrt_status status;

	if (!handle)
		return qbrt_fail_errno(
			QBRT_AT_BO_CREATE, -ENOMEM,
			"no memory for a pinned memory's handle");
	handle->nbytes = 0;
	status = qbrt_pinned_memory_set_shape(handle, device, dtype, shape,
					      ndim);
	if (!status)
		status = read_options(options, &full);
	if (status)
		goto err_free;
	status = qbrt_device_take_buffer(
		device, handle->nbytes, full.alignment,
		full.flags & QBRT_PINNED_REQUIRE_CONTIGUOUS, &buffer);
	if (status)
		goto err_free;
	handle->storage = qbrt_storage_alloc(device, &buffer, handle->nbytes);
	if (!handle->storage) {
		status = qbrt_fail_errno(
			QBRT_AT_BO_CREATE, -ENOMEM,
			"no memory for a pinned memory's handle");
		goto err_give_buffer;
	}
	handle->offset = 0;
	handle->data = buffer.data;
	qbrt_count(live_buffers);
	*mem = handle;
	return QBRT_OK;

err_give_buffer:
	qbrt_device_give_buffer(device, &buffer);
err_free:
	free(handle);
	return status;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_alloc(struct qbrt_accelerator *acc, enum qbrt_dtype dtype,
			 const int64_t *shape, size_t ndim,
			 const struct qbrt_pinned_options *options,
			 struct qbrt_pinned_memory **mem)
{
	enum qbrt_status status;

	if (!acc || !mem || (!shape && ndim))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 !acc   ? "acc"
				 : !mem ? "mem"
					: "shape");
	status = qbrt_device_check_fork(acc->device);
	if (status)
		return status;
	return qbrt_pinned_memory_alloc_on(acc->device, dtype, shape, ndim,
					   options, mem);
}

QBRT_API void qbrt_pinned_memory_free(struct qbrt_pinned_memory *mem)
{
	if (!mem)
		return;
	qbrt_storage_unref(mem->storage);
	free(mem);
	qbrt_uncount(live_buffers);
}

QBRT_API void *qbrt_pinned_memory_get_data(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->data : NULL;
}

QBRT_API size_t
qbrt_pinned_memory_get_nbytes(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->nbytes : 0;
}

QBRT_API size_t
qbrt_pinned_memory_get_num_elements(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->num_elements : 0;
}

QBRT_API enum qbrt_dtype
qbrt_pinned_memory_get_dtype(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->dtype : (enum qbrt_dtype)0;
}

QBRT_API size_t
qbrt_pinned_memory_get_ndim(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->ndim : 0;
}

QBRT_API const int64_t *
qbrt_pinned_memory_get_shape(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->shape : NULL;
}

QBRT_API const int64_t *
qbrt_pinned_memory_get_strides(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->strides : NULL;
}

/* The uAPI numbers the classes as enum qbrt_contiguity does. */
QBRT_API enum qbrt_contiguity
qbrt_pinned_memory_get_contiguity(const struct qbrt_pinned_memory *mem)
{
	return mem ? (enum qbrt_contiguity)mem->storage->buffer.contiguity
		   : QBRT_CONTIGUITY_NONE;
}

QBRT_API const char *
qbrt_pinned_memory_get_device(const struct qbrt_pinned_memory *mem)
{
	return mem ? mem->storage->device->id : NULL;
}

QBRT_API bool
qbrt_pinned_memory_is_available(const struct qbrt_pinned_memory *mem)
{
	return mem && !qbrt_device_is_inherited(mem->storage->device);
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_query_device_address(const struct qbrt_pinned_memory *mem,
					uint64_t *address)
{
	enum qbrt_status status;

	if (!mem || !address)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 mem ? "address" : "mem");
	status = qbrt_device_check_fork(mem->storage->device);
	if (status)
		return status;
	if (mem->storage->buffer.device_address == DRM_QBNPU_UNKNOWN)
		return qbrt_fail(QBRT_NOT_IMPLEMENTED,
				 "the driver of device %s does not tell "
				 "addresses to this process",
				 mem->storage->device->id);
	*address = mem->storage->buffer.device_address + mem->offset;
	return QBRT_OK;
}
