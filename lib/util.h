/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic that cannot wrap unnoticed, rounding, the way from a member to
 * its struct, and answers in structs of any age. A hard limit of 90 lines: what
 * has a home elsewhere goes there.
 */
#ifndef QBRT_UTIL_H
#define QBRT_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* At the definition of each function of qbrt.h; all else is hidden (SH5). */
#define QBRT_API __attribute__((visibility("default")))

#define QBRT_NS_PER_SEC INT64_C(1000000000)
#define QBRT_NS_PER_MS INT64_C(1000000)

#define qbrt_array_size(array) (sizeof(array) / sizeof((array)[0]))

#define qbrt_container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* true: the sum or product does not fit, *result is unspecified */
static inline bool qbrt_add_overflows(uint64_t a, uint64_t b, uint64_t *result)
{
	return __builtin_add_overflow(a, b, result);
}

static inline bool qbrt_mul_overflows(uint64_t a, uint64_t b, uint64_t *result)
{
	return __builtin_mul_overflow(a, b, result);
}

static inline bool qbrt_is_power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

/* granularity: a power of two; the caller knows that value + granularity fits */
static inline uint64_t qbrt_round_up(uint64_t value, uint64_t granularity)
{
	return (value + granularity - 1) & ~(granularity - 1);
}

static inline int64_t qbrt_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * QBRT_NS_PER_SEC + ts.tv_nsec;
}

/* The absolute time that lies duration (>= 0) after now; far = INT64_MAX. */
static inline int64_t qbrt_deadline_ns(int64_t duration)
{
	int64_t deadline;

	if (__builtin_add_overflow(qbrt_now_ns(), duration, &deadline))
		return INT64_MAX;
	return deadline;
}

/* An answer of known bytes into a caller's struct of size (Q735). */
static inline void qbrt_answer(void *to, size_t size, const void *from,
			       size_t known)
{
	memcpy(to, from, size < known ? size : known);
	if (size > known)
		memset((char *)to + known, 0, size - known);
}

#endif
