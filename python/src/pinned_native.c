// SPDX-License-Identifier: MIT
/*
 * The native object under PinnedMemory, which owns the memory: what it is, who
 * has it, and when it goes back.
 */
#include "bridge.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t),
	       "shapes are handed on as they are");

static const char freed_text[] = "the memory was freed: allocate another";

#define LONG_IS_64 (sizeof(long) == 8)

/* Codes of the buffer protocol; bfloat16 has none. */
static const char *get_format(enum qbrt_dtype dtype)
{
	static const char formats[QBPY_NUM_DTYPES][2] = {
		[QBRT_DTYPE_FLOAT32] = "f", [QBRT_DTYPE_UINT8] = "B",
		[QBRT_DTYPE_INT8] = "b",    [QBRT_DTYPE_FLOAT16] = "e",
		[QBRT_DTYPE_INT16] = "h",   [QBRT_DTYPE_UINT16] = "H",
		[QBRT_DTYPE_INT32] = "i",   [QBRT_DTYPE_UINT32] = "I",
		[QBRT_DTYPE_INT64] = "q",   [QBRT_DTYPE_UINT64] = "Q",
		[QBRT_DTYPE_FLOAT64] = "d", [QBRT_DTYPE_BOOL] = "?",
	};

	/* what NumPy calls int64 is long where that has 64 bits */
	if (LONG_IS_64 && dtype == QBRT_DTYPE_INT64)
		return "l";
	if (LONG_IS_64 && dtype == QBRT_DTYPE_UINT64)
		return "L";
	return formats[dtype];
}

static const char *get_device(const struct qbpy_native *native)
{
	return PyUnicode_AsUTF8AndSize(native->device, NULL);
}

/* Without the GIL: the library may have to give memory back to the system. */
static void free_mem(struct qbrt_pinned_memory *mem, struct qbrt_tensor *tensor)
{
	PyThreadState *thread = PyEval_SaveThread();

	qbrt_tensor_free(tensor);
	qbrt_pinned_memory_free(mem);
	PyEval_RestoreThread(thread);
}

static void free_if_last(struct qbpy_native *native)
{
	struct qbrt_pinned_memory *mem = native->mem;
	struct qbrt_tensor *tensor = native->tensor;

	if (!native->is_freed || native->exports || native->uses ||
	    native->has_told_address || !mem)
		return;
	native->mem = NULL;
	native->tensor = NULL;
	native->data = NULL;
	free_mem(mem, tensor);
}

void qbpy_free_native(struct qbpy_native *native)
{
	native->is_freed = true;
	free_if_last(native);
}

int qbpy_check_open(struct qbpy_native *native)
{
	if (!native->is_freed)
		return 0;
	(void)qbpy_raise_text(native->state, QBRT_PINNED_MEMORY_NOT_AVAILABLE,
			      get_device(native), freed_text);
	return -1;
}

int qbpy_check_native(struct qbpy_native *native, enum qbrt_status status)
{
	if (status == QBRT_OK)
		return PyErr_Occurred() ? -1 : 0;
	return qbpy_check(native->state, status, get_device(native));
}

void qbpy_begin_use(struct qbpy_native *native)
{
	native->uses++;
}

void qbpy_end_use(struct qbpy_native *native)
{
	native->uses--;
	free_if_last(native);
}

/* Without the GIL. */
static enum qbrt_status wait_written(const struct qbpy_native *native)
{
	struct qbrt_tensor *tensor;
	enum qbrt_status status;
	bool is_ready;

	status = qbrt_pinned_memory_query(native->mem, &is_ready);
	if (!status && is_ready)
		return qbrt_pinned_memory_wait(native->mem, -1);
	if (!status)
		status =
			qbrt_tensor_from_pinned_memory(native->mem, 0, &tensor);
	if (status)
		return status;
	status = qbpy_wait_as_export(tensor);
	qbrt_tensor_free(tensor);
	return status;
}

enum qbrt_status qbpy_wait_written(struct qbpy_native *native)
{
	enum qbrt_status status;

	if (qbpy_is_alone(native))
		return qbrt_pinned_memory_wait(native->mem, -1);
	qbpy_begin_use(native);
	qbpy_begin_wait();
	status = wait_written(native);
	qbpy_end_wait();
	qbpy_end_use(native);
	return status;
}

static void dealloc_native(PyObject *object)
{
	struct qbpy_native *self = (struct qbpy_native *)object;

	if (self->mem)
		free_mem(self->mem, self->tensor);
	Py_XDECREF(self->device);
	qbpy_free_object(self);
}

static int refuse_export(const struct qbpy_native *self,
			 enum qbrt_status status, const char *text)
{
	qbpy_raise_buffer(self->state, status, get_device(self), text);
	return -1;
}

struct qbrt_tensor *qbpy_native_tensor(struct qbpy_native *native)
{
	enum qbrt_status status = QBRT_OK;

	if (native->is_freed)
		(void)refuse_export(native, QBRT_PINNED_MEMORY_NOT_AVAILABLE,
				    freed_text);
	else if (!native->tensor)
		status = qbrt_tensor_from_pinned_memory(native->mem, 0,
							&native->tensor);
	if (status)
		qbpy_raise_export(native->state, status, get_device(native));
	return native->is_freed ? NULL : native->tensor;
}

/* At most one axis has more than one element: any order is its order. */
static bool is_line(const struct qbpy_native *self)
{
	int num = 0;

	for (int i = 0; i < self->ndim; i++)
		num += self->shape[i] > 1;
	return num <= 1;
}

/* 0, or -1 with a QbBufferError. */
static int check_export(struct qbpy_native *self, int flags)
{
	enum qbrt_status status = QBRT_PINNED_MEMORY_NOT_AVAILABLE;

	if (!*get_format(self->dtype))
		return refuse_export(self, QBRT_TENSOR_REFUSED,
				     "the buffer protocol has no bfloat16: use "
				     "DLPack");
	if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS &&
	    !is_line(self))
		return refuse_export(self, QBRT_TENSOR_REFUSED,
				     "the memory is in C order");
	if (self->is_read_only && flags & PyBUF_WRITABLE)
		return refuse_export(self, QBRT_TENSOR_READ_ONLY,
				     "the memory came by a read-only "
				     "descriptor");
	if (!self->is_freed)
		status = qbpy_wait_written(self);
	/* free() may have come while this waited */
	if (self->is_freed)
		return refuse_export(self, QBRT_PINNED_MEMORY_NOT_AVAILABLE,
				     freed_text);
	if (status || PyErr_Occurred())
		return refuse_export(self, status, qbrt_error_detail());
	return 0;
}

/*
 * NumPy drops what ends an export, a signal's exception too, and asks for
 * __array_interface__ next: that raises it, unless somebody has seen it.
 */
static void keep_cut_off(struct qbpy_state *state)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	state->cut_off = Py_XNewRef(value);
	PyErr_Restore(type, value, traceback);
}

/* -1: it is raised. What was caught has a traceback. */
static int raise_cut_off(struct qbpy_state *state)
{
	PyObject *value = state->cut_off;
	PyObject *traceback;

	if (!value)
		return 0;
	state->cut_off = NULL;
	traceback = PyException_GetTraceback(value);
	if (!traceback)
		PyErr_SetObject((PyObject *)Py_TYPE(value), value);
	Py_XDECREF(traceback);
	Py_DECREF(value);
	return traceback ? 0 : -1;
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct qbpy_native *self = (struct qbpy_native *)object;

	view->obj = NULL;
	Py_CLEAR(self->state->cut_off);
	if (check_export(self, flags)) {
		if (!PyErr_ExceptionMatches(PyExc_BufferError))
			keep_cut_off(self->state);
		return -1;
	}
	view->buf = self->data;
	view->obj = Py_NewRef(object);
	view->len = self->nbytes;
	view->itemsize = self->itemsize;
	view->readonly = self->is_read_only;
	view->ndim = flags & PyBUF_ND ? self->ndim : 1;
	view->format = NULL;
	if (flags & PyBUF_FORMAT)
		view->format = (char *)get_format(self->dtype);
	view->shape = flags & PyBUF_ND ? self->shape : NULL;
	view->strides =
		(flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
	view->suboffsets = NULL;
	view->internal = NULL;
	self->exports++;
	return 0;
}

static void release_buffer(PyObject *object, Py_buffer *view)
{
	struct qbpy_native *self = (struct qbpy_native *)object;

	(void)view;
	self->exports--;
	free_if_last(self);
}

PyObject *qbpy_array_interface(PyObject *object, void *closure)
{
	struct qbpy_native *self = (struct qbpy_native *)object;
	struct qbpy_scratch *scratch;
	PyObject *typestr, *answer = NULL;

	(void)closure;
	if (raise_cut_off(self->state) || check_export(self, 0))
		return NULL;
	/* making the answer may run anything, free() too */
	qbpy_begin_use(self);
	scratch = qbpy_get_scratch(self->state, self->dtype);
	typestr =
		scratch ? PyObject_GetAttrString(scratch->dtype, "str") : NULL;
	if (typestr)
		answer = Py_BuildValue(
			"{sisNsOs(NO)}", "version", 3, "shape",
			qbpy_shape_to_tuple((const int64_t *)self->shape,
					    (size_t)self->ndim),
			"typestr", typestr, "data",
			PyLong_FromVoidPtr(self->data),
			self->is_read_only ? Py_True : Py_False);
	Py_XDECREF(typestr);
	if (answer)
		self->has_told_address = true;
	qbpy_end_use(self);
	return answer;
}

static void read_facts(struct qbpy_native *self)
{
	const struct qbrt_pinned_memory *mem = self->mem;
	const int64_t *shape = qbrt_pinned_memory_get_shape(mem);
	const int64_t *strides = qbrt_pinned_memory_get_strides(mem);

	self->dtype = qbrt_pinned_memory_get_dtype(mem);
	self->contiguity = qbrt_pinned_memory_get_contiguity(mem);
	self->is_read_only = qbrt_pinned_memory_is_read_only(mem);
	self->ndim = (int)qbrt_pinned_memory_get_ndim(mem);
	self->itemsize = (Py_ssize_t)qbrt_dtype_itemsize(self->dtype);
	self->nbytes = (Py_ssize_t)qbrt_pinned_memory_get_nbytes(mem);
	self->data = qbrt_pinned_memory_get_data(mem);
	for (int i = 0; i < self->ndim; i++) {
		self->shape[i] = (Py_ssize_t)shape[i];
		self->strides[i] = (Py_ssize_t)strides[i];
	}
}

struct qbpy_native *qbpy_native_of(struct qbpy_state *state,
				   struct qbrt_pinned_memory *mem)
{
	enum qbrt_dtype dtype = qbrt_pinned_memory_get_dtype(mem);
	enum qbpy_type type = QBPY_PINNED_BASE;
	struct qbpy_native *self;

	if (dtype == QBRT_DTYPE_FLOAT32)
		type = QBPY_PINNED_FLOAT;
	else if (dtype == QBRT_DTYPE_UINT8)
		type = QBPY_PINNED_UINT8;
	self = qbpy_alloc_object(state->types[type]);
	if (!self) {
		free_mem(mem, NULL);
		return NULL;
	}
	self->state = state;
	self->mem = mem;
	read_facts(self);
	self->device = qbpy_text(qbrt_pinned_memory_get_device(mem));
	if (!self->device)
		Py_CLEAR(self);
	return self;
}

static PyGetSetDef attributes[] = {
	{ "__array_interface__", qbpy_array_interface, NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, dealloc_native },
	{ Py_tp_getset, attributes },
	{ Py_bf_getbuffer, get_buffer },
	{ Py_bf_releasebuffer, release_buffer },
	{ 0, NULL },
};

static PyType_Spec base_spec = {
	.name = "qbruntime.qbruntime.PinnedMemoryBase",
	.basicsize = sizeof(struct qbpy_native),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

/* The two that the vendor's package names. */
static PyType_Spec float_spec = {
	.name = "qbruntime.qbruntime.PinnedMemoryFloat",
	.basicsize = sizeof(struct qbpy_native),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

static PyType_Spec uint8_spec = {
	.name = "qbruntime.qbruntime.PinnedMemoryUint8",
	.basicsize = sizeof(struct qbpy_native),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

int qbpy_add_native(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *bases;
	int ret;

	if (qbpy_add_type(module, QBPY_PINNED_BASE, &base_spec, NULL))
		return -1;
	bases = PyTuple_Pack(1, state->types[QBPY_PINNED_BASE]);
	if (!bases)
		return -1;
	ret = qbpy_add_type(module, QBPY_PINNED_FLOAT, &float_spec, bases);
	if (!ret)
		ret = qbpy_add_type(module, QBPY_PINNED_UINT8, &uint8_spec,
				    bases);
	Py_DECREF(bases);
	return ret;
}
