// SPDX-License-Identifier: MIT
/* Weights of a program, and the alignment of buffers (docs/spec/kernel.md, 2.4). */
#include "check-kmd.h"

#include <errno.h>
#include <string.h>

#include "prog.h"
#include "util.h"

/* A copy of 64 bytes from WEIGHTS to the output. */
static void make_weighted(struct prog *prog)
{
	uint16_t weights, output;

	prog_begin(prog);
	weights = prog_weights(prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	output = prog_output(prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	prog_copy(prog, weights, output);
	prog_finish(prog);
}

/* from_end: the offset is counted from the end of the buffer */
struct weights_case {
	uint64_t offset, size;
	int err;
	bool has_buffer, from_end;
};

/* K064 K008 */
START_TEST(weights_are_bound_as_a_binding_is)
{
	static const struct weights_case cases[] = {
		{ 0, 0, EINVAL, false, false },
		{ 1, 64, EINVAL, true, false },
		{ 32, 64, EINVAL, true, false },
		{ 0, 63, ERANGE, true, false },
		{ 0, 0, ERANGE, true, false },
		{ 0, 64, ERANGE, true, true },
		{ 64, 65, ERANGE, true, true },
		{ UINT64_MAX - 63, 64, ERANGE, true, false },
	};
	struct drm_qbnpu_program_create create;
	struct prog prog, plain;
	uint32_t buffer;

	kmd_begin(_i);
	make_weighted(&prog);
	buffer = kmd_create_buffer(4096);
	for (size_t i = 0; i < qbrt_array_size(cases); i++) {
		create = kmd_make_create(&prog);
		create.weights = cases[i].has_buffer ? buffer : 0;
		create.weights_offset =
			cases[i].from_end
				? kmd_get_info(buffer).size - cases[i].offset
				: cases[i].offset;
		create.weights_size = cases[i].size;
		kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create,
			   cases[i].err);
	}
	create = kmd_make_create(&prog);
	create.weights = 99;
	create.weights_size = 64;
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, ENOENT);
	prog_copy64(&plain);
	create = kmd_make_create(&plain);
	create.weights = buffer;
	create.weights_size = 64;
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EINVAL);
	ck_assert_uint_eq(kmd_get_info(buffer).flags, 0);
	prog_end(&plain);
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K064 K043 K080: a buffer at an odd page is not 2 MiB aligned */
START_TEST(the_buffer_itself_has_to_be_aligned)
{
	struct drm_qbnpu_program_create create;
	struct drm_qbnpu_bo_info info;
	struct prog prog;

	kmd_begin(_i);
	make_weighted(&prog);
	create = kmd_make_create(&prog);
	create.weights_size = 64;
	do {
		create.weights = kmd_create_buffer(4096);
		info = kmd_get_info(create.weights);
	} while (info.align_log2 == 21 &&
		 info.contiguity == DRM_QBNPU_CONTIGUITY_LOCKED);
	prog_at_binding(&prog, 0)->align_log2 = (uint8_t)info.align_log2;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	kmd_unload(create.handle);
	if (info.align_log2 < 21) {
		prog_at_binding(&prog, 0)->align_log2 = 21;
		create.handle = 0xbad;
		create.device_size = 0xbad;
		kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EINVAL);
	}
	prog_end(&prog);
	kmd_end();
}
END_TEST

/* K080 K043: step 6, the same for a binding of a job */
START_TEST(a_binding_needs_an_aligned_buffer)
{
	struct kmd_set set;
	struct kmd_job job;
	struct prog prog;
	uint32_t program;

	kmd_begin_set(_i, &set);
	prog_copy64(&prog);
	prog_at_binding(&prog, 0)->align_log2 = 21;
	program = kmd_load(prog.bytes, prog.nbytes);
	prog_end(&prog);
	kmd_prepare(&job, set.queue, program, &set.input, &set.output);
	if (kmd_get_info(set.input.handle).align_log2 < 21) {
		kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL,
			       offsetof(struct drm_qbnpu_submit, fail_what),
			       sizeof(job.submit));
		ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_BINDING);
		ck_assert_uint_eq(job.submit.fail_index, 0);
	} else {
		kmd_wait(set.queue, kmd_submit(&job));
	}
	kmd_unload(program);
	kmd_end_set(&set);
}
END_TEST

static uint32_t load_weighted(uint32_t buffer)
{
	struct drm_qbnpu_program_create create;
	struct prog prog;

	make_weighted(&prog);
	create = kmd_make_create(&prog);
	create.weights = buffer;
	create.weights_offset = 64;
	create.weights_size = 64;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	prog_end(&prog);
	return create.handle;
}

/* K065 */
START_TEST(a_program_keeps_its_weights_alive)
{
	struct kmd_buffer weights;
	struct kmd_set set;
	struct kmd_job job;
	uint32_t program;

	kmd_begin_set(_i, &set);
	kmd_alloc(&weights, 4096);
	memset(weights.data + 64, 0x77, 64);
	program = load_weighted(weights.handle);
	ck_assert_uint_eq(kmd_get_info(weights.handle).flags,
			  DRM_QBNPU_BO_WEIGHTS);
	kmd_free(&weights);
	kmd_prepare(&job, set.queue, program, &set.input, &set.output);
	job.submit.binding_count = 1;
	job.bindings[0] = job.bindings[1];
	ck_assert_int_eq(kmd_wait(set.queue, kmd_submit(&job)).status, 0);
	for (int i = 0; i < KMD_BYTES; i++)
		ck_assert_uint_eq(set.output.data[i], 0x77);
	kmd_unload(program);
	kmd_end_set(&set);
}
END_TEST

/* K066 K080: step 5 */
START_TEST(weights_are_not_written_by_jobs)
{
	const size_t fail = offsetof(struct drm_qbnpu_submit, fail_what);
	struct kmd_set set;
	struct kmd_job job;
	uint32_t program;

	kmd_begin_set(_i, &set);
	program = load_weighted(set.output.handle);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EBUSY, fail,
		       sizeof(job.submit));
	ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_BINDING);
	ck_assert_uint_eq(job.submit.fail_index, 1);
	/* reading them is allowed */
	kmd_prepare(&job, set.queue, set.copy64, &set.output, &set.input);
	kmd_wait(set.queue, kmd_submit(&job));
	kmd_unload(program);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_wait(set.queue, kmd_submit(&job));
	kmd_end_set(&set);
}
END_TEST

/* K064: WEIGHTS in a SUBMIT is a binding given twice */
START_TEST(weights_are_no_binding_of_a_job)
{
	const size_t fail = offsetof(struct drm_qbnpu_submit, fail_what);
	struct kmd_buffer weights;
	struct kmd_set set;
	struct kmd_job job;
	uint32_t program;

	kmd_begin_set(_i, &set);
	kmd_alloc(&weights, 4096);
	program = load_weighted(weights.handle);
	kmd_prepare(&job, set.queue, program, &weights, &set.output);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL, fail,
		       sizeof(job.submit));
	kmd_unload(program);
	kmd_free(&weights);
	kmd_end_set(&set);
}
END_TEST

void kmd_weights_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(weights_are_bound_as_a_binding_is),
		QBRT_TEST(the_buffer_itself_has_to_be_aligned),
		QBRT_TEST(a_binding_needs_an_aligned_buffer),
		QBRT_TEST(a_program_keeps_its_weights_alive),
		QBRT_TEST(weights_are_not_written_by_jobs),
		QBRT_TEST(weights_are_no_binding_of_a_job),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
