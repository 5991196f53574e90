// SPDX-License-Identifier: MIT
/*
 * V61: arbitrary bytes through the validator: as they are, and with the header's
 * derived numbers put right so that more gets past V01 to V06. Checks what a
 * caller relies on: codes and reports that the header promises, equal answers
 * to equal bytes, facts that say what the program says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "isa/bind.h"
#include "isa/validate.h"

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_SIZE (1u << 16)

static void demand(_Bool is_true)
{
	if (!is_true)
		abort();
}

static uint32_t round_up16(uint64_t size)
{
	return (uint32_t)((size + 15) & ~15ull);
}

/* Region offsets and sizes as the counts say, as far as they fit. */
static void mend(uint8_t *bytes, size_t size)
{
	struct qbnpu_program *program = (void *)bytes;

	if (size < sizeof(*program))
		return;
	program->magic = QBNPU_PROGRAM_MAGIC;
	program->isa_major = QBNPU_ISA_MAJOR;
	program->isa_minor = QBNPU_ISA_MINOR;
	program->size = size;
	program->list_count = 1;
	program->bindings_offset = sizeof(*program);
	program->tensors_offset = round_up16(program->bindings_offset +
					     program->binding_count * 32ull);
	program->lists_offset = round_up16(program->tensors_offset +
					   program->tensor_count * 128ull);
	program->params_offset = program->lists_offset + 16;
	program->pool_offset = round_up16(program->params_offset +
					  program->param_count * 16ull);
	program->commands_offset =
		round_up16(program->pool_offset + program->pool_count * 4ull);
	program->commands_size = (uint32_t)size - program->commands_offset;
}

static void check_facts(const struct qbnpu_program *program,
			const struct qbnpu_facts *facts, size_t work_size)
{
	const struct qbnpu_binding_desc *bindings =
		(const void *)((const uint8_t *)program +
			       program->bindings_offset);
	uint32_t num_written = 0;
	uint32_t i;

	demand(facts->size ==
	       sizeof(*facts) + facts->pair_count * sizeof(facts->pairs[0]));
	demand(facts->size <= work_size);
	demand(facts->binding_count == program->binding_count);
	demand(facts->param_count == program->param_count);
	demand(facts->pair_count <= 80);
	demand(facts->mac_count == program->mac_count);
	demand(facts->byte_count == program->byte_count);
	for (i = 0; i < facts->binding_count; i++) {
		const struct qbnpu_binding_facts *binding = &facts->bindings[i];

		demand(binding->size == bindings[i].size && binding->size);
		demand(binding->kind >= 1 && binding->kind <= 5);
		demand(binding->access && binding->access <= 3);
		demand(binding->align_log2 >= 6 && binding->align_log2 <= 21);
		if (binding->alias != QBNPU_NONE32)
			demand(facts->bindings[binding->alias].size ==
			       binding->size);
		num_written += binding->access >> 1;
	}
	for (i = 0; i < facts->pair_count; i++) {
		demand(facts->pairs[i].params >> facts->param_count == 0);
		demand((facts->pairs[i].twice & ~facts->pairs[i].params) == 0);
	}
	demand(num_written || !program->mac_count);
}

/* What a validated program asks for can be given: the largest parameters. */
static void check_submit(const struct qbnpu_facts *facts)
{
	struct qbnpu_bound bound[QBNPU_MAX_BINDINGS];
	uint32_t params[QBNPU_MAX_PARAMS] = { 0 };
	struct qbnpu_report report;
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < facts->binding_count; i++) {
		const struct qbnpu_binding_facts *binding = &facts->bindings[i];

		if (binding->kind == QBNPU_BINDING_WEIGHTS ||
		    binding->kind == QBNPU_BINDING_SCRATCH)
			continue;
		bound[count++] = (struct qbnpu_bound){
			.index = i,
			.access = binding->access,
			.rights = QBNPU_RIGHT_READ | QBNPU_RIGHT_WRITE,
			.align_log2 = QBNPU_MAX_ALIGN_LOG2,
			.buffer_id = i,
			.buffer_size = binding->size,
			.length = binding->size,
		};
	}
	for (i = 0; i < facts->param_count; i++)
		params[i] = facts->params[i].max;
	demand(!qbnpu_check_bindings(facts, bound, count, params, 1, &report));
}

static void run(const uint8_t *bytes, size_t size,
		const struct qbnpu_caps *caps)
{
	struct qbnpu_report report, again;
	struct qbnpu_work work = { NULL, 0, NULL, NULL };
	int err;

	work.size = qbnpu_validate_work_size(bytes, size);
	demand(work.size <= 8u << 20);
	if (work.size)
		work.memory = aligned_alloc(16, work.size);
	err = qbnpu_validate(bytes, size, caps, &work, &report);
	demand(!err || err == -ENOEXEC || err == -EOPNOTSUPP);
	demand(!err == !report.rule);
	demand(err != -EOPNOTSUPP || report.rule == 4);
	if (!err) {
		check_facts((const void *)bytes, report.facts, work.size);
		check_submit(report.facts);
	}
	demand(qbnpu_validate(bytes, size, caps, &work, &again) == err);
	demand(again.rule == report.rule && again.command == report.command &&
	       again.operand == report.operand && again.limit == report.limit);
	free(work.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qbnpu_caps caps = qbnpu_caps_isa;
	uint8_t *bytes;

	if (!size || size > MAX_SIZE)
		return 0;
	bytes = aligned_alloc(16, (size + 15) & ~15ull);
	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	run(bytes, size, &caps);
	caps.max_tensors /= 1024;
	caps.max_commands /= 1024;
	caps.max_extent /= 1024;
	caps.max_span /= 1024;
	caps.max_binding_size /= 1024;
	caps.max_intervals = 4;
	run(bytes, size, &caps);
	size &= ~(size_t)15;
	mend(bytes, size);
	if (size)
		run(bytes, size, &qbnpu_caps_isa);
	free(bytes);
	return 0;
}
