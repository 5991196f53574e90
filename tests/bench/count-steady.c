// SPDX-License-Identifier: MIT
/*
 * P30 P58 P134: what 1,000 inferences in the steady state copy, allocate and ask
 * of the system. A child makes them between two calls of getppid; the parent,
 * which traces it, counts the system calls between these. Calls that sleep are
 * counted by test-zero-syscalls.sh.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count-alloc.h"
#include "count.h"
#include "subject.h"

#define NUM_CALLS 1000
#define NUM_WARM_UPS 10

#define NUM_BYTES 64 /* of subject_nop, in and out */

/* What the child has found; shared with it. */
struct finding {
	bool is_whole;
	long num_allocations;
	struct bench_counters counters;
};

/* What a call is given. */
struct kind {
	const char *name;
	bool (*infer)(const struct subject *subject);
	long nbytes; /* copied by each call */
};

static bool infer_pinned(const struct subject *subject)
{
	return subject_infer(subject, 0);
}

static bool infer_arrays(const struct subject *subject, void *from, void *to)
{
	const int64_t shape[] = { NUM_BYTES };
	const struct qbrt_array in = {
		.data = from,
		.shape = shape,
		.ndim = 1,
		.dtype = QBRT_DTYPE_UINT8,
	};
	struct qbrt_array out = in;

	out.data = to;
	return !qbrt_model_infer(subject->model, NULL, &in, 1, &out, 1);
}

static bool infer_views(const struct subject *subject)
{
	return infer_arrays(subject, qbrt_pinned_memory_get_data(subject->in),
			    qbrt_pinned_memory_get_data(subject->out));
}

static bool infer_host(const struct subject *subject)
{
	uint8_t from[NUM_BYTES] = { 0 };
	uint8_t to[NUM_BYTES];

	return infer_arrays(subject, from, to);
}

static const struct kind kinds[] = {
	{ "P30 pinned memory", infer_pinned, 0 },
	{ "P58 arrays in pinned memory", infer_views, 0 },
	{ "P58 other arrays", infer_host, 2L * NUM_BYTES },
};

static void make_calls(const struct kind *kind, struct finding *finding)
{
	const struct bench_case bench_case = { .placement = BENCH_FREE };
	struct subject *subject;
	bool is_good;

	subject_setup();
	subject = subject_open(&bench_case, &subject_nop);
	is_good = subject;
	for (int i = 0; i < NUM_WARM_UPS && is_good; i++)
		is_good = kind->infer(subject);
	count_alloc_begin(0);
	(void)syscall(SYS_getppid);
	for (int i = 0; i < NUM_CALLS && is_good; i++)
		is_good = kind->infer(subject);
	(void)syscall(SYS_getppid);
	finding->num_allocations = count_alloc_end();
	if (!is_good)
		return;
	subject_count(subject, &finding->counters);
	finding->is_whole = finding->counters.jobs == NUM_CALLS + NUM_WARM_UPS;
	subject_close(subject);
}

/* Calls between the two markers, -1: they did not come. */
static long trace(pid_t child)
{
	struct __ptrace_syscall_info info;
	bool is_between = false;
	int num_markers = 0;
	long num = 0;
	int state;

	if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD))
		return -1;
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, child, 0, 0) ||
		    waitpid(child, &state, 0) != child || WIFEXITED(state) ||
		    WIFSIGNALED(state))
			return num_markers == 2 ? num : -1;
		if (!WIFSTOPPED(state) || WSTOPSIG(state) != (SIGTRAP | 0x80))
			continue;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info),
			   &info) <= 0 ||
		    info.op != PTRACE_SYSCALL_INFO_ENTRY)
			continue;
		if (info.entry.nr == SYS_getppid) {
			is_between = !is_between;
			num_markers++;
		} else {
			num += is_between;
		}
	}
}

static bool show(const char *what, long num, long expected)
{
	printf("  %-18s %ld in %d calls\n", what, num, NUM_CALLS);
	return num == expected;
}

static bool count(const struct kind *kind, struct finding *finding)
{
	bool is_good = true;
	bool is_traced;
	long num = 0;
	pid_t child;
	int state;

	finding->is_whole = false;
	printf("%s\n", kind->name);
	(void)fflush(stdout);
	child = fork();
	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			make_calls(kind, finding);
		else if (!raise(SIGSTOP))
			make_calls(kind, finding);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &state, 0) != child)
		return false;
	is_traced = WIFSTOPPED(state);
	if (is_traced)
		num = trace(child);
	if (!finding->is_whole)
		return false;
	is_good &= show("copied bytes",
			(long)finding->counters.copied_nbytes -
				NUM_WARM_UPS * kind->nbytes,
			NUM_CALLS * kind->nbytes);
	is_good &= show("heap allocations", finding->num_allocations, 0);
#ifdef COUNT_IS_INSTRUMENTED
	(void)num;
	printf("  system calls       not counted: a sanitizer makes its own\n");
#else
	if (is_traced)
		is_good &= show("system calls", num, 0);
	else
		printf("  system calls       not counted: may not trace\n");
#endif
	return is_good;
}

int main(void)
{
	struct finding *finding =
		mmap(NULL, sizeof(*finding), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool is_good = finding != MAP_FAILED;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && is_good; i++)
		is_good = count(&kinds[i], finding);
	return is_good ? 0 : 1;
}
