// SPDX-License-Identifier: MIT
/*
 * The edits of edit-model.h, on a copy of the file of exactly its size, so
 * that a read beyond the end is seen by ASan.
 */
#include "edit-model.h"

#include <stdlib.h>
#include <string.h>

#include "test-util.h"

static size_t find_content(const struct build *build, const struct edit *edit)
{
	if (!strcmp(edit->kind, "HEAD"))
		return 0;
	if (!strcmp(edit->kind, "TABL"))
		return sizeof(struct qbm_header);
	return build_entry(build, edit->kind, edit->instance)->offset;
}

void check_edit(const struct build *build, const struct edit *edit)
{
	struct qbrt_model_file *file = NULL;
	uint8_t *bytes = malloc(build->nbytes);
	enum qbrt_status status;
	size_t offset;

	ck_assert_ptr_nonnull(bytes);
	memcpy(bytes, build->bytes, build->nbytes);
	offset = find_content(build, edit) + edit->offset;
	memcpy(bytes + offset, &edit->value, edit->size < 8 ? edit->size : 8);
	ck_assert_msg(memcmp(bytes, build->bytes, build->nbytes),
		      "no change: %s", edit->text);
	build_seal(bytes, build->nbytes);
	status = qbrt_model_file_parse(bytes, build->nbytes, "m.qbm", &file);
	ck_assert_msg(
		(int)status == edit->status &&
			qbrt_test_contains(qbrt_error_detail(), edit->text) &&
			qbrt_test_contains(qbrt_error_detail(), "m.qbm"),
		"%s+%zu: expected %d \"%s\", got %d \"%s\"", edit->kind,
		edit->offset, edit->status, edit->text, (int)status,
		qbrt_error_detail());
	ck_assert_ptr_null(file);
	free(bytes);
}

void check_edits(void (*fill)(struct build *build), const struct edit *edits,
		 size_t num)
{
	struct qbrt_model_file *file = NULL;
	struct build build;
	size_t i;

	fill(&build);
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	qbrt_model_file_free(file);
	for (i = 0; i < num; i++)
		check_edit(&build, &edits[i]);
	build_end(&build);
}

void check_refused(struct build *build, const char *text)
{
	struct qbrt_model_file *file = NULL;

	build_seal(build->bytes, build->nbytes);
	ck_assert_status(qbrt_model_file_parse(build->bytes, build->nbytes,
					       "m.qbm", &file),
			 QBRT_MODEL_BROKEN_MXQ);
	ck_assert_detail(text);
	ck_assert_ptr_null(file);
}
