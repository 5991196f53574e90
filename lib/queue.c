// SPDX-License-Identifier: MIT
/*
 * Opens, closes and waits for queues of the uAPI. Who uses which queue is the
 * device's pool's business (accelerator-pool.c); nothing here keeps state or
 * takes a lock.
 */
#include "queue.h"

#include <drm.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

int qbrt_queue_open(const struct qbrt_kmd *kmd, int file,
		    struct qbrt_queue *queue)
{
	struct drm_qbnpu_queue_create create = { 0 };
	int err = kmd->ioctl(file, DRM_IOCTL_QBNPU_QUEUE_CREATE, &create);

	if (err)
		return err;
	queue->kmd = kmd;
	queue->file = file;
	queue->number = create.queue;
	queue->syncobj = create.syncobj;
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
	memset(queue, 0, sizeof(*queue));
}

int qbrt_queue_wait(const struct qbrt_queue *queue, uint64_t job,
		    uint32_t flags, struct drm_qbnpu_wait *wait)
{
	int err;

	memset(wait, 0, sizeof(*wait));
	wait->queue = queue->number;
	wait->flags = flags;
	wait->job = job;
	wait->timeout_ns = INT64_MAX;
	do {
		err = queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_WAIT,
					wait);
	} while (err == -EINTR);
	return err;
}
