// SPDX-License-Identifier: MIT
/*
 * What each opcode demands of its command: one row per opcode (layout of its
 * bytes, roles of its operands) and one function (types V35, extents V36,
 * numbers V37, floats V38, IS50 as V39, masks V42, and what else section 5.4
 * says). The functions of the sums and windows are in validate-sums.c.
 */
#include "validate-checks.h"

/* binary64 patterns of the RESIZE scales: V38 */
#define RESIZE_MIN 0x3ef0000000000000ull
#define RESIZE_MAX 0x40f0000000000000ull

const uint8_t qbnpu_dtype_sizes[QBNPU_NUM_DTYPES] = { 4, 1, 1, 2, 2, 2, 4,
						      4, 8, 8, 8, 1, 2 };

const uint8_t qbnpu_num_fn_params[NUM_FNS] = {
	[QBNPU_UNARY_CLIP] = 2,         [QBNPU_UNARY_LEAKY] = 1,
	[QBNPU_UNARY_HARD_SIGMOID] = 2, [QBNPU_UNARY_SILU] = 1,
	[QBNPU_UNARY_ELU] = 1,          [QBNPU_UNARY_SELU] = 2,
	[QBNPU_UNARY_CELU] = 1,         [QBNPU_UNARY_THRESHOLD] = 1,
	[QBNPU_UNARY_SHRINK] = 2,       [QBNPU_UNARY_LINEAR] = 2,
	[QBNPU_UNARY_POW] = 1,          [QBNPU_UNARY_ISINF] = 1,
};

static void check_barrier(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_barrier *barrier = command;

	note(v, 45, 0, barrier->id);
}

static void check_nop(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_nop *nop = command;

	if (nop->delay_ns > v->caps->max_delay_ns)
		note(v, 48, FIELD(nop, delay_ns), v->caps->max_delay_ns);
	v->delays = add_sat(v->delays, nop->delay_ns);
	if (nop->delay_ns)
		v->features |= QBNPU_FEATURE_DIAG;
}

static void check_timestamp(struct validator *v, const void *command)
{
	(void)command;
	check_type(v, 0, TYPE(U64));
	check_vector(v, 0, 1);
	v->has_timestamp = 1;
	v->features |= QBNPU_FEATURE_DIAG;
}

static void check_fill(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_fill *fill = command;
	uint64_t bits = size_of(v->t[0]) * 8;

	check_number(v, FIELD(fill, value),
		     bits == 64 || !(fill->value >> bits), bits);
}

static void check_copy(struct validator *v, const void *command)
{
	(void)command;
	check_same_type(v, 0, 1);
	check_same_extents(v, 0, 1);
}

static void check_crc(struct validator *v, const void *command)
{
	(void)command;
	check_type(v, 1, TYPE(U32));
	check_vector(v, 1, 1);
	v->features |= QBNPU_FEATURE_DIAG;
}

static void check_unary(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_unary *unary = command;
	const uint32_t fn = unary->fn;
	uint32_t types = TYPE(F32);

	check_same_extents(v, 0, 1);
	check_fn_params(v, fn, FIELD(unary, p_a), unary->p_a, FIELD(unary, p_b),
			unary->p_b);
	switch (fn) {
	case QBNPU_UNARY_CLIP:
	case QBNPU_UNARY_ABS:
	case QBNPU_UNARY_NEG:
	case QBNPU_UNARY_SIGN:
		types |= TYPES_INT;
		break;
	case QBNPU_UNARY_SQUARE:
		types |= TYPE(I32);
		break;
	case QBNPU_UNARY_NOT:
		types = TYPE(BOOL);
		break;
	case QBNPU_UNARY_BITNOT:
		types = TYPES_INT | TYPES_8;
		break;
	case QBNPU_UNARY_ISNAN:
	case QBNPU_UNARY_ISINF:
		check_type(v, 0, TYPE(F32));
		check_type(v, 1, TYPE(BOOL));
		return;
	default:
		if (!fn || fn > QBNPU_UNARY_POW) {
			check_number(v, FIELD(unary, fn), 0, QBNPU_UNARY_ISINF);
			return;
		}
	}
	check_type(v, 0, types);
	check_same_type(v, 0, 1);
}

/* Types of a BINARY that is not quantised, 0 for an unknown function */
static uint32_t get_binary_types(uint32_t fn)
{
	if (fn >= QBNPU_BINARY_ADD && fn <= QBNPU_BINARY_FMOD)
		return TYPE(F32) | TYPES_INT;
	if (fn == QBNPU_BINARY_PRELU)
		return TYPE(F32);
	if (fn >= QBNPU_BINARY_AND && fn <= QBNPU_BINARY_XOR)
		return TYPE(BOOL);
	if (fn >= QBNPU_BINARY_BITAND && fn <= QBNPU_BINARY_BITXOR)
		return TYPES_INT | TYPES_8;
	return 0;
}

static _Bool is_quantised_fn(uint32_t fn)
{
	return fn == QBNPU_BINARY_ADD || fn == QBNPU_BINARY_SUB ||
	       fn == QBNPU_BINARY_MUL || fn == QBNPU_BINARY_MAX ||
	       fn == QBNPU_BINARY_MIN;
}

static void check_binary(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_binary *binary = command;
	const uint32_t types = get_binary_types(binary->fn);
	const _Bool is_quantised =
		is_8bit(v->t[0]) && is_quantised_fn(binary->fn);
	const uint32_t scales[] = { binary->scale_a, binary->scale_b,
				    binary->out_scale };
	_Bool is_act_good = !binary->act;
	uint32_t i;

	check_same_extents(v, 2, 0);
	check_same_extents(v, 2, 1);
	check_number(v, FIELD(binary, fn), types, QBNPU_BINARY_BITXOR);
	if (is_quantised) {
		check_type(v, 1, TYPES_8);
		check_type(v, 2, TYPES_8);
		is_act_good |= binary->act == QBNPU_UNARY_CLIP;
	} else if (types) {
		check_type(v, 0, types);
		check_same_type(v, 0, 1);
		check_same_type(v, 0, 2);
		if (is_type(v->t[0], TYPE(F32)))
			is_act_good = is_fusable(binary->act);
	}
	if (is_8bit(v->t[0]))
		v->features |= QBNPU_FEATURE_INT8;
	check_number(v, FIELD(binary, act), is_act_good, QBNPU_UNARY_CLIP);
	check_fn_params(v, binary->act, FIELD(binary, act_a), binary->act_a,
			FIELD(binary, act_b), binary->act_b);
	for (i = 0; i < NUM(scales); i++)
		check_float(v, FIELD(binary, scale_a) + 4 * i,
			    is_quantised ? is_scale(scales[i]) : !scales[i]);
}

static void check_compare(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_compare *compare = command;
	const uint32_t fn = compare->fn;

	check_same_extents(v, 2, 0);
	check_same_extents(v, 2, 1);
	check_type(v, 0, TYPE(F32) | TYPES_INT | TYPES_8 | TYPE(BOOL));
	check_same_type(v, 0, 1);
	check_type(v, 2, TYPE(BOOL));
	check_number(v, FIELD(compare, fn),
		     fn >= QBNPU_COMPARE_EQ && fn <= QBNPU_COMPARE_GE,
		     QBNPU_COMPARE_GE);
	if (is_type(v->t[0], TYPE(BOOL)) && fn >= QBNPU_COMPARE_LT &&
	    fn <= QBNPU_COMPARE_GE)
		note(v, 35, 0, fn);
}

static void check_select(struct validator *v, const void *command)
{
	(void)command;
	check_type(v, 0, TYPE(BOOL));
	check_same_type(v, 1, 2);
	check_same_type(v, 1, 3);
	check_same_extents(v, 3, 0);
	check_same_extents(v, 3, 1);
	check_same_extents(v, 3, 2);
}

static void check_resize(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_resize *resize = command;
	const _Bool is_linear = resize->mode == QBNPU_RESIZE_LINEAR;

	check_type(v, 0, is_linear ? TYPE(F32) : TYPES_ALL);
	check_same_type(v, 0, 1);
	check_number(v, FIELD(resize, mode),
		     resize->mode <= QBNPU_RESIZE_LINEAR, QBNPU_RESIZE_LINEAR);
	check_number(v, FIELD(resize, coord),
		     resize->coord <= QBNPU_COORD_HALF_PIXEL_SYMMETRIC,
		     QBNPU_COORD_HALF_PIXEL_SYMMETRIC);
	check_number(v, FIELD(resize, rounding),
		     resize->rounding <= (is_linear ? 0 : QBNPU_ROUND_CEIL),
		     QBNPU_ROUND_CEIL);
	check_float(v, FIELD(resize, scale_h),
		    resize->scale_h >= RESIZE_MIN &&
			    resize->scale_h <= RESIZE_MAX);
	check_float(v, FIELD(resize, scale_w),
		    resize->scale_w >= RESIZE_MIN &&
			    resize->scale_w <= RESIZE_MAX);
	if (!(check_rank(v, 0, 4) && check_rank(v, 1, 4)))
		return;
	check_same_axis(v, 0, 0, 1, 0);
	check_same_axis(v, 0, 3, 1, 3);
	check_fixed(v, 0, 6);
	check_fixed(v, 1, 6);
}

static void check_pad_reflect(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_pad_reflect *pad = command;
	const struct qbnpu_tensor *src = v->t[0];
	const struct qbnpu_tensor *dst = v->t[1];
	const _Bool is_reflect = pad->mode == QBNPU_PAD_MODE_REFLECT;
	uint32_t axis;

	check_same_type(v, 0, 1);
	check_number(v, FIELD(pad_reflect, mode),
		     pad->mode >= QBNPU_PAD_MODE_REFLECT &&
			     pad->mode <= QBNPU_PAD_MODE_WRAP,
		     QBNPU_PAD_MODE_WRAP);
	if (!check_rank(v, 1, src->rank))
		return;
	for (axis = 0; axis < QBNPU_MAX_RANK; axis++) {
		const size_t field = FIELD(pad_reflect, before) + 4 * axis;
		const uint64_t before = pad->before[axis];
		const uint64_t least = before + src->dims[axis];

		if (dst->dims[axis] < least)
			note(v, 36, 1, least);
		if (axis >= src->rank)
			check_number(v, field, !before, 0);
		else if (is_reflect)
			check_number(v, field,
				     before < src->dims[axis] &&
					     dst->dims[axis] <
						     least + src->dims[axis],
				     src->dims[axis]);
		if (before || dst->dims[axis] != src->dims[axis] ||
		    dst->extent_params[axis] != src->extent_params[axis]) {
			check_fixed(v, 0, 1u << axis);
			check_fixed(v, 1, 1u << axis);
		}
	}
}

/* dst = data[:axis] + index + data[axis + 1:] */
static void check_gather_axis(struct validator *v, uint32_t axis)
{
	enum {
		DATA,
		INDEX,
		DST
	};
	const uint32_t rank = v->t[DATA]->rank;
	const uint32_t rank_index = v->t[INDEX]->rank;
	uint32_t i;

	if (!check_rank(v, DST, rank - 1 + rank_index))
		return;
	for (i = 0; i < axis; i++)
		check_same_axis(v, DATA, i, DST, i);
	for (i = 0; i < rank_index; i++)
		check_same_axis(v, INDEX, i, DST, axis + i);
	for (i = axis + 1; i < rank; i++)
		check_same_axis(v, DATA, i, DST, rank_index - 1 + i);
}

/* index and dst equal; not larger than data but along axis */
static void check_gather_elements(struct validator *v, uint32_t axis)
{
	enum {
		DATA,
		INDEX,
		DST
	};
	const struct qbnpu_tensor *data = v->t[DATA];
	const struct qbnpu_tensor *dst = v->t[DST];
	uint32_t i;

	check_same_extents(v, INDEX, DST);
	if (!check_rank(v, DST, data->rank))
		return;
	for (i = 0; i < data->rank; i++) {
		if (i == axis)
			continue;
		if (dst->dims[i] > data->dims[i])
			note(v, 36, DST, data->dims[i]);
		if (dst->dims[i] != data->dims[i] ||
		    dst->extent_params[i] != data->extent_params[i]) {
			check_fixed(v, DATA, 1u << i);
			check_fixed(v, DST, 1u << i);
		}
	}
}

static void check_gather(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_gather *gather = command;
	const uint32_t rank = v->t[0]->rank;

	v->features |= QBNPU_FEATURE_GATHER;
	check_same_type(v, 0, 2);
	check_type(v, 1, TYPES_INT);
	check_number(v, FIELD(gather, mode),
		     gather->mode <= QBNPU_GATHER_ELEMENTS,
		     QBNPU_GATHER_ELEMENTS);
	check_number(v, FIELD(gather, axis), gather->axis < rank, rank - 1);
	if (gather->axis >= rank)
		return;
	if (gather->mode == QBNPU_GATHER_AXIS)
		check_gather_axis(v, gather->axis);
	else if (gather->mode == QBNPU_GATHER_ELEMENTS)
		check_gather_elements(v, gather->axis);
}

/* Run-time scale and zero point (operands 2 and 3): both or none */
static void check_run_time_scale(struct validator *v, uint32_t zero_point_type)
{
	uint32_t i;

	if (!v->t[2] != !v->t[3])
		note(v, 33, v->t[2] ? 3 : 2, 0);
	check_type(v, 2, TYPE(F32));
	check_type(v, 3, 1u << zero_point_type);
	for (i = 2; i < 4; i++)
		check_vector(v, i, 1);
}

static void check_quant(struct validator *v, const void *command)
{
	(void)command;
	v->features |= QBNPU_FEATURE_INT8;
	check_same_extents(v, 0, 1);
	check_type(v, 0, TYPE(F32));
	check_type(v, 1, TYPES_8);
	if (v->t[1]->quant != QBNPU_NONE32)
		note(v, 35, 1, 0);
	check_run_time_scale(v, v->t[1]->dtype);
}

static void check_cast(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_cast *cast = command;

	check_same_extents(v, 0, 1);
	if (cast->mode == QBNPU_CAST_DEQUANTISE) {
		check_type(v, 0, TYPES_8 | TYPE(I32));
		check_type(v, 1, TYPE(F32));
		check_run_time_scale(v, v->t[0]->dtype);
		return;
	}
	check_absent(v, 2);
	check_absent(v, 3);
	check_number(v, FIELD(cast, mode), cast->mode == QBNPU_CAST_NUMBER,
		     QBNPU_CAST_DEQUANTISE);
}

static void check_lut8(struct validator *v, const void *command)
{
	const struct qbnpu_tensor *table = v->t[1];

	(void)command;
	v->features |= QBNPU_FEATURE_INT8;
	check_same_extents(v, 0, 2);
	check_type(v, 0, TYPES_8);
	check_type(v, 1, TYPE(U8));
	check_type(v, 2, TYPES_8);
	if (v->bindings[table->binding].kind != QBNPU_BINDING_WEIGHTS)
		note(v, 35, 1, QBNPU_BINDING_WEIGHTS);
	check_vector(v, 1, 256);
}

#define OPCODE(name, size, num) \
	.opcode = QBNPU_OP_##name, .size16 = (size) / 16, .num_operands = num

static const struct op ops[] = {
	{ OPCODE(NOP, 32, 0), .reserved = { { 24, 8 } }, .check = check_nop },
	{ OPCODE(BARRIER, 32, 0), .reserved = { { 20, 12 } },
	  .check = check_barrier },
	{ OPCODE(TIMESTAMP, 32, 1), .operands = { 16 }, .dst = 0x01,
	  .reserved = { { 18, 14 } }, .check = check_timestamp },
	{ OPCODE(FILL, 32, 1), .operands = { 16 }, .dst = 0x01,
	  .reserved = { { 18, 6 } }, .check = check_fill },
	{ OPCODE(COPY, 32, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .reserved = { { 20, 12 } }, .check = check_copy },
	{ OPCODE(CRC, 32, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .reserved = { { 20, 12 } }, .check = check_crc },
	{ OPCODE(CONV2D, 80, 5), .operands = { 16, 18, 20, 22, 48 },
	  .dst = 0x08, .opt = 0x14, .in_place = 0x10, .flags_offset = 51,
	  .flags = QBNPU_POST_AFFINE, .reserved = { { 30, 2 }, { 44, 4 } },
	  .check = qbnpu_check_conv2d },
	{ OPCODE(DECONV2D, 80, 5), .operands = { 16, 18, 20, 22, 48 },
	  .dst = 0x08, .opt = 0x14, .in_place = 0x10, .flags_offset = 51,
	  .flags = QBNPU_POST_AFFINE, .reserved = { { 44, 4 } },
	  .check = qbnpu_check_deconv2d },
	{ OPCODE(MATMUL, 64, 5), .operands = { 16, 18, 20, 22, 32 },
	  .dst = 0x08, .opt = 0x14, .in_place = 0x10, .flags_offset = 35,
	  .flags = QBNPU_POST_AFFINE, .reserved = { { 28, 4 } },
	  .check = qbnpu_check_matmul },
	{ OPCODE(POOL, 48, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .reserved = { { 21, 3 }, { 44, 4 } }, .check = qbnpu_check_pool },
	{ OPCODE(UNARY, 32, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .in_place = 0x01, .reserved = { { 22, 2 } }, .check = check_unary },
	{ OPCODE(BINARY, 48, 3), .operands = { 16, 18, 20 }, .dst = 0x04,
	  .in_place = 0x03, .reserved = { { 37, 3 } }, .check = check_binary },
	{ OPCODE(COMPARE, 32, 3), .operands = { 16, 18, 20 }, .dst = 0x04,
	  .reserved = { { 24, 8 } }, .check = check_compare },
	{ OPCODE(SELECT, 32, 4), .operands = { 16, 18, 20, 22 }, .dst = 0x08,
	  .in_place = 0x06, .reserved = { { 24, 8 } }, .check = check_select },
	{ OPCODE(REDUCE, 32, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .flags_offset = 23, .flags = QBNPU_REDUCE_LAST,
	  .reserved = { { 28, 4 } }, .check = qbnpu_check_reduce },
	{ OPCODE(SOFTMAX, 32, 3), .operands = { 16, 18, 20 }, .dst = 0x02,
	  .opt = 0x04, .in_place = 0x01, .flags_offset = 23,
	  .flags = QBNPU_SOFTMAX_LOG | QBNPU_SOFTMAX_CAUSAL,
	  .reserved = { { 28, 4 } }, .check = qbnpu_check_softmax },
	{ OPCODE(LAYERNORM, 32, 4), .operands = { 16, 18, 20, 22 }, .dst = 0x08,
	  .opt = 0x06, .in_place = 0x01, .flags_offset = 25,
	  .flags = QBNPU_LAYERNORM_RMS, .reserved = { { 26, 2 } },
	  .check = qbnpu_check_layernorm },
	{ OPCODE(RESIZE, 48, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .reserved = { { 23, 1 }, { 40, 8 } }, .check = check_resize },
	{ OPCODE(PAD_REFLECT, 48, 2), .operands = { 16, 18 }, .dst = 0x02,
	  .reserved = { { 21, 3 } }, .check = check_pad_reflect },
	{ OPCODE(GATHER, 32, 3), .operands = { 16, 18, 20 }, .dst = 0x04,
	  .reserved = { { 24, 8 } }, .check = check_gather },
	{ OPCODE(QUANT, 32, 4), .operands = { 16, 18, 20, 22 }, .dst = 0x02,
	  .opt = 0x0c, .in_place = 0x01, .reserved = { { 24, 8 } },
	  .check = check_quant },
	{ OPCODE(CAST, 32, 4), .operands = { 16, 18, 22, 24 }, .dst = 0x02,
	  .opt = 0x0c, .in_place = 0x01, .reserved = { { 21, 1 }, { 26, 6 } },
	  .check = check_cast },
	{ OPCODE(LUT8, 32, 3), .operands = { 16, 18, 20 }, .dst = 0x04,
	  .in_place = 0x01, .reserved = { { 22, 10 } }, .check = check_lut8 },
	{ OPCODE(LSTM_CELL, 48, 8),
	  .operands = { 16, 18, 20, 22, 24, 26, 28, 30 }, .dst = 0xc0,
	  .opt = 0x20, .in_place = 0x04, .reserved = { { 36, 12 } },
	  .check = qbnpu_check_lstm_cell },
};

const struct op *qbnpu_find_op(uint32_t opcode)
{
	uint32_t i;

	for (i = 0; i < NUM(ops); i++) {
		if (ops[i].opcode == opcode)
			return &ops[i];
	}
	return NULL;
}
