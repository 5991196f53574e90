// SPDX-License-Identifier: MIT
/*
 * Descriptors that the software driver keeps, and those that it is shown
 * (docs/spec/kernel.md, 3 and 8). A hook in fcntl plays the other threads of a
 * program: it gives the number that the driver looks at to another file.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check-kmd-syncobj.h"
#include "soft/soft.h"
#include "util.h"

#define SIZE 8192
#define READ_WRITE (PROT_READ | PROT_WRITE)

/* After the first look at watched it is a descriptor of replacement's file. */
static int watched = -1, replacement = -1;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_fcntl(int fd, int command, long arg);
int __wrap_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;
	int ret;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	ret = __real_fcntl(fd, command, arg);
	if (fd == watched) {
		watched = -1;
		ck_assert_int_eq(dup2(replacement, fd), fd);
	}
	return ret;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int make_memfd(void)
{
	int fd = memfd_create("qbnpu-foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, SIZE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static int open_ordinary(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* K133 K317: what is mapped is what was looked at */
START_TEST(a_number_that_becomes_another_file_is_not_mapped)
{
	struct drm_qbnpu_bo_info info;
	uint32_t handle;
	uint8_t *data;
	int fd;

	kmd_begin(0);
	fd = make_memfd();
	ck_assert_int_eq(pwrite(fd, "m", 1, SIZE - 1), 1);
	replacement = open_ordinary();
	watched = fd;
	handle = kmd_import_fd(kmd_file, fd);
	ck_assert_int_eq(watched, -1);
	info = kmd_get_info(handle);
	ck_assert_uint_eq(info.size, SIZE);
	data = kmd_map(kmd_file, handle, READ_WRITE);
	ck_assert_uint_eq(data[SIZE - 1], 'm');
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(replacement), 0);
	kmd_end();
}
END_TEST

/* K134 K317: nor when a mapping that is there becomes writable */
START_TEST(a_number_that_becomes_another_file_is_not_written)
{
	struct stat before, after;
	char path[32];
	uint32_t handle;
	uint8_t *data;
	int fd, read_only;

	kmd_begin(0);
	fd = make_memfd();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(read_only, 0);
	handle = kmd_import_fd(kmd_file, read_only);
	replacement = open_ordinary();
	ck_assert_int_eq(fstat(fd, &before), 0);
	watched = fd;
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
	data = kmd_map(kmd_file, handle, READ_WRITE);
	data[0] = 'w';
	ck_assert_int_eq(pread(read_only, path, 1, 0), 1);
	ck_assert_int_eq(path[0], 'w');
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	ck_assert_int_eq(close(fd), 0);
	/* its own descriptor changed with the mapping, to the same file */
	fd = kmd_export_fd(handle, 0);
	ck_assert_int_eq(fstat(fd, &after), 0);
	ck_assert_uint_eq(after.st_ino, before.st_ino);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(read_only), 0);
	ck_assert_int_eq(close(replacement), 0);
	kmd_end();
}
END_TEST

/* Section 3: the eventfd is the one that was looked at */
START_TEST(a_number_that_becomes_another_file_is_not_told)
{
	uint64_t count = 0;
	struct stat file;
	uint32_t handle;
	int fd, kept;

	kmd_begin(0);
	handle = kmd_create_syncobj();
	fd = kmd_make_eventfd();
	kept = dup(fd);
	ck_assert_int_ge(kept, 0);
	replacement = open_ordinary();
	watched = fd;
	ck_assert_int_eq(kmd_register_eventfd(handle, 1, 0, fd), 0);
	kmd_signal(handle, 1);
	ck_assert_int_eq(read(kept, &count, sizeof(count)), sizeof(count));
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(fstat(replacement, &file), 0);
	ck_assert_int_eq(file.st_size, 0);
	ck_assert_int_eq(close(kept), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(replacement), 0);
	kmd_end();
}
END_TEST

static void ck_assert_standard_closed(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

/* K304: what a program writes to standard error goes into no buffer */
START_TEST(no_kept_descriptor_is_0_to_2)
{
	uint32_t handle, syncobj;
	int saved[STDERR_FILENO + 1];
	int foreign, fd, event;

	foreign = make_memfd();
	event = kmd_make_eventfd();
	for (int i = 0; i <= STDERR_FILENO; i++) {
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
		ck_assert_int_ge(saved[i], 3);
		ck_assert_int_eq(close(i), 0);
	}
	kmd_begin(0);
	ck_assert_standard_closed();
	handle = kmd_create_buffer(SIZE);
	ck_assert_standard_closed();
	/* an export is the caller's, and takes the lowest number */
	fd = kmd_export_fd(handle, DRM_RDWR);
	ck_assert_int_eq(fd, 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_standard_closed();
	kmd_import_fd(kmd_file, foreign);
	ck_assert_standard_closed();
	syncobj = kmd_create_syncobj();
	ck_assert_int_eq(kmd_register_eventfd(syncobj, 1, 0, event), 0);
	ck_assert_standard_closed();
	kmd_end();
	for (int i = 0; i <= STDERR_FILENO; i++) {
		ck_assert_int_eq(dup2(saved[i], i), i);
		ck_assert_int_eq(close(saved[i]), 0);
	}
	ck_assert_int_eq(close(foreign), 0);
	ck_assert_int_eq(close(event), 0);
}
END_TEST

/* K130 K134: nobody else opens it anew, for what its descriptor does not give */
START_TEST(memory_is_its_owners_alone)
{
	struct stat info;
	int fd;

	kmd_begin(0);
	fd = kmd_export_fd(kmd_create_buffer(SIZE), 0);
	ck_assert_int_eq(fstat(fd, &info), 0);
	ck_assert_uint_eq(info.st_mode & 0777, 0600);
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

static bool is_pending(int number)
{
	sigset_t pending;

	ck_assert_int_eq(sigpending(&pending), 0);
	return sigismember(&pending, number) == 1;
}

/* No assertions between these two: Check writes a file at each. */
static struct rlimit limit_files(rlim_t size)
{
	struct rlimit old = { 0 }, limit;

	(void)getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = size;
	(void)setrlimit(RLIMIT_FSIZE, &limit);
	return old;
}

static int create_limited(struct drm_qbnpu_bo_create *create)
{
	const struct rlimit old = limit_files(SIZE);
	int err = kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, create);

	(void)setrlimit(RLIMIT_FSIZE, &old);
	return err;
}

static int open_limited(int *file)
{
	const struct rlimit old = limit_files(SIZE);
	int err = kmd->open(&kmd_options, kmd_node.path, file);

	(void)setrlimit(RLIMIT_FSIZE, &old);
	return err;
}

/* K303 K317 */
START_TEST(a_limit_of_file_sizes_is_no_signal)
{
	struct drm_qbnpu_bo_create create = { .size = SIZE + 1 };
	sigset_t blocked;
	int file;

	kmd_begin(0);
	ck_assert_int_eq(open_limited(&file), -ENOMEM);
	ck_assert_int_eq(create_limited(&create), -ENOMEM);
	ck_assert_uint_eq(create.handle, 0);
	ck_assert_uint_eq(create.limit, SIZE);
	create.size = create.limit;
	ck_assert_int_eq(create_limited(&create), 0);
	/* who blocks the signal finds none, or the one that was there */
	ck_assert_int_eq(sigemptyset(&blocked), 0);
	ck_assert_int_eq(sigaddset(&blocked, SIGXFSZ), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	create.size = SIZE + 1;
	ck_assert_int_eq(create_limited(&create), -ENOMEM);
	ck_assert(!is_pending(SIGXFSZ));
	ck_assert_int_eq(raise(SIGXFSZ), 0);
	ck_assert_int_eq(create_limited(&create), -ENOMEM);
	ck_assert(is_pending(SIGXFSZ));
	ck_assert_int_eq(sigwaitinfo(&blocked, NULL), SIGXFSZ);
	kmd_end();
}
END_TEST

void soft_fd_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(a_number_that_becomes_another_file_is_not_mapped),
		QBRT_TEST(a_number_that_becomes_another_file_is_not_written),
		QBRT_TEST(a_number_that_becomes_another_file_is_not_told),
		QBRT_TEST(no_kept_descriptor_is_0_to_2),
		QBRT_TEST(memory_is_its_owners_alone),
		QBRT_TEST(a_limit_of_file_sizes_is_no_signal),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
