// SPDX-License-Identifier: MIT
/*
 * The fake producer of the tests, for fakes.py: structs with whatever fields a
 * test wants, in capsules or by an exchange table, and what became of them. The
 * other half of the extension is fake_consumer.c. Never installed.
 */
#include "fake_dlpack.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void unref(struct record *record)
{
	if (atomic_fetch_sub(&record->references, 1) > 1)
		return;
	if (record->pages)
		(void)munmap(record->pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
	free(record->extents);
	free(record);
}

/* A second call ends the process, also one that nobody would count any more. */
static void count_call(struct record *record)
{
	if (atomic_fetch_add(&record->deleter_calls, 1)) {
		(void)fputs("fake_dlpack: a deleter was called again\n",
			    stderr);
		abort();
	}
	record->had_gil = PyGILState_Check();
	record->had_error = record->had_gil && PyErr_Occurred();
	record->deleter_thread = gettid();
	if (record->owner) {
		PyGILState_STATE gil = PyGILState_Ensure();

		Py_CLEAR(record->owner);
		PyGILState_Release(gil);
	}
	if (record->leaves_error && record->had_gil)
		PyErr_SetString(PyExc_RuntimeError, "left by a deleter");
	unref(record);
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
	count_call(managed->manager_ctx);
}

static void delete_legacy(DLManagedTensor *managed)
{
	count_call(managed->manager_ctx);
}

/* Ends where a page begins that may not be touched; only its prefix is there. */
static DLManagedTensorVersioned *place_prefix(struct record *record)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t prefix = offsetof(DLManagedTensorVersioned, dl_tensor);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE)) {
		PyErr_SetFromErrno(PyExc_OSError);
		return NULL;
	}
	record->pages = pages;
	memcpy(pages + page - prefix, &record->versioned, prefix);
	return (DLManagedTensorVersioned *)(void *)(pages + page - prefix);
}

/* A tuple of int64 at to; None gives NULL. */
static int read_extents(PyObject *object, int64_t *to, int64_t **at)
{
	*at = NULL;
	if (object == Py_None)
		return 0;
	*at = to;
	for (Py_ssize_t i = 0; i < PyTuple_Size(object); i++)
		to[i] = PyLong_AsLongLong(PyTuple_GetItem(object, i));
	return PyErr_Occurred() ? -1 : 0;
}

static Py_ssize_t get_length(PyObject *object)
{
	return PyTuple_Check(object) ? PyTuple_Size(object) : 0;
}

/* The arguments of Record, but for what its struct's frame is. */
static int fill_tensor(struct record *record, DLTensor *tensor,
		       unsigned long long address, PyObject *shape,
		       PyObject *strides, int ndim)
{
	size_t num = (size_t)(get_length(shape) + get_length(strides));

	record->extents = calloc(num + 1, sizeof(*record->extents));
	if (!record->extents) {
		(void)PyErr_NoMemory();
		return -1;
	}
	tensor->data = (void *)(uintptr_t)address;
	tensor->ndim = ndim == -1 ? (int)get_length(shape) : ndim;
	return read_extents(shape, record->extents, &tensor->shape) ||
			       read_extents(strides,
					    record->extents + get_length(shape),
					    &tensor->strides)
		       ? -1
		       : 0;
}

struct arguments {
	unsigned long long address, byte_offset, flags;
	PyObject *shape, *strides, *owner;
	int code, bits, lanes, type, id, major, minor, ndim;
	int has_deleter, leaves_error, is_prefix;
};

static int parse(PyObject *args, PyObject *kw, struct arguments *a)
{
	static char *keywords[] = {
		"address",     "shape",        "strides",   "dtype", "device",
		"version",     "byte_offset",  "flags",     "ndim",  "owner",
		"has_deleter", "leaves_error", "is_prefix", NULL
	};

	*a = (struct arguments){ .strides = Py_None,
				 .owner = NULL,
				 .code = 2,
				 .bits = 32,
				 .lanes = 1,
				 .type = 1,
				 .major = 1,
				 .minor = 3,
				 .ndim = -1,
				 .has_deleter = 1 };
	return PyArg_ParseTupleAndKeywords(
		args, kw, "KO|O(iii)(ii)(ii)KKiOppp:Record", keywords,
		&a->address, &a->shape, &a->strides, &a->code, &a->bits,
		&a->lanes, &a->type, &a->id, &a->major, &a->minor,
		&a->byte_offset, &a->flags, &a->ndim, &a->owner,
		&a->has_deleter, &a->leaves_error, &a->is_prefix);
}

/* version (0, n): a struct without one, unless it is to be a prefix. */
static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct arguments a;
	struct fake_record *self;
	struct record *record;
	DLTensor *tensor;

	if (!parse(args, kw, &a))
		return NULL;
	self = (struct fake_record *)type->tp_alloc(type, 0);
	record = calloc(1, sizeof(*record));
	if (!self || !record)
		return PyErr_NoMemory();
	atomic_store(&record->references, 2);
	record->leaves_error = a.leaves_error;
	record->owner = a.owner == Py_None ? NULL : Py_XNewRef(a.owner);
	self->record = record;
	self->is_versioned = a.major || a.is_prefix;
	tensor = self->is_versioned ? &record->versioned.dl_tensor
				    : &record->legacy.dl_tensor;
	if (fill_tensor(record, tensor, a.address, a.shape, a.strides, a.ndim))
		return NULL;
	tensor->device.device_type = (DLDeviceType)a.type;
	tensor->device.device_id = a.id;
	tensor->dtype.code = (uint8_t)a.code;
	tensor->dtype.bits = (uint8_t)a.bits;
	tensor->dtype.lanes = (uint16_t)a.lanes;
	tensor->byte_offset = a.byte_offset;
	record->legacy.manager_ctx = record;
	record->legacy.deleter = a.has_deleter ? delete_legacy : NULL;
	record->versioned.version.major = (uint32_t)a.major;
	record->versioned.version.minor = (uint32_t)a.minor;
	record->versioned.manager_ctx = record;
	record->versioned.deleter = a.has_deleter ? delete_versioned : NULL;
	record->versioned.flags = a.flags;
	self->versioned =
		a.is_prefix ? place_prefix(record) : &record->versioned;
	return self->versioned ? (PyObject *)self : NULL;
}

static void dealloc(PyObject *object)
{
	struct fake_record *self = (struct fake_record *)object;

	unref(self->record);
	Py_TYPE(object)->tp_free(object);
}

static void destroy(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		DLManagedTensorVersioned *managed =
			PyCapsule_GetPointer(capsule, "dltensor_versioned");

		if (managed->deleter)
			managed->deleter(managed);
	} else if (PyCapsule_IsValid(capsule, "dltensor")) {
		DLManagedTensor *managed =
			PyCapsule_GetPointer(capsule, "dltensor");

		if (managed->deleter)
			managed->deleter(managed);
	}
	PyErr_Clear();
}

static PyObject *make_capsule(PyObject *object, PyObject *none)
{
	struct fake_record *self = (struct fake_record *)object;

	(void)none;
	if (self->is_versioned)
		return PyCapsule_New(self->versioned, "dltensor_versioned",
				     destroy);
	return PyCapsule_New(&self->record->legacy, "dltensor", destroy);
}

static PyObject *make_used(PyObject *object, PyObject *none)
{
	PyObject *capsule = make_capsule(object, none);

	if (capsule)
		(void)PyCapsule_SetName(
			capsule, ((struct fake_record *)object)->is_versioned
					 ? "used_dltensor_versioned"
					 : "used_dltensor");
	return capsule;
}

static PyObject *get_calls(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromLong((long)atomic_load(
		&((struct fake_record *)object)->record->deleter_calls));
}

static PyObject *get_thread(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromLong(
		((struct fake_record *)object)->record->deleter_thread);
}

static PyObject *get_had_gil(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct fake_record *)object)->record->had_gil);
}

static PyObject *get_had_error(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(
		((struct fake_record *)object)->record->had_error);
}

static PyMethodDef methods[] = {
	{ "capsule", make_capsule, METH_NOARGS, "An unused capsule of it." },
	{ "used_capsule", make_used, METH_NOARGS, "A consumed one." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
	{ "deleter_calls", get_calls, NULL, NULL, NULL },
	{ "deleter_thread", get_thread, NULL, NULL, NULL },
	{ "had_gil", get_had_gil, NULL, NULL, NULL },
	{ "had_error", get_had_error, NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject fake_record_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fake_dlpack.Record",
	.tp_basicsize = sizeof(struct fake_record),
	.tp_dealloc = dealloc,
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_methods = methods,
	.tp_getset = attributes,
	.tp_new = new,
};

/* What answer() of a derived class says to the names of the arguments. */
static PyObject *forward_dlpack(PyObject *self, PyObject *const *args,
				Py_ssize_t num, PyObject *names)
{
	(void)args;
	(void)num;
	return PyObject_CallMethod(self, "answer", "(O)",
				   names ? names : Py_None);
}

static PyMethodDef forwarder_methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))forward_dlpack,
	  METH_FASTCALL | METH_KEYWORDS, NULL },
	{ NULL, NULL, 0, NULL },
};

/* A producer whose __dlpack__ is a method in C. */
PyTypeObject fake_forwarder_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fake_dlpack.Forwarder",
	.tp_basicsize = sizeof(PyObject),
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.tp_methods = forwarder_methods,
	.tp_new = PyType_GenericNew,
};

/* Entry 2 of the fake's table: the struct of the Record that _exchange() gives. */
static int export_record(void *object, DLManagedTensorVersioned **managed)
{
	PyObject *record = PyObject_CallMethod(object, "_exchange", NULL);

	if (!record)
		return -1;
	/* the struct has its own reference on the record */
	*managed = ((struct fake_record *)record)->versioned;
	Py_DECREF(record);
	return 0;
}

PyObject *fake_exchange_capsule(PyObject *module, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "major", "previous", "has_export", "name",
				    NULL };
	const char *name = "dlpack_exchange_api";
	PyObject *previous = Py_None;
	int major = 1, has_export = 1;
	DLPackExchangeAPI *table;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kw, "|iOpz", keywords, &major,
					 &previous, &has_export, &name))
		return NULL;
	table = calloc(1, sizeof(*table)); /* such a table is never freed */
	if (!table)
		return PyErr_NoMemory();
	table->header.version.major = (uint32_t)major;
	table->header.version.minor = 3;
	if (previous != Py_None)
		table->header.prev_api =
			PyCapsule_GetPointer(previous, "dlpack_exchange_api");
	if (has_export)
		table->managed_tensor_from_py_object_no_sync = export_record;
	/* the capsule keeps the pointer */
	return PyCapsule_New(table, name ? strdup(name) : NULL, NULL);
}
