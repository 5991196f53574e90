// SPDX-License-Identifier: MIT
/*
 * JSON: one document, or one object a line. Members stand in the order of
 * fields.def, and what is null for a reason is also in unavailable[].
 */
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* One run over what is printed: the objects, and what was not to be had. */
struct walk {
	struct json_object *unavailable;
};

static struct json_object *check(struct json_object *object)
{
	if (!object)
		inventory_end();
	return object;
}

static void add(struct json_object *object, const char *name,
		struct json_object *member)
{
	if (json_object_object_add(object, name, member))
		inventory_end();
}

static void add_item(struct json_object *array, struct json_object *item)
{
	if (json_object_array_add(array, item))
		inventory_end();
}

static struct json_object *text_to_json(const char *text)
{
	return text ? check(json_object_new_string(print_utf8(text))) : NULL;
}

/* The shortest form that reads back as the same number. */
static struct json_object *number_to_json(double number)
{
	char text[32];

	if (!isfinite(number))
		return NULL;
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	return check(json_object_new_double_s(number, text));
}

static struct json_object *records_to_json(const struct records *records,
					   const enum field_id *fields,
					   size_t num_fields, const char *path,
					   struct walk *walk);

static struct json_object *texts_to_json(const struct value *value)
{
	struct json_object *array = check(json_object_new_array());

	for (size_t i = 0; i < value->texts.num; i++)
		add_item(array, text_to_json(value->texts.items[i]));
	return array;
}

static struct json_object *pairs_to_json(const struct value *value)
{
	struct json_object *object = check(json_object_new_object());

	for (size_t i = 0; i + 1 < value->texts.num; i += 2)
		add(object, print_utf8(value->texts.items[i]),
		    text_to_json(value->texts.items[i + 1]));
	return object;
}

static struct json_object *numbers_to_json(const struct value *value,
					   enum field_type type)
{
	struct json_object *array = check(json_object_new_array());

	if (type == TYPE_INTEGERS) {
		for (size_t i = 0; i < value->integers.num; i++)
			add_item(array, check(json_object_new_int64(
						value->integers.items[i])));
		return array;
	}
	for (size_t i = 0; i < value->numbers.num; i++)
		add_item(array, number_to_json(value->numbers.items[i]));
	return array;
}

static struct json_object *integer_to_json(const struct value *value)
{
	if (value->integer.is_negative)
		return check(json_object_new_int64(
			(int64_t)(0 - value->integer.magnitude)));
	return check(json_object_new_uint64(value->integer.magnitude));
}

static struct json_object *value_to_json(const struct value *value,
					 enum field_id field, const char *path,
					 struct walk *walk)
{
	switch (field_get(field)->type) {
	case TYPE_TEXT:
	case TYPE_ENUM:
		return text_to_json(value->text);
	case TYPE_INTEGER:
		return integer_to_json(value);
	case TYPE_NUMBER:
		return number_to_json(value->number);
	case TYPE_BOOLEAN:
		return check(json_object_new_boolean(value->boolean));
	case TYPE_TEXTS:
	case TYPE_ENUMS:
		return texts_to_json(value);
	case TYPE_PAIRS:
		return pairs_to_json(value);
	case TYPE_INTEGERS:
	case TYPE_NUMBERS:
		return numbers_to_json(value, field_get(field)->type);
	default:
		return records_to_json(value->records, NULL, 0, path, walk);
	}
}

static void note_absent(const struct value *value, const char *path,
			struct walk *walk)
{
	struct json_object *entry;

	if (value->is_set || value->reason == REASON_ABSENT)
		return;
	entry = check(json_object_new_object());
	add(entry, "path", check(json_object_new_string(path)));
	add(entry, "reason",
	    check(json_object_new_string(reason_get_word(value->reason))));
	add(entry, "detail", text_to_json(value->detail));
	add_item(walk->unavailable, entry);
}

/* "memory.pinned_limit_bytes" goes into the object "memory". */
static void add_at_path(struct json_object *object, const char *path,
			struct json_object *member)
{
	const char *dot = strchr(path, '.');
	struct json_object *inner;
	const char *name;

	if (!dot) {
		add(object, path, member);
		return;
	}
	name = inventory_format("%.*s", (int)(dot - path), path);
	if (!json_object_object_get_ex(object, name, &inner)) {
		inner = check(json_object_new_object());
		add(object, name, inner);
	}
	add_at_path(inner, dot + 1, member);
}

/* fields NULL: all of its list. */
static struct json_object *record_to_json(const struct record *record,
					  const enum field_id *fields,
					  size_t num_fields, const char *path,
					  struct walk *walk)
{
	const struct list *list = list_get(record->list);
	struct json_object *object = check(json_object_new_object());
	size_t num = fields ? num_fields : list->num_fields;

	for (size_t i = 0; i < num; i++) {
		enum field_id field =
			fields ? fields[i] : list->first + (enum field_id)i;
		const struct value *value = record_see(record, field);
		const char *place =
			inventory_format("%s.%s", path, field_get(field)->path);

		note_absent(value, place, walk);
		add_at_path(object, field_get(field)->path,
			    value->is_set
				    ? value_to_json(value, field, place, walk)
				    : NULL);
	}
	if (record->extra) {
		struct json_object *extra = check(json_object_new_object());

		for (const struct extra *e = record->extra; e; e = e->next)
			add(extra, print_utf8(e->name), text_to_json(e->text));
		add(object, "extra", extra);
	}
	return object;
}

static struct json_object *records_to_json(const struct records *records,
					   const enum field_id *fields,
					   size_t num_fields, const char *path,
					   struct walk *walk)
{
	struct json_object *array = check(json_object_new_array());
	size_t index = 0;

	for (const struct record *record = records->first; record;
	     record = record->next)
		add_item(array, record_to_json(record, fields, num_fields,
					       inventory_format("%s[%zu]", path,
								index++),
					       walk));
	return array;
}

static struct json_object *part_to_json(const struct part *part,
					struct walk *walk)
{
	const char *key = list_get(part->list)->key;

	if (part->records)
		return records_to_json(part->records, part->fields,
				       part->num_fields, key, walk);
	return record_to_json(part->record, part->fields, part->num_fields, key,
			      walk);
}

/* ---- failures ---- */

const char *print_exit_name(int code)
{
	static const char *const names[] = {
		"ok",         "failed",  "usage",     "no_device",
		"permission", "version", "busy",      "lost",
		"bad_input",  "partial", "unhealthy",
	};

	return names[code];
}

void print_exit_codes(FILE *out)
{
	static const char *const texts[] = {
		"done; fields that are not available do not change it",
		"an error, a failed test of validate, a wrong result of bench",
		"option, argument or command wrong",
		"the chosen device does not exist",
		"a node exists and may not be opened",
		"library, driver, firmware or container version do not fit",
		"busy, or --timeout ran out",
		"device lost or needs a reset",
		"model, earlier run or captured system invalid",
		"with --strict: a field is not available",
		"doctor has failures of no more specific kind",
	};

	(void)fputs("\nExit codes:\n", out);
	for (int i = 0; i < 11; i++)
		(void)fprintf(out, "  %2d %-12s %s\n", i, print_exit_name(i),
			      texts[i]);
}

static struct json_object *failure_to_json(const struct failure *failure)
{
	struct json_object *error = check(json_object_new_object());

	add(error, "exit", check(json_object_new_int(failure->exit)));
	add(error, "name", text_to_json(print_exit_name(failure->exit)));
	add(error, "status", text_to_json(failure->status));
	add(error, "message", text_to_json(failure->message));
	add(error, "fix", text_to_json(failure->fix));
	add(error, "doc", text_to_json(failure->doc));
	add(error, "device", text_to_json(failure->device));
	return error;
}

static void write_object(FILE *out, struct json_object *object, bool is_line)
{
	int flags =
		JSON_C_TO_STRING_NOSLASHESCAPE |
		(is_line ? JSON_C_TO_STRING_PLAIN
			 : JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);

	const char *text;

	/* json-c leaves out what it has no memory for, and tells nobody */
	errno = 0;
	text = json_object_to_json_string_ext(object, flags);
	if (!text || errno == ENOMEM)
		inventory_end();
	(void)fprintf(out, "%s\n", text);
	json_object_put(object);
}

void print_failure(FILE *out, const struct failure *failure)
{
	struct json_object *top = check(json_object_new_object());

	add(top, "schema", check(json_object_new_string("qbinfo/error/1")));
	add(top, "error", failure_to_json(failure));
	write_object(out, top, true);
}

/* ---- documents ---- */

static struct json_object *warnings_to_json(const struct inventory *inventory)
{
	struct json_object *array = check(json_object_new_array());

	for (const struct warning *warning = inventory->warnings; warning;
	     warning = warning->next) {
		struct json_object *entry = check(json_object_new_object());

		add(entry, "text", text_to_json(warning->text));
		add(entry, "command", text_to_json(warning->command));
		add_item(array, entry);
	}
	return array;
}

/* The records of the part that the command is about, a line each. */
static void print_lines(FILE *out, const struct document *document,
			const struct part *part)
{
	struct walk walk = { .unavailable = check(json_object_new_array()) };
	size_t index = 0;

	for (const struct record *record = part->records->first; record;
	     record = record->next) {
		if (index++ < part->num_printed)
			continue;
		write_object(
			out,
			record_to_json(record, part->fields, part->num_fields,
				       inventory_format("[%zu]", index - 1),
				       &walk),
			true);
	}
	json_object_put(walk.unavailable);
	if (document->failure)
		print_failure(out, document->failure);
}

void print_json(FILE *out, const struct document *document,
		const struct style *style)
{
	struct walk walk = { .unavailable = check(json_object_new_array()) };
	struct json_object *top;

	if (style->is_jsonl) {
		json_object_put(walk.unavailable);
		for (size_t i = 0; i < document->num_parts; i++) {
			if (document->parts[i].records &&
			    document->parts[i].form != FORM_DATA) {
				print_lines(out, document, &document->parts[i]);
				return;
			}
		}
		return;
	}
	top = check(json_object_new_object());
	add(top, "schema",
	    check(json_object_new_string(
		    inventory_format("qbinfo/%s/1", document->name))));
	add(top, "qbinfo",
	    record_to_json(document->inventory->tool, NULL, 0, "qbinfo",
			   &walk));
	for (size_t i = 0; i < document->num_parts; i++)
		add(top, list_get(document->parts[i].list)->key,
		    part_to_json(&document->parts[i], &walk));
	add(top, "unavailable", walk.unavailable);
	add(top, "warnings", warnings_to_json(document->inventory));
	if (document->failure)
		add(top, "error", failure_to_json(document->failure));
	write_object(out, top, false);
}

void print_record(FILE *out, const struct record *record)
{
	struct walk walk = { .unavailable = check(json_object_new_array()) };

	write_object(out, record_to_json(record, NULL, 0, "", &walk), true);
	json_object_put(walk.unavailable);
}

bool print_is_complete(const struct document *document)
{
	struct walk walk = { .unavailable = check(json_object_new_array()) };
	bool is_complete, has_chosen = false;

	for (size_t i = 0; i < document->num_parts; i++)
		has_chosen |= document->parts[i].is_chosen;
	for (size_t i = 0; i < document->num_parts; i++) {
		if (!has_chosen || document->parts[i].is_chosen)
			json_object_put(
				part_to_json(&document->parts[i], &walk));
	}
	is_complete = !json_object_array_length(walk.unavailable);
	json_object_put(walk.unavailable);
	return is_complete;
}

void print_captured(FILE *out, const struct records *records)
{
	struct walk walk = { .unavailable = check(json_object_new_array()) };
	struct json_object *array =
		records_to_json(records, NULL, 0, "", &walk);

	json_object_put(walk.unavailable);
	write_object(out, array, false);
}
