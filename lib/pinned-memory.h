/* SPDX-License-Identifier: MIT */
/*
 * Pinned memory: a typed, dense, row-major view of a storage, all of it unless
 * it was imported. The fields are here for the hot call; they are constant from
 * alloc to free.
 */
#ifndef QBRT_PINNED_MEMORY_H
#define QBRT_PINNED_MEMORY_H

#include <qbruntime/qbrt.h>

#include "storage.h"

#define QBRT_PINNED_MAX_NDIM 8

struct qbrt_pinned_memory {
	struct qbrt_storage *storage; /* a reference */
	size_t offset;                /* of the first byte in the storage */
	char *data;                   /* that byte */
	enum qbrt_dtype dtype;
	size_t ndim;
	int64_t shape[QBRT_PINNED_MAX_NDIM];
	int64_t strides[QBRT_PINNED_MAX_NDIM]; /* bytes */
	size_t itemsize; /* bytes of an element: 1, 2, 4 or 8 */
	size_t num_elements;
	size_t nbytes;
};

/* Checks and sets all that dtype and shape say. */
enum qbrt_status qbrt_pinned_memory_set_shape(struct qbrt_pinned_memory *mem,
					      const struct qbrt_device *device,
					      enum qbrt_dtype dtype,
					      const int64_t *shape,
					      size_t ndim);

/* As qbrt_pinned_memory_alloc on an open device; nothing is checked twice. */
enum qbrt_status
qbrt_pinned_memory_alloc_on(struct qbrt_device *device, enum qbrt_dtype dtype,
			    const int64_t *shape, size_t ndim,
			    const struct qbrt_pinned_options *options,
			    struct qbrt_pinned_memory **mem);

/* ---- pinned-index.c: what accesses of the host have in common ---- */

static inline bool qbrt_pinned_memory_has_null(const void *mem,
					       const void *axes, size_t ndim,
					       const void *data)
{
	return !mem || !data || (!axes && ndim);
}

/* Which one it is. */
enum qbrt_status qbrt_pinned_memory_refuse_null(const void *mem,
						const char *axes_name,
						const void *data,
						const char *data_name);
enum qbrt_status
qbrt_pinned_memory_check_access(const struct qbrt_pinned_memory *mem,
				size_t ndim, enum qbrt_dtype dtype);

/* With the use of the storage; without it when it fails. */
enum qbrt_status
qbrt_pinned_memory_begin_read(const struct qbrt_pinned_memory *mem);
/* is_whole: what is there does not matter, it is valid afterwards. */
enum qbrt_status qbrt_pinned_memory_begin_write(struct qbrt_pinned_memory *mem,
						bool is_whole);
void qbrt_pinned_memory_end_write(struct qbrt_pinned_memory *mem,
				  bool is_whole);

#endif
