// SPDX-License-Identifier: MIT
/*
 * Functions that the linker puts in the place of libdrm's and libc's: what is
 * about a node of the test is answered here, all else goes on to the real one,
 * for the software driver maps and closes too. Its own mappings are told from
 * those that it handed out by their addresses.
 */
#include "fake-drm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <xf86drm.h>

#include "check-kmd.h"
#include "util.h"

#define MAX_FILES 4096
#define MAX_MAPPINGS 4096
#define FAKE_MAJOR 261

/* The linker's names of the real ones, and of ours. */
int __real_close(int fd);
int __real_fcntl(int fd, int command, ...);
int __real_ioctl(int fd, unsigned long request, ...);
void *__real_mmap(void *address, size_t length, int prot, int flags, int fd,
		  off_t offset);
int __real_munmap(void *address, size_t length);
int __real_open(const char *path, int flags, ...);
int __real_ppoll(struct pollfd *fds, nfds_t num, const struct timespec *timeout,
		 const sigset_t *mask);
ssize_t __real_readlink(const char *path, char *target, size_t size);
int __real_scandir(const char *path, struct dirent ***entries,
		   int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **,
				  const struct dirent **));
int __real_stat(const char *path, struct stat *status);
int __wrap_close(int fd);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
void *__wrap_mmap(void *address, size_t length, int prot, int flags, int fd,
		  off_t offset);
int __wrap_munmap(void *address, size_t length);
int __wrap_open(const char *path, int flags, ...);
int __wrap_ppoll(struct pollfd *fds, nfds_t num, const struct timespec *timeout,
		 const sigset_t *mask);
ssize_t __wrap_readlink(const char *path, char *target, size_t size);
int __wrap_scandir(const char *path, struct dirent ***entries,
		   int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **,
				  const struct dirent **));
int __wrap_stat(const char *path, struct stat *status);

struct fake_drm fake_drm;

/* By descriptor. */
struct fake_file {
	_Atomic(const struct fake_drm_node *) node;
	int soft, flags;
};

/* What soft handed out, an entry each time; fake_lock. */
struct fake_mapping {
	void *address;
	int soft;
};

static struct fake_file files[MAX_FILES];
static struct fake_mapping mappings[MAX_MAPPINGS];
static size_t num_mappings;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct fake_drm_node first_node = {
	.path = "/dev/accel/accel0",
	.driver = "qbnpu",
	.soft = "soft:0",
};

void fake_drm_set_nodes(const struct fake_drm_node *nodes, size_t num_nodes)
{
	memset(&fake_drm, 0, sizeof(fake_drm));
	fake_drm.nodes = nodes;
	fake_drm.num_nodes = num_nodes;
}

void fake_drm_begin(void)
{
	fake_drm_set_nodes(&first_node, 1);
}

/* ---- names ---- */

static const struct fake_drm_node *find_node(const char *path)
{
	for (size_t i = 0; i < fake_drm.num_nodes; i++) {
		if (!strcmp(fake_drm.nodes[i].path, path))
			return &fake_drm.nodes[i];
	}
	return NULL;
}

static bool is_node_folder(const char *path)
{
	return !strcmp(path, "/dev/accel") || !strcmp(path, "/dev/dri");
}

static int fail_with(int err)
{
	errno = err;
	return -1;
}

static int take_errno(atomic_int *errno_of_next)
{
	return atomic_exchange(errno_of_next, 0);
}

static struct dirent *make_entry(const char *name)
{
	struct dirent *entry = calloc(1, sizeof(*entry));

	ck_assert_ptr_nonnull(entry);
	(void)snprintf(entry->d_name, sizeof(entry->d_name), "%s", name);
	return entry;
}

/* As the real one: its entries are the caller's to free. */
int __wrap_scandir(const char *path, struct dirent ***entries,
		   int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **,
				  const struct dirent **))
{
	struct dirent **found;
	size_t length = strlen(path);
	int num = 0;

	if (!is_node_folder(path))
		return __real_scandir(path, entries, filter, compare);
	if (fake_drm.folder_errno)
		return fail_with(fake_drm.folder_errno);
	found = calloc(fake_drm.num_nodes + 1, sizeof(*found));
	ck_assert_ptr_nonnull(found);
	for (size_t i = 0; i < fake_drm.num_nodes; i++) {
		const char *node = fake_drm.nodes[i].path;

		if (!strncmp(node, path, length) && node[length] == '/')
			found[num++] = make_entry(node + length + 1);
	}
	if (!num) {
		free(found);
		return fail_with(ENOENT);
	}
	found[num++] = make_entry(".");
	qsort(found, (size_t)num, sizeof(*found),
	      (int (*)(const void *, const void *))(uintptr_t)compare);
	*entries = found;
	return num;
}

int __wrap_stat(const char *path, struct stat *status)
{
	const struct fake_drm_node *node = find_node(path);

	if (!node)
		return __real_stat(path, status);
	memset(status, 0, sizeof(*status));
	status->st_mode = node->no_device ? S_IFREG : S_IFCHR;
	status->st_rdev =
		makedev(FAKE_MAJOR, (unsigned int)(node - fake_drm.nodes));
	return 0;
}

ssize_t __wrap_readlink(const char *path, char *target, size_t size)
{
	char known[64], link[64];
	size_t length;

	for (size_t i = 0; i < fake_drm.num_nodes; i++) {
		(void)snprintf(known, sizeof(known),
			       "/sys/dev/char/%d:%zu/device/driver", FAKE_MAJOR,
			       i);
		if (strcmp(known, path) != 0)
			continue;
		if (!fake_drm.nodes[i].driver)
			return fail_with(ENOENT);
		(void)snprintf(link, sizeof(link),
			       "../../../bus/pci/drivers/%s",
			       fake_drm.nodes[i].driver);
		length = strlen(link);
		ck_assert_uint_le(length, size);
		memcpy(target, link, length);
		return (ssize_t)length;
	}
	return __real_readlink(path, target, size);
}

/* ---- descriptors ---- */

static struct fake_file *get_file(int fd)
{
	if (fd < 0 || fd >= MAX_FILES || !atomic_load(&files[fd].node))
		return NULL;
	return &files[fd];
}

int fake_drm_get_flags(int fd)
{
	const struct fake_file *file = get_file(fd);

	return file ? file->flags : -1;
}

int __wrap_open(const char *path, int flags, ...)
{
	const struct fake_drm_node *node = find_node(path);
	int fd, err, soft = -1;
	va_list args;
	mode_t mode;

	if (!node) {
		va_start(args, flags);
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
		va_end(args);
		return __real_open(path, flags, mode);
	}
	atomic_fetch_add(&fake_drm.num_opens, 1);
	err = take_errno(&fake_drm.open_errno);
	if (err)
		return fail_with(err);
	fd = eventfd(0, flags & O_CLOEXEC ? EFD_CLOEXEC : 0);
	ck_assert(fd >= 0 && fd < MAX_FILES);
	err = node->soft ? qbrt_kmd_soft.open(&kmd_options, node->soft, &soft)
			 : 0;
	if (err) {
		(void)__real_close(fd);
		return fail_with(-err);
	}
	files[fd].soft = soft;
	files[fd].flags = flags;
	atomic_store(&files[fd].node, node);
	return fd;
}

int __wrap_close(int fd)
{
	struct fake_file *file = get_file(fd);

	if (file) {
		if (atomic_load(&file->node)->soft)
			qbrt_kmd_soft.close(file->soft);
		atomic_store(&file->node, NULL);
	}
	return __real_close(fd);
}

/* A copy of a node's descriptor is the file's only one: the other is closed. */
int __wrap_fcntl(int fd, int command, ...)
{
	struct fake_file *file = get_file(fd);
	va_list args;
	void *arg;
	int ret;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	ret = __real_fcntl(fd, command, arg);
	if (!file || command != F_DUPFD_CLOEXEC || ret < 0)
		return ret;
	ck_assert_int_lt(ret, MAX_FILES);
	files[ret].soft = file->soft;
	files[ret].flags = file->flags;
	atomic_store(&files[ret].node, atomic_load(&file->node));
	atomic_store(&file->node, NULL);
	return ret;
}

/* ---- requests ---- */

static int answer_request(const struct fake_file *file, unsigned long request,
			  void *arg)
{
	int err;

	atomic_fetch_add(&fake_drm.num_requests, 1);
	if (!atomic_load(&file->node)->soft)
		return fail_with(EINVAL);
	err = qbrt_kmd_soft.ioctl(file->soft, request, arg);
	return err ? fail_with(-err) : 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	const struct fake_file *file = get_file(fd);
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return file ? answer_request(file, request, arg)
		    : __real_ioctl(fd, request, arg);
}

/* As libdrm's, which repeats both codes for ever. */
int drmIoctl(int fd, unsigned long request, void *arg)
{
	int ret = __wrap_ioctl(fd, request, arg);

	while (ret == -1 && (errno == EINTR || errno == EAGAIN)) {
		atomic_fetch_add(&fake_drm.num_restarts, 1);
		ret = __wrap_ioctl(fd, request, arg);
	}
	return ret;
}

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	ck_assert_ptr_nonnull(copy);
	return copy;
}

/* NULL with errno ENOTTY where the descriptor is not a node. */
drmVersionPtr drmGetVersion(int fd)
{
	const struct fake_file *file = get_file(fd);
	struct drm_version answer = { 0 };
	const struct fake_drm_node *node;
	drmVersionPtr version;
	int err = take_errno(&fake_drm.version_errno);

	if (err || !file) {
		errno = err ? err : ENOTTY;
		return NULL;
	}
	node = atomic_load(&file->node);
	if (node->soft && drmIoctl(fd, DRM_IOCTL_VERSION, &answer))
		return NULL;
	version = calloc(1, sizeof(*version));
	ck_assert_ptr_nonnull(version);
	version->version_major =
		node->major ? node->major : answer.version_major;
	version->version_minor = answer.version_minor;
	version->name = copy_text(node->soft ? DRM_QBNPU_NAME : "foreign");
	version->name_len = (int)strlen(version->name);
	version->date = copy_text("0");
	version->desc = copy_text("fake");
	return version;
}

void drmFreeVersion(drmVersionPtr version)
{
	free(version->name);
	free(version->date);
	free(version->desc);
	free(version);
}

int drmGetCap(int fd, uint64_t capability, uint64_t *value)
{
	struct drm_get_cap cap = { .capability = capability };
	int err = take_errno(&fake_drm.cap_errno);

	if (err)
		return fail_with(err);
	if (drmIoctl(fd, DRM_IOCTL_GET_CAP, &cap))
		return -1;
	*value = capability == DRM_CAP_TIMESTAMP_MONOTONIC &&
				 fake_drm.no_monotonic_cap
			 ? 0
			 : cap.value;
	return 0;
}

/* ---- mappings ---- */

static void add_mapping(void *address, int soft)
{
	(void)pthread_mutex_lock(&fake_lock);
	ck_assert_uint_lt(num_mappings, MAX_MAPPINGS);
	mappings[num_mappings++] =
		(struct fake_mapping){ .address = address, .soft = soft };
	(void)pthread_mutex_unlock(&fake_lock);
}

/* The soft file through which the last one at this address came, or -1. */
static int take_mapping(const void *address)
{
	int soft = -1;
	size_t i;

	(void)pthread_mutex_lock(&fake_lock);
	for (i = num_mappings; i && mappings[i - 1].address != address; i--)
		continue;
	if (i) {
		soft = mappings[i - 1].soft;
		mappings[i - 1] = mappings[--num_mappings];
	}
	(void)pthread_mutex_unlock(&fake_lock);
	return soft;
}

void *__wrap_mmap(void *address, size_t length, int prot, int flags, int fd,
		  off_t offset)
{
	const struct fake_file *file = get_file(fd);
	void *mapped = NULL;
	int err;

	if (!file)
		return __real_mmap(address, length, prot, flags, fd, offset);
	atomic_fetch_add(&fake_drm.num_mmaps, 1);
	err = -take_errno(&fake_drm.mmap_errno);
	if (!err && flags != MAP_SHARED)
		err = -EINVAL;
	if (!err)
		err = qbrt_kmd_soft.mmap(file->soft, (uint64_t)offset, length,
					 prot, &mapped);
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	add_mapping(mapped, file->soft);
	return mapped;
}

int __wrap_munmap(void *address, size_t length)
{
	int soft = take_mapping(address);
	int err;

	if (soft < 0)
		return __real_munmap(address, length);
	err = qbrt_kmd_soft.munmap(soft, address, length);
	if (!err)
		return 0;
	add_mapping(address, soft);
	return fail_with(-err);
}

/* ---- events ---- */

int __wrap_ppoll(struct pollfd *fds, nfds_t num, const struct timespec *timeout,
		 const sigset_t *mask)
{
	const struct fake_file *file = num == 1 ? get_file(fds->fd) : NULL;
	int64_t left_ns;
	int err;

	if (!file)
		return __real_ppoll(fds, num, timeout, mask);
	atomic_fetch_add(&fake_drm.num_polls, 1);
	err = take_errno(&fake_drm.poll_errno);
	if (err)
		return fail_with(err);
	fds->revents = fake_drm.poll_events;
	if (fds->revents)
		return 1;
	left_ns = timeout->tv_sec * QBRT_NS_PER_SEC + timeout->tv_nsec;
	err = qbrt_kmd_soft.poll(file->soft, qbrt_deadline_ns(left_ns));
	if (err == -ETIME)
		return 0;
	fds->revents = err ? POLLHUP : POLLIN;
	return 1;
}
