// SPDX-License-Identifier: MIT
/*
 * Copies of tensors into memory in C order. Elements of any size are bytes:
 * each is an inner axis of words that layout.c moves, and axes that lie one
 * behind the other are one. What is left of more than layout.c's eight axes is
 * counted through around it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "status.h"
#include "tensor.h"
#include "util.h"

#define ALIGNMENT 64
#define MAX_AXES (QBRT_DLPACK_MAX_NDIM + 1)

struct axes {
	size_t num;
	int64_t shape[MAX_AXES];
	int64_t strides[MAX_AXES]; /* bytes, of the source */
};

static void add_axis(struct axes *axes, int64_t extent, int64_t stride)
{
	size_t i = axes->num;

	if (extent == 1)
		return;
	if (i && axes->strides[i - 1] == stride * extent) {
		axes->shape[i - 1] *= extent;
		axes->strides[i - 1] = stride;
		return;
	}
	axes->shape[i] = extent;
	axes->strides[i] = stride;
	axes->num++;
}

/* The largest word that an element is a number of. */
static enum qbrt_dtype get_word(size_t itemsize)
{
	switch (itemsize & -itemsize) {
	case 1:
		return QBRT_DTYPE_UINT8;
	case 2:
		return QBRT_DTYPE_UINT16;
	case 4:
		return QBRT_DTYPE_UINT32;
	default:
		return QBRT_DTYPE_UINT64;
	}
}

/* The next index of the outer axes; false: it was the last one. */
static bool count_on(const struct axes *axes, size_t num, int64_t *index,
		     char **from)
{
	for (size_t i = num; i--;) {
		*from += axes->strides[i];
		if (++index[i] < axes->shape[i])
			return true;
		*from -= index[i] * axes->strides[i];
		index[i] = 0;
	}
	return false;
}

static void copy_axes(const struct axes *axes, enum qbrt_dtype word, char *to,
		      char *from)
{
	size_t num = axes->num > QBRT_VIEW_MAX_NDIM
			     ? axes->num - QBRT_VIEW_MAX_NDIM
			     : 0;
	int64_t index[MAX_AXES] = { 0 };
	struct qbrt_view dst, src;

	do {
		/* they fit: the tensor's own offsets do */
		(void)qbrt_view_set(&dst, to, word, axes->shape + num,
				    axes->num - num, NULL);
		(void)qbrt_view_set(&src, from, word, axes->shape + num,
				    axes->num - num, axes->strides + num);
		qbrt_layout_copy(&dst, &src, NULL);
		to += qbrt_view_get_nbytes(&dst);
	} while (count_on(axes, num, index, &from));
}

static void copy_elements(const struct qbrt_tensor *tensor, char *to)
{
	enum qbrt_dtype word = get_word(tensor->itemsize);
	int64_t word_size = (int64_t)qbrt_dtype_itemsize(word);
	struct axes axes = { .num = 0 };

	if (!tensor->num_elements)
		return;
	for (size_t i = 0; i < tensor->ndim; i++)
		add_axis(&axes, tensor->shape[i], tensor->strides[i]);
	add_axis(&axes, (int64_t)tensor->itemsize / word_size, word_size);
	copy_axes(&axes, word, to, qbrt_tensor_get_first_element(tensor));
}

/* NULL with its sentence in *status: no memory. */
static struct qbrt_storage *alloc_pinned(struct qbrt_device *device,
					 size_t nbytes, void **data,
					 enum qbrt_status *status)
{
	struct qbrt_buffer buffer;
	struct qbrt_storage *storage;

	*status = qbrt_device_take_buffer(device, nbytes, ALIGNMENT, false,
					  &buffer);
	if (*status)
		return NULL;
	*data = buffer.data;
	storage = qbrt_storage_alloc(device, &buffer, nbytes);
	if (!storage) {
		qbrt_device_give_buffer(device, &buffer);
		*status = qbrt_fail_errno(QBRT_AT_BO_CREATE, -ENOMEM,
					  "no memory for a tensor's storage");
	}
	return storage;
}

/* No elements need no memory. */
static struct qbrt_storage *alloc_host(size_t nbytes, void **data,
				       enum qbrt_status *status)
{
	void *memory = NULL;
	struct qbrt_storage *storage = NULL;

	if (nbytes)
		memory = aligned_alloc(ALIGNMENT,
				       qbrt_round_up(nbytes, ALIGNMENT));
	if (memory || !nbytes)
		storage = qbrt_storage_alloc_foreign(free, memory, false);
	if (storage) {
		*data = memory;
		return storage;
	}
	free(memory);
	*status = qbrt_fail_errno(QBRT_AT_BO_CREATE, -ENOMEM,
				  "no memory for a copy of %zu bytes", nbytes);
	return NULL;
}

static enum qbrt_status make_copy(const struct qbrt_tensor *tensor,
				  struct qbrt_tensor *handle)
{
	struct qbrt_device *device = tensor->storage->device;
	enum qbrt_status status;
	struct qbrt_storage *storage =
		device ? alloc_pinned(device, tensor->nbytes, &handle->data,
				      &status)
		       : alloc_host(tensor->nbytes, &handle->data, &status);

	if (!storage)
		return status;
	status = qbrt_tensor_begin_read(tensor);
	if (status) {
		qbrt_storage_unref(storage);
		return status;
	}
	copy_elements(tensor, handle->data);
	qbrt_tensor_end_read(tensor);
	handle->byte_offset = 0;
	handle->device = (struct qbrt_dlpack_device){ .type = kDLCPU };
	handle->dtype = tensor->dtype;
	handle->is_read_only = false;
	handle->is_padded = tensor->is_padded;
	handle->itemsize = tensor->itemsize;
	handle->num_elements = tensor->num_elements;
	handle->nbytes = tensor->nbytes;
	memcpy(handle->shape, tensor->shape,
	       tensor->ndim * sizeof(*tensor->shape));
	qbrt_dlpack_set_dense(handle->shape, handle->ndim, handle->itemsize,
			      handle->strides);
	qbrt_tensor_finish(handle, storage);
	return QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_tensor_copy(const struct qbrt_tensor *tensor,
					   struct qbrt_stream *stream,
					   struct qbrt_tensor **copy)
{
	struct qbrt_tensor *handle;
	enum qbrt_status status;

	if (!tensor || !copy)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 tensor ? "copy" : "tensor");
	status = qbrt_tensor_check_stream(stream);
	if (status)
		return status;
	if (tensor->storage->device) {
		status = qbrt_device_check_fork(tensor->storage->device);
		if (status)
			return status;
	}
	handle = qbrt_tensor_alloc(tensor->ndim);
	if (!handle)
		return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	status = make_copy(tensor, handle);
	if (status) {
		free(handle);
		return status;
	}
	*copy = handle;
	return QBRT_OK;
}
