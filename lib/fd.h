/* SPDX-License-Identifier: MIT */
/*
 * Descriptors in programs that the library knows nothing of: they may have
 * closed standard error, and may be under limits whose signals would end them.
 */
#ifndef QBRT_FD_H
#define QBRT_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Takes over fd, which was opened just now, or -1 with errno. What it gives
 * back is none of the three that programs, and our log lines, write to without
 * a look: -1 with errno if that cannot be had.
 */
int qbrt_fd_keep(int fd);

/*
 * One write, whose file cannot grow any more when it takes less. 0 or a
 * negative errno; RLIMIT_FSIZE gives -EFBIG, and SIGXFSZ only the second: it
 * is for files that may grow without a limit, and makes no other request.
 */
int qbrt_fd_write(int fd, const void *data, size_t length);
int qbrt_fd_write_unlimited(int fd, const void *data, size_t length);

/* Memory for the first size bytes of a file, which grows to that; as write. */
int qbrt_fd_allocate(int fd, uint64_t size);

/* RLIMIT_FSIZE is set. */
bool qbrt_fd_is_limited(void);

#endif
