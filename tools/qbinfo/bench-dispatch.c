// SPDX-License-Identifier: MIT
/*
 * What an inference costs beyond its work: P20 to P24, P31 and P36. The
 * program is a NOP, the device has one core.
 */
#include "bench-subject.h"

#include <stdlib.h>
#include <string.h>

static void *open_nop(const struct bench_case *bench_case)
{
	if (strcmp(bench_kind, "software") != 0) {
		bench_set_reason("no job of hardware runs inline");
		return NULL;
	}
	return subject_open(bench_case, &subject_nop);
}

static int64_t run_infer(void *state, uint32_t num)
{
	const struct subject *subject = state;
	int64_t begin = bench_now_ns();

	while (num--)
		if (!subject_infer(subject, 0))
			return -1;
	return bench_now_ns() - begin;
}

static const struct bench_probe probe_infer = {
	.name = "infer, inline",
	.open = open_nop,
	.run = run_infer,
	.close = subject_close,
	.count = subject_count,
};

/* Each call is the first one on a device that was just opened. */
static int64_t run_first(void *state, uint32_t num)
{
	const struct subject *like = state;
	const struct bench_case bench_case = { .placement = like->placement };
	int64_t sum = 0;

	while (num--) {
		struct subject *subject = subject_open_on(
			bench_setup.cold, 0, &bench_case, &subject_nop);
		int64_t begin;
		bool is_good;

		if (!subject)
			return -1;
		begin = bench_now_ns();
		is_good = subject_infer(subject, 0);
		sum += bench_now_ns() - begin;
		subject_close(subject);
		if (!is_good)
			return -1;
	}
	return sum;
}

/* The handle alone: what it would hold open would be warm. */
static void *open_first(const struct bench_case *bench_case)
{
	struct subject *like;

	if (!bench_setup.cold) {
		bench_set_reason("takes a second device, which nothing else "
				 "has open");
		return NULL;
	}
	like = calloc(1, sizeof(*like));
	if (like)
		like->placement = bench_case->placement;
	return like;
}

static const struct bench_probe probe_first = {
	.name = "first infer after launch",
	.open = open_first,
	.run = run_first,
	.close = free,
};

const struct bench_metric bench_dispatch[] = {
	{ .name = "infer.inline",
	  .row = "P20",
	  .placements = BENCH_ONE,
	  .subject = &probe_infer,
	  .floor = &bench_floor_syscall,
	  .factor = 0.3,
	  .target = "<= 0.3 x F1" },
	{ .name = "infer.polling",
	  .row = "P21",
	  .placements = BENCH_CROSS,
	  .subject = &probe_polling,
	  .floor = &bench_floor_spin,
	  .peer = &bench_floor_spin_futex,
	  .factor = 1,
	  .extra_ns = 1000,
	  .target = "<= F3 + 1.0 us" },
	{ .name = "infer.blocking",
	  .row = "P22",
	  .placements = BENCH_SAME | BENCH_CROSS,
	  .subject = &probe_blocking,
	  .floor = &bench_floor_futex,
	  .peer = &bench_floor_eventfd,
	  .factor = 1,
	  .extra_ns = 3000,
	  .target = "<= F4 + 3.0 us" },
	{ .name = "submit.nowake",
	  .row = "P23",
	  .placements = BENCH_SAME | BENCH_CROSS,
	  .subject = &probe_submit,
	  .floor = &bench_floor_wake_nobody,
	  .extra_ns = 500,
	  .target = "<= 0.5 us" },
	{ .name = "submit.wake",
	  .row = "P24",
	  .placements = BENCH_SAME | BENCH_CROSS,
	  .subject = &probe_submit_wake,
	  .floor = &bench_floor_wake,
	  .factor = 1,
	  .extra_ns = 600,
	  .target = "<= F7 + 0.6 us" },
	{ .name = "infer.first",
	  .row = "P31",
	  .placements = BENCH_ONE,
	  .subject = &probe_first,
	  .floor = &probe_infer,
	  .factor = 20,
	  .target = "<= 20 x the steady p50" },
	{ .name = "wait.cpu",
	  .row = "P36",
	  .placements = BENCH_CROSS,
	  .subject = &probe_wait_cpu,
	  .floor = &bench_floor_futex,
	  .extra_ns = 50000,
	  .target = "<= 50 us of CPU time" },
};
const size_t bench_num_dispatch =
	sizeof(bench_dispatch) / sizeof(*bench_dispatch);
