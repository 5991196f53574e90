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
 * A core is taken by taking its bit out of idle_mask. An inline run does that,
 * and gives it back, without the lock, unless somebody waits for a core: that
 * is noted in the same word before anything is queued.
 *
 * Where the system gives no more threads, waiting items are for the cores that
 * have one; where no core of a mask has, a run on the caller's own thread waits
 * for an idle core (Q337), and nothing is queued.
 */
#include "core.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "core-item.h"
#include "core-jobs.h"
#include "spin.h"
#include "util.h"

#define STACK_SIZE ((size_t)1 << 20)
#define NUM_LOOKS (4 * QBNPU_LOOKS_PER_CLOCK)

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

/*
 * Lock held, and given back meanwhile. Who has just ended an item looks for a
 * short while before it sleeps: the next one often follows.
 */
static void wait_for_item(struct qbnpu_core *core, bool *may_spin)
{
	struct qbnpu_npu *npu = core->npu;
	unsigned int given = atomic_load(&core->given);

	if (!*may_spin) {
		(void)pthread_cond_wait(&core->wake, &npu->lock);
		return;
	}
	*may_spin = false;
	unlock_npu(npu);
	qbnpu_spin(&core->given, given, INT64_MAX);
	lock_npu(npu);
}

static void *run_core(void *arg)
{
	struct qbnpu_core *core = arg;
	struct qbnpu_npu *npu = core->npu;
	struct qbnpu_job *complete;
	char name[16];
	bool may_spin = false;
	uint32_t command;
	int64_t stop_ns;
	int64_t end_ns;
	int32_t cpu;
	int err;

	(void)snprintf(name, sizeof(name), "qbrt-core%u.%u", core->bit / 8 % 8,
		       core->bit % 8);
	(void)prctl(PR_SET_NAME, name);
	(void)qbnpu_float_enter();
	if (npu->kernels)
		npu->kernels->thread_enter();
	lock_npu(npu);
	for (;;) {
		while (!core->job && !npu->is_closing)
			wait_for_item(core, &may_spin);
		if (!core->job)
			break;
		stop_ns = qbnpu_jobs_begin_item(core);
		cpu = core->job->cpu;
		unlock_npu(npu);
		err = qbnpu_item_run(core, core->job, core->item, stop_ns,
				     expire_waiting, &command);
		end_ns = qbnpu_item_note_end(core, core->job, core->item, err);
		lock_npu(npu);
		complete = qbnpu_jobs_end_item(core, err, command, end_ns);
		unlock_npu(npu);
		if (complete)
			complete->done(complete);
		/* whoever submits here could not run meanwhile */
		may_spin = !qbnpu_has_one_cpu() && cpu != sched_getcpu();
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
	(void)atomic_fetch_or(&core->npu->thread_mask, UINT64_C(1)
							       << core->bit);
	return 0;
}

static bool has_thread(struct qbnpu_core *core)
{
	return qbnpu_cores_get_threads(core->npu) >> core->bit & 1 ||
	       !start_thread(core);
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

static uint64_t get_idle(struct qbnpu_npu *npu)
{
	return atomic_load_explicit(&npu->idle_mask, memory_order_relaxed);
}

/* Takes idle cores of mask that have a thread, the *num lowest; counts down. */
static uint64_t take_idle(struct qbnpu_npu *npu, uint64_t mask, uint32_t *num)
{
	uint64_t rest, bit, taken = 0;

	for (rest = mask & get_idle(npu); rest && *num; rest &= rest - 1) {
		bit = rest & -rest;
		if (!has_thread(find_lowest(npu, bit)) ||
		    !(atomic_fetch_and(&npu->idle_mask, ~bit) & bit))
			continue;
		taken |= bit;
		--*num;
	}
	return taken;
}

int qbnpu_cores_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);
	uint64_t rest;
	int err = 0;

	if (mask & qbnpu_cores_get_threads(npu))
		return 0;
	lock_npu(npu);
	rest = mask & get_idle(npu);
	while (rest && !has_thread(find_lowest(npu, rest)))
		rest &= rest - 1;
	if (!rest && !start_threads(npu, mask))
		err = -ENOMEM;
	unlock_npu(npu);
	return err;
}

void qbnpu_cores_wake(struct qbnpu_npu *npu, uint64_t cores)
{
	for (; cores; cores &= cores - 1)
		(void)pthread_cond_signal(&find_lowest(npu, cores)->wake);
}

int qbnpu_cores_submit(struct qbnpu_npu *npu, struct qbnpu_job *job,
		       uint64_t *to_wake)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);
	uint32_t num_left = job->item_count;
	uint64_t taken, rest;

	if (!mask || !num_left)
		return -EINVAL;
	lock_npu(npu);
	taken = take_idle(npu, mask, &num_left);
	if (num_left) {
		/* from here on none becomes idle unseen */
		qbnpu_cores_watch(npu);
		taken |= take_idle(npu, mask, &num_left);
	}
	/* whichever core becomes free for what waits needs a thread to do so */
	if (num_left && !start_threads(npu, mask)) {
		unlock_npu(npu);
		return -ENOMEM;
	}
	qbnpu_jobs_begin_job(npu, job);
	for (rest = taken; rest; rest &= rest - 1)
		qbnpu_jobs_give(find_lowest(npu, rest), job);
	if (num_left)
		qbnpu_jobs_append(npu, job);
	unlock_npu(npu);
	if (to_wake)
		*to_wake |= taken;
	else
		qbnpu_cores_wake(npu, taken);
	return 0;
}

/*
 * Until a core becomes idle, the job is told to stop, or its deadline. On the
 * caller's thread, which may be cancelled, but not here with the lock.
 */
static void wait_idle(struct qbnpu_npu *npu, const struct qbnpu_job *job)
{
	const struct timespec limit = {
		.tv_sec = job->deadline_ns / QBRT_NS_PER_SEC,
		.tv_nsec = job->deadline_ns % QBRT_NS_PER_SEC,
	};

	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (job->deadline_ns == INT64_MAX)
		(void)pthread_cond_wait(&npu->has_idle, &npu->lock);
	else
		(void)pthread_cond_timedwait(&npu->has_idle, &npu->lock,
					     &limit);
	(void)pthread_setcancelstate(old, &old);
}

/* The lowest idle core of mask, for an inline run; NULL: none is idle. */
static struct qbnpu_core *take_lowest(struct qbnpu_npu *npu, uint64_t mask)
{
	uint64_t idle = get_idle(npu);

	while (mask & idle) {
		const uint64_t bit = (mask & idle) & -(mask & idle);

		if (atomic_compare_exchange_weak_explicit(
			    &npu->idle_mask, &idle, idle & ~bit,
			    memory_order_acquire, memory_order_relaxed))
			return find_lowest(npu, bit);
	}
	return NULL;
}

/*
 * Other inline runs are over soon, sooner than a thread is woken: a few looks
 * keep callers on several CPUs from falling into step with a core's thread.
 */
static struct qbnpu_core *look_for_idle(struct qbnpu_npu *npu, uint64_t mask)
{
	struct qbnpu_core *core = take_lowest(npu, mask);

	for (int i = 0; !core && i < NUM_LOOKS; i++) {
		if (qbnpu_has_one_cpu())
			break;
		qbnpu_relax();
		core = take_lowest(npu, mask);
	}
	return core;
}

/* After an inline run; whoever waits for a core is told under the lock. */
static void give_back(struct qbnpu_core *core)
{
	struct qbnpu_npu *npu = core->npu;
	uint64_t idle = get_idle(npu);

	while (!(idle & QBNPU_WATCHED)) {
		if (atomic_compare_exchange_weak_explicit(
			    &npu->idle_mask, &idle,
			    idle | UINT64_C(1) << core->bit,
			    memory_order_release, memory_order_relaxed))
			return;
	}
	lock_npu(npu);
	qbnpu_jobs_give_next(core);
	if (core->job)
		(void)pthread_cond_signal(&core->wake);
	unlock_npu(npu);
}

/*
 * For an inline run that found no idle core. 0 with a core; -EBUSY: a thread
 * will come by; -ECANCELED: the job ended before one became idle.
 */
static int wait_core(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     uint64_t mask, struct qbnpu_core **core)
{
	int err = 0;

	lock_npu(npu);
	npu->num_waiting_runs++;
	while (!err) {
		qbnpu_cores_watch(npu);
		*core = take_lowest(npu, mask);
		if (*core)
			break;
		if (start_threads(npu, mask))
			err = -EBUSY;
		else if (atomic_load(&job->stop_cause) ||
			 qbrt_now_ns() >= job->deadline_ns)
			err = -ECANCELED;
		else
			wait_idle(npu, job);
	}
	npu->num_waiting_runs--;
	if (err == -ECANCELED) {
		qbnpu_jobs_begin_job(npu, job);
		(void)qbnpu_jobs_stop(npu, job, QBNPU_CAUSE_TIME);
	}
	unlock_npu(npu);
	return err;
}

static int run_item(struct qbnpu_core *core, struct qbnpu_job *job,
		    int64_t stop_ns, uint32_t *command)
{
	const struct qbnpu_kernels *kernels = core->npu->kernels;
	const struct qbnpu_float_modes modes = qbnpu_float_enter();
	int err;

	if (kernels)
		kernels->thread_enter();
	err = qbnpu_item_run(core, job, 0, stop_ns, expire_waiting, command);
	if (kernels)
		kernels->thread_leave();
	qbnpu_float_leave(modes);
	return err;
}

int qbnpu_cores_run(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	const uint64_t mask = qbnpu_job_get_mask(npu, job);
	struct qbnpu_core *core;
	uint32_t command;
	int64_t stop_ns;
	int64_t end_ns;
	int err = 0;

	if (!mask || job->item_count != 1)
		return -EINVAL;
	core = look_for_idle(npu, mask);
	if (!core)
		err = wait_core(npu, job, mask, &core);
	if (err == -EBUSY)
		return err;
	if (!err) {
		stop_ns = qbnpu_jobs_begin_inline(core, job);
		err = run_item(core, job, stop_ns, &command);
		end_ns = qbnpu_item_note_end(core, job, 0, err);
		qbnpu_jobs_end_inline(core, job, err, command, end_ns);
		give_back(core);
	}
	job->done(job);
	return 0;
}

void qbnpu_cores_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
			uint32_t cause)
{
	bool is_complete = false;
	unsigned int none = 0;

	assert(cause != QBNPU_CAUSE_NONE);
	lock_npu(npu);
	/* in qbnpu_npu_run, or on its way there: that is where it ends */
	if (!job->is_complete && !atomic_load(&job->items_left)) {
		atomic_compare_exchange_strong(&job->stop_cause, &none, cause);
		qbnpu_faults_wake(&npu->faults);
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
	assert(!(facts->core_mask & QBNPU_WATCHED));
	atomic_init(&npu->idle_mask, facts->core_mask);
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
	qbnpu_cores_watch(npu);
	while ((get_idle(npu) & npu->facts.core_mask) != npu->facts.core_mask)
		(void)pthread_cond_wait(&npu->quiet, &npu->lock);
	for (i = 0; i < npu->num_cores; i++)
		(void)pthread_cond_signal(&npu->cores[i].wake);
	unlock_npu(npu);
	for (i = 0; i < npu->num_cores; i++) {
		if (qbnpu_cores_get_threads(npu) >> npu->cores[i].bit & 1)
			(void)pthread_join(npu->cores[i].thread, NULL);
	}
	/* the last ones to end may have signalled the others */
	for (i = 0; i < npu->num_cores; i++)
		(void)pthread_cond_destroy(&npu->cores[i].wake);
	(void)pthread_cond_destroy(&npu->quiet);
	(void)pthread_cond_destroy(&npu->has_idle);
	(void)pthread_mutex_destroy(&npu->lock);
}
