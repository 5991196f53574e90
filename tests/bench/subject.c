// SPDX-License-Identifier: MIT
/*
 * Devices of one core each, so that there is one thread to place beside the
 * caller. QBRUNTIME_SOFT_DEVICES is set here, whatever it was.
 */
#include "subject.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "models.h"
#include "prog.h"

/*
 * models.c states what cannot be through Check, which answers only inside a
 * running test. Here, in its place: a broken assertion ends the program.
 */
void _mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expr,
		       const char *msg, ...)
{
	fprintf(stderr, "%s:%d: %s%s%s\n", file, line, expr, msg ? ": " : "",
		msg ? msg : "");
	abort();
}

struct qbrt_model *subject_load(size_t input_nbytes, size_t output_nbytes,
				uint32_t delay_ns)
{
	struct prog prog;
	const struct models_spec spec = { .programs = { &prog },
					  .num_programs = 1 };
	struct qbrt_model *model;
	struct qbnpu_cmd_nop *nop;
	uint16_t out;

	prog_begin(&prog);
	(void)prog_input(&prog, QBNPU_DTYPE_U8, DIMS((uint32_t)input_nbytes));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS((uint32_t)output_nbytes));
	nop = prog_cmd(&prog, QBNPU_OP_NOP);
	nop->delay_ns = delay_ns;
	/* V47: an output that nothing writes is refused */
	prog_fill(&prog, out, 0);
	model = models_load(&spec);
	prog_end(&prog);
	return model;
}

void subject_choose_devices(void)
{
	(void)setenv("QBRUNTIME_SOFT_DEVICES", SUBJECT_WARM "," SUBJECT_COLD,
		     1);
	(void)setenv("QBRUNTIME_SOFT_BACKEND", "ref", 1);
}

struct subject *subject_open_on(const char *name,
				const struct bench_case *bench_case,
				size_t input_nbytes, size_t output_nbytes,
				uint32_t delay_ns)
{
	struct subject *subject = calloc(1, sizeof(*subject));

	if (!subject)
		return NULL;
	subject_choose_devices();
	bench_device = SUBJECT_WARM ":0";
	subject->placement = bench_case->placement;
	if (!qbrt_accelerator_open(name, 0, &subject->acc)) {
		subject->model =
			subject_load(input_nbytes, output_nbytes, delay_ns);
		if (!qbrt_model_launch(subject->model, subject->acc) &&
		    !qbrt_model_alloc_input(subject->model, 0, &subject->in) &&
		    !qbrt_model_alloc_output(subject->model, 0, &subject->out))
			return subject;
	}
	bench_set_reason(qbrt_error_detail());
	subject_close(subject);
	return NULL;
}

struct subject *subject_open(const struct bench_case *bench_case,
			     size_t input_nbytes, size_t output_nbytes,
			     uint32_t delay_ns)
{
	return subject_open_on(SUBJECT_WARM, bench_case, input_nbytes,
			       output_nbytes, delay_ns);
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
	pid_t tid = bench_find_thread("qbrt-core");

	if (tid)
		bench_place(placement, 1, tid);
	return tid;
}
