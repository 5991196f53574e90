// SPDX-License-Identifier: MIT
/*
 * What is checked before an inference has any effect, in the order of the
 * specification and after infer-options.c: counts, shapes and sizes, data types,
 * device, aliasing. The first failure decides; its sentence names the buffer,
 * what was expected and what was given.
 */
#include "infer.h"

#include <string.h>

#include "dtype.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

/* "(16777216, " eight times fits */
#define SHAPE_TEXT_NBYTES 128

/* The plain case of what follows: everything is as the first variant has it. */
static inline bool fits_plainly(const struct qbrt_pinned_memory *mem,
				const struct qbm_io *io, uint64_t nbytes,
				const struct qbrt_device *device)
{
	const struct qbrt_storage *storage = mem->storage;

	if (mem->dtype != io->device_dtype || mem->ndim != io->rank ||
	    storage->device != device ||
	    storage->buffer.size - mem->offset < nbytes)
		return false;
	for (uint32_t i = 0; i < io->rank; i++)
		if (mem->shape[i] != io->shape[i])
			return false;
	return true;
}

static bool is_plain(const struct qbrt_inference *inference,
		     const struct qbrt_launched_variant *variant)
{
	return inference->num_inputs == variant->variant->input_count &&
	       inference->num_outputs == variant->variant->output_count &&
	       variant->variant->batch <= 1 && !variant->facts->param_count;
}

/* Whether other buffers, of the same call, lie in the same memory. */
static bool is_among(struct qbrt_pinned_memory *const *buffers, size_t num,
		     uint64_t id)
{
	for (size_t i = 0; i < num; i++)
		if (buffers[i]->storage->buffer.id == id)
			return true;
	return false;
}

/* Everything that is checked holds, and no memory is given twice. */
static bool all_fit_plainly(const struct qbrt_inference *inference,
			    const struct qbrt_launched_variant *variant)
{
	const struct qbrt_device *device = inference->launched->device;
	const struct drm_qbnpu_binding *binding = variant->bindings;

	if (!is_plain(inference, variant))
		return false;
	for (size_t i = 0; i < inference->num_inputs; i++)
		if (!fits_plainly(inference->inputs[i], &variant->inputs[i],
				  binding++->length, device))
			return false;
	for (size_t i = 0; i < inference->num_outputs; i++) {
		const struct qbrt_pinned_memory *mem = inference->outputs[i];
		uint64_t id = mem->storage->buffer.id;

		if (!fits_plainly(mem, &variant->outputs[i], binding++->length,
				  device) ||
		    mem->storage->buffer.is_read_only ||
		    is_among(inference->inputs, inference->num_inputs, id) ||
		    is_among(inference->outputs, i, id))
			return false;
	}
	return true;
}

/*
 * The model's shape, with a leading axis of the variant's batch where there is
 * one, and of 1 if the caller likes one. -k takes the multiples of k.
 */
static bool fits(const struct qbm_io *io, uint32_t batch,
		 const struct qbrt_pinned_memory *mem)
{
	int64_t lead = io->flags & QBRT_IO_BATCHED ? batch : 1;
	const int64_t *shape = mem->shape;
	size_t ndim = mem->ndim;

	if (ndim == io->rank + 1u && shape[0] == lead) {
		shape++;
		ndim--;
	} else if (lead != 1) {
		return false;
	}
	if (ndim != io->rank)
		return false;
	for (size_t i = 0; i < ndim; i++) {
		int32_t extent = io->shape[i];

		if (extent > 0 ? shape[i] != extent : shape[i] % -extent != 0)
			return false;
	}
	return true;
}

/*
 * The shape has asked for the multiple. Equal parameters mean equal extents:
 * the first one to name it decides.
 */
static bool fits_params(const struct qbm_io *io,
			const struct qbnpu_facts *facts,
			const struct qbrt_pinned_memory *mem, uint32_t *params,
			uint32_t *known)
{
	const struct qbnpu_param *param;
	uint32_t number = io->dyn_param;
	int64_t extent;

	if (number >= facts->param_count)
		return true;
	param = &facts->params[number];
	extent = mem->shape[mem->ndim - io->rank + io->dyn_axis];
	if (extent < param->min || extent > param->max)
		return false;
	if (*known & (1u << number))
		return params[number] == extent;
	params[number] = (uint32_t)extent;
	*known |= 1u << number;
	return true;
}

/*
 * Index of the first buffer that does not fit the variant, inputs then
 * outputs; their number: all fit, and params are what they say.
 */
static size_t match(const struct qbrt_inference *inference,
		    const struct qbrt_launched_variant *variant,
		    uint32_t params[QBNPU_MAX_PARAMS])
{
	size_t num = inference->num_inputs + inference->num_outputs;
	uint32_t batch = variant->variant->batch;
	uint32_t known = 0;

	for (uint32_t i = 0; i < QBNPU_MAX_PARAMS; i++)
		params[i] = i < variant->facts->param_count
				    ? variant->facts->params[i].min
				    : 0;
	for (size_t i = 0; i < num; i++) {
		bool is_input = i < inference->num_inputs;
		size_t index = is_input ? i : i - inference->num_inputs;
		const struct qbm_io *io = is_input ? &variant->inputs[index]
						   : &variant->outputs[index];
		const struct qbrt_pinned_memory *mem =
			is_input ? inference->inputs[index]
				 : inference->outputs[index];

		/* of another type: the size says nothing, the type is refused */
		if (!fits(io, batch, mem) ||
		    !fits_params(io, variant->facts, mem, params, &known) ||
		    (mem->dtype == io->device_dtype &&
		     mem->storage->buffer.size - mem->offset <
			     variant->bindings[i].length))
			return i;
	}
	return num;
}

/* "image" for the sentence: input or output by its place in the call. */
struct place {
	const char *what;
	size_t index;
	const struct qbm_io *io;
	const struct qbrt_pinned_memory *mem;
};

static struct place locate(const struct qbrt_inference *inference,
			   const struct qbrt_launched_variant *variant,
			   size_t number)
{
	bool is_input = number < inference->num_inputs;
	size_t index = is_input ? number : number - inference->num_inputs;

	return (struct place){
		.what = is_input ? "input" : "output",
		.index = index,
		.io = is_input ? &variant->inputs[index]
			       : &variant->outputs[index],
		.mem = is_input ? inference->inputs[index]
				: inference->outputs[index],
	};
}

static const char *get_name(const struct qbrt_inference *inference,
			    const struct place *place)
{
	return qbrt_model_file_string(inference->model->file, place->io->name);
}

static bool is_chw(const struct qbm_io *io,
		   const struct qbrt_pinned_memory *mem)
{
	const int64_t *shape = mem->shape;

	if (io->layout != QBRT_IO_LAYOUT_HWC || io->rank != 3 ||
	    (mem->ndim != 3 && mem->ndim != 4))
		return false;
	shape += mem->ndim - 3;
	return shape[0] == io->shape[2] && shape[1] == io->shape[0] &&
	       shape[2] == io->shape[1];
}

static enum qbrt_status
refuse_shape(const struct qbrt_inference *inference,
	     const struct qbrt_launched_variant *variant, size_t number)
{
	struct place place = locate(inference, variant, number);
	const char *name = get_name(inference, &place);
	char expected[SHAPE_TEXT_NBYTES];
	char given[SHAPE_TEXT_NBYTES];
	int64_t shape[QBRT_PINNED_MAX_NDIM];
	size_t ndim = 0;

	if (place.io->flags & QBRT_IO_BATCHED && variant->variant->batch > 1)
		shape[ndim++] = variant->variant->batch;
	for (size_t i = 0; i < place.io->rank; i++)
		shape[ndim++] = place.io->shape[i];
	qbrt_shape_text(shape, ndim, expected, sizeof(expected));
	qbrt_shape_text(place.mem->shape, place.mem->ndim, given,
			sizeof(given));
	if (is_chw(place.io, place.mem))
		return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
				 "%s: %s %zu (%s): shape %s is in CHW order; "
				 "pinned memory is in the device's HWC order "
				 "%s, and a transposition would be a copy",
				 inference->model->name, place.what,
				 place.index, name, given, expected);
	if (fits(place.io, variant->variant->batch, place.mem))
		return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
				 "%s: %s %zu (%s): shape %s is outside what "
				 "variable axes of %s may be, unequal to "
				 "another buffer's, or its memory has fewer "
				 "than %llu bytes",
				 inference->model->name, place.what,
				 place.index, name, given, expected,
				 (unsigned long long)place.io->size);
	return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
			 "%s: %s %zu (%s): shape %s expected, %s given%s",
			 inference->model->name, place.what, place.index, name,
			 expected, given,
			 inference->launched->num_variants > 1
				 ? " (no other variant takes it either)"
				 : "");
}

static enum qbrt_status refuse_counts(const struct qbrt_inference *inference,
				      const struct qbm_variant *variant)
{
	if (inference->num_inputs != variant->input_count)
		return qbrt_fail(QBRT_MODEL_INPUT_COUNT_MISMATCHED,
				 "%s: %u input%s expected, %zu given",
				 inference->model->name, variant->input_count,
				 qbrt_plural(variant->input_count),
				 inference->num_inputs);
	return qbrt_fail(QBRT_MODEL_OUTPUT_COUNT_MISMATCHED,
			 "%s: %u output%s expected, %zu given",
			 inference->model->name, variant->output_count,
			 qbrt_plural(variant->output_count),
			 inference->num_outputs);
}

/* Index of the first buffer of another pinned data type; or their number. */
static size_t match_dtypes(const struct qbrt_inference *inference,
			   const struct qbrt_launched_variant *variant)
{
	size_t num = inference->num_inputs + inference->num_outputs;
	size_t i;

	for (i = 0; i < num; i++) {
		struct place place = locate(inference, variant, i);

		if (place.mem->dtype != place.io->device_dtype)
			break;
	}
	return i;
}

static enum qbrt_status
refuse_dtype(const struct qbrt_inference *inference,
	     const struct qbrt_launched_variant *variant, size_t number)
{
	struct place place = locate(inference, variant, number);

	return qbrt_fail(
		QBRT_MODEL_DTYPE_MISMATCHED,
		"%s: %s %zu (%s): pinned data type %s expected, %s given",
		inference->model->name, place.what, place.index,
		get_name(inference, &place),
		qbrt_dtype_name((enum qbrt_dtype)place.io->device_dtype),
		qbrt_dtype_name(place.mem->dtype));
}

/* A variant that does not fit, and what of it: shapes or data types. */
struct misfit {
	const struct qbrt_launched_variant *variant;
	size_t bad_buffer;
};

static void note_misfit(struct misfit *misfit,
			const struct qbrt_launched_variant *variant,
			size_t bad_buffer)
{
	if (misfit->variant)
		return;
	misfit->variant = variant;
	misfit->bad_buffer = bad_buffer;
}

/*
 * The first variant that takes the buffers; else the complaint of the first one
 * whose shapes fit, else that of the first one with so many.
 */
static enum qbrt_status choose_variant(struct qbrt_inference *inference)
{
	const struct qbrt_launched *launched = inference->launched;
	size_t num = inference->num_inputs + inference->num_outputs;
	struct misfit shape = { 0 };
	struct misfit dtype = { 0 };

	for (size_t i = 0; i < launched->num_variants; i++) {
		const struct qbrt_launched_variant *variant =
			&launched->variants[i];
		size_t bad;

		if (inference->num_inputs != variant->variant->input_count ||
		    inference->num_outputs != variant->variant->output_count)
			continue;
		bad = match(inference, variant, inference->params);
		if (bad < num) {
			note_misfit(&shape, variant, bad);
			continue;
		}
		bad = match_dtypes(inference, variant);
		if (bad == num) {
			inference->variant = variant;
			return QBRT_OK;
		}
		note_misfit(&dtype, variant, bad);
	}
	if (dtype.variant)
		return refuse_dtype(inference, dtype.variant, dtype.bad_buffer);
	if (shape.variant)
		return refuse_shape(inference, shape.variant, shape.bad_buffer);
	return refuse_counts(inference, launched->variants[0].variant);
}

static enum qbrt_status check_device(const struct qbrt_inference *inference)
{
	size_t num = inference->num_inputs + inference->num_outputs;

	for (size_t i = 0; i < num; i++) {
		struct place place = locate(inference, inference->variant, i);

		if (place.mem->storage->device != inference->launched->device)
			return qbrt_fail(
				QBRT_PINNED_MEMORY_WRONG_ACCELERATOR,
				"%s: %s %zu lies on %s, and the model is "
				"launched on %s",
				inference->model->name, place.what, place.index,
				place.mem->storage->device->id,
				inference->launched->device->id);
	}
	return QBRT_OK;
}

/* Places of the call, inputs first: some byte of one is a byte of the other. */
static bool overlap(const struct qbrt_inference *inference, size_t a, size_t b)
{
	const struct drm_qbnpu_binding *bindings = inference->variant->bindings;
	const struct qbrt_pinned_memory *one =
		locate(inference, inference->variant, a).mem;
	const struct qbrt_pinned_memory *two =
		locate(inference, inference->variant, b).mem;

	return one->storage->buffer.id == two->storage->buffer.id &&
	       one->offset < two->offset + bindings[b].length &&
	       two->offset < one->offset + bindings[a].length;
}

static enum qbrt_status check_output_alias(struct qbrt_inference *inference,
					   size_t output)
{
	const struct qbrt_launched_variant *variant = inference->variant;
	uint32_t first_input = variant->variant->first_input;
	const struct qbrt_pinned_memory *mem = inference->outputs[output];
	size_t num_inputs = inference->num_inputs;
	size_t place = num_inputs + output;

	for (size_t i = 0; i < output; i++)
		if (overlap(inference, num_inputs + i, place))
			return qbrt_fail(QBRT_PINNED_MEMORY_ALIASED,
					 "%s: outputs %zu and %zu are the same "
					 "memory",
					 inference->model->name, i, output);
	for (size_t i = 0; i < num_inputs; i++) {
		if (!overlap(inference, i, place))
			continue;
		if (variant->outputs[output].alias != first_input + i ||
		    inference->inputs[i]->offset != mem->offset)
			return qbrt_fail(QBRT_PINNED_MEMORY_ALIASED,
					 "%s: input %zu and output %zu are the "
					 "same memory, which the model does "
					 "not allow",
					 inference->model->name, i, output);
		inference->aliased_inputs |= UINT64_C(1) << i;
	}
	return QBRT_OK;
}

static enum qbrt_status check_writable(const struct qbrt_inference *inference)
{
	for (size_t i = 0; i < inference->num_outputs; i++)
		if (inference->outputs[i]->storage->buffer.is_read_only)
			return qbrt_fail(QBRT_PINNED_MEMORY_READ_ONLY,
					 "%s: output %zu came by a read-only "
					 "descriptor",
					 inference->model->name, i);
	return QBRT_OK;
}

enum qbrt_status qbrt_inference_check_buffers(struct qbrt_inference *inference)
{
	const struct qbrt_launched_variant *first =
		&inference->launched->variants[0];
	enum qbrt_status status;

	inference->aliased_inputs = 0;
	memset(inference->params, 0, sizeof(inference->params));
	if (all_fit_plainly(inference, first)) {
		inference->variant = first;
		return QBRT_OK;
	}
	status = choose_variant(inference);
	if (!status)
		status = check_device(inference);
	for (size_t i = 0; i < inference->num_outputs && !status; i++)
		status = check_output_alias(inference, i);
	return status ? status : check_writable(inference);
}
