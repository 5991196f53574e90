// SPDX-License-Identifier: MIT
/*
 * NOP, TIMESTAMP, FILL, COPY and CRC on the reference kernels, and the copy of
 * COPY jobs, against loops over single elements.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ref-case.h"
#include "test-util.h"
#include "util.h"

#define NUM_CASES 200

/* IS05: a NOP asks during its delay whether to stop; how often, load decides. */
START_TEST(nop_waits_its_delay_and_looks_meanwhile)
{
	struct qbnpu_cmd_nop cmd = {
		.head = ref_case_head(QBNPU_OP_NOP, sizeof(cmd)),
		.delay_ns = 5000000,
	};
	const uint32_t dims[] = { 1 };
	int64_t begin = qbrt_now_ns();
	struct ref_case c;
	uint16_t dst;

	ref_case_begin(&c, 1);
	dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	ck_assert_int_eq(ref_case_run(&c, &cmd, dst), 0);
	ck_assert_int_ge(qbrt_now_ns() - begin, 5000000);
	ck_assert_int_ge(c.num_looks, 1);
	cmd.delay_ns = 0;
	c.num_looks = 0;
	ck_assert_int_eq(ref_case_run(&c, &cmd, dst), 0);
	ck_assert_int_eq(c.num_looks, 0);
	ref_case_end(&c);
}
END_TEST

/* IS05: told to stop, a NOP of a second ends at once. */
START_TEST(nop_stops_when_told)
{
	const struct qbnpu_cmd_nop cmd = {
		.head = ref_case_head(QBNPU_OP_NOP, sizeof(cmd)),
		.delay_ns = 1000000000,
	};
	const uint32_t dims[] = { 1 };
	struct ref_case c;
	uint16_t dst;

	ref_case_begin(&c, 1);
	c.looks_left = 2;
	dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, dims);
	ck_assert_int_eq(ref_case_run(&c, &cmd, dst), -ECANCELED);
	ck_assert_int_eq(c.num_looks, 2);
	ref_case_end(&c);
}
END_TEST

/* CT01 */
START_TEST(timestamp_is_the_monotonic_clock)
{
	const uint32_t dims[] = { 1 };
	struct qbnpu_cmd_timestamp cmd = {
		.head = ref_case_head(QBNPU_OP_TIMESTAMP, sizeof(cmd)),
	};
	int64_t before, after, stamp;
	struct ref_case c;

	ref_case_begin(&c, 3);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_U64, 1, dims);
	before = qbrt_now_ns();
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	after = qbrt_now_ns();
	memcpy(&stamp, ref_case_at(&c, cmd.dst, 0), sizeof(stamp));
	ck_assert_int_ge(stamp, before);
	ck_assert_int_le(stamp, after);
	ref_case_end(&c);
}
END_TEST

/* CT01 IS04: every type, by round */
START_TEST(fill_writes_the_low_bytes_of_its_value)
{
	struct qbnpu_cmd_fill cmd = {
		.head = ref_case_head(QBNPU_OP_FILL, sizeof(cmd)),
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		const uint32_t size = qbnpu_dtype_size((uint32_t)_i);

		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 1500);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, (uint32_t)_i, rank,
					  dims);
		cmd.value = ref_case_random(&c) >> (64 - 8 * size);
		if (n % 4 == 0) /* all bytes the same */
			cmd.value = 0x5a5a5a5a5a5a5a5a >> (64 - 8 * size);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
			ref_case_demand(!memcmp(ref_case_at(&c, cmd.dst, i),
						&cmd.value, size),
					"element %zu", i);
		ref_case_end(&c);
	}
}
END_TEST

/* CT01 IS04: every type, by round */
START_TEST(copy_moves_bits_between_any_views)
{
	struct qbnpu_cmd_copy cmd = {
		.head = ref_case_head(QBNPU_OP_COPY, sizeof(cmd)),
	};
	uint32_t dims[QBNPU_MAX_RANK], rank;
	struct ref_case c;
	size_t i;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 1500);
		cmd.src = ref_case_tensor(&c,
					  n % 4 ? REF_CASE_SRC : REF_CASE_DENSE,
					  (uint32_t)_i, rank, dims);
		cmd.dst = ref_case_tensor(&c,
					  n % 8 ? REF_CASE_DST : REF_CASE_DENSE,
					  (uint32_t)_i, rank, dims);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		for (i = 0; i < ref_case_count(&c, cmd.dst); i++)
			ref_case_demand(!memcmp(ref_case_at(&c, cmd.dst, i),
						ref_case_at(&c, cmd.src, i),
						qbnpu_dtype_size((uint32_t)_i)),
					"element %zu", i);
		ref_case_end(&c);
	}
}
END_TEST

/* CRC-32 bit by bit. */
static uint32_t add_crc(uint32_t crc, uint8_t byte)
{
	int bit;

	crc ^= byte;
	for (bit = 0; bit < 8; bit++)
		crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	return crc;
}

/* CT01: every type, by round */
START_TEST(crc_is_over_elements_in_row_major_order)
{
	struct qbnpu_cmd_crc cmd = {
		.head = ref_case_head(QBNPU_OP_CRC, sizeof(cmd)),
	};
	const uint32_t one[] = { 1 };
	uint32_t dims[QBNPU_MAX_RANK], rank, crc, got;
	struct ref_case c;
	size_t i, byte;
	int n;

	for (n = 0; n < NUM_CASES; n++) {
		ref_case_begin(&c, (uint64_t)(_i * NUM_CASES + n));
		rank = ref_case_dims(&c, dims, 1500);
		cmd.src = ref_case_tensor(&c,
					  n % 4 ? REF_CASE_SRC : REF_CASE_DENSE,
					  (uint32_t)_i, rank, dims);
		cmd.dst = ref_case_tensor(&c, REF_CASE_DST, QBNPU_DTYPE_U32, 1,
					  one);
		ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
		crc = UINT32_MAX;
		for (i = 0; i < ref_case_count(&c, cmd.src); i++) {
			const uint8_t *at = ref_case_at(&c, cmd.src, i);

			for (byte = 0; byte < qbnpu_dtype_size((uint32_t)_i);
			     byte++)
				crc = add_crc(crc, at[byte]);
		}
		memcpy(&got, ref_case_at(&c, cmd.dst, 0), sizeof(got));
		ck_assert_uint_eq(got, ~crc);
		ref_case_end(&c);
	}
}
END_TEST

/* FM01: the check value of zlib's CRC-32 */
START_TEST(crc_of_the_nine_digits_is_the_published_one)
{
	struct qbnpu_cmd_crc cmd = {
		.head = ref_case_head(QBNPU_OP_CRC, sizeof(cmd)),
	};
	const uint32_t nine[] = { 9 }, one[] = { 1 };
	struct ref_case c;
	uint32_t got;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, nine);
	cmd.dst = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U32, 1, one);
	memcpy(c.buffers[cmd.src], "123456789", 9);
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	memcpy(&got, c.buffers[cmd.dst], sizeof(got));
	ck_assert_uint_eq(got, 0xcbf43926);
	ref_case_end(&c);
}
END_TEST

/* A pace that never stops. */
static int go_on(struct qbnpu_pace *pace)
{
	pace->left = QBNPU_PACE_UNITS;
	return 0;
}

/* K100: shapes as a program cannot have them: any element size */
START_TEST(copy_job_moves_elements_of_any_size)
{
	static const uint32_t sizes[] = { 1, 2, 3, 4, 8, 12, 16, 100, 4096 };
	const uint32_t size = sizes[_i];
	struct qbnpu_copy_shape shape = {
		.rank = 3,
		.element_size = size,
		.dims = { 3, 5, 7 },
		.src = { .strides = { 0, 14 * size, 2 * size } },
		.dst = { .strides = { size, 3 * size, 18 * size } },
	};
	struct qbnpu_pace pace = { .left = 1, .look = go_on };
	uint8_t *src = malloc(70 * size), *dst = malloc(123 * size);
	uint8_t *expected = malloc(123 * size);
	uint32_t i, j, k;

	for (i = 0; i < 70 * size; i++)
		src[i] = (uint8_t)(i * 7 + i / 256);
	memset(dst, 0xee, 123 * size);
	memset(expected, 0xee, 123 * size);
	for (i = 0; i < 3; i++)
		for (j = 0; j < 5; j++)
			for (k = 0; k < 7; k++)
				memcpy(expected + size * (i + 3 * j + 18 * k),
				       src + size * (14 * j + 2 * k), size);
	ck_assert_int_eq(qbnpu_copy_run(&shape, src, dst, &pace), 0);
	ck_assert_mem_eq(dst, expected, 123 * size);
	free(src);
	free(dst);
	free(expected);
}
END_TEST

/* IS05: at least one look in 64 MiB */
START_TEST(copy_looks_at_least_once_in_64_mib)
{
	const uint32_t mib64 = 64u << 20, one[] = { 1 };
	struct qbnpu_cmd_copy cmd = {
		.head = ref_case_head(QBNPU_OP_COPY, sizeof(cmd)),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src = ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, one);
	cmd.dst =
		ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, &mib64);
	c.operands[cmd.src] = (struct qbnpu_operand){
		.element_size = 1,
		.dtype = QBNPU_DTYPE_U8,
		.rank = 1,
		.dims = { mib64 },
		.binding = cmd.src,
	};
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), 0);
	ck_assert_int_ge(c.num_looks, 1);
	ref_case_end(&c);
}
END_TEST

/* IS05 */
START_TEST(copy_stops_when_told)
{
	const uint32_t mib16 = 16u << 20;
	struct qbnpu_cmd_copy cmd = {
		.head = ref_case_head(QBNPU_OP_COPY, sizeof(cmd)),
	};
	struct ref_case c;

	ref_case_begin(&c, 1);
	cmd.src =
		ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, &mib16);
	cmd.dst =
		ref_case_tensor(&c, REF_CASE_DENSE, QBNPU_DTYPE_U8, 1, &mib16);
	c.looks_left = 2;
	ck_assert_int_eq(ref_case_run(&c, &cmd, cmd.dst), -ECANCELED);
	/* the beginning was copied, the end was not */
	ck_assert_mem_eq(c.buffers[cmd.src], c.buffers[cmd.dst], 4096);
	ck_assert_mem_ne(c.buffers[cmd.src] + mib16 - 4096,
			 c.buffers[cmd.dst] + mib16 - 4096, 4096);
	ref_case_end(&c);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(nop_waits_its_delay_and_looks_meanwhile),
		QBRT_TEST(nop_stops_when_told),
		QBRT_TEST(timestamp_is_the_monotonic_clock),
		QBRT_LOOP_TEST(fill_writes_the_low_bytes_of_its_value,
			       QBNPU_NUM_DTYPES),
		QBRT_LOOP_TEST(copy_moves_bits_between_any_views,
			       QBNPU_NUM_DTYPES),
		QBRT_LOOP_TEST(crc_is_over_elements_in_row_major_order,
			       QBNPU_NUM_DTYPES),
		QBRT_TEST(crc_of_the_nine_digits_is_the_published_one),
		QBRT_LOOP_TEST(copy_job_moves_elements_of_any_size, 9),
		QBRT_TEST(copy_looks_at_least_once_in_64_mib),
		QBRT_TEST(copy_stops_when_told),
	};

	return qbrt_test_run("ref-move", tests, qbrt_array_size(tests));
}
