// SPDX-License-Identifier: MIT
/*
 * IOTB: what each input, output and state says about itself, about the others
 * of its variant and about its place in STATE and WGHT. That the programs say
 * the same is checked in model-file-programs.c. VARI is checked by then.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <math.h>

#include "status.h"
#include "util.h"

#define MAX_IOS 65536
/* NC16 */
#define MIN_SCALE 0x1p-60f
#define MAX_SCALE 0x1p16f

static bool is_scale(float scale)
{
	return scale >= MIN_SCALE && scale <= MAX_SCALE;
}

/* The header of the section, the entries and the scales lie inside it. */
static enum qbrt_status find_ios(struct qbm_reader *reader)
{
	static const struct qbm_field fields[] = {
		QBM_FIELD(qbm_iotb, count, 1, MAX_IOS),
		QBM_FIXED(qbm_iotb, entry_size, sizeof(struct qbm_io)),
		QBM_FIELD(qbm_iotb, state_size, 0, QBNPU_MAX_BINDING_SIZE),
		QBM_RESERVED(qbm_iotb, reserved),
	};
	struct qbrt_model_file *file = reader->file;
	const struct qbm_iotb *iotb;
	struct qbm_place place;
	enum qbrt_status status;
	const uint8_t *bytes;
	uint64_t size;
	uint64_t end;
	uint32_t i;

	status = qbrt_qbm_get_section(reader, QBM_KIND_IOTB, 0, "IOTB",
				      sizeof(*iotb), &place, &bytes);
	if (status)
		return status;
	iotb = (const struct qbm_iotb *)(const void *)bytes;
	size = qbrt_qbm_get_size(reader, QBM_KIND_IOTB, 0);
	status = qbrt_qbm_check_fields(reader, &place, iotb, fields,
				       qbrt_array_size(fields));
	if (status)
		return status;
	end = sizeof(*iotb) + iotb->count * sizeof(struct qbm_io);
	if (end > size)
		return qbrt_qbm_broken(
			reader, &place,
			"count is %u, but the section has %" PRIu64 " bytes",
			iotb->count, size);
	if (!iotb->scale_count && iotb->scales_offset)
		return qbrt_qbm_broken(reader, &place,
				       "scales_offset is %u, must be 0 without "
				       "scales",
				       iotb->scales_offset);
	if (iotb->scale_count &&
	    (iotb->scales_offset < end || iotb->scales_offset % 4 ||
	     iotb->scales_offset + iotb->scale_count * sizeof(float) > size))
		return qbrt_qbm_broken(
			reader, &place,
			"scales_offset is %u, must be a multiple of "
			"4 from %" PRIu64 " on, with %u scales "
			"inside the section's %" PRIu64 " bytes",
			iotb->scales_offset, end, iotb->scale_count, size);
	file->iotb = iotb;
	file->ios = (const void *)(iotb + 1);
	file->scales = (const void *)(bytes + iotb->scales_offset);
	for (i = 0; i < iotb->scale_count; i++)
		if (!is_scale(file->scales[i]))
			return qbrt_qbm_broken(
				reader, &place,
				"scale %u of the section is outside "
				"2^-60 to 2^16",
				i);
	return QBRT_OK;
}

/* FM30, and one variable axis at most, which dyn_axis names. */
static enum qbrt_status check_shape(const struct qbm_reader *reader,
				    const struct qbm_place *place,
				    const struct qbm_io *io)
{
	uint32_t batch = reader->file->variants[io->variant].batch;
	bool is_variable = io->dyn_axis != QBNPU_NONE8;
	uint32_t i;

	if (is_variable ? io->dyn_axis >= io->rank ||
				  io->dyn_param >= QBNPU_MAX_PARAMS
			: io->dyn_param != QBNPU_NONE8)
		return qbrt_qbm_broken(
			reader, place,
			"dyn_axis %u and dyn_param %u do not fit "
			"each other or rank %u",
			io->dyn_axis, io->dyn_param, io->rank);
	for (i = 0; i < qbrt_array_size(io->shape); i++) {
		int32_t extent = io->shape[i];
		bool is_good = extent > 0 && extent <= (1 << 24);

		if (i >= io->rank)
			is_good = extent == 0;
		else if (i == io->dyn_axis)
			is_good = extent < 0 && extent >= -(1 << 24);
		else if (is_variable && i < io->dyn_axis)
			is_good = extent == 1;
		if (!is_good)
			return qbrt_qbm_broken(
				reader, place,
				"shape[%u] is %d, with rank %u and "
				"dyn_axis %u",
				i, extent, io->rank, io->dyn_axis);
	}
	if (io->flags & QBM_IO_BATCHED &&
	    (io->rank == QBNPU_MAX_RANK || (is_variable && batch != 1)))
		return qbrt_qbm_broken(
			reader, place,
			"BATCHED with rank %u, dyn_axis %u and batch "
			"%u",
			io->rank, io->dyn_axis, batch);
	if (io->layout == QBM_LAYOUT_HWC && io->rank != 3)
		return qbrt_qbm_broken(reader, place,
				       "layout HWC with rank %u, must be 3",
				       io->rank);
	return QBRT_OK;
}

static enum qbrt_status check_source(const struct qbm_reader *reader,
				     const struct qbm_place *place,
				     const struct qbm_io *io)
{
	uint32_t used = 0;
	uint32_t i;

	for (i = 0; i < qbrt_array_size(io->source_perm); i++) {
		uint32_t axis = io->source_perm[i];
		uint32_t num_axes = io->rank + (io->flags & QBM_IO_BATCHED);

		if (i >= io->source_rank && io->source_shape[i])
			return qbrt_qbm_broken(
				reader, place,
				"source_shape[%u] is %d, must be 0 "
				"with source_rank %u",
				i, io->source_shape[i], io->source_rank);
		if (axis == QBNPU_NONE8)
			continue;
		if (i >= num_axes || axis >= io->source_rank ||
		    used & 1u << axis)
			return qbrt_qbm_broken(
				reader, place,
				"source_perm[%u] is %u, with rank "
				"%u and source_rank %u",
				i, axis, io->rank, io->source_rank);
		used |= 1u << axis;
	}
	return QBRT_OK;
}

/* Scale or scales, zero point, and the factors of a folded normalisation. */
static enum qbrt_status check_numbers(const struct qbm_reader *reader,
				      const struct qbm_place *place,
				      const struct qbm_io *io)
{
	int32_t least = io->device_dtype == QBNPU_DTYPE_I8 ? -128 : 0;
	int32_t greatest = io->device_dtype == QBNPU_DTYPE_I8 ? 127 : 0;
	uint32_t i;

	if (io->device_dtype == QBNPU_DTYPE_U8)
		greatest = 255;
	if (io->zero_point < least || io->zero_point > greatest)
		return qbrt_qbm_broken(reader, place,
				       "zero_point is %d, must be %d to %d",
				       io->zero_point, least, greatest);
	if (!io->scale_count
		    ? io->scale_first || io->scale_axis != QBNPU_NONE8
		    : io->scale_axis >= io->rank ||
			      io->shape[io->scale_axis] !=
				      (int64_t)io->scale_count ||
			      (uint64_t)io->scale_first + io->scale_count >
				      reader->file->iotb->scale_count)
		return qbrt_qbm_broken(
			reader, place,
			"scale_first %u, scale_count %u and "
			"scale_axis %u do not fit the shape or the "
			"section's %u scales",
			io->scale_first, io->scale_count, io->scale_axis,
			reader->file->iotb->scale_count);
	if (io->scale_count ? io->scale != 0.0f : !is_scale(io->scale))
		return qbrt_qbm_broken(reader, place, "scale is %g, must be %s",
				       (double)io->scale,
				       io->scale_count
					       ? "0 as it is per channel"
					       : "2^-60 to 2^16");
	if (io->norm_channels == 2 ||
	    !!(io->flags & QBM_IO_NORMALISED) != !!io->norm_channels)
		return qbrt_qbm_broken(reader, place,
				       "norm_channels is %u with flags 0x%x",
				       io->norm_channels, io->flags);
	for (i = 0; i < io->norm_channels; i++)
		if (!isfinite(io->mean[i]) || !isfinite(io->std[i]) ||
		    io->std[i] <= 0.0f)
			return qbrt_qbm_broken(
				reader, place,
				"mean[%u] or std[%u] is no usable "
				"number",
				i, i);
	return QBRT_OK;
}

/* FM34 */
static enum qbrt_status check_accepted(const struct qbm_reader *reader,
				       const struct qbm_place *place,
				       const struct qbm_io *io)
{
	uint32_t wanted = 1u << io->host_dtype | 1u << io->device_dtype;

	if (io->accepted_dtypes != wanted)
		return qbrt_qbm_broken(reader, place,
				       "accepted_dtypes is 0x%x, must be 0x%x",
				       io->accepted_dtypes, wanted);
	return QBRT_OK;
}

static enum qbrt_status check_alias(const struct qbm_reader *reader,
				    const struct qbm_place *place,
				    const struct qbm_io *io)
{
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_io *input;

	if (io->alias == QBNPU_NONE32)
		return QBRT_OK;
	if (io->role != QBM_ROLE_OUTPUT || io->alias >= file->iotb->count)
		return qbrt_qbm_broken(reader, place,
				       "alias is %u, must be NONE", io->alias);
	input = &file->ios[io->alias];
	if (input->role != QBM_ROLE_INPUT || input->variant != io->variant ||
	    input->size != io->size)
		return qbrt_qbm_broken(
			reader, place,
			"alias is %u, which is no input of variant "
			"%u with %" PRIu64 " bytes",
			io->alias, io->variant, io->size);
	return QBRT_OK;
}

static enum qbrt_status check_io(const struct qbm_reader *reader,
				 uint32_t number)
{
	const struct qbm_io *io = &reader->file->ios[number];
	const struct qbm_place place = qbrt_qbm_io_place(reader, number);
	const struct qbm_field fields[] = {
		QBM_FIELD(qbm_io, variant, 0,
			  reader->file->vari->variant_count - 1),
		QBM_FIELD(qbm_io, role, 0, QBM_ROLE_STATE),
		QBM_FIELD(qbm_io, device_dtype, 0, QBNPU_NUM_DTYPES - 1),
		QBM_FIELD(qbm_io, host_dtype, 0, QBNPU_NUM_DTYPES - 1),
		QBM_FIELD(qbm_io, layout, 0, QBM_LAYOUT_HWC),
		QBM_FIELD(qbm_io, flags, 0, QBM_IO_BATCHED | QBM_IO_NORMALISED),
		QBM_FIELD(qbm_io, rank, 1, QBNPU_MAX_RANK),
		QBM_FIELD(qbm_io, source_rank, 0, QBNPU_MAX_RANK),
		QBM_FIELD(qbm_io, size, 1, QBNPU_MAX_BINDING_SIZE),
		QBM_FIELD(qbm_io, source_dtype, 0, QBNPU_NUM_DTYPES - 1),
		QBM_FIELD(qbm_io, state_init, 0, 1),
		QBM_FIELD(qbm_io, norm_channels, 0, 4),
		QBM_RESERVED(qbm_io, reserved0),
		QBM_RESERVED(qbm_io, reserved1),
	};
	static const struct qbm_field stateless[] = {
		QBM_FIXED(qbm_io, state_init, 0),
		QBM_FIXED(qbm_io, init_offset, 0),
		QBM_FIXED(qbm_io, state_offset, 0),
		QBM_FIXED(qbm_io, cache, QBNPU_NONE32),
	};
	enum qbrt_status status;

	status = qbrt_qbm_check_fields(reader, &place, io, fields,
				       qbrt_array_size(fields));
	if (!status)
		status = qbrt_qbm_check_string(reader, &place, "name", io->name,
					       false);
	if (!status)
		status = check_shape(reader, &place, io);
	if (!status)
		status = check_source(reader, &place, io);
	if (!status)
		status = check_numbers(reader, &place, io);
	if (!status)
		status = check_accepted(reader, &place, io);
	if (!status)
		status = check_alias(reader, &place, io);
	if (status)
		return status;
	if (io->role == QBM_ROLE_STATE)
		return qbrt_qbm_check_state(reader, &place, io);
	return qbrt_qbm_check_fields(reader, &place, io, stateless,
				     qbrt_array_size(stateless));
}

/* FM19, and that every entry of the range is the variant's, in order. */
static enum qbrt_status check_range(const struct qbm_reader *reader,
				    uint32_t variant, uint32_t role,
				    uint32_t first, uint32_t count)
{
	static const char *const roles[] = { "input", "output", "state" };
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_place place = {
		"variant", variant,
		qbrt_qbm_section_place(
			reader, qbrt_qbm_find_section(reader, QBM_KIND_VARI, 0),
			"VARI")
				.offset +
			file->vari->variants_offset +
			variant * sizeof(struct qbm_variant)
	};
	uint32_t i;

	if (count ? first > file->iotb->count ||
			    count > file->iotb->count - first
		  : first)
		return qbrt_qbm_broken(
			reader, &place,
			"first_%s %u and %s_count %u, IOTB has %u "
			"entries",
			roles[role], first, roles[role], count,
			file->iotb->count);
	for (i = 0; i < count; i++) {
		const struct qbm_io *io = &file->ios[first + i];

		if (io->variant != variant || io->role != role ||
		    io->index != i)
			return qbrt_qbm_broken(reader, &place,
					       "IOTB entry %u is not its %s %u",
					       first + i, roles[role], i);
	}
	return QBRT_OK;
}

/* Each entry of IOTB is in exactly one range, as each knows its place. */
static enum qbrt_status check_ranges(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	uint64_t total = 0;
	uint32_t i;

	for (i = 0; i < file->vari->variant_count; i++) {
		const struct qbm_variant *variant = &file->variants[i];
		const uint32_t ranges[][2] = {
			{ variant->first_input, variant->input_count },
			{ variant->first_output, variant->output_count },
			{ variant->first_state, variant->state_count },
		};
		uint32_t role;

		for (role = 0; role < qbrt_array_size(ranges); role++) {
			enum qbrt_status status =
				check_range(reader, i, role, ranges[role][0],
					    ranges[role][1]);

			if (status)
				return status;
			total += ranges[role][1];
		}
	}
	if (total != file->iotb->count) {
		struct qbm_place place = qbrt_qbm_section_place(
			reader, qbrt_qbm_find_section(reader, QBM_KIND_IOTB, 0),
			"IOTB");

		return qbrt_qbm_broken(reader, &place,
				       "%u entries, the variants have %" PRIu64,
				       file->iotb->count, total);
	}
	return QBRT_OK;
}

enum qbrt_status qbrt_qbm_check_ios(struct qbm_reader *reader)
{
	enum qbrt_status status = find_ios(reader);
	uint32_t i;

	for (i = 0; !status && i < reader->file->iotb->count; i++)
		status = check_io(reader, i);
	if (!status)
		status = check_ranges(reader);
	if (!status)
		status = qbrt_qbm_check_states(reader);
	return status;
}
