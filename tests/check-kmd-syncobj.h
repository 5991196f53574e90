/* SPDX-License-Identifier: MIT */
/*
 * Timelines by the generic requests, for the tests of them: one function per
 * request, on kmd_file. Those that return an int give the request's answer;
 * the others assert that it is good.
 */
#ifndef TESTS_CHECK_KMD_SYNCOBJ_H
#define TESTS_CHECK_KMD_SYNCOBJ_H

#include <drm.h>
#include <stdbool.h>

#include "check-kmd.h"

#define KMD_WAIT_ALL DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL
#define KMD_FOR_SUBMIT DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
#define KMD_AVAILABLE DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE

uint32_t kmd_create_syncobj(void);
void kmd_destroy_syncobj(uint32_t handle);
int kmd_try_signal(uint32_t handle, uint64_t point);
void kmd_signal(uint32_t handle, uint64_t point);
uint64_t kmd_query_point(uint32_t handle, uint32_t flags);
int kmd_transfer(uint32_t src, uint64_t src_point, uint32_t dst,
		 uint64_t dst_point, uint32_t flags);
/* *first: first_signaled. The second waits for one point. */
int kmd_wait_points(const uint32_t *handles, const uint64_t *points,
		    uint32_t num, uint32_t flags, int64_t timeout_ns,
		    uint32_t *first);
int kmd_wait_point(uint32_t handle, uint64_t point, uint32_t flags,
		   int64_t timeout_ns);
int kmd_register_eventfd(uint32_t handle, uint64_t point, uint32_t flags,
			 int fd);
/* One that never waits. */
int kmd_make_eventfd(void);
bool kmd_has_eventfd(void);

#define ck_assert_points(handle, completed, submitted) \
	do { \
		ck_assert_uint_eq(kmd_query_point(handle, 0), completed); \
		ck_assert_uint_eq( \
			kmd_query_point( \
				handle, \
				DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED), \
			submitted); \
	} while (0)

/* A job that would last a minute, until the gate is opened: it is cancelled. */
struct kmd_gate {
	struct kmd_set set;
	uint32_t slow;
	uint64_t job; /* of set.queue, on set.syncobj */
};
void kmd_close_gate(struct kmd_gate *gate, int driver);
void kmd_open_gate(struct kmd_gate *gate);
void kmd_end_gate(struct kmd_gate *gate);

#endif
