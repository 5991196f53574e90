// SPDX-License-Identifier: MIT
/*
 * The least that DLPack asks of a C type, as floors: a capsule, __dlpack__ (F14)
 * and the exchange table (F15); and the loops over any type's table (P55, P56).
 */
#include "native.h"

#include <stdlib.h>

#include "bench.h"
#include "dlpack-abi.h"

#define NUM_ELEMENTS 64

struct minimal {
	PyObject_HEAD int64_t shape[1];
	int64_t strides[1];
	float data[NUM_ELEMENTS];
};

/* What an export is: the struct, and its object that it keeps. */
union managed {
	DLManagedTensor legacy;
	DLManagedTensorVersioned versioned;
};

static void fill(DLTensor *to, struct minimal *self)
{
	*to = (DLTensor){
		.data = self->data,
		.device = { .device_type = kDLCPU },
		.ndim = 1,
		.dtype = { .code = kDLFloat, .bits = 32, .lanes = 1 },
		.shape = self->shape,
		.strides = self->strides,
	};
}

static void delete_legacy(DLManagedTensor *managed)
{
	Py_DECREF((PyObject *)managed->manager_ctx);
	free(managed);
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
	Py_DECREF((PyObject *)managed->manager_ctx);
	free(managed);
}

static void destroy(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor"))
		delete_legacy(PyCapsule_GetPointer(capsule, "dltensor"));
}

static PyObject *minimal_dlpack(PyObject *object, PyObject *const *args,
				Py_ssize_t num, PyObject *names)
{
	union managed *managed = malloc(sizeof(*managed));
	PyObject *capsule;

	(void)args;
	(void)num;
	(void)names;
	if (!managed)
		return PyErr_NoMemory();
	fill(&managed->legacy.dl_tensor, (struct minimal *)object);
	managed->legacy.manager_ctx = Py_NewRef(object);
	managed->legacy.deleter = delete_legacy;
	capsule = PyCapsule_New(&managed->legacy, "dltensor", destroy);
	if (!capsule)
		delete_legacy(&managed->legacy);
	return capsule;
}

static PyObject *make_capsule(PyObject *module, PyObject *none)
{
	static int pointed_at;

	(void)module;
	(void)none;
	return PyCapsule_New(&pointed_at, NULL, NULL);
}

/* ---- the table ---- */

static int own(void *object, DLManagedTensorVersioned **out)
{
	union managed *managed = malloc(sizeof(*managed));

	if (!managed)
		return -1;
	managed->versioned.version = (DLPackVersion){
		.major = DLPACK_MAJOR_VERSION,
		.minor = DLPACK_MINOR_VERSION,
	};
	managed->versioned.flags = 0;
	managed->versioned.manager_ctx = Py_NewRef(object);
	managed->versioned.deleter = delete_versioned;
	fill(&managed->versioned.dl_tensor, object);
	*out = &managed->versioned;
	return 0;
}

static int borrow(void *object, DLTensor *out)
{
	fill(out, object);
	return 0;
}

static DLPackExchangeAPI table = {
	.header.version = {
		.major = DLPACK_MAJOR_VERSION,
		.minor = DLPACK_MINOR_VERSION,
	},
	.managed_tensor_from_py_object_no_sync = own,
	.dltensor_from_py_object_no_sync = borrow,
};

/* Of the object's type; it outlives the capsule. */
static const DLPackExchangeAPI *find_table(PyObject *object)
{
	PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(object),
						   "__dlpack_c_exchange_api__");
	const DLPackExchangeAPI *found =
		capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
			: NULL;

	Py_XDECREF(capsule);
	return found;
}

static PyObject *run_borrow(PyObject *module, PyObject *args)
{
	const DLPackExchangeAPI *found;
	PyObject *object;
	unsigned long num;
	DLTensor tensor;
	int64_t begin;

	(void)module;
	if (!PyArg_ParseTuple(args, "Ok:run_borrow", &object, &num))
		return NULL;
	found = find_table(object);
	if (!found)
		return NULL;
	begin = bench_now_ns();
	while (num--)
		if (found->dltensor_from_py_object_no_sync(object, &tensor))
			return NULL;
	return PyLong_FromLongLong(bench_now_ns() - begin);
}

static PyObject *run_own(PyObject *module, PyObject *args)
{
	DLManagedTensorVersioned *managed;
	const DLPackExchangeAPI *found;
	PyObject *object;
	unsigned long num;
	int64_t begin;

	(void)module;
	if (!PyArg_ParseTuple(args, "Ok:run_own", &object, &num))
		return NULL;
	found = find_table(object);
	if (!found)
		return NULL;
	begin = bench_now_ns();
	while (num--) {
		if (found->managed_tensor_from_py_object_no_sync(object,
								 &managed))
			return NULL;
		managed->deleter(managed);
	}
	return PyLong_FromLongLong(bench_now_ns() - begin);
}

PyMethodDef native_dlpack_methods[] = {
	{ "capsule", make_capsule, METH_NOARGS, NULL },
	{ "run_borrow", run_borrow, METH_VARARGS, NULL },
	{ "run_own", run_own, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

/* ---- the type ---- */

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kw)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct minimal *self = (struct minimal *)alloc(type, 0);

	(void)args;
	(void)kw;
	if (self) {
		self->shape[0] = NUM_ELEMENTS;
		self->strides[0] = 1;
	}
	return (PyObject *)self;
}

static PyMethodDef minimal_methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))minimal_dlpack,
	  METH_FASTCALL | METH_KEYWORDS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, new },
	{ Py_tp_methods, minimal_methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "bench_native.Minimal",
	.basicsize = sizeof(struct minimal),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int native_add_minimal(PyObject *module)
{
	PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
	PyObject *capsule =
		type ? PyCapsule_New(&table, "dlpack_exchange_api", NULL)
		     : NULL;
	int ret = capsule ? PyObject_SetAttrString(
				    type, "__dlpack_c_exchange_api__", capsule)
			  : -1;

	if (!ret)
		ret = PyModule_AddType(module, (PyTypeObject *)type);
	Py_XDECREF(capsule);
	Py_XDECREF(type);
	return ret;
}
