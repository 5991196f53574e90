// SPDX-License-Identifier: MIT
/* A device, a launched model and its buffers, and calls on threads. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "counters.h"

void rig_open(struct rig *rig, const char *soft_devices,
	      struct qbrt_model *model)
{
	memset(rig, 0, sizeof(*rig));
	if (soft_devices)
		setenv("QBRUNTIME_SOFT_DEVICES", soft_devices, 1);
	rig->model = model;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &rig->acc));
	ck_assert_ok(qbrt_model_launch(model, rig->acc));
	ck_assert_ok(qbrt_model_alloc_input(model, 0, &rig->in));
	ck_assert_ok(qbrt_model_alloc_output(model, 0, &rig->out));
}

void rig_close(struct rig *rig)
{
	qbrt_pinned_memory_free(rig->in);
	qbrt_pinned_memory_free(rig->out);
	qbrt_model_free(rig->model);
	qbrt_accelerator_close(rig->acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors), 0);
}

enum qbrt_status rig_infer(const struct rig *rig,
			   const struct qbrt_infer_options *options)
{
	return qbrt_model_infer_pinned_memory(rig->model, options, &rig->in, 1,
					      &rig->out, 1);
}

struct qbrt_pinned_memory *rig_alloc(const struct rig *rig,
				     enum qbrt_dtype dtype, size_t ndim,
				     const int64_t *shape)
{
	struct qbrt_pinned_memory *mem = NULL;

	ck_assert_ok(qbrt_pinned_memory_alloc(rig->acc, dtype, shape, ndim,
					      NULL, &mem));
	return mem;
}

void fill(struct qbrt_pinned_memory *mem, unsigned int seed)
{
	uint8_t *data = qbrt_pinned_memory_get_data(mem);

	for (size_t i = 0; i < qbrt_pinned_memory_get_nbytes(mem); i++)
		data[i] = (uint8_t)(seed * 31 + i * 7 + 1);
}

bool holds(const struct qbrt_pinned_memory *mem, unsigned int seed)
{
	const uint8_t *data = qbrt_pinned_memory_get_data(mem);

	for (size_t i = 0; i < qbrt_pinned_memory_get_nbytes(mem); i++)
		if (data[i] != (uint8_t)(seed * 31 + i * 7 + 1))
			return false;
	return true;
}

static void *run_call(void *arg)
{
	struct call *call = arg;

	call->status = qbrt_model_infer_pinned_memory(
		call->rig->model, call->options, &call->in, 1, &call->out, 1);
	return NULL;
}

void call_start(struct call *call)
{
	ck_assert(!pthread_create(&call->thread, NULL, run_call, call));
}

enum qbrt_status call_join(struct call *call)
{
	ck_assert(!pthread_join(call->thread, NULL));
	return call->status;
}

struct qbrt_model_counters get_counters(const struct qbrt_model *model)
{
	struct qbrt_model_counters counters = { .size = sizeof(counters) };

	qbrt_model_get_counters(model, &counters);
	return counters;
}
