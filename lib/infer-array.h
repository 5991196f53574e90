/* SPDX-License-Identifier: MIT */
/*
 * Host arrays into and out of the staging of a launched model. A call, and
 * later a future, holds one set from its copies in to its copies out.
 */
#ifndef QBRT_INFER_ARRAY_H
#define QBRT_INFER_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "infer-match.h"
#include "model.h"
#include "pinned-memory.h"

/*
 * infer-array-place.c: what a call uses where it lies. Bit i: buffer i of the
 * variant, inputs, then outputs; of those mems has the storage, with a
 * reference, and the address of the call's first execution.
 */
struct qbrt_array_places {
	uint64_t used;
	struct qbrt_pinned_memory mems[QBNPU_MAX_BINDINGS];
};

/* Executions first, first + 1, ... of a call: num of them in one set. */
struct qbrt_array_part {
	const struct qbrt_array_match *match;
	const struct qbrt_launched_variant *variant;
	struct qbrt_staging_set *set; /* NULL: every buffer is in its place */
	struct qbrt_array_places *places; /* NULL: none is */
	char **moved; /* the outputs, where they left the set; else NULL */
	size_t first;
	size_t num; /* with more than 1 variant is looked at */
};

static inline size_t
qbrt_array_count_buffers(const struct qbrt_launched_variant *variant)
{
	return variant->variant->input_count + variant->variant->output_count;
}

/* How many executions one job of the variant has at most, memory bounded. */
size_t qbrt_array_max_items(const struct qbrt_launched *launched,
			    size_t variant);

/*
 * A set for num_items executions, from the pool or made now;
 * qbrt_staging_give takes it back.
 */
enum qbrt_status qbrt_array_take_set(struct qbrt_launched *launched,
				     size_t variant, size_t num_items,
				     struct qbrt_staging_set **set);

/* Type and layout of the array are those of the device. */
bool qbrt_array_is_as_wanted(const struct qbrt_array_part *part, size_t number,
			     const struct qbrt_array *array);

/* Of one buffer, by the executions of the part and their actual extents. */
size_t qbrt_array_get_used_nbytes(const struct qbrt_array_part *part,
				  size_t number);

/*
 * Converts and copies what is not in its place, and says in each buffer of the
 * set how much of it the job uses. Returns how many bytes were written.
 */
uint64_t qbrt_array_copy_in(const struct qbrt_array_part *part,
			    const struct qbrt_array *inputs);
uint64_t qbrt_array_copy_out(const struct qbrt_array_part *part,
			     const struct qbrt_array *outputs);

/* The arrays that may be used where they lie, of a matched call. */
void qbrt_array_find_places(const struct qbrt_launched *launched,
			    const struct qbrt_array_match *match,
			    const struct qbrt_array *inputs,
			    const struct qbrt_array *outputs,
			    struct qbrt_array_places *places);
/* Some buffer needs a set. */
bool qbrt_array_has_to_copy(const struct qbrt_array_part *part);
/* From here on none is. */
void qbrt_array_leave_places(struct qbrt_array_places *places);

/* The buffers of the part's job, those of the set and those in their places. */
void qbrt_array_place_part(const struct qbrt_array_part *part,
			   struct qbrt_pinned_memory *buffers[]);

/*
 * A job has failed: outputs in their places that it left half written become
 * zeros (Q331), and stay invalid (Q485).
 */
void qbrt_array_clear_places(const struct qbrt_array_part *part,
			     const struct qbrt_array *outputs);

/* Fills with zeros. */
void qbrt_array_clear(const struct qbrt_array *array);

/*
 * infer-array.c: outputs that share bytes with each other or with inputs (NULL:
 * there are none), or whose strides fold them.
 */
enum qbrt_status
qbrt_arrays_check_memory(const struct qbrt_model *model,
			 const struct qbrt_array_list *inputs,
			 const struct qbrt_array_list *outputs);

#endif
