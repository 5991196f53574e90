/* SPDX-License-Identifier: MIT */
/* What the files of check-fault share. */
#ifndef TESTS_CHECK_FAULT_H
#define TESTS_CHECK_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "device-case.h"
#include "device/fault.h"
#include "test-util.h"

/* A device, and a program of two commands: output = input, output = 0x5a. */
#define FAULT_BYTES 64u
#define FAULT_FILL 0x5a

struct fault_stage {
	struct qbnpu_npu *npu;
	struct prog prog;
	struct device_program program;
	struct device_memory memory;
};

/* config: NULL, or what the device is opened with. Input is 1, 2, 3... */
void fault_begin(struct fault_stage *stage, uint32_t num_items,
		 const struct qbnpu_config *config);
void fault_end(struct fault_stage *stage);

/* A job on core 0. */
void fault_job(struct device_job *job, struct fault_stage *stage);
uint32_t fault_add(struct fault_stage *stage, const char *plan);
/* Returns when the plan has struck so many jobs. */
void fault_wait_fired(struct fault_stage *stage, uint32_t id, uint64_t num);

/* The item's output holds what num_commands commands leave. */
void fault_check_output(struct fault_stage *stage, uint32_t item,
			uint32_t num_commands);

struct fault_runner {
	struct fault_stage *stage;
	struct device_job *job;
};

/* Begins the job, queued or inline on another thread. */
void fault_start(struct fault_runner *runner, bool is_inline,
		 pthread_t *thread);

/* Queued or inline; waits for the end, which has to be this one. */
void fault_run_to(struct fault_stage *stage, struct device_job *job,
		  bool is_inline, int status, uint32_t cause);
void fault_check_place(const struct device_job *job, uint32_t list,
		       uint32_t command, uint32_t item);
/* The device runs jobs as ever. */
void fault_check_next_job(struct fault_stage *stage);

/* The tests of one file each, added to those of the program. */
void fault_plan_tests(struct qbrt_tests *all);
void fault_choice_tests(struct qbrt_tests *all);
void fault_time_tests(struct qbrt_tests *all);

#endif
