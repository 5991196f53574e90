// SPDX-License-Identifier: MIT
/*
 * Tensors by NumPy's __array_interface__, which owns nothing: the object that
 * has it is held, and its dictionary, whose data may be somebody else's.
 */
#include "bridge.h"

#include "dlpack-abi.h"

#define MAX_NDIM 64 /* of the library */

struct holder {
	PyObject *producer;
	PyObject *dict;
	Py_buffer view; /* obj NULL: data is an address */
};

/* What the dictionary says. */
struct array {
	struct qbrt_tensor_desc desc;
	Py_ssize_t itemsize;
	int64_t shape[MAX_NDIM];
	int64_t strides[MAX_NDIM];
};

/* Of the main interpreter, with the GIL: the library defers it. */
static void release(void *arg)
{
	struct holder *holder = arg;

	if (holder->view.obj)
		PyBuffer_Release(&holder->view);
	Py_DECREF(holder->dict);
	Py_DECREF(holder->producer);
	PyMem_Free(holder);
}

/* Borrowed; None is as good as absent. NULL also when asking for it fails. */
static PyObject *get(PyObject *dict, const char *name)
{
	PyObject *key = PyUnicode_FromString(name);
	PyObject *value = key ? PyDict_GetItemWithError(dict, key) : NULL;

	Py_XDECREF(key);
	return value == Py_None ? NULL : value;
}

static int parse_version(struct qbpy_state *state, PyObject *dict)
{
	PyObject *version = get(dict, "version");
	long long number;

	if (!version)
		return qbpy_refuse_tensor(state,
					  "__array_interface__ has no version: "
					  "expected 3");
	if (qbpy_parse_int(version, "version of __array_interface__", &number))
		return -1;
	if (number < 3)
		return qbpy_refuse_tensor(
			state,
			"__array_interface__ is of version %R, expected "
			"3",
			version);
	if (get(dict, "mask"))
		return qbpy_refuse_tensor(
			state, "__array_interface__ has a mask, and a "
			       "tensor cannot: leave it out");
	return 0;
}

static bool find_code(char kind, uint8_t *code)
{
	static const char kinds[] = "iufcb";
	static const uint8_t codes[] = { kDLInt, kDLUInt, kDLFloat, kDLComplex,
					 kDLBool };
	const char *at = kind ? strchr(kinds, kind) : NULL;

	if (at)
		*code = codes[at - kinds];
	return at != NULL;
}

/* "<f4": byte order, kind, bytes. */
static int parse_typestr(struct qbpy_state *state, PyObject *dict,
			 struct array *array)
{
	static const char native =
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
	PyObject *object = get(dict, "typestr");
	const char *text;
	Py_ssize_t length;
	uint8_t code = 0;
	int size = 0;

	if (!object)
		return qbpy_refuse_tensor(
			state, "__array_interface__ has no typestr, a "
			       "str such as \"<f4\"");
	if (!PyUnicode_Check(object)) {
		(void)qbpy_raise_type("a str such as \"<f4\" for typestr of "
				      "__array_interface__",
				      object);
		return -1;
	}
	text = PyUnicode_AsUTF8AndSize(object, &length);
	if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
		PyErr_Clear();
		text = "";
		length = 0;
	}
	if (!text)
		return -1;
	if (length == 3 || length == 4)
		for (const char *at = text + 2; at < text + length; at++)
			size = *at >= '0' && *at <= '9' && size >= 0
				       ? size * 10 + (*at - '0')
				       : -1;
	if (size <= 0 || size > 16 || !text[0] || !strchr("<>|=", text[0]) ||
	    !find_code(text[1], &code))
		return qbpy_refuse_tensor(
			state,
			"typestr of __array_interface__ is %R: numbers "
			"and bool of fixed width are taken",
			object);
	if (size > 1 && text[0] != native && text[0] != '=')
		return qbpy_refuse_tensor(
			state,
			"typestr of __array_interface__ is %R: elements "
			"are taken in native byte order",
			object);
	array->itemsize = size;
	array->desc.dtype = (struct qbrt_dlpack_dtype){
		.code = code,
		.bits = (uint8_t)(size * 8),
		.lanes = 1,
	};
	return 0;
}

/* A tuple of ints of 64 bits; the number of them, or -1. */
static Py_ssize_t parse_tuple(struct qbpy_state *state, PyObject *object,
			      const char *name, int64_t values[MAX_NDIM])
{
	static const char each[] =
		"each number of shape and strides of __array_interface__";
	Py_ssize_t num =
		object && PyTuple_Check(object) ? PyTuple_Size(object) : -1;

	if (object && num < 0) {
		PyErr_Format(PyExc_TypeError,
			     "__array_interface__ has %s %R, expected a tuple "
			     "of ints",
			     name, object);
		return -1;
	}
	if (num < 0 || num > MAX_NDIM)
		return qbpy_refuse_tensor(
			state,
			"__array_interface__ has %s %R, expected a tuple "
			"of at most %d ints",
			name, object ? object : Py_None, MAX_NDIM);
	for (Py_ssize_t i = 0; i < num; i++) {
		PyObject *item = PyTuple_GetItem(object, i);
		long long value;

		if (qbpy_parse_int(item, each, &value))
			return -1;
		if (value == LLONG_MIN || value == LLONG_MAX)
			return qbpy_refuse_tensor(
				state,
				"%s of __array_interface__ has %R, "
				"expected numbers of 64 bits",
				name, item);
		values[i] = value;
	}
	return num;
}

static int parse_shape(struct qbpy_state *state, PyObject *dict,
		       struct array *array)
{
	PyObject *strides = get(dict, "strides");
	Py_ssize_t num =
		parse_tuple(state, get(dict, "shape"), "shape", array->shape);

	if (num < 0)
		return -1;
	array->desc.ndim = (size_t)num;
	array->desc.shape = array->shape;
	if (!strides)
		return 0;
	array->desc.strides = array->strides;
	num = parse_tuple(state, strides, "strides", array->strides);
	if (num < 0)
		return -1;
	if ((size_t)num != array->desc.ndim)
		return qbpy_refuse_tensor(
			state,
			"__array_interface__ has %zd strides, and shape "
			"%zd extents",
			num, (Py_ssize_t)array->desc.ndim);
	return 0;
}

/* Whether all elements lie in size bytes, of which the first has offset. */
static bool is_inside(const struct array *array, int64_t offset, int64_t size)
{
	int64_t low = offset, high = offset, compact = array->itemsize, span;

	for (size_t i = array->desc.ndim; i-- > 0;) {
		int64_t extent = array->shape[i];
		int64_t stride =
			array->desc.strides ? array->strides[i] : compact;

		if (extent <= 0)
			/* nothing to reach, or refused later */
			return offset <= size;
		if (__builtin_mul_overflow(extent - 1, stride, &span) ||
		    __builtin_mul_overflow(compact, extent, &compact) ||
		    __builtin_add_overflow(stride < 0 ? low : high, span,
					   stride < 0 ? &low : &high))
			return false;
	}
	return low >= 0 && high <= size - array->itemsize;
}

/* Memory that is given as an object with a buffer. */
static int take_buffer(struct qbpy_state *state, PyObject *dict,
		       PyObject *source, struct holder *holder,
		       struct array *array)
{
	PyObject *object = get(dict, "offset");
	long long offset = 0;

	if (object &&
	    qbpy_parse_int(object, "offset of __array_interface__", &offset))
		return -1;
	if (!PyObject_CheckBuffer(source)) {
		(void)qbpy_raise_type("an object with a buffer, or (address, "
				      "read_only), for data of "
				      "__array_interface__",
				      source);
		return -1;
	}
	if (PyObject_GetBuffer(source, &holder->view, PyBUF_SIMPLE)) {
		holder->view.obj = NULL;
		return -1;
	}
	if (offset < 0 || !is_inside(array, offset, holder->view.len))
		return qbpy_refuse_tensor(
			state,
			"__array_interface__ has offset %lld and shape %R, "
			"which reach beyond its buffer of %zd bytes",
			offset, get(dict, "shape"), holder->view.len);
	array->desc.data = (char *)holder->view.buf + offset;
	return 0;
}

static int parse_data(struct qbpy_state *state, PyObject *dict,
		      struct holder *holder, struct array *array)
{
	PyObject *data = get(dict, "data");
	PyObject *address;

	if (PyErr_Occurred())
		return -1;
	if (!data || !PyTuple_Check(data))
		return take_buffer(state, dict, data ? data : holder->producer,
				   holder, array);
	address = PyTuple_Size(data) == 2 ? PyTuple_GetItem(data, 0) : NULL;
	if (address && !PyLong_Check(address)) {
		(void)qbpy_raise_type("an int for the address in data of "
				      "__array_interface__",
				      address);
		return -1;
	}
	if (!address)
		return qbpy_refuse_tensor(
			state,
			"__array_interface__ has data %R, expected "
			"(address, read_only)",
			data);
	array->desc.data = PyLong_AsVoidPtr(address);
	if (!PyErr_Occurred())
		return 0;
	if (!PyErr_ExceptionMatches(PyExc_OverflowError))
		return -1;
	PyErr_Clear();
	return qbpy_refuse_tensor(
		state, "__array_interface__ has data %R, no address", data);
}

static int parse(struct qbpy_state *state, struct holder *holder,
		 struct array *array)
{
	PyObject *dict;
	int ret;

	if (!PyDict_Check(holder->dict)) {
		(void)qbpy_raise_type("a dict for __array_interface__",
				      holder->dict);
		return -1;
	}
	/* a copy: to read it may run Python, which may change it */
	dict = PyDict_Copy(holder->dict);
	ret = !dict || parse_version(state, dict) ||
			      parse_typestr(state, dict, array) ||
			      parse_shape(state, dict, array) ||
			      parse_data(state, dict, holder, array) ||
			      PyErr_Occurred()
		      ? -1
		      : 0;
	Py_XDECREF(dict);
	return ret;
}

static struct holder *hold(PyObject *object)
{
	PyObject *dict = PyObject_GetAttrString(object, "__array_interface__");
	struct holder *holder = dict ? PyMem_Malloc(sizeof(*holder)) : NULL;

	if (holder) {
		*holder = (struct holder){ .producer = Py_NewRef(object),
					   .dict = dict };
		return holder;
	}
	if (dict)
		(void)PyErr_NoMemory();
	Py_XDECREF(dict);
	return NULL;
}

PyObject *qbpy_import_interface(struct qbpy_state *state, PyObject *object)
{
	const struct qbrt_tensor_import_options options = {
		.size = sizeof(options),
		.flags = QBRT_TENSOR_DEFER_RELEASE,
	};
	struct array array = {
		.desc = { .size = sizeof(array.desc),
			  .device = { .type = kDLCPU } },
	};
	struct qbpy_tensor *self = qbpy_alloc_tensor(state);
	struct holder *holder = self ? hold(object) : NULL;
	enum qbrt_status status;

	if (!holder || parse(state, holder, &array))
		goto err_drop;
	status = qbrt_tensor_import_memory(&array.desc, release, holder,
					   &options, &self->tensor);
	if (!status)
		return (PyObject *)self;
	(void)qbpy_raise(state, status, NULL);
err_drop:
	if (holder)
		release(holder);
	Py_XDECREF((PyObject *)self);
	return NULL;
}
