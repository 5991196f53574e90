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

/* Executions first, first + 1, ... of a call: num of them in one set. */
struct qbrt_array_part {
	const struct qbrt_array_match *match;
	const struct qbrt_launched_variant *variant;
	struct qbrt_staging_set *set;
	char **moved; /* the outputs, where they left the set; else NULL */
	size_t first;
	size_t num; /* with more than 1 variant is looked at */
};

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

/*
 * Converts and copies, and says in each buffer of the set how much of it the
 * job uses. Returns how many bytes were written.
 */
uint64_t qbrt_array_copy_in(const struct qbrt_array_part *part,
			    const struct qbrt_array *inputs);
uint64_t qbrt_array_copy_out(const struct qbrt_array_part *part,
			     const struct qbrt_array *outputs);

/*
 * infer-array.c: outputs that share bytes with each other or with inputs (NULL:
 * there are none), or whose strides fold them.
 */
enum qbrt_status
qbrt_arrays_check_memory(const struct qbrt_model *model,
			 const struct qbrt_array_list *inputs,
			 const struct qbrt_array_list *outputs);

#endif
