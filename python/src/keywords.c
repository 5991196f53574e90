// SPDX-License-Identifier: MIT
/*
 * Names that calls ask for or are given, as str objects that live with the
 * module, and arguments by them: Python interns the names in a call, so that
 * one look at the address mostly does.
 */
#include "module.h"

static const char *const texts[QBPY_NUM_NAMES] = {
	[QBPY_NAME_CACHE_SIZE] = "cache_size",
	[QBPY_NAME_COPY] = "copy",
	[QBPY_NAME_DLPACK] = "__dlpack__",
	[QBPY_NAME_DLPACK_DEVICE] = "__dlpack_device__",
	[QBPY_NAME_DL_DEVICE] = "dl_device",
	[QBPY_NAME_EXCHANGE] = "__dlpack_c_exchange_api__",
	[QBPY_NAME_INPUTS] = "inputs",
	[QBPY_NAME_MAX_VERSION] = "max_version",
	[QBPY_NAME_OBJ] = "obj",
	[QBPY_NAME_OUTPUTS] = "outputs",
	[QBPY_NAME_STREAM] = "stream",
};

int qbpy_make_names(struct qbpy_state *state)
{
	for (int i = 0; i < QBPY_NUM_NAMES; i++) {
		state->names[i] = PyUnicode_InternFromString(texts[i]);
		if (!state->names[i])
			return -1;
	}
	return 0;
}

/* The place of an argument's name; signature->num: none has it. */
static int find_place(const struct qbpy_state *state,
		      const struct qbpy_signature *signature, PyObject *name)
{
	for (int i = 0; i < signature->num; i++)
		if (name == state->names[signature->names[i]])
			return i;
	for (int i = 0; i < signature->num; i++)
		if (!PyUnicode_CompareWithASCIIString(
			    name, texts[signature->names[i]]))
			return i;
	return signature->num;
}

static int refuse_number(const struct qbpy_signature *signature, Py_ssize_t num)
{
	PyErr_Format(
		PyExc_TypeError, "%s() takes at most %d argument%s%s, got %zd",
		signature->function, signature->num_places,
		signature->num_places == 1 ? "" : "s",
		signature->num_places == signature->num ? "" : " without names",
		num);
	return -1;
}

/* Its place, or -1. */
static int sort_named(const struct qbpy_state *state,
		      const struct qbpy_signature *signature, PyObject *name,
		      PyObject *value, PyObject **sorted)
{
	int at = find_place(state, signature, name);

	if (at < signature->num && !sorted[at]) {
		sorted[at] = value;
		return at;
	}
	PyErr_Format(PyExc_TypeError,
		     at == signature->num ? "%s() has no argument %R"
					  : "%s() got %R twice",
		     signature->function, name);
	return -1;
}

int qbpy_sort_arguments(struct qbpy_state *state,
			const struct qbpy_signature *signature,
			PyObject *const *args, Py_ssize_t num, PyObject *names,
			PyObject *sorted[QBPY_MAX_ARGUMENTS])
{
	struct qbpy_order *last = &state->last.order;
	struct qbpy_order order = { .signature = signature, .num = num };
	PyObject *old;

	if (num > signature->num_places)
		return refuse_number(signature, num);
	memset(sorted, 0, QBPY_MAX_ARGUMENTS * sizeof(*sorted));
	for (Py_ssize_t i = 0; i < num; i++)
		sorted[i] = args[i];
	if (!names)
		return 0;
	args += num;
	if (names == last->names && signature == last->signature &&
	    num == last->num) {
		for (Py_ssize_t i = 0; i < last->num_named; i++)
			sorted[last->places[i]] = args[i];
		return 0;
	}
	order.num_named = PyTuple_Size(names);
	for (Py_ssize_t i = 0; i < order.num_named; i++) {
		int at = sort_named(state, signature, PyTuple_GetItem(names, i),
				    args[i], sorted);

		if (at < 0)
			return -1;
		order.places[i] = at;
	}
	order.names = Py_NewRef(names);
	old = last->names;
	*last = order;
	/* names of a derived class may have a __del__(), which may call */
	Py_XDECREF(old);
	return 0;
}

int qbpy_parse_one(PyObject *args, PyObject *kw, const char *function,
		   const char *name, PyObject **object)
{
	Py_ssize_t num = PyTuple_Size(args);
	PyObject *named = kw ? PyDict_GetItemString(kw, name) : NULL;

	if (num + (kw ? PyDict_Size(kw) : 0) != 1 || (!num && !named)) {
		PyErr_Format(PyExc_TypeError, "%s() takes one argument, %s",
			     function, name);
		return -1;
	}
	*object = num ? PyTuple_GetItem(args, 0) : named;
	return 0;
}
