// SPDX-License-Identifier: MIT
/* Strided copies and conversions, each against the loop one would write. */
#include "layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check-layout.h"
#include "dtype.h"
#include "util.h"

#define NUM_ROUNDS 400
#define PADDING 64

static uint32_t random_state = 12345;

static uint32_t draw(uint32_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % limit;
}

/* Memory that a view lies in, and a copy of it for the naive loop. */
struct field {
	char *bytes;
	char *expected;
	size_t nbytes;
	struct qbrt_view view;
	struct qbrt_view naive; /* the same view of expected */
};

/*
 * A view with these extents whose axes lie in memory in any order, in any
 * direction, with gaps, at any alignment; may_repeat: some strides are 0.
 */
static void field_open(struct field *field, enum qbrt_dtype dtype,
		       const int64_t *shape, size_t ndim, bool may_repeat)
{
	int64_t stride = (int64_t)qbrt_dtype_itemsize(dtype);
	int64_t strides[QBRT_VIEW_MAX_NDIM];
	size_t order[QBRT_VIEW_MAX_NDIM];
	size_t offset = PADDING + draw(8);

	for (size_t i = 0; i < ndim; i++) {
		size_t other = draw((uint32_t)i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (size_t i = 0; i < ndim; i++) {
		size_t axis = order[i];
		bool is_back = draw(4) == 0;

		stride += draw(3) ? 0 : draw(5);
		strides[axis] = is_back ? -stride : stride;
		if (may_repeat && draw(8) == 0) {
			strides[axis] = 0;
			continue;
		}
		if (is_back)
			offset += (size_t)(stride * (shape[axis] - 1));
		stride *= shape[axis];
	}
	field->nbytes = (size_t)stride + 2 * PADDING + 16;
	field->bytes = malloc(field->nbytes);
	field->expected = malloc(field->nbytes);
	ck_assert(field->bytes && field->expected);
	for (size_t i = 0; i < field->nbytes; i++)
		field->bytes[i] = (char)draw(256);
	memcpy(field->expected, field->bytes, field->nbytes);
	ck_assert(qbrt_view_set(&field->view, field->bytes + offset, dtype,
				shape, ndim, strides));
	field->naive = field->view;
	field->naive.data = field->expected + offset;
}

static void field_close(struct field *field)
{
	free(field->bytes);
	free(field->expected);
}

static char *locate(const struct qbrt_view *view, const int64_t *index)
{
	char *at = view->data;

	for (size_t i = 0; i < view->ndim; i++)
		at += index[i] * view->strides[i];
	return at;
}

/* The next index in C order; false: that was the last. */
static bool step(const struct qbrt_view *view, int64_t *index)
{
	for (size_t i = view->ndim; i--;) {
		if (++index[i] < view->shape[i])
			return true;
		index[i] = 0;
	}
	return false;
}

/* FM33 and Q355, as the specification has them. */
static void convert(char *dst, enum qbrt_dtype to, const char *src,
		    enum qbrt_dtype from, float scale, int32_t zero_point)
{
	int32_t least = to == QBRT_DTYPE_INT8 ? -128 : 0;
	int32_t greatest = to == QBRT_DTYPE_INT8 ? 127 : 255;
	float number;

	if (from == to) {
		memcpy(dst, src, qbrt_dtype_itemsize(to));
		return;
	}
	if (to == QBRT_DTYPE_FLOAT32) {
		int32_t stored =
			from == QBRT_DTYPE_INT8 ? (int8_t)*src : (uint8_t)*src;

		number = (float)(stored - zero_point) * scale;
		memcpy(dst, &number, sizeof(number));
		return;
	}
	memcpy(&number, src, sizeof(number));
	number = isnan(number / scale)
			 ? (float)zero_point
			 : rintf(number / scale) + (float)zero_point;
	if (number < (float)least)
		number = (float)least;
	if (number > (float)greatest)
		number = (float)greatest;
	*dst = (char)(int32_t)number;
}

static void copy_naively(const struct qbrt_view *dst,
			 const struct qbrt_view *src,
			 const struct qbrt_quant *quant)
{
	int64_t index[QBRT_VIEW_MAX_NDIM] = { 0 };

	do {
		size_t channel = 0;

		if (quant && quant->axis != QBRT_QUANT_NO_AXIS)
			channel = (size_t)index[quant->axis];
		convert(locate(dst, index), dst->dtype, locate(src, index),
			src->dtype, quant ? quant->scales[channel] : 1.0f,
			quant ? quant->zero_point : 0);
	} while (step(dst, index));
}

/* Copies both ways, and compares every byte of the destination's memory. */
static void check_copy(struct field *dst, const struct field *src,
		       const struct qbrt_quant *quant)
{
	qbrt_layout_copy(&dst->view, &src->view, quant);
	copy_naively(&dst->naive, &src->view, quant);
	ck_assert_mem_eq(dst->bytes, dst->expected, dst->nbytes);
}

/* Q309 Q314: any shape, strides and alignment. */
START_TEST(a_copy_is_what_naive_loops_do)
{
	enum qbrt_dtype dtype = (enum qbrt_dtype)_i;

	for (int round = 0; round < NUM_ROUNDS; round++) {
		size_t ndim = draw(7);
		int64_t shape[QBRT_VIEW_MAX_NDIM];
		struct field dst;
		struct field src;

		for (size_t i = 0; i < ndim; i++)
			shape[i] = 1 + draw(5);
		field_open(&dst, dtype, shape, ndim, false);
		field_open(&src, dtype, shape, ndim, true);
		ck_assert(qbrt_view_is_injective(&dst.view));
		check_copy(&dst, &src, NULL);
		ck_assert_mem_eq(src.bytes, src.expected, src.nbytes);
		field_close(&dst);
		field_close(&src);
	}
}
END_TEST

static const struct {
	enum qbrt_dtype from;
	enum qbrt_dtype to;
} conversions[] = {
	{ QBRT_DTYPE_FLOAT32, QBRT_DTYPE_INT8 },
	{ QBRT_DTYPE_FLOAT32, QBRT_DTYPE_UINT8 },
	{ QBRT_DTYPE_INT8, QBRT_DTYPE_FLOAT32 },
	{ QBRT_DTYPE_UINT8, QBRT_DTYPE_FLOAT32 },
};

/* Numbers of which some saturate and some lie halfway between two. */
static void fill_numbers(struct field *field)
{
	int64_t index[QBRT_VIEW_MAX_NDIM] = { 0 };

	if (field->view.dtype != QBRT_DTYPE_FLOAT32)
		return;
	do {
		float number = (float)((int)draw(2048) - 1024) / 4;

		memcpy(locate(&field->view, index), &number, sizeof(number));
		memcpy(locate(&field->naive, index), &number, sizeof(number));
	} while (step(&field->view, index));
}

/* FM33 Q355: of one scale, and of one along an axis, whatever the strides. */
START_TEST(a_conversion_is_what_naive_loops_do)
{
	static const float scales[] = { 0.5f, 1.0f,     3.0f, 0.1f,
					2.0f, 0x1p-60f, 7.0f };
	enum qbrt_dtype from = conversions[_i].from;
	enum qbrt_dtype to = conversions[_i].to;

	for (int round = 0; round < NUM_ROUNDS; round++) {
		size_t ndim = 1 + draw(5);
		int64_t shape[QBRT_VIEW_MAX_NDIM];
		struct qbrt_quant quant = {
			.scales = scales,
			.axis = QBRT_QUANT_NO_AXIS,
			.zero_point =
				from == QBRT_DTYPE_INT8 || to == QBRT_DTYPE_INT8
					? (int)draw(256) - 128
					: (int)draw(256),
		};
		struct field dst;
		struct field src;

		for (size_t i = 0; i < ndim; i++)
			shape[i] = 1 + draw(6);
		if (draw(2))
			quant.axis = draw((uint32_t)ndim);
		else
			quant.scales += draw(7);
		field_open(&dst, to, shape, ndim, false);
		field_open(&src, from, shape, ndim, true);
		fill_numbers(&src);
		check_copy(&dst, &src, &quant);
		field_close(&dst);
		field_close(&src);
	}
}
END_TEST

/* Tiles of every size: planes that are long, wide, both, or a picture's. */
START_TEST(a_transposition_of_any_size_is_right)
{
	static const int64_t shapes[][3] = {
		{ 224, 224, 3 }, { 3, 224, 224 }, { 1, 129, 131 },
		{ 5, 4099, 2 },  { 2, 7, 1000 },  { 65, 64, 66 },
	};
	const int64_t *shape = shapes[_i];
	int64_t turned[3];
	struct qbrt_view dst;
	struct qbrt_view src;
	size_t num = (size_t)(shape[0] * shape[1] * shape[2]);
	float *from = malloc(num * sizeof(*from));
	float *to = calloc(num, sizeof(*to));

	ck_assert(from && to);
	for (size_t i = 0; i < num; i++)
		from[i] = (float)i;
	/* the source lies in memory as C, H, W; the view is H, W, C */
	turned[0] = shape[1] * 4;
	turned[1] = 4;
	turned[2] = shape[0] * shape[1] * 4;
	ck_assert(qbrt_view_set(&dst, to, QBRT_DTYPE_FLOAT32, shape, 3, NULL));
	ck_assert(qbrt_view_set(&src, from, QBRT_DTYPE_FLOAT32, shape, 3,
				turned));
	qbrt_layout_copy(&dst, &src, NULL);
	for (int64_t h = 0; h < shape[0]; h++)
		for (int64_t w = 0; w < shape[1]; w++)
			for (int64_t c = 0; c < shape[2]; c++)
				ck_assert(*to++ ==
					  from[(c * shape[0] + h) * shape[1] +
					       w]);
	free(to - num);
	free(from);
}
END_TEST

START_TEST(clearing_writes_zeros_and_nothing_else)
{
	for (int round = 0; round < 100; round++) {
		int64_t index[QBRT_VIEW_MAX_NDIM] = { 0 };
		int64_t shape[3];
		struct field field;

		for (size_t i = 0; i < 3; i++)
			shape[i] = 1 + draw(6);
		field_open(&field, (enum qbrt_dtype)draw(QBRT_NUM_DTYPES),
			   shape, 3, false);
		do {
			memset(locate(&field.naive, index), 0,
			       qbrt_dtype_itemsize(field.view.dtype));
		} while (step(&field.naive, index));
		qbrt_layout_clear(&field.view);
		ck_assert_mem_eq(field.bytes, field.expected, field.nbytes);
		field_close(&field);
	}
}
END_TEST

static const struct {
	size_t ndim;
	int64_t shape[9];
	int64_t strides[9]; /* all 0: dense */
} bad_views[] = {
	{ 9, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 0 } },
	{ 1, { 0 }, { 0 } },
	{ 2, { 4, -1 }, { 0 } },
	{ 2, { INT64_C(1) << 32, INT64_C(1) << 32 }, { 0 } },
	{ 1, { INT64_MAX }, { 0 } },
	{ 1, { 3 }, { INT64_MAX } },
	{ 1, { 3 }, { INT64_MIN } },
	{ 2, { 2, 2 }, { INT64_MAX / 2, INT64_MAX / 2 } },
	{ 2, { 2, 2 }, { INT64_MIN / 2, INT64_MAX / 2 } },
	/* before the first address, and behind the last */
	{ 1, { 2 }, { -(INT64_C(1) << 62) } },
	{ 1, { 3 }, { INT64_C(1) << 61 } },
};

/* Q725: offsets that do not fit are refused before anything is touched. */
START_TEST(a_view_beyond_the_address_space_is_refused)
{
	bool is_dense = true;
	struct qbrt_view view;
	uint32_t element;
	/* so high up that 2^62 more do not fit */
	void *high = (void *)(UINTPTR_MAX - (UINTPTR_MAX >> 3));

	for (size_t i = 0; i < bad_views[_i].ndim; i++)
		is_dense &= !bad_views[_i].strides[i];
	ck_assert(!qbrt_view_set(
		&view,
		bad_views[_i].strides[0] == INT64_C(1) << 61 ? high : &element,
		QBRT_DTYPE_FLOAT32, bad_views[_i].shape, bad_views[_i].ndim,
		is_dense ? NULL : bad_views[_i].strides));
}
END_TEST

START_TEST(the_range_of_a_view_is_from_its_lowest_to_its_highest_byte)
{
	const int64_t shape[] = { 3, 4 };
	const int64_t strides[] = { -100, 10 };
	const int64_t huge[] = { INT64_MIN, INT64_MAX };
	const int64_t ones[] = { 1, 1 };
	char bytes[400];
	struct qbrt_view view;
	uintptr_t begin;
	uintptr_t end;

	ck_assert(qbrt_view_set(&view, bytes + 300, QBRT_DTYPE_INT16, shape, 2,
				strides));
	qbrt_view_get_range(&view, &begin, &end);
	ck_assert_uint_eq(begin, (uintptr_t)bytes + 100);
	ck_assert_uint_eq(end, (uintptr_t)bytes + 332);
	ck_assert_uint_eq(qbrt_view_get_nbytes(&view), 24);
	/* the stride of an axis of one element does not count */
	ck_assert(qbrt_view_set(&view, bytes, QBRT_DTYPE_INT16, ones, 2, huge));
	qbrt_view_get_range(&view, &begin, &end);
	ck_assert_uint_eq(begin, (uintptr_t)bytes);
	ck_assert_uint_eq(end, (uintptr_t)bytes + 2);
}
END_TEST

static const struct {
	bool is_injective;
	int64_t shape[2];
	int64_t strides[2];
} folds[] = {
	{ true, { 3, 4 }, { 16, 4 } },   { true, { 3, 4 }, { 4, 12 } },
	{ true, { 3, 4 }, { -16, -4 } }, { true, { 1, 4 }, { 0, 4 } },
	{ false, { 3, 4 }, { 0, 4 } },   { false, { 3, 4 }, { 12, 4 } },
	{ false, { 3, 4 }, { 16, 3 } },  { false, { 3, 4 }, { -12, 4 } },
};

START_TEST(views_that_fold_onto_themselves_are_known)
{
	char bytes[256];
	struct qbrt_view view;

	ck_assert(qbrt_view_set(&view, bytes + 128, QBRT_DTYPE_FLOAT32,
				folds[_i].shape, 2, folds[_i].strides));
	ck_assert_int_eq(qbrt_view_is_injective(&view), folds[_i].is_injective);
}
END_TEST

/* FM33: and no other pair. */
START_TEST(what_converts_is_said)
{
	for (int from = 0; from < QBRT_NUM_DTYPES; from++)
		for (int to = 0; to < QBRT_NUM_DTYPES; to++) {
			bool converts = from == to;

			for (size_t i = 0; i < qbrt_array_size(conversions);
			     i++)
				converts |= conversions[i].from ==
						    (enum qbrt_dtype)from &&
					    conversions[i].to ==
						    (enum qbrt_dtype)to;
			ck_assert_int_eq(
				qbrt_layout_converts((enum qbrt_dtype)from,
						     (enum qbrt_dtype)to),
				converts);
		}
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_copy_is_what_naive_loops_do, QBRT_NUM_DTYPES),
		QBRT_LOOP_TEST(a_conversion_is_what_naive_loops_do,
			       qbrt_array_size(conversions)),
		QBRT_LOOP_TEST(a_transposition_of_any_size_is_right, 6),
		QBRT_TEST(clearing_writes_zeros_and_nothing_else),
		QBRT_LOOP_TEST(a_view_beyond_the_address_space_is_refused,
			       qbrt_array_size(bad_views)),
		QBRT_TEST(
			the_range_of_a_view_is_from_its_lowest_to_its_highest_byte),
		QBRT_LOOP_TEST(views_that_fold_onto_themselves_are_known,
			       qbrt_array_size(folds)),
		QBRT_TEST(what_converts_is_said),
	};

	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_layout_convert_tests(&all);
	return qbrt_test_run("layout", all.tests, all.num);
}
