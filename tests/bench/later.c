// SPDX-License-Identifier: MIT
/* Probes of calls that are not built yet: they say so and measure nothing. */
#include "subject.h"

static void *open_share(const struct bench_case *bench_case)
{
	(void)bench_case;
	bench_set_reason("qbrt_pinned_memory_export_fd is not built yet");
	return NULL;
}

const struct bench_probe probe_share = { .open = open_share };
