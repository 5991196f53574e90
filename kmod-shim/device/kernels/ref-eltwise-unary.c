// SPDX-License-Identifier: MIT
/*
 * The f32 functions of UNARY, which are also what sums apply before they
 * store. Functions of one correctly rounded step compute in f32 (NC31); all
 * others compute in f64 and round once (NC32), in forms that keep their
 * precision where the plain formula would cancel.
 */
#include "ref.h"

#include <math.h>

/* y = expression of float x, a, b */
#define F32_ROW(name, expression) \
	static void row_##name(float *dst, const float *src, size_t count, \
			       float a, float b) \
	{ \
		size_t i; \
		(void)a; \
		(void)b; \
		for (i = 0; i < count; i++) { \
			const float x = src[i]; \
			dst[i] = (expression); \
		} \
	}

/* y = expression of double x, a, b, rounded once */
#define F64_ROW(name, expression) \
	static void row_##name(float *dst, const float *src, size_t count, \
			       float a_single, float b_single) \
	{ \
		const double a = (double)a_single; \
		const double b = (double)b_single; \
		size_t i; \
		(void)a; \
		(void)b; \
		for (i = 0; i < count; i++) { \
			const double x = (double)src[i]; \
			dst[i] = (float)(expression); \
		} \
	}

static double clamp_unit(double x)
{
	return fmin(fmax(x, 0.0), 1.0);
}

static double logistic(double x)
{
	return 1.0 / (1.0 + exp(-x));
}

/* log(1 + e^x) without overflow */
static double softplus(double x)
{
	return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double gelu_erf(double x)
{
	/* erfc keeps its digits where 1 + erf would cancel */
	return 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double gelu_tanh(double x)
{
	/* 0.5 * (1 + tanh u) is the logistic function of 2u */
	const double root = 0.79788456080286535588; /* sqrt(2 / pi) */

	return x * logistic(2.0 * root * (x + 0.044715 * x * x * x));
}

F32_ROW(clip, x<a ? a : x> b ? b : x)
F32_ROW(leaky, x >= 0 ? x : a * x)
F64_ROW(sigmoid, logistic(x))
F64_ROW(tanh, tanh(x))
F64_ROW(hard_sigmoid, clamp_unit(a *x + b))
F64_ROW(hard_swish, x *clamp_unit(x / 6.0 + 0.5))
F64_ROW(silu, x *logistic(a *x))
F64_ROW(gelu_erf, gelu_erf(x))
F64_ROW(gelu_tanh, gelu_tanh(x))
F64_ROW(elu, x > 0 ? x : a * expm1(x))
F64_ROW(selu, b *(x > 0 ? x : a * expm1(x)))
F64_ROW(celu, fmax(x, 0.0) + fmin(0.0, a *expm1(x / a)))
F64_ROW(softplus, softplus(x))
F64_ROW(softsign, x / (1.0 + fabs(x)))
F64_ROW(mish, x *tanh(softplus(x)))
F32_ROW(threshold, x > a ? x : 0)
F32_ROW(shrink, x<-b ? x + a : x> b ? x - a : 0)
F32_ROW(abs, fabsf(x))
F32_ROW(neg, -x)
F32_ROW(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x)
F32_ROW(reciprocal, 1.0f / x)
F32_ROW(sqrt, sqrtf(x))
F64_ROW(rsqrt, 1.0 / sqrt(x))
F32_ROW(square, x *x)
F64_ROW(exp, exp(x))
F64_ROW(log, log(x))
F64_ROW(erf, erf(x))
F32_ROW(floor, floorf(x))
F32_ROW(ceil, ceilf(x))
F32_ROW(round, rintf(x))
F32_ROW(trunc, truncf(x))
F64_ROW(sin, sin(x))
F64_ROW(cos, cos(x))
F64_ROW(tan, tan(x))
F64_ROW(asin, asin(x))
F64_ROW(acos, acos(x))
F64_ROW(atan, atan(x))
F64_ROW(sinh, sinh(x))
F64_ROW(cosh, cosh(x))
F64_ROW(asinh, asinh(x))
F64_ROW(acosh, acosh(x))
F64_ROW(atanh, atanh(x))
F32_ROW(linear, a *x + b)
F64_ROW(pow, pow(x, a))

/* Functions that call the mathematical library cost about this per element. */
#define LIBRARY_WORK 20u

ref_f32_row *qbnpu_ref_unary_row(uint32_t fn, uint32_t *work)
{
	static const struct {
		ref_f32_row *row;
		uint32_t work;
	} rows[] = {
		[QBNPU_UNARY_CLIP] = { row_clip, 1 },
		[QBNPU_UNARY_LEAKY] = { row_leaky, 1 },
		[QBNPU_UNARY_SIGMOID] = { row_sigmoid, LIBRARY_WORK },
		[QBNPU_UNARY_TANH] = { row_tanh, LIBRARY_WORK },
		[QBNPU_UNARY_HARD_SIGMOID] = { row_hard_sigmoid, 4 },
		[QBNPU_UNARY_HARD_SWISH] = { row_hard_swish, 4 },
		[QBNPU_UNARY_SILU] = { row_silu, LIBRARY_WORK },
		[QBNPU_UNARY_GELU_ERF] = { row_gelu_erf, LIBRARY_WORK },
		[QBNPU_UNARY_GELU_TANH] = { row_gelu_tanh, LIBRARY_WORK },
		[QBNPU_UNARY_ELU] = { row_elu, LIBRARY_WORK },
		[QBNPU_UNARY_SELU] = { row_selu, LIBRARY_WORK },
		[QBNPU_UNARY_CELU] = { row_celu, LIBRARY_WORK },
		[QBNPU_UNARY_SOFTPLUS] = { row_softplus, 2 * LIBRARY_WORK },
		[QBNPU_UNARY_SOFTSIGN] = { row_softsign, 4 },
		[QBNPU_UNARY_MISH] = { row_mish, 3 * LIBRARY_WORK },
		[QBNPU_UNARY_THRESHOLD] = { row_threshold, 1 },
		[QBNPU_UNARY_SHRINK] = { row_shrink, 1 },
		[QBNPU_UNARY_ABS] = { row_abs, 1 },
		[QBNPU_UNARY_NEG] = { row_neg, 1 },
		[QBNPU_UNARY_SIGN] = { row_sign, 1 },
		[QBNPU_UNARY_RECIPROCAL] = { row_reciprocal, 2 },
		[QBNPU_UNARY_SQRT] = { row_sqrt, 4 },
		[QBNPU_UNARY_RSQRT] = { row_rsqrt, 8 },
		[QBNPU_UNARY_SQUARE] = { row_square, 1 },
		[QBNPU_UNARY_EXP] = { row_exp, LIBRARY_WORK },
		[QBNPU_UNARY_LOG] = { row_log, LIBRARY_WORK },
		[QBNPU_UNARY_ERF] = { row_erf, LIBRARY_WORK },
		[QBNPU_UNARY_FLOOR] = { row_floor, 4 },
		[QBNPU_UNARY_CEIL] = { row_ceil, 4 },
		[QBNPU_UNARY_ROUND] = { row_round, 4 },
		[QBNPU_UNARY_TRUNC] = { row_trunc, 4 },
		[QBNPU_UNARY_SIN] = { row_sin, LIBRARY_WORK },
		[QBNPU_UNARY_COS] = { row_cos, LIBRARY_WORK },
		[QBNPU_UNARY_TAN] = { row_tan, LIBRARY_WORK },
		[QBNPU_UNARY_ASIN] = { row_asin, LIBRARY_WORK },
		[QBNPU_UNARY_ACOS] = { row_acos, LIBRARY_WORK },
		[QBNPU_UNARY_ATAN] = { row_atan, LIBRARY_WORK },
		[QBNPU_UNARY_SINH] = { row_sinh, LIBRARY_WORK },
		[QBNPU_UNARY_COSH] = { row_cosh, LIBRARY_WORK },
		[QBNPU_UNARY_ASINH] = { row_asinh, LIBRARY_WORK },
		[QBNPU_UNARY_ACOSH] = { row_acosh, LIBRARY_WORK },
		[QBNPU_UNARY_ATANH] = { row_atanh, LIBRARY_WORK },
		[QBNPU_UNARY_LINEAR] = { row_linear, 1 },
		[QBNPU_UNARY_POW] = { row_pow, 2 * LIBRARY_WORK },
	};

	if (fn >= sizeof(rows) / sizeof(rows[0]) || !rows[fn].row)
		return NULL;
	*work = rows[fn].work;
	return rows[fn].row;
}
