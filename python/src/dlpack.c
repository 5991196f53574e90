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

static const char legacy_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

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
	struct qbrt_dlpack_device own;

	if (options->copy == QBRT_COPY_ALWAYS)
		return true;
	if (options->device.type) {
		own = qbrt_tensor_get_dlpack_device(source->tensor);
		if (options->device.type != own.type ||
		    options->device.id != own.id)
			return true;
	}
	return !qbpy_is_short(source);
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
	if (!status && !(is_long && PyErr_Occurred())) {
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

/*
 * What takes long is in a use of pinned memory, which another thread may free
 * meanwhile.
 */
static int export_in_use(const struct qbpy_source *source,
			 const struct qbrt_tensor_export_options *options,
			 bool is_versioned, union managed *managed)
{
	int ret;

	if (!may_take_long(source, options))
		return export_wrapped(source, options, is_versioned, false,
				      managed);
	if (source->native)
		qbpy_begin_use(source->native);
	ret = export_wrapped(source, options, is_versioned, true, managed);
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

/*
 * The struct of a capsule that nobody has consumed. It may run while an
 * exception unwinds a frame, which neither this nor our deleters touch.
 */
static void *get_unconsumed(PyObject *capsule, const char *expected)
{
	const char *name = PyCapsule_GetName(capsule);

	if (name != expected && (!name || strcmp(name, expected)))
		return NULL;
	return PyCapsule_GetPointer(capsule, name);
}

static void destroy_versioned(PyObject *capsule)
{
	DLManagedTensorVersioned *managed =
		get_unconsumed(capsule, versioned_name);

	if (managed)
		managed->deleter(managed);
}

static void destroy_legacy(PyObject *capsule)
{
	DLManagedTensor *managed = get_unconsumed(capsule, legacy_name);

	if (managed)
		managed->deleter(managed);
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
		capsule = PyCapsule_New(managed.versioned, versioned_name,
					destroy_versioned);
	} else {
		capsule = PyCapsule_New(managed.legacy, legacy_name,
					destroy_legacy);
	}
	if (!capsule)
		delete_managed(managed, request->is_versioned);
	return capsule;
}

/* ---- arguments ---- */

static bool is_absent(const PyObject *object)
{
	return !object || object == Py_None;
}

/*
 * last: a consumer mostly passes the same tuple each time. It cannot change, if
 * it and what is in it are of no derived class.
 */
static int parse_pair(PyObject *object, const char *name,
		      struct qbpy_pair *last, long long numbers[2])
{
	PyObject *parts[2] = { NULL, NULL };

	if (object == last->tuple) {
		memcpy(numbers, last->numbers, sizeof(last->numbers));
		return 0;
	}
	if (PyTuple_Check(object) && PyTuple_Size(object) == 2)
		for (int i = 0; i < 2; i++)
			parts[i] = PyTuple_GetItem(object, i);
	if (!parts[0] || qbpy_parse_int(parts[0], name, &numbers[0]) ||
	    qbpy_parse_int(parts[1], name, &numbers[1])) {
		if (!PyErr_Occurred() ||
		    PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError,
				     "%s is %R, expected a tuple of two ints",
				     name, object);
		return -1;
	}
	if (PyTuple_CheckExact(object) && PyLong_CheckExact(parts[0]) &&
	    PyLong_CheckExact(parts[1])) {
		memcpy(last->numbers, numbers, sizeof(last->numbers));
		QBPY_REPLACE(last->tuple, Py_NewRef(object));
	}
	return 0;
}

static int parse_max_version(struct qbpy_state *state, PyObject *object,
			     struct request *request)
{
	long long pair[2];

	if (is_absent(object))
		return 0;
	if (parse_pair(object, "max_version", &state->last.max_version, pair))
		return -1;
	if (pair[0] < 0 || pair[1] < 0)
		return qbpy_raise_number("max_version", object,
					 "numbers from 0 on");
	request->is_versioned = pair[0] >= QBRT_DLPACK_MAJOR;
	if (pair[0] == QBRT_DLPACK_MAJOR && pair[1] < request->minor)
		request->minor = (uint32_t)pair[1];
	return 0;
}

static int parse_dl_device(struct qbpy_state *state, PyObject *object,
			   struct request *request)
{
	long long pair[2];

	if (is_absent(object))
		return 0;
	if (parse_pair(object, "dl_device", &state->last.dl_device, pair))
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

	if (is_absent(object))
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

static int parse_request(struct qbpy_state *state, PyObject *const *args,
			 Py_ssize_t num, PyObject *names,
			 struct request *request)
{
	static const struct qbpy_signature signature = {
		.function = "__dlpack__",
		.num = NUM_ARGUMENTS,
		.num_places = NUM_ARGUMENTS,
		.names = { QBPY_NAME_STREAM, QBPY_NAME_MAX_VERSION,
			   QBPY_NAME_DL_DEVICE, QBPY_NAME_COPY },
	};
	PyObject *sorted[QBPY_MAX_ARGUMENTS];

	*request = (struct request){
		.minor = QBRT_DLPACK_MINOR,
		.options = { .size = sizeof(request->options) },
	};
	return qbpy_sort_arguments(state, &signature, args, num, names,
				   sorted) ||
			       parse_max_version(state, sorted[MAX_VERSION],
						 request) ||
			       parse_dl_device(state, sorted[DL_DEVICE],
					       request) ||
			       parse_copy(sorted[COPY], request) ||
			       (!is_absent(sorted[STREAM]) &&
				qbpy_parse_stream(sorted[STREAM],
						  QBPY_STREAM_OF_EXPORT))
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
	struct qbpy_state *state = qbpy_bridged_state(object);
	struct qbpy_source source;
	struct request request;

	/* the arguments first: a stream's method may run anything */
	if (parse_request(state, args, num, names, &request) ||
	    qbpy_find_source(state, object, &source))
		return NULL;
	return make_capsule(&source, &request);
}

PyObject *qbpy_dlpack_device(PyObject *object, PyObject *none)
{
	struct qbpy_state *state = qbpy_bridged_state(object);
	struct qbrt_dlpack_device device;
	struct qbpy_source source;

	(void)none;
	if (qbpy_find_source(state, object, &source))
		return NULL;
	device = qbrt_tensor_get_dlpack_device(source.tensor);
	return Py_BuildValue("(ii)", device.type, device.id);
}

int qbpy_find_rare_source(struct qbpy_state *state, PyObject *object,
			  struct qbpy_source *source)
{
	if (!PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY])) {
		(void)qbpy_raise_type("a Tensor or PinnedMemory", object);
		return -1;
	}
	source->native = ((struct qbpy_pinned *)object)->native;
	source->tensor = qbpy_native_tensor(source->native);
	return source->tensor ? 0 : -1;
}
