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
	enum limit state = limit_get_memlock(&limit);
	size_t length;
	int err;

	if (limit_has_ipc_lock())
		doctor_ok(doctor, "memlock",
			  "CAP_IPC_LOCK: RLIMIT_MEMLOCK does not bind");
	else if (state == LIMIT_UNKNOWN)
		doctor_skip(doctor, "memlock",
			    "/proc/self/limits has no RLIMIT_MEMLOCK that can "
			    "be read");
	else if (state == LIMIT_NONE)
		doctor_ok(doctor, "memlock", "RLIMIT_MEMLOCK is unlimited");
	else if (limit >= ROOM)
		doctor_ok(doctor, "memlock",
			  inventory_format("RLIMIT_MEMLOCK is %s",
					   get_size(limit)));
	else if (!source_read("proc/self/status", &length, &err))
		doctor_skip(doctor, "memlock",
			    inventory_format("RLIMIT_MEMLOCK is %s; whether it "
					     "binds is in /proc/self/status, "
					     "which cannot be read",
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

/* A number of /proc/meminfo, in bytes where the line ends in kB. */
static bool read_meminfo(const char *text, const char *name, uint64_t *number)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		char *word, *rest;

		line += *line == '\n';
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line = inventory_format("%.*s", (int)strcspn(line, "\n"), line);
		word = strtok_r(inventory_copy(line), " \t", &rest);
		if (!word || !source_parse_number(word, number))
			return false;
		word = strtok_r(NULL, " \t", &rest);
		return !word ||
		       (!strcmp(word, "kB") &&
			!__builtin_mul_overflow(*number, 1024, number));
	}
	return false;
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

/* Of the pool: a reserved page is free, and promised to somebody. */
struct huge_pages {
	uint64_t size, total, free, needed;
};

static bool read_huge_pages(const char *text, struct huge_pages *pages)
{
	uint64_t reserved = 0;

	if (!read_meminfo(text, "Hugepagesize", &pages->size) || !pages->size ||
	    !read_meminfo(text, "HugePages_Total", &pages->total) ||
	    !read_meminfo(text, "HugePages_Free", &pages->free))
		return false;
	(void)read_meminfo(text, "HugePages_Rsvd", &reserved);
	pages->free -= reserved < pages->free ? reserved : pages->free;
	pages->needed = pages->size < CONTIGUOUS ? CONTIGUOUS / pages->size : 1;
	return pages->total < UINT64_MAX - pages->needed &&
	       pages->free <= pages->total;
}

static const char *get_free_size(const struct huge_pages *pages)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(pages->free, pages->size, &bytes))
		bytes = UINT64_MAX;
	return get_size(bytes);
}

/* The pool only ever grows: others use what it has. */
static void warn_of_huge_pages(struct doctor *doctor,
			       const struct huge_pages *pages)
{
	uint64_t more = pages->needed - pages->free;
	const char *setting =
		inventory_format("vm.nr_hugepages=%llu",
				 (unsigned long long)(pages->total + more));

	if (count_free_runs(pages->size) < more)
		doctor_warn(doctor, "contiguous",
			    "16M with require_contiguous would fail, and "
			    "memory is fragmented",
			    "E-CMA-3",
			    inventory_format("sudo sysctl vm.compact_memory=1 "
					     "%s",
					     setting));
	else
		doctor_warn(doctor, "contiguous",
			    inventory_format("16M with require_contiguous "
					     "would fail: %s of huge pages "
					     "are free",
					     get_free_size(pages)),
			    "E-CMA-2",
			    inventory_format("sudo sysctl %s", setting));
}

static void check_huge_pages(struct doctor *doctor, const char *text)
{
	struct huge_pages pages;

	if (!read_huge_pages(text, &pages))
		doctor_skip(doctor, "contiguous",
			    "/proc/meminfo does not tell the pool of huge "
			    "pages");
	else if (pages.free >= pages.needed)
		doctor_ok(doctor, "contiguous",
			  inventory_format("%s of huge pages are free",
					   get_free_size(&pages)));
	else
		warn_of_huge_pages(doctor, &pages);
}

/* Hardware takes it from the driver, a software device from huge pages. */
void doctor_check_contiguous(struct doctor *doctor)
{
	size_t length;
	int err;
	const char *text = source_read("proc/meminfo", &length, &err);
	uint64_t total = 0, left;

	if (!text) {
		doctor_skip(doctor, "contiguous",
			    "/proc/meminfo cannot be read");
		return;
	}
	if (!doctor->inventory->has_hardware) {
		check_huge_pages(doctor, text);
		return;
	}
	if (!read_meminfo(text, "CmaTotal", &total) || !total ||
	    !read_meminfo(text, "CmaFree", &left))
		doctor_skip(doctor, "contiguous",
			    "the driver's own memory decides: qbinfo show -t "
			    "memory");
	else if (left >= CONTIGUOUS)
		doctor_ok(doctor, "contiguous",
			  inventory_format("%s of the contiguous area are free",
					   get_size(left)));
	else
		doctor_warn(doctor, "contiguous",
			    inventory_format("16M with require_contiguous "
					     "would fail: %s of the "
					     "contiguous area are free",
					     get_size(left)),
			    "E-CMA-1",
			    "add cma=256M to the kernel command line");
}

/* ---- export ---- */

/* LIMIT_SET: a device can; LIMIT_NONE: those that tell cannot. */
static enum limit find_cap(const struct inventory *inventory,
			   enum field_id field)
{
	enum limit found = LIMIT_UNKNOWN;

	for (const struct record *device = inventory->devices.first; device;
	     device = device->next) {
		const struct value *value = record_see(device, field);

		if (value->is_set && found != LIMIT_SET)
			found = value->boolean ? LIMIT_SET : LIMIT_NONE;
	}
	return found;
}

/* What the software NPU exports, tried: 0 or the errno. */
static int try_memfd(void)
{
	int fd = memfd_create("qbinfo", MFD_CLOEXEC);

	if (fd < 0)
		return errno;
	(void)close(fd);
	return 0;
}

void doctor_check_export(struct doctor *doctor)
{
	const struct inventory *inventory = doctor->inventory;
	enum limit dmabuf = find_cap(inventory, FIELD_DMABUF_EXPORT);
	enum limit memfd = find_cap(inventory, FIELD_MEMFD_EXPORT);
	int err = 0;

	if (dmabuf != LIMIT_SET && !source_get_sysroot() &&
	    !inventory->has_hardware)
		err = try_memfd();
	if (dmabuf == LIMIT_SET)
		doctor_ok(doctor, "export",
			  "buffers can be exported as dma-buf");
	else if (err)
		doctor_warn(doctor, "export",
			    inventory_format("buffers cannot be exported: no "
					     "dma-buf, and memfd_create says "
					     "%s",
					     strerror(err)),
			    "E-EXP-1", "sudo modprobe udmabuf");
	else if (memfd == LIMIT_SET)
		doctor_ok(doctor, "export",
			  "buffers can be exported as memfd, not as dma-buf");
	else if (dmabuf == LIMIT_NONE && memfd == LIMIT_NONE)
		doctor_warn(doctor, "export",
			    "buffers cannot be exported: no device has "
			    "dma-buf or memfd",
			    "E-EXP-1", "sudo modprobe udmabuf");
	else
		doctor_skip(doctor, "export",
			    "no device tells what it can export");
}

/* ---- control group ---- */

static void check_group_memory(struct doctor *doctor,
			       const struct cgroup_limit *memory)
{
	unsigned long long mib = (memory->used + ROOM) / MIB + 1;

	doctor_warn(doctor, "cgroup",
		    inventory_format("/%s is %s and %s are in use: less than "
				     "64M are left",
				     memory->file, get_size(memory->limit),
				     get_size(memory->used)),
		    "E-CGR-1",
		    inventory_format("MemoryMax=%lluM in the unit, or the "
				     "container's --memory %llum",
				     mib, mib));
}

static void check_group_pids(struct doctor *doctor,
			     const struct cgroup_limit *pids)
{
	unsigned long long num = pids->used + 64;

	doctor_warn(doctor, "cgroup",
		    inventory_format("/%s is %llu and %llu are in use: a "
				     "device takes up to 16 threads",
				     pids->file,
				     (unsigned long long)pids->limit,
				     (unsigned long long)pids->used),
		    "E-CGR-2",
		    inventory_format("TasksMax=%llu in the unit, or the "
				     "container's --pids-limit %llu",
				     num, num));
}

/* false: it was told that it is not known. */
static bool is_group_known(struct doctor *doctor, const char *what,
			   const struct cgroup_limit *limit)
{
	if (!limit->unread)
		return true;
	doctor_skip(doctor, "cgroup",
		    inventory_format("what is left of %s is not known: /%s %s",
				     what, limit->unread,
				     limit->err ? "cannot be read"
						: "is no number"));
	return false;
}

void doctor_check_cgroup(struct doctor *doctor)
{
	struct cgroup_limit memory, pids;
	bool is_known, is_fine = true;

	cgroup_read("memory", &memory);
	cgroup_read("pids", &pids);
	is_known = is_group_known(doctor, "memory", &memory);
	is_known = is_group_known(doctor, "threads", &pids) && is_known;
	if (memory.state == LIMIT_SET && memory.limit - memory.used < ROOM) {
		check_group_memory(doctor, &memory);
		is_fine = false;
	}
	/* a device has up to ten cores, each a thread */
	if (pids.state == LIMIT_SET && pids.limit - pids.used < 16) {
		check_group_pids(doctor, &pids);
		is_fine = false;
	}
	if (!is_known || !is_fine)
		return;
	if (memory.state == LIMIT_NONE && pids.state == LIMIT_NONE)
		doctor_ok(doctor, "cgroup", "no limit of a control group");
	else
		doctor_ok(doctor, "cgroup",
			  inventory_format(
				  "memory has %s, threads have %s",
				  memory.state == LIMIT_NONE
					  ? "no limit"
					  : get_size(memory.lowest),
				  pids.state == LIMIT_NONE
					  ? "no limit"
					  : inventory_format(
						    "%llu",
						    (unsigned long long)
							    pids.lowest)));
}

/* ---- container ---- */

/* groups: NULL if they cannot be read. */
static const char *get_container(const char *groups)
{
	static const char *const words[][2] = {
		{ "kubepods", "kubernetes" },
		{ "docker", "docker" },
		{ "libpod", "podman" },
		{ "lxc", "lxc" },
	};

	if (source_has_marker("run/.containerenv"))
		return "podman";
	if (source_has_marker(".dockerenv"))
		return "docker";
	for (size_t i = 0; groups && i < 4; i++) {
		if (strstr(groups, words[i][0]))
			return words[i][1];
	}
	return NULL;
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
	size_t length;
	int err;
	const char *groups = source_read("proc/1/cgroup", &length, &err);
	const char *container = get_container(groups);
	size_t missing = count_missing();
	const struct own_node *node = doctor->inventory->own_nodes;
	const char *visible = node ? node->path : "no node";
	size_t num = 0;

	for (; node; node = node->next)
		num++;
	if (num > 1)
		visible = inventory_format("%s and %zu more", visible, num - 1);
	if (container && missing)
		doctor_info(
			doctor, "container",
			inventory_format(
				"%s, here: %s; elsewhere: %zu, which is fine",
				container, visible, missing),
			"E-CON-1");
	else if (container)
		doctor_ok(doctor, "container",
			  inventory_format("in a container (%s)", container));
	else if (!groups)
		doctor_skip(doctor, "container",
			    "no marker of a container, and /proc/1/cgroup "
			    "cannot be read");
	else
		doctor_ok(doctor, "container", "not in a container");
}
