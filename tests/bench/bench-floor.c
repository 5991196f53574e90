// SPDX-License-Identifier: MIT
/*
 * The floors of docs/spec/performance.md, section 3, on their own: P01 P02 P03
 * P04 P05 P06 P14. F18 is the digits model's list of backend calls with no
 * runtime around it: prepared commands, walked by a loop.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "device/core-item.h"
#include "device/program.h"
#include "model-file.h"
#include "util.h"

struct model_calls {
	struct qbrt_model_file *file;
	void *weights;
	struct qbnpu_npu *npu;
	struct qbnpu_executable *executable;
	uint8_t *bases[QBNPU_MAX_BINDINGS];
};

static int keep_on(struct qbnpu_pace *pace)
{
	pace->left = QBNPU_PACE_UNITS;
	return 0;
}

static void close_calls(void *state)
{
	struct model_calls *calls = state;

	for (size_t i = 0; i < QBNPU_MAX_BINDINGS; i++)
		free(calls->bases[i]);
	qbnpu_executable_free(calls->executable);
	if (calls->npu)
		qbnpu_npu_close(calls->npu);
	if (calls->weights != MAP_FAILED)
		(void)munmap(calls->weights, calls->file->weights_size);
	qbrt_model_file_free(calls->file);
	free(calls);
}

static bool load_calls(struct model_calls *calls)
{
	const struct qbnpu_config config = { .name = "regulus-ra",
					     .backend = QBNPU_BACKEND_REF };
	const struct qbrt_model_program *program = &calls->file->programs[0];
	struct qbnpu_report report;

	calls->weights = mmap(NULL, calls->file->weights_size, PROT_READ,
			      MAP_SHARED, calls->file->weights_fd, 0);
	return calls->weights != MAP_FAILED &&
	       !qbnpu_npu_open(&config, &calls->npu) &&
	       !qbnpu_executable_load(calls->npu, program->data, program->facts,
				      calls->weights, 1, &calls->executable,
				      &report);
}

static bool alloc_bases(struct model_calls *calls)
{
	const struct qbnpu_facts *facts = calls->executable->facts;

	for (uint32_t i = 0; i < facts->binding_count; i++) {
		size_t size = qbrt_round_up(facts->bindings[i].size, 4096);

		calls->bases[i] = aligned_alloc(4096, size);
		if (!calls->bases[i])
			return false;
	}
	return true;
}

static void *open_calls(const struct bench_case *bench_case)
{
	struct model_calls *calls = calloc(1, sizeof(*calls));
	int fd;

	(void)bench_case;
	if (!calls)
		return NULL;
	calls->weights = MAP_FAILED;
	fd = open(TEST_TOP_SRCDIR "/examples/digits.qbm", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || qbrt_model_file_read(fd, "digits", &calls->file)) {
		bench_set_reason("examples/digits.qbm cannot be read");
		free(calls);
		return NULL;
	}
	(void)close(fd);
	if (load_calls(calls) && alloc_bases(calls))
		return calls;
	close_calls(calls);
	return NULL;
}

/* Weights and scratch at their own places, the rest in memory of ours. */
static int64_t run_calls(void *state, uint32_t num)
{
	struct model_calls *calls = state;
	const struct qbnpu_executable *executable = calls->executable;
	struct qbnpu_pace pace = { .left = QBNPU_PACE_UNITS, .look = keep_on };
	uint8_t *bases[QBNPU_MAX_BINDINGS] = { NULL };
	const struct qbnpu_run run = {
		.bases = bases,
		.scratch = executable->arenas[0].kernel,
		.pace = &pace,
	};
	struct qbnpu_float_modes modes = qbnpu_float_enter();
	int64_t begin;
	int err = 0;

	for (uint32_t i = 0; i < executable->facts->binding_count; i++) {
		bases[i] = calls->bases[i];
		if (executable->facts->bindings[i].kind ==
		    QBNPU_BINDING_WEIGHTS)
			bases[i] = executable->weights;
	}
	begin = bench_now_ns();
	while (num--)
		for (uint32_t i = 0; i < executable->num_steps; i++)
			err |= executable->steps[i].kernels->run(
				executable->steps[i].prepared, &run);
	begin = bench_now_ns() - begin;
	qbnpu_float_leave(modes);
	return err ? -1 : begin;
}

static const struct bench_probe probe_calls = {
	.name = "F18 digits, backend calls alone",
	.open = open_calls,
	.run = run_calls,
	.close = close_calls,
};

static const struct bench_metric digits = {
	.name = "digits",
	.row = "F18",
	.placements = BENCH_ONE,
	.subject = &probe_calls,
};

int main(int argc, char **argv)
{
	struct bench_metric metrics[64];

	memcpy(metrics, bench_floors, bench_num_floors * sizeof(*metrics));
	metrics[bench_num_floors] = digits;
	return bench_main(argc, argv, metrics, bench_num_floors + 1);
}
