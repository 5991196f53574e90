// SPDX-License-Identifier: MIT
/* Checks of hardware: is there a node, may it be opened, does its driver fit. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect.h"
#include "doctor.h"
#include "source.h"

#define VENDOR 0x209f
#define PCI_DEVICES "sys/bus/pci/devices"

/* Addresses of PCI devices of the vendor, or NULL. */
static const char *find_hardware(void)
{
	char **names;
	size_t num = source_list(PCI_DEVICES, &names);
	const char *found = NULL;

	for (size_t i = 0; i < num; i++) {
		uint64_t vendor;

		if (source_read_number(inventory_format(PCI_DEVICES
							"/%s/vendor",
							names[i]),
				       &vendor) ||
		    vendor != VENDOR)
			continue;
		found = found ? inventory_format("%s, %s", found, names[i])
			      : names[i];
	}
	return found;
}

/* /dev/aries0, /dev/regulus0: of the vendor's own driver. */
static const char *find_vendor_node(void)
{
	char **names;
	size_t num = source_list("dev", &names);

	for (size_t i = 0; i < num; i++) {
		if (!strncmp(names[i], "aries", 5) ||
		    !strncmp(names[i], "regulus", 7))
			return inventory_format("/dev/%s", names[i]);
	}
	return NULL;
}

static bool is_denied(const struct own_node *node)
{
	return node->open_err == -EACCES || node->open_err == -EPERM;
}

static void check_node(struct doctor *doctor, const struct own_node *node)
{
	if (node->open_err < 0 && !is_denied(node))
		doctor_fail(doctor, 3, "node",
			    inventory_format("%s cannot be opened: %s",
					     node->path,
					     strerror(-node->open_err)),
			    "E-NODE-2", "sudo dmesg | grep qbnpu");
	else if (collect_is_silent(node))
		doctor_fail(doctor, 3, "node",
			    inventory_format("%s does not answer: its driver "
					     "told no device",
					     node->path),
			    "E-NODE-2", "sudo dmesg | grep qbnpu");
	else
		doctor_ok(doctor, "node",
			  inventory_format("%s: driver qbnpu, by sysfs",
					   node->path));
}

void doctor_check_node(struct doctor *doctor)
{
	const struct own_node *node = doctor->inventory->own_nodes;
	const char *hardware = find_hardware();
	const char *vendor_node = find_vendor_node();

	if (vendor_node)
		doctor_warn(doctor, "node",
			    inventory_format(
				    "%s belongs to the vendor's own driver, "
				    "which this runtime does not drive",
				    vendor_node),
			    "E-NODE-3", "export QBRUNTIME_SOFT_DEVICES=aries");
	if (node) {
		for (; node; node = node->next)
			check_node(doctor, node);
	} else if (hardware && !vendor_node) {
		doctor_fail(doctor, 3, "node",
			    inventory_format(
				    "NPU hardware at %s, but no driver has "
				    "made a node",
				    hardware),
			    "E-NODE-1", "sudo modprobe qbnpu");
	} else if (source_is_denied(PCI_DEVICES)) {
		doctor_skip(doctor, "node",
			    "/" PCI_DEVICES " cannot be read, so whether there "
			    "is NPU hardware is not known");
	} else if (!vendor_node) {
		doctor_ok(doctor, "node",
			  doctor->inventory->devices.num
				  ? "no NPU hardware and no node: the software "
				    "NPU is used"
				  : "no NPU hardware and no node");
	}
}

/* ---- permission ---- */

static const char *get_user(void)
{
	const struct passwd *user;

	if (source_get_sysroot())
		return "user1";
	user = getpwuid(geteuid()); /* NOLINT(concurrency-mt-unsafe) */
	return user ? inventory_copy(user->pw_name)
		    : inventory_format("%u", geteuid());
}

/* Numbers of a line of the captured /proc/self/status, "Uid:\t1000\t1000". */
static size_t read_ids(const char *name, uint64_t *ids, size_t room)
{
	size_t length, num = 0;
	int err;
	char *text = source_read("proc/self/status", &length, &err);
	char *line = text ? strstr(text, name) : NULL;
	char *word, *rest;

	if (!line)
		return 0;
	line += strlen(name);
	line[strcspn(line, "\n")] = '\0';
	for (word = strtok_r(line, " \t", &rest); word && num < room;
	     word = strtok_r(NULL, " \t", &rest)) {
		if (!source_parse_number(word, &ids[num++]))
			return 0;
	}
	return num;
}

/* " (uid 1000)", the effective one. */
static const char *get_uid(void)
{
	uint64_t ids[4] = { 0, geteuid() };

	if (source_get_sysroot() && read_ids("\nUid:", ids, 4) < 2)
		return "";
	return inventory_format(" (uid %llu)", (unsigned long long)ids[1]);
}

static void fill_owner(struct own_node *node)
{
	struct stat info;
	const struct passwd *user;
	const struct group *group;

	if (source_get_sysroot() || stat(node->path, &info))
		return;
	node->mode = info.st_mode & 07777;
	node->gid = info.st_gid;
	user = getpwuid(info.st_uid); /* NOLINT(concurrency-mt-unsafe) */
	node->owner = user ? inventory_copy(user->pw_name)
			   : inventory_format("%u", info.st_uid);
	group = getgrgid(info.st_gid); /* NOLINT(concurrency-mt-unsafe) */
	node->group = group ? inventory_copy(group->gr_name)
			    : inventory_format("%u", info.st_gid);
}

/* Of this process, which may be older than what the user's groups are now. */
static bool is_in_group(int64_t gid)
{
	uint64_t ids[4], more[1024];
	gid_t groups[1024];
	size_t num;

	if (gid < 0)
		return false;
	if (source_get_sysroot()) {
		if (read_ids("\nGid:", ids, 4) > 1 && ids[1] == (uint64_t)gid)
			return true;
		num = read_ids("\nGroups:", more, 1024);
		for (size_t i = 0; i < num; i++) {
			if (more[i] == (uint64_t)gid)
				return true;
		}
		return false;
	}
	for (int i = getgroups(1024, groups); i > 0; i--) {
		if (groups[i - 1] == (gid_t)gid)
			return true;
	}
	return getegid() == (gid_t)gid;
}

static bool is_mode_known(const struct own_node *node)
{
	return node->mode || (node->owner && *node->owner) ||
	       (node->group && *node->group);
}

static const char *get_name(const char *name)
{
	return name && *name ? name : "?";
}

const char *doctor_explain_denied(struct own_node *node, const char **text,
				  const char **fix)
{
	const char *user = get_user(), *path = inventory_quote(node->path);
	bool is_for_group;

	fill_owner(node);
	is_for_group = (node->mode & 0060) == 0060;
	*text = inventory_format(
		"%s%s cannot open %s: %s", user, get_uid(), node->path,
		is_mode_known(node)
			? inventory_format("mode %04o %s:%s", node->mode,
					   node->owner ?: "?",
					   node->group ?: "?")
			: "permission denied");
	*fix = inventory_format("sudo setfacl -m u:%s:rw %s",
				inventory_quote(user), path);
	if (node->open_err == -EPERM) {
		*text = inventory_format("the device control group denies %s",
					 node->path);
		*fix = inventory_format("podman run --device %s, or "
					"docker run --device %s",
					path, path);
		return "E-PERM-3";
	}
	if ((node->mode & 0666) == 0666) {
		*text = inventory_format("%s, open to all: a security module "
					 "or a mount option denies it",
					 *text);
		*fix = inventory_format("findmnt -T %s and sudo dmesg | grep "
					"-i denied show which",
					path);
		return "E-PERM-5";
	}
	if (is_for_group && is_in_group(node->gid)) {
		*text = inventory_format("%s is in group %s, but an access "
					 "list denies %s",
					 user, get_name(node->group),
					 node->path);
		return "E-PERM-4";
	}
	if (is_for_group && node->group && *node->group &&
	    strcmp(node->group, "root") != 0) {
		*fix = inventory_format("sudo usermod -aG %s %s, then log in "
					"again",
					inventory_quote(node->group),
					inventory_quote(user));
		return "E-PERM-1";
	}
	return "E-PERM-2";
}

static void fail_permission(struct doctor *doctor, struct own_node *node)
{
	const char *text, *fix;
	const char *code = doctor_explain_denied(node, &text, &fix);

	doctor_fail(doctor, 4, "permission", text, code, fix);
}

void doctor_check_permission(struct doctor *doctor)
{
	size_t denied = 0;

	if (!doctor->inventory->own_nodes) {
		doctor_skip(doctor, "permission", "there is no node to open");
		return;
	}
	for (struct own_node *node = doctor->inventory->own_nodes; node;
	     node = node->next) {
		if (!is_denied(node))
			continue;
		fail_permission(doctor, node);
		denied++;
	}
	if (!denied)
		doctor_ok(doctor, "permission", "no node is denied");
}

/* ---- version ---- */

/* "1.0" of "1.0.3". */
static int get_length_of_two(const char *version)
{
	size_t length = strcspn(version, ".");

	if (version[length])
		length += 1 + strcspn(version + length + 1, ".");
	return (int)length;
}

void doctor_check_version(struct doctor *doctor)
{
	const char *library =
		record_get_text(doctor->inventory->tool, FIELD_TOOL_LIBRARY);
	const char *range =
		inventory_format("the library takes uapi %d.0 to %d.x",
				 QBINFO_UAPI_MAJOR, QBINFO_UAPI_MAJOR);
	const char *version = record_get_text(doctor->inventory->driver,
					      FIELD_DRIVER_VERSION);
	size_t found = 0;

	for (const struct own_node *node = doctor->inventory->own_nodes; node;
	     node = node->next) {
		bool is_older = node->uapi_major < QBINFO_UAPI_MAJOR;

		if (node->uapi_major < 0 ||
		    node->uapi_major == QBINFO_UAPI_MAJOR)
			continue;
		doctor_fail(
			doctor, 5, "version",
			inventory_format(
				"update the %s: %s has uapi %.*s, the "
				"library takes %d.0 to %d.x",
				is_older ? "driver" : "library", node->path,
				get_length_of_two(node->version), node->version,
				QBINFO_UAPI_MAJOR, QBINFO_UAPI_MAJOR),
			is_older ? "E-VER-1" : "E-VER-2",
			is_older ? inventory_format(
					   "install the driver of release %s, "
					   "then sudo modprobe qbnpu",
					   library)
				 : inventory_format("install the libqbruntime "
						    "of driver %s's release",
						    node->version));
		found++;
	}
	if (found)
		return;
	if (!doctor->inventory->own_nodes)
		doctor_skip(doctor, "version",
			    inventory_format("%s; no driver is loaded", range));
	else if (!version)
		doctor_skip(doctor, "version",
			    inventory_format("%s; the driver could not be "
					     "asked",
					     range));
	else
		doctor_ok(doctor, "version",
			  inventory_format("%s, the driver has %s", range,
					   version));
}

/* ---- health ---- */

static const char reload[] = "sudo modprobe -r qbnpu, then sudo modprobe qbnpu";

/* Whether a finding was told. */
static bool find_illness(struct doctor *doctor, const struct record *device)
{
	const char *id = record_get_text(device, FIELD_ID);
	const char *state = record_get_text(device, FIELD_STATE) ?: "";
	const struct value *throttling = record_see(device, FIELD_THROTTLING);

	if (!strcmp(state, "lost"))
		doctor_fail(doctor, 7, "health",
			    inventory_format("%s is lost", id), "E-HW-1",
			    reload);
	else if (!strcmp(state, "degraded"))
		doctor_fail(doctor, 10, "health",
			    inventory_format("%s is degraded: cores of it are "
					     "out of use",
					     id),
			    "E-HW-2", reload);
	else if (throttling->is_set && throttling->boolean)
		doctor_warn(
			doctor, "health",
			inventory_format("%s is slowed down: it is hot", id),
			"E-HW-3",
			inventory_format("cool it or give it less to do: "
					 "qbinfo show %s -t thermal",
					 inventory_quote(id)));
	else
		return false;
	return true;
}

void doctor_check_health(struct doctor *doctor)
{
	size_t found = 0, known = 0;

	for (const struct record *device = doctor->inventory->devices.first;
	     device; device = device->next) {
		found += find_illness(doctor, device);
		known += record_get_text(device, FIELD_STATE) != NULL;
	}
	if (found)
		return;
	if (known)
		doctor_ok(doctor, "health",
			  "no device is lost, degraded or too hot");
	else
		doctor_skip(doctor, "health", "no device tells its state");
}

/* ---- translation of addresses ---- */

/* A port that anyone can plug into, and nothing between it and all memory. */
void doctor_check_iommu(struct doctor *doctor)
{
	size_t found = 0, looked_at = 0;

	for (const struct own_node *node = doctor->inventory->own_nodes; node;
	     node = node->next) {
		const char *folder = inventory_format("sys/bus/pci/devices/%s",
						      node->bus_address ?: "");
		int err;
		const char *removable, *group;

		if (!node->bus_address || !strchr(node->bus_address, ':'))
			continue;
		looked_at++;
		removable = source_read_line(
			inventory_format("%s/removable", folder), &err);
		group = source_read_link(
			inventory_format("%s/iommu_group", folder));
		if (group || !removable || strcmp(removable, "removable") != 0)
			continue;
		found++;
		doctor_warn(doctor, "iommu",
			    inventory_format("%s sits on an external port and "
					     "reaches all memory: no IOMMU",
					     node->bus_address),
			    "E-IOM-1",
			    "add intel_iommu=on or amd_iommu=on to the kernel "
			    "command line");
	}
	if (!looked_at)
		doctor_skip(doctor, "iommu", "there is no NPU on PCI");
	else if (!found)
		doctor_ok(doctor, "iommu",
			  "no NPU reaches memory from an external port");
}
