// SPDX-License-Identifier: MIT
/*
 * Discovery: what is listed under which variables, in which order and under
 * which numbers. Hardware is played by kmd-bend.c.
 */
#include "test-util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void add_hardware(const char *name, int number, int open_err)
{
	kmd_bend.hardware[kmd_bend.num_hardware++] =
		(struct kmd_bend_hardware){ name, number, open_err };
}

/* Q113 Q096 */
START_TEST(a_machine_without_hardware_has_one_software_aries)
{
	ck_assert_ids(NULL, "aries-rb:0");
}
END_TEST

/* Q111 Q094 Q097 Q083 Q080 */
START_TEST(names_come_in_order_and_numbers_count_per_name)
{
	set("QBRUNTIME_SOFT_DEVICES",
	    "regulus-rb-usb,regulus:2,aries-rb,regulus-rb,aries:2,"
	    "regulus-ra-usb");
	ck_assert_ids(NULL, "aries-rb:0 aries-rb:1 aries-rb:2 regulus-ra:0 "
			    "regulus-ra:1 regulus-rb:0 regulus-ra-usb:0 "
			    "regulus-rb-usb:0");
}
END_TEST

/* Q112 Q096 */
START_TEST(none_and_empty_mean_no_software_device)
{
	set("QBRUNTIME_SOFT_DEVICES", _i ? "none" : "");
	ck_assert_ids(NULL, "");
	ck_assert_ids("auto", "");
	ck_assert_ids("aries", "");
}
END_TEST

/* Q095 Q081 */
START_TEST(a_name_or_alias_selects_without_case)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:2,regulus-rb-usb");
	ck_assert_ids("aries-rb", "aries-rb:0 aries-rb:1");
	ck_assert_ids("Aries", "aries-rb:0 aries-rb:1");
	ck_assert_ids("REGULUS-USB", "regulus-rb-usb:0");
	ck_assert_ids("regulus", "");
	ck_assert_ids("regulus-ra", "");
	ck_assert_ids("no-such-device", "");
	ck_assert_ids("", "");
}
END_TEST

/* Q082 Q095 Q096 */
START_TEST(an_alias_of_several_names_is_ambiguous)
{
	struct qbrt_device_info **infos = SENTINEL;
	size_t num = 77;

	set("QBRUNTIME_SOFT_DEVICES", "regulus-ra,regulus-rb,aries");
	ck_assert_status(qbrt_device_info_list("regulus", &infos, &num),
			 QBRT_ACC_AMBIGUOUS_DEVICE_NAME);
	ck_assert_detail("regulus-ra, regulus-rb");
	ck_assert_status(qbrt_device_info_list("auto", &infos, &num),
			 QBRT_ACC_AMBIGUOUS_DEVICE_NAME);
	ck_assert_detail("aries-rb, regulus-ra, regulus-rb");
	ck_assert_ptr_eq(infos, SENTINEL);
	ck_assert_uint_eq(num, 77);
	/* what is hidden does not make it ambiguous */
	set("QBRUNTIME_VISIBLE_DEVICES", "regulus-rb:0");
	ck_assert_ids("regulus", "regulus-rb:0");
	ck_assert_ids("auto", "regulus-rb:0");
}
END_TEST

/* Q086 Q087 Q088 Q115 */
START_TEST(visibility_hides_without_renumbering)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:3,regulus:2");
	set("QBRUNTIME_VISIBLE_DEVICES", " 1 ,aries-rb:2,1,7");
	ck_assert_ids(NULL, "aries-rb:1 aries-rb:2 regulus-ra:1");
	set("QBRUNTIME_VISIBLE_DEVICES", "regulus-ra:0");
	ck_assert_ids(NULL, "regulus-ra:0");
	set("QBRUNTIME_VISIBLE_DEVICES", "");
	ck_assert_ids(NULL, "");
	ck_assert_int_eq(unsetenv("QBRUNTIME_VISIBLE_DEVICES"), 0);
	ck_assert_ids(NULL, "aries-rb:0 aries-rb:1 aries-rb:2 regulus-ra:0 "
			    "regulus-ra:1");
}
END_TEST

/* Q089 Q760 Q761 Q762 */
START_TEST(the_first_variable_that_is_set_decides_alone)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:4");
	set("MBLT_DEVICES", "3");
	ck_assert_ids(NULL, "aries-rb:3");
	set("MACCEL_VISIBLE_DEVICES", "2");
	ck_assert_ids(NULL, "aries-rb:2");
	set("QBRUNTIME_VISIBLE_DEVICES", "0,1");
	ck_assert_ids(NULL, "aries-rb:0 aries-rb:1");
}
END_TEST

static int num_lines;
static char line[512];

static void keep_line(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	ck_assert_ptr_null(arg);
	ck_assert_int_eq(level, QBRT_LOG_LEVEL_WARN);
	ck_assert_str_eq(component, "device-info");
	num_lines++;
	(void)snprintf(line, sizeof(line), "%s", sentence);
}

/* Q090 Q769 */
START_TEST(a_malformed_visibility_hides_everything_and_is_logged_once)
{
	qbrt_set_log_function(keep_line, NULL);
	set("QBRUNTIME_VISIBLE_DEVICES", "0;1");
	ck_assert_ids(NULL, "");
	ck_assert_int_eq(num_lines, 1);
	ck_assert(qbrt_test_contains(line, "QBRUNTIME_VISIBLE_DEVICES"));
	ck_assert(qbrt_test_contains(line, "0;1"));
	ck_assert_ids(NULL, "");
	ck_assert_int_eq(num_lines, 1);
	qbrt_set_log_function(NULL, NULL);
}
END_TEST

/* Q114 */
START_TEST(a_malformed_software_variable_leaves_the_hardware)
{
	qbrt_set_log_function(keep_line, NULL);
	add_hardware("aries-rb", 1, 0);
	set("QBRUNTIME_SOFT_DEVICES", "areis");
	ck_assert_ids(NULL, "aries-rb:1");
	ck_assert_int_eq(num_lines, 1);
	ck_assert(qbrt_test_contains(line, "QBRUNTIME_SOFT_DEVICES"));
	qbrt_set_log_function(NULL, NULL);
}
END_TEST

/* Q613 */
START_TEST(a_discovery_that_succeeds_keeps_the_last_sentence)
{
	qbrt_set_log_function(keep_line, NULL);
	ck_assert_int_eq(qbrt_fail(QBRT_CANCELLED, "the last failure"),
			 QBRT_CANCELLED);
	set("QBRUNTIME_VISIBLE_DEVICES", "nonsense");
	ck_assert_ids(NULL, "");
	ck_assert_str_eq(qbrt_error_detail(), "the last failure");
	qbrt_set_log_function(NULL, NULL);
}
END_TEST

/* Q113 */
START_TEST(hardware_that_is_shown_replaces_the_default_software)
{
	add_hardware("regulus-ra", 0, 0);
	ck_assert_ids(NULL, "regulus-ra:0");
	/* also when it cannot be opened */
	kmd_bend.hardware[0].open_err = -EACCES;
	ck_assert_ids(NULL, "");
	/* software that was asked for stays */
	set("QBRUNTIME_SOFT_DEVICES", "aries");
	ck_assert_ids(NULL, "aries-rb:0");
}
END_TEST

/* Q083 Q036 */
START_TEST(software_numbers_follow_the_largest_hardware_number)
{
	struct qbrt_device_info **infos;
	size_t num, i;

	add_hardware("aries-rb", 3, 0);
	add_hardware("aries-rb", 1, 0);
	add_hardware("regulus-rb", 0, 0);
	set("QBRUNTIME_SOFT_DEVICES", "aries:2,regulus");
	ck_assert_ids(NULL, "aries-rb:1 aries-rb:3 aries-rb:4 aries-rb:5 "
			    "regulus-ra:0 regulus-rb:0");
	ck_assert_ok(qbrt_device_info_list("aries", &infos, &num));
	ck_assert_uint_eq(num, 4);
	for (i = 0; i < num; i++)
		ck_assert_int_eq(qbrt_device_info_get_kind(infos[i]),
				 i < 2 ? QBRT_DEVICE_KIND_HARDWARE
				       : QBRT_DEVICE_KIND_SOFTWARE);
	qbrt_device_info_list_free(infos, num);
}
END_TEST

/* Q036 K150 */
START_TEST(a_node_of_another_major_version_is_not_listed)
{
	kmd_bend.uapi_major = 2;
	ck_assert_ids(NULL, "");
}
END_TEST

/* Q721: every file that a discovery opens is closed again. */
START_TEST(discovery_leaves_nothing_open)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:16");
	ck_assert_ids("regulus", "");
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_opens), 16);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_closes), 16);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_machine_without_hardware_has_one_software_aries),
		QBRT_TEST(names_come_in_order_and_numbers_count_per_name),
		QBRT_LOOP_TEST(none_and_empty_mean_no_software_device, 2),
		QBRT_TEST(a_name_or_alias_selects_without_case),
		QBRT_TEST(an_alias_of_several_names_is_ambiguous),
		QBRT_TEST(visibility_hides_without_renumbering),
		QBRT_TEST(the_first_variable_that_is_set_decides_alone),
		QBRT_TEST(
			a_malformed_visibility_hides_everything_and_is_logged_once),
		QBRT_TEST(a_malformed_software_variable_leaves_the_hardware),
		QBRT_TEST(a_discovery_that_succeeds_keeps_the_last_sentence),
		QBRT_TEST(hardware_that_is_shown_replaces_the_default_software),
		QBRT_TEST(software_numbers_follow_the_largest_hardware_number),
		QBRT_TEST(a_node_of_another_major_version_is_not_listed),
		QBRT_TEST(discovery_leaves_nothing_open),
	};

	return qbrt_test_run("device-info-probe", tests,
			     qbrt_array_size(tests));
}
