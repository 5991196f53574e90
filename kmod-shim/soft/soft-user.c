// SPDX-License-Identifier: MIT
/*
 * Memory that the caller names by address: copied once in and once out, so
 * that what is checked is what is used, and a bad address is -EFAULT instead
 * of a signal. The caller's arrays of a SUBMIT usually lie on its own stack;
 * what is in use there cannot vanish below it, so it is copied without a
 * system call. Everything else goes through the kernel, which looks itself.
 */
#include "soft/soft-user.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

_Thread_local struct qbnpu_soft_stack qbnpu_soft_own_stack;

void qbnpu_soft_find_stack(struct qbnpu_soft_stack *stack)
{
	pthread_attr_t attr;
	void *start;
	size_t size;

	stack->end = 1;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &start, &size)) {
		stack->start = (uintptr_t)start;
		stack->end = (uintptr_t)start + size;
	}
	(void)pthread_attr_destroy(&attr);
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
	struct iovec remote = { .iov_base = qbnpu_soft_to_pointer(src),
				.iov_len = size };
	ssize_t copied;

	if (!size)
		return 0;
	if (qbnpu_soft_is_on_stack(qbnpu_soft_get_stack(), src, size)) {
		memcpy(dst, qbnpu_soft_to_pointer(src), size);
		return 0;
	}
	if (src != (uintptr_t)src)
		return -EFAULT;
	copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	if (is_refused(copied)) {
		memcpy(dst, qbnpu_soft_to_pointer(src), size);
		return 0;
	}
	return copied == (ssize_t)size ? 0 : -EFAULT;
}

int qbnpu_soft_copy_to_user(uint64_t dst, const void *src, size_t size)
{
	struct iovec local = { .iov_len = size };
	struct iovec remote = { .iov_base = qbnpu_soft_to_pointer(dst),
				.iov_len = size };
	ssize_t copied;

	if (!size)
		return 0;
	if (qbnpu_soft_is_on_stack(qbnpu_soft_get_stack(), dst, size)) {
		memcpy(qbnpu_soft_to_pointer(dst), src, size);
		return 0;
	}
	if (dst != (uintptr_t)dst)
		return -EFAULT;
	local.iov_base = qbnpu_soft_to_pointer((uintptr_t)src);
	copied = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
	if (is_refused(copied)) {
		memcpy(qbnpu_soft_to_pointer(dst), src, size);
		return 0;
	}
	return copied == (ssize_t)size ? 0 : -EFAULT;
}

int qbnpu_soft_copy_elements(const struct qbnpu_soft_stack *stack, void *dst,
			     size_t known, uint64_t src, size_t size,
			     uint32_t count, uint32_t *first_bad)
{
	uint8_t element[QBNPU_SOFT_MAX_ELEMENT];

	*first_bad = count;
	if (size == known && qbnpu_soft_is_on_stack(stack, src, count * size)) {
		memcpy(dst, qbnpu_soft_to_pointer(src), count * size);
		return 0;
	}
	if (size == known)
		return qbnpu_soft_copy_from_user(dst, src, count * size);
	for (uint32_t i = 0; i < count; i++) {
		if (qbnpu_soft_copy_from_user(element, src + i * size, size))
			return -EFAULT;
		memcpy((uint8_t *)dst + i * known, element, known);
		if (*first_bad == count &&
		    !qbnpu_soft_is_zero(element + known, size - known))
			*first_bad = i;
	}
	return 0;
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
