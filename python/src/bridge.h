/* SPDX-License-Identifier: MIT */
/*
 * The tensor bridge: Tensor, its exports and imports, streams as arguments.
 * Relies on module.h.
 */
#ifndef QBPY_BRIDGE_H
#define QBPY_BRIDGE_H

#include "module.h"

#include <stddef.h>

/* Tensor */
struct qbpy_tensor {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_tensor *tensor;
	PyObject *weakrefs;
};

_Static_assert(offsetof(struct qbpy_tensor, state) ==
		       offsetof(struct qbpy_pinned, state),
	       "found alike");

/* Of a Tensor or PinnedMemory. */
static inline struct qbpy_state *qbpy_bridged_state(PyObject *object)
{
	return ((struct qbpy_tensor *)object)->state;
}

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
/* PinnedMemory whose tensor is still to be made, or of a derived class. */
int qbpy_find_rare_source(struct qbpy_state *state, PyObject *object,
			  struct qbpy_source *source);
static inline int qbpy_find_source(struct qbpy_state *state, PyObject *object,
				   struct qbpy_source *source)
{
	source->state = state;
	source->native = NULL;
	if (Py_IS_TYPE(object, state->types[QBPY_TENSOR])) {
		source->tensor = ((struct qbpy_tensor *)object)->tensor;
		return 0;
	}
	if (!Py_IS_TYPE(object, state->types[QBPY_PINNED_MEMORY]))
		return qbpy_find_rare_source(state, object, source);
	source->native = ((struct qbpy_pinned *)object)->native;
	source->tensor = source->native->tensor;
	if (source->tensor && !source->native->is_freed)
		return 0;
	return qbpy_find_rare_source(state, object, source);
}

/* No job can be writing it: what waits for that keeps the GIL. */
static inline bool qbpy_is_short(const struct qbpy_source *source)
{
	return source->native ? qbpy_is_alone(source->native)
			      : !qbrt_tensor_get_device(source->tensor);
}

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
void qbpy_forget_exchange(const struct qbpy_state *state);
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
