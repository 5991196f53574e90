// SPDX-License-Identifier: MIT
/*
 * SYNCOBJ_EVENTFD (docs/spec/kernel.md, 3): an eventfd is written once, when a
 * point came or was submitted, by whoever brought it.
 */
#include "check-kmd-syncobj.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util.h"

/* What it counted since, 0: nothing. */
static uint64_t read_eventfd(int fd)
{
	uint64_t count = 0;

	if (read(fd, &count, sizeof(count)) < 0)
		ck_assert_int_eq(errno, EAGAIN);
	return count;
}

START_TEST(an_eventfd_is_told_once)
{
	struct kmd_gate gate;
	int fds[4], copy;

	kmd_close_gate(&gate, _i);
	if (kmd_has_eventfd()) {
		uint32_t handle = gate.set.syncobj;

		for (int i = 0; i < 4; i++)
			fds[i] = kmd_make_eventfd();
		ck_assert_int_eq(kmd_register_eventfd(handle, 1, 0, fds[0]), 0);
		ck_assert_int_eq(
			kmd_register_eventfd(handle, 1, KMD_AVAILABLE, fds[1]),
			0);
		ck_assert_int_eq(kmd_register_eventfd(handle, 2, 0, fds[2]), 0);
		ck_assert_int_eq(
			kmd_register_eventfd(handle, 2, KMD_AVAILABLE, fds[3]),
			0);
		ck_assert_uint_eq(read_eventfd(fds[0]), 0);
		ck_assert_uint_eq(read_eventfd(fds[1]), 1);
		ck_assert_uint_eq(read_eventfd(fds[3]), 0);
		/* the driver has its own */
		copy = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
		ck_assert_int_ge(copy, 0);
		ck_assert_int_eq(close(fds[0]), 0);
		kmd_open_gate(&gate);
		ck_assert_int_eq(
			poll(&(struct pollfd){ .fd = copy, .events = POLLIN },
			     1, -1),
			1);
		ck_assert_uint_eq(read_eventfd(copy), 1);
		ck_assert_uint_eq(read_eventfd(fds[2]), 0);
		kmd_signal(handle, 2);
		for (int i = 1; i < 4; i++)
			ck_assert_uint_eq(read_eventfd(fds[i]), i > 1);
		kmd_signal(handle, 3);
		ck_assert_int_eq(kmd_register_eventfd(handle, 3, 0, copy), 0);
		ck_assert_uint_eq(read_eventfd(copy), 1);
		for (int i = 1; i < 4; i++) {
			ck_assert_uint_eq(read_eventfd(fds[i]), 0);
			ck_assert_int_eq(close(fds[i]), 0);
		}
		ck_assert_int_eq(close(copy), 0);
	} else {
		ck_assert_int_eq(kmd_register_eventfd(gate.set.syncobj, 1, 0,
						      STDIN_FILENO),
				 -EINVAL);
		kmd_open_gate(&gate);
	}
	kmd_end_gate(&gate);
}
END_TEST

/* Section 3: the core looks the syncobj up before it looks at the descriptor */
START_TEST(bad_eventfds_are_refused)
{
	struct drm_syncobj_eventfd arg = { .point = 1 };
	int pipes[2];

	kmd_begin(_i);
	if (kmd_has_eventfd()) {
		arg.fd = kmd_make_eventfd();
		kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, ENOENT);
		arg.handle = kmd_create_syncobj();
		for (int bit = 0; bit < 32; bit++) {
			arg.flags = 1u << bit;
			if (arg.flags != KMD_AVAILABLE)
				kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg,
					   EINVAL);
		}
		arg.flags = 0;
		arg.pad = 1;
		kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, EINVAL);
		arg.pad = 0;
		ck_assert_int_eq(close(arg.fd), 0);
		kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, EBADF);
		arg.handle++;
		kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, ENOENT);
		arg.handle--;
		ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
		arg.fd = pipes[1];
		kmd_refuse(DRM_IOCTL_SYNCOBJ_EVENTFD, &arg, EINVAL);
		ck_assert_int_eq(close(pipes[0]), 0);
		ck_assert_int_eq(close(pipes[1]), 0);
	}
	kmd_end();
}
END_TEST

/* A full counter is readable already, and nobody is held up by it. */
START_TEST(a_full_eventfd_holds_nobody_up)
{
	const uint64_t most = UINT64_MAX - 1;
	uint32_t handle;
	int fd;

	kmd_begin(_i);
	if (kmd_has_eventfd()) {
		handle = kmd_create_syncobj();
		/* writing to this one would wait */
		fd = eventfd(0, EFD_CLOEXEC);
		ck_assert_int_eq(write(fd, &most, sizeof(most)), sizeof(most));
		ck_assert_int_eq(kmd_register_eventfd(handle, 1, 0, fd), 0);
		kmd_signal(handle, 1);
		ck_assert_uint_eq(read_eventfd(fd), most);
		ck_assert_int_eq(close(fd), 0);
	}
	kmd_end();
}
END_TEST

/* What never comes leaves nothing behind. */
START_TEST(an_eventfd_ends_with_its_timeline)
{
	long num_descriptors;
	uint32_t handle;
	int fd;

	kmd_begin(_i);
	if (kmd_has_eventfd()) {
		fd = kmd_make_eventfd();
		handle = kmd_create_syncobj();
		num_descriptors = qbrt_test_count_descriptors();
		ck_assert_int_eq(kmd_register_eventfd(handle, 1, 0, fd), 0);
		ck_assert_int_eq(
			kmd_register_eventfd(handle, 2, KMD_AVAILABLE, fd), 0);
		kmd_destroy_syncobj(handle);
		ck_assert_int_eq(qbrt_test_count_descriptors(),
				 num_descriptors);
		/* the file's end is enough for this one */
		ck_assert_int_eq(
			kmd_register_eventfd(kmd_create_syncobj(), 1, 0, fd),
			0);
		ck_assert_uint_eq(read_eventfd(fd), 0);
		ck_assert_int_eq(close(fd), 0);
	}
	kmd_end();
}
END_TEST

void kmd_syncobj_eventfd_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_eventfd_is_told_once),
		QBRT_TEST(bad_eventfds_are_refused),
		QBRT_TEST(a_full_eventfd_holds_nobody_up),
		QBRT_TEST(an_eventfd_ends_with_its_timeline),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
