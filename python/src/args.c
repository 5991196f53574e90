// SPDX-License-Identifier: MIT
/*
 * Python values to C ones and back. What is of a wrong type is a TypeError;
 * whether a value makes sense is left to the library, which has the sentence.
 */
#include "module.h"

#include <math.h>
#include <stdio.h>

/* As NumPy calls them. */
static const char *const dtype_names[QBPY_NUM_DTYPES] = {
	[QBRT_DTYPE_FLOAT32] = "float32",   [QBRT_DTYPE_UINT8] = "uint8",
	[QBRT_DTYPE_INT8] = "int8",         [QBRT_DTYPE_FLOAT16] = "float16",
	[QBRT_DTYPE_INT16] = "int16",       [QBRT_DTYPE_UINT16] = "uint16",
	[QBRT_DTYPE_INT32] = "int32",       [QBRT_DTYPE_UINT32] = "uint32",
	[QBRT_DTYPE_INT64] = "int64",       [QBRT_DTYPE_UINT64] = "uint64",
	[QBRT_DTYPE_FLOAT64] = "float64",   [QBRT_DTYPE_BOOL] = "bool",
	[QBRT_DTYPE_BFLOAT16] = "bfloat16",
};

int qbpy_has(PyObject *object, const char *name)
{
	PyObject *attribute = PyObject_GetAttrString(object, name);

	if (attribute) {
		Py_DECREF(attribute);
		return 1;
	}
	if (!PyErr_ExceptionMatches(PyExc_AttributeError))
		return -1;
	PyErr_Clear();
	return 0;
}

static int raise_kind(const char *name, const char *kind, PyObject *object)
{
	PyObject *type = PyObject_Type(object);

	if (type)
		PyErr_Format(PyExc_TypeError, "%s is %s, got %R", name, kind,
			     type);
	Py_XDECREF(type);
	return -1;
}

int qbpy_parse_int(PyObject *object, const char *name, long long *value)
{
	PyObject *number;
	int overflow = 0;

	/* as most are; what does not fit goes the long way */
	if (PyLong_CheckExact(object)) {
		*value = PyLong_AsLongLongAndOverflow(object, &overflow);
		if (!overflow)
			return 0;
	}
	if (PyBool_Check(object) || !PyIndex_Check(object))
		return raise_kind(name, "an int", object);
	number = PyNumber_Index(object);
	if (!number)
		return -1;
	*value = PyLong_AsLongLongAndOverflow(number, &overflow);
	Py_DECREF(number);
	if (overflow)
		*value = overflow < 0 ? LLONG_MIN : LLONG_MAX;
	return !overflow && *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int qbpy_call_dlpack_device(PyObject *method, long long *type)
{
	PyObject *pair = PyObject_CallNoArgs(method);
	long long number;
	int ret;

	if (!pair)
		return -1;
	if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
		PyErr_Format(PyExc_TypeError,
			     "__dlpack_device__() gave %R, expected a tuple "
			     "of two ints",
			     pair);
		Py_DECREF(pair);
		return -1;
	}
	ret = qbpy_parse_int(PyTuple_GetItem(pair, 0),
			     "the device type of __dlpack_device__()", type) ||
	      qbpy_parse_int(PyTuple_GetItem(pair, 1),
			     "the device number of __dlpack_device__()",
			     &number);
	Py_DECREF(pair);
	return ret ? -1 : 0;
}

int qbpy_parse_bool(PyObject *object, const char *name, bool *value)
{
	if (!PyBool_Check(object))
		return raise_kind(name, "a bool", object);
	*value = object == Py_True;
	return 0;
}

int qbpy_parse_text(PyObject *object, const char *name, const char **text)
{
	Py_ssize_t length;

	*text = PyUnicode_AsUTF8AndSize(object, &length);
	if (*text && strlen(*text) == (size_t)length)
		return 0;
	if (*text || PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
		PyErr_Format(PyExc_ValueError, "%s has a %s, got %R", name,
			     *text ? "null character" : "lone surrogate",
			     object);
	return -1;
}

int qbpy_parse_path(PyObject *object, const char *name, PyObject **path)
{
	int is_path = PyUnicode_Check(object) || PyBytes_Check(object)
			      ? 1
			      : qbpy_has(object, "__fspath__");
	PyObject *bytes;
	Py_ssize_t size;
	char *text;

	if (is_path < 0)
		return -1;
	if (!is_path) {
		char expected[64];

		(void)snprintf(expected, sizeof(expected),
			       "a str, bytes or os.PathLike for %s", name);
		(void)qbpy_raise_type(expected, object);
		return -1;
	}
	bytes = PyOS_FSPath(object);
	if (bytes && PyUnicode_Check(bytes)) {
		PyObject *encoded = PyUnicode_EncodeFSDefault(bytes);

		Py_DECREF(bytes);
		bytes = encoded;
	}
	if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &size))
		goto err_free_bytes;
	if (strlen(text) == (size_t)size) {
		*path = bytes;
		return 0;
	}
	PyErr_Format(PyExc_ValueError, "%s has a null character, got %R", name,
		     object);
err_free_bytes:
	Py_XDECREF(bytes);
	return -1;
}

/* Python writes no int of thousands of digits: a ValueError of its own. */
static PyObject *tell_number(const char *name, PyObject *number,
			     const char *expected)
{
	PyObject *text = PyUnicode_FromFormat("%s is %R, expected %s", name,
					      number, expected);

	if (text || !PyErr_ExceptionMatches(PyExc_ValueError))
		return text;
	PyErr_Clear();
	return PyUnicode_FromFormat("%s has too many digits, expected %s", name,
				    expected);
}

int qbpy_raise_number(const char *name, PyObject *number, const char *expected)
{
	PyObject *text = tell_number(name, number, expected);

	if (text)
		PyErr_SetObject(PyExc_ValueError, text);
	Py_XDECREF(text);
	return -1;
}

int qbpy_refuse_number(struct qbpy_state *state, enum qbrt_status status,
		       const char *name, PyObject *number, const char *expected)
{
	PyObject *text = tell_number(name, number, expected);
	const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

	if (utf8)
		(void)qbpy_raise_text(state, status, NULL, utf8);
	Py_XDECREF(text);
	return -1;
}

int qbpy_parse_size(struct qbpy_state *state, PyObject *object,
		    const char *name, size_t *value)
{
	long long number;

	if (qbpy_parse_int(object, name, &number))
		return -1;
	if (number < 0 || number == LLONG_MAX)
		return qbpy_refuse_number(state, QBRT_INVALID_ARGUMENT, name,
					  object, "0 or more, below 2**63 - 1");
	*value = (size_t)number;
	return 0;
}

/* As it came, where it is none of 64 bits. */
static int parse_extent(PyObject *object, const char *name, int64_t *extent)
{
	long long number;

	if (qbpy_parse_int(object, name, &number))
		return -1;
	if (number == LLONG_MIN || number == LLONG_MAX)
		return qbpy_raise_number(name, object,
					 "1 or more, below 2**63 - 1");
	*extent = number;
	return 0;
}

static int parse_extents(PyObject *sequence, int64_t shape[QBPY_MAX_NDIM])
{
	Py_ssize_t num = PySequence_Size(sequence);

	if (num > QBPY_MAX_NDIM) {
		PyErr_Format(PyExc_ValueError,
			     "shape has %zd axes, at most %d are allowed", num,
			     QBPY_MAX_NDIM);
		return -1;
	}
	for (Py_ssize_t i = 0; i < num; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);
		int ret = item ? parse_extent(item, "an extent of shape",
					      &shape[i])
			       : -1;

		Py_XDECREF(item);
		if (ret)
			return -1;
	}
	return (int)num;
}

/* Characters and bytes are sequences too, and no extents. */
static bool is_text(PyObject *object)
{
	return PyUnicode_Check(object) || PyBytes_Check(object) ||
	       PyByteArray_Check(object);
}

int qbpy_parse_shape(PyObject *object, int64_t shape[QBPY_MAX_NDIM])
{
	if (PySequence_Check(object) && !is_text(object))
		return parse_extents(object, shape);
	if (!PyIndex_Check(object)) {
		(void)qbpy_raise_type("an int or a sequence of int for shape",
				      object);
		return -1;
	}
	return parse_extent(object, "shape", &shape[0]) ? -1 : 1;
}

/* Text attributes of a numpy.dtype: 0 and text, "" for what is no str. */
static int read_text(PyObject *object, const char *name, char *text,
		     Py_ssize_t size)
{
	PyObject *value = PyObject_GetAttrString(object, name);
	const char *utf8 = NULL;
	Py_ssize_t length = 0;

	if (!value)
		return -1;
	text[0] = '\0';
	if (PyUnicode_Check(value))
		utf8 = PyUnicode_AsUTF8AndSize(value, &length);
	if (utf8 && length < size)
		memcpy(text, utf8, (size_t)length + 1);
	Py_DECREF(value);
	return PyErr_Occurred() ? -1 : 0;
}

static int read_numpy_dtype(PyObject *numpy_dtype, enum qbrt_dtype *dtype)
{
	PyObject *is_native = PyObject_GetAttrString(numpy_dtype, "isnative");
	int native = is_native ? PyObject_IsTrue(is_native) : -1;
	char name[16];

	Py_XDECREF(is_native);
	if (native < 0 || read_text(numpy_dtype, "name", name, sizeof(name)))
		return -1;
	for (int i = 0; native && i < QBPY_NUM_DTYPES; i++) {
		if (strcmp(dtype_names[i], name) == 0) {
			*dtype = (enum qbrt_dtype)i;
			return 0;
		}
	}
	PyErr_Format(PyExc_TypeError,
		     "dtype %R is not one of pinned memory: a fixed-width "
		     "number or bool in native byte order",
		     numpy_dtype);
	return -1;
}

static int parse_member(PyObject *object, enum qbrt_dtype *dtype)
{
	long value = PyLong_AsLong(object);

	if (value < 0 || value >= QBPY_NUM_DTYPES) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_ValueError,
				     "dtype is %R, expected the type of an "
				     "element",
				     object);
		return -1;
	}
	*dtype = (enum qbrt_dtype)value;
	return 0;
}

int qbpy_parse_dtype(struct qbpy_state *state, PyObject *object,
		     enum qbrt_dtype *dtype)
{
	PyObject *numpy, *numpy_dtype;
	int ret;

	*dtype = QBRT_DTYPE_FLOAT32;
	if (!object || object == Py_None)
		return 0;
	ret = PyObject_IsInstance(object, state->classes[QBPY_DATA_TYPE]);
	if (ret)
		return ret < 0 ? -1 : parse_member(object, dtype);
	numpy = qbpy_import_numpy(state);
	if (!numpy)
		return -1;
	numpy_dtype = PyObject_CallMethod(numpy, "dtype", "(O)", object);
	if (!numpy_dtype)
		return -1;
	ret = read_numpy_dtype(numpy_dtype, dtype);
	Py_DECREF(numpy_dtype);
	return ret;
}

static int read_int(PyObject *object, const char *name, long *value)
{
	PyObject *attribute = PyObject_GetAttrString(object, name);

	if (!attribute)
		return -1;
	*value = PyLong_AsLong(attribute);
	Py_DECREF(attribute);
	return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int qbpy_parse_core_id(PyObject *object, struct qbrt_core_id *core_id)
{
	long cluster, core;

	if (read_int(object, "cluster", &cluster) ||
	    read_int(object, "core", &core))
		return -1;
	core_id->cluster = (enum qbrt_cluster)cluster;
	core_id->core = (enum qbrt_core)core;
	return 0;
}

/* An int that is in the range of an integer type; false: NumPy has a say. */
static bool pack_int(PyObject *object, enum qbrt_dtype dtype, void *value)
{
	long long number;
	int overflow;

	if (!PyLong_CheckExact(object))
		return false;
	number = PyLong_AsLongLongAndOverflow(object, &overflow);
	if (overflow)
		return false;
	switch (dtype) {
#define PACK(code, type, min, max) \
	case code: \
		if (number < (min) || number > (max)) \
			return false; \
		*(type *)value = (type)number; \
		return true
		PACK(QBRT_DTYPE_UINT8, uint8_t, 0, UINT8_MAX);
		PACK(QBRT_DTYPE_INT8, int8_t, INT8_MIN, INT8_MAX);
		PACK(QBRT_DTYPE_INT16, int16_t, INT16_MIN, INT16_MAX);
		PACK(QBRT_DTYPE_UINT16, uint16_t, 0, UINT16_MAX);
		PACK(QBRT_DTYPE_INT32, int32_t, INT32_MIN, INT32_MAX);
		PACK(QBRT_DTYPE_UINT32, uint32_t, 0, UINT32_MAX);
		PACK(QBRT_DTYPE_INT64, int64_t, INT64_MIN, INT64_MAX);
		PACK(QBRT_DTYPE_UINT64, uint64_t, 0, INT64_MAX);
#undef PACK
	default:
		return false;
	}
}

static bool pack_float(PyObject *object, enum qbrt_dtype dtype, void *value)
{
	double number;

	if (!PyFloat_CheckExact(object))
		return false;
	number = PyFloat_AsDouble(object);
	if (dtype == QBRT_DTYPE_FLOAT64) {
		*(double *)value = number;
		return true;
	}
	/* NumPy warns of what does not fit */
	if (dtype != QBRT_DTYPE_FLOAT32 ||
	    (isfinite(number) && !isfinite((float)number)))
		return false;
	*(float *)value = (float)number;
	return true;
}

bool qbpy_pack(PyObject *object, enum qbrt_dtype dtype, void *value)
{
	return pack_float(object, dtype, value) ||
	       pack_int(object, dtype, value);
}

const char *qbpy_dtype_name(enum qbrt_dtype dtype)
{
	return dtype_names[dtype];
}

PyObject *qbpy_shape_to_tuple(const int64_t *shape, size_t ndim)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)ndim);

	for (size_t i = 0; tuple && i < ndim; i++) {
		PyObject *extent = PyLong_FromLongLong(shape[i]);

		if (!extent || PyTuple_SetItem(tuple, (Py_ssize_t)i, extent))
			Py_CLEAR(tuple);
	}
	return tuple;
}

/* An argument of a tuple may be made after another has failed. */
PyObject *qbpy_enum(struct qbpy_state *state, enum qbpy_class which, long value)
{
	if (PyErr_Occurred())
		return NULL;
	if (!state->classes[which]) {
		PyErr_SetString(PyExc_RuntimeError, "qbruntime has ended");
		return NULL;
	}
	return PyObject_CallFunction(state->classes[which], "l", value);
}

PyObject *qbpy_mask_to_list(struct qbpy_state *state, enum qbpy_class which,
			    uint32_t mask)
{
	PyObject *list = PyList_New(0);

	for (long bit = 0; list && bit < 32; bit++) {
		PyObject *member;

		if (!(mask >> bit & 1))
			continue;
		member = qbpy_enum(state, which, bit);
		if (!member || PyList_Append(list, member))
			Py_CLEAR(list);
		Py_XDECREF(member);
	}
	return list;
}

PyObject *qbpy_core_id(struct qbpy_state *state,
		       const struct qbrt_core_id *core_id)
{
	return PyObject_CallFunction(state->classes[QBPY_CORE_ID], "ll",
				     (long)core_id->cluster,
				     (long)core_id->core);
}

PyObject *qbpy_cores_to_list(struct qbpy_state *state,
			     const struct qbrt_core_id *cores, size_t num)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < num; i++) {
		PyObject *core_id = qbpy_core_id(state, &cores[i]);

		if (!core_id || PyList_Append(list, core_id))
			Py_CLEAR(list);
		Py_XDECREF(core_id);
	}
	return list;
}

PyObject *qbpy_text(const char *text)
{
	if (!text)
		Py_RETURN_NONE;
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}
