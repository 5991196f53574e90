// SPDX-License-Identifier: MIT
/*
 * One door to the file system: every path is resolved below one folder, with
 * RESOLVE_IN_ROOT under --sysroot, and what is opened is looked at before it
 * is read, since a FIFO or a device could wait for ever.
 */
#include "source.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inventory.h"

#define SHORT_LIMIT (64u << 10)
#define LONG_LIMIT (4u << 20)

/* What was read: each file is read once. */
static struct cached {
	const char *path, *text;
	size_t length;
	int err;
	struct cached *next;
} * cache;

static struct {
	int root;
	const char *sysroot;
	source_watch watch;
} source = { .root = -1 };

void source_close(void)
{
	if (source.root >= 0)
		(void)close(source.root);
	source.root = -1;
}

const char *source_get_sysroot(void)
{
	return source.sysroot;
}

source_watch source_set_watch(source_watch watch)
{
	source_watch before = source.watch;

	source.watch = watch;
	return before;
}

void source_tell(enum source_kind kind, const char *path, const char *text,
		 size_t length)
{
	if (source.watch)
		source.watch(kind, path, text, length);
}

/*
 * Live, sandboxes that do not know openat2 must not stop us. EAGAIN: somebody
 * renamed or mounted anything while a ".." of the path was followed.
 */
static int open_below(const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT,
	};
	long fd;

	do
		fd = source.sysroot
			     ? syscall(SYS_openat2, source.root, path, &how,
				       sizeof(how))
			     : openat(source.root, path, flags | O_CLOEXEC);
	while (fd < 0 && errno == EAGAIN && source.sysroot);
	return fd < 0 ? -errno : (int)fd;
}

int source_open(const char *sysroot)
{
	int fd;

	source.sysroot = sysroot;
	source.root =
		open(sysroot ? sysroot : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source.root < 0)
		return -errno;
	/* before anything is read: does the kernel keep links inside? */
	fd = open_below(".", O_PATH);
	if (fd < 0)
		return fd;
	(void)close(fd);
	if (!sysroot)
		return 0;
	fd = open_below(SOURCE_PARTIAL, O_PATH);
	if (fd < 0)
		return 0;
	(void)close(fd);
	return -EINPROGRESS;
}

static int get_read_error(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENOTDIR:
	case -ENODEV:
	case -ENXIO:
		return -ENOENT;
	case -EACCES:
	case -EPERM:
		return -EACCES;
	default:
		return -EINVAL;
	}
}

/* -EINVAL: more than limit, or it ended in an error. */
static int read_all(int fd, char *text, size_t limit, size_t *length)
{
	*length = 0;
	for (;;) {
		ssize_t num = read(fd, text + *length, limit + 1 - *length);

		if (num < 0 && errno == EINTR)
			continue;
		if (num < 0)
			return get_read_error(-errno);
		*length += (size_t)num;
		if (*length > limit)
			return -EINVAL;
		if (!num)
			return 0;
	}
}

static char *read_new(const char *path, size_t limit, size_t *length, int *err)
{
	int fd = open_below(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat info;
	char *text;

	if (fd < 0) {
		*err = get_read_error(fd);
		return NULL;
	}
	if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
		(void)close(fd);
		*err = -EINVAL;
		return NULL;
	}
	text = malloc(limit + 2);
	*err = text ? read_all(fd, text, limit, length) : -EINVAL;
	(void)close(fd);
	if (!*err) {
		char *copy = inventory_alloc(*length + 1);

		memcpy(copy, text, *length);
		free(text);
		source_tell(SOURCE_FILE, path, copy, *length);
		return copy;
	}
	free(text);
	return NULL;
}

/* Callers may cut the text up: each has its own. */
static char *read_file(const char *path, size_t limit, size_t *length, int *err)
{
	struct cached *entry = cache;
	char *text;

	while (entry && strcmp(entry->path, path) != 0)
		entry = entry->next;
	if (!entry) {
		entry = inventory_alloc(sizeof(*entry));
		entry->path = inventory_copy(path);
		entry->text =
			read_new(path, limit, &entry->length, &entry->err);
		entry->next = cache;
		cache = entry;
	}
	*err = entry->err;
	if (!entry->text)
		return NULL;
	*length = entry->length;
	text = inventory_alloc(*length + 1);
	return memcpy(text, entry->text, *length);
}

char *source_read(const char *path, size_t *length, int *err)
{
	return read_file(path, SHORT_LIMIT, length, err);
}

char *source_read_long(const char *path, size_t *length, int *err)
{
	return read_file(path, LONG_LIMIT, length, err);
}

char *source_read_line(const char *path, int *err)
{
	size_t length;
	char *text = source_read(path, &length, err);
	char *end;

	if (!text)
		return NULL;
	text += strspn(text, " \t");
	text[strcspn(text, "\n")] = '\0';
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

static bool parse(const char *text, int base, uint64_t *number)
{
	char *end;

	if (!isxdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoull(text, &end, base);
	return !errno && end != text && !*end;
}

bool source_parse_number(const char *text, uint64_t *number)
{
	return parse(text, 10, number);
}

int source_read_number(const char *path, uint64_t *number)
{
	int err;
	char *line = source_read_line(path, &err);

	if (!line)
		return err;
	if (!strncmp(line, "0x", 2))
		return parse(line + 2, 16, number) ? 0 : -EINVAL;
	return parse(line, 10, number) ? 0 : -EINVAL;
}

/* A link may be the last part of path, those before it are followed. */
char *source_read_target(const char *path)
{
	int fd = open_below(path, O_PATH | O_NOFOLLOW);
	char target[4096];
	ssize_t length;

	if (fd < 0)
		return NULL;
	length = readlinkat(fd, "", target, sizeof(target) - 1);
	(void)close(fd);
	if (length < 0)
		return NULL;
	target[length] = '\0';
	return inventory_copy(target);
}

char *source_read_link(const char *path)
{
	char *target = source_read_target(path);
	char *last;

	if (!target)
		return NULL;
	source_tell(SOURCE_LINK, path, target, strlen(target));
	last = strrchr(target, '/');
	return last ? last + 1 : target;
}

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a;
	const char *const *y = b;

	return strverscmp(*x, *y);
}

size_t source_list(const char *path, char ***names)
{
	int fd = open_below(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	size_t num = 0, room = 0;
	const struct dirent *entry;

	*names = NULL;
	if (!folder) {
		if (fd >= 0)
			(void)close(fd);
		return 0;
	}
	source_tell(SOURCE_FOLDER, path, NULL, 0);
	while ((entry = readdir(folder))) { /* NOLINT(concurrency-mt-unsafe) */
		if (*entry->d_name == '.')
			continue;
		if (num == room) {
			char **larger;

			room = room ? 2 * room : 16;
			larger = inventory_alloc(room * sizeof(char *));
			if (num)
				memcpy(larger, *names, num * sizeof(char *));
			*names = larger;
		}
		(*names)[num++] = inventory_copy(entry->d_name);
	}
	(void)closedir(folder);
	if (num)
		qsort(*names, num, sizeof(char *), compare_names);
	return num;
}

bool source_is_denied(const char *path)
{
	int fd = open_below(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);

	if (fd >= 0)
		(void)close(fd);
	return fd < 0 && get_read_error(fd) == -EACCES;
}

bool source_stat(const char *path, struct stat *info)
{
	int fd = open_below(path, O_PATH);
	bool is_there;

	if (fd < 0)
		return false;
	is_there = !fstat(fd, info);
	(void)close(fd);
	return is_there;
}

bool source_has_marker(const char *path)
{
	struct stat info;

	if (!source_stat(path, &info))
		return false;
	source_tell(SOURCE_NODE, path, NULL, 0);
	return true;
}

bool source_has_node(const char *path)
{
	struct stat info;

	if (!source_stat(path, &info))
		return false;
	if (!source.sysroot && !S_ISCHR(info.st_mode))
		return false;
	source_tell(SOURCE_NODE, path, NULL, 0);
	return true;
}
