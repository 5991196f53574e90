/* SPDX-License-Identifier: MIT */
/*
 * What the parts of model-file share: the state of one reading, how a fault of
 * the file becomes a sentence, and tables that say which values a structure's
 * fields may have. Everything that a part looks at is private memory by then.
 */
#ifndef QBRT_MODEL_FILE_PARTS_H
#define QBRT_MODEL_FILE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model-file.h"

#define QBM_KIND(a, b, c, d) \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | \
	 (uint32_t)(d) << 24)
#define QBM_KIND_STRS QBM_KIND('S', 'T', 'R', 'S')
#define QBM_KIND_META QBM_KIND('M', 'E', 'T', 'A')
#define QBM_KIND_VARI QBM_KIND('V', 'A', 'R', 'I')
#define QBM_KIND_IOTB QBM_KIND('I', 'O', 'T', 'B')
#define QBM_KIND_CACH QBM_KIND('C', 'A', 'C', 'H')
#define QBM_KIND_PROG QBM_KIND('P', 'R', 'O', 'G')
#define QBM_KIND_WGHT QBM_KIND('W', 'G', 'H', 'T')
#define QBM_KIND_DBGI QBM_KIND('D', 'B', 'G', 'I')

#define QBM_NO_SPACE QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY

#define QBM_SECTION_REQUIRED 1u
#define QBM_VARIANT_BATCH_PARAMS 1u
#define QBM_IO_BATCHED 1u
#define QBM_IO_NORMALISED 2u
#define QBM_LAYOUT_HWC 1u
#define QBM_MODES 0x1bu /* Single, Multi, Global4, Global8 */
#define QBM_NUM_MODES 5u

enum qbm_role {
	QBM_ROLE_INPUT = 0,
	QBM_ROLE_OUTPUT = 1,
	QBM_ROLE_STATE = 2,
};

/* One reading of one file. */
struct qbm_reader {
	char name[256];      /* escaped path, for sentences */
	int fd;              /* -1: the bytes are at data */
	const uint8_t *data; /* fd is -1 */
	uint64_t size;
	struct qbrt_model_file *file;
	uint32_t num_sections;
	struct qbm_section *sections;
	const uint8_t **bytes; /* of each section; WGHT and unknown: NULL */
};

/* Where in the file something stands: "IOTB entry 3 at byte 1704". */
struct qbm_place {
	const char *what;
	uint32_t index; /* QBNPU_NONE32: there is but one */
	uint64_t offset;
};

/* A field and its least and greatest value. */
struct qbm_field {
	const char *name;
	uint16_t offset;
	uint16_t size; /* 1, 2, 4, 8; of a reserved one anything */
	uint32_t is_reserved;
	uint64_t min;
	uint64_t max;
};

#define QBM_FIELD(type, member, min, max) \
	{ \
#member, offsetof(struct type, member), \
			sizeof(((struct type *)NULL)->member), 0, min, max \
	}
#define QBM_FIXED(type, member, value) QBM_FIELD(type, member, value, value)
#define QBM_RESERVED(type, member) \
	{ \
#member, offsetof(struct type, member), \
			sizeof(((struct type *)NULL)->member), 1, 0, 0 \
	}

/* Status 20 and the sentence "NAME: PLACE: ...". */
enum qbrt_status qbrt_qbm_broken(const struct qbm_reader *reader,
				 const struct qbm_place *place,
				 const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Every field within its bounds. Reserved bytes are 0, but in a file of a
 * newer minor, which may have given them a meaning that does not matter here
 * (VP01).
 */
enum qbrt_status qbrt_qbm_check_fields(const struct qbm_reader *reader,
				       const struct qbm_place *place,
				       const void *bytes,
				       const struct qbm_field *fields,
				       size_t num);

/* size bytes of the file, which lie inside it by its size, into private memory. */
enum qbrt_status qbrt_qbm_read_bytes(const struct qbm_reader *reader,
				     uint64_t offset, void *bytes, size_t size);

/* Reads and checks the header and the section table. */
enum qbrt_status qbrt_qbm_read_head(struct qbm_reader *reader);

/* The section's number in the table, QBNPU_NONE32 if the file has none. */
uint32_t qbrt_qbm_find_section(const struct qbm_reader *reader, uint32_t kind,
			       uint32_t instance);

/* A string field: the start of a string, without line feeds unless allowed. */
enum qbrt_status qbrt_qbm_check_string(const struct qbm_reader *reader,
				       const struct qbm_place *place,
				       const char *field, uint32_t offset,
				       bool may_have_lines);

/*
 * A section that the file is known to have, as bytes in memory. Refused where
 * it is smaller than size, the least that it may have.
 */
enum qbrt_status qbrt_qbm_get_section(const struct qbm_reader *reader,
				      uint32_t kind, uint32_t instance,
				      const char *what, size_t size,
				      struct qbm_place *place,
				      const uint8_t **bytes);
uint64_t qbrt_qbm_get_size(const struct qbm_reader *reader, uint32_t kind,
			   uint32_t instance);

struct qbm_place qbrt_qbm_io_place(const struct qbm_reader *reader,
				   uint32_t number);

/* Byte offset of a section's content, as a place. */
struct qbm_place qbrt_qbm_section_place(const struct qbm_reader *reader,
					uint32_t number, const char *what);

/*
 * Sections to tables: STRS, META, VARI, IOTB, CACH, DBGI, each by itself and
 * against each other, without the programs.
 */
enum qbrt_status qbrt_qbm_check_tables(struct qbm_reader *reader);
enum qbrt_status qbrt_qbm_check_ios(struct qbm_reader *reader);
/* One state inside STATE and WGHT; then FM22 and all states together. */
enum qbrt_status qbrt_qbm_check_state(const struct qbm_reader *reader,
				      const struct qbm_place *place,
				      const struct qbm_io *io);
enum qbrt_status qbrt_qbm_check_states(const struct qbm_reader *reader);
enum qbrt_status qbrt_qbm_check_caches(struct qbm_reader *reader);

/* The programs' bytes, and the names of their commands. */
enum qbrt_status qbrt_qbm_find_programs(struct qbm_reader *reader);

/* Validates every program, then compares it with the tables. */
enum qbrt_status qbrt_qbm_check_programs(struct qbm_reader *reader);

#endif
