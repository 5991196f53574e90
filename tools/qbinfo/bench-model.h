/* SPDX-License-Identifier: MIT */
/* The set model: what one model file costs (docs/spec/performance.md, 7). */
#ifndef QBINFO_BENCH_MODEL_H
#define QBINFO_BENCH_MODEL_H

#include <qbruntime/qbrt.h>

#include "bench.h"
#include "inventory.h"

/* Set before the first of these; the device is that of bench_setup. */
extern const char *bench_model_path;

extern const struct bench_metric bench_model[];
extern const size_t bench_num_model;
/* The one that copies. */
extern const struct bench_probe *const bench_model_arrays;

/* ---- bench-whole.c ---- */

#define WHOLE_MAX_DEPTH 8

struct whole {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	size_t num_inputs, num_outputs;
	/* num_outputs of the latter for each in flight */
	struct qbrt_pinned_memory **inputs, **outputs;
	struct qbrt_future *futures[WHOLE_MAX_DEPTH];
	size_t depth;
	struct qbrt_array *arrays; /* inputs, then outputs */
	struct qbrt_io_info *infos;
	void **expected; /* of each array of an output, and of each buffer */
	int trace;       /* a memfd, -1: none */
};

/* With its default configuration; NULL with the reason set. */
void *whole_open(const struct bench_case *bench_case);
void *whole_open_depth(size_t depth);
void whole_close(void *state);
void whole_count(const void *state, struct bench_counters *counters);

/* One mode of the file: Single where it has several. */
enum qbrt_status whole_load(size_t depth, struct qbrt_model **model);

size_t whole_get_nbytes(const struct qbrt_array *array);

/* So many, one after the other; false: one failed. */
bool whole_infer_pinned(const struct whole *whole, uint32_t num);
bool whole_infer_arrays(const struct whole *whole, uint32_t num);
/* Of the outputs of one in flight: false: another answer than the first. */
bool whole_check_buffers(struct whole *whole, size_t at);
bool whole_check_arrays(struct whole *whole);

/* Whether it loads, launches and has its buffers there. */
enum qbrt_status bench_model_try(void);

/* copies of a record: into staging and out of it, for an inference on arrays. */
void bench_model_set_copies(struct record *record);

#endif
