// SPDX-License-Identifier: MIT
/*
 * Buffers of an open device: which region, the pool of freed ones, and what a
 * refusal means. One region is tried after the other; the pool is emptied
 * before exhaustion is reported. The lock of the pool is held over no request.
 */
#include "accelerator-pool.h"

#include <drm.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "counters.h"
#include "device-info.h"
#include "status.h"
#include "util.h"

#define DEFAULT_ALIGNMENT 64
#define HOST_TEXT_SIZE 192

/* What is wanted, and what the regions answered. */
struct request {
	size_t nbytes;
	size_t alignment;
	bool is_contiguous;
	bool is_poolable;
	uint64_t limit;  /* largest size that would have worked, 0: unknown */
	uint32_t region; /* tried last */
};

/* A child of fork has the mapping, but not the handle. */
static void close_buffer(struct qbrt_device *device,
			 const struct qbrt_buffer *buffer)
{
	(void)device->kmd->munmap(device->file, buffer->data, buffer->size);
	if (!qbrt_device_is_inherited(device))
		qbrt_device_close_handle(device, buffer->handle);
}

static struct qbrt_pooled_buffer **get_bucket(struct qbrt_device_pools *pools,
					      size_t size)
{
	return &pools->buckets[(size - 1) >> 12];
}

static void count_pooled(struct qbrt_device_pools *pools,
			 const struct qbrt_buffer *buffer, bool is_added)
{
	size_t size = is_added ? buffer->size : -buffer->size;

	pools->pooled_nbytes += size;
	if (buffer->region == DRM_QBNPU_REGION_LOCAL)
		pools->pooled_local_nbytes += size;
	atomic_fetch_add_explicit(&qbrt_counters.pooled_nbytes, size,
				  memory_order_relaxed);
}

/* The newest that fits, zeroed; false: none. */
static bool take_pooled(struct qbrt_device *device, uint32_t region,
			const struct request *request,
			struct qbrt_buffer *buffer)
{
	struct qbrt_device_pools *pools = device->pools;
	size_t size = qbrt_round_up(request->nbytes, device->facts.page_size);
	struct qbrt_pooled_buffer **link;
	struct qbrt_pooled_buffer *found;

	if (!request->is_poolable || size > QBRT_POOLED_MAX_SIZE)
		return false;
	(void)pthread_mutex_lock(&pools->buffer_lock);
	for (link = get_bucket(pools, size); *link; link = &(*link)->next)
		if ((*link)->buffer.size == size &&
		    (*link)->buffer.region == region &&
		    (!request->is_contiguous ||
		     (*link)->buffer.contiguity >= QBRT_CONTIGUITY_HUGEPAGE))
			break;
	found = *link;
	if (found) {
		*buffer = found->buffer;
		count_pooled(pools, buffer, false);
		*link = found->next;
		found->next = pools->unused;
		pools->unused = found;
	}
	(void)pthread_mutex_unlock(&pools->buffer_lock);
	if (found)
		memset(buffer->data, 0, buffer->size);
	return found;
}

/* Facts and mapping of a handle that was made just now. */
static enum qbrt_status map_buffer(struct qbrt_device *device,
				   const struct drm_qbnpu_bo_create *create,
				   struct qbrt_buffer *buffer)
{
	struct drm_qbnpu_bo_info info = { .handle = create->handle };
	void *data;
	int err = device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_BO_INFO,
				     &info);

	if (err)
		return qbrt_fail_errno(
			QBRT_AT_BO_INFO, err,
			"device %s does not tell about buffer %u", device->id,
			create->handle);
	err = device->kmd->mmap(device->file, create->map_offset, create->size,
				PROT_READ | PROT_WRITE, &data);
	if (err)
		return qbrt_fail_errno(QBRT_AT_MMAP, err,
				       "buffer of %llu bytes of device %s "
				       "cannot be mapped",
				       (unsigned long long)create->size,
				       device->id);
	buffer->handle = create->handle;
	buffer->region = create->region;
	buffer->contiguity = create->contiguity;
	buffer->size = create->size;
	buffer->data = data;
	buffer->device_address = info.device_addr;
	buffer->id = info.id;
	return QBRT_OK;
}

static uint32_t get_align_log2(size_t alignment)
{
	/* every buffer begins on a page */
	if (alignment == DEFAULT_ALIGNMENT)
		return 0;
	return (uint32_t)__builtin_ctzll(alignment);
}

/*
 * A new buffer of one region. 0, -ENOMEM (then request->limit is told), or
 * another errno of BO_CREATE, none of them with a sentence; or -EIO with
 * *status of what failed after it.
 */
static int create_buffer(struct qbrt_device *device, uint32_t region,
			 struct request *request, struct qbrt_buffer *buffer,
			 enum qbrt_status *status)
{
	struct drm_qbnpu_bo_create create = {
		.size = request->nbytes,
		.flags = request->is_contiguous ? DRM_QBNPU_BO_CONTIGUOUS : 0,
		.region = region,
		.align_log2 = get_align_log2(request->alignment),
	};
	int err;

	*status = QBRT_OK;
	request->region = region;
	qbrt_count(buffer_requests);
	err = device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_BO_CREATE,
				 &create);
	if (err == -ENOMEM && create.limit > request->limit)
		request->limit = create.limit;
	if (err)
		return err;
	*status = map_buffer(device, &create, buffer);
	if (*status) {
		qbrt_device_close_handle(device, create.handle);
		return -EIO;
	}
	buffer->is_shared = false;
	buffer->is_read_only = false;
	buffer->is_poolable =
		request->is_poolable && create.size <= QBRT_POOLED_MAX_SIZE;
	return 0;
}

/* Bytes that this process has locked, in KiB by the kernel's account. */
static unsigned long long get_locked_nbytes(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	static const char key[] = "VmLck:";
	unsigned long long num_kib = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, sizeof(key) - 1))
			num_kib = strtoull(line + sizeof(key) - 1, NULL, 10);
	}
	(void)fclose(file);
	return num_kib << 10;
}

/* As it is now; as at open, where the device does not answer any more. */
static struct drm_qbnpu_query_memory
get_region_now(const struct qbrt_device *device, uint32_t region)
{
	struct qbrt_device_facts facts;

	if (qbrt_device_facts_query(device->kmd, device->file, &facts))
		return device->regions[region];
	return facts.regions[region];
}

static uint64_t get_region_limit(const struct drm_qbnpu_query_memory *now)
{
	return now->client_limit < now->total ? now->client_limit : now->total;
}

/* What the limits on this process are, of which one was the cause. */
static void describe_limits(size_t nbytes, const struct rlimit *locked,
			    char *text, size_t size)
{
	uint64_t used = get_locked_nbytes();
	bool has_room =
		locked->rlim_cur == RLIM_INFINITY ||
		(used <= locked->rlim_cur && locked->rlim_cur - used >= nbytes);
	struct rlimit space = { .rlim_cur = RLIM_INFINITY };
	char memlock[96] = "unlimited";
	char as[48] = "";

	(void)getrlimit(RLIMIT_AS, &space);
	if (locked->rlim_cur != RLIM_INFINITY)
		(void)snprintf(memlock, sizeof(memlock),
			       "%llu bytes, of which %llu are in use",
			       (unsigned long long)locked->rlim_cur,
			       (unsigned long long)used);
	if (space.rlim_cur != RLIM_INFINITY)
		(void)snprintf(as, sizeof(as), ", RLIMIT_AS is %llu bytes",
			       (unsigned long long)space.rlim_cur);
	(void)snprintf(text, size, ": %sRLIMIT_MEMLOCK is %s%s",
		       has_room ? "the host gave none, " : "", memlock, as);
}

/*
 * The region has room, so it was the host that gave no memory: *text says what
 * its limit is. false: the region is full, *text is unchanged. A driver may
 * tell the limit on locked memory as that of this client; it is the host's.
 */
static bool describe_host(const struct qbrt_device *device,
			  const struct request *request, char *text,
			  size_t size)
{
	struct drm_qbnpu_query_memory now =
		get_region_now(device, request->region);
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	if (now.free < request->nbytes)
		return false;
	if (now.client_limit != limit.rlim_cur &&
	    (now.client_limit < now.client_used ||
	     now.client_limit - now.client_used < request->nbytes))
		return false;
	describe_limits(request->nbytes, &limit, text, size);
	return true;
}

/* Q469: the cause decides, and if it is the region, the one tried last. */
static enum qbrt_status fail_exhausted(struct qbrt_device *device,
				       const struct request *request)
{
	bool is_local = request->region == DRM_QBNPU_REGION_LOCAL;
	struct drm_qbnpu_query_memory now;
	char host[HOST_TEXT_SIZE];
	char most[48] = "";

	/* where the driver's limits are not the cause, they mean nothing */
	if (request->limit && request->limit < request->nbytes)
		(void)snprintf(most, sizeof(most), "; at most %llu would fit",
			       (unsigned long long)request->limit);
	if (request->is_contiguous)
		return qbrt_fail(
			QBRT_PINNED_MEMORY_NOT_CONTIGUOUS,
			"no contiguous run of %zu bytes on device %s%s",
			request->nbytes, device->id, most);
	if (describe_host(device, request, host, sizeof(host)))
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "no %zu bytes of pinned host memory for "
				 "device %s%s%s",
				 request->nbytes, device->id, host, most);
	now = get_region_now(device, request->region);
	return qbrt_fail(is_local ? QBRT_BAD_ALLOC
				  : QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
			 "%zu bytes do not fit in the %s of device %s: limit "
			 "%llu bytes, free %llu, used by this process %llu%s",
			 request->nbytes,
			 is_local ? "memory" : "pinned host memory", device->id,
			 (unsigned long long)get_region_limit(&now),
			 (unsigned long long)now.free,
			 (unsigned long long)now.client_used, most);
}

/* Q472 without the "cached first": SYSTEM, LOCAL. */
static const uint32_t region_order[] = { DRM_QBNPU_REGION_SYSTEM,
					 DRM_QBNPU_REGION_LOCAL };

static bool is_in_pass(const struct qbrt_device *device, uint32_t region,
		       uint32_t cached)
{
	uint32_t flags = device->regions[region].flags;

	return (flags & DRM_QBNPU_REGION_MAPPABLE) &&
	       (flags & DRM_QBNPU_REGION_CACHED) == cached;
}

/*
 * Every region that can be mapped, those with cached mappings first; the pool
 * of a pass before any request. -ENOMEM: all are full.
 */
static int try_regions(struct qbrt_device *device, struct request *request,
		       struct qbrt_buffer *buffer, enum qbrt_status *status)
{
	static const uint32_t passes[] = { DRM_QBNPU_REGION_CACHED, 0 };
	size_t pass, i;
	int err = -ENOMEM;

	*status = QBRT_OK;
	for (pass = 0; pass < qbrt_array_size(passes); pass++) {
		for (i = 0; i < qbrt_array_size(region_order); i++)
			if (is_in_pass(device, region_order[i], passes[pass]) &&
			    take_pooled(device, region_order[i], request,
					buffer))
				return 0;
		for (i = 0; i < qbrt_array_size(region_order); i++) {
			if (!is_in_pass(device, region_order[i], passes[pass]))
				continue;
			err = create_buffer(device, region_order[i], request,
					    buffer, status);
			if (err != -ENOMEM)
				return err;
		}
	}
	return err;
}

static bool has_mappable_region(const struct qbrt_device *device)
{
	return is_in_pass(device, DRM_QBNPU_REGION_LOCAL,
			  DRM_QBNPU_REGION_CACHED) ||
	       is_in_pass(device, DRM_QBNPU_REGION_LOCAL, 0) ||
	       is_in_pass(device, DRM_QBNPU_REGION_SYSTEM,
			  DRM_QBNPU_REGION_CACHED) ||
	       is_in_pass(device, DRM_QBNPU_REGION_SYSTEM, 0);
}

enum qbrt_status qbrt_device_take_buffer(struct qbrt_device *device,
					 size_t nbytes, size_t alignment,
					 bool is_contiguous,
					 struct qbrt_buffer *buffer)
{
	struct request request = {
		.nbytes = nbytes,
		.alignment = alignment,
		.is_contiguous = is_contiguous,
		.is_poolable = alignment == DEFAULT_ALIGNMENT,
	};
	enum qbrt_status status;
	int err;

	if (!has_mappable_region(device))
		return qbrt_fail(
			QBRT_NOT_IMPLEMENTED,
			"device %s has no memory that the host can map",
			device->id);
	err = try_regions(device, &request, buffer, &status);
	if (qbrt_device_make_room(device, err)) {
		request.limit = 0;
		err = try_regions(device, &request, buffer, &status);
	}
	if (!err || status)
		return status;
	if (err == -ENOMEM)
		return fail_exhausted(device, &request);
	return qbrt_fail_errno(QBRT_AT_BO_CREATE, err,
			       "no buffer of %zu bytes with alignment %zu on "
			       "device %s",
			       nbytes, alignment, device->id);
}

/* LOCAL alone where there is one: models count against it (Q121). */
enum qbrt_status qbrt_device_take_weights(struct qbrt_device *device,
					  size_t nbytes,
					  struct qbrt_buffer *buffer)
{
	struct request request = {
		.nbytes = nbytes,
		.alignment = DEFAULT_ALIGNMENT,
	};
	uint32_t region = DRM_QBNPU_REGION_LOCAL;
	char host[HOST_TEXT_SIZE] = "";
	enum qbrt_status status;
	int err;

	if (!(device->regions[region].flags & DRM_QBNPU_REGION_MAPPABLE))
		region = DRM_QBNPU_REGION_SYSTEM;
	err = create_buffer(device, region, &request, buffer, &status);
	if (qbrt_device_make_room(device, err))
		err = create_buffer(device, region, &request, buffer, &status);
	if (!err || status)
		return status;
	if (err == -ENOMEM)
		describe_host(device, &request, host, sizeof(host));
	return qbrt_fail_errno(
		QBRT_AT_WEIGHTS, err,
		"%zu bytes for a model's weights or states do "
		"not fit in the memory of device %s (%llu bytes)%s",
		nbytes, device->id,
		(unsigned long long)device->regions[region].total, host);
}

/* false: the pool is full. */
static bool add_pooled(struct qbrt_device_pools *pools,
		       const struct qbrt_buffer *buffer)
{
	struct qbrt_pooled_buffer **bucket = get_bucket(pools, buffer->size);
	struct qbrt_pooled_buffer *pooled;

	(void)pthread_mutex_lock(&pools->buffer_lock);
	pooled = pools->pooled_nbytes + buffer->size <= QBRT_POOLED_MAX_TOTAL
			 ? pools->unused
			 : NULL;
	if (pooled) {
		pools->unused = pooled->next;
		pooled->buffer = *buffer;
		pooled->next = *bucket;
		*bucket = pooled;
		count_pooled(pools, buffer, true);
	}
	(void)pthread_mutex_unlock(&pools->buffer_lock);
	return pooled;
}

void qbrt_device_give_buffer(struct qbrt_device *device,
			     const struct qbrt_buffer *buffer)
{
	if (buffer->is_shared) {
		qbrt_device_give_shared(device, buffer);
		return;
	}
	if (buffer->is_poolable && !qbrt_device_is_inherited(device) &&
	    add_pooled(device->pools, buffer))
		return;
	close_buffer(device, buffer);
}

/* Empties the pool into one list. */
static struct qbrt_pooled_buffer *take_all(struct qbrt_device_pools *pools)
{
	struct qbrt_pooled_buffer *all = NULL;
	size_t i;

	for (i = 0; i < QBRT_POOLED_BUCKETS; i++)
		while (pools->buckets[i]) {
			struct qbrt_pooled_buffer *pooled = pools->buckets[i];

			pools->buckets[i] = pooled->next;
			pooled->next = all;
			all = pooled;
			count_pooled(pools, &pooled->buffer, false);
		}
	return all;
}

bool qbrt_device_trim(struct qbrt_device *device)
{
	struct qbrt_device_pools *pools = device->pools;
	struct qbrt_pooled_buffer **end, *all;

	(void)pthread_mutex_lock(&pools->buffer_lock);
	all = take_all(pools);
	(void)pthread_mutex_unlock(&pools->buffer_lock);
	for (end = &all; *end; end = &(*end)->next)
		close_buffer(device, &(*end)->buffer);
	if (!all)
		return false;
	(void)pthread_mutex_lock(&pools->buffer_lock);
	*end = pools->unused;
	pools->unused = all;
	(void)pthread_mutex_unlock(&pools->buffer_lock);
	return true;
}

bool qbrt_device_make_room(struct qbrt_device *device, int err)
{
	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE)
		return false;
	(void)qbrt_device_trim(device);
	return true;
}

size_t qbrt_device_get_pooled_local_nbytes(struct qbrt_device *device)
{
	size_t nbytes;

	(void)pthread_mutex_lock(&device->pools->buffer_lock);
	nbytes = device->pools->pooled_local_nbytes;
	(void)pthread_mutex_unlock(&device->pools->buffer_lock);
	return nbytes;
}
