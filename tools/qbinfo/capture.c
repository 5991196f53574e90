// SPDX-License-Identifier: MIT
/*
 * doctor --capture: writes each file, link, folder and node that is looked at
 * to a new tree, as --sysroot reads it. What says who or where somebody is
 * goes through redact(): host name, and the control groups' paths. The
 * environment is cut to the variables of section 7, with the values of those
 * that are known and hold no path; nothing that holds
 * command lines or home folders is ever read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect.h"
#include "qbinfo.h"
#include "source.h"
#include "text-file.h"

static struct {
	int folder;
	const char *name;
	int err;           /* of the first write that failed */
	source_watch next; /* of --verbose; or NULL */
} capture = { .folder = -1 };

/* ---- writing ---- */

static void note(int err)
{
	if (err && !capture.err)
		capture.err = err;
}

/* The folders above path. */
static void make_folders(const char *path)
{
	for (const char *slash = strchr(path, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		char *folder =
			inventory_format("%.*s", (int)(slash - path), path);

		if (mkdirat(capture.folder, folder, 0755) && errno != EEXIST)
			note(errno);
	}
}

static void write_link(const char *path, const char *target)
{
	make_folders(path);
	if (symlinkat(target, capture.folder, path) && errno != EEXIST)
		note(errno);
}

/* Where a link in folder leads to, without "..". */
static const char *join(const char *folder, const char *target)
{
	char *path =
		inventory_format("%s/%s", *target == '/' ? "" : folder, target);
	const char *joined = "";
	char *word, *rest;

	for (word = strtok_r(path, "/", &rest); word;
	     word = strtok_r(NULL, "/", &rest)) {
		const char *last = strrchr(joined, '/');

		if (!strcmp(word, ".."))
			joined = inventory_format(
				"%.*s", (int)(last ? last - joined : 0),
				joined);
		else if (strcmp(word, ".") != 0)
			joined = inventory_format("%s%s%s", joined,
						  *joined ? "/" : "", word);
	}
	return joined;
}

/*
 * A folder that is reached by a link stays one: the link is written, and the
 * path behind it returned. Of sysfs alone, whose links say what a device is.
 */
static const char *follow_links(const char *path)
{
	const char *slash = strncmp(path, "sys/", 4) ? NULL : path + 3;
	int links = 0;

	for (; slash && links < 40; slash = strchr(slash + 1, '/')) {
		const char *link =
			inventory_format("%.*s", (int)(slash - path), path);
		const char *target = source_read_target(link);
		const char *last = strrchr(link, '/');

		if (!target || !last)
			continue;
		write_link(link, target);
		path = inventory_format(
			"%s%s",
			join(inventory_format("%.*s", (int)(last - link), link),
			     target),
			slash);
		/* it may lead through others */
		slash = strchr(path, '/');
		links++;
	}
	return path;
}

static void write_file(const char *path, const char *text, size_t length)
{
	int fd;

	make_folders(path);
	fd = openat(capture.folder, path,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0644);
	if (fd < 0) {
		note(errno);
		return;
	}
	while (length) {
		ssize_t num = write(fd, text, length);

		if (num < 0) {
			note(errno);
			break;
		}
		text += num;
		length -= (size_t)num;
	}
	(void)close(fd);
}

/* ---- redaction ---- */

/* "/user.slice/name.service" is "/captured/captured". */
static const char *rename_path(const char *path)
{
	const char *renamed = "";

	for (; path && path[0] && path[1]; path = strchr(path + 1, '/'))
		renamed = inventory_format("%s/captured", renamed);
	return renamed;
}

/* Paths of the groups of each hierarchy, "4:memory:/a/b", are renamed. */
static const char *redact_groups(const char *text)
{
	const char *kept = "";
	char *line, *rest;

	for (line = strtok_r(inventory_copy(text), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		/* a hierarchy without controllers has a name and no limits */
		if (strchr(list, '='))
			continue;
		kept = inventory_format("%s%s:%s\n", kept, line,
					path[1] ? rename_path(path) : "/");
	}
	return kept;
}

/* Of the groups of process 1 only what says which container it is. */
static const char *redact_container(const char *text)
{
	static const char *const words[] = { "kubepods", "docker", "libpod",
					     "lxc" };

	for (size_t i = 0; i < 4; i++) {
		if (strstr(text, words[i]))
			return inventory_format("0::/%s\n", words[i]);
	}
	return "0::/\n";
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* The lines of /proc/self/status that are asked for. */
static const char *redact_status(const char *text)
{
	static const char *const names[] = { "\nUid:", "\nGid:", "\nGroups:",
					     "\nCapEff:" };
	const char *kept = "Name:\tqbinfo";

	for (size_t i = 0; i < 4; i++) {
		const char *line = strstr(text, names[i]);

		if (line)
			kept = inventory_format(
				"%s%.*s", kept,
				(int)strcspn(line + 1, "\n") + 1, line);
	}
	return inventory_format("%s\n", kept);
}

static const char *redact(const char *path, const char *text)
{
	if (!strcmp(path, "proc/sys/kernel/hostname"))
		return "host\n";
	if (!strcmp(path, "proc/self/cgroup"))
		return redact_groups(text);
	if (!strcmp(path, "proc/1/cgroup"))
		return redact_container(text);
	if (!strcmp(path, "proc/self/status"))
		return redact_status(text);
	return NULL;
}

/* Files of control groups: all folders between the hierarchy and the file. */
static const char *rename_group(const char *path)
{
	static const char root[] = "sys/fs/cgroup";
	const char *below = path + sizeof(root) - 1;
	const char *file = strrchr(path, '/');
	size_t v1 = 0;

	if (!begins(path, root) || *below != '/' || file == below)
		return path;
	if (begins(below, "/memory/") || begins(below, "/pids/"))
		v1 = 1 + strcspn(below + 1, "/");
	return inventory_format(
		"%.*s%s%s", (int)(below - path + (ptrdiff_t)v1), path,
		rename_path(inventory_format(
			"%.*s", (int)(file - below - (ptrdiff_t)v1),
			below + v1)),
		file);
}

static void keep(enum source_kind kind, const char *path, const char *text,
		 size_t length)
{
	const char *redacted;

	/* what belongs to the loader, or to nobody who reads a capture */
	if (begins(path, "etc/"))
		return;
	/* a folder may be a link itself */
	if (kind == SOURCE_FOLDER)
		path = inventory_format("%s/", path);
	path = rename_group(follow_links(path));
	switch (kind) {
	case SOURCE_FILE:
		redacted = redact(path, text);
		if (redacted)
			write_file(path, redacted, strlen(redacted));
		else
			write_file(path, text, length);
		break;
	case SOURCE_LINK:
		write_link(path, text);
		break;
	case SOURCE_FOLDER:
		make_folders(path);
		break;
	case SOURCE_NODE:
		write_file(path, "", 0);
		break;
	}
}

static void tell(enum source_kind kind, const char *path, const char *text,
		 size_t length)
{
	if (capture.next)
		capture.next(kind, path, text, length);
	keep(kind, path, text, length);
}

/* ---- start and end ---- */

int capture_start(const char *folder)
{
	if (source_get_sysroot())
		return fail(2, "a capture is made of the live system, not "
			       "of a captured one");
	if (mkdir(folder, 0755))
		return fail(1, "%s cannot be made: %s", folder,
			    errno == EEXIST
				    ? "it exists; --capture needs a new folder"
				    : strerror(errno));
	capture.folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (capture.folder < 0)
		return fail(1, "%s cannot be opened: %s", folder,
			    strerror(errno));
	capture.name = folder;
	/* until the end it is no captured system */
	write_file(SOURCE_PARTIAL, "", 0);
	capture.next = source_set_watch(tell);
	return 0;
}

static void write_devices(const struct inventory *inventory)
{
	struct text_file file = { .text = NULL };
	FILE *out = text_file_open(&file);

	if (!out) {
		note(ENOMEM);
		return;
	}
	print_captured(out, &inventory->devices);
	text_file_flush(&file, out);
	(void)fclose(out);
	write_file("devices.json", file.text, file.length);
	free(file.text);
}

static void write_clock(const struct inventory *inventory)
{
	const char *text = inventory_format(
		"time %s\nmonotonic_ns %llu\n",
		record_get_text(inventory->tool, FIELD_TOOL_TIME),
		(unsigned long long)record_get_integer(
			inventory->tool, FIELD_TOOL_MONOTONIC, 0));

	write_file("clock", text, strlen(text));
}

/* A value may be a path or anything of a variable that nobody knows. */
static const char *redact_value(const char *name, const char *value)
{
	char *text, *to;

	if (!environment_is_known(name) || strchr(value, '/'))
		return *value ? "set" : "";
	to = text = inventory_alloc(2 * strlen(value) + 1);
	for (; *value; value++) {
		if (*value == '\n' || *value == '\\')
			*to++ = '\\';
		*to++ = *value == '\n' ? 'n' : *value;
	}
	*to = '\0';
	return text;
}

/* Those of env[], whose collector has cut them down already. */
static void write_environment(struct inventory *inventory)
{
	const char *text = "";

	collect_environment(inventory);
	for (const struct record *line = inventory->env->first; line;
	     line = line->next) {
		const char *name = record_get_text(line, FIELD_ENV_NAME);

		text = inventory_format(
			"%s%s=%s\n", text, name,
			redact_value(name,
				     record_get_text(line, FIELD_ENV_VALUE)));
	}
	write_file("env", text, strlen(text));
}

int capture_finish(struct inventory *inventory)
{
	(void)source_set_watch(capture.next);
	write_environment(inventory);
	write_devices(inventory);
	write_clock(inventory);
	if (!capture.err && unlinkat(capture.folder, SOURCE_PARTIAL, 0))
		note(errno);
	(void)close(capture.folder);
	if (capture.err)
		return fail(1, "%s cannot be written: %s", capture.name,
			    strerror(capture.err));
	return 0;
}
