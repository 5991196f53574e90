/* SPDX-License-Identifier: MIT */
/*
 * A model: the checked file, and while it is launched, what the device made of
 * it. The file part is constant from load to free. The launched part is
 * constant while anybody uses it: a call enters the model by one atomic and
 * leaves it by another; disposing only ends entering, and whoever leaves last
 * gives the device's things back. So dispose waits for nobody. A launch is of
 * one process: a child of fork reads claims before all else, for threads that
 * it does not have may hold the lock and be counted.
 */
#ifndef QBRT_MODEL_H
#define QBRT_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "accelerator.h"
#include "job.h"
#include "model-file.h"
#include "slot.h"
#include "staging.h"
#include "trace.h"
#include "uapi/qbnpu_drm.h"

/* qbm_io.flags, qbm_io.layout, qbm_variant.flags */
#define QBRT_IO_BATCHED (1u << 0)
#define QBRT_IO_NORMALISED (1u << 1)
#define QBRT_IO_LAYOUT_HWC 1
#define QBRT_VARIANT_BATCH_PARAMS (1u << 0)

/* One variant on the device. */
struct qbrt_launched_variant {
	const struct qbm_variant *variant;
	const struct qbm_io *inputs;     /* variant->input_count */
	const struct qbm_io *outputs;    /* variant->output_count */
	const struct qbnpu_facts *facts; /* of its program */
	uint32_t program;                /* the driver's handle */
	uint32_t instance;               /* number of its PROG section */
	/*
	 * What SUBMIT takes but the buffers' handles: input 0, 1, ..., then
	 * output 0, 1, ...
	 */
	struct drm_qbnpu_binding *bindings;
};

/* Jobs of a launched model that nobody waits for, by age. */
struct qbrt_model_jobs {
	pthread_mutex_t lock; /* guards the list */
	struct qbrt_job *first, *last;
	atomic_uint num;
};

struct qbrt_launched {
	struct qbrt_device *device; /* a reference */
	uint64_t number;            /* of the launch, in this process */
	atomic_bool is_stopping;    /* disposed: jobs are being cancelled */
	uint32_t mode;              /* enum drm_qbnpu_mode */
	uint32_t num_slots;
	uint64_t core_mask; /* local cores */
	bool has_weights;
	struct qbrt_buffer weights;
	uint32_t *programs; /* handle per PROG section, 0: not used */
	size_t num_programs;
	struct drm_qbnpu_binding *bindings; /* of all variants */
	struct qbrt_slots slots;
	struct qbrt_model_jobs jobs;
	struct qbrt_staging_pool staging;
	size_t num_variants;
	struct qbrt_launched_variant variants[];
};

#define QBRT_CACHE_LINE 64

/* Sums since load; relaxed. */
struct qbrt_model_totals {
	_Alignas(QBRT_CACHE_LINE) atomic_uint_fast64_t submitted;
	atomic_uint_fast64_t completed, failed, cancelled;
	atomic_uint_fast64_t input_nbytes, output_nbytes, copied_nbytes;
	atomic_int_fast64_t queue_time, device_time;
};

static inline void qbrt_totals_add(atomic_uint_fast64_t *total, uint64_t value)
{
	atomic_fetch_add_explicit(total, value, memory_order_relaxed);
}

static inline void qbrt_totals_add_success(struct qbrt_model_totals *totals,
					   const struct drm_qbnpu_wait *wait,
					   uint64_t output_nbytes)
{
	qbrt_totals_add(&totals->completed, 1);
	qbrt_totals_add(&totals->output_nbytes, output_nbytes);
	atomic_fetch_add_explicit(&totals->queue_time,
				  wait->start_ns - wait->submit_ns,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&totals->device_time, (int64_t)wait->busy_ns,
				  memory_order_relaxed);
}

#define QBRT_MODEL_LAUNCHED 0x80000000u
#define QBRT_MODEL_CLAIM (UINT64_C(1) << 32)

struct qbrt_model {
	/* in cache lines of its own: every job counts */
	struct qbrt_model_totals totals;
	struct qbrt_model_file *file;
	char *path;               /* as given; of a descriptor "" */
	char *name;               /* for sentences: short, never empty */
	char (*layer_hashes)[17]; /* per layer of the cache; NULL: no cache */
	/* model-summary.c's, NULL: nobody has asked for it */
	_Atomic(char *) summary;
	/* launch_lock; without it between enter and leave */
	struct qbrt_launched *launched;
	/* of the running launch, for getters; 0: not launched */
	atomic_uint_fast64_t core_mask;
	/* what the configuration asks for; constant from load on */
	uint64_t wanted_cores;     /* bit cluster * 8 + core; 0: none named */
	uint32_t wanted_num_cores; /* of Single; 0: all, or wanted_cores */
	uint32_t wanted_slots;     /* 0: the default */
	uint32_t identifier;
	uint32_t mode; /* enum qbrt_core_mode, resolved */
	/*
	 * Low half: qbrt_fork_generation() of who launches it, or did, ever.
	 * High half: launches that are inside, and one when any succeeded. 0:
	 * nobody, so no lock is held and nobody is counted.
	 */
	atomic_uint_fast64_t claims;
	/* bit 31: launched; below it, how many threads are inside */
	atomic_uint users;
	atomic_uint num_slots;
	atomic_uint references; /* the handle, and every future */
	atomic_bool was_launched;
	bool has_async_pipeline;
	/* taken by launch, and by who gives the device's things back */
	pthread_mutex_t launch_lock;
	pthread_cond_t retired; /* launched became NULL */
};

/*
 * Enters the launched model: FORKED_PROCESS, NOT_LAUNCHED or NOT_ALIVE with a
 * sentence, or what is constant until leave. Who is refused took no lock.
 */
enum qbrt_status qbrt_model_enter(struct qbrt_model *model,
				  struct qbrt_launched **launched);
void qbrt_model_leave(struct qbrt_model *model);

/* Without a sentence, by the process that launched it; NULL: not launched. */
struct qbrt_launched *qbrt_model_try_enter(struct qbrt_model *model);

/* For somebody else, by who is inside. */
static inline void qbrt_model_enter_again(struct qbrt_model *model)
{
	atomic_fetch_add_explicit(&model->users, 1, memory_order_relaxed);
}

struct qbrt_model *qbrt_model_ref(struct qbrt_model *model);
void qbrt_model_unref(struct qbrt_model *model);

/* A parent of fork launches it, or did, ever: lock and counts mean nothing. */
bool qbrt_model_is_inherited(const struct qbrt_model *model);

/* FORKED_PROCESS with its sentence, if so. */
enum qbrt_status qbrt_model_check_fork(const struct qbrt_model *model);

/* ---- model-load.c ---- */

/* What load made; not launched, and nobody has a reference any more. */
void qbrt_model_release(struct qbrt_model *model);

/* ---- model-jobs.c ---- */

void qbrt_launched_add_job(struct qbrt_launched *launched,
			   struct qbrt_job *job);
void qbrt_launched_remove_job(struct qbrt_launched *launched,
			      struct qbrt_job *job);
/* With a reference; NULL: there is none. */
struct qbrt_job *qbrt_launched_ref_oldest_job(struct qbrt_launched *launched);

/*
 * Has all jobs end, also those of calls that wait for theirs, and sees to it
 * that those nobody waits for are ended.
 */
void qbrt_launched_stop_jobs(struct qbrt_launched *launched);

/* The same for one that was submitted meanwhile. */
void qbrt_launched_stop_job(struct qbrt_launched *launched,
			    struct qbrt_job *job);

/* One job of a model, for its counters and for the sentence when it fails. */
struct qbrt_model_run {
	struct qbrt_model *model;
	struct qbrt_launched *launched;
	const struct qbrt_launched_variant *variant;
	uint64_t input_nbytes, output_nbytes;
	int64_t timeout; /* as in qbrt_infer_options, of a batch what is left */
	size_t first_item; /* of a batch */
	bool has_items;    /* a batch: sentences name the item */
	bool is_queued;    /* nobody waits for it inside SUBMIT */
	bool has_to_wait;  /* for writers, or behind others in its slot */
};

void qbrt_model_count_submit(const struct qbrt_model_run *run);
void qbrt_model_count_end(const struct qbrt_model_run *run, int err,
			  const struct drm_qbnpu_wait *wait);

/*
 * How the job ended, with its sentence in text if not well. err: of WAIT, the
 * result is lost; else it is in wait.
 */
enum qbrt_status qbrt_model_judge(const struct qbrt_model_run *run, int err,
				  const struct drm_qbnpu_wait *wait, char *text,
				  size_t size);

/* Of a job, in ns; timeout as in qbrt_infer_options. */
static inline int64_t qbrt_get_limit_ns(const struct qbrt_device *device,
					int64_t timeout)
{
	uint64_t longest = device->facts.max_job_ns;
	int64_t limit = timeout ? timeout : device->npu_timeout_ns;

	if (limit <= 0 || (uint64_t)limit > longest)
		limit = longest > INT64_MAX ? INT64_MAX : (int64_t)longest;
	return limit;
}

/*
 * Q592: "npu_watchdog: timeout after 100 ms (the call's timeout)" into text:
 * which limit it was, for who wants to change it.
 */
const char *qbrt_model_describe_timeout(const struct qbrt_model_run *run,
					char *text, size_t size);

/* The end of a sentence; is_later: a batch has had earlier jobs. */
static inline const char *qbrt_say_unchanged(bool is_later)
{
	return is_later ? "; nothing of this job ran"
			: "; nothing ran, the outputs are unchanged";
}

/* The job ended without having begun: what it writes is as it was. */
static inline bool qbrt_has_not_run(int err, const struct drm_qbnpu_wait *wait)
{
	return !err && wait->status && !wait->start_ns;
}

/* model-launch.c: the PROG section that is this variant in the model's mode. */
uint32_t qbrt_model_get_instance(const struct qbrt_model *model,
				 uint32_t variant);

/*
 * Also model-jobs.c: what a trace has of queued jobs. What a job bears as its
 * model's in SUBMIT's user_data and in a trace; never 0.
 */
static inline uint64_t
qbrt_model_get_trace_number(const struct qbrt_model *model)
{
	return model->identifier + UINT64_C(1);
}

/* submit or wait, by the calling thread from begin_ns until now. */
QBRT_TRACE_COLD void qbrt_model_trace_call(const struct qbrt_model *model,
					   const char *name,
					   const struct qbrt_job *job,
					   int64_t begin_ns);
/* Between submit and start of a job that has ended, if a trace is on. */
void qbrt_model_trace_queue(const struct qbrt_model *model,
			    const struct qbrt_job *job, int err,
			    const struct drm_qbnpu_wait *wait);
/* qbrt_job_wait for a call that does nothing else. */
int qbrt_model_wait_job(const struct qbrt_model *model, struct qbrt_job *job,
			int64_t deadline_ns);

/* model-launch.c: all of it or nothing. */
enum qbrt_status qbrt_launched_start(const struct qbrt_model *model,
				     struct qbrt_device *device,
				     struct qbrt_launched **launched);
void qbrt_launched_free(struct qbrt_launched *launched);

/* model-info.c, in words: core modes, and numbers of qbm_header.target */
#define QBRT_NUM_TARGETS 6
extern const char *const qbrt_core_mode_names[QBRT_CORE_MODE_AUTO];
extern const char *const qbrt_target_names[QBRT_NUM_TARGETS];

/* The names of the bits that are set, "Single, Multi", into text. */
const char *qbrt_list_bits(uint64_t bits, const char *const *names, size_t num,
			   char *text, size_t size);

#endif
