// SPDX-License-Identifier: MIT
/*
 * Text of whole documents: the banner, the report of show, the lines of doctor
 * and version, and what comes last, the "!" lines.
 */
#include <stdlib.h>
#include <string.h>

#include "print.h"

#define WIDTH 100
#define LABEL_COLUMN 4
#define VALUE_COLUMN 24
#define VALUE_WIDTH 12

const char *print_paint(const struct style *style, const char *color,
			const char *text)
{
	return style->has_color
		       ? inventory_format("\033[%sm%s\033[0m", color, text)
		       : text;
}

/* ---- report ---- */

static const struct {
	const char *topic, *title;
} topics[] = {
	{ "device", "Device" },   { "firmware", "Firmware" },
	{ "driver", "Driver" },   { "caps", "Capabilities" },
	{ "memory", "Memory" },   { "queues", "Queues" },
	{ "clocks", "Clocks" },   { "power", "Power" },
	{ "thermal", "Thermal" }, { "health", "Health" },
	{ "limits", "Limits" },   { "topology", "Topology" },
	{ "env", "Environment" },
};

/* What is worth a word beside the value. */
static const char *get_note(const struct record *record, enum field_id field)
{
	const char *from;

	if (field != FIELD_PINNED_LIMIT)
		return NULL;
	from = record_get_text(record, FIELD_PINNED_FROM);
	if (!from)
		return NULL;
	if (!strcmp(from, "memlock"))
		return "by RLIMIT_MEMLOCK";
	if (!strcmp(from, "cgroup"))
		return "by the control group";
	if (!strcmp(from, "memory"))
		return "by the machine's memory";
	return "by the driver";
}

/* A list that is longer than the line goes on below its beginning. */
static void print_long(FILE *out, const char *text)
{
	size_t column = VALUE_COLUMN;

	while (*text) {
		size_t length = strcspn(text, ",");

		if (text[length] == ',')
			length++;
		if (column + length > WIDTH && column > VALUE_COLUMN) {
			(void)fprintf(out, "\n%*s", VALUE_COLUMN, "");
			column = VALUE_COLUMN;
		}
		(void)fprintf(out, "%.*s", (int)length, text);
		column += length;
		text += length;
	}
	(void)fputc('\n', out);
}

static void print_field(FILE *out, const struct record *record,
			enum field_id field, const struct style *style)
{
	const char *text =
		print_value(record_see(record, field), field, style->is_plain);
	const char *note = get_note(record, field);

	(void)fprintf(out, "%*s%-*s", LABEL_COLUMN, "",
		      VALUE_COLUMN - LABEL_COLUMN, print_label(field));
	if (strlen(text) <= VALUE_WIDTH && note)
		(void)fprintf(out, "%*s   %s\n", VALUE_WIDTH, text, note);
	else if (strlen(text) <= VALUE_WIDTH)
		(void)fprintf(out, "%*s\n", VALUE_WIDTH, text);
	else
		print_long(out, text);
}

/* What no call tells is left out; "no limit" is an answer. */
static bool is_shown(const struct value *value, enum field_id field)
{
	if (field == FIELD_PINNED_FROM ||
	    field_get(field)->type == TYPE_RECORDS)
		return false;
	if (value->is_set)
		return field_get(field)->type != TYPE_TEXTS ||
		       value->texts.num > 0;
	return value->reason != REASON_NOT_SUPPORTED &&
	       value->reason != REASON_NEEDS_INTERVAL &&
	       value->reason != REASON_NOT_LOADED &&
	       value->reason != REASON_ABSENT;
}

static void print_title(FILE *out, const char *title, const struct style *style)
{
	if (!style->has_no_headings)
		(void)fprintf(out, "  %s\n", title);
}

static void print_env(FILE *out, const struct record *device, const char *title,
		      const struct style *style)
{
	const struct value *value = record_see(device, FIELD_ENVIRONMENT);

	if (!value->is_set || !value->records->num)
		return;
	print_title(out, title, style);
	for (const struct record *env = value->records->first; env;
	     env = env->next)
		(void)fprintf(
			out, "    %s=%s   %s\n",
			print_safe(record_get_text(env, FIELD_ENV_NAME)),
			print_safe(record_get_text(env, FIELD_ENV_VALUE)),
			print_safe(record_get_text(env, FIELD_ENV_EFFECT)));
}

static void print_topic(FILE *out, const struct document *document,
			const struct record *device, size_t topic,
			const struct style *style)
{
	bool is_driver = !strcmp(topics[topic].topic, "driver");
	const struct record *record =
		is_driver ? document->inventory->driver : device;
	const struct list *list = list_get(record->list);
	bool has_title = false;

	if (!strcmp(topics[topic].topic, "env"))
		print_env(out, device, topics[topic].title, style);
	for (size_t i = 0; i < list->num_fields; i++) {
		enum field_id field = list->first + (enum field_id)i;

		if (strcmp(field_get(field)->topic, topics[topic].topic) ||
		    !is_shown(record_see(record, field), field))
			continue;
		if (!has_title)
			print_title(out, topics[topic].title, style);
		has_title = true;
		print_field(out, record, field, style);
	}
}

static bool is_chosen(const struct document *document, const char *topic)
{
	for (size_t i = 0; i < document->num_topics; i++) {
		if (!strcmp(document->topics[i], topic))
			return true;
	}
	return !document->num_topics;
}

static void print_head(FILE *out, const struct record *device)
{
	const struct value *numa = record_see(device, FIELD_NUMA);
	const char *bus = record_get_text(device, FIELD_BUS);
	const char *uuid = record_get_text(device, FIELD_UUID);

	(void)fputs(print_safe(record_get_text(device, FIELD_ID)), out);
	if (bus)
		(void)fprintf(out, " at %s", print_safe(bus));
	(void)fprintf(
		out, ", %s",
		print_value(record_see(device, FIELD_KIND), FIELD_KIND, true));
	if (numa->is_set)
		(void)fprintf(out, ", NUMA node %s",
			      print_value(numa, FIELD_NUMA, true));
	if (uuid)
		(void)fprintf(out, ", uuid %s", print_safe(uuid));
	(void)fputc('\n', out);
}

void print_report(FILE *out, const struct document *document,
		  const struct part *part, const struct style *style)
{
	for (const struct record *device = part->records->first; device;
	     device = device->next) {
		if (!style->has_no_headings)
			print_head(out, device);
		for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
			if (is_chosen(document, topics[i].topic))
				print_topic(out, document, device, i, style);
		}
		if (device->next)
			(void)fputc('\n', out);
	}
}

/* ---- doctor ---- */

static void print_fix(FILE *out, const char *fix, const char *code)
{
	int length = (int)strlen(fix) + 23;
	int room = 82 - (int)strlen(code) - 2;

	(void)fprintf(out, "%18sfix: %s%*s(%s)\n", "", fix,
		      room > length + 2 ? room - length : 2, "", code);
}

static void print_check(FILE *out, const struct record *check,
			const struct style *style)
{
	const char *state = record_get_text(check, FIELD_CHECK_STATE);
	const char *code = record_get_text(check, FIELD_CHECK_CODE);
	const char *fix = record_get_text(check, FIELD_CHECK_FIX);
	const char *word = "ok    ";

	if (!strcmp(state, "fail"))
		word = print_paint(style, "31", "FAIL  ");
	else if (!strcmp(state, "warn"))
		word = print_paint(style, "33", "warn  ");
	else if (!strcmp(state, "skip"))
		word = "skip  ";
	(void)fprintf(out, "%s%-12s%s", word,
		      record_get_text(check, FIELD_CHECK_ID),
		      print_safe(record_get_text(check, FIELD_CHECK_TEXT)));
	if (code && !fix)
		(void)fprintf(out, "  (%s)", code);
	(void)fputc('\n', out);
	if (code && fix)
		print_fix(out, print_safe(fix), code);
}

static void print_number(FILE *out, size_t num, const char *word)
{
	if (num)
		(void)fprintf(out, "%zu %s%s", num, word, num == 1 ? "" : "s");
	else
		(void)fprintf(out, "no %s", word);
}

void print_checks(FILE *out, const struct records *checks,
		  const struct style *style)
{
	size_t failures = 0, warnings = 0, codes = 0;

	for (const struct record *check = checks->first; check;
	     check = check->next) {
		const char *state = record_get_text(check, FIELD_CHECK_STATE);

		failures += !strcmp(state, "fail");
		warnings += !strcmp(state, "warn");
		codes += record_get_text(check, FIELD_CHECK_CODE) != NULL;
		print_check(out, check, style);
	}
	if (style->has_no_headings)
		return;
	print_number(out, failures, "failure");
	(void)fputs(", ", out);
	print_number(out, warnings, "warning");
	if (codes)
		(void)fputs("; each code is explained in qbinfo-doctor(7)",
			    out);
	(void)fputc('\n', out);
}

/* ---- version ---- */

void print_parts(FILE *out, const struct document *document)
{
	const struct inventory *inventory = document->inventory;

	for (const struct record *part = inventory->parts.first; part;
	     part = part->next) {
		static const enum field_id fields[] = { FIELD_PART_VERSION,
							FIELD_PART_DETAIL,
							FIELD_PART_PATH };
		bool is_first = true;

		(void)fprintf(out, "%-14s",
			      record_get_text(part, FIELD_PART_NAME));
		for (size_t i = 0; i < 3; i++) {
			const char *text = record_get_text(part, fields[i]);

			if (!text)
				continue;
			(void)fprintf(out, "%s%s", is_first ? "" : "   ",
				      print_safe(text));
			is_first = false;
		}
		(void)fputc('\n', out);
	}
	(void)fprintf(out, "%-14s%s\n", "verdict",
		      print_safe(record_get_text(inventory->verdict,
						 FIELD_VERDICT_TEXT)));
}

/* ---- caps ---- */

#define COMMENT_COLUMN 24

/* What is to say of the value, or why there is none; NULL: nothing. */
static const char *get_comment(const struct value *value)
{
	if (value->is_set || value->reason == REASON_ABSENT)
		return value->detail;
	if (!value->detail)
		return reason_get_word(value->reason);
	return inventory_format("%s: %s", reason_get_word(value->reason),
				value->detail);
}

/* The id is for JSON and for -o: who asked knows it. */
void print_caps(FILE *out, const struct part *part, const struct style *style)
{
	for (size_t i = 0; i < part->num_fields; i++) {
		enum field_id field = part->fields[i];
		const char *path = field_get(field)->path;
		const char *dot = strrchr(path, '.');
		const struct value *value =
			record_see(part->records->first, field);
		const char *text = print_value(value, field, true);
		const char *comment = get_comment(value);

		if (field == FIELD_ID && !part->is_chosen)
			continue;
		/* it will be known */
		if (!value->is_set && value->reason == REASON_NOT_LOADED)
			text = "?";
		text = inventory_format("%s=%s", dot ? dot + 1 : path, text);
		if (comment && !style->has_no_headings)
			(void)fprintf(out, "%-*s # %s\n", COMMENT_COLUMN, text,
				      print_safe(comment));
		else
			(void)fprintf(out, "%s\n", text);
	}
}

/* ---- documents ---- */

static void print_banner(FILE *out, const struct inventory *inventory)
{
	const struct record *tool = inventory->tool;
	const char *driver =
		record_get_text(inventory->driver, FIELD_DRIVER_NAME);
	const char *version =
		record_get_text(inventory->driver, FIELD_DRIVER_VERSION);
	size_t num = inventory->devices.num, warnings = 0;

	for (const struct warning *warning = inventory->warnings; warning;
	     warning = warning->next)
		warnings++;
	(void)fprintf(out, "qbinfo %s   libqbruntime %s (ABI %s)   ",
		      record_get_text(tool, FIELD_TOOL_VERSION),
		      record_get_text(tool, FIELD_TOOL_LIBRARY),
		      print_value(record_see(tool, FIELD_TOOL_ABI),
				  FIELD_TOOL_ABI, true));
	if (driver && version)
		(void)fprintf(out, "%s %s (uapi %s.%s)   ", print_safe(driver),
			      print_safe(version),
			      print_value(record_see(inventory->driver,
						     FIELD_DRIVER_UAPI_MAJOR),
					  FIELD_DRIVER_UAPI_MAJOR, true),
			      print_value(record_see(inventory->driver,
						     FIELD_DRIVER_UAPI_MINOR),
					  FIELD_DRIVER_UAPI_MINOR, true));
	else
		(void)fprintf(out, "%s   ",
			      inventory->own_nodes ? "qbnpu, not asked"
						   : "no kernel driver");
	(void)fprintf(out, "%zu device%s   ", num, num == 1 ? "" : "s");
	if (warnings)
		print_number(out, warnings, "warning");
	else
		(void)fputs("ok", out);
	(void)fputs("\n\n", out);
}

static bool is_printed(const struct part *part)
{
	return part->form != FORM_DATA &&
	       (part->form != FORM_TABLE || !part->records ||
		part->records->num);
}

static void print_one(FILE *out, const struct document *document,
		      const struct part *part, const struct style *style)
{
	switch (part->form) {
	case FORM_REPORT:
		print_report(out, document, part, style);
		break;
	case FORM_CHECKS:
		print_checks(out, part->records, style);
		break;
	case FORM_PARTS:
		print_parts(out, document);
		break;
	case FORM_CAPS:
		print_caps(out, part, style);
		break;
	case FORM_TESTS:
		print_tests(out, part, style);
		break;
	case FORM_RESULTS:
		print_results(out, part, style);
		break;
	case FORM_MODELS:
		print_models(out, part->records, style);
		break;
	default:
		print_table(out, part, style);
		break;
	}
}

/* A blank line between what is there. */
void print_text(FILE *out, const struct document *document,
		const struct style *style)
{
	const struct inventory *inventory = document->inventory;
	bool is_first = true;

	if (document->has_banner && !style->has_no_headings)
		print_banner(out, inventory);
	for (size_t i = 0; i < document->num_parts; i++) {
		if (!is_printed(&document->parts[i]))
			continue;
		if (!is_first)
			(void)fputc('\n', out);
		is_first = false;
		print_one(out, document, &document->parts[i], style);
	}
	if (style->has_no_headings ||
	    (!document->has_banner && !document->note))
		return;
	if (document->note) {
		(void)fprintf(out, "%s%s\n", is_first ? "" : "\n",
			      document->note);
		is_first = false;
	}
	if (inventory->warnings && !is_first)
		(void)fputc('\n', out);
	for (const struct warning *warning = inventory->warnings; warning;
	     warning = warning->next)
		(void)fprintf(out, "%s %s (%s)\n",
			      print_paint(style, "33", "!"),
			      print_safe(warning->text),
			      print_safe(warning->command));
}
