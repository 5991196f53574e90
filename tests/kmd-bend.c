// SPDX-License-Identifier: MIT
/*
 * Hardware nodes are software nodes 120, 121, ... of a configuration of its
 * own; their files are remembered by number. Memory of a region is counted by
 * handle, for one open file at a time.
 */
#include "kmd-bend.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

#define FIRST_SOFT_NODE 120
#define PAGE_SIZE 4096
#define MAX_FILES 65536
#define MAX_HANDLES 65536

struct kmd_bend kmd_bend;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_hardware[MAX_FILES];
static uint64_t handle_sizes[MAX_HANDLES];
static uint32_t handle_regions[MAX_HANDLES];
static uint64_t used[2];
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void take_lock(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	(void)pthread_mutex_unlock(&lock);
}

/* A child of fork must find the lock free. */
static void watch_forks(void)
{
	(void)pthread_atfork(take_lock, give_lock, give_lock);
}

static int bend_list(const struct qbrt_kmd_options *options,
		     struct qbrt_kmd_node *nodes, size_t max_nodes,
		     size_t *num_nodes)
{
	size_t num = kmd_bend.num_hardware;
	size_t num_soft;
	size_t i;

	if (kmd_bend.list_err)
		return kmd_bend.list_err;
	for (i = 0; i < num && i < max_nodes; i++) {
		(void)snprintf(nodes[i].path, sizeof(nodes[i].path), "hw:%zu",
			       i);
		nodes[i].number = kmd_bend.hardware[i].number;
	}
	(void)qbrt_kmd_soft.list(options, nodes ? nodes + i : NULL,
				 max_nodes - i, &num_soft);
	*num_nodes = num + num_soft;
	return 0;
}

static int open_hardware(const struct qbrt_kmd_options *options, size_t place,
			 int *file)
{
	const struct kmd_bend_hardware *hardware = &kmd_bend.hardware[place];
	struct qbrt_kmd_options *own;
	char path[64];
	int err;

	if (hardware->open_err)
		return hardware->open_err;
	own = malloc(sizeof(*own));
	if (!own)
		return -ENOMEM;
	*own = *options;
	own->num_soft_names = QBRT_KMD_MAX_SOFT_NODES;
	(void)snprintf(own->soft_names[FIRST_SOFT_NODE + place],
		       QBRT_KMD_NAME_SIZE, "%s", hardware->name);
	(void)snprintf(path, sizeof(path), "soft:%zu", FIRST_SOFT_NODE + place);
	err = qbrt_kmd_soft.open(own, path, file);
	free(own);
	return err;
}

static int bend_open(const struct qbrt_kmd_options *options, const char *path,
		     int *file)
{
	bool is_hw = !strncmp(path, "hw:", 3);
	int err;

	(void)pthread_once(&fork_once, watch_forks);
	if (is_hw)
		err = open_hardware(options, (size_t)(path[3] - '0'), file);
	else if (kmd_bend.soft_open_err)
		err = kmd_bend.soft_open_err;
	else
		err = qbrt_kmd_soft.open(options, path, file);
	if (err)
		return err;
	is_hardware[*file % MAX_FILES] = is_hw;
	atomic_fetch_add(&kmd_bend.num_opens, 1);
	return 0;
}

static void bend_close(int file)
{
	atomic_fetch_add(&kmd_bend.num_closes, 1);
	qbrt_kmd_soft.close(file);
}

static void bend_device(int file, struct drm_qbnpu_query_device *device)
{
	if (is_hardware[file % MAX_FILES])
		device->kind = DRM_QBNPU_KIND_HARDWARE;
	if (kmd_bend.uapi_major)
		device->uapi_major = kmd_bend.uapi_major;
	if (kmd_bend.max_job_ns)
		device->max_job_ns = kmd_bend.max_job_ns;
	if (kmd_bend.instance)
		device->instance = kmd_bend.instance;
	if (kmd_bend.num_regions)
		device->num_regions = kmd_bend.num_regions;
	if (kmd_bend.bend_device)
		kmd_bend.bend_device(device);
}

static void bend_memory(struct drm_qbnpu_query_memory *memory)
{
	if (kmd_bend.has_region_flags)
		memory->flags = kmd_bend.region_flags[memory->region];
	if (kmd_bend.region_total[memory->region]) {
		take_lock();
		memory->total = kmd_bend.region_total[memory->region];
		memory->free = memory->total - used[memory->region];
		give_lock();
	}
	if (kmd_bend.is_contiguous)
		memory->contiguity = DRM_QBNPU_CONTIGUITY_DRIVER;
	if (kmd_bend.bend_memory)
		kmd_bend.bend_memory(memory);
}

static int bend_query(int file, struct drm_qbnpu_query *query)
{
	int err = qbrt_kmd_soft.ioctl(file, DRM_IOCTL_QBNPU_QUERY, query);

	if (err)
		return err;
	if (query->type == DRM_QBNPU_QUERY_DEVICE)
		bend_device(file, (void *)(uintptr_t)query->data);
	if (query->type == DRM_QBNPU_QUERY_MEMORY)
		bend_memory((void *)(uintptr_t)query->data);
	return 0;
}

/* Called with the lock held. */
static int create_in_region(int file, struct drm_qbnpu_bo_create *create)
{
	uint64_t total = kmd_bend.region_total[create->region];
	uint64_t paged_size = qbrt_round_up(create->size, PAGE_SIZE);
	uint32_t flags = create->flags;
	int err;

	if (total && create->size > total - used[create->region]) {
		create->limit = total - used[create->region];
		return -ENOMEM;
	}
	if (kmd_bend.is_contiguous)
		create->flags = 0;
	err = qbrt_kmd_soft.ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, create);
	create->flags = flags;
	if (err)
		return err;
	if (kmd_bend.is_contiguous)
		create->contiguity = DRM_QBNPU_CONTIGUITY_DRIVER;
	if (kmd_bend.is_paged) {
		create->size = paged_size;
		if (!kmd_bend.is_contiguous)
			create->contiguity = DRM_QBNPU_CONTIGUITY_LOCKED;
	}
	used[create->region] += create->size;
	handle_sizes[create->handle % MAX_HANDLES] = create->size;
	handle_regions[create->handle % MAX_HANDLES] = create->region;
	return 0;
}

static int bend_create(int file, struct drm_qbnpu_bo_create *create)
{
	int err;

	atomic_store(&kmd_bend.last_size, create->size);
	if (kmd_bend.num_regions && create->region >= kmd_bend.num_regions)
		return -EINVAL;
	take_lock();
	err = create_in_region(file, create);
	give_lock();
	return err;
}

static int bend_gem_close(int file, struct drm_gem_close *gem_close)
{
	uint32_t at = gem_close->handle % MAX_HANDLES;

	take_lock();
	used[handle_regions[at]] -= handle_sizes[at];
	handle_sizes[at] = 0;
	give_lock();
	return qbrt_kmd_soft.ioctl(file, DRM_IOCTL_GEM_CLOSE, gem_close);
}

/* Of the requests that are to fail; 0: this one is not. */
static int take_failure(void)
{
	if (atomic_fetch_sub(&kmd_bend.fail_skip, 1) <= 0 &&
	    atomic_fetch_sub(&kmd_bend.fail_times, 1) > 0)
		return kmd_bend.fail_err;
	return 0;
}

static int bend_ioctl(int file, unsigned long request, void *arg)
{
	int err;

	atomic_fetch_add(&kmd_bend.num_requests, 1);
	if (request == kmd_bend.fail_request ||
	    (kmd_bend.fails_any && request != DRM_IOCTL_GEM_CLOSE)) {
		err = take_failure();
		if (err && kmd_bend.on_fail)
			kmd_bend.on_fail();
		if (err)
			return err;
	}
	switch (request) {
	case DRM_IOCTL_QBNPU_QUERY:
		return bend_query(file, arg);
	case DRM_IOCTL_QBNPU_BO_CREATE:
		return bend_create(file, arg);
	case DRM_IOCTL_GEM_CLOSE:
		return bend_gem_close(file, arg);
	default:
		break;
	}
	err = qbrt_kmd_soft.ioctl(file, request, arg);
	if (!err && request == DRM_IOCTL_QBNPU_QUEUE_CREATE)
		atomic_fetch_add(&kmd_bend.num_queues, 1);
	if (!err && request == DRM_IOCTL_QBNPU_BO_INFO &&
	    kmd_bend.hides_address)
		((struct drm_qbnpu_bo_info *)arg)->device_addr =
			DRM_QBNPU_UNKNOWN;
	return err;
}

static int bend_mmap(int file, uint64_t offset, size_t length, int prot,
		     void **address)
{
	atomic_fetch_add(&kmd_bend.num_requests, 1);
	if (kmd_bend.mmap_err)
		return kmd_bend.mmap_err;
	if (kmd_bend.fails_any && take_failure())
		return kmd_bend.fail_err;
	return qbrt_kmd_soft.mmap(file, offset, length, prot, address);
}

static int bend_munmap(int file, void *address, size_t length)
{
	atomic_fetch_add(&kmd_bend.num_unmaps, 1);
	return qbrt_kmd_soft.munmap(file, address, length);
}

static int bend_poll(int file, int64_t deadline_ns)
{
	return qbrt_kmd_soft.poll(file, deadline_ns);
}

const struct qbrt_kmd kmd_bend_driver = {
	.name = "bend",
	.list = bend_list,
	.open = bend_open,
	.close = bend_close,
	.ioctl = bend_ioctl,
	.mmap = bend_mmap,
	.munmap = bend_munmap,
	.poll = bend_poll,
};

bool kmd_bend_can_lock(size_t nbytes)
{
	void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can_lock;

	if (memory == MAP_FAILED)
		return false;
	can_lock = !mlock(memory, nbytes);
	(void)munmap(memory, nbytes);
	return can_lock;
}
