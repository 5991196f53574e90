// SPDX-License-Identifier: MIT
/*
 * 1,000 inferences in the steady state between two calls of getppid, which
 * nothing else here makes: test-zero-syscalls.sh counts what strace sees
 * between them. Argument 1: the model; 2: another one that threads run
 * meanwhile, so that the calls find a busy core and sleep at once; without it
 * they run inline.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#define NUM_CALLS 1000
#define NUM_RIVALS 2

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) { \
			fprintf(stderr, "%s\n", qbrt_error_detail()); \
			exit(1); \
		} \
	} while (0)

struct rival {
	struct qbrt_model *model;
	atomic_bool is_over;
	atomic_ulong num_calls;
};

/* Calls of its own, one after another, on the same core. */
static void *keep_busy(void *arg)
{
	struct rival *rival = arg;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;

	TRY(qbrt_model_alloc_input(rival->model, 0, &in));
	TRY(qbrt_model_alloc_output(rival->model, 0, &out));
	while (!atomic_load(&rival->is_over)) {
		TRY(qbrt_model_infer_pinned_memory(rival->model, NULL, &in, 1,
						   &out, 1));
		atomic_fetch_add(&rival->num_calls, 1);
	}
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	return NULL;
}

static void infer(struct qbrt_model *model, uint32_t flags)
{
	const struct qbrt_infer_options options = { .size = sizeof(options),
						    .flags = flags };
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;

	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	for (int i = 0; i < 10; i++)
		TRY(qbrt_model_infer_pinned_memory(model, &options, &in, 1,
						   &out, 1));
	(void)getppid();
	for (int i = 0; i < NUM_CALLS; i++) {
		TRY(qbrt_model_infer_pinned_memory(model, &options, &in, 1,
						   &out, 1));
		/* where calls sleep each is counted by itself */
		if (flags)
			(void)getuid();
	}
	(void)getppid();
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
}

int main(int argc, char **argv)
{
	int num_rivals = argc > 2 ? NUM_RIVALS : 0;
	struct rival rival = { 0 };
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	pthread_t threads[NUM_RIVALS];

	if (argc < 2)
		return 2;
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(argv[1], NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	if (num_rivals) {
		TRY(qbrt_model_load(argv[2], NULL, &rival.model));
		TRY(qbrt_model_launch(rival.model, acc));
	}
	for (int i = 0; i < num_rivals; i++)
		if (pthread_create(&threads[i], NULL, keep_busy, &rival))
			return 2;
	while (num_rivals && !atomic_load(&rival.num_calls))
		sched_yield();
	infer(model, num_rivals ? QBRT_INFER_BLOCKING : 0);
	atomic_store(&rival.is_over, true);
	for (int i = 0; i < num_rivals; i++)
		pthread_join(threads[i], NULL);
	qbrt_model_free(rival.model);
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	return 0;
}
