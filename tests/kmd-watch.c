// SPDX-License-Identifier: MIT
/* A copy of the device's ops table whose ioctl counts and passes on. */
#include "kmd-watch.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "accelerator-pool.h"

struct kmd_watch kmd_watch;

static const struct qbrt_kmd *watched;
static struct qbrt_kmd watching;

/* true: the request is one of those that the driver does not see. */
static bool answer(unsigned long request, void *arg)
{
	if (!atomic_load(&kmd_watch.answers_programs))
		return false;
	if (request == DRM_IOCTL_QBNPU_PROGRAM_CREATE) {
		((struct drm_qbnpu_program_create *)arg)->handle = 1;
		return true;
	}
	if (request == DRM_IOCTL_QBNPU_SUBMIT) {
		struct drm_qbnpu_submit *submit = arg;
		struct drm_qbnpu_wait *wait =
			(struct drm_qbnpu_wait *)(uintptr_t)submit->wait;

		memcpy(kmd_watch.params, submit->params,
		       sizeof(kmd_watch.params));
		submit->job = 1;
		wait->state = DRM_QBNPU_JOB_COMPLETE;
		return true;
	}
	return request == DRM_IOCTL_QBNPU_PROGRAM_DESTROY;
}

/* mmap is request 0. */
static bool takes_fault(unsigned long request)
{
	unsigned long only = atomic_load(&kmd_watch.fail_request);
	long more = atomic_load(&kmd_watch.fail_more);
	long at;

	if ((only && only != request) ||
	    atomic_load(&kmd_watch.fail_at) <= -more)
		return false;
	at = atomic_fetch_sub(&kmd_watch.fail_at, 1);
	return at <= 1 && at > -more;
}

static int watch_mmap(int file, uint64_t offset, size_t length, int prot,
		      void **address)
{
	if (takes_fault(0))
		return -ENOMEM;
	return watched->mmap(file, offset, length, prot, address);
}

static int watch_ioctl(int file, unsigned long request, void *arg)
{
	atomic_fetch_add(&kmd_watch.requests[_IOC_NR(request)], 1);
	atomic_fetch_add(&kmd_watch.total, 1);
	if (takes_fault(request))
		return -ENOMEM;
	if (answer(request, arg))
		return 0;
	if (request == DRM_IOCTL_QBNPU_SUBMIT &&
	    atomic_load(&kmd_watch.ends_waits)) {
		struct drm_qbnpu_submit *submit = arg;
		struct drm_qbnpu_wait *wait =
			(struct drm_qbnpu_wait *)(uintptr_t)submit->wait;

		wait->timeout_ns = 0;
	}
	return watched->ioctl(file, request, arg);
}

void kmd_watch_begin(struct qbrt_accelerator *acc)
{
	struct qbrt_device_pools *pools = acc->device->pools;
	unsigned int num_queues = atomic_load(&pools->num_queues);

	memset(&kmd_watch, 0, sizeof(kmd_watch));
	if (acc->device->kmd == &watching)
		return;
	watched = acc->device->kmd;
	watching = *watched;
	watching.ioctl = watch_ioctl;
	watching.mmap = watch_mmap;
	acc->device->kmd = &watching;
	for (unsigned int i = 0; i < num_queues; i++)
		pools->queues[i].kmd = &watching;
}

unsigned long kmd_watch_count(unsigned long request)
{
	return atomic_load(&kmd_watch.requests[_IOC_NR(request)]);
}
