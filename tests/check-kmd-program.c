// SPDX-License-Identifier: MIT
/* Programs (docs/spec/kernel.md, 2.4). */
#include "check-kmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "prog.h"
#include "util.h"

#define REPORT_FROM offsetof(struct drm_qbnpu_program_create, rule)
#define REPORT_TO sizeof(struct drm_qbnpu_program_create)

static uint64_t query_local_free(void)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.index = DRM_QBNPU_REGION_LOCAL,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return memory.free;
}

/* K060: -EINVAL comes before -EFAULT of the bytes */
START_TEST(sizes_and_alignment_are_checked_before_reading)
{
	static const uint64_t sizes[] = { 0, 127, (1 << 24) + 1, UINT64_MAX };
	struct drm_qbnpu_program_create create = {
		.data = 16,
		.core_mask = 1,
	};

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(sizes); i++) {
		create.size = sizes[i];
		kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EINVAL);
	}
	create.size = 496;
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EFAULT);
	for (uint64_t at = 1; at < 16; at++) {
		create.data = 16 + at;
		kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EINVAL);
	}
	kmd_end();
}
END_TEST

/* K060 SU01 */
START_TEST(later_changes_of_the_bytes_have_no_effect)
{
	struct kmd_set set;
	struct kmd_job job;
	struct prog prog;
	uint32_t program;

	kmd_begin_set(_i, &set);
	prog_copy64(&prog);
	program = kmd_load(prog.bytes, prog.nbytes);
	memset(prog.bytes, 0xff, prog.nbytes);
	prog_end(&prog);
	kmd_prepare(&job, set.queue, program, &set.input, &set.output);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
	kmd_unload(program);
	kmd_end_set(&set);
}
END_TEST

/* K061 V64 K002: the report, and nothing of the program */
START_TEST(refused_programs_are_reported_and_leave_nothing)
{
	struct drm_qbnpu_program_create create;
	struct prog prog;
	uint64_t available;

	kmd_begin(_i);
	available = query_local_free();
	prog_copy64(&prog);
	prog_at_header(&prog)->magic = 1;
	create = kmd_make_create(&prog);
	kmd_refuse_but(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, ENOEXEC,
		       REPORT_FROM, REPORT_TO);
	ck_assert_uint_eq(create.rule, 2);
	ck_assert_uint_eq(create.command, QBNPU_NONE32);
	ck_assert_uint_eq(create.reserved, 0);
	prog_finish(&prog);
	prog_at_header(&prog)->isa_features = QBNPU_FEATURE_LSTM;
	create = kmd_make_create(&prog);
	if (!(kmd_device.isa_features & QBNPU_FEATURE_LSTM)) {
		kmd_refuse_but(
			DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EOPNOTSUPP,
			REPORT_FROM,
			offsetof(struct drm_qbnpu_program_create, operand));
		ck_assert_uint_eq(create.rule, 4);
		ck_assert_uint_eq(create.command, QBNPU_NONE32);
	}
	ck_assert_uint_eq(query_local_free(), available);
	prog_end(&prog);
	kmd_end();
}
END_TEST

struct placement {
	uint32_t mode;
	uint64_t core_mask;
};

/* K062 K003: of a program for mode 0 on two clusters of four cores */
START_TEST(modes_and_masks_that_do_not_fit_are_refused)
{
	static const struct placement bad[] = {
		{ 0, 0 },          { 0, 0x10 },  { 0, 0x101010101 },
		{ 0, UINT64_MAX }, { 2, 1 },     { 5, 1 },
		{ 3, 0xf },        { 4, 0xf0f }, { UINT32_MAX, 1 },
	};
	struct drm_qbnpu_program_create create;
	struct prog prog;

	kmd_begin(_i);
	prog_copy64(&prog);
	ck_assert_uint_eq(kmd_device.core_mask, 0x0f0f);
	for (size_t i = 0; i < qbrt_array_size(bad); i++) {
		create = kmd_make_create(&prog);
		create.mode = bad[i].mode;
		create.core_mask = bad[i].core_mask;
		kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EINVAL);
	}
	create = kmd_make_create(&prog);
	create.core_mask = kmd_device.core_mask;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	kmd_unload(create.handle);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K063 MM13: program and one arena of scratch per core, in whole 4 KiB */
START_TEST(device_memory_is_that_of_the_formula)
{
	struct drm_qbnpu_program_create create;
	uint16_t input, scratch, output;
	uint64_t available, expected;
	struct prog prog;

	kmd_begin(_i);
	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(5000));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(5000));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(5000));
	prog_copy(&prog, input, scratch);
	prog_copy(&prog, scratch, output);
	prog_finish(&prog);
	available = query_local_free();
	create = kmd_make_create(&prog);
	create.core_mask = 0x0305;
	expected = qbrt_round_up(prog.nbytes, 4096) + UINT64_C(4) * 8192;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	ck_assert_uint_eq(create.device_size, expected);
	ck_assert_uint_eq(available - query_local_free(), expected);
	ck_assert_uint_eq(create.rule, 0xbad);
	kmd_unload(create.handle);
	ck_assert_uint_eq(query_local_free(), available);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K063 */
START_TEST(missing_device_memory_is_told)
{
	const size_t limit = offsetof(struct drm_qbnpu_program_create, limit);
	struct drm_qbnpu_program_create create;
	uint16_t input, scratch, output;
	uint64_t available;
	struct prog prog;

	kmd_begin(_i);
	available = query_local_free();
	/* 1 GiB of scratch on each of eight cores is not in 4 GiB */
	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, input, scratch);
	prog_copy(&prog, scratch, output);
	prog.bindings[1].size = available / 8;
	prog_finish(&prog);
	create = kmd_make_create(&prog);
	create.core_mask = kmd_device.core_mask;
	kmd_refuse_but(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, ENOMEM, limit,
		       sizeof(create));
	ck_assert_uint_ge(create.limit, qbrt_round_up(prog.nbytes, 4096));
	ck_assert_uint_le(create.limit, qbrt_round_up(prog.nbytes, 4096) +
						UINT64_C(8) * 4096);
	ck_assert_uint_eq(query_local_free(), available);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K067 */
START_TEST(jobs_of_a_destroyed_program_finish)
{
	uint64_t available, last = 0;
	struct kmd_set set;
	struct kmd_job job;
	uint32_t program;

	kmd_begin_set(_i, &set);
	available = query_local_free();
	program = kmd_load_copy64();
	kmd_prepare(&job, set.queue, program, &set.input, &set.output);
	for (int i = 0; i < 200; i++)
		last = kmd_submit(&job);
	kmd_unload(program);
	for (uint64_t i = 1; i <= last; i++)
		ck_assert_int_eq(kmd_wait(set.queue, i).status, 0);
	ck_assert_uint_eq(query_local_free(), available);
	kmd_end_set(&set);
}
END_TEST

/* K068 K141 */
START_TEST(a_file_has_1024_programs)
{
	struct drm_qbnpu_program_create create;
	struct prog prog;

	kmd_begin(_i);
	prog_copy64(&prog);
	for (uint32_t i = 1; i <= 1024; i++)
		ck_assert_uint_eq(kmd_load(prog.bytes, prog.nbytes), i);
	create = kmd_make_create(&prog);
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, ENOSPC);
	kmd_unload(7);
	ck_assert_uint_eq(kmd_load(prog.bytes, prog.nbytes), 7);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K068: sixteen programs of the largest size, and the byte after */
START_TEST(a_file_has_256_mib_of_programs)
{
	const uint32_t num_pool = QBNPU_MAX_POOL;
	float *values = calloc(num_pool, sizeof(*values));
	struct drm_qbnpu_program_create create;
	uint32_t num_loaded = 0;
	struct prog prog;

	ck_assert_ptr_nonnull(values);
	kmd_begin(_i);
	prog_copy64(&prog);
	(void)prog_pool(&prog, values, num_pool);
	free(values);
	prog_finish(&prog);
	while ((num_loaded + 1) * prog.nbytes <= UINT64_C(256) << 20) {
		kmd_load(prog.bytes, prog.nbytes);
		num_loaded++;
	}
	ck_assert_uint_eq(num_loaded, 63);
	create = kmd_make_create(&prog);
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, ENOSPC);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* Odd, so that every other byte begins and ends it. */
#define NUM_SCRATCH (KMD_BYTES - 1)

static uint16_t view_every_other(struct prog *prog, uint16_t of)
{
	uint16_t stripe = prog_view(prog, of);
	struct qbnpu_tensor *tensor = prog_get_tensor(prog, stripe);

	tensor->dims[0] = KMD_BYTES / 2;
	tensor->strides[0] = 2;
	return stripe;
}

/* From the input to scratch, all of it or every other byte, to the output. */
static uint32_t load_scratch(bool is_whole)
{
	uint16_t input, output, scratch;
	struct prog prog;
	uint32_t program;

	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(NUM_SCRATCH));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(NUM_SCRATCH));
	scratch = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(NUM_SCRATCH));
	if (is_whole)
		prog_copy(&prog, input, scratch);
	else
		prog_copy(&prog, view_every_other(&prog, input),
			  view_every_other(&prog, scratch));
	prog_copy(&prog, scratch, output);
	prog_finish(&prog);
	program = kmd_load(prog.bytes, prog.nbytes);
	prog_end(&prog);
	return program;
}

/* K093: on one core, one after the other */
START_TEST(programs_never_share_scratch)
{
	uint32_t whole, half;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	whole = load_scratch(true);
	half = load_scratch(false);
	memset(set.input.data, 0x77, KMD_BYTES);
	kmd_prepare(&job, set.queue, whole, &set.input, &set.output);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	ck_assert_uint_eq(set.output.data[1], 0x77);
	kmd_prepare(&job, set.queue, half, &set.input, &set.output);
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	for (size_t i = 0; i < NUM_SCRATCH; i++)
		ck_assert_uint_eq(set.output.data[i], i % 2 ? 0 : 0x77);
	kmd_unload(whole);
	kmd_unload(half);
	kmd_end_set(&set);
}
END_TEST

void kmd_program_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(sizes_and_alignment_are_checked_before_reading),
		QBRT_TEST(later_changes_of_the_bytes_have_no_effect),
		QBRT_TEST(refused_programs_are_reported_and_leave_nothing),
		QBRT_TEST(modes_and_masks_that_do_not_fit_are_refused),
		QBRT_TEST(device_memory_is_that_of_the_formula),
		QBRT_TEST(missing_device_memory_is_told),
		QBRT_TEST(jobs_of_a_destroyed_program_finish),
		QBRT_TEST(programs_never_share_scratch),
		QBRT_TEST(a_file_has_1024_programs),
		QBRT_TEST(a_file_has_256_mib_of_programs),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
