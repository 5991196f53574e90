// SPDX-License-Identifier: MIT
/*
 * Exports by DLPack, of Tensor and of PinnedMemory: __dlpack__, its capsules,
 * __dlpack_device__.
 *
 * The struct in a capsule is the library's, whose deleter needs no Python and may
 * be called on any thread at any time. But the last use of imported memory that
 * ends so leaves a release for Python on the library's list: exports of such
 * memory have a deleter of ours around the library's, which sees to that.
 */
#include "bridge.h"

#include "dlpack-abi.h"

#include <stdlib.h>

#define LEGACY_NAME "dltensor"
#define VERSIONED_NAME "dltensor_versioned"

/* The arguments of __dlpack__. */
struct request {
	bool is_versioned;
	uint32_t minor;
	struct qbrt_tensor_export_options options;
};

void qbpy_raise_export(struct qbpy_state *state, enum qbrt_status status,
		       const char *device)
{
	if (status == QBRT_BAD_ALLOC ||
	    status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY)
		(void)qbpy_raise(state, status, device);
	else
		qbpy_raise_buffer(state, status, device, qbrt_error_detail());
}

/* A struct with a version or, where is_versioned is false, without. */
union managed {
	DLManagedTensorVersioned *versioned;
	DLManagedTensor *legacy;
};

static void delete_managed(union managed managed, bool is_versioned)
{
	if (is_versioned)
		managed.versioned->deleter(managed.versioned);
	else
		managed.legacy->deleter(managed.legacy);
}

/* ---- structs around the library's ---- */

struct wrapped {
	union {
		DLManagedTensorVersioned versioned;
		DLManagedTensor legacy;
	} outer;
	union managed inner;
};

static void delete_wrapped(struct wrapped *wrapped, bool is_versioned)
{
	delete_managed(wrapped->inner, is_versioned);
	free(wrapped);
	qbpy_drain_soon();
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
	delete_wrapped(managed->manager_ctx, true);
}

static void delete_legacy(DLManagedTensor *managed)
{
	delete_wrapped(managed->manager_ctx, false);
}

/* Shape and strides stay the inner one's, which lives as long. */
static union managed wrap(struct wrapped *wrapped, union managed inner,
			  bool is_versioned)
{
	union managed outer;

	wrapped->inner = inner;
	if (is_versioned) {
		outer.versioned = &wrapped->outer.versioned;
		*outer.versioned = *inner.versioned;
		outer.versioned->manager_ctx = wrapped;
		outer.versioned->deleter = delete_versioned;
	} else {
		outer.legacy = &wrapped->outer.legacy;
		*outer.legacy = *inner.legacy;
		outer.legacy->manager_ctx = wrapped;
		outer.legacy->deleter = delete_legacy;
	}
	return outer;
}

/* ---- export ---- */

/* Something may have to be waited for, or copied. */
static bool may_take_long(const struct qbpy_source *source,
			  const struct qbrt_tensor_export_options *options)
{
	if (options->copy == QBRT_COPY_ALWAYS || options->device.type)
		return true;
	return source->native ? !qbpy_is_alone(source->native)
			      : qbrt_tensor_get_device(source->tensor) != NULL;
}

/* is_long: without the GIL. */
static enum qbrt_status
export_one(const struct qbrt_tensor *tensor,
	   const struct qbrt_tensor_export_options *options, bool is_versioned,
	   bool is_long, union managed *managed)
{
	enum qbrt_status status;

	if (is_long)
		qbpy_begin_wait();
	status = is_versioned ? qbrt_tensor_export_dlpack(tensor, options,
							  &managed->versioned)
			      : qbrt_tensor_export_dlpack_legacy(
					tensor, options, &managed->legacy);
	if (is_long)
		qbpy_end_wait();
	return status;
}

/* 0, or -1 with an exception and nothing exported. */
static int export_wrapped(const struct qbpy_source *source,
			  const struct qbrt_tensor_export_options *options,
			  bool is_versioned, bool is_long,
			  union managed *managed)
{
	const char *device = qbrt_tensor_get_device(source->tensor);
	struct wrapped *wrapped = device ? NULL : malloc(sizeof(*wrapped));
	enum qbrt_status status;

	if (!device && !wrapped) {
		(void)PyErr_NoMemory();
		return -1;
	}
	status = export_one(source->tensor, options, is_versioned, is_long,
			    managed);
	if (!status && !PyErr_Occurred()) {
		if (wrapped)
			*managed = wrap(wrapped, *managed, is_versioned);
		return 0;
	}
	free(wrapped);
	if (status)
		qbpy_raise_export(source->state, status, device);
	else
		delete_managed(*managed, is_versioned); /* a signal's came */
	return -1;
}

/* In a use of pinned memory, which another thread may free meanwhile. */
static int export_in_use(const struct qbpy_source *source,
			 const struct qbrt_tensor_export_options *options,
			 bool is_versioned, union managed *managed)
{
	bool is_long = may_take_long(source, options);
	int ret;

	if (source->native)
		qbpy_begin_use(source->native);
	ret = export_wrapped(source, options, is_versioned, is_long, managed);
	if (source->native)
		qbpy_end_use(source->native);
	return ret;
}

int qbpy_export_struct(const struct qbpy_source *source,
		       const struct qbrt_tensor_export_options *options,
		       struct DLManagedTensorVersioned **managed)
{
	union managed made;

	if (export_in_use(source, options, true, &made))
		return -1;
	*managed = made.versioned;
	return 0;
}

/* It may run while an exception unwinds a frame, which stays as it is. */
static void destroy_versioned(PyObject *capsule)
{
	PyObject *type, *value, *traceback;
	DLManagedTensorVersioned *managed;

	if (!PyCapsule_IsValid(capsule, VERSIONED_NAME))
		return; /* it was consumed */
	PyErr_Fetch(&type, &value, &traceback);
	managed = PyCapsule_GetPointer(capsule, VERSIONED_NAME);
	managed->deleter(managed);
	PyErr_Restore(type, value, traceback);
}

static void destroy_legacy(PyObject *capsule)
{
	PyObject *type, *value, *traceback;
	DLManagedTensor *managed;

	if (!PyCapsule_IsValid(capsule, LEGACY_NAME))
		return;
	PyErr_Fetch(&type, &value, &traceback);
	managed = PyCapsule_GetPointer(capsule, LEGACY_NAME);
	managed->deleter(managed);
	PyErr_Restore(type, value, traceback);
}

static PyObject *make_capsule(const struct qbpy_source *source,
			      const struct request *request)
{
	union managed managed;
	PyObject *capsule;

	if (export_in_use(source, &request->options, request->is_versioned,
			  &managed))
		return NULL;
	if (request->is_versioned) {
		managed.versioned->version.minor = request->minor;
		capsule = PyCapsule_New(managed.versioned, VERSIONED_NAME,
					destroy_versioned);
	} else {
		capsule = PyCapsule_New(managed.legacy, LEGACY_NAME,
					destroy_legacy);
	}
	if (!capsule)
		delete_managed(managed, request->is_versioned);
	return capsule;
}

/* ---- arguments ---- */

static int parse_pair(PyObject *object, const char *name, long long pair[2])
{
	if (PyTuple_Check(object) && PyTuple_Size(object) == 2 &&
	    !qbpy_parse_int(PyTuple_GetItem(object, 0), name, &pair[0]) &&
	    !qbpy_parse_int(PyTuple_GetItem(object, 1), name, &pair[1]))
		return 0;
	if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError,
			     "%s is %R, expected a tuple of two ints", name,
			     object);
	return -1;
}

static int parse_max_version(PyObject *object, struct request *request)
{
	long long pair[2];

	if (object == Py_None)
		return 0;
	if (parse_pair(object, "max_version", pair))
		return -1;
	if (pair[0] < 0 || pair[1] < 0) {
		PyErr_Format(PyExc_ValueError,
			     "max_version is %R, expected numbers from 0 on",
			     object);
		return -1;
	}
	request->is_versioned = pair[0] >= DLPACK_MAJOR_VERSION;
	if (pair[0] == DLPACK_MAJOR_VERSION && pair[1] < request->minor)
		request->minor = (uint32_t)pair[1];
	return 0;
}

static int parse_dl_device(struct qbpy_state *state, PyObject *object,
			   struct request *request)
{
	long long pair[2];

	if (object == Py_None)
		return 0;
	if (parse_pair(object, "dl_device", pair))
		return -1;
	if (pair[0] <= 0 || pair[0] > INT32_MAX || pair[1] < INT32_MIN ||
	    pair[1] > INT32_MAX)
		return qbpy_refuse_tensor(state,
					  "dl_device is %R, expected a device "
					  "of DLPack: (1, 0) is the CPU",
					  object);
	request->options.device = (struct qbrt_dlpack_device){
		.type = (int32_t)pair[0],
		.id = (int32_t)pair[1],
	};
	return 0;
}

static int parse_copy(PyObject *object, struct request *request)
{
	bool is_copy;

	if (object == Py_None)
		return 0;
	if (qbpy_parse_bool(object, "copy", &is_copy))
		return -1;
	request->options.copy = is_copy ? QBRT_COPY_ALWAYS : QBRT_COPY_NEVER;
	return 0;
}

enum {
	STREAM,
	MAX_VERSION,
	DL_DEVICE,
	COPY,
	NUM_ARGUMENTS
};

/* The arguments by place; what is not given is None. */
static int sort_arguments(PyObject *const *args, Py_ssize_t num,
			  PyObject *names, PyObject *sorted[NUM_ARGUMENTS])
{
	static const char *const known[NUM_ARGUMENTS] = { "stream",
							  "max_version",
							  "dl_device", "copy" };
	Py_ssize_t num_named = names ? PyTuple_Size(names) : 0;

	if (num > NUM_ARGUMENTS) {
		PyErr_Format(PyExc_TypeError,
			     "__dlpack__() takes at most 4 arguments, got %zd",
			     num);
		return -1;
	}
	for (Py_ssize_t i = 0; i < NUM_ARGUMENTS; i++)
		sorted[i] = i < num ? args[i] : NULL;
	for (Py_ssize_t i = 0; i < num_named; i++) {
		PyObject *name = PyTuple_GetItem(names, i);
		int at = 0;

		while (at < NUM_ARGUMENTS &&
		       PyUnicode_CompareWithASCIIString(name, known[at]))
			at++;
		if (at == NUM_ARGUMENTS || sorted[at]) {
			PyErr_Format(PyExc_TypeError,
				     at == NUM_ARGUMENTS
					     ? "__dlpack__() has no argument "
					       "%R"
					     : "__dlpack__() got %R twice",
				     name);
			return -1;
		}
		sorted[at] = args[num + i];
	}
	for (Py_ssize_t i = 0; i < NUM_ARGUMENTS; i++)
		if (!sorted[i])
			sorted[i] = Py_None;
	return 0;
}

static int parse_request(struct qbpy_state *state, PyObject *const *args,
			 Py_ssize_t num, PyObject *names,
			 struct request *request)
{
	PyObject *sorted[NUM_ARGUMENTS];

	*request = (struct request){
		.minor = DLPACK_MINOR_VERSION,
		.options = { .size = sizeof(request->options) },
	};
	return sort_arguments(args, num, names, sorted) ||
			       parse_max_version(sorted[MAX_VERSION],
						 request) ||
			       parse_dl_device(state, sorted[DL_DEVICE],
					       request) ||
			       parse_copy(sorted[COPY], request) ||
			       qbpy_parse_stream(sorted[STREAM],
						 QBPY_STREAM_OF_EXPORT)
		       ? -1
		       : 0;
}

/* ---- methods ---- */

const char qbpy_dlpack_doc[] =
	"__dlpack__($self, stream=None, max_version=None, dl_device=None, "
	"copy=None)\n--\n\n"
	"A capsule of the memory: versioned, as read-only memory needs, if\n"
	"max_version is (1, 0) or newer. stream is checked, and what it could\n"
	"ask for is there: jobs that write the memory are waited for.\n"
	"copy=True gives a writable copy in C order.\n\n"
	"Raises BufferError if the memory cannot be exported so.";

const char qbpy_dlpack_device_doc[] =
	"__dlpack_device__($self, /)\n--\n\n"
	"DLPack's device type and number, two int.";

PyObject *qbpy_dlpack(PyObject *object, PyObject *const *args, Py_ssize_t num,
		      PyObject *names)
{
	struct qbpy_state *state = qbpy_get_state(Py_TYPE(object));
	struct qbpy_source source;
	struct request request;

	/* the arguments first: a stream's method may run anything */
	if (!state || parse_request(state, args, num, names, &request) ||
	    qbpy_find_source(state, object, &source))
		return NULL;
	return make_capsule(&source, &request);
}

PyObject *qbpy_dlpack_device(PyObject *object, PyObject *none)
{
	struct qbpy_state *state = qbpy_get_state(Py_TYPE(object));
	struct qbrt_dlpack_device device;
	struct qbpy_source source;

	(void)none;
	if (!state || qbpy_find_source(state, object, &source))
		return NULL;
	device = qbrt_tensor_get_dlpack_device(source.tensor);
	return Py_BuildValue("(ii)", device.type, device.id);
}

int qbpy_find_source(struct qbpy_state *state, PyObject *object,
		     struct qbpy_source *source)
{
	source->state = state;
	source->native = NULL;
	if (Py_IS_TYPE(object, state->types[QBPY_TENSOR])) {
		source->tensor = ((struct qbpy_tensor *)object)->tensor;
		return 0;
	}
	if (!PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY])) {
		(void)qbpy_raise_type("a Tensor or PinnedMemory", object);
		return -1;
	}
	source->native = ((struct qbpy_pinned *)object)->native;
	source->tensor = qbpy_native_tensor(source->native);
	return source->tensor ? 0 : -1;
}
