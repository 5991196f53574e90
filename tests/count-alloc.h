/* SPDX-License-Identifier: MIT */
/*
 * Counts the allocations of the objects linked into a test program, and fails
 * the n-th. Libc's own are not seen. The program is linked with
 *
 *	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
 *	-Wl,--wrap=strndup,--wrap=posix_memalign,--wrap=aligned_alloc
 *
 * (COUNT_ALLOC_LDFLAGS in tests/Makefile.am), which works under sanitizers and
 * valgrind too.
 */
#ifndef TESTS_COUNT_ALLOC_H
#define TESTS_COUNT_ALLOC_H

/*
 * Starts counting at 0, for all threads. fail_at 1, 2, 3...: that allocation
 * fails with ENOMEM, once; 0: none does.
 */
void count_alloc_begin(long fail_at);

/* Stops counting and failing; returns how many there were since begin. */
long count_alloc_end(void);

#endif
