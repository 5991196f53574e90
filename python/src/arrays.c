// SPDX-License-Identifier: MIT
/*
 * Host arrays of a call: where their bytes are, and what keeps them there. A
 * PinnedMemory is kept by a use, all else by a buffer; what offers none is made
 * an ndarray of first, over the same bytes where its protocol allows that. What
 * is to be written is never a copy, and pinned memory is open for access then.
 */
#include "arrays.h"

#include <stdio.h>

#define ALIGNMENT 64

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t),
	       "shapes are handed on as they are");

/* One of a call's arrays. */
struct place {
	const char *label; /* "inputs[0]" */
	bool is_output;
	struct qbpy_hold *hold;
	struct qbrt_array *array;
};

/* Device types of DLPack whose memory the CPU reads as its own. */
enum dlpack_device {
	DLPACK_CPU = 1,
	DLPACK_CUDA_HOST = 3,
};

static enum qbrt_dtype find_dtype(char kind, Py_ssize_t itemsize)
{
	static const struct {
		char kind;
		enum qbrt_dtype dtype;
	} known[] = {
		{ 'f', QBRT_DTYPE_FLOAT32 }, { 'u', QBRT_DTYPE_UINT8 },
		{ 'i', QBRT_DTYPE_INT8 },    { 'f', QBRT_DTYPE_FLOAT16 },
		{ 'i', QBRT_DTYPE_INT16 },   { 'u', QBRT_DTYPE_UINT16 },
		{ 'i', QBRT_DTYPE_INT32 },   { 'u', QBRT_DTYPE_UINT32 },
		{ 'i', QBRT_DTYPE_INT64 },   { 'u', QBRT_DTYPE_UINT64 },
		{ 'f', QBRT_DTYPE_FLOAT64 }, { 'b', QBRT_DTYPE_BOOL },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].kind == kind &&
		    qbrt_dtype_itemsize(known[i].dtype) == (size_t)itemsize)
			return known[i].dtype;
	return QBRT_DTYPE_ERROR;
}

/* Of a format of the buffer protocol; what is no number of ours is Error. */
static enum qbrt_dtype read_format(const char *format, Py_ssize_t itemsize)
{
	static const char foreign =
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<';
	bool is_foreign = false;

	if (!format)
		return QBRT_DTYPE_UINT8;
	if (*format && strchr("@=<>!", *format)) {
		is_foreign = *format == foreign ||
			     (*format == '!' && foreign == '>');
		format++;
	}
	if (!*format || format[1] || (is_foreign && itemsize > 1))
		return QBRT_DTYPE_ERROR;
	if (strchr("bhilqn", *format))
		return find_dtype('i', itemsize);
	if (strchr("BHILQN", *format))
		return find_dtype('u', itemsize);
	if (strchr("efd", *format))
		return find_dtype('f', itemsize);
	return *format == '?' ? find_dtype('b', itemsize) : QBRT_DTYPE_ERROR;
}

/* Q313, Q326; type: a format, or a numpy.dtype in words. */
static int refuse_type(struct qbpy_state *state, const struct place *place,
		       const char *type)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		       "%s has elements of type \"%s\": numbers and bool of "
		       "fixed width in native byte order are taken",
		       place->label, type);
	if (place->is_output)
		(void)qbpy_raise_value(state, QBRT_MODEL_DTYPE_MISMATCHED, NULL,
				       "Output dtype mismatch. ", text);
	else
		(void)qbpy_raise_text(state, QBRT_MODEL_DTYPE_MISMATCHED, NULL,
				      text);
	return -1;
}

/* An ndarray with elements that no buffer describes, a date for example. */
static int refuse_ndarray(struct qbpy_state *state, PyObject *object,
			  const struct place *place)
{
	PyObject *type, *value, *traceback;
	PyObject *dtype, *text;
	const char *utf8;

	PyErr_Fetch(&type, &value, &traceback);
	dtype = PyObject_GetAttrString(object, "dtype");
	text = dtype ? PyObject_Str(dtype) : NULL;
	utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (utf8) {
		(void)refuse_type(state, place, utf8);
		Py_XDECREF(type);
		Py_XDECREF(value);
		Py_XDECREF(traceback);
	} else {
		PyErr_Restore(type, value, traceback);
	}
	Py_XDECREF(text);
	Py_XDECREF(dtype);
	return -1;
}

static int refuse_read_only(const struct place *place)
{
	PyErr_Format(PyExc_ValueError, "%s is read-only: it cannot be written",
		     place->label);
	return -1;
}

static int take_buffer(struct qbpy_state *state, PyObject *object,
		       const struct place *place)
{
	/* the exporter may point into view, which therefore never moves */
	Py_buffer *view = &place->hold->view;
	struct qbrt_array *array = place->array;

	if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO)) {
		view->obj = NULL;
		return PyErr_ExceptionMatches(PyExc_ValueError)
			       ? refuse_ndarray(state, object, place)
			       : -1;
	}
	*array = (struct qbrt_array){
		.data = view->buf,
		.shape = (const int64_t *)view->shape,
		.strides = (const int64_t *)view->strides,
		.ndim = (size_t)view->ndim,
		.dtype = read_format(view->format, view->itemsize),
	};
	if (!array->data && !view->len)
		array->data = view; /* of no element, and never read */
	if (array->dtype == QBRT_DTYPE_ERROR)
		return refuse_type(state, place, view->format);
	return place->is_output && view->readonly ? refuse_read_only(place) : 0;
}

/* To be read: what queued jobs write is waited for. */
static int begin_read(struct qbpy_native *native)
{
	if (qbpy_check_native(native, qbpy_wait_written(native)) ||
	    qbpy_check_open(native))
		return -1;
	qbpy_begin_use(native);
	return 0;
}

/*
 * An access to write makes what a failed job left count again, which only a
 * call that succeeds may do (Q485): such memory is kept by a use alone. The
 * access to read lets no job fail on it in between.
 */
static int begin_write(struct qbpy_native *native, const struct place *place)
{
	enum qbrt_status status;

	if (native->is_read_only)
		return refuse_read_only(place);
	status = qbpy_begin_access(native, QBRT_CPU_READ);
	if (status == QBRT_TENSOR_INVALID && !PyErr_Occurred()) {
		qbpy_begin_use(native);
		place->hold->is_invalid = true;
		return 0;
	}
	if (qbpy_check_native(native, status))
		return -1;
	status = qbpy_begin_access(native, QBRT_CPU_WRITE);
	if (qbpy_check_native(native, status)) {
		(void)qbpy_end_access(native);
		return -1;
	}
	place->hold->num_accesses = 2;
	return 0;
}

static int take_pinned(PyObject *object, const struct place *place)
{
	struct qbpy_native *native = ((struct qbpy_pinned *)object)->native;

	if (qbpy_check_open(native) ||
	    (place->is_output ? begin_write(native, place)
			      : begin_read(native)))
		return -1;
	Py_INCREF((PyObject *)native);
	place->hold->native = native;
	*place->array = (struct qbrt_array){
		.data = native->data,
		.shape = (const int64_t *)native->shape,
		.ndim = (size_t)native->ndim,
		.dtype = native->dtype,
	};
	return 0;
}

static int refuse_device(const struct place *place)
{
	PyErr_Format(PyExc_TypeError,
		     "%s is in the memory of a device, and infer takes host "
		     "arrays: copy it to the host first, or into a "
		     "PinnedMemory by the CUDA bridge",
		     place->label);
	return -1;
}

/* 0, or -1 with a TypeError of what is in device memory. */
static int check_dlpack_device(PyObject *object, const struct place *place)
{
	long long type;
	PyObject *method = PyObject_GetAttrString(object, "__dlpack_device__");
	int ret = method ? qbpy_call_dlpack_device(method, &type) : -1;

	Py_XDECREF(method);
	if (ret)
		return -1;
	return type == DLPACK_CPU || type == DLPACK_CUDA_HOST
		       ? 0
		       : refuse_device(place);
}

/* By __array__, when DLPack has failed; without it the exception stays. */
static PyObject *to_ndarray_after(struct qbpy_state *state, PyObject *object)
{
	PyObject *type, *value, *traceback;
	int has;

	PyErr_Fetch(&type, &value, &traceback);
	has = qbpy_has(object, "__array__");
	if (!has) {
		PyErr_Restore(type, value, traceback);
		return NULL;
	}
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return has < 0 ? NULL
		       : PyObject_CallFunctionObjArgs(state->asarray, object,
						      NULL);
}

/* By the first protocol that the object has (Q301); an ndarray. */
static PyObject *to_ndarray(struct qbpy_state *state, PyObject *object,
			    const struct place *place)
{
	PyObject *numpy = qbpy_import_numpy(state);
	PyObject *array;
	int has, has_dlpack;

	if (!numpy)
		return NULL;
	has = qbpy_has(object, "__array_interface__");
	if (has)
		return has < 0 ? NULL
			       : PyObject_CallFunctionObjArgs(state->asarray,
							      object, NULL);
	has = has_dlpack = qbpy_has(object, "__dlpack__");
	if (has > 0)
		has = qbpy_has(object, "__dlpack_device__");
	if (has < 0 || (has && check_dlpack_device(object, place)))
		return NULL;
	if (has) {
		array = PyObject_CallMethod(numpy, "from_dlpack", "(O)",
					    object);
		/* NumPy does not know all types that others have */
		if (array || !PyErr_ExceptionMatches(PyExc_Exception))
			return array;
		return to_ndarray_after(state, object);
	}
	has = qbpy_has(object, "__cuda_array_interface__");
	if (has) {
		if (has > 0)
			(void)refuse_device(place);
		return NULL;
	}
	has = qbpy_has(object, "__array__");
	if (has)
		return has < 0 ? NULL
			       : PyObject_CallFunctionObjArgs(state->asarray,
							      object, NULL);
	PyErr_Format(PyExc_TypeError,
		     "%s: expected a NumPy array, a PinnedMemory or another "
		     "host array, got %R%s",
		     place->label, (PyObject *)Py_TYPE(object),
		     has_dlpack ? ", which has no __dlpack_device__ beside its "
				  "__dlpack__"
				: "");
	return NULL;
}

/* The same bytes, or a TypeError: what is written must not be a copy. */
static int check_output(PyObject *object, const struct place *place)
{
	int has = PyObject_CheckBuffer(object)
			  ? 1
			  : qbpy_has(object, "__array_interface__");

	if (has)
		return has < 0 ? -1 : 0;
	PyErr_Format(PyExc_TypeError,
		     "%s: expected a NumPy array, a PinnedMemory or another "
		     "writable buffer, got %R",
		     place->label, (PyObject *)Py_TYPE(object));
	return -1;
}

static int take_array(struct qbpy_state *state, PyObject *object,
		      const struct place *place)
{
	PyObject *ndarray;
	int ret;

	if (PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY]))
		return take_pinned(object, place);
	if (place->is_output && check_output(object, place))
		return -1;
	if (PyObject_CheckBuffer(object))
		return take_buffer(state, object, place);
	ndarray = to_ndarray(state, object, place);
	if (!ndarray)
		return -1;
	ret = take_buffer(state, ndarray, place);
	Py_DECREF(ndarray);
	return ret;
}

static int make_room(struct qbpy_arrays *arrays, size_t num)
{
	arrays->num = 0;
	arrays->arrays = PyMem_Calloc(num + !num, sizeof(arrays->arrays[0]));
	arrays->holds = PyMem_Calloc(num + !num, sizeof(arrays->holds[0]));
	if (arrays->arrays && arrays->holds)
		return 0;
	qbpy_release_arrays(arrays);
	(void)PyErr_NoMemory();
	return -1;
}

/* is_bare: items has one, which stands for itself. */
static int take_items(struct qbpy_state *state, PyObject *items, bool is_bare,
		      const struct place *common, struct qbpy_arrays *arrays)
{
	Py_ssize_t num = PyTuple_Size(items);
	char label[64];

	if (make_room(arrays, (size_t)num))
		return -1;
	for (Py_ssize_t i = 0; i < num; i++) {
		struct place place = {
			.label = is_bare ? common->label : label,
			.is_output = common->is_output,
			.hold = &arrays->holds[i],
			.array = &arrays->arrays[i],
		};

		(void)snprintf(label, sizeof(label), "%s[%zd]", common->label,
			       i);
		/* counted first: what it holds when it fails goes back too */
		arrays->num++;
		if (take_array(state, PyTuple_GetItem(items, i), &place)) {
			qbpy_release_arrays(arrays);
			return -1;
		}
	}
	return 0;
}

int qbpy_take_arrays(struct qbpy_state *state, PyObject *object,
		     const char *name, struct qbpy_arrays *arrays)
{
	const struct place common = { .label = name };
	bool is_bare = !PyList_Check(object) && !PyTuple_Check(object);
	/* a list may change while protocols run Python */
	PyObject *items =
		is_bare ? PyTuple_Pack(1, object) : PySequence_Tuple(object);
	int ret;

	if (!items)
		return -1;
	ret = take_items(state, items, is_bare, &common, arrays);
	Py_DECREF(items);
	return ret;
}

int qbpy_take_outputs(struct qbpy_state *state, PyObject *list,
		      struct qbpy_arrays *arrays)
{
	const struct place common = { .label = "outputs", .is_output = true };
	PyObject *items = PySequence_Tuple(list);
	int ret;

	if (!items)
		return -1;
	ret = take_items(state, items, false, &common, arrays);
	Py_DECREF(items);
	return ret;
}

static void end_accesses(struct qbpy_hold *hold)
{
	while (hold->num_accesses) {
		hold->num_accesses--;
		(void)qbpy_end_access(hold->native);
	}
}

void qbpy_leave_accesses(struct qbpy_hold *hold)
{
	qbpy_begin_use(hold->native);
	end_accesses(hold);
}

void qbpy_release_arrays(struct qbpy_arrays *arrays)
{
	while (arrays->num) {
		struct qbpy_hold *hold = &arrays->holds[--arrays->num];

		if (hold->view.obj)
			PyBuffer_Release(&hold->view);
		if (hold->native && !hold->num_accesses)
			qbpy_end_use(hold->native);
		end_accesses(hold);
		Py_XDECREF((PyObject *)hold->native);
	}
	PyMem_Free(arrays->arrays);
	PyMem_Free(arrays->holds);
	arrays->arrays = NULL;
	arrays->holds = NULL;
}

/* Bytes of the elements and what aligns them; -1 with MemoryError. */
static Py_ssize_t count_bytes(enum qbrt_dtype dtype, const int64_t *shape,
			      size_t ndim)
{
	int64_t num = (int64_t)qbrt_dtype_itemsize(dtype);
	bool overflows = false;

	for (size_t i = 0; i < ndim; i++)
		overflows |= __builtin_mul_overflow(num, shape[i], &num);
	overflows |= __builtin_add_overflow(num, ALIGNMENT - 1, &num);
	if (!overflows)
		return (Py_ssize_t)num;
	(void)PyErr_NoMemory();
	return -1;
}

/* NumPy aligns less: an array over the aligned part of a larger one. */
PyObject *qbpy_new_array(struct qbpy_state *state, enum qbrt_dtype dtype,
			 const int64_t *shape, size_t ndim, void **data)
{
	Py_ssize_t nbytes = count_bytes(dtype, shape, ndim);
	struct qbpy_scratch *scratch =
		nbytes < 0 ? NULL : qbpy_get_scratch(state, dtype);
	PyObject *bytes, *array = NULL;
	Py_ssize_t offset;
	Py_buffer view;

	if (!scratch)
		return NULL;
	bytes = PyObject_CallMethod(state->numpy, "empty", "ns", nbytes,
				    "uint8");
	if (!bytes || PyObject_GetBuffer(bytes, &view, PyBUF_WRITABLE)) {
		Py_XDECREF(bytes);
		return NULL;
	}
	offset = (Py_ssize_t)(-(uintptr_t)view.buf % ALIGNMENT);
	*data = (char *)view.buf + offset;
	PyBuffer_Release(&view);
	array = PyObject_CallMethod(state->numpy, "ndarray", "NOOn",
				    qbpy_shape_to_tuple(shape, ndim),
				    scratch->dtype, bytes, offset);
	Py_DECREF(bytes);
	return array;
}
