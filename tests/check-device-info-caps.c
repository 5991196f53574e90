// SPDX-License-Identifier: MIT
/*
 * What an info says of the device's state and of what it takes: a software
 * device, and hardware that kmd-bend.c plays.
 */
#include "check-device-info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/kernels.h"
#include "kmd-bend.h"
#include "util.h"

/* The linker's name of qbrt_get_data_dir, which the program has in its place. */
const char *__wrap_qbrt_get_data_dir(void);

static const char *data_dir;

const char *__wrap_qbrt_get_data_dir(void)
{
	return data_dir;
}

/* "int8 half" */
static void check_names(const char *const *names, size_t num,
			const char *expected)
{
	char text[512] = "";

	ck_assert_ptr_nonnull(names);
	for (size_t i = 0; i < num; i++) {
		size_t length = strlen(text);

		(void)snprintf(text + length, sizeof(text) - length, "%s%s",
			       i ? " " : "", names[i]);
	}
	ck_assert_str_eq(text, expected);
}

static struct qbrt_device_info **list_one(void)
{
	struct qbrt_device_info **infos;
	size_t num;

	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(num, 1);
	return infos;
}

static bool has_feature(const struct qbrt_device_info *info, const char *name)
{
	size_t num;
	const char *const *names = qbrt_device_info_get_features(info, &num);

	for (size_t i = 0; i < num; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Q721 K033 */
START_TEST(an_info_says_what_the_software_device_takes)
{
	struct qbrt_device_limits limits = { .size = sizeof(limits) };
	struct qbrt_device_info **infos = list_one();
	const struct qbrt_device_info *info = infos[0];
	const char *const *names;
	size_t num;

	ck_assert_ptr_null(qbrt_device_info_get_serial(info));
	ck_assert_ptr_null(qbrt_device_info_get_uuid(info));
	ck_assert_int_eq(qbrt_device_info_get_state(info),
			 QBRT_DEVICE_STATE_READY);
	ck_assert_uint_eq(qbrt_device_info_get_isa_version(info), 1u << 16);
	/* those of the kernels that there are; lists are in no ISA yet */
	names = qbrt_device_info_get_isa_features(info, &num);
	check_names(names, num, "diag");
	ck_assert_ptr_eq(qbrt_device_info_get_isa_features(info, NULL), names);
	ck_assert(has_feature(info, "progress"));
	ck_assert(has_feature(info, "forced_faults"));
	ck_assert(!has_feature(info, "sync_file"));
	names = qbrt_device_info_get_backends(info, &num);
	check_names(names, num, "ref");
	qbrt_device_info_get_limits(info, &limits);
	ck_assert_uint_eq(limits.max_jobs, 256);
	ck_assert_uint_eq(limits.max_queues, 256);
	ck_assert_uint_eq(limits.max_bindings, 64);
	ck_assert_uint_eq(limits.max_programs, 1024);
	ck_assert_uint_eq(limits.max_program_nbytes, 1u << 24);
	ck_assert_uint_eq(limits.max_pinned_nbytes, UINT64_C(1) << 34);
	ck_assert_int_eq(limits.default_job_time, 10 * QBRT_NS_PER_SEC);
	ck_assert_int_eq(limits.max_job_time, 600 * QBRT_NS_PER_SEC);
	qbrt_device_info_list_free(infos, 1);
}
END_TEST

/* Q735 */
START_TEST(limits_fill_a_struct_of_any_size)
{
	struct qbrt_device_info **infos = list_one();
	struct {
		struct qbrt_device_limits limits;
		uint64_t tail;
	} room, before;

	memset(&room, 0x5a, sizeof(room));
	room.limits.size = offsetof(struct qbrt_device_limits, max_queues);
	qbrt_device_info_get_limits(infos[0], &room.limits);
	ck_assert_uint_eq(room.limits.max_jobs, 256);
	ck_assert_uint_eq(room.limits.max_queues, 0x5a5a5a5a);
	room.limits.size = sizeof(room);
	qbrt_device_info_get_limits(infos[0], &room.limits);
	ck_assert_uint_eq(room.limits.max_queues, 256);
	ck_assert_uint_eq(room.limits.size, sizeof(room));
	ck_assert_uint_eq(room.tail, 0);
	memset(&room, 0x5a, sizeof(room));
	room.limits.size = sizeof(size_t) - 1;
	before = room;
	qbrt_device_info_get_limits(infos[0], &room.limits);
	ck_assert_mem_eq(&room, &before, sizeof(room));
	qbrt_device_info_get_limits(infos[0], NULL);
	qbrt_device_info_list_free(infos, 1);
}
END_TEST

/* Q721: the plugin is named where its file lies in the data folder. */
START_TEST(backends_are_those_that_are_installed)
{
	char folder[] = "/tmp/check-device-info-XXXXXX";
	struct qbrt_device_info **infos;
	const char *const *names;
	char path[64];
	size_t num;
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/%s", folder, QBNPU_PLUGIN_FILE);
	data_dir = folder;
	infos = list_one();
	names = qbrt_device_info_get_backends(infos[0], &num);
	check_names(names, num, "ref");
	qbrt_device_info_list_free(infos, 1);

	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	ck_assert(!fclose(file));
	infos = list_one();
	names = qbrt_device_info_get_backends(infos[0], &num);
	check_names(names, num, "ref onednn");
	qbrt_device_info_list_free(infos, 1);

	/* of software devices alone */
	kmd_bend.hardware[kmd_bend.num_hardware++] =
		(struct kmd_bend_hardware){ "aries-rb", 0, 0 };
	infos = list_one();
	names = qbrt_device_info_get_backends(infos[0], &num);
	ck_assert_uint_eq(num, 0);
	ck_assert_ptr_nonnull(names);
	qbrt_device_info_list_free(infos, 1);
	ck_assert(!unlink(path));
	ck_assert(!rmdir(folder));
}
END_TEST

static uint32_t next_state;

static void make_hardware(struct drm_qbnpu_query_device *device)
{
	device->kind = DRM_QBNPU_KIND_HARDWARE;
	memset(device->serial, 0, sizeof(device->serial));
	strcpy(device->serial, "A1B2C3");
	device->isa_major = 1;
	device->isa_minor = 7;
	device->isa_features = UINT64_C(1) << 63 | 0x1ff;
	device->features = UINT64_C(1) << 63 | 0x3fff;
	device->default_job_ns = UINT64_MAX;
	device->state = next_state;
}

/* Q721: bits of a newer driver have no name and are left out */
START_TEST(an_info_says_what_hardware_told)
{
	struct qbrt_device_limits limits = { .size = sizeof(limits) };
	struct qbrt_device_info **infos;
	size_t num;

	kmd_bend.bend_device = make_hardware;
	infos = list_one();
	ck_assert_str_eq(qbrt_device_info_get_serial(infos[0]), "A1B2C3");
	/* of "qbnpu:aries-rb:A1B2C3", by Python's uuid.uuid5() */
	ck_assert_str_eq(qbrt_device_info_get_uuid(infos[0]),
			 "5ec32e11-cf21-5e69-a3d9-3ae035e30ce9");
	ck_assert_uint_eq(qbrt_device_info_get_isa_version(infos[0]),
			  1u << 16 | 7);
	check_names(qbrt_device_info_get_isa_features(infos[0], &num), 8,
		    "int8 half lists state dynamic lstm gather diag");
	ck_assert_uint_eq(num, 8);
	check_names(
		qbrt_device_info_get_features(infos[0], &num), 13,
		"syncobj_timeline progress device_time syncobj_fd sync_file "
		"syncobj_eventfd dmabuf_export dmabuf_import memfd "
		"contiguous_local contiguous_system copy forced_faults");
	ck_assert_uint_eq(num, 13);
	qbrt_device_info_get_limits(infos[0], &limits);
	ck_assert_int_eq(limits.default_job_time, INT64_MAX);
	qbrt_device_info_list_free(infos, 1);
}
END_TEST

/* Q721 */
START_TEST(a_state_is_told_by_name)
{
	static const enum qbrt_device_state states[] = {
		QBRT_DEVICE_STATE_READY,    QBRT_DEVICE_STATE_RESETTING,
		QBRT_DEVICE_STATE_DEGRADED, QBRT_DEVICE_STATE_LOST,
		QBRT_DEVICE_STATE_NONE,
	};
	struct qbrt_device_info **infos;

	next_state = (uint32_t)_i;
	kmd_bend.bend_device = make_hardware;
	infos = list_one();
	ck_assert_int_eq(qbrt_device_info_get_state(infos[0]), states[_i]);
	qbrt_device_info_list_free(infos, 1);
}
END_TEST

static uint32_t next_flags[2];

static void make_largest(struct drm_qbnpu_query_memory *memory)
{
	memory->flags = next_flags[memory->region];
	memory->largest_free =
		memory->region == DRM_QBNPU_REGION_LOCAL ? 8 << 20 : 3 << 20;
}

/* Q721 Q472: of what is known and can be mapped, the largest of all regions */
START_TEST(the_largest_contiguous_buffer_is_told_where_it_is_known)
{
	const uint32_t known = DRM_QBNPU_REGION_LARGEST_KNOWN;
	const uint32_t mappable = DRM_QBNPU_REGION_MAPPABLE;
	const struct {
		uint32_t local, system;
		uint64_t expected;
	} all[] = {
		{ known | mappable, known | mappable, 8 << 20 },
		{ known, known | mappable, 3 << 20 },
		{ mappable, known | mappable, 3 << 20 },
		{ mappable, known, 0 },
		{ known | mappable, 0, 8 << 20 },
	};

	kmd_bend.bend_memory = make_largest;
	for (size_t i = 0; i < qbrt_array_size(all); i++) {
		struct qbrt_device_info **infos;

		next_flags[DRM_QBNPU_REGION_LOCAL] = all[i].local;
		next_flags[DRM_QBNPU_REGION_SYSTEM] = all[i].system;
		infos = list_one();
		ck_assert_uint_eq(
			qbrt_device_info_get_contiguous_free(infos[0]),
			all[i].expected);
		qbrt_device_info_list_free(infos, 1);
	}
}
END_TEST

void add_device_info_caps_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_info_says_what_the_software_device_takes),
		QBRT_TEST(limits_fill_a_struct_of_any_size),
		QBRT_TEST(backends_are_those_that_are_installed),
		QBRT_TEST(an_info_says_what_hardware_told),
		QBRT_LOOP_TEST(a_state_is_told_by_name, 5),
		QBRT_TEST(
			the_largest_contiguous_buffer_is_told_where_it_is_known),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
