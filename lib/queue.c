// SPDX-License-Identifier: MIT
/*
 * Opens, closes and waits for queues of the uAPI. Who uses which queue is the
 * device's pool's business (accelerator-pool.c), what is in its list that of
 * job.c.
 */
#include "queue.h"

#include <drm.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "interrupt.h"

int qbrt_queue_open(const struct qbrt_kmd *kmd, int file,
		    struct qbrt_queue *queue)
{
	struct drm_qbnpu_queue_create create = { 0 };
	int err = kmd->ioctl(file, DRM_IOCTL_QBNPU_QUEUE_CREATE, &create);

	if (err)
		return err;
	memset(queue, 0, sizeof(*queue));
	queue->kmd = kmd;
	queue->file = file;
	queue->number = create.queue;
	queue->syncobj = create.syncobj;
	queue->progress_index = create.progress_index;
	queue->progress_offset = create.progress_offset;
	atomic_init(&queue->limit_ns, INT64_MAX);
	(void)pthread_mutex_init(&queue->lock, NULL);
	return 0;
}

/*
 * The timeline is a handle of its own, which QUEUE_DESTROY does not drop. The
 * answers do not matter: the queue is gone, or its device is.
 */
void qbrt_queue_close(struct qbrt_queue *queue)
{
	struct drm_qbnpu_queue_destroy destroy = { .queue = queue->number };
	struct drm_syncobj_destroy syncobj = { .handle = queue->syncobj };

	(void)queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_QUEUE_DESTROY,
				&destroy);
	(void)queue->kmd->ioctl(queue->file, DRM_IOCTL_SYNCOBJ_DESTROY,
				&syncobj);
	(void)pthread_mutex_destroy(&queue->lock);
	memset(queue, 0, sizeof(*queue));
}

int qbrt_queue_wait(const struct qbrt_queue *queue, uint64_t job,
		    uint32_t flags, int64_t deadline_ns,
		    struct drm_qbnpu_wait *wait)
{
	int err;

	memset(wait, 0, sizeof(*wait));
	wait->queue = queue->number;
	wait->flags = flags;
	wait->job = job;
	for (;;) {
		wait->timeout_ns = qbrt_interrupt_slice(deadline_ns);
		err = queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_WAIT,
					wait);
		if (err != -EINTR && err != -ETIME)
			return err;
		if (err == -ETIME && wait->timeout_ns == deadline_ns)
			return err;
		if (qbrt_interrupt_ask())
			return -EINTR;
	}
}

int qbrt_queue_cancel(const struct qbrt_queue *queue, uint64_t job)
{
	struct drm_qbnpu_cancel cancel = {
		.queue = queue->number,
		.job = job,
	};

	return queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_CANCEL, &cancel);
}
