/* SPDX-License-Identifier: MIT */
/*
 * Reads a trace file for tests: the whole is checked as JSON, by a parser of
 * its own, then its lines become events. Failures abort the test.
 */
#ifndef TESTS_TRACE_READ_H
#define TESTS_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -1 or "" where the line has no such member. */
struct trace_event {
	const char *line;
	char name[24];
	char phase;
	int64_t begin_ns, end_ns; /* end_ns: of X events */
	int64_t pid, tid;
	int64_t model, queue, job, item, nbytes;
	char id[40];
	char text[80]; /* "name" of args */
};

struct trace_file {
	char *text;
	struct trace_event *events;
	size_t num_events;
};

/*
 * is_cut: its writer was killed, so a broken last line is left out and the
 * bracket added; else it has to be whole.
 */
void trace_read(const char *path, bool is_cut, struct trace_file *file);
void trace_free(struct trace_file *file);

/* How many events have this name. */
size_t trace_count(const struct trace_file *file, const char *name);

/* The only or first event with this name and job of a queue (-1: any). */
const struct trace_event *trace_find(const struct trace_file *file,
				     const char *name, int64_t queue,
				     int64_t job);

/* Text is one JSON value, and nothing behind it but blanks. */
bool trace_is_json(const char *text);

#endif
