/* SPDX-License-Identifier: MIT */
/*
 * What a command hands to the printers: which records, which fields of them,
 * and in which form. Everything goes to one stream in memory, which main
 * writes at the end: so what failed leaves nothing half printed.
 */
#ifndef QBINFO_PRINT_H
#define QBINFO_PRINT_H

#include <stdio.h>

#include "inventory.h"

enum form {
	FORM_TABLE,  /* a heading and a line per record */
	FORM_LINES,  /* the same, without heading and padding */
	FORM_TREE,   /* device > cluster > core */
	FORM_REPORT, /* topics of a device, a field a line */
	FORM_MODELS,
	FORM_CHECKS,
	FORM_PARTS,
	FORM_CAPS,  /* name=value of one device */
	FORM_TESTS, /* a line per test of validate, and their sums */
	FORM_RESULTS,
	FORM_DATA /* no text: JSON alone */
};

/* A member of the document: a list, or one record. */
struct part {
	enum form form;
	enum list_id list;
	const struct records *records;
	const struct record *record;
	const enum field_id *fields;
	size_t num_fields;
	bool is_chosen;     /* the fields are those of -o: all are shown */
	size_t num_printed; /* records whose lines are out already */
};

#define MAX_PARTS 6

struct document {
	const char *name; /* of its schema */
	struct part parts[MAX_PARTS];
	size_t num_parts;
	const struct inventory *inventory;
	bool has_banner;
	const char *const *topics; /* of FORM_REPORT; NULL: all */
	size_t num_topics;
	const char *note;
	/* a failure that leaves something to print; NULL: none */
	const struct failure *failure;
};

struct failure {
	int exit;
	const char *status; /* NULL: none */
	const char *message;
	const char *fix;    /* NULL: none */
	const char *doc;    /* NULL: none */
	const char *device; /* NULL: none */
};

struct style {
	bool is_json, is_jsonl;
	bool has_no_headings;
	bool is_plain; /* -b */
	bool has_color;
	bool has_boxes; /* a terminal */
	char command;   /* its letter in options.def */
};

/* print-value.c: text of a value; "-" and "?" where there is none. */
const char *print_value(const struct value *value, enum field_id field,
			bool is_plain);
bool print_is_number(enum field_id field);
/* A number in a sentence, as values of that unit are printed. */
const char *print_amount(uint64_t number, enum unit unit);
/* Control bytes and what is no UTF-8 as \xNN. */
const char *print_safe(const char *text);
/* UTF-8 without control characters but line feeds and tabs: for JSON. */
const char *print_utf8(const char *text);
const char *print_label(enum field_id field);

/* print-table.c: by libsmartcols; a shortage of memory ends the program. */
struct libscols_table;
struct libscols_line;
struct libscols_table *print_start_table(const struct style *style);
void print_add_column(struct libscols_table *table, const char *heading,
		      int flags);
/* parent: NULL but in a tree. */
struct libscols_line *print_add_line(struct libscols_table *table,
				     struct libscols_line *parent);
void print_add_cell(struct libscols_line *line, size_t column,
		    const char *text);
/* Without the blanks that pad the last column. */
void print_finish_table(FILE *out, struct libscols_table *table);

/* print-table.c, print-report.c, print-model.c, print-bench.c */
void print_text(FILE *out, const struct document *document,
		const struct style *style);
void print_table(FILE *out, const struct part *part, const struct style *style);
void print_report(FILE *out, const struct document *document,
		  const struct part *part, const struct style *style);
void print_checks(FILE *out, const struct records *checks,
		  const struct style *style);
void print_parts(FILE *out, const struct document *document);
void print_caps(FILE *out, const struct part *part, const struct style *style);
void print_tests(FILE *out, const struct part *part, const struct style *style);
/* With that colour, if there is any: "31" is red. */
const char *print_paint(const struct style *style, const char *color,
			const char *text);
void print_results(FILE *out, const struct part *part,
		   const struct style *style);
void print_models(FILE *out, const struct records *models,
		  const struct style *style);
void print_field_help(FILE *out, const enum field_id *fields,
		      size_t num_fields);

/* print-stat.c: rows that come one by one; what is kept between them, with room
 * for a column a field. */
struct print_rows {
	size_t *columns, *widths, num_columns, num_rows;
};
void print_rows(FILE *out, const struct part *part, const struct style *style,
		struct print_rows *rows);

/* print-json.c */
void print_json(FILE *out, const struct document *document,
		const struct style *style);
/* For --strict: no field that was asked for is null for a reason. */
bool print_is_complete(const struct document *document);
void print_failure(FILE *out, const struct failure *failure);
/* All of it, on one line. */
void print_record(FILE *out, const struct record *record);
/* devices.json of a capture. */
void print_captured(FILE *out, const struct records *records);
/* "single", "no_device", ...: the name of an exit code of section 9. */
const char *print_exit_name(int code);
/* All of them, with what they mean. */
void print_exit_codes(FILE *out);

/* print-schema.c: false: no such name. NULL: the names. */
bool print_schema(FILE *out, const char *name, bool is_strict);

#endif
