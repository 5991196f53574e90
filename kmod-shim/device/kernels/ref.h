/* SPDX-License-Identifier: MIT */
/*
 * Shared by the reference kernels: what a prepared command begins with, and
 * the one loop over strided views that element-wise commands use.
 */
#ifndef QBNPU_REF_H
#define QBNPU_REF_H

#include <stddef.h>
#include <stdint.h>

#include "device/kernels.h"

/* Elements that a row function handles at once. */
#define REF_BLOCK 256u
#define REF_MAX_VIEWS 3u

/*
 * First member of every prepared command, which is one allocation: a pointer
 * to this is a pointer to the whole.
 */
struct qbnpu_prepared {
	int (*run)(const struct qbnpu_prepared *prepared,
		   const struct qbnpu_run *run);
	size_t scratch_size;
};

/*
 * Up to three views of equal extents, walked together in row-major order.
 * Axes of extent 1 are gone and axes that are one run in every view are
 * merged; the last axis is the one that row functions see.
 */
struct ref_loop {
	uint64_t extents[QBNPU_MAX_RANK];
	uint64_t strides[REF_MAX_VIEWS][QBNPU_MAX_RANK];
	uint64_t offsets[REF_MAX_VIEWS];
	uint32_t bindings[REF_MAX_VIEWS];
	uint32_t num_views;
	uint32_t rank;  /* >= 1 */
	uint32_t block; /* most elements of one call of row() */
	uint32_t work;  /* pace units of one element */
};

/* count elements; at[v] is the first of view v. */
typedef void ref_row(const void *arg, uint8_t *const *at, size_t count);

/* f32 function of UNARY, also fused after a sum. dst may be src. */
typedef void ref_f32_row(float *dst, const float *src, size_t count, float a,
			 float b);

/* Function of BINARY on f32. dst may be a or b. */
typedef void ref_f32_pair_row(float *dst, const float *a, const float *b,
			      size_t count);

void qbnpu_ref_loop_begin(struct ref_loop *loop,
			  const struct qbnpu_operand *const *operands,
			  uint32_t num_operands);

/* Merges the axes; offsets, bindings, block and work are the caller's. */
void qbnpu_ref_loop_shape(struct ref_loop *loop, uint32_t rank,
			  const uint32_t *dims, const uint64_t *const *strides,
			  uint32_t num_views);

int qbnpu_ref_loop_run(const struct ref_loop *loop, const struct qbnpu_run *run,
		       ref_row *row, const void *arg);

/* Stride of a view along the axis that row functions see. */
static inline uint64_t ref_loop_stride(const struct ref_loop *loop,
				       uint32_t view)
{
	return loop->strides[view][loop->rank - 1];
}

/*
 * count elements of 1, 2, 4 or 8 bytes, stride bytes apart, as a dense run.
 * gather: the elements themselves when they are dense, else a copy in block.
 */
const void *qbnpu_ref_gather(void *block, const uint8_t *src, uint64_t stride,
			     size_t count, uint32_t element_size);
void qbnpu_ref_scatter(uint8_t *dst, uint64_t stride, const void *block,
		       size_t count, uint32_t element_size);

/*
 * Integers and BOOL as 64 bits: signed types sign-extended, others
 * zero-extended, BOOL 0 or 1. store keeps the low bits; BOOL: 0 or 1.
 */
void qbnpu_ref_load_int(int64_t *block, const uint8_t *src, uint64_t stride,
			size_t count, uint32_t dtype);
void qbnpu_ref_store_int(uint8_t *dst, uint64_t stride, const int64_t *block,
			 size_t count, uint32_t dtype);

/* The row of a UNARY function on f32 to f32, and its pace units; NULL: none */
ref_f32_row *qbnpu_ref_unary_row(uint32_t fn, uint32_t *work);
/* The row of a BINARY function on f32; NULL: none */
ref_f32_pair_row *qbnpu_ref_binary_row(uint32_t fn, uint32_t *work);

/* prepare of each opcode: -EOPNOTSUPP for a form without a kernel */
#define REF_PREPARE(name) \
	int qbnpu_ref_prepare_##name(const struct qbnpu_prepare *prepare, \
				     struct qbnpu_prepared **prepared)
REF_PREPARE(nop);
REF_PREPARE(timestamp);
REF_PREPARE(fill);
REF_PREPARE(copy);
REF_PREPARE(crc);
REF_PREPARE(conv2d);
REF_PREPARE(matmul);
REF_PREPARE(pool);
REF_PREPARE(unary);
REF_PREPARE(binary);
REF_PREPARE(cast);

/* A float that is carried as its bits. */
static inline float ref_f32(uint32_t bits)
{
	union {
		uint32_t bits;
		float value;
	} both = { .bits = bits };

	return both.value;
}

#endif
