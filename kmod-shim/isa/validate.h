/* SPDX-License-Identifier: MIT */
/*
 * The validator: decides once, when a program is created, that no command of
 * it can make any backend touch a byte outside its bindings. Freestanding: no
 * allocation, no libc, no recursion, no floating point, no global state.
 * Rules V01 to V49 of docs/spec/device-and-format.md, section 7.
 */
#ifndef QBNPU_VALIDATE_H
#define QBNPU_VALIDATE_H

#include "isa.h"

/*
 * What a device offers. A caller starts from qbnpu_caps_isa; a driver puts its
 * device's isa_minor and isa_features in, a fuzz target divides the caps.
 */
struct qbnpu_caps {
	uint32_t isa_minor;
	uint32_t reserved;
	uint64_t isa_features;
	uint64_t max_binding_size;
	uint64_t max_span;
	uint64_t max_command_macs;
	uint64_t max_program_macs;
	uint64_t max_byte_count;
	uint64_t max_delays_ns; /* sum over a program */
	uint32_t max_program_size;
	uint32_t max_bindings;
	uint32_t max_tensors;
	uint32_t max_commands;
	uint32_t max_extent;
	uint32_t max_pool;
	uint32_t max_intervals; /* disjoint SCRATCH intervals (V43) */
	uint32_t max_delay_ns;  /* of one NOP */
};

/* All of ISA 1.0. */
extern const struct qbnpu_caps qbnpu_caps_isa;

/* One binding as the validated program describes it. */
struct qbnpu_binding_facts {
	uint64_t size;
	uint32_t kind;   /* enum qbnpu_binding_kind */
	uint32_t access; /* QBNPU_ACCESS_... */
	uint32_t align_log2;
	uint32_t alias; /* an OUTPUT's INPUT, else QBNPU_NONE32 */
};

/*
 * A pair of PF03: the sum of the parameters whose bits are set must not
 * exceed limit.
 */
struct qbnpu_param_pair {
	uint32_t params; /* bit p: parameter p; once per use */
	uint32_t twice;  /* bit p: parameter p counts a second time */
	uint64_t limit;
};

/*
 * What a submit needs to know of a program: flat, without pointers; pairs
 * follow the struct. Kept by copying facts->size bytes.
 */
struct qbnpu_facts {
	uint64_t size; /* of this block, pairs included */
	uint64_t isa_features;
	uint64_t mac_count;
	uint64_t byte_count;
	uint32_t core_mode;
	uint32_t batch;
	uint32_t binding_count;
	uint32_t param_count;
	uint32_t pair_count;
	uint32_t flags; /* qbnpu_program.flags */
	struct qbnpu_param params[QBNPU_MAX_PARAMS];
	struct qbnpu_binding_facts bindings[QBNPU_MAX_BINDINGS];
	struct qbnpu_param_pair pairs[];
};

/* Memory that the caller lends to qbnpu_validate. */
struct qbnpu_work {
	void *memory;             /* aligned to 16 */
	size_t size;              /* >= qbnpu_validate_work_size() */
	void (*yield)(void *arg); /* NULL, or called every 256 commands */
	void *arg;
};

/*
 * Why not: rule = number of the V row (bind.c: fail_what), command = index or
 * QBNPU_NONE32 for the header or a table, operand = operand or table index
 * (bind.c: fail_index), limit = the cap or bound that was broken. After
 * success of qbnpu_validate facts points into the work memory.
 */
struct qbnpu_report {
	uint32_t rule;
	uint32_t command;
	uint32_t operand;
	uint32_t reserved;
	uint64_t limit;
	const struct qbnpu_facts *facts;
};

/*
 * Bytes of work memory that qbnpu_validate needs for this program: at most
 * 8 MiB; 0 for what V01 to V06 refuse by the header alone. Reads no more than
 * min(size, 128) bytes.
 */
size_t qbnpu_validate_work_size(const void *program, size_t size);

/*
 * Validates size bytes at program (aligned to 16). The bytes must not change
 * meanwhile. Returns 0; -ENOEXEC (refused, the rule is in report);
 * -EOPNOTSUPP (rule 4 alone: a known feature that caps lacks); -EINVAL (work
 * too small).
 */
int qbnpu_validate(const void *program, size_t size,
		   const struct qbnpu_caps *caps, struct qbnpu_work *work,
		   struct qbnpu_report *report);

#endif
