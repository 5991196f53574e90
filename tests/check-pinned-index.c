// SPDX-License-Identifier: MIT
/*
 * Element and slice access and fill. The oracle of a slice is one loop over
 * all indices; what is refused leaves every byte on both sides as it was.
 */
#include "test-util.h"

#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

static struct qbrt_accelerator *acc;
static struct qbrt_pinned_memory *mem;

/* Bytes 0, 1, 2, ...: every element is another one. */
static void open_memory(enum qbrt_dtype dtype, const int64_t *shape,
			size_t ndim)
{
	unsigned char *bytes;
	size_t i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(
		qbrt_pinned_memory_alloc(acc, dtype, shape, ndim, NULL, &mem));
	bytes = qbrt_pinned_memory_get_data(mem);
	for (i = 0; i < qbrt_pinned_memory_get_nbytes(mem); i++)
		bytes[i] = (unsigned char)(i * 7 + i / 256);
}

static void close_memory(void)
{
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}

static unsigned char *get_bytes(void)
{
	return qbrt_pinned_memory_get_data(mem);
}

/* Q461 Q728 */
START_TEST(an_element_of_every_dtype_is_read_and_written)
{
	const int64_t shape[] = { 3, 4, 5 };
	enum qbrt_dtype dtype = (enum qbrt_dtype)_i;
	size_t itemsize = qbrt_dtype_itemsize(dtype);
	unsigned char value[16], before[60 * 8];
	int64_t index[3];
	size_t at;

	open_memory(dtype, shape, 3);
	for (at = 0; at < 60; at++) {
		index[0] = (int64_t)at / 20;
		index[1] = (int64_t)at / 5 % 4;
		index[2] = (int64_t)at % 5;
		memset(value, 0x5a, sizeof(value));
		ck_assert_ok(qbrt_pinned_memory_read_at(mem, index, 3, dtype,
							value));
		ck_assert_mem_eq(value, get_bytes() + at * itemsize, itemsize);
		ck_assert_int_eq(value[itemsize], 0x5a);
		memcpy(before, get_bytes(), 60 * itemsize);
		memset(value, 0xc3, itemsize);
		memset(before + at * itemsize, 0xc3, itemsize);
		ck_assert_ok(qbrt_pinned_memory_write_at(mem, index, 3, dtype,
							 value));
		ck_assert_mem_eq(get_bytes(), before, 60 * itemsize);
	}
	close_memory();
}
END_TEST

/* Q465 */
START_TEST(a_buffer_without_axes_has_one_element)
{
	const struct qbrt_array array = { .data = (float[]){ 0 },
					  .dtype = QBRT_DTYPE_FLOAT32 };
	const float written = 1.5f;
	float value = 0;

	open_memory(QBRT_DTYPE_FLOAT32, NULL, 0);
	ck_assert_ok(qbrt_pinned_memory_write_at(mem, NULL, 0,
						 QBRT_DTYPE_FLOAT32, &written));
	ck_assert_ok(qbrt_pinned_memory_read_at(mem, NULL, 0,
						QBRT_DTYPE_FLOAT32, &value));
	ck_assert(value == written);
	ck_assert_ok(qbrt_pinned_memory_read_slice(mem, NULL, 0, &array));
	ck_assert(*(float *)array.data == written);
	*(float *)array.data = 2.5f;
	ck_assert_ok(qbrt_pinned_memory_write_slice(mem, NULL, 0, &array));
	ck_assert(*(float *)(void *)get_bytes() == 2.5f);
	close_memory();
}
END_TEST

/* Q728 */
START_TEST(an_index_out_of_bounds_is_refused)
{
	static const int64_t bad[][2] = {
		{ 3, 0 },  { 0, 4 },         { -1, 0 },
		{ 0, -1 }, { INT64_MAX, 0 }, { 0, INT64_MIN },
	};
	const int64_t shape[] = { 3, 4 };
	unsigned char before[12], value = 0x5a;

	open_memory(QBRT_DTYPE_UINT8, shape, 2);
	memcpy(before, get_bytes(), 12);
	ck_assert_status(qbrt_pinned_memory_read_at(mem, bad[_i], 2,
						    QBRT_DTYPE_UINT8, &value),
			 QBRT_PINNED_MEMORY_OUT_OF_BOUNDS);
	ck_assert_detail(bad[_i][0] ? "axis 0 is outside 0 to 2"
				    : "axis 1 is outside 0 to 3");
	ck_assert_detail("shape (3, 4)");
	ck_assert_int_eq(value, 0x5a);
	ck_assert_status(qbrt_pinned_memory_write_at(mem, bad[_i], 2,
						     QBRT_DTYPE_UINT8, &value),
			 QBRT_PINNED_MEMORY_OUT_OF_BOUNDS);
	ck_assert_mem_eq(get_bytes(), before, 12);
	close_memory();
}
END_TEST

/* Q728 Q733 */
START_TEST(an_element_needs_the_right_dtype_axes_and_pointers)
{
	const int64_t shape[] = { 3, 4 };
	const int64_t index[] = { 0, 0 };
	unsigned char before[48], value[8] = { 0x5a };

	open_memory(QBRT_DTYPE_FLOAT32, shape, 2);
	memcpy(before, get_bytes(), 48);
	ck_assert_status(qbrt_pinned_memory_read_at(mem, index, 2,
						    QBRT_DTYPE_INT32, value),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Float32");
	ck_assert_detail("Int32");
	ck_assert_status(qbrt_pinned_memory_write_at(mem, index, 2,
						     QBRT_DTYPE_ERROR, value),
			 QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_status(qbrt_pinned_memory_read_at(mem, index, 1,
						    QBRT_DTYPE_FLOAT32, value),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("1 axes, the buffer 2");
	ck_assert_status(qbrt_pinned_memory_write_at(mem, index, 3,
						     QBRT_DTYPE_FLOAT32, value),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_read_at(NULL, index, 2,
						    QBRT_DTYPE_FLOAT32, value),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("mem");
	ck_assert_status(qbrt_pinned_memory_read_at(mem, NULL, 2,
						    QBRT_DTYPE_FLOAT32, value),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("index");
	ck_assert_status(qbrt_pinned_memory_read_at(mem, index, 2,
						    QBRT_DTYPE_FLOAT32, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("value");
	ck_assert_status(qbrt_pinned_memory_write_at(NULL, index, 2,
						     QBRT_DTYPE_FLOAT32, value),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_write_at(mem, index, 2,
						     QBRT_DTYPE_FLOAT32, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq(value[0], 0x5a);
	ck_assert_mem_eq(get_bytes(), before, 48);
	close_memory();
}
END_TEST

/* Q485 PM14 */
START_TEST(invalid_contents_are_neither_read_nor_patched)
{
	const int64_t shape[] = { 2, 3 };
	const int64_t index[] = { 1, 1 };
	const int64_t half_shape[] = { 1, 3 };
	const struct qbrt_slice whole[] = { { 1, 2, -1 }, { 0, 3, 1 } };
	const struct qbrt_slice half[] = { { 1, 1, 1 }, { 0, 3, 1 } };
	unsigned char bytes[6] = { 1, 2, 3, 4, 5, 6 }, value = 9, before[6];
	struct qbrt_array array = { .data = bytes,
				    .shape = half_shape,
				    .ndim = 2,
				    .dtype = QBRT_DTYPE_UINT8 };

	open_memory(QBRT_DTYPE_UINT8, shape, 2);
	memcpy(before, get_bytes(), 6);
	qbrt_storage_invalidate(mem->storage, QBRT_CANCELLED,
				"job 3 was stopped");
	ck_assert_status(qbrt_pinned_memory_read_at(mem, index, 2,
						    QBRT_DTYPE_UINT8, &value),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("job 3 was stopped");
	ck_assert_status(qbrt_pinned_memory_write_at(mem, index, 2,
						     QBRT_DTYPE_UINT8, &value),
			 QBRT_TENSOR_INVALID);
	ck_assert_status(qbrt_pinned_memory_read_slice(mem, half, 2, &array),
			 QBRT_TENSOR_INVALID);
	ck_assert_status(qbrt_pinned_memory_write_slice(mem, half, 2, &array),
			 QBRT_TENSOR_INVALID);
	array.shape = shape;
	ck_assert_status(qbrt_pinned_memory_read_slice(mem, whole, 2, &array),
			 QBRT_TENSOR_INVALID);
	ck_assert_int_eq(value, 9);
	ck_assert_int_eq(bytes[5], 6);
	ck_assert_mem_eq(get_bytes(), before, 6);
	/* rewriting all of it makes it valid, whichever way round */
	if (_i)
		ck_assert_ok(
			qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, &value));
	else
		ck_assert_ok(
			qbrt_pinned_memory_write_slice(mem, whole, 2, &array));
	ck_assert_ok(qbrt_pinned_memory_read_at(mem, index, 2, QBRT_DTYPE_UINT8,
						&value));
	ck_assert_int_eq(value, _i ? 9 : 2);
	close_memory();
}
END_TEST

/* Q728 */
START_TEST(fill_sets_every_element_of_every_dtype)
{
	const int64_t shape[] = { 7, 11, 3 };
	enum qbrt_dtype dtype = (enum qbrt_dtype)_i;
	size_t itemsize = qbrt_dtype_itemsize(dtype);
	const unsigned char value[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	size_t i;

	open_memory(dtype, shape, 3);
	ck_assert_ok(qbrt_pinned_memory_fill(mem, dtype, value));
	for (i = 0; i < 7 * 11 * 3; i++)
		ck_assert_mem_eq(get_bytes() + i * itemsize, value, itemsize);
	/* a value inside the buffer itself */
	get_bytes()[5 * itemsize] = 99;
	ck_assert_ok(qbrt_pinned_memory_fill(mem, dtype,
					     get_bytes() + 5 * itemsize));
	for (i = 0; i < 7 * 11 * 3; i++)
		ck_assert_int_eq(get_bytes()[i * itemsize], 99);
	close_memory();
}
END_TEST

/* Q728 Q733 */
START_TEST(fill_refuses_another_dtype_and_null)
{
	const int64_t shape[] = { 4 };
	const float value = 1;
	unsigned char before[16];

	open_memory(QBRT_DTYPE_INT32, shape, 1);
	memcpy(before, get_bytes(), 16);
	ck_assert_status(
		qbrt_pinned_memory_fill(mem, QBRT_DTYPE_FLOAT32, &value),
		QBRT_MODEL_DTYPE_MISMATCHED);
	ck_assert_detail("Int32");
	ck_assert_status(qbrt_pinned_memory_fill(mem, QBRT_DTYPE_INT32, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_pinned_memory_fill(NULL, QBRT_DTYPE_INT32, &value),
		QBRT_INVALID_ARGUMENT);
	ck_assert_mem_eq(get_bytes(), before, 16);
	close_memory();
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(an_element_of_every_dtype_is_read_and_written,
			       QBRT_NUM_DTYPES),
		QBRT_TEST(a_buffer_without_axes_has_one_element),
		QBRT_LOOP_TEST(an_index_out_of_bounds_is_refused, 6),
		QBRT_TEST(an_element_needs_the_right_dtype_axes_and_pointers),
		QBRT_LOOP_TEST(invalid_contents_are_neither_read_nor_patched,
			       2),
		QBRT_LOOP_TEST(fill_sets_every_element_of_every_dtype,
			       QBRT_NUM_DTYPES),
		QBRT_TEST(fill_refuses_another_dtype_and_null),
	};

	return qbrt_test_run("pinned-index", tests, qbrt_array_size(tests));
}
