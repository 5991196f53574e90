// SPDX-License-Identifier: MIT
/*
 * The wait for a blocking inference goes on after SUBMIT's has ended. Between
 * two requests nobody waits for the job in the driver, and others may submit to
 * its queue until its result is too old (K112). So it is put into the queue's
 * list, on this stack: who submits next ends it, if it is complete.
 */
#include "infer.h"

#include <errno.h>
#include <stdatomic.h>

#include "futex.h"
#include "interrupt.h"

struct waited_job {
	struct qbrt_job job; /* first */
	atomic_uint is_gone; /* futex: nobody has a reference any more */
	int err;
	struct drm_qbnpu_wait wait;
};

static struct waited_job *from_job(struct qbrt_job *job)
{
	return (struct waited_job *)(void *)job;
}

static void end(struct qbrt_job *job, int err,
		const struct drm_qbnpu_wait *wait)
{
	struct waited_job *waited = from_job(job);

	waited->err = err;
	waited->wait = *wait;
}

/* The stack may be gone before the request: then it wakes nobody. */
static void tell_gone(struct qbrt_job *job)
{
	struct waited_job *waited = from_job(job);

	atomic_store_explicit(&waited->is_gone, 1, memory_order_release);
	qbrt_futex_wake(&waited->is_gone, 1);
}

/* The call itself holds its buffers. */
static enum qbrt_job_use get_use(const struct qbrt_job *job,
				 const struct qbrt_storage *storage)
{
	(void)job;
	(void)storage;
	return QBRT_JOB_USES_NOT;
}

static const struct qbrt_job_ops waited_ops = {
	.end = end,
	.free = tell_gone,
	.get_use = get_use,
};

bool qbrt_inference_wait_on(const struct qbrt_inference *inference,
			    struct qbrt_queue *queue, uint64_t number, int *err,
			    struct drm_qbnpu_wait *wait)
{
	struct waited_job waited;
	struct qbrt_job *job = &waited.job;
	bool is_stopped;

	qbrt_job_start(job, &waited_ops);
	job->wait_flags = inference->wait_flags;
	atomic_init(&waited.is_gone, 0);
	qbrt_job_list(job, queue, number);
	is_stopped =
		qbrt_interrupt_ask() || qbrt_job_wait(job, INT64_MAX) == -EINTR;
	if (is_stopped) {
		(void)qbrt_queue_cancel(queue, number);
		while (qbrt_job_wait(job, INT64_MAX))
			;
	}
	*err = waited.err;
	*wait = waited.wait;
	qbrt_job_unref(job);
	/* who looked at the list may still have it */
	while (!atomic_load_explicit(&waited.is_gone, memory_order_acquire))
		qbrt_futex_wait(&waited.is_gone, 0, INT64_MAX);
	return is_stopped;
}
