// SPDX-License-Identifier: MIT
/*
 * What the Python benches set beside their subjects: calls of an extension that
 * do nothing (F12), the GIL given up and taken (F13), the C call under a Python
 * one (P40), copies (F11), and a thread that answers an eventfd (F17). States
 * are capsules, which end with the object.
 */
#include "native.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <qbruntime/qbrt.h>

#include "bench.h"

/* ---- F12, F13 ---- */

static PyObject *do_nothing(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	Py_RETURN_NONE;
}

static PyObject *take_one(PyObject *module, PyObject *object)
{
	Py_buffer view;

	(void)module;
	if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
		return NULL;
	PyBuffer_Release(&view);
	Py_RETURN_NONE;
}

static PyObject *take_two(PyObject *module, PyObject *const *args,
			  Py_ssize_t num)
{
	Py_buffer first, second;

	(void)module;
	if (num != 2) {
		PyErr_SetString(PyExc_TypeError, "two buffers are expected");
		return NULL;
	}
	if (PyObject_GetBuffer(args[0], &first, PyBUF_SIMPLE))
		return NULL;
	if (PyObject_GetBuffer(args[1], &second, PyBUF_SIMPLE)) {
		PyBuffer_Release(&first);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS __asm__ volatile(""
						:
						: "r"(first.buf),
						  "r"(second.buf)
						: "memory");
	Py_END_ALLOW_THREADS PyBuffer_Release(&first);
	PyBuffer_Release(&second);
	Py_RETURN_NONE;
}

static PyObject *run_gil(PyObject *module, PyObject *object)
{
	unsigned long num = PyLong_AsUnsignedLong(object);
	int64_t begin = bench_now_ns();

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	while (num--) {
		Py_BEGIN_ALLOW_THREADS __asm__ volatile("" : : : "memory");
		Py_END_ALLOW_THREADS
	}
	return PyLong_FromLongLong(bench_now_ns() - begin);
}

/* ---- the C call ---- */

struct call {
	struct qbrt_accelerator *acc;
	struct qbrt_model *model;
	struct qbrt_pinned_memory *in;
	struct qbrt_pinned_memory *out;
};

static void free_call(PyObject *capsule)
{
	struct call *call = PyCapsule_GetPointer(capsule, "call");

	qbrt_pinned_memory_free(call->in);
	qbrt_pinned_memory_free(call->out);
	qbrt_model_free(call->model);
	qbrt_accelerator_close(call->acc);
	PyMem_Free(call);
}

static PyObject *raise_detail(void)
{
	PyErr_SetString(PyExc_RuntimeError, qbrt_error_detail());
	return NULL;
}

static PyObject *open_call(PyObject *module, PyObject *args)
{
	const char *path, *device;
	PyObject *capsule;
	struct call *call;

	(void)module;
	if (!PyArg_ParseTuple(args, "ss:open_call", &path, &device))
		return NULL;
	call = PyMem_Calloc(1, sizeof(*call));
	if (!call)
		return PyErr_NoMemory();
	capsule = PyCapsule_New(call, "call", free_call);
	if (!capsule) {
		PyMem_Free(call);
		return NULL;
	}
	if (!qbrt_accelerator_open(device, 0, &call->acc) &&
	    !qbrt_model_load(path, NULL, &call->model) &&
	    !qbrt_model_launch(call->model, call->acc) &&
	    !qbrt_model_alloc_input(call->model, 0, &call->in) &&
	    !qbrt_model_alloc_output(call->model, 0, &call->out))
		return capsule;
	Py_DECREF(capsule);
	return raise_detail();
}

static PyObject *run_call(PyObject *module, PyObject *args)
{
	PyObject *capsule;
	struct call *call;
	unsigned long num;
	int64_t begin;

	(void)module;
	if (!PyArg_ParseTuple(args, "Ok:run_call", &capsule, &num))
		return NULL;
	call = PyCapsule_GetPointer(capsule, "call");
	if (!call)
		return NULL;
	begin = bench_now_ns();
	while (num--)
		if (qbrt_model_infer_pinned_memory(call->model, NULL, &call->in,
						   1, &call->out, 1))
			return raise_detail();
	return PyLong_FromLongLong(bench_now_ns() - begin);
}

/* ---- F11 ---- */

static void free_copy(PyObject *capsule)
{
	bench_floor_memcpy.close(PyCapsule_GetPointer(capsule, "copy"));
}

static PyObject *open_copy(PyObject *module, PyObject *object)
{
	const struct bench_case bench_case = {
		.placement = BENCH_ONE,
		.size = PyLong_AsSize_t(object),
	};
	PyObject *capsule;
	void *state;

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	state = bench_floor_memcpy.open(&bench_case);
	if (!state)
		return PyErr_NoMemory();
	capsule = PyCapsule_New(state, "copy", free_copy);
	if (!capsule)
		bench_floor_memcpy.close(state);
	return capsule;
}

static PyObject *run_copy(PyObject *module, PyObject *args)
{
	PyObject *capsule;
	unsigned int num;
	void *state;

	(void)module;
	if (!PyArg_ParseTuple(args, "OI:run_copy", &capsule, &num))
		return NULL;
	state = PyCapsule_GetPointer(capsule, "copy");
	if (!state)
		return NULL;
	return PyLong_FromLongLong(bench_floor_memcpy.run(state, num));
}

/* ---- F17 ---- */

struct echo {
	enum bench_placement placement;
	pthread_t thread;
	bool is_started;
	int ask, answer; /* eventfd */
};

#define ECHO_END (UINT64_C(1) << 32)

static void *answer(void *arg)
{
	struct echo *echo = arg;
	eventfd_t value;

	bench_place(echo->placement, 1, gettid());
	while (!eventfd_read(echo->ask, &value) && value < ECHO_END)
		(void)eventfd_write(echo->answer, 1);
	return NULL;
}

static void free_echo(PyObject *capsule)
{
	struct echo *echo = PyCapsule_GetPointer(capsule, "echo");

	if (echo->is_started) {
		(void)eventfd_write(echo->ask, ECHO_END);
		(void)pthread_join(echo->thread, NULL);
	}
	if (echo->ask >= 0)
		(void)close(echo->ask);
	if (echo->answer >= 0)
		(void)close(echo->answer);
	PyMem_Free(echo);
}

static PyObject *start_echo(PyObject *module, PyObject *args)
{
	const char *placement;
	PyObject *capsule;
	struct echo *echo;

	(void)module;
	if (!PyArg_ParseTuple(args, "s:start_echo", &placement))
		return NULL;
	echo = PyMem_Calloc(1, sizeof(*echo));
	if (!echo)
		return PyErr_NoMemory();
	echo->ask = eventfd(0, EFD_CLOEXEC);
	echo->answer = eventfd(0, EFD_CLOEXEC);
	capsule = PyCapsule_New(echo, "echo", free_echo);
	if (!capsule)
		return NULL;
	if (echo->ask >= 0 && echo->answer >= 0 &&
	    bench_placement_from_name(placement, &echo->placement) &&
	    !pthread_create(&echo->thread, NULL, answer, echo)) {
		echo->is_started = true;
		return Py_BuildValue("Nii", capsule, echo->ask, echo->answer);
	}
	Py_DECREF(capsule);
	PyErr_SetString(PyExc_RuntimeError, "no partner could be started");
	return NULL;
}

/* A thread of this process: index 0 where the one that measures is, or 1. */
static PyObject *place(PyObject *module, PyObject *args)
{
	enum bench_placement where;
	const char *placement;
	unsigned int index;
	int tid;

	(void)module;
	if (!PyArg_ParseTuple(args, "sIi:place", &placement, &index, &tid))
		return NULL;
	if (!bench_placement_from_name(placement, &where)) {
		PyErr_SetString(PyExc_ValueError, "no such placement");
		return NULL;
	}
	bench_place(where, index, tid);
	Py_RETURN_NONE;
}

PyMethodDef native_floor_methods[] = {
	{ "nothing", do_nothing, METH_NOARGS, NULL },
	{ "one_buffer", take_one, METH_O, NULL },
	{ "two_buffers", (PyCFunction)(void (*)(void))take_two, METH_FASTCALL,
	  NULL },
	{ "run_gil", run_gil, METH_O, NULL },
	{ "open_call", open_call, METH_VARARGS, NULL },
	{ "run_call", run_call, METH_VARARGS, NULL },
	{ "open_copy", open_copy, METH_O, NULL },
	{ "run_copy", run_copy, METH_VARARGS, NULL },
	{ "start_echo", start_echo, METH_VARARGS, NULL },
	{ "place", place, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
