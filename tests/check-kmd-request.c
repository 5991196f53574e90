// SPDX-License-Identifier: MIT
/*
 * Rules for every request (docs/spec/kernel.md, 1 and 3): numbers, directions,
 * sizes, fields that must be zero, the child of a fork.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define NUM_DIRECTIONS 4
#define MAX_REQUEST_SIZE 256

static const unsigned long own[] = {
	DRM_IOCTL_QBNPU_QUERY,          DRM_IOCTL_QBNPU_BO_CREATE,
	DRM_IOCTL_QBNPU_BO_INFO,        DRM_IOCTL_QBNPU_BO_SYNC,
	DRM_IOCTL_QBNPU_PROGRAM_CREATE, DRM_IOCTL_QBNPU_PROGRAM_DESTROY,
	DRM_IOCTL_QBNPU_QUEUE_CREATE,   DRM_IOCTL_QBNPU_QUEUE_DESTROY,
	DRM_IOCTL_QBNPU_SUBMIT,         DRM_IOCTL_QBNPU_COPY,
	DRM_IOCTL_QBNPU_WAIT,           DRM_IOCTL_QBNPU_CANCEL,
};

/* Those of section 3; the struct of cf is not in every libdrm. */
static const unsigned long generic[] = {
	DRM_IOCTL_VERSION,
	DRM_IOCTL_GEM_CLOSE,
	DRM_IOCTL_GET_CAP,
	DRM_IOCTL_PRIME_HANDLE_TO_FD,
	DRM_IOCTL_PRIME_FD_TO_HANDLE,
	DRM_IOCTL_SYNCOBJ_CREATE,
	DRM_IOCTL_SYNCOBJ_DESTROY,
	DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
	DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE,
	DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
	DRM_IOCTL_SYNCOBJ_QUERY,
	DRM_IOCTL_SYNCOBJ_TRANSFER,
	DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
	_IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, 0xcf, 24),
};

static unsigned long find_request(unsigned int nr)
{
	for (size_t i = 0; i < qbrt_array_size(own); i++) {
		if (_IOC_NR(own[i]) == nr)
			return own[i];
	}
	for (size_t i = 0; i < qbrt_array_size(generic); i++) {
		if (_IOC_NR(generic[i]) == nr)
			return generic[i];
	}
	return 0;
}

/* What K001 says of a request that is not one, 0: it is one. */
static int expect_refusal(unsigned int nr, unsigned int direction)
{
	unsigned long request = find_request(nr);

	if (request && _IOC_DIR(request) == direction)
		return 0;
	if (request)
		return EINVAL;
	return nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END ? EINVAL : EACCES;
}

/* K001 K153 */
START_TEST(unknown_numbers_and_directions_are_refused)
{
	uint8_t arg[MAX_REQUEST_SIZE];
	unsigned int num_refused = 0;

	kmd_begin(_i);
	for (unsigned int nr = 0; nr < 256; nr++) {
		for (unsigned int dir = 0; dir < NUM_DIRECTIONS; dir++) {
			int err = expect_refusal(nr, dir);
			unsigned long request = find_request(nr);
			size_t size = request ? _IOC_SIZE(request) : 64;

			if (!err)
				continue;
			memset(arg, 0xff, sizeof(arg));
			kmd_refuse(_IOC(dir, DRM_IOCTL_BASE, nr, size), arg,
				   err);
			num_refused++;
		}
	}
	ck_assert_uint_eq(num_refused, 256 * NUM_DIRECTIONS -
					       qbrt_array_size(own) -
					       qbrt_array_size(generic));
	kmd_end();
}
END_TEST

/* K001 */
START_TEST(another_type_is_no_request)
{
	struct drm_qbnpu_query query = { 0 };

	kmd_begin(_i);
	kmd_refuse(_IOWR('e', DRM_COMMAND_BASE, struct drm_qbnpu_query), &query,
		   ENOTTY);
	kmd_refuse(_IOWR('D', DRM_COMMAND_BASE, struct drm_qbnpu_query), &query,
		   ENOTTY);
	kmd_end();
}
END_TEST

static unsigned long resize(unsigned long request, int change)
{
	return _IOC(_IOC_DIR(request), _IOC_TYPE(request), _IOC_NR(request),
		    (size_t)((int)_IOC_SIZE(request) + change));
}

/* K004 */
START_TEST(shorter_structs_are_refused)
{
	uint8_t arg[MAX_REQUEST_SIZE] = { 0 };

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(own); i++)
		kmd_refuse(resize(own[i], -8), arg, EINVAL);
	kmd_end();
}
END_TEST

/* K004 */
START_TEST(longer_structs_are_refused_unless_the_tail_is_zero)
{
	struct {
		struct drm_qbnpu_query query;
		uint8_t tail[8];
	} arg = { 0 };
	struct drm_qbnpu_query_device device;
	uint8_t bytes[MAX_REQUEST_SIZE + 8];

	kmd_begin(_i);
	for (size_t i = 0; i < qbrt_array_size(own); i++) {
		for (unsigned int at = 0; at < 8; at++) {
			memset(bytes, 0, sizeof(bytes));
			bytes[_IOC_SIZE(own[i]) + at] = 1;
			kmd_refuse(resize(own[i], 8), bytes, EINVAL);
		}
	}
	arg.query.data = (uintptr_t)&device;
	arg.query.size = sizeof(device);
	ck_assert_int_eq(kmd_call(resize(DRM_IOCTL_QBNPU_QUERY, 8), &arg), 0);
	ck_assert_uint_eq(device.uapi_major, 1);
	for (unsigned int at = 0; at < 8; at++)
		ck_assert_uint_eq(arg.tail[at], 0);
	kmd_end();
}
END_TEST

/* A field that has to be 0, in a request that is right otherwise. */
struct zero_field {
	unsigned long request;
	size_t offset;
	unsigned int first_bit, num_bits;
};

#define ZERO(REQUEST, type, field, first, num) \
	{ \
		DRM_IOCTL_QBNPU_##REQUEST, \
			offsetof(struct drm_qbnpu_##type, field), first, num \
	}

static const struct zero_field zero_fields[] = {
	ZERO(QUERY, query, flags, 0, 32),
	ZERO(BO_CREATE, bo_create, flags, 1, 31),
	ZERO(BO_CREATE, bo_create, region, 1, 31),
	ZERO(BO_CREATE, bo_create, reserved, 0, 32),
	ZERO(BO_INFO, bo_info, reserved, 0, 32),
	ZERO(BO_SYNC, bo_sync, flags, 4, 28),
	ZERO(BO_SYNC, bo_sync, reserved, 0, 64),
	ZERO(PROGRAM_CREATE, program_create, flags, 0, 32),
	ZERO(PROGRAM_CREATE, program_create, reserved, 0, 32),
	ZERO(PROGRAM_DESTROY, program_destroy, flags, 0, 32),
	ZERO(QUEUE_CREATE, queue_create, flags, 1, 31),
	ZERO(QUEUE_CREATE, queue_create, reserved, 0, 32),
	ZERO(QUEUE_DESTROY, queue_destroy, flags, 0, 32),
	ZERO(SUBMIT, submit, flags, 0, 32),
	ZERO(COPY, copy, flags, 0, 32),
	ZERO(WAIT, wait, flags, 1, 31),
	ZERO(CANCEL, cancel, flags, 0, 32),
};

/* Right arguments for every request; what they name exists. */
union any_arg {
	struct drm_qbnpu_query query;
	struct drm_qbnpu_bo_create bo_create;
	struct drm_qbnpu_bo_info bo_info;
	struct drm_qbnpu_bo_sync bo_sync;
	struct drm_qbnpu_program_create program_create;
	struct drm_qbnpu_program_destroy program_destroy;
	struct drm_qbnpu_queue_create queue_create;
	struct drm_qbnpu_queue_destroy queue_destroy;
	struct drm_qbnpu_submit submit;
	struct drm_qbnpu_copy copy;
	struct drm_qbnpu_wait wait;
	struct drm_qbnpu_cancel cancel;
	uint8_t bytes[MAX_REQUEST_SIZE];
};

static void fill_right(union any_arg *arg, unsigned long request,
		       const struct kmd_set *set)
{
	static const uint64_t no_program[16] __attribute__((aligned(16)));

	memset(arg, 0, sizeof(*arg));
	switch (request) {
	case DRM_IOCTL_QBNPU_BO_CREATE:
		arg->bo_create.size = 4096;
		break;
	case DRM_IOCTL_QBNPU_BO_INFO:
		arg->bo_info.handle = set->input.handle;
		break;
	case DRM_IOCTL_QBNPU_BO_SYNC:
		arg->bo_sync.handle = set->input.handle;
		arg->bo_sync.flags = DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_READ;
		arg->bo_sync.length = 64;
		break;
	case DRM_IOCTL_QBNPU_PROGRAM_CREATE:
		/* refused by the validator: K060's errors come before */
		arg->program_create.data = (uintptr_t)no_program;
		arg->program_create.size = sizeof(no_program);
		arg->program_create.core_mask = 1;
		break;
	case DRM_IOCTL_QBNPU_PROGRAM_DESTROY:
		arg->program_destroy.handle = set->copy64;
		break;
	case DRM_IOCTL_QBNPU_QUEUE_DESTROY:
		arg->queue_destroy.queue = set->queue;
		break;
	case DRM_IOCTL_QBNPU_SUBMIT:
		arg->submit.queue = set->queue;
		arg->submit.binding_size = 40;
		arg->submit.item_count = 1;
		break;
	case DRM_IOCTL_QBNPU_COPY:
		arg->copy.queue = set->queue;
		arg->copy.src = set->input.handle;
		arg->copy.dst = set->output.handle;
		arg->copy.rank = 1;
		arg->copy.element_size = 1;
		arg->copy.dims[0] = 1;
		arg->copy.src_strides[0] = 1;
		arg->copy.dst_strides[0] = 1;
		break;
	case DRM_IOCTL_QBNPU_WAIT:
		arg->wait.queue = set->queue;
		arg->wait.job = 1;
		break;
	case DRM_IOCTL_QBNPU_CANCEL:
		arg->cancel.queue = set->queue;
		break;
	default:
		break;
	}
}

/* K002 K003 */
START_TEST(every_bit_that_must_be_zero_is_checked)
{
	struct kmd_set set;
	struct kmd_job job;
	union any_arg arg;

	kmd_begin_set(_i, &set);
	kmd_prepare_empty(&job, set.queue);
	kmd_wait(set.queue, kmd_submit(&job));
	for (size_t i = 0; i < qbrt_array_size(zero_fields); i++) {
		const struct zero_field *field = &zero_fields[i];

		for (unsigned int b = 0; b < field->num_bits; b++) {
			unsigned int bit = field->first_bit + b;

			fill_right(&arg, field->request, &set);
			arg.bytes[field->offset + bit / 8] |=
				(uint8_t)(1u << bit % 8);
			kmd_refuse(field->request, &arg, EINVAL);
		}
	}
	kmd_end_set(&set);
}
END_TEST

/* K003 */
START_TEST(unknown_enum_values_are_refused)
{
	struct drm_qbnpu_query query = { 0 };
	struct drm_qbnpu_bo_create create = { .size = 1, .region = 2 };

	kmd_begin(_i);
	for (unsigned int bit = 3; bit < 32; bit++) {
		query.type = 1u << bit;
		kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &query, EINVAL);
	}
	query.type = DRM_QBNPU_QUERY_EVENTS + 1;
	kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &query, EINVAL);
	kmd_refuse(DRM_IOCTL_QBNPU_BO_CREATE, &create, EINVAL);
	kmd_end();
}
END_TEST

/* In the child: 0 if every op answers -ENODEV and the memory is shared. */
static int try_everything(const struct kmd_set *set)
{
	union any_arg arg;
	void *address;

	for (size_t i = 0; i < qbrt_array_size(own); i++) {
		fill_right(&arg, own[i], set);
		if (kmd_call(own[i], &arg) != -ENODEV)
			return 1;
	}
	if (kmd->mmap(kmd_file, 0, 4096, PROT_READ, &address) != -ENODEV)
		return 2;
	if (kmd->poll(kmd_file, 0) != -ENODEV)
		return 3;
	if (set->input.data[1] != 2)
		return 4;
	set->output.data[0] = 77;
	/* closing what it does not have does nothing to the parent */
	kmd->close(kmd_file);
	return 0;
}

/* In the child: what it inherited is taken, and soft leaves it in place. */
static bool gives_back(const struct kmd_buffer *buffer)
{
	return !kmd->munmap(kmd_file, buffer->data, buffer->size);
}

/* In the child: a device of its own works, and the parent's stays closed. */
static int open_own(const struct kmd_set *set)
{
	int inherited = kmd_file;
	struct drm_qbnpu_queue_create create = { 0 };
	int file;

	if (kmd->open(&kmd_options, kmd_node.path, &file))
		return 5;
	if (kmd->ioctl(file, DRM_IOCTL_QBNPU_QUEUE_CREATE, &create))
		return 6;
	if (kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create) != -ENODEV ||
	    file == inherited)
		return 7;
	/* soft knows what it mapped, the kernel asks no file */
	if (kmd == &qbrt_kmd_soft &&
	    kmd->munmap(file, set->output.data, set->output.size) != -EINVAL)
		return 9;
	if (!gives_back(&set->output))
		return 10;
	kmd->close(file);
	return 0;
}

/* K016 DV14 K312 */
START_TEST(a_forked_child_has_no_device)
{
	struct kmd_set set;
	struct kmd_job job;
	int status;
	pid_t child;

	kmd_begin_set(_i, &set);
	child = fork();
	if (!child) {
		int err = try_everything(&set);

		if (!err && !gives_back(&set.input))
			err = 8;
		_exit(err ? err : open_own(&set));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(set.output.data[0], 77);
	kmd_prepare(&job, set.queue, set.copy64, &set.input, &set.output);
	kmd_wait(set.queue, kmd_submit(&job));
	ck_assert_uint_eq(set.output.data[0], 1);
	kmd_end_set(&set);
}
END_TEST

/* K613 */
START_TEST(version_names_are_never_empty)
{
	char name[32] = { 0 }, date[32] = { 0 }, desc[64] = { 0 };
	struct drm_version version = { 0 };

	kmd_begin(_i);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_VERSION, &version), 0);
	ck_assert_uint_gt(version.date_len, 0);
	ck_assert_uint_gt(version.desc_len, 0);
	ck_assert_uint_eq(version.name_len, strlen("qbnpu"));
	ck_assert_int_eq(version.version_major, 1);
	version.name = name;
	version.date = date;
	version.desc = desc;
	version.name_len = 3;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_VERSION, &version), 0);
	ck_assert_str_eq(name, "qbn");
	ck_assert_uint_eq(version.name_len, strlen("qbnpu"));
	ck_assert_uint_eq(strlen(date), version.date_len);
	ck_assert_uint_eq(strlen(desc), version.desc_len);
	kmd_end();
}
END_TEST

/* Requests whose feature bit is off: generic ones of section 3. */
START_TEST(absent_features_are_refused_as_told)
{
	const uint64_t absent =
		DRM_QBNPU_FEATURE_SYNCOBJ_FD | DRM_QBNPU_FEATURE_SYNC_FILE;
	struct drm_get_cap cap = { .capability = DRM_CAP_DUMB_BUFFER };
	struct drm_syncobj_handle handle = { 0 };
	struct drm_syncobj_destroy destroy = { .handle = 9999 };

	kmd_begin(_i);
	kmd_refuse(DRM_IOCTL_GET_CAP, &cap, EOPNOTSUPP);
	cap.capability = DRM_CAP_TIMESTAMP_MONOTONIC;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_GET_CAP, &cap), 0);
	ck_assert_uint_eq(cap.value, 1);
	if (!(kmd_device.features & absent)) {
		kmd_refuse(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &handle, EOPNOTSUPP);
		kmd_refuse(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &handle, EOPNOTSUPP);
	}
	kmd_refuse(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy, EINVAL);
	kmd_end();
}
END_TEST

void kmd_request_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(unknown_numbers_and_directions_are_refused),
		QBRT_TEST(another_type_is_no_request),
		QBRT_TEST(shorter_structs_are_refused),
		QBRT_TEST(longer_structs_are_refused_unless_the_tail_is_zero),
		QBRT_TEST(every_bit_that_must_be_zero_is_checked),
		QBRT_TEST(unknown_enum_values_are_refused),
		QBRT_TEST(a_forked_child_has_no_device),
		QBRT_TEST(version_names_are_never_empty),
		QBRT_TEST(absent_features_are_refused_as_told),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
