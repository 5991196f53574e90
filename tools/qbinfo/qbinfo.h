/* SPDX-License-Identifier: MIT */
/*
 * What commands share: the parsed command line, how a failure is told, and
 * how devices and fields are chosen. A command returns an exit code of section
 * 9; whatever it printed before a failure is thrown away unless it hands over
 * a document.
 */
#ifndef QBINFO_QBINFO_H
#define QBINFO_QBINFO_H

#include <stdatomic.h>

#include "print.h"

enum command {
#define COMMAND(id, letter, name, arguments, list, help, example) COMMAND_##id,
#include "options.def"
	NUM_COMMANDS
};

enum option {
#define OPTION(id, letter, name, argument, commands, help) OPTION_##id,
#include "options.def"
	NUM_OPTIONS
};

/* A repeated option's arguments, or the command's. */
struct words {
	const char **items;
	size_t num;
};

struct request {
	enum command command;
	bool has[NUM_OPTIONS];
	const char *value[NUM_OPTIONS]; /* of the last one */
	struct words devices, topics, tests, sets, placements, arguments;
	double timeout, seconds;
	int64_t interval; /* ns */
	uint64_t count;   /* 0: no end */
	uint64_t seed;    /* 0: none was given */
	char **argv;
	struct style style;
	FILE *out;
	struct inventory inventory;
};

/* options.c: 0, or 2 with a failure. */
int options_parse(struct request *request, int argc, char **argv);
/* Before they are understood, so that their failure is JSON, too. */
bool options_ask_for_json(int argc, char **argv);
void options_print_help(FILE *out, const struct request *request);
const char *options_get_name(enum command command);
const char *options_get_word(enum option option);
const char *options_get_list(enum command command);

/* qbinfo.c: keeps the first failure, and gives its exit code back. */
int fail(int code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same with members of the error object; NULL where there is none. */
int fail_with(const struct failure *failure);
const struct failure *get_failure(void);
/* From now on --timeout counts; where: a word of what is done then, or "". */
void start_timer(const struct request *request, const char *where);
/* It counts what the tool does, and no time that it is told to wait. */
void stop_timer(void);
void restart_timer(const struct request *request);
/* A line of --verbose. */
void say_verbose(const char *words);
/* CLOCK_MONOTONIC. */
double get_seconds(void);
/* What is printed is written at the end; what cannot wait by this: 0 or 1. */
int write_now(const char *text, size_t length);
/* Writes what is printed so far; 0, or 1 with a failure. */
int flush_output(struct request *request);
/*
 * From now on the time limit is one for each step, which the counter tells;
 * NULL: there is no limit.
 */
void limit_each_step(const struct request *request,
		     const atomic_uint *num_steps);
/* The nearest of words, NULL if none is near. */
const char *get_nearest(const char *word, const char *const *words, size_t num);

/* select.c */
/* Keeps the chosen devices, in their order; 0 or an exit code. */
int select_devices(struct request *request, const struct words *ids);
/* Fields of -o, else those of defaults; 0, 2, or -1: help was printed. */
int select_fields(struct request *request, enum list_id list,
		  const enum field_id *defaults, size_t num_defaults,
		  struct part *part);
/* All fields of a list that the command shows. */
void select_all(struct request *request, enum list_id list, struct part *part);
/* Prints the document; 9 with --strict if something is not available. */
int show_document(struct request *request, const struct document *document);
/* Tool, nodes, devices, driver, limits, environment, "!" lines; 0 or a code. */
int collect_all(struct request *request, bool with_versions);

int cmd_list(struct request *request);
int cmd_show(struct request *request);
int cmd_model(struct request *request);
int cmd_version(struct request *request);
int cmd_summary(struct request *request);
int cmd_schema(struct request *request);
int cmd_doctor(struct request *request);
int cmd_caps(struct request *request);
int cmd_validate(struct request *request);
int cmd_stat(struct request *request);
int cmd_bench(struct request *request);

/* capture.c: a tree for --sysroot of all that is read from now on. */
int capture_start(const char *folder);
int capture_finish(struct inventory *inventory);

#endif
