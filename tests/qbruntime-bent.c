// SPDX-License-Identifier: MIT
/*
 * libqbruntime above the driver that tests bend, for tests/cli: two devices of
 * it say that they are hardware, and their counters are made of the clock, so
 * that they grow while nobody works. With QBRUNTIME_TEST_LOST=N the second one
 * is lost when its counters are asked for the N-th time; with
 * QBRUNTIME_TEST_SILENT their firmware has been silent since the machine started.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kmd-bend.h"

static struct qbrt_kmd bent;
const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &bent, NULL };

static long asked_until_lost; /* 0: never */
static int second_file = -1;
static bool is_silent;

/* A job a millisecond, which waits a quarter of it and runs for the half. */
static int64_t get_count(uint32_t id, int64_t ns)
{
	switch (id) {
	case DRM_QBNPU_COUNTER_SUBMITTED:
	case DRM_QBNPU_COUNTER_COMPLETED:
		return ns / 1000000;
	case DRM_QBNPU_COUNTER_BUSY_NS:
		return ns / 2;
	case DRM_QBNPU_COUNTER_WAIT_NS:
		return ns / 4;
	default:
		return 0;
	}
}

static int64_t get_time(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void bend_counters(const struct drm_qbnpu_query *query, uint32_t room)
{
	struct drm_qbnpu_query_value *values = (void *)(uintptr_t)query->data;
	int64_t now = get_time();

	for (size_t i = 0; i < room / sizeof(*values); i++)
		values[i].value = get_count(values[i].id, now);
}

/* Busy for the half of the time. */
static void bend_cores(const struct drm_qbnpu_query *query, uint32_t room)
{
	struct drm_qbnpu_query_core *cores = (void *)(uintptr_t)query->data;
	uint64_t now = (uint64_t)get_time();

	for (size_t i = 0; i < room / sizeof(*cores); i++)
		cores[i].busy_ns = now / 2;
}

static void answer_firmware(struct drm_qbnpu_query *query)
{
	struct drm_qbnpu_query_firmware firmware = {
		.flags = DRM_QBNPU_FIRMWARE_VERSION |
			 DRM_QBNPU_FIRMWARE_HEARTBEAT,
		.heartbeat_ns = is_silent ? 1 : get_time(),
		.version = "1.0.0",
	};

	memcpy((void *)(uintptr_t)query->data, &firmware,
	       query->size < sizeof(firmware) ? query->size : sizeof(firmware));
	query->size = sizeof(firmware);
}

static int bend_ioctl(int file, unsigned long request, void *arg)
{
	struct drm_qbnpu_query *query = arg;
	bool is_query = request == DRM_IOCTL_QBNPU_QUERY;
	uint32_t room = is_query ? query->size : 0;
	int err;

	if (is_query && query->type == DRM_QBNPU_QUERY_COUNTERS &&
	    file == second_file && asked_until_lost && !--asked_until_lost) {
		asked_until_lost = 1;
		return -ENODEV;
	}
	if (is_query && query->type == DRM_QBNPU_QUERY_FIRMWARE) {
		answer_firmware(query);
		return 0;
	}
	err = kmd_bend_driver.ioctl(file, request, arg);
	if (err || !is_query)
		return err;
	room = room < query->size ? room : query->size;
	if (query->type == DRM_QBNPU_QUERY_COUNTERS)
		bend_counters(query, room);
	if (query->type == DRM_QBNPU_QUERY_CORES)
		bend_cores(query, room);
	return 0;
}

static int bend_open(const struct qbrt_kmd_options *options, const char *path,
		     int *file)
{
	int err = kmd_bend_driver.open(options, path, file);

	if (!err && !strcmp(path, "hw:1"))
		second_file = *file;
	return err;
}

__attribute__((constructor)) static void bend(void)
{
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): before main */
	const char *lost = getenv("QBRUNTIME_TEST_LOST");

	asked_until_lost = lost ? strtol(lost, NULL, 10) : 0;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe) */
	is_silent = getenv("QBRUNTIME_TEST_SILENT") != NULL;
	bent = kmd_bend_driver;
	bent.ioctl = bend_ioctl;
	bent.open = bend_open;
	for (int i = 0; i < 2; i++)
		kmd_bend.hardware[i] = (struct kmd_bend_hardware){
			.name = "aries-rb",
			.number = i,
		};
	kmd_bend.num_hardware = 2;
}
