// SPDX-License-Identifier: MIT
/*
 * Running one item: the looks at cancel, deadline and limit (IS05) and the
 * floating point modes. The clock is read once per QBNPU_PACE_UNITS of work,
 * about a millisecond; whoever runs a long job also notices that the deadline
 * of a job behind it has passed (K087).
 */
#include "core-item.h"

#include <errno.h>

#include "util.h"

#ifdef __SSE__
#include <xmmintrin.h>

/* Exceptions masked, round to nearest, flush to zero, denormals are zero */
#define CORE_MODES 0x9fc0u

struct qbnpu_float_modes qbnpu_float_enter(void)
{
	const struct qbnpu_float_modes modes = { .bits = _mm_getcsr() };

	_mm_setcsr(CORE_MODES);
	return modes;
}

void qbnpu_float_leave(struct qbnpu_float_modes modes)
{
	_mm_setcsr((unsigned int)modes.bits);
}

#elif defined(__aarch64__)

/* FZ; rounding and traps are 0 */
#define CORE_MODES (UINT64_C(1) << 24)

struct qbnpu_float_modes qbnpu_float_enter(void)
{
	struct qbnpu_float_modes modes;

	__asm__ volatile("mrs %0, fpcr" : "=r"(modes.bits));
	__asm__ volatile("msr fpcr, %0" : : "r"(CORE_MODES));
	return modes;
}

void qbnpu_float_leave(struct qbnpu_float_modes modes)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(modes.bits));
}

#else
#include <fenv.h>

struct qbnpu_float_modes qbnpu_float_enter(void)
{
	const struct qbnpu_float_modes modes = {
		.bits = (uint64_t)fegetround()
	};

	(void)fesetround(FE_TONEAREST);
	return modes;
}

void qbnpu_float_leave(struct qbnpu_float_modes modes)
{
	(void)fesetround((int)modes.bits);
}

#endif

/* The pace of an item, and what a look at it needs. */
struct item_pace {
	struct qbnpu_pace pace; /* first: look() is given this */
	struct qbnpu_npu *npu;
	struct qbnpu_job *job;
	int64_t stop_ns;
	void (*expire)(struct qbnpu_npu *npu, int64_t now);
};

static int look(struct qbnpu_pace *pace)
{
	struct item_pace *item = (struct item_pace *)(void *)pace;
	struct qbnpu_npu *npu = item->npu;
	unsigned int none = 0;
	int64_t now;

	if (atomic_load_explicit(&item->job->stop_cause, memory_order_relaxed))
		return -ECANCELED;
	now = qbrt_now_ns();
	if (now >= item->stop_ns) {
		atomic_compare_exchange_strong(&item->job->stop_cause, &none,
					       QBNPU_CAUSE_TIME);
		return -ECANCELED;
	}
	if (now >=
	    atomic_load_explicit(&npu->next_deadline, memory_order_relaxed))
		item->expire(npu, now);
	pace->left = QBNPU_PACE_UNITS;
	return 0;
}

int64_t qbnpu_job_get_stop_ns(const struct qbnpu_job *job, int64_t begin_ns)
{
	int64_t end;

	if (__builtin_add_overflow(begin_ns, job->limit_ns, &end) ||
	    end > job->deadline_ns)
		return job->deadline_ns;
	return end;
}

int qbnpu_item_run(struct qbnpu_core *core, struct qbnpu_job *job,
		   uint32_t number, int64_t stop_ns,
		   void (*expire)(struct qbnpu_npu *npu, int64_t now),
		   uint32_t *command)
{
	struct item_pace item = {
		.pace = { .left = QBNPU_PACE_UNITS, .look = look },
		.npu = core->npu,
		.job = job,
		.stop_ns = stop_ns,
		.expire = expire,
	};
	unsigned int none = 0;

	*command = QBNPU_NONE32;
	if (core->begin_ns >= stop_ns)
		atomic_compare_exchange_strong(&job->stop_cause, &none,
					       QBNPU_CAUSE_TIME);
	if (atomic_load_explicit(&job->stop_cause, memory_order_relaxed)) {
		/* a job that has begun stops before some command */
		if (job->is_started && job->type == QBNPU_JOB_RUN)
			*command = 0;
		return -ECANCELED;
	}
	if (atomic_load_explicit(&core->npu->faults.num_plans,
				 memory_order_relaxed))
		return qbnpu_fault_run(core, job, number, stop_ns, expire,
				       &item.pace, command);
	return qbnpu_item_work(core, job, number, &item.pace, command);
}

__attribute__((cold)) static void trace_item(const struct qbnpu_core *core,
					     struct qbnpu_job *job,
					     uint32_t number, int err,
					     int64_t end_ns)
{
	const struct qbnpu_trace_item item = {
		.job = job,
		.item = number,
		.core = core->bit,
		.err = err,
		.begin_ns = core->begin_ns,
		.end_ns = end_ns,
	};

	if (job->is_started)
		core->npu->trace(&item);
}

int64_t qbnpu_item_note_end(const struct qbnpu_core *core,
			    struct qbnpu_job *job, uint32_t number, int err)
{
	const int64_t end_ns = qbrt_now_ns();

	if (atomic_load_explicit(core->npu->is_trace_on, memory_order_relaxed))
		trace_item(core, job, number, err, end_ns);
	return end_ns;
}
