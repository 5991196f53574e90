// SPDX-License-Identifier: MIT
/* Buffers and their mappings (docs/spec/kernel.md, 2.3, K015). */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

#define READ_WRITE (PROT_READ | PROT_WRITE)

static uint64_t query_free(uint32_t region)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.index = region,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return memory.free;
}

/* K040 */
START_TEST(new_memory_is_zero)
{
	static const uint8_t zeros[8192];
	struct kmd_buffer buffer;

	kmd_begin(_i);
	for (int i = 0; i < 1000; i++) {
		kmd_alloc(&buffer, sizeof(zeros));
		ck_assert_mem_eq(buffer.data, zeros, sizeof(zeros));
		memset(buffer.data, 0xa5, buffer.size);
		kmd_free(&buffer);
	}
	kmd_end();
}
END_TEST

/* K002 K043: sizes are rounded up to whole pages */
START_TEST(sizes_are_rounded_up)
{
	static const uint64_t sizes[] = { 1, 4095, 4096, 4097, 1 << 20 };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(sizes); i++) {
		struct drm_qbnpu_bo_create create = { .size = sizes[i] };
		uint64_t unit = kmd_device.page_size;

		ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create),
				 0);
		if (create.contiguity == DRM_QBNPU_CONTIGUITY_HUGEPAGE)
			unit = 1 << 21;
		ck_assert_uint_eq(create.size, qbrt_round_up(sizes[i], unit));
		ck_assert_uint_ne(create.contiguity, DRM_QBNPU_CONTIGUITY_NONE);
		ck_assert_uint_ne(create.map_offset, 0);
		ck_assert_uint_eq(create.map_offset % kmd_device.page_size, 0);
		kmd_close_buffer(create.handle);
	}
	kmd_end();
}
END_TEST

/* K043 */
START_TEST(alignment_is_honoured)
{
	kmd_begin(_i);
	for (uint32_t log2 = 6; log2 <= 21; log2++) {
		struct drm_qbnpu_bo_create create = {
			.size = 4096,
			.region = log2 % 2,
			.align_log2 = log2,
		};
		struct drm_qbnpu_bo_info info;
		uint64_t mask = (UINT64_C(1) << log2) - 1;
		void *data;

		ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create),
				 0);
		info = kmd_get_info(create.handle);
		ck_assert_uint_ge(info.align_log2, log2);
		ck_assert_uint_le(info.align_log2, 21);
		ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size,
					   READ_WRITE, &data),
				 0);
		ck_assert_uint_eq((uintptr_t)data & mask, 0);
		if (info.device_addr != DRM_QBNPU_UNKNOWN)
			ck_assert_uint_eq(info.device_addr & mask, 0);
		ck_assert_int_eq(kmd->munmap(kmd_file, data, info.size), 0);
		kmd_close_buffer(create.handle);
	}
	kmd_end();
}
END_TEST

/* K003 K044 */
START_TEST(bad_sizes_and_alignments_are_refused)
{
	static const uint64_t sizes[] = {
		0,
		(UINT64_C(1) << 34) + 1,
		UINT64_C(1) << 63,
		UINT64_MAX,
	};
	static const uint32_t alignments[] = { 1, 5, 22, 32, UINT32_MAX };
	struct drm_qbnpu_bo_create create = { .limit = 0xbad };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(sizes); i++) {
		create.size = sizes[i];
		kmd_refuse(DRM_IOCTL_QBNPU_BO_CREATE, &create, EINVAL);
	}
	create.size = 4096;
	for (size_t i = 0; i < qbrt_array_size(alignments); i++) {
		create.align_log2 = alignments[i];
		kmd_refuse(DRM_IOCTL_QBNPU_BO_CREATE, &create, EINVAL);
	}
	kmd_end();
}
END_TEST

/* K044 K041: what cannot be had, and the size that could */
START_TEST(more_than_the_region_has_is_no_memory)
{
	const size_t limit = offsetof(struct drm_qbnpu_bo_create, limit);

	kmd_begin(_i);
	for (uint32_t region = 0; region < 2; region++) {
		uint64_t available = query_free(region);
		struct drm_qbnpu_bo_create create = {
			.size = available + 1,
			.region = region,
			.limit = 0xbad,
		};

		ck_assert_uint_lt(available, kmd_device.max_bo_size);
		kmd_refuse_but(DRM_IOCTL_QBNPU_BO_CREATE, &create, ENOMEM,
			       limit, sizeof(create));
		ck_assert_uint_le(create.limit, available);
		ck_assert_uint_eq(query_free(region), available);
	}
	kmd_end();
}
END_TEST

/* K041 */
START_TEST(contiguous_is_one_run_or_refused)
{
	const size_t limit = offsetof(struct drm_qbnpu_bo_create, limit);
	const uint64_t features = DRM_QBNPU_FEATURE_CONTIGUOUS_LOCAL |
				  DRM_QBNPU_FEATURE_CONTIGUOUS_SYSTEM;
	uint64_t available;

	kmd_begin(_i);
	for (uint32_t region = 0; region < 2; region++) {
		struct drm_qbnpu_bo_create create = {
			.size = 4096,
			.flags = DRM_QBNPU_BO_CONTIGUOUS,
			.region = region,
		};
		int err;

		if (!(kmd_device.features & features)) {
			available = query_free(region);
			kmd_refuse_but(DRM_IOCTL_QBNPU_BO_CREATE, &create,
				       ENOMEM, limit, sizeof(create));
			ck_assert_uint_eq(create.limit, 0);
			ck_assert_uint_eq(query_free(region), available);
			continue;
		}
		err = kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create);
		/* the last 2 MiB page is another program's by now */
		if (err == -ENOMEM && !create.limit &&
		    qbrt_test_has_huge_pages())
			continue;
		ck_assert_int_eq(err, 0);
		ck_assert_uint_ge(create.contiguity,
				  DRM_QBNPU_CONTIGUITY_HUGEPAGE);
		ck_assert_uint_eq(kmd_get_info(create.handle).segments, 1);
		ck_assert_uint_eq(kmd_get_info(create.handle).flags,
				  DRM_QBNPU_BO_CONTIGUOUS);
		kmd_close_buffer(create.handle);
	}
	kmd_end();
}
END_TEST

/* K049 K045 */
START_TEST(info_tells_what_was_made)
{
	struct drm_qbnpu_bo_create create = {
		.size = 5000,
		.region = DRM_QBNPU_REGION_LOCAL,
	};
	struct drm_qbnpu_bo_info info, other;

	kmd_begin(_i);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	info = kmd_get_info(create.handle);
	ck_assert_uint_eq(info.region, DRM_QBNPU_REGION_LOCAL);
	ck_assert_uint_eq(info.size, create.size);
	ck_assert_uint_eq(info.map_offset, create.map_offset);
	ck_assert_uint_eq(info.contiguity, create.contiguity);
	ck_assert_uint_eq(info.flags, 0);
	ck_assert_uint_eq(info.jobs, 0);
	ck_assert_uint_ne(info.id, 0);
	kmd_close_buffer(create.handle);
	other = kmd_get_info(kmd_create_buffer(1));
	ck_assert_uint_gt(other.id, info.id);
	kmd_end();
}
END_TEST

static int sync_buffer(uint32_t handle, uint32_t flags)
{
	struct drm_qbnpu_bo_sync sync = {
		.handle = handle,
		.flags = flags,
		.length = 64,
	};

	return kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync);
}

#define BEGIN_WRITE (DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_WRITE)
#define END_WRITE (DRM_QBNPU_SYNC_END | DRM_QBNPU_SYNC_WRITE)
#define BEGIN_READ (DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_READ)
#define END_READ (DRM_QBNPU_SYNC_END | DRM_QBNPU_SYNC_READ)

/* K047 */
START_TEST(brackets_are_counted)
{
	uint32_t handle;

	kmd_begin(_i);
	handle = kmd_create_buffer(4096);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(sync_buffer(handle, BEGIN_WRITE), 0);
	ck_assert_int_eq(sync_buffer(handle, END_READ), -EINVAL);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(sync_buffer(handle, END_WRITE), 0);
	ck_assert_int_eq(sync_buffer(handle, END_WRITE), -EINVAL);
	ck_assert_int_eq(sync_buffer(handle, BEGIN_READ), 0);
	ck_assert_int_eq(sync_buffer(handle, END_WRITE), -EINVAL);
	ck_assert_int_eq(sync_buffer(handle, END_READ), 0);
	kmd_end();
}
END_TEST

/* K047 K003 */
START_TEST(bad_brackets_are_refused)
{
	struct drm_qbnpu_bo_sync args[] = {
		{ .flags = DRM_QBNPU_SYNC_READ, .length = 64 },
		{ .flags = BEGIN_READ | DRM_QBNPU_SYNC_END, .length = 64 },
		{ .flags = DRM_QBNPU_SYNC_BEGIN, .length = 64 },
		{ .flags = BEGIN_READ, .length = 0 },
		{ .flags = BEGIN_READ, .length = 64, .offset = 32 },
		{ .flags = BEGIN_READ, .length = 4097 },
		{ .flags = BEGIN_READ, .length = 64, .offset = 4096 },
		{ .flags = BEGIN_READ,
		  .length = 128,
		  .offset = UINT64_MAX - 63 },
	};
	struct drm_qbnpu_bo_sync unknown = {
		.handle = 99,
		.flags = BEGIN_READ,
		.length = 64,
	};
	uint32_t handle;

	kmd_begin(_i);
	handle = kmd_create_buffer(4096);
	if (kmd_get_info(handle).size == 4096) {
		for (size_t i = 0; i < qbrt_array_size(args); i++) {
			args[i].handle = handle;
			kmd_refuse(DRM_IOCTL_QBNPU_BO_SYNC, &args[i], EINVAL);
		}
	}
	kmd_refuse(DRM_IOCTL_QBNPU_BO_SYNC, &unknown, ENOENT);
	kmd_end();
}
END_TEST

/* K047 K080: step 11 */
START_TEST(jobs_are_refused_while_the_cpu_writes)
{
	const size_t fail = offsetof(struct drm_qbnpu_submit, fail_what);
	struct kmd_set set;
	struct kmd_job job;

	kmd_begin_set(_i, &set);
	ck_assert_int_eq(sync_buffer(set.output.handle, BEGIN_WRITE), 0);
	ck_assert_int_eq(sync_buffer(set.input.handle, BEGIN_READ), 0);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EBUSY, fail,
		       sizeof(job.submit));
	ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_BINDING);
	ck_assert_uint_eq(job.submit.fail_index, 1);
	ck_assert_int_eq(sync_buffer(set.output.handle, END_WRITE), 0);
	kmd_wait(set.queue, kmd_submit(&job));
	kmd_end_set(&set);
}
END_TEST

/* K015 */
START_TEST(mapping_needs_the_exact_offset)
{
	uint32_t handle, other;
	struct drm_qbnpu_bo_info info;
	void *data = (void *)&handle;
	int own_file, other_file;

	kmd_begin(_i);
	handle = kmd_create_buffer(8192);
	other = kmd_create_buffer(8192);
	ck_assert_uint_ne(kmd_get_info(other).map_offset,
			  kmd_get_info(handle).map_offset);
	info = kmd_get_info(handle);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset + 4096, 4096,
				   READ_WRITE, &data),
			 -EINVAL);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size + 1,
				   READ_WRITE, &data),
			 -EINVAL);
	ck_assert_int_eq(
		kmd->mmap(kmd_file, info.map_offset, 0, READ_WRITE, &data),
		-EINVAL);
	ck_assert_int_eq(
		kmd->mmap(kmd_file, UINT64_C(1) << 62, 4096, READ_WRITE, &data),
		-EINVAL);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, 4096,
				   READ_WRITE | PROT_EXEC, &data),
			 -EINVAL);
	own_file = kmd_file;
	other_file = kmd_open_another();
	ck_assert_int_eq(
		kmd->mmap(other_file, info.map_offset, 4096, READ_WRITE, &data),
		-EACCES);
	ck_assert_ptr_eq(data, &handle);
	kmd->close(other_file);
	kmd_file = own_file;
	kmd_end();
}
END_TEST

/* K015: a mapping of a part, twice, and read-only */
START_TEST(mappings_show_the_same_bytes)
{
	struct drm_qbnpu_bo_info info;
	void *one, *two, *read_only;

	kmd_begin(_i);
	info = kmd_get_info(kmd_create_buffer(8192));
	ck_assert_int_eq(
		kmd->mmap(kmd_file, info.map_offset, 4096, READ_WRITE, &one),
		0);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size,
				   READ_WRITE, &two),
			 0);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size,
				   PROT_READ, &read_only),
			 0);
	*(volatile int *)one = 5;
	ck_assert_int_eq(*(volatile int *)two, 5);
	ck_assert_int_eq(*(volatile int *)read_only, 5);
	ck_assert_int_eq(kmd->munmap(kmd_file, one, 4096), 0);
	*(volatile int *)two = 6;
	ck_assert_int_eq(*(volatile int *)read_only, 6);
	ck_assert_int_eq(kmd->munmap(kmd_file, two, info.size), 0);
	ck_assert_int_eq(*(volatile int *)read_only, 6);
	ck_assert_int_eq(kmd->munmap(kmd_file, read_only, info.size), 0);
	kmd_end();
}
END_TEST

/* K015 K046: the memory is there until munmap, and the account with it */
START_TEST(a_mapping_outlives_its_handle)
{
	struct kmd_buffer buffer, next;
	uint64_t before;

	kmd_begin(_i);
	before = query_free(DRM_QBNPU_REGION_SYSTEM);
	kmd_alloc(&buffer, 4096);
	memset(buffer.data, 0x11, buffer.size);
	kmd_close_buffer(buffer.handle);
	ck_assert_uint_eq(query_free(DRM_QBNPU_REGION_SYSTEM),
			  before - buffer.size);
	for (int i = 0; i < 100; i++) {
		kmd_alloc(&next, 4096);
		ck_assert_ptr_ne(next.data, buffer.data);
		memset(next.data, 0xa5, next.size);
		kmd_free(&next);
	}
	for (size_t i = 0; i < buffer.size; i++)
		ck_assert_uint_eq(buffer.data[i], 0x11);
	ck_assert_int_eq(kmd->munmap(kmd_file, buffer.data, buffer.size), 0);
	ck_assert_uint_eq(query_free(DRM_QBNPU_REGION_SYSTEM), before);
	kmd_end();
}
END_TEST

/* K015 */
START_TEST(a_mapping_outlives_its_file)
{
	struct drm_qbnpu_bo_create create = { .size = 4096 };
	void *data;
	int file;

	kmd_begin(_i);
	file = kmd_file;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	ck_assert_int_eq(kmd->mmap(file, create.map_offset, create.size,
				   READ_WRITE, &data),
			 0);
	kmd_end();
	memset(data, 0x22, create.size);
	ck_assert_uint_eq(((uint8_t *)data)[create.size - 1], 0x22);
	ck_assert_int_eq(kmd->munmap(file, data, create.size), 0);
}
END_TEST

/* K046 */
START_TEST(memory_of_a_running_job_is_never_handed_out)
{
	struct kmd_buffer output, next;
	struct drm_qbnpu_bo_info info;
	struct kmd_set set;
	struct kmd_job job;
	uint64_t number;
	uint32_t slow;

	kmd_begin_set(_i, &set);
	slow = kmd_load_slow(60);
	kmd_alloc(&output, 4096);
	kmd_prepare(&job, set.queue, slow, &set.input, &output);
	number = kmd_submit(&job);
	info = kmd_get_info(output.handle);
	ck_assert_uint_eq(info.jobs, 1);
	kmd_free(&output);
	for (int i = 0; i < 100; i++) {
		kmd_alloc(&next, 4096);
		if (info.device_addr != DRM_QBNPU_UNKNOWN)
			ck_assert_uint_ne(kmd_get_info(next.handle).device_addr,
					  info.device_addr);
		kmd_free(&next);
	}
	kmd_cancel(set.queue, number);
	ck_assert_int_eq(kmd_wait(set.queue, number).status, -ECANCELED);
	kmd_unload(slow);
	kmd_end_set(&set);
}
END_TEST

void kmd_buffer_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(new_memory_is_zero),
		QBRT_TEST(sizes_are_rounded_up),
		QBRT_TEST(alignment_is_honoured),
		QBRT_TEST(bad_sizes_and_alignments_are_refused),
		QBRT_TEST(more_than_the_region_has_is_no_memory),
		QBRT_TEST(contiguous_is_one_run_or_refused),
		QBRT_TEST(info_tells_what_was_made),
		QBRT_TEST(brackets_are_counted),
		QBRT_TEST(bad_brackets_are_refused),
		QBRT_TEST(jobs_are_refused_while_the_cpu_writes),
		QBRT_TEST(mapping_needs_the_exact_offset),
		QBRT_TEST(mappings_show_the_same_bytes),
		QBRT_TEST(a_mapping_outlives_its_handle),
		QBRT_TEST(a_mapping_outlives_its_file),
		QBRT_TEST(memory_of_a_running_job_is_never_handed_out),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
