// SPDX-License-Identifier: MIT
/*
 * One run of bytes that nobody trusts. Inputs, states and weights are small
 * numbers in whatever type; the device is one with poison or without.
 */
#include "guarded-run.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#define CANARY 0xc3
#define MAX_BINDING (UINT64_C(1) << 20)

/* Memory of one binding; its canaries are margin bytes on each side. */
struct guarded_memory {
	uint8_t *block;
	uint64_t margin, size;
};

struct guarded_bindings {
	struct guarded_memory memory[QBNPU_MAX_BINDINGS];
	uint32_t num;
};

struct qbnpu_caps guarded_caps(struct qbnpu_npu *npu)
{
	struct qbnpu_caps caps = qbnpu_npu_get_facts(npu)->caps;

	caps.max_binding_size = MAX_BINDING;
	caps.max_span = MAX_BINDING;
	caps.max_command_macs = 1u << 20;
	caps.max_program_macs = 1u << 22;
	caps.max_byte_count = 1u << 24;
	caps.max_delay_ns /= 1024 * 8;
	caps.max_delays_ns /= 1024 * 512;
	caps.max_tensors = 64;
	caps.max_commands /= 1024;
	caps.max_extent /= 1024;
	caps.max_pool /= 1024;
	return caps;
}

static bool alloc_memory(struct guarded_memory *memory,
			 const struct qbnpu_binding_facts *binding)
{
	const uint64_t align = UINT64_C(1) << binding->align_log2;
	void *block;
	uint64_t i;

	memory->margin = align > 256 ? align : 256;
	memory->size = binding->size;
	if (posix_memalign(&block, align, 2 * memory->margin + memory->size))
		return false;
	memory->block = block;
	memset(memory->block, CANARY, 2 * memory->margin + memory->size);
	for (i = 0; i < memory->size; i++)
		memory->block[memory->margin + i] =
			i % 4 == 3 ? 0x3f : (uint8_t)i;
	ASAN_POISON_MEMORY_REGION(memory->block, memory->margin);
	ASAN_POISON_MEMORY_REGION(memory->block + memory->margin + memory->size,
				  memory->margin);
	return true;
}

/* Frees it; whether its canaries are whole. */
static bool free_memory(struct guarded_memory *memory)
{
	bool is_whole = true;
	uint64_t i;

	if (!memory->block)
		return true;
	ASAN_UNPOISON_MEMORY_REGION(memory->block,
				    2 * memory->margin + memory->size);
	for (i = 0; i < memory->margin; i++)
		is_whole &= memory->block[i] == CANARY &&
			    memory->block[memory->margin + memory->size + i] ==
				    CANARY;
	free(memory->block);
	return is_whole;
}

static bool alloc_bindings(struct guarded_bindings *bindings,
			   const struct qbnpu_facts *facts,
			   struct qbnpu_range *ranges, const void **weights)
{
	uint32_t i;

	bindings->num = facts->binding_count;
	for (i = 0; i < facts->binding_count; i++) {
		struct guarded_memory *memory = &bindings->memory[i];

		if (facts->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			continue;
		if (!alloc_memory(memory, &facts->bindings[i]))
			return false;
		ranges[i] = (struct qbnpu_range){
			.base = memory->block + memory->margin,
			.length = memory->size,
		};
		if (facts->bindings[i].kind == QBNPU_BINDING_WEIGHTS)
			*weights = ranges[i].base;
	}
	return true;
}

static bool free_bindings(struct guarded_bindings *bindings)
{
	bool is_whole = true;
	uint32_t i;

	for (i = 0; i < bindings->num; i++)
		is_whole &= free_memory(&bindings->memory[i]);
	return is_whole;
}

static void ignore(struct qbnpu_job *job)
{
	(void)job;
}

static enum guarded_end run_job(struct qbnpu_npu *npu,
				struct qbnpu_executable *executable,
				struct qbnpu_range *ranges)
{
	struct qbnpu_job job = {
		.type = QBNPU_JOB_RUN,
		.item_count = 1,
		.core_mask = 1,
		.deadline_ns = INT64_MAX,
		.limit_ns = 60 * QBRT_NS_PER_SEC,
		.executable = executable,
		.ranges = ranges,
		.done = ignore,
	};

	if (qbnpu_npu_run(npu, &job) || job.result.status)
		return GUARDED_BROKEN;
	return GUARDED_RAN;
}

static enum guarded_end load_and_run(struct qbnpu_npu *npu,
				     const struct qbnpu_program *program,
				     const struct qbnpu_facts *facts,
				     struct qbnpu_report *report)
{
	struct qbnpu_range ranges[QBNPU_MAX_BINDINGS] = { { 0 } };
	struct guarded_bindings bindings = { .num = 0 };
	struct qbnpu_executable *executable = NULL;
	enum guarded_end end = GUARDED_NO_MEMORY;
	const void *weights = NULL;
	int err;

	if (alloc_bindings(&bindings, facts, ranges, &weights)) {
		err = qbnpu_executable_load(npu, program, facts, weights, 1,
					    &executable, report);
		if (err == -EOPNOTSUPP)
			end = report->rule == 32 ? GUARDED_REFUSED
						 : GUARDED_BROKEN;
		else if (!err)
			end = run_job(npu, executable, ranges);
		else if (err != -ENOMEM)
			end = GUARDED_BROKEN;
		qbnpu_executable_free(executable);
	}
	return free_bindings(&bindings) ? end : GUARDED_BROKEN;
}

/* The validator's answer; a wrong sum of the header is corrected, twice. */
static int validate(uint8_t *copy, size_t size, const struct qbnpu_caps *caps,
		    int mends_sums, struct qbnpu_work *work,
		    struct qbnpu_report *report)
{
	struct qbnpu_program *program = (void *)copy;
	int round, err;

	for (round = 0;; round++) {
		err = qbnpu_validate(copy, size, caps, work, report);
		if (!err || !mends_sums || round == 2 || report->rule != 44 ||
		    report->command != QBNPU_NONE32)
			return err;
		if (report->operand ==
		    offsetof(struct qbnpu_program, mac_count))
			program->mac_count = report->limit;
		else
			program->byte_count = report->limit;
	}
}

enum guarded_end guarded_run(struct qbnpu_npu *npu, const uint8_t *bytes,
			     size_t size, int mends_sums,
			     struct qbnpu_report *report)
{
	const struct qbnpu_caps caps = guarded_caps(npu);
	struct qbnpu_work work = { .size = 0 };
	enum guarded_end end = GUARDED_NO_MEMORY;
	uint8_t *copy;
	int err;

	*report = (struct qbnpu_report){ 0 };
	copy = aligned_alloc(16, qbrt_round_up(size + 1, 16));
	if (!copy)
		return end;
	memcpy(copy, bytes, size);
	work.size = qbnpu_validate_work_size(copy, size);
	work.memory = aligned_alloc(16, qbrt_round_up(work.size + 1, 16));
	if (work.memory) {
		err = validate(copy, size, &caps, mends_sums, &work, report);
		if (err)
			end = report->rule ? GUARDED_REFUSED : GUARDED_BROKEN;
		else
			end = load_and_run(npu, (void *)copy, report->facts,
					   report);
	}
	free(work.memory);
	free(copy);
	return end;
}
