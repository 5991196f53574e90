/* SPDX-License-Identifier: MIT */
/*
 * Names that calls ask for or are given, and arguments by them. Part of module.h,
 * whose state keeps the names.
 */
#ifndef QBPY_KEYWORDS_H
#define QBPY_KEYWORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

struct qbpy_state;

#define QBPY_MAX_ARGUMENTS 4

/* keywords.c has the texts. */
enum qbpy_name {
	QBPY_NAME_CACHE_SIZE,
	QBPY_NAME_COPY,
	QBPY_NAME_DLPACK,
	QBPY_NAME_DLPACK_DEVICE,
	QBPY_NAME_DL_DEVICE,
	QBPY_NAME_EXCHANGE,
	QBPY_NAME_INPUTS,
	QBPY_NAME_MAX_VERSION,
	QBPY_NAME_OBJ,
	QBPY_NAME_OUTPUTS,
	QBPY_NAME_STREAM,
	QBPY_NUM_NAMES
};

/* Of a function that is METH_FASTCALL | METH_KEYWORDS. */
struct qbpy_signature {
	const char *function;
	int num;        /* of arguments */
	int num_places; /* so many of them may come without a name */
	enum qbpy_name names[QBPY_MAX_ARGUMENTS];
};

/* A call that came last, and where its arguments by name went. */
struct qbpy_order {
	const struct qbpy_signature *signature;
	PyObject *names; /* a code's own tuple each time; NULL: no call yet */
	Py_ssize_t num;
	Py_ssize_t num_named;
	int places[QBPY_MAX_ARGUMENTS];
};

/* The tuple that was read last, and what it says. */
struct qbpy_pair {
	PyObject *tuple; /* NULL: none yet */
	long long numbers[2];
};

/* What is not found out anew for as long as calls pass the same again. */
struct qbpy_last {
	struct qbpy_order order;
	struct qbpy_pair max_version, dl_device; /* dlpack.c */
	PyCFunction unversioned; /* a __dlpack__ that refused max_version */
};

int qbpy_make_names(struct qbpy_state *state);
/* sorted: each in the order of the signature; NULL: not given. */
int qbpy_sort_arguments(struct qbpy_state *state,
			const struct qbpy_signature *signature,
			PyObject *const *args, Py_ssize_t num, PyObject *names,
			PyObject *sorted[QBPY_MAX_ARGUMENTS]);
/* The one argument of a call, by place or by name. */
int qbpy_parse_one(PyObject *args, PyObject *kw, const char *function,
		   const char *name, PyObject **object);

#endif
