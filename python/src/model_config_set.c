// SPDX-License-Identifier: MIT
/*
 * Setters of ModelConfig. What is of a wrong type raises; a core mode that no
 * device has is rejected by the library, and False.
 */
#include "model_config.h"

static struct qbpy_config *self_of(PyObject *object)
{
	return (struct qbpy_config *)object;
}

static PyObject *change(PyObject *object, const struct qbpy_change *to)
{
	int ret = qbpy_change_config(self_of(object), to);

	return ret < 0 ? NULL : PyBool_FromLong(ret);
}

int qbpy_parse_num_cores(PyObject *object, size_t *num_cores)
{
	long long number;

	if (qbpy_parse_int(object, "num_cores", &number))
		return -1;
	*num_cores = number < 1 ? SIZE_MAX : (size_t)number;
	return 0;
}

/* A new list of a sequence, empty for None. */
static PyObject *to_list(PyObject *object, const char *expected)
{
	if (object == Py_None)
		return PyList_New(0);
	if (PyUnicode_Check(object) || !PySequence_Check(object))
		return qbpy_raise_type(expected, object);
	return PySequence_List(object);
}

static int parse_core_id(struct qbpy_state *state, PyObject *object,
			 struct qbrt_core_id *core_id)
{
	int is_core_id =
		PyObject_IsInstance(object, state->classes[QBPY_CORE_ID]);

	if (is_core_id < 0)
		return -1;
	if (!is_core_id) {
		(void)qbpy_raise_type("CoreIds in core_ids", object);
		return -1;
	}
	return qbpy_parse_core_id(object, core_id);
}

int qbpy_parse_core_ids(struct qbpy_state *state, PyObject *object,
			struct qbrt_core_id core_ids[QBPY_MAX_CORES],
			size_t *num)
{
	PyObject *list = to_list(object, "a sequence of CoreId for core_ids");
	Py_ssize_t size = list ? PyList_Size(list) : 0;
	int ret = list ? 0 : -1;

	*num = 0;
	for (Py_ssize_t i = 0; !ret && i < size; i++) {
		struct qbrt_core_id core_id;

		ret = parse_core_id(state, PyList_GetItem(list, i), &core_id);
		if (!ret && *num < QBPY_MAX_CORES)
			core_ids[(*num)++] = core_id;
	}
	Py_XDECREF(list);
	return ret;
}

int qbpy_parse_cluster(PyObject *object, enum qbrt_cluster *cluster)
{
	long long value;

	if (qbpy_parse_int(object, "a cluster", &value))
		return -1;
	*cluster = value < 0 || value > INT_MAX ? QBRT_CLUSTER_ERROR
						: (enum qbrt_cluster)value;
	return 0;
}

int qbpy_parse_clusters(PyObject *object,
			enum qbrt_cluster clusters[QBPY_MAX_CORES], size_t *num)
{
	PyObject *list = to_list(object, "a sequence of Cluster for clusters");
	Py_ssize_t size = list ? PyList_Size(list) : 0;
	int ret = list ? 0 : -1;

	*num = 0;
	for (Py_ssize_t i = 0; !ret && i < size; i++) {
		enum qbrt_cluster cluster;

		ret = qbpy_parse_cluster(PyList_GetItem(list, i), &cluster);
		if (!ret && *num < QBPY_MAX_CORES)
			clusters[(*num)++] = cluster;
	}
	Py_XDECREF(list);
	return ret;
}

static PyObject *set_auto(PyObject *object, PyObject *none)
{
	struct qbpy_change to = { .core_mode = QBRT_CORE_MODE_AUTO };

	(void)none;
	return change(object, &to);
}

static PyObject *set_single(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "num_cores", "core_ids", NULL };
	struct qbpy_change to = { .core_mode = QBRT_CORE_MODE_SINGLE };
	struct qbrt_core_id core_ids[QBPY_MAX_CORES];
	PyObject *count = Py_None;
	PyObject *list = Py_None;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:set_single_core_mode",
					 keywords, &count, &list) ||
	    qbpy_parse_core_ids(self_of(object)->state, list, core_ids,
				&to.num))
		return NULL;
	if (count == Py_None) {
		to.core_ids = core_ids;
		return change(object, &to);
	}
	if (to.num) {
		PyErr_SetString(PyExc_ValueError,
				"set_single_core_mode() takes num_cores or "
				"core_ids, got both");
		return NULL;
	}
	if (qbpy_parse_num_cores(count, &to.num))
		return NULL;
	return change(object, &to);
}

PyObject *qbpy_set_clusters(PyObject *object, PyObject *args, PyObject *kw,
			    const char *format, enum qbrt_core_mode core_mode)
{
	static char *keywords[] = { "clusters", NULL };
	struct qbpy_change to = { .core_mode = core_mode };
	enum qbrt_cluster clusters[QBPY_MAX_CORES];
	PyObject *list = Py_None;

	if (!PyArg_ParseTupleAndKeywords(args, kw, format, keywords, &list) ||
	    qbpy_parse_clusters(list, clusters, &to.num))
		return NULL;
	to.clusters = clusters;
	return change(object, &to);
}

static PyObject *set_multi(PyObject *object, PyObject *args, PyObject *kw)
{
	return qbpy_set_clusters(object, args, kw, "|O:set_multi_core_mode",
				 QBRT_CORE_MODE_MULTI);
}

static PyObject *set_global4(PyObject *object, PyObject *args, PyObject *kw)
{
	return qbpy_set_clusters(object, args, kw, "|O:set_global4_core_mode",
				 QBRT_CORE_MODE_GLOBAL4);
}

static PyObject *set_global8(PyObject *object, PyObject *none)
{
	struct qbpy_change to = { .core_mode = QBRT_CORE_MODE_GLOBAL8 };

	(void)none;
	return change(object, &to);
}

/* An index beyond int is beyond any file, as loading will say. */
static PyObject *force_bundle(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_change to = { .bundle = NULL };
	PyObject *value;
	long long index;
	int bundle;

	if (qbpy_parse_one(args, kw, "force_single_npu_bundle",
			   "npu_bundle_index", &value) ||
	    qbpy_parse_int(value, "npu_bundle_index", &index))
		return NULL;
	bundle = index > INT_MAX   ? INT_MAX
		 : index < INT_MIN ? INT_MIN
				   : (int)index;
	to.bundle = &bundle;
	return change(object, &to);
}

static PyObject *set_async(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_config *self = self_of(object);
	PyObject *value;
	bool is_on;

	if (qbpy_parse_one(args, kw, "set_async_pipeline_enabled", "enable",
			   &value) ||
	    qbpy_parse_bool(value, "enable", &is_on))
		return NULL;
	if (qbpy_check(
		    self->state,
		    qbrt_model_config_set_async_pipeline(self->config, is_on),
		    NULL))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *set_slots(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_config *self = self_of(object);
	PyObject *value;
	long long count;

	if (qbpy_parse_one(args, kw, "set_activation_slots", "count", &value) ||
	    qbpy_parse_int(value, "count", &count))
		return NULL;
	if (count < 1 || count > 64) {
		(void)qbpy_raise_number("count", value, "1 to 64");
		return NULL;
	}
	if (qbpy_check(self->state,
		       qbrt_model_config_set_activation_slots(self->config,
							      (size_t)count),
		       NULL))
		return NULL;
	Py_RETURN_NONE;
}

PyDoc_STRVAR(set_single_doc,
	     "set_single_core_mode($self, num_cores=None, core_ids=None)"
	     "\n--\n\n"
	     "Each of these local cores runs whole inferences: a number of 1 "
	     "to 8, of which\nthe launch picks the least used, or a list of "
	     "CoreId. Without either, or with an\nempty list, all of the "
	     "device.\n\n"
	     "Raises ValueError where both are given.");
PyDoc_STRVAR(set_multi_doc,
	     "set_multi_core_mode($self, clusters=None)\n--\n\n"
	     "The cores of each of these clusters run a batch together; None "
	     "and [] are all.");
PyDoc_STRVAR(set_global4_doc,
	     "set_global4_core_mode($self, clusters=None)\n--\n\n"
	     "The four cores of each of these clusters share an inference; "
	     "None and [] are all.");
PyDoc_STRVAR(force_doc,
	     "force_single_npu_bundle($self, npu_bundle_index)\n--\n\n"
	     "Run one bundle of the file alone; -1: none. Files of qbcompile "
	     "have bundle 0.");
PyDoc_STRVAR(set_async_doc, "set_async_pipeline_enabled($self, enable)\n--\n\n"
			    "Whether a Model may be run by infer_async().");
PyDoc_STRVAR(set_slots_doc, "set_activation_slots($self, count)\n--\n\n"
			    "How many inferences may run at once, 1 to 64.\n\n"
			    "Raises ValueError for another number.");

#define SETTER(name, function, doc) \
	{ \
		name, (PyCFunction)(void (*)(void))function, \
			METH_VARARGS | METH_KEYWORDS, doc \
	}
PyMethodDef qbpy_config_set_methods[] = {
	SETTER("force_single_npu_bundle", force_bundle, force_doc),
	SETTER("set_activation_slots", set_slots, set_slots_doc),
	SETTER("set_async_pipeline_enabled", set_async, set_async_doc),
	{ "set_auto_core_mode", set_auto, METH_NOARGS,
	  "set_auto_core_mode($self, /)\n--\n\n"
	  "The one mode that the file has." },
	SETTER("set_global4_core_mode", set_global4, set_global4_doc),
	{ "set_global8_core_mode", set_global8, METH_NOARGS,
	  "set_global8_core_mode($self, /)\n--\n\n"
	  "All cores of the device share an inference." },
	SETTER("set_multi_core_mode", set_multi, set_multi_doc),
	SETTER("set_single_core_mode", set_single, set_single_doc),
	{ NULL, NULL, 0, NULL },
};
