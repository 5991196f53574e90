/* SPDX-License-Identifier: MIT */
/*
 * Which core has which item, and the account of it. Every function is called
 * with the device's lock held, but those for inline runs, and calls nobody.
 */
#ifndef QBNPU_CORE_JOBS_H
#define QBNPU_CORE_JOBS_H

#include "core.h"

/* Cores that a job may run on. */
uint64_t qbnpu_job_get_mask(const struct qbnpu_npu *npu,
			    const struct qbnpu_job *job);

/* Before anything of it is given to a core. */
void qbnpu_jobs_begin_job(struct qbnpu_npu *npu, struct qbnpu_job *job);

/* Has the job wait for cores, behind others of its priority. */
void qbnpu_jobs_append(struct qbnpu_npu *npu, struct qbnpu_job *job);

/* Gives the job's next item to a core that was taken out of idle_mask. */
void qbnpu_jobs_give(struct qbnpu_core *core, struct qbnpu_job *job);

/* The core's item begins now; returns the time at which it has to stop. */
int64_t qbnpu_jobs_begin_item(struct qbnpu_core *core);

/*
 * Accounts for the item that the core ran until end_ns, and gives the core its
 * next one. Returns the job if it is complete now: done() is to be called,
 * unlocked.
 */
struct qbnpu_job *qbnpu_jobs_end_item(struct qbnpu_core *core, int err,
				      uint32_t command, int64_t end_ns);

/*
 * The same for a job of one item that the calling thread runs on a core that
 * it took; without the lock. end makes its result, and keeps the core.
 */
int64_t qbnpu_jobs_begin_inline(struct qbnpu_core *core, struct qbnpu_job *job);
void qbnpu_jobs_end_inline(struct qbnpu_core *core, struct qbnpu_job *job,
			   int err, uint32_t command, int64_t end_ns);

/* Gives a core that has ended its item the next one, or makes it idle. */
void qbnpu_jobs_give_next(struct qbnpu_core *core);

/* Tells a job to stop; true: nothing of it runs, it is complete now. */
bool qbnpu_jobs_stop(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     uint32_t cause);

#endif
