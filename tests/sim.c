// SPDX-License-Identifier: MIT
/*
 * The stepped engine. Its answers follow the contract of device/npu.h: what a
 * core would say, sim says, only when it is told to.
 */
#include "sim.h"

#include <check.h>
#include <errno.h>

#include "device/core-item.h"
#include "device/program.h"
#include "util.h"

static int status_of_cause(uint32_t cause)
{
	switch (cause) {
	case QBNPU_CAUSE_NONE:
		return 0;
	case QBNPU_CAUSE_TIME:
		return -ETIMEDOUT;
	case QBNPU_CAUSE_CANCELLED:
	case QBNPU_CAUSE_RESET:
		return -ECANCELED;
	case QBNPU_CAUSE_LOST:
		return -ENODEV;
	default:
		return -EIO;
	}
}

static void lock_sim(struct sim *sim)
{
	(void)pthread_mutex_lock(&sim->lock);
}

static void unlock_sim(struct sim *sim)
{
	(void)pthread_mutex_unlock(&sim->lock);
}

static bool remove_from(struct qbnpu_job **jobs, uint32_t *num,
			const struct qbnpu_job *job)
{
	uint32_t i;

	for (i = 0; i < *num && jobs[i] != job; i++)
		;
	if (i == *num)
		return false;
	for (--*num; i < *num; i++)
		jobs[i] = jobs[i + 1];
	return true;
}

static void set_result(struct qbnpu_job *job, uint32_t cause)
{
	const bool has_failed = cause != QBNPU_CAUSE_NONE;

	job->result.status = status_of_cause(cause);
	job->result.cause = cause;
	job->result.list = QBNPU_NONE32;
	job->result.command = QBNPU_NONE32;
	job->result.item = has_failed ? 0 : QBNPU_NONE32;
	job->result.end_ns = qbrt_now_ns();
	job->is_complete = 1;
}

static int go_on(struct qbnpu_pace *pace)
{
	pace->left = QBNPU_PACE_UNITS;
	return 0;
}

/* What the job is for: all of its items, on the first core of its mask. */
static void run_items(struct sim *sim, struct qbnpu_job *job)
{
	uint64_t mask = qbnpu_npu_get_facts(sim->npu)->core_mask;
	struct qbnpu_pace pace = { .left = QBNPU_PACE_UNITS, .look = go_on };
	const struct qbnpu_float_modes modes = qbnpu_float_enter();
	uint32_t item, command;

	if (job->core_mask)
		mask &= job->core_mask;
	job->result.core = (uint32_t)__builtin_ctzll(mask);
	for (item = 0; item < job->item_count; item++) {
		if (job->type == QBNPU_JOB_COPY)
			(void)qbnpu_copy_run(job->copy, job->copy_src,
					     job->copy_dst, &pace);
		else
			(void)qbnpu_executable_run(job->executable,
						   job->result.core, job, item,
						   &pace, &command);
	}
	qbnpu_float_leave(modes);
}

static int sim_op_submit(void *arg, struct qbnpu_job *job)
{
	struct sim *sim = arg;
	int err;

	lock_sim(sim);
	err = sim->submit_error;
	sim->submit_error = 0;
	if (!err) {
		ck_assert_uint_lt(sim->num_queued, SIM_MAX_JOBS);
		job->result = (struct qbnpu_result){ .core = QBNPU_NONE32 };
		sim->queued[sim->num_queued++] = job;
		sim->num_submitted++;
		(void)pthread_cond_broadcast(&sim->changed);
	}
	unlock_sim(sim);
	return err;
}

static int sim_op_run(void *arg, struct qbnpu_job *job)
{
	struct sim *sim = arg;
	uint32_t cause;
	bool allows;

	lock_sim(sim);
	allows = sim->allows_inline && !sim->num_running && !sim->num_queued;
	sim->num_submitted += allows;
	unlock_sim(sim);
	if (!allows)
		return -EBUSY;
	job->result = (struct qbnpu_result){ .start_ns = qbrt_now_ns() };
	cause = atomic_load(&job->stop_cause);
	if (cause == QBNPU_CAUSE_NONE)
		run_items(sim, job);
	set_result(job, cause);
	job->done(job);
	return 0;
}

static void sim_op_cancel(void *arg, struct qbnpu_job *job, uint32_t cause)
{
	struct sim *sim = arg;
	unsigned int none = 0;
	bool is_queued;

	lock_sim(sim);
	atomic_compare_exchange_strong(&job->stop_cause, &none, cause);
	is_queued = remove_from(sim->queued, &sim->num_queued, job);
	if (is_queued)
		set_result(job, cause);
	unlock_sim(sim);
	if (is_queued)
		job->done(job);
}

static void sim_op_drain(void *arg)
{
	sim_finish_all(arg);
}

static const struct qbnpu_engine sim_engine = {
	.submit = sim_op_submit,
	.run = sim_op_run,
	.cancel = sim_op_cancel,
	.drain = sim_op_drain,
};

void sim_attach(struct sim *sim, struct qbnpu_npu *npu)
{
	*sim = (struct sim){ .npu = npu };
	(void)pthread_mutex_init(&sim->lock, NULL);
	(void)pthread_cond_init(&sim->changed, NULL);
	qbnpu_npu_set_engine(npu, &sim_engine, sim);
}

void sim_detach(struct sim *sim)
{
	ck_assert_uint_eq(sim->num_queued + sim->num_running, 0);
	qbnpu_npu_set_engine(sim->npu, NULL, NULL);
	(void)pthread_cond_destroy(&sim->changed);
	(void)pthread_mutex_destroy(&sim->lock);
}

void sim_fail_submit(struct sim *sim, int error)
{
	lock_sim(sim);
	sim->submit_error = error;
	unlock_sim(sim);
}

void sim_allow_inline(struct sim *sim, bool allows)
{
	lock_sim(sim);
	sim->allows_inline = allows;
	unlock_sim(sim);
}

uint32_t sim_num_queued(struct sim *sim)
{
	uint32_t num;

	lock_sim(sim);
	num = sim->num_queued;
	unlock_sim(sim);
	return num;
}

uint32_t sim_num_running(struct sim *sim)
{
	uint32_t num;

	lock_sim(sim);
	num = sim->num_running;
	unlock_sim(sim);
	return num;
}

void sim_wait_submitted(struct sim *sim, uint64_t num)
{
	lock_sim(sim);
	while (sim->num_submitted < num)
		(void)pthread_cond_wait(&sim->changed, &sim->lock);
	unlock_sim(sim);
}

struct qbnpu_job *sim_begin(struct sim *sim)
{
	struct qbnpu_job *job = NULL;
	bool is_late = false;
	uint32_t i;

	lock_sim(sim);
	for (i = 0; i < sim->num_queued; i++) {
		if (!job || sim->queued[i]->priority < job->priority)
			job = sim->queued[i];
	}
	if (job) {
		const int64_t now = qbrt_now_ns();

		(void)remove_from(sim->queued, &sim->num_queued, job);
		is_late = now >= job->deadline_ns;
		if (is_late) {
			set_result(job, QBNPU_CAUSE_TIME);
		} else {
			job->result.start_ns = now;
			sim->running[sim->num_running++] = job;
		}
	}
	unlock_sim(sim);
	if (is_late)
		job->done(job);
	return job;
}

bool sim_finish(struct sim *sim, struct qbnpu_job *job, uint32_t cause)
{
	bool is_running;

	lock_sim(sim);
	is_running = remove_from(sim->running, &sim->num_running, job);
	if (is_running && cause == QBNPU_CAUSE_NONE)
		cause = atomic_load(&job->stop_cause);
	unlock_sim(sim);
	if (!is_running)
		return false;
	if (cause == QBNPU_CAUSE_NONE)
		run_items(sim, job);
	set_result(job, cause);
	job->done(job);
	return true;
}

bool sim_step(struct sim *sim)
{
	struct qbnpu_job *job = sim_begin(sim);

	if (job)
		(void)sim_finish(sim, job, QBNPU_CAUSE_NONE);
	return job;
}

void sim_finish_all(struct sim *sim)
{
	struct qbnpu_job *job;

	do {
		lock_sim(sim);
		job = sim->num_running ? sim->running[0] : NULL;
		unlock_sim(sim);
		if (job)
			(void)sim_finish(sim, job, QBNPU_CAUSE_NONE);
	} while (job || sim_step(sim));
}
