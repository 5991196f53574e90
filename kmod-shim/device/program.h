/* SPDX-License-Identifier: MIT */
/*
 * A validated program as an array of prepared commands, and its scratch. The
 * array and the sizes never change after load; only scratch is written, by the
 * one core that it belongs to.
 */
#ifndef QBNPU_PROGRAM_H
#define QBNPU_PROGRAM_H

#include "kernels.h"
#include "npu.h"

/* A command and the kernels that took it. */
struct qbnpu_step {
	const struct qbnpu_kernels *kernels;
	struct qbnpu_prepared *prepared;
};

/* Private memory of a program on one core. */
struct qbnpu_arena {
	void *scratch_block; /* as allocated */
	void *kernel_block;
	uint8_t *scratch; /* the SCRATCH binding */
	uint8_t *kernel;  /* what kernels asked for */
};

struct qbnpu_executable {
	struct qbnpu_facts *facts;
	uint8_t *weights; /* only read */
	struct qbnpu_step *steps;
	uint32_t num_steps;
	bool poison;
	bool has_delay; /* a command that takes time of its own */
	uint64_t core_mask;
	uint64_t read_size; /* bytes that one item reads and writes */
	uint64_t write_size;
	struct qbnpu_arena arenas[QBNPU_MAX_CORES]; /* by bit of core_mask */
};

/*
 * Runs one item on a core of core_mask. 0, or what the pace's look() returned;
 * *command is then the command that did not end.
 */
int qbnpu_executable_run(const struct qbnpu_executable *executable,
			 uint32_t core, const struct qbnpu_job *job,
			 uint32_t item, struct qbnpu_pace *pace,
			 uint32_t *command);

#endif
