/* SPDX-License-Identifier: MIT */
/*
 * Memory of the caller, by address: see soft-user.c. Private to soft/. None of
 * this is for use under a lock, but what lies on the caller's own stack.
 */
#ifndef QBNPU_SOFT_USER_H
#define QBNPU_SOFT_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QBNPU_SOFT_MAX_ELEMENT 256u

/* end 0: not looked for yet, 1: not known. */
struct qbnpu_soft_stack {
	uintptr_t start, end;
};

/*
 * This thread's. Not of the initial-exec model: that would move all of the
 * library's thread-local memory, its error text too, into what a process has
 * spare for libraries that it opens late, and the opening could fail. So it is
 * found once per request instead.
 */
extern _Thread_local struct qbnpu_soft_stack qbnpu_soft_own_stack;
void qbnpu_soft_find_stack(struct qbnpu_soft_stack *stack);

/* The calling thread's stack, as long as the thread. */
static inline const struct qbnpu_soft_stack *qbnpu_soft_get_stack(void)
{
	struct qbnpu_soft_stack *stack = &qbnpu_soft_own_stack;

	if (!stack->end)
		qbnpu_soft_find_stack(stack);
	return stack;
}

/*
 * Between the calling frame and the stack's end: memory that is in use, so it
 * is there as long as that frame is. A thread that runs on another stack (a
 * signal's, a coroutine's) has its frame elsewhere and takes the long way.
 */
static inline bool qbnpu_soft_is_on_stack(const struct qbnpu_soft_stack *stack,
					  uint64_t address, size_t size)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	return frame >= stack->start && address >= frame &&
	       address < stack->end && size <= stack->end - address;
}

static inline void *qbnpu_soft_to_pointer(uint64_t address)
{
	return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* 0 or -EFAULT; never a signal. No system call on the caller's own stack. */
int qbnpu_soft_copy_from_user(void *dst, uint64_t src, size_t size);
int qbnpu_soft_copy_to_user(uint64_t dst, const void *src, size_t size);

/*
 * An array of count elements of size bytes each, of which dst takes the first
 * known ones. *first_bad: the first element whose rest is not zero, or count.
 */
int qbnpu_soft_copy_elements(const struct qbnpu_soft_stack *stack, void *dst,
			     size_t known, uint64_t src, size_t size,
			     uint32_t count, uint32_t *first_bad);

/* The same where known is a constant; the usual array costs no call. */
static inline __attribute__((always_inline)) int
qbnpu_soft_copy_array(const struct qbnpu_soft_stack *stack, void *dst,
		      size_t known, uint64_t src, size_t size, uint32_t count,
		      uint32_t *first_bad)
{
	const uint8_t *from = qbnpu_soft_to_pointer(src);

	*first_bad = count;
	if (size != known || !qbnpu_soft_is_on_stack(stack, src, count * size))
		return qbnpu_soft_copy_elements(stack, dst, known, src, size,
						count, first_bad);
	for (uint32_t i = 0; i < count; i++)
		memcpy((uint8_t *)dst + i * known, from + i * known, known);
	return 0;
}

/* An element size of K005: at least min, a multiple of 8, at most 256. */
static inline bool qbnpu_soft_is_element_size(uint32_t size, size_t min)
{
	return size >= min && size % 8 == 0 && size <= QBNPU_SOFT_MAX_ELEMENT;
}

bool qbnpu_soft_is_zero(const void *bytes, size_t size);

#endif
