/* SPDX-License-Identifier: MIT */
/*
 * What the programs under callgrind share: calls before count_begin are warm-up
 * and are not counted (counts gives it to --zero-before).
 */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#define COUNT_WARM_UPS 100
#define COUNT_CALLS 1000

/* Not inlined, so that callgrind sees where the counting begins. */
__attribute__((noinline)) static void count_begin(void)
{
	__asm__ volatile("");
}

#endif
