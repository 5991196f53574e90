// SPDX-License-Identifier: MIT
/* Recorded JSON, a member at a time. */
#include "reply.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

/* ---- files ---- */

/*
 * json-c bends an integer beyond 64 bits to the nearest one that fits. With an
 * exponent in place of the last two digits it is a number, and no integer.
 */
static void mark_large_integers(char *text)
{
	while (*text) {
		size_t length = strspn(text, "0123456789");

		if (*text == '"') {
			for (text++; *text && *text != '"'; text++)
				text += *text == '\\' && text[1];
			text += *text == '"';
			continue;
		}
		if (*text == '-' && isdigit((unsigned char)text[1]))
			length = 1 + strspn(text + 1, "0123456789");
		errno = 0;
		if (length && *text == '-')
			(void)strtoll(text, NULL, 10);
		else if (length)
			(void)strtoull(text, NULL, 10);
		if (length && errno == ERANGE && !strchr(".eE", text[length]))
			memcpy(text + length - 2, "e2", 2);
		/* digits behind a point are no number of their own */
		text += length ? strspn(text, "+-.0123456789eE") : 1;
	}
}

/* Nothing but blanks behind the value: text there is no JSON. */
static bool is_end(const char *text, size_t end, size_t length)
{
	while (end < length && memchr(" \t\r\n", text[end], 4))
		end++;
	return end >= length;
}

struct json_object *reply_read(const char *path, int *err)
{
	size_t length;
	char *text = source_read_long(path, &length, err);
	struct json_tokener *tokener;
	struct json_object *object;

	if (!text)
		return NULL;
	tokener = json_tokener_new_ex(32);
	if (!tokener) {
		*err = -EINVAL;
		return NULL;
	}
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	mark_large_integers(text);
	object = json_tokener_parse_ex(tokener, text, (int)length + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    !is_end(text, json_tokener_get_parse_end(tokener), length)) {
		json_object_put(object);
		object = NULL;
		*err = -EINVAL;
	}
	json_tokener_free(tokener);
	return object;
}

/* "/dev/accel/accel0" is replies/dev-accel-accel0.json. */
struct json_object *reply_read_node(const char *node, int *err)
{
	char *name = inventory_copy(node + 1);
	struct json_object *reply;

	for (char *c = name; *c; c++) {
		if (*c == '/')
			*c = '-';
	}
	reply = reply_read(inventory_format("replies/%s.json", name), err);
	if (json_object_is_type(reply, json_type_object))
		return reply;
	json_object_put(reply);
	*err = *err ?: -EINVAL;
	return NULL;
}

/* ---- members ---- */

struct json_object *reply_get(struct json_object *object, const char *name)
{
	struct json_object *member;

	if (!object || !json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, name, &member))
		return NULL;
	return member;
}

/* Of an integer its two halves of a range; json-c has one type for both. */
static bool get_count(struct json_object *json, uint64_t *count)
{
	if (!json_object_is_type(json, json_type_int) ||
	    json_object_get_int64(json) < 0)
		return false;
	*count = json_object_get_uint64(json);
	return true;
}

enum member reply_find_count(struct json_object *object, const char *name,
			     uint64_t max, uint64_t *count)
{
	struct json_object *json = reply_get(object, name);
	uint64_t number;

	*count = 0;
	if (!json)
		return MEMBER_ABSENT;
	if (!get_count(json, &number) || number > max)
		return MEMBER_INVALID;
	*count = number;
	return MEMBER_VALUE;
}

enum member reply_find_number(struct json_object *object, const char *name,
			      int64_t *number)
{
	struct json_object *json = reply_get(object, name);
	uint64_t count;

	*number = 0;
	if (!json)
		return MEMBER_ABSENT;
	if (!json_object_is_type(json, json_type_int) ||
	    (get_count(json, &count) && count > INT64_MAX))
		return MEMBER_INVALID;
	*number = json_object_get_int64(json);
	return MEMBER_VALUE;
}

enum member reply_find_text(struct json_object *object, const char *name,
			    const char **text)
{
	struct json_object *json = reply_get(object, name);

	*text = NULL;
	if (!json)
		return MEMBER_ABSENT;
	if (!json_object_is_type(json, json_type_string))
		return MEMBER_INVALID;
	*text = inventory_copy(json_object_get_string(json));
	return MEMBER_VALUE;
}

int reply_get_open(struct json_object *reply)
{
	int64_t number;
	enum member open = reply_find_number(reply, "open", &number);

	/* the kernel's error numbers end at 4095 */
	if (open == MEMBER_INVALID || number > 0 || number < -4095)
		return -EIO;
	return (int)number;
}

const char *reply_get_version(struct json_object *reply, int *major)
{
	static const char *const names[] = { "major", "minor", "patchlevel" };
	struct json_object *version = reply_get(reply, "version");
	uint64_t part[3];

	*major = -1;
	for (size_t i = 0; i < 3; i++) {
		if (reply_find_count(version, names[i], INT32_MAX, &part[i]) !=
		    MEMBER_VALUE)
			return NULL;
	}
	*major = (int)part[0];
	return inventory_format("%d.%d.%d", (int)part[0], (int)part[1],
				(int)part[2]);
}

/* ---- fields ---- */

void reply_set_count(struct record *record, enum field_id field,
		     struct json_object *object, const char *name)
{
	uint64_t count;
	enum member member = reply_find_count(object, name, UINT64_MAX, &count);

	if (member == MEMBER_VALUE)
		set_integer(record, field, count);
	else if (member == MEMBER_INVALID)
		set_absent(record, field, REASON_INVALID, name);
}

/* "" is what the driver tells of nothing. */
void reply_set_text(struct record *record, enum field_id field,
		    struct json_object *object, const char *name)
{
	const char *text;
	enum member member = reply_find_text(object, name, &text);

	if (member == MEMBER_VALUE && *text)
		set_text(record, field, text);
	else if (member == MEMBER_INVALID)
		set_absent(record, field, REASON_INVALID, name);
}

static bool set_list(struct record *record, enum field_id field,
		     struct json_object *json)
{
	const char **texts;
	size_t num;

	if (!json_object_is_type(json, json_type_array))
		return false;
	num = json_object_array_length(json);
	texts = inventory_alloc((num + 1) * sizeof(*texts));
	for (size_t i = 0; i < num; i++) {
		struct json_object *item = json_object_array_get_idx(json, i);

		if (!json_object_is_type(item, json_type_string))
			return false;
		texts[i] = json_object_get_string(item);
	}
	set_texts(record, field, texts, num);
	return true;
}

static bool set_finite(struct record *record, enum field_id field,
		       struct json_object *json)
{
	double number = json_object_get_double(json);

	if ((!json_object_is_type(json, json_type_double) &&
	     !json_object_is_type(json, json_type_int)) ||
	    !isfinite(number))
		return false;
	set_number(record, field, number);
	return true;
}

bool reply_set(struct record *record, enum field_id field,
	       struct json_object *json)
{
	uint64_t count;

	switch (field_get(field)->type) {
	case TYPE_TEXT:
	case TYPE_ENUM:
		if (!json_object_is_type(json, json_type_string))
			return false;
		set_text(record, field, json_object_get_string(json));
		return true;
	case TYPE_INTEGER:
		if (!get_count(json, &count))
			return false;
		set_integer(record, field, count);
		return true;
	case TYPE_NUMBER:
		return set_finite(record, field, json);
	case TYPE_BOOLEAN:
		if (!json_object_is_type(json, json_type_boolean))
			return false;
		set_boolean(record, field, json_object_get_boolean(json));
		return true;
	case TYPE_TEXTS:
	case TYPE_ENUMS:
		return set_list(record, field, json);
	default: /* limits, env: collectors of their own */
		return true;
	}
}
