// SPDX-License-Identifier: MIT
/*
 * Threads that are cancelled inside the software driver (soft/soft.h): a cancel
 * that was there before the call ends the thread at the first cancellation
 * point, so one inside the driver would leave its locks locked.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check-kmd-syncobj.h"
#include "device/core.h"
#include "device/fault.h"
#include "no-threads.h"
#include "soft/soft.h"
#include "util.h"

#define SIZE 4096

/* What a cancelled thread does, without assertions, which could end it. */
struct call {
	int (*run)(struct call *call);
	struct kmd_set set;
	struct kmd_job job;
	uint32_t handle;
	int fd;
	int err;
	bool is_back;
};

static void *call_cancelled(void *arg)
{
	struct call *call = arg;

	(void)pthread_cancel(pthread_self());
	call->err = call->run(call);
	call->is_back = true;
	pthread_testcancel();
	return NULL;
}

static void start_cancelled(struct call *call, pthread_t *thread)
{
	call->is_back = false;
	ck_assert_int_eq(pthread_create(thread, NULL, call_cancelled, call), 0);
}

static void ck_assert_returned(const struct call *call, pthread_t thread)
{
	void *result;

	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert(call->is_back);
	ck_assert_int_eq(call->err, 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

static int run_open_close(struct call *call)
{
	int file, err = kmd->open(&kmd_options, "soft:1", &file);

	(void)call;
	if (!err)
		kmd->close(file);
	return err;
}

/* Whose job still runs when it is closed. */
static int run_close(struct call *call)
{
	(void)call;
	kmd->close(kmd_file);
	return 0;
}

static int run_poll(struct call *call)
{
	(void)call;
	return kmd->poll(kmd_file, qbrt_now_ns() + 1) == -ETIME ? 0 : -1;
}

static int run_buffer(struct call *call)
{
	struct drm_qbnpu_bo_create create = { .size = SIZE };
	struct drm_prime_handle prime = { .flags = DRM_RDWR };
	struct drm_gem_close gem_close = { 0 };
	int err = kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create);

	(void)call;
	prime.handle = gem_close.handle = create.handle;
	if (!err)
		err = kmd_call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
	call->fd = prime.fd;
	if (!err)
		err = kmd_call(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	return err ? err : kmd_call(DRM_IOCTL_GEM_CLOSE, &gem_close);
}

static int run_eventfd(struct call *call)
{
	int err = kmd_register_eventfd(call->handle, 1, 0, call->fd);

	return err ? err : kmd_try_signal(call->handle, 1);
}

static int run_submit(struct call *call)
{
	return kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &call->job.submit);
}

/* Locked until threads are forbidden. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int run_submit_later(struct call *call)
{
	(void)pthread_mutex_lock(&gate);
	(void)pthread_mutex_unlock(&gate);
	return run_submit(call);
}

static int run_query(struct call *call)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	(void)call;
	return kmd_call(DRM_IOCTL_QBNPU_QUERY, &query);
}

static void run_cancelled(struct call *call, int (*run)(struct call *call))
{
	pthread_t thread;

	call->run = run;
	start_cancelled(call, &thread);
	ck_assert_returned(call, thread);
}

/* K011: whatever it sleeps, opens or closes for */
START_TEST(a_cancelled_thread_ends_after_its_request)
{
	struct drm_qbnpu_query_event events[8];
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_EVENTS,
		.data = (uintptr_t)events,
		.size = sizeof(events),
	};
	static struct call call;

	kmd_begin_set(0, &call.set);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	run_cancelled(&call, run_open_close);
	run_cancelled(&call, run_poll);
	run_cancelled(&call, run_query);
	run_cancelled(&call, run_buffer);
	ck_assert_int_eq(close(call.fd), 0);
	call.handle = kmd_create_syncobj();
	call.fd = kmd_make_eventfd();
	run_cancelled(&call, run_eventfd);
	ck_assert_int_eq(close(call.fd), 0);
	kmd_end_set(&call.set);
}
END_TEST

/* K011: inside the device, where a fault has it sleep */
START_TEST(a_cancelled_thread_ends_after_its_inline_run)
{
	static struct call call;
	uint32_t id;

	kmd_begin_set(0, &call.set);
	ck_assert_int_eq(
		qbnpu_fault_add(qbnpu_soft_npu(0), "slow:ns=100000", &id), 0);
	kmd_prepare(&call.job, call.set.queue, call.set.copy64, &call.set.input,
		    &call.set.output);
	kmd_set_wait(&call.job);
	run_cancelled(&call, run_submit);
	ck_assert_int_eq(call.job.wait.status, 0);
	ck_assert_uint_eq(qbnpu_fault_fired(qbnpu_soft_npu(0), id), 1);
	kmd_end_set(&call.set);
}
END_TEST

/* K011 Q337: and where it waits for a core */
START_TEST(a_cancelled_thread_ends_after_it_waited_for_a_core)
{
	static struct call first, second;
	struct qbnpu_core_state state = { 0 };
	struct qbnpu_npu *npu;
	bool is_forbidden, is_waiting = false;
	pthread_t threads[2];
	uint32_t queue;

	kmd_begin_set(0, &first.set);
	npu = qbnpu_soft_npu(0);
	queue = kmd_create_queue(0, NULL);
	kmd_prepare(&first.job, queue, kmd_load_slow(60), &first.set.input,
		    &first.set.output);
	kmd_prepare(&second.job, first.set.queue, first.set.copy64,
		    &first.set.input, &first.set.output);
	kmd_set_wait(&first.job);
	kmd_set_wait(&second.job);
	first.run = run_submit;
	second.run = run_submit_later;
	(void)pthread_mutex_lock(&gate);
	start_cancelled(&second, &threads[1]);
	start_cancelled(&first, &threads[0]);
	while (!state.is_busy) {
		(void)sched_yield();
		(void)qbnpu_npu_get_core_states(npu, &state, 1);
	}
	is_forbidden = forbid_threads();
	(void)pthread_mutex_unlock(&gate);
	while (is_forbidden && !is_waiting) {
		(void)pthread_mutex_lock(&npu->lock);
		is_waiting = npu->num_waiting_runs > 0;
		(void)pthread_mutex_unlock(&npu->lock);
	}
	allow_threads();
	kmd_cancel(queue, 1);
	ck_assert_returned(&first, threads[0]);
	ck_assert_returned(&second, threads[1]);
	ck_assert_int_eq(first.job.wait.status, -ECANCELED);
	ck_assert_int_eq(second.job.wait.status, 0);
	kmd_end_set(&first.set);
	if (!is_forbidden)
		qbrt_test_note_skip("threads cannot be forbidden here");
}
END_TEST

/* K013: while a job runs that close ends */
START_TEST(a_cancelled_thread_ends_after_it_closed_a_file)
{
	static struct call call;
	uint32_t id;

	kmd_begin_set(0, &call.set);
	ck_assert_int_eq(
		qbnpu_fault_add(qbnpu_soft_npu(0), "late:ns=1000000", &id), 0);
	kmd_prepare(&call.job, call.set.queue, call.set.copy64, &call.set.input,
		    &call.set.output);
	kmd_submit(&call.job);
	run_cancelled(&call, run_close);
	(void)kmd->munmap(kmd_file, call.set.input.data, call.set.input.size);
	(void)kmd->munmap(kmd_file, call.set.output.data, call.set.output.size);
}
END_TEST

void soft_cancel_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_cancelled_thread_ends_after_its_request),
		QBRT_TEST(a_cancelled_thread_ends_after_its_inline_run),
		QBRT_TEST(a_cancelled_thread_ends_after_it_waited_for_a_core),
		QBRT_TEST(a_cancelled_thread_ends_after_it_closed_a_file),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
