// SPDX-License-Identifier: MIT
/*
 * The order of sums, and the post block. The inner loop is written with the
 * compiler's vector types: lanes are columns, so no sum is reordered and every
 * instruction set gives the same bits. Products are never fused with sums
 * (-ffp-contract=off).
 */
#include "ref-sum.h"

#include <string.h>

/* Floats; commands with more packed weights pack them at each run. */
#define MAX_PACKED ((size_t)16 << 20)

#define PACE_MACS 8u /* products of one unit of work */

typedef float f32x8 __attribute__((vector_size(32)));

/* What the tiles of one block have in common. */
struct tiles {
	const float (*a)[REF_SUM_DEPTH];
	const float *b;
	size_t panel_size; /* floats from one panel of b to the next */
	double (*total)[REF_SUM_COLUMNS];
	size_t rows, columns, depth;
};

static inline __attribute__((always_inline)) void
add_total(double *total, const f32x8 *low, const f32x8 *high)
{
	size_t i;

	for (i = 0; i < 8; i++) {
		total[i] += (double)(*low)[i];
		total[i + 8] += (double)(*high)[i];
	}
}

/* Four rows by one panel. */
static inline __attribute__((always_inline)) void
add_four(const float (*a)[REF_SUM_DEPTH], const float *b, size_t depth,
	 double (*total)[REF_SUM_COLUMNS])
{
	size_t begin, end, k;

	for (begin = 0; begin < depth; begin = end) {
		f32x8 low0 = { 0 }, low1 = { 0 }, low2 = { 0 }, low3 = { 0 };
		f32x8 high0 = { 0 }, high1 = { 0 }, high2 = { 0 },
		      high3 = { 0 };

		end = begin + REF_SUM_TERMS < depth ? begin + REF_SUM_TERMS
						    : depth;
		for (k = begin; k < end; k++) {
			f32x8 low, high;

			memcpy(&low, b + k * REF_SUM_PANEL, sizeof(low));
			memcpy(&high, b + k * REF_SUM_PANEL + 8, sizeof(high));
			low0 += a[0][k] * low;
			high0 += a[0][k] * high;
			low1 += a[1][k] * low;
			high1 += a[1][k] * high;
			low2 += a[2][k] * low;
			high2 += a[2][k] * high;
			low3 += a[3][k] * low;
			high3 += a[3][k] * high;
		}
		add_total(total[0], &low0, &high0);
		add_total(total[1], &low1, &high1);
		add_total(total[2], &low2, &high2);
		add_total(total[3], &low3, &high3);
	}
}

/* One row by one panel: the same sums. */
static inline __attribute__((always_inline)) void
add_one(const float *a, const float *b, size_t depth, double *total)
{
	size_t begin, end, k;

	for (begin = 0; begin < depth; begin = end) {
		f32x8 sum_low = { 0 }, sum_high = { 0 };

		end = begin + REF_SUM_TERMS < depth ? begin + REF_SUM_TERMS
						    : depth;
		for (k = begin; k < end; k++) {
			f32x8 low, high;

			memcpy(&low, b + k * REF_SUM_PANEL, sizeof(low));
			memcpy(&high, b + k * REF_SUM_PANEL + 8, sizeof(high));
			sum_low += a[k] * low;
			sum_high += a[k] * high;
		}
		add_total(total, &sum_low, &sum_high);
	}
}

static inline __attribute__((always_inline)) void
add_tiles(const struct tiles *tiles)
{
	size_t row, column;

	for (column = 0; column < tiles->columns; column += REF_SUM_PANEL) {
		const float *b =
			tiles->b + column / REF_SUM_PANEL * tiles->panel_size;

		for (row = 0; row + 4 <= tiles->rows; row += 4)
			add_four(tiles->a + row, b, tiles->depth,
				 (double(*)[REF_SUM_COLUMNS])(
					 &tiles->total[row][column]));
		for (; row < tiles->rows; row++)
			add_one(tiles->a[row], b, tiles->depth,
				&tiles->total[row][column]);
	}
}

static void add_tiles_plain(const struct tiles *tiles)
{
	add_tiles(tiles);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
add_tiles_avx2(const struct tiles *tiles)
{
	add_tiles(tiles);
}
#endif

static void add_block(const struct tiles *tiles)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		add_tiles_avx2(tiles);
		return;
	}
#endif
	add_tiles_plain(tiles);
}

/* Fills the panels of b for part, which has any number of columns. */
static void pack_panels(const struct ref_sum *sum,
			const struct ref_sum_part *part, float *b,
			size_t panel_size)
{
	struct ref_sum_part panel = *part;
	size_t done;

	for (done = 0; done < part->columns; done += REF_SUM_PANEL) {
		panel.column = part->column + done;
		panel.columns = part->columns - done < REF_SUM_PANEL
					? part->columns - done
					: REF_SUM_PANEL;
		sum->pack_b(sum->arg, &panel,
			    (float(*)[REF_SUM_PANEL])(b + done / REF_SUM_PANEL *
								  panel_size));
	}
}

/* Adds terms k to k + depth of a block of rows and columns. */
static void add_terms(const struct ref_sum *sum,
		      const struct ref_sum_part *part,
		      struct ref_sum_scratch *scratch)
{
	struct tiles tiles = {
		.a = (const float(*)[REF_SUM_DEPTH])scratch->a,
		.b = &scratch->b[0][0][0],
		.panel_size = REF_SUM_DEPTH * REF_SUM_PANEL,
		.total = scratch->total,
		.rows = part->rows,
		.columns = part->columns,
		.depth = part->depth,
	};

	/* rows that fit whole are packed once for all columns */
	if (part->column == 0 || sum->depth > REF_SUM_DEPTH)
		sum->pack_a(sum->arg, part, scratch->a);
	if (sum->packed) {
		tiles.panel_size = sum->depth * REF_SUM_PANEL;
		tiles.b = sum->packed +
			  part->column / REF_SUM_PANEL * tiles.panel_size +
			  part->k * REF_SUM_PANEL;
	} else {
		pack_panels(sum, part, &scratch->b[0][0][0], tiles.panel_size);
	}
	add_block(&tiles);
}

static size_t cut(uint64_t extent, uint64_t begin, size_t most)
{
	return extent - begin < most ? (size_t)(extent - begin) : most;
}

int qbnpu_ref_sum_run(const struct ref_sum *sum, const struct qbnpu_run *run)
{
	struct ref_sum_scratch *scratch = run->scratch;
	struct ref_sum_part part;
	int err;

	for (part.row = 0; part.row < sum->rows; part.row += part.rows) {
		part.rows = cut(sum->rows, part.row, REF_SUM_ROWS);
		for (part.column = 0; part.column < sum->columns;
		     part.column += part.columns) {
			part.columns =
				cut(sum->columns, part.column, REF_SUM_COLUMNS);
			memset(scratch->total, 0,
			       part.rows * sizeof(scratch->total[0]));
			for (part.k = 0; part.k < sum->depth;
			     part.k += part.depth) {
				part.depth =
					cut(sum->depth, part.k, REF_SUM_DEPTH);
				err = qbnpu_pace_spend(
					run->pace,
					64 + part.rows * part.columns *
							part.depth / PACE_MACS);
				if (err)
					return err;
				add_terms(sum, &part, scratch);
			}
			sum->finish(sum->arg, &part, scratch->total);
		}
	}
	return 0;
}

size_t qbnpu_ref_sum_packed_size(uint64_t columns, uint64_t depth,
				 uint64_t num_matrices)
{
	const uint64_t panels = (columns + REF_SUM_PANEL - 1) / REF_SUM_PANEL;

	/* each factor is at most an extent: the products fit */
	if (depth > MAX_PACKED || num_matrices > MAX_PACKED / depth ||
	    panels * REF_SUM_PANEL > MAX_PACKED / depth / num_matrices)
		return 0;
	return (size_t)(panels * REF_SUM_PANEL * depth);
}

void qbnpu_ref_sum_pack(const struct ref_sum *sum, float *packed)
{
	const struct ref_sum_part part = {
		.columns = sum->columns,
		.depth = sum->depth,
	};

	pack_panels(sum, &part, packed, sum->depth * REF_SUM_PANEL);
}

bool qbnpu_ref_post_begin(struct ref_post *post, const struct qbnpu_post *cmd)
{
	post->alpha = 1.0;
	post->residual_scale = (double)ref_f32(cmd->residual_scale);
	post->act_a = ref_f32(cmd->act_a);
	post->act_b = ref_f32(cmd->act_b);
	post->has_affine = cmd->flags & QBNPU_POST_AFFINE;
	post->mul = ref_f32(cmd->mul);
	post->add = ref_f32(cmd->add);
	post->act = NULL;
	post->work = 1;
	if (!cmd->act)
		return true;
	post->act = qbnpu_ref_unary_row(cmd->act, &post->work);
	return post->act;
}

static double load_f32(const uint8_t *at)
{
	float value;

	memcpy(&value, at, sizeof(value));
	return (double)value;
}

void qbnpu_ref_post_line(const struct ref_post *post,
			 const struct ref_line *line)
{
	float values[REF_SUM_COLUMNS];
	size_t i;

	for (i = 0; i < line->count; i++) {
		double sum = post->alpha * line->total[i];

		if (line->bias)
			sum += load_f32(line->bias + i * line->bias_stride);
		if (line->residual)
			sum += post->residual_scale *
			       load_f32(line->residual +
					i * line->residual_stride);
		values[i] = (float)sum;
	}
	if (post->act)
		post->act(values, values, line->count, post->act_a,
			  post->act_b);
	for (i = 0; post->has_affine && i < line->count; i++)
		values[i] = values[i] * post->mul + post->add;
	qbnpu_ref_scatter(line->dst, line->dst_stride, values, line->count,
			  sizeof(float));
}
