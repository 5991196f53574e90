// SPDX-License-Identifier: MIT
/*
 * Future: an inference that was queued, until its result is taken, which is
 * future_result.c. The object owns the handle of the C API and ends it in its dealloc. It holds
 * the model, and what tells the device's name. All that it refers to breaks
 * cycles by itself, so it is traversed and has nothing to clear.
 */
#include "module.h"

#include <math.h>
#include <structmember.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NS_PER_MS 1000000
#define NS_PER_S 1e9

static const char *get_device(const struct qbpy_future *self)
{
	return qbpy_acc_id(self->handle);
}

static PyObject *raise_status(const struct qbpy_future *self,
			      enum qbrt_status status)
{
	return qbpy_raise(self->state, status, get_device(self));
}

int qbpy_check_future(const struct qbpy_future *self)
{
	if (self->future)
		return 0;
	(void)qbpy_raise_text(self->state, QBRT_FUTURE_NOT_VALID, NULL,
			      "this Future belongs to no inference: "
			      "Model.infer_async() makes one that does");
	return -1;
}

int qbpy_query_future(const struct qbpy_future *self, bool *is_done)
{
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_future_query(self->future, is_done);
	qbpy_end_wait();
	return qbpy_check(self->state, status, get_device(self));
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = qbpy_get_state(type);
	struct qbpy_future *self;

	if (!state)
		return NULL;
	if (PyTuple_Size(args) || (kw && PyDict_Size(kw))) {
		PyErr_SetString(PyExc_TypeError, "Future() takes no arguments");
		return NULL;
	}
	self = qbpy_alloc_object(type);
	if (!self)
		return NULL;
	self->state = state;
	self->fd = -1;
	return (PyObject *)self;
}

struct qbpy_future *qbpy_future_of(struct qbpy_model *model)
{
	struct qbpy_state *state = model->state;
	struct qbpy_future *self = qbpy_alloc_object(state->types[QBPY_FUTURE]);

	if (!self)
		return NULL;
	self->state = state;
	self->fd = -1;
	self->model = Py_NewRef((PyObject *)model);
	self->handle = Py_XNewRef(model->handle);
	return self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
	struct qbpy_future *self = (struct qbpy_future *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->model);
	Py_VISIT(self->outputs);
	Py_VISIT(self->callbacks);
	return 0;
}

static void free_handle(struct qbrt_future *future)
{
	PyThreadState *thread = PyEval_SaveThread();

	qbrt_future_free(future);
	PyEval_RestoreThread(thread);
}

static void dealloc(PyObject *object)
{
	struct qbpy_future *self = (struct qbpy_future *)object;

	PyObject_GC_UnTrack(object);
	if (self->weakrefs)
		PyObject_ClearWeakRefs(object);
	if (self->future)
		free_handle(self->future);
	if (self->fd >= 0)
		(void)close(self->fd);
	Py_XDECREF(self->callbacks);
	Py_XDECREF(self->outputs);
	Py_XDECREF(self->model);
	Py_XDECREF(self->handle);
	qbpy_free_object(self);
}

/* The library's status: QBRT_TIMED_OUT if the job has not ended by then. */
static enum qbrt_status wait_ended(const struct qbpy_future *self,
				   int64_t timeout)
{
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_future_wait(self->future, timeout);
	qbpy_end_wait();
	return status;
}

static PyObject *wait_for(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	int64_t timeout = INT64_MAX;
	enum qbrt_status status;
	PyObject *number;
	long long ms;

	if (qbpy_parse_one(args, kw, "wait_for", "timeout_ms", &number) ||
	    qbpy_parse_int(number, "timeout_ms", &ms) ||
	    qbpy_check_future(self))
		return NULL;
	if (ms < 0)
		timeout = -1;
	else if (ms <= INT64_MAX / NS_PER_MS)
		timeout = ms * NS_PER_MS;
	status = wait_ended(self, timeout);
	if (status == QBRT_TIMED_OUT && !PyErr_Occurred())
		Py_RETURN_FALSE;
	if (qbpy_check(self->state, status, get_device(self)))
		return NULL;
	Py_RETURN_TRUE;
}

/* Seconds, None: without a limit. */
static int parse_timeout(PyObject *object, int64_t *timeout)
{
	double seconds;

	*timeout = -1;
	if (!object || object == Py_None)
		return 0;
	seconds = PyBool_Check(object) ? -1 : PyFloat_AsDouble(object);
	if (PyBool_Check(object) ||
	    (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))) {
		PyErr_Clear();
		(void)qbpy_raise_type("a number of seconds or None for timeout",
				      object);
		return -1;
	}
	if (PyErr_Occurred())
		return -1;
	if (isnan(seconds) || seconds < 0) {
		PyErr_Format(PyExc_ValueError,
			     "timeout is a number of seconds from 0 on, got %R "
			     "(None waits without a limit)",
			     object);
		return -1;
	}
	*timeout = INT64_MAX;
	if (seconds < (double)INT64_MAX / NS_PER_S)
		*timeout = (int64_t)(seconds * NS_PER_S);
	return 0;
}

/* How the job ended, as an exception that is not raised. */
static PyObject *make_exception(const struct qbpy_future *self,
				enum qbrt_status status)
{
	PyObject *type, *value, *traceback;

	(void)qbpy_raise_text(self->state, status, get_device(self),
			      qbrt_future_get_detail(self->future));
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	Py_XDECREF(type);
	Py_XDECREF(traceback);
	return value;
}

static PyObject *exception(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "timeout", NULL };
	struct qbpy_future *self = (struct qbpy_future *)object;
	PyObject *number = NULL;
	enum qbrt_status status;
	int64_t timeout;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:exception", keywords,
					 &number) ||
	    parse_timeout(number, &timeout) || qbpy_check_future(self))
		return NULL;
	status = wait_ended(self, timeout);
	if (PyErr_Occurred())
		return NULL;
	/* what was taken has ended */
	if (status && status != QBRT_FUTURE_NOT_VALID)
		return raise_status(self, status);
	status = qbrt_future_get_status(self->future);
	if (status)
		return make_exception(self, status);
	Py_RETURN_NONE;
}

static PyObject *done(PyObject *object, PyObject *none)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	bool is_done = false;

	(void)none;
	if (qbpy_check_future(self) || qbpy_query_future(self, &is_done))
		return NULL;
	return PyBool_FromLong(is_done);
}

static PyObject *cancel(PyObject *object, PyObject *none)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	bool has_not_begun = false;
	enum qbrt_status status;

	(void)none;
	if (qbpy_check_future(self))
		return NULL;
	qbpy_begin_wait();
	status = qbrt_future_cancel(self->future, &has_not_begun);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, get_device(self)))
		return NULL;
	/* the driver tells it when its turn has come */
	if (has_not_begun && self->fd >= 0)
		(void)eventfd_write(self->fd, 1);
	return PyBool_FromLong(has_not_begun);
}

/* Of two threads that ask first, one keeps its descriptor. */
static PyObject *get_fileno(PyObject *object, PyObject *none)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	enum qbrt_status status = QBRT_OK;
	int fd = -1;

	(void)none;
	if (qbpy_check_future(self))
		return NULL;
	if (self->fd < 0) {
		qbpy_begin_wait();
		status = qbrt_future_export_fd(self->future, &fd);
		qbpy_end_wait();
	}
	if (self->fd < 0)
		self->fd = fd;
	else if (fd >= 0)
		(void)close(fd);
	if (qbpy_check(self->state, status, get_device(self)))
		return NULL;
	return PyLong_FromLong(self->fd);
}

/* Python's part needs asyncio, which only those import who await. */
static PyObject *await_result(PyObject *object)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	struct qbpy_state *state = self->state;
	PyObject *module, *function;

	if (!state->await_future) {
		module = PyImport_ImportModule("qbruntime.future");
		if (!module)
			return NULL;
		function = PyObject_GetAttrString(module, "_await");
		Py_DECREF(module);
		if (!function)
			return NULL;
		QBPY_REPLACE(state->await_future, function);
	}
	return PyObject_CallFunctionObjArgs(state->await_future, object, NULL);
}

static PyObject *repr(PyObject *object)
{
	struct qbpy_future *self = (struct qbpy_future *)object;
	bool is_done = false;

	if (!self->future)
		return PyUnicode_FromString("Future(not valid)");
	if (qbpy_query_future(self, &is_done))
		return NULL;
	return PyUnicode_FromFormat("Future(%s)",
				    is_done ? "done" : "in flight");
}

PyDoc_STRVAR(
	wait_for_doc,
	"wait_for($self, timeout_ms)\n--\n\n"
	"Wait until the inference has ended, well or not, at most "
	"timeout_ms\nmilliseconds: True if it has. 0 only looks, a negative "
	"number sets no limit.\n\nRaises QbRuntimeError with "
	"Future_NotValid once the result was taken.");
PyDoc_STRVAR(get_doc,
	     "get($self, /)\n--\n\n"
	     "Wait for the inference and take its result, once: a list of new "
	     "arrays, one per\noutput, or of an inference on pinned memory the "
	     "list of its outputs. Of several\nthreads at once one has it.\n\n"
	     "Raises what the inference failed with; QbRuntimeError with "
	     "Future_NotValid if\nthe result has been taken.");
PyDoc_STRVAR(done_doc,
	     "done($self, /)\n--\n\n"
	     "Whether the inference has ended, well or not; waits for "
	     "nothing.");
PyDoc_STRVAR(exception_doc,
	     "exception($self, timeout=None)\n--\n\n"
	     "Wait until the inference has ended, at most timeout seconds, and "
	     "return what it\nfailed with, or None. Takes nothing, and may be "
	     "asked after get() too.\n\nRaises QbTimeoutError if it has not "
	     "ended by then.");
PyDoc_STRVAR(add_callback_doc,
	     "add_done_callback($self, fn)\n--\n\n"
	     "Have fn(future) called once when the inference has ended, on a "
	     "thread of the\nlibrary's; at once, on this one, if it has. "
	     "Callbacks come in the order in which\nthey were added, one after "
	     "another on a device, and may use the library, also this\nFuture: "
	     "get() in there, not await, which waits for a callback. What one "
	     "raises goes\nto sys.unraisablehook. The Future stays alive until "
	     "then. When the interpreter ends\nno more are called, and "
	     "RuntimeError refuses new ones.");
PyDoc_STRVAR(
	cancel_doc,
	"cancel($self, /)\n--\n\n"
	"Have the inference end. True: it had not begun, and has ended by "
	"this or an earlier\ncall; False: it has ended otherwise, or runs and "
	"is told to stop. get() of one\nthat ended by it raises "
	"QbCancelledError.");
PyDoc_STRVAR(
	fileno_doc,
	"fileno($self, /)\n--\n\n"
	"A descriptor that becomes, and stays, readable when the inference "
	"has ended, for\nselect, poll and loop.add_reader(); of one that was "
	"cancelled or late before its\nturn, when those before it have ended. "
	"It belongs to the Future.");

static PyMethodDef methods[] = {
	{ "add_done_callback",
	  (PyCFunction)(void (*)(void))qbpy_add_done_callback,
	  METH_VARARGS | METH_KEYWORDS, add_callback_doc },
	{ "cancel", cancel, METH_NOARGS, cancel_doc },
	{ "done", done, METH_NOARGS, done_doc },
	{ "exception", (PyCFunction)(void (*)(void))exception,
	  METH_VARARGS | METH_KEYWORDS, exception_doc },
	{ "fileno", get_fileno, METH_NOARGS, fileno_doc },
	{ "get", qbpy_future_get, METH_NOARGS, get_doc },
	{ "wait_for", (PyCFunction)(void (*)(void))wait_for,
	  METH_VARARGS | METH_KEYWORDS, wait_for_doc },
	{ NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET,
	  offsetof(struct qbpy_future, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const char doc[] =
	"Future()\n--\n\n"
	"An inference that was queued, of Model.infer_async() or its likes;\n"
	"one made by hand is not valid. It keeps the model alive. Dropping it\n"
	"neither cancels the inference nor waits for it. In asyncio, await\n"
	"gives what get() does; a task that is cancelled meanwhile leaves the\n"
	"inference alone.\n"
	"Any thread may call any method.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_new, new },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_traverse, traverse },
	{ Py_tp_repr, repr },
	{ Py_tp_methods, methods },
	{ Py_tp_members, members },
	{ Py_am_await, await_result },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.future.Future",
	.basicsize = sizeof(struct qbpy_future),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = slots,
};

int qbpy_add_future(PyObject *module)
{
	if (qbpy_add_type(module, QBPY_FUTURE, &spec, NULL))
		return -1;
	return qbpy_open_gate(PyModule_GetState(module));
}
