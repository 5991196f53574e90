/* SPDX-License-Identifier: MIT */
/*
 * The devices whose cores have rows in a trace: those that this process has
 * open, numbered in the order of opening. A table of fixed size, so that who
 * records finds a row without a lock. Part of trace.c, whose lock guards all
 * but finding.
 */
#ifndef QBRT_TRACE_DEVICE_H
#define QBRT_TRACE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace-line.h"
#include "trace.h"

struct qbrt_trace_place;

/* Its place if it is new; NULL: it has one already, or there is none left. */
const struct qbrt_trace_place *
qbrt_trace_table_add(const struct qbrt_trace_device *device);
void qbrt_trace_table_remove(uint64_t instance);
void qbrt_trace_table_clear(void);

/* The first open device at index or after it, and where to go on; or NULL. */
const struct qbrt_trace_place *qbrt_trace_table_next(size_t *index);

/* Line number of what a trace says of a device; false: there are no more. */
bool qbrt_trace_place_line(const struct qbrt_trace_place *place,
			   unsigned int number, struct qbrt_trace_line *line);

/* Any thread: the row of a core; false: the device is not in the table. */
bool qbrt_trace_table_find(uint64_t instance, uint32_t core, long *pid,
			   long *tid);

#endif
