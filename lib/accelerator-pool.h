/* SPDX-License-Identifier: MIT */
/*
 * What an open device keeps at hand: its queues, freed buffers, and how many
 * launches have each core. Private to accelerator*.c. Queues are taken and
 * given back by atomics alone; a lock is taken to make one. Freed buffers and
 * launches lie under the lock beside them.
 */
#ifndef QBRT_ACCELERATOR_POOL_H
#define QBRT_ACCELERATOR_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "accelerator.h"

#define QBRT_MAX_CORES 64
#define QBRT_QUEUE_WORDS (QBRT_MAX_QUEUES / 64)
#define QBRT_POOLED_MAX_SIZE ((size_t)1 << 20)  /* of one buffer */
#define QBRT_POOLED_MAX_TOTAL ((size_t)1 << 25) /* of a device */
#define QBRT_POOLED_MAX_NUM 64 /* of a device: each holds a descriptor */
#define QBRT_POOLED_BUCKETS (QBRT_POOLED_MAX_SIZE >> 12)

struct qbrt_pooled_buffer {
	struct qbrt_buffer buffer;
	struct qbrt_pooled_buffer *next;
};

struct qbrt_device_pools {
	/* queues[0] to queues[num_queues - 1] exist and never move */
	struct qbrt_queue queues[QBRT_MAX_QUEUES];
	atomic_uint users[QBRT_MAX_QUEUES]; /* 0: idle, or about to be */
	atomic_uint num_queues;             /* grows under queue_lock */
	atomic_uint next_shared;
	_Atomic uint64_t idle[QBRT_QUEUE_WORDS]; /* bit per idle queue */
	pthread_mutex_t queue_lock; /* also: to become one of several users */
	/* the progress page, mapped with the first queue; NULL: there is none */
	void *progress;

	pthread_mutex_t core_lock;             /* guards launches */
	unsigned int launches[QBRT_MAX_CORES]; /* by bit of core_mask */

	pthread_mutex_t buffer_lock; /* guards what follows */
	/* by size in 4 KiB, newest first */
	struct qbrt_pooled_buffer *buckets[QBRT_POOLED_BUCKETS];
	struct qbrt_pooled_buffer pooled[QBRT_POOLED_MAX_NUM];
	struct qbrt_pooled_buffer *unused; /* of pooled */
	size_t pooled_nbytes;
	size_t pooled_local_nbytes; /* of it, in the device's own memory */

	pthread_mutex_t
		share_lock; /* guards shared and its handles' requests */
	struct qbrt_shared_handle *shared;
};

/* NULL: no memory. */
struct qbrt_device_pools *qbrt_device_pools_alloc(void);

/* Memory alone: the file that queues and buffers belong to ends them. */
void qbrt_device_pools_free(struct qbrt_device_pools *pools);

/* Before the file is closed. */
void qbrt_device_unmap_progress(struct qbrt_device *device);

/* GEM_CLOSE */
void qbrt_device_close_handle(struct qbrt_device *device, uint32_t handle);

/* qbrt_device_give_buffer for what is_shared. */
void qbrt_device_give_shared(struct qbrt_device *device,
			     const struct qbrt_buffer *buffer);

/* Bytes of the device's own memory that lie in the pool. */
size_t qbrt_device_get_pooled_local_nbytes(struct qbrt_device *device);

#endif
