// SPDX-License-Identifier: MIT
/* Files in the library's folder: digits.qbm, digits-16.u8, digits-16.txt. */
#include "digits.h"

#include <stdio.h>
#include <string.h>

#include "inventory.h"

#define NUM_CLASSES 10

/* Lines "number label answer", those with # are the licence. */
static bool read_answers(const char *folder, int *answers)
{
	FILE *file = fopen(inventory_format("%s/digits-16.txt", folder), "re");
	char line[256];
	size_t num = 0;
	int label;

	while (file && num < DIGITS_NUM && fgets(line, sizeof(line), file)) {
		if (*line != '#' &&
		    sscanf(line, "%*d %d %d", &label, &answers[num]) == 2)
			num++;
	}
	if (file)
		(void)fclose(file);
	return num == DIGITS_NUM;
}

static bool read_images(const char *folder, unsigned char images[][64])
{
	FILE *file = fopen(inventory_format("%s/digits-16.u8", folder), "re");
	bool is_whole =
		file && fread(images, 64, DIGITS_NUM, file) == DIGITS_NUM;

	if (file)
		(void)fclose(file);
	return is_whole;
}

bool digits_read(struct digits *digits, const char *folder)
{
	return read_answers(folder, digits->answers) &&
	       read_images(folder, digits->images);
}

enum qbrt_status digits_launch(struct digits *digits,
			       struct qbrt_accelerator *acc, const char *folder)
{
	enum qbrt_status status =
		qbrt_model_load(inventory_format("%s/digits.qbm", folder), NULL,
				&digits->model);

	if (!status)
		status = qbrt_model_launch(digits->model, acc);
	if (!status)
		status = qbrt_model_alloc_input(digits->model, 0,
						&digits->input);
	if (!status)
		status = qbrt_model_alloc_output(digits->model, 0,
						 &digits->output);
	return status;
}

static bool is_digits_model(const struct digits *digits)
{
	return qbrt_pinned_memory_get_nbytes(digits->input) == 64 &&
	       qbrt_pinned_memory_get_nbytes(digits->output) ==
		       NUM_CLASSES * sizeof(float);
}

enum qbrt_status digits_recognise(struct digits *digits, size_t number,
				  int *answer)
{
	const float *scores;
	enum qbrt_status status;

	*answer = -1;
	if (!is_digits_model(digits))
		return QBRT_OK;
	memcpy(qbrt_pinned_memory_get_data(digits->input),
	       digits->images[number], 64);
	status = qbrt_model_infer_pinned_memory(
		digits->model, NULL, &digits->input, 1, &digits->output, 1);
	if (status)
		return status;
	scores = qbrt_pinned_memory_get_data(digits->output);
	*answer = 0;
	for (int i = 1; i < NUM_CLASSES; i++) {
		if (scores[i] > scores[*answer])
			*answer = i;
	}
	return QBRT_OK;
}

enum qbrt_status digits_count(struct digits *digits, int *right)
{
	*right = 0;
	for (size_t i = 0; i < DIGITS_NUM; i++) {
		int answer;
		enum qbrt_status status = digits_recognise(digits, i, &answer);

		if (status)
			return status;
		*right += answer == digits->answers[i];
	}
	return QBRT_OK;
}

void digits_free(struct digits *digits)
{
	qbrt_pinned_memory_free(digits->input);
	qbrt_pinned_memory_free(digits->output);
	qbrt_model_free(digits->model);
	digits->input = NULL;
	digits->output = NULL;
	digits->model = NULL;
}
