// SPDX-License-Identifier: MIT
/*
 * What the software driver has for itself: nodes and devices by the options,
 * numbers of files, faults that tests ask for. Its answers to requests are the
 * contract's (check-kmd).
 */
#include "check-soft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "soft/soft.h"
#include "util.h"

static struct qbrt_kmd_options make_options(const char *name)
{
	struct qbrt_kmd_options options = { .num_soft_names = 3 };

	for (size_t i = 0; i < options.num_soft_names; i++)
		(void)snprintf(options.soft_names[i],
			       sizeof(options.soft_names[i]), "%s", name);
	options.soft_backend = QBRT_KMD_BACKEND_REF;
	return options;
}

/* K300 Q111 */
START_TEST(nodes_are_numbered_as_the_options_name_them)
{
	struct qbrt_kmd_options options = make_options("aries-rb");
	struct qbrt_kmd_node nodes[4];
	size_t num = 0;

	memset(nodes, 0x5a, sizeof(nodes));
	ck_assert_int_eq(qbrt_kmd_soft.list(&options, nodes, 2, &num), 0);
	ck_assert_uint_eq(num, 3);
	ck_assert_str_eq(nodes[0].path, "soft:0");
	ck_assert_str_eq(nodes[1].path, "soft:1");
	ck_assert_int_eq(nodes[1].number, -1);
	ck_assert_int_eq(nodes[2].path[0], 0x5a);
	options.num_soft_names = 0;
	ck_assert_int_eq(qbrt_kmd_soft.list(&options, nodes, 2, &num), 0);
	ck_assert_uint_eq(num, 0);
}
END_TEST

/* K300 K319 */
START_TEST(what_is_no_node_does_not_open)
{
	static const char *const paths[] = {
		"",        "soft",    "soft:",
		"soft:3",  "soft:00", "soft:0 ",
		"soft:-1", "Soft:0",  "/dev/accel/accel0",
	};
	struct qbrt_kmd_options options = make_options("aries-rb");
	int file = 77;

	for (size_t i = 0; i < qbrt_array_size(paths); i++)
		ck_assert_int_eq(qbrt_kmd_soft.open(&options, paths[i], &file),
				 -ENOENT);
	options = make_options("pisces-rb");
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:0", &file),
			 -EINVAL);
	options = make_options("aries-rb");
	options.soft_backend = QBRT_KMD_BACKEND_ONEDNN;
	strcpy(options.plugin_dir, "/nonexistent");
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:0", &file),
			 -EINVAL);
	ck_assert_int_eq(file, 77);
}
END_TEST

static struct drm_qbnpu_query_device query_device(int file)
{
	struct drm_qbnpu_query_device device;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_DEVICE,
		.data = (uintptr_t)&device,
		.size = sizeof(device),
	};

	ck_assert_int_eq(
		qbrt_kmd_soft.ioctl(file, DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return device;
}

/* K300 Q122 */
START_TEST(files_of_one_number_share_a_device)
{
	struct qbrt_kmd_options options = make_options("regulus-ra");
	int files[3];
	uint64_t instance;

	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:0", &files[0]), 0);
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:0", &files[1]), 0);
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:1", &files[2]), 0);
	ck_assert_int_ne(files[0], files[1]);
	instance = query_device(files[0]).instance;
	ck_assert_uint_eq(query_device(files[1]).instance, instance);
	ck_assert_uint_ne(query_device(files[2]).instance, instance);
	ck_assert_str_eq(query_device(files[2]).name, "regulus-ra");
	qbrt_kmd_soft.close(files[0]);
	ck_assert_uint_eq(query_device(files[1]).instance, instance);
	qbrt_kmd_soft.close(files[1]);
	/* the last one closed it: another device is there now */
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:0", &files[0]), 0);
	ck_assert_uint_ne(query_device(files[0]).instance, instance);
	qbrt_kmd_soft.close(files[0]);
	qbrt_kmd_soft.close(files[2]);
}
END_TEST

/* K300 */
START_TEST(numbers_of_closed_files_stay_unknown)
{
	struct drm_qbnpu_query query = { 0 };
	int first, second;

	kmd_begin(0);
	first = kmd_file;
	kmd_end();
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), -ENODEV);
	second = kmd_open_another();
	ck_assert_int_ne(second, first);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), -ENODEV);
	kmd->close(first);
	ck_assert_int_eq(kmd->ioctl(second, DRM_IOCTL_QBNPU_QUERY, &query), 0);
	kmd->close(second);
	ck_assert_int_eq(kmd->ioctl(-1, DRM_IOCTL_QBNPU_QUERY, &query),
			 -ENODEV);
}
END_TEST

/* K143: as many files as the process may have descriptors */
START_TEST(a_file_too_many_is_refused)
{
	const struct rlimit limit = { 64, 64 };
	int files[64], num = 0;
	int file = 77;

	kmd_begin(0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (!kmd->open(&kmd_options, "soft:0", &files[num]))
		num++;
	ck_assert_int_ge(num, 8);
	ck_assert_int_eq(kmd->open(&kmd_options, "soft:0", &file), -EMFILE);
	ck_assert_int_eq(file, 77);
	while (num)
		kmd->close(files[--num]);
	ck_assert_int_eq(kmd->open(&kmd_options, "soft:0", &file), 0);
	kmd->close(file);
	kmd_end();
}
END_TEST

/* Q124 DV06 */
START_TEST(tests_find_the_device_behind_a_number)
{
	ck_assert_ptr_null(qbnpu_soft_npu(0));
	kmd_begin(0);
	ck_assert_ptr_nonnull(qbnpu_soft_npu(0));
	ck_assert_ptr_null(qbnpu_soft_npu(1));
	kmd_end();
	ck_assert_ptr_null(qbnpu_soft_npu(0));
}
END_TEST

/* The last line of the log, and how many there were. */
static char last_line[1024];
static enum qbrt_log_level last_level;
static int num_lines;

/* Opens a device itself, as a program's function may. */
static void keep_line(void *arg, enum qbrt_log_level level,
		      const char *component, const char *sentence)
{
	const struct qbrt_kmd_options options = make_options("regulus-ra");
	int file;

	(void)arg;
	ck_assert_str_eq(component, "soft");
	(void)snprintf(last_line, sizeof(last_line), "%s", sentence);
	last_level = level;
	num_lines++;
	ck_assert_int_eq(qbrt_kmd_soft.open(&options, "soft:2", &file), 0);
	qbrt_kmd_soft.close(file);
}

static int open_and_close(const struct qbrt_kmd_options *options)
{
	int file, err = qbrt_kmd_soft.open(options, "soft:0", &file);

	if (!err)
		qbrt_kmd_soft.close(file);
	return err;
}

/* BE02 K319 Q121: else it would show as a device that is absent, or fails */
START_TEST(what_is_not_as_asked_for_is_logged)
{
	struct qbrt_kmd_options options = make_options("aries-rb");

	ck_assert_ok(qbrt_set_log_level(QBRT_LOG_LEVEL_INFO));
	qbrt_set_log_function(keep_line, NULL);
	ck_assert_int_eq(open_and_close(&options), 0);
	ck_assert_int_eq(num_lines, 0);
	options.soft_backend = QBRT_KMD_BACKEND_ONEDNN;
	(void)snprintf(options.plugin_dir, sizeof(options.plugin_dir),
		       "/nowhere");
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(open_and_close(&options), -EINVAL);
		ck_assert_int_eq(num_lines, 1);
	}
	ck_assert_int_eq(last_level, QBRT_LOG_LEVEL_WARN);
	ck_assert_str_eq(last_line,
			 "no software device opens: the backend onednn has no "
			 "plugin in \"/nowhere\"");
	options = make_options("aries-rb");
	options.soft_memory = UINT64_C(1) << 60;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(open_and_close(&options), 0);
		ck_assert_int_eq(num_lines, 2);
	}
	ck_assert_int_eq(last_level, QBRT_LOG_LEVEL_WARN);
	ck_assert(qbrt_test_contains(last_line,
				     " bytes of memory, half of the machine's, "
				     "not the 1152921504606846976 asked for"));
	options = make_options("aries-rb");
	(void)snprintf(options.soft_fault_plan, sizeof(options.soft_fault_plan),
		       "hang:job=9");
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(open_and_close(&options), 0);
		ck_assert_int_eq(num_lines, i + 3);
	}
	ck_assert_int_eq(last_level, QBRT_LOG_LEVEL_INFO);
	ck_assert_str_eq(last_line,
			 "soft:0: fault plan \"hang:job=9\" is in force");
	qbrt_set_log_function(NULL, NULL);
}
END_TEST

/* K316 */
START_TEST(the_nth_request_fails_when_it_is_told_to)
{
	struct drm_qbnpu_queue_create create = { 0 };
	struct drm_qbnpu_query query = { 0 };

	kmd_begin(0);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUEUE_CREATE, 3, EINTR);
	for (unsigned int i = 1; i <= 6; i++) {
		query.size = 0;
		ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
		if (i == 3) {
			kmd_refuse(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create,
				   EINTR);
			continue;
		}
		ck_assert_int_eq(
			kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create), 0);
		ck_assert_uint_eq(create.queue, i < 3 ? i : i - 1);
	}
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUERY, 1, ENODEV);
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUERY, 0, ENODEV);
	query.size = 0;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	kmd_end();
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(nodes_are_numbered_as_the_options_name_them),
		QBRT_TEST(what_is_no_node_does_not_open),
		QBRT_TEST(files_of_one_number_share_a_device),
		QBRT_TEST(numbers_of_closed_files_stay_unknown),
		QBRT_TEST(a_file_too_many_is_refused),
		QBRT_TEST(tests_find_the_device_behind_a_number),
		QBRT_TEST(what_is_not_as_asked_for_is_logged),
		QBRT_TEST(the_nth_request_fails_when_it_is_told_to),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	soft_bo_tests(&all);
	soft_cancel_tests(&all);
	soft_eventfd_tests(&all);
	soft_fd_tests(&all);
	soft_user_tests(&all);
	soft_job_tests(&all);
	soft_inline_tests(&all);
	soft_limit_tests(&all);
	soft_share_tests(&all);
	soft_sync_tests(&all);
	return qbrt_test_run("soft", all.tests, all.num);
}
