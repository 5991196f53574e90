/* SPDX-License-Identifier: MIT */
/*
 * What is measured: models that do nothing but wait, on one core of a device,
 * and their buffers. Probes that submit and collect later are in
 * bench-future.c, those of a whole model in bench-model.c.
 */
#ifndef QBINFO_BENCH_SUBJECT_H
#define QBINFO_BENCH_SUBJECT_H

#include <stdint.h>
#include <sys/types.h>

#include <qbruntime/qbrt.h>

#include "bench.h"

/* Where the subjects come from: set before the first one is opened. */
struct bench_setup {
	const char *id;   /* of the device */
	const char *name; /* the two parts of that */
	int number;
	const char *cold; /* a device that nothing holds open; NULL: none */
};
extern struct bench_setup bench_setup;

struct subject {
	enum bench_placement placement;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
};

/* A model of one NOP, which may wait, and a FILL of the output. */
struct subject_program {
	uint64_t delay_ns;
	uint32_t in_nbytes, out_nbytes;
};
extern const struct subject_program subject_nop; /* 64 bytes in and out */
extern const struct subject_program subject_300us;
extern const struct subject_program subject_10ms;
extern const struct subject_program subject_picture; /* 150,528 in, 4,096 out */

/* Launched on one core. NULL with the reason set: that cannot be. */
struct subject *subject_open(const struct bench_case *bench_case,
			     const struct subject_program *program);
struct subject *subject_open_on(const char *name, int number,
				const struct bench_case *bench_case,
				const struct subject_program *program);
void subject_close(void *subject);
void subject_count(const void *subject, struct bench_counters *counters);

/* The model alone, for that core; NULL with the reason set. */
struct qbrt_model *subject_load(const struct subject_program *program);

/* An inference; false: it failed. */
bool subject_infer(const struct subject *subject, uint32_t flags);

/* The thread of the device's core, placed beside the caller; 0: none. */
pid_t subject_place_core(enum bench_placement placement);

/* bench-future.c */
extern const struct bench_probe probe_polling;     /* P21 */
extern const struct bench_probe probe_blocking;    /* P22 */
extern const struct bench_probe probe_submit;      /* P23: core awake */
extern const struct bench_probe probe_submit_wake; /* P24: core asleep */
extern const struct bench_probe probe_pipelined;   /* P25 */
extern const struct bench_probe probe_wait_cpu;    /* P36 */

#endif
