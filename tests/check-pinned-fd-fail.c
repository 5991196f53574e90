// SPDX-License-Identifier: MIT
/*
 * Export and import of pinned memory where something fails: what a driver may
 * answer, played by kmd-bend.c.
 */
#include "check-pinned-fd.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "counters.h"
#include "kmd-bend.h"
#include "util.h"

struct answer {
	unsigned long request;
	int err;
	enum qbrt_status status;
};

static const struct answer answers[] = {
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -EMFILE,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -ENFILE,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -ENOMEM,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -EACCES, QBRT_PINNED_MEMORY_READ_ONLY },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -EOPNOTSUPP, QBRT_NOT_IMPLEMENTED },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -ENOENT, QBRT_INTERNAL_ERROR },
	{ DRM_IOCTL_PRIME_HANDLE_TO_FD, -EINVAL, QBRT_INTERNAL_ERROR },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -EMFILE,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -ENFILE,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -ENOMEM,
	  QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -EBADF, QBRT_INVALID_ARGUMENT },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -EINVAL, QBRT_INVALID_ARGUMENT },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -ERANGE,
	  QBRT_PINNED_MEMORY_OUT_OF_BOUNDS },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -EOPNOTSUPP, QBRT_NOT_IMPLEMENTED },
	{ DRM_IOCTL_PRIME_FD_TO_HANDLE, -ENODEV, QBRT_ACC_DEVICE_LOST },
	{ DRM_IOCTL_QBNPU_BO_INFO, -ENOENT, QBRT_INTERNAL_ERROR },
	{ DRM_IOCTL_QBNPU_BO_INFO, -ENODEV, QBRT_ACC_DEVICE_LOST },
};

/* Q615 Q612: and nothing is left behind, so the next try succeeds */
START_TEST(the_drivers_answers_have_statuses)
{
	const struct answer *answer = &answers[_i];
	bool is_export = answer->request == DRM_IOCTL_PRIME_HANDLE_TO_FD;
	struct qbrt_pinned_memory *mem, *view;
	int given = -7, fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	fd = pinned_fd_export(mem);
	kmd_bend.fail_request = answer->request;
	kmd_bend.fail_err = answer->err;
	/* once more after the pool was emptied */
	atomic_store(&kmd_bend.fail_times, 2);
	if (is_export)
		ck_assert_status(qbrt_pinned_memory_export_fd(mem, &given),
				 answer->status);
	else
		pinned_fd_refuse(fd, 0, 1, answer->status, "");
	atomic_store(&kmd_bend.fail_times, 0);
	ck_assert_int_eq(given, -7);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.unmapped_errors), 0);
	ck_assert_int_eq(close(pinned_fd_export(mem)), 0);
	view = pinned_fd_import(fd);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	pinned_fd_get_data(view)[0] = 1;
	qbrt_pinned_memory_free(view);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: descriptors of pooled buffers are given back first */
START_TEST(the_pool_is_emptied_before_exhaustion_is_told)
{
	static const unsigned long requests[] = {
		DRM_IOCTL_PRIME_HANDLE_TO_FD,
		DRM_IOCTL_PRIME_FD_TO_HANDLE,
	};
	struct qbrt_pinned_memory *mem, *view;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	qbrt_pinned_memory_free(pinned_fd_alloc());
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes),
			  PINNED_FD_NBYTES);
	fd = pinned_fd_export(mem);
	kmd_bend.fail_request = requests[_i];
	kmd_bend.fail_err = -EMFILE;
	atomic_store(&kmd_bend.fail_times, 1);
	if (_i) {
		view = pinned_fd_import(fd);
		qbrt_pinned_memory_free(view);
	} else {
		ck_assert_int_eq(close(pinned_fd_export(mem)), 0);
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q788 */
START_TEST(an_export_is_none_of_the_standard_three)
{
	struct qbrt_pinned_memory *mem;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	qbrt_test_close_standard(STDIN_FILENO);
	fd = pinned_fd_export(mem);
	qbrt_test_reopen_standard(STDIN_FILENO);
	ck_assert_int_gt(fd, STDERR_FILENO);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

static int make_sealed(off_t nbytes)
{
	int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, nbytes), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

/* Q500 Q615 */
START_TEST(each_reason_of_a_refused_import_has_its_sentence)
{
	static const struct {
		off_t nbytes;
		int err; /* of the driver, 0: what it says itself */
		enum qbrt_status status;
		const char *detail;
	} reasons[] = {
		{ 0, 0, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, "holds 0 bytes" },
		{ (off_t)1 << 40, 0, QBRT_INVALID_ARGUMENT,
		  "holds 1099511627776 bytes; a buffer of device aries-rb:0 "
		  "has at most " },
		{ 4096, -ENOMEM, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "RLIMIT_AS" },
		{ 4096, -EMFILE, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "RLIMIT_NOFILE" },
		{ 4096, -ENFILE, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
		  "fs.file-max" },
	};

	pinned_fd_open_device();
	for (size_t i = 0; i < qbrt_array_size(reasons); i++) {
		int fd = make_sealed(reasons[i].nbytes);

		kmd_bend.fail_request = DRM_IOCTL_PRIME_FD_TO_HANDLE;
		kmd_bend.fail_err = reasons[i].err;
		atomic_store(&kmd_bend.fail_times, reasons[i].err ? 2 : 0);
		pinned_fd_refuse(fd, 0, 1, reasons[i].status,
				 reasons[i].detail);
		ck_assert(!qbrt_test_contains(qbrt_error_detail(), "expected"));
		ck_assert_int_eq(close(fd), 0);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* K133 Q500: what has grown is as large as it was until nobody has it. */
START_TEST(a_memfd_that_has_grown_keeps_its_first_size)
{
	struct qbrt_pinned_memory *view;
	int fd = make_sealed(PINNED_FD_NBYTES);

	pinned_fd_open_device();
	view = pinned_fd_import(fd);
	ck_assert_int_eq(ftruncate(fd, 2 * (off_t)PINNED_FD_NBYTES), 0);
	pinned_fd_refuse(fd, 0, 2 * PINNED_FD_NBYTES,
			 QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, "4096 bytes");
	qbrt_pinned_memory_free(view);
	ck_assert_ok(pinned_fd_try_import(fd, 0, 2 * PINNED_FD_NBYTES, &view));
	qbrt_pinned_memory_free(view);
	ck_assert_int_eq(close(fd), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

START_TEST(memory_that_cannot_be_mapped_is_not_imported)
{
	struct qbrt_pinned_memory *mem;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	fd = pinned_fd_export(mem);
	kmd_bend.mmap_err = -ENOMEM;
	pinned_fd_refuse(fd, 0, 1, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
			 "");
	kmd_bend.mmap_err = 0;
	pinned_fd_get_data(mem)[0] = 1;
	qbrt_pinned_memory_free(mem);
	ck_assert_int_eq(close(fd), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q500: up to the last byte, and not beyond; 4 KiB, or a page of 2 MiB */
START_TEST(an_import_ends_within_the_buffer)
{
	struct qbrt_pinned_memory *mem, *view;
	char beyond[64], all[64];
	size_t size;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	fd = pinned_fd_export(mem);
	size = (size_t)lseek(fd, 0, SEEK_END);
	(void)snprintf(beyond, sizeof(beyond), "65 bytes from byte %zu",
		       size - 64);
	(void)snprintf(all, sizeof(all), "the %zu bytes", size);
	ck_assert_ok(pinned_fd_try_import(fd, size - 64, 64, &view));
	qbrt_pinned_memory_free(view);
	pinned_fd_refuse(fd, size - 64, 65, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
			 beyond);
	pinned_fd_refuse(fd, size, 1, QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, all);
	pinned_fd_refuse(fd, SIZE_MAX - 63, 128,
			 QBRT_PINNED_MEMORY_OUT_OF_BOUNDS, "do not lie in");
	pinned_fd_refuse(fd, 32, 1, QBRT_INVALID_ARGUMENT, "multiple of 64");
	pinned_fd_refuse(fd, 1, 1, QBRT_INVALID_ARGUMENT, "offset is 1");
	pinned_fd_refuse(fd, 0, 0, QBRT_INVALID_ARGUMENT, "extent 0");
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

void pinned_fd_add_fail_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(the_drivers_answers_have_statuses,
			       qbrt_array_size(answers)),
		QBRT_LOOP_TEST(the_pool_is_emptied_before_exhaustion_is_told,
			       2),
		QBRT_TEST(an_import_ends_within_the_buffer),
		QBRT_TEST(an_export_is_none_of_the_standard_three),
		QBRT_TEST(each_reason_of_a_refused_import_has_its_sentence),
		QBRT_TEST(a_memfd_that_has_grown_keeps_its_first_size),
		QBRT_TEST(memory_that_cannot_be_mapped_is_not_imported),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
