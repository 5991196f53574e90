// SPDX-License-Identifier: MIT
/*
 * Buffers by descriptor between two processes (K134, K135, K311). A child tells
 * by its exit status which of its steps failed; what it is to do next comes
 * through a pipe.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pass-fd.h"
#include "util.h"

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define SIZE 8192u

static void wait_for_end(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status),
		      "the child failed at step %d",
		      WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

#define STEP(number, condition) \
	do { \
		if (!(condition)) \
			_exit(number); \
	} while (0)

/* Makes a buffer full of 0x33, sends it away, and ends without a close. */
static void run_exporter(int socket)
{
	struct drm_qbnpu_bo_create create = {
		.size = SIZE,
		.region = DRM_QBNPU_REGION_SYSTEM,
	};
	struct drm_prime_handle prime = { .flags = DRM_RDWR };
	void *data;
	int file;

	STEP(1, !kmd->open(&kmd_options, kmd_node.path, &file));
	STEP(2, !kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create));
	STEP(3, !kmd->mmap(file, create.map_offset, SIZE, READ_WRITE, &data));
	memset(data, 0x33, SIZE);
	prime.handle = create.handle;
	STEP(4, !kmd->ioctl(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	STEP(5, pass_fd_send(socket, 0, prime.fd));
	_exit(0);
}

/* K135 K311 */
START_TEST(memory_outlives_the_process_that_made_it)
{
	uint32_t handle, number;
	int sockets[2];
	uint8_t *seen;
	pid_t child;
	int fd;

	kmd_begin(_i);
	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
		0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		run_exporter(sockets[1]);
	ck_assert(pass_fd_receive(sockets[0], &number, &fd));
	ck_assert_int_ge(fd, 0);
	handle = kmd_import_fd(kmd_file, fd);
	wait_for_end(child);
	ck_assert_int_eq(close(fd), 0);
	seen = kmd_map(kmd_file, handle, READ_WRITE);
	for (size_t i = 0; i < SIZE; i++)
		ck_assert_uint_eq(seen[i], 0x33);
	ck_assert_int_eq(kmd->munmap(kmd_file, seen, SIZE), 0);
	ck_assert_int_eq(close(sockets[0]), 0);
	ck_assert_int_eq(close(sockets[1]), 0);
	kmd_end();
}
END_TEST

/* Waits for the other's turn to end, then its own begins. */
static bool take_turn(int from)
{
	char byte;

	return read(from, &byte, 1) == 1;
}

static bool give_turn(int to)
{
	return write(to, "", 1) == 1;
}

/*
 * Imports what was exported before the fork by a device of its own. What it
 * inherited is not its (K016).
 */
static void run_importer(int fd, int read_only, int from, int to)
{
	struct drm_prime_handle prime = { .fd = fd };
	struct drm_qbnpu_bo_info info = { 0 };
	int file, inherited = kmd_file;
	uint8_t *seen;
	void *data;

	STEP(1, kmd->ioctl(inherited, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) ==
			-ENODEV);
	STEP(2, kmd->ioctl(inherited, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) ==
			-ENODEV);
	STEP(3, !kmd->open(&kmd_options, kmd_node.path, &file));
	prime.fd = read_only;
	STEP(4, !kmd->ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	info.handle = prime.handle;
	STEP(5, !kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_INFO, &info));
	STEP(6, kmd->mmap(file, info.map_offset, SIZE, READ_WRITE, &data) ==
			-EACCES);
	STEP(7, !kmd->mmap(file, info.map_offset, SIZE, PROT_READ, &data));
	STEP(8, take_turn(from));
	seen = data;
	STEP(9, seen[0] == 1);
	STEP(10, !kmd->munmap(file, data, SIZE));
	prime.fd = fd;
	STEP(11, !kmd->ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	STEP(12, prime.handle == info.handle);
	STEP(13, !kmd->mmap(file, info.map_offset, SIZE, READ_WRITE, &data));
	seen = data;
	seen[0] = 2;
	STEP(14, give_turn(to) && take_turn(from));
	STEP(15, seen[0] == 3);
	STEP(16, !kmd->munmap(file, data, SIZE));
	kmd->close(file);
	_exit(0);
}

/* K134 K311 K016 K312 */
START_TEST(two_processes_share_bytes)
{
	int to_child[2], to_parent[2];
	struct kmd_buffer buffer;
	int fd, read_only;
	pid_t child;

	kmd_begin(_i);
	kmd_alloc(&buffer, SIZE);
	fd = kmd_export_fd(buffer.handle, DRM_RDWR);
	read_only = kmd_export_fd(buffer.handle, 0);
	ck_assert_int_eq(pipe2(to_child, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(to_parent, O_CLOEXEC), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		run_importer(fd, read_only, to_child[0], to_parent[1]);
	/* so that the end of a child that failed is seen */
	ck_assert_int_eq(close(to_parent[1]), 0);
	buffer.data[0] = 1;
	ck_assert(give_turn(to_child[1]));
	if (take_turn(to_parent[0])) {
		ck_assert_uint_eq(buffer.data[0], 2);
		buffer.data[0] = 3;
		ck_assert(give_turn(to_child[1]));
	}
	wait_for_end(child);
	ck_assert_int_eq(close(to_parent[0]), 0);
	ck_assert_int_eq(close(to_child[0]), 0);
	ck_assert_int_eq(close(to_child[1]), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(read_only), 0);
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

void kmd_share_process_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(memory_outlives_the_process_that_made_it),
		QBRT_TEST(two_processes_share_bytes),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
