// SPDX-License-Identifier: MIT
/*
 * Which core has which item, and the account of it: waiting jobs, items given
 * to cores, begun and ended, results. Every function is called with the
 * device's lock held, but those for inline runs, and calls nobody.
 */
#include "core-jobs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core-item.h"
#include "program.h"
#include "util.h"

/* A counter has one writer at a time, and is read at any time. */
static void count(atomic_uint_fast64_t *counter, uint64_t value)
{
	atomic_store_explicit(
		counter,
		atomic_load_explicit(counter, memory_order_relaxed) + value,
		memory_order_relaxed);
}

static uint32_t get(const atomic_uint *field)
{
	return atomic_load_explicit(field, memory_order_relaxed);
}

static void set(atomic_uint *field, uint32_t value)
{
	atomic_store_explicit(field, value, memory_order_relaxed);
}

/* Who runs an item on the core is the one writer. */
static inline void add_account(struct qbnpu_core *core, int64_t time_ns)
{
	atomic_store_explicit(
		&core->account,
		atomic_load_explicit(&core->account, memory_order_relaxed) +
			time_ns,
		memory_order_relaxed);
}

static struct qbnpu_job_list *find_list(struct qbnpu_npu *npu,
					const struct qbnpu_job *job)
{
	assert(job->priority >= 1 - (int32_t)QBNPU_NUM_PRIORITIES &&
	       job->priority <= 0);
	return &npu->waiting[QBNPU_NUM_PRIORITIES - 1 + job->priority];
}

uint64_t qbnpu_job_get_mask(const struct qbnpu_npu *npu,
			    const struct qbnpu_job *job)
{
	uint64_t mask = npu->facts.core_mask;

	if (job->core_mask)
		mask &= job->core_mask;
	if (job->type == QBNPU_JOB_RUN)
		mask &= job->executable->core_mask;
	return mask;
}

/* Earliest deadline of the waiting jobs, for look(). */
static void update_deadline(struct qbnpu_npu *npu)
{
	int64_t earliest = INT64_MAX;
	const struct qbnpu_job *job;
	uint32_t i;

	for (i = 0; i < QBNPU_NUM_PRIORITIES; i++) {
		for (job = npu->waiting[i].first; job; job = job->next) {
			if (job->deadline_ns < earliest)
				earliest = job->deadline_ns;
		}
	}
	atomic_store_explicit(&npu->next_deadline, earliest,
			      memory_order_relaxed);
}

void qbnpu_jobs_append(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	struct qbnpu_job_list *list = find_list(npu, job);

	job->next = NULL;
	if (list->last)
		list->last->next = job;
	else
		list->first = job;
	list->last = job;
	if (job->deadline_ns >=
	    atomic_load_explicit(&npu->next_deadline, memory_order_relaxed))
		return;
	atomic_store_explicit(&npu->next_deadline, job->deadline_ns,
			      memory_order_relaxed);
	qbnpu_faults_wake(&npu->faults);
}

/* Takes a job out of its list; nothing happens if it is in none. */
static void remove_job(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	struct qbnpu_job_list *list = find_list(npu, job);
	struct qbnpu_job *before = NULL, *at;

	for (at = list->first; at && at != job; at = at->next)
		before = at;
	if (!at)
		return;
	if (before)
		before->next = job->next;
	else
		list->first = job->next;
	if (list->last == job)
		list->last = before;
	if (job->deadline_ns != INT64_MAX)
		update_deadline(npu);
}

void qbnpu_jobs_give(struct qbnpu_core *core, struct qbnpu_job *job)
{
	const uint32_t item = get(&job->next_item);

	set(&job->next_item, item + 1);
	set(&job->runners, get(&job->runners) + 1);
	core->job = job;
	core->item = item;
	core->is_running = false;
	set(&core->given, get(&core->given) + 1);
}

static bool has_watchers(const struct qbnpu_npu *npu)
{
	uint32_t i;

	for (i = 0; i < QBNPU_NUM_PRIORITIES; i++) {
		if (npu->waiting[i].first)
			return true;
	}
	return npu->num_waiting_runs || npu->is_closing;
}

/*
 * A core without a thread ran its item inline, and nobody would run another
 * one.
 */
void qbnpu_jobs_give_next(struct qbnpu_core *core)
{
	struct qbnpu_npu *npu = core->npu;
	const bool has_thread = qbnpu_cores_get_threads(npu) >> core->bit & 1;
	struct qbnpu_job *job;
	uint32_t i;

	core->is_running = false;
	for (i = 0; has_thread && i < QBNPU_NUM_PRIORITIES; i++) {
		for (job = npu->waiting[i].first; job; job = job->next) {
			if (!(qbnpu_job_get_mask(npu, job) >> core->bit & 1))
				continue;
			qbnpu_jobs_give(core, job);
			if (get(&job->next_item) == job->item_count)
				remove_job(npu, job);
			return;
		}
	}
	core->job = NULL;
	(void)atomic_fetch_or(&npu->idle_mask, UINT64_C(1) << core->bit);
	if (!has_watchers(npu))
		(void)atomic_fetch_and(&npu->idle_mask, ~QBNPU_WATCHED);
	if (npu->num_waiting_runs)
		(void)pthread_cond_broadcast(&npu->has_idle);
	if (npu->is_closing)
		(void)pthread_cond_signal(&npu->quiet);
}

static int status_of_cause(uint32_t cause)
{
	switch (cause) {
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

/* The result, when no item of the job runs or will run. */
static void complete_job(struct qbnpu_tally *tally, struct qbnpu_job *job,
			 bool is_whole)
{
	struct qbnpu_result *result = &job->result;

	result->busy_ns =
		atomic_load_explicit(&job->busy_ns, memory_order_relaxed);
	set(&job->is_complete, 1);
	if (is_whole) {
		count(&tally->completed, 1);
		return;
	}
	result->cause = get(&job->stop_cause);
	result->status = status_of_cause(result->cause);
	if (result->item == QBNPU_NONE32)
		result->item = get(&job->next_item);
	if (result->status == -ECANCELED)
		count(&tally->cancelled, 1);
	else if (result->status == -ETIMEDOUT)
		count(&tally->timeouts, 1);
	else
		count(&tally->failed, 1);
}

static void note_failure(struct qbnpu_job *job, uint32_t item, uint32_t command)
{
	struct qbnpu_result *result = &job->result;

	if (item >= result->item)
		return;
	result->item = item;
	result->command = command;
	result->list = command == QBNPU_NONE32 ? QBNPU_NONE32 : 0;
}

/* Item number of job begins on a core; returns the time when it has to stop. */
static inline int64_t begin_item(struct qbnpu_core *core, struct qbnpu_job *job,
				 uint32_t number)
{
	const int64_t now = qbrt_now_ns();

	core->begin_ns = now;
	add_account(core, -now);
	if (!job->is_started && now < job->deadline_ns &&
	    !get(&job->stop_cause)) {
		job->is_started = 1;
		job->result.start_ns = now;
		job->result.core = core->bit;
		if (now > job->submit_ns)
			count(&core->tally.wait_ns,
			      (uint64_t)(now - job->submit_ns));
	}
	/* once it has begun: until then the core of whichever began first */
	if (number == 0)
		job->result.core = core->bit;
	return qbnpu_job_get_stop_ns(job, job->is_started ? job->result.start_ns
							  : now);
}

int64_t qbnpu_jobs_begin_item(struct qbnpu_core *core)
{
	core->is_running = true;
	return begin_item(core, core->job, core->item);
}

static void count_item(struct qbnpu_tally *tally, const struct qbnpu_job *job)
{
	uint64_t size;
	uint32_t axis;

	if (job->type == QBNPU_JOB_RUN) {
		count(&tally->bytes_read, job->executable->read_size);
		count(&tally->bytes_written, job->executable->write_size);
		count(&tally->macs, job->executable->facts->mac_count);
		return;
	}
	size = job->copy->element_size;
	for (axis = 0; axis < job->copy->rank; axis++)
		size *= job->copy->dims[axis];
	count(&tally->copy_bytes, size);
}

/* Accounts for item number of job, which ended on a core at this time. */
static inline void end_item(struct qbnpu_core *core, struct qbnpu_job *job,
			    uint32_t number, int err, uint32_t command,
			    int64_t end_ns)
{
	add_account(core, end_ns);
	count(&job->busy_ns, (uint64_t)(end_ns - core->begin_ns));
	if (job->result.end_ns < end_ns)
		job->result.end_ns = end_ns;
	if (err) {
		note_failure(job, number, command);
	} else {
		count(&core->jobs, 1);
		count_item(&core->tally, job);
	}
}

struct qbnpu_job *qbnpu_jobs_end_item(struct qbnpu_core *core, int err,
				      uint32_t command, int64_t end_ns)
{
	struct qbnpu_npu *npu = core->npu;
	struct qbnpu_job *job = core->job;

	end_item(core, job, core->item, err, command, end_ns);
	set(&job->runners, get(&job->runners) - 1);
	if (!err)
		set(&job->items_left, get(&job->items_left) - 1);
	/* no item is given out after a job was told to stop */
	if (get(&job->stop_cause) && get(&job->next_item) < job->item_count)
		remove_job(npu, job);
	qbnpu_jobs_give_next(core);
	if (get(&job->runners) ||
	    (!get(&job->stop_cause) && get(&job->items_left)))
		return NULL;
	complete_job(&npu->tally, job, !get(&job->items_left));
	return job;
}

bool qbnpu_jobs_stop(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     uint32_t cause)
{
	unsigned int none = 0;
	uint32_t i;

	atomic_compare_exchange_strong(&job->stop_cause, &none, cause);
	qbnpu_faults_wake(&npu->faults);
	remove_job(npu, job);
	/* items that a core has and has not begun */
	for (i = 0; i < npu->num_cores; i++) {
		struct qbnpu_core *core = &npu->cores[i];

		if (core->job != job || core->is_running)
			continue;
		note_failure(job, core->item, QBNPU_NONE32);
		set(&job->runners, get(&job->runners) - 1);
		qbnpu_jobs_give_next(core);
	}
	if (get(&job->runners))
		return false;
	job->result.end_ns = qbrt_now_ns();
	complete_job(&npu->tally, job, !get(&job->items_left));
	return true;
}

static void begin_job(struct qbnpu_tally *tally, struct qbnpu_job *job)
{
	job->result = (struct qbnpu_result){
		.list = QBNPU_NONE32,
		.command = QBNPU_NONE32,
		.item = QBNPU_NONE32,
		.core = QBNPU_NONE32,
	};
	count(&tally->submitted, 1);
}

void qbnpu_jobs_begin_job(struct qbnpu_npu *npu, struct qbnpu_job *job)
{
	set(&job->items_left, job->item_count);
	begin_job(&npu->tally, job);
}

/* items_left stays 0: whoever cancels the job just leaves it the cause. */
int64_t qbnpu_jobs_begin_inline(struct qbnpu_core *core, struct qbnpu_job *job)
{
	begin_job(&core->tally, job);
	return begin_item(core, job, 0);
}

void qbnpu_jobs_end_inline(struct qbnpu_core *core, struct qbnpu_job *job,
			   int err, uint32_t command, int64_t end_ns)
{
	end_item(core, job, 0, err, command, end_ns);
	complete_job(&core->tally, job, !err);
}
