// SPDX-License-Identifier: MIT
/* What idle streams cost, when there are streams: until then it says so. */
#include "subject.h"
#include "util.h"

static void *open_streams(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("qbrt_stream_open is not built yet");
	return NULL;
}

static const struct bench_probe probe_idle_streams = { .open = open_streams };

int main(int argc, char **argv)
{
	const struct bench_metric metrics[] = {
		{ .name = "submit.streams64",
		  .row = "P33",
		  .placements = BENCH_SAME | BENCH_CROSS,
		  .subject = &probe_idle_streams,
		  .floor = &probe_submit,
		  .factor = 1.1,
		  .target = "<= 1.1 x of one stream" },
	};

	subject_setup();
	return bench_main(argc, argv, metrics, qbrt_array_size(metrics));
}
