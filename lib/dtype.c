// SPDX-License-Identifier: MIT
/*
 * The table of element types by number. Numbers are those of the file format
 * and of the device (docs/spec/device-and-format.md, section 2), so they are
 * data from outside: everything is looked up with a check.
 */
#include "dtype.h"

#include <inttypes.h>
#include <stdio.h>

#include "util.h"

static const struct {
	const char *name;
	size_t itemsize;
} dtypes[] = {
	[QBRT_DTYPE_FLOAT32] = { "Float32", 4 },
	[QBRT_DTYPE_UINT8] = { "Uint8", 1 },
	[QBRT_DTYPE_INT8] = { "Int8", 1 },
	[QBRT_DTYPE_FLOAT16] = { "Float16", 2 },
	[QBRT_DTYPE_INT16] = { "Int16", 2 },
	[QBRT_DTYPE_UINT16] = { "Uint16", 2 },
	[QBRT_DTYPE_INT32] = { "Int32", 4 },
	[QBRT_DTYPE_UINT32] = { "Uint32", 4 },
	[QBRT_DTYPE_INT64] = { "Int64", 8 },
	[QBRT_DTYPE_UINT64] = { "Uint64", 8 },
	[QBRT_DTYPE_FLOAT64] = { "Float64", 8 },
	[QBRT_DTYPE_BOOL] = { "Bool", 1 },
	[QBRT_DTYPE_BFLOAT16] = { "BFloat16", 2 },
};

_Static_assert(qbrt_array_size(dtypes) == QBRT_NUM_DTYPES, "all types");

bool qbrt_dtype_is_valid(enum qbrt_dtype dtype)
{
	return (unsigned int)dtype < QBRT_NUM_DTYPES;
}

QBRT_API const char *qbrt_dtype_name(enum qbrt_dtype dtype)
{
	if (dtype == QBRT_DTYPE_ERROR)
		return "Error";
	return qbrt_dtype_is_valid(dtype) ? dtypes[dtype].name : "Unknown";
}

QBRT_API size_t qbrt_dtype_itemsize(enum qbrt_dtype dtype)
{
	return qbrt_dtype_is_valid(dtype) ? dtypes[dtype].itemsize : 0;
}

bool qbrt_dtype_count(enum qbrt_dtype dtype, const int64_t *shape, size_t ndim,
		      size_t *num_elements, size_t *nbytes)
{
	size_t count = 1;
	size_t total;
	size_t i;

	if (!qbrt_dtype_is_valid(dtype))
		return false;
	for (i = 0; i < ndim; i++)
		if (shape[i] < 1 ||
		    __builtin_mul_overflow(count, (uint64_t)shape[i], &count))
			return false;
	if (__builtin_mul_overflow(count, qbrt_dtype_itemsize(dtype), &total))
		return false;
	*num_elements = count;
	*nbytes = total;
	return true;
}

char *qbrt_shape_text(const int64_t *shape, size_t ndim, char *text,
		      size_t size)
{
	size_t used = 0;
	size_t i;

	if (!size)
		return text;
	text[0] = '\0';
	for (i = 0; i <= ndim && used < size; i++) {
		const char *before = i ? ", " : "(";
		int length;

		if (i < ndim)
			length = snprintf(text + used, size - used,
					  "%s%" PRId64, before, shape[i]);
		else
			length = snprintf(text + used, size - used, "%s",
					  ndim ? ")" : "()");
		used += (size_t)length;
	}
	return text;
}
