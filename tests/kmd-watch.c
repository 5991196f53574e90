// SPDX-License-Identifier: MIT
/* A copy of the device's ops table whose ioctl counts and passes on. */
#include "kmd-watch.h"

#include <drm.h>
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

static void note_failed(unsigned long request)
{
	unsigned int i = atomic_fetch_add(&kmd_watch.num_failed, 1);

	if (i < KMD_WATCH_MAX_FAILED)
		atomic_store(&kmd_watch.failed[i], request);
}

static void note_done(unsigned long request)
{
	if (request == DRM_IOCTL_QBNPU_PROGRAM_CREATE)
		atomic_fetch_add(&kmd_watch.num_programs, 1);
	if (request == DRM_IOCTL_QBNPU_PROGRAM_DESTROY)
		atomic_fetch_sub(&kmd_watch.num_programs, 1);
	if (request == DRM_IOCTL_QBNPU_QUEUE_CREATE)
		atomic_fetch_add(&kmd_watch.num_queues, 1);
	if (request == DRM_IOCTL_QBNPU_QUEUE_DESTROY)
		atomic_fetch_sub(&kmd_watch.num_queues, 1);
	if (request == DRM_IOCTL_QBNPU_QUEUE_CREATE ||
	    request == DRM_IOCTL_SYNCOBJ_CREATE)
		atomic_fetch_add(&kmd_watch.num_syncobjs, 1);
	if (request == DRM_IOCTL_SYNCOBJ_DESTROY)
		atomic_fetch_sub(&kmd_watch.num_syncobjs, 1);
}

static bool is_to_fail(unsigned long request)
{
	unsigned long only = atomic_load(&kmd_watch.fail_request);
	long more = atomic_load(&kmd_watch.fail_more);
	long at;

	if ((only && only != request) ||
	    (kmd_watch.may_fail && !kmd_watch.may_fail(request)) ||
	    atomic_load(&kmd_watch.fail_at) <= -more)
		return false;
	at = atomic_fetch_sub(&kmd_watch.fail_at, 1);
	return at <= 1 && at > -more;
}

/* mmap is request 0. */
static int take_fault(unsigned long request)
{
	if (!is_to_fail(request))
		return 0;
	note_failed(request);
	return kmd_watch.fail_err ? kmd_watch.fail_err : -ENOMEM;
}

static int watch_mmap(int file, uint64_t offset, size_t length, int prot,
		      void **address)
{
	int err = take_fault(0);

	if (err)
		return err;
	return watched->mmap(file, offset, length, prot, address);
}

/* The job whose result is lost has ended, if that was waited for. */
static void wait_before_failing(int file, const struct drm_qbnpu_wait *wait)
{
	struct drm_qbnpu_wait copy = *wait;

	(void)watched->ioctl(file, DRM_IOCTL_QBNPU_WAIT, &copy);
}

static void come_before(void)
{
	void (*function)(void *arg) = kmd_watch.before_submit;

	kmd_watch.before_submit = NULL;
	if (function)
		function(kmd_watch.before_submit_arg);
}

static int watch_ioctl(int file, unsigned long request, void *arg)
{
	int err = take_fault(request);

	atomic_fetch_add(&kmd_watch.requests[_IOC_NR(request)], 1);
	atomic_fetch_add(&kmd_watch.total, 1);
	if (err && err != -EINTR && request == DRM_IOCTL_QBNPU_WAIT)
		wait_before_failing(file, arg);
	if (err)
		return err;
	if (answer(request, arg))
		return 0;
	if (request == DRM_IOCTL_QBNPU_SUBMIT)
		come_before();
	if (request == DRM_IOCTL_QBNPU_SUBMIT &&
	    atomic_load(&kmd_watch.ends_waits)) {
		struct drm_qbnpu_submit *submit = arg;
		struct drm_qbnpu_wait *wait =
			(struct drm_qbnpu_wait *)(uintptr_t)submit->wait;

		wait->timeout_ns = 0;
	}
	err = watched->ioctl(file, request, arg);
	if (err == -ENOMEM)
		note_failed(request);
	if (!err)
		note_done(request);
	return err;
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
