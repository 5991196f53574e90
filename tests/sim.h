/* SPDX-License-Identifier: MIT */
/*
 * An engine that does nothing by itself: jobs wait until the test begins them
 * and run until the test finishes them. So two jobs in flight, any order of
 * completion, a cancel before or after the start are calls, not races. Jobs
 * that succeed have really run, on the thread that finishes them.
 *
 * Any thread may submit; the test's own thread takes the steps.
 */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/npu.h"

#define SIM_MAX_JOBS 64u

struct sim {
	struct qbnpu_npu *npu;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	struct qbnpu_job *queued[SIM_MAX_JOBS]; /* in order of submission */
	uint32_t num_queued;
	struct qbnpu_job *running[SIM_MAX_JOBS]; /* in order of begin */
	uint32_t num_running;
	uint64_t num_submitted;
	int submit_error;   /* the next submit returns it; 0: none */
	bool allows_inline; /* else qbnpu_npu_run says -EBUSY */
};

/* Replaces the cores of npu; detach puts them back. No job may be left. */
void sim_attach(struct sim *sim, struct qbnpu_npu *npu);
void sim_detach(struct sim *sim);

/* The next submit fails with this error. */
void sim_fail_submit(struct sim *sim, int error);
/* Whether qbnpu_npu_run runs its job at once, on the caller's thread. */
void sim_allow_inline(struct sim *sim, bool allows);

uint32_t sim_num_queued(struct sim *sim);
uint32_t sim_num_running(struct sim *sim);

/* Returns when so many jobs have been submitted since attach. */
void sim_wait_submitted(struct sim *sim, uint64_t num);

/*
 * Begins the most urgent queued job, the oldest of those. One whose deadline
 * has passed ends here, as a core would end it. NULL: none was queued.
 */
struct qbnpu_job *sim_begin(struct sim *sim);

/*
 * Ends a running job: with cause QBNPU_CAUSE_NONE it runs now and succeeds,
 * unless it was cancelled meanwhile; else it fails for that cause. done() has
 * been called on return. false: it is not running.
 */
bool sim_finish(struct sim *sim, struct qbnpu_job *job, uint32_t cause);

/* Begins and finishes one job. false: none was queued. */
bool sim_step(struct sim *sim);

/* Steps until nothing is queued or running. */
void sim_finish_all(struct sim *sim);

#endif
