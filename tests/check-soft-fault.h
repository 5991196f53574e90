/* SPDX-License-Identifier: MIT */
/* What the files of check-soft-fault share. */
#ifndef TESTS_CHECK_SOFT_FAULT_H
#define TESTS_CHECK_SOFT_FAULT_H

#include <pthread.h>

#include "check-kmd.h"
#include "device/fault.h"

#define FAULT_FAR_NS INT64_C(500000000000) /* a deadline that never passes */

/* Buffers of 4,096 bytes, copy64 on cores 0 to 3 of soft:0, a queue. */
struct fault_set {
	struct kmd_buffer input, output;
	uint32_t copy64, queue, syncobj;
	struct qbnpu_npu *npu;
};

/* plan, poison: of the configuration. Input is 1, 2, 3... */
void fault_begin_set(struct fault_set *set, const char *plan, bool poison);
void fault_end_set(struct fault_set *set);

/* A SUBMIT of copy64 on core 0; slot: which 64 bytes of the buffers. */
void fault_prepare(struct kmd_job *job, const struct fault_set *set,
		   uint32_t queue, uint32_t slot);
bool fault_has_copied(const struct fault_set *set, uint32_t slot);

/*
 * Submits with a deadline so far from now; one that passed on the way there is
 * refused, so it lies farther off then.
 */
uint64_t fault_submit(struct kmd_job *job, int64_t limit_ns);

uint32_t fault_add(const struct fault_set *set, const char *plan);
void fault_remove(const struct fault_set *set, uint32_t id);
/* Returns when the plan has struck a job. */
void fault_wait_fired(const struct fault_set *set, uint32_t id);

/* A SUBMIT on a thread of its own. */
struct fault_call {
	pthread_t thread;
	struct kmd_job *job;
};
void fault_call_start(struct fault_call *call, struct kmd_job *job);
void fault_call_join(struct fault_call *call);

/* The end of a job. */
struct fault_end {
	int32_t status;
	uint32_t cause, list, command, item;
	bool is_started;
};
void fault_check_end(const struct drm_qbnpu_wait *wait,
		     const struct fault_end *end);

/* The tests of one file each, added to those of the program. */
void fault_stage_tests(struct qbrt_tests *all);
void fault_load_tests(struct qbrt_tests *all);
void fault_infer_tests(struct qbrt_tests *all);

#endif
