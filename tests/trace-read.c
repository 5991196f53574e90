// SPDX-License-Identifier: MIT
/*
 * A strict JSON parser that keeps nothing, and a reader of the lines that the
 * recorder writes.
 */
#include "trace-read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test-util.h"

/* ---- JSON; each returns what is behind its value, NULL: not that ---- */

static const char *skip_value(const char *at);

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t\n\r");
}

static const char *skip_string(const char *at)
{
	if (*at++ != '"')
		return NULL;
	for (; *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at != '\\')
			continue;
		at++;
		if (*at == 'u') {
			if (strspn(at + 1, "0123456789abcdefABCDEF") < 4)
				return NULL;
			at += 4;
		} else if (!*at || !strchr("\"\\/bfnrt", *at)) {
			return NULL;
		}
	}
	return at + 1;
}

static const char *skip_number(const char *at)
{
	size_t digits;

	at += *at == '-';
	digits = strspn(at, "0123456789");
	if (!digits || (*at == '0' && digits > 1))
		return NULL;
	at += digits;
	if (*at != '.')
		return at;
	digits = strspn(++at, "0123456789");
	return digits ? at + digits : NULL;
}

/* An array, or with is_object an object. */
static const char *skip_members(const char *at, bool is_object)
{
	const char close = is_object ? '}' : ']';

	at = skip_blanks(at + 1);
	if (*at == close)
		return at + 1;
	for (;;) {
		if (is_object) {
			at = skip_string(at);
			if (!at || *at++ != ':')
				return NULL;
		}
		at = skip_value(at);
		if (!at)
			return NULL;
		at = skip_blanks(at);
		if (*at == close)
			return at + 1;
		if (*at++ != ',')
			return NULL;
		at = skip_blanks(at);
	}
}

/* The files have no other literals. */
static const char *skip_value(const char *at)
{
	switch (*at) {
	case '{':
	case '[':
		return skip_members(at, *at == '{');
	case '"':
		return skip_string(at);
	default:
		return skip_number(at);
	}
}

bool trace_is_json(const char *text)
{
	const char *end = skip_value(text);

	return end && !*skip_blanks(end);
}

/* ---- lines ---- */

static int64_t get_number(const char *line, const char *key)
{
	char pattern[32];
	const char *at;

	(void)snprintf(pattern, sizeof(pattern), "\"%s\":", key);
	at = strstr(line, pattern);
	return at ? strtoll(at + strlen(pattern), NULL, 10) : -1;
}

/* Microseconds with exactly three decimals. */
static int64_t get_time(const char *line, const char *key)
{
	char pattern[32];
	const char *at;
	char *end;
	int64_t ns;

	(void)snprintf(pattern, sizeof(pattern), "\"%s\":", key);
	at = strstr(line, pattern);
	ck_assert_msg(at, "no %s in %s", key, line);
	ns = strtoll(at + strlen(pattern), &end, 10) * 1000;
	ck_assert_msg(*end == '.' && strspn(end + 1, "0123456789") == 3,
		      "%s of %s", key, line);
	return ns + strtoll(end + 1, NULL, 10);
}

static void get_text(const char *line, const char *key, char *text, size_t size)
{
	char pattern[32];
	const char *at;

	(void)snprintf(pattern, sizeof(pattern), "\"%s\":\"", key);
	at = strstr(line, pattern);
	text[0] = '\0';
	if (!at)
		return;
	at += strlen(pattern);
	(void)snprintf(text, size, "%.*s", (int)strcspn(at, "\""), at);
}

static void read_line(const char *line, struct trace_event *event)
{
	char phase[4];
	const char *args = strstr(line, "\"args\":{");

	ck_assert_msg(args, "no args in %s", line);
	event->line = line;
	get_text(line, "name", event->name, sizeof(event->name));
	ck_assert_msg(*event->name && strstr(line, "\"cat\":\""), "%s", line);
	get_text(line, "ph", phase, sizeof(phase));
	ck_assert_msg(*phase && strstr("XMbe", phase), "phase of %s", line);
	event->phase = phase[0];
	event->pid = get_number(line, "pid");
	event->tid = get_number(line, "tid");
	ck_assert_msg(event->pid > 0 && event->tid >= 0, "row of %s", line);
	event->begin_ns = get_time(line, "ts");
	event->end_ns = event->begin_ns;
	if (event->phase == 'X')
		event->end_ns += get_time(line, "dur");
	ck_assert_msg(event->end_ns >= event->begin_ns, "dur of %s", line);
	event->model = get_number(args, "model");
	event->queue = get_number(args, "queue");
	event->job = get_number(args, "job");
	event->item = get_number(args, "item");
	event->nbytes = get_number(args, "nbytes");
	get_text(line, "id", event->id, sizeof(event->id));
	get_text(args, "name", event->text, sizeof(event->text));
}

static char *read_text(const char *path, bool is_cut)
{
	FILE *file = fopen(path, "re");
	char *text;
	long length;

	ck_assert_msg(file, "%s", path);
	ck_assert(!fseek(file, 0, SEEK_END));
	length = ftell(file);
	ck_assert_int_ge(length, 0);
	rewind(file);
	text = calloc(1, (size_t)length + 3);
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(fread(text, 1, (size_t)length, file), length);
	(void)fclose(file);
	if (is_cut) {
		char *last = strrchr(text, '\n');

		ck_assert_msg(last, "not one whole line in \"%s\"", text);
		strcpy(last + 1, "]\n");
	}
	return text;
}

void trace_read(const char *path, bool is_cut, struct trace_file *file)
{
	size_t num_lines = 0;
	char *line;
	char *rest;

	file->text = read_text(path, is_cut);
	ck_assert_msg(trace_is_json(file->text), "%s: %s", path, file->text);
	for (line = file->text; *line; line++)
		num_lines += *line == '\n';
	file->num_events = num_lines - 1;
	file->events = calloc(num_lines, sizeof(file->events[0]));
	ck_assert_ptr_nonnull(file->events);
	line = strtok_r(file->text, "\n", &rest);
	for (size_t i = 0; i < file->num_events; i++) {
		ck_assert_int_eq(line[0], i ? ',' : '[');
		read_line(line, &file->events[i]);
		line = strtok_r(NULL, "\n", &rest);
	}
	ck_assert_str_eq(line, "]");
	ck_assert_int_eq(file->events[0].phase, 'M');
	ck_assert_str_eq(file->events[0].name, "process_name");
}

void trace_free(struct trace_file *file)
{
	free(file->events);
	free(file->text);
}

size_t trace_count(const struct trace_file *file, const char *name)
{
	size_t num = 0;

	for (size_t i = 0; i < file->num_events; i++)
		num += !strcmp(file->events[i].name, name);
	return num;
}

const struct trace_event *trace_find(const struct trace_file *file,
				     const char *name, int64_t queue,
				     int64_t job)
{
	for (size_t i = 0; i < file->num_events; i++) {
		const struct trace_event *event = &file->events[i];

		if (!strcmp(event->name, name) &&
		    (queue < 0 || event->queue == queue) &&
		    (job < 0 || event->job == job))
			return event;
	}
	return NULL;
}
