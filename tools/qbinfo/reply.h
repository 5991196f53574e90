/* SPDX-License-Identifier: MIT */
/*
 * Recorded replies and devices.json as JSON, which is untrusted: every member
 * is absent, invalid or a value, and nobody reads one another way.
 */
#ifndef QBINFO_REPLY_H
#define QBINFO_REPLY_H

#include "inventory.h"

struct json_object;

/* null is absent, too: a capture has it for what was not known. */
enum member {
	MEMBER_ABSENT,
	MEMBER_INVALID,
	MEMBER_VALUE
};

/* Reads a file; NULL: none (err is -ENOENT), or broken. */
struct json_object *reply_read(const char *path, int *err);
/* The reply of a node, "/dev/accel/accel0": an object, or NULL. */
struct json_object *reply_read_node(const char *node, int *err);
struct json_object *reply_get(struct json_object *object, const char *name);

/* An integer from 0 to max; *count is 0 unless it is one. */
enum member reply_find_count(struct json_object *object, const char *name,
			     uint64_t max, uint64_t *count);
/* Any integer below 2^63; *number is 0 unless it is one. */
enum member reply_find_number(struct json_object *object, const char *name,
			      int64_t *number);
/* *text is NULL unless it is one, and lives until inventory_free. */
enum member reply_find_text(struct json_object *object, const char *name,
			    const char **text);

/* 0 or -errno: what open() said; -EIO if the reply holds neither. */
int reply_get_open(struct json_object *reply);
/* "1.0.3", and its first number; NULL, and -1, without all three. */
const char *reply_get_version(struct json_object *reply, int *major);

/* Into a field: what is absent leaves it as it was. */
void reply_set_count(struct record *record, enum field_id field,
		     struct json_object *object, const char *name);
void reply_set_text(struct record *record, enum field_id field,
		    struct json_object *object, const char *name);
/* By the type of the field; false: the value is of none of its. */
bool reply_set(struct record *record, enum field_id field,
	       struct json_object *json);

#endif
