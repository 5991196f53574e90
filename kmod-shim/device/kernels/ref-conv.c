// SPDX-License-Identifier: MIT
/*
 * CONV2D in f32: per group one sum, whose rows are the output positions, whose
 * columns are the group's output channels, and whose terms are the window in
 * the order y, x, c. Positions outside the source are zeros in a packed row.
 */
#include "ref-sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ref_conv {
	struct qbnpu_prepared base;
	struct ref_post post;
	struct qbnpu_operand src, wgt, dst, bias, residual;
	uint32_t has_bias, has_residual;
	uint32_t groups;
	uint32_t group_inputs; /* channels of one group */
	uint32_t group_outputs;
	uint32_t kernel_h, kernel_w;
	uint32_t stride_h, stride_w;
	uint32_t dilation_h, dilation_w;
	uint32_t pad_top, pad_left;
	size_t packed_size; /* floats of one group */
	float packed[];
};

/* One group of a run. */
struct conv_run {
	const struct ref_conv *conv;
	const uint8_t *src, *wgt, *bias, *residual;
	uint8_t *dst;
};

/* An output position by number. */
struct position {
	uint64_t n, h, w;
};

static struct position find_position(const struct ref_conv *conv,
				     uint64_t number)
{
	const uint64_t width = conv->dst.dims[2], height = conv->dst.dims[1];

	return (struct position){
		.n = number / width / height,
		.h = number / width % height,
		.w = number % width,
	};
}

static void copy_channels(float *to, const uint8_t *from, uint64_t stride,
			  size_t count)
{
	size_t i;

	if (stride == sizeof(float) && count >= 16) {
		memcpy(to, from, count * sizeof(float));
		return;
	}
	for (i = 0; i < count; i++)
		memcpy(&to[i], from + i * stride, sizeof(float));
}

/* Terms k to k + depth of the window at one output position. */
static void pack_window(const struct conv_run *group, struct position at,
			const struct ref_sum_part *part, float *to)
{
	const struct ref_conv *conv = group->conv;
	const struct qbnpu_operand *src = &conv->src;
	uint64_t y = part->k / conv->group_inputs / conv->kernel_w;
	uint64_t x = part->k / conv->group_inputs % conv->kernel_w;
	uint64_t c = part->k % conv->group_inputs;
	size_t done, count;

	for (done = 0; done < part->depth; done += count) {
		/* negative positions wrap to large ones and are outside too */
		const uint64_t h = at.h * conv->stride_h +
				   y * conv->dilation_h - conv->pad_top;
		const uint64_t w = at.w * conv->stride_w +
				   x * conv->dilation_w - conv->pad_left;

		count = conv->group_inputs - c;
		if (count > part->depth - done)
			count = part->depth - done;
		if (h < src->dims[1] && w < src->dims[2])
			copy_channels(to + done,
				      group->src + at.n * src->strides[0] +
					      h * src->strides[1] +
					      w * src->strides[2] +
					      c * src->strides[3],
				      src->strides[3], count);
		else
			memset(to + done, 0, count * sizeof(float));
		c = 0;
		if (++x == conv->kernel_w) {
			x = 0;
			y++;
		}
	}
}

static void pack_a(const void *arg, const struct ref_sum_part *part,
		   float (*to)[REF_SUM_DEPTH])
{
	const struct conv_run *group = arg;
	size_t row;

	for (row = 0; row < part->rows; row++)
		pack_window(group, find_position(group->conv, part->row + row),
			    part, to[row]);
}

static void pack_b(const void *arg, const struct ref_sum_part *part,
		   float (*to)[REF_SUM_PANEL])
{
	const struct conv_run *group = arg;
	const struct ref_conv *conv = group->conv;
	const uint64_t *strides = conv->wgt.strides;
	size_t i, column;

	for (i = 0; i < part->depth; i++) {
		const uint64_t k = part->k + i;
		const uint64_t window = k / conv->group_inputs;
		const uint8_t *from = group->wgt + part->column * strides[0] +
				      window / conv->kernel_w * strides[1] +
				      window % conv->kernel_w * strides[2] +
				      k % conv->group_inputs * strides[3];

		memset(to[i], 0, sizeof(to[i]));
		for (column = 0; column < part->columns; column++)
			memcpy(&to[i][column], from + column * strides[0],
			       sizeof(float));
	}
}

static uint64_t offset_of(const struct qbnpu_operand *operand,
			  struct position at, uint64_t channel)
{
	return at.n * operand->strides[0] + at.h * operand->strides[1] +
	       at.w * operand->strides[2] + channel * operand->strides[3];
}

static void finish(const void *arg, const struct ref_sum_part *part,
		   double (*total)[REF_SUM_COLUMNS])
{
	const struct conv_run *group = arg;
	const struct ref_conv *conv = group->conv;
	struct ref_line line = {
		.bias_stride = conv->bias.strides[0],
		.residual_stride = conv->residual.strides[3],
		.dst_stride = conv->dst.strides[3],
		.count = part->columns,
	};
	size_t row;

	if (conv->has_bias)
		line.bias = group->bias + part->column * line.bias_stride;
	for (row = 0; row < part->rows; row++) {
		const struct position at = find_position(conv, part->row + row);

		line.total = total[row];
		line.dst = group->dst + offset_of(&conv->dst, at, part->column);
		if (conv->has_residual)
			line.residual =
				group->residual +
				offset_of(&conv->residual, at, part->column);
		qbnpu_ref_post_line(&conv->post, &line);
	}
}

static struct ref_sum sum_of_group(const struct conv_run *group)
{
	const struct ref_conv *conv = group->conv;

	return (struct ref_sum){
		.rows = (uint64_t)conv->dst.dims[0] * conv->dst.dims[1] *
			conv->dst.dims[2],
		.columns = conv->group_outputs,
		.depth = (uint64_t)conv->kernel_h * conv->kernel_w *
			 conv->group_inputs,
		.pack_a = pack_a,
		.pack_b = pack_b,
		.finish = finish,
		.arg = group,
	};
}

static int run_conv(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	const struct ref_conv *conv = (const void *)prepared;
	const uint64_t outputs = conv->group_outputs;
	struct conv_run group = {
		.conv = conv,
		.src = ref_at(run, &conv->src),
		.wgt = ref_at(run, &conv->wgt),
		.dst = ref_at(run, &conv->dst),
	};
	struct ref_sum sum = sum_of_group(&group);
	uint32_t number;
	int err = 0;

	if (conv->has_bias)
		group.bias = ref_at(run, &conv->bias);
	if (conv->has_residual)
		group.residual = ref_at(run, &conv->residual);
	for (number = 0; number < conv->groups && !err; number++) {
		if (conv->packed_size)
			sum.packed = conv->packed + number * conv->packed_size;
		err = qbnpu_ref_sum_run(&sum, run);
		group.src += conv->group_inputs * conv->src.strides[3];
		group.wgt += outputs * conv->wgt.strides[0];
		group.dst += outputs * conv->dst.strides[3];
		if (conv->has_bias)
			group.bias += outputs * conv->bias.strides[0];
		if (conv->has_residual)
			group.residual += outputs * conv->residual.strides[3];
	}
	return err;
}

static void pack_constant(struct ref_conv *conv,
			  const struct qbnpu_prepare *prepare)
{
	struct conv_run group = {
		.conv = conv,
		.wgt = prepare->weights + conv->wgt.offset,
	};
	const struct ref_sum sum = sum_of_group(&group);
	uint32_t number;

	for (number = 0; number < conv->groups; number++) {
		qbnpu_ref_sum_pack(&sum,
				   conv->packed + number * conv->packed_size);
		group.wgt +=
			(uint64_t)conv->group_outputs * conv->wgt.strides[0];
	}
}

static void set_geometry(struct ref_conv *conv,
			 const struct qbnpu_prepare *prepare,
			 const struct qbnpu_cmd_conv2d *cmd)
{
	conv->src = prepare->operands[cmd->src];
	conv->wgt = prepare->operands[cmd->wgt];
	conv->dst = prepare->operands[cmd->dst];
	conv->has_bias = cmd->bias != QBNPU_NONE16;
	if (conv->has_bias)
		conv->bias = prepare->operands[cmd->bias];
	conv->has_residual = cmd->post.residual != QBNPU_NONE16;
	if (conv->has_residual)
		conv->residual = prepare->operands[cmd->post.residual];
	conv->groups = cmd->groups;
	conv->group_inputs = conv->wgt.dims[3];
	conv->group_outputs = conv->wgt.dims[0] / cmd->groups;
	conv->kernel_h = cmd->kh;
	conv->kernel_w = cmd->kw;
	conv->stride_h = cmd->sh;
	conv->stride_w = cmd->sw;
	conv->dilation_h = cmd->dh;
	conv->dilation_w = cmd->dw;
	conv->pad_top = cmd->pad_top;
	conv->pad_left = cmd->pad_left;
}

/* Floats of one group's packed weights, 0: packed at each run. */
static size_t find_packed_size(const struct qbnpu_operand *wgt, uint32_t groups)
{
	if (!wgt->is_constant)
		return 0;
	return qbnpu_ref_sum_packed_size(
		wgt->dims[0] / groups,
		(uint64_t)wgt->dims[1] * wgt->dims[2] * wgt->dims[3], groups);
}

static bool is_f32(const struct qbnpu_prepare *prepare, uint16_t tensor)
{
	return prepare->operands[tensor].dtype == QBNPU_DTYPE_F32;
}

int qbnpu_ref_prepare_conv2d(const struct qbnpu_prepare *prepare,
			     struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_conv2d *cmd = (const void *)prepare->cmd;
	struct ref_conv *conv;
	struct ref_post post;
	size_t packed_size;

	if (!is_f32(prepare, cmd->src) || !is_f32(prepare, cmd->wgt) ||
	    !is_f32(prepare, cmd->dst) ||
	    !qbnpu_ref_post_begin(&post, &cmd->post))
		return -EOPNOTSUPP;
	packed_size =
		find_packed_size(&prepare->operands[cmd->wgt], cmd->groups);
	conv = calloc(1, sizeof(*conv) +
				 cmd->groups * packed_size * sizeof(float));
	if (!conv)
		return -ENOMEM;
	conv->base.run = run_conv;
	conv->base.scratch_size = sizeof(struct ref_sum_scratch);
	conv->post = post;
	set_geometry(conv, prepare, cmd);
	conv->packed_size = packed_size;
	if (packed_size)
		pack_constant(conv, prepare);
	*prepared = &conv->base;
	return 0;
}
