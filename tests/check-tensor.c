// SPDX-License-Identifier: MIT
/*
 * Tensors: what they say, and the structs that they are exported by.
 */
#include "test-util.h"

#include <string.h>

#include "dlpack.h"
#include "tensor.h"
#include "tensors.h"
#include "util.h"

/* ---- what a tensor of ours says ---- */

/* H23 H24 H25 H26 H28 PM05 PM10: views of one storage, each by itself. */
START_TEST(tensors_of_pinned_memory_share_its_storage)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	uint64_t num = get_stats().storages;
	struct qbrt_tensor *a = make_tensor(mem, 0);
	struct qbrt_tensor *b = make_tensor(mem, QBRT_TENSOR_FLAG_READ_ONLY);
	struct qbrt_dlpack_device device = qbrt_tensor_get_dlpack_device(a);

	ck_assert_uint_eq(get_stats().storages, num);
	ck_assert_uint_eq(get_stats().tensors, 2);
	ck_assert_ptr_eq(qbrt_tensor_get_data(a),
			 qbrt_pinned_memory_get_data(mem));
	ck_assert_ptr_eq(qbrt_tensor_get_data(b), qbrt_tensor_get_data(a));
	ck_assert_uint_eq(qbrt_tensor_get_byte_offset(a), 0);
	ck_assert_int_eq(device.type, kDLCPU);
	ck_assert_int_eq(device.id, 0);
	ck_assert_str_eq(qbrt_tensor_get_device(a), "aries-rb:0");
	ck_assert(!qbrt_tensor_is_read_only(a));
	ck_assert(qbrt_tensor_is_read_only(b));
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(a),
			  qbrt_pinned_memory_get_nbytes(mem));
	ck_assert(qbrt_tensor_is_contiguous(a));
	qbrt_pinned_memory_free(mem);
	qbrt_tensor_free(b);
	ck_assert_double_eq((double)((float *)qbrt_tensor_get_data(a))[5], 5);
	ck_assert_uint_eq(get_stats().storages, num);
	qbrt_tensor_free(a);
	ck_assert_uint_eq(get_stats().storages, num - 1);
	ck_assert_uint_eq(get_stats().tensors, 0);
}
END_TEST

START_TEST(of_null_the_getters_say_nothing)
{
	ck_assert_ptr_null(qbrt_tensor_get_data(NULL));
	ck_assert_ptr_null(qbrt_tensor_get_first_element(NULL));
	ck_assert_ptr_null(qbrt_tensor_get_shape(NULL));
	ck_assert_ptr_null(qbrt_tensor_get_strides(NULL));
	ck_assert_ptr_null(qbrt_tensor_get_device(NULL));
	ck_assert_uint_eq(qbrt_tensor_get_byte_offset(NULL), 0);
	ck_assert_uint_eq(qbrt_tensor_get_ndim(NULL), 0);
	ck_assert_uint_eq(qbrt_tensor_get_itemsize(NULL), 0);
	ck_assert_uint_eq(qbrt_tensor_get_num_elements(NULL), 0);
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(NULL), 0);
	ck_assert_int_eq(qbrt_tensor_get_dtype(NULL), QBRT_DTYPE_ERROR);
	ck_assert_uint_eq(qbrt_tensor_get_dlpack_dtype(NULL).bits, 0);
	ck_assert_int_eq(qbrt_tensor_get_dlpack_device(NULL).type, 0);
	ck_assert(!qbrt_tensor_is_read_only(NULL));
	ck_assert(!qbrt_tensor_is_contiguous(NULL));
	qbrt_tensor_free(NULL);
	qbrt_bridge_get_stats(NULL);
}
END_TEST

/* Q735: as much as the caller knows. */
START_TEST(counters_are_answered_in_the_size_that_is_asked)
{
	struct {
		struct qbrt_bridge_stats stats;
		uint64_t behind;
	} asked;

	memset(&asked, 0x5a, sizeof(asked));
	asked.stats.size = offsetof(struct qbrt_bridge_stats, tensors);
	qbrt_bridge_get_stats(&asked.stats);
	ck_assert_uint_eq(asked.stats.storages, 0);
	ck_assert_uint_eq(asked.stats.tensors, UINT64_C(0x5a5a5a5a5a5a5a5a));
	asked.stats.size = sizeof(asked);
	qbrt_bridge_get_stats(&asked.stats);
	ck_assert_uint_eq(asked.stats.size, sizeof(asked));
	ck_assert_uint_eq(asked.behind, 0);
	asked.stats.size = 7;
	asked.stats.storages = 3;
	qbrt_bridge_get_stats(&asked.stats);
	ck_assert_uint_eq(asked.stats.storages, 3);
}
END_TEST

/* H35: 12 layouts. */
static const struct {
	size_t ndim;
	int64_t shape[4];
	int64_t strides[4]; /* bytes, of 4 each */
	bool is_dense;
} layouts[] = {
	{ 0, { 0 }, { 0 }, true },
	{ 1, { 5 }, { 4 }, true },
	{ 1, { 5 }, { 8 }, false },
	{ 1, { 5 }, { -4 }, false },
	{ 1, { 1 }, { 1234 }, true },
	{ 2, { 2, 3 }, { 12, 4 }, true },
	{ 2, { 2, 3 }, { 4, 8 }, false },
	{ 2, { 1, 3 }, { 4, 4 }, true },
	{ 2, { 3, 1 }, { 4, 12 }, true },
	{ 2, { 2, 3 }, { 0, 4 }, false },
	{ 3, { 3, 0, 2 }, { 1, 2, 3 }, true },
	{ 4, { 2, 1, 3, 1 }, { 12, 7, 4, 9 }, true },
};

START_TEST(contiguity_is_dense_c_order)
{
	float elements[24] = { 0 };
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = elements + 8,
		.device = { .type = kDLCPU },
		.dtype = { kDLFloat, 32, 1 },
		.ndim = layouts[_i].ndim,
		.shape = layouts[_i].shape,
		.strides = layouts[_i].strides,
	};
	struct qbrt_tensor *tensor;

	ck_assert_ok(
		qbrt_tensor_import_memory(&desc, NULL, NULL, NULL, &tensor));
	ck_assert_int_eq(qbrt_tensor_is_contiguous(tensor),
			 layouts[_i].is_dense);
	qbrt_tensor_free(tensor);
}
END_TEST

/* ---- export ---- */

/* H55 H56 H71 1.3: the struct of a writable and of a read-only tensor. */
START_TEST(a_versioned_struct_says_all)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor =
		make_tensor(mem, _i ? QBRT_TENSOR_FLAG_READ_ONLY : 0);
	DLManagedTensorVersioned *managed =
		export_versioned(tensor, QBRT_COPY_NEVER);

	ck_assert_uint_eq(managed->version.major, 1);
	ck_assert_uint_eq(managed->version.minor, 3);
	ck_assert_uint_eq(managed->flags,
			  _i ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
	ck_assert_ptr_eq(managed->dl_tensor.data,
			 qbrt_pinned_memory_get_data(mem));
	ck_assert_int_eq(managed->dl_tensor.device.device_type, kDLCPU);
	ck_assert_int_eq(managed->dl_tensor.device.device_id, 0);
	ck_assert_int_eq(managed->dl_tensor.ndim, 2);
	ck_assert_int_eq(managed->dl_tensor.dtype.code, kDLFloat);
	ck_assert_int_eq(managed->dl_tensor.dtype.bits, 32);
	ck_assert_int_eq(managed->dl_tensor.dtype.lanes, 1);
	ck_assert_int_eq(managed->dl_tensor.shape[0], 2);
	ck_assert_int_eq(managed->dl_tensor.shape[1], 3);
	ck_assert_int_eq(managed->dl_tensor.strides[0], 3);
	ck_assert_int_eq(managed->dl_tensor.strides[1], 1);
	ck_assert_uint_eq(managed->dl_tensor.byte_offset, 0);
	ck_assert_uint_eq(get_stats().exports_versioned, 1);
	managed->deleter(managed);
	ck_assert_uint_eq(get_stats().exports_versioned, 0);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

/* H51 H54 D2: without a version, and not of a read-only tensor. */
START_TEST(a_legacy_struct_is_of_writable_memory)
{
	const struct qbrt_tensor_export_options options = {
		.size = sizeof(options),
		.copy = (enum qbrt_copy_mode)_i,
	};
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	DLManagedTensor *managed;
	DLTensor borrowed;

	ck_assert_ok(qbrt_tensor_export_dlpack_legacy(tensor, NULL, &managed));
	ck_assert_ptr_eq(managed->dl_tensor.data,
			 qbrt_pinned_memory_get_data(mem));
	ck_assert_uint_eq(get_stats().exports_legacy, 1);
	managed->deleter(managed);
	ck_assert_uint_eq(get_stats().exports_legacy, 0);
	qbrt_tensor_free(tensor);
	tensor = make_tensor(mem, QBRT_TENSOR_FLAG_READ_ONLY);
	ck_assert_status(
		qbrt_tensor_export_dlpack_legacy(tensor, &options, &managed),
		QBRT_TENSOR_READ_ONLY);
	ck_assert_detail("max_version=(1, 0)");
	ck_assert_detail("copy the tensor");
	/* H76 */
	ck_assert_status(qbrt_tensor_borrow_dlpack(tensor, &borrowed),
			 QBRT_TENSOR_READ_ONLY);
	ck_assert_uint_eq(get_stats().exports_legacy, 0);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

START_TEST(a_borrowed_struct_lives_with_the_tensor)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	uint64_t num = get_stats().exports_borrowed;
	DLTensor borrowed;

	ck_assert_ok(qbrt_tensor_borrow_dlpack(tensor, &borrowed));
	ck_assert_ptr_eq(borrowed.data, qbrt_pinned_memory_get_data(mem));
	ck_assert_int_eq(borrowed.shape[1], 3);
	ck_assert_int_eq(borrowed.strides[0], 3);
	ck_assert_uint_eq(get_stats().exports_borrowed, num + 1);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

/* PM06: no axis: neither shape nor strides (1.2). */
START_TEST(an_export_without_axes_has_no_arrays)
{
	struct qbrt_accelerator *acc;
	struct qbrt_pinned_memory *mem;
	struct qbrt_tensor *tensor;
	DLManagedTensorVersioned *managed;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_BFLOAT16, NULL, 0,
					      NULL, &mem));
	tensor = make_tensor(mem, 0);
	managed = export_versioned(tensor, QBRT_COPY_IF_NEEDED);
	ck_assert_int_eq(managed->dl_tensor.ndim, 0);
	ck_assert_ptr_null(managed->dl_tensor.shape);
	ck_assert_ptr_null(managed->dl_tensor.strides);
	ck_assert_int_eq(managed->dl_tensor.dtype.code, kDLBfloat);
	managed->deleter(managed);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* B25: axes of one element are exported as if they were dense. */
START_TEST(strides_of_single_elements_are_made_dense)
{
	const int64_t shape[] = { 1, 3, 1 };
	const int64_t strides[] = { 77, 4, 5 };
	float data[3];
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = data,
		.device = { .type = kDLCPU },
		.dtype = { kDLFloat, 32, 1 },
		.ndim = 3,
		.shape = shape,
		.strides = strides,
	};
	struct qbrt_tensor *tensor;
	DLManagedTensorVersioned *managed;

	ck_assert_ok(
		qbrt_tensor_import_memory(&desc, NULL, NULL, NULL, &tensor));
	managed = export_versioned(tensor, QBRT_COPY_NEVER);
	ck_assert_int_eq(managed->dl_tensor.strides[0], 3);
	ck_assert_int_eq(managed->dl_tensor.strides[1], 1);
	ck_assert_int_eq(managed->dl_tensor.strides[2], 1);
	managed->deleter(managed);
	qbrt_tensor_free(tensor);
}
END_TEST

/* 1.5: bytes between elements that no number of elements is. */
START_TEST(a_stride_of_half_an_element_is_exported_as_a_copy_alone)
{
	static const int64_t strides[] = { 14, 4 };
	char bytes[32] = { 0 };
	const int64_t shape[] = { 2, 3 };
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = bytes,
		.device = { .type = kDLCPU },
		.dtype = { kDLFloat, 32, 1 },
		.ndim = 2,
		.shape = shape,
		.strides = strides,
	};
	struct qbrt_tensor *tensor;
	DLManagedTensorVersioned *managed;
	float last = 7;

	memcpy(bytes + 14 + 8, &last, sizeof(last));
	ck_assert_ok(
		qbrt_tensor_import_memory(&desc, NULL, NULL, NULL, &tensor));
	ck_assert_status(qbrt_tensor_export_dlpack(tensor, NULL, &managed),
			 QBRT_TENSOR_REFUSED);
	ck_assert_detail("strides[0] is 14 bytes");
	managed = export_versioned(tensor, QBRT_COPY_ALWAYS);
	ck_assert_int_eq(managed->dl_tensor.strides[0], 3);
	ck_assert_double_eq((double)((float *)managed->dl_tensor.data)[5], 7);
	managed->deleter(managed);
	qbrt_tensor_free(tensor);
}
END_TEST

/* H68 H70 B16: a writable copy of its own, also of a read-only tensor. */
START_TEST(copy_always_gives_memory_of_its_own)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor =
		make_tensor(mem, _i ? QBRT_TENSOR_FLAG_READ_ONLY : 0);
	DLManagedTensorVersioned *managed =
		export_versioned(tensor, QBRT_COPY_ALWAYS);
	const float *data = managed->dl_tensor.data;

	ck_assert_uint_eq(managed->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
	ck_assert_ptr_ne(data, qbrt_pinned_memory_get_data(mem));
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	for (int i = 0; i < 6; i++)
		ck_assert_double_eq((double)data[i], i);
	managed->deleter(managed);
}
END_TEST

/* H64 H66 H67 B20: which devices an export may be asked for. */
START_TEST(a_device_out_of_reach_is_refused)
{
	static const struct {
		int32_t own;
		struct qbrt_dlpack_device asked;
		enum qbrt_copy_mode copy;
		enum qbrt_status status;
		uint64_t flags;
	} asked[] = {
		{ 1, { 1, 0 }, QBRT_COPY_NEVER, QBRT_OK, 1 },
		{ 1, { 1, 1 }, QBRT_COPY_IF_NEEDED, QBRT_TENSOR_REFUSED, 0 },
		{ 1, { 3, 0 }, QBRT_COPY_IF_NEEDED, QBRT_TENSOR_REFUSED, 0 },
		{ 1, { 2, 0 }, QBRT_COPY_ALWAYS, QBRT_TENSOR_REFUSED, 0 },
		{ 1, { 7, 0 }, QBRT_COPY_IF_NEEDED, QBRT_TENSOR_REFUSED, 0 },
		{ 3, { 3, 0 }, QBRT_COPY_NEVER, QBRT_OK, 1 },
		{ 3, { 0, 0 }, QBRT_COPY_ALWAYS, QBRT_TENSOR_REFUSED, 0 },
		{ 3, { 1, 0 }, QBRT_COPY_NEVER, QBRT_TENSOR_REFUSED, 0 },
		{ 3, { 1, 0 }, QBRT_COPY_IF_NEEDED, QBRT_OK, 2 },
		{ 3, { 1, 0 }, QBRT_COPY_ALWAYS, QBRT_OK, 2 },
	};

	for (size_t i = 0; i < qbrt_array_size(asked); i++) {
		float data[6] = { 0 };
		const struct qbrt_tensor_export_options options = {
			.size = sizeof(options),
			.device = asked[i].asked,
			.copy = asked[i].copy,
		};
		struct qbrt_tensor *tensor = import_floats(data, NULL, 0);
		DLManagedTensorVersioned *managed;

		tensor->device.type = asked[i].own;
		ck_assert_status(
			qbrt_tensor_export_dlpack(tensor, &options, &managed),
			asked[i].status);
		if (!asked[i].status) {
			ck_assert_uint_eq(managed->flags, asked[i].flags);
			managed->deleter(managed);
		}
		qbrt_tensor_free(tensor);
	}
}
END_TEST

/* B30: only a versioned struct says that elements are padded. */
START_TEST(padded_elements_need_a_versioned_struct)
{
	uint8_t data[4] = { 0 };
	int64_t shape[] = { 4 };
	DLManagedTensorVersioned given = {
		.version = { 1, 1 },
		.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
		.dl_tensor = {
			.data = data,
			.device = { kDLCPU, 0 },
			.ndim = 1,
			.dtype = { kDLFloat4_e2m1fn, 4, 1 },
			.shape = shape,
		},
	};
	struct qbrt_tensor *tensor, *copy;
	DLManagedTensorVersioned *managed;
	DLManagedTensor *legacy;

	ck_assert_ok(qbrt_tensor_import_dlpack(&given, NULL, &tensor));
	managed = export_versioned(tensor, QBRT_COPY_NEVER);
	ck_assert_uint_eq(managed->flags,
			  DLPACK_FLAG_BITMASK_READ_ONLY |
				  DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
	managed->deleter(managed);
	ck_assert_ok(qbrt_tensor_copy(tensor, NULL, &copy));
	ck_assert_status(qbrt_tensor_export_dlpack_legacy(copy, NULL, &legacy),
			 QBRT_TENSOR_REFUSED);
	ck_assert_detail("padded");
	qbrt_tensor_free(copy);
	qbrt_tensor_free(tensor);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(tensors_of_pinned_memory_share_its_storage),
		QBRT_TEST(of_null_the_getters_say_nothing),
		QBRT_TEST(counters_are_answered_in_the_size_that_is_asked),
		QBRT_LOOP_TEST(contiguity_is_dense_c_order,
			       qbrt_array_size(layouts)),
		QBRT_LOOP_TEST(a_versioned_struct_says_all, 2),
		QBRT_LOOP_TEST(a_legacy_struct_is_of_writable_memory, 3),
		QBRT_TEST(a_borrowed_struct_lives_with_the_tensor),
		QBRT_TEST(an_export_without_axes_has_no_arrays),
		QBRT_TEST(strides_of_single_elements_are_made_dense),
		QBRT_TEST(
			a_stride_of_half_an_element_is_exported_as_a_copy_alone),
		QBRT_LOOP_TEST(copy_always_gives_memory_of_its_own, 2),
		QBRT_TEST(a_device_out_of_reach_is_refused),
		QBRT_TEST(padded_elements_need_a_versioned_struct),
	};

	return qbrt_test_run("tensor", tests, qbrt_array_size(tests));
}
