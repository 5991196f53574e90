// SPDX-License-Identifier: MIT
/* Conversions of single numbers: how they round, and in which modes. */
#include "layout.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "check-layout.h"
#include "util.h"

#define NUM_NUMBERS 8

/* FM33: ties to even before the zero point is added; NaN and infinities. */
START_TEST(quantising_rounds_ties_to_even)
{
	static const struct {
		float number;
		int32_t zero_point;
		int8_t stored;
	} cases[] = {
		{ 0.5f, 0, 0 },           { 1.5f, 0, 2 },
		{ 2.5f, 0, 2 },           { -0.5f, 0, 0 },
		{ -1.5f, 0, -2 },         { 0.5f, 1, 1 },
		{ 1.5f, 1, 3 },           { 2.5f, 3, 5 },
		{ 127.4f, 0, 127 },       { 127.5f, 0, 127 },
		{ -128.5f, 0, -128 },     { -1e30f, 5, -128 },
		{ 1e30f, -5, 127 },       { INFINITY, -128, 127 },
		{ -INFINITY, 127, -128 }, { NAN, -3, -3 },
	};
	static const float scale = 1.0f;
	const int64_t one = 1;

	for (size_t i = 0; i < qbrt_array_size(cases); i++) {
		struct qbrt_quant quant = { &scale, QBRT_QUANT_NO_AXIS,
					    cases[i].zero_point };
		float number = cases[i].number;
		struct qbrt_view dst;
		struct qbrt_view src;
		int8_t stored;

		ck_assert(qbrt_view_set(&dst, &stored, QBRT_DTYPE_INT8, &one, 1,
					NULL));
		ck_assert(qbrt_view_set(&src, &number, QBRT_DTYPE_FLOAT32, &one,
					1, NULL));
		qbrt_layout_copy(&dst, &src, &quant);
		ck_assert_int_eq(stored, cases[i].stored);
	}
}
END_TEST

/* There and back. */
static void convert(const float *numbers, int8_t *stored, float *back)
{
	static const float scale = 0.1f;
	static const struct qbrt_quant quant = { &scale, QBRT_QUANT_NO_AXIS,
						 -3 };
	const int64_t shape = NUM_NUMBERS;
	struct qbrt_view device;
	struct qbrt_view host;

	memcpy(back, numbers, NUM_NUMBERS * sizeof(*numbers));
	ck_assert(qbrt_view_set(&host, back, QBRT_DTYPE_FLOAT32, &shape, 1,
				NULL));
	ck_assert(qbrt_view_set(&device, stored, QBRT_DTYPE_INT8, &shape, 1,
				NULL));
	qbrt_layout_copy(&device, &host, &quant);
	qbrt_layout_copy(&host, &device, &quant);
}

/* FM33 Q355: the rounding and traps of the thread change nothing, and stay. */
START_TEST(a_conversion_is_the_same_in_every_mode_of_the_thread)
{
	static const int roundings[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
					 FE_TOWARDZERO };
	static const float numbers[NUM_NUMBERS] = { 0.24f,     -0.24f, 1.26f,
						    -1.26f,    3e38f,  -3e38f,
						    0x1p-140f, 7.77f };
	int8_t expected[NUM_NUMBERS], stored[NUM_NUMBERS];
	float expected_back[NUM_NUMBERS], back[NUM_NUMBERS];
	int rounding, enabled;

	convert(numbers, expected, expected_back);
	for (size_t i = 0; i < 2 * qbrt_array_size(roundings); i++) {
		bool traps = i % 2;

		ck_assert(!fesetround(roundings[i / 2]));
		/* some processors have no traps */
		if (traps)
			traps = feenableexcept(FE_INEXACT | FE_OVERFLOW) != -1;
		convert(numbers, stored, back);
		rounding = fegetround();
		enabled = fedisableexcept(FE_ALL_EXCEPT);
		ck_assert(!fesetround(FE_TONEAREST));
		ck_assert_int_eq(rounding, roundings[i / 2]);
		ck_assert_int_eq(enabled != 0, traps);
		ck_assert_mem_eq(stored, expected, sizeof(stored));
		ck_assert_mem_eq(back, expected_back, sizeof(back));
	}
}
END_TEST

void add_layout_convert_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(quantising_rounds_ties_to_even),
		QBRT_TEST(a_conversion_is_the_same_in_every_mode_of_the_thread),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
