/* SPDX-License-Identifier: MIT */
/*
 * The digits model that comes with the library, and its 16 stored digits with
 * the answers that were recorded: for doctor and validate.
 */
#ifndef QBINFO_DIGITS_H
#define QBINFO_DIGITS_H

#include <qbruntime/qbrt.h>

#define DIGITS_NUM 16

struct digits {
	struct qbrt_model *model;
	struct qbrt_pinned_memory *input, *output;
	unsigned char images[DIGITS_NUM][64];
	int answers[DIGITS_NUM];
};

/* folder: qbrt_get_data_dir(). false: what lies there is not whole. */
bool digits_read(struct digits *digits, const char *folder);
/* Of a model with other inputs and outputs no digit is right. */
enum qbrt_status digits_launch(struct digits *digits,
			       struct qbrt_accelerator *acc,
			       const char *folder);
enum qbrt_status digits_recognise(struct digits *digits, size_t number,
				  int *answer);
/* How many of the answers are those recorded. */
enum qbrt_status digits_count(struct digits *digits, int *right);
void digits_free(struct digits *digits);

#endif
