// SPDX-License-Identifier: MIT
/*
 * SIGXFSZ comes to the thread that writes, so it is blocked there and taken
 * back.
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

/* One that was pending before stays. */
int qbrt_fd_write(int fd, const void *data, size_t length)
{
	const struct timespec at_once = { 0 };
	sigset_t signals;
	sigset_t before;
	sigset_t pending;
	bool was_pending;
	int err;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGXFSZ);
	(void)pthread_sigmask(SIG_BLOCK, &signals, &before);
	was_pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ);
	err = qbrt_fd_write_unlimited(fd, data, length);
	if (err == -EFBIG && !was_pending)
		(void)sigtimedwait(&signals, NULL, &at_once);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

bool qbrt_fd_is_limited(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) ||
	       limit.rlim_cur != RLIM_INFINITY;
}
