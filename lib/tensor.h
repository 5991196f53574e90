/* SPDX-License-Identifier: MIT */
/*
 * A tensor: a view of a storage. All of it is constant from alloc to free, so
 * nothing here needs a lock; uses and validity are the storage's.
 */
#ifndef QBRT_TENSOR_H
#define QBRT_TENSOR_H

#include <qbruntime/qbrt.h>

#include "dlpack.h"
#include "storage.h"

struct qbrt_tensor {
	struct qbrt_storage *storage; /* a reference */
	void *data;
	uint64_t byte_offset; /* from data to the first element */
	struct qbrt_dlpack_device device;
	struct qbrt_dlpack_dtype dtype;
	bool is_read_only;
	bool is_padded; /* elements below a byte have one each */
	size_t ndim;
	size_t itemsize;
	size_t num_elements;
	size_t nbytes;
	int64_t *counts;  /* strides in elements; behind shape */
	int64_t *strides; /* bytes; behind counts */
	bool has_counts;  /* each is a whole number */
	int64_t shape[];
};

/*
 * With room for the axes, and nothing else set but ndim; NULL with its sentence:
 * no memory.
 */
struct qbrt_tensor *qbrt_tensor_alloc(size_t ndim);

/*
 * Takes over the reference on storage. All else is set but counts, which follow
 * from it.
 */
void qbrt_tensor_finish(struct qbrt_tensor *tensor,
			struct qbrt_storage *storage);

/*
 * A use of the host as a reader, waited for, of contents that count. Of memory
 * of others there is nothing to wait for.
 */
enum qbrt_status qbrt_tensor_begin_read(const struct qbrt_tensor *tensor);
void qbrt_tensor_end_read(const struct qbrt_tensor *tensor);

/* Both in one, for who hands out the memory: waits, and leaves no use. */
static inline enum qbrt_status
qbrt_tensor_wait_readable(const struct qbrt_tensor *tensor)
{
	const struct qbrt_storage *storage = tensor->storage;
	enum qbrt_status status;

	/* as most find it, for which no use is taken */
	if (!storage->device || (!qbrt_device_is_inherited(storage->device) &&
				 qbrt_storage_is_readable(storage)))
		return QBRT_OK;
	status = qbrt_tensor_begin_read(tensor);
	if (!status)
		qbrt_tensor_end_read(tensor);
	return status;
}

/* QBRT_NOT_IMPLEMENTED but for NULL. */
enum qbrt_status qbrt_tensor_check_stream(const struct qbrt_stream *stream);

#endif
