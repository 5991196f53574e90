// SPDX-License-Identifier: MIT
/*
 * A model in words, for people: all that its file says (MM12), written when
 * first asked for, which costs as much as a load does. The text is written
 * twice, the first time only to be counted. Bytes of the file are escaped, and
 * of long lists of numbers the first ones are told, so no file makes the text
 * much longer than itself.
 */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device-info.h"
#include "dtype.h"
#include "status.h"
#include "util.h"

#define MAX_STRING 4096 /* FM10 */
#define MAX_NUMBERS 4
#define NUM_EXTENTS 3

struct text {
	char *bytes; /* NULL: only counted */
	size_t size;
	size_t used;
};

static void add(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = text->bytes ? vsnprintf(text->bytes + text->used,
					 text->size - text->used, format, args)
			     : vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length > 0)
		text->used += (size_t)length;
}

/* A line's end; string: what comes before it. */
static void add_line(struct text *text, const char *string)
{
	char escaped[MAX_STRING * 4 + sizeof("...")];

	add(text, "%s\n",
	    qbrt_escape(string, strlen(string), escaped, sizeof(escaped)));
}

/* With a point in every locale. */
static void add_number(struct text *text, float number)
{
	char local[64], plain[64];
	size_t used = 0;

	(void)snprintf(local, sizeof(local), "%.9g", (double)number);
	for (const char *at = local; *at; at++)
		if (strchr("0123456789+-e", *at))
			plain[used++] = *at;
		else if (used && plain[used - 1] != '.')
			plain[used++] = '.';
	plain[used] = '\0';
	add(text, "%s", plain);
}

static void add_numbers(struct text *text, const float *numbers, size_t num)
{
	for (size_t i = 0; i < num && i < MAX_NUMBERS; i++) {
		add(text, "%s", i ? ", " : "");
		add_number(text, numbers[i]);
	}
	add(text, "%s", num > MAX_NUMBERS ? ", ..." : "");
}

static void add_shape(struct text *text, const int32_t *extents, size_t ndim)
{
	int64_t shape[QBNPU_MAX_RANK];
	char words[128];

	for (size_t i = 0; i < ndim; i++)
		shape[i] = extents[i];
	add(text, "%s", qbrt_shape_text(shape, ndim, words, sizeof(words)));
}

static void add_dtypes(struct text *text, uint32_t dtypes)
{
	const char *between = "";

	for (int i = 0; i < QBRT_NUM_DTYPES; i++)
		if (dtypes >> i & 1) {
			add(text, "%s%s", between,
			    qbrt_dtype_name((enum qbrt_dtype)i));
			between = ", ";
		}
}

static void add_file(struct text *text, const struct qbrt_model_file *file)
{
	const struct qbm_header *header = &file->header;
	uint64_t nbytes = 0;
	char words[128];

	add(text, "format: qbm %u.%u, isa %u.%u, %" PRIu64 " bytes\ncontent: ",
	    header->format_major, header->format_minor, header->isa_major,
	    header->isa_minor, header->file_size);
	for (size_t i = 0; i < sizeof(header->content_id); i++)
		add(text, "%02x", header->content_id[i]);
	add(text, "\ncompiler: ");
	(void)snprintf(words, sizeof(words), "%.*s",
		       (int)sizeof(header->producer), header->producer);
	add_line(text, words);
	add(text, "target: %s\n", qbrt_target_names[header->target]);
	add(text, "core modes: %s\n",
	    qbrt_list_bits(file->bundles[0].mode_mask, qbrt_core_mode_names,
			   QBRT_CORE_MODE_AUTO, words, sizeof(words)));
	qbrt_list_bits(header->isa_features, qbrt_isa_feature_names,
		       QBRT_NUM_ISA_FEATURES, words, sizeof(words));
	add(text, "features: %s\n", *words ? words : "none");
	for (size_t i = 0; i < file->num_programs; i++)
		nbytes += file->programs[i].size;
	add(text, "programs: %zu, %" PRIu64 " bytes\n", file->num_programs,
	    nbytes);
	add(text, "weights: %" PRIu64 " bytes\n", file->weights_size);
	if (file->iotb->state_size)
		add(text, "state: %u tensor%s, %" PRIu64 " bytes\n",
		    file->variants[0].state_count,
		    qbrt_plural(file->variants[0].state_count),
		    file->iotb->state_size);
}

static void add_meta(struct text *text, const struct qbrt_model_file *file)
{
	char key[MAX_STRING * 4 + sizeof("...")];

	for (size_t i = 0; i < file->num_meta; i++) {
		const char *name =
			qbrt_model_file_string(file, file->meta[i].key);

		add(text, "meta %s: ",
		    qbrt_escape(name, strlen(name), key, sizeof(key)));
		add_line(text,
			 qbrt_model_file_string(file, file->meta[i].value));
	}
}

/* Of an input always (Q808), of an output where the file has it. */
static void add_normalisation(struct text *text, const struct qbm_io *io,
			      bool is_input)
{
	const char *open = io->norm_channels > 1 ? "[" : "";
	const char *close = io->norm_channels > 1 ? "]" : "";

	if (!(io->flags & QBRT_IO_NORMALISED)) {
		if (is_input)
			add(text, "    not normalised inside the model\n");
		return;
	}
	add(text, "    normalised inside the model: (x - %s", open);
	add_numbers(text, io->mean, io->norm_channels);
	add(text, "%s) / %s", close, open);
	add_numbers(text, io->std, io->norm_channels);
	add(text, "%s\n", close);
}

static void add_scale(struct text *text, const struct qbrt_model_file *file,
		      const struct qbm_io *io)
{
	if (io->scale_count) {
		add(text, "    scales of axis %u: ", io->scale_axis);
		add_numbers(text, file->scales + io->scale_first,
			    io->scale_count);
	} else {
		add(text, "    scale ");
		add_number(text, io->scale);
	}
	add(text, ", zero point %d\n", io->zero_point);
}

static void add_extents(struct text *text, const struct qbm_io *io)
{
	static const char *const names[] = { "original", "reshaped", "device",
					     "largest" };

	add(text, "    extents: ");
	for (size_t i = 0; i < qbrt_array_size(names); i++) {
		const uint32_t *hwc = io->buffer_info + i * NUM_EXTENTS;

		add(text, "%s%s %ux%ux%u", i ? ", " : "", names[i], hwc[0],
		    hwc[1], hwc[2]);
	}
	add(text, "\n");
}

static void add_tensor(struct text *text, const struct qbrt_model_file *file,
		       const struct qbm_io *io, bool is_input)
{
	add(text, "  %s %u: ", is_input ? "input" : "output", io->index);
	add_line(text, qbrt_model_file_string(file, io->name));
	add(text, "    %s ", qbrt_dtype_name((enum qbrt_dtype)io->host_dtype));
	add_shape(text, io->shape, io->rank);
	add(text, "%s, %s ", io->layout == QBRT_IO_LAYOUT_HWC ? " HWC" : "",
	    is_input ? "takes" : "gives");
	add_dtypes(text, io->accepted_dtypes);
	add(text, "\n    pinned memory: %s, at most %" PRIu64 " bytes%s\n",
	    qbrt_dtype_name((enum qbrt_dtype)io->device_dtype), io->size,
	    io->flags & QBRT_IO_BATCHED ? ", with an axis of the batch" : "");
	add(text, "    source tensor: %s ",
	    qbrt_dtype_name((enum qbrt_dtype)io->source_dtype));
	add_shape(text, io->source_shape, io->source_rank);
	add(text, "\n");
	add_normalisation(text, io, is_input);
	add_scale(text, file, io);
	add_extents(text, io);
	if (io->alias != QBNPU_NONE32)
		add(text, "    may be the memory of input %u\n",
		    file->ios[io->alias].index);
}

static void add_variant(struct text *text, const struct qbrt_model_file *file,
			uint32_t number)
{
	const struct qbm_variant *variant = &file->variants[number];
	const struct qbm_bundle *bundle = &file->bundles[variant->first_bundle];

	add(text, "variant %u: ", number);
	add_line(text, qbrt_model_file_string(file, variant->name));
	add(text, "  bundle: ");
	add_line(text, qbrt_model_file_string(file, bundle->name));
	add(text,
	    "  batch %u, %" PRIu64 " multiply-accumulates, %" PRIu64
	    " bytes of scratch\n",
	    variant->batch, bundle->mac_count, bundle->scratch_size);
	if (variant->max_tokens)
		add(text, "  at most %u tokens a call, %u in the cache\n",
		    variant->max_tokens, variant->max_cache);
	if (variant->activation_slots)
		add(text, "  at most %u activation slot%s\n",
		    variant->activation_slots,
		    qbrt_plural(variant->activation_slots));
	if (variant->flags & QBRT_VARIANT_BATCH_PARAMS)
		add(text, "  needs params\n");
	for (uint32_t i = 0; i < variant->input_count; i++)
		add_tensor(text, file, &file->ios[variant->first_input + i],
			   true);
	for (uint32_t i = 0; i < variant->output_count; i++)
		add_tensor(text, file, &file->ios[variant->first_output + i],
			   false);
}

static void add_cache(struct text *text, const struct qbrt_model *model)
{
	const struct qbrt_model_file *file = model->file;
	const struct qbm_cach *cach = file->cach;

	if (!cach)
		return;
	add(text,
	    "cache: %u of type %s, %u layer%s, at most %u tokens, %" PRIu64
	    " bytes each\n",
	    cach->cache_count,
	    cach->cache_type == QBRT_CACHE_TYPE_BATCH ? "Batch" : "Default",
	    cach->count, qbrt_plural(cach->count), cach->max_tokens,
	    cach->state_size);
	for (uint32_t i = 0; i < cach->count; i++) {
		const struct qbm_cache *layer = &file->caches[i];

		add(text, "  layer %u: ", i);
		add_line(text, qbrt_model_file_string(file, layer->name));
		add(text, "    %s, %" PRIu64 " bytes, hash %s\n",
		    qbrt_dtype_name((enum qbrt_dtype)layer->dtype), layer->size,
		    model->layer_hashes[i]);
	}
}

static void add_all(struct text *text, const struct qbrt_model *model)
{
	const struct qbrt_model_file *file = model->file;

	add_file(text, file);
	add_meta(text, file);
	for (uint32_t i = 0; i < file->vari->variant_count; i++)
		add_variant(text, file, i);
	add_cache(text, model);
}

static char *write_summary(const struct qbrt_model *model)
{
	struct text text = { .used = 0 };

	add_all(&text, model);
	text.size = text.used + 1;
	text.bytes = malloc(text.size);
	if (!text.bytes)
		return NULL;
	text.used = 0;
	add_all(&text, model);
	return text.bytes;
}

/* Of threads that write it at once one's stays. */
QBRT_API const char *qbrt_model_get_summary(const struct qbrt_model *model)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): const is for the caller */
	struct qbrt_model *own = (struct qbrt_model *)(uintptr_t)model;
	char *text, *stays;

	if (!model)
		return NULL;
	stays = atomic_load(&own->summary);
	if (stays)
		return stays;
	text = write_summary(model);
	if (!text ||
	    atomic_compare_exchange_strong(&own->summary, &stays, text))
		return text;
	free(text);
	return stays;
}
