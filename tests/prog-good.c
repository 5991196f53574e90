// SPDX-License-Identifier: MIT
/*
 * One small good program per opcode (prog.h): what the validator passes, the
 * device runs, and the corpus starts from. Extents are small and odd where the
 * opcode allows it.
 */
#include "prog.h"

#include <string.h>

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8
#define I8 QBNPU_DTYPE_I8

static void build_nop(struct prog *prog)
{
	uint16_t src = prog_input(prog, U8, DIMS(16));
	uint16_t dst = prog_output(prog, U8, DIMS(16));
	struct qbnpu_cmd_nop *nop = prog_cmd(prog, QBNPU_OP_NOP);

	nop->delay_ns = 1000;
	prog_copy(prog, src, dst);
}

static void build_timestamp(struct prog *prog)
{
	uint16_t dst = prog_output(prog, QBNPU_DTYPE_U64, DIMS(1));
	struct qbnpu_cmd_timestamp *timestamp =
		prog_cmd(prog, QBNPU_OP_TIMESTAMP);

	timestamp->dst = dst;
}

static void build_fill(struct prog *prog)
{
	prog_fill(prog, prog_output(prog, U8, DIMS(3, 5)), 0xa7);
}

/* A transposition through scratch. */
static void build_copy(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(3, 5));
	uint16_t dst = prog_output(prog, F32, DIMS(5, 3));
	uint16_t scratch = prog_scratch(prog, F32, DIMS(3, 5));
	uint16_t turned = prog_view(prog, scratch);
	struct qbnpu_tensor *t = prog_get_tensor(prog, turned);

	t->dims[0] = 5;
	t->dims[1] = 3;
	t->strides[0] = 4;
	t->strides[1] = 20;
	prog_copy(prog, src, scratch);
	prog_copy(prog, turned, dst);
}

static void build_crc(struct prog *prog)
{
	uint16_t src = prog_input(prog, U8, DIMS(33));
	uint16_t dst = prog_output(prog, QBNPU_DTYPE_U32, DIMS(1));
	struct qbnpu_cmd_crc *crc = prog_cmd(prog, QBNPU_OP_CRC);

	crc->src = src;
	crc->dst = dst;
}

static void build_conv2d(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(1, 5, 7, 4));
	uint16_t wgt = prog_weights(prog, F32, DIMS(6, 3, 3, 2));
	uint16_t bias = prog_weights(prog, F32, DIMS(6));
	uint16_t dst = prog_output(prog, F32, DIMS(1, 3, 7, 6));
	struct qbnpu_cmd_conv2d *conv = prog_cmd(prog, QBNPU_OP_CONV2D);

	conv->src = src;
	conv->wgt = wgt;
	conv->bias = bias;
	conv->dst = dst;
	conv->kh = 3;
	conv->kw = 3;
	conv->sh = 2;
	conv->pad_top = 1;
	conv->pad_left = 1;
	conv->pad_bottom = 1;
	conv->pad_right = 1;
	conv->groups = 2;
	conv->post.act = QBNPU_UNARY_CLIP;
	conv->post.act_b = prog_f32(6.0f);
}

static void build_deconv2d(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(1, 3, 4, 2));
	uint16_t wgt = prog_weights(prog, F32, DIMS(3, 3, 2, 2));
	uint16_t dst = prog_output(prog, F32, DIMS(1, 6, 8, 3));
	struct qbnpu_cmd_deconv2d *deconv = prog_cmd(prog, QBNPU_OP_DECONV2D);

	deconv->src = src;
	deconv->wgt = wgt;
	deconv->dst = dst;
	deconv->kh = 3;
	deconv->kw = 2;
	deconv->sh = 2;
	deconv->sw = 2;
	deconv->pad_top = 1;
	deconv->pad_bottom = 1;
	deconv->out_pad_h = 1;
}

static void build_matmul(struct prog *prog)
{
	uint16_t a = prog_input(prog, F32, DIMS(3, 5));
	uint16_t b = prog_weights(prog, F32, DIMS(5, 2));
	uint16_t bias = prog_weights(prog, F32, DIMS(2));
	uint16_t dst = prog_output(prog, F32, DIMS(3, 2));
	struct qbnpu_cmd_matmul *matmul = prog_cmd(prog, QBNPU_OP_MATMUL);

	matmul->a = a;
	matmul->b = b;
	matmul->bias = bias;
	matmul->dst = dst;
	matmul->alpha = prog_f32(0.5f);
}

static void build_pool(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(1, 5, 6, 3));
	uint16_t dst = prog_output(prog, F32, DIMS(1, 3, 3, 3));
	struct qbnpu_cmd_pool *pool = prog_cmd(prog, QBNPU_OP_POOL);

	pool->src = src;
	pool->dst = dst;
	pool->kind = QBNPU_POOL_AVG;
	pool->kh = 2;
	pool->kw = 2;
	pool->sh = 2;
	pool->sw = 2;
	pool->ceil_h = 1;
}

static void build_unary(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(7));
	uint16_t dst = prog_output(prog, F32, DIMS(7));

	prog_unary(prog, QBNPU_UNARY_LEAKY, src, dst, 0.25f, 0.0f);
}

static void build_binary(struct prog *prog)
{
	uint16_t a = prog_input(prog, F32, DIMS(2, 7));
	uint16_t b = prog_input(prog, F32, DIMS(2, 7));
	uint16_t dst = prog_output(prog, F32, DIMS(2, 7));

	prog_binary(prog, QBNPU_BINARY_ADD, a, b, dst);
}

static void build_compare(struct prog *prog)
{
	uint16_t a = prog_input(prog, F32, DIMS(9));
	uint16_t b = prog_input(prog, F32, DIMS(9));
	uint16_t dst = prog_output(prog, QBNPU_DTYPE_BOOL, DIMS(9));
	struct qbnpu_cmd_compare *compare = prog_cmd(prog, QBNPU_OP_COMPARE);

	compare->a = a;
	compare->b = b;
	compare->dst = dst;
	compare->fn = QBNPU_COMPARE_LE;
}

static void build_select(struct prog *prog)
{
	uint16_t cond = prog_input(prog, QBNPU_DTYPE_BOOL, DIMS(5));
	uint16_t a = prog_input(prog, F32, DIMS(5));
	uint16_t b = prog_input(prog, F32, DIMS(5));
	uint16_t dst = prog_output(prog, F32, DIMS(5));
	struct qbnpu_cmd_select *select = prog_cmd(prog, QBNPU_OP_SELECT);

	select->cond = cond;
	select->a = a;
	select->b = b;
	select->dst = dst;
}

static void build_reduce(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(3, 4, 5));
	uint16_t dst = prog_output(prog, F32, DIMS(3, 1, 5));
	struct qbnpu_cmd_reduce *reduce = prog_cmd(prog, QBNPU_OP_REDUCE);

	reduce->src = src;
	reduce->dst = dst;
	reduce->fn = QBNPU_REDUCE_MEAN;
	reduce->axes = 2;
}

static void build_softmax(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(2, 3, 5));
	uint16_t dst = prog_output(prog, F32, DIMS(2, 3, 5));
	struct qbnpu_cmd_softmax *softmax = prog_cmd(prog, QBNPU_OP_SOFTMAX);

	softmax->src = src;
	softmax->dst = dst;
	softmax->axis = 2;
	softmax->flags = QBNPU_SOFTMAX_CAUSAL;
	softmax->scale = prog_f32(0.125f);
}

static void build_layernorm(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(3, 6));
	uint16_t gamma = prog_weights(prog, F32, DIMS(6));
	uint16_t beta = prog_weights(prog, F32, DIMS(6));
	uint16_t dst = prog_output(prog, F32, DIMS(3, 6));
	struct qbnpu_cmd_layernorm *layernorm =
		prog_cmd(prog, QBNPU_OP_LAYERNORM);

	layernorm->src = src;
	layernorm->gamma = gamma;
	layernorm->beta = beta;
	layernorm->dst = dst;
	layernorm->axis = 1;
	layernorm->epsilon = prog_f32(1e-5f);
}

static void build_resize(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(1, 2, 3, 2));
	uint16_t dst = prog_output(prog, F32, DIMS(1, 4, 3, 2));
	struct qbnpu_cmd_resize *resize = prog_cmd(prog, QBNPU_OP_RESIZE);

	resize->src = src;
	resize->dst = dst;
	resize->mode = QBNPU_RESIZE_LINEAR;
	resize->scale_h = prog_f64(2.0);
}

static void build_pad_reflect(struct prog *prog)
{
	uint16_t src = prog_input(prog, U8, DIMS(3, 4));
	uint16_t dst = prog_output(prog, U8, DIMS(3, 9));
	struct qbnpu_cmd_pad_reflect *pad =
		prog_cmd(prog, QBNPU_OP_PAD_REFLECT);

	pad->src = src;
	pad->dst = dst;
	pad->before[1] = 2;
}

static void build_gather(struct prog *prog)
{
	uint16_t data = prog_input(prog, F32, DIMS(4, 3));
	uint16_t index = prog_input(prog, QBNPU_DTYPE_I32, DIMS(2));
	uint16_t dst = prog_output(prog, F32, DIMS(2, 3));
	struct qbnpu_cmd_gather *gather = prog_cmd(prog, QBNPU_OP_GATHER);

	gather->data = data;
	gather->index = index;
	gather->dst = dst;
}

static void build_quant(struct prog *prog)
{
	uint16_t src = prog_input(prog, F32, DIMS(6));
	uint16_t dst = prog_output(prog, U8, DIMS(6));
	struct qbnpu_cmd_quant *quant = prog_cmd(prog, QBNPU_OP_QUANT);

	prog_get_tensor(prog, dst)->scale = prog_f32(0.5f);
	prog_get_tensor(prog, dst)->zero_point = 128;
	quant->src = src;
	quant->dst = dst;
}

static void build_cast(struct prog *prog)
{
	uint16_t src = prog_input(prog, I8, DIMS(6));
	uint16_t dst = prog_output(prog, F32, DIMS(6));
	struct qbnpu_cmd_cast *cast = prog_cmd(prog, QBNPU_OP_CAST);

	prog_get_tensor(prog, src)->scale = prog_f32(0.25f);
	prog_get_tensor(prog, src)->zero_point = -3;
	cast->src = src;
	cast->dst = dst;
	cast->mode = QBNPU_CAST_DEQUANTISE;
}

static void build_lut8(struct prog *prog)
{
	uint16_t src = prog_input(prog, I8, DIMS(10));
	uint16_t table = prog_weights(prog, U8, DIMS(256));
	uint16_t dst = prog_output(prog, U8, DIMS(10));
	struct qbnpu_cmd_lut8 *lut8 = prog_cmd(prog, QBNPU_OP_LUT8);

	lut8->src = src;
	lut8->table = table;
	lut8->dst = dst;
}

/* The cell state is updated in place, in a STATE binding. */
static void build_lstm_cell(struct prog *prog)
{
	uint16_t x = prog_input(prog, F32, DIMS(1, 3));
	uint16_t h = prog_input(prog, F32, DIMS(1, 2));
	uint16_t c = prog_state(prog, F32, DIMS(1, 2));
	uint16_t w = prog_weights(prog, F32, DIMS(8, 3));
	uint16_t r = prog_weights(prog, F32, DIMS(8, 2));
	uint16_t bias = prog_weights(prog, F32, DIMS(8));
	uint16_t h_out = prog_output(prog, F32, DIMS(1, 2));
	struct qbnpu_cmd_lstm_cell *lstm = prog_cmd(prog, QBNPU_OP_LSTM_CELL);

	lstm->head.flags = QBNPU_CMD_IN_PLACE;
	lstm->x = x;
	lstm->h = h;
	lstm->c = c;
	lstm->w = w;
	lstm->r = r;
	lstm->bias = bias;
	lstm->h_out = h_out;
	lstm->c_out = c;
}

static const struct {
	uint32_t opcode;
	void (*build)(struct prog *prog);
} builders[] = {
	{ QBNPU_OP_NOP, build_nop },
	{ QBNPU_OP_TIMESTAMP, build_timestamp },
	{ QBNPU_OP_FILL, build_fill },
	{ QBNPU_OP_COPY, build_copy },
	{ QBNPU_OP_CRC, build_crc },
	{ QBNPU_OP_CONV2D, build_conv2d },
	{ QBNPU_OP_DECONV2D, build_deconv2d },
	{ QBNPU_OP_MATMUL, build_matmul },
	{ QBNPU_OP_POOL, build_pool },
	{ QBNPU_OP_UNARY, build_unary },
	{ QBNPU_OP_BINARY, build_binary },
	{ QBNPU_OP_COMPARE, build_compare },
	{ QBNPU_OP_SELECT, build_select },
	{ QBNPU_OP_REDUCE, build_reduce },
	{ QBNPU_OP_SOFTMAX, build_softmax },
	{ QBNPU_OP_LAYERNORM, build_layernorm },
	{ QBNPU_OP_RESIZE, build_resize },
	{ QBNPU_OP_PAD_REFLECT, build_pad_reflect },
	{ QBNPU_OP_GATHER, build_gather },
	{ QBNPU_OP_QUANT, build_quant },
	{ QBNPU_OP_CAST, build_cast },
	{ QBNPU_OP_LUT8, build_lut8 },
	{ QBNPU_OP_LSTM_CELL, build_lstm_cell },
};

const struct prog_opcode prog_opcodes[] = {
	{ QBNPU_OP_NOP, "nop" },
	{ QBNPU_OP_BARRIER, "barrier" },
	{ QBNPU_OP_TIMESTAMP, "timestamp" },
	{ QBNPU_OP_FILL, "fill" },
	{ QBNPU_OP_COPY, "copy" },
	{ QBNPU_OP_CRC, "crc" },
	{ QBNPU_OP_CONV2D, "conv2d" },
	{ QBNPU_OP_DECONV2D, "deconv2d" },
	{ QBNPU_OP_MATMUL, "matmul" },
	{ QBNPU_OP_POOL, "pool" },
	{ QBNPU_OP_UNARY, "unary" },
	{ QBNPU_OP_BINARY, "binary" },
	{ QBNPU_OP_COMPARE, "compare" },
	{ QBNPU_OP_SELECT, "select" },
	{ QBNPU_OP_REDUCE, "reduce" },
	{ QBNPU_OP_SOFTMAX, "softmax" },
	{ QBNPU_OP_LAYERNORM, "layernorm" },
	{ QBNPU_OP_RESIZE, "resize" },
	{ QBNPU_OP_PAD_REFLECT, "pad_reflect" },
	{ QBNPU_OP_GATHER, "gather" },
	{ QBNPU_OP_QUANT, "quant" },
	{ QBNPU_OP_CAST, "cast" },
	{ QBNPU_OP_LUT8, "lut8" },
	{ QBNPU_OP_LSTM_CELL, "lstm_cell" },
};

const uint32_t prog_num_opcodes =
	sizeof(prog_opcodes) / sizeof(prog_opcodes[0]);

int prog_good(struct prog *prog, uint32_t opcode)
{
	size_t i;

	for (i = 0; i < sizeof(builders) / sizeof(builders[0]); i++) {
		if (builders[i].opcode != opcode)
			continue;
		prog_begin(prog);
		builders[i].build(prog);
		prog_finish(prog);
		return 1;
	}
	return 0;
}
