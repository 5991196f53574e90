// SPDX-License-Identifier: MIT
/* Descriptors that the software driver keeps (docs/spec/kernel.md, 8). */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft/soft.h"
#include "util.h"

#define SIZE 8192

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

void soft_fd_tests(struct soft_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(memory_is_its_owners_alone),
		QBRT_TEST(a_limit_of_file_sizes_is_no_signal),
	};

	soft_add_tests(all, tests, qbrt_array_size(tests));
}
