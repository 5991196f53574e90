// SPDX-License-Identifier: MIT
/* Checks of what bounds memory, and of the container around the process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect.h"
#include "doctor.h"
#include "source.h"

#define MIB (1ull << 20)
#define ROOM (64 * MIB)       /* what a small model and its buffers take */
#define CONTIGUOUS (16 * MIB) /* a picture of 4 Mpixel in float32 and more */

/* 64K, 96M, 4G: as print_value has sizes; whole ones are enough here. */
static const char *get_size(uint64_t bytes)
{
	if (bytes >= 1ull << 30)
		return inventory_format("%lluG",
					(unsigned long long)(bytes >> 30));
	if (bytes >= MIB)
		return inventory_format("%lluM",
					(unsigned long long)(bytes >> 20));
	return inventory_format("%lluK", (unsigned long long)(bytes >> 10));
}

void doctor_check_memlock(struct doctor *doctor)
{
	uint64_t limit;

	if (limit_has_ipc_lock())
		doctor_ok(doctor, "memlock",
			  "CAP_IPC_LOCK: RLIMIT_MEMLOCK does not bind");
	else if (!limit_get_memlock(&limit))
		doctor_ok(doctor, "memlock", "RLIMIT_MEMLOCK is unlimited");
	else if (limit >= ROOM)
		doctor_ok(doctor, "memlock",
			  inventory_format("RLIMIT_MEMLOCK is %s",
					   get_size(limit)));
	else
		doctor_warn(doctor, "memlock",
			    inventory_format("RLIMIT_MEMLOCK is %s: larger "
					     "pinned buffers will fail",
					     get_size(limit)),
			    "E-MEM-1",
			    "ulimit -l unlimited, or LimitMEMLOCK=infinity in "
			    "the unit");
}

/* ---- contiguous memory ---- */

/* A number of /proc/meminfo, in bytes where the line ends in kB; 0: no line. */
static uint64_t get_meminfo(const char *text, const char *name)
{
	const char *line = text;
	size_t length = strlen(name);

	for (; line; line = strchr(line, '\n')) {
		uint64_t number;
		char *end;

		line += *line == '\n';
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		number = strtoull(line + length + 1, &end, 10);
		return strncmp(end, " kB", 3) ? number : number << 10;
	}
	return 0;
}

/*
 * Free runs of memory of at least size, of all zones: the columns of
 * /proc/buddyinfo are those of 1, 2, 4, ... pages. UINT64_MAX: not known.
 */
static uint64_t count_free_runs(uint64_t size)
{
	size_t length;
	int err;
	char *text = source_read("proc/buddyinfo", &length, &err);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), num = 0;
	char *line, *rest;

	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *word = strstr(line, "zone"), *more;
		uint64_t run = page;

		word = word ? strtok_r(word, " ", &more) : NULL;
		word = word ? strtok_r(NULL, " ", &more) : NULL;
		while (word && (word = strtok_r(NULL, " ", &more))) {
			if (run >= size)
				num += strtoull(word, NULL, 10) * (run / size);
			run *= 2;
		}
	}
	return text ? num : UINT64_MAX;
}

static void warn_of_huge_pages(struct doctor *doctor, uint64_t huge,
			       uint64_t size)
{
	uint64_t pages = size && size < CONTIGUOUS ? CONTIGUOUS / size : 1;

	if (count_free_runs(size ? size : CONTIGUOUS) < pages)
		doctor_warn(doctor, "contiguous",
			    inventory_format("16M with require_contiguous "
					     "would fail, and memory is "
					     "fragmented"),
			    "E-CMA-3",
			    inventory_format("sudo sysctl vm.compact_memory=1 "
					     "vm.nr_hugepages=%llu",
					     (unsigned long long)pages));
	else
		doctor_warn(doctor, "contiguous",
			    inventory_format("16M with require_contiguous "
					     "would fail: %s of huge pages "
					     "are free",
					     get_size(huge)),
			    "E-CMA-2",
			    inventory_format("sudo sysctl vm.nr_hugepages=%llu",
					     (unsigned long long)pages));
}

/* Hardware takes it from the driver, a software device from huge pages. */
void doctor_check_contiguous(struct doctor *doctor)
{
	size_t length;
	int err;
	const char *text = source_read("proc/meminfo", &length, &err);
	uint64_t huge = get_meminfo(text, "HugePages_Free") *
			get_meminfo(text, "Hugepagesize");
	uint64_t cma = get_meminfo(text, "CmaFree");
	bool has_hardware = doctor->inventory->has_hardware;
	uint64_t size = get_meminfo(text, "Hugepagesize");

	if (!text)
		doctor_skip(doctor, "contiguous",
			    "/proc/meminfo cannot be read");
	else if (has_hardware && cma >= CONTIGUOUS)
		doctor_ok(doctor, "contiguous",
			  inventory_format("%s of the contiguous area are free",
					   get_size(cma)));
	else if (has_hardware && get_meminfo(text, "CmaTotal"))
		doctor_warn(doctor, "contiguous",
			    inventory_format("16M with require_contiguous "
					     "would fail: %s of the "
					     "contiguous area are free",
					     get_size(cma)),
			    "E-CMA-1",
			    "add cma=256M to the kernel command line");
	else if (has_hardware)
		doctor_skip(doctor, "contiguous",
			    "the driver's own memory decides: qbinfo show -t "
			    "memory");
	else if (huge >= CONTIGUOUS)
		doctor_ok(doctor, "contiguous",
			  inventory_format("%s of huge pages are free",
					   get_size(huge)));
	else
		warn_of_huge_pages(doctor, huge, size);
}

/* ---- export ---- */

void doctor_check_export(struct doctor *doctor)
{
	int fd;

	if (source_has_node("dev/udmabuf") || doctor->inventory->has_hardware) {
		doctor_ok(doctor, "export",
			  "buffers can be exported as dma-buf");
		return;
	}
	if (source_get_sysroot()) {
		doctor_skip(doctor, "export",
			    "no /dev/udmabuf; whether memfds work is known "
			    "live only");
		return;
	}
	fd = memfd_create("qbinfo", MFD_CLOEXEC);
	if (fd >= 0) {
		(void)close(fd);
		doctor_ok(doctor, "export",
			  "buffers can be exported as memfd; no /dev/udmabuf, "
			  "so no dma-buf");
		return;
	}
	doctor_warn(doctor, "export",
		    inventory_format("buffers cannot be exported: no "
				     "/dev/udmabuf, and memfd_create says %s",
				     strerror(errno)),
		    "E-EXP-1", "sudo modprobe udmabuf");
}

/* ---- control group ---- */

void doctor_check_cgroup(struct doctor *doctor)
{
	const char *max = cgroup_read("memory.max");
	const char *current = cgroup_read("memory.current");
	const char *pids_max = cgroup_read("pids.max");
	const char *pids = cgroup_read("pids.current");
	uint64_t limit, used;
	size_t found = 0;

	if (max && current && source_parse_number(max, &limit) &&
	    source_parse_number(current, &used) && limit < used + ROOM) {
		found++;
		doctor_warn(
			doctor, "cgroup",
			inventory_format("memory.max is %s and %s are in "
					 "use: less than 64M are left",
					 get_size(limit), get_size(used)),
			"E-CGR-1",
			inventory_format(
				"MemoryMax=%lluM in the unit, or the "
				"container's --memory %llum",
				(unsigned long long)((used + ROOM) / MIB + 1),
				(unsigned long long)((used + ROOM) / MIB + 1)));
	}
	/* a device has up to ten cores, each a thread */
	if (pids_max && pids && source_parse_number(pids_max, &limit) &&
	    source_parse_number(pids, &used) && limit < used + 16) {
		found++;
		doctor_warn(
			doctor, "cgroup",
			inventory_format("pids.max is %s and %s are in "
					 "use: a device takes up to 16 "
					 "threads",
					 pids_max, pids),
			"E-CGR-2",
			inventory_format("TasksMax=%llu in the unit, or the "
					 "container's --pids-limit %llu",
					 (unsigned long long)used + 64,
					 (unsigned long long)used + 64));
	}
	if (found)
		return;
	if (!max && !pids_max)
		doctor_ok(doctor, "cgroup", "no limit of a control group");
	else
		doctor_ok(doctor, "cgroup",
			  inventory_format("memory.max is %s, pids.max is %s",
					   max ?: "not set",
					   pids_max ?: "not set"));
}

/* ---- container ---- */

static const char *get_container(void)
{
	struct stat info;
	size_t length;
	int err;
	const char *groups;

	if (source_stat("run/.containerenv", &info))
		return "podman";
	if (source_stat(".dockerenv", &info))
		return "docker";
	groups = source_read("proc/1/cgroup", &length, &err);
	if (groups && strstr(groups, "kubepods"))
		return "kubernetes";
	if (groups && strstr(groups, "docker"))
		return "docker";
	if (groups && strstr(groups, "libpod"))
		return "podman";
	return groups && strstr(groups, "lxc") ? "lxc" : NULL;
}

/* Nodes that sysfs knows of our driver and that are not in /dev here. */
static size_t count_missing(void)
{
	static const char *const classes[][3] = {
		{ "sys/class/accel", "accel", "dev/accel" },
		{ "sys/class/drm", "renderD", "dev/dri" },
	};
	size_t missing = 0;

	for (size_t i = 0; i < 2; i++) {
		char **names;
		size_t num = source_list(classes[i][0], &names);

		for (size_t j = 0; j < num; j++) {
			const char *driver = source_read_link(
				inventory_format("%s/%s/device/driver",
						 classes[i][0], names[j]));

			if (!strncmp(names[j], classes[i][1],
				     strlen(classes[i][1])) &&
			    driver && !strcmp(driver, "qbnpu") &&
			    !source_has_node(inventory_format(
				    "%s/%s", classes[i][2], names[j])))
				missing++;
		}
	}
	return missing;
}

void doctor_check_container(struct doctor *doctor)
{
	const char *container = get_container();
	size_t missing = count_missing();
	const struct own_node *node = doctor->inventory->own_nodes;
	const char *visible = node ? node->path : "no node";
	size_t num = 0;

	for (; node; node = node->next)
		num++;
	if (num > 1)
		visible = inventory_format("%s and %zu more", visible, num - 1);
	if (missing)
		doctor_info(
			doctor, "container",
			inventory_format(
				"%s%shere: %s; elsewhere: %zu, which is fine",
				container ? container : "",
				container ? ", " : "", visible, missing),
			"E-CON-1");
	else
		doctor_ok(doctor, "container",
			  container ? inventory_format("in a container (%s)",
						       container)
				    : "not in a container");
}
