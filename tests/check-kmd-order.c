// SPDX-License-Identifier: MIT
/*
 * What waits for what, and how jobs end (docs/spec/kernel.md, 2.6). A job that
 * would last a minute is the gate: it holds others until it is cancelled.
 */
#include "check-kmd.h"

#include <errno.h>

#include "prog.h"
#include "util.h"

struct gate {
	uint32_t slow, queue, syncobj;
	uint64_t job;
};

static void close_gate(struct gate *gate, const struct kmd_set *set)
{
	struct kmd_job job;

	gate->slow = kmd_load_slow(60);
	gate->queue = kmd_create_queue(0, &gate->syncobj);
	kmd_prepare(&job, gate->queue, gate->slow, &set->input, &set->output);
	gate->job = kmd_submit(&job);
}

static void open_gate(struct gate *gate)
{
	kmd_cancel(gate->queue, gate->job);
	ck_assert_int_eq(kmd_wait(gate->queue, gate->job).status, -ECANCELED);
	kmd_unload(gate->slow);
}

/* K070 K082 K092: SUBMIT comes back, the job waits, then runs */
START_TEST(a_job_waits_for_its_syncs)
{
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;
	uint64_t number;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_add_sync(&job, gate.syncobj, gate.job, DRM_QBNPU_SYNC_ANY_RESULT);
	number = kmd_submit(&job);
	ck_assert_uint_eq(kmd_get_state(set.queue, number),
			  DRM_QBNPU_JOB_WAITS);
	ck_assert_uint_eq(set.output.data[0], 0);
	open_gate(&gate);
	ck_assert_int_eq(kmd_wait(set.queue, number).status, 0);
	ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
	kmd_end_set(&set);
}
END_TEST

/* K070 */
START_TEST(a_queue_is_in_order_and_queues_are_not)
{
	uint32_t other;
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	/* another core than the gate's */
	other = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&job, set.queue);
	kmd_add_sync(&job, gate.syncobj, gate.job, DRM_QBNPU_SYNC_ANY_RESULT);
	kmd_submit(&job);
	kmd_prepare_empty(&job, set.queue);
	ck_assert_uint_eq(kmd_submit(&job), 2);
	kmd_prepare_empty(&job, other);
	kmd_wait(other, kmd_submit(&job));
	ck_assert_uint_eq(kmd_get_state(set.queue, 2), DRM_QBNPU_JOB_QUEUED);
	open_gate(&gate);
	kmd_wait(set.queue, 2);
	ck_assert_uint_eq(kmd_get_state(set.queue, 1), DRM_QBNPU_JOB_COMPLETE);
	kmd_end_set(&set);
}
END_TEST

/* Not on the core that the gate holds. */
static uint32_t load_copy64_on_core1(void)
{
	struct drm_qbnpu_program_create create = { .core_mask = 2 };
	struct prog prog;

	prog_copy64(&prog);
	create.data = (uintptr_t)prog.bytes;
	create.size = prog.nbytes;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	prog_end(&prog);
	return create.handle;
}

/* K090: the gate reads one buffer and would write the other */
START_TEST(no_order_comes_from_a_shared_buffer)
{
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;
	uint32_t copy64;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	copy64 = load_copy64_on_core1();
	kmd_prepare(&job, set.queue, copy64, &set.output, &set.input);
	job.submit.core_mask = 2;
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert_uint_eq(set.input.data[0], 0);
	ck_assert_uint_eq(kmd_get_state(gate.queue, gate.job),
			  DRM_QBNPU_JOB_RUNNING);
	open_gate(&gate);
	kmd_unload(copy64);
	kmd_end_set(&set);
}
END_TEST

/* K084 */
START_TEST(a_failed_fence_ends_the_job_unrun)
{
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_add_sync(&job, gate.syncobj, gate.job, 0);
	kmd_submit(&job);
	job.syncs[0].flags = DRM_QBNPU_SYNC_ANY_RESULT;
	kmd_submit(&job);
	open_gate(&gate);
	wait = kmd_wait(set.queue, 1);
	ck_assert_int_eq(wait.status, -ECANCELED);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_FENCE);
	ck_assert_int_eq(wait.start_ns, 0);
	ck_assert_uint_eq(wait.core, DRM_QBNPU_NONE);
	ck_assert_int_eq(kmd_wait(set.queue, 2).status, 0);
	/* what is complete already counts as good */
	job.syncs[0].flags = 0;
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	kmd_end_set(&set);
}
END_TEST

/* K082 K014: 64 timelines at once, each with its own job */
START_TEST(a_job_waits_for_64_timelines)
{
	uint32_t queues[64], syncobjs[64];
	struct kmd_set set;
	struct kmd_job job, waiter;
	struct gate gate;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	kmd_prepare(&waiter, set.queue, set.copy64, &set.input, &set.output);
	for (int i = 0; i < 64; i++) {
		queues[i] = kmd_create_queue(0, &syncobjs[i]);
		kmd_prepare_empty(&job, queues[i]);
		kmd_add_sync(&job, gate.syncobj, gate.job,
			     DRM_QBNPU_SYNC_ANY_RESULT);
		kmd_add_sync(&waiter, syncobjs[i], kmd_submit(&job), 0);
	}
	kmd_submit(&waiter);
	ck_assert_uint_eq(kmd_get_state(set.queue, 1), DRM_QBNPU_JOB_WAITS);
	open_gate(&gate);
	ck_assert_int_eq(kmd_wait(set.queue, 1).status, 0);
	kmd_end_set(&set);
}
END_TEST

/* K086 */
START_TEST(an_empty_job_is_a_point)
{
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare_empty(&job, set.queue);
	job.submit.user_data = 0x1234567890;
	wait = kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_int_eq(wait.status, 0);
	ck_assert_uint_eq(wait.cause, 0);
	ck_assert_int_eq(wait.start_ns, 0);
	ck_assert_int_ge(wait.end_ns, wait.submit_ns);
	ck_assert_uint_eq(wait.busy_ns, 0);
	ck_assert_uint_eq(wait.user_data, 0x1234567890);
	kmd_end_set(&set);
}
END_TEST

/* K087 K085: running, waiting, queued: each ends at its deadline */
START_TEST(deadlines_end_jobs_wherever_they_are)
{
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;
	uint32_t other;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	other = kmd_create_queue(0, NULL);
	/* waits for a sync, then behind another job of its queue */
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_add_sync(&job, gate.syncobj, gate.job, DRM_QBNPU_SYNC_ANY_RESULT);
	job.submit.deadline_ns = qbrt_now_ns() + 5000000;
	kmd_submit(&job);
	kmd_submit(&job);
	/* is given to the core on which the gate runs */
	kmd_prepare(&job, other, set.copy64, &set.input, &set.output);
	job.submit.deadline_ns = qbrt_now_ns() + 5000000;
	kmd_submit(&job);
	for (int i = 0; i < 3; i++) {
		wait = kmd_wait(i < 2 ? set.queue : other,
				i < 2 ? (uint64_t)i + 1 : 1);
		ck_assert_int_eq(wait.status, -ETIMEDOUT);
		ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_TIME);
		ck_assert_int_eq(wait.start_ns, 0);
		ck_assert_uint_eq(wait.item, DRM_QBNPU_NONE);
	}
	/* runs: late enough to begin on a busy machine */
	open_gate(&gate);
	gate.slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, gate.slow, &set.input, &set.output);
	job.submit.deadline_ns = qbrt_now_ns() + 200000000;
	wait = kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_int_eq(wait.status, -ETIMEDOUT);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_TIME);
	ck_assert_int_ne(wait.start_ns, 0);
	ck_assert_uint_eq(wait.item, 0);
	/* the same when the caller waits in the request */
	kmd_set_wait(&job);
	job.submit.deadline_ns = qbrt_now_ns() + 200000000;
	kmd_submit(&job);
	ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(job.wait.status, -ETIMEDOUT);
	kmd_unload(gate.slow);
	kmd_end_set(&set);
}
END_TEST

/* K088: a cancelled job writes nothing any more */
START_TEST(no_byte_changes_after_the_end)
{
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	open_gate(&gate);
	for (int i = 0; i < KMD_BYTES; i++)
		ck_assert_uint_eq(set.output.data[i], 0);
	/* the core is free again: the next job ran to its end meanwhile */
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.bindings[1].offset = 128;
	kmd_wait(set.queue, kmd_submit(&job));
	for (int i = 0; i < KMD_BYTES; i++)
		ck_assert_uint_eq(set.output.data[i], 0);
	kmd_end_set(&set);
}
END_TEST

/* K115 K085 */
START_TEST(a_job_that_waits_is_cancelled_at_once)
{
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;

	kmd_begin_set(_i, &set);
	close_gate(&gate, &set);
	kmd_prepare_empty(&job, set.queue);
	kmd_add_sync(&job, gate.syncobj, gate.job, DRM_QBNPU_SYNC_ANY_RESULT);
	for (int i = 0; i < 3; i++)
		kmd_submit(&job);
	kmd_cancel(set.queue, 2);
	wait = kmd_wait(set.queue, 2);
	ck_assert_int_eq(wait.status, -ECANCELED);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_CANCELLED);
	ck_assert_uint_eq(wait.list, DRM_QBNPU_NONE);
	ck_assert_uint_eq(wait.command, DRM_QBNPU_NONE);
	/* the others are not touched, and its point comes in order */
	ck_assert_uint_eq(kmd_get_state(set.queue, 1), DRM_QBNPU_JOB_WAITS);
	ck_assert_uint_eq(kmd_get_state(set.queue, 3), DRM_QBNPU_JOB_WAITS);
	open_gate(&gate);
	ck_assert_int_eq(kmd_wait(set.queue, 1).status, 0);
	ck_assert_int_eq(kmd_wait(set.queue, 3).status, 0);
	kmd_end_set(&set);
}
END_TEST

/* K115: 0 is every job that is not complete */
START_TEST(cancelling_all_leaves_the_queue_usable)
{
	struct kmd_set set;
	struct kmd_job job;
	struct gate gate;

	kmd_begin_set(_i, &set);
	gate.slow = kmd_load_slow(60);
	kmd_prepare(&job, set.queue, gate.slow, &set.input, &set.output);
	for (int i = 0; i < 20; i++)
		kmd_submit(&job);
	kmd_cancel(set.queue, 0);
	for (uint64_t i = 1; i <= 20; i++)
		ck_assert_int_eq(kmd_wait(set.queue, i).status, -ECANCELED);
	kmd_cancel(set.queue, 0);
	kmd_cancel(set.queue, 20);
	job.submit.program = set.copy64;
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	kmd_unload(gate.slow);
	kmd_end_set(&set);
}
END_TEST

/* K003 K115 */
START_TEST(bad_cancels_are_refused)
{
	struct drm_qbnpu_cancel cancel = { .queue = 99 };
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	kmd_refuse(DRM_IOCTL_QBNPU_CANCEL, &cancel, ENOENT);
	cancel.queue = set.queue;
	cancel.job = 1;
	kmd_refuse(DRM_IOCTL_QBNPU_CANCEL, &cancel, EINVAL);
	kmd_end_set(&set);
}
END_TEST

/* K013: 200 jobs are queued, one runs; the memory comes back */
START_TEST(closing_a_file_ends_its_jobs)
{
	struct drm_qbnpu_query_memory before, after;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.data = (uintptr_t)&before,
		.size = sizeof(before),
	};
	struct kmd_set set, other;
	struct kmd_job job;
	struct gate gate;
	int own_file;

	kmd_begin_set(_i, &set);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	own_file = kmd_file;
	kmd_begin_set(_i, &other);
	close_gate(&gate, &other);
	kmd_prepare(&job, other.queue, other.copy64, &other.input,
		    &other.output);
	kmd_add_sync(&job, gate.syncobj, gate.job, 0);
	for (int i = 0; i < 200; i++)
		kmd_submit(&job);
	ck_assert_int_eq(
		kmd->munmap(kmd_file, other.input.data, other.input.size), 0);
	ck_assert_int_eq(
		kmd->munmap(kmd_file, other.output.data, other.output.size), 0);
	kmd->close(kmd_file);
	kmd_file = own_file;
	query.data = (uintptr_t)&after;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	ck_assert_uint_eq(after.free, before.free);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	kmd_end_set(&set);
}
END_TEST

void kmd_order_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_job_waits_for_its_syncs),
		QBRT_TEST(a_queue_is_in_order_and_queues_are_not),
		QBRT_TEST(no_order_comes_from_a_shared_buffer),
		QBRT_TEST(a_failed_fence_ends_the_job_unrun),
		QBRT_TEST(a_job_waits_for_64_timelines),
		QBRT_TEST(an_empty_job_is_a_point),
		QBRT_TEST(deadlines_end_jobs_wherever_they_are),
		QBRT_TEST(no_byte_changes_after_the_end),
		QBRT_TEST(a_job_that_waits_is_cancelled_at_once),
		QBRT_TEST(cancelling_all_leaves_the_queue_usable),
		QBRT_TEST(bad_cancels_are_refused),
		QBRT_TEST(closing_a_file_ends_its_jobs),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
