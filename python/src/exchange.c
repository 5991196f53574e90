// SPDX-License-Identifier: MIT
/*
 * The table by which C libraries exchange tensors without capsules (DLPack 1.3):
 * one for the process, never freed, in a capsule that Tensor and PinnedMemory
 * have as an attribute of the class.
 */
#include "bridge.h"

#include "dlpack-abi.h"

#include <stdio.h>

#define CAPSULE_NAME "dlpack_exchange_api"

typedef void (*set_error_function)(void *error_ctx, const char *kind,
				   const char *message);

static enum qbrt_dtype find_dtype(DLDataType dtype)
{
	static const struct {
		uint8_t code, bits;
		enum qbrt_dtype dtype;
	} known[] = {
		{ kDLFloat, 32, QBRT_DTYPE_FLOAT32 },
		{ kDLUInt, 8, QBRT_DTYPE_UINT8 },
		{ kDLInt, 8, QBRT_DTYPE_INT8 },
		{ kDLFloat, 16, QBRT_DTYPE_FLOAT16 },
		{ kDLInt, 16, QBRT_DTYPE_INT16 },
		{ kDLUInt, 16, QBRT_DTYPE_UINT16 },
		{ kDLInt, 32, QBRT_DTYPE_INT32 },
		{ kDLUInt, 32, QBRT_DTYPE_UINT32 },
		{ kDLInt, 64, QBRT_DTYPE_INT64 },
		{ kDLUInt, 64, QBRT_DTYPE_UINT64 },
		{ kDLFloat, 64, QBRT_DTYPE_FLOAT64 },
		{ kDLBool, 8, QBRT_DTYPE_BOOL },
		{ kDLBfloat, 16, QBRT_DTYPE_BFLOAT16 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].code == dtype.code &&
		    known[i].bits == dtype.bits && dtype.lanes == 1)
			return known[i].dtype;
	return QBRT_DTYPE_ERROR;
}

/* The current device, which is the first. */
static enum qbrt_status open_current(struct qbrt_accelerator **acc)
{
	struct qbrt_device_info **infos = NULL;
	enum qbrt_status status;
	size_t num = 0;

	status = qbrt_device_info_list(NULL, &infos, &num);
	if (!status)
		status = num ? qbrt_accelerator_open(
				       qbrt_device_info_get_name(infos[0]),
				       qbrt_device_info_get_number(infos[0]),
				       acc)
			     : QBRT_ACC_DEVICE_NOT_FOUND;
	qbrt_device_info_list_free(infos, num);
	return status;
}

static enum qbrt_status alloc_managed(const DLTensor *prototype,
				      enum qbrt_dtype dtype,
				      DLManagedTensorVersioned **managed)
{
	struct qbrt_tensor_export_options options = {
		.size = sizeof(options),
		.flags = QBRT_TENSOR_OWNED_C,
	};
	struct qbrt_accelerator *acc = NULL;
	struct qbrt_pinned_memory *mem = NULL;
	struct qbrt_tensor *tensor = NULL;
	enum qbrt_status status = open_current(&acc);

	if (!status)
		status = qbrt_pinned_memory_alloc(acc, dtype, prototype->shape,
						  (size_t)prototype->ndim, NULL,
						  &mem);
	if (!status)
		status = qbrt_tensor_from_pinned_memory(mem, 0, &tensor);
	if (!status)
		status = qbrt_tensor_export_dlpack(tensor, &options, managed);
	/* the export keeps the memory, and that its device */
	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
	return status;
}

/* Entry 1; with or without the GIL, which it does not need. */
static int allocate(DLTensor *prototype, DLManagedTensorVersioned **managed,
		    void *error_ctx, set_error_function set_error)
{
	enum qbrt_dtype dtype = find_dtype(prototype->dtype);
	enum qbrt_status status;
	const char *kind;
	char text[160];

	if (prototype->device.device_type != kDLCPU ||
	    prototype->device.device_id) {
		(void)snprintf(
			text, sizeof(text),
			"memory is allocated for device (1, 0), the CPU, "
			"alone, and (%d, %d) is asked for",
			(int)prototype->device.device_type,
			(int)prototype->device.device_id);
		set_error(error_ctx, "BufferError", text);
		return -1;
	}
	if (dtype == QBRT_DTYPE_ERROR || prototype->ndim < 0) {
		(void)snprintf(
			text, sizeof(text),
			"pinned memory has elements of the types of "
			"DataType and axes from 0 on, and dtype (%u, %u, "
			"%u) with %d axes is asked for",
			prototype->dtype.code, prototype->dtype.bits,
			prototype->dtype.lanes, (int)prototype->ndim);
		set_error(error_ctx, "BufferError", text);
		return -1;
	}
	status = alloc_managed(prototype, dtype, managed);
	if (!status)
		return 0;
	kind = "RuntimeError";
	if (status == QBRT_INVALID_ARGUMENT)
		kind = "ValueError";
	else if (status == QBRT_BAD_ALLOC ||
		 status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY)
		kind = "MemoryError";
	set_error(error_ctx, kind,
		  status == QBRT_ACC_DEVICE_NOT_FOUND ? "no device is visible"
						      : qbrt_error_detail());
	return -1;
}

/* Of the module that was made last, and its types: most objects are of them. */
static struct qbpy_state *last_state;

static int find_source(PyObject *object, struct qbpy_source *source)
{
	struct qbpy_state *state = last_state;

	if (!state || (!Py_IS_TYPE(object, state->types[QBPY_TENSOR]) &&
		       !Py_IS_TYPE(object, state->types[QBPY_PINNED_MEMORY])))
		state = qbpy_get_state(Py_TYPE(object));
	return state ? qbpy_find_source(state, object, source) : -1;
}

/* Entry 2 */
static int from_object(void *object, DLManagedTensorVersioned **managed)
{
	const struct qbrt_tensor_export_options options = {
		.size = sizeof(options),
		.flags = QBRT_TENSOR_OWNED_C,
	};
	struct qbpy_source source;

	return find_source(object, &source)
		       ? -1
		       : qbpy_export_struct(&source, &options, managed);
}

/* Entry 3; on failure the struct stays the caller's. */
static int to_object(DLManagedTensorVersioned *managed, void **object)
{
	PyObject *module = PyImport_ImportModule("qbruntime.qbruntime");
	struct qbpy_state *state =
		module ? qbpy_get_module_state(module) : NULL;

	*object = state && !qbpy_check_interpreter(state)
			  ? qbpy_import_struct(state, managed)
			  : NULL;
	Py_XDECREF(module);
	return *object ? 0 : -1;
}

static int check_borrowed(const struct qbpy_source *source,
			  enum qbrt_status status)
{
	if (status && !PyErr_Occurred())
		qbpy_raise_export(source->state, status,
				  qbrt_tensor_get_device(source->tensor));
	return PyErr_Occurred() ? -1 : 0;
}

/* What a job may write is waited for, without the GIL. */
static int borrow_in_use(const struct qbpy_source *source, DLTensor *tensor)
{
	enum qbrt_status status;
	int ret;

	if (source->native)
		qbpy_begin_use(source->native);
	qbpy_begin_wait();
	status = qbrt_tensor_borrow_dlpack(source->tensor, tensor);
	qbpy_end_wait();
	/* another thread may have freed it meanwhile: that raises, too */
	if (!status && source->native)
		(void)qbpy_native_tensor(source->native);
	ret = check_borrowed(source, status);
	if (source->native)
		qbpy_end_use(source->native);
	return ret;
}

/* Entry 4; PinnedMemory keeps the tensor that has the shape. */
static int borrow(void *object, DLTensor *tensor)
{
	struct qbpy_source source;
	enum qbrt_status status;

	if (find_source(object, &source))
		return -1;
	if (!qbpy_is_short(&source))
		return borrow_in_use(&source, tensor);
	status = qbrt_tensor_borrow_dlpack(source.tensor, tensor);
	return status ? check_borrowed(&source, status) : 0;
}

/* Entry 5 */
static int get_work_stream(DLDeviceType type, int32_t number, void **stream)
{
	if (type == kDLCPU || type == kDLCUDAHost) {
		*stream = NULL;
		return 0;
	}
	PyErr_Format(PyExc_BufferError,
		     "device (%d, %d) has no stream here: (1, 0) is the CPU",
		     (int)type, (int)number);
	return -1;
}

static DLPackExchangeAPI table = {
	.header = {
		.version = {
			.major = QBRT_DLPACK_MAJOR,
			.minor = QBRT_DLPACK_MINOR,
		},
	},
	.managed_tensor_allocator = allocate,
	.managed_tensor_from_py_object_no_sync = from_object,
	.managed_tensor_to_py_object_no_sync = to_object,
	.dltensor_from_py_object_no_sync = borrow,
	.current_work_stream = get_work_stream,
};

void qbpy_forget_exchange(const struct qbpy_state *state)
{
	if (last_state == state)
		last_state = NULL;
}

int qbpy_add_exchange(struct qbpy_state *state)
{
	static const enum qbpy_type types[] = { QBPY_TENSOR,
						QBPY_PINNED_MEMORY };
	PyObject *capsule = PyCapsule_New(&table, CAPSULE_NAME, NULL);
	int ret = capsule ? 0 : -1;

	for (size_t i = 0; !ret && i < sizeof(types) / sizeof(types[0]); i++)
		ret = PyObject_SetAttrString((PyObject *)state->types[types[i]],
					     "__dlpack_c_exchange_api__",
					     capsule);
	Py_XDECREF(capsule);
	last_state = state;
	return ret;
}

int qbpy_find_exchange(struct qbpy_state *state, PyObject *object,
		       const void **found)
{
	PyObject *type = (PyObject *)Py_TYPE(object);
	PyObject *name = state->names[QBPY_NAME_EXCHANGE];
	const DLPackExchangeAPIHeader *header;
	PyObject *capsule;

	*found = NULL;
	/*
	 * Most have none, which is found without an exception of a type's. But
	 * what a __getattr__() raises would be lost: none is asked.
	 */
	if (PyType_GetSlot(Py_TYPE(object), Py_tp_getattro) ==
		    (void *)PyObject_GenericGetAttr &&
	    !PyObject_HasAttr(object, name))
		return 0;
	capsule = PyObject_GetAttr(type, name);
	if (!capsule) {
		if (!PyErr_ExceptionMatches(PyExc_AttributeError))
			return -1;
		PyErr_Clear();
		return 0;
	}
	if (capsule == Py_None) {
		Py_DECREF(capsule);
		return 0;
	}
	/* the table is static: it outlives the capsule */
	header = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
	Py_DECREF(capsule);
	if (!header) {
		PyErr_Clear();
		PyErr_Format(PyExc_TypeError,
			     "__dlpack_c_exchange_api__ of %R is no capsule "
			     "of the name \"" CAPSULE_NAME "\"",
			     type);
		return -1;
	}
	while (header && header->version.major != QBRT_DLPACK_MAJOR)
		header = header->prev_api;
	*found = header;
	return 0;
}

int qbpy_exchange(const void *exchange, PyObject *object,
		  struct DLManagedTensorVersioned **managed)
{
	const DLPackExchangeAPI *api = exchange;

	*managed = NULL;
	if (!api->managed_tensor_from_py_object_no_sync) {
		PyErr_SetString(PyExc_BufferError,
				"the exchange table has no function that "
				"exports a tensor");
		return -1;
	}
	if (!api->managed_tensor_from_py_object_no_sync(object, managed) &&
	    *managed)
		return 0;
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_BufferError,
				"the exchange table exported nothing, and said "
				"nothing");
	return -1;
}
