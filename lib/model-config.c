// SPDX-License-Identifier: MIT
/*
 * What a user asks for when a model is loaded: core mode, cores, bundle, slots,
 * asynchronous inference. A setting is checked whole before any of it is
 * stored, against what any device may have; whether a file and a device have it
 * is asked at load and at launch. The value owns no memory but itself.
 */
#include "model-config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "log.h"
#include "status.h"
#include "util.h"

#define NUM_CLUSTERS 2u
#define CORES_PER_CLUSTER 4u
#define MAX_CORES (NUM_CLUSTERS * CORES_PER_CLUSTER)

struct qbrt_model_config {
	enum qbrt_core_mode core_mode;
	size_t num_cores; /* 0: all, or not a matter of this mode */
	size_t num_core_ids;
	size_t num_clusters;
	struct qbrt_core_id core_ids[MAX_CORES];
	enum qbrt_cluster clusters[NUM_CLUSTERS];
	int forced_npu_bundle; /* -1: none */
	bool has_async_pipeline;
	size_t activation_slots; /* 0: the default of the launch */
};

/*
 * Python and C++ make a bare false of it, so that the reason must be in the log
 * too. Logged first: a log function may call the library.
 */
static enum qbrt_status reject(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

static enum qbrt_status reject(const char *format, ...)
{
	char sentence[256];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	qbrt_env_apply_log_level_once(); /* no device may be known yet */
	qbrt_log(QBRT_LOG_LEVEL_WARN, "model-config", "%s", sentence);
	return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s", sentence);
}

static enum qbrt_status fail_null(const char *name)
{
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "model configuration: %s is "
			 "NULL",
			 name);
}

static enum qbrt_status duplicate(const struct qbrt_model_config *from,
				  struct qbrt_model_config **config)
{
	struct qbrt_model_config *new_config = malloc(sizeof(*new_config));

	if (!new_config)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "no memory for a model configuration");
	*new_config = *from;
	*config = new_config;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_alloc(struct qbrt_model_config **config)
{
	static const struct qbrt_model_config defaults = {
		.core_mode = QBRT_CORE_MODE_AUTO,
		.forced_npu_bundle = -1,
	};

	return config ? duplicate(&defaults, config) : fail_null("config");
}

QBRT_API enum qbrt_status
qbrt_model_config_copy(const struct qbrt_model_config *config,
		       struct qbrt_model_config **copy)
{
	if (!config || !copy)
		return fail_null(config ? "copy" : "config");
	return duplicate(config, copy);
}

QBRT_API void qbrt_model_config_free(struct qbrt_model_config *config)
{
	free(config);
}

QBRT_API bool qbrt_model_config_is_equal(const struct qbrt_model_config *a,
					 const struct qbrt_model_config *b)
{
	if (!a || !b)
		return a == b;
	if (a->core_mode != b->core_mode || a->num_cores != b->num_cores ||
	    a->num_core_ids != b->num_core_ids ||
	    a->num_clusters != b->num_clusters ||
	    a->forced_npu_bundle != b->forced_npu_bundle ||
	    a->has_async_pipeline != b->has_async_pipeline ||
	    a->activation_slots != b->activation_slots)
		return false;
	for (size_t i = 0; i < a->num_core_ids; i++)
		if (a->core_ids[i].cluster != b->core_ids[i].cluster ||
		    a->core_ids[i].core != b->core_ids[i].core)
			return false;
	for (size_t i = 0; i < a->num_clusters; i++)
		if (a->clusters[i] != b->clusters[i])
			return false;
	return true;
}

/* Mode and cores are one setting: each call replaces what the last one said. */
static void set_core_mode(struct qbrt_model_config *config,
			  enum qbrt_core_mode core_mode, size_t num_cores)
{
	config->core_mode = core_mode;
	config->num_cores = num_cores;
	config->num_core_ids = 0;
	config->num_clusters = 0;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_auto_core_mode(struct qbrt_model_config *config)
{
	if (!config)
		return fail_null("config");
	set_core_mode(config, QBRT_CORE_MODE_AUTO, 0);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_single_core_mode(struct qbrt_model_config *config,
				       size_t num_cores)
{
	if (!config)
		return fail_null("config");
	if (num_cores == SIZE_MAX)
		return reject("num_cores is below 1, expected 1 to %u",
			      MAX_CORES);
	if (num_cores > MAX_CORES)
		return reject("num_cores is %zu, expected 1 to %u, or 0 for "
			      "all local cores of the device",
			      num_cores, MAX_CORES);
	set_core_mode(config, QBRT_CORE_MODE_SINGLE, num_cores);
	return QBRT_OK;
}

static bool is_cluster(enum qbrt_cluster cluster)
{
	return cluster == QBRT_CLUSTER_0 || cluster == QBRT_CLUSTER_1;
}

static bool is_local_core(struct qbrt_core_id core_id)
{
	return is_cluster(core_id.cluster) && core_id.core >= QBRT_CORE_0 &&
	       core_id.core <= QBRT_CORE_3;
}

static uint64_t get_cluster_bit(enum qbrt_cluster cluster)
{
	return UINT64_C(1) << (((unsigned int)cluster >> 16) - 1) * 8;
}

static uint64_t get_core_bit(struct qbrt_core_id core_id)
{
	return get_cluster_bit(core_id.cluster)
	       << ((unsigned int)core_id.core - QBRT_CORE_0);
}

static enum qbrt_status check_core_ids(const struct qbrt_core_id *core_ids,
				       size_t num_core_ids)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < num_core_ids; i++) {
		if (!is_local_core(core_ids[i]))
			return reject("core_ids[%zu] is cluster 0x%x, core "
				      "0x%x, expected QBRT_CLUSTER_0 or "
				      "QBRT_CLUSTER_1 and QBRT_CORE_0 to "
				      "QBRT_CORE_3",
				      i, (unsigned int)core_ids[i].cluster,
				      (unsigned int)core_ids[i].core);
		if (mask & get_core_bit(core_ids[i]))
			return reject("core_ids[%zu] stands in the list twice, "
				      "expected different cores",
				      i);
		mask |= get_core_bit(core_ids[i]);
	}
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_single_core_ids(struct qbrt_model_config *config,
				      const struct qbrt_core_id *core_ids,
				      size_t num_core_ids)
{
	enum qbrt_status status;

	if (!config || (!core_ids && num_core_ids))
		return fail_null(config ? "core_ids" : "config");
	status = check_core_ids(core_ids, num_core_ids);
	if (status)
		return status;
	set_core_mode(config, QBRT_CORE_MODE_SINGLE, num_core_ids);
	config->num_core_ids = num_core_ids;
	/* may be our own list */
	if (num_core_ids)
		memmove(config->core_ids, core_ids,
			num_core_ids * sizeof(core_ids[0]));
	return QBRT_OK;
}

static enum qbrt_status check_clusters(const enum qbrt_cluster *clusters,
				       size_t num_clusters)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < num_clusters; i++) {
		if (!is_cluster(clusters[i]))
			return reject("clusters[%zu] is 0x%x, expected "
				      "QBRT_CLUSTER_0 or QBRT_CLUSTER_1",
				      i, (unsigned int)clusters[i]);
		if (mask & get_cluster_bit(clusters[i]))
			return reject("clusters[%zu] stands in the list twice, "
				      "expected different clusters",
				      i);
		mask |= get_cluster_bit(clusters[i]);
	}
	return QBRT_OK;
}

static enum qbrt_status set_clusters(struct qbrt_model_config *config,
				     enum qbrt_core_mode core_mode,
				     const enum qbrt_cluster *clusters,
				     size_t num_clusters)
{
	enum qbrt_status status;

	if (!config || (!clusters && num_clusters))
		return fail_null(config ? "clusters" : "config");
	status = check_clusters(clusters, num_clusters);
	if (status)
		return status;
	set_core_mode(config, core_mode, 0);
	config->num_clusters = num_clusters;
	if (num_clusters)
		memmove(config->clusters, clusters,
			num_clusters * sizeof(clusters[0]));
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_multi_core_mode(struct qbrt_model_config *config,
				      const enum qbrt_cluster *clusters,
				      size_t num_clusters)
{
	return set_clusters(config, QBRT_CORE_MODE_MULTI, clusters,
			    num_clusters);
}

QBRT_API enum qbrt_status
qbrt_model_config_set_global4_core_mode(struct qbrt_model_config *config,
					const enum qbrt_cluster *clusters,
					size_t num_clusters)
{
	return set_clusters(config, QBRT_CORE_MODE_GLOBAL4, clusters,
			    num_clusters);
}

QBRT_API enum qbrt_status
qbrt_model_config_set_global8_core_mode(struct qbrt_model_config *config)
{
	if (!config)
		return fail_null("config");
	set_core_mode(config, QBRT_CORE_MODE_GLOBAL8, 0);
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_forced_npu_bundle(struct qbrt_model_config *config,
					int index)
{
	if (!config)
		return fail_null("config");
	if (index < -1)
		return reject("bundle index is %d, expected 0 or more, or -1 "
			      "for none",
			      index);
	config->forced_npu_bundle = index;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_async_pipeline(struct qbrt_model_config *config,
				     bool is_enabled)
{
	if (!config)
		return fail_null("config");
	config->has_async_pipeline = is_enabled;
	return QBRT_OK;
}

QBRT_API enum qbrt_status
qbrt_model_config_set_activation_slots(struct qbrt_model_config *config,
				       size_t count)
{
	if (!config)
		return fail_null("config");
	if (!count || count > QBRT_MAX_ACTIVATION_SLOTS)
		return reject("number of activation slots is %zu, expected 1 "
			      "to %d",
			      count, QBRT_MAX_ACTIVATION_SLOTS);
	config->activation_slots = count;
	return QBRT_OK;
}

QBRT_API enum qbrt_core_mode
qbrt_model_config_get_core_mode(const struct qbrt_model_config *config)
{
	return config ? config->core_mode : QBRT_CORE_MODE_SINGLE;
}

QBRT_API enum qbrt_core_policy
qbrt_model_config_get_core_policy(const struct qbrt_model_config *config)
{
	return config && config->num_core_ids ? QBRT_CORE_POLICY_MANUAL
					      : QBRT_CORE_POLICY_AUTO;
}

QBRT_API size_t
qbrt_model_config_get_num_cores(const struct qbrt_model_config *config)
{
	return config ? config->num_cores : 0;
}

QBRT_API const struct qbrt_core_id *
qbrt_model_config_get_core_ids(const struct qbrt_model_config *config,
			       size_t *num_core_ids)
{
	size_t num = config ? config->num_core_ids : 0;

	if (num_core_ids)
		*num_core_ids = num;
	return num ? config->core_ids : NULL;
}

QBRT_API const enum qbrt_cluster *
qbrt_model_config_get_clusters(const struct qbrt_model_config *config,
			       size_t *num_clusters)
{
	size_t num = config ? config->num_clusters : 0;

	if (num_clusters)
		*num_clusters = num;
	return num ? config->clusters : NULL;
}

QBRT_API int
qbrt_model_config_get_forced_npu_bundle(const struct qbrt_model_config *config)
{
	return config ? config->forced_npu_bundle : 0;
}

QBRT_API bool
qbrt_model_config_get_async_pipeline(const struct qbrt_model_config *config)
{
	return config && config->has_async_pipeline;
}

QBRT_API size_t
qbrt_model_config_get_activation_slots(const struct qbrt_model_config *config)
{
	return config ? config->activation_slots : 0;
}

uint64_t qbrt_model_config_get_core_mask(const struct qbrt_model_config *config)
{
	uint64_t mask = 0;

	for (size_t i = 0; config && i < config->num_core_ids; i++)
		mask |= get_core_bit(config->core_ids[i]);
	for (size_t i = 0; config && i < config->num_clusters; i++)
		mask |= get_cluster_bit(config->clusters[i]) *
			((1u << CORES_PER_CLUSTER) - 1);
	return mask;
}
