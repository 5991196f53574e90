// SPDX-License-Identifier: MIT
/* Jobs that do nothing and tell what was done with them. */
#include "unit-job.h"

#include <stdlib.h>

#include "future.h"

static atomic_uint num_ends;

unsigned int unit_job_num_ends(void)
{
	return atomic_load(&num_ends);
}

static void end(struct qbrt_job *job, int err,
		const struct drm_qbnpu_wait *wait)
{
	struct unit_job *unit = (struct unit_job *)(void *)job;

	unit->err = err;
	unit->status = wait->status;
	unit->place = atomic_fetch_add(&num_ends, 1);
	atomic_fetch_add(&unit->num_ends, 1);
}

static void notify(struct qbrt_job *job)
{
	atomic_fetch_add(&((struct unit_job *)(void *)job)->num_notified, 1);
}

static void free_job(struct qbrt_job *job)
{
	struct unit_job *unit = (struct unit_job *)(void *)job;
	struct qbrt_device *device = unit->device;

	atomic_fetch_add(unit->num_freed, 1);
	free(unit);
	qbrt_device_unref(device);
}

static enum qbrt_job_use get_use(const struct qbrt_job *job,
				 const struct qbrt_storage *storage)
{
	(void)job;
	(void)storage;
	return QBRT_JOB_USES_NOT;
}

static const struct qbrt_job_ops unit_ops = {
	.end = end,
	.notify = notify,
	.free = free_job,
	.get_use = get_use,
};

struct unit_job *unit_job_alloc(struct qbrt_device *device,
				atomic_uint *num_freed)
{
	struct unit_job *unit = calloc(1, sizeof(*unit));

	ck_assert_ptr_nonnull(unit);
	qbrt_job_start(&unit->job, &unit_ops);
	unit->device = qbrt_device_ref(device);
	unit->num_freed = num_freed;
	return unit;
}

static struct drm_qbnpu_submit make_submit(struct drm_qbnpu_sync *sync,
					   const struct qbrt_future *gate)
{
	struct drm_qbnpu_submit submit = {
		.binding_size = sizeof(struct drm_qbnpu_binding),
		.item_count = 1,
	};

	if (gate) {
		sync->handle = gate->job.queue->syncobj;
		sync->point = gate->job.number;
		submit.in_syncs = (uintptr_t)sync;
		submit.in_count = 1;
		submit.sync_size = sizeof(*sync);
	}
	return submit;
}

int unit_job_submit(struct unit_job *unit, struct qbrt_queue *queue,
		    const struct qbrt_future *gate)
{
	struct drm_qbnpu_sync sync = { 0 };
	struct drm_qbnpu_submit submit = make_submit(&sync, gate);

	return qbrt_job_submit(&unit->job, queue, &submit);
}

uint64_t unit_job_submit_unlisted(const struct qbrt_queue *queue,
				  const struct qbrt_future *gate)
{
	struct drm_qbnpu_sync sync = { 0 };
	struct drm_qbnpu_submit submit = make_submit(&sync, gate);

	submit.queue = queue->number;
	ck_assert_int_eq(
		queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_SUBMIT, &submit),
		0);
	return submit.job;
}
