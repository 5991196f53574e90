/* SPDX-License-Identifier: MIT */
/*
 * Activation slots of a launched model: how many of its inferences may run at
 * once. A free slot is taken by one atomic; who finds none waits in order of
 * arrival. Stopping wakes all who wait; nobody waits afterwards.
 */
#ifndef QBRT_SLOT_H
#define QBRT_SLOT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

struct qbrt_slot_waiter;

struct qbrt_slots {
	/* slots that are free; below 0: threads that wait for one */
	atomic_int free;
	pthread_mutex_t lock;           /* guards the rest */
	struct qbrt_slot_waiter *first; /* the longest waiting */
	struct qbrt_slot_waiter *last;
	unsigned int granted; /* given to threads not yet in the list */
	bool is_stopped;
};

/* num >= 1 */
void qbrt_slots_start(struct qbrt_slots *slots, unsigned int num);

/* Wakes who waits; they, and who later finds none free, get NOT_ALIVE. */
void qbrt_slots_stop(struct qbrt_slots *slots);

/* After stop, when no thread is inside take or give any more. */
void qbrt_slots_free(struct qbrt_slots *slots);

/*
 * Takes a slot. QBRT_MODEL_TASK_QUEUE_TIMEOUT: none until the absolute
 * deadline; QBRT_MODEL_NOT_ALIVE: stopped. Without a sentence: the caller
 * knows the model.
 */
enum qbrt_status qbrt_slots_take(struct qbrt_slots *slots, int64_t deadline_ns);
void qbrt_slots_give(struct qbrt_slots *slots);

#endif
