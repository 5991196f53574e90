/* SPDX-License-Identifier: MIT */
/*
 * The parts of check-accelerator-query: what devices tell of real work, over
 * both drivers, and what becomes of what a driver of hardware may answer.
 */
#ifndef TESTS_CHECK_ACCELERATOR_QUERY_H
#define TESTS_CHECK_ACCELERATOR_QUERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "test-util.h"
#include "uapi/qbnpu_drm.h"

#define NUM_DRIVERS 2
#define NUM_QUERIES 7

/* What the driver answers instead, by type of QUERY. */
struct reply {
	bool is_set;
	int err;
	const void *data;
	uint32_t size;
	uint32_t grows; /* bytes, with each time it is asked */
	atomic_uint num_asked;
	atomic_uint index; /* as asked last */
};
extern struct reply replies[NUM_QUERIES];

/* 0: soft, 1: drm above a kernel of ours. Before the device is opened. */
void choose_driver(int which);

/* The software device, whose replies the test sets next. */
struct qbrt_accelerator *open_device(void);
void set_reply(uint32_t type, const void *data, size_t size);
void set_error(uint32_t type, int err);

/* Each adds the tests of its part. */
void add_reply_tests(struct qbrt_tests *all);
void add_refuse_tests(struct qbrt_tests *all);

#endif
