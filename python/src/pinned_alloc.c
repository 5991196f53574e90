// SPDX-License-Identifier: MIT
/*
 * The two ways to pinned memory: Accelerator.allocate_pinned_memory() and
 * import_pinned_memory().
 */
#include "module.h"

static enum qbrt_status alloc_pinned(struct qbrt_accelerator *acc,
				     enum qbrt_dtype dtype,
				     const int64_t *shape, int ndim,
				     const struct qbrt_pinned_options *options,
				     struct qbrt_pinned_memory **mem)
{
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_pinned_memory_alloc(acc, dtype, shape, (size_t)ndim,
					  options, mem);
	qbpy_end_wait();
	return status;
}

PyObject *qbpy_allocate_pinned(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "shape", "dtype", "require_contiguous",
				    "alignment", NULL };
	struct qbpy_state *state = qbpy_accelerator_state(object);
	struct qbrt_pinned_options options = { .size = sizeof(options),
					       .alignment = 64 };
	PyObject *shape_arg, *dtype_arg = NULL, *alignment = NULL;
	struct qbrt_pinned_memory *mem = NULL;
	int64_t shape[QBPY_MAX_NDIM];
	enum qbrt_status status;
	struct qbpy_acc *handle;
	enum qbrt_dtype dtype;
	PyObject *pinned = NULL;
	int contiguous = 0;
	int ndim;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "O|O$pO:allocate_pinned_memory", keywords,
		    &shape_arg, &dtype_arg, &contiguous, &alignment) ||
	    (alignment &&
	     qbpy_parse_size(alignment, "alignment", &options.alignment)) ||
	    qbpy_parse_dtype(state, dtype_arg, &dtype))
		return NULL;
	ndim = qbpy_parse_shape(shape_arg, shape);
	if (ndim < 0)
		return NULL;
	if (options.alignment == 0)
		options.alignment = 1; /* to the library 0 is the default */
	if (contiguous)
		options.flags = QBRT_PINNED_REQUIRE_CONTIGUOUS;
	handle = (struct qbpy_acc *)qbpy_get_handle(object);
	if (!handle)
		return NULL;
	status = alloc_pinned(handle->acc, dtype, shape, ndim, &options, &mem);
	if (!qbpy_check(state, status, qbrt_accelerator_get_id(handle->acc)))
		pinned = qbpy_pinned_of(state, mem);
	else
		qbrt_pinned_memory_free(mem);
	Py_DECREF(handle);
	return pinned;
}

PyObject *qbpy_import_pinned(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "fd", "shape", "dtype", "offset", NULL };
	struct qbpy_state *state = qbpy_accelerator_state(object);
	PyObject *shape_arg, *dtype_arg, *offset_arg = NULL, *pinned = NULL;
	struct qbrt_pinned_memory *mem = NULL;
	int64_t shape[QBPY_MAX_NDIM];
	enum qbrt_status status;
	struct qbpy_acc *handle;
	enum qbrt_dtype dtype;
	size_t offset = 0;
	int ndim, fd;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "iOO|$O:import_pinned_memory", keywords, &fd,
		    &shape_arg, &dtype_arg, &offset_arg) ||
	    (offset_arg && qbpy_parse_size(offset_arg, "offset", &offset)) ||
	    qbpy_parse_dtype(state, dtype_arg, &dtype))
		return NULL;
	ndim = qbpy_parse_shape(shape_arg, shape);
	handle = ndim < 0 ? NULL : (struct qbpy_acc *)qbpy_get_handle(object);
	if (!handle)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_pinned_memory_import_fd(handle->acc, fd, offset, dtype,
					      shape, (size_t)ndim, &mem);
	qbpy_end_wait();
	if (!qbpy_check(state, status, qbrt_accelerator_get_id(handle->acc)))
		pinned = qbpy_pinned_of(state, mem);
	else
		qbrt_pinned_memory_free(mem);
	Py_DECREF(handle);
	return pinned;
}
