// SPDX-License-Identifier: MIT
/*
 * Cancel and deadline at every stage of a job: waiting for a sync, behind
 * another job of its queue, behind another job of its core, on the core, done
 * and late, complete; and every other request while a job hangs.
 */
#include "check-soft-fault.h"

#include <drm.h>
#include <errno.h>
#include <sys/mman.h>

#include "prog.h"
#include "util.h"

#define NONE DRM_QBNPU_NONE

enum stage {
	WAITS,
	BEHIND_ITS_QUEUE,
	BEHIND_ITS_CORE,
	HANGS,
	IS_SLOW,
	IS_LATE,
	IS_COMPLETE,
	NUM_STAGES,
};

static const struct {
	const char *plan; /* of the job itself */
	bool has_gate;    /* something else has to come first */
	uint32_t state;   /* before the end */
	struct fault_end cancelled, timed_out;
} stages[NUM_STAGES] = {
	[WAITS] = { NULL,
		    true,
		    DRM_QBNPU_JOB_WAITS,
		    { -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, NONE, NONE, NONE,
		      false },
		    { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, NONE, NONE, NONE,
		      false } },
	[BEHIND_ITS_QUEUE] = { NULL,
			       true,
			       DRM_QBNPU_JOB_QUEUED,
			       { -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, NONE,
				 NONE, NONE, false },
			       { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, NONE, NONE,
				 NONE, false } },
	[BEHIND_ITS_CORE] = { NULL,
			      true,
			      DRM_QBNPU_JOB_RUNNING,
			      { -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, NONE,
				NONE, NONE, false },
			      { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, NONE, NONE,
				NONE, false } },
	[HANGS] = { "hang",
		    false,
		    DRM_QBNPU_JOB_RUNNING,
		    { -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, 0, 0, 0, true },
		    { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, 0, 0, 0, true } },
	[IS_SLOW] = { "slow:ns=1000000000000",
		      false,
		      DRM_QBNPU_JOB_RUNNING,
		      { -ECANCELED, DRM_QBNPU_CAUSE_CANCELLED, 0, 0, 0, true },
		      { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, 0, 0, 0, true } },
	/* its work is done: there is nothing left to cancel */
	[IS_LATE] = { "late:ns=1000000000000",
		      false,
		      DRM_QBNPU_JOB_RUNNING,
		      { 0, DRM_QBNPU_CAUSE_NONE, NONE, NONE, NONE, true },
		      { -ETIMEDOUT, DRM_QBNPU_CAUSE_TIME, NONE, NONE, 0,
			true } },
	/* with its deadline not passed, which is no use to it any more */
	[IS_COMPLETE] = { NULL,
			  false,
			  DRM_QBNPU_JOB_COMPLETE,
			  { 0, DRM_QBNPU_CAUSE_NONE, NONE, NONE, NONE, true },
			  { 0, DRM_QBNPU_CAUSE_NONE, NONE, NONE, NONE, true } },
};

/* A job that hangs on core 0 until it is cancelled. */
struct gate {
	uint32_t queue, syncobj, id;
	uint64_t job;
};

static void close_gate(struct gate *gate, struct fault_set *set)
{
	struct kmd_job job;

	gate->queue = kmd_create_queue(0, &gate->syncobj);
	gate->id = fault_add(set, "hang");
	fault_prepare(&job, set, gate->queue, 63);
	gate->job = fault_submit(&job, FAULT_FAR_NS);
	fault_wait_fired(set, gate->id);
}

static void open_gate(struct gate *gate, struct fault_set *set)
{
	kmd_cancel(gate->queue, gate->job);
	ck_assert_int_eq(kmd_wait(gate->queue, gate->job).status, -ECANCELED);
	fault_remove(set, gate->id);
}

/* The queue of a job of this stage, which is submitted. */
static uint32_t submit(struct kmd_job *job, const struct fault_set *set,
		       enum stage stage, const struct gate *gate,
		       int64_t limit_ns)
{
	const uint32_t queue =
		stage == BEHIND_ITS_QUEUE ? gate->queue : set->queue;

	fault_prepare(job, set, queue, 0);
	/* not the gate's core, but where that is the point */
	if (stage != BEHIND_ITS_CORE && stages[stage].has_gate)
		job->submit.core_mask = 2;
	if (stage == WAITS)
		kmd_add_sync(job, gate->syncobj, gate->job,
			     DRM_QBNPU_SYNC_ANY_RESULT);
	fault_submit(job, limit_ns);
	return queue;
}

/* K115 K114 K088: by round */
START_TEST(cancel_ends_a_job_at_each_stage)
{
	const enum stage stage = (enum stage)_i;
	struct drm_qbnpu_wait wait;
	struct fault_set set;
	struct kmd_job job;
	struct gate gate;
	uint32_t id = 0, queue;

	fault_begin_set(&set, "", false);
	if (stages[stage].has_gate)
		close_gate(&gate, &set);
	if (stages[stage].plan)
		id = fault_add(&set, stages[stage].plan);
	queue = submit(&job, &set, stage, &gate, FAULT_FAR_NS);
	if (id)
		fault_wait_fired(&set, id);
	if (stage == IS_COMPLETE)
		kmd_wait(queue, job.submit.job);
	ck_assert_uint_eq(kmd_get_state(queue, job.submit.job),
			  stages[stage].state);
	kmd_cancel(queue, job.submit.job);
	/* not on the device: at once */
	if (stages[stage].has_gate)
		ck_assert_uint_eq(kmd_get_state(queue, job.submit.job),
				  DRM_QBNPU_JOB_COMPLETE);
	wait = kmd_wait(queue, job.submit.job);
	fault_check_end(&wait, &stages[stage].cancelled);
	if (!wait.status)
		ck_assert(fault_has_copied(&set, 0));
	/* once more changes nothing */
	kmd_cancel(queue, job.submit.job);
	wait = kmd_wait(queue, job.submit.job);
	fault_check_end(&wait, &stages[stage].cancelled);
	if (stages[stage].has_gate)
		open_gate(&gate, &set);
	fault_end_set(&set);
}
END_TEST

/* K087 K114 K088: by round */
START_TEST(deadline_ends_a_job_at_each_stage)
{
	const enum stage stage = (enum stage)_i;
	int64_t limit = QBRT_NS_PER_MS;
	struct drm_qbnpu_wait wait;
	struct fault_set set;
	struct kmd_job job;
	struct gate gate;
	bool is_there = false;
	uint32_t id, queue;

	fault_begin_set(&set, "", false);
	if (stages[stage].has_gate)
		close_gate(&gate, &set);
	if (stage == IS_COMPLETE)
		limit = FAULT_FAR_NS;
	/* one that passes before the job begins was too near */
	for (; !is_there; limit *= 2) {
		id = stages[stage].plan ? fault_add(&set, stages[stage].plan)
					: 0;
		queue = submit(&job, &set, stage, &gate, limit);
		wait = kmd_wait(queue, job.submit.job);
		is_there = !id || qbnpu_fault_fired(set.npu, id);
		if (id)
			fault_remove(&set, id);
	}
	fault_check_end(&wait, &stages[stage].timed_out);
	if (wait.status)
		ck_assert_int_ge(wait.end_ns, job.submit.deadline_ns);
	if (stages[stage].has_gate) {
		ck_assert_uint_eq(kmd_get_state(gate.queue, gate.job),
				  DRM_QBNPU_JOB_RUNNING);
		open_gate(&gate, &set);
		ck_assert(!fault_has_copied(&set, 0));
	}
	fault_end_set(&set);
}
END_TEST

/* K115 K313: a job on the caller's own thread, cancelled from another one */
START_TEST(an_inline_job_is_cancelled_from_another_thread)
{
	const enum stage stage = HANGS + (enum stage)_i;
	struct fault_set set;
	struct fault_call call;
	struct kmd_job job;
	uint32_t id;

	fault_begin_set(&set, "", false);
	id = fault_add(&set, stages[stage].plan);
	fault_prepare(&job, &set, set.queue, 0);
	job.submit.deadline_ns = qbrt_now_ns() + FAULT_FAR_NS;
	kmd_set_wait(&job);
	fault_call_start(&call, &job);
	fault_wait_fired(&set, id);
	ck_assert_uint_eq(kmd_get_state(set.queue, 1), DRM_QBNPU_JOB_RUNNING);
	kmd_cancel(set.queue, 1);
	fault_call_join(&call);
	fault_check_end(&job.wait, &stages[stage].cancelled);
	fault_end_set(&set);
}
END_TEST

/* K085: queued and inline; the file's memory goes all the same */
START_TEST(closing_a_file_ends_a_job_that_hangs)
{
	struct fault_set set;
	struct kmd_job job;
	uint32_t id;

	fault_begin_set(&set, "", false);
	id = fault_add(&set, stages[HANGS + _i].plan);
	fault_prepare(&job, &set, set.queue, 0);
	fault_submit(&job, FAULT_FAR_NS);
	fault_wait_fired(&set, id);
	kmd_free(&set.input);
	kmd_free(&set.output);
	kmd_end();
	fault_begin_set(&set, "", false);
	fault_prepare(&job, &set, set.queue, 0);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	fault_end_set(&set);
}
END_TEST

static void call_queries(void)
{
	static uint8_t bytes[65536];

	for (uint32_t type = 0; type < 8; type++) {
		struct drm_qbnpu_query query = {
			.type = type,
			.data = (uintptr_t)bytes,
			.size = sizeof(bytes),
		};
		int err = kmd_call(DRM_IOCTL_QBNPU_QUERY, &query);

		ck_assert(!err || err == -EOPNOTSUPP || err == -EINVAL);
	}
}

/* Buffers, programs, queues, generic requests. */
static void call_others(struct fault_set *set)
{
	struct drm_qbnpu_bo_sync sync = {
		.handle = set->input.handle,
		.flags = DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_READ,
		.length = 64,
	};
	struct drm_get_cap cap = { .capability = DRM_CAP_PRIME };
	struct kmd_buffer buffer;
	int other;

	call_queries();
	kmd_alloc(&buffer, 4096);
	kmd_free(&buffer);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync), 0);
	sync.flags = DRM_QBNPU_SYNC_END | DRM_QBNPU_SYNC_READ;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync), 0);
	kmd_unload(kmd_load_copy64());
	kmd_destroy_queue(kmd_create_queue(0, NULL));
	ck_assert_int_eq(kmd_call(DRM_IOCTL_GET_CAP, &cap), 0);
	ck_assert_int_eq(kmd->poll(kmd_file, 0), -ETIME);
	other = kmd_open_another();
	kmd->close(other);
}

/* K010: what belongs to the hanging job included; only WAITs may wait */
START_TEST(other_requests_return_while_a_job_hangs)
{
	struct drm_qbnpu_copy copy = {
		.rank = 1,
		.element_size = 1,
		.sync_size = sizeof(struct drm_qbnpu_sync),
		.dims = { KMD_BYTES },
		.src_strides = { 1 },
		.dst_strides = { 1 },
	};
	struct drm_syncobj_destroy destroy = { 0 };
	struct fault_set set;
	struct kmd_job job;
	struct gate gate;

	fault_begin_set(&set, "", false);
	close_gate(&gate, &set);
	call_others(&set);
	/* behind it, in its queue and on its core: queued, polled, cancelled */
	fault_prepare(&job, &set, gate.queue, 0);
	kmd_submit(&job);
	fault_prepare(&job, &set, set.queue, 0);
	kmd_submit(&job);
	copy.queue = gate.queue;
	copy.src = set.input.handle;
	copy.dst = set.output.handle;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_COPY, &copy), 0);
	ck_assert_uint_eq(kmd_get_state(gate.queue, copy.job),
			  DRM_QBNPU_JOB_QUEUED);
	kmd_cancel(gate.queue, copy.job);
	kmd_cancel(set.queue, 0);
	/* what it uses goes when it ends */
	destroy.handle = gate.syncobj;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
	kmd_unload(set.copy64);
	kmd_free(&set.input);
	kmd_free(&set.output);
	kmd_cancel(gate.queue, 0);
	ck_assert_int_eq(kmd_wait(gate.queue, gate.job).status, -ECANCELED);
	ck_assert_int_eq(kmd_wait(gate.queue, copy.job).status, -ECANCELED);
	kmd_destroy_queue(gate.queue);
	kmd_end();
}
END_TEST

void fault_stage_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(cancel_ends_a_job_at_each_stage, NUM_STAGES),
		QBRT_LOOP_TEST(deadline_ends_a_job_at_each_stage, NUM_STAGES),
		QBRT_LOOP_TEST(an_inline_job_is_cancelled_from_another_thread,
			       IS_LATE - HANGS + 1),
		QBRT_LOOP_TEST(closing_a_file_ends_a_job_that_hangs,
			       IS_LATE - HANGS + 1),
		QBRT_TEST(other_requests_return_while_a_job_hangs),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
