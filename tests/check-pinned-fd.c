// SPDX-License-Identifier: MIT
/*
 * Pinned memory by descriptor, between handles, threads and processes. What a
 * driver may answer is in check-pinned-fd-fail.c, what may run out in
 * check-pinned-fd-nth.c.
 */
#include "check-pinned-fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "kmd-bend.h"
#include "pinned-memory.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define NUM_THREADS 4
#define NUM_ROUNDS 100

struct qbrt_accelerator *acc;

void pinned_fd_open_device(void)
{
	kmd_bend.is_paged = true;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
}

struct qbrt_pinned_memory *pinned_fd_alloc(void)
{
	const int64_t shape[] = { PINNED_FD_NBYTES };
	struct qbrt_pinned_memory *mem;

	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 1,
					      NULL, &mem));
	return mem;
}

int pinned_fd_export(struct qbrt_pinned_memory *mem)
{
	int fd = -1;

	ck_assert_ok(qbrt_pinned_memory_export_fd(mem, &fd));
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	return fd;
}

enum qbrt_status pinned_fd_try_import(int fd, size_t offset, int64_t num_bytes,
				      struct qbrt_pinned_memory **mem)
{
	return qbrt_pinned_memory_import_fd(acc, fd, offset, QBRT_DTYPE_UINT8,
					    &num_bytes, 1, mem);
}

struct qbrt_pinned_memory *pinned_fd_import(int fd)
{
	struct qbrt_pinned_memory *mem;

	ck_assert_ok(pinned_fd_try_import(fd, 0, PINNED_FD_NBYTES, &mem));
	return mem;
}

uint8_t *pinned_fd_get_data(const struct qbrt_pinned_memory *mem)
{
	return qbrt_pinned_memory_get_data(mem);
}

void pinned_fd_refuse(int fd, size_t offset, int64_t num_bytes,
		      enum qbrt_status status, const char *detail)
{
	unsigned long live = atomic_load(&qbrt_counters.live_buffers);
	struct qbrt_pinned_memory *mem = PINNED_FD_SENTINEL;

	ck_assert_status(pinned_fd_try_import(fd, offset, num_bytes, &mem),
			 status);
	ck_assert_detail(detail);
	ck_assert_ptr_eq(mem, PINNED_FD_SENTINEL);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.live_buffers), live);
}

int pinned_fd_reopen_read_only(int fd)
{
	char path[32];
	int opened;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(opened, 0);
	return opened;
}

/* Q500: whichever handle is freed first */
START_TEST(an_import_is_the_same_memory)
{
	struct qbrt_pinned_memory *one, *two, *three;
	int fd;

	pinned_fd_open_device();
	one = pinned_fd_alloc();
	pinned_fd_get_data(one)[7] = 70;
	fd = pinned_fd_export(one);
	two = pinned_fd_import(fd);
	three = pinned_fd_import(fd);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_uint_eq(one->storage->buffer.id, two->storage->buffer.id);
	ck_assert_str_eq(qbrt_pinned_memory_get_device(two), "aries-rb:0");
	ck_assert_uint_eq(qbrt_pinned_memory_get_nbytes(two), PINNED_FD_NBYTES);
	ck_assert(!qbrt_pinned_memory_is_read_only(one));
	ck_assert(!qbrt_pinned_memory_is_read_only(two));
	ck_assert_uint_eq(pinned_fd_get_data(two)[7], 70);
	if (_i)
		qbrt_pinned_memory_free(one);
	pinned_fd_get_data(two)[8] = 80;
	if (!_i)
		ck_assert_uint_eq(pinned_fd_get_data(one)[8], 80);
	qbrt_pinned_memory_free(two);
	ck_assert_uint_eq(pinned_fd_get_data(three)[8], 80);
	if (!_i) {
		pinned_fd_get_data(three)[8] = 81;
		ck_assert_uint_eq(pinned_fd_get_data(one)[8], 81);
		fd = pinned_fd_export(one);
		ck_assert_int_eq(close(fd), 0);
		qbrt_pinned_memory_free(one);
	}
	ck_assert_uint_eq(pinned_fd_get_data(three)[7], 70);
	qbrt_pinned_memory_free(three);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q500 */
START_TEST(an_import_may_begin_inside_the_buffer)
{
	const int64_t shape[] = { 2, 8 }, index[] = { 1, 3 };
	struct qbrt_pinned_memory *mem, *view;
	uint64_t address, view_address;
	float value = 1.5f;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	fd = pinned_fd_export(mem);
	ck_assert_ok(qbrt_pinned_memory_import_fd(
		acc, fd, 128, QBRT_DTYPE_FLOAT32, shape, 2, &view));
	ck_assert_ok(qbrt_pinned_memory_write_at(view, index, 2,
						 QBRT_DTYPE_FLOAT32, &value));
	ck_assert_mem_eq(pinned_fd_get_data(mem) + 128 + 11 * sizeof(value),
			 &value, sizeof(value));
	pinned_fd_get_data(view)[0] = 9;
	ck_assert_uint_eq(pinned_fd_get_data(mem)[128], 9);
	ck_assert_ok(qbrt_pinned_memory_query_device_address(mem, &address));
	ck_assert_ok(
		qbrt_pinned_memory_query_device_address(view, &view_address));
	ck_assert_uint_eq(view_address, address + 128);
	qbrt_pinned_memory_free(view);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q500 */
START_TEST(bad_arguments_are_refused)
{
	const int64_t shape[] = { 1 };
	struct qbrt_pinned_memory *mem;
	int fd = 77, pipes[2];

	ck_assert_status(qbrt_pinned_memory_export_fd(NULL, &fd),
			 QBRT_INVALID_ARGUMENT);
	ck_assert(!qbrt_pinned_memory_is_read_only(NULL));
	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	ck_assert_status(qbrt_pinned_memory_export_fd(mem, NULL),
			 QBRT_INVALID_ARGUMENT);
	qbrt_pinned_memory_free(mem);
	mem = PINNED_FD_SENTINEL;
	ck_assert_status(qbrt_pinned_memory_import_fd(
				 NULL, 0, 0, QBRT_DTYPE_UINT8, shape, 1, &mem),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_import_fd(
				 acc, 0, 0, QBRT_DTYPE_UINT8, NULL, 1, &mem),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_import_fd(
				 acc, 0, 0, QBRT_DTYPE_UINT8, shape, 1, NULL),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_status(qbrt_pinned_memory_import_fd(acc, 0, 0,
						      (enum qbrt_dtype)99,
						      shape, 1, &mem),
			 QBRT_INVALID_ARGUMENT);
	ck_assert_ptr_eq(mem, PINNED_FD_SENTINEL);
	pinned_fd_refuse(-1, 0, 1, QBRT_INVALID_ARGUMENT, "descriptor -1");
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	pinned_fd_refuse(pipes[0], 0, 1, QBRT_INVALID_ARGUMENT,
			 "a memfd that cannot shrink");
	/* the descriptor stays the caller's */
	ck_assert_int_eq(close(pipes[0]), 0);
	ck_assert_int_eq(close(pipes[1]), 0);
	pinned_fd_refuse(pipes[0], 0, 1, QBRT_INVALID_ARGUMENT, "expected");
	ck_assert_int_eq(fd, 77);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q500 K134: also where this device has the writable buffer itself */
START_TEST(a_read_only_descriptor_gives_memory_to_read)
{
	const struct qbrt_slice whole = { .count = PINNED_FD_NBYTES,
					  .step = 1 };
	const int64_t shape[] = { PINNED_FD_NBYTES }, index[] = { 3 };
	struct qbrt_pinned_memory *mem, *view;
	struct qbrt_array array = { 0 };
	static uint8_t bytes[PINNED_FD_NBYTES];
	uint8_t value = 4;
	int fd, read_only;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	memset(pinned_fd_get_data(mem), 0x42, PINNED_FD_NBYTES);
	fd = pinned_fd_export(mem);
	read_only = pinned_fd_reopen_read_only(fd);
	ck_assert_int_eq(close(fd), 0);
	if (_i) {
		qbrt_pinned_memory_free(mem);
		mem = NULL;
	}
	view = pinned_fd_import(read_only);
	ck_assert(qbrt_pinned_memory_is_read_only(view));
	ck_assert_ok(qbrt_pinned_memory_read_at(view, index, 1,
						QBRT_DTYPE_UINT8, &value));
	ck_assert_uint_eq(value, 0x42);
	array.data = bytes;
	array.dtype = QBRT_DTYPE_UINT8;
	array.ndim = 1;
	array.shape = shape;
	ck_assert_status(qbrt_pinned_memory_write_at(view, index, 1,
						     QBRT_DTYPE_UINT8, &value),
			 QBRT_PINNED_MEMORY_READ_ONLY);
	ck_assert_status(
		qbrt_pinned_memory_write_slice(view, &whole, 1, &array),
		QBRT_PINNED_MEMORY_READ_ONLY);
	ck_assert_status(
		qbrt_pinned_memory_fill(view, QBRT_DTYPE_UINT8, &value),
		QBRT_PINNED_MEMORY_READ_ONLY);
	ck_assert_detail("read-only descriptor");
	fd = pinned_fd_export(view);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(read_only), 0);
	qbrt_pinned_memory_free(view);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q473: never pooled, whichever way it was shared */
START_TEST(a_shared_buffer_is_not_kept)
{
	struct qbrt_pinned_memory *mem, *view, *next;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	memset(pinned_fd_get_data(mem), 0x11, PINNED_FD_NBYTES);
	fd = pinned_fd_export(mem);
	view = pinned_fd_import(fd);
	qbrt_pinned_memory_free(mem);
	qbrt_pinned_memory_free(view);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), 0);
	/* who holds the descriptor is the only one who writes to it */
	next = pinned_fd_alloc();
	pinned_fd_get_data(next)[0] = 0x22;
	view = pinned_fd_import(fd);
	ck_assert_uint_eq(pinned_fd_get_data(view)[0], 0x11);
	ck_assert_uint_ne(view->storage->buffer.id, next->storage->buffer.id);
	qbrt_pinned_memory_free(next);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes),
			  PINNED_FD_NBYTES);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(view);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q495: the descriptor alone keeps the memory, not the device */
START_TEST(a_descriptor_outlives_the_device)
{
	struct qbrt_pinned_memory *mem;
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	memset(pinned_fd_get_data(mem), 0x33, PINNED_FD_NBYTES);
	fd = pinned_fd_export(mem);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
	pinned_fd_open_device();
	mem = pinned_fd_import(fd);
	qbrt_accelerator_close(acc);
	ck_assert_int_eq(close(fd), 0);
	for (int i = 0; i < PINNED_FD_NBYTES; i++)
		ck_assert_uint_eq(pinned_fd_get_data(mem)[i], 0x33);
	qbrt_pinned_memory_free(mem);
}
END_TEST

#define STEP(number, condition) \
	do { \
		if (!(condition)) \
			_exit(number); \
	} while (0)

static bool take_turn(int from)
{
	char byte;

	return read(from, &byte, 1) == 1;
}

static bool give_turn(int to)
{
	return write(to, "", 1) == 1;
}

/* Has what it inherited refused, and opens a device of its own. */
static void run_child(struct qbrt_pinned_memory *inherited, int fd, int from,
		      int to)
{
	struct qbrt_pinned_memory *mem;
	int other;

	STEP(1, pinned_fd_try_import(fd, 0, 1, &mem) == QBRT_FORKED_PROCESS);
	STEP(2, qbrt_pinned_memory_export_fd(inherited, &other) ==
			QBRT_FORKED_PROCESS);
	STEP(3, !qbrt_accelerator_open(NULL, -1, &acc));
	STEP(4, !pinned_fd_try_import(fd, 64, PINNED_FD_NBYTES - 64, &mem));
	STEP(5, take_turn(from));
	STEP(6, pinned_fd_get_data(mem)[0] == 1);
	pinned_fd_get_data(mem)[1] = 2;
	STEP(7, give_turn(to) && take_turn(from));
	STEP(8, pinned_fd_get_data(mem)[2] == 3);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
	_exit(0);
}

/* Q500 Q495 */
START_TEST(two_processes_share_memory)
{
	int to_child[2], to_parent[2], fd, status;
	struct qbrt_pinned_memory *mem;
	pid_t child;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	fd = pinned_fd_export(mem);
	ck_assert_int_eq(pipe2(to_child, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(to_parent, O_CLOEXEC), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		run_child(mem, fd, to_child[0], to_parent[1]);
	/* so that the end of a child that failed is seen */
	ck_assert_int_eq(close(to_parent[1]), 0);
	pinned_fd_get_data(mem)[64] = 1;
	ck_assert(give_turn(to_child[1]));
	if (take_turn(to_parent[0])) {
		ck_assert_uint_eq(pinned_fd_get_data(mem)[65], 2);
		pinned_fd_get_data(mem)[66] = 3;
		/* the child keeps it */
		qbrt_pinned_memory_free(mem);
		mem = NULL;
		ck_assert(give_turn(to_child[1]));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status),
		      "the child failed at step %d", WEXITSTATUS(status));
	ck_assert_int_eq(close(to_parent[0]), 0);
	ck_assert_int_eq(close(to_child[0]), 0);
	ck_assert_int_eq(close(to_child[1]), 0);
	ck_assert_int_eq(close(fd), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

static void *share(void *arg)
{
	struct qbrt_pinned_memory *mem = arg;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		int fd = pinned_fd_export(mem);
		struct qbrt_pinned_memory *view = pinned_fd_import(fd);

		ck_assert_int_eq(close(fd), 0);
		ck_assert_uint_eq(pinned_fd_get_data(view)[0], 0x55);
		ck_assert_uint_eq(view->storage->buffer.id,
				  mem->storage->buffer.id);
		qbrt_pinned_memory_free(view);
	}
	return NULL;
}

/* The first import of one thread may be the last free of another. */
START_TEST(four_threads_export_and_import)
{
	struct qbrt_pinned_memory *mem;
	pthread_t threads[NUM_THREADS];

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	pinned_fd_get_data(mem)[0] = 0x55;
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, share, mem),
				 0);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

static void *import_again_and_again(void *arg)
{
	const int *fd = arg;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		struct qbrt_pinned_memory *view = pinned_fd_import(*fd);

		ck_assert_uint_eq(pinned_fd_get_data(view)[0], 0x55);
		qbrt_pinned_memory_free(view);
	}
	return NULL;
}

/* Where no other handle keeps the buffer between two imports. */
START_TEST(four_threads_import_what_nobody_else_holds)
{
	struct qbrt_pinned_memory *mem;
	pthread_t threads[NUM_THREADS];
	int fd;

	pinned_fd_open_device();
	mem = pinned_fd_alloc();
	pinned_fd_get_data(mem)[0] = 0x55;
	fd = pinned_fd_export(mem);
	qbrt_pinned_memory_free(mem);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						import_again_and_again, &fd),
				 0);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(close(fd), 0);
	qbrt_accelerator_close(acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(an_import_is_the_same_memory, 2),
		QBRT_TEST(an_import_may_begin_inside_the_buffer),
		QBRT_TEST(bad_arguments_are_refused),
		QBRT_LOOP_TEST(a_read_only_descriptor_gives_memory_to_read, 2),
		QBRT_TEST(a_shared_buffer_is_not_kept),
		QBRT_TEST(a_descriptor_outlives_the_device),
		QBRT_TEST(two_processes_share_memory),
		QBRT_TEST(four_threads_export_and_import),
		QBRT_TEST(four_threads_import_what_nobody_else_holds),
	};
	static struct qbrt_tests all;

	qbrt_tests_add(&all, tests, qbrt_array_size(tests));
	pinned_fd_add_fail_tests(&all);
	pinned_fd_add_nth_tests(&all);
	return qbrt_test_run("pinned-fd", all.tests, all.num);
}
