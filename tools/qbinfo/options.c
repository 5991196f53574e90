// SPDX-License-Identifier: MIT
/*
 * The command line, from options.def alone: options stand before or after the
 * command, are never abbreviated, and are refused where the command would not
 * honour them.
 */
#include <stdlib.h>
#include <string.h>

#include "qbinfo.h"
#include "source.h"

static const struct {
	char letter;
	const char *name, *arguments, *list, *help, *example;
} commands[NUM_COMMANDS] = {
#define COMMAND(id, letter_, name_, arguments_, list_, help_, example_) \
	[COMMAND_##id] = { \
		.letter = (letter_), \
		.name = (name_), \
		.arguments = (arguments_), \
		.list = #list_, \
		.help = (help_), \
		.example = (example_), \
	},
#include "options.def"
};

static const struct option_line {
	char letter;
	const char *name, *argument, *commands, *help;
} options[NUM_OPTIONS] = {
#define OPTION(id, letter_, name_, argument_, commands_, help_) \
	[OPTION_##id] = { \
		.letter = (letter_), \
		.name = (name_), \
		.argument = (argument_), \
		.commands = (commands_), \
		.help = (help_), \
	},
#include "options.def"
};

const char *options_get_name(enum command command)
{
	return commands[command].name;
}

const char *options_get_word(enum option option)
{
	return options[option].name;
}

const char *options_get_list(enum command command)
{
	return commands[command].list;
}

/* ---- nearest names ---- */

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* How many letters differ (Levenshtein); a long word is near none. */
static size_t get_distance(const char *a, const char *b)
{
	size_t row[64];
	size_t length = strlen(b);

	if (length >= 64 || strlen(a) >= 64)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1,
				      diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}

/* The beginning of a word is near it, too: abbreviations get an answer. */
const char *get_nearest(const char *word, const char *const *words, size_t num)
{
	const char *nearest = NULL;
	size_t best = strlen(word) / 2 + 1;

	for (size_t i = 0; i < num; i++) {
		size_t distance =
			*word && !strncmp(words[i], word, strlen(word))
				? 0
				: get_distance(word, words[i]);

		if (distance < best) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

static int fail_unknown(const char *kind, const char *dashes, const char *word,
			const char *const *words, size_t num)
{
	const char *nearest = get_nearest(word, words, num);

	if (nearest)
		return fail(2, "there is no %s %s%s; the nearest is %s%s", kind,
			    dashes, word, dashes, nearest);
	return fail(2, "there is no %s %s%s; qbinfo --help lists them", kind,
		    dashes, word);
}

/* ---- parsing ---- */

static void add_word(struct words *words, const char *word)
{
	const char **larger =
		inventory_alloc((words->num + 1) * sizeof(*larger));

	if (words->num)
		memcpy(larger, words->items, words->num * sizeof(*larger));
	larger[words->num++] = word;
	words->items = larger;
}

static void take(struct request *request, enum option option,
		 const char *argument)
{
	request->has[option] = true;
	request->value[option] = argument;
	if (option == OPTION_DEVICE)
		add_word(&request->devices, argument);
	if (option == OPTION_TOPIC)
		add_word(&request->topics, argument);
	if (option == OPTION_TEST)
		add_word(&request->tests, argument);
	if (option == OPTION_SET)
		add_word(&request->sets, argument);
	if (option == OPTION_PLACEMENT)
		add_word(&request->placements, argument);
}

/* Behind the dashes: a name, or name=value. next: the word after it, or NULL. */
static int parse_long(struct request *request, const char *word,
		      const char *next, int *used)
{
	const char *names[NUM_OPTIONS];
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);

	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		const char *argument = equals ? equals + 1 : next;

		names[i] = options[i].name;
		if (strlen(options[i].name) != length ||
		    strncmp(options[i].name, word, length) != 0)
			continue;
		if (!options[i].argument && equals)
			return fail(2, "--%s takes no argument",
				    options[i].name);
		if (options[i].argument && (!argument || !*argument))
			return fail(2, "--%s needs an argument: %s",
				    options[i].name, options[i].argument);
		take(request, (enum option)i,
		     options[i].argument ? argument : NULL);
		*used = options[i].argument && !equals;
		return 0;
	}
	return fail_unknown("option", "--",
			    inventory_format("%.*s", (int)length, word), names,
			    NUM_OPTIONS);
}

/* "-n", "-nb", "-oid", "-o id". */
static int parse_short(struct request *request, const char *word,
		       const char *next, int *used)
{
	for (; *word; word++) {
		size_t i = 0;

		while (i < NUM_OPTIONS && options[i].letter != *word)
			i++;
		if (i == NUM_OPTIONS)
			return fail(2,
				    "there is no option -%c; qbinfo --help "
				    "lists them",
				    *word >= ' ' && *word < 127 ? *word : '?');
		if (!options[i].argument) {
			take(request, (enum option)i, NULL);
			continue;
		}
		*used = !word[1];
		if (!word[1] && (!next || !*next))
			return fail(2, "-%c needs an argument: %s", *word,
				    options[i].argument);
		take(request, (enum option)i, word[1] ? word + 1 : next);
		return 0;
	}
	return 0;
}

static bool is_json_option(size_t option)
{
	return option == OPTION_JSON || option == OPTION_JSONL;
}

/* As parse_long. skips: whether the next word is an argument. */
static bool is_json_long(const char *word, bool *skips)
{
	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		if (strcmp(options[i].name, word) != 0)
			continue;
		*skips = options[i].argument != NULL;
		return is_json_option(i);
	}
	return false;
}

/* As parse_short. */
static bool is_json_short(const char *word, bool *skips)
{
	for (; *word; word++) {
		size_t i = 0;

		while (i < NUM_OPTIONS && options[i].letter != *word)
			i++;
		if (i == NUM_OPTIONS)
			continue;
		if (is_json_option(i))
			return true;
		if (options[i].argument) {
			*skips = !word[1];
			return false;
		}
	}
	return false;
}

bool options_ask_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		bool skips = false;

		if (argv[i][0] != '-')
			continue;
		if (argv[i][1] == '-' ? is_json_long(argv[i] + 2, &skips)
				      : is_json_short(argv[i] + 1, &skips))
			return true;
		i += skips;
	}
	return false;
}

static int take_command(struct request *request, const char *word)
{
	const char *names[NUM_COMMANDS];

	for (size_t i = 0; i < NUM_COMMANDS; i++) {
		names[i] = commands[i].name;
		if (!strcmp(commands[i].name, word)) {
			request->command = (enum command)i;
			return 0;
		}
	}
	return fail_unknown("command", "", word, names, NUM_COMMANDS);
}

static int parse_words(struct request *request, int argc, char **argv)
{
	bool has_command = false, is_ended = false;

	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		int used = 0, code = 0;

		if (!is_ended && !strcmp(argv[i], "--"))
			is_ended = true;
		else if (!is_ended && !strncmp(argv[i], "--", 2))
			code = parse_long(request, argv[i] + 2, next, &used);
		else if (!is_ended && argv[i][0] == '-' && argv[i][1])
			code = parse_short(request, argv[i] + 1, next, &used);
		else if (!*argv[i])
			return fail(2, "an argument is empty; qbinfo --help "
				       "lists what can be asked for");
		else if (!has_command) {
			code = take_command(request, argv[i]);
			has_command = true;
		} else
			add_word(&request->arguments, argv[i]);
		if (code)
			return code;
		i += used;
	}
	return 0;
}

static int check_arguments(const struct request *request)
{
	const char *arguments = commands[request->command].arguments;
	const char *name = commands[request->command].name;
	size_t num = request->arguments.num;

	if (!*arguments && num)
		return fail(2, "%s takes no argument, but %s was given", name,
			    request->arguments.items[0]);
	if (*arguments != '\0' && *arguments != '[' && !num)
		return fail(2, "%s needs an argument: qbinfo %s %s", name, name,
			    arguments);
	if (!strchr(arguments, '.') && num > 1)
		return fail(2, "%s takes one argument, but %s was given, too",
			    name, request->arguments.items[1]);
	if (request->devices.num && num)
		return fail(2,
			    "devices are chosen by -d or by arguments, not by "
			    "both");
	if (request->devices.num > 1 && !strchr(arguments, '.') && *arguments)
		return fail(2, "%s is about one device, but %s was given, too",
			    name, request->devices.items[1]);
	return 0;
}

/* Decimal seconds from least (but not 0) to a day; what is not given is as it
 * was. */
static int read_seconds(const struct request *request, enum option option,
			double least, double *seconds)
{
	const char *text = request->value[option];
	char *end;

	if (!text)
		return 0;
	*seconds = strtod(text, &end);
	if (!*text || *end || text[strspn(text, "0123456789.")] ||
	    !(*seconds > 0) || *seconds < least || *seconds > 86400)
		return fail(
			2, "--%s takes seconds from %s to 86400, but got %s",
			options[option].name,
			least > 0 ? inventory_format("%g", least) : "above 0",
			text);
	return 0;
}

/* From 1 to most; what is not given is as it was. */
static int read_number(const struct request *request, enum option option,
		       uint64_t most, uint64_t *number)
{
	const char *text = request->value[option];

	if (!text ||
	    (!text[strspn(text, "0123456789")] &&
	     source_parse_number(text, number) && *number && *number <= most))
		return 0;
	return fail(2, "--%s takes a number from 1 to %llu, but got %s",
		    options[option].name, (unsigned long long)most, text);
}

static int check_values(struct request *request)
{
	const char *color = request->value[OPTION_COLOR];
	const char *major = request->value[OPTION_SCHEMA_MAJOR];
	double interval = 1;
	int code;

	if (color && strcmp(color, "auto") != 0 &&
	    strcmp(color, "always") != 0 && strcmp(color, "never") != 0)
		return fail(2, "--%s takes auto, always or never, but got %s",
			    options[OPTION_COLOR].name, color);
	if (major && strcmp(major, "1") != 0)
		return fail(2,
			    "--%s takes a major version that this build knows, "
			    "which is 1, but got %s",
			    options[OPTION_SCHEMA_MAJOR].name, major);
	request->timeout = 5;
	request->seconds = 20;
	code = read_seconds(request, OPTION_TIMEOUT, 0, &request->timeout);
	code = code
		       ?: read_seconds(request, OPTION_SECONDS, 0,
				       &request->seconds);
	code = code ?: read_seconds(request, OPTION_INTERVAL, 0.1, &interval);
	request->interval = (int64_t)(interval * 1e9 + 0.5);
	code = code
		       ?: read_number(request, OPTION_SEED, UINT64_MAX,
				      &request->seed);
	return code
		       ?: read_number(request, OPTION_COUNT, UINT32_MAX,
				      &request->count);
}

/* Help and version are text, and one of them at a time. */
static int check_text(const struct request *request)
{
	if (request->has[OPTION_JSON] || request->has[OPTION_JSONL])
		return fail(2, "--%s prints text: it does not go with --%s",
			    request->has[OPTION_HELP]
				    ? options[OPTION_HELP].name
				    : options[OPTION_VERSION_OPTION].name,
			    request->has[OPTION_JSON]
				    ? options[OPTION_JSON].name
				    : options[OPTION_JSONL].name);
	if (request->has[OPTION_HELP] && request->has[OPTION_VERSION_OPTION])
		return fail(2, "--%s and --%s exclude one another",
			    options[OPTION_HELP].name,
			    options[OPTION_VERSION_OPTION].name);
	return 0;
}

int options_parse(struct request *request, int argc, char **argv)
{
	int code;

	request->argv = argv;
	request->command = COMMAND_SUMMARY;
	code = parse_words(request, argc, argv);
	request->style.command = commands[request->command].letter;
	if (code)
		return code;
	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		if (request->has[i] &&
		    !strchr(options[i].commands, request->style.command))
			return fail(2, "%s does not take --%s",
				    commands[request->command].name,
				    options[i].name);
	}
	if (request->has[OPTION_JSON] && request->has[OPTION_JSONL])
		return fail(2, "--%s and --%s exclude one another",
			    options[OPTION_JSON].name,
			    options[OPTION_JSONL].name);
	if (request->has[OPTION_HELP] || request->has[OPTION_VERSION_OPTION])
		return check_text(request);
	code = check_arguments(request);
	return code ? code : check_values(request);
}

/* ---- help ---- */

static void print_option(FILE *out, const struct option_line *option)
{
	char left[40];

	(void)snprintf(left, sizeof(left), "%c%c%s --%s%s%s",
		       option->letter ? '-' : ' ',
		       option->letter ? option->letter : ' ',
		       option->letter ? "," : " ", option->name,
		       option->argument ? " " : "", option->argument ?: "");
	(void)fprintf(out, "  %-24s %s\n", left, option->help);
}

static bool has_command_word(const struct request *request)
{
	return request->command != COMMAND_SUMMARY;
}

void options_print_help(FILE *out, const struct request *request)
{
	enum command command = request->command;

	if (has_command_word(request)) {
		(void)fprintf(out, "Usage: qbinfo %s [OPTION]...%s%s\n\n%s\n",
			      commands[command].name,
			      *commands[command].arguments ? " " : "",
			      commands[command].arguments,
			      commands[command].help);
	} else {
		(void)fputs("Usage: qbinfo [OPTION]... [COMMAND] [OPTION]... "
			    "[ARGUMENT]...\n\nShows NPUs, their state, and "
			    "why they do not work.\n\nCommands:\n",
			    out);
		for (size_t i = 0; i < NUM_COMMANDS; i++)
			(void)fprintf(out, "  %-10s %s\n", commands[i].name,
				      commands[i].help);
	}
	(void)fputs("\nOptions:\n", out);
	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		if (!has_command_word(request) ||
		    strchr(options[i].commands, request->style.command))
			print_option(out, &options[i]);
	}
	(void)fprintf(out, "\nExample: %s\n", commands[command].example);
	if (!has_command_word(request))
		print_exit_codes(out);
}
