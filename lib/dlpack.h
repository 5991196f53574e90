/* SPDX-License-Identifier: MIT */
/*
 * DLPack's structs: what a foreign one says, checked. Pure over its bytes; the
 * elements themselves nobody reads here.
 */
#ifndef QBRT_DLPACK_H
#define QBRT_DLPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "dlpack-abi.h"

#define QBRT_DLPACK_MAX_NDIM 64

/* An array somewhere; num_elements * itemsize and all offsets fit. */
struct qbrt_dlpack_view {
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
	/* from the first byte of the lowest element to behind the highest */
	uintptr_t begin;
	uintptr_t end;
	int64_t shape[QBRT_DLPACK_MAX_NDIM];
	int64_t strides[QBRT_DLPACK_MAX_NDIM]; /* bytes */
};

/*
 * QBRT_TENSOR_REFUSED with what was expected, or QBRT_BRIDGE_NO_DRIVER. Of a
 * versioned struct of another major version the version alone is read.
 */
enum qbrt_status
qbrt_dlpack_read(struct qbrt_dlpack_view *view,
		 const struct DLManagedTensorVersioned *managed);
enum qbrt_status qbrt_dlpack_read_legacy(struct qbrt_dlpack_view *view,
					 const struct DLManagedTensor *managed);
enum qbrt_status qbrt_dlpack_read_desc(struct qbrt_dlpack_view *view,
				       const struct qbrt_tensor_desc *desc);

/* Strides in elements; false: that of *axis is no whole number of them. */
bool qbrt_dlpack_count_strides(const int64_t *shape, const int64_t *strides,
			       size_t ndim, size_t itemsize, int64_t *counts,
			       size_t *axis);

/* Bytes in C order, for extents whose product fits. */
void qbrt_dlpack_set_dense(const int64_t *shape, size_t ndim, size_t itemsize,
			   int64_t *strides);
bool qbrt_dlpack_is_dense(const int64_t *shape, const int64_t *strides,
			  size_t ndim, size_t itemsize);

/* By our names; QBRT_DTYPE_ERROR: none. And back. */
enum qbrt_dtype qbrt_dlpack_get_dtype(struct qbrt_dlpack_dtype dtype);
struct qbrt_dlpack_dtype qbrt_dlpack_from_dtype(enum qbrt_dtype dtype);

#endif
