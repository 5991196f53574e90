// SPDX-License-Identifier: MIT
/*
 * Allocation of pinned memory, and the getters. What a device answers in odd
 * cases is played by kmd-bend.c.
 */
#include "test-util.h"

#include <pthread.h>
#include <string.h>

#include "count-alloc.h"
#include "counters.h"
#include "dlpack-abi.h"
#include "dtype.h"
#include "kmd-bend.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_pinned_memory *)(uintptr_t)0x5a5a)
#define NUM_THREADS 8
#define MIB ((int64_t)1 << 20)

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

static bool is_zero(const struct qbrt_pinned_memory *mem)
{
	const char *bytes = qbrt_pinned_memory_get_data(mem);
	size_t i;

	for (i = 0; i < qbrt_pinned_memory_get_nbytes(mem); i++)
		if (bytes[i])
			return false;
	return true;
}

/* Q461 Q465 PM06 PM05 */
START_TEST(every_dtype_can_be_had)
{
	const int64_t shape[] = { 2, 3, 5 };
	enum qbrt_dtype dtype = (enum qbrt_dtype)_i;
	size_t itemsize = qbrt_dtype_itemsize(dtype);
	const int64_t strides[] = { (int64_t)itemsize * 15,
				    (int64_t)itemsize * 5, (int64_t)itemsize };
	struct qbrt_pinned_memory *mem;

	open_device();
	ck_assert_ok(
		qbrt_pinned_memory_alloc(acc, dtype, shape, 3, NULL, &mem));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 1);
	ck_assert_int_eq(qbrt_pinned_memory_get_dtype(mem), dtype);
	ck_assert_uint_eq(qbrt_pinned_memory_get_ndim(mem), 3);
	ck_assert_mem_eq(qbrt_pinned_memory_get_shape(mem), shape,
			 sizeof(shape));
	ck_assert_mem_eq(qbrt_pinned_memory_get_strides(mem), strides,
			 sizeof(strides));
	ck_assert_uint_eq(qbrt_pinned_memory_get_num_elements(mem), 30);
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(mem), 30 * itemsize);
	ck_assert_str_eq(qbrt_pinned_memory_get_device(mem), "aries-rb:0");
	ck_assert(qbrt_pinned_memory_is_available(mem));
	ck_assert_int_ge(qbrt_pinned_memory_get_contiguity(mem),
			 QBRT_CONTIGUITY_LOCKED);
	ck_assert(is_zero(mem));
	memset(qbrt_pinned_memory_get_data(mem), 0xff, 30 * itemsize);
	qbrt_pinned_memory_free(mem);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q465 */
START_TEST(no_axis_is_one_element_and_eight_axes_are_possible)
{
	const int64_t shape[] = { 1, 2, 1, 3, 1, 1, 2, 4 };
	struct qbrt_pinned_memory *mem;

	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_FLOAT64, NULL, 0,
					      NULL, &mem));
	ck_assert_uint_eq(qbrt_pinned_memory_get_ndim(mem), 0);
	ck_assert_uint_eq(qbrt_pinned_memory_get_num_elements(mem), 1);
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(mem), 8);
	ck_assert_ptr_nonnull(qbrt_pinned_memory_get_shape(mem));
	qbrt_pinned_memory_free(mem);
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_INT16, shape, 8,
					      NULL, &mem));
	ck_assert_uint_eq(qbrt_pinned_memory_get_num_elements(mem), 48);
	ck_assert_int_eq(qbrt_pinned_memory_get_strides(mem)[0], 96);
	ck_assert_int_eq(qbrt_pinned_memory_get_strides(mem)[7], 2);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q465 Q469 */
START_TEST(a_bad_shape_or_dtype_is_refused)
{
	const int64_t nine[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	const int64_t zero[] = { 4, 0, 3 };
	const int64_t negative[] = { -1 };
	const int64_t wraps[] = { INT64_MAX, INT64_MAX };
	const int64_t wraps_in_bytes[] = { INT64_MAX / 2 };
	const int64_t above[] = { ((int64_t)1 << 34) + 1 };
	const int64_t above_in_bytes[] = { (int64_t)1 << 33 };

	open_device();
	check_refused(QBRT_DTYPE_UINT8, nine, 9, NULL, QBRT_INVALID_ARGUMENT,
		      "9 axes, at most 8");
	check_refused(QBRT_DTYPE_UINT8, nine, SIZE_MAX, NULL,
		      QBRT_INVALID_ARGUMENT, "at most 8");
	check_refused(QBRT_DTYPE_UINT8, zero, 3, NULL, QBRT_INVALID_ARGUMENT,
		      "extent 1 of shape (4, 0, 3)");
	check_refused(QBRT_DTYPE_UINT8, negative, 1, NULL,
		      QBRT_INVALID_ARGUMENT, "extent 0");
	check_refused(QBRT_DTYPE_UINT8, wraps, 2, NULL, QBRT_INVALID_ARGUMENT,
		      "too large");
	check_refused(QBRT_DTYPE_FLOAT64, wraps_in_bytes, 1, NULL,
		      QBRT_INVALID_ARGUMENT, "too large");
	check_refused(QBRT_DTYPE_UINT8, above, 1, NULL, QBRT_INVALID_ARGUMENT,
		      "17179869184 bytes");
	check_refused(QBRT_DTYPE_FLOAT32, above_in_bytes, 1, NULL,
		      QBRT_INVALID_ARGUMENT, "of Float32 is too large");
	check_refused(QBRT_DTYPE_ERROR, nine, 1, NULL, QBRT_INVALID_ARGUMENT,
		      "dtype 15");
	check_refused((enum qbrt_dtype)13, nine, 1, NULL, QBRT_INVALID_ARGUMENT,
		      "dtype 13");
	check_refused((enum qbrt_dtype) - 1, nine, 1, NULL,
		      QBRT_INVALID_ARGUMENT, "dtype -1");
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q467 K040: a pooled size and one that is not */
START_TEST(memory_is_zero_when_it_comes_back)
{
	const int64_t shape[] = { _i ? 2 * MIB : 10000 };
	struct qbrt_pinned_memory *mem;
	int i;

	if (!kmd_bend_can_lock((size_t)shape[0]))
		QBRT_TEST_SKIP("RLIMIT_MEMLOCK is too small");
	open_device();
	for (i = 0; i < 20; i++) {
		ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8,
						      shape, 1, NULL, &mem));
		ck_assert(is_zero(mem));
		memset(qbrt_pinned_memory_get_data(mem), 0xa5,
		       (size_t)shape[0]);
		qbrt_pinned_memory_free(mem);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469 Q121 */
START_TEST(exhausted_memory_is_told_by_its_kind)
{
	const int64_t shape[] = { 2 * MIB };

	/* no buffer of this test is made, so no limit of the machine counts */
	kmd_bend.region_total[DRM_QBNPU_REGION_SYSTEM] = MIB;
	kmd_bend.region_total[DRM_QBNPU_REGION_LOCAL] = MIB;
	open_device();
	check_refused(QBRT_DTYPE_UINT8, shape, 1, NULL, QBRT_BAD_ALLOC,
		      "2097152 bytes");
	qbrt_accelerator_close(acc);
	kmd_bend.has_region_flags = true;
	kmd_bend.region_flags[DRM_QBNPU_REGION_SYSTEM] =
		DRM_QBNPU_REGION_MAPPABLE | DRM_QBNPU_REGION_CACHED;
	open_device();
	check_refused(QBRT_DTYPE_UINT8, shape, 1, NULL,
		      QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		      "limit 1048576 bytes");
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q470 K045 */
START_TEST(the_device_address_is_told_or_not_implemented)
{
	const int64_t shape[] = { 100 };
	struct qbrt_pinned_memory *mem;
	uint64_t address = 77;

	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	ck_assert_ok(qbrt_pinned_memory_query_device_address(mem, &address));
	ck_assert_uint_eq(address, (uintptr_t)qbrt_pinned_memory_get_data(mem));
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
	kmd_bend.hides_address = true;
	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	address = 77;
	ck_assert_status(qbrt_pinned_memory_query_device_address(mem, &address),
			 QBRT_NOT_IMPLEMENTED);
	ck_assert_detail("aries-rb:0");
	ck_assert_uint_eq(address, 77);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q733 */
START_TEST(null_is_refused_or_answers_nothing)
{
	const int64_t shape[] = { 4 };
	struct qbrt_pinned_memory *mem = SENTINEL;
	uint64_t address = 77;

	open_device();
	ck_assert_status(qbrt_pinned_memory_alloc(NULL, QBRT_DTYPE_UINT8, shape,
						  1, NULL, &mem),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("acc");
	ck_assert_status(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape,
						  1, NULL, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("mem");
	check_refused(QBRT_DTYPE_UINT8, NULL, 1, NULL, QBRT_INVALID_ARGUMENT,
		      "shape");
	ck_assert_status(
		qbrt_pinned_memory_query_device_address(NULL, &address),
		QBRT_INVALID_ARGUMENT);
	ck_assert_uint_eq(address, 77);
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	ck_assert_status(qbrt_pinned_memory_query_device_address(mem, NULL),
			 QBRT_INVALID_ARGUMENT);
	qbrt_pinned_memory_free(mem);
	qbrt_pinned_memory_free(NULL);
	ck_assert_ptr_null(qbrt_pinned_memory_get_data(NULL));
	ck_assert_ptr_null(qbrt_pinned_memory_get_shape(NULL));
	ck_assert_ptr_null(qbrt_pinned_memory_get_strides(NULL));
	ck_assert_ptr_null(qbrt_pinned_memory_get_device(NULL));
	ck_assert(!qbrt_pinned_memory_get_nbytes(NULL));
	ck_assert(!qbrt_pinned_memory_get_num_elements(NULL));
	ck_assert(!qbrt_pinned_memory_get_ndim(NULL));
	ck_assert(!qbrt_pinned_memory_get_dtype(NULL));
	ck_assert(!qbrt_pinned_memory_get_contiguity(NULL));
	ck_assert(!qbrt_pinned_memory_is_available(NULL));
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q735 */
START_TEST(the_structs_have_their_sizes)
{
	ck_assert_uint_eq(sizeof(struct qbrt_core_id), 8);
	ck_assert_uint_eq(sizeof(struct qbrt_slice), 24);
	ck_assert_uint_eq(sizeof(struct qbrt_array), 40);
	ck_assert_uint_eq(sizeof(struct qbrt_pinned_options), 24);
}
END_TEST

static void *alloc_and_free(void *arg)
{
	const int64_t shape[] = { 3, 100, 17 };
	struct qbrt_pinned_memory *mem;
	int i;

	(void)arg;
	for (i = 0; i < 200; i++) {
		if (qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_FLOAT32, shape,
					     1 + (size_t)(i % 3), NULL, &mem))
			return SENTINEL;
		memset(qbrt_pinned_memory_get_data(mem), i,
		       qbrt_pinned_memory_get_nbytes(mem));
		qbrt_pinned_memory_free(mem);
	}
	return NULL;
}

/* Q740 Q747 */
START_TEST(eight_threads_alloc_and_free)
{
	pthread_t threads[NUM_THREADS];
	void *result;
	int i;

	open_device();
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, alloc_and_free, NULL),
			0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_ptr_null(result);
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q469 */
START_TEST(each_failing_allocation_gives_a_status)
{
	const int64_t shape[] = { 100 };
	enum qbrt_status status;
	long n = 0;

	open_device();
	for (;;) {
		struct qbrt_pinned_memory *mem = SENTINEL;
		long num_allocations;

		/* a pooled buffer would need none of the driver's */
		qbrt_device_trim(acc->device);
		count_alloc_begin(++n);
		status = qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape,
						  1, NULL, &mem);
		num_allocations = count_alloc_end();
		if (!status)
			qbrt_pinned_memory_free(mem);
		if (num_allocations < n)
			break;
		if (!status) /* the driver's failed in the first region */
			continue;
		ck_assert_int_eq(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert(*qbrt_error_detail());
		ck_assert_ptr_eq(mem, SENTINEL);
	}
	ck_assert_int_eq(status, QBRT_OK);
	ck_assert_int_gt(n, 3);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q485 PM14 */
START_TEST(what_a_failed_job_left_is_told_with_its_sentence)
{
	const int64_t shape[] = { 4 };
	struct qbrt_pinned_memory *mem;

	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	ck_assert_ok(qbrt_storage_check_valid(mem->storage));
	qbrt_storage_invalidate(mem->storage, QBRT_ACC_NPU_TIMEOUT,
				"job 7 took longer than 10 ms");
	ck_assert_status(qbrt_storage_check_valid(mem->storage),
			 QBRT_TENSOR_INVALID);
	ck_assert_detail("Acc_NPUTimeout");
	ck_assert_detail("job 7 took longer than 10 ms");
	qbrt_storage_validate(mem->storage);
	ck_assert_ok(qbrt_storage_check_valid(mem->storage));
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* B65: the CPU's caches are the device's, and the driver is not asked. */
START_TEST(accesses_and_exports_open_no_bracket)
{
	const int64_t shape[] = { 4 }, index[] = { 1 };
	const struct qbrt_slice all = { 0, 4, 1 };
	uint8_t value = 7, values[4] = { 0 };
	const struct qbrt_array array = {
		.data = values,
		.shape = shape,
		.ndim = 1,
		.dtype = QBRT_DTYPE_UINT8,
	};
	struct qbrt_pinned_memory *mem;
	struct qbrt_tensor *tensor;
	DLManagedTensor *managed;
	DLTensor borrowed;
	unsigned long num;
	bool ready;

	open_device();
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	num = atomic_load(&kmd_bend.num_requests);
	ck_assert(qbrt_pinned_memory_is_available(mem));
	ck_assert_ptr_nonnull(qbrt_pinned_memory_get_data(mem));
	ck_assert_ok(qbrt_pinned_memory_query(mem, &ready));
	ck_assert_ok(qbrt_pinned_memory_wait(mem, -1));
	ck_assert_ok(qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, &value));
	ck_assert_ok(qbrt_pinned_memory_read_at(mem, index, 1, QBRT_DTYPE_UINT8,
						&value));
	ck_assert_ok(qbrt_pinned_memory_write_at(mem, index, 1,
						 QBRT_DTYPE_UINT8, &value));
	ck_assert_ok(qbrt_pinned_memory_write_slice(mem, &all, 1, &array));
	ck_assert_ok(qbrt_pinned_memory_read_slice(mem, &all, 1, &array));
	ck_assert_ok(qbrt_tensor_from_pinned_memory(mem, 0, &tensor));
	ck_assert_ok(qbrt_tensor_borrow_dlpack(tensor, &borrowed));
	ck_assert_ok(qbrt_tensor_export_dlpack_legacy(tensor, NULL, &managed));
	managed->deleter(managed);
	qbrt_tensor_free(tensor);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_requests), num);
	ck_assert_uint_eq(atomic_load(&mem->storage->brackets), 0);
	/* and those that are asked for are the driver's */
	ck_assert_ok(qbrt_pinned_memory_begin_cpu_access(mem, QBRT_CPU_READ));
	ck_assert_ok(qbrt_pinned_memory_end_cpu_access(mem));
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_requests), num + 2);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(every_dtype_can_be_had, QBRT_NUM_DTYPES),
		QBRT_TEST(no_axis_is_one_element_and_eight_axes_are_possible),
		QBRT_TEST(a_bad_shape_or_dtype_is_refused),
		QBRT_LOOP_TEST(memory_is_zero_when_it_comes_back, 2),
		QBRT_TEST(exhausted_memory_is_told_by_its_kind),
		QBRT_TEST(the_device_address_is_told_or_not_implemented),
		QBRT_TEST(null_is_refused_or_answers_nothing),
		QBRT_TEST(the_structs_have_their_sizes),
		QBRT_TEST(eight_threads_alloc_and_free),
		QBRT_TEST(each_failing_allocation_gives_a_status),
		QBRT_TEST(what_a_failed_job_left_is_told_with_its_sentence),
		QBRT_TEST(accesses_and_exports_open_no_bracket),
	};

	return qbrt_test_run("pinned-memory", tests, qbrt_array_size(tests));
}
