/* SPDX-License-Identifier: MIT */
/* One call of infer(): what infer_array.c and infer_outputs.c share. */
#ifndef QBPY_INFER_ARRAY_H
#define QBPY_INFER_ARRAY_H

#include "arrays.h"

struct qbpy_call {
	struct qbpy_model *self;
	struct qbpy_state *state;
	struct qbrt_infer_options options;
	struct qbpy_arrays inputs;
	PyObject *outputs; /* of the list that was given, a tuple; or NULL */
};

/*
 * A list with, for each output, a new array that the library is to write
 * instead, or None. outputs: has the new arrays then.
 */
PyObject *qbpy_replace_outputs(const struct qbpy_call *call,
			       struct qbpy_arrays *outputs);
/* After success; replaced: that list. list: the one that the program gave. */
int qbpy_put_results(const struct qbpy_call *call,
		     const struct qbpy_arrays *outputs, PyObject *replaced,
		     PyObject *list);

#endif
