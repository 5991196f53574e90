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
	PyObject *contiguous_arg = Py_False;
	bool is_contiguous;
	int ndim;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "O|O$OO:allocate_pinned_memory", keywords,
		    &shape_arg, &dtype_arg, &contiguous_arg, &alignment) ||
	    qbpy_parse_bool(contiguous_arg, "require_contiguous",
			    &is_contiguous) ||
	    (alignment &&
	     qbpy_parse_size(alignment, "alignment", &options.alignment)) ||
	    qbpy_parse_dtype(state, dtype_arg, &dtype))
		return NULL;
	ndim = qbpy_parse_shape(shape_arg, shape);
	if (ndim < 0)
		return NULL;
	if (options.alignment == 0)
		options.alignment = 1; /* to the library 0 is the default */
	if (is_contiguous)
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
	PyObject *fd_arg, *shape_arg, *dtype_arg;
	PyObject *offset_arg = NULL, *pinned = NULL;
	struct qbrt_pinned_memory *mem = NULL;
	int64_t shape[QBPY_MAX_NDIM];
	enum qbrt_status status;
	struct qbpy_acc *handle;
	enum qbrt_dtype dtype;
	size_t offset = 0;
	long long fd;
	int ndim;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "OOO|$O:import_pinned_memory", keywords, &fd_arg,
		    &shape_arg, &dtype_arg, &offset_arg) ||
	    qbpy_parse_int(fd_arg, "fd", &fd) ||
	    (offset_arg && qbpy_parse_size(offset_arg, "offset", &offset)) ||
	    qbpy_parse_dtype(state, dtype_arg, &dtype))
		return NULL;
	ndim = qbpy_parse_shape(shape_arg, shape);
	handle = ndim < 0 ? NULL : (struct qbpy_acc *)qbpy_get_handle(object);
	if (!handle)
		return NULL;
	qbpy_begin_wait();
	/* what does not fit is no descriptor, nor is -1 */
	status = qbrt_pinned_memory_import_fd(
		handle->acc, fd < 0 || fd > INT_MAX ? -1 : (int)fd, offset,
		dtype, shape, (size_t)ndim, &mem);
	qbpy_end_wait();
	if (!qbpy_check(state, status, qbrt_accelerator_get_id(handle->acc)))
		pinned = qbpy_pinned_of(state, mem);
	else
		qbrt_pinned_memory_free(mem);
	Py_DECREF(handle);
	return pinned;
}
