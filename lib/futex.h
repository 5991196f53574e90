/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word of this process until it changes. Time is 64 bits wide
 * whatever time_t is: where the kernel has two futex calls, the one that takes
 * such times is called.
 */
#ifndef QBRT_FUTEX_H
#define QBRT_FUTEX_H

#include <linux/futex.h>
#include <linux/time_types.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util.h"

#ifdef SYS_futex_time64
#define QBRT_SYS_FUTEX SYS_futex_time64
#else
#define QBRT_SYS_FUTEX SYS_futex
#endif

/*
 * Sleeps while *word is value, until a wake, a signal or the absolute time
 * (INT64_MAX: none). The caller looks again, whatever it was.
 */
static inline void qbrt_futex_wait(atomic_uint *word, unsigned int value,
				   int64_t deadline_ns)
{
	const struct __kernel_timespec until = {
		.tv_sec = deadline_ns / QBRT_NS_PER_SEC,
		.tv_nsec = deadline_ns % QBRT_NS_PER_SEC,
	};

	(void)syscall(QBRT_SYS_FUTEX, word, FUTEX_WAIT_BITSET_PRIVATE, value,
		      deadline_ns == INT64_MAX ? NULL : &until, NULL,
		      FUTEX_BITSET_MATCH_ANY);
}

/* Wakes up to num threads. The word may be gone by then. */
static inline void qbrt_futex_wake(atomic_uint *word, int num)
{
	(void)syscall(QBRT_SYS_FUTEX, word, FUTEX_WAKE_PRIVATE, num, NULL, NULL,
		      0);
}

#endif
