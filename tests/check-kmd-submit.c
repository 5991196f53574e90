// SPDX-License-Identifier: MIT
/*
 * The order of SUBMIT's checks (docs/spec/kernel.md, 2.6): each fault of the
 * table alone, and every two of different steps together, of which the earlier
 * one has to be told.
 */
#include "check-kmd.h"

#include <errno.h>
#include <sys/mman.h>

#include "util.h"

/* What the faults need beside a good job. */
struct stage {
	struct kmd_set set;
	struct kmd_buffer open_buffer; /* the CPU writes it */
	uint32_t slow;
	uint32_t failed_queue; /* STICKY */
	uint32_t full_queue;
	uint32_t gate_queue, gate_syncobj;
	uint8_t *read_only;  /* a page */
	uint64_t done_point; /* of the set's timeline */
};

struct fault {
	unsigned int step;
	int err;
	uint32_t what, index;
	/* faults that write one field do not go together */
	unsigned int fields;
	void (*apply)(struct kmd_job *job, const struct stage *stage);
	const char *name;
};

enum {
	FLAGS = 1 << 0,
	COUNTS = 1 << 1,
	BINDINGS = 1 << 2,
	SYNCS = 1 << 3,
	WAIT = 1 << 4,
	QUEUE = 1 << 5,
	PROGRAM = 1 << 6,
	INPUT = 1 << 7,
	OUTPUT = 1 << 8,
	PARAMS = 1 << 9,
	MODE = 1 << 10,
	CORES = 1 << 11,
	DEADLINE = 1 << 12,
};

#define FAULT(name) \
	static void name(struct kmd_job *job, const struct stage *stage)

FAULT(set_flags)
{
	(void)stage;
	job->submit.flags = 1;
}

FAULT(set_no_items)
{
	(void)stage;
	job->submit.item_count = 0;
}

FAULT(set_many_bindings)
{
	(void)stage;
	job->submit.binding_count = 65;
}

FAULT(set_bad_bindings)
{
	(void)stage;
	job->submit.bindings = 8;
}

FAULT(set_bad_syncs)
{
	(void)stage;
	job->submit.in_count = 1;
	job->submit.in_syncs = 8;
}

FAULT(set_bad_wait)
{
	(void)stage;
	job->submit.wait = 8;
	job->submit.wait_size = 96;
}

FAULT(set_binding_flags)
{
	(void)stage;
	job->bindings[0].flags = 4;
}

FAULT(set_sync_flags)
{
	kmd_add_sync(job, stage->set.syncobj, stage->done_point, 2);
}

FAULT(set_point_zero)
{
	kmd_add_sync(job, stage->set.syncobj, 0, 0);
}

FAULT(set_wait_job)
{
	(void)stage;
	kmd_set_wait(job);
	job->wait.job = 1;
}

FAULT(set_no_queue)
{
	(void)stage;
	job->submit.queue = 9999;
}

FAULT(set_no_program)
{
	(void)stage;
	job->submit.program = 9999;
}

FAULT(set_no_buffer)
{
	(void)stage;
	job->bindings[0].handle = 9999;
}

FAULT(set_no_syncobj)
{
	(void)stage;
	kmd_add_sync(job, 9999, 1, 0);
}

FAULT(set_sync_twice)
{
	kmd_add_sync(job, stage->set.syncobj, stage->done_point, 0);
	kmd_add_sync(job, stage->set.syncobj, stage->done_point, 0);
}

FAULT(set_point_to_come)
{
	kmd_add_sync(job, stage->set.syncobj, stage->done_point + 1, 0);
}

FAULT(set_binding_twice)
{
	(void)stage;
	job->bindings[1].index = 0;
}

FAULT(set_binding_missing)
{
	(void)stage;
	job->submit.binding_count = 1;
}

FAULT(set_access)
{
	(void)stage;
	job->bindings[0].access = DRM_QBNPU_ACCESS_WRITE;
}

FAULT(set_offset)
{
	(void)stage;
	job->bindings[0].offset = 32;
}

FAULT(set_stride)
{
	(void)stage;
	job->bindings[0].item_stride = 64;
}

FAULT(set_beyond)
{
	(void)stage;
	job->bindings[0].offset = 1 << 30;
}

FAULT(set_short)
{
	(void)stage;
	job->bindings[0].length = 63;
}

FAULT(set_param)
{
	(void)stage;
	job->submit.params[2] = 1;
}

FAULT(set_overlap)
{
	job->bindings[1].handle = stage->set.input.handle;
}

FAULT(set_mode)
{
	(void)stage;
	job->submit.mode = 1;
}

FAULT(set_no_cores)
{
	(void)stage;
	job->submit.core_mask = 0;
}

FAULT(set_other_cores)
{
	(void)stage;
	job->submit.core_mask = 3;
}

FAULT(set_past_deadline)
{
	(void)stage;
	job->submit.deadline_ns = 1;
}

FAULT(set_far_deadline)
{
	(void)stage;
	job->submit.deadline_ns = INT64_MAX;
}

FAULT(set_open_buffer)
{
	job->bindings[1].handle = stage->open_buffer.handle;
}

FAULT(set_failed_queue)
{
	job->submit.queue = stage->failed_queue;
}

FAULT(set_full_queue)
{
	job->submit.queue = stage->full_queue;
}

FAULT(set_read_only_wait)
{
	job->submit.wait = (uintptr_t)stage->read_only;
	job->submit.wait_size = 96;
}

#define IN_STRUCT DRM_QBNPU_FAIL_STRUCT
#define IN_BINDING DRM_QBNPU_FAIL_BINDING
#define IN_SYNC DRM_QBNPU_FAIL_IN_SYNC
#define IN_QUEUE DRM_QBNPU_FAIL_QUEUE
#define IN_CORES DRM_QBNPU_FAIL_CORE_MASK
#define IN_PARAM DRM_QBNPU_FAIL_PARAM
#define ROW(step, err, what, index, fields, apply) \
	{ \
		step, err, what, index, fields, apply, #apply \
	}

/* In the order of the steps. */
static const struct fault faults[] = {
	ROW(1, EINVAL, IN_STRUCT, 0, FLAGS, set_flags),
	ROW(1, EINVAL, IN_STRUCT, 0, FLAGS, set_no_items),
	ROW(1, EINVAL, IN_STRUCT, 0, COUNTS, set_many_bindings),
	ROW(2, EFAULT, IN_BINDING, 0, BINDINGS, set_bad_bindings),
	ROW(2, EFAULT, IN_SYNC, 0, SYNCS, set_bad_syncs),
	ROW(2, EFAULT, IN_STRUCT, 0, WAIT, set_bad_wait),
	ROW(2, EINVAL, IN_BINDING, 0, INPUT, set_binding_flags),
	ROW(2, EINVAL, IN_SYNC, 0, SYNCS, set_sync_flags),
	ROW(2, EINVAL, IN_SYNC, 0, SYNCS, set_point_zero),
	ROW(2, EINVAL, IN_STRUCT, 0, WAIT, set_wait_job),
	ROW(3, ENOENT, IN_QUEUE, 0, QUEUE, set_no_queue),
	ROW(3, ENOENT, IN_STRUCT, 0, PROGRAM, set_no_program),
	ROW(3, ENOENT, IN_BINDING, 0, INPUT, set_no_buffer),
	ROW(3, ENOENT, IN_SYNC, 0, SYNCS, set_no_syncobj),
	ROW(3, EINVAL, IN_SYNC, 1, SYNCS, set_sync_twice),
	ROW(3, EINVAL, IN_SYNC, 0, SYNCS, set_point_to_come),
	ROW(4, EINVAL, IN_BINDING, 1, OUTPUT, set_binding_twice),
	ROW(4, EINVAL, IN_BINDING, 1, COUNTS | OUTPUT, set_binding_missing),
	ROW(5, EACCES, IN_BINDING, 0, INPUT, set_access),
	ROW(6, EINVAL, IN_BINDING, 0, INPUT, set_offset),
	ROW(6, EINVAL, IN_BINDING, 0, INPUT, set_stride),
	ROW(7, ERANGE, IN_BINDING, 0, INPUT, set_beyond),
	ROW(7, ERANGE, IN_BINDING, 0, INPUT, set_short),
	ROW(8, EINVAL, IN_PARAM, 2, PARAMS, set_param),
	ROW(9, EINVAL, IN_BINDING, 1, INPUT | OUTPUT, set_overlap),
	ROW(10, EINVAL, IN_STRUCT, 0, MODE, set_mode),
	ROW(10, EINVAL, IN_CORES, 0, CORES, set_no_cores),
	ROW(10, EINVAL, IN_CORES, 0, CORES, set_other_cores),
	ROW(10, ETIME, IN_STRUCT, 0, DEADLINE, set_past_deadline),
	ROW(10, ETIME, IN_STRUCT, 0, DEADLINE, set_far_deadline),
	ROW(11, EBUSY, IN_BINDING, 1, OUTPUT, set_open_buffer),
	ROW(12, ECANCELED, IN_QUEUE, 0, QUEUE, set_failed_queue),
	ROW(13, ENOSPC, IN_QUEUE, 0, QUEUE, set_full_queue),
	ROW(14, EFAULT, IN_STRUCT, 0, WAIT, set_read_only_wait),
};

static void fail_queue(struct stage *stage)
{
	struct kmd_job job;

	stage->failed_queue = kmd_create_queue(DRM_QBNPU_QUEUE_STICKY, NULL);
	kmd_prepare_empty(&job, stage->failed_queue);
	kmd_add_sync(&job, stage->gate_syncobj, 1, 0);
	kmd_cancel(stage->failed_queue, kmd_submit(&job));
	kmd_wait(stage->failed_queue, 1);
}

static void fill_queue(struct stage *stage)
{
	struct kmd_job job;

	stage->full_queue = kmd_create_queue(0, NULL);
	kmd_prepare_empty(&job, stage->full_queue);
	kmd_add_sync(&job, stage->gate_syncobj, 1, 0);
	for (int i = 0; i < 256; i++)
		kmd_submit(&job);
}

static void begin_stage(int driver, struct stage *stage)
{
	struct drm_qbnpu_bo_sync sync = {
		.flags = DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_WRITE,
		.length = 64,
	};
	struct kmd_job job;

	kmd_begin_set(driver, &stage->set);
	kmd_alloc(&stage->open_buffer, 4096);
	sync.handle = stage->open_buffer.handle;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync), 0);
	kmd_prepare_empty(&job, stage->set.queue);
	stage->done_point = kmd_submit(&job);
	/* a job that lasts keeps the others waiting */
	stage->slow = kmd_load_slow(60);
	stage->gate_queue = kmd_create_queue(0, &stage->gate_syncobj);
	kmd_prepare(&job, stage->gate_queue, stage->slow, &stage->set.input,
		    &stage->set.output);
	kmd_submit(&job);
	fail_queue(stage);
	fill_queue(stage);
	stage->read_only =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(stage->read_only, MAP_FAILED);
}

static void end_stage(struct stage *stage)
{
	kmd_cancel(stage->gate_queue, 1);
	kmd_wait(stage->gate_queue, 1);
	ck_assert_int_eq(munmap(stage->read_only, 4096), 0);
	kmd_unload(stage->slow);
	kmd_free(&stage->open_buffer);
	kmd_end_set(&stage->set);
}

static void expect_fault(const struct stage *stage, const struct fault *fault,
			 const struct fault *other)
{
	struct kmd_job job;
	int ret;

	kmd_prepare(&job, stage->set.queue, stage->set.copy64,
		    &stage->set.input, &stage->set.output);
	job.wait.state = 0xbad;
	fault->apply(&job, stage);
	if (other)
		other->apply(&job, stage);
	job.submit.fail_what = 0xbad;
	job.submit.fail_index = 0xbad;
	ret = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
	ck_assert_msg(ret == -fault->err &&
			      job.submit.fail_what == fault->what &&
			      job.submit.fail_index == fault->index,
		      "%s before %s: got %d, what %u, index %u", fault->name,
		      other ? other->name : "nothing", ret,
		      job.submit.fail_what, job.submit.fail_index);
	ck_assert_uint_eq(job.submit.job, 0xbad);
	ck_assert_uint_eq(job.wait.state, 0xbad);
}

/* K080 K002 */
START_TEST(each_fault_has_its_code)
{
	struct stage stage;

	begin_stage(_i, &stage);
	for (size_t i = 0; i < qbrt_array_size(faults); i++)
		expect_fault(&stage, &faults[i], NULL);
	end_stage(&stage);
}
END_TEST

/* K080 */
START_TEST(of_two_faults_the_earlier_one_is_told)
{
	unsigned int num_pairs = 0;
	struct stage stage;
	struct kmd_job job;

	begin_stage(_i, &stage);
	for (size_t i = 0; i < qbrt_array_size(faults); i++) {
		for (size_t j = i + 1; j < qbrt_array_size(faults); j++) {
			if (faults[i].step == faults[j].step ||
			    faults[i].fields & faults[j].fields)
				continue;
			expect_fault(&stage, &faults[i], &faults[j]);
			num_pairs++;
		}
	}
	ck_assert_uint_ge(num_pairs, 90);
	/* nothing was queued by any of them */
	kmd_prepare_empty(&job, stage.set.queue);
	ck_assert_uint_eq(kmd_submit(&job), stage.done_point + 1);
	end_stage(&stage);
}
END_TEST

/* K080: what is wrong with an empty job */
START_TEST(an_empty_job_has_nothing_of_a_program)
{
	struct drm_qbnpu_submit base, args[6];
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare_empty(&job, set.queue);
	base = job.submit;
	for (size_t i = 0; i < qbrt_array_size(args); i++)
		args[i] = base;
	args[0].mode = 1;
	args[1].core_mask = 1;
	args[2].binding_count = 1;
	args[3].item_count = 2;
	args[4].item_count = 0;
	for (size_t i = 0; i < 5; i++)
		kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &args[i], EINVAL);
	args[5].params[3] = 1;
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &args[5], EINVAL,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(args[5]));
	ck_assert_uint_eq(args[5].fail_what, DRM_QBNPU_FAIL_PARAM);
	ck_assert_uint_eq(args[5].fail_index, 3);
	kmd_end_set(&set);
}
END_TEST

/* SU04: item i of a binding is item_stride further, one completion for all */
START_TEST(items_use_their_own_ranges)
{
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (size_t i = 0; i < set.input.size; i++)
		set.input.data[i] = (uint8_t)(i * 7 + i / 64);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.item_count = 16;
	for (int i = 0; i < 2; i++) {
		job.bindings[i].length = 16 * KMD_BYTES;
		job.bindings[i].item_stride = KMD_BYTES;
	}
	job.bindings[1].length = 15 * 128 + KMD_BYTES;
	job.bindings[1].item_stride = 128;
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	for (int i = 0; i < 16; i++)
		ck_assert_mem_eq(set.output.data + i * 128,
				 set.input.data + i * KMD_BYTES, KMD_BYTES);
	job.bindings[1].item_stride = 0;
	job.submit.job = 0;
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(job.submit));
	kmd_end_set(&set);
}
END_TEST

void kmd_submit_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(each_fault_has_its_code),
		QBRT_TEST(of_two_faults_the_earlier_one_is_told),
		QBRT_TEST(an_empty_job_has_nothing_of_a_program),
		QBRT_TEST(items_use_their_own_ranges),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
