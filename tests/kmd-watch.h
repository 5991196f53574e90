/* SPDX-License-Identifier: MIT */
/*
 * Watches what one open device asks of its driver: counts the requests by
 * number, ends the wait of SUBMITs early as a signal would, answers in the
 * driver's place for programs that it does not take, and fails the n-th.
 */
#ifndef TESTS_KMD_WATCH_H
#define TESTS_KMD_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#define KMD_WATCH_NUM_REQUESTS 256
#define KMD_WATCH_MAX_FAILED 4

struct kmd_watch {
	/* by _IOC_NR(request); private ones from DRM_COMMAND_BASE on */
	atomic_ulong requests[KMD_WATCH_NUM_REQUESTS];
	atomic_ulong total;
	/* SUBMIT returns when it has queued the job (K094) */
	atomic_bool ends_waits;
	/* called before the next SUBMIT reaches the driver, once */
	void (*before_submit)(void *arg);
	void *before_submit_arg;
	/* programs and their jobs succeed at once, unseen by the driver */
	atomic_bool answers_programs;
	uint32_t params[4]; /* of the last such job */
	/*
	 * The fail_at-th request from now on, mmap too (request 0), fails with
	 * fail_err (0: -ENOMEM), and fail_more after it; fail_at 0: none does.
	 * Only those of one kind when fail_request is set, only those that
	 * may_fail when that is.
	 */
	atomic_long fail_at;
	atomic_long fail_more;
	atomic_ulong fail_request;
	int fail_err;
	bool (*may_fail)(unsigned long request);
	/* how many failed so, or with -ENOMEM by themselves; the first ones */
	atomic_uint num_failed;
	atomic_ulong failed[KMD_WATCH_MAX_FAILED];
	/* made, less those that ended; a queue makes a syncobj too */
	atomic_int num_programs, num_queues, num_syncobjs;
};

extern struct kmd_watch kmd_watch;

/* Before other threads use the device; the counts begin at 0. */
void kmd_watch_begin(struct qbrt_accelerator *acc);

/* How often this request came since. */
unsigned long kmd_watch_count(unsigned long request);

#endif
