// SPDX-License-Identifier: MIT
/*
 * MATMUL against a plain loop in f64, within NC30's bound, and the order of
 * sums.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

enum form {
	FORM_PLAIN,
	FORM_BIAS,
	FORM_ALPHA,
	FORM_RESIDUAL,
	FORM_ACT,
	FORM_ALL,
	NUM_FORMS,
};

struct matmul_case {
	struct ref_case c;
	struct qbnpu_cmd_matmul cmd;
	enum form form;
	uint32_t rank;
	uint32_t dims[QBNPU_MAX_RANK]; /* of dst */
	uint32_t depth;
};

static bool has(const struct matmul_case *t, enum form form)
{
	return t->form == form || t->form == FORM_ALL;
}

static void choose_dims(struct matmul_case *t)
{
	uint32_t axis;

	t->rank = ref_case_between(&t->c, 2, QBNPU_MAX_RANK);
	for (axis = 0; axis + 2 < t->rank; axis++)
		t->dims[axis] = ref_case_between(&t->c, 1, 3);
	t->dims[t->rank - 2] = ref_case_below(&t->c, 3)
				       ? ref_case_between(&t->c, 1, 9)
				       : ref_case_between(&t->c, 30, 40);
	t->dims[t->rank - 1] = ref_case_below(&t->c, 3)
				       ? ref_case_between(&t->c, 1, 20)
				       : ref_case_between(&t->c, 60, 70);
	/* past one block of depth now and then */
	t->depth = ref_case_below(&t->c, 5) ? ref_case_between(&t->c, 1, 20)
					    : ref_case_between(&t->c, 250, 300);
}

static void set_post(struct matmul_case *t)
{
	struct qbnpu_post *post = &t->cmd.post;

	*post = ref_case_no_post();
	t->cmd.alpha = ref_case_bits(1);
	if (has(t, FORM_ALPHA))
		t->cmd.alpha =
			ref_case_bits((float)ref_case_real(&t->c, -2, 2));
	if (has(t, FORM_RESIDUAL)) {
		post->residual = ref_case_random_f32(&t->c, REF_CASE_SRC,
						     t->rank, t->dims, -3, 3);
		post->residual_scale =
			ref_case_bits((float)ref_case_real(&t->c, -2, 2));
	}
	if (has(t, FORM_ACT)) {
		post->act = QBNPU_UNARY_CLIP;
		post->act_b = ref_case_bits(INFINITY);
	}
}

static void make_case(struct matmul_case *t, enum form form, uint64_t seed)
{
	struct qbnpu_cmd_matmul *cmd = &t->cmd;
	uint32_t dims[QBNPU_MAX_RANK];

	t->form = form;
	ref_case_begin(&t->c, seed);
	*cmd = (struct qbnpu_cmd_matmul){
		.head = ref_case_head(QBNPU_OP_MATMUL, sizeof(*cmd)),
		.bias = QBNPU_NONE16,
	};
	choose_dims(t);
	memcpy(dims, t->dims, sizeof(dims));
	dims[t->rank - 1] = t->depth;
	cmd->a = ref_case_random_f32(&t->c, REF_CASE_SRC, t->rank, dims, -2, 2);
	dims[t->rank - 2] = t->depth;
	dims[t->rank - 1] = t->dims[t->rank - 1];
	cmd->b = ref_case_random_f32(&t->c, REF_CASE_SRC, t->rank, dims, -1, 1);
	t->c.operands[cmd->b].is_constant = ref_case_below(&t->c, 2);
	if (has(t, FORM_BIAS))
		cmd->bias = ref_case_random_f32(&t->c, REF_CASE_SRC, 1,
						&t->dims[t->rank - 1], -3, 3);
	cmd->dst = ref_case_tensor(&t->c, REF_CASE_DST, QBNPU_DTYPE_F32,
				   t->rank, t->dims);
	set_post(t);
}

static double sum_of(const struct matmul_case *t, const uint32_t *at,
		     double *size)
{
	uint32_t a_at[QBNPU_MAX_RANK], b_at[QBNPU_MAX_RANK], k;
	double sum = 0;
	float a, b;

	memcpy(a_at, at, sizeof(a_at));
	memcpy(b_at, at, sizeof(b_at));
	for (k = 0; k < t->depth; k++) {
		a_at[t->rank - 1] = k;
		b_at[t->rank - 2] = k;
		memcpy(&a, ref_case_at_index(&t->c, t->cmd.a, a_at), sizeof(a));
		memcpy(&b, ref_case_at_index(&t->c, t->cmd.b, b_at), sizeof(b));
		sum += (double)a * (double)b;
		*size += fabs((double)a * (double)b);
	}
	return sum;
}

static double model(const struct matmul_case *t, const uint32_t *at, size_t i,
		    double *bound)
{
	float alpha, rs;
	double size = 0, value = sum_of(t, at, &size);

	memcpy(&alpha, &t->cmd.alpha, sizeof(alpha));
	value *= (double)alpha;
	size *= fabs((double)alpha);
	if (has(t, FORM_BIAS)) {
		const double bias = (double)ref_case_f32(&t->c, t->cmd.bias,
							 at[t->rank - 1]);

		value += bias;
		size += fabs(bias);
	}
	if (has(t, FORM_RESIDUAL)) {
		const double residual =
			(double)ref_case_f32(&t->c, t->cmd.post.residual, i);

		memcpy(&rs, &t->cmd.post.residual_scale, sizeof(rs));
		value += (double)rs * residual;
		size += fabs((double)rs * residual);
	}
	*bound = (4 + sqrt(t->depth)) * 0x1p-23 * size;
	return has(t, FORM_ACT) ? fmax(value, 0) : value;
}

static void check_results(const struct matmul_case *t)
{
	const size_t count = ref_case_count(&t->c, t->cmd.dst);
	uint32_t at[QBNPU_MAX_RANK] = { 0 }, axis;
	double bound, expected;
	size_t i, rest;

	for (i = 0; i < count; i++) {
		const double got = (double)ref_case_f32(&t->c, t->cmd.dst, i);

		for (axis = t->rank, rest = i; axis-- > 0;) {
			at[axis] = (uint32_t)(rest % t->dims[axis]);
			rest /= t->dims[axis];
		}
		expected = model(t, at, i, &bound);
		ref_case_demand(fabs(got - expected) <= bound,
				"element %zu: %a, not %a within %a", i, got,
				expected, bound);
	}
}

/* CT01 NC30: each form of the post block, by round */
START_TEST(matmul_is_within_its_bound)
{
	struct matmul_case t;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		make_case(&t, (enum form)_i, (uint64_t)(_i * NUM_CASES + n));
		ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst), 0);
		check_results(&t);
		ref_case_end(&t.c);
	}
}
END_TEST

/* One product of a {1, depth} and b {depth, 1}. */
static float multiply(struct ref_case *c, const float *a, const float *b,
		      uint32_t depth)
{
	const uint32_t a_dims[] = { 1, depth }, b_dims[] = { depth, 1 };
	const uint32_t one[] = { 1, 1 };
	struct qbnpu_cmd_matmul cmd = {
		.head = ref_case_head(QBNPU_OP_MATMUL, sizeof(cmd)),
		.bias = QBNPU_NONE16,
		.alpha = ref_case_bits(1),
		.post = ref_case_no_post(),
	};
	float got;

	ref_case_begin(c, 1);
	cmd.a = ref_case_tensor(c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 2, a_dims);
	cmd.b = ref_case_tensor(c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 2, b_dims);
	cmd.dst = ref_case_tensor(c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 2, one);
	memcpy(c->buffers[cmd.a], a, depth * sizeof(float));
	memcpy(c->buffers[cmd.b], b, depth * sizeof(float));
	ck_assert_int_eq(ref_case_run(c, &cmd, cmd.dst), 0);
	memcpy(&got, c->buffers[cmd.dst], sizeof(got));
	ref_case_end(c);
	return got;
}

/* NC30: equal terms, whose rounding errors all go one way */
START_TEST(long_sums_of_equal_terms_stay_within_the_bound)
{
	enum {
		DEPTH = 1 << 20
	};
	float *a = malloc(DEPTH * sizeof(float));
	float *b = malloc(DEPTH * sizeof(float));
	double expected, got;
	struct ref_case c;
	size_t i;

	for (i = 0; i < DEPTH; i++) {
		a[i] = 0.1f;
		b[i] = 0.7f;
	}
	expected = (double)0.1f * (double)0.7f * DEPTH;
	got = (double)multiply(&c, a, b, DEPTH);
	ck_assert(fabs(got - expected) <=
		  (4 + sqrt(DEPTH)) * 0x1p-23 * expected);
	free(a);
	free(b);
}
END_TEST

/* NC41: products are not fused with sums */
START_TEST(products_are_rounded_before_they_are_added)
{
	/* a * b is 1 + 2^-11 + 2^-24, rounded 1 + 2^-11; fused: 2^-24 stays */
	const float a[] = { 0x1.001p0f, -1 }, b[] = { 0x1.001p0f, 0x1.002p0f };
	struct ref_case c;

	ck_assert(multiply(&c, a, b, 2) == 0);
}
END_TEST

/* BE17 NC41: a row alone, or among others, has the same bits */
START_TEST(rows_do_not_depend_on_how_many_there_are)
{
	enum {
		ROWS = 37,
		DEPTH = 300,
		COLUMNS = 70
	};
	uint32_t a_dims[] = { ROWS, DEPTH }, dst_dims[] = { ROWS, COLUMNS };
	const uint32_t b_dims[] = { DEPTH, COLUMNS };
	struct qbnpu_cmd_matmul cmd = {
		.head = ref_case_head(QBNPU_OP_MATMUL, sizeof(cmd)),
		.bias = QBNPU_NONE16,
		.alpha = ref_case_bits(1),
		.post = ref_case_no_post(),
	};
	float all[ROWS * COLUMNS], one[COLUMNS];
	struct ref_case c;
	uint32_t row;

	ref_case_begin(&c, 5);
	cmd.a = ref_case_random_f32(&c, REF_CASE_DENSE, 2, a_dims, -1, 1);
	cmd.b = ref_case_random_f32(&c, REF_CASE_DENSE, 2, b_dims, -1, 1);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 2,
				  dst_dims);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	ref_case_read_f32(&c, cmd.dst, all);
	c.operands[cmd.a].dims[0] = 1;
	c.operands[cmd.dst].dims[0] = 1;
	for (row = 0; row < ROWS; row++) {
		c.operands[cmd.a].offset = row * DEPTH * sizeof(float);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		ref_case_read_f32(&c, cmd.dst, one);
		ck_assert_mem_eq(one, all + row * COLUMNS, sizeof(one));
	}
	ref_case_end(&c);
}
END_TEST

/* NC41 */
START_TEST(matmul_bits_do_not_depend_on_where_b_is)
{
	struct matmul_case t;
	float *first, *again;
	size_t count;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		make_case(&t, FORM_BIAS, (uint64_t)n);
		count = ref_case_count(&t.c, t.cmd.dst);
		first = malloc(count * sizeof(float));
		again = malloc(count * sizeof(float));
		t.c.operands[t.cmd.b].is_constant = 0;
		ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst), 0);
		ref_case_read_f32(&t.c, t.cmd.dst, first);
		t.c.operands[t.cmd.b].is_constant = 1;
		ck_assert_int_eq(ref_case_run(&t.c, &t.cmd, t.cmd.dst), 0);
		ref_case_read_f32(&t.c, t.cmd.dst, again);
		ck_assert_mem_eq(first, again, count * sizeof(float));
		free(first);
		free(again);
		ref_case_end(&t.c);
	}
}
END_TEST

/* IS05 */
START_TEST(matmul_stops_when_told)
{
	const uint32_t dims[] = { 512, 512 };
	struct qbnpu_cmd_matmul cmd = {
		.head = ref_case_head(QBNPU_OP_MATMUL, sizeof(cmd)),
		.bias = QBNPU_NONE16,
		.alpha = ref_case_bits(1),
		.post = ref_case_no_post(),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	c.looks_left = 1;
	cmd.a = ref_case_random_f32(&c, REF_CASE_DENSE, 2, dims, -1, 1);
	cmd.b = ref_case_random_f32(&c, REF_CASE_DENSE, 2, dims, -1, 1);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_F32, 2, dims);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), -ECANCELED);
	ref_case_end(&c);
}
END_TEST

/* BE01 */
START_TEST(matmul_on_8_bits_is_refused)
{
	struct matmul_case t;

	make_case(&t, FORM_PLAIN, 1);
	t.c.operands[t.cmd.a].dtype = QBNPU_DTYPE_U8;
	t.c.operands[t.cmd.b].dtype = QBNPU_DTYPE_I8;
	ck_assert_int_eq(ref_case_prepare(&t.c, &t.cmd), -EOPNOTSUPP);
	ref_case_end(&t.c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(matmul_is_within_its_bound, NUM_FORMS),
		QBRT_TEST(long_sums_of_equal_terms_stay_within_the_bound),
		QBRT_TEST(products_are_rounded_before_they_are_added),
		QBRT_TEST(rows_do_not_depend_on_how_many_there_are),
		QBRT_TEST(matmul_bits_do_not_depend_on_where_b_is),
		QBRT_TEST(matmul_stops_when_told),
		QBRT_TEST(matmul_on_8_bits_is_refused),
	};

	return qbrt_test_run("ref-matmul", tests, qbrt_array_size(tests));
}
