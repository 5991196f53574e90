// SPDX-License-Identifier: MIT
/*
 * The cores: who runs which item, one thread per core, inline runs, cancel,
 * accounting.
 *
 * An item goes to the idle core of its job's mask with the lowest number, at
 * once; when none is idle, its job waits in a list of its priority, and a core
 * that becomes free claims the next item of the first job that allows it. So
 * an idle core never has a waiting job that it may run, a job of any number of
 * items needs no memory of its own, and an item never waits behind a core that
 * is slower than another of its mask (DV02).
 *
 * Where the system gives no more threads, waiting items are for the cores that
 * have one; where no core of a mask has, a run on the caller's own thread waits
 * for an idle core (Q337), and nothing is queued.
 */
#include "core.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "core-item.h"
#include "core-jobs.h"
#include "util.h"

#define STACK_SIZE ((size_t)1 << 20)

static void lock_npu(struct qbnpu_npu *npu)
{
	(void)pthread_mutex_lock(&npu->lock);
}

static void unlock_npu(struct qbnpu_npu *npu)
{
	(void)pthread_mutex_unlock(&npu->lock);
}

static struct qbnpu_core *find_core(struct qbnpu_npu *npu, uint32_t bit)
{
	return &npu->cores[bit / 8 * npu->facts.local_cores + bit % 8];
}

static struct qbnpu_core *find_lowest(struct qbnpu_npu *npu, uint64_t mask)
{
	return find_core(npu, (uint32_t)__builtin_ctzll(mask));
}

/* Ends every waiting job whose deadline has passed (K087). */
static void expire_waiting(struct qbnpu_npu *npu, int64_t now)
{
	struct qbnpu_job *job, *next, *expired = NULL;
	uint32_t i;

	lock_npu(npu);
	for (i = 0; i < QBNPU_NUM_PRIORITIES; i++) {
		for (job = npu->waiting[i].first; job; job = next) {
			next = job->next;
			if (now < job->deadline_ns ||
			    !qbnpu_jobs_stop(npu, job, QBNPU_CAUSE_TIME))
				continue;
			job->next = expired;
			expired = job;
		}
	}
	unlock_npu(npu);
	for (job = expired; job; job = next) {
		next = job->next;
		job->done(job);
	}
}

static void *run_core(void *arg)
{
	struct qbnpu_core *core = arg;
	struct qbnpu_npu *npu = core->npu;
	struct qbnpu_job *complete;
	char name[16];
	uint32_t command;
	int64_t stop_ns;
	int err;

	(void)snprintf(name, sizeof(name), "qbrt-core%u.%u", core->bit / 8 % 8,
		       core->bit % 8);
	(void)prctl(PR_SET_NAME, name);
	(void)qbnpu_float_enter();
	if (npu->kernels)
		npu->kernels->thread_enter();
	lock_npu(npu);
	for (;;) {
		/* what is_running here is a run on another thread */
		while ((!core->job || core->is_running) && !npu->is_closing)
			(void)pthread_cond_wait(&core->wake, &npu->lock);
		if (!core->job || core->is_running)
			break;
		stop_ns = qbnpu_jobs_begin_item(core);
		unlock_npu(npu);
		err = qbnpu_item_run(core, stop_ns, expire_waiting, &command);
		lock_npu(npu);
		complete = qbnpu_jobs_end_item(core, err, command);
		unlock_npu(npu);
		if (complete)
			complete->done(complete);
		lock_npu(npu);
	}
	unlock_npu(npu);
	if (npu->kernels)
		npu->kernels->thread_leave();
	return NULL;
}

static int start_thread(struct qbnpu_core *core)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -ENOMEM;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (!err)
		err = pthread_create(&core->thread, &attr, run_core, core);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (err)
		return -ENOMEM;
	core->has_thread = true;
	return 0;
}

static bool has_thread(struct qbnpu_core *core)
{
	return core->has_thread || !start_thread(core);
}

/* Threads for cores of mask, the lowest first: those that have one then. */
static uint64_t start_threads(struct qbnpu_npu *npu, uint64_t mask)
{
	uint64_t rest, ready = 0;

	for (rest = mask; rest; rest &= rest - 1) {
		if (has_thread(find_lowest(npu, rest)))
			ready |= rest & -rest;
	}
	return ready;
}

/* The idle cores of mask that get an item: the num lowest with a thread. */
static uint64_t choose_idle(struct qbnpu_npu *npu, uint64_t mask, uint32_t num)
{
	uint64_t rest, chosen = 0;

	for (rest = mask & npu->idle_mask; rest && num; rest &= rest - 1) {
		if (!has_thread(find_lowest(npu, rest)))
			continue;
		chosen |= rest & -rest;
		num--;
	}
	return chosen;
}

int qbnpu_cores_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);
	uint64_t rest;
	int err = 0;

	lock_npu(npu);
	for (rest = mask; rest; rest &= rest - 1) {
		if (find_lowest(npu, rest)->has_thread)
			break;
	}
	if (!rest && !choose_idle(npu, mask, 1) && !start_threads(npu, mask))
		err = -ENOMEM;
	unlock_npu(npu);
	return err;
}

int qbnpu_cores_submit(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);
	uint64_t chosen, rest;
	bool has_to_wait;

	if (!mask || !job->item_count)
		return -EINVAL;
	lock_npu(npu);
	chosen = choose_idle(npu, mask, job->item_count);
	has_to_wait = (uint32_t)__builtin_popcountll(chosen) < job->item_count;
	/* whichever core becomes free for what waits needs a thread to do so */
	if (has_to_wait && !start_threads(npu, mask)) {
		unlock_npu(npu);
		return -ENOMEM;
	}
	qbnpu_jobs_begin_job(npu, job);
	for (rest = chosen; rest; rest &= rest - 1)
		qbnpu_jobs_give(find_lowest(npu, rest), job);
	if (has_to_wait)
		qbnpu_jobs_append(npu, job);
	for (rest = chosen; rest; rest &= rest - 1)
		(void)pthread_cond_signal(&find_lowest(npu, rest)->wake);
	unlock_npu(npu);
	return 0;
}

/* Until a core becomes idle, the job is told to stop, or its deadline. */
static void wait_idle(struct qbnpu_npu *npu, const struct qbnpu_job *job)
{
	const struct timespec limit = {
		.tv_sec = job->deadline_ns / QBRT_NS_PER_SEC,
		.tv_nsec = job->deadline_ns % QBRT_NS_PER_SEC,
	};

	npu->num_waiting_runs++;
	if (job->deadline_ns == INT64_MAX)
		(void)pthread_cond_wait(&npu->has_idle, &npu->lock);
	else
		(void)pthread_cond_timedwait(&npu->has_idle, &npu->lock,
					     &limit);
	npu->num_waiting_runs--;
}

/*
 * For an inline run; lock held. 0 with the idle core; -EBUSY: a thread will
 * come by; -ECANCELED: the job has to end before one became idle.
 */
static int take_core(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     struct qbnpu_core **core)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);

	while (!(mask & npu->idle_mask)) {
		if (start_threads(npu, mask))
			return -EBUSY;
		if (atomic_load(&job->stop_cause) ||
		    qbrt_now_ns() >= job->deadline_ns)
			return -ECANCELED;
		wait_idle(npu, job);
	}
	*core = find_lowest(npu, mask & npu->idle_mask);
	return 0;
}

static int run_item(struct qbnpu_core *core, int64_t stop_ns, uint32_t *command)
{
	const struct qbnpu_kernels *kernels = core->npu->kernels;
	const struct qbnpu_float_modes modes = qbnpu_float_enter();
	int err;

	if (kernels)
		kernels->thread_enter();
	err = qbnpu_item_run(core, stop_ns, expire_waiting, command);
	if (kernels)
		kernels->thread_leave();
	qbnpu_float_leave(modes);
	return err;
}

int qbnpu_cores_run(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	struct qbnpu_job *complete = job;
	struct qbnpu_core *core;
	uint32_t command;
	int64_t stop_ns;
	int err;

	if (!qbnpu_job_get_mask(npu, job) || job->item_count != 1)
		return -EINVAL;
	lock_npu(npu);
	err = take_core(npu, job, &core);
	if (err == -EBUSY) {
		unlock_npu(npu);
		return err;
	}
	qbnpu_jobs_begin_job(npu, job);
	if (err) {
		(void)qbnpu_jobs_stop(npu, job, QBNPU_CAUSE_TIME);
	} else {
		qbnpu_jobs_give(core, job);
		stop_ns = qbnpu_jobs_begin_item(core);
		unlock_npu(npu);
		err = run_item(core, stop_ns, &command);
		lock_npu(npu);
		complete = qbnpu_jobs_end_item(core, err, command);
		if (core->job)
			(void)pthread_cond_signal(&core->wake);
	}
	unlock_npu(npu);
	assert(complete == job);
	complete->done(complete);
	return 0;
}

void qbnpu_cores_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
			uint32_t cause)
{
	bool is_complete = false;

	assert(cause != QBNPU_CAUSE_NONE);
	lock_npu(npu);
	/* on its way into qbnpu_npu_run: it ends there before its first item */
	if (!job->is_complete && !atomic_load(&job->items_left)) {
		atomic_store(&job->stop_cause, cause);
		(void)pthread_cond_broadcast(&npu->has_idle);
	} else if (!job->is_complete) {
		is_complete = qbnpu_jobs_stop(npu, job, cause);
	}
	unlock_npu(npu);
	if (is_complete)
		job->done(job);
}

int qbnpu_cores_start(struct qbnpu_npu *npu)
{
	const struct qbnpu_npu_facts *facts = &npu->facts;
	pthread_condattr_t attr;
	uint32_t i;

	if (pthread_mutex_init(&npu->lock, NULL))
		return -ENOMEM;
	(void)pthread_cond_init(&npu->quiet, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&npu->has_idle, &attr);
	(void)pthread_condattr_destroy(&attr);
	npu->num_cores = facts->clusters * facts->local_cores;
	npu->idle_mask = facts->core_mask;
	atomic_init(&npu->next_deadline, INT64_MAX);
	for (i = 0; i < npu->num_cores; i++) {
		npu->cores[i].npu = npu;
		npu->cores[i].bit =
			i / facts->local_cores * 8 + i % facts->local_cores;
		(void)pthread_cond_init(&npu->cores[i].wake, NULL);
	}
	return 0;
}

void qbnpu_cores_stop(struct qbnpu_npu *npu)
{
	uint32_t i;

	lock_npu(npu);
	npu->is_closing = true;
	while (npu->idle_mask != npu->facts.core_mask)
		(void)pthread_cond_wait(&npu->quiet, &npu->lock);
	for (i = 0; i < npu->num_cores; i++)
		(void)pthread_cond_signal(&npu->cores[i].wake);
	unlock_npu(npu);
	for (i = 0; i < npu->num_cores; i++) {
		if (npu->cores[i].has_thread)
			(void)pthread_join(npu->cores[i].thread, NULL);
		(void)pthread_cond_destroy(&npu->cores[i].wake);
	}
	(void)pthread_cond_destroy(&npu->quiet);
	(void)pthread_cond_destroy(&npu->has_idle);
	(void)pthread_mutex_destroy(&npu->lock);
}
