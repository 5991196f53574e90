/* SPDX-License-Identifier: MIT */
/*
 * One command on the reference kernels, without a program around it: random
 * views over buffers of their own, elements by their row-major number, and a
 * run that checks that nothing but the elements of destinations has changed.
 * Everything comes from a seed. What a test asks for must be a valid command;
 * a wrong use aborts.
 */
#ifndef TESTS_REF_CASE_H
#define TESTS_REF_CASE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/kernels.h"

#define REF_CASE_TENSORS 6u

/*
 * As ck_assert_msg, for what is asked of every element: Check writes a note
 * for each assertion, passed or not, which takes longer than a command.
 */
#define ref_case_demand(condition, ...) \
	do { \
		if (!(condition)) \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

/* How a view is laid out. */
enum ref_case_layout {
	REF_CASE_DENSE, /* row-major, offset 0 */
	REF_CASE_DST,   /* any order of axes, gaps, an offset */
	REF_CASE_SRC,   /* the same, and axes of stride 0 or that overlap */
};

struct ref_case {
	uint64_t random;
	uint32_t num_tensors;
	struct qbnpu_operand operands[REF_CASE_TENSORS];
	uint8_t *buffers[REF_CASE_TENSORS];
	size_t sizes[REF_CASE_TENSORS];
	/* how often look() is called until it says stop; 0: never */
	long looks_left;
	long num_looks;
};

void ref_case_begin(struct ref_case *c, uint64_t seed);
void ref_case_end(struct ref_case *c);

/* Random numbers: any; below an end; in [min, max]; a double in [min, max). */
uint64_t ref_case_random(struct ref_case *c);
uint32_t ref_case_below(struct ref_case *c, uint32_t end);
uint32_t ref_case_between(struct ref_case *c, uint32_t min, uint32_t max);
double ref_case_real(struct ref_case *c, double min, double max);

/* Random extents of 1 to 6 axes, at most about max elements; the rank. */
uint32_t ref_case_dims(struct ref_case *c, uint32_t *dims, uint32_t max);

/* A new tensor; its buffer holds random bytes. Returns its number. */
uint16_t ref_case_tensor(struct ref_case *c, enum ref_case_layout layout,
			 uint32_t dtype, uint32_t rank, const uint32_t *dims);

/* A second number for the same view (in place). */
uint16_t ref_case_same(struct ref_case *c, uint16_t tensor);

size_t ref_case_count(const struct ref_case *c, uint16_t tensor);

/* Address of an element. */
void *ref_case_at(const struct ref_case *c, uint16_t tensor, size_t element);
/* Element of an index with as many axes as the tensor. */
void *ref_case_at_index(const struct ref_case *c, uint16_t tensor,
			const uint32_t *index);

float ref_case_f32(const struct ref_case *c, uint16_t tensor, size_t element);
void ref_case_set_f32(struct ref_case *c, uint16_t tensor, size_t element,
		      float value);
/* Every element a random real in [min, max). */
void ref_case_fill_f32(struct ref_case *c, uint16_t tensor, double min,
		       double max);

/* Integers and BOOL, as long double: exact for every type. */
long double ref_case_int(const struct ref_case *c, uint16_t tensor,
			 size_t element);

/* A new f32 tensor of random reals in [min, max). */
uint16_t ref_case_random_f32(struct ref_case *c, enum ref_case_layout layout,
			     uint32_t rank, const uint32_t *dims, double min,
			     double max);
void ref_case_read_f32(const struct ref_case *c, uint16_t tensor,
		       float *values);
/* |y - t| <= units of the last place of t, else the test fails. */
void ref_case_check_ulp(float y, long double t, long double units,
			const char *what, uint32_t fn, long double x);

/* Random bits, small numbers, and the ends of the type. */
void ref_case_fill_ints(struct ref_case *c, uint16_t tensor);
void ref_case_read_ints(const struct ref_case *c, uint16_t tensor,
			__int128 *values);
/* The element is the low bits of expected. */
void ref_case_check_int(const struct ref_case *c, uint16_t dst, size_t i,
			__int128 expected);

/* What prepare says; the command is freed again. */
int ref_case_prepare(struct ref_case *c, const void *cmd);

/*
 * Prepares and runs a command with destination dst, on this thread's floating
 * point modes; returns what run returned. Fails the test when anything but
 * elements of dst has changed.
 */
int ref_case_run(struct ref_case *c, const void *cmd, uint16_t dst);

/* Head of a command of size bytes: opcode and size. */
struct qbnpu_cmd ref_case_head(uint32_t opcode, size_t size);

uint32_t ref_case_bits(float value);

/* A post block that does nothing. */
struct qbnpu_post ref_case_no_post(void);

#endif
