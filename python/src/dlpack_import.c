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

#include <stdio.h>

static const struct qbrt_tensor_import_options options = {
	.size = sizeof(options),
	.flags = QBRT_TENSOR_DEFER_RELEASE,
};

/* A deleter that has run in the call may have left an exception: nobody's. */
static PyObject *finish_import(struct qbpy_tensor *self,
			       enum qbrt_status status)
{
	if (!status && PyErr_Occurred())
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
	const char *name = NULL;
	PyObject *tensor;

	if (PyCapsule_CheckExact(capsule))
		name = PyCapsule_GetName(capsule);
	if (!name)
		name = "";
	if (!strcmp(name, "dltensor_versioned")) {
		tensor = qbpy_import_struct(
			state, PyCapsule_GetPointer(capsule, name));
		if (tensor &&
		    PyCapsule_SetName(capsule, "used_dltensor_versioned"))
			Py_CLEAR(tensor);
		return tensor;
	}
	if (!strcmp(name, "dltensor")) {
		tensor = import_legacy(state,
				       PyCapsule_GetPointer(capsule, name));
		if (tensor && PyCapsule_SetName(capsule, "used_dltensor"))
			Py_CLEAR(tensor);
		return tensor;
	}
	if (!strcmp(name, "used_dltensor") ||
	    !strcmp(name, "used_dltensor_versioned"))
		PyErr_SetString(PyExc_ValueError,
				"__dlpack__() gave a capsule that was consumed "
				"before: each is good for one import");
	else
		(void)qbpy_raise_type("a DLPack capsule from __dlpack__()",
				      capsule);
	return NULL;
}

/* An object, borrowed, and its two methods of DLPack. */
struct producer {
	PyObject *object;
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
	PyObject *method = PyObject_GetAttr(object, state->names[name]);

	if (!method && PyErr_ExceptionMatches(PyExc_AttributeError))
		PyErr_Clear();
	return method;
}

/* 1; or 0, with the name of what is missing; or -1. */
static int find_producer(struct qbpy_state *state, PyObject *object,
			 struct producer *producer, const char **missing)
{
	*missing = "__dlpack__";
	producer->object = object;
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
	char text[192];
	long long type;

	if (qbpy_call_dlpack_device(producer->dlpack_device, &type))
		return -1;
	if (type != kDLCUDA && type != kDLCUDAManaged)
		return 0;
	(void)snprintf(text, sizeof(text),
		       "__dlpack_device__() gave device type %lld, memory of "
		       "CUDA, which is not reached since this version loads no "
		       "driver of it: copy it to the host first",
		       type);
	(void)qbpy_raise_text(state, QBRT_BRIDGE_NO_DRIVER, NULL, text);
	return -1;
}

static PyObject *ask_versioned(struct qbpy_state *state, PyObject *dlpack)
{
	PyObject *none = PyTuple_New(0);
	PyObject *kw = none ? PyDict_New() : NULL;
	PyObject *capsule = NULL;

	if (kw && !PyDict_SetItem(kw, state->names[QBPY_NAME_MAX_VERSION],
				  state->max_version))
		capsule = PyObject_Call(dlpack, none, kw);
	Py_XDECREF(kw);
	Py_XDECREF(none);
	return capsule;
}

/* The C function behind __dlpack__; NULL: it may be another one each time. */
static PyCFunction get_function(const struct producer *producer)
{
	if (!PyCFunction_CheckExact(producer->dlpack) ||
	    PyCFunction_GetSelf(producer->dlpack) != producer->object)
		return NULL;
	return PyCFunction_GetFunction(producer->dlpack);
}

/*
 * One call; a producer that does not know max_version is asked without, and
 * one of the same C function (NumPy 1's) is not asked for it again.
 */
static PyObject *call_producer(struct qbpy_state *state,
			       const struct producer *producer)
{
	PyCFunction function = get_function(producer);
	PyObject *capsule;

	if (!function || function != state->last.unversioned) {
		capsule = ask_versioned(state, producer->dlpack);
		if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError))
			return capsule;
		PyErr_Clear();
	}
	capsule = PyObject_CallNoArgs(producer->dlpack);
	if (capsule && function)
		state->last.unversioned = function;
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

enum {
	OBJ,
	STREAM,
	NUM_ARGUMENTS
};

static const struct qbpy_signature of_as_tensor = {
	.function = "as_tensor",
	.num = NUM_ARGUMENTS,
	.num_places = NUM_ARGUMENTS,
	.names = { QBPY_NAME_OBJ, QBPY_NAME_STREAM },
};

static const struct qbpy_signature of_from_dlpack = {
	.function = "from_dlpack",
	.num = NUM_ARGUMENTS,
	.num_places = NUM_ARGUMENTS,
	.names = { QBPY_NAME_OBJ, QBPY_NAME_STREAM },
};

static int parse(struct qbpy_state *state,
		 const struct qbpy_signature *signature, PyObject *const *args,
		 Py_ssize_t num, PyObject *names, PyObject **object)
{
	PyObject *sorted[QBPY_MAX_ARGUMENTS];

	if (qbpy_sort_arguments(state, signature, args, num, names, sorted))
		return -1;
	if (!sorted[OBJ]) {
		PyErr_Format(PyExc_TypeError, "%s() needs obj",
			     signature->function);
		return -1;
	}
	*object = sorted[OBJ];
	return sorted[STREAM] ? qbpy_parse_stream(sorted[STREAM],
						  QBPY_STREAM_OF_IMPORT)
			      : 0;
}

static PyObject *as_tensor(PyObject *module, PyObject *const *args,
			   Py_ssize_t num, PyObject *names)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *object, *tensor;

	if (parse(state, &of_as_tensor, args, num, names, &object))
		return NULL;
	qbpy_drain(state);
	if (import_own(state, object, &tensor))
		return tensor;
	return qbpy_check_interpreter(state) ? NULL : import_any(state, object);
}

static PyObject *from_dlpack(PyObject *module, PyObject *const *args,
			     Py_ssize_t num, PyObject *names)
{
	struct qbpy_state *state = PyModule_GetState(module);
	PyObject *object, *tensor;
	struct producer producer;
	const char *missing;
	int has;

	if (parse(state, &of_from_dlpack, args, num, names, &object))
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
	  METH_FASTCALL | METH_KEYWORDS, as_tensor_doc },
	{ "from_dlpack", (PyCFunction)(void (*)(void))from_dlpack,
	  METH_FASTCALL | METH_KEYWORDS, from_dlpack_doc },
};

int qbpy_add_imports(PyObject *module, PyTypeObject *type)
{
	struct qbpy_state *state = PyModule_GetState(module);
	int ret;

	state->max_version =
		Py_BuildValue("(ii)", QBRT_DLPACK_MAJOR, QBRT_DLPACK_MINOR);
	ret = state->max_version ? 0 : -1;

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
