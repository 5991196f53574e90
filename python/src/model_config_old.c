// SPDX-License-Identifier: MIT
/*
 * Deprecated methods of ModelConfig. include() and exclude() edit the list of
 * cores of mode Single. Where none was set, all cores are excluded from, and the
 * first that is included begins one, unless the mode is Single on all already.
 */
#include "model_config.h"

#define NUM_CLUSTERS 2
#define NUM_CORES 4 /* of a cluster */

struct core_list {
	size_t num;
	struct qbrt_core_id core_ids[NUM_CLUSTERS * NUM_CORES];
};

static struct qbpy_config *self_of(PyObject *object)
{
	return (struct qbpy_config *)object;
}

static int warn(const char *text)
{
	return PyErr_WarnEx(PyExc_DeprecationWarning, text, 1);
}

static size_t list_cluster(enum qbrt_cluster cluster,
			   struct qbrt_core_id core_ids[NUM_CORES])
{
	for (size_t i = 0; i < NUM_CORES; i++)
		core_ids[i] = (struct qbrt_core_id){
			cluster, (enum qbrt_core)(QBRT_CORE_0 + i)
		};
	return NUM_CORES;
}

static bool is_all(const struct qbpy_config *self)
{
	return qbrt_model_config_get_core_mode(self->config) ==
		       QBRT_CORE_MODE_SINGLE &&
	       !qbrt_model_config_get_num_cores(self->config);
}

static void read_list(const struct qbpy_config *self, bool is_to_include,
		      struct core_list *list)
{
	const struct qbrt_core_id *core_ids =
		qbrt_model_config_get_core_ids(self->config, &list->num);

	if (list->num) {
		memcpy(list->core_ids, core_ids,
		       list->num * sizeof(core_ids[0]));
	} else if (!self->has_no_core && (!is_to_include || is_all(self))) {
		list->num = list_cluster(QBRT_CLUSTER_0, list->core_ids);
		list->num += list_cluster(QBRT_CLUSTER_1,
					  list->core_ids + list->num);
	}
}

/* Puts a core that the library has accepted at the end, or takes it out. */
static void edit(struct core_list *list, struct qbrt_core_id core_id,
		 bool is_to_include)
{
	size_t kept = 0;
	bool was_there = false;

	for (size_t i = 0; i < list->num; i++) {
		bool is_it = list->core_ids[i].cluster == core_id.cluster &&
			     list->core_ids[i].core == core_id.core;

		was_there |= is_it;
		if (!is_it || is_to_include)
			list->core_ids[kept++] = list->core_ids[i];
	}
	if (is_to_include && !was_there)
		list->core_ids[kept++] = core_id;
	list->num = kept;
}

/* Without a core, and for Core.All, those of the cluster. */
static int parse_cores(PyObject *args, PyObject *kw, const char *format,
		       struct qbrt_core_id core_ids[NUM_CORES], size_t *num)
{
	static char *keywords[] = { "cluster", "core", NULL };
	long long core = QBRT_CORE_ALL;
	PyObject *core_arg = Py_None;
	enum qbrt_cluster cluster;
	PyObject *cluster_arg;

	if (!PyArg_ParseTupleAndKeywords(args, kw, format, keywords,
					 &cluster_arg, &core_arg) ||
	    qbpy_parse_cluster(cluster_arg, &cluster) ||
	    (core_arg != Py_None && qbpy_parse_int(core_arg, "core", &core)))
		return -1;
	if (core == QBRT_CORE_ALL) {
		*num = list_cluster(cluster, core_ids);
		return 0;
	}
	core_ids[0].cluster = cluster;
	core_ids[0].core = core < 0 || core > QBRT_CORE_ERROR
				   ? QBRT_CORE_ERROR
				   : (enum qbrt_core)core;
	*num = 1;
	return 0;
}

/* Whether the library takes these cores; -1 with an exception. */
static int check_cores(struct qbpy_config *self,
		       const struct qbrt_core_id *core_ids, size_t num)
{
	struct qbpy_change change = { .core_mode = QBRT_CORE_MODE_SINGLE,
				      .core_ids = core_ids,
				      .num = num };

	return qbpy_check_change(self, &change);
}

/* All eight are all that a device has. */
static PyObject *set_list(struct qbpy_config *self,
			  const struct core_list *list)
{
	struct qbpy_change change = { .core_mode = QBRT_CORE_MODE_SINGLE,
				      .core_ids = list->core_ids,
				      .num = list->num,
				      .has_no_core = !list->num };
	int ret;

	if (list->num == NUM_CLUSTERS * NUM_CORES)
		change.num = 0;
	ret = qbpy_change_config(self, &change);
	return ret < 0 ? NULL : PyBool_FromLong(ret);
}

static PyObject *change_list(PyObject *object, PyObject *args, PyObject *kw,
			     const char *format, bool is_to_include)
{
	struct qbrt_core_id core_ids[NUM_CORES];
	struct core_list list = { 0 };
	size_t num;
	int ret;

	if (parse_cores(args, kw, format, core_ids, &num))
		return NULL;
	ret = check_cores(self_of(object), core_ids, num);
	if (ret <= 0)
		return ret ? NULL : Py_NewRef(Py_False);
	read_list(self_of(object), is_to_include, &list);
	for (size_t i = 0; i < num; i++)
		edit(&list, core_ids[i], is_to_include);
	return set_list(self_of(object), &list);
}

static PyObject *include(PyObject *object, PyObject *args, PyObject *kw)
{
	if (warn("include() is set_single_core_mode(core_ids=[...])"))
		return NULL;
	return change_list(object, args, kw, "O|O:include", true);
}

static PyObject *exclude(PyObject *object, PyObject *args, PyObject *kw)
{
	if (warn("exclude() is set_single_core_mode(core_ids=[...]) with the "
		 "other cores"))
		return NULL;
	return change_list(object, args, kw, "O|O:exclude", false);
}

static PyObject *include_all(PyObject *object, PyObject *none)
{
	struct core_list list = { .num = NUM_CLUSTERS * NUM_CORES };

	(void)none;
	if (warn("include_all_cores() is set_single_core_mode()"))
		return NULL;
	return set_list(self_of(object), &list);
}

static PyObject *exclude_all(PyObject *object, PyObject *none)
{
	struct core_list list = { 0 };

	(void)none;
	if (warn("exclude_all_cores() is set_single_core_mode(core_ids=[...]) "
		 "with the cores that are included next"))
		return NULL;
	return set_list(self_of(object), &list);
}

static PyObject *set_auto(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "num_cores", NULL };
	struct qbpy_change change = { .core_mode = QBRT_CORE_MODE_SINGLE,
				      .num = 1 };
	PyObject *count = NULL;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:set_auto_mode", keywords,
					 &count) ||
	    (count && qbpy_parse_num_cores(count, &change.num)) ||
	    warn("set_auto_mode(num_cores) is "
		 "set_single_core_mode(num_cores)"))
		return NULL;
	ret = qbpy_change_config(self_of(object), &change);
	return ret < 0 ? NULL : PyBool_FromLong(ret);
}

/* The list stays; without one it is all cores. */
static PyObject *set_manual(PyObject *object, PyObject *none)
{
	struct core_list list = { 0 };

	(void)none;
	if (warn("set_manual_mode() is set_single_core_mode(core_ids=[...])"))
		return NULL;
	read_list(self_of(object), false, &list);
	return set_list(self_of(object), &list);
}

static PyObject *set_global(PyObject *object, PyObject *args, PyObject *kw)
{
	if (warn("set_global_core_mode() is set_global4_core_mode()"))
		return NULL;
	return qbpy_set_clusters(object, args, kw, "|O:set_global_core_mode",
				 QBRT_CORE_MODE_GLOBAL4);
}

#define OLD(name, function, parameters, words) \
	{ \
		name, (PyCFunction)(void (*)(void))function, \
			METH_VARARGS | METH_KEYWORDS, \
			name "($self, " parameters \
			     ")\n--\n\nDeprecated: " words \
	}
#define OLD_NOARGS(name, function, words) \
	{ \
		name, function, METH_NOARGS, \
			name "($self, /)\n--\n\nDeprecated: " words \
	}
PyMethodDef qbpy_config_old_methods[] = {
	OLD("exclude", exclude, "cluster, core=None",
	    "take a core, or those of a cluster, out of the list of mode "
	    "Single."),
	OLD_NOARGS("exclude_all_cores", exclude_all,
		   "empty the list of mode Single. A Model takes it once cores "
		   "are included."),
	OLD("include", include, "cluster, core=None",
	    "put a core, or those of a cluster, on the list of mode Single."),
	OLD_NOARGS("include_all_cores", include_all, "set_single_core_mode()."),
	OLD("set_auto_mode", set_auto, "num_cores=1",
	    "set_single_core_mode(num_cores)."),
	OLD("set_global_core_mode", set_global, "clusters=None",
	    "set_global4_core_mode()."),
	OLD_NOARGS("set_manual_mode", set_manual,
		   "mode Single on the cores of the list, or on all."),
	{ NULL, NULL, 0, NULL },
};
