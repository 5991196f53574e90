// SPDX-License-Identifier: MIT
/*
 * STRS, META, VARI, CACH and DBGI: from section bytes to the tables of struct
 * qbrt_model_file. What has a fixed range stands in a table of fields; code
 * checks what depends on something else. Arrays are used only after their
 * count has been compared with the section's size.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "util.h"

#define MAX_STRING 4096
#define MAX_META 4096

/* FM04, FM10 for the section; where strings begin is checked at each field. */
static enum qbrt_status check_strings(struct qbm_reader *reader)
{
	struct qbrt_model_file *file = reader->file;
	struct qbm_place place;
	const uint8_t *bytes;
	size_t length = 0;
	size_t size;
	size_t i;

	(void)qbrt_qbm_get_section(reader, QBM_KIND_STRS, 0, "STRS", 1, &place,
				   &bytes);
	size = qbrt_qbm_get_size(reader, QBM_KIND_STRS, 0);
	if (bytes[0] || bytes[size - 1])
		return qbrt_qbm_broken(reader, &place,
				       "does not begin and end with NUL");
	for (i = 0; i < size; i++) {
		size_t num;

		length = bytes[i] ? length + 1 : 0;
		if (length > MAX_STRING) {
			place.offset += i;
			return qbrt_qbm_broken(reader, &place,
					       "a string longer than %d bytes",
					       MAX_STRING);
		}
		if (!bytes[i] || bytes[i] == '\n')
			continue;
		num = qbrt_printable_length((const char *)bytes + i, size - i);
		if (!num) {
			place.offset += i;
			return qbrt_qbm_broken(
				reader, &place,
				"0x%02x is a control character or "
				"not UTF-8",
				bytes[i]);
		}
		length += num - 1;
		i += num - 1;
	}
	file->strings = (const char *)bytes;
	file->strings_size = size;
	return QBRT_OK;
}

/* FM11 */
static enum qbrt_status check_meta(struct qbm_reader *reader)
{
	static const struct qbm_field fields[] = {
		QBM_FIELD(qbm_meta, count, 0, MAX_META),
		QBM_RESERVED(qbm_meta, reserved),
	};
	struct qbrt_model_file *file = reader->file;
	const char *last = NULL;
	const struct qbm_meta *meta;
	struct qbm_place place;
	enum qbrt_status status;
	const uint8_t *bytes;
	uint64_t size;
	uint32_t i;

	status = qbrt_qbm_get_section(reader, QBM_KIND_META, 0, "META",
				      sizeof(*meta), &place, &bytes);
	if (status)
		return status;
	meta = (const struct qbm_meta *)(const void *)bytes;
	status = qbrt_qbm_check_fields(reader, &place, meta, fields,
				       qbrt_array_size(fields));
	if (status)
		return status;
	size = sizeof(*meta) + meta->count * sizeof(struct qbm_meta_entry);
	if (qbrt_qbm_get_size(reader, QBM_KIND_META, 0) != size)
		return qbrt_qbm_broken(
			reader, &place,
			"%" PRIu64 " bytes, must be %" PRIu64 " for %u entries",
			qbrt_qbm_get_size(reader, QBM_KIND_META, 0), size,
			meta->count);
	file->meta = (const struct qbm_meta_entry *)(meta + 1);
	file->num_meta = meta->count;
	for (i = 0; i < meta->count; i++) {
		const struct qbm_meta_entry *entry = &file->meta[i];
		const struct qbm_place at = { "META entry", i,
					      place.offset + sizeof(*meta) +
						      i * sizeof(*entry) };

		status = qbrt_qbm_check_string(reader, &at, "key", entry->key,
					       false);
		if (!status)
			status = qbrt_qbm_check_string(reader, &at, "value",
						       entry->value, true);
		if (status)
			return status;
		if (last && strcmp(last, file->strings + entry->key) >= 0)
			return qbrt_qbm_broken(
				reader, &at,
				"its key does not come after the "
				"one before");
		last = file->strings + entry->key;
	}
	return QBRT_OK;
}

static enum qbrt_status check_bundle(const struct qbm_reader *reader,
				     const struct qbm_place *place,
				     const struct qbm_bundle *bundle)
{
	static const struct qbm_field fields[] = {
		QBM_FIELD(qbm_bundle, mode_mask, 1, QBM_MODES),
		QBM_RESERVED(qbm_bundle, reserved0),
		QBM_RESERVED(qbm_bundle, reserved1),
	};
	uint32_t num_programs = 0;
	enum qbrt_status status;
	uint32_t mode;

	while (qbrt_qbm_find_section(reader, QBM_KIND_PROG, num_programs) !=
	       QBNPU_NONE32)
		num_programs++;
	status = qbrt_qbm_check_fields(reader, place, bundle, fields,
				       qbrt_array_size(fields));
	if (!status)
		status = qbrt_qbm_check_string(reader, place, "name",
					       bundle->name, false);
	if (status)
		return status;
	if (bundle->mode_mask & ~QBM_MODES)
		return qbrt_qbm_broken(reader, place,
				       "mode_mask is 0x%x, must be of 0x%x",
				       bundle->mode_mask, QBM_MODES);
	for (mode = 0; mode < QBM_NUM_MODES; mode++) {
		uint32_t program = bundle->program[mode];

		if (!(bundle->mode_mask & 1u << mode) &&
		    program != QBNPU_NONE32)
			return qbrt_qbm_broken(
				reader, place,
				"program[%u] is %u, must be NONE as "
				"mode_mask is 0x%x",
				mode, program, bundle->mode_mask);
		if (bundle->mode_mask & 1u << mode && program >= num_programs)
			return qbrt_qbm_broken(
				reader, place,
				"program[%u] is %u, the file has %u "
				"programs",
				mode, program, num_programs);
	}
	return QBRT_OK;
}

/* Ranges and what else one variant says, against IOTB's header at most. */
static enum qbrt_status check_variant(const struct qbm_reader *reader,
				      const struct qbm_place *place,
				      uint32_t number)
{
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_variant *variant = &file->variants[number];
	const struct qbm_bundle *bundle = &file->bundles[number];
	const struct qbm_field fields[] = {
		QBM_FIELD(qbm_variant, flags, 0, QBM_VARIANT_BATCH_PARAMS),
		QBM_FIXED(qbm_variant, first_bundle, number),
		QBM_FIXED(qbm_variant, bundle_count, 1),
		QBM_FIELD(qbm_variant, input_count, 0, QBNPU_MAX_BINDINGS),
		QBM_FIELD(qbm_variant, output_count, 1, QBNPU_MAX_BINDINGS),
		QBM_RESERVED(qbm_variant, reserved0),
		QBM_FIELD(qbm_variant, batch, 1, UINT32_MAX),
		QBM_FIXED(qbm_variant, mode_mask, bundle->mode_mask),
		QBM_FIXED(qbm_variant, mac_count, bundle->mac_count),
		QBM_RESERVED(qbm_variant, reserved1),
		QBM_RESERVED(qbm_variant, reserved2),
	};
	enum qbrt_status status;
	uint32_t i;

	status = qbrt_qbm_check_fields(reader, place, variant, fields,
				       qbrt_array_size(fields));
	if (!status)
		status = qbrt_qbm_check_string(reader, place, "name",
					       variant->name, false);
	if (status)
		return status;
	if (variant->state_count && variant->activation_slots != 1)
		return qbrt_qbm_broken(reader, place,
				       "activation_slots is %u, must be 1 with "
				       "states",
				       variant->activation_slots);
	for (i = 0; i < number; i++)
		if (!strcmp(file->strings + variant->name,
			    file->strings + file->variants[i].name))
			return qbrt_qbm_broken(reader, place,
					       "has the name of variant %u", i);
	return QBRT_OK;
}

/* FM22: what may not differ between variants. */
static enum qbrt_status compare_variant(const struct qbm_reader *reader,
					const struct qbm_place *place,
					const struct qbm_variant *variant)
{
	const struct qbm_variant *first = &reader->file->variants[0];
	const struct qbm_field fields[] = {
		QBM_FIXED(qbm_variant, mode_mask, first->mode_mask),
		QBM_FIXED(qbm_variant, output_count, first->output_count),
		QBM_FIXED(qbm_variant, state_count, first->state_count),
	};

	return qbrt_qbm_check_fields(reader, place, variant, fields,
				     qbrt_array_size(fields));
}

/* The two arrays of VARI lie inside the section and apart. */
static enum qbrt_status find_variants(struct qbm_reader *reader,
				      struct qbm_place *place)
{
	struct qbrt_model_file *file = reader->file;
	const struct qbm_vari *vari;
	const uint8_t *bytes;
	enum qbrt_status status;
	uint64_t size;
	uint64_t least;

	status = qbrt_qbm_get_section(reader, QBM_KIND_VARI, 0, "VARI",
				      sizeof(*vari), place, &bytes);
	if (status)
		return status;
	vari = (const struct qbm_vari *)(const void *)bytes;
	size = qbrt_qbm_get_size(reader, QBM_KIND_VARI, 0);
	const struct qbm_field fields[] = {
		QBM_FIELD(qbm_vari, variant_count, 1, 64),
		QBM_FIXED(qbm_vari, variant_size, sizeof(struct qbm_variant)),
		QBM_FIXED(qbm_vari, bundle_count, vari->variant_count),
		QBM_FIXED(qbm_vari, bundle_size, sizeof(struct qbm_bundle)),
		QBM_FIXED(qbm_vari, variants_offset, sizeof(*vari)),
		QBM_FIXED(qbm_vari, default_variant, 0),
		QBM_RESERVED(qbm_vari, reserved),
	};
	status = qbrt_qbm_check_fields(reader, place, vari, fields,
				       qbrt_array_size(fields));
	if (status)
		return status;
	least = sizeof(*vari) +
		vari->variant_count * sizeof(struct qbm_variant);
	if (vari->bundles_offset < least || vari->bundles_offset % 8 ||
	    vari->bundles_offset +
			    vari->bundle_count * sizeof(struct qbm_bundle) >
		    size)
		return qbrt_qbm_broken(
			reader, place,
			"bundles_offset is %u, must be a multiple of "
			"8 from %" PRIu64 " on, with %u bundles "
			"inside the section's %" PRIu64 " bytes",
			vari->bundles_offset, least, vari->bundle_count, size);
	file->vari = vari;
	file->variants = (const void *)(bytes + vari->variants_offset);
	file->bundles = (const void *)(bytes + vari->bundles_offset);
	return QBRT_OK;
}

static enum qbrt_status check_variants(struct qbm_reader *reader)
{
	struct qbrt_model_file *file = reader->file;
	struct qbm_place section;
	enum qbrt_status status = find_variants(reader, &section);
	uint32_t i;

	for (i = 0; !status && i < file->vari->variant_count; i++) {
		const struct qbm_place at = {
			"bundle", i,
			section.offset + file->vari->bundles_offset +
				i * sizeof(*file->bundles)
		};

		status = check_bundle(reader, &at, &file->bundles[i]);
	}
	for (i = 0; !status && i < file->vari->variant_count; i++) {
		const struct qbm_place at = {
			"variant", i,
			section.offset + file->vari->variants_offset +
				i * sizeof(*file->variants)
		};

		status = check_variant(reader, &at, i);
		if (!status)
			status = compare_variant(reader, &at,
						 &file->variants[i]);
	}
	return status;
}

enum qbrt_status qbrt_qbm_check_tables(struct qbm_reader *reader)
{
	enum qbrt_status status = check_strings(reader);

	if (!status)
		status = check_meta(reader);
	if (!status)
		status = check_variants(reader);
	if (!status)
		status = qbrt_qbm_check_ios(reader);
	if (!status)
		status = qbrt_qbm_check_caches(reader);
	return status;
}
