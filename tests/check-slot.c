// SPDX-License-Identifier: MIT
/*
 * Activation slots: taken by one atomic, else in order of arrival; joined by
 * queued jobs. On a device, whose queues they take.
 */
#include "slot.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "accelerator.h"
#include "test-util.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_STRESS_THREADS 16
#define NUM_ROUNDS 2000
#define FAR INT64_MAX

static struct qbrt_accelerator *acc;

static void start(struct qbrt_slots *slots, unsigned int num)
{
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	memset(slots, 0, sizeof(*slots));
	qbrt_slots_start(slots, acc->device, num);
}

static void finish(struct qbrt_slots *slots, uint64_t free)
{
	ck_assert_uint_eq(atomic_load(&slots->free), free);
	ck_assert_ptr_null(slots->first);
	ck_assert_uint_eq(atomic_load(&slots->num_waiting), 0);
	qbrt_slots_free(slots);
	qbrt_accelerator_close(acc);
}

struct taker {
	struct qbrt_slots *slots;
	struct qbrt_slot *slot;
	pthread_t thread;
	int64_t deadline_ns;
	enum qbrt_status status;
	atomic_uint *num_served;
	unsigned int place; /* in the order of being served */
};

static void *take(void *arg)
{
	struct taker *taker = arg;

	taker->status =
		qbrt_slots_take(taker->slots, taker->deadline_ns, &taker->slot);
	taker->place = atomic_fetch_add(taker->num_served, 1);
	return NULL;
}

static struct qbrt_slot_waiter *get_last(struct qbrt_slots *slots)
{
	struct qbrt_slot_waiter *last;

	(void)pthread_mutex_lock(&slots->lock);
	last = slots->last;
	(void)pthread_mutex_unlock(&slots->lock);
	return last;
}

/* A thread that asks for a slot; returns when it stands in the list, or left. */
static void start_waiting(struct taker *taker, struct qbrt_slots *slots,
			  int64_t deadline_ns, atomic_uint *num_served)
{
	struct qbrt_slot_waiter *last = get_last(slots);
	unsigned int served = atomic_load(num_served);

	taker->slots = slots;
	taker->deadline_ns = deadline_ns;
	taker->num_served = num_served;
	ck_assert(!pthread_create(&taker->thread, NULL, take, taker));
	while (get_last(slots) == last && atomic_load(num_served) == served)
		sched_yield();
}

static void join_thread(struct taker *taker)
{
	ck_assert(!pthread_join(taker->thread, NULL));
}

/* Q337 */
START_TEST(free_slots_are_taken_at_once)
{
	struct qbrt_slot *slot[3];
	struct qbrt_slots slots;

	start(&slots, 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_ok(qbrt_slots_take(&slots, 0, &slot[i]));
		ck_assert_ptr_nonnull(slot[i]->queue);
	}
	ck_assert_ptr_ne(slot[0]->queue, slot[1]->queue);
	ck_assert_uint_eq(atomic_load(&slots.free), 0);
	for (int i = 0; i < 3; i++)
		qbrt_slots_leave(&slots, slot[i]);
	finish(&slots, 7);
}
END_TEST

/* Q243: the most that a model may have. */
START_TEST(sixty_four_slots_are_all_different)
{
	struct qbrt_slot *slot[QBRT_MAX_ACTIVATION_SLOTS];
	struct qbrt_slots slots;

	start(&slots, QBRT_MAX_ACTIVATION_SLOTS);
	for (int i = 0; i < QBRT_MAX_ACTIVATION_SLOTS; i++)
		ck_assert_ok(qbrt_slots_take(&slots, 0, &slot[i]));
	ck_assert_uint_eq(atomic_load(&slots.free), 0);
	for (int i = 0; i < QBRT_MAX_ACTIVATION_SLOTS; i++) {
		ck_assert_uint_eq(atomic_load(&slot[i]->users), 1);
		qbrt_slots_leave(&slots, slot[i]);
	}
	finish(&slots, UINT64_MAX);
}
END_TEST

/* Q340 */
START_TEST(who_finds_none_in_time_leaves_no_trace)
{
	struct qbrt_slot *slot, *none;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(qbrt_slots_take(&slots, qbrt_now_ns(), &none),
				 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_int_eq(
		qbrt_slots_take(&slots, qbrt_now_ns() + QBRT_NS_PER_MS, &none),
		QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_uint_eq(atomic_load(&slots.num_waiting), 0);
	qbrt_slots_leave(&slots, slot);
	ck_assert_ok(qbrt_slots_take(&slots, 0, &slot));
	qbrt_slots_leave(&slots, slot);
	finish(&slots, 1);
}
END_TEST

/* Q337 */
START_TEST(waiters_are_served_in_order_of_arrival)
{
	struct taker takers[NUM_THREADS] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slot *slot;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	for (int i = 0; i < NUM_THREADS; i++)
		start_waiting(&takers[i], &slots, FAR, &num_served);
	for (int i = 0; i < NUM_THREADS; i++) {
		qbrt_slots_leave(&slots, slot);
		join_thread(&takers[i]);
		ck_assert_int_eq(takers[i].status, QBRT_OK);
		ck_assert_uint_eq(takers[i].place, (unsigned int)i);
		slot = takers[i].slot;
	}
	qbrt_slots_leave(&slots, slot);
	finish(&slots, 1);
}
END_TEST

/* Q340 */
START_TEST(a_waiter_that_leaves_does_not_cost_the_next_one_its_slot)
{
	struct taker takers[3] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slot *slot;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	start_waiting(&takers[0], &slots, FAR, &num_served);
	/* the one in the middle of the list goes */
	start_waiting(&takers[1], &slots, qbrt_now_ns() + 50 * QBRT_NS_PER_MS,
		      &num_served);
	start_waiting(&takers[2], &slots, FAR, &num_served);
	join_thread(&takers[1]);
	ck_assert_int_eq(takers[1].status, QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	qbrt_slots_leave(&slots, slot);
	join_thread(&takers[0]);
	ck_assert_int_eq(takers[0].status, QBRT_OK);
	qbrt_slots_leave(&slots, takers[0].slot);
	join_thread(&takers[2]);
	ck_assert_int_eq(takers[2].status, QBRT_OK);
	qbrt_slots_leave(&slots, takers[2].slot);
	finish(&slots, 1);
}
END_TEST

/* Q268 */
START_TEST(stopping_wakes_all_who_wait)
{
	struct taker takers[NUM_THREADS] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slot *slot, *none;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	for (int i = 0; i < NUM_THREADS; i++)
		start_waiting(&takers[i], &slots, FAR, &num_served);
	qbrt_slots_stop(&slots);
	for (int i = 0; i < NUM_THREADS; i++) {
		join_thread(&takers[i]);
		ck_assert_int_eq(takers[i].status, QBRT_MODEL_NOT_ALIVE);
	}
	/* and nobody waits afterwards */
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR, &none),
			 QBRT_MODEL_NOT_ALIVE);
	qbrt_slots_leave(&slots, slot);
	finish(&slots, 1);
}
END_TEST

/* Q365 Q366: behind the jobs that are in its queue, never waiting. */
START_TEST(a_queued_job_joins_the_slot_with_the_fewest_users)
{
	struct qbrt_slot *taken, *joined[4];
	struct qbrt_slots slots;

	start(&slots, 2);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &taken));
	ck_assert_ok(qbrt_slots_join(&slots, &joined[0]));
	ck_assert_ptr_ne(joined[0], taken);
	for (int i = 1; i < 4; i++)
		ck_assert_ok(qbrt_slots_join(&slots, &joined[i]));
	ck_assert_uint_eq(atomic_load(&slots.slots[0].users) +
				  atomic_load(&slots.slots[1].users),
			  5);
	ck_assert_uint_ge(atomic_load(&slots.slots[0].users), 2);
	ck_assert_uint_ge(atomic_load(&slots.slots[1].users), 2);
	qbrt_slots_leave(&slots, taken);
	ck_assert_uint_eq(atomic_load(&slots.free), 0);
	for (int i = 0; i < 4; i++)
		qbrt_slots_leave_queued(&slots, joined[i]);
	finish(&slots, 3);
}
END_TEST

/* Q337: nobody else would tell him that the job has ended. */
START_TEST(who_finds_only_queued_jobs_joins_them_and_does_not_wait)
{
	struct qbrt_slot *queued, *slot;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_join(&slots, &queued));
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	ck_assert_ptr_eq(slot, queued);
	ck_assert_uint_eq(atomic_load(&slot->users), 2);
	qbrt_slots_leave(&slots, slot);
	qbrt_slots_leave_queued(&slots, queued);
	finish(&slots, 1);
}
END_TEST

/* Q337: of two users the call leaves first, and the queued job stays. */
START_TEST(a_waiter_is_served_when_only_queued_jobs_are_left)
{
	struct taker taker = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slot *slot, *queued;
	struct qbrt_slots slots;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, FAR, &slot));
	start_waiting(&taker, &slots, FAR, &num_served);
	ck_assert_ok(qbrt_slots_join(&slots, &queued));
	join_thread(&taker);
	ck_assert_int_eq(taker.status, QBRT_OK);
	ck_assert_uint_eq(atomic_load(&slot->users), 3);
	qbrt_slots_leave(&slots, slot);
	qbrt_slots_leave(&slots, taker.slot);
	qbrt_slots_leave_queued(&slots, queued);
	finish(&slots, 1);
}
END_TEST

struct granter {
	struct qbrt_slots *slots;
	struct qbrt_slot *slot;
	bool joins;
};

/* The slot can be had while the program thinks, for as long as it likes. */
static bool grant_and_stop(void *arg)
{
	const struct granter *granter = arg;
	struct qbrt_slot *slot;

	if (granter->joins)
		ck_assert_ok(qbrt_slots_join(granter->slots, &slot));
	else
		qbrt_slots_leave(granter->slots, granter->slot);
	qbrt_set_interrupt_function(NULL, NULL);
	return true;
}

/* Q739: of a slot that came free, and of one that could be joined. */
START_TEST(who_is_told_to_stop_gives_a_granted_slot_back)
{
	struct qbrt_slots slots;
	struct granter granter = { .slots = &slots, .joins = _i };
	struct qbrt_slot *slot;

	start(&slots, 1);
	ck_assert_ok(qbrt_slots_take(&slots, 0, &granter.slot));
	qbrt_set_interrupt_function(grant_and_stop, &granter);
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR, &slot), QBRT_INTERRUPTED);
	qbrt_set_interrupt_function(NULL, NULL);
	if (_i) {
		ck_assert_uint_eq(atomic_load(&granter.slot->users), 2);
		qbrt_slots_leave_queued(&slots, granter.slot);
		qbrt_slots_leave(&slots, granter.slot);
	}
	finish(&slots, 1);
}
END_TEST

struct stress {
	struct qbrt_slots *slots;
	atomic_uint num_taken;
};

static void *take_and_give(void *arg)
{
	struct stress *stress = arg;
	unsigned int random = (unsigned int)(uintptr_t)&random;
	struct qbrt_slot *slot;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		int64_t patience;

		random = random * 1103515245u + 12345u;
		patience = (random >> 16) % 3 ? FAR / 2 : (random >> 8) % 20000;
		if ((random >> 12) % 8 == 0) {
			ck_assert_ok(qbrt_slots_join(stress->slots, &slot));
			sched_yield();
			qbrt_slots_leave_queued(stress->slots, slot);
			continue;
		}
		if (qbrt_slots_take(stress->slots, qbrt_now_ns() + patience,
				    &slot))
			continue;
		atomic_fetch_add(&stress->num_taken, 1);
		if (random & 0x10000)
			sched_yield();
		qbrt_slots_leave(stress->slots, slot);
	}
	return NULL;
}

/* Q337 Q340 */
START_TEST(no_slot_is_lost_under_load)
{
	pthread_t threads[NUM_STRESS_THREADS];
	struct qbrt_slots slots;
	struct stress stress = { .slots = &slots };

	start(&slots, 3);
	for (int i = 0; i < NUM_STRESS_THREADS; i++)
		ck_assert(!pthread_create(&threads[i], NULL, take_and_give,
					  &stress));
	for (int i = 0; i < NUM_STRESS_THREADS; i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_uint_gt(atomic_load(&stress.num_taken), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(atomic_load(&slots.slots[i].users), 0);
		ck_assert_uint_eq(atomic_load(&slots.slots[i].queued), 0);
	}
	finish(&slots, 7);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(free_slots_are_taken_at_once),
		QBRT_TEST(who_finds_none_in_time_leaves_no_trace),
		QBRT_TEST(waiters_are_served_in_order_of_arrival),
		QBRT_TEST(
			a_waiter_that_leaves_does_not_cost_the_next_one_its_slot),
		QBRT_TEST(stopping_wakes_all_who_wait),
		QBRT_TEST(sixty_four_slots_are_all_different),
		QBRT_TEST(a_queued_job_joins_the_slot_with_the_fewest_users),
		QBRT_TEST(
			who_finds_only_queued_jobs_joins_them_and_does_not_wait),
		QBRT_TEST(a_waiter_is_served_when_only_queued_jobs_are_left),
		QBRT_LOOP_TEST(who_is_told_to_stop_gives_a_granted_slot_back,
			       2),
		QBRT_TEST(no_slot_is_lost_under_load),
	};

	return qbrt_test_run("slot", tests, qbrt_array_size(tests));
}
