// SPDX-License-Identifier: MIT
/*
 * The exceptions, and the one translation of a status into them. Attributes
 * that an exception does not set are None of its class, so that one which a
 * program constructs has them too. An exception holds texts and an enumeration
 * member, never an object of the library's.
 */
#include "bridge.h"

#include <stdarg.h>

static const struct {
	const char *name;
	PyObject **other_base; /* besides QbRuntimeError; NULL: none */
	const char *doc;
} errors[QBPY_NUM_ERRORS] = {
	[QBPY_RUNTIME_ERROR] = { "qbruntime.QbRuntimeError",
				 &PyExc_RuntimeError,
				 "A call of the runtime failed: status, "
				 "code_name, detail and device say how." },
	[QBPY_OUT_OF_MEMORY_ERROR] = { "qbruntime.QbOutOfMemoryError",
				       &PyExc_MemoryError,
				       "Memory of the host or the device, or a "
				       "limit, is exhausted." },
	[QBPY_TIMEOUT_ERROR] = { "qbruntime.QbTimeoutError",
				 &PyExc_TimeoutError,
				 "A time limit was over first." },
	[QBPY_SHAPE_ERROR] = { "qbruntime.QbShapeError", &PyExc_ValueError,
			       "Shapes or their number do not fit a model." },
	[QBPY_DTYPE_ERROR] = { "qbruntime.QbDtypeError", &PyExc_TypeError,
			       "An element type is not the one expected." },
	[QBPY_DEVICE_NOT_FOUND_ERROR] = { "qbruntime.QbDeviceNotFoundError",
					  NULL,
					  "No visible device, or several, "
					  "answer to the name and number." },
	[QBPY_DEVICE_LOST_ERROR] = { "qbruntime.QbDeviceLostError", NULL,
				     "The device is gone." },
	[QBPY_NOT_ALIVE_ERROR] = { "qbruntime.QbNotAliveError", NULL,
				   "The model is not launched, or not any "
				   "more." },
	[QBPY_CANCELLED_ERROR] = { "qbruntime.QbCancelledError", NULL,
				   "The job was cancelled." },
	[QBPY_CLOSED_ERROR] = { "qbruntime.QbClosedError", &PyExc_ValueError,
				"The memory was freed, or the accelerator "
				"closed." },
	[QBPY_INVALID_ARGUMENT_ERROR] = { "qbruntime.QbInvalidArgumentError",
					  &PyExc_ValueError,
					  "An argument or an environment "
					  "variable is not valid." },
	[QBPY_MODEL_FILE_ERROR] = { "qbruntime.QbModelFileError", NULL,
				    "The model file cannot be used." },
	[QBPY_UNSUPPORTED_ERROR] = { "qbruntime.QbUnsupportedError", NULL,
				     "The device or this version does not "
				     "offer it." },
	[QBPY_BUFFER_ERROR] = { "qbruntime.QbBufferError", &PyExc_BufferError,
				"The memory cannot be exported." },
	[QBPY_LAYOUT_WARNING] = { "qbruntime.QbLayoutWarning",
				  &PyExc_UserWarning,
				  "Arrays fit a model as HWC and as CHW, and "
				  "were taken as HWC." },
};

static enum qbpy_error classify(enum qbrt_status status)
{
	switch (status) {
	case QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY:
	case QBRT_MODEL_FAILED_TO_ALLOC_MEMORY:
	case QBRT_BAD_ALLOC:
	case QBRT_DRIVER_ALLOCATE_MODEL_MEMORY:
		return QBPY_OUT_OF_MEMORY_ERROR;
	case QBRT_DRIVER_WAIT_DONE_TIMEOUT:
	case QBRT_MODEL_TASK_QUEUE_TIMEOUT:
	case QBRT_ACC_NPU_TIMEOUT:
	case QBRT_MODEL_ASYNC_PIPELINE_TIMEOUT:
	case QBRT_TIMED_OUT:
		return QBPY_TIMEOUT_ERROR;
	case QBRT_MODEL_SHAPE_MISMATCHED:
	case QBRT_MODEL_INPUT_COUNT_MISMATCHED:
	case QBRT_MODEL_OUTPUT_COUNT_MISMATCHED:
		return QBPY_SHAPE_ERROR;
	case QBRT_MODEL_DTYPE_MISMATCHED:
		return QBPY_DTYPE_ERROR;
	case QBRT_ACC_DEVICE_NOT_FOUND:
	case QBRT_ACC_AMBIGUOUS_DEVICE_NAME:
		return QBPY_DEVICE_NOT_FOUND_ERROR;
	case QBRT_ACC_DEVICE_LOST:
		return QBPY_DEVICE_LOST_ERROR;
	case QBRT_MODEL_NOT_LAUNCHED:
	case QBRT_MODEL_NOT_ALIVE:
	case QBRT_MODEL_TASK_QUEUE_CLOSED:
	case QBRT_MODEL_ASYNC_PIPELINE_NOT_ALIVE:
		return QBPY_NOT_ALIVE_ERROR;
	case QBRT_CANCELLED:
		return QBPY_CANCELLED_ERROR;
	case QBRT_PINNED_MEMORY_NOT_AVAILABLE:
		return QBPY_CLOSED_ERROR;
	case QBRT_INVALID_ARGUMENT:
		return QBPY_INVALID_ARGUMENT_ERROR;
	case QBRT_MODEL_FAILED_TO_LOAD_MXQ:
	case QBRT_MODEL_FAILED_TO_OPEN_SCALE_FILE:
	case QBRT_MODEL_INVALID_SCALE_VALUE:
	case QBRT_MODEL_FAILED_TO_OPEN_OUTPUT_SCALE:
	case QBRT_MODEL_INVALID_OUTPUT_SCALE_VALUE:
	case QBRT_MODEL_FAILED_TO_OPEN_SECTION_BINARY:
	case QBRT_MODEL_FAILED_TO_OPEN_MODEL_DESC_FILE:
	case QBRT_MODEL_BROKEN_MXQ:
	case QBRT_MODEL_FORMAT_TOO_NEW:
	case QBRT_MODEL_PROGRAM_REJECTED:
		return QBPY_MODEL_FILE_ERROR;
	case QBRT_NOT_IMPLEMENTED:
	case QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE:
		return QBPY_UNSUPPORTED_ERROR;
	case QBRT_TENSOR_REFUSED:
	case QBRT_TENSOR_READ_ONLY:
		return QBPY_BUFFER_ERROR;
	default:
		return QBPY_RUNTIME_ERROR;
	}
}

PyObject *qbpy_error_class(PyObject *module, PyObject *value)
{
	const struct qbpy_state *state = PyModule_GetState(module);
	long long status;

	if (qbpy_parse_int(value, "status", &status))
		return NULL;
	return Py_NewRef(state->errors[classify((enum qbrt_status)status)]);
}

/*
 * (QbRuntimeError, other), or other alone: for QbRuntimeError itself, and for
 * the warning.
 */
static PyObject *make_bases(const struct qbpy_state *state, size_t i)
{
	PyObject *root = state->errors[QBPY_RUNTIME_ERROR];
	PyObject *other = errors[i].other_base ? *errors[i].other_base : NULL;

	if (!root || i == QBPY_LAYOUT_WARNING)
		return PyTuple_Pack(1, other);
	return other ? PyTuple_Pack(2, root, other) : PyTuple_Pack(1, root);
}

static PyObject *make_error(const struct qbpy_state *state, size_t i)
{
	PyObject *bases = make_bases(state, i);
	PyObject *attributes = NULL;
	PyObject *error = NULL;

	if (i == QBPY_RUNTIME_ERROR)
		attributes = Py_BuildValue("{sOsOsOsO}", "status", Py_None,
					   "code_name", Py_None, "detail",
					   Py_None, "device", Py_None);
	if (bases && (attributes || i != QBPY_RUNTIME_ERROR))
		error = PyErr_NewExceptionWithDoc(errors[i].name, errors[i].doc,
						  bases, attributes);
	Py_XDECREF(bases);
	Py_XDECREF(attributes);
	return error;
}

int qbpy_add_errors(PyObject *module, struct qbpy_state *state)
{
	for (size_t i = 0; i < QBPY_NUM_ERRORS; i++) {
		const char *name = errors[i].name + strlen("qbruntime.");

		state->errors[i] = make_error(state, i);
		if (!state->errors[i] ||
		    PyModule_AddObjectRef(module, name, state->errors[i]))
			return -1;
	}
	return 0;
}

/* Takes value, which may be NULL with an exception set. */
static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
	int ret = value ? PyObject_SetAttrString(object, name, value) : -1;

	Py_XDECREF(value);
	return ret;
}

/* first: a fixed sentence that stands before it all, with a blank (Q591). */
static void raise_as(struct qbpy_state *state, enum qbpy_error error,
		     enum qbrt_status status, const char *device,
		     const char *first, const char *text)
{
	PyObject *class = state->errors[error];
	const char *name = qbrt_status_name(status);
	PyObject *detail, *exception = NULL;

	if (PyErr_Occurred())
		return;
	detail =
		PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	if (!detail)
		return;
	if (class)
		exception = PyObject_CallFunction(
			class, "N",
			PyUnicode_FromFormat(
				"%s%s occurred. [StatusCode(%d)] %U", first,
				name, (int)status, detail));
	else
		PyErr_SetString(PyExc_RuntimeError, name); /* at exit */
	if (exception &&
	    !set_attribute(exception, "status",
			   qbpy_enum(state, QBPY_STATUS_CODE, (long)status)) &&
	    !set_attribute(exception, "code_name",
			   PyUnicode_FromString(name)) &&
	    !set_attribute(exception, "detail", Py_NewRef(detail)) &&
	    !set_attribute(exception, "device", qbpy_text(device)))
		PyErr_SetObject(class, exception);
	Py_XDECREF(exception);
	Py_DECREF(detail);
}

PyObject *qbpy_raise_text(struct qbpy_state *state, enum qbrt_status status,
			  const char *device, const char *text)
{
	raise_as(state, classify(status), status, device, "", text);
	return NULL;
}

PyObject *qbpy_raise_value(struct qbpy_state *state, enum qbrt_status status,
			   const char *device, const char *first,
			   const char *text)
{
	enum qbpy_error error = classify(status);

	if (error != QBPY_SHAPE_ERROR)
		error = QBPY_INVALID_ARGUMENT_ERROR;
	raise_as(state, error, status, device, first, text);
	return NULL;
}

PyObject *qbpy_raise(struct qbpy_state *state, enum qbrt_status status,
		     const char *device)
{
	return qbpy_raise_text(state, status, device, qbrt_error_detail());
}

int qbpy_check(struct qbpy_state *state, enum qbrt_status status,
	       const char *device)
{
	if (status == QBRT_OK)
		return PyErr_Occurred() ? -1 : 0;
	(void)qbpy_raise(state, status, device);
	return -1;
}

void qbpy_raise_buffer(struct qbpy_state *state, enum qbrt_status status,
		       const char *device, const char *text)
{
	raise_as(state, QBPY_BUFFER_ERROR, status, device, "", text);
}

int qbpy_refuse_tensor(struct qbpy_state *state, const char *format, ...)
{
	const char *utf8;
	PyObject *text;
	va_list args;

	if (PyErr_Occurred())
		return -1;
	va_start(args, format);
	text = PyUnicode_FromFormatV(format, args);
	va_end(args);
	/* Python writes no int of thousands of digits */
	if (!text && PyErr_ExceptionMatches(PyExc_ValueError)) {
		PyErr_Clear();
		text = PyUnicode_FromString("a number has more digits than "
					    "any of 64 bits");
	}
	utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (utf8)
		qbpy_raise_buffer(state, QBRT_TENSOR_REFUSED, NULL, utf8);
	Py_XDECREF(text);
	return -1;
}

PyObject *qbpy_raise_closed(struct qbpy_state *state, const char *what)
{
	PyErr_Format(state->errors[QBPY_CLOSED_ERROR], "the %s is closed",
		     what);
	return NULL;
}

PyObject *qbpy_raise_type(const char *expected, PyObject *value)
{
	PyObject *type = PyObject_Type(value);

	if (type)
		PyErr_Format(PyExc_TypeError, "expected %s, got %R", expected,
			     type);
	Py_XDECREF(type);
	return NULL;
}
