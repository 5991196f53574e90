// SPDX-License-Identifier: MIT
/*
 * The fake consumer of the tests: it takes structs from capsules and exchange
 * tables, says what they are, and drops them where a test wants, at the process's
 * end too.
 */
#include "fake_dlpack.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <qbruntime/qbrt.h>

struct consumer {
	PyObject_HEAD void *managed; /* NULL: dropped */
	bool is_versioned;
};

static void call_deleter(void *managed, bool is_versioned)
{
	DLManagedTensorVersioned *versioned = managed;
	DLManagedTensor *legacy = managed;

	if (!managed)
		return;
	if (is_versioned && versioned->deleter)
		versioned->deleter(versioned);
	else if (!is_versioned && legacy->deleter)
		legacy->deleter(legacy);
}

/* Deletes what it cannot keep. */
static PyObject *make_consumer(void *managed, bool is_versioned)
{
	struct consumer *self = (struct consumer *)fake_consumer_type.tp_alloc(
		&fake_consumer_type, 0);

	if (!self) {
		call_deleter(managed, is_versioned);
		return NULL;
	}
	self->managed = managed;
	self->is_versioned = is_versioned;
	return (PyObject *)self;
}

/* The struct, which is the caller's from now on. */
static void *take(PyObject *object)
{
	struct consumer *self = (struct consumer *)object;
	void *managed = self->managed;

	self->managed = NULL;
	return managed;
}

static PyObject *consume(PyObject *module, PyObject *capsule)
{
	static const char *const names[][2] = {
		{ "dltensor", "used_dltensor" },
		{ "dltensor_versioned", "used_dltensor_versioned" },
	};

	(void)module;
	for (int i = 0; i < 2; i++) {
		void *managed;

		if (!PyCapsule_IsValid(capsule, names[i][0]))
			continue;
		managed = PyCapsule_GetPointer(capsule, names[i][0]);
		if (PyCapsule_SetName(capsule, names[i][1]))
			return NULL;
		return make_consumer(managed, i);
	}
	PyErr_SetString(PyExc_ValueError, "no unused DLPack capsule");
	return NULL;
}

static PyObject *extents_to_tuple(const int64_t *extents, int num)
{
	PyObject *tuple;

	if (!extents)
		return Py_NewRef(Py_None);
	tuple = PyTuple_New(num);
	for (int i = 0; tuple && i < num; i++)
		PyTuple_SetItem(tuple, i, PyLong_FromLongLong(extents[i]));
	return tuple;
}

static PyObject *describe(const DLTensor *tensor)
{
	return Py_BuildValue(
		"{sNs(ii)s(iii)sNsNsK}", "address",
		PyLong_FromVoidPtr(tensor->data), "device",
		(int)tensor->device.device_type, (int)tensor->device.device_id,
		"dtype", tensor->dtype.code, tensor->dtype.bits,
		tensor->dtype.lanes, "shape",
		extents_to_tuple(tensor->shape, tensor->ndim), "strides",
		extents_to_tuple(tensor->strides, tensor->ndim), "byte_offset",
		(unsigned long long)tensor->byte_offset);
}

/* A dict; version and flags are None of a struct without them. */
static PyObject *get_fields(PyObject *object, PyObject *none)
{
	struct consumer *self = (struct consumer *)object;
	DLManagedTensorVersioned *versioned = self->managed;
	PyObject *fields, *more;

	(void)none;
	if (!self->is_versioned) {
		fields = describe(
			&((DLManagedTensor *)self->managed)->dl_tensor);
		more = Py_BuildValue("{sOsO}", "version", Py_None, "flags",
				     Py_None);
	} else {
		fields = describe(&versioned->dl_tensor);
		more = Py_BuildValue("{s(II)sK}", "version",
				     versioned->version.major,
				     versioned->version.minor, "flags",
				     (unsigned long long)versioned->flags);
	}
	if (fields && more && PyDict_Update(fields, more))
		Py_CLEAR(fields);
	Py_XDECREF(more);
	return fields;
}

static PyObject *drop(PyObject *object, PyObject *none)
{
	bool is_versioned = ((struct consumer *)object)->is_versioned;

	(void)none;
	call_deleter(take(object), is_versioned);
	Py_RETURN_NONE;
}

static PyObject *drop_without_gil(PyObject *object, PyObject *none)
{
	bool is_versioned = ((struct consumer *)object)->is_versioned;
	void *managed = take(object);

	(void)none;
	Py_BEGIN_ALLOW_THREADS;
	call_deleter(managed, is_versioned);
	Py_END_ALLOW_THREADS;
	Py_RETURN_NONE;
}

/* What one of several threads, which are none of Python's, drops. */
struct share {
	void **managed;
	bool *is_versioned;
	Py_ssize_t first, step, num;
};

static void *drop_share(void *arg)
{
	struct share *share = arg;

	for (Py_ssize_t i = share->first; i < share->num; i += share->step)
		call_deleter(share->managed[i], share->is_versioned[i]);
	return NULL;
}

/* keeps_gil: the caller's thread has it meanwhile, and nobody else can. */
static PyObject *drop_on_threads(PyObject *module, PyObject *args)
{
	pthread_t threads[16];
	struct share shares[16];
	PyThreadState *thread = NULL;
	int num_threads, keeps_gil = 0;
	PyObject *list;
	Py_ssize_t num;
	void **managed;
	bool *is_versioned;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!i|p", &PyList_Type, &list, &num_threads,
			      &keeps_gil))
		return NULL;
	num = PyList_Size(list);
	managed = calloc((size_t)num + 1, sizeof(*managed));
	is_versioned = calloc((size_t)num + 1, sizeof(*is_versioned));
	if (!managed || !is_versioned || num_threads > 16)
		return PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < num; i++) {
		PyObject *consumer = PyList_GetItem(list, i);

		is_versioned[i] = ((struct consumer *)consumer)->is_versioned;
		managed[i] = take(consumer);
	}
	if (!keeps_gil)
		thread = PyEval_SaveThread();
	for (int i = 0; i < num_threads; i++) {
		shares[i] = (struct share){ managed, is_versioned, i,
					    num_threads, num };
		if (pthread_create(&threads[i], NULL, drop_share, &shares[i]))
			abort();
	}
	for (int i = 0; i < num_threads; i++)
		(void)pthread_join(threads[i], NULL);
	if (thread)
		PyEval_RestoreThread(thread);
	free(managed);
	free(is_versioned);
	Py_RETURN_NONE;
}

/* For the time after Python: what is dropped then, and what is said of it. */
static struct {
	void *managed;
	bool is_versioned;
} last[64];
static size_t num_last;

static void drop_last(void)
{
	struct qbrt_bridge_stats stats = { .size = sizeof(stats) };

	for (size_t i = 0; i < num_last; i++)
		call_deleter(last[i].managed, last[i].is_versioned);
	qbrt_bridge_get_stats(&stats);
	(void)printf("%d exports %" PRIu64 " deferred %" PRIu64 "\n",
		     Py_IsInitialized(),
		     stats.exports_legacy + stats.exports_versioned +
			     stats.exports_owned_c,
		     stats.deferred_releases);
}

static PyObject *drop_at_exit(PyObject *object, PyObject *none)
{
	(void)none;
	if (num_last == 64 || (!num_last && atexit(drop_last))) {
		PyErr_SetString(PyExc_RuntimeError, "no room for more");
		return NULL;
	}
	last[num_last].is_versioned = ((struct consumer *)object)->is_versioned;
	last[num_last++].managed = take(object);
	Py_RETURN_NONE;
}

/* ---- by the exchange table ---- */

static const DLPackExchangeAPI *find_table(PyObject *type)
{
	PyObject *capsule =
		PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
	const DLPackExchangeAPI *table =
		capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
			: NULL;

	Py_XDECREF(capsule);
	return table;
}

static PyObject *exchange_address(PyObject *module, PyObject *type)
{
	const DLPackExchangeAPI *table = find_table(type);

	(void)module;
	return table ? Py_BuildValue("(N(II))",
				     PyLong_FromVoidPtr((void *)table),
				     table->header.version.major,
				     table->header.version.minor)
		     : NULL;
}

static PyObject *exchange_export(PyObject *module, PyObject *object)
{
	const DLPackExchangeAPI *table =
		find_table((PyObject *)Py_TYPE(object));
	DLManagedTensorVersioned *managed;

	(void)module;
	if (!table ||
	    table->managed_tensor_from_py_object_no_sync(object, &managed))
		return NULL;
	return make_consumer(managed, true);
}

/* By the table of another type than the object's, too. */
static PyObject *exchange_borrow(PyObject *module, PyObject *args)
{
	PyObject *object, *type = NULL;
	const DLPackExchangeAPI *table;
	DLTensor tensor;

	(void)module;
	if (!PyArg_ParseTuple(args, "O|O", &object, &type))
		return NULL;
	table = find_table(type ? type : (PyObject *)Py_TYPE(object));
	if (!table || table->dltensor_from_py_object_no_sync(object, &tensor))
		return NULL;
	return describe(&tensor);
}

/* A Record's struct or a Consumer's; if it is refused it stays theirs. */
static PyObject *exchange_import(PyObject *module, PyObject *args)
{
	DLManagedTensorVersioned *managed;
	const DLPackExchangeAPI *table;
	PyObject *type, *from;
	void *object = NULL;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &type, &from))
		return NULL;
	managed = Py_TYPE(from) == &fake_record_type
			  ? ((struct fake_record *)from)->versioned
			  : ((struct consumer *)from)->managed;
	table = find_table(type);
	if (!table ||
	    table->managed_tensor_to_py_object_no_sync(managed, &object))
		return NULL;
	if (Py_TYPE(from) == &fake_consumer_type)
		(void)take(from);
	return object;
}

struct refusal {
	int calls;
	char text[300];
};

static void set_error(void *error_ctx, const char *kind, const char *message)
{
	struct refusal *refusal = error_ctx;

	refusal->calls++;
	(void)snprintf(refusal->text, sizeof(refusal->text), "%s: %s", kind,
		       message);
}

/* Without the GIL; a RuntimeError of the one call of SetError. */
static PyObject *exchange_allocate(PyObject *module, PyObject *args)
{
	DLManagedTensorVersioned *managed = NULL;
	struct refusal refusal = { .calls = 0 };
	int code, bits, lanes, type, id, ret;
	const DLPackExchangeAPI *table;
	PyObject *cls, *shape;
	int64_t extents[64];
	DLTensor prototype = { .shape = extents };

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!(iii)(ii)", &cls, &PyTuple_Type, &shape,
			      &code, &bits, &lanes, &type, &id))
		return NULL;
	table = find_table(cls);
	if (!table)
		return NULL;
	prototype.ndim = (int)PyTuple_Size(shape);
	for (int i = 0; i < prototype.ndim; i++)
		extents[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
	prototype.device.device_type = (DLDeviceType)type;
	prototype.device.device_id = id;
	prototype.dtype.code = (uint8_t)code;
	prototype.dtype.bits = (uint8_t)bits;
	prototype.dtype.lanes = (uint16_t)lanes;
	Py_BEGIN_ALLOW_THREADS;
	ret = table->managed_tensor_allocator(&prototype, &managed, &refusal,
					      set_error);
	Py_END_ALLOW_THREADS;
	if (refusal.calls != (ret ? 1 : 0) || !ret != (managed != NULL))
		return PyErr_Format(PyExc_AssertionError,
				    "%d, and %d calls of SetError", ret,
				    refusal.calls);
	if (!ret)
		return make_consumer(managed, true);
	PyErr_SetString(PyExc_RuntimeError, refusal.text);
	return NULL;
}

static PyObject *exchange_stream(PyObject *module, PyObject *args)
{
	const DLPackExchangeAPI *table;
	void *stream = &table;
	int type, id;
	PyObject *cls;

	(void)module;
	if (!PyArg_ParseTuple(args, "O(ii)", &cls, &type, &id))
		return NULL;
	table = find_table(cls);
	if (!table ||
	    table->current_work_stream((DLDeviceType)type, id, &stream))
		return NULL;
	return PyLong_FromVoidPtr(stream);
}

static void dealloc(PyObject *object)
{
	PyObject *type, *value, *traceback;
	bool is_versioned = ((struct consumer *)object)->is_versioned;

	PyErr_Fetch(&type, &value, &traceback);
	call_deleter(take(object), is_versioned);
	PyErr_Restore(type, value, traceback);
	Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
	{ "drop", drop, METH_NOARGS, "Calls the deleter, here." },
	{ "drop_without_gil", drop_without_gil, METH_NOARGS, NULL },
	{ "drop_at_exit", drop_at_exit, METH_NOARGS,
	  "After Python has ended, by C's atexit()." },
	{ "fields", get_fields, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

PyTypeObject fake_consumer_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fake_dlpack.Consumer",
	.tp_basicsize = sizeof(struct consumer),
	.tp_dealloc = dealloc,
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.tp_methods = methods,
};

static PyMethodDef functions[] = {
	{ "consume", consume, METH_O, "A Consumer of an unused capsule." },
	{ "drop_on_threads", drop_on_threads, METH_VARARGS, NULL },
	{ "exchange_address", exchange_address, METH_O, NULL },
	{ "exchange_allocate", exchange_allocate, METH_VARARGS, NULL },
	{ "exchange_borrow", exchange_borrow, METH_VARARGS, NULL },
	{ "exchange_capsule",
	  (PyCFunction)(void (*)(void))fake_exchange_capsule,
	  METH_VARARGS | METH_KEYWORDS, NULL },
	{ "exchange_export", exchange_export, METH_O, NULL },
	{ "exchange_import", exchange_import, METH_VARARGS, NULL },
	{ "exchange_stream", exchange_stream, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "fake_dlpack",
	.m_doc = "The doubles of the tests of DLPack.",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit_fake_dlpack(void);

PyMODINIT_FUNC PyInit_fake_dlpack(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module || PyModule_AddType(module, &fake_record_type) ||
	    PyModule_AddType(module, &fake_forwarder_type) ||
	    PyModule_AddType(module, &fake_consumer_type))
		return NULL;
	return module;
}
