// SPDX-License-Identifier: MIT
/*
 * K501: open files of the kernel driver's door without a node: what comes of
 * each call's errno, what is repeated, and what a fork leaves. What the
 * requests do is check-kmd-over-drm's.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake-drm.h"
#include "soft/soft.h"
#include "util.h"

static void begin(void)
{
	fake_drm_begin();
	kmd_drivers[0] = &qbrt_kmd_drm;
	kmd_begin(0);
}

/* ---- requests ---- */

/* Every code of kernel.md, section 4, and some that no driver gives. */
static const int codes[] = {
	EINVAL, EFAULT,    ENOENT,    ENOEXEC, EOPNOTSUPP, EACCES, ERANGE,
	ENOMEM, ENOSPC,    EBUSY,     EBADF,   ETIME,      EIO,    ENODATA,
	ENODEV, ETIMEDOUT, ECANCELED, ENOTTY,  EMFILE,     ENFILE, EPERM,
	EPIPE,  ENOSYS,    EPROTO,    511,
};

/* K501 K001: as it came, also what this library does not know */
START_TEST(the_errno_of_a_request_is_handed_up)
{
	struct drm_qbnpu_query query = { .type = DRM_QBNPU_QUERY_DEVICE };

	begin();
	for (size_t i = 0; i < qbrt_array_size(codes); i++) {
		qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUERY, 1, codes[i]);
		kmd_refuse(DRM_IOCTL_QBNPU_QUERY, &query, codes[i]);
	}
	ck_assert_uint_eq(fake_drm.num_restarts, 0);
	kmd_end();
}
END_TEST

/* K501 K009: the n-th of several; none of the others fails */
START_TEST(interrupted_requests_are_restarted)
{
	static const int repeated[] = { EINTR, EAGAIN };

	begin();
	for (size_t i = 0; i < qbrt_array_size(repeated); i++) {
		for (unsigned int nth = 1; nth <= 3; nth++) {
			unsigned int before = fake_drm.num_restarts;

			qbnpu_soft_fail(DRM_IOCTL_QBNPU_QUEUE_CREATE, nth,
					repeated[i]);
			for (unsigned int n = 1; n <= 3; n++) {
				kmd_destroy_queue(kmd_create_queue(0, NULL));
				ck_assert_uint_eq(fake_drm.num_restarts,
						  before + (n >= nth));
			}
		}
	}
	kmd_end();
}
END_TEST

/* K501 K009: a signal is for the caller of the two requests that wait */
START_TEST(a_wait_that_a_signal_ends_says_so)
{
	struct drm_syncobj_timeline_wait timeline = { 0 };
	struct drm_qbnpu_wait wait = { .timeout_ns = KMD_FOREVER };
	unsigned int before;

	begin();
	before = fake_drm.num_requests;
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_WAIT, 1, EINTR);
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, EINTR);
	qbnpu_soft_fail(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, 1, EINTR);
	kmd_refuse(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &timeline, EINTR);
	ck_assert_uint_eq(fake_drm.num_requests, before + 2);
	/* never EAGAIN, and no other code is lost: there is no queue 0 */
	qbnpu_soft_fail(DRM_IOCTL_QBNPU_WAIT, 1, EAGAIN);
	kmd_refuse(DRM_IOCTL_QBNPU_WAIT, &wait, ENOENT);
	ck_assert_uint_eq(fake_drm.num_requests, before + 4);
	ck_assert_uint_eq(fake_drm.num_restarts, 0);
	kmd_end();
}
END_TEST

/* ---- fork ---- */

/* In the child: 0 if every op answers -ENODEV and asks no kernel. */
static int try_inherited(void)
{
	struct drm_qbnpu_queue_create create = { 0 };
	unsigned int num_requests = fake_drm.num_requests;
	unsigned int num_polls = fake_drm.num_polls;
	void *address;

	if (kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create) != -ENODEV ||
	    kmd_call(DRM_IOCTL_QBNPU_WAIT, &create) != -ENODEV)
		return 1;
	if (kmd->mmap(kmd_file, 0, 4096, PROT_READ, &address) != -ENODEV)
		return 2;
	if (kmd->poll(kmd_file, 0) != -ENODEV)
		return 3;
	return fake_drm.num_requests != num_requests ||
			       fake_drm.num_polls != num_polls
		       ? 4
		       : 0;
}

/* In the child: its descriptor is closed here and its number is not its own. */
static int close_inherited(void)
{
	struct drm_qbnpu_queue_create create = { 0 };
	int inherited = kmd_file;

	kmd->close(inherited);
	if (fcntl(inherited, F_GETFD) != -1)
		return 5;
	if (kmd->open(&kmd_options, kmd_node.path, &kmd_file))
		return 6;
	if (kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, &create))
		return 7;
	/* the same descriptor again, and still the parent's file is gone */
	if (kmd->ioctl(inherited, DRM_IOCTL_QBNPU_QUEUE_CREATE, &create) !=
	    -ENODEV)
		return 8;
	return 0;
}

static int wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child ||
	    !WIFEXITED(status))
		return 99;
	return WEXITSTATUS(status);
}

/* K501 K016: the child, and its own child */
START_TEST(what_a_fork_inherits_is_gone)
{
	pid_t child;

	begin();
	child = fork();
	if (!child) {
		int err = try_inherited();

		if (!err)
			err = close_inherited();
		if (!err) {
			child = fork();
			if (!child)
				_exit(try_inherited());
			err = wait_for(child);
		}
		kmd_end();
		_exit(err);
	}
	ck_assert_int_eq(wait_for(child), 0);
	kmd_destroy_queue(kmd_create_queue(0, NULL));
	kmd_end();
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUEUE_CREATE, NULL), -EBADF);
}
END_TEST

/* ---- mappings ---- */

/* K501 K015 */
START_TEST(mappings_are_asked_for_as_they_are_given)
{
	struct drm_qbnpu_bo_info info;
	struct kmd_buffer buffer;
	void *address = &info;

	begin();
	kmd_alloc(&buffer, 4096);
	info = kmd_get_info(buffer.handle);
	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, 4096,
				   PROT_READ | PROT_EXEC, &address),
			 -EINVAL);
	ck_assert_int_eq(
		kmd->mmap(kmd_file, info.map_offset, 4096, PROT_NONE, &address),
		-EINVAL);
	/* the kernel was not asked */
	ck_assert_uint_eq(fake_drm.num_mmaps, 1);
	ck_assert_int_eq(
		kmd->mmap(kmd_file, UINT64_MAX, 4096, PROT_READ, &address),
		-EINVAL);
	/* the progress page is to be read only */
	ck_assert_int_eq(
		kmd->mmap(kmd_file, 0, 4096, PROT_READ | PROT_WRITE, &address),
		-EACCES);
	ck_assert_ptr_eq(address, &info);
	ck_assert_int_eq(kmd->munmap(kmd_file, buffer.data + 1, 4096), -EINVAL);
	ck_assert_int_eq(kmd->munmap(kmd_file, buffer.data, 0), -EINVAL);
	buffer.data[4095] = 1;
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

/* K501: the errno of mmap, and what op mmap answers */
static const struct {
	int err, expected;
} mmaps[] = {
	{ EINVAL, EINVAL }, { EACCES, EACCES }, { ENOMEM, ENOMEM },
	{ ENODEV, ENODEV }, { EAGAIN, ENOMEM }, { EPERM, EPERM },
};

/* K501 K009 */
START_TEST(why_a_buffer_is_not_mapped_is_told)
{
	struct drm_qbnpu_bo_info info;
	void *address = &info;

	begin();
	info = kmd_get_info(kmd_create_buffer(4096));
	fake_drm.mmap_errno = mmaps[_i].err;
	ck_assert_int_eq(
		kmd->mmap(kmd_file, info.map_offset, 4096, PROT_READ, &address),
		-mmaps[_i].expected);
	ck_assert_ptr_eq(address, &info);
	kmd_end();
}
END_TEST

/* ---- events ---- */

static void read_events(void)
{
	struct drm_qbnpu_query_event events[16];
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_EVENTS,
		.index = 1,
		.data = (uintptr_t)events,
		.size = sizeof(events),
	};

	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
}

/* K501 K120 */
START_TEST(poll_waits_for_events_until_its_deadline)
{
	int64_t deadline_ns;

	begin();
	ck_assert_int_eq(kmd->poll(kmd_file, 0), 0); /* attach */
	ck_assert_int_eq(kmd->poll(kmd_file, KMD_FOREVER), 0);
	read_events();
	ck_assert_int_eq(kmd->poll(kmd_file, 0), -ETIME);
	ck_assert_int_eq(kmd->poll(kmd_file, INT64_MIN), -ETIME);
	deadline_ns = qbrt_now_ns() + 2 * QBRT_NS_PER_MS;
	ck_assert_int_eq(kmd->poll(kmd_file, deadline_ns), -ETIME);
	ck_assert_int_ge(qbrt_now_ns(), deadline_ns);
	kmd_end();
}
END_TEST

/* K501 K120: an event that was not read comes before the end */
START_TEST(poll_tells_that_the_device_is_lost)
{
	static const struct {
		short events;
		int err;
	} answers[] = {
		{ POLLIN, 0 },
		{ POLLIN | POLLHUP, 0 },
		{ POLLHUP, -ENODEV },
		{ POLLERR | POLLHUP, -ENODEV },
	};

	begin();
	for (size_t i = 0; i < qbrt_array_size(answers); i++) {
		fake_drm.poll_events = answers[i].events;
		ck_assert_int_eq(kmd->poll(kmd_file, KMD_FOREVER),
				 answers[i].err);
	}
	kmd_end();
}
END_TEST

/* K501 K009 */
START_TEST(poll_is_repeated_after_a_signal)
{
	begin();
	fake_drm.poll_errno = EINTR;
	ck_assert_int_eq(kmd->poll(kmd_file, 0), 0);
	ck_assert_uint_eq(fake_drm.num_polls, 2);
	fake_drm.poll_errno = ENOMEM;
	ck_assert_int_eq(kmd->poll(kmd_file, 0), -ENOMEM);
	ck_assert_uint_eq(fake_drm.num_polls, 3);
	kmd_end();
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(the_errno_of_a_request_is_handed_up),
		QBRT_TEST(interrupted_requests_are_restarted),
		QBRT_TEST(a_wait_that_a_signal_ends_says_so),
		QBRT_TEST(what_a_fork_inherits_is_gone),
		QBRT_TEST(mappings_are_asked_for_as_they_are_given),
		QBRT_LOOP_TEST(why_a_buffer_is_not_mapped_is_told,
			       qbrt_array_size(mmaps)),
		QBRT_TEST(poll_waits_for_events_until_its_deadline),
		QBRT_TEST(poll_tells_that_the_device_is_lost),
		QBRT_TEST(poll_is_repeated_after_a_signal),
	};

	return qbrt_test_run("kmd-drm-file", tests, qbrt_array_size(tests));
}
