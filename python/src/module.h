/* SPDX-License-Identifier: MIT */
/*
 * The extension qbruntime.qbruntime: what all its files share.
 *
 * State. One struct qbpy_state per module object, so per interpreter. It holds
 * the extension's types, the exceptions, the enumerations and value types of
 * qbruntime.type, and what NumPy gave once it was needed. Each object points to
 * the state of the module that made its type: an object keeps its type alive,
 * the type its module, the module its state. At exit the state is emptied before
 * the last objects go, so no dealloc reads an object of it. Nothing else is
 * static but facts of a thread and of the process: the thread state that a wait
 * has set aside, that the library asks interrupt() while it waits, whether
 * others' threads may come in and releases are due (deferred.c), and the table
 * of exchange.c, with the state that most of its objects have.
 *
 * Who holds whom, and who frees what when:
 *
 *   Accelerator  -> AcceleratorHandle    until close()
 *   Model        -> AcceleratorHandle    of its last launch, for allocations
 *                -> Accelerator          the same, the attribute _acc
 *   ModelVariantHandle -> Model
 *   Future       -> Model, AcceleratorHandle of then
 *                -> PinnedMemory         of its outputs, until they are taken
 *                -> itself               while callbacks are to be called
 *   PinnedMemory -> PinnedMemoryBase, and a cached ndarray, which is an export
 *   CpuAccess    -> PinnedMemory         and a use while it is open
 *   ndarray, memoryview -> PinnedMemoryBase, each an export
 *   Tensor       -> nothing of Python's; its handle keeps the memory, of others
 *                   by a release that the library calls (deferred.c)
 *
 * AcceleratorHandle, Model and Future own one handle of the C API and end it in
 * their dealloc, where no call can be inside. The library's objects keep their
 * device open by themselves, so any order is safe. A ModelConfig owns one too,
 * which is touched with the GIL alone; a model is loaded with a copy.
 *
 * PinnedMemoryBase owns one struct qbrt_pinned_memory. free() only marks it.
 * The memory goes back when it is marked, no export is left and no use: exports
 * are buffers handed out, uses are calls that are inside the library or may
 * come back to it with this memory. Both are counted under the GIL. Who has
 * read __array_interface__ has an address that nobody counts: then the memory
 * stays until the object goes.
 *
 * The GIL is let go around every call that may wait or free. Access to memory
 * that nobody uses cannot wait: a call takes its use before it lets go of the
 * GIL, so who holds the GIL and counts no use is alone with the memory, and
 * element access stays inside. Memory that was once given to a queued inference
 * is taken to be in use for good, since nobody counts its end. All else waits
 * without the GIL. A call that waits on the main thread runs signal handlers;
 * one that raises ends it.
 *
 * Names that cross files begin with qbpy_. What returns int: 0, or -1 with an
 * exception set.
 */
#ifndef QBPY_MODULE_H
#define QBPY_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

#include <qbruntime/qbrt.h>

#include "keywords.h"

#define QBPY_MAX_NDIM 8
/* One more than a device has: no list of them is valid. */
#define QBPY_MAX_CORES 9
/* Py_XSETREF, which the limited API lacks. */
#define QBPY_REPLACE(at, value) \
	do { \
		PyObject *old_ = (PyObject *)(at); \
\
		(at) = (value); \
		Py_XDECREF(old_); \
	} while (0)

#define QBPY_NUM_DTYPES (QBRT_DTYPE_BFLOAT16 + 1)

enum qbpy_error {
	QBPY_RUNTIME_ERROR,
	QBPY_OUT_OF_MEMORY_ERROR,
	QBPY_TIMEOUT_ERROR,
	QBPY_SHAPE_ERROR,
	QBPY_DTYPE_ERROR,
	QBPY_DEVICE_NOT_FOUND_ERROR,
	QBPY_DEVICE_LOST_ERROR,
	QBPY_NOT_ALIVE_ERROR,
	QBPY_CANCELLED_ERROR,
	QBPY_CLOSED_ERROR,
	QBPY_INVALID_ARGUMENT_ERROR,
	QBPY_MODEL_FILE_ERROR,
	QBPY_UNSUPPORTED_ERROR,
	QBPY_BUFFER_ERROR,
	QBPY_LAYOUT_WARNING,
	QBPY_NUM_ERRORS
};

/* Classes of qbruntime.type. */
enum qbpy_class {
	QBPY_BUFFER_INFO,
	QBPY_CACHE_INFO,
	QBPY_CACHE_TYPE,
	QBPY_CLUSTER,
	QBPY_CORE,
	QBPY_CORE_ALLOCATION_POLICY,
	QBPY_CORE_ID,
	QBPY_CORE_MODE,
	QBPY_CORE_STATE,
	QBPY_DATA_TYPE,
	QBPY_DEVICE_EVENT,
	QBPY_DEVICE_INFO,
	QBPY_DEVICE_LIMITS,
	QBPY_FIRMWARE_INFO,
	QBPY_READING,
	QBPY_SCALE,
	QBPY_STATUS_CODE,
	QBPY_NUM_CLASSES
};

/* Types of the extension. */
enum qbpy_type {
	QBPY_ACCELERATOR,
	QBPY_ACCELERATOR_HANDLE,
	QBPY_CPU_ACCESS,
	QBPY_DEVICE,
	QBPY_FUTURE,
	QBPY_MODEL,
	QBPY_MODEL_CONFIG,
	QBPY_MODEL_VARIANT_HANDLE,
	QBPY_PINNED_BASE,
	QBPY_PINNED_FLOAT,
	QBPY_PINNED_MEMORY,
	QBPY_PINNED_UINT8,
	QBPY_TENSOR,
	QBPY_TENSOR_DEVICE,
	QBPY_TENSOR_DTYPE,
	QBPY_NUM_TYPES
};

/* One element of NumPy's, to make scalars of a type with. */
struct qbpy_scratch {
	PyObject *array; /* of shape (1,); NULL: not made yet */
	PyObject *dtype;
	void *data;
};

struct qbpy_state {
	PyObject *errors[QBPY_NUM_ERRORS];
	PyObject *classes[QBPY_NUM_CLASSES];
	PyTypeObject *types[QBPY_NUM_TYPES];
	PyObject *numpy; /* the module; NULL: not imported yet */
	PyObject *asarray;
	PyObject *await_future; /* of qbruntime.future; NULL: not needed yet */
	PyObject *cut_off;      /* pinned_native.c: what ended an export */
	int array_calls;        /* which may use pinned memory in place */
	PyObject *names[QBPY_NUM_NAMES]; /* str */
	struct qbpy_last last;
	PyObject *max_version; /* that dlpack_import.c asks for */
	bool is_main;          /* of the main interpreter */
	struct qbpy_scratch scratch[QBPY_NUM_DTYPES];
};

/* AcceleratorHandle */
struct qbpy_acc {
	PyObject_HEAD struct qbrt_accelerator *acc;
};

/* PinnedMemoryBase and its two classes; what it was stays after free(). */
struct qbpy_native {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_pinned_memory *mem; /* NULL: given back */
	struct qbrt_tensor *tensor;     /* all of it; NULL: not needed yet */
	Py_ssize_t exports;
	Py_ssize_t uses;
	bool is_freed;
	bool has_told_address;
	bool was_queued; /* a job that nobody waits for may use it */
	bool is_read_only;
	enum qbrt_dtype dtype;
	enum qbrt_contiguity contiguity;
	int ndim;
	Py_ssize_t itemsize;
	Py_ssize_t nbytes;
	Py_ssize_t shape[QBPY_MAX_NDIM];
	Py_ssize_t strides[QBPY_MAX_NDIM];
	void *data;
	PyObject *device; /* str */
};

/* PinnedMemory */
struct qbpy_pinned {
	PyObject_HEAD struct qbpy_state *state;
	struct qbpy_native *native;
	PyObject *array; /* numpy.asarray(native); NULL: not needed yet */
	PyObject *weakrefs;
};

/* ModelConfig */
struct qbpy_config {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_model_config *config;
	bool has_no_core; /* all were excluded: no model takes that */
};

/* Model */
struct qbpy_model {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_model *model; /* NULL until __init__ has loaded it */
	PyObject *acc;            /* the Accelerator of the last launch */
	PyObject *handle;         /* its AcceleratorHandle */
	bool has_warned;          /* QbLayoutWarning comes once */
	PyObject *weakrefs;
};

/* Future */
struct qbpy_future {
	PyObject_HEAD struct qbpy_state *state;
	struct qbrt_future *future; /* NULL: of no inference */
	PyObject *model;
	PyObject *handle;    /* the AcceleratorHandle, for its name */
	PyObject *outputs;   /* of pinned memory: a list, None once taken */
	PyObject *callbacks; /* to be called: a list; NULL: none */
	bool is_watched;     /* the library will tell, or has told */
	bool is_told;        /* and the callbacks were called */
	int fd;              /* -1: not needed yet */
	PyObject *weakrefs;
};

struct qbpy_arrays;

/* module.c: the GIL, NumPy, types and how their objects find the state. */
struct qbpy_state *qbpy_get_state(PyTypeObject *type);
struct qbpy_state *qbpy_get_module_state(PyObject *module);
int qbpy_add_type(PyObject *module, enum qbpy_type which, PyType_Spec *spec,
		  PyObject *bases);
/* A type takes one table of methods; these are of another file. */
int qbpy_add_methods(PyTypeObject *type, PyMethodDef *defs);
/* A new, empty object; free_object() is its counterpart in a dealloc. */
void *qbpy_alloc_object(PyTypeObject *type);
void qbpy_free_object(void *object);
/*
 * Lets go of the GIL; a wait in between may run signal handlers. Who ends
 * objects, and must not raise, uses PyEval_SaveThread() itself.
 */
void qbpy_begin_wait(void);
void qbpy_end_wait(void);
/* numpy, borrowed; imported at the first call. */
PyObject *qbpy_import_numpy(struct qbpy_state *state);
struct qbpy_scratch *qbpy_get_scratch(struct qbpy_state *state,
				      enum qbrt_dtype dtype);

/* errors.c; _error_class(status), what a status raises, is there for the tests */
int qbpy_add_errors(PyObject *module, struct qbpy_state *state);
PyObject *qbpy_error_class(PyObject *module, PyObject *value);
/*
 * Raises the exception of a status with this thread's sentence, or with text;
 * an exception that is set already (a signal handler's) stays. device may be
 * NULL. raise() returns NULL, check() 0 of QBRT_OK without an exception.
 */
PyObject *qbpy_raise(struct qbpy_state *state, enum qbrt_status status,
		     const char *device);
PyObject *qbpy_raise_text(struct qbpy_state *state, enum qbrt_status status,
			  const char *device, const char *text);
int qbpy_check(struct qbpy_state *state, enum qbrt_status status,
	       const char *device);
/* A ValueError whatever the status; first: "", or a sentence and a blank. */
PyObject *qbpy_raise_value(struct qbpy_state *state, enum qbrt_status status,
			   const char *device, const char *first,
			   const char *text);
/* A QbBufferError, as exports of memory must. */
void qbpy_raise_buffer(struct qbpy_state *state, enum qbrt_status status,
		       const char *device, const char *text);
/* A QbClosedError without a status. */
PyObject *qbpy_raise_closed(struct qbpy_state *state, const char *what);
/* What stands in the thread's way is a TypeError: NAME, not TYPE. */
PyObject *qbpy_raise_type(const char *expected, PyObject *value);

/* args.c: values in and out. */
/* 1, or 0 without the attribute; -1 with what else asking for it raises. */
int qbpy_has(PyObject *object, const char *name);
/* An int by __index__, no bool. Out of range: the nearest that fits. */
int qbpy_parse_int(PyObject *object, const char *name, long long *value);
/* From 0 on; another is InvalidArgument. */
int qbpy_parse_size(struct qbpy_state *state, PyObject *object,
		    const char *name, size_t *value);
/* Raises the exception of a status of a number, which is told as it came. */
int qbpy_refuse_number(struct qbpy_state *state, enum qbrt_status status,
		       const char *name, PyObject *number,
		       const char *expected);
/* The same as a ValueError without a status. */
int qbpy_raise_number(const char *name, PyObject *number, const char *expected);
/* method: a __dlpack_device__. A type beyond long long is its nearest number. */
int qbpy_call_dlpack_device(PyObject *method, long long *type);
int qbpy_parse_bool(PyObject *object, const char *name, bool *value);
/* Of a str; borrowed from it. */
int qbpy_parse_text(PyObject *object, const char *name, const char **text);
/* A path, as bytes in the file system's encoding: a new reference. */
int qbpy_parse_path(PyObject *object, const char *name, PyObject **path);
/* An int or a sequence of int; returns the number of axes, or -1. */
int qbpy_parse_shape(PyObject *object, int64_t shape[QBPY_MAX_NDIM]);
/* NULL and None: float32. */
int qbpy_parse_dtype(struct qbpy_state *state, PyObject *object,
		     enum qbrt_dtype *dtype);
int qbpy_parse_core_id(PyObject *object, struct qbrt_core_id *core_id);
/* An int or float as one element, if it fits; false: NumPy has a say. */
bool qbpy_pack(PyObject *object, enum qbrt_dtype dtype, void *value);
/* "float32", as NumPy calls it. */
const char *qbpy_dtype_name(enum qbrt_dtype dtype);
PyObject *qbpy_shape_to_tuple(const int64_t *shape, size_t ndim);
PyObject *qbpy_enum(struct qbpy_state *state, enum qbpy_class which,
		    long value);
/* A list of the members whose bits are set. */
PyObject *qbpy_mask_to_list(struct qbpy_state *state, enum qbpy_class which,
			    uint32_t mask);
PyObject *qbpy_core_id(struct qbpy_state *state,
		       const struct qbrt_core_id *core_id);
/* CoreIds; the cores must be nobody's who may change them meanwhile. */
PyObject *qbpy_cores_to_list(struct qbpy_state *state,
			     const struct qbrt_core_id *cores, size_t num);
/* A string or, for NULL, None. */
PyObject *qbpy_text(const char *text);

/* accelerator.c */
int qbpy_add_accelerator(PyObject *module);
struct qbpy_state *qbpy_accelerator_state(PyObject *accelerator);
/* The AcceleratorHandle of an Accelerator that is open: a new reference. */
PyObject *qbpy_get_handle(PyObject *accelerator);
/* "aries-rb:0" of an AcceleratorHandle; NULL of NULL. */
const char *qbpy_acc_id(const PyObject *handle);

/* device_info.c, device_query.c: methods of Accelerator */
const char *qbpy_kind_name(const struct qbrt_device_info *info);
const char *qbpy_contiguity_name(enum qbrt_contiguity contiguity);
/* The arguments of DeviceInfo. */
PyObject *qbpy_info_to_tuple(struct qbpy_state *state,
			     const struct qbrt_device_info *info);
PyObject *qbpy_device_numbers(PyObject *module, PyObject *args, PyObject *kw);
PyObject *qbpy_devices(PyObject *module, PyObject *none);
extern PyMethodDef qbpy_query_methods[];

/* pinned_alloc.c: methods of Accelerator */
PyObject *qbpy_allocate_pinned(PyObject *object, PyObject *args, PyObject *kw);
PyObject *qbpy_import_pinned(PyObject *object, PyObject *args, PyObject *kw);

/* pinned_native.c */
int qbpy_add_native(PyObject *module);
/* Takes mem, also when it fails. */
struct qbpy_native *qbpy_native_of(struct qbpy_state *state,
				   struct qbrt_pinned_memory *mem);
PyObject *qbpy_array_interface(PyObject *object, void *closure);
void qbpy_free_native(struct qbpy_native *native);
/* 0 while the memory is there, else QbClosedError. */
int qbpy_check_open(struct qbpy_native *native);
/* qbpy_check() of a call about this memory. */
int qbpy_check_native(struct qbpy_native *native, enum qbrt_status status);
/* Keeps the memory while the library may use it; pairs, under the GIL. */
void qbpy_begin_use(struct qbpy_native *native);
void qbpy_end_use(struct qbpy_native *native);
/* Nobody else uses it: accesses wait for nothing, and may keep the GIL. */
static inline bool qbpy_is_alone(const struct qbpy_native *native)
{
	return !native->uses && !native->was_queued &&
	       !native->state->array_calls;
}

/* Waits for those who write it; the library's status. */
enum qbrt_status qbpy_wait_written(struct qbpy_native *native);
/* The tensor of all of it, borrowed in a use or under the GIL. */
struct qbrt_tensor *qbpy_native_tensor(struct qbpy_native *native);

/* pinned_memory.c */
int qbpy_add_pinned(PyObject *module);
/* A PinnedMemory that owns mem, which goes back if it cannot be made. */
PyObject *qbpy_pinned_of(struct qbpy_state *state,
			 struct qbrt_pinned_memory *mem);
/* The cached ndarray, borrowed. */
PyObject *qbpy_get_array(struct qbpy_pinned *self);

/* pinned_access.c */
int qbpy_add_cpu_access(PyObject *module);
PyObject *qbpy_cpu_access(PyObject *self, PyObject *args, PyObject *kw);
/* Never QBRT_OK with an exception set. */
enum qbrt_status qbpy_begin_access(struct qbpy_native *native, uint32_t flags);
enum qbrt_status qbpy_end_access(struct qbpy_native *native);

/* pinned_index.c */
PyObject *qbpy_get_item(PyObject *self, PyObject *key);
PyObject *qbpy_get_nth(PyObject *self, Py_ssize_t i);
int qbpy_set_item(PyObject *self, PyObject *key, PyObject *value);
PyObject *qbpy_fill(PyObject *self, PyObject *value);

/* model_config.c */
int qbpy_add_model_config(PyObject *module);
/* A copy that the caller frees; of None NULL, the library's default. */
int qbpy_copy_config(struct qbpy_state *state, PyObject *object,
		     struct qbrt_model_config **config);

/* model.c, model_info.c, infer.c, infer_array.c */
int qbpy_add_model(PyObject *module);
PyObject *qbpy_estimate_memory(PyObject *module, PyObject *args, PyObject *kw);
PyObject *qbpy_get_model_summary(PyObject *module, PyObject *args,
				 PyObject *kw);
PyObject *qbpy_summary(const struct qbrt_model *model);
const char *qbpy_model_device(const struct qbpy_model *self);
extern PyMethodDef qbpy_model_info_methods[];
extern PyMethodDef qbpy_array_methods[];
/* The inputs or the outputs of a variant. */
struct qbpy_tensors {
	size_t variant;
	bool is_input;
};
/* What function says of each of them, as a list. */
typedef PyObject *(*qbpy_tensor_function)(struct qbpy_model *self,
					  const struct qbpy_tensors *of,
					  size_t index);
PyObject *qbpy_list_tensors(struct qbpy_model *self,
			    const struct qbpy_tensors *of,
			    qbpy_tensor_function function);
PyObject *qbpy_shape_item(struct qbpy_model *self,
			  const struct qbpy_tensors *of, size_t index);
PyObject *qbpy_scale_item(struct qbpy_model *self,
			  const struct qbpy_tensors *of, size_t index);
PyObject *qbpy_buffer_item(struct qbpy_model *self,
			   const struct qbpy_tensors *of, size_t index);
PyObject *qbpy_target_cores(PyObject *object, void *closure);
PyObject *qbpy_infer_pinned_memory(PyObject *self, PyObject *const *args,
				   Py_ssize_t num_args, PyObject *names);
PyObject *qbpy_infer_pinned_async(PyObject *self, PyObject *args, PyObject *kw);
PyObject *qbpy_infer_speedrun(PyObject *self, PyObject *args, PyObject *kw);
PyObject *qbpy_allocate_inputs(PyObject *self, PyObject *args, PyObject *kw);
PyObject *qbpy_allocate_outputs(PyObject *self, PyObject *args, PyObject *kw);

/* variant.c */
int qbpy_add_variant(PyObject *module);
int qbpy_parse_variant(struct qbpy_model *model, PyObject *object,
		       size_t *variant);
PyObject *qbpy_get_variant_handle(PyObject *object, PyObject *args,
				  PyObject *kw);

/* infer_array.c: that inputs fit the model, with its warning (Q307, Q310). */
int qbpy_check_inputs(struct qbpy_model *self,
		      const struct qbrt_infer_options *options,
		      const struct qbpy_arrays *inputs);

/* infer_async.c: methods of Model */
extern PyMethodDef qbpy_infer_async_methods[];

/* future.c, future_result.c */
int qbpy_add_future(PyObject *module);
/* A Future without a job yet, of an inference of a Model. */
struct qbpy_future *qbpy_future_of(struct qbpy_model *model);
/* 0, or -1 with Future_NotValid of one that has no job. */
int qbpy_check_future(const struct qbpy_future *self);
int qbpy_query_future(const struct qbpy_future *self, bool *is_done);
PyObject *qbpy_future_get(PyObject *object, PyObject *none);

/* deferred.c */
/* From now until the interpreter ends others' threads may come in. */
int qbpy_open_gate(struct qbpy_state *state);
/* Around all that such a thread does with Python; false: it must not. */
bool qbpy_enter_gate(void);
void qbpy_leave_gate(void);
bool qbpy_is_ending(void);
/* Runs the releases that the library has deferred; keeps an exception. */
void qbpy_drain(const struct qbpy_state *state);
/* The same before long, on the main thread; from any thread, without the GIL. */
void qbpy_drain_soon(void);

/* future_callback.c */
PyObject *qbpy_add_done_callback(PyObject *object, PyObject *args,
				 PyObject *kw);

#endif
