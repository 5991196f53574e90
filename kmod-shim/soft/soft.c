// SPDX-License-Identifier: MIT
/*
 * The ops of the software driver: nodes, devices, files, and the way of a
 * request from the caller's struct to its function and back.
 *
 * Everything hangs on one registry. A child of fork sees that its generation
 * is another (K016) and starts a registry of its own when it opens a device;
 * what it inherited it neither frees nor locks.
 */
#include "soft/soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soft/soft-queue.h"
#include "soft/soft-registry.h"
#include "util.h"

#define MAX_ARG_SIZE 256u

struct request {
	unsigned long number; /* with direction and size */
	qbnpu_soft_request *handle;
};

static const struct request own_requests[] = {
	{ DRM_IOCTL_QBNPU_QUERY, qbnpu_soft_ioctl_query },
	{ DRM_IOCTL_QBNPU_BO_CREATE, qbnpu_soft_ioctl_bo_create },
	{ DRM_IOCTL_QBNPU_BO_INFO, qbnpu_soft_ioctl_bo_info },
	{ DRM_IOCTL_QBNPU_BO_SYNC, qbnpu_soft_ioctl_bo_sync },
	{ DRM_IOCTL_QBNPU_PROGRAM_CREATE, qbnpu_soft_ioctl_program_create },
	{ DRM_IOCTL_QBNPU_PROGRAM_DESTROY, qbnpu_soft_ioctl_program_destroy },
	{ DRM_IOCTL_QBNPU_QUEUE_CREATE, qbnpu_soft_ioctl_queue_create },
	{ DRM_IOCTL_QBNPU_QUEUE_DESTROY, qbnpu_soft_ioctl_queue_destroy },
	{ DRM_IOCTL_QBNPU_SUBMIT, qbnpu_soft_ioctl_submit },
	{ DRM_IOCTL_QBNPU_COPY, qbnpu_soft_ioctl_copy },
	{ DRM_IOCTL_QBNPU_WAIT, qbnpu_soft_ioctl_wait },
	{ DRM_IOCTL_QBNPU_CANCEL, qbnpu_soft_ioctl_cancel },
};

/* Requests of section 3 that DEVICE's features tell to be absent. */
static int refuse_absent(struct qbnpu_soft_file *file, void *arg)
{
	(void)file;
	(void)arg;
	return -EOPNOTSUPP;
}

static const struct request generic_requests[] = {
	{ DRM_IOCTL_VERSION, qbnpu_soft_ioctl_version },
	{ DRM_IOCTL_GEM_CLOSE, qbnpu_soft_ioctl_gem_close },
	{ DRM_IOCTL_GET_CAP, qbnpu_soft_ioctl_get_cap },
	{ DRM_IOCTL_SYNCOBJ_DESTROY, qbnpu_soft_ioctl_syncobj_destroy },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, qbnpu_soft_ioctl_prime_handle_to_fd },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, qbnpu_soft_ioctl_prime_fd_to_handle },
	{ DRM_IOCTL_SYNCOBJ_CREATE, qbnpu_soft_ioctl_syncobj_create },
	{ DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, refuse_absent },
	{ DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, refuse_absent },
	{ DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
	  qbnpu_soft_ioctl_syncobj_timeline_wait },
	{ DRM_IOCTL_SYNCOBJ_QUERY, qbnpu_soft_ioctl_syncobj_query },
	{ DRM_IOCTL_SYNCOBJ_TRANSFER, qbnpu_soft_ioctl_syncobj_transfer },
	{ DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
	  qbnpu_soft_ioctl_syncobj_timeline_signal },
	{ DRM_IOCTL_SYNCOBJ_EVENTFD, qbnpu_soft_ioctl_syncobj_eventfd },
};

/* ---- faults that tests ask for (K316) ---- */

static atomic_ulong fail_request;
static atomic_uint fail_countdown;
static atomic_int fail_errno;

QBRT_API void qbnpu_soft_fail(unsigned long request, unsigned int nth, int err)
{
	atomic_store(&fail_request, 0);
	atomic_store(&fail_errno, err);
	atomic_store(&fail_countdown, nth);
	if (nth)
		atomic_store(&fail_request, request);
}

static bool may_fault(unsigned long request)
{
	return atomic_load_explicit(&fail_request, memory_order_relaxed) ==
	       request;
}

static int take_fault(void)
{
	if (atomic_fetch_sub(&fail_countdown, 1) != 1)
		return 0;
	atomic_store(&fail_request, 0);
	return -atomic_load(&fail_errno);
}

/* ---- requests ---- */

/* K001: what is not in a table; all of its codes. */
static int find_request(unsigned long number, const struct request **request)
{
	unsigned int type = _IOC_TYPE(number);
	unsigned int nr = _IOC_NR(number);
	const struct request *found = NULL;

	if (type != DRM_IOCTL_BASE)
		return -ENOTTY;
	if (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END) {
		if (nr - DRM_COMMAND_BASE >= qbrt_array_size(own_requests))
			return -EINVAL;
		found = &own_requests[nr - DRM_COMMAND_BASE];
	}
	for (size_t i = 0; !found && i < qbrt_array_size(generic_requests);
	     i++) {
		if (_IOC_NR(generic_requests[i].number) == nr)
			found = &generic_requests[i];
	}
	if (!found)
		return -EACCES;
	if (_IOC_DIR(number) != _IOC_DIR(found->number) ||
	    _IOC_SIZE(number) < _IOC_SIZE(found->number))
		return -EINVAL;
	*request = found;
	return 0;
}

/*
 * Copies the known part in and, for requests that give something back, out
 * again, as the kernel does (K004). Which fields change is the request's care.
 */
static int run_request(struct qbnpu_soft_file *file,
		       const struct request *request, size_t given_size,
		       void *arg)
{
	size_t size = _IOC_SIZE(request->number);
	union {
		uint64_t align;
		uint8_t bytes[MAX_ARG_SIZE];
	} copy;
	int err, old;

	if (!arg)
		return -EFAULT;
	if (given_size != size &&
	    !qbnpu_soft_is_zero((const uint8_t *)arg + size, given_size - size))
		return -EINVAL;
	memcpy(copy.bytes, arg, size);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	err = request->handle(file, copy.bytes);
	(void)pthread_setcancelstate(old, &old);
	if (_IOC_DIR(request->number) & _IOC_READ)
		memcpy(arg, copy.bytes, size);
	return err;
}

static int soft_ioctl(int number, unsigned long request_number, void *arg)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_get_file(number);
	const struct request *request = NULL;
	int err;

	if (!file)
		return -ENODEV;
	if (may_fault(request_number)) {
		err = take_fault();
		if (err)
			return err;
	}
	/* the one that is to be quick; a longer struct takes the way below */
	if (request_number == DRM_IOCTL_QBNPU_SUBMIT && arg)
		return qbnpu_soft_ioctl_submit(file, arg);
	err = find_request(request_number, &request);
	if (err)
		return err;
	return run_request(file, request, _IOC_SIZE(request_number), arg);
}

static int copy_name(uint64_t dst, size_t room, const char *name,
		     size_t *length)
{
	size_t actual = strlen(name);

	*length = actual;
	return qbnpu_soft_copy_to_user(dst, name,
				       room < actual ? room : actual);
}

int qbnpu_soft_ioctl_version(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_version *version = arg;
	struct drm_version out = *version;
	int err;

	(void)file;
	err = copy_name((uintptr_t)version->name, version->name_len,
			DRM_QBNPU_NAME, &out.name_len);
	if (!err)
		err = copy_name((uintptr_t)version->date, version->date_len,
				"20261129", &out.date_len);
	if (!err)
		err = copy_name((uintptr_t)version->desc, version->desc_len,
				"qbruntime software NPU", &out.desc_len);
	if (err)
		return err;
	out.version_major = DRM_QBNPU_MAJOR;
	out.version_minor = DRM_QBNPU_MINOR;
	out.version_patchlevel = 0;
	*version = out;
	return 0;
}

int qbnpu_soft_ioctl_get_cap(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_get_cap *cap = arg;

	(void)file;
	switch (cap->capability) {
	case DRM_CAP_PRIME:
		cap->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
		return 0;
	case DRM_CAP_SYNCOBJ:
	case DRM_CAP_SYNCOBJ_TIMELINE:
	case DRM_CAP_TIMESTAMP_MONOTONIC:
		cap->value = 1;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* ---- files ---- */

static int soft_list(const struct qbrt_kmd_options *options,
		     struct qbrt_kmd_node *nodes, size_t max_nodes,
		     size_t *num_nodes)
{
	size_t num = options->num_soft_names;

	for (size_t i = 0; i < num && i < max_nodes; i++) {
		memset(&nodes[i], 0, sizeof(nodes[i]));
		qbnpu_soft_format_path(nodes[i].path, (unsigned int)i);
		nodes[i].number = -1;
	}
	*num_nodes = num;
	return 0;
}

/* The number in "soft:<number>", or -1. */
static int parse_path(const struct qbrt_kmd_options *options, const char *path)
{
	char known[sizeof(((struct qbrt_kmd_node *)NULL)->path)];

	for (size_t i = 0; i < options->num_soft_names; i++) {
		qbnpu_soft_format_path(known, (unsigned int)i);
		if (!strcmp(known, path))
			return (int)i;
	}
	return -1;
}

static int map_progress(struct qbnpu_soft_file *file)
{
	void *address;
	int fd = qbnpu_soft_fd_alloc("qbnpu-soft-progress", 0,
				     QBNPU_SOFT_PROGRESS_SIZE);

	if (fd < 0)
		return fd == -ENFILE ? -EMFILE : fd;
	address = mmap(NULL, QBNPU_SOFT_PROGRESS_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		goto err_close;
	/* from here on a mapping is read-only for good (K314) */
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE |
			  F_SEAL_SEAL))
		goto err_unmap;
	file->progress = address;
	file->progress_fd = fd;
	return 0;

err_unmap:
	(void)munmap(address, QBNPU_SOFT_PROGRESS_SIZE);
err_close:
	qbnpu_soft_fd_close(fd);
	return -ENOMEM;
}

static void free_file_memory(struct qbnpu_soft_file *file)
{
	(void)munmap(file->progress, QBNPU_SOFT_PROGRESS_SIZE);
	qbnpu_soft_fd_close(file->progress_fd);
	(void)pthread_cond_destroy(&file->helper_wake);
	(void)pthread_cond_destroy(&file->is_idle);
	(void)pthread_mutex_destroy(&file->lock);
	free(file->buffers.items);
	free(file->programs.items);
	free(file->timelines.items);
	free(file);
}

static int alloc_file(struct qbnpu_soft_file **result)
{
	static atomic_uint_fast64_t last_id;
	struct qbnpu_soft_file *file = calloc(1, sizeof(*file));
	pthread_mutexattr_t mutex_attr;
	pthread_condattr_t cond_attr;
	int err;

	if (!file)
		return -ENOMEM;
	err = map_progress(file);
	if (err) {
		free(file);
		return err;
	}
	/* a woken waiter wants the lock that its waker is about to give up */
	(void)pthread_mutexattr_init(&mutex_attr);
	(void)pthread_mutexattr_settype(&mutex_attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	(void)pthread_mutex_init(&file->lock, &mutex_attr);
	(void)pthread_mutexattr_destroy(&mutex_attr);
	(void)pthread_condattr_init(&cond_attr);
	(void)pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&file->is_idle, &cond_attr);
	(void)pthread_cond_init(&file->helper_wake, &cond_attr);
	(void)pthread_condattr_destroy(&cond_attr);
	file->next_deadline_ns = INT64_MAX;
	file->id = atomic_fetch_add(&last_id, 1) + 1;
	*result = file;
	return 0;
}

static int open_file(const struct qbrt_kmd_options *options, const char *path,
		     int *number)
{
	int node = parse_path(options, path);
	struct qbnpu_soft_file *file;
	int err;

	if (node < 0)
		return -ENOENT;
	err = alloc_file(&file);
	if (err)
		return err;
	err = qbnpu_soft_registry_open(options, node, file, number);
	if (err)
		free_file_memory(file);
	return err;
}

static int soft_open(const struct qbrt_kmd_options *options, const char *path,
		     int *number)
{
	int err, old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	err = open_file(options, path, number);
	(void)pthread_setcancelstate(old, &old);
	return err;
}

void qbnpu_soft_file_free(struct qbnpu_soft_file *file)
{
	struct qbnpu_soft_device *device = file->device;

	(void)pthread_mutex_lock(&file->lock);
	qbnpu_soft_queue_close_all(file);
	for (uint32_t i = 1; i <= file->programs.capacity; i++) {
		struct qbnpu_soft_program *program;

		program = qbnpu_soft_table_remove(&file->programs, i);
		if (program)
			qbnpu_soft_program_unref(program);
	}
	qbnpu_soft_bo_close_all(file);
	for (uint32_t i = 1; i <= file->timelines.capacity; i++) {
		struct qbnpu_soft_timeline *timeline;

		timeline = qbnpu_soft_table_remove(&file->timelines, i);
		if (timeline)
			qbnpu_soft_timeline_unref(timeline);
	}
	(void)pthread_mutex_unlock(&file->lock);
	free_file_memory(file);
	qbnpu_soft_registry_close_device(device);
}

static void close_file(struct qbnpu_soft_file *file)
{
	struct timespec limit;
	int64_t limit_ns;

	(void)pthread_mutex_lock(&file->lock);
	file->is_closing = true;
	qbnpu_soft_job_cancel_all(file, NULL);
	limit_ns = qbrt_deadline_ns(QBRT_NS_PER_SEC);
	limit.tv_sec = limit_ns / QBRT_NS_PER_SEC;
	limit.tv_nsec = limit_ns % QBRT_NS_PER_SEC;
	while (file->num_jobs &&
	       !pthread_cond_timedwait(&file->is_idle, &file->lock, &limit))
		continue;
	(void)pthread_mutex_unlock(&file->lock);
	if (qbnpu_soft_helper_stop(file))
		qbnpu_soft_file_free(file);
}

static void soft_close(int number)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_remove_file(number);
	int old;

	if (!file)
		return;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	close_file(file);
	(void)pthread_setcancelstate(old, &old);
}

static int soft_mmap(int number, uint64_t offset, size_t length, int prot,
		     void **address)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_get_file(number);
	void *mapped;

	if (!file)
		return -ENODEV;
	if (prot & ~(PROT_READ | PROT_WRITE) || !prot || !length)
		return -EINVAL;
	if (offset)
		return qbnpu_soft_bo_mmap(file, offset, length, prot, address);
	if (length > QBNPU_SOFT_PROGRESS_SIZE)
		return -EINVAL;
	if (prot & PROT_WRITE)
		return -EACCES;
	mapped = mmap(NULL, length, prot, MAP_SHARED, file->progress_fd, 0);
	if (mapped == MAP_FAILED)
		return -ENOMEM;
	if (qbnpu_soft_mapping_add(mapped, length, NULL)) {
		(void)munmap(mapped, length);
		return -ENOMEM;
	}
	*address = mapped;
	return 0;
}

static int soft_poll(int number, int64_t deadline_ns)
{
	struct qbnpu_soft_file *file = qbnpu_soft_registry_get_file(number);
	int err, old;

	if (!file)
		return -ENODEV;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	err = qbnpu_soft_event_poll(file, deadline_ns);
	(void)pthread_setcancelstate(old, &old);
	return err;
}

const struct qbrt_kmd qbrt_kmd_soft = {
	.name = "soft",
	.list = soft_list,
	.open = soft_open,
	.close = soft_close,
	.ioctl = soft_ioctl,
	.mmap = soft_mmap,
	.munmap = qbnpu_soft_registry_munmap,
	.poll = soft_poll,
};
