// SPDX-License-Identifier: MIT
/*
 * What a Model tells about itself. Getters of a loaded model do not fail.
 */
#include "module.h"

#define MAX_CORES 64

static struct qbpy_model *self_of(PyObject *object)
{
	return (struct qbpy_model *)object;
}

static size_t count_tensors(const struct qbpy_model *self,
			    const struct qbpy_tensors *of)
{
	struct qbrt_io_info info = { .size = sizeof(info) };
	size_t num = 0;

	while (of->is_input ? !qbrt_model_query_input(self->model, of->variant,
						      num, &info)
			    : !qbrt_model_query_output(self->model, of->variant,
						       num, &info))
		num++;
	return num;
}

PyObject *qbpy_list_tensors(struct qbpy_model *self,
			    const struct qbpy_tensors *of,
			    qbpy_tensor_function function)
{
	size_t num = count_tensors(self, of);
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < num; i++) {
		PyObject *item = function(self, of, i);

		if (!item || PyList_Append(list, item))
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	return list;
}

static int query(struct qbpy_model *self, const struct qbpy_tensors *of,
		 size_t index, struct qbrt_io_info *info)
{
	*info = (struct qbrt_io_info){ .size = sizeof(*info) };
	return qbpy_check(
		self->state,
		of->is_input ? qbrt_model_query_input(self->model, of->variant,
						      index, info)
			     : qbrt_model_query_output(self->model, of->variant,
						       index, info),
		NULL);
}

PyObject *qbpy_shape_item(struct qbpy_model *self,
			  const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_io_info info;

	if (query(self, of, index, &info))
		return NULL;
	return qbpy_shape_to_tuple(info.shape, info.ndim);
}

static PyObject *name_item(struct qbpy_model *self,
			   const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_io_info info;

	return query(self, of, index, &info) ? NULL : qbpy_text(info.name);
}

static PyObject *dtype_item(struct qbpy_model *self,
			    const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_io_info info;

	if (query(self, of, index, &info))
		return NULL;
	return qbpy_enum(self->state, QBPY_DATA_TYPE, (long)info.dtype);
}

static PyObject *pinned_dtype_item(struct qbpy_model *self,
				   const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_io_info info;

	if (query(self, of, index, &info))
		return NULL;
	return qbpy_enum(self->state, QBPY_DATA_TYPE, (long)info.pinned_dtype);
}

PyObject *qbpy_scale_item(struct qbpy_model *self,
			  const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_scale_info info = { .size = sizeof(info) };
	PyObject *list;

	if (qbpy_check(self->state,
		       of->is_input
			       ? qbrt_model_query_input_scale(
					 self->model, of->variant, index, &info)
			       : qbrt_model_query_output_scale(self->model,
							       of->variant,
							       index, &info),
		       NULL))
		return NULL;
	list = PyList_New(0);
	for (size_t i = 0; list && i < info.num_scales; i++) {
		PyObject *scale = PyFloat_FromDouble((double)info.scales[i]);

		if (!scale || PyList_Append(list, scale))
			Py_CLEAR(list);
		Py_XDECREF(scale);
	}
	if (!list)
		return NULL;
	return PyObject_CallFunction(self->state->classes[QBPY_SCALE], "dNNiN",
				     (double)info.scale,
				     PyBool_FromLong((long)info.is_uniform),
				     list, (int)info.zero_point,
				     PyBool_FromLong((long)info.is_asymmetric));
}

PyObject *qbpy_buffer_item(struct qbpy_model *self,
			   const struct qbpy_tensors *of, size_t index)
{
	struct qbrt_buffer_info info = { .size = sizeof(info) };

	if (qbpy_check(self->state,
		       of->is_input
			       ? qbrt_model_query_input_buffer(
					 self->model, of->variant, index, &info)
			       : qbrt_model_query_output_buffer(self->model,
								of->variant,
								index, &info),
		       NULL))
		return NULL;
	return PyObject_CallFunction(
		self->state->classes[QBPY_BUFFER_INFO], "LLLLLLLLLLLLL",
		(long long)info.original_height, (long long)info.original_width,
		(long long)info.original_channel,
		(long long)info.reshaped_height, (long long)info.reshaped_width,
		(long long)info.reshaped_channel, (long long)info.height,
		(long long)info.width, (long long)info.channel,
		(long long)info.max_height, (long long)info.max_width,
		(long long)info.max_channel, (long long)info.max_cache_size);
}

static const struct qbpy_tensors inputs = { 0, true };
static const struct qbpy_tensors outputs = { 0, false };

#define TENSOR_GETTER(name, of, item) \
	static PyObject *name(PyObject *self, PyObject *none) \
	{ \
		(void)none; \
		return qbpy_list_tensors(self_of(self), of, item); \
	}
TENSOR_GETTER(input_shape, &inputs, qbpy_shape_item)
TENSOR_GETTER(output_shape, &outputs, qbpy_shape_item)
TENSOR_GETTER(input_names, &inputs, name_item)
TENSOR_GETTER(output_names, &outputs, name_item)
TENSOR_GETTER(input_dtypes, &inputs, dtype_item)
TENSOR_GETTER(output_dtypes, &outputs, dtype_item)
TENSOR_GETTER(input_pinned_dtypes, &inputs, pinned_dtype_item)
TENSOR_GETTER(output_pinned_dtypes, &outputs, pinned_dtype_item)
TENSOR_GETTER(input_scale, &inputs, qbpy_scale_item)
TENSOR_GETTER(output_scale, &outputs, qbpy_scale_item)
TENSOR_GETTER(input_buffer_info, &inputs, qbpy_buffer_item)
TENSOR_GETTER(output_buffer_info, &outputs, qbpy_buffer_item)

static PyObject *input_dtype(PyObject *object, PyObject *none)
{
	(void)none;
	return dtype_item(self_of(object), &inputs, 0);
}

static PyObject *output_dtype(PyObject *object, PyObject *none)
{
	(void)none;
	return dtype_item(self_of(object), &outputs, 0);
}

static PyObject *get_core_mode(PyObject *object, PyObject *none)
{
	struct qbpy_model *self = self_of(object);

	(void)none;
	return qbpy_enum(self->state, QBPY_CORE_MODE,
			 (long)qbrt_model_get_core_mode(self->model));
}

static PyObject *supported_core_modes(PyObject *object, PyObject *none)
{
	struct qbpy_model *self = self_of(object);

	(void)none;
	return qbpy_mask_to_list(self->state, QBPY_CORE_MODE,
				 qbrt_model_get_core_modes(self->model));
}

static PyObject *get_target_cores(PyObject *object, PyObject *none)
{
	struct qbpy_model *self = self_of(object);
	struct qbrt_core_id cores[MAX_CORES];
	size_t num = 0;

	(void)none;
	if (qbpy_check(self->state,
		       qbrt_model_query_target_cores(self->model, cores,
						     MAX_CORES, &num),
		       NULL))
		return NULL;
	return qbpy_cores_to_list(self->state, cores,
				  num < MAX_CORES ? num : MAX_CORES);
}

PyObject *qbpy_target_cores(PyObject *object, void *closure)
{
	(void)closure;
	if (PyErr_WarnEx(PyExc_DeprecationWarning,
			 "Model.target_cores is get_target_cores()", 1))
		return NULL;
	return get_target_cores(object, NULL);
}

static PyObject *is_target(PyObject *object, PyObject *args, PyObject *kw)
{
	struct qbpy_model *self = self_of(object);
	struct qbrt_core_id core_id;
	PyObject *value;
	int is_core_id;

	if (qbpy_parse_one(args, kw, "is_target", "core_id", &value))
		return NULL;
	is_core_id =
		PyObject_IsInstance(value, self->state->classes[QBPY_CORE_ID]);
	if (is_core_id < 0)
		return NULL;
	if (!is_core_id)
		return qbpy_raise_type("a CoreId for core_id", value);
	if (qbpy_parse_core_id(value, &core_id))
		return NULL;
	return PyBool_FromLong(qbrt_model_is_target(self->model, core_id));
}

static PyObject *get_identifier(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromUnsignedLong(
		qbrt_model_get_identifier(self_of(object)->model));
}

static PyObject *get_model_path(PyObject *object, PyObject *none)
{
	const char *path = qbrt_model_get_path(self_of(object)->model);

	(void)none;
	return PyUnicode_DecodeFSDefault(path ? path : "");
}

PyObject *qbpy_summary(const struct qbrt_model *model)
{
	const char *text = model ? qbrt_model_get_summary(model) : "";

	return text ? qbpy_text(text) : PyErr_NoMemory();
}

static PyObject *get_summary(PyObject *object, PyObject *none)
{
	(void)none;
	return qbpy_summary(self_of(object)->model);
}

static PyObject *get_num_variants(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSize_t(
		qbrt_model_get_num_variants(self_of(object)->model));
}

static PyObject *get_slots(PyObject *object, PyObject *none)
{
	(void)none;
	return PyLong_FromSize_t(
		qbrt_model_get_activation_slots(self_of(object)->model));
}

static PyObject *cache_item(struct qbpy_model *self, size_t index)
{
	struct qbrt_cache_info info = { .size = sizeof(info) };

	if (qbpy_check(self->state,
		       qbrt_model_query_cache(self->model, index, &info), NULL))
		return NULL;
	return PyObject_CallFunction(
		self->state->classes[QBPY_CACHE_INFO], "NNNnI",
		qbpy_enum(self->state, QBPY_CACHE_TYPE, (long)info.type),
		qbpy_text(info.name), qbpy_text(info.layer_hash),
		(Py_ssize_t)info.nbytes, (unsigned int)info.num_caches);
}

static PyObject *get_cache_infos(PyObject *object, PyObject *none)
{
	struct qbpy_model *self = self_of(object);
	size_t num = qbrt_model_get_num_cache_layers(self->model);
	PyObject *list = PyList_New(0);

	(void)none;
	for (size_t i = 0; list && i < num; i++) {
		PyObject *info = cache_item(self, i);

		if (!info || PyList_Append(list, info))
			Py_CLEAR(list);
		Py_XDECREF(info);
	}
	return list;
}

static PyObject *get_counters(PyObject *object, PyObject *none)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };

	(void)none;
	qbrt_model_get_counters(self_of(object)->model, &counters);
	return Py_BuildValue(
		"{sKsKsKsKsKsKsKsLsL}", "submitted",
		(unsigned long long)counters.submitted, "completed",
		(unsigned long long)counters.completed, "failed",
		(unsigned long long)counters.failed, "cancelled",
		(unsigned long long)counters.cancelled, "input_nbytes",
		(unsigned long long)counters.input_nbytes, "output_nbytes",
		(unsigned long long)counters.output_nbytes, "copied_nbytes",
		(unsigned long long)counters.copied_nbytes, "queue_time_ns",
		(long long)counters.queue_time, "device_time_ns",
		(long long)counters.device_time);
}

#define GETTER(name, function, words) \
	{ \
		name, function, METH_NOARGS, name "($self, /)\n--\n\n" words \
	}
PyMethodDef qbpy_model_info_methods[] = {
	GETTER("counters", get_counters,
	       "Sums over all inferences since the model was loaded, a dict."),
	GETTER("get_activation_slots", get_slots,
	       "How many inferences may run at once; 0: not launched."),
	GETTER("get_cache_infos", get_cache_infos,
	       "A CacheInfo of each layer of the KV cache; [] without one."),
	GETTER("get_core_mode", get_core_mode,
	       "The CoreMode that a launch uses."),
	GETTER("get_identifier", get_identifier,
	       "0, 1, 2, ... in the order of loading, never reused."),
	GETTER("get_input_buffer_info", input_buffer_info,
	       "A BufferInfo of each input."),
	GETTER("get_input_data_types", input_dtypes,
	       "The DataType of each input that arrays have."),
	GETTER("get_input_names", input_names, "The name of each input."),
	GETTER("get_input_pinned_data_types", input_pinned_dtypes,
	       "The DataType of each input that pinned memory has."),
	GETTER("get_input_scale", input_scale, "A Scale of each input."),
	GETTER("get_model_input_data_type", input_dtype,
	       "The DataType of the first input."),
	GETTER("get_model_input_shape", input_shape,
	       "The shape of each input; -k: any positive multiple of k."),
	GETTER("get_model_output_data_type", output_dtype,
	       "The DataType of the first output."),
	GETTER("get_model_output_shape", output_shape,
	       "The shape of each output; -k: any positive multiple of k."),
	GETTER("get_model_path", get_model_path, "The path as given."),
	GETTER("get_model_summary", get_summary,
	       "What the file says, in words: the text of "
	       "qbruntime.get_model_summary()."),
	{ "get_model_variant_handle",
	  (PyCFunction)(void (*)(void))qbpy_get_variant_handle,
	  METH_VARARGS | METH_KEYWORDS,
	  "get_model_variant_handle($self, variant_idx)\n--\n\n"
	  "The ModelVariantHandle of one of the input sizes.\n\n"
	  "Raises QbRuntimeError with StatusCode.Model_InvalidVariantIdx." },
	GETTER("get_num_model_variants", get_num_variants,
	       "How many input sizes the file has, at least 1."),
	GETTER("get_output_buffer_info", output_buffer_info,
	       "A BufferInfo of each output."),
	GETTER("get_output_data_types", output_dtypes,
	       "The DataType of each output that arrays have."),
	GETTER("get_output_names", output_names, "The name of each output."),
	GETTER("get_output_pinned_data_types", output_pinned_dtypes,
	       "The DataType of each output that pinned memory has."),
	GETTER("get_output_scale", output_scale, "A Scale of each output."),
	GETTER("get_target_cores", get_target_cores,
	       "The CoreIds of the launched model; [] before."),
	{ "is_target", (PyCFunction)(void (*)(void))is_target,
	  METH_VARARGS | METH_KEYWORDS,
	  "is_target($self, core_id)\n--\n\n"
	  "Whether get_target_cores() has that CoreId." },
	GETTER("supported_core_modes", supported_core_modes,
	       "The CoreModes that the file carries."),
	{ NULL, NULL, 0, NULL },
};
