/* SPDX-License-Identifier: MIT */
/*
 * The device's state, shared by npu.c (what it is) and core.c (what its cores
 * do). One lock guards everything that changes but the atomics; jobs are
 * linked into the lists and their private fields change under it too.
 */
#ifndef QBNPU_CORE_H
#define QBNPU_CORE_H

#include <pthread.h>

#include "fault.h"
#include "kernels.h"
#include "npu.h"

#define QBNPU_NUM_PRIORITIES 3u /* -2, -1, 0 */

/* A local core. Everything is guarded by the device's lock. */
struct qbnpu_core {
	struct qbnpu_npu *npu;
	uint32_t bit; /* cluster * 8 + core */
	bool has_thread;
	bool is_running;       /* its item has begun */
	struct qbnpu_job *job; /* the item it has; NULL: idle */
	uint32_t item;
	int64_t begin_ns; /* of the running item */
	uint64_t busy_ns;
	uint64_t jobs;
	pthread_t thread;
	pthread_cond_t wake; /* job was set, or the device closes */
};

struct qbnpu_job_list {
	struct qbnpu_job *first, *last;
};

struct qbnpu_npu {
	/* constant */
	struct qbnpu_npu_facts facts;
	const struct qbnpu_kernels *kernels; /* NULL: none loads */
	bool poison;
	const struct qbnpu_engine *engine; /* NULL: the cores */
	void *engine_arg;

	struct qbnpu_faults faults;
	struct qbnpu_counters counters;
	atomic_uint_fast64_t memory_free;
	/* earliest deadline of a waiting job; written under the lock */
	atomic_int_fast64_t next_deadline;

	pthread_mutex_t lock;
	pthread_cond_t quiet; /* closing, and the last core became idle */
	/* num_waiting_runs: a core became idle, or one of them is to stop */
	pthread_cond_t has_idle;
	uint32_t num_waiting_runs; /* inline ones, without any thread */
	bool is_closing;
	uint64_t idle_mask;
	/* jobs with items that no core has, most urgent first */
	struct qbnpu_job_list waiting[QBNPU_NUM_PRIORITIES];
	uint32_t num_cores;
	struct qbnpu_core cores[QBNPU_MAX_CORES];
};

/* Makes the idle cores of facts; starts no thread. */
int qbnpu_cores_start(struct qbnpu_npu *npu);

/* Waits until all are idle and ends their threads. */
void qbnpu_cores_stop(struct qbnpu_npu *npu);

int qbnpu_cores_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job);
int qbnpu_cores_submit(struct qbnpu_npu *npu, struct qbnpu_job *job);
int qbnpu_cores_run(struct qbnpu_npu *npu, struct qbnpu_job *job);
void qbnpu_cores_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
			uint32_t cause);

#endif
