// SPDX-License-Identifier: MIT
/*
 * Buffers of an open device: the choice of the region, exhaustion, and what
 * else a driver may answer. kmd-bend.c plays the regions.
 */
#include "test-util.h"

#include <drm.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "accelerator.h"
#include "counters.h"
#include "kmd-bend.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define MIB ((size_t)1 << 20)
#define CACHED (DRM_QBNPU_REGION_MAPPABLE | DRM_QBNPU_REGION_CACHED)
#define UNCACHED DRM_QBNPU_REGION_MAPPABLE

#define LOCAL DRM_QBNPU_REGION_LOCAL
#define SYSTEM DRM_QBNPU_REGION_SYSTEM

static struct qbrt_accelerator *acc;

static void open_device(uint32_t local_flags, uint32_t system_flags)
{
	kmd_bend.is_paged = true;
	kmd_bend.has_region_flags = true;
	kmd_bend.region_flags[LOCAL] = local_flags;
	kmd_bend.region_flags[SYSTEM] = system_flags;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
}

/* The limit on locked memory may be smaller than what a test needs. */
#define SKIP_UNLESS_LOCKABLE(nbytes) \
	do { \
		if (!kmd_bend_can_lock(nbytes)) \
			QBRT_TEST_SKIP("RLIMIT_MEMLOCK is too small"); \
	} while (0)

/* root is refused no locked memory as long as it may lock any */
static void drop_right_to_lock(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	ck_assert_int_eq(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	ck_assert_int_eq(syscall(SYS_capset, &header, data), 0);
}

static struct qbrt_buffer take(size_t nbytes)
{
	struct qbrt_buffer buffer;

	ck_assert_ok(qbrt_device_take_buffer(acc->device, nbytes, 64, false,
					     &buffer));
	return buffer;
}

static void give(struct qbrt_buffer buffer)
{
	qbrt_device_give_buffer(acc->device, &buffer);
}

static unsigned long count_requests(void)
{
	return atomic_load(&kmd_bend.num_requests) +
	       atomic_load(&kmd_bend.num_unmaps);
}

/* Q472 */
START_TEST(a_buffer_lies_in_the_first_region_with_cached_mappings)
{
	static const struct {
		uint32_t local_flags, system_flags, num_regions;
		size_t system_total;
		uint32_t small_region, large_region;
	} profiles[] = {
		{ CACHED, CACHED, 2, 4 * MIB, SYSTEM, LOCAL },
		{ UNCACHED, CACHED, 2, 0, SYSTEM, SYSTEM },
		{ CACHED, 0, 1, 0, LOCAL, LOCAL },
		{ CACHED, UNCACHED, 2, 0, LOCAL, LOCAL },
		{ UNCACHED, CACHED, 2, 4 * MIB, SYSTEM, LOCAL },
		{ UNCACHED, UNCACHED, 2, 0, SYSTEM, SYSTEM },
	};
	struct qbrt_buffer small, large;

	SKIP_UNLESS_LOCKABLE(7 * MIB);
	kmd_bend.num_regions = profiles[_i].num_regions;
	kmd_bend.region_total[SYSTEM] = profiles[_i].system_total;
	open_device(profiles[_i].local_flags, profiles[_i].system_flags);
	small = take(MIB);
	large = take(5 * MIB);
	ck_assert_uint_eq(small.region, profiles[_i].small_region);
	ck_assert_uint_eq(large.region, profiles[_i].large_region);
	memset(large.data, 1, 5 * MIB);
	give(small);
	give(large);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q472 */
START_TEST(the_next_region_is_taken_only_while_the_first_is_full)
{
	struct qbrt_buffer a, b, c;

	SKIP_UNLESS_LOCKABLE(2 * MIB);
	kmd_bend.region_total[SYSTEM] = MIB;
	open_device(CACHED, CACHED);
	a = take(MIB);
	b = take(4096);
	ck_assert_uint_eq(a.region, SYSTEM);
	ck_assert_uint_eq(b.region, LOCAL);
	give(a);
	c = take(8192);
	/* the pool is emptied only before exhaustion is reported */
	ck_assert_uint_eq(c.region, LOCAL);
	qbrt_device_trim(acc->device);
	give(c);
	c = take(12288);
	ck_assert_uint_eq(c.region, SYSTEM);
	give(b);
	give(c);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469 */
START_TEST(exhaustion_is_told_by_the_region_tried_last)
{
	static const struct {
		uint32_t local_flags, system_flags;
		enum qbrt_status status;
	} cases[] = {
		{ 0, CACHED, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
		{ CACHED, CACHED, QBRT_BAD_ALLOC },
		{ UNCACHED, CACHED, QBRT_BAD_ALLOC },
		{ CACHED, 0, QBRT_BAD_ALLOC },
		{ CACHED, UNCACHED,
		  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	};
	struct qbrt_buffer buffer, untouched;

	kmd_bend.region_total[LOCAL] = 2 * MIB;
	kmd_bend.region_total[SYSTEM] = 2 * MIB;
	open_device(cases[_i].local_flags, cases[_i].system_flags);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	ck_assert_status(qbrt_device_take_buffer(acc->device, 2 * MIB + 1, 64,
						 false, &buffer),
			 cases[_i].status);
	ck_assert_detail("2097153 bytes");
	ck_assert_detail("aries-rb:0");
	ck_assert_detail("limit 2097152 bytes");
	ck_assert_detail("at most 2097152 would fit");
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469 K140 */
START_TEST(the_limit_on_locked_memory_is_named)
{
	const struct rlimit limit = { MIB, MIB };
	struct qbrt_buffer buffer;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("sanitizers do not lock memory");
	if (qbrt_test_has_huge_pages())
		QBRT_TEST_SKIP("2 MiB pages are reserved: none is locked");
	if (!kmd_bend_can_lock(MIB))
		QBRT_TEST_SKIP("RLIMIT_MEMLOCK is too small");
	drop_right_to_lock();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* whichever region is tried last */
	open_device(_i ? CACHED : 0, CACHED);
	ck_assert_status(qbrt_device_take_buffer(acc->device, 3 * MIB, 64,
						 false, &buffer),
			 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail("RLIMIT_MEMLOCK is 1048576 bytes");
	ck_assert_detail("at most 1048576 would fit");
	qbrt_accelerator_close(acc);
}
END_TEST

static rlim_t get_address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long num_pages = 0;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%lu", &num_pages), 1);
	(void)fclose(file);
	return (rlim_t)num_pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Q469: and no limit that is not the cause is said to be one */
START_TEST(the_limit_on_address_space_is_named)
{
	struct rlimit limit;
	struct rlimit less;
	struct qbrt_buffer buffer;
	enum qbrt_status status;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("sanitizers need address space");
	if (qbrt_test_has_huge_pages() || !kmd_bend_can_lock(5 * MIB))
		QBRT_TEST_SKIP("locked memory is not to be the cause");
	open_device(CACHED, CACHED);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	less = limit;
	less.rlim_cur = get_address_space() + MIB;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &less), 0);
	status = qbrt_device_take_buffer(acc->device, 5 * MIB, 64, false,
					 &buffer);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_int_eq(status, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail("the host gave none, ");
	ck_assert_detail(", RLIMIT_AS is ");
	ck_assert(!qbrt_test_contains(qbrt_error_detail(), "at most"));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469: the cause decides, not the region: there is room in both. */
START_TEST(a_region_with_room_blames_the_host)
{
	struct qbrt_buffer buffer, untouched;
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = MIB;
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	kmd_bend.region_total[LOCAL] = 2 * MIB;
	open_device(CACHED, _i ? CACHED : 0);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_BO_CREATE;
	kmd_bend.fail_err = -ENOMEM;
	atomic_store(&kmd_bend.fail_times, 4);
	ck_assert_status(
		qbrt_device_take_buffer(acc->device, MIB, 64, false, &buffer),
		QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail("1048576 bytes");
	ck_assert_detail("aries-rb:0");
	ck_assert_detail("RLIMIT_MEMLOCK is 1048576 bytes, of which ");
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	atomic_store(&kmd_bend.fail_times, 2);
	/* of weights the model is told, and the limit too */
	ck_assert_status(qbrt_device_take_weights(acc->device, MIB, &buffer),
			 QBRT_BAD_ALLOC);
	ck_assert_detail("RLIMIT_MEMLOCK is 1048576 bytes, of which ");
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469 Q615 */
START_TEST(the_limit_on_descriptors_is_named)
{
	const int err = _i ? -ENFILE : -EMFILE;
	struct qbrt_buffer buffer, untouched;

	open_device(CACHED, CACHED);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_BO_CREATE;
	kmd_bend.fail_err = err;
	atomic_store(&kmd_bend.fail_times, 2);
	ck_assert_status(
		qbrt_device_take_buffer(acc->device, MIB, 64, false, &buffer),
		QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail(_i ? "fs.file-max" : "RLIMIT_NOFILE is ");
	atomic_store(&kmd_bend.fail_times, 2);
	ck_assert_status(qbrt_device_take_weights(acc->device, MIB, &buffer),
			 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail(_i ? "fs.file-max" : "RLIMIT_NOFILE is ");
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q468 */
START_TEST(a_contiguous_request_is_refused_with_the_largest_size)
{
	struct qbrt_buffer buffer, untouched;

	kmd_bend.is_contiguous = true;
	kmd_bend.region_total[LOCAL] = 2 * MIB;
	kmd_bend.region_total[SYSTEM] = MIB;
	open_device(CACHED, CACHED);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	ck_assert_status(qbrt_device_take_buffer(acc->device, 3 * MIB, 64, true,
						 &buffer),
			 QBRT_PINNED_MEMORY_NOT_CONTIGUOUS);
	ck_assert_detail("3145728 bytes");
	ck_assert_detail("at most 2097152 would fit");
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q479 */
START_TEST(a_device_without_mappable_memory_refuses_before_any_request)
{
	struct qbrt_buffer buffer;
	unsigned long before;

	open_device(0, 0);
	before = count_requests();
	ck_assert_status(
		qbrt_device_take_buffer(acc->device, 1, 64, false, &buffer),
		QBRT_NOT_IMPLEMENTED);
	ck_assert_uint_eq(count_requests(), before);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q615 */
START_TEST(another_errno_of_the_driver_is_translated)
{
	static const struct {
		unsigned long request;
		int err;
		enum qbrt_status status;
	} cases[] = {
		{ DRM_IOCTL_QBNPU_BO_CREATE, -EINVAL, QBRT_INVALID_ARGUMENT },
		{ DRM_IOCTL_QBNPU_BO_CREATE, -ENODEV, QBRT_ACC_DEVICE_LOST },
		{ DRM_IOCTL_QBNPU_BO_CREATE, -EFAULT, QBRT_INTERNAL_ERROR },
		{ DRM_IOCTL_QBNPU_BO_INFO, -ENOENT, QBRT_INTERNAL_ERROR },
		{ DRM_IOCTL_QBNPU_BO_INFO, -ENODEV, QBRT_ACC_DEVICE_LOST },
		{ 0, -ENOMEM, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	};
	struct qbrt_buffer buffer, untouched;
	unsigned long before;

	open_device(CACHED, CACHED);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	kmd_bend.fail_request = cases[_i].request;
	kmd_bend.fail_err = cases[_i].err;
	atomic_store(&kmd_bend.fail_times, 1);
	if (!cases[_i].request)
		kmd_bend.mmap_err = cases[_i].err;
	before = atomic_load(&qbrt_counters.buffer_requests);
	ck_assert_status(
		qbrt_device_take_buffer(acc->device, 100, 64, false, &buffer),
		cases[_i].status);
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	/* what was created is closed again */
	ck_assert_uint_eq(atomic_load(&qbrt_counters.buffer_requests) - before,
			  cases[_i].request == DRM_IOCTL_QBNPU_BO_CREATE ? 1
									 : 2);
	kmd_bend.mmap_err = 0;
	buffer = take(100);
	give(buffer);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(
			a_buffer_lies_in_the_first_region_with_cached_mappings,
			6),
		QBRT_TEST(
			the_next_region_is_taken_only_while_the_first_is_full),
		QBRT_LOOP_TEST(exhaustion_is_told_by_the_region_tried_last, 5),
		QBRT_LOOP_TEST(the_limit_on_locked_memory_is_named, 2),
		QBRT_TEST(the_limit_on_address_space_is_named),
		QBRT_LOOP_TEST(a_region_with_room_blames_the_host, 2),
		QBRT_LOOP_TEST(the_limit_on_descriptors_is_named, 2),
		QBRT_TEST(
			a_contiguous_request_is_refused_with_the_largest_size),
		QBRT_TEST(
			a_device_without_mappable_memory_refuses_before_any_request),
		QBRT_LOOP_TEST(another_errno_of_the_driver_is_translated, 6),
	};

	return qbrt_test_run("accelerator-buffer", tests,
			     qbrt_array_size(tests));
}
