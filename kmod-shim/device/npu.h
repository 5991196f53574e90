/* SPDX-License-Identifier: MIT */
/*
 * The device: cores that run validated programs and copies on memory of this
 * process. A driver (soft/, or the process that plays the hardware for a
 * virtual machine) opens one from a configuration, loads programs, and hands
 * in jobs that are ready to run; queues, timelines and waits are the driver's.
 * Nothing here reads a variable or knows the uAPI. Errors are 0 or -errno.
 *
 * Locks: the device's own only, none is held while a job's done() runs.
 */
#ifndef QBNPU_NPU_H
#define QBNPU_NPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isa/bind.h"
#include "isa/validate.h"

#define QBNPU_MAX_CORES 64 /* bit cluster * 8 + core of a core mask */

enum qbnpu_backend {
	QBNPU_BACKEND_AUTO = 0,
	QBNPU_BACKEND_REF = 1,
	QBNPU_BACKEND_ONEDNN = 2,
};

struct qbnpu_job;

/* An item that ran; its job is still there during the call. */
struct qbnpu_trace_item {
	struct qbnpu_job *job;
	uint32_t item;
	uint32_t core; /* cluster * 8 + core */
	int err;       /* 0, or why it ended early */
	int64_t begin_ns;
	int64_t end_ns;
};

/* Everything that shapes a device, fixed at open. */
struct qbnpu_config {
	const char *name; /* concrete device name, decides the profile */
	uint64_t memory;  /* bytes of device memory, 0: the profile's */
	enum qbnpu_backend backend;
	const char *plugin_dir; /* folder of the kernel plugin, or NULL */
	bool poison;     /* scratch and outputs are 0xA5 before each job */
	uint32_t number; /* that dev= of a fault plan names */
	const char *fault_plan; /* NULL: none (fault.h) */
	/*
	 * While *is_trace_on, called for each item of a job that has begun, on
	 * the item's thread, before its job can be complete, with no lock of
	 * the device held. NULL: never; then is_trace_on may be NULL too.
	 */
	void (*trace)(const struct qbnpu_trace_item *item);
	const atomic_bool *is_trace_on;
};

/* What the device is; constant while it is open. */
struct qbnpu_npu_facts {
	char name[32];
	uint32_t profile; /* 1 aries, 2 regulus */
	uint32_t clusters;
	uint32_t local_cores;   /* per cluster */
	uint32_t global_cores;  /* per cluster */
	uint32_t core_modes;    /* bit per enum qbnpu_mode that runs */
	uint64_t core_mask;     /* local cores */
	uint64_t memory;        /* bytes of device memory */
	uint64_t instance;      /* random, new at each open */
	struct qbnpu_caps caps; /* what qbnpu_validate is to allow */
};

/* One core as accounting sees it. */
struct qbnpu_core_state {
	uint32_t cluster;
	uint32_t core;
	uint32_t is_global;
	uint32_t is_busy;
	uint32_t queued; /* job items that wait for it */
	uint32_t resets;
	uint64_t busy_ns; /* grows while a job runs */
	uint64_t jobs;    /* job items done */
};

/*
 * Totals since open (DV24), of jobs as they were when get_counters was called
 * last; read with relaxed loads.
 */
struct qbnpu_counters {
	atomic_uint_fast64_t submitted, completed, failed, cancelled, timeouts;
	atomic_uint_fast64_t programs_loaded, programs_rejected;
	atomic_uint_fast64_t rejected_by_rule[64];
	atomic_uint_fast64_t bytes_read, bytes_written, copy_bytes, macs;
	atomic_uint_fast64_t wait_ns; /* between submit and start */
};

/* A program that is ready to run on this device. */
struct qbnpu_executable;

enum qbnpu_fault_word {
	QBNPU_FAULT_UNDECIDED = 0, /* no item of the job has begun */
	QBNPU_FAULT_NONE,
	QBNPU_FAULT_HANG,
	QBNPU_FAULT_ERROR,
	QBNPU_FAULT_SLOW,
	QBNPU_FAULT_LATE,
};

/* The fault that strikes a job; see fault.c. */
struct qbnpu_fault_hit {
	enum qbnpu_fault_word word;
	uint32_t plan;
	uint32_t command;
	uint32_t item;
	int64_t factor;
	int64_t ns;
};

enum qbnpu_job_type {
	QBNPU_JOB_RUN = 1,
	QBNPU_JOB_COPY = 2,
};

/* Memory of one binding for item 0; item i starts i * item_stride later. */
struct qbnpu_range {
	void *base;
	uint64_t length;
	uint64_t item_stride;
};

/* How a job ended. list, command, item, core: QBNPU_NONE32 when not known. */
struct qbnpu_result {
	int32_t status; /* 0 or -errno of K114 */
	uint32_t cause; /* enum qbnpu_cause */
	uint32_t list;
	uint32_t command;
	uint32_t item;    /* lowest failing */
	uint32_t core;    /* of item 0, else of the first item that began */
	int64_t start_ns; /* 0: never ran */
	int64_t end_ns;
	uint64_t busy_ns; /* sum over the cores used */
};

/*
 * One job. The driver fills the first part and keeps the struct, the memory
 * ranges and the executable alive until done() was called; it has checked
 * everything with isa/ before.
 */
struct qbnpu_job {
	enum qbnpu_job_type type;
	int32_t priority; /* -2 .. 0, smaller is more urgent */
	int32_t cpu;      /* of the host, that submits it; -1: unknown */
	uint32_t item_count;
	uint32_t params[QBNPU_MAX_PARAMS];
	uint32_t queue;      /* the driver's number of it, for faults */
	uint64_t core_mask;  /* COPY: any core when 0 */
	int64_t submit_ns;   /* CLOCK_MONOTONIC, for accounting */
	int64_t deadline_ns; /* absolute; INT64_MAX: none */
	int64_t limit_ns;    /* longest run time from its start */
	struct qbnpu_executable *executable; /* RUN */
	/*
	 * RUN: one entry per binding of the program; SCRATCH and WEIGHTS are
	 * filled in by the device, whatever they hold.
	 */
	struct qbnpu_range *ranges;
	const struct qbnpu_copy_shape *copy; /* COPY: geometry */
	const void *copy_src; /* first byte of the source element 0 */
	void *copy_dst;
	/*
	 * Called once, after result is whole, on a core's thread, on a
	 * thread inside qbnpu_npu_run (of this job, or of another one, when
	 * this one's deadline passed while it was queued), or inside
	 * qbnpu_npu_cancel, with no lock of the device held. The device does
	 * not touch the job again. Must not close the device.
	 */
	void (*done)(struct qbnpu_job *job);

	struct qbnpu_result result; /* out */

	/* the device's own, all zero when submitted, up to the end */
	struct qbnpu_job *next;
	atomic_uint stop_cause; /* 0: go on; else enum qbnpu_cause */
	atomic_uint next_item;
	atomic_uint items_left;
	atomic_uint runners;
	atomic_uint_fast64_t busy_ns;
	uint32_t is_started;
	atomic_uint is_complete;
	struct qbnpu_fault_hit fault;
};

struct qbnpu_npu;

/*
 * What executes jobs. The cores of core.c by default; tests put a stepped
 * engine in its place (tests/sim.c) without touching the seam. Ops as the
 * functions of the same name below.
 */
struct qbnpu_engine {
	int (*submit)(void *arg, struct qbnpu_job *job);
	int (*run)(void *arg, struct qbnpu_job *job);
	void (*cancel)(void *arg, struct qbnpu_job *job, uint32_t cause);
	void (*drain)(void *arg);
};

/*
 * Opens a device; starts no thread. -EINVAL: unknown name, or a fault plan that
 * does not parse; -ENOENT: the backend asked for has no plugin file; -ENOMEM.
 * Never above half of the machine's memory (Q121).
 */
int qbnpu_npu_open(const struct qbnpu_config *config, struct qbnpu_npu **npu);

/* Waits for running jobs, ends the cores' threads. No job may be queued. */
void qbnpu_npu_close(struct qbnpu_npu *npu);

const struct qbnpu_npu_facts *qbnpu_npu_get_facts(const struct qbnpu_npu *npu);
struct qbnpu_counters *qbnpu_npu_get_counters(struct qbnpu_npu *npu);

/* Local cores by cluster and core, then the global ones; how many there are. */
size_t qbnpu_npu_get_core_states(struct qbnpu_npu *npu,
				 struct qbnpu_core_state *states,
				 size_t max_states);

/*
 * Device memory: an account that buffers, program bytes and scratch share.
 * take: 0, or -ENOMEM with the bytes that are missing.
 */
int qbnpu_npu_take_memory(struct qbnpu_npu *npu, uint64_t size,
			  uint64_t *missing);
void qbnpu_npu_give_memory(struct qbnpu_npu *npu, uint64_t size);
uint64_t qbnpu_npu_get_memory_free(const struct qbnpu_npu *npu);

/*
 * Makes a validated program ready: copies its bytes, resolves its tensors,
 * finds a kernel for each command, makes zeroed scratch for each core of
 * core_mask. weights: size of the WEIGHTS binding, alive as long as the
 * executable, NULL without one. Takes no device memory (the caller does).
 * Counts programs_loaded; refusals are counted by the caller, with those of
 * the validator. -ENOMEM; -EOPNOTSUPP with rule 32 and the command in report:
 * no kernel of the backend takes it.
 */
int qbnpu_executable_load(struct qbnpu_npu *npu, const void *program,
			  const struct qbnpu_facts *facts, const void *weights,
			  uint64_t core_mask,
			  struct qbnpu_executable **executable,
			  struct qbnpu_report *report);
void qbnpu_executable_free(struct qbnpu_executable *executable);
const struct qbnpu_facts *
qbnpu_executable_get_facts(const struct qbnpu_executable *executable);

/* One item takes some milliseconds at most, and no fault is planned. */
bool qbnpu_npu_ends_soon(const struct qbnpu_npu *npu,
			 const struct qbnpu_executable *executable);

/*
 * Starts a core's thread if no core of the job's mask has one; submit does not
 * fail from then on. -ENOMEM: none could be started.
 */
int qbnpu_npu_prepare(struct qbnpu_npu *npu, const struct qbnpu_job *job);

/*
 * Queues a ready job on its cores; done() comes later, always, once the cores
 * that it adds to *to_wake are woken (NULL: it does that itself). -ENOMEM: not
 * queued (no core of its mask has a thread, and none could be started).
 */
int qbnpu_npu_submit(struct qbnpu_npu *npu, struct qbnpu_job *job,
		     uint64_t *to_wake);

/*
 * Wakes cores that have got work. Best without a lock that done() takes: on the
 * CPU of the caller a core would run into it at once.
 */
void qbnpu_npu_wake(struct qbnpu_npu *npu, uint64_t cores);

/*
 * Runs a job of one item on the calling thread, done() included, if a core of
 * its mask is idle. Where no core of the mask can have a thread, waits for one
 * to become idle, up to the job's deadline. -EBUSY: none is idle, nothing
 * happened, submit will queue it. Saves and restores the thread's floating
 * point modes.
 */
int qbnpu_npu_run(struct qbnpu_npu *npu, struct qbnpu_job *job);

/*
 * Ends a job with this cause: not begun, it is complete when the call returns;
 * running, it stops at its next check. Complete: no effect. Not handed in yet,
 * or on its way into qbnpu_npu_run: the cause is noted, no done() is called,
 * and a run that follows ends at once. The caller keeps the job alive over the
 * call.
 */
void qbnpu_npu_cancel(struct qbnpu_npu *npu, struct qbnpu_job *job,
		      uint32_t cause);

/* Tests only: replaces the cores. No job may be queued. NULL: the cores. */
void qbnpu_npu_set_engine(struct qbnpu_npu *npu,
			  const struct qbnpu_engine *engine, void *arg);

#endif
