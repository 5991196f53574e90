// SPDX-License-Identifier: MIT
/* Activation slots: taken by one atomic, else in order of arrival. */
#include "slot.h"

#include <pthread.h>
#include <sched.h>

#include "test-util.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_STRESS_THREADS 16
#define NUM_ROUNDS 2000
#define FAR INT64_MAX

struct taker {
	struct qbrt_slots *slots;
	pthread_t thread;
	int64_t deadline_ns;
	enum qbrt_status status;
	atomic_uint *num_served;
	unsigned int place; /* in the order of being served */
};

static void *take(void *arg)
{
	struct taker *taker = arg;

	taker->status = qbrt_slots_take(taker->slots, taker->deadline_ns);
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

static void join(struct taker *taker)
{
	ck_assert(!pthread_join(taker->thread, NULL));
}

/* Q337 */
START_TEST(free_slots_are_taken_at_once)
{
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(qbrt_slots_take(&slots, 0), QBRT_OK);
	ck_assert_int_eq(atomic_load(&slots.free), 0);
	for (int i = 0; i < 3; i++)
		qbrt_slots_give(&slots);
	ck_assert_int_eq(atomic_load(&slots.free), 3);
	qbrt_slots_free(&slots);
}
END_TEST

/* Q340 */
START_TEST(who_finds_none_in_time_leaves_no_trace)
{
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR), QBRT_OK);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(qbrt_slots_take(&slots, qbrt_now_ns()),
				 QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_int_eq(
		qbrt_slots_take(&slots, qbrt_now_ns() + QBRT_NS_PER_MS),
		QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	ck_assert_int_eq(atomic_load(&slots.free), 0);
	qbrt_slots_give(&slots);
	ck_assert_int_eq(atomic_load(&slots.free), 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, 0), QBRT_OK);
	qbrt_slots_give(&slots);
	qbrt_slots_free(&slots);
}
END_TEST

/* Q337 */
START_TEST(waiters_are_served_in_order_of_arrival)
{
	struct taker takers[NUM_THREADS] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR), QBRT_OK);
	for (int i = 0; i < NUM_THREADS; i++)
		start_waiting(&takers[i], &slots, FAR, &num_served);
	for (int i = 0; i < NUM_THREADS; i++) {
		qbrt_slots_give(&slots);
		join(&takers[i]);
		ck_assert_int_eq(takers[i].status, QBRT_OK);
		ck_assert_uint_eq(takers[i].place, (unsigned int)i);
	}
	qbrt_slots_give(&slots);
	ck_assert_int_eq(atomic_load(&slots.free), 1);
	qbrt_slots_free(&slots);
}
END_TEST

/* Q340 */
START_TEST(a_waiter_that_leaves_does_not_cost_the_next_one_its_slot)
{
	struct taker takers[3] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR), QBRT_OK);
	start_waiting(&takers[0], &slots, FAR, &num_served);
	/* the one in the middle of the list goes */
	start_waiting(&takers[1], &slots, qbrt_now_ns() + 50 * QBRT_NS_PER_MS,
		      &num_served);
	start_waiting(&takers[2], &slots, FAR, &num_served);
	join(&takers[1]);
	ck_assert_int_eq(takers[1].status, QBRT_MODEL_TASK_QUEUE_TIMEOUT);
	qbrt_slots_give(&slots);
	join(&takers[0]);
	ck_assert_int_eq(takers[0].status, QBRT_OK);
	qbrt_slots_give(&slots);
	join(&takers[2]);
	ck_assert_int_eq(takers[2].status, QBRT_OK);
	qbrt_slots_give(&slots);
	ck_assert_int_eq(atomic_load(&slots.free), 1);
	qbrt_slots_free(&slots);
}
END_TEST

/* Q268 */
START_TEST(stopping_wakes_all_who_wait)
{
	struct taker takers[NUM_THREADS] = { 0 };
	atomic_uint num_served = 0;
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR), QBRT_OK);
	for (int i = 0; i < NUM_THREADS; i++)
		start_waiting(&takers[i], &slots, FAR, &num_served);
	qbrt_slots_stop(&slots);
	for (int i = 0; i < NUM_THREADS; i++) {
		join(&takers[i]);
		ck_assert_int_eq(takers[i].status, QBRT_MODEL_NOT_ALIVE);
	}
	/* and nobody waits afterwards */
	ck_assert_int_eq(qbrt_slots_take(&slots, FAR), QBRT_MODEL_NOT_ALIVE);
	qbrt_slots_give(&slots);
	qbrt_slots_free(&slots);
}
END_TEST

/* A slot given back to one who has not reached the list yet is not lost. */
START_TEST(a_slot_is_kept_for_who_is_on_the_way)
{
	struct qbrt_slots slots;

	qbrt_slots_start(&slots, 1);
	ck_assert_int_eq(qbrt_slots_take(&slots, 0), QBRT_OK);
	/* a thread has counted itself, and not yet got the lock */
	(void)atomic_fetch_sub(&slots.free, 1);
	qbrt_slots_give(&slots);
	ck_assert_uint_eq(slots.granted, 1);
	/* the next one to get the lock takes it, with no time to wait */
	ck_assert_int_eq(qbrt_slots_take(&slots, 0), QBRT_OK);
	ck_assert_uint_eq(slots.granted, 0);
	ck_assert_int_eq(atomic_load(&slots.free), -1);
	qbrt_slots_free(&slots);
}
END_TEST

struct stress {
	struct qbrt_slots *slots;
	atomic_int num_inside;
	atomic_int max_inside;
	atomic_uint num_taken;
};

static void note_inside(struct stress *stress)
{
	int inside = atomic_fetch_add(&stress->num_inside, 1) + 1;
	int max = atomic_load(&stress->max_inside);

	while (inside > max &&
	       !atomic_compare_exchange_weak(&stress->max_inside, &max, inside))
		;
}

static void *take_and_give(void *arg)
{
	struct stress *stress = arg;
	unsigned int random = (unsigned int)(uintptr_t)&random;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		int64_t patience;

		random = random * 1103515245u + 12345u;
		patience = (random >> 16) % 3 ? FAR / 2 : (random >> 8) % 20000;
		if (qbrt_slots_take(stress->slots, qbrt_now_ns() + patience))
			continue;
		note_inside(stress);
		atomic_fetch_add(&stress->num_taken, 1);
		if (random & 0x10000)
			sched_yield();
		atomic_fetch_sub(&stress->num_inside, 1);
		qbrt_slots_give(stress->slots);
	}
	return NULL;
}

/* Q337 Q340 */
START_TEST(no_slot_is_lost_or_doubled_under_load)
{
	pthread_t threads[NUM_STRESS_THREADS];
	struct qbrt_slots slots;
	struct stress stress = { .slots = &slots };

	qbrt_slots_start(&slots, 3);
	for (int i = 0; i < NUM_STRESS_THREADS; i++)
		ck_assert(!pthread_create(&threads[i], NULL, take_and_give,
					  &stress));
	for (int i = 0; i < NUM_STRESS_THREADS; i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_int_le(atomic_load(&stress.max_inside), 3);
	ck_assert_uint_gt(atomic_load(&stress.num_taken), 0);
	ck_assert_int_eq(atomic_load(&slots.free), 3);
	ck_assert_uint_eq(slots.granted, 0);
	ck_assert_ptr_null(slots.first);
	qbrt_slots_free(&slots);
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
		QBRT_TEST(a_slot_is_kept_for_who_is_on_the_way),
		QBRT_TEST(no_slot_is_lost_or_doubled_under_load),
	};

	return qbrt_test_run("slot", tests, qbrt_array_size(tests));
}
