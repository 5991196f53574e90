// SPDX-License-Identifier: MIT
/*
 * ModelConfig as a value: repr, ==, and the state that copy and pickle carry,
 * with the attributes of an object of a class of Python's.
 */
#include "model_config.h"

static struct qbpy_config *self_of(PyObject *object)
{
	return (struct qbpy_config *)object;
}

/* The answer of a getter, whose names are ours. */
static PyObject *ask(PyObject *object, const char *name)
{
	return PyObject_CallMethod(object, name, NULL);
}

PyObject *qbpy_config_repr(PyObject *object)
{
	static const struct {
		const char *name;
		const char *method;
	} fields[] = {
		{ "core_mode", "get_core_mode" },
		{ "core_allocation_policy", "get_core_allocation_policy" },
		{ "core_ids", "get_core_ids" },
		{ "num_cores", "get_num_cores" },
		{ "clusters", "get_clusters" },
		{ "forced_npu_bundle_index", "get_forced_npu_bundle_index" },
		{ "async_pipeline_enabled", "get_async_pipeline_enabled" },
		{ "activation_slots", "get_activation_slots" },
	};
	PyObject *text = PyUnicode_FromString("ModelConfig(");

	for (size_t i = 0; text && i < sizeof(fields) / sizeof(fields[0]);
	     i++) {
		PyObject *value = ask(object, fields[i].method);
		PyObject *longer =
			value ? PyUnicode_FromFormat("%U%s%s=%R", text,
						     i ? ", " : "",
						     fields[i].name, value)
			      : NULL;

		Py_XDECREF(value);
		Py_DECREF(text);
		text = longer;
	}
	if (text) {
		PyObject *whole = PyUnicode_FromFormat("%U)", text);

		Py_DECREF(text);
		text = whole;
	}
	return text;
}

PyObject *qbpy_config_compare(PyObject *object, PyObject *other, int op)
{
	struct qbpy_config *self = self_of(object);
	PyTypeObject *type = self->state->types[QBPY_MODEL_CONFIG];
	bool is_equal;

	if ((op != Py_EQ && op != Py_NE) || !type ||
	    !PyObject_TypeCheck(other, type))
		return Py_NewRef(Py_NotImplemented);
	is_equal = self->has_no_core == self_of(other)->has_no_core &&
		   qbrt_model_config_is_equal(self->config,
					      self_of(other)->config);
	return PyBool_FromLong(is_equal == (op == Py_EQ));
}

static PyObject *reduce(PyObject *object, PyObject *none)
{
	struct qbpy_config *self = self_of(object);
	static const char *const names[] = { "__getstate__", "get_core_ids",
					     "get_clusters",
					     "get_async_pipeline_enabled" };
	PyObject *answers[] = { NULL, NULL, NULL, NULL };
	PyObject *fields = NULL;
	size_t num = 0;

	(void)none;
	/* of the object: a subclass may give others */
	while (num < 4 && (answers[num] = ask(object, names[num])))
		num++;
	if (num == 4)
		fields = Py_BuildValue(
			"lnOOiOniO",
			(long)qbrt_model_config_get_core_mode(self->config),
			(Py_ssize_t)qbrt_model_config_get_num_cores(
				self->config),
			answers[1], answers[2],
			qbrt_model_config_get_forced_npu_bundle(self->config),
			answers[3],
			(Py_ssize_t)qbrt_model_config_get_activation_slots(
				self->config),
			(int)self->has_no_core, answers[0]);
	while (num--)
		Py_DECREF(answers[num]);
	if (!fields)
		return NULL;
	return Py_BuildValue("O()N", (PyObject *)Py_TYPE(object), fields);
}

/* -1 with an exception: no state that reduce() has written. */
static int set_mode(struct qbpy_config *self, struct qbpy_change change,
		    PyObject *core_ids_arg, PyObject *clusters_arg)
{
	struct qbrt_core_id core_ids[QBPY_MAX_CORES];
	enum qbrt_cluster clusters[QBPY_MAX_CORES];
	size_t num_core_ids, num_clusters;
	int ret;

	if (qbpy_parse_core_ids(self->state, core_ids_arg, core_ids,
				&num_core_ids) ||
	    qbpy_parse_clusters(clusters_arg, clusters, &num_clusters))
		return -1;
	change.clusters = clusters;
	if (num_core_ids) {
		change.core_ids = core_ids;
		change.num = num_core_ids;
	} else if (change.core_mode != QBRT_CORE_MODE_SINGLE) {
		change.num = num_clusters;
	}
	ret = qbpy_change_config(self, &change);
	if (ret < 0)
		return -1;
	if (ret &&
	    qbrt_model_config_get_core_mode(self->config) == change.core_mode)
		return 0;
	PyErr_SetString(PyExc_ValueError,
			"this is not the state of a ModelConfig");
	return -1;
}

static int set_attributes(PyObject *object, PyObject *attributes)
{
	PyObject *to = NULL;
	int ret = -1;

	if (attributes == Py_None)
		return 0;
	if (!PyDict_Check(attributes)) {
		(void)qbpy_raise_type("a dict of attributes", attributes);
		return -1;
	}
	to = PyObject_GetAttrString(object, "__dict__");
	if (to)
		ret = PyDict_Update(to, attributes);
	Py_XDECREF(to);
	return ret;
}

static PyObject *set_state(PyObject *object, PyObject *fields)
{
	struct qbpy_config *self = self_of(object);
	struct qbpy_change change = { .bundle = NULL };
	PyObject *core_ids, *clusters, *attributes;
	int bundle, is_async, has_no_core;
	Py_ssize_t num_cores, slots;
	long core_mode;

	if (!PyTuple_Check(fields))
		return qbpy_raise_type("a tuple for the state", fields);
	if (!PyArg_ParseTuple(fields, "lnOOipnpO:__setstate__", &core_mode,
			      &num_cores, &core_ids, &clusters, &bundle,
			      &is_async, &slots, &has_no_core, &attributes))
		return NULL;
	change.core_mode = (enum qbrt_core_mode)core_mode;
	change.num = (size_t)num_cores;
	change.has_no_core = has_no_core;
	if (set_mode(self, change, core_ids, clusters) ||
	    qbpy_check(self->state,
		       qbrt_model_config_set_forced_npu_bundle(self->config,
							       bundle),
		       NULL) ||
	    qbpy_check(self->state,
		       qbrt_model_config_set_async_pipeline(self->config,
							    is_async),
		       NULL) ||
	    (slots && qbpy_check(self->state,
				 qbrt_model_config_set_activation_slots(
					 self->config, (size_t)slots),
				 NULL)) ||
	    set_attributes(object, attributes))
		return NULL;
	Py_RETURN_NONE;
}

PyMethodDef qbpy_config_value_methods[] = {
	{ "__reduce__", reduce, METH_NOARGS, NULL },
	{ "__setstate__", set_state, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};
