// SPDX-License-Identifier: MIT
/* What bench measured: in whose company, the table, and what is beside it. */
#include <string.h>

#include "print.h"

static const char *get_value(const struct record *record, enum field_id field)
{
	return print_value(record_see(record, field), field, false);
}

/* The pressure before the first block: what the machine was like. */
static const char *get_pressure(const struct record *record)
{
	const struct value *value =
		record_see(record, FIELD_RESULT_ENVIRONMENT_BLOCKS);
	const struct record *block =
		value->is_set ? value->records->first : NULL;

	return block ? get_value(block, FIELD_BLOCK_PSI_BEFORE) : "-";
}

static const struct record *find_device(const struct records *results)
{
	const struct record *record = results->first;

	while (record && !record_get_text(record, FIELD_RESULT_DEVICE))
		record = record->next;
	return record;
}

static void print_banner(FILE *out, const struct records *results)
{
	const struct record *first = results->first;
	const char *cpus = get_value(first, FIELD_RESULT_ENVIRONMENT_CPUS);
	const struct record *device = find_device(results);

	if (device)
		(void)fprintf(out, "%s, %s, backend %s; ",
			      get_value(device, FIELD_RESULT_DEVICE),
			      get_value(device, FIELD_RESULT_KIND),
			      get_value(device, FIELD_RESULT_BACKEND));
	(void)fprintf(out, "%s CPU%s; PSI %s; seed %s\n", cpus,
		      strcmp(cpus, "1") ? "s" : "", get_pressure(first),
		      get_value(first, FIELD_RESULT_ENVIRONMENT_SEED));
}

static void print_copies(FILE *out, const struct record *record)
{
	const struct value *value = record_see(record, FIELD_RESULT_COPIES);
	const struct record *copy =
		value->is_set ? value->records->first : NULL;

	for (; copy; copy = copy->next)
		(void)fprintf(out, "%s copies %s, %s: %s\n",
			      get_value(record, FIELD_RESULT_METRIC),
			      get_value(copy, FIELD_COPY_TENSOR),
			      get_value(copy, FIELD_COPY_NBYTES),
			      get_value(copy, FIELD_COPY_WHY));
}

/* First calls are told of whole inferences: others are no use to anyone. */
static bool has_first(const struct record *record)
{
	const char *metric = record_get_text(record, FIELD_RESULT_METRIC);

	return record_see(record, FIELD_RESULT_FIRST)->is_set &&
	       (!strncmp(metric, "infer.", 6) ||
		!strcmp(metric, "model.infer"));
}

static void print_notes(FILE *out, const struct record *record)
{
	const char *metric = get_value(record, FIELD_RESULT_METRIC);
	const char *placement = get_value(record, FIELD_RESULT_PLACEMENT);

	if (record_get_text(record, FIELD_RESULT_REASON))
		(void)fprintf(out, "%s %s was not measured: %s\n", metric,
			      placement,
			      get_value(record, FIELD_RESULT_REASON));
	if (has_first(record))
		(void)fprintf(
			out, "first call of %s %s: %s, not part of the above\n",
			metric, placement,
			get_value(record, FIELD_RESULT_FIRST));
	print_copies(out, record);
}

static size_t count_changes(const struct records *results, const char *word)
{
	size_t num = 0;

	for (const struct record *record = results->first; record;
	     record = record->next) {
		const char *verdict =
			record_get_text(record, FIELD_RESULT_BASELINE_VERDICT);

		num += verdict && !strcmp(verdict, word);
	}
	return num;
}

static void print_changes(FILE *out, const struct records *results)
{
	size_t num_same = count_changes(results, "within_noise");
	size_t num_noisy = count_changes(results, "noisy");
	size_t num = count_changes(results, "faster") +
		     count_changes(results, "slower");

	if (num_same + num_noisy + num)
		(void)fprintf(out,
			      "against the earlier run: %zu within noise, %zu "
			      "faster or slower, %zu not judged, as a run was "
			      "noisy\n",
			      num_same, num, num_noisy);
}

void print_results(FILE *out, const struct part *part,
		   const struct style *style)
{
	struct part table = *part;

	table.form = FORM_TABLE;
	if (!part->records->first)
		return;
	if (!style->has_no_headings) {
		print_banner(out, part->records);
		(void)fputc('\n', out);
	}
	print_table(out, &table, style);
	if (style->has_no_headings)
		return;
	for (const struct record *record = part->records->first; record;
	     record = record->next)
		print_notes(out, record);
	print_changes(out, part->records);
}
