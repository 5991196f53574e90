// SPDX-License-Identifier: MIT
/*
 * qbruntime.qbruntime: the module, its functions, the GIL and signals, and NumPy
 * once it is needed. module.h says how it all hangs together.
 */
#include "bridge.h"

#include <stdatomic.h>
#include <unistd.h>

static struct PyModuleDef definition;

PyMODINIT_FUNC PyInit_qbruntime(void);

/* What qbpy_begin_wait() set aside on this thread; NULL: it has the GIL. */
static _Thread_local PyThreadState *waiting;

void qbpy_begin_wait(void)
{
	waiting = PyEval_SaveThread();
}

void qbpy_end_wait(void)
{
	PyThreadState *thread = waiting;

	waiting = NULL;
	PyEval_RestoreThread(thread);
}

/*
 * Python runs signal handlers on its main thread alone, which is the process's
 * first. A handler may come back to the library and wait in there itself.
 */
static bool interrupt(void *arg)
{
	bool is_to_stop;

	(void)arg;
	if (!waiting || gettid() != getpid())
		return false;
	qbpy_end_wait();
	is_to_stop = PyErr_Occurred() || PyErr_CheckSignals();
	qbpy_begin_wait();
	return is_to_stop;
}

struct qbpy_state *qbpy_get_module_state(PyObject *module)
{
	if (PyModule_Check(module) && PyModule_GetDef(module) == &definition)
		return PyModule_GetState(module);
	(void)qbpy_raise_type("the module qbruntime.qbruntime", module);
	return NULL;
}

/* A class of Python's has no module, but a base that is ours. */
struct qbpy_state *qbpy_get_state(PyTypeObject *type)
{
	for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
		PyObject *module = PyType_GetModule(type);

		if (module && PyModule_GetDef(module) == &definition)
			return PyModule_GetState(module);
		PyErr_Clear();
	}
	PyErr_SetString(PyExc_TypeError, "this type is not of qbruntime");
	return NULL;
}

int qbpy_add_type(PyObject *module, enum qbpy_type which, PyType_Spec *spec,
		  PyObject *bases)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);

	if (!type)
		return -1;
	state->types[which] = (PyTypeObject *)type;
	return PyModule_AddType(module, state->types[which]);
}

int qbpy_add_methods(PyTypeObject *type, PyMethodDef *defs)
{
	for (; defs->ml_name; defs++) {
		PyObject *method = PyDescr_NewMethod(type, defs);
		int ret = method ? PyObject_SetAttrString((PyObject *)type,
							  defs->ml_name, method)
				 : -1;

		Py_XDECREF(method);
		if (ret)
			return -1;
	}
	return 0;
}

void *qbpy_alloc_object(PyTypeObject *type)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

	return alloc(type, 0);
}

void qbpy_free_object(void *object)
{
	PyTypeObject *type = Py_TYPE(object);
	freefunc free = (freefunc)PyType_GetSlot(type, Py_tp_free);

	free(object);
	Py_DECREF(type);
}

PyObject *qbpy_import_numpy(struct qbpy_state *state)
{
	if (state->numpy)
		return state->numpy;
	PyObject *numpy = PyImport_ImportModule("numpy");
	PyObject *asarray =
		numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;

	if (!asarray) {
		Py_XDECREF(numpy);
		return NULL;
	}
	/* the import may have let another thread come first */
	QBPY_REPLACE(state->asarray, asarray);
	QBPY_REPLACE(state->numpy, numpy);
	return state->numpy;
}

struct qbpy_scratch *qbpy_get_scratch(struct qbpy_state *state,
				      enum qbrt_dtype dtype)
{
	struct qbpy_scratch *scratch = &state->scratch[dtype];
	PyObject *numpy, *array, *numpy_dtype;
	Py_buffer view;
	bool is_one;

	if (scratch->array)
		return scratch;
	numpy = qbpy_import_numpy(state);
	if (!numpy)
		return NULL;
	array = PyObject_CallMethod(numpy, "empty", "is", 1,
				    qbpy_dtype_name(dtype));
	numpy_dtype = array ? PyObject_GetAttrString(array, "dtype") : NULL;
	if (!numpy_dtype || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
		Py_XDECREF(numpy_dtype);
		Py_XDECREF(array);
		return NULL;
	}
	/* nobody else has the array, so its memory stays where it is */
	scratch->data = view.buf;
	is_one = view.len == (Py_ssize_t)qbrt_dtype_itemsize(dtype);
	PyBuffer_Release(&view);
	if (!is_one) {
		PyErr_Format(PyExc_RuntimeError,
			     "numpy.empty gave no single %s element",
			     qbpy_dtype_name(dtype));
		Py_DECREF(numpy_dtype);
		Py_DECREF(array);
		return NULL;
	}
	QBPY_REPLACE(scratch->dtype, numpy_dtype);
	QBPY_REPLACE(scratch->array, array);
	return scratch;
}

PyDoc_STRVAR(set_log_level_doc,
	     "set_log_level($module, level)\n--\n\n"
	     "Write log lines at or above level, a LogLevel, from now on, in "
	     "the whole\nprocess.");

static PyObject *set_log_level(PyObject *module, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *level;
	long long value;

	if (qbpy_parse_one(args, kw, "set_log_level", "level", &level) ||
	    qbpy_parse_int(level, "level", &value))
		return NULL;
	if (value < QBRT_LOG_LEVEL_DEBUG || value > QBRT_LOG_LEVEL_OFF)
		(void)qbpy_refuse_number(state, QBRT_INVALID_ARGUMENT, "level",
					 level, "1 (DEBUG) to 6 (OFF)");
	else
		(void)qbpy_check(state,
				 qbrt_set_log_level((enum qbrt_log_level)value),
				 NULL);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

PyDoc_STRVAR(start_tracing_events_doc,
	     "start_tracing_events($module, path)\n--\n\n"
	     "Record what the library and its devices do in a new file of "
	     "Chrome trace events.\n\nFalse: a trace is active already, or the "
	     "file cannot be created.");

static PyObject *start_tracing_events(PyObject *module, PyObject *args,
				      PyObject *kw)
{
	PyObject *object, *path;
	enum qbrt_status status;

	if (qbpy_parse_one(args, kw, "start_tracing_events", "path", &object) ||
	    qbpy_parse_path(object, "path", &path))
		return NULL;
	qbpy_begin_wait();
	status = qbrt_trace_start(PyBytes_AsString(path));
	qbpy_end_wait();
	Py_DECREF(path);
	if (status == QBRT_INVALID_ARGUMENT)
		Py_RETURN_FALSE;
	if (qbpy_check(PyModule_GetState(module), status, NULL))
		return NULL;
	Py_RETURN_TRUE;
}

PyDoc_STRVAR(stop_tracing_events_doc,
	     "stop_tracing_events($module, /)\n--\n\n"
	     "End the trace; its file is complete then. Without a trace "
	     "nothing happens.");

static PyObject *stop_tracing_events(PyObject *module, PyObject *none)
{
	enum qbrt_status status;

	(void)none;
	qbpy_begin_wait();
	status = qbrt_trace_stop();
	qbpy_end_wait();
	if (qbpy_check(PyModule_GetState(module), status, NULL))
		return NULL;
	Py_RETURN_NONE;
}

PyDoc_STRVAR(
	device_numbers_doc,
	"get_available_device_numbers($module, device_name=None)\n--\n\n"
	"The numbers of the visible devices, of a name or alias if one is "
	"given.\n\nRaises QbDeviceNotFoundError if the alias means devices "
	"of several names.");

PyDoc_STRVAR(devices_doc, "get_available_devices($module, /)\n--\n\n"
			  "The distinct names of the visible devices.");

PyDoc_STRVAR(estimate_memory_doc,
	     "estimate_memory($module, path, model_config=None)\n--\n\n"
	     "Bytes of device memory that launching a model file takes; needs "
	     "no device.");

PyDoc_STRVAR(model_summary_doc,
	     "get_model_summary($module, mxq_path)\n--\n\n"
	     "What a model file says, in words for people: format, compiler, "
	     "target, core modes,\nmetadata, inputs and outputs of each "
	     "variant, caches; needs no device.\n\nRaises as Model does for "
	     "a bad file.");

PyDoc_STRVAR(bridge_stats_doc,
	     "bridge_stats($module, /)\n--\n\n"
	     "The counters of the tensor bridge, a dict of int: what is alive, "
	     "and totals of the\nprocess, which are never reset.");

PyDoc_STRVAR(current_device_doc,
	     "current_device($module, /)\n--\n\n"
	     "The Device that calls use which name none: the first that is "
	     "visible.\n\nRaises QbDeviceNotFoundError if none is.");

static PyMethodDef methods[] = {
	{ "_error_class", qbpy_error_class, METH_O, NULL },
	{ "bridge_stats", qbpy_bridge_stats, METH_NOARGS, bridge_stats_doc },
	{ "current_device", qbpy_current_device, METH_NOARGS,
	  current_device_doc },
	{ "estimate_memory", (PyCFunction)(void (*)(void))qbpy_estimate_memory,
	  METH_VARARGS | METH_KEYWORDS, estimate_memory_doc },
	{ "get_available_device_numbers",
	  (PyCFunction)(void (*)(void))qbpy_device_numbers,
	  METH_VARARGS | METH_KEYWORDS, device_numbers_doc },
	{ "get_available_devices", qbpy_devices, METH_NOARGS, devices_doc },
	{ "get_model_summary",
	  (PyCFunction)(void (*)(void))qbpy_get_model_summary,
	  METH_VARARGS | METH_KEYWORDS, model_summary_doc },
	{ "set_log_level", (PyCFunction)(void (*)(void))set_log_level,
	  METH_VARARGS | METH_KEYWORDS, set_log_level_doc },
	{ "start_tracing_events",
	  (PyCFunction)(void (*)(void))start_tracing_events,
	  METH_VARARGS | METH_KEYWORDS, start_tracing_events_doc },
	{ "stop_tracing_events", stop_tracing_events, METH_NOARGS,
	  stop_tracing_events_doc },
	{ NULL, NULL, 0, NULL },
};

/*
 * qbruntime.type is being imported, or imports this module as its last act: what
 * it has of here is here by then.
 */
static int find_classes(struct qbpy_state *state)
{
	static const char *const names[QBPY_NUM_CLASSES] = {
		[QBPY_BUFFER_INFO] = "BufferInfo",
		[QBPY_CACHE_INFO] = "CacheInfo",
		[QBPY_CACHE_TYPE] = "CacheType",
		[QBPY_CLUSTER] = "Cluster",
		[QBPY_CORE] = "Core",
		[QBPY_CORE_ALLOCATION_POLICY] = "CoreAllocationPolicy",
		[QBPY_CORE_ID] = "CoreId",
		[QBPY_CORE_MODE] = "CoreMode",
		[QBPY_CORE_STATE] = "CoreState",
		[QBPY_DATA_TYPE] = "DataType",
		[QBPY_DEVICE_EVENT] = "DeviceEvent",
		[QBPY_DEVICE_INFO] = "DeviceInfo",
		[QBPY_DEVICE_LIMITS] = "DeviceLimits",
		[QBPY_FIRMWARE_INFO] = "FirmwareInfo",
		[QBPY_READING] = "Reading",
		[QBPY_SCALE] = "Scale",
		[QBPY_STATUS_CODE] = "StatusCode",
	};
	PyObject *module = PyImport_ImportModule("qbruntime.type");

	for (size_t i = 0; module && i < QBPY_NUM_CLASSES; i++) {
		state->classes[i] = PyObject_GetAttrString(module, names[i]);
		if (!state->classes[i])
			Py_CLEAR(module);
	}
	if (!module)
		return -1;
	Py_DECREF(module);
	return 0;
}

static int exec(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);

	if (qbpy_make_names(state) || qbpy_add_model_config(module) ||
	    find_classes(state) || qbpy_add_errors(module, state) ||
	    qbpy_add_accelerator(module) || qbpy_add_native(module) ||
	    qbpy_add_pinned(module) || qbpy_add_cpu_access(module) ||
	    qbpy_add_model(module) || qbpy_add_variant(module) ||
	    qbpy_add_future(module) || qbpy_add_tensor(module) ||
	    qbpy_add_device(module) || qbpy_add_exchange(state) ||
	    PyModule_AddStringConstant(module, "__version__", qbrt_version()) ||
	    PyModule_AddStringConstant(module, "__git_version__",
				       qbrt_git_version()))
		return -1;
	qbrt_set_interrupt_function(interrupt, NULL);
	return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
	struct qbpy_state *state = PyModule_GetState(module);

	for (size_t i = 0; i < QBPY_NUM_ERRORS; i++)
		Py_VISIT(state->errors[i]);
	for (size_t i = 0; i < QBPY_NUM_CLASSES; i++)
		Py_VISIT(state->classes[i]);
	for (size_t i = 0; i < QBPY_NUM_TYPES; i++)
		Py_VISIT(state->types[i]);
	Py_VISIT(state->numpy);
	Py_VISIT(state->asarray);
	Py_VISIT(state->await_future);
	Py_VISIT(state->cut_off);
	return 0;
}

static int clear(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);

	for (size_t i = 0; i < QBPY_NUM_ERRORS; i++)
		Py_CLEAR(state->errors[i]);
	for (size_t i = 0; i < QBPY_NUM_CLASSES; i++)
		Py_CLEAR(state->classes[i]);
	for (size_t i = 0; i < QBPY_NUM_TYPES; i++)
		Py_CLEAR(state->types[i]);
	Py_CLEAR(state->numpy);
	Py_CLEAR(state->asarray);
	Py_CLEAR(state->await_future);
	Py_CLEAR(state->cut_off);
	for (size_t i = 0; i < QBPY_NUM_DTYPES; i++) {
		Py_CLEAR(state->scratch[i].array);
		Py_CLEAR(state->scratch[i].dtype);
	}
	return 0;
}

/* What is in no cycle goes last: a call may come after clear(). */
static void free_module(void *module)
{
	struct qbpy_state *state = PyModule_GetState(module);

	(void)clear(module);
	qbpy_forget_exchange(state);
	Py_CLEAR(state->last.order.names);
	Py_CLEAR(state->max_version);
	Py_CLEAR(state->last.max_version.tuple);
	Py_CLEAR(state->last.dl_device.tuple);
	for (size_t i = 0; i < QBPY_NUM_NAMES; i++)
		Py_CLEAR(state->names[i]);
}

static struct PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, exec },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "qbruntime.qbruntime",
	.m_doc = "The classes and functions of qbruntime; import that instead.",
	.m_size = sizeof(struct qbpy_state),
	.m_methods = methods,
	.m_slots = slots,
	.m_traverse = traverse,
	.m_clear = clear,
	.m_free = free_module,
};

PyMODINIT_FUNC PyInit_qbruntime(void)
{
	return PyModuleDef_Init(&definition);
}
