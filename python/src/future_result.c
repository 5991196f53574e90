// SPDX-License-Identifier: MIT
/*
 * The result of a Future: new arrays, which belong to the program alone, or the
 * pinned memory that was given. The library writes new arrays without the GIL,
 * while nobody else has seen them.
 */
#include "arrays.h"

/* The arrays that a result is put into. */
struct outputs {
	size_t num;
	struct qbrt_array *arrays;
	struct qbrt_io_info *infos; /* which have the shapes */
	PyObject *list;
};

static void free_outputs(struct outputs *outputs)
{
	PyMem_Free(outputs->arrays);
	PyMem_Free(outputs->infos);
}

/* A new array for one output; 0, or -1 with an exception. */
static int add_output(const struct qbpy_future *self, struct outputs *outputs,
		      size_t i)
{
	struct qbrt_io_info *info = &outputs->infos[i];
	struct qbrt_array *array = &outputs->arrays[i];
	enum qbrt_status status;
	PyObject *object;
	int ret;

	info->size = sizeof(*info);
	status = qbrt_future_query_output(self->future, i, info);
	if (qbpy_check(self->state, status, qbpy_acc_id(self->handle)))
		return -1;
	object = qbpy_new_array(self->state, info->dtype, info->shape,
				info->ndim, &array->data);
	if (!object)
		return -1;
	array->shape = info->shape;
	array->ndim = info->ndim;
	array->dtype = info->dtype;
	ret = PyList_Append(outputs->list, object);
	Py_DECREF(object);
	return ret;
}

/* On failure nothing is held. */
static int make_outputs(const struct qbpy_future *self, struct outputs *outputs)
{
	const struct qbpy_model *model = (struct qbpy_model *)self->model;
	size_t num = qbrt_model_get_num_outputs(model->model);

	outputs->num = num;
	outputs->arrays = PyMem_Calloc(num, sizeof(outputs->arrays[0]));
	outputs->infos = PyMem_Calloc(num, sizeof(outputs->infos[0]));
	outputs->list = PyList_New(0);
	if (outputs->list && (!outputs->arrays || !outputs->infos)) {
		Py_CLEAR(outputs->list);
		(void)PyErr_NoMemory();
	}
	for (size_t i = 0; outputs->list && i < num; i++)
		if (add_output(self, outputs, i))
			Py_CLEAR(outputs->list);
	if (outputs->list)
		return 0;
	free_outputs(outputs);
	return -1;
}

/*
 * Until it has ended, and signal handlers have run: what they raise leaves the
 * result, which is taken without a wait.
 */
static int wait_ended(const struct qbpy_future *self)
{
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_future_wait(self->future, -1);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, qbpy_acc_id(self->handle)))
		return -1;
	return PyErr_CheckSignals();
}

/* The outputs lie in pinned memory; a failed job's go too. */
static PyObject *get_pinned(struct qbpy_future *self)
{
	PyObject *list = Py_NewRef(self->outputs);
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_future_query_result(self->future, NULL, 0);
	qbpy_end_wait();
	if (status != QBRT_INTERRUPTED)
		QBPY_REPLACE(self->outputs, Py_NewRef(Py_None));
	if (qbpy_check(self->state, status, qbpy_acc_id(self->handle)))
		Py_CLEAR(list);
	return list;
}

PyObject *qbpy_future_get(PyObject *object, PyObject *none)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	struct outputs outputs;
	enum qbrt_status status;

	(void)none;
	if (qbpy_check_future(self))
		return NULL;
	if (wait_ended(self))
		return NULL;
	if (self->outputs)
		return get_pinned(self);
	if (make_outputs(self, &outputs))
		return NULL;
	qbpy_begin_wait();
	status = qbrt_future_query_result(self->future, outputs.arrays,
					  outputs.num);
	qbpy_end_wait();
	free_outputs(&outputs);
	if (qbpy_check(self->state, status, qbpy_acc_id(self->handle)))
		Py_CLEAR(outputs.list);
	return outputs.list;
}
