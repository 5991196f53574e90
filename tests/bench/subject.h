/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder measure: software devices with one core and
 * the reference kernels. The subjects themselves are qbinfo's.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include "bench-subject.h"

/* What all handles of a process share stays open; the other one is for P31. */
#define SUBJECT_WARM "regulus-ra"
#define SUBJECT_COLD "regulus-rb"

/* What the environment says from now on, and the subjects: before the first. */
void subject_setup(void);

/* share.c */
extern const struct bench_probe probe_share; /* P34 */

#endif
