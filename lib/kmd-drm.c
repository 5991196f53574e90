// SPDX-License-Identifier: MIT
/*
 * The door to the kernel's driver: its nodes, and by libdrm the version, the
 * capabilities and the requests of their files. What the kernel answers goes
 * up as it is, but for the few codes that the seam never gives.
 *
 * A file's number is its descriptor and, above that, the generation of the
 * process that opened it: the child of a fork has another, so it is refused
 * without a system call (K016); only a 2,048th generation of children would
 * take the first one's for its own. There is no other state.
 */
#include "kmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xf86drm.h>

#include "fd.h"
#include "uapi/qbnpu_drm.h"
#include "util.h"

/* 2^20 descriptors are the kernel's own default for fs.nr_open. */
#define FD_BITS 20
#define FD_MASK ((1u << FD_BITS) - 1)
#define GENERATION_MASK ((1u << (31 - FD_BITS)) - 1)

/* ---- nodes ---- */

/* What kmd.h says of op open, for the errno of what an open is made of. */
static int get_open_error(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case ENOTTY: /* no node of DRM */
		return -ENOENT;
	case EACCES:
	case EPERM: /* of a device cgroup */
	case EROFS:
		return -EACCES;
	case ENOMEM:
	case EMFILE:
	case ENFILE:
		return -err;
	case EINVAL: /* a request that every version has */
		return -EPROTO;
	default: /* ENXIO, EIO, ...: the node is there, its device is not */
		return -ENODEV;
	}
}

static int open_node(const char *path)
{
	int fd;

	do {
		fd = open(path, O_RDWR | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	fd = qbrt_fd_keep(fd);
	return fd < 0 ? get_open_error(errno) : fd;
}

/* -ENOENT: another driver's node, or none of DRM at all. */
static int check_version(int fd)
{
	drmVersionPtr version = drmGetVersion(fd);
	int err = 0;

	if (!version)
		return get_open_error(errno);
	if (strcmp(version->name, DRM_QBNPU_NAME) != 0)
		err = -ENOENT;
	else if (version->version_major != DRM_QBNPU_MAJOR)
		err = -EPROTO;
	drmFreeVersion(version);
	return err;
}

/* Every time and deadline of the uAPI is one of CLOCK_MONOTONIC. */
static int check_clock(int fd)
{
	uint64_t is_monotonic = 0;

	if (drmGetCap(fd, DRM_CAP_TIMESTAMP_MONOTONIC, &is_monotonic))
		return get_open_error(errno);
	return is_monotonic ? 0 : -EPROTO;
}

/* What hides a device by chance, not because it cannot be had. */
static bool is_exhausted(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

/* 1: it is; 0: it is not, or cannot tell; or is_exhausted. */
static int has_our_version(const char *path)
{
	int fd = open_node(path);
	int err;

	if (fd < 0)
		return is_exhausted(fd) ? fd : 0;
	err = check_version(fd);
	(void)close(fd);
	if (is_exhausted(err))
		return err;
	return err == 0 || err == -EPROTO;
}

/*
 * Opening a node may wake a device that sleeps, so sysfs is asked which driver
 * it has, by the numbers of the node, whatever it is called here. Only a node
 * that sysfs does not know is opened to find out (Q036). 1, 0, or an errno.
 */
static int is_ours(const char *path)
{
	char link[64], target[1024];
	const char *driver;
	struct stat node;
	ssize_t length;

	if (stat(path, &node) || !S_ISCHR(node.st_mode))
		return 0;
	(void)snprintf(link, sizeof(link), "/sys/dev/char/%u:%u/device/driver",
		       major(node.st_rdev), minor(node.st_rdev));
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return has_our_version(path);
	target[length] = '\0';
	driver = strrchr(target, '/');
	return driver && !strcmp(driver + 1, DRM_QBNPU_NAME);
}

/* libdrm lists no accel nodes, and no driver names of render nodes. */
static const struct node_folder {
	const char *path, *prefix;
	long first_number; /* the kernel's render nodes count from 128 */
} node_folders[] = {
	{ "/dev/accel", "accel", 0 },
	{ "/dev/dri", "renderD", 128 },
};

/* Names are prefix and number, nothing else: "accel0", not "accel00". */
static bool parse_name(const struct node_folder *folder, const char *name,
		       struct qbrt_kmd_node *node)
{
	size_t length = strlen(folder->prefix);
	char known[32];
	long number;

	if (strncmp(name, folder->prefix, length) != 0)
		return false;
	number = strtol(name + length, NULL, 10);
	if (number < folder->first_number || number > INT32_MAX)
		return false;
	(void)snprintf(known, sizeof(known), "%s%ld", folder->prefix, number);
	if (strcmp(known, name) != 0)
		return false;
	memset(node, 0, sizeof(*node));
	(void)snprintf(node->path, sizeof(node->path), "%s/%s", folder->path,
		       known);
	node->number = (int)(number - folder->first_number);
	return true;
}

static int list_entry(const struct node_folder *folder, const char *name,
		      struct qbrt_kmd_node *nodes, size_t max_nodes,
		      size_t *num_nodes)
{
	struct qbrt_kmd_node node;
	int ours = parse_name(folder, name, &node) ? is_ours(node.path) : 0;

	if (ours <= 0)
		return ours;
	if (*num_nodes < max_nodes)
		nodes[*num_nodes] = node;
	++*num_nodes;
	return 0;
}

/* A folder that is not there, or not ours to read, has no nodes. */
static int list_folder(const struct node_folder *folder,
		       struct qbrt_kmd_node *nodes, size_t max_nodes,
		       size_t *num_nodes)
{
	struct dirent **entries;
	int num = scandir(folder->path, &entries, NULL, versionsort);
	int err = 0;

	if (num < 0)
		return is_exhausted(-errno) ? -errno : 0;
	for (int i = 0; i < num; i++) {
		if (!err)
			err = list_entry(folder, entries[i]->d_name, nodes,
					 max_nodes, num_nodes);
		free(entries[i]);
	}
	free(entries);
	return err;
}

static int drm_list(const struct qbrt_kmd_options *options,
		    struct qbrt_kmd_node *nodes, size_t max_nodes,
		    size_t *num_nodes)
{
	size_t num = 0;

	(void)options;
	for (size_t i = 0; i < qbrt_array_size(node_folders); i++) {
		int err = list_folder(&node_folders[i], nodes, max_nodes, &num);

		if (err)
			return err;
	}
	*num_nodes = num;
	return 0;
}

/* ---- files ---- */

static atomic_uint fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void note_fork(void)
{
	atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, note_fork);
}

static unsigned int get_generation(void)
{
	return atomic_load_explicit(&fork_generation, memory_order_relaxed) &
	       GENERATION_MASK;
}

/* -ENODEV: opened by the process that forked this one. */
static int get_fd(int file)
{
	unsigned int number = (unsigned int)file;

	if (number >> FD_BITS != get_generation())
		return -ENODEV;
	return (int)(number & FD_MASK);
}

static int drm_open(const struct qbrt_kmd_options *options, const char *path,
		    int *file)
{
	int fd = open_node(path);
	int err;

	(void)options;
	if (fd < 0)
		return fd;
	err = (unsigned int)fd > FD_MASK ? -EMFILE : check_version(fd);
	if (!err)
		err = check_clock(fd);
	if (err) {
		(void)close(fd);
		return err;
	}
	(void)pthread_once(&fork_once, watch_forks);
	*file = (int)(get_generation() << FD_BITS | (unsigned int)fd);
	return 0;
}

/* In a child of fork too: the descriptor is its own, the file the parent's. */
static void drm_close(int file)
{
	(void)close((int)((unsigned int)file & FD_MASK));
}

/* ---- requests, mappings, events ---- */

/* K009: the two that a signal ends, for their caller to repeat. */
static bool is_wait(unsigned long request)
{
	return _IOC_NR(request) == _IOC_NR(DRM_IOCTL_QBNPU_WAIT) ||
	       _IOC_NR(request) == _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT);
}

static int drm_ioctl(int file, unsigned long request, void *arg)
{
	int fd = get_fd(file);
	int ret;

	if (fd < 0)
		return fd;
	if (!is_wait(request))
		return drmIoctl(fd, request, arg) < 0 ? -errno : 0;
	do {
		ret = ioctl(fd, request, arg);
	} while (ret < 0 && errno == EAGAIN);
	return ret < 0 ? -errno : 0;
}

static int drm_mmap(int file, uint64_t offset, size_t length, int prot,
		    void **address)
{
	int fd = get_fd(file);
	void *mapped;

	if (fd < 0)
		return fd;
	if (prot & ~(PROT_READ | PROT_WRITE) || !prot)
		return -EINVAL;
	mapped = mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)offset);
	if (mapped == MAP_FAILED)
		/* over the limit of what mlockall locks */
		return errno == EAGAIN ? -ENOMEM : -errno;
	*address = mapped;
	return 0;
}

/* A mapping is this process's own, also where its file is the parent's. */
static int drm_munmap(int file, void *address, size_t length)
{
	(void)file;
	return munmap(address, length) ? -errno : 0;
}

static int drm_poll(int file, int64_t deadline_ns)
{
	struct pollfd events = { .fd = get_fd(file), .events = POLLIN };
	int num;

	if (events.fd < 0)
		return events.fd;
	do {
		int64_t now_ns = qbrt_now_ns();
		int64_t left_ns =
			deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		struct timespec left = {
			.tv_sec = left_ns / QBRT_NS_PER_SEC,
			.tv_nsec = left_ns % QBRT_NS_PER_SEC,
		};

		num = ppoll(&events, 1, &left, NULL);
	} while (num < 0 && (errno == EINTR || errno == EAGAIN));
	if (num < 0)
		return -errno;
	if (!num)
		return -ETIME;
	/* what a lost device still has to tell comes before that it is lost */
	return events.revents & POLLIN ? 0 : -ENODEV;
}

const struct qbrt_kmd qbrt_kmd_drm = {
	.name = "drm",
	.list = drm_list,
	.open = drm_open,
	.close = drm_close,
	.ioctl = drm_ioctl,
	.mmap = drm_mmap,
	.munmap = drm_munmap,
	.poll = drm_poll,
};
