// SPDX-License-Identifier: MIT
/*
 * Jobs of the software driver on an engine that the test steps (sim.h): what
 * the driver does when the device is busy, fails, or does not let go.
 */
#include "check-soft.h"

#include <errno.h>
#include <pthread.h>

#include "device/core.h"
#include "sim.h"
#include "soft/soft.h"
#include "util.h"

struct submitter {
	struct drm_qbnpu_submit *submit;
	int err;
};

static void *submit_in_thread(void *arg)
{
	struct submitter *submitter = arg;

	submitter->err = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, submitter->submit);
	return NULL;
}

/* K313: no core is idle, so the job is queued and waited for */
START_TEST(a_busy_core_makes_the_job_queue)
{
	struct submitter submitter = { 0 };
	struct kmd_set set;
	struct kmd_job job;
	pthread_t thread;
	struct sim sim;

	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_set_wait(&job);
	submitter.submit = &job.submit;
	ck_assert_int_eq(
		pthread_create(&thread, NULL, submit_in_thread, &submitter), 0);
	sim_wait_submitted(&sim, 1);
	ck_assert_uint_eq(sim_num_queued(&sim), 1);
	ck_assert(sim_step(&sim));
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(submitter.err, 0);
	ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
	ck_assert_int_eq(job.wait.status, 0);
	ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
	sim_detach(&sim);
	kmd_end_set(&set);
}
END_TEST

/* K070: the next job goes to the device when the one before is complete */
START_TEST(a_queue_gives_the_device_one_job_at_a_time)
{
	struct kmd_set set;
	struct kmd_job job;
	struct sim sim;

	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	for (int i = 0; i < 3; i++)
		kmd_submit(&job);
	for (uint64_t i = 1; i <= 3; i++) {
		ck_assert_uint_eq(sim_num_queued(&sim), 1);
		ck_assert_uint_eq(kmd_get_state(set.queue, i),
				  DRM_QBNPU_JOB_RUNNING);
		ck_assert(sim_step(&sim));
		ck_assert_int_eq(kmd_wait(set.queue, i).status, 0);
	}
	ck_assert_uint_eq(sim_num_queued(&sim), 0);
	sim_detach(&sim);
	kmd_end_set(&set);
}
END_TEST

/* K073 */
START_TEST(the_device_is_told_the_priority)
{
	struct drm_qbnpu_queue_create create = { .priority = -2 };
	struct kmd_set set;
	struct kmd_job job;
	struct qbnpu_job *begun;
	struct sim sim;

	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create), 0);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_submit(&job);
	job.submit.queue = create.queue;
	kmd_submit(&job);
	begun = sim_begin(&sim);
	ck_assert_int_eq(begun->priority, -2);
	ck_assert(sim_finish(&sim, begun, QBNPU_CAUSE_NONE));
	ck_assert_uint_eq(kmd_get_state(create.queue, 1),
			  DRM_QBNPU_JOB_COMPLETE);
	sim_finish_all(&sim);
	sim_detach(&sim);
	kmd_end_set(&set);
}
END_TEST

/* K114 K120: what the device says of a failed job, and the event */
START_TEST(a_failed_job_is_told_as_the_device_tells_it)
{
	struct drm_qbnpu_query_event event = { 0 };
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_EVENTS,
		.index = 2,
		.data = (uintptr_t)&event,
		.size = sizeof(event),
	};
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	struct sim sim;

	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_submit(&job);
	ck_assert(sim_finish(&sim, sim_begin(&sim), QBNPU_CAUSE_PROGRAM));
	wait = kmd_wait(set.queue, 1);
	ck_assert_int_eq(wait.status, -EIO);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_PROGRAM);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	ck_assert_uint_eq(query.size, sizeof(event));
	ck_assert_uint_eq(event.kind, DRM_QBNPU_EVENT_JOB_ERROR);
	ck_assert_int_eq(event.status, -EIO);
	ck_assert_uint_eq(event.queue, set.queue);
	ck_assert_uint_eq(event.arg[0], 1);
	sim_detach(&sim);
	kmd_end_set(&set);
}
END_TEST

/* K114: the device does not take the job, which SUBMIT has queued already */
START_TEST(a_job_that_the_device_cannot_take_fails)
{
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;
	struct sim sim;

	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	sim_fail_submit(&sim, -ENOMEM);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_submit(&job);
	wait = kmd_wait(set.queue, 1);
	ck_assert_int_eq(wait.status, -ENOMEM);
	ck_assert_uint_eq(wait.cause, DRM_QBNPU_CAUSE_MEMORY);
	ck_assert_uint_eq(kmd_get_info(set.output.handle).jobs, 0);
	kmd_submit(&job);
	ck_assert(sim_step(&sim));
	ck_assert_int_eq(kmd_wait(set.queue, 2).status, 0);
	sim_detach(&sim);
	kmd_end_set(&set);
}
END_TEST

/* An engine before the real cores, which cancels what it is about to run. */
struct canceller {
	struct qbnpu_npu *npu;
	uint32_t queue;
	bool is_busy; /* then says that no core is idle */
	unsigned int num_runs, num_submits;
};

static int canceller_run(void *arg, struct qbnpu_job *job)
{
	struct canceller *canceller = arg;

	canceller->num_runs++;
	kmd_cancel(canceller->queue, 1);
	return canceller->is_busy ? -EBUSY
				  : qbnpu_cores_run(canceller->npu, job);
}

static int canceller_submit(void *arg, struct qbnpu_job *job)
{
	struct canceller *canceller = arg;

	canceller->num_submits++;
	return qbnpu_cores_submit(canceller->npu, job, NULL);
}

static void canceller_cancel(void *arg, struct qbnpu_job *job, uint32_t cause)
{
	struct canceller *canceller = arg;

	qbnpu_cores_cancel(canceller->npu, job, cause);
}

static void canceller_drain(void *arg)
{
	(void)arg;
}

/* K115 K313: cancelled between the queueing and the first command */
START_TEST(a_job_about_to_run_inline_is_cancelled)
{
	const struct qbnpu_engine engine = {
		.submit = canceller_submit,
		.run = canceller_run,
		.cancel = canceller_cancel,
		.drain = canceller_drain,
	};

	for (int busy = 0; busy < 2; busy++) {
		struct canceller canceller = { .is_busy = busy };
		struct kmd_set set;
		struct kmd_job job;

		kmd_begin_set(0, &set);
		canceller.npu = qbnpu_soft_npu(0);
		canceller.queue = set.queue;
		qbnpu_npu_set_engine(canceller.npu, &engine, &canceller);
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		kmd_set_wait(&job);
		ck_assert_uint_eq(kmd_submit(&job), 1);
		ck_assert_uint_eq(canceller.num_runs, 1);
		ck_assert_uint_eq(canceller.num_submits, 0);
		ck_assert_uint_eq(job.wait.state, DRM_QBNPU_JOB_COMPLETE);
		ck_assert_int_eq(job.wait.status, -ECANCELED);
		ck_assert_uint_eq(job.wait.cause, DRM_QBNPU_CAUSE_CANCELLED);
		ck_assert_uint_eq(set.output.data[0], 0);
		qbnpu_npu_set_engine(canceller.npu, NULL, NULL);
		ck_assert_uint_eq(kmd_submit(&job), 2);
		ck_assert_int_eq(job.wait.status, 0);
		kmd_end_set(&set);
	}
}
END_TEST

/* An engine that ends every job with one result. */
static int tell_result(void *arg, struct qbnpu_job *job)
{
	job->result = *(const struct qbnpu_result *)arg;
	job->result.end_ns = qbrt_now_ns();
	job->done(job);
	return 0;
}

static int no_submit(void *arg, struct qbnpu_job *job)
{
	(void)arg;
	(void)job;
	return -ENOMEM;
}

/* K110: what is not known, or never was, is 2^32 - 1, whatever a device says */
START_TEST(results_name_no_place_where_there_is_none)
{
	const struct qbnpu_engine engine = {
		.submit = no_submit,
		.run = tell_result,
		.cancel = canceller_cancel,
		.drain = canceller_drain,
	};
	struct qbnpu_result result = {
		.list = 0,
		.command = 7,
		.item = 0,
		.core = 3,
		.busy_ns = 5,
	};
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(0, &set);
	qbnpu_npu_set_engine(qbnpu_soft_npu(0), &engine, &result);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_set_wait(&job);
	result.status = -ECANCELED;
	result.cause = QBNPU_CAUSE_CANCELLED;
	kmd_submit(&job);
	ck_assert_int_eq(job.wait.status, -ECANCELED);
	ck_assert_uint_eq(job.wait.item, DRM_QBNPU_NONE);
	ck_assert_uint_eq(job.wait.core, DRM_QBNPU_NONE);
	ck_assert_uint_eq(job.wait.busy_ns, 0);
	ck_assert_uint_eq(job.wait.time_source, DRM_QBNPU_TIME_HOST);
	result.status = 0;
	result.cause = QBNPU_CAUSE_NONE;
	result.start_ns = qbrt_now_ns();
	kmd_submit(&job);
	ck_assert_int_eq(job.wait.status, 0);
	ck_assert_uint_eq(job.wait.list, DRM_QBNPU_NONE);
	ck_assert_uint_eq(job.wait.command, DRM_QBNPU_NONE);
	ck_assert_uint_eq(job.wait.item, DRM_QBNPU_NONE);
	ck_assert_uint_eq(job.wait.core, 3);
	ck_assert_uint_eq(job.wait.busy_ns, 5);
	ck_assert_uint_eq(job.wait.time_source, DRM_QBNPU_TIME_DEVICE);
	qbnpu_npu_set_engine(qbnpu_soft_npu(0), NULL, NULL);
	kmd_end_set(&set);
}
END_TEST

static uint64_t query_free(void)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return memory.free;
}

/* K013: close gives up after a second, the memory comes when the job ends */
START_TEST(a_job_that_does_not_stop_outlives_its_file)
{
	struct qbnpu_job *running;
	struct kmd_set set;
	struct kmd_job job;
	uint64_t available;
	int keeper;
	struct sim sim;

	kmd_begin(0);
	keeper = kmd_file;
	available = query_free();
	kmd_begin_set(0, &set);
	sim_attach(&sim, qbnpu_soft_npu(0));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_submit(&job);
	kmd_submit(&job);
	running = sim_begin(&sim);
	ck_assert_int_eq(kmd->munmap(kmd_file, set.input.data, set.input.size),
			 0);
	ck_assert_int_eq(
		kmd->munmap(kmd_file, set.output.data, set.output.size), 0);
	kmd->close(kmd_file);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit),
			 -ENODEV);
	kmd_file = keeper;
	ck_assert_uint_lt(query_free(), available);
	ck_assert(sim_finish(&sim, running, QBNPU_CAUSE_CANCELLED));
	/* the file's own thread frees it now */
	while (query_free() != available)
		continue;
	sim_detach(&sim);
	kmd_end();
}
END_TEST

void soft_job_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_busy_core_makes_the_job_queue),
		QBRT_TEST(a_queue_gives_the_device_one_job_at_a_time),
		QBRT_TEST(the_device_is_told_the_priority),
		QBRT_TEST(a_failed_job_is_told_as_the_device_tells_it),
		QBRT_TEST(a_job_that_the_device_cannot_take_fails),
		QBRT_TEST(a_job_about_to_run_inline_is_cancelled),
		QBRT_TEST(results_name_no_place_where_there_is_none),
		QBRT_TEST(a_job_that_does_not_stop_outlives_its_file),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
