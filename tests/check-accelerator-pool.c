// SPDX-License-Identifier: MIT
/*
 * The pool of queues of an open device: reuse, sharing when there are no more,
 * and threads; and its cores. Jobs are not needed for that.
 */
#include "test-util.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "accelerator.h"
#include "kmd-bend.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_queue *)(uintptr_t)0x5a5a)
#define NUM_THREADS 8

/* Q150 */
START_TEST(idle_queues_are_used_again)
{
	struct qbrt_accelerator *acc;
	struct qbrt_queue *first, *second, *queue;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_queues), 0);
	ck_assert_ok(qbrt_device_take_queue(acc->device, &first));
	ck_assert_ok(qbrt_device_take_queue(acc->device, &second));
	ck_assert_ptr_ne(first, second);
	ck_assert_uint_ne(first->number, second->number);
	qbrt_device_give_queue(acc->device, first);
	for (i = 0; i < 1000; i++) {
		ck_assert_ok(qbrt_device_take_queue(acc->device, &queue));
		ck_assert_ptr_eq(queue, first);
		qbrt_device_give_queue(acc->device, queue);
	}
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_queues), 2);
	qbrt_device_give_queue(acc->device, second);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q150 Q615 K072 */
START_TEST(more_users_than_queues_share)
{
	static struct qbrt_queue *queues[600];
	static unsigned int users[257];
	struct qbrt_accelerator *acc;
	struct qbrt_queue *queue;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (i = 0; i < 600; i++) {
		ck_assert_ok(qbrt_device_take_queue(acc->device, &queues[i]));
		ck_assert_uint_le(queues[i]->number, 256);
		users[queues[i]->number]++;
	}
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_queues), 256);
	/* round robin: 600 users of 256 queues */
	for (i = 1; i <= 256; i++)
		ck_assert(users[i] == 2 || users[i] == 3);
	/* a shared queue is idle when its last user has given it back */
	for (i = 0; i < 600; i++)
		qbrt_device_give_queue(acc->device, queues[i]);
	for (i = 0; i < 256; i++)
		ck_assert_ok(qbrt_device_take_queue(acc->device, &queues[i]));
	memset(users, 0, sizeof(users));
	for (i = 0; i < 256; i++)
		ck_assert_uint_eq(users[queues[i]->number]++, 0);
	ck_assert_ok(qbrt_device_take_queue(acc->device, &queue));
	qbrt_device_give_queue(acc->device, queue);
	for (i = 0; i < 256; i++)
		qbrt_device_give_queue(acc->device, queues[i]);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_queues), 256);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q150 */
START_TEST(a_shared_queue_is_idle_only_after_its_last_user)
{
	struct qbrt_queue *queues[256];
	struct qbrt_queue *first, *second;
	struct qbrt_accelerator *acc;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (i = 0; i < 256; i++)
		ck_assert_ok(qbrt_device_take_queue(acc->device, &queues[i]));
	ck_assert_ok(qbrt_device_take_queue(acc->device, &first));
	qbrt_device_give_queue(acc->device, first);
	/* its other user is still there: the next one's turn */
	ck_assert_ok(qbrt_device_take_queue(acc->device, &second));
	ck_assert_ptr_ne(second, first);
	qbrt_device_give_queue(acc->device, second);
	for (i = 0; i < 256; i++)
		qbrt_device_give_queue(acc->device, queues[i]);
	qbrt_accelerator_close(acc);
}
END_TEST

static struct qbrt_accelerator *giver;
static struct qbrt_queue *given[4];

static void give_all_back(void)
{
	for (int i = 0; i < 4; i++)
		qbrt_device_give_queue(giver->device, given[i]);
	kmd_bend.on_fail = NULL;
}

/* Q615: while the driver is asked for one more. */
START_TEST(queues_that_become_idle_meanwhile_are_found)
{
	struct qbrt_queue *queue;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &giver));
	for (int i = 0; i < 4; i++)
		ck_assert_ok(qbrt_device_take_queue(giver->device, &given[i]));
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_QUEUE_CREATE;
	kmd_bend.fail_err = -ENOSPC;
	kmd_bend.fail_times = 1000;
	kmd_bend.on_fail = give_all_back;
	ck_assert_ok(qbrt_device_take_queue(giver->device, &queue));
	kmd_bend.fail_times = 0;
	ck_assert_ptr_eq(queue, given[0]);
	qbrt_device_give_queue(giver->device, queue);
	for (int i = 0; i < 4; i++)
		ck_assert_ok(qbrt_device_take_queue(giver->device, &given[i]));
	give_all_back();
	qbrt_accelerator_close(giver);
}
END_TEST

/* Q615 */
START_TEST(without_any_queue_the_driver_decides_the_status)
{
	static const struct {
		int err;
		enum qbrt_status status;
	} cases[] = {
		{ -ENOSPC, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
		{ -ENOMEM, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
		{ -ENODEV, QBRT_ACC_DEVICE_LOST },
		{ -EINVAL, QBRT_INTERNAL_ERROR },
	};
	struct qbrt_queue *queue = SENTINEL;
	struct qbrt_accelerator *acc;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_QUEUE_CREATE;
	kmd_bend.fail_err = cases[_i].err;
	atomic_store(&kmd_bend.fail_times, 1);
	ck_assert_status(qbrt_device_take_queue(acc->device, &queue),
			 cases[_i].status);
	ck_assert_detail("aries-rb:0");
	ck_assert_ptr_eq(queue, SENTINEL);
	ck_assert_ok(qbrt_device_take_queue(acc->device, &queue));
	qbrt_device_give_queue(acc->device, queue);
	qbrt_accelerator_close(acc);
}
END_TEST

struct queue_users {
	struct qbrt_device *device;
	atomic_int users[257];
	atomic_int num_wrong;
	bool is_exclusive;
};

static void *take_and_give(void *arg)
{
	struct queue_users *users = arg;
	struct qbrt_queue *queue;
	int i;

	for (i = 0; i < 2000; i++) {
		if (qbrt_device_take_queue(users->device, &queue)) {
			atomic_fetch_add(&users->num_wrong, 1);
			continue;
		}
		if (atomic_fetch_add(&users->users[queue->number], 1) &&
		    users->is_exclusive)
			atomic_fetch_add(&users->num_wrong, 1);
		atomic_fetch_sub(&users->users[queue->number], 1);
		qbrt_device_give_queue(users->device, queue);
	}
	return NULL;
}

/* Q150 Q740 K070: second round: two queues for eight threads */
START_TEST(eight_threads_take_queues_of_their_own_or_share)
{
	struct queue_users users = { .is_exclusive = !_i };
	struct qbrt_queue *held[254];
	pthread_t threads[NUM_THREADS];
	struct qbrt_accelerator *acc;
	int num_held = _i ? 254 : 0;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	users.device = acc->device;
	for (i = 0; i < num_held; i++)
		ck_assert_ok(qbrt_device_take_queue(acc->device, &held[i]));
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						take_and_give, &users),
				 0);
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(atomic_load(&users.num_wrong), 0);
	if (!_i)
		ck_assert_uint_le(atomic_load(&kmd_bend.num_queues),
				  NUM_THREADS);
	for (i = 0; i < num_held; i++)
		qbrt_device_give_queue(acc->device, held[i]);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q237 */
START_TEST(cores_with_the_fewest_launches_are_taken)
{
	struct qbrt_accelerator *acc;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0f0f, 1), 1);
	ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0f0f, 2), 6);
	/* from the mask alone, and the rest of it where it is small */
	ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0105, 2),
			  0x0101);
	ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0f0f, 6),
			  0x0e0e);
	qbrt_device_give_cores(acc->device, 0x0f0f);
	ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0f0f, 1),
			  0x0008);
	qbrt_device_give_cores(acc->device, 0);
	qbrt_accelerator_close(acc);
}
END_TEST

static void *take_and_give_cores(void *arg)
{
	struct qbrt_accelerator *acc = arg;
	int i;

	for (i = 0; i < 1000; i++) {
		uint64_t mask = qbrt_device_take_cores(acc->device, 0x0f0f, 3);

		if (__builtin_popcountll(mask) != 3 || mask & ~0x0f0full)
			return arg;
		qbrt_device_give_cores(acc->device, mask);
	}
	return NULL;
}

/* Q237 */
START_TEST(threads_take_cores_and_leave_none_taken)
{
	pthread_t threads[NUM_THREADS];
	struct qbrt_accelerator *acc;
	void *failed;
	int i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						take_and_give_cores, acc),
				 0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
		ck_assert_ptr_null(failed);
	}
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(qbrt_device_take_cores(acc->device, 0x0f, 1),
				  1u << i);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(idle_queues_are_used_again),
		QBRT_TEST(more_users_than_queues_share),
		QBRT_TEST(a_shared_queue_is_idle_only_after_its_last_user),
		QBRT_TEST(queues_that_become_idle_meanwhile_are_found),
		QBRT_LOOP_TEST(without_any_queue_the_driver_decides_the_status,
			       4),
		QBRT_LOOP_TEST(eight_threads_take_queues_of_their_own_or_share,
			       2),
		QBRT_TEST(cores_with_the_fewest_launches_are_taken),
		QBRT_TEST(threads_take_cores_and_leave_none_taken),
	};

	return qbrt_test_run("accelerator-pool", tests, qbrt_array_size(tests));
}
