// SPDX-License-Identifier: MIT
/*
 * Containers as bytes. The mutator changes the content of one section in
 * place, or the header and the table, and makes the checksums right again, so
 * that most inputs reach the rules behind them; one in eight is left as
 * libFuzzer makes it. What loads is used as the library uses it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "model-file.h"
#include "status.h"

#define MAX_SECTIONS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
			       unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static size_t use_string(const struct qbrt_model_file *file, uint32_t offset)
{
	char text[64];
	const char *string = qbrt_model_file_string(file, offset);

	return strlen(qbrt_escape(string, strlen(string), text, sizeof(text)));
}

static size_t use_io(const struct qbrt_model_file *file,
		     const struct qbm_io *io)
{
	size_t sum = use_string(file, io->name);
	uint32_t i;

	for (i = 0; i < io->scale_count; i++)
		sum += file->scales[io->scale_first + i] > 0.5f;
	for (i = 0; i < io->rank; i++)
		sum += (size_t)io->shape[i];
	if (io->cache != QBNPU_NONE32)
		sum += use_string(file, file->caches[io->cache].name);
	if (io->alias != QBNPU_NONE32)
		sum += file->ios[io->alias].rank;
	return sum;
}

static size_t use_file(const struct qbrt_model_file *file)
{
	size_t sum = 0;
	uint32_t i;
	uint32_t mode;

	for (i = 0; i < file->num_meta; i++)
		sum += use_string(file, file->meta[i].value);
	for (i = 0; i < file->iotb->count; i++)
		sum += use_io(file, &file->ios[i]);
	for (i = 0; i < file->vari->variant_count; i++) {
		const struct qbm_bundle *bundle = &file->bundles[i];

		for (mode = 0; mode < 5; mode++)
			if (bundle->mode_mask & 1u << mode)
				sum += file->programs[bundle->program[mode]]
					       .facts->binding_count;
	}
	for (i = 0; i < file->num_programs; i++)
		sum += strlen(qbrt_model_file_get_node(file, i, i));
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qbrt_model_file *file = NULL;
	enum qbrt_status status;

	status = qbrt_model_file_parse(data, size, "fuzz.qbm", &file);
	if (status) {
		if (file || !*qbrt_error_detail() ||
		    status == QBRT_INTERNAL_ERROR)
			abort();
		return 0;
	}
	if (use_file(file) == SIZE_MAX)
		abort();
	qbrt_model_file_free(file);
	return 0;
}

static uint32_t read_count(const uint8_t *data, size_t size)
{
	struct qbm_header header;

	if (size < sizeof(header))
		return 0;
	memcpy(&header, data, sizeof(header));
	if (header.section_count > MAX_SECTIONS ||
	    sizeof(header) + header.section_count * sizeof(struct qbm_section) >
		    size)
		return 0;
	return header.section_count;
}

static struct qbm_section read_entry(const uint8_t *data, uint32_t number)
{
	struct qbm_section entry;

	memcpy(&entry,
	       data + sizeof(struct qbm_header) + number * sizeof(entry),
	       sizeof(entry));
	return entry;
}

static void seal(uint8_t *data, size_t size)
{
	const uint32_t count = read_count(data, size);
	const size_t table_size = count * sizeof(struct qbm_section);
	uint8_t *table = data + sizeof(struct qbm_header);
	struct qbm_header header;
	uint32_t i;

	if (!count)
		return;
	for (i = 0; i < count; i++) {
		struct qbm_section entry = read_entry(data, i);

		if (entry.offset <= size && entry.size <= size - entry.offset)
			entry.crc32 = (uint32_t)crc32_z(0, data + entry.offset,
							entry.size);
		memcpy(table + i * sizeof(entry), &entry, sizeof(entry));
	}
	memcpy(&header, data, sizeof(header));
	header.section_table_crc32 = (uint32_t)crc32_z(0, table, table_size);
	header.header_crc32 =
		(uint32_t)crc32_z(0, (const uint8_t *)&header,
				  offsetof(struct qbm_header, header_crc32));
	memcpy(data, &header, sizeof(header));
}

/* A part of the file, changed without changing its length. */
static void mutate_part(uint8_t *data, uint64_t size, uint64_t part_size)
{
	uint8_t *copy;
	size_t num;

	if (!part_size || part_size > size)
		return;
	copy = malloc(part_size);
	if (!copy)
		return;
	memcpy(copy, data, part_size);
	num = LLVMFuzzerMutate(copy, part_size, part_size);
	memcpy(data, copy, num);
	free(copy);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
			       unsigned int seed)
{
	uint32_t count = read_count(data, size);
	uint32_t choice = count ? seed / 8 % (count + 2) : 0;

	if (!count || seed % 8 == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	if (choice < count) {
		struct qbm_section entry = read_entry(data, choice);

		if (entry.offset < size)
			mutate_part(data + entry.offset, size - entry.offset,
				    entry.size);
	} else if (choice == count) {
		mutate_part(data + sizeof(struct qbm_header),
			    size - sizeof(struct qbm_header),
			    count * sizeof(struct qbm_section));
	} else {
		mutate_part(data + 8, size - 8, 120);
	}
	seal(data, size);
	return size;
}
