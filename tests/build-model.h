/* SPDX-License-Identifier: MIT */
/*
 * Builds containers for tests of the reader: fill the tables, build_finish
 * lays them out in canonical order with right checksums. It shares nothing
 * with the reader but the structs, so that the two check each other. Bad files
 * come from editing tables before build_finish, or the finished bytes after
 * it; build_seal makes the checksums right again. A failed allocation aborts.
 */
#ifndef TESTS_BUILD_MODEL_H
#define TESTS_BUILD_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "model-file.h"
#include "prog.h"

#define BUILD_KIND(name) \
	((uint32_t)(name)[0] | (uint32_t)(name)[1] << 8 | \
	 (uint32_t)(name)[2] << 16 | (uint32_t)(name)[3] << 24)

struct build {
	uint8_t *bytes; /* the finished file */
	size_t nbytes;

	char strings[8192]; /* STRS; build_string appends */
	size_t strings_size;
	uint32_t target;
	uint32_t num_meta;
	struct qbm_meta_entry meta[8];
	uint32_t num_variants; /* = bundles */
	struct qbm_variant variants[3];
	struct qbm_bundle bundles[3];
	uint32_t num_ios;
	struct qbm_io ios[16];
	uint64_t state_size;
	uint32_t num_scales;
	float scales[8];
	uint32_t num_caches; /* 0: no CACH */
	struct qbm_cach cach;
	struct qbm_cache caches[4];
	uint32_t num_programs;
	struct prog programs[4];
	uint32_t num_debug; /* DBGI of program 0; 0: none */
	struct qbm_debug debug[4];
	uint8_t weights[512];
	size_t weights_size; /* 0: no WGHT */
	size_t extra_size; /* 0: no optional section XTRA of this many bytes */
};

/*
 * plain: one variant, uint8 HWC input with scales and normalisation folded in,
 *	output of the same shape, one COPY; DBGI; section XTRA.
 * modes: one variant in all modes, batch 2, output aliases the input in place.
 * copy: one variant, one dense input and output, one COPY; not finished yet,
 *	so that the entries ios[0] and ios[1] can be edited.
 * full: two variants, variable tokens, a cache layer and a recurrent state
 *	with initial values from WGHT.
 */
void build_plain(struct build *build);
void build_modes(struct build *build);
void build_copy(struct build *build, uint32_t dtype, uint32_t rank,
		const uint32_t *dims);
void build_full(struct build *build);

/* Lays out what the tables say. build_end frees everything. */
void build_finish(struct build *build);
void build_end(struct build *build);

/* Both, and between them the model is loaded; aborts the test on failure. */
struct qbrt_model *build_load(struct build *build);

uint32_t build_string(struct build *build, const char *text);

/* An entry with the values that most have; shape is dense and fixed. */
struct qbm_io *build_io(struct build *build, uint32_t variant, uint32_t role,
			uint32_t index, const char *name, uint32_t dtype,
			uint32_t rank, const uint32_t *dims);

/* Where a section's entry and its content are in the finished bytes. */
struct qbm_section *build_entry(const struct build *build, const char *kind,
				uint32_t instance);
uint8_t *build_content(const struct build *build, const char *kind,
		       uint32_t instance);

/*
 * Computes every checksum of size bytes anew, as far as the section table is
 * inside them; used on bytes that may be anything.
 */
void build_seal(uint8_t *bytes, size_t size);

#endif
