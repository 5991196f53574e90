// SPDX-License-Identifier: MIT
/*
 * Pinned memory by descriptor: a dma-buf, or a memfd where the driver has no
 * dma-buf. The descriptor stands for the whole buffer, so an importer says
 * where in it its view begins. Handles of one buffer know nothing of each
 * other's work, as if they were of two processes.
 */
#include "pinned-memory.h"

#include <errno.h>
#include <stdlib.h>

#include "counters.h"
#include "status.h"
#include "util.h"

#define OFFSET_STEP 64

QBRT_API enum qbrt_status
qbrt_pinned_memory_export_fd(struct qbrt_pinned_memory *mem, int *fd)
{
	enum qbrt_status status;

	if (!mem || !fd)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 mem ? "fd" : "mem");
	status = qbrt_device_check_fork(mem->storage->device);
	if (status)
		return status;
	return qbrt_device_export_buffer(mem->storage->device,
					 &mem->storage->buffer, fd);
}

/* Takes a buffer, or none when it fails. */
static enum qbrt_status import_view(struct qbrt_device *device, int fd,
				    size_t offset,
				    struct qbrt_pinned_memory *mem)
{
	struct qbrt_buffer buffer;
	enum qbrt_status status =
		qbrt_device_import_buffer(device, fd, &buffer);

	if (status)
		return status;
	if (offset > buffer.size || mem->nbytes > buffer.size - offset) {
		status = qbrt_fail(QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
				   "%zu bytes from byte %zu on do not lie in "
				   "the %zu bytes behind descriptor %d",
				   mem->nbytes, offset, buffer.size, fd);
		goto err_give_buffer;
	}
	mem->storage = qbrt_storage_alloc(device, &buffer, buffer.size);
	if (!mem->storage) {
		status = qbrt_fail_errno(
			QBRT_AT_IMPORT, -ENOMEM,
			"no memory for a pinned memory's handle");
		goto err_give_buffer;
	}
	mem->offset = offset;
	mem->data = (char *)buffer.data + offset;
	return QBRT_OK;

err_give_buffer:
	qbrt_device_give_buffer(device, &buffer);
	return status;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_import_fd(struct qbrt_accelerator *acc, int fd,
			     size_t offset, enum qbrt_dtype dtype,
			     const int64_t *shape, size_t ndim,
			     struct qbrt_pinned_memory **mem)
{
	struct qbrt_pinned_memory *handle;
	enum qbrt_status status;

	if (!acc || !mem || (!shape && ndim))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 !acc   ? "acc"
				 : !mem ? "mem"
					: "shape");
	status = qbrt_device_check_fork(acc->device);
	if (status)
		return status;
	if (offset % OFFSET_STEP)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "offset is %zu, expected a multiple of %d",
				 offset, OFFSET_STEP);
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return qbrt_fail_errno(
			QBRT_AT_IMPORT, -ENOMEM,
			"no memory for a pinned memory's handle");
	status = qbrt_pinned_memory_set_shape(handle, acc->device, dtype, shape,
					      ndim);
	if (!status)
		status = import_view(acc->device, fd, offset, handle);
	if (status) {
		free(handle);
		return status;
	}
	qbrt_count(live_buffers);
	*mem = handle;
	return QBRT_OK;
}

QBRT_API bool
qbrt_pinned_memory_is_read_only(const struct qbrt_pinned_memory *mem)
{
	return mem && mem->storage->buffer.is_read_only;
}
