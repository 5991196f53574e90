// SPDX-License-Identifier: MIT
/*
 * Variables are set in the test's own process, which Check forks; in the run
 * without fork each test clears them first.
 */
#include "env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "test-util.h"
#include "util.h"

static const char *const variables[] = {
	"QBRUNTIME_VISIBLE_DEVICES",
	"MACCEL_VISIBLE_DEVICES",
	"MBLT_DEVICES",
	"QBRUNTIME_NPU_TIMEOUT_MS",
	"QBRUNTIME_LOG_LEVEL",
	"MACCEL_LOG_LEVEL",
	"QBRUNTIME_SOFT_DEVICES",
	"QBRUNTIME_SOFT_MEMORY",
	"QBRUNTIME_SOFT_BACKEND",
	"QBRUNTIME_SOFT_POISON",
	"QBRUNTIME_SOFT_FAULT",
};

static struct qbrt_env env;

static void clear_variables(void)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(variables); i++)
		ck_assert(!unsetenv(variables[i]));
}

/* Reads env with one variable set and no other. */
static enum qbrt_status read_with(const char *name, const char *value)
{
	clear_variables();
	ck_assert(!setenv(name, value, 1));
	memset(&env, 0xa5, sizeof(env));
	return qbrt_env_read(&env);
}

/* Malformed: refused by a sentence that names variable and value. */
static void check_malformed(const char *name, const char *value)
{
	ck_assert_status(read_with(name, value), QBRT_INVALID_ARGUMENT);
	ck_assert_detail(name);
	ck_assert_detail("accepted is");
}

/* Q088 Q113 Q763 */
START_TEST(nothing_set_gives_the_defaults)
{
	clear_variables();
	memset(&env, 0xa5, sizeof(env));
	ck_assert_ok(qbrt_env_read(&env));
	ck_assert_ptr_null(env.visible_variable);
	ck_assert(!env.is_visible_malformed && !env.is_soft_malformed);
	ck_assert(env.is_soft_default);
	ck_assert_uint_eq(env.kmd.num_soft_names, 1);
	ck_assert_str_eq(env.kmd.soft_names[0], "aries-rb");
	ck_assert_int_eq(env.npu_timeout_ns, INT64_C(10000000000));
	ck_assert_uint_eq(env.kmd.soft_memory, 0);
	ck_assert_int_eq(env.kmd.soft_backend, QBRT_KMD_BACKEND_AUTO);
	ck_assert(!env.kmd.soft_poison);
	ck_assert_str_eq(env.kmd.soft_fault_plan, "");
	ck_assert_str_eq(env.kmd.plugin_dir, "");
	ck_assert_int_eq((int)env.log_level, 0);
}
END_TEST

/* Q086 Q087 */
START_TEST(visible_items_are_numbers_or_names_with_numbers)
{
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES",
			       " 3 ,Aries-RB:0\t, regulus-ra-usb:12,3,3"));
	ck_assert_str_eq(env.visible_variable, "QBRUNTIME_VISIBLE_DEVICES");
	ck_assert_uint_eq(env.num_visible, 3);
	ck_assert_str_eq(env.visible[0].name, "");
	ck_assert_int_eq(env.visible[0].number, 3);
	ck_assert_str_eq(env.visible[1].name, "aries-rb");
	ck_assert_int_eq(env.visible[1].number, 0);
	ck_assert_str_eq(env.visible[2].name, "regulus-ra-usb");
	ck_assert_int_eq(env.visible[2].number, 12);
}
END_TEST

/* Q088 */
START_TEST(empty_visible_hides_all)
{
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", ""));
	ck_assert_ptr_nonnull(env.visible_variable);
	ck_assert_uint_eq(env.num_visible, 0);
	ck_assert(!env.is_visible_malformed);
	ck_assert_ok(read_with("MBLT_DEVICES", " \t"));
	ck_assert_str_eq(env.visible_variable, "MBLT_DEVICES");
	ck_assert_uint_eq(env.num_visible, 0);
}
END_TEST

/* Q089 Q760 Q761 Q762 */
START_TEST(first_visible_variable_that_is_set_decides_alone)
{
	clear_variables();
	ck_assert(!setenv("MBLT_DEVICES", "2", 1));
	ck_assert(!setenv("MACCEL_VISIBLE_DEVICES", "1", 1));
	ck_assert_ok(qbrt_env_read(&env));
	ck_assert_str_eq(env.visible_variable, "MACCEL_VISIBLE_DEVICES");
	ck_assert_int_eq(env.visible[0].number, 1);
	/* later ones do not even have to parse */
	ck_assert(!setenv("QBRUNTIME_VISIBLE_DEVICES", "", 1));
	ck_assert(!setenv("MACCEL_VISIBLE_DEVICES", "x", 1));
	ck_assert_ok(qbrt_env_read(&env));
	ck_assert_str_eq(env.visible_variable, "QBRUNTIME_VISIBLE_DEVICES");
	ck_assert_uint_eq(env.num_visible, 0);
}
END_TEST

/* Q090 Q769 */
START_TEST(malformed_visible_hides_all)
{
	static const char *const values[] = {
		"x",
		",",
		"1,",
		"1,,2",
		"-1",
		"+1",
		"1 2",
		"0x1",
		"aries:0",
		"npu:0",
		":0",
		"aries-rb:",
		"aries-rb",
		"1:aries",
		"aries-rb:0:1",
		"aries-rb: 0",
		"2147483648",
		"\x1b[31m",
		"99999999999999999999",
	};
	size_t i;

	for (i = 0; i < qbrt_array_size(values); i++) {
		check_malformed("QBRUNTIME_VISIBLE_DEVICES", values[i]);
		ck_assert(env.is_visible_malformed);
		ck_assert_ptr_nonnull(env.visible_variable);
		ck_assert_uint_eq(env.num_visible, 0);
		ck_assert_uint_eq(env.kmd.num_soft_names, 1);
		ck_assert_ptr_null(strchr(qbrt_error_detail(), '\x1b'));
	}
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", "2147483647"));
}
END_TEST

/* Q769 */
START_TEST(at_most_256_different_visible_items)
{
	char value[2048] = "0";
	size_t used = 1;
	int i;

	for (i = 1; i < QBRT_ENV_MAX_VISIBLE; i++)
		used += (size_t)snprintf(value + used, sizeof(value) - used,
					 ",%d", i);
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", value));
	ck_assert_uint_eq(env.num_visible, QBRT_ENV_MAX_VISIBLE);
	/* one more that is there already is no further item */
	(void)snprintf(value + used, sizeof(value) - used, ",7");
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", value));
	(void)snprintf(value + used, sizeof(value) - used, ",256");
	check_malformed("QBRUNTIME_VISIBLE_DEVICES", value);
}
END_TEST

/* Q111 */
START_TEST(soft_devices_are_profiles_or_names_with_counts)
{
	ck_assert_ok(read_with("QBRUNTIME_SOFT_DEVICES", "aries:2,regulus:1"));
	ck_assert(!env.is_soft_default);
	ck_assert_uint_eq(env.kmd.num_soft_names, 3);
	ck_assert_str_eq(env.kmd.soft_names[0], "aries-rb");
	ck_assert_str_eq(env.kmd.soft_names[1], "aries-rb");
	ck_assert_str_eq(env.kmd.soft_names[2], "regulus-ra");
	ck_assert_ok(read_with("QBRUNTIME_SOFT_DEVICES",
			       " Regulus-RB-USB , REGULUS"));
	ck_assert_uint_eq(env.kmd.num_soft_names, 2);
	ck_assert_str_eq(env.kmd.soft_names[0], "regulus-rb-usb");
	ck_assert_str_eq(env.kmd.soft_names[1], "regulus-ra");
}
END_TEST

/* Q112 */
START_TEST(soft_devices_none_or_empty_gives_none)
{
	static const char *const values[] = { "", " ", "none", "None " };
	size_t i;

	for (i = 0; i < qbrt_array_size(values); i++) {
		ck_assert_ok(read_with("QBRUNTIME_SOFT_DEVICES", values[i]));
		ck_assert_uint_eq(env.kmd.num_soft_names, 0);
		ck_assert(!env.is_soft_default && !env.is_soft_malformed);
	}
}
END_TEST

/* Q111 Q114 Q767 */
START_TEST(malformed_soft_devices_give_none)
{
	static const char *const values[] = {
		"aries:0",   "aries:17",   "aries:",      "aries:-1", "auto",
		"npu",       "none,aries", "aries,none",  "aries,",   ",",
		"aries:1:1", "1",          "regulus-usb",
	};
	size_t i;

	for (i = 0; i < qbrt_array_size(values); i++) {
		check_malformed("QBRUNTIME_SOFT_DEVICES", values[i]);
		ck_assert(env.is_soft_malformed);
		ck_assert(!env.is_soft_default);
		ck_assert_uint_eq(env.kmd.num_soft_names, 0);
	}
}
END_TEST

/* Q111 */
START_TEST(at_most_128_soft_devices)
{
	ck_assert_ok(read_with("QBRUNTIME_SOFT_DEVICES",
			       "aries:16,aries:16,aries:16,aries:16,"
			       "regulus:16,regulus:16,regulus:16,regulus:16"));
	ck_assert_uint_eq(env.kmd.num_soft_names, 128);
	check_malformed("QBRUNTIME_SOFT_DEVICES",
			"aries:16,aries:16,aries:16,aries:16,aries:1,"
			"regulus:16,regulus:16,regulus:16,regulus:16");
}
END_TEST

/* Q121 Q768 */
START_TEST(soft_memory_takes_bytes_with_suffix)
{
	static const struct {
		const char *value;
		uint64_t bytes;
	} cases[] = {
		{ "1", 1 },
		{ "3K", 3072 },
		{ "64M", 64ull << 20 },
		{ "16G", 16ull << 30 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = {
		"",
		"0",
		"K",
		"0G",
		"-1",
		"1.5G",
		"1T",
		"1GB",
		"G1",
		"4 G",
		" 4G",
		"1g",
		"18446744073709551616",
		"18014398509481984K",
	};
	size_t i;

	for (i = 0; i < qbrt_array_size(cases); i++) {
		ck_assert_ok(
			read_with("QBRUNTIME_SOFT_MEMORY", cases[i].value));
		ck_assert_uint_eq(env.kmd.soft_memory, cases[i].bytes);
	}
	for (i = 0; i < qbrt_array_size(bad); i++) {
		check_malformed("QBRUNTIME_SOFT_MEMORY", bad[i]);
		ck_assert_uint_eq(env.kmd.soft_memory, 0);
		ck_assert_uint_eq(env.kmd.num_soft_names, 1);
	}
}
END_TEST

/* Q763 Q769 */
START_TEST(timeout_is_whole_milliseconds)
{
	ck_assert_ok(read_with("QBRUNTIME_NPU_TIMEOUT_MS", "1"));
	ck_assert_int_eq(env.npu_timeout_ns, 1000000);
	ck_assert_ok(read_with("QBRUNTIME_NPU_TIMEOUT_MS", "2147483647"));
	ck_assert_int_eq(env.npu_timeout_ns, INT64_C(2147483647000000));
	ck_assert_ok(read_with("QBRUNTIME_NPU_TIMEOUT_MS", "0"));
	ck_assert_int_eq(env.npu_timeout_ns, 0);
	check_malformed("QBRUNTIME_NPU_TIMEOUT_MS", "2147483648");
	ck_assert_int_eq(env.npu_timeout_ns, INT64_C(10000000000));
	check_malformed("QBRUNTIME_NPU_TIMEOUT_MS", "");
	check_malformed("QBRUNTIME_NPU_TIMEOUT_MS", "-1");
	check_malformed("QBRUNTIME_NPU_TIMEOUT_MS", "10s");
}
END_TEST

/* Q771 BE02 V60 */
START_TEST(backend_and_poison_are_words_of_a_short_list)
{
	ck_assert_ok(read_with("QBRUNTIME_SOFT_BACKEND", "auto"));
	ck_assert_int_eq(env.kmd.soft_backend, QBRT_KMD_BACKEND_AUTO);
	ck_assert_ok(read_with("QBRUNTIME_SOFT_BACKEND", "ref"));
	ck_assert_int_eq(env.kmd.soft_backend, QBRT_KMD_BACKEND_REF);
	ck_assert_ok(read_with("QBRUNTIME_SOFT_BACKEND", "oneDNN"));
	ck_assert_int_eq(env.kmd.soft_backend, QBRT_KMD_BACKEND_ONEDNN);
	check_malformed("QBRUNTIME_SOFT_BACKEND", "gpu");
	check_malformed("QBRUNTIME_SOFT_BACKEND", "");
	ck_assert_ok(read_with("QBRUNTIME_SOFT_POISON", "0"));
	ck_assert(!env.kmd.soft_poison);
	ck_assert_ok(read_with("QBRUNTIME_SOFT_POISON", "1"));
	ck_assert(env.kmd.soft_poison);
	check_malformed("QBRUNTIME_SOFT_POISON", "2");
	check_malformed("QBRUNTIME_SOFT_POISON", "01");
	check_malformed("QBRUNTIME_SOFT_POISON", "");
}
END_TEST

/* Q771 Q769 K319: the sentence says where the plan goes wrong */
START_TEST(fault_is_a_plan_of_the_device)
{
	char longest[QBRT_KMD_PLAN_SIZE + 1];

	ck_assert_ok(read_with("QBRUNTIME_SOFT_FAULT",
			       "hang:cmd=2,p=0.5;late:ns=7"));
	ck_assert_str_eq(env.kmd.soft_fault_plan, "hang:cmd=2,p=0.5;late:ns=7");
	check_malformed("QBRUNTIME_SOFT_FAULT", "hang:cmd=2;crash:p=1");
	ck_assert_str_eq(env.kmd.soft_fault_plan, "");
	ck_assert_detail("QBRUNTIME_SOFT_FAULT is \"hang:cmd=2;crash:p=1\", "
			 "wrong from character 12 on (\"crash:p=1\"), "
			 "accepted is FAULT[;FAULT]..., at most 1023 ");
	check_malformed("QBRUNTIME_SOFT_FAULT", "late");
	ck_assert_detail("wrong from character 5 on (\"\")");
	ck_assert_ok(read_with("QBRUNTIME_SOFT_FAULT", ""));
	ck_assert_str_eq(env.kmd.soft_fault_plan, "");
	check_malformed("QBRUNTIME_SOFT_FAULT", "hang:cmd=\x1b[31m");
	ck_assert_ptr_null(strchr(qbrt_error_detail(), '\x1b'));
	/* as long as it may be, then one character more */
	(void)snprintf(longest, sizeof(longest), "hang:job=%0*d",
		       QBRT_KMD_PLAN_SIZE - 10, 1);
	ck_assert_ok(read_with("QBRUNTIME_SOFT_FAULT", longest));
	ck_assert_uint_eq(strlen(env.kmd.soft_fault_plan), 1023);
	(void)snprintf(longest, sizeof(longest), "hang:job=%0*d",
		       QBRT_KMD_PLAN_SIZE - 9, 1);
	check_malformed("QBRUNTIME_SOFT_FAULT", longest);
	ck_assert_detail("wrong from character 1024 on (\"1\")");
}
END_TEST

/* Q765 */
START_TEST(log_level_is_a_name_or_a_number)
{
	ck_assert_ok(read_with("QBRUNTIME_LOG_LEVEL", "DEBUG"));
	ck_assert_int_eq(env.log_level, QBRT_LOG_LEVEL_DEBUG);
	ck_assert_ok(read_with("QBRUNTIME_LOG_LEVEL", "Err"));
	ck_assert_int_eq(env.log_level, QBRT_LOG_LEVEL_ERR);
	ck_assert_ok(read_with("MACCEL_LOG_LEVEL", "6"));
	ck_assert_int_eq(env.log_level, QBRT_LOG_LEVEL_OFF);
	check_malformed("QBRUNTIME_LOG_LEVEL", "0");
	check_malformed("QBRUNTIME_LOG_LEVEL", "7");
	check_malformed("QBRUNTIME_LOG_LEVEL", "error");
	check_malformed("MACCEL_LOG_LEVEL", "");
}
END_TEST

/* Q765 */
START_TEST(older_log_variable_counts_only_without_the_newer)
{
	clear_variables();
	ck_assert(!setenv("MACCEL_LOG_LEVEL", "debug", 1));
	ck_assert(!setenv("QBRUNTIME_LOG_LEVEL", "fatal", 1));
	ck_assert_ok(qbrt_env_read(&env));
	ck_assert_int_eq(env.log_level, QBRT_LOG_LEVEL_FATAL);
	/* a malformed newer one is not replaced by the older one */
	ck_assert(!setenv("QBRUNTIME_LOG_LEVEL", "loud", 1));
	ck_assert_status(qbrt_env_read(&env), QBRT_INVALID_ARGUMENT);
	ck_assert_int_eq((int)env.log_level, 0);
}
END_TEST

/* Q765 */
START_TEST(log_level_reaches_the_log)
{
	clear_variables();
	qbrt_env_apply_log_level();
	ck_assert(!qbrt_log_is_on(QBRT_LOG_LEVEL_INFO));
	ck_assert(!setenv("QBRUNTIME_LOG_LEVEL", "info", 1));
	qbrt_env_apply_log_level();
	ck_assert(qbrt_log_is_on(QBRT_LOG_LEVEL_INFO));
	ck_assert(!qbrt_log_is_on(QBRT_LOG_LEVEL_DEBUG));
	ck_assert(!setenv("QBRUNTIME_LOG_LEVEL", "loud", 1));
	qbrt_env_apply_log_level();
	ck_assert(qbrt_log_is_on(QBRT_LOG_LEVEL_INFO));
	/* the program's own word counts for more */
	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_ERR));
	ck_assert(!setenv("QBRUNTIME_LOG_LEVEL", "debug", 1));
	qbrt_env_apply_log_level();
	ck_assert(!qbrt_log_is_on(QBRT_LOG_LEVEL_WARN));
}
END_TEST

/* Q769 */
START_TEST(first_malformed_variable_is_named_and_the_rest_is_read)
{
	clear_variables();
	ck_assert(!setenv("QBRUNTIME_SOFT_POISON", "yes", 1));
	ck_assert(!setenv("QBRUNTIME_NPU_TIMEOUT_MS", "soon", 1));
	ck_assert(!setenv("QBRUNTIME_SOFT_DEVICES", "regulus", 1));
	ck_assert_status(qbrt_env_read(&env), QBRT_INVALID_ARGUMENT);
	ck_assert_detail("QBRUNTIME_NPU_TIMEOUT_MS is \"soon\", accepted is "
			 "milliseconds");
	ck_assert_uint_eq(env.kmd.num_soft_names, 1);
	ck_assert_str_eq(env.kmd.soft_names[0], "regulus-ra");
}
END_TEST

/* Q092 */
START_TEST(variables_are_read_anew_each_time)
{
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", "1"));
	ck_assert_ok(read_with("QBRUNTIME_VISIBLE_DEVICES", "2"));
	ck_assert_uint_eq(env.num_visible, 1);
	ck_assert_int_eq(env.visible[0].number, 2);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(nothing_set_gives_the_defaults),
		QBRT_TEST(visible_items_are_numbers_or_names_with_numbers),
		QBRT_TEST(empty_visible_hides_all),
		QBRT_TEST(first_visible_variable_that_is_set_decides_alone),
		QBRT_TEST(malformed_visible_hides_all),
		QBRT_TEST(at_most_256_different_visible_items),
		QBRT_TEST(soft_devices_are_profiles_or_names_with_counts),
		QBRT_TEST(soft_devices_none_or_empty_gives_none),
		QBRT_TEST(malformed_soft_devices_give_none),
		QBRT_TEST(at_most_128_soft_devices),
		QBRT_TEST(soft_memory_takes_bytes_with_suffix),
		QBRT_TEST(timeout_is_whole_milliseconds),
		QBRT_TEST(backend_and_poison_are_words_of_a_short_list),
		QBRT_TEST(fault_is_a_plan_of_the_device),
		QBRT_TEST(log_level_is_a_name_or_a_number),
		QBRT_TEST(older_log_variable_counts_only_without_the_newer),
		QBRT_TEST(log_level_reaches_the_log),
		QBRT_TEST(
			first_malformed_variable_is_named_and_the_rest_is_read),
		QBRT_TEST(variables_are_read_anew_each_time),
	};

	return qbrt_test_run("env", tests, qbrt_array_size(tests));
}
