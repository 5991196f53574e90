// SPDX-License-Identifier: MIT
/*
 * What the reference kernels share: the table of opcodes and the loop over
 * strided views.
 */
#include <errno.h>
#include <string.h>

#include "device/kernels/ref.h"
#include "prog.h"
#include "ref-case.h"
#include "test-util.h"
#include "util.h"

/* BE01: what has no kernel is refused when it is prepared */
START_TEST(opcodes_without_a_kernel_are_refused)
{
	static const uint32_t taken[] = {
		QBNPU_OP_NOP,    QBNPU_OP_TIMESTAMP, QBNPU_OP_FILL,
		QBNPU_OP_COPY,   QBNPU_OP_CRC,       QBNPU_OP_CONV2D,
		QBNPU_OP_MATMUL, QBNPU_OP_POOL,      QBNPU_OP_UNARY,
		QBNPU_OP_BINARY, QBNPU_OP_CAST,
	};
	uint8_t bytes[96] = { 0 };
	struct qbnpu_cmd *cmd = (void *)bytes;
	struct qbnpu_operand operands[1] = { { .rank = 1, .dims = { 1 } } };
	const struct qbnpu_prepare prepare = { .cmd = cmd,
					       .operands = operands };
	struct qbnpu_prepared *prepared = NULL;
	uint32_t i, j, num_refused = 0;

	for (i = 0; i < prog_num_opcodes; i++) {
		bool is_taken = false;

		for (j = 0; j < qbrt_array_size(taken); j++)
			is_taken |= prog_opcodes[i].opcode == taken[j];
		if (is_taken)
			continue;
		cmd->opcode = (uint16_t)prog_opcodes[i].opcode;
		ck_assert_int_eq(qbnpu_kernels_ref.prepare(&prepare, &prepared),
				 -EOPNOTSUPP);
		ck_assert_ptr_null(prepared);
		num_refused++;
	}
	ck_assert_uint_eq(num_refused,
			  prog_num_opcodes - qbrt_array_size(taken));
}
END_TEST

/* Axes of extent 1 go, axes that are one run in every view are merged. */
START_TEST(loop_merges_what_is_one_run)
{
	const uint32_t dims[] = { 2, 1, 3, 4, 5 };
	const uint64_t dense[] = { 240, 240, 80, 20, 4 };
	const uint64_t gap[] = { 300, 9, 100, 20, 4 };
	const uint64_t *const one[] = { dense }, *const two[] = { dense, gap };
	struct ref_loop loop = { 0 };

	qbnpu_ref_loop_shape(&loop, 5, dims, one, 1);
	ck_assert_uint_eq(loop.rank, 1);
	ck_assert_uint_eq(loop.extents[0], 120);
	ck_assert_uint_eq(loop.strides[0][0], 4);
	qbnpu_ref_loop_shape(&loop, 5, dims, two, 2);
	ck_assert_uint_eq(loop.rank, 2);
	ck_assert_uint_eq(loop.extents[0], 6);
	ck_assert_uint_eq(loop.extents[1], 20);
	ck_assert_uint_eq(loop.strides[0][0], 80);
	ck_assert_uint_eq(loop.strides[1][0], 100);
	ck_assert_uint_eq(loop.strides[1][1], 4);
}
END_TEST

START_TEST(loop_of_one_element_has_one_axis)
{
	const uint32_t dims[] = { 1, 1 };
	const uint64_t strides[] = { 8, 4 };
	const uint64_t *const one[] = { strides };
	struct ref_loop loop = { 0 };

	qbnpu_ref_loop_shape(&loop, 2, dims, one, 1);
	ck_assert_uint_eq(loop.rank, 1);
	ck_assert_uint_eq(loop.extents[0], 1);
}
END_TEST

/* Broadcast axes are merged with each other, not with others. */
START_TEST(loop_merges_broadcast_axes)
{
	const uint32_t dims[] = { 3, 4, 5 };
	const uint64_t strides[] = { 0, 0, 4 };
	const uint64_t *const one[] = { strides };
	struct ref_loop loop = { 0 };

	qbnpu_ref_loop_shape(&loop, 3, dims, one, 1);
	ck_assert_uint_eq(loop.rank, 2);
	ck_assert_uint_eq(loop.extents[0], 12);
	ck_assert_uint_eq(loop.strides[0][0], 0);
	ck_assert_uint_eq(loop.extents[1], 5);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(opcodes_without_a_kernel_are_refused),
		QBRT_TEST(loop_merges_what_is_one_run),
		QBRT_TEST(loop_of_one_element_has_one_axis),
		QBRT_TEST(loop_merges_broadcast_axes),
	};

	return qbrt_test_run("ref", tests, qbrt_array_size(tests));
}
