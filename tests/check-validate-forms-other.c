// SPDX-License-Identifier: MIT
/*
 * Good programs beyond one per opcode: forms of sections 5.4 to 5.6 that are
 * no sum commands, parameters, and the list of all forms.
 */
#include "check-validate.h"

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8
#define I8 QBNPU_DTYPE_I8

static uint16_t set_quantised(struct prog *prog, uint16_t tensor, float scale,
			      int32_t zero_point)
{
	prog_get_tensor(prog, tensor)->scale = prog_f32(scale);
	prog_get_tensor(prog, tensor)->zero_point = zero_point;
	return tensor;
}

/* Quantised. Tensors: 0 a, 1 b, 2 dst. */
void build_binary_int8(struct prog *prog)
{
	struct qbnpu_cmd_binary *binary;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = set_quantised(prog, prog_input(prog, U8, DIMS(7)), 0.5f, 3);
	b = set_quantised(prog, prog_input(prog, I8, DIMS(7)), 0.25f, -3);
	dst = set_quantised(prog, prog_output(prog, U8, DIMS(7)), 1.5f, 9);
	binary = prog_cmd(prog, QBNPU_OP_BINARY);
	binary->a = a;
	binary->b = b;
	binary->dst = dst;
	binary->fn = QBNPU_BINARY_MUL;
	binary->scale_a = prog_f32(0.5f);
	binary->scale_b = prog_f32(0.25f);
	binary->out_scale = prog_f32(1.0f / 1.5f);
	binary->act = QBNPU_UNARY_CLIP;
	binary->act_b = 0x7f800000; /* infinity */
	prog_finish(prog);
}

/* The OUTPUT may be the memory of the INPUT. Tensors: 0 a, 1 b, 2 dst. */
void build_binary_in_place(struct prog *prog)
{
	struct qbnpu_cmd_binary *binary;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = prog_input(prog, F32, DIMS(7));
	b = prog_input(prog, F32, DIMS(7));
	dst = prog_output(prog, F32, DIMS(7));
	prog->bindings[2].alias = 0;
	binary = prog_cmd(prog, QBNPU_OP_BINARY);
	binary->head.flags = QBNPU_CMD_IN_PLACE;
	binary->a = a;
	binary->b = b;
	binary->dst = dst;
	binary->fn = QBNPU_BINARY_ADD;
	prog_finish(prog);
}

/* Quantised. Tensors: 0 src, 1 dst. */
void build_pool_int8(struct prog *prog)
{
	struct qbnpu_cmd_pool *pool;
	uint16_t src, dst;

	prog_begin(prog);
	src = set_quantised(prog, prog_input(prog, U8, DIMS(1, 4, 4, 2)), 0.5f,
			    1);
	dst = set_quantised(prog, prog_output(prog, U8, DIMS(1, 1, 1, 2)), 2.0f,
			    2);
	pool = prog_cmd(prog, QBNPU_OP_POOL);
	pool->src = src;
	pool->dst = dst;
	pool->kind = QBNPU_POOL_AVG_PAD;
	pool->kh = 4;
	pool->kw = 4;
	pool->requant = prog_f32(0.25f);
	prog_finish(prog);
}

/* Pads, dilation, ceil. Tensors: 0 src, 1 dst. */
void build_pool_max(struct prog *prog)
{
	struct qbnpu_cmd_pool *pool;
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, I8, DIMS(2, 6, 6, 1));
	dst = prog_output(prog, I8, DIMS(2, 3, 3, 1));
	pool = prog_cmd(prog, QBNPU_OP_POOL);
	pool->src = src;
	pool->dst = dst;
	pool->kind = QBNPU_POOL_MAX;
	pool->kh = 2;
	pool->kw = 3;
	pool->sh = 2;
	pool->sw = 2;
	pool->dh = 2;
	pool->pad_top = 1;
	pool->ceil_w = 1;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 dst. */
void build_reduce_int8(struct prog *prog)
{
	struct qbnpu_cmd_reduce *reduce;
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, I8, DIMS(3, 4));
	dst = prog_output(prog, I8, DIMS(1, 1));
	reduce = prog_cmd(prog, QBNPU_OP_REDUCE);
	reduce->src = src;
	reduce->dst = dst;
	reduce->fn = QBNPU_REDUCE_SUM;
	reduce->axes = 3;
	reduce->requant = prog_f32(0.5f);
	prog_finish(prog);
}

/* Tensors: 0 src, 1 dst. */
void build_reduce_argmax(struct prog *prog)
{
	struct qbnpu_cmd_reduce *reduce;
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, F32, DIMS(3, 4));
	dst = prog_output(prog, QBNPU_DTYPE_I64, DIMS(3, 1));
	reduce = prog_cmd(prog, QBNPU_OP_REDUCE);
	reduce->src = src;
	reduce->dst = dst;
	reduce->fn = QBNPU_REDUCE_ARGMAX;
	reduce->axes = 2;
	reduce->flags = QBNPU_REDUCE_LAST;
	prog_finish(prog);
}

/* Tensors: 0 data, 1 index, 2 dst. */
void build_gather_elements(struct prog *prog)
{
	struct qbnpu_cmd_gather *gather;
	uint16_t data, index, dst;

	prog_begin(prog);
	data = prog_input(prog, U8, DIMS(3, 4));
	index = prog_input(prog, QBNPU_DTYPE_I64, DIMS(2, 9));
	dst = prog_output(prog, U8, DIMS(2, 9));
	gather = prog_cmd(prog, QBNPU_OP_GATHER);
	gather->data = data;
	gather->index = index;
	gather->dst = dst;
	gather->axis = 1;
	gather->mode = QBNPU_GATHER_ELEMENTS;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 scale, 2 zero point, 3 dst. */
void build_quant_run_time(struct prog *prog)
{
	struct qbnpu_cmd_quant *quant;
	uint16_t src, scale, zero_point, dst;

	prog_begin(prog);
	src = prog_input(prog, F32, DIMS(5));
	scale = prog_input(prog, F32, DIMS(1));
	zero_point = prog_input(prog, I8, DIMS(1));
	dst = prog_output(prog, I8, DIMS(5));
	quant = prog_cmd(prog, QBNPU_OP_QUANT);
	quant->src = src;
	quant->dst = dst;
	quant->scale = scale;
	quant->zero_point = zero_point;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 scale, 2 zero point, 3 dst. */
void build_cast_run_time(struct prog *prog)
{
	struct qbnpu_cmd_cast *cast;
	uint16_t src, scale, zero_point, dst;

	prog_begin(prog);
	src = prog_input(prog, U8, DIMS(5));
	scale = prog_input(prog, F32, DIMS(1));
	zero_point = prog_input(prog, U8, DIMS(1));
	dst = prog_output(prog, F32, DIMS(5));
	cast = prog_cmd(prog, QBNPU_OP_CAST);
	cast->src = src;
	cast->dst = dst;
	cast->mode = QBNPU_CAST_DEQUANTISE;
	cast->scale = scale;
	cast->zero_point = zero_point;
	prog_finish(prog);
}

/* From one half type to the other and on to BOOL, through scratch. */
void build_cast_number(struct prog *prog)
{
	struct qbnpu_cmd_cast *cast;
	uint16_t src, middle, dst;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_F16, DIMS(5));
	middle = prog_scratch(prog, QBNPU_DTYPE_BF16, DIMS(5));
	dst = prog_output(prog, QBNPU_DTYPE_BOOL, DIMS(5));
	cast = prog_cmd(prog, QBNPU_OP_CAST);
	cast->src = src;
	cast->dst = middle;
	cast = prog_cmd(prog, QBNPU_OP_CAST);
	cast->src = middle;
	cast->dst = dst;
	prog_finish(prog);
}

/* Tensors: 0 src, 1 gamma, 2 beta (not used), 3 dst. */
void build_layernorm_rms(struct prog *prog)
{
	struct qbnpu_cmd_layernorm *layernorm;
	uint16_t src, gamma, dst;

	prog_begin(prog);
	src = prog_input(prog, F32, DIMS(2, 3, 4));
	gamma = prog_weights(prog, F32, DIMS(3, 4));
	prog_weights(prog, F32, DIMS(3, 4));
	dst = prog_output(prog, F32, DIMS(2, 3, 4));
	layernorm = prog_cmd(prog, QBNPU_OP_LAYERNORM);
	layernorm->src = src;
	layernorm->gamma = gamma;
	layernorm->dst = dst;
	layernorm->axis = 1;
	layernorm->flags = QBNPU_LAYERNORM_RMS;
	prog_finish(prog);
}

/* A mask by stride 0. Tensors: 0 src, 1 mask, 2 dst. */
void build_softmax_mask(struct prog *prog)
{
	struct qbnpu_cmd_softmax *softmax;
	uint16_t src, mask, dst;

	prog_begin(prog);
	src = prog_input(prog, F32, DIMS(3, 4));
	mask = prog_weights(prog, F32, DIMS(1, 4));
	dst = prog_output(prog, F32, DIMS(3, 4));
	prog_get_tensor(prog, mask)->dims[0] = 3;
	prog_get_tensor(prog, mask)->strides[0] = 0;
	softmax = prog_cmd(prog, QBNPU_OP_SOFTMAX);
	softmax->src = src;
	softmax->dst = dst;
	softmax->mask = mask;
	softmax->axis = 0;
	softmax->flags = QBNPU_SOFTMAX_LOG;
	prog_finish(prog);
}

/* The residual becomes the destination. Tensors: 0 a, 1 b, 2 sum, 3 out. */
void build_residual_in_place(struct prog *prog)
{
	struct qbnpu_cmd_matmul *matmul;
	uint16_t a, b, sum, out;

	prog_begin(prog);
	a = prog_input(prog, F32, DIMS(2, 3));
	b = prog_weights(prog, F32, DIMS(3, 2));
	sum = prog_scratch(prog, F32, DIMS(2, 2));
	out = prog_output(prog, F32, DIMS(2, 2));
	prog_fill(prog, sum, prog_f32(1.0f));
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->head.flags = QBNPU_CMD_IN_PLACE;
	matmul->a = a;
	matmul->b = b;
	matmul->dst = sum;
	matmul->post.residual = sum;
	matmul->post.residual_scale = prog_f32(1.0f);
	prog_copy(prog, sum, out);
	prog_finish(prog);
}

/*
 * Parameters: one axis of two, an offset and extent by the same one, a write
 * with parameters that covers reads of the same view. Tensors: 0 src, 1 dst, 2
 * scratch, 3 the same view again, 4 window of a state.
 */
void build_dynamic(struct prog *prog)
{
	struct qbnpu_tensor *t;
	uint16_t src, dst, scratch, again, window;
	uint8_t first, second;
	uint16_t i;

	prog_begin(prog);
	first = prog_param(prog, QBNPU_PARAM_OTHER, 2, 6, 2);
	second = prog_param(prog, QBNPU_PARAM_OTHER, 0, 4, 1);
	src = prog_input(prog, U8, DIMS(10, 3));
	dst = prog_output(prog, U8, DIMS(10, 3));
	scratch = prog_scratch(prog, U8, DIMS(10, 3));
	for (i = src; i <= scratch; i++)
		prog_get_tensor(prog, i)->extent_params[0] = first | second;
	again = prog_view(prog, scratch);
	window = prog_state(prog, U8, DIMS(16, 3));
	t = prog_get_tensor(prog, window);
	t->dims[0] = 6;
	t->extent_params[0] = first;
	t->offset_axis = 0;
	t->offset_params = first | second;
	t->window = 16;
	prog_copy(prog, src, scratch);
	prog_unary(prog, QBNPU_UNARY_BITNOT, again, dst, 0.0f, 0.0f);
	prog_fill(prog, window, 1);
	prog_finish(prog);
}

const struct form forms[] = {
	{ "copy64", prog_copy64 },
	{ "spare", build_spare },
	{ "aliases", build_aliases },
	{ "param", build_param },
	{ "cache", build_cache },
	{ "conv2d-int8", build_conv_int8 },
	{ "conv2d-i32", build_conv_i32 },
	{ "conv2d-half", build_conv_half },
	{ "matmul-int8", build_matmul_int8 },
	{ "matmul-batched", build_matmul_batched },
	{ "binary-int8", build_binary_int8 },
	{ "binary-in-place", build_binary_in_place },
	{ "pool-int8", build_pool_int8 },
	{ "pool-max", build_pool_max },
	{ "reduce-int8", build_reduce_int8 },
	{ "reduce-argmax", build_reduce_argmax },
	{ "gather-elements", build_gather_elements },
	{ "quant-run-time", build_quant_run_time },
	{ "cast-run-time", build_cast_run_time },
	{ "cast-number", build_cast_number },
	{ "layernorm-rms", build_layernorm_rms },
	{ "softmax-mask", build_softmax_mask },
	{ "residual-in-place", build_residual_in_place },
	{ "dynamic", build_dynamic },
};

const size_t num_forms = sizeof(forms) / sizeof(forms[0]);
