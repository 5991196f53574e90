// SPDX-License-Identifier: MIT
/*
 * Rows that come one by one: their columns are chosen and sized at the first
 * ones. A later value that is wider widens its column from there on.
 */
#include <string.h>

#include "print.h"

/* Of values that grow: 9.8ms may become 10.7ms. */
#define NUMBER_WIDTH 7
#define HEADING_EVERY 20

/* The time of day is enough for who looks on; -o and -b give it whole. */
static const char *get_cell(const struct part *part, size_t column,
			    const struct record *record,
			    const struct style *style)
{
	enum field_id field = part->fields[column];
	const char *text =
		print_value(record_see(record, field), field, style->is_plain);

	if (field == FIELD_SAMPLE_TIME && !part->is_chosen &&
	    !style->is_plain && strlen(text) > 19)
		return inventory_format("%.8s", text + 11);
	return text;
}

/* No device has it. */
static bool is_missing(const struct part *part, enum field_id field)
{
	for (const struct record *record = part->records->first; record;
	     record = record->next) {
		const struct value *value = record_see(record, field);

		if (value->is_set || value->reason != REASON_NOT_SUPPORTED)
			return false;
	}
	return true;
}

static void choose_columns(const struct part *part, struct print_rows *rows)
{
	for (size_t i = 0; i < part->num_fields; i++) {
		size_t width = strlen(field_get(part->fields[i])->heading);

		if (!part->is_chosen && is_missing(part, part->fields[i]))
			continue;
		if (print_is_number(part->fields[i]) && width < NUMBER_WIDTH)
			width = NUMBER_WIDTH;
		rows->columns[rows->num_columns] = i;
		rows->widths[rows->num_columns++] = width;
	}
}

static void widen_columns(const struct part *part, const struct style *style,
			  struct print_rows *rows)
{
	for (const struct record *record = part->records->first; record;
	     record = record->next) {
		for (size_t i = 0; i < rows->num_columns; i++) {
			size_t width = strlen(get_cell(part, rows->columns[i],
						       record, style));

			if (width > rows->widths[i])
				rows->widths[i] = width;
		}
	}
}

/* record NULL: the heading. */
static void print_row(FILE *out, const struct part *part,
		      const struct record *record, const struct style *style,
		      const struct print_rows *rows)
{
	for (size_t i = 0; i < rows->num_columns; i++) {
		enum field_id field = part->fields[rows->columns[i]];
		bool is_last = i + 1 == rows->num_columns;
		int width = (int)rows->widths[i];
		const char *text =
			record ? get_cell(part, rows->columns[i], record, style)
			       : field_get(field)->heading;

		if (!print_is_number(field))
			width = is_last ? 0 : -width;
		(void)fprintf(out, "%s%*s", i ? " " : "", width, text);
	}
	(void)fputc('\n', out);
}

void print_rows(FILE *out, const struct part *part, const struct style *style,
		struct print_rows *rows)
{
	if (!rows->num_columns)
		choose_columns(part, rows);
	widen_columns(part, style, rows);
	for (const struct record *record = part->records->first; record;
	     record = record->next) {
		bool is_due = style->has_boxes
				      ? rows->num_rows % HEADING_EVERY == 0
				      : !rows->num_rows;

		if (is_due && !style->has_no_headings)
			print_row(out, part, NULL, style, rows);
		print_row(out, part, record, style, rows);
		rows->num_rows++;
	}
}
