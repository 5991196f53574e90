// SPDX-License-Identifier: MIT
/*
 * Tables, lines and trees, by libsmartcols. Columns are never cut: what is
 * wider than the terminal runs on. A column that is "-" in every row is left
 * out, a number stands right.
 */
#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "text-file.h"

static void check(int err)
{
	if (err)
		inventory_end();
}

/* ---- the cores of a device in one word ---- */

/* Clusters stand for all three where their column is followed by the others. */
static bool is_cores(const struct part *part, size_t column)
{
	return !part->is_chosen && part->fields[column] == FIELD_CLUSTERS &&
	       column + 2 < part->num_fields &&
	       part->fields[column + 1] == FIELD_LOCAL_CORES &&
	       part->fields[column + 2] == FIELD_GLOBAL_CORES;
}

static const char *get_cores(const struct record *device)
{
	const struct value *clusters = record_see(device, FIELD_CLUSTERS);
	const struct value *local = record_see(device, FIELD_LOCAL_CORES);
	const struct value *global = record_see(device, FIELD_GLOBAL_CORES);

	if (!clusters->is_set || !local->is_set || !global->is_set)
		return print_value(clusters, FIELD_CLUSTERS, true);
	return inventory_format("%llux(%llu+%llu)",
				(unsigned long long)clusters->integer.magnitude,
				(unsigned long long)local->integer.magnitude,
				(unsigned long long)global->integer.magnitude);
}

static const char *get_cell(const struct part *part, size_t column,
			    const struct record *record, bool is_plain)
{
	enum field_id field = part->fields[column];

	if (is_cores(part, column))
		return get_cores(record);
	return print_value(record_see(record, field), field, is_plain);
}

static const struct record *get_first(const struct part *part)
{
	return part->records ? part->records->first : part->record;
}

static bool is_empty(const struct part *part, size_t column, bool is_plain)
{
	for (const struct record *record = get_first(part); record;
	     record = record->next) {
		if (strcmp(get_cell(part, column, record, is_plain), "-") != 0)
			return false;
	}
	return true;
}

/* ---- forms ---- */

static void print_lines(FILE *out, const struct part *part, bool is_plain)
{
	for (const struct record *record = get_first(part); record;
	     record = record->next) {
		for (size_t i = 0; i < part->num_fields; i++)
			(void)fprintf(out, "%s%s", i ? " " : "",
				      get_cell(part, i, record, is_plain));
		(void)fputc('\n', out);
	}
}

struct libscols_table *print_start_table(const struct style *style)
{
	struct libscols_table *table = scols_new_table();

	if (!table)
		check(1);
	check(scols_table_enable_noheadings(table, style->has_no_headings));
	check(scols_table_enable_ascii(table, !style->has_boxes));
	/* cells are safe already, and look the same in every form */
	check(scols_table_enable_noencoding(table, 1));
	check(scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER));
	return table;
}

void print_add_column(struct libscols_table *table, const char *heading,
		      int flags)
{
	if (!scols_table_new_column(table, heading, 0, flags))
		check(1);
}

struct libscols_line *print_add_line(struct libscols_table *table,
				     struct libscols_line *parent)
{
	struct libscols_line *line = scols_table_new_line(table, parent);

	if (!line)
		check(1);
	return line;
}

void print_finish_table(FILE *out, struct libscols_table *table)
{
	struct text_file file = { .text = NULL };
	FILE *stream = text_file_open(&file);
	char *line, *rest;

	check(!stream);
	check(scols_table_set_stream(table, stream));
	check(scols_print_table(table));
	(void)fputc('\0', stream);
	text_file_flush(&file, stream);
	(void)fclose(stream);
	for (line = strtok_r(file.text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		size_t length = strlen(line);

		while (length && line[length - 1] == ' ')
			length--;
		(void)fprintf(out, "%.*s\n", (int)length, line);
	}
	free(file.text);
	scols_unref_table(table);
}

void print_add_cell(struct libscols_line *line, size_t column, const char *text)
{
	check(scols_line_set_data(line, column, text));
}

static void print_columns(FILE *out, const struct part *part,
			  const struct style *style)
{
	struct libscols_table *table = print_start_table(style);
	size_t *columns =
		inventory_alloc((part->num_fields + 1) * sizeof(*columns));
	size_t num = 0;

	for (size_t i = 0; i < part->num_fields; i++) {
		bool is_joined = is_cores(part, i);
		int flags = print_is_number(part->fields[i]) && !is_joined
				    ? SCOLS_FL_RIGHT
				    : 0;

		if (part->is_chosen || !is_empty(part, i, style->is_plain)) {
			print_add_column(
				table,
				is_joined ? "CORES"
					  : field_get(part->fields[i])->heading,
				flags);
			columns[num++] = i;
		}
		if (is_joined)
			i += 2;
	}
	for (const struct record *record = get_first(part); record && num;
	     record = record->next) {
		struct libscols_line *line = print_add_line(table, NULL);

		for (size_t i = 0; i < num; i++)
			print_add_cell(line, i,
				       get_cell(part, columns[i], record,
						style->is_plain));
	}
	print_finish_table(out, table);
}

static struct libscols_line *add_branch(struct libscols_table *table,
					struct libscols_line *parent,
					const char *name)
{
	struct libscols_line *line = print_add_line(table, parent);

	print_add_cell(line, 0, name);
	return line;
}

/* The names of the library's enums: Cluster0, Core0, GlobalCore. */
static void add_cores(struct libscols_table *table, struct libscols_line *line,
		      const struct record *device)
{
	uint64_t clusters = record_get_integer(device, FIELD_CLUSTERS, 0);
	uint64_t local = record_get_integer(device, FIELD_LOCAL_CORES, 0);
	uint64_t global = record_get_integer(device, FIELD_GLOBAL_CORES, 0);

	/* no device has more: the numbers of a capture may be anything */
	for (uint64_t i = 0; i < clusters && i < 64; i++) {
		struct libscols_line *cluster = add_branch(
			table, line,
			inventory_format("Cluster%u", (unsigned int)i));

		for (uint64_t j = 0; j < local && j < 64; j++)
			(void)add_branch(
				table, cluster,
				inventory_format("Core%u", (unsigned int)j));
		for (uint64_t j = 0; j < global && j < 64; j++)
			(void)add_branch(table, cluster, "GlobalCore");
	}
}

static void print_tree(FILE *out, const struct part *part,
		       const struct style *style)
{
	struct style plain = *style;
	struct libscols_table *table;

	if (!get_first(part))
		return;
	plain.has_no_headings = true;
	table = print_start_table(&plain);
	print_add_column(table, "DEVICE", SCOLS_FL_TREE);
	print_add_column(table, "BUS", 0);
	for (const struct record *device = get_first(part); device;
	     device = device->next) {
		struct libscols_line *line =
			add_branch(table, NULL,
				   print_value(record_see(device, FIELD_ID),
					       FIELD_ID, true));

		if (record_get_text(device, FIELD_BUS))
			print_add_cell(
				line, 1,
				print_safe(record_get_text(device, FIELD_BUS)));
		add_cores(table, line, device);
	}
	print_finish_table(out, table);
}

void print_table(FILE *out, const struct part *part, const struct style *style)
{
	if (part->form == FORM_LINES)
		print_lines(out, part, style->is_plain);
	else if (part->form == FORM_TREE)
		print_tree(out, part, style);
	else if (get_first(part))
		print_columns(out, part, style);
}

/* ---- -o help ---- */

void print_field_help(FILE *out, const enum field_id *fields, size_t num_fields)
{
	static const char *const types[] = { "string", "enum",      "integer",
					     "number", "boolean",   "string[]",
					     "enum[]", "integer[]", "number[]",
					     "object", "object[]" };
	static const char *const units[] = { "-",      "-",     "bytes",
					     "ns",     "hz",    "celsius",
					     "watts",  "volts", "amperes",
					     "joules", "ratio" };
	static const struct {
		char letter;
		const char *name;
	} commands[] = {
#define COMMAND(id, letter, name, arguments, list, help, example) \
	{ letter, name },
#include "options.def"
	};
	struct style style = { .has_no_headings = false };
	struct libscols_table *table = print_start_table(&style);
	static const char *const headings[] = { "PATH", "HEADING", "TYPE",
						"UNIT", "COMMANDS" };

	for (size_t i = 0; i < 5; i++)
		print_add_column(table, headings[i], 0);
	for (size_t i = 0; i < num_fields; i++) {
		const struct field *field = field_get(fields[i]);
		struct libscols_line *line = print_add_line(table, NULL);
		const char *names = "";

		for (size_t j = 0; j < sizeof(commands) / sizeof(*commands);
		     j++) {
			if (strchr(field->commands, commands[j].letter))
				names = inventory_format("%s%s%s", names,
							 *names ? "," : "",
							 commands[j].name);
		}
		print_add_cell(line, 0, field->path);
		print_add_cell(line, 1, field->heading);
		print_add_cell(line, 2, types[field->type]);
		print_add_cell(line, 3, units[field->unit]);
		print_add_cell(line, 4, names);
	}
	print_finish_table(out, table);
}
