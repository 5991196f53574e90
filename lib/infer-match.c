// SPDX-License-Identifier: MIT
/*
 * Variants in order; for each the shapes as HWC, then as CHW, over all inputs
 * together, and last with the shapes of the source model (FM32). An array has
 * the tensor's axes, or one more in front that counts inferences.
 */
#include "infer-match.h"

#include <string.h>

#include "dtype.h"
#include "layout.h"
#include "status.h"
#include "util.h"

static enum qbrt_status check_array(const struct qbrt_model *model,
				    const char *what, size_t index,
				    const struct qbrt_array *array)
{
	struct qbrt_view view;

	if (!array->data || (array->ndim && !array->shape))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: %s %zu: %s is NULL", model->name, what,
				 index, array->data ? "shape" : "data");
	if (array->reserved || !qbrt_dtype_is_valid(array->dtype))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: %s %zu: dtype is %d and reserved %u, "
				 "expected one of enum qbrt_dtype and 0",
				 model->name, what, index, (int)array->dtype,
				 array->reserved);
	/* no model takes it */
	if (array->ndim > QBRT_ARRAY_MAX_NDIM)
		return QBRT_OK;
	for (size_t i = 0; i < array->ndim; i++) {
		if (array->shape[i] < 0)
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "%s: %s %zu: extent %zu is negative",
					 model->name, what, index, i);
		/* nor does one take this */
		if (!array->shape[i])
			return QBRT_OK;
	}
	if (!qbrt_view_set(&view, array->data, array->dtype, array->shape,
			   array->ndim, array->strides))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: %s %zu: shape and strides reach beyond "
				 "the address space",
				 model->name, what, index);
	return QBRT_OK;
}

enum qbrt_status qbrt_arrays_check(const struct qbrt_model *model,
				   const struct qbrt_array_list *list)
{
	enum qbrt_status status = QBRT_OK;

	if (list->num && !list->arrays)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s: %ss is NULL",
				 model->name, list->what);
	for (size_t i = 0; i < list->num && !status; i++)
		status = check_array(model, list->what, i, &list->arrays[i]);
	return status;
}

size_t qbrt_match_get_unit(const struct qbrt_array_match *match,
			   const struct qbm_io *io)
{
	return io->flags & QBRT_IO_BATCHED ? match->entry->batch : 1;
}

/* H, W, C are axes 1, 2, 0 of an array in CHW order. */
size_t qbrt_match_get_axis(const struct qbrt_array_match *match,
			   const struct qbm_io *io, size_t axis)
{
	if (match->is_chw && io->layout == QBRT_IO_LAYOUT_HWC)
		return (axis + 1) % 3;
	return axis;
}

int64_t qbrt_match_get_extent(const struct qbrt_array_match *match,
			      const struct qbm_io *io, size_t axis)
{
	if (io->shape[axis] > 0)
		return io->shape[axis];
	return match->params[io->dyn_param];
}

static bool takes_extent(int32_t wanted, int64_t given)
{
	return wanted > 0 ? given == wanted : given > 0 && given % -wanted == 0;
}

/* Equal parameters mean equal extents: the first one to name it decides. */
static enum qbrt_misfit note_param(struct qbrt_array_try *attempt,
				   const struct qbm_io *io, int64_t extent)
{
	struct qbrt_array_match *match = &attempt->match;
	uint32_t number = io->dyn_param;
	const struct qbnpu_param *param = &match->facts->params[number];

	if (number >= match->facts->param_count || extent < param->min ||
	    extent > param->max)
		return QBRT_MISFIT_RANGE;
	if (attempt->known_params >> number & 1 &&
	    match->params[number] != extent)
		return QBRT_MISFIT_EQUAL;
	match->params[number] = (uint32_t)extent;
	attempt->known_params |= 1u << number;
	return QBRT_MISFIT_NONE;
}

static enum qbrt_misfit note_runs(struct qbrt_array_try *attempt,
				  const struct qbm_io *io, int64_t num)
{
	struct qbrt_array_match *match = &attempt->match;
	size_t unit = qbrt_match_get_unit(match, io);
	size_t num_runs = (size_t)num / unit;
	int64_t most; /* what an output may have to count */

	if (num < 1 || (size_t)num % unit ||
	    (match->num_runs && match->num_runs != num_runs) ||
	    __builtin_mul_overflow(num_runs, match->entry->batch, &most))
		return QBRT_MISFIT_BATCH;
	match->num_runs = num_runs;
	return QBRT_MISFIT_NONE;
}

/* The model's shape, or with a leading axis. */
static enum qbrt_misfit take_shape(struct qbrt_array_try *attempt,
				   const struct qbm_io *io,
				   const struct qbrt_array *array)
{
	struct qbrt_array_match *match = &attempt->match;
	bool has_batch = array->ndim == io->rank + 1u;
	const int64_t *shape = array->shape + has_batch;
	enum qbrt_misfit misfit = QBRT_MISFIT_NONE;

	if (array->ndim != io->rank && !has_batch)
		return QBRT_MISFIT_RANK;
	for (size_t i = 0; i < io->rank; i++)
		if (!takes_extent(io->shape[i],
				  shape[qbrt_match_get_axis(match, io, i)]))
			return QBRT_MISFIT_EXTENT;
	if (io->dyn_axis != QBNPU_NONE8)
		misfit = note_param(
			attempt, io,
			shape[qbrt_match_get_axis(match, io, io->dyn_axis)]);
	if (!misfit)
		misfit =
			note_runs(attempt, io, has_batch ? array->shape[0] : 1);
	if (!misfit)
		match->has_batch |= has_batch;
	return misfit;
}

uint8_t qbrt_match_get_source_axis(const struct qbm_io *io, size_t axis)
{
	size_t device_axis = axis + !!(io->flags & QBRT_IO_BATCHED);

	return device_axis < QBNPU_MAX_RANK ? io->source_perm[device_axis]
					    : QBNPU_NONE8;
}

/* The same bytes are both shapes: all axes that matter, in the same order. */
static bool is_in_source_order(const struct qbm_io *io)
{
	int last = -1;

	for (size_t i = 0; i < io->rank; i++) {
		uint8_t axis = qbrt_match_get_source_axis(io, i);

		if (axis == QBNPU_NONE8 && io->shape[i] == 1)
			continue;
		if (axis == QBNPU_NONE8 || axis < last)
			return false;
		last = axis;
	}
	/* its scales need an axis to lie along */
	return !io->scale_count ||
	       (qbrt_match_get_source_axis(io, io->scale_axis) <
			io->source_rank &&
		io->source_shape[qbrt_match_get_source_axis(
			io, io->scale_axis)] == (int64_t)io->scale_count);
}

/*
 * The whole tensor as the source model has it, batch axis included. Nobody has
 * checked source_shape against shape: the products decide.
 */
static enum qbrt_misfit take_source_shape(struct qbrt_array_try *attempt,
					  size_t index, const struct qbm_io *io,
					  const struct qbrt_array *array)
{
	struct qbrt_array_match *match = &attempt->match;
	bool is_variable = io->dyn_axis != QBNPU_NONE8;
	uint8_t dyn_axis =
		is_variable ? qbrt_match_get_source_axis(io, io->dyn_axis)
			    : QBNPU_NONE8;
	enum qbrt_misfit misfit = QBRT_MISFIT_NONE;
	uint64_t num_given = 1;
	uint64_t num = qbrt_match_get_unit(match, io);

	/* an image's is one of its two orders */
	if (array->ndim != io->source_rank ||
	    io->layout == QBRT_IO_LAYOUT_HWC || !is_in_source_order(io))
		return QBRT_MISFIT_RANK;
	for (size_t i = 0; i < array->ndim; i++) {
		int32_t wanted = i == dyn_axis ? io->shape[io->dyn_axis]
					       : io->source_shape[i];

		if ((wanted <= 0 && i != dyn_axis) ||
		    !takes_extent(wanted, array->shape[i]) ||
		    qbrt_mul_overflows(num_given, (uint64_t)array->shape[i],
				       &num_given))
			return QBRT_MISFIT_EXTENT;
	}
	if (is_variable && dyn_axis < array->ndim)
		misfit = note_param(attempt, io, array->shape[dyn_axis]);
	else if (is_variable)
		misfit = QBRT_MISFIT_RANK;
	if (misfit)
		return misfit;
	for (size_t i = 0; i < io->rank; i++)
		if (qbrt_mul_overflows(
			    num, (uint64_t)qbrt_match_get_extent(match, io, i),
			    &num))
			return QBRT_MISFIT_EXTENT;
	if (num != num_given)
		return QBRT_MISFIT_EXTENT;
	match->source_inputs |= UINT64_C(1) << index;
	return note_runs(attempt, io, (int64_t)qbrt_match_get_unit(match, io));
}

static void begin_variant(struct qbrt_array_try *attempt,
			  const struct qbrt_model *model, size_t variant,
			  bool is_chw)
{
	const struct qbrt_model_file *file = model->file;
	const struct qbm_variant *entry = &file->variants[variant];
	uint32_t instance = qbrt_model_get_instance(model, (uint32_t)variant);
	struct qbrt_array_match *match = &attempt->match;

	memset(match, 0, sizeof(*match));
	match->model = model;
	match->variant = variant;
	match->entry = entry;
	match->inputs = file->ios + entry->first_input;
	match->outputs = file->ios + entry->first_output;
	match->facts = file->programs[instance].facts;
	match->is_chw = is_chw;
	for (uint32_t i = 0; i < match->facts->param_count; i++)
		match->params[i] = match->facts->params[i].min;
	attempt->known_params = 0;
	attempt->misfit = QBRT_MISFIT_NONE;
}

bool qbrt_array_try_variant(struct qbrt_array_try *attempt,
			    const struct qbrt_model *model, size_t variant,
			    bool is_chw)
{
	struct qbrt_array_match *match = &attempt->match;

	begin_variant(attempt, model, variant, is_chw);
	for (size_t i = 0; i < match->entry->input_count; i++) {
		const struct qbm_io *io = &match->inputs[i];
		const struct qbrt_array *array = &attempt->arrays[i];
		enum qbrt_misfit misfit = take_shape(attempt, io, array);

		if (misfit && attempt->takes_source &&
		    !take_source_shape(attempt, i, io, array))
			continue;
		if (!misfit)
			continue;
		attempt->bad_input = i;
		attempt->misfit = misfit;
		return false;
	}
	/* of no input at all, one */
	match->num_runs += !match->num_runs;
	return true;
}

/* The two orders of axes put different numbers into an input. */
static bool differs(const struct qbrt_array_match *match)
{
	for (size_t i = 0; i < match->entry->input_count; i++) {
		const struct qbm_io *io = &match->inputs[i];

		if (io->layout == QBRT_IO_LAYOUT_HWC &&
		    qbrt_match_get_extent(match, io, 2) > 1 &&
		    qbrt_match_get_extent(match, io, 0) *
				    qbrt_match_get_extent(match, io, 1) >
			    1)
			return true;
	}
	return false;
}

/* In the order of Q306 and FM32, or of the flags. */
static bool try_variant(struct qbrt_array_try *attempt,
			const struct qbrt_model *model, size_t variant,
			uint32_t flags)
{
	bool takes_hwc = !(flags & QBRT_INFER_CHW);
	bool takes_chw = !(flags & QBRT_INFER_HWC);

	for (int i = 0; i < 2; i++) {
		attempt->takes_source = i;
		if (takes_hwc &&
		    qbrt_array_try_variant(attempt, model, variant, false)) {
			struct qbrt_array_try other = *attempt;

			attempt->match.is_ambiguous =
				takes_chw && differs(&attempt->match) &&
				qbrt_array_try_variant(&other, model, variant,
						       true);
			return true;
		}
		if (takes_chw &&
		    qbrt_array_try_variant(attempt, model, variant, true))
			return true;
	}
	return false;
}

static bool converts(const struct qbm_io *io)
{
	return qbrt_layout_converts((enum qbrt_dtype)io->host_dtype,
				    (enum qbrt_dtype)io->device_dtype) ||
	       qbrt_layout_converts((enum qbrt_dtype)io->device_dtype,
				    (enum qbrt_dtype)io->host_dtype);
}

/* Index of the first input of a type that is not taken; or their number. */
static size_t find_bad_dtype(const struct qbrt_array_match *match,
			     const struct qbrt_array *arrays)
{
	size_t i;

	for (i = 0; i < match->entry->input_count; i++)
		if (!(match->inputs[i].accepted_dtypes >> arrays[i].dtype & 1))
			break;
	return i;
}

static enum qbrt_status finish(struct qbrt_array_match *match, uint32_t flags,
			       const struct qbrt_array *arrays)
{
	size_t num_inputs = match->entry->input_count;

	match->is_raw = num_inputs > 0;
	for (size_t i = 0; i < num_inputs; i++) {
		const struct qbm_io *io = &match->inputs[i];

		match->is_raw &= arrays[i].dtype == QBRT_DTYPE_INT8;
		if (arrays[i].dtype != (enum qbrt_dtype)io->device_dtype &&
		    !converts(io))
			return qbrt_fail(
				QBRT_NOT_IMPLEMENTED,
				"%s: input %zu: no conversion from %s to %s "
				"yet: give it as %s",
				match->model->name, i,
				qbrt_dtype_name(arrays[i].dtype),
				qbrt_dtype_name(
					(enum qbrt_dtype)io->device_dtype),
				qbrt_dtype_name(
					(enum qbrt_dtype)io->device_dtype));
	}
	match->is_to_float = flags & QBRT_INFER_TO_FLOAT;
	return QBRT_OK;
}

static enum qbrt_status refuse_count(const struct qbrt_model *model, size_t num)
{
	uint32_t expected = model->file->variants[0].input_count;

	return qbrt_fail(QBRT_MODEL_INPUT_COUNT_MISMATCHED,
			 "%s: %u input%s expected, %zu given%s", model->name,
			 expected, qbrt_plural(expected), num,
			 num > expected
				 ? ": a batch is one array with a leading "
				   "axis, not a list of arrays"
				 : "");
}

enum qbrt_status qbrt_arrays_match(const struct qbrt_model *model,
				   uint32_t flags,
				   const struct qbrt_array_list *inputs,
				   struct qbrt_array_match *match)
{
	struct qbrt_array_try attempt = { .arrays = inputs->arrays };
	bool is_count_right = false;
	bool has_shape = false;

	for (size_t i = 0; i < model->file->vari->variant_count; i++) {
		size_t bad_dtype;

		if (model->file->variants[i].input_count != inputs->num)
			continue;
		is_count_right = true;
		if (!try_variant(&attempt, model, i, flags))
			continue;
		bad_dtype = find_bad_dtype(&attempt.match, inputs->arrays);
		if (bad_dtype == inputs->num) {
			*match = attempt.match;
			return finish(match, flags, inputs->arrays);
		}
		/* the first variant of this shape says what it takes */
		if (!has_shape) {
			*match = attempt.match;
			match->has_bad_input = true;
			match->bad_input = bad_dtype;
		}
		has_shape = true;
	}
	if (has_shape)
		return qbrt_match_refuse_dtype(
			match, inputs, match->bad_input,
			match->inputs[match->bad_input].accepted_dtypes);
	if (!is_count_right)
		return refuse_count(model, inputs->num);
	return qbrt_match_refuse_shapes(model, flags, inputs);
}
