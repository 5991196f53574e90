/* SPDX-License-Identifier: MIT */
/*
 * How host arrays fit a model: which variant, how many inferences, which order
 * of axes. Pure over the model file; nothing of the arrays but shape and type
 * is looked at. infer-match.c decides, infer-match-words.c says why not,
 * infer-match-query.c answers what follows for the outputs.
 */
#ifndef QBRT_INFER_MATCH_H
#define QBRT_INFER_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "model.h"

/* An array's axes: leading one, and those of a tensor. */
#define QBRT_ARRAY_MAX_NDIM (QBNPU_MAX_RANK + 1)

struct qbrt_array_match {
	const struct qbrt_model *model;
	size_t variant;
	const struct qbm_variant *entry;
	const struct qbm_io *inputs;  /* entry->input_count */
	const struct qbm_io *outputs; /* entry->output_count */
	const struct qbnpu_facts *facts;
	uint32_t params[QBNPU_MAX_PARAMS];
	uint64_t source_inputs; /* bit i: input i has its source_shape */
	size_t num_runs;        /* executions of the program, >= 1 */
	bool has_batch;         /* an input has a leading axis */
	bool is_chw;
	bool is_ambiguous;
	bool is_raw;      /* int8 in, int8 out (Q320) */
	bool is_to_float; /* QBRT_INFER_TO_FLOAT */
	/* why qbrt_arrays_match fails with QBRT_MODEL_DTYPE_MISMATCHED */
	bool has_bad_input;
	size_t bad_input;
};

/* The arrays of one list of a call. */
struct qbrt_array_list {
	const char *what; /* "input", "output" */
	const struct qbrt_array *arrays;
	size_t num;
};

/* Why an input does not fit a variant; the words are in infer-match-words.c. */
enum qbrt_misfit {
	QBRT_MISFIT_NONE,
	QBRT_MISFIT_RANK,
	QBRT_MISFIT_EXTENT,
	QBRT_MISFIT_BATCH,
	QBRT_MISFIT_RANGE,
	QBRT_MISFIT_EQUAL,
};

/* One try: a variant, and the first input that does not fit it. */
struct qbrt_array_try {
	struct qbrt_array_match match;
	const struct qbrt_array *arrays;
	bool takes_source;     /* the source model's shapes too */
	uint32_t known_params; /* bit p: an input has said it */
	size_t bad_input;
	enum qbrt_misfit misfit;
};

/*
 * infer-match-query.c: the options of a plain call (NULL: defaults) into known.
 * taken_flags: QBRT_INFER_... that this call takes.
 */
enum qbrt_status
qbrt_arrays_read_options(const struct qbrt_model *model,
			 const struct qbrt_infer_options *options,
			 uint32_t taken_flags,
			 struct qbrt_infer_options *known);

#define QBRT_ARRAY_FLAGS \
	(QBRT_INFER_BLOCKING | QBRT_INFER_HWC | QBRT_INFER_CHW | \
	 QBRT_INFER_TO_FLOAT)

/* QBRT_INVALID_ARGUMENT for what no model could take. */
enum qbrt_status qbrt_arrays_check(const struct qbrt_model *model,
				   const struct qbrt_array_list *list);

/*
 * flags: of struct qbrt_infer_options. QBRT_MODEL_INPUT_COUNT_MISMATCHED,
 * QBRT_MODEL_SHAPE_MISMATCHED, QBRT_MODEL_DTYPE_MISMATCHED,
 * QBRT_NOT_IMPLEMENTED.
 */
enum qbrt_status qbrt_arrays_match(const struct qbrt_model *model,
				   uint32_t flags,
				   const struct qbrt_array_list *inputs,
				   struct qbrt_array_match *match);

/* Type (Q320) and shape of an output; shape: QBRT_ARRAY_MAX_NDIM. */
enum qbrt_dtype qbrt_match_get_dtype(const struct qbrt_array_match *match,
				     size_t output);
size_t qbrt_match_get_shape(const struct qbrt_array_match *match, size_t output,
			    int64_t *shape);

/* infer-match-query.c: all of an output; info->size is set. */
enum qbrt_status
qbrt_match_describe_output(const struct qbrt_array_match *match, size_t index,
			   struct qbrt_io_info *info);

/* As above, with QBRT_MODEL_OUTPUT_COUNT_MISMATCHED. */
enum qbrt_status
qbrt_match_check_outputs(const struct qbrt_array_match *match,
			 const struct qbrt_array_list *outputs);

/* Tries one variant: its inputs fit in this order of axes, or misfit is set. */
bool qbrt_array_try_variant(struct qbrt_array_try *attempt,
			    const struct qbrt_model *model, size_t variant,
			    bool is_chw);

/* Tensors per execution: the batch of the program or 1. */
size_t qbrt_match_get_unit(const struct qbrt_array_match *match,
			   const struct qbm_io *io);

/* Of a tensor's axis, the array's, without the leading one. */
size_t qbrt_match_get_axis(const struct qbrt_array_match *match,
			   const struct qbm_io *io, size_t axis);

/* Of a tensor's axis, the source model's; NONE8: it comes from none. */
uint8_t qbrt_match_get_source_axis(const struct qbm_io *io, size_t axis);

/* The variable axis has what the parameters say. */
int64_t qbrt_match_get_extent(const struct qbrt_array_match *match,
			      const struct qbm_io *io, size_t axis);

/*
 * infer-match-words.c: how a call ends, once it is outside the launched model:
 * the log function may use the library. A status that an input's type was the
 * reason of is logged as Q311 wants. match: set where qbrt_arrays_match sets it.
 */
enum qbrt_status qbrt_match_end(enum qbrt_status status,
				const struct qbrt_array_match *match,
				const struct qbrt_array_list *inputs);

/* Fails with 22. */
enum qbrt_status qbrt_match_refuse_dtype(const struct qbrt_array_match *match,
					 const struct qbrt_array_list *list,
					 size_t index, uint32_t supported);

/* Fails with 21: what was given, and for each variant what was tried. */
enum qbrt_status qbrt_match_refuse_shapes(const struct qbrt_model *model,
					  uint32_t flags,
					  const struct qbrt_array_list *inputs);

#endif
