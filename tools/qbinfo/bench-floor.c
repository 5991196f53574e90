// SPDX-License-Identifier: MIT
/*
 * Floors that one thread reaches alone: F1, F2, F7 without a waiter, F10, F11,
 * F19, and the plain load beside P67.
 */
#include "bench.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* State of all of these: a block, and one to copy from. */
struct block {
	size_t size;
	uint8_t *dst;
	uint8_t *src;
	uint32_t word;
};

static void close_block(void *state)
{
	struct block *block = state;

	free(block->dst);
	free(block->src);
	free(block);
}

static void *open_block(const struct bench_case *bench_case)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->size = bench_case->size ? bench_case->size : 4096;
	block->dst = aligned_alloc(4096, (block->size + 4095) & ~(size_t)4095);
	block->src = aligned_alloc(4096, (block->size + 4095) & ~(size_t)4095);
	if (!block->dst || !block->src) {
		close_block(block);
		return NULL;
	}
	memset(block->dst, 1, block->size);
	memset(block->src, 2, block->size);
	return block;
}

static int64_t run_syscall(void *state, uint32_t num)
{
	int64_t begin = bench_now_ns();

	(void)state;
	while (num--)
		(void)syscall(SYS_getppid);
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_syscall = {
	.name = "F1 null system call",
	.open = open_block,
	.run = run_syscall,
	.close = close_block,
};

static int64_t run_ioctl(void *state, uint32_t num)
{
	int64_t begin = bench_now_ns();

	(void)state;
	while (num--)
		if (ioctl(-1, TCGETS, NULL) != -1)
			return -1;
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_ioctl = {
	.name = "F1 failing ioctl",
	.open = open_block,
	.run = run_ioctl,
	.close = close_block,
};

static int64_t run_clock(void *state, uint32_t num)
{
	int64_t begin = bench_now_ns();
	struct timespec now;

	(void)state;
	while (num--)
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_clock = {
	.name = "F2 clock read",
	.open = open_block,
	.run = run_clock,
	.close = close_block,
};

static int64_t run_wake_nobody(void *state, uint32_t num)
{
	struct block *block = state;
	int64_t begin = bench_now_ns();

	while (num--)
		if (syscall(SYS_futex, &block->word, FUTEX_WAKE_PRIVATE, 1,
			    NULL, NULL, 0))
			return -1;
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_wake_nobody = {
	.name = "F7 futex wake, no waiter",
	.open = open_block,
	.run = run_wake_nobody,
	.close = close_block,
};

/* Where mlock is refused the floor would be another one: it is a failure. */
static void *open_map(const struct bench_case *bench_case)
{
	struct block *block = open_block(bench_case);

	if (block && (mlock(block->dst, block->size) ||
		      munlock(block->dst, block->size))) {
		bench_set_reason(
			"mlock of this size is refused; a higher ulimit -l may allow it");
		close_block(block);
		block = NULL;
	}
	return block;
}

static int64_t run_map(void *state, uint32_t num)
{
	const struct block *block = state;
	int64_t sum = 0;

	while (num--) {
		int64_t begin = bench_now_ns();
		int fd = memfd_create("bench", MFD_CLOEXEC);
		void *memory = MAP_FAILED;

		if (fd < 0)
			return -1;
		if (!ftruncate(fd, (off_t)block->size))
			memory = mmap(NULL, block->size, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_POPULATE, fd, 0);
		if (memory == MAP_FAILED || mlock(memory, block->size)) {
			(void)close(fd);
			return -1;
		}
		sum += bench_now_ns() - begin;
		(void)munmap(memory, block->size);
		(void)close(fd);
	}
	return sum;
}

const struct bench_probe bench_floor_map = {
	.name = "F10 memfd, mmap and mlock",
	.open = open_map,
	.run = run_map,
	.close = close_block,
};

static int64_t run_memcpy(void *state, uint32_t num)
{
	const struct block *block = state;
	int64_t begin = bench_now_ns();

	while (num--) {
		memcpy(block->dst, block->src, block->size);
		__asm__ volatile("" : : "r"(block->dst) : "memory");
	}
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_memcpy = {
	.name = "F11 memcpy",
	.open = open_block,
	.run = run_memcpy,
	.close = close_block,
};

static int64_t run_memset(void *state, uint32_t num)
{
	const struct block *block = state;
	int64_t begin = bench_now_ns();

	while (num--) {
		memset(block->dst, 0, block->size);
		__asm__ volatile("" : : "r"(block->dst) : "memory");
	}
	return bench_now_ns() - begin;
}

const struct bench_probe bench_floor_memset = {
	.name = "F19 fill",
	.open = open_block,
	.run = run_memset,
	.close = close_block,
};

static int64_t run_load(void *state, uint32_t num)
{
	const struct block *block = state;
	const volatile uint8_t *data = block->src;
	int64_t begin = bench_now_ns();
	uint32_t sum = 0;

	for (uint32_t i = 0; i < num; i++)
		sum += data[i % 4096];
	return sum == 2 * num ? bench_now_ns() - begin : -1;
}

const struct bench_probe bench_floor_load = {
	.name = "plain load",
	.open = open_block,
	.run = run_load,
	.close = close_block,
};

#define FLOOR(metric_name, row_id, where, nbytes, probe) \
	{ \
		.name = metric_name, .row = row_id, .placements = where, \
		.size = nbytes, .subject = &(probe) \
	}
#define TWO (BENCH_SAME | BENCH_CROSS)

const struct bench_metric bench_floors[] = {
	FLOOR("null system call", "F1", BENCH_ONE, 0, bench_floor_syscall),
	FLOOR("failing ioctl", "F1", BENCH_ONE, 0, bench_floor_ioctl),
	FLOOR("clock read", "F2", BENCH_ONE, 0, bench_floor_clock),
	FLOOR("spin flag", "F3", BENCH_CROSS, 0, bench_floor_spin),
	FLOOR("futex", "F4", TWO, 0, bench_floor_futex),
	FLOOR("eventfd", "F5", TWO, 0, bench_floor_eventfd),
	FLOOR("spin, then futex", "F6", BENCH_CROSS, 0, bench_floor_spin_futex),
	FLOOR("wake nobody", "F7", BENCH_ONE, 0, bench_floor_wake_nobody),
	FLOOR("wake a sleeper", "F7", TWO, 0, bench_floor_wake),
	FLOOR("futex, processes", "F8", TWO, 0, bench_floor_futex_shared),
	FLOOR("socket", "F9", TWO, 0, bench_floor_socket),
	FLOOR("socket, descriptor", "F9", TWO, 0, bench_floor_socket_fd),
	FLOOR("map 4 KiB", "F10", BENCH_ONE, 4096, bench_floor_map),
	FLOOR("map 64 KiB", "F10", BENCH_ONE, 65536, bench_floor_map),
	FLOOR("map 1 MiB", "F10", BENCH_ONE, 1 << 20, bench_floor_map),
	FLOOR("map 16 MiB", "F10", BENCH_ONE, 1 << 24, bench_floor_map),
	FLOOR("memcpy 4 KiB", "F11", BENCH_ONE, 4096, bench_floor_memcpy),
	FLOOR("memcpy 64 KiB", "F11", BENCH_ONE, 65536, bench_floor_memcpy),
	FLOOR("memcpy 150,528 B", "F11", BENCH_ONE, 150528, bench_floor_memcpy),
	FLOOR("memcpy 1 MiB", "F11", BENCH_ONE, 1 << 20, bench_floor_memcpy),
	FLOOR("memcpy 16 MiB", "F11", BENCH_ONE, 1 << 24, bench_floor_memcpy),
	FLOOR("fill 4 KiB", "F19", BENCH_ONE, 4096, bench_floor_memset),
	FLOOR("fill 64 KiB", "F19", BENCH_ONE, 65536, bench_floor_memset),
	FLOOR("fill 1 MiB", "F19", BENCH_ONE, 1 << 20, bench_floor_memset),
};
const size_t bench_num_floors = sizeof(bench_floors) / sizeof(*bench_floors);
