/* SPDX-License-Identifier: MIT */
/*
 * Sums of products for CONV2D and MATMUL: rows x columns results, each the sum
 * over depth of a[row][k] * b[k][column]. The command says by three functions
 * where a and b come from and where results go; this says in what order terms
 * are added: eight products at a time in f32, the eights in f64, both from
 * k = 0 up, whatever the extents of rows and columns are (NC30, NC41, BE17).
 */
#ifndef QBNPU_REF_SUM_H
#define QBNPU_REF_SUM_H

#include "ref.h"

#define REF_SUM_ROWS 32u
#define REF_SUM_COLUMNS 64u
#define REF_SUM_DEPTH 256u
#define REF_SUM_PANEL 16u /* columns that are computed together */
#define REF_SUM_TERMS 8u  /* products that are added in f32 */

/* The part of a sum that is in work. */
struct ref_sum_part {
	uint64_t row, column, k;
	size_t rows, columns, depth;
};

struct ref_sum_scratch {
	double total[REF_SUM_ROWS][REF_SUM_COLUMNS];
	float a[REF_SUM_ROWS][REF_SUM_DEPTH];
	float b[REF_SUM_COLUMNS / REF_SUM_PANEL][REF_SUM_DEPTH][REF_SUM_PANEL];
};

struct ref_sum {
	uint64_t rows, columns, depth;
	/* b, packed before: a panel of 16 columns after the other; or NULL */
	const float *packed;
	/* part.rows rows of part.depth terms */
	void (*pack_a)(const void *arg, const struct ref_sum_part *part,
		       float (*a)[REF_SUM_DEPTH]);
	/* part.columns (<= 16) columns of part.depth terms; the rest is 0 */
	void (*pack_b)(const void *arg, const struct ref_sum_part *part,
		       float (*b)[REF_SUM_PANEL]);
	void (*finish)(const void *arg, const struct ref_sum_part *part,
		       double (*total)[REF_SUM_COLUMNS]);
	const void *arg;
};

int qbnpu_ref_sum_run(const struct ref_sum *sum, const struct qbnpu_run *run);

/* Floats that packed needs for one of the matrices; 0: too many in all. */
size_t qbnpu_ref_sum_packed_size(uint64_t columns, uint64_t depth,
				 uint64_t num_matrices);
void qbnpu_ref_sum_pack(const struct ref_sum *sum, float *packed);

/* The post block: what happens to a sum before it is stored. */
struct ref_post {
	ref_f32_row *act; /* or NULL */
	double alpha;
	double residual_scale;
	float act_a, act_b;
	float mul, add;
	uint32_t has_affine;
	uint32_t work; /* pace units of one element */
};

/* One row of results; bias and residual may be NULL. Strides in bytes. */
struct ref_line {
	const double *total;
	const uint8_t *bias, *residual;
	uint8_t *dst;
	uint64_t bias_stride, residual_stride, dst_stride;
	size_t count; /* <= REF_SUM_COLUMNS */
};

/* false: a form that has no kernel */
bool qbnpu_ref_post_begin(struct ref_post *post, const struct qbnpu_post *cmd);
void qbnpu_ref_post_line(const struct ref_post *post,
			 const struct ref_line *line);

/* First element of an operand in this run. */
static inline uint8_t *ref_at(const struct qbnpu_run *run,
			      const struct qbnpu_operand *operand)
{
	return run->bases[operand->binding] + operand->offset;
}

#endif
