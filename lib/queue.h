/* SPDX-License-Identifier: MIT */
/*
 * A queue of the uAPI and its timeline. Queues of an open device live in its
 * pool (accelerator.h): a job takes one for its run and gives it back.
 */
#ifndef QBRT_QUEUE_H
#define QBRT_QUEUE_H

#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "kmd.h"
#include "uapi/qbnpu_drm.h"

struct qbrt_queue {
	const struct qbrt_kmd *kmd;
	int file;
	uint32_t number;  /* of the driver */
	uint32_t syncobj; /* its timeline's handle */
};

/* QBRT_AT_QUEUE_CREATE's statuses; -ENOSPC is handed out as err alone. */
int qbrt_queue_open(const struct qbrt_kmd *kmd, int file,
		    struct qbrt_queue *queue);
void qbrt_queue_close(struct qbrt_queue *queue);

/*
 * Waits for job until it is complete, however often a signal ends a request;
 * wait holds its result afterwards. 0 or a negative errno of WAIT.
 */
int qbrt_queue_wait(const struct qbrt_queue *queue, uint64_t job,
		    uint32_t flags, struct drm_qbnpu_wait *wait);

#endif
