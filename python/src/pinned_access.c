// SPDX-License-Identifier: MIT
/*
 * CpuAccess: the context that PinnedMemory.cpu_access() gives. While it is open
 * it is a use of the memory, so that free() waits for its end.
 */
#include "module.h"

struct cpu_access {
	PyObject_HEAD struct qbpy_pinned *pinned;
	uint32_t flags;
	unsigned int depth; /* how often it is open: it may be entered again */
};

enum qbrt_status qbpy_end_access(struct qbpy_native *native)
{
	enum qbrt_status status =
		qbrt_pinned_memory_end_cpu_access(native->mem);

	qbpy_end_use(native);
	return status;
}

enum qbrt_status qbpy_begin_access(struct qbpy_native *native, uint32_t flags)
{
	enum qbrt_status status;

	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_begin_cpu_access(native->mem, flags);
	qbpy_end_wait();
	if (status) {
		qbpy_end_use(native);
		return status;
	}
	if (!PyErr_Occurred())
		return QBRT_OK;
	(void)qbpy_end_access(native);
	return QBRT_INTERRUPTED;
}

PyObject *qbpy_cpu_access(PyObject *self, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "write", NULL };
	struct qbpy_pinned *pinned = (struct qbpy_pinned *)self;
	struct cpu_access *access;
	PyObject *write = Py_False;
	bool is_write;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:cpu_access", keywords,
					 &write) ||
	    qbpy_parse_bool(write, "write", &is_write) ||
	    qbpy_check_open(pinned->native))
		return NULL;
	access = qbpy_alloc_object(pinned->state->types[QBPY_CPU_ACCESS]);
	if (!access)
		return NULL;
	access->pinned = (struct qbpy_pinned *)Py_NewRef(self);
	access->flags = QBRT_CPU_READ | (is_write ? QBRT_CPU_WRITE : 0u);
	return (PyObject *)access;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	struct cpu_access *self = (struct cpu_access *)object;
	struct qbpy_native *native = self->pinned->native;
	enum qbrt_status status;

	(void)none;
	if (qbpy_check_open(native))
		return NULL;
	status = qbpy_begin_access(native, self->flags);
	if (qbpy_check_native(native, status))
		return NULL;
	self->depth++;
	return Py_NewRef((PyObject *)self->pinned);
}

static PyObject *exit_context(PyObject *object, PyObject *args)
{
	struct cpu_access *self = (struct cpu_access *)object;
	struct qbpy_native *native = self->pinned->native;

	(void)args;
	if (!self->depth) {
		PyErr_SetString(PyExc_RuntimeError, "the access is not open");
		return NULL;
	}
	self->depth--;
	if (qbpy_check(native->state, qbpy_end_access(native), NULL))
		return NULL;
	Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT((PyObject *)((struct cpu_access *)object)->pinned);
	return 0;
}

static void dealloc(PyObject *object)
{
	struct cpu_access *self = (struct cpu_access *)object;

	PyObject_GC_UnTrack(object);
	while (self->depth) {
		self->depth--;
		(void)qbpy_end_access(self->pinned->native);
	}
	Py_XDECREF((PyObject *)self->pinned);
	qbpy_free_object(self);
}

static PyObject *reduce(PyObject *object, PyObject *args)
{
	(void)object;
	(void)args;
	PyErr_SetString(PyExc_TypeError,
			"CpuAccess cannot be pickled or copied: it belongs to "
			"one PinnedMemory of this process");
	return NULL;
}

static PyMethodDef methods[] = {
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", exit_context, METH_VARARGS, NULL },
	{ "__reduce__", reduce, METH_NOARGS, NULL },
	{ "__reduce_ex__", reduce, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_traverse, traverse },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.qbruntime.CpuAccess",
	.basicsize = sizeof(struct cpu_access),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

int qbpy_add_cpu_access(PyObject *module)
{
	return qbpy_add_type(module, QBPY_CPU_ACCESS, &spec, NULL);
}
