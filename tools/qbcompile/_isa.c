// SPDX-License-Identifier: MIT
/*
 * qbcompile._isa: the validator of kmod-shim/isa for Python, unchanged.
 *
 * validate_program(bytes) copies the program into aligned memory of its own
 * and lets go of the GIL meanwhile, so the caller's buffer may be anything.
 * Limited API 3.11, no module state.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "isa/isa.h"
#include "isa/validate.h"

#define PROGRAM_ALIGNMENT 16

PyMODINIT_FUNC PyInit__isa(void);

/* NULL when there is no memory; free() takes it. */
static void *alloc_aligned(size_t size)
{
	void *memory = NULL;

	if (posix_memalign(&memory, PROGRAM_ALIGNMENT, size ? size : 1))
		return NULL;
	return memory;
}

/* 0 or a negative errno: -ENOMEM, or what qbnpu_validate returns. */
static int validate_copy(const void *program, size_t size,
			 struct qbnpu_report *report)
{
	struct qbnpu_work work = { 0 };
	int ret = -ENOMEM;

	work.size = qbnpu_validate_work_size(program, size);
	work.memory = alloc_aligned(work.size);
	if (work.memory) {
		ret = qbnpu_validate(program, size, &qbnpu_caps_isa, &work,
				     report);
		free(work.memory);
	}
	return ret;
}

static PyObject *report_to_tuple(int ret, const struct qbnpu_report *report)
{
	switch (ret) {
	case 0:
		return Py_BuildValue("(iiii)", 0, 0, 0, 0);
	case -ENOEXEC:
	case -EOPNOTSUPP:
		return Py_BuildValue("(IIIK)", report->rule, report->command,
				     report->operand,
				     (unsigned long long)report->limit);
	case -ENOMEM:
		return PyErr_NoMemory();
	default:
		PyErr_Format(PyExc_SystemError, "qbnpu_validate returned %d",
			     ret);
		return NULL;
	}
}

static const char validate_program_doc[] =
	"validate_program(program, /)\n--\n\n"
	"Validate the bytes of a PROG section against all of ISA 1.0.\n\n"
	"Returns (0, 0, 0, 0), or (rule, command, operand, limit) of the first\n"
	"V row that it breaks; command is 0xffffffff for the header or a table.";

static PyObject *validate_program(PyObject *module, PyObject *arg)
{
	struct qbnpu_report report = { 0 };
	PyThreadState *thread;
	Py_buffer view;
	void *program;
	int ret = -ENOMEM;

	(void)module;
	if (PyObject_GetBuffer(arg, &view, PyBUF_SIMPLE))
		return NULL;
	program = alloc_aligned((size_t)view.len);
	if (program) {
		memcpy(program, view.buf, (size_t)view.len);
		thread = PyEval_SaveThread();
		ret = validate_copy(program, (size_t)view.len, &report);
		PyEval_RestoreThread(thread);
		free(program);
	}
	PyBuffer_Release(&view);
	return report_to_tuple(ret, &report);
}

static PyMethodDef methods[] = {
	{ "validate_program", validate_program, METH_O, validate_program_doc },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef_Slot slots[] = {
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "_isa",
	.m_doc = "The program validator of kmod-shim/isa.",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__isa(void)
{
	return PyModuleDef_Init(&definition);
}
