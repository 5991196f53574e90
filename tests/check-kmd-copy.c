// SPDX-License-Identifier: MIT
/* COPY (docs/spec/kernel.md, 2.6, K100 to K102). */
#include "check-kmd.h"

#include <errno.h>
#include <string.h>

#include "prog.h"
#include "util.h"

#define FAIL_FROM offsetof(struct drm_qbnpu_copy, fail_what)
#define FAIL_TO offsetof(struct drm_qbnpu_copy, dims)

/* A dense copy of 64 bytes. */
static struct drm_qbnpu_copy make_copy(const struct kmd_set *set)
{
	return (struct drm_qbnpu_copy){
		.queue = set->queue,
		.src = set->input.handle,
		.dst = set->output.handle,
		.rank = 1,
		.element_size = 1,
		.sync_size = sizeof(struct drm_qbnpu_sync),
		.job = 0xbad,
		.dims = { KMD_BYTES },
		.src_strides = { 1 },
		.dst_strides = { 1 },
	};
}

static struct drm_qbnpu_wait run(struct drm_qbnpu_copy *copy)
{
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_COPY, copy), 0);
	return kmd_wait(copy->queue, copy->job);
}

/* The same in plain C, element by element. */
static void copy_slowly(const struct drm_qbnpu_copy *copy, const uint8_t *src,
			uint8_t *dst)
{
	uint64_t num = 1;

	for (uint32_t i = 0; i < copy->rank; i++)
		num *= copy->dims[i];
	for (uint64_t n = 0; n < num; n++) {
		uint64_t from = copy->src_offset, to = copy->dst_offset;
		uint64_t rest = n;

		for (uint32_t i = copy->rank; i-- > 0;) {
			from += rest % copy->dims[i] * copy->src_strides[i];
			to += rest % copy->dims[i] * copy->dst_strides[i];
			rest /= copy->dims[i];
		}
		memcpy(dst + to, src + from, copy->element_size);
	}
}

/* Small numbers that are the same in every run. */
static uint32_t next_random(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return state >> 8;
}

/*
 * A random copy that is allowed: a destination that is dense but for gaps, in
 * some order of the axes, and a source with any strides, also 0.
 */
static void make_random(struct drm_qbnpu_copy *copy, uint64_t room)
{
	uint64_t dst_extent, src_extent;
	uint32_t order[6] = { 0, 1, 2, 3, 4, 5 };
	uint32_t size = 1u << next_random() % 5;

	copy->rank = 1 + next_random() % 6;
	copy->element_size = size;
	for (uint32_t i = copy->rank; i-- > 1;) {
		uint32_t j = next_random() % (i + 1), kept = order[i];

		order[i] = order[j];
		order[j] = kept;
	}
	dst_extent = src_extent = size;
	for (uint32_t i = 0; i < 6; i++)
		copy->dims[i] = 0;
	for (uint32_t i = 0; i < copy->rank; i++) {
		uint32_t axis = order[i];
		uint64_t gap = size * (next_random() % 3);

		copy->dims[axis] = 1 + next_random() % 3;
		copy->dst_strides[axis] = dst_extent + gap;
		dst_extent += (copy->dims[axis] - 1) * copy->dst_strides[axis];
		copy->src_strides[axis] = size * (next_random() % 5);
		src_extent += (copy->dims[axis] - 1) * copy->src_strides[axis];
	}
	ck_assert_uint_le(dst_extent, room);
	ck_assert_uint_le(src_extent, room);
	copy->dst_offset = (uint64_t)next_random() %
			   ((room - dst_extent) / size + 1) * size;
	copy->src_offset = (uint64_t)next_random() %
			   ((room - src_extent) / size + 1) * size;
}

/* K100: every rank and element size, against a C loop */
START_TEST(copies_equal_a_c_loop)
{
	static uint8_t expected[65536];
	struct drm_qbnpu_copy copy;
	struct kmd_buffer src, dst;
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	kmd_alloc(&src, sizeof(expected));
	kmd_alloc(&dst, sizeof(expected));
	for (size_t i = 0; i < sizeof(expected); i++)
		src.data[i] = (uint8_t)next_random();
	for (int i = 0; i < 1000; i++) {
		copy = make_copy(&set);
		copy.src = src.handle;
		copy.dst = dst.handle;
		make_random(&copy, sizeof(expected));
		copy_slowly(&copy, src.data, expected);
		ck_assert_int_eq(run(&copy).status, 0);
		ck_assert_mem_eq(dst.data, expected, sizeof(expected));
	}
	kmd_free(&src);
	kmd_free(&dst);
	kmd_end_set(&set);
}
END_TEST

struct bad_copy {
	void (*apply)(struct drm_qbnpu_copy *copy);
	int err;
	uint32_t what;
};

#define APPLY(name, statement) \
	static void name(struct drm_qbnpu_copy *copy) \
	{ \
		statement; \
	}

APPLY(set_flags, copy->flags = 1)
APPLY(set_rank_0, copy->rank = 0)
APPLY(set_rank_7, copy->rank = 7)
APPLY(set_size_3, copy->element_size = 3)
APPLY(set_size_32, copy->element_size = 32)
APPLY(set_dim_0, copy->dims[0] = 0)
APPLY(set_dim_beyond, copy->dims[1] = 1)
APPLY(set_src_beyond, copy->src_strides[5] = 1)
APPLY(set_dst_beyond, copy->dst_strides[1] = 1)
APPLY(set_many_syncs, copy->in_count = 65)
APPLY(set_sync_size, copy->sync_size = 8)
APPLY(set_no_queue, copy->queue = 99)
APPLY(set_no_src, copy->src = 99)
APPLY(set_no_dst, copy->dst = 99)
APPLY(set_src_odd, copy->element_size = 2; copy->src_offset = 1;
      copy->src_strides[0] = 2; copy->dst_strides[0] = 2)
APPLY(set_dst_odd, copy->element_size = 2; copy->dst_offset = 1;
      copy->src_strides[0] = 2; copy->dst_strides[0] = 2)
APPLY(set_stride_odd, copy->element_size = 2; copy->src_strides[0] = 3;
      copy->dst_strides[0] = 2)
APPLY(set_src_far, copy->src_offset = UINT64_C(1) << 32)
APPLY(set_dst_far, copy->dst_offset = UINT64_C(1) << 32)
APPLY(set_src_huge, copy->src_strides[0] = UINT64_C(1) << 62)
APPLY(set_dst_repeats, copy->dst_strides[0] = 0)
APPLY(set_same_range, copy->dst = copy->src)
APPLY(set_past, copy->deadline_ns = 1)

static const struct bad_copy bad_copies[] = {
	{ set_flags, EINVAL, 0 },       { set_rank_0, EINVAL, 0 },
	{ set_rank_7, EINVAL, 0 },      { set_size_3, EINVAL, 0 },
	{ set_size_32, EINVAL, 0 },     { set_dim_0, EINVAL, 0 },
	{ set_dim_beyond, EINVAL, 0 },  { set_src_beyond, EINVAL, 0 },
	{ set_dst_beyond, EINVAL, 0 },  { set_many_syncs, EINVAL, 0 },
	{ set_sync_size, EINVAL, 0 },   { set_no_queue, ENOENT, 7 },
	{ set_no_src, ENOENT, 8 },      { set_no_dst, ENOENT, 9 },
	{ set_src_odd, EINVAL, 8 },     { set_dst_odd, EINVAL, 9 },
	{ set_stride_odd, EINVAL, 8 },  { set_src_far, ERANGE, 8 },
	{ set_dst_far, ERANGE, 9 },     { set_src_huge, ERANGE, 8 },
	{ set_dst_repeats, EINVAL, 9 }, { set_same_range, EINVAL, 9 },
	{ set_past, ETIME, 0 },
};

/* K100 K101 K102 K002 */
START_TEST(bad_copies_are_refused)
{
	struct drm_qbnpu_copy copy;
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	for (size_t i = 0; i < qbrt_array_size(bad_copies); i++) {
		copy = make_copy(&set);
		copy.fail_what = 0xbad;
		bad_copies[i].apply(&copy);
		kmd_refuse_but(DRM_IOCTL_QBNPU_COPY, &copy, bad_copies[i].err,
			       FAIL_FROM, FAIL_TO);
		ck_assert_uint_eq(copy.fail_what, bad_copies[i].what);
	}
	kmd_end_set(&set);
}
END_TEST

/* K101: two ranges of one buffer that only touch */
START_TEST(a_buffer_is_copied_into_itself)
{
	struct drm_qbnpu_copy copy;
	struct kmd_set set;

	kmd_begin_set(_i, &set);
	copy = make_copy(&set);
	copy.dst = copy.src;
	copy.dst_offset = KMD_BYTES;
	ck_assert_int_eq(run(&copy).status, 0);
	ck_assert_mem_eq(set.input.data + KMD_BYTES, set.input.data, KMD_BYTES);
	kmd_end_set(&set);
}
END_TEST

/* K102: copies and programs share a queue, its numbers and its order */
START_TEST(copies_are_jobs_like_any_other)
{
	struct drm_qbnpu_wait wait;
	struct drm_qbnpu_copy copy;
	struct kmd_set set;
	struct kmd_job job;
	uint32_t syncobj, queue;
	struct drm_qbnpu_sync sync = { 0 };

	kmd_begin_set(_i, &set);
	queue = kmd_create_queue(0, &syncobj);
	kmd_prepare_empty(&job, queue);
	sync.handle = syncobj;
	sync.point = kmd_submit(&job);
	copy = make_copy(&set);
	copy.user_data = 77;
	copy.in_syncs = (uintptr_t)&sync;
	copy.in_count = 1;
	wait = run(&copy);
	ck_assert_uint_eq(copy.job, 1);
	ck_assert_int_eq(wait.status, 0);
	ck_assert_uint_eq(wait.user_data, 77);
	ck_assert_int_ge(wait.start_ns, wait.submit_ns);
	ck_assert_mem_eq(set.output.data, set.input.data, KMD_BYTES);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	ck_assert_uint_eq(kmd_submit(&job), 2);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_COPY, &copy), 0);
	ck_assert_uint_eq(copy.job, 3);
	kmd_wait(set.queue, 3);
	kmd_end_set(&set);
}
END_TEST

/* K102 K066 K047 K115 */
START_TEST(copies_respect_weights_and_brackets)
{
	struct drm_qbnpu_bo_sync sync = {
		.flags = DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_WRITE,
		.length = 64,
	};
	struct drm_qbnpu_program_create create = { .core_mask = 1 };
	struct drm_qbnpu_copy copy;
	struct kmd_set set;
	struct prog prog;

	kmd_begin_set(_i, &set);
	sync.handle = set.input.handle;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync), 0);
	copy = make_copy(&set);
	kmd_refuse_but(DRM_IOCTL_QBNPU_COPY, &copy, EBUSY, FAIL_FROM, FAIL_TO);
	ck_assert_uint_eq(copy.fail_what, DRM_QBNPU_FAIL_SOURCE);
	sync.flags ^= DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_END;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_SYNC, &sync), 0);

	prog_begin(&prog);
	prog_copy(&prog, prog_weights(&prog, QBNPU_DTYPE_U8, DIMS(64)),
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	prog_finish(&prog);
	create.data = (uintptr_t)prog.bytes;
	create.size = prog.nbytes;
	create.weights = set.output.handle;
	create.weights_size = 64;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	prog_end(&prog);
	kmd_refuse_but(DRM_IOCTL_QBNPU_COPY, &copy, EBUSY, FAIL_FROM, FAIL_TO);
	ck_assert_uint_eq(copy.fail_what, DRM_QBNPU_FAIL_DESTINATION);
	kmd_unload(create.handle);
	ck_assert_int_eq(run(&copy).status, 0);
	kmd_end_set(&set);
}
END_TEST

void kmd_copy_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(copies_equal_a_c_loop),
		QBRT_TEST(bad_copies_are_refused),
		QBRT_TEST(a_buffer_is_copied_into_itself),
		QBRT_TEST(copies_are_jobs_like_any_other),
		QBRT_TEST(copies_respect_weights_and_brackets),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
