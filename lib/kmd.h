/* SPDX-License-Identifier: MIT */
/*
 * The seam: everything that the library asks of a driver goes through one
 * struct qbrt_kmd. The requests are those of uapi/qbnpu_drm.h and the generic
 * DRM ones of docs/spec/kernel.md section 3, nothing else, so what answers
 * (the kernel module, or the software driver in this process) is decided once,
 * at open. Every op returns 0 or a negative errno and is safe from any thread,
 * but close. Ops never call up into the library. A thread that is cancelled
 * inside an op of the software driver ends after it (deferred cancellation); it
 * must not be cancelled asynchronously.
 */
#ifndef QBRT_KMD_H
#define QBRT_KMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QBRT_KMD_MAX_SOFT_NODES 128
#define QBRT_KMD_NAME_SIZE 32
#define QBRT_KMD_PLAN_SIZE 1024

enum qbrt_kmd_backend {
	QBRT_KMD_BACKEND_AUTO = 0, /* the plugin if it loads, else ref */
	QBRT_KMD_BACKEND_REF = 1,
	QBRT_KMD_BACKEND_ONEDNN = 2,
};

/*
 * Configuration of the software NPU, a value: lib/env.c reads and checks the
 * variables, a driver reads none. Drivers of hardware ignore it.
 */
struct qbrt_kmd_options {
	/* concrete device name of soft:0, soft:1, ... */
	char soft_names[QBRT_KMD_MAX_SOFT_NODES][QBRT_KMD_NAME_SIZE];
	size_t num_soft_names;
	uint64_t soft_memory; /* bytes of device memory, 0: the profile's */
	enum qbrt_kmd_backend soft_backend;
	bool soft_poison; /* scratch and outputs are 0xA5 before each job */
	char soft_fault_plan[QBRT_KMD_PLAN_SIZE]; /* fault plan, "": none */
	char plugin_dir[4096]; /* folder of the plugin, "": none */
};

/* What op open takes. */
struct qbrt_kmd_node {
	char path[64]; /* "soft:0", "/dev/accel/accel0" */
	int number;    /* device number that the node stands for, -1:
				   none of its own (software) */
};

struct qbrt_kmd {
	const char *name; /* "soft", "drm" */

	/*
	 * Nodes of this driver in stable order; opens none, but one of which
	 * sysfs does not tell the driver. At most max_nodes are written,
	 * *num_nodes is how many there are. A folder of nodes that is absent
	 * has none; -ENOMEM, -EMFILE, -ENFILE: not known.
	 */
	int (*list)(const struct qbrt_kmd_options *options,
		    struct qbrt_kmd_node *nodes, size_t max_nodes,
		    size_t *num_nodes);

	/*
	 * Opens one device file of its own. -ENOENT: no such node; -EACCES;
	 * -EPROTO: speaks another major version; -EINVAL: the configuration
	 * cannot be had; -ENODEV: the node's device is gone or does not answer;
	 * -ENOMEM, -EMFILE, -ENFILE; nothing else. The options are copied where
	 * they are needed; file is only a number to hand back.
	 */
	int (*open)(const struct qbrt_kmd_options *options, const char *path,
		    int *file);

	/*
	 * The last call on file, from one thread; never fails. Buffers,
	 * programs and queues of the file end with it: queued jobs end
	 * cancelled, memory goes when the last mapping and export goes.
	 */
	void (*close)(int file);

	/*
	 * One request. Restarts itself; blocks only where the request may, up
	 * to its absolute deadline. On failure the output fields of arg are
	 * unchanged unless the uAPI names them. Never -EINTR, never -EAGAIN,
	 * but -EINTR from WAIT and TIMELINE_WAIT when a signal ended the wait.
	 */
	int (*ioctl)(int file, unsigned long request, void *arg);

	/*
	 * Maps length bytes of what a request named by offset. prot: PROT_READ
	 * and PROT_WRITE. The mapping keeps its memory alive until munmap. In
	 * a child of fork, where requests on inherited files answer -ENODEV,
	 * munmap still takes what was inherited, and gives back the child's own
	 * memory only, or nothing.
	 *
	 * Memory of the software driver is the device's as well: a job writes
	 * and reads it through this mapping. So its pages must not be protected,
	 * unmapped, moved or replaced by other means (mprotect, munmap, mremap,
	 * MAP_FIXED, MADV_REMOVE) while the buffer lives: SIGSEGV in a job.
	 */
	int (*mmap)(int file, uint64_t offset, size_t length, int prot,
		    void **address);
	int (*munmap)(int file, void *address, size_t length);

	/*
	 * Waits for device events that this file has not read, up to an
	 * absolute CLOCK_MONOTONIC time (0 or past: polls). 0: there are;
	 * -ETIME; -ENODEV: the device is lost.
	 */
	int (*poll)(int file, int64_t deadline_ns);
};

extern const struct qbrt_kmd qbrt_kmd_drm;
extern const struct qbrt_kmd qbrt_kmd_soft;

/* Whether plan is one; false: *at is its first character that is wrong. */
bool qbrt_kmd_soft_is_fault_plan(const char *plan, size_t *at);

/* Drivers in the order in which their devices are listed; ends with NULL. */
extern const struct qbrt_kmd *const qbrt_kmd_drivers[];

#endif
