// SPDX-License-Identifier: MIT
/*
 * Models run on the first core of the device alone, so that there is one thread
 * to place beside the caller.
 */
#include "bench-subject.h"

#include <stdlib.h>
#include <unistd.h>

#include "qbm-writer.h"

struct bench_setup bench_setup;

const struct subject_program subject_nop = { 0, 64, 64 };
const struct subject_program subject_300us = { 300000, 64, 64 };
const struct subject_program subject_10ms = { 10000000, 64, 64 };
const struct subject_program subject_picture = { 0, 150528, 4096 };

/* A memfd of the model, or -errno. */
static int write_model(const struct subject_program *program)
{
	struct qbm_writer writer;
	struct qbnpu_cmd_nop *nop;
	uint16_t out;

	qbm_begin(&writer);
	(void)qbm_add_input(&writer, QBNPU_DTYPE_U8,
			    QBM_DIMS(program->in_nbytes));
	out = qbm_add_output(&writer, QBNPU_DTYPE_U8,
			     QBM_DIMS(program->out_nbytes));
	nop = qbm_add_command(&writer, QBNPU_OP_NOP, sizeof(*nop), NULL, 0);
	nop->delay_ns = program->delay_ns;
	if (program->delay_ns)
		writer.features |= QBNPU_FEATURE_DIAG;
	(void)qbm_add_command(&writer, QBNPU_OP_FILL,
			      sizeof(struct qbnpu_cmd_fill), &out, 1);
	return qbm_finish(&writer);
}

struct qbrt_model *subject_load(const struct subject_program *program)
{
	static const struct qbrt_core_id core = { QBRT_CLUSTER_0, QBRT_CORE_0 };
	struct qbrt_model_config *config = NULL;
	struct qbrt_model *loaded = NULL;
	int fd = write_model(program);

	if (fd < 0) {
		bench_set_reason("no memory for a model's file");
		return NULL;
	}
	if (qbrt_model_config_alloc(&config) ||
	    qbrt_model_config_set_single_core_ids(config, &core, 1) ||
	    qbrt_model_load_fd(fd, config, &loaded))
		bench_set_reason(qbrt_error_detail());
	qbrt_model_config_free(config);
	(void)close(fd);
	return loaded;
}

struct subject *subject_open_on(const char *name, int number,
				const struct bench_case *bench_case,
				const struct subject_program *program)
{
	struct subject *subject = calloc(1, sizeof(*subject));

	if (!subject)
		return NULL;
	subject->placement = bench_case->placement;
	if (!qbrt_accelerator_open(name, number, &subject->acc)) {
		bench_device = bench_setup.id;
		subject->model = subject_load(program);
		if (subject->model &&
		    !qbrt_model_launch(subject->model, subject->acc) &&
		    !qbrt_model_alloc_input(subject->model, 0, &subject->in) &&
		    !qbrt_model_alloc_output(subject->model, 0, &subject->out))
			return subject;
	}
	bench_set_reason(qbrt_error_detail());
	subject_close(subject);
	return NULL;
}

struct subject *subject_open(const struct bench_case *bench_case,
			     const struct subject_program *program)
{
	return subject_open_on(bench_setup.name, bench_setup.number, bench_case,
			       program);
}

void subject_close(void *state)
{
	struct subject *subject = state;

	qbrt_pinned_memory_free(subject->in);
	qbrt_pinned_memory_free(subject->out);
	qbrt_model_free(subject->model);
	qbrt_accelerator_close(subject->acc);
	free(subject);
}

void subject_count(const void *state, struct bench_counters *counters)
{
	const struct subject *subject = state;
	struct qbrt_model_counters sums = { .size = sizeof(sums) };

	qbrt_model_get_counters(subject->model, &sums);
	counters->jobs = sums.completed;
	counters->copied_nbytes = sums.copied_nbytes;
}

bool subject_infer(const struct subject *subject, uint32_t flags)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .flags = flags };

	return !qbrt_model_infer_pinned_memory(
		subject->model, flags ? &options : NULL, &subject->in, 1,
		&subject->out, 1);
}

pid_t subject_place_core(enum bench_placement placement)
{
	pid_t tid = bench_find_thread("qbrt-core0.0");

	if (tid)
		bench_place(placement, 1, tid);
	return tid;
}
