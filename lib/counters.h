/* SPDX-License-Identifier: MIT */
/*
 * Counters of the whole process, for tests and diagnosis: nouns in the plural,
 * relaxed atomics, never reset.
 */
#ifndef QBRT_COUNTERS_H
#define QBRT_COUNTERS_H

#include <stdatomic.h>

struct qbrt_counters {
	atomic_ulong open_devices;    /* now */
	atomic_ulong live_buffers;    /* pinned memories, now */
	atomic_ulong live_models;     /* now */
	atomic_ulong pooled_nbytes;   /* freed buffers kept for reuse, now */
	atomic_ulong buffer_requests; /* BO_CREATE and GEM_CLOSE, total */
	atomic_ulong unmapped_errors; /* Q612: 0 in every contract test */
	/* of struct qbrt_bridge_stats */
	atomic_ulong storages;
	atomic_ulong tensors;
	atomic_ulong exports_legacy;
	atomic_ulong exports_versioned;
	atomic_ulong exports_owned_c;
	atomic_ulong exports_borrowed; /* total */
	atomic_ulong deferred_releases;
	atomic_ulong host_blocks; /* total */
};

extern struct qbrt_counters qbrt_counters;

#define qbrt_count(name) \
	atomic_fetch_add_explicit(&qbrt_counters.name, 1, memory_order_relaxed)
#define qbrt_uncount(name) \
	atomic_fetch_sub_explicit(&qbrt_counters.name, 1, memory_order_relaxed)

#endif
