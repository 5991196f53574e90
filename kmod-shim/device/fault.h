/* SPDX-License-Identifier: MIT */
/*
 * A device that is told to fail (docs/spec/device-and-format.md, 13). A plan
 * is text from outside: it is parsed whole or refused. A fault takes time or
 * fails a job; none lets a job succeed that has not done all of its work.
 *
 * The rules and what they count are guarded by the device's lock.
 */
#ifndef QBNPU_FAULT_H
#define QBNPU_FAULT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "npu.h"

/* The part that tests use, exported to them under QBRUNTIME_PRIVATE (FI01). */

/* 0 with a number for the plan; -EINVAL: it does not parse; -ENOMEM. */
int qbnpu_fault_add(struct qbnpu_npu *npu, const char *plan, uint32_t *id);
/* What it has begun goes on. -ENOENT: no such plan. */
int qbnpu_fault_remove(struct qbnpu_npu *npu, uint32_t id);
/* How many jobs a fault of the plan has struck; 0: no such plan. */
uint64_t qbnpu_fault_fired(struct qbnpu_npu *npu, uint32_t id);

/* ---- fault-plan.c ---- */

enum qbnpu_fault_key {
	/* which jobs */
	QBNPU_FAULT_JOB,
	QBNPU_FAULT_EVERY,
	QBNPU_FAULT_COUNT,
	QBNPU_FAULT_QUEUE,
	QBNPU_FAULT_CORE, /* cluster * 8 + core */
	QBNPU_FAULT_P,    /* in a million */
	QBNPU_FAULT_SEED,
	QBNPU_FAULT_DEV,
	/* what happens to them */
	QBNPU_FAULT_CMD,
	QBNPU_FAULT_ITEM,
	QBNPU_FAULT_FACTOR,
	QBNPU_FAULT_NS,
	QBNPU_FAULT_NUM_KEYS,
};

#define QBNPU_FAULT_P_ALWAYS UINT64_C(1000000)

/* One fault of a plan. */
struct qbnpu_fault {
	enum qbnpu_fault_word word;
	uint32_t given; /* a bit per key */
	uint64_t values[QBNPU_FAULT_NUM_KEYS];
	uint64_t num_seen;   /* jobs that queue and core let through */
	uint64_t num_struck; /* of those */
	uint64_t random;     /* state of the generator */
};

/*
 * 0, or -EINVAL with *at: the first character that is not accepted, of text or
 * its end. faults: room for *num, or NULL: none are told. *num: how many there
 * are.
 */
int qbnpu_fault_parse(const char *text, struct qbnpu_fault *faults, size_t *num,
		      size_t *at);

static inline bool qbnpu_fault_has(const struct qbnpu_fault *fault,
				   enum qbnpu_fault_key key)
{
	return fault->given >> key & 1;
}

/* ---- fault.c, for the device ---- */

struct qbnpu_core;
struct qbnpu_pace;
struct qbnpu_fault_plan;

struct qbnpu_faults {
	atomic_uint num_plans; /* written under the lock */
	uint32_t device;       /* number that dev= names (constant) */
	uint32_t last_id;
	struct qbnpu_fault_plan *first; /* in the order of their numbers */
	uint32_t num_sleepers;
	/* a job is to stop, or a deadline is nearer than those before */
	pthread_cond_t wake;
};

/* plan: NULL, or that of the configuration. -EINVAL, -ENOMEM. */
int qbnpu_faults_start(struct qbnpu_faults *faults, uint32_t device,
		       const char *plan);
void qbnpu_faults_stop(struct qbnpu_faults *faults);

/* Lock held: sleepers look again. */
static inline void qbnpu_faults_wake(struct qbnpu_faults *faults)
{
	if (faults->num_sleepers)
		(void)pthread_cond_broadcast(&faults->wake);
}

/* As qbnpu_item_work, while there are plans. */
int qbnpu_fault_run(struct qbnpu_core *core, struct qbnpu_job *job,
		    uint32_t number, int64_t stop_ns,
		    void (*expire)(struct qbnpu_npu *npu, int64_t now),
		    struct qbnpu_pace *pace, uint32_t *command);

#endif
