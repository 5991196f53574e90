/* SPDX-License-Identifier: MIT */
/*
 * What is checked at each submit: a job's bindings and parameters against the
 * facts of its validated program, and the geometry of a copy. Pure functions,
 * freestanding like validate.c; steps 4 to 9 of SUBMIT are
 * qbnpu_check_bindings, K100 and K101 are qbnpu_check_copy
 * (docs/spec/kernel.md, 2.6).
 */
#ifndef QBNPU_BIND_H
#define QBNPU_BIND_H

#include "isa.h"
#include "validate.h"

/* qbnpu_bound.rights: what the buffer allows; an access needs its own bit */
#define QBNPU_RIGHT_READ QBNPU_ACCESS_READ
#define QBNPU_RIGHT_WRITE QBNPU_ACCESS_WRITE /* absent: a read-only import */
#define QBNPU_RIGHT_WEIGHTS (1u << 2)        /* held as weights: no writes */

/* One given binding: the caller's fields and what is known of the buffer. */
struct qbnpu_bound {
	uint32_t index;      /* number of the binding in the program */
	uint32_t access;     /* QBNPU_ACCESS_..., as given */
	uint32_t rights;     /* QBNPU_RIGHT_... */
	uint32_t align_log2; /* of the buffer's own device address */
	uint64_t buffer_id;  /* equal ids are the same memory */
	uint64_t buffer_size;
	uint64_t offset;
	uint64_t length;
	uint64_t item_stride;
};

/* One side of a copy. */
struct qbnpu_copy_side {
	uint64_t buffer_id;
	uint64_t buffer_size;
	uint64_t offset;
	uint64_t strides[QBNPU_MAX_RANK]; /* bytes */
};

struct qbnpu_copy_shape {
	uint32_t rank;
	uint32_t element_size;
	uint32_t dims[QBNPU_MAX_RANK];
	struct qbnpu_copy_side src;
	struct qbnpu_copy_side dst;
};

/* Largest product of dims and element_size of one copy (K101). */
#define QBNPU_MAX_COPY_SIZE (1ull << 34)

/*
 * SUBMIT's steps 4 to 9 in their order; the first failure decides. Returns 0,
 * -EINVAL, -EACCES, -EBUSY or -ERANGE; the report's rule, operand and limit
 * are fail_what, fail_index and fail_limit, command is QBNPU_NONE32.
 */
int qbnpu_check_bindings(const struct qbnpu_facts *facts,
			 const struct qbnpu_bound *bound, uint32_t count,
			 const uint32_t params[QBNPU_MAX_PARAMS],
			 uint32_t items, struct qbnpu_report *report);

/*
 * K100 and K101: ranges, multiples, no destination byte twice, no overlap in
 * one buffer. Returns 0, -EINVAL or -ERANGE; the report as above with
 * fail_what 0, 8 (source) or 9 (destination) and the axis as operand.
 */
int qbnpu_check_copy(const struct qbnpu_copy_shape *shape,
		     struct qbnpu_report *report);

#endif
