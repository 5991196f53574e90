// SPDX-License-Identifier: MIT
/*
 * Callbacks of Futures. The library calls on a thread of its own, which takes
 * the GIL; a Future that waits for its call holds a reference on itself.
 *
 * Once an interpreter has begun to end, a thread that asks for the GIL is ended
 * or stands for ever. So callbacks pass a gate, which an atexit function closes:
 * from then on none comes in, and it waits, for a bounded time, for those that
 * are inside. The library's thread uses nothing of Python's outside the gate.
 */
#include "module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define GATE_IS_CLOSED 0x80000000u
#define MAX_DRAIN_MS 2000
#define NS_PER_MS 1000000

/* how many callbacks are inside, and GATE_IS_CLOSED */
static atomic_uint gate;

static bool enter(void)
{
	if (!(atomic_fetch_add(&gate, 1) & GATE_IS_CLOSED))
		return true;
	(void)atomic_fetch_sub(&gate, 1);
	return false;
}

static void leave(void)
{
	(void)atomic_fetch_sub(&gate, 1);
}

/* In a child of fork nobody else is inside. */
static void empty_gate(void)
{
	(void)atomic_fetch_and(&gate, GATE_IS_CLOSED);
}

static PyObject *close_gate(PyObject *self, PyObject *none)
{
	const struct timespec pause = { .tv_nsec = NS_PER_MS };
	PyThreadState *thread;

	(void)self;
	(void)none;
	(void)atomic_fetch_or(&gate, GATE_IS_CLOSED);
	thread = PyEval_SaveThread();
	for (int i = 0;
	     i < MAX_DRAIN_MS && atomic_load(&gate) != GATE_IS_CLOSED; i++)
		(void)nanosleep(&pause, NULL);
	PyEval_RestoreThread(thread);
	Py_RETURN_NONE;
}

static PyMethodDef close_gate_def = { "close_gate", close_gate, METH_NOARGS,
				      NULL };

static int register_exit(void)
{
	PyObject *function = PyCFunction_New(&close_gate_def, NULL);
	PyObject *module = function ? PyImport_ImportModule("atexit") : NULL;
	PyObject *ret = NULL;

	if (module)
		ret = PyObject_CallMethod(module, "register", "O", function);
	Py_XDECREF(function);
	Py_XDECREF(module);
	Py_XDECREF(ret);
	return ret ? 0 : -1;
}

int qbpy_open_callbacks(struct qbpy_state *state)
{
	static bool is_told_of_forks;

	state->is_main = !PyInterpreterState_GetID(PyInterpreterState_Get());
	if (!state->is_main)
		return 0;
	if (!is_told_of_forks && pthread_atfork(NULL, NULL, empty_gate)) {
		(void)PyErr_NoMemory();
		return -1;
	}
	is_told_of_forks = true;
	if (register_exit())
		return -1;
	(void)atomic_fetch_and(&gate, ~GATE_IS_CLOSED);
	return 0;
}

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
	if (!enter())
		return;
	gil = PyGILState_Ensure();
	call_all(arg);
	Py_DECREF((PyObject *)arg);
	PyGILState_Release(gil);
	leave();
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
	else if (append(self, fn))
		return NULL;
	Py_RETURN_NONE;
}
