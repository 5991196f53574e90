// SPDX-License-Identifier: MIT
/*
 * The pool of freed buffers of an open device, counted in requests. kmd-bend.c
 * plays the regions.
 */
#include "test-util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accelerator.h"
#include "count-alloc.h"
#include "counters.h"
#include "kmd-bend.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define MIB ((size_t)1 << 20)
#define CACHED (DRM_QBNPU_REGION_MAPPABLE | DRM_QBNPU_REGION_CACHED)

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

/* Q473 P61 */
START_TEST(alloc_and_free_of_a_pooled_size_make_no_request)
{
	static const size_t sizes[] = { 1, 4096, 4097, 65536, MIB - 1, MIB };
	struct qbrt_buffer buffer, again;
	unsigned long before;
	int i;

	open_device(CACHED, CACHED);
	buffer = take(sizes[_i]);
	give(buffer);
	before = count_requests();
	for (i = 0; i < 100; i++) {
		again = take(sizes[_i]);
		ck_assert_ptr_eq(again.data, buffer.data);
		ck_assert_uint_eq(again.id, buffer.id);
		ck_assert_uint_eq(again.handle, buffer.handle);
		ck_assert_uint_eq(again.size, buffer.size);
		give(again);
	}
	ck_assert_uint_eq(count_requests(), before);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 Q467 */
START_TEST(a_pooled_buffer_is_zero_when_handed_out)
{
	struct qbrt_buffer buffer;
	size_t i;

	open_device(CACHED, CACHED);
	buffer = take(8000);
	memset(buffer.data, 0xa5, buffer.size);
	give(buffer);
	buffer = take(5000);
	for (i = 0; i < buffer.size; i++)
		ck_assert_int_eq(((char *)buffer.data)[i], 0);
	give(buffer);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 */
START_TEST(the_newest_of_the_same_size_is_taken_first)
{
	struct qbrt_buffer a, b, other, got;

	open_device(CACHED, CACHED);
	a = take(4096);
	b = take(4096);
	other = take(8192);
	give(a);
	give(b);
	give(other);
	got = take(4096);
	ck_assert_uint_eq(got.id, b.id);
	b = take(4096);
	ck_assert_uint_eq(b.id, a.id);
	give(got);
	give(b);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 */
START_TEST(large_aligned_and_weight_buffers_are_not_pooled)
{
	struct qbrt_buffer buffer;

	SKIP_UNLESS_LOCKABLE(4 * MIB);
	open_device(CACHED, CACHED);
	give(take(MIB + 1));
	ck_assert_ok(
		qbrt_device_take_buffer(acc->device, 100, 128, false, &buffer));
	give(buffer);
	ck_assert_ok(qbrt_device_take_weights(acc->device, 100, &buffer));
	ck_assert_uint_eq(buffer.region, LOCAL);
	give(buffer);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	/* nor does an aligned request look for one */
	give(take(4096));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 4096);
	ck_assert_ok(qbrt_device_take_buffer(acc->device, 100, 4096, false,
					     &buffer));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 4096);
	give(buffer);
	qbrt_accelerator_close(acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
}
END_TEST

/* Q473 */
START_TEST(the_pool_keeps_32_mib_at_most)
{
	struct qbrt_buffer buffers[40];
	int i;

	SKIP_UNLESS_LOCKABLE(41 * MIB);
	open_device(CACHED, CACHED);
	for (i = 0; i < 40; i++)
		buffers[i] = take(MIB);
	for (i = 0; i < 40; i++)
		give(buffers[i]);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 32 * MIB);
	qbrt_device_trim(acc->device);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: each holds a descriptor of this process. */
START_TEST(the_pool_keeps_64_buffers_at_most)
{
	struct qbrt_buffer buffers[70];
	int round, i;

	open_device(CACHED, CACHED);
	/* once it was emptied it keeps as many again */
	for (round = 0; round < 2; round++) {
		(void)qbrt_device_trim(acc->device);
		for (i = 0; i < 70; i++)
			buffers[i] = take(4096);
		for (i = 0; i < 70; i++)
			give(buffers[i]);
		ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes),
				  64 * 4096);
	}
	/* what is handed out makes room for another one */
	buffers[0] = take(4096);
	buffers[1] = take(8192);
	give(buffers[1]);
	give(buffers[0]);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 65 * 4096);
	qbrt_accelerator_close(acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
}
END_TEST

/* Q473 */
START_TEST(a_pool_that_holds_the_last_descriptors_is_emptied)
{
	struct qbrt_buffer buffer;

	open_device(CACHED, CACHED);
	give(take(4096));
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_BO_CREATE;
	kmd_bend.fail_err = -EMFILE;
	atomic_store(&kmd_bend.fail_times, 1);
	if (_i)
		ck_assert_ok(
			qbrt_device_take_weights(acc->device, 8192, &buffer));
	else
		buffer = take(8192);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	give(buffer);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: another device has them, and really none is left. */
START_TEST(an_open_without_descriptors_empties_the_pools)
{
	struct qbrt_accelerator *other;
	struct qbrt_buffer buffers[16];
	struct rlimit limit;
	int i;

	ck_assert_int_eq(setenv("QBRUNTIME_SOFT_DEVICES", "aries:2", 1), 0);
	open_device(CACHED, CACHED);
	for (i = 0; i < 16; i++)
		buffers[i] = take(4096);
	for (i = 0; i < 16; i++)
		give(buffers[i]);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	i = dup(STDOUT_FILENO);
	ck_assert_int_eq(close(i), 0);
	limit.rlim_cur = (rlim_t)i;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &other));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	qbrt_accelerator_close(other);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 */
START_TEST(a_full_pool_is_emptied_before_exhaustion_is_reported)
{
	struct qbrt_buffer buffers[4], large;
	int i;

	SKIP_UNLESS_LOCKABLE(5 * MIB);
	kmd_bend.region_total[SYSTEM] = 4 * MIB;
	open_device(0, CACHED);
	for (i = 0; i < 4; i++)
		buffers[i] = take(MIB);
	for (i = 0; i < 4; i++)
		give(buffers[i]);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 4 * MIB);
	large = take(4 * MIB);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	give(large);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 Q121 */
START_TEST(weights_empty_the_pool_too_and_never_leave_local_memory)
{
	struct qbrt_buffer buffer, untouched;

	kmd_bend.region_total[LOCAL] = MIB;
	open_device(CACHED, 0);
	give(take(MIB));
	ck_assert_ok(qbrt_device_take_weights(acc->device, MIB, &buffer));
	ck_assert_uint_eq(buffer.region, LOCAL);
	give(buffer);
	qbrt_accelerator_close(acc);
	open_device(CACHED, CACHED);
	memset(&buffer, 0x5a, sizeof(buffer));
	untouched = buffer;
	ck_assert_status(
		qbrt_device_take_weights(acc->device, MIB + 1, &buffer),
		QBRT_BAD_ALLOC);
	ck_assert_detail("1048577 bytes");
	ck_assert_mem_eq(&buffer, &untouched, sizeof(buffer));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473 */
START_TEST(pooled_memory_counts_as_free)
{
	struct qbrt_device_info *before, *after;
	struct qbrt_buffer buffer;

	kmd_bend.region_total[LOCAL] = 8 * MIB;
	open_device(CACHED, 0);
	ck_assert_ok(qbrt_accelerator_query_info(acc, &before));
	buffer = take(MIB);
	ck_assert_ok(qbrt_accelerator_query_info(acc, &after));
	ck_assert_uint_lt(qbrt_device_info_get_memory_free(after),
			  qbrt_device_info_get_memory_free(before));
	qbrt_device_info_free(after);
	give(buffer);
	ck_assert_ok(qbrt_accelerator_query_info(acc, &after));
	ck_assert_uint_eq(qbrt_device_info_get_memory_free(after),
			  qbrt_device_info_get_memory_free(before));
	qbrt_device_info_free(after);
	qbrt_device_info_free(before);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: by class */
START_TEST(a_contiguous_request_takes_no_lesser_buffer_from_the_pool)
{
	struct qbrt_buffer locked, driver;

	open_device(CACHED, CACHED);
	locked = take(4096);
	give(locked);
	kmd_bend.is_contiguous = true;
	ck_assert_ok(
		qbrt_device_take_buffer(acc->device, 4096, 64, true, &driver));
	ck_assert_uint_ne(driver.id, locked.id);
	ck_assert_uint_eq(driver.contiguity, QBRT_CONTIGUITY_DRIVER);
	give(driver);
	ck_assert_ok(
		qbrt_device_take_buffer(acc->device, 4096, 64, true, &locked));
	ck_assert_uint_eq(locked.id, driver.id);
	give(locked);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: a freed buffer is kept also when there is no memory to be had */
START_TEST(freeing_needs_no_memory)
{
	struct qbrt_buffer buffer;

	open_device(CACHED, CACHED);
	buffer = take(4096);
	count_alloc_begin(1);
	give(buffer);
	ck_assert_int_eq(count_alloc_end(), 0);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 4096);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(alloc_and_free_of_a_pooled_size_make_no_request,
			       6),
		QBRT_TEST(a_pooled_buffer_is_zero_when_handed_out),
		QBRT_TEST(the_newest_of_the_same_size_is_taken_first),
		QBRT_TEST(large_aligned_and_weight_buffers_are_not_pooled),
		QBRT_TEST(the_pool_keeps_32_mib_at_most),
		QBRT_TEST(the_pool_keeps_64_buffers_at_most),
		QBRT_LOOP_TEST(
			a_pool_that_holds_the_last_descriptors_is_emptied, 2),
		QBRT_TEST(an_open_without_descriptors_empties_the_pools),
		QBRT_TEST(a_full_pool_is_emptied_before_exhaustion_is_reported),
		QBRT_TEST(
			weights_empty_the_pool_too_and_never_leave_local_memory),
		QBRT_TEST(pooled_memory_counts_as_free),
		QBRT_TEST(
			a_contiguous_request_takes_no_lesser_buffer_from_the_pool),
		QBRT_TEST(freeing_needs_no_memory),
	};

	return qbrt_test_run("accelerator-buffer-pool", tests,
			     qbrt_array_size(tests));
}
