// SPDX-License-Identifier: MIT
/*
 * Foreign structs are untrusted: every number is looked at before it is used,
 * and the sentence names the field, what was expected and what came.
 */
#include "dlpack.h"

#include <inttypes.h>
#include <string.h>

#include "status.h"
#include "util.h"

static const struct {
	enum qbrt_dtype dtype;
	struct qbrt_dlpack_dtype dlpack;
} names[] = {
	{ QBRT_DTYPE_FLOAT32, { kDLFloat, 32, 1 } },
	{ QBRT_DTYPE_UINT8, { kDLUInt, 8, 1 } },
	{ QBRT_DTYPE_INT8, { kDLInt, 8, 1 } },
	{ QBRT_DTYPE_FLOAT16, { kDLFloat, 16, 1 } },
	{ QBRT_DTYPE_INT16, { kDLInt, 16, 1 } },
	{ QBRT_DTYPE_UINT16, { kDLUInt, 16, 1 } },
	{ QBRT_DTYPE_INT32, { kDLInt, 32, 1 } },
	{ QBRT_DTYPE_UINT32, { kDLUInt, 32, 1 } },
	{ QBRT_DTYPE_INT64, { kDLInt, 64, 1 } },
	{ QBRT_DTYPE_UINT64, { kDLUInt, 64, 1 } },
	{ QBRT_DTYPE_FLOAT64, { kDLFloat, 64, 1 } },
	{ QBRT_DTYPE_BOOL, { kDLBool, 8, 1 } },
	{ QBRT_DTYPE_BFLOAT16, { kDLBfloat, 16, 1 } },
};

enum qbrt_dtype qbrt_dlpack_get_dtype(struct qbrt_dlpack_dtype dtype)
{
	for (size_t i = 0; i < qbrt_array_size(names); i++)
		if (dtype.code == names[i].dlpack.code &&
		    dtype.bits == names[i].dlpack.bits &&
		    dtype.lanes == names[i].dlpack.lanes)
			return names[i].dtype;
	return QBRT_DTYPE_ERROR;
}

struct qbrt_dlpack_dtype qbrt_dlpack_from_dtype(enum qbrt_dtype dtype)
{
	for (size_t i = 0; i < qbrt_array_size(names); i++)
		if (names[i].dtype == dtype)
			return names[i].dlpack;
	return (struct qbrt_dlpack_dtype){ .code = kDLOpaqueHandle };
}

/* The numbers of bits that a code allows. */
static bool allows(uint8_t code, uint8_t bits)
{
	static const uint8_t fixed[] = {
		[kDLBfloat] = 16,
		[kDLBool] = 8,
		[kDLFloat8_e3m4] = 8,
		[kDLFloat8_e4m3] = 8,
		[kDLFloat8_e4m3b11fnuz] = 8,
		[kDLFloat8_e4m3fn] = 8,
		[kDLFloat8_e4m3fnuz] = 8,
		[kDLFloat8_e5m2] = 8,
		[kDLFloat8_e5m2fnuz] = 8,
		[kDLFloat8_e8m0fnu] = 8,
		[kDLFloat6_e2m3fn] = 6,
		[kDLFloat6_e3m2fn] = 6,
		[kDLFloat4_e2m1fn] = 4,
	};

	switch (code) {
	case kDLInt:
	case kDLUInt:
		return qbrt_is_power_of_two(bits) && bits <= 64;
	case kDLFloat:
		return qbrt_is_power_of_two(bits) && bits >= 16;
	case kDLComplex:
		return qbrt_is_power_of_two(bits) && bits >= 32;
	default:
		return code < qbrt_array_size(fixed) && fixed[code] &&
		       fixed[code] == bits;
	}
}

static enum qbrt_status read_dtype(struct qbrt_dlpack_view *view)
{
	struct qbrt_dlpack_dtype dtype = view->dtype;
	uint32_t bits = (uint32_t)dtype.bits * dtype.lanes;

	if (!allows(dtype.code, dtype.bits) || !dtype.lanes)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "dtype has code %u with %u bits and %u lanes, "
				 "expected a type of DLPack 1.3 with the bits "
				 "that it has, and lanes >= 1",
				 dtype.code, dtype.bits, dtype.lanes);
	if (bits % 8 && (!view->is_padded || dtype.lanes != 1))
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "elements of %u bits in %u lanes share bytes, "
				 "expected whole bytes, or one lane with the "
				 "flag of padded types: unpack them first",
				 dtype.bits, dtype.lanes);
	view->itemsize = (bits + 7) / 8;
	return QBRT_OK;
}

static enum qbrt_status read_device(struct qbrt_dlpack_view *view)
{
	struct qbrt_dlpack_device device = view->device;

	switch (device.type) {
	case kDLCPU:
	case kDLCUDAHost:
		/* there is one of each, whatever a producer counts */
		view->device.id = 0;
		return QBRT_OK;
	case kDLCUDA:
	case kDLCUDAManaged:
		return qbrt_fail(QBRT_BRIDGE_NO_DRIVER,
				 "the memory is of CUDA, device (%" PRId32
				 ", %" PRId32 "), which this version does not "
				 "take: copy it to the host first",
				 device.type, device.id);
	default:
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "device is (%" PRId32 ", %" PRId32
				 "), expected memory of the host: type 1, CPU, "
				 "or 3, CUDAHost: copy it to the host first",
				 device.type, device.id);
	}
}

/* The product of the extents fits into bytes; view->shape is set. */
static enum qbrt_status read_shape(struct qbrt_dlpack_view *view,
				   const int64_t *shape)
{
	bool is_empty = false;
	int64_t nbytes = (int64_t)view->itemsize;

	for (size_t i = 0; i < view->ndim; i++) {
		int64_t extent = shape[i];

		if (extent < 0)
			return qbrt_fail(QBRT_TENSOR_REFUSED,
					 "shape[%zu] is %" PRId64
					 ", expected 0 or more",
					 i, extent);
		view->shape[i] = extent;
		if (!extent)
			is_empty = true;
		else if (__builtin_mul_overflow(nbytes, extent, &nbytes))
			return qbrt_fail(
				QBRT_TENSOR_REFUSED,
				"shape has more bytes than there are "
				"addresses, up to shape[%zu] = %" PRId64
				" with elements of %zu",
				i, extent, view->itemsize);
	}
	view->nbytes = is_empty ? 0 : (size_t)nbytes;
	view->num_elements = view->nbytes / view->itemsize;
	return QBRT_OK;
}

void qbrt_dlpack_set_dense(const int64_t *shape, size_t ndim, size_t itemsize,
			   int64_t *strides)
{
	int64_t stride = (int64_t)itemsize;

	for (size_t i = ndim; i--;) {
		strides[i] = stride;
		if (shape[i])
			stride *= shape[i];
	}
}

bool qbrt_dlpack_is_dense(const int64_t *shape, const int64_t *strides,
			  size_t ndim, size_t itemsize)
{
	int64_t stride = (int64_t)itemsize;
	bool is_dense = true;

	for (size_t i = ndim; i--;) {
		if (!shape[i])
			return true;
		if (shape[i] != 1 && strides[i] != stride)
			is_dense = false;
		stride *= shape[i];
	}
	return is_dense;
}

/* unit: bytes that a stride of 1 steps over. */
static enum qbrt_status read_strides(struct qbrt_dlpack_view *view,
				     const int64_t *strides, size_t unit)
{
	if (!strides) {
		qbrt_dlpack_set_dense(view->shape, view->ndim, view->itemsize,
				      view->strides);
		return QBRT_OK;
	}
	for (size_t i = 0; i < view->ndim; i++)
		if (__builtin_mul_overflow(strides[i], (int64_t)unit,
					   &view->strides[i]))
			return qbrt_fail(QBRT_TENSOR_REFUSED,
					 "strides[%zu] is %" PRId64
					 ", more elements than there are "
					 "addresses",
					 i, strides[i]);
	return QBRT_OK;
}

/* false: what lies between the outermost elements does not fit. */
static bool get_offsets(const struct qbrt_dlpack_view *view, int64_t *below,
			int64_t *above)
{
	*below = 0;
	*above = (int64_t)view->itemsize;
	for (size_t i = 0; i < view->ndim; i++) {
		int64_t span;

		if (__builtin_mul_overflow(view->strides[i], view->shape[i] - 1,
					   &span) ||
		    __builtin_add_overflow(span < 0 ? *below : *above, span,
					   span < 0 ? below : above))
			return false;
	}
	return *below != INT64_MIN;
}

static enum qbrt_status read_range(struct qbrt_dlpack_view *view)
{
	int64_t below = 0;
	int64_t above = 0;
	uintptr_t first;

	view->begin = 0;
	view->end = 0;
	if (view->num_elements && !view->data)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "data is NULL, expected the address of %zu "
				 "element%s",
				 view->num_elements,
				 qbrt_plural(view->num_elements));
	if (__builtin_add_overflow((uintptr_t)view->data, view->byte_offset,
				   &first) ||
	    (view->num_elements && !get_offsets(view, &below, &above)) ||
	    first < (uintptr_t)-below || first > UINTPTR_MAX - (uintptr_t)above)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "data %p with byte_offset %" PRIu64
				 " and these strides leaves the addresses that "
				 "there are",
				 view->data, view->byte_offset);
	if (view->num_elements) {
		view->begin = first - (uintptr_t)-below;
		view->end = first + (uintptr_t)above;
	}
	return QBRT_OK;
}

/* data, byte_offset, device, dtype and flags of view are set. */
static enum qbrt_status read_rest(struct qbrt_dlpack_view *view, int64_t ndim,
				  const int64_t *shape, const int64_t *strides,
				  bool is_in_bytes)
{
	enum qbrt_status status = read_device(view);

	if (!status)
		status = read_dtype(view);
	if (status)
		return status;
	if (ndim < 0 || ndim > QBRT_DLPACK_MAX_NDIM)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "ndim is %" PRId64 ", expected 0 to %d", ndim,
				 QBRT_DLPACK_MAX_NDIM);
	if (ndim && !shape)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "shape is NULL, expected %" PRId64 " extent%s",
				 ndim, qbrt_plural((size_t)ndim));
	view->ndim = (size_t)ndim;
	status = read_shape(view, shape);
	if (!status)
		status = read_strides(view, strides,
				      is_in_bytes ? 1 : view->itemsize);
	return status ? status : read_range(view);
}

static enum qbrt_status read_tensor(struct qbrt_dlpack_view *view,
				    const DLTensor *tensor, uint64_t flags)
{
	/* an enumeration may hold a number that is none of its own */
	int32_t type;

	memcpy(&type, &tensor->device.device_type, sizeof(type));
	view->data = tensor->data;
	view->byte_offset = tensor->byte_offset;
	view->device.type = type;
	view->device.id = tensor->device.device_id;
	view->dtype.code = tensor->dtype.code;
	view->dtype.bits = tensor->dtype.bits;
	view->dtype.lanes = tensor->dtype.lanes;
	view->is_read_only = flags & DLPACK_FLAG_BITMASK_READ_ONLY;
	view->is_padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
	return read_rest(view, tensor->ndim, tensor->shape, tensor->strides,
			 false);
}

enum qbrt_status
qbrt_dlpack_read(struct qbrt_dlpack_view *view,
		 const struct DLManagedTensorVersioned *managed)
{
	if (managed->version.major != QBRT_DLPACK_MAJOR)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "version is %" PRIu32 ".%" PRIu32
				 ", expected %d.x: ask the producer for "
				 "max_version=(%d, %d)",
				 managed->version.major, managed->version.minor,
				 QBRT_DLPACK_MAJOR, QBRT_DLPACK_MAJOR,
				 QBRT_DLPACK_MINOR);
	return read_tensor(view, &managed->dl_tensor, managed->flags);
}

enum qbrt_status qbrt_dlpack_read_legacy(struct qbrt_dlpack_view *view,
					 const struct DLManagedTensor *managed)
{
	return read_tensor(view, &managed->dl_tensor, 0);
}

enum qbrt_status qbrt_dlpack_read_desc(struct qbrt_dlpack_view *view,
				       const struct qbrt_tensor_desc *desc)
{
	view->data = desc->data;
	view->byte_offset = 0;
	view->device = desc->device;
	view->dtype = desc->dtype;
	view->is_read_only = false;
	view->is_padded = false;
	/* more than fits is refused like all that is above the limit */
	return read_rest(
		view, desc->ndim > INT32_MAX ? INT32_MAX : (int64_t)desc->ndim,
		desc->shape, desc->strides, true);
}

/* Of an axis that is not stepped along: as if it lay dense (B25). */
bool qbrt_dlpack_count_strides(const int64_t *shape, const int64_t *strides,
			       size_t ndim, size_t itemsize, int64_t *counts,
			       size_t *axis)
{
	int64_t dense = 1;

	for (size_t i = ndim; i--;) {
		*axis = i;
		if (shape[i] <= 1)
			counts[i] = dense;
		else if (strides[i] % (int64_t)itemsize)
			return false;
		else
			counts[i] = strides[i] / (int64_t)itemsize;
		if (shape[i])
			dense *= shape[i];
	}
	return true;
}
