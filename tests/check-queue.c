// SPDX-License-Identifier: MIT
/*
 * One queue of the software device, without the pool: opening, closing, and
 * waiting for empty jobs, which need no program.
 */
#include "test-util.h"

#include <errno.h>
#include <string.h>

#include "kmd-bend.h"
#include "queue.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

static struct qbrt_kmd_options options = {
	.soft_names = { "aries-rb" },
	.num_soft_names = 1,
};

static int open_file(void)
{
	int file = -1;

	ck_assert_int_eq(kmd_bend_driver.open(&options, "soft:0", &file), 0);
	return file;
}

static uint64_t submit_empty(const struct qbrt_queue *queue)
{
	struct drm_qbnpu_submit submit = {
		.queue = queue->number,
		.binding_size = sizeof(struct drm_qbnpu_binding),
		.item_count = 1,
	};

	ck_assert_int_eq(
		queue->kmd->ioctl(queue->file, DRM_IOCTL_QBNPU_SUBMIT, &submit),
		0);
	return submit.job;
}

/* K071 K072 */
START_TEST(queues_have_numbers_and_timelines_of_their_own)
{
	int file = open_file();
	struct qbrt_queue a = { 0 };
	struct qbrt_queue b = { 0 };

	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &a), 0);
	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &b), 0);
	ck_assert_uint_ne(a.number, 0);
	ck_assert_uint_ne(a.number, b.number);
	ck_assert_uint_ne(a.syncobj, 0);
	ck_assert_uint_ne(a.syncobj, b.syncobj);
	ck_assert_int_eq(a.file, file);
	ck_assert_ptr_eq(a.kmd, &kmd_bend_driver);
	qbrt_queue_close(&a);
	qbrt_queue_close(&b);
	kmd_bend_driver.close(file);
}
END_TEST

/* K072 */
START_TEST(the_257th_queue_is_refused_and_left_alone)
{
	static struct qbrt_queue queues[257];
	struct qbrt_queue untouched;
	int file = open_file();
	int i;

	memset(queues, 0x5a, sizeof(queues));
	untouched = queues[256];
	for (i = 0; i < 256; i++)
		ck_assert_int_eq(
			qbrt_queue_open(&kmd_bend_driver, file, &queues[i]), 0);
	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queues[256]),
			 -ENOSPC);
	ck_assert_mem_eq(&queues[256], &untouched, sizeof(untouched));
	/* a closed one makes room */
	qbrt_queue_close(&queues[17]);
	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queues[17]),
			 0);
	kmd_bend_driver.close(file);
}
END_TEST

/* K074 K078 */
START_TEST(closing_drops_queue_and_timeline)
{
	int file = open_file();
	struct qbrt_queue queue;
	struct drm_qbnpu_queue_destroy destroy = { 0 };
	unsigned long before;

	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queue), 0);
	destroy.queue = queue.number;
	before = atomic_load(&kmd_bend.num_requests);
	qbrt_queue_close(&queue);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_requests), before + 2);
	ck_assert_int_eq(kmd_bend_driver.ioctl(
				 file, DRM_IOCTL_QBNPU_QUEUE_DESTROY, &destroy),
			 -ENOENT);
	kmd_bend_driver.close(file);
}
END_TEST

/* K110 K111 */
START_TEST(waiting_gives_the_result_of_the_job)
{
	int file = open_file();
	struct drm_qbnpu_wait wait, again;
	struct qbrt_queue queue;
	uint64_t job;

	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queue), 0);
	job = submit_empty(&queue);
	ck_assert_uint_eq(job, 1);
	memset(&wait, 0x5a, sizeof(wait));
	ck_assert_int_eq(qbrt_queue_wait(&queue, job, 0, INT64_MAX, &wait), 0);
	ck_assert_uint_eq(wait.state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(wait.status, 0);
	ck_assert_uint_eq(wait.job, job);
	ck_assert_int_eq(qbrt_queue_wait(&queue, job, DRM_QBNPU_WAIT_BLOCKING,
					 INT64_MAX, &again),
			 0);
	ck_assert_int_eq(again.end_ns, wait.end_ns);
	qbrt_queue_close(&queue);
	kmd_bend_driver.close(file);
}
END_TEST

/* K009 Q750 */
START_TEST(a_signal_does_not_end_a_wait)
{
	int file = open_file();
	struct drm_qbnpu_wait wait;
	struct qbrt_queue queue;
	unsigned long before;
	uint64_t job;

	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queue), 0);
	job = submit_empty(&queue);
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_WAIT;
	kmd_bend.fail_err = -EINTR;
	atomic_store(&kmd_bend.fail_times, 3);
	before = atomic_load(&kmd_bend.num_requests);
	ck_assert_int_eq(qbrt_queue_wait(&queue, job, 0, INT64_MAX, &wait), 0);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_requests), before + 4);
	ck_assert_uint_eq(wait.state, DRM_QBNPU_JOB_COMPLETE);
	qbrt_queue_close(&queue);
	kmd_bend_driver.close(file);
}
END_TEST

/* K110 */
START_TEST(waiting_for_no_job_is_an_error)
{
	int file = open_file();
	struct drm_qbnpu_wait wait;
	struct qbrt_queue queue;

	ck_assert_int_eq(qbrt_queue_open(&kmd_bend_driver, file, &queue), 0);
	ck_assert_int_eq(qbrt_queue_wait(&queue, 0, 0, INT64_MAX, &wait),
			 -EINVAL);
	ck_assert_int_eq(qbrt_queue_wait(&queue, 1, 0, INT64_MAX, &wait),
			 -EINVAL);
	qbrt_queue_close(&queue);
	kmd_bend_driver.close(file);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(queues_have_numbers_and_timelines_of_their_own),
		QBRT_TEST(the_257th_queue_is_refused_and_left_alone),
		QBRT_TEST(closing_drops_queue_and_timeline),
		QBRT_TEST(waiting_gives_the_result_of_the_job),
		QBRT_TEST(a_signal_does_not_end_a_wait),
		QBRT_TEST(waiting_for_no_job_is_an_error),
	};

	return qbrt_test_run("queue", tests, qbrt_array_size(tests));
}
