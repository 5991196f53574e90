// SPDX-License-Identifier: MIT
/*
 * Header and section table: what a file is, which sections it has and where.
 * After qbrt_qbm_read_head every section lies inside the file, apart from all
 * others, at the only place where it may lie, and every byte that belongs to
 * none of them is zero.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "status.h"
#include "util.h"

#define MAX_FILE_SIZE (64ull << 30)    /* and above: refused */
#define MAX_SECTION_SIZE (32ull << 30) /* above: refused */
#define LARGE_WEIGHTS (16ull << 20)    /* from here on aligned to 64 KiB */

static const uint8_t magic[8] = { 0x89, 'Q', 'B', 'M', '\r', '\n', 0x1a, '\n' };

/* Kinds in the order of the table; an unknown kind comes after all. */
static const struct section_kind {
	uint32_t kind;
	char name[5];
	uint8_t align_log2; /* least */
	uint32_t flags;
	uint32_t min;
	uint32_t max;
	uint64_t max_size;
} kinds[] = {
	{ QBM_KIND_STRS, "STRS", 3, QBM_SECTION_REQUIRED, 1, 1, 16ull << 20 },
	{ QBM_KIND_META, "META", 3, QBM_SECTION_REQUIRED, 1, 1, 8 + 4096 * 8 },
	{ QBM_KIND_VARI, "VARI", 3, QBM_SECTION_REQUIRED, 1, 1, 1ull << 20 },
	{ QBM_KIND_IOTB, "IOTB", 3, QBM_SECTION_REQUIRED, 1, 1, 1ull << 30 },
	{ QBM_KIND_CACH, "CACH", 3, QBM_SECTION_REQUIRED, 0, 1, 1ull << 20 },
	{ QBM_KIND_PROG, "PROG", 12, QBM_SECTION_REQUIRED, 1, 64,
	  MAX_SECTION_SIZE },
	{ QBM_KIND_WGHT, "WGHT", 12, QBM_SECTION_REQUIRED, 0, 1,
	  MAX_SECTION_SIZE },
	{ QBM_KIND_DBGI, "DBGI", 3, 0, 0, 64, 1ull << 30 },
};

/* What a file that does not begin with the magic seems to be. */
static enum qbrt_status refuse_magic(const struct qbm_reader *reader,
				     const uint8_t *start)
{
	static const uint8_t unix_ends[] = { 0x89, 'Q', 'B', 'M', '\n' };
	static const uint8_t dos_ends[] = { 0x89, 'Q',  'B', 'M',
					    '\r', '\r', '\n' };
	static const uint8_t seven_bits[] = { 0x09, 'Q', 'B', 'M' };
	const char *what = "if this is a model of another runtime, compile "
			   "its source model with qbcompile";

	if (!memcmp(start, unix_ends, sizeof(unix_ends)) ||
	    !memcmp(start, dos_ends, sizeof(dos_ends)) ||
	    !memcmp(start, seven_bits, sizeof(seven_bits)))
		what = "its line ends were changed by a transfer in text mode: "
		       "copy it in binary mode";
	/* ModelProto: ir_version, then one of the fields behind it */
	else if (start[0] == 0x08 && start[1] && start[1] < 0x40 &&
		 (start[2] & 7) == 2 && start[2] >= 0x12 && start[2] <= 0x42)
		what = "it looks like an ONNX model: compile it with qbcompile";
	return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ,
			 "%s: not a qbruntime container; %s", reader->name,
			 what);
}

/* LD03 for the header; the major number decides what the rest means. */
static enum qbrt_status check_versions(const struct qbm_reader *reader)
{
	const struct qbm_header *header = &reader->file->header;
	uint64_t unknown = header->isa_features & ~QBNPU_FEATURES_ISA;

	if (header->min_reader_minor > 0)
		return qbrt_fail(QBRT_MODEL_FORMAT_TOO_NEW,
				 "%s: header byte 28: needs a reader of format "
				 "1.%u, this one reads 1.0",
				 reader->name, header->min_reader_minor);
	if (header->isa_major != QBNPU_ISA_MAJOR ||
	    header->isa_minor > QBNPU_ISA_MINOR)
		return qbrt_fail(QBRT_MODEL_FORMAT_TOO_NEW,
				 "%s: header byte 12: instruction set %u.%u, "
				 "this library knows up to %d.%d",
				 reader->name, header->isa_major,
				 header->isa_minor, QBNPU_ISA_MAJOR,
				 QBNPU_ISA_MINOR);
	if (unknown)
		return qbrt_fail(QBRT_MODEL_FORMAT_TOO_NEW,
				 "%s: header byte 40: unknown isa_features "
				 "0x%" PRIx64,
				 reader->name, unknown);
	return QBRT_OK;
}

static enum qbrt_status check_producer(const struct qbm_reader *reader,
				       const struct qbm_place *place)
{
	const char *producer = reader->file->header.producer;
	size_t length =
		strnlen(producer, sizeof(reader->file->header.producer));
	size_t i;

	for (i = 0; i < sizeof(reader->file->header.producer); i++)
		if (i < length ? producer[i] < ' ' || producer[i] > '~'
			       : producer[i] != '\0')
			return qbrt_qbm_broken(
				reader, place,
				"producer is not printable ASCII "
				"padded with NUL");
	return QBRT_OK;
}

static enum qbrt_status check_header(const struct qbm_reader *reader)
{
	const struct qbm_field fields[] = {
		QBM_FIELD(qbm_header, header_size, sizeof(struct qbm_header),
			  sizeof(struct qbm_header)),
		QBM_FIELD(qbm_header, section_count, 5, 256),
		QBM_FIELD(qbm_header, section_entry_size,
			  sizeof(struct qbm_section),
			  sizeof(struct qbm_section)),
		QBM_FIELD(qbm_header, target, 0, 5),
		QBM_FIELD(qbm_header, file_size, reader->size, reader->size),
		QBM_FIELD(qbm_header, section_table_offset,
			  sizeof(struct qbm_header), sizeof(struct qbm_header)),
		QBM_FIELD(qbm_header, flags, 0, 0),
		QBM_RESERVED(qbm_header, reserved),
	};
	const struct qbm_place place = { "header", QBNPU_NONE32, 0 };
	const struct qbm_header *header = &reader->file->header;
	enum qbrt_status status;
	uint32_t crc;

	if (header->format_major != 1)
		return qbrt_fail(QBRT_MODEL_FORMAT_TOO_NEW,
				 "%s: header byte 8: format %u.%u, this "
				 "library reads 1.0",
				 reader->name, header->format_major,
				 header->format_minor);
	crc = (uint32_t)crc32_z(0, (const Bytef *)header,
				offsetof(struct qbm_header, header_crc32));
	if (crc != header->header_crc32)
		return qbrt_qbm_broken(reader, &place,
				       "checksum is 0x%08x, header_crc32 says "
				       "0x%08x",
				       crc, header->header_crc32);
	status = check_versions(reader);
	if (!status)
		status = qbrt_qbm_check_fields(reader, &place, header, fields,
					       qbrt_array_size(fields));
	return status ? status : check_producer(reader, &place);
}

static enum qbrt_status read_header(struct qbm_reader *reader)
{
	struct qbm_header *header = &reader->file->header;
	enum qbrt_status status;

	if (reader->size < sizeof(magic))
		return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ, "%s: %s",
				 reader->name,
				 reader->size ? "shorter than 8 bytes, so not "
						"a qbruntime container"
					      : "the file is empty");
	status = qbrt_qbm_read_bytes(reader, 0, header->magic, sizeof(magic));
	if (status)
		return status;
	if (memcmp(header->magic, magic, sizeof(magic)) != 0)
		return refuse_magic(reader, header->magic);
	if (reader->size < sizeof(*header) || reader->size >= MAX_FILE_SIZE)
		return qbrt_fail(QBRT_MODEL_BROKEN_MXQ,
				 "%s: %" PRIu64 " bytes: a container has 256 "
				 "or more and less than 64 GiB",
				 reader->name, reader->size);
	status = qbrt_qbm_read_bytes(reader, 0, header, sizeof(*header));
	return status ? status : check_header(reader);
}

static const struct section_kind *find_kind(uint32_t kind)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(kinds); i++)
		if (kinds[i].kind == kind)
			return &kinds[i];
	return NULL;
}

/* Place of a section by its entry in the table. */
static struct qbm_place entry_place(uint32_t number)
{
	return (struct qbm_place){
		"section table entry", number,
		sizeof(struct qbm_header) + number * sizeof(struct qbm_section)
	};
}

/* Flags, instance, alignment and size of a kind that is known. */
static enum qbrt_status check_known(const struct qbm_reader *reader,
				    const struct section_kind *kind,
				    uint32_t number)
{
	const struct qbm_section *section = &reader->sections[number];
	const struct qbm_section *last = number ? section - 1 : NULL;
	const struct qbm_place place = entry_place(number);
	bool is_repeated = last && last->kind == section->kind;
	uint32_t least_align = kind->align_log2;
	uint32_t instance = 0;

	if (kind->kind == QBM_KIND_WGHT && section->size >= LARGE_WEIGHTS)
		least_align = 16;
	if (kind->kind == QBM_KIND_PROG && is_repeated)
		instance = last->instance + 1;
	if (section->flags != kind->flags)
		return qbrt_qbm_broken(reader, &place,
				       "flags of %s are 0x%x, must "
				       "be 0x%x",
				       kind->name, section->flags, kind->flags);
	if (kind->kind == QBM_KIND_DBGI) {
		if (is_repeated && section->instance <= last->instance)
			return qbrt_qbm_broken(
				reader, &place,
				"instance %u of DBGI comes after %u",
				section->instance, last->instance);
	} else if (section->instance != instance) {
		return qbrt_qbm_broken(reader, &place,
				       "instance of %s is %u, must "
				       "be %u",
				       kind->name, section->instance, instance);
	}
	if (section->align_log2 < least_align)
		return qbrt_qbm_broken(
			reader, &place,
			"align_log2 of %s is %u, must be %u or more",
			kind->name, section->align_log2, least_align);
	if (section->size > kind->max_size)
		return qbrt_qbm_broken(
			reader, &place,
			"size of %s is %" PRIu64 ", must be at most %" PRIu64,
			kind->name, section->size, kind->max_size);
	return QBRT_OK;
}

/* FM02: at the first multiple of its alignment after end. */
static enum qbrt_status check_position(const struct qbm_reader *reader,
				       uint32_t number, uint64_t end)
{
	const struct qbm_section *section = &reader->sections[number];
	const struct qbm_place place = entry_place(number);
	uint64_t wanted = qbrt_round_up(end, 1ull << section->align_log2);
	static const struct qbm_place gap_place = { "gap", QBNPU_NONE32, 0 };
	struct qbm_place gap = gap_place;
	uint8_t bytes[4096];

	if (section->offset != wanted)
		return qbrt_qbm_broken(reader, &place,
				       "offset is %" PRIu64
				       ", must be %" PRIu64,
				       section->offset, wanted);
	if (section->offset > reader->size ||
	    section->size > reader->size - section->offset)
		return qbrt_qbm_broken(
			reader, &place,
			"offset %" PRIu64 " and size %" PRIu64
			" reach beyond the file's %" PRIu64 " bytes",
			section->offset, section->size, reader->size);
	for (gap.offset = end; gap.offset < wanted;) {
		uint64_t left = wanted - gap.offset;
		size_t num =
			left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
		enum qbrt_status status =
			qbrt_qbm_read_bytes(reader, gap.offset, bytes, num);
		size_t i;

		if (status)
			return status;
		for (i = 0; i < num; i++, gap.offset++)
			if (bytes[i])
				return qbrt_qbm_broken(reader, &gap,
						       "0x%02x between two "
						       "sections, must be 0",
						       bytes[i]);
	}
	return QBRT_OK;
}

static enum qbrt_status check_entry(const struct qbm_reader *reader,
				    uint32_t number, uint64_t end)
{
	static const struct qbm_field fields[] = {
		QBM_FIELD(qbm_section, align_log2, 3, 21),
		QBM_FIELD(qbm_section, size, 1, MAX_SECTION_SIZE),
		QBM_RESERVED(qbm_section, reserved0),
		QBM_RESERVED(qbm_section, reserved1),
		QBM_RESERVED(qbm_section, reserved2),
	};
	const struct qbm_section *section = &reader->sections[number];
	const struct section_kind *kind = find_kind(section->kind);
	const struct section_kind *last_kind =
		number ? find_kind(section[-1].kind) : kinds;
	const struct qbm_place place = entry_place(number);
	enum qbrt_status status;
	char name[20];

	if (!kind && section->flags & QBM_SECTION_REQUIRED)
		return qbrt_fail(QBRT_MODEL_FORMAT_TOO_NEW,
				 "%s: section \"%s\" at byte %" PRIu64
				 " is required and not known to this library",
				 reader->name,
				 qbrt_escape((const char *)&section->kind, 4,
					     name, sizeof(name)),
				 section->offset);
	if (kind && (!last_kind || kind < last_kind))
		return qbrt_qbm_broken(reader, &place, "%s is out of order",
				       kind->name);
	status = qbrt_qbm_check_fields(reader, &place, section, fields,
				       qbrt_array_size(fields));
	if (!status && kind)
		status = check_known(reader, kind, number);
	return status ? status : check_position(reader, number, end);
}

static uint32_t count_sections(const struct qbm_reader *reader, uint32_t kind)
{
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < reader->num_sections; i++)
		count += reader->sections[i].kind == kind;
	return count;
}

static enum qbrt_status check_counts(const struct qbm_reader *reader)
{
	const struct qbm_place place = { "section table", QBNPU_NONE32,
					 sizeof(struct qbm_header) };
	size_t i;

	for (i = 0; i < qbrt_array_size(kinds); i++) {
		uint32_t count = count_sections(reader, kinds[i].kind);

		if (count < kinds[i].min || count > kinds[i].max)
			return qbrt_qbm_broken(
				reader, &place,
				"%u sections %s, must be %u to %u", count,
				kinds[i].name, kinds[i].min, kinds[i].max);
	}
	return QBRT_OK;
}

static enum qbrt_status read_section_table(struct qbm_reader *reader)
{
	const struct qbm_place place = { "section table", QBNPU_NONE32,
					 sizeof(struct qbm_header) };
	const struct qbm_header *header = &reader->file->header;
	size_t size = header->section_count * sizeof(struct qbm_section);
	uint64_t end = sizeof(*header) + size;
	enum qbrt_status status;
	uint32_t crc;
	uint32_t i;

	if (end > reader->size)
		return qbrt_qbm_broken(
			reader, &place,
			"%u entries reach beyond the file's %" PRIu64 " bytes",
			header->section_count, reader->size);
	reader->sections = malloc(size);
	reader->bytes = calloc(header->section_count, sizeof(*reader->bytes));
	if (!reader->sections || !reader->bytes)
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory for %u sections",
				 reader->name, header->section_count);
	status = qbrt_qbm_read_bytes(reader, sizeof(*header), reader->sections,
				     size);
	if (status)
		return status;
	crc = (uint32_t)crc32_z(0, (const Bytef *)reader->sections, size);
	if (crc != header->section_table_crc32)
		return qbrt_qbm_broken(
			reader, &place,
			"checksum is 0x%08x, section_table_crc32 "
			"says 0x%08x",
			crc, header->section_table_crc32);
	reader->num_sections = header->section_count;
	for (i = 0; i < reader->num_sections; i++) {
		status = check_entry(reader, i, end);
		if (status)
			return status;
		end = reader->sections[i].offset + reader->sections[i].size;
	}
	if (end != reader->size)
		return qbrt_qbm_broken(reader, &place,
				       "the last section ends at byte %" PRIu64
				       ", the file has %" PRIu64,
				       end, reader->size);
	return check_counts(reader);
}

enum qbrt_status qbrt_qbm_read_head(struct qbm_reader *reader)
{
	enum qbrt_status status = read_header(reader);

	return status ? status : read_section_table(reader);
}
