/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a model file by the published format: its head, section table,
 * strings. Nothing is believed: reads beyond what is there give 0 or "".
 */
#ifndef QBINFO_QBM_READER_H
#define QBINFO_QBM_READER_H

#include <stddef.h>
#include <stdint.h>

#define QBM_MAX_SECTIONS 256u

/* Bytes of the file; reads beyond the end give 0. */
struct qbm_bytes {
	const unsigned char *data;
	size_t size;
};

struct qbm_part {
	uint32_t kind, instance;
	uint64_t offset, size;
};

struct qbm_reader {
	int fd;
	struct qbm_bytes header, strings, variants, tensors;
	struct qbm_part sections[QBM_MAX_SECTIONS];
	size_t num_sections;
};

uint64_t qbm_get(const struct qbm_bytes *bytes, size_t offset, size_t width);
uint32_t qbm_get32(const struct qbm_bytes *bytes, size_t offset);
float qbm_get_float(const struct qbm_bytes *bytes, size_t offset);
/* At most 32 MiB; shorter where the file ends. */
struct qbm_bytes qbm_read_bytes(int fd, uint64_t offset, uint64_t size);
/* The first section of a kind, whole; empty if there is none. */
struct qbm_bytes qbm_read_section(const struct qbm_reader *reader,
				  const char *kind);
const char *qbm_get_string(const struct qbm_reader *reader, uint32_t offset);
/* reader->fd is set: reads head, section table, STRS, VARI and IOTB. */
void qbm_read_head(struct qbm_reader *reader);

#endif
