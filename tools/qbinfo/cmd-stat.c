// SPDX-License-Identifier: MIT
/*
 * stat: a record a device and interval. A tick's records are written at once;
 * --json alone keeps them, since it is one document. What is remembered from
 * tick to tick is of a fixed size.
 */
#include <stdlib.h>
#include <string.h>

#include "collect.h"
#include "qbinfo.h"
#include "source.h"
#include "stat.h"
#include "text-file.h"

static const enum field_id fields[] = {
	FIELD_SAMPLE_TIME,          FIELD_SAMPLE_ID,
	FIELD_SAMPLE_BUSY,          FIELD_SAMPLE_IN_FLIGHT,
	FIELD_SAMPLE_COMPLETE_RATE, FIELD_SAMPLE_WAIT,
	FIELD_SAMPLE_RUN,           FIELD_SAMPLE_PINNED,
	FIELD_SAMPLE_TEMPERATURE,   FIELD_SAMPLE_POWER,
};

struct run {
	struct request *request;
	struct document *document;
	struct stat_device *devices;
	size_t num_devices;
	struct stat_ticks ticks;
	struct print_rows rows;
	bool is_incomplete; /* --strict */
	double cost;        /* seconds, of all readings */
};

/* ---- which devices ---- */

static bool is_software(const struct record *device)
{
	const char *kind = record_get_text(device, FIELD_KIND);

	return kind && !strcmp(kind, "software");
}

static const char *list_software(const struct records *devices)
{
	const char *ids = "";

	for (const struct record *device = devices->first; device;
	     device = device->next) {
		if (is_software(device))
			ids = inventory_format(
				"%s%s%s", ids, *ids ? ", " : "",
				record_get_text(device, FIELD_ID));
	}
	return *ids ? inventory_format("a software device is private to its "
				       "process, so stat leaves it out: %s",
				       ids)
		    : NULL;
}

static void drop_software(struct records *devices)
{
	struct record *device = devices->first;

	*devices = (struct records){ .list = devices->list };
	while (device) {
		struct record *next = device->next;

		if (!is_software(device))
			records_append(devices, device);
		device = next;
	}
}

/* Those that are left; 0 or an exit code. */
static int choose_devices(struct request *request)
{
	const struct words *ids = request->arguments.num ? &request->arguments
							 : &request->devices;
	struct records *devices = &request->inventory.devices;
	int code = select_devices(request, ids);
	const char *left_out;

	if (code)
		return code;
	left_out = list_software(devices);
	if (left_out && ids->num)
		return fail(2, "%s", left_out);
	drop_software(devices);
	if (!devices->num)
		return fail(3,
			    "there is no hardware device to watch%s%s; "
			    "qbinfo doctor tells why",
			    left_out ? ", and " : "", left_out ?: "");
	if (left_out && !request->has[OPTION_QUIET])
		(void)fprintf(stderr, "qbinfo: %s\n", print_safe(left_out));
	return 0;
}

/* ---- options ---- */

static int check_options(struct request *request)
{
	if (request->style.is_json && !request->has[OPTION_COUNT] &&
	    !source_get_sysroot())
		return fail(2, "one document (--json) has an end: give "
			       "the number of records (-c), or take a line a "
			       "record (--jsonl)");
	return 0;
}

/* ---- ticks ---- */

static bool has_more(const struct run *run)
{
	for (size_t i = 0; i < run->num_devices; i++) {
		if (stat_has_more(&run->devices[i]))
			return true;
	}
	return false;
}

static void read_tick(struct run *run)
{
	struct inventory *inventory = &run->request->inventory;
	double start = get_seconds();

	for (size_t i = 0; i < run->num_devices; i++) {
		struct record *sample;

		if (!stat_has_more(&run->devices[i]))
			continue;
		sample = records_add(&inventory->samples);
		stat_read_next(&run->devices[i], inventory->tool, sample);
		set_integer(sample, FIELD_SAMPLE_SEQ, run->ticks.records);
		set_integer(sample, FIELD_SAMPLE_MISSED, run->ticks.missed);
	}
	run->cost += get_seconds() - start;
}

/* What the tick brought as text, to be freed. */
static void print_tick(struct run *run, struct text_file *file)
{
	const struct style *style = &run->request->style;
	FILE *out = text_file_open(file);

	if (!out)
		inventory_end();
	if (style->is_jsonl)
		print_json(out, run->document, style);
	else
		print_rows(out, &run->document->parts[0], style, &run->rows);
	text_file_flush(file, out);
	(void)fclose(out);
}

static int run_tick(struct run *run)
{
	struct request *request = run->request;
	struct records *samples = &request->inventory.samples;
	struct text_file file = { .text = NULL };
	void *mark;
	int code;

	if (request->style.is_json) {
		read_tick(run);
		return 0;
	}
	mark = inventory_mark();
	read_tick(run);
	if (request->has[OPTION_STRICT] && !print_is_complete(run->document))
		run->is_incomplete = true;
	print_tick(run, &file);
	*samples = (struct records){ .list = LIST_SAMPLES };
	inventory_release(mark);
	/* a failure's sentence must live on; who reads may take his time */
	stop_timer();
	code = write_now(file.text, file.length);
	free(file.text);
	return code;
}

static int run_ticks(struct run *run)
{
	const struct request *request = run->request;
	int code = 0;

	for (size_t i = 0; i < run->num_devices; i++)
		stat_read_first(&run->devices[i], request->inventory.tool);
	stat_ticks_start(&run->ticks);
	while (!code && has_more(run) &&
	       (!request->count || run->ticks.records < request->count)) {
		stop_timer();
		stat_ticks_wait(&run->ticks);
		restart_timer(request);
		code = run_tick(run);
	}
	return code;
}

/* ---- the end ---- */

static int tell_end(struct run *run)
{
	struct request *request = run->request;
	const char *gone = "";

	for (size_t i = 0; i < run->num_devices; i++) {
		if (run->devices[i].is_gone)
			gone = inventory_format(
				"%s%s%s", gone, *gone ? ", " : "",
				record_get_text(run->devices[i].info,
						FIELD_ID));
	}
	if (request->has[OPTION_VERBOSE])
		(void)fprintf(
			stderr, "qbinfo: %llu ticks were read in %.6f s\n",
			(unsigned long long)run->ticks.records, run->cost);
	if (*gone)
		return fail(7, "lost while it was watched: %s", gone);
	if (run->is_incomplete)
		return fail(9, "a field is not available (--strict)");
	return 0;
}

/* An interval lies between two readings. */
static int check_recorded(const struct run *run)
{
	const char *single = "";

	for (size_t i = 0; i < run->num_devices; i++) {
		if (!stat_has_more(&run->devices[i]))
			single = inventory_format(
				"%s%s%s", single, *single ? ", " : "",
				record_get_text(run->devices[i].info,
						FIELD_ID));
	}
	if (!has_more(run))
		return fail(8,
			    "%s has one reading of each device, and an "
			    "interval lies between two",
			    source_get_sysroot());
	if (*single && !run->request->has[OPTION_QUIET])
		(void)fprintf(stderr,
			      "qbinfo: %s is left out: %s has one reading of "
			      "it\n",
			      print_safe(single),
			      print_safe(source_get_sysroot()));
	return 0;
}

static int watch(struct run *run)
{
	struct request *request = run->request;
	int code = check_recorded(run), end;

	if (code)
		return code;
	code = run_ticks(run);
	end = tell_end(run);
	if (code || !request->style.is_json)
		return code ? code : end;
	if (end)
		run->document->failure = get_failure();
	code = show_document(request, run->document);
	return end ? end : code;
}

int cmd_stat(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	struct document document = {
		.name = "stat",
		.parts = { { .form = FORM_TABLE,
			     .list = LIST_SAMPLES,
			     .records = &inventory->samples } },
		.num_parts = 1,
		.inventory = inventory,
	};
	struct run run = { .request = request,
			   .document = &document,
			   .ticks = { .now = stat_now,
				      .wait_until = stat_wait_until,
				      .interval = request->interval } };
	bool is_data = request->style.is_json || request->style.is_jsonl;
	int code = select_fields(request, LIST_SAMPLES, fields,
				 sizeof(fields) / sizeof(*fields),
				 &document.parts[0]);

	if (code)
		return code < 0 ? 0 : code;
	if (is_data && !request->has[OPTION_OUTPUT])
		select_all(request, LIST_SAMPLES, &document.parts[0]);
	code = check_options(request);
	if (!code)
		code = collect_all(request, false);
	if (!code)
		code = choose_devices(request);
	if (code)
		return code;
	run.rows.columns =
		inventory_alloc(document.parts[0].num_fields * sizeof(size_t));
	run.rows.widths =
		inventory_alloc(document.parts[0].num_fields * sizeof(size_t));
	run.devices =
		inventory_alloc(inventory->devices.num * sizeof(*run.devices));
	for (struct record *device = inventory->devices.first; device && !code;
	     device = device->next)
		code = stat_open(&run.devices[run.num_devices++], device);
	if (!code)
		code = watch(&run);
	for (size_t i = 0; i < run.num_devices; i++)
		stat_close(&run.devices[i]);
	return code;
}
