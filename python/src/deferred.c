// SPDX-License-Identifier: MIT
/*
 * What comes to Python from outside, and the end of the interpreter.
 *
 * Once an interpreter has begun to end, a thread that asks for the GIL is ended
 * or stands for ever. So who comes from a thread of the library's or of others
 * passes a gate, which an atexit function closes: from then on nobody comes in,
 * and it waits, for a bounded time, for those that are inside. Such a thread
 * uses nothing of Python's outside the gate. Nobody asks for the GIL with the
 * gate's lock.
 *
 * Memory that was imported is Python's to release. The library keeps such
 * releases on a list (QBRT_TENSOR_DEFER_RELEASE), which is drained here alone,
 * with the GIL: by whoever has dropped a Tensor, by the next call of the bridge,
 * and, when a consumer of ours ended an export on a thread that may have no GIL,
 * by a pending call. After the gate has closed they stay where they are.
 */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MAX_DRAIN_S 2

static struct {
	pthread_mutex_t lock;  /* guards the next two */
	atomic_bool is_closed; /* read without it where nobody comes in */
	unsigned int num_inside;
	pthread_cond_t emptied; /* CLOCK_MONOTONIC */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_bool is_pending; /* run_pending(), or a thread is adding it */

bool qbpy_enter_gate(void)
{
	bool is_open;

	(void)pthread_mutex_lock(&gate.lock);
	is_open = !gate.is_closed;
	gate.num_inside += is_open;
	(void)pthread_mutex_unlock(&gate.lock);
	return is_open;
}

/* A callback that forks comes back in the child too, where it was not counted. */
void qbpy_leave_gate(void)
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

/* In a child of fork nobody else is inside, waits, or is adding a call. */
static void empty_gate(void)
{
	gate.num_inside = 0;
	atomic_store(&is_pending, false);
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

int qbpy_open_gate(struct qbpy_state *state)
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

bool qbpy_is_ending(void)
{
	return atomic_load(&gate.is_closed);
}

/* A release may drop a Tensor, which comes back here: the drain goes on. */
static void drain(void)
{
	static _Thread_local bool is_draining;
	PyObject *type, *value, *traceback;
	enum qbrt_status status;

	if (is_draining || qbpy_is_ending())
		return;
	is_draining = true;
	PyErr_Fetch(&type, &value, &traceback);
	status = qbrt_bridge_drain(NULL);
	(void)status; /* what is not released now stays on the list */
	PyErr_Restore(type, value, traceback);
	is_draining = false;
}

void qbpy_drain(const struct qbpy_state *state)
{
	if (state->is_main)
		drain();
}

static int run_pending(void *arg)
{
	(void)arg;
	atomic_store(&is_pending, false);
	drain();
	return 0;
}

/* Where the list of pending calls is full, the next call of the bridge drains. */
void qbpy_drain_soon(void)
{
	if (!qbpy_enter_gate())
		return;
	if (!atomic_exchange(&is_pending, true) &&
	    Py_AddPendingCall(run_pending, NULL))
		atomic_store(&is_pending, false);
	qbpy_leave_gate();
}
