/* SPDX-License-Identifier: MIT */
/* An earlier run of bench, to compare with (I59). */
#ifndef QBINFO_BENCH_BASELINE_H
#define QBINFO_BENCH_BASELINE_H

#include "bench.h"
#include "inventory.h"

struct baseline;

/* What --json or --jsonl wrote; 0 or an exit code. The caller frees it. */
int baseline_read(const char *path, struct baseline **baseline);
/* NULL is nothing to do. */
void baseline_free(struct baseline *baseline);

bool baseline_has(const struct baseline *baseline,
		  const struct bench_metric *metric,
		  enum bench_placement placement);

/* baseline.* of a record, if the earlier run has its metric and placement. */
void baseline_compare(const struct baseline *baseline, struct record *record,
		      const struct bench_result *result, uint64_t seed);

#endif
