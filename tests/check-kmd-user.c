// SPDX-License-Identifier: MIT
/*
 * Memory of the caller: sizes of array elements, what they hold, and pointers
 * that cannot be read or written (docs/spec/kernel.md, 1).
 */
#include "check-kmd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

/* K003 K080 */
START_TEST(array_elements_of_a_job_are_checked)
{
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (unsigned int bit = 0; bit < 32; bit++) {
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		job.bindings[1].flags = 1u << bit;
		kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL,
			       offsetof(struct drm_qbnpu_submit, fail_what),
			       sizeof(job.submit));
		ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_BINDING);
		ck_assert_uint_eq(job.submit.fail_index, 1);
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		kmd_set_wait(&job);
		job.wait.flags = bit ? 1u << bit : 0;
		job.wait.queue = bit ? 0 : 1;
		kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
		ck_assert_uint_eq(job.wait.state, 0xbad);
	}
	kmd_end_set(&set);
}
END_TEST

/* K005: sizes of an element; the first is its own, the last two are good. */
static const uint32_t sizes[] = { 0, 8, 41, 44, 264, UINT32_MAX, 104, 256 };

/* K005 */
START_TEST(element_sizes_are_checked_and_tails_must_be_zero)
{
	uint8_t bytes[2 * 256];
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (size_t i = 0; i < qbrt_array_size(sizes); i++) {
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		job.submit.binding_size = sizes[i];
		if (sizes[i] != 104 && sizes[i] != 256) {
			kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
			continue;
		}
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &job.bindings[0], 40);
		memcpy(bytes + sizes[i], &job.bindings[1], 40);
		job.submit.bindings = (uintptr_t)bytes;
		kmd_wait(set.queue, kmd_submit(&job));
		ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
		bytes[2 * sizes[i] - 1] = 1;
		kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL,
			       offsetof(struct drm_qbnpu_submit, fail_what),
			       sizeof(job.submit));
	}
	kmd_end_set(&set);
}
END_TEST

/* K005 */
START_TEST(sync_and_wait_sizes_are_checked)
{
	static const uint32_t bad_syncs[] = { 8, 12, 20, 264 };
	static const uint32_t bad_waits[] = { 0, 88, 92, 100, 264 };
	struct {
		struct drm_qbnpu_wait wait;
		uint64_t tail;
	} longer = { 0 };
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (size_t i = 0; i < qbrt_array_size(bad_syncs); i++) {
		kmd_prepare_empty(&job, set.queue);
		job.submit.sync_size = bad_syncs[i];
		kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	}
	for (size_t i = 0; i < qbrt_array_size(bad_waits); i++) {
		kmd_prepare_empty(&job, set.queue);
		kmd_set_wait(&job);
		job.submit.wait_size = bad_waits[i];
		kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	}
	kmd_prepare_empty(&job, set.queue);
	job.submit.wait_size = 96;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	kmd_prepare_empty(&job, set.queue);
	job.submit.sync_size = 0;
	kmd_wait(set.queue, kmd_submit(&job));
	job.submit.wait = (uintptr_t)&longer;
	job.submit.wait_size = sizeof(longer);
	longer.tail = 1;
	job.submit.job = 0xbad;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	longer.tail = 0;
	longer.wait.timeout_ns = KMD_FOREVER;
	ck_assert_uint_eq(kmd_submit(&job), 2);
	ck_assert_uint_eq(longer.wait.state, DRM_QBNPU_JOB_COMPLETE);
	kmd_end_set(&set);
}
END_TEST

/* K007 K094 K313: inline too, the result is where the caller asked for it */
START_TEST(wait_may_lie_at_any_address)
{
	uint8_t bytes[sizeof(struct drm_qbnpu_wait) + 8];
	struct drm_qbnpu_wait wait;
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	for (size_t shift = 0; shift < 8; shift++) {
		kmd_prepare(&job, set.queue, set.copy64, &set.input,
			    &set.output);
		kmd_set_wait(&job);
		wait = job.wait;
		memset(bytes, 0xa5, sizeof(bytes));
		memcpy(bytes + shift, &wait, sizeof(wait));
		job.submit.wait = (uintptr_t)bytes + shift;
		job.submit.user_data = shift;
		kmd_submit(&job);
		memcpy(&wait, bytes + shift, sizeof(wait));
		ck_assert_uint_eq(wait.state, DRM_QBNPU_JOB_COMPLETE);
		ck_assert_int_eq(wait.status, 0);
		ck_assert_uint_eq(wait.user_data, shift);
		ck_assert_uint_eq(wait.queue, 0);
		ck_assert_uint_eq(wait.job, 0);
		ck_assert_int_le(wait.start_ns, wait.end_ns);
		for (size_t i = 0; i < sizeof(bytes); i++) {
			if (i < shift || i >= shift + sizeof(wait))
				ck_assert_uint_eq(bytes[i], 0xa5);
		}
	}
	kmd_end_set(&set);
}
END_TEST

/* K005 K141 */
START_TEST(counts_are_checked_before_arrays_are_read)
{
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.binding_count = 65;
	job.submit.bindings = 8;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	kmd_prepare_empty(&job, set.queue);
	job.submit.in_count = 65;
	job.submit.in_syncs = 8;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EINVAL);
	kmd_end_set(&set);
}
END_TEST

/* Two pages, of which the second cannot be touched. */
static uint8_t *map_edge(void)
{
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	return pages + 4096;
}

/* K007 */
START_TEST(bad_pointers_are_refused_and_leave_nothing)
{
	const size_t fail = offsetof(struct drm_qbnpu_submit, fail_what);
	uint8_t *edge = map_edge();
	struct drm_qbnpu_query query = { .size = 256 };
	struct drm_qbnpu_program_create create = {
		.size = 496,
		.core_mask = 1,
	};
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	query.data = (uintptr_t)edge - 128;
	kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &query, EFAULT);
	create.data = (uintptr_t)edge - 128;
	kmd_refuse(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create, EFAULT);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.bindings = (uintptr_t)edge - 40;
	memcpy(edge - 40, &job.bindings[0], 40);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EFAULT, fail,
		       sizeof(job.submit));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.in_count = 1;
	job.submit.in_syncs = (uintptr_t)edge - 8;
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EFAULT, fail,
		       sizeof(job.submit));
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	job.submit.wait = (uintptr_t)edge - 88;
	job.submit.wait_size = 96;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EFAULT);
	/* read-only memory can be read, and the job is not queued */
	memset(edge - 96, 0, 96);
	ck_assert_int_eq(mprotect(edge - 4096, 4096, PROT_READ), 0);
	job.submit.wait = (uintptr_t)edge - 96;
	kmd_refuse(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EFAULT);
	ck_assert_int_eq(munmap(edge - 4096, 8192), 0);
	kmd_prepare_empty(&job, set.queue);
	ck_assert_uint_eq(kmd_submit(&job), 1);
	kmd_end_set(&set);
}
END_TEST

void kmd_user_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(array_elements_of_a_job_are_checked),
		QBRT_TEST(element_sizes_are_checked_and_tails_must_be_zero),
		QBRT_TEST(sync_and_wait_sizes_are_checked),
		QBRT_TEST(wait_may_lie_at_any_address),
		QBRT_TEST(counts_are_checked_before_arrays_are_read),
		QBRT_TEST(bad_pointers_are_refused_and_leave_nothing),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
