// SPDX-License-Identifier: MIT
/*
 * Records, their values and their memory: one chain of blocks, freed at the
 * end, since a run of the tool keeps all that it learns until it has printed.
 */
#include "inventory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct field fields[NUM_FIELDS] = {
#define FIELD(list_, id, path_, heading_, type_, unit_, topic_, words_, \
	      commands_, help_) \
	[FIELD_##id] = { \
		.list = LIST_##list_, \
		.path = (path_), \
		.heading = (heading_), \
		.type = TYPE_##type_, \
		.unit = UNIT_##unit_, \
		.topic = (topic_), \
		.words = (words_), \
		.commands = (commands_), \
		.help = (help_), \
	},
#include "fields.def"
};

static struct list lists[NUM_LISTS] = {
#define LIST(list_, key_, help_) \
	[LIST_##list_] = { .key = (key_), .help = (help_) },
#include "fields.def"
};

static const char *const list_words[NUM_LISTS] = {
#define LIST(list_, key_, help_) [LIST_##list_] = #list_,
#include "fields.def"
};

static const char *const reasons[] = {
	"not_supported", "no_permission", "needs_interval",
	"not_loaded",    "suspended",     "gone",
	"invalid",       "error",         "absent",
};

/* ---- memory ---- */

static struct block {
	struct block *next;
	max_align_t data[];
} * blocks;

void inventory_end(void)
{
	(void)fputs("qbinfo: out of memory\n", stderr);
	exit(1);
}

void *inventory_alloc(size_t size)
{
	struct block *block = calloc(1, sizeof(*block) + size);

	if (!block)
		inventory_end();
	block->next = blocks;
	blocks = block;
	return block->data;
}

char *inventory_copy(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(inventory_alloc(size), text, size);
}

char *inventory_format_args(const char *format, va_list args)
{
	va_list copy;
	char *text;
	int length;

	va_copy(copy, args);
	length = vsnprintf(NULL, 0, format, copy);
	va_end(copy);
	if (length < 0)
		return inventory_copy("");
	text = inventory_alloc((size_t)length + 1);
	(void)vsnprintf(text, (size_t)length + 1, format, args);
	return text;
}

char *inventory_format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = inventory_format_args(format, args);
	va_end(args);
	return text;
}

void *inventory_mark(void)
{
	return blocks;
}

void inventory_release(void *mark)
{
	while (blocks != mark) {
		struct block *next = blocks->next;

		free(blocks);
		blocks = next;
	}
}

void inventory_free(void)
{
	inventory_release(NULL);
}

/* ---- tables ---- */

const struct field *field_get(enum field_id id)
{
	return &fields[id];
}

/* The fields of a list stand together in fields.def. */
const struct list *list_get(enum list_id id)
{
	struct list *list = &lists[id];
	size_t i;

	if (list->num_fields)
		return list;
	for (i = 0; i < NUM_FIELDS; i++) {
		if (fields[i].list != id)
			continue;
		if (!list->num_fields)
			list->first = (enum field_id)i;
		list->num_fields++;
	}
	return list;
}

enum list_id field_get_records(enum field_id id)
{
	size_t i;

	for (i = 1; i < NUM_LISTS; i++) {
		if (!strcmp(list_words[i], fields[id].words))
			return (enum list_id)i;
	}
	return LIST_NONE;
}

const char *reason_get_word(enum reason reason)
{
	return reasons[reason];
}

/* ---- records ---- */

struct record *record_alloc(enum list_id id)
{
	const struct list *list = list_get(id);
	struct record *record = inventory_alloc(
		sizeof(*record) + list->num_fields * sizeof(struct value));

	record->list = id;
	return record;
}

void records_append(struct records *records, struct record *record)
{
	record->next = NULL;
	if (records->last)
		records->last->next = record;
	else
		records->first = record;
	records->last = record;
	records->num++;
}

struct record *records_add(struct records *records)
{
	struct record *record = record_alloc(records->list);

	records_append(records, record);
	return record;
}

struct records *records_alloc(enum list_id list)
{
	struct records *records = inventory_alloc(sizeof(*records));

	records->list = list;
	return records;
}

void records_sort(struct records *records,
		  int (*compare)(const struct record *a,
				 const struct record *b))
{
	struct record *record = records->first;

	records->first = NULL;
	records->last = NULL;
	while (record) {
		struct record *next = record->next;
		struct record **place = &records->first;

		while (*place && compare(*place, record) <= 0)
			place = &(*place)->next;
		record->next = *place;
		*place = record;
		if (!record->next)
			records->last = record;
		record = next;
	}
}

const char *inventory_quote(const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz"
				    "0123456789:._/-";
	const char *quoted = "'";

	if (*text && !text[strspn(text, plain)])
		return text;
	for (; *text; text++)
		quoted = inventory_format(*text == '\'' ? "%s'\\'%c" : "%s%c",
					  quoted, *text);
	return inventory_format("%s'", quoted);
}

void inventory_start(struct inventory *inventory)
{
	memset(inventory, 0, sizeof(*inventory));
	inventory->tool = record_alloc(LIST_TOOL);
	inventory->driver = record_alloc(LIST_DRIVER);
	inventory->verdict = record_alloc(LIST_VERDICT);
	inventory->devices.list = LIST_DEVICES;
	inventory->drm_nodes.list = LIST_DRM;
	inventory->models.list = LIST_MODELS;
	inventory->checks.list = LIST_CHECKS;
	inventory->parts.list = LIST_PARTS;
	inventory->tests.list = LIST_TESTS;
	inventory->samples.list = LIST_SAMPLES;
	inventory->results.list = LIST_RESULTS;
}

/* ---- values ---- */

struct value *record_get(struct record *record, enum field_id id)
{
	return &record->values[id - list_get(record->list)->first];
}

const struct value *record_see(const struct record *record, enum field_id id)
{
	return &record->values[id - list_get(record->list)->first];
}

const char *record_get_text(const struct record *record, enum field_id id)
{
	const struct value *value = record_see(record, id);

	return value->is_set ? value->text : NULL;
}

uint64_t record_get_integer(const struct record *record, enum field_id id,
			    uint64_t otherwise)
{
	const struct value *value = record_see(record, id);

	return value->is_set && !value->integer.is_negative
		       ? value->integer.magnitude
		       : otherwise;
}

static struct value *set(struct record *record, enum field_id id)
{
	struct value *value = record_get(record, id);

	value->is_set = true;
	return value;
}

void set_text(struct record *record, enum field_id id, const char *text)
{
	if (text)
		set(record, id)->text = inventory_copy(text);
}

void set_integer(struct record *record, enum field_id id, uint64_t integer)
{
	set(record, id)->integer.magnitude = integer;
}

void set_signed(struct record *record, enum field_id id, int64_t integer)
{
	struct value *value = set(record, id);

	value->integer.is_negative = integer < 0;
	value->integer.magnitude =
		integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
}

void set_number(struct record *record, enum field_id id, double number)
{
	set(record, id)->number = number;
}

void set_boolean(struct record *record, enum field_id id, bool boolean)
{
	set(record, id)->boolean = boolean;
}

void set_texts(struct record *record, enum field_id id,
	       const char *const *texts, size_t num)
{
	struct value *value = set(record, id);
	size_t i;

	value->texts.items = inventory_alloc((num + 1) * sizeof(char *));
	value->texts.num = num;
	for (i = 0; i < num; i++)
		value->texts.items[i] = inventory_copy(texts[i]);
}

void set_integers(struct record *record, enum field_id id,
		  const int64_t *integers, size_t num)
{
	struct value *value = set(record, id);

	value->integers.items = inventory_alloc((num + 1) * sizeof(int64_t));
	value->integers.num = num;
	if (num)
		memcpy(value->integers.items, integers, num * sizeof(int64_t));
}

void set_numbers(struct record *record, enum field_id id, const float *numbers,
		 size_t num)
{
	struct value *value = set(record, id);
	size_t i;

	value->numbers.items = inventory_alloc((num + 1) * sizeof(double));
	value->numbers.num = num;
	for (i = 0; i < num; i++)
		value->numbers.items[i] = (double)numbers[i];
}

void set_records(struct record *record, enum field_id id,
		 struct records *records)
{
	set(record, id)->records = records;
}

void set_absent(struct record *record, enum field_id id, enum reason reason,
		const char *detail)
{
	struct value *value = record_get(record, id);

	value->is_set = false;
	value->reason = reason;
	value->detail = detail ? inventory_copy(detail) : NULL;
}

void set_note(struct record *record, enum field_id id, const char *note)
{
	record_get(record, id)->detail = inventory_copy(note);
}

void add_extra(struct record *record, const char *name, const char *text)
{
	struct extra *extra = inventory_alloc(sizeof(*extra));
	struct extra **place = &record->extra;

	while (*place)
		place = &(*place)->next;
	extra->name = inventory_copy(name);
	extra->text = inventory_copy(text);
	*place = extra;
}

void add_warning(struct inventory *inventory, const char *text,
		 const char *command)
{
	struct warning *warning = inventory_alloc(sizeof(*warning));
	const char *sysroot =
		record_get_text(inventory->tool, FIELD_TOOL_SYSROOT);

	warning->text = inventory_copy(text);
	warning->command =
		sysroot && !strncmp(command, "qbinfo ", 7)
			? inventory_format("%s --sysroot %s", command,
					   inventory_quote(sysroot))
			: inventory_copy(command);
	if (inventory->last_warning)
		inventory->last_warning->next = warning;
	else
		inventory->warnings = warning;
	inventory->last_warning = warning;
}
