// SPDX-License-Identifier: MIT
/*
 * Views of one input or output on both sides: the array as the caller gave it,
 * and the buffer as the device wants it (FM30). Both have the same axes:
 * executions, tensors of one execution, the tensor's own. So a transposition,
 * a batch and odd strides are all one copy between two views.
 */
#include "infer-array.h"

#include "dtype.h"
#include "infer.h"
#include "layout.h"
#include "pinned-memory.h"
#include "trace.h"
#include "util.h"

/* Items in one job: bounds what a batch stages at once. */
#define MAX_ITEMS 16
#define MIN_ALIGNMENT 64

size_t qbrt_array_max_items(const struct qbrt_launched *launched,
			    size_t variant)
{
	const struct qbrt_launched_variant *it = &launched->variants[variant];
	size_t max = launched->num_slots < MAX_ITEMS ? launched->num_slots
						     : MAX_ITEMS;

	for (size_t i = 0; i < qbrt_array_count_buffers(it); i++) {
		uint64_t room = launched->device->facts.max_bo_size /
				qbrt_variant_get_stride(it, i);

		if (room < max)
			max = room ? (size_t)room : 1;
	}
	return max;
}

static void fill_want(const struct qbrt_launched_variant *variant,
		      size_t number, size_t num_items,
		      struct qbrt_staging_want *want)
{
	const struct drm_qbnpu_binding *binding = &variant->bindings[number];
	uint32_t align_log2 =
		variant->facts->bindings[binding->index].align_log2;

	want->nbytes =
		binding->length +
		(num_items - 1) * qbrt_variant_get_stride(variant, number);
	want->alignment = (size_t)1 << align_log2;
	if (want->alignment < MIN_ALIGNMENT)
		want->alignment = MIN_ALIGNMENT;
}

enum qbrt_status qbrt_array_take_set(struct qbrt_launched *launched,
				     size_t variant, size_t num_items,
				     struct qbrt_staging_set **set)
{
	const struct qbrt_launched_variant *it = &launched->variants[variant];
	struct qbrt_staging_want wants[QBNPU_MAX_BINDINGS];
	size_t num = qbrt_array_count_buffers(it);

	*set = qbrt_staging_take(&launched->staging, variant, num_items);
	if (*set)
		return QBRT_OK;
	for (size_t i = 0; i < num; i++)
		fill_want(it, i, num_items, &wants[i]);
	return qbrt_staging_make(&launched->staging, launched->device, variant,
				 num_items, wants, num, set);
}

/* The two sides of one input or output. */
struct sides {
	struct qbrt_view host;
	struct qbrt_view device;
	struct qbrt_quant quant;
};

static void fill_quant(const struct qbrt_array_match *match,
		       const struct qbm_io *io, struct sides *sides)
{
	sides->quant.zero_point = io->zero_point;
	sides->quant.scales = &io->scale;
	sides->quant.axis = QBRT_QUANT_NO_AXIS;
	if (!io->scale_count)
		return;
	sides->quant.scales = match->model->file->scales + io->scale_first;
	sides->quant.axis = 2u + io->scale_axis;
}

/* The dense tensor of these extents, behind what is in front of them. */
static void fill_dense(struct qbrt_view *view, size_t first_axis)
{
	int64_t stride = (int64_t)qbrt_dtype_itemsize(view->dtype);

	for (size_t i = view->ndim; i-- > first_axis;) {
		view->strides[i] = stride;
		stride *= view->shape[i];
	}
}

/*
 * The array's axes are the source model's: the tensor's bytes seen in that
 * shape, of one execution.
 */
static void fill_source_sides(const struct qbm_io *io,
			      const struct qbrt_view *given,
			      struct sides *sides)
{
	sides->host = *given;
	sides->device.ndim = given->ndim;
	for (size_t i = 0; i < given->ndim; i++)
		sides->device.shape[i] = given->shape[i];
	fill_dense(&sides->device, 0);
	if (io->scale_count)
		sides->quant.axis =
			qbrt_match_get_source_axis(io, io->scale_axis);
}

static char *get_data(const struct qbrt_array_part *part, size_t number)
{
	if (part->moved && number >= part->match->entry->input_count)
		return part->moved[number - part->match->entry->input_count];
	return part->set->buffers[number]->storage->buffer.data;
}

static const struct qbm_io *get_io(const struct qbrt_array_match *match,
				   size_t number)
{
	size_t num_inputs = match->entry->input_count;

	return number < num_inputs ? &match->inputs[number]
				   : &match->outputs[number - num_inputs];
}

/* All but where the device's side lies. */
static void fill_sides(const struct qbrt_array_part *part, size_t number,
		       const struct qbrt_array *array, struct sides *sides)
{
	const struct qbrt_array_match *match = part->match;
	const struct qbm_io *io = get_io(match, number);
	struct qbrt_view *host = &sides->host;
	struct qbrt_view *device = &sides->device;
	int64_t unit = (int64_t)qbrt_match_get_unit(match, io);
	struct qbrt_view given;
	int64_t step;
	size_t lead;

	(void)qbrt_view_set(&given, array->data, array->dtype, array->shape,
			    array->ndim, array->strides);
	device->dtype = (enum qbrt_dtype)io->device_dtype;
	fill_quant(match, io, sides);
	if (number < match->entry->input_count &&
	    match->source_inputs >> number & 1) {
		fill_source_sides(io, &given, sides);
		return;
	}
	lead = given.ndim - io->rank;
	step = lead ? given.strides[0] : 0;
	host->data = given.data + (int64_t)part->first * unit * step;
	host->dtype = given.dtype;
	host->ndim = device->ndim = io->rank + 2u;
	host->shape[0] = device->shape[0] = (int64_t)part->num;
	host->strides[0] = unit * step;
	host->shape[1] = device->shape[1] = unit;
	host->strides[1] = step;
	for (size_t i = 0; i < io->rank; i++) {
		size_t axis = lead + qbrt_match_get_axis(match, io, i);

		host->shape[2 + i] = device->shape[2 + i] = given.shape[axis];
		host->strides[2 + i] = given.strides[axis];
	}
	fill_dense(device, 1);
	if (part->num > 1)
		device->strides[0] =
			(int64_t)qbrt_variant_get_stride(part->variant, number);
}

bool qbrt_array_is_as_wanted(const struct qbrt_array_part *part, size_t number,
			     const struct qbrt_array *array)
{
	struct sides sides;

	if (array->dtype !=
	    (enum qbrt_dtype)get_io(part->match, number)->device_dtype)
		return false;
	fill_sides(part, number, array, &sides);
	for (size_t i = 0; i < sides.host.ndim; i++)
		if (sides.host.shape[i] > 1 &&
		    sides.host.strides[i] != sides.device.strides[i])
			return false;
	return true;
}

size_t qbrt_array_get_used_nbytes(const struct qbrt_array_part *part,
				  size_t number)
{
	const struct qbm_io *io = get_io(part->match, number);
	size_t nbytes = part->num * qbrt_match_get_unit(part->match, io) *
			qbrt_dtype_itemsize((enum qbrt_dtype)io->device_dtype);

	for (size_t i = 0; i < io->rank; i++)
		nbytes *= (size_t)qbrt_match_get_extent(part->match, io, i);
	return nbytes;
}

QBRT_TRACE_COLD static void trace_copy(const struct qbrt_array_part *part,
				       int64_t begin_ns, uint64_t nbytes)
{
	const struct qbrt_trace_event event = {
		.name = "copy",
		.begin_ns = begin_ns,
		.end_ns = qbrt_now_ns(),
		.model = qbrt_model_get_trace_number(part->match->model),
		.nbytes = nbytes,
	};

	qbrt_trace_host(&event);
}

static bool is_in_place(const struct qbrt_array_part *part, size_t number)
{
	return part->places && part->places->used >> number & 1;
}

uint64_t qbrt_array_copy_in(const struct qbrt_array_part *part,
			    const struct qbrt_array *inputs)
{
	const struct qbrt_array_match *match = part->match;
	size_t num_inputs = match->entry->input_count;
	size_t num = num_inputs + match->entry->output_count;
	int64_t begin_ns = qbrt_trace_begin();
	struct sides sides;
	uint64_t copied = 0;

	for (size_t i = 0; i < num; i++) {
		struct qbrt_pinned_memory *buffer;

		if (is_in_place(part, i))
			continue;
		buffer = part->set->buffers[i];
		buffer->nbytes = qbrt_array_get_used_nbytes(part, i);
		if (i >= num_inputs)
			continue;
		fill_sides(part, i, &inputs[i], &sides);
		sides.device.data = get_data(part, i);
		qbrt_layout_copy(&sides.device, &sides.host, &sides.quant);
		copied += buffer->nbytes;
	}
	if (begin_ns && copied)
		trace_copy(part, begin_ns, copied);
	return copied;
}

uint64_t qbrt_array_copy_out(const struct qbrt_array_part *part,
			     const struct qbrt_array *outputs)
{
	size_t num_inputs = part->match->entry->input_count;
	int64_t begin_ns = qbrt_trace_begin();
	struct sides sides;
	uint64_t copied = 0;

	for (size_t i = 0; i < part->match->entry->output_count; i++) {
		if (is_in_place(part, num_inputs + i))
			continue;
		fill_sides(part, num_inputs + i, &outputs[i], &sides);
		sides.device.data = get_data(part, num_inputs + i);
		qbrt_layout_copy(&sides.host, &sides.device, &sides.quant);
		copied += qbrt_view_get_nbytes(&sides.host);
	}
	if (begin_ns && copied)
		trace_copy(part, begin_ns, copied);
	return copied;
}
