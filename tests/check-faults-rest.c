// SPDX-License-Identifier: MIT
/* The counts inside the library that calls and jobs move, and their rest. */
#include "check-faults.h"

#include <sched.h>

#include "accelerator-pool.h"
#include "counters.h"
#include "kmd-watch.h"
#include "model.h"
#include "pinned-memory.h"
#include "staging.h"

static void count_slots(struct qbrt_slots *slots, struct counts *counts)
{
	counts->free_slots = atomic_load(&slots->free);
	counts->num_waiting = atomic_load(&slots->num_waiting);
	for (unsigned int i = 0; i < slots->num; i++) {
		counts->slot_users += atomic_load(&slots->slots[i].users);
		counts->slot_queued += atomic_load(&slots->slots[i].queued);
	}
}

static void count_queues(struct qbrt_device_pools *pools, struct counts *counts)
{
	unsigned int num = atomic_load(&pools->num_queues);

	counts->num_queues = num;
	for (unsigned int i = 0; i < num; i++) {
		counts->queue_users += atomic_load(&pools->users[i]);
		counts->queue_jobs += atomic_load(&pools->queues[i].num_jobs);
	}
	for (unsigned int i = 0; i < QBRT_MAX_CORES; i++)
		counts->launches += pools->launches[i];
}

struct counts get_counts(const struct rig *rig)
{
	struct qbrt_launched *launched = rig->model->launched;
	struct qbrt_storage *storages[] = { rig->in->storage,
					    rig->out->storage };
	struct counts counts = {
		.users = atomic_load(&rig->model->users),
		.model_references = atomic_load(&rig->model->references),
	};

	if (launched) {
		count_slots(&launched->slots, &counts);
		counts.num_jobs = atomic_load(&launched->jobs.num);
		counts.num_sets_out =
			qbrt_staging_count_out(&launched->staging);
	}
	count_queues(rig->acc->device->pools, &counts);
	for (int i = 0; i < 2; i++) {
		counts.uses[i] = atomic_load(&storages[i]->uses);
		counts.references[i] = atomic_load(&storages[i]->references);
	}
	return counts;
}

#define EXPECT_SAME(member) \
	ck_assert_msg(counts->member == expected->member, \
		      "%s: %s is %#llx, not %#llx", when, #member, \
		      (unsigned long long)counts->member, \
		      (unsigned long long)expected->member)

void expect_same_counts(const struct counts *counts,
			const struct counts *expected, const char *when)
{
	EXPECT_SAME(users);
	EXPECT_SAME(model_references);
	EXPECT_SAME(free_slots);
	EXPECT_SAME(slot_users);
	EXPECT_SAME(slot_queued);
	EXPECT_SAME(num_waiting);
	EXPECT_SAME(num_jobs);
	EXPECT_SAME(num_sets_out);
	EXPECT_SAME(queue_users);
	EXPECT_SAME(queue_jobs);
	EXPECT_SAME(launches);
	EXPECT_SAME(uses[0]);
	EXPECT_SAME(uses[1]);
	EXPECT_SAME(references[0]);
	EXPECT_SAME(references[1]);
}

static void expect_empty_lists(const struct rig *rig)
{
	struct qbrt_device_pools *pools = rig->acc->device->pools;
	struct qbrt_launched *launched = rig->model->launched;
	unsigned int num = atomic_load(&pools->num_queues);
	unsigned int num_idle = 0;

	ck_assert_ptr_null(launched->slots.first);
	ck_assert_ptr_null(launched->jobs.first);
	for (unsigned int i = 0; i < num; i++)
		ck_assert_ptr_null(pools->queues[i].first);
	for (unsigned int i = 0; i < QBRT_QUEUE_WORDS; i++)
		num_idle += (unsigned int)__builtin_popcountll(
			atomic_load(&pools->idle[i]));
	ck_assert_uint_eq(num_idle, num);
}

static void expect_unused(const struct qbrt_storage *storage)
{
	ck_assert_uint_eq(atomic_load(&storage->uses), 0);
	ck_assert_uint_eq(atomic_load(&storage->waiters), 0);
	ck_assert_uint_eq(atomic_load(&storage->brackets), 0);
	ck_assert_uint_eq(atomic_load(&storage->references), 1);
}

void expect_rest(const struct rig *rig)
{
	struct qbrt_launched *launched = rig->model->launched;
	struct counts counts = get_counts(rig);
	unsigned int num_references;

	ck_assert_uint_eq(counts.users, QBRT_MODEL_LAUNCHED);
	ck_assert_uint_eq(counts.model_references, 1);
	ck_assert_uint_eq(counts.free_slots,
			  (UINT64_C(1) << launched->num_slots) - 1);
	ck_assert_uint_eq(counts.slot_users, 0);
	ck_assert_uint_eq(counts.slot_queued, 0);
	ck_assert_uint_eq(counts.num_waiting, 0);
	ck_assert_uint_eq(counts.num_jobs, 0);
	ck_assert_uint_eq(counts.num_sets_out, 0);
	ck_assert_uint_eq(counts.queue_users, 0);
	ck_assert_uint_eq(counts.queue_jobs, 0);
	expect_empty_lists(rig);
	expect_unused(rig->in->storage);
	expect_unused(rig->out->storage);

	ck_assert_ok(qbrt_model_dispose(rig->model));
	ck_assert_ptr_null(rig->model->launched);
	ck_assert_uint_eq(atomic_load(&rig->model->users), 0);
	ck_assert_uint_eq(get_counts(rig).launches, 0);
	/* the rig's handle, and its two buffers */
	num_references = atomic_load(&rig->acc->device->references);
	ck_assert_uint_eq(num_references, 3);
	ck_assert_ok(qbrt_model_launch(rig->model, rig->acc));
	fill(rig->in, 9);
	ck_assert_ok(rig_infer(rig, NULL));
	ck_assert(holds(rig->out, 9));
}

void await_retirement(const struct rig *rig)
{
	while (atomic_load(&rig->model->references) != 1)
		(void)sched_yield();
}

void expect_no_lost_queue(const struct rig *rig, const struct counts *before)
{
	struct qbrt_device *device = rig->acc->device;
	int num = (int)(get_counts(rig).num_queues - before->num_queues);
	int num_bells = atomic_load(&device->retire) ? 1 : 0;
	int num_queues = atomic_load(&kmd_watch.num_queues);
	int num_syncobjs = atomic_load(&kmd_watch.num_syncobjs);

	ck_assert_int_eq(num_queues, num);
	ck_assert_int_eq(num_syncobjs, num + num_bells);
}

/* Of this file, in both regions. */
static uint64_t count_used(const struct qbrt_device *device)
{
	uint64_t sum = 0;

	for (uint32_t region = 0; region < 2; region++) {
		struct drm_qbnpu_query_memory memory = { 0 };
		struct drm_qbnpu_query query = {
			.type = DRM_QBNPU_QUERY_MEMORY,
			.index = region,
			.data = (uintptr_t)&memory,
			.size = sizeof(memory),
		};

		ck_assert_int_eq(device->kmd->ioctl(device->file,
						    DRM_IOCTL_QBNPU_QUERY,
						    &query),
				 0);
		sum += memory.client_used;
	}
	return sum;
}

void close_empty(struct rig *rig)
{
	struct qbrt_device *device = rig->acc->device;
	int num_programs;

	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	(void)qbrt_device_trim(device);
	ck_assert_uint_eq(count_used(device), 0);
	/* the rig's own was there before the watch */
	num_programs = atomic_load(&kmd_watch.num_programs);
	ck_assert_int_eq(num_programs, -1);
	qbrt_accelerator_close(rig->acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors), 0);
}
