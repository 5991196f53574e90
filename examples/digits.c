// SPDX-License-Identifier: MIT
/*
 * Recognises 16 handwritten digits on the first NPU, the software one where
 * there is no other. Usage: digits [--digest] [digits.qbm]; images and labels
 * lie beside the model; --digest prints the SHA-256 of each output, to compare
 * with. What a failed run holds ends with the process. In Python: digits.py.
 */
#include <stdio.h>

#include <qbruntime/qbrt.h>

#include "digits-data.h"
#include "sha256.h"

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) \
			return fail(qbrt_error_detail()); \
	} while (0)

static const char *const kinds[] = { "none", "hardware", "software" };
static const char *const classes[] = { "none", "locked", "hugepage", "driver" };

static int fail(const char *sentence)
{
	(void)fprintf(stderr, "digits: %s\n", sentence);
	return 1;
}

/* Picture by picture what the files hold; counts the right answers. */
static int read_digits(struct qbrt_model *model, FILE *pixels, FILE *text,
		       bool is_digest, int *num_right)
{
	struct qbrt_pinned_memory *in, *out;
	char digest[65];

	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	(void)printf("input buffer: %s\n",
		     classes[qbrt_pinned_memory_get_contiguity(in)]);
	for (int i = 0; i < NUM_IMAGES; i++) {
		long label = text ? read_label(text) : -1;
		const float *scores = qbrt_pinned_memory_get_data(out);
		int answer;

		/* from the file into the NPU's memory */
		if (label < 0 || !pixels ||
		    !fread(qbrt_pinned_memory_get_data(in), IMAGE_NBYTES, 1,
			   pixels))
			return fail("an image or its label is missing");
		TRY(qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out,
						   1));
		answer = find_largest(scores);
		(void)printf("%ld %d\n", label, answer);
		*num_right += answer == label;
		sha256_text(scores, NUM_DIGITS * sizeof(*scores), digest);
		if (is_digest)
			(void)printf("sha256: %s\n", digest);
	}
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(in);
	return 0;
}

static int run(const char *path, bool is_digest)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };
	struct qbrt_io_info scores = { .size = sizeof(scores) };
	struct qbrt_io_info image = { .size = sizeof(image) };
	FILE *pixels = open_beside(path, "digits-16.u8");
	FILE *text = open_beside(path, "digits-16.txt");
	struct qbrt_device_info *info;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	int num_right = 0;

	TRY(qbrt_model_load(path, NULL, &model));
	TRY(qbrt_model_query_input(model, 0, 0, &image));
	TRY(qbrt_model_query_output(model, 0, 0, &scores));
	if (qbrt_model_get_num_inputs(model) != 1 ||
	    image.max_nbytes != IMAGE_NBYTES ||
	    image.pinned_dtype != QBRT_DTYPE_UINT8 ||
	    qbrt_model_get_num_outputs(model) != 1 ||
	    scores.pinned_dtype != QBRT_DTYPE_FLOAT32 ||
	    scores.max_nbytes != NUM_DIGITS * sizeof(float))
		return fail("not a model of 64 bytes in and 10 scores out");
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_accelerator_query_info(acc, &info));
	TRY(qbrt_model_launch(model, acc));
	(void)printf("device: %s\n", qbrt_accelerator_get_id(acc));
	(void)printf("kind: %s\n", kinds[qbrt_device_info_get_kind(info)]);
	if (read_digits(model, pixels, text, is_digest, &num_right))
		return 1;
	qbrt_model_get_counters(model, &counters);
	(void)printf("agree: %d of %d\n", num_right, NUM_IMAGES);
	(void)printf("copied bytes: %ju\n", (uintmax_t)counters.copied_nbytes);
	(void)fclose(text);
	(void)fclose(pixels);
	qbrt_model_free(model);
	qbrt_device_info_free(info);
	qbrt_accelerator_close(acc);
	return 0;
}

int main(int argc, char **argv)
{
	const char *data_dir = qbrt_get_data_dir();
	bool is_digest = argc > 1 && !strcmp(argv[1], "--digest");
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/digits.qbm",
		       data_dir ? data_dir : ".");
	argv += is_digest ? 2 : 1;
	if (run(*argv ? *argv : path, is_digest))
		return 1;
	return ferror(stdout) || fclose(stdout) ? fail("stdout is full") : 0;
}
