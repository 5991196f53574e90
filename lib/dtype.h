/* SPDX-License-Identifier: MIT */
/*
 * The table of element types, and shapes in numbers and in words. Pure.
 */
#ifndef QBRT_DTYPE_H
#define QBRT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include <qbruntime/qbrt.h>

#define QBRT_NUM_DTYPES 13

bool qbrt_dtype_is_valid(enum qbrt_dtype dtype);

/*
 * shape: extents >= 1, at most max_ndim. The number of elements and bytes,
 * false where either does not fit in size_t.
 */
bool qbrt_dtype_count(enum qbrt_dtype dtype, const int64_t *shape, size_t ndim,
		      size_t *num_elements, size_t *nbytes);

/* "(1, 8, 8)" into text, always terminated; returns text. */
char *qbrt_shape_text(const int64_t *shape, size_t ndim, char *text,
		      size_t size);

#endif
