/* SPDX-License-Identifier: MIT */
/*
 * Strided views of plain memory, and how the elements of one get into another:
 * as they are, quantised, or de-quantised. Pure. A view that qbrt_view_set
 * took has offsets that fit, so nothing later checks for overflow. Each number
 * is a fixed series of f32 operations (docs/spec/device-and-format.md, FM33,
 * Q355), so no compiler, instruction set or floating-point mode of the thread
 * changes a bit of a result.
 */
#ifndef QBRT_LAYOUT_H
#define QBRT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#define QBRT_VIEW_MAX_NDIM 8

struct qbrt_view {
	char *data; /* the element of index 0, 0, ... */
	enum qbrt_dtype dtype;
	size_t ndim;
	int64_t shape[QBRT_VIEW_MAX_NDIM];   /* >= 1 */
	int64_t strides[QBRT_VIEW_MAX_NDIM]; /* bytes; 0 where shape is 1 */
};

/* Number = (stored - zero_point) * scale. */
struct qbrt_quant {
	const float *scales;
	size_t axis; /* of both views, a scale per index; or NO_AXIS: one */
	int32_t zero_point;
};
#define QBRT_QUANT_NO_AXIS SIZE_MAX

/*
 * strides: bytes, any sign, NULL for dense in C order. false: an extent below
 * 1, too many axes, or bytes that cannot all lie in one address space.
 */
bool qbrt_view_set(struct qbrt_view *view, void *data, enum qbrt_dtype dtype,
		   const int64_t *shape, size_t ndim, const int64_t *strides);

/* Bytes of all elements; with zero strides more than there are. */
uint64_t qbrt_view_get_nbytes(const struct qbrt_view *view);

/* From the first byte of the lowest element to behind the highest one. */
void qbrt_view_get_range(const struct qbrt_view *view, uintptr_t *begin,
			 uintptr_t *end);

/*
 * Each index has bytes of its own. A few odd layouts that have (interlocked
 * axes) are denied it.
 */
bool qbrt_view_is_injective(const struct qbrt_view *view);

/* Equal types; float32 to int8 and uint8; int8 and uint8 to float32. */
bool qbrt_layout_converts(enum qbrt_dtype from, enum qbrt_dtype to);

/*
 * Element for element, between views of equal shape that share no byte, of
 * types that qbrt_layout_converts says. quant: not looked at where the types
 * are equal.
 */
void qbrt_layout_copy(const struct qbrt_view *dst, const struct qbrt_view *src,
		      const struct qbrt_quant *quant);

/* Fills with zeros. */
void qbrt_layout_clear(const struct qbrt_view *dst);

#endif
