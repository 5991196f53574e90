// SPDX-License-Identifier: MIT
/*
 * DLPack's layout as static assertions: of upstream's header with
 * HAVE_DLPACK_DLPACK_H, else of ours. Nothing to run: test-layout.sh compiles
 * it both ways. The calls say that the functions of the table are declared
 * alike.
 */
#include <stddef.h>

#include "dlpack-abi.h"

#define LAYOUT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type);
#define LAYOUT(type, field, offset) \
	_Static_assert(offsetof(type, field) == (offset), #type "." #field);
#define LAYOUT_NUMBER(name, value) _Static_assert((name) == (value), #name);

#include "layout-dlpack.h"

int call_all(const DLPackExchangeAPI *api, DLTensor *tensor, void *object,
	     void (*set_error)(void *, const char *, const char *));

int call_all(const DLPackExchangeAPI *api, DLTensor *tensor, void *object,
	     void (*set_error)(void *, const char *, const char *))
{
	DLManagedTensorVersioned *managed = NULL;
	void *stream = NULL;

	return api->managed_tensor_allocator(tensor, &managed, object,
					     set_error) +
	       api->managed_tensor_from_py_object_no_sync(object, &managed) +
	       api->managed_tensor_to_py_object_no_sync(managed, &object) +
	       api->dltensor_from_py_object_no_sync(object, tensor) +
	       api->current_work_stream(kDLCPU, 0, &stream);
}
