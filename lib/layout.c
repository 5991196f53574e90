// SPDX-License-Identifier: MIT
/*
 * A copy is a walk over axes, each with a stride in the destination, in the
 * source and in the scales. Axes that are one in all three are merged first;
 * then the axis that is nearest in the destination and the one that is nearest
 * in the source are walked in tiles that stay in the cache, in runs along the
 * longer of the two. One run is one function by type.
 */
#include "layout.h"

#include <assert.h>
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "util.h"

/* elements of a tile; both sides of it fit into a first-level cache */
#define TILE 4096
#define TILE_SIDE 64
/* adding and taking away 1.5 * 2^23 rounds |x| < 2^22 to nearest even */
#define ROUNDER 12582912.0f
/* beyond what any zero point brings back into 8 bits */
#define QUANT_LIMIT 1024.0f

bool qbrt_view_set(struct qbrt_view *view, void *data, enum qbrt_dtype dtype,
		   const int64_t *shape, size_t ndim, const int64_t *strides)
{
	int64_t dense = (int64_t)qbrt_dtype_itemsize(dtype);
	int64_t below = 0;
	int64_t above = dense;
	int64_t span;

	if (ndim > QBRT_VIEW_MAX_NDIM)
		return false;
	view->data = data;
	view->dtype = dtype;
	view->ndim = ndim;
	for (size_t i = ndim; i--;) {
		int64_t stride = strides ? strides[i] : dense;

		if (shape[i] < 1)
			return false;
		view->shape[i] = shape[i];
		view->strides[i] = shape[i] == 1 ? 0 : stride;
		if (!strides && __builtin_mul_overflow(dense, shape[i], &dense))
			return false;
		/* what merging multiplies fits as well */
		if (__builtin_mul_overflow(view->strides[i], shape[i], &span))
			return false;
		span -= view->strides[i];
		if (span < 0 ? __builtin_sub_overflow(below, -span, &below)
			     : __builtin_add_overflow(above, span, &above))
			return false;
	}
	/* the range lies in the address space */
	return !__builtin_sub_overflow(above, below, &span) &&
	       (uintptr_t)data >= -(uintptr_t)below &&
	       (uintptr_t)data <= UINTPTR_MAX - (uintptr_t)above;
}

uint64_t qbrt_view_get_nbytes(const struct qbrt_view *view)
{
	uint64_t nbytes = qbrt_dtype_itemsize(view->dtype);

	for (size_t i = 0; i < view->ndim; i++)
		nbytes *= (uint64_t)view->shape[i];
	return nbytes;
}

void qbrt_view_get_range(const struct qbrt_view *view, uintptr_t *begin,
			 uintptr_t *end)
{
	*begin = (uintptr_t)view->data;
	*end = *begin + qbrt_dtype_itemsize(view->dtype);
	for (size_t i = 0; i < view->ndim; i++) {
		int64_t span = view->strides[i] * (view->shape[i] - 1);

		*(span < 0 ? begin : end) += (uintptr_t)span;
	}
}

static int64_t get_distance(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

/* Nearest axis first: each must step over all that the nearer ones cover. */
bool qbrt_view_is_injective(const struct qbrt_view *view)
{
	int64_t covered = (int64_t)qbrt_dtype_itemsize(view->dtype);
	uint32_t left = (1u << view->ndim) - 1;

	for (size_t i = 0; i < view->ndim; i++)
		if (view->shape[i] == 1)
			left &= ~(1u << i);
	while (left) {
		size_t nearest = (size_t)__builtin_ctz(left);
		int64_t distance;

		for (size_t i = nearest + 1; i < view->ndim; i++)
			if (left >> i & 1 &&
			    get_distance(view->strides[i]) <
				    get_distance(view->strides[nearest]))
				nearest = i;
		distance = get_distance(view->strides[nearest]);
		if (distance < covered)
			return false;
		covered += distance * (view->shape[nearest] - 1);
		left &= ~(1u << nearest);
	}
	return true;
}

static bool is_quantised(enum qbrt_dtype dtype)
{
	return dtype == QBRT_DTYPE_INT8 || dtype == QBRT_DTYPE_UINT8;
}

bool qbrt_layout_converts(enum qbrt_dtype from, enum qbrt_dtype to)
{
	return from == to || (from == QBRT_DTYPE_FLOAT32 && is_quantised(to)) ||
	       (is_quantised(from) && to == QBRT_DTYPE_FLOAT32);
}

/* Elements in a line; what does not change along it stands in the walk. */
struct run {
	char *dst;
	const char *src;
	const float *scale;
	int64_t dst_stride;
	int64_t src_stride;
	int64_t scale_stride; /* in floats */
	int64_t num;
};

struct walk {
	size_t ndim;
	int64_t shape[QBRT_VIEW_MAX_NDIM];
	int64_t dst_strides[QBRT_VIEW_MAX_NDIM];
	int64_t src_strides[QBRT_VIEW_MAX_NDIM];
	int64_t scale_strides[QBRT_VIEW_MAX_NDIM];
	void (*copy_run)(const struct walk *walk, const struct run *run);
	/* of the quantised side */
	int32_t zero_point;
	int32_t least;
	int32_t greatest;
};

#define DEFINE_COPY_RUN(size) \
	static void copy_run_##size(const struct walk *walk, \
				    const struct run *run) \
	{ \
		(void)walk; \
		if (run->dst_stride == (size) && run->src_stride == (size)) { \
			memcpy(run->dst, run->src, (size_t)run->num *(size)); \
			return; \
		} \
		for (int64_t i = 0; i < run->num; i++) \
			memcpy(run->dst + i * run->dst_stride, \
			       run->src + i * run->src_stride, size); \
	}
DEFINE_COPY_RUN(1)
DEFINE_COPY_RUN(2)
DEFINE_COPY_RUN(4)
DEFINE_COPY_RUN(8)

/* FM33: a true division, ties to even, the zero point added after rounding. */
static int32_t quantise(const struct walk *walk, float number, float scale)
{
	float x = number / scale;

	if (isnan(x))
		return walk->zero_point;
	x = x < -QUANT_LIMIT ? -QUANT_LIMIT : x;
	x = x > QUANT_LIMIT ? QUANT_LIMIT : x;
	x = (x + ROUNDER) - ROUNDER;
	x += (float)walk->zero_point;
	x = x < (float)walk->least ? (float)walk->least : x;
	x = x > (float)walk->greatest ? (float)walk->greatest : x;
	return (int32_t)x;
}

static void quantise_run(const struct walk *walk, const struct run *run)
{
	for (int64_t i = 0; i < run->num; i++) {
		float number;
		uint8_t stored;

		memcpy(&number, run->src + i * run->src_stride, sizeof(number));
		stored = (uint8_t)quantise(walk, number,
					   run->scale[i * run->scale_stride]);
		memcpy(run->dst + i * run->dst_stride, &stored, sizeof(stored));
	}
}

/* Q355 */
static void dequantise_run(const struct walk *walk, const struct run *run)
{
	for (int64_t i = 0; i < run->num; i++) {
		uint8_t byte = (uint8_t)run->src[i * run->src_stride];
		int32_t stored = walk->least < 0 ? (int8_t)byte : byte;
		float number = (float)(stored - walk->zero_point) *
			       run->scale[i * run->scale_stride];

		memcpy(run->dst + i * run->dst_stride, &number, sizeof(number));
	}
}

static void choose_run(struct walk *walk, enum qbrt_dtype from,
		       enum qbrt_dtype to, const struct qbrt_quant *quant)
{
	enum qbrt_dtype stored = from == QBRT_DTYPE_FLOAT32 ? to : from;

	if (from != to) {
		walk->copy_run = from == QBRT_DTYPE_FLOAT32 ? quantise_run
							    : dequantise_run;
		walk->zero_point = quant->zero_point;
		walk->least = stored == QBRT_DTYPE_INT8 ? -128 : 0;
		walk->greatest = stored == QBRT_DTYPE_INT8 ? 127 : 255;
		return;
	}
	switch (qbrt_dtype_itemsize(from)) {
	case 1:
		walk->copy_run = copy_run_1;
		break;
	case 2:
		walk->copy_run = copy_run_2;
		break;
	case 4:
		walk->copy_run = copy_run_4;
		break;
	default:
		walk->copy_run = copy_run_8;
		break;
	}
}

/* Inside the axes that are there; one with its neighbour where it can be. */
static void add_axis(struct walk *walk, int64_t extent, int64_t dst_stride,
		     int64_t src_stride, int64_t scale_stride)
{
	size_t i = walk->ndim - 1;

	if (extent == 1)
		return;
	if (walk->ndim && walk->dst_strides[i] == dst_stride * extent &&
	    walk->src_strides[i] == src_stride * extent &&
	    walk->scale_strides[i] == scale_stride * extent)
		extent *= walk->shape[i];
	else
		i = walk->ndim++;
	walk->shape[i] = extent;
	walk->dst_strides[i] = dst_stride;
	walk->src_strides[i] = src_stride;
	walk->scale_strides[i] = scale_stride;
}

/* A walk of one run, or of one element, gets axes of 1 around it: two in all. */
static void add_outer_axes(struct walk *walk, enum qbrt_dtype to,
			   enum qbrt_dtype from)
{
	if (!walk->ndim) {
		walk->ndim = 1;
		walk->shape[0] = 1;
		walk->dst_strides[0] = (int64_t)qbrt_dtype_itemsize(to);
		walk->src_strides[0] = (int64_t)qbrt_dtype_itemsize(from);
	}
	if (walk->ndim > 1)
		return;
	walk->ndim = 2;
	walk->shape[1] = walk->shape[0];
	walk->dst_strides[1] = walk->dst_strides[0];
	walk->src_strides[1] = walk->src_strides[0];
	walk->scale_strides[1] = walk->scale_strides[0];
	walk->dst_strides[0] *= walk->shape[0];
	walk->src_strides[0] *= walk->shape[0];
	walk->shape[0] = 1;
}

static void swap_axes(struct walk *walk, size_t a, size_t b)
{
	int64_t *const lists[] = { walk->shape, walk->dst_strides,
				   walk->src_strides, walk->scale_strides };

	for (size_t i = 0; i < qbrt_array_size(lists); i++) {
		int64_t value = lists[i][a];

		lists[i][a] = lists[i][b];
		lists[i][b] = value;
	}
}

/* Of the first num axes, the one with the smallest distance between items. */
static size_t find_nearest(const int64_t *strides, size_t num)
{
	size_t nearest = num - 1;

	for (size_t i = num - 1; i--;)
		if (get_distance(strides[i]) < get_distance(strides[nearest]))
			nearest = i;
	return nearest;
}

/* The nearest axis of the destination last, that of the source before it. */
static void sort_axes(struct walk *walk)
{
	size_t nearest_src = find_nearest(walk->src_strides, walk->ndim);
	size_t nearest_dst = find_nearest(walk->dst_strides, walk->ndim);
	size_t last = walk->ndim - 1;

	swap_axes(walk, nearest_dst, last);
	if (nearest_src == nearest_dst)
		return;
	if (nearest_src == last)
		nearest_src = nearest_dst;
	swap_axes(walk, nearest_src, last - 1);
}

static struct run make_run(const struct walk *walk, size_t axis)
{
	return (struct run){
		.dst_stride = walk->dst_strides[axis],
		.src_stride = walk->src_strides[axis],
		.scale_stride = walk->scale_strides[axis],
	};
}

/* How far a tile reaches along one of its two axes. */
static int64_t get_tile(int64_t extent, int64_t other)
{
	int64_t side = TILE / (other < TILE_SIDE ? other : TILE_SIDE);

	return extent < side ? extent : side;
}

/* One tile: runs along axis, one beside the other along across. */
static void copy_tile(const struct walk *walk, const struct run *begin,
		      size_t across, int64_t num_runs)
{
	struct run run = *begin;

	for (int64_t i = 0; i < num_runs; i++) {
		walk->copy_run(walk, &run);
		run.dst += walk->dst_strides[across];
		run.src += walk->src_strides[across];
		run.scale += walk->scale_strides[across];
	}
}

static void move_run(const struct walk *walk, struct run *run, size_t axis,
		     int64_t steps)
{
	run->dst += steps * walk->dst_strides[axis];
	run->src += steps * walk->src_strides[axis];
	run->scale += steps * walk->scale_strides[axis];
}

/*
 * The last two axes, from the run's place on. Where the last is the nearest of
 * both sides there is nothing to transpose: runs are whole.
 */
static void copy_plane(const struct walk *walk, const struct run *begin)
{
	size_t last = walk->ndim - 1;
	bool is_turned = get_distance(walk->src_strides[last - 1]) <
			 get_distance(walk->src_strides[last]);
	bool is_across = is_turned && walk->shape[last - 1] > walk->shape[last];
	size_t along = is_across ? last - 1 : last;
	size_t across = is_across ? last : last - 1;
	int64_t length = walk->shape[along];
	int64_t width = walk->shape[across];
	int64_t tile_length = is_turned ? get_tile(length, width) : length;
	int64_t tile_width = is_turned ? get_tile(width, length) : width;

	for (int64_t i = 0; i < length; i += tile_length)
		for (int64_t j = 0; j < width; j += tile_width) {
			struct run run = make_run(walk, along);

			run.dst = begin->dst;
			run.src = begin->src;
			run.scale = begin->scale;
			move_run(walk, &run, along, i);
			move_run(walk, &run, across, j);
			run.num = length - i < tile_length ? length - i
							   : tile_length;
			copy_tile(walk, &run, across,
				  width - j < tile_width ? width - j
							 : tile_width);
		}
}

/* Every plane of the axes in front of the last two. */
static void copy_planes(const struct walk *walk, struct run run)
{
	int64_t at[QBRT_VIEW_MAX_NDIM] = { 0 };
	size_t num_outer = walk->ndim - 2;
	size_t i;

	do {
		copy_plane(walk, &run);
		for (i = num_outer; i--;) {
			move_run(walk, &run, i, 1);
			if (++at[i] < walk->shape[i])
				break;
			move_run(walk, &run, i, -walk->shape[i]);
			at[i] = 0;
		}
	} while (i != SIZE_MAX);
}

/* Whatever modes the caller's thread has: rounding, denormals, traps. */
static void convert_planes(const struct walk *walk, struct run run)
{
	femode_t modes;

	(void)fegetmode(&modes);
	(void)fesetmode(FE_DFL_MODE);
	copy_planes(walk, run);
	(void)fesetmode(&modes);
}

void qbrt_layout_copy(const struct qbrt_view *dst, const struct qbrt_view *src,
		      const struct qbrt_quant *quant)
{
	static const float no_scale = 1.0f;
	struct walk walk = { 0 };
	bool has_scales = src->dtype != dst->dtype;
	struct run run = { .dst = dst->data, .src = src->data };

	assert(qbrt_layout_converts(src->dtype, dst->dtype));
	assert(quant || !has_scales);
	run.scale = has_scales ? quant->scales : &no_scale;
	choose_run(&walk, src->dtype, dst->dtype, quant);
	for (size_t i = 0; i < dst->ndim; i++)
		add_axis(&walk, dst->shape[i], dst->strides[i], src->strides[i],
			 has_scales && quant->axis == i);
	add_outer_axes(&walk, dst->dtype, src->dtype);
	sort_axes(&walk);
	if (has_scales)
		convert_planes(&walk, run);
	else
		copy_planes(&walk, run);
}

void qbrt_layout_clear(const struct qbrt_view *dst)
{
	static char zeros[sizeof(uint64_t)];
	struct qbrt_view src = *dst;

	src.data = zeros;
	memset(src.strides, 0, sizeof(src.strides));
	qbrt_layout_copy(dst, &src, NULL);
}
