// SPDX-License-Identifier: MIT
/*
 * Tensors of what others have: Tensor.as_tensor() and from_dlpack(). The
 * protocol is chosen by presence, and the failure of the chosen one is final.
 * What is imported is Python's to release: the library is told to defer it.
 *
 * A struct is taken when the library has succeeded, with the GIL held, since
 * memory of ours that comes back is released within the call. A capsule is
 * renamed last: before that it is its owner's.
 */
#include "bridge.h"

#include "dlpack-abi.h"

static const struct qbrt_tensor_import_options options = {
	.size = sizeof(options),
	.flags = QBRT_TENSOR_DEFER_RELEASE,
};

/* A deleter that has run in the call may have left an exception: nobody's. */
static PyObject *finish_import(struct qbpy_tensor *self,
			       enum qbrt_status status)
{
	if (!status)
		PyErr_Clear();
	return qbpy_finish_tensor(self, status, NULL);
}

PyObject *qbpy_import_struct(struct qbpy_state *state,
			     struct DLManagedTensorVersioned *managed)
{
	/* first: once the struct is taken nothing fails any more */
	struct qbpy_tensor *self = qbpy_alloc_tensor(state);
	enum qbrt_status status;

	if (!self)
		return NULL;
	status = qbrt_tensor_import_dlpack(managed, &options, &self->tensor);
	return finish_import(self, status);
}

static PyObject *import_legacy(struct qbpy_state *state,
			       struct DLManagedTensor *managed)
{
	struct qbpy_tensor *self = qbpy_alloc_tensor(state);
	enum qbrt_status status;

	if (!self)
		return NULL;
	status = qbrt_tensor_import_dlpack_legacy(managed, &options,
						  &self->tensor);
	return finish_import(self, status);
}

/* ---- the exchange table ---- */

/* A struct that nobody took is given back, whatever its deleter raises. */
static void delete_refused(DLManagedTensorVersioned *managed)
{
	PyObject *type, *value, *traceback;

	if (!managed->deleter)
		return;
	PyErr_Fetch(&type, &value, &traceback);
	managed->deleter(managed);
	PyErr_Restore(type, value, traceback);
}

static PyObject *import_exchange(struct qbpy_state *state, const void *exchange,
				 PyObject *object)
{
	struct DLManagedTensorVersioned *managed;
	PyObject *tensor;

	if (qbpy_exchange(exchange, object, &managed))
		return NULL;
	tensor = qbpy_import_struct(state, managed);
	if (!tensor)
		delete_refused(managed);
	return tensor;
}

/* ---- __dlpack__ ---- */

static PyObject *import_capsule(struct qbpy_state *state, PyObject *capsule)
{
	PyObject *tensor;

	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		tensor = qbpy_import_struct(
			state,
			PyCapsule_GetPointer(capsule, "dltensor_versioned"));
		if (tensor &&
		    PyCapsule_SetName(capsule, "used_dltensor_versioned"))
			Py_CLEAR(tensor);
		return tensor;
	}
	if (PyCapsule_IsValid(capsule, "dltensor")) {
		tensor = import_legacy(
			state, PyCapsule_GetPointer(capsule, "dltensor"));
		if (tensor && PyCapsule_SetName(capsule, "used_dltensor"))
			Py_CLEAR(tensor);
		return tensor;
	}
	if (PyCapsule_IsValid(capsule, "used_dltensor") ||
	    PyCapsule_IsValid(capsule, "used_dltensor_versioned"))
		PyErr_SetString(PyExc_ValueError,
				"__dlpack__() gave a capsule that was consumed "
				"before: each is good for one import");
	else
		(void)qbpy_raise_type("a DLPack capsule from __dlpack__()",
				      capsule);
	return NULL;
}

/* The two methods of DLPack. */
struct producer {
	PyObject *dlpack;
	PyObject *dlpack_device;
};

static void drop_producer(struct producer *producer)
{
	Py_XDECREF(producer->dlpack);
	Py_XDECREF(producer->dlpack_device);
}

/* NULL without an exception: there is no such attribute. */
static PyObject *find_method(struct qbpy_state *state, PyObject *object,
			     enum qbpy_name name)
{
	PyObject *method =
		PyObject_GetAttr(object, PyTuple_GetItem(state->names, name));

	if (!method && PyErr_ExceptionMatches(PyExc_AttributeError))
		PyErr_Clear();
	return method;
}

/* 1; or 0, with the name of what is missing; or -1. */
static int find_producer(struct qbpy_state *state, PyObject *object,
			 struct producer *producer, const char **missing)
{
	*missing = "__dlpack__";
	producer->dlpack_device = NULL;
	producer->dlpack = find_method(state, object, QBPY_NAME_DLPACK);
	if (producer->dlpack) {
		*missing = "__dlpack_device__";
		producer->dlpack_device =
			find_method(state, object, QBPY_NAME_DLPACK_DEVICE);
	}
	if (producer->dlpack_device)
		return 1;
	Py_CLEAR(producer->dlpack);
	return PyErr_Occurred() ? -1 : 0;
}

/* 0, or -1 where the memory is out of reach, before anything is exported. */
static int check_device(struct qbpy_state *state,
			const struct producer *producer)
{
	PyObject *pair = PyObject_CallNoArgs(producer->dlpack_device);
	long long type = 0, number = 0;
	int ret;

	if (!pair)
		return -1;
	if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
		PyErr_Format(PyExc_TypeError,
			     "__dlpack_device__() gave %R, expected a tuple "
			     "of two ints",
			     pair);
		Py_DECREF(pair);
		return -1;
	}
	ret = qbpy_parse_int(PyTuple_GetItem(pair, 0),
			     "the device type of __dlpack_device__()", &type) ||
	      qbpy_parse_int(PyTuple_GetItem(pair, 1),
			     "the device number of __dlpack_device__()",
			     &number);
	Py_DECREF(pair);
	if (!ret && (type == kDLCUDA || type == kDLCUDAManaged)) {
		(void)qbpy_raise_text(state, QBRT_BRIDGE_NO_DRIVER, NULL,
				      "memory of CUDA is not reached, this "
				      "version loads no driver of it: copy it "
				      "to the host first");
		ret = -1;
	}
	return ret ? -1 : 0;
}

/* One call; a producer that does not know max_version is asked without. */
static PyObject *call_producer(struct qbpy_state *state,
			       const struct producer *producer)
{
	PyObject *version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION,
					  DLPACK_MINOR_VERSION);
	PyObject *none = version ? PyTuple_New(0) : NULL;
	PyObject *kw = none ? PyDict_New() : NULL;
	PyObject *capsule = NULL;

	if (kw &&
	    !PyDict_SetItem(
		    kw, PyTuple_GetItem(state->names, QBPY_NAME_MAX_VERSION),
		    version))
		capsule = PyObject_Call(producer->dlpack, none, kw);
	Py_XDECREF(kw);
	Py_XDECREF(none);
	Py_XDECREF(version);
	if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		capsule = PyObject_CallNoArgs(producer->dlpack);
	}
	return capsule;
}

/* Of one that was refused the destructor may do what it likes to exceptions. */
static void end_capsule(PyObject *capsule)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	Py_DECREF(capsule);
	PyErr_Restore(type, value, traceback);
}

/* Memory of the host has no stream, so none is passed on (D15). */
static PyObject *import_dlpack(struct qbpy_state *state,
			       struct producer *producer)
{
	PyObject *capsule = NULL;
	PyObject *tensor = NULL;

	if (!check_device(state, producer))
		capsule = call_producer(state, producer);
	if (capsule) {
		tensor = import_capsule(state, capsule);
		end_capsule(capsule);
	}
	drop_producer(producer);
	return tensor;
}

/* ---- what is ours ---- */

/* A new handle, read-only, of what a writable Tensor views. */
static PyObject *wrap_anew(struct qbpy_state *state, PyObject *object)
{
	struct qbpy_tensor *self = (struct qbpy_tensor *)object;
	const struct qbpy_source source = { .state = state,
					    .tensor = self->tensor };
	const struct qbrt_tensor_export_options none = { .size = sizeof(none) };
	struct DLManagedTensorVersioned *managed;
	PyObject *tensor;

	if (qbrt_tensor_is_read_only(self->tensor))
		return Py_NewRef(object);
	if (qbpy_export_struct(&source, &none, &managed))
		return NULL;
	tensor = qbpy_import_struct(state, managed);
	if (!tensor)
		delete_refused(managed);
	return tensor;
}

static PyObject *import_pinned(struct qbpy_state *state, PyObject *object)
{
	struct qbpy_native *native = ((struct qbpy_pinned *)object)->native;
	struct qbpy_tensor *self;
	enum qbrt_status status;

	if (!qbpy_native_tensor(native))
		return NULL;
	self = qbpy_alloc_tensor(state);
	if (!self)
		return NULL;
	status = qbrt_tensor_from_pinned_memory(
		native->mem, QBRT_TENSOR_FLAG_READ_ONLY, &self->tensor);
	return qbpy_finish_tensor(self, status, NULL);
}

/* 1: it is made or has failed; 0: obj is not ours. */
static int import_own(struct qbpy_state *state, PyObject *object,
		      PyObject **tensor)
{
	if (Py_IS_TYPE(object, state->types[QBPY_TENSOR]))
		*tensor = wrap_anew(state, object);
	else if (PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY]))
		*tensor = import_pinned(state, object);
	else
		return 0;
	return 1;
}

/* ---- as_tensor, from_dlpack ---- */

static PyObject *refuse_object(PyObject *object, const char *missing)
{
	PyErr_Format(PyExc_TypeError,
		     "%R offers no tensor: expected an object with %s",
		     (PyObject *)Py_TYPE(object), missing);
	return NULL;
}

/* By the first protocol that it has. */
static PyObject *import_any(struct qbpy_state *state, PyObject *object)
{
	struct producer producer;
	const void *exchange;
	const char *missing;
	int has;

	if (qbpy_find_exchange(state, object, &exchange))
		return NULL;
	if (exchange)
		return import_exchange(state, exchange, object);
	has = find_producer(state, object, &producer, &missing);
	if (has)
		return has < 0 ? NULL : import_dlpack(state, &producer);
	has = qbpy_has(object, "__cuda_array_interface__");
	if (has > 0)
		return qbpy_raise_text(
			state, QBRT_BRIDGE_NO_DRIVER, NULL,
			"__cuda_array_interface__ is of memory of CUDA, and "
			"this version loads no driver of it: copy it to the "
			"host first");
	if (!has)
		has = qbpy_has(object, "__array_interface__");
	if (has > 0)
		return qbpy_import_interface(state, object);
	if (has < 0)
		return NULL;
	return refuse_object(object,
			     strcmp(missing, "__dlpack_device__")
				     ? "__dlpack__ and __dlpack_device__, or "
				       "__array_interface__"
				     : "__dlpack_device__ beside __dlpack__, "
				       "or __array_interface__");
}

/* The releases are the main interpreter's to run (deferred.c). */
int qbpy_check_interpreter(struct qbpy_state *state)
{
	if (state->is_main)
		return 0;
	(void)qbpy_raise_text(state, QBRT_NOT_IMPLEMENTED, NULL,
			      "memory of others is imported in the main "
			      "interpreter alone");
	return -1;
}

static int parse(PyObject *args, PyObject *kw, const char *format,
		 PyObject **object)
{
	static char *keywords[] = { "obj", "stream", NULL };
	PyObject *stream = Py_None;

	return !PyArg_ParseTupleAndKeywords(args, kw, format, keywords, object,
					    &stream) ||
			       qbpy_parse_stream(stream, QBPY_STREAM_OF_IMPORT)
		       ? -1
		       : 0;
}

static PyObject *as_tensor(PyObject *module, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *object, *tensor;

	if (parse(args, kw, "O|O:as_tensor", &object))
		return NULL;
	qbpy_drain(state);
	if (import_own(state, object, &tensor))
		return tensor;
	return qbpy_check_interpreter(state) ? NULL : import_any(state, object);
}

static PyObject *from_dlpack(PyObject *module, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *object, *tensor;
	struct producer producer;
	const char *missing;
	int has;

	if (parse(args, kw, "O|O:from_dlpack", &object))
		return NULL;
	qbpy_drain(state);
	if (import_own(state, object, &tensor))
		return tensor;
	if (qbpy_check_interpreter(state))
		return NULL;
	has = find_producer(state, object, &producer, &missing);
	if (has)
		return has < 0 ? NULL : import_dlpack(state, &producer);
	return refuse_object(object, missing);
}

PyDoc_STRVAR(as_tensor_doc,
	     "as_tensor(obj, stream=None)\n--\n\n"
	     "A read-only Tensor of the memory of another library's array, "
	     "without a copy, by the\nfirst of DLPack's C exchange table, "
	     "DLPack and __array_interface__ that it has.\nA read-only Tensor "
	     "is given back itself. stream is checked; memory of the host\n"
	     "has none.\n\n"
	     "Raises TypeError if obj offers no protocol, BufferError if the "
	     "memory cannot be taken,\nQbRuntimeError if it is CUDA's.");
PyDoc_STRVAR(from_dlpack_doc,
	     "from_dlpack(obj, stream=None)\n--\n\n"
	     "as_tensor() by __dlpack__ and __dlpack_device__, which obj must "
	     "have.");

/* Static methods: of the module, so that they have its state. */
static PyMethodDef methods[] = {
	{ "as_tensor", (PyCFunction)(void (*)(void))as_tensor,
	  METH_VARARGS | METH_KEYWORDS, as_tensor_doc },
	{ "from_dlpack", (PyCFunction)(void (*)(void))from_dlpack,
	  METH_VARARGS | METH_KEYWORDS, from_dlpack_doc },
};

static PyObject *make_names(void)
{
	static const char *const texts[QBPY_NUM_NAMES] = {
		[QBPY_NAME_DLPACK] = "__dlpack__",
		[QBPY_NAME_DLPACK_DEVICE] = "__dlpack_device__",
		[QBPY_NAME_EXCHANGE] = "__dlpack_c_exchange_api__",
		[QBPY_NAME_MAX_VERSION] = "max_version",
	};
	PyObject *names = PyTuple_New(QBPY_NUM_NAMES);

	for (int i = 0; names && i < QBPY_NUM_NAMES; i++) {
		PyObject *name = PyUnicode_InternFromString(texts[i]);

		if (name)
			(void)PyTuple_SetItem(names, i, name);
		else
			Py_CLEAR(names);
	}
	return names;
}

int qbpy_add_imports(PyObject *module, PyTypeObject *type)
{
	struct qbpy_state *state = PyModule_GetState(module);
	int ret;

	state->names = make_names();
	ret = state->names ? 0 : -1;

	for (size_t i = 0; !ret && i < sizeof(methods) / sizeof(methods[0]);
	     i++) {
		PyObject *function = PyCFunction_New(&methods[i], module);

		ret = function ? PyObject_SetAttrString((PyObject *)type,
							methods[i].ml_name,
							function)
			       : -1;
		Py_XDECREF(function);
	}
	return ret;
}
