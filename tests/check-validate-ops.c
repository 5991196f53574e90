// SPDX-License-Identifier: MIT
/*
 * Programs that break one of the rows V35 to V39 and V42 each: what an opcode
 * demands of types, extents, numbers, floats and parameters.
 */
#include "check-validate.h"

#define NAN_BITS 0x7fc00000u
#define INFINITY_BITS 0x7f800000u
#define ONE_BITS 0x3f800000u

/* A sum of depth products on 8 bits; b has this zero point. */
static void build_deep(struct prog *prog, uint32_t depth, int32_t zero_point)
{
	struct qbnpu_cmd_matmul *matmul;
	struct qbnpu_tensor *t;
	const float scale = 1.0f;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = prog_input(prog, QBNPU_DTYPE_U8, DIMS(1, 1));
	b = prog_weights(prog, QBNPU_DTYPE_I8, DIMS(1, 1));
	dst = prog_output(prog, QBNPU_DTYPE_F32, DIMS(1, 1));
	a = prog_view(prog, a);
	t = prog_get_tensor(prog, a);
	t->dims[1] = depth;
	t->strides[1] = 0;
	t = prog_get_tensor(prog, b);
	t->dims[0] = depth;
	t->strides[0] = 0;
	t->zero_point = zero_point;
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->a = a;
	matmul->b = b;
	matmul->dst = dst;
	matmul->post.requant = prog_pool(prog, &scale, 1);
	matmul->post.requant_count = 1;
	prog_finish(prog);
}

void build_deepest(struct prog *prog)
{
	build_deep(prog, 65536, 0);
}

void build_deepest_shifted(struct prog *prog)
{
	build_deep(prog, 32768, 1);
}

static void build_too_deep(struct prog *prog)
{
	build_deep(prog, 65537, 0);
}

static void build_too_deep_shifted(struct prog *prog)
{
	build_deep(prog, 32769, 1);
}

/* kh * kw * C / g = 9 * 7282 > 65,536 */
static void build_deep_conv(struct prog *prog)
{
	struct qbnpu_cmd_conv2d *conv;
	uint16_t src, wgt, dst;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_I8, DIMS(1, 3, 3, 7282));
	wgt = prog_weights(prog, QBNPU_DTYPE_I8, DIMS(1, 3, 3, 7282));
	dst = prog_output(prog, QBNPU_DTYPE_I32, DIMS(1, 1, 1, 1));
	conv = prog_cmd(prog, QBNPU_OP_CONV2D);
	conv->src = src;
	conv->wgt = wgt;
	conv->dst = dst;
	conv->kh = 3;
	conv->kw = 3;
	prog_finish(prog);
}

/* 2^23 + 1 elements of one 8-bit sum, by a broadcast. */
static void build_deep_reduce(struct prog *prog)
{
	struct qbnpu_tensor *t;
	uint16_t wide;

	build_reduce_int8(prog);
	wide = prog_view(prog, 0);
	t = prog_get_tensor(prog, wide);
	t->dims[0] = (1u << 23) + 1;
	t->dims[1] = 1;
	t->strides[0] = 0;
	((struct qbnpu_cmd_reduce *)(void *)prog->commands)->src = wide;
	prog_finish(prog);
}

/* The width of a CONV2D, DECONV2D or POOL source is a parameter. */
static void build_dynamic_width(struct prog *prog, uint32_t opcode)
{
	struct qbnpu_tensor *t;

	prog_good(prog, opcode);
	t = prog_get_tensor(prog, 0);
	t->extent_params[2] =
		prog_param(prog, QBNPU_PARAM_OTHER, 1, t->dims[2], 1);
	prog_finish(prog);
}

static void build_dynamic_conv(struct prog *prog)
{
	build_dynamic_width(prog, QBNPU_OP_CONV2D);
}

static void build_dynamic_deconv(struct prog *prog)
{
	build_dynamic_width(prog, QBNPU_OP_DECONV2D);
}

static void build_dynamic_pool(struct prog *prog)
{
	build_dynamic_width(prog, QBNPU_OP_POOL);
}

static void build_dynamic_resize(struct prog *prog)
{
	build_dynamic_width(prog, QBNPU_OP_RESIZE);
}

/* PAD_REFLECT along an axis with a parameter. */
static void build_dynamic_pad(struct prog *prog)
{
	prog_good(prog, QBNPU_OP_PAD_REFLECT);
	prog_get_tensor(prog, 0)->extent_params[1] =
		prog_param(prog, QBNPU_PARAM_OTHER, 1, 4, 1);
	prog_finish(prog);
}

/* GATHER elementwise, axis 0 smaller than a data axis with a parameter. */
static void build_dynamic_gather(struct prog *prog)
{
	build_gather_elements(prog);
	prog_get_tensor(prog, 0)->extent_params[0] =
		prog_param(prog, QBNPU_PARAM_OTHER, 1, 3, 1);
	prog_finish(prog);
}

/* LSTM_CELL whose hidden size is a parameter; r must be in no WEIGHTS then. */
static void build_dynamic_lstm(struct prog *prog)
{
	uint8_t mask;
	uint16_t i;

	prog_good(prog, QBNPU_OP_LSTM_CELL);
	mask = prog_param(prog, QBNPU_PARAM_OTHER, 1, 2, 1);
	prog->bindings[2].size = 128;
	prog_get_tensor(prog, 4)->binding = 2;
	prog_get_tensor(prog, 4)->offset = 64;
	for (i = 0; i < prog->num_tensors; i++) {
		struct qbnpu_tensor *t = prog_get_tensor(prog, i);

		if (t->rank == 2 && t->dims[1] == 2)
			t->extent_params[1] = mask;
	}
	prog_finish(prog);
}

/* A POOL window between the taps of which all of src lies. */
static void build_hollow_pool(struct prog *prog)
{
	struct qbnpu_cmd_pool *pool;
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_F32, DIMS(1, 1, 1, 1));
	dst = prog_output(prog, QBNPU_DTYPE_F32, DIMS(1, 1, 1, 1));
	pool = prog_cmd(prog, QBNPU_OP_POOL);
	pool->src = src;
	pool->dst = dst;
	pool->kh = 2;
	pool->dh = 4;
	pool->pad_top = 2;
	pool->pad_bottom = 2;
	prog_finish(prog);
}

/* ceil makes one more window, which begins behind src and its pad. */
static void build_late_pool(struct prog *prog)
{
	struct qbnpu_cmd_pool *pool;
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_F32, DIMS(1, 4, 1, 1));
	dst = prog_output(prog, QBNPU_DTYPE_F32, DIMS(1, 3, 1, 1));
	pool = prog_cmd(prog, QBNPU_OP_POOL);
	pool->src = src;
	pool->dst = dst;
	pool->kh = 2;
	pool->sh = 2;
	pool->ceil_h = 1;
	pool->pad_bottom = 1;
	prog_finish(prog);
}

#define CASE(name, rule, operand, build, ...) \
	{ \
		name, rule, 0, operand, build, 0, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define OP_CASE(name, rule, operand, opcode, ...) \
	{ \
		name, rule, 0, operand, NULL, QBNPU_OP_##opcode, \
		{ \
			__VA_ARGS__ \
		} \
	}
/* The tensor becomes another type of the same size. */
#define TO_I32(i) T(i, dtype, QBNPU_DTYPE_I32), T(i, scale, ONE_BITS)
#define TO_U32(i) T(i, dtype, QBNPU_DTYPE_U32), T(i, scale, 0)
#define TO_BOOL(i) T(i, dtype, QBNPU_DTYPE_BOOL), T(i, scale, 0)
#define TO_I8(i) T(i, dtype, QBNPU_DTYPE_I8)

const struct bad_case bad_ops[] = {
	/* V35 */
	OP_CASE("timestamp", 35, 0, TIMESTAMP, T(0, dtype, QBNPU_DTYPE_I64)),
	CASE("copy", 35, 1, prog_copy64, TO_I8(1)),
	OP_CASE("crc", 35, 1, CRC, TO_I32(1)),
	OP_CASE("conv-src", 35, 0, CONV2D, TO_U32(0)),
	OP_CASE("conv-wgt", 35, 1, CONV2D, TO_U32(1)),
	OP_CASE("conv-bias", 35, 2, CONV2D, TO_I32(2)),
	OP_CASE("conv-dst", 35, 3, CONV2D, TO_I32(3)),
	OP_CASE("deconv-dst", 35, 3, DECONV2D, TO_U32(2)),
	CASE("conv-wgt-u8", 35, 1, build_conv_int8,
	     T(2, dtype, QBNPU_DTYPE_U8)),
	CASE("conv-zero-point", 35, 1, build_conv_int8, T(2, zero_point, 1)),
	CASE("conv-residual", 35, 4, build_conv_int8,
	     T(1, dtype, QBNPU_DTYPE_U8)),
	CASE("conv-bias-i32", 35, 2, build_conv_int8, TO_I32(3)),
	CASE("conv-half", 35, 1, build_conv_half, C(0, conv2d, wgt, 3)),
	OP_CASE("matmul-dst", 35, 3, MATMUL, TO_I32(3)),
	CASE("matmul-b", 35, 1, build_matmul_int8, T(1, dtype, QBNPU_DTYPE_U8),
	     T(1, zero_point, 5)),
	OP_CASE("pool-src", 35, 0, POOL, TO_I32(0), TO_I32(1)),
	OP_CASE("pool-dst", 35, 1, POOL, TO_I32(1)),
	CASE("pool-scale", 35, 1, build_pool_max, T(1, scale, 0x40000000)),
	CASE("pool-zero-point", 35, 1, build_pool_max, T(1, zero_point, 1)),
	OP_CASE("unary", 35, 0, UNARY, TO_I32(0), TO_I32(1)),
	OP_CASE("unary-dst", 35, 1, UNARY, TO_I32(1)),
	OP_CASE("binary", 35, 0, BINARY, TO_U32(0), TO_U32(1)),
	OP_CASE("binary-b", 35, 1, BINARY, TO_I32(1)),
	CASE("binary-int8", 35, 2, build_binary_int8, TO_BOOL(2),
	     T(2, zero_point, 0)),
	CASE("binary-div-int8", 35, 0, build_binary_int8,
	     C(0, binary, fn, QBNPU_BINARY_DIV), C(0, binary, act, 0)),
	OP_CASE("compare", 35, 0, COMPARE, TO_U32(0), TO_U32(1)),
	OP_CASE("compare-b", 35, 1, COMPARE, TO_I32(1)),
	OP_CASE("compare-dst", 35, 2, COMPARE, T(2, dtype, QBNPU_DTYPE_U8),
		T(2, scale, ONE_BITS)),
	OP_CASE("select-cond", 35, 0, SELECT, T(0, dtype, QBNPU_DTYPE_U8),
		T(0, scale, ONE_BITS)),
	OP_CASE("select-b", 35, 2, SELECT, TO_I32(2)),
	OP_CASE("select-dst", 35, 3, SELECT, TO_U32(3)),
	OP_CASE("reduce", 35, 0, REDUCE, TO_I32(0), TO_I32(1)),
	OP_CASE("reduce-dst", 35, 1, REDUCE, TO_I32(1)),
	CASE("reduce-prod-int8", 35, 0, build_reduce_int8,
	     C(0, reduce, fn, QBNPU_REDUCE_PROD), C(0, reduce, requant, 0)),
	CASE("reduce-max-scale", 35, 1, build_reduce_int8,
	     C(0, reduce, fn, QBNPU_REDUCE_MAX), C(0, reduce, requant, 0),
	     T(1, scale, 0x40000000)),
	CASE("argmax-src", 35, 0, build_reduce_argmax, TO_U32(0)),
	CASE("argmax-dst", 35, 1, build_reduce_argmax,
	     T(1, dtype, QBNPU_DTYPE_U64)),
	OP_CASE("softmax", 35, 0, SOFTMAX, TO_I32(0)),
	CASE("softmax-mask", 35, 2, build_softmax_mask, TO_I32(1)),
	OP_CASE("layernorm-gamma", 35, 1, LAYERNORM, TO_I32(1)),
	OP_CASE("resize-linear", 35, 0, RESIZE, TO_I32(0), TO_I32(1)),
	OP_CASE("resize-dst", 35, 1, RESIZE, TO_I32(1)),
	OP_CASE("pad", 35, 1, PAD_REFLECT, TO_I8(1)),
	OP_CASE("gather-index", 35, 1, GATHER, TO_U32(1)),
	OP_CASE("gather-dst", 35, 2, GATHER, TO_I32(2)),
	OP_CASE("quant-src", 35, 0, QUANT, TO_I32(0)),
	OP_CASE("quant-dst", 35, 1, QUANT, TO_BOOL(1), T(1, zero_point, 0)),
	CASE("quant-scale", 35, 2, build_quant_run_time, TO_I32(1)),
	CASE("quant-zero-point", 35, 3, build_quant_run_time,
	     T(2, dtype, QBNPU_DTYPE_U8)),
	OP_CASE("cast-src", 35, 0, CAST, TO_BOOL(0), T(0, zero_point, 0)),
	OP_CASE("cast-dst", 35, 1, CAST, TO_I32(1)),
	CASE("cast-zero-point", 35, 3, build_cast_run_time, TO_I8(2)),
	OP_CASE("lut8-src", 35, 0, LUT8, TO_BOOL(0)),
	OP_CASE("lut8-table", 35, 1, LUT8, TO_I8(1)),
	OP_CASE("lut8-dst", 35, 2, LUT8, TO_BOOL(2)),
	OP_CASE("lut8-place", 35, 1, LUT8, B(1, kind, QBNPU_BINDING_STATE),
		B(1, access, 3)),
	OP_CASE("lstm", 35, 4, LSTM_CELL, TO_I32(4)),
	/* V36 */
	OP_CASE("timestamp", 36, 0, TIMESTAMP, T(0, dims[0], 2), T(0, span, 16),
		B(0, size, 16)),
	OP_CASE("crc", 36, 1, CRC, T(1, rank, 2), T(1, dims[1], 1),
		T(1, strides[1], 4)),
	CASE("copy", 36, 1, build_spare, C(0, copy, dst, 4), T(4, binding, 3)),
	OP_CASE("conv-rank", 36, 1, CONV2D, T(1, rank, 3), T(1, dims[3], 0),
		T(1, strides[3], 0), T(1, span, 428)),
	OP_CASE("conv-kernel", 36, 1, CONV2D, C(0, conv2d, kw, 4),
		C(0, conv2d, pad_right, 2)),
	OP_CASE("conv-height", 36, 3, CONV2D, C(0, conv2d, sh, 1)),
	OP_CASE("conv-width", 36, 3, CONV2D, C(0, conv2d, pad_right, 0)),
	OP_CASE("conv-small", 36, 0, CONV2D, C(0, conv2d, dh, 8)),
	OP_CASE("conv-channels", 36, 1, CONV2D, C(0, conv2d, groups, 1)),
	OP_CASE("deconv-height", 36, 3, DECONV2D, C(0, deconv2d, out_pad_h, 0)),
	OP_CASE("matmul-rank", 36, 1, MATMUL, T(1, rank, 1), T(1, dims[1], 0),
		T(1, strides[1], 0), T(1, span, 36)),
	OP_CASE("matmul-k", 36, 1, MATMUL, C(0, matmul, b, 3), B(2, access, 3)),
	OP_CASE("matmul-bias", 36, 2, MATMUL, T(2, dims[0], 1), T(2, span, 4)),
	CASE("matmul-batch", 36, 1, build_matmul_batched, T(1, dims[0], 4)),
	OP_CASE("pool", 36, 1, POOL, C(0, pool, sw, 3)),
	OP_CASE("unary", 36, 1, UNARY, T(0, dims[0], 6), T(0, span, 24),
		B(0, size, 24)),
	OP_CASE("binary", 36, 1, BINARY, T(1, rank, 1), T(1, dims[1], 0),
		T(1, dims[0], 14), T(1, strides[1], 0), T(1, strides[0], 4)),
	OP_CASE("compare", 36, 0, COMPARE, T(0, dims[0], 8), T(0, span, 32),
		B(0, size, 32)),
	OP_CASE("select", 36, 0, SELECT, T(0, dims[0], 4), T(0, span, 4),
		B(0, size, 4)),
	OP_CASE("reduce", 36, 1, REDUCE, C(0, reduce, axes, 4)),
	OP_CASE("softmax", 36, 1, SOFTMAX, T(1, dims[0], 3), T(1, dims[1], 2),
		T(1, strides[0], 40), T(1, strides[1], 20)),
	CASE("softmax-mask", 36, 2, build_softmax_mask, T(1, dims[0], 2)),
	OP_CASE("layernorm", 36, 1, LAYERNORM, T(1, dims[0], 5),
		T(1, span, 20)),
	OP_CASE("layernorm-rank", 36, 1, LAYERNORM, C(0, layernorm, axis, 0)),
	OP_CASE("resize-channels", 36, 1, RESIZE, T(1, dims[2], 2),
		T(1, dims[3], 3), T(1, strides[1], 24), T(1, strides[2], 12)),
	OP_CASE("pad", 36, 1, PAD_REFLECT, C(0, pad_reflect, mode, 2),
		C(0, pad_reflect, before[1], 6)),
	OP_CASE("gather", 36, 2, GATHER, C(0, gather, axis, 1)),
	CASE("gather-elements", 36, 2, build_gather_elements,
	     C(0, gather, axis, 0)),
	CASE("quant-scale", 36, 2, build_quant_run_time, T(1, dims[0], 2),
	     T(1, span, 8), B(1, size, 8)),
	OP_CASE("cast", 36, 1, CAST, T(0, dims[0], 5), T(0, span, 5),
		B(0, size, 5)),
	OP_CASE("lut8-table", 36, 1, LUT8, T(1, dims[0], 255), T(1, span, 255)),
	OP_CASE("lstm-w", 36, 3, LSTM_CELL, T(3, dims[0], 7), T(3, span, 84)),
	OP_CASE("lstm-bias", 36, 5, LSTM_CELL, T(5, dims[0], 7),
		T(5, span, 28)),
	/* V37 */
	OP_CASE("fill", 37, AT(fill, value), FILL, C(0, fill, value, 0x100)),
	OP_CASE("conv-stride", 37, AT(conv2d, sh), CONV2D, C(0, conv2d, sh, 0)),
	OP_CASE("conv-dilation", 37, AT(conv2d, dw), CONV2D,
		C(0, conv2d, dw, 0)),
	OP_CASE("conv-groups", 37, AT(conv2d, groups), CONV2D,
		C(0, conv2d, groups, 0)),
	OP_CASE("conv-groups-c", 37, AT(conv2d, groups), CONV2D,
		C(0, conv2d, groups, 3)),
	OP_CASE("conv-groups-k", 37, AT(conv2d, groups), CONV2D,
		C(0, conv2d, groups, 4)),
	OP_CASE("conv-act", 37, AT(conv2d, post.act), CONV2D,
		C(0, conv2d, post.act, QBNPU_UNARY_SELU)),
	CASE("conv-act-int8", 37, AT(conv2d, post.act), build_conv_int8,
	     C(0, conv2d, post.act, QBNPU_UNARY_TANH),
	     C(0, conv2d, post.act_b, 0)),
	CASE("conv-affine-int8", 37, AT(conv2d, post.flags), build_conv_int8,
	     C(0, conv2d, post.flags, 1)),
	CASE("conv-act-i32", 37, AT(conv2d, post.act), build_conv_i32,
	     C(0, conv2d, post.act, QBNPU_UNARY_CLIP)),
	OP_CASE("deconv-out-pad", 37, AT(deconv2d, out_pad_w), DECONV2D,
		C(0, deconv2d, out_pad_w, 2), C(0, deconv2d, pad_right, 1),
		C(0, deconv2d, pad_left, 1)),
	OP_CASE("pool-kind", 37, AT(pool, kind), POOL, C(0, pool, kind, 3)),
	OP_CASE("pool-kernel", 37, AT(pool, kh), POOL, C(0, pool, kh, 0)),
	OP_CASE("pool-ceil", 37, AT(pool, ceil_h), POOL, C(0, pool, ceil_h, 2)),
	CASE("pool-hollow", 37, AT(pool, kh), build_hollow_pool, { 0 }),
	CASE("pool-late", 37, AT(pool, kh), build_late_pool, { 0 }),
	OP_CASE("unary-0", 37, AT(unary, fn), UNARY, C(0, unary, fn, 0),
		C(0, unary, p_a, 0)),
	OP_CASE("unary-gap", 37, AT(unary, fn), UNARY, C(0, unary, fn, 45),
		C(0, unary, p_a, 0)),
	OP_CASE("unary", 37, AT(unary, fn), UNARY, C(0, unary, fn, 52),
		C(0, unary, p_a, 0)),
	OP_CASE("binary", 37, AT(binary, fn), BINARY, C(0, binary, fn, 17)),
	OP_CASE("binary-act", 37, AT(binary, act), BINARY,
		C(0, binary, act, 11)),
	CASE("binary-act-int8", 37, AT(binary, act), build_binary_int8,
	     C(0, binary, act, QBNPU_UNARY_MISH), C(0, binary, act_b, 0)),
	OP_CASE("compare", 37, AT(compare, fn), COMPARE, C(0, compare, fn, 7)),
	OP_CASE("reduce", 37, AT(reduce, fn), REDUCE, C(0, reduce, fn, 13)),
	CASE("reduce-last", 37, AT(reduce, flags), build_reduce_int8,
	     C(0, reduce, flags, 1)),
	OP_CASE("reduce-axes", 37, AT(reduce, axes), REDUCE,
		C(0, reduce, axes, 10)),
	OP_CASE("softmax-axis", 37, AT(softmax, axis), SOFTMAX,
		C(0, softmax, axis, 3), C(0, softmax, flags, 0)),
	OP_CASE("softmax-causal", 37, AT(softmax, axis), SOFTMAX,
		C(0, softmax, axis, 1)),
	OP_CASE("layernorm", 37, AT(layernorm, axis), LAYERNORM,
		C(0, layernorm, axis, 2)),
	OP_CASE("resize-mode", 37, AT(resize, mode), RESIZE,
		C(0, resize, mode, 2)),
	OP_CASE("resize-coord", 37, AT(resize, coord), RESIZE,
		C(0, resize, coord, 5)),
	OP_CASE("resize-rounding", 37, AT(resize, rounding), RESIZE,
		C(0, resize, mode, 0), C(0, resize, rounding, 4)),
	OP_CASE("pad-mode", 37, AT(pad_reflect, mode), PAD_REFLECT,
		C(0, pad_reflect, mode, 0)),
	OP_CASE("pad-before", 37, AT(pad_reflect, before[1]), PAD_REFLECT,
		C(0, pad_reflect, before[1], 4)),
	OP_CASE("pad-after", 37, AT(pad_reflect, before[1]), PAD_REFLECT,
		C(0, pad_reflect, before[1], 1)),
	OP_CASE("gather-mode", 37, AT(gather, mode), GATHER,
		C(0, gather, mode, 2)),
	OP_CASE("gather-axis", 37, AT(gather, axis), GATHER,
		C(0, gather, axis, 2)),
	OP_CASE("cast", 37, AT(cast, mode), CAST, C(0, cast, mode, 2)),
	/* V38 */
	OP_CASE("conv-nan", 38, AT(conv2d, post.act_b), CONV2D,
		C(0, conv2d, post.act_b, NAN_BITS)),
	OP_CASE("conv-clip", 38, AT(conv2d, post.act_a), CONV2D,
		C(0, conv2d, post.act_b, 0xbf800000)),
	OP_CASE("conv-mul", 38, AT(conv2d, post.mul), CONV2D,
		C(0, conv2d, post.mul, ONE_BITS)),
	CASE("conv-affine", 38, AT(conv2d, post.add), build_conv_half,
	     C(0, conv2d, post.add, INFINITY_BITS)),
	OP_CASE("conv-residual-scale", 38, AT(conv2d, post.residual_scale),
		CONV2D, C(0, conv2d, post.residual_scale, ONE_BITS)),
	CASE("conv-residual-large", 38, AT(conv2d, post.residual_scale),
	     build_conv_int8, C(0, conv2d, post.residual_scale, 0xc7800001)),
	OP_CASE("conv-requant-f32", 38, AT(conv2d, post.requant), CONV2D,
		C(0, conv2d, post.requant, 0)),
	CASE("conv-requant-0", 38, AT(conv2d, post.requant_count),
	     build_conv_int8, C(0, conv2d, post.requant_count, 0),
	     C(0, conv2d, post.requant, 0xffffffff)),
	CASE("conv-requant-2", 38, AT(conv2d, post.requant_count),
	     build_conv_int8, C(0, conv2d, post.requant_count, 2)),
	CASE("conv-requant-pool", 38, AT(conv2d, post.requant), build_conv_int8,
	     C(0, conv2d, post.requant, 4)),
	CASE("conv-requant-value", 38, AT(conv2d, post.requant),
	     build_conv_int8, POOL(5, 0)),
	OP_CASE("matmul-alpha", 38, AT(matmul, alpha), MATMUL,
		C(0, matmul, alpha, NAN_BITS)),
	CASE("matmul-alpha-int8", 38, AT(matmul, alpha), build_matmul_int8,
	     C(0, matmul, alpha, 0x40000000)),
	OP_CASE("pool-requant", 38, AT(pool, requant), POOL,
		C(0, pool, requant, ONE_BITS)),
	CASE("pool-requant-int8", 38, AT(pool, requant), build_pool_int8,
	     C(0, pool, requant, 0x47800001)),
	OP_CASE("unary-a", 38, AT(unary, p_a), UNARY,
		C(0, unary, p_a, INFINITY_BITS)),
	OP_CASE("unary-unused", 38, AT(unary, p_b), UNARY,
		C(0, unary, p_b, ONE_BITS)),
	OP_CASE("binary-scale", 38, AT(binary, scale_b), BINARY,
		C(0, binary, scale_b, ONE_BITS)),
	CASE("binary-out-scale", 38, AT(binary, out_scale), build_binary_int8,
	     C(0, binary, out_scale, 0)),
	OP_CASE("reduce", 38, AT(reduce, requant), REDUCE,
		C(0, reduce, requant, ONE_BITS)),
	OP_CASE("softmax", 38, AT(softmax, scale), SOFTMAX,
		C(0, softmax, scale, INFINITY_BITS)),
	OP_CASE("layernorm", 38, AT(layernorm, epsilon), LAYERNORM,
		C(0, layernorm, epsilon, 0xb727c5ac)),
	OP_CASE("resize-low", 38, AT(resize, scale_h), RESIZE,
		C(0, resize, scale_h, 0x3eefffffffffffff)),
	OP_CASE("resize-high", 38, AT(resize, scale_w), RESIZE,
		C(0, resize, scale_w, 0x40f0000000000001)),
	OP_CASE("lstm", 38, AT(lstm_cell, clip), LSTM_CELL,
		C(0, lstm_cell, clip, NAN_BITS)),
	/* V39, IS50 */
	CASE("matmul", 39, 0, build_too_deep, { 0 }),
	CASE("matmul-shifted", 39, 0, build_too_deep_shifted, { 0 }),
	CASE("conv", 39, 1, build_deep_conv, { 0 }),
	CASE("reduce", 39, 0, build_deep_reduce, { 0 }),
	/* V42 */
	CASE("conv", 42, 0, build_dynamic_conv, { 0 }),
	CASE("deconv", 42, 0, build_dynamic_deconv, { 0 }),
	CASE("pool", 42, 0, build_dynamic_pool, { 0 }),
	CASE("resize", 42, 0, build_dynamic_resize, { 0 }),
	CASE("pad", 42, 0, build_dynamic_pad, { 0 }),
	CASE("gather", 42, 0, build_dynamic_gather, { 0 }),
	CASE("lstm", 42, 1, build_dynamic_lstm, { 0 }),
};

const size_t num_bad_ops = sizeof(bad_ops) / sizeof(bad_ops[0]);
