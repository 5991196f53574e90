// SPDX-License-Identifier: MIT
/*
 * Good programs beyond one per opcode: the small bases that the bad cases of
 * check-validate are made from, and the forms of the sum commands.
 */
#include "check-validate.h"

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8
#define I8 QBNPU_DTYPE_I8
#define I32 QBNPU_DTYPE_I32

static uint16_t set_quantised(struct prog *prog, uint16_t tensor, float scale,
			      int32_t zero_point)
{
	prog_get_tensor(prog, tensor)->scale = prog_f32(scale);
	prog_get_tensor(prog, tensor)->zero_point = zero_point;
	return tensor;
}

/*
 * copy64 and what it does not use: binding 2 WEIGHTS with tensor 2 (I32 {4}),
 * binding 3 SCRATCH, binding 4 STATE, each 64 bytes; tensor 3 is F32 {2, 3}
 * in the STATE, tensor 4 U8 {2, 3} per channel in WEIGHTS.
 */
void build_spare(struct prog *prog)
{
	const float scales[] = { 0.5f, 0.25f, 2.0f };
	struct qbnpu_tensor *t;
	uint16_t per_channel;

	prog_copy64(prog);
	prog_weights(prog, I32, DIMS(4));
	prog_binding(prog, QBNPU_BINDING_SCRATCH, 64);
	prog_state(prog, F32, DIMS(2, 3));
	per_channel = prog_tensor(prog, 2, 32, U8, DIMS(2, 3));
	t = prog_get_tensor(prog, per_channel);
	t->scale = 0;
	t->quant = prog_pool(prog, scales, 3);
	t->quant_axis = 1;
	prog_finish(prog);
}

/* Inputs a (0) and b (1) of 64 bytes, c (2) of 32; outputs 3 and 4 of 64. */
void build_aliases(struct prog *prog)
{
	uint16_t a, b, c, first, second;

	prog_begin(prog);
	a = prog_input(prog, U8, DIMS(64));
	b = prog_input(prog, U8, DIMS(64));
	c = prog_input(prog, U8, DIMS(32));
	first = prog_output(prog, U8, DIMS(64));
	second = prog_output(prog, U8, DIMS(64));
	prog->bindings[3].alias = 1;
	prog_copy(prog, a, first);
	prog_copy(prog, b, second);
	prog_copy(prog, c, prog_scratch(prog, U8, DIMS(32)));
	prog_finish(prog);
}

/* copy64 with a parameter that nothing uses. */
void build_param(struct prog *prog)
{
	prog_copy64(prog);
	prog_param(prog, QBNPU_PARAM_TOKENS, 4, 16, 4);
	prog_finish(prog);
}

/*
 * KV12: two heads of 4 channels, at most 3 tokens after at most 5. Tensors: 0
 * k_new, 1 q, 2 p (output), 3 k_rows, 4 k_all, 5 s; parameters tokens (mask
 * 1), cache (mask 2).
 */
void build_cache(struct prog *prog)
{
	struct qbnpu_cmd_matmul *matmul;
	struct qbnpu_cmd_softmax *softmax;
	struct qbnpu_tensor *t;
	uint16_t k_new, q, p, k_rows, k_all, s;
	uint8_t tokens, cache;

	prog_begin(prog);
	tokens = prog_param(prog, QBNPU_PARAM_TOKENS, 1, 3, 1);
	cache = prog_param(prog, QBNPU_PARAM_CACHE, 0, 5, 1);
	k_new = prog_input(prog, F32, DIMS(2, 3, 4));
	q = prog_input(prog, F32, DIMS(2, 3, 4));
	p = prog_output(prog, F32, DIMS(2, 3, 8));
	k_rows = prog_state(prog, F32, DIMS(2, 8, 4));
	k_all = prog_view(prog, k_rows);
	s = prog_scratch(prog, F32, DIMS(2, 3, 8));
	prog_get_tensor(prog, k_new)->extent_params[1] = tokens;
	prog_get_tensor(prog, q)->extent_params[1] = tokens;
	t = prog_get_tensor(prog, k_rows);
	t->dims[1] = 3;
	t->extent_params[1] = tokens;
	t->offset_axis = 1;
	t->offset_params = cache;
	t->window = 8;
	t = prog_get_tensor(prog, k_all);
	t->dims[1] = 4;
	t->dims[2] = 8;
	t->strides[1] = 4;
	t->strides[2] = 16;
	t->extent_params[2] = tokens | cache;
	t = prog_get_tensor(prog, s);
	t->extent_params[1] = tokens;
	t->extent_params[2] = tokens | cache;
	t = prog_get_tensor(prog, p);
	t->extent_params[1] = tokens;
	t->extent_params[2] = tokens | cache;
	prog_copy(prog, k_new, k_rows);
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->a = q;
	matmul->b = k_all;
	matmul->dst = s;
	matmul->alpha = prog_f32(0.125f);
	softmax = prog_cmd(prog, QBNPU_OP_SOFTMAX);
	softmax->src = s;
	softmax->dst = p;
	softmax->axis = 2;
	softmax->flags = QBNPU_SOFTMAX_CAUSAL;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 residual, 2 wgt per channel, 3 bias, 4 dst. */
void build_conv_int8(struct prog *prog)
{
	const float scales[] = { 0.5f, 0.25f, 0.0078125f };
	struct qbnpu_cmd_conv2d *conv;
	uint16_t src, residual, wgt, bias, dst;

	prog_begin(prog);
	src = prog_input(prog, U8, DIMS(1, 4, 4, 2));
	residual = prog_input(prog, I8, DIMS(1, 4, 4, 3));
	wgt = prog_weights(prog, I8, DIMS(3, 3, 3, 2));
	bias = prog_weights(prog, F32, DIMS(3));
	dst = prog_output(prog, I8, DIMS(1, 4, 4, 3));
	set_quantised(prog, src, 0.5f, 128);
	set_quantised(prog, dst, 0.125f, -7);
	set_quantised(prog, wgt, 0.0f, 0);
	prog_get_tensor(prog, wgt)->quant_axis = 0;
	prog_get_tensor(prog, wgt)->quant = prog_pool(prog, scales, 3);
	conv = prog_cmd(prog, QBNPU_OP_CONV2D);
	conv->src = src;
	conv->wgt = wgt;
	conv->bias = bias;
	conv->dst = dst;
	conv->kh = 3;
	conv->kw = 3;
	conv->pad_top = 1;
	conv->pad_left = 1;
	conv->pad_bottom = 1;
	conv->pad_right = 1;
	conv->post.residual = residual;
	conv->post.residual_scale = prog_f32(-2.0f);
	conv->post.act = QBNPU_UNARY_CLIP;
	conv->post.act_b = prog_f32(6.0f);
	conv->post.requant = prog_pool(prog, scales, 3);
	conv->post.requant_count = 3;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 wgt, 2 bias (not used), 3 dst, 4 I32 like dst. */
void build_conv_i32(struct prog *prog)
{
	struct qbnpu_cmd_conv2d *conv;
	uint16_t src, wgt, dst;

	prog_begin(prog);
	src = prog_input(prog, I8, DIMS(1, 2, 2, 3));
	wgt = prog_weights(prog, I8, DIMS(2, 1, 1, 3));
	prog_weights(prog, F32, DIMS(2));
	dst = prog_output(prog, I32, DIMS(1, 2, 2, 2));
	prog_weights(prog, I32, DIMS(1, 2, 2, 2));
	conv = prog_cmd(prog, QBNPU_OP_CONV2D);
	conv->src = src;
	conv->wgt = wgt;
	conv->dst = dst;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 wgt F16, 2 dst, 3 an F16 like wgt in STATE. */
void build_conv_half(struct prog *prog)
{
	struct qbnpu_cmd_conv2d *conv;
	uint16_t src, wgt, dst;

	prog_begin(prog);
	src = prog_input(prog, F32, DIMS(1, 2, 2, 3));
	wgt = prog_weights(prog, QBNPU_DTYPE_F16, DIMS(2, 1, 1, 3));
	dst = prog_output(prog, F32, DIMS(1, 2, 2, 2));
	prog_state(prog, QBNPU_DTYPE_F16, DIMS(2, 1, 1, 3));
	conv = prog_cmd(prog, QBNPU_OP_CONV2D);
	conv->src = src;
	conv->wgt = wgt;
	conv->dst = dst;
	conv->post.act = QBNPU_UNARY_MISH;
	conv->post.flags = QBNPU_POST_AFFINE;
	conv->post.mul = prog_f32(2.0f);
	conv->post.add = prog_f32(-1.0f);
	prog_finish(prog);
}

/* Tensors: 0 a, 1 b with a zero point, 2 dst F32. */
void build_matmul_int8(struct prog *prog)
{
	const float scale = 0.03125f;
	struct qbnpu_cmd_matmul *matmul;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = set_quantised(prog, prog_input(prog, U8, DIMS(2, 3)), 0.5f, 3);
	b = set_quantised(prog, prog_input(prog, I8, DIMS(3, 4)), 0.5f, -5);
	dst = prog_output(prog, F32, DIMS(2, 4));
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->a = a;
	matmul->b = b;
	matmul->dst = dst;
	matmul->post.requant = prog_pool(prog, &scale, 1);
	matmul->post.requant_count = 1;
	prog_finish(prog);
}

/* Leading extents broadcast by stride 0. Tensors: 0 a, 1 b, 2 dst. */
void build_matmul_batched(struct prog *prog)
{
	struct qbnpu_cmd_matmul *matmul;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = prog_input(prog, F32, DIMS(5, 2, 3));
	b = prog_weights(prog, F32, DIMS(1, 3, 4));
	dst = prog_output(prog, F32, DIMS(5, 2, 4));
	prog_get_tensor(prog, b)->dims[0] = 5;
	prog_get_tensor(prog, b)->strides[0] = 0;
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->a = a;
	matmul->b = b;
	matmul->dst = dst;
	prog_finish(prog);
}
