// SPDX-License-Identifier: MIT
/*
 * Callbacks of Futures. The library calls on a thread of its own, which takes
 * the GIL; a Future that waits for its call holds a reference on itself.
 *
 * Once an interpreter has begun to end, a thread that asks for the GIL is ended
 * or stands for ever. So callbacks pass a gate, which an atexit function closes:
 * from then on none comes in, and it waits, for a bounded time, for those that
 * are inside. The library's thread uses nothing of Python's outside the gate.
 * Nobody asks for the GIL with the gate's lock.
 */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define MAX_DRAIN_S 2

static struct {
	pthread_mutex_t lock; /* guards the next two */
	bool is_closed;
	unsigned int num_inside;
	pthread_cond_t emptied; /* CLOCK_MONOTONIC */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool enter(void)
{
	bool is_open;

	(void)pthread_mutex_lock(&gate.lock);
	is_open = !gate.is_closed;
	gate.num_inside += is_open;
	(void)pthread_mutex_unlock(&gate.lock);
	return is_open;
}

/* A callback that forks comes back in the child too, where it was not counted. */
static void leave(void)
{
	(void)pthread_mutex_lock(&gate.lock);
	if (gate.num_inside && !--gate.num_inside)
		(void)pthread_cond_broadcast(&gate.emptied);
	(void)pthread_mutex_unlock(&gate.lock);
}

static void init_emptied(void)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&gate.emptied, &attr);
	(void)pthread_condattr_destroy(&attr);
}

static void lock_gate(void)
{
	(void)pthread_mutex_lock(&gate.lock);
}

static void unlock_gate(void)
{
	(void)pthread_mutex_unlock(&gate.lock);
}

/* In a child of fork nobody else is inside, and nobody waits. */
static void empty_gate(void)
{
	gate.num_inside = 0;
	init_emptied();
	unlock_gate();
}

static void set_closed(bool is_closed)
{
	lock_gate();
	gate.is_closed = is_closed;
	unlock_gate();
}

static PyObject *close_gate(PyObject *self, PyObject *none)
{
	struct timespec deadline;
	PyThreadState *thread;

	(void)self;
	(void)none;
	set_closed(true);
	thread = PyEval_SaveThread();
	(void)clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += MAX_DRAIN_S;
	lock_gate();
	while (gate.num_inside &&
	       pthread_cond_timedwait(&gate.emptied, &gate.lock, &deadline) !=
		       ETIMEDOUT)
		;
	unlock_gate();
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
	static bool is_set_up;

	state->is_main = !PyInterpreterState_GetID(PyInterpreterState_Get());
	if (!state->is_main)
		return 0;
	if (!is_set_up && pthread_atfork(lock_gate, unlock_gate, empty_gate)) {
		(void)PyErr_NoMemory();
		return -1;
	}
	if (!is_set_up)
		init_emptied();
	is_set_up = true;
	if (register_exit())
		return -1;
	set_closed(false);
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

/* Nobody would call it any more. */
static bool refuse_at_end(void)
{
	bool is_closed;

	lock_gate();
	is_closed = gate.is_closed;
	unlock_gate();
	if (is_closed)
		PyErr_SetString(PyExc_RuntimeError,
				"the interpreter ends: nothing is called back "
				"any more, and nothing can be awaited; get() "
				"and wait_for() work");
	return is_closed;
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
