// SPDX-License-Identifier: MIT
/*
 * Tensor: a handle of the C API that shows what it is a view of. Its export is
 * dlpack.c and exchange.c, how one is made of others' memory dlpack_import.c.
 * The object owns its handle and nothing of Python's: what keeps imported memory
 * is a release that the library calls (deferred.c).
 */
#include "bridge.h"

#include "dlpack-abi.h"

#include <stddef.h>
#include <stdio.h>
#include <structmember.h>

struct qbpy_tensor *qbpy_alloc_tensor(struct qbpy_state *state)
{
	struct qbpy_tensor *self = qbpy_alloc_object(state->types[QBPY_TENSOR]);

	if (self)
		self->state = state;
	return self;
}

PyObject *qbpy_finish_tensor(struct qbpy_tensor *self, enum qbrt_status status,
			     const char *device)
{
	if (!qbpy_check(self->state, status, device))
		return (PyObject *)self;
	Py_DECREF((PyObject *)self);
	return NULL;
}

/* Pinned memory may go back to the system with it, for which the GIL goes. */
static void free_tensor(struct qbrt_tensor *tensor)
{
	if (qbrt_tensor_get_device(tensor)) {
		PyThreadState *thread = PyEval_SaveThread();

		qbrt_tensor_free(tensor);
		PyEval_RestoreThread(thread);
	} else {
		qbrt_tensor_free(tensor);
	}
}

static void dealloc(PyObject *object)
{
	struct qbpy_tensor *self = (struct qbpy_tensor *)object;

	if (self->weakrefs)
		PyObject_ClearWeakRefs(object);
	free_tensor(self->tensor);
	qbpy_drain(self->state);
	qbpy_free_object(self);
}

static const struct qbrt_tensor *tensor_of(PyObject *object)
{
	return ((struct qbpy_tensor *)object)->tensor;
}

static PyObject *get_data(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr(qbrt_tensor_get_data(tensor_of(object)));
}

static PyObject *get_byte_offset(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(
		qbrt_tensor_get_byte_offset(tensor_of(object)));
}

/* A named tuple of some numbers. */
static PyObject *make_named(PyObject *object, enum qbpy_type which,
			    const long *numbers, Py_ssize_t num)
{
	struct qbpy_tensor *self = (struct qbpy_tensor *)object;
	PyObject *named = PyStructSequence_New(self->state->types[which]);

	for (Py_ssize_t i = 0; named && i < num; i++) {
		PyObject *number = PyLong_FromLong(numbers[i]);

		if (number)
			PyStructSequence_SetItem(named, i, number);
		else
			Py_CLEAR(named);
	}
	return named;
}

static PyObject *get_device(PyObject *object, void *closure)
{
	struct qbrt_dlpack_device device =
		qbrt_tensor_get_dlpack_device(tensor_of(object));
	const long numbers[] = { device.type, device.id };

	(void)closure;
	return make_named(object, QBPY_TENSOR_DEVICE, numbers, 2);
}

static PyObject *get_dtype(PyObject *object, void *closure)
{
	struct qbrt_dlpack_dtype dtype =
		qbrt_tensor_get_dlpack_dtype(tensor_of(object));
	const long numbers[] = { dtype.code, dtype.bits, dtype.lanes };

	(void)closure;
	return make_named(object, QBPY_TENSOR_DTYPE, numbers, 3);
}

static PyObject *is_read_only(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(qbrt_tensor_is_read_only(tensor_of(object)));
}

static PyObject *get_itemsize(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(qbrt_tensor_get_itemsize(tensor_of(object)));
}

static PyObject *get_nbytes(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(qbrt_tensor_get_nbytes(tensor_of(object)));
}

static PyObject *get_ndim(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(qbrt_tensor_get_ndim(tensor_of(object)));
}

static PyObject *get_shape(PyObject *object, void *closure)
{
	const struct qbrt_tensor *tensor = tensor_of(object);

	(void)closure;
	return qbpy_shape_to_tuple(qbrt_tensor_get_shape(tensor),
				   qbrt_tensor_get_ndim(tensor));
}

static PyObject *get_size(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(
		qbrt_tensor_get_num_elements(tensor_of(object)));
}

static PyObject *get_strides(PyObject *object, void *closure)
{
	const struct qbrt_tensor *tensor = tensor_of(object);

	(void)closure;
	return qbpy_shape_to_tuple(qbrt_tensor_get_strides(tensor),
				   qbrt_tensor_get_ndim(tensor));
}

static PyObject *is_contiguous(PyObject *object, PyObject *none)
{
	(void)none;
	return PyBool_FromLong(qbrt_tensor_is_contiguous(tensor_of(object)));
}

/* "<f4" of those that NumPy has, else an AttributeError. */
static PyObject *make_typestr(struct qbrt_dlpack_dtype dtype)
{
	static const struct {
		uint8_t code;
		char kind;
		uint8_t least, most; /* bits */
	} known[] = {
		{ kDLInt, 'i', 8, 64 },    { kDLUInt, 'u', 8, 64 },
		{ kDLFloat, 'f', 16, 64 }, { kDLComplex, 'c', 64, 128 },
		{ kDLBool, 'b', 8, 8 },
	};
	const char *order =
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "<" : ">";
	char text[8];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].code != dtype.code || dtype.lanes != 1 ||
		    dtype.bits < known[i].least || dtype.bits > known[i].most ||
		    dtype.bits & (dtype.bits - 1))
			continue;
		(void)snprintf(text, sizeof(text), "%s%c%d",
			       dtype.bits == 8 ? "|" : order, known[i].kind,
			       dtype.bits / 8);
		return PyUnicode_FromString(text);
	}
	PyErr_Format(PyExc_AttributeError,
		     "__array_interface__ has no name for elements of DLPack "
		     "code %d, %d bits, %d lanes: use DLPack",
		     dtype.code, dtype.bits, dtype.lanes);
	return NULL;
}

enum qbrt_status qbpy_wait_as_export(const struct qbrt_tensor *tensor)
{
	DLManagedTensorVersioned *managed;
	enum qbrt_status status;
	bool is_ready = true;

	status = qbrt_tensor_query(tensor, &is_ready);
	if (!status && !is_ready &&
	    !qbrt_tensor_export_dlpack(tensor, NULL, &managed))
		managed->deleter(managed);
	/* whatever became of it: of a failed job this tells */
	return status ? status : qbrt_tensor_wait(tensor, -1);
}

/* Others' memory no job of ours writes, and nothing is waited for. */
static int wait_written(const struct qbpy_tensor *self)
{
	const char *device = qbrt_tensor_get_device(self->tensor);
	enum qbrt_status status;

	if (!device)
		return 0;
	qbpy_begin_wait();
	status = qbpy_wait_as_export(self->tensor);
	qbpy_end_wait();
	if (status && !PyErr_Occurred())
		qbpy_raise_export(self->state, status, device);
	return PyErr_Occurred() ? -1 : 0;
}

/* An address of no element is never read, but NumPy 1 takes 0 for an error. */
static PyObject *get_address(const struct qbrt_tensor *tensor)
{
	static max_align_t nothing;
	void *first = qbrt_tensor_get_first_element(tensor);

	return PyLong_FromVoidPtr(first ? first : &nothing);
}

static PyObject *get_interface(PyObject *object, void *closure)
{
	struct qbpy_tensor *self = (struct qbpy_tensor *)object;
	PyObject *typestr =
		make_typestr(qbrt_tensor_get_dlpack_dtype(self->tensor));

	if (!typestr || wait_written(self)) {
		Py_XDECREF(typestr);
		return NULL;
	}
	return Py_BuildValue("{sisNsNsNs(NN)}", "version", 3, "shape",
			     get_shape(object, closure), "typestr", typestr,
			     "strides", get_strides(object, closure), "data",
			     get_address(self->tensor),
			     is_read_only(object, closure));
}

static PyObject *copy(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "stream", NULL };
	struct qbpy_tensor *self = (struct qbpy_tensor *)object;
	PyObject *stream = Py_None;
	enum qbrt_status status;
	struct qbpy_tensor *made;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:copy", keywords,
					 &stream) ||
	    qbpy_parse_stream(stream, QBPY_STREAM_OF_EXPORT))
		return NULL;
	made = qbpy_alloc_tensor(self->state);
	if (!made)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_tensor_copy(self->tensor, NULL, &made->tensor);
	qbpy_end_wait();
	return qbpy_finish_tensor(made, status,
				  qbrt_tensor_get_device(self->tensor));
}

PyObject *qbpy_pinned_tensor(PyObject *object, PyObject *none)
{
	struct qbpy_native *native = ((struct qbpy_pinned *)object)->native;
	struct qbpy_tensor *made;

	(void)none;
	if (qbpy_check_open(native))
		return NULL;
	made = qbpy_alloc_tensor(native->state);
	return made ? qbpy_finish_tensor(made,
					 qbrt_tensor_from_pinned_memory(
						 native->mem, 0, &made->tensor),
					 NULL)
		    : NULL;
}

static PyObject *repr(PyObject *object)
{
	struct qbrt_dlpack_dtype dtype =
		qbrt_tensor_get_dlpack_dtype(tensor_of(object));
	const char *device = qbrt_tensor_get_device(tensor_of(object));
	PyObject *shape = get_shape(object, NULL);
	PyObject *text;

	if (!shape)
		return NULL;
	text = PyUnicode_FromFormat(
		"<Tensor shape=%R dtype=(%d, %d, %d)%s%s%s>", shape, dtype.code,
		dtype.bits, dtype.lanes, device ? " device=" : "",
		device ? device : "",
		qbrt_tensor_is_read_only(tensor_of(object)) ? " read-only"
							    : "");
	Py_DECREF(shape);
	return text;
}

static PyObject *reduce(PyObject *object, PyObject *args)
{
	(void)object;
	(void)args;
	PyErr_SetString(PyExc_TypeError,
			"Tensor cannot be pickled or copied by the module "
			"copy: copy() gives one of new memory, and "
			"np.asarray(tensor) pickles");
	return NULL;
}

PyDoc_STRVAR(copy_doc,
	     "copy($self, stream=None)\n--\n\n"
	     "A writable Tensor of new memory of the same kind, contiguous. "
	     "It is complete\nwhen the call returns, on whatever stream.");
PyDoc_STRVAR(is_contiguous_doc, "is_contiguous($self, /)\n--\n\n"
				"Whether the elements lie dense in C order.");

static PyMethodDef methods[] = {
	{ "copy", (PyCFunction)(void (*)(void))copy,
	  METH_VARARGS | METH_KEYWORDS, copy_doc },
	{ "is_contiguous", is_contiguous, METH_NOARGS, is_contiguous_doc },
	{ "__dlpack__", (PyCFunction)(void (*)(void))qbpy_dlpack,
	  METH_FASTCALL | METH_KEYWORDS, qbpy_dlpack_doc },
	{ "__dlpack_device__", qbpy_dlpack_device, METH_NOARGS,
	  qbpy_dlpack_device_doc },
	{ "__reduce__", reduce, METH_NOARGS, NULL },
	{ "__reduce_ex__", reduce, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
	{ "__array_interface__", get_interface, NULL,
	  "NumPy's description of the memory, which it does not keep alive.",
	  NULL },
	{ "byte_offset", get_byte_offset, NULL,
	  "Bytes from data to the first element.", NULL },
	{ "data", get_data, NULL, "The address of the memory.", NULL },
	{ "device", get_device, NULL, "DLPack's (device_type, device_id).",
	  NULL },
	{ "dtype", get_dtype, NULL, "DLPack's (code, bits, lanes).", NULL },
	{ "is_read_only", is_read_only, NULL,
	  "Whether it may not be written; never changes.", NULL },
	{ "itemsize", get_itemsize, NULL, "Bytes of an element.", NULL },
	{ "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
	{ "ndim", get_ndim, NULL, "The number of axes.", NULL },
	{ "shape", get_shape, NULL, "The extents, a tuple of int.", NULL },
	{ "size", get_size, NULL, "The number of elements.", NULL },
	{ "strides", get_strides, NULL,
	  "Bytes between neighbours on each axis.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET,
	  offsetof(struct qbpy_tensor, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const char doc[] =
	"A view of memory that libraries exchange by DLPack and array\n"
	"interfaces: pinned memory, or memory of others (as_tensor(),\n"
	"from_dlpack()). A light handle; the memory lives until the last of\n"
	"them, and of what was exported, is gone. Any thread may use it.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ Py_tp_members, members },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.payload.Tensor",
	.basicsize = sizeof(struct qbpy_tensor),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

static PyStructSequence_Field device_fields[] = {
	{ "device_type", "1: the host's, 3: the host's, pinned for CUDA" },
	{ "device_id", "which of that type" },
	{ NULL, NULL },
};

static PyStructSequence_Desc device_desc = {
	.name = "qbruntime.payload.TensorDevice",
	.doc = "Where a Tensor is, by DLPack's numbers.",
	.fields = device_fields,
	.n_in_sequence = 2,
};

static PyStructSequence_Field dtype_fields[] = {
	{ "code", "0: int, 1: uint, 2: float, 4: bfloat, 5: complex, 6: bool" },
	{ "bits", "of one lane" },
	{ "lanes", "numbers in an element" },
	{ NULL, NULL },
};

static PyStructSequence_Desc dtype_desc = {
	.name = "qbruntime.payload.TensorDtype",
	.doc = "What a Tensor's elements are, by DLPack's numbers.",
	.fields = dtype_fields,
	.n_in_sequence = 3,
};

int qbpy_add_tensor(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);

	state->types[QBPY_TENSOR_DEVICE] =
		PyStructSequence_NewType(&device_desc);
	state->types[QBPY_TENSOR_DTYPE] = PyStructSequence_NewType(&dtype_desc);
	if (!state->types[QBPY_TENSOR_DEVICE] ||
	    !state->types[QBPY_TENSOR_DTYPE] ||
	    qbpy_add_type(module, QBPY_TENSOR, &spec, NULL))
		return -1;
	return qbpy_add_imports(module, state->types[QBPY_TENSOR]);
}
