// SPDX-License-Identifier: MIT
/* See uapi-call.h: what a step changes in a request, and what is put right. */
#include <drm.h>
#include <string.h>

#include "uapi-call.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define MAX_BUFFER (UINT64_C(1) << 20)

static uint64_t load(const void *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static void store(void *to, uint64_t value)
{
	memcpy(to, &value, sizeof(value));
}

static uint64_t tame_pointer(uint64_t pointer, const struct uapi_place *place)
{
	uint64_t arena = (uintptr_t)place->arena;
	uint64_t stack = (uintptr_t)place->stack;

	if (!pointer || (pointer >= arena && pointer < arena + UAPI_ARENA_SIZE))
		return pointer;
	for (size_t part = 0; part < 3; part++) {
		if (pointer == stack + part * UAPI_STACK_SIZE / 3)
			return pointer;
	}
	/* the kernel's half, the first page, the edge of what is there */
	if (pointer % 8 == 7)
		return UINT64_C(0xffff800000000000);
	if (pointer % 8 == 6)
		return 8;
	return arena + pointer % (UAPI_ARENA_SIZE + 64);
}

static void tame_timeout(void *at)
{
	int64_t latest = qbrt_now_ns() + UAPI_WAIT_NS;

	if ((int64_t)load(at) > latest)
		store(at, (uint64_t)latest);
}

/* A SUBMIT's own wait lies in memory, anywhere there by now. */
static void tame_submit(uint8_t *bytes, const struct uapi_place *place)
{
	uint64_t wait = load(bytes + 48);
	uint64_t last = (uintptr_t)place->arena + UAPI_ARENA_SIZE -
			sizeof(struct drm_qbnpu_wait);

	if (wait == (uintptr_t)place->stack + UAPI_STACK_SIZE / 3 * 2 ||
	    (wait >= (uintptr_t)place->arena && wait <= last))
		tame_timeout((uint8_t *)(uintptr_t)wait + 16);
}

void uapi_tame(struct uapi_call *call, const struct uapi_kind *kind,
	       const struct uapi_place *place)
{
	uint64_t size = load(call->bytes);

	for (size_t i = 0; i < kind->num_pointers; i++) {
		uint8_t *at = call->bytes + kind->pointers[i];

		store(at, tame_pointer(load(at), place));
	}
	if (kind->timeout)
		tame_timeout(call->bytes + kind->timeout);
	if (kind->request == DRM_IOCTL_QBNPU_SUBMIT)
		tame_submit(call->bytes, place);
	if (kind->request == DRM_IOCTL_QBNPU_BO_CREATE && size > MAX_BUFFER &&
	    size <= UINT64_C(1) << 34)
		store(call->bytes, size % MAX_BUFFER);
	/* its time limit is the driver's own, 5 s */
	if (kind->request == DRM_IOCTL_SYNCOBJ_TRANSFER)
		call->bytes[offsetof(struct drm_syncobj_transfer, flags)] &=
			(uint8_t)~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
	size = load(call->bytes + 8);
	if (kind->request == DRM_IOCTL_QBNPU_PROGRAM_CREATE &&
	    size > UAPI_ARENA_SIZE && size <= UINT64_C(1) << 24)
		store(call->bytes + 8, size % (2 * UAPI_ARENA_SIZE));
}

void uapi_mutate(struct uapi_call *call, const struct uapi_step *step,
		 const struct uapi_place *place)
{
	size_t size = _IOC_SIZE(call->request);
	size_t width = (size_t)1 << (step->mutate_how & 3);
	size_t part = (step->mutate_how >> 2 & 3) % 3;
	uint8_t *at = call->bytes + step->mutate_at / width * width % size;
	uint64_t value;

	if (step->mutate_at == UINT8_MAX) {
		call->request =
			_IOC(_IOC_DIR(call->request), _IOC_TYPE(call->request),
			     _IOC_NR(call->request),
			     step->value % sizeof(call->bytes));
		return;
	}
	if (step->mutate_how & 16)
		at = (uint8_t *)(uintptr_t)uapi_choose_memory(
			     step, place, part * UAPI_STACK_SIZE / 3) +
		     step->mutate_at;
	value = load(at);
	if (step->mutate_how & 32)
		value ^= step->value;
	else
		memcpy(&value, &step->value, width);
	store(at, value);
}
