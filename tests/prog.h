/* SPDX-License-Identifier: MIT */
/*
 * Builds device programs for tests. Fill bindings, tensors, parameters, pool
 * and commands through the calls below, then prog_finish lays the program out
 * and computes what can be: spans, region offsets, counts, mac_count,
 * byte_count, feature bits and the TIMESTAMPS flag. It checks nothing: bad
 * programs come from editing the tables before prog_finish, or the finished
 * bytes after it. What it computes it computes by itself, without validate.c,
 * so that the two check each other. A failed allocation aborts.
 */
#ifndef TESTS_PROG_H
#define TESTS_PROG_H

#include <stddef.h>
#include <stdint.h>

#include "isa/isa.h"

/* Extents as two arguments, rank and dims: prog_input(p, dtype, DIMS(2, 3)) */
#define DIMS(...) \
	(uint32_t)(sizeof((const uint32_t[]){ __VA_ARGS__ }) / \
		   sizeof(uint32_t)), \
		(const uint32_t[]) \
	{ \
		__VA_ARGS__ \
	}

struct prog {
	/* the finished program: aligned to 16, owned by this struct */
	uint8_t *bytes;
	size_t nbytes;

	uint32_t core_mode; /* enum qbnpu_mode */
	uint32_t batch;
	uint32_t num_bindings;
	uint32_t num_tensors;
	uint32_t num_params;
	uint32_t num_pool;
	uint32_t num_commands;
	struct qbnpu_binding_desc bindings[QBNPU_MAX_BINDINGS];
	struct qbnpu_param params[QBNPU_MAX_PARAMS];
	struct qbnpu_tensor *tensors;
	uint32_t *pool;
	uint8_t *commands;
	uint32_t commands_size;
	uint32_t num_io; /* INPUT and OUTPUT bindings so far */
};

/* An empty program: mode Single, batch 1. */
void prog_begin(struct prog *prog);

/* Frees what the struct owns; the struct may be begun again. */
void prog_end(struct prog *prog);

/*
 * A binding with the access of its kind, align_log2 6, no alias, no tensor;
 * INPUT and OUTPUT get io 0, 1, 2... in order. Returns its number.
 */
uint16_t prog_binding(struct prog *prog, uint32_t kind, uint64_t size);

/*
 * A dense row-major view at offset of a binding; scale 1.0 for U8, I8 and
 * I32, no per-channel scales, no parameters. Returns its number. Its span is
 * 0 until prog_finish computes it, so dims, strides and window may be edited.
 */
uint16_t prog_tensor(struct prog *prog, uint16_t binding, uint64_t offset,
		     uint32_t dtype, uint32_t rank, const uint32_t *dims);

/* A new INPUT or OUTPUT binding and the tensor that is the whole of it. */
uint16_t prog_input(struct prog *prog, uint32_t dtype, uint32_t rank,
		    const uint32_t *dims);
uint16_t prog_output(struct prog *prog, uint32_t dtype, uint32_t rank,
		     const uint32_t *dims);

/*
 * A dense tensor behind what is already in the program's one WEIGHTS, SCRATCH
 * or STATE binding, at a multiple of 64; the binding is made at first use.
 */
uint16_t prog_weights(struct prog *prog, uint32_t dtype, uint32_t rank,
		      const uint32_t *dims);
uint16_t prog_scratch(struct prog *prog, uint32_t dtype, uint32_t rank,
		      const uint32_t *dims);
uint16_t prog_state(struct prog *prog, uint32_t dtype, uint32_t rank,
		    const uint32_t *dims);

/* A copy of a tensor's entry with span 0, to be edited. */
uint16_t prog_view(struct prog *prog, uint16_t tensor);

/* Tensor by number, to be edited before prog_finish. */
struct qbnpu_tensor *prog_get_tensor(struct prog *prog, uint16_t tensor);

/* A parameter; returns its mask, 1 << number. */
uint8_t prog_param(struct prog *prog, uint32_t kind, uint32_t min, uint32_t max,
		   uint32_t multiple);

/* Appends values to the pool; returns the index of the first. */
uint32_t prog_pool(struct prog *prog, const float *values, uint32_t count);

/*
 * Appends a command: head filled in, everything optional absent (operands
 * NONE, floats 0.0), and where 0 is not allowed the neutral value: kernel,
 * stride, dilation, groups 1; alpha, softmax and resize scales 1.0; fn 1;
 * PAD_REFLECT mode 1. Required operands are tensor 0. Of an opcode that is
 * none: 16 bytes. The pointer is good until the next prog_cmd.
 */
void *prog_cmd(struct prog *prog, uint32_t opcode);

/* The commonest ones. */
void prog_fill(struct prog *prog, uint16_t dst, uint64_t value);
void prog_copy(struct prog *prog, uint16_t src, uint16_t dst);
void prog_unary(struct prog *prog, uint32_t fn, uint16_t src, uint16_t dst,
		float a, float b);
void prog_binary(struct prog *prog, uint32_t fn, uint16_t a, uint16_t b,
		 uint16_t dst);

/* Makes bytes and nbytes; may be called again after more edits. */
void prog_finish(struct prog *prog);

/* Parts of the finished bytes, to be damaged. */
struct qbnpu_program *prog_at_header(struct prog *prog);
struct qbnpu_binding_desc *prog_at_binding(struct prog *prog, uint32_t index);
struct qbnpu_tensor *prog_at_tensor(struct prog *prog, uint32_t index);
struct qbnpu_list *prog_at_list(struct prog *prog);
void *prog_at_command(struct prog *prog, uint32_t index);

/* The bits of a float. */
uint32_t prog_f32(float value);
uint64_t prog_f64(double value);

uint32_t prog_dtype_size(uint32_t dtype);

/* Bytes of a command of this opcode; of an unknown one 16, its head. */
uint32_t prog_command_size(uint32_t opcode);

/* The golden program: prog_begin, one COPY of 64 bytes, prog_finish. */
void prog_copy64(struct prog *prog);

/*
 * prog-good.c: a small valid program around one opcode, begun and finished.
 * 0 for an opcode that cannot be in a valid program (BARRIER, unknown).
 */
int prog_good(struct prog *prog, uint32_t opcode);

/* The opcodes of ISA 1.0 in ascending order, and their lower-case names. */
struct prog_opcode {
	uint32_t opcode;
	const char *name;
};
extern const struct prog_opcode prog_opcodes[];
extern const uint32_t prog_num_opcodes;

#endif
