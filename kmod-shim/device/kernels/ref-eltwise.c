// SPDX-License-Identifier: MIT
/*
 * UNARY and BINARY. f32 commands walk f32 rows; integers and BOOL of every
 * width are computed in 64 bits and cut when stored, which wraps exactly as
 * the narrow type would (IS41).
 */
#include "ref.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

typedef void int_row(int64_t *dst, const int64_t *a, const int64_t *b,
		     size_t count);

/* UNARY and BINARY; BINARY has b as its third view. */
struct ref_eltwise {
	struct qbnpu_prepared base;
	struct ref_loop loop; /* dst, a, b */
	ref_f32_row *unary;   /* UNARY on f32; BINARY: act or NULL */
	ref_f32_pair_row *binary;
	int_row *ints;
	float param_a, param_b;
	int64_t min, max; /* integer CLIP */
	uint32_t fn;
	uint32_t dtype; /* of the sources */
};

/* Integer quotient toward zero; by 0 it is 0, lowest / -1 wraps. */
static int64_t divide(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (b == -1)
		return (int64_t) - (uint64_t)a;
	return a / b;
}

/* Remainder with the sign of a; by 0 it is 0. */
static int64_t remain(int64_t a, int64_t b)
{
	if (b == 0 || b == -1)
		return 0;
	return a % b;
}

/* Remainder with the sign of b. */
static int64_t modulo(int64_t a, int64_t b)
{
	const int64_t rest = remain(a, b);

	return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Wraps; a negative exponent is 1 / a^-b toward zero, of 0 again 0. */
static int64_t raise(int64_t a, int64_t b)
{
	uint64_t square = (uint64_t)a, power = 1;

	if (b < 0)
		return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;
	for (; b; b >>= 1) {
		if (b & 1)
			power *= square;
		square *= square;
	}
	return (int64_t)power;
}

static float modulo_f32(float a, float b)
{
	const double rest = fmod((double)a, (double)b);

	if (rest == 0)
		return copysignf(0, b);
	return (float)((rest < 0) != (b < 0) ? rest + (double)b : rest);
}

#define INT_ROW(name, expression) \
	static void ints_##name(int64_t *dst, const int64_t *a_block, \
				const int64_t *b_block, size_t count) \
	{ \
		size_t i; \
		for (i = 0; i < count; i++) { \
			const int64_t a = a_block[i], b = b_block[i]; \
			(void)b; \
			dst[i] = (int64_t)(expression); \
		} \
	}

INT_ROW(add, (uint64_t)a + (uint64_t)b)
INT_ROW(sub, (uint64_t)a - (uint64_t)b)
INT_ROW(mul, (uint64_t)a *(uint64_t)b)
INT_ROW(div, divide(a, b))
INT_ROW(max, a > b ? a : b)
INT_ROW(min, a < b ? a : b)
INT_ROW(pow, raise(a, b))
INT_ROW(mod, modulo(a, b))
INT_ROW(fmod, remain(a, b))
INT_ROW(and, a &b)
INT_ROW(or, a | b)
INT_ROW(xor, a ^ b)
INT_ROW(abs, a < 0 ? -(uint64_t)a : (uint64_t)a)
INT_ROW(neg, -(uint64_t)a)
INT_ROW(sign, (a > 0) - (a < 0))
INT_ROW(square, (uint64_t)a *(uint64_t)a)
INT_ROW(bitnot, ~a)
INT_ROW(not, !a)

#define F32_PAIR_ROW(name, expression) \
	static void row_##name(float *dst, const float *a_row, \
			       const float *b_row, size_t count) \
	{ \
		size_t i; \
		for (i = 0; i < count; i++) { \
			const float a = a_row[i], b = b_row[i]; \
			dst[i] = (expression); \
		} \
	}

F32_PAIR_ROW(add, a + b)
F32_PAIR_ROW(sub, a - b)
F32_PAIR_ROW(mul, a *b)
F32_PAIR_ROW(div, a / b)
F32_PAIR_ROW(max, a > b ? a : b)
F32_PAIR_ROW(min, a < b ? a : b)
F32_PAIR_ROW(pow, (float)pow((double)a, (double)b))
F32_PAIR_ROW(mod, modulo_f32(a, b))
F32_PAIR_ROW(fmod, fmodf(a, b))
F32_PAIR_ROW(prelu, a >= 0 ? a : a * b)

ref_f32_pair_row *qbnpu_ref_binary_row(uint32_t fn, uint32_t *work)
{
	static ref_f32_pair_row *const rows[] = {
		[QBNPU_BINARY_ADD] = row_add,
		[QBNPU_BINARY_SUB] = row_sub,
		[QBNPU_BINARY_MUL] = row_mul,
		[QBNPU_BINARY_DIV] = row_div,
		[QBNPU_BINARY_MAX] = row_max,
		[QBNPU_BINARY_MIN] = row_min,
		[QBNPU_BINARY_POW] = row_pow,
		[QBNPU_BINARY_MOD] = row_mod,
		[QBNPU_BINARY_FMOD] = row_fmod,
		[QBNPU_BINARY_PRELU] = row_prelu,
	};

	if (fn >= qbrt_array_size(rows) || !rows[fn])
		return NULL;
	*work = fn == QBNPU_BINARY_POW                              ? 40
		: fn == QBNPU_BINARY_MOD || fn == QBNPU_BINARY_FMOD ? 20
								    : 2;
	return rows[fn];
}

static bool is_wide_int(uint32_t dtype)
{
	return dtype == QBNPU_DTYPE_I32 || dtype == QBNPU_DTYPE_I64;
}

static bool is_bits(uint32_t dtype)
{
	return is_wide_int(dtype) || dtype == QBNPU_DTYPE_U8 ||
	       dtype == QBNPU_DTYPE_I8;
}

static int_row *find_int_binary(uint32_t fn, uint32_t dtype)
{
	static int_row *const rows[] = {
		[QBNPU_BINARY_ADD] = ints_add,
		[QBNPU_BINARY_SUB] = ints_sub,
		[QBNPU_BINARY_MUL] = ints_mul,
		[QBNPU_BINARY_DIV] = ints_div,
		[QBNPU_BINARY_MAX] = ints_max,
		[QBNPU_BINARY_MIN] = ints_min,
		[QBNPU_BINARY_POW] = ints_pow,
		[QBNPU_BINARY_MOD] = ints_mod,
		[QBNPU_BINARY_FMOD] = ints_fmod,
		[QBNPU_BINARY_AND] = ints_and,
		[QBNPU_BINARY_OR] = ints_or,
		[QBNPU_BINARY_XOR] = ints_xor,
		[QBNPU_BINARY_BITAND] = ints_and,
		[QBNPU_BINARY_BITOR] = ints_or,
		[QBNPU_BINARY_BITXOR] = ints_xor,
	};
	bool is_taken;

	if (fn >= qbrt_array_size(rows) || !rows[fn])
		return NULL;
	if (fn <= QBNPU_BINARY_FMOD)
		is_taken = is_wide_int(dtype);
	else if (fn <= QBNPU_BINARY_XOR)
		is_taken = dtype == QBNPU_DTYPE_BOOL;
	else
		is_taken = is_bits(dtype);
	return is_taken ? rows[fn] : NULL;
}

static int_row *find_int_unary(uint32_t fn, uint32_t dtype)
{
	switch (fn) {
	case QBNPU_UNARY_ABS:
		return is_wide_int(dtype) ? ints_abs : NULL;
	case QBNPU_UNARY_NEG:
		return is_wide_int(dtype) ? ints_neg : NULL;
	case QBNPU_UNARY_SIGN:
		return is_wide_int(dtype) ? ints_sign : NULL;
	case QBNPU_UNARY_SQUARE:
		return dtype == QBNPU_DTYPE_I32 ? ints_square : NULL;
	case QBNPU_UNARY_NOT:
		return dtype == QBNPU_DTYPE_BOOL ? ints_not : NULL;
	case QBNPU_UNARY_BITNOT:
		return is_bits(dtype) ? ints_bitnot : NULL;
	default:
		return NULL;
	}
}

static void f32_unary_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_eltwise *eltwise = arg;
	float src_block[REF_BLOCK], dst_block[REF_BLOCK];
	const float *src;

	src = qbnpu_ref_gather(src_block, at[1],
			       ref_loop_stride(&eltwise->loop, 1), count, 4);
	eltwise->unary(dst_block, src, count, eltwise->param_a,
		       eltwise->param_b);
	qbnpu_ref_scatter(at[0], ref_loop_stride(&eltwise->loop, 0), dst_block,
			  count, 4);
}

static void f32_binary_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_eltwise *eltwise = arg;
	float a_block[REF_BLOCK], b_block[REF_BLOCK], dst_block[REF_BLOCK];
	const float *a, *b;

	a = qbnpu_ref_gather(a_block, at[1], ref_loop_stride(&eltwise->loop, 1),
			     count, 4);
	b = qbnpu_ref_gather(b_block, at[2], ref_loop_stride(&eltwise->loop, 2),
			     count, 4);
	eltwise->binary(dst_block, a, b, count);
	if (eltwise->unary)
		eltwise->unary(dst_block, dst_block, count, eltwise->param_a,
			       eltwise->param_b);
	qbnpu_ref_scatter(at[0], ref_loop_stride(&eltwise->loop, 0), dst_block,
			  count, 4);
}

static void int_eltwise_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_eltwise *eltwise = arg;
	int64_t a[REF_BLOCK], b[REF_BLOCK];

	qbnpu_ref_load_int(a, at[1], ref_loop_stride(&eltwise->loop, 1), count,
			   eltwise->dtype);
	if (eltwise->loop.num_views == 3)
		qbnpu_ref_load_int(b, at[2], ref_loop_stride(&eltwise->loop, 2),
				   count, eltwise->dtype);
	eltwise->ints(a, a, eltwise->loop.num_views == 3 ? b : a, count);
	qbnpu_ref_store_int(at[0], ref_loop_stride(&eltwise->loop, 0), a, count,
			    eltwise->dtype);
}

static void int_clip_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_eltwise *eltwise = arg;
	int64_t block[REF_BLOCK];
	size_t i;

	qbnpu_ref_load_int(block, at[1], ref_loop_stride(&eltwise->loop, 1),
			   count, eltwise->dtype);
	for (i = 0; i < count; i++) {
		if (block[i] < eltwise->min)
			block[i] = eltwise->min;
		if (block[i] > eltwise->max)
			block[i] = eltwise->max;
	}
	qbnpu_ref_store_int(at[0], ref_loop_stride(&eltwise->loop, 0), block,
			    count, eltwise->dtype);
}

/* ISNAN and ISINF: f32 to BOOL */
static void test_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_eltwise *eltwise = arg;
	const uint64_t dst_stride = ref_loop_stride(&eltwise->loop, 0);
	const int signs = (int)eltwise->param_a; /* 1 negative, 2 positive */
	float block[REF_BLOCK];
	const float *src;
	size_t i;

	src = qbnpu_ref_gather(block, at[1], ref_loop_stride(&eltwise->loop, 1),
			       count, 4);
	for (i = 0; i < count; i++) {
		if (eltwise->fn == QBNPU_UNARY_ISNAN)
			at[0][i * dst_stride] = isnan(src[i]) != 0;
		else
			at[0][i * dst_stride] =
				isinf(src[i]) &&
				(signs & (signbit(src[i]) ? 1 : 2));
	}
}

static int run_rows(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run, ref_row *row)
{
	const struct ref_eltwise *eltwise = (const void *)prepared;

	return qbnpu_ref_loop_run(&eltwise->loop, run, row, eltwise);
}

static int run_f32_unary(const struct qbnpu_prepared *prepared,
			 const struct qbnpu_run *run)
{
	return run_rows(prepared, run, f32_unary_row);
}

static int run_f32_binary(const struct qbnpu_prepared *prepared,
			  const struct qbnpu_run *run)
{
	return run_rows(prepared, run, f32_binary_row);
}

static int run_ints(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	return run_rows(prepared, run, int_eltwise_row);
}

static int run_int_clip(const struct qbnpu_prepared *prepared,
			const struct qbnpu_run *run)
{
	return run_rows(prepared, run, int_clip_row);
}

static int run_test(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	return run_rows(prepared, run, test_row);
}

/* A bound of CLIP as an integer: toward zero, saturated, as CAST does it. */
static int64_t bound_from_f32(float bound, uint32_t dtype)
{
	const double end = dtype == QBNPU_DTYPE_I32 ? 0x1p31 : 0x1p63;
	const double value = (double)bound;

	if (value >= end)
		return dtype == QBNPU_DTYPE_I32 ? INT32_MAX : INT64_MAX;
	if (value <= -end)
		return dtype == QBNPU_DTYPE_I32 ? INT32_MIN : INT64_MIN;
	return (int64_t)value;
}

/* Chooses the rows of a UNARY; false: there are none. */
static bool set_unary(struct ref_eltwise *eltwise)
{
	if (eltwise->fn == QBNPU_UNARY_ISNAN ||
	    eltwise->fn == QBNPU_UNARY_ISINF) {
		eltwise->base.run = run_test;
		return true;
	}
	if (eltwise->dtype == QBNPU_DTYPE_F32) {
		eltwise->base.run = run_f32_unary;
		eltwise->unary =
			qbnpu_ref_unary_row(eltwise->fn, &eltwise->loop.work);
		return eltwise->unary;
	}
	eltwise->loop.work = 4;
	if (eltwise->fn == QBNPU_UNARY_CLIP && is_wide_int(eltwise->dtype)) {
		eltwise->base.run = run_int_clip;
		eltwise->min = bound_from_f32(eltwise->param_a, eltwise->dtype);
		eltwise->max = bound_from_f32(eltwise->param_b, eltwise->dtype);
		return true;
	}
	eltwise->base.run = run_ints;
	eltwise->ints = find_int_unary(eltwise->fn, eltwise->dtype);
	return eltwise->ints;
}

int qbnpu_ref_prepare_unary(const struct qbnpu_prepare *prepare,
			    struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_unary *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *operands[] = {
		&prepare->operands[cmd->dst],
		&prepare->operands[cmd->src],
	};
	struct ref_eltwise *eltwise = calloc(1, sizeof(*eltwise));

	if (!eltwise)
		return -ENOMEM;
	qbnpu_ref_loop_begin(&eltwise->loop, operands, 2);
	eltwise->fn = cmd->fn;
	eltwise->dtype = operands[1]->dtype;
	eltwise->param_a = ref_f32(cmd->p_a);
	eltwise->param_b = ref_f32(cmd->p_b);
	if (!set_unary(eltwise)) {
		free(eltwise);
		return -EOPNOTSUPP;
	}
	*prepared = &eltwise->base;
	return 0;
}

static bool set_binary(struct ref_eltwise *eltwise, uint32_t act)
{
	uint32_t work = 0;

	if (eltwise->dtype == QBNPU_DTYPE_F32) {
		eltwise->base.run = run_f32_binary;
		eltwise->binary =
			qbnpu_ref_binary_row(eltwise->fn, &eltwise->loop.work);
		if (act)
			eltwise->unary = qbnpu_ref_unary_row(act, &work);
		eltwise->loop.work += work;
		return eltwise->binary && (!act || eltwise->unary);
	}
	eltwise->base.run = run_ints;
	eltwise->loop.work = eltwise->fn == QBNPU_BINARY_POW ? 64 : 4;
	eltwise->ints = find_int_binary(eltwise->fn, eltwise->dtype);
	return eltwise->ints && !act;
}

int qbnpu_ref_prepare_binary(const struct qbnpu_prepare *prepare,
			     struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_binary *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *operands[] = {
		&prepare->operands[cmd->dst],
		&prepare->operands[cmd->a],
		&prepare->operands[cmd->b],
	};
	struct ref_eltwise *eltwise = calloc(1, sizeof(*eltwise));

	if (!eltwise)
		return -ENOMEM;
	qbnpu_ref_loop_begin(&eltwise->loop, operands, 3);
	eltwise->fn = cmd->fn;
	eltwise->dtype = operands[1]->dtype;
	eltwise->param_a = ref_f32(cmd->act_a);
	eltwise->param_b = ref_f32(cmd->act_b);
	if (!set_binary(eltwise, cmd->act)) {
		free(eltwise);
		return -EOPNOTSUPP;
	}
	*prepared = &eltwise->base;
	return 0;
}
