// SPDX-License-Identifier: MIT
/*
 * Model: loaded by __init__, launched, disposed. What it tells about itself is
 * model_info.c, inference infer.c and infer_array.c. It takes part in garbage
 * collection, since a subclass of Accelerator may lead back to it.
 */
#include "module.h"

#include <structmember.h>

const char *qbpy_model_device(const struct qbpy_model *self)
{
	return qbpy_acc_id(self->handle);
}

static void free_model(struct qbrt_model *model)
{
	PyThreadState *thread = PyEval_SaveThread();

	qbrt_model_free(model);
	PyEval_RestoreThread(thread);
}

/* A model of the arguments path and model_config. */
static struct qbrt_model *load(struct qbpy_state *state, PyObject *args,
			       PyObject *kw, const char *format)
{
	static char *keywords[] = { "path", "model_config", NULL };
	struct qbrt_model_config *config;
	struct qbrt_model *model = NULL;
	PyObject *config_arg = Py_None;
	enum qbrt_status status;
	PyObject *path_arg, *path;

	if (!PyArg_ParseTupleAndKeywords(args, kw, format, keywords, &path_arg,
					 &config_arg) ||
	    qbpy_parse_path(path_arg, "path", &path))
		return NULL;
	if (qbpy_copy_config(state, config_arg, &config)) {
		Py_DECREF(path);
		return NULL;
	}
	qbpy_begin_wait();
	status = qbrt_model_load(PyBytes_AsString(path), config, &model);
	qbpy_end_wait();
	qbrt_model_config_free(config);
	Py_DECREF(path);
	if (qbpy_check(state, status, NULL)) {
		free_model(model);
		return NULL;
	}
	return model;
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = qbpy_get_state(type);
	struct qbpy_model *self = state ? qbpy_alloc_object(type) : NULL;

	(void)args;
	(void)kw;
	if (self)
		self->state = state;
	return (PyObject *)self;
}

static int init(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_model *self = (struct qbpy_model *)object;
	struct qbrt_model *model;

	model = load(self->state, args, kw, "O|O:Model");
	if (!model)
		return -1;
	if (self->model) {
		free_model(model);
		PyErr_SetString(PyExc_RuntimeError,
				"this Model is loaded already");
		return -1;
	}
	self->model = model;
	return 0;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
	struct qbpy_model *self = (struct qbpy_model *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->acc);
	return 0;
}

static int clear(PyObject *object)
{
	Py_CLEAR(((struct qbpy_model *)object)->acc);
	return 0;
}

/* As for a file that nobody closed; the path stands for the object. */
static void warn_of_launched(const struct qbrt_model *model)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (PyErr_ResourceWarning(NULL, 1, "launched model %s was not disposed",
				  qbrt_model_get_path(model)))
		PyErr_WriteUnraisable(NULL);
	PyErr_Restore(type, value, traceback);
}

static void dealloc(PyObject *object)
{
	struct qbpy_model *self = (struct qbpy_model *)object;

	PyObject_GC_UnTrack(object);
	if (self->weakrefs)
		PyObject_ClearWeakRefs(object);
	if (self->model) {
		if (qbrt_model_get_activation_slots(self->model))
			warn_of_launched(self->model);
		free_model(self->model);
	}
	Py_XDECREF(self->acc);
	Py_XDECREF(self->handle);
	qbpy_free_object(self);
}

static PyObject *launch(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_model *self = (struct qbpy_model *)object;
	enum qbrt_status status;
	struct qbpy_acc *handle;
	PyObject *acc;

	if (qbpy_parse_one(args, kw, "launch", "acc", &acc))
		return NULL;
	if (!PyObject_TypeCheck(acc, self->state->types[QBPY_ACCELERATOR]))
		return qbpy_raise_type("an Accelerator for acc", acc);
	handle = (struct qbpy_acc *)qbpy_get_handle(acc);
	if (!handle)
		return NULL;
	qbpy_begin_wait();
	status = qbrt_model_launch(self->model, handle->acc);
	qbpy_end_wait();
	if (status) {
		(void)qbpy_raise(self->state, status,
				 qbrt_accelerator_get_id(handle->acc));
		Py_DECREF(handle);
		return NULL;
	}
	QBPY_REPLACE(self->acc, Py_NewRef(acc));
	QBPY_REPLACE(self->handle, (PyObject *)handle);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *dispose(PyObject *object, PyObject *none)
{
	struct qbpy_model *self = (struct qbpy_model *)object;
	enum qbrt_status status;

	(void)none;
	qbpy_begin_wait();
	status = qbrt_model_dispose(self->model);
	qbpy_end_wait();
	if (qbpy_check(self->state, status, qbpy_model_device(self)))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *object, PyObject *none)
{
	(void)none;
	return Py_NewRef(object);
}

static PyObject *exit_context(PyObject *object, PyObject *args)
{
	(void)args;
	return dispose(object, NULL);
}

/* Programs keep one model in objects that they copy. */
static PyObject *copy(PyObject *object, PyObject *args)
{
	(void)args;
	return Py_NewRef(object);
}

static PyObject *repr(PyObject *object)
{
	struct qbpy_model *self = (struct qbpy_model *)object;
	PyObject *path, *text;

	if (!self->model)
		return PyUnicode_FromString("Model(not loaded)");
	path = PyUnicode_DecodeFSDefault(qbrt_model_get_path(self->model));
	if (!path)
		return NULL;
	text = qbrt_model_get_activation_slots(self->model)
		       ? PyUnicode_FromFormat("Model(%R, %s)", path,
					      qbpy_model_device(self))
		       : PyUnicode_FromFormat("Model(%R)", path);
	Py_DECREF(path);
	return text;
}

static PyObject *get_acc(PyObject *object, void *closure)
{
	struct qbpy_model *self = (struct qbpy_model *)object;

	(void)closure;
	return Py_NewRef(self->acc ? self->acc : Py_None);
}

PyObject *qbpy_estimate_memory(PyObject *module, PyObject *args, PyObject *kw)
{
	struct qbpy_state *state = PyModule_GetState(module);
	struct qbrt_model *model;
	uint64_t nbytes;

	model = load(state, args, kw, "O|O:estimate_memory");
	if (!model)
		return NULL;
	nbytes = qbrt_model_get_memory_estimate(model);
	free_model(model);
	return PyLong_FromUnsignedLongLong(nbytes);
}

/* Of a file with several core modes, of which none is asked for. */
static enum qbrt_status load_any_mode(const char *path,
				      struct qbrt_model **model)
{
	struct qbrt_model_config *config = NULL;
	enum qbrt_status status;

	status = qbrt_model_config_alloc(&config);
	if (!status)
		status = qbrt_model_config_set_single_core_mode(config, 0);
	if (!status)
		status = qbrt_model_load(path, config, model);
	if (status == QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH &&
	    !qbrt_model_config_set_multi_core_mode(config, NULL, 0))
		status = qbrt_model_load(path, config, model);
	/* of two modes or more one is Global4 then */
	if (status == QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH &&
	    !qbrt_model_config_set_global4_core_mode(config, NULL, 0))
		status = qbrt_model_load(path, config, model);
	qbrt_model_config_free(config);
	return status;
}

PyObject *qbpy_get_model_summary(PyObject *module, PyObject *args, PyObject *kw)
{
	struct qbrt_model *model = NULL;
	PyObject *object, *path, *text = NULL;
	enum qbrt_status status;

	if (qbpy_parse_one(args, kw, "get_model_summary", "mxq_path",
			   &object) ||
	    qbpy_parse_path(object, "mxq_path", &path))
		return NULL;
	qbpy_begin_wait();
	status = qbrt_model_load(PyBytes_AsString(path), NULL, &model);
	if (status == QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH)
		status = load_any_mode(PyBytes_AsString(path), &model);
	qbpy_end_wait();
	if (!qbpy_check(PyModule_GetState(module), status, NULL))
		text = qbpy_summary(model);
	free_model(model);
	Py_DECREF(path);
	return text;
}

PyDoc_STRVAR(launch_doc,
	     "launch($self, acc)\n--\n\n"
	     "Put the model on the device of an Accelerator, which may be "
	     "closed any time\nlater.\n\n"
	     "Raises QbRuntimeError: launched already, or what the device "
	     "lacks;\nQbOutOfMemoryError: nothing stays, a later launch may "
	     "succeed.");
PyDoc_STRVAR(dispose_doc,
	     "dispose($self, /)\n--\n\n"
	     "Take the model off its device. Inferences that wait or run end "
	     "with\nQbNotAliveError; one that is done before it hears of it "
	     "keeps its result. Waits\nonly for calls on other threads, at "
	     "most 100 ms. Again, or before a launch, is\nharmless.");
PyDoc_STRVAR(
	infer_pinned_doc,
	"infer_pinned_memory($self, inputs, outputs=None, *, cache_size=0)"
	"\n--\n\n"
	"Run the model on pinned memory, without a copy; returns when the "
	"outputs are\nwritten, as their list.\n\n"
	"inputs, outputs: one PinnedMemory or a sequence, one per tensor, "
	"of the type of\nget_input_pinned_data_types() and of the model's "
	"shape in HWC order, or that with\na leading 1; what "
	"allocate_inputs() and allocate_outputs() make. Without outputs\n"
	"new ones are allocated. An input that a job is still to write is "
	"waited for; an\noutput that is in use is refused. After a job that "
	"failed the outputs raise until\nthey are rewritten whole.\n\n"
	"Raises QbShapeError, QbDtypeError, QbNotAliveError, "
	"QbTimeoutError and others.\nAny thread may call it: N threads get "
	"N cores.");
PyDoc_STRVAR(
	infer_pinned_async_doc,
	"infer_pinned_memory_async($self, inputs, outputs=None)\n--\n\n"
	"Queue one inference on pinned memory, without a copy, and return its "
	"Future,\nwhose get() gives the list of outputs.\n\n"
	"inputs, outputs: as infer_pinned_memory() takes them. Inputs stay as "
	"they are until\nthe inference has ended; outputs belong to the "
	"Future until get(), or until it\nis dropped. Both may be freed at "
	"once; indexing them waits. An input that another\ninference is "
	"still to write is waited for on the device. After one that failed or\n"
	"was cancelled the outputs raise until they are rewritten whole. As "
	"many run as the\nmodel has activation slots, 64 more may wait; then "
	"the call waits.\n\n"
	"Raises QbShapeError, QbDtypeError, QbNotAliveError, QbTimeoutError "
	"and others.\nAny thread may call it.");
PyDoc_STRVAR(speedrun_doc,
	     "infer_speedrun($self, variant_idx=0)\n--\n\n"
	     "Run a variant once, at its largest shapes, on dummy "
	     "data, to be timed.");
PyDoc_STRVAR(allocate_inputs_doc,
	     "allocate_inputs($self, variant_idx=0)\n--\n\n"
	     "Pinned memory for each input, of its type and largest shape; "
	     "needs launch().");
PyDoc_STRVAR(allocate_outputs_doc,
	     "allocate_outputs($self, variant_idx=0)\n--\n\n"
	     "Pinned memory for each output, of its type and largest shape; "
	     "needs launch().");

static PyMethodDef methods[] = {
	{ "allocate_inputs", (PyCFunction)(void (*)(void))qbpy_allocate_inputs,
	  METH_VARARGS | METH_KEYWORDS, allocate_inputs_doc },
	{ "allocate_outputs",
	  (PyCFunction)(void (*)(void))qbpy_allocate_outputs,
	  METH_VARARGS | METH_KEYWORDS, allocate_outputs_doc },
	{ "dispose", dispose, METH_NOARGS, dispose_doc },
	{ "infer_pinned_memory",
	  (PyCFunction)(void (*)(void))qbpy_infer_pinned_memory,
	  METH_FASTCALL | METH_KEYWORDS, infer_pinned_doc },
	{ "infer_pinned_memory_async",
	  (PyCFunction)(void (*)(void))qbpy_infer_pinned_async,
	  METH_VARARGS | METH_KEYWORDS, infer_pinned_async_doc },
	{ "infer_speedrun", (PyCFunction)(void (*)(void))qbpy_infer_speedrun,
	  METH_VARARGS | METH_KEYWORDS, speedrun_doc },
	{ "launch", (PyCFunction)(void (*)(void))launch,
	  METH_VARARGS | METH_KEYWORDS, launch_doc },
	{ "__copy__", copy, METH_NOARGS, NULL },
	{ "__deepcopy__", copy, METH_O, NULL },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", exit_context, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
	{ "_acc", get_acc, NULL, "The Accelerator of the last launch.", NULL },
	{ "target_cores", qbpy_target_cores, NULL,
	  "Deprecated: get_target_cores().", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
	{ "__weaklistoffset__", T_PYSSIZET,
	  offsetof(struct qbpy_model, weakrefs), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static const char doc[] =
	"Model(path, model_config=None)\n--\n\n"
	"A compiled model, read and checked now, without a device; the file is\n"
	"not read again. Its getters work from then on, inference after\n"
	"launch(acc).\n\n"
	"Raises QbModelFileError, or QbRuntimeError where the file does not fit\n"
	"the configuration. A context manager that disposes; any thread may\n"
	"call any method.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },
	{ Py_tp_new, new },
	{ Py_tp_init, init },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_traverse, traverse },
	{ Py_tp_clear, clear },
	{ Py_tp_repr, repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ Py_tp_members, members },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.model.Model",
	.basicsize = sizeof(struct qbpy_model),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = slots,
};

int qbpy_add_model(PyObject *module)
{
	struct qbpy_state *state = PyModule_GetState(module);

	if (qbpy_add_type(module, QBPY_MODEL, &spec, NULL))
		return -1;
	if (qbpy_add_methods(state->types[QBPY_MODEL],
			     qbpy_model_info_methods) ||
	    qbpy_add_methods(state->types[QBPY_MODEL], qbpy_array_methods))
		return -1;
	return qbpy_add_methods(state->types[QBPY_MODEL],
				qbpy_infer_async_methods);
}
