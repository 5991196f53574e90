// SPDX-License-Identifier: MIT
/*
 * Lays a built program out (prog.h) and counts what is in it. The operand
 * offsets, multiply-accumulates (IS10) and feature bits (4.2) are written
 * here a second time, from the spec and not from validate.c: every good
 * program compares the two.
 */
#include "prog.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OPERANDS 8

/* Offsets of the operands inside a command, 0 ends the list. */
struct op_layout {
	uint32_t opcode;
	uint32_t size;
	uint32_t operands[MAX_OPERANDS + 1];
	uint32_t post; /* offset of the post block, 0 none */
};

static const struct op_layout op_layouts[] = {
	{ QBNPU_OP_NOP, 32, { 0 }, 0 },
	{ QBNPU_OP_BARRIER, 32, { 0 }, 0 },
	{ QBNPU_OP_TIMESTAMP, 32, { 16 }, 0 },
	{ QBNPU_OP_FILL, 32, { 16 }, 0 },
	{ QBNPU_OP_COPY, 32, { 16, 18 }, 0 },
	{ QBNPU_OP_CRC, 32, { 16, 18 }, 0 },
	{ QBNPU_OP_CONV2D, 80, { 16, 18, 20, 22 }, 48 },
	{ QBNPU_OP_DECONV2D, 80, { 16, 18, 20, 22 }, 48 },
	{ QBNPU_OP_MATMUL, 64, { 16, 18, 20, 22 }, 32 },
	{ QBNPU_OP_POOL, 48, { 16, 18 }, 0 },
	{ QBNPU_OP_UNARY, 32, { 16, 18 }, 0 },
	{ QBNPU_OP_BINARY, 48, { 16, 18, 20 }, 0 },
	{ QBNPU_OP_COMPARE, 32, { 16, 18, 20 }, 0 },
	{ QBNPU_OP_SELECT, 32, { 16, 18, 20, 22 }, 0 },
	{ QBNPU_OP_REDUCE, 32, { 16, 18 }, 0 },
	{ QBNPU_OP_SOFTMAX, 32, { 16, 18, 20 }, 0 },
	{ QBNPU_OP_LAYERNORM, 32, { 16, 18, 20, 22 }, 0 },
	{ QBNPU_OP_RESIZE, 48, { 16, 18 }, 0 },
	{ QBNPU_OP_PAD_REFLECT, 48, { 16, 18 }, 0 },
	{ QBNPU_OP_GATHER, 32, { 16, 18, 20 }, 0 },
	{ QBNPU_OP_QUANT, 32, { 16, 18, 20, 22 }, 0 },
	{ QBNPU_OP_CAST, 32, { 16, 18, 22, 24 }, 0 },
	{ QBNPU_OP_LUT8, 32, { 16, 18, 20 }, 0 },
	{ QBNPU_OP_LSTM_CELL, 48, { 16, 18, 20, 22, 24, 26, 28, 30 }, 0 },
};

static const struct op_layout *find_layout(uint32_t opcode)
{
	size_t i;

	for (i = 0; i < sizeof(op_layouts) / sizeof(op_layouts[0]); i++) {
		if (op_layouts[i].opcode == opcode)
			return &op_layouts[i];
	}
	return NULL;
}

uint32_t prog_command_size(uint32_t opcode)
{
	const struct op_layout *layout = find_layout(opcode);

	return layout ? layout->size : (uint32_t)sizeof(struct qbnpu_cmd);
}

static uint64_t get_span(const struct qbnpu_tensor *tensor)
{
	uint64_t span = prog_dtype_size(tensor->dtype);
	uint32_t i;

	for (i = 0; i < tensor->rank && i < QBNPU_MAX_RANK; i++) {
		uint64_t extent = tensor->dims[i];

		if (i == tensor->offset_axis && tensor->window)
			extent = tensor->window;
		span += (extent - 1) * tensor->strides[i];
	}
	return span;
}

/* What the counts and features of a program are made of. */
struct totals {
	uint64_t macs;
	uint64_t bytes;
	uint64_t features;
	uint32_t has_timestamp;
};

static const struct qbnpu_tensor *
operand_at(const struct prog *prog, const uint8_t *command, uint32_t offset)
{
	uint16_t number;

	memcpy(&number, command + offset, sizeof(number));
	return number < prog->num_tensors ? &prog->tensors[number] : NULL;
}

static uint64_t get_num_elements(const struct qbnpu_tensor *tensor)
{
	uint64_t num_elements = 1;
	uint32_t i;

	for (i = 0; i < tensor->rank && i < QBNPU_MAX_RANK; i++)
		num_elements *= tensor->dims[i];
	return num_elements;
}

/* IS10: elements of the destination (DECONV2D: positions of src) * depth */
static uint64_t get_macs(const struct prog *prog, const uint8_t *command,
			 uint32_t opcode)
{
	const struct qbnpu_tensor *src = operand_at(prog, command, 16);
	const struct qbnpu_tensor *wgt = operand_at(prog, command, 18);
	const struct qbnpu_tensor *dst = operand_at(prog, command, 22);

	if (!src || !wgt || !dst)
		return 0;
	switch (opcode) {
	case QBNPU_OP_CONV2D:
		return get_num_elements(dst) * wgt->dims[1] * wgt->dims[2] *
		       wgt->dims[3];
	case QBNPU_OP_DECONV2D:
		return (uint64_t)src->dims[0] * src->dims[1] * src->dims[2] *
		       get_num_elements(wgt);
	case QBNPU_OP_MATMUL:
		return src->rank ? get_num_elements(dst) *
					   src->dims[src->rank - 1]
				 : 0;
	case QBNPU_OP_LSTM_CELL: /* src is x, wgt is h */
		return (uint64_t)src->dims[0] * 4 * wgt->dims[1] *
		       ((uint64_t)src->dims[1] + wgt->dims[1]);
	default:
		return 0;
	}
}

static uint64_t get_features(const struct prog *prog, const uint8_t *command,
			     uint32_t opcode)
{
	const struct qbnpu_tensor *src = operand_at(prog, command, 16);
	struct qbnpu_cmd_nop nop;

	switch (opcode) {
	case QBNPU_OP_NOP:
		memcpy(&nop, command, sizeof(nop));
		return nop.delay_ns ? QBNPU_FEATURE_DIAG : 0;
	case QBNPU_OP_TIMESTAMP:
	case QBNPU_OP_CRC:
		return QBNPU_FEATURE_DIAG;
	case QBNPU_OP_CONV2D:
	case QBNPU_OP_DECONV2D:
	case QBNPU_OP_MATMUL:
	case QBNPU_OP_POOL:
	case QBNPU_OP_BINARY:
	case QBNPU_OP_REDUCE:
		return src && (src->dtype == QBNPU_DTYPE_U8 ||
			       src->dtype == QBNPU_DTYPE_I8)
			       ? QBNPU_FEATURE_INT8
			       : 0;
	case QBNPU_OP_QUANT:
	case QBNPU_OP_LUT8:
		return QBNPU_FEATURE_INT8;
	case QBNPU_OP_GATHER:
		return QBNPU_FEATURE_GATHER;
	case QBNPU_OP_LSTM_CELL:
		return QBNPU_FEATURE_LSTM;
	default:
		return 0;
	}
}

static void count_operand(const struct prog *prog, const uint8_t *command,
			  uint32_t offset, struct totals *totals)
{
	const struct qbnpu_tensor *tensor = operand_at(prog, command, offset);

	if (tensor)
		totals->bytes += get_num_elements(tensor) *
				 prog_dtype_size(tensor->dtype);
}

static void count_command(const struct prog *prog, const uint8_t *command,
			  struct totals *totals)
{
	struct qbnpu_cmd head;
	const struct op_layout *layout;
	uint32_t i;

	memcpy(&head, command, sizeof(head));
	layout = find_layout(head.opcode);
	if (!layout)
		return;
	for (i = 0; layout->operands[i]; i++)
		count_operand(prog, command, layout->operands[i], totals);
	if (layout->post)
		count_operand(prog, command, layout->post, totals);
	totals->macs += get_macs(prog, command, head.opcode);
	totals->features |= get_features(prog, command, head.opcode);
	totals->has_timestamp |= head.opcode == QBNPU_OP_TIMESTAMP;
}

static void count_program(const struct prog *prog, struct totals *totals)
{
	uint32_t offset = 0;
	uint32_t i;

	memset(totals, 0, sizeof(*totals));
	for (i = 0; i < prog->num_bindings; i++) {
		if (prog->bindings[i].kind == QBNPU_BINDING_STATE)
			totals->features |= QBNPU_FEATURE_STATE;
	}
	for (i = 0; i < prog->num_tensors; i++) {
		if (prog->tensors[i].dtype == QBNPU_DTYPE_F16 ||
		    prog->tensors[i].dtype == QBNPU_DTYPE_BF16)
			totals->features |= QBNPU_FEATURE_HALF;
	}
	if (prog->num_params)
		totals->features |= QBNPU_FEATURE_DYNAMIC;
	for (i = 0; i < prog->num_commands; i++) {
		struct qbnpu_cmd head;

		memcpy(&head, prog->commands + offset, sizeof(head));
		count_command(prog, prog->commands + offset, totals);
		offset += prog_command_size(head.opcode);
	}
}

static void fill_header(const struct prog *prog, struct qbnpu_program *header)
{
	struct totals totals;

	count_program(prog, &totals);
	*header = (struct qbnpu_program){
		.magic = QBNPU_PROGRAM_MAGIC,
		.isa_major = QBNPU_ISA_MAJOR,
		.isa_minor = QBNPU_ISA_MINOR,
		.isa_features = totals.features,
		.binding_count = prog->num_bindings,
		.tensor_count = prog->num_tensors,
		.list_count = 1,
		.command_count = prog->num_commands,
		.param_count = prog->num_params,
		.pool_count = prog->num_pool,
		.bindings_offset = sizeof(*header),
		.commands_size = prog->commands_size,
		.mac_count = totals.macs,
		.byte_count = totals.bytes,
		.core_mode = prog->core_mode,
		.batch = prog->batch,
		.flags = totals.has_timestamp ? QBNPU_PROGRAM_TIMESTAMPS : 0,
	};
	header->tensors_offset =
		header->bindings_offset +
		prog->num_bindings * (uint32_t)sizeof(prog->bindings[0]);
	header->lists_offset =
		header->tensors_offset +
		prog->num_tensors * (uint32_t)sizeof(prog->tensors[0]);
	header->params_offset =
		header->lists_offset + (uint32_t)sizeof(struct qbnpu_list);
	header->pool_offset =
		header->params_offset +
		prog->num_params * (uint32_t)sizeof(prog->params[0]);
	header->commands_offset =
		header->pool_offset + ((prog->num_pool * 4 + 15) & ~15u);
	header->size = header->commands_offset + prog->commands_size;
}

static void put(struct prog *prog, uint32_t offset, const void *from,
		size_t nbytes)
{
	if (nbytes)
		memcpy(prog->bytes + offset, from, nbytes);
}

void prog_finish(struct prog *prog)
{
	struct qbnpu_program header;
	struct qbnpu_list list = { 0 };
	uint32_t i;

	for (i = 0; i < prog->num_tensors; i++) {
		if (!prog->tensors[i].span)
			prog->tensors[i].span = get_span(&prog->tensors[i]);
	}
	fill_header(prog, &header);
	list.size = prog->commands_size;
	list.command_count = prog->num_commands;
	free(prog->bytes);
	prog->nbytes = header.size;
	prog->bytes = aligned_alloc(16, header.size);
	if (!prog->bytes)
		abort();
	memset(prog->bytes, 0, header.size);
	put(prog, 0, &header, sizeof(header));
	put(prog, header.bindings_offset, prog->bindings,
	    prog->num_bindings * sizeof(prog->bindings[0]));
	put(prog, header.tensors_offset, prog->tensors,
	    prog->num_tensors * sizeof(prog->tensors[0]));
	put(prog, header.lists_offset, &list, sizeof(list));
	put(prog, header.params_offset, prog->params,
	    prog->num_params * sizeof(prog->params[0]));
	put(prog, header.pool_offset, prog->pool, prog->num_pool * 4);
	put(prog, header.commands_offset, prog->commands, prog->commands_size);
}

struct qbnpu_program *prog_at_header(struct prog *prog)
{
	return (void *)prog->bytes;
}

struct qbnpu_binding_desc *prog_at_binding(struct prog *prog, uint32_t index)
{
	return (struct qbnpu_binding_desc
			*)(void *)(prog->bytes + sizeof(struct qbnpu_program)) +
	       index;
}

struct qbnpu_tensor *prog_at_tensor(struct prog *prog, uint32_t index)
{
	void *tensors = prog->bytes + sizeof(struct qbnpu_program) +
			prog->num_bindings * sizeof(struct qbnpu_binding_desc);

	return (struct qbnpu_tensor *)tensors + index;
}

struct qbnpu_list *prog_at_list(struct prog *prog)
{
	return (void *)prog_at_tensor(prog, prog->num_tensors);
}

void *prog_at_command(struct prog *prog, uint32_t index)
{
	uint8_t *command =
		prog->bytes + prog->nbytes - (size_t)prog->commands_size;
	const uint8_t *built = prog->commands;

	while (index--) {
		struct qbnpu_cmd head;

		memcpy(&head, built, sizeof(head));
		command += head.size16 * 16u;
		built += head.size16 * 16u;
	}
	return command;
}
