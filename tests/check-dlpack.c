// SPDX-License-Identifier: MIT
/*
 * Foreign structs: what is taken, and forty that are refused, each by the field
 * that is wrong. A refused struct stays its owner's, untouched.
 */
#include "test-util.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dlpack.h"
#include "util.h"

static int num_deleted;

static void count_delete(DLManagedTensorVersioned *managed)
{
	(void)managed;
	num_deleted++;
}

static void count_delete_legacy(DLManagedTensor *managed)
{
	(void)managed;
	num_deleted++;
}

static float elements[24];

/* One that is right: float32 of shape (2, 3, 4). */
struct sample {
	int64_t shape[3];
	int64_t strides[3];
	DLManagedTensorVersioned managed;
};

static void make_sample(struct sample *sample)
{
	*sample = (struct sample){
		.shape = { 2, 3, 4 },
		.strides = { 12, 4, 1 },
		.managed = {
			.version = { 1, 3 },
			.deleter = count_delete,
			.dl_tensor = {
				.data = elements,
				.device = { kDLCPU, 0 },
				.ndim = 3,
				.dtype = { kDLFloat, 32, 1 },
			},
		},
	};
	sample->managed.dl_tensor.shape = sample->shape;
	sample->managed.dl_tensor.strides = sample->strides;
}

static void set_dtype(struct sample *sample, uint8_t code, uint8_t bits,
		      uint16_t lanes)
{
	sample->managed.dl_tensor.dtype = (DLDataType){ code, bits, lanes };
}

static void set_device(struct sample *sample, int32_t type)
{
	memcpy(&sample->managed.dl_tensor.device.device_type, &type,
	       sizeof(type));
}

/* ---- what is refused ---- */

#define BREAK(name, what) \
	static void name(struct sample *s) \
	{ \
		what; \
	}
BREAK(major_0, s->managed.version.major = 0)
BREAK(major_2, s->managed.version.major = 2)
BREAK(ndim_negative, s->managed.dl_tensor.ndim = -1)
BREAK(ndim_65, s->managed.dl_tensor.ndim = 65)
BREAK(ndim_largest, s->managed.dl_tensor.ndim = INT32_MAX)
BREAK(ndim_smallest, s->managed.dl_tensor.ndim = INT32_MIN)
BREAK(shape_null, s->managed.dl_tensor.shape = NULL)
BREAK(extent_negative, s->shape[1] = -1)
BREAK(extent_smallest, s->shape[2] = INT64_MIN)
BREAK(extent_beside_zero, (s->shape[0] = 0, s->shape[2] = -4))
BREAK(size_wraps, (s->shape[0] = INT64_C(1) << 32, s->shape[1] = s->shape[0]))
BREAK(bytes_wrap, s->shape[0] = INT64_MAX / 12)
BREAK(data_null, s->managed.dl_tensor.data = NULL)
BREAK(offset_wraps, s->managed.dl_tensor.byte_offset = UINT64_MAX - 64)
BREAK(empty_offset_wraps,
      (s->shape[0] = 0, s->managed.dl_tensor.byte_offset = UINT64_MAX - 64))
BREAK(stride_wraps, s->strides[0] = INT64_MAX)
BREAK(stride_smallest, s->strides[0] = INT64_MIN)
BREAK(span_wraps, (s->shape[0] = 4, s->strides[0] = INT64_MAX / 8))
BREAK(range_below, s->strides[0] = INT64_MIN / 8)
BREAK(range_above, s->managed.dl_tensor.data = (void *)(UINTPTR_MAX - 40))
BREAK(code_opaque, set_dtype(s, kDLOpaqueHandle, 64, 1))
BREAK(code_18, set_dtype(s, 18, 8, 1))
BREAK(code_255, set_dtype(s, 255, 8, 1))
BREAK(bits_0, set_dtype(s, kDLInt, 0, 1))
BREAK(bits_7, set_dtype(s, kDLFloat, 7, 1))
BREAK(float_8, set_dtype(s, kDLFloat, 8, 1))
BREAK(bool_1, set_dtype(s, kDLBool, 1, 1))
BREAK(bfloat_32, set_dtype(s, kDLBfloat, 32, 1))
BREAK(complex_16, set_dtype(s, kDLComplex, 16, 1))
BREAK(int_128, set_dtype(s, kDLInt, 128, 1))
BREAK(float8_16, set_dtype(s, kDLFloat8_e4m3, 16, 1))
BREAK(lanes_0, set_dtype(s, kDLFloat, 32, 0))
BREAK(packed_4, set_dtype(s, kDLFloat4_e2m1fn, 4, 1))
BREAK(packed_lanes, set_dtype(s, kDLInt, 4, 3))
BREAK(device_0, set_device(s, 0))
BREAK(device_4, set_device(s, kDLOpenCL))
BREAK(device_rocm, set_device(s, kDLROCM))
BREAK(device_ext, set_device(s, kDLExtDev))
BREAK(device_trn, set_device(s, kDLTrn))
BREAK(device_99, set_device(s, 99))
BREAK(device_negative, set_device(s, INT32_MIN))
BREAK(cuda, set_device(s, kDLCUDA))
BREAK(cuda_managed, set_device(s, kDLCUDAManaged))

static const struct {
	void (*damage)(struct sample *sample);
	const char *words;
} malformed[] = {
	{ ndim_negative, "ndim is -1, expected 0 to 64" },
	{ ndim_65, "ndim is 65" },
	{ ndim_largest, "ndim is 2147483647" },
	{ ndim_smallest, "ndim is -2147483648" },
	{ shape_null, "shape is NULL" },
	{ extent_negative, "shape[1] is -1, expected 0 or more" },
	{ extent_smallest, "shape[2] is -9223372036854775808" },
	{ extent_beside_zero, "shape[2] is -4" },
	{ size_wraps, "more bytes than there are addresses" },
	{ bytes_wrap, "more bytes than there are addresses" },
	{ data_null, "data is NULL, expected the address of 24 elements" },
	{ offset_wraps, "byte_offset 18446744073709551551" },
	{ empty_offset_wraps, "byte_offset 18446744073709551551" },
	{ stride_wraps, "strides[0] is 9223372036854775807" },
	{ stride_smallest, "strides[0] is -9223372036854775808" },
	{ span_wraps, "leaves the addresses" },
	{ range_below, "leaves the addresses" },
	{ range_above, "leaves the addresses" },
	{ code_opaque, "code 3 with 64 bits" },
	{ code_18, "code 18 with 8 bits" },
	{ code_255, "code 255 with 8 bits" },
	{ bits_0, "code 0 with 0 bits" },
	{ bits_7, "code 2 with 7 bits" },
	{ float_8, "code 2 with 8 bits" },
	{ bool_1, "code 6 with 1 bits" },
	{ bfloat_32, "code 4 with 32 bits" },
	{ complex_16, "code 5 with 16 bits" },
	{ int_128, "code 0 with 128 bits" },
	{ float8_16, "code 8 with 16 bits" },
	{ lanes_0, "0 lanes" },
	{ packed_4, "4 bits in 1 lanes share bytes" },
	{ packed_lanes, "4 bits in 3 lanes share bytes" },
	{ device_0, "device is (0, 0)" },
	{ device_4, "device is (4, 0)" },
	{ device_rocm, "device is (10, 0)" },
	{ device_ext, "device is (12, 0)" },
	{ device_trn, "device is (18, 0)" },
	{ device_99, "device is (99, 0)" },
	{ device_negative, "device is (-2147483648, 0)" },
};

#define SENTINEL ((struct qbrt_tensor *)(uintptr_t)0x5a5a)

/* H100 H113 L10 B30: by either struct, and by a description where it can be. */
START_TEST(a_malformed_struct_is_refused_by_its_field)
{
	struct qbrt_tensor *tensor = SENTINEL;
	DLManagedTensor legacy;
	struct sample sample, kept;

	make_sample(&sample);
	malformed[_i].damage(&sample);
	kept = sample;
	ck_assert_status(
		qbrt_tensor_import_dlpack(&sample.managed, NULL, &tensor),
		QBRT_TENSOR_REFUSED);
	ck_assert_detail(malformed[_i].words);
	ck_assert_mem_eq(&sample, &kept, sizeof(kept));
	legacy = (DLManagedTensor){
		.dl_tensor = sample.managed.dl_tensor,
		.deleter = count_delete_legacy,
	};
	ck_assert_status(
		qbrt_tensor_import_dlpack_legacy(&legacy, NULL, &tensor),
		QBRT_TENSOR_REFUSED);
	ck_assert_detail(malformed[_i].words);
	ck_assert_ptr_eq(tensor, SENTINEL);
	ck_assert_int_eq(num_deleted, 0);
}
END_TEST

/* H113: the first half has no CUDA; the sentence says so by name. */
START_TEST(memory_of_cuda_is_refused_by_name)
{
	void (*const devices[])(struct sample *) = { cuda, cuda_managed };
	struct qbrt_tensor *tensor = SENTINEL;
	struct sample sample;

	make_sample(&sample);
	devices[_i](&sample);
	ck_assert_status(
		qbrt_tensor_import_dlpack(&sample.managed, NULL, &tensor),
		QBRT_BRIDGE_NO_DRIVER);
	ck_assert_detail("CUDA");
	ck_assert_ptr_eq(tensor, SENTINEL);
	ck_assert_int_eq(num_deleted, 0);
}
END_TEST

/* H99: the prefix of any version ends at a page that may not be read. */
START_TEST(of_a_foreign_major_version_nothing_more_is_read)
{
	void (*const majors[])(struct sample *) = { major_0, major_2 };
	const size_t prefix = offsetof(DLManagedTensorVersioned, dl_tensor);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct qbrt_tensor *tensor = SENTINEL;
	struct sample sample;
	void *at;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
	make_sample(&sample);
	majors[_i](&sample);
	at = memcpy(pages + page - prefix, &sample.managed, prefix);
	ck_assert_status(qbrt_tensor_import_dlpack(at, NULL, &tensor),
			 QBRT_TENSOR_REFUSED);
	ck_assert_detail("expected 1.x: ask the producer");
	ck_assert_ptr_eq(tensor, SENTINEL);
	ck_assert_int_eq(num_deleted, 0);
	ck_assert_int_eq(munmap(pages, 2 * page), 0);
}
END_TEST

/* ---- what is taken ---- */

static struct qbrt_tensor *import(struct sample *sample)
{
	struct qbrt_tensor *tensor;

	ck_assert_ok(
		qbrt_tensor_import_dlpack(&sample->managed, NULL, &tensor));
	return tensor;
}

/* H24 H25 H27 H29 H30 H31 H32 H33 H81: and the deleter, once, at the end. */
START_TEST(a_struct_says_what_the_tensor_says)
{
	const int64_t strides[] = { 48, 16, 4 };
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	sample.managed.version.minor = 99;
	sample.managed.flags = UINT64_MAX & ~UINT64_C(7);
	tensor = import(&sample);
	ck_assert_ptr_eq(qbrt_tensor_get_data(tensor), elements);
	ck_assert_ptr_eq(qbrt_tensor_get_first_element(tensor), elements);
	ck_assert_uint_eq(qbrt_tensor_get_byte_offset(tensor), 0);
	ck_assert_int_eq(qbrt_tensor_get_dtype(tensor), QBRT_DTYPE_FLOAT32);
	ck_assert_uint_eq(qbrt_tensor_get_ndim(tensor), 3);
	ck_assert_mem_eq(qbrt_tensor_get_shape(tensor), sample.shape,
			 sizeof(sample.shape));
	ck_assert_mem_eq(qbrt_tensor_get_strides(tensor), strides,
			 sizeof(strides));
	ck_assert_uint_eq(qbrt_tensor_get_itemsize(tensor), 4);
	ck_assert_uint_eq(qbrt_tensor_get_num_elements(tensor), 24);
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(tensor), 96);
	ck_assert(qbrt_tensor_is_read_only(tensor));
	ck_assert(qbrt_tensor_is_contiguous(tensor));
	ck_assert_ptr_null(qbrt_tensor_get_device(tensor));
	ck_assert_int_eq(num_deleted, 0);
	qbrt_tensor_free(tensor);
	ck_assert_int_eq(num_deleted, 1);
}
END_TEST

/* H34 B24: NULL strides, of 0 to 4 axes. */
START_TEST(null_strides_are_c_order)
{
	int64_t shape[] = { 2, 3, 5, 7 };
	int64_t expected = 4;
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	sample.managed.dl_tensor.ndim = _i;
	sample.managed.dl_tensor.shape = _i ? shape : NULL;
	sample.managed.dl_tensor.strides = NULL;
	tensor = import(&sample);
	for (int i = _i; i--;) {
		ck_assert_int_eq(qbrt_tensor_get_strides(tensor)[i], expected);
		expected *= shape[i];
	}
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(tensor), (size_t)expected);
	ck_assert(qbrt_tensor_is_contiguous(tensor));
	qbrt_tensor_free(tensor);
	ck_assert_int_eq(num_deleted, 1);
}
END_TEST

/* H25 B22 D1: the base as it was given, and the sum. */
START_TEST(byte_offset_is_honoured)
{
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	sample.managed.dl_tensor.byte_offset = 8;
	sample.shape[0] = 1;
	tensor = import(&sample);
	ck_assert_ptr_eq(qbrt_tensor_get_data(tensor), elements);
	ck_assert_uint_eq(qbrt_tensor_get_byte_offset(tensor), 8);
	ck_assert_ptr_eq(qbrt_tensor_get_first_element(tensor), elements + 2);
	qbrt_tensor_free(tensor);
}
END_TEST

/* H30 B28: no element, with and without an address. */
START_TEST(no_elements_need_no_address)
{
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	sample.shape[1] = 0;
	sample.strides[0] = INT64_C(1) << 60;
	if (_i)
		sample.managed.dl_tensor.data = NULL;
	tensor = import(&sample);
	ck_assert_uint_eq(qbrt_tensor_get_num_elements(tensor), 0);
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(tensor), 0);
	ck_assert_int_eq(qbrt_tensor_get_shape(tensor)[0], 2);
	ck_assert(qbrt_tensor_is_contiguous(tensor));
	qbrt_tensor_free(tensor);
	ck_assert_int_eq(num_deleted, 1);
}
END_TEST

/* H31: many elements of few bytes; H33: strides of any sign. */
START_TEST(strides_of_any_sign_are_taken)
{
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	sample.shape[0] = INT64_C(1) << 40;
	sample.strides[0] = 0;
	sample.managed.dl_tensor.data = elements + 23;
	sample.strides[1] = -4;
	sample.strides[2] = -1;
	tensor = import(&sample);
	ck_assert_uint_eq(qbrt_tensor_get_nbytes(tensor), UINT64_C(48) << 40);
	ck_assert_int_eq(qbrt_tensor_get_strides(tensor)[1], -16);
	ck_assert(!qbrt_tensor_is_contiguous(tensor));
	qbrt_tensor_free(tensor);
}
END_TEST

#define PADDED DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED

/* H27 H29 H113: all that there are, with their sizes. */
static const struct {
	DLDataType dtype;
	uint64_t flags;
	size_t itemsize;
	enum qbrt_dtype name;
} dtypes[] = {
	{ { kDLInt, 8, 1 }, 0, 1, QBRT_DTYPE_INT8 },
	{ { kDLInt, 16, 1 }, 0, 2, QBRT_DTYPE_INT16 },
	{ { kDLInt, 32, 1 }, 0, 4, QBRT_DTYPE_INT32 },
	{ { kDLInt, 64, 1 }, 0, 8, QBRT_DTYPE_INT64 },
	{ { kDLUInt, 8, 1 }, 0, 1, QBRT_DTYPE_UINT8 },
	{ { kDLUInt, 16, 1 }, 0, 2, QBRT_DTYPE_UINT16 },
	{ { kDLUInt, 32, 1 }, 0, 4, QBRT_DTYPE_UINT32 },
	{ { kDLUInt, 64, 1 }, 0, 8, QBRT_DTYPE_UINT64 },
	{ { kDLFloat, 16, 1 }, 0, 2, QBRT_DTYPE_FLOAT16 },
	{ { kDLFloat, 32, 1 }, 0, 4, QBRT_DTYPE_FLOAT32 },
	{ { kDLFloat, 64, 1 }, 0, 8, QBRT_DTYPE_FLOAT64 },
	{ { kDLFloat, 128, 1 }, 0, 16, QBRT_DTYPE_ERROR },
	{ { kDLBfloat, 16, 1 }, 0, 2, QBRT_DTYPE_BFLOAT16 },
	{ { kDLBool, 8, 1 }, 0, 1, QBRT_DTYPE_BOOL },
	{ { kDLComplex, 64, 1 }, 0, 8, QBRT_DTYPE_ERROR },
	{ { kDLComplex, 128, 1 }, 0, 16, QBRT_DTYPE_ERROR },
	{ { kDLFloat, 32, 4 }, 0, 16, QBRT_DTYPE_ERROR },
	{ { kDLFloat8_e4m3, 8, 1 }, 0, 1, QBRT_DTYPE_ERROR },
	{ { kDLFloat8_e8m0fnu, 8, 3 }, 0, 3, QBRT_DTYPE_ERROR },
	{ { kDLFloat4_e2m1fn, 4, 2 }, 0, 1, QBRT_DTYPE_ERROR },
	{ { kDLFloat6_e2m3fn, 6, 4 }, 0, 3, QBRT_DTYPE_ERROR },
	{ { kDLUInt, 1, 8 }, 0, 1, QBRT_DTYPE_ERROR },
	{ { kDLFloat4_e2m1fn, 4, 1 }, PADDED, 1, QBRT_DTYPE_ERROR },
	{ { kDLInt, 2, 1 }, PADDED, 1, QBRT_DTYPE_ERROR },
};

START_TEST(every_dtype_has_its_size)
{
	struct qbrt_tensor *tensor;
	struct qbrt_dlpack_dtype told;
	struct sample sample;

	make_sample(&sample);
	sample.shape[0] = 1;
	sample.shape[1] = 1;
	sample.managed.flags = dtypes[_i].flags;
	sample.managed.dl_tensor.dtype = dtypes[_i].dtype;
	tensor = import(&sample);
	told = qbrt_tensor_get_dlpack_dtype(tensor);
	ck_assert_uint_eq(told.code, dtypes[_i].dtype.code);
	ck_assert_uint_eq(told.bits, dtypes[_i].dtype.bits);
	ck_assert_uint_eq(told.lanes, dtypes[_i].dtype.lanes);
	ck_assert_uint_eq(qbrt_tensor_get_itemsize(tensor),
			  dtypes[_i].itemsize);
	ck_assert_int_eq(qbrt_tensor_get_dtype(tensor), dtypes[_i].name);
	qbrt_tensor_free(tensor);
}
END_TEST

/* L1: a deleter may be NULL. H26 H73: CUDA's pinned memory has one number. */
START_TEST(memory_without_a_deleter_is_taken)
{
	DLManagedTensor legacy;
	struct qbrt_tensor *tensor;
	struct sample sample;

	make_sample(&sample);
	set_device(&sample, kDLCUDAHost);
	sample.managed.dl_tensor.device.device_id = 5;
	sample.managed.deleter = NULL;
	tensor = import(&sample);
	ck_assert_int_eq(qbrt_tensor_get_dlpack_device(tensor).type, 3);
	ck_assert_int_eq(qbrt_tensor_get_dlpack_device(tensor).id, 0);
	qbrt_tensor_free(tensor);
	legacy = (DLManagedTensor){ .dl_tensor = sample.managed.dl_tensor };
	ck_assert_ok(qbrt_tensor_import_dlpack_legacy(&legacy, NULL, &tensor));
	ck_assert(qbrt_tensor_is_read_only(tensor));
	qbrt_tensor_free(tensor);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(a_malformed_struct_is_refused_by_its_field,
			       qbrt_array_size(malformed)),
		QBRT_LOOP_TEST(memory_of_cuda_is_refused_by_name, 2),
		QBRT_LOOP_TEST(of_a_foreign_major_version_nothing_more_is_read,
			       2),
		QBRT_TEST(a_struct_says_what_the_tensor_says),
		QBRT_LOOP_TEST(null_strides_are_c_order, 5),
		QBRT_TEST(byte_offset_is_honoured),
		QBRT_LOOP_TEST(no_elements_need_no_address, 2),
		QBRT_TEST(strides_of_any_sign_are_taken),
		QBRT_LOOP_TEST(every_dtype_has_its_size,
			       qbrt_array_size(dtypes)),
		QBRT_TEST(memory_without_a_deleter_is_taken),
	};

	return qbrt_test_run("dlpack", tests, qbrt_array_size(tests));
}
