/* SPDX-License-Identifier: MIT */
/* What the producer's and the consumer's half of fake_dlpack share. */
#ifndef FAKE_DLPACK_H
#define FAKE_DLPACK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "dlpack-abi.h"

/* What became of a struct; it outlives whichever of its two owners ends first. */
struct record {
	atomic_uint references; /* of the object and of the struct */
	atomic_uint deleter_calls;
	int deleter_thread;
	bool had_gil;
	bool had_error;
	bool leaves_error;
	PyObject
		*owner; /* dropped by the deleter, which takes the GIL for it */
	void *pages;    /* a struct of another major version, at their end */
	int64_t *extents;
	DLManagedTensor legacy;
	DLManagedTensorVersioned versioned;
};

struct fake_record {
	PyObject_HEAD struct record *record;
	bool is_versioned;
	DLManagedTensorVersioned *versioned;
};

extern PyTypeObject fake_record_type;
extern PyTypeObject fake_forwarder_type;
extern PyTypeObject fake_consumer_type;
PyObject *fake_exchange_capsule(PyObject *module, PyObject *args, PyObject *kw);

#endif
