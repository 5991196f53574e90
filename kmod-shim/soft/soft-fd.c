// SPDX-License-Identifier: MIT
/*
 * Descriptors that the driver keeps. None is 0 to 2: a program may have closed
 * those, and what it or a library writes to standard error would then go into
 * a buffer. A descriptor that is handed to the caller is the caller's, and may
 * be any.
 */
#include "soft/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_KEPT (STDERR_FILENO + 1)

int qbnpu_soft_fd_copy(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_KEPT);

	if (copy >= 0)
		return copy;
	/* the limit of descriptors lies below the first one */
	return errno == EINVAL ? -EMFILE : -errno;
}

int qbnpu_soft_fd_keep(int fd)
{
	int copy;

	if (fd < 0)
		return -errno;
	if (fd >= FIRST_KEPT)
		return fd;
	copy = qbnpu_soft_fd_copy(fd);
	qbnpu_soft_fd_close(fd);
	return copy;
}

void qbnpu_soft_fd_close(int fd)
{
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	(void)close(fd);
	(void)pthread_setcancelstate(old, &old);
}

static bool is_size_limited(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) ||
	       limit.rlim_cur != RLIM_INFINITY;
}

/*
 * A size above the process's limit is refused with SIGXFSZ besides, which would
 * end the process: it is taken here, unless it was on its way before.
 */
static int set_limited_size(int fd, uint64_t size)
{
	const struct timespec now = { 0 };
	sigset_t signals, old, pending;
	bool was_pending;
	int ret;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGXFSZ);
	(void)pthread_sigmask(SIG_BLOCK, &signals, &old);
	was_pending =
		!sigpending(&pending) && sigismember(&pending, SIGXFSZ) == 1;
	ret = ftruncate(fd, (off_t)size);
	while (ret && !was_pending && sigtimedwait(&signals, NULL, &now) < 0 &&
	       errno == EINTR)
		continue;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

static int set_size(int fd, uint64_t size)
{
	if (is_size_limited())
		return set_limited_size(fd, size);
	return ftruncate(fd, (off_t)size);
}

int qbnpu_soft_fd_alloc(const char *name, unsigned int flags, uint64_t size)
{
	int fd = qbnpu_soft_fd_keep(
		memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE ? fd : -ENOMEM;
	/* else whoever has a read-only one opens it for writing by /proc */
	if (!fchmod(fd, S_IRUSR | S_IWUSR) && !set_size(fd, size))
		return fd;
	qbnpu_soft_fd_close(fd);
	return -ENOMEM;
}
