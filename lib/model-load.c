// SPDX-License-Identifier: MIT
/*
 * A model from its file, and its end. Loading needs no device and keeps nothing
 * of the file open.
 */
#include "model.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "model-config.h"
#include "status.h"
#include "util.h"

/* Of a model's name in sentences: two of them leave room for the reason. */
#define MAX_NAME_LENGTH 48

static atomic_uint next_identifier;

/* Auto takes the one mode that the file has; all variants have the same. */
static enum qbrt_status resolve_mode(struct qbrt_model *model,
				     enum qbrt_core_mode wanted)
{
	const struct qbrt_model_file *file = model->file;
	uint32_t mask = file->bundles[0].mode_mask;
	bool is_auto = wanted == QBRT_CORE_MODE_AUTO;
	char modes[64];

	if (is_auto && qbrt_is_power_of_two(mask))
		wanted = (enum qbrt_core_mode)__builtin_ctz(mask);
	if (wanted < QBRT_CORE_MODE_AUTO && mask >> wanted & 1) {
		model->mode = wanted;
		return QBRT_OK;
	}
	qbrt_list_bits(mask, qbrt_core_mode_names, QBRT_CORE_MODE_AUTO, modes,
		       sizeof(modes));
	if (is_auto)
		return qbrt_fail(
			QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH,
			"%s: bundle 0 (%s) has the core modes %s, and "
			"CoreMode::Auto takes a file with exactly one: choose "
			"with qbrt_model_config_set_single_core_mode or its "
			"like",
			model->name,
			qbrt_model_file_string(file, file->bundles[0].name),
			modes);
	return qbrt_fail(QBRT_MODEL_MXQ_AND_MODEL_CONFIG_NOT_MATCH,
			 "%s: was compiled for the core modes %s, and the "
			 "configuration asks for %s",
			 model->name, modes, qbrt_core_mode_names[wanted]);
}

/* Forcing the only bundle changes nothing. */
static enum qbrt_status check_bundle(const struct qbrt_model *model, int index)
{
	uint32_t num = model->file->variants[0].bundle_count;

	if (index < 0 || (uint32_t)index < num)
		return QBRT_OK;
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "%s: the configuration forces bundle %d, the number "
			 "of bundles is %u",
			 model->name, index, num);
}

/* Takes over what it says, so that it may change afterwards (Q223). */
static enum qbrt_status configure(struct qbrt_model *model,
				  const struct qbrt_model_config *config)
{
	enum qbrt_status status;

	if (!config)
		return resolve_mode(model, QBRT_CORE_MODE_AUTO);
	status = resolve_mode(model, qbrt_model_config_get_core_mode(config));
	if (!status)
		status = check_bundle(
			model, qbrt_model_config_get_forced_npu_bundle(config));
	if (status)
		return status;
	model->has_async_pipeline =
		qbrt_model_config_get_async_pipeline(config);
	model->wanted_slots =
		(uint32_t)qbrt_model_config_get_activation_slots(config);
	model->wanted_cores = qbrt_model_config_get_core_mask(config);
	if (!model->wanted_cores)
		model->wanted_num_cores =
			(uint32_t)qbrt_model_config_get_num_cores(config);
	return QBRT_OK;
}

/* The text that cache files bear in their names. */
static enum qbrt_status write_layer_hashes(struct qbrt_model *model)
{
	const struct qbrt_model_file *file = model->file;

	if (!file->cach)
		return QBRT_OK;
	model->layer_hashes =
		calloc(file->cach->count, sizeof(model->layer_hashes[0]));
	if (!model->layer_hashes)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "%s: no memory for a model", model->name);
	for (uint32_t i = 0; i < file->cach->count; i++)
		(void)snprintf(model->layer_hashes[i],
			       sizeof(model->layer_hashes[i]), "%016" PRIx64,
			       file->caches[i].layer_hash);
	return QBRT_OK;
}

/* Destroying waits for waiters, and a child of fork inherits some for ever. */
void qbrt_model_release(struct qbrt_model *model)
{
	qbrt_model_file_free(model->file);
	if (!qbrt_model_is_inherited(model)) {
		(void)pthread_cond_destroy(&model->retired);
		(void)pthread_mutex_destroy(&model->launch_lock);
	}
	free(atomic_load(&model->summary));
	free(model->layer_hashes);
	free(model->name);
	free(model->path);
	free(model);
}

/* The end of a long path, as a whole in UTF-8: sentences need room as well. */
static const char *shorten(const char *path, char name[MAX_NAME_LENGTH + 1])
{
	size_t length = strlen(path);

	if (length <= MAX_NAME_LENGTH)
		return path;
	path += length - (MAX_NAME_LENGTH - 3);
	while ((*path & 0xc0) == 0x80)
		path++;
	(void)snprintf(name, MAX_NAME_LENGTH + 1, "...%s", path);
	return name;
}

/* Its waits end by the clock of our deadlines. */
static void init_retired(pthread_cond_t *retired)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(retired, &attr);
	(void)pthread_condattr_destroy(&attr);
}

/* path: as given to load, or NULL for a descriptor. */
static struct qbrt_model *alloc_model(const char *path, int fd)
{
	struct qbrt_model *model =
		aligned_alloc(QBRT_CACHE_LINE, sizeof(*model));
	char name[MAX_NAME_LENGTH + 1];

	if (!model)
		return NULL;
	memset(model, 0, sizeof(*model));
	atomic_init(&model->references, 1);
	(void)pthread_mutex_init(&model->launch_lock, NULL);
	init_retired(&model->retired);
	model->path = strdup(path ? path : "");
	if (path && *path)
		model->name = strdup(shorten(path, name));
	else if (asprintf(&model->name, "model of descriptor %d", fd) < 0)
		model->name = NULL;
	if (!model->path || !model->name) {
		qbrt_model_release(model);
		return NULL;
	}
	return model;
}

static enum qbrt_status load(int fd, const char *path,
			     const struct qbrt_model_config *config,
			     struct qbrt_model **model)
{
	struct qbrt_model *new_model = alloc_model(path, fd);
	enum qbrt_status status;

	if (!new_model)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "no memory for a model");
	status = qbrt_model_file_read(fd, new_model->name, &new_model->file);
	if (!status)
		status = configure(new_model, config);
	if (!status)
		status = write_layer_hashes(new_model);
	if (status) {
		qbrt_model_release(new_model);
		return status;
	}
	new_model->identifier = atomic_fetch_add(&next_identifier, 1);
	qbrt_count(live_models);
	*model = new_model;
	return QBRT_OK;
}

/* A FIFO must not block the open, nor a terminal become the controlling one. */
QBRT_API enum qbrt_status
qbrt_model_load(const char *path, const struct qbrt_model_config *config,
		struct qbrt_model **model)
{
	char name[MAX_NAME_LENGTH + 1];
	enum qbrt_status status;
	int fd;

	if (!path || !model)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_load: %s is NULL",
				 path ? "model" : "path");
	if (!*path)
		return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ,
				 "\"\": the path of the model is empty");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return qbrt_fail(QBRT_MODEL_FAILED_TO_LOAD_MXQ,
				 "%s: cannot be opened: %m",
				 shorten(path, name));
	status = load(fd, path, config, model);
	(void)close(fd);
	return status;
}

QBRT_API enum qbrt_status
qbrt_model_load_fd(int fd, const struct qbrt_model_config *config,
		   struct qbrt_model **model)
{
	if (fd < 0 || !model)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_load_fd: %s",
				 model ? "fd is negative" : "model is NULL");
	return load(fd, NULL, config, model);
}
