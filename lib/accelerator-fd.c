// SPDX-License-Identifier: MIT
/*
 * Buffers of an open device that have a descriptor. A driver gives one handle
 * for one buffer of a file, however often it is imported, and one GEM_CLOSE
 * ends it; so handles of such buffers are counted here. Imports and the last
 * close of a handle keep each other out: their lock is held over the requests.
 * Each view has a mapping of its own.
 */
#include "accelerator-pool.h"

#include <assert.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "counters.h"
#include "fd.h"
#include "status.h"
#include "util.h"

struct qbrt_shared_handle {
	struct qbrt_shared_handle *next;
	uint32_t handle;
	unsigned int num_views;
};

/* share_lock. The link of the record, or of the list's end. */
static struct qbrt_shared_handle **find_shared(struct qbrt_device_pools *pools,
					       uint32_t handle)
{
	struct qbrt_shared_handle **link = &pools->shared;

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

/* share_lock. Takes record if there is none for this handle yet. */
static void add_view(struct qbrt_device_pools *pools, uint32_t handle,
		     struct qbrt_shared_handle **record)
{
	struct qbrt_shared_handle **link = find_shared(pools, handle);

	if (!*link) {
		*link = *record;
		*record = NULL;
		(*link)->next = NULL;
		(*link)->handle = handle;
		(*link)->num_views = 0;
	}
	(*link)->num_views++;
}

void qbrt_device_close_handle(struct qbrt_device *device, uint32_t handle)
{
	struct drm_gem_close gem_close = { .handle = handle };

	qbrt_count(buffer_requests);
	(void)device->kmd->ioctl(device->file, DRM_IOCTL_GEM_CLOSE, &gem_close);
}

/* share_lock. */
static void drop_view(struct qbrt_device *device, uint32_t handle)
{
	struct qbrt_shared_handle **link = find_shared(device->pools, handle);
	struct qbrt_shared_handle *record = *link;

	assert(record);
	if (--record->num_views)
		return;
	*link = record->next;
	free(record);
	qbrt_device_close_handle(device, handle);
}

void qbrt_device_give_shared(struct qbrt_device *device,
			     const struct qbrt_buffer *buffer)
{
	(void)device->kmd->munmap(device->file, buffer->data, buffer->size);
	/* the handle is the parent's */
	if (qbrt_device_is_inherited(device))
		return;
	(void)pthread_mutex_lock(&device->pools->share_lock);
	drop_view(device, buffer->handle);
	(void)pthread_mutex_unlock(&device->pools->share_lock);
}

/* ---- export ---- */

/* share_lock. */
static int request_export(struct qbrt_device *device,
			  struct drm_prime_handle *prime)
{
	int err;

	qbrt_count(buffer_requests);
	err = device->kmd->ioctl(device->file, DRM_IOCTL_PRIME_HANDLE_TO_FD,
				 prime);
	if (qbrt_device_make_room(device, err))
		err = device->kmd->ioctl(device->file,
					 DRM_IOCTL_PRIME_HANDLE_TO_FD, prime);
	if (err)
		return err;
	prime->fd = qbrt_fd_keep(prime->fd);
	return prime->fd < 0 ? -errno : 0;
}

enum qbrt_status qbrt_device_export_buffer(struct qbrt_device *device,
					   struct qbrt_buffer *buffer, int *fd)
{
	struct drm_prime_handle prime = {
		.handle = buffer->handle,
		.flags = DRM_CLOEXEC | (buffer->is_read_only ? 0 : DRM_RDWR),
	};
	struct qbrt_shared_handle *record = malloc(sizeof(*record));
	int err = -ENOMEM;

	if (!record)
		return qbrt_fail_errno(QBRT_AT_EXPORT, err,
				       "no memory for an export");
	(void)pthread_mutex_lock(&device->pools->share_lock);
	err = request_export(device, &prime);
	if (!err && !buffer->is_shared) {
		add_view(device->pools, buffer->handle, &record);
		buffer->is_shared = true;
	}
	(void)pthread_mutex_unlock(&device->pools->share_lock);
	free(record);
	if (err)
		return qbrt_fail_errno(
			QBRT_AT_EXPORT, err,
			"buffer of %zu bytes of device %s cannot be exported: "
			"%s",
			buffer->size, device->id, qbrt_errno_words(err));
	*fd = prime.fd;
	return QBRT_OK;
}

/* ---- import ---- */

/* A read-only descriptor is one also where the file has a writable handle. */
static int map_import(struct qbrt_device *device, int fd,
		      struct qbrt_buffer *buffer, enum qbrt_attempt *attempt)
{
	struct drm_qbnpu_bo_info info = { .handle = buffer->handle };
	int err;

	*attempt = QBRT_AT_BO_INFO;
	err = device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_BO_INFO, &info);
	if (err)
		return err;
	*attempt = QBRT_AT_MMAP;
	buffer->region = info.region;
	buffer->contiguity = info.contiguity;
	buffer->size = info.size;
	buffer->device_address = info.device_addr;
	buffer->id = info.id;
	buffer->is_read_only = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	if (!buffer->is_read_only) {
		err = device->kmd->mmap(device->file, info.map_offset,
					info.size, PROT_READ | PROT_WRITE,
					&buffer->data);
		if (err != -EACCES)
			return err;
		buffer->is_read_only = true;
	}
	return device->kmd->mmap(device->file, info.map_offset, info.size,
				 PROT_READ, &buffer->data);
}

/* share_lock. */
static int import_handle(struct qbrt_device *device, int fd,
			 struct qbrt_shared_handle **record,
			 struct qbrt_buffer *buffer)
{
	struct drm_prime_handle prime = { .fd = fd };
	int err;

	qbrt_count(buffer_requests);
	err = device->kmd->ioctl(device->file, DRM_IOCTL_PRIME_FD_TO_HANDLE,
				 &prime);
	if (qbrt_device_make_room(device, err))
		err = device->kmd->ioctl(device->file,
					 DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	if (err)
		return err;
	buffer->handle = prime.handle;
	add_view(device->pools, prime.handle, record);
	return 0;
}

/* Bytes of a memfd that cannot shrink, or -1: it is none. */
static int64_t get_sealed_nbytes(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st))
		return -1;
	return st.st_size;
}

static enum qbrt_status fail_import(const struct qbrt_device *device, int fd,
				    enum qbrt_attempt attempt, int err)
{
	int64_t nbytes = err == -EINVAL ? get_sealed_nbytes(fd) : -1;

	if (!nbytes)
		return qbrt_fail(QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
				 "descriptor %d holds 0 bytes", fd);
	if (nbytes > 0 && (uint64_t)nbytes > device->facts.max_bo_size)
		return qbrt_fail(
			QBRT_INVALID_ARGUMENT,
			"descriptor %d holds %lld bytes; a buffer of device %s "
			"has at most %llu",
			fd, (long long)nbytes, device->id,
			(unsigned long long)device->facts.max_bo_size);
	if (err == -ENOMEM)
		return qbrt_fail_errno(
			attempt, err,
			"descriptor %d cannot be mapped for device %s: no "
			"memory, no address space (RLIMIT_AS) or none of the "
			"file's huge pages is left",
			fd, device->id);
	if (err == -EMFILE || err == -ENFILE)
		return qbrt_fail_errno(
			attempt, err,
			"descriptor %d cannot be imported to device %s", fd,
			device->id);
	return qbrt_fail_errno(
		attempt, err,
		"descriptor %d is no memory that device %s can use: expected a "
		"dma-buf, or a memfd that cannot shrink",
		fd, device->id);
}

enum qbrt_status qbrt_device_import_buffer(struct qbrt_device *device, int fd,
					   struct qbrt_buffer *buffer)
{
	struct qbrt_shared_handle *record = malloc(sizeof(*record));
	enum qbrt_attempt attempt = QBRT_AT_IMPORT;
	int err = -ENOMEM;

	if (!record)
		return qbrt_fail_errno(QBRT_AT_IMPORT, err,
				       "no memory for an import");
	*buffer = (struct qbrt_buffer){ .is_shared = true };
	(void)pthread_mutex_lock(&device->pools->share_lock);
	err = import_handle(device, fd, &record, buffer);
	if (!err) {
		err = map_import(device, fd, buffer, &attempt);
		if (err)
			drop_view(device, buffer->handle);
	}
	(void)pthread_mutex_unlock(&device->pools->share_lock);
	free(record);
	return err ? fail_import(device, fd, attempt, err) : QBRT_OK;
}
