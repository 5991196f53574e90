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

/* 0, which is the library's default, and what it cannot be told, are refused. */
static int parse_alignment(struct qbpy_state *state, PyObject *object,
			   size_t *alignment)
{
	long long number;

	if (qbpy_parse_int(object, "alignment", &number))
		return -1;
	*alignment = (size_t)number;
	if (number > 0 && number < LLONG_MAX)
		return 0;
	return qbpy_refuse_number(state, QBRT_INVALID_ARGUMENT, "alignment",
				  object, "a power of two from 64 to 2097152");
}

static int parse_fd(struct qbpy_state *state, PyObject *object, int *fd)
{
	long long number;

	if (qbpy_parse_int(object, "fd", &number))
		return -1;
	*fd = (int)number;
	if (number == *fd && number >= 0)
		return 0;
	return qbpy_refuse_number(state, QBRT_INVALID_ARGUMENT, "fd", object,
				  "a descriptor, an int of 31 bits");
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
	     parse_alignment(state, alignment, &options.alignment)) ||
	    qbpy_parse_dtype(state, dtype_arg, &dtype))
		return NULL;
	ndim = qbpy_parse_shape(shape_arg, shape);
	if (ndim < 0)
		return NULL;
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
	int ndim, fd;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "OOO|$O:import_pinned_memory", keywords, &fd_arg,
		    &shape_arg, &dtype_arg, &offset_arg) ||
	    parse_fd(state, fd_arg, &fd) ||
	    (offset_arg &&
	     qbpy_parse_size(state, offset_arg, "offset", &offset)) ||
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
