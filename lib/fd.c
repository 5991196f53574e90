// SPDX-License-Identifier: MIT
/*
 * SIGXFSZ comes to the thread that lets a file grow, so it is blocked there and
 * taken back.
 */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int qbrt_fd_keep(int fd)
{
	int kept;
	int err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	(void)close(fd);
	/* what it says of the limit itself */
	errno = err == EINVAL ? EMFILE : err;
	return kept;
}

int qbrt_fd_write_unlimited(int fd, const void *data, size_t length)
{
	ssize_t written;

	do {
		written = write(fd, data, length);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		return -errno;
	/* a regular file takes less only where it cannot grow */
	return (size_t)written == length ? 0 : -ENOSPC;
}

struct growth {
	sigset_t before;
	bool was_pending;
};

static void begin_growth(struct growth *growth)
{
	sigset_t signals;
	sigset_t pending;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGXFSZ);
	(void)pthread_sigmask(SIG_BLOCK, &signals, &growth->before);
	growth->was_pending =
		!sigpending(&pending) && sigismember(&pending, SIGXFSZ);
}

/* A signal that was pending before stays. */
static void end_growth(const struct growth *growth, int err)
{
	const struct timespec at_once = { 0 };
	sigset_t signals;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGXFSZ);
	if (err == -EFBIG && !growth->was_pending)
		(void)sigtimedwait(&signals, NULL, &at_once);
	(void)pthread_sigmask(SIG_SETMASK, &growth->before, NULL);
}

int qbrt_fd_write(int fd, const void *data, size_t length)
{
	struct growth growth;
	int err;

	begin_growth(&growth);
	err = qbrt_fd_write_unlimited(fd, data, length);
	end_growth(&growth, err);
	return err;
}

int qbrt_fd_allocate(int fd, uint64_t size)
{
	struct growth growth;
	int err;

	begin_growth(&growth);
	do {
		err = fallocate(fd, 0, 0, (off_t)size) ? -errno : 0;
	} while (err == -EINTR);
	end_growth(&growth, err);
	return err;
}

bool qbrt_fd_is_limited(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) ||
	       limit.rlim_cur != RLIM_INFINITY;
}
