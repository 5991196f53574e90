// SPDX-License-Identifier: MIT
/*
 * One loop of calls per metric, for callgrind: count-calls METRIC. Backend
 * ref, one thread, 100 calls of warm-up, then 1,000 (docs/spec/performance.md,
 * section 5): P140 P152 P159 P160 P163.
 */
#include "count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "prog.h"
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

static struct subject *open_subject(void)
{
	const struct bench_case bench_case = { .placement = BENCH_ONE };
	struct subject *subject = subject_open(&bench_case, 64, 64, 0);

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

static void count_pooled(void)
{
	struct subject *subject = open_subject();

	REPEAT(alloc_and_free(subject->acc));
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

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*count)(void);
	} metrics[] = {
		{ "infer.inline", count_infer },
		{ "infer.six", count_infer_six },
		{ "infer.refused", count_refused },
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
