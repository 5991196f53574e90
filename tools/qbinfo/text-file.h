/* SPDX-License-Identifier: MIT */
#ifndef QBINFO_TEXT_FILE_H
#define QBINFO_TEXT_FILE_H

/*
 * What is printed into memory. A stream of open_memstream drops what it has no
 * memory for, and neither ferror nor fflush tells: here the flush ends the
 * tool then, before anything is written.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct text_file {
	char *text; /* to be freed; NULL while there is none */
	size_t length, room;
	bool is_short; /* of memory: some of the text is missing */
};

/* file outlives the stream. NULL: out of memory. */
FILE *text_file_open(struct text_file *file);
/* From here on text and length are what was printed. */
void text_file_flush(const struct text_file *file, FILE *out);

#endif
