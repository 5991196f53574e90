/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-trace: the recorder alone (check-trace.c), under
 * inferences (-infer), and where files cannot be written or end early (-cut).
 */
#ifndef TESTS_CHECK_TRACE_H
#define TESTS_CHECK_TRACE_H

#include <pthread.h>
#include <stdatomic.h>

#include <qbruntime/qbrt.h>

#include "test-util.h"

void add_trace_infer_tests(struct qbrt_tests *all);
void add_trace_cut_tests(struct qbrt_tests *all);

/* An empty folder, and the path of a file in it that is not there yet. */
struct trace_folder {
	char folder[32];
	char path[64];
};
void trace_folder_make(struct trace_folder *folder);
/* Removes the file, if it is there, and the folder. */
void trace_folder_remove(const struct trace_folder *folder);

#define TRACE_NUM_THREADS 8

/* Threads that infer, each with buffers of its own and other bytes each time. */
struct trace_load {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	atomic_long num_left; /* calls that are still to be begun */
	atomic_long num_calls;
	atomic_long num_wrong; /* failed, or other bytes than they should */
	atomic_int num_ready;  /* threads that have their buffers */
	int progress_fd;       /* takes a byte after each call; -1: none */
	int num_threads;
	pthread_t threads[TRACE_NUM_THREADS];
};
/* Takes the model, and launches it on the default device. */
void trace_load_open(struct trace_load *load, struct qbrt_model *model);
void trace_load_start(struct trace_load *load, int num_threads, long num_calls);
/* Another num_calls have succeeded when it returns. */
void trace_load_await(struct trace_load *load, long num_calls);
/* Each thread has its buffers when it returns. */
void trace_load_await_all(struct trace_load *load);
/* They begin no more calls; all were right. */
void trace_load_join(struct trace_load *load);
void trace_load_close(struct trace_load *load);

#endif
