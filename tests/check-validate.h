/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of check-validate: the programs that break one V row
 * each, as a good program and the bytes that are changed in it, and more good
 * programs (forms) beside those of prog_good.
 */
#ifndef TESTS_CHECK_VALIDATE_H
#define TESTS_CHECK_VALIDATE_H

#include <stddef.h>
#include <stdint.h>

#include "isa/validate.h"
#include "prog.h"
#include "test-util.h"

enum patch_table {
	PATCH_END,
	PATCH_HEADER, /* of the finished bytes, like PATCH_LIST, PATCH_PAD */
	PATCH_LIST,
	PATCH_PAD,     /* from the end of the pool */
	PATCH_BINDING, /* before prog_finish, which counts again */
	PATCH_TENSOR,
	PATCH_PARAM,
	PATCH_POOL,
	PATCH_COMMAND,
};

struct patch {
	uint8_t table;
	uint8_t index;
	uint16_t offset;
	uint8_t size;
	uint64_t value;
};

#define PATCH(table, index, type, field, value) \
	{ \
		table, index, offsetof(type, field), \
			sizeof(((type *)0)->field), (uint64_t)(value) \
	}
#define H(field, value) \
	PATCH(PATCH_HEADER, 0, struct qbnpu_program, field, value)
#define L(field, value) PATCH(PATCH_LIST, 0, struct qbnpu_list, field, value)
#define PAD(byte, value) \
	{ \
		PATCH_PAD, 0, byte, 1, value \
	}
#define B(i, field, value) \
	PATCH(PATCH_BINDING, i, struct qbnpu_binding_desc, field, value)
#define T(i, field, value) \
	PATCH(PATCH_TENSOR, i, struct qbnpu_tensor, field, value)
#define P(i, field, value) \
	PATCH(PATCH_PARAM, i, struct qbnpu_param, field, value)
#define POOL(i, value) \
	{ \
		PATCH_POOL, i, 0, 4, value \
	}
#define C(i, op, field, value) \
	PATCH(PATCH_COMMAND, i, struct qbnpu_cmd_##op, field, value)
#define HEAD(i, field, value) \
	PATCH(PATCH_COMMAND, i, struct qbnpu_cmd, field, value)

/* Offset of a command's or the header's field, which V07, V37, V38 report. */
#define AT(op, field) offsetof(struct qbnpu_cmd_##op, field)
#define AT_HEADER(field) offsetof(struct qbnpu_program, field)
#define NONE QBNPU_NONE32

struct bad_case {
	const char *name; /* behind "bad-vNN-" in the corpus */
	uint32_t rule;
	uint32_t command;
	uint32_t operand;
	void (*build)(struct prog *prog); /* NULL: prog_good(opcode) */
	uint32_t opcode;
	struct patch patches[5];
};

/* Bases and forms: begun and finished, good. */
struct form {
	const char *name;
	void (*build)(struct prog *prog);
};
extern const struct form forms[];
extern const size_t num_forms;

void build_spare(struct prog *prog);
void build_aliases(struct prog *prog);
void build_param(struct prog *prog);
void build_cache(struct prog *prog);
void build_conv_int8(struct prog *prog);
void build_conv_i32(struct prog *prog);
void build_conv_half(struct prog *prog);
void build_matmul_int8(struct prog *prog);
void build_matmul_batched(struct prog *prog);
void build_binary_int8(struct prog *prog);
void build_binary_in_place(struct prog *prog);
void build_pool_int8(struct prog *prog);
void build_pool_max(struct prog *prog);
void build_reduce_int8(struct prog *prog);
void build_reduce_argmax(struct prog *prog);
void build_gather_elements(struct prog *prog);
void build_quant_run_time(struct prog *prog);
void build_cast_run_time(struct prog *prog);
void build_cast_number(struct prog *prog);
void build_layernorm_rms(struct prog *prog);
void build_softmax_mask(struct prog *prog);
void build_residual_in_place(struct prog *prog);
void build_dynamic(struct prog *prog);

/* check-validate-tables.c, check-validate-commands.c, check-validate-ops.c */
extern const struct bad_case bad_tables[];
extern const size_t num_bad_tables;
extern const struct bad_case bad_commands[];
extern const size_t num_bad_commands;
extern const struct bad_case bad_ops[];
extern const size_t num_bad_ops;

/* At the caps: these pass. */
void build_most_intervals(struct prog *prog);
void build_deepest(struct prog *prog);
void build_deepest_shifted(struct prog *prog);

/* Builds the case's program: begun, patched, finished. */
void build_bad(const struct bad_case *bad, struct prog *prog);

/*
 * Validates the finished program with exactly the work memory that it needs.
 * After success *facts is a copy that the caller frees; NULL: not wanted.
 */
int validate(const struct prog *prog, const struct qbnpu_caps *caps,
	     struct qbnpu_report *report, struct qbnpu_facts **facts);

/* check-validate-rules.c, check-validate-types.c: each adds its tests */
void add_rule_tests(struct qbrt_tests *all);
void add_type_tests(struct qbrt_tests *all);

#endif
