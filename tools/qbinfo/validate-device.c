// SPDX-License-Identifier: MIT
/* open: what the open device tells; accounting: that it is as it was found. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect.h"
#include "print.h"
#include "validate.h"

#define WAIT_NS 1000000000

int64_t validate_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t validate_count(const struct validate *validate, const char *name)
{
	struct qbrt_reading *readings;
	size_t num, max;

	if (qbrt_accelerator_query_counters(validate->acc, NULL, 0, &max))
		return 0;
	readings = inventory_alloc((max + 1) * sizeof(*readings));
	if (qbrt_accelerator_query_counters(validate->acc, readings, max, &num))
		return 0;
	for (size_t i = 0; i < num && i < max; i++) {
		if (!strcmp(qbrt_counter_name(readings[i].id), name))
			return (uint64_t)readings[i].value;
	}
	return 0;
}

/* ---- open ---- */

/* What does not change while a device is there. */
static const enum field_id fixed[] = {
	FIELD_ID,
	FIELD_NAME,
	FIELD_NUMBER,
	FIELD_KIND,
	FIELD_BUS,
	FIELD_NODE,
	FIELD_CLUSTERS,
	FIELD_LOCAL_CORES,
	FIELD_GLOBAL_CORES,
	FIELD_CORE_MODES,
	FIELD_DMABUF_IMPORT,
	FIELD_DMABUF_EXPORT,
	FIELD_MEMFD_EXPORT,
	FIELD_SYNC_FILE,
	FIELD_SYNCOBJ_FD,
	FIELD_SYNCOBJ_TIMELINE,
	FIELD_FENCE_EVENTFD,
	FIELD_DTYPES,
	FIELD_CONTIGUITY,
	FIELD_MAX_JOBS,
	FIELD_MAX_QUEUES,
	FIELD_MAX_BINDINGS,
	FIELD_CONTAINERS,
	FIELD_ISA,
	FIELD_ISA_FEATURES,
	FIELD_BACKENDS,
	FIELD_DEVICE_TOTAL,
};
#define NUM_FIXED (sizeof(fixed) / sizeof(*fixed))

static const char *print_fixed(const struct record *device, enum field_id field)
{
	return print_value(record_see(device, field), field, true);
}

/* What the open device says of itself, beside what the list said. */
static bool compare_info(struct validate *validate,
			 const struct qbrt_device_info *info)
{
	struct inventory other;
	struct record *device;

	inventory_start(&other);
	device = records_add(&other.devices);
	collect_info(&other, device, info);
	for (size_t i = 0; i < NUM_FIXED; i++) {
		const char *listed = print_fixed(validate->device, fixed[i]);
		const char *told = print_fixed(device, fixed[i]);

		if (strcmp(listed, told) != 0)
			return validate_fail(validate,
					     "%s is %s in the list, but %s of "
					     "the open device",
					     field_get(fixed[i])->path, listed,
					     told);
	}
	return true;
}

static bool compare_names(struct validate *validate)
{
	const char *id = inventory_format(
		"%s:%d", qbrt_accelerator_get_name(validate->acc),
		qbrt_accelerator_get_number(validate->acc));
	const char *listed = record_get_text(validate->device, FIELD_ID);

	if (!strcmp(id, listed) &&
	    !strcmp(qbrt_accelerator_get_id(validate->acc), listed))
		return true;
	return validate_fail(validate,
			     "%s was opened, but calls itself %s (%s)", listed,
			     id, qbrt_accelerator_get_id(validate->acc));
}

/* The cores that there are, by clusters, and what the modes need of them. */
static bool compare_cores(struct validate *validate,
			  const struct qbrt_device_info *info)
{
	size_t clusters = qbrt_device_info_get_num_clusters(info);
	size_t local =
		clusters * qbrt_device_info_get_local_cores_per_cluster(info);
	size_t global =
		clusters * qbrt_device_info_get_global_cores_per_cluster(info);
	uint32_t modes = qbrt_device_info_get_core_modes(info);
	size_t num_cores, num_states;

	if (!validate_try(validate, "asking for the cores",
			  qbrt_accelerator_query_cores(validate->acc, NULL, 0,
						       &num_cores)) ||
	    !validate_try(validate, "asking what the cores do",
			  qbrt_accelerator_query_core_states(
				  validate->acc, NULL, 0, &num_states)))
		return false;
	if (num_cores != local || num_states != local + global)
		return validate_fail(validate,
				     "%zu local and %zu global cores were "
				     "expected, but %zu are local and %zu are "
				     "told of",
				     local, global, num_cores, num_states);
	if ((modes >> QBRT_CORE_MODE_GLOBAL4 & 1 && !global) ||
	    (modes >> QBRT_CORE_MODE_GLOBAL8 & 1 && (!global || clusters < 2)))
		return validate_fail(
			validate,
			"%s needs more than %zu clusters with "
			"%zu global cores",
			print_fixed(validate->device, FIELD_CORE_MODES),
			clusters, global);
	return true;
}

bool validate_open(struct validate *validate)
{
	struct qbrt_device_info *info = NULL;
	bool is_good = validate_try(validate, "asking the open device",
				    qbrt_accelerator_query_info(validate->acc,
								&info)) &&
		       compare_names(validate) &&
		       compare_info(validate, info) &&
		       compare_cores(validate, info);

	qbrt_device_info_free(info);
	return is_good &&
	       validate_ok(validate, "%zu properties agree with caps",
			   NUM_FIXED);
}

/* ---- accounting ---- */

/* The open descriptors, in order; those without room are counted alone. */
static size_t list_fds(int fds[VALIDATE_MAX_FDS])
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t num = 0;

	if (!folder)
		return VALIDATE_NO_FDS;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): a folder of its own */
	while ((entry = readdir(folder))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		size_t i = num;

		if (entry->d_name[0] == '.' || fd == dirfd(folder))
			continue;
		num++;
		if (i >= VALIDATE_MAX_FDS)
			continue;
		for (; i && fds[i - 1] > fd; i--)
			fds[i] = fds[i - 1];
		fds[i] = fd;
	}
	(void)closedir(folder);
	return num;
}

void validate_start_accounting(struct validate *validate)
{
	validate->num_fds = list_fds(validate->fds);
	validate->locked = validate_get_locked();
}

uint64_t validate_get_free(const struct validate *validate)
{
	struct qbrt_device_info *info;
	uint64_t free;

	if (qbrt_accelerator_query_info(validate->acc, &info))
		return 0;
	free = qbrt_device_info_get_memory_free(info);
	qbrt_device_info_free(info);
	return free;
}

/* Jobs that have not ended, and items in the cores' queues. */
static uint64_t count_unfinished(const struct validate *validate)
{
	struct qbrt_core_state states[64];
	uint64_t num = validate_count(validate, "submitted") -
		       validate_count(validate, "completed") -
		       validate_count(validate, "failed") -
		       validate_count(validate, "cancelled");
	size_t num_states;

	if (qbrt_accelerator_query_core_states(validate->acc, states, 64,
					       &num_states))
		return num;
	for (size_t i = 0; i < num_states && i < 64; i++)
		num += states[i].queued +
		       (states[i].activity == QBRT_CORE_ACTIVITY_BUSY);
	return num;
}

/* NULL: all is as at the start. Of hardware this is other users', too. */
static const char *compare_device(const struct validate *validate)
{
	uint64_t free = validate_get_free(validate), unfinished;

	if (!validate->is_software)
		return NULL;
	if (free != validate->free)
		return inventory_format(
			"%llu bytes of the device are free, %llu were",
			(unsigned long long)free,
			(unsigned long long)validate->free);
	unfinished = count_unfinished(validate);
	return unfinished ? inventory_format("%llu jobs have not ended",
					     (unsigned long long)unfinished)
			  : NULL;
}

/* The same of this process, which has no device open. */
static const char *compare_process(const struct validate *validate)
{
	int fds[VALIDATE_MAX_FDS];
	size_t num = list_fds(fds);
	size_t room = num < VALIDATE_MAX_FDS ? num : VALIDATE_MAX_FDS;
	uint64_t locked = validate_get_locked();

	if (num != validate->num_fds ||
	    memcmp(fds, validate->fds, room * sizeof(*fds)) != 0)
		return inventory_format("%zu descriptors are open, %zu were",
					num, validate->num_fds);
	return locked == validate->locked
		       ? NULL
		       : inventory_format(
				 "%llu bytes of memory are locked, %llu were",
				 (unsigned long long)locked,
				 (unsigned long long)validate->locked);
}

/* What the library gives back on a thread of its own comes soon after. */
static bool wait_for(struct validate *validate,
		     const char *(*compare)(const struct validate *validate))
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int64_t end = validate_now() + WAIT_NS;
	const char *difference = compare(validate);

	while (difference && validate_now() < end) {
		(void)nanosleep(&nap, NULL);
		difference = compare(validate);
	}
	return !difference || validate_fail(validate, "%s", difference);
}

/* One of everything that is given back. */
static bool use_all(struct validate *validate)
{
	struct qbm_writer writer;
	struct validate_job job;
	int fd = -1;
	bool is_good;

	validate_write_copy(&writer, 4096);
	is_good = validate_launch(validate, &writer, &job) &&
		  validate_try(validate, "a copy", validate_infer(&job, 0, 0));
	if (is_good && !qbrt_pinned_memory_export_fd(job.outputs[0], &fd))
		(void)close(fd);
	validate_dispose(&job);
	return is_good;
}

/* Freed memory is kept for reuse until the device is closed. */
bool validate_accounting(struct validate *validate)
{
	if (!use_all(validate) || !wait_for(validate, compare_device))
		return false;
	qbrt_accelerator_close(validate->acc);
	validate->acc = NULL;
	if (validate->num_fds == VALIDATE_NO_FDS ||
	    validate->locked == VALIDATE_UNKNOWN)
		return validate_skip(validate, REASON_ERROR,
				     "/proc/self could not be read, which "
				     "tells descriptors and locked memory");
	return wait_for(validate, compare_process) &&
	       validate_ok(validate,
			   validate->is_software
				   ? "descriptors, bytes and jobs as at the "
				     "start"
				   : "descriptors and locked bytes as at the "
				     "start; the device may have other users");
}
