// SPDX-License-Identifier: MIT
/*
 * Infos: what one says about a device, and the list's arguments and failures.
 * Which devices are listed is check-device-info-probe.c's.
 */
#include "check-device-info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "count-alloc.h"
#include "device-info.h"
#include "kmd-bend.h"
#include "status.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_device_info **)(uintptr_t)0x5a5a)

static void set(const char *name, const char *value)
{
	ck_assert_int_eq(setenv(name, value, 1), 0);
}

/* "aries-rb:0 regulus-ra:0" of the devices that name means. */
static void list_ids(const char *name, char *text, size_t size)
{
	struct qbrt_device_info **infos = NULL;
	size_t num = SIZE_MAX;
	size_t i;

	*text = '\0';
	ck_assert_ok(qbrt_device_info_list(name, &infos, &num));
	ck_assert_ptr_nonnull(infos);
	for (i = 0; i < num; i++) {
		size_t length = strlen(text);

		(void)snprintf(text + length, size - length, "%s%s",
			       i ? " " : "", qbrt_device_info_get_id(infos[i]));
	}
	qbrt_device_info_list_free(infos, num);
}

#define ck_assert_ids(name, expected) \
	do { \
		char ck_ids[4096]; \
		list_ids(name, ck_ids, sizeof(ck_ids)); \
		ck_assert_str_eq(ck_ids, expected); \
	} while (0)

/* Q110 Q116 Q099 Q202 Q721 */
START_TEST(an_info_says_what_the_software_aries_is)
{
	struct qbrt_device_info **infos;
	const struct qbrt_device_info *info;
	size_t num;

	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(num, 1);
	info = infos[0];
	ck_assert_str_eq(qbrt_device_info_get_id(info), "aries-rb:0");
	ck_assert_str_eq(qbrt_device_info_get_name(info), "aries-rb");
	ck_assert_int_eq(qbrt_device_info_get_number(info), 0);
	ck_assert_int_eq(qbrt_device_info_get_kind(info),
			 QBRT_DEVICE_KIND_SOFTWARE);
	ck_assert_str_eq(qbrt_device_info_get_family(info), "aries");
	ck_assert_ptr_null(qbrt_device_info_get_product(info));
	ck_assert_str_eq(qbrt_device_info_get_driver(info), "qbnpu");
	ck_assert_str_eq(qbrt_device_info_get_driver_version(info), "1.0.0");
	ck_assert_str_eq(qbrt_device_info_get_uapi_version(info), "1.0");
	ck_assert_ptr_null(qbrt_device_info_get_firmware(info));
	ck_assert_ptr_null(qbrt_device_info_get_bus(info));
	ck_assert_str_eq(qbrt_device_info_get_node(info), "soft:0");
	ck_assert_int_eq(qbrt_device_info_get_numa_node(info), -1);
	ck_assert_uint_eq(qbrt_device_info_get_num_clusters(info), 2);
	ck_assert_uint_eq(qbrt_device_info_get_local_cores_per_cluster(info),
			  4);
	ck_assert_uint_eq(qbrt_device_info_get_global_cores_per_cluster(info),
			  1);
	ck_assert(qbrt_device_info_get_core_modes(info) & 1u);
	ck_assert_uint_eq(qbrt_device_info_get_dtypes(info), 0x1fff);
	ck_assert(qbrt_device_info_get_contiguity_classes(info) &
		  1u << QBRT_CONTIGUITY_LOCKED);
	ck_assert_uint_gt(qbrt_device_info_get_memory_total(info), 0);
	ck_assert_uint_eq(qbrt_device_info_get_memory_free(info),
			  qbrt_device_info_get_memory_total(info));
	ck_assert_uint_gt(qbrt_device_info_get_pinned_limit(info), 0);
	ck_assert_uint_eq(qbrt_device_info_get_container_min(info), 1u << 16);
	ck_assert_uint_eq(qbrt_device_info_get_container_max(info), 1u << 16);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q110 Q121 */
START_TEST(an_info_says_what_the_software_regulus_is)
{
	struct qbrt_device_info **infos;
	size_t num;

	set("QBRUNTIME_SOFT_DEVICES", "regulus");
	set("QBRUNTIME_SOFT_MEMORY", "64M");
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(num, 1);
	ck_assert_str_eq(qbrt_device_info_get_id(infos[0]), "regulus-ra:0");
	ck_assert_str_eq(qbrt_device_info_get_family(infos[0]), "regulus");
	ck_assert_uint_eq(qbrt_device_info_get_num_clusters(infos[0]), 1);
	ck_assert_uint_eq(
		qbrt_device_info_get_local_cores_per_cluster(infos[0]), 1);
	ck_assert_uint_eq(
		qbrt_device_info_get_global_cores_per_cluster(infos[0]), 0);
	ck_assert_uint_eq(qbrt_device_info_get_core_modes(infos[0]),
			  1u << QBRT_CORE_MODE_SINGLE);
	ck_assert_uint_eq(qbrt_device_info_get_memory_total(infos[0]),
			  64u << 20);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q479 */
START_TEST(a_device_without_mappable_memory_has_no_pinned_memory)
{
	struct qbrt_device_info **infos;
	size_t num;

	kmd_bend.has_region_flags = true;
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(num, 1);
	ck_assert_uint_eq(qbrt_device_info_get_dtypes(infos[0]), 0);
	ck_assert_uint_eq(qbrt_device_info_get_contiguity_classes(infos[0]), 0);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q470 Q476 */
START_TEST(memory_of_class_driver_is_never_less)
{
	struct qbrt_device_info **infos;
	size_t num;

	kmd_bend.is_contiguous = true;
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(qbrt_device_info_get_contiguity_classes(infos[0]),
			  1u << QBRT_CONTIGUITY_DRIVER);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q469 Q202 */
START_TEST(the_pinned_limit_is_that_of_the_region_taken_first)
{
	struct qbrt_device_info **infos;
	size_t num;

	kmd_bend.region_total[DRM_QBNPU_REGION_SYSTEM] = 4 << 20;
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_le(qbrt_device_info_get_pinned_limit(infos[0]), 4 << 20);
	ck_assert_uint_gt(qbrt_device_info_get_pinned_limit(infos[0]), 0);
	qbrt_device_info_list_free(infos, num);
	kmd_bend.num_regions = 1;
	kmd_bend.region_total[DRM_QBNPU_REGION_LOCAL] = 1 << 20;
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(qbrt_device_info_get_pinned_limit(infos[0]), 1 << 20);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q733 */
START_TEST(null_outputs_are_refused)
{
	struct qbrt_device_info **infos = SENTINEL;
	size_t num = 77;

	ck_assert_status(qbrt_device_info_list(NULL, NULL, &num),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("infos");
	ck_assert_uint_eq(num, 77);
	ck_assert_status(qbrt_device_info_list(NULL, &infos, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("num_infos");
	ck_assert_ptr_eq(infos, SENTINEL);
}
END_TEST

/* Q733 */
START_TEST(getters_of_null_answer_nothing)
{
	const char *(*const texts[])(const struct qbrt_device_info *) = {
		qbrt_device_info_get_id,
		qbrt_device_info_get_name,
		qbrt_device_info_get_family,
		qbrt_device_info_get_product,
		qbrt_device_info_get_driver,
		qbrt_device_info_get_driver_version,
		qbrt_device_info_get_uapi_version,
		qbrt_device_info_get_firmware,
		qbrt_device_info_get_bus,
		qbrt_device_info_get_node,
		qbrt_device_info_get_serial,
		qbrt_device_info_get_uuid,
	};
	const char *const *(*const lists[])(const struct qbrt_device_info *,
					    size_t *) = {
		qbrt_device_info_get_isa_features,
		qbrt_device_info_get_features,
		qbrt_device_info_get_backends,
	};
	struct qbrt_device_limits limits, zeros = { .size = sizeof(zeros) };
	size_t i;

	for (i = 0; i < qbrt_array_size(texts); i++)
		ck_assert_ptr_null(texts[i](NULL));
	ck_assert_int_eq(qbrt_device_info_get_kind(NULL),
			 QBRT_DEVICE_KIND_NONE);
	ck_assert(!qbrt_device_info_get_number(NULL));
	ck_assert(!qbrt_device_info_get_numa_node(NULL));
	ck_assert(!qbrt_device_info_get_num_clusters(NULL));
	ck_assert(!qbrt_device_info_get_local_cores_per_cluster(NULL));
	ck_assert(!qbrt_device_info_get_global_cores_per_cluster(NULL));
	ck_assert(!qbrt_device_info_get_core_modes(NULL));
	ck_assert(!qbrt_device_info_get_dtypes(NULL));
	ck_assert(!qbrt_device_info_get_contiguity_classes(NULL));
	ck_assert(!qbrt_device_info_get_memory_total(NULL));
	ck_assert(!qbrt_device_info_get_memory_free(NULL));
	ck_assert(!qbrt_device_info_get_pinned_limit(NULL));
	ck_assert(!qbrt_device_info_get_container_min(NULL));
	ck_assert(!qbrt_device_info_get_container_max(NULL));
	ck_assert_int_eq(qbrt_device_info_get_state(NULL),
			 QBRT_DEVICE_STATE_NONE);
	ck_assert(!qbrt_device_info_get_contiguous_free(NULL));
	ck_assert(!qbrt_device_info_get_isa_version(NULL));
	for (i = 0; i < qbrt_array_size(lists); i++) {
		size_t num = 77;

		ck_assert_ptr_null(lists[i](NULL, &num));
		ck_assert_uint_eq(num, 0);
		ck_assert_ptr_null(lists[i](NULL, NULL));
	}
	memset(&limits, 0x5a, sizeof(limits));
	limits.size = sizeof(limits);
	qbrt_device_info_get_limits(NULL, &limits);
	ck_assert_mem_eq(&limits, &zeros, sizeof(limits));
	qbrt_device_info_free(NULL);
	qbrt_device_info_list_free(NULL, 3);
}
END_TEST

/* Q615 */
START_TEST(a_driver_that_cannot_list_fails_the_list)
{
	struct qbrt_device_info **infos = SENTINEL;
	size_t num = 77;

	kmd_bend.list_err = -ENOMEM;
	ck_assert_status(qbrt_device_info_list(NULL, &infos, &num),
			 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_detail("bend");
	ck_assert_ptr_eq(infos, SENTINEL);
	ck_assert_uint_eq(num, 77);
}
END_TEST

/*
 * Q615: where the library itself finds no memory the call fails with 13; a
 * device that finds none is one that does not answer.
 */
START_TEST(each_failing_allocation_gives_a_status_or_a_shorter_list)
{
	enum qbrt_status status = QBRT_OK;
	long n = 0;

	set("QBRUNTIME_SOFT_DEVICES", "aries:2");
	ck_assert_ids(NULL, "aries-rb:0 aries-rb:1");
	for (;;) {
		struct qbrt_device_info **infos = SENTINEL;
		size_t num = 77;
		long num_allocations;

		count_alloc_begin(++n);
		status = qbrt_device_info_list(NULL, &infos, &num);
		num_allocations = count_alloc_end();
		if (!status) {
			ck_assert_uint_le(num, 2);
			qbrt_device_info_list_free(infos, num);
		}
		if (num_allocations < n)
			break;
		if (!status)
			continue;
		ck_assert_int_eq(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert(*qbrt_error_detail());
		ck_assert_ptr_eq(infos, SENTINEL);
		ck_assert_uint_eq(num, 77);
	}
	ck_assert_int_gt(n, 4);
	ck_assert_ids(NULL, "aries-rb:0 aries-rb:1");
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_info_says_what_the_software_aries_is),
		QBRT_TEST(an_info_says_what_the_software_regulus_is),
		QBRT_TEST(
			a_device_without_mappable_memory_has_no_pinned_memory),
		QBRT_TEST(memory_of_class_driver_is_never_less),
		QBRT_TEST(the_pinned_limit_is_that_of_the_region_taken_first),
		QBRT_TEST(null_outputs_are_refused),
		QBRT_TEST(getters_of_null_answer_nothing),
		QBRT_TEST(a_driver_that_cannot_list_fails_the_list),
		QBRT_TEST(
			each_failing_allocation_gives_a_status_or_a_shorter_list),
	};
	struct qbrt_tests all = { .num = 0 };

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	add_device_info_caps_tests(&all);
	return qbrt_test_run("device-info", all.tests, all.num);
}
