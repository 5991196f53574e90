// SPDX-License-Identifier: MIT
/*
 * What another process gets: a pinned buffer, and an interprocess event when
 * there are events to export; until then it says so (P19).
 */
#include "subject.h"
#include "util.h"

static void *open_signal(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("interprocess events are not built yet");
	return NULL;
}

static const struct bench_probe probe_signal = { .open = open_signal };

int main(int argc, char **argv)
{
	const struct bench_metric metrics[] = {
		{ .name = "share.first",
		  .row = "P34",
		  .placements = BENCH_SAME | BENCH_CROSS,
		  .size = 65536,
		  .subject = &probe_share,
		  .floor = &bench_floor_socket_fd,
		  .factor = 1.45,
		  .target = "<= 1.45 x F9 with a descriptor" },
		{ .name = "share.signal",
		  .row = "P35",
		  .placements = BENCH_SAME | BENCH_CROSS,
		  .subject = &probe_signal,
		  .floor = &bench_floor_futex_shared,
		  .peer = &bench_floor_futex,
		  .factor = 1.2,
		  .target = "<= 1.2 x (F8 + F4)" },
	};

	subject_setup();
	return bench_main(argc, argv, metrics, qbrt_array_size(metrics));
}
