/* SPDX-License-Identifier: MIT */
/*
 * A program on a device of its own, as a driver would run it: validated,
 * loaded, with memory for its bindings between canaries, and jobs whose end
 * can be waited for. Failures abort the test.
 */
#ifndef TESTS_DEVICE_CASE_H
#define TESTS_DEVICE_CASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/npu.h"
#include "prog.h"

/* Bytes before and after each binding; the values are DEVICE_CASE_CANARY. */
#define DEVICE_CASE_MARGIN 4096u
#define DEVICE_CASE_CANARY 0xc3

/* Facts live as long as the struct. */
struct device_program {
	struct qbnpu_executable *executable;
	const struct qbnpu_facts *facts;
	uint8_t *weights_block;
	uint8_t *weights; /* NULL without WEIGHTS */
};

/* Memory for the bindings of num_items items. */
struct device_memory {
	const struct qbnpu_facts *facts;
	uint32_t num_items;
	struct qbnpu_range ranges[QBNPU_MAX_BINDINGS];
	uint8_t *blocks[QBNPU_MAX_BINDINGS];
};

/* A job and how many times its done() was called. */
struct device_job {
	struct qbnpu_job job; /* first */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int num_done;
	pthread_t done_on; /* the thread that called it, and its name */
	char thread_name[16];
};

struct qbnpu_npu *device_open(const char *name);
struct qbnpu_npu *device_open_poison(bool poison); /* aries-rb */

/*
 * Validates for the device and loads; weights are the bytes 0, 1, 2... when
 * fill is NULL. core_mask 0: all cores.
 */
void device_load(struct qbnpu_npu *npu, const struct prog *prog,
		 uint64_t core_mask, struct device_program *program);
void device_unload(struct device_program *program);

/* Inputs and states are 0, outputs 0xee. */
void device_memory_alloc(struct device_memory *memory,
			 const struct device_program *program,
			 uint32_t num_items);
/* Fails the test when a canary has changed. */
void device_memory_check(const struct device_memory *memory);
void device_memory_free(struct device_memory *memory);
/* First byte of a binding for an item. */
void *device_memory_at(const struct device_memory *memory, uint32_t binding,
		       uint32_t item);

/* Ready to be submitted; priority 0, no deadline, a limit of an hour. */
void device_job_begin(struct device_job *job,
		      const struct device_program *program,
		      struct device_memory *memory);
void device_job_end(struct device_job *job);
/* Waits for done(); returns the status. */
int device_job_wait(struct device_job *job);
bool device_job_is_done(struct device_job *job);

/* Submits and waits; the status. */
int device_job_submit_wait(struct qbnpu_npu *npu, struct device_job *job);

/* Returns when the core of this bit runs an item. */
void device_wait_busy(struct qbnpu_npu *npu, uint32_t bit);
struct qbnpu_core_state device_core_state(struct qbnpu_npu *npu, uint32_t bit);

/*
 * Runs a program on one core of a new device, its inputs and weights small
 * finite f32 numbers. Returns the bytes of its outputs, one after the other.
 */
size_t device_run_once(const struct prog *prog, bool poison, uint32_t bit,
		       uint8_t *outputs);

/* A finished program: so many NOPs of a second each, then a FILL with 0x5a. */
void device_nop_program(struct prog *prog, uint32_t num_seconds);

/*
 * A device with two programs: a copy of 64 bytes with memory whose input is
 * 1, 2, 3... and one that lasts longer than any test.
 */
#define DEVICE_LONG_SECONDS 60u

struct device_fixture {
	struct qbnpu_npu *npu;
	struct prog prog, long_prog;
	struct device_program program, long_program;
	struct device_memory memory, long_memory;
};

/* A job on one core that runs until it is cancelled. */
struct device_blocker {
	struct device_job job;
	struct device_memory memory;
};

void device_fixture_begin(struct device_fixture *f, const char *name);
void device_fixture_end(struct device_fixture *f);
/* A job of the copy program. */
void device_fixture_job(struct device_job *job, struct device_fixture *f,
			uint64_t core_mask);
/* The copy has been made. */
void device_fixture_check(struct device_fixture *f);

/* Makes the core of this bit busy, until device_unblock. */
void device_block(struct device_blocker *b, struct device_fixture *f,
		  uint32_t bit);
void device_unblock(struct device_blocker *b, struct device_fixture *f);

#endif
