// SPDX-License-Identifier: MIT
/*
 * What the parts of model-file share: finding sections, checking fields and
 * strings, and the sentence about what is wrong where.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

enum qbrt_status qbrt_qbm_broken(const struct qbm_reader *reader,
				 const struct qbm_place *place,
				 const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	if (place->index == QBNPU_NONE32)
		return qbrt_fail(QBRT_MODEL_BROKEN_MXQ,
				 "%s: %s at byte %" PRIu64 ": %s", reader->name,
				 place->what, place->offset, sentence);
	return qbrt_fail(QBRT_MODEL_BROKEN_MXQ,
			 "%s: %s %u at byte %" PRIu64 ": %s", reader->name,
			 place->what, place->index, place->offset, sentence);
}

uint32_t qbrt_qbm_find_section(const struct qbm_reader *reader, uint32_t kind,
			       uint32_t instance)
{
	uint32_t i;

	for (i = 0; i < reader->num_sections; i++)
		if (reader->sections[i].kind == kind &&
		    reader->sections[i].instance == instance)
			return i;
	return QBNPU_NONE32;
}

struct qbm_place qbrt_qbm_section_place(const struct qbm_reader *reader,
					uint32_t number, const char *what)
{
	return (struct qbm_place){ what, QBNPU_NONE32,
				   reader->sections[number].offset };
}

enum qbrt_status qbrt_qbm_get_section(const struct qbm_reader *reader,
				      uint32_t kind, uint32_t instance,
				      const char *what, size_t size,
				      struct qbm_place *place,
				      const uint8_t **bytes)
{
	uint32_t number = qbrt_qbm_find_section(reader, kind, instance);

	*place = qbrt_qbm_section_place(reader, number, what);
	*bytes = reader->bytes[number];
	if (reader->sections[number].size < size)
		return qbrt_qbm_broken(reader, place,
				       "%" PRIu64 " bytes, must be %zu or more",
				       reader->sections[number].size, size);
	return QBRT_OK;
}

uint64_t qbrt_qbm_get_size(const struct qbm_reader *reader, uint32_t kind,
			   uint32_t instance)
{
	return reader->sections[qbrt_qbm_find_section(reader, kind, instance)]
		.size;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

enum qbrt_status qbrt_qbm_check_fields(const struct qbm_reader *reader,
				       const struct qbm_place *place,
				       const void *bytes,
				       const struct qbm_field *fields,
				       size_t num)
{
	size_t i;

	for (i = 0; i < num; i++) {
		const struct qbm_field *field = &fields[i];
		const uint8_t *at = (const uint8_t *)bytes + field->offset;
		uint64_t value = 0;

		if (field->is_reserved) {
			if (!reader->file->header.format_minor &&
			    !is_zero(at, field->size))
				return qbrt_qbm_broken(reader, place,
						       "%s is not 0",
						       field->name);
			continue;
		}
		memcpy(&value, at, field->size);
		if (value >= field->min && value <= field->max)
			continue;
		if (field->min == field->max)
			return qbrt_qbm_broken(reader, place,
					       "%s is %" PRIu64
					       ", must be %" PRIu64,
					       field->name, value, field->min);
		return qbrt_qbm_broken(
			reader, place,
			"%s is %" PRIu64 ", must be %" PRIu64 " to %" PRIu64,
			field->name, value, field->min, field->max);
	}
	return QBRT_OK;
}

enum qbrt_status qbrt_qbm_check_string(const struct qbm_reader *reader,
				       const struct qbm_place *place,
				       const char *field, uint32_t offset,
				       bool may_have_lines)
{
	const struct qbrt_model_file *file = reader->file;

	if (offset >= file->strings_size ||
	    (offset && file->strings[offset - 1]))
		return qbrt_qbm_broken(reader, place,
				       "%s is %u, which is not the start of a "
				       "string in STRS",
				       field, offset);
	if (!may_have_lines && strchr(file->strings + offset, '\n'))
		return qbrt_qbm_broken(reader, place,
				       "%s is a string with a line feed",
				       field);
	return QBRT_OK;
}
