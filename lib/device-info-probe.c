// SPDX-License-Identifier: MIT
/*
 * Discovery: asks every node of every driver, numbers the devices per name and
 * applies visibility. Nothing is cached: variables and nodes are looked at
 * anew each time. No lock is held; files are open only while they are asked.
 */
#include "device-info.h"

#include <drm.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"
#include "status.h"
#include "util.h"

static int query(const struct qbrt_kmd *kmd, int file, uint32_t type,
		 uint32_t index, void *data, uint32_t size)
{
	struct drm_qbnpu_query query = {
		.type = type,
		.index = index,
		.data = (uintptr_t)data,
		.size = size,
	};

	return kmd->ioctl(file, DRM_IOCTL_QBNPU_QUERY, &query);
}

static int query_driver(const struct qbrt_kmd *kmd, int file,
			struct qbrt_device_facts *facts)
{
	char date[32];
	char desc[128];
	/* every field has room: a driver may copy without looking */
	struct drm_version version = {
		.name_len = sizeof(facts->driver) - 1,
		.name = facts->driver,
		.date_len = sizeof(date),
		.date = date,
		.desc_len = sizeof(desc),
		.desc = desc,
	};
	int err = kmd->ioctl(file, DRM_IOCTL_VERSION, &version);

	if (err)
		return err;
	(void)snprintf(facts->driver_version, sizeof(facts->driver_version),
		       "%d.%d.%d", version.version_major, version.version_minor,
		       version.version_patchlevel);
	return 0;
}

/* Firmware is not known to every device; that is no error. */
static int query_firmware(const struct qbrt_kmd *kmd, int file,
			  struct qbrt_device_facts *facts)
{
	struct drm_qbnpu_query_firmware firmware = { 0 };
	int err = query(kmd, file, DRM_QBNPU_QUERY_FIRMWARE, 0, &firmware,
			sizeof(firmware));

	if (err == -EOPNOTSUPP)
		return 0;
	if (err)
		return err;
	if (firmware.flags & DRM_QBNPU_FIRMWARE_VERSION)
		(void)snprintf(facts->firmware, sizeof(facts->firmware), "%.*s",
			       (int)sizeof(firmware.version) - 1,
			       firmware.version);
	return 0;
}

int qbrt_device_facts_query(const struct qbrt_kmd *kmd, int file,
			    struct qbrt_device_facts *facts)
{
	struct drm_qbnpu_query_device *device = &facts->device;
	uint32_t i;
	int err;

	memset(facts, 0, sizeof(*facts));
	err = query(kmd, file, DRM_QBNPU_QUERY_DEVICE, 0, device,
		    sizeof(*device));
	if (err)
		return err;
	if (device->uapi_major != DRM_QBNPU_MAJOR)
		return -EPROTO;
	device->name[sizeof(device->name) - 1] = '\0';
	device->product[sizeof(device->product) - 1] = '\0';
	device->serial[sizeof(device->serial) - 1] = '\0';
	for (i = 0; i < device->num_regions && i < QBRT_MAX_REGIONS; i++) {
		struct drm_qbnpu_query_memory region = { 0 };

		err = query(kmd, file, DRM_QBNPU_QUERY_MEMORY, i, &region,
			    sizeof(region));
		if (err)
			return err;
		if (region.region >= QBRT_MAX_REGIONS)
			return -EPROTO;
		facts->regions[region.region] = region;
	}
	err = query_driver(kmd, file, facts);
	return err ? err : query_firmware(kmd, file, facts);
}

static void probe(const struct qbrt_discovery *discovery,
		  struct qbrt_found_device *device)
{
	const struct qbrt_kmd *kmd = device->kmd;
	int file;

	device->number = device->node.number;
	device->err = kmd->open(&discovery->env.kmd, device->node.path, &file);
	if (device->err)
		return;
	device->err = qbrt_device_facts_query(kmd, file, &device->facts);
	kmd->close(file);
	if (device->err)
		memset(&device->facts, 0, sizeof(device->facts));
	else
		memcpy(device->name, device->facts.device.name,
		       sizeof(device->name));
}

/* Those that answer first, names in the order of Q080, others after them. */
static int compare_devices(const void *a, const void *b)
{
	const struct qbrt_found_device *x = a;
	const struct qbrt_found_device *y = b;
	size_t rank_x = qbrt_device_name_rank(x->name);
	size_t rank_y = qbrt_device_name_rank(y->name);
	int order;

	if (!x->err != !y->err)
		return x->err ? 1 : -1;
	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	order = strcasecmp(x->name, y->name);
	return order ? order
		     : (x->number > y->number) - (x->number < y->number);
}

/* Software devices follow the largest hardware number of their name (Q083). */
static void number_devices(struct qbrt_discovery *discovery)
{
	size_t i, j;

	for (i = 0; i < discovery->num_devices; i++) {
		struct qbrt_found_device *device = &discovery->devices[i];
		int number = 0;

		if (device->err || device->node.number >= 0)
			continue;
		for (j = 0; j < discovery->num_devices; j++) {
			const struct qbrt_found_device *other =
				&discovery->devices[j];

			if (!other->err && other->number >= number &&
			    !strcasecmp(other->name, device->name))
				number = other->number + 1;
		}
		device->number = number;
	}
}

static bool is_visible(const struct qbrt_env *env,
		       const struct qbrt_found_device *device)
{
	size_t i;

	if (!env->visible_variable)
		return true;
	if (env->is_visible_malformed)
		return false;
	for (i = 0; i < env->num_visible; i++) {
		const struct qbrt_env_visible *item = &env->visible[i];

		if (item->number == device->number &&
		    (!*item->name || !strcasecmp(item->name, device->name)))
			return true;
	}
	return false;
}

/* Appends the nodes of one driver; those that come meanwhile are left out. */
static int list_nodes(struct qbrt_discovery *discovery,
		      const struct qbrt_kmd *kmd)
{
	struct qbrt_found_device *devices;
	struct qbrt_kmd_node *nodes;
	size_t room, num, i;
	int err = kmd->list(&discovery->env.kmd, NULL, 0, &room);

	if (err || !room)
		return err;
	devices = realloc(discovery->devices,
			  (discovery->num_devices + room) * sizeof(*devices));
	if (!devices)
		return -ENOMEM;
	discovery->devices = devices;
	nodes = calloc(room, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	err = kmd->list(&discovery->env.kmd, nodes, room, &num);
	for (i = 0; !err && i < num && i < room; i++) {
		struct qbrt_found_device *device =
			&devices[discovery->num_devices++];

		memset(device, 0, sizeof(*device));
		device->kmd = kmd;
		device->node = nodes[i];
	}
	free(nodes);
	return err;
}

/* Q113: any hardware node, openable or not, means no default software. */
static void drop_default_software(struct qbrt_discovery *discovery)
{
	bool has_hardware = false;
	size_t i, kept = 0;

	for (i = 0; i < discovery->num_devices; i++)
		if (discovery->devices[i].node.number >= 0)
			has_hardware = true;
	if (!has_hardware || !discovery->env.is_soft_default)
		return;
	for (i = 0; i < discovery->num_devices; i++)
		if (discovery->devices[i].node.number >= 0)
			discovery->devices[kept++] = discovery->devices[i];
	discovery->num_devices = kept;
}

static enum qbrt_status list_devices(struct qbrt_discovery *discovery)
{
	size_t i;

	for (i = 0; qbrt_kmd_drivers[i]; i++) {
		int err = list_nodes(discovery, qbrt_kmd_drivers[i]);

		if (err)
			return qbrt_fail_errno(
				QBRT_AT_LIST, err,
				"cannot list the devices of driver %s",
				qbrt_kmd_drivers[i]->name);
	}
	drop_default_software(discovery);
	return QBRT_OK;
}

/*
 * Q090: says once why nothing is visible. The sentence of the last failing
 * call of this thread is not this call's to change (Q613).
 */
static enum qbrt_status read_variables(bool is_strict, struct qbrt_env *env)
{
	static atomic_flag is_logged = ATOMIC_FLAG_INIT;
	char detail[1024];
	enum qbrt_status status;

	qbrt_env_apply_log_level_once();
	(void)snprintf(detail, sizeof(detail), "%s", qbrt_error_detail());
	status = qbrt_env_read(env);
	if (!status || is_strict)
		return status;
	if ((env->is_visible_malformed || env->is_soft_malformed) &&
	    !atomic_flag_test_and_set(&is_logged))
		qbrt_log(QBRT_LOG_LEVEL_WARN, "device-info", "%s",
			 qbrt_error_detail());
	(void)qbrt_fail(status, "%s", detail);
	return QBRT_OK;
}

enum qbrt_status qbrt_discovery_list(bool is_strict,
				     struct qbrt_discovery **discovery)
{
	struct qbrt_discovery *found = calloc(1, sizeof(*found));
	enum qbrt_status status;
	size_t i;

	if (!found)
		return qbrt_fail_errno(QBRT_AT_LIST, -ENOMEM,
				       "no memory for the list of devices");
	status = read_variables(is_strict, &found->env);
	if (!status)
		status = list_devices(found);
	if (status) {
		qbrt_discovery_free(found);
		return status;
	}
	for (i = 0; i < found->num_devices; i++)
		probe(found, &found->devices[i]);
	number_devices(found);
	for (i = 0; i < found->num_devices; i++) {
		struct qbrt_found_device *device = &found->devices[i];

		device->is_visible = is_visible(&found->env, device);
		found->num_answering += !device->err;
	}
	if (found->num_devices)
		qsort(found->devices, found->num_devices,
		      sizeof(*found->devices), compare_devices);
	*discovery = found;
	return QBRT_OK;
}

void qbrt_discovery_free(struct qbrt_discovery *discovery)
{
	if (!discovery)
		return;
	free(discovery->devices);
	free(discovery);
}
