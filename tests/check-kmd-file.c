// SPDX-License-Identifier: MIT
/*
 * Open files and the handles that belong to them, used by several threads.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "util.h"

/* K008 */
START_TEST(handles_belong_to_one_file)
{
	struct drm_qbnpu_bo_info info = { 0 };
	struct drm_qbnpu_program_destroy program = { 0 };
	struct drm_qbnpu_queue_destroy queue = { 0 };
	struct drm_gem_close gem_close = { 0 };
	int own_file, other_file;
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	own_file = kmd_file;
	other_file = kmd_open_another();
	kmd_file = other_file;
	info.handle = set.input.handle;
	kmd_refuse(DRM_IOCTL_QBNPU_BO_INFO, &info, ENOENT);
	gem_close.handle = set.input.handle;
	kmd_refuse(DRM_IOCTL_GEM_CLOSE, &gem_close, EINVAL);
	program.handle = set.copy64;
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_DESTROY, &program, ENOENT);
	queue.queue = set.queue;
	kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_DESTROY, &queue, ENOENT);
	/* equal numbers are other things */
	ck_assert_uint_eq(kmd_create_buffer(1), set.input.handle);
	ck_assert_uint_eq(kmd_create_queue(0, NULL), set.queue);
	kmd->close(other_file);
	kmd_file = own_file;
	ck_assert_uint_eq(kmd_get_info(set.input.handle).size, set.input.size);
	kmd_end_set(&set);
}
END_TEST

/* K008 K002 */
START_TEST(freed_handles_are_unknown)
{
	struct drm_qbnpu_bo_info info = { 0 };
	struct drm_qbnpu_program_destroy program = { 0 };
	struct drm_qbnpu_queue_destroy queue = { 0 };

	kmd_begin(_i);
	info.handle = kmd_create_buffer(1);
	kmd_close_buffer(info.handle);
	kmd_refuse(DRM_IOCTL_QBNPU_BO_INFO, &info, ENOENT);
	info.handle = 0;
	kmd_refuse(DRM_IOCTL_QBNPU_BO_INFO, &info, ENOENT);
	info.handle = UINT32_MAX;
	kmd_refuse(DRM_IOCTL_QBNPU_BO_INFO, &info, ENOENT);
	program.handle = kmd_load_copy64();
	kmd_unload(program.handle);
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_DESTROY, &program, ENOENT);
	queue.queue = kmd_create_queue(0, NULL);
	kmd_destroy_queue(queue.queue);
	kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_DESTROY, &queue, ENOENT);
	kmd_end();
}
END_TEST

static void *use_everything(void *arg)
{
	struct kmd_set *set = arg;
	struct kmd_job job;

	for (int i = 0; i < 100; i++) {
		struct kmd_buffer output;
		uint32_t queue = kmd_create_queue(0, NULL);

		kmd_alloc(&output, 4096);
		kmd_prepare(&job, queue, set->copy64, &set->input, &output);
		if (i % 2)
			kmd_set_wait(&job);
		kmd_wait(queue, kmd_submit(&job));
		ck_assert_mem_eq(output.data, set->input.data, KMD_BYTES);
		kmd_free(&output);
		kmd_destroy_queue(queue);
	}
	return NULL;
}

/* K011 */
START_TEST(four_threads_use_one_file)
{
	pthread_t threads[4];
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, use_everything, &set),
			0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	kmd_end_set(&set);
}
END_TEST

#define NUM_SHARED 4

/* Queues that four threads use, cancel and replace under each other's hands. */
struct shared {
	struct kmd_set *set;
	uint32_t slow;
	_Atomic uint32_t queues[NUM_SHARED], syncobjs[NUM_SHARED];
	atomic_uint seed;
};

static void submit_any(struct shared *shared, uint32_t random)
{
	unsigned int to = random % NUM_SHARED, from = random / 4 % NUM_SHARED;
	struct kmd_job job;
	int err;

	kmd_prepare(&job, atomic_load(&shared->queues[to]),
		    random & 64 ? shared->slow : shared->set->copy64,
		    &shared->set->input, &shared->set->output);
	if (random & 128)
		kmd_add_sync(&job, atomic_load(&shared->syncobjs[from]), 1,
			     random >> 8 & 1);
	if (random & 512) {
		kmd_set_wait(&job);
		job.wait.timeout_ns = qbrt_now_ns() + 200000;
	}
	job.submit.deadline_ns = qbrt_now_ns() + 2000000;
	err = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
	/* gone, its point not submitted yet, full, or too late already */
	ck_assert(!err || err == -ENOENT || err == -EINVAL || err == -ENOSPC ||
		  err == -ETIME);
}

static void replace_queue(struct shared *shared, unsigned int index)
{
	struct drm_qbnpu_queue_destroy destroy = { 0 };
	struct drm_syncobj_destroy drop = { 0 };
	uint32_t syncobj, queue = kmd_create_queue(0, &syncobj);
	int err;

	destroy.queue = atomic_exchange(&shared->queues[index], queue);
	drop.handle = atomic_exchange(&shared->syncobjs[index], syncobj);
	err = kmd_call(DRM_IOCTL_QBNPU_QUEUE_DESTROY, &destroy);
	ck_assert_int_eq(err, 0);
	err = kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &drop);
	ck_assert_int_eq(err, 0);
}

static void *mix(void *arg)
{
	struct shared *shared = arg;
	uint32_t random = atomic_fetch_add(&shared->seed, 1) * 2654435761u + 1;

	for (int i = 0; i < 2000; i++) {
		struct drm_qbnpu_cancel cancel = { 0 };
		struct drm_qbnpu_wait wait = { .job = 1 };
		unsigned int index;
		int err;

		random = random * 1664525 + 1013904223;
		index = random >> 20 & 3;
		cancel.queue = atomic_load(&shared->queues[index]);
		wait.queue = cancel.queue;
		wait.timeout_ns = qbrt_now_ns() + 100000;
		switch (random >> 28) {
		case 0:
			replace_queue(shared, index);
			break;
		case 1:
		case 2:
			err = kmd_call(DRM_IOCTL_QBNPU_CANCEL, &cancel);
			ck_assert(!err || err == -ENOENT);
			break;
		case 3:
			err = kmd_call(DRM_IOCTL_QBNPU_WAIT, &wait);
			ck_assert(!err || err == -ETIME || err == -ENOENT ||
				  err == -EINVAL || err == -ENODATA);
			break;
		default:
			submit_any(shared, random >> 4);
			break;
		}
	}
	return NULL;
}

/* K011 K014 K085: whatever they do, every job ends, and so does the file */
START_TEST(threads_use_each_others_queues)
{
	struct shared shared = { 0 };
	pthread_t threads[4];
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	shared.set = &set;
	shared.slow = kmd_load_slow(60);
	for (int i = 0; i < NUM_SHARED; i++) {
		uint32_t syncobj;

		shared.queues[i] = kmd_create_queue(0, &syncobj);
		shared.syncobjs[i] = syncobj;
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, mix, &shared), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < NUM_SHARED; i++) {
		struct kmd_job job;

		kmd_cancel(shared.queues[i], 0);
		kmd_prepare_empty(&job, shared.queues[i]);
		kmd_wait(shared.queues[i], kmd_submit(&job));
	}
	kmd_unload(shared.slow);
	/* those of destroyed queues end at their deadlines */
	while (kmd_get_info(set.output.handle).jobs)
		continue;
	kmd_end_set(&set);
}
END_TEST

void kmd_file_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(handles_belong_to_one_file),
		QBRT_TEST(freed_handles_are_unknown),
		QBRT_TEST(four_threads_use_one_file),
		QBRT_TEST(threads_use_each_others_queues),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
