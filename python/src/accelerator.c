// SPDX-License-Identifier: MIT
/*
 * Accelerator and the handle under it. An Accelerator is
 * open while it has its AcceleratorHandle; models hold that too, so that closing
 * takes nothing from them. How they allocate is pinned_alloc.c.
 */
#include "module.h"

#include <structmember.h>

struct accelerator {
	PyObject_HEAD struct qbpy_state *state;
	struct qbpy_acc *handle; /* NULL: closed, or not opened yet */
	PyObject *weakrefs;
};

static void dealloc_handle(PyObject *object)
{
	struct qbpy_acc *self = (struct qbpy_acc *)object;

	if (self->acc) {
		PyThreadState *thread = PyEval_SaveThread();

		qbrt_accelerator_close(self->acc);
		PyEval_RestoreThread(thread);
	}
	qbpy_free_object(self);
}

/* "" names no device: the library says so and lists those that are there. */
static int parse_names(PyObject *args, PyObject *kw, const char **name,
		       PyObject **number)
{
	static char *keywords[] = { "device_name", "dev_no", NULL };
	PyObject *first = NULL;

	*number = NULL;
	*name = NULL;
	if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:Accelerator", keywords,
					 &first, number))
		return -1;
	if (*number == Py_None)
		*number = NULL;
	if (!first || first == Py_None)
		return 0;
	if (PyUnicode_Check(first))
		return qbpy_parse_text(first, "device_name", name);
	if (*number) {
		(void)qbpy_raise_type("a str for device_name", first);
		return -1;
	}
	*number = first;
	return 0;
}

static int init(PyObject *object, PyObject *args, PyObject *kw)
{
	struct accelerator *self = (struct accelerator *)object;
	long long wanted = -1;
	enum qbrt_status status;
	struct qbpy_acc *handle;
	PyObject *number;
	const char *name;

	if (parse_names(args, kw, &name, &number))
		return -1;
	if (number && qbpy_parse_int(number, "dev_no", &wanted))
		return -1;
	if (number && (wanted < 0 || wanted > INT_MAX)) {
		(void)qbpy_raise_text(self->state, QBRT_ACC_DEVICE_NOT_FOUND,
				      NULL,
				      "dev_no counts the devices of a name "
				      "from 0 on; no device has this number");
		return -1;
	}
	handle = qbpy_alloc_object(self->state->types[QBPY_ACCELERATOR_HANDLE]);
	if (!handle)
		return -1;
	qbpy_begin_wait();
	status = qbrt_accelerator_open(name, (int)wanted, &handle->acc);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, NULL)) {
		Py_DECREF(handle);
		return -1;
	}
	QBPY_REPLACE(self->handle, handle);
	return 0;
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = qbpy_get_state(type);
	struct accelerator *self = state ? qbpy_alloc_object(type) : NULL;

	(void)args;
	(void)kw;
	if (self)
		self->state = state;
	return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
	struct accelerator *self = (struct accelerator *)object;

	if (self->weakrefs)
		PyObject_ClearWeakRefs(object);
	Py_XDECREF((PyObject *)self->handle);
	qbpy_free_object(self);
}

/* A reference, so that a close() in another thread does no harm. */
static struct qbpy_acc *take_handle(struct accelerator *self)
{
	if (!self->handle) {
		(void)qbpy_raise_closed(self->state, "accelerator");
		return NULL;
	}
	return (struct qbpy_acc *)Py_NewRef((PyObject *)self->handle);
}

struct qbpy_state *qbpy_accelerator_state(PyObject *accelerator)
{
	return ((struct accelerator *)accelerator)->state;
}

PyObject *qbpy_get_handle(PyObject *accelerator)
{
	return (PyObject *)take_handle((struct accelerator *)accelerator);
}

const char *qbpy_acc_id(const PyObject *handle)
{
	const struct qbpy_acc *acc = (const struct qbpy_acc *)handle;

	return acc ? qbrt_accelerator_get_id(acc->acc) : NULL;
}

static PyObject *close_accelerator(PyObject *object, PyObject *none)
{
	struct accelerator *self = (struct accelerator *)object;

	(void)none;
	Py_CLEAR(self->handle);
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	struct qbpy_acc *handle = take_handle((struct accelerator *)object);

	(void)none;
	if (!handle)
		return NULL;
	Py_DECREF(handle);
	return Py_NewRef(object);
}

static PyObject *exit_context(PyObject *object, PyObject *args)
{
	(void)args;
	return close_accelerator(object, NULL);
}

static PyObject *get_device_name(PyObject *object, PyObject *none)
{
	struct qbpy_acc *handle = take_handle((struct accelerator *)object);
	PyObject *name;

	(void)none;
	if (!handle)
		return NULL;
	name = qbpy_text(qbrt_accelerator_get_name(handle->acc));
	Py_DECREF(handle);
	return name;
}

static PyObject *get_available_cores(PyObject *object, PyObject *none)
{
	struct accelerator *self = (struct accelerator *)object;
	struct qbpy_acc *handle = take_handle(self);
	struct qbrt_core_id cores[64];
	enum qbrt_status status;
	PyObject *list = NULL;
	size_t num = 0;

	(void)none;
	if (!handle)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_accelerator_query_cores(handle->acc, cores, 64, &num);
	qbpy_end_wait();
	if (!qbpy_check(self->state, status,
			qbrt_accelerator_get_id(handle->acc)))
		list = qbpy_cores_to_list(self->state, cores,
					  num < 64 ? num : 64);
	Py_DECREF(handle);
	return list;
}

/* A snapshot that the caller frees; NULL with an exception. */
static struct qbrt_device_info *query_info(struct accelerator *self)
{
	struct qbpy_acc *handle = take_handle(self);
	struct qbrt_device_info *info = NULL;
	enum qbrt_status status;

	if (!handle)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_accelerator_query_info(handle->acc, &info);
	qbpy_end_wait();
	if (qbpy_check(self->state, status,
		       qbrt_accelerator_get_id(handle->acc))) {
		qbrt_device_info_free(info);
		info = NULL;
	}
	Py_DECREF(handle);
	return info;
}

static PyObject *supported_core_modes(PyObject *object, PyObject *none)
{
	struct accelerator *self = (struct accelerator *)object;
	struct qbrt_device_info *info = query_info(self);
	PyObject *modes;

	(void)none;
	if (!info)
		return NULL;
	modes = qbpy_mask_to_list(self->state, QBPY_CORE_MODE,
				  qbrt_device_info_get_core_modes(info));
	qbrt_device_info_free(info);
	return modes;
}

static PyObject *get_info(PyObject *object, PyObject *none)
{
	struct accelerator *self = (struct accelerator *)object;
	struct qbrt_device_info *info = query_info(self);
	PyObject *fields, *answer = NULL;

	(void)none;
	if (!info)
		return NULL;
	fields = qbpy_info_to_tuple(self->state, info);
	qbrt_device_info_free(info);
	if (fields)
		answer = PyObject_Call(self->state->classes[QBPY_DEVICE_INFO],
				       fields, NULL);
	Py_XDECREF(fields);
	return answer;
}

/* Never fails for the device's sake: then it leaves the kind out. */
static PyObject *repr(PyObject *object)
{
	struct accelerator *self = (struct accelerator *)object;
	struct qbrt_device_info *info = NULL;
	struct qbpy_acc *handle = self->handle;
	enum qbrt_status status;
	const char *kind = NULL;
	PyObject *text;

	if (!handle)
		return PyUnicode_FromString("Accelerator(closed)");
	Py_INCREF((PyObject *)handle);
	qbpy_begin_wait();
	status = qbrt_accelerator_query_info(handle->acc, &info);
	qbpy_end_wait();
	if (!status)
		kind = qbpy_kind_name(info);
	text = PyUnicode_FromFormat("Accelerator(%s%s%s)",
				    qbrt_accelerator_get_id(handle->acc),
				    kind ? ", " : "", kind ? kind : "");
	qbrt_device_info_free(info);
	Py_DECREF(handle);
	return text;
}

static PyObject *get_handle_attribute(PyObject *object, void *closure)
{
	struct accelerator *self = (struct accelerator *)object;

	(void)closure;
	if (!self->handle)
		Py_RETURN_NONE;
	return Py_NewRef((PyObject *)self->handle);
}

PyDoc_STRVAR(get_device_name_doc,
	     "get_device_name($self, /)\n--\n\n"
	     "The name that an alias became, for example \"aries-rb\".");
PyDoc_STRVAR(get_available_cores_doc, "get_available_cores($self, /)\n--\n\n"
				      "The local cores, by cluster and core.");
PyDoc_STRVAR(info_doc,
	     "info($self, /)\n--\n\n"
	     "A fresh DeviceInfo; what is not known is None. Sizes in bytes.");
PyDoc_STRVAR(supported_core_modes_doc,
	     "supported_core_modes($self, /)\n--\n\n"
	     "The CoreModes that the device can run.");
PyDoc_STRVAR(
	allocate_doc,
	"allocate_pinned_memory($self, shape, dtype=None, *, "
	"require_contiguous=False, alignment=64)\n--\n\n"
	"Allocate memory that the host and the NPU share, filled with zeros.\n"
	"\n"
	"shape: an int or up to 8 of them, each at least 1; () is one element.\n"
	"dtype: what numpy.dtype() takes, or a DataType; None is float32.\n"
	"require_contiguous: refuse what is not proven to be physically\n"
	"contiguous. alignment: bytes, a power of two from 64 to 2 MiB.\n\n"
	"Raises ValueError for a shape or alignment, TypeError for a type,\n"
	"QbOutOfMemoryError, and QbRuntimeError with\n"
	"StatusCode.PinnedMemory_NotContiguous. Any thread may call it.");
PyDoc_STRVAR(
	import_doc,
	"import_pinned_memory($self, fd, shape, dtype, *, offset=0)\n--\n\n"
	"Make pinned memory of a descriptor: one of\n"
	"PinnedMemory.export_fd(), of this process or another, a memfd that\n"
	"cannot shrink, or a dma-buf. It is borrowed for the call.\n\n"
	"shape, dtype: as in allocate_pinned_memory(). offset: of the first\n"
	"byte, a multiple of 64. Read-only if the descriptor is.");
PyDoc_STRVAR(close_doc,
	     "close($self, /)\n--\n\n"
	     "Give the handle back; models and memory keep the device open "
	     "while they\nneed it. Again is harmless.");

static PyMethodDef methods[] = {
	{ "allocate_pinned_memory",
	  (PyCFunction)(void (*)(void))qbpy_allocate_pinned,
	  METH_VARARGS | METH_KEYWORDS, allocate_doc },
	{ "close", close_accelerator, METH_NOARGS, close_doc },
	{ "get_available_cores", get_available_cores, METH_NOARGS,
	  get_available_cores_doc },
	{ "get_device_name", get_device_name, METH_NOARGS,
	  get_device_name_doc },
	{ "import_pinned_memory",
	  (PyCFunction)(void (*)(void))qbpy_import_pinned,
	  METH_VARARGS | METH_KEYWORDS, import_doc },
	{ "info", get_info, METH_NOARGS, info_doc },
	{ "supported_core_modes", supported_core_modes, METH_NOARGS,
	  supported_core_modes_doc },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", exit_context, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
	{ "_accelerator", get_handle_attribute, NULL,
	  "The native handle; None when closed.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET,
	  offsetof(struct accelerator, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const char doc[] =
	"Accelerator(device_name=None, dev_no=None)\n--\n\n"
	"An open device: Accelerator(), Accelerator(dev_no),\n"
	"Accelerator(device_name), or both. Without a number the lowest\n"
	"visible one of the name is opened; without a name there may be one\n"
	"kind of device alone.\n\n"
	"Raises QbDeviceNotFoundError, or QbInvalidArgumentError for an\n"
	"environment variable. All handles of a device in one process share\n"
	"it. A context manager; any thread may call any method.";

static PyType_Slot handle_slots[] = {
	{ Py_tp_dealloc, dealloc_handle },
	{ 0, NULL },
};

static PyType_Spec handle_spec = {
	.name = "qbruntime.qbruntime.AcceleratorHandle",
	.basicsize = sizeof(struct qbpy_acc),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = handle_slots,
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_new, new },
	{ Py_tp_init, init },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ Py_tp_members, members },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.accelerator.Accelerator",
	.basicsize = sizeof(struct accelerator),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int qbpy_add_accelerator(PyObject *module)
{
	struct qbpy_state *state;

	if (qbpy_add_type(module, QBPY_ACCELERATOR_HANDLE, &handle_spec, NULL))
		return -1;
	if (qbpy_add_type(module, QBPY_ACCELERATOR, &spec, NULL))
		return -1;
	state = PyModule_GetState(module);
	return qbpy_add_methods(state->types[QBPY_ACCELERATOR],
				qbpy_query_methods);
}
