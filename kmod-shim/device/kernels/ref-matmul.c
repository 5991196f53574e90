// SPDX-License-Identifier: MIT
/*
 * MATMUL in f32: one sum per matrix of the leading extents. b is packed once,
 * at prepare, when it is constant and the same for every matrix.
 */
#include "ref-sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ref_matmul {
	struct qbnpu_prepared base;
	struct ref_post post;
	struct qbnpu_operand a, b, dst, bias, residual;
	uint32_t has_bias, has_residual;
	uint32_t num_leading; /* axes before the matrix */
	size_t packed_size;
	float packed[];
};

/* One matrix of a run. */
struct matmul_run {
	const struct ref_matmul *matmul;
	const uint8_t *a, *b, *bias, *residual;
	uint8_t *dst;
};

static void pack_a(const void *arg, const struct ref_sum_part *part,
		   float (*to)[REF_SUM_DEPTH])
{
	const struct matmul_run *matrix = arg;
	const struct qbnpu_operand *a = &matrix->matmul->a;
	const uint64_t row_stride = a->strides[a->rank - 2];
	const uint64_t stride = a->strides[a->rank - 1];
	size_t row, i;

	for (row = 0; row < part->rows; row++) {
		const uint8_t *from = matrix->a +
				      (part->row + row) * row_stride +
				      part->k * stride;

		if (stride == sizeof(float)) {
			memcpy(to[row], from, part->depth * sizeof(float));
			continue;
		}
		for (i = 0; i < part->depth; i++)
			memcpy(&to[row][i], from + i * stride, sizeof(float));
	}
}

static void pack_b(const void *arg, const struct ref_sum_part *part,
		   float (*to)[REF_SUM_PANEL])
{
	const struct matmul_run *matrix = arg;
	const struct qbnpu_operand *b = &matrix->matmul->b;
	const uint64_t row_stride = b->strides[b->rank - 2];
	const uint64_t stride = b->strides[b->rank - 1];
	size_t i, column;

	for (i = 0; i < part->depth; i++) {
		const uint8_t *from = matrix->b + (part->k + i) * row_stride +
				      part->column * stride;

		memset(to[i], 0, sizeof(to[i]));
		for (column = 0; column < part->columns; column++)
			memcpy(&to[i][column], from + column * stride,
			       sizeof(float));
	}
}

static void finish(const void *arg, const struct ref_sum_part *part,
		   double (*total)[REF_SUM_COLUMNS])
{
	const struct matmul_run *matrix = arg;
	const struct ref_matmul *matmul = matrix->matmul;
	const uint32_t last = matmul->dst.rank - 1;
	struct ref_line line = {
		.bias_stride = matmul->bias.strides[0],
		.residual_stride = matmul->residual.strides[last],
		.dst_stride = matmul->dst.strides[last],
		.count = part->columns,
	};
	size_t row;

	if (matmul->has_bias)
		line.bias = matrix->bias + part->column * line.bias_stride;
	for (row = 0; row < part->rows; row++) {
		const uint64_t at = part->row + row;

		line.total = total[row];
		line.dst = matrix->dst + at * matmul->dst.strides[last - 1] +
			   part->column * line.dst_stride;
		if (matmul->has_residual)
			line.residual =
				matrix->residual +
				at * matmul->residual.strides[last - 1] +
				part->column * line.residual_stride;
		qbnpu_ref_post_line(&matmul->post, &line);
	}
}

static struct ref_sum sum_of_matrix(const struct matmul_run *matrix)
{
	const struct ref_matmul *matmul = matrix->matmul;
	const uint32_t last = matmul->dst.rank - 1;

	return (struct ref_sum){
		.rows = matmul->dst.dims[last - 1],
		.columns = matmul->dst.dims[last],
		.depth = matmul->a.dims[last],
		.packed = matmul->packed_size ? matmul->packed : NULL,
		.pack_a = pack_a,
		.pack_b = pack_b,
		.finish = finish,
		.arg = matrix,
	};
}

/* Moves to the next matrix; false after the last one. */
static bool step_matrix(struct matmul_run *matrix, uint32_t *index)
{
	const struct ref_matmul *matmul = matrix->matmul;
	uint32_t axis;

	for (axis = matmul->num_leading; axis-- > 0;) {
		const int64_t extent = matmul->dst.dims[axis];
		const bool is_next = ++index[axis] < extent;
		/* one forward, or back to the first of this axis */
		const int64_t steps = is_next ? 1 : 1 - extent;

		matrix->a += steps * (int64_t)matmul->a.strides[axis];
		matrix->b += steps * (int64_t)matmul->b.strides[axis];
		matrix->dst += steps * (int64_t)matmul->dst.strides[axis];
		if (matmul->has_residual)
			matrix->residual +=
				steps * (int64_t)matmul->residual.strides[axis];
		if (is_next)
			return true;
		index[axis] = 0;
	}
	return false;
}

static int run_matmul(const struct qbnpu_prepared *prepared,
		      const struct qbnpu_run *run)
{
	const struct ref_matmul *matmul = (const void *)prepared;
	uint32_t index[QBNPU_MAX_RANK] = { 0 };
	struct matmul_run matrix = {
		.matmul = matmul,
		.a = ref_at(run, &matmul->a),
		.b = ref_at(run, &matmul->b),
		.dst = ref_at(run, &matmul->dst),
	};
	const struct ref_sum sum = sum_of_matrix(&matrix);
	int err;

	if (matmul->has_bias)
		matrix.bias = ref_at(run, &matmul->bias);
	if (matmul->has_residual)
		matrix.residual = ref_at(run, &matmul->residual);
	do {
		err = qbnpu_ref_sum_run(&sum, run);
	} while (!err && step_matrix(&matrix, index));
	return err;
}

/* Whether b is constant and one matrix for all. */
static bool is_one_constant(const struct qbnpu_operand *b)
{
	uint32_t axis;

	for (axis = 0; axis + 2 < b->rank; axis++) {
		if (b->dims[axis] > 1 && b->strides[axis])
			return false;
	}
	return b->is_constant;
}

static void pack_constant(struct ref_matmul *matmul,
			  const struct qbnpu_prepare *prepare)
{
	const struct matmul_run matrix = {
		.matmul = matmul,
		.b = prepare->weights + matmul->b.offset,
	};
	const struct ref_sum sum = sum_of_matrix(&matrix);

	qbnpu_ref_sum_pack(&sum, matmul->packed);
}

static bool is_f32(const struct qbnpu_prepare *prepare, uint16_t tensor)
{
	return prepare->operands[tensor].dtype == QBNPU_DTYPE_F32;
}

int qbnpu_ref_prepare_matmul(const struct qbnpu_prepare *prepare,
			     struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_matmul *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *b = &prepare->operands[cmd->b];
	struct ref_matmul *matmul;
	struct ref_post post;
	size_t packed_size = 0;

	if (!is_f32(prepare, cmd->a) || !is_f32(prepare, cmd->b) ||
	    !is_f32(prepare, cmd->dst) ||
	    !qbnpu_ref_post_begin(&post, &cmd->post))
		return -EOPNOTSUPP;
	if (is_one_constant(b))
		packed_size = qbnpu_ref_sum_packed_size(
			b->dims[b->rank - 1], b->dims[b->rank - 2], 1);
	matmul = calloc(1, sizeof(*matmul) + packed_size * sizeof(float));
	if (!matmul)
		return -ENOMEM;
	matmul->base.run = run_matmul;
	matmul->base.scratch_size = sizeof(struct ref_sum_scratch);
	matmul->post = post;
	matmul->post.alpha = (double)ref_f32(cmd->alpha);
	matmul->a = prepare->operands[cmd->a];
	matmul->b = *b;
	matmul->dst = prepare->operands[cmd->dst];
	matmul->num_leading = b->rank - 2;
	matmul->has_bias = cmd->bias != QBNPU_NONE16;
	if (matmul->has_bias)
		matmul->bias = prepare->operands[cmd->bias];
	matmul->has_residual = cmd->post.residual != QBNPU_NONE16;
	if (matmul->has_residual)
		matmul->residual = prepare->operands[cmd->post.residual];
	matmul->packed_size = packed_size;
	if (packed_size)
		pack_constant(matmul, prepare);
	*prepared = &matmul->base;
	return 0;
}
