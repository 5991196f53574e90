// SPDX-License-Identifier: MIT
/*
 * The list of devices, and a device's facts as Python values.
 */
#include "module.h"

static const char *const kind_names[] = { "none", "hardware", "software" };
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

/* (oldest, newest) */
static PyObject *container_versions(const struct qbrt_device_info *info)
{
	uint32_t min = qbrt_device_info_get_container_min(info);
	uint32_t max = qbrt_device_info_get_container_max(info);

	return Py_BuildValue(
		"(NN)", PyUnicode_FromFormat("%u.%u", min >> 16, min & 0xffff),
		PyUnicode_FromFormat("%u.%u", max >> 16, max & 0xffff));
}

PyObject *qbpy_info_to_tuple(struct qbpy_state *state,
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
