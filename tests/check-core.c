// SPDX-License-Identifier: MIT
/*
 * The cores' threads, inline runs, copies, floating point modes, and what
 * running costs. Nothing depends on how fast the machine is.
 */
#include <errno.h>
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count-alloc.h"
#include "device-case.h"
#include "test-util.h"
#include "util.h"

/* DV11 IS01: the same bytes as queued, on the caller's thread */
START_TEST(inline_run_is_on_the_callers_thread)
{
	const long num_threads = qbrt_test_count_threads();
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "aries-rb");
	device_fixture_job(&job, &f, 1);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_int_eq(job.num_done, 1);
	ck_assert_int_eq(job.job.result.status, 0);
	ck_assert(pthread_equal(job.done_on, pthread_self()));
	device_fixture_check(&f);
	device_job_end(&job);
	ck_assert_int_eq(qbrt_test_count_threads(), num_threads);
	device_fixture_end(&f);
}
END_TEST

/* DV11: only if a core of the mask is idle, and nothing happens if not */
START_TEST(inline_run_needs_an_idle_core)
{
	struct device_blocker blocker;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "aries-rb");
	device_block(&blocker, &f, 2);
	device_fixture_job(&job, &f, 4);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), -EBUSY);
	ck_assert_int_eq(job.num_done, 0);
	job.job.core_mask = 0xf;
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_uint_eq(job.job.result.core, 0);
	device_job_end(&job);
	device_unblock(&blocker, &f);
	device_fixture_end(&f);
}
END_TEST

/* K100 K102: a copy is a job like others, on any core, on bytes it is given */
START_TEST(copy_job_moves_strided_elements)
{
	const struct qbnpu_copy_shape shape = {
		.rank = 2,
		.element_size = 2,
		.dims = { 3, 4 },
		.src = { .strides = { 2, 6 } },
		.dst = { .strides = { 8, 2 } },
	};
	uint16_t src[12], dst[12];
	struct device_job job;
	struct device_fixture f;
	uint16_t i, j;

	device_fixture_begin(&f, "aries-rb");
	for (i = 0; i < 12; i++)
		src[i] = (uint16_t)(i * 300);
	device_job_begin(&job, NULL, NULL);
	job.job.type = QBNPU_JOB_COPY;
	job.job.copy = &shape;
	job.job.copy_src = src;
	job.job.copy_dst = dst;
	ck_assert_int_eq(_i ? qbnpu_npu_run(f.npu, &job.job)
			    : device_job_submit_wait(f.npu, &job),
			 0);
	for (i = 0; i < 3; i++)
		for (j = 0; j < 4; j++)
			ck_assert_uint_eq(dst[i * 4 + j], src[j * 3 + i]);
	ck_assert_uint_eq(qbnpu_npu_get_counters(f.npu)->copy_bytes, 24);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* DV10: at the first job that needs it; named after the core */
START_TEST(threads_start_when_needed)
{
	const long before = qbrt_test_count_threads();
	struct device_blocker blocker;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "aries-rb");
	ck_assert_int_eq(qbrt_test_count_threads(), before);
	device_fixture_job(&job, &f, 1 << 10);
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), 0);
	ck_assert_int_eq(qbrt_test_count_threads(), before + 1);
	ck_assert_str_eq(job.thread_name, "qbrt-core1.2");
	device_job_end(&job);
	device_block(&blocker, &f, 0);
	ck_assert_int_eq(qbrt_test_count_threads(), before + 2);
	device_unblock(&blocker, &f);
	qbnpu_npu_close(f.npu);
	/* a joined thread leaves /proc a moment later */
	while (qbrt_test_count_threads() != before)
		(void)sched_yield();
	f.npu = device_open("regulus-ra");
	device_fixture_end(&f);
}
END_TEST

static atomic_int num_signals;

static void count_signal(int number)
{
	(void)number;
	num_signals++;
}

/* DV10: a signal to the process is never taken by a core's thread */
START_TEST(core_threads_take_no_signals)
{
	struct device_blocker blocker;
	struct device_fixture f;
	sigset_t set;

	device_fixture_begin(&f, "regulus-ra");
	device_block(&blocker, &f, 0);
	(void)signal(SIGUSR1, count_signal);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
	device_unblock(&blocker, &f);
	ck_assert_int_eq(num_signals, 0);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	ck_assert_int_eq(num_signals, 1);
	device_fixture_end(&f);
}
END_TEST

/* DV11 NC43: the caller's rounding mode is its own again afterwards */
START_TEST(inline_run_keeps_the_callers_float_modes)
{
	volatile float tiny = 0x1p-126f, half = 0.5f;
	struct device_job job;
	struct device_fixture f;

	device_fixture_begin(&f, "regulus-ra");
	ck_assert_int_eq(fesetround(FE_UPWARD), 0);
	device_fixture_job(&job, &f, 1);
	ck_assert_int_eq(qbnpu_npu_run(f.npu, &job.job), 0);
	ck_assert_int_eq(fegetround(), FE_UPWARD);
	ck_assert(tiny * half > 0);
	ck_assert_int_eq(fesetround(FE_TONEAREST), 0);
	device_job_end(&job);
	device_fixture_end(&f);
}
END_TEST

/* A program that squares two numbers. */
static void make_float_program(struct prog *prog)
{
	uint16_t in, out;

	prog_begin(prog);
	in = prog_input(prog, QBNPU_DTYPE_F32, DIMS(2));
	out = prog_output(prog, QBNPU_DTYPE_F32, DIMS(2));
	prog_unary(prog, QBNPU_UNARY_SQUARE, in, out, 0, 0);
	prog_finish(prog);
}

/* NC43: nearest, and denormals are flushed, on a core and inline alike */
START_TEST(cores_round_to_nearest_and_flush_denormals)
{
	const float input[] = { 0x1p-64f, 1.1f };
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct device_fixture f;
	struct prog prog;
	float *output;

	device_fixture_begin(&f, "regulus-ra");
	make_float_program(&prog);
	device_load(f.npu, &prog, 0, &program);
	device_memory_alloc(&memory, &program, 1);
	memcpy(device_memory_at(&memory, 0, 0), input, sizeof(input));
	output = device_memory_at(&memory, 1, 0);
	device_job_begin(&job, &program, &memory);
	(void)fesetround(FE_DOWNWARD);
	ck_assert_int_eq(_i ? qbnpu_npu_run(f.npu, &job.job)
			    : device_job_submit_wait(f.npu, &job),
			 0);
	(void)fesetround(FE_TONEAREST);
	ck_assert(output[0] == 0);
	ck_assert(output[1] == 1.1f * 1.1f);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	device_fixture_end(&f);
}
END_TEST

/* The done() of a sealed child: waking nobody makes no system call. */
static void do_nothing(struct qbnpu_job *job)
{
	(void)job;
}

/* From here on this process may exit, and dies of any other system call. */
static void seal_process(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { qbrt_array_size(filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		(void)syscall(SYS_exit, 1);
}

/* Inline runs in a sealed child, after a look at the clock; its wait status. */
static int run_sealed(struct device_fixture *f, int num_runs)
{
	struct device_job job;
	int i, status;
	pid_t pid;

	device_fixture_job(&job, f, 1);
	job.job.done = do_nothing;
	pid = fork();
	if (!pid) {
		seal_process();
		(void)qbrt_now_ns();
		for (i = 0; i < num_runs; i++) {
			job.job.is_started = 0;
			job.job.is_complete = 0;
			atomic_store(&job.job.next_item, 0);
			if (qbnpu_npu_run(f->npu, &job.job) ||
			    job.job.result.status)
				(void)syscall(SYS_exit, 2);
		}
		(void)syscall(SYS_exit, 0);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	device_job_end(&job);
	return status;
}

/* DV11: no system call at all */
START_TEST(inline_run_makes_no_system_call)
{
	struct device_fixture f;
	bool has_quiet_clock;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("sanitizers make system calls");
	device_fixture_begin(&f, "regulus-ra");
	has_quiet_clock = !run_sealed(&f, 0);
	if (has_quiet_clock)
		ck_assert_int_eq(run_sealed(&f, 100), 0);
	device_fixture_end(&f);
	if (!has_quiet_clock)
		qbrt_test_note_skip("no seccomp, or a clock without vDSO");
}
END_TEST

/* DV10 BE19: nothing is allocated between load and unload */
START_TEST(running_allocates_nothing)
{
	struct device_job job;
	struct device_fixture f;
	int i;

	device_fixture_begin(&f, "aries-rb");
	device_fixture_job(&job, &f, 1);
	/* the thread of core 0 starts here */
	ck_assert_int_eq(device_job_submit_wait(f.npu, &job), 0);
	device_job_end(&job);
	for (i = 0; i < 100; i++) {
		device_fixture_job(&job, &f, 1);
		count_alloc_begin(0);
		if (i % 2)
			(void)qbnpu_npu_submit(f.npu, &job.job, NULL);
		else
			(void)qbnpu_npu_run(f.npu, &job.job);
		while (!device_job_is_done(&job))
			(void)sched_yield();
		ck_assert_int_eq(count_alloc_end(), 0);
		device_job_end(&job);
	}
	device_fixture_end(&f);
}
END_TEST

/* Two devices share nothing (Q122). */
START_TEST(devices_are_independent)
{
	struct device_fixture a, b;
	struct device_blocker blocker;
	struct device_job job;

	device_fixture_begin(&a, "regulus-ra");
	device_fixture_begin(&b, "regulus-ra");
	device_block(&blocker, &a, 0);
	device_fixture_job(&job, &b, 1);
	ck_assert_int_eq(device_job_submit_wait(b.npu, &job), 0);
	device_fixture_check(&b);
	ck_assert_uint_eq(device_core_state(b.npu, 0).jobs, 1);
	ck_assert_uint_eq(device_core_state(a.npu, 0).jobs, 0);
	device_job_end(&job);
	device_unblock(&blocker, &a);
	device_fixture_end(&a);
	device_fixture_end(&b);
}
END_TEST

/* Inline runs of several threads and queued items at once. */
struct worker {
	pthread_t thread;
	struct device_fixture *f;
	uint8_t value;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct device_memory memory;
	struct device_job job;
	int i;

	device_memory_alloc(&memory, &worker->f->program, 3);
	for (i = 0; i < 200; i++) {
		memset(device_memory_at(&memory, 0, 0), worker->value + i, 64);
		memset(device_memory_at(&memory, 1, 0), 0, 64);
		device_job_begin(&job, &worker->f->program, &memory);
		job.job.priority = -(i % 3);
		job.job.item_count = i % 2 ? 1 : 3;
		if (i % 2 == 0 || qbnpu_npu_run(worker->f->npu, &job.job))
			ck_assert_int_eq(qbnpu_npu_submit(worker->f->npu,
							  &job.job, NULL),
					 0);
		if (i % 5 == 4)
			qbnpu_npu_cancel(worker->f->npu, &job.job,
					 QBNPU_CAUSE_CANCELLED);
		if (!device_job_wait(&job))
			ck_assert_mem_eq(device_memory_at(&memory, 0, 0),
					 device_memory_at(&memory, 1, 0), 64);
		device_job_end(&job);
	}
	device_memory_check(&memory);
	device_memory_free(&memory);
	return NULL;
}

/* CT10: any thread may submit, run and cancel at any time */
START_TEST(threads_share_a_device)
{
	struct worker workers[6];
	struct qbnpu_counters *counters;
	struct device_fixture f;
	int i;

	device_fixture_begin(&f, _i ? "aries-rb" : "regulus-ra");
	for (i = 0; i < 6; i++) {
		workers[i] =
			(struct worker){ .f = &f, .value = (uint8_t)(i * 40) };
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work,
						&workers[i]),
				 0);
	}
	for (i = 0; i < 6; i++)
		(void)pthread_join(workers[i].thread, NULL);
	counters = qbnpu_npu_get_counters(f.npu);
	ck_assert_uint_eq(counters->submitted, 1200);
	ck_assert_uint_eq(counters->completed + counters->cancelled, 1200);
	device_fixture_end(&f);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(inline_run_is_on_the_callers_thread),
		QBRT_TEST(inline_run_needs_an_idle_core),
		QBRT_LOOP_TEST(copy_job_moves_strided_elements, 2),
		QBRT_TEST(threads_start_when_needed),
		QBRT_TEST(core_threads_take_no_signals),
		QBRT_TEST(inline_run_keeps_the_callers_float_modes),
		QBRT_LOOP_TEST(cores_round_to_nearest_and_flush_denormals, 2),
		QBRT_TEST(inline_run_makes_no_system_call),
		QBRT_TEST(running_allocates_nothing),
		QBRT_TEST(devices_are_independent),
		QBRT_LOOP_TEST(threads_share_a_device, 2),
	};

	return qbrt_test_run("core", tests, qbrt_array_size(tests));
}
