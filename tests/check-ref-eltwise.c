// SPDX-License-Identifier: MIT
/*
 * BINARY against the formulas of docs/spec/device-and-format.md 5.6 in long
 * double, and against 128-bit integers.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

typedef long double real;

static real binary_model(uint32_t fn, real a, real b)
{
	real rest;

	switch (fn) {
	case QBNPU_BINARY_ADD:
		return a + b;
	case QBNPU_BINARY_SUB:
		return a - b;
	case QBNPU_BINARY_MUL:
		return a * b;
	case QBNPU_BINARY_DIV:
		return a / b;
	case QBNPU_BINARY_MAX:
		return a > b ? a : b;
	case QBNPU_BINARY_MIN:
		return a < b ? a : b;
	case QBNPU_BINARY_POW:
		return powl(a, b);
	case QBNPU_BINARY_MOD:
		rest = fmodl(a, b);
		return rest && (rest < 0) != (b < 0) ? rest + b : rest;
	case QBNPU_BINARY_FMOD:
		return fmodl(a, b);
	default:
		return a >= 0 ? a : a * b;
	}
}

/* CT01 NC31 NC32: functions 1 to 10 on f32, by round */
START_TEST(binary_f32_is_rounded_once)
{
	const uint32_t fn = QBNPU_BINARY_ADD + (uint32_t)_i;
	struct qbnpu_cmd_binary cmd = {
		.head = ref_case_head(QBNPU_OP_BINARY, sizeof(cmd)),
		.fn = (uint16_t)fn,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	float a[4096], b[4096];
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		const bool in_place = n % 3 == 0;

		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 600);
		cmd.a = ref_case_random_f32(
			&c, in_place ? REF_CASE_DST : REF_CASE_SRC, rank, dims,
			fn == QBNPU_BINARY_POW ? 0.1 : -9, 9);
		cmd.b = ref_case_random_f32(&c, REF_CASE_SRC, rank, dims, -9,
					    9);
		if (in_place && n % 2) { /* the other operand */
			const uint16_t other = cmd.b;

			cmd.b = cmd.a;
			cmd.a = other;
			ref_case_fill_f32(&c, cmd.a, 0.1, 9);
		}
		cmd.dst =
			in_place ? ref_case_same(&c, n % 2 ? cmd.b : cmd.a)
				 : ref_case_tensor(&c, REF_CASE_DST,
						   QBNPU_DTYPE_F32, rank, dims);
		ref_case_read_f32(&c, cmd.a, a);
		ref_case_read_f32(&c, cmd.b, b);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
			ref_case_check_ulp(
				ref_case_f32(&c, cmd.dst, i),
				binary_model(fn, (real)a[i], (real)b[i]),
				fn == QBNPU_BINARY_POW ? 0.50001L : 0.5L,
				"binary", fn, (real)a[i]);
		ref_case_end(&c);
	}
}
END_TEST

/* CT01: act after the function */
START_TEST(binary_applies_its_activation)
{
	struct qbnpu_cmd_binary cmd = {
		.head = ref_case_head(QBNPU_OP_BINARY, sizeof(cmd)),
		.fn = QBNPU_BINARY_SUB,
		.act = QBNPU_UNARY_LEAKY,
		.act_a = ref_case_bits(0.25f),
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	float a[4096], b[4096];
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)n);
		rank = ref_case_dims(&c, dims, 600);
		cmd.a = ref_case_random_f32(&c, REF_CASE_SRC, rank, dims, -9,
					    9);
		cmd.b = ref_case_random_f32(&c, REF_CASE_SRC, rank, dims, -9,
					    9);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_F32,
					  rank, dims);
		ref_case_read_f32(&c, cmd.a, a);
		ref_case_read_f32(&c, cmd.b, b);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++) {
			const float x = a[i] - b[i];

			ref_case_demand(ref_case_f32(&c, cmd.dst, i) ==
						(x >= 0 ? x : 0.25f * x),
					"act of %a", (double)x);
		}
		ref_case_end(&c);
	}
}
END_TEST

static __int128 int_power(__int128 a, __int128 b)
{
	uint64_t power = 1;
	__int128 i;

	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
	/* the exponents of this test are small or the base is */
	for (i = 0; i < b; i++)
		power *= (uint64_t)a;
	return (int64_t)power;
}

static __int128 binary_int_model(uint32_t fn, __int128 a, __int128 b)
{
	__int128 rest = b ? a % b : 0;

	switch (fn) {
	case QBNPU_BINARY_ADD:
		return a + b;
	case QBNPU_BINARY_SUB:
		return a - b;
	case QBNPU_BINARY_MUL:
		return a * b;
	case QBNPU_BINARY_DIV:
		return b ? a / b : 0;
	case QBNPU_BINARY_MAX:
		return a > b ? a : b;
	case QBNPU_BINARY_MIN:
		return a < b ? a : b;
	case QBNPU_BINARY_POW:
		return int_power(a, b);
	case QBNPU_BINARY_MOD:
		return rest && (rest < 0) != (b < 0) ? rest + b : rest;
	case QBNPU_BINARY_FMOD:
		return rest;
	case QBNPU_BINARY_AND:
	case QBNPU_BINARY_BITAND:
		return a & b;
	case QBNPU_BINARY_OR:
	case QBNPU_BINARY_BITOR:
		return a | b;
	default:
		return a ^ b;
	}
}

static bool is_int_binary(uint32_t fn, uint32_t dtype)
{
	const bool is_wide =
		dtype == QBNPU_DTYPE_I32 || dtype == QBNPU_DTYPE_I64;

	if (fn <= QBNPU_BINARY_FMOD)
		return is_wide;
	if (fn == QBNPU_BINARY_PRELU)
		return false;
	if (fn <= QBNPU_BINARY_XOR)
		return dtype == QBNPU_DTYPE_BOOL;
	return is_wide || dtype == QBNPU_DTYPE_U8 || dtype == QBNPU_DTYPE_I8;
}

static void check_int_binary(uint32_t fn, uint32_t dtype, uint64_t seed)
{
	struct qbnpu_cmd_binary cmd = {
		.head = ref_case_head(QBNPU_OP_BINARY, sizeof(cmd)),
		.fn = (uint16_t)fn,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	__int128 a[1024], b[1024];
	struct ref_case c;
	uint64_t bits;
	size_t i;

	ref_case_begin(&c, seed);
	rank = ref_case_dims(&c, dims, 300);
	cmd.a = ref_case_tensor(&c, REF_CASE_SRC, dtype, rank, dims);
	cmd.b = ref_case_tensor(&c, REF_CASE_SRC, dtype, rank, dims);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DST, dtype, rank, dims);
	ref_case_fill_ints(&c, cmd.a);
	ref_case_fill_ints(&c, cmd.b);
	for (i = 0; fn == QBNPU_BINARY_POW && i < ref_case_count(&c, cmd.b);
	     i++) {
		bits = (uint64_t)(int64_t)ref_case_below(&c, 70) - 5;
		memcpy(ref_case_at(&c, cmd.b, i), &bits,
		       c.operands[cmd.b].element_size);
	}
	ref_case_read_ints(&c, cmd.a, a);
	ref_case_read_ints(&c, cmd.b, b);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
		ref_case_check_int(&c, cmd.dst, i,
				   binary_int_model(fn, a[i], b[i]));
	ref_case_end(&c);
}

/* CT01 IS41: every function on every integer type that has it, by round */
START_TEST(binary_ints_wrap_and_divide_by_zero_to_zero)
{
	const uint32_t fn = QBNPU_BINARY_ADD + (uint32_t)_i;
	uint32_t dtype, n, num_types = 0;

	for (dtype = 0; dtype < QBNPU_NUM_DTYPES; dtype++) {
		if (!is_int_binary(fn, dtype))
			continue;
		num_types++;
		for (n = 0; n < NUM_CASES; n++)
			check_int_binary(fn, dtype,
					 (fn * QBNPU_NUM_DTYPES + dtype) *
							 NUM_CASES +
						 n);
	}
	ck_assert_uint_eq(num_types, fn == QBNPU_BINARY_PRELU  ? 0
				     : fn <= QBNPU_BINARY_FMOD ? 2
				     : fn <= QBNPU_BINARY_XOR  ? 1
							       : 4);
}
END_TEST

/* BE01: what the validator lets through and no kernel takes */
START_TEST(quantised_binary_is_refused)
{
	const uint32_t dims[] = { 4 };
	struct qbnpu_cmd_binary cmd = {
		.head = ref_case_head(QBNPU_OP_BINARY, sizeof(cmd)),
		.fn = QBNPU_BINARY_ADD,
		.scale_a = ref_case_bits(1),
		.scale_b = ref_case_bits(1),
		.out_scale = ref_case_bits(1),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.a = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	cmd.b = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	ck_assert_int_eq(ref_case_prepare(&c, &cmd), -EOPNOTSUPP);
	ref_case_end(&c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(binary_f32_is_rounded_once, 10),
		QBRT_TEST(binary_applies_its_activation),
		QBRT_LOOP_TEST(binary_ints_wrap_and_divide_by_zero_to_zero, 16),
		QBRT_TEST(quantised_binary_is_refused),
	};

	return qbrt_test_run("ref-eltwise", tests, qbrt_array_size(tests));
}
