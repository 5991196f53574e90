/* SPDX-License-Identifier: MIT */
/*
 * A driver for tests: the software driver, with some of its answers bent as
 * struct kmd_bend says, and its requests counted. With the struct all zero it
 * is the software driver. A program that links it defines qbrt_kmd_drivers
 * itself:
 *
 *	const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver,
 *							    NULL };
 */
#ifndef TESTS_KMD_BEND_H
#define TESTS_KMD_BEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmd.h"
#include "uapi/qbnpu_drm.h"

#define KMD_BEND_MAX_HARDWARE 4

/* A node "hw:<place>" that says it is hardware. */
struct kmd_bend_hardware {
	const char *name;
	int number;
	int open_err; /* negative errno: it does not open */
};

struct kmd_bend {
	struct kmd_bend_hardware hardware[KMD_BEND_MAX_HARDWARE];
	size_t num_hardware;
	int list_err;
	int soft_open_err;

	uint32_t uapi_major; /* 0: as it is, as everywhere below */
	uint64_t max_job_ns;
	uint64_t instance;
	/* changes more of the answers of QUERY DEVICE and MEMORY; NULL: not */
	void (*bend_device)(struct drm_qbnpu_query_device *device);
	void (*bend_memory)(struct drm_qbnpu_query_memory *memory);
	uint32_t num_regions;
	bool has_region_flags;
	uint32_t region_flags[2];
	uint64_t region_total[2]; /* bytes that buffers may take */
	bool is_contiguous;       /* every buffer is of class driver */
	bool is_paged;            /* no buffer is of a huge page's size */
	bool hides_address;       /* device_addr is not told */

	/*
	 * of requests fail_request, fail_times after fail_skip give fail_err;
	 * fails_any: of all that take something, mmap among them
	 */
	unsigned long fail_request;
	bool fails_any;
	int fail_err;
	atomic_int fail_skip;
	void (*on_fail)(void); /* before each such answer */
	atomic_int fail_times;
	int mmap_err;

	atomic_ulong num_opens;
	atomic_ulong num_closes;
	atomic_ulong num_requests; /* with mmap */
	atomic_ulong num_unmaps;
	atomic_ulong num_queues; /* QUEUE_CREATE that succeeded */
	atomic_ulong last_size;  /* of the last BO_CREATE, as asked */
};

extern struct kmd_bend kmd_bend;
extern const struct qbrt_kmd kmd_bend_driver;

/* Whether this process may lock so many bytes more. */
bool kmd_bend_can_lock(size_t nbytes);

#endif
