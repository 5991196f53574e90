// SPDX-License-Identifier: MIT
/*
 * The tool and the devices, through qbrt.h and nothing below it. Under --sysroot
 * the library's list is not called: collect-reply.c makes devices of what was
 * captured.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qbruntime/qbrt.h>

#include "collect.h"
#include "source.h"

/* ---- the tool ---- */

/* DIR/clock: lines "time ..." and "monotonic_ns ...". */
static void set_captured_time(struct record *tool)
{
	size_t length;
	int err;
	char *text = source_read("clock", &length, &err);
	char *line, *rest;
	uint64_t number;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "time ", 5))
			set_text(tool, FIELD_TOOL_TIME, line + 5);
		if (!strncmp(line, "monotonic_ns ", 13) &&
		    source_parse_number(line + 13, &number))
			set_integer(tool, FIELD_TOOL_MONOTONIC, number);
	}
	if (!text) {
		set_absent(tool, FIELD_TOOL_TIME, REASON_INVALID, "clock");
		set_absent(tool, FIELD_TOOL_MONOTONIC, REASON_INVALID, "clock");
	}
}

const char *collect_now(uint64_t *monotonic)
{
	struct timespec now, since;
	struct tm utc;
	char text[64];

	if (clock_gettime(CLOCK_REALTIME, &now) ||
	    clock_gettime(CLOCK_MONOTONIC, &since) ||
	    !gmtime_r(&now.tv_sec, &utc))
		return NULL;
	*monotonic =
		(uint64_t)since.tv_sec * 1000000000u + (uint64_t)since.tv_nsec;
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	return inventory_format("%s.%09ldZ", text, now.tv_nsec);
}

static void set_live_time(struct record *tool)
{
	uint64_t monotonic;
	const char *time = collect_now(&monotonic);

	if (!time)
		return;
	set_text(tool, FIELD_TOOL_TIME, time);
	set_integer(tool, FIELD_TOOL_MONOTONIC, monotonic);
}

/* Its soname ends in the number of its binary interface. */
const char *collect_library_path(void)
{
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)qbrt_version, &info) || !info.dli_fname)
		return "";
	return info.dli_fname;
}

static void set_abi(struct record *tool)
{
	static const char name[] = "libqbruntime.so.";
	const char *file = strstr(collect_library_path(), name);
	uint64_t abi;

	if (!file)
		return;
	file += sizeof(name) - 1;
	file = inventory_format("%.*s", (int)strcspn(file, "."), file);
	if (source_parse_number(file, &abi))
		set_integer(tool, FIELD_TOOL_ABI, abi);
}

void collect_tool(struct inventory *inventory)
{
	struct record *tool = inventory->tool;
	int err;

	set_text(tool, FIELD_TOOL_VERSION, PACKAGE_VERSION);
	set_text(tool, FIELD_TOOL_LIBRARY, qbrt_version());
	set_abi(tool);
	if (source_get_sysroot())
		set_captured_time(tool);
	else
		set_live_time(tool);
	set_text(tool, FIELD_TOOL_HOSTNAME,
		 source_read_line("proc/sys/kernel/hostname", &err));
	set_absent(tool, FIELD_TOOL_SYSROOT, REASON_ABSENT, NULL);
	set_text(tool, FIELD_TOOL_SYSROOT, source_get_sysroot());
}

/* ---- devices ---- */

/* qbrt_dtype_name as the words of section 7: "float32". */
const char *collect_dtype_word(enum qbrt_dtype dtype)
{
	char *word = inventory_copy(qbrt_dtype_name(dtype));

	for (char *c = word; *c; c++) {
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	}
	return word;
}

/* The words of the bits of mask. */
static void set_bits(struct record *device, enum field_id field, uint32_t mask,
		     const char *const words[32])
{
	const char *texts[32];
	size_t num = 0;

	for (size_t i = 0; i < 32; i++) {
		if (mask >> i & 1 && words[i])
			texts[num++] = words[i];
	}
	set_texts(device, field, texts, num);
}

static const char *const contiguity_words[32] = {
	[QBRT_CONTIGUITY_LOCKED] = "locked",
	[QBRT_CONTIGUITY_HUGEPAGE] = "hugepage",
	[QBRT_CONTIGUITY_DRIVER] = "driver",
};

static const char *const mode_words[32] = {
	[QBRT_CORE_MODE_SINGLE] = "single",
	[QBRT_CORE_MODE_MULTI] = "multi",
	[QBRT_CORE_MODE_GLOBAL4] = "global4",
	[QBRT_CORE_MODE_GLOBAL8] = "global8",
};

void collect_modes(struct record *record, enum field_id field, uint32_t mask)
{
	set_bits(record, field, mask, mode_words);
}

static void set_caps(struct record *device, const struct qbrt_device_info *info)
{
	uint32_t min = qbrt_device_info_get_container_min(info);
	uint32_t max = qbrt_device_info_get_container_max(info);
	const char *versions[2] = {
		inventory_format("%u.%u", min >> 16, min & 0xFFFF),
		inventory_format("%u.%u", max >> 16, max & 0xFFFF),
	};
	const char *dtype_words[32] = { NULL };

	for (uint32_t i = 0; i < 32; i++) {
		if (qbrt_device_info_get_dtypes(info) >> i & 1)
			dtype_words[i] = collect_dtype_word((enum qbrt_dtype)i);
	}
	collect_modes(device, FIELD_CORE_MODES,
		      qbrt_device_info_get_core_modes(info));
	set_bits(device, FIELD_DTYPES, qbrt_device_info_get_dtypes(info),
		 dtype_words);
	set_bits(device, FIELD_CONTIGUITY,
		 qbrt_device_info_get_contiguity_classes(info),
		 contiguity_words);
	set_texts(device, FIELD_CONTAINERS, versions, min == max ? 1 : 2);
}

/* Features of the driver, by the names that the library has for them. */
static void set_features(struct record *device,
			 const struct qbrt_device_info *info)
{
	static const struct {
		enum field_id field;
		const char *name;
	} features[] = {
		{ FIELD_DMABUF_IMPORT, "dmabuf_import" },
		{ FIELD_DMABUF_EXPORT, "dmabuf_export" },
		{ FIELD_MEMFD_EXPORT, "memfd" },
		{ FIELD_SYNC_FILE, "sync_file" },
		{ FIELD_SYNCOBJ_FD, "syncobj_fd" },
		{ FIELD_SYNCOBJ_TIMELINE, "syncobj_timeline" },
		{ FIELD_FENCE_EVENTFD, "syncobj_eventfd" },
	};
	size_t num;
	const char *const *names = qbrt_device_info_get_features(info, &num);

	for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++) {
		bool has_it = false;

		for (size_t j = 0; j < num; j++)
			has_it |= !strcmp(names[j], features[i].name);
		set_boolean(device, features[i].field, has_it);
	}
}

static void set_programs(struct record *device,
			 const struct qbrt_device_info *info)
{
	struct qbrt_device_limits limits = { .size = sizeof(limits) };
	uint32_t isa = qbrt_device_info_get_isa_version(info);
	const char *const *names;
	size_t num;

	qbrt_device_info_get_limits(info, &limits);
	set_integer(device, FIELD_MAX_JOBS, limits.max_jobs);
	set_integer(device, FIELD_MAX_QUEUES, limits.max_queues);
	set_integer(device, FIELD_MAX_BINDINGS, limits.max_bindings);
	set_text(device, FIELD_ISA,
		 inventory_format("%u.%u", isa >> 16, isa & 0xFFFF));
	names = qbrt_device_info_get_isa_features(info, &num);
	set_texts(device, FIELD_ISA_FEATURES, names, num);
	names = qbrt_device_info_get_backends(info, &num);
	set_texts(device, FIELD_BACKENDS, names, num);
	collect_derived_caps(device);
}

void collect_state(struct inventory *inventory, struct record *device,
		   unsigned int state)
{
	static const char *const words[] = { NULL, "ready", "resetting",
					     "degraded", "lost" };

	if (!state || state >= sizeof(words) / sizeof(*words))
		return;
	set_text(device, FIELD_STATE, words[state]);
	if (state != QBRT_DEVICE_STATE_READY)
		add_warning(inventory,
			    inventory_format("%s: the device is %s",
					     record_get_text(device, FIELD_ID),
					     words[state]),
			    inventory_format("qbinfo show %s -t health",
					     inventory_quote(record_get_text(
						     device, FIELD_ID))));
}

/* What besides its name means a device: the table of Q081. */
void collect_aliases(struct record *device)
{
	const char *name = record_get_text(device, FIELD_NAME);
	const char *aliases[2] = { "auto" };
	size_t num = 1, length = strlen(name);

	if (length > 4 && !strcmp(name + length - 4, "-usb"))
		aliases[num++] = "regulus-usb";
	else if (!strncmp(name, "regulus-", 8))
		aliases[num++] = "regulus";
	else if (!strncmp(name, "aries-", 6))
		aliases[num++] = "aries";
	set_texts(device, FIELD_ALIASES, aliases, num);
}

/* The form of an address tells the bus. */
static void set_bus(struct record *device, const char *address, bool is_soft)
{
	unsigned int part[4];
	char end;

	if (is_soft) {
		set_text(device, FIELD_BUS_TYPE, "virtual");
		set_absent(device, FIELD_BUS, REASON_ABSENT, NULL);
		set_absent(device, FIELD_VENDOR_ID, REASON_ABSENT, NULL);
		set_absent(device, FIELD_DEVICE_ID, REASON_ABSENT, NULL);
		set_absent(device, FIELD_NODE, REASON_ABSENT, NULL);
		return;
	}
	set_text(device, FIELD_BUS, address);
	if (!address)
		return;
	if (sscanf(address, "%4x:%2x:%2x.%1x%c", &part[0], &part[1], &part[2],
		   &part[3], &end) == 4)
		set_text(device, FIELD_BUS_TYPE, "pci");
	else if (sscanf(address, "%u-%u", &part[0], &part[1]) == 2)
		set_text(device, FIELD_BUS_TYPE, "usb");
	else
		set_text(device, FIELD_BUS_TYPE, "platform");
}

void collect_info(struct inventory *inventory, struct record *device,
		  const struct qbrt_device_info *info)
{
	bool is_soft =
		qbrt_device_info_get_kind(info) == QBRT_DEVICE_KIND_SOFTWARE;
	int numa = qbrt_device_info_get_numa_node(info);
	uint64_t total = qbrt_device_info_get_memory_total(info);
	uint64_t free = qbrt_device_info_get_memory_free(info);

	set_text(device, FIELD_ID, qbrt_device_info_get_id(info));
	set_text(device, FIELD_NAME, qbrt_device_info_get_name(info));
	set_signed(device, FIELD_NUMBER, qbrt_device_info_get_number(info));
	set_text(device, FIELD_FAMILY, qbrt_device_info_get_family(info));
	set_text(device, FIELD_PRODUCT, qbrt_device_info_get_product(info));
	set_text(device, FIELD_KIND, is_soft ? "software" : "hardware");
	set_absent(device, FIELD_SERIAL, REASON_ABSENT, NULL);
	set_absent(device, FIELD_UUID, REASON_ABSENT, NULL);
	set_text(device, FIELD_SERIAL, qbrt_device_info_get_serial(info));
	set_text(device, FIELD_UUID, qbrt_device_info_get_uuid(info));
	set_bus(device, qbrt_device_info_get_bus(info), is_soft);
	if (!is_soft)
		set_text(device, FIELD_NODE, qbrt_device_info_get_node(info));
	set_absent(device, FIELD_NUMA, REASON_ABSENT, NULL);
	if (numa >= 0)
		set_signed(device, FIELD_NUMA, numa);
	set_text(device, FIELD_FIRMWARE, qbrt_device_info_get_firmware(info));
	set_integer(device, FIELD_CLUSTERS,
		    qbrt_device_info_get_num_clusters(info));
	set_integer(device, FIELD_LOCAL_CORES,
		    qbrt_device_info_get_local_cores_per_cluster(info));
	set_integer(device, FIELD_GLOBAL_CORES,
		    qbrt_device_info_get_global_cores_per_cluster(info));
	collect_aliases(device);
	set_caps(device, info);
	set_features(device, info);
	set_programs(device, info);
	collect_state(inventory, device, qbrt_device_info_get_state(info));
	set_integer(device, FIELD_PINNED_LIMIT,
		    qbrt_device_info_get_pinned_limit(info));
	/* 0 is none, or not known */
	if (qbrt_device_info_get_contiguous_free(info))
		set_integer(device, FIELD_CONTIGUOUS_FREE,
			    qbrt_device_info_get_contiguous_free(info));
	set_integer(device, FIELD_DEVICE_TOTAL, total);
	set_integer(device, FIELD_DEVICE_USED, free < total ? total - free : 0);
	if (is_soft)
		return;
	inventory->has_hardware = true;
	set_text(inventory->driver, FIELD_DRIVER_NAME,
		 qbrt_device_info_get_driver(info));
	set_text(inventory->driver, FIELD_DRIVER_VERSION,
		 qbrt_device_info_get_driver_version(info));
}

void collect_devices(struct inventory *inventory)
{
	struct qbrt_device_info **infos;
	size_t num_infos;

	if (source_get_sysroot()) {
		collect_software(inventory);
		return;
	}
	if (qbrt_device_info_list(NULL, &infos, &num_infos)) {
		inventory->failed = inventory_copy(qbrt_error_detail());
		inventory->failed_exit = 1;
		return;
	}
	for (size_t i = 0; i < num_infos; i++)
		collect_info(inventory, records_add(&inventory->devices),
			     infos[i]);
	qbrt_device_info_list_free(infos, num_infos);
}

/* The driver's DRM version begins with the version of its requests. */
void collect_driver(struct inventory *inventory)
{
	struct record *driver = inventory->driver;
	const char *version = record_get_text(driver, FIELD_DRIVER_VERSION);
	int major, minor, err;
	const char *taint;

	if (!inventory->own_nodes && !inventory->has_hardware) {
		for (size_t i = 0; i < list_get(LIST_DRIVER)->num_fields; i++)
			set_absent(driver,
				   list_get(LIST_DRIVER)->first +
					   (enum field_id)i,
				   REASON_NOT_LOADED, NULL);
		return;
	}
	if (version && sscanf(version, "%d.%d", &major, &minor) == 2) {
		set_signed(driver, FIELD_DRIVER_UAPI_MAJOR, major);
		set_signed(driver, FIELD_DRIVER_UAPI_MINOR, minor);
	}
	set_text(driver, FIELD_DRIVER_SRCVERSION,
		 source_read_line("sys/module/qbnpu/srcversion", &err));
	taint = source_read_line("sys/module/qbnpu/taint", &err);
	if (taint)
		set_boolean(driver, FIELD_DRIVER_IN_TREE, !strchr(taint, 'O'));
}

/* The library reads the variables at each list: one without them tells. */
char *collect_hidden(const struct inventory *inventory)
{
	static const char *const names[] = { "QBRUNTIME_VISIBLE_DEVICES",
					     "MACCEL_VISIBLE_DEVICES",
					     "MBLT_DEVICES" };
	const char *kept[3] = { NULL };
	struct qbrt_device_info **infos;
	size_t num_infos;
	char *hidden = NULL;

	if (source_get_sysroot())
		return NULL;
	for (size_t i = 0; i < 3; i++) {
		const char *text = environment_get(names[i]);

		kept[i] = text ? inventory_copy(text) : NULL;
		(void)unsetenv(names[i]); /* NOLINT(concurrency-mt-unsafe) */
	}
	if (qbrt_device_info_list(NULL, &infos, &num_infos)) {
		infos = NULL;
		num_infos = 0;
	}
	for (size_t i = 0; i < num_infos; i++) {
		const char *id = qbrt_device_info_get_id(infos[i]);
		const struct record *device = inventory->devices.first;

		while (device && strcmp(record_get_text(device, FIELD_ID), id))
			device = device->next;
		if (!device)
			hidden = hidden ? inventory_format("%s, %s", hidden, id)
					: inventory_copy(id);
	}
	qbrt_device_info_list_free(infos, num_infos);
	for (size_t i = 0; i < 3; i++) {
		if (kept[i])
			/* NOLINTNEXTLINE(concurrency-mt-unsafe) */
			(void)setenv(names[i], kept[i], 1);
	}
	return hidden;
}

/* What answers and is not listed is hidden by a visibility variable. */
bool collect_is_silent(const struct own_node *own)
{
	if (own->device || own->open_err < 0)
		return false;
	return own->uapi_major < 0 || (own->uapi_major == QBINFO_UAPI_MAJOR &&
				       !environment_get_deciding());
}

static const char *get_open_words(const struct own_node *node)
{
	if (node->uapi_major >= 0 && node->uapi_major != QBINFO_UAPI_MAJOR)
		return "its driver speaks another uapi version";
	switch (-node->open_err) {
	case EACCES:
	case EPERM:
		return "it may not be opened: permission denied";
	case 0:
	case -1: /* not tried */
		return "it does not answer";
	default:
		return inventory_format("it cannot be opened: %s",
					strerror(-node->open_err));
	}
}

void collect_silent_nodes(struct inventory *inventory)
{
	for (struct own_node *node = inventory->own_nodes; node;
	     node = node->next) {
		for (struct record *device = inventory->devices.first; device;
		     device = device->next) {
			const char *path = record_get_text(device, FIELD_NODE);

			if (path && !strcmp(path, node->path))
				node->device = device;
		}
		if (node->device)
			continue;
		collect_own_reason(node);
		if (node->open_err < 0 || collect_is_silent(node) ||
		    node->uapi_major != QBINFO_UAPI_MAJOR)
			add_warning(inventory,
				    inventory_format("%s: %s", node->path,
						     get_open_words(node)),
				    "qbinfo doctor");
	}
}
