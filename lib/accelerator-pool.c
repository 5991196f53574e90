// SPDX-License-Identifier: MIT
/*
 * The queues of an open device. A job takes one for its run, so N running jobs
 * hold N queues and models at rest hold none (Q150). When the driver gives no
 * more, users share: users[] counts them, and the last one makes it idle. Cores
 * are chosen here too, for launches that leave the choice to us.
 */
#include "accelerator-pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "job.h"
#include "status.h"

struct qbrt_device_pools *qbrt_device_pools_alloc(void)
{
	struct qbrt_device_pools *pools = calloc(1, sizeof(*pools));

	if (!pools)
		return NULL;
	for (size_t i = 0; i < QBRT_POOLED_MAX_NUM; i++) {
		pools->pooled[i].next = pools->unused;
		pools->unused = &pools->pooled[i];
	}
	(void)pthread_mutex_init(&pools->queue_lock, NULL);
	(void)pthread_mutex_init(&pools->core_lock, NULL);
	(void)pthread_mutex_init(&pools->buffer_lock, NULL);
	(void)pthread_mutex_init(&pools->share_lock, NULL);
	return pools;
}

void qbrt_device_pools_free(struct qbrt_device_pools *pools)
{
	free(pools);
}

/* An idle queue's index, or -1. */
static int take_idle(struct qbrt_device_pools *pools)
{
	unsigned int word;

	for (word = 0; word < QBRT_QUEUE_WORDS; word++) {
		uint64_t idle = atomic_load_explicit(&pools->idle[word],
						     memory_order_relaxed);

		while (idle) {
			uint64_t bit = idle & -idle;

			if (atomic_compare_exchange_weak_explicit(
				    &pools->idle[word], &idle, idle & ~bit,
				    memory_order_acquire, memory_order_relaxed))
				return (int)word * 64 + __builtin_ctzll(bit);
		}
	}
	return -1;
}

/* A driver without the page is asked for each look at a queue's progress. */
static int map_progress(struct qbrt_device *device, struct qbrt_queue *queue)
{
	struct qbrt_device_pools *pools = device->pools;
	int err = 0;

	if (queue->progress_index == DRM_QBNPU_NONE)
		return 0;
	if (!pools->progress)
		err = device->kmd->mmap(device->file, queue->progress_offset,
					device->facts.progress_size, PROT_READ,
					&pools->progress);
	if (!err)
		queue->progress =
			(const struct drm_qbnpu_progress *)pools->progress +
			queue->progress_index;
	return err;
}

void qbrt_device_unmap_progress(struct qbrt_device *device)
{
	if (device->pools->progress)
		(void)device->kmd->munmap(device->file, device->pools->progress,
					  device->facts.progress_size);
	device->pools->progress = NULL;
}

/* A new queue, in use; -ENOSPC: the driver or the table has no more. */
static int add_queue(struct qbrt_device *device, unsigned int *index)
{
	struct qbrt_device_pools *pools = device->pools;
	unsigned int num;
	int err = -ENOSPC;

	(void)pthread_mutex_lock(&pools->queue_lock);
	num = atomic_load(&pools->num_queues);
	if (num < QBRT_MAX_QUEUES)
		err = qbrt_queue_open(device->kmd, device->file,
				      &pools->queues[num]);
	if (!err) {
		err = map_progress(device, &pools->queues[num]);
		if (err)
			qbrt_queue_close(&pools->queues[num]);
	}
	if (!err) {
		pools->queues[num].pool_index = num;
		atomic_store(&pools->users[num], 1);
		atomic_store(&pools->num_queues, num + 1);
		*index = num;
	}
	(void)pthread_mutex_unlock(&pools->queue_lock);
	return err;
}

/* A second user comes under the lock: see qbrt_device_cancel_queue(). */
static bool join_users(struct qbrt_device_pools *pools, unsigned int at)
{
	unsigned int users = atomic_load(&pools->users[at]);

	while (users)
		if (atomic_compare_exchange_weak(&pools->users[at], &users,
						 users + 1))
			return true;
	return false;
}

/* Joins the users of a queue that has some. false: all are idle by now. */
static bool share_queue(struct qbrt_device_pools *pools, unsigned int *index)
{
	unsigned int num = atomic_load(&pools->num_queues);
	bool is_shared = false;
	unsigned int i;

	(void)pthread_mutex_lock(&pools->queue_lock);
	for (i = 0; i < num && !is_shared; i++) {
		*index = atomic_fetch_add(&pools->next_shared, 1) % num;
		is_shared = join_users(pools, *index);
	}
	(void)pthread_mutex_unlock(&pools->queue_lock);
	return is_shared;
}

/* The pool has no idle queue: a new one, or others' too. */
static enum qbrt_status find_queue(struct qbrt_device *device,
				   struct qbrt_queue **queue)
{
	struct qbrt_device_pools *pools = device->pools;
	unsigned int index;
	int idle, err;

	for (;;) {
		err = add_queue(device, &index);
		if (!err)
			break;
		if (err != -ENOSPC || !atomic_load(&pools->num_queues))
			return qbrt_fail_errno(QBRT_AT_QUEUE_CREATE, err,
					       "no queue on device %s",
					       device->id);
		if (share_queue(pools, &index))
			break;
		/* those in use have become idle meanwhile */
		idle = take_idle(pools);
		if (idle >= 0) {
			index = (unsigned int)idle;
			atomic_store(&pools->users[index], 1);
			break;
		}
	}
	*queue = &pools->queues[index];
	return QBRT_OK;
}

enum qbrt_status qbrt_device_take_queue(struct qbrt_device *device,
					struct qbrt_queue **queue)
{
	struct qbrt_device_pools *pools = device->pools;
	int index = take_idle(pools);

	if (index < 0)
		return find_queue(device, queue);
	atomic_store_explicit(&pools->users[index], 1, memory_order_relaxed);
	*queue = &pools->queues[index];
	return QBRT_OK;
}

void qbrt_device_give_queue(struct qbrt_device *device,
			    struct qbrt_queue *queue)
{
	struct qbrt_device_pools *pools = device->pools;
	uint32_t index = queue->pool_index;

	if (atomic_fetch_sub_explicit(&pools->users[index], 1,
				      memory_order_acq_rel) != 1)
		return;
	(void)atomic_fetch_or_explicit(&pools->idle[index / 64],
				       UINT64_C(1) << (index % 64),
				       memory_order_release);
}

bool qbrt_device_cancel_queue(struct qbrt_device *device,
			      struct qbrt_queue *queue)
{
	struct qbrt_device_pools *pools = device->pools;
	uint32_t index = queue->pool_index;
	bool is_alone;

	(void)pthread_mutex_lock(&pools->queue_lock);
	is_alone = atomic_load(&pools->users[index]) == 1;
	if (is_alone)
		(void)qbrt_queue_cancel(queue, 0);
	(void)pthread_mutex_unlock(&pools->queue_lock);
	return is_alone;
}

void qbrt_device_collect(struct qbrt_device *device)
{
	struct qbrt_device_pools *pools = device->pools;
	unsigned int num = atomic_load(&pools->num_queues);
	unsigned int i;

	for (i = 0; i < num; i++)
		qbrt_queue_collect(&pools->queues[i]);
}

struct qbrt_job *
qbrt_device_find_job(struct qbrt_device *device,
		     bool (*matches)(const struct qbrt_job *job, void *arg),
		     void *arg)
{
	struct qbrt_device_pools *pools = device->pools;
	unsigned int num = atomic_load(&pools->num_queues);
	struct qbrt_job *job = NULL;
	unsigned int i;

	for (i = 0; i < num && !job; i++)
		job = qbrt_queue_find(&pools->queues[i], matches, arg);
	return job;
}

static unsigned int find_least_launched(const struct qbrt_device_pools *pools,
					uint64_t mask)
{
	unsigned int found = (unsigned int)__builtin_ctzll(mask);

	for (mask &= mask - 1; mask; mask &= mask - 1) {
		unsigned int core = (unsigned int)__builtin_ctzll(mask);

		if (pools->launches[core] < pools->launches[found])
			found = core;
	}
	return found;
}

uint64_t qbrt_device_take_cores(struct qbrt_device *device, uint64_t mask,
				unsigned int num)
{
	struct qbrt_device_pools *pools = device->pools;
	uint64_t taken = 0;

	(void)pthread_mutex_lock(&pools->core_lock);
	for (; num; num--) {
		unsigned int core = find_least_launched(pools, mask & ~taken);

		pools->launches[core]++;
		taken |= UINT64_C(1) << core;
	}
	(void)pthread_mutex_unlock(&pools->core_lock);
	return taken;
}

void qbrt_device_give_cores(struct qbrt_device *device, uint64_t mask)
{
	struct qbrt_device_pools *pools = device->pools;

	(void)pthread_mutex_lock(&pools->core_lock);
	for (; mask; mask &= mask - 1)
		pools->launches[__builtin_ctzll(mask)]--;
	(void)pthread_mutex_unlock(&pools->core_lock);
}
