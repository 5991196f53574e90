// SPDX-License-Identifier: MIT
/*
 * Life of a model: launch, dispose, free. Loading lives in model-load.c, getters
 * in model-info.c, what launching asks of the device in model-launch.c.
 */
#include "model.h"

#include <errno.h>
#include <time.h>

#include "counters.h"
#include "interrupt.h"
#include "status.h"
#include "trace.h"
#include "util.h"

/* How often a launch looks whether a call has left a job behind. */
#define LEAVE_SLICE_NS (10 * QBRT_NS_PER_MS)

/* Of the parent of a fork: its lock and counts mean nothing. */
bool qbrt_model_is_inherited(const struct qbrt_model *model)
{
	int owner = (int)(uint32_t)atomic_load_explicit(&model->claims,
							memory_order_relaxed);

	return owner && owner != qbrt_fork_generation();
}

enum qbrt_status qbrt_model_check_fork(const struct qbrt_model *model)
{
	if (!qbrt_model_is_inherited(model))
		return QBRT_OK;
	return qbrt_fail(QBRT_FORKED_PROCESS,
			 "%s: was launched before fork and belongs to the "
			 "parent: load it anew in this process, or exec a new "
			 "program",
			 model->name);
}

/* NULL, and not inside: not launched. */
struct qbrt_launched *qbrt_model_try_enter(struct qbrt_model *model)
{
	unsigned int users =
		atomic_load_explicit(&model->users, memory_order_relaxed);

	while (users & QBRT_MODEL_LAUNCHED)
		if (atomic_compare_exchange_weak_explicit(
			    &model->users, &users, users + 1,
			    memory_order_acquire, memory_order_relaxed))
			return model->launched;
	return NULL;
}

enum qbrt_status qbrt_model_enter(struct qbrt_model *model,
				  struct qbrt_launched **launched)
{
	enum qbrt_status status = qbrt_model_check_fork(model);
	struct qbrt_launched *found;

	if (status)
		return status;
	found = qbrt_model_try_enter(model);
	if (found) {
		*launched = found;
		return QBRT_OK;
	}
	if (atomic_load(&model->was_launched))
		return qbrt_fail(QBRT_MODEL_NOT_ALIVE,
				 "%s: is disposed: launch it again",
				 model->name);
	return qbrt_fail(QBRT_MODEL_NOT_LAUNCHED,
			 "%s: is not launched: call qbrt_model_launch first",
			 model->name);
}

/*
 * Once per launch, by who brought the count to 0 after the bit was gone: nobody
 * is inside, nobody can enter, and a new launch waits for this. A fork in the
 * middle must not leave the child a launch that is half given back.
 */
static void retire(struct qbrt_model *model)
{
	struct qbrt_launched *launched;

	(void)pthread_mutex_lock(&model->launch_lock);
	launched = model->launched;
	model->launched = NULL;
	qbrt_launched_free(launched);
	(void)pthread_cond_broadcast(&model->retired);
	(void)pthread_mutex_unlock(&model->launch_lock);
}

void qbrt_model_leave(struct qbrt_model *model)
{
	if (atomic_fetch_sub_explicit(&model->users, 1, memory_order_acq_rel) ==
	    1)
		retire(model);
}

/* Calls are inside; one that is about to queue a job tells nobody. */
static void sleep_for_leavers(struct qbrt_model *model)
{
	struct timespec until;
	int64_t until_ns = qbrt_now_ns() + LEAVE_SLICE_NS;

	until.tv_sec = until_ns / QBRT_NS_PER_SEC;
	until.tv_nsec = until_ns % QBRT_NS_PER_SEC;
	(void)pthread_cond_timedwait(&model->retired, &model->launch_lock,
				     &until);
}

/*
 * A step towards the end of an earlier launch; launch_lock, dropped meanwhile.
 * Its jobs are ended here: the retirement thread may be missing, or busy with a
 * callback that waits for the caller. true: the program asked to stop.
 */
static bool await_retired(struct qbrt_model *model)
{
	struct qbrt_job *job = qbrt_launched_ref_oldest_job(model->launched);
	bool is_stopped;

	if (!job)
		sleep_for_leavers(model);
	(void)pthread_mutex_unlock(&model->launch_lock);
	if (job) {
		is_stopped = qbrt_job_wait(job, INT64_MAX) == -EINTR;
		qbrt_job_unref(job);
	} else {
		is_stopped = qbrt_interrupt_ask();
	}
	(void)pthread_mutex_lock(&model->launch_lock);
	return is_stopped;
}

/* Jobs of an earlier launch may still run: their things come back first. */
static enum qbrt_status launch(struct qbrt_model *model,
			       struct qbrt_device *device)
{
	struct qbrt_launched *launched;
	enum qbrt_status status;

	while (model->launched &&
	       !(atomic_load(&model->users) & QBRT_MODEL_LAUNCHED))
		if (await_retired(model))
			return qbrt_fail(QBRT_INTERRUPTED,
					 "%s: the interrupt function ended the "
					 "wait for the jobs of the earlier "
					 "launch; it is not launched",
					 model->name);
	if (model->launched)
		return qbrt_fail(QBRT_MODEL_ALREADY_LAUNCHED,
				 "%s: is launched on %s already: dispose it "
				 "first",
				 model->name, model->launched->device->id);
	status = qbrt_launched_start(model, device, &launched);
	if (status)
		return status;
	model->launched = launched;
	atomic_store(&model->core_mask, launched->core_mask);
	atomic_store(&model->num_slots, launched->num_slots);
	atomic_store(&model->was_launched, true);
	(void)atomic_fetch_or_explicit(&model->users, QBRT_MODEL_LAUNCHED,
				       memory_order_acq_rel);
	return QBRT_OK;
}

QBRT_TRACE_COLD static void trace_call(const struct qbrt_model *model,
				       const char *name, const char *device,
				       int64_t begin_ns)
{
	const struct qbrt_trace_event event = {
		.name = name,
		.begin_ns = begin_ns,
		.end_ns = qbrt_now_ns(),
		.model = qbrt_model_get_trace_number(model),
		.device = device,
		.file = *model->path ? model->path : model->name,
	};

	qbrt_trace_host(&event);
}

/* Before launch_lock, so that no child of fork ever takes it held. */
static void claim(struct qbrt_model *model)
{
	uint_fast64_t claims = atomic_load(&model->claims);
	uint_fast64_t next;

	do {
		next = claims ? claims + QBRT_MODEL_CLAIM
			      : QBRT_MODEL_CLAIM |
					(uint32_t)qbrt_fork_generation();
	} while (!atomic_compare_exchange_weak(&model->claims, &claims, next));
}

/* The last one leaves no owner. */
static void disclaim(struct qbrt_model *model)
{
	uint_fast64_t claims = atomic_load(&model->claims);
	uint_fast64_t next;

	do {
		next = claims - QBRT_MODEL_CLAIM;
		if (next < QBRT_MODEL_CLAIM)
			next = 0;
	} while (!atomic_compare_exchange_weak(&model->claims, &claims, next));
}

QBRT_API enum qbrt_status qbrt_model_launch(struct qbrt_model *model,
					    struct qbrt_accelerator *acc)
{
	int64_t begin_ns = qbrt_trace_begin();
	enum qbrt_status status;
	bool is_first;

	if (!model || !acc)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_launch: %s is NULL",
				 model ? "acc" : "model");
	status = qbrt_model_check_fork(model);
	if (!status)
		status = qbrt_device_check_fork(acc->device);
	if (status)
		return status;
	claim(model);
	(void)pthread_mutex_lock(&model->launch_lock);
	is_first = !atomic_load(&model->was_launched);
	status = launch(model, acc->device);
	(void)pthread_mutex_unlock(&model->launch_lock);
	/* the claim of the first launch stays */
	if (status || !is_first)
		disclaim(model);
	if (!status && begin_ns)
		trace_call(model, "launch", acc->device->id, begin_ns);
	return status;
}

/*
 * A call that had begun, but not submitted yet, is missed by the first cancel,
 * and nobody else could end what it waits for. Those inside leave soon when
 * theirs has come: from 20 us on, each pause twice the one before, 80 ms in all.
 */
static void cancel_late(struct qbrt_model *model,
			struct qbrt_launched *launched)
{
	struct timespec pause = { .tv_nsec = 20000 };

	/* itself is one */
	for (int i = 0; i < 12 && atomic_load(&model->users) > 1; i++) {
		(void)nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
		qbrt_slots_cancel(&launched->slots);
	}
}

static void dispose(struct qbrt_model *model)
{
	int64_t begin_ns = qbrt_trace_begin();
	struct qbrt_launched *launched = qbrt_model_try_enter(model);

	if (!launched)
		return;
	if (atomic_fetch_and_explicit(&model->users, ~QBRT_MODEL_LAUNCHED,
				      memory_order_acq_rel) &
	    QBRT_MODEL_LAUNCHED) {
		atomic_store(&model->core_mask, 0);
		atomic_store(&model->num_slots, 0);
		qbrt_launched_stop_jobs(launched);
		cancel_late(model, launched);
	}
	qbrt_model_leave(model);
	if (begin_ns)
		trace_call(model, "dispose", NULL, begin_ns);
}

QBRT_API enum qbrt_status qbrt_model_dispose(struct qbrt_model *model)
{
	enum qbrt_status status =
		model ? qbrt_model_check_fork(model) : QBRT_OK;

	if (model && !status)
		dispose(model);
	return status;
}

struct qbrt_model *qbrt_model_ref(struct qbrt_model *model)
{
	atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
	return model;
}

void qbrt_model_unref(struct qbrt_model *model)
{
	if (atomic_fetch_sub_explicit(&model->references, 1,
				      memory_order_acq_rel) != 1)
		return;
	/* of the parent of a fork: nobody else disposed it */
	if (model->launched)
		qbrt_launched_free(model->launched);
	qbrt_model_release(model);
}

/* What queued jobs still need of it goes with the last future. */
QBRT_API void qbrt_model_free(struct qbrt_model *model)
{
	if (!model)
		return;
	if (!qbrt_model_is_inherited(model))
		dispose(model);
	qbrt_uncount(live_models);
	qbrt_model_unref(model);
}
