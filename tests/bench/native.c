// SPDX-License-Identifier: MIT
/*
 * main() of the Python benches. A metric is a dict with the members of struct
 * bench_metric by name; its probes are objects of class Probe (subject.py), and
 * what their open() gives has run(num), which returns nanoseconds, and close().
 * An exception that run() raises is a wrong result.
 */
#include "native.h"

#include <malloc.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "count.h"
#include "util.h"

PyMODINIT_FUNC PyInit_bench_native(void);

static const char *const sides[BENCH_MAX_SIDES] = { "subject", "floor",
						    "peer" };

struct probe {
	struct bench_probe bench;
	PyObject *object; /* borrowed of the metric */
};

struct metric {
	struct bench_metric bench;
	struct probe probes[BENCH_MAX_SIDES];
};

static bool has_failed;

/* What is not installed cannot be measured; all else is a mistake. */
static void refuse_open(void)
{
	static char reason[256];
	PyObject *type, *value, *traceback, *text;
	const char *utf8;

	if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
		has_failed = true;
		PyErr_Print();
		return;
	}
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	text = PyObject_Str(value);
	utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	(void)snprintf(reason, sizeof(reason), "%s", utf8 ? utf8 : "");
	bench_set_reason(reason);
	Py_XDECREF(text);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	PyErr_Clear();
}

static void *open_probe(const struct bench_case *bench_case)
{
	struct probe *probe =
		qbrt_container_of(bench_case->probe, struct probe, bench);
	const char *placement = bench_placement_name(bench_case->placement);
	PyObject *state =
		PyObject_CallMethod(probe->object, "open", "s", placement);

	if (!state)
		refuse_open();
	return state;
}

static int64_t run_probe(void *state, uint32_t num)
{
	PyObject *answer =
		PyObject_CallMethod(state, "run", "k", (unsigned long)num);
	long long ns = answer ? PyLong_AsLongLong(answer) : -1;

	Py_XDECREF(answer);
	if (PyErr_Occurred())
		PyErr_Print();
	return ns;
}

static void close_probe(void *state)
{
	PyObject *answer = PyObject_CallMethod(state, "close", NULL);

	if (!answer) {
		has_failed = true;
		PyErr_Print();
	}
	Py_XDECREF(answer);
	Py_DECREF((PyObject *)state);
}

/* Texts live as long as the objects that they are borrowed from. */
static bool read_text(PyObject *dict, const char *key, const char **text)
{
	PyObject *value = PyDict_GetItemString(dict, key);

	*text = NULL;
	if (!value || value == Py_None)
		return true;
	*text = PyUnicode_AsUTF8AndSize(value, NULL);
	return *text;
}

static bool read_number(PyObject *dict, const char *key, double *number)
{
	PyObject *value = PyDict_GetItemString(dict, key);

	*number = value ? PyFloat_AsDouble(value) : 0;
	return !PyErr_Occurred();
}

static bool read_placements(PyObject *dict, unsigned int *placements)
{
	PyObject *value = PyDict_GetItemString(dict, "placements");
	Py_ssize_t num = value ? PySequence_Size(value) : -1;

	for (Py_ssize_t i = 0; i < num; i++) {
		PyObject *name = PySequence_GetItem(value, i);
		const char *text =
			name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
		enum bench_placement placement;
		bool is_known =
			text && bench_placement_from_name(text, &placement);

		Py_XDECREF(name);
		if (!is_known)
			return false;
		*placements |= placement;
	}
	return num > 0;
}

/* name and version are attributes of the object. */
static bool read_probe(PyObject *dict, const char *key, struct probe *probe)
{
	PyObject *name, *version;

	probe->object = PyDict_GetItemString(dict, key);
	if (!probe->object || probe->object == Py_None) {
		probe->object = NULL;
		return true;
	}
	name = PyObject_GetAttrString(probe->object, "name");
	version = PyObject_GetAttrString(probe->object, "version");
	if (name)
		probe->bench.name = PyUnicode_AsUTF8AndSize(name, NULL);
	if (version && version != Py_None)
		probe->bench.version = PyUnicode_AsUTF8AndSize(version, NULL);
	probe->bench.open = open_probe;
	probe->bench.run = run_probe;
	probe->bench.close = close_probe;
	Py_XDECREF(name);
	Py_XDECREF(version);
	return !PyErr_Occurred();
}

static bool read_metric(PyObject *dict, struct metric *metric)
{
	const struct bench_probe **const probes[BENCH_MAX_SIDES] = {
		&metric->bench.subject, &metric->bench.floor,
		&metric->bench.peer
	};

	for (int i = 0; i < BENCH_MAX_SIDES; i++) {
		if (!read_probe(dict, sides[i], &metric->probes[i]))
			return false;
		if (metric->probes[i].object)
			*probes[i] = &metric->probes[i].bench;
	}
	return read_text(dict, "name", &metric->bench.name) &&
	       read_text(dict, "row", &metric->bench.row) &&
	       read_text(dict, "target", &metric->bench.target) &&
	       read_number(dict, "factor", &metric->bench.factor) &&
	       read_number(dict, "extra_ns", &metric->bench.extra_ns) &&
	       read_placements(dict, &metric->bench.placements) &&
	       metric->bench.name && metric->bench.row && metric->bench.subject;
}

/* Of a list of str, each borrowed from it. */
static char **read_arguments(PyObject *list, Py_ssize_t num)
{
	char **argv = PyMem_Calloc((size_t)num + 1, sizeof(*argv));

	for (Py_ssize_t i = 0; argv && i < num; i++) {
		argv[i] = (char *)PyUnicode_AsUTF8AndSize(
			PyList_GetItem(list, i), NULL);
		if (!argv[i]) {
			PyMem_Free(argv);
			return NULL;
		}
	}
	return argv;
}

static PyObject *run_main(PyObject *module, PyObject *args)
{
	struct bench_metric *table = NULL;
	struct metric *metrics = NULL;
	PyObject *arguments, *list, *answer = NULL;
	char **argv = NULL;
	Py_ssize_t num;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O!z:main", &PyList_Type, &arguments,
			      &PyList_Type, &list, &bench_device))
		return NULL;
	num = PyList_Size(list);
	argv = read_arguments(arguments, PyList_Size(arguments));
	metrics = PyMem_Calloc((size_t)num, sizeof(*metrics));
	table = PyMem_Calloc((size_t)num, sizeof(*table));
	if (!argv || !metrics || !table)
		goto err_free;
	for (Py_ssize_t i = 0; i < num; i++) {
		if (!read_metric(PyList_GetItem(list, i), &metrics[i])) {
			if (!PyErr_Occurred())
				PyErr_Format(PyExc_ValueError,
					     "metric %zd lacks something", i);
			goto err_free;
		}
		table[i] = metrics[i].bench;
	}
	has_failed = false;
	rc = bench_main((int)PyList_Size(arguments), argv, table, (size_t)num);
	answer = PyLong_FromLong(!rc && has_failed ? 1 : rc);
err_free:
	PyMem_Free(argv);
	PyMem_Free(metrics);
	PyMem_Free(table);
	return answer;
}

static PyObject *get_heap(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
#ifdef COUNT_IS_INSTRUMENTED
	Py_RETURN_NONE;
#else
	struct mallinfo2 info = mallinfo2();

	return PyLong_FromSize_t(info.uordblks + info.hblkhd);
#endif
}

static PyObject *begin_count(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	count_begin();
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "main", run_main, METH_VARARGS,
	  "main(argv, metrics, device): what a program exits with." },
	{ "heap", get_heap, METH_NOARGS,
	  "Bytes that malloc has given out; None where a sanitizer has its "
	  "own." },
	{ "count_begin", begin_count, METH_NOARGS,
	  "Calls before this one are warm-up." },
	{ NULL, NULL, 0, NULL },
};

static int exec(PyObject *module)
{
	return PyModule_AddFunctions(module, native_floor_methods) ||
			       PyModule_AddFunctions(module,
						     native_dlpack_methods) ||
			       native_add_minimal(module)
		       ? -1
		       : 0;
}

static struct PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, exec },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "bench_native",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit_bench_native(void)
{
	return PyModuleDef_Init(&definition);
}
