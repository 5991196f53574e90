/* SPDX-License-Identifier: MIT */
/*
 * One line of a trace file: a JSON object behind a comma (the first one of a
 * file: behind "["). Strings are escaped and cut so that no line is ever
 * longer than its room, whatever names say. Part of trace.c.
 */
#ifndef QBRT_TRACE_LINE_H
#define QBRT_TRACE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

#define QBRT_TRACE_LINE_SIZE 2048

struct qbrt_trace_line {
	size_t length;
	char text[QBRT_TRACE_LINE_SIZE];
};

/*
 * An event of this phase ('X' has a duration) in the row of pid and tid, up to
 * args, for which begin_args comes next.
 */
void qbrt_trace_line_begin(struct qbrt_trace_line *line,
			   const struct qbrt_trace_event *event, char phase,
			   const char *category, long pid, long tid);

/* An M event, args begun. separator: ',', or '[' in a file's first line. */
void qbrt_trace_line_begin_names(struct qbrt_trace_line *line, char separator,
				 const char *name, long pid, long tid);

void qbrt_trace_line_add(struct qbrt_trace_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* args, with the members that event has, and more of them */
void qbrt_trace_line_begin_args(struct qbrt_trace_line *line,
				const struct qbrt_trace_event *event);
void qbrt_trace_line_add_number(struct qbrt_trace_line *line, const char *key,
				uint64_t value);
void qbrt_trace_line_add_text(struct qbrt_trace_line *line, const char *key,
			      const char *text);

/* Closes args and the object. */
void qbrt_trace_line_end(struct qbrt_trace_line *line);

#endif
