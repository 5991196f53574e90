// SPDX-License-Identifier: MIT
/*
 * POOL in f32: MAX, AVG, AVG_PAD. Averages are summed in f64 and rounded once.
 * A window always has a position inside the source (V37).
 */
#include "ref-sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_CHANNELS 64u

struct ref_pool {
	struct qbnpu_prepared base;
	struct qbnpu_operand src, dst;
	uint32_t kind;
	/* by axis: height, width */
	uint32_t kernel[2], stride[2], dilation[2];
	uint32_t pad_before[2], pad_after[2];
};

/* What one output position looks at. */
struct window {
	const uint8_t *src; /* channel 0 of the source's first position */
	uint8_t *dst;
	uint64_t begin[2]; /* of the window, may be "negative" by wrapping */
	uint32_t divisor;  /* averages */
};

static bool is_inside(const struct ref_pool *pool, uint32_t axis,
		      uint64_t position)
{
	return position < pool->src.dims[1 + axis];
}

/* Positions of the window along an axis that count for an average. */
static uint32_t count_positions(const struct ref_pool *pool, uint32_t axis,
				uint64_t begin)
{
	uint32_t i, count = 0;

	for (i = 0; i < pool->kernel[axis]; i++) {
		const uint64_t at = begin + (uint64_t)i * pool->dilation[axis];

		/* with the pads every position is at or after -pad_before */
		if (pool->kind == QBNPU_POOL_AVG_PAD)
			count += at + pool->pad_before[axis] <
				 (uint64_t)pool->pad_before[axis] +
					 pool->src.dims[1 + axis] +
					 pool->pad_after[axis];
		else
			count += is_inside(pool, axis, at);
	}
	return count;
}

/* Joins one position's channels into the result. */
static void join_channels(const struct ref_pool *pool, double *result,
			  const uint8_t *from, size_t count, bool is_first)
{
	const uint64_t stride = pool->src.strides[3];
	float value;
	size_t i;

	for (i = 0; i < count; i++) {
		memcpy(&value, from + i * stride, sizeof(value));
		if (pool->kind != QBNPU_POOL_MAX)
			result[i] += (double)value;
		else if (is_first || (double)value > result[i])
			result[i] = (double)value;
	}
}

/* Channels channel to channel + count of one output position. */
static void pool_channels(const struct ref_pool *pool,
			  const struct window *window, uint64_t channel,
			  size_t count)
{
	const uint64_t *strides = pool->src.strides;
	double result[POOL_CHANNELS] = { 0 };
	float values[POOL_CHANNELS];
	bool is_first = true;
	uint64_t y, x, h, w;
	size_t i;

	for (y = 0; y < pool->kernel[0]; y++) {
		h = window->begin[0] + y * pool->dilation[0];
		if (!is_inside(pool, 0, h))
			continue;
		for (x = 0; x < pool->kernel[1]; x++) {
			w = window->begin[1] + x * pool->dilation[1];
			if (!is_inside(pool, 1, w))
				continue;
			join_channels(pool, result,
				      window->src + h * strides[1] +
					      w * strides[2] +
					      channel * strides[3],
				      count, is_first);
			is_first = false;
		}
	}
	for (i = 0; i < count; i++)
		values[i] = (float)(pool->kind == QBNPU_POOL_MAX
					    ? result[i]
					    : result[i] / window->divisor);
	qbnpu_ref_scatter(window->dst + channel * pool->dst.strides[3],
			  pool->dst.strides[3], values, count, sizeof(float));
}

static int pool_position(const struct ref_pool *pool,
			 const struct window *window,
			 const struct qbnpu_run *run)
{
	const uint64_t channels = pool->src.dims[3];
	const uint64_t area = (uint64_t)pool->kernel[0] * pool->kernel[1];
	uint64_t channel, count;
	int err;

	for (channel = 0; channel < channels; channel += count) {
		count = channels - channel < POOL_CHANNELS ? channels - channel
							   : POOL_CHANNELS;
		err = qbnpu_pace_spend(run->pace, 16 + area * count);
		if (err)
			return err;
		pool_channels(pool, window, channel, count);
	}
	return 0;
}

static int run_pool(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	const struct ref_pool *pool = (const void *)prepared;
	const uint32_t *dims = pool->dst.dims;
	struct window window;
	uint64_t n, h, w;
	uint32_t rows;
	int err;

	for (n = 0; n < dims[0]; n++) {
		window.src = ref_at(run, &pool->src) + n * pool->src.strides[0];
		for (h = 0; h < dims[1]; h++) {
			window.begin[0] =
				h * pool->stride[0] - pool->pad_before[0];
			rows = count_positions(pool, 0, window.begin[0]);
			for (w = 0; w < dims[2]; w++) {
				window.begin[1] = w * pool->stride[1] -
						  pool->pad_before[1];
				window.divisor =
					rows * count_positions(pool, 1,
							       window.begin[1]);
				window.dst = ref_at(run, &pool->dst) +
					     n * pool->dst.strides[0] +
					     h * pool->dst.strides[1] +
					     w * pool->dst.strides[2];
				err = pool_position(pool, &window, run);
				if (err)
					return err;
			}
		}
	}
	return 0;
}

int qbnpu_ref_prepare_pool(const struct qbnpu_prepare *prepare,
			   struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_pool *cmd = (const void *)prepare->cmd;
	struct ref_pool *pool;

	if (prepare->operands[cmd->src].dtype != QBNPU_DTYPE_F32)
		return -EOPNOTSUPP;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->base.run = run_pool;
	pool->src = prepare->operands[cmd->src];
	pool->dst = prepare->operands[cmd->dst];
	pool->kind = cmd->kind;
	pool->kernel[0] = cmd->kh;
	pool->kernel[1] = cmd->kw;
	pool->stride[0] = cmd->sh;
	pool->stride[1] = cmd->sw;
	pool->dilation[0] = cmd->dh;
	pool->dilation[1] = cmd->dw;
	pool->pad_before[0] = cmd->pad_top;
	pool->pad_before[1] = cmd->pad_left;
	pool->pad_after[0] = cmd->pad_bottom;
	pool->pad_after[1] = cmd->pad_right;
	*prepared = &pool->base;
	return 0;
}
