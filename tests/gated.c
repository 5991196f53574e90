// SPDX-License-Identifier: MIT
/* A rig whose device takes no step but the test's, and its futures. */
#include "gated.h"

#include <drm.h>
#include <stdlib.h>

#include "accelerator-pool.h"
#include "soft/soft.h"

struct qbrt_model *load_copy(unsigned int activation_slots)
{
	return models_load_slow(0, activation_slots);
}

void gated_open(struct gated *gated, unsigned int activation_slots)
{
	/* a job may stand for as long as the machine is slow */
	setenv("QBRUNTIME_NPU_TIMEOUT_MS", "600000", 1);
	rig_open(&gated->rig, NULL, load_copy(activation_slots));
	sim_attach(&gated->sim, qbnpu_soft_npu(0));
}

void gated_close(struct gated *gated)
{
	sim_finish_all(&gated->sim);
	sim_detach(&gated->sim);
	rig_close(&gated->rig);
}

struct qbrt_pinned_memory *alloc_64(const struct rig *rig)
{
	return rig_alloc(rig, QBRT_DTYPE_UINT8, 1, (const int64_t[]){ 64 });
}

enum qbrt_status try_submit(const struct rig *rig,
			    struct qbrt_pinned_memory *in,
			    struct qbrt_pinned_memory *out,
			    const struct qbrt_infer_options *options,
			    struct qbrt_future **future)
{
	return qbrt_model_submit_pinned_memory(rig->model, options, &in, 1,
					       &out, 1, future);
}

struct qbrt_future *submit(const struct rig *rig, struct qbrt_pinned_memory *in,
			   struct qbrt_pinned_memory *out)
{
	struct qbrt_future *future = NULL;

	ck_assert_ok(try_submit(rig, in, out, NULL, &future));
	ck_assert_ptr_nonnull(future);
	return future;
}

bool is_done(const struct qbrt_future *future)
{
	bool done = false;

	ck_assert_ok(qbrt_future_query(future, &done));
	return done;
}

enum qbrt_status take(struct qbrt_future *future)
{
	enum qbrt_status status = qbrt_future_query_result(future, NULL, 0);

	qbrt_future_free(future);
	return status;
}

uint64_t count_submitted(const struct gated *gated)
{
	const struct qbrt_device *device = gated->rig.acc->device;
	unsigned int num = atomic_load(&device->pools->num_queues);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < num; i++) {
		uint64_t point = 0;
		struct drm_syncobj_timeline_array query = {
			.handles = (uintptr_t)&device->pools->queues[i].syncobj,
			.points = (uintptr_t)&point,
			.count_handles = 1,
			.flags = DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED,
		};

		ck_assert_int_eq(device->kmd->ioctl(device->file,
						    DRM_IOCTL_SYNCOBJ_QUERY,
						    &query),
				 0);
		sum += point;
	}
	return sum;
}
