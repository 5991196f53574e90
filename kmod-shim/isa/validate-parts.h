/* SPDX-License-Identifier: MIT */
/*
 * Private to the validator: what validate.c (header, commands, totals),
 * validate-tables.c (V07 to V30) and validate-ops.c (what each opcode demands)
 * share. Freestanding like all three.
 */
#ifndef QBNPU_VALIDATE_PARTS_H
#define QBNPU_VALIDATE_PARTS_H

#include "extent.h"
#include "validate.h"

#define MAX_OPERANDS 8

/* binary32 patterns: NC16 */
#define SCALE_MIN 0x21800000u
#define SCALE_MAX 0x47800000u

/* validator.marks, per tensor */
#define MARK_DST (1u << 0)
#define MARK_WRITTEN (1u << 1) /* SCRATCH with parameters, by program order */

#define HEADER_FIELD(name) offsetof(struct qbnpu_program, name)
#define NUM(array) (sizeof(array) / sizeof((array)[0]))

struct interval {
	uint64_t begin;
	uint64_t end;
};

struct op;

struct validator {
	const struct qbnpu_program *program;
	const struct qbnpu_binding_desc *bindings;
	const struct qbnpu_tensor *tensors;
	const struct qbnpu_list *list;
	const struct qbnpu_param *params;
	const uint32_t *pool;
	const uint8_t *commands;
	const struct qbnpu_caps *caps;
	struct qbnpu_work *work;
	struct qbnpu_facts *facts;
	uint32_t *next_bad; /* pool index of the next value outside NC16 */
	struct interval *intervals; /* written SCRATCH: sorted, disjoint */
	uint16_t *order; /* tensors that V43 and V47 look at, sorted */
	uint16_t *view;  /* first of order with the same view */
	uint8_t *marks;
	uint32_t num_intervals;
	uint32_t num_order;
	uint32_t ticks;
	_Bool is_short; /* the commands end before their region does */
	_Bool has_timestamp;
	uint64_t macs;
	uint64_t bytes;
	uint64_t delays;
	uint64_t features;
	uint64_t reach[QBNPU_MAX_BINDINGS]; /* V47: written up to here */

	/* the command at hand */
	uint32_t command;
	const struct op *op;
	const struct qbnpu_tensor *t[MAX_OPERANDS]; /* NULL: NONE */
	uint64_t command_macs;

	/* the lowest row that refuses, 0 none */
	uint32_t rule;
	uint32_t operand;
	uint64_t limit;
};

struct reserved {
	uint8_t offset;
	uint8_t size;
};

/* An opcode: layout of its command, and its own rows V33 to V42 and V48. */
struct op {
	uint16_t opcode;
	uint8_t size16;
	uint8_t num_operands;
	uint8_t operands[MAX_OPERANDS]; /* byte offsets */
	uint8_t dst;                    /* bit per operand: destinations */
	uint8_t opt;                    /* bit per operand: may be NONE */
	uint8_t in_place;     /* sources that the last destination may be */
	uint8_t flags_offset; /* of its own flags byte, 0 none */
	uint8_t flags;        /* defined there */
	struct reserved reserved[2];
	void (*check)(struct validator *v, const void *command);
};

/* V07 of the tables to V30; v->rule tells. */
void qbnpu_check_tables(struct validator *v);

/* The opcode's row, NULL for an unknown one. */
const struct op *qbnpu_find_op(uint32_t opcode);

extern const uint8_t qbnpu_dtype_sizes[QBNPU_NUM_DTYPES];

/* Keeps the lowest row that refuses the entry or command at hand. */
static inline void note(struct validator *v, uint32_t rule, uint32_t operand,
			uint64_t limit)
{
	if (v->rule && v->rule <= rule)
		return;
	v->rule = rule;
	v->operand = operand;
	v->limit = limit;
}

static inline void tick(struct validator *v)
{
	if (++v->ticks % 256 == 0 && v->work->yield)
		v->work->yield(v->work->arg);
}

static inline _Bool is_zero(const void *bytes, uint64_t size)
{
	const uint8_t *byte = bytes;

	while (size--) {
		if (*byte++)
			return 0;
	}
	return 1;
}

static inline uint32_t get_u16(const void *bytes, uint32_t offset)
{
	const void *at = (const uint8_t *)bytes + offset;

	return *(const uint16_t *)at;
}

static inline uint64_t size_of(const struct qbnpu_tensor *t)
{
	return qbnpu_dtype_sizes[t->dtype];
}

static inline _Bool is_type(const struct qbnpu_tensor *t, uint32_t types)
{
	return types >> t->dtype & 1;
}

static inline _Bool has_params(const struct qbnpu_tensor *t)
{
	return t->offset_params || !is_zero(t->extent_params, QBNPU_MAX_RANK);
}

static inline _Bool is_scale(uint32_t bits)
{
	return bits >= SCALE_MIN && bits <= SCALE_MAX;
}

/* All of pool[first, first + count) exist and are scales. */
static inline _Bool are_scales(const struct validator *v, uint64_t first,
			       uint64_t count)
{
	uint64_t end;

	if (__builtin_add_overflow(first, count, &end) ||
	    end > v->program->pool_count)
		return 0;
	return !count || v->next_bad[first] >= end;
}

#endif
