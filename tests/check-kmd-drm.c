// SPDX-License-Identifier: MIT
/*
 * K501: the kernel driver's door without a node: which nodes are listed and
 * opened, and why others are not.
 */
#include "check-kmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake-drm.h"
#include "util.h"

#define UNTOUCHED 12345

/* ---- nodes ---- */

static const struct fake_drm_node many_nodes[] = {
	{ .path = "/dev/dri/renderD130", .driver = "qbnpu", .soft = "soft:0" },
	{ .path = "/dev/accel/accel10", .driver = "qbnpu", .soft = "soft:0" },
	{ .path = "/dev/accel/accel0", .driver = "intel_vpu" },
	{ .path = "/dev/dri/renderD128", .driver = "i915" },
	{ .path = "/dev/accel/accel2", .driver = "qbnpu", .soft = "soft:1" },
	{ .path = "/dev/dri/renderD1000", .driver = "qbnpu", .soft = "soft:0" },
	/* none of these is a render or accel node */
	{ .path = "/dev/accel/accel3", .driver = "qbnpu", .no_device = true },
	{ .path = "/dev/accel/accel02", .driver = "qbnpu" },
	{ .path = "/dev/accel/accel", .driver = "qbnpu" },
	{ .path = "/dev/accel/accel2x", .driver = "qbnpu" },
	{ .path = "/dev/accel/accel-6", .driver = "qbnpu" },
	{ .path = "/dev/accel/accel9999999999", .driver = "qbnpu" },
	{ .path = "/dev/dri/card1", .driver = "qbnpu" },
	{ .path = "/dev/dri/renderD127", .driver = "qbnpu" },
	{ .path = "/dev/dri/by-path", .no_device = true },
	/* a driver's name is compared whole */
	{ .path = "/dev/dri/renderD140", .driver = "qbnpu2" },
	{ .path = "/dev/dri/renderD141", .driver = "my-qbnpu" },
};

static const struct qbrt_kmd_node listed[] = {
	{ "/dev/accel/accel2", 2 },
	{ "/dev/accel/accel10", 10 },
	{ "/dev/dri/renderD130", 2 },
	{ "/dev/dri/renderD1000", 872 },
};

/* K501 Q036 Q855 */
START_TEST(nodes_are_listed_by_driver_name_and_none_is_opened)
{
	struct qbrt_kmd_node nodes[8];
	size_t num = UNTOUCHED;

	fake_drm_set_nodes(many_nodes, qbrt_array_size(many_nodes));
	ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, nodes,
					   qbrt_array_size(nodes), &num),
			 0);
	ck_assert_uint_eq(num, qbrt_array_size(listed));
	for (size_t i = 0; i < num; i++) {
		ck_assert_str_eq(nodes[i].path, listed[i].path);
		ck_assert_int_eq(nodes[i].number, listed[i].number);
	}
	ck_assert_uint_eq(fake_drm.num_opens, 0);
}
END_TEST

/* K501 */
START_TEST(a_short_list_holds_the_first_nodes)
{
	struct qbrt_kmd_node nodes[2] = { { .number = UNTOUCHED },
					  { .number = UNTOUCHED } };
	size_t num = 0;

	fake_drm_set_nodes(many_nodes, qbrt_array_size(many_nodes));
	ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, NULL, 0, &num), 0);
	ck_assert_uint_eq(num, qbrt_array_size(listed));
	ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, nodes, 1, &num), 0);
	ck_assert_uint_eq(num, qbrt_array_size(listed));
	ck_assert_int_eq(nodes[0].number, 2);
	ck_assert_int_eq(nodes[1].number, UNTOUCHED);
}
END_TEST

/* K501 Q036 Q811 Q855: where /sys is absent the node itself tells */
START_TEST(a_node_that_sysfs_does_not_know_is_asked)
{
	static const struct fake_drm_node nodes[] = {
		{ .path = "/dev/accel/accel0" },
		{ .path = "/dev/accel/accel1", .soft = "soft:0" },
		{ .path = "/dev/accel/accel2", .soft = "soft:0", .major = 2 },
	};
	struct qbrt_kmd_node found[2];
	size_t num = 0;

	kmd_fill_options();
	fake_drm_set_nodes(nodes, qbrt_array_size(nodes));
	ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, found, 2, &num), 0);
	ck_assert_uint_eq(num, 2);
	ck_assert_int_eq(found[0].number, 1);
	ck_assert_int_eq(found[1].number, 2);
	ck_assert_uint_eq(fake_drm.num_opens, 3);
	/* what may not be opened cannot tell */
	fake_drm_set_nodes(nodes + 1, 1);
	fake_drm.open_errno = EACCES;
	ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, found, 2, &num), 0);
	ck_assert_uint_eq(num, 0);
}
END_TEST

/* K501 Q113: a device that only chance hides is not silently left out */
START_TEST(a_node_that_cannot_be_asked_for_want_of_room_is_an_error)
{
	static const struct fake_drm_node nodes[] = {
		{ .path = "/dev/accel/accel0", .soft = "soft:0" },
		{ .path = "/dev/accel/accel1", .soft = "soft:0" },
	};
	static const int errs[] = { EMFILE, ENFILE, ENOMEM };
	size_t num = UNTOUCHED;

	kmd_fill_options();
	for (size_t i = 0; i < qbrt_array_size(errs); i++) {
		fake_drm_set_nodes(nodes, 2);
		fake_drm.open_errno = errs[i];
		ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, NULL, 0, &num),
				 -errs[i]);
		fake_drm_set_nodes(nodes, 2);
		fake_drm.version_errno = errs[i];
		ck_assert_int_eq(qbrt_kmd_drm.list(&kmd_options, NULL, 0, &num),
				 -errs[i]);
		ck_assert_uint_eq(fake_drm.num_opens, 1);
	}
	ck_assert_uint_eq(num, UNTOUCHED);
}
END_TEST

/* Of the folders: whether it is an error. */
static const struct {
	int err;
	bool is_error;
} folders[] = {
	{ ENOENT, false }, { EACCES, false }, { ENOTDIR, false },
	{ ENOMEM, true },  { EMFILE, true },  { ENFILE, true },
};

/* K501 Q096 Q113: only what hides a device by chance is an error */
START_TEST(folders_that_are_not_there_have_no_nodes)
{
	size_t num = UNTOUCHED;
	int err;

	fake_drm_begin();
	fake_drm.folder_errno = folders[_i].err;
	err = qbrt_kmd_drm.list(&kmd_options, NULL, 0, &num);
	ck_assert_int_eq(err, folders[_i].is_error ? -folders[_i].err : 0);
	ck_assert_uint_eq(num, folders[_i].is_error ? UNTOUCHED : 0);
}
END_TEST

/* Q094 Q113: a software device never comes before a hardware one */
START_TEST(hardware_is_listed_before_software)
{
	ck_assert_ptr_eq(qbrt_kmd_drivers[0], &qbrt_kmd_drm);
	ck_assert_ptr_eq(qbrt_kmd_drivers[1], &qbrt_kmd_soft);
	ck_assert_ptr_null(qbrt_kmd_drivers[2]);
}
END_TEST

/* Q036 Q083 Q113: the node's number, and no software of its own accord */
START_TEST(a_device_behind_a_node_is_a_device)
{
	static const struct fake_drm_node node = {
		.path = "/dev/accel/accel3",
		.driver = "qbnpu",
		.soft = "soft:0",
	};
	struct qbrt_device_info **infos;
	struct qbrt_accelerator *acc;
	size_t num = 0;

	kmd_fill_options();
	fake_drm_set_nodes(&node, 1);
	ck_assert_ok(qbrt_device_info_list(NULL, &infos, &num));
	ck_assert_uint_eq(num, 1);
	ck_assert_str_eq(qbrt_device_info_get_id(infos[0]), "aries-rb:3");
	ck_assert_str_eq(qbrt_device_info_get_node(infos[0]), node.path);
	qbrt_device_info_list_free(infos, num);
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_str_eq(qbrt_accelerator_get_id(acc), "aries-rb:3");
	qbrt_accelerator_close(acc);
}
END_TEST

/* ---- open ---- */

static void begin(void)
{
	fake_drm_begin();
	kmd_drivers[0] = &qbrt_kmd_drm;
	kmd_begin(0);
}

/* K501 */
START_TEST(a_node_is_opened_to_read_and_write_and_not_passed_on)
{
	begin();
	ck_assert_int_eq(fake_drm_get_flags(kmd_file), O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(kmd_file, F_GETFD), FD_CLOEXEC);
	kmd_end();
}
END_TEST

/* K501 Q788 */
START_TEST(a_node_is_none_of_the_standard_three)
{
	qbrt_test_close_standard(STDIN_FILENO);
	begin();
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	qbrt_test_reopen_standard(STDIN_FILENO);
	ck_assert_int_gt(kmd_file, STDERR_FILENO);
	kmd_end();
}
END_TEST

/* K501: what open answers for the errno of libc's open */
static const struct {
	int err, expected;
} opens[] = {
	{ ENOENT, ENOENT },  { EACCES, EACCES }, { EPERM, EACCES },
	{ ENXIO, ENODEV },   { ENODEV, ENODEV }, { ENOMEM, ENOMEM },
	{ EMFILE, EMFILE },  { ENFILE, ENFILE }, { EIO, ENODEV },
	{ EBUSY, ENODEV },   { EAGAIN, ENODEV }, { EOVERFLOW, ENODEV },
	{ ENOTDIR, ENOENT }, { ELOOP, ENOENT },  { EROFS, EACCES },
};

/* K501 */
START_TEST(why_a_node_does_not_open_is_told)
{
	int file = UNTOUCHED;

	fake_drm_begin();
	fake_drm.open_errno = opens[_i].err;
	ck_assert_int_eq(
		qbrt_kmd_drm.open(&kmd_options, "/dev/accel/accel0", &file),
		-opens[_i].expected);
	ck_assert_int_eq(file, UNTOUCHED);
	ck_assert_uint_eq(fake_drm.num_opens, 1);
}
END_TEST

/* K501 K009 */
START_TEST(open_is_repeated_after_a_signal)
{
	begin();
	kmd_end();
	fake_drm.num_opens = 0;
	fake_drm.open_errno = EINTR;
	kmd_file = kmd_open_another();
	ck_assert_uint_eq(fake_drm.num_opens, 2);
	kmd_end();
}
END_TEST

static const struct fake_drm_node other_nodes[] = {
	{ .path = "/dev/accel/accel0", .driver = "intel_vpu" },
	{ .path = "/dev/accel/accel1", .driver = "qbnpu", .soft = "soft:0" },
	{ .path = "/dev/accel/accel2",
	  .driver = "qbnpu",
	  .soft = "soft:0",
	  .major = 2 },
};

static int open_other(int number)
{
	int file = UNTOUCHED;
	int err = qbrt_kmd_drm.open(&kmd_options, other_nodes[number].path,
				    &file);

	ck_assert_int_eq(file, UNTOUCHED);
	return err;
}

/* K501 K150: nothing stays open, the fixture counts descriptors */
START_TEST(versions_and_capabilities_are_checked)
{
	kmd_fill_options();
	fake_drm_set_nodes(other_nodes, qbrt_array_size(other_nodes));
	ck_assert_int_eq(open_other(0), -ENOENT);
	ck_assert_int_eq(open_other(2), -EPROTO);
	fake_drm.version_errno = ENODEV;
	ck_assert_int_eq(open_other(1), -ENODEV);
	fake_drm.version_errno = EFAULT;
	ck_assert_int_eq(open_other(1), -ENODEV);
	fake_drm.version_errno = ENOMEM;
	ck_assert_int_eq(open_other(1), -ENOMEM);
	fake_drm.cap_errno = EINVAL;
	ck_assert_int_eq(open_other(1), -EPROTO);
	fake_drm.cap_errno = ENODEV;
	ck_assert_int_eq(open_other(1), -ENODEV);
	fake_drm.no_monotonic_cap = true;
	ck_assert_int_eq(open_other(1), -EPROTO);
}
END_TEST

/* K501 */
START_TEST(what_is_no_drm_node_is_no_such_node)
{
	int fd = memfd_create("no-node", MFD_CLOEXEC);
	int file = UNTOUCHED;
	char path[64];

	ck_assert_int_ge(fd, 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_eq(qbrt_kmd_drm.open(&kmd_options, path, &file), -ENOENT);
	ck_assert_int_eq(qbrt_kmd_drm.open(&kmd_options, "soft:0", &file),
			 -ENOENT);
	ck_assert_int_eq(file, UNTOUCHED);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(nodes_are_listed_by_driver_name_and_none_is_opened),
		QBRT_TEST(a_short_list_holds_the_first_nodes),
		QBRT_TEST(a_node_that_sysfs_does_not_know_is_asked),
		QBRT_TEST(
			a_node_that_cannot_be_asked_for_want_of_room_is_an_error),
		QBRT_LOOP_TEST(folders_that_are_not_there_have_no_nodes,
			       qbrt_array_size(folders)),
		QBRT_TEST(hardware_is_listed_before_software),
		QBRT_TEST(a_device_behind_a_node_is_a_device),
		QBRT_TEST(a_node_is_opened_to_read_and_write_and_not_passed_on),
		QBRT_TEST(a_node_is_none_of_the_standard_three),
		QBRT_LOOP_TEST(why_a_node_does_not_open_is_told,
			       qbrt_array_size(opens)),
		QBRT_TEST(open_is_repeated_after_a_signal),
		QBRT_TEST(versions_and_capabilities_are_checked),
		QBRT_TEST(what_is_no_drm_node_is_no_such_node),
	};

	return qbrt_test_run("kmd-drm", tests, qbrt_array_size(tests));
}
