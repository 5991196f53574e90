// SPDX-License-Identifier: MIT
/* Tensors to test with. */
#include "tensors.h"

#include "test-util.h"

struct qbrt_bridge_stats get_stats(void)
{
	struct qbrt_bridge_stats stats = { .size = sizeof(stats) };

	qbrt_bridge_get_stats(&stats);
	return stats;
}

struct qbrt_pinned_memory *alloc_memory(void)
{
	const int64_t shape[] = { 2, 3 };
	struct qbrt_accelerator *acc;
	struct qbrt_pinned_memory *mem;
	float *data;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_FLOAT32, shape, 2,
					      NULL, &mem));
	qbrt_accelerator_close(acc);
	data = qbrt_pinned_memory_get_data(mem);
	for (int i = 0; i < 6; i++)
		data[i] = (float)i;
	return mem;
}

struct qbrt_tensor *make_tensor(struct qbrt_pinned_memory *mem, uint32_t flags)
{
	struct qbrt_tensor *tensor;

	ck_assert_ok(qbrt_tensor_from_pinned_memory(mem, flags, &tensor));
	return tensor;
}

DLManagedTensorVersioned *export_versioned(const struct qbrt_tensor *tensor,
					   enum qbrt_copy_mode copy)
{
	const struct qbrt_tensor_export_options options = {
		.size = sizeof(options),
		.copy = copy,
	};
	DLManagedTensorVersioned *managed;

	ck_assert_ok(qbrt_tensor_export_dlpack(tensor, &options, &managed));
	return managed;
}

atomic_int num_released;

void count_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&num_released, 1);
}

struct qbrt_tensor *import_floats(float *data, const int64_t *strides,
				  uint32_t flags)
{
	const int64_t shape[] = { 2, 3 };
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = data,
		.device = { .type = kDLCPU },
		.dtype = { kDLFloat, 32, 1 },
		.ndim = 2,
		.shape = shape,
		.strides = strides,
	};
	const struct qbrt_tensor_import_options options = {
		.size = sizeof(options),
		.flags = flags,
	};
	struct qbrt_tensor *tensor;

	ck_assert_ok(qbrt_tensor_import_memory(&desc, count_release, NULL,
					       &options, &tensor));
	return tensor;
}
