// SPDX-License-Identifier: MIT
/*
 * DRM nodes: those of other drivers go into the inventory, ours into its list
 * of own nodes. Live, libdrm lists render nodes and asks for versions; it knows
 * no accel nodes, so those come from sysfs, as everything does under --sysroot
 * (docs/spec/kernel.md, K560 to K564). A node that sleeps is not opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xf86drm.h>

#include "collect.h"
#include "reply.h"
#include "source.h"

#define OUR_DRIVER "qbnpu"

/* A node while it is looked at; sysfs: its folder there. */
struct node {
	const char *path, *type, *sysfs;
	const char *module; /* link of the driver, NULL: not named */
	bool is_suspended;
	int open_err; /* 0, -errno, 1: not tried */
	const char *name, *version, *description;
};

static char *join(const char *folder, const char *name)
{
	return inventory_format("%s/%s", folder, name);
}

/* ---- what the kernel says on the node ---- */

static void ask_live(struct node *node)
{
	int fd = open(node->path, O_RDWR | O_CLOEXEC);
	drmVersionPtr version;

	if (fd < 0) {
		node->open_err = -errno;
		return;
	}
	node->open_err = 0;
	version = drmGetVersion(fd);
	if (version) {
		node->name = inventory_copy(version->name ?: "");
		node->description = inventory_copy(version->desc ?: "");
		node->version = inventory_format(
			"%d.%d.%d", version->version_major,
			version->version_minor, version->version_patchlevel);
		drmFreeVersion(version);
	}
	(void)close(fd);
}

/* The reply that a capture keeps of it. */
static void tell_reply(const struct node *node)
{
	struct json_object *reply = json_object_new_object();
	int part[3] = { 0 };
	char *path = inventory_format("replies/%s.json", node->path + 1);
	const char *text;

	for (char *c = path + strlen("replies/"); *c; c++) {
		if (*c == '/')
			*c = '-';
	}
	(void)json_object_object_add(reply, "open",
				     json_object_new_int(node->open_err));
	if (node->version && sscanf(node->version, "%d.%d.%d", &part[0],
				    &part[1], &part[2]) == 3) {
		struct json_object *version = json_object_new_object();

		(void)json_object_object_add(
			version, "name", json_object_new_string(node->name));
		(void)json_object_object_add(
			version, "desc",
			json_object_new_string(node->description));
		(void)json_object_object_add(version, "major",
					     json_object_new_int(part[0]));
		(void)json_object_object_add(version, "minor",
					     json_object_new_int(part[1]));
		(void)json_object_object_add(version, "patchlevel",
					     json_object_new_int(part[2]));
		(void)json_object_object_add(reply, "version", version);
	}
	text = json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PRETTY);
	source_tell(SOURCE_FILE, path, text, strlen(text));
	json_object_put(reply);
}

static void ask_reply(struct node *node)
{
	int err;
	struct json_object *reply = reply_read_node(node->path, &err);
	struct json_object *version = reply_get(reply, "version");
	int major;

	if (!reply)
		return;
	node->open_err = reply_get_open(reply);
	if (!node->open_err) {
		(void)reply_find_text(version, "name", &node->name);
		(void)reply_find_text(version, "desc", &node->description);
		node->version = reply_get_version(reply, &major);
	}
	json_object_put(reply);
}

static void ask(struct node *node)
{
	if (node->is_suspended)
		return;
	if (source_get_sysroot()) {
		ask_reply(node);
		return;
	}
	ask_live(node);
	tell_reply(node);
}

static bool is_accessible(const struct node *node)
{
	if (node->open_err != 1)
		return !node->open_err;
	return source_get_sysroot() || !access(node->path, R_OK | W_OK);
}

/* ---- sysfs ---- */

static const char *const buses[] = { "pci",    "usb",    "platform",
				     "host1x", "virtio", "faux" };

static void set_bus(struct record *record, const struct node *node)
{
	const char *device = join(node->sysfs, "device");
	const char *word = source_read_link(join(device, "subsystem"));
	const char *bus = "unknown";

	for (size_t i = 0; word && i < sizeof(buses) / sizeof(*buses); i++) {
		if (!strcmp(word, buses[i]))
			bus = buses[i];
	}
	set_text(record, FIELD_DRM_BUS_TYPE, bus);
	if (word && !strcmp(bus, "unknown"))
		add_extra(record, "subsystem", word);
	set_text(record, FIELD_DRM_BUS, source_read_link(device));
}

/* "0x8086" of a PCI device's file; a bus without it has none. */
static void set_id(struct record *record, enum field_id field,
		   const struct node *node, const char *name)
{
	uint64_t number;
	int err = source_read_number(join(node->sysfs, name), &number);

	if (!err)
		set_integer(record, field, number);
	else
		set_absent(record, field,
			   err == -ENOENT   ? REASON_ABSENT
			   : err == -EACCES ? REASON_NO_PERMISSION
					    : REASON_INVALID,
			   join(node->sysfs, name));
}

/* -1 there means that the machine has one memory node. */
static void set_numa(struct record *record, const struct node *node)
{
	const char *path = join(node->sysfs, "device/numa_node");
	int err;
	const char *line = source_read_line(path, &err);

	if (!line || !strcmp(line, "-1"))
		set_absent(record, FIELD_DRM_NUMA, REASON_ABSENT, NULL);
	else
		set_id(record, FIELD_DRM_NUMA, node, "device/numa_node");
}

static void set_compatible(struct record *record, const struct node *node)
{
	size_t length, num = 0;
	int err;
	char *text =
		source_read(join(node->sysfs, "device/uevent"), &length, &err);
	const char *names[16];
	char *line, *rest;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *equals = strchr(line, '=');

		if (!strncmp(line, "OF_COMPATIBLE_", 14) && equals &&
		    strncmp(line, "OF_COMPATIBLE_N", 15) != 0 && num < 16)
			names[num++] = equals + 1;
	}
	set_texts(record, FIELD_DRM_COMPATIBLE, names, num);
}

/* The primary node of the card: the one with the same device. */
static void set_primary(struct record *record, const struct node *node)
{
	const char *device = source_read_link(join(node->sysfs, "device"));
	size_t num = 0;
	char **names = NULL;

	set_absent(record, FIELD_DRM_PRIMARY, REASON_ABSENT, NULL);
	if (!strcmp(node->type, "render"))
		num = source_list("sys/class/drm", &names);
	for (size_t i = 0; device && i < num; i++) {
		const char *other;

		if (strncmp(names[i], "card", 4) != 0 || strchr(names[i], '-'))
			continue;
		other = source_read_link(
			inventory_format("sys/class/drm/%s/device", names[i]));
		if (other && !strcmp(device, other))
			set_text(record, FIELD_DRM_PRIMARY,
				 join("/dev/dri", names[i]));
	}
}

static void set_numbers_of_node(struct record *record, const struct node *node)
{
	int err;
	char *line = source_read_line(join(node->sysfs, "dev"), &err);
	char *colon = line ? strchr(line, ':') : NULL;
	uint64_t first, second;

	if (colon)
		*colon = '\0';
	if (colon && source_parse_number(line, &first) &&
	    source_parse_number(colon + 1, &second)) {
		set_integer(record, FIELD_DRM_MAJOR, first);
		set_integer(record, FIELD_DRM_MINOR, second);
		return;
	}
	set_absent(record, FIELD_DRM_MAJOR, REASON_INVALID,
		   join(node->sysfs, "dev"));
	set_absent(record, FIELD_DRM_MINOR, REASON_INVALID,
		   join(node->sysfs, "dev"));
}

/* ---- one node ---- */

static void add_own(struct inventory *inventory, const struct node *node)
{
	struct own_node *own = inventory_alloc(sizeof(*own));
	struct own_node **place = &inventory->own_nodes;

	while (*place)
		place = &(*place)->next;
	own->path = node->path;
	own->bus_address = source_read_link(join(node->sysfs, "device"));
	own->open_err = node->open_err;
	own->gid = -1;
	own->version = node->version;
	own->uapi_major = node->version ? atoi(node->version) : -1;
	*place = own;
}

/* Why a node of ours is not in the list: it is opened once more. */
void collect_own_reason(struct own_node *own)
{
	struct node node = { .path = own->path, .open_err = 1 };

	if (source_get_sysroot())
		return;
	ask(&node);
	own->open_err = node.open_err;
	own->version = node.version;
	own->uapi_major = node.version ? atoi(node.version) : -1;
}

static void add_other(struct inventory *inventory, const struct node *node,
		      bool with_version)
{
	struct record *record = records_add(&inventory->drm_nodes);
	enum reason reason =
		node->is_suspended ? REASON_SUSPENDED
		: node->open_err == -EACCES || node->open_err == -EPERM
			? REASON_NO_PERMISSION
			: REASON_NOT_SUPPORTED;

	set_text(record, FIELD_DRM_NODE, node->path);
	set_text(record, FIELD_DRM_TYPE, node->type);
	set_numbers_of_node(record, node);
	set_text(record, FIELD_DRM_DRIVER, node->name ?: node->module);
	set_text(record, FIELD_DRM_MODULE, node->module);
	if (with_version && node->version) {
		set_text(record, FIELD_DRM_VERSION, node->version);
		set_text(record, FIELD_DRM_DESCRIPTION, node->description);
	} else if (with_version) {
		set_absent(record, FIELD_DRM_VERSION, reason, NULL);
		set_absent(record, FIELD_DRM_DESCRIPTION, reason, NULL);
	}
	set_bus(record, node);
	set_id(record, FIELD_DRM_VENDOR, node, "device/vendor");
	set_id(record, FIELD_DRM_DEVICE, node, "device/device");
	set_compatible(record, node);
	set_numa(record, node);
	set_boolean(record, FIELD_DRM_ACCESSIBLE, is_accessible(node));
	set_primary(record, node);
}

static void look_at(struct inventory *inventory, const char *type,
		    const char *sysfs, const char *path, bool with_version)
{
	struct node node = {
		.path = path,
		.type = type,
		.sysfs = sysfs,
		.open_err = 1,
	};
	int err;
	const char *status;

	if (!source_has_node(path + 1))
		return;
	node.module = source_read_link(join(sysfs, "device/driver"));
	status = source_read_line(join(sysfs, "device/power/runtime_status"),
				  &err);
	node.is_suspended = status && !strcmp(status, "suspended");
	/* the list of devices has opened ours already */
	if (!node.module ||
	    (with_version && strcmp(node.module, OUR_DRIVER) != 0))
		ask(&node);
	if (!strcmp(node.name ?: node.module ?: "", OUR_DRIVER))
		add_own(inventory, &node);
	else
		add_other(inventory, &node, with_version);
}

/* ---- lists ---- */

/* From their names in sysfs. */
static void look_at_class(struct inventory *inventory, const char *class,
			  const char *prefix, const char *type,
			  const char *folder, bool with_version)
{
	const char *path = join("sys/class", class);
	char **names;
	size_t num = source_list(path, &names);

	for (size_t i = 0; i < num; i++) {
		if (!strncmp(names[i], prefix, strlen(prefix)))
			look_at(inventory, type, join(path, names[i]),
				join(folder, names[i]), with_version);
	}
}

/* Flag 0: the revision of a card is not worth waking it. */
static void look_at_render_live(struct inventory *inventory, bool with_version)
{
	int room = drmGetDevices2(0, NULL, 0);
	drmDevicePtr *devices;
	int num;

	if (room <= 0)
		return;
	devices = inventory_alloc((size_t)room * sizeof(*devices));
	num = drmGetDevices2(0, devices, room);
	for (int i = 0; i < num; i++) {
		const char *path, *name;

		if (!(devices[i]->available_nodes & 1 << DRM_NODE_RENDER))
			continue;
		path = inventory_copy(devices[i]->nodes[DRM_NODE_RENDER]);
		name = strrchr(path, '/');
		look_at(inventory, "render",
			join("sys/class/drm", name ? name + 1 : path), path,
			with_version);
	}
	if (num > 0)
		drmFreeDevices(devices, num);
}

/* By bus address, those without one last; then type, then minor (I76). */
static int compare_nodes(const struct record *a, const struct record *b)
{
	const char *x = record_get_text(a, FIELD_DRM_BUS);
	const char *y = record_get_text(b, FIELD_DRM_BUS);
	uint64_t m, n;
	int order = !x - !y;

	if (!order && x)
		order = strverscmp(x, y);
	if (!order)
		order = strcmp(record_get_text(b, FIELD_DRM_TYPE),
			       record_get_text(a, FIELD_DRM_TYPE));
	if (order)
		return order;
	m = record_get_integer(a, FIELD_DRM_MINOR, UINT64_MAX);
	n = record_get_integer(b, FIELD_DRM_MINOR, UINT64_MAX);
	return (m > n) - (m < n);
}

void collect_nodes(struct inventory *inventory, bool with_versions)
{
	look_at_class(inventory, "accel", "accel", "accel", "/dev/accel",
		      with_versions);
	if (source_get_sysroot())
		look_at_class(inventory, "drm", "renderD", "render", "/dev/dri",
			      with_versions);
	else
		look_at_render_live(inventory, with_versions);
	records_sort(&inventory->drm_nodes, compare_nodes);
}
