// SPDX-License-Identifier: MIT
/*
 * ModelVariantHandle: a model and the number of one of its variants, which holds
 * the model. It takes part in garbage collection, since an object of a class
 * over Model may hold its handles; such a cycle is broken at the model.
 */
#include "module.h"

struct variant_handle {
	PyObject_HEAD struct qbpy_model *model;
	size_t variant;
};

static struct variant_handle *self_of(PyObject *object)
{
	return (struct variant_handle *)object;
}

int qbpy_parse_variant(struct qbpy_model *model, PyObject *object,
		       size_t *variant)
{
	size_t num = qbrt_model_get_num_variants(model->model);
	char expected[64];
	long long index;

	if (qbpy_parse_int(object, "variant_idx", &index))
		return -1;
	*variant = (size_t)index;
	if (index >= 0 && *variant < num)
		return 0;
	(void)PyOS_snprintf(expected, sizeof(expected),
			    "0 to %zu: the model has %zu", num - 1, num);
	return qbpy_refuse_number(model->state, QBRT_MODEL_INVALID_VARIANT_IDX,
				  "variant_idx", object,
				  num ? expected : "a model that is loaded");
}

PyObject *qbpy_get_variant_handle(PyObject *object, PyObject *args,
				  PyObject *kw)
{
	struct qbpy_model *model = (struct qbpy_model *)object;
	struct variant_handle *self;
	PyObject *value;
	size_t variant;

	if (qbpy_parse_one(args, kw, "get_model_variant_handle", "variant_idx",
			   &value) ||
	    qbpy_parse_variant(model, value, &variant))
		return NULL;
	self = qbpy_alloc_object(
		model->state->types[QBPY_MODEL_VARIANT_HANDLE]);
	if (!self)
		return NULL;
	self->model = (struct qbpy_model *)Py_NewRef(object);
	self->variant = variant;
	return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT((PyObject *)self_of(object)->model);
	return 0;
}

static void dealloc(PyObject *object)
{
	PyObject_GC_UnTrack(object);
	Py_XDECREF((PyObject *)self_of(object)->model);
	qbpy_free_object(object);
}

static PyObject *repr(PyObject *object)
{
	return PyUnicode_FromFormat("ModelVariantHandle(%zu, %R)",
				    self_of(object)->variant,
				    (PyObject *)self_of(object)->model);
}

static PyObject *get_variant_idx(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSize_t(self_of(object)->variant);
}

#define TENSOR_GETTER(name, is_input, item) \
	static PyObject *name(PyObject *object, PyObject *none) \
	{ \
		struct variant_handle *self = self_of(object); \
		const struct qbpy_tensors of = { self->variant, is_input }; \
\
		(void)none; \
		return qbpy_list_tensors(self->model, &of, item); \
	}
TENSOR_GETTER(input_shape, true, qbpy_shape_item)
TENSOR_GETTER(output_shape, false, qbpy_shape_item)
TENSOR_GETTER(input_scale, true, qbpy_scale_item)
TENSOR_GETTER(output_scale, false, qbpy_scale_item)
TENSOR_GETTER(input_buffer_info, true, qbpy_buffer_item)
TENSOR_GETTER(output_buffer_info, false, qbpy_buffer_item)

#define GETTER(name, function, words) \
	{ \
		name, function, METH_NOARGS, name "($self, /)\n--\n\n" words \
	}
static PyMethodDef methods[] = {
	GETTER("get_input_buffer_info", input_buffer_info,
	       "A BufferInfo of each input of the variant."),
	GETTER("get_input_scale", input_scale,
	       "A Scale of each input of the variant."),
	GETTER("get_model_input_shape", input_shape,
	       "The shape of each input; -k: any positive multiple of k."),
	GETTER("get_model_output_shape", output_shape,
	       "The shape of each output; -k: any positive multiple of k."),
	GETTER("get_output_buffer_info", output_buffer_info,
	       "A BufferInfo of each output of the variant."),
	GETTER("get_output_scale", output_scale,
	       "A Scale of each output of the variant."),
	GETTER("get_variant_idx", get_variant_idx,
	       "The number of the variant, from 0 on."),
	{ NULL, NULL, 0, NULL },
};

static const char doc[] =
	"One of the input sizes of a model, of\n"
	"Model.get_model_variant_handle(). It keeps the model, and tells about\n"
	"it also after dispose(). Any thread may call any method.";

static PyType_Slot slots[] = {
	{ Py_tp_doc, (void *)doc },   { Py_tp_dealloc, dealloc },
	{ Py_tp_traverse, traverse }, { Py_tp_repr, repr },
	{ Py_tp_methods, methods },   { 0, NULL },
};

static PyType_Spec spec = {
	.name = "qbruntime.model_variant_handle.ModelVariantHandle",
	.basicsize = sizeof(struct variant_handle),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

int qbpy_add_variant(PyObject *module)
{
	return qbpy_add_type(module, QBPY_MODEL_VARIANT_HANDLE, &spec, NULL);
}
