/* SPDX-License-Identifier: MIT */
/*
 * Builds model files (.qbm) for tests, in memory, around programs of prog.h:
 * one variant per program, its inputs and outputs described by the program's
 * bindings. Written from the page, not with the library's code.
 */
#ifndef TESTS_MODELS_H
#define TESTS_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "prog.h"

#define MODELS_MAX_VARIANTS 4

/* Zero in a field is the plain form. */
struct models_spec {
	/* finished here; INPUT and OUTPUT bindings in this order */
	struct prog *programs[MODELS_MAX_VARIANTS];
	size_t num_programs;
	uint32_t mode_mask; /* 0: Single; a program serves Single and Multi */
	uint32_t activation_slots;
	uint16_t target;
	bool is_hwc;         /* entries of rank 3 */
	bool is_float_host;  /* host_dtype is float32 */
	bool may_alias;      /* output 0 may be input 0 */
	const char *node;    /* DBGI: the node of every command */
	const void *weights; /* WGHT */
	size_t weights_size;
};

/* The file's bytes; the caller frees them. */
void *models_build(const struct models_spec *spec, size_t *nbytes);

/* A memfd with these bytes. */
int models_write(const void *bytes, size_t nbytes);

/* Builds and loads; aborts the test on failure. */
struct qbrt_model *models_load(const struct models_spec *spec);

/* The golden copy64, and one of num bytes that takes scratch_size too. */
struct qbrt_model *models_load_copy64(void);
struct qbrt_model *models_load_copy(uint32_t num, uint32_t scratch_size);

/* As copy64, with delays of 1 ms before the copy. */
struct qbrt_model *models_load_slow(uint32_t num_ms, uint32_t activation_slots);

#endif
