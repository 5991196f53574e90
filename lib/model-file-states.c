// SPDX-License-Identifier: MIT
/*
 * States, and CACH: where each layer of a KV cache lies in its state. Host
 * code moves rows by these numbers, so every row must lie inside the state's
 * bytes. VARI and IOTB are checked by then.
 */
#include "model-file-parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "status.h"
#include "util.h"

#define STATE_ALIGN 64

struct qbm_place qbrt_qbm_io_place(const struct qbm_reader *reader,
				   uint32_t number)
{
	uint32_t section = qbrt_qbm_find_section(reader, QBM_KIND_IOTB, 0);

	return (struct qbm_place){ "IOTB entry", number,
				   reader->sections[section].offset +
					   sizeof(struct qbm_iotb) +
					   number * sizeof(struct qbm_io) };
}

/* A state has one size, that of its shape; no parameter changes it. */
static enum qbrt_status check_state_size(const struct qbm_reader *reader,
					 const struct qbm_place *place,
					 const struct qbm_io *io)
{
	int64_t shape[QBNPU_MAX_RANK + 1] = { 1 };
	size_t num_elements;
	size_t nbytes;
	uint32_t i;

	if (io->dyn_axis != QBNPU_NONE8)
		return qbrt_qbm_broken(
			reader, place,
			"dyn_axis is %u, must be NONE for a state",
			io->dyn_axis);
	if (io->flags & QBM_IO_BATCHED)
		shape[0] = reader->file->variants[io->variant].batch;
	for (i = 0; i < io->rank; i++)
		shape[i + 1] = io->shape[i];
	if (!qbrt_dtype_count((enum qbrt_dtype)io->device_dtype, shape,
			      io->rank + 1u, &num_elements, &nbytes) ||
	    nbytes != io->size)
		return qbrt_qbm_broken(reader, place,
				       "size is %" PRIu64
				       ", which is not that of its shape",
				       io->size);
	return QBRT_OK;
}

enum qbrt_status qbrt_qbm_check_state(const struct qbm_reader *reader,
				      const struct qbm_place *place,
				      const struct qbm_io *io)
{
	const struct qbrt_model_file *file = reader->file;
	uint64_t room = file->iotb->state_size;
	enum qbrt_status status = check_state_size(reader, place, io);

	if (status)
		return status;
	if (io->state_offset % STATE_ALIGN || io->state_offset > room ||
	    io->size > room - io->state_offset)
		return qbrt_qbm_broken(reader, place,
				       "state_offset is %" PRIu64
				       " and size %" PRIu64
				       ", must be a multiple of 64 inside the "
				       "state's %" PRIu64 " bytes",
				       io->state_offset, io->size, room);
	if (!io->state_init && io->init_offset)
		return qbrt_qbm_broken(reader, place,
				       "init_offset is %" PRIu64
				       ", must be 0 as state_init is 0",
				       io->init_offset);
	if (io->state_init && (io->init_offset % STATE_ALIGN ||
			       io->init_offset > file->weights_size ||
			       io->size > file->weights_size - io->init_offset))
		return qbrt_qbm_broken(
			reader, place,
			"init_offset is %" PRIu64 " and size %" PRIu64
			", must be a multiple of 64 inside WGHT's "
			"%" PRIu64 " bytes",
			io->init_offset, io->size, file->weights_size);
	return QBRT_OK;
}

static int compare_states(const void *a, const void *b)
{
	const struct qbm_io *left = *(const struct qbm_io *const *)a;
	const struct qbm_io *right = *(const struct qbm_io *const *)b;

	if (left->state_offset != right->state_offset)
		return left->state_offset < right->state_offset ? -1 : 1;
	return 0;
}

/* No two states of variant 0 overlap; a state entry at all needs a STATE. */
static enum qbrt_status check_overlap(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_variant *variant = &file->variants[0];
	uint32_t num = variant->state_count;
	enum qbrt_status status = QBRT_OK;
	const struct qbm_io **sorted;
	uint32_t i;

	if (!num)
		return QBRT_OK;
	sorted = calloc(num, sizeof(const struct qbm_io *));
	if (!sorted)
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory for %u states",
				 reader->name, num);
	for (i = 0; i < num; i++)
		sorted[i] = &file->ios[variant->first_state + i];
	qsort(sorted, num, sizeof(const struct qbm_io *), compare_states);
	for (i = 1; i < num && !status; i++) {
		const struct qbm_place place = qbrt_qbm_io_place(
			reader, (uint32_t)(sorted[i] - file->ios));

		if (sorted[i]->state_offset - sorted[i - 1]->state_offset <
		    sorted[i - 1]->size)
			status = qbrt_qbm_broken(
				reader, &place,
				"state_offset %" PRIu64 " is inside state %u",
				sorted[i]->state_offset, sorted[i - 1]->index);
	}
	free(sorted);
	return status;
}

enum qbrt_status qbrt_qbm_check_states(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	uint32_t i;
	uint32_t v;

	for (v = 1; v < file->vari->variant_count; v++) {
		for (i = 0; i < file->variants[v].state_count; i++) {
			uint32_t number = file->variants[v].first_state + i;
			const struct qbm_io *io = &file->ios[number];
			const struct qbm_io *first =
				&file->ios[file->variants[0].first_state + i];
			const struct qbm_place place =
				qbrt_qbm_io_place(reader, number);

			if (io->state_offset != first->state_offset ||
			    io->size != first->size ||
			    io->state_init != first->state_init ||
			    io->init_offset != first->init_offset ||
			    io->cache != first->cache ||
			    strcmp(file->strings + io->name,
				   file->strings + first->name) != 0)
				return qbrt_qbm_broken(
					reader, &place,
					"differs from state %u of "
					"variant 0",
					i);
		}
	}
	return check_overlap(reader);
}

static struct qbm_place cache_place(const struct qbm_reader *reader,
				    uint32_t number)
{
	uint32_t section = qbrt_qbm_find_section(reader, QBM_KIND_CACH, 0);

	return (struct qbm_place){ "CACH entry", number,
				   reader->sections[section].offset +
					   sizeof(struct qbm_cach) +
					   number * sizeof(struct qbm_cache) };
}

static enum qbrt_status find_caches(struct qbm_reader *reader)
{
	struct qbrt_model_file *file = reader->file;
	const struct qbm_field fields[] = {
		QBM_FIELD(qbm_cach, count, 1, 4096),
		QBM_FIXED(qbm_cach, entry_size, sizeof(struct qbm_cache)),
		QBM_FIELD(qbm_cach, cache_count, 1, 4096),
		QBM_FIELD(qbm_cach, max_tokens, 1, QBNPU_MAX_PARAM_VALUE),
		QBM_FIELD(qbm_cach, cache_type, 0, 1),
		QBM_RESERVED(qbm_cach, reserved0),
		QBM_FIXED(qbm_cach, state_size, file->iotb->state_size),
	};
	const struct qbm_cach *cach;
	struct qbm_place place;
	enum qbrt_status status;
	const uint8_t *bytes;
	uint64_t size;

	status = qbrt_qbm_get_section(reader, QBM_KIND_CACH, 0, "CACH",
				      sizeof(*cach), &place, &bytes);
	if (status)
		return status;
	cach = (const struct qbm_cach *)(const void *)bytes;
	status = qbrt_qbm_check_fields(reader, &place, cach, fields,
				       qbrt_array_size(fields));
	if (status)
		return status;
	size = qbrt_qbm_get_size(reader, QBM_KIND_CACH, 0);
	if (size < sizeof(*cach) + cach->count * sizeof(struct qbm_cache))
		return qbrt_qbm_broken(
			reader, &place,
			"count is %u, but the section has %" PRIu64 " bytes",
			cach->count, size);
	file->cach = cach;
	file->caches = (const void *)(cach + 1);
	return QBRT_OK;
}

/* Bytes from the first of the first row to the last of the last one. */
static bool get_extent(const struct qbm_cache *cache, uint64_t *extent)
{
	uint64_t outer;
	uint64_t tokens;

	return !qbrt_mul_overflows(cache->outer_count - 1, cache->outer_stride,
				   &outer) &&
	       !qbrt_mul_overflows(cache->max_tokens - 1, cache->token_stride,
				   &tokens) &&
	       !qbrt_add_overflows(outer, tokens, extent) &&
	       !qbrt_add_overflows(*extent, cache->token_size, extent);
}

static enum qbrt_status check_cache(const struct qbm_reader *reader,
				    uint32_t number)
{
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_cache *cache = &file->caches[number];
	const struct qbm_place place = cache_place(reader, number);
	static const struct qbm_field fields[] = {
		QBM_FIELD(qbm_cache, dtype, 0, QBNPU_NUM_DTYPES - 1),
		QBM_FIELD(qbm_cache, max_tokens, 1, QBNPU_MAX_PARAM_VALUE),
		QBM_FIELD(qbm_cache, outer_count, 1, UINT32_MAX),
		QBM_FIELD(qbm_cache, token_size, 1, QBNPU_MAX_BINDING_SIZE),
		QBM_RESERVED(qbm_cache, reserved),
	};
	const struct qbm_io *state;
	enum qbrt_status status;
	uint64_t extent;

	status = qbrt_qbm_check_fields(reader, &place, cache, fields,
				       qbrt_array_size(fields));
	if (!status)
		status = qbrt_qbm_check_string(reader, &place, "name",
					       cache->name, false);
	if (status)
		return status;
	/* rows that share bytes could not be moved by themselves */
	if ((cache->max_tokens > 1 &&
	     cache->token_stride < cache->token_size) ||
	    (cache->outer_count > 1 && cache->outer_stride < cache->token_size))
		return qbrt_qbm_broken(reader, &place,
				       "token_stride %" PRIu64
				       " and outer_stride %" PRIu64
				       " are less than token_size %" PRIu64,
				       cache->token_stride, cache->outer_stride,
				       cache->token_size);
	if (!get_extent(cache, &extent) || extent != cache->size)
		return qbrt_qbm_broken(reader, &place,
				       "size is %" PRIu64
				       ", which is not that of its counts and "
				       "strides",
				       cache->size);
	if (cache->state >= file->iotb->count ||
	    file->ios[cache->state].role != QBM_ROLE_STATE ||
	    file->ios[cache->state].cache == QBNPU_NONE32)
		return qbrt_qbm_broken(
			reader, &place,
			"state is %u, which is no state with a cache "
			"in IOTB",
			cache->state);
	state = &file->ios[cache->state];
	if (cache->offset < state->state_offset || cache->size > state->size ||
	    cache->offset - state->state_offset > state->size - cache->size)
		return qbrt_qbm_broken(reader, &place,
				       "offset is %" PRIu64 " and size %" PRIu64
				       ", its state has %" PRIu64
				       " bytes from byte %" PRIu64 " on",
				       cache->offset, cache->size, state->size,
				       state->state_offset);
	return QBRT_OK;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum qbrt_status check_names(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	uint32_t section = qbrt_qbm_find_section(reader, QBM_KIND_CACH, 0);
	const struct qbm_place place =
		qbrt_qbm_section_place(reader, section, "CACH");
	const uint32_t num = file->cach->count;
	enum qbrt_status status = QBRT_OK;
	const char **names;
	uint32_t i;

	assert(num > 0); /* check_head's */
	names = calloc(num, sizeof(const char *));
	if (!names)
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory for %u names",
				 reader->name, num);
	for (i = 0; i < num; i++)
		names[i] = file->strings + file->caches[i].name;
	qsort(names, num, sizeof(const char *), compare_names);
	for (i = 1; i < num && !status; i++)
		if (!strcmp(names[i - 1], names[i]))
			status = qbrt_qbm_broken(
				reader, &place,
				"two layers have the name \"%s\"", names[i]);
	free(names);
	return status;
}

/* States and variants name caches that there are, and no others. */
static enum qbrt_status check_users(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	uint32_t num = file->cach ? file->cach->count : 0;
	uint32_t max_tokens = file->cach ? file->cach->max_tokens : 0;
	const struct qbm_place place = qbrt_qbm_section_place(
		reader, qbrt_qbm_find_section(reader, QBM_KIND_IOTB, 0),
		"IOTB");
	uint32_t i;

	for (i = 0; i < file->iotb->count; i++) {
		const struct qbm_io *io = &file->ios[i];
		const struct qbm_io *state;

		if (io->cache == QBNPU_NONE32)
			continue;
		if (io->cache >= num)
			return qbrt_qbm_broken(
				reader, &place,
				"cache of entry %u is %u, the file "
				"has %u cache layers",
				i, io->cache, num);
		state = &file->ios[file->caches[io->cache].state];
		if (state->state_offset != io->state_offset)
			return qbrt_qbm_broken(
				reader, &place,
				"cache of entry %u is %u, which lies "
				"in another state",
				i, io->cache);
	}
	for (i = 0; i < file->vari->variant_count; i++)
		if (file->variants[i].max_cache != max_tokens)
			return qbrt_qbm_broken(
				reader, &place,
				"max_cache of variant %u is %u, must "
				"be %u",
				i, file->variants[i].max_cache, max_tokens);
	return QBRT_OK;
}

enum qbrt_status qbrt_qbm_check_caches(struct qbm_reader *reader)
{
	enum qbrt_status status = QBRT_OK;
	uint32_t i;

	if (qbrt_qbm_find_section(reader, QBM_KIND_CACH, 0) != QBNPU_NONE32) {
		status = find_caches(reader);
		for (i = 0; !status && i < reader->file->cach->count; i++)
			status = check_cache(reader, i);
		if (!status)
			status = check_names(reader);
	}
	return status ? status : check_users(reader);
}
