// SPDX-License-Identifier: MIT
/*
 * Outputs that infer() cannot have written in place: new arrays take their
 * stead in the library. They are the results of those that are not in C order
 * (Q327), and are copied into pinned memory that a failed job left invalid,
 * since only a call that succeeds may make that valid (Q485).
 */
#include "infer_array.h"

/* What does not is left to the library, which refuses it. */
static bool fits(const struct qbpy_call *call, const struct qbrt_array *array,
		 size_t index)
{
	struct qbrt_io_info info = { .size = sizeof(info) };

	return !qbrt_model_query_match_output(call->self->model, &call->options,
					      call->inputs.arrays,
					      call->inputs.num, index, &info) &&
	       info.ndim == array->ndim &&
	       memcmp(info.shape, array->shape,
		      info.ndim * sizeof(info.shape[0])) == 0;
}

/* Others that lie in the memory of an output begin in it (Q328). */
static bool is_apart(const struct qbpy_call *call,
		     const struct qbpy_arrays *outputs, size_t index)
{
	const struct qbpy_native *native = outputs->holds[index].native;
	uintptr_t begin = (uintptr_t)native->data;

	for (size_t i = 0; i < outputs->num + call->inputs.num; i++) {
		const struct qbrt_array *other =
			i < outputs->num
				? &outputs->arrays[i]
				: &call->inputs.arrays[i - outputs->num];

		if (i != index &&
		    (uintptr_t)other->data - begin < (size_t)native->nbytes)
			return false;
	}
	return true;
}

/* A new array to be written instead; None: the output itself will do. */
static PyObject *replace(const struct qbpy_call *call,
			 struct qbpy_arrays *outputs, size_t index)
{
	const struct qbpy_hold *hold = &outputs->holds[index];
	struct qbrt_array *array = &outputs->arrays[index];

	if (!hold->is_invalid &&
	    (!hold->view.obj || PyBuffer_IsContiguous(&hold->view, 'C') ||
	     !fits(call, array, index)))
		return Py_NewRef(Py_None);
	array->strides = NULL;
	return qbpy_new_array(call->state, array->dtype, array->shape,
			      array->ndim, &array->data);
}

PyObject *qbpy_replace_outputs(const struct qbpy_call *call,
			       struct qbpy_arrays *outputs)
{
	PyObject *list = PyList_New(0);
	bool are_apart = true;

	/* what overlaps stays as it is, for the library to refuse */
	for (size_t i = 0; i < outputs->num; i++)
		if (outputs->holds[i].is_invalid)
			are_apart &= is_apart(call, outputs, i);
	for (size_t i = 0; list && i < outputs->num; i++) {
		PyObject *item = are_apart ? replace(call, outputs, i)
					   : Py_NewRef(Py_None);

		if (!item || PyList_Append(list, item))
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	return list;
}

/* To write all of it makes it valid. */
static int rewrite(struct qbpy_native *native, const void *data)
{
	enum qbrt_status status = qbpy_begin_access(native, QBRT_CPU_WRITE);
	PyThreadState *thread;

	if (qbpy_check_native(native, status))
		return -1;
	thread = PyEval_SaveThread();
	memcpy(native->data, data, (size_t)native->nbytes);
	PyEval_RestoreThread(thread);
	return qbpy_check_native(native, qbpy_end_access(native));
}

/*
 * Invalid memory gets its results, and the list the new arrays (Q327). It may
 * have changed since: where it gets any, all is as it was given but those.
 */
int qbpy_put_results(const struct qbpy_call *call,
		     const struct qbpy_arrays *outputs, PyObject *replaced,
		     PyObject *list)
{
	bool is_new = false;

	for (size_t i = 0; i < outputs->num; i++) {
		PyObject *item = PyList_GetItem(replaced, (Py_ssize_t)i);
		const struct qbpy_hold *hold = &outputs->holds[i];

		if (hold->is_invalid &&
		    rewrite(hold->native, outputs->arrays[i].data))
			return -1;
		if (!hold->is_invalid && item != Py_None) {
			is_new = true;
			continue;
		}
		item = PyTuple_GetItem(call->outputs, (Py_ssize_t)i);
		if (PyList_SetItem(replaced, (Py_ssize_t)i, Py_NewRef(item)))
			return -1;
	}
	return is_new ? PyList_SetSlice(list, 0, PY_SSIZE_T_MAX, replaced) : 0;
}
