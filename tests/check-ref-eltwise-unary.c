// SPDX-License-Identifier: MIT
/*
 * UNARY against the formulas of docs/spec/device-and-format.md 5.6
 * in long double, and against 128-bit integers.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

typedef long double real;

/* One function on f32: its formula, the range of x, values of a and b. */
struct function {
	uint32_t fn;
	real (*model)(real x, real a, real b);
	double min, max;
	double a_min, a_max, b_min, b_max;
	bool is_exact; /* NC31: equal to the model rounded once */
};

static real logistic(real x)
{
	return 1 / (1 + expl(-x));
}

static real softplus(real x)
{
	return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

#define MODEL(name, expression) \
	static real model_##name(real x, real a, real b) \
	{ \
		(void)a; \
		(void)b; \
		return (expression); \
	}

MODEL(clip, fminl(fmaxl(x, a), b))
MODEL(leaky, x >= 0 ? x : a * x)
MODEL(sigmoid, logistic(x))
MODEL(tanh, tanhl(x))
MODEL(hard_sigmoid, fminl(fmaxl(a *x + b, 0), 1))
MODEL(hard_swish, x *fminl(fmaxl(x / 6 + 0.5L, 0), 1))
MODEL(silu, x *logistic(a *x))
MODEL(gelu_erf, 0.5L * x * erfcl(-x / sqrtl(2)))
MODEL(gelu_tanh,
      x *logistic(2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)))
MODEL(elu, x > 0 ? x : a * expm1l(x))
MODEL(selu, b *(x > 0 ? x : a * expm1l(x)))
MODEL(celu, fmaxl(x, 0) + fminl(0, a *expm1l(x / a)))
MODEL(softplus, softplus(x))
MODEL(softsign, x / (1 + fabsl(x)))
MODEL(mish, x *tanhl(softplus(x)))
MODEL(threshold, x > a ? x : 0)
MODEL(shrink, x<-b ? x + a : x> b ? x - a : 0)
MODEL(abs, fabsl(x))
MODEL(neg, -x)
MODEL(sign, x > 0 ? 1 : x < 0 ? -1 : 0)
MODEL(reciprocal, 1 / x)
MODEL(sqrt, sqrtl(x))
MODEL(rsqrt, 1 / sqrtl(x))
MODEL(square, x *x)
MODEL(exp, expl(x))
MODEL(log, logl(x))
MODEL(erf, erfl(x))
MODEL(floor, floorl(x))
MODEL(ceil, ceill(x))
MODEL(round, rintl(x))
MODEL(trunc, truncl(x))
MODEL(sin, sinl(x))
MODEL(cos, cosl(x))
MODEL(tan, tanl(x))
MODEL(asin, asinl(x))
MODEL(acos, acosl(x))
MODEL(atan, atanl(x))
MODEL(sinh, sinhl(x))
MODEL(cosh, coshl(x))
MODEL(asinh, asinhl(x))
MODEL(acosh, acoshl(x))
MODEL(atanh, atanhl(x))
MODEL(pow, powl(x, a))

static const struct function functions[] = {
	{ QBNPU_UNARY_CLIP, model_clip, -9, 9, -5, 0, 0, 5, true },
	{ QBNPU_UNARY_LEAKY, model_leaky, -9, 9, 0, 1, 0, 0, true },
	{ QBNPU_UNARY_SIGMOID, model_sigmoid, -80, 80, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_TANH, model_tanh, -10, 10, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_HARD_SIGMOID, model_hard_sigmoid, -9, 9, 0.1, 0.3, 0.3,
	  0.6, false },
	{ QBNPU_UNARY_HARD_SWISH, model_hard_swish, -9, 9, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_SILU, model_silu, -30, 30, 0.5, 2, 0, 0, false },
	{ QBNPU_UNARY_GELU_ERF, model_gelu_erf, -9, 9, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_GELU_TANH, model_gelu_tanh, -9, 9, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ELU, model_elu, -20, 9, 0.5, 2, 0, 0, false },
	{ QBNPU_UNARY_SELU, model_selu, -20, 9, 0.5, 2, 0.5, 2, false },
	{ QBNPU_UNARY_CELU, model_celu, -20, 9, 0.5, 2, 0, 0, false },
	{ QBNPU_UNARY_SOFTPLUS, model_softplus, -80, 200, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_SOFTSIGN, model_softsign, -99, 99, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_MISH, model_mish, -60, 60, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_THRESHOLD, model_threshold, -9, 9, -2, 2, 0, 0, true },
	{ QBNPU_UNARY_SHRINK, model_shrink, -9, 9, -2, 2, 0, 4, true },
	{ QBNPU_UNARY_ABS, model_abs, -9, 9, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_NEG, model_neg, -9, 9, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_SIGN, model_sign, -9, 9, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_RECIPROCAL, model_reciprocal, -9, 9, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_SQRT, model_sqrt, 0, 1e6, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_RSQRT, model_rsqrt, 1e-6, 1e6, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_SQUARE, model_square, -1e9, 1e9, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_EXP, model_exp, -80, 88, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_LOG, model_log, 1e-9, 1e6, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ERF, model_erf, -5, 5, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_FLOOR, model_floor, -99, 99, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_CEIL, model_ceil, -99, 99, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_ROUND, model_round, -99, 99, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_TRUNC, model_trunc, -99, 99, 0, 0, 0, 0, true },
	{ QBNPU_UNARY_SIN, model_sin, -1000, 1000, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_COS, model_cos, -1000, 1000, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_TAN, model_tan, -1000, 1000, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ASIN, model_asin, -1, 1, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ACOS, model_acos, -1, 1, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ATAN, model_atan, -99, 99, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_SINH, model_sinh, -80, 80, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_COSH, model_cosh, -80, 80, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ASINH, model_asinh, -1e6, 1e6, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ACOSH, model_acosh, 1, 1e6, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_ATANH, model_atanh, -1, 1, 0, 0, 0, 0, false },
	{ QBNPU_UNARY_POW, model_pow, 0, 99, -3, 3, 0, 0, false },
};

/* A whole value or an end of the range now and then. */
static void add_extremes(struct ref_case *c, uint16_t tensor,
			 const struct function *function)
{
	const float picked[] = { 0,
				 (float)function->min,
				 (float)function->max,
				 1,
				 0.5f,
				 -0.5f,
				 2.5f,
				 -2.5f,
				 -1 };
	size_t i;

	for (i = 0; i < ref_case_count(c, tensor); i += 7) {
		const float value =
			picked[ref_case_below(c, qbrt_array_size(picked))];

		if ((double)value >= function->min &&
		    (double)value <= function->max)
			ref_case_set_f32(c, tensor, i, value);
	}
}

/* CT01 NC31 NC32: every function on f32, by round */
START_TEST(unary_f32_is_rounded_once)
{
	const struct function *function = &functions[_i];
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
		.fn = (uint16_t)function->fn,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	float values[4096], a, b;
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 600);
		cmd.src = ref_case_random_f32(
			&c, n % 3 ? REF_CASE_SRC : REF_CASE_DST, rank, dims,
			function->min, function->max);
		add_extremes(&c, cmd.src, function);
		cmd.dst = n % 3 ? ref_case_tensor(&c, REF_CASE_DST,
						  QBNPU_DTYPE_F32, rank, dims)
				: ref_case_same(&c, cmd.src);
		a = (float)ref_case_real(&c, function->a_min, function->a_max);
		b = (float)ref_case_real(&c, function->b_min, function->b_max);
		cmd.p_a = ref_case_bits(a);
		cmd.p_b = ref_case_bits(b);
		ref_case_read_f32(&c, cmd.src, values);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
			ref_case_check_ulp(ref_case_f32(&c, cmd.dst, i),
					   function->model((real)values[i],
							   (real)a, (real)b),
					   function->is_exact ? 0.5L : 0.50001L,
					   "unary", function->fn,
					   (real)values[i]);
		ref_case_end(&c);
	}
}
END_TEST

/* CT01 NC31: LINEAR has two roundings or one */
START_TEST(linear_has_two_roundings_or_one)
{
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
		.fn = QBNPU_UNARY_LINEAR,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	float values[4096], a, b;
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)n);
		rank = ref_case_dims(&c, dims, 600);
		cmd.src = ref_case_random_f32(&c, REF_CASE_SRC, rank, dims, -9,
					      9);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_F32,
					  rank, dims);
		a = (float)ref_case_real(&c, -2, 2);
		b = (float)ref_case_real(&c, -2, 2);
		cmd.p_a = ref_case_bits(a);
		cmd.p_b = ref_case_bits(b);
		ref_case_read_f32(&c, cmd.src, values);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++) {
			const float y = ref_case_f32(&c, cmd.dst, i);
			const volatile float product = a * values[i];

			ref_case_demand(y == product + b ||
						y == fmaf(a, values[i], b),
					"LINEAR %a", (double)y);
		}
		ref_case_end(&c);
	}
}
END_TEST

/* CT01: ISNAN and ISINF with each parameter */
START_TEST(isnan_and_isinf_tell_classes_apart)
{
	static const float values[] = { 1,         NAN,   INFINITY,
					-INFINITY, -0.0f, FLT_MAX };
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
	};
	uint32_t dims[QBNPU_MAX_RANK], rank, a;
	struct ref_case c;
	float x[4096];
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)n);
		rank = ref_case_dims(&c, dims, 600);
		a = ref_case_below(&c, 4);
		cmd.fn = a ? QBNPU_UNARY_ISINF : QBNPU_UNARY_ISNAN;
		cmd.p_a = ref_case_bits((float)a);
		cmd.src = ref_case_random_f32(&c, REF_CASE_SRC, rank, dims, -9,
					      9);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_BOOL,
					  rank, dims);
		for (i = 0; i < ref_case_count(&c, cmd.src); i++)
			ref_case_set_f32(&c, cmd.src, i,
					 values[ref_case_below(&c, 6)]);
		ref_case_read_f32(&c, cmd.src, x);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++) {
			const uint8_t got =
				*(uint8_t *)ref_case_at(&c, cmd.dst, i);
			const uint32_t sign = signbit(x[i]) ? 1 : 2;

			ref_case_demand(got == (a ? isinf(x[i]) && (a & sign)
						  : isnan(x[i]) != 0),
					"parameter %u of %a: %u", a,
					(double)x[i], got);
		}
		ref_case_end(&c);
	}
}
END_TEST

/* NC44: NaN and infinities give IEEE results or repeatable ones, no fault */
START_TEST(unary_repeats_itself_on_nan_and_infinity)
{
	static const float values[] = { NAN, INFINITY, -INFINITY, -0.0f,
					0,   FLT_MAX,  -FLT_MAX,  FLT_MIN };
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
		.p_a = ref_case_bits(0.5f),
		.p_b = ref_case_bits(1.5f),
	};
	const uint32_t dims[] = { 8 };
	float first[8], again[8];
	struct ref_case c;
	size_t f, i;

	for (f = 0; f < qbrt_array_size(functions); f++) {
		cmd.fn = (uint16_t)functions[f].fn;
		ref_case_begin(&c, 1);
		cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32,
					  1, dims);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32,
					  1, dims);
		memcpy(c.buffers[cmd.src], values, sizeof(values));
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		memcpy(first, c.buffers[cmd.dst], sizeof(first));
		memset(c.buffers[cmd.dst], 0, sizeof(first));
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		memcpy(again, c.buffers[cmd.dst], sizeof(again));
		ck_assert_mem_eq(first, again, sizeof(first));
		for (i = 0; i < 3 && cmd.fn == QBNPU_UNARY_SQUARE; i++)
			ck_assert(i ? isinf(first[i]) : isnan(first[i]));
		ref_case_end(&c);
	}
}
END_TEST

/* Integer forms: dtype, fn, and the result before it is cut. */
static __int128 unary_int_model(uint32_t fn, __int128 x, __int128 a, __int128 b)
{
	switch (fn) {
	case QBNPU_UNARY_CLIP:
		return x < a ? a : x > b ? b : x;
	case QBNPU_UNARY_ABS:
		return x < 0 ? -x : x;
	case QBNPU_UNARY_NEG:
		return -x;
	case QBNPU_UNARY_SIGN:
		return (x > 0) - (x < 0);
	case QBNPU_UNARY_SQUARE:
		return x * x;
	case QBNPU_UNARY_NOT:
		return !x;
	default:
		return ~x;
	}
}

static const struct {
	uint32_t fn, dtype;
} int_unaries[] = {
	{ QBNPU_UNARY_CLIP, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_CLIP, QBNPU_DTYPE_I64 },
	{ QBNPU_UNARY_ABS, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_ABS, QBNPU_DTYPE_I64 },
	{ QBNPU_UNARY_NEG, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_NEG, QBNPU_DTYPE_I64 },
	{ QBNPU_UNARY_SIGN, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_SIGN, QBNPU_DTYPE_I64 },
	{ QBNPU_UNARY_SQUARE, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_NOT, QBNPU_DTYPE_BOOL },
	{ QBNPU_UNARY_BITNOT, QBNPU_DTYPE_I32 },
	{ QBNPU_UNARY_BITNOT, QBNPU_DTYPE_I64 },
	{ QBNPU_UNARY_BITNOT, QBNPU_DTYPE_U8 },
	{ QBNPU_UNARY_BITNOT, QBNPU_DTYPE_I8 },
};

/* CT01 IS41: every integer form, by round */
START_TEST(unary_ints_wrap)
{
	const uint32_t dtype = int_unaries[_i].dtype;
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
		.fn = (uint16_t)int_unaries[_i].fn,
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	__int128 values[2048];
	struct ref_case c;
	float a, b;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 300);
		cmd.src =
			ref_case_tensor(&c, n % 3 ? REF_CASE_SRC : REF_CASE_DST,
					dtype, rank, dims);
		ref_case_fill_ints(&c, cmd.src);
		cmd.dst = n % 3 ? ref_case_tensor(&c, REF_CASE_DST, dtype, rank,
						  dims)
				: ref_case_same(&c, cmd.src);
		a = -(float)ref_case_below(&c, 10);
		b = (float)ref_case_below(&c, 10);
		if (cmd.fn == QBNPU_UNARY_CLIP) {
			cmd.p_a = ref_case_bits(a);
			cmd.p_b = ref_case_bits(b);
		}
		ref_case_read_ints(&c, cmd.src, values);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
			ref_case_check_int(&c, cmd.dst, i,
					   unary_int_model(cmd.fn, values[i],
							   (__int128)a,
							   (__int128)b));
		ref_case_end(&c);
	}
}
END_TEST

/* CLIP with infinities is ReLU on integers too. */
START_TEST(int_clip_takes_infinite_bounds)
{
	const uint32_t dims[] = { 3 };
	const int64_t values[] = { INT64_MIN, 7, INT64_MAX };
	const int64_t expected[] = { 0, 7, INT64_MAX };
	struct qbnpu_cmd_unary cmd = {
		.head = ref_case_head(QBNPU_OP_UNARY, sizeof(cmd)),
		.fn = QBNPU_UNARY_CLIP,
		.p_b = ref_case_bits(INFINITY),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_I64, 1, dims);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_I64, 1, dims);
	memcpy(c.buffers[cmd.src], values, sizeof(values));
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	ck_assert_mem_eq(c.buffers[cmd.dst], expected, sizeof(expected));
	ref_case_end(&c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(unary_f32_is_rounded_once,
			       (int)qbrt_array_size(functions)),
		QBRT_TEST(linear_has_two_roundings_or_one),
		QBRT_TEST(isnan_and_isinf_tell_classes_apart),
		QBRT_TEST(unary_repeats_itself_on_nan_and_infinity),
		QBRT_LOOP_TEST(unary_ints_wrap,
			       (int)qbrt_array_size(int_unaries)),
		QBRT_TEST(int_clip_takes_infinite_bounds),
	};

	return qbrt_test_run("ref-eltwise-unary", tests,
			     qbrt_array_size(tests));
}
