// SPDX-License-Identifier: MIT
/*
 * PinnedMemory: what programs hold of a native object (pinned_native.c), and
 * the ndarray that indexing goes to. Indexing itself is pinned_index.c, the
 * bracket around accesses of the CPU pinned_access.c.
 */
#include "bridge.h"

#include <structmember.h>
#include <unistd.h>

/* Takes native, which may be NULL with an exception set. */
static PyObject *make_pinned(PyTypeObject *type, struct qbpy_native *native)
{
	struct qbpy_pinned *self = native ? qbpy_alloc_object(type) : NULL;

	if (self) {
		self->state = native->state;
		self->native = native;
	} else {
		Py_XDECREF((PyObject *)native);
	}
	return (PyObject *)self;
}

PyObject *qbpy_pinned_of(struct qbpy_state *state,
			 struct qbrt_pinned_memory *mem)
{
	return make_pinned(state->types[QBPY_PINNED_MEMORY],
			   qbpy_native_of(state, mem));
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "_pinned_memory", NULL };
	struct qbpy_state *state = qbpy_get_state(type);
	PyObject *native;

	if (!state || !PyArg_ParseTupleAndKeywords(args, kw, "O:PinnedMemory",
						   keywords, &native))
		return NULL;
	if (!PyObject_TypeCheck(native, state->types[QBPY_PINNED_BASE])) {
		PyErr_SetString(PyExc_TypeError,
				"PinnedMemory is made by "
				"Accelerator.allocate_pinned_memory(), or of "
				"another one's _pinned_memory");
		return NULL;
	}
	return make_pinned(type, (struct qbpy_native *)Py_NewRef(native));
}

static void dealloc(PyObject *object)
{
	struct qbpy_pinned *self = (struct qbpy_pinned *)object;

	if (self->weakrefs)
		PyObject_ClearWeakRefs(object);
	Py_XDECREF(self->array);
	Py_XDECREF((PyObject *)self->native);
	qbpy_free_object(self);
}

static struct qbpy_native *native_of(PyObject *object)
{
	return ((struct qbpy_pinned *)object)->native;
}

PyObject *qbpy_get_array(struct qbpy_pinned *self)
{
	PyObject *array;

	if (self->array)
		return self->array;
	if (!qbpy_import_numpy(self->state))
		return NULL;
	array = PyObject_CallFunctionObjArgs(self->state->asarray, self->native,
					     NULL);
	if (!array)
		return NULL;
	/* NumPy may have let another thread, or free(), come first */
	if (native_of((PyObject *)self)->is_freed) {
		Py_DECREF(array);
		(void)qbpy_check_open(self->native);
		return NULL;
	}
	QBPY_REPLACE(self->array, array);
	return self->array;
}

static int forward_buffer(PyObject *object, Py_buffer *view, int flags)
{
	view->obj = NULL;
	return PyObject_GetBuffer((PyObject *)native_of(object), view, flags);
}

static PyObject *get_shape(PyObject *object, PyObject *none)
{
	const struct qbpy_native *native = native_of(object);

	(void)none;
	return qbpy_shape_to_tuple((const int64_t *)native->shape,
				   (size_t)native->ndim);
}

static PyObject *get_dtype(PyObject *object, PyObject *none)
{
	const struct qbpy_native *native = native_of(object);
	struct qbpy_scratch *scratch =
		qbpy_get_scratch(native->state, native->dtype);

	(void)none;
	return scratch ? Py_NewRef(scratch->dtype) : NULL;
}

static PyObject *get_size(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSsize_t(native_of(object)->nbytes);
}

static PyObject *is_available(PyObject *object, PyObject *none)
{
	const struct qbpy_native *native = native_of(object);

	(void)none;
	return PyBool_FromLong(!native->is_freed &&
			       qbrt_pinned_memory_is_available(native->mem));
}

static PyObject *get_contiguity(PyObject *object, PyObject *none)
{
	(void)none;
	return PyUnicode_FromString(
		qbpy_contiguity_name(native_of(object)->contiguity));
}

static PyObject *device_address(PyObject *object, PyObject *none)
{
	struct qbpy_native *native = native_of(object);
	enum qbrt_status status;
	uint64_t address = 0;

	(void)none;
	if (qbpy_check_open(native))
		return NULL;
	status = qbrt_pinned_memory_query_device_address(native->mem, &address);
	if (status == QBRT_NOT_IMPLEMENTED)
		Py_RETURN_NONE;
	if (qbpy_check_native(native, status))
		return NULL;
	return PyLong_FromUnsignedLongLong(address);
}

static PyObject *free_memory(PyObject *object, PyObject *none)
{
	struct qbpy_pinned *self = (struct qbpy_pinned *)object;

	(void)none;
	Py_CLEAR(self->array);
	qbpy_free_native(self->native);
	Py_RETURN_NONE;
}

static PyObject *export_fd(PyObject *object, PyObject *none)
{
	struct qbpy_native *native = native_of(object);
	enum qbrt_status status;
	int fd = -1;

	(void)none;
	if (qbpy_check_open(native))
		return NULL;
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_export_fd(native->mem, &fd);
	qbpy_end_wait();
	qbpy_end_use(native);
	if (!qbpy_check_native(native, status))
		return PyLong_FromLong(fd);
	if (!status)
		(void)close(fd);
	return NULL;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	(void)none;
	return qbpy_check_open(native_of(object)) ? NULL : Py_NewRef(object);
}

static PyObject *exit_context(PyObject *object, PyObject *args)
{
	(void)args;
	return free_memory(object, NULL);
}

/* __array__(dtype=None, copy=None) of NumPy 2; NumPy 1 gives dtype alone. */
static PyObject *to_array(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "dtype", "copy", NULL };
	struct qbpy_pinned *self = (struct qbpy_pinned *)object;
	PyObject *dtype = Py_None, *copy = Py_None, *array, *view, *answer;
	int is_copy;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:__array__", keywords,
					 &dtype, &copy))
		return NULL;
	/* first: it may run anything */
	is_copy = PyObject_IsTrue(copy);
	if (is_copy < 0 || qbpy_check_open(self->native) ||
	    qbpy_check_native(self->native, qbpy_wait_written(self->native)))
		return NULL;
	array = Py_XNewRef(qbpy_get_array(self));
	view = array ? PyObject_CallMethod(array, "view", NULL) : NULL;
	Py_XDECREF(array);
	if (!view || (dtype == Py_None && !is_copy))
		return view;
	if (dtype == Py_None) {
		answer = PyObject_CallMethod(view, "copy", NULL);
	} else {
		answer = is_copy ? PyObject_CallMethod(view, "astype", "(O)",
						       dtype)
				 : PyObject_CallFunctionObjArgs(
					   self->state->asarray, view, dtype,
					   NULL);
		if (answer && copy == Py_False && answer != view) {
			Py_CLEAR(answer);
			PyErr_SetString(PyExc_ValueError,
					"another dtype needs a copy");
		}
	}
	Py_DECREF(view);
	return answer;
}

static PyObject *reduce(PyObject *object, PyObject *args)
{
	(void)object;
	(void)args;
	PyErr_SetString(PyExc_TypeError,
			"PinnedMemory cannot be pickled or copied: hand it to "
			"another process with export_fd() and "
			"Accelerator.import_pinned_memory()");
	return NULL;
}

static PyObject *repr(PyObject *object)
{
	const struct qbpy_native *native = native_of(object);
	PyObject *shape = get_shape(object, NULL);
	PyObject *text;

	if (!shape)
		return NULL;
	text = PyUnicode_FromFormat(
		"PinnedMemory(shape=%R, dtype=%s, device=%U, %s%s)", shape,
		qbpy_dtype_name(native->dtype), native->device,
		qbpy_contiguity_name(native->contiguity),
		native->is_freed ? ", freed" : "");
	Py_DECREF(shape);
	return text;
}

static Py_ssize_t get_length(PyObject *object)
{
	struct qbpy_native *native = native_of(object);

	if (qbpy_check_open(native))
		return -1;
	if (native->ndim)
		return native->shape[0];
	PyErr_SetString(PyExc_TypeError, "len() of a 0-D PinnedMemory");
	return -1;
}

static PyObject *iterate(PyObject *object)
{
	return get_length(object) < 0 ? NULL : PySeqIter_New(object);
}

static PyObject *get_native(PyObject *object, void *closure)
{
	(void)closure;
	return Py_NewRef((PyObject *)native_of(object));
}

static PyObject *get_array(PyObject *object, void *closure)
{
	struct qbpy_pinned *self = (struct qbpy_pinned *)object;

	(void)closure;
	if (qbpy_check_open(self->native))
		return NULL;
	return Py_XNewRef(qbpy_get_array(self));
}

static PyObject *get_nbytes(PyObject *object, void *closure)
{
	(void)closure;
	return get_size(object, NULL);
}

static PyObject *get_ndim(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromLong(native_of(object)->ndim);
}

static PyObject *get_itemsize(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromSsize_t(native_of(object)->itemsize);
}

static PyObject *get_strides(PyObject *object, void *closure)
{
	const struct qbpy_native *native = native_of(object);

	(void)closure;
	return qbpy_shape_to_tuple((const int64_t *)native->strides,
				   (size_t)native->ndim);
}

/* Of the native object a BufferError, for NumPy takes it as an object else. */
static PyObject *get_interface(PyObject *object, void *closure)
{
	if (native_of(object)->dtype == QBRT_DTYPE_BFLOAT16) {
		PyErr_SetString(PyExc_AttributeError,
				"__array_interface__ has no name for elements "
				"of bfloat16: use DLPack");
		return NULL;
	}
	return qbpy_array_interface((PyObject *)native_of(object), closure);
}

PyDoc_STRVAR(shape_doc, "shape($self, /)\n--\n\nThe extents, a tuple of int.");
PyDoc_STRVAR(dtype_doc, "dtype($self, /)\n--\n\n"
			"The numpy.dtype of an element.");
PyDoc_STRVAR(size_doc, "size($self, /)\n--\n\n"
		       "The size of all elements in bytes.");
PyDoc_STRVAR(is_available_doc,
	     "is_available($self, /)\n--\n\n"
	     "Whether the NPU can use the memory: not freed, device not lost, "
	     "no child of\nfork.");
PyDoc_STRVAR(contiguity_doc,
	     "contiguity($self, /)\n--\n\n"
	     "What is known of the physical memory: \"driver\" and "
	     "\"hugepage\" are\ncontiguous, \"locked\" is not proven to be.");
PyDoc_STRVAR(device_address_doc,
	     "device_address($self, /)\n--\n\n"
	     "The device's address of the first byte; None where the driver "
	     "does not tell.");
PyDoc_STRVAR(fill_doc, "fill($self, value, /)\n--\n\n"
		       "Set every element to one value, as numpy.ndarray.fill "
		       "does.");
PyDoc_STRVAR(free_doc,
	     "free($self, /)\n--\n\n"
	     "Give the memory back. Arrays and views that are left keep its "
	     "pages until\nthe last one goes. Again is harmless.");
PyDoc_STRVAR(cpu_access_doc,
	     "cpu_access($self, write=False)\n--\n\n"
	     "A context in which arrays made of this memory may be touched "
	     "while jobs may\ncome: it waits for those that write the memory, "
	     "to write for all that use it,\nand until its end such jobs are "
	     "refused. To write stands for a rewrite of all\nof it. Not needed "
	     "before an inference is called and after it has returned.");
PyDoc_STRVAR(tensor_doc, "tensor($self, /)\n--\n\n"
			 "A writable Tensor of the memory, which it keeps.");
PyDoc_STRVAR(export_fd_doc,
	     "export_fd($self, /)\n--\n\n"
	     "A new descriptor of the buffer, a dma-buf or a memfd, for "
	     "import_pinned_memory() in\nthis process or another. The caller "
	     "closes it.");

static PyMethodDef methods[] = {
	{ "contiguity", get_contiguity, METH_NOARGS, contiguity_doc },
	{ "cpu_access", (PyCFunction)(void (*)(void))qbpy_cpu_access,
	  METH_VARARGS | METH_KEYWORDS, cpu_access_doc },
	{ "device_address", device_address, METH_NOARGS, device_address_doc },
	{ "dtype", get_dtype, METH_NOARGS, dtype_doc },
	{ "export_fd", export_fd, METH_NOARGS, export_fd_doc },
	{ "fill", qbpy_fill, METH_O, fill_doc },
	{ "free", free_memory, METH_NOARGS, free_doc },
	{ "is_available", is_available, METH_NOARGS, is_available_doc },
	{ "shape", get_shape, METH_NOARGS, shape_doc },
	{ "size", get_size, METH_NOARGS, size_doc },
	{ "tensor", qbpy_pinned_tensor, METH_NOARGS, tensor_doc },
	{ "__array__", (PyCFunction)(void (*)(void))to_array,
	  METH_VARARGS | METH_KEYWORDS, NULL },
	{ "__dlpack__", (PyCFunction)(void (*)(void))qbpy_dlpack,
	  METH_FASTCALL | METH_KEYWORDS, qbpy_dlpack_doc },
	{ "__dlpack_device__", qbpy_dlpack_device, METH_NOARGS,
	  qbpy_dlpack_device_doc },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", exit_context, METH_VARARGS, NULL },
	{ "__reduce__", reduce, METH_NOARGS, NULL },
	{ "__reduce_ex__", reduce, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
	{ "itemsize", get_itemsize, NULL, "Bytes of an element.", NULL },
	{ "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
	{ "ndim", get_ndim, NULL, "The number of axes.", NULL },
	{ "strides", get_strides, NULL,
	  "Bytes between neighbours on each axis.", NULL },
	{ "__array_interface__", get_interface, NULL, NULL, NULL },
	{ "_array", get_array, NULL, "The memory as a numpy.ndarray.", NULL },
	{ "_pinned_memory", get_native, NULL, "The native object.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET,
	  offsetof(struct qbpy_pinned, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const char doc[] =
	"PinnedMemory(_pinned_memory)\n--\n\n"
	"Memory that the host and the NPU share, made by\n"
	"Accelerator.allocate_pinned_memory(). It is indexed as an ndarray is:\n"
	"a full index gives a NumPy scalar, slices give views of the same\n"
	"bytes. An access waits for the jobs that are in its way; what a\n"
	"failed job has left raises until it is rewritten whole.\n\n"
	"A context manager that frees the memory. Any thread may use it.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_new, new },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, repr },
	{ Py_tp_iter, iterate },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ Py_tp_members, members },
	{ Py_mp_length, get_length },
	{ Py_mp_subscript, qbpy_get_item },
	{ Py_mp_ass_subscript, qbpy_set_item },
	{ Py_sq_length, get_length },
	{ Py_sq_item, qbpy_get_nth },
	{ Py_bf_getbuffer, forward_buffer },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.pinned_memory.PinnedMemory",
	.basicsize = sizeof(struct qbpy_pinned),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int qbpy_add_pinned(PyObject *module)
{
	return qbpy_add_type(module, QBPY_PINNED_MEMORY, &spec, NULL);
}
