// SPDX-License-Identifier: MIT
/*
 * Limits, control group, environment: what bounds or steers this process. Only
 * /proc, sysfs and the environment are read, under --sysroot their captures.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect.h"
#include "source.h"

extern char **environ;

/* ---- environment ---- */

static const struct {
	const char *name, *effect;
} variables[] = {
	{ "QBRUNTIME_VISIBLE_DEVICES", NULL },
	{ "MACCEL_VISIBLE_DEVICES", NULL },
	{ "MBLT_DEVICES", NULL },
	{ "MBLT_VISIBLE_DEVICES",
	  "none: no part of the runtime reads it; QBRUNTIME_VISIBLE_DEVICES "
	  "is read" },
	{ "QBRUNTIME_SOFT_DEVICES", "which software devices there are" },
	{ "QBRUNTIME_SOFT_MEMORY", "memory of each software device" },
	{ "QBRUNTIME_SOFT_BACKEND", "kernels of software devices" },
	{ "QBRUNTIME_SOFT_FAULT", "faults that software devices are to have" },
	{ "QBRUNTIME_SOFT_POISON", "software devices poison memory first" },
	{ "QBRUNTIME_NPU_TIMEOUT_MS", "how long an inference may take" },
	{ "QBRUNTIME_SIMD_LEVEL", "instructions of host-side conversions" },
	{ "QBRUNTIME_LOG_LEVEL", "which log lines are written" },
	{ "MACCEL_LOG_LEVEL",
	  "which log lines are written, unless QBRUNTIME_LOG_LEVEL is set" },
	{ "NO_COLOR", "no colour, unless --color=always" },
};

static const char *const visibility[] = {
	"QBRUNTIME_VISIBLE_DEVICES",
	"MACCEL_VISIBLE_DEVICES",
	"MBLT_DEVICES",
};

/* What capture.c escaped. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && (text[1] == '\\' || text[1] == 'n'))
			*to++ = *++text == 'n' ? '\n' : '\\';
		else
			*to++ = *text;
	}
	*to = '\0';
}

/* The lines of the environment, NULL at the end: live, or DIR/env. */
static char **get_lines(void)
{
	static char **lines;
	size_t length, num = 0;
	char *text, *next;
	int err;

	if (!source_get_sysroot())
		return environ;
	if (lines)
		return lines;
	text = source_read("env", &length, &err);
	if (!text)
		text = inventory_copy("");
	lines = inventory_alloc((strlen(text) + 2) * sizeof(char *));
	for (; *text; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = '\0';
		else
			next = text + strlen(text);
		if (!strchr(text, '='))
			continue;
		unescape(text);
		lines[num++] = text;
	}
	return lines;
}

const char *environment_get(const char *name)
{
	size_t length = strlen(name);

	for (char **line = get_lines(); *line; line++) {
		if (!strncmp(*line, name, length) && (*line)[length] == '=')
			return *line + length + 1;
	}
	return NULL;
}

const char *environment_get_deciding(void)
{
	for (size_t i = 0; i < sizeof(visibility) / sizeof(*visibility); i++) {
		if (environment_get(visibility[i]))
			return visibility[i];
	}
	return NULL;
}

static const char *get_effect(const struct inventory *inventory,
			      const char *name, const char *known)
{
	const char *deciding = environment_get_deciding();
	char *hidden;

	if (known)
		return known;
	for (size_t i = 0; i < sizeof(visibility) / sizeof(*visibility); i++) {
		if (strcmp(visibility[i], name) != 0)
			continue;
		if (strcmp(deciding, name) != 0)
			return inventory_format("none: %s decides", deciding);
		hidden = collect_hidden(inventory);
		return hidden ? inventory_format("decides, hides %s", hidden)
			      : "decides what is visible";
	}
	return "none: no part of the runtime reads it";
}

static bool is_of_interest(const char *line)
{
	return !strncmp(line, "QBRUNTIME_", 10) || !strncmp(line, "MBLT_", 5) ||
	       !strncmp(line, "MACCEL_", 7) || !strncmp(line, "NO_COLOR=", 9);
}

static int compare_env(const struct record *a, const struct record *b)
{
	return strcmp(record_get_text(a, FIELD_ENV_NAME),
		      record_get_text(b, FIELD_ENV_NAME));
}

static const char *find_known(const char *name)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		if (!strcmp(variables[i].name, name))
			return variables[i].effect;
	}
	return NULL;
}

bool environment_is_known(const char *name)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		if (!strcmp(variables[i].name, name))
			return true;
	}
	return false;
}

/* Effects come last: collect_hidden() changes the environment for a moment. */
void collect_environment(struct inventory *inventory)
{
	struct records *env = records_alloc(LIST_ENV);
	struct record *record;

	for (char **line = get_lines(); *line; line++) {
		const char *equals = strchr(*line, '=');

		if (!equals || !is_of_interest(*line))
			continue;
		record = records_add(env);
		set_text(
			record, FIELD_ENV_NAME,
			inventory_format("%.*s", (int)(equals - *line), *line));
		set_text(record, FIELD_ENV_VALUE, equals + 1);
	}
	records_sort(env, compare_env);
	for (record = env->first; record; record = record->next) {
		const char *name = record_get_text(record, FIELD_ENV_NAME);

		set_text(record, FIELD_ENV_EFFECT,
			 get_effect(inventory, name, find_known(name)));
	}
	inventory->env = env;
	for (struct record *device = inventory->devices.first; device;
	     device = device->next)
		set_records(device, FIELD_ENVIRONMENT, env);
}

/* ---- limits ---- */

/* The soft limit of a line of /proc/self/limits; NULL: unlimited or no line. */
static const char *find_limit(const char *text, const char *name)
{
	const char *line = text ? strstr(text, name) : NULL;

	if (!line)
		return NULL;
	line += strlen(name);
	return line + strspn(line, " ");
}

static enum limit read_limit(const char *name, uint64_t *limit)
{
	size_t length;
	int err;
	const char *text = source_read("proc/self/limits", &length, &err);
	const char *word = find_limit(text, name);

	if (!word)
		return LIMIT_UNKNOWN;
	word = inventory_format("%.*s", (int)strcspn(word, " \n"), word);
	if (!strcmp(word, "unlimited"))
		return LIMIT_NONE;
	return source_parse_number(word, limit) ? LIMIT_SET : LIMIT_UNKNOWN;
}

enum limit limit_get_memlock(uint64_t *bytes)
{
	return read_limit("Max locked memory", bytes);
}

/* Bit 14 of the effective set: CAP_IPC_LOCK. */
bool limit_has_ipc_lock(void)
{
	size_t length;
	int err;
	const char *text = source_read("proc/self/status", &length, &err);
	const char *line = find_limit(text, "CapEff:");

	if (!line)
		return false;
	line += strspn(line, "\t");
	return strtoull(line, NULL, 16) >> 14 & 1;
}

static void set_cgroup_memory(struct record *device)
{
	enum field_id field = FIELD_CGROUP_MEMORY;
	struct cgroup_limit memory;

	cgroup_read("memory", &memory);
	if (memory.state == LIMIT_SET)
		set_integer(device, field, memory.lowest);
	else if (memory.state == LIMIT_NONE)
		set_absent(device, field, REASON_ABSENT, NULL);
	else
		set_absent(device, field,
			   memory.err == -EACCES ? REASON_NO_PERMISSION
						 : REASON_INVALID,
			   memory.unread);
}

/*
 * Of what the driver gives and these limits leave, the smallest. An equal one is
 * where the driver has it from; a software device has it from the machine.
 */
static void set_pinned_limit(struct record *device)
{
	uint64_t bytes =
		record_get_integer(device, FIELD_PINNED_LIMIT, UINT64_MAX);
	uint64_t memlock =
		limit_has_ipc_lock()
			? UINT64_MAX
			: record_get_integer(device, FIELD_MEMLOCK, UINT64_MAX);
	uint64_t cgroup =
		record_get_integer(device, FIELD_CGROUP_MEMORY, UINT64_MAX);
	const char *kind = record_get_text(device, FIELD_KIND);
	bool is_software = kind && !strcmp(kind, "software");
	const char *from = is_software ? "memory" : "driver";

	if (bytes == UINT64_MAX)
		return;
	if (cgroup <= bytes) {
		bytes = cgroup;
		from = "cgroup";
	}
	if (memlock <= bytes) {
		bytes = memlock;
		from = "memlock";
	}
	set_integer(device, FIELD_PINNED_LIMIT, bytes);
	set_text(device, FIELD_PINNED_FROM, from);
}

static void set_limit(struct record *device, enum field_id field,
		      const char *name)
{
	uint64_t limit;
	enum limit state = read_limit(name, &limit);

	if (state == LIMIT_SET)
		set_integer(device, field, limit);
	else
		set_absent(device, field,
			   state == LIMIT_NONE ? REASON_ABSENT : REASON_INVALID,
			   "proc/self/limits");
}

void collect_limits(struct inventory *inventory)
{
	for (struct record *device = inventory->devices.first; device;
	     device = device->next) {
		set_limit(device, FIELD_MEMLOCK, "Max locked memory");
		set_limit(device, FIELD_OPEN_FILES, "Max open files");
		set_cgroup_memory(device);
		/* its limits are per region, of regions that no call names */
		if (!cgroup_has_dmem())
			set_absent(device, FIELD_CGROUP_DMEM, REASON_ABSENT,
				   NULL);
		set_pinned_limit(device);
	}
}
