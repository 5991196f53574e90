/* SPDX-License-Identifier: MIT */
/*
 * The recorder of Chrome trace files (docs/spec/qbruntime-api.md, 23). Off, an
 * event costs its caller one relaxed load and a branch; all that records is
 * cold. Recording takes no lock: a line is built on the stack and is one
 * write() at the end of the file. Threads may record while others start and
 * stop. Free of the environment, so that drivers may use it. No function here
 * changes errno, and none may be called with a lock held, because a write that
 * fails is logged.
 */
#ifndef QBRT_TRACE_H
#define QBRT_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util.h"

#define QBRT_TRACE_COLD __attribute__((cold))

/* Read it with qbrt_trace_is_on; a driver hands on where it is. */
extern atomic_bool qbrt_trace_on;

static inline bool qbrt_trace_is_on(void)
{
	return atomic_load_explicit(&qbrt_trace_on, memory_order_relaxed);
}

/* When an event that is not timed anyway begins; 0: nothing is recorded. */
static inline int64_t qbrt_trace_begin(void)
{
	return qbrt_trace_is_on() ? qbrt_now_ns() : 0;
}

/* Zero in a field from model on: the line does not have it. */
struct qbrt_trace_event {
	const char *name; /* of Q784 */
	int64_t begin_ns; /* CLOCK_MONOTONIC, as all times here */
	int64_t end_ns;
	uint64_t model; /* its identifier + 1, as in user_data of a SUBMIT */
	uint64_t queue;
	uint64_t job;
	uint64_t nbytes;
	const char *device; /* id */
	const char *file;   /* the model's */
};

/* In the row of the calling thread. */
QBRT_TRACE_COLD void qbrt_trace_host(const struct qbrt_trace_event *event);

/*
 * A job between submit and start, whose name is "queue": beside the rows, since
 * jobs of one thread wait side by side.
 */
QBRT_TRACE_COLD void qbrt_trace_queue(const struct qbrt_trace_event *event);

/* In the row of a core (bit cluster * 8 + core) of an added device. */
QBRT_TRACE_COLD void qbrt_trace_core(uint64_t instance, uint32_t core,
				     uint32_t item,
				     const struct qbrt_trace_event *event);

/*
 * A job whose caller waited for it: submit, queue and wait. begin_ns and end_ns
 * are the call's; submit_ns and start_ns (0: never) are the driver's, and are
 * taken for what lies inside the call.
 */
QBRT_TRACE_COLD void qbrt_trace_job(const struct qbrt_trace_event *call,
				    int64_t submit_ns, int64_t start_ns);

/* What a trace says of an open device. */
struct qbrt_trace_device {
	uint64_t instance; /* of QUERY DEVICE */
	uint64_t core_mask;
	const char *kind; /* "software"; a literal */
	char id[48];
	char driver[32];
	char driver_version[32];
	char uapi_version[24];
	char firmware[48]; /* "": not known */
};

/*
 * Once per open file of a device, and removed as often, when nothing of it runs
 * any more.
 */
void qbrt_trace_add_device(const struct qbrt_trace_device *device);
void qbrt_trace_remove_device(uint64_t instance);

#endif
