// SPDX-License-Identifier: MIT
/*
 * Programs that break one of the rows V31 to V34 and V40 to V49 each: the
 * stream of commands, its operands, what they overlap, and the sums. Of V35
 * and V36 those that need more than a few changed bytes.
 */
#include "check-validate.h"

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8

/* Reads what is in SCRATCH before anything is written there. */
static void build_unwritten(struct prog *prog)
{
	uint16_t dst, scratch;

	prog_begin(prog);
	dst = prog_output(prog, U8, DIMS(64));
	scratch = prog_scratch(prog, U8, DIMS(64));
	prog_copy(prog, scratch, dst);
	prog_finish(prog);
}

/* The second half only is written, by command 0; command 1 reads all. */
static void build_half_written(struct prog *prog)
{
	uint16_t dst, scratch, half;

	prog_begin(prog);
	dst = prog_output(prog, U8, DIMS(64));
	scratch = prog_scratch(prog, U8, DIMS(64));
	half = prog_tensor(prog, prog_get_tensor(prog, scratch)->binding, 32,
			   U8, DIMS(32));
	prog_fill(prog, half, 1);
	prog_copy(prog, scratch, dst);
	prog_finish(prog);
}

/* Written with parameters, read as another view (command 1). */
static void build_other_view(struct prog *prog)
{
	struct qbnpu_tensor *t;

	build_dynamic(prog);
	t = prog_get_tensor(prog, 3); /* "again" */
	t->strides[0] = 1;
	t->strides[1] = 10;
	t->span = 0;
	prog_finish(prog);
}

/* Writes num single bytes with gaps between them. */
static void build_intervals(struct prog *prog, uint32_t num)
{
	uint16_t first;
	uint32_t i;

	prog_begin(prog);
	first = prog_scratch(prog, U8, DIMS(4096));
	for (i = 0; i < num; i++)
		prog_fill(prog,
			  prog_tensor(prog,
				      prog_get_tensor(prog, first)->binding,
				      i * 2, U8, DIMS(1)),
			  0);
	prog_finish(prog);
}

void build_most_intervals(struct prog *prog)
{
	build_intervals(prog, 1024);
}

static void build_too_many_intervals(struct prog *prog)
{
	build_intervals(prog, 1025);
}

/* More than 2^36 multiply-accumulates, by broadcasts into a real output. */
static void build_macs(struct prog *prog)
{
	struct qbnpu_cmd_matmul *matmul;
	struct qbnpu_tensor *t;
	uint16_t a, b, dst;

	prog_begin(prog);
	a = prog_input(prog, F32, DIMS(1, 1));
	b = prog_view(prog, a);
	a = prog_view(prog, a);
	dst = prog_output(prog, F32, DIMS(4097, 1));
	t = prog_get_tensor(prog, a);
	t->dims[0] = 4097;
	t->dims[1] = 1u << 24;
	t->strides[0] = 0;
	t->strides[1] = 0;
	t = prog_get_tensor(prog, b);
	t->dims[0] = 1u << 24;
	t->strides[0] = 0;
	matmul = prog_cmd(prog, QBNPU_OP_MATMUL);
	matmul->a = a;
	matmul->b = b;
	matmul->dst = dst;
	prog_finish(prog);
}

/* CRC of 2^24 * 2^24 broadcast elements: byte_count above 2^48. */
static void build_bytes(struct prog *prog)
{
	struct qbnpu_cmd_crc *crc;
	struct qbnpu_tensor *t;
	uint16_t src, wide, dst;

	prog_begin(prog);
	src = prog_input(prog, U8, DIMS(1, 1));
	wide = prog_view(prog, src);
	dst = prog_output(prog, QBNPU_DTYPE_U32, DIMS(1));
	t = prog_get_tensor(prog, wide);
	t->dims[0] = 1u << 24;
	t->dims[1] = 1u << 24;
	t->strides[0] = 0;
	t->strides[1] = 0;
	crc = prog_cmd(prog, QBNPU_OP_CRC);
	crc->src = wide;
	crc->dst = dst;
	prog_finish(prog);
}

static void build_barrier(struct prog *prog)
{
	prog_copy64(prog);
	prog_cmd(prog, QBNPU_OP_BARRIER);
	prog_finish(prog);
}

/* An output of which nothing, the end, or the middle is not written. */
static void build_gap(struct prog *prog, uint64_t first, uint64_t second)
{
	uint16_t dst, half;

	prog_begin(prog);
	dst = prog_output(prog, U8, DIMS(64));
	half = prog_tensor(prog, 0, first, U8, DIMS(20));
	prog_fill(prog, half, 0);
	half = prog_tensor(prog, 0, second, U8, DIMS(40));
	prog_fill(prog, half, 0);
	prog_get_tensor(prog, dst)->name = 0;
	prog_finish(prog);
}

static void build_gap_begin(struct prog *prog)
{
	build_gap(prog, 4, 24);
}

static void build_gap_middle(struct prog *prog)
{
	build_gap(prog, 0, 24);
}

static void build_gap_end(struct prog *prog)
{
	build_gap(prog, 0, 20);
}

static void build_no_output(struct prog *prog)
{
	prog_copy64(prog);
	prog_output(prog, U8, DIMS(8));
	prog_finish(prog);
}

/* 61 delays of one second. */
static void build_delays(struct prog *prog)
{
	uint32_t i;

	prog_copy64(prog);
	for (i = 0; i < 61; i++)
		((struct qbnpu_cmd_nop *)prog_cmd(prog, QBNPU_OP_NOP))
			->delay_ns = 1000000000;
	prog_finish(prog);
}

/* A row copied onto its neighbour in one SCRATCH: intervals that overlap. */
static void build_overlap(struct prog *prog)
{
	uint16_t scratch, left, right;

	prog_begin(prog);
	scratch = prog_scratch(prog, U8, DIMS(2, 8));
	left = prog_view(prog, scratch);
	right = prog_view(prog, scratch);
	prog_get_tensor(prog, left)->dims[1] = 4;
	prog_get_tensor(prog, right)->dims[1] = 4;
	prog_get_tensor(prog, right)->offset = 4;
	prog_fill(prog, scratch, 0);
	prog_copy(prog, left, right);
	prog_finish(prog);
}

/* UNARY onto its own source in SCRATCH, in place. */
static void build_in_place(struct prog *prog)
{
	struct qbnpu_cmd_unary *unary;
	uint16_t scratch;

	prog_begin(prog);
	scratch = prog_scratch(prog, F32, DIMS(8));
	prog_fill(prog, scratch, 0);
	unary = prog_cmd(prog, QBNPU_OP_UNARY);
	unary->head.flags = QBNPU_CMD_IN_PLACE;
	unary->src = scratch;
	unary->dst = scratch;
	unary->fn = QBNPU_UNARY_ABS;
	prog_finish(prog);
}

/* A CAST from F16 to F32 of the same strides, in place. */
static void build_wide_cast(struct prog *prog)
{
	struct qbnpu_cmd_cast *cast;
	uint16_t wide, narrow;

	prog_begin(prog);
	wide = prog_scratch(prog, F32, DIMS(8));
	narrow = prog_view(prog, wide);
	prog_get_tensor(prog, narrow)->dtype = QBNPU_DTYPE_F16;
	prog_fill(prog, wide, 0);
	cast = prog_cmd(prog, QBNPU_OP_CAST);
	cast->head.flags = QBNPU_CMD_IN_PLACE;
	cast->src = narrow;
	cast->dst = wide;
	prog_finish(prog);
}

/* An OUTPUT whose INPUT it may be, written while a part of that is read. */
static void build_overlap_alias(struct prog *prog)
{
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_view(prog, prog_input(prog, U8, DIMS(8)));
	dst = prog_output(prog, U8, DIMS(8));
	prog->bindings[1].alias = 0;
	prog_fill(prog, dst, 0);
	dst = prog_view(prog, dst);
	prog_get_tensor(prog, src)->dims[0] = 4;
	prog_get_tensor(prog, dst)->dims[0] = 4;
	prog_get_tensor(prog, dst)->offset = 3;
	prog_copy(prog, src, dst);
	prog_finish(prog);
}

/* LSTM_CELL: h_out overlaps c, or is c_out. */
static void build_overlap_c(struct prog *prog)
{
	uint16_t view;

	prog_good(prog, QBNPU_OP_LSTM_CELL);
	view = prog_view(prog, 2);
	prog_get_tensor(prog, view)->offset = 4;
	((struct qbnpu_cmd_lstm_cell *)(void *)prog->commands)->h_out = view;
	prog_finish(prog);
}

static void build_two_outs(struct prog *prog)
{
	struct qbnpu_cmd_lstm_cell *lstm;
	uint16_t view;

	prog_good(prog, QBNPU_OP_LSTM_CELL);
	view = prog_view(prog, 2);
	prog_get_tensor(prog, view)->offset = 32;
	lstm = (void *)prog->commands;
	lstm->head.flags = 0;
	lstm->h_out = view;
	lstm->c_out = view;
	prog_finish(prog);
}

/* BOOL knows EQ and NE only. */
static void build_compare_bool(struct prog *prog)
{
	struct qbnpu_cmd_compare *compare;

	prog_begin(prog);
	prog_input(prog, QBNPU_DTYPE_BOOL, DIMS(9));
	prog_input(prog, QBNPU_DTYPE_BOOL, DIMS(9));
	prog_output(prog, QBNPU_DTYPE_BOOL, DIMS(9));
	compare = prog_cmd(prog, QBNPU_OP_COMPARE);
	compare->b = 1;
	compare->dst = 2;
	compare->fn = QBNPU_COMPARE_GT;
	prog_finish(prog);
}

/* QUANT to a destination with one scale per channel. */
static void build_quant_axis(struct prog *prog)
{
	const float scales[] = { 1, 2, 3, 4, 5, 6 };

	prog_good(prog, QBNPU_OP_QUANT);
	prog_get_tensor(prog, 1)->scale = 0;
	prog_get_tensor(prog, 1)->quant_axis = 0;
	prog_get_tensor(prog, 1)->quant = prog_pool(prog, scales, 6);
	prog_finish(prog);
}

/* Axis 1 or 0 of tensor 1, of extent 1, becomes a parameter that is 1. */
static void build_param_of_one(struct prog *prog, uint32_t opcode,
			       uint32_t axis)
{
	prog_good(prog, opcode);
	prog_get_tensor(prog, 1)->extent_params[axis] =
		prog_param(prog, QBNPU_PARAM_OTHER, 1, 1, 1);
	prog_finish(prog);
}

static void build_reduce_mask(struct prog *prog)
{
	build_param_of_one(prog, QBNPU_OP_REDUCE, 1);
}

static void build_crc_mask(struct prog *prog)
{
	build_param_of_one(prog, QBNPU_OP_CRC, 0);
}

#define CASE(name, rule, command, operand, build, ...) \
	{ \
		name, rule, command, operand, build, 0, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define OP_CASE(name, rule, command, operand, opcode, ...) \
	{ \
		name, rule, command, operand, NULL, QBNPU_OP_##opcode, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define LAST_SIZE(value) HEAD(1, size16, value)

const struct bad_case bad_commands[] = {
	/* V31 */
	OP_CASE("crosses", 31, 1, 0, COPY, LAST_SIZE(3)),
	OP_CASE("huge", 31, 1, 0, COPY, LAST_SIZE(0xffff)),
	OP_CASE("short", 31, 1, 0, COPY, LAST_SIZE(1)),
	OP_CASE("zero", 31, 1, 0, COPY, LAST_SIZE(0)),
	OP_CASE("more", 31, 2, 0, COPY, H(command_count, 3),
		L(command_count, 3)),
	/* V32 */
	OP_CASE("opcode", 32, 1, 0, COPY, HEAD(1, opcode, 6)),
	OP_CASE("opcode-high", 32, 1, 0, COPY, HEAD(1, opcode, 0xffff)),
	/* V33 */
	OP_CASE("range", 33, 1, 0, COPY, C(1, copy, src, 4)),
	OP_CASE("none", 33, 1, 1, COPY, C(1, copy, dst, 0xffff)),
	OP_CASE("bias", 33, 0, 2, CONV2D, C(0, conv2d, bias, 4)),
	OP_CASE("residual", 33, 0, 4, MATMUL, C(0, matmul, post.residual, 4)),
	OP_CASE("c-out", 33, 0, 7, LSTM_CELL, C(0, lstm_cell, c_out, 0xffff)),
	CASE("i32-bias", 33, 0, 2, build_conv_i32, C(0, conv2d, bias, 2)),
	CASE("i32-residual", 33, 0, 4, build_conv_i32,
	     C(0, conv2d, post.residual, 4)),
	CASE("rms-beta", 33, 0, 2, build_layernorm_rms,
	     C(0, layernorm, beta, 2)),
	CASE("scale-alone", 33, 0, 3, build_quant_run_time,
	     C(0, quant, zero_point, 0xffff)),
	CASE("zero-point-alone", 33, 0, 2, build_cast_run_time,
	     C(0, cast, scale, 0xffff)),
	CASE("number-scale", 33, 0, 2, build_cast_number, C(0, cast, scale, 0)),
	/* V34 */
	CASE("input", 34, 0, 1, prog_copy64, C(0, copy, dst, 0),
	     C(0, copy, src, 0)),
	CASE("output", 34, 0, 0, prog_copy64, C(0, copy, src, 1)),
	CASE("weights", 34, 0, 0, build_spare, HEAD(0, opcode, 3),
	     C(0, fill, dst, 2), C(0, fill, reserved[0], 0),
	     C(0, fill, reserved[1], 0)),
	/* V35 */
	CASE("compare-bool", 35, 0, 0, build_compare_bool, { 0 }),
	CASE("quant-axis", 35, 0, 1, build_quant_axis, { 0 }),
	/* V36: equal extents have equal parameters */
	CASE("copy-mask", 36, 0, 1, build_dynamic, T(2, extent_params[0], 0),
	     T(3, extent_params[0], 0)),
	CASE("reduce-mask", 36, 0, 1, build_reduce_mask, { 0 }),
	CASE("crc-mask", 36, 0, 1, build_crc_mask, { 0 }),
	OP_CASE("deconv-small", 36, 0, 0, DECONV2D, C(0, deconv2d, dh, 64),
		C(0, deconv2d, pad_top, 128), C(0, deconv2d, pad_bottom, 128)),
	OP_CASE("matmul-rank-1", 36, 0, 0, MATMUL, T(0, rank, 1),
		T(0, dims[0], 15), T(0, dims[1], 0), T(0, strides[0], 4),
		T(0, strides[1], 0)),
	/* V40, IS51 */
	CASE("rows", 40, 1, 0, build_overlap, { 0 }),
	CASE("alias", 40, 1, 0, build_overlap_alias, { 0 }),
	CASE("h-out", 40, 0, 2, build_overlap_c, { 0 }),
	/* V41, IS51 */
	CASE("flag", 41, 1, 0, build_in_place, HEAD(1, flags, 0)),
	CASE("other-view", 41, 0, 1, prog_copy64, HEAD(0, flags, 1)),
	CASE("no-form", 41, 1, 0, build_in_place,
	     HEAD(1, opcode, QBNPU_OP_COPY), C(1, unary, fn, 0)),
	CASE("cast", 41, 1, 0, build_wide_cast, { 0 }),
	CASE("two-outs", 41, 0, 7, build_two_outs, { 0 }),
	CASE("alias", 41, 0, 0, build_binary_in_place, HEAD(0, flags, 0)),
	/* V43 */
	CASE("unwritten", 43, 0, 0, build_unwritten, { 0 }),
	CASE("half", 43, 1, 0, build_half_written, { 0 }),
	CASE("view", 43, 1, 0, build_other_view, { 0 }),
	CASE("intervals", 43, 1024, 0, build_too_many_intervals, { 0 }),
	/* V44 */
	CASE("command", 44, 0, 0, build_macs, { 0 }),
	OP_CASE("macs", 44, NONE, AT_HEADER(mac_count), MATMUL,
		H(mac_count, 31)),
	OP_CASE("bytes", 44, NONE, AT_HEADER(byte_count), COPY,
		H(byte_count, 0)),
	CASE("bytes-cap", 44, NONE, AT_HEADER(byte_count), build_bytes, { 0 }),
	/* V45, IS02 */
	CASE("count", 45, NONE, AT_HEADER(barrier_count), prog_copy64,
	     H(barrier_count, 1)),
	CASE("barrier", 45, 1, 0, build_barrier, { 0 }),
	/* V47 */
	CASE("begin", 47, NONE, 0, build_gap_begin, { 0 }),
	CASE("middle", 47, NONE, 0, build_gap_middle, { 0 }),
	CASE("end", 47, NONE, 0, build_gap_end, { 0 }),
	CASE("none", 47, NONE, 2, build_no_output, { 0 }),
	/* V48 */
	OP_CASE("delay", 48, 0, AT(nop, delay_ns), NOP,
		C(0, nop, delay_ns, 1000000001)),
	CASE("sum", 48, NONE, 0, build_delays, { 0 }),
	/* V49 */
	OP_CASE("missing", 49, NONE, AT_HEADER(flags), TIMESTAMP, H(flags, 0)),
	CASE("extra", 49, NONE, AT_HEADER(flags), prog_copy64, H(flags, 1)),
};

const size_t num_bad_commands = sizeof(bad_commands) / sizeof(bad_commands[0]);
