/* SPDX-License-Identifier: MIT */
/*
 * One item of a job on the calling thread: its commands or its copy, under
 * the device's floating point modes, until it ends or is to stop. Takes no
 * lock but through expire().
 */
#ifndef QBNPU_CORE_ITEM_H
#define QBNPU_CORE_ITEM_H

#include "core.h"
#include "program.h"

/* A thread's floating point modes; what they are depends on the processor. */
struct qbnpu_float_modes {
	uint64_t bits;
};

/*
 * Round to nearest, denormals flushed, no traps (NC43). enter returns what was
 * set before, for leave.
 */
struct qbnpu_float_modes qbnpu_float_enter(void);
void qbnpu_float_leave(struct qbnpu_float_modes modes);

/* The time at which a job that begins now has to stop. */
int64_t qbnpu_job_get_stop_ns(const struct qbnpu_job *job, int64_t begin_ns);

/*
 * Runs an item of job on the core. expire() is called with the time when the
 * deadline of a waiting job has passed. 0, or -ECANCELED: stopped, stop_cause
 * is set; *command is then the command that did not end.
 */
int qbnpu_item_run(struct qbnpu_core *core, struct qbnpu_job *job,
		   uint32_t number, int64_t stop_ns,
		   void (*expire)(struct qbnpu_npu *npu, int64_t now),
		   uint32_t *command);

/* The time at which an item ended on the core, which the trace is told. */
int64_t qbnpu_item_note_end(const struct qbnpu_core *core,
			    struct qbnpu_job *job, uint32_t number, int err);

/* What is left of it when no fault strikes the job; inline: for each job. */
static inline int qbnpu_item_work(struct qbnpu_core *core,
				  struct qbnpu_job *job, uint32_t number,
				  struct qbnpu_pace *pace, uint32_t *command)
{
	if (job->type == QBNPU_JOB_COPY)
		return qbnpu_copy_run(job->copy, job->copy_src, job->copy_dst,
				      pace);
	return qbnpu_executable_run(job->executable, core->bit, job, number,
				    pace, command);
}

#endif
