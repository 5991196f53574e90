/* SPDX-License-Identifier: MIT */
/*
 * What a process holds by an open device, to be compared before and after:
 * descriptors, shared mappings, buffers and bytes as the driver counts them.
 */
#ifndef TESTS_ACCOUNT_H
#define TESTS_ACCOUNT_H

#include <qbruntime/qbrt.h>

#include "kmd.h"
#include "uapi/qbnpu_drm.h"

struct account {
	long descriptors, mappings;
	struct drm_qbnpu_query_memory regions[2];
};

struct account account_get(const struct qbrt_accelerator *acc);

/* Fails the test where something is more or less than before. */
void account_check(const struct qbrt_accelerator *acc,
		   const struct account *before);

#endif
