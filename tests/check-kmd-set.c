// SPDX-License-Identifier: MIT
/*
 * What the tests of the contract are made of: open files, buffers, programs,
 * queues and jobs of the driver under test, over the seam alone.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "prog.h"
#include "util.h"

const struct qbrt_kmd *kmd_drivers[KMD_MAX_DRIVERS] = { &qbrt_kmd_soft };
int kmd_num_drivers = 1;
const struct qbrt_kmd *kmd;
struct qbrt_kmd_options kmd_options;
struct qbrt_kmd_node kmd_node;
struct drm_qbnpu_query_device kmd_device;
int kmd_file;

#define SECOND_NS UINT64_C(1000000000)

void kmd_fill_options(void)
{
	memset(&kmd_options, 0, sizeof(kmd_options));
	strcpy(kmd_options.soft_names[0], "aries-rb");
	strcpy(kmd_options.soft_names[1], "regulus-ra");
	kmd_options.num_soft_names = 2;
	kmd_options.soft_backend = QBRT_KMD_BACKEND_REF;
}

bool kmd_has_node(const struct qbrt_kmd *driver)
{
	size_t num_nodes;

	kmd_fill_options();
	return !driver->list(&kmd_options, NULL, 0, &num_nodes) && num_nodes;
}

void kmd_begin(int driver)
{
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_DEVICE,
		.data = (uintptr_t)&kmd_device,
		.size = sizeof(kmd_device),
	};
	size_t num_nodes;

	kmd = kmd_drivers[driver];
	kmd_fill_options();
	ck_assert_int_eq(kmd->list(&kmd_options, &kmd_node, 1, &num_nodes), 0);
	ck_assert_uint_ge(num_nodes, 1);
	ck_assert_int_eq(kmd->open(&kmd_options, kmd_node.path, &kmd_file), 0);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
}

int kmd_open_another(void)
{
	int file;

	ck_assert_int_eq(kmd->open(&kmd_options, kmd_node.path, &file), 0);
	return file;
}

void kmd_end(void)
{
	kmd->close(kmd_file);
}

int kmd_call(unsigned long request, void *arg)
{
	return kmd->ioctl(kmd_file, request, arg);
}

void kmd_refuse_but(unsigned long request, void *arg, int err, size_t from,
		    size_t to)
{
	size_t size = _IOC_SIZE(request);
	uint8_t before[512];
	int ret;

	ck_assert_uint_le(size, sizeof(before));
	memcpy(before, arg, size);
	ret = kmd_call(request, arg);
	ck_assert_msg(ret == -err, "request %lx: expected -%s, got %d", request,
		      strerrorname_np(err), ret);
	for (size_t i = 0; i < size; i++) {
		if (i >= from && i < to)
			continue;
		ck_assert_msg(before[i] == ((uint8_t *)arg)[i],
			      "request %lx failed and changed byte %zu",
			      request, i);
	}
}

void kmd_refuse(unsigned long request, void *arg, int err)
{
	kmd_refuse_but(request, arg, err, 0, 0);
}

/* ---- buffers ---- */

uint32_t kmd_create_buffer(uint64_t size)
{
	struct drm_qbnpu_bo_create create = {
		.size = size,
		.region = DRM_QBNPU_REGION_SYSTEM,
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	ck_assert_uint_ne(create.handle, 0);
	return create.handle;
}

struct drm_qbnpu_bo_info kmd_get_info(uint32_t handle)
{
	struct drm_qbnpu_bo_info info = { .handle = handle };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_INFO, &info), 0);
	return info;
}

void kmd_close_buffer(uint32_t handle)
{
	struct drm_gem_close gem_close = { .handle = handle };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
}

void kmd_alloc(struct kmd_buffer *buffer, uint64_t size)
{
	struct drm_qbnpu_bo_info info;
	void *data;

	buffer->handle = kmd_create_buffer(size);
	info = kmd_get_info(buffer->handle);
	buffer->size = info.size;
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size,
				   PROT_READ | PROT_WRITE, &data),
			 0);
	buffer->data = data;
}

void kmd_free(struct kmd_buffer *buffer)
{
	ck_assert_int_eq(kmd->munmap(kmd_file, buffer->data, buffer->size), 0);
	kmd_close_buffer(buffer->handle);
}

/* ---- programs, queues ---- */

int kmd_export_fd(uint32_t handle, uint32_t flags)
{
	struct drm_prime_handle prime = { .handle = handle, .flags = flags };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
	ck_assert_int_ge(prime.fd, 0);
	return prime.fd;
}

uint32_t kmd_import_fd(int file, int fd)
{
	struct drm_prime_handle prime = { .fd = fd };

	ck_assert_int_eq(kmd->ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime),
			 0);
	ck_assert_uint_ne(prime.handle, 0);
	return prime.handle;
}

uint8_t *kmd_map(int file, uint32_t handle, int prot)
{
	struct drm_qbnpu_bo_info info = { .handle = handle };
	void *data;

	ck_assert_int_eq(kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_INFO, &info), 0);
	ck_assert_int_eq(
		kmd->mmap(file, info.map_offset, info.size, prot, &data), 0);
	return data;
}

struct drm_qbnpu_program_create kmd_make_create(const struct prog *prog)
{
	return (struct drm_qbnpu_program_create){
		.data = (uintptr_t)prog->bytes,
		.size = prog->nbytes,
		.core_mask = 1,
		.handle = 0xbad,
		.device_size = 0xbad,
		.rule = 0xbad,
		.command = 0xbad,
		.operand = 0xbad,
		.limit = 0xbad,
	};
}

uint32_t kmd_load(const void *bytes, size_t size)
{
	struct drm_qbnpu_program_create create = {
		.data = (uintptr_t)bytes,
		.size = size,
		.core_mask = 1,
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create), 0);
	ck_assert_uint_ne(create.handle, 0);
	return create.handle;
}

uint32_t kmd_load_copy64(void)
{
	struct prog prog;
	uint32_t program;

	prog_copy64(&prog);
	program = kmd_load(prog.bytes, prog.nbytes);
	prog_end(&prog);
	return program;
}

uint32_t kmd_load_slow(unsigned int num_seconds)
{
	struct prog prog;
	struct qbnpu_cmd_nop *nop;
	uint16_t input, output;
	uint32_t program;

	prog_begin(&prog);
	input = prog_input(&prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	output = prog_output(&prog, QBNPU_DTYPE_U8, DIMS(KMD_BYTES));
	while (num_seconds--) {
		nop = prog_cmd(&prog, QBNPU_OP_NOP);
		nop->delay_ns = SECOND_NS;
	}
	prog_copy(&prog, input, output);
	prog_finish(&prog);
	program = kmd_load(prog.bytes, prog.nbytes);
	prog_end(&prog);
	return program;
}

void kmd_unload(uint32_t program)
{
	struct drm_qbnpu_program_destroy destroy = { .handle = program };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_PROGRAM_DESTROY, &destroy),
			 0);
}

uint32_t kmd_create_queue(uint32_t flags, uint32_t *syncobj)
{
	struct drm_qbnpu_queue_create create = { .flags = flags };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create), 0);
	ck_assert_uint_ne(create.queue, 0);
	ck_assert_uint_ne(create.syncobj, 0);
	if (syncobj)
		*syncobj = create.syncobj;
	return create.queue;
}

void kmd_destroy_queue(uint32_t queue)
{
	struct drm_qbnpu_queue_destroy destroy = { .queue = queue };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUEUE_DESTROY, &destroy), 0);
}

/* ---- jobs ---- */

void kmd_prepare_empty(struct kmd_job *job, uint32_t queue)
{
	memset(job, 0, sizeof(*job));
	job->submit.queue = queue;
	job->submit.item_count = 1;
	job->submit.bindings = (uintptr_t)job->bindings;
	job->submit.binding_size = sizeof(job->bindings[0]);
	job->submit.in_syncs = (uintptr_t)job->syncs;
	job->submit.sync_size = sizeof(job->syncs[0]);
	job->submit.job = 0xbad;
}

void kmd_prepare(struct kmd_job *job, uint32_t queue, uint32_t program,
		 const struct kmd_buffer *input,
		 const struct kmd_buffer *output)
{
	kmd_prepare_empty(job, queue);
	job->submit.program = program;
	job->submit.core_mask = 1;
	job->submit.binding_count = 2;
	job->bindings[0] = (struct drm_qbnpu_binding){
		.index = 0,
		.handle = input->handle,
		.length = KMD_BYTES,
		.access = DRM_QBNPU_ACCESS_READ,
	};
	job->bindings[1] = (struct drm_qbnpu_binding){
		.index = 1,
		.handle = output->handle,
		.length = KMD_BYTES,
		.access = DRM_QBNPU_ACCESS_WRITE,
	};
}

void kmd_add_sync(struct kmd_job *job, uint32_t syncobj, uint64_t point,
		  uint32_t flags)
{
	job->syncs[job->submit.in_count++] = (struct drm_qbnpu_sync){
		.handle = syncobj,
		.flags = flags,
		.point = point,
	};
}

void kmd_set_wait(struct kmd_job *job)
{
	job->submit.wait = (uintptr_t)&job->wait;
	job->submit.wait_size = sizeof(job->wait);
	job->wait.timeout_ns = KMD_FOREVER;
	job->wait.state = 0xbad;
}

uint64_t kmd_submit(struct kmd_job *job)
{
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_SUBMIT, &job->submit), 0);
	return job->submit.job;
}

struct drm_qbnpu_wait kmd_wait(uint32_t queue, uint64_t job)
{
	struct drm_qbnpu_wait wait = {
		.queue = queue,
		.job = job,
		.timeout_ns = KMD_FOREVER,
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_WAIT, &wait), 0);
	ck_assert_uint_eq(wait.state, DRM_QBNPU_JOB_COMPLETE);
	return wait;
}

void kmd_cancel(uint32_t queue, uint64_t job)
{
	struct drm_qbnpu_cancel cancel = { .queue = queue, .job = job };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_CANCEL, &cancel), 0);
}

uint32_t kmd_get_state(uint32_t queue, uint64_t job)
{
	struct drm_qbnpu_wait wait = { .queue = queue, .job = job };
	int err = kmd_call(DRM_IOCTL_QBNPU_WAIT, &wait);

	ck_assert_int_eq(err,
			 wait.state == DRM_QBNPU_JOB_COMPLETE ? 0 : -ETIME);
	return wait.state;
}

void kmd_begin_set(int driver, struct kmd_set *set)
{
	kmd_begin(driver);
	kmd_alloc(&set->input, 4096);
	kmd_alloc(&set->output, 4096);
	set->copy64 = kmd_load_copy64();
	set->queue = kmd_create_queue(0, &set->syncobj);
	for (int i = 0; i < KMD_BYTES; i++)
		set->input.data[i] = (uint8_t)(i + 1);
}

void kmd_end_set(struct kmd_set *set)
{
	struct drm_syncobj_destroy destroy = { .handle = set->syncobj };

	kmd_destroy_queue(set->queue);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
	kmd_unload(set->copy64);
	kmd_free(&set->input);
	kmd_free(&set->output);
	kmd_end();
}
