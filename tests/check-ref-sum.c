// SPDX-License-Identifier: MIT
/*
 * The inner loop of sums: every instruction set adds the same terms in the
 * same order. Includes the unit for its static functions.
 */
#include "device/kernels/ref-sum.c"

#include "ref-case.h"
#include "test-util.h"

static struct ref_sum_scratch scratch;

static void fill(struct ref_case *c, float *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		values[i] = (float)ref_case_real(c, -1, 1);
}

/* NC41: by round, the number of rows: groups of four and what is left */
START_TEST(instruction_sets_agree_bit_for_bit)
{
#ifdef __x86_64__
	static double plain[REF_SUM_ROWS][REF_SUM_COLUMNS];
	struct tiles tiles = {
		.a = (const float(*)[REF_SUM_DEPTH])scratch.a,
		.b = &scratch.b[0][0][0],
		.panel_size = REF_SUM_DEPTH * REF_SUM_PANEL,
		.rows = (size_t)_i + 1,
		.columns = REF_SUM_COLUMNS,
	};
	struct ref_case c;

	if (!__builtin_cpu_supports("avx2"))
		QBRT_TEST_SKIP("the processor has no AVX2");
	ref_case_begin(&c, (uint64_t)_i);
	fill(&c, &scratch.a[0][0], REF_SUM_ROWS * REF_SUM_DEPTH);
	fill(&c, &scratch.b[0][0][0], REF_SUM_COLUMNS * REF_SUM_DEPTH);
	for (tiles.depth = 1; tiles.depth <= 40; tiles.depth++) {
		memset(plain, 0, sizeof(plain));
		memset(scratch.total, 0, sizeof(scratch.total));
		tiles.total = plain;
		add_tiles_plain(&tiles);
		tiles.total = scratch.total;
		add_tiles_avx2(&tiles);
		ck_assert_mem_eq(plain, scratch.total, sizeof(plain));
		ck_assert(plain[0][0] != 0);
	}
	ref_case_end(&c);
#else
	QBRT_TEST_SKIP("one instruction set");
#endif
}
END_TEST

/* NC30: eight products in f32, the eights in f64 */
START_TEST(eight_terms_are_added_in_f32)
{
	struct tiles tiles = {
		.a = (const float(*)[REF_SUM_DEPTH])scratch.a,
		.b = &scratch.b[0][0][0],
		.panel_size = REF_SUM_DEPTH * REF_SUM_PANEL,
		.total = scratch.total,
		.rows = 1,
		.columns = 1,
		.depth = 16,
	};
	double expected = 0;
	struct ref_case c;
	size_t i, j;

	ref_case_begin(&c, 9);
	fill(&c, &scratch.a[0][0], REF_SUM_DEPTH);
	fill(&c, &scratch.b[0][0][0], REF_SUM_DEPTH * REF_SUM_PANEL);
	for (i = 0; i < 16; i += 8) {
		volatile float sum = 0;

		for (j = i; j < i + 8; j++) {
			const volatile float product =
				scratch.a[0][j] * scratch.b[0][j][0];

			sum = sum + product;
		}
		expected += (double)sum;
	}
	memset(scratch.total, 0, sizeof(scratch.total));
	add_tiles_plain(&tiles);
	ck_assert(scratch.total[0][0] == expected);
	ref_case_end(&c);
}
END_TEST

/* Weights that would take too much memory are packed at each run. */
START_TEST(packed_size_has_a_limit)
{
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(1, 1, 1), 16);
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(17, 9, 4), 32 * 9);
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(16, 1 << 20, 1), 16 << 20);
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(17, 1 << 20, 1), 0);
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(16, 1 << 20, 2), 0);
	ck_assert_uint_eq(
		qbnpu_ref_sum_packed_size(UINT32_MAX, UINT32_MAX, UINT32_MAX),
		0);
	ck_assert_uint_eq(qbnpu_ref_sum_packed_size(1, UINT64_MAX, 1), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(instruction_sets_agree_bit_for_bit, 7),
		QBRT_TEST(eight_terms_are_added_in_f32),
		QBRT_TEST(packed_size_has_a_limit),
	};

	return qbrt_test_run("ref-sum", tests, 3);
}
