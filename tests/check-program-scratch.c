// SPDX-License-Identifier: MIT
/*
 * Scratch and what is in memory before a job: zeroed, private, aligned, or
 * poisoned.
 */
#include <errno.h>
#include <string.h>

#include "device-case.h"
#include "test-util.h"
#include "util.h"

/*
 * Writes every other byte of scratch and of the first output, then copies
 * scratch whole to the second: what was there before shows in the holes.
 */
static void make_holes(struct prog *prog)
{
	uint16_t first, second, scratch, stripe;
	struct qbnpu_tensor *tensor;

	prog_begin(prog);
	first = prog_output(prog, QBNPU_DTYPE_U8, DIMS(63));
	second = prog_output(prog, QBNPU_DTYPE_U8, DIMS(63));
	scratch = prog_scratch(prog, QBNPU_DTYPE_U8, DIMS(63));
	stripe = prog_view(prog, scratch);
	tensor = prog_get_tensor(prog, stripe);
	tensor->dims[0] = 32;
	tensor->strides[0] = 2;
	prog_fill(prog, stripe, 0x11);
	stripe = prog_view(prog, first);
	tensor = prog_get_tensor(prog, stripe);
	tensor->dims[0] = 32;
	tensor->strides[0] = 2;
	prog_fill(prog, stripe, 0x22);
	prog_copy(prog, scratch, second);
	prog_finish(prog);
}

/* PF05 DV15: scratch is zero when made; the device writes no byte of an
 * output that no command writes */
START_TEST(scratch_is_zero_when_made)
{
	uint8_t bytes[126];
	struct prog prog;

	make_holes(&prog);
	ck_assert_uint_eq(device_run_once(&prog, false, 9, bytes), 126);
	ck_assert_uint_eq(bytes[0], 0x22);
	ck_assert_uint_eq(bytes[1], 0xee);
	ck_assert_uint_eq(bytes[63], 0x11);
	ck_assert_uint_eq(bytes[64], 0);
	ck_assert_uint_eq(bytes[63 + 61], 0);
	prog_end(&prog);
}
END_TEST

/* V60 */
START_TEST(poison_fills_scratch_and_outputs)
{
	uint8_t bytes[126];
	struct prog prog;

	make_holes(&prog);
	ck_assert_uint_eq(device_run_once(&prog, true, 9, bytes), 126);
	ck_assert_uint_eq(bytes[0], 0x22);
	ck_assert_uint_eq(bytes[1], 0xa5);
	ck_assert_uint_eq(bytes[63], 0x11);
	ck_assert_uint_eq(bytes[64], 0xa5);
	prog_end(&prog);
}
END_TEST

/* DV15: each core has scratch of its own */
START_TEST(scratch_is_private_to_a_core)
{
	struct qbnpu_npu *npu = device_open_poison(false);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct prog prog;
	uint16_t in, out, scratch, hole;
	struct qbnpu_tensor *tensor;
	int round;

	/* the first byte of scratch is written after all of it was read */
	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	hole = prog_view(&prog, scratch);
	tensor = prog_get_tensor(&prog, hole);
	tensor->dims[0] = 2;
	tensor->strides[0] = 63;
	prog_fill(&prog, hole, 0);
	prog_copy(&prog, scratch, out);
	prog_copy(&prog, in, scratch);
	prog_finish(&prog);
	device_load(npu, &prog, 3, &program);
	device_memory_alloc(&memory, &program, 1);
	memset(memory.ranges[0].base, 0x77, 64);
	for (round = 0; round < 3; round++) {
		/* core 0, core 1, core 0 again */
		device_job_begin(&job, &program, &memory);
		job.job.core_mask = round == 1 ? 2 : 1;
		ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
		ck_assert_uint_eq(((uint8_t *)memory.ranges[1].base)[1],
				  round == 2 ? 0x77 : 0);
		device_job_end(&job);
	}
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* V60: an output that is its input is not poisoned before it is read */
START_TEST(in_place_output_keeps_its_input)
{
	struct qbnpu_npu *npu = device_open_poison(_i);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct prog prog;
	float *values;
	uint16_t in, out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(16));
	out = prog_output(&prog, QBNPU_DTYPE_F32, DIMS(16));
	prog.bindings[1].alias = 0;
	prog_unary(&prog, QBNPU_UNARY_NEG, in, out, 0, 0);
	((struct qbnpu_cmd *)(void *)prog.commands)->flags = QBNPU_CMD_IN_PLACE;
	prog_finish(&prog);
	device_load(npu, &prog, 1, &program);
	device_memory_alloc(&memory, &program, 1);
	memory.ranges[1] = memory.ranges[0];
	values = memory.ranges[0].base;
	values[0] = 1.5f;
	values[15] = -2;
	device_job_begin(&job, &program, &memory);
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	ck_assert(values[0] == -1.5f && values[15] == 2);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* PF05: scratch of a large alignment */
START_TEST(scratch_has_its_alignment)
{
	uint8_t bytes[64];
	struct prog prog;
	uint16_t in, out, scratch;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog.bindings[2].align_log2 = QBNPU_MAX_ALIGN_LOG2;
	prog_copy(&prog, in, scratch);
	prog_copy(&prog, scratch, out);
	prog_finish(&prog);
	ck_assert_uint_eq(device_run_once(&prog, false, 0, bytes), 64);
	prog_end(&prog);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(scratch_is_zero_when_made),
		QBRT_TEST(poison_fills_scratch_and_outputs),
		QBRT_TEST(scratch_is_private_to_a_core),
		QBRT_LOOP_TEST(in_place_output_keeps_its_input, 2),
		QBRT_TEST(scratch_has_its_alignment),
	};

	return qbrt_test_run("program-scratch", tests, qbrt_array_size(tests));
}
