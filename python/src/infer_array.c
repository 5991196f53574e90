// SPDX-License-Identifier: MIT
/*
 * Inference on plain arrays: infer() and its forms. The inputs and outputs of a
 * call are taken (arrays.c) before the GIL is let go. Outputs that a program
 * gives are written in place; one that is not in C order, and each that it does
 * not give, is a new array, which nothing else ever writes
 * (infer_outputs.c).
 */
#include "infer_array.h"

#define LAYOUT_FLAGS (QBRT_INFER_HWC | QBRT_INFER_CHW)

/* As they came; NULL: not given. */
struct arguments {
	PyObject *inputs;
	PyObject *outputs;
	PyObject *cache_size;
	PyObject *params;
	PyObject *layout;
};

/* Inputs that do not fit (Q302, Q310), or are of another type (Q311). */
static int refuse_inputs(struct qbpy_model *self, enum qbrt_status status)
{
	const char *device = qbpy_model_device(self);

	if (status == QBRT_MODEL_SHAPE_MISMATCHED ||
	    status == QBRT_MODEL_INPUT_COUNT_MISMATCHED)
		(void)qbpy_raise_value(self->state, status, device,
				       "Input shape is invalid. ",
				       qbrt_error_detail());
	else
		(void)qbpy_raise(self->state, status, device);
	return -1;
}

/* Q307; an exception where the program's filters make one of it. */
static int warn_of_layout(struct qbpy_model *self)
{
	if (self->has_warned)
		return 0;
	self->has_warned = true;
	return PyErr_WarnFormat(
		self->state->errors[QBPY_LAYOUT_WARNING], 1,
		"the inputs fit %s as HWC and as CHW, and are taken as HWC: "
		"say layout=\"hwc\" or layout=\"chw\"",
		qbrt_model_get_path(self->model));
}

int qbpy_check_inputs(struct qbpy_model *self,
		      const struct qbrt_infer_options *options,
		      const struct qbpy_arrays *inputs)
{
	struct qbrt_match match = { .size = sizeof(match) };
	enum qbrt_status status = qbrt_model_query_match(
		self->model, options, inputs->arrays, inputs->num, &match);

	if (status)
		return refuse_inputs(self, status);
	if (match.is_ambiguous && !(options->flags & LAYOUT_FLAGS))
		return warn_of_layout(self);
	return 0;
}

/* Q326 Q328: what is wrong with given outputs is a ValueError. */
static int check_run(const struct qbpy_call *call, enum qbrt_status status)
{
	const char *device = qbpy_model_device(call->self);
	const char *first = "";

	switch (status) {
	case QBRT_MODEL_OUTPUT_COUNT_MISMATCHED:
		first = "The number of outputs is different. ";
		break;
	case QBRT_MODEL_DTYPE_MISMATCHED:
		first = "Output dtype mismatch. ";
		break;
	case QBRT_MODEL_SHAPE_MISMATCHED:
		first = "Output shape mismatch. ";
		break;
	case QBRT_PINNED_MEMORY_ALIASED:
		break;
	default:
		return qbpy_check(call->state, status, device);
	}
	(void)qbpy_raise_value(call->state, status, device, first,
			       qbrt_error_detail());
	return -1;
}

static int run(const struct qbpy_call *call, const struct qbpy_arrays *outputs)
{
	enum qbrt_status status;

	call->state->array_calls++;
	qbpy_begin_wait();
	status = qbrt_model_infer(call->self->model, &call->options,
				  call->inputs.arrays, call->inputs.num,
				  outputs->arrays, outputs->num);
	qbpy_end_wait();
	call->state->array_calls--;
	return check_run(call, status);
}

static PyObject *new_output(const struct qbpy_call *call, size_t index)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	enum qbrt_status status = qbrt_model_query_match_output(
		call->self->model, &call->options, call->inputs.arrays,
		call->inputs.num, index, &info);
	void *data;

	if (qbpy_check(call->state, status, qbpy_model_device(call->self)))
		return NULL;
	return qbpy_new_array(call->state, info.dtype, info.shape, info.ndim,
			      &data);
}

/* A list of new arrays with the results (Q321). */
static PyObject *infer_new(const struct qbpy_call *call)
{
	size_t num = qbrt_model_get_num_outputs(call->self->model);
	PyObject *list = PyList_New(0);
	struct qbpy_arrays outputs;

	for (size_t i = 0; list && i < num; i++) {
		PyObject *array = new_output(call, i);

		if (!array || PyList_Append(list, array))
			Py_CLEAR(list);
		Py_XDECREF(array);
	}
	if (!list)
		return NULL;
	if (qbpy_take_outputs(call->state, list, &outputs)) {
		Py_DECREF(list);
		return NULL;
	}
	if (run(call, &outputs))
		Py_CLEAR(list);
	qbpy_release_arrays(&outputs);
	return list;
}

/* Q325 */
static PyObject *infer_fill(const struct qbpy_call *call, PyObject *list)
{
	PyObject *answer = infer_new(call);
	Py_ssize_t end = PyList_Size(list);
	int ret;

	if (!answer)
		return NULL;
	ret = PyList_SetSlice(list, end, end, answer);
	Py_DECREF(answer);
	if (ret)
		return NULL;
	Py_RETURN_NONE;
}

/*
 * P58: pinned memory that the device would write as it is. Nobody has used it
 * since it was taken, and the library takes it again by itself.
 */
static void leave_to_device(const struct qbpy_call *call,
			    struct qbpy_arrays *outputs)
{
	for (size_t i = 0; i < outputs->num; i++) {
		struct qbrt_io_info info = { .size = sizeof(info) };

		if (outputs->holds[i].num_accesses &&
		    !qbrt_model_query_match_output(
			    call->self->model, &call->options,
			    call->inputs.arrays, call->inputs.num, i, &info) &&
		    outputs->arrays[i].dtype == info.pinned_dtype)
			qbpy_leave_accesses(&outputs->holds[i]);
	}
}

/* Q326 */
static PyObject *infer_into(const struct qbpy_call *call, PyObject *list)
{
	struct qbpy_arrays outputs;
	PyObject *replaced;
	int ret = -1;

	if (qbpy_take_outputs(call->state, call->outputs, &outputs))
		return NULL;
	replaced = qbpy_replace_outputs(call, &outputs);
	if (replaced) {
		leave_to_device(call, &outputs);
		ret = run(call, &outputs);
	}
	if (!ret)
		ret = qbpy_put_results(call, &outputs, replaced, list);
	qbpy_release_arrays(&outputs);
	Py_XDECREF(replaced);
	if (ret)
		return NULL;
	Py_RETURN_NONE;
}

static int parse_layout(PyObject *layout, uint32_t *flags)
{
	if (!PyUnicode_Check(layout)) {
		(void)qbpy_raise_type("a str for layout", layout);
		return -1;
	}
	if (!PyUnicode_CompareWithASCIIString(layout, "auto"))
		return 0;
	if (!PyUnicode_CompareWithASCIIString(layout, "hwc")) {
		*flags |= QBRT_INFER_HWC;
		return 0;
	}
	if (!PyUnicode_CompareWithASCIIString(layout, "chw")) {
		*flags |= QBRT_INFER_CHW;
		return 0;
	}
	PyErr_Format(PyExc_ValueError,
		     "layout is \"auto\", \"hwc\" or \"chw\", got %R", layout);
	return -1;
}

/* All but the arrays themselves. */
static int parse_values(struct qbpy_state *state, const struct arguments *given,
			struct qbrt_infer_options *options)
{
	size_t cache_size = 0;

	if (given->outputs && given->outputs != Py_None &&
	    !PyList_Check(given->outputs)) {
		(void)qbpy_raise_type("None or a list of arrays for outputs",
				      given->outputs);
		return -1;
	}
	if (given->cache_size && qbpy_parse_size(state, given->cache_size,
						 "cache_size", &cache_size))
		return -1;
	options->cache_size = cache_size;
	if (given->params && given->params != Py_None) {
		(void)qbpy_raise_type("None for params, since there is no "
				      "BatchParam yet",
				      given->params);
		return -1;
	}
	return given->layout ? parse_layout(given->layout, &options->flags) : 0;
}

static PyObject *infer_call(const struct qbpy_call *call, PyObject *list)
{
	if (!call->outputs)
		return infer_new(call);
	return PyTuple_Size(call->outputs) ? infer_into(call, list)
					   : infer_fill(call, list);
}

/* Inputs may run Python, after which the list may be another. */
static int take_call(struct qbpy_call *call, const struct arguments *given)
{
	if (parse_values(call->state, given, &call->options))
		return -1;
	if (given->outputs && given->outputs != Py_None) {
		call->outputs = PyList_AsTuple(given->outputs);
		if (!call->outputs)
			return -1;
	}
	if (!qbpy_take_arrays(call->state, given->inputs, "inputs",
			      &call->inputs))
		return 0;
	Py_CLEAR(call->outputs);
	return -1;
}

static PyObject *infer(PyObject *object, const struct arguments *given,
		       uint32_t flags)
{
	struct qbpy_call call = {
		.self = (struct qbpy_model *)object,
		.options = { .size = sizeof(call.options), .flags = flags },
	};
	PyObject *answer = NULL;

	call.state = call.self->state;
	if (take_call(&call, given))
		return NULL;
	if (!qbpy_check_inputs(call.self, &call.options, &call.inputs))
		answer = infer_call(&call, given->outputs);
	qbpy_release_arrays(&call.inputs);
	Py_XDECREF(call.outputs);
	return answer;
}

static PyObject *infer_any(PyObject *self, PyObject *args, PyObject *kw)
{
	static char *keywords[] = { "inputs", "outputs", "cache_size",
				    "params", "layout",  NULL };
	struct arguments given = { .inputs = NULL };

	if (!PyArg_ParseTupleAndKeywords(args, kw, "O|OOO$O:infer", keywords,
					 &given.inputs, &given.outputs,
					 &given.cache_size, &given.params,
					 &given.layout))
		return NULL;
	return infer(self, &given, 0);
}

/* infer_hwc() and infer_chw() */
static PyObject *infer_fixed(PyObject *self, PyObject *args, PyObject *kw,
			     const char *format, uint32_t flags)
{
	static char *keywords[] = { "inputs", "outputs", "cache_size", "params",
				    NULL };
	struct arguments given = { .inputs = NULL };

	if (!PyArg_ParseTupleAndKeywords(args, kw, format, keywords,
					 &given.inputs, &given.outputs,
					 &given.cache_size, &given.params))
		return NULL;
	return infer(self, &given, flags);
}

static PyObject *infer_hwc(PyObject *self, PyObject *args, PyObject *kw)
{
	return infer_fixed(self, args, kw, "O|OOO:infer_hwc", QBRT_INFER_HWC);
}

static PyObject *infer_chw(PyObject *self, PyObject *args, PyObject *kw)
{
	return infer_fixed(self, args, kw, "O|OOO:infer_chw", QBRT_INFER_CHW);
}

static PyObject *infer_float(PyObject *self, PyObject *args, PyObject *kw,
			     const char *format, uint32_t flags)
{
	static char *keywords[] = { "inputs", "cache_size", NULL };
	struct arguments given = { .inputs = NULL };

	if (!PyArg_ParseTupleAndKeywords(args, kw, format, keywords,
					 &given.inputs, &given.cache_size))
		return NULL;
	return infer(self, &given, flags | QBRT_INFER_TO_FLOAT);
}

static PyObject *infer_to_float(PyObject *self, PyObject *args, PyObject *kw)
{
	return infer_float(self, args, kw, "O|O:infer_to_float", 0);
}

static PyObject *infer_hwc_to_float(PyObject *self, PyObject *args,
				    PyObject *kw)
{
	return infer_float(self, args, kw, "O|O:infer_hwc_to_float",
			   QBRT_INFER_HWC);
}

static PyObject *infer_chw_to_float(PyObject *self, PyObject *args,
				    PyObject *kw)
{
	return infer_float(self, args, kw, "O|O:infer_chw_to_float",
			   QBRT_INFER_CHW);
}

PyDoc_STRVAR(
	infer_doc,
	"infer($self, inputs, outputs=None, cache_size=0, params=None, *, "
	"layout=\"auto\")\n--\n\n"
	"Run the model on host arrays; returns a list of new arrays.\n\n"
	"inputs: one array or a list or tuple, one per tensor, of any strides: "
	"ndarrays,\nPinnedMemory or what NumPy can read without a copy or with "
	"one. Of the model's\nshape, an image as HWC or all images as CHW, or "
	"with a leading axis of N for N\ninferences, which run on all cores; "
	"the outputs have the same order of axes. Of a\nDataType of "
	"get_input_data_types(), or as stored: int8 inputs give int8 outputs.\n"
	"outputs: None; or [] to be filled; or a list of arrays to be written, "
	"where one that\nis not in C order is replaced by a new one. Then None "
	"is returned.\nlayout: \"auto\", \"hwc\" or \"chw\"; auto takes HWC "
	"where both fit, with a\nQbLayoutWarning once. params: None.\n\n"
	"Views of pinned memory of the model's device, as numpy.asarray() "
	"makes them, are\nused where they lie, not copied, if they have the "
	"stored type and order.\n\n"
	"Raises QbShapeError and other ValueErrors, QbDtypeError, "
	"QbNotAliveError,\nQbTimeoutError and others. After a failure the "
	"outputs are as they were or all\nzeros. Any thread may call it: N "
	"threads get N cores.");
PyDoc_STRVAR(infer_hwc_doc,
	     "infer_hwc($self, inputs, outputs=None, cache_size=0, "
	     "params=None)\n--\n\n"
	     "infer() with layout=\"hwc\".");
PyDoc_STRVAR(infer_chw_doc,
	     "infer_chw($self, inputs, outputs=None, cache_size=0, "
	     "params=None)\n--\n\n"
	     "infer() with layout=\"chw\".");
PyDoc_STRVAR(infer_to_float_doc,
	     "infer_to_float($self, inputs, cache_size=0)\n--\n\n"
	     "As infer(), with float32 outputs whatever the inputs are: int8 "
	     "in, de-quantised\nout.");
PyDoc_STRVAR(infer_hwc_to_float_doc,
	     "infer_hwc_to_float($self, inputs, cache_size=0)\n--\n\n"
	     "infer_to_float() for inputs in HWC order.");
PyDoc_STRVAR(infer_chw_to_float_doc,
	     "infer_chw_to_float($self, inputs, cache_size=0)\n--\n\n"
	     "infer_to_float() for inputs in CHW order.");

#define METHOD(name, function, doc) \
	{ \
		name, (PyCFunction)(void (*)(void))(function), \
			METH_VARARGS | METH_KEYWORDS, doc \
	}

PyMethodDef qbpy_array_methods[] = {
	METHOD("infer", infer_any, infer_doc),
	METHOD("infer_chw", infer_chw, infer_chw_doc),
	METHOD("infer_chw_to_float", infer_chw_to_float,
	       infer_chw_to_float_doc),
	METHOD("infer_hwc", infer_hwc, infer_hwc_doc),
	METHOD("infer_hwc_to_float", infer_hwc_to_float,
	       infer_hwc_to_float_doc),
	METHOD("infer_to_float", infer_to_float, infer_to_float_doc),
	{ NULL, NULL, 0, NULL },
};
