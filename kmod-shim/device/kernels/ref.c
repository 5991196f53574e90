// SPDX-License-Identifier: MIT
/*
 * The reference kernels' table and the loop over strided views. Every kernel
 * is plain C that a person can check against docs/spec/device-and-format.md,
 * section 5; none allocates, locks or calls the system while it runs (but
 * NOP, which waits).
 */
#include "ref.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void qbnpu_ref_loop_shape(struct ref_loop *loop, uint32_t rank,
			  const uint32_t *dims, const uint64_t *const *strides,
			  uint32_t num_views)
{
	uint32_t axis, view, last;

	assert(num_views <= REF_MAX_VIEWS && rank <= QBNPU_MAX_RANK);
	loop->num_views = num_views;
	loop->rank = 0;
	for (axis = 0; axis < rank; axis++) {
		bool is_run = loop->rank > 0;

		if (dims[axis] == 1)
			continue;
		last = loop->rank - 1;
		for (view = 0; is_run && view < num_views; view++)
			is_run = loop->strides[view][last] ==
				 strides[view][axis] * dims[axis];
		if (!is_run) {
			last = loop->rank++;
			loop->extents[last] = 1;
		}
		loop->extents[last] *= dims[axis];
		for (view = 0; view < num_views; view++)
			loop->strides[view][last] = strides[view][axis];
	}
	if (loop->rank)
		return;
	loop->rank = 1;
	loop->extents[0] = 1;
	for (view = 0; view < num_views; view++)
		loop->strides[view][0] = 0;
}

void qbnpu_ref_loop_begin(struct ref_loop *loop,
			  const struct qbnpu_operand *const *operands,
			  uint32_t num_operands)
{
	const uint64_t *strides[REF_MAX_VIEWS];
	uint32_t view;

	for (view = 0; view < num_operands; view++) {
		strides[view] = operands[view]->strides;
		loop->offsets[view] = operands[view]->offset;
		loop->bindings[view] = operands[view]->binding;
	}
	qbnpu_ref_loop_shape(loop, operands[0]->rank, operands[0]->dims,
			     strides, num_operands);
	loop->block = REF_BLOCK;
	loop->work = 1;
}

/* The blocks of one run along the last axis. */
static int run_axis(const struct ref_loop *loop, const struct qbnpu_run *run,
		    uint8_t *const *at, ref_row *row, const void *arg)
{
	uint64_t extent = loop->extents[loop->rank - 1], done, count;
	uint8_t *here[REF_MAX_VIEWS];
	uint32_t view;
	int err;

	for (done = 0; done < extent; done += count) {
		count = extent - done < loop->block ? extent - done
						    : loop->block;
		err = qbnpu_pace_spend(run->pace, count * loop->work + 8);
		if (err)
			return err;
		for (view = 0; view < loop->num_views; view++)
			here[view] =
				at[view] + done * ref_loop_stride(loop, view);
		row(arg, here, count);
	}
	return 0;
}

int qbnpu_ref_loop_run(const struct ref_loop *loop, const struct qbnpu_run *run,
		       ref_row *row, const void *arg)
{
	uint64_t index[QBNPU_MAX_RANK] = { 0 };
	uint8_t *at[REF_MAX_VIEWS];
	uint32_t view, axis;
	int err;

	for (view = 0; view < loop->num_views; view++)
		at[view] =
			run->bases[loop->bindings[view]] + loop->offsets[view];
	for (;;) {
		err = run_axis(loop, run, at, row, arg);
		if (err)
			return err;
		for (axis = loop->rank - 1; axis > 0; axis--) {
			const uint32_t outer = axis - 1;
			const uint64_t extent = loop->extents[outer];

			index[outer]++;
			for (view = 0; view < loop->num_views; view++)
				at[view] += loop->strides[view][outer];
			if (index[outer] < extent)
				break;
			index[outer] = 0;
			for (view = 0; view < loop->num_views; view++)
				at[view] -= extent * loop->strides[view][outer];
		}
		if (!axis)
			return 0;
	}
}

#define GATHER(type) \
	do { \
		for (i = 0; i < count; i++) \
			memcpy(to + i * sizeof(type), src + i * stride, \
			       sizeof(type)); \
	} while (0)

const void *qbnpu_ref_gather(void *block, const uint8_t *src, uint64_t stride,
			     size_t count, uint32_t element_size)
{
	uint8_t *to = block;
	size_t i;

	if (stride == element_size)
		return src;
	switch (element_size) {
	case 1:
		GATHER(uint8_t);
		break;
	case 2:
		GATHER(uint16_t);
		break;
	case 4:
		GATHER(uint32_t);
		break;
	default:
		GATHER(uint64_t);
		break;
	}
	return block;
}

#define SCATTER(type) \
	do { \
		for (i = 0; i < count; i++) \
			memcpy(dst + i * stride, from + i * sizeof(type), \
			       sizeof(type)); \
	} while (0)

void qbnpu_ref_scatter(uint8_t *dst, uint64_t stride, const void *block,
		       size_t count, uint32_t element_size)
{
	const uint8_t *from = block;
	size_t i;

	if (stride == element_size) {
		memcpy(dst, block, count * element_size);
		return;
	}
	switch (element_size) {
	case 1:
		SCATTER(uint8_t);
		break;
	case 2:
		SCATTER(uint16_t);
		break;
	case 4:
		SCATTER(uint32_t);
		break;
	default:
		SCATTER(uint64_t);
		break;
	}
}

static int (*find_prepare(uint32_t opcode))(const struct qbnpu_prepare *,
					    struct qbnpu_prepared **)
{
	switch (opcode) {
	case QBNPU_OP_NOP:
		return qbnpu_ref_prepare_nop;
	case QBNPU_OP_TIMESTAMP:
		return qbnpu_ref_prepare_timestamp;
	case QBNPU_OP_FILL:
		return qbnpu_ref_prepare_fill;
	case QBNPU_OP_COPY:
		return qbnpu_ref_prepare_copy;
	case QBNPU_OP_CRC:
		return qbnpu_ref_prepare_crc;
	case QBNPU_OP_CONV2D:
		return qbnpu_ref_prepare_conv2d;
	case QBNPU_OP_MATMUL:
		return qbnpu_ref_prepare_matmul;
	case QBNPU_OP_POOL:
		return qbnpu_ref_prepare_pool;
	case QBNPU_OP_UNARY:
		return qbnpu_ref_prepare_unary;
	case QBNPU_OP_BINARY:
		return qbnpu_ref_prepare_binary;
	case QBNPU_OP_CAST:
		return qbnpu_ref_prepare_cast;
	default:
		return NULL;
	}
}

static int ref_prepare(const struct qbnpu_prepare *prepare,
		       struct qbnpu_prepared **prepared)
{
	int (*fn)(const struct qbnpu_prepare *, struct qbnpu_prepared **) =
		find_prepare(prepare->cmd->opcode);

	return fn ? fn(prepare, prepared) : -EOPNOTSUPP;
}

static size_t ref_scratch_size(const struct qbnpu_prepared *prepared)
{
	return prepared->scratch_size;
}

static int ref_run(const struct qbnpu_prepared *prepared,
		   const struct qbnpu_run *run)
{
	return prepared->run(prepared, run);
}

static void ref_free(struct qbnpu_prepared *prepared)
{
	free(prepared);
}

/* Needs nothing of its threads. */
static void ref_thread(void)
{
}

const struct qbnpu_kernels qbnpu_kernels_ref = {
	.abi = QBNPU_KERNELS_ABI,
	.size = sizeof(struct qbnpu_kernels),
	.name = "ref",
	.isa = "c",
	.caps = 0, /* no 8-bit kernels yet to be exact */
	.prepare = ref_prepare,
	.scratch_size = ref_scratch_size,
	.run = ref_run,
	.free = ref_free,
	.thread_enter = ref_thread,
	.thread_leave = ref_thread,
};
