// SPDX-License-Identifier: MIT
/*
 * CAST mode 0: any pair of types (IS42). Floats go through f64, which holds
 * every narrower float exactly; integers go through 64 bits. So each result is
 * rounded once: an integer that f64 cannot hold is first cut to 53 bits with
 * its lost bits kept as one sticky bit (round to odd).
 */
#include "ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

struct ref_cast {
	struct qbnpu_prepared base;
	struct ref_loop loop; /* dst, src */
	uint32_t dst_dtype;
	uint32_t src_dtype;
};

static bool is_float(uint32_t dtype)
{
	return dtype == QBNPU_DTYPE_F32 || dtype == QBNPU_DTYPE_F64 ||
	       dtype == QBNPU_DTYPE_F16 || dtype == QBNPU_DTYPE_BF16;
}

#define LOAD_INT(type) \
	do { \
		for (i = 0; i < count; i++) { \
			type value; \
			memcpy(&value, src + i * stride, sizeof(value)); \
			block[i] = (int64_t)value; \
		} \
	} while (0)

void qbnpu_ref_load_int(int64_t *block, const uint8_t *src, uint64_t stride,
			size_t count, uint32_t dtype)
{
	size_t i;

	switch (dtype) {
	case QBNPU_DTYPE_U8:
		LOAD_INT(uint8_t);
		break;
	case QBNPU_DTYPE_I8:
		LOAD_INT(int8_t);
		break;
	case QBNPU_DTYPE_U16:
		LOAD_INT(uint16_t);
		break;
	case QBNPU_DTYPE_I16:
		LOAD_INT(int16_t);
		break;
	case QBNPU_DTYPE_U32:
		LOAD_INT(uint32_t);
		break;
	case QBNPU_DTYPE_I32:
		LOAD_INT(int32_t);
		break;
	case QBNPU_DTYPE_BOOL:
		for (i = 0; i < count; i++)
			block[i] = src[i * stride] != 0;
		break;
	default:
		LOAD_INT(int64_t);
		break;
	}
}

#define STORE_INT(type) \
	do { \
		for (i = 0; i < count; i++) { \
			const type value = (type)block[i]; \
			memcpy(dst + i * stride, &value, sizeof(value)); \
		} \
	} while (0)

void qbnpu_ref_store_int(uint8_t *dst, uint64_t stride, const int64_t *block,
			 size_t count, uint32_t dtype)
{
	size_t i;

	switch (dtype) {
	case QBNPU_DTYPE_U8:
	case QBNPU_DTYPE_I8:
		STORE_INT(uint8_t);
		break;
	case QBNPU_DTYPE_U16:
	case QBNPU_DTYPE_I16:
		STORE_INT(uint16_t);
		break;
	case QBNPU_DTYPE_U32:
	case QBNPU_DTYPE_I32:
		STORE_INT(uint32_t);
		break;
	case QBNPU_DTYPE_BOOL:
		for (i = 0; i < count; i++)
			dst[i * stride] = block[i] != 0;
		break;
	default:
		STORE_INT(uint64_t);
		break;
	}
}

static double double_from_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Widens a 16-bit float with this many fraction bits; exact. */
static double double_from_half(uint16_t half, unsigned int fraction_bits)
{
	const unsigned int exponent_bits = 15 - fraction_bits;
	const uint64_t max_exponent = (1u << exponent_bits) - 1;
	const uint64_t bias = max_exponent >> 1;
	const uint64_t sign = (uint64_t)(half >> 15) << 63;
	uint64_t exponent = (half >> fraction_bits) & max_exponent;
	uint64_t fraction = half & ((1u << fraction_bits) - 1);

	if (exponent == max_exponent)
		return double_from_bits(sign | 0x7ffull << 52 |
					fraction << (52 - fraction_bits));
	if (!exponent && !fraction)
		return double_from_bits(sign);
	if (!exponent) {
		/* subnormal: f64 has room to make it normal */
		exponent = 1;
		while (!(fraction >> fraction_bits)) {
			fraction <<= 1;
			exponent--;
		}
		fraction &= (1u << fraction_bits) - 1;
	}
	return double_from_bits(sign | (exponent + 1023 - bias) << 52 |
				fraction << (52 - fraction_bits));
}

/* Rounds to nearest even, to subnormals and infinity where it must. */
static uint16_t half_from_double(double value, unsigned int fraction_bits)
{
	const int max_exponent = (1 << (15 - fraction_bits)) - 1;
	const uint16_t infinity = (uint16_t)(max_exponent << fraction_bits);
	uint64_t bits, fraction, half, lost;
	unsigned int drop = 52 - fraction_bits;
	uint16_t sign;
	int exponent;

	memcpy(&bits, &value, sizeof(bits));
	sign = (uint16_t)(bits >> 48 & 0x8000);
	exponent = (int)(bits >> 52 & 0x7ff);
	fraction = bits & ((1ull << 52) - 1);
	if (exponent == 0x7ff)
		return (uint16_t)(sign | infinity |
				  (fraction ? 1u << (fraction_bits - 1) : 0));
	exponent += (max_exponent >> 1) - 1023;
	if (exponent >= max_exponent)
		return sign | infinity;
	fraction |= 1ull << 52;
	if (exponent <= 0) {
		if (exponent < -(int)fraction_bits)
			return sign;
		drop += (unsigned int)(1 - exponent);
		exponent = 1;
	}
	/* the leading 1 counts as one step of the exponent */
	half = ((uint64_t)(exponent - 1) << fraction_bits) + (fraction >> drop);
	lost = fraction & ((1ull << drop) - 1);
	if (lost > 1ull << (drop - 1) ||
	    (lost == 1ull << (drop - 1) && (half & 1)))
		half++;
	return (uint16_t)(sign | half);
}

#define F16_FRACTION_BITS 10
#define BF16_FRACTION_BITS 7

static void load_floats(double *block, const uint8_t *src, uint64_t stride,
			size_t count, uint32_t dtype)
{
	uint16_t half;
	float single;
	size_t i;

	switch (dtype) {
	case QBNPU_DTYPE_F32:
		for (i = 0; i < count; i++) {
			memcpy(&single, src + i * stride, sizeof(single));
			block[i] = (double)single;
		}
		break;
	case QBNPU_DTYPE_F64:
		for (i = 0; i < count; i++)
			memcpy(&block[i], src + i * stride, sizeof(double));
		break;
	default:
		for (i = 0; i < count; i++) {
			memcpy(&half, src + i * stride, sizeof(half));
			block[i] = double_from_half(
				half, dtype == QBNPU_DTYPE_F16
					      ? F16_FRACTION_BITS
					      : BF16_FRACTION_BITS);
		}
		break;
	}
}

static void store_floats(uint8_t *dst, uint64_t stride, const double *block,
			 size_t count, uint32_t dtype)
{
	uint16_t half;
	float single;
	size_t i;

	switch (dtype) {
	case QBNPU_DTYPE_F32:
		for (i = 0; i < count; i++) {
			single = (float)block[i];
			memcpy(dst + i * stride, &single, sizeof(single));
		}
		break;
	case QBNPU_DTYPE_F64:
		for (i = 0; i < count; i++)
			memcpy(dst + i * stride, &block[i], sizeof(double));
		break;
	default:
		for (i = 0; i < count; i++) {
			half = half_from_double(block[i],
						dtype == QBNPU_DTYPE_F16
							? F16_FRACTION_BITS
							: BF16_FRACTION_BITS);
			memcpy(dst + i * stride, &half, sizeof(half));
		}
		break;
	}
}

/* First and last value of an integer type, the upper one plus 1, as f64. */
static void get_bounds(uint32_t dtype, double *min, double *end)
{
	const double bits = 8.0 * qbnpu_dtype_size(dtype);
	double whole = 1.0;
	int i;

	for (i = 0; i < (int)bits; i++)
		whole *= 2;
	switch (dtype) {
	case QBNPU_DTYPE_U8:
	case QBNPU_DTYPE_U16:
	case QBNPU_DTYPE_U32:
	case QBNPU_DTYPE_U64:
		*min = 0;
		*end = whole;
		break;
	default:
		*min = -whole / 2;
		*end = whole / 2;
		break;
	}
}

/* Truncates toward zero and saturates; NaN gives 0. */
static void truncate_floats(int64_t *to, const double *from, size_t count,
			    uint32_t dtype)
{
	double min, end;
	size_t i;

	get_bounds(dtype, &min, &end);
	for (i = 0; i < count; i++) {
		const double value = from[i];

		if (dtype == QBNPU_DTYPE_BOOL)
			to[i] = !(value == 0);
		else if (value != value)
			to[i] = 0;
		else if (value <= min)
			to[i] = min == 0 ? 0 : (int64_t)min;
		else if (value >= end)
			to[i] = (int64_t)((min == 0 ? UINT64_MAX : INT64_MAX) >>
					  (64 - 8 * qbnpu_dtype_size(dtype)));
		else
			to[i] = min == 0 ? (int64_t)(uint64_t)value
					 : (int64_t)value;
	}
}

/* The magnitude cut to what f64 holds, round to odd. */
static double double_from_magnitude(uint64_t magnitude)
{
	const uint64_t low = (1u << 11) - 1;

	if (magnitude >> 53)
		magnitude =
			(magnitude & ~low) | ((magnitude & low) ? low + 1 : 0);
	return (double)magnitude;
}

static void widen_ints(double *to, const int64_t *from, size_t count,
		       uint32_t src_dtype, uint32_t dst_dtype)
{
	const bool is_unsigned = src_dtype == QBNPU_DTYPE_U64;
	size_t i;

	for (i = 0; i < count; i++) {
		const bool is_negative = !is_unsigned && from[i] < 0;
		const uint64_t magnitude =
			is_negative ? -(uint64_t)from[i] : (uint64_t)from[i];
		const double value = dst_dtype == QBNPU_DTYPE_F64
					     ? (double)magnitude
					     : double_from_magnitude(magnitude);

		to[i] = is_negative ? -value : value;
	}
}

static void cast_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_cast *cast = arg;
	const uint64_t dst_stride = ref_loop_stride(&cast->loop, 0);
	const uint64_t src_stride = ref_loop_stride(&cast->loop, 1);
	double floats[REF_BLOCK];
	int64_t ints[REF_BLOCK];

	if (is_float(cast->src_dtype)) {
		load_floats(floats, at[1], src_stride, count, cast->src_dtype);
		if (!is_float(cast->dst_dtype))
			truncate_floats(ints, floats, count, cast->dst_dtype);
	} else {
		qbnpu_ref_load_int(ints, at[1], src_stride, count,
				   cast->src_dtype);
		if (is_float(cast->dst_dtype))
			widen_ints(floats, ints, count, cast->src_dtype,
				   cast->dst_dtype);
	}
	if (is_float(cast->dst_dtype))
		store_floats(at[0], dst_stride, floats, count, cast->dst_dtype);
	else
		qbnpu_ref_store_int(at[0], dst_stride, ints, count,
				    cast->dst_dtype);
}

static int run_cast(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	const struct ref_cast *cast = (const void *)prepared;

	return qbnpu_ref_loop_run(&cast->loop, run, cast_row, cast);
}

int qbnpu_ref_prepare_cast(const struct qbnpu_prepare *prepare,
			   struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_cast *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *operands[] = {
		&prepare->operands[cmd->dst],
		&prepare->operands[cmd->src],
	};
	struct ref_cast *cast;

	if (cmd->mode != QBNPU_CAST_NUMBER)
		return -EOPNOTSUPP;
	cast = calloc(1, sizeof(*cast));
	if (!cast)
		return -ENOMEM;
	cast->base.run = run_cast;
	cast->dst_dtype = operands[0]->dtype;
	cast->src_dtype = operands[1]->dtype;
	qbnpu_ref_loop_begin(&cast->loop, operands, 2);
	cast->loop.work = 4;
	*prepared = &cast->base;
	return 0;
}
