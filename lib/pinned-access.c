// SPDX-License-Identifier: MIT
/*
 * When the host may touch pinned memory by its pointer: waiting for the jobs
 * that write it, and the bracket around accesses at other times. While one is
 * open no job may write the memory; while one is open that writes, no job may
 * use it. Brackets nest: the last one begun ends first.
 */
#include "pinned-memory.h"

#include <errno.h>

#include "status.h"
#include "util.h"

#define DEPTH_SHIFT 56

static enum qbrt_status check(const struct qbrt_pinned_memory *mem,
			      const char *function)
{
	if (!mem)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s: mem is NULL",
				 function);
	return qbrt_device_check_fork(mem->storage->device);
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_query(const struct qbrt_pinned_memory *mem, bool *ready)
{
	enum qbrt_status status = check(mem, "qbrt_pinned_memory_query");

	if (status)
		return status;
	if (!ready)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_pinned_memory_query: ready is NULL");
	*ready = qbrt_storage_is_written(mem->storage);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_wait(const struct qbrt_pinned_memory *mem, int64_t timeout)
{
	enum qbrt_status status = check(mem, "qbrt_pinned_memory_wait");

	return status ? status : qbrt_storage_wait(mem->storage, timeout);
}

/* One more bracket; false: there are too many. */
static bool push(struct qbrt_storage *storage, bool is_write)
{
	uint64_t now = atomic_load(&storage->brackets);
	uint64_t next;

	do {
		uint64_t depth = now >> DEPTH_SHIFT;

		if (depth == QBRT_STORAGE_MAX_BRACKETS)
			return false;
		next = now + (UINT64_C(1) << DEPTH_SHIFT);
		next |= (uint64_t)is_write << depth;
	} while (!atomic_compare_exchange_weak(&storage->brackets, &now, next));
	return true;
}

/* false: none is open. */
static bool pop(struct qbrt_storage *storage, bool *is_write)
{
	uint64_t now = atomic_load(&storage->brackets);
	uint64_t next;

	do {
		uint64_t depth = now >> DEPTH_SHIFT;

		if (!depth)
			return false;
		*is_write = now >> (depth - 1) & 1;
		next = now - (UINT64_C(1) << DEPTH_SHIFT);
		next &= ~(UINT64_C(1) << (depth - 1));
	} while (!atomic_compare_exchange_weak(&storage->brackets, &now, next));
	return true;
}

static int sync(const struct qbrt_storage *storage, uint32_t flags)
{
	const struct qbrt_device *device = storage->device;
	struct drm_qbnpu_bo_sync request = {
		.handle = storage->buffer.handle,
		.flags = flags,
		.length = storage->buffer.size,
	};

	return device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_BO_SYNC,
				  &request);
}

static uint32_t get_sync_flags(bool is_write)
{
	return is_write ? DRM_QBNPU_SYNC_READ | DRM_QBNPU_SYNC_WRITE
			: DRM_QBNPU_SYNC_READ;
}

/*
 * Within the use that keeps jobs away until the bracket does. It begins at the
 * driver before another thread's end may take it for its own.
 */
static enum qbrt_status open_bracket(struct qbrt_storage *storage,
				     bool is_write)
{
	uint32_t flags = get_sync_flags(is_write);
	int err = sync(storage, DRM_QBNPU_SYNC_BEGIN | flags);

	if (err)
		return qbrt_fail_errno(QBRT_AT_BO_SYNC, err,
				       "CPU access to pinned memory of device "
				       "%s does not begin",
				       storage->device->id);
	if (push(storage, is_write))
		return QBRT_OK;
	(void)sync(storage, DRM_QBNPU_SYNC_END | flags);
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "%d CPU accesses are open already: end some with "
			 "qbrt_pinned_memory_end_cpu_access",
			 QBRT_STORAGE_MAX_BRACKETS);
}

static enum qbrt_status begin_write(struct qbrt_pinned_memory *mem)
{
	struct qbrt_storage *storage = mem->storage;
	enum qbrt_status status = QBRT_OK;

	if (mem->storage->buffer.is_read_only)
		return qbrt_fail(QBRT_PINNED_MEMORY_READ_ONLY,
				 "the memory was imported read-only");
	status = qbrt_storage_take_write(storage);
	if (status)
		return status;
	status = open_bracket(storage, true);
	if (!status)
		qbrt_storage_validate(storage);
	qbrt_storage_end_write(storage);
	return status;
}

static enum qbrt_status begin_read(struct qbrt_pinned_memory *mem)
{
	struct qbrt_storage *storage = mem->storage;
	enum qbrt_status status = qbrt_storage_take_read(storage);

	if (status)
		return status;
	status = qbrt_storage_check_valid(storage);
	if (!status)
		status = open_bracket(storage, false);
	qbrt_storage_end_read(storage);
	return status;
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_begin_cpu_access(struct qbrt_pinned_memory *mem,
				    uint32_t flags)
{
	enum qbrt_status status =
		check(mem, "qbrt_pinned_memory_begin_cpu_access");

	if (status)
		return status;
	if (!flags || flags & ~(QBRT_CPU_READ | QBRT_CPU_WRITE))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "flags are 0x%x, expected QBRT_CPU_READ, "
				 "QBRT_CPU_WRITE or both",
				 flags);
	return flags & QBRT_CPU_WRITE ? begin_write(mem) : begin_read(mem);
}

QBRT_API enum qbrt_status
qbrt_pinned_memory_end_cpu_access(struct qbrt_pinned_memory *mem)
{
	enum qbrt_status status =
		check(mem, "qbrt_pinned_memory_end_cpu_access");
	bool is_write;
	int err;

	if (status)
		return status;
	if (!pop(mem->storage, &is_write))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "no CPU access of this memory is open");
	err = sync(mem->storage, DRM_QBNPU_SYNC_END | get_sync_flags(is_write));
	if (!err)
		return QBRT_OK;
	/* still open, here as in the driver: the caller may end it again */
	(void)push(mem->storage, is_write);
	return qbrt_fail_errno(QBRT_AT_BO_SYNC, err,
			       "CPU access to pinned memory of device "
			       "%s does not end",
			       mem->storage->device->id);
}
