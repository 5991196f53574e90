// SPDX-License-Identifier: MIT
/*
 * Values as text: units, sizes, and bytes that a terminal may see. Numbers
 * have a point whatever the locale is, since only LC_CTYPE is ever set.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* ---- bytes ---- */

/* The length of the UTF-8 character at text, 0: none. C1 controls are none. */
static size_t get_character(const unsigned char *text)
{
	uint32_t code;
	size_t length;

	if (*text < 0x80)
		return *text >= 0x20 && *text != 0x7F;
	if (*text >= 0xC2 && *text < 0xE0)
		length = 2;
	else if (*text >= 0xE0 && *text < 0xF0)
		length = 3;
	else if (*text >= 0xF0 && *text < 0xF5)
		length = 4;
	else
		return 0;
	code = *text & (0xFFu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3F);
	}
	if (code < 0xA0 || (length == 3 && code < 0x800) ||
	    (length == 4 && code < 0x10000) || code > 0x10FFFF ||
	    (code >= 0xD800 && code < 0xE000))
		return 0;
	return length;
}

const char *print_safe(const char *text)
{
	char *safe = inventory_alloc(4 * strlen(text) + 1);
	char *end = safe;

	while (*text) {
		size_t length = get_character((const unsigned char *)text);

		/* so that what it prints has one meaning */
		if (!strncmp(text, "\\x", 2))
			length = 0;
		if (length)
			memcpy(end, text, length);
		else
			(void)snprintf(end, 5, "\\x%02x",
				       (unsigned int)(unsigned char)*text);
		end += length ? length : 4;
		text += length ? length : 1;
	}
	*end = '\0';
	return safe;
}

const char *print_utf8(const char *text)
{
	char *safe = inventory_alloc(3 * strlen(text) + 1);
	char *end = safe;

	while (*text) {
		size_t length = get_character((const unsigned char *)text);

		/* json-c escapes those below a blank itself */
		if (!length && *text > 0 && *text < 0x20)
			length = 1;
		memcpy(end, length ? text : "\xEF\xBF\xBD",
		       length ? length : 3);
		end += length ? length : 3;
		text += length ? length : 1;
	}
	*end = '\0';
	return safe;
}

/* ---- numbers ---- */

/* One digit behind the point, none where it would be 0: 96M, 41.2K. */
static const char *scale(double number, double base, const char *units,
			 const char *suffix)
{
	size_t power = 0;
	const char *text;
	size_t length;
	char unit[2] = "";

	/* what would be rounded up to the next unit belongs to it */
	while (number >= base - 0.05 && units[power]) {
		number /= base;
		power++;
	}
	if (power)
		unit[0] = units[power - 1];
	/* not -0 */
	if (number < 0 && number > -0.05)
		number = 0;
	text = inventory_format("%.1f", number);
	length = strlen(text);
	if (!strcmp(text + length - 2, ".0"))
		length -= 2;
	return inventory_format("%.*s%s%s", (int)length, text, unit, suffix);
}

static const char *print_time(double ns)
{
	uint64_t seconds = (uint64_t)(ns / 1e9);

	if (ns < 1e3)
		return scale(ns, 1e9, "", "ns");
	if (ns < 1e6)
		return scale(ns / 1e3, 1e9, "", "us");
	if (ns < 1e9)
		return scale(ns / 1e6, 1e9, "", "ms");
	if (ns < 60e9)
		return scale(ns / 1e9, 1e9, "", "s");
	return inventory_format("%" PRIu64 "m%" PRIu64 "s", seconds / 60,
				seconds % 60);
}

static const char *print_integer(const struct value *value, enum unit unit,
				 bool is_plain)
{
	uint64_t number = value->integer.magnitude;

	if (value->integer.is_negative)
		return inventory_format("-%" PRIu64, number);
	if (!is_plain && unit == UNIT_BYTES)
		return scale((double)number, 1024, "KMGTPE", "");
	if (!is_plain && unit == UNIT_COUNT)
		return scale((double)number, 1000, "KMGTPE", "");
	if (!is_plain && unit == UNIT_HZ)
		return scale((double)number, 1000, "KMGT", "Hz");
	if (!is_plain && unit == UNIT_NS)
		return print_time((double)number);
	return inventory_format("%" PRIu64, number);
}

const char *print_amount(uint64_t number, enum unit unit)
{
	struct value value = { .integer.magnitude = number };

	return print_integer(&value, unit, false);
}

static const char *print_number(double number, enum unit unit, bool is_plain)
{
	switch (unit) {
	case UNIT_NS:
		return is_plain ? inventory_format("%g", number)
				: print_time(number);
	case UNIT_CELSIUS:
		return scale(number, 1e9, "", "C");
	case UNIT_WATTS:
		return scale(number, 1e9, "", "W");
	case UNIT_VOLTS:
		return scale(number, 1e9, "", "V");
	case UNIT_AMPERES:
		return scale(number, 1e9, "", "A");
	case UNIT_JOULES:
		return scale(number, 1000, "KMG", "J");
	case UNIT_RATIO:
		return scale(number * 100, 1e9, "", "%");
	case UNIT_HZ:
		return scale(number, 1e15, "", "");
	default:
		return inventory_format("%g", number);
	}
}

/* ---- values ---- */

/* What stands in one cell; its room doubles, since a list may be long. */
struct joined {
	char *text;
	size_t length, room;
};

static void append(struct joined *joined, char between, const char *more)
{
	size_t length = strlen(more);

	if (joined->room - joined->length < length + 2) {
		char *larger;

		joined->room = 2 * joined->room + length + 2;
		larger = inventory_alloc(joined->room);
		if (joined->length)
			memcpy(larger, joined->text, joined->length);
		joined->text = larger;
	}
	if (joined->length)
		joined->text[joined->length++] = between;
	memcpy(joined->text + joined->length, more, length + 1);
	joined->length += length;
}

static const char *get_joined(const struct joined *joined)
{
	return joined->length ? joined->text : "-";
}

static const char *print_integers(const struct value *value, enum unit unit)
{
	struct joined joined = { .text = NULL };

	for (size_t i = 0; i < value->integers.num; i++)
		append(&joined, unit == UNIT_BYTES ? ',' : 'x',
		       inventory_format("%" PRId64, value->integers.items[i]));
	return get_joined(&joined);
}

static const char *print_texts(const struct value *value)
{
	struct joined joined = { .text = NULL };

	for (size_t i = 0; i < value->texts.num; i++)
		append(&joined, ',', print_safe(value->texts.items[i]));
	return get_joined(&joined);
}

/* How busy each core is, and of other records how many there are. */
static const char *print_records(const struct records *records)
{
	struct joined joined = { .text = NULL };

	if (records->list != LIST_CORES)
		return inventory_format("%zu", records->num);
	for (const struct record *core = records->first; core;
	     core = core->next)
		append(&joined, ',',
		       print_value(record_see(core, FIELD_CORE_BUSY),
				   FIELD_CORE_BUSY, true));
	return get_joined(&joined);
}

static const char *print_absent(enum reason reason)
{
	switch (reason) {
	case REASON_NOT_SUPPORTED:
	case REASON_NEEDS_INTERVAL:
	case REASON_NOT_LOADED:
	case REASON_ABSENT:
		return "-";
	default:
		return "?";
	}
}

const char *print_value(const struct value *value, enum field_id field,
			bool is_plain)
{
	const struct field *line = field_get(field);

	if (!value->is_set)
		return print_absent(value->reason);
	switch (line->type) {
	case TYPE_TEXT:
	case TYPE_ENUM:
		return *value->text ? print_safe(value->text) : "-";
	case TYPE_INTEGER:
		return print_integer(value, line->unit, is_plain);
	case TYPE_NUMBER:
		return print_number(value->number, line->unit, is_plain);
	case TYPE_BOOLEAN:
		return value->boolean ? "yes" : "no";
	case TYPE_TEXTS:
	case TYPE_ENUMS:
	case TYPE_PAIRS:
		return print_texts(value);
	case TYPE_INTEGERS:
		return print_integers(value, line->unit);
	case TYPE_NUMBERS: {
		struct joined joined = { .text = NULL };

		for (size_t i = 0; i < value->numbers.num; i++)
			append(&joined, ',',
			       inventory_format("%g", value->numbers.items[i]));
		return get_joined(&joined);
	}
	default:
		return print_records(value->records);
	}
}

bool print_is_number(enum field_id field)
{
	enum field_type type = field_get(field)->type;

	return type == TYPE_INTEGER || type == TYPE_NUMBER ||
	       type == TYPE_RECORDS;
}

/* "memory.pinned_limit_bytes" is "pinned limit", "power.watts" is "power". */
const char *print_label(enum field_id field)
{
	static const char *const units[] = { "_bytes",   "_ns",     "_hz",
					     "_celsius", "_watts",  "_volts",
					     "_amperes", "_joules", "_ratio" };
	const char *path = field_get(field)->path;
	const char *dot = strchr(path, '.');
	const char *last = dot ? dot + 1 : path;
	char *label;

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (dot && !strcmp(last, units[i] + 1))
			return inventory_format("%.*s", (int)(dot - path),
						path);
	}
	if (dot && !strcmp(last, "state"))
		return inventory_format("%.*s", (int)(dot - path), path);
	label = inventory_copy(last);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		size_t length = strlen(label), end = strlen(units[i]);

		if (length > end && !strcmp(label + length - end, units[i]))
			label[length - end] = '\0';
	}
	for (char *c = label; *c; c++) {
		if (*c == '_')
			*c = ' ';
	}
	return label;
}
