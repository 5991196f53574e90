// SPDX-License-Identifier: MIT
/*
 * The table of element types by number. Numbers are those of the file format
 * and of the device (docs/spec/device-and-format.md, section 2), so they are
 * data from outside: everything is looked up with a check.
 */
#include "dtype.h"

#include <string.h>

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
	if (__builtin_mul_overflow(count, dtypes[dtype].itemsize, &total))
		return false;
	*num_elements = count;
	*nbytes = total;
	return true;
}

/* The decimal digits of value, which end at end; returns where they begin. */
static char *write_digits(int64_t value, char *end)
{
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

	do {
		*--end = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (value < 0)
		*--end = '-';
	return end;
}

/* As much of length bytes as fits into text of size; returns what is used. */
static size_t append(char *text, size_t size, size_t used, const char *from,
		     size_t length)
{
	if (length > size - 1 - used)
		length = size - 1 - used;
	memcpy(text + used, from, length);
	return used + length;
}

char *qbrt_shape_text(const int64_t *shape, size_t ndim, char *text,
		      size_t size)
{
	char digits[20];
	char *end = digits + sizeof(digits);
	size_t used = 0;
	size_t i;

	if (!size)
		return text;
	used = append(text, size, used, "(", 1);
	for (i = 0; i < ndim; i++) {
		char *begin = write_digits(shape[i], end);

		if (i)
			used = append(text, size, used, ", ", 2);
		used = append(text, size, used, begin, (size_t)(end - begin));
	}
	used = append(text, size, used, ")", 1);
	text[used] = '\0';
	return text;
}
