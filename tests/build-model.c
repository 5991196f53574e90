// SPDX-License-Identifier: MIT
/*
 * Layout and checksums of the builder of build-model.h; build-models.c fills
 * the tables. Content ids and SHA-256 stay zero: nothing that reads a file in
 * order to run it looks at them.
 */
#include "build-model.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "models.h"

#define HEADER_SIZE sizeof(struct qbm_header)

static const struct qbm_header header_template = {
	.magic = { 0x89, 'Q', 'B', 'M', '\r', '\n', 0x1a, '\n' },
	.format_major = 1,
	.isa_major = 1,
	.header_size = HEADER_SIZE,
	.section_entry_size = sizeof(struct qbm_section),
	.section_table_offset = HEADER_SIZE,
	.producer = "build-model",
};

static void *grow_to(struct build *build, size_t nbytes)
{
	build->bytes = realloc(build->bytes, nbytes);
	if (!build->bytes)
		abort();
	memset(build->bytes + build->nbytes, 0, nbytes - build->nbytes);
	build->nbytes = nbytes;
	return build->bytes;
}

/* Appends a section and its entry, number-th of the table. */
static void add_section(struct build *build, const char *kind,
			uint32_t instance, uint32_t align_log2,
			const void *content, size_t size)
{
	const size_t align = (size_t)1 << align_log2;
	size_t offset = (build->nbytes + align - 1) / align * align;
	struct qbm_header *header;
	struct qbm_section *entry;

	grow_to(build, offset + size);
	memcpy(build->bytes + offset, content, size);
	header = (struct qbm_header *)(void *)build->bytes;
	entry = (struct qbm_section *)(void *)(build->bytes + HEADER_SIZE) +
		header->section_count++;
	entry->kind = BUILD_KIND(kind);
	entry->flags = strcmp(kind, "DBGI") && strcmp(kind, "XTRA");
	entry->instance = instance;
	entry->align_log2 = (uint8_t)align_log2;
	entry->offset = offset;
	entry->size = size;
}

/* Pieces of one section, one behind the other. */
struct pieces {
	uint8_t bytes[16384];
	size_t size;
};

static void add_piece(struct pieces *pieces, const void *bytes, size_t size)
{
	if (pieces->size + size > sizeof(pieces->bytes))
		abort();
	memcpy(pieces->bytes + pieces->size, bytes, size);
	pieces->size += size;
}

static void add_meta(struct build *build)
{
	const struct qbm_meta meta = { .count = build->num_meta };
	struct pieces pieces = { .size = 0 };

	add_piece(&pieces, &meta, sizeof(meta));
	add_piece(&pieces, build->meta, build->num_meta * sizeof(*build->meta));
	add_section(build, "META", 0, 3, pieces.bytes, pieces.size);
}

static void add_variants(struct build *build)
{
	const uint32_t num = build->num_variants;
	const struct qbm_vari vari = {
		.variant_count = num,
		.variant_size = sizeof(struct qbm_variant),
		.bundle_count = num,
		.bundle_size = sizeof(struct qbm_bundle),
		.variants_offset = sizeof(vari),
		.bundles_offset = (uint32_t)(sizeof(vari) +
					     num * sizeof(struct qbm_variant)),
	};
	struct pieces pieces = { .size = 0 };

	add_piece(&pieces, &vari, sizeof(vari));
	add_piece(&pieces, build->variants, num * sizeof(*build->variants));
	add_piece(&pieces, build->bundles, num * sizeof(*build->bundles));
	add_section(build, "VARI", 0, 3, pieces.bytes, pieces.size);
}

static void add_ios(struct build *build)
{
	struct qbm_iotb iotb = {
		.count = build->num_ios,
		.entry_size = sizeof(struct qbm_io),
		.scale_count = build->num_scales,
		.state_size = build->state_size,
	};
	struct pieces pieces = { .size = 0 };

	if (build->num_scales)
		iotb.scales_offset =
			(uint32_t)(sizeof(iotb) +
				   build->num_ios * sizeof(*build->ios));
	add_piece(&pieces, &iotb, sizeof(iotb));
	add_piece(&pieces, build->ios, build->num_ios * sizeof(*build->ios));
	add_piece(&pieces, build->scales,
		  build->num_scales * sizeof(*build->scales));
	add_section(build, "IOTB", 0, 3, pieces.bytes, pieces.size);
}

static void add_caches(struct build *build)
{
	struct pieces pieces = { .size = 0 };

	build->cach.count = build->num_caches;
	build->cach.entry_size = sizeof(struct qbm_cache);
	build->cach.state_size = build->state_size;
	add_piece(&pieces, &build->cach, sizeof(build->cach));
	add_piece(&pieces, build->caches,
		  build->num_caches * sizeof(*build->caches));
	add_section(build, "CACH", 0, 3, pieces.bytes, pieces.size);
}

static void add_debug(struct build *build)
{
	const struct qbm_dbgi dbgi = {
		.count = build->num_debug,
		.entry_size = sizeof(struct qbm_debug),
	};
	struct pieces pieces = { .size = 0 };

	add_piece(&pieces, &dbgi, sizeof(dbgi));
	add_piece(&pieces, build->debug,
		  build->num_debug * sizeof(*build->debug));
	add_section(build, "DBGI", 0, 3, pieces.bytes, pieces.size);
}

static uint32_t count_sections(const struct build *build)
{
	return 4 + build->num_programs + (build->num_caches != 0) +
	       (build->weights_size != 0) + (build->num_debug != 0) +
	       (build->extra_size != 0);
}

void build_finish(struct build *build)
{
	static const uint8_t extra[4096] = { 'x' };
	struct qbm_header header = header_template;
	uint32_t i;

	free(build->bytes);
	build->bytes = NULL;
	build->nbytes = 0;
	header.target = (uint16_t)build->target;
	for (i = 0; i < build->num_programs; i++)
		header.isa_features |=
			prog_at_header(&build->programs[i])->isa_features;
	grow_to(build, HEADER_SIZE + count_sections(build) *
					     sizeof(struct qbm_section));
	memcpy(build->bytes, &header, sizeof(header));
	add_section(build, "STRS", 0, 3, build->strings, build->strings_size);
	add_meta(build);
	add_variants(build);
	add_ios(build);
	if (build->num_caches)
		add_caches(build);
	for (i = 0; i < build->num_programs; i++)
		add_section(build, "PROG", i, 12, build->programs[i].bytes,
			    build->programs[i].nbytes);
	if (build->weights_size)
		add_section(build, "WGHT", 0, 12, build->weights,
			    build->weights_size);
	if (build->num_debug)
		add_debug(build);
	if (build->extra_size)
		add_section(build, "XTRA", 7, 3, extra, build->extra_size);
	((struct qbm_header *)(void *)build->bytes)->file_size = build->nbytes;
	build_seal(build->bytes, build->nbytes);
}

struct qbrt_model *build_load(struct build *build)
{
	struct qbrt_model *model = NULL;
	enum qbrt_status status;
	int fd;

	build_finish(build);
	fd = models_write(build->bytes, build->nbytes);
	status = qbrt_model_load_fd(fd, NULL, &model);
	ck_assert_msg(status == QBRT_OK, "%s", qbrt_error_detail());
	close(fd);
	build_end(build);
	return model;
}

void build_end(struct build *build)
{
	uint32_t i;

	for (i = 0; i < build->num_programs; i++)
		prog_end(&build->programs[i]);
	free(build->bytes);
	memset(build, 0, sizeof(*build));
}

uint32_t build_string(struct build *build, const char *text)
{
	size_t size = strlen(text) + 1;
	uint32_t offset;

	if (!build->strings_size)
		build->strings_size = 1; /* "" */
	offset = (uint32_t)build->strings_size;
	if (offset + size > sizeof(build->strings))
		abort();
	memcpy(build->strings + offset, text, size);
	build->strings_size += size;
	return offset;
}

struct qbm_io *build_io(struct build *build, uint32_t variant, uint32_t role,
			uint32_t index, const char *name, uint32_t dtype,
			uint32_t rank, const uint32_t *dims)
{
	struct qbm_io *io = &build->ios[build->num_ios++];
	uint32_t i;

	memset(io, 0, sizeof(*io));
	io->name = build_string(build, name);
	io->variant = variant;
	io->role = (uint8_t)role;
	io->device_dtype = (uint8_t)dtype;
	io->host_dtype = (uint8_t)dtype;
	io->accepted_dtypes = 1u << dtype;
	io->index = index;
	io->rank = (uint8_t)rank;
	io->source_rank = (uint8_t)rank;
	io->size = prog_dtype_size(dtype);
	for (i = 0; i < rank; i++) {
		io->size *= dims[i];
		io->shape[i] = (int32_t)dims[i];
		io->source_shape[i] = (int32_t)dims[i];
	}
	for (i = 0; i < 6; i++)
		io->source_perm[i] = (uint8_t)(i < rank ? i : QBNPU_NONE8);
	io->dyn_axis = QBNPU_NONE8;
	io->dyn_param = QBNPU_NONE8;
	io->source_dtype = dtype;
	io->scale = 1.0f;
	io->scale_axis = QBNPU_NONE8;
	io->alias = QBNPU_NONE32;
	io->cache = QBNPU_NONE32;
	return io;
}

struct qbm_section *build_entry(const struct build *build, const char *kind,
				uint32_t instance)
{
	struct qbm_section *entry =
		(struct qbm_section *)(void *)(build->bytes + HEADER_SIZE);

	while (entry->kind != BUILD_KIND(kind) || entry->instance != instance)
		entry++;
	return entry;
}

uint8_t *build_content(const struct build *build, const char *kind,
		       uint32_t instance)
{
	return build->bytes + build_entry(build, kind, instance)->offset;
}

void build_seal(uint8_t *bytes, size_t size)
{
	const size_t crc_offset = offsetof(struct qbm_header, header_crc32);
	struct qbm_header header;
	struct qbm_section entry;
	uint32_t crc;
	uint32_t i;

	if (size < sizeof(header))
		return;
	memcpy(&header, bytes, sizeof(header));
	for (i = 0; i < header.section_count && i < 256; i++) {
		size_t at = HEADER_SIZE + i * sizeof(entry);

		if (at + sizeof(entry) > size)
			break;
		memcpy(&entry, bytes + at, sizeof(entry));
		if (entry.offset <= size && entry.size <= size - entry.offset)
			entry.crc32 = (uint32_t)crc32_z(0, bytes + entry.offset,
							entry.size);
		memcpy(bytes + at, &entry, sizeof(entry));
	}
	if (HEADER_SIZE + i * sizeof(entry) <= size)
		header.section_table_crc32 = (uint32_t)crc32_z(
			0, bytes + HEADER_SIZE, i * sizeof(entry));
	memcpy(bytes, &header, sizeof(header));
	crc = (uint32_t)crc32_z(0, bytes, crc_offset);
	memcpy(bytes + crc_offset, &crc, sizeof(crc));
}
