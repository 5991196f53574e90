// SPDX-License-Identifier: MIT
/*
 * Opening devices by name and number, their cores and snapshots, and every
 * way not to open. Hardware and other odd devices are played by kmd-bend.c.
 */
#include "test-util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "accelerator.h"
#include "count-alloc.h"
#include "counters.h"
#include "kmd-bend.h"
#include "status.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_accelerator *)(uintptr_t)0x5a5a)

static void set(const char *name, const char *value)
{
	ck_assert_int_eq(setenv(name, value, 1), 0);
}

static void add_hardware(const char *name, int number, int open_err)
{
	kmd_bend.hardware[kmd_bend.num_hardware++] =
		(struct kmd_bend_hardware){ name, number, open_err };
}

/* Opens and closes: the id that name and number mean. */
static void check_opens(const char *name, int number, const char *id)
{
	struct qbrt_accelerator *acc;

	ck_assert_ok(qbrt_accelerator_open(name, number, &acc));
	ck_assert_str_eq(qbrt_accelerator_get_id(acc), id);
	qbrt_accelerator_close(acc);
}

static void check_refused(const char *name, int number,
			  enum qbrt_status expected, const char *detail)
{
	struct qbrt_accelerator *acc = SENTINEL;

	ck_assert_status(qbrt_accelerator_open(name, number, &acc), expected);
	ck_assert_detail(detail);
	ck_assert_ptr_eq(acc, SENTINEL);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_opens),
			  atomic_load(&kmd_bend.num_closes));
}

/* Q084 Q085 Q195 Q722 */
START_TEST(null_and_minus_one_open_the_default_device)
{
	struct qbrt_accelerator *acc;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_str_eq(qbrt_accelerator_get_id(acc), "aries-rb:0");
	ck_assert_str_eq(qbrt_accelerator_get_name(acc), "aries-rb");
	ck_assert_int_eq(qbrt_accelerator_get_number(acc), 0);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 1);
	qbrt_accelerator_close(acc);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
}
END_TEST

/* Q080 Q081 Q190 Q191 Q192 */
START_TEST(names_and_aliases_open_without_case)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:2,regulus-rb,regulus-ra-usb");
	check_opens("aries", 0, "aries-rb:0");
	check_opens("ARIES-RB", 1, "aries-rb:1");
	check_opens("regulus", -1, "regulus-rb:0");
	check_opens("Regulus-USB", 0, "regulus-ra-usb:0");
	check_opens("regulus-ra-usb", -1, "regulus-ra-usb:0");
}
END_TEST

/* Q085 Q087 Q091 */
START_TEST(minus_one_is_the_lowest_visible_and_hidden_is_hidden)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:3");
	set("QBRUNTIME_VISIBLE_DEVICES", "2,1");
	check_opens(NULL, -1, "aries-rb:1");
	check_opens(NULL, 2, "aries-rb:2");
	check_refused(NULL, 0, QBRT_ACC_DEVICE_NOT_FOUND,
		      "aries-rb:0 exists, but QBRUNTIME_VISIBLE_DEVICES hides");
	set("QBRUNTIME_VISIBLE_DEVICES", "");
	check_refused("aries", -1, QBRT_ACC_DEVICE_NOT_FOUND, "visible: none");
	ck_assert_ptr_null(strstr(qbrt_error_detail(), "SOFT_DEVICES"));
}
END_TEST

/* Q092 */
START_TEST(an_open_handle_stays_when_its_device_is_hidden)
{
	struct qbrt_pinned_memory *mem;
	struct qbrt_accelerator *acc;
	const int64_t shape[] = { 4 };

	ck_assert_ok(qbrt_accelerator_open(NULL, 0, &acc));
	set("QBRUNTIME_VISIBLE_DEVICES", "5");
	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
	check_refused(NULL, 0, QBRT_ACC_DEVICE_NOT_FOUND, "hides");
}
END_TEST

/* Q082 Q098 Q112 Q193 */
START_TEST(what_is_not_there_is_not_found_and_the_sentence_lists_what_is)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries:2");
	check_refused(NULL, 2, QBRT_ACC_DEVICE_NOT_FOUND,
		      "visible: aries-rb:0, aries-rb:1");
	check_refused("regulus", -1, QBRT_ACC_DEVICE_NOT_FOUND,
		      "visible: aries-rb:0, aries-rb:1");
	check_refused("aries", -2, QBRT_ACC_DEVICE_NOT_FOUND, "-2");
	check_refused("areis\n", 0, QBRT_ACC_DEVICE_NOT_FOUND,
		      "regulus-ra-usb");
	ck_assert_ptr_null(strchr(qbrt_error_detail(), '\n'));
	check_refused("", 0, QBRT_ACC_DEVICE_NOT_FOUND, "\"\"");
	set("QBRUNTIME_SOFT_DEVICES", "none");
	check_refused(NULL, -1, QBRT_ACC_DEVICE_NOT_FOUND,
		      "visible: none (QBRUNTIME_SOFT_DEVICES asks for no");
}
END_TEST

/* Q082 Q084 Q081 */
START_TEST(an_alias_never_guesses)
{
	set("QBRUNTIME_SOFT_DEVICES", "aries,regulus-ra,regulus-rb");
	check_refused(NULL, 0, QBRT_ACC_AMBIGUOUS_DEVICE_NAME,
		      "aries-rb, regulus-ra, regulus-rb");
	check_refused("auto", -1, QBRT_ACC_AMBIGUOUS_DEVICE_NAME, "aries-rb");
	check_refused("regulus", 0, QBRT_ACC_AMBIGUOUS_DEVICE_NAME,
		      "regulus-ra, regulus-rb");
	check_opens("aries", 0, "aries-rb:0");
	set("QBRUNTIME_VISIBLE_DEVICES", "regulus-ra:0");
	check_opens(NULL, -1, "regulus-ra:0");
}
END_TEST

/* Q090 Q114 Q769 */
START_TEST(a_malformed_variable_fails_the_open)
{
	static const struct {
		const char *name;
		const char *value;
	} bad[] = {
		{ "QBRUNTIME_VISIBLE_DEVICES", "0-1" },
		{ "QBRUNTIME_SOFT_DEVICES", "aries:17" },
		{ "QBRUNTIME_NPU_TIMEOUT_MS", "1s" },
		{ "QBRUNTIME_SOFT_MEMORY", "-1" },
		{ "QBRUNTIME_SOFT_BACKEND", "fast" },
		{ "QBRUNTIME_SOFT_FAULT", "hang;unplug" },
	};

	set(bad[_i].name, bad[_i].value);
	check_refused(NULL, -1, QBRT_INVALID_ARGUMENT, bad[_i].name);
	ck_assert_detail(bad[_i].value);
}
END_TEST

/* Q763 */
START_TEST(a_timeout_beyond_the_device_is_refused_and_zero_is_the_longest)
{
	struct qbrt_accelerator *acc;

	kmd_bend.max_job_ns = 20000 * (uint64_t)QBRT_NS_PER_MS;
	set("QBRUNTIME_NPU_TIMEOUT_MS", "20001");
	check_refused(NULL, -1, QBRT_INVALID_ARGUMENT,
		      "QBRUNTIME_NPU_TIMEOUT_MS is 20001 ms");
	ck_assert_detail("20000 ms");
	set("QBRUNTIME_NPU_TIMEOUT_MS", "20000");
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_int_eq(acc->device->npu_timeout_ns, 20000 * QBRT_NS_PER_MS);
	qbrt_accelerator_close(acc);
	set("QBRUNTIME_NPU_TIMEOUT_MS", "0");
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_int_eq(acc->device->npu_timeout_ns, 20000 * QBRT_NS_PER_MS);
	qbrt_accelerator_close(acc);
	ck_assert_int_eq(unsetenv("QBRUNTIME_NPU_TIMEOUT_MS"), 0);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_int_eq(acc->device->npu_timeout_ns, 10000 * QBRT_NS_PER_MS);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q615 Q113 */
START_TEST(a_node_that_does_not_open_says_why)
{
	static const struct {
		int err;
		enum qbrt_status status;
		const char *why;
	} cases[] = {
		{ -EACCES, QBRT_ACC_PERMISSION_DENIED, "Permission denied" },
		{ -EPROTO, QBRT_ACC_VERSION_MISMATCH, "Protocol error" },
		{ -ENOENT, QBRT_ACC_DEVICE_NOT_FOUND, "No such file" },
		{ -ENODEV, QBRT_ACC_DEVICE_LOST, "No such device" },
		{ -EMFILE, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "RLIMIT_NOFILE is 100" },
		{ -ENFILE, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "fs.file-max" },
	};
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 100;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	add_hardware("aries-rb", 3, cases[_i].err);
	check_refused(NULL, -1, cases[_i].status, cases[_i].why);
	check_refused(NULL, -1, cases[_i].status, "hw:0");
	check_refused("aries", 3, cases[_i].status, "hw:0");
	/* another number is simply not there */
	check_refused("aries", 4, QBRT_ACC_DEVICE_NOT_FOUND, "aries:4");
	/* one that opens is not kept back by one that does not */
	add_hardware("aries-rb", 1, 0);
	check_opens(NULL, -1, "aries-rb:1");
}
END_TEST

/* Q615 */
START_TEST(a_driver_of_another_major_version_is_refused)
{
	kmd_bend.uapi_major = 2;
	check_refused(NULL, -1, QBRT_ACC_VERSION_MISMATCH, "soft:0");
}
END_TEST

/* Q615 BE02 */
START_TEST(a_configuration_that_cannot_be_had_is_an_invalid_argument)
{
	kmd_bend.soft_open_err = -EINVAL;
	check_refused(NULL, -1, QBRT_INVALID_ARGUMENT, "soft:0");
}
END_TEST

static int num_lines;

static void count_line(void *arg, enum qbrt_log_level level,
		       const char *component, const char *sentence)
{
	(void)arg;
	ck_assert_str_eq(component, "accelerator");
	ck_assert_int_eq(level, QBRT_LOG_LEVEL_INFO);
	ck_assert(qbrt_test_contains(sentence, "software"));
	ck_assert(qbrt_test_contains(sentence, "QBRUNTIME_SOFT_DEVICES"));
	num_lines++;
}

/* Q117 Q098 */
START_TEST(the_default_software_device_is_announced_once)
{
	struct qbrt_accelerator *acc = SENTINEL;

	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_INFO));
	qbrt_set_log_function(count_line, NULL);
	set("QBRUNTIME_SOFT_DEVICES", "aries");
	check_opens(NULL, -1, "aries-rb:0");
	ck_assert_int_eq(num_lines, 0);
	ck_assert_int_eq(unsetenv("QBRUNTIME_SOFT_DEVICES"), 0);
	/* a missing number is silent */
	ck_assert_status(qbrt_accelerator_open(NULL, 9, &acc),
			 QBRT_ACC_DEVICE_NOT_FOUND);
	ck_assert_int_eq(num_lines, 0);
	check_opens(NULL, -1, "aries-rb:0");
	check_opens(NULL, 0, "aries-rb:0");
	ck_assert_int_eq(num_lines, 1);
	qbrt_set_log_function(NULL, NULL);
}
END_TEST

/* Q202 Q722 Q116 */
START_TEST(query_info_is_a_fresh_snapshot)
{
	struct qbrt_device_info *before, *after;
	struct qbrt_accelerator *acc;
	struct qbrt_buffer weights;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_accelerator_query_info(acc, &before));
	ck_assert_ok(qbrt_device_take_weights(acc->device, 1 << 20, &weights));
	ck_assert_ok(qbrt_accelerator_query_info(acc, &after));
	ck_assert_uint_le(qbrt_device_info_get_memory_free(after) + (1 << 20),
			  qbrt_device_info_get_memory_free(before));
	ck_assert_str_eq(qbrt_device_info_get_id(after), "aries-rb:0");
	ck_assert_str_eq(qbrt_device_info_get_node(after), "soft:0");
	ck_assert_int_eq(qbrt_device_info_get_kind(after),
			 QBRT_DEVICE_KIND_SOFTWARE);
	qbrt_device_give_buffer(acc->device, &weights);
	qbrt_device_info_free(before);
	qbrt_accelerator_close(acc);
	/* an info outlives the device */
	ck_assert_str_eq(qbrt_device_info_get_name(after), "aries-rb");
	qbrt_device_info_free(after);
}
END_TEST

/* Q196 Q722 Q120 */
START_TEST(query_cores_gives_local_cores_by_cluster_and_core)
{
	struct qbrt_core_id cores[9];
	struct qbrt_accelerator *acc;
	size_t num = 0;
	size_t i;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_accelerator_query_cores(acc, NULL, 0, &num));
	ck_assert_uint_eq(num, 8);
	memset(cores, 0x5a, sizeof(cores));
	num = 0;
	ck_assert_ok(qbrt_accelerator_query_cores(acc, cores, 9, &num));
	ck_assert_uint_eq(num, 8);
	for (i = 0; i < 8; i++) {
		ck_assert_int_eq(cores[i].cluster,
				 i < 4 ? QBRT_CLUSTER_0 : QBRT_CLUSTER_1);
		ck_assert_int_eq(cores[i].core, QBRT_CORE_0 + (int)(i % 4));
	}
	ck_assert_int_eq(cores[8].core, 0x5a5a5a5a);
	memset(cores, 0x5a, sizeof(cores));
	ck_assert_ok(qbrt_accelerator_query_cores(acc, cores, 3, &num));
	ck_assert_uint_eq(num, 8);
	ck_assert_int_eq(cores[2].core, QBRT_CORE_2);
	ck_assert_int_eq(cores[3].core, 0x5a5a5a5a);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q733 */
START_TEST(null_is_refused_or_answers_nothing)
{
	struct qbrt_device_info *info = (void *)SENTINEL;
	struct qbrt_accelerator *acc;
	size_t num = 77;

	ck_assert_status(qbrt_accelerator_open(NULL, -1, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("acc");
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_status(qbrt_accelerator_query_info(NULL, &info),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_accelerator_query_info(acc, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_accelerator_query_cores(NULL, NULL, 0, &num),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_accelerator_query_cores(acc, NULL, 1, &num),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_accelerator_query_cores(acc, NULL, 0, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_uint_eq(num, 77);
	ck_assert_ptr_eq(info, (void *)SENTINEL);
	qbrt_accelerator_close(acc);
	qbrt_accelerator_close(NULL);
	ck_assert_ptr_null(qbrt_accelerator_get_id(NULL));
	ck_assert_ptr_null(qbrt_accelerator_get_name(NULL));
	ck_assert_int_eq(qbrt_accelerator_get_number(NULL), 0);
}
END_TEST

/* Q615: the four QUERY of the discovery, then the four of the open itself */
START_TEST(requests_that_fail_at_open_leave_nothing_open)
{
	kmd_bend.fail_request = DRM_IOCTL_QBNPU_QUERY;
	kmd_bend.fail_err = -ENOMEM;
	atomic_store(&kmd_bend.fail_skip, _i);
	atomic_store(&kmd_bend.fail_times, 1);
	check_refused(NULL, -1, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		      "soft:0");
}
END_TEST

/* Q615 */
START_TEST(each_failing_allocation_of_open_gives_a_status)
{
	enum qbrt_status status;
	long n = 0;

	check_opens(NULL, -1, "aries-rb:0");
	for (;;) {
		struct qbrt_accelerator *acc = SENTINEL;
		long num_allocations;

		count_alloc_begin(++n);
		status = qbrt_accelerator_open(NULL, -1, &acc);
		num_allocations = count_alloc_end();
		if (!status)
			qbrt_accelerator_close(acc);
		if (num_allocations < n)
			break;
		if (!status)
			continue;
		ck_assert_int_eq(status,
				 QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
		ck_assert(*qbrt_error_detail());
		ck_assert_ptr_eq(acc, SENTINEL);
		ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
	}
	ck_assert_int_eq(status, QBRT_OK);
	ck_assert_int_gt(n, 8);
}
END_TEST

/* BE02 */
START_TEST(a_backend_without_its_plugin_is_named)
{
	struct qbrt_accelerator *acc = NULL;

	ck_assert_int_eq(setenv("QBRUNTIME_SOFT_BACKEND", "onednn", 1), 0);
	ck_assert_status(qbrt_accelerator_open(NULL, -1, &acc),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_detail("QBRUNTIME_SOFT_BACKEND is onednn");
	ck_assert_ptr_null(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_backend_without_its_plugin_is_named),
		QBRT_TEST(null_and_minus_one_open_the_default_device),
		QBRT_TEST(names_and_aliases_open_without_case),
		QBRT_TEST(minus_one_is_the_lowest_visible_and_hidden_is_hidden),
		QBRT_TEST(an_open_handle_stays_when_its_device_is_hidden),
		QBRT_TEST(
			what_is_not_there_is_not_found_and_the_sentence_lists_what_is),
		QBRT_TEST(an_alias_never_guesses),
		QBRT_LOOP_TEST(a_malformed_variable_fails_the_open, 6),
		QBRT_TEST(
			a_timeout_beyond_the_device_is_refused_and_zero_is_the_longest),
		QBRT_LOOP_TEST(a_node_that_does_not_open_says_why, 6),
		QBRT_TEST(a_driver_of_another_major_version_is_refused),
		QBRT_TEST(
			a_configuration_that_cannot_be_had_is_an_invalid_argument),
		QBRT_TEST(the_default_software_device_is_announced_once),
		QBRT_TEST(query_info_is_a_fresh_snapshot),
		QBRT_TEST(query_cores_gives_local_cores_by_cluster_and_core),
		QBRT_TEST(null_is_refused_or_answers_nothing),
		QBRT_LOOP_TEST(requests_that_fail_at_open_leave_nothing_open,
			       8),
		QBRT_TEST(each_failing_allocation_of_open_gives_a_status),
	};

	return qbrt_test_run("accelerator", tests, qbrt_array_size(tests));
}
