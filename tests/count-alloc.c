// SPDX-License-Identifier: MIT
/*
 * __wrap_ functions that the linker puts in place of the allocator's in every
 * object of the program; __real_ is the allocator itself.
 */
#include "count-alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static atomic_bool is_counting;
static atomic_long num_allocations;
static atomic_long failing;

void count_alloc_begin(long fail_at)
{
	atomic_store(&num_allocations, 0);
	atomic_store(&failing, fail_at);
	atomic_store(&is_counting, true);
}

long count_alloc_end(void)
{
	atomic_store(&is_counting, false);
	return atomic_load(&num_allocations);
}

/* true: this allocation fails. */
static bool count_one(void)
{
	if (!atomic_load(&is_counting))
		return false;
	if (atomic_fetch_add(&num_allocations, 1) + 1 != atomic_load(&failing))
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return count_one() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t num, size_t size)
{
	return count_one() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return count_one() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return count_one() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
	return count_one() ? NULL : __real_strndup(text, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
	return count_one() ? ENOMEM
			   : __real_posix_memalign(memory, alignment, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return count_one() ? NULL : __real_aligned_alloc(alignment, size);
}
