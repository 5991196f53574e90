// SPDX-License-Identifier: MIT
/*
 * P25: the rate of one producer that keeps many jobs in flight, as time per
 * job. PoCL's is measured by bench-pocl.
 */
#include "subject.h"
#include "util.h"

int main(int argc, char **argv)
{
	const struct bench_metric metrics[] = {
		{ .name = "rate.pipelined",
		  .row = "P25",
		  .placements = BENCH_SAME | BENCH_CROSS,
		  .subject = &probe_pipelined,
		  .floor = &bench_floor_wake_nobody,
		  .extra_ns = 2000,
		  .target = ">= 500,000 jobs/s (2,000 ns a job)" },
	};

	subject_setup();
	return bench_main(argc, argv, metrics, qbrt_array_size(metrics));
}
