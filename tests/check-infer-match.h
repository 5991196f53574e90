/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-infer-match, and what they share: questions, and arrays
 * in short.
 */
#ifndef TESTS_CHECK_INFER_MATCH_H
#define TESTS_CHECK_INFER_MATCH_H

#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "test-util.h"

/* Adds the tests of the part. */
void add_match_type_tests(struct qbrt_tests *all);

extern char byte;

/* An array of this shape, which nothing reads. */
#define SHAPE(type, ...) \
	{ \
		.data = &byte, .shape = (const int64_t[]){ __VA_ARGS__ }, \
		.ndim = sizeof((const int64_t[]){ __VA_ARGS__ }) / \
			sizeof(int64_t), \
		.dtype = QBRT_DTYPE_##type \
	}

struct qbrt_infer_options make_options(uint32_t flags);

/* The answer to the last question. */
extern struct qbrt_match match;
enum qbrt_status ask(const struct qbrt_model *model, uint32_t flags,
		     const struct qbrt_array *inputs, size_t num);

#define ck_assert_match(model, flags, inputs, num, a_variant, a_batch, \
			a_layout) \
	do { \
		ck_assert_ok(ask(model, flags, inputs, num)); \
		ck_assert_uint_eq(match.variant, a_variant); \
		ck_assert_uint_eq(match.batch, a_batch); \
		ck_assert_int_eq(match.layout, QBRT_LAYOUT_##a_layout); \
	} while (0)

/* No match writes nothing. */
void check_no_match(const struct qbrt_model *model, uint32_t flags,
		    const struct qbrt_array *inputs, size_t num,
		    enum qbrt_status status);

struct qbrt_io_info ask_output(const struct qbrt_model *model, uint32_t flags,
			       const struct qbrt_array *inputs, size_t num,
			       size_t index);

#define ck_assert_shape(info, ...) \
	do { \
		const int64_t ck_shape[] = { __VA_ARGS__ }; \
		ck_assert_uint_eq((info).ndim, qbrt_array_size(ck_shape)); \
		ck_assert_mem_eq((info).shape, ck_shape, sizeof(ck_shape)); \
	} while (0)

/* One image, copied. */
struct qbrt_model *load_image(uint32_t dtype, uint32_t rank,
			      const uint32_t *dims);

#endif
