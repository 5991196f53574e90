// SPDX-License-Identifier: MIT
/*
 * Memory that the caller names by address: copied once in and once out, so
 * that what is checked is what is used, and a bad address is -EFAULT instead
 * of a signal. The caller's arrays of a SUBMIT usually lie on its own stack;
 * what is in use there cannot vanish below it, so it is copied without a
 * system call. Everything else goes through the kernel, which looks itself.
 */
#include "soft/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* This thread's stack; end 0: not looked for yet, 1: not known. */
static _Thread_local uintptr_t stack_start, stack_end;

static void find_stack(void)
{
	pthread_attr_t attr;
	void *start;
	size_t size;

	stack_end = 1;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &start, &size)) {
		stack_start = (uintptr_t)start;
		stack_end = (uintptr_t)start + size;
	}
	(void)pthread_attr_destroy(&attr);
}

/*
 * Between this frame and the stack's end. A thread that runs on another stack
 * (a signal's, a coroutine's) has its frame elsewhere and takes the long way.
 */
static bool is_on_stack(uint64_t address, size_t size)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	if (!stack_end)
		find_stack();
	return frame >= stack_start && frame < stack_end && address >= frame &&
	       address < stack_end && size <= stack_end - address;
}

static void *to_pointer(uint64_t address)
{
	return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/*
 * A sandbox may refuse these two calls; then a bad address is a signal, which
 * still is what a C call with a bad pointer gives.
 */
static bool is_refused(ssize_t copied)
{
	return copied < 0 && (errno == ENOSYS || errno == EPERM);
}

int qbnpu_soft_copy_from_user(void *dst, uint64_t src, size_t size)
{
	struct iovec local = { .iov_base = dst, .iov_len = size };
	struct iovec remote = { .iov_base = to_pointer(src), .iov_len = size };
	ssize_t copied;

	if (!size)
		return 0;
	if (is_on_stack(src, size)) {
		memcpy(dst, to_pointer(src), size);
		return 0;
	}
	if (src != (uintptr_t)src)
		return -EFAULT;
	copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	if (is_refused(copied)) {
		memcpy(dst, to_pointer(src), size);
		return 0;
	}
	return copied == (ssize_t)size ? 0 : -EFAULT;
}

int qbnpu_soft_copy_to_user(uint64_t dst, const void *src, size_t size)
{
	struct iovec local = { .iov_len = size };
	struct iovec remote = { .iov_base = to_pointer(dst), .iov_len = size };
	ssize_t copied;

	if (!size)
		return 0;
	if (is_on_stack(dst, size)) {
		memcpy(to_pointer(dst), src, size);
		return 0;
	}
	if (dst != (uintptr_t)dst)
		return -EFAULT;
	local.iov_base = to_pointer((uintptr_t)src);
	copied = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
	if (is_refused(copied)) {
		memcpy(to_pointer(dst), src, size);
		return 0;
	}
	return copied == (ssize_t)size ? 0 : -EFAULT;
}

bool qbnpu_soft_is_element_size(uint32_t size, size_t min)
{
	return size >= min && size % 8 == 0 && size <= QBNPU_SOFT_MAX_ELEMENT;
}

bool qbnpu_soft_is_zero(const void *bytes, size_t size)
{
	const uint8_t *byte = bytes;

	while (size--) {
		if (*byte++)
			return false;
	}
	return true;
}
