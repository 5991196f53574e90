// SPDX-License-Identifier: MIT
/*
 * DLPack structs from outside: the bytes say which call, the numbers of the
 * struct and of the export. Whatever they are, a refusal has a sentence and takes
 * nothing, and what was taken is released once; a copy reads inside what the
 * struct says. Elements lie in a buffer of which the struct may describe all.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dlpack-abi.h"
#include "tensor.h"

#define NUM_ELEMENTS_BYTES 4096
#define MAX_COPY 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int is_true)
{
	if (!is_true)
		abort();
}

static int num_deleted;

static void delete_versioned(DLManagedTensorVersioned *managed)
{
	(void)managed;
	num_deleted++;
}

static void delete_legacy(DLManagedTensor *managed)
{
	(void)managed;
	num_deleted++;
}

static void release(void *arg)
{
	(void)arg;
	num_deleted++;
}

/* What the bytes set; shape and strides follow. */
struct input {
	uint8_t call;
	uint8_t copy;
	uint8_t has_strides;
	uint8_t has_data;
	int32_t device_type;
	int32_t device_id;
	int32_t asked_type;
	int32_t asked_id;
	int32_t ndim;
	DLDataType dtype;
	uint32_t major;
	uint64_t flags;
	uint64_t byte_offset;
};

static uint8_t elements[NUM_ELEMENTS_BYTES];
/* of as many axes as may be asked for, and of those that may not */
static int64_t extents[2 * 128];

static struct qbrt_tensor *import(const struct input *input)
{
	const struct qbrt_tensor_import_options options = {
		.size = sizeof(options),
		.flags = input->call & 4 ? QBRT_TENSOR_DEFER_RELEASE : 0,
	};
	DLManagedTensorVersioned versioned = {
		.version = { input->major, 0 },
		.deleter = delete_versioned,
		.flags = input->flags,
	};
	DLTensor *tensor = &versioned.dl_tensor;
	static DLManagedTensorVersioned kept;
	static DLManagedTensor kept_legacy;
	struct qbrt_tensor *made = NULL;
	enum qbrt_status status;

	tensor->data = input->has_data ? elements : NULL;
	memcpy(&tensor->device.device_type, &input->device_type, 4);
	tensor->device.device_id = input->device_id;
	tensor->ndim = input->ndim;
	tensor->dtype = input->dtype;
	tensor->shape = extents;
	tensor->strides = input->has_strides ? extents + 128 : NULL;
	tensor->byte_offset = input->byte_offset;
	kept = versioned;
	kept_legacy = (DLManagedTensor){ .dl_tensor = *tensor,
					 .deleter = delete_legacy };
	switch (input->call & 3) {
	case 0:
		status = qbrt_tensor_import_dlpack(&kept, &options, &made);
		break;
	case 1:
		status = qbrt_tensor_import_dlpack_legacy(&kept_legacy,
							  &options, &made);
		break;
	default: {
		const struct qbrt_tensor_desc desc = {
			.size = sizeof(desc),
			.data = tensor->data,
			.device = { input->device_type, input->device_id },
			.dtype = { input->dtype.code, input->dtype.bits,
				   input->dtype.lanes },
			/* more than the arrays have is refused unread */
			.ndim = (uint32_t)input->ndim,
			.shape = tensor->shape,
			.strides = tensor->strides,
		};

		status = qbrt_tensor_import_memory(&desc, release, NULL,
						   &options, &made);
		break;
	}
	}
	require(!status == !!made);
	require(!status || *qbrt_error_detail());
	require(!num_deleted);
	return made;
}

/* A walk over the outermost elements stays inside what is there. */
static int is_inside(const struct qbrt_tensor *tensor)
{
	uintptr_t begin = (uintptr_t)elements;
	uintptr_t end = begin + sizeof(elements);
	uintptr_t low = (uintptr_t)qbrt_tensor_get_first_element(tensor);
	uintptr_t high = low + tensor->itemsize;

	if (!tensor->num_elements)
		return 1;
	for (size_t i = 0; i < tensor->ndim; i++) {
		int64_t span = tensor->strides[i] * (tensor->shape[i] - 1);

		*(span < 0 ? &low : &high) += (uintptr_t)span;
	}
	return low >= begin && high <= end && low < high;
}

static void export(const struct qbrt_tensor *tensor, const struct input *input)
{
	const struct qbrt_tensor_export_options options = {
		.size = sizeof(options),
		.device = { input->asked_type, input->asked_id },
		.copy = (enum qbrt_copy_mode)(input->copy & 3),
	};
	DLManagedTensorVersioned *managed = NULL;
	DLManagedTensor *legacy = NULL;
	enum qbrt_status status;

	/* a copy reads the elements, which only some structs have */
	if (!is_inside(tensor) || tensor->nbytes > MAX_COPY)
		return;
	status = qbrt_tensor_export_dlpack(tensor, &options, &managed);
	require(!status == !!managed);
	if (managed) {
		require(managed->dl_tensor.byte_offset == 0);
		require(!tensor->ndim || managed->dl_tensor.strides);
		managed->deleter(managed);
	}
	/* it is read-only, as every import */
	status = qbrt_tensor_export_dlpack_legacy(tensor, &options, &legacy);
	require(status && !legacy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .call = 0 };
	struct qbrt_bridge_stats stats = { .size = sizeof(stats) };
	struct qbrt_tensor *tensor;

	memcpy(&input, data, size < sizeof(input) ? size : sizeof(input));
	memset(extents, 0, sizeof(extents));
	if (size > sizeof(input)) {
		size -= sizeof(input);
		memcpy(extents, data + sizeof(input),
		       size < sizeof(extents) ? size : sizeof(extents));
	}
	num_deleted = 0;
	tensor = import(&input);
	if (tensor) {
		require(qbrt_tensor_is_read_only(tensor));
		export(tensor, &input);
		qbrt_tensor_free(tensor);
		require(qbrt_bridge_drain(NULL) == QBRT_OK);
		require(num_deleted == 1);
	}
	qbrt_bridge_get_stats(&stats);
	require(!stats.storages && !stats.tensors && !stats.exports_versioned);
	return 0;
}
