// SPDX-License-Identifier: MIT
/* validate: runs the tests of one device, and says what came of each. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "collect.h"
#include "qbinfo.h"
#include "source.h"
#include "validate.h"

#define DEFAULT_REPEAT 100
#define MAX_REPEAT 1000000000

static const struct {
	const char *name;
	bool (*run)(struct validate *validate);
} tests[] = {
	{ "open", validate_open },     { "alloc", validate_alloc },
	{ "index", validate_index },   { "loopback", validate_loopback },
	{ "noop", validate_noop },     { "order", validate_order },
	{ "fence", validate_fence },   { "export", validate_export },
	{ "repeat", validate_repeat }, { "digits", validate_digits },
	{ "ops", validate_ops },       { "fault", validate_fault },
	{ "reset", validate_reset },   { "accounting", validate_accounting },
};
#define NUM_TESTS (sizeof(tests) / sizeof(*tests))

/* ---- what a test says ---- */

static bool say(struct validate *validate, const char *state,
		const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

static bool say(struct validate *validate, const char *state,
		const char *format, va_list args)
{
	char text[1024];

	if (record_get_text(validate->test, FIELD_TEST_STATE))
		return false;
	(void)vsnprintf(text, sizeof(text), format, args);
	set_text(validate->test, FIELD_TEST_STATE, state);
	set_text(validate->test, FIELD_TEST_TEXT, text);
	return !strcmp(state, "ok");
}

bool validate_ok(struct validate *validate, const char *format, ...)
{
	va_list args;
	bool is_ok;

	va_start(args, format);
	is_ok = say(validate, "ok", format, args);
	va_end(args);
	return is_ok;
}

bool validate_fail(struct validate *validate, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)say(validate, "fail", format, args);
	va_end(args);
	return false;
}

bool validate_skip(struct validate *validate, enum reason reason,
		   const char *format, ...)
{
	bool has_failed = record_get_text(validate->test, FIELD_TEST_STATE);
	va_list args;

	va_start(args, format);
	(void)say(validate, "skip", format, args);
	va_end(args);
	if (!has_failed)
		set_text(validate->test, FIELD_TEST_REASON,
			 reason_get_word(reason));
	return false;
}

bool validate_try(struct validate *validate, const char *what,
		  enum qbrt_status status)
{
	return !status ||
	       validate_fail(validate, "%s: %s: %s", what,
			     qbrt_status_name(status), qbrt_error_detail());
}

bool validate_refused(struct validate *validate, const char *what,
		      enum qbrt_status wanted, enum qbrt_status status)
{
	return status == wanted ||
	       validate_fail(validate, "%s: %s was expected, but got %s%s%s",
			     what, qbrt_status_name(wanted),
			     qbrt_status_name(status), status ? ": " : "",
			     status ? qbrt_error_detail() : "");
}

/* ---- the command line ---- */

/* Which tests: those of the option, else all. */
static int choose_tests(const struct request *request, bool chosen[NUM_TESTS])
{
	const struct words *words = &request->tests;
	const char *names[NUM_TESTS], *all = "";

	for (size_t i = 0; i < NUM_TESTS; i++) {
		names[i] = tests[i].name;
		chosen[i] = !words->num;
		all = inventory_format("%s%s%s", all, i ? ", " : "", names[i]);
	}
	for (size_t j = 0; j < words->num; j++) {
		const char *nearest =
			get_nearest(words->items[j], names, NUM_TESTS);
		size_t i = 0;

		while (i < NUM_TESTS && strcmp(names[i], words->items[j]) != 0)
			i++;
		if (i == NUM_TESTS && nearest)
			return fail(2, "there is no test %s; the nearest is %s",
				    words->items[j], nearest);
		if (i == NUM_TESTS)
			return fail(2, "there is no test %s; the tests are %s",
				    words->items[j], all);
		chosen[i] = true;
	}
	return 0;
}

static bool is_chosen(const bool chosen[NUM_TESTS], const char *name)
{
	size_t i = 0;

	while (strcmp(tests[i].name, name) != 0)
		i++;
	return chosen[i];
}

static int read_options(const struct request *request,
			const bool chosen[NUM_TESTS], struct validate *validate)
{
	const char *repeat = request->value[OPTION_REPEAT];

	validate->repeat = DEFAULT_REPEAT;
	validate->is_destructive = request->has[OPTION_DESTRUCTIVE];
	if (validate->is_destructive && !is_chosen(chosen, "reset"))
		return fail(
			2,
			"the option --destructive is about the test reset, which "
			"was not chosen");
	if (!repeat)
		return 0;
	if (!is_chosen(chosen, "repeat"))
		return fail(
			2,
			"the option --repeat is about the test repeat, which was "
			"not chosen");
	if (!source_parse_number(repeat, &validate->repeat) ||
	    validate->repeat < 1 || validate->repeat > MAX_REPEAT)
		return fail(
			2,
			"the option --repeat takes a number of runs from 1 to %d, but "
			"got %s",
			MAX_REPEAT, repeat);
	return 0;
}

/* ---- the run ---- */

static int open_device(struct validate *validate)
{
	enum qbrt_status status = validate_open_device(validate);
	struct failure what = {
		.exit = 1,
		.status = qbrt_status_name(status),
		.device = record_get_text(validate->device, FIELD_ID),
	};

	if (!status)
		return 0;
	what.message = inventory_format("%s cannot be opened: %s", what.device,
					qbrt_error_detail());
	if (status == QBRT_ACC_PERMISSION_DENIED)
		what.exit = 4;
	else if (status == QBRT_ACC_VERSION_MISMATCH)
		what.exit = 5;
	else if (status == QBRT_ACC_DEVICE_LOST)
		what.exit = 7;
	return fail_with(&what);
}

static void run_test(struct request *request, struct validate *validate,
		     size_t i)
{
	uint64_t jobs = validate_count(validate, "submitted");
	int64_t start = validate_now(), duration;
	struct record *test = records_add(&request->inventory.tests);

	validate->test = test;
	set_absent(test, FIELD_TEST_REASON, REASON_ABSENT, NULL);
	set_text(test, FIELD_TEST_NAME, tests[i].name);
	set_text(test, FIELD_TEST_DEVICE,
		 record_get_text(validate->device, FIELD_ID));
	start_timer(request, inventory_format("the test %s", tests[i].name));
	(void)tests[i].run(validate);
	stop_timer();
	duration = validate_now() - start;
	set_integer(test, FIELD_TEST_DURATION, (uint64_t)duration);
	jobs = validate_count(validate, "submitted") - jobs;
	/* accounting closes the device, and its counters with it */
	if (request->has[OPTION_VERBOSE])
		say_verbose(inventory_format(
			"test %s: %s%s", tests[i].name,
			validate->acc
				? inventory_format("%llu jobs, ",
						   (unsigned long long)jobs)
				: "",
			print_amount((uint64_t)duration, UNIT_NS)));
}

/* Each test as it ends: a later one may run long, or into the limit. */
static int tell_progress(struct request *request, struct document *document)
{
	struct part *part = &document->parts[0];
	struct style style = request->style;

	if (style.is_json || (!style.is_jsonl && part->form != FORM_TESTS))
		return 0;
	if (style.is_jsonl) {
		print_json(request->out, document, &style);
	} else {
		style.has_no_headings = true;
		print_tests(request->out, part, &style);
	}
	part->num_printed = part->records->num;
	return flush_output(request);
}

/* 0, or 1: the failure names the tests that failed. */
static int judge(const struct validate *validate, const struct records *all)
{
	struct failure what = {
		.exit = 1,
		.device = record_get_text(validate->device, FIELD_ID),
	};
	const char *names = "";
	size_t num = 0;

	for (const struct record *test = all->first; test; test = test->next) {
		if (strcmp(record_get_text(test, FIELD_TEST_STATE), "fail"))
			continue;
		names = inventory_format(
			"%s%s%s", names, num ? ", " : "",
			record_get_text(test, FIELD_TEST_NAME));
		num++;
	}
	if (!num)
		return 0;
	what.message = inventory_format("%zu of %zu tests failed: %s", num,
					all->num, names);
	return fail_with(&what);
}

static int choose_device(struct request *request)
{
	const char *standard = "auto";
	struct words ids = { .items = &standard, .num = 1 };
	int code = collect_all(request, false);

	if (code)
		return code;
	if (request->arguments.num)
		ids = request->arguments;
	else if (request->devices.num)
		ids = request->devices;
	return select_devices(request, &ids);
}

int cmd_validate(struct request *request)
{
	static const enum field_id fields[] = { FIELD_TEST_STATE,
						FIELD_TEST_NAME,
						FIELD_TEST_TEXT };
	struct document document = {
		.name = "validate",
		.parts = { { .form = FORM_TESTS,
			     .list = LIST_TESTS,
			     .records = &request->inventory.tests } },
		.num_parts = 1,
		.inventory = &request->inventory,
	};
	struct part *part = &document.parts[0];
	struct validate validate = { .folder = qbrt_get_data_dir() };
	bool chosen[NUM_TESTS];
	int code = select_fields(request, LIST_TESTS, fields, 3, part);

	if (code)
		return code < 0 ? 0 : code;
	if (request->has[OPTION_OUTPUT])
		part->form = FORM_TABLE;
	else
		select_all(request, LIST_TESTS, part);
	code = choose_tests(request, chosen);
	if (!code)
		code = read_options(request, chosen, &validate);
	if (!code)
		code = choose_device(request);
	if (code)
		return code;
	validate.device = request->inventory.devices.first;
	validate.is_software = !strcmp(
		record_get_text(validate.device, FIELD_KIND), "software");
	validate_start_accounting(&validate);
	code = open_device(&validate);
	if (code)
		return code;
	validate.free = validate_get_free(&validate);
	for (size_t i = 0; i < NUM_TESTS && !code; i++) {
		if (!chosen[i])
			continue;
		run_test(request, &validate, i);
		code = tell_progress(request, &document);
	}
	qbrt_accelerator_close(validate.acc);
	if (code)
		return code;
	code = judge(&validate, &request->inventory.tests);
	document.failure = code ? get_failure() : NULL;
	return show_document(request, &document) && !code ? 9 : code;
}
