/* SPDX-License-Identifier: MIT */
/*
 * The binary interface of DLPack 1.3: upstream's dlpack/dlpack.h where
 * configure found one of 1.3 or newer, else the same declared here. Sizes,
 * offsets and numbers are those of docs/spec/tensor-interop.md, 1.2, which
 * test-layout.sh compares both with. Shared with python/src/.
 */
#ifndef QBRT_DLPACK_ABI_H
#define QBRT_DLPACK_ABI_H

/* What is spoken and asked for, also with a newer header. */
#define QBRT_DLPACK_MAJOR 1
#define QBRT_DLPACK_MINOR 3

#ifdef HAVE_DLPACK_DLPACK_H

#include <dlpack/dlpack.h>

#else

#include <stdint.h>

/* NOLINTBEGIN(readability-identifier-naming): the names are DLPack's */

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3
#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (UINT64_C(1) << 2)

typedef struct {
	uint32_t major;
	uint32_t minor;
} DLPackVersion;

typedef enum {
	kDLCPU = 1,
	kDLCUDA = 2,
	kDLCUDAHost = 3,
	kDLOpenCL = 4,
	kDLVulkan = 7,
	kDLMetal = 8,
	kDLVPI = 9,
	kDLROCM = 10,
	kDLROCMHost = 11,
	kDLExtDev = 12,
	kDLCUDAManaged = 13,
	kDLOneAPI = 14,
	kDLWebGPU = 15,
	kDLHexagon = 16,
	kDLMAIA = 17,
	kDLTrn = 18
} DLDeviceType;

typedef struct {
	DLDeviceType device_type;
	int32_t device_id;
} DLDevice;

typedef enum {
	kDLInt = 0,
	kDLUInt = 1,
	kDLFloat = 2,
	kDLOpaqueHandle = 3,
	kDLBfloat = 4,
	kDLComplex = 5,
	kDLBool = 6,
	kDLFloat8_e3m4 = 7,
	kDLFloat8_e4m3 = 8,
	kDLFloat8_e4m3b11fnuz = 9,
	kDLFloat8_e4m3fn = 10,
	kDLFloat8_e4m3fnuz = 11,
	kDLFloat8_e5m2 = 12,
	kDLFloat8_e5m2fnuz = 13,
	kDLFloat8_e8m0fnu = 14,
	kDLFloat6_e2m3fn = 15,
	kDLFloat6_e3m2fn = 16,
	kDLFloat4_e2m1fn = 17
} DLDataTypeCode;

typedef struct {
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
} DLDataType;

typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;   /* NULL: no axis */
	int64_t *strides; /* elements; NULL: C order, before 1.2, or no axis */
	uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/* The prefix up to flags is the same in every major version. */
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

/* The exchange table, by which libraries skip the capsules. */
typedef int (*DLPackManagedTensorAllocator)(
	DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
	void (*SetError)(void *error_ctx, const char *kind,
			 const char *message));
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(
	void *py_object, DLManagedTensorVersioned **out);
typedef int (*DLPackManagedTensorToPyObjectNoSync)(
	DLManagedTensorVersioned *tensor, void **out_py_object);
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type,
				       int32_t device_id,
				       void **out_current_stream);

typedef struct DLPackExchangeAPIHeader {
	DLPackVersion version;
	struct DLPackExchangeAPIHeader *prev_api;
} DLPackExchangeAPIHeader;

typedef struct DLPackExchangeAPI {
	DLPackExchangeAPIHeader header;
	DLPackManagedTensorAllocator managed_tensor_allocator;
	DLPackManagedTensorFromPyObjectNoSync
		managed_tensor_from_py_object_no_sync;
	DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
	DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
	DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

/* NOLINTEND(readability-identifier-naming) */

#endif

#endif
