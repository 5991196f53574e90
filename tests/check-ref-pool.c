// SPDX-License-Identifier: MIT
/*
 * POOL against a plain loop in f64: MAX exactly, averages within NC30.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

struct pool_case {
	struct ref_case c;
	struct qbnpu_cmd_pool cmd;
	uint32_t src[4], dst[4];
};

/* Positions of an axis of which each window has one inside (V37). */
static bool is_axis_valid(uint32_t size, uint32_t outputs, uint32_t before,
			  uint32_t kernel, uint32_t dilation, uint32_t stride)
{
	uint32_t o, k;

	for (o = 0; o < outputs; o++) {
		bool is_inside = false;

		for (k = 0; k < kernel; k++) {
			const int64_t at = (int64_t)o * stride - before +
					   (int64_t)k * dilation;

			is_inside |= at >= 0 && at < size;
		}
		if (!is_inside)
			return false;
	}
	return outputs > 0;
}

static uint32_t output_size(uint32_t size, uint32_t kernel, uint32_t dilation,
			    uint32_t stride)
{
	const uint32_t window = (kernel - 1) * dilation + 1;

	return size < window ? 0 : (size - window) / stride + 1;
}

static bool choose_geometry(struct pool_case *t)
{
	struct qbnpu_cmd_pool *cmd = &t->cmd;
	struct ref_case *c = &t->c;

	cmd->kh = (uint8_t)ref_case_between(c, 1, 4);
	cmd->kw = (uint8_t)ref_case_between(c, 1, 4);
	cmd->sh = (uint8_t)ref_case_between(c, 1, 3);
	cmd->sw = (uint8_t)ref_case_between(c, 1, 3);
	cmd->dh = (uint8_t)ref_case_between(c, 1, 2);
	cmd->dw = (uint8_t)ref_case_between(c, 1, 2);
	cmd->ceil_h = (uint8_t)ref_case_below(c, cmd->sh);
	cmd->ceil_w = (uint8_t)ref_case_below(c, cmd->sw);
	cmd->pad_top =
		(uint16_t)ref_case_below(c, (cmd->kh - 1u) * cmd->dh + 1);
	cmd->pad_left =
		(uint16_t)ref_case_below(c, (cmd->kw - 1u) * cmd->dw + 1);
	cmd->pad_bottom =
		(uint16_t)ref_case_below(c, (cmd->kh - 1u) * cmd->dh + 1);
	cmd->pad_right =
		(uint16_t)ref_case_below(c, (cmd->kw - 1u) * cmd->dw + 1);
	t->src[0] = ref_case_between(c, 1, 2);
	t->src[1] = ref_case_between(c, 1, 9);
	t->src[2] = ref_case_between(c, 1, 9);
	t->src[3] = ref_case_below(c, 3) ? ref_case_between(c, 1, 9)
					 : ref_case_between(c, 60, 70);
	memcpy(t->dst, t->src, sizeof(t->dst));
	t->dst[1] = output_size(t->src[1] + cmd->ceil_h + cmd->pad_top +
					cmd->pad_bottom,
				cmd->kh, cmd->dh, cmd->sh);
	t->dst[2] = output_size(t->src[2] + cmd->ceil_w + cmd->pad_left +
					cmd->pad_right,
				cmd->kw, cmd->dw, cmd->sw);
	return is_axis_valid(t->src[1], t->dst[1], cmd->pad_top, cmd->kh,
			     cmd->dh, cmd->sh) &&
	       is_axis_valid(t->src[2], t->dst[2], cmd->pad_left, cmd->kw,
			     cmd->dw, cmd->sw);
}

/* One output element: expected value and bound. */
static double model(const struct pool_case *t, const uint32_t *at,
		    double *bound)
{
	const struct qbnpu_cmd_pool *cmd = &t->cmd;
	double sum = 0, size = 0, max = -HUGE_VAL;
	uint32_t y, x, inside = 0, padded = 0;
	float value;

	for (y = 0; y < cmd->kh; y++) {
		for (x = 0; x < cmd->kw; x++) {
			const int64_t h = (int64_t)at[1] * cmd->sh -
					  cmd->pad_top + (int64_t)y * cmd->dh;
			const int64_t w = (int64_t)at[2] * cmd->sw -
					  cmd->pad_left + (int64_t)x * cmd->dw;
			const uint32_t src[] = { at[0], (uint32_t)h,
						 (uint32_t)w, at[3] };

			padded += h < t->src[1] + cmd->pad_bottom &&
				  w < t->src[2] + cmd->pad_right;
			if (h < 0 || w < 0 || h >= t->src[1] || w >= t->src[2])
				continue;
			inside++;
			memcpy(&value, ref_case_at_index(&t->c, cmd->src, src),
			       sizeof(value));
			sum += (double)value;
			size += fabs((double)value);
			max = fmax(max, (double)value);
		}
	}
	*bound = 0;
	if (cmd->kind == QBNPU_POOL_MAX)
		return max;
	if (cmd->kind == QBNPU_POOL_AVG)
		padded = inside;
	*bound = (4 + sqrt(inside)) * 0x1p-23 * size / padded;
	return sum / padded;
}

static void check_results(const struct pool_case *t)
{
	const uint32_t *dims = t->dst;
	double bound, expected;
	size_t i;

	for (i = 0; i < ref_case_count(&t->c, t->cmd.dst); i++) {
		const uint32_t at[] = {
			(uint32_t)(i / dims[3] / dims[2] / dims[1]),
			(uint32_t)(i / dims[3] / dims[2] % dims[1]),
			(uint32_t)(i / dims[3] % dims[2]),
			(uint32_t)(i % dims[3]),
		};
		const double got = (double)ref_case_f32(&t->c, t->cmd.dst, i);

		expected = model(t, at, &bound);
		ref_case_demand(fabs(got - expected) <= bound,
				"element %zu: %a, not %a within %a", i, got,
				expected, bound);
	}
}

/* CT01 NC30 NC31: MAX, AVG, AVG_PAD, by round */
START_TEST(pool_of_f32_matches_the_window)
{
	struct pool_case t;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&t.c, (uint64_t)(_i * NUM_CASES + n));
		t.cmd = (struct qbnpu_cmd_pool){
			.head = ref_case_head(QBNPU_OP_POOL, sizeof(t.cmd)),
			.kind = (uint8_t)_i,
		};
		while (!choose_geometry(&t))
			;
		t.cmd.src = ref_case_random_f32(&t.c, REF_CASE_SRC, 4, t.src,
						-5, 5);
		t.cmd.dst = ref_case_tensor(&t.c, REF_CASE_DST, QBNPU_DTYPE_F32,
					    4, t.dst);
		ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst), 0);
		check_results(&t);
		ref_case_end(&t.c);
	}
}
END_TEST

/* IS05 */
START_TEST(pool_stops_when_told)
{
	const uint32_t src[] = { 1, 128, 128, 64 }, dst[] = { 1, 126, 126, 64 };
	struct qbnpu_cmd_pool cmd = {
		.head = ref_case_head(QBNPU_OP_POOL, sizeof(cmd)),
		.kind = QBNPU_POOL_MAX,
		.kh = 3,
		.kw = 3,
		.sh = 1,
		.sw = 1,
		.dh = 1,
		.dw = 1,
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	c.looks_left = 1;
	cmd.src = ref_case_random_f32(&c, REF_CASE_DENSE, 4, src, -1, 1);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 4, dst);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), -ECANCELED);
	ref_case_end(&c);
}
END_TEST

/* BE01 */
START_TEST(pool_on_8_bits_is_refused)
{
	const uint32_t dims[] = { 1, 1, 1, 1 };
	struct qbnpu_cmd_pool cmd = {
		.head = ref_case_head(QBNPU_OP_POOL, sizeof(cmd)),
		.kh = 1,
		.kw = 1,
		.sh = 1,
		.sw = 1,
		.dh = 1,
		.dw = 1,
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 4, dims);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 4, dims);
	ck_assert_int_eq(ref_case_prepare(&c, &cmd), -EOPNOTSUPP);
	ref_case_end(&c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(pool_of_f32_matches_the_window, 3),
		QBRT_TEST(pool_stops_when_told),
		QBRT_TEST(pool_on_8_bits_is_refused),
	};

	return qbrt_test_run("ref-pool", tests, qbrt_array_size(tests));
}
