// SPDX-License-Identifier: MIT
/* Text of model files: a line about the file, and a line for each tensor. */
#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

enum column {
	COLUMN_VARIANT,
	COLUMN_MODES,
	COLUMN_IO,
	COLUMN_NAME,
	COLUMN_SHAPE,
	COLUMN_DTYPE,
	COLUMN_LAYOUT,
	COLUMN_NORM,
	COLUMN_MACS,
	COLUMN_WEIGHTS,
	COLUMN_SCRATCH,
	NUM_COLUMNS
};

static const struct {
	const char *heading;
	int flags;
} columns[NUM_COLUMNS] = {
	{ "VARIANT", 0 },
	{ "MODES", 0 },
	{ "I/O", 0 },
	{ "NAME", 0 },
	{ "SHAPE", 0 },
	{ "DTYPE", 0 },
	{ "LAYOUT", 0 },
	{ "NORM", 0 },
	{ "MACS", SCOLS_FL_RIGHT },
	{ "WEIGHTS", SCOLS_FL_RIGHT },
	{ "SCRATCH", SCOLS_FL_RIGHT },
};

static const char *get_text(const struct record *record, enum field_id field,
			    const struct style *style)
{
	return print_value(record_see(record, field), field, style->is_plain);
}

/* (x - mean) / std in short. */
static const char *get_norm(const struct record *tensor)
{
	const struct value *mean = record_see(tensor, FIELD_TENSOR_MEAN);
	const struct value *std = record_see(tensor, FIELD_TENSOR_STD);
	bool is_shifted = false;

	if (!mean->is_set || !std->is_set)
		return "-";
	for (size_t i = 0; i < mean->numbers.num; i++)
		is_shifted |= mean->numbers.items[i] != 0.0;
	if (!is_shifted)
		return inventory_format(
			"x / %s", print_value(std, FIELD_TENSOR_STD, true));
	return inventory_format("(x - %s) / %s",
				print_value(mean, FIELD_TENSOR_MEAN, true),
				print_value(std, FIELD_TENSOR_STD, true));
}

static void add_tensors(struct libscols_table *table,
			const struct record *variant, enum field_id field,
			const struct style *style)
{
	bool is_first = field == FIELD_VARIANT_INPUTS;

	for (const struct record *tensor =
		     record_see(variant, field)->records->first;
	     tensor; tensor = tensor->next) {
		struct libscols_line *line = print_add_line(table, NULL);

		print_add_cell(line, COLUMN_VARIANT,
			       get_text(variant, FIELD_VARIANT_NAME, style));
		print_add_cell(line, COLUMN_MODES,
			       get_text(variant, FIELD_VARIANT_MODES, style));
		print_add_cell(line, COLUMN_IO,
			       field == FIELD_VARIANT_INPUTS ? "input"
							     : "output");
		print_add_cell(line, COLUMN_NAME,
			       get_text(tensor, FIELD_TENSOR_NAME, style));
		print_add_cell(line, COLUMN_SHAPE,
			       get_text(tensor, FIELD_TENSOR_SHAPE, style));
		print_add_cell(line, COLUMN_DTYPE,
			       get_text(tensor, FIELD_TENSOR_DTYPE, style));
		print_add_cell(line, COLUMN_LAYOUT,
			       get_text(tensor, FIELD_TENSOR_LAYOUT, style));
		print_add_cell(line, COLUMN_NORM, get_norm(tensor));
		/* sums of the variant stand once, in its first line */
		if (is_first) {
			print_add_cell(
				line, COLUMN_MACS,
				get_text(variant, FIELD_VARIANT_MACS, style));
			print_add_cell(line, COLUMN_WEIGHTS,
				       get_text(variant, FIELD_VARIANT_WEIGHTS,
						style));
			print_add_cell(line, COLUMN_SCRATCH,
				       get_text(variant, FIELD_VARIANT_SCRATCH,
						style));
		}
		is_first = false;
	}
}

static void print_variants(FILE *out, const struct record *model,
			   const struct style *style)
{
	struct style plain = *style;
	struct libscols_table *table;

	plain.has_boxes = false;
	table = print_start_table(&plain);
	for (size_t i = 0; i < NUM_COLUMNS; i++)
		print_add_column(table, columns[i].heading, columns[i].flags);
	for (const struct record *variant =
		     record_see(model, FIELD_MODEL_VARIANTS)->records->first;
	     variant; variant = variant->next) {
		add_tensors(table, variant, FIELD_VARIANT_INPUTS, style);
		add_tensors(table, variant, FIELD_VARIANT_OUTPUTS, style);
	}
	print_finish_table(out, table);
}

/* A table for each variant: what its programs do, a command a line. */
static void print_listing(FILE *out, const struct record *variant,
			  const struct style *style)
{
	static const enum field_id fields[] = {
		FIELD_LISTED_PROGRAM, FIELD_LISTED_MODES, FIELD_LISTED_INDEX,
		FIELD_LISTED_OPCODE,  FIELD_LISTED_READS, FIELD_LISTED_WRITES,
		FIELD_LISTED_SHAPE,   FIELD_LISTED_DTYPE, FIELD_LISTED_NODES,
	};
	const struct value *listing =
		record_see(variant, FIELD_VARIANT_LISTING);
	const struct part part = {
		.form = FORM_TABLE,
		.list = LIST_LISTED,
		.records = listing->is_set ? listing->records : NULL,
		.fields = fields,
		.num_fields = sizeof(fields) / sizeof(*fields),
	};

	if (!part.records)
		return;
	if (!style->has_no_headings)
		(void)fprintf(out, "\n  commands of variant %s\n",
			      get_text(variant, FIELD_VARIANT_NAME, style));
	print_table(out, &part, style);
}

static const char *find_pair(const struct record *model, const char *name)
{
	const struct value *pairs = record_see(model, FIELD_MODEL_METADATA);

	for (size_t i = 0; i + 1 < pairs->texts.num; i += 2) {
		if (!strcmp(pairs->texts.items[i], name))
			return pairs->texts.items[i + 1];
	}
	return NULL;
}

static void print_head(FILE *out, const struct record *model,
		       const struct style *style)
{
	const char *source = find_pair(model, "source.file");

	(void)fprintf(out,
		      "%s: %s, isa %s, %s%s, content %.12s, checksums ok\n",
		      get_text(model, FIELD_MODEL_PATH, style),
		      get_text(model, FIELD_MODEL_FORMAT, style),
		      get_text(model, FIELD_MODEL_ISA, style),
		      get_text(model, FIELD_MODEL_SIZE, style),
		      style->is_plain ? " bytes" : "",
		      get_text(model, FIELD_MODEL_CONTENT, style));
	(void)fprintf(out, "  made by %s%s%s\n",
		      get_text(model, FIELD_MODEL_PRODUCER, style),
		      source ? " from " : "", source ? print_safe(source) : "");
	for (const struct record *section =
		     record_see(model, FIELD_MODEL_SECTIONS)->records->first;
	     section; section = section->next) {
		if (!record_see(section, FIELD_SECTION_CRC)->is_set)
			(void)fprintf(
				out,
				"  section %s of %s is of an unknown kind and "
				"is skipped\n",
				get_text(section, FIELD_SECTION_KIND, style),
				get_text(section, FIELD_SECTION_SIZE, style));
	}
}

void print_models(FILE *out, const struct records *models,
		  const struct style *style)
{
	for (const struct record *model = models->first; model;
	     model = model->next) {
		if (!style->has_no_headings)
			print_head(out, model, style);
		print_variants(out, model, style);
		for (const struct record *variant =
			     record_see(model, FIELD_MODEL_VARIANTS)
				     ->records->first;
		     variant; variant = variant->next)
			print_listing(out, variant, style);
		if (model->next)
			(void)fputc('\n', out);
	}
}
