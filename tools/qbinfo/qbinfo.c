// SPDX-License-Identifier: MIT
/*
 * qbinfo: main. Parses, dispatches, writes what the command printed into
 * memory, and has the one exit. Nothing that failed leaves half a document, and
 * nothing waits longer than --timeout: a timer then says so and ends it.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "qbinfo.h"
#include "source.h"
#include "text-file.h"

static struct failure failure;

int fail_with(const struct failure *what)
{
	if (!failure.exit)
		failure = *what;
	return what->exit;
}

int fail(int code, const char *format, ...)
{
	struct failure what = { .exit = code };
	va_list args;

	va_start(args, format);
	what.message = inventory_format_args(format, args);
	va_end(args);
	return fail_with(&what);
}

const struct failure *get_failure(void)
{
	return &failure;
}

/* ---- time limit ---- */

static struct {
	char *words, *document; /* made before the timer starts */
	size_t words_length, document_length;
	const atomic_uint *num_steps; /* NULL: one limit for all */
	unsigned int num_seen;
} at_timeout;

static void end_at_timeout(int signal)
{
	(void)signal;
	if (at_timeout.num_steps) {
		unsigned int num_steps = atomic_load(at_timeout.num_steps);

		if (num_steps != at_timeout.num_seen) {
			at_timeout.num_seen = num_steps;
			return;
		}
	}
	collect_end_python();
	if (write(STDERR_FILENO, at_timeout.words, at_timeout.words_length) < 0)
		_exit(6);
	if (at_timeout.document && write(STDOUT_FILENO, at_timeout.document,
					 at_timeout.document_length) < 0)
		_exit(6);
	_exit(6);
}

static struct timeval get_limit(const struct request *request)
{
	struct timeval limit = { .tv_sec = (time_t)request->timeout };

	limit.tv_usec =
		(suseconds_t)((request->timeout - (double)limit.tv_sec) * 1e6);
	if (!limit.tv_sec && !limit.tv_usec)
		limit.tv_usec = 1;
	return limit;
}

void start_timer(const struct request *request, const char *where)
{
	struct sigaction action = { .sa_handler = end_at_timeout,
				    .sa_flags = SA_RESTART };
	const char *folder = request->value[OPTION_CAPTURE];
	struct failure what = {
		.exit = 6,
		.message = inventory_format(
			"the limit of %g s (--timeout) ran "
			"out%s%s%s%s%s",
			request->timeout, *where ? " in " : "", where,
			folder ? "; what is in " : "", folder ?: "",
			folder ? " is not whole" : ""),
	};
	FILE *out;

	stop_timer();
	at_timeout.words =
		inventory_format("qbinfo: %s\n", print_safe(what.message));
	at_timeout.words_length = strlen(at_timeout.words);
	free(at_timeout.document);
	at_timeout.document = NULL;
	if (request->style.is_json || request->style.is_jsonl) {
		out = open_memstream(&at_timeout.document,
				     &at_timeout.document_length);
		if (out) {
			print_failure(out, &what);
			(void)fclose(out);
		}
	}
	(void)sigaction(SIGALRM, &action, NULL);
	restart_timer(request);
}

void restart_timer(const struct request *request)
{
	const struct itimerval timer = { .it_value = get_limit(request) };

	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* Who reads the output may take as long as he likes. */
void stop_timer(void)
{
	const struct itimerval timer = { .it_interval = { 0 } };

	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

void limit_each_step(const struct request *request,
		     const atomic_uint *num_steps)
{
	const struct itimerval timer = { .it_interval = get_limit(request),
					 .it_value = get_limit(request) };

	stop_timer();
	at_timeout.num_steps = num_steps;
	if (!num_steps)
		return;
	at_timeout.num_seen = atomic_load(num_steps);
	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- style ---- */

static void set_style(struct request *request)
{
	const char *color = request->value[OPTION_COLOR] ?: "auto";
	const char *none =
		getenv("NO_COLOR");        /* NOLINT(concurrency-mt-unsafe) */
	const char *term = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe) */
	bool is_terminal = isatty(STDOUT_FILENO);
	bool is_colorful =
		term && *term && strcmp(term, "dumb") != 0 && !(none && *none);
	struct style *style = &request->style;

	style->is_json = request->has[OPTION_JSON];
	style->is_jsonl = request->has[OPTION_JSONL];
	style->has_no_headings = request->has[OPTION_NOHEADINGS];
	style->is_plain = request->has[OPTION_BYTES];
	style->has_boxes = is_terminal;
	style->has_color =
		!strcmp(color, "always") ||
		(!strcmp(color, "auto") && is_terminal && is_colorful);
}

/* ---- --verbose ---- */

static void tell_read(enum source_kind kind, const char *path, const char *text,
		      size_t length)
{
	const char *full = print_safe(
		inventory_format("%s/%s", source_get_sysroot() ?: "", path));

	(void)text;
	if (kind == SOURCE_FILE)
		(void)fprintf(stderr, "qbinfo: read %s: %zu bytes\n", full,
			      length);
	else if (kind == SOURCE_NODE)
		(void)fprintf(stderr, "qbinfo: found %s\n", full);
}

void say_verbose(const char *words)
{
	(void)fprintf(stderr, "qbinfo: %s\n", print_safe(words));
}

double get_seconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- main ---- */

static int run(struct request *request)
{
	static int (*const functions[NUM_COMMANDS])(struct request *) = {
		[COMMAND_LIST] = cmd_list,
		[COMMAND_SHOW] = cmd_show,
		[COMMAND_MODEL] = cmd_model,
		[COMMAND_VERSION] = cmd_version,
		[COMMAND_SUMMARY] = cmd_summary,
		[COMMAND_SCHEMA] = cmd_schema,
		[COMMAND_DOCTOR] = cmd_doctor,
		[COMMAND_CAPS] = cmd_caps,
		[COMMAND_VALIDATE] = cmd_validate,
		[COMMAND_STAT] = cmd_stat,
		[COMMAND_BENCH] = cmd_bench,
	};
	int err;

	if (request->has[OPTION_HELP]) {
		options_print_help(request->out, request);
		return 0;
	}
	if (request->has[OPTION_VERSION_OPTION]) {
		(void)fprintf(request->out, "qbinfo %s\n", PACKAGE_VERSION);
		return 0;
	}
	err = source_open(request->value[OPTION_SYSROOT]);
	if (err == -EINPROGRESS)
		return fail(8,
			    "%s is not whole: the capture did not come to its "
			    "end; capture anew",
			    request->value[OPTION_SYSROOT]);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM ||
	    (err && !request->has[OPTION_SYSROOT]))
		return fail(1, "%s cannot be opened: %s",
			    request->value[OPTION_SYSROOT] ?: "/",
			    strerror(-err));
	if (err)
		return fail(8, "%s cannot be read as a captured system: %s",
			    request->value[OPTION_SYSROOT], strerror(-err));
	if (request->has[OPTION_VERBOSE])
		(void)source_set_watch(tell_read);
	if (request->has[OPTION_QUIET])
		(void)!qbrt_set_log_level(QBRT_LOG_LEVEL_OFF);
	set_style(request);
	start_timer(request, "");
	return functions[request->command](request);
}

int write_now(const char *text, size_t length)
{
	while (length) {
		ssize_t num = write(STDOUT_FILENO, text, length);

		if (num < 0 && errno == EINTR)
			continue;
		if (num < 0)
			return fail(1, "standard output cannot be written: %s",
				    strerror(errno));
		text += num;
		length -= (size_t)num;
	}
	return 0;
}

/* What the command printed, all of it, and what of it is written. */
static struct text_file output;
static size_t num_written;

int flush_output(struct request *request)
{
	size_t begin = num_written;

	text_file_flush(&output, request->out);
	num_written = output.length;
	return write_now(output.text + begin, output.length - begin);
}

static void say_failure(bool is_json, bool is_empty, FILE *out)
{
	if (is_json && is_empty)
		print_failure(out, &failure);
	(void)fprintf(stderr, "qbinfo: %s%s%s\n", print_safe(failure.message),
		      failure.fix ? "; " : "",
		      failure.fix ? print_safe(failure.fix) : "");
}

int main(int argc, char **argv)
{
	struct request *request = calloc(1, sizeof(*request));
	double start = get_seconds();
	bool is_json = options_ask_for_json(argc, argv);
	int code, told, written;

	/* bytes of names and tables do not depend on the user's locale */
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		(void)setlocale(LC_CTYPE, "");
	if (!request)
		return 1;
	request->out = text_file_open(&output);
	if (!request->out)
		return 1;
	inventory_start(&request->inventory);
	code = options_parse(request, argc, argv);
	if (!code)
		code = run(request);
	stop_timer();
	text_file_flush(&output, request->out);
	told = failure.exit;
	if (told)
		say_failure(is_json, !output.length, request->out);
	failure.exit = 0;
	written = flush_output(request);
	(void)fclose(request->out);
	/* the exit is 1 then, whatever was told before */
	if (written && told != 1)
		say_failure(false, false, NULL);
	if (request->has[OPTION_VERBOSE])
		(void)fprintf(stderr, "qbinfo: took %.3f s\n",
			      get_seconds() - start);
	free(output.text);
	free(at_timeout.document);
	source_close();
	inventory_free();
	free(request);
	return written ? written : code;
}
