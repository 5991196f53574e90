/* SPDX-License-Identifier: MIT */
/*
 * One field of a good container changed, checksums right again: the reader
 * must refuse with that status and a sentence that names the place and what
 * was expected.
 */
#ifndef TESTS_EDIT_MODEL_H
#define TESTS_EDIT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "build-model.h"

struct edit {
	const char *kind; /* "HEAD": file offset; "TABL": section table */
	uint32_t instance;
	size_t offset;
	size_t size; /* at most 8 */
	uint64_t value;
	int status;
	const char *text; /* part of the sentence */
};

#define AT(type, member) \
	offsetof(struct type, member), sizeof(((struct type *)NULL)->member)
#define HEAD(member) "HEAD", 0, AT(qbm_header, member)
#define ENTRY(number, member) \
	"TABL", 0, \
		(number) * sizeof(struct qbm_section) + \
			offsetof(struct qbm_section, member), \
		sizeof(((struct qbm_section *)NULL)->member)
#define META(member) "META", 0, AT(qbm_meta, member)
#define META_ENTRY(number, member) \
	"META", 0, 8 + (number)*8 + offsetof(struct qbm_meta_entry, member), 4
#define VARI(member) "VARI", 0, AT(qbm_vari, member)
#define VARIANT(number, member) \
	"VARI", 0, 32 + (number)*128 + offsetof(struct qbm_variant, member), \
		sizeof(((struct qbm_variant *)NULL)->member)
#define BUNDLE(num_variants, number, member) \
	"VARI", 0, \
		32 + (num_variants)*128 + (number)*64 + \
			offsetof(struct qbm_bundle, member), \
		sizeof(((struct qbm_bundle *)NULL)->member)
#define PROGRAM_OF(num_variants, number, mode) \
	"VARI", 0, 32 + (num_variants)*128 + (number)*64 + 8 + (mode)*4, 4
#define IOTB(member) "IOTB", 0, AT(qbm_iotb, member)
#define IO(number, member) \
	"IOTB", 0, 32 + (number)*256 + offsetof(struct qbm_io, member), \
		sizeof(((struct qbm_io *)NULL)->member)
#define CACH(member) "CACH", 0, AT(qbm_cach, member)
#define CACHE(number, member) \
	"CACH", 0, 32 + (number)*96 + offsetof(struct qbm_cache, member), \
		sizeof(((struct qbm_cache *)NULL)->member)
#define DBGI(member) "DBGI", 0, AT(qbm_dbgi, member)
#define DEBUG(number, member) \
	"DBGI", 0, 16 + (number)*16 + offsetof(struct qbm_debug, member), 4
#define BYTE(kind, offset) kind, 0, offset, 1

/* Each edit by itself, of the file that fill builds, which loads. */
void check_edits(void (*fill)(struct build *build), const struct edit *edits,
		 size_t num);
void check_edit(const struct build *build, const struct edit *edit);

/* The bytes as they are, checksums made right: status 20 with that text. */
void check_refused(struct build *build, const char *text);

#endif
