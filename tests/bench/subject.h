/* SPDX-License-Identifier: MIT */
/*
 * What most programs of this folder measure: one software device with one
 * core and the reference kernels, models that do nothing but wait, and their
 * buffers. Probes that submit and collect later are in future.c.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stdint.h>
#include <sys/types.h>

#include <qbruntime/qbrt.h>

#include "bench.h"

struct subject {
	enum bench_placement placement;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
};

/* What all handles of a process share stays open; the other one is for P31. */
#define SUBJECT_WARM "regulus-ra"
#define SUBJECT_COLD "regulus-rb"

/* What the environment says from now on; part of every open. */
void subject_choose_devices(void);

/*
 * A model of one NOP and a FILL of its output, launched.
 * NULL with the reason set: no such device.
 */
struct subject *subject_open(const struct bench_case *bench_case,
			     size_t input_nbytes, size_t output_nbytes,
			     uint32_t delay_ns);
struct subject *subject_open_on(const char *name,
				const struct bench_case *bench_case,
				size_t input_nbytes, size_t output_nbytes,
				uint32_t delay_ns);
void subject_close(void *subject);
void subject_count(const void *subject, struct bench_counters *counters);

/* The model alone; aborts when it cannot be built. */
struct qbrt_model *subject_load(size_t input_nbytes, size_t output_nbytes,
				uint32_t delay_ns);

/* An inference; false: it failed. */
bool subject_infer(const struct subject *subject, uint32_t flags);

/* The thread of the device's core, placed beside the caller; 0: none yet. */
pid_t subject_place_core(enum bench_placement placement);

/* future.c */
extern const struct bench_probe probe_polling;     /* P21 */
extern const struct bench_probe probe_blocking;    /* P22 */
extern const struct bench_probe probe_submit;      /* P23: core awake */
extern const struct bench_probe probe_submit_wake; /* P24: core asleep */
extern const struct bench_probe probe_pipelined;   /* P25 */
extern const struct bench_probe probe_wait_cpu;    /* P36 */

/* share.c */
extern const struct bench_probe probe_share; /* P34 */

#endif
