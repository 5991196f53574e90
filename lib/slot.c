// SPDX-License-Identifier: MIT
/*
 * A semaphore that is fair. free counts down past 0, so -free is the number of
 * threads that wait and have been promised nothing. Who gives a slot back and
 * finds free below 0 owes it to one of them: the first of the list or, if that
 * one is still on its way to the lock, a grant. Who leaves without a slot takes
 * its count back, unless somebody already owes it one.
 */
#include "slot.h"

#include <stddef.h>

#include "futex.h"
#include "util.h"

enum waiter_state {
	WAITING,
	GRANTED,
	STOPPED,
};

/* On the stack of who waits; whoever changes state has taken it off the list. */
struct qbrt_slot_waiter {
	atomic_uint state;
	struct qbrt_slot_waiter *previous;
	struct qbrt_slot_waiter *next;
};

void qbrt_slots_start(struct qbrt_slots *slots, unsigned int num)
{
	atomic_init(&slots->free, (int)num);
	(void)pthread_mutex_init(&slots->lock, NULL);
	slots->first = NULL;
	slots->last = NULL;
	slots->granted = 0;
	slots->is_stopped = false;
}

void qbrt_slots_free(struct qbrt_slots *slots)
{
	(void)pthread_mutex_destroy(&slots->lock);
}

static void append(struct qbrt_slots *slots, struct qbrt_slot_waiter *waiter)
{
	waiter->next = NULL;
	waiter->previous = slots->last;
	if (slots->last)
		slots->last->next = waiter;
	else
		slots->first = waiter;
	slots->last = waiter;
}

static void take_off(struct qbrt_slots *slots, struct qbrt_slot_waiter *waiter)
{
	if (waiter->previous)
		waiter->previous->next = waiter->next;
	else
		slots->first = waiter->next;
	if (waiter->next)
		waiter->next->previous = waiter->previous;
	else
		slots->last = waiter->previous;
}

/*
 * The waiter may be gone, with its stack, before the request: then the address
 * is nobody's or wakes somebody who looks again.
 */
static void wake(struct qbrt_slots *slots, struct qbrt_slot_waiter *waiter,
		 enum waiter_state state)
{
	take_off(slots, waiter);
	atomic_store_explicit(&waiter->state, state, memory_order_release);
	qbrt_futex_wake(&waiter->state, 1);
}

void qbrt_slots_stop(struct qbrt_slots *slots)
{
	(void)pthread_mutex_lock(&slots->lock);
	slots->is_stopped = true;
	while (slots->first)
		wake(slots, slots->first, STOPPED);
	(void)pthread_mutex_unlock(&slots->lock);
}

void qbrt_slots_give(struct qbrt_slots *slots)
{
	if (atomic_fetch_add_explicit(&slots->free, 1, memory_order_acq_rel) >=
	    0)
		return;
	(void)pthread_mutex_lock(&slots->lock);
	if (slots->first)
		wake(slots, slots->first, GRANTED);
	else
		slots->granted++;
	(void)pthread_mutex_unlock(&slots->lock);
}

/* Sleeps until the state changes or the deadline is over. */
static void sleep_on(struct qbrt_slot_waiter *waiter, int64_t deadline_ns)
{
	while (atomic_load_explicit(&waiter->state, memory_order_acquire) ==
		       WAITING &&
	       qbrt_now_ns() < deadline_ns)
		qbrt_futex_wait(&waiter->state, WAITING, deadline_ns);
}

/* true: the count is taken back; false: a slot is on its way to a waiter. */
static bool take_count_back(struct qbrt_slots *slots)
{
	int free = atomic_load_explicit(&slots->free, memory_order_relaxed);

	while (free < 0)
		if (atomic_compare_exchange_weak(&slots->free, &free, free + 1))
			return true;
	return false;
}

/* true: the waiter has left the list without a slot. */
static bool give_up(struct qbrt_slots *slots, struct qbrt_slot_waiter *waiter)
{
	bool has_left = false;

	(void)pthread_mutex_lock(&slots->lock);
	if (atomic_load_explicit(&waiter->state, memory_order_relaxed) ==
		    WAITING &&
	    take_count_back(slots)) {
		take_off(slots, waiter);
		has_left = true;
	}
	(void)pthread_mutex_unlock(&slots->lock);
	return has_left;
}

static enum qbrt_status wait_for_slot(struct qbrt_slots *slots,
				      int64_t deadline_ns)
{
	struct qbrt_slot_waiter waiter;
	bool is_listed = false;

	atomic_init(&waiter.state, WAITING);
	(void)pthread_mutex_lock(&slots->lock);
	if (slots->is_stopped) {
		atomic_init(&waiter.state, STOPPED);
	} else if (slots->granted > 0) {
		slots->granted--;
		atomic_init(&waiter.state, GRANTED);
	} else {
		append(slots, &waiter);
		is_listed = true;
	}
	(void)pthread_mutex_unlock(&slots->lock);

	if (is_listed) {
		sleep_on(&waiter, deadline_ns);
		if (give_up(slots, &waiter))
			return QBRT_MODEL_TASK_QUEUE_TIMEOUT;
		/* somebody owes a slot: it comes without a further wait */
		sleep_on(&waiter, INT64_MAX);
	}
	return atomic_load_explicit(&waiter.state, memory_order_acquire) ==
			       GRANTED
		       ? QBRT_OK
		       : QBRT_MODEL_NOT_ALIVE;
}

enum qbrt_status qbrt_slots_take(struct qbrt_slots *slots, int64_t deadline_ns)
{
	if (atomic_fetch_sub_explicit(&slots->free, 1, memory_order_acq_rel) >
	    0)
		return QBRT_OK;
	return wait_for_slot(slots, deadline_ns);
}
