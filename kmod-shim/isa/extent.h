/* SPDX-License-Identifier: MIT */
/*
 * Private to isa/: arithmetic of views that the validator and bind.c share.
 * Sums and products that do not fit stay at the largest number, so comparing
 * them with a bound refuses them.
 */
#ifndef QBNPU_EXTENT_H
#define QBNPU_EXTENT_H

#include "isa.h"

static inline uint64_t mul_sat(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? ~0ull : product;
}

static inline uint64_t add_sat(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? ~0ull : sum;
}

/*
 * The axis along which a view touches a byte twice, QBNPU_NONE32 if none does:
 * axes in order of their strides, each stride must reach over the axes inside
 * it. Axes of extent 1 do not count. *extent: bytes that the view spans.
 */
static inline uint32_t find_overlapping_axis(uint32_t rank,
					     const uint32_t *dims,
					     const uint64_t *strides,
					     uint64_t element_size,
					     uint64_t *extent)
{
	uint32_t done = 0;
	uint32_t axis, next;

	*extent = element_size;
	for (;;) {
		next = QBNPU_NONE32;
		for (axis = 0; axis < rank; axis++) {
			if (!(done >> axis & 1) && dims[axis] > 1 &&
			    (next == QBNPU_NONE32 ||
			     strides[axis] < strides[next]))
				next = axis;
		}
		if (next == QBNPU_NONE32 || strides[next] < *extent)
			return next;
		*extent = add_sat(*extent,
				  mul_sat(dims[next] - 1ull, strides[next]));
		done |= 1u << next;
	}
}

#endif
