// SPDX-License-Identifier: MIT
/*
 * Records a trace of 100 inferences on 8 threads with the public API alone, for
 * tests/python/test_trace.py. Argument 1: the model; 2: the trace's path.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <qbruntime/qbrt.h>

#define NUM_CALLS 100
#define NUM_THREADS 8

#define TRY(call) \
	do { \
		if ((call) != QBRT_OK) { \
			fprintf(stderr, "%s\n", qbrt_error_detail()); \
			exit(1); \
		} \
	} while (0)

static struct qbrt_model *model;
static atomic_int num_left = NUM_CALLS;

static void *infer_some(void *arg)
{
	struct qbrt_pinned_memory *out;
	struct qbrt_pinned_memory *in;

	TRY(qbrt_model_alloc_input(model, 0, &in));
	TRY(qbrt_model_alloc_output(model, 0, &out));
	while (atomic_fetch_sub(&num_left, 1) > 0)
		TRY(qbrt_model_infer_pinned_memory(model, NULL, &in, 1, &out,
						   1));
	qbrt_pinned_memory_free(in);
	qbrt_pinned_memory_free(out);
	return arg;
}

int main(int argc, char **argv)
{
	struct qbrt_accelerator *acc;
	pthread_t threads[NUM_THREADS];

	if (argc < 3)
		return 2;
	TRY(qbrt_trace_start(argv[2]));
	TRY(qbrt_accelerator_open(NULL, -1, &acc));
	TRY(qbrt_model_load(argv[1], NULL, &model));
	TRY(qbrt_model_launch(model, acc));
	for (int i = 0; i < NUM_THREADS; i++)
		if (pthread_create(&threads[i], NULL, infer_some, NULL))
			return 2;
	for (int i = 0; i < NUM_THREADS; i++)
		pthread_join(threads[i], NULL);
	TRY(qbrt_model_dispose(model));
	TRY(qbrt_trace_stop());
	qbrt_model_free(model);
	qbrt_accelerator_close(acc);
	return 0;
}
