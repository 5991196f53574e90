// SPDX-License-Identifier: MIT
/* See uapi-call.h. Each fill_... makes a request that is right. */
#include "uapi-call.h"

#include <drm.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "prog.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

#define HANDLE(byte) ((byte) % 12u)
#define JOB_NS 400000

/* Not in every libdrm. */
struct eventfd_arg {
	uint32_t handle, flags;
	uint64_t point;
	int32_t fd;
	uint32_t pad;
};
#define IOCTL_EVENTFD DRM_IOWR(0xcf, struct eventfd_arg)

/* ---- programs ---- */

#define MAX_PROGRAMS 40

static struct {
	uint8_t *bytes;
	size_t size;
} programs[MAX_PROGRAMS];
static size_t num_programs;

static void add_program(struct prog *prog)
{
	uint8_t *bytes = malloc(prog->nbytes);

	if (!bytes)
		abort();
	memcpy(bytes, prog->bytes, prog->nbytes);
	programs[num_programs].bytes = bytes;
	programs[num_programs++].size = prog->nbytes;
	prog_end(prog);
}

/* copy64 first, then one that takes its time, then one per opcode. */
void uapi_call_begin(void)
{
	struct qbnpu_cmd_nop *nop;
	uint16_t input, output;
	struct prog prog;

	if (num_programs)
		return;
	prog_copy64(&prog);
	add_program(&prog);
	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64));
	nop = prog_cmd(&prog, QBNPU_OP_NOP);
	nop->delay_ns = JOB_NS / 4;
	prog_copy(&prog, input, output);
	prog_finish(&prog);
	add_program(&prog);
	for (uint32_t i = 0; i < prog_num_opcodes; i++) {
		if (prog_good(&prog, prog_opcodes[i].opcode))
			add_program(&prog);
	}
}

/* ---- this driver's requests ---- */

static void fill_query(void *arg, const struct uapi_step *step,
		       const struct uapi_place *place)
{
	struct drm_qbnpu_query *query = arg;

	query->type = step->a % 7;
	query->index = step->b % 4;
	query->data = (uintptr_t)place->arena;
	query->size = step->c * 16u;
	query->flags = step->d & 1;
}

static void fill_bo_create(void *arg, const struct uapi_step *step)
{
	struct drm_qbnpu_bo_create *create = arg;

	create->size = 4096 + step->a * 64u;
	create->flags = step->b & 1;
	create->region = step->c & 1;
	create->align_log2 = step->d % 8 ? 0 : 6 + step->d / 8 % 16;
}

static void fill_bo_sync(void *arg, const struct uapi_step *step)
{
	struct drm_qbnpu_bo_sync *sync = arg;

	sync->handle = HANDLE(step->a);
	sync->flags = step->b & 1 ? DRM_QBNPU_SYNC_BEGIN : DRM_QBNPU_SYNC_END;
	sync->flags |= step->b & 2 ? DRM_QBNPU_SYNC_READ : DRM_QBNPU_SYNC_WRITE;
	sync->offset = step->c * 64u;
	sync->length = 64;
}

static void fill_program_create(void *arg, const struct uapi_step *step,
				const struct uapi_place *place)
{
	struct drm_qbnpu_program_create *create = arg;
	size_t which = step->a % num_programs;
	size_t size = programs[which].size;

	memcpy(place->arena, programs[which].bytes, size);
	if (step->d & 1)
		place->arena[step->value % size] ^= (uint8_t)(step->d | 1);
	create->data = (uintptr_t)place->arena;
	create->size = size;
	create->core_mask = step->b ? step->b : 1;
	create->weights = step->c % 16;
	create->weights_size = create->weights ? 4096 : 0;
}

static void fill_queue_create(void *arg, const struct uapi_step *step)
{
	struct drm_qbnpu_queue_create *create = arg;

	create->flags = step->a & DRM_QBNPU_QUEUE_STICKY;
	create->priority = -(step->b % 3);
}

uint64_t uapi_choose_memory(const struct uapi_step *step,
			    const struct uapi_place *place, size_t offset)
{
	return (uintptr_t)(step->value & 1 ? place->stack : place->arena) +
	       offset;
}

static uint64_t add_syncs(const struct uapi_step *step,
			  const struct uapi_place *place, uint32_t *count)
{
	uint64_t address = uapi_choose_memory(step, place, UAPI_STACK_SIZE / 3);
	struct drm_qbnpu_sync *syncs = (void *)(uintptr_t)address;

	*count = (uint32_t)(step->value >> 8) & 3;
	for (uint32_t i = 0; i < *count; i++) {
		uint8_t byte = (uint8_t)(step->value >> (16 + 8 * i));

		syncs[i] = (struct drm_qbnpu_sync){
			.handle = 1 + byte % 6,
			.flags = byte >> 7,
			.point = 1 + (byte / 6) % 4,
		};
	}
	return address;
}

static int64_t choose_deadline(const struct uapi_step *step)
{
	return step->value & 2 ? 0 : qbrt_now_ns() + JOB_NS;
}

static void add_wait(struct drm_qbnpu_submit *submit,
		     const struct uapi_step *step,
		     const struct uapi_place *place)
{
	uint64_t address =
		uapi_choose_memory(step, place, UAPI_STACK_SIZE / 3 * 2);
	struct drm_qbnpu_wait *wait = (void *)(uintptr_t)address;

	memset(wait, 0, sizeof(*wait));
	wait->flags = step->value >> 3 & DRM_QBNPU_WAIT_BLOCKING;
	wait->timeout_ns = qbrt_now_ns() + UAPI_WAIT_NS;
	submit->wait = address;
	submit->wait_size = sizeof(*wait);
}

static void fill_submit(void *arg, const struct uapi_step *step,
			const struct uapi_place *place)
{
	struct drm_qbnpu_submit *submit = arg;
	uint64_t address = uapi_choose_memory(step, place, 0);
	struct drm_qbnpu_binding *bindings = (void *)(uintptr_t)address;

	submit->queue = HANDLE(step->a);
	submit->program = HANDLE(step->b);
	submit->core_mask = submit->program ? 1 : 0;
	submit->bindings = address;
	submit->binding_size = sizeof(*bindings);
	submit->binding_count = submit->program ? 2 : 0;
	for (uint32_t i = 0; i < submit->binding_count; i++)
		bindings[i] = (struct drm_qbnpu_binding){
			/* the output of some follows weights */
			.index = i && step->d & 128 ? 2 : i,
			.handle = HANDLE(i ? step->d & 127 : step->c),
			.length = 4096,
			.access = i ? DRM_QBNPU_ACCESS_WRITE
				    : DRM_QBNPU_ACCESS_READ,
		};
	submit->in_syncs = add_syncs(step, place, &submit->in_count);
	submit->sync_size = sizeof(struct drm_qbnpu_sync);
	submit->item_count = 1;
	submit->deadline_ns = choose_deadline(step);
	if (step->value & 4)
		add_wait(submit, step, place);
}

static void fill_copy(void *arg, const struct uapi_step *step,
		      const struct uapi_place *place)
{
	struct drm_qbnpu_copy *copy = arg;

	copy->queue = HANDLE(step->a);
	copy->src = HANDLE(step->b);
	copy->dst = HANDLE(step->c);
	copy->rank = 2;
	copy->element_size = 4;
	copy->dims[0] = copy->dims[1] = 1 + step->d % 16;
	copy->src_strides[0] = copy->dst_strides[1] = 64;
	copy->src_strides[1] = copy->dst_strides[0] = 4;
	copy->in_syncs = add_syncs(step, place, &copy->in_count);
	copy->sync_size = sizeof(struct drm_qbnpu_sync);
	copy->deadline_ns = choose_deadline(step);
}

static void fill_wait(void *arg, const struct uapi_step *step)
{
	struct drm_qbnpu_wait *wait = arg;

	wait->queue = HANDLE(step->a);
	wait->job = step->b % 8;
	wait->flags = step->c & DRM_QBNPU_WAIT_BLOCKING;
	wait->timeout_ns = step->d & 1 ? qbrt_now_ns() + UAPI_WAIT_NS : 0;
}

static void fill_cancel(void *arg, const struct uapi_step *step)
{
	struct drm_qbnpu_cancel *cancel = arg;

	cancel->queue = HANDLE(step->a);
	cancel->job = step->b % 8;
}

/* ---- generic requests ---- */

static void fill_version(void *arg, const struct uapi_step *step,
			 const struct uapi_place *place)
{
	struct drm_version *version = arg;

	version->name_len = step->a;
	version->name = (char *)place->arena;
	version->date_len = step->b;
	version->date = (char *)place->arena + 256;
	version->desc_len = step->c;
	version->desc = (char *)place->arena + 512;
}

static void fill_prime(void *arg, const struct uapi_step *step,
		       const struct uapi_place *place)
{
	struct drm_prime_handle *prime = arg;

	prime->handle = HANDLE(step->a);
	prime->flags = step->b & 1 ? DRM_CLOEXEC : 0;
	prime->flags |= step->b & 2 ? DRM_RDWR : 0;
	prime->fd = step->c & 1 ? place->event_fd : place->fd;
}

/* Handles and points: shared by the requests on arrays of timelines. */
static uint32_t add_points(const struct uapi_step *step,
			   const struct uapi_place *place)
{
	uint32_t *handles = (void *)place->arena;
	uint64_t *points = (void *)(place->arena + 4096);
	uint32_t count = step->a % 8;

	for (uint32_t i = 0; i < count; i++) {
		uint8_t byte = (uint8_t)(step->value >> 8 * i);

		handles[i] = 1 + byte % 8;
		points[i] = byte / 8 % 8;
	}
	return count;
}

static void fill_timeline_wait(void *arg, const struct uapi_step *step,
			       const struct uapi_place *place)
{
	struct drm_syncobj_timeline_wait *wait = arg;

	wait->count_handles = add_points(step, place);
	wait->handles = (uintptr_t)place->arena;
	wait->points = (uintptr_t)place->arena + 4096;
	wait->timeout_nsec = step->b & 1 ? qbrt_now_ns() + UAPI_WAIT_NS : 0;
	wait->flags = step->c & 7;
}

static void fill_timeline_array(void *arg, const struct uapi_step *step,
				const struct uapi_place *place)
{
	struct drm_syncobj_timeline_array *array = arg;

	array->count_handles = add_points(step, place);
	array->handles = (uintptr_t)place->arena;
	array->points = (uintptr_t)place->arena + 4096;
	array->flags = step->c & 1;
}

static void fill_transfer(void *arg, const struct uapi_step *step)
{
	struct drm_syncobj_transfer *transfer = arg;

	transfer->src_handle = HANDLE(step->a);
	transfer->dst_handle = HANDLE(step->b);
	transfer->src_point = step->c % 8;
	transfer->dst_point = step->d % 16;
}

static void fill_eventfd(void *arg, const struct uapi_step *step,
			 const struct uapi_place *place)
{
	struct eventfd_arg *event = arg;

	event->handle = HANDLE(step->a);
	event->flags = step->b & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
	event->point = step->c % 8;
	event->fd = step->d & 1 ? place->fd : place->event_fd;
}

/* A handle, flags and a descriptor, or as much of that as there is. */
static void fill_handle(void *arg, const struct uapi_step *step,
			const struct uapi_place *place)
{
	struct drm_syncobj_handle *handle = arg;

	handle->handle = HANDLE(step->a);
	handle->flags = step->b & 1;
	handle->fd = place->fd;
}

static void fill_cap(void *arg, const struct uapi_step *step)
{
	struct drm_get_cap *cap = arg;

	cap->capability = step->a % 32;
}

/* ---- the table ---- */

typedef void fill_function(void *arg, const struct uapi_step *step);
typedef void fill_pointing(void *arg, const struct uapi_step *step,
			   const struct uapi_place *place);

#define OWN(REQUEST, name) \
	.kind.request = DRM_IOCTL_QBNPU_##REQUEST, .fill = fill_##name
#define OWN_POINTING(REQUEST, name) \
	.kind.request = DRM_IOCTL_QBNPU_##REQUEST, .fill_pointing = fill_##name
#define GENERIC(REQUEST, name) \
	.kind.request = DRM_IOCTL_##REQUEST, .fill_pointing = fill_##name
#define CHANGED(type, from, to) \
	.changed_from = offsetof(struct drm_qbnpu_##type, from), \
	.changed_to = offsetof(struct drm_qbnpu_##type, to)
#define POINTERS(...) \
	.kind.pointers = { __VA_ARGS__ }, \
	.kind.num_pointers = sizeof((uint8_t[]){ __VA_ARGS__ })

static const struct kind {
	struct uapi_kind kind;
	fill_function *fill;
	fill_pointing *fill_pointing;
	size_t changed_from, changed_to;
} kinds[] = {
	{ OWN_POINTING(QUERY, query), POINTERS(8) },
	{ OWN(BO_CREATE, bo_create),
	  .changed_from = offsetof(struct drm_qbnpu_bo_create, limit),
	  .changed_to = sizeof(struct drm_qbnpu_bo_create) },
	{ OWN_POINTING(BO_INFO, handle) },
	{ OWN(BO_SYNC, bo_sync) },
	{ OWN_POINTING(PROGRAM_CREATE, program_create), POINTERS(0),
	  .changed_from = offsetof(struct drm_qbnpu_program_create, rule),
	  .changed_to = sizeof(struct drm_qbnpu_program_create) },
	{ OWN_POINTING(PROGRAM_DESTROY, handle) },
	{ OWN(QUEUE_CREATE, queue_create) },
	{ OWN_POINTING(QUEUE_DESTROY, handle) },
	{ OWN_POINTING(SUBMIT, submit), POINTERS(24, 40, 48),
	  .changed_from = offsetof(struct drm_qbnpu_submit, fail_what),
	  .changed_to = sizeof(struct drm_qbnpu_submit) },
	{ OWN_POINTING(COPY, copy), POINTERS(40),
	  CHANGED(copy, fail_what, dims) },
	{ OWN(WAIT, wait), .kind.timeout = 16, CHANGED(wait, state, status) },
	{ OWN(CANCEL, cancel) },
	{ GENERIC(VERSION, version), POINTERS(24, 40, 56) },
	{ GENERIC(GEM_CLOSE, handle) },
	{ .kind.request = DRM_IOCTL_GET_CAP, .fill = fill_cap },
	{ GENERIC(PRIME_HANDLE_TO_FD, prime) },
	{ GENERIC(PRIME_FD_TO_HANDLE, prime) },
	{ GENERIC(SYNCOBJ_CREATE, handle) },
	{ GENERIC(SYNCOBJ_DESTROY, handle) },
	{ GENERIC(SYNCOBJ_HANDLE_TO_FD, handle) },
	{ GENERIC(SYNCOBJ_FD_TO_HANDLE, handle) },
	{ GENERIC(SYNCOBJ_TIMELINE_WAIT, timeline_wait), POINTERS(0, 8),
	  .kind.timeout = 16 },
	{ GENERIC(SYNCOBJ_QUERY, timeline_array), POINTERS(0, 8) },
	{ .kind.request = DRM_IOCTL_SYNCOBJ_TRANSFER, .fill = fill_transfer },
	{ GENERIC(SYNCOBJ_TIMELINE_SIGNAL, timeline_array), POINTERS(0, 8) },
	{ .kind.request = IOCTL_EVENTFD, .fill_pointing = fill_eventfd },
	/* any other number, of any size */
	{ .kind.request = 0 },
};

const uint8_t uapi_num_kinds = qbrt_array_size(kinds);

/* Of K001's: all numbers, directions, sizes; nothing in it that points. */
static void fill_raw(struct uapi_call *call, const struct uapi_step *step)
{
	call->request =
		_IOC(step->a & 3u, step->b & 1 ? DRM_IOCTL_BASE : step->b,
		     step->c, step->value % sizeof(call->bytes));
	call->bytes[step->mutate_at % 64] = step->d;
}

void uapi_call_fill(struct uapi_call *call, const struct uapi_step *step,
		    const struct uapi_place *place)
{
	const struct kind *kind = &kinds[step->kind & UAPI_KIND_MASK];

	memset(call, 0, sizeof(*call));
	call->request = kind->kind.request;
	call->changed_from = kind->changed_from;
	call->changed_to = kind->changed_to;
	if (kind->fill)
		kind->fill(call->bytes, step);
	else if (kind->fill_pointing)
		kind->fill_pointing(call->bytes, step, place);
	else
		fill_raw(call, step);
	if (step->mutate_how && kind->kind.request)
		uapi_mutate(call, step, place);
	uapi_tame(call, &kind->kind, place);
}
