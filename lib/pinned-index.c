// SPDX-License-Identifier: MIT
/*
 * Slice access from the host, and what it has in common with that to elements
 * (pinned-element.c). Everything is checked before a byte
 * moves; a job that writes the buffer is waited for (Q499), before writing one
 * that reads it too, and the access is a use of the buffer as a job's is. So
 * what a failed job left is not read as if it were good (Q485), nor made good
 * by a write that it overtook. The bytes are copied as they are: no
 * conversion, any alignment on the caller's side.
 */
#include <string.h>

#include "dtype.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

#define TEXT_SIZE 192 /* of a shape of eight axes */

/* Two strided views with the same extents, outermost axis first. */
struct walk {
	size_t ndim;
	int64_t counts[QBRT_PINNED_MAX_NDIM];
	int64_t dst_strides[QBRT_PINNED_MAX_NDIM];
	int64_t src_strides[QBRT_PINNED_MAX_NDIM];
	size_t itemsize;
	int64_t offset; /* of the slice's first element in the buffer */
};

enum qbrt_status qbrt_pinned_memory_refuse_null(const void *mem,
						const char *axes_name,
						const void *data,
						const char *data_name)
{
	return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
			 !mem    ? "mem"
			 : !data ? data_name
				 : axes_name);
}

/* What every access has in common, in this order. */
enum qbrt_status
qbrt_pinned_memory_check_access(const struct qbrt_pinned_memory *mem,
				size_t ndim, enum qbrt_dtype dtype)
{
	enum qbrt_status status = qbrt_device_check_fork(mem->storage->device);

	if (status)
		return status;
	if (ndim != mem->ndim)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "the index has %zu axes, the buffer %zu", ndim,
				 mem->ndim);
	if (dtype != mem->dtype)
		return qbrt_fail(QBRT_MODEL_DTYPE_MISMATCHED,
				 "the buffer is %s, the value given is %s",
				 qbrt_dtype_name(mem->dtype),
				 qbrt_dtype_is_valid(dtype)
					 ? qbrt_dtype_name(dtype)
					 : "of no known dtype");
	return QBRT_OK;
}

/* With the read use; without it when it fails. */
enum qbrt_status
qbrt_pinned_memory_begin_read(const struct qbrt_pinned_memory *mem)
{
	enum qbrt_status status = qbrt_storage_take_read(mem->storage);

	if (status)
		return status;
	status = qbrt_storage_check_valid(mem->storage);
	if (status)
		qbrt_storage_end_read(mem->storage);
	return status;
}

/*
 * With the write use; without it when it fails. Who writes all of it does not
 * mind what is there.
 */
enum qbrt_status qbrt_pinned_memory_begin_write(struct qbrt_pinned_memory *mem,
						bool is_whole)
{
	enum qbrt_status status;

	if (mem->storage->buffer.is_read_only)
		return qbrt_fail(QBRT_PINNED_MEMORY_READ_ONLY,
				 "the buffer came by a read-only descriptor");
	status = qbrt_storage_take_write(mem->storage);
	if (status)
		return status;
	if (!is_whole)
		status = qbrt_storage_check_valid(mem->storage);
	if (status)
		qbrt_storage_end_write(mem->storage);
	return status;
}

void qbrt_pinned_memory_end_write(struct qbrt_pinned_memory *mem, bool is_whole)
{
	if (is_whole)
		qbrt_storage_validate(mem->storage);
	qbrt_storage_end_write(mem->storage);
}

/* The byte offset of the first element, and the strides of the slice. */
static enum qbrt_status check_slices(const struct qbrt_pinned_memory *mem,
				     const struct qbrt_slice *slices,
				     int64_t *offset, int64_t *strides)
{
	size_t i;

	*offset = 0;
	for (i = 0; i < mem->ndim; i++) {
		const struct qbrt_slice *slice = &slices[i];
		int64_t last;

		if (slice->count < 1 || !slice->step)
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "slice of axis %zu has count %lld and "
					 "step %lld, expected a positive count "
					 "and a step that is not 0",
					 i, (long long)slice->count,
					 (long long)slice->step);
		if (__builtin_mul_overflow(slice->count - 1, slice->step,
					   &last) ||
		    __builtin_add_overflow(last, slice->start, &last) ||
		    slice->start < 0 || slice->start >= mem->shape[i] ||
		    last < 0 || last >= mem->shape[i])
			return qbrt_fail(QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
					 "slice of axis %zu (start %lld, count "
					 "%lld, step %lld) leaves 0 to %lld",
					 i, (long long)slice->start,
					 (long long)slice->count,
					 (long long)slice->step,
					 (long long)mem->shape[i] - 1);
		*offset += slice->start * mem->strides[i];
		/* a step that is never taken may be of any size */
		strides[i] =
			slice->count > 1 ? slice->step * mem->strides[i] : 0;
	}
	return QBRT_OK;
}

static enum qbrt_status check_shape(const struct qbrt_slice *slices,
				    const struct qbrt_array *array)
{
	int64_t counts[QBRT_PINNED_MAX_NDIM];
	char expected[TEXT_SIZE];
	size_t i;

	for (i = 0; i < array->ndim; i++)
		counts[i] = slices[i].count;
	for (i = 0; i < array->ndim; i++)
		if (array->shape[i] != counts[i])
			return qbrt_fail(
				QBRT_MODEL_SHAPE_MISMATCHED,
				"the slice has shape %s, the array has %lld on "
				"axis %zu",
				qbrt_shape_text(counts, array->ndim, expected,
						sizeof(expected)),
				(long long)array->shape[i], i);
	return QBRT_OK;
}

static bool add_span(int64_t stride, int64_t count, int64_t *low, int64_t *high)
{
	int64_t span;

	return !__builtin_mul_overflow(stride, count - 1, &span) &&
	       !__builtin_add_overflow(*low, span < 0 ? span : 0, low) &&
	       !__builtin_add_overflow(*high, span > 0 ? span : 0, high);
}

/* Fills in strides; the array's bytes must not lie in the buffer's. */
static enum qbrt_status check_span(const struct qbrt_pinned_memory *mem,
				   const struct qbrt_array *array,
				   int64_t *strides)
{
	int64_t dense = (int64_t)qbrt_dtype_itemsize(mem->dtype);
	int64_t low = 0, high = dense;
	uintptr_t begin = (uintptr_t)mem->data;
	uintptr_t at = (uintptr_t)array->data;
	size_t i;

	for (i = array->ndim; i--;) {
		strides[i] = array->strides ? array->strides[i] : dense;
		dense *= array->shape[i];
		if (!add_span(strides[i], array->shape[i], &low, &high))
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "stride %lld of axis %zu of the array "
					 "leads out of memory",
					 (long long)strides[i], i);
	}
	if (__builtin_add_overflow(at, low, &at) ||
	    __builtin_sub_overflow(high, low, &high) ||
	    (uintptr_t)high > UINTPTR_MAX - at)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "the strides of the array lead out of memory");
	if (at < begin + mem->nbytes && begin < at + (uintptr_t)high)
		return qbrt_fail(QBRT_PINNED_MEMORY_ALIASED,
				 "the array lies in the buffer it is copied to "
				 "or from");
	return QBRT_OK;
}

static enum qbrt_status check_array(const struct qbrt_pinned_memory *mem,
				    const struct qbrt_slice *slices,
				    const struct qbrt_array *array,
				    int64_t *strides)
{
	enum qbrt_status status;

	if (!array->data || (!array->shape && array->ndim))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "the array has no %s",
				 array->data ? "shape" : "data");
	if (array->reserved)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "reserved of the array is %u, expected 0",
				 array->reserved);
	if (array->ndim != mem->ndim)
		return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
				 "the slice has %zu axes, the array %zu",
				 mem->ndim, array->ndim);
	status = check_shape(slices, array);
	return status ? status : check_span(mem, array, strides);
}

/* Axes of one element go, and axes that lie dense on both sides become one. */
static void join_axes(struct walk *walk)
{
	size_t num = 0;
	size_t i;

	for (i = 0; i < walk->ndim; i++) {
		int64_t count = walk->counts[i];

		if (count == 1)
			continue;
		if (num &&
		    walk->dst_strides[num - 1] ==
			    walk->dst_strides[i] * count &&
		    walk->src_strides[num - 1] == walk->src_strides[i] * count)
			count *= walk->counts[--num];
		walk->counts[num] = count;
		walk->dst_strides[num] = walk->dst_strides[i];
		walk->src_strides[num] = walk->src_strides[i];
		num++;
	}
	walk->ndim = num;
}

static void copy_row(const struct walk *walk, char *dst, const char *src)
{
	size_t inner = walk->ndim - 1;
	int64_t dst_stride = walk->dst_strides[inner];
	int64_t src_stride = walk->src_strides[inner];
	int64_t i;

	if (dst_stride == (int64_t)walk->itemsize &&
	    src_stride == (int64_t)walk->itemsize) {
		memcpy(dst, src, (size_t)walk->counts[inner] * walk->itemsize);
		return;
	}
	for (i = 0; i < walk->counts[inner]; i++)
		memcpy(dst + i * dst_stride, src + i * src_stride,
		       walk->itemsize);
}

static void copy(struct walk *walk, char *dst, const char *src)
{
	int64_t index[QBRT_PINNED_MAX_NDIM] = { 0 };
	size_t axis;

	join_axes(walk);
	if (!walk->ndim) {
		memcpy(dst, src, walk->itemsize);
		return;
	}
	for (;;) {
		copy_row(walk, dst, src);
		/* the next row: an axis that is through goes back to its start */
		for (axis = walk->ndim - 1; axis--;) {
			int64_t last = walk->counts[axis] - 1;

			if (index[axis]++ < last) {
				dst += walk->dst_strides[axis];
				src += walk->src_strides[axis];
				break;
			}
			dst -= walk->dst_strides[axis] * last;
			src -= walk->src_strides[axis] * last;
			index[axis] = 0;
		}
		if (axis == SIZE_MAX)
			return;
	}
}

/* Checks all of a slice access; walk's strides: of the array and the slice. */
static enum qbrt_status prepare(const struct qbrt_pinned_memory *mem,
				const struct qbrt_slice *slices, size_t ndim,
				const struct qbrt_array *array,
				struct walk *walk, int64_t *array_strides,
				int64_t *slice_strides)
{
	enum qbrt_status status =
		qbrt_pinned_memory_check_access(mem, ndim, array->dtype);
	size_t i;

	if (!status)
		status =
			check_slices(mem, slices, &walk->offset, slice_strides);
	if (!status)
		status = check_array(mem, slices, array, array_strides);
	if (status)
		return status;
	walk->ndim = ndim;
	walk->itemsize = qbrt_dtype_itemsize(mem->dtype);
	for (i = 0; i < ndim; i++)
		walk->counts[i] = slices[i].count;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_read_slice(const struct qbrt_pinned_memory *mem,
			      const struct qbrt_slice *slices, size_t ndim,
			      const struct qbrt_array *dst)
{
	struct walk walk = { 0 };
	enum qbrt_status status;

	if (qbrt_pinned_memory_has_null(mem, slices, ndim, dst))
		return qbrt_pinned_memory_refuse_null(mem, "slices", dst,
						      "dst");
	status = prepare(mem, slices, ndim, dst, &walk, walk.dst_strides,
			 walk.src_strides);
	if (!status)
		status = qbrt_pinned_memory_begin_read(mem);
	if (status)
		return status;
	copy(&walk, dst->data, mem->data + walk.offset);
	qbrt_storage_end_read(mem->storage);
	return QBRT_OK;
}

static bool is_whole(const struct qbrt_pinned_memory *mem,
		     const struct qbrt_slice *slices)
{
	size_t i;

	for (i = 0; i < mem->ndim; i++)
		if (slices[i].count != mem->shape[i])
			return false;
	return true;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_write_slice(struct qbrt_pinned_memory *mem,
			       const struct qbrt_slice *slices, size_t ndim,
			       const struct qbrt_array *src)
{
	struct walk walk = { 0 };
	enum qbrt_status status;

	if (qbrt_pinned_memory_has_null(mem, slices, ndim, src))
		return qbrt_pinned_memory_refuse_null(mem, "slices", src,
						      "src");
	status = prepare(mem, slices, ndim, src, &walk, walk.src_strides,
			 walk.dst_strides);
	if (!status)
		status = qbrt_pinned_memory_begin_write(mem,
							is_whole(mem, slices));
	if (status)
		return status;
	copy(&walk, mem->data + walk.offset, src->data);
	qbrt_pinned_memory_end_write(mem, is_whole(mem, slices));
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_fill(struct qbrt_pinned_memory *mem, enum qbrt_dtype dtype,
			const void *value)
{
	enum qbrt_status status;
	size_t filled, chunk;
	char *bytes;

	if (qbrt_pinned_memory_has_null(mem, NULL, 0, value))
		return qbrt_pinned_memory_refuse_null(mem, "", value, "value");
	status = qbrt_pinned_memory_check_access(mem, mem->ndim, dtype);
	if (!status)
		status = qbrt_pinned_memory_begin_write(mem, true);
	if (status)
		return status;
	bytes = mem->data;
	filled = qbrt_dtype_itemsize(dtype);
	/* value may lie in the buffer itself */
	memmove(bytes, value, filled);
	/* what is filled already is copied behind itself, up to the end */
	for (; filled < mem->nbytes; filled += chunk) {
		chunk = mem->nbytes - filled < filled ? mem->nbytes - filled
						      : filled;
		memcpy(bytes + filled, bytes, chunk);
	}
	qbrt_pinned_memory_end_write(mem, true);
	return QBRT_OK;
}
