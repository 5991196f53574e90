/* SPDX-License-Identifier: MIT */
/*
 * Private to the validator: the small checks that the functions of
 * validate-ops.c and validate-sums.c are made of. Each notes its row and goes
 * on; an operand is a number, counted as in report.operand, and its entry in
 * v->t exists, or is NULL where NONE.
 */
#ifndef QBNPU_VALIDATE_CHECKS_H
#define QBNPU_VALIDATE_CHECKS_H

#include "validate-parts.h"

#define TYPE(name) (1u << QBNPU_DTYPE_##name)
#define TYPES_8 (TYPE(U8) | TYPE(I8))
#define TYPES_HALF (TYPE(F16) | TYPE(BF16))
#define TYPES_INT (TYPE(I32) | TYPE(I64))
#define TYPES_ALL ((1u << QBNPU_NUM_DTYPES) - 1)

/* Bit patterns of binary32 and binary64 */
#define F32_SIGN 0x80000000u
#define F32_MAX 0x7f7fffffu
#define F32_INFINITY 0x7f800000u
#define F32_ONE 0x3f800000u
#define F32_TWO 0x40000000u
#define F32_THREE 0x40400000u

#define FIELD(opcode, name) offsetof(struct qbnpu_cmd_##opcode, name)

/* Parameters of each function of 5.6, UNARY fn and act */
#define NUM_FNS (QBNPU_UNARY_ISINF + 1)
extern const uint8_t qbnpu_num_fn_params[NUM_FNS];

/* validate-sums.c */
void qbnpu_check_conv2d(struct validator *v, const void *command);
void qbnpu_check_deconv2d(struct validator *v, const void *command);
void qbnpu_check_matmul(struct validator *v, const void *command);
void qbnpu_check_pool(struct validator *v, const void *command);
void qbnpu_check_lstm_cell(struct validator *v, const void *command);
void qbnpu_check_reduce(struct validator *v, const void *command);
void qbnpu_check_softmax(struct validator *v, const void *command);
void qbnpu_check_layernorm(struct validator *v, const void *command);

/* V35 */
static inline void check_type(struct validator *v, uint32_t i, uint32_t types)
{
	if (v->t[i] && !is_type(v->t[i], types))
		note(v, 35, i, types);
}

static inline void check_same_type(struct validator *v, uint32_t a, uint32_t b)
{
	if (v->t[a] && v->t[b])
		check_type(v, b, 1u << v->t[a]->dtype);
}

/* V33: an operand that the form forbids */
static inline void check_absent(struct validator *v, uint32_t i)
{
	if (v->t[i])
		note(v, 33, i, QBNPU_NONE16);
}

/* V36; of an operand that is not there nothing is asked */
static inline _Bool check_rank(struct validator *v, uint32_t i, uint32_t rank)
{
	if (!v->t[i])
		return 0;
	if (v->t[i]->rank == rank)
		return 1;
	note(v, 36, i, rank);
	return 0;
}

static inline void check_extent(struct validator *v, uint32_t i, uint32_t axis,
				uint64_t size)
{
	if (v->t[i]->dims[axis] != size)
		note(v, 36, i, size);
}

/* Equal extents are equal in size and in parameters. */
static inline void check_same_axis(struct validator *v, uint32_t a,
				   uint32_t axis_a, uint32_t b, uint32_t axis_b)
{
	check_extent(v, b, axis_b, v->t[a]->dims[axis_a]);
	if (v->t[a]->extent_params[axis_a] != v->t[b]->extent_params[axis_b])
		note(v, 36, b, v->t[a]->dims[axis_a]);
}

static inline void check_same_extents(struct validator *v, uint32_t a,
				      uint32_t b)
{
	uint32_t axis;

	if (!v->t[a] || !check_rank(v, b, v->t[a]->rank))
		return;
	for (axis = 0; axis < v->t[a]->rank; axis++)
		check_same_axis(v, a, axis, b, axis);
}

/* Extents {size}, no parameters */
static inline void check_vector(struct validator *v, uint32_t i, uint64_t size)
{
	if (!check_rank(v, i, 1))
		return;
	check_extent(v, i, 0, size);
	if (v->t[i]->extent_params[0])
		note(v, 36, i, size);
}

/* V42; a bit of axes per axis that something is computed with */
static inline void check_fixed(struct validator *v, uint32_t i, uint32_t axes)
{
	uint32_t axis;

	for (axis = 0; axis < QBNPU_MAX_RANK; axis++) {
		if (axes >> axis & 1 && v->t[i]->extent_params[axis])
			note(v, 42, i, axis);
	}
}

/* V37; field is the byte offset in the command */
static inline void check_number(struct validator *v, size_t field,
				_Bool is_good, uint64_t limit)
{
	if (!is_good)
		note(v, 37, (uint32_t)field, limit);
}

/* V38 */
static inline void check_float(struct validator *v, size_t field, _Bool is_good)
{
	if (!is_good)
		note(v, 38, (uint32_t)field, 0);
}

static inline _Bool is_finite(uint32_t bits)
{
	return (bits & ~F32_SIGN) <= F32_MAX;
}

static inline _Bool is_nan(uint32_t bits)
{
	return (bits & ~F32_SIGN) > F32_INFINITY;
}

/* A key that sorts as the numbers do; both zeros are equal. */
static inline uint32_t get_float_key(uint32_t bits)
{
	if (!(bits & ~F32_SIGN))
		return F32_SIGN;
	return bits & F32_SIGN ? ~bits : bits | F32_SIGN;
}

static inline _Bool is_fusable(uint32_t fn)
{
	return fn <= QBNPU_UNARY_ELU || fn == QBNPU_UNARY_MISH;
}

/* V38 of a function's two parameters; fn 0 and unknown ones take none */
static inline void check_fn_params(struct validator *v, uint32_t fn,
				   size_t field_a, uint32_t a, size_t field_b,
				   uint32_t b)
{
	uint32_t count = fn < NUM_FNS ? qbnpu_num_fn_params[fn] : 0;

	if (fn == QBNPU_UNARY_CLIP) {
		check_float(v, field_a, !is_nan(a));
		check_float(v, field_b, !is_nan(b));
		check_float(v, field_a, get_float_key(a) <= get_float_key(b));
		return;
	}
	check_float(v, field_a, count > 0 ? is_finite(a) : !a);
	check_float(v, field_b, count > 1 ? is_finite(b) : !b);
	if (fn == QBNPU_UNARY_ISINF)
		check_float(v, field_a,
			    a == F32_ONE || a == F32_TWO || a == F32_THREE);
}

static inline _Bool is_8bit(const struct qbnpu_tensor *t)
{
	return is_type(t, TYPES_8);
}

/* Equal scales and zero points: results are stored numbers of the source. */
static inline void check_same_quantisation(struct validator *v, uint32_t a,
					   uint32_t b)
{
	const struct qbnpu_tensor *x = v->t[a];
	const struct qbnpu_tensor *y = v->t[b];

	if (x->scale != y->scale || x->zero_point != y->zero_point ||
	    x->quant != y->quant || x->quant_axis != y->quant_axis)
		note(v, 35, b, 0);
}

#endif
