/* SPDX-License-Identifier: MIT */
/*
 * Looking at a word for a short while before sleeping (DV12): what is awaited
 * often comes at once, and waking a thread costs more than looking. Useless,
 * and not to be done, where one CPU has to run the other side.
 */
#ifndef QBNPU_SPIN_H
#define QBNPU_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util.h"

#define QBNPU_SPIN_NS 20000
#define QBNPU_LOOKS_PER_CLOCK 32

static inline bool qbnpu_has_one_cpu(void)
{
	static atomic_int num_cpus;
	cpu_set_t cpus;

	if (!atomic_load_explicit(&num_cpus, memory_order_relaxed)) {
		CPU_ZERO(&cpus);
		atomic_store(&num_cpus,
			     sched_getaffinity(0, sizeof(cpus), &cpus)
				     ? 2
				     : CPU_COUNT(&cpus));
	}
	return atomic_load_explicit(&num_cpus, memory_order_relaxed) == 1;
}

static inline void qbnpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Until the word changes, but no longer than the bound or the absolute time. */
static inline void qbnpu_spin(const atomic_uint *word, unsigned int value,
			      int64_t timeout_ns)
{
	int64_t end_ns = qbrt_now_ns() + QBNPU_SPIN_NS;

	if (timeout_ns < end_ns)
		end_ns = timeout_ns;
	do {
		for (int i = 0; i < QBNPU_LOOKS_PER_CLOCK; i++) {
			if (atomic_load_explicit(word, memory_order_relaxed) !=
			    value)
				return;
			qbnpu_relax();
		}
	} while (qbrt_now_ns() < end_ns);
}

#endif
