// SPDX-License-Identifier: MIT
/*
 * What the plans of a device do to its jobs. The first item of a job that
 * begins decides, once, which fault strikes the job; every item then acts by
 * it. A hanging core sleeps until its job is told to stop or its time is over,
 * and meanwhile ends jobs behind it whose deadline passes, like one that works.
 */
#include "fault.h"

#include <errno.h>
#include <stdlib.h>

#include "core-item.h"
#include "util.h"

struct qbnpu_fault_plan {
	struct qbnpu_fault_plan *next;
	uint32_t id;
	uint64_t num_fired;
	size_t num_faults;
	struct qbnpu_fault faults[];
};

/* The item, as qbnpu_fault_run was given it. */
struct item {
	struct qbnpu_core *core;
	struct qbnpu_job *job;
	uint32_t number; /* of the item in its job */
	int64_t stop_ns;
	void (*expire)(struct qbnpu_npu *npu, int64_t now);
	struct qbnpu_pace *pace;
};

static void lock_npu(struct qbnpu_npu *npu)
{
	(void)pthread_mutex_lock(&npu->lock);
}

static void unlock_npu(struct qbnpu_npu *npu)
{
	(void)pthread_mutex_unlock(&npu->lock);
}

/* ---- plans ---- */

static int alloc_plan(const char *text, struct qbnpu_fault_plan **plan)
{
	struct qbnpu_fault_plan *made;
	size_t num, at;
	int err;

	err = qbnpu_fault_parse(text, NULL, &num, &at);
	if (err)
		return err;
	made = calloc(1, sizeof(*made) + num * sizeof(made->faults[0]));
	if (!made)
		return -ENOMEM;
	made->num_faults = num;
	*plan = made;
	return qbnpu_fault_parse(text, made->faults, &num, &at);
}

/* Lock held, or before there is one. */
static uint32_t append(struct qbnpu_faults *faults,
		       struct qbnpu_fault_plan *plan)
{
	struct qbnpu_fault_plan **end = &faults->first;

	while (*end)
		end = &(*end)->next;
	*end = plan;
	plan->id = ++faults->last_id;
	atomic_fetch_add_explicit(&faults->num_plans, 1, memory_order_relaxed);
	return plan->id;
}

static struct qbnpu_fault_plan **find_plan(struct qbnpu_faults *faults,
					   uint32_t id)
{
	struct qbnpu_fault_plan **link = &faults->first;

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

int qbnpu_faults_start(struct qbnpu_faults *faults, uint32_t device,
		       const char *plan)
{
	struct qbnpu_fault_plan *made = NULL;
	pthread_condattr_t attr;
	int err;

	if (plan) {
		err = alloc_plan(plan, &made);
		if (err)
			return err;
		(void)append(faults, made);
	}
	faults->device = device;
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&faults->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	return 0;
}

void qbnpu_faults_stop(struct qbnpu_faults *faults)
{
	struct qbnpu_fault_plan *plan;

	while (faults->first) {
		plan = faults->first;
		faults->first = plan->next;
		free(plan);
	}
	(void)pthread_cond_destroy(&faults->wake);
}

QBRT_API int qbnpu_fault_add(struct qbnpu_npu *npu, const char *plan,
			     uint32_t *id)
{
	struct qbnpu_fault_plan *made;
	int err = alloc_plan(plan, &made);

	if (err)
		return err;
	lock_npu(npu);
	*id = append(&npu->faults, made);
	unlock_npu(npu);
	return 0;
}

QBRT_API int qbnpu_fault_remove(struct qbnpu_npu *npu, uint32_t id)
{
	struct qbnpu_fault_plan **link, *plan;

	lock_npu(npu);
	link = find_plan(&npu->faults, id);
	plan = *link;
	if (plan) {
		*link = plan->next;
		atomic_fetch_sub_explicit(&npu->faults.num_plans, 1,
					  memory_order_relaxed);
	}
	unlock_npu(npu);
	free(plan);
	return plan ? 0 : -ENOENT;
}

QBRT_API uint64_t qbnpu_fault_fired(struct qbnpu_npu *npu, uint32_t id)
{
	const struct qbnpu_fault_plan *plan;
	uint64_t num_fired;

	lock_npu(npu);
	plan = *find_plan(&npu->faults, id);
	num_fired = plan ? plan->num_fired : 0;
	unlock_npu(npu);
	return num_fired;
}

/* ---- which fault strikes a job ---- */

/* splitmix64: any seed will do, the same numbers on every machine. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool is_for(const struct qbnpu_fault *fault,
		   const struct qbnpu_core *core, const struct qbnpu_job *job)
{
	const uint64_t *values = fault->values;

	if (qbnpu_fault_has(fault, QBNPU_FAULT_DEV) &&
	    values[QBNPU_FAULT_DEV] != core->npu->faults.device)
		return false;
	if (qbnpu_fault_has(fault, QBNPU_FAULT_QUEUE) &&
	    values[QBNPU_FAULT_QUEUE] != job->queue)
		return false;
	return !qbnpu_fault_has(fault, QBNPU_FAULT_CORE) ||
	       values[QBNPU_FAULT_CORE] == core->bit;
}

/* The job counts for the fault; whether its turn has come. */
static bool is_turn(struct qbnpu_fault *fault)
{
	const uint64_t *values = fault->values;
	const uint64_t seen = ++fault->num_seen;

	if (values[QBNPU_FAULT_COUNT] &&
	    fault->num_struck >= values[QBNPU_FAULT_COUNT])
		return false;
	if (seen < values[QBNPU_FAULT_JOB] ||
	    (seen - values[QBNPU_FAULT_JOB]) % values[QBNPU_FAULT_EVERY])
		return false;
	return values[QBNPU_FAULT_P] == QBNPU_FAULT_P_ALWAYS ||
	       draw(&fault->random) % QBNPU_FAULT_P_ALWAYS <
		       values[QBNPU_FAULT_P];
}

/* Lock held. Every fault sees the job; the first whose turn it is gets it. */
static void decide(const struct qbnpu_core *core, struct qbnpu_job *job)
{
	struct qbnpu_fault_hit *hit = &job->fault;
	struct qbnpu_fault_plan *plan;
	size_t i;

	hit->word = QBNPU_FAULT_NONE;
	for (plan = core->npu->faults.first; plan; plan = plan->next) {
		for (i = 0; i < plan->num_faults; i++) {
			struct qbnpu_fault *fault = &plan->faults[i];

			if (!is_for(fault, core, job) || !is_turn(fault) ||
			    hit->word != QBNPU_FAULT_NONE)
				continue;
			fault->num_struck++;
			*hit = (struct qbnpu_fault_hit){
				.word = fault->word,
				.plan = plan->id,
				.command = (uint32_t)fault
						   ->values[QBNPU_FAULT_CMD],
				.item = (uint32_t)
						fault->values[QBNPU_FAULT_ITEM],
				.factor = (int64_t)fault
						  ->values[QBNPU_FAULT_FACTOR],
				.ns = (int64_t)fault->values[QBNPU_FAULT_NS],
			};
		}
	}
}

static struct qbnpu_fault_hit get_hit(struct qbnpu_core *core,
				      struct qbnpu_job *job)
{
	struct qbnpu_fault_hit copy;

	lock_npu(core->npu);
	if (job->fault.word == QBNPU_FAULT_UNDECIDED)
		decide(core, job);
	copy = job->fault;
	unlock_npu(core->npu);
	return copy;
}

static void note_fired(struct qbnpu_npu *npu, uint32_t id)
{
	struct qbnpu_fault_plan *plan;

	lock_npu(npu);
	plan = *find_plan(&npu->faults, id);
	if (plan)
		plan->num_fired++;
	unlock_npu(npu);
}

/* ---- what it does ---- */

/* On the caller's thread too, which is not cancelled here with the lock. */
static void wait_until(struct qbnpu_npu *npu, int64_t time_ns)
{
	const struct timespec limit = {
		.tv_sec = time_ns / QBRT_NS_PER_SEC,
		.tv_nsec = time_ns % QBRT_NS_PER_SEC,
	};
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	(void)pthread_cond_timedwait(&npu->faults.wake, &npu->lock, &limit);
	(void)pthread_setcancelstate(old, &old);
}

/* 0: it is end_ns; -ECANCELED: the job is to stop, as look() would say. */
static int sleep_until(const struct item *item, int64_t end_ns)
{
	struct qbnpu_npu *npu = item->core->npu;
	struct qbnpu_job *job = item->job;
	unsigned int none = 0;
	int64_t now, deadline;

	lock_npu(npu);
	npu->faults.num_sleepers++;
	for (;;) {
		now = qbrt_now_ns();
		if (now >= item->stop_ns)
			(void)atomic_compare_exchange_strong(
				&job->stop_cause, &none, QBNPU_CAUSE_TIME);
		if (atomic_load(&job->stop_cause) || now >= end_ns)
			break;
		deadline = atomic_load_explicit(&npu->next_deadline,
						memory_order_relaxed);
		if (now >= deadline) {
			unlock_npu(npu);
			item->expire(npu, now);
			lock_npu(npu);
			continue;
		}
		if (item->stop_ns < deadline)
			deadline = item->stop_ns;
		wait_until(npu, end_ns < deadline ? end_ns : deadline);
	}
	npu->faults.num_sleepers--;
	unlock_npu(npu);
	return atomic_load(&job->stop_cause) ? -ECANCELED : 0;
}

/* A copy has one command, which has no number in its result. */
static uint32_t count_commands(const struct qbnpu_job *job)
{
	return job->type == QBNPU_JOB_COPY ? 1 : job->executable->num_steps;
}

static uint32_t name_command(const struct qbnpu_job *job, uint32_t command)
{
	return job->type == QBNPU_JOB_COPY ? QBNPU_NONE32 : command;
}

/* The commands before `end`. */
static int work_until(const struct item *item, uint32_t end, uint32_t *command)
{
	const struct qbnpu_job *job = item->job;
	struct qbnpu_executable part;

	if (job->type == QBNPU_JOB_COPY)
		return 0;
	part = *job->executable;
	part.num_steps = end;
	return qbnpu_executable_run(&part, item->core->bit, job, item->number,
				    item->pace, command);
}

static int stop_before(const struct item *item,
		       const struct qbnpu_fault_hit *hit, uint32_t *command)
{
	struct qbnpu_job *job = item->job;
	unsigned int none = 0;
	int err = work_until(item, hit->command, command);

	if (err)
		return err;
	*command = name_command(job, hit->command);
	note_fired(item->core->npu, hit->plan);
	if (hit->word == QBNPU_FAULT_HANG)
		return sleep_until(item, INT64_MAX);
	(void)atomic_compare_exchange_strong(&job->stop_cause, &none,
					     QBNPU_CAUSE_INJECTED);
	return -ECANCELED;
}

/* The item's time factor times, or ns more for the first item. */
static int run_slowly(const struct item *item,
		      const struct qbnpu_fault_hit *hit, uint32_t *command)
{
	struct qbnpu_core *core = item->core;
	int64_t more_ns = item->number ? 0 : hit->ns;
	int err = qbnpu_item_work(core, item->job, item->number, item->pace,
				  command);

	if (err)
		return err;
	if (!item->number)
		note_fired(core->npu, hit->plan);
	if (hit->factor > 1 &&
	    __builtin_mul_overflow(qbrt_now_ns() - core->begin_ns,
				   hit->factor - 1, &more_ns))
		more_ns = INT64_MAX;
	*command = name_command(item->job, count_commands(item->job) - 1);
	return sleep_until(item, qbrt_deadline_ns(more_ns));
}

/*
 * The work is done, and only the word of it is late: nothing is left to cancel,
 * but time can run out.
 */
static int complete_late(const struct item *item,
			 const struct qbnpu_fault_hit *hit, uint32_t *command)
{
	const struct qbnpu_job *job = item->job;
	int err = qbnpu_item_work(item->core, item->job, item->number,
				  item->pace, command);

	if (err || item->number != job->item_count - 1)
		return err;
	note_fired(item->core->npu, hit->plan);
	*command = QBNPU_NONE32;
	err = sleep_until(item, qbrt_deadline_ns(hit->ns));
	return atomic_load(&job->stop_cause) == QBNPU_CAUSE_TIME ? err : 0;
}

int qbnpu_fault_run(struct qbnpu_core *core, struct qbnpu_job *job,
		    uint32_t number, int64_t stop_ns,
		    void (*expire)(struct qbnpu_npu *npu, int64_t now),
		    struct qbnpu_pace *pace, uint32_t *command)
{
	const struct qbnpu_fault_hit hit = get_hit(core, job);
	const struct item item = {
		.core = core,
		.job = job,
		.number = number,
		.stop_ns = stop_ns,
		.expire = expire,
		.pace = pace,
	};

	switch (hit.word) {
	case QBNPU_FAULT_HANG:
	case QBNPU_FAULT_ERROR:
		if (hit.item == number && hit.command < count_commands(job))
			return stop_before(&item, &hit, command);
		break;
	case QBNPU_FAULT_SLOW:
		return run_slowly(&item, &hit, command);
	case QBNPU_FAULT_LATE:
		return complete_late(&item, &hit, command);
	default:
		break;
	}
	return qbnpu_item_work(core, job, number, pace, command);
}
