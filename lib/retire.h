/* SPDX-License-Identifier: MIT */
/*
 * The retirement thread of an open device: ends the jobs that nobody will ask
 * for (their future was freed, their model disposed), and tells those whose
 * program wants to be called back. Started when first needed, ended when the
 * device closes; sleeps in one request for all that it watches.
 */
#ifndef QBRT_RETIRE_H
#define QBRT_RETIRE_H

#include <qbruntime/qbrt.h>

#include "accelerator.h"
#include "job.h"

/*
 * Has the thread end the job and call its notify(), once for each job. Keeps a
 * reference on the job meanwhile. Without a sentence when it fails: 0, or
 * -errno of what the thread needs.
 */
int qbrt_retire_watch(struct qbrt_device *device, struct qbrt_job *job);

/* Has the thread, if there is one, look whether a job ended before its point. */
void qbrt_retire_wake(struct qbrt_device *device);

#endif
