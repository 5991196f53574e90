// SPDX-License-Identifier: MIT
/*
 * What an open device tells about itself while it works: firmware, sensors,
 * counters, cores, events. One QUERY each, answered from memory (K032). The
 * driver's numbers are passed on, whether this library knows them or not.
 */
#include "accelerator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "util.h"

/* Bytes of an answer: nearly always enough, and more than any can be. */
#define FIRST_ROOM 16384u
#define MAX_ROOM (1u << 20)
#define MAX_TRIES 4

/* An array that was asked for. */
struct answer {
	uint32_t type;
	uint32_t index;
	size_t element; /* bytes of one */
	const char *what;
	void *data; /* to be freed */
	size_t num;
};

/* What the strings of qbrt_firmware_info are: kept until the device closes. */
struct qbrt_firmware_text {
	struct qbrt_firmware_text *next;
	char version[48];
	char build[48];
};

static int query(const struct qbrt_device *device, uint32_t type,
		 uint32_t index, void *data, uint32_t *size)
{
	struct drm_qbnpu_query query = {
		.type = type,
		.index = index,
		.data = (uintptr_t)data,
		.size = *size,
	};
	int err =
		device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_QUERY, &query);

	*size = query.size;
	return err;
}

/* All that exists: asked again with more room as long as that grows. */
static enum qbrt_status query_all(const struct qbrt_device *device,
				  struct answer *answer)
{
	uint32_t size = FIRST_ROOM;

	for (int i = 0; i < MAX_TRIES && size <= MAX_ROOM; i++) {
		const uint32_t room = size;
		void *data = malloc(room);
		int err = data ? query(device, answer->type, answer->index,
				       data, &size)
			       : -ENOMEM;

		if (!err && size <= room) {
			answer->data = data;
			answer->num = size / answer->element;
			return QBRT_OK;
		}
		free(data);
		if (err)
			return qbrt_fail_errno(
				QBRT_AT_QUERY, err,
				"device %s does not tell its %s: %s",
				device->id, answer->what,
				qbrt_errno_words(err));
	}
	return qbrt_fail(QBRT_ACC_DRIVER_PROTOCOL,
			 "device %s says that it has %u bytes of %s, more than "
			 "any has, or more each time: its driver is broken",
			 device->id, size, answer->what);
}

/* The arguments that every array query has; array may be NULL without room. */
static enum qbrt_status check_arguments(const struct qbrt_accelerator *acc,
					const void *array, size_t room,
					const size_t *num, const char *name)
{
	if (!acc)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "acc is NULL");
	if (!num)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "num_%s is NULL", name);
	if (!array && room)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s is NULL, but max_%s is %zu", name, name,
				 room);
	return qbrt_device_check_fork(acc->device);
}

static enum qbrt_status query_readings(const struct qbrt_accelerator *acc,
				       uint32_t type, const char *what,
				       struct qbrt_reading *readings,
				       size_t max_readings,
				       size_t *num_readings)
{
	struct answer answer = {
		.type = type,
		.element = sizeof(struct drm_qbnpu_query_value),
		.what = what,
	};
	const struct drm_qbnpu_query_value *values;
	enum qbrt_status status = check_arguments(acc, readings, max_readings,
						  num_readings, "readings");

	if (!status)
		status = query_all(acc->device, &answer);
	if (status)
		return status;
	values = answer.data;
	for (size_t i = 0; i < answer.num && i < max_readings; i++)
		readings[i] = (struct qbrt_reading){
			.id = values[i].id,
			.index = values[i].index,
			.value = values[i].value,
		};
	*num_readings = answer.num;
	free(answer.data);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_sensors(const struct qbrt_accelerator *acc,
			       struct qbrt_reading *readings,
			       size_t max_readings, size_t *num_readings)
{
	return query_readings(acc, DRM_QBNPU_QUERY_SENSORS, "sensors", readings,
			      max_readings, num_readings);
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_counters(const struct qbrt_accelerator *acc,
				struct qbrt_reading *readings,
				size_t max_readings, size_t *num_readings)
{
	return query_readings(acc, DRM_QBNPU_QUERY_COUNTERS, "counters",
			      readings, max_readings, num_readings);
}

/* The public numbers start at 1. What no device can have is no core. */
static struct qbrt_core_id to_core_id(uint32_t cluster, uint32_t core,
				      bool is_global)
{
	struct qbrt_core_id core_id = { QBRT_CLUSTER_ERROR, QBRT_CORE_ERROR };

	if (cluster >= 8 || (core >= 8 && !is_global))
		return core_id;
	core_id.cluster = (enum qbrt_cluster)((cluster + 1) << 16);
	core_id.core =
		is_global ? QBRT_CORE_GLOBAL : (enum qbrt_core)(core + 1);
	return core_id;
}

/* What a newer driver may add is nothing that runs jobs. */
static enum qbrt_core_activity to_activity(uint32_t state)
{
	switch (state) {
	case DRM_QBNPU_CORE_IDLE:
		return QBRT_CORE_ACTIVITY_IDLE;
	case DRM_QBNPU_CORE_BUSY:
		return QBRT_CORE_ACTIVITY_BUSY;
	case DRM_QBNPU_CORE_STUCK:
		return QBRT_CORE_ACTIVITY_STUCK;
	default:
		return QBRT_CORE_ACTIVITY_OFF;
	}
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_core_states(const struct qbrt_accelerator *acc,
				   struct qbrt_core_state *states,
				   size_t max_states, size_t *num_states)
{
	struct answer answer = {
		.type = DRM_QBNPU_QUERY_CORES,
		.element = sizeof(struct drm_qbnpu_query_core),
		.what = "cores",
	};
	const struct drm_qbnpu_query_core *cores;
	enum qbrt_status status =
		check_arguments(acc, states, max_states, num_states, "states");

	if (!status)
		status = query_all(acc->device, &answer);
	if (status)
		return status;
	cores = answer.data;
	for (size_t i = 0; i < answer.num && i < max_states; i++)
		states[i] = (struct qbrt_core_state){
			.core_id = to_core_id(cores[i].cluster, cores[i].core,
					      cores[i].kind ==
						      DRM_QBNPU_CORE_GLOBAL),
			.activity = to_activity(cores[i].state),
			.queued = cores[i].queued,
			.jobs = cores[i].jobs,
			.busy_time = cores[i].busy_ns > INT64_MAX
					     ? INT64_MAX
					     : (int64_t)cores[i].busy_ns,
			.resets = cores[i].resets,
		};
	*num_states = answer.num;
	free(answer.data);
	return QBRT_OK;
}

/* As the job's own status, which the event's errno is of (Q616, K114). */
static enum qbrt_status to_status(const struct drm_qbnpu_query_event *event)
{
	if (event->kind == DRM_QBNPU_EVENT_DEVICE_LIED && event->status)
		return QBRT_ACC_DRIVER_PROTOCOL;
	if (event->status == -ETIMEDOUT)
		return qbrt_status_of_job(event->status, DRM_QBNPU_CAUSE_TIME);
	if (event->status == -ECANCELED)
		return qbrt_status_of_job(event->status,
					  DRM_QBNPU_CAUSE_CANCELLED);
	return qbrt_status_of_job(event->status, DRM_QBNPU_CAUSE_NONE);
}

static struct qbrt_device_event
event_from_uapi(const struct qbrt_device *device,
		const struct drm_qbnpu_query_event *event)
{
	struct qbrt_device_event out = {
		.sequence = event->seq,
		.time = event->time_ns,
		.kind = event->kind,
		.status = to_status(event),
		/* 2^32 - 1, no core, is far from any cluster */
		.core_id = to_core_id(event->core / 8, event->core % 8,
				      event->core % 8 >=
					      device->facts.local_cores),
	};

	memcpy(out.args, event->arg, sizeof(out.args));
	return out;
}

QBRT_API enum qbrt_status qbrt_accelerator_query_events(
	const struct qbrt_accelerator *acc, uint64_t first_sequence,
	struct qbrt_device_event *events, size_t max_events, size_t *num_events)
{
	struct answer answer = {
		.type = DRM_QBNPU_QUERY_EVENTS,
		/* the request counts to 2^32 - 1 only */
		.index = first_sequence > UINT32_MAX ? UINT32_MAX
						     : (uint32_t)first_sequence,
		.element = sizeof(struct drm_qbnpu_query_event),
		.what = "events",
	};
	const struct drm_qbnpu_query_event *all;
	enum qbrt_status status =
		check_arguments(acc, events, max_events, num_events, "events");
	size_t num = 0;

	if (!status)
		status = query_all(acc->device, &answer);
	if (status)
		return status;
	all = answer.data;
	for (size_t i = 0; i < answer.num; i++) {
		if (all[i].seq < first_sequence)
			continue;
		if (num < max_events)
			events[num] = event_from_uapi(acc->device, &all[i]);
		num++;
	}
	*num_events = num;
	free(answer.data);
	return QBRT_OK;
}

/* The device's copy of these strings, made when they are new. NULL: no memory. */
static const struct qbrt_firmware_text *
keep_text(struct qbrt_device *device,
	  const struct drm_qbnpu_query_firmware *firmware)
{
	struct qbrt_firmware_text *first = atomic_load(&device->firmware_texts);
	struct qbrt_firmware_text *text;

	for (text = first; text; text = text->next)
		if (!strcmp(text->version, firmware->version) &&
		    !strcmp(text->build, firmware->build))
			return text;
	text = calloc(1, sizeof(*text));
	if (!text)
		return NULL;
	memcpy(text->version, firmware->version, sizeof(text->version));
	memcpy(text->build, firmware->build, sizeof(text->build));
	text->next = first;
	while (!atomic_compare_exchange_weak(&device->firmware_texts,
					     &text->next, text))
		;
	return text;
}

void qbrt_device_free_texts(struct qbrt_device *device)
{
	struct qbrt_firmware_text *text = atomic_load(&device->firmware_texts);

	while (text) {
		struct qbrt_firmware_text *next = text->next;

		free(text);
		text = next;
	}
}

static enum qbrt_status ask_firmware(const struct qbrt_device *device,
				     struct drm_qbnpu_query_firmware *firmware)
{
	uint32_t size = sizeof(*firmware);
	int err;

	memset(firmware, 0, sizeof(*firmware));
	err = query(device, DRM_QBNPU_QUERY_FIRMWARE, 0, firmware, &size);
	if (err == -EOPNOTSUPP)
		return qbrt_fail_errno(QBRT_AT_QUERY, err,
				       "device %s has no firmware, or its "
				       "driver knows nothing of it",
				       device->id);
	if (err)
		return qbrt_fail_errno(QBRT_AT_QUERY, err,
				       "device %s does not tell its firmware: "
				       "%s",
				       device->id, qbrt_errno_words(err));
	if (!(firmware->flags & DRM_QBNPU_FIRMWARE_VERSION))
		memset(firmware->version, 0, sizeof(firmware->version));
	firmware->version[sizeof(firmware->version) - 1] = '\0';
	firmware->build[sizeof(firmware->build) - 1] = '\0';
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_accelerator_query_firmware(const struct qbrt_accelerator *acc,
				struct qbrt_firmware_info *info)
{
	struct drm_qbnpu_query_firmware firmware;
	const struct qbrt_firmware_text *text;
	struct qbrt_firmware_info now = { 0 };
	enum qbrt_status status;

	if (!acc || !info || info->size < sizeof(info->size))
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s",
				 !acc    ? "acc is NULL"
				 : !info ? "info is NULL"
					 : "info->size is not set");
	status = qbrt_device_check_fork(acc->device);
	if (!status)
		status = ask_firmware(acc->device, &firmware);
	if (status)
		return status;
	text = keep_text(acc->device, &firmware);
	if (!text)
		return qbrt_fail_errno(QBRT_AT_QUERY, -ENOMEM,
				       "no memory for the firmware's version");
	now.size = info->size;
	now.version = *text->version ? text->version : NULL;
	now.build = *text->build ? text->build : NULL;
	if (firmware.flags & DRM_QBNPU_FIRMWARE_CRC) {
		now.flags |= QBRT_FIRMWARE_CRC;
		now.crc = firmware.crc;
	}
	if (firmware.flags & DRM_QBNPU_FIRMWARE_SECURE)
		now.flags |= QBRT_FIRMWARE_SECURE;
	if (firmware.flags & DRM_QBNPU_FIRMWARE_HEARTBEAT) {
		now.flags |= QBRT_FIRMWARE_HEARTBEAT;
		now.heartbeat = firmware.heartbeat_ns;
	}
	now.uptime = firmware.uptime_ns > INT64_MAX
			     ? INT64_MAX
			     : (int64_t)firmware.uptime_ns;
	qbrt_answer(info, now.size, &now, sizeof(now));
	return QBRT_OK;
}
