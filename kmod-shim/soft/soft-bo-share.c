// SPDX-License-Identifier: MIT
/*
 * Buffers by descriptor (PRIME, K130 to K136). What goes out is a dma-buf over
 * the buffer's memfd where the kernel makes one, else the memfd; what comes in
 * is mapped, if it cannot shrink. A descriptor is known by the file behind it,
 * so all handles of one device that stand for the same memory stand for one
 * buffer, whose id tells aliases (K049).
 *
 * The device keeps a list of its buffers that were exported or imported; the
 * device lock guards it and their struct share.
 */
#include "soft/soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util.h"

/* Linux's, which a libc's header may lack. */
#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

#define WRITE_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

/* *size: of a regular file. */
static int identify(int fd, struct qbnpu_soft_identity *identity, off_t *size)
{
	struct stat info;

	if (fstat(fd, &info))
		return -EINVAL;
	identity->device = info.st_dev;
	identity->inode = info.st_ino;
	*size = info.st_size;
	return 0;
}

static bool is_same(const struct qbnpu_soft_identity *a,
		    const struct qbnpu_soft_identity *b)
{
	return a->inode == b->inode && a->device == b->device;
}

/* ---- the list; device lock ---- */

static void list_buffer(struct qbnpu_soft_buffer *buffer)
{
	struct qbnpu_soft_share *share = &buffer->share;
	struct qbnpu_soft_buffer **list = &buffer->device->shared;

	share->link = list;
	share->next = *list;
	if (share->next)
		share->next->share.link = &share->next;
	*list = buffer;
}

/* A reference, unless its last one is being dropped right now. */
static bool try_ref(struct qbnpu_soft_buffer *buffer)
{
	uint_fast64_t references = atomic_load(&buffer->references);

	while (references) {
		if (atomic_compare_exchange_weak(&buffer->references,
						 &references, references + 1))
			return true;
	}
	return false;
}

static struct qbnpu_soft_buffer *
find_buffer(const struct qbnpu_soft_device *device,
	    const struct qbnpu_soft_identity *identity)
{
	struct qbnpu_soft_buffer *buffer = device->shared;

	for (; buffer; buffer = buffer->share.next) {
		const struct qbnpu_soft_share *share = &buffer->share;

		if ((is_same(&share->memory, identity) ||
		     (share->dmabuf_fd >= 0 &&
		      is_same(&share->dmabuf, identity))) &&
		    try_ref(buffer))
			return buffer;
	}
	return NULL;
}

void qbnpu_soft_buffer_unshare(struct qbnpu_soft_buffer *buffer)
{
	struct qbnpu_soft_share *share = &buffer->share;

	(void)pthread_mutex_lock(&buffer->device->lock);
	if (share->link) {
		*share->link = share->next;
		if (share->next)
			share->next->share.link = share->link;
	}
	(void)pthread_mutex_unlock(&buffer->device->lock);
	if (share->dmabuf_fd >= 0)
		qbnpu_soft_fd_close(share->dmabuf_fd);
}

/* ---- export ---- */

/* A dma-buf of the whole memfd, or -1: the kernel makes none of this one. */
static int make_dmabuf(const struct qbnpu_soft_memory *memory)
{
	struct udmabuf_create create = {
		.memfd = (__u32)memory->fd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = memory->size,
	};
	int device = open(QBNPU_SOFT_UDMABUF, O_RDWR | O_CLOEXEC);
	int fd;

	if (device < 0)
		return -1;
	fd = qbnpu_soft_fd_keep(ioctl(device, UDMABUF_CREATE, &create));
	(void)close(device);
	return fd < 0 ? -1 : fd;
}

/* What its exports are is decided once, by the first (K306). */
static int prepare_export(struct qbnpu_soft_buffer *buffer)
{
	struct qbnpu_soft_share *share = &buffer->share;
	struct qbnpu_soft_device *device = buffer->device;
	off_t size;
	int err = 0;

	(void)pthread_mutex_lock(&device->lock);
	if (!share->link) {
		err = identify(buffer->memory.fd, &share->memory, &size);
		if (!err && device->has_udmabuf)
			share->dmabuf_fd = make_dmabuf(&buffer->memory);
		if (share->dmabuf_fd >= 0)
			(void)identify(share->dmabuf_fd, &share->dmabuf, &size);
		if (!err)
			list_buffer(buffer);
	}
	(void)pthread_mutex_unlock(&device->lock);
	return err;
}

static int get_descriptor_error(int err)
{
	return err == EMFILE || err == ENFILE ? -err : -EACCES;
}

/*
 * Only a memfd can be opened once more, for reading; of a foreign dma-buf that
 * was given for writing there is no read-only descriptor.
 */
static int open_read_only(int fd)
{
	char path[32];
	int opened;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		opened = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	else {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		opened = open(path, O_RDONLY | O_CLOEXEC);
	}
	return opened < 0 ? get_descriptor_error(errno) : opened;
}

static int export_buffer(struct qbnpu_soft_buffer *buffer, bool is_writable)
{
	int fd = prepare_export(buffer);

	if (fd)
		return fd;
	if (!is_writable) {
		fd = open_read_only(buffer->memory.fd);
	} else {
		fd = fcntl(buffer->share.dmabuf_fd >= 0
				   ? buffer->share.dmabuf_fd
				   : buffer->memory.fd,
			   F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			fd = get_descriptor_error(errno);
	}
	if (fd >= 0)
		atomic_store(&buffer->share.is_exported, true);
	return fd;
}

int qbnpu_soft_ioctl_prime_handle_to_fd(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_prime_handle *prime = arg;
	const bool is_writable = prime->flags & DRM_RDWR;
	struct qbnpu_soft_buffer *buffer = NULL;
	const struct qbnpu_soft_bo *bo;
	int fd = -ENOENT;

	if (prime->flags & ~(__u32)(DRM_CLOEXEC | DRM_RDWR))
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	bo = qbnpu_soft_bo_get(file, prime->handle);
	if (bo && is_writable && bo->is_read_only) {
		fd = -EACCES;
	} else if (bo) {
		buffer = bo->buffer;
		atomic_fetch_add(&buffer->references, 1);
	}
	(void)pthread_mutex_unlock(&file->lock);
	if (buffer) {
		fd = export_buffer(buffer, is_writable);
		qbnpu_soft_buffer_unref(buffer);
	}
	if (fd < 0)
		return fd;
	prime->fd = fd;
	return 0;
}

/* ---- import ---- */

/*
 * What a descriptor is, as far as an import needs it. It is a copy, because the
 * caller's number may mean another file at any time.
 */
struct source {
	int fd; /* -1: a buffer has it */
	bool is_read_only;
	bool is_sealed; /* nobody writes any more */
	bool is_huge;   /* of 2 MiB pages */
	uint64_t size;
	struct qbnpu_soft_identity identity;
};

/* K133: memory that can be mapped and cannot shrink, else -EINVAL. */
static int look_at(struct source *source)
{
	int fd = source->fd;
	int mode = fcntl(fd, F_GETFL);
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs filesystem;
	off_t size;

	if (mode < 0 || fstatfs(fd, &filesystem) ||
	    identify(fd, &source->identity, &size))
		return -EINVAL;
	if (filesystem.f_type == DMA_BUF_MAGIC)
		size = lseek(fd, 0, SEEK_END); /* it has no position to move */
	else if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EINVAL;
	if (size <= 0 || (uint64_t)size > QBNPU_SOFT_MAX_BO_SIZE)
		return -EINVAL;
	source->size = (uint64_t)size;
	source->is_sealed = seals >= 0 && seals & F_SEAL_WRITE;
	source->is_read_only = (mode & O_ACCMODE) == O_RDONLY ||
			       (seals >= 0 && seals & WRITE_SEALS);
	source->is_huge = (unsigned long)filesystem.f_type == HUGETLBFS_MAGIC &&
			  (uint64_t)filesystem.f_bsize == QBNPU_SOFT_HUGE_SIZE;
	return 0;
}

/*
 * Takes the descriptor. A write-sealed file could not be mapped as shared
 * before Linux 6.7; as nothing changes in it, a private mapping shows the same.
 */
static int map_source(struct source *source, struct qbnpu_soft_memory *memory)
{
	int rights = PROT_READ | (source->is_read_only ? 0 : PROT_WRITE);

	memory->size = source->size;
	memory->base = mmap(NULL, source->size, rights,
			    source->is_sealed ? MAP_PRIVATE : MAP_SHARED,
			    source->fd, 0);
	if (memory->base == MAP_FAILED)
		return errno == ENOMEM ? -ENOMEM : -EINVAL;
	memory->fd = source->fd;
	source->fd = -1;
	if (source->is_huge)
		qbnpu_soft_memory_look_up_runs(memory);
	memory->contiguity = memory->segments == 1
				     ? DRM_QBNPU_CONTIGUITY_HUGEPAGE
				     : DRM_QBNPU_CONTIGUITY_NONE;
	return 0;
}

static int make_import(struct qbnpu_soft_device *device, struct source *source,
		       struct qbnpu_soft_buffer **result)
{
	struct qbnpu_soft_buffer *buffer = calloc(1, sizeof(*buffer));
	int err;

	if (!buffer)
		return -ENOMEM;
	err = map_source(source, &buffer->memory);
	if (err) {
		free(buffer);
		return err;
	}
	qbnpu_soft_buffer_begin(buffer, device);
	buffer->flags = DRM_QBNPU_BO_IMPORTED;
	buffer->region = DRM_QBNPU_REGION_SYSTEM;
	atomic_init(&buffer->is_read_only, source->is_read_only);
	buffer->share.memory = source->identity;
	*result = buffer;
	return 0;
}

/*
 * The memory came by a read-only descriptor before, and now by one for
 * writing: the mapping and the descriptor change in place, under the same
 * address and number. Device lock.
 */
static int make_writable(struct qbnpu_soft_buffer *buffer,
			 const struct source *source)
{
	const struct qbnpu_soft_memory *memory = &buffer->memory;

	if (source->is_read_only || !atomic_load(&buffer->is_read_only))
		return 0;
	if (mmap(memory->base, memory->size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, source->fd, 0) == MAP_FAILED)
		return -ENOMEM;
	if (dup3(source->fd, memory->fd, O_CLOEXEC) < 0)
		return -EBADF;
	atomic_store(&buffer->is_read_only, false);
	return 0;
}

/* The device's buffer for this memory, made if there is none; a reference. */
static int get_buffer(struct qbnpu_soft_device *device, struct source *source,
		      struct qbnpu_soft_buffer **result)
{
	struct qbnpu_soft_buffer *buffer;
	int err = 0;

	(void)pthread_mutex_lock(&device->lock);
	buffer = find_buffer(device, &source->identity);
	if (buffer) {
		err = make_writable(buffer, source);
	} else {
		err = make_import(device, source, &buffer);
		if (!err)
			list_buffer(buffer);
	}
	(void)pthread_mutex_unlock(&device->lock);
	if (err && buffer)
		qbnpu_soft_buffer_unref(buffer);
	*result = buffer;
	return err;
}

/* File lock. */
static struct qbnpu_soft_bo *find_bo(const struct qbnpu_soft_file *file,
				     const struct qbnpu_soft_buffer *buffer)
{
	struct qbnpu_soft_bo *bo;

	for (uint32_t i = 1; i <= file->buffers.capacity; i++) {
		bo = qbnpu_soft_bo_get(file, i);
		if (bo && bo->buffer == buffer)
			return bo;
	}
	return NULL;
}

/*
 * The file's handle of this buffer, made if there is none. One that exists
 * gains the right to write with the descriptor that has it, and loses none.
 */
static int add_handle(struct qbnpu_soft_file *file,
		      struct qbnpu_soft_buffer *buffer, bool is_read_only,
		      uint32_t *handle)
{
	struct qbnpu_soft_bo *made = calloc(1, sizeof(*made));
	struct qbnpu_soft_bo *bo;
	int err = 0;

	if (!made)
		return -ENOMEM;
	made->buffer = buffer;
	made->is_read_only = is_read_only;
	(void)pthread_mutex_lock(&file->lock);
	bo = find_bo(file, buffer);
	if (bo) {
		bo->is_read_only &= is_read_only;
	} else {
		err = qbnpu_soft_bo_add(file, made);
		if (!err) {
			bo = made;
			atomic_fetch_add(&buffer->references, 1);
		}
	}
	if (bo)
		*handle = bo->handle;
	(void)pthread_mutex_unlock(&file->lock);
	if (bo != made)
		free(made);
	return err;
}

int qbnpu_soft_ioctl_prime_fd_to_handle(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_prime_handle *prime = arg;
	struct qbnpu_soft_buffer *buffer;
	struct source source = { 0 };
	int err;

	if (prime->flags & ~(__u32)(DRM_CLOEXEC | DRM_RDWR))
		return -EINVAL;
	source.fd = qbnpu_soft_fd_copy(prime->fd);
	if (source.fd < 0)
		return source.fd;
	err = look_at(&source);
	if (!err)
		err = get_buffer(file->device, &source, &buffer);
	if (source.fd >= 0)
		qbnpu_soft_fd_close(source.fd);
	if (err)
		return err;
	err = add_handle(file, buffer, source.is_read_only, &prime->handle);
	qbnpu_soft_buffer_unref(buffer);
	return err;
}
