/* SPDX-License-Identifier: MIT */
/*
 * Open devices. All handles of one device in this process share one struct
 * qbrt_device: one open file, one pool of queues, one pool of freed buffers.
 * struct qbrt_accelerator is a counted reference to it; buffers and models
 * hold references too, so any closing order is safe. The table of open
 * devices is guarded by the registry lock, the first in the lock order.
 */
#ifndef QBRT_ACCELERATOR_H
#define QBRT_ACCELERATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "kmd.h"
#include "queue.h"
#include "uapi/qbnpu_drm.h"

#define QBRT_MAX_QUEUES 256

struct qbrt_job;
struct qbrt_firmware_text;

/* Of a unit above this one; first member of the unit's own struct. */
struct qbrt_device_part {
	void (*stop)(struct qbrt_device_part *part);
};

struct qbrt_device {
	const struct qbrt_kmd *kmd;
	int file;
	char id[48]; /* "aries-rb:0" */
	char name[32];
	int number;
	int owner_pid_generation; /* qbrt_fork_generation() at open */
	int64_t npu_timeout_ns;   /* default limit of a job, from its submit */
	struct drm_qbnpu_query_device facts;
	struct drm_qbnpu_query_memory regions[2]; /* as at open */
	/* the rest belongs to accelerator.c */
	char path[64]; /* of the node */
	struct qbrt_device_pools *pools;
	/* retire.c's, made when first needed; stopped by the last close */
	_Atomic(struct qbrt_device_part *) retire;
	/* accelerator-query.c's: what callers have pointers to */
	_Atomic(struct qbrt_firmware_text *) firmware_texts;
	atomic_uint references;   /* becomes 0 under the registry lock */
	struct qbrt_device *next; /* registry lock */
};

struct qbrt_accelerator {
	struct qbrt_device *device;
};

/* accelerator-query.c: of the last close. */
void qbrt_device_free_texts(struct qbrt_device *device);

struct qbrt_device *qbrt_device_ref(struct qbrt_device *device);
void qbrt_device_unref(struct qbrt_device *device);

/*
 * QBRT_FORKED_PROCESS with its sentence in a child of fork, else QBRT_OK.
 * No system call.
 */
enum qbrt_status qbrt_device_check_fork(const struct qbrt_device *device);

/* Of this process, counted from the first one to open a device; never 0. */
extern atomic_int qbrt_fork_count __attribute__((visibility("hidden")));
static inline int qbrt_fork_generation(void)
{
	return atomic_load_explicit(&qbrt_fork_count, memory_order_relaxed);
}

/* The same question without a sentence. */
static inline bool qbrt_device_is_inherited(const struct qbrt_device *device)
{
	return device->owner_pid_generation != qbrt_fork_generation();
}

/*
 * A queue for one run: an idle one of the pool, else a new one, else (no more
 * queues) one that others use too. Taking an idle one is one atomic.
 */
enum qbrt_status qbrt_device_take_queue(struct qbrt_device *device,
					struct qbrt_queue **queue);
void qbrt_device_give_queue(struct qbrt_device *device,
			    struct qbrt_queue *queue);

/* Ends what is complete of all jobs in the queues' lists. */
void qbrt_device_collect(struct qbrt_device *device);

/* qbrt_queue_find() over all queues. */
struct qbrt_job *
qbrt_device_find_job(struct qbrt_device *device,
		     bool (*matches)(const struct qbrt_job *job, void *arg),
		     void *arg);

/*
 * Cancels all jobs of a queue that has no user but the caller's slot. false:
 * others use it too, nothing was done.
 */
bool qbrt_device_cancel_queue(struct qbrt_device *device,
			      struct qbrt_queue *queue);

/*
 * Cores for a launch, which others may have too: the num cores of mask that
 * the fewest launches of this process have, the lowest first among equals.
 * mask: cores of the device, num at least.
 */
uint64_t qbrt_device_take_cores(struct qbrt_device *device, uint64_t mask,
				unsigned int num);
void qbrt_device_give_cores(struct qbrt_device *device, uint64_t mask);

/* A driver's buffer and its mapping. */
struct qbrt_buffer {
	uint32_t handle;
	uint32_t region;
	uint32_t contiguity; /* enum qbrt_contiguity */
	bool is_poolable;
	bool is_shared;    /* has a descriptor, or came by one */
	bool is_read_only; /* came by a read-only one, and so is its mapping */
	size_t size;       /* as rounded by the driver */
	void *data;        /* mapped read-write, unless is_read_only */
	uint64_t device_address; /* UINT64_MAX: not told */
	uint64_t id;             /* equal for equal memory */
};

/*
 * Buffers for the host and the NPU: Q472's regions in order, Q473's pool of
 * freed ones. Zeroed. alignment: power of two, 64 to 2 MiB.
 */
enum qbrt_status qbrt_device_take_buffer(struct qbrt_device *device,
					 size_t nbytes, size_t alignment,
					 bool is_contiguous,
					 struct qbrt_buffer *buffer);
void qbrt_device_give_buffer(struct qbrt_device *device,
			     const struct qbrt_buffer *buffer);

/*
 * accelerator-fd.c: a descriptor of the whole buffer, the caller's; from then
 * on the buffer is_shared. And the buffer behind a descriptor, which is
 * borrowed.
 */
enum qbrt_status qbrt_device_export_buffer(struct qbrt_device *device,
					   struct qbrt_buffer *buffer, int *fd);
enum qbrt_status qbrt_device_import_buffer(struct qbrt_device *device, int fd,
					   struct qbrt_buffer *buffer);

/* Weights and states: LOCAL first, never pooled. QBRT_AT_WEIGHTS's statuses. */
enum qbrt_status qbrt_device_take_weights(struct qbrt_device *device,
					  size_t nbytes,
					  struct qbrt_buffer *buffer);

/* Empties the pool of freed buffers. true: there were some. */
bool qbrt_device_trim(struct qbrt_device *device);

/*
 * Before exhaustion is reported. true: with this errno memory or descriptors
 * ran out, and the pool that may have held them is empty now: ask once more.
 */
bool qbrt_device_make_room(struct qbrt_device *device, int err);

#endif
