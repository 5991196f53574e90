/* SPDX-License-Identifier: MIT */
/*
 * The tensor bridge: Tensor, its exports and imports, streams as arguments.
 * Relies on module.h.
 */
#ifndef QBPY_BRIDGE_H
#define QBPY_BRIDGE_H

#include "module.h"

/* Tensor */
struct qbpy_tensor {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_tensor *tensor;
	PyObject *weakrefs;
};

/* tensor.c */
int qbpy_add_tensor(PyObject *module);
/* A Tensor whose handle is still to be made; finish() drops it if that failed. */
struct qbpy_tensor *qbpy_alloc_tensor(struct qbpy_state *state);
PyObject *qbpy_finish_tensor(struct qbpy_tensor *self, enum qbrt_status status,
			     const char *device);
/* A wait that is counted as one that nobody asked for, as an export's is. */
enum qbrt_status qbpy_wait_as_export(const struct qbrt_tensor *tensor);
/* A method of PinnedMemory. */
PyObject *qbpy_pinned_tensor(PyObject *object, PyObject *none);

/* errors.c */
/* Tensor_Refused, as a QbBufferError, unless one is set already; gives -1. */
int qbpy_refuse_tensor(struct qbpy_state *state, const char *format, ...);

/* dlpack.c */
/* What is exported: a Tensor, or PinnedMemory with its native object. */
struct qbpy_source {
	struct qbpy_state *state;
	const struct qbrt_tensor *tensor;
	struct qbpy_native *native; /* NULL: a Tensor */
};
int qbpy_find_source(struct qbpy_state *state, PyObject *object,
		     struct qbpy_source *source);
int qbpy_export_struct(const struct qbpy_source *source,
		       const struct qbrt_tensor_export_options *options,
		       struct DLManagedTensorVersioned **managed);
/* A QbBufferError of a status, but for want of memory. */
void qbpy_raise_export(struct qbpy_state *state, enum qbrt_status status,
		       const char *device);
/* Methods of Tensor and PinnedMemory. */
PyObject *qbpy_dlpack(PyObject *object, PyObject *const *args, Py_ssize_t num,
		      PyObject *names);
PyObject *qbpy_dlpack_device(PyObject *object, PyObject *none);
extern const char qbpy_dlpack_doc[];
extern const char qbpy_dlpack_device_doc[];

/* dlpack_import.c, interface_import.c */
/* What imports ask for each time, as str objects that live with the module. */
enum qbpy_name {
	QBPY_NAME_DLPACK,
	QBPY_NAME_DLPACK_DEVICE,
	QBPY_NAME_EXCHANGE,
	QBPY_NAME_MAX_VERSION,
	QBPY_NUM_NAMES
};
/* Gives Tensor its static methods. */
int qbpy_add_imports(PyObject *module, PyTypeObject *type);
/* Takes managed when it succeeds. */
PyObject *qbpy_import_struct(struct qbpy_state *state,
			     struct DLManagedTensorVersioned *managed);
PyObject *qbpy_import_interface(struct qbpy_state *state, PyObject *object);
int qbpy_check_interpreter(struct qbpy_state *state);

/* exchange.c */
/* Gives Tensor and PinnedMemory the table. */
int qbpy_add_exchange(struct qbpy_state *state);
/* The table of an object's type, which is never freed; NULL: none to use. */
int qbpy_find_exchange(struct qbpy_state *state, PyObject *object,
		       const void **exchange);
/* An export by a table: the caller's to take or to delete. */
int qbpy_exchange(const void *exchange, PyObject *object,
		  struct DLManagedTensorVersioned **managed);

/* stream.c */
int qbpy_add_device(PyObject *module);
enum qbpy_stream_use {
	QBPY_STREAM_OF_EXPORT,
	QBPY_STREAM_OF_IMPORT, /* neither 0 nor -1 */
};
/* Checks a stream argument. Memory of the host has no use for its value. */
int qbpy_parse_stream(PyObject *object, enum qbpy_stream_use use);
PyObject *qbpy_current_device(PyObject *module, PyObject *none);
PyObject *qbpy_bridge_stats(PyObject *module, PyObject *none);

#endif
