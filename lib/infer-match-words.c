// SPDX-License-Identifier: MIT
/*
 * What a failed match says: what was given, and for each variant what it takes
 * and which input did not fit it first. Who reads it should not need the
 * documentation (Q310, Q311).
 */
#include "infer-match.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dtype.h"
#include "log.h"
#include "status.h"
#include "util.h"

#define SHAPE_TEXT_SIZE 128

/* Words one after the other; what does not fit ends in "...". */
struct words {
	char text[640];
	size_t used;
};

static void add(struct words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct words *words, const char *format, ...)
{
	size_t left = sizeof(words->text) - words->used;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(words->text + words->used, left, format, args);
	va_end(args);
	if (length >= 0 && (size_t)length < left) {
		words->used += (size_t)length;
		return;
	}
	words->used = sizeof(words->text) - 1;
	memcpy(words->text + words->used - 3, "...", 4);
}

static const char *get_io_name(const struct qbrt_array_match *match,
			       const struct qbm_io *io)
{
	return qbrt_model_file_string(match->model->file, io->name);
}

static void list_dtypes(uint32_t dtypes, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < QBRT_NUM_DTYPES && used < size; i++)
		if (dtypes >> i & 1)
			used += (size_t)snprintf(
				text + used, size - used, "%s%s",
				used ? ", " : "",
				qbrt_dtype_name((enum qbrt_dtype)i));
}

enum qbrt_status qbrt_match_refuse_dtype(const struct qbrt_array_match *match,
					 const struct qbrt_array_list *list,
					 size_t index, uint32_t supported)
{
	const char *given = qbrt_dtype_name(list->arrays[index].dtype);
	bool is_input = *list->what == 'i';
	const struct qbm_io *io =
		is_input ? &match->inputs[index] : &match->outputs[index];
	char names[QBRT_NUM_DTYPES * 10];

	list_dtypes(supported, names, sizeof(names));
	return qbrt_fail(QBRT_MODEL_DTYPE_MISMATCHED,
			 "%s: %s %zu (%s): %s given, supported is %s%s; "
			 "nothing is cast silently",
			 match->model->name, list->what, index,
			 get_io_name(match, io), given, names,
			 io->flags & QBRT_IO_NORMALISED
				 ? " (the model itself normalises it)"
				 : "");
}

static enum qbrt_status end_with_line(const struct qbrt_array_match *match,
				      const struct qbrt_array_list *inputs)
{
	size_t bad = match->bad_input;
	uint32_t supported = match->inputs[bad].accepted_dtypes;
	char names[QBRT_NUM_DTYPES * 10];

	list_dtypes(supported, names, sizeof(names));
	qbrt_log(QBRT_LOG_LEVEL_ERR, "infer",
		 "Invalid input data type - Input: %s, Supported: %s",
		 qbrt_dtype_name(inputs->arrays[bad].dtype), names);
	/* again: what the log function did may have left another sentence */
	return qbrt_match_refuse_dtype(match, inputs, bad, supported);
}

enum qbrt_status qbrt_match_end(enum qbrt_status status,
				const struct qbrt_array_match *match,
				const struct qbrt_array_list *inputs)
{
	if (status != QBRT_MODEL_DTYPE_MISMATCHED || !match->has_bad_input)
		return status;
	return end_with_line(match, inputs);
}

static void add_shape(struct words *words, const int64_t *shape, size_t ndim)
{
	char text[SHAPE_TEXT_SIZE];

	add(words, "%s", qbrt_shape_text(shape, ndim, text, sizeof(text)));
}

static void add_tensor(struct words *words,
		       const struct qbrt_array_match *match,
		       const struct qbm_io *io, uint32_t flags)
{
	bool has_chw = io->layout == QBRT_IO_LAYOUT_HWC;
	int64_t hwc[QBNPU_MAX_RANK];
	int64_t chw[3];

	for (size_t i = 0; i < io->rank; i++) {
		hwc[i] = io->shape[i];
		if (has_chw)
			chw[(i + 1) % 3] = io->shape[i];
	}
	add(words, " %s ", get_io_name(match, io));
	if (!has_chw || !(flags & QBRT_INFER_CHW))
		add_shape(words, hwc, io->rank);
	if (has_chw && !flags)
		add(words, " or ");
	if (has_chw && !(flags & QBRT_INFER_HWC))
		add_shape(words, chw, 3);
}

static void add_misfit(struct words *words,
		       const struct qbrt_array_try *attempt)
{
	static const char *const reasons[] = {
		[QBRT_MISFIT_RANK] = "has neither these axes nor one more in "
				     "front",
		[QBRT_MISFIT_EXTENT] = "has other extents",
		[QBRT_MISFIT_BATCH] = "has another number of inferences in "
				      "its leading axis",
		[QBRT_MISFIT_RANGE] = "has a variable axis out of its range",
		[QBRT_MISFIT_EQUAL] = "has a variable axis unequal to that of "
				      "another input",
	};

	add(words, ", and input %zu %s", attempt->bad_input,
	    reasons[attempt->misfit]);
}

/* Whose complaint is told: of two orders of axes the one that got further. */
static bool got_further(const struct qbrt_array_try *a,
			const struct qbrt_array_try *b)
{
	if (a->bad_input != b->bad_input)
		return a->bad_input > b->bad_input;
	return a->misfit > b->misfit;
}

static void add_variant(struct words *words, const struct qbrt_model *model,
			size_t variant, uint32_t flags,
			const struct qbrt_array_list *inputs)
{
	const struct qbm_variant *entry = &model->file->variants[variant];
	struct qbrt_array_try hwc = { .arrays = inputs->arrays };
	struct qbrt_array_try chw = { .arrays = inputs->arrays };
	const struct qbrt_array_try *told;

	add(words, "; variant %zu (%s) takes", variant,
	    qbrt_model_file_string(model->file, entry->name));
	if (entry->input_count != inputs->num) {
		add(words, " %u input%s", entry->input_count,
		    qbrt_plural(entry->input_count));
		return;
	}
	(void)qbrt_array_try_variant(&hwc, model, variant, false);
	(void)qbrt_array_try_variant(&chw, model, variant, true);
	told = flags & QBRT_INFER_CHW || (!flags && got_further(&chw, &hwc))
		       ? &chw
		       : &hwc;
	for (size_t i = 0; i < entry->input_count; i++) {
		add(words, "%s", i ? "," : "");
		add_tensor(words, &told->match, &told->match.inputs[i], flags);
	}
	add_misfit(words, told);
}

enum qbrt_status qbrt_match_refuse_shapes(const struct qbrt_model *model,
					  uint32_t flags,
					  const struct qbrt_array_list *inputs)
{
	struct words words = { .used = 0 };

	for (size_t i = 0; i < inputs->num; i++) {
		add(&words, "%s", i ? ", " : "");
		add_shape(&words, inputs->arrays[i].shape,
			  inputs->arrays[i].ndim);
	}
	for (size_t i = 0; i < model->file->vari->variant_count; i++)
		add_variant(&words, model, i,
			    flags & (QBRT_INFER_HWC | QBRT_INFER_CHW), inputs);
	return qbrt_fail(QBRT_MODEL_SHAPE_MISMATCHED,
			 "%s: no variant takes the inputs given: %s",
			 model->name, words.text);
}
