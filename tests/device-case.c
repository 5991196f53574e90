// SPDX-License-Identifier: MIT
/*
 * The driver's part for tests of device/: validation, memory, waiting.
 */
#include "device-case.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "util.h"

#define HOUR_NS (3600 * QBRT_NS_PER_SEC)
#define ALIGN 64

struct qbnpu_npu *device_open(const char *name)
{
	const struct qbnpu_config config = { .name = name };
	struct qbnpu_npu *npu = NULL;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	return npu;
}

static const struct qbnpu_facts *validate(const struct prog *prog,
					  const struct qbnpu_caps *caps,
					  struct qbnpu_work *work)
{
	struct qbnpu_report report = { 0 };
	int err;

	work->size = qbnpu_validate_work_size(prog->bytes, prog->nbytes);
	work->memory = aligned_alloc(16, qbrt_round_up(work->size + 16, 16));
	err = qbnpu_validate(prog->bytes, prog->nbytes, caps, work, &report);
	ck_assert_msg(!err, "error %d rule %u command %u operand %u", err,
		      report.rule, report.command, report.operand);
	return report.facts;
}

static void alloc_weights(const struct qbnpu_facts *facts,
			  struct device_program *program)
{
	uint32_t i;
	size_t j;

	for (i = 0; i < facts->binding_count; i++) {
		const struct qbnpu_binding_facts *binding = &facts->bindings[i];

		if (binding->kind != QBNPU_BINDING_WEIGHTS)
			continue;
		program->weights_block = aligned_alloc(
			ALIGN, qbrt_round_up(binding->size, ALIGN));
		program->weights = program->weights_block;
		for (j = 0; j < binding->size; j++)
			program->weights[j] = (uint8_t)j;
	}
}

void device_load(struct qbnpu_npu *npu, const struct prog *prog,
		 uint64_t core_mask, struct device_program *program)
{
	const struct qbnpu_npu_facts *device = qbnpu_npu_get_facts(npu);
	struct qbnpu_work work = { 0 };
	struct qbnpu_report report = { 0 };
	const struct qbnpu_facts *facts;
	int err;

	*program = (struct device_program){ 0 };
	facts = validate(prog, &device->caps, &work);
	alloc_weights(facts, program);
	err = qbnpu_executable_load(npu, prog->bytes, facts, program->weights,
				    core_mask ? core_mask : device->core_mask,
				    &program->executable, &report);
	ck_assert_msg(!err, "error %d rule %u command %u", err, report.rule,
		      report.command);
	program->facts = qbnpu_executable_get_facts(program->executable);
	free(work.memory);
}

void device_unload(struct device_program *program)
{
	qbnpu_executable_free(program->executable);
	free(program->weights_block);
	*program = (struct device_program){ 0 };
}

static bool is_given(const struct qbnpu_facts *facts, uint32_t binding)
{
	const uint32_t kind = facts->bindings[binding].kind;

	return kind != QBNPU_BINDING_SCRATCH && kind != QBNPU_BINDING_WEIGHTS;
}

void device_memory_alloc(struct device_memory *memory,
			 const struct device_program *program,
			 uint32_t num_items)
{
	const struct qbnpu_facts *facts = program->facts;
	uint32_t i;

	*memory = (struct device_memory){ .facts = facts,
					  .num_items = num_items };
	for (i = 0; i < facts->binding_count; i++) {
		const uint64_t align = 1ull << facts->bindings[i].align_log2;
		const uint64_t stride =
			qbrt_round_up(facts->bindings[i].size, align);
		const uint64_t length = stride * num_items;
		const uint64_t margin =
			qbrt_round_up(DEVICE_CASE_MARGIN, align);

		if (!is_given(facts, i))
			continue;
		memory->blocks[i] = aligned_alloc(align, 2 * margin + length);
		memset(memory->blocks[i], DEVICE_CASE_CANARY,
		       2 * margin + length);
		memory->ranges[i] = (struct qbnpu_range){
			.base = memory->blocks[i] + margin,
			.length = length,
			.item_stride = stride,
		};
		memset(memory->ranges[i].base,
		       facts->bindings[i].kind == QBNPU_BINDING_OUTPUT ? 0xee
								       : 0,
		       length);
	}
}

/* The margins only: what stands between items may be anything. */
void device_memory_check(const struct device_memory *memory)
{
	uint32_t i, j;

	for (i = 0; i < memory->facts->binding_count; i++) {
		const struct qbnpu_range *range = &memory->ranges[i];
		const uint8_t *base = range->base;

		if (!memory->blocks[i])
			continue;
		for (j = 0; j < DEVICE_CASE_MARGIN; j++) {
			if (*(base - 1 - j) != DEVICE_CASE_CANARY ||
			    base[range->length + j] != DEVICE_CASE_CANARY)
				ck_abort_msg("canary of binding %u", i);
		}
	}
}

void device_memory_free(struct device_memory *memory)
{
	uint32_t i;

	for (i = 0; i < QBNPU_MAX_BINDINGS; i++)
		free(memory->blocks[i]);
	*memory = (struct device_memory){ 0 };
}

void *device_memory_at(const struct device_memory *memory, uint32_t binding,
		       uint32_t item)
{
	const struct qbnpu_range *range = &memory->ranges[binding];

	return (uint8_t *)range->base + item * range->item_stride;
}

static void note_done(struct qbnpu_job *job)
{
	struct device_job *own = (struct device_job *)(void *)job;

	(void)pthread_mutex_lock(&own->lock);
	own->num_done++;
	own->done_on = pthread_self();
	(void)prctl(PR_GET_NAME, own->thread_name);
	(void)pthread_cond_broadcast(&own->changed);
	(void)pthread_mutex_unlock(&own->lock);
}

void device_job_begin(struct device_job *job,
		      const struct device_program *program,
		      struct device_memory *memory)
{
	*job = (struct device_job){
		.job = {
			.type = QBNPU_JOB_RUN,
			.item_count = memory ? memory->num_items : 1,
			.submit_ns = qbrt_now_ns(),
			.deadline_ns = INT64_MAX,
			.limit_ns = HOUR_NS,
			.executable = program ? program->executable : NULL,
			.ranges = memory ? memory->ranges : NULL,
			.done = note_done,
		},
	};
	(void)pthread_mutex_init(&job->lock, NULL);
	(void)pthread_cond_init(&job->changed, NULL);
}

void device_job_end(struct device_job *job)
{
	(void)pthread_cond_destroy(&job->changed);
	(void)pthread_mutex_destroy(&job->lock);
}

int device_job_wait(struct device_job *job)
{
	(void)pthread_mutex_lock(&job->lock);
	while (!job->num_done)
		(void)pthread_cond_wait(&job->changed, &job->lock);
	ck_assert_int_eq(job->num_done, 1);
	(void)pthread_mutex_unlock(&job->lock);
	return job->job.result.status;
}

bool device_job_is_done(struct device_job *job)
{
	bool is_done;

	(void)pthread_mutex_lock(&job->lock);
	is_done = job->num_done;
	(void)pthread_mutex_unlock(&job->lock);
	return is_done;
}

int device_job_submit_wait(struct qbnpu_npu *npu, struct device_job *job)
{
	ck_assert_int_eq(qbnpu_npu_submit(npu, &job->job, NULL), 0);
	return device_job_wait(job);
}

struct qbnpu_core_state device_core_state(struct qbnpu_npu *npu, uint32_t bit)
{
	struct qbnpu_core_state states[QBNPU_MAX_CORES];
	const size_t num =
		qbnpu_npu_get_core_states(npu, states, QBNPU_MAX_CORES);
	size_t i;

	for (i = 0; i < num; i++) {
		if (!states[i].is_global &&
		    states[i].cluster * 8 + states[i].core == bit)
			return states[i];
	}
	ck_abort_msg("no core %u", bit);
	return states[0];
}

void device_wait_busy(struct qbnpu_npu *npu, uint32_t bit)
{
	while (!device_core_state(npu, bit).is_busy)
		(void)sched_yield();
}

void device_nop_program(struct prog *prog, uint32_t num_seconds)
{
	struct qbnpu_cmd_nop *nop;
	uint16_t dst;
	uint32_t i;

	prog_begin(prog);
	dst = prog_output(prog, QBNPU_DTYPE_U8, DIMS(64));
	for (i = 0; i < num_seconds; i++) {
		nop = prog_cmd(prog, QBNPU_OP_NOP);
		nop->delay_ns = QBRT_NS_PER_SEC;
	}
	prog_fill(prog, dst, 0x5a);
	prog_finish(prog);
}

void device_fixture_begin(struct device_fixture *f, const char *name)
{
	uint32_t i;

	f->npu = device_open(name);
	prog_copy64(&f->prog);
	device_load(f->npu, &f->prog, 0, &f->program);
	device_memory_alloc(&f->memory, &f->program, 1);
	for (i = 0; i < 64; i++)
		((uint8_t *)device_memory_at(&f->memory, 0, 0))[i] =
			(uint8_t)(i + 1);
	device_nop_program(&f->long_prog, DEVICE_LONG_SECONDS);
	device_load(f->npu, &f->long_prog, 0, &f->long_program);
	device_memory_alloc(&f->long_memory, &f->long_program, 1);
}

void device_fixture_end(struct device_fixture *f)
{
	qbnpu_npu_close(f->npu);
	device_memory_check(&f->memory);
	device_memory_check(&f->long_memory);
	device_memory_free(&f->memory);
	device_memory_free(&f->long_memory);
	device_unload(&f->program);
	device_unload(&f->long_program);
	prog_end(&f->prog);
	prog_end(&f->long_prog);
}

void device_fixture_job(struct device_job *job, struct device_fixture *f,
			uint64_t mask)
{
	device_job_begin(job, &f->program, &f->memory);
	job->job.core_mask = mask;
}

void device_block(struct device_blocker *b, struct device_fixture *f,
		  uint32_t bit)
{
	device_memory_alloc(&b->memory, &f->long_program, 1);
	device_job_begin(&b->job, &f->long_program, &b->memory);
	b->job.job.core_mask = UINT64_C(1) << bit;
	ck_assert_int_eq(qbnpu_npu_submit(f->npu, &b->job.job, NULL), 0);
	device_wait_busy(f->npu, bit);
}

void device_unblock(struct device_blocker *b, struct device_fixture *f)
{
	qbnpu_npu_cancel(f->npu, &b->job.job, QBNPU_CAUSE_CANCELLED);
	ck_assert_int_eq(device_job_wait(&b->job), -ECANCELED);
	device_job_end(&b->job);
	device_memory_check(&b->memory);
	device_memory_free(&b->memory);
}

void device_fixture_check(struct device_fixture *f)
{
	ck_assert_mem_eq(device_memory_at(&f->memory, 0, 0),
			 device_memory_at(&f->memory, 1, 0), 64);
}

struct qbnpu_npu *device_open_poison(bool poison)
{
	const struct qbnpu_config config = {
		.name = "aries-rb",
		.poison = poison,
	};
	struct qbnpu_npu *npu = NULL;

	ck_assert_int_eq(qbnpu_npu_open(&config, &npu), 0);
	return npu;
}

/* Finite f32 inputs, the same at each call. */
static void fill_inputs(const struct device_memory *memory)
{
	uint32_t i;
	size_t j;

	for (i = 0; i < memory->facts->binding_count; i++) {
		float *values = memory->ranges[i].base;

		if (memory->facts->bindings[i].kind != QBNPU_BINDING_INPUT)
			continue;
		for (j = 0; j < memory->ranges[i].length / sizeof(float); j++)
			values[j] = (float)(j % 13) - 6.25f;
	}
}

/* Weights of all bytes would be NaN here and there. */
static void fill_weights(const struct device_program *program)
{
	float *values = (float *)(void *)program->weights;
	uint32_t i;
	size_t j;

	for (i = 0; i < program->facts->binding_count; i++) {
		if (program->facts->bindings[i].kind != QBNPU_BINDING_WEIGHTS)
			continue;
		for (j = 0;
		     j < program->facts->bindings[i].size / sizeof(float); j++)
			values[j] = (float)(j % 7) - 2.5f;
	}
}

size_t device_run_once(const struct prog *prog, bool poison, uint32_t bit,
		       uint8_t *outputs)
{
	struct qbnpu_npu *npu = device_open_poison(poison);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	size_t size = 0;
	uint32_t i;

	device_load(npu, prog, 0, &program);
	fill_weights(&program);
	device_memory_alloc(&memory, &program, 1);
	fill_inputs(&memory);
	device_job_begin(&job, &program, &memory);
	job.job.core_mask = UINT64_C(1) << bit;
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	device_job_end(&job);
	device_memory_check(&memory);
	for (i = 0; i < program.facts->binding_count; i++) {
		if (program.facts->bindings[i].kind != QBNPU_BINDING_OUTPUT)
			continue;
		memcpy(outputs + size, memory.ranges[i].base,
		       program.facts->bindings[i].size);
		size += program.facts->bindings[i].size;
	}
	device_memory_free(&memory);
	device_unload(&program);
	qbnpu_npu_close(npu);
	return size;
}
