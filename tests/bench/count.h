/* SPDX-License-Identifier: MIT */
/*
 * What the counting programs share. Under callgrind, calls before count_begin
 * are warm-up and are not counted (counts gives it to --zero-before).
 */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

/* A sanitizer has an allocator and system calls of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNT_IS_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNT_IS_INSTRUMENTED 1
#endif
#endif

#define COUNT_WARM_UPS 100
#define COUNT_CALLS 1000

/* Not inlined, so that callgrind sees where the counting begins. */
__attribute__((noinline, unused)) static void count_begin(void)
{
	__asm__ volatile("");
}

#endif
