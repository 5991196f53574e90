/* SPDX-License-Identifier: MIT */
/*
 * The files that collectors read: below / or, with --sysroot, below a folder
 * that no link leaves. Paths have no leading slash. Only regular files of at
 * most 64 KiB are read (4 MiB for what captures add), so that nothing waits.
 * A watch sees all that is looked at: --verbose, and doctor --capture.
 */
#ifndef QBINFO_SOURCE_H
#define QBINFO_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Told of each: a file with its text, a link with its target, a folder or a
 * node with NULL. */
enum source_kind {
	SOURCE_FILE,
	SOURCE_LINK,
	SOURCE_FOLDER,
	SOURCE_NODE
};
typedef void (*source_watch)(enum source_kind kind, const char *path,
			     const char *text, size_t length);

/* In a capture that did not come to its end. */
#define SOURCE_PARTIAL "partial"

/* sysroot NULL: the live system. 0, -EINPROGRESS: not whole, or -errno. */
int source_open(const char *sysroot);
void source_close(void);
/* The folder as given, NULL when live. */
const char *source_get_sysroot(void);
/* Returns the one before, NULL: none. */
source_watch source_set_watch(source_watch watch);
/* Tells the watch of what did not come from a file. */
void source_tell(enum source_kind kind, const char *path, const char *text,
		 size_t length);

/*
 * The text, ended by a NUL; NULL, with err -ENOENT: not there, -EACCES: not to
 * be read, -EINVAL: no regular file, too long, or broken.
 */
char *source_read(const char *path, size_t *length, int *err);
/* Up to 4 MiB. */
char *source_read_long(const char *path, size_t *length, int *err);
/* The first line, without blanks around it; "" of an empty file. */
char *source_read_line(const char *path, int *err);
/* "0x8086" or decimal. 0, -EINVAL: no number below 2^64, or as source_read. */
int source_read_number(const char *path, uint64_t *number);
/* Decimal digits, "12", "012" which is 12: all of text, below 2^64. */
bool source_parse_number(const char *text, uint64_t *number);
/* All of what a link points to, told to no watch; NULL: no link. */
char *source_read_target(const char *path);
/* The last part of it. */
char *source_read_link(const char *path);
/* Names in a folder in the order of versionsort; none if there is none. */
size_t source_list(const char *path, char ***names);
/* Whether a folder is there and may not be read. */
bool source_is_denied(const char *path);
bool source_stat(const char *path, struct stat *info);
/* Whether a marker is there: an empty file in a capture. */
bool source_has_marker(const char *path);
/* A device node; under --sysroot any file there stands for one. */
bool source_has_node(const char *path);

#endif
