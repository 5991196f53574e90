// SPDX-License-Identifier: MIT
/*
 * Every program passes the
 * validator first; after that its tables are inside its bytes, and what IOTB
 * and VARI say about it is compared. A driver validates its own copy again and
 * never sees the container, so nothing here protects the device: it protects
 * callers from buffers that do not fit.
 */
#include "model-file-parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "util.h"

/* LD06 */
static enum qbrt_status refuse_program(const struct qbm_reader *reader,
				       uint32_t number,
				       const struct qbnpu_report *report)
{
	const char *nodes;

	if (report->command == QBNPU_NONE32)
		return qbrt_fail(QBRT_MODEL_PROGRAM_REJECTED,
				 "%s: program %u: rule V%02u refuses its "
				 "header or tables, at %u, limit %" PRIu64,
				 reader->name, number, report->rule,
				 report->operand, report->limit);
	nodes = qbrt_model_file_get_node(reader->file, number, report->command);
	return qbrt_fail(QBRT_MODEL_PROGRAM_REJECTED,
			 "%s: program %u: rule V%02u refuses command %u%s%s%s, "
			 "operand %u, limit %" PRIu64,
			 reader->name, number, report->rule, report->command,
			 *nodes ? " (" : "", nodes, *nodes ? ")" : "",
			 report->operand, report->limit);
}

static enum qbrt_status keep_facts(const struct qbm_reader *reader,
				   uint32_t number,
				   const struct qbnpu_facts *facts)
{
	struct qbnpu_facts *copy = malloc(facts->size);

	if (!copy)
		return qbrt_fail(QBM_NO_SPACE, "%s: no memory for program %u",
				 reader->name, number);
	memcpy(copy, facts, facts->size);
	reader->file->programs[number].facts = copy;
	return QBRT_OK;
}

static enum qbrt_status validate(const struct qbm_reader *reader,
				 uint32_t number)
{
	const struct qbrt_model_program *program =
		&reader->file->programs[number];
	struct qbnpu_report report = { 0 };
	struct qbnpu_work work = { 0 };
	enum qbrt_status status;
	int err;

	work.size = qbnpu_validate_work_size(program->data, program->size);
	if (work.size) {
		work.memory = malloc(work.size);
		if (!work.memory)
			return qbrt_fail(QBM_NO_SPACE,
					 "%s: no memory to validate program %u",
					 reader->name, number);
	}
	err = qbnpu_validate(program->data, program->size, &qbnpu_caps_isa,
			     &work, &report);
	if (err)
		status = refuse_program(reader, number, &report);
	else
		status = keep_facts(reader, number, report.facts);
	free(work.memory);
	return status;
}

static const struct qbnpu_program *
get_header(const struct qbrt_model_program *program)
{
	return program->data;
}

static struct qbm_place program_place(const struct qbm_reader *reader,
				      uint32_t number)
{
	struct qbm_place place = qbrt_qbm_section_place(
		reader, qbrt_qbm_find_section(reader, QBM_KIND_PROG, number),
		"PROG");

	place.index = number;
	return place;
}

/* Header fields that sum up the programs, and the names of their tensors. */
static enum qbrt_status check_header(const struct qbm_reader *reader)
{
	const struct qbrt_model_file *file = reader->file;
	const struct qbm_place head = { "header", QBNPU_NONE32, 0 };
	uint64_t features = 0;
	uint32_t minor = 0;
	uint32_t i;
	uint32_t t;

	for (i = 0; i < file->num_programs; i++) {
		const struct qbnpu_program *program =
			get_header(&file->programs[i]);
		const struct qbnpu_tensor *tensors =
			(const void *)((const char *)program +
				       program->tensors_offset);
		const struct qbm_place place = program_place(reader, i);

		features |= program->isa_features;
		if (program->isa_minor > minor)
			minor = program->isa_minor;
		for (t = 0; t < program->tensor_count; t++) {
			enum qbrt_status status = qbrt_qbm_check_string(
				reader, &place, "tensor name", tensors[t].name,
				false);

			if (status)
				return status;
		}
	}
	if (features != file->header.isa_features)
		return qbrt_qbm_broken(reader, &head,
				       "isa_features is 0x%" PRIx64
				       ", the programs use 0x%" PRIx64,
				       file->header.isa_features, features);
	if (minor != file->header.isa_minor)
		return qbrt_qbm_broken(reader, &head,
				       "isa_minor is %u, the programs have %u",
				       file->header.isa_minor, minor);
	return QBRT_OK;
}

/* What one binding is compared with. */
struct match {
	const struct qbm_reader *reader;
	const struct qbm_variant *variant;
	const struct qbnpu_program *program;
	const struct qbnpu_binding_desc *bindings;
	const struct qbnpu_tensor *tensors;
	const struct qbnpu_param *params;
	struct qbm_place place;
};

static enum qbrt_status check_axis(const struct match *match,
				   const struct qbm_io *io,
				   const struct qbnpu_tensor *tensor,
				   uint32_t axis)
{
	uint32_t first = io->flags & QBM_IO_BATCHED ? 1 : 0;
	uint32_t extent = match->variant->batch;
	uint32_t mask = 0;

	if (axis >= first && axis - first == io->dyn_axis) {
		const struct qbnpu_param *param = &match->params[io->dyn_param];

		mask = 1u << io->dyn_param;
		if (io->dyn_param >= match->program->param_count ||
		    (int64_t)param->multiple !=
			    -(int64_t)io->shape[axis - first])
			return qbrt_qbm_broken(
				match->reader, &match->place,
				"IOTB entry %u of variant %u has the "
				"variable extent %d by parameter %u, "
				"which the program has not",
				io->index, io->variant, io->shape[axis - first],
				io->dyn_param);
		extent = param->max;
	} else if (axis >= first) {
		extent = (uint32_t)io->shape[axis - first];
	}
	if (tensor->dims[axis] != extent || tensor->extent_params[axis] != mask)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"axis %u of tensor \"%s\" has extent %u by "
			"parameters 0x%x, IOTB says %u by 0x%x",
			axis,
			qbrt_model_file_string(match->reader->file,
					       tensor->name),
			tensor->dims[axis], tensor->extent_params[axis], extent,
			mask);
	return QBRT_OK;
}

static enum qbrt_status check_tensor(const struct match *match, uint32_t number)
{
	const struct qbrt_model_file *file = match->reader->file;
	const struct qbnpu_binding_desc *binding = &match->bindings[number];
	const struct qbnpu_tensor *tensor = &match->tensors[binding->tensor];
	const struct qbm_io *io = &file->ios[binding->io];
	uint32_t rank = io->rank + (io->flags & QBM_IO_BATCHED ? 1u : 0u);
	uint32_t alias = QBNPU_NONE32;
	enum qbrt_status status;
	uint32_t axis;

	if (tensor->dtype != io->device_dtype || tensor->rank != rank)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"binding %u has type %u and rank %u, IOTB "
			"entry %u says %u and %u",
			number, tensor->dtype, tensor->rank, binding->io,
			io->device_dtype, rank);
	for (axis = 0; axis < rank; axis++) {
		status = check_axis(match, io, tensor, axis);
		if (status)
			return status;
	}
	if (binding->alias != QBNPU_NONE16)
		alias = match->bindings[binding->alias].io;
	if (binding->size != io->size || alias != io->alias)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"binding %u has %" PRIu64
			" bytes and alias %u, IOTB entry %u says "
			"%" PRIu64 " and %u",
			number, binding->size, alias, binding->io, io->size,
			io->alias);
	return QBRT_OK;
}

/* An INPUT or OUTPUT: one of the variant's, and equal to its entry. */
static enum qbrt_status check_io_binding(const struct match *match,
					 uint32_t number, uint32_t first,
					 uint32_t count)
{
	const struct qbnpu_binding_desc *binding = &match->bindings[number];

	if (binding->io < first || binding->io - first >= count)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"io of binding %u is %u, the variant has %u "
			"entries of this role from %u on",
			number, binding->io, count, first);
	return check_tensor(match, number);
}

static enum qbrt_status check_binding(const struct match *match,
				      uint32_t number)
{
	const struct qbrt_model_file *file = match->reader->file;
	const struct qbnpu_binding_desc *binding = &match->bindings[number];
	uint64_t state_size = file->iotb->state_size;

	switch (binding->kind) {
	case QBNPU_BINDING_INPUT:
		return check_io_binding(match, number,
					match->variant->first_input,
					match->variant->input_count);
	case QBNPU_BINDING_OUTPUT:
		return check_io_binding(match, number,
					match->variant->first_output,
					match->variant->output_count);
	case QBNPU_BINDING_WEIGHTS:
		if (binding->size > file->weights_size)
			return qbrt_qbm_broken(match->reader, &match->place,
					       "WEIGHTS has %" PRIu64
					       " bytes, section WGHT %" PRIu64,
					       binding->size,
					       file->weights_size);
		return QBRT_OK;
	case QBNPU_BINDING_STATE:
		if (binding->size != state_size)
			return qbrt_qbm_broken(match->reader, &match->place,
					       "STATE has %" PRIu64
					       " bytes, IOTB says %" PRIu64,
					       binding->size, state_size);
		return QBRT_OK;
	default:
		return QBRT_OK;
	}
}

/* How many bindings of a kind: no two of them have the same io (V14). */
static uint32_t count_bindings(const struct match *match, uint32_t kind)
{
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < match->program->binding_count; i++)
		count += match->bindings[i].kind == kind;
	return count;
}

static enum qbrt_status check_bindings(const struct match *match)
{
	uint32_t inputs = count_bindings(match, QBNPU_BINDING_INPUT);
	uint32_t outputs = count_bindings(match, QBNPU_BINDING_OUTPUT);
	uint32_t states = count_bindings(match, QBNPU_BINDING_STATE);
	uint32_t i;

	for (i = 0; i < match->program->binding_count; i++) {
		enum qbrt_status status = check_binding(match, i);

		if (status)
			return status;
	}
	if (inputs != match->variant->input_count ||
	    outputs != match->variant->output_count)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"%u inputs and %u outputs, its variant has "
			"%u and %u",
			inputs, outputs, match->variant->input_count,
			match->variant->output_count);
	if (states != !!match->reader->file->iotb->state_size)
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"%u STATE bindings, IOTB's state_size is "
			"%" PRIu64,
			states, match->reader->file->iotb->state_size);
	return QBRT_OK;
}

/* Parameters that the variant names are of that kind and size. */
static enum qbrt_status check_params(const struct match *match)
{
	const struct qbm_variant *variant = match->variant;
	uint32_t num = match->program->param_count;
	uint32_t seq = variant->seq_param;
	uint32_t past = variant->past_param;

	if (seq != QBNPU_NONE32 &&
	    (seq >= num || match->params[seq].kind != QBNPU_PARAM_TOKENS ||
	     match->params[seq].max != variant->max_tokens))
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"seq_param %u of its variant is no tokens "
			"parameter of at most %u",
			seq, variant->max_tokens);
	if (past != QBNPU_NONE32 &&
	    (past >= num || match->params[past].kind != QBNPU_PARAM_CACHE ||
	     match->params[past].max > variant->max_cache))
		return qbrt_qbm_broken(
			match->reader, &match->place,
			"past_param %u of its variant is no cache "
			"parameter of at most %u",
			past, variant->max_cache);
	return QBRT_OK;
}

/* FM21: a bundle's programs are the same but for the core mode. */
static enum qbrt_status check_equal(const struct qbm_reader *reader,
				    uint32_t number, uint32_t first)
{
	const size_t from = offsetof(struct qbnpu_program, core_mode);
	const size_t to = from + sizeof(uint32_t);
	const struct qbrt_model_program *a = &reader->file->programs[first];
	const struct qbrt_model_program *b = &reader->file->programs[number];
	const struct qbm_place place = program_place(reader, number);

	if (a->size != b->size || memcmp(a->data, b->data, from) != 0 ||
	    memcmp((const char *)a->data + to, (const char *)b->data + to,
		   a->size - to) != 0)
		return qbrt_qbm_broken(
			reader, &place,
			"differs from program %u of its bundle in "
			"more than the core mode",
			first);
	return QBRT_OK;
}

static uint64_t get_scratch_size(const struct match *match)
{
	uint32_t i;

	for (i = 0; i < match->program->binding_count; i++)
		if (match->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			return match->bindings[i].size;
	return 0;
}

/* One program in one mode of a variant, against the variant's bundle. */
static enum qbrt_status check_program(const struct qbm_reader *reader,
				      uint32_t variant, uint32_t mode)
{
	const struct qbm_bundle *bundle = &reader->file->bundles[variant];
	uint32_t number = bundle->program[mode];
	const struct qbnpu_program *program =
		get_header(&reader->file->programs[number]);
	const char *bytes = (const char *)program;
	const struct match match = {
		.reader = reader,
		.variant = &reader->file->variants[variant],
		.program = program,
		.bindings = (const void *)(bytes + program->bindings_offset),
		.tensors = (const void *)(bytes + program->tensors_offset),
		.params = (const void *)(bytes + program->params_offset),
		.place = program_place(reader, number),
	};
	uint32_t core_mode =
		mode == QBNPU_MODE_MULTI ? QBNPU_MODE_SINGLE : mode;
	enum qbrt_status status;

	if (program->core_mode != core_mode ||
	    program->batch != match.variant->batch ||
	    program->mac_count != bundle->mac_count ||
	    get_scratch_size(&match) != bundle->scratch_size)
		return qbrt_qbm_broken(
			reader, &match.place,
			"core_mode %u, batch %u, mac_count %" PRIu64
			", scratch %" PRIu64 ": variant and bundle "
			"%u say %u, %u, %" PRIu64 ", %" PRIu64,
			program->core_mode, program->batch, program->mac_count,
			get_scratch_size(&match), variant, core_mode,
			match.variant->batch, bundle->mac_count,
			bundle->scratch_size);
	status = check_bindings(&match);
	return status ? status : check_params(&match);
}

static enum qbrt_status check_bundle(const struct qbm_reader *reader,
				     uint32_t variant)
{
	const struct qbm_bundle *bundle = &reader->file->bundles[variant];
	uint32_t first = bundle->program[__builtin_ctz(bundle->mode_mask)];
	uint32_t mode;

	for (mode = 0; mode < QBM_NUM_MODES; mode++) {
		enum qbrt_status status;

		if (!(bundle->mode_mask & 1u << mode))
			continue;
		status = check_program(reader, variant, mode);
		if (!status)
			status = check_equal(reader, bundle->program[mode],
					     first);
		if (status)
			return status;
	}
	return QBRT_OK;
}

enum qbrt_status qbrt_qbm_check_programs(struct qbm_reader *reader)
{
	enum qbrt_status status = qbrt_qbm_find_programs(reader);
	uint32_t i;

	for (i = 0; !status && i < reader->file->num_programs; i++)
		status = validate(reader, i);
	if (!status)
		status = check_header(reader);
	for (i = 0; !status && i < reader->file->vari->variant_count; i++)
		status = check_bundle(reader, i);
	return status;
}
