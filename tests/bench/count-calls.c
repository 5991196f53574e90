// SPDX-License-Identifier: MIT
/*
 * One loop of calls per metric, for callgrind: count-calls METRIC. Backend
 * ref, one thread, 100 calls of warm-up, then 1,000 (docs/spec/performance.md,
 * section 5): P140 P141 P142 P147 P152 P159 P160 P163.
 */
#include "count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "prog.h"
#include "sim.h"
#include "soft/soft.h"
#include "subject.h"
#include "util.h"

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) { \
			fprintf(stderr, "%s\n", qbrt_error_detail()); \
			exit(1); \
		} \
	} while (0)

#define NUM_PAIRS 3
#define NUM_NOPS 1000
#define HOLD_NS 60000000000
#define POOLED_NBYTES 4096 /* what the smallest buffer takes */

static struct subject *open_subject(void)
{
	const struct bench_case bench_case = { .placement = BENCH_ONE };
	struct subject *subject;

	subject_setup();
	subject = subject_open(&bench_case, &subject_nop);
	if (!subject) {
		fprintf(stderr, "%s\n", bench_get_reason());
		exit(1);
	}
	return subject;
}

/* Warm-up and the calls that count. */
#define REPEAT(call) \
	do { \
		for (int i = 0; i < COUNT_WARM_UPS; i++) \
			call; \
		count_begin(); \
		for (int i = 0; i < COUNT_CALLS; i++) \
			call; \
	} while (0)

static void count_infer(void)
{
	struct subject *subject = open_subject();

	REPEAT(TRY(qbrt_model_infer_pinned_memory(
		subject->model, NULL, &subject->in, 1, &subject->out, 1)));
	subject_close(subject);
}

static struct qbrt_model *load_prog(struct prog *prog)
{
	const struct models_spec spec = { .programs = { prog },
					  .num_programs = 1 };
	struct qbrt_model *model = models_load(&spec);

	prog_end(prog);
	return model;
}

/* As count_infer, with three inputs and three outputs. */
static void count_infer_six(void)
{
	struct subject *subject = open_subject();
	struct qbrt_pinned_memory *in[NUM_PAIRS];
	struct qbrt_pinned_memory *out[NUM_PAIRS];
	struct qbrt_model *model;
	struct prog prog;

	prog_begin(&prog);
	for (int i = 0; i < NUM_PAIRS; i++)
		(void)prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	for (int i = 0; i < NUM_PAIRS; i++)
		prog_fill(&prog, prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)),
			  0);
	model = load_prog(&prog);
	TRY(qbrt_model_launch(model, subject->acc));
	for (size_t i = 0; i < NUM_PAIRS; i++) {
		TRY(qbrt_model_alloc_input(model, i, &in[i]));
		TRY(qbrt_model_alloc_output(model, i, &out[i]));
	}
	REPEAT(TRY(qbrt_model_infer_pinned_memory(model, NULL, in, NUM_PAIRS,
						  out, NUM_PAIRS)));
	for (int i = 0; i < NUM_PAIRS; i++) {
		qbrt_pinned_memory_free(in[i]);
		qbrt_pinned_memory_free(out[i]);
	}
	qbrt_model_free(model);
	subject_close(subject);
}

/* 1,000 commands and the one that writes the output, in one call. */
static void count_executor(void)
{
	struct subject *subject = open_subject();
	struct qbrt_model *model;
	struct prog prog;
	uint16_t out;

	prog_begin(&prog);
	(void)prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	for (int i = 0; i < NUM_NOPS - 1; i++)
		(void)prog_cmd(&prog, QBNPU_OP_NOP);
	prog_fill(&prog, out, 0);
	model = load_prog(&prog);
	TRY(qbrt_model_launch(model, subject->acc));
	count_begin();
	TRY(qbrt_model_infer_pinned_memory(model, NULL, &subject->in, 1,
					   &subject->out, 1));
	qbrt_model_free(model);
	subject_close(subject);
}

static void alloc_and_free(struct qbrt_accelerator *acc)
{
	const int64_t shape[] = { 64 };
	struct qbrt_pinned_memory *mem;

	TRY(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1, NULL,
				     &mem));
	qbrt_pinned_memory_free(mem);
}

/* What P159 leaves out: the zeros of Q467. */
__attribute__((noinline)) static void count_fill(void *data)
{
	memset(data, 0, POOLED_NBYTES);
	__asm__ volatile("" : : "r"(data) : "memory");
}

static void count_pooled(void)
{
	static char page[POOLED_NBYTES];
	struct subject *subject = open_subject();

	REPEAT((alloc_and_free(subject->acc), count_fill(page)));
	subject_close(subject);
}

static void count_element(bool is_write)
{
	const int64_t shape[] = { 64, 64 };
	const int64_t index[] = { 5, 7 };
	struct subject *subject = open_subject();
	struct qbrt_pinned_memory *mem;
	float value = 1;

	TRY(qbrt_pinned_memory_alloc(subject->acc, QBRT_DTYPE_FLOAT32, shape, 2,
				     NULL, &mem));
	if (is_write)
		REPEAT(TRY(qbrt_pinned_memory_write_at(
			mem, index, 2, QBRT_DTYPE_FLOAT32, &value)));
	else
		REPEAT(TRY(qbrt_pinned_memory_read_at(
			mem, index, 2, QBRT_DTYPE_FLOAT32, &value)));
	qbrt_pinned_memory_free(mem);
	subject_close(subject);
}

static void count_read(void)
{
	count_element(false);
}

static void count_write(void)
{
	count_element(true);
}

static void refuse(const struct subject *subject,
		   struct qbrt_pinned_memory *wrong)
{
	if (qbrt_model_infer_pinned_memory(subject->model, NULL, &wrong, 1,
					   &subject->out,
					   1) != QBRT_MODEL_SHAPE_MISMATCHED)
		exit(1);
}

static void count_refused(void)
{
	const int64_t shape[] = { 65 };
	struct subject *subject = open_subject();
	struct qbrt_pinned_memory *wrong;

	TRY(qbrt_pinned_memory_alloc(subject->acc, QBRT_DTYPE_UINT8, shape, 1,
				     NULL, &wrong));
	REPEAT(refuse(subject, wrong));
	qbrt_pinned_memory_free(wrong);
	subject_close(subject);
}

/* A model that keeps its core for as long as these calls take. */
static struct qbrt_model *load_holder(void)
{
	struct prog prog;
	uint16_t out;

	prog_begin(&prog);
	(void)prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	for (int i = 0; i < NUM_NOPS; i++) {
		struct qbnpu_cmd_nop *nop = prog_cmd(&prog, QBNPU_OP_NOP);

		nop->delay_ns = HOLD_NS / NUM_NOPS;
	}
	prog_fill(&prog, out, 0);
	return load_prog(&prog);
}

static struct qbrt_future *submit(struct subject *subject)
{
	struct qbrt_future *future;

	TRY(qbrt_model_submit_pinned_memory(subject->model, NULL, &subject->in,
					    1, &subject->out, 1, &future));
	return future;
}

/* Behind a job that has the core: a cancelled one makes room for the next. */
static void submit_and_cancel(struct subject *subject)
{
	struct qbrt_future *future = submit(subject);
	bool cancelled;

	TRY(qbrt_future_cancel(future, &cancelled));
	if (!cancelled)
		exit(1);
	qbrt_future_free(future);
}

static void count_submit(void)
{
	struct subject *subject = open_subject();
	struct qbrt_model *model = load_holder();
	struct qbrt_pinned_memory *out;
	struct qbrt_future *holder;
	bool cancelled;

	TRY(qbrt_model_launch(model, subject->acc));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	TRY(qbrt_model_submit_pinned_memory(model, NULL, &subject->in, 1, &out,
					    1, &holder));
	REPEAT(submit_and_cancel(subject));
	TRY(qbrt_future_cancel(holder, &cancelled));
	qbrt_future_free(holder);
	qbrt_pinned_memory_free(out);
	qbrt_model_free(model);
	subject_close(subject);
}

/* No thread but this one: the job ends when it is told to. */
static void step_and_wait(struct subject *subject, struct sim *sim)
{
	struct qbrt_future *future = submit(subject);
	bool is_done = false;

	if (!sim_step(sim))
		exit(1);
	TRY(qbrt_future_query(future, &is_done));
	if (!is_done)
		exit(1);
	TRY(qbrt_future_wait(future, -1));
	qbrt_future_free(future);
}

static void count_wait(void)
{
	struct subject *subject = open_subject();
	struct sim sim;

	sim_attach(&sim, qbnpu_soft_npu(0));
	REPEAT(step_and_wait(subject, &sim));
	sim_detach(&sim);
	subject_close(subject);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*count)(void);
	} metrics[] = {
		{ "infer.inline", count_infer },
		{ "infer.six", count_infer_six },
		{ "infer.refused", count_refused },
		{ "submit", count_submit },
		{ "wait.done", count_wait },
		{ "job.done", count_wait },
		{ "executor.command", count_executor },
		{ "alloc.pooled", count_pooled },
		{ "element.read", count_read },
		{ "element.write", count_write },
	};

	for (size_t i = 0; i < qbrt_array_size(metrics); i++) {
		if (argc != 2 || strcmp(argv[1], metrics[i].name))
			continue;
		metrics[i].count();
		return 0;
	}
	fprintf(stderr, "usage: count-calls METRIC\n");
	return 2;
}
