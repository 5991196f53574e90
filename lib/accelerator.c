// SPDX-License-Identifier: MIT
/*
 * The table of open devices and the handles on it. A device is opened and
 * closed outside the registry lock, which guards the table and the counts
 * alone, so no driver runs under it. Fork takes the locks for its moment: a
 * child finds them free, and the table empty (Q748).
 */
#include "accelerator.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accelerator-pool.h"
#include "counters.h"
#include "device-info.h"
#include "log.h"
#include "status.h"
#include "trace.h"
#include "util.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct qbrt_device *devices; /* registry lock */
/* changes in a new child only */
atomic_int qbrt_fork_count = 1;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void begin_fork(void)
{
	struct qbrt_device *device;

	(void)pthread_mutex_lock(&registry_lock);
	for (device = devices; device; device = device->next)
		(void)pthread_mutex_lock(&device->pools->buffer_lock);
}

static void end_fork(void)
{
	struct qbrt_device *device;

	for (device = devices; device; device = device->next)
		(void)pthread_mutex_unlock(&device->pools->buffer_lock);
	(void)pthread_mutex_unlock(&registry_lock);
}

static void end_fork_in_child(void)
{
	struct qbrt_device *inherited = devices;

	end_fork();
	(void)atomic_fetch_add(&qbrt_fork_count, 1);
	devices = NULL;
	/* out of the table: nobody walks on from one to the next */
	while (inherited) {
		struct qbrt_device *next = inherited->next;

		inherited->next = NULL;
		inherited = next;
	}
}

static void watch_forks(void)
{
	(void)pthread_atfork(begin_fork, end_fork, end_fork_in_child);
}

enum qbrt_status qbrt_device_check_fork(const struct qbrt_device *device)
{
	if (!qbrt_device_is_inherited(device))
		return QBRT_OK;
	return qbrt_fail(QBRT_FORKED_PROCESS,
			 "device %s was opened before fork and belongs to the "
			 "parent: open it anew in this process, or exec a new "
			 "program",
			 device->id);
}

struct qbrt_device *qbrt_device_ref(struct qbrt_device *device)
{
	atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
	return device;
}

/* The file ends queues and buffers; only mappings must be given back before. */
static void close_device(struct qbrt_device *device)
{
	struct qbrt_device_part *retire = atomic_load(&device->retire);

	if (retire)
		retire->stop(retire);
	(void)qbrt_device_trim(device);
	qbrt_device_unmap_progress(device);
	if (!qbrt_device_is_inherited(device)) {
		device->kmd->close(device->file);
		qbrt_trace_remove_device(device->facts.instance);
	}
	qbrt_device_pools_free(device->pools);
	qbrt_device_free_texts(device);
	free(device);
	qbrt_uncount(open_devices);
}

/* false: it is the last one, which may only go under the registry lock. */
static bool drop_spare(struct qbrt_device *device)
{
	unsigned int references =
		atomic_load_explicit(&device->references, memory_order_relaxed);

	while (references > 1)
		if (atomic_compare_exchange_weak_explicit(
			    &device->references, &references, references - 1,
			    memory_order_release, memory_order_relaxed))
			return true;
	return false;
}

void qbrt_device_unref(struct qbrt_device *device)
{
	struct qbrt_device **link;
	bool is_last;

	if (!device || drop_spare(device))
		return;
	(void)pthread_mutex_lock(&registry_lock);
	is_last = atomic_fetch_sub(&device->references, 1) == 1;
	for (link = &devices; is_last && *link; link = &(*link)->next)
		if (*link == device) {
			*link = device->next;
			break;
		}
	(void)pthread_mutex_unlock(&registry_lock);
	if (is_last)
		close_device(device);
}

/*
 * With a reference for the caller, or NULL. Another instance behind the same
 * node is another device: the old one was lost.
 */
static struct qbrt_device *find_open(const struct qbrt_kmd *kmd,
				     const char *path, uint64_t instance)
{
	struct qbrt_device *device;

	for (device = devices; device; device = device->next)
		if (device->kmd == kmd && !strcmp(device->path, path) &&
		    device->facts.instance == instance) {
			(void)qbrt_device_ref(device);
			break;
		}
	return device;
}

/* The device behind a node; found's name and number are what users know. */
static void name_device(struct qbrt_device *device,
			const struct qbrt_found_device *found)
{
	(void)snprintf(device->id, sizeof(device->id), "%s:%d", found->name,
		       found->number);
	memcpy(device->name, found->name, sizeof(device->name));
	memcpy(device->path, found->node.path, sizeof(device->path));
	device->number = found->number;
	device->owner_pid_generation = qbrt_fork_generation();
	atomic_init(&device->references, 1);
}

/* Q784 */
static void add_to_trace(const struct qbrt_device *device,
			 const struct qbrt_device_facts *facts)
{
	struct qbrt_trace_device traced = {
		.instance = device->facts.instance,
		.core_mask = device->facts.core_mask,
		.kind = device->facts.kind == DRM_QBNPU_KIND_SOFTWARE
				? "software"
				: "hardware",
	};

	memcpy(traced.id, device->id, sizeof(traced.id));
	memcpy(traced.driver, facts->driver, sizeof(traced.driver));
	memcpy(traced.driver_version, facts->driver_version,
	       sizeof(traced.driver_version));
	memcpy(traced.firmware, facts->firmware, sizeof(traced.firmware));
	(void)snprintf(traced.uapi_version, sizeof(traced.uapi_version),
		       "%u.%u", device->facts.uapi_major,
		       device->facts.uapi_minor);
	qbrt_trace_add_device(&traced);
}

/* NULL: *status says why. */
static struct qbrt_device *open_device(const struct qbrt_discovery *discovery,
				       const struct qbrt_found_device *found,
				       enum qbrt_status *status)
{
	struct qbrt_device *device = calloc(1, sizeof(*device));
	struct qbrt_device_facts facts;
	int err;

	if (device)
		device->pools = qbrt_device_pools_alloc();
	if (!device || !device->pools) {
		*status = qbrt_fail_errno(QBRT_AT_OPEN, -ENOMEM,
					  "no memory for an open device");
		goto err_free;
	}
	device->kmd = found->kmd;
	name_device(device, found);
	err = device->kmd->open(&discovery->env.kmd, device->path,
				&device->file);
	if (err) {
		*status = qbrt_fail_errno(
			QBRT_AT_OPEN, err, "device %s (%s) does not open: %s",
			device->id, device->path, qbrt_errno_words(err));
		goto err_free;
	}
	err = qbrt_device_facts_query(device->kmd, device->file, &facts);
	if (err) {
		*status = qbrt_fail_errno(
			err == -EPROTO ? QBRT_AT_OPEN : QBRT_AT_QUERY, err,
			"device %s (%s) does not tell what it is", device->id,
			device->path);
		goto err_close;
	}
	device->facts = facts.device;
	memcpy(device->regions, facts.regions, sizeof(device->regions));
	add_to_trace(device, &facts);
	return device;

err_close:
	device->kmd->close(device->file);
err_free:
	if (device)
		qbrt_device_pools_free(device->pools);
	free(device);
	return NULL;
}

/* Into the table, unless the same device is there: then that one. */
static struct qbrt_device *publish(struct qbrt_device *device)
{
	struct qbrt_device *other;

	qbrt_count(open_devices);
	(void)pthread_mutex_lock(&registry_lock);
	other = find_open(device->kmd, device->path, device->facts.instance);
	if (!other) {
		device->next = devices;
		devices = device;
	}
	(void)pthread_mutex_unlock(&registry_lock);
	if (!other)
		return device;
	close_device(device);
	return other;
}

static enum qbrt_status check_timeout(const struct qbrt_discovery *discovery,
				      const struct qbrt_found_device *found)
{
	uint64_t longest = found->facts.device.max_job_ns;
	uint64_t timeout = (uint64_t)discovery->env.npu_timeout_ns;

	if (timeout <= longest)
		return QBRT_OK;
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "QBRUNTIME_NPU_TIMEOUT_MS is %llu ms, but a job on "
			 "device %s:%d may last %llu ms at most; 0 means that",
			 (unsigned long long)(timeout / QBRT_NS_PER_MS),
			 found->name, found->number,
			 (unsigned long long)(longest / QBRT_NS_PER_MS));
}

static int64_t get_timeout(const struct qbrt_discovery *discovery,
			   const struct qbrt_device *device)
{
	uint64_t longest = device->facts.max_job_ns;

	if (discovery->env.npu_timeout_ns)
		return discovery->env.npu_timeout_ns;
	return longest > INT64_MAX ? INT64_MAX : (int64_t)longest;
}

/* Q117 */
static void log_default_choice(const struct qbrt_discovery *discovery,
			       const struct qbrt_found_device *found)
{
	static atomic_flag is_logged = ATOMIC_FLAG_INIT;

	if (!discovery->env.is_soft_default ||
	    found->facts.device.kind != DRM_QBNPU_KIND_SOFTWARE ||
	    atomic_flag_test_and_set(&is_logged))
		return;
	qbrt_log(QBRT_LOG_LEVEL_INFO, "accelerator",
		 "no NPU in this machine: %s:%d is a software NPU; "
		 "QBRUNTIME_SOFT_DEVICES chooses others, or none",
		 found->name, found->number);
}

static enum qbrt_status take_device(const struct qbrt_discovery *discovery,
				    const struct qbrt_found_device *found,
				    struct qbrt_device **result)
{
	struct qbrt_device *device;
	enum qbrt_status status = check_timeout(discovery, found);

	if (status)
		return status;
	(void)pthread_mutex_lock(&registry_lock);
	device = find_open(found->kmd, found->node.path,
			   found->facts.device.instance);
	(void)pthread_mutex_unlock(&registry_lock);
	if (!device) {
		device = open_device(discovery, found, &status);
		if (!device)
			return status;
		device->npu_timeout_ns = get_timeout(discovery, device);
		device = publish(device);
	}
	*result = device;
	return QBRT_OK;
}

/* The n-th open device with a reference for the caller, or NULL. */
static struct qbrt_device *ref_open(size_t n)
{
	struct qbrt_device *device;

	(void)pthread_mutex_lock(&registry_lock);
	for (device = devices; device && n; device = device->next)
		n--;
	if (device)
		(void)qbrt_device_ref(device);
	(void)pthread_mutex_unlock(&registry_lock);
	return device;
}

/* Freed buffers of open devices hold descriptors too. true: there were some. */
static bool trim_all(void)
{
	struct qbrt_device *device;
	bool has_trimmed = false;
	size_t n;

	for (n = 0; (device = ref_open(n)); n++) {
		has_trimmed |= qbrt_device_trim(device);
		qbrt_device_unref(device);
	}
	return has_trimmed;
}

static enum qbrt_status open_by_name(const char *name, int number,
				     struct qbrt_device **device)
{
	const struct qbrt_found_device *found = NULL;
	struct qbrt_discovery *discovery;
	enum qbrt_status status = qbrt_discovery_list(true, &discovery);

	if (status)
		return status;
	status = qbrt_discovery_find(discovery, name, number, &found);
	if (!status)
		status = take_device(discovery, found, device);
	if (!status)
		log_default_choice(discovery, found);
	qbrt_discovery_free(discovery);
	return status;
}

QBRT_API enum qbrt_status qbrt_accelerator_open(const char *name, int number,
						struct qbrt_accelerator **acc)
{
	struct qbrt_accelerator *handle;
	enum qbrt_status status;

	if (!acc)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "acc is NULL");
	(void)pthread_once(&fork_once, watch_forks);
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return qbrt_fail_errno(QBRT_AT_OPEN, -ENOMEM,
				       "no memory for an accelerator");
	status = open_by_name(name, number, &handle->device);
	if (status == QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY && trim_all())
		status = open_by_name(name, number, &handle->device);
	if (status) {
		free(handle);
		return status;
	}
	*acc = handle;
	return QBRT_OK;
}

QBRT_API void qbrt_accelerator_close(struct qbrt_accelerator *acc)
{
	if (!acc)
		return;
	qbrt_device_unref(acc->device);
	free(acc);
}

QBRT_API const char *qbrt_accelerator_get_id(const struct qbrt_accelerator *acc)
{
	return acc ? acc->device->id : NULL;
}

QBRT_API const char *
qbrt_accelerator_get_name(const struct qbrt_accelerator *acc)
{
	return acc ? acc->device->name : NULL;
}

QBRT_API int qbrt_accelerator_get_number(const struct qbrt_accelerator *acc)
{
	return acc ? acc->device->number : 0;
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_info(const struct qbrt_accelerator *acc,
			    struct qbrt_device_info **info)
{
	struct qbrt_found_device found = { 0 };
	struct qbrt_device_info *snapshot;
	struct qbrt_device *device;
	enum qbrt_status status;
	int err;

	if (!acc || !info)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 acc ? "info" : "acc");
	device = acc->device;
	status = qbrt_device_check_fork(device);
	if (status)
		return status;
	err = qbrt_device_facts_query(device->kmd, device->file, &found.facts);
	if (err)
		return qbrt_fail_errno(QBRT_AT_QUERY, err,
				       "device %s does not tell what it is",
				       device->id);
	memcpy(found.name, device->name, sizeof(found.name));
	memcpy(found.node.path, device->path, sizeof(found.node.path));
	found.number = device->number;
	/* what the pool keeps is free for whoever asks (Q473) */
	found.facts.regions[DRM_QBNPU_REGION_LOCAL].free +=
		qbrt_device_get_pooled_local_nbytes(device);
	snapshot = qbrt_device_info_alloc(&found);
	if (!snapshot)
		return qbrt_fail_errno(QBRT_AT_QUERY, -ENOMEM,
				       "no memory for a device info");
	*info = snapshot;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_cores(const struct qbrt_accelerator *acc,
			     struct qbrt_core_id *cores, size_t max_cores,
			     size_t *num_cores)
{
	enum qbrt_status status;
	size_t num = 0;
	uint64_t mask;

	if (!acc || !num_cores || (!cores && max_cores))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 !acc         ? "acc"
				 : !num_cores ? "num_cores"
					      : "cores");
	status = qbrt_device_check_fork(acc->device);
	if (status)
		return status;
	/* bit cluster * 8 + core; the public numbers start at 1 */
	for (mask = acc->device->facts.core_mask; mask; mask &= mask - 1) {
		unsigned int bit = (unsigned int)__builtin_ctzll(mask);

		if (num < max_cores) {
			cores[num].cluster =
				(enum qbrt_cluster)((bit / 8 + 1) << 16);
			cores[num].core = (enum qbrt_core)(bit % 8 + 1);
		}
		num++;
	}
	*num_cores = num;
	return QBRT_OK;
}
