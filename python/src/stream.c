// SPDX-License-Identifier: MIT
/*
 * Stream arguments, checked by one function, and what qbruntime.streams has
 * besides: Device, the current device, the bridge's counters.
 */
#include "bridge.h"

#include <structmember.h>

/* An int of 64 bits or, from what, an error that names it. */
static int parse_handle(PyObject *object, const char *what, uint64_t *handle)
{
	*handle = PyLong_AsUnsignedLongLong(object);
	if (!PyErr_Occurred())
		return 0;
	if (!PyErr_ExceptionMatches(PyExc_OverflowError))
		return -1;
	PyErr_Clear();
	return qbpy_raise_number(what, object, "a stream's handle, 64 bits");
}

/* What __cuda_stream__() gives: (0, handle), both plain ints. */
static int check_pair(PyObject *pair)
{
	PyObject *version, *handle;
	uint64_t number;

	if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
		PyErr_Format(PyExc_TypeError,
			     "__cuda_stream__() gave %R, expected the pair "
			     "(0, handle)",
			     pair);
		return -1;
	}
	version = PyTuple_GetItem(pair, 0);
	handle = PyTuple_GetItem(pair, 1);
	if (!PyLong_Check(version) || PyBool_Check(version) ||
	    !PyLong_Check(handle) || PyBool_Check(handle)) {
		PyErr_Format(PyExc_TypeError,
			     "__cuda_stream__() gave %R, expected two ints, "
			     "(0, handle)",
			     pair);
		return -1;
	}
	if (parse_handle(version, "the version of __cuda_stream__()", &number))
		return -1;
	if (number) {
		PyErr_Format(PyExc_ValueError,
			     "__cuda_stream__() speaks version %R, expected 0",
			     version);
		return -1;
	}
	return parse_handle(handle, "the handle of __cuda_stream__()", &number);
}

static int check_object(PyObject *object)
{
	PyObject *method = PyObject_GetAttrString(object, "__cuda_stream__");
	PyObject *pair;
	int ret;

	if (!method) {
		if (!PyErr_ExceptionMatches(PyExc_AttributeError))
			return -1;
		PyErr_Clear();
		(void)qbpy_raise_type("an int, an object with "
				      "__cuda_stream__() or None for stream",
				      object);
		return -1;
	}
	if (!PyCallable_Check(method)) {
		Py_DECREF(method);
		PyErr_SetString(PyExc_TypeError,
				"__cuda_stream__ of stream is not callable");
		return -1;
	}
	pair = PyObject_CallNoArgs(method);
	Py_DECREF(method);
	ret = pair ? check_pair(pair) : -1;
	Py_XDECREF(pair);
	return ret;
}

static int refuse_import_stream(PyObject *object)
{
	PyErr_Format(PyExc_ValueError,
		     "stream is %R: 0 is ambiguous and -1 orders nothing, so "
		     "an import takes neither; 1 is the default stream",
		     object);
	return -1;
}

int qbpy_parse_stream(PyObject *object, enum qbpy_stream_use use)
{
	uint64_t handle;
	long long number;

	if (object == Py_None)
		return 0;
	if (PyBool_Check(object) || !PyIndex_Check(object))
		return check_object(object);
	if (qbpy_parse_int(object, "stream", &number))
		return -1;
	if (use == QBPY_STREAM_OF_IMPORT && (number == 0 || number == -1))
		return refuse_import_stream(object);
	if (number >= -1 && number < LLONG_MAX)
		return 0;
	if (number > 0) {
		PyObject *index = PyNumber_Index(object);
		int ret = index ? parse_handle(index, "stream", &handle) : -1;

		Py_XDECREF(index);
		return ret;
	}
	return qbpy_raise_number("stream", object, "-1, or 0 and more");
}

/* Device */
struct device {
	PyObject_HEAD PyObject *key; /* (type, name, index) */
};

static PyObject *get_part(PyObject *object, void *closure)
{
	Py_ssize_t i = (Py_ssize_t)(intptr_t)closure;

	return Py_NewRef(PyTuple_GetItem(((struct device *)object)->key, i));
}

static PyObject *to_text(PyObject *object)
{
	PyObject *key = ((struct device *)object)->key;

	return PyUnicode_FromFormat("%U:%S", PyTuple_GetItem(key, 1),
				    PyTuple_GetItem(key, 2));
}

static PyObject *device_repr(PyObject *object)
{
	PyObject *text = to_text(object);
	PyObject *repr =
		text ? PyUnicode_FromFormat("<Device %U>", text) : NULL;

	Py_XDECREF(text);
	return repr;
}

static PyObject *compare(PyObject *one, PyObject *other, int op)
{
	if (Py_TYPE(one) != Py_TYPE(other) || (op != Py_EQ && op != Py_NE))
		return Py_NewRef(Py_NotImplemented);
	return PyObject_RichCompare(((struct device *)one)->key,
				    ((struct device *)other)->key, op);
}

static Py_hash_t hash(PyObject *object)
{
	return PyObject_Hash(((struct device *)object)->key);
}

static void dealloc(PyObject *object)
{
	Py_XDECREF(((struct device *)object)->key);
	qbpy_free_object(object);
}

static PyGetSetDef device_attributes[] = {
	{ "type", get_part, NULL, "\"npu\".", (void *)(intptr_t)0 },
	{ "name", get_part, NULL, "As Accelerator takes it: \"aries-rb\".",
	  (void *)(intptr_t)1 },
	{ "index", get_part, NULL, "The number under that name.",
	  (void *)(intptr_t)2 },
	{ NULL, NULL, NULL, NULL, NULL },
};

static const char device_doc[] =
	"A device by type, name and number; str() of it is its id,\n"
	"\"aries-rb:0\". Equal ones are equal keys.";

static PyType_Slot device_slots[] = {
	{ Py_tp_doc, (void *)device_doc },   { Py_tp_dealloc, dealloc },
	{ Py_tp_repr, device_repr },         { Py_tp_str, to_text },
	{ Py_tp_richcompare, compare },      { Py_tp_hash, hash },
	{ Py_tp_getset, device_attributes }, { 0, NULL },
};

static PyType_Spec device_spec = {
	.name = "qbruntime.streams.Device",
	.basicsize = sizeof(struct device),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = device_slots,
};

int qbpy_add_device(PyObject *module)
{
	return qbpy_add_type(module, QBPY_DEVICE, &device_spec, NULL);
}

static PyObject *device_of(struct qbpy_state *state,
			   const struct qbrt_device_info *info)
{
	struct device *self = qbpy_alloc_object(state->types[QBPY_DEVICE]);

	if (!self)
		return NULL;
	self->key =
		Py_BuildValue("(ssi)", "npu", qbrt_device_info_get_name(info),
			      qbrt_device_info_get_number(info));
	if (!self->key)
		Py_CLEAR(self);
	return (PyObject *)self;
}

PyObject *qbpy_current_device(PyObject *module, PyObject *none)
{
	struct qbpy_state *state = PyModule_GetState(module);
	struct qbrt_device_info **infos = NULL;
	PyObject *device = NULL;
	enum qbrt_status status;
	size_t num = 0;

	(void)none;
	qbpy_begin_wait();
	status = qbrt_device_info_list(NULL, &infos, &num);
	qbpy_end_wait();
	if (!qbpy_check(state, status, NULL)) {
		device = num ? device_of(state, infos[0])
			     : qbpy_raise_text(state, QBRT_ACC_DEVICE_NOT_FOUND,
					       NULL, "no device is visible");
	}
	qbrt_device_info_list_free(infos, num);
	return device;
}

PyObject *qbpy_bridge_stats(PyObject *module, PyObject *none)
{
	static const char *const names[] = {
		"storages",
		"tensors",
		"streams",
		"events",
		"exports_legacy",
		"exports_versioned",
		"exports_owned_c",
		"exports_borrowed",
		"pending_retirements",
		"deferred_releases",
		"quarantined",
		"leaked",
		"events_created",
		"events_reused",
		"device_waits",
		"host_blocks",
		"rung1",
		"rung2",
		"rung3",
		"cuda_registrations",
		"ipc_entries",
	};
	struct qbrt_bridge_stats stats = { .size = sizeof(stats) };
	uint64_t values[sizeof(names) / sizeof(names[0])];
	PyObject *dict = PyDict_New();

	_Static_assert(offsetof(struct qbrt_bridge_stats, storages) +
				       sizeof(values) ==
			       sizeof(stats),
		       "a name for each counter");
	(void)none;
	qbpy_drain(PyModule_GetState(module));
	qbrt_bridge_get_stats(&stats);
	memcpy(values,
	       (char *)&stats + offsetof(struct qbrt_bridge_stats, storages),
	       sizeof(values));
	for (size_t i = 0; dict && i < sizeof(names) / sizeof(names[0]); i++) {
		PyObject *value = PyLong_FromUnsignedLongLong(values[i]);

		if (!value || PyDict_SetItemString(dict, names[i], value))
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}
