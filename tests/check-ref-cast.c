// SPDX-License-Identifier: MIT
/*
 * CAST between all pairs of types against a model in long double, which holds
 * every value of every type exactly.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

_Static_assert(LDBL_MANT_DIG >= 64, "the model holds 64-bit integers");

static bool is_float(uint32_t dtype)
{
	return dtype == QBNPU_DTYPE_F32 || dtype == QBNPU_DTYPE_F64 ||
	       dtype == QBNPU_DTYPE_F16 || dtype == QBNPU_DTYPE_BF16;
}

static bool is_unsigned(uint32_t dtype)
{
	return dtype == QBNPU_DTYPE_U8 || dtype == QBNPU_DTYPE_U16 ||
	       dtype == QBNPU_DTYPE_U32 || dtype == QBNPU_DTYPE_U64;
}

static long double decode_half(uint16_t bits, int fraction_bits)
{
	const int top = (1 << (15 - fraction_bits)) - 1, bias = top / 2;
	const int exponent = bits >> fraction_bits & top;
	const int fraction = bits & ((1 << fraction_bits) - 1);
	long double value;

	if (exponent == top)
		value = fraction ? (long double)NAN : (long double)INFINITY;
	else if (exponent)
		value = ldexpl(fraction + (1 << fraction_bits),
			       exponent - bias - fraction_bits);
	else
		value = ldexpl(fraction, 1 - bias - fraction_bits);
	return bits & 0x8000 ? -value : value;
}

/* Nearest value with that many fraction bits and that least exponent. */
static long double round_to(long double value, int fraction_bits,
			    int min_exponent, long double max)
{
	long double unit, rounded;
	int exponent;

	if (value == 0 || isnan(value) || isinf(value))
		return value;
	exponent = ilogbl(value);
	if (exponent < min_exponent)
		exponent = min_exponent;
	unit = ldexpl(1, exponent - fraction_bits);
	rounded = nearbyintl(value / unit) * unit;
	if (fabsl(rounded) > max)
		return copysignl((long double)INFINITY, value);
	return copysignl(rounded, value);
}

static long double get_value(const struct ref_case *c, uint16_t tensor,
			     size_t i)
{
	const void *at = ref_case_at(c, tensor, i);
	uint16_t half;
	double wide;

	switch (c->operands[tensor].dtype) {
	case QBNPU_DTYPE_F32:
		return (long double)ref_case_f32(c, tensor, i);
	case QBNPU_DTYPE_F64:
		memcpy(&wide, at, sizeof(wide));
		return (long double)wide;
	case QBNPU_DTYPE_F16:
		memcpy(&half, at, sizeof(half));
		return decode_half(half, 10);
	case QBNPU_DTYPE_BF16:
		memcpy(&half, at, sizeof(half));
		return decode_half(half, 7);
	default:
		return ref_case_int(c, tensor, i);
	}
}

/* Integer to integer: the low bits. */
static long double wrap(long double value, uint32_t dtype)
{
	const uint32_t bits = 8 * qbnpu_dtype_size(dtype);
	const long double whole = ldexpl(1, (int)bits);

	value -= floorl(value / whole) * whole;
	if (!is_unsigned(dtype) && value >= whole / 2)
		value -= whole;
	return value;
}

static long double saturate(long double value, uint32_t dtype)
{
	const int bits = (int)(8 * qbnpu_dtype_size(dtype));
	const long double min = is_unsigned(dtype) ? 0 : -ldexpl(1, bits - 1);
	const long double max =
		ldexpl(1, is_unsigned(dtype) ? bits : bits - 1) - 1;

	if (isnan(value))
		return 0;
	value = truncl(value);
	return value < min ? min : value > max ? max : value;
}

static long double cast_model(long double value, uint32_t from, uint32_t to)
{
	switch (to) {
	case QBNPU_DTYPE_BOOL:
		return !(value == 0);
	case QBNPU_DTYPE_F32:
		return (long double)(float)value;
	case QBNPU_DTYPE_F64:
		return (long double)(double)value;
	case QBNPU_DTYPE_F16:
		return round_to(value, 10, -14, 65504);
	case QBNPU_DTYPE_BF16:
		return round_to(value, 7, -126,
				ldexpl(255, 120)); /* 0xff * 2^120 */
	default:
		return is_float(from) ? saturate(value, to) : wrap(value, to);
	}
}

/* Bits that hit limits, ties and special values of any type. */
static void set_element(struct ref_case *c, uint16_t tensor, size_t i)
{
	static const double picked[] = {
		0.0,          -0.0,         0.5,
		1.5,          2.5,          -0.5,
		127.5,        128.0,        -128.5,
		255.5,        256.0,        32767.5,
		-32769.0,     65504.0,      65519.9,
		65520.0,      65535.5,      0x1p31,
		-0x1p31,      0x1p31 - 1,   0x1p32,
		0x1p63,       -0x1p63,      0x1p64,
		0x1p-24,      0x1p-25,      0x3p-25,
		0x1p-133,     0x1.01p0,     0x1.03p0,
		1e300,        0x1.002p0,    0x1.006p0,
		0x1.000001p0, 0x1.000003p0, (double)NAN,
		HUGE_VAL,     -HUGE_VAL,    0x1.fffffep127,
	};
	void *at = ref_case_at(c, tensor, i);
	const uint32_t dtype = c->operands[tensor].dtype;
	const double value =
		ref_case_below(c, 4)
			? picked[ref_case_below(c, qbrt_array_size(picked))]
			: ref_case_real(c, -300, 300);
	const float single = (float)value;
	uint64_t bits = ref_case_random(c);

	if (dtype == QBNPU_DTYPE_F64 && ref_case_below(c, 2))
		memcpy(at, &value, sizeof(value));
	else if (dtype == QBNPU_DTYPE_F32 && ref_case_below(c, 2))
		memcpy(at, &single, sizeof(single));
	else if (!is_float(dtype) && !ref_case_below(c, 3))
		/* few bits set, or few clear: near limits and ties */
		bits = (ref_case_below(c, 2) ? UINT64_MAX : 0) ^
		       1ull << ref_case_below(c, 64) ^
		       1ull << ref_case_below(c, 64),
		memcpy(at, &bits, c->operands[tensor].element_size);
	else
		memcpy(at, &bits, c->operands[tensor].element_size);
}

static void check_element(const struct ref_case *c,
			  const struct qbnpu_cmd_cast *cmd, long double value,
			  size_t i)
{
	const uint32_t from = c->operands[cmd->src].dtype;
	const uint32_t to = c->operands[cmd->dst].dtype;
	const long double expected = cast_model(value, from, to);
	const long double got = get_value(c, cmd->dst, i);

	if (isnan(expected)) {
		ref_case_demand(isnan(got), "%u to %u: %La gives %La", from, to,
				value, got);
		return;
	}
	ref_case_demand(got == expected && (!is_float(to) ||
					    signbit(got) == signbit(expected)),
			"%u to %u: %La gives %La, not %La", from, to, value,
			got, expected);
	if (to == QBNPU_DTYPE_BOOL)
		ref_case_demand(*(uint8_t *)ref_case_at(c, cmd->dst, i) <= 1,
				"BOOL that is not 0 or 1");
}

/* CT01 IS42 NC31: every pair of types, by round */
START_TEST(cast_gives_the_one_right_answer_of_every_pair)
{
	const uint32_t from = (uint32_t)_i / QBNPU_NUM_DTYPES;
	const uint32_t to = (uint32_t)_i % QBNPU_NUM_DTYPES;
	struct qbnpu_cmd_cast cmd = {
		.head = ref_case_head(QBNPU_OP_CAST, sizeof(cmd)),
		.mode = QBNPU_CAST_NUMBER,
		.scale = QBNPU_NONE16,
		.zero_point = QBNPU_NONE16,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	long double values[1024];
	struct ref_case c;
	size_t i, count;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 400);
		cmd.src = ref_case_tensor(&c, REF_CASE_SRC, from, rank, dims);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, to, rank, dims);
		count = ref_case_count(&c, cmd.src);
		ck_assert_uint_le(count, qbrt_array_size(values));
		for (i = 0; i < count; i++)
			set_element(&c, cmd.src, i);
		for (i = 0; i < count; i++)
			values[i] = get_value(&c, cmd.src, i);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < count; i++)
			check_element(&c, &cmd, values[i], i);
		ref_case_end(&c);
	}
}
END_TEST

/* IS51: types of one size may be cast in place */
START_TEST(cast_works_in_place)
{
	const uint32_t dims[] = { 5, 100 };
	struct qbnpu_cmd_cast cmd = {
		.head = ref_case_head(QBNPU_OP_CAST, sizeof(cmd)),
		.scale = QBNPU_NONE16,
		.zero_point = QBNPU_NONE16,
	};
	struct ref_case c;
	int32_t got;
	size_t i;

	ref_case_begin(&c, 1);
	cmd.head.flags = QBNPU_CMD_IN_PLACE;
	cmd.src = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_F32, 2, dims);
	cmd.dst = ref_case_same(&c, cmd.src);
	c.operands[cmd.dst].dtype = QBNPU_DTYPE_I32;
	for (i = 0; i < 500; i++)
		ref_case_set_f32(&c, cmd.src, i, (float)i * -1.5f);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	for (i = 0; i < 500; i++) {
		memcpy(&got, ref_case_at(&c, cmd.dst, i), sizeof(got));
		ck_assert_int_eq(got, (int32_t)((float)i * -1.5f));
	}
	ref_case_end(&c);
}
END_TEST

/* BE01: de-quantising has no kernel yet */
START_TEST(cast_refuses_mode_1)
{
	const uint32_t dims[] = { 4 };
	struct qbnpu_cmd_cast cmd = {
		.head = ref_case_head(QBNPU_OP_CAST, sizeof(cmd)),
		.mode = QBNPU_CAST_DEQUANTISE,
		.scale = QBNPU_NONE16,
		.zero_point = QBNPU_NONE16,
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 1, dims);
	ck_assert_int_eq(ref_case_prepare(&c, &cmd), -EOPNOTSUPP);
	ref_case_end(&c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(cast_gives_the_one_right_answer_of_every_pair,
			       QBNPU_NUM_DTYPES * QBNPU_NUM_DTYPES),
		QBRT_TEST(cast_works_in_place),
		QBRT_TEST(cast_refuses_mode_1),
	};

	return qbrt_test_run("ref-cast", tests, qbrt_array_size(tests));
}
