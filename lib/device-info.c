// SPDX-License-Identifier: MIT
/*
 * Device infos: immutable snapshots of what a device told, with strings of
 * their own. They hold no file, so they outlive the device and cross fork.
 */
#include "device-info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "status.h"
#include "util.h"
#include "uuid.h"

/* Container versions that this library reads: major << 16 | minor. */
#define CONTAINER_MIN (1u << 16)
#define CONTAINER_MAX (1u << 16)

struct qbrt_device_info {
	char id[48];
	char node[64];
	char uapi_version[24];
	char uuid[QBRT_UUID_TEXT_SIZE];
	char name[32];
	int number;
	struct qbrt_name_list features;
	struct qbrt_name_list isa_features;
	struct qbrt_name_list backends;
	struct qbrt_device_facts facts;
};

/* docs/spec/qbinfo.md, 7: it survives reboots and other slots. */
static void fill_uuid(struct qbrt_device_info *info)
{
	const struct drm_qbnpu_query_device *device = &info->facts.device;
	char url[QBRT_UUID_MAX_URL];

	if (!*device->serial)
		return;
	(void)snprintf(url, sizeof(url), "qbnpu:%s:%s", info->name,
		       device->serial);
	qbrt_uuid_of_url(url, info->uuid);
}

static void fill_names(struct qbrt_device_info *info)
{
	const struct drm_qbnpu_query_device *device = &info->facts.device;

	qbrt_list_features(device->features, &info->features);
	qbrt_list_isa_features(device->isa_features, &info->isa_features);
	if (device->kind == DRM_QBNPU_KIND_SOFTWARE)
		qbrt_list_backends(&info->backends);
}

struct qbrt_device_info *
qbrt_device_info_alloc(const struct qbrt_found_device *device)
{
	struct qbrt_device_info *info = calloc(1, sizeof(*info));

	if (!info)
		return NULL;
	(void)snprintf(info->id, sizeof(info->id), "%s:%d", device->name,
		       device->number);
	memcpy(info->node, device->node.path, sizeof(info->node));
	memcpy(info->name, device->name, sizeof(info->name));
	info->number = device->number;
	info->facts = device->facts;
	(void)snprintf(info->uapi_version, sizeof(info->uapi_version), "%u.%u",
		       device->facts.device.uapi_major,
		       device->facts.device.uapi_minor);
	fill_uuid(info);
	fill_names(info);
	return info;
}

/* The visible ones that name means; NULL here means all of them. */
static enum qbrt_status fill_list(const struct qbrt_discovery *discovery,
				  const char *name,
				  struct qbrt_device_info **infos,
				  size_t *num_infos)
{
	size_t i, num = 0;

	for (i = 0; i < discovery->num_answering; i++) {
		const struct qbrt_found_device *device = &discovery->devices[i];

		if (!device->is_visible ||
		    (name && !qbrt_device_name_matches(name, device->name)))
			continue;
		infos[num] = qbrt_device_info_alloc(device);
		if (!infos[num]) {
			while (num)
				free(infos[--num]);
			return qbrt_fail_errno(QBRT_AT_LIST, -ENOMEM,
					       "no memory for a device info");
		}
		num++;
	}
	*num_infos = num;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_device_info_list(const char *name, struct qbrt_device_info ***infos,
		      size_t *num_infos)
{
	struct qbrt_device_info **list;
	struct qbrt_discovery *discovery;
	enum qbrt_status status;

	if (!infos || !num_infos)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s is NULL",
				 infos ? "num_infos" : "infos");
	status = qbrt_discovery_list(false, &discovery);
	if (status)
		return status;
	if (name)
		status = qbrt_discovery_check_name(discovery, name);
	if (status)
		goto err_free_discovery;
	/* one more, so that an empty list is no NULL */
	list = calloc(discovery->num_answering + 1,
		      sizeof(struct qbrt_device_info *));
	if (!list) {
		status = qbrt_fail_errno(QBRT_AT_LIST, -ENOMEM,
					 "no memory for the list of devices");
		goto err_free_discovery;
	}
	status = fill_list(discovery, name, list, num_infos);
	if (status)
		free(list);
	else
		*infos = list;
err_free_discovery:
	qbrt_discovery_free(discovery);
	return status;
}

QBRT_API void qbrt_device_info_list_free(struct qbrt_device_info **infos,
					 size_t num_infos)
{
	size_t i;

	if (!infos)
		return;
	for (i = 0; i < num_infos; i++)
		free(infos[i]);
	free(infos);
}

QBRT_API void qbrt_device_info_free(struct qbrt_device_info *info)
{
	free(info);
}

/* Absent strings are NULL, never "". */
static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

QBRT_API const char *
qbrt_device_info_get_id(const struct qbrt_device_info *info)
{
	return info ? info->id : NULL;
}

QBRT_API const char *
qbrt_device_info_get_name(const struct qbrt_device_info *info)
{
	return info ? info->name : NULL;
}

QBRT_API int qbrt_device_info_get_number(const struct qbrt_device_info *info)
{
	return info ? info->number : 0;
}

QBRT_API enum qbrt_device_kind
qbrt_device_info_get_kind(const struct qbrt_device_info *info)
{
	if (!info)
		return QBRT_DEVICE_KIND_NONE;
	switch (info->facts.device.kind) {
	case DRM_QBNPU_KIND_HARDWARE:
		return QBRT_DEVICE_KIND_HARDWARE;
	case DRM_QBNPU_KIND_SOFTWARE:
		return QBRT_DEVICE_KIND_SOFTWARE;
	default:
		return QBRT_DEVICE_KIND_NONE;
	}
}

QBRT_API const char *
qbrt_device_info_get_family(const struct qbrt_device_info *info)
{
	if (!info)
		return NULL;
	switch (info->facts.device.profile) {
	case DRM_QBNPU_PROFILE_ARIES:
		return "aries";
	case DRM_QBNPU_PROFILE_REGULUS:
		return "regulus";
	default:
		return NULL;
	}
}

QBRT_API const char *
qbrt_device_info_get_product(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->facts.device.product) : NULL;
}

QBRT_API const char *
qbrt_device_info_get_driver(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->facts.driver) : NULL;
}

QBRT_API const char *
qbrt_device_info_get_driver_version(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->facts.driver_version) : NULL;
}

QBRT_API const char *
qbrt_device_info_get_uapi_version(const struct qbrt_device_info *info)
{
	return info ? info->uapi_version : NULL;
}

QBRT_API const char *
qbrt_device_info_get_firmware(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->facts.firmware) : NULL;
}

/* No request tells the bus: a driver that has one on a bus adds it. */
QBRT_API const char *
qbrt_device_info_get_bus(const struct qbrt_device_info *info)
{
	(void)info;
	return NULL;
}

QBRT_API const char *
qbrt_device_info_get_node(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->node) : NULL;
}

/* As the bus. NULL answers 0 as every number does (Q733). */
QBRT_API int qbrt_device_info_get_numa_node(const struct qbrt_device_info *info)
{
	return info ? -1 : 0;
}

QBRT_API size_t
qbrt_device_info_get_num_clusters(const struct qbrt_device_info *info)
{
	return info ? info->facts.device.clusters : 0;
}

QBRT_API size_t qbrt_device_info_get_local_cores_per_cluster(
	const struct qbrt_device_info *info)
{
	return info ? info->facts.device.local_cores : 0;
}

QBRT_API size_t qbrt_device_info_get_global_cores_per_cluster(
	const struct qbrt_device_info *info)
{
	return info ? info->facts.device.global_cores : 0;
}

/* The uAPI numbers the modes as enum qbrt_core_mode does. */
QBRT_API uint32_t
qbrt_device_info_get_core_modes(const struct qbrt_device_info *info)
{
	return info ? info->facts.device.core_modes : 0;
}

static bool is_mappable(const struct qbrt_device_info *info, size_t region)
{
	return info->facts.regions[region].flags & DRM_QBNPU_REGION_MAPPABLE;
}

/* Of pinned memory: every element type, where there is pinned memory. */
QBRT_API uint32_t
qbrt_device_info_get_dtypes(const struct qbrt_device_info *info)
{
	if (!info || (!is_mappable(info, DRM_QBNPU_REGION_LOCAL) &&
		      !is_mappable(info, DRM_QBNPU_REGION_SYSTEM)))
		return 0;
	return (1u << QBRT_NUM_DTYPES) - 1;
}

/* What a region gives with the contiguous flag; without it at least locked. */
QBRT_API uint32_t
qbrt_device_info_get_contiguity_classes(const struct qbrt_device_info *info)
{
	uint32_t classes = 0;
	size_t i;

	for (i = 0; info && i < QBRT_MAX_REGIONS; i++) {
		uint32_t contiguity = info->facts.regions[i].contiguity;

		if (!is_mappable(info, i) ||
		    contiguity > QBRT_CONTIGUITY_DRIVER)
			continue;
		classes |= 1u << contiguity;
		if (contiguity != QBRT_CONTIGUITY_DRIVER)
			classes |= 1u << QBRT_CONTIGUITY_LOCKED;
	}
	return classes & ~(1u << QBRT_CONTIGUITY_NONE);
}

QBRT_API uint64_t
qbrt_device_info_get_memory_total(const struct qbrt_device_info *info)
{
	return info ? info->facts.regions[DRM_QBNPU_REGION_LOCAL].total : 0;
}

QBRT_API uint64_t
qbrt_device_info_get_memory_free(const struct qbrt_device_info *info)
{
	return info ? info->facts.regions[DRM_QBNPU_REGION_LOCAL].free : 0;
}

/* Of the region that pinned memory takes first (Q472). */
QBRT_API uint64_t
qbrt_device_info_get_pinned_limit(const struct qbrt_device_info *info)
{
	const struct drm_qbnpu_query_memory *region;

	if (!info)
		return 0;
	region = &info->facts.regions[DRM_QBNPU_REGION_SYSTEM];
	if (!is_mappable(info, DRM_QBNPU_REGION_SYSTEM))
		region = &info->facts.regions[DRM_QBNPU_REGION_LOCAL];
	return region->client_limit < region->total ? region->client_limit
						    : region->total;
}

QBRT_API uint32_t
qbrt_device_info_get_container_min(const struct qbrt_device_info *info)
{
	return info ? CONTAINER_MIN : 0;
}

QBRT_API uint32_t
qbrt_device_info_get_container_max(const struct qbrt_device_info *info)
{
	return info ? CONTAINER_MAX : 0;
}

QBRT_API const char *
qbrt_device_info_get_serial(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->facts.device.serial) : NULL;
}

QBRT_API const char *
qbrt_device_info_get_uuid(const struct qbrt_device_info *info)
{
	return info ? text_or_null(info->uuid) : NULL;
}

QBRT_API enum qbrt_device_state
qbrt_device_info_get_state(const struct qbrt_device_info *info)
{
	if (!info)
		return QBRT_DEVICE_STATE_NONE;
	switch (info->facts.device.state) {
	case DRM_QBNPU_STATE_READY:
		return QBRT_DEVICE_STATE_READY;
	case DRM_QBNPU_STATE_RESETTING:
		return QBRT_DEVICE_STATE_RESETTING;
	case DRM_QBNPU_STATE_DEGRADED:
		return QBRT_DEVICE_STATE_DEGRADED;
	case DRM_QBNPU_STATE_LOST:
		return QBRT_DEVICE_STATE_LOST;
	default:
		return QBRT_DEVICE_STATE_NONE;
	}
}

/* Of the regions that pinned memory takes one after the other (Q472). */
QBRT_API uint64_t
qbrt_device_info_get_contiguous_free(const struct qbrt_device_info *info)
{
	uint64_t largest = 0;
	size_t i;

	for (i = 0; info && i < QBRT_MAX_REGIONS; i++) {
		const struct drm_qbnpu_query_memory *region =
			&info->facts.regions[i];

		if (is_mappable(info, i) &&
		    region->flags & DRM_QBNPU_REGION_LARGEST_KNOWN &&
		    region->largest_free > largest)
			largest = region->largest_free;
	}
	return largest;
}

QBRT_API uint32_t
qbrt_device_info_get_isa_version(const struct qbrt_device_info *info)
{
	if (!info)
		return 0;
	return (uint32_t)info->facts.device.isa_major << 16 |
	       info->facts.device.isa_minor;
}

static const char *const *get_names(const struct qbrt_name_list *list,
				    size_t *num_names)
{
	if (num_names)
		*num_names = list ? list->num : 0;
	return list ? list->names : NULL;
}

QBRT_API const char *const *
qbrt_device_info_get_isa_features(const struct qbrt_device_info *info,
				  size_t *num_names)
{
	return get_names(info ? &info->isa_features : NULL, num_names);
}

QBRT_API const char *const *
qbrt_device_info_get_features(const struct qbrt_device_info *info,
			      size_t *num_names)
{
	return get_names(info ? &info->features : NULL, num_names);
}

QBRT_API const char *const *
qbrt_device_info_get_backends(const struct qbrt_device_info *info,
			      size_t *num_names)
{
	return get_names(info ? &info->backends : NULL, num_names);
}

static int64_t to_time(uint64_t ns)
{
	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

QBRT_API void qbrt_device_info_get_limits(const struct qbrt_device_info *info,
					  struct qbrt_device_limits *limits)
{
	struct qbrt_device_limits now = { 0 };

	if (!limits || limits->size < sizeof(limits->size))
		return;
	now.size = limits->size;
	if (info) {
		const struct drm_qbnpu_query_device *device =
			&info->facts.device;

		now.max_jobs = device->max_jobs;
		now.max_queues = device->max_queues;
		now.max_bindings = device->max_bindings;
		now.max_programs = device->max_programs;
		now.max_program_nbytes = device->max_program_size;
		now.max_pinned_nbytes = device->max_bo_size;
		now.default_job_time = to_time(device->default_job_ns);
		now.max_job_time = to_time(device->max_job_ns);
	}
	qbrt_answer(limits, now.size, &now, sizeof(now));
}
