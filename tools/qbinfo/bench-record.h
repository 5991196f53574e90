/* SPDX-License-Identifier: MIT */
/* What was measured, as a record of the inventory. */
#ifndef QBINFO_BENCH_RECORD_H
#define QBINFO_BENCH_RECORD_H

#include <stdio.h>

#include "bench.h"
#include "inventory.h"

/* Of LIST_RESULTS. command: as it was given; it lives as long as the record. */
void bench_fill_record(struct record *record, const struct bench_result *result,
		       const struct bench_options *options,
		       const char *command);

/* The same as one line of JSON. */
void bench_write_record(FILE *file, const struct bench_result *result,
			const struct bench_options *options,
			const char *command);

#endif
