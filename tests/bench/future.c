// SPDX-License-Identifier: MIT
/*
 * Probes of calls that are not built yet: they say so and measure nothing
 * (P19).
 */
#include "subject.h"

static void *open_submit(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("qbrt_model_submit_pinned_memory is not built yet");
	return NULL;
}

static void *open_share(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("qbrt_pinned_memory_export_fd is not built yet");
	return NULL;
}

const struct bench_probe probe_polling = { .open = open_submit };
const struct bench_probe probe_blocking = { .open = open_submit };
const struct bench_probe probe_submit = { .open = open_submit };
const struct bench_probe probe_submit_wake = { .open = open_submit };
const struct bench_probe probe_pipelined = { .open = open_submit };
const struct bench_probe probe_wait_cpu = { .open = open_submit };
const struct bench_probe probe_share = { .open = open_share };
