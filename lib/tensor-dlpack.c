// SPDX-License-Identifier: MIT
/*
 * Tensors in and out by DLPack. An import's storage owns the foreign struct; an
 * export holds a reference on the storage and is one block of memory, which its
 * deleter frees on whatever thread it is called.
 */
#include "tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "status.h"
#include "util.h"

/* Longer options than this are garbage, not a newer library's. */
#define MAX_STRUCT_NBYTES 4096

/* Q731: a shorter struct is filled up, a longer one must be zero beyond. */
static inline enum qbrt_status read_struct(const void *given, size_t size,
					   const char *name, void *to,
					   size_t known)
{
	const unsigned char *bytes = given;

	if (size < sizeof(size) || size > MAX_STRUCT_NBYTES)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "size is %zu, expected sizeof(struct %s)",
				 size, name);
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return qbrt_fail(
				QBRT_INVALID_ARGUMENT,
				"byte %zu of struct %s is not known to "
				"this version",
				i, name);
	if (size >= known) {
		memcpy(to, given, known);
	} else {
		memset(to, 0, known);
		memcpy(to, given, size);
	}
	return QBRT_OK;
}

/* ---- import ---- */

static enum qbrt_status
read_import_options(const struct qbrt_tensor_import_options *given,
		    bool *is_deferred)
{
	struct qbrt_tensor_import_options options;
	enum qbrt_status status;

	*is_deferred = false;
	if (!given)
		return QBRT_OK;
	status = read_struct(given, given->size, "qbrt_tensor_import_options",
			     &options, sizeof(options));
	if (status)
		return status;
	if (options.flags & ~QBRT_TENSOR_DEFER_RELEASE || options.reserved)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "flags are 0x%x, reserved is %u; known are "
				 "0x%x and 0",
				 options.flags, options.reserved,
				 QBRT_TENSOR_DEFER_RELEASE);
	*is_deferred = options.flags & QBRT_TENSOR_DEFER_RELEASE;
	return qbrt_tensor_check_stream(options.stream);
}

/* Takes over what release gives back, when it succeeds. */
static enum qbrt_status import(const struct qbrt_dlpack_view *view,
			       qbrt_release_function release, void *arg,
			       bool is_deferred, struct qbrt_tensor **tensor)
{
	struct qbrt_tensor *handle = qbrt_tensor_alloc(view->ndim);
	struct qbrt_storage *ours, *storage;

	if (!handle)
		return QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
	ours = qbrt_storage_find(view->begin, view->end);
	storage = ours ? ours
		       : qbrt_storage_alloc_foreign(release, arg, is_deferred);
	if (!storage) {
		free(handle);
		return qbrt_fail_errno(QBRT_AT_IMPORT, -ENOMEM,
				       "no memory for a tensor's storage");
	}
	handle->data = view->data;
	handle->byte_offset = view->byte_offset;
	handle->device = view->device;
	handle->dtype = view->dtype;
	handle->is_read_only = true;
	handle->is_padded = view->is_padded;
	handle->itemsize = view->itemsize;
	handle->num_elements = view->num_elements;
	handle->nbytes = view->nbytes;
	memcpy(handle->shape, view->shape, view->ndim * sizeof(*view->shape));
	memcpy(handle->strides, view->strides,
	       view->ndim * sizeof(*view->strides));
	qbrt_tensor_finish(handle, storage);
	*tensor = handle;
	/* the storage is kept without its help */
	if (ours && release)
		release(arg);
	return QBRT_OK;
}

static void delete_versioned(void *arg)
{
	struct DLManagedTensorVersioned *managed = arg;

	if (managed->deleter)
		managed->deleter(managed);
}

static void delete_legacy(void *arg)
{
	struct DLManagedTensor *managed = arg;

	if (managed->deleter)
		managed->deleter(managed);
}

static enum qbrt_status refuse_null(const void *given, const char *name)
{
	return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
			 given ? "tensor" : name);
}

QBRT_API enum qbrt_status
qbrt_tensor_import_dlpack(struct DLManagedTensorVersioned *managed,
			  const struct qbrt_tensor_import_options *options,
			  struct qbrt_tensor **tensor)
{
	struct qbrt_dlpack_view view;
	enum qbrt_status status;
	bool is_deferred;

	if (!managed || !tensor)
		return refuse_null(managed, "managed");
	status = read_import_options(options, &is_deferred);
	if (!status)
		status = qbrt_dlpack_read(&view, managed);
	if (status)
		return status;
	return import(&view, delete_versioned, managed, is_deferred, tensor);
}

QBRT_API enum qbrt_status qbrt_tensor_import_dlpack_legacy(
	struct DLManagedTensor *managed,
	const struct qbrt_tensor_import_options *options,
	struct qbrt_tensor **tensor)
{
	struct qbrt_dlpack_view view;
	enum qbrt_status status;
	bool is_deferred;

	if (!managed || !tensor)
		return refuse_null(managed, "managed");
	status = read_import_options(options, &is_deferred);
	if (!status)
		status = qbrt_dlpack_read_legacy(&view, managed);
	if (status)
		return status;
	return import(&view, delete_legacy, managed, is_deferred, tensor);
}

QBRT_API enum qbrt_status
qbrt_tensor_import_memory(const struct qbrt_tensor_desc *desc,
			  qbrt_release_function release, void *arg,
			  const struct qbrt_tensor_import_options *options,
			  struct qbrt_tensor **tensor)
{
	struct qbrt_tensor_desc full;
	struct qbrt_dlpack_view view;
	enum qbrt_status status;
	bool is_deferred;

	if (!desc || !tensor)
		return refuse_null(desc, "desc");
	status = read_struct(desc, desc->size, "qbrt_tensor_desc", &full,
			     sizeof(full));
	if (!status && full.reserved)
		status = qbrt_fail(QBRT_INVALID_ARGUMENT,
				   "reserved is %u, expected 0", full.reserved);
	if (!status)
		status = read_import_options(options, &is_deferred);
	if (!status)
		status = qbrt_dlpack_read_desc(&view, &full);
	if (status)
		return status;
	return import(&view, release, arg, is_deferred, tensor);
}

/* ---- export ---- */

struct export
{
	union {
		struct DLManagedTensor legacy;
		struct DLManagedTensorVersioned versioned;
	} managed;
	struct qbrt_storage *storage; /* a reference */
	atomic_ulong *counter;        /* of live exports */
	int64_t extents[];            /* shape, then strides in elements */
};

static void free_export(struct export *block)
{
	struct qbrt_storage *storage = block->storage;

	atomic_fetch_sub_explicit(block->counter, 1, memory_order_relaxed);
	free(block);
	qbrt_storage_unref(storage);
}

static void delete_own_versioned(struct DLManagedTensorVersioned *managed)
{
	if (managed)
		free_export(managed->manager_ctx);
}

static void delete_own_legacy(struct DLManagedTensor *managed)
{
	if (managed)
		free_export(managed->manager_ctx);
}

/* counts: strides in elements. Both live as long as the struct. */
static void fill(DLTensor *to, const struct qbrt_tensor *tensor, int64_t *shape,
		 int64_t *counts)
{
	to->data = tensor->data ? (char *)tensor->data + tensor->byte_offset
				: NULL;
	to->device.device_type = (DLDeviceType)tensor->device.type;
	to->device.device_id = tensor->device.id;
	to->ndim = (int32_t)tensor->ndim;
	to->dtype.code = tensor->dtype.code;
	to->dtype.bits = tensor->dtype.bits;
	to->dtype.lanes = tensor->dtype.lanes;
	to->shape = tensor->ndim ? shape : NULL;
	to->strides = tensor->ndim ? counts : NULL;
	to->byte_offset = 0;
}

static enum qbrt_status check_counts(const struct qbrt_tensor *tensor)
{
	int64_t counts[QBRT_DLPACK_MAX_NDIM];
	size_t axis;

	if (tensor->has_counts ||
	    qbrt_dlpack_count_strides(tensor->shape, tensor->strides,
				      tensor->ndim, tensor->itemsize, counts,
				      &axis))
		return QBRT_OK;
	return qbrt_fail(
		QBRT_TENSOR_REFUSED,
		"strides[%zu] is %" PRId64 " bytes, expected a multiple "
		"of the %zu bytes of an element: copy the tensor first",
		axis, tensor->strides[axis], tensor->itemsize);
}

/*
 * A block that holds the storage; its struct is not filled yet. NULL with its
 * sentence: no memory.
 */
static struct export *wrap(const struct qbrt_tensor *tensor,
			   atomic_ulong *counter)
{
	/* of shape and counts, which lie together */
	size_t nbytes = 2 * tensor->ndim * sizeof(*tensor->shape);
	struct export *block = malloc(sizeof(*block) + nbytes);

	if (!block) {
		(void)qbrt_fail_errno(QBRT_AT_EXPORT, -ENOMEM,
				      "no memory for a tensor's export");
		return NULL;
	}
	memcpy(block->extents, tensor->shape, nbytes);
	block->storage = qbrt_storage_ref(tensor->storage);
	block->counter = counter;
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
	return block;
}

static void fill_versioned(struct export *block,
			   const struct qbrt_tensor *tensor, bool is_copied)
{
	struct DLManagedTensorVersioned *managed = &block->managed.versioned;

	managed->version.major = QBRT_DLPACK_MAJOR;
	managed->version.minor = QBRT_DLPACK_MINOR;
	managed->manager_ctx = block;
	managed->deleter = delete_own_versioned;
	managed->flags =
		(tensor->is_read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
		(is_copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0) |
		(tensor->is_padded ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
				   : 0);
	fill(&managed->dl_tensor, tensor, block->extents,
	     block->extents + tensor->ndim);
}

static void fill_legacy(struct export *block, const struct qbrt_tensor *tensor)
{
	struct DLManagedTensor *managed = &block->managed.legacy;

	managed->manager_ctx = block;
	managed->deleter = delete_own_legacy;
	fill(&managed->dl_tensor, tensor, block->extents,
	     block->extents + tensor->ndim);
}

static enum qbrt_status
read_export_options(const struct qbrt_tensor_export_options *given,
		    struct qbrt_tensor_export_options *options)
{
	const uint32_t known = QBRT_TENSOR_NO_ORDER | QBRT_TENSOR_OWNED_C;
	enum qbrt_status status;

	memset(options, 0, sizeof(*options));
	if (!given)
		return QBRT_OK;
	status = read_struct(given, given->size, "qbrt_tensor_export_options",
			     options, sizeof(*options));
	if (status)
		return status;
	if (options->flags & ~known)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "flags are 0x%x, known is 0x%x",
				 options->flags, known);
	if ((unsigned int)options->copy > QBRT_COPY_NEVER)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "copy is %d, expected one of enum "
				 "qbrt_copy_mode",
				 (int)options->copy);
	return qbrt_tensor_check_stream(options->stream);
}

/* Whether the tensor has to be copied for what is asked. */
static enum qbrt_status
judge_copy(const struct qbrt_tensor *tensor,
	   const struct qbrt_tensor_export_options *options, bool *is_copied)
{
	struct qbrt_dlpack_device own = tensor->device;
	struct qbrt_dlpack_device target = options->device;

	if (!target.type)
		target = own;
	*is_copied = options->copy == QBRT_COPY_ALWAYS ||
		     target.type != own.type || target.id != own.id;
	if (!*is_copied)
		return QBRT_OK;
	/* a copy of memory that the host reaches is memory of the host */
	if (target.type != kDLCPU || target.id)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "a copy to device (%" PRId32 ", %" PRId32
				 ") is not possible, the tensor is on (%" PRId32
				 ", %" PRId32 "): ask for (1, 0), the CPU",
				 target.type, target.id, own.type, own.id);
	if (options->copy == QBRT_COPY_NEVER)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "device (%" PRId32 ", %" PRId32
				 ") needs a copy, the tensor is on (%" PRId32
				 ", %" PRId32 "), and copy is never: allow it",
				 target.type, target.id, own.type, own.id);
	return QBRT_OK;
}

/* tensor is to be exported: itself, or the copy of it that was made. */
static enum qbrt_status
take_source(const struct qbrt_tensor *tensor,
	    const struct qbrt_tensor_export_options *options,
	    struct qbrt_tensor **copy)
{
	bool is_copied;
	enum qbrt_status status = judge_copy(tensor, options, &is_copied);

	*copy = NULL;
	if (status)
		return status;
	if (is_copied)
		return qbrt_tensor_copy(tensor, NULL, copy);
	status = check_counts(tensor);
	return status ? status : qbrt_tensor_wait_readable(tensor);
}

QBRT_API enum qbrt_status
qbrt_tensor_export_dlpack(const struct qbrt_tensor *tensor,
			  const struct qbrt_tensor_export_options *options,
			  struct DLManagedTensorVersioned **managed)
{
	struct qbrt_tensor_export_options full;
	struct qbrt_tensor *copy = NULL;
	struct export *block;
	enum qbrt_status status;

	if (!tensor || !managed)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 tensor ? "managed" : "tensor");
	status = read_export_options(options, &full);
	if (!status)
		status = take_source(tensor, &full, &copy);
	if (status)
		return status;
	block = wrap(copy ? copy : tensor,
		     full.flags & QBRT_TENSOR_OWNED_C
			     ? &qbrt_counters.exports_owned_c
			     : &qbrt_counters.exports_versioned);
	if (block) {
		fill_versioned(block, copy ? copy : tensor, copy);
		*managed = &block->managed.versioned;
	}
	qbrt_tensor_free(copy);
	return block ? QBRT_OK : QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
}

static enum qbrt_status refuse_read_only(void)
{
	return qbrt_fail(
		QBRT_TENSOR_READ_ONLY,
		"the tensor is read-only, which a DLPack struct without "
		"a version cannot say: ask for a versioned one "
		"(max_version=(1, 0) or newer), or copy the tensor "
		"first");
}

/* What only a struct of version 1 says. */
static enum qbrt_status check_legacy(const struct qbrt_tensor *tensor)
{
	if (tensor->is_read_only)
		return refuse_read_only();
	if (tensor->is_padded)
		return qbrt_fail(QBRT_TENSOR_REFUSED,
				 "elements of %u bits are padded to bytes, "
				 "which a DLPack struct without a version "
				 "cannot say: ask for a versioned one",
				 tensor->dtype.bits);
	return QBRT_OK;
}

QBRT_API enum qbrt_status qbrt_tensor_export_dlpack_legacy(
	const struct qbrt_tensor *tensor,
	const struct qbrt_tensor_export_options *options,
	struct DLManagedTensor **managed)
{
	struct qbrt_tensor_export_options full;
	struct qbrt_tensor *copy = NULL;
	struct export *block;
	enum qbrt_status status;

	if (!tensor || !managed)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 tensor ? "managed" : "tensor");
	status = read_export_options(options, &full);
	if (!status)
		status = check_legacy(tensor);
	if (!status)
		status = take_source(tensor, &full, &copy);
	if (status)
		return status;
	block = wrap(copy ? copy : tensor,
		     full.flags & QBRT_TENSOR_OWNED_C
			     ? &qbrt_counters.exports_owned_c
			     : &qbrt_counters.exports_legacy);
	if (block) {
		fill_legacy(block, copy ? copy : tensor);
		*managed = &block->managed.legacy;
	}
	qbrt_tensor_free(copy);
	return block ? QBRT_OK : QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY;
}

QBRT_API enum qbrt_status
qbrt_tensor_borrow_dlpack(const struct qbrt_tensor *tensor, void *dl_tensor)
{
	enum qbrt_status status;

	if (!tensor || !dl_tensor)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 tensor ? "dl_tensor" : "tensor");
	status = check_legacy(tensor);
	if (!status)
		status = check_counts(tensor);
	if (!status)
		status = qbrt_tensor_wait_readable(tensor);
	if (status)
		return status;
	/* shape, which lies before counts; its reader does not write it */
	fill(dl_tensor, tensor, tensor->counts - tensor->ndim, tensor->counts);
	qbrt_count(exports_borrowed);
	return QBRT_OK;
}
