// SPDX-License-Identifier: MIT
#include "dtype.h"

#include "test-util.h"
#include "util.h"

static const struct {
	const char *name;
	size_t itemsize;
} expected[] = {
	{ "Float32", 4 },  { "Uint8", 1 },  { "Int8", 1 },    { "Float16", 2 },
	{ "Int16", 2 },    { "Uint16", 2 }, { "Int32", 4 },   { "Uint32", 4 },
	{ "Int64", 8 },    { "Uint64", 8 }, { "Float64", 8 }, { "Bool", 1 },
	{ "BFloat16", 2 },
};

/* Q565 Q575 */
START_TEST(numbers_names_and_sizes_are_the_documented_ones)
{
	size_t i;

	for (i = 0; i < QBRT_NUM_DTYPES; i++) {
		enum qbrt_dtype dtype = (enum qbrt_dtype)i;

		ck_assert(qbrt_dtype_is_valid(dtype));
		ck_assert_str_eq(qbrt_dtype_name(dtype), expected[i].name);
		ck_assert_uint_eq(qbrt_dtype_itemsize(dtype),
				  expected[i].itemsize);
	}
}
END_TEST

START_TEST(other_numbers_are_no_types)
{
	ck_assert(!qbrt_dtype_is_valid((enum qbrt_dtype)13));
	ck_assert(!qbrt_dtype_is_valid((enum qbrt_dtype) - 1));
	ck_assert(!qbrt_dtype_is_valid(QBRT_DTYPE_ERROR));
	ck_assert_str_eq(qbrt_dtype_name(QBRT_DTYPE_ERROR), "Error");
	ck_assert_str_eq(qbrt_dtype_name((enum qbrt_dtype)13), "Unknown");
	ck_assert_str_eq(qbrt_dtype_name((enum qbrt_dtype) - 1), "Unknown");
	ck_assert_uint_eq(qbrt_dtype_itemsize((enum qbrt_dtype) - 1), 0);
}
END_TEST

START_TEST(counts_are_products)
{
	const int64_t shape[] = { 2, 3, 5 };
	size_t num_elements;
	size_t nbytes;

	ck_assert(qbrt_dtype_count(QBRT_DTYPE_INT64, shape, 3, &num_elements,
				   &nbytes));
	ck_assert_uint_eq(num_elements, 30);
	ck_assert_uint_eq(nbytes, 240);
	ck_assert(qbrt_dtype_count(QBRT_DTYPE_INT64, shape, 0, &num_elements,
				   &nbytes));
	ck_assert_uint_eq(num_elements, 1);
	ck_assert_uint_eq(nbytes, 8);
}
END_TEST

START_TEST(counts_that_do_not_fit_are_refused)
{
	const int64_t wide[] = { INT64_MAX, 3 };
	const int64_t zero[] = { 4, 0 };
	const int64_t negative[] = { -4 };
	size_t num_elements = 7;
	size_t nbytes = 7;

	/* the elements fit, their bytes do not */
	ck_assert(!qbrt_dtype_count(QBRT_DTYPE_FLOAT32, wide, 1, &num_elements,
				    &nbytes));
	ck_assert(!qbrt_dtype_count(QBRT_DTYPE_UINT8, wide, 2, &num_elements,
				    &nbytes));
	ck_assert(!qbrt_dtype_count(QBRT_DTYPE_UINT8, zero, 2, &num_elements,
				    &nbytes));
	ck_assert(!qbrt_dtype_count(QBRT_DTYPE_UINT8, negative, 1,
				    &num_elements, &nbytes));
	ck_assert(!qbrt_dtype_count(QBRT_DTYPE_ERROR, wide, 1, &num_elements,
				    &nbytes));
	ck_assert_uint_eq(num_elements, 7);
	ck_assert_uint_eq(nbytes, 7);
}
END_TEST

START_TEST(shapes_are_written_as_tuples)
{
	const int64_t shape[] = { 1, -8, 8 };
	const int64_t longest[] = { INT64_MIN, 0 };
	char text[64];

	ck_assert_str_eq(qbrt_shape_text(shape, 3, text, sizeof(text)),
			 "(1, -8, 8)");
	ck_assert_str_eq(qbrt_shape_text(shape, 1, text, sizeof(text)), "(1)");
	ck_assert_str_eq(qbrt_shape_text(shape, 0, text, sizeof(text)), "()");
	ck_assert_str_eq(qbrt_shape_text(shape, 3, text, 5), "(1, ");
	ck_assert_str_eq(qbrt_shape_text(shape, 3, text, 1), "");
	ck_assert_str_eq(qbrt_shape_text(longest, 2, text, sizeof(text)),
			 "(-9223372036854775808, 0)");
	ck_assert_str_eq(qbrt_shape_text(longest, 2, text, 5), "(-92");
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(numbers_names_and_sizes_are_the_documented_ones),
		QBRT_TEST(other_numbers_are_no_types),
		QBRT_TEST(counts_are_products),
		QBRT_TEST(counts_that_do_not_fit_are_refused),
		QBRT_TEST(shapes_are_written_as_tuples),
	};

	return qbrt_test_run("dtype", tests, qbrt_array_size(tests));
}
