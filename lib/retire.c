// SPDX-License-Identifier: MIT
/*
 * One thread for a device. It waits for any of the watched jobs' points, and
 * for one of a timeline of its own, which is signalled to have it look at the
 * list again. Jobs hold their device, so while it watches one the device stays
 * open; the last of them may close it on this very thread, which then ends by
 * itself.
 */
#include "retire.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "util.h"

#define RETRY_NS 1000000

struct qbrt_retire {
	struct qbrt_device_part part; /* first */
	struct qbrt_device *device;
	pthread_t thread;
	uint32_t bell; /* a timeline's handle */
	pthread_mutex_t lock;
	struct qbrt_job *first; /* lock: what was not yet looked at */
	uint64_t rings;         /* lock: the last point signalled on bell */
	bool is_stopping;       /* lock */
};

/* The thread's own. */
struct watch {
	struct qbrt_retire *retire;
	struct qbrt_job *first; /* with the references of the list */
	uint64_t rings;         /* seen */
	/* what to wait for: the bell, and a point of each queue */
	uint32_t num;
	uint32_t handles[QBRT_MAX_QUEUES + 1];
	uint64_t points[QBRT_MAX_QUEUES + 1];
};

static _Thread_local struct qbrt_retire *own_retire;

/* Lock held. Without a ring the thread would sleep for ever: no way to fail. */
static void ring(struct qbrt_retire *retire)
{
	const struct qbrt_device *device = retire->device;
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	uint64_t point = ++retire->rings;
	int err;
	struct drm_syncobj_timeline_array signal = {
		.handles = (uintptr_t)&retire->bell,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};

	for (;;) {
		err = device->kmd->ioctl(device->file,
					 DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
					 &signal);
		if (err != -ENOMEM && err != -EINTR)
			return;
		(void)nanosleep(&pause, NULL);
	}
}

/* New jobs go to the thread's own list. false: it is to stop. */
static bool fetch(struct watch *watch)
{
	struct qbrt_retire *retire = watch->retire;
	struct qbrt_job **link = &watch->first;
	bool goes_on;

	while (*link)
		link = &(*link)->next_watched;
	(void)pthread_mutex_lock(&retire->lock);
	*link = retire->first;
	retire->first = NULL;
	watch->rings = retire->rings;
	goes_on = !retire->is_stopping;
	(void)pthread_mutex_unlock(&retire->lock);
	return goes_on;
}

/* Tells the jobs that have ended and lets them go. */
static void tell_ended(struct watch *watch)
{
	struct qbrt_job **link = &watch->first;

	while (*link) {
		struct qbrt_job *job = *link;

		if (!qbrt_job_collect(job)) {
			link = &job->next_watched;
			continue;
		}
		*link = job->next_watched;
		atomic_store(&job->is_watched, false);
		job->ops->notify(job);
		qbrt_job_unref(job);
		/* that may have closed the device, and stopped this thread */
		if (!own_retire)
			return;
	}
}

/* The next point of a queue is enough: it is looked at again then. */
static void add_point(struct watch *watch, const struct qbrt_job *job)
{
	uint32_t i;

	for (i = 1; i < watch->num; i++)
		if (watch->handles[i] == job->queue->syncobj)
			break;
	if (i == watch->num)
		watch->points[watch->num++] = job->number;
	else if (job->number < watch->points[i])
		watch->points[i] = job->number;
	watch->handles[i] = job->queue->syncobj;
}

/* A job that its time limit ends before its turn has no point of its own. */
static int64_t get_limit(const struct watch *watch)
{
	int64_t now_ns = qbrt_now_ns();
	int64_t limit_ns = INT64_MAX;

	for (const struct qbrt_job *job = watch->first; job;
	     job = job->next_watched)
		if (job->deadline_ns < limit_ns)
			limit_ns = job->deadline_ns;
	/* the device is about to end it */
	return limit_ns > now_ns ? limit_ns : now_ns + RETRY_NS;
}

static void wait_any(struct watch *watch)
{
	const struct qbrt_device *device = watch->retire->device;
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)watch->handles,
		.points = (uintptr_t)watch->points,
		.timeout_nsec = get_limit(watch),
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	int err;

	watch->handles[0] = watch->retire->bell;
	watch->points[0] = watch->rings + 1;
	watch->num = 1;
	for (const struct qbrt_job *job = watch->first; job;
	     job = job->next_watched)
		add_point(watch, job);
	wait.count_handles = watch->num;
	err = device->kmd->ioctl(device->file, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
				 &wait);
	/* no memory for the request: the list is looked at all the same */
	if (err && err != -EINTR && err != -ETIME)
		(void)nanosleep(&pause, NULL);
}

static void *run_retire(void *arg)
{
	struct watch watch = { .retire = arg };

	own_retire = arg;
	(void)prctl(PR_SET_NAME, "qbrt-retire");
	while (fetch(&watch)) {
		tell_ended(&watch);
		if (!own_retire)
			break;
		wait_any(&watch);
	}
	return NULL;
}

static void free_retire(struct qbrt_retire *retire)
{
	(void)pthread_mutex_destroy(&retire->lock);
	free(retire);
}

/* By the device's last close: no job is watched any more. */
static void stop_retire(struct qbrt_device_part *part)
{
	struct qbrt_retire *retire = (struct qbrt_retire *)(void *)part;
	struct drm_syncobj_destroy destroy = { .handle = retire->bell };
	const struct qbrt_device *device = retire->device;

	if (qbrt_device_is_inherited(device)) {
		free(retire);
		return;
	}
	if (own_retire == retire) {
		own_retire = NULL;
		(void)pthread_detach(retire->thread);
	} else {
		(void)pthread_mutex_lock(&retire->lock);
		retire->is_stopping = true;
		ring(retire);
		(void)pthread_mutex_unlock(&retire->lock);
		(void)pthread_join(retire->thread, NULL);
	}
	(void)device->kmd->ioctl(device->file, DRM_IOCTL_SYNCOBJ_DESTROY,
				 &destroy);
	free_retire(retire);
}

static int start_thread(struct qbrt_retire *retire)
{
	sigset_t all, old;
	int err;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&retire->thread, NULL, run_retire, retire);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? -ENOMEM : 0;
}

static int start_retire(struct qbrt_device *device, struct qbrt_retire **result)
{
	struct drm_syncobj_create create = { 0 };
	struct drm_syncobj_destroy destroy = { 0 };
	struct qbrt_retire *retire = calloc(1, sizeof(*retire));
	int err;

	if (!retire)
		return -ENOMEM;
	retire->part.stop = stop_retire;
	retire->device = device;
	(void)pthread_mutex_init(&retire->lock, NULL);
	err = device->kmd->ioctl(device->file, DRM_IOCTL_SYNCOBJ_CREATE,
				 &create);
	if (err)
		goto err_free;
	retire->bell = create.handle;
	err = start_thread(retire);
	if (err)
		goto err_destroy;
	*result = retire;
	return 0;

err_destroy:
	destroy.handle = retire->bell;
	(void)device->kmd->ioctl(device->file, DRM_IOCTL_SYNCOBJ_DESTROY,
				 &destroy);
err_free:
	free_retire(retire);
	return err;
}

/* The device's, made now if it has none; of two at once one stays. */
static int get_retire(struct qbrt_device *device, struct qbrt_retire **result)
{
	struct qbrt_device_part *part = atomic_load(&device->retire);
	int err;

	if (!part) {
		err = start_retire(device, result);
		if (err)
			return err;
		if (atomic_compare_exchange_strong(&device->retire, &part,
						   &(*result)->part))
			return 0;
		stop_retire(&(*result)->part);
	}
	*result = (struct qbrt_retire *)(void *)part;
	return 0;
}

int qbrt_retire_watch(struct qbrt_device *device, struct qbrt_job *job)
{
	struct qbrt_retire *retire;
	int err;

	err = get_retire(device, &retire);
	if (err)
		return err;
	if (atomic_exchange(&job->is_watched, true))
		return 0;
	(void)qbrt_job_ref(job);
	(void)pthread_mutex_lock(&retire->lock);
	job->next_watched = retire->first;
	retire->first = job;
	ring(retire);
	(void)pthread_mutex_unlock(&retire->lock);
	return 0;
}

void qbrt_retire_wake(struct qbrt_device *device)
{
	struct qbrt_device_part *part = atomic_load(&device->retire);
	struct qbrt_retire *retire = (struct qbrt_retire *)(void *)part;

	if (!retire)
		return;
	(void)pthread_mutex_lock(&retire->lock);
	ring(retire);
	(void)pthread_mutex_unlock(&retire->lock);
}
