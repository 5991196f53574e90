// SPDX-License-Identifier: MIT
/*
 * JSON Schema 2020-12 of what print-json.c prints, from the same tables. Every
 * value of a field may be null. Strict: what is not listed is refused, but
 * for "extra".
 */
#include <json-c/json.h>
#include <string.h>

#include "print.h"

static const struct {
	const char *name;
	char command;
	enum list_id lists[3];
	bool is_record[3];
} documents[] = {
	{ "list", 'L', { LIST_DEVICES, LIST_DRM }, { false } },
	{ "show", 'R', { LIST_DRIVER, LIST_DEVICES }, { true, false } },
	{ "model", 'M', { LIST_MODELS }, { false } },
	{ "version",
	  'V',
	  { LIST_DRIVER, LIST_PARTS, LIST_VERDICT },
	  { true, false, true } },
	{ "summary",
	  'S',
	  { LIST_DRIVER, LIST_DEVICES, LIST_DRM },
	  { true, false, false } },
	{ "doctor", 'D', { LIST_CHECKS }, { false } },
	{ "caps", 'C', { LIST_DEVICES }, { false } },
	{ "validate", 'A', { LIST_TESTS }, { false } },
	{ "bench", 'B', { LIST_RESULTS }, { false } },
	{ "stat", 'T', { LIST_SAMPLES }, { false } },
};

static void add(struct json_object *object, const char *name,
		struct json_object *member)
{
	(void)json_object_object_add(object, name, member);
}

static void add_text(struct json_object *object, const char *name,
		     const char *text)
{
	add(object, name, json_object_new_string(text));
}

static struct json_object *make_type(const char *type, bool is_nullable)
{
	struct json_object *object = json_object_new_object();
	struct json_object *types;

	if (!is_nullable) {
		add_text(object, "type", type);
		return object;
	}
	types = json_object_new_array();
	(void)json_object_array_add(types, json_object_new_string(type));
	(void)json_object_array_add(types, json_object_new_string("null"));
	add(object, "type", types);
	return object;
}

static struct json_object *make_array(struct json_object *items,
				      bool is_nullable)
{
	struct json_object *array = make_type("array", is_nullable);

	add(array, "items", items);
	return array;
}

static struct json_object *make_record(enum list_id id, char command,
				       bool is_strict);

static struct json_object *make_field(enum field_id id, bool is_strict)
{
	const struct field *field = field_get(id);
	struct json_object *object;

	switch (field->type) {
	case TYPE_INTEGER:
		object = make_type("integer", true);
		break;
	case TYPE_NUMBER:
		object = make_type("number", true);
		break;
	case TYPE_BOOLEAN:
		object = make_type("boolean", true);
		break;
	case TYPE_TEXTS:
	case TYPE_ENUMS:
		object = make_array(make_type("string", false), true);
		break;
	case TYPE_INTEGERS:
		object = make_array(make_type("integer", false), true);
		break;
	case TYPE_NUMBERS:
		object = make_array(make_type("number", false), true);
		break;
	case TYPE_PAIRS:
		object = make_type("object", true);
		add(object, "additionalProperties", make_type("string", false));
		break;
	case TYPE_RECORDS:
		object = make_array(
			make_record(field_get_records(id), 0, is_strict), true);
		break;
	default:
		object = make_type("string", true);
		break;
	}
	/* a reader must accept new words, so they are told, not demanded */
	add_text(object, "description",
		 field->type == TYPE_ENUM || field->type == TYPE_ENUMS
			 ? inventory_format("%s: %s", field->help, field->words)
			 : field->help);
	return object;
}

static void close_object(struct json_object *object, bool is_strict)
{
	if (is_strict)
		add(object, "additionalProperties",
		    json_object_new_boolean(false));
}

/* The properties of an object at a path, whose help is its list's. */
static struct json_object *get_properties(struct json_object *object,
					  const char *path, bool is_strict,
					  const char **last)
{
	const char *dot = strchr(path, '.');
	struct json_object *properties, *inner;
	const char *name;

	(void)json_object_object_get_ex(object, "properties", &properties);
	*last = path;
	if (!dot)
		return properties;
	name = inventory_format("%.*s", (int)(dot - path), path);
	if (!json_object_object_get_ex(properties, name, &inner)) {
		inner = make_type("object", false);
		add_text(inner, "description",
			 inventory_format("Fields of %s", name));
		add(inner, "properties", json_object_new_object());
		close_object(inner, is_strict);
		add(properties, name, inner);
	}
	return get_properties(inner, dot + 1, is_strict, last);
}

/* command 0: all fields of the list. */
static struct json_object *make_record(enum list_id id, char command,
				       bool is_strict)
{
	const struct list *list = list_get(id);
	struct json_object *object = make_type("object", false);
	struct json_object *properties = json_object_new_object();
	struct json_object *extra = make_type("object", false);

	add_text(object, "description", list->help);
	add(object, "properties", properties);
	for (size_t i = 0; i < list->num_fields; i++) {
		enum field_id field = list->first + (enum field_id)i;
		const char *last;
		struct json_object *place;

		if (command && !strchr(field_get(field)->commands, command))
			continue;
		place = get_properties(object, field_get(field)->path,
				       is_strict, &last);
		add(place, last, make_field(field, is_strict));
	}
	add_text(extra, "description",
		 "What a newer driver told and this version does not know");
	add(extra, "additionalProperties", make_type("string", false));
	add(properties, "extra", extra);
	close_object(object, is_strict);
	return object;
}

/* An object of texts; those after the first num_required may be null. */
static struct json_object *make_texts(const char *const *names,
				      const char *const *helps, size_t num,
				      size_t num_required, bool is_strict)
{
	struct json_object *object = make_type("object", false);
	struct json_object *properties = json_object_new_object();

	for (size_t i = 0; i < num; i++) {
		struct json_object *text =
			make_type("string", i >= num_required);

		add_text(text, "description", helps[i]);
		add(properties, names[i], text);
	}
	add(object, "properties", properties);
	close_object(object, is_strict);
	return object;
}

static struct json_object *make_unavailable(bool is_strict)
{
	static const char *const names[] = { "path", "reason", "detail" };
	static const char *const helps[] = {
		"Where the null stands",
		"Why: not_supported, no_permission, suspended, ...",
		"What was looked at",
	};
	struct json_object *array =
		make_array(make_texts(names, helps, 3, 2, is_strict), false);

	add_text(array, "description", "Why fields are null");
	return array;
}

static struct json_object *make_warnings(bool is_strict)
{
	static const char *const names[] = { "text", "command" };
	static const char *const helps[] = { "What was noticed",
					     "The command that says more" };
	struct json_object *array =
		make_array(make_texts(names, helps, 2, 2, is_strict), false);

	add_text(array, "description", "What deserves a look");
	return array;
}

static struct json_object *make_error(bool is_strict)
{
	static const char *const names[] = { "name", "message", "status",
					     "fix",  "doc",     "device" };
	static const char *const helps[] = {
		"Name of the exit code",
		"What failed",
		"Status as qbrt_status_name gives it",
		"What mends it",
		"Code that qbinfo-doctor(7) explains",
		"The device",
	};
	struct json_object *object = make_texts(names, helps, 6, 2, is_strict);
	struct json_object *properties, *code = make_type("integer", false);

	add_text(code, "description", "Exit code of qbinfo");
	(void)json_object_object_get_ex(object, "properties", &properties);
	add(properties, "exit", code);
	add_text(object, "description", "Why the command failed");
	return object;
}

static void require(struct json_object *required,
		    struct json_object *properties, const char *name,
		    struct json_object *member, bool is_required)
{
	add(properties, name, member);
	if (is_required)
		(void)json_object_array_add(required,
					    json_object_new_string(name));
}

static struct json_object *start(const char *name,
				 struct json_object **properties,
				 struct json_object **required, bool is_strict)
{
	struct json_object *top = json_object_new_object();
	struct json_object *schema = make_type("string", false);

	add_text(top, "$schema",
		 "https://json-schema.org/draft/2020-12/schema");
	add_text(top, "$id", inventory_format("urn:qbinfo:%s:1", name));
	add_text(top, "title", inventory_format("qbinfo %s --json", name));
	add_text(top, "type", "object");
	*properties = json_object_new_object();
	*required = json_object_new_array();
	add(top, "properties", *properties);
	add(top, "required", *required);
	close_object(top, is_strict);
	add_text(schema, "const", inventory_format("qbinfo/%s/1", name));
	add_text(schema, "description", "Name and major version of this form");
	require(*required, *properties, "schema", schema, true);
	return top;
}

static void write_schema(FILE *out, struct json_object *top)
{
	(void)fprintf(out, "%s\n",
		      json_object_to_json_string_ext(
			      top, JSON_C_TO_STRING_NOSLASHESCAPE |
					   JSON_C_TO_STRING_PRETTY |
					   JSON_C_TO_STRING_SPACED));
	json_object_put(top);
}

static void print_error_schema(FILE *out, bool is_strict)
{
	struct json_object *properties, *required;
	struct json_object *top =
		start("error", &properties, &required, is_strict);

	require(required, properties, "error", make_error(is_strict), true);
	write_schema(out, top);
}

bool print_schema(FILE *out, const char *name, bool is_strict)
{
	const size_t num = sizeof(documents) / sizeof(*documents);
	struct json_object *top, *properties, *required;
	size_t i = 0;

	if (!name) {
		for (; i < num; i++)
			(void)fprintf(out, "%s\n", documents[i].name);
		(void)fputs("error\n", out);
		return true;
	}
	if (!strcmp(name, "error")) {
		print_error_schema(out, is_strict);
		return true;
	}
	while (i < num && strcmp(documents[i].name, name) != 0)
		i++;
	if (i == num)
		return false;
	top = start(name, &properties, &required, is_strict);
	require(required, properties, "qbinfo",
		make_record(LIST_TOOL, 0, is_strict), true);
	for (size_t j = 0; j < 3 && documents[i].lists[j]; j++) {
		enum list_id id = documents[i].lists[j];
		struct json_object *record =
			make_record(id, documents[i].command, is_strict);

		if (!documents[i].is_record[j]) {
			record = make_array(record, false);
			add_text(record, "description", list_get(id)->help);
		}
		/* list prints one of its two, summary -o devices alone */
		require(required, properties, list_get(id)->key, record,
			documents[i].command != 'L');
	}
	require(required, properties, "unavailable",
		make_unavailable(is_strict), true);
	require(required, properties, "warnings", make_warnings(is_strict),
		true);
	require(required, properties, "error", make_error(is_strict), false);
	write_schema(out, top);
	return true;
}
