// SPDX-License-Identifier: MIT
/*
 * The list of devices, and a device's facts as Python values.
 */
#include "module.h"

static const char *const kind_names[] = { "none", "hardware", "software" };
static const char *const state_names[] = { NULL, "ready", "resetting",
					   "degraded", "lost" };
static const char *const class_names[] = { "none", "locked", "hugepage",
					   "driver" };

const char *qbpy_kind_name(const struct qbrt_device_info *info)
{
	return kind_names[qbrt_device_info_get_kind(info)];
}

const char *qbpy_contiguity_name(enum qbrt_contiguity contiguity)
{
	return class_names[contiguity];
}

static PyObject *classes_to_list(uint32_t mask)
{
	PyObject *list = PyList_New(0);

	for (size_t i = QBRT_CONTIGUITY_LOCKED; i <= QBRT_CONTIGUITY_DRIVER;
	     i++) {
		PyObject *name;

		if (!list || !(mask >> i & 1))
			continue;
		name = PyUnicode_FromString(class_names[i]);
		if (!name || PyList_Append(list, name))
			Py_CLEAR(list);
		Py_XDECREF(name);
	}
	return list;
}

static PyObject *version_text(uint32_t version)
{
	return PyUnicode_FromFormat("%u.%u", (unsigned int)version >> 16,
				    (unsigned int)version & 0xffff);
}

/* (oldest, newest) */
static PyObject *container_versions(const struct qbrt_device_info *info)
{
	return Py_BuildValue(
		"(NN)", version_text(qbrt_device_info_get_container_min(info)),
		version_text(qbrt_device_info_get_container_max(info)));
}

static PyObject *names_to_list(const char *const *names, size_t num)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < num; i++) {
		PyObject *name = PyUnicode_FromString(names[i]);

		if (!name || PyList_Append(list, name))
			Py_CLEAR(list);
		Py_XDECREF(name);
	}
	return list;
}

static PyObject *make_limits(struct qbpy_state *state,
			     const struct qbrt_device_info *info)
{
	struct qbrt_device_limits limits = { .size = sizeof(limits) };

	if (PyErr_Occurred())
		return NULL;
	qbrt_device_info_get_limits(info, &limits);
	return PyObject_CallFunction(
		state->classes[QBPY_DEVICE_LIMITS], "IIIIKKLL",
		(unsigned int)limits.max_jobs, (unsigned int)limits.max_queues,
		(unsigned int)limits.max_bindings,
		(unsigned int)limits.max_programs,
		(unsigned long long)limits.max_program_nbytes,
		(unsigned long long)limits.max_pinned_nbytes,
		(long long)limits.default_job_time,
		(long long)limits.max_job_time);
}

/* What the device is in, takes and offers: the last fields of DeviceInfo. */
static PyObject *caps_to_tuple(struct qbpy_state *state,
			       const struct qbrt_device_info *info)
{
	const char *const *isa_features, *const *features, *const *backends;
	size_t num_isa, num_features, num_backends;

	isa_features = qbrt_device_info_get_isa_features(info, &num_isa);
	features = qbrt_device_info_get_features(info, &num_features);
	backends = qbrt_device_info_get_backends(info, &num_backends);
	return Py_BuildValue(
		"(NNNKNNNNN)", qbpy_text(qbrt_device_info_get_serial(info)),
		qbpy_text(qbrt_device_info_get_uuid(info)),
		qbpy_text(state_names[qbrt_device_info_get_state(info)]),
		(unsigned long long)qbrt_device_info_get_contiguous_free(info),
		version_text(qbrt_device_info_get_isa_version(info)),
		names_to_list(isa_features, num_isa),
		names_to_list(features, num_features),
		names_to_list(backends, num_backends),
		make_limits(state, info));
}

static PyObject *facts_to_tuple(struct qbpy_state *state,
				const struct qbrt_device_info *info)
{
	int numa_node = qbrt_device_info_get_numa_node(info);

	return Py_BuildValue(
		"(NNisNNnnnNNKKKNNNNNNNNN)",
		qbpy_text(qbrt_device_info_get_id(info)),
		qbpy_text(qbrt_device_info_get_name(info)),
		qbrt_device_info_get_number(info), qbpy_kind_name(info),
		qbpy_text(qbrt_device_info_get_family(info)),
		qbpy_text(qbrt_device_info_get_product(info)),
		(Py_ssize_t)qbrt_device_info_get_num_clusters(info),
		(Py_ssize_t)qbrt_device_info_get_local_cores_per_cluster(info),
		(Py_ssize_t)qbrt_device_info_get_global_cores_per_cluster(info),
		qbpy_mask_to_list(state, QBPY_CORE_MODE,
				  qbrt_device_info_get_core_modes(info)),
		qbpy_mask_to_list(state, QBPY_DATA_TYPE,
				  qbrt_device_info_get_dtypes(info)),
		(unsigned long long)qbrt_device_info_get_memory_total(info),
		(unsigned long long)qbrt_device_info_get_memory_free(info),
		(unsigned long long)qbrt_device_info_get_pinned_limit(info),
		classes_to_list(qbrt_device_info_get_contiguity_classes(info)),
		qbpy_text(qbrt_device_info_get_driver(info)),
		qbpy_text(qbrt_device_info_get_driver_version(info)),
		qbpy_text(qbrt_device_info_get_uapi_version(info)),
		qbpy_text(qbrt_device_info_get_firmware(info)),
		qbpy_text(qbrt_device_info_get_bus(info)),
		qbpy_text(qbrt_device_info_get_node(info)),
		numa_node < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(numa_node),
		container_versions(info));
}

PyObject *qbpy_info_to_tuple(struct qbpy_state *state,
			     const struct qbrt_device_info *info)
{
	PyObject *facts = facts_to_tuple(state, info);
	PyObject *caps = facts ? caps_to_tuple(state, info) : NULL;
	PyObject *all = caps ? PySequence_Concat(facts, caps) : NULL;

	Py_XDECREF(facts);
	Py_XDECREF(caps);
	return all;
}

/* An item of each device of a list; what is NULL is left out. */
static PyObject *list_devices(PyObject *module, const char *name,
			      PyObject *(*item)(struct qbrt_device_info *info,
						const char *last))
{
	struct qbrt_device_info **infos = NULL;
	PyObject *list = NULL;
	enum qbrt_status status;
	const char *last = "";
	size_t num = 0;

	qbpy_begin_wait();
	status = qbrt_device_info_list(name, &infos, &num);
	qbpy_end_wait();
	if (!qbpy_check(PyModule_GetState(module), status, NULL))
		list = PyList_New(0);
	for (size_t i = 0; list && i < num; i++) {
		PyObject *value = item(infos[i], last);

		last = qbrt_device_info_get_name(infos[i]);
		if (PyErr_Occurred() || (value && PyList_Append(list, value)))
			Py_CLEAR(list);
		Py_XDECREF(value);
	}
	qbrt_device_info_list_free(infos, num);
	return list;
}

static PyObject *number_item(struct qbrt_device_info *info, const char *last)
{
	(void)last;
	return PyLong_FromLong(qbrt_device_info_get_number(info));
}

/* The list is sorted by name. */
static PyObject *name_item(struct qbrt_device_info *info, const char *last)
{
	const char *name = qbrt_device_info_get_name(info);

	return strcmp(name, last) == 0 ? NULL : PyUnicode_FromString(name);
}

PyObject *qbpy_device_numbers(PyObject *module, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "device_name", NULL };
	PyObject *text = Py_None;
	const char *name = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kw,
					 "|O:get_available_device_numbers",
					 keywords, &text))
		return NULL;
	if (text != Py_None && !PyUnicode_Check(text))
		return qbpy_raise_type("a str or None for device_name", text);
	if (text != Py_None && qbpy_parse_text(text, "device_name", &name))
		return NULL;
	return list_devices(module, name, number_item);
}

PyObject *qbpy_devices(PyObject *module, PyObject *none)
{
	(void)none;
	return list_devices(module, NULL, name_item);
}
