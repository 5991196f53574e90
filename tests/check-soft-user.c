// SPDX-License-Identifier: MIT
/* Copies from and to the caller: its own stack, others' memory, bad addresses. */
#include "check-soft.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "soft/soft-registry.h"
#include "soft/soft.h"
#include "util.h"

/* more than any stack has above a frame */
#define LARGE ((size_t)64 << 20)

#define PAGE 4096

#define ADDRESS(pointer) ((uintptr_t)(pointer))

static void copy_both_ways(uint8_t *memory, size_t size)
{
	uint8_t *copy = calloc(1, size);

	ck_assert_ptr_nonnull(copy);
	memset(memory, 0x31, size);
	ck_assert_int_eq(qbnpu_soft_copy_from_user(copy, ADDRESS(memory), size),
			 0);
	ck_assert_mem_eq(copy, memory, size);
	memset(copy, 0x32, size);
	ck_assert_int_eq(qbnpu_soft_copy_to_user(ADDRESS(memory), copy, size),
			 0);
	ck_assert_mem_eq(copy, memory, size);
	free(copy);
}

static void *copy_in_thread(void *arg)
{
	uint8_t own[128];

	copy_both_ways(own, sizeof(own));
	copy_both_ways(arg, 128);
	return NULL;
}

/* K007: own stack, heap, another thread's stack */
START_TEST(memory_is_copied_wherever_it_lies)
{
	uint8_t stack[128];
	uint8_t *heap = malloc(1 << 20);
	pthread_t thread;

	ck_assert_ptr_nonnull(heap);
	copy_both_ways(stack, sizeof(stack));
	copy_both_ways(heap, 1 << 20);
	ck_assert_int_eq(pthread_create(&thread, NULL, copy_in_thread, stack),
			 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	free(heap);
}
END_TEST

/* For the handler, which may not allocate, and so not assert. */
static uint8_t *outside;
static uint8_t seen_own[64], seen_outside[64];
static int own_err, outside_err;

static void copy_in_handler(int signal)
{
	uint8_t own[64];

	(void)signal;
	memset(own, 0x41, sizeof(own));
	own_err =
		qbnpu_soft_copy_from_user(seen_own, ADDRESS(own), sizeof(own));
	outside_err = qbnpu_soft_copy_from_user(seen_outside, ADDRESS(outside),
						sizeof(seen_outside));
}

/* A thread whose frame is not on its own stack takes the long way. */
START_TEST(a_frame_on_another_stack_works)
{
	struct sigaction action = {
		.sa_handler = copy_in_handler,
		.sa_flags = SA_ONSTACK,
	};
	uint8_t on_stack[64];
	stack_t stack = { .ss_size = 1 << 17 };

	stack.ss_sp = malloc(stack.ss_size);
	ck_assert_ptr_nonnull(stack.ss_sp);
	outside = on_stack;
	memset(on_stack, 0x42, sizeof(on_stack));
	/* the thread's first copy looks for its stack, which allocates */
	copy_in_handler(0);
	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
	ck_assert_int_eq(sigaction(SIGUSR2, &action, NULL), 0);
	ck_assert_int_eq(raise(SIGUSR2), 0);
	ck_assert_int_eq(own_err, 0);
	ck_assert_int_eq(outside_err, 0);
	for (size_t i = 0; i < sizeof(on_stack); i++) {
		ck_assert_uint_eq(seen_own[i], 0x41);
		ck_assert_uint_eq(seen_outside[i], 0x42);
	}
	stack.ss_flags = SS_DISABLE;
	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
	free(stack.ss_sp);
}
END_TEST

static sigjmp_buf after_fault;

static void leave_fault(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* K007 K317: never a signal */
START_TEST(bad_addresses_are_told)
{
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const uint64_t bad[] = {
		0, 8, UINT64_MAX, UINT64_MAX - 4096, UINT64_C(1) << 63,
	};
	uint8_t bytes[64] = { 0 };
	uintptr_t top = ADDRESS(__builtin_frame_address(0));

	ck_assert_ptr_ne(pages, MAP_FAILED);
	for (size_t i = 0; i < qbrt_array_size(bad); i++) {
		ck_assert_int_eq(qbnpu_soft_copy_from_user(bytes, bad[i], 64),
				 -EFAULT);
		ck_assert_int_eq(qbnpu_soft_copy_to_user(bad[i], bytes, 64),
				 -EFAULT);
	}
	ck_assert_int_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	ck_assert_int_eq(qbnpu_soft_copy_from_user(
				 bytes, ADDRESS(pages + 4096 - 32), 64),
			 -EFAULT);
	ck_assert_int_eq(mprotect(pages, 4096, PROT_READ), 0);
	ck_assert_int_eq(qbnpu_soft_copy_from_user(bytes, ADDRESS(pages), 64),
			 0);
	ck_assert_int_eq(qbnpu_soft_copy_to_user(ADDRESS(pages), bytes, 64),
			 -EFAULT);
	ck_assert_int_eq(munmap(pages, 8192), 0);
	/* from the stack to beyond its end */
	pages = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(qbnpu_soft_copy_from_user(pages, top, LARGE), -EFAULT);
	ck_assert_int_eq(munmap(pages, LARGE), 0);
}
END_TEST

/* SUBMIT with `wait` on a page of this frame that cannot be written. */
static __attribute__((noinline)) void submit_protected(struct kmd_set *set,
						       int rights)
{
	uint8_t room[3 * PAGE] __attribute__((aligned(PAGE)));
	struct drm_qbnpu_wait *wait = (void *)(room + PAGE);
	struct kmd_job job;

	kmd_prepare(&job, set->queue, set->copy64, &set->input, &set->output);
	kmd_set_wait(&job);
	*wait = job.wait;
	job.submit.wait = ADDRESS(wait);
	ck_assert_int_eq(mprotect(wait, PAGE, rights), 0);
	if (!sigsetjmp(after_fault, 1))
		(void)kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job.submit);
	ck_assert_int_eq(mprotect(wait, PAGE, PROT_READ | PROT_WRITE), 0);
}

/* K007: what cannot be told there harms nobody else */
START_TEST(a_protected_page_of_the_stack_leaves_no_lock)
{
	static const int rights[] = { PROT_NONE, PROT_READ };
	struct sigaction action = { .sa_handler = leave_fault };
	struct qbnpu_soft_file *file;
	struct sigaction old;
	struct kmd_set set;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("a sanitizer looks at the stack itself");
	kmd_begin_set(0, &set);
	file = qbnpu_soft_registry_get_file(kmd_file);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, &old), 0);
	for (size_t i = 0; i < qbrt_array_size(rights); i++) {
		submit_protected(&set, rights[i]);
		ck_assert_int_eq(pthread_mutex_trylock(&file->lock), 0);
		ck_assert_int_eq(pthread_mutex_unlock(&file->lock), 0);
	}
	ck_assert_int_eq(sigaction(SIGSEGV, &old, NULL), 0);
	kmd_end_set(&set);
}
END_TEST

START_TEST(nothing_is_copied_from_nowhere)
{
	ck_assert_int_eq(qbnpu_soft_copy_from_user(NULL, 0, 0), 0);
	ck_assert_int_eq(qbnpu_soft_copy_to_user(8, NULL, 0), 0);
}
END_TEST

void soft_user_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(memory_is_copied_wherever_it_lies),
		QBRT_TEST(a_frame_on_another_stack_works),
		QBRT_TEST(bad_addresses_are_told),
		QBRT_TEST(a_protected_page_of_the_stack_leaves_no_lock),
		QBRT_TEST(nothing_is_copied_from_nowhere),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
