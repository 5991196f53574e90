/* SPDX-License-Identifier: MIT */
/*
 * What devices there are: the nodes of every driver, asked once, in the order
 * of Q094, with their names, numbers and visibility. A discovery and an info
 * are snapshots: they never change and hold nothing open. Opening a device
 * (accelerator.h) chooses from a discovery.
 */
#ifndef QBRT_DEVICE_INFO_H
#define QBRT_DEVICE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "env.h"
#include "kmd.h"
#include "uapi/qbnpu_drm.h"

#define QBRT_MAX_REGIONS 2

/* What an open file tells about its device. */
struct qbrt_device_facts {
	struct drm_qbnpu_query_device device;
	/* by number (DRM_QBNPU_REGION_...); zeros where there is none */
	struct drm_qbnpu_query_memory regions[QBRT_MAX_REGIONS];
	char driver[32];
	char driver_version[32]; /* "1.0.0" */
	char firmware[48];       /* "": not known */
};

/* One node of a driver. */
struct qbrt_found_device {
	const struct qbrt_kmd *kmd;
	struct qbrt_kmd_node node;
	int err;       /* why it does not answer, then facts are zeros */
	char name[32]; /* "": not known */
	int number;    /* -1: not known */
	bool is_visible;
	struct qbrt_device_facts facts;
};

struct qbrt_discovery {
	struct qbrt_env env;
	struct qbrt_found_device *devices; /* those that answer come first */
	size_t num_devices;
	size_t num_answering;
};

/* 0 or a negative errno: of QUERY, or -EPROTO for another major version. */
int qbrt_device_facts_query(const struct qbrt_kmd *kmd, int file,
			    struct qbrt_device_facts *facts);

/*
 * Asks every node. is_strict: a malformed variable fails, else it hides what
 * Q090 and Q114 say and is logged once.
 */
enum qbrt_status qbrt_discovery_list(bool is_strict,
				     struct qbrt_discovery **discovery);
void qbrt_discovery_free(struct qbrt_discovery *discovery);

/* The visible device that name (NULL: auto) and number (-1: lowest) mean. */
enum qbrt_status qbrt_discovery_find(const struct qbrt_discovery *discovery,
				     const char *name, int number,
				     const struct qbrt_found_device **found);

/* name: a concrete name or an alias, without case; NULL means auto. */
bool qbrt_device_name_matches(const char *name, const char *device_name);

/* Its place in the order of listing (Q080); all other names share the last. */
size_t qbrt_device_name_rank(const char *name);

/*
 * QBRT_ACC_AMBIGUOUS_DEVICE_NAME when the visible devices that name means have
 * more than one name, else QBRT_OK.
 */
enum qbrt_status
qbrt_discovery_check_name(const struct qbrt_discovery *discovery,
			  const char *name);

/* Names of what a device has. */
struct qbrt_name_list {
	const char *names[64];
	size_t num;
};

/*
 * device-info-names.c: adds the names of the bits that are set and known, and
 * of the kernels that a software device may compute with.
 */
#define QBRT_NUM_ISA_FEATURES 8
extern const char *const qbrt_isa_feature_names[QBRT_NUM_ISA_FEATURES];
void qbrt_list_features(uint64_t bits, struct qbrt_name_list *list);
void qbrt_list_isa_features(uint64_t bits, struct qbrt_name_list *list);
void qbrt_list_backends(struct qbrt_name_list *list);

/* A snapshot for the caller to free. NULL: no memory. */
struct qbrt_device_info *
qbrt_device_info_alloc(const struct qbrt_found_device *device);

#endif
