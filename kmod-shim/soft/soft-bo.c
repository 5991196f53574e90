// SPDX-License-Identifier: MIT
/*
 * Buffers: handles of a file on reference-counted memory. The memory lives as
 * long as a handle, a job, a program or a mapping refers to it (K046), and its
 * size stands in an account meanwhile: LOCAL in the device model's, SYSTEM in
 * one of the process (K305).
 */
#include "soft/soft.h"

#include <drm.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "util.h"

#define MAX_ALIGN_LOG2 21u
#define MIN_ALIGN_LOG2 6u

/*
 * A map offset is (id % NUM_MAP_IDS) << ID_SHIFT | handle << HANDLE_SHIFT:
 * exact, never 0 or negative, and an offset of another file's buffer is told
 * from a wrong one. Ids never run out; that a handle had the same offset so
 * many buffers ago does no harm.
 */
#define ID_SHIFT 34
#define HANDLE_SHIFT 16
#define NUM_MAP_IDS (UINT64_C(1) << 29)
_Static_assert(QBNPU_SOFT_MAX_BUFFERS < 1u << (ID_SHIFT - HANDLE_SHIFT),
	       "a handle fits below the id");

static uint64_t get_map_id(const struct qbnpu_soft_bo *bo)
{
	return bo->buffer->id % NUM_MAP_IDS;
}

static uint64_t get_map_offset(const struct qbnpu_soft_bo *bo)
{
	return get_map_id(bo) << ID_SHIFT | (uint64_t)bo->handle
						    << HANDLE_SHIFT;
}

/* ---- accounts ---- */

static uint64_t get_account_free(const struct qbnpu_soft_file *file,
				 uint32_t region)
{
	uint64_t limit, used;

	if (region == DRM_QBNPU_REGION_LOCAL)
		return qbnpu_npu_get_memory_free(file->npu);
	limit = file->device->system_limit;
	used = atomic_load(qbnpu_soft_get_system_used());
	return used < limit ? limit - used : 0;
}

static int take_account(struct qbnpu_soft_file *file, uint32_t region,
			uint64_t size)
{
	const uint64_t limit = file->device->system_limit;
	atomic_uint_fast64_t *account = qbnpu_soft_get_system_used();
	uint_fast64_t used = atomic_load(account);
	uint64_t missing;

	if (region == DRM_QBNPU_REGION_LOCAL)
		return qbnpu_npu_take_memory(file->npu, size, &missing);
	do {
		if (used > limit || size > limit - used)
			return -ENOMEM;
	} while (!atomic_compare_exchange_weak(account, &used, used + size));
	return 0;
}

/* The device model may be closed by now, and its account with it. */
static void give_account(struct qbnpu_soft_device *device, uint32_t region,
			 uint64_t size)
{
	if (region == DRM_QBNPU_REGION_SYSTEM) {
		atomic_fetch_sub(qbnpu_soft_get_system_used(), size);
		return;
	}
	(void)pthread_mutex_lock(&device->lock);
	if (device->npu)
		qbnpu_npu_give_memory(device->npu, size);
	(void)pthread_mutex_unlock(&device->lock);
}

/* ---- buffers ---- */

void qbnpu_soft_buffer_free(struct qbnpu_soft_buffer *buffer)
{
	qbnpu_soft_buffer_unshare(buffer);
	qbnpu_soft_memory_free(&buffer->memory);
	/* what an import takes is its exporter's */
	if (!(buffer->flags & DRM_QBNPU_BO_IMPORTED))
		give_account(buffer->device, buffer->region,
			     buffer->memory.size);
	qbnpu_soft_device_unref(buffer->device);
	free(buffer);
}

static uint32_t get_align_log2(const void *base)
{
	uint32_t log2 = (uint32_t)__builtin_ctzll((uintptr_t)base);

	return log2 < MAX_ALIGN_LOG2 ? log2 : MAX_ALIGN_LOG2;
}

void qbnpu_soft_buffer_begin(struct qbnpu_soft_buffer *buffer,
			     struct qbnpu_soft_device *device)
{
	atomic_init(&buffer->references, 1);
	buffer->device = device;
	atomic_fetch_add(&device->references, 1);
	buffer->id = atomic_fetch_add(&device->last_buffer_id, 1) + 1;
	buffer->align_log2 = get_align_log2(buffer->memory.base);
	buffer->share.dmabuf_fd = -1;
}

static uint64_t get_alignment(const struct drm_qbnpu_bo_create *create)
{
	uint64_t alignment = UINT64_C(1) << create->align_log2;
	uint64_t page_size = qbnpu_soft_get_page_size();

	return alignment > page_size ? alignment : page_size;
}

/* size: what the account has already; its rest is taken if pages are there. */
static int alloc_huge_pages(struct qbnpu_soft_file *file,
			    const struct drm_qbnpu_bo_create *create,
			    uint64_t size, struct qbnpu_soft_memory *memory)
{
	uint64_t rest = qbrt_round_up(size, QBNPU_SOFT_HUGE_SIZE) - size;
	int err;

	if (!file->device->has_huge_pages)
		return -ENOMEM;
	err = take_account(file, create->region, rest);
	if (err)
		return err;
	err = qbnpu_soft_memory_alloc_huge(size, get_alignment(create), memory);
	if (!err && (!(create->flags & DRM_QBNPU_BO_CONTIGUOUS) ||
		     memory->contiguity == DRM_QBNPU_CONTIGUITY_HUGEPAGE))
		return 0;
	if (!err) {
		qbnpu_soft_memory_free(memory);
		err = -ENOMEM;
	}
	give_account(file->device, create->region, rest);
	return err;
}

/* Of a contiguous run only a single 2 MiB page is certain. */
static uint64_t get_contiguous_limit(const struct qbnpu_soft_file *file,
				     uint32_t region)
{
	uint64_t num_pages, num_free;

	qbnpu_soft_query_huge_pages(&num_pages, &num_free);
	return num_free && get_account_free(file, region) >=
				       QBNPU_SOFT_HUGE_SIZE
		       ? QBNPU_SOFT_HUGE_SIZE
		       : 0;
}

/*
 * K301 to K303, after the account had the size: what cannot be is refused
 * before memory is touched.
 */
static int alloc_memory(struct qbnpu_soft_file *file,
			const struct drm_qbnpu_bo_create *create,
			struct qbnpu_soft_memory *memory, uint64_t *limit)
{
	uint64_t page_size = qbnpu_soft_get_page_size();
	uint64_t size = qbrt_round_up(create->size, page_size);
	int err = take_account(file, create->region, size);

	if (err) {
		*limit = get_account_free(file, create->region) &
			 ~(page_size - 1);
		return err;
	}
	err = alloc_huge_pages(file, create, size, memory);
	if (err && !(create->flags & DRM_QBNPU_BO_CONTIGUOUS))
		err = qbnpu_soft_memory_alloc_locked(
			size, get_alignment(create), memory, limit);
	if (!err)
		return 0;
	give_account(file->device, create->region, size);
	if (create->flags & DRM_QBNPU_BO_CONTIGUOUS)
		*limit = get_contiguous_limit(file, create->region);
	return err;
}

static int alloc_buffer(struct qbnpu_soft_file *file,
			struct drm_qbnpu_bo_create *create,
			struct qbnpu_soft_buffer **result)
{
	struct qbnpu_soft_buffer *buffer = calloc(1, sizeof(*buffer));
	uint64_t limit = 0;
	int err;

	if (!buffer)
		return -ENOMEM;
	err = alloc_memory(file, create, &buffer->memory, &limit);
	if (err) {
		if (err == -ENOMEM)
			create->limit = limit < QBNPU_SOFT_MAX_BO_SIZE
						? limit
						: QBNPU_SOFT_MAX_BO_SIZE;
		free(buffer);
		return err;
	}
	qbnpu_soft_buffer_begin(buffer, file->device);
	buffer->flags = create->flags;
	buffer->region = create->region;
	*result = buffer;
	return 0;
}

static bool is_create_valid(const struct drm_qbnpu_bo_create *create)
{
	if (create->flags & ~DRM_QBNPU_BO_CONTIGUOUS || create->reserved)
		return false;
	if (create->region >= QBNPU_SOFT_NUM_REGIONS)
		return false;
	if (create->align_log2 && (create->align_log2 < MIN_ALIGN_LOG2 ||
				   create->align_log2 > MAX_ALIGN_LOG2))
		return false;
	return create->size && create->size <= QBNPU_SOFT_MAX_BO_SIZE;
}

int qbnpu_soft_bo_add(struct qbnpu_soft_file *file, struct qbnpu_soft_bo *bo)
{
	uint32_t handle;
	int err = qbnpu_soft_table_add(&file->buffers, QBNPU_SOFT_MAX_BUFFERS,
				       bo, &handle);

	/* more buffers than the file may have is a limit, not a full queue */
	if (err)
		return -ENOMEM;
	bo->handle = handle;
	file->used[bo->buffer->region] += bo->buffer->memory.size;
	file->num_buffers[bo->buffer->region]++;
	return 0;
}

int qbnpu_soft_ioctl_bo_create(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_bo_create *create = arg;
	struct qbnpu_soft_bo *bo;
	int err;

	if (!is_create_valid(create))
		return -EINVAL;
	bo = calloc(1, sizeof(*bo));
	if (!bo)
		return -ENOMEM;
	err = alloc_buffer(file, create, &bo->buffer);
	if (err)
		goto err_free;
	(void)pthread_mutex_lock(&file->lock);
	err = qbnpu_soft_bo_add(file, bo);
	if (!err) {
		create->size = bo->buffer->memory.size;
		create->contiguity = bo->buffer->memory.contiguity;
		create->handle = bo->handle;
		create->map_offset = get_map_offset(bo);
		create->limit = 0;
	}
	(void)pthread_mutex_unlock(&file->lock);
	if (!err)
		return 0;
	qbnpu_soft_buffer_unref(bo->buffer);
err_free:
	free(bo);
	return err;
}

/* File lock. */
static void close_bo(struct qbnpu_soft_file *file, struct qbnpu_soft_bo *bo)
{
	file->used[bo->buffer->region] -= bo->buffer->memory.size;
	file->num_buffers[bo->buffer->region]--;
	qbnpu_soft_buffer_unref(bo->buffer);
	free(bo);
}

void qbnpu_soft_bo_close_all(struct qbnpu_soft_file *file)
{
	for (uint32_t i = 1; i <= file->buffers.capacity; i++) {
		struct qbnpu_soft_bo *bo;

		bo = qbnpu_soft_table_remove(&file->buffers, i);
		if (bo)
			close_bo(file, bo);
	}
}

int qbnpu_soft_ioctl_gem_close(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_gem_close *gem_close = arg;
	struct qbnpu_soft_bo *bo;

	if (gem_close->pad)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	bo = qbnpu_soft_table_remove(&file->buffers, gem_close->handle);
	if (bo)
		close_bo(file, bo);
	(void)pthread_mutex_unlock(&file->lock);
	return bo ? 0 : -EINVAL;
}

int qbnpu_soft_ioctl_bo_info(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_bo_info *info = arg;
	const struct qbnpu_soft_buffer *buffer;
	const struct qbnpu_soft_bo *bo;

	if (info->reserved)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	bo = qbnpu_soft_bo_get(file, info->handle);
	if (bo) {
		buffer = bo->buffer;
		info->flags = buffer->flags;
		if (atomic_load(&buffer->num_programs))
			info->flags |= DRM_QBNPU_BO_WEIGHTS;
		if (atomic_load(&buffer->share.is_exported))
			info->flags |= DRM_QBNPU_BO_EXPORTED;
		info->region = buffer->region;
		info->contiguity = buffer->memory.contiguity;
		info->size = buffer->memory.size;
		info->map_offset = get_map_offset(bo);
		info->device_addr = (uintptr_t)buffer->memory.base;
		info->segments = buffer->memory.segments == 1 ? 1 : 0;
		info->align_log2 = buffer->align_log2;
		info->id = buffer->id;
		info->jobs = qbnpu_soft_buffer_get_jobs(buffer);
	}
	(void)pthread_mutex_unlock(&file->lock);
	return bo ? 0 : -ENOENT;
}

/* The CPU's caches and the device's are the same: brackets are counted only. */
int qbnpu_soft_ioctl_bo_sync(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_qbnpu_bo_sync *sync = arg;
	uint32_t step =
		sync->flags & (DRM_QBNPU_SYNC_BEGIN | DRM_QBNPU_SYNC_END);
	uint32_t kind =
		sync->flags & (DRM_QBNPU_SYNC_READ | DRM_QBNPU_SYNC_WRITE);
	struct qbnpu_soft_bo *bo;
	uint32_t *count;
	uint64_t end;
	int err = -EINVAL;

	if (sync->flags & ~(step | kind) || !qbrt_is_power_of_two(step) ||
	    !kind || sync->reserved || sync->offset % 64 || !sync->length ||
	    qbrt_add_overflows(sync->offset, sync->length, &end))
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	bo = qbnpu_soft_bo_get(file, sync->handle);
	if (!bo) {
		err = -ENOENT;
	} else if (end <= bo->buffer->memory.size) {
		count = kind & DRM_QBNPU_SYNC_WRITE ? &bo->num_writes
						    : &bo->num_reads;
		if (step == DRM_QBNPU_SYNC_BEGIN && *count < UINT32_MAX) {
			(*count)++;
			err = 0;
		} else if (step == DRM_QBNPU_SYNC_END && *count) {
			(*count)--;
			err = 0;
		}
	}
	(void)pthread_mutex_unlock(&file->lock);
	return err;
}

/* ---- mapping ---- */

/* K015; file lock. A reference to the buffer with this offset. */
static int find_mappable(struct qbnpu_soft_file *file, uint64_t offset,
			 size_t length, int prot,
			 struct qbnpu_soft_buffer **buffer)
{
	const uint64_t last_id = atomic_load(&file->device->last_buffer_id);
	const uint64_t id = offset >> ID_SHIFT;
	const struct qbnpu_soft_bo *bo;
	uint32_t handle;

	if (id >= NUM_MAP_IDS ||
	    (last_id < NUM_MAP_IDS && (!id || id > last_id)))
		return -EINVAL;
	handle = (uint32_t)(offset >> HANDLE_SHIFT) &
		 ((1u << (ID_SHIFT - HANDLE_SHIFT)) - 1);
	bo = qbnpu_soft_bo_get(file, handle);
	if (bo && get_map_offset(bo) == offset) {
		if (length > bo->buffer->memory.size)
			return -EINVAL;
		if (prot & PROT_WRITE && bo->is_read_only)
			return -EACCES;
		*buffer = bo->buffer;
		atomic_fetch_add(&bo->buffer->references, 1);
		return 0;
	}
	/* near one of the file's own: wrong; else not the file's */
	for (uint32_t i = 1; i <= file->buffers.capacity; i++) {
		bo = qbnpu_soft_bo_get(file, i);
		if (bo && get_map_id(bo) == id)
			return -EINVAL;
	}
	return offset & ((UINT64_C(1) << HANDLE_SHIFT) - 1) ? -EINVAL : -EACCES;
}

/*
 * Who may write gets the mapping that the device uses, so the device address
 * is the caller's. A read-only one is made anew, unless the device's is one.
 */
int qbnpu_soft_bo_mmap(struct qbnpu_soft_file *file, uint64_t offset,
		       size_t length, int prot, void **address)
{
	struct qbnpu_soft_buffer *buffer;
	void *mapped;
	int err;

	(void)pthread_mutex_lock(&file->lock);
	err = find_mappable(file, offset, length, prot, &buffer);
	(void)pthread_mutex_unlock(&file->lock);
	if (err)
		return err;
	mapped = buffer->memory.base;
	if (prot == PROT_READ && !atomic_load(&buffer->is_read_only))
		mapped = mmap(NULL, length, prot, MAP_SHARED, buffer->memory.fd,
			      0);
	err = mapped == MAP_FAILED
		      ? -ENOMEM
		      : qbnpu_soft_mapping_add(mapped, length, buffer);
	if (err && mapped != MAP_FAILED && mapped != buffer->memory.base)
		(void)munmap(mapped, length);
	if (!err)
		*address = mapped;
	qbnpu_soft_buffer_unref(buffer);
	return err;
}
