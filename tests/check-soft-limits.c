// SPDX-License-Identifier: MIT
/*
 * The software driver where something runs out: threads, descriptors, stack;
 * and what it does not spend as long as nothing does.
 */
#include "check-soft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/core.h"
#include "no-threads.h"
#include "soft/soft.h"
#include "util.h"

/* What one SUBMIT may take, the library's own call above it aside. */
#define MAX_STACK_USE 9216
#define STACK_SIZE ((size_t)32 << 10)
#define PATTERN 0x5c

#define NUM_CALLERS 4
#define NUM_CALLS 20

struct caller {
	pthread_t thread;
	pthread_barrier_t *start;
	struct kmd_job job;
	int num_bad;
};

/* Callers that have seen the job that they are to wait for. */
static atomic_int num_ready;

/* Returns when the first core has the job that the others are to wait for. */
static void wait_busy(void)
{
	struct qbnpu_core_state state = { 0 };

	while (!state.is_busy) {
		(void)sched_yield();
		(void)qbnpu_npu_get_core_states(qbnpu_soft_npu(0), &state, 1);
	}
}

static void wait_for_a_waiting_run(void)
{
	struct qbnpu_npu *npu = qbnpu_soft_npu(0);
	bool is_waiting = false;

	while (!is_waiting) {
		(void)sched_yield();
		(void)pthread_mutex_lock(&npu->lock);
		is_waiting = npu->num_waiting_runs > 0;
		(void)pthread_mutex_unlock(&npu->lock);
	}
}

static void *call_once(void *arg)
{
	struct caller *caller = arg;

	(void)pthread_barrier_wait(caller->start);
	if (kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &caller->job.submit) ||
	    caller->job.wait.status != -ECANCELED)
		caller->num_bad++;
	return NULL;
}

static void *call_often(void *arg)
{
	struct caller *caller = arg;

	wait_busy();
	atomic_fetch_add(&num_ready, 1);
	for (int i = 0; i < NUM_CALLS; i++) {
		if (kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &caller->job.submit) ||
		    caller->job.wait.state != DRM_QBNPU_JOB_COMPLETE ||
		    caller->job.wait.status)
			caller->num_bad++;
	}
	return NULL;
}

/* Q337: more callers than cores wait, whatever the system has left */
START_TEST(callers_share_a_core_without_threads)
{
	static struct caller callers[NUM_CALLERS];
	uint32_t queues[NUM_CALLERS];
	struct kmd_buffer outputs[NUM_CALLERS];
	pthread_barrier_t start;
	struct kmd_set set;
	bool is_forbidden;

	kmd_begin_set(0, &set);
	(void)pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < NUM_CALLERS; i++) {
		kmd_alloc(&outputs[i], KMD_BYTES);
		queues[i] = kmd_create_queue(0, NULL);
		kmd_prepare(&callers[i].job, queues[i],
			    i ? set.copy64 : kmd_load_slow(60), &set.input,
			    &outputs[i]);
		kmd_set_wait(&callers[i].job);
		callers[i].start = &start;
		ck_assert_int_eq(pthread_create(&callers[i].thread, NULL,
						i ? call_often : call_once,
						&callers[i]),
				 0);
	}
	is_forbidden = forbid_threads();
	(void)pthread_barrier_wait(&start);
	if (is_forbidden)
		wait_for_a_waiting_run();
	/* whoever looks after the cancel would look for ever */
	while (atomic_load(&num_ready) < NUM_CALLERS - 1)
		(void)sched_yield();
	kmd_cancel(queues[0], 1);
	for (int i = 0; i < NUM_CALLERS; i++) {
		ck_assert_int_eq(pthread_join(callers[i].thread, NULL), 0);
		ck_assert_int_eq(callers[i].num_bad, 0);
		if (i)
			ck_assert_mem_eq(outputs[i].data, set.input.data,
					 KMD_BYTES);
		kmd_free(&outputs[i]);
	}
	(void)pthread_barrier_destroy(&start);
	kmd_end_set(&set);
	allow_threads();
	if (!is_forbidden)
		qbrt_test_note_skip("threads cannot be forbidden here");
}
END_TEST

/* K080 K092: step 14 for what the caller does not run itself */
START_TEST(without_a_thread_nothing_is_queued)
{
	struct kmd_set set;
	struct kmd_job job;
	bool is_forbidden;

	kmd_begin_set(0, &set);
	/* the file's own thread is there, so it is a core's that is missing */
	kmd_prepare_empty(&job, set.queue);
	kmd_wait(set.queue, kmd_submit(&job));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	is_forbidden = forbid_threads();
	if (is_forbidden) {
		kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, ENOMEM,
			       offsetof(struct drm_qbnpu_submit, fail_what),
			       sizeof(job.submit));
		ck_assert_uint_eq(kmd_get_info(set.output.handle).jobs, 0);
	}
	kmd_set_wait(&job);
	ck_assert_uint_eq(kmd_submit(&job), 2);
	ck_assert_int_eq(job.wait.status, 0);
	kmd_end_set(&set);
	allow_threads();
	if (!is_forbidden)
		qbrt_test_note_skip("threads cannot be forbidden here");
}
END_TEST

/* K303: the library can tell which limit it was */
START_TEST(no_descriptor_left_is_told_as_such)
{
	struct drm_qbnpu_bo_create create = { .size = 4096, .limit = 5 };
	struct rlimit old, limit;
	int lowest;

	kmd_begin(0);
	lowest = dup(0);
	ck_assert_int_ge(lowest, 0);
	(void)close(lowest);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = (rlim_t)lowest;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	kmd_refuse(DRM_IOCTL_QBNPU_BO_CREATE, &create, EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	kmd_end();
}
END_TEST

/* From here on a file that is opened, or a look at the system, is the end. */
static bool forbid_looking(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sysinfo, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { qbrt_array_size(filter), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a child: 0, or the number of what went wrong. */
static int create_without_looking(void)
{
	struct drm_qbnpu_bo_create create = { .size = 4096 };
	int file;

	if (kmd->open(&kmd_options, "soft:0", &file))
		return 1;
	if (!forbid_looking())
		return 2;
	for (uint32_t i = 0; i < QBNPU_SOFT_NUM_REGIONS; i++) {
		create.region = i;
		if (kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create))
			return 3;
	}
	return 0;
}

/* K301 K303: pages and limits are looked for when they are missed */
START_TEST(a_small_buffer_looks_at_no_file)
{
	uint64_t num_pages, num_free;
	int status;
	pid_t child;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("sanitizers make system calls");
	qbnpu_soft_query_huge_pages(&num_pages, &num_free);
	if (num_pages)
		QBRT_TEST_SKIP("frame numbers of 2 MiB pages are in a file");
	kmd_begin(0);
	child = fork();
	if (!child)
		_exit(create_without_looking());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	kmd_end();
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		QBRT_TEST_SKIP("no seccomp here");
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static bool drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	const struct __user_cap_data_struct none[2] = { 0 };

	return !syscall(SYS_capset, &header, none);
}

static uint64_t query_client_limit(uint32_t region)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.index = region,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return memory.client_limit;
}

/* K140 */
START_TEST(the_limit_of_a_file_is_what_may_be_locked)
{
	const struct rlimit limit = { 4 << 20, 4 << 20 };
	uint64_t before;

	kmd_begin(0);
	before = query_client_limit(0);
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	if (!geteuid() && before == UINT64_MAX)
		ck_assert_uint_eq(query_client_limit(0), UINT64_MAX);
	ck_assert(drop_capabilities());
	for (uint32_t i = 0; i < QBNPU_SOFT_NUM_REGIONS; i++)
		ck_assert_uint_eq(query_client_limit(i), 4 << 20);
	kmd_end();
}
END_TEST

/* What a thread on a stack of the test's own used below its first frame. */
struct stack_use {
	unsigned long request;
	void *arg;
	uintptr_t frame;
	int err;
};

static void *call_on_small_stack(void *arg)
{
	struct stack_use *use = arg;

	use->frame = (uintptr_t)__builtin_frame_address(0);
	use->err = kmd_call(use->request, use->arg);
	return NULL;
}

static void ck_assert_little_stack(unsigned long request, void *arg)
{
	struct stack_use use = { .request = request, .arg = arg };
	uint8_t *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	size_t unused = 0;

	ck_assert_ptr_ne(stack, MAP_FAILED);
	/* functions are found at their first call, which needs stack too */
	ck_assert_int_eq(kmd_call(request, arg), 0);
	memset(stack, PATTERN, STACK_SIZE);
	ck_assert_int_eq(pthread_attr_init(&attr), 0);
	ck_assert_int_eq(pthread_attr_setstack(&attr, stack, STACK_SIZE), 0);
	ck_assert_int_eq(
		pthread_create(&thread, &attr, call_on_small_stack, &use), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(use.err, 0);
	while (stack[unused] == PATTERN)
		unused++;
	ck_assert_uint_lt(use.frame - (uintptr_t)(stack + unused),
			  MAX_STACK_USE);
	(void)pthread_attr_destroy(&attr);
	(void)munmap(stack, STACK_SIZE);
}

/* K081: a thread of an application may have little stack */
START_TEST(a_submit_needs_little_stack)
{
	struct kmd_set set;
	struct kmd_job job;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("a sanitizer's frames are larger");
	kmd_begin_set(0, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_set_wait(&job);
	ck_assert_little_stack(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
	ck_assert_int_eq(job.wait.status, 0);
	kmd_end_set(&set);
}
END_TEST

/* K030: nor does an answer lie there, how long it may be */
START_TEST(a_query_needs_little_stack)
{
	static uint8_t answer[16384];
	struct drm_qbnpu_query query;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("a sanitizer's frames are larger");
	kmd_begin(0);
	for (uint32_t i = 0; i <= DRM_QBNPU_QUERY_EVENTS; i++) {
		if (i == DRM_QBNPU_QUERY_FIRMWARE)
			continue;
		query = (struct drm_qbnpu_query){
			.type = i,
			.data = (uintptr_t)answer,
			.size = sizeof(answer),
		};
		ck_assert_little_stack(DRM_IOCTL_QBNPU_QUERY, &query);
	}
	kmd_end();
}
END_TEST

void soft_limit_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(callers_share_a_core_without_threads),
		QBRT_TEST(without_a_thread_nothing_is_queued),
		QBRT_TEST(no_descriptor_left_is_told_as_such),
		QBRT_TEST(a_small_buffer_looks_at_no_file),
		QBRT_TEST(the_limit_of_a_file_is_what_may_be_locked),
		QBRT_TEST(a_submit_needs_little_stack),
		QBRT_TEST(a_query_needs_little_stack),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
