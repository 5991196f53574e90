// SPDX-License-Identifier: MIT
/*
 * The options of an allocation: alignment, contiguity, and how the struct may
 * grow. What a device answers in odd cases is played by kmd-bend.c.
 */
#include "test-util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "kmd-bend.h"
#include "pinned-memory.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_pinned_memory *)(uintptr_t)0x5a5a)

static struct qbrt_accelerator *acc;

static void open_device(void)
{
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
}

/* Refused with that status and words, and nothing has happened. */
static void check_refused(enum qbrt_dtype dtype, const int64_t *shape,
			  size_t ndim,
			  const struct qbrt_pinned_options *options,
			  enum qbrt_status expected, const char *detail)
{
	struct qbrt_pinned_memory *mem = SENTINEL;

	ck_assert_status(qbrt_pinned_memory_alloc(acc, dtype, shape, ndim,
						  options, &mem),
			 expected);
	ck_assert_detail(detail);
	ck_assert_ptr_eq(mem, SENTINEL);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
}

/* Q466: 64, 128, ... 2 MiB */
START_TEST(both_addresses_honour_the_alignment)
{
	const int64_t shape[] = { 3 };
	struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.alignment = (size_t)64 << _i,
	};
	struct qbrt_pinned_memory *mem;
	uint64_t address;

	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      &options, &mem));
	ck_assert_uint_eq((uintptr_t)qbrt_pinned_memory_get_data(mem) %
				  options.alignment,
			  0);
	ck_assert_ok(qbrt_pinned_memory_query_device_address(mem, &address));
	ck_assert_uint_eq(address % options.alignment, 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q466 */
START_TEST(another_alignment_is_refused)
{
	static const size_t bad[] = { 1,       2,  32,       63,
				      65,      96, 4u << 20, (size_t)1 << 63,
				      SIZE_MAX };
	const int64_t shape[] = { 3 };
	struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.alignment = bad[_i],
	};
	char number[32];

	open_device();
	(void)snprintf(number, sizeof(number), "alignment is %zu", bad[_i]);
	check_refused(QBRT_DTYPE_UINT8, shape, 1, &options,
		      QBRT_INVALID_ARGUMENT, number);
	ck_assert_detail("64 to 2097152");
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q471 Q731 */
START_TEST(unknown_flags_and_reserved_bits_are_refused)
{
	const int64_t shape[] = { 3 };
	struct qbrt_pinned_options options = { .size = sizeof(options) };
	int bit;

	open_device();
	for (bit = 1; bit < 32; bit++) {
		options.flags = 1u << bit;
		check_refused(QBRT_DTYPE_UINT8, shape, 1, &options,
			      QBRT_INVALID_ARGUMENT, "flags");
	}
	options.flags = 0;
	for (bit = 0; bit < 32; bit++) {
		options.reserved = 1u << bit;
		check_refused(QBRT_DTYPE_UINT8, shape, 1, &options,
			      QBRT_INVALID_ARGUMENT, "reserved");
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q731 */
START_TEST(options_may_be_shorter_and_longer)
{
	const int64_t shape[] = { 3 };
	struct {
		struct qbrt_pinned_options options;
		unsigned char tail[40];
	} longer = { 0 };
	struct qbrt_pinned_options *options = &longer.options;
	struct qbrt_pinned_memory *mem;
	size_t i;

	open_device();
	/* what lies beyond the size given is not looked at */
	options->size = sizeof(size_t);
	options->flags = 0xffffffff;
	options->alignment = 3;
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      options, &mem));
	qbrt_pinned_memory_free(mem);
	options->flags = 0;
	options->alignment = 4096;
	options->size = sizeof(longer);
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      options, &mem));
	qbrt_pinned_memory_free(mem);
	for (i = 0; i < sizeof(longer.tail); i++) {
		longer.tail[i] = 1;
		check_refused(QBRT_DTYPE_UINT8, shape, 1, options,
			      QBRT_INVALID_ARGUMENT, "not known");
		longer.tail[i] = 0;
	}
	/* garbage is not a newer library's struct: nobody walks over it */
	options->size = (size_t)1 << 40;
	check_refused(QBRT_DTYPE_UINT8, shape, 1, options,
		      QBRT_INVALID_ARGUMENT, "size of the options");
	for (i = 0; i < sizeof(size_t); i++) {
		options->size = i;
		check_refused(QBRT_DTYPE_UINT8, shape, 1, options,
			      QBRT_INVALID_ARGUMENT, "size of the options");
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q468 Q476 */
START_TEST(contiguous_memory_is_of_class_driver_where_the_driver_says_so)
{
	const int64_t shape[] = { 100 };
	const struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.flags = QBRT_PINNED_REQUIRE_CONTIGUOUS,
	};
	struct qbrt_pinned_memory *mem;

	kmd_bend.is_contiguous = true;
	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      &options, &mem));
	ck_assert_int_eq(qbrt_pinned_memory_get_contiguity(mem),
			 QBRT_CONTIGUITY_DRIVER);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q468 Q475 K301 K303 */
START_TEST(contiguous_memory_is_a_huge_page_or_refused)
{
	const int64_t shape[] = { 100 };
	const struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.flags = QBRT_PINNED_REQUIRE_CONTIGUOUS,
	};
	struct qbrt_pinned_memory *mem = SENTINEL;
	enum qbrt_status status;

	open_device();
	status = qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					  &options, &mem);
	if (status) {
		ck_assert_int_eq(status, QBRT_PINNED_MEMORY_NOT_CONTIGUOUS);
		ck_assert_detail("100 bytes");
		ck_assert_ptr_eq(mem, SENTINEL);
	} else {
		ck_assert_int_eq(qbrt_pinned_memory_get_contiguity(mem),
				 QBRT_CONTIGUITY_HUGEPAGE);
		qbrt_pinned_memory_free(mem);
	}
	qbrt_accelerator_close(acc);
	if (status)
		QBRT_TEST_SKIP("no huge page is free: only the refusal");
}
END_TEST

/* Q468: 16 GiB of huge pages are nowhere */
START_TEST(contiguous_memory_beyond_the_machine_is_refused)
{
	const int64_t shape[] = { (int64_t)1 << 34 };
	const struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.flags = QBRT_PINNED_REQUIRE_CONTIGUOUS,
	};

	open_device();
	check_refused(QBRT_DTYPE_UINT8, shape, 1, &options,
		      QBRT_PINNED_MEMORY_NOT_CONTIGUOUS, "17179869184 bytes");
	qbrt_accelerator_close(acc);
}
END_TEST

static uint32_t count_segments(const struct qbrt_pinned_memory *memory)
{
	const struct qbrt_storage *storage = memory->storage;
	struct drm_qbnpu_bo_info info = { .handle = storage->buffer.handle };

	ck_assert_int_eq(kmd_bend_driver.ioctl(storage->device->file,
					       DRM_IOCTL_QBNPU_BO_INFO, &info),
			 0);
	return info.segments;
}

/* PM13: also of what another device takes; less is told of class locked. */
START_TEST(contiguous_memory_is_one_segment_from_its_start)
{
	const int64_t shape[] = { 100 };
	const struct qbrt_pinned_options options = {
		.size = sizeof(options),
		.flags = _i ? QBRT_PINNED_REQUIRE_CONTIGUOUS : 0,
	};
	enum qbrt_contiguity contiguity;
	uint32_t expected;
	struct qbrt_accelerator *other;
	struct qbrt_pinned_memory *mem = NULL, *taken;
	enum qbrt_status status;
	int fd;

	setenv("QBRUNTIME_SOFT_DEVICES", "aries:2", 1);
	open_device();
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &other));
	status = qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					  &options, &mem);
	if (!status) {
		contiguity = qbrt_pinned_memory_get_contiguity(mem);
		ck_assert(!_i || contiguity > QBRT_CONTIGUITY_LOCKED);
		expected = contiguity > QBRT_CONTIGUITY_LOCKED ? 1 : 0;
		ck_assert_uint_eq(count_segments(mem), expected);
		ck_assert_ok(qbrt_pinned_memory_export_fd(mem, &fd));
		ck_assert_ok(qbrt_pinned_memory_import_fd(
			other, fd, 0, QBRT_DTYPE_UINT8, shape, 1, &taken));
		ck_assert_int_eq(close(fd), 0);
		ck_assert_uint_eq(count_segments(taken), expected);
		memset(qbrt_pinned_memory_get_data(mem), 7, 100);
		ck_assert_mem_eq(qbrt_pinned_memory_get_data(taken),
				 qbrt_pinned_memory_get_data(mem), 100);
		qbrt_pinned_memory_free(taken);
	}
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(other);
	qbrt_accelerator_close(acc);
	if (_i && status) {
		ck_assert_int_eq(status, QBRT_PINNED_MEMORY_NOT_CONTIGUOUS);
		QBRT_TEST_SKIP("no huge page is free: only the refusal");
	}
	ck_assert_int_eq(status, QBRT_OK);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(both_addresses_honour_the_alignment, 16),
		QBRT_LOOP_TEST(another_alignment_is_refused, 9),
		QBRT_TEST(unknown_flags_and_reserved_bits_are_refused),
		QBRT_TEST(options_may_be_shorter_and_longer),
		QBRT_TEST(
			contiguous_memory_is_of_class_driver_where_the_driver_says_so),
		QBRT_TEST(contiguous_memory_is_a_huge_page_or_refused),
		QBRT_TEST(contiguous_memory_beyond_the_machine_is_refused),
		QBRT_LOOP_TEST(contiguous_memory_is_one_segment_from_its_start,
			       2),
	};

	return qbrt_test_run("pinned-memory-options", tests,
			     qbrt_array_size(tests));
}
