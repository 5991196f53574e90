// SPDX-License-Identifier: MIT
/*
 * What a job costs: threads, allocations, memory of a queue; and that the n-th
 * failing allocation, for each n, leaves nothing behind.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

#include "count-alloc.h"
#include "device/fault.h"
#include "prog.h"
#include "soft/soft.h"
#include "util.h"

/* How SUBMIT, its program or its device differ from one that runs inline. */
struct variation {
	const char *name;
	bool is_inline;
	void (*apply)(struct kmd_job *job);
	uint64_t delay_ns;       /* of the program */
	unsigned int num_copies; /* of 64 KiB, before the one of its output */
	const char *plan;
};

#define SCRATCH_NBYTES 65536

static uint32_t load(const struct variation *variation)
{
	struct qbnpu_cmd_nop *nop;
	uint16_t input, output, from, to;
	struct prog prog;
	uint32_t program;

	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	nop = prog_cmd(&prog, QBNPU_OP_NOP);
	nop->delay_ns = variation->delay_ns;
	if (variation->num_copies) {
		from = prog_scratch(&prog, QBNPU_DTYPE_U8,
				    DIMS(SCRATCH_NBYTES));
		to = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(SCRATCH_NBYTES));
		prog_fill(&prog, from, 0);
		for (unsigned int i = 0; i < variation->num_copies; i++)
			prog_copy(&prog, from, to);
	}
	prog_copy(&prog, input, output);
	prog_finish(&prog);
	program = kmd_load(prog.bytes, prog.nbytes);
	prog_end(&prog);
	return program;
}

static void keep(struct kmd_job *job)
{
	(void)job;
}

static void drop_wait(struct kmd_job *job)
{
	job->submit.wait = 0;
	job->submit.wait_size = 0;
}

static void poll_only(struct kmd_job *job)
{
	job->wait.timeout_ns = 0;
}

static void end_wait_before_default_limit(struct kmd_job *job)
{
	job->wait.timeout_ns = qbrt_now_ns() + INT64_C(9000000000);
}

static void end_wait_at_once(struct kmd_job *job)
{
	job->wait.timeout_ns = qbrt_now_ns() + INT64_C(10000000);
}

static void end_wait_after_default_limit(struct kmd_job *job)
{
	job->wait.timeout_ns = qbrt_now_ns() + INT64_C(11000000000);
}

static void end_wait_at_deadline(struct kmd_job *job)
{
	job->submit.deadline_ns = qbrt_now_ns() + INT64_C(20000000000);
	job->wait.timeout_ns = job->submit.deadline_ns;
}

static void end_wait_before_deadline(struct kmd_job *job)
{
	job->submit.deadline_ns = qbrt_now_ns() + INT64_C(20000000000);
	job->wait.timeout_ns = job->submit.deadline_ns - 1;
}

static void have_two_items(struct kmd_job *job)
{
	job->submit.item_count = 2;
	for (int i = 0; i < 2; i++) {
		job->bindings[i].length = 2 * KMD_BYTES;
		job->bindings[i].item_stride = KMD_BYTES;
	}
}

static const struct variation variations[] = {
	{ "wait for ever", true, keep, 0, 0, NULL },
	{ "wait past the default limit", true, end_wait_after_default_limit, 0,
	  0, NULL },
	{ "wait to the deadline", true, end_wait_at_deadline, 0, 0, NULL },
	{ "wait before the limit", true, end_wait_before_default_limit, 0, 0,
	  NULL },
	{ "wait before the deadline", true, end_wait_before_deadline, 0, 0,
	  NULL },
	{ "wait of 10 ms", false, end_wait_at_once, 0, 0, NULL },
	{ "no wait", false, drop_wait, 0, 0, NULL },
	{ "poll", false, poll_only, 0, 0, NULL },
	{ "two items", false, have_two_items, 0, 0, NULL },
	{ "delay", true, keep, 1, 0, NULL },
	{ "delay, wait before the limit", false, end_wait_before_default_limit,
	  1, 0, NULL },
	{ "4 MiB, wait before the limit", false, end_wait_before_default_limit,
	  0, 32, NULL },
	{ "3 MiB, wait before the limit", true, end_wait_before_default_limit,
	  0, 24, NULL },
	{ "plan", true, keep, 0, 0, "late:ns=1,job=9" },
	{ "plan, wait before the limit", false, end_wait_before_default_limit,
	  0, 0, "late:ns=1,job=9" },
};

/* K313 DV11: inline starts no thread; what does not run inline has a helper */
START_TEST(jobs_run_inline_only_when_they_may)
{
	for (size_t i = 0; i < qbrt_array_size(variations); i++) {
		long before = qbrt_test_count_threads();
		struct kmd_set set;
		struct kmd_job job;
		uint32_t program, id;

		kmd_begin_set(0, &set);
		if (variations[i].plan)
			ck_assert_int_eq(qbnpu_fault_add(qbnpu_soft_npu(0),
							 variations[i].plan,
							 &id),
					 0);
		program = load(&variations[i]);
		kmd_prepare(&job, set.queue, program, &set.input, &set.output);
		kmd_set_wait(&job);
		variations[i].apply(&job);
		kmd_wait(set.queue, kmd_submit(&job));
		ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
		ck_assert_msg((qbrt_test_count_threads() == before) ==
				      variations[i].is_inline,
			      "%s", variations[i].name);
		kmd_unload(program);
		kmd_end_set(&set);
	}
}
END_TEST

/* The assertions of libcheck allocate, so there are none in here. */
static bool run_quietly(struct kmd_job *job)
{
	struct drm_qbnpu_wait wait = {
		.queue = job->submit.queue,
		.timeout_ns = KMD_FOREVER,
	};

	if (kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job->submit))
		return false;
	wait.job = job->submit.job;
	return !kmd_call(DRM_IOCTL_QBNPU_WAIT, &wait) && !wait.status;
}

/* K081 SU05 */
START_TEST(jobs_allocate_nothing_in_the_steady_state)
{
	struct kmd_set set;
	struct kmd_job job;
	int num_bad;

	kmd_begin_set(0, &set);
	for (int waits = 0; waits < 2; waits++) {
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		if (waits)
			kmd_set_wait(&job);
		kmd_wait(set.queue, kmd_submit(&job));
		num_bad = 0;
		count_alloc_begin(0);
		for (int i = 0; i < 1000; i++)
			num_bad += !run_quietly(&job);
		ck_assert_int_eq(count_alloc_end(), 0);
		ck_assert_int_eq(num_bad, 0);
	}
	kmd_end_set(&set);
}
END_TEST

/* K070 */
START_TEST(an_idle_queue_costs_less_than_8_kib)
{
	size_t before;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("the allocator's figures are not the program's");
	kmd_begin(0);
	before = mallinfo2().uordblks;
	for (int i = 0; i < 100; i++)
		kmd_create_queue(0, NULL);
	ck_assert_uint_lt(mallinfo2().uordblks - before, 100 * 8192);
	kmd_end();
}
END_TEST

/* A request that is tried with the nth allocation failing. */
typedef int attempt(const struct kmd_set *set, const struct prog *prog);

static int try_buffer(const struct kmd_set *set, const struct prog *prog)
{
	struct drm_qbnpu_bo_create create = { .size = 4096 };

	(void)set;
	(void)prog;
	return kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create);
}

static int try_queue(const struct kmd_set *set, const struct prog *prog)
{
	struct drm_qbnpu_queue_create create = { 0 };

	(void)set;
	(void)prog;
	return kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create);
}

static int try_program(const struct kmd_set *set, const struct prog *prog)
{
	struct drm_qbnpu_program_create create = {
		.data = (uintptr_t)prog->bytes,
		.size = prog->nbytes,
		.core_mask = 1,
	};

	(void)set;
	return kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create);
}

static int try_submit(const struct kmd_set *set, const struct prog *prog)
{
	struct kmd_job job;
	int err;

	(void)prog;
	kmd_prepare(&job, set->queue, set->copy64, &set->input, &set->output);
	kmd_set_wait(&job);
	err = kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
	/* told apart from what the caller expects: `wait` has to be untouched */
	return err && job.wait.state != 0xbad ? -EPROTO : err;
}

static int try_mapping(const struct kmd_set *set, const struct prog *prog)
{
	struct drm_qbnpu_bo_info info = { .handle = set->input.handle };
	void *data;
	int err;

	(void)prog;
	err = kmd_call(DRM_IOCTL_QBNPU_BO_INFO, &info);
	if (!err)
		err = kmd->mmap(kmd_file, info.map_offset, info.size, PROT_READ,
				&data);
	return err ? err : kmd->munmap(kmd_file, data, info.size);
}

/* K080 K002: step 14, and the same for what else allocates */
START_TEST(each_failing_allocation_is_no_memory_and_leaves_nothing)
{
	static attempt *const attempts[] = {
		try_buffer, try_queue, try_program, try_submit, try_mapping,
	};
	struct kmd_set set;
	struct prog prog;

	kmd_begin_set(0, &set);
	prog_copy64(&prog);
	for (size_t i = 0; i < qbrt_array_size(attempts); i++) {
		long fail_at = 0;
		int err;

		do {
			count_alloc_begin(++fail_at);
			err = attempts[i](&set, &prog);
			(void)count_alloc_end();
			ck_assert(!err || err == -ENOMEM);
		} while (err);
		ck_assert_int_gt(fail_at, 1);
	}
	prog_end(&prog);
	kmd_end_set(&set);
}
END_TEST

START_TEST(each_failing_allocation_of_open_is_no_memory)
{
	long fail_at = 0;
	int file, err;

	kmd_begin(0);
	kmd_end();
	do {
		count_alloc_begin(++fail_at);
		err = kmd->open(&kmd_options, "soft:0", &file);
		(void)count_alloc_end();
		ck_assert(!err || err == -ENOMEM);
	} while (err);
	ck_assert_int_gt(fail_at, 2);
	kmd->close(file);
}
END_TEST

void soft_inline_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(jobs_run_inline_only_when_they_may),
		QBRT_TEST(jobs_allocate_nothing_in_the_steady_state),
		QBRT_TEST(an_idle_queue_costs_less_than_8_kib),
		QBRT_TEST(
			each_failing_allocation_is_no_memory_and_leaves_nothing),
		QBRT_TEST(each_failing_allocation_of_open_is_no_memory),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
