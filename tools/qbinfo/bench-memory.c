// SPDX-License-Identifier: MIT
/*
 * Pinned memory: P60 P61 P62 P67. A cold allocation asks for an alignment that
 * buffers of the pool need not have, so it is never served from there.
 */
#include "bench-subject.h"

#include <stdlib.h>
#include <string.h>

#define PICTURE_NBYTES 150528
#define ANSWER_NBYTES 4096
#define COLD_ALIGNMENT 128

struct memory {
	struct subject *subject;
	size_t nbytes;
	uint8_t *picture;
	uint8_t *answer;
	struct qbrt_pinned_memory *matrix;
};

static void close_memory(void *state)
{
	struct memory *memory = state;

	qbrt_pinned_memory_free(memory->matrix);
	subject_close(memory->subject);
	free(memory->picture);
	free(memory->answer);
	free(memory);
}

static void *open_memory(const struct bench_case *bench_case)
{
	const int64_t shape[] = { 64, 64 };
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->nbytes = bench_case->size;
	memory->subject = subject_open(bench_case, &subject_picture);
	if (!memory->subject) {
		free(memory);
		return NULL;
	}
	memory->picture = calloc(1, PICTURE_NBYTES);
	memory->answer = calloc(1, ANSWER_NBYTES);
	if (memory->picture && memory->answer &&
	    !qbrt_pinned_memory_alloc(memory->subject->acc, QBRT_DTYPE_FLOAT32,
				      shape, 2, NULL, &memory->matrix))
		return memory;
	bench_set_reason(qbrt_error_detail());
	close_memory(memory);
	return NULL;
}

static void count_memory(const void *state, struct bench_counters *counters)
{
	const struct memory *memory = state;

	subject_count(memory->subject, counters);
}

static bool alloc_one(const struct memory *memory, size_t alignment,
		      struct qbrt_pinned_memory **mem)
{
	const struct qbrt_pinned_options options = { .size = sizeof(options),
						     .alignment = alignment };
	const int64_t shape[] = { (int64_t)memory->nbytes };

	return !qbrt_pinned_memory_alloc(memory->subject->acc, QBRT_DTYPE_UINT8,
					 shape, 1, &options, mem);
}

/* P60: the allocation alone, as F10 times the mapping alone. */
static int64_t run_cold(void *state, uint32_t num)
{
	const struct memory *memory = state;
	int64_t sum = 0;

	while (num--) {
		struct qbrt_pinned_memory *mem;
		int64_t begin = bench_now_ns();

		if (!alloc_one(memory, COLD_ALIGNMENT, &mem))
			return -1;
		sum += bench_now_ns() - begin;
		qbrt_pinned_memory_free(mem);
	}
	return sum;
}

static const struct bench_probe probe_cold = {
	.name = "alloc, not from the pool",
	.open = open_memory,
	.run = run_cold,
	.close = close_memory,
	.count = count_memory,
};

/* P61: both, and the pool has one. */
static int64_t run_pooled(void *state, uint32_t num)
{
	const struct memory *memory = state;
	int64_t begin = bench_now_ns();

	while (num--) {
		struct qbrt_pinned_memory *mem;

		if (!alloc_one(memory, 0, &mem))
			return -1;
		qbrt_pinned_memory_free(mem);
	}
	return bench_now_ns() - begin;
}

static const struct bench_probe probe_pooled = {
	.name = "alloc and free, from the pool",
	.open = open_memory,
	.run = run_pooled,
	.close = close_memory,
	.count = count_memory,
};

/* P62: the picture is where the device reads it. */
static int64_t run_pinned(void *state, uint32_t num)
{
	const struct memory *memory = state;
	int64_t begin = bench_now_ns();

	while (num--)
		if (!subject_infer(memory->subject, 0))
			return -1;
	return bench_now_ns() - begin;
}

static const struct bench_probe probe_pinned = {
	.name = "infer on pinned memory",
	.open = open_memory,
	.run = run_pinned,
	.close = close_memory,
	.count = count_memory,
};

/* P62: it is not, and the answer is wanted elsewhere too. */
static int64_t run_copied(void *state, uint32_t num)
{
	const struct memory *memory = state;
	const struct subject *subject = memory->subject;
	void *in = qbrt_pinned_memory_get_data(subject->in);
	const void *out = qbrt_pinned_memory_get_data(subject->out);
	int64_t begin = bench_now_ns();

	while (num--) {
		memcpy(in, memory->picture, PICTURE_NBYTES);
		if (!subject_infer(subject, 0))
			return -1;
		memcpy(memory->answer, out, ANSWER_NBYTES);
		__asm__ volatile("" : : "r"(memory->answer) : "memory");
	}
	return bench_now_ns() - begin;
}

static const struct bench_probe probe_copied = {
	.name = "copy in, infer, copy out",
	.open = open_memory,
	.run = run_copied,
	.close = close_memory,
};

/* P67 */
static int64_t run_read(void *state, uint32_t num)
{
	const struct memory *memory = state;
	int64_t begin = bench_now_ns();
	float value = 0;

	for (uint32_t i = 0; i < num; i++) {
		const int64_t index[] = { i % 64, i / 64 % 64 };

		if (qbrt_pinned_memory_read_at(memory->matrix, index, 2,
					       QBRT_DTYPE_FLOAT32, &value))
			return -1;
	}
	return value == 0 ? bench_now_ns() - begin : -1;
}

static int64_t run_write(void *state, uint32_t num)
{
	const struct memory *memory = state;
	int64_t begin = bench_now_ns();
	float value = 0;

	for (uint32_t i = 0; i < num; i++) {
		const int64_t index[] = { i % 64, i / 64 % 64 };

		if (qbrt_pinned_memory_write_at(memory->matrix, index, 2,
						QBRT_DTYPE_FLOAT32, &value))
			return -1;
	}
	return bench_now_ns() - begin;
}

static const struct bench_probe probe_read = {
	.name = "read_at, 2-D",
	.open = open_memory,
	.run = run_read,
	.close = close_memory,
};

static const struct bench_probe probe_write = {
	.name = "write_at, 2-D",
	.open = open_memory,
	.run = run_write,
	.close = close_memory,
};

#define COLD(metric_name, nbytes) \
	{ \
		.name = metric_name, .row = "P60", .placements = BENCH_ONE, \
		.size = nbytes, .subject = &probe_cold, \
		.floor = &bench_floor_map, .factor = 1.11, \
		.target = "<= 1.11 x F10" \
	}
#define POOLED(metric_name, nbytes) \
	{ \
		.name = metric_name, .row = "P61", .placements = BENCH_ONE, \
		.size = nbytes, .subject = &probe_pooled, \
		.floor = &bench_floor_memset, .factor = 1, .extra_ns = 1000, \
		.target = "<= F19 + 1 us" \
	}
#define ELEMENT(metric_name, probe) \
	{ \
		.name = metric_name, .row = "P67", .placements = BENCH_ONE, \
		.size = 65536, .subject = &(probe), \
		.floor = &bench_floor_load, .extra_ns = 10, \
		.target = "<= 10 ns" \
	}

const struct bench_metric bench_memory[] = {
	COLD("alloc.cold 4 KiB", 4096),
	COLD("alloc.cold 64 KiB", 65536),
	COLD("alloc.cold 1 MiB", 1 << 20),
	COLD("alloc.cold 16 MiB", 1 << 24),
	POOLED("alloc.pooled 4 KiB", 4096),
	POOLED("alloc.pooled 64 KiB", 65536),
	POOLED("alloc.pooled 1 MiB", 1 << 20),
	{ .name = "zerocopy.gain",
	  .row = "P62",
	  .placements = BENCH_ONE,
	  .size = PICTURE_NBYTES,
	  .subject = &probe_pinned,
	  .floor = &probe_copied,
	  .peer = &bench_floor_memcpy,
	  .gain = 0.9,
	  .target = "saves >= 0.9 x F11" },
	ELEMENT("read_at", probe_read),
	ELEMENT("write_at", probe_write),
};
const size_t bench_num_memory = sizeof(bench_memory) / sizeof(*bench_memory);
