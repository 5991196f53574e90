// SPDX-License-Identifier: MIT
/*
 * ModelConfig, a value over struct qbrt_model_config: the object, its getters,
 * and how it changes. Its setters are model_config_set.c, comparison and copies
 * model_config_value.c, deprecated methods model_config_old.c.
 */
#include "model_config.h"

static struct qbpy_config *self_of(PyObject *object)
{
	return (struct qbpy_config *)object;
}

static enum qbrt_status apply(struct qbrt_model_config *config,
			      const struct qbpy_change *change)
{
	if (change->bundle)
		return qbrt_model_config_set_forced_npu_bundle(config,
							       *change->bundle);
	switch (change->core_mode) {
	case QBRT_CORE_MODE_AUTO:
		return qbrt_model_config_set_auto_core_mode(config);
	case QBRT_CORE_MODE_MULTI:
		return qbrt_model_config_set_multi_core_mode(
			config, change->clusters, change->num);
	case QBRT_CORE_MODE_GLOBAL4:
		return qbrt_model_config_set_global4_core_mode(
			config, change->clusters, change->num);
	case QBRT_CORE_MODE_GLOBAL8:
		return qbrt_model_config_set_global8_core_mode(config);
	default:
		if (change->core_ids)
			return qbrt_model_config_set_single_core_ids(
				config, change->core_ids, change->num);
		return qbrt_model_config_set_single_core_mode(config,
							      change->num);
	}
}

int qbpy_check_change(struct qbpy_config *self,
		      const struct qbpy_change *change)
{
	struct qbrt_model_config *other = NULL;
	enum qbrt_status status;

	if (qbpy_check(self->state, qbrt_model_config_alloc(&other), NULL))
		return -1;
	qbpy_begin_wait();
	status = apply(other, change);
	qbpy_end_wait();
	qbrt_model_config_free(other);
	if (status == QBRT_INVALID_ARGUMENT && !PyErr_Occurred())
		return 0;
	return qbpy_check(self->state, status, NULL) ? -1 : 1;
}

/* What was accepted once is accepted again, and nothing is logged. */
int qbpy_change_config(struct qbpy_config *self,
		       const struct qbpy_change *change)
{
	int ret = qbpy_check_change(self, change);

	if (ret <= 0)
		return ret;
	if (qbpy_check(self->state, apply(self->config, change), NULL))
		return -1;
	if (!change->bundle)
		self->has_no_core = change->has_no_core;
	return 1;
}

int qbpy_copy_config(struct qbpy_state *state, PyObject *object,
		     struct qbrt_model_config **config)
{
	*config = NULL;
	if (object == Py_None)
		return 0;
	if (!PyObject_TypeCheck(object, state->types[QBPY_MODEL_CONFIG])) {
		(void)qbpy_raise_type("a ModelConfig or None for model_config",
				      object);
		return -1;
	}
	if (self_of(object)->has_no_core) {
		(void)qbpy_raise_text(state, QBRT_MODEL_NO_TARGET_CORES, NULL,
				      "model_config excludes every core; "
				      "include() those that the model may use");
		return -1;
	}
	return qbpy_check(
		state, qbrt_model_config_copy(self_of(object)->config, config),
		NULL);
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = qbpy_get_state(type);
	struct qbpy_config *self = state ? qbpy_alloc_object(type) : NULL;

	(void)args;
	(void)kw;
	if (!self)
		return NULL;
	self->state = state;
	if (qbpy_check(state, qbrt_model_config_alloc(&self->config), NULL)) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return (PyObject *)self;
}

static int init(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "num_cores", NULL };
	struct qbpy_change change = { .core_mode = QBRT_CORE_MODE_SINGLE };
	PyObject *count = Py_None;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:ModelConfig", keywords,
					 &count))
		return -1;
	if (count == Py_None)
		return 0;
	if (PyErr_WarnEx(PyExc_DeprecationWarning,
			 "ModelConfig(num_cores) is ModelConfig() and then "
			 "set_single_core_mode(num_cores)",
			 1) ||
	    qbpy_parse_num_cores(count, &change.num))
		return -1;
	ret = qbpy_change_config(self_of(object), &change);
	if (!ret)
		(void)qbpy_raise_number("num_cores", count, "1 to 8");
	return ret == 1 ? 0 : -1;
}

static void dealloc(PyObject *object)
{
	qbrt_model_config_free(self_of(object)->config);
	qbpy_free_object(object);
}

static PyObject *get_core_mode(PyObject *object, PyObject *none)
{
	struct qbpy_config *self = self_of(object);

	(void)none;
	return qbpy_enum(self->state, QBPY_CORE_MODE,
			 (long)qbrt_model_config_get_core_mode(self->config));
}

/* A list of no core is a list. */
static PyObject *get_policy(PyObject *object, PyObject *none)
{
	struct qbpy_config *self = self_of(object);
	enum qbrt_core_policy policy =
		self->has_no_core
			? QBRT_CORE_POLICY_MANUAL
			: qbrt_model_config_get_core_policy(self->config);

	(void)none;
	return qbpy_enum(self->state, QBPY_CORE_ALLOCATION_POLICY,
			 (long)policy);
}

static PyObject *get_num_cores(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSize_t(
		qbrt_model_config_get_num_cores(self_of(object)->config));
}

/* Making a member of a list runs Python, which may change the configuration. */
static PyObject *get_core_ids(PyObject *object, PyObject *none)
{
	struct qbpy_config *self = self_of(object);
	struct qbrt_core_id core_ids[QBPY_MAX_CORES];
	size_t num;
	const struct qbrt_core_id *theirs =
		qbrt_model_config_get_core_ids(self->config, &num);

	(void)none;
	if (num)
		memcpy(core_ids, theirs, num * sizeof(core_ids[0]));
	return qbpy_cores_to_list(self->state, core_ids, num);
}

static PyObject *get_clusters(PyObject *object, PyObject *none)
{
	struct qbpy_config *self = self_of(object);
	enum qbrt_cluster clusters[QBPY_MAX_CORES];
	PyObject *list = PyList_New(0);
	size_t num;
	const enum qbrt_cluster *theirs =
		qbrt_model_config_get_clusters(self->config, &num);

	(void)none;
	if (num)
		memcpy(clusters, theirs, num * sizeof(clusters[0]));
	for (size_t i = 0; list && i < num; i++) {
		PyObject *cluster =
			qbpy_enum(self->state, QBPY_CLUSTER, (long)clusters[i]);

		if (!cluster || PyList_Append(list, cluster))
			Py_CLEAR(list);
		Py_XDECREF(cluster);
	}
	return list;
}

static PyObject *get_bundle(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromLong(qbrt_model_config_get_forced_npu_bundle(
		self_of(object)->config));
}

static PyObject *get_async_pipeline(PyObject *object, PyObject *none)
{
	(void)none;
	return PyBool_FromLong(
		qbrt_model_config_get_async_pipeline(self_of(object)->config));
}

static PyObject *get_slots(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSize_t(qbrt_model_config_get_activation_slots(
		self_of(object)->config));
}

#define GETTER(name, function, words) \
	{ \
		name, function, METH_NOARGS, name "($self, /)\n--\n\n" words \
	}
static PyMethodDef methods[] = {
	GETTER("get_activation_slots", get_slots,
	       "The number that was set; 0: the default, which the launch knows."),
	GETTER("get_async_pipeline_enabled", get_async_pipeline,
	       "Whether infer_async() is to be allowed."),
	GETTER("get_clusters", get_clusters,
	       "A list of the Clusters that were set; [] is all."),
	GETTER("get_core_allocation_policy", get_policy,
	       "CoreAllocationPolicy.Manual where a list of cores was set."),
	GETTER("get_core_ids", get_core_ids,
	       "A list of the CoreIds that were set; [] without a list."),
	GETTER("get_core_mode", get_core_mode, "The CoreMode that was set."),
	GETTER("get_forced_npu_bundle_index", get_bundle,
	       "The bundle that runs alone; -1: none is forced."),
	GETTER("get_num_cores", get_num_cores,
	       "How many cores were set or listed; 0: all, or no matter of the "
	       "mode."),
	{ NULL, NULL, 0, NULL },
};

static const char doc[] =
	"ModelConfig(num_cores=None)\n--\n\n"
	"How a model is to be run: core mode Auto at first, the one mode that\n"
	"the file has. A Model copies it when it is loaded. num_cores is\n"
	"deprecated: set_single_core_mode().\n\n"
	"Setters of the mode answer a bool: False is rejected, nothing has\n"
	"changed, and the log says why. A value: ==, copy and pickle.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_new, new },
	{ Py_tp_init, init },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, qbpy_config_repr },
	{ Py_tp_richcompare, qbpy_config_compare },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.type.ModelConfig",
	.basicsize = sizeof(struct qbpy_config),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int qbpy_add_model_config(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyTypeObject *type;

	if (qbpy_add_type(module, QBPY_MODEL_CONFIG, &spec, NULL))
		return -1;
	type = state->types[QBPY_MODEL_CONFIG];
	if (qbpy_add_methods(type, qbpy_config_set_methods) ||
	    qbpy_add_methods(type, qbpy_config_old_methods))
		return -1;
	return qbpy_add_methods(type, qbpy_config_value_methods);
}
