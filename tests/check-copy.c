// SPDX-License-Identifier: MIT
/*
 * Copies of tensors of any shape and element, against a walk over the indices;
 * and the arguments that no function of tensors takes.
 */
#include "test-util.h"

#include <stdlib.h>
#include <string.h>

#include "count-alloc.h"
#include "dlpack.h"
#include "pinned-memory.h"
#include "tensor.h"
#include "tensors.h"
#include "util.h"

static uint8_t source[1 << 17];

static void fill_source(void)
{
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 167 + (i >> 8) * 13);
}

static struct qbrt_tensor *describe(void *data, struct qbrt_dlpack_dtype dtype,
				    size_t ndim, const int64_t *shape,
				    const int64_t *strides)
{
	const struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = data,
		.device = { .type = kDLCPU },
		.dtype = dtype,
		.ndim = ndim,
		.shape = shape,
		.strides = strides,
	};
	struct qbrt_tensor *tensor;

	ck_assert_ok(
		qbrt_tensor_import_memory(&desc, NULL, NULL, NULL, &tensor));
	return tensor;
}

/* Element by element, in C order. */
static void check_equal(const struct qbrt_tensor *copy,
			const struct qbrt_tensor *tensor)
{
	const char *to = qbrt_tensor_get_data(copy);

	for (size_t i = 0; i < tensor->num_elements; i++) {
		const char *from = qbrt_tensor_get_first_element(tensor);
		size_t left = i;

		for (size_t axis = tensor->ndim; axis--;) {
			size_t extent = (size_t)tensor->shape[axis];

			from += (int64_t)(left % extent) *
				tensor->strides[axis];
			left /= extent;
		}
		ck_assert_mem_eq(to + i * tensor->itemsize, from,
				 tensor->itemsize);
	}
}

static void check_copy(struct qbrt_tensor *tensor)
{
	struct qbrt_tensor *copy;

	ck_assert_ok(qbrt_tensor_copy(tensor, NULL, &copy));
	ck_assert(!qbrt_tensor_is_read_only(copy));
	ck_assert(qbrt_tensor_is_contiguous(copy));
	ck_assert_uint_eq(qbrt_tensor_get_ndim(copy), tensor->ndim);
	ck_assert_mem_eq(copy->shape, tensor->shape,
			 tensor->ndim * sizeof(*tensor->shape));
	ck_assert_mem_eq(&copy->dtype, &tensor->dtype, sizeof(copy->dtype));
	ck_assert_uint_eq((uintptr_t)qbrt_tensor_get_data(copy) % 64, 0);
	check_equal(copy, tensor);
	qbrt_tensor_free(copy);
	qbrt_tensor_free(tensor);
}

/* H111: layouts; the last has more axes than any walk of layout.c. */
static const struct {
	size_t ndim;
	int64_t shape[12];
	int64_t strides[12]; /* elements */
	size_t first;        /* element of index 0, 0, ... */
} layouts[] = {
	{ 0, { 0 }, { 0 }, 3 },
	{ 1, { 7 }, { 1 }, 0 },
	{ 1, { 7 }, { -2 }, 20 },
	{ 2, { 3, 5 }, { 1, 3 }, 1 },
	{ 2, { 3, 5 }, { 0, 1 }, 0 },
	{ 3, { 4, 1, 6 }, { 6, 99, 1 }, 0 },
	{ 3, { 4, 3, 6 }, { -40, 7, 1 }, 200 },
	{ 2, { 64, 65 }, { 1, 64 }, 0 },
	{ 10,
	  { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 },
	  { 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023 },
	  0 },
	{ 12,
	  { 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 },
	  { 1023, 5, 1, 3, 7, 15, 31, 63, 127, 255, 511, 11 },
	  2 },
};

/* Of 1, 2, 3, 4, 8, 12 and 16 bytes. */
static const struct qbrt_dlpack_dtype elements[] = {
	{ kDLUInt, 8, 1 },      { kDLBfloat, 16, 1 },  { kDLUInt, 8, 3 },
	{ kDLFloat, 32, 1 },    { kDLComplex, 64, 1 }, { kDLFloat, 32, 3 },
	{ kDLComplex, 128, 1 },
};

START_TEST(a_copy_has_the_elements_in_c_order)
{
	fill_source();
	for (size_t i = 0; i < qbrt_array_size(elements); i++) {
		int64_t itemsize = elements[i].bits * elements[i].lanes / 8;
		int64_t strides[12];

		for (size_t axis = 0; axis < layouts[_i].ndim; axis++)
			strides[axis] = layouts[_i].strides[axis] * itemsize;
		/* one byte on, so that no element is aligned */
		check_copy(describe(
			source + 1 + layouts[_i].first * (size_t)itemsize,
			elements[i], layouts[_i].ndim, layouts[_i].shape,
			strides));
	}
}
END_TEST

START_TEST(of_64_axes_a_copy_is_made)
{
	int64_t shape[64];
	int64_t strides[64];

	fill_source();
	for (int i = 0; i < 64; i++) {
		shape[i] = i % 6 ? 1 : 2;
		strides[i] = 5 + 2 * i;
	}
	check_copy(describe(source, elements[0], 64, shape, strides));
}
END_TEST

/* H111: nothing to copy; no memory is asked for. */
START_TEST(a_copy_of_no_elements_has_none)
{
	const int64_t shape[] = { 3, 0, 2 };
	struct qbrt_tensor *tensor =
		describe(NULL, elements[3], 3, shape, NULL);
	DLManagedTensorVersioned *managed;
	struct qbrt_tensor *copy;

	ck_assert_ok(qbrt_tensor_copy(tensor, NULL, &copy));
	ck_assert_ptr_null(qbrt_tensor_get_data(copy));
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(copy), 0);
	/* B28 */
	managed = export_versioned(copy, QBRT_COPY_NEVER);
	ck_assert_ptr_null(managed->dl_tensor.data);
	ck_assert_int_eq(managed->dl_tensor.shape[0], 3);
	managed->deleter(managed);
	qbrt_tensor_free(copy);
	qbrt_tensor_free(tensor);
}
END_TEST

/* H111: of pinned memory, pinned memory of its device. */
START_TEST(a_copy_of_pinned_memory_is_pinned)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, _i ? 1 : 0);
	struct qbrt_tensor *copy;

	ck_assert_ok(qbrt_tensor_copy(tensor, NULL, &copy));
	ck_assert_str_eq(qbrt_tensor_get_device(copy), "aries-rb:0");
	ck_assert_ptr_ne(copy->storage, mem->storage);
	ck_assert_ptr_eq(copy->storage->device, mem->storage->device);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	ck_assert_double_eq((double)((float *)qbrt_tensor_get_data(copy))[5],
			    5);
	qbrt_tensor_free(copy);
}
END_TEST

/* Whichever allocation fails: a status, and nothing is lost or released. */
START_TEST(each_allocation_may_fail)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	float data[6] = { 0 };
	int num_good = 0;

	for (long fail_at = 1; num_good < 4; fail_at++) {
		struct qbrt_tensor *ours = NULL, *copy = NULL, *other = NULL;
		DLManagedTensorVersioned *managed = NULL;
		const int64_t shape[] = { 6 };
		const struct qbrt_tensor_desc desc = {
			.size = sizeof(desc),
			.data = data,
			.device = { .type = kDLCPU },
			.dtype = elements[3],
			.ndim = 1,
			.shape = shape,
		};
		enum qbrt_status status[4];

		num_good = 0;
		count_alloc_begin(fail_at);
		status[0] = qbrt_tensor_import_memory(&desc, count_release,
						      NULL, NULL, &other);
		status[1] = qbrt_tensor_from_pinned_memory(mem, 0, &ours);
		status[2] = ours ? qbrt_tensor_copy(ours, NULL, &copy)
				 : QBRT_NOT_FOUND;
		status[3] =
			copy ? qbrt_tensor_export_dlpack(copy, NULL, &managed)
			     : QBRT_NOT_FOUND;
		(void)count_alloc_end();
		for (int i = 0; i < 4; i++) {
			num_good += !status[i];
			ck_assert(
				!status[i] || status[i] == QBRT_NOT_FOUND ||
				status[i] ==
					QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		}
		ck_assert_int_eq(atomic_exchange(&num_released, 0), 0);
		if (managed)
			managed->deleter(managed);
		qbrt_tensor_free(copy);
		qbrt_tensor_free(ours);
		qbrt_tensor_free(other);
		ck_assert_int_eq(atomic_exchange(&num_released, 0),
				 other != NULL);
	}
	qbrt_pinned_memory_free(mem);
	ck_assert_uint_eq(get_stats().storages, 0);
	ck_assert_uint_eq(get_stats().tensors, 0);
}
END_TEST

/* ---- arguments ---- */

START_TEST(null_and_unknown_flags_are_refused)
{
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	struct qbrt_tensor *made;
	DLManagedTensorVersioned *managed;
	DLManagedTensor *legacy;
	DLTensor borrowed;
	bool ready;
	const struct {
		enum qbrt_status status;
	} calls[] = {
		{ qbrt_tensor_from_pinned_memory(NULL, 0, &made) },
		{ qbrt_tensor_from_pinned_memory(mem, 0, NULL) },
		{ qbrt_tensor_from_pinned_memory(mem, 2, &made) },
		{ qbrt_tensor_import_dlpack(NULL, NULL, &made) },
		{ qbrt_tensor_import_dlpack_legacy(NULL, NULL, &made) },
		{ qbrt_tensor_import_memory(NULL, NULL, NULL, NULL, &made) },
		{ qbrt_tensor_export_dlpack(NULL, NULL, &managed) },
		{ qbrt_tensor_export_dlpack(tensor, NULL, NULL) },
		{ qbrt_tensor_export_dlpack_legacy(NULL, NULL, &legacy) },
		{ qbrt_tensor_export_dlpack_legacy(tensor, NULL, NULL) },
		{ qbrt_tensor_borrow_dlpack(NULL, &borrowed) },
		{ qbrt_tensor_borrow_dlpack(tensor, NULL) },
		{ qbrt_tensor_copy(NULL, NULL, &made) },
		{ qbrt_tensor_copy(tensor, NULL, NULL) },
		{ qbrt_tensor_query(NULL, &ready) },
		{ qbrt_tensor_query(tensor, NULL) },
		{ qbrt_tensor_wait(NULL, 0) },
	};

	for (size_t i = 0; i < qbrt_array_size(calls); i++)
		ck_assert_msg(calls[i].status == QBRT_INVALID_ARGUMENT,
			      "call %zu: %s", i,
			      qbrt_status_name(calls[i].status));
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

/* Q731: structs of another size; no stream yet. */
START_TEST(options_that_are_not_known_are_refused)
{
	struct {
		struct qbrt_tensor_export_options known;
		uint64_t unknown;
	} options = { .known = { .size = sizeof(options) } };
	struct qbrt_stream *stream = (struct qbrt_stream *)&options;
	struct qbrt_pinned_memory *mem = alloc_memory();
	struct qbrt_tensor *tensor = make_tensor(mem, 0);
	struct qbrt_tensor *copy;
	DLManagedTensorVersioned *managed;

	ck_assert_ok(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed));
	managed->deleter(managed);
	options.unknown = 1;
	ck_assert_status(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("byte 32 of struct qbrt_tensor_export_options");
	options.known.size = 4;
	ck_assert_status(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed),
		QBRT_INVALID_ARGUMENT);
	/* the first member alone: the rest has its defaults */
	options.known.size = sizeof(size_t);
	options.known.flags = 0xffff;
	ck_assert_ok(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed));
	managed->deleter(managed);
	options.known.size = sizeof(options.known);
	ck_assert_status(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("flags are 0xffff, known is 0x3");
	options.known.flags = QBRT_TENSOR_NO_ORDER;
	ck_assert_ok(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed));
	managed->deleter(managed);
	options.known.copy = (enum qbrt_copy_mode)3;
	ck_assert_status(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed),
		QBRT_INVALID_ARGUMENT);
	options.known.copy = QBRT_COPY_NEVER;
	options.known.stream = stream;
	ck_assert_status(
		qbrt_tensor_export_dlpack(tensor, &options.known, &managed),
		QBRT_NOT_IMPLEMENTED);
	ck_assert_status(qbrt_tensor_copy(tensor, stream, &copy),
			 QBRT_NOT_IMPLEMENTED);
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
}
END_TEST

START_TEST(imports_that_are_not_known_are_refused)
{
	struct qbrt_tensor_import_options options = { .size = sizeof(options) };
	struct qbrt_tensor_desc desc = {
		.size = sizeof(desc),
		.data = source,
		.device = { .type = kDLCPU },
		.dtype = elements[0],
	};
	struct qbrt_tensor *tensor;

	options.flags = 2;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   &options, &tensor),
			 QBRT_INVALID_ARGUMENT);
	options.flags = 0;
	options.reserved = 1;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   &options, &tensor),
			 QBRT_INVALID_ARGUMENT);
	options.reserved = 0;
	options.stream = (struct qbrt_stream *)&options;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   &options, &tensor),
			 QBRT_NOT_IMPLEMENTED);
	desc.reserved = 1;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   NULL, &tensor),
			 QBRT_INVALID_ARGUMENT);
	desc.reserved = 0;
	desc.ndim = SIZE_MAX;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   NULL, &tensor),
			 QBRT_TENSOR_REFUSED);
	desc.ndim = 0;
	desc.size = 0;
	ck_assert_status(qbrt_tensor_import_memory(&desc, count_release, NULL,
						   NULL, &tensor),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(atomic_load(&num_released), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_copy_has_the_elements_in_c_order,
			       qbrt_array_size(layouts)),
		QBRT_TEST(of_64_axes_a_copy_is_made),
		QBRT_TEST(a_copy_of_no_elements_has_none),
		QBRT_LOOP_TEST(a_copy_of_pinned_memory_is_pinned, 2),
		QBRT_TEST(each_allocation_may_fail),
		QBRT_TEST(null_and_unknown_flags_are_refused),
		QBRT_TEST(options_that_are_not_known_are_refused),
		QBRT_TEST(imports_that_are_not_known_are_refused),
	};

	return qbrt_test_run("copy", tests, qbrt_array_size(tests));
}
