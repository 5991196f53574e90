/* SPDX-License-Identifier: MIT */
/*
 * Activation slots of a launched model: how many of its inferences may run at
 * once. A slot in use has a queue of the device's pool, on which its jobs run
 * one after the other. A call that waits for its job takes a free slot by one
 * atomic, else waits in order of arrival; a job that nobody waits for may also
 * join a slot in use, behind the jobs in its queue. A slot is free again when
 * the last of its users has left.
 *
 * A user is a call inside the slot, or a queued job until it has ended. Queued
 * jobs end only when somebody looks (job.h), so nobody ever waits here for a
 * slot that only queued jobs use: he joins it.
 */
#ifndef QBRT_SLOT_H
#define QBRT_SLOT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "accelerator.h"
#include "model-config.h"

struct qbrt_slot_waiter;

struct qbrt_slot {
	atomic_uint users;        /* 0: free, or about to have a queue */
	atomic_uint queued;       /* of them, queued jobs, some still to join */
	struct qbrt_queue *queue; /* while users is not 0 */
};

struct qbrt_slots {
	struct qbrt_device *device; /* of the launched model */
	_Atomic uint64_t free;      /* bit per free slot */
	unsigned int num;
	atomic_uint num_waiting;        /* in the list */
	pthread_mutex_t lock;           /* guards the rest */
	struct qbrt_slot_waiter *first; /* the longest waiting */
	struct qbrt_slot_waiter *last;
	bool is_stopped;
	struct qbrt_slot slots[QBRT_MAX_ACTIVATION_SLOTS];
};

/* 1 <= num <= QBRT_MAX_ACTIVATION_SLOTS */
void qbrt_slots_start(struct qbrt_slots *slots, struct qbrt_device *device,
		      unsigned int num);

/* Wakes who waits; they, and who would wait later, get NOT_ALIVE. */
void qbrt_slots_stop(struct qbrt_slots *slots);

/* After stop, when nobody uses a slot any more. */
void qbrt_slots_free(struct qbrt_slots *slots);

/*
 * For a call that waits for its job. QBRT_MODEL_TASK_QUEUE_TIMEOUT: none until
 * the absolute deadline; QBRT_MODEL_NOT_ALIVE: stopped; QBRT_INTERRUPTED:
 * without a sentence, the caller knows the model. Others with theirs.
 */
enum qbrt_status qbrt_slots_take(struct qbrt_slots *slots, int64_t deadline_ns,
				 struct qbrt_slot **slot);
void qbrt_slots_leave(struct qbrt_slots *slots, struct qbrt_slot *slot);

/* For a queued job: never waits. */
enum qbrt_status qbrt_slots_join(struct qbrt_slots *slots,
				 struct qbrt_slot **slot);
void qbrt_slots_leave_queued(struct qbrt_slots *slots, struct qbrt_slot *slot);

/*
 * Cancels the jobs of every slot in use whose queue nobody else uses, those of
 * calls that are inside too.
 */
void qbrt_slots_cancel(struct qbrt_slots *slots);

/* Ends what is complete of the queued jobs. */
void qbrt_slots_collect(struct qbrt_slots *slots);

#endif
