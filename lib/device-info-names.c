// SPDX-License-Identifier: MIT
/*
 * Numbers of the driver interface in words: features, sensors, counters,
 * events (docs/spec/kernel.md, 2.1, 2.2, 2.5; device-and-format.md, 4.2), and
 * the kernels that are installed.
 */
#include "device-info.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "util.h"

#define NUM_RULES 1000

/* By bit. */
static const char *const features[] = {
	"syncobj_timeline", "progress",          "device_time",
	"syncobj_fd",       "sync_file",         "syncobj_eventfd",
	"dmabuf_export",    "dmabuf_import",     "memfd",
	"contiguous_local", "contiguous_system", "copy",
	"forced_faults",
};

const char *const qbrt_isa_feature_names[QBRT_NUM_ISA_FEATURES] = {
	"int8", "half", "lists", "state", "dynamic", "lstm", "gather", "diag",
};

/* The others by number. */
static const char *const sensors[] = {
	[DRM_QBNPU_SENSOR_TEMPERATURE] = "temperature",
	[DRM_QBNPU_SENSOR_THROTTLE_TEMPERATURE] = "throttle_temperature",
	[DRM_QBNPU_SENSOR_SHUTDOWN_TEMPERATURE] = "shutdown_temperature",
	[DRM_QBNPU_SENSOR_NPU_CLOCK] = "npu_clock",
	[DRM_QBNPU_SENSOR_NPU_CLOCK_MAX] = "npu_clock_max",
	[DRM_QBNPU_SENSOR_INTERCONNECT_CLOCK] = "interconnect_clock",
	[DRM_QBNPU_SENSOR_POWER] = "power",
	[DRM_QBNPU_SENSOR_POWER_LIMIT] = "power_limit",
	[DRM_QBNPU_SENSOR_ENERGY] = "energy",
	[DRM_QBNPU_SENSOR_VOLTAGE] = "voltage",
	[DRM_QBNPU_SENSOR_CURRENT] = "current",
	[DRM_QBNPU_SENSOR_FAN] = "fan",
	[DRM_QBNPU_SENSOR_THROTTLING] = "throttling",
};

static const char *const counters[] = {
	[DRM_QBNPU_COUNTER_SUBMITTED] = "submitted",
	[DRM_QBNPU_COUNTER_COMPLETED] = "completed",
	[DRM_QBNPU_COUNTER_FAILED] = "failed",
	[DRM_QBNPU_COUNTER_CANCELLED] = "cancelled",
	[DRM_QBNPU_COUNTER_TIMEOUTS] = "timeouts",
	[DRM_QBNPU_COUNTER_QUEUE_RESETS] = "queue_resets",
	[DRM_QBNPU_COUNTER_CORE_RESETS] = "core_resets",
	[DRM_QBNPU_COUNTER_DEVICE_RESETS] = "device_resets",
	[DRM_QBNPU_COUNTER_PROGRAMS_CREATED] = "programs_created",
	[DRM_QBNPU_COUNTER_PROGRAMS_REJECTED] = "programs_rejected",
	[DRM_QBNPU_COUNTER_BYTES_READ] = "bytes_read",
	[DRM_QBNPU_COUNTER_BYTES_WRITTEN] = "bytes_written",
	[DRM_QBNPU_COUNTER_COPY_BYTES] = "copy_bytes",
	[DRM_QBNPU_COUNTER_MACS] = "macs",
	[DRM_QBNPU_COUNTER_BUSY_NS] = "busy_ns",
	[DRM_QBNPU_COUNTER_WAIT_NS] = "wait_ns",
	[DRM_QBNPU_COUNTER_INTERRUPTS] = "interrupts",
	[DRM_QBNPU_COUNTER_DOORBELLS] = "doorbells",
	[DRM_QBNPU_COUNTER_ECC_CORRECTED] = "ecc_corrected",
	[DRM_QBNPU_COUNTER_ECC_UNCORRECTED] = "ecc_uncorrected",
	[DRM_QBNPU_COUNTER_DMA_REFUSALS] = "dma_refusals",
	[DRM_QBNPU_COUNTER_FALLBACKS] = "fallbacks",
	[DRM_QBNPU_COUNTER_DEVICE_LIES] = "device_lies",
};

static const char *const events[] = {
	[DRM_QBNPU_EVENT_ATTACH] = "attach",
	[DRM_QBNPU_EVENT_DETACH] = "detach",
	[DRM_QBNPU_EVENT_TIMEOUT] = "timeout",
	[DRM_QBNPU_EVENT_QUEUE_RESET] = "queue_reset",
	[DRM_QBNPU_EVENT_CORE_RESET] = "core_reset",
	[DRM_QBNPU_EVENT_DEVICE_RESET] = "device_reset",
	[DRM_QBNPU_EVENT_LOST] = "lost",
	[DRM_QBNPU_EVENT_JOB_ERROR] = "job_error",
	[DRM_QBNPU_EVENT_ECC_CORRECTED] = "ecc_corrected",
	[DRM_QBNPU_EVENT_ECC_UNCORRECTED] = "ecc_uncorrected",
	[DRM_QBNPU_EVENT_THROTTLE_ON] = "throttle_on",
	[DRM_QBNPU_EVENT_THROTTLE_OFF] = "throttle_off",
	[DRM_QBNPU_EVENT_HEARTBEAT_MISSING] = "heartbeat_missing",
	[DRM_QBNPU_EVENT_DEVICE_LIED] = "device_lied",
};

static const char *get_name(const char *const *names, size_t num, uint32_t id)
{
	return id < num && names[id] ? names[id] : "Unknown";
}

QBRT_API const char *qbrt_sensor_name(uint32_t id)
{
	return get_name(sensors, qbrt_array_size(sensors), id);
}

QBRT_API const char *qbrt_counter_name(uint32_t id)
{
	const uint32_t first = DRM_QBNPU_COUNTER_REJECTED_BY_RULE;

	if (id > first && id < first + NUM_RULES)
		return "rejected_by_rule";
	return get_name(counters, qbrt_array_size(counters), id);
}

QBRT_API const char *qbrt_device_event_name(uint32_t kind)
{
	return get_name(events, qbrt_array_size(events), kind);
}

static void list_bits(uint64_t bits, const char *const *all, size_t num_all,
		      struct qbrt_name_list *list)
{
	for (size_t i = 0; i < num_all; i++)
		if (bits >> i & 1)
			list->names[list->num++] = all[i];
}

void qbrt_list_features(uint64_t bits, struct qbrt_name_list *list)
{
	list_bits(bits, features, qbrt_array_size(features), list);
}

void qbrt_list_isa_features(uint64_t bits, struct qbrt_name_list *list)
{
	list_bits(bits, qbrt_isa_feature_names, QBRT_NUM_ISA_FEATURES, list);
}

void qbrt_list_backends(struct qbrt_name_list *list)
{
	const char *folder = qbrt_get_data_dir();
	char path[PATH_MAX];
	int length;

	list->names[list->num++] = "ref";
	if (!folder)
		return;
	length = snprintf(path, sizeof(path), "%s/qbnpu-onednn.so", folder);
	if (length > 0 && (size_t)length < sizeof(path) && !access(path, R_OK))
		list->names[list->num++] = "onednn";
}
