// SPDX-License-Identifier: MIT
/*
 * What the tests of timelines are made of: one function per SYNCOBJ request,
 * and the gate.
 */
#include "check-kmd-syncobj.h"

#include <drm.h>
#include <errno.h>
#include <sys/eventfd.h>

uint32_t kmd_create_syncobj(void)
{
	struct drm_syncobj_create create = { 0 };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
	ck_assert_uint_ne(create.handle, 0);
	return create.handle;
}

void kmd_destroy_syncobj(uint32_t handle)
{
	struct drm_syncobj_destroy destroy = { .handle = handle };

	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
}

int kmd_try_signal(uint32_t handle, uint64_t point)
{
	struct drm_syncobj_timeline_array array = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};

	return kmd_call(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array);
}

void kmd_signal(uint32_t handle, uint64_t point)
{
	ck_assert_int_eq(kmd_try_signal(handle, point), 0);
}

uint64_t kmd_query_point(uint32_t handle, uint32_t flags)
{
	uint64_t point = 0xbad;
	struct drm_syncobj_timeline_array array = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
		.flags = flags,
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_SYNCOBJ_QUERY, &array), 0);
	return point;
}

int kmd_transfer(uint32_t src, uint64_t src_point, uint32_t dst,
		 uint64_t dst_point, uint32_t flags)
{
	struct drm_syncobj_transfer transfer = {
		.src_handle = src,
		.dst_handle = dst,
		.src_point = src_point,
		.dst_point = dst_point,
		.flags = flags,
	};

	return kmd_call(DRM_IOCTL_SYNCOBJ_TRANSFER, &transfer);
}

int kmd_wait_points(const uint32_t *handles, const uint64_t *points,
		    uint32_t num, uint32_t flags, int64_t timeout_ns,
		    uint32_t *first)
{
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)handles,
		.points = (uintptr_t)points,
		.timeout_nsec = timeout_ns,
		.count_handles = num,
		.flags = flags,
		.first_signaled = 0xbad,
	};
	int err = kmd_call(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait);

	if (err)
		ck_assert_uint_eq(wait.first_signaled, 0xbad);
	*first = wait.first_signaled;
	return err;
}

int kmd_wait_point(uint32_t handle, uint64_t point, uint32_t flags,
		   int64_t timeout_ns)
{
	uint32_t first;
	int err =
		kmd_wait_points(&handle, &point, 1, flags, timeout_ns, &first);

	if (!err)
		ck_assert_uint_eq(first, 0);
	return err;
}

int kmd_register_eventfd(uint32_t handle, uint64_t point, uint32_t flags,
			 int fd)
{
	struct drm_syncobj_eventfd eventfd = {
		.handle = handle,
		.flags = flags,
		.point = point,
		.fd = fd,
	};

	return kmd_call(DRM_IOCTL_SYNCOBJ_EVENTFD, &eventfd);
}

int kmd_make_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	ck_assert_int_ge(fd, 0);
	return fd;
}

bool kmd_has_eventfd(void)
{
	return kmd_device.features & DRM_QBNPU_FEATURE_SYNCOBJ_EVENTFD;
}

void kmd_close_gate(struct kmd_gate *gate, int driver)
{
	struct kmd_job job;

	kmd_begin_set(driver, &gate->set);
	gate->slow = kmd_load_slow(60);
	kmd_prepare(&job, gate->set.queue, gate->slow, &gate->set.input,
		    &gate->set.output);
	gate->job = kmd_submit(&job);
}

void kmd_open_gate(struct kmd_gate *gate)
{
	kmd_cancel(gate->set.queue, gate->job);
	ck_assert_int_eq(kmd_wait(gate->set.queue, gate->job).status,
			 -ECANCELED);
}

void kmd_end_gate(struct kmd_gate *gate)
{
	kmd_unload(gate->slow);
	kmd_end_set(&gate->set);
}
