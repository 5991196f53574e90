// SPDX-License-Identifier: MIT
/*
 * Exchanges tensors with other C code by DLPack: the 16 digits come as one array
 * of somebody else's, in their struct, and each result leaves as a struct over
 * the NPU's own memory, of which nothing is copied. Usage: tensor [digits.qbm];
 * images and labels lie beside the model. What a failed run holds ends with the
 * process.
 */
#include <stdio.h>

#include <dlpack/dlpack.h>
#include <qbruntime/qbrt.h>

#include "digits-data.h"

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) \
			return fail(qbrt_error_detail()); \
	} while (0)

static int fail(const char *sentence)
{
	(void)fprintf(stderr, "tensor: %s\n", sentence);
	return 1;
}

/* ---- the other library: an array of images, and a reader of scores ---- */

struct images {
	DLManagedTensor managed;
	int64_t shape[4];
	uint8_t pixels[NUM_IMAGES * IMAGE_NBYTES];
};

static void delete_images(DLManagedTensor *managed)
{
	free(managed->manager_ctx);
	(void)puts("the images were given back");
}

/* NULL: there are no such images, or no memory. */
static DLManagedTensor *read_images(const char *model)
{
	FILE *file = open_beside(model, "digits-16.u8");
	struct images *images = calloc(1, sizeof(*images));
	size_t num = 0;

	if (file && images)
		num = fread(images->pixels, IMAGE_NBYTES, NUM_IMAGES, file);
	if (file)
		(void)fclose(file);
	if (num != NUM_IMAGES) {
		free(images);
		return NULL;
	}
	images->shape[0] = NUM_IMAGES;
	images->shape[1] = 8;
	images->shape[2] = 8;
	images->shape[3] = 1;
	images->managed.dl_tensor.data = images->pixels;
	images->managed.dl_tensor.device.device_type = kDLCPU;
	images->managed.dl_tensor.ndim = 4;
	images->managed.dl_tensor.dtype.code = kDLUInt;
	images->managed.dl_tensor.dtype.bits = 8;
	images->managed.dl_tensor.dtype.lanes = 1;
	images->managed.dl_tensor.shape = images->shape;
	images->managed.manager_ctx = images;
	images->managed.deleter = delete_images;
	return &images->managed;
}

/* Takes the struct. -1: not the scores of ten digits. */
static int read_answer(DLManagedTensor *managed)
{
	const DLTensor *scores = &managed->dl_tensor;
	int answer = -1;

	if (scores->dtype.code == kDLFloat && scores->dtype.bits == 32 &&
	    scores->ndim == 1 && scores->shape[0] == NUM_DIGITS)
		answer = find_largest((const float *)scores->data);
	managed->deleter(managed);
	return answer;
}

/* ---- the program ---- */

/* One image of the array into the NPU's memory, the scores out of it. */
static int infer_one(struct qbrt_model *model, const struct qbrt_tensor *images,
		     int64_t index, struct qbrt_pinned_memory *in,
		     const struct qbrt_tensor *scores,
		     struct qbrt_pinned_memory *out, int *answer)
{
	size_t ndim = qbrt_pinned_memory_get_ndim(in);
	const struct qbrt_array image = {
		.data = (char *)qbrt_tensor_get_first_element(images) +
			index * qbrt_tensor_get_strides(images)[0],
		.shape = qbrt_tensor_get_shape(images) + 1,
		.strides = qbrt_tensor_get_strides(images) + 1,
		.ndim = qbrt_tensor_get_ndim(images) - 1,
		.dtype = qbrt_tensor_get_dtype(images),
	};
	struct qbrt_slice whole[8];
	DLManagedTensor *managed;

	for (size_t i = 0; i < ndim; i++)
		whole[i] = (struct qbrt_slice){
			.count = qbrt_pinned_memory_get_shape(in)[i],
			.step = 1,
		};
	TRY(qbrt_pinned_memory_write_slice(in, whole, ndim, &image));
	TRY(qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out, 1));
	TRY(qbrt_tensor_export_dlpack_legacy(scores, NULL, &managed));
	if (managed->dl_tensor.data != qbrt_pinned_memory_get_data(out))
		return fail("the scores were copied");
	*answer = read_answer(managed);
	return 0;
}

static int run(const char *path)
{
	DLManagedTensor *managed = read_images(path);
	FILE *text = open_beside(path, "digits-16.txt");
	struct qbrt_tensor *images, *scores;
	struct qbrt_pinned_memory *in, *out;
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;

	if (!managed || !text)
		return fail("the images or their labels are missing");
	TRY(qbrt_tensor_import_dlpack_legacy(managed, NULL, &images));
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(path, NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	if (qbrt_pinned_memory_get_nbytes(in) != IMAGE_NBYTES)
		return fail("not a model of 64 bytes in");
	TRY(qbrt_tensor_from_pinned_memory(out, 0, &scores));
	for (int i = 0; i < NUM_IMAGES; i++) {
		long label = read_label(text);
		int answer = -1;

		if (infer_one(model, images, i, in, scores, out, &answer))
			return 1;
		(void)printf("%ld %d\n", label, answer);
	}
	qbrt_tensor_free(images);
	(void)fclose(text);
	qbrt_tensor_free(scores);
	qbrt_pinned_memory_free(out);
	qbrt_pinned_memory_free(in);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	return 0;
}

int main(int argc, char **argv)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/digits.qbm",
		       qbrt_get_data_dir());
	return run(argc > 1 ? argv[1] : path);
}
