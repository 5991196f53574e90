// SPDX-License-Identifier: MIT
/*
 * Limits of control groups. A limit of any group above binds as well, so all
 * are read up to the root. Inside a container the path of /proc/self/cgroup may
 * be the host's, of which only the root is mounted: what is not there on the
 * way up is passed over. Version 1 has a hierarchy for each controller.
 */
#include <errno.h>
#include <string.h>

#include "collect.h"
#include "source.h"

/* Version 1 writes "no limit" as the largest number of pages. */
#define NO_LIMIT (1ull << 62)

static const struct names {
	const char *controller, *max, *current, *max_v1, *current_v1;
} names[] = {
	{ "memory", "memory.max", "memory.current", "memory.limit_in_bytes",
	  "memory.usage_in_bytes" },
	{ "pids", "pids.max", "pids.current", "pids.max", "pids.current" },
};

struct group {
	const char *root; /* where its hierarchy is mounted */
	char *path;       /* below that, "" or "/a/b" */
	bool is_v1;
};

static bool has_word(char *list, const char *word)
{
	char *item, *rest;

	for (item = strtok_r(list, ",", &rest); item;
	     item = strtok_r(NULL, ",", &rest)) {
		if (!strcmp(item, word))
			return true;
	}
	return false;
}

/*
 * Lines "number:controllers:path", version 2 without controllers. LIMIT_NONE:
 * no hierarchy has the controller.
 */
static enum limit find_group(const char *controller, struct group *group)
{
	size_t length;
	int err;
	char *text = source_read("proc/self/cgroup", &length, &err);
	enum limit found = text ? LIMIT_NONE : LIMIT_UNKNOWN;
	char *line, *rest;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		/* what is above the root of our view cannot be named */
		if (*path != '/' || !path[1] || strstr(path, "/.."))
			path = inventory_copy("");
		if (list[1] && !has_word(inventory_copy(list + 1), controller))
			continue;
		if (found == LIMIT_SET && !list[1])
			continue;
		found = LIMIT_SET;
		group->is_v1 = list[1];
		group->path = path;
		group->root = inventory_format("sys/fs/cgroup%s%s",
					       list[1] ? "/" : "", list + 1);
	}
	return found;
}

static void set_unread(struct cgroup_limit *limit, const char *file, int err)
{
	limit->state = LIMIT_UNKNOWN;
	limit->unread = file;
	limit->err = err;
}

/* false: its limit cannot be told, and so not that of all. */
static bool add_group(struct cgroup_limit *limit, const char *folder,
		      const char *max, const char *current)
{
	const char *file = inventory_format("%s/%s", folder, max);
	int err;
	const char *line = source_read_line(file, &err);
	uint64_t number, used;

	if (!line && err == -ENOENT)
		return true;
	if (line && !strcmp(line, "max")) {
		limit->state =
			limit->state == LIMIT_SET ? LIMIT_SET : LIMIT_NONE;
		return true;
	}
	if (!line || !source_parse_number(line, &number)) {
		set_unread(limit, file, line ? 0 : err);
		return false;
	}
	if (number >= NO_LIMIT) {
		limit->state =
			limit->state == LIMIT_SET ? LIMIT_SET : LIMIT_NONE;
		return true;
	}
	current = inventory_format("%s/%s", folder, current);
	line = source_read_line(current, &err);
	if (!line || !source_parse_number(line, &used)) {
		limit->unread = current;
		limit->err = line ? 0 : err;
		used = 0;
	}
	if (used > number)
		used = number;
	if (limit->state != LIMIT_SET ||
	    number - used < limit->limit - limit->used) {
		limit->limit = number;
		limit->used = used;
		limit->file = file;
	}
	if (limit->state != LIMIT_SET || number < limit->lowest)
		limit->lowest = number;
	limit->state = LIMIT_SET;
	return true;
}

void cgroup_read(const char *controller, struct cgroup_limit *limit)
{
	const struct names *name =
		!strcmp(controller, "memory") ? names : names + 1;
	struct group group;
	int err;

	memset(limit, 0, sizeof(*limit));
	limit->state = find_group(controller, &group);
	if (limit->state == LIMIT_UNKNOWN)
		set_unread(limit, "proc/self/cgroup", -ENOENT);
	if (limit->state != LIMIT_SET)
		return;
	limit->state = LIMIT_UNKNOWN;
	for (;;) {
		char *slash = strrchr(group.path, '/');

		if (!add_group(limit,
			       inventory_format("%s%s", group.root, group.path),
			       group.is_v1 ? name->max_v1 : name->max,
			       group.is_v1 ? name->current_v1 : name->current))
			return;
		if (!slash)
			break;
		*slash = '\0';
	}
	if (limit->state != LIMIT_UNKNOWN)
		return;
	/* no group has such a file: it has none, or nothing is mounted */
	if (source_read_line(inventory_format("%s/%s", group.root,
					      group.is_v1
						      ? "cgroup.clone_children"
						      : "cgroup.controllers"),
			     &err))
		limit->state = LIMIT_NONE;
	else
		set_unread(limit, group.root, -ENOENT);
}

bool cgroup_has_dmem(void)
{
	struct group group;
	int err;

	if (find_group("dmem", &group) != LIMIT_SET)
		return false;
	return source_read_line(inventory_format("%s%s/dmem.max", group.root,
						 group.path),
				&err) ||
	       source_read_line(inventory_format("%s/dmem.max", group.root),
				&err);
}
