// SPDX-License-Identifier: MIT
/*
 * The one instance of the counters: static storage, so zero at start, and
 * never reset.
 */
#include "counters.h"

#include <qbruntime/qbrt.h>

#include "util.h"

struct qbrt_counters qbrt_counters;

#define get(name) \
	atomic_load_explicit(&qbrt_counters.name, memory_order_relaxed)

QBRT_API void qbrt_bridge_get_stats(struct qbrt_bridge_stats *stats)
{
	const struct qbrt_bridge_stats now = {
		.size = sizeof(now),
		.storages = get(storages),
		.tensors = get(tensors),
		.exports_legacy = get(exports_legacy),
		.exports_versioned = get(exports_versioned),
		.exports_owned_c = get(exports_owned_c),
		.exports_borrowed = get(exports_borrowed),
		.deferred_releases = get(deferred_releases),
		.host_blocks = get(host_blocks),
	};
	size_t size = stats ? stats->size : 0;

	if (size < sizeof(size))
		return;
	qbrt_answer(stats, size, &now, sizeof(now));
	stats->size = size;
}
