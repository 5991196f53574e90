// SPDX-License-Identifier: MIT
/*
 * Who leaves a slot, and who makes it one with queued jobs, serves those who
 * wait afterwards; who begins to wait serves the list once he is in it. Each
 * changes its side first and looks at the other's then, all sequentially
 * consistent, so a slot and a waiter for it never miss each other.
 */
#include "slot.h"

#include <limits.h>
#include <sched.h>
#include <stddef.h>

#include "futex.h"
#include "interrupt.h"
#include "job.h"
#include "util.h"

enum waiter_state {
	WAITING,
	GRANTED,
	STOPPED,
};

/* On the stack of who waits; whoever changes state has taken it off the list. */
struct qbrt_slot_waiter {
	atomic_uint state;
	struct qbrt_slot *slot; /* granted; without users: it was free */
	struct qbrt_slot_waiter *previous;
	struct qbrt_slot_waiter *next;
};

void qbrt_slots_start(struct qbrt_slots *slots, struct qbrt_device *device,
		      unsigned int num)
{
	slots->device = device;
	slots->num = num;
	atomic_init(&slots->free,
		    num < 64 ? (UINT64_C(1) << num) - 1 : UINT64_MAX);
	(void)pthread_mutex_init(&slots->lock, NULL);
}

void qbrt_slots_free(struct qbrt_slots *slots)
{
	(void)pthread_mutex_destroy(&slots->lock);
}

/* A slot nobody uses, which is the caller's now; NULL: there is none. */
static struct qbrt_slot *take_free(struct qbrt_slots *slots)
{
	uint64_t free = atomic_load(&slots->free);

	while (free) {
		uint64_t bit = free & -free;

		if (atomic_compare_exchange_weak(&slots->free, &free,
						 free & ~bit))
			return &slots->slots[__builtin_ctzll(bit)];
	}
	return NULL;
}

/* false: it has no users, so it may have no queue. */
static bool join(struct qbrt_slot *slot)
{
	unsigned int users = atomic_load(&slot->users);

	while (users)
		if (atomic_compare_exchange_weak(&slot->users, &users,
						 users + 1))
			return true;
	return false;
}

/* The slot with the fewest users of those that may be joined, joined; NULL. */
static struct qbrt_slot *join_best(struct qbrt_slots *slots, bool wants_queued)
{
	for (;;) {
		struct qbrt_slot *best = NULL;
		unsigned int fewest = UINT_MAX;

		for (unsigned int i = 0; i < slots->num; i++) {
			struct qbrt_slot *slot = &slots->slots[i];
			unsigned int users = atomic_load(&slot->users);

			if (!users || users >= fewest ||
			    (wants_queued && !atomic_load(&slot->queued)))
				continue;
			best = slot;
			fewest = users;
		}
		if (!best || join(best))
			return best;
	}
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
	atomic_fetch_add(&slots->num_waiting, 1);
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
	atomic_fetch_sub(&slots->num_waiting, 1);
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

/* What can be had goes to those who wait, in order; lock held. */
static void serve(struct qbrt_slots *slots)
{
	while (slots->first) {
		struct qbrt_slot *slot = take_free(slots);

		if (!slot)
			slot = join_best(slots, true);
		if (!slot)
			return;
		slots->first->slot = slot;
		wake(slots, slots->first, GRANTED);
	}
}

static void serve_waiting(struct qbrt_slots *slots)
{
	if (!atomic_load(&slots->num_waiting))
		return;
	(void)pthread_mutex_lock(&slots->lock);
	serve(slots);
	(void)pthread_mutex_unlock(&slots->lock);
}

void qbrt_slots_stop(struct qbrt_slots *slots)
{
	(void)pthread_mutex_lock(&slots->lock);
	slots->is_stopped = true;
	while (slots->first)
		wake(slots, slots->first, STOPPED);
	(void)pthread_mutex_unlock(&slots->lock);
}

static void make_free(struct qbrt_slots *slots, const struct qbrt_slot *slot)
{
	atomic_fetch_or(&slots->free, UINT64_C(1) << (slot - slots->slots));
	serve_waiting(slots);
}

void qbrt_slots_leave(struct qbrt_slots *slots, struct qbrt_slot *slot)
{
	struct qbrt_queue *queue = slot->queue;

	if (atomic_fetch_sub(&slot->users, 1) == 1) {
		qbrt_device_give_queue(slots->device, queue);
		make_free(slots, slot);
	} else {
		serve_waiting(slots);
	}
}

void qbrt_slots_leave_queued(struct qbrt_slots *slots, struct qbrt_slot *slot)
{
	atomic_fetch_sub(&slot->queued, 1);
	qbrt_slots_leave(slots, slot);
}

/* A slot that was free gets its queue; from then on it can be joined. */
static enum qbrt_status open_slot(struct qbrt_slots *slots,
				  struct qbrt_slot *slot)
{
	enum qbrt_status status =
		qbrt_device_take_queue(slots->device, &slot->queue);

	if (status)
		make_free(slots, slot);
	else
		atomic_store(&slot->users, 1);
	return status;
}

/* Until the state changes. true: it did before the deadline and unasked. */
static enum qbrt_status sleep_on(struct qbrt_slot_waiter *waiter,
				 int64_t deadline_ns)
{
	while (atomic_load_explicit(&waiter->state, memory_order_acquire) ==
	       WAITING) {
		if (qbrt_now_ns() >= deadline_ns)
			return QBRT_MODEL_TASK_QUEUE_TIMEOUT;
		qbrt_futex_wait(&waiter->state, WAITING,
				qbrt_interrupt_slice(deadline_ns));
		if (qbrt_interrupt_ask())
			return QBRT_INTERRUPTED;
	}
	return QBRT_OK;
}

/* true: the waiter has left the list without a slot. */
static bool give_up(struct qbrt_slots *slots, struct qbrt_slot_waiter *waiter)
{
	bool is_waiting;

	(void)pthread_mutex_lock(&slots->lock);
	is_waiting = atomic_load_explicit(&waiter->state,
					  memory_order_acquire) == WAITING;
	if (is_waiting)
		take_off(slots, waiter);
	(void)pthread_mutex_unlock(&slots->lock);
	return is_waiting;
}

static enum qbrt_status wait_for_slot(struct qbrt_slots *slots,
				      int64_t deadline_ns,
				      struct qbrt_slot **slot)
{
	struct qbrt_slot_waiter waiter = { .slot = NULL };
	enum qbrt_status status;

	atomic_init(&waiter.state, WAITING);
	(void)pthread_mutex_lock(&slots->lock);
	if (slots->is_stopped) {
		atomic_init(&waiter.state, STOPPED);
	} else {
		append(slots, &waiter);
		serve(slots);
	}
	(void)pthread_mutex_unlock(&slots->lock);

	status = sleep_on(&waiter, deadline_ns);
	if (status && give_up(slots, &waiter))
		return status;
	if (atomic_load_explicit(&waiter.state, memory_order_acquire) ==
	    STOPPED)
		return QBRT_MODEL_NOT_ALIVE;
	*slot = waiter.slot;
	return status == QBRT_INTERRUPTED ? status : QBRT_OK;
}

/* Granted, and not wanted any more. */
static void give_back(struct qbrt_slots *slots, struct qbrt_slot *slot)
{
	if (atomic_load(&slot->users))
		qbrt_slots_leave(slots, slot);
	else
		make_free(slots, slot);
}

/* Whose free bit a caller holds, or joined: users tells which. */
static enum qbrt_status enter_granted(struct qbrt_slots *slots,
				      struct qbrt_slot *slot)
{
	if (atomic_load(&slot->users))
		return QBRT_OK;
	return open_slot(slots, slot);
}

enum qbrt_status qbrt_slots_take(struct qbrt_slots *slots, int64_t deadline_ns,
				 struct qbrt_slot **slot)
{
	enum qbrt_status status = QBRT_OK;

	*slot = NULL;
	if (!atomic_load(&slots->num_waiting))
		*slot = take_free(slots);
	if (!*slot) {
		qbrt_slots_collect(slots);
		status = wait_for_slot(slots, deadline_ns, slot);
	}
	if (!status)
		status = enter_granted(slots, *slot);
	else if (*slot)
		give_back(slots, *slot);
	return status;
}

enum qbrt_status qbrt_slots_join(struct qbrt_slots *slots,
				 struct qbrt_slot **slot)
{
	enum qbrt_status status;

	for (;;) {
		*slot = take_free(slots);
		if (*slot)
			break;
		*slot = join_best(slots, false);
		if (!*slot) {
			/* all are about to have a queue, or to be free */
			(void)sched_yield();
			continue;
		}
		atomic_fetch_add(&(*slot)->queued, 1);
		serve_waiting(slots);
		return QBRT_OK;
	}
	status = open_slot(slots, *slot);
	if (status)
		return status;
	atomic_fetch_add(&(*slot)->queued, 1);
	serve_waiting(slots);
	return QBRT_OK;
}

void qbrt_slots_cancel(struct qbrt_slots *slots)
{
	for (unsigned int i = 0; i < slots->num; i++) {
		struct qbrt_slot *slot = &slots->slots[i];

		if (!join(slot))
			continue;
		(void)qbrt_device_cancel_queue(slots->device, slot->queue);
		qbrt_slots_leave(slots, slot);
	}
}

void qbrt_slots_collect(struct qbrt_slots *slots)
{
	for (unsigned int i = 0; i < slots->num; i++) {
		struct qbrt_slot *slot = &slots->slots[i];

		if (!atomic_load(&slot->queued) || !join(slot))
			continue;
		qbrt_queue_collect(slot->queue);
		qbrt_slots_leave(slots, slot);
	}
}
