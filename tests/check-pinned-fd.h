/* SPDX-License-Identifier: MIT */
/* What the files of check-pinned-fd share; helpers assert what they do. */
#ifndef TESTS_CHECK_PINNED_FD_H
#define TESTS_CHECK_PINNED_FD_H

#include "test-util.h"

#include "pinned-memory.h"

#define PINNED_FD_SENTINEL ((struct qbrt_pinned_memory *)(uintptr_t)0x5a5a)
#define PINNED_FD_NBYTES 4096

extern struct qbrt_accelerator *acc;

void pinned_fd_open_device(void);
struct qbrt_pinned_memory *pinned_fd_alloc(void);
int pinned_fd_export(struct qbrt_pinned_memory *mem);
/* uint8, one axis; the second imports all of it. */
enum qbrt_status pinned_fd_try_import(int fd, size_t offset, int64_t num_bytes,
				      struct qbrt_pinned_memory **mem);
struct qbrt_pinned_memory *pinned_fd_import(int fd);
uint8_t *pinned_fd_get_data(const struct qbrt_pinned_memory *mem);
/* With that status and words, and nothing has happened. */
void pinned_fd_refuse(int fd, size_t offset, int64_t num_bytes,
		      enum qbrt_status status, const char *detail);

/* A second descriptor of it, which is read-only. */
int pinned_fd_reopen_read_only(int fd);

/* Add those of check-pinned-fd-fail.c and -nth.c. */
void pinned_fd_add_fail_tests(struct qbrt_tests *all);
void pinned_fd_add_nth_tests(struct qbrt_tests *all);

#endif
