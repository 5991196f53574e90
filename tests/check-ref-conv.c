// SPDX-License-Identifier: MIT
/*
 * CONV2D against a plain loop in f64, within NC30's bound.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

/* What rounds of the loop test vary. */
enum form {
	FORM_PLAIN,
	FORM_BIAS,
	FORM_RESIDUAL,
	FORM_ACT,
	FORM_AFFINE,
	FORM_ALL,
	NUM_FORMS,
};

struct conv_case {
	struct ref_case c;
	struct qbnpu_cmd_conv2d cmd;
	enum form form;
	uint32_t channels, outputs; /* of one group */
};

static bool has(const struct conv_case *t, enum form form)
{
	return t->form == form || t->form == FORM_ALL;
}

/* Extents of an axis of the output; 0: the window does not fit. */
static uint32_t output_size(uint32_t size, uint32_t pads, uint32_t kernel,
			    uint32_t dilation, uint32_t stride)
{
	const uint32_t window = (kernel - 1) * dilation + 1;

	return size + pads < window ? 0 : (size + pads - window) / stride + 1;
}

static void choose_geometry(struct conv_case *t)
{
	struct qbnpu_cmd_conv2d *cmd = &t->cmd;

	cmd->kh = (uint8_t)ref_case_between(&t->c, 1, 4);
	cmd->kw = (uint8_t)ref_case_between(&t->c, 1, 4);
	cmd->sh = (uint8_t)ref_case_between(&t->c, 1, 3);
	cmd->sw = (uint8_t)ref_case_between(&t->c, 1, 3);
	cmd->dh = (uint8_t)ref_case_between(&t->c, 1, 2);
	cmd->dw = (uint8_t)ref_case_between(&t->c, 1, 2);
	cmd->pad_top =
		(uint16_t)ref_case_below(&t->c, (cmd->kh - 1u) * cmd->dh + 1);
	cmd->pad_left =
		(uint16_t)ref_case_below(&t->c, (cmd->kw - 1u) * cmd->dw + 1);
	cmd->pad_bottom =
		(uint16_t)ref_case_below(&t->c, (cmd->kh - 1u) * cmd->dh + 1);
	cmd->pad_right =
		(uint16_t)ref_case_below(&t->c, (cmd->kw - 1u) * cmd->dw + 1);
	cmd->groups =
		ref_case_below(&t->c, 3) ? 1 : ref_case_between(&t->c, 2, 5);
	/* deep ones cross the blocks of a sum */
	t->channels = ref_case_below(&t->c, 6)
			      ? ref_case_between(&t->c, 1, 9)
			      : ref_case_between(&t->c, 60, 90);
	t->outputs = ref_case_below(&t->c, 4) ? ref_case_between(&t->c, 1, 20)
					      : ref_case_between(&t->c, 60, 70);
}

static void set_post(struct conv_case *t, const uint32_t *dst)
{
	struct qbnpu_post *post = &t->cmd.post;

	*post = ref_case_no_post();
	if (has(t, FORM_RESIDUAL)) {
		/* in place now and then */
		if (ref_case_below(&t->c, 3)) {
			post->residual = ref_case_random_f32(
				&t->c, REF_CASE_SRC, 4, dst, -3, 3);
		} else {
			ref_case_fill_f32(&t->c, t->cmd.dst, -3, 3);
			post->residual = ref_case_same(&t->c, t->cmd.dst);
		}
		post->residual_scale =
			ref_case_bits((float)ref_case_real(&t->c, -2, 2));
	}
	if (has(t, FORM_ACT)) {
		post->act = QBNPU_UNARY_LEAKY;
		post->act_a = ref_case_bits(0.125f);
	}
	if (has(t, FORM_AFFINE)) {
		post->flags = QBNPU_POST_AFFINE;
		post->mul = ref_case_bits((float)ref_case_real(&t->c, -2, 2));
		post->add = ref_case_bits((float)ref_case_real(&t->c, -2, 2));
	}
}

static void make_case(struct conv_case *t, enum form form, uint64_t seed)
{
	struct qbnpu_cmd_conv2d *cmd = &t->cmd;
	uint32_t src[4], wgt[4], dst[4];

	t->form = form;
	ref_case_begin(&t->c, seed);
	*cmd = (struct qbnpu_cmd_conv2d){
		.head = ref_case_head(QBNPU_OP_CONV2D, sizeof(*cmd)),
		.bias = QBNPU_NONE16,
	};
	do {
		choose_geometry(t);
		src[0] = ref_case_between(&t->c, 1, 2);
		src[1] = ref_case_between(&t->c, 1, 9);
		src[2] = ref_case_between(&t->c, 1, 9);
		dst[1] = output_size(src[1], cmd->pad_top + cmd->pad_bottom,
				     cmd->kh, cmd->dh, cmd->sh);
		dst[2] = output_size(src[2], cmd->pad_left + cmd->pad_right,
				     cmd->kw, cmd->dw, cmd->sw);
	} while (!dst[1] || !dst[2]);
	dst[0] = src[0];
	src[3] = t->channels * cmd->groups;
	dst[3] = t->outputs * cmd->groups;
	wgt[0] = dst[3];
	wgt[1] = cmd->kh;
	wgt[2] = cmd->kw;
	wgt[3] = t->channels;
	cmd->src = ref_case_random_f32(&t->c, REF_CASE_SRC, 4, src, -2, 2);
	cmd->wgt = ref_case_random_f32(&t->c, REF_CASE_SRC, 4, wgt, -1, 1);
	t->c.operands[cmd->wgt].is_constant = ref_case_below(&t->c, 3) > 0;
	if (has(t, FORM_BIAS))
		cmd->bias = ref_case_random_f32(&t->c, REF_CASE_SRC, 1, dst + 3,
						-3, 3);
	cmd->dst =
		ref_case_tensor(&t->c, REF_CASE_DST, QBNPU_DTYPE_F32, 4, dst);
	set_post(t, dst);
}

/* The sum at one output element; *size grows by the absolute products. */
static double sum_window(const struct conv_case *t, const uint32_t *at,
			 double *size)
{
	const struct qbnpu_cmd_conv2d *cmd = &t->cmd;
	const uint32_t *src = t->c.operands[cmd->src].dims;
	const uint32_t group = at[3] / t->outputs;
	double sum = 0;
	uint32_t y, x, i;
	float s, w;

	for (y = 0; y < cmd->kh; y++) {
		for (x = 0; x < cmd->kw; x++) {
			const int64_t h = (int64_t)at[1] * cmd->sh -
					  cmd->pad_top + (int64_t)y * cmd->dh;
			const int64_t v = (int64_t)at[2] * cmd->sw -
					  cmd->pad_left + (int64_t)x * cmd->dw;

			if (h < 0 || v < 0 || h >= src[1] || v >= src[2])
				continue;
			for (i = 0; i < t->channels; i++) {
				const uint32_t s_at[] = { at[0], (uint32_t)h,
							  (uint32_t)v,
							  group * t->channels +
								  i };
				const uint32_t w_at[] = { at[3], y, x, i };

				memcpy(&s,
				       ref_case_at_index(&t->c, cmd->src, s_at),
				       sizeof(s));
				memcpy(&w,
				       ref_case_at_index(&t->c, cmd->wgt, w_at),
				       sizeof(w));
				sum += (double)s * (double)w;
				*size += fabs((double)s * (double)w);
			}
		}
	}
	return sum;
}

/* The value and its bound, with residual as it was before the run. */
static double model(const struct conv_case *t, const uint32_t *at,
		    float residual, double *bound)
{
	const struct qbnpu_post *post = &t->cmd.post;
	const double terms = (double)t->cmd.kh * t->cmd.kw * t->channels;
	float rs, mul, add;
	double size = 0, value = sum_window(t, at, &size);

	if (has(t, FORM_BIAS)) {
		const double bias =
			(double)ref_case_f32(&t->c, t->cmd.bias, at[3]);

		value += bias;
		size += fabs(bias);
	}
	if (has(t, FORM_RESIDUAL)) {
		memcpy(&rs, &post->residual_scale, sizeof(rs));
		value += (double)rs * (double)residual;
		size += fabs((double)rs * (double)residual);
	}
	*bound = (4 + sqrt(terms)) * 0x1p-23 * size;
	if (has(t, FORM_ACT))
		value = value >= 0 ? value : 0.125 * value;
	if (has(t, FORM_AFFINE)) {
		memcpy(&mul, &post->mul, sizeof(mul));
		memcpy(&add, &post->add, sizeof(add));
		*bound = *bound * fabs((double)mul) +
			 0x1p-23 * (fabs(value * (double)mul) +
				    fabs((double)add));
		value = value * (double)mul + (double)add;
	}
	return value;
}

static void check_results(const struct conv_case *t, const float *residuals)
{
	const uint32_t *dims = t->c.operands[t->cmd.dst].dims;
	const size_t count = ref_case_count(&t->c, t->cmd.dst);
	double bound, expected;
	size_t i;

	for (i = 0; i < count; i++) {
		const uint32_t at[] = {
			(uint32_t)(i / dims[3] / dims[2] / dims[1]),
			(uint32_t)(i / dims[3] / dims[2] % dims[1]),
			(uint32_t)(i / dims[3] % dims[2]),
			(uint32_t)(i % dims[3]),
		};
		const double got = (double)ref_case_f32(&t->c, t->cmd.dst, i);

		expected = model(t, at, residuals[i], &bound);
		ref_case_demand(fabs(got - expected) <= bound,
				"element %zu: %a, not %a within %a", i, got,
				expected, bound);
	}
}

/* CT01 NC30: each form of the post block, by round */
START_TEST(conv2d_is_within_its_bound)
{
	struct conv_case t;
	float *residuals;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		make_case(&t, (enum form)_i, (uint64_t)(_i * NUM_CASES + n));
		residuals = calloc(ref_case_count(&t.c, t.cmd.dst),
				   sizeof(*residuals));
		if (has(&t, FORM_RESIDUAL))
			ref_case_read_f32(&t.c, t.cmd.post.residual, residuals);
		ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst), 0);
		check_results(&t, residuals);
		free(residuals);
		ref_case_end(&t.c);
	}
}
END_TEST

/* NC41: packed at prepare or at run, the same bits */
START_TEST(conv2d_bits_do_not_depend_on_where_weights_are)
{
	struct conv_case t;
	float first[8192], again[8192];
	size_t count;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		make_case(&t, FORM_BIAS, (uint64_t)n);
		count = ref_case_count(&t.c, t.cmd.dst);
		if (count <= qbrt_array_size(first)) {
			t.c.operands[t.cmd.wgt].is_constant = 0;
			ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst),
					 0);
			ref_case_read_f32(&t.c, t.cmd.dst, first);
			t.c.operands[t.cmd.wgt].is_constant = 1;
			ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst),
					 0);
			ref_case_read_f32(&t.c, t.cmd.dst, again);
			ck_assert_mem_eq(first, again, count * sizeof(float));
		}
		ref_case_end(&t.c);
	}
}
END_TEST

/* IS05: looks within 2^28 multiply-accumulates, and stops when told */
START_TEST(conv2d_looks_and_stops)
{
	const uint32_t src[] = { 1, 66, 66, 64 }, wgt[] = { 64, 3, 3, 64 };
	const uint32_t dst[] = { 1, 64, 64, 64 };
	struct qbnpu_cmd_conv2d cmd = {
		.head = ref_case_head(QBNPU_OP_CONV2D, sizeof(cmd)),
		.bias = QBNPU_NONE16,
		.kh = 3,
		.kw = 3,
		.sh = 1,
		.sw = 1,
		.dh = 1,
		.dw = 1,
		.groups = 1,
		.post = ref_case_no_post(),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_random_f32(&c, REF_CASE_DENSE, 4, src, -1, 1);
	cmd.wgt = ref_case_random_f32(&c, REF_CASE_DENSE, 4, wgt, -1, 1);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 4, dst);
	/* 151 million products */
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	ck_assert_int_ge(c.num_looks, 2);
	c.num_looks = 0;
	c.looks_left = 2;
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), -ECANCELED);
	ck_assert_int_eq(c.num_looks, 2);
	ref_case_end(&c);
}
END_TEST

/* BE01 */
START_TEST(conv2d_on_8_bits_is_refused)
{
	struct conv_case t;

	make_case(&t, FORM_PLAIN, 1);
	t.c.operands[t.cmd.src].dtype = QBNPU_DTYPE_U8;
	ck_assert_int_eq(ref_case_prepare(&t.c, &t.cmd), -EOPNOTSUPP);
	t.c.operands[t.cmd.src].dtype = QBNPU_DTYPE_F32;
	t.c.operands[t.cmd.wgt].dtype = QBNPU_DTYPE_F16;
	ck_assert_int_eq(ref_case_prepare(&t.c, &t.cmd), -EOPNOTSUPP);
	ref_case_end(&t.c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(conv2d_is_within_its_bound, NUM_FORMS),
		QBRT_TEST(conv2d_bits_do_not_depend_on_where_weights_are),
		QBRT_TEST(conv2d_looks_and_stops),
		QBRT_TEST(conv2d_on_8_bits_is_refused),
	};

	return qbrt_test_run("ref-conv", tests, qbrt_array_size(tests));
}
