/* SPDX-License-Identifier: MIT */
/*
 * What the programs that read digits share: the pictures and labels beside the
 * model, and which of its scores is the largest.
 */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_IMAGES 16
#define IMAGE_NBYTES 64
#define NUM_DIGITS 10

/* "name" in the folder of the model. */
static inline FILE *open_beside(const char *model, const char *name)
{
	const char *slash = strrchr(model, '/');
	char path[4096];

	(void)snprintf(path, sizeof(path), "%.*s%s",
		       slash ? (int)(slash - model + 1) : 0, model, name);
	return fopen(path, "r");
}

/* Of the next line "number label answer"; -1: there is none. */
static inline long read_label(FILE *text)
{
	char line[256];

	while (fgets(line, sizeof(line), text))
		if (line[0] != '#' && strchr(line, ' '))
			return strtol(strchr(line, ' '), NULL, 10);
	return -1;
}

static inline int find_largest(const float *values)
{
	int largest = 0;

	for (int i = 1; i < NUM_DIGITS; i++)
		if (values[i] > values[largest])
			largest = i;
	return largest;
}

#endif
