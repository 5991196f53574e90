// SPDX-License-Identifier: MIT
/*
 * What cores do, for the trace of the process: the device calls this on the
 * thread that ran an item, before the job can be complete, so the job's record
 * and its result's place are constant.
 */
#include "soft/soft-queue.h"

#include "trace.h"
#include "util.h"

void qbnpu_soft_trace_item(const struct qbnpu_trace_item *item)
{
	const struct qbnpu_soft_job *job =
		qbrt_container_of(item->job, struct qbnpu_soft_job, npu);
	const struct qbnpu_soft_queue *queue = job->queue;
	struct qbrt_trace_event event = {
		.name = "run",
		.begin_ns = item->begin_ns,
		.end_ns = item->end_ns,
		.model = job->kept->user_data,
		.queue = queue->number,
		.job = job->number,
	};

	if (job->type == QBNPU_SOFT_JOB_COPY) {
		event.name = "copy";
		/* as in the counters: what was copied whole */
		event.nbytes = item->err ? 0 : job->copy_size;
	}
	qbrt_trace_core(queue->file->device->facts->instance, item->core,
			item->item, &event);
}
