// SPDX-License-Identifier: MIT
/*
 * Inference on pinned memory. The buffers of a call are held and counted as
 * uses before the GIL is let go, so that nobody frees them, or touches them
 * with the GIL, meanwhile.
 */
#include "module.h"

#define NUM_ON_STACK 16 /* buffers of one side; more are allocated */

/* The inputs or outputs of one call. */
struct buffers {
	size_t num;
	struct qbpy_native **natives; /* references, each a use */
	struct qbrt_pinned_memory **mems;
	struct qbpy_native *few_natives[NUM_ON_STACK];
	struct qbrt_pinned_memory *few_mems[NUM_ON_STACK];
};

static const char for_inputs[] =
	"a PinnedMemory or a sequence of them for inputs";
static const char for_outputs[] =
	"a PinnedMemory or a sequence of them for outputs";

static void release(struct buffers *buffers)
{
	while (buffers->num) {
		struct qbpy_native *native = buffers->natives[--buffers->num];

		qbpy_end_use(native);
		Py_DECREF(native);
	}
	if (buffers->natives != buffers->few_natives) {
		PyMem_Free(buffers->natives);
		PyMem_Free(buffers->mems);
	}
}

static int take(struct qbpy_state *state, PyObject *object, const char *name,
		struct buffers *buffers)
{
	struct qbpy_native *native;

	if (!PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY])) {
		PyErr_Format(PyExc_TypeError,
			     "%s[%zu]: expected a PinnedMemory, got %R", name,
			     buffers->num, (PyObject *)Py_TYPE(object));
		return -1;
	}
	native = ((struct qbpy_pinned *)object)->native;
	if (qbpy_check_open(native))
		return -1;
	Py_INCREF((PyObject *)native);
	qbpy_begin_use(native);
	buffers->natives[buffers->num] = native;
	buffers->mems[buffers->num] = native->mem;
	buffers->num++;
	return 0;
}

static int make_room(struct buffers *buffers, size_t num)
{
	buffers->num = 0;
	buffers->natives = buffers->few_natives;
	buffers->mems = buffers->few_mems;
	if (num <= NUM_ON_STACK)
		return 0;
	buffers->natives = PyMem_Calloc(num, sizeof(buffers->natives[0]));
	buffers->mems = PyMem_Calloc(num, sizeof(buffers->mems[0]));
	if (buffers->natives && buffers->mems)
		return 0;
	release(buffers);
	(void)PyErr_NoMemory();
	return -1;
}

/* A list of PinnedMemory, new, of one or a sequence of them. */
static PyObject *to_list(struct qbpy_state *state, PyObject *object,
			 const char *expected)
{
	PyObject *list;

	if (PyList_CheckExact(object))
		return PyList_GetSlice(object, 0, PyList_Size(object));
	if (!PyObject_TypeCheck(object, state->types[QBPY_PINNED_MEMORY])) {
		if (PyUnicode_Check(object) || !PySequence_Check(object))
			return qbpy_raise_type(expected, object);
		return PySequence_List(object);
	}
	list = PyList_New(1);
	if (list && PyList_SetItem(list, 0, Py_NewRef(object)))
		Py_CLEAR(list);
	return list;
}

/* The same to be read at once, with the GIL: a list is the one that came. */
static PyObject *borrow_list(struct qbpy_state *state, PyObject *object,
			     const char *expected)
{
	if (PyList_CheckExact(object))
		return Py_NewRef(object);
	return to_list(state, object, expected);
}

/* On failure nothing is held. */
static int take_all(struct qbpy_state *state, PyObject *list, const char *name,
		    struct buffers *buffers)
{
	Py_ssize_t num = PyList_Size(list);

	if (make_room(buffers, (size_t)num))
		return -1;
	for (Py_ssize_t i = 0; i < num; i++) {
		if (take(state, PyList_GetItem(list, i), name, buffers)) {
			release(buffers);
			return -1;
		}
	}
	return 0;
}

/* Their accesses may have to wait from now on. */
static void mark_queued(const struct buffers *buffers)
{
	for (size_t i = 0; i < buffers->num; i++)
		buffers->natives[i]->was_queued = true;
}

/*
 * What the library says of a model that is not launched, as an exception; it
 * says so before it allocates. A launch that succeeds on another thread is
 * none yet while that thread waits for the GIL, for the handle is missing.
 */
static int check_launched(struct qbpy_model *self)
{
	struct qbrt_pinned_memory *mem = NULL;
	enum qbrt_status status;

	if (qbrt_model_get_activation_slots(self->model) && self->handle)
		return 0;
	status = qbrt_model_alloc_output(self->model, 0, &mem);
	qbrt_pinned_memory_free(mem);
	if (status)
		(void)qbpy_raise(self->state, status, qbpy_model_device(self));
	else
		(void)qbpy_raise_text(self->state, QBRT_MODEL_NOT_LAUNCHED,
				      NULL,
				      "launch() has not returned yet on "
				      "another thread");
	return -1;
}

/* Pinned memory on the device of the launched model; takes info's shape. */
static PyObject *allocate(struct qbpy_model *self,
			  const struct qbrt_io_info *info, const int64_t *shape,
			  size_t ndim)
{
	struct qbpy_acc *handle = (struct qbpy_acc *)Py_NewRef(self->handle);
	struct qbrt_pinned_memory *mem = NULL;
	PyObject *pinned = NULL;
	enum qbrt_status status;

	qbpy_begin_wait();
	status = qbrt_pinned_memory_alloc(handle->acc, info->pinned_dtype,
					  shape, ndim, NULL, &mem);
	qbpy_end_wait();
	if (qbpy_check(self->state, status,
		       qbrt_accelerator_get_id(handle->acc)))
		qbrt_pinned_memory_free(mem);
	else
		pinned = qbpy_pinned_of(self->state, mem);
	Py_DECREF(handle);
	return pinned;
}

/* Of the largest shape; a program that computes several takes that many. */
static PyObject *allocate_largest(struct qbpy_model *self,
				  const struct qbrt_io_info *info)
{
	size_t nbytes = qbrt_dtype_itemsize(info->pinned_dtype);
	int64_t shape[QBPY_MAX_NDIM + 1];

	for (size_t i = 0; i < info->ndim; i++) {
		shape[i + 1] = info->max_shape[i];
		nbytes *= (size_t)info->max_shape[i];
	}
	if (info->max_nbytes == nbytes)
		return allocate(self, info, shape + 1, info->ndim);
	shape[0] = (int64_t)(info->max_nbytes / nbytes);
	return allocate(self, info, shape, info->ndim + 1);
}

static PyObject *allocate_all(PyObject *object, PyObject *args, PyObject *kw,
			      bool is_input)
{
	static char *keywords[] = { "variant_idx", NULL };
	struct qbpy_model *self = (struct qbpy_model *)object;
	PyObject *number = NULL, *list;
	size_t variant = 0;
	size_t num = is_input ? qbrt_model_get_num_inputs(self->model)
			      : qbrt_model_get_num_outputs(self->model);

	if (!PyArg_ParseTupleAndKeywords(args, kw,
					 is_input ? "|O:allocate_inputs"
						  : "|O:allocate_outputs",
					 keywords, &number) ||
	    (number && qbpy_parse_variant(self, number, &variant)) ||
	    check_launched(self))
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < num; i++) {
		struct qbrt_io_info info = { .size = sizeof(info) };
		enum qbrt_status status =
			is_input ? qbrt_model_query_input(self->model, variant,
							  i, &info)
				 : qbrt_model_query_output(self->model, variant,
							   i, &info);
		PyObject *pinned =
			qbpy_check(self->state, status, qbpy_model_device(self))
				? NULL
				: allocate_largest(self, &info);

		if (!pinned || PyList_Append(list, pinned))
			Py_CLEAR(list);
		Py_XDECREF(pinned);
	}
	return list;
}

PyObject *qbpy_allocate_inputs(PyObject *self, PyObject *args, PyObject *kw)
{
	return allocate_all(self, args, kw, true);
}

PyObject *qbpy_allocate_outputs(PyObject *self, PyObject *args, PyObject *kw)
{
	return allocate_all(self, args, kw, false);
}

/* The memory as arrays, for the library to find the variant that fits. */
static struct qbrt_array *describe(const struct buffers *inputs)
{
	struct qbrt_array *arrays =
		PyMem_Calloc(inputs->num + 1, sizeof(arrays[0]));

	for (size_t i = 0; arrays && i < inputs->num; i++) {
		struct qbrt_pinned_memory *mem = inputs->mems[i];

		arrays[i] = (struct qbrt_array){
			.data = qbrt_pinned_memory_get_data(mem),
			.shape = qbrt_pinned_memory_get_shape(mem),
			.ndim = qbrt_pinned_memory_get_ndim(mem),
			.dtype = qbrt_pinned_memory_get_dtype(mem),
		};
	}
	if (!arrays)
		(void)PyErr_NoMemory();
	return arrays;
}

static PyObject *allocate_matching(struct qbpy_model *self,
				   const struct buffers *inputs,
				   const struct qbrt_array *arrays,
				   size_t index)
{
	struct qbrt_infer_options options = { .size = sizeof(options),
					      .flags = QBRT_INFER_HWC };
	struct qbrt_match match = { .size = sizeof(match) };
	struct qbrt_io_info shape = { .size = sizeof(shape) };
	struct qbrt_io_info type = { .size = sizeof(type) };
	enum qbrt_status status;

	status = qbrt_model_query_match(self->model, &options, arrays,
					inputs->num, &match);
	if (!status)
		status = qbrt_model_query_match_output(self->model, &options,
						       arrays, inputs->num,
						       index, &shape);
	if (!status)
		status = qbrt_model_query_output(self->model, match.variant,
						 index, &type);
	if (qbpy_check(self->state, status, qbpy_model_device(self)))
		return NULL;
	return allocate(self, &type, shape.shape, shape.ndim);
}

/* A list of new outputs for these inputs. */
static PyObject *allocate_answer(struct qbpy_model *self,
				 const struct buffers *inputs)
{
	struct qbrt_array *arrays;
	PyObject *list;

	if (check_launched(self))
		return NULL;
	arrays = describe(inputs);
	if (!arrays)
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < qbrt_model_get_num_outputs(self->model);
	     i++) {
		PyObject *pinned = allocate_matching(self, inputs, arrays, i);

		if (!pinned || PyList_Append(list, pinned))
			Py_CLEAR(list);
		Py_XDECREF(pinned);
	}
	PyMem_Free(arrays);
	return list;
}

/* The list of those that a call names, of None of new ones. */
static PyObject *make_outputs(struct qbpy_model *self,
			      const struct buffers *inputs, PyObject *outputs)
{
	if (outputs == Py_None)
		return allocate_answer(self, inputs);
	return to_list(self->state, outputs, for_outputs);
}

static int infer(struct qbpy_model *self, const struct buffers *inputs,
		 PyObject *outputs_list, uint64_t cache_size)
{
	struct qbrt_infer_options options = { .size = sizeof(options),
					      .cache_size = cache_size };
	struct buffers outputs;
	enum qbrt_status status;
	int ret;

	if (take_all(self->state, outputs_list, "outputs", &outputs))
		return -1;
	qbpy_begin_wait();
	status = qbrt_model_infer_pinned_memory(
		self->model, cache_size ? &options : NULL, inputs->mems,
		inputs->num, outputs.mems, outputs.num);
	qbpy_end_wait();
	ret = qbpy_check(self->state, status, qbpy_model_device(self));
	release(&outputs);
	return ret;
}

static PyObject *infer_lists(struct qbpy_model *self, PyObject *inputs_list,
			     PyObject *outputs_arg, uint64_t cache_size)
{
	struct buffers inputs;
	PyObject *outputs;

	if (take_all(self->state, inputs_list, "inputs", &inputs))
		return NULL;
	outputs = make_outputs(self, &inputs, outputs_arg);
	if (outputs && infer(self, &inputs, outputs, cache_size))
		Py_CLEAR(outputs);
	release(&inputs);
	return outputs;
}

PyObject *qbpy_infer_pinned_memory(PyObject *object, PyObject *const *args,
				   Py_ssize_t num_args, PyObject *names)
{
	enum {
		INPUTS,
		OUTPUTS,
		CACHE_SIZE,
		NUM_ARGUMENTS
	};
	static const struct qbpy_signature signature = {
		.function = "infer_pinned_memory",
		.num = NUM_ARGUMENTS,
		.num_places = CACHE_SIZE,
		.names = { QBPY_NAME_INPUTS, QBPY_NAME_OUTPUTS,
			   QBPY_NAME_CACHE_SIZE },
	};
	struct qbpy_model *self = (struct qbpy_model *)object;
	PyObject *sorted[QBPY_MAX_ARGUMENTS], *list, *answer;
	size_t cache_size = 0;

	if (qbpy_sort_arguments(self->state, &signature, args, num_args, names,
				sorted) ||
	    (sorted[CACHE_SIZE] &&
	     qbpy_parse_size(self->state, sorted[CACHE_SIZE], "cache_size",
			     &cache_size)))
		return NULL;
	if (!sorted[INPUTS]) {
		PyErr_SetString(PyExc_TypeError,
				"infer_pinned_memory() needs inputs");
		return NULL;
	}
	list = borrow_list(self->state, sorted[INPUTS], for_inputs);
	if (!list)
		return NULL;
	answer = infer_lists(self, list,
			     sorted[OUTPUTS] ? sorted[OUTPUTS] : Py_None,
			     cache_size);
	Py_DECREF(list);
	return answer;
}

/* The Future of a job on them, which owns the list of outputs. */
static PyObject *submit(struct qbpy_model *self, const struct buffers *inputs,
			PyObject *outputs_list)
{
	struct qbpy_future *future = qbpy_future_of(self);
	struct buffers outputs;
	enum qbrt_status status;

	if (!future ||
	    take_all(self->state, outputs_list, "outputs", &outputs)) {
		Py_XDECREF((PyObject *)future);
		return NULL;
	}
	future->outputs = Py_NewRef(outputs_list);
	mark_queued(inputs);
	mark_queued(&outputs);
	qbpy_begin_wait();
	status = qbrt_model_submit_pinned_memory(
		self->model, NULL, inputs->mems, inputs->num, outputs.mems,
		outputs.num, &future->future);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, qbpy_model_device(self)))
		Py_CLEAR(future);
	release(&outputs);
	return (PyObject *)future;
}

PyObject *qbpy_infer_pinned_async(PyObject *object, PyObject *args,
				  PyObject *kw)
{
	static char *keywords[] = { "inputs", "outputs", NULL };
	struct qbpy_model *self = (struct qbpy_model *)object;
	PyObject *inputs_arg, *outputs_arg = Py_None;
	PyObject *list, *outputs, *future = NULL;
	struct buffers inputs;

	if (!PyArg_ParseTupleAndKeywords(args, kw,
					 "O|O:infer_pinned_memory_async",
					 keywords, &inputs_arg, &outputs_arg))
		return NULL;
	list = to_list(self->state, inputs_arg, for_inputs);
	if (!list || take_all(self->state, list, "inputs", &inputs)) {
		Py_XDECREF(list);
		return NULL;
	}
	outputs = make_outputs(self, &inputs, outputs_arg);
	if (outputs)
		future = submit(self, &inputs, outputs);
	release(&inputs);
	Py_XDECREF(outputs);
	Py_DECREF(list);
	return future;
}

PyObject *qbpy_infer_speedrun(PyObject *object, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "variant_idx", NULL };
	struct qbpy_model *self = (struct qbpy_model *)object;
	PyObject *number = NULL;
	enum qbrt_status status;
	size_t variant = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:infer_speedrun",
					 keywords, &number) ||
	    (number && qbpy_parse_variant(self, number, &variant)))
		return NULL;
	qbpy_begin_wait();
	status = qbrt_model_infer_speedrun(self->model, variant);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, qbpy_model_device(self)))
		return NULL;
	Py_RETURN_NONE;
}
