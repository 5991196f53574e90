// SPDX-License-Identifier: MIT
/*
 * The table of open devices. A place is taken while its instance is not 0;
 * what finding reads is constant meanwhile. A device may be added twice, when
 * it is opened anew while its last file closes: it keeps its number.
 */
#include "trace-device.h"

#include <stdatomic.h>
#include <stdio.h>

/* More than nodes of the software driver and minors of the kernel's. */
#define MAX_DEVICES 256

/* Above every real process number. */
#define FIRST_PID 4194304

struct qbrt_trace_place {
	atomic_uint_fast64_t instance;
	unsigned int references;
	long pid;
	struct qbrt_trace_device device;
};

static struct qbrt_trace_place places[MAX_DEVICES];
static atomic_size_t num_places; /* that were ever taken */
static long num_opened;

static struct qbrt_trace_place *find(uint64_t instance)
{
	size_t num = atomic_load_explicit(&num_places, memory_order_acquire);

	for (size_t i = 0; i < num; i++)
		if (atomic_load_explicit(&places[i].instance,
					 memory_order_acquire) == instance)
			return &places[i];
	return NULL;
}

/* The first that is free. */
static struct qbrt_trace_place *find_free(void)
{
	struct qbrt_trace_place *place = find(0);
	size_t num = atomic_load(&num_places);

	if (place || num == MAX_DEVICES)
		return place;
	atomic_store_explicit(&num_places, num + 1, memory_order_release);
	return &places[num];
}

const struct qbrt_trace_place *
qbrt_trace_table_add(const struct qbrt_trace_device *device)
{
	struct qbrt_trace_place *place = find(device->instance);

	if (place) {
		place->references++;
		return NULL;
	}
	place = find_free();
	if (!place)
		return NULL;
	place->references = 1;
	place->pid = FIRST_PID + num_opened++;
	place->device = *device;
	atomic_store_explicit(&place->instance, device->instance,
			      memory_order_release);
	return place;
}

void qbrt_trace_table_remove(uint64_t instance)
{
	struct qbrt_trace_place *place = find(instance);

	if (place && !--place->references)
		atomic_store(&place->instance, 0);
}

void qbrt_trace_table_clear(void)
{
	for (size_t i = 0; i < MAX_DEVICES; i++)
		atomic_store(&places[i].instance, 0);
}

const struct qbrt_trace_place *qbrt_trace_table_next(size_t *index)
{
	size_t num = atomic_load(&num_places);

	while (*index < num) {
		const struct qbrt_trace_place *place = &places[(*index)++];

		if (atomic_load(&place->instance))
			return place;
	}
	return NULL;
}

/* The place of a core (bit cluster * 8 + core) among the device's. */
static long get_index(const struct qbrt_trace_device *device, uint32_t core)
{
	return __builtin_popcountll(device->core_mask &
				    ((UINT64_C(1) << core) - 1));
}

bool qbrt_trace_table_find(uint64_t instance, uint32_t core, long *pid,
			   long *tid)
{
	const struct qbrt_trace_place *place = find(instance);

	if (!place)
		return false;
	*pid = place->pid;
	*tid = get_index(&place->device, core);
	return true;
}

static void fill_device_line(const struct qbrt_trace_place *place,
			     struct qbrt_trace_line *line)
{
	const struct qbrt_trace_device *device = &place->device;

	qbrt_trace_line_begin_names(line, ',', "process_name", place->pid, 0);
	qbrt_trace_line_add_text(line, "name", device->id);
	qbrt_trace_line_add_text(line, "kind", device->kind);
	qbrt_trace_line_add_text(line, "driver", device->driver);
	qbrt_trace_line_add_text(line, "driver_version",
				 device->driver_version);
	qbrt_trace_line_add_text(line, "uapi_version", device->uapi_version);
	if (*device->firmware)
		qbrt_trace_line_add_text(line, "firmware", device->firmware);
	qbrt_trace_line_add_number(
		line, "cores",
		(uint64_t)__builtin_popcountll(device->core_mask));
	qbrt_trace_line_end(line);
}

bool qbrt_trace_place_line(const struct qbrt_trace_place *place,
			   unsigned int number, struct qbrt_trace_line *line)
{
	uint64_t cores = place->device.core_mask;
	uint32_t core;
	char name[32];

	if (!number) {
		fill_device_line(place, line);
		return true;
	}
	while (--number && cores)
		cores &= cores - 1;
	if (!cores)
		return false;
	core = (uint32_t)__builtin_ctzll(cores);
	(void)snprintf(name, sizeof(name), "core %u.%u", core / 8, core % 8);
	qbrt_trace_line_begin_names(line, ',', "thread_name", place->pid,
				    get_index(&place->device, core));
	qbrt_trace_line_add_text(line, "name", name);
	qbrt_trace_line_end(line);
	return true;
}
