// SPDX-License-Identifier: MIT
/*
 * Models run on the first core of the device alone, so that there is one thread
 * to place beside the caller.
 */
#include "bench-subject.h"

#include <stdio.h>
#include <stdlib.h>

struct bench_setup bench_setup;

struct qbrt_model *subject_load(const char *model)
{
	static const struct qbrt_core_id core = { QBRT_CLUSTER_0, QBRT_CORE_0 };
	struct qbrt_model_config *config = NULL;
	struct qbrt_model *loaded = NULL;
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/%s.qbm", bench_setup.folder,
		       model);
	if (qbrt_model_config_alloc(&config) ||
	    qbrt_model_config_set_single_core_ids(config, &core, 1) ||
	    qbrt_model_load(path, config, &loaded))
		bench_set_reason(qbrt_error_detail());
	qbrt_model_config_free(config);
	return loaded;
}

struct subject *subject_open_on(const char *name, int number,
				const struct bench_case *bench_case,
				const char *model)
{
	struct subject *subject = calloc(1, sizeof(*subject));

	if (!subject)
		return NULL;
	subject->placement = bench_case->placement;
	if (!qbrt_accelerator_open(name, number, &subject->acc)) {
		bench_device = bench_setup.id;
		subject->model = subject_load(model);
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
			     const char *model)
{
	return subject_open_on(bench_setup.name, bench_setup.number, bench_case,
			       model);
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
