// SPDX-License-Identifier: MIT
/* Offsets: docs/spec/device-and-format.md, section 3.1. */
#include "qbm-reader.h"

#include <string.h>
#include <unistd.h>

#include "inventory.h"

#define HEADER_SIZE 256u
#define SECTION_SIZE 80u
#define MAX_BYTES (32u << 20)

uint64_t qbm_get(const struct qbm_bytes *bytes, size_t offset, size_t width)
{
	uint64_t number = 0;

	if (offset > bytes->size || width > bytes->size - offset)
		return 0;
	for (size_t i = width; i; i--)
		number = number << 8 | bytes->data[offset + i - 1];
	return number;
}

uint32_t qbm_get32(const struct qbm_bytes *bytes, size_t offset)
{
	return (uint32_t)qbm_get(bytes, offset, 4);
}

float qbm_get_float(const struct qbm_bytes *bytes, size_t offset)
{
	uint32_t bits = qbm_get32(bytes, offset);
	float number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

struct qbm_bytes qbm_read_bytes(int fd, uint64_t offset, uint64_t size)
{
	struct qbm_bytes bytes = { .size = 0 };
	unsigned char *data;

	if (size > MAX_BYTES || offset > INT64_MAX)
		return bytes;
	data = inventory_alloc(size + 1);
	bytes.data = data;
	while (bytes.size < size) {
		ssize_t num = pread(fd, data + bytes.size, size - bytes.size,
				    (off_t)(offset + bytes.size));

		if (num <= 0)
			break;
		bytes.size += (size_t)num;
	}
	return bytes;
}

struct qbm_bytes qbm_read_section(const struct qbm_reader *reader,
				  const char *kind)
{
	const unsigned char *word = (const unsigned char *)kind;
	uint32_t number = word[0] | (uint32_t)word[1] << 8 |
			  (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;

	for (size_t i = 0; i < reader->num_sections; i++) {
		if (reader->sections[i].kind == number)
			return qbm_read_bytes(reader->fd,
					      reader->sections[i].offset,
					      reader->sections[i].size);
	}
	return (struct qbm_bytes){ .size = 0 };
}

const char *qbm_get_string(const struct qbm_reader *reader, uint32_t offset)
{
	const struct qbm_bytes *strings = &reader->strings;

	if (offset >= strings->size ||
	    !memchr(strings->data + offset, 0, strings->size - offset))
		return "";
	return (const char *)strings->data + offset;
}

/* ---- the head ---- */

void qbm_read_head(struct qbm_reader *reader)
{
	struct qbm_bytes table;
	size_t num;

	reader->header = qbm_read_bytes(reader->fd, 0, HEADER_SIZE);
	num = qbm_get32(&reader->header, 20);
	if (num > QBM_MAX_SECTIONS)
		num = QBM_MAX_SECTIONS;
	table = qbm_read_bytes(reader->fd, qbm_get(&reader->header, 48, 8),
			       (uint64_t)num * SECTION_SIZE);
	reader->num_sections = table.size / SECTION_SIZE;
	for (size_t i = 0; i < reader->num_sections; i++) {
		size_t at = i * SECTION_SIZE;

		reader->sections[i].kind = qbm_get32(&table, at);
		reader->sections[i].instance = qbm_get32(&table, at + 8);
		reader->sections[i].offset = qbm_get(&table, at + 16, 8);
		reader->sections[i].size = qbm_get(&table, at + 24, 8);
	}
	reader->strings = qbm_read_section(reader, "STRS");
	reader->variants = qbm_read_section(reader, "VARI");
	reader->tensors = qbm_read_section(reader, "IOTB");
}
