// SPDX-License-Identifier: MIT
/*
 * The geometry of a copy (qbnpu_check_copy): what is malformed, and small
 * random shapes against a map of bytes and a search over orders of axes.
 */
#include "check-bind.h"

#include <errno.h>
#include <string.h>

#define SRC 8
#define DST 9
#define NONE QBNPU_NONE32

/* {3, 4} elements of 4 bytes, rows 16 and 32 bytes apart. */
static void fill_shape(struct qbnpu_copy_shape *shape)
{
	memset(shape, 0, sizeof(*shape));
	shape->rank = 2;
	shape->element_size = 4;
	shape->dims[0] = 3;
	shape->dims[1] = 4;
	shape->src.buffer_id = 1;
	shape->src.buffer_size = 64 + 48;
	shape->src.offset = 64;
	shape->src.strides[0] = 16;
	shape->src.strides[1] = 4;
	shape->dst.buffer_id = 2;
	shape->dst.buffer_size = 80;
	shape->dst.strides[0] = 32;
	shape->dst.strides[1] = 4;
}

static void check(const struct qbnpu_copy_shape *shape, int err, uint32_t what,
		  uint32_t index, uint64_t limit)
{
	struct qbnpu_report report;

	memset(&report, 0xa5, sizeof(report));
	ck_assert_int_eq(qbnpu_check_copy(shape, &report), err);
	ck_assert_uint_eq(report.rule, what);
	ck_assert_uint_eq(report.operand, index);
	ck_assert_uint_eq(report.limit, limit);
	ck_assert_uint_eq(report.command, NONE);
	ck_assert_ptr_null(report.facts);
}

/* K100 */
START_TEST(good_copy_passes)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	check(&shape, 0, 0, 0, 0);
	shape.src.strides[0] = 0; /* repeats */
	check(&shape, 0, 0, 0, 0);
}
END_TEST

/* K100: rank, element size, extents, what lies beyond rank */
START_TEST(malformed_copy_is_refused)
{
	static const uint32_t sizes[] = { 0, 3, 12, 32, 1u << 31 };
	struct qbnpu_copy_shape shape;
	size_t i;

	fill_shape(&shape);
	shape.rank = 0;
	check(&shape, -EINVAL, 0, NONE, 6);
	shape.rank = 7;
	check(&shape, -EINVAL, 0, NONE, 6);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill_shape(&shape);
		shape.element_size = sizes[i];
		check(&shape, -EINVAL, 0, NONE, 16);
	}
	fill_shape(&shape);
	shape.dims[1] = 0;
	check(&shape, -EINVAL, 0, 1, 1);
	fill_shape(&shape);
	shape.dims[5] = 1;
	check(&shape, -EINVAL, 0, 5, 0);
	fill_shape(&shape);
	shape.src.strides[2] = 4;
	check(&shape, -EINVAL, SRC, 2, 0);
	fill_shape(&shape);
	shape.dst.strides[5] = 4;
	check(&shape, -EINVAL, DST, 5, 0);
}
END_TEST

/* K100: offsets and strides are multiples of the element size */
START_TEST(odd_places_are_refused)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	shape.src.offset = 2;
	check(&shape, -EINVAL, SRC, NONE, 4);
	fill_shape(&shape);
	shape.dst.offset = 1;
	check(&shape, -EINVAL, DST, NONE, 4);
	fill_shape(&shape);
	shape.src.strides[0] = 18;
	check(&shape, -EINVAL, SRC, 0, 4);
	fill_shape(&shape);
	shape.dst.strides[1] = 7;
	check(&shape, -EINVAL, DST, 1, 4);
}
END_TEST

/* K100: inside the buffer to the last byte, sums that do not fit included */
START_TEST(copy_outside_its_buffer_is_refused)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	shape.src.buffer_size--;
	check(&shape, -ERANGE, SRC, NONE, 111);
	fill_shape(&shape);
	shape.dst.buffer_size--;
	check(&shape, -ERANGE, DST, NONE, 79);
	fill_shape(&shape);
	shape.src.offset = ~3ull;
	check(&shape, -ERANGE, SRC, NONE, 112);
	fill_shape(&shape);
	shape.dst.strides[0] = 1ull << 63;
	shape.dst.buffer_size = ~0ull;
	check(&shape, -ERANGE, DST, NONE, ~0ull);
}
END_TEST

/* K101 */
START_TEST(destination_byte_twice_is_refused)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	shape.dst.strides[0] = 12;
	check(&shape, -EINVAL, DST, 0, 16);
	fill_shape(&shape);
	shape.dst.strides[1] = 0;
	check(&shape, -EINVAL, DST, 1, 4);
	shape.dims[1] = 1; /* an axis of one element has no stride */
	check(&shape, 0, 0, 0, 0);
}
END_TEST

/* K101: extents in one buffer */
START_TEST(overlapping_copy_is_refused)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	shape.dst.buffer_id = 1;
	shape.dst.buffer_size = 256;
	shape.src.buffer_size = 256;
	check(&shape, -EINVAL, DST, NONE, 0); /* [64, 112), [0, 80) */
	shape.src.offset = 80;
	check(&shape, 0, 0, 0, 0);
	shape.src.offset = 76;
	check(&shape, -EINVAL, DST, NONE, 0);
	shape.src.offset = 0;
	shape.dst.offset = 48;
	check(&shape, 0, 0, 0, 0);
	shape.dst.offset = 44;
	check(&shape, -EINVAL, DST, NONE, 0);
}
END_TEST

/* K101: 2^34 bytes at most */
START_TEST(large_copy_is_refused)
{
	struct qbnpu_copy_shape shape;

	fill_shape(&shape);
	shape.rank = 3;
	shape.dims[0] = 1u << 16;
	shape.dims[1] = 1u << 16;
	shape.dims[2] = 1;
	shape.src.strides[0] = 0;
	shape.dst.strides[0] = 1u << 18;
	shape.src.buffer_size = 1ull << 40;
	shape.dst.buffer_size = 1ull << 40;
	check(&shape, 0, 0, 0, 0);
	shape.dims[2] = 2;
	shape.dst.strides[2] = 1ull << 34;
	check(&shape, -EINVAL, 0, NONE, 1ull << 34);
}
END_TEST

static uint32_t get_random(uint32_t *state, uint32_t bound)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % bound;
}

/* One row of an array of index tuples, last axis fastest; 0 at the end. */
static _Bool step(const struct qbnpu_copy_shape *shape, uint32_t index[3])
{
	uint32_t axis;

	for (axis = shape->rank; axis-- > 0;) {
		if (++index[axis] < shape->dims[axis])
			return 1;
		index[axis] = 0;
	}
	return 0;
}

/* Marks each byte of a side; how often the busiest one was touched, -1: out */
static int touch(const struct qbnpu_copy_shape *shape,
		 const struct qbnpu_copy_side *side, uint8_t *map)
{
	uint32_t index[3] = { 0, 0, 0 };
	int most = 0;

	do {
		uint64_t at = side->offset;
		uint32_t axis, byte;

		for (axis = 0; axis < shape->rank; axis++)
			at += index[axis] * side->strides[axis];
		if (at + shape->element_size > side->buffer_size)
			return -1;
		for (byte = 0; byte < shape->element_size; byte++) {
			if (++map[at + byte] > most)
				most = map[at + byte];
		}
	} while (step(shape, index));
	return most;
}

/* Some order of the axes in which each stride reaches over those before. */
static _Bool has_order(const struct qbnpu_copy_shape *shape, uint32_t done,
		       uint64_t extent)
{
	uint32_t axis;

	if (done == (1u << shape->rank) - 1)
		return 1;
	for (axis = 0; axis < shape->rank; axis++) {
		uint64_t reach =
			(shape->dims[axis] - 1) * shape->dst.strides[axis];

		if (done >> axis & 1)
			continue;
		if ((shape->dims[axis] == 1 ||
		     shape->dst.strides[axis] >= extent) &&
		    has_order(shape, done | 1u << axis, extent + reach))
			return 1;
	}
	return 0;
}

static void fill_random(struct qbnpu_copy_shape *shape, uint32_t *state)
{
	uint32_t axis;

	memset(shape, 0, sizeof(*shape));
	shape->rank = 1 + get_random(state, 3);
	shape->element_size = 1u << get_random(state, 3);
	for (axis = 0; axis < shape->rank; axis++) {
		shape->dims[axis] = 1 + get_random(state, 4);
		shape->src.strides[axis] =
			get_random(state, 12) * shape->element_size;
		shape->dst.strides[axis] =
			get_random(state, 20) * shape->element_size;
	}
	shape->src.offset = get_random(state, 40) * shape->element_size;
	shape->dst.offset = get_random(state, 40) * shape->element_size;
	shape->src.buffer_size = 600;
	shape->dst.buffer_size = 200 + get_random(state, 400);
	shape->src.buffer_id = 1;
	shape->dst.buffer_id = 1 + get_random(state, 2);
	if (shape->dst.buffer_id == 1)
		shape->dst.buffer_size = 600;
}

/* Extent of touched bytes, [*begin, *end) */
static void find_extent(const uint8_t *map, size_t *begin, size_t *end)
{
	*begin = 0;
	while (!map[*begin])
		(*begin)++;
	*end = 1024;
	while (!map[*end - 1])
		(*end)--;
}

/* K100 K101: small random shapes against a map of bytes */
START_TEST(random_copies_agree_with_a_byte_map)
{
	uint32_t state = 5;
	uint32_t counts[4] = { 0 };
	uint32_t round;

	for (round = 0; round < 20000; round++) {
		uint8_t src[1024] = { 0 };
		uint8_t dst[1024] = { 0 };
		struct qbnpu_copy_shape shape;
		struct qbnpu_report report;
		size_t src_begin, src_end, dst_begin, dst_end;
		int err, expected = 0;

		fill_random(&shape, &state);
		err = qbnpu_check_copy(&shape, &report);
		if (touch(&shape, &shape.src, src) < 0 ||
		    touch(&shape, &shape.dst, dst) < 0) {
			ck_assert_int_eq(err, -ERANGE);
			counts[0]++;
			continue;
		}
		find_extent(src, &src_begin, &src_end);
		find_extent(dst, &dst_begin, &dst_end);
		if (!has_order(&shape, 0, shape.element_size)) {
			expected = -EINVAL;
			counts[1]++;
		} else if (shape.src.buffer_id == shape.dst.buffer_id &&
			   src_begin < dst_end && dst_begin < src_end) {
			expected = -EINVAL;
			counts[2]++;
		} else {
			memset(dst, 0, sizeof(dst));
			ck_assert_int_eq(touch(&shape, &shape.dst, dst), 1);
			counts[3]++;
		}
		ck_assert_int_eq(err, expected);
	}
	ck_assert_uint_gt(counts[0], 300);
	ck_assert_uint_gt(counts[1], 500);
	ck_assert_uint_gt(counts[2], 500);
	ck_assert_uint_gt(counts[3], 500);
}
END_TEST

void add_copy_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(good_copy_passes),
		QBRT_TEST(malformed_copy_is_refused),
		QBRT_TEST(odd_places_are_refused),
		QBRT_TEST(copy_outside_its_buffer_is_refused),
		QBRT_TEST(destination_byte_twice_is_refused),
		QBRT_TEST(overlapping_copy_is_refused),
		QBRT_TEST(large_copy_is_refused),
		QBRT_TEST(random_copies_agree_with_a_byte_map),
	};

	qbrt_tests_add(all, tests, sizeof(tests) / sizeof(tests[0]));
}
