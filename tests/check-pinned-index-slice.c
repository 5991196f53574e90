// SPDX-License-Identifier: MIT
/*
 * Slices: random ones against a loop over all indices, and every way to be
 * refused. The same 2,000 slices in each run.
 */
#include "test-util.h"

#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "pinned-memory.h"
#include "util.h"

#define NUM_ROUNDS 2000
#define MAX_NDIM 5
#define MAX_EXTENT 6
#define MAX_NBYTES \
	(MAX_EXTENT * MAX_EXTENT * MAX_EXTENT * MAX_EXTENT * MAX_EXTENT * 8)

static struct qbrt_accelerator *acc;
static struct qbrt_pinned_memory *mem;

static uint32_t state = 12345;

/* 0 to limit - 1 */
static int64_t draw(int64_t limit)
{
	state = state * 1664525u + 1013904223u;
	return (int64_t)(state >> 8) % limit;
}

static void fill_bytes(unsigned char *bytes, size_t nbytes)
{
	size_t i;

	for (i = 0; i < nbytes; i++)
		bytes[i] = (unsigned char)draw(256);
}

/* A view of the caller's memory and the slice that it is copied with. */
struct round {
	enum qbrt_dtype dtype;
	size_t ndim;
	int64_t extents[MAX_NDIM];
	struct qbrt_slice slices[MAX_NDIM];
	int64_t counts[MAX_NDIM];
	int64_t strides[MAX_NDIM];
	size_t origin; /* of the view's first element, in bytes */
	size_t room;   /* that the view needs */
};

static void draw_axis(struct round *round, size_t axis)
{
	struct qbrt_slice *slice = &round->slices[axis];
	int64_t extent = 1 + draw(MAX_EXTENT);
	int64_t span;

	slice->step = draw(2) ? 1 : draw(7) - 3;
	if (!slice->step)
		slice->step = 1;
	span = llabs(slice->step);
	slice->count = 1 + draw((extent - 1) / span + 1);
	slice->start = draw(extent - (slice->count - 1) * span);
	if (slice->step < 0)
		slice->start += (slice->count - 1) * span;
	round->extents[axis] = extent;
	round->counts[axis] = slice->count;
}

/* Dense or with gaps, forwards or backwards, axes in any order of stride. */
static void draw_round(struct round *round)
{
	int64_t stride;
	size_t i, axis;

	memset(round, 0, sizeof(*round));
	round->dtype = (enum qbrt_dtype)draw(QBRT_NUM_DTYPES);
	round->ndim = (size_t)draw(MAX_NDIM + 1);
	for (i = 0; i < round->ndim; i++)
		draw_axis(round, i);
	stride = (int64_t)qbrt_dtype_itemsize(round->dtype);
	axis = round->ndim ? (size_t)draw((int64_t)round->ndim) : 0;
	for (i = 0; i < round->ndim; i++) {
		axis = (axis + round->ndim - 1) % round->ndim;
		stride += draw(3) ? 0 : draw(5);
		round->strides[axis] = stride;
		stride *= round->counts[axis];
	}
	round->room = (size_t)stride;
	for (i = 0; i < round->ndim; i++) {
		if (draw(3))
			continue;
		round->origin +=
			(size_t)((round->counts[i] - 1) * round->strides[i]);
		round->strides[i] = -round->strides[i];
	}
}

/* The oracle: one element at a time, the innermost axis first. */
static void copy_slowly(const struct round *round, unsigned char *view,
			unsigned char *dense, bool is_read)
{
	size_t itemsize = qbrt_dtype_itemsize(round->dtype);
	int64_t total = 1;
	int64_t at, rest, i;
	size_t axis;

	for (axis = 0; axis < round->ndim; axis++)
		total *= round->counts[axis];
	for (at = 0; at < total; at++) {
		int64_t in_view = (int64_t)round->origin;
		int64_t in_dense = 0;
		int64_t stride = (int64_t)itemsize;

		rest = at;
		for (axis = round->ndim; axis--;) {
			i = rest % round->counts[axis];
			rest /= round->counts[axis];
			in_view += i * round->strides[axis];
			in_dense += (round->slices[axis].start +
				     i * round->slices[axis].step) *
				    stride;
			stride *= round->extents[axis];
		}
		if (is_read)
			memcpy(view + in_view, dense + in_dense, itemsize);
		else
			memcpy(dense + in_dense, view + in_view, itemsize);
	}
}

static void check_round(const struct round *round, bool is_read)
{
	static unsigned char view[4 * MAX_NBYTES],
		expected_view[4 * MAX_NBYTES];
	static unsigned char expected[MAX_NBYTES];
	const struct qbrt_array array = {
		.data = view + round->origin,
		.shape = round->counts,
		.strides = round->strides,
		.ndim = round->ndim,
		.dtype = round->dtype,
	};
	unsigned char *bytes;
	size_t nbytes;

	ck_assert_uint_le(round->room, sizeof(view));
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, round->dtype, round->extents,
					      round->ndim, NULL, &mem));
	bytes = qbrt_pinned_memory_get_data(mem);
	nbytes = qbrt_pinned_memory_get_nbytes(mem);
	fill_bytes(bytes, nbytes);
	fill_bytes(view, round->room);
	memcpy(expected, bytes, nbytes);
	memcpy(expected_view, view, round->room);
	copy_slowly(round, expected_view, expected, is_read);
	if (is_read)
		ck_assert_ok(qbrt_pinned_memory_read_slice(
			mem, round->slices, round->ndim, &array));
	else
		ck_assert_ok(qbrt_pinned_memory_write_slice(
			mem, round->slices, round->ndim, &array));
	ck_assert_mem_eq(bytes, expected, nbytes);
	ck_assert_mem_eq(view, expected_view, round->room);
	qbrt_pinned_memory_free(mem);
}

/* Q728: 0 writes, 1 reads */
START_TEST(random_slices_equal_a_loop_over_all_indices)
{
	struct round round;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (i = 0; i < NUM_ROUNDS; i++) {
		draw_round(&round);
		check_round(&round, _i);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q728 */
START_TEST(without_strides_the_array_is_dense)
{
	const int64_t shape[] = { 4, 6 };
	const int64_t counts[] = { 2, 3 };
	const struct qbrt_slice slices[] = { { 3, 2, -2 }, { 0, 3, 2 } };
	const uint16_t expected[] = { 18, 20, 22, 6, 8, 10 };
	uint16_t got[6] = { 0 };
	const struct qbrt_array array = { .data = got,
					  .shape = counts,
					  .ndim = 2,
					  .dtype = QBRT_DTYPE_UINT16 };
	uint16_t *elements;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT16, shape, 2,
					      NULL, &mem));
	elements = qbrt_pinned_memory_get_data(mem);
	for (i = 0; i < 24; i++)
		elements[i] = (uint16_t)i;
	ck_assert_ok(qbrt_pinned_memory_read_slice(mem, slices, 2, &array));
	ck_assert_mem_eq(got, expected, sizeof(got));
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* A good access of a (4, 6) buffer of int32, to be spoilt in one place. */
struct access {
	struct qbrt_slice slices[2];
	size_t ndim;
	int64_t counts[3];
	int64_t strides[2];
	int32_t elements[24];
	struct qbrt_array array;
};

static void open_access(struct access *access)
{
	const int64_t shape[] = { 4, 6 };
	const int32_t value = 5;

	memset(access, 0, sizeof(*access));
	access->slices[0] = (struct qbrt_slice){ 0, 2, 2 };
	access->slices[1] = (struct qbrt_slice){ 5, 3, -2 };
	access->ndim = 2;
	access->counts[0] = 2;
	access->counts[1] = 3;
	access->counts[2] = 1;
	access->strides[0] = 24;
	access->strides[1] = 8;
	access->array = (struct qbrt_array){ .data = access->elements,
					     .shape = access->counts,
					     .strides = access->strides,
					     .ndim = 2,
					     .dtype = QBRT_DTYPE_INT32 };
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_INT32, shape, 2,
					      NULL, &mem));
	ck_assert_ok(qbrt_pinned_memory_fill(mem, QBRT_DTYPE_INT32, &value));
	ck_assert_ok(qbrt_pinned_memory_read_slice(mem, access->slices, 2,
						   &access->array));
	ck_assert_int_eq(access->elements[0], 5);
}

/* Both directions refuse, and no byte moves. */
static void check_refused(struct access *access, enum qbrt_status expected,
			  const char *detail)
{
	const int32_t *elements = qbrt_pinned_memory_get_data(mem);
	struct access before;
	int i;

	memset(access->elements, 0x5a, sizeof(access->elements));
	before = *access;
	ck_assert_status(qbrt_pinned_memory_read_slice(mem, access->slices,
						       access->ndim,
						       &access->array),
			 expected);
	ck_assert_detail(detail);
	ck_assert_mem_eq(access->elements, before.elements,
			 sizeof(before.elements));
	ck_assert_status(qbrt_pinned_memory_write_slice(mem, access->slices,
							access->ndim,
							&access->array),
			 expected);
	ck_assert_detail(detail);
	for (i = 0; i < 24; i++)
		ck_assert_int_eq(elements[i], 5);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}

/* Q728 */
START_TEST(a_slice_that_leaves_its_axis_is_refused)
{
	static const struct qbrt_slice bad[] = {
		{ -1, 3, 1 },        { 6, 1, 1 },
		{ 4, 3, 1 },         { 3, 3, -2 },
		{ 0, 3, 3 },         { 0, 3, INT64_MAX },
		{ 0, 3, INT64_MIN }, { INT64_MAX, 3, 1 },
		{ INT64_MIN, 3, 1 }, { 5, 3, INT64_MAX / 2 },
	};
	struct access access;

	open_access(&access);
	access.slices[1] = bad[_i];
	check_refused(&access, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
		      "slice of axis 1");
}
END_TEST

/* Q728 */
START_TEST(a_slice_needs_a_count_and_a_step)
{
	static const struct qbrt_slice bad[] = {
		{ 0, 0, 1 },
		{ 0, -3, 1 },
		{ 0, 3, 0 },
		{ 0, INT64_MIN, 1 },
	};
	struct access access;

	open_access(&access);
	access.slices[0] = bad[_i];
	check_refused(&access, QBRT_INVALID_ARGUMENT, "slice of axis 0");
}
END_TEST

/* Q728: a step that is never taken may be anything but 0 */
START_TEST(one_element_may_have_any_step)
{
	struct access access;

	open_access(&access);
	access.slices[0] = (struct qbrt_slice){ 3, 1, INT64_MIN };
	access.counts[0] = 1;
	ck_assert_ok(qbrt_pinned_memory_write_slice(mem, access.slices, 2,
						    &access.array));
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q728 */
START_TEST(an_array_of_another_shape_or_dtype_is_refused)
{
	struct access access;

	open_access(&access);
	access.counts[1] = 4;
	check_refused(&access, QBRT_MODEL_SHAPE_MISMATCHED, "(2, 3)");
	open_access(&access);
	access.counts[0] = INT64_MIN;
	check_refused(&access, QBRT_MODEL_SHAPE_MISMATCHED, "axis 0");
	open_access(&access);
	access.array.ndim = 3;
	check_refused(&access, QBRT_MODEL_SHAPE_MISMATCHED, "2 axes");
	open_access(&access);
	access.array.dtype = QBRT_DTYPE_FLOAT32;
	check_refused(&access, QBRT_MODEL_DTYPE_MISMATCHED, "Float32");
	open_access(&access);
	access.ndim = 1;
	check_refused(&access, QBRT_INVALID_ARGUMENT, "1 axes, the buffer 2");
}
END_TEST

/* Q731 Q733 */
START_TEST(an_array_that_is_incomplete_is_refused)
{
	struct access access;

	open_access(&access);
	access.array.data = NULL;
	check_refused(&access, QBRT_INVALID_ARGUMENT, "no data");
	open_access(&access);
	access.array.shape = NULL;
	check_refused(&access, QBRT_INVALID_ARGUMENT, "no shape");
	open_access(&access);
	access.array.reserved = 1;
	check_refused(&access, QBRT_INVALID_ARGUMENT, "reserved");
}
END_TEST

/* Q728 */
START_TEST(strides_out_of_memory_are_refused)
{
	static const int64_t bad[][2] = {
		{ INT64_MAX, INT64_MAX }, { INT64_MIN, INT64_MIN },
		{ INT64_MIN, 8 },         { 24, INT64_MAX },
		{ INT64_MAX, -1 },        { -INT64_MAX, INT64_MAX / 2 },
	};
	struct access access;

	open_access(&access);
	memcpy(access.strides, bad[_i], sizeof(access.strides));
	check_refused(&access, QBRT_INVALID_ARGUMENT, "out of memory");
}
END_TEST

/* Q728 */
START_TEST(an_array_inside_the_buffer_is_refused)
{
	struct access access;
	char *bytes;

	open_access(&access);
	bytes = qbrt_pinned_memory_get_data(mem);
	access.array.data = bytes;
	check_refused(&access, QBRT_PINNED_MEMORY_ALIASED, "in the buffer");
	open_access(&access);
	bytes = qbrt_pinned_memory_get_data(mem);
	access.array.data = bytes + 95;
	check_refused(&access, QBRT_PINNED_MEMORY_ALIASED, "in the buffer");
	/* backwards into it, and around it */
	open_access(&access);
	bytes = qbrt_pinned_memory_get_data(mem);
	access.array.data = bytes + 96;
	access.strides[0] = -24;
	check_refused(&access, QBRT_PINNED_MEMORY_ALIASED, "in the buffer");
	open_access(&access);
	bytes = qbrt_pinned_memory_get_data(mem);
	access.array.data = bytes - 100;
	access.strides[0] = 4096;
	check_refused(&access, QBRT_PINNED_MEMORY_ALIASED, "in the buffer");
}
END_TEST

/* Q733 */
START_TEST(null_is_refused)
{
	struct access access;

	open_access(&access);
	ck_assert_status(qbrt_pinned_memory_read_slice(NULL, access.slices, 2,
						       &access.array),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("mem");
	ck_assert_status(
		qbrt_pinned_memory_read_slice(mem, NULL, 2, &access.array),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("slices");
	ck_assert_status(
		qbrt_pinned_memory_read_slice(mem, access.slices, 2, NULL),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("dst");
	ck_assert_status(qbrt_pinned_memory_write_slice(NULL, access.slices, 2,
							&access.array),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_pinned_memory_write_slice(mem, NULL, 2, &access.array),
		QBRT_INVALID_ARGUMENT);
	ck_assert_status(
		qbrt_pinned_memory_write_slice(mem, access.slices, 2, NULL),
		QBRT_INVALID_ARGUMENT);
	ck_assert_detail("src");
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(random_slices_equal_a_loop_over_all_indices, 2),
		QBRT_TEST(without_strides_the_array_is_dense),
		QBRT_LOOP_TEST(a_slice_that_leaves_its_axis_is_refused, 10),
		QBRT_LOOP_TEST(a_slice_needs_a_count_and_a_step, 4),
		QBRT_TEST(one_element_may_have_any_step),
		QBRT_TEST(an_array_of_another_shape_or_dtype_is_refused),
		QBRT_TEST(an_array_that_is_incomplete_is_refused),
		QBRT_LOOP_TEST(strides_out_of_memory_are_refused, 6),
		QBRT_TEST(an_array_inside_the_buffer_is_refused),
		QBRT_TEST(null_is_refused),
	};

	return qbrt_test_run("pinned-index-slice", tests,
			     qbrt_array_size(tests));
}
