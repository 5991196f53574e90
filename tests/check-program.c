// SPDX-License-Identifier: MIT
/*
 * Loading a validated program and walking it: which commands have kernels,
 * scratch, poison, in-place outputs, order, and what a failed load leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "count-alloc.h"
#include "device-case.h"
#include "test-util.h"
#include "util.h"

/* Of the opcode's good program; that of CAST de-quantises. */
static bool has_kernel(uint32_t opcode)
{
	switch (opcode) {
	case QBNPU_OP_NOP:
	case QBNPU_OP_TIMESTAMP:
	case QBNPU_OP_FILL:
	case QBNPU_OP_COPY:
	case QBNPU_OP_CRC:
	case QBNPU_OP_CONV2D:
	case QBNPU_OP_MATMUL:
	case QBNPU_OP_POOL:
	case QBNPU_OP_UNARY:
	case QBNPU_OP_BINARY:
		return true;
	default:
		return false;
	}
}

/* BE01 IS04 NC41 V60: each opcode's good program, by round: runs within its
 * bindings with the same bytes on each core, poisoned or not; or is refused */
START_TEST(good_programs_run_or_are_refused_at_load)
{
	const uint32_t opcode = prog_opcodes[_i].opcode;
	uint8_t first[4096], second[4096];
	struct prog prog;
	size_t size;

	if (!has_kernel(opcode))
		return;
	ck_assert_int_ne(prog_good(&prog, opcode), 0);
	size = device_run_once(&prog, false, 0, first);
	ck_assert_uint_gt(size, 0);
	ck_assert_uint_eq(device_run_once(&prog, false, 11, second), size);
	if (opcode != QBNPU_OP_TIMESTAMP)
		ck_assert_mem_eq(first, second, size);
	ck_assert_uint_eq(device_run_once(&prog, true, 2, second), size);
	if (opcode != QBNPU_OP_TIMESTAMP)
		ck_assert_mem_eq(first, second, size);
	prog_end(&prog);
}
END_TEST

/* Loads with all features allowed; what load returned, and its report. */
static int load_any(struct qbnpu_npu *npu, const struct prog *prog,
		    struct qbnpu_executable **executable,
		    struct qbnpu_report *report)
{
	const size_t size = qbnpu_validate_work_size(prog->bytes, prog->nbytes);
	struct qbnpu_work work = {
		.memory = aligned_alloc(16, qbrt_round_up(size, 16)),
		.size = size,
	};
	uint8_t *weights = calloc(1, 1 << 20);
	int err;

	ck_assert_int_eq(qbnpu_validate(prog->bytes, prog->nbytes,
					&qbnpu_caps_isa, &work, report),
			 0);
	err = qbnpu_executable_load(npu, prog->bytes, report->facts, weights, 1,
				    executable, report);
	if (!err)
		qbnpu_executable_free(*executable);
	free(weights);
	free(work.memory);
	return err;
}

/* BE01: rule 32 and the command, by round over the opcodes */
START_TEST(commands_without_a_kernel_are_refused_at_load)
{
	const uint32_t opcode = prog_opcodes[_i].opcode;
	struct qbnpu_executable *executable = NULL;
	struct qbnpu_report report = { 0 };
	struct qbnpu_npu *npu;
	struct prog prog;

	if (has_kernel(opcode) || !prog_good(&prog, opcode))
		return;
	npu = device_open_poison(false);
	ck_assert_int_eq(load_any(npu, &prog, &executable, &report),
			 -EOPNOTSUPP);
	ck_assert_ptr_null(executable);
	ck_assert_uint_eq(report.rule, 32);
	ck_assert_uint_lt(report.command, prog.num_commands);
	ck_assert_uint_eq(
		((struct qbnpu_cmd *)prog_at_command(&prog, report.command))
			->opcode,
		opcode);
	ck_assert_uint_eq(qbnpu_npu_get_counters(npu)->programs_loaded, 0);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* BE01: the command that is named is the first without a kernel */
START_TEST(refusal_names_the_first_command_without_a_kernel)
{
	struct qbnpu_executable *executable = NULL;
	struct qbnpu_npu *npu = device_open_poison(false);
	struct qbnpu_report report = { 0 };
	struct qbnpu_cmd_softmax *softmax;
	struct prog prog;
	uint16_t in, out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(4, 4));
	out = prog_output(&prog, QBNPU_DTYPE_F32, DIMS(4, 4));
	prog_fill(&prog, out, 0);
	prog_copy(&prog, in, out);
	softmax = prog_cmd(&prog, QBNPU_OP_SOFTMAX);
	softmax->src = in;
	softmax->dst = out;
	softmax->axis = 1;
	prog_finish(&prog);
	ck_assert_int_eq(load_any(npu, &prog, &executable, &report),
			 -EOPNOTSUPP);
	ck_assert_uint_eq(report.rule, 32);
	ck_assert_uint_eq(report.command, 2);
	ck_assert_uint_eq(report.operand, QBNPU_NONE32);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* BE01 V04: run-time extents have no kernels, whoever validated them */
START_TEST(parameters_are_refused_at_load)
{
	struct qbnpu_executable *executable = NULL;
	struct qbnpu_npu *npu = device_open_poison(false);
	struct qbnpu_report report = { 0 };
	struct prog prog;
	uint16_t in, out;
	uint8_t tokens;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(4));
	out = prog_output(&prog, QBNPU_DTYPE_F32, DIMS(4));
	tokens = prog_param(&prog, QBNPU_PARAM_TOKENS, 1, 4, 1);
	prog_get_tensor(&prog, in)->extent_params[0] = tokens;
	prog_get_tensor(&prog, out)->extent_params[0] = tokens;
	prog_copy(&prog, in, out);
	prog_finish(&prog);
	ck_assert_int_eq(load_any(npu, &prog, &executable, &report),
			 -EOPNOTSUPP);
	ck_assert_uint_eq(report.rule, 32);
	ck_assert_uint_eq(report.command, QBNPU_NONE32);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* IS01 DV22: each command sees all earlier ones */
START_TEST(commands_take_effect_in_order)
{
	uint8_t bytes[64];
	struct prog prog;
	uint16_t scratch, out;

	prog_begin(&prog);
	out = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_fill(&prog, scratch, 1);
	prog_fill(&prog, scratch, 2);
	prog_copy(&prog, scratch, out);
	prog_fill(&prog, scratch, 3);
	prog_finish(&prog);
	ck_assert_uint_eq(device_run_once(&prog, _i, 0, bytes), 64);
	ck_assert_uint_eq(bytes[0], 2);
	ck_assert_uint_eq(bytes[63], 2);
	prog_end(&prog);
}
END_TEST

/* IS42: numbers to numbers, through the whole path */
START_TEST(cast_program_truncates)
{
	int64_t values[4];
	struct qbnpu_cmd_cast *cast;
	struct prog prog;
	uint16_t in, out;

	prog_begin(&prog);
	in = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(4));
	out = prog_output(&prog, QBNPU_DTYPE_I64, DIMS(4));
	cast = prog_cmd(&prog, QBNPU_OP_CAST);
	cast->src = in;
	cast->dst = out;
	cast->mode = QBNPU_CAST_NUMBER;
	prog_finish(&prog);
	ck_assert_uint_eq(device_run_once(&prog, false, 0, (uint8_t *)values),
			  sizeof(values));
	/* the inputs are -6.25, -5.25 ... */
	ck_assert_int_eq(values[0], -6);
	ck_assert_int_eq(values[3], -3);
	prog_end(&prog);
}
END_TEST

/* DV20: after load the program's bytes are not looked at again */
START_TEST(program_bytes_may_go_after_load)
{
	struct qbnpu_npu *npu = device_open_poison(false);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct prog prog;

	prog_copy64(&prog);
	device_load(npu, &prog, 1, &program);
	memset(prog.bytes, 0xff, prog.nbytes);
	device_memory_alloc(&memory, &program, 1);
	memset(memory.ranges[0].base, 0x42, 64);
	device_job_begin(&job, &program, &memory);
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	ck_assert_mem_eq(memory.ranges[0].base, memory.ranges[1].base, 64);
	ck_assert_uint_eq(program.facts->binding_count, 2);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* SU04 SU06: a job on cores that the program has no scratch on */
START_TEST(jobs_outside_the_programs_cores_are_refused)
{
	struct qbnpu_npu *npu = device_open_poison(false);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct prog prog;

	prog_copy64(&prog);
	device_load(npu, &prog, 0x0f, &program);
	device_memory_alloc(&memory, &program, 1);
	device_job_begin(&job, &program, &memory);
	job.job.core_mask = 0xf00;
	ck_assert_int_eq(qbnpu_npu_submit(npu, &job.job, NULL), -EINVAL);
	ck_assert_int_eq(qbnpu_npu_run(npu, &job.job), -EINVAL);
	job.job.core_mask = 0xf08;
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	ck_assert_uint_eq(job.job.result.core, 3);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* IS10 DV24: what the program declares is counted for each item */
START_TEST(multiply_accumulates_are_counted)
{
	struct qbnpu_npu *npu = device_open_poison(false);
	struct device_program program;
	struct device_memory memory;
	struct device_job job;
	struct prog prog;
	struct qbnpu_cmd_matmul *matmul;
	uint16_t a, b, dst;

	prog_begin(&prog);
	a = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(2, 3, 5));
	b = prog_input(&prog, QBNPU_DTYPE_F32, DIMS(2, 5, 7));
	dst = prog_output(&prog, QBNPU_DTYPE_F32, DIMS(2, 3, 7));
	matmul = prog_cmd(&prog, QBNPU_OP_MATMUL);
	matmul->a = a;
	matmul->b = b;
	matmul->dst = dst;
	prog_finish(&prog);
	device_load(npu, &prog, 0, &program);
	device_memory_alloc(&memory, &program, 4);
	device_job_begin(&job, &program, &memory);
	ck_assert_int_eq(device_job_submit_wait(npu, &job), 0);
	ck_assert_uint_eq(qbnpu_npu_get_counters(npu)->macs, 4 * 2 * 3 * 5 * 7);
	ck_assert_uint_eq(qbnpu_npu_get_counters(npu)->bytes_read,
			  4 * 4 * (2 * 3 * 5 + 2 * 5 * 7));
	ck_assert_uint_eq(qbnpu_npu_get_counters(npu)->bytes_written,
			  4 * 4 * 2 * 3 * 7);
	device_job_end(&job);
	device_memory_free(&memory);
	device_unload(&program);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

/* ST7 SE6: the n-th allocation of a load fails, for each n until success */
START_TEST(load_without_memory_keeps_nothing)
{
	struct qbnpu_npu *npu = device_open_poison(false);
	struct qbnpu_executable *executable;
	struct qbnpu_report report = { 0 };
	struct qbnpu_work work = { 0 };
	uint8_t *weights = calloc(1, 1 << 16);
	struct prog prog;
	int n, err = -ENOMEM;

	ck_assert_int_ne(prog_good(&prog, QBNPU_OP_CONV2D), 0);
	work.size = qbnpu_validate_work_size(prog.bytes, prog.nbytes);
	work.memory = aligned_alloc(16, qbrt_round_up(work.size, 16));
	ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
					&qbnpu_caps_isa, &work, &report),
			 0);
	for (n = 1; err; n++) {
		executable = (void *)weights;
		count_alloc_begin(n);
		err = qbnpu_executable_load(npu, prog.bytes, report.facts,
					    weights, 0xf, &executable, &report);
		(void)count_alloc_end();
		if (!err)
			break;
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_ptr_eq(executable, weights);
		ck_assert_uint_eq(qbnpu_npu_get_counters(npu)->programs_loaded,
				  0);
	}
	ck_assert_int_gt(n, 4);
	qbnpu_executable_free(executable);
	qbnpu_executable_free(NULL);
	free(weights);
	free(work.memory);
	prog_end(&prog);
	qbnpu_npu_close(npu);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(good_programs_run_or_are_refused_at_load,
			       (int)prog_num_opcodes),
		QBRT_LOOP_TEST(commands_without_a_kernel_are_refused_at_load,
			       (int)prog_num_opcodes),
		QBRT_TEST(refusal_names_the_first_command_without_a_kernel),
		QBRT_TEST(parameters_are_refused_at_load),
		QBRT_LOOP_TEST(commands_take_effect_in_order, 2),
		QBRT_TEST(cast_program_truncates),
		QBRT_TEST(program_bytes_may_go_after_load),
		QBRT_TEST(jobs_outside_the_programs_cores_are_refused),
		QBRT_TEST(multiply_accumulates_are_counted),
		QBRT_TEST(load_without_memory_keeps_nothing),
	};

	return qbrt_test_run("program", tests, qbrt_array_size(tests));
}
