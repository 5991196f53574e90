// SPDX-License-Identifier: MIT
/*
 * Descriptors that are kept, and writes under RLIMIT_FSIZE. That limit holds
 * for the file in which Check notes each assertion too, so none is made
 * meanwhile.
 */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test-util.h"
#include "util.h"

#define MAX_FILE_SIZE 10

static int open_null(void)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* Q788 */
START_TEST(what_is_kept_is_none_of_the_three)
{
	int opened;
	int kept;

	qbrt_test_close_standard(_i);
	opened = open_null();
	kept = qbrt_fd_keep(opened);
	ck_assert_int_eq(fcntl(_i, F_GETFD), -1);
	qbrt_test_reopen_standard(_i);
	ck_assert_int_eq(opened, _i);
	ck_assert_int_ge(kept, 3);
	ck_assert_int_eq(fcntl(kept, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(close(kept), 0);
}
END_TEST

/* Q788 */
START_TEST(others_are_kept_as_they_are)
{
	int fd = open_null();

	ck_assert_int_ge(fd, 3);
	ck_assert_int_eq(qbrt_fd_keep(fd), fd);
	ck_assert_int_eq(close(fd), 0);
	errno = EXDEV;
	ck_assert_int_eq(qbrt_fd_keep(-1), -1);
	ck_assert_int_eq(errno, EXDEV);
}
END_TEST

/* Q788: nothing stays open. */
START_TEST(where_there_is_no_other_the_limit_is_told)
{
	int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	struct rlimit limit;
	struct rlimit none;
	int kept;
	int err;

	ck_assert_int_ge(saved, 3);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = _i ? 3 : (rlim_t)saved + 1;
	ck_assert_int_eq(close(STDIN_FILENO), 0);
	ck_assert_int_eq(open_null(), STDIN_FILENO);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	kept = qbrt_fd_keep(STDIN_FILENO);
	err = errno;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	ck_assert_int_eq(dup2(saved, STDIN_FILENO), STDIN_FILENO);
	ck_assert_int_eq(close(saved), 0);
	ck_assert_int_eq(kept, -1);
	ck_assert_int_eq(err, EMFILE);
}
END_TEST

static void limit_files(rlim_t limit)
{
	const struct rlimit value = { limit, RLIM_INFINITY };

	if (setrlimit(RLIMIT_FSIZE, &value))
		abort();
}

static bool is_in(int (*get)(sigset_t *signals))
{
	sigset_t signals;

	if (get(&signals))
		abort();
	return sigismember(&signals, SIGXFSZ);
}

static int get_mask(sigset_t *signals)
{
	return pthread_sigmask(SIG_BLOCK, NULL, signals);
}

static const struct {
	bool is_blocked, is_pending;
} signal_states[] = { { false, false }, { true, false }, { true, true } };

/*
 * Q783, and LD09's weights: neither the line that ends at the limit nor the one
 * behind it.
 */
START_TEST(a_file_that_cannot_grow_raises_no_signal)
{
	static const char data[MAX_FILE_SIZE + 1];
	int fd = memfd_create("limited", MFD_CLOEXEC);
	bool was_blocked = signal_states[_i].is_blocked;
	bool was_pending = signal_states[_i].is_pending;
	bool is_blocked, is_pending, is_limited;
	int errs[6];
	sigset_t signals;

	ck_assert_int_ge(fd, 0);
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGXFSZ);
	if (was_blocked)
		ck_assert(!pthread_sigmask(SIG_BLOCK, &signals, NULL));
	if (was_pending)
		ck_assert(!pthread_kill(pthread_self(), SIGXFSZ));
	limit_files(MAX_FILE_SIZE);
	is_limited = qbrt_fd_is_limited();
	errs[0] = qbrt_fd_write(fd, data, MAX_FILE_SIZE - 2);
	errs[1] = qbrt_fd_write(fd, data, 1);
	errs[2] = qbrt_fd_write(fd, data, 2);
	errs[3] = qbrt_fd_write(fd, data, 1);
	errs[4] = qbrt_fd_allocate(fd, MAX_FILE_SIZE);
	errs[5] = qbrt_fd_allocate(fd, MAX_FILE_SIZE + 1);
	is_blocked = is_in(get_mask);
	is_pending = is_in(sigpending);
	limit_files(RLIM_INFINITY);
	ck_assert(is_limited);
	ck_assert(!qbrt_fd_is_limited());
	ck_assert_int_eq(errs[0], 0);
	ck_assert_int_eq(errs[1], 0);
	ck_assert_int_eq(errs[2], -ENOSPC);
	ck_assert_int_eq(errs[3], -EFBIG);
	ck_assert_int_eq(errs[4], 0);
	ck_assert_int_eq(errs[5], -EFBIG);
	ck_assert_int_eq(is_blocked, was_blocked);
	ck_assert_int_eq(is_pending, was_pending);
	ck_assert_int_eq(qbrt_fd_write_unlimited(fd, data, sizeof(data)), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR),
			 MAX_FILE_SIZE + (off_t)sizeof(data));
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(what_a_write_fails_with_is_told)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(qbrt_fd_write(fd, "x", 1), -EBADF);
	ck_assert_int_eq(qbrt_fd_allocate(fd, 1), -EBADF);
	ck_assert_int_eq(qbrt_fd_write_unlimited(fd, "x", 1), -EBADF);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(what_is_kept_is_none_of_the_three, 3),
		QBRT_TEST(others_are_kept_as_they_are),
		QBRT_LOOP_TEST(where_there_is_no_other_the_limit_is_told, 2),
		QBRT_LOOP_TEST(a_file_that_cannot_grow_raises_no_signal,
			       qbrt_array_size(signal_states)),
		QBRT_TEST(what_a_write_fails_with_is_told),
	};

	return qbrt_test_run("fd", tests, qbrt_array_size(tests));
}
