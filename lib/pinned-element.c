// SPDX-License-Identifier: MIT
/*
 * One element in and out. The plain case, where everything is as it should be
 * and nobody is in the way, is decided in one go; all else takes the way that
 * waits, or finds out why it is refused.
 */
#include "pinned-memory.h"

#include <string.h>

#include "dtype.h"
#include "status.h"
#include "util.h"

#define TEXT_SIZE 192 /* of a shape of eight axes */

static enum qbrt_status find_element(const struct qbrt_pinned_memory *mem,
				     const int64_t *index, size_t ndim,
				     int64_t *offset)
{
	char text[TEXT_SIZE];
	size_t i;

	*offset = 0;
	for (i = 0; i < ndim; i++) {
		if (index[i] < 0 || index[i] >= mem->shape[i])
			return qbrt_fail(
				QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
				"index %lld of axis %zu is outside 0 to %lld "
				"of shape %s",
				(long long)index[i], i,
				(long long)mem->shape[i] - 1,
				qbrt_shape_text(mem->shape, mem->ndim, text,
						sizeof(text)));
		*offset += index[i] * mem->strides[i];
	}
	return QBRT_OK;
}

/* Its caller needs no frame for it. */
#define SLOW __attribute__((noinline))

/*
 * Everything that check_access and find_element ask, at once: the element's
 * bytes; false: they say why.
 */
static inline bool find_plain(const struct qbrt_pinned_memory *mem,
			      const int64_t *index, size_t ndim,
			      enum qbrt_dtype dtype, char **at)
{
	char *bytes = mem->data;

	if (ndim != mem->ndim || dtype != mem->dtype ||
	    qbrt_device_is_inherited(mem->storage->device))
		return false;
	for (size_t i = ndim; i--;) {
		if ((uint64_t)index[i] >= (uint64_t)mem->shape[i])
			return false;
		bytes += index[i] * mem->strides[i];
	}
	*at = bytes;
	return true;
}

/* memcpy of a size that is not constant is a call. */
static inline void copy_element(void *dst, const void *src, size_t itemsize)
{
	if (__builtin_expect(itemsize == 4, 1))
		memcpy(dst, src, 4);
	else if (itemsize == 1)
		memcpy(dst, src, 1);
	else if (itemsize == 2)
		memcpy(dst, src, 2);
	else
		memcpy(dst, src, 8);
}

static SLOW enum qbrt_status read_slowly(const struct qbrt_pinned_memory *mem,
					 const int64_t *index, size_t ndim,
					 enum qbrt_dtype dtype, void *value)
{
	enum qbrt_status status;
	int64_t offset;

	if (qbrt_pinned_memory_has_null(mem, index, ndim, value))
		return qbrt_pinned_memory_refuse_null(mem, "index", value,
						      "value");
	status = qbrt_pinned_memory_check_access(mem, ndim, dtype);
	if (!status)
		status = find_element(mem, index, ndim, &offset);
	if (!status)
		status = qbrt_pinned_memory_begin_read(mem);
	if (status)
		return status;
	copy_element(value, mem->data + offset, mem->itemsize);
	qbrt_storage_end_read(mem->storage);
	return QBRT_OK;
}

/* In the use that found it: it is ended, and the sentence made. */
static SLOW enum qbrt_status read_invalid(const struct qbrt_pinned_memory *mem,
					  const int64_t *index, size_t ndim,
					  enum qbrt_dtype dtype, void *value)
{
	qbrt_storage_end_read(mem->storage);
	return read_slowly(mem, index, ndim, dtype, value);
}

/* After a use that others wait for the end of. */
static SLOW enum qbrt_status wake_others(struct qbrt_storage *storage)
{
	qbrt_storage_tell_waiters(storage);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_read_at(const struct qbrt_pinned_memory *mem,
			   const int64_t *index, size_t ndim,
			   enum qbrt_dtype dtype, void *value)
{
	struct qbrt_storage *storage;
	char *at;

	if (!mem || !index || !value)
		return read_slowly(mem, index, ndim, dtype, value);
	storage = mem->storage;
	if (!find_plain(mem, index, ndim, dtype, &at) ||
	    !qbrt_storage_begin_read(storage))
		return read_slowly(mem, index, ndim, dtype, value);
	if (!qbrt_storage_is_valid(storage))
		return read_invalid(mem, index, ndim, dtype, value);
	copy_element(value, at, mem->itemsize);
	if (qbrt_storage_end_read_quietly(storage))
		return wake_others(storage);
	return QBRT_OK;
}

static SLOW enum qbrt_status write_slowly(struct qbrt_pinned_memory *mem,
					  const int64_t *index, size_t ndim,
					  enum qbrt_dtype dtype,
					  const void *value)
{
	enum qbrt_status status;
	int64_t offset;

	if (qbrt_pinned_memory_has_null(mem, index, ndim, value))
		return qbrt_pinned_memory_refuse_null(mem, "index", value,
						      "value");
	status = qbrt_pinned_memory_check_access(mem, ndim, dtype);
	if (!status)
		status = find_element(mem, index, ndim, &offset);
	if (!status)
		status = qbrt_pinned_memory_begin_write(mem, false);
	if (status)
		return status;
	copy_element(mem->data + offset, value, mem->itemsize);
	qbrt_pinned_memory_end_write(mem, false);
	return QBRT_OK;
}

static SLOW enum qbrt_status write_invalid(struct qbrt_pinned_memory *mem,
					   const int64_t *index, size_t ndim,
					   enum qbrt_dtype dtype,
					   const void *value)
{
	qbrt_storage_end_write(mem->storage);
	return write_slowly(mem, index, ndim, dtype, value);
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_write_at(struct qbrt_pinned_memory *mem,
			    const int64_t *index, size_t ndim,
			    enum qbrt_dtype dtype, const void *value)
{
	struct qbrt_storage *storage;
	char *at;

	if (!mem || !index || !value)
		return write_slowly(mem, index, ndim, dtype, value);
	storage = mem->storage;
	if (!find_plain(mem, index, ndim, dtype, &at) ||
	    storage->buffer.is_read_only || !qbrt_storage_begin_write(storage))
		return write_slowly(mem, index, ndim, dtype, value);
	if (!qbrt_storage_is_valid(storage))
		return write_invalid(mem, index, ndim, dtype, value);
	copy_element(at, value, mem->itemsize);
	if (qbrt_storage_end_write_quietly(storage))
		return wake_others(storage);
	return QBRT_OK;
}
