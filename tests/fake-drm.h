/* SPDX-License-Identifier: MIT */
/*
 * A kernel for lib/kmd-drm.c: libdrm's functions, and those of libc that it
 * calls on nodes, answered from nodes that the test names. One that stands for
 * a software device has its requests, mappings and events answered by
 * qbrt_kmd_soft; a descriptor of it is a real one, so it is counted, inherited
 * and closed as any other. A program that links it has the fake_drm_ldflags of
 * tests/Makefile.am. Set before other threads use the driver.
 */
#ifndef TESTS_FAKE_DRM_H
#define TESTS_FAKE_DRM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct fake_drm_node {
	const char *path;   /* "/dev/accel/accel0" */
	const char *driver; /* in sysfs; NULL: sysfs has not this node */
	const char *soft;   /* "soft:0"; NULL: of another driver */
	int major;          /* of its VERSION; 0: what soft says */
	bool no_device;     /* a name in the folder, a regular file */
};

struct fake_drm {
	const struct fake_drm_node *nodes;
	size_t num_nodes; /* in the order of their folders */
	int folder_errno; /* of every folder, 0: as the nodes say */
	bool no_monotonic_cap;
	/* what the next call gives instead, once: 0 nothing */
	atomic_int open_errno, version_errno, cap_errno, mmap_errno, poll_errno;
	short poll_events; /* instead of what soft says */

	/* counts */
	atomic_uint num_opens, num_requests, num_restarts, num_mmaps, num_polls;
};

extern struct fake_drm fake_drm;

/* One node that is soft:0, and all else as at the start. */
void fake_drm_begin(void);
void fake_drm_set_nodes(const struct fake_drm_node *nodes, size_t num_nodes);

/* Flags of the open that gave this descriptor of a node. */
int fake_drm_get_flags(int fd);

#endif
