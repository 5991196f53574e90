/* SPDX-License-Identifier: MIT */
/*
 * The extension bench_native, for the Python programs of this folder: the
 * measuring code of the C benches, with probes that are Python objects, and
 * floors that only C reaches. It is linked with the library that the extension
 * qbruntime.qbruntime of the same process has loaded.
 */
#ifndef BENCH_NATIVE_H
#define BENCH_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* native-floor.c; ended by an entry of NULL */
extern PyMethodDef native_floor_methods[];

/* native-dlpack.c */
extern PyMethodDef native_dlpack_methods[];
/* The type Minimal. */
int native_add_minimal(PyObject *module);

#endif
