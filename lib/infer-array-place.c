// SPDX-License-Identifier: MIT
/*
 * Arrays that are pinned memory of the model's device, in its type and layout:
 * the job uses them where they lie. An output must be its job's alone down to
 * the storage, and what lies around it in the storage must count already.
 */
#include "infer-array.h"

#include "infer.h"
#include "layout.h"
#include "pinned-memory.h"

/* Every buffer begins a page, on both sides. */
#define MIN_PAGE_SIZE 4096

/* What the call's jobs touch of an array, from begin on. */
struct span {
	char *begin;
	size_t nbytes; /* of the array */
	size_t length; /* of the bindings, item behind item */
	size_t alignment;
};

static struct span get_span(const struct qbrt_array_part *whole, size_t number,
			    const struct qbrt_array *array)
{
	const struct qbrt_launched_variant *variant = whole->variant;
	const struct drm_qbnpu_binding *binding = &variant->bindings[number];
	uint32_t align_log2 =
		variant->facts->bindings[binding->index].align_log2;

	return (struct span){
		.begin = array->data,
		.nbytes = qbrt_array_get_used_nbytes(whole, number),
		.length = binding->length +
			  (whole->num - 1) *
				  qbrt_variant_get_stride(variant, number),
		.alignment = (size_t)1 << align_log2,
	};
}

/* The storages of the call that are in place, inputs and outputs before it. */
static bool is_among(const struct qbrt_array_places *places, size_t number,
		     uint64_t id)
{
	for (size_t i = 0; i < number; i++)
		if (places->used >> i & 1 &&
		    places->mems[i].storage->buffer.id == id)
			return true;
	return false;
}

/* A job that succeeds makes all of the storage valid. */
static bool may_write(const struct qbrt_array_places *places, size_t number,
		      const struct qbrt_storage *storage,
		      const struct span *span)
{
	return !storage->buffer.is_read_only && span->nbytes == span->length &&
	       !is_among(places, number, storage->buffer.id) &&
	       (qbrt_storage_is_valid(storage) ||
		span->nbytes >= storage->nbytes);
}

static bool fits(const struct qbrt_launched *launched,
		 const struct qbrt_storage *storage, const struct span *span)
{
	size_t offset = (size_t)(span->begin - (char *)storage->buffer.data);

	return storage->device == launched->device &&
	       !(offset % span->alignment) &&
	       (span->alignment <= MIN_PAGE_SIZE ||
		!(storage->buffer.device_address % span->alignment)) &&
	       span->length <= storage->buffer.size - offset;
}

static void find(const struct qbrt_launched *launched,
		 const struct qbrt_array_part *whole, size_t number,
		 const struct qbrt_array *array,
		 struct qbrt_array_places *places)
{
	bool is_input = number < whole->match->entry->input_count;
	struct qbrt_pinned_memory *mem = &places->mems[number];
	uintptr_t begin = (uintptr_t)array->data;
	struct span span;

	/* most arrays are asked no more than this */
	if (begin % (1u << QBNPU_MIN_ALIGN_LOG2) ||
	    !qbrt_array_is_as_wanted(whole, number, array))
		return;
	span = get_span(whole, number, array);
	mem->storage = qbrt_storage_find(begin, begin + span.nbytes);
	if (!mem->storage)
		return;
	if (!fits(launched, mem->storage, &span) ||
	    qbrt_storage_is_open(mem->storage, is_input) ||
	    (!is_input && !may_write(places, number, mem->storage, &span))) {
		qbrt_storage_unref(mem->storage);
		return;
	}
	mem->data = span.begin;
	places->used |= UINT64_C(1) << number;
}

void qbrt_array_find_places(const struct qbrt_launched *launched,
			    const struct qbrt_array_match *match,
			    const struct qbrt_array *inputs,
			    const struct qbrt_array *outputs,
			    struct qbrt_array_places *places)
{
	const struct qbrt_array_part whole = {
		.match = match,
		.variant = &launched->variants[match->variant],
		.num = match->num_runs,
	};
	size_t num_inputs = match->entry->input_count;

	places->used = 0;
	for (size_t i = 0; i < num_inputs; i++)
		find(launched, &whole, i, &inputs[i], places);
	for (size_t i = 0; i < match->entry->output_count; i++)
		find(launched, &whole, num_inputs + i, &outputs[i], places);
}

void qbrt_array_leave_places(struct qbrt_array_places *places)
{
	for (; places->used; places->used &= places->used - 1)
		qbrt_storage_unref(
			places->mems[__builtin_ctzll(places->used)].storage);
}

bool qbrt_array_has_to_copy(const struct qbrt_array_part *part)
{
	return (size_t)__builtin_popcountll(part->places->used) <
	       qbrt_array_count_buffers(part->variant);
}

void qbrt_array_place_part(const struct qbrt_array_part *part,
			   struct qbrt_pinned_memory *buffers[])
{
	for (size_t i = 0; i < qbrt_array_count_buffers(part->variant); i++) {
		struct qbrt_pinned_memory *mem = &part->places->mems[i];

		if (!(part->places->used >> i & 1)) {
			buffers[i] = part->set->buffers[i];
			continue;
		}
		mem->offset =
			(size_t)(mem->data -
				 (char *)mem->storage->buffer.data) +
			part->first * qbrt_variant_get_stride(part->variant, i);
		mem->nbytes = qbrt_array_get_used_nbytes(part, i);
		buffers[i] = mem;
	}
}

void qbrt_array_clear_places(const struct qbrt_array_part *part,
			     const struct qbrt_array *outputs)
{
	const struct qbm_variant *entry = part->match->entry;

	for (size_t i = 0; i < entry->output_count; i++) {
		size_t number = entry->input_count + i;
		struct qbrt_storage *storage;

		if (!(part->places->used >> number & 1))
			continue;
		storage = part->places->mems[number].storage;
		/* else it is another's by now */
		if (qbrt_storage_is_valid(storage) ||
		    !qbrt_storage_begin_write(storage))
			continue;
		qbrt_array_clear(&outputs[i]);
		qbrt_storage_end_write(storage);
	}
}
