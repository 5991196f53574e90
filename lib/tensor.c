// SPDX-License-Identifier: MIT
/*
 * Handles of tensors: what they say, and the waits for their storage.
 */
#include "tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

struct qbrt_tensor *qbrt_tensor_alloc(size_t ndim)
{
	struct qbrt_tensor *tensor =
		malloc(sizeof(*tensor) + 3 * ndim * sizeof(*tensor->shape));

	if (!tensor) {
		(void)qbrt_fail_errno(QBRT_AT_BO_CREATE, -ENOMEM,
				      "no memory for a tensor's handle");
		return NULL;
	}
	tensor->ndim = ndim;
	tensor->counts = tensor->shape + ndim;
	tensor->strides = tensor->counts + ndim;
	return tensor;
}

void qbrt_tensor_finish(struct qbrt_tensor *tensor,
			struct qbrt_storage *storage)
{
	size_t axis;

	tensor->has_counts = qbrt_dlpack_count_strides(
		tensor->shape, tensor->strides, tensor->ndim, tensor->itemsize,
		tensor->counts, &axis);
	tensor->storage = storage;
	qbrt_count(tensors);
}

enum qbrt_status qbrt_tensor_begin_read(const struct qbrt_tensor *tensor)
{
	struct qbrt_storage *storage = tensor->storage;
	enum qbrt_status status;

	if (!storage->device)
		return QBRT_OK;
	status = qbrt_device_check_fork(storage->device);
	if (status)
		return status;
	status = qbrt_storage_take_read(storage);
	if (status)
		return status;
	status = qbrt_storage_check_valid(storage);
	if (status)
		qbrt_storage_end_read(storage);
	return status;
}

void qbrt_tensor_end_read(const struct qbrt_tensor *tensor)
{
	if (tensor->storage->device)
		qbrt_storage_end_read(tensor->storage);
}

enum qbrt_status qbrt_tensor_check_stream(const struct qbrt_stream *stream)
{
	if (!stream)
		return QBRT_OK;
	return qbrt_fail(QBRT_NOT_IMPLEMENTED,
			 "this version has no streams: expected stream NULL");
}

QBRT_API enum qbrt_status
qbrt_tensor_from_pinned_memory(struct qbrt_pinned_memory *mem, uint32_t flags,
			       struct qbrt_tensor **tensor)
{
	struct qbrt_tensor *handle;
	enum qbrt_status status;

	if (!mem || !tensor)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 mem ? "tensor" : "mem");
	if (flags & ~QBRT_TENSOR_FLAG_READ_ONLY)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "flags are 0x%x, known is 0x%x", flags,
				 QBRT_TENSOR_FLAG_READ_ONLY);
	status = qbrt_device_check_fork(mem->storage->device);
	if (status)
		return status;
	handle = qbrt_tensor_alloc(mem->ndim);
	if (!handle)
		return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	handle->data = mem->data;
	handle->byte_offset = 0;
	handle->device = (struct qbrt_dlpack_device){ .type = kDLCPU };
	handle->dtype = qbrt_dlpack_from_dtype(mem->dtype);
	handle->is_read_only = flags & QBRT_TENSOR_FLAG_READ_ONLY ||
			       mem->storage->buffer.is_read_only;
	handle->is_padded = false;
	handle->itemsize = mem->itemsize;
	handle->num_elements = mem->num_elements;
	handle->nbytes = mem->nbytes;
	memcpy(handle->shape, mem->shape, mem->ndim * sizeof(*mem->shape));
	memcpy(handle->strides, mem->strides,
	       mem->ndim * sizeof(*mem->strides));
	qbrt_tensor_finish(handle, qbrt_storage_ref(mem->storage));
	*tensor = handle;
	return QBRT_OK;
}

static enum qbrt_status check(const struct qbrt_tensor *tensor,
			      const char *function)
{
	if (!tensor)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s: tensor is NULL",
				 function);
	return tensor->storage->device
		       ? qbrt_device_check_fork(tensor->storage->device)
		       : QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_tensor_query(const struct qbrt_tensor *tensor,
					    bool *ready)
{
	enum qbrt_status status = check(tensor, "qbrt_tensor_query");

	if (status)
		return status;
	if (!ready)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_tensor_query: ready is NULL");
	*ready = !tensor->storage->device ||
		 qbrt_storage_is_written(tensor->storage);
	return QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_tensor_wait(const struct qbrt_tensor *tensor,
					   int64_t timeout)
{
	enum qbrt_status status = check(tensor, "qbrt_tensor_wait");

	if (status || !tensor->storage->device)
		return status;
	return qbrt_storage_wait(tensor->storage, timeout);
}

QBRT_API void *qbrt_tensor_get_data(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->data : NULL;
}

QBRT_API uint64_t qbrt_tensor_get_byte_offset(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->byte_offset : 0;
}

QBRT_API void *qbrt_tensor_get_first_element(const struct qbrt_tensor *tensor)
{
	if (!tensor || !tensor->data)
		return NULL;
	return (char *)tensor->data + tensor->byte_offset;
}

QBRT_API enum qbrt_dtype qbrt_tensor_get_dtype(const struct qbrt_tensor *tensor)
{
	return tensor ? qbrt_dlpack_get_dtype(tensor->dtype) : QBRT_DTYPE_ERROR;
}

QBRT_API struct qbrt_dlpack_dtype
qbrt_tensor_get_dlpack_dtype(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->dtype : (struct qbrt_dlpack_dtype){ .code = 0 };
}

QBRT_API struct qbrt_dlpack_device
qbrt_tensor_get_dlpack_device(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->device
		      : (struct qbrt_dlpack_device){ .type = 0 };
}

QBRT_API size_t qbrt_tensor_get_ndim(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->ndim : 0;
}

QBRT_API const int64_t *qbrt_tensor_get_shape(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->shape : NULL;
}

QBRT_API const int64_t *
qbrt_tensor_get_strides(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->strides : NULL;
}

QBRT_API size_t qbrt_tensor_get_itemsize(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->itemsize : 0;
}

QBRT_API size_t qbrt_tensor_get_num_elements(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->num_elements : 0;
}

QBRT_API size_t qbrt_tensor_get_nbytes(const struct qbrt_tensor *tensor)
{
	return tensor ? tensor->nbytes : 0;
}

QBRT_API bool qbrt_tensor_is_read_only(const struct qbrt_tensor *tensor)
{
	return tensor && tensor->is_read_only;
}

QBRT_API bool qbrt_tensor_is_contiguous(const struct qbrt_tensor *tensor)
{
	return tensor && qbrt_dlpack_is_dense(tensor->shape, tensor->strides,
					      tensor->ndim, tensor->itemsize);
}

QBRT_API const char *qbrt_tensor_get_device(const struct qbrt_tensor *tensor)
{
	return tensor && tensor->storage->device ? tensor->storage->device->id
						 : NULL;
}

QBRT_API void qbrt_tensor_free(struct qbrt_tensor *tensor)
{
	if (!tensor)
		return;
	qbrt_storage_unref(tensor->storage);
	free(tensor);
	qbrt_uncount(tensors);
}
