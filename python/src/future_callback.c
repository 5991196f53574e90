// SPDX-License-Identifier: MIT
/*
 * Callbacks of Futures. The library calls on a thread of its own, which takes
 * the GIL, inside the gate of deferred.c; a Future that waits for its call holds
 * a reference on itself.
 */
#include "module.h"

static void call_one(struct qbpy_future *self, PyObject *fn)
{
	PyObject *ret =
		PyObject_CallFunctionObjArgs(fn, (PyObject *)self, NULL);

	if (!ret)
		PyErr_WriteUnraisable(fn);
	Py_XDECREF(ret);
}

/* Those too that come while others are called. */
static void call_all(struct qbpy_future *self)
{
	while (self->callbacks) {
		PyObject *callbacks = self->callbacks;

		self->callbacks = NULL;
		for (Py_ssize_t i = 0; i < PyList_Size(callbacks); i++)
			call_one(self, PyList_GetItem(callbacks, i));
		Py_DECREF(callbacks);
	}
	self->is_told = true;
}

static void tell(void *arg, struct qbrt_future *future)
{
	PyGILState_STATE gil;

	(void)future;
	if (!qbpy_enter_gate())
		return;
	gil = PyGILState_Ensure();
	call_all(arg);
	Py_DECREF((PyObject *)arg);
	PyGILState_Release(gil);
	qbpy_leave_gate();
}

/*
 * Has the library tell. With the GIL, since it waits for nothing, and a second
 * thread must not find half of it done.
 */
static int watch(struct qbpy_future *self)
{
	enum qbrt_status status;

	self->is_watched = true;
	Py_INCREF((PyObject *)self);
	status = qbrt_future_set_callback(self->future, tell, self);
	if (!status)
		return 0;
	self->is_watched = false;
	Py_CLEAR(self->callbacks);
	(void)qbpy_raise(self->state, status, qbpy_acc_id(self->handle));
	Py_DECREF((PyObject *)self);
	return -1;
}

/* To be called with the others. */
static int append(struct qbpy_future *self, PyObject *fn)
{
	if (!self->callbacks) {
		self->callbacks = PyList_New(0);
		if (!self->callbacks)
			return -1;
	}
	if (PyList_Append(self->callbacks, fn))
		return -1;
	return self->is_watched ? 0 : watch(self);
}

/* Nobody would call it any more. */
static bool refuse_at_end(void)
{
	bool is_ending = qbpy_is_ending();

	if (is_ending)
		PyErr_SetString(PyExc_RuntimeError,
				"the interpreter ends: nothing is called back "
				"any more, and nothing can be awaited; get() "
				"and wait_for() work");
	return is_ending;
}

PyObject *qbpy_add_done_callback(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	bool is_done = true;
	PyObject *fn;

	if (qbpy_parse_one(args, kw, "add_done_callback", "fn", &fn))
		return NULL;
	if (!PyCallable_Check(fn))
		return qbpy_raise_type("a callable for fn", fn);
	if (qbpy_check_future(self))
		return NULL;
	if (!self->state->is_main)
		return qbpy_raise_text(self->state, QBRT_NOT_IMPLEMENTED,
				       qbpy_acc_id(self->handle),
				       "callbacks and await need the main "
				       "interpreter: use wait_for() or "
				       "fileno() in another");
	if (!self->is_told && !self->is_watched &&
	    qbpy_query_future(self, &is_done))
		return NULL;
	/* who is watched calls in the order of coming */
	if (self->is_told || (!self->is_watched && is_done))
		call_one(self, fn);
	else if (refuse_at_end() || append(self, fn))
		return NULL;
	Py_RETURN_NONE;
}
