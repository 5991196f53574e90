/* SPDX-License-Identifier: MIT */
/*
 * Small model files in memory, by the published format: one variant, one
 * program, inputs and outputs that are whole bindings, no weights. Begin, add
 * the inputs, then the outputs, then the commands, and finish.
 */
#ifndef QBINFO_QBM_WRITER_H
#define QBINFO_QBM_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "isa/isa.h"

/* Extents as two arguments: qbm_add_input(writer, dtype, QBM_DIMS(2, 3)) */
#define QBM_DIMS(...) \
	(uint32_t)(sizeof((const uint32_t[]){ __VA_ARGS__ }) / \
		   sizeof(uint32_t)), \
		(const uint32_t[]) \
	{ \
		__VA_ARGS__ \
	}

#define QBM_MAX_TENSORS 8u
#define QBM_MAX_COMMANDS_SIZE 1024u

struct qbm_writer {
	struct qbnpu_tensor tensors[QBM_MAX_TENSORS]; /* of binding = io = i */
	uint32_t num_inputs, num_tensors;
	unsigned char commands[QBM_MAX_COMMANDS_SIZE];
	size_t commands_size;
	uint32_t num_commands;
	uint64_t num_bytes, num_macs; /* what the program's header tells */
	uint64_t features;
};

void qbm_begin(struct qbm_writer *writer);
/* Dense; dtype: enum qbnpu_dtype. The number of the tensor. */
uint16_t qbm_add_input(struct qbm_writer *writer, uint32_t dtype, uint32_t rank,
		       const uint32_t *dims);
uint16_t qbm_add_output(struct qbm_writer *writer, uint32_t dtype,
			uint32_t rank, const uint32_t *dims);
/*
 * A command of size bytes with its operands in place; the caller fills in the
 * rest, and adds to num_macs. Good until the next one.
 */
void *qbm_add_command(struct qbm_writer *writer, uint32_t opcode, size_t size,
		      const uint16_t *operands, size_t num_operands);
/* A memfd of the file, the caller's; or -errno. */
int qbm_finish(const struct qbm_writer *writer);

#endif
