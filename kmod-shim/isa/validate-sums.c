// SPDX-License-Identifier: MIT
/*
 * What the commands that sum demand, for the table of validate-ops.c: those
 * with multiply-accumulates (CONV2D, DECONV2D, MATMUL, LSTM_CELL), POOL, and
 * those along axes (REDUCE, SOFTMAX, LAYERNORM).
 */
#include "validate-checks.h"

#define MAX_INT8_DEPTH 65536u        /* IS50 */
#define MAX_INT8_ELEMENTS (1u << 23) /* of one 8-bit REDUCE */

/* What does not differ between the axes of CONV2D, DECONV2D and POOL. */
struct window {
	uint64_t kernel;
	uint64_t stride;
	uint64_t dilation;
	uint64_t extra; /* out_pad of DECONV2D, ceil of POOL */
	uint64_t begin; /* pads */
	uint64_t end;
	uint64_t reach; /* from the first to the last tap */
};

/* V37 of axis 0 (rows) or 1; the three commands share these offsets */
static _Bool check_window(struct validator *v, const uint8_t *command,
			  uint32_t axis, struct window *w)
{
	const size_t kernel = FIELD(pool, kh) + axis;
	const size_t stride = FIELD(pool, sh) + axis;
	const size_t dilation = FIELD(pool, dh) + axis;
	const size_t extra = FIELD(pool, ceil_h) + axis;
	const uint32_t begin = FIELD(pool, pad_top) + 2 * axis;
	const uint32_t end = FIELD(pool, pad_bottom) + 2 * axis;

	w->kernel = command[kernel];
	w->stride = command[stride];
	w->dilation = command[dilation];
	w->extra = command[extra];
	w->begin = get_u16(command, begin);
	w->end = get_u16(command, end);
	check_number(v, kernel, w->kernel - 1 < QBNPU_MAX_KERNEL,
		     QBNPU_MAX_KERNEL);
	check_number(v, stride, w->stride - 1 < QBNPU_MAX_KERNEL,
		     QBNPU_MAX_KERNEL);
	check_number(v, dilation, w->dilation - 1 < QBNPU_MAX_KERNEL,
		     QBNPU_MAX_KERNEL);
	if (!w->kernel || !w->stride || !w->dilation)
		return 0;
	w->reach = (w->kernel - 1) * w->dilation;
	check_number(v, begin,
		     w->begin <= w->reach && w->begin <= QBNPU_MAX_PAD,
		     w->reach);
	check_number(v, end, w->end <= w->reach && w->end <= QBNPU_MAX_PAD,
		     w->reach);
	check_number(v, extra, !w->extra || w->extra < w->stride, w->stride);
	return 1;
}

/* V36 of CONV2D and POOL along an axis; returns the output extent */
static uint64_t check_window_extents(struct validator *v, uint32_t dst,
				     uint32_t axis, const struct window *w)
{
	uint64_t total = v->t[0]->dims[axis] + w->begin + w->end + w->extra;
	uint64_t size;

	if (total < w->reach + 1) {
		note(v, 36, 0, w->reach + 1);
		return 0;
	}
	size = (total - w->reach - 1) / w->stride + 1;
	check_extent(v, dst, axis, size);
	return size;
}

/*
 * V37: no POOL window without a position inside src. The last one must begin
 * inside; of those that begin before it the first tap at 0 or more must be
 * inside, and that repeats after dilation (at most 64) windows.
 */
static void check_window_inside(struct validator *v, uint64_t size,
				uint64_t num_windows, const struct window *w,
				size_t field)
{
	uint64_t i;

	if ((num_windows - 1) * w->stride >= size + w->begin)
		check_number(v, field, 0, size);
	for (i = 0; i < num_windows && i < QBNPU_MAX_KERNEL; i++) {
		uint64_t before = w->begin - i * w->stride;

		if (i * w->stride >= w->begin)
			break;
		check_number(v, field,
			     (w->dilation - before % w->dilation) %
					     w->dilation <
				     size,
			     size);
	}
}

void qbnpu_check_pool(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_pool *pool = command;
	_Bool is_avg_8bit;
	uint32_t axis;

	check_number(v, FIELD(pool, kind), pool->kind <= QBNPU_POOL_AVG_PAD,
		     QBNPU_POOL_AVG_PAD);
	check_type(v, 0, TYPE(F32) | TYPES_8);
	check_same_type(v, 0, 1);
	if (is_8bit(v->t[0])) {
		v->features |= QBNPU_FEATURE_INT8;
		if (pool->kind == QBNPU_POOL_MAX)
			check_same_quantisation(v, 0, 1);
	}
	is_avg_8bit = is_8bit(v->t[0]) && pool->kind != QBNPU_POOL_MAX;
	check_float(v, FIELD(pool, requant),
		    is_avg_8bit ? is_scale(pool->requant) : !pool->requant);
	for (axis = 0; axis < 2; axis++) {
		struct window w;
		_Bool is_good = check_window(v, command, axis, &w);
		uint64_t size;

		if (!is_good || v->t[0]->rank != 4 || v->t[1]->rank != 4)
			continue;
		size = check_window_extents(v, 1, axis + 1, &w);
		if (size)
			check_window_inside(v, v->t[0]->dims[axis + 1], size,
					    &w, FIELD(pool, kh) + axis);
	}
	if (!check_rank(v, 0, 4) || !check_rank(v, 1, 4))
		return;
	check_same_axis(v, 0, 0, 1, 0);
	check_same_axis(v, 0, 3, 1, 3);
	check_fixed(v, 0, 6);
	check_fixed(v, 1, 6);
}

/* Operands of the sum commands, in this order in all three */
enum {
	SUM_A,
	SUM_B,
	SUM_BIAS,
	SUM_DST,
	SUM_RESIDUAL
};

/* 5.5: operand types and forms */
static void check_sum_types(struct validator *v, _Bool is_matmul)
{
	const struct qbnpu_tensor *b = v->t[SUM_B];

	check_type(v, SUM_A, TYPE(F32) | TYPES_8);
	check_type(v, SUM_BIAS, TYPE(F32));
	check_same_type(v, SUM_DST, SUM_RESIDUAL);
	if (!is_8bit(v->t[SUM_A])) {
		check_type(v, SUM_B, TYPE(F32) | TYPES_HALF);
		check_type(v, SUM_DST, TYPE(F32));
		if (is_type(b, TYPES_HALF) &&
		    v->bindings[b->binding].kind != QBNPU_BINDING_WEIGHTS)
			note(v, 35, SUM_B, QBNPU_BINDING_WEIGHTS);
		return;
	}
	v->features |= QBNPU_FEATURE_INT8;
	check_type(v, SUM_B, TYPE(I8));
	check_type(v, SUM_DST, TYPES_8 | TYPE(F32) | TYPE(I32));
	if (b->zero_point && (!is_matmul || b->quant != QBNPU_NONE32))
		note(v, 35, SUM_B, 0);
	if (is_type(v->t[SUM_DST], TYPE(I32))) {
		check_absent(v, SUM_BIAS);
		check_absent(v, SUM_RESIDUAL);
	}
}

/* requant_count and its scales in the pool (V38) */
static void check_requant(struct validator *v, const struct qbnpu_post *post,
			  size_t field, uint32_t channels, _Bool is_requantised)
{
	uint32_t count = post->requant_count;

	check_float(v, field + offsetof(struct qbnpu_post, requant_count),
		    is_requantised ? count == 1 || count == channels : !count);
	check_float(v, field + offsetof(struct qbnpu_post, requant),
		    count ? are_scales(v, post->requant, count)
			  : post->requant == QBNPU_NONE32);
}

/* The post block at byte field: V37 of act, V38 of its floats */
static void check_post(struct validator *v, const struct qbnpu_post *post,
		       size_t field, uint32_t channels)
{
	const _Bool is_float = !is_8bit(v->t[SUM_A]);
	const _Bool is_int = is_type(v->t[SUM_DST], TYPE(I32));
	const _Bool is_affine = post->flags & QBNPU_POST_AFFINE;
	_Bool is_act_good = !post->act;

	if (is_float)
		is_act_good = is_fusable(post->act);
	else if (!is_int)
		is_act_good = !post->act || post->act == QBNPU_UNARY_CLIP;
	check_number(v, field + offsetof(struct qbnpu_post, act), is_act_good,
		     QBNPU_UNARY_CLIP);
	check_number(v, field + offsetof(struct qbnpu_post, flags),
		     is_float || !is_affine, 0);
	check_fn_params(v, post->act,
			field + offsetof(struct qbnpu_post, act_a), post->act_a,
			field + offsetof(struct qbnpu_post, act_b),
			post->act_b);
	check_float(v, field + offsetof(struct qbnpu_post, mul),
		    is_affine ? is_finite(post->mul) : !post->mul);
	check_float(v, field + offsetof(struct qbnpu_post, add),
		    is_affine ? is_finite(post->add) : !post->add);
	check_float(v, field + offsetof(struct qbnpu_post, residual_scale),
		    v->t[SUM_RESIDUAL]
			    ? (post->residual_scale & ~F32_SIGN) <= SCALE_MAX
			    : !post->residual_scale);
	check_requant(v, post, field, channels, !is_float && !is_int);
	check_same_extents(v, SUM_DST, SUM_RESIDUAL);
}

/* DECONV2D's extent along an axis (V36) */
static void check_deconv_extent(struct validator *v, uint32_t axis,
				const struct window *w)
{
	uint64_t total = (v->t[SUM_A]->dims[axis] - 1ull) * w->stride +
			 w->reach + 1 + w->extra;

	if (total < w->begin + w->end + 1)
		note(v, 36, SUM_A, w->begin + w->end + 1);
	else
		check_extent(v, SUM_DST, axis, total - w->begin - w->end);
}

/* V36, V37, V39, V42 and IS10 of CONV2D and DECONV2D */
static void check_conv(struct validator *v,
		       const struct qbnpu_cmd_deconv2d *conv, _Bool is_deconv)
{
	const struct qbnpu_tensor *src = v->t[SUM_A];
	const struct qbnpu_tensor *wgt = v->t[SUM_B];
	const struct qbnpu_tensor *dst = v->t[SUM_DST];
	const _Bool is_rank_good = check_rank(v, SUM_A, 4) &&
				   check_rank(v, SUM_B, 4) &&
				   check_rank(v, SUM_DST, 4);
	const uint32_t groups = conv->groups;
	const struct qbnpu_tensor *positions = is_deconv ? src : dst;
	uint64_t depth;
	uint32_t axis;

	check_sum_types(v, 0);
	check_post(v, &conv->post, FIELD(deconv2d, post), wgt->dims[0]);
	for (axis = 0; axis < 2; axis++) {
		struct window w;
		_Bool is_good = check_window(v, (const void *)conv, axis, &w);

		if (!is_rank_good || !is_good)
			continue;
		if (is_deconv)
			check_deconv_extent(v, axis + 1, &w);
		else
			check_window_extents(v, SUM_DST, axis + 1, &w);
	}
	if (!is_rank_good)
		return;
	check_same_axis(v, SUM_A, 0, SUM_DST, 0);
	check_same_axis(v, SUM_B, 0, SUM_DST, 3);
	check_extent(v, SUM_B, 1, conv->kh);
	check_extent(v, SUM_B, 2, conv->kw);
	check_vector(v, SUM_BIAS, wgt->dims[0]);
	if (!groups || src->dims[3] % groups || wgt->dims[0] % groups)
		check_number(v, FIELD(deconv2d, groups), 0, src->dims[3]);
	else
		check_extent(v, SUM_B, 3, src->dims[3] / groups);
	check_fixed(v, SUM_A, 0xe);
	check_fixed(v, SUM_B, 0xf);
	check_fixed(v, SUM_DST, 0xe);
	depth = mul_sat((uint64_t)wgt->dims[1] * wgt->dims[2], wgt->dims[3]);
	if (is_8bit(src) && depth > MAX_INT8_DEPTH)
		note(v, 39, SUM_B, MAX_INT8_DEPTH);
	v->command_macs = mul_sat(depth, wgt->dims[0]);
	for (axis = 0; axis < 3; axis++)
		v->command_macs =
			mul_sat(v->command_macs, positions->dims[axis]);
}

void qbnpu_check_conv2d(struct validator *v, const void *command)
{
	check_conv(v, command, 0);
}

void qbnpu_check_deconv2d(struct validator *v, const void *command)
{
	check_conv(v, command, 1);
}

void qbnpu_check_matmul(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_matmul *matmul = command;
	const struct qbnpu_tensor *a = v->t[SUM_A];
	const struct qbnpu_tensor *b = v->t[SUM_B];
	const struct qbnpu_tensor *dst = v->t[SUM_DST];
	const uint32_t rank = a->rank;
	uint32_t max_depth =
		b->zero_point ? MAX_INT8_DEPTH / 2 : MAX_INT8_DEPTH;
	uint32_t axis;

	check_sum_types(v, 1);
	check_post(v, &matmul->post, FIELD(matmul, post),
		   dst->dims[dst->rank - 1]);
	check_float(v, FIELD(matmul, alpha),
		    is_8bit(a) ? matmul->alpha == F32_ONE
			       : is_finite(matmul->alpha));
	if (rank < 2) {
		note(v, 36, SUM_A, 2);
		return;
	}
	if (!(check_rank(v, SUM_B, rank) && check_rank(v, SUM_DST, rank)))
		return;
	for (axis = 0; axis < rank - 2; axis++) {
		check_same_axis(v, SUM_A, axis, SUM_B, axis);
		check_same_axis(v, SUM_A, axis, SUM_DST, axis);
	}
	check_same_axis(v, SUM_A, rank - 1, SUM_B, rank - 2);
	check_same_axis(v, SUM_A, rank - 2, SUM_DST, rank - 2);
	check_same_axis(v, SUM_B, rank - 1, SUM_DST, rank - 1);
	if (check_rank(v, SUM_BIAS, 1))
		check_same_axis(v, SUM_B, rank - 1, SUM_BIAS, 0);
	if (is_8bit(a) && a->dims[rank - 1] > max_depth)
		note(v, 39, SUM_A, max_depth);
	v->command_macs = a->dims[rank - 1];
	for (axis = 0; axis < rank; axis++)
		v->command_macs = mul_sat(v->command_macs, dst->dims[axis]);
}

void qbnpu_check_lstm_cell(struct validator *v, const void *command)
{
	enum {
		X,
		H,
		C,
		W,
		R,
		BIAS,
		H_OUT,
		C_OUT
	};
	const struct qbnpu_cmd_lstm_cell *lstm = command;
	const struct qbnpu_tensor *x = v->t[X];
	const struct qbnpu_tensor *h = v->t[H];
	_Bool is_rank_good = 1;
	uint64_t gates;
	uint32_t i;

	v->features |= QBNPU_FEATURE_LSTM;
	check_float(v, FIELD(lstm_cell, clip), lstm->clip <= F32_MAX);
	for (i = X; i <= C_OUT; i++) {
		check_type(v, i, TYPE(F32));
		if (i != BIAS)
			is_rank_good &= check_rank(v, i, 2);
	}
	if (!is_rank_good)
		return;
	gates = 4ull * h->dims[1];
	check_same_axis(v, X, 0, H, 0);
	check_same_extents(v, H, C);
	check_same_extents(v, H, H_OUT);
	check_same_extents(v, H, C_OUT);
	check_same_axis(v, X, 1, W, 1);
	check_same_axis(v, H, 1, R, 1);
	check_extent(v, W, 0, gates);
	check_extent(v, R, 0, gates);
	check_fixed(v, H, 2);
	check_fixed(v, W, 1);
	check_fixed(v, R, 1);
	check_vector(v, BIAS, gates);
	v->command_macs = mul_sat(mul_sat(x->dims[0], gates),
				  (uint64_t)x->dims[1] + h->dims[1]);
}

static void check_reduce_types(struct validator *v, uint32_t fn)
{
	uint32_t types = TYPE(F32);

	if (fn >= QBNPU_REDUCE_ARGMAX) {
		check_type(v, 0, TYPE(F32) | TYPE(I32) | TYPES_8);
		check_type(v, 1, TYPE(I64));
		return;
	}
	if (fn == QBNPU_REDUCE_SUM || fn == QBNPU_REDUCE_MAX ||
	    fn == QBNPU_REDUCE_MIN || fn == QBNPU_REDUCE_PROD)
		types |= TYPES_INT;
	if (fn <= QBNPU_REDUCE_MIN)
		types |= TYPES_8;
	check_type(v, 0, types);
	check_same_type(v, 0, 1);
	if (is_8bit(v->t[0]) &&
	    (fn == QBNPU_REDUCE_MAX || fn == QBNPU_REDUCE_MIN))
		check_same_quantisation(v, 0, 1);
}

/* V36 and V39 of REDUCE */
static void check_reduce_extents(struct validator *v, uint32_t axes,
				 _Bool is_int8_sum)
{
	const struct qbnpu_tensor *src = v->t[0];
	uint64_t num_elements = 1;
	uint32_t axis;

	if (!check_rank(v, 1, src->rank))
		return;
	for (axis = 0; axis < src->rank; axis++) {
		if (!(axes >> axis & 1)) {
			check_same_axis(v, 0, axis, 1, axis);
			continue;
		}
		check_extent(v, 1, axis, 1);
		if (v->t[1]->extent_params[axis])
			note(v, 36, 1, 1);
		num_elements = mul_sat(num_elements, src->dims[axis]);
	}
	if (is_int8_sum && num_elements > MAX_INT8_ELEMENTS)
		note(v, 39, 0, MAX_INT8_ELEMENTS);
}

void qbnpu_check_reduce(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_reduce *reduce = command;
	const uint32_t fn = reduce->fn;
	const uint32_t axes = reduce->axes;
	const _Bool is_fn_good =
		fn >= QBNPU_REDUCE_SUM && fn <= QBNPU_REDUCE_ARGMIN;
	const _Bool is_arg = is_fn_good && fn >= QBNPU_REDUCE_ARGMAX;
	const _Bool is_int8_sum = is_8bit(v->t[0]) && (fn == QBNPU_REDUCE_SUM ||
						       fn == QBNPU_REDUCE_MEAN);

	if (is_8bit(v->t[0]))
		v->features |= QBNPU_FEATURE_INT8;
	check_number(v, FIELD(reduce, fn), is_fn_good, QBNPU_REDUCE_ARGMIN);
	if (is_fn_good)
		check_reduce_types(v, fn);
	check_number(v, FIELD(reduce, axes),
		     axes && !(axes >> v->t[0]->rank) &&
			     (!is_arg || !(axes & (axes - 1))),
		     v->t[0]->rank);
	check_number(v, FIELD(reduce, flags),
		     is_arg || !(reduce->flags & QBNPU_REDUCE_LAST), 0);
	check_float(v, FIELD(reduce, requant),
		    is_int8_sum ? is_scale(reduce->requant) : !reduce->requant);
	check_reduce_extents(v, axes, is_int8_sum);
}

void qbnpu_check_softmax(struct validator *v, const void *command)
{
	const struct qbnpu_cmd_softmax *softmax = command;
	const uint32_t rank = v->t[0]->rank;
	uint32_t i;

	for (i = 0; i < 3; i++)
		check_type(v, i, TYPE(F32));
	check_same_extents(v, 0, 1);
	check_same_extents(v, 0, 2);
	check_number(v, FIELD(softmax, axis), softmax->axis < rank, rank - 1);
	if (softmax->flags & QBNPU_SOFTMAX_CAUSAL)
		check_number(v, FIELD(softmax, axis),
			     rank > 1 && softmax->axis == rank - 1, rank - 1);
	check_float(v, FIELD(softmax, scale), is_finite(softmax->scale));
}

void qbnpu_check_layernorm(struct validator *v, const void *command)
{
	enum {
		SRC,
		GAMMA,
		BETA,
		DST
	};
	const struct qbnpu_cmd_layernorm *layernorm = command;
	const uint32_t rank = v->t[SRC]->rank;
	const uint32_t first = layernorm->axis;
	uint32_t axis, i;

	for (i = SRC; i <= DST; i++)
		check_type(v, i, TYPE(F32));
	if (layernorm->flags & QBNPU_LAYERNORM_RMS)
		check_absent(v, BETA);
	check_same_extents(v, SRC, DST);
	check_float(v, FIELD(layernorm, epsilon),
		    layernorm->epsilon <= F32_MAX);
	check_number(v, FIELD(layernorm, axis), first < rank, rank - 1);
	if (first >= rank)
		return;
	for (i = GAMMA; i <= BETA; i++) {
		if (!check_rank(v, i, rank - first))
			continue;
		for (axis = first; axis < rank; axis++)
			check_same_axis(v, SRC, axis, i, axis - first);
	}
}
