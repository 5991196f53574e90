/* SPDX-License-Identifier: MIT */
/*
 * What is known, and the only thing that a printer sees. Collectors fill it,
 * commands select records and fields of it, printers print them: no command
 * formats a number and no printer reads a file.
 *
 * A record is one value per field of its list in fields.def. A value that
 * nobody set is null, and its reason is "not_supported". All memory is freed
 * with the inventory; a shortage ends the program with a sentence.
 */
#ifndef QBINFO_INVENTORY_H
#define QBINFO_INVENTORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The major version of driver requests that the library speaks. */
#define QBINFO_UAPI_MAJOR 1

enum list_id {
	LIST_NONE,
#define LIST(list, key, help) LIST_##list,
#include "fields.def"
	NUM_LISTS
};

enum field_id {
#define FIELD(list, id, path, heading, type, unit, topic, words, commands, \
	      help) \
	FIELD_##id,
#include "fields.def"
	NUM_FIELDS
};

enum field_type {
	TYPE_TEXT,
	TYPE_ENUM,
	TYPE_INTEGER,
	TYPE_NUMBER,
	TYPE_BOOLEAN,
	TYPE_TEXTS,
	TYPE_ENUMS,
	TYPE_INTEGERS,
	TYPE_NUMBERS,
	TYPE_PAIRS, /* texts: name, value, name, value, ... */
	TYPE_RECORDS
};

enum unit {
	UNIT_NONE,
	UNIT_COUNT, /* large numbers, in text by powers of 1000 */
	UNIT_BYTES,
	UNIT_NS,
	UNIT_HZ,
	UNIT_CELSIUS,
	UNIT_WATTS,
	UNIT_VOLTS,
	UNIT_AMPERES,
	UNIT_JOULES,
	UNIT_RATIO
};

/* Why a value is null; the words are those of section 6. */
enum reason {
	REASON_NOT_SUPPORTED,
	REASON_NO_PERMISSION,
	REASON_NEEDS_INTERVAL,
	REASON_NOT_LOADED,
	REASON_SUSPENDED,
	REASON_GONE,
	REASON_INVALID,
	REASON_ERROR,
	REASON_ABSENT /* null says it: no limit, no layout; not reported */
};

/* A line of fields.def. */
struct field {
	enum list_id list;
	const char *path;
	const char *heading;
	enum field_type type;
	enum unit unit;
	const char *topic;
	const char *words; /* of TYPE_RECORDS: the list's name */
	const char *commands;
	const char *help;
};

/* A line of LIST. fields: the first of its num_fields. */
struct list {
	const char *key;
	const char *help;
	enum field_id first;
	size_t num_fields;
};

struct record;

struct value {
	bool is_set;
	enum reason reason; /* unless is_set */
	const char *detail; /* of the reason or the value; NULL: none */
	union {
		const char *text;
		double number;
		bool boolean;
		struct {
			uint64_t magnitude;
			bool is_negative;
		} integer;
		struct {
			const char **items;
			size_t num;
		} texts;
		struct {
			int64_t *items;
			size_t num;
		} integers;
		struct {
			double *items;
			size_t num;
		} numbers;
		struct records *records;
	};
};

struct record {
	enum list_id list;
	struct record *next;
	struct extra *extra;
	struct value values[];
};

/* What a newer driver told and this build does not know, as texts. */
struct extra {
	const char *name;
	const char *text;
	struct extra *next;
};

struct records {
	enum list_id list;
	struct record *first, *last;
	size_t num;
};

/* A "!" line: what, and the command that says more. */
struct warning {
	const char *text;
	const char *command;
	struct warning *next;
};

/* A device file of ours, whether or not it answered: for doctor. */
struct own_node {
	const char *path;
	const char *bus_address;
	int open_err;          /* 0 or -errno */
	int uapi_major;        /* -1: not asked */
	const char *version;   /* DRM version, NULL: not asked */
	struct record *device; /* NULL: not in the list */
	/* who may open it; group and owner are numbers where no name is known */
	unsigned int mode;
	int64_t gid; /* -1: not known */
	const char *owner, *group;
	struct own_node *next;
};

struct inventory {
	struct record *tool, *driver, *verdict;
	struct records devices, drm_nodes, models, checks, parts, tests,
		samples, results;
	struct records *env; /* NULL until it is collected */
	struct own_node *own_nodes;
	struct warning *warnings, *last_warning;
	bool has_hardware;  /* a device of the list is hardware */
	const char *failed; /* why the list of devices could not be had */
	int failed_exit;
};

const struct field *field_get(enum field_id id);
const struct list *list_get(enum list_id id);
/* The list of a field of TYPE_RECORDS. */
enum list_id field_get_records(enum field_id id);
const char *reason_get_word(enum reason reason);

/* Memory that lives until inventory_free; never NULL. */
void *inventory_alloc(size_t size);
/* Out of memory: says so, and exits. */
_Noreturn void inventory_end(void);
char *inventory_copy(const char *text);
char *inventory_format(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
char *inventory_format_args(const char *format, va_list args)
	__attribute__((format(printf, 1, 0)));
/* As one word of a shell command, whatever a device or a file is called. */
const char *inventory_quote(const char *text);
void inventory_start(struct inventory *inventory);
void inventory_free(void);
/* All that is allocated after a mark is freed at its release. */
void *inventory_mark(void);
void inventory_release(void *mark);

struct record *record_alloc(enum list_id list);
/* A new record at the end. */
struct record *records_add(struct records *records);
void records_append(struct records *records, struct record *record);
struct records *records_alloc(enum list_id list);
/* In the order of compare; equal ones keep their order. */
void records_sort(struct records *records,
		  int (*compare)(const struct record *a,
				 const struct record *b));

struct value *record_get(struct record *record, enum field_id id);
const struct value *record_see(const struct record *record, enum field_id id);
/* The text, or NULL. */
const char *record_get_text(const struct record *record, enum field_id id);
/* The integer, or otherwise. */
uint64_t record_get_integer(const struct record *record, enum field_id id,
			    uint64_t otherwise);

/* NULL leaves the value as it was. */
void set_text(struct record *record, enum field_id id, const char *text);
void set_integer(struct record *record, enum field_id id, uint64_t integer);
void set_signed(struct record *record, enum field_id id, int64_t integer);
void set_number(struct record *record, enum field_id id, double number);
void set_boolean(struct record *record, enum field_id id, bool boolean);
void set_texts(struct record *record, enum field_id id,
	       const char *const *texts, size_t num);
void set_integers(struct record *record, enum field_id id,
		  const int64_t *integers, size_t num);
void set_numbers(struct record *record, enum field_id id, const float *numbers,
		 size_t num);
void set_records(struct record *record, enum field_id id,
		 struct records *records);
void set_absent(struct record *record, enum field_id id, enum reason reason,
		const char *detail);
/* What is to say of a value, beside it or its reason. */
void set_note(struct record *record, enum field_id id, const char *note);
void add_extra(struct record *record, const char *name, const char *text);

/* A command of qbinfo gets the --sysroot that this run has. */
void add_warning(struct inventory *inventory, const char *text,
		 const char *command);

#endif
