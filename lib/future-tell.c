// SPDX-License-Identifier: MIT
/*
 * How a program is told that a queued inference has ended, other than by asking
 * (a callback, a descriptor), and how it ends one.
 */
#include "future.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fd.h"
#include "retire.h"
#include "status.h"
#include "util.h"

bool qbrt_future_claim_callback(struct qbrt_future *future)
{
	unsigned int set = QBRT_CALLBACK_SET;

	return atomic_compare_exchange_strong(&future->callback, &set,
					      QBRT_CALLBACK_DONE);
}

void qbrt_future_notify(struct qbrt_job *job)
{
	struct qbrt_future *future = (struct qbrt_future *)(void *)job;

	if (qbrt_future_claim_callback(future))
		future->function(future->arg, future);
}

QBRT_API enum qbrt_status qbrt_future_cancel(struct qbrt_future *future,
					     bool *cancelled)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_cancel");
	bool has_not_run;
	int err = 0;

	if (status)
		return status;
	if (!qbrt_future_has_ended(future))
		err = qbrt_queue_cancel(future->job.queue, future->job.number);
	if (err)
		return qbrt_fail_errno(QBRT_AT_CANCEL, err,
				       "%s: the inference cannot be cancelled",
				       future->run.model->name);
	has_not_run = qbrt_job_poll(&future->job) &&
		      future->job.status == QBRT_CANCELLED &&
		      future->has_not_run;
	/* its point comes after those of the jobs before it in the queue */
	if (has_not_run && atomic_load(&future->callback) == QBRT_CALLBACK_SET)
		qbrt_retire_wake(qbrt_future_get_device(future));
	if (cancelled)
		*cancelled = has_not_run;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_future_set_callback(struct qbrt_future *future,
			 qbrt_future_function function, void *arg)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_set_callback");
	unsigned int none = QBRT_CALLBACK_NONE;
	int err = 0;

	if (status)
		return status;
	if (!function)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_future_set_callback: function is NULL");
	if (!atomic_compare_exchange_strong(&future->callback, &none,
					    QBRT_CALLBACK_CHANGING))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: this future has a callback already",
				 future->run.model->name);
	future->function = function;
	future->arg = arg;
	/* from here on another thread may call it, and it may free the future */
	(void)qbrt_job_ref(&future->job);
	atomic_store(&future->callback, QBRT_CALLBACK_SET);
	if (!qbrt_future_has_ended(future))
		err = qbrt_retire_watch(qbrt_future_get_device(future),
					&future->job);
	else
		qbrt_future_notify(&future->job);
	/* the job may have been watched, and told, for another reason */
	if (err && qbrt_future_claim_callback(future)) {
		atomic_store(&future->callback, QBRT_CALLBACK_NONE);
		status = qbrt_fail_errno(QBRT_AT_SYNCOBJ, err,
					 "%s: no thread for callbacks",
					 future->run.model->name);
	}
	qbrt_job_unref(&future->job);
	return status;
}

/* An eventfd that the driver tells when the job's point comes. */
static int tell_eventfd(const struct qbrt_future *future, int fd)
{
	const struct qbrt_queue *queue = future->job.queue;
	struct drm_syncobj_eventfd request = {
		.handle = queue->syncobj,
		.point = future->job.number,
		.fd = fd,
	};

	return queue->kmd->ioctl(queue->file, DRM_IOCTL_SYNCOBJ_EVENTFD,
				 &request);
}

QBRT_API enum qbrt_status qbrt_future_export_fd(struct qbrt_future *future,
						int *fd)
{
	enum qbrt_status status =
		qbrt_future_check(future, "qbrt_future_export_fd");
	bool is_done;
	int new_fd;
	int err;

	if (status)
		return status;
	if (!fd)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_future_export_fd: fd is NULL");
	is_done = qbrt_future_has_ended(future);
	new_fd = qbrt_fd_keep(eventfd(is_done, EFD_CLOEXEC | EFD_NONBLOCK));
	err = new_fd < 0 ? -errno : 0;
	if (!err && !is_done)
		err = tell_eventfd(future, new_fd);
	if (err) {
		if (new_fd >= 0)
			(void)close(new_fd);
		return qbrt_fail_errno(QBRT_AT_SYNCOBJ, err,
				       "%s: no descriptor for a future: %s",
				       future->run.model->name,
				       qbrt_errno_words(err));
	}
	*fd = new_fd;
	return QBRT_OK;
}
