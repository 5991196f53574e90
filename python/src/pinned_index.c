// SPDX-License-Identifier: MIT
/*
 * pm[key] and pm[key] = value. A full index of ints is one element, by the
 * library; ints, slices and an ellipsis are a slice of the library's to write,
 * and a view of NumPy's to read. All other keys go to NumPy whole, within a
 * CPU bracket. Errors of keys and values are NumPy's own: what is not plain
 * here is left to it.
 */
#include "module.h"

#define BLOCK_NBYTES 65536 /* more is copied without the GIL */

/* One axis of a key. */
struct axis {
	struct qbrt_slice slice;
	bool is_int;
};

static struct qbpy_native *native_of(PyObject *object)
{
	return ((struct qbpy_pinned *)object)->native;
}

/* An int counts from the end if negative; false: not one of this axis. */
static bool read_int(PyObject *object, Py_ssize_t extent, int64_t *index)
{
	Py_ssize_t value;

	if (!PyLong_CheckExact(object))
		return false;
	value = PyLong_AsSsize_t(object);
	if (value == -1 && PyErr_Occurred()) {
		PyErr_Clear();
		return false;
	}
	if (value < 0)
		value += extent;
	*index = value;
	return value >= 0 && value < extent;
}

/* A key that names one element; false: it is no such key, or is outside. */
static bool read_full_index(const struct qbpy_native *native, PyObject *key,
			    int64_t index[QBPY_MAX_NDIM])
{
	if (native->ndim == 1 && PyLong_CheckExact(key))
		return read_int(key, native->shape[0], &index[0]);
	if (!PyTuple_CheckExact(key) || PyTuple_Size(key) != native->ndim)
		return false;
	for (int i = 0; i < native->ndim; i++)
		if (!read_int(PyTuple_GetItem(key, i), native->shape[i],
			      &index[i]))
			return false;
	return true;
}

/* Who is alone with the memory keeps the GIL (module.h). */
static enum qbrt_status read_at(struct qbpy_native *native,
				const int64_t *index, void *value)
{
	enum qbrt_status status;
	size_t ndim = (size_t)native->ndim;

	if (qbpy_is_alone(native))
		return qbrt_pinned_memory_read_at(native->mem, index, ndim,
						  native->dtype, value);
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_read_at(native->mem, index, ndim,
					    native->dtype, value);
	qbpy_end_wait();
	qbpy_end_use(native);
	return status;
}

static enum qbrt_status write_at(struct qbpy_native *native,
				 const int64_t *index, const void *value)
{
	enum qbrt_status status;
	size_t ndim = (size_t)native->ndim;

	if (qbpy_is_alone(native))
		return qbrt_pinned_memory_write_at(native->mem, index, ndim,
						   native->dtype, value);
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_write_at(native->mem, index, ndim,
					     native->dtype, value);
	qbpy_end_wait();
	qbpy_end_use(native);
	return status;
}

/* A NumPy scalar of the memory's type. */
static PyObject *get_element(struct qbpy_native *native, const int64_t *index)
{
	struct qbpy_scratch *scratch =
		qbpy_get_scratch(native->state, native->dtype);
	unsigned char value[8];

	if (!scratch ||
	    qbpy_check_native(native, read_at(native, index, value)))
		return NULL;
	memcpy(scratch->data, value, (size_t)native->itemsize);
	return PySequence_GetItem(scratch->array, 0);
}

/* Basic keys give views; what else there is copies. */
static bool is_basic_part(PyObject *part)
{
	return PyLong_CheckExact(part) || PySlice_Check(part) ||
	       part == Py_Ellipsis || part == Py_None;
}

static bool is_basic(PyObject *key)
{
	if (!PyTuple_CheckExact(key))
		return is_basic_part(key);
	for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++)
		if (!is_basic_part(PyTuple_GetItem(key, i)))
			return false;
	return true;
}

static PyObject *get_by_numpy(struct qbpy_pinned *self, PyObject *key)
{
	struct qbpy_native *native = self->native;
	PyObject *array = qbpy_get_array(self);
	PyObject *answer;

	if (!array)
		return NULL;
	Py_INCREF(array);
	if (is_basic(key)) {
		answer = PyObject_GetItem(array, key);
	} else if (qbpy_check_native(
			   native, qbpy_begin_access(native, QBRT_CPU_READ))) {
		answer = NULL;
	} else {
		answer = PyObject_GetItem(array, key);
		(void)qbpy_end_access(native);
	}
	Py_DECREF(array);
	return answer;
}

PyObject *qbpy_get_item(PyObject *object, PyObject *key)
{
	struct qbpy_native *native = native_of(object);
	int64_t index[QBPY_MAX_NDIM];

	if (qbpy_check_open(native))
		return NULL;
	if (native->dtype != QBRT_DTYPE_BFLOAT16 &&
	    read_full_index(native, key, index))
		return get_element(native, index);
	if (qbpy_check_native(native, qbpy_wait_written(native)) ||
	    qbpy_check_open(native))
		return NULL;
	return get_by_numpy((struct qbpy_pinned *)object, key);
}

PyObject *qbpy_get_nth(PyObject *object, Py_ssize_t i)
{
	PyObject *key = PyLong_FromSsize_t(i);
	PyObject *answer = key ? qbpy_get_item(object, key) : NULL;

	Py_XDECREF(key);
	return answer;
}

/* Axes that a key leaves out, and an ellipsis, are whole. */
static struct axis whole_axis(Py_ssize_t extent)
{
	return (struct axis){ .slice = { 0, extent, 1 } };
}

static bool read_axis(PyObject *part, Py_ssize_t extent, struct axis *axis)
{
	Py_ssize_t start, stop, step;

	*axis = whole_axis(extent);
	if (!PySlice_Check(part)) {
		axis->is_int = true;
		axis->slice.count = 1;
		return read_int(part, extent, &axis->slice.start);
	}
	if (PySlice_Unpack(part, &start, &stop, &step)) {
		PyErr_Clear();
		return false;
	}
	axis->slice.count = PySlice_AdjustIndices(extent, &start, &stop, step);
	axis->slice.start = start;
	axis->slice.step = step;
	return axis->slice.count > 0;
}

/* false: a key that NumPy is to see, whether it likes it or not. */
static bool read_slices(const struct qbpy_native *native, PyObject *key,
			struct axis axes[QBPY_MAX_NDIM])
{
	bool is_tuple = PyTuple_CheckExact(key);
	Py_ssize_t num = is_tuple ? PyTuple_Size(key) : 1;
	Py_ssize_t num_left = num;
	bool has_ellipsis = false;
	int at = 0;

	for (Py_ssize_t i = 0; i < num; i++) {
		PyObject *part = is_tuple ? PyTuple_GetItem(key, i) : key;

		num_left--;
		if (part == Py_Ellipsis) {
			if (has_ellipsis)
				return false;
			has_ellipsis = true;
			while (at < native->ndim - num_left) {
				axes[at] = whole_axis(native->shape[at]);
				at++;
			}
			continue;
		}
		if (at == native->ndim ||
		    !read_axis(part, native->shape[at], &axes[at]))
			return false;
		at++;
	}
	for (; at < native->ndim; at++)
		axes[at] = whole_axis(native->shape[at]);
	return true;
}

/*
 * The strides of view as it is broadcast to the axes that are no ints; false:
 * it does not fit. Leading axes of 1 are dropped, as NumPy does.
 */
static bool broadcast(const struct axis *axes, int ndim, const Py_buffer *view,
		      int64_t *strides)
{
	int from = view->ndim;

	for (int i = ndim; i--;) {
		strides[i] = 0;
		if (axes[i].is_int || !from)
			continue;
		from--;
		if (view->shape[from] == axes[i].slice.count)
			strides[i] = view->strides[from];
		else if (view->shape[from] != 1)
			return false;
	}
	while (from--)
		if (view->shape[from] != 1)
			return false;
	return true;
}

/* QBRT_NOT_FOUND: it does not fit, and NumPy has the words for it. */
static enum qbrt_status write_view(struct qbpy_native *native,
				   const struct axis *axes,
				   const Py_buffer *view)
{
	int64_t shape[QBPY_MAX_NDIM], strides[QBPY_MAX_NDIM];
	struct qbrt_slice slices[QBPY_MAX_NDIM];
	struct qbrt_array src = { .data = view->buf,
				  .shape = shape,
				  .strides = strides,
				  .ndim = (size_t)native->ndim,
				  .dtype = native->dtype };
	int64_t nbytes = native->itemsize;
	enum qbrt_status status;

	if (!broadcast(axes, native->ndim, view, strides))
		return QBRT_NOT_FOUND;
	for (int i = 0; i < native->ndim; i++) {
		slices[i] = axes[i].slice;
		shape[i] = slices[i].count;
		nbytes *= shape[i];
	}
	if (qbpy_is_alone(native) && nbytes < BLOCK_NBYTES)
		return qbrt_pinned_memory_write_slice(native->mem, slices,
						      src.ndim, &src);
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_write_slice(native->mem, slices, src.ndim,
						&src);
	qbpy_end_wait();
	qbpy_end_use(native);
	return status;
}

/* 1: NumPy is to do it. */
static int set_slices(struct qbpy_native *native, const struct axis *axes,
		      PyObject *array)
{
	enum qbrt_status status;
	Py_buffer view;

	if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES)) {
		PyErr_Clear();
		return 1;
	}
	/* converting the value may have run anything */
	status = native->is_freed ? QBRT_PINNED_MEMORY_NOT_AVAILABLE
		 : view.itemsize == native->itemsize
			 ? write_view(native, axes, &view)
			 : QBRT_NOT_FOUND;
	PyBuffer_Release(&view);
	if (status == QBRT_NOT_FOUND || status == QBRT_PINNED_MEMORY_ALIASED)
		return 1;
	if (status == QBRT_PINNED_MEMORY_NOT_AVAILABLE)
		return qbpy_check_open(native);
	return qbpy_check_native(native, status);
}

/* What a failed job left is not made good by writing a part of it. */
static int set_by_numpy(struct qbpy_pinned *self, PyObject *key,
			PyObject *value)
{
	struct qbpy_native *native = self->native;
	PyObject *array;
	int ret = -1;

	if (qbpy_check_open(native) ||
	    qbpy_check_native(native, qbpy_wait_written(native)) ||
	    qbpy_check_open(native))
		return -1;
	array = qbpy_get_array(self);
	if (!array)
		return -1;
	Py_INCREF(array);
	if (!qbpy_check_native(native,
			       qbpy_begin_access(native, QBRT_CPU_WRITE))) {
		ret = PyObject_SetItem(array, key, value);
		(void)qbpy_end_access(native);
	}
	Py_DECREF(array);
	return ret;
}

/* A new array that NumPy has assigned the value to: its casts, its errors. */
static PyObject *assign(struct qbpy_native *native, PyObject *shape,
			PyObject *key, PyObject *value)
{
	struct qbpy_scratch *scratch =
		qbpy_get_scratch(native->state, native->dtype);
	PyObject *array =
		scratch && shape && key
			? PyObject_CallMethod(native->state->numpy, "empty",
					      "OO", shape, scratch->dtype)
			: NULL;

	if (array && PyObject_SetItem(array, key, value))
		Py_CLEAR(array);
	return array;
}

/* One number, for which one element does however much the key names. */
static int is_scalar(struct qbpy_native *native, PyObject *value)
{
	PyObject *generic;
	int ret;

	if (PyLong_Check(value) || PyFloat_Check(value))
		return 1;
	generic = PyObject_GetAttrString(native->state->numpy, "generic");
	ret = generic ? PyObject_IsInstance(value, generic) : -1;
	Py_XDECREF(generic);
	return ret;
}

/* The value as an array of the memory's type; an ndarray is cast as it is. */
static PyObject *convert(struct qbpy_native *native, const struct axis *axes,
			 PyObject *key, PyObject *value)
{
	struct qbpy_scratch *scratch =
		qbpy_get_scratch(native->state, native->dtype);
	int64_t shape[QBPY_MAX_NDIM];
	PyObject *extents, *array;
	size_t ndim = 0;
	int is_one;

	if (!scratch)
		return NULL;
	if (PyObject_TypeCheck(value, Py_TYPE(scratch->array)) ||
	    PyObject_TypeCheck(value, native->state->types[QBPY_PINNED_MEMORY]))
		return PyObject_CallFunctionObjArgs(
			native->state->asarray, value, scratch->dtype, NULL);
	is_one = is_scalar(native, value);
	if (is_one < 0)
		return NULL;
	for (int i = 0; i < native->ndim && !is_one; i++)
		if (!axes[i].is_int)
			shape[ndim++] = axes[i].slice.count;
	extents = qbpy_shape_to_tuple(shape, ndim);
	array = assign(native, extents, native->ndim ? Py_Ellipsis : key,
		       value);
	Py_XDECREF(extents);
	return array;
}

/* Of no axes () is the element, and ... the array. */
static bool is_element(const struct qbpy_native *native, PyObject *key)
{
	int64_t index[QBPY_MAX_NDIM];

	if (!native->ndim)
		return PyTuple_Check(key) && !PyTuple_Size(key);
	return read_full_index(native, key, index);
}

/* To one element NumPy assigns otherwise than to an array of none. */
static PyObject *convert_element(struct qbpy_native *native, PyObject *value)
{
	PyObject *shape = PyLong_FromLong(1), *key = PyLong_FromLong(0);
	PyObject *array = assign(native, shape, key, value);

	Py_XDECREF(shape);
	Py_XDECREF(key);
	return array;
}

int qbpy_set_item(PyObject *object, PyObject *key, PyObject *value)
{
	struct qbpy_native *native = native_of(object);
	int64_t index[QBPY_MAX_NDIM], element;
	struct axis axes[QBPY_MAX_NDIM];
	PyObject *array;
	int ret = 1;

	if (!value) {
		PyErr_SetString(PyExc_ValueError,
				"elements of memory cannot be deleted");
		return -1;
	}
	if (qbpy_check_open(native))
		return -1;
	if (qbpy_pack(value, native->dtype, &element) &&
	    read_full_index(native, key, index))
		return qbpy_check_native(native,
					 write_at(native, index, &element));
	if (read_slices(native, key, axes)) {
		array = is_element(native, key)
				? convert_element(native, value)
				: convert(native, axes, key, value);
		if (!array)
			return -1;
		ret = set_slices(native, axes, array);
		Py_DECREF(array);
	}
	if (ret <= 0)
		return ret;
	return set_by_numpy((struct qbpy_pinned *)object, key, value);
}

PyObject *qbpy_fill(PyObject *object, PyObject *value)
{
	struct qbpy_native *native = native_of(object);
	enum qbrt_status status;
	unsigned char element[8];
	PyObject *array;
	Py_buffer view;

	if (qbpy_check_open(native))
		return NULL;
	array = convert_element(native, value);
	if (!array)
		return NULL;
	if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES)) {
		Py_DECREF(array);
		return NULL;
	}
	if (view.len != native->itemsize) {
		PyBuffer_Release(&view);
		Py_DECREF(array);
		PyErr_SetString(PyExc_RuntimeError,
				"numpy.empty gave more than one element");
		return NULL;
	}
	memcpy(element, view.buf, (size_t)native->itemsize);
	PyBuffer_Release(&view);
	Py_DECREF(array);
	if (qbpy_check_open(native))
		return NULL;
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = qbrt_pinned_memory_fill(native->mem, native->dtype, element);
	qbpy_end_wait();
	qbpy_end_use(native);
	if (qbpy_check_native(native, status))
		return NULL;
	Py_RETURN_NONE;
}
