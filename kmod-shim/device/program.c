// SPDX-License-Identifier: MIT
/*
 * Turns a validated program into prepared commands, once, and walks them for
 * each item. Nothing of the program's bytes is kept: kernels copy what they
 * need of a command and its tensors (DV20).
 */
#include "program.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "util.h"

#define POISON 0xa5

/* Pace units of a command beyond its kernel. */
#define STEP_WORK 50u

/* Milliseconds on any machine: pace units that qbnpu_npu_ends_soon takes. */
#define SOON_WORK (UINT64_C(1) << 22)

/* Rule of a command without a kernel (BE01). */
#define RULE_NO_KERNEL 32u

/* Where a command has the number of its destination; 0: it has none here. */
static size_t find_dst(uint32_t opcode)
{
	switch (opcode) {
	case QBNPU_OP_TIMESTAMP:
		return offsetof(struct qbnpu_cmd_timestamp, dst);
	case QBNPU_OP_FILL:
		return offsetof(struct qbnpu_cmd_fill, dst);
	case QBNPU_OP_COPY:
		return offsetof(struct qbnpu_cmd_copy, dst);
	case QBNPU_OP_CRC:
		return offsetof(struct qbnpu_cmd_crc, dst);
	case QBNPU_OP_CONV2D:
		return offsetof(struct qbnpu_cmd_conv2d, dst);
	case QBNPU_OP_MATMUL:
		return offsetof(struct qbnpu_cmd_matmul, dst);
	case QBNPU_OP_POOL:
		return offsetof(struct qbnpu_cmd_pool, dst);
	case QBNPU_OP_UNARY:
		return offsetof(struct qbnpu_cmd_unary, dst);
	case QBNPU_OP_BINARY:
		return offsetof(struct qbnpu_cmd_binary, dst);
	case QBNPU_OP_CAST:
		return offsetof(struct qbnpu_cmd_cast, dst);
	default:
		return 0;
	}
}

static uint64_t compute_size(const struct qbnpu_operand *operand)
{
	uint64_t size = operand->element_size;
	uint32_t axis;

	for (axis = 0; axis < operand->rank; axis++)
		size *= operand->dims[axis];
	return size;
}

static bool is_delayed(const struct qbnpu_cmd *cmd)
{
	const struct qbnpu_cmd_nop *nop = (const void *)cmd;

	return cmd->opcode == QBNPU_OP_NOP && nop->delay_ns;
}

static uint64_t compute_write_size(const struct qbnpu_cmd *cmd,
				   const struct qbnpu_operand *operands)
{
	const size_t offset = find_dst(cmd->opcode);
	uint16_t dst;

	if (!offset)
		return 0;
	memcpy(&dst, (const char *)cmd + offset, sizeof(dst));
	return compute_size(&operands[dst]);
}

static struct qbnpu_operand *resolve_tensors(const struct qbnpu_program *header,
					     const struct qbnpu_facts *facts)
{
	const struct qbnpu_tensor *tensors =
		(const void *)((const char *)header + header->tensors_offset);
	struct qbnpu_operand *operands =
		calloc(header->tensor_count, sizeof(*operands));
	uint32_t i;

	if (!operands)
		return NULL;
	for (i = 0; i < header->tensor_count; i++) {
		const struct qbnpu_tensor *tensor = &tensors[i];
		struct qbnpu_operand *operand = &operands[i];

		operand->offset = tensor->offset;
		operand->binding = tensor->binding;
		operand->dtype = tensor->dtype;
		operand->rank = tensor->rank;
		operand->element_size = qbnpu_dtype_size(tensor->dtype);
		operand->is_constant = facts->bindings[tensor->binding].kind ==
				       QBNPU_BINDING_WEIGHTS;
		memcpy(operand->dims, tensor->dims, sizeof(operand->dims));
		memcpy(operand->strides, tensor->strides,
		       sizeof(operand->strides));
	}
	return operands;
}

/* Prepares every command; *kernel_size becomes the largest scratch of one. */
static int prepare_steps(struct qbnpu_executable *executable,
			 const struct qbnpu_kernels *kernels,
			 const struct qbnpu_program *header,
			 const struct qbnpu_operand *operands,
			 size_t *kernel_size)
{
	const char *at = (const char *)header + header->commands_offset;
	uint32_t i;
	int err;

	for (i = 0; i < header->command_count; i++) {
		struct qbnpu_step *step = &executable->steps[i];
		const struct qbnpu_prepare prepare = {
			.cmd = (const void *)at,
			.operands = operands,
			.weights = executable->weights,
		};
		size_t size;

		if (!kernels)
			return -EOPNOTSUPP;
		err = kernels->prepare(&prepare, &step->prepared);
		if (err)
			return err;
		step->kernels = kernels;
		executable->num_steps = i + 1;
		executable->has_delay |= is_delayed(prepare.cmd);
		executable->write_size +=
			compute_write_size(prepare.cmd, operands);
		size = kernels->scratch_size(step->prepared);
		assert(size <= QBNPU_KERNELS_MAX_SCRATCH);
		if (size > *kernel_size)
			*kernel_size = size;
		at += (size_t)prepare.cmd->size16 * 16;
	}
	return 0;
}

/* Zeroed, and its address a multiple of 1 << align_log2. */
static void *alloc_zeroed(uint64_t size, uint32_t align_log2, void **block)
{
	const uint64_t align = UINT64_C(1) << align_log2;

	/* calloc leaves large blocks to the system, untouched until used */
	*block = calloc(1, size + align);
	if (!*block)
		return NULL;
	return (char *)*block + (-(uint64_t)(uintptr_t)*block & (align - 1));
}

static int alloc_arenas(struct qbnpu_executable *executable, size_t kernel_size)
{
	const struct qbnpu_facts *facts = executable->facts;
	const struct qbnpu_binding_facts *scratch = NULL;
	uint32_t i, core;

	for (i = 0; i < facts->binding_count; i++) {
		if (facts->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			scratch = &facts->bindings[i];
	}
	for (core = 0; core < QBNPU_MAX_CORES; core++) {
		struct qbnpu_arena *arena = &executable->arenas[core];

		if (!(executable->core_mask >> core & 1))
			continue;
		if (scratch) {
			arena->scratch =
				alloc_zeroed(scratch->size, scratch->align_log2,
					     &arena->scratch_block);
			if (!arena->scratch)
				return -ENOMEM;
		}
		if (kernel_size) {
			arena->kernel =
				alloc_zeroed(kernel_size, QBNPU_MIN_ALIGN_LOG2,
					     &arena->kernel_block);
			if (!arena->kernel)
				return -ENOMEM;
		}
	}
	return 0;
}

void qbnpu_executable_free(struct qbnpu_executable *executable)
{
	uint32_t i;

	if (!executable)
		return;
	for (i = 0; i < executable->num_steps; i++)
		executable->steps[i].kernels->free(
			executable->steps[i].prepared);
	for (i = 0; i < QBNPU_MAX_CORES; i++) {
		free(executable->arenas[i].scratch_block);
		free(executable->arenas[i].kernel_block);
	}
	free(executable->steps);
	free(executable->facts);
	free(executable);
}

static struct qbnpu_executable *
alloc_executable(const struct qbnpu_facts *facts, uint32_t num_commands)
{
	struct qbnpu_executable *executable = calloc(1, sizeof(*executable));

	if (!executable)
		return NULL;
	executable->facts = malloc(facts->size);
	executable->steps = calloc(num_commands, sizeof(*executable->steps));
	if (!executable->facts || !executable->steps) {
		qbnpu_executable_free(executable);
		return NULL;
	}
	memcpy(executable->facts, facts, facts->size);
	return executable;
}

static int refuse(struct qbnpu_report *report, uint32_t command)
{
	*report = (struct qbnpu_report){
		.rule = RULE_NO_KERNEL,
		.command = command,
		.operand = QBNPU_NONE32,
	};
	return -EOPNOTSUPP;
}

int qbnpu_executable_load(struct qbnpu_npu *npu, const void *program,
			  const struct qbnpu_facts *facts, const void *weights,
			  uint64_t core_mask,
			  struct qbnpu_executable **executable,
			  struct qbnpu_report *report)
{
	const struct qbnpu_program *header = program;
	struct qbnpu_executable *made;
	struct qbnpu_operand *operands;
	size_t kernel_size = 0;
	int err;

	/* no kernel takes run-time extents */
	if (facts->param_count)
		return refuse(report, QBNPU_NONE32);
	made = alloc_executable(facts, header->command_count);
	if (!made)
		return -ENOMEM;
	made->weights = qbnpu_read_base(weights);
	made->core_mask = core_mask;
	made->poison = npu->poison;
	operands = resolve_tensors(header, facts);
	if (!operands) {
		err = -ENOMEM;
		goto err_free;
	}
	err = prepare_steps(made, npu->kernels, header, operands, &kernel_size);
	free(operands);
	if (err == -EOPNOTSUPP)
		err = refuse(report, made->num_steps);
	if (!err)
		err = alloc_arenas(made, kernel_size);
	if (err)
		goto err_free;
	made->read_size = facts->byte_count - made->write_size;
	atomic_fetch_add_explicit(&npu->counters.programs_loaded, 1,
				  memory_order_relaxed);
	*executable = made;
	return 0;

err_free:
	qbnpu_executable_free(made);
	return err;
}

const struct qbnpu_facts *
qbnpu_executable_get_facts(const struct qbnpu_executable *executable)
{
	return executable->facts;
}

bool qbnpu_npu_ends_soon(const struct qbnpu_npu *npu,
			 const struct qbnpu_executable *executable)
{
	const struct qbnpu_facts *facts = executable->facts;

	return !executable->has_delay &&
	       facts->mac_count + facts->byte_count +
			       (uint64_t)executable->num_steps * STEP_WORK <=
		       SOON_WORK &&
	       !atomic_load_explicit(&npu->faults.num_plans,
				     memory_order_relaxed);
}

/* V60: what is not written by this job is seen. */
static void poison_bindings(const struct qbnpu_facts *facts,
			    uint8_t *const *bases)
{
	uint32_t i;

	for (i = 0; i < facts->binding_count; i++) {
		const struct qbnpu_binding_facts *binding = &facts->bindings[i];

		if (binding->kind == QBNPU_BINDING_SCRATCH)
			memset(bases[i], POISON, binding->size);
		if (binding->kind != QBNPU_BINDING_OUTPUT)
			continue;
		/* an output that is its input holds what is to be read */
		if (binding->alias == QBNPU_NONE32 ||
		    bases[binding->alias] != bases[i])
			memset(bases[i], POISON, binding->size);
	}
}

static void find_bases(const struct qbnpu_executable *executable, uint32_t core,
		       const struct qbnpu_job *job, uint32_t item,
		       uint8_t **bases)
{
	const struct qbnpu_facts *facts = executable->facts;
	uint32_t i;

	for (i = 0; i < facts->binding_count; i++) {
		const struct qbnpu_range *range = &job->ranges[i];

		if (facts->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			bases[i] = executable->arenas[core].scratch;
		else if (facts->bindings[i].kind == QBNPU_BINDING_WEIGHTS)
			bases[i] = executable->weights;
		else
			bases[i] = (uint8_t *)range->base +
				   item * range->item_stride;
	}
}

int qbnpu_executable_run(const struct qbnpu_executable *executable,
			 uint32_t core, const struct qbnpu_job *job,
			 uint32_t item, struct qbnpu_pace *pace,
			 uint32_t *command)
{
	uint8_t *bases[QBNPU_MAX_BINDINGS];
	const struct qbnpu_run run = {
		.bases = bases,
		.scratch = executable->arenas[core].kernel,
		.pace = pace,
	};
	uint32_t i;
	int err = 0;

	find_bases(executable, core, job, item, bases);
	if (executable->poison)
		poison_bindings(executable->facts, bases);
	for (i = 0; i < executable->num_steps; i++) {
		const struct qbnpu_step *step = &executable->steps[i];

		err = qbnpu_pace_spend(pace, STEP_WORK);
		if (!err)
			err = step->kernels->run(step->prepared, &run);
		if (err)
			break;
	}
	*command = i;
	return err;
}
