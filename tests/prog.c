// SPDX-License-Identifier: MIT
/*
 * The program builder of prog.h: bindings, tensors, parameters, pool and
 * commands. prog-finish.c lays them out.
 */
#include "prog.h"

#include <stdlib.h>
#include <string.h>

/* Doubles, so that a program of many commands is not copied for each. */
static void *grow(void *old, size_t old_nbytes, size_t nbytes)
{
	size_t capacity = 64;
	void *grown = old;

	while (capacity < nbytes)
		capacity *= 2;
	if (!old || capacity / 2 >= old_nbytes)
		grown = realloc(old, capacity);
	if (!grown)
		abort();
	return grown;
}

uint32_t prog_f32(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

uint64_t prog_f64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

uint32_t prog_dtype_size(uint32_t dtype)
{
	static const uint8_t sizes[QBNPU_NUM_DTYPES] = { 4, 1, 1, 2, 2, 2, 4,
							 4, 8, 8, 8, 1, 2 };

	return dtype < QBNPU_NUM_DTYPES ? sizes[dtype] : 1;
}

void prog_begin(struct prog *prog)
{
	memset(prog, 0, sizeof(*prog));
	prog->batch = 1;
}

void prog_end(struct prog *prog)
{
	free(prog->bytes);
	free(prog->tensors);
	free(prog->pool);
	free(prog->commands);
	memset(prog, 0, sizeof(*prog));
}

uint16_t prog_binding(struct prog *prog, uint32_t kind, uint64_t size)
{
	static const uint8_t access[] = {
		[QBNPU_BINDING_WEIGHTS] = QBNPU_ACCESS_READ,
		[QBNPU_BINDING_SCRATCH] =
			QBNPU_ACCESS_READ | QBNPU_ACCESS_WRITE,
		[QBNPU_BINDING_STATE] = QBNPU_ACCESS_READ | QBNPU_ACCESS_WRITE,
		[QBNPU_BINDING_INPUT] = QBNPU_ACCESS_READ,
		[QBNPU_BINDING_OUTPUT] = QBNPU_ACCESS_WRITE,
	};
	struct qbnpu_binding_desc *binding;

	if (prog->num_bindings == QBNPU_MAX_BINDINGS)
		abort();
	binding = &prog->bindings[prog->num_bindings];
	memset(binding, 0, sizeof(*binding));
	binding->kind = (uint8_t)kind;
	binding->access = access[kind];
	binding->align_log2 = QBNPU_MIN_ALIGN_LOG2;
	binding->tensor = QBNPU_NONE16;
	binding->alias = QBNPU_NONE16;
	binding->size = size;
	binding->io = QBNPU_NONE32;
	if (kind == QBNPU_BINDING_INPUT || kind == QBNPU_BINDING_OUTPUT)
		binding->io = prog->num_io++;
	return (uint16_t)prog->num_bindings++;
}

static uint64_t dense_size(uint32_t dtype, uint32_t rank, const uint32_t *dims)
{
	uint64_t size = prog_dtype_size(dtype);
	uint32_t i;

	for (i = 0; i < rank; i++)
		size *= dims[i];
	return size;
}

static struct qbnpu_tensor *add_tensor(struct prog *prog)
{
	prog->tensors =
		grow(prog->tensors, prog->num_tensors * sizeof(*prog->tensors),
		     (prog->num_tensors + 1) * sizeof(*prog->tensors));
	return &prog->tensors[prog->num_tensors++];
}

uint16_t prog_tensor(struct prog *prog, uint16_t binding, uint64_t offset,
		     uint32_t dtype, uint32_t rank, const uint32_t *dims)
{
	struct qbnpu_tensor *tensor = add_tensor(prog);
	uint64_t stride = prog_dtype_size(dtype);
	uint32_t i;

	memset(tensor, 0, sizeof(*tensor));
	tensor->dtype = (uint8_t)dtype;
	tensor->rank = (uint8_t)rank;
	tensor->binding = binding;
	tensor->quant_axis = QBNPU_NONE8;
	tensor->offset_axis = QBNPU_NONE8;
	tensor->offset = offset;
	tensor->quant = QBNPU_NONE32;
	if (dtype == QBNPU_DTYPE_U8 || dtype == QBNPU_DTYPE_I8 ||
	    dtype == QBNPU_DTYPE_I32)
		tensor->scale = prog_f32(1.0f);
	for (i = rank; i-- > 0;) {
		tensor->dims[i] = dims[i];
		tensor->strides[i] = stride;
		stride *= dims[i];
	}
	return (uint16_t)(prog->num_tensors - 1);
}

static uint16_t add_io(struct prog *prog, uint32_t kind, uint32_t dtype,
		       uint32_t rank, const uint32_t *dims)
{
	uint16_t binding =
		prog_binding(prog, kind, dense_size(dtype, rank, dims));

	prog->bindings[binding].tensor =
		prog_tensor(prog, binding, 0, dtype, rank, dims);
	return prog->bindings[binding].tensor;
}

uint16_t prog_input(struct prog *prog, uint32_t dtype, uint32_t rank,
		    const uint32_t *dims)
{
	return add_io(prog, QBNPU_BINDING_INPUT, dtype, rank, dims);
}

uint16_t prog_output(struct prog *prog, uint32_t dtype, uint32_t rank,
		     const uint32_t *dims)
{
	return add_io(prog, QBNPU_BINDING_OUTPUT, dtype, rank, dims);
}

static uint16_t add_shared(struct prog *prog, uint32_t kind, uint32_t dtype,
			   uint32_t rank, const uint32_t *dims)
{
	struct qbnpu_binding_desc *binding;
	uint64_t offset;
	uint32_t i;

	for (i = 0; i < prog->num_bindings; i++) {
		if (prog->bindings[i].kind == kind)
			break;
	}
	if (i == prog->num_bindings)
		prog_binding(prog, kind, 0);
	binding = &prog->bindings[i];
	offset = binding->size;
	binding->size += (dense_size(dtype, rank, dims) + 63) & ~63ull;
	return prog_tensor(prog, (uint16_t)i, offset, dtype, rank, dims);
}

uint16_t prog_weights(struct prog *prog, uint32_t dtype, uint32_t rank,
		      const uint32_t *dims)
{
	return add_shared(prog, QBNPU_BINDING_WEIGHTS, dtype, rank, dims);
}

uint16_t prog_scratch(struct prog *prog, uint32_t dtype, uint32_t rank,
		      const uint32_t *dims)
{
	return add_shared(prog, QBNPU_BINDING_SCRATCH, dtype, rank, dims);
}

uint16_t prog_state(struct prog *prog, uint32_t dtype, uint32_t rank,
		    const uint32_t *dims)
{
	return add_shared(prog, QBNPU_BINDING_STATE, dtype, rank, dims);
}

uint16_t prog_view(struct prog *prog, uint16_t tensor)
{
	struct qbnpu_tensor *view = add_tensor(prog);

	*view = prog->tensors[tensor];
	view->span = 0;
	return (uint16_t)(prog->num_tensors - 1);
}

struct qbnpu_tensor *prog_get_tensor(struct prog *prog, uint16_t tensor)
{
	return &prog->tensors[tensor];
}

uint8_t prog_param(struct prog *prog, uint32_t kind, uint32_t min, uint32_t max,
		   uint32_t multiple)
{
	if (prog->num_params == QBNPU_MAX_PARAMS)
		abort();
	prog->params[prog->num_params] =
		(struct qbnpu_param){ min, max, multiple, kind };
	return (uint8_t)(1u << prog->num_params++);
}

uint32_t prog_pool(struct prog *prog, const float *values, uint32_t count)
{
	uint32_t first = prog->num_pool;

	prog->pool = grow(prog->pool, first * sizeof(*prog->pool),
			  (first + count) * sizeof(*prog->pool));
	memcpy(prog->pool + first, values, count * sizeof(*prog->pool));
	prog->num_pool += count;
	return first;
}

static void set_none(void *command, uint32_t offset)
{
	const uint16_t none = QBNPU_NONE16;

	memcpy((uint8_t *)command + offset, &none, sizeof(none));
}

static void set_window(void *command)
{
	struct qbnpu_cmd_conv2d *conv = command;

	memset(&conv->kh, 1, 6); /* kh kw sh sw dh dw */
}

static void set_post(struct qbnpu_post *post)
{
	post->residual = QBNPU_NONE16;
	post->requant = QBNPU_NONE32;
}

static void set_neutral(void *command, uint32_t opcode)
{
	const uint32_t one = prog_f32(1.0f);

	switch (opcode) {
	case QBNPU_OP_CONV2D:
	case QBNPU_OP_DECONV2D:
		set_window(command);
		set_none(command, 20);
		((struct qbnpu_cmd_conv2d *)command)->groups = 1;
		set_post(&((struct qbnpu_cmd_conv2d *)command)->post);
		break;
	case QBNPU_OP_MATMUL:
		set_none(command, 20);
		((struct qbnpu_cmd_matmul *)command)->alpha = one;
		set_post(&((struct qbnpu_cmd_matmul *)command)->post);
		break;
	case QBNPU_OP_POOL:
		set_window(command);
		break;
	case QBNPU_OP_UNARY:
		((struct qbnpu_cmd_unary *)command)->fn = 1;
		break;
	case QBNPU_OP_BINARY:
	case QBNPU_OP_COMPARE: /* same offset */
		((struct qbnpu_cmd_binary *)command)->fn = 1;
		break;
	case QBNPU_OP_REDUCE:
		((struct qbnpu_cmd_reduce *)command)->fn = 1;
		break;
	case QBNPU_OP_SOFTMAX:
		set_none(command, 20);
		((struct qbnpu_cmd_softmax *)command)->scale = one;
		break;
	case QBNPU_OP_LAYERNORM:
		set_none(command, 18);
		set_none(command, 20);
		break;
	case QBNPU_OP_RESIZE:
		((struct qbnpu_cmd_resize *)command)->scale_h = prog_f64(1.0);
		((struct qbnpu_cmd_resize *)command)->scale_w = prog_f64(1.0);
		break;
	case QBNPU_OP_PAD_REFLECT:
		((struct qbnpu_cmd_pad_reflect *)command)->mode =
			QBNPU_PAD_MODE_REFLECT;
		break;
	case QBNPU_OP_QUANT:
		set_none(command, 20);
		set_none(command, 22);
		break;
	case QBNPU_OP_CAST:
		set_none(command, 22);
		set_none(command, 24);
		break;
	case QBNPU_OP_LSTM_CELL:
		set_none(command, 26);
		break;
	default:
		break;
	}
}

void *prog_cmd(struct prog *prog, uint32_t opcode)
{
	uint32_t size = prog_command_size(opcode);
	struct qbnpu_cmd *head;

	prog->commands = grow(prog->commands, prog->commands_size,
			      prog->commands_size + size);
	head = (void *)(prog->commands + prog->commands_size);
	memset(head, 0, size);
	head->opcode = (uint16_t)opcode;
	head->size16 = (uint16_t)(size / 16);
	set_neutral(head, opcode);
	prog->commands_size += size;
	prog->num_commands++;
	return head;
}

void prog_fill(struct prog *prog, uint16_t dst, uint64_t value)
{
	struct qbnpu_cmd_fill *fill = prog_cmd(prog, QBNPU_OP_FILL);

	fill->dst = dst;
	fill->value = value;
}

void prog_copy(struct prog *prog, uint16_t src, uint16_t dst)
{
	struct qbnpu_cmd_copy *copy = prog_cmd(prog, QBNPU_OP_COPY);

	copy->src = src;
	copy->dst = dst;
}

void prog_unary(struct prog *prog, uint32_t fn, uint16_t src, uint16_t dst,
		float a, float b)
{
	struct qbnpu_cmd_unary *unary = prog_cmd(prog, QBNPU_OP_UNARY);

	unary->src = src;
	unary->dst = dst;
	unary->fn = (uint16_t)fn;
	unary->p_a = prog_f32(a);
	unary->p_b = prog_f32(b);
}

void prog_binary(struct prog *prog, uint32_t fn, uint16_t a, uint16_t b,
		 uint16_t dst)
{
	struct qbnpu_cmd_binary *binary = prog_cmd(prog, QBNPU_OP_BINARY);

	binary->a = a;
	binary->b = b;
	binary->dst = dst;
	binary->fn = (uint16_t)fn;
}

void prog_copy64(struct prog *prog)
{
	uint16_t src, dst;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_U8, DIMS(64));
	dst = prog_output(prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_get_tensor(prog, src)->name = 32;
	prog_get_tensor(prog, dst)->name = 34;
	prog_copy(prog, src, dst);
	prog_finish(prog);
}
