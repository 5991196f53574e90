// SPDX-License-Identifier: MIT
/* A stream whose bytes are kept in memory, or known not to be. */
#include "text-file.h"

#include <stdlib.h>
#include <string.h>

#include "inventory.h"

/* 0 is an error. */
static ssize_t keep(void *cookie, const char *bytes, size_t num)
{
	struct text_file *file = cookie;

	if (!file->is_short && num > file->room - file->length) {
		size_t room = 2 * file->room + num;
		char *larger = realloc(file->text, room);

		file->is_short = !larger;
		if (larger) {
			file->text = larger;
			file->room = room;
		}
	}
	if (file->is_short)
		return 0;
	memcpy(file->text + file->length, bytes, num);
	file->length += num;
	return (ssize_t)num;
}

FILE *text_file_open(struct text_file *file)
{
	return fopencookie(file, "w", (cookie_io_functions_t){ .write = keep });
}

void text_file_flush(const struct text_file *file, FILE *out)
{
	if (fflush(out) || file->is_short)
		inventory_end();
}
