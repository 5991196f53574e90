// SPDX-License-Identifier: MIT
/*
 * A line as text. The room suffices for the longest line there is: that of a
 * device, whose strings are short, or one of two strings of MAX_TEXT bytes.
 */
#include "trace-line.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

/* Of a string after escaping; what does not fit is left out. */
#define MAX_TEXT 300

void qbrt_trace_line_add(struct qbrt_trace_line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->length;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line->text + line->length, room, format, args);
	va_end(args);
	assert(length >= 0 && (size_t)length < room);
	line->length += (size_t)length;
}

/* As microseconds. */
static void add_time(struct qbrt_trace_line *line, const char *key, int64_t ns)
{
	qbrt_trace_line_add(line, ",\"%s\":%lld.%03lld", key,
			    (long long)(ns / 1000), (long long)(ns % 1000));
}

/* Whole characters, as JSON wants them. */
static void add_string(struct qbrt_trace_line *line, const char *text)
{
	const size_t end = line->length + MAX_TEXT;
	size_t left = strlen(text);

	qbrt_trace_line_add(line, "\"");
	while (left) {
		size_t length = qbrt_printable_length(text, left);
		char unit[8];

		if (!length)
			(void)snprintf(unit, sizeof(unit), "\\u%04x",
				       (unsigned int)(unsigned char)*text);
		else
			(void)snprintf(unit, sizeof(unit), "%s%.*s",
				       strchr("\"\\", *text) ? "\\" : "",
				       (int)length, text);
		if (line->length + strlen(unit) > end)
			break;
		qbrt_trace_line_add(line, "%s", unit);
		length += !length;
		text += length;
		left -= length;
	}
	qbrt_trace_line_add(line, "\"");
}

static void add_key(struct qbrt_trace_line *line, const char *key)
{
	bool is_first = line->text[line->length - 1] == '{';

	qbrt_trace_line_add(line, "%s\"%s\":", is_first ? "" : ",", key);
}

void qbrt_trace_line_add_number(struct qbrt_trace_line *line, const char *key,
				uint64_t value)
{
	add_key(line, key);
	qbrt_trace_line_add(line, "%llu", (unsigned long long)value);
}

void qbrt_trace_line_add_text(struct qbrt_trace_line *line, const char *key,
			      const char *text)
{
	add_key(line, key);
	add_string(line, text);
}

void qbrt_trace_line_begin(struct qbrt_trace_line *line,
			   const struct qbrt_trace_event *event, char phase,
			   const char *category, long pid, long tid)
{
	line->length = 0;
	qbrt_trace_line_add(line,
			    ",{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\","
			    "\"pid\":%ld,\"tid\":%ld",
			    event->name, category, phase, pid, tid);
	add_time(line, "ts", phase == 'e' ? event->end_ns : event->begin_ns);
	if (phase == 'X')
		add_time(line, "dur", event->end_ns - event->begin_ns);
}

void qbrt_trace_line_begin_args(struct qbrt_trace_line *line,
				const struct qbrt_trace_event *event)
{
	qbrt_trace_line_add(line, ",\"args\":{");
	if (event->model)
		qbrt_trace_line_add_number(line, "model", event->model - 1);
	if (event->queue)
		qbrt_trace_line_add_number(line, "queue", event->queue);
	if (event->job)
		qbrt_trace_line_add_number(line, "job", event->job);
	if (event->nbytes)
		qbrt_trace_line_add_number(line, "nbytes", event->nbytes);
	if (event->device)
		qbrt_trace_line_add_text(line, "device", event->device);
	if (event->file)
		qbrt_trace_line_add_text(line, "file", event->file);
}

void qbrt_trace_line_begin_names(struct qbrt_trace_line *line, char separator,
				 const char *name, long pid, long tid)
{
	const struct qbrt_trace_event event = { .name = name };

	qbrt_trace_line_begin(line, &event, 'M', "__metadata", pid, tid);
	line->text[0] = separator;
	qbrt_trace_line_begin_args(line, &event);
}

void qbrt_trace_line_end(struct qbrt_trace_line *line)
{
	qbrt_trace_line_add(line, "}}\n");
}
