/* SPDX-License-Identifier: MIT */
/*
 * The device's state, shared by npu.c (what it is) and core.c (what its cores
 * do). One lock guards everything that changes but the atomics; jobs are
 * linked into the lists and their private fields change under it too. Who took
 * a core out of idle_mask has it to itself, with or without the lock.
 */
#ifndef QBNPU_CORE_H
#define QBNPU_CORE_H

#include <pthread.h>

#include "fault.h"
#include "kernels.h"
#include "npu.h"

#define QBNPU_NUM_PRIORITIES 3u /* -2, -1, 0 */

/* What jobs did: each has one writer at a time, and is summed up to be told. */
struct qbnpu_tally {
	atomic_uint_fast64_t submitted, completed, failed, cancelled, timeouts;
	atomic_uint_fast64_t bytes_read, bytes_written, copy_bytes, macs;
	atomic_uint_fast64_t wait_ns;
};

/* A local core. job, item, is_running, told_busy_ns: the device's lock. */
struct qbnpu_core {
	struct qbnpu_npu *npu;
	uint32_t bit;          /* cluster * 8 + core */
	bool is_running;       /* the item of job has begun */
	struct qbnpu_job *job; /* for its thread; NULL: idle, or inline */
	uint32_t item;
	int64_t begin_ns; /* of the running item; who runs it */
	/* time busy; while it runs an item less that item's begin_ns */
	atomic_int_fast64_t account;
	uint64_t told_busy_ns; /* the most that account was said to be */
	atomic_uint_fast64_t jobs;
	struct qbnpu_tally tally; /* of items that ran here, jobs that ended */
	pthread_t thread;
	/* counts the items that it was given; its thread looks without the lock */
	atomic_uint given;
	pthread_cond_t wake; /* job was set, or the device closes */
};

/* In idle_mask beside the cores: only under the lock may one become idle. */
#define QBNPU_WATCHED (UINT64_C(1) << 63)

struct qbnpu_job_list {
	struct qbnpu_job *first, *last;
};

struct qbnpu_npu {
	/* constant */
	struct qbnpu_npu_facts facts;
	const struct qbnpu_kernels *kernels; /* NULL: none loads */
	bool poison;
	void (*trace)(const struct qbnpu_trace_item *item);
	const atomic_bool *is_trace_on;    /* never NULL */
	const struct qbnpu_engine *engine; /* NULL: the cores */
	void *engine_arg;

	struct qbnpu_faults faults;

	/* of programs; get_counters sums the tallies up into the rest */
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
	struct qbnpu_tally tally; /* of jobs that no core ended; lock */
	/* idle cores, and QBNPU_WATCHED when somebody waits for one */
	atomic_uint_fast64_t idle_mask;
	/* cores with a thread, which stays; written under the lock */
	atomic_uint_fast64_t thread_mask;
	/* jobs with items that no core has, most urgent first */
	struct qbnpu_job_list waiting[QBNPU_NUM_PRIORITIES];
	uint32_t num_cores;
	struct qbnpu_core cores[QBNPU_MAX_CORES];
};

/* Makes the idle cores of facts; starts no thread. */
int qbnpu_cores_start(struct qbnpu_npu *npu);

/* Waits until all are idle and ends their threads. */
void qbnpu_cores_stop(struct qbnpu_npu *npu);

/* Has nobody but the lock's holder make a core idle; lock held. */
static inline void qbnpu_cores_watch(struct qbnpu_npu *npu)
{
	(void)atomic_fetch_or(&npu->idle_mask, QBNPU_WATCHED);
}

static inline uint64_t qbnpu_cores_get_threads(const struct qbnpu_npu *npu)
{
	return atomic_load_explicit(&npu->thread_mask, memory_order_relaxed);
}

int qbnpu_cores_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job);
int qbnpu_cores_submit(struct qbnpu_npu *npu, struct qbnpu_job *job,
		       uint64_t *to_wake);
void qbnpu_cores_wake(struct qbnpu_npu *npu, uint64_t cores);
int qbnpu_cores_run(struct qbnpu_npu *npu, struct qbnpu_job *job);
void qbnpu_cores_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
			uint32_t cause);

#endif
