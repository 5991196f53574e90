// SPDX-License-Identifier: MIT
/*
 * NOP, TIMESTAMP, FILL, COPY and CRC, and the copy of a COPY job: what moves
 * bytes or time and computes nothing. Bits go through unchanged.
 */
#include "ref.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "util.h"

/* Bytes of one step where a run is dense: about a tenth of a millisecond */
#define DENSE_STEP ((size_t)1 << 20)

/* NOP wakes this often, to be interruptible within a millisecond. */
#define NOP_SLICE_NS INT64_C(250000)

struct ref_nop {
	struct qbnpu_prepared base;
	int64_t delay_ns;
};

/*
 * Sleeps in slices; each of them is all the work that a look allows. An inline
 * run has its caller's thread, which is not cancelled here with the core.
 */
static int run_nop(const struct qbnpu_prepared *prepared,
		   const struct qbnpu_run *run)
{
	const struct ref_nop *nop = (const void *)prepared;
	int64_t now, end;
	int err = 0, old;

	if (!nop->delay_ns)
		return 0;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	now = qbrt_now_ns();
	end = now + nop->delay_ns;
	while (now < end && !err) {
		const int64_t slice =
			end - now < NOP_SLICE_NS ? end - now : NOP_SLICE_NS;
		const struct timespec ts = { .tv_nsec = slice };

		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		err = qbnpu_pace_spend(run->pace, QBNPU_PACE_UNITS);
		now = qbrt_now_ns();
	}
	(void)pthread_setcancelstate(old, &old);
	return err;
}

int qbnpu_ref_prepare_nop(const struct qbnpu_prepare *prepare,
			  struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_nop *cmd = (const void *)prepare->cmd;
	struct ref_nop *nop = calloc(1, sizeof(*nop));

	if (!nop)
		return -ENOMEM;
	nop->base.run = run_nop;
	nop->delay_ns = (int64_t)cmd->delay_ns;
	*prepared = &nop->base;
	return 0;
}

struct ref_timestamp {
	struct qbnpu_prepared base;
	uint64_t offset;
	uint32_t binding;
};

static int run_timestamp(const struct qbnpu_prepared *prepared,
			 const struct qbnpu_run *run)
{
	const struct ref_timestamp *stamp = (const void *)prepared;
	const uint64_t now = (uint64_t)qbrt_now_ns();

	memcpy(run->bases[stamp->binding] + stamp->offset, &now, sizeof(now));
	return 0;
}

int qbnpu_ref_prepare_timestamp(const struct qbnpu_prepare *prepare,
				struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_timestamp *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *dst = &prepare->operands[cmd->dst];
	struct ref_timestamp *stamp = calloc(1, sizeof(*stamp));

	if (!stamp)
		return -ENOMEM;
	stamp->base.run = run_timestamp;
	stamp->offset = dst->offset;
	stamp->binding = dst->binding;
	*prepared = &stamp->base;
	return 0;
}

/* FILL, COPY and CRC: one loop and the size of an element. */
struct ref_move {
	struct qbnpu_prepared base;
	struct ref_loop loop;
	uint32_t element_size;
	uint32_t is_one_byte;   /* FILL: every byte of value is the same */
	uint8_t value[8];       /* FILL */
	uint64_t result_offset; /* CRC */
	uint32_t result_binding;
};

/* Dense runs go in large steps; a unit is then about 16 bytes. */
static void set_steps(struct ref_loop *loop, uint32_t element_size)
{
	uint32_t view;

	loop->work = 1 + element_size / 16;
	for (view = 0; view < loop->num_views; view++) {
		if (ref_loop_stride(loop, view) != element_size)
			return;
	}
	loop->block = element_size < DENSE_STEP
			      ? (uint32_t)(DENSE_STEP / element_size)
			      : 1;
}

static void fill_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_move *move = arg;
	const uint64_t stride = ref_loop_stride(&move->loop, 0);
	size_t i;

	if (move->is_one_byte && stride == move->element_size) {
		memset(at[0], move->value[0], count * move->element_size);
		return;
	}
	for (i = 0; i < count; i++)
		memcpy(at[0] + i * stride, move->value, move->element_size);
}

static int run_fill(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	const struct ref_move *move = (const void *)prepared;

	return qbnpu_ref_loop_run(&move->loop, run, fill_row, move);
}

static struct ref_move *alloc_move(const struct qbnpu_operand *const *operands,
				   uint32_t num_operands)
{
	struct ref_move *move = calloc(1, sizeof(*move));

	if (!move)
		return NULL;
	qbnpu_ref_loop_begin(&move->loop, operands, num_operands);
	move->element_size = operands[0]->element_size;
	set_steps(&move->loop, move->element_size);
	return move;
}

int qbnpu_ref_prepare_fill(const struct qbnpu_prepare *prepare,
			   struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_fill *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *dst = &prepare->operands[cmd->dst];
	struct ref_move *move = alloc_move(&dst, 1);
	uint32_t i;

	if (!move)
		return -ENOMEM;
	move->base.run = run_fill;
	move->is_one_byte = 1;
	for (i = 0; i < move->element_size; i++) {
		move->value[i] = (uint8_t)(cmd->value >> (8 * i));
		if (move->value[i] != move->value[0])
			move->is_one_byte = 0;
	}
	*prepared = &move->base;
	return 0;
}

/* Copies count elements of one size between strides. */
#define COPY_ELEMENTS(size) \
	do { \
		for (i = 0; i < count; i++) \
			memcpy(dst + i * dst_stride, src + i * src_stride, \
			       size); \
	} while (0)

static void copy_row(uint8_t *dst, uint64_t dst_stride, const uint8_t *src,
		     uint64_t src_stride, size_t count, size_t element_size)
{
	size_t i;

	if (dst_stride == element_size && src_stride == element_size) {
		memcpy(dst, src, count * element_size);
		return;
	}
	switch (element_size) {
	case 1:
		COPY_ELEMENTS(1);
		break;
	case 2:
		COPY_ELEMENTS(2);
		break;
	case 4:
		COPY_ELEMENTS(4);
		break;
	case 8:
		COPY_ELEMENTS(8);
		break;
	default:
		COPY_ELEMENTS(element_size);
		break;
	}
}

static void copy_loop_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct ref_move *move = arg;

	copy_row(at[0], ref_loop_stride(&move->loop, 0), at[1],
		 ref_loop_stride(&move->loop, 1), count, move->element_size);
}

static int run_copy(const struct qbnpu_prepared *prepared,
		    const struct qbnpu_run *run)
{
	const struct ref_move *move = (const void *)prepared;

	return qbnpu_ref_loop_run(&move->loop, run, copy_loop_row, move);
}

int qbnpu_ref_prepare_copy(const struct qbnpu_prepare *prepare,
			   struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_copy *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *operands[] = {
		&prepare->operands[cmd->dst],
		&prepare->operands[cmd->src],
	};
	struct ref_move *move = alloc_move(operands, 2);

	if (!move)
		return -ENOMEM;
	move->base.run = run_copy;
	*prepared = &move->base;
	return 0;
}

int qbnpu_copy_run(const struct qbnpu_copy_shape *shape, const void *src,
		   void *dst, struct qbnpu_pace *pace)
{
	const uint64_t *const strides[] = { shape->dst.strides,
					    shape->src.strides };
	uint8_t *const bases[] = { dst, qbnpu_read_base(src) };
	const struct qbnpu_run run = { .bases = bases, .pace = pace };
	struct ref_move move = {
		.loop = { .bindings = { 0, 1 }, .block = REF_BLOCK },
		.element_size = shape->element_size,
	};

	qbnpu_ref_loop_shape(&move.loop, shape->rank, shape->dims, strides, 2);
	set_steps(&move.loop, shape->element_size);
	return qbnpu_ref_loop_run(&move.loop, &run, copy_loop_row, &move);
}

struct crc_state {
	const struct ref_move *move;
	uLong *crc;
};

static void crc_row(const void *arg, uint8_t *const *at, size_t count)
{
	const struct crc_state *state = arg;
	const uint32_t element_size = state->move->element_size;
	uint64_t block[REF_BLOCK];
	const void *dense;

	/* dense runs are longer than the block and not copied into it */
	dense = qbnpu_ref_gather(block, at[0],
				 ref_loop_stride(&state->move->loop, 0), count,
				 element_size);
	*state->crc = crc32_z(*state->crc, dense, count * element_size);
}

static int run_crc(const struct qbnpu_prepared *prepared,
		   const struct qbnpu_run *run)
{
	const struct ref_move *move = (const void *)prepared;
	uLong crc = crc32_z(0, NULL, 0);
	const struct crc_state state = { .move = move, .crc = &crc };
	uint32_t result;
	int err;

	err = qbnpu_ref_loop_run(&move->loop, run, crc_row, &state);
	if (err)
		return err;
	result = (uint32_t)crc;
	memcpy(run->bases[move->result_binding] + move->result_offset, &result,
	       sizeof(result));
	return 0;
}

int qbnpu_ref_prepare_crc(const struct qbnpu_prepare *prepare,
			  struct qbnpu_prepared **prepared)
{
	const struct qbnpu_cmd_crc *cmd = (const void *)prepare->cmd;
	const struct qbnpu_operand *src = &prepare->operands[cmd->src];
	const struct qbnpu_operand *dst = &prepare->operands[cmd->dst];
	struct ref_move *move = alloc_move(&src, 1);

	if (!move)
		return -ENOMEM;
	move->base.run = run_crc;
	move->loop.work = src->element_size;
	move->result_offset = dst->offset;
	move->result_binding = dst->binding;
	*prepared = &move->base;
	return 0;
}
