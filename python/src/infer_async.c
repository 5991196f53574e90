// SPDX-License-Identifier: MIT
/*
 * Inference that is queued: the inputs are copied within the call, the result
 * is a Future's. The call waits, without the GIL, where the queue is full.
 */
#include "arrays.h"

/* The Future of inputs; None if TRY would have to wait. */
static PyObject *submit_arrays(struct qbpy_model *self,
			       const struct qbrt_infer_options *options,
			       const struct qbpy_arrays *inputs)
{
	struct qbpy_future *future = qbpy_future_of(self);
	enum qbrt_status status;

	if (!future)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_model_submit(self->model, options, inputs->arrays,
				   inputs->num, &future->future);
	qbpy_end_wait();
	if (status == QBRT_WOULD_BLOCK && !PyErr_Occurred()) {
		Py_DECREF((PyObject *)future);
		Py_RETURN_NONE;
	}
	if (qbpy_check(self->state, status, qbpy_model_device(self)))
		Py_CLEAR(future);
	return (PyObject *)future;
}

static PyObject *submit(PyObject *object, PyObject *args, PyObject *kw,
			const char *function, uint32_t flags)
{
	struct qbpy_model *self = (struct qbpy_model *)object;
	struct qbrt_infer_options options = {
		.size = sizeof(options),
		.flags = flags & ~QBRT_INFER_TRY,
	};
	PyObject *given, *answer = NULL;
	struct qbpy_arrays inputs;

	if (qbpy_parse_one(args, kw, function, "inputs", &given) ||
	    qbpy_take_arrays(self->state, given, "inputs", &inputs))
		return NULL;
	if (!qbpy_check_inputs(self, &options, &inputs)) {
		options.flags = flags;
		answer = submit_arrays(self, &options, &inputs);
	}
	qbpy_release_arrays(&inputs);
	return answer;
}

static PyObject *infer_async(PyObject *self, PyObject *args, PyObject *kw)
{
	return submit(self, args, kw, "infer_async", 0);
}

static PyObject *infer_async_to_float(PyObject *self, PyObject *args,
				      PyObject *kw)
{
	return submit(self, args, kw, "infer_async_to_float",
		      QBRT_INFER_TO_FLOAT);
}

static PyObject *try_infer_async(PyObject *self, PyObject *args, PyObject *kw)
{
	return submit(self, args, kw, "try_infer_async", QBRT_INFER_TRY);
}

PyDoc_STRVAR(
	infer_async_doc,
	"infer_async($self, inputs)\n--\n\n"
	"Queue one inference on arrays and return its Future.\n\n"
	"inputs: one array or a list or tuple, one per input, as infer() "
	"takes them, of\nthe model's shapes or with a leading axis of 1. "
	"They are copied, so they may be\nwritten right after. As many "
	"inferences run as the model has activation slots, 64\nmore may "
	"wait; then the call waits, and in a coroutine its event loop:\n"
	"let no more in (examples/async_digits.py), or use "
	"try_infer_async().\n\n"
	"Needs a ModelConfig with set_async_pipeline_enabled(True). Raises "
	"QbShapeError,\nQbDtypeError, QbNotAliveError, QbTimeoutError and "
	"others.");
PyDoc_STRVAR(infer_async_to_float_doc,
	     "infer_async_to_float($self, inputs)\n--\n\n"
	     "As infer_async(): int8 in, de-quantised float32 out.");
PyDoc_STRVAR(try_infer_async_doc,
	     "try_infer_async($self, inputs)\n--\n\n"
	     "As infer_async(), or None where that would have to wait; nothing "
	     "has changed\nthen.");

PyMethodDef qbpy_infer_async_methods[] = {
	{ "infer_async", (PyCFunction)(void (*)(void))infer_async,
	  METH_VARARGS | METH_KEYWORDS, infer_async_doc },
	{ "infer_async_to_float",
	  (PyCFunction)(void (*)(void))infer_async_to_float,
	  METH_VARARGS | METH_KEYWORDS, infer_async_to_float_doc },
	{ "try_infer_async", (PyCFunction)(void (*)(void))try_infer_async,
	  METH_VARARGS | METH_KEYWORDS, try_infer_async_doc },
	{ NULL, NULL, 0, NULL },
};
