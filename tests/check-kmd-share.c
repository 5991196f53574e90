// SPDX-License-Identifier: MIT
/*
 * Buffers by descriptor (docs/spec/kernel.md, 3: K130 to K136), among the files
 * and threads of one process.
 */
#include "check-kmd.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util.h"

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define SIZE 8192u
#define NUM_THREADS 4
#define NUM_ROUNDS 200

static struct drm_qbnpu_bo_info get_info(int file, uint32_t handle)
{
	struct drm_qbnpu_bo_info info = { .handle = handle };

	ck_assert_int_eq(kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_INFO, &info), 0);
	return info;
}

static uint64_t query_used(int file)
{
	struct drm_qbnpu_query_memory memory;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.index = DRM_QBNPU_REGION_SYSTEM,
		.data = (uintptr_t)&memory,
		.size = sizeof(memory),
	};

	ck_assert_int_eq(kmd->ioctl(file, DRM_IOCTL_QBNPU_QUERY, &query), 0);
	return memory.client_used;
}

/* K130 */
START_TEST(an_export_has_the_rights_that_were_asked_for)
{
	struct kmd_buffer buffer;
	int writable, read_only;
	uint8_t *seen;

	kmd_begin(_i);
	kmd_alloc(&buffer, SIZE);
	ck_assert(!(kmd_get_info(buffer.handle).flags & DRM_QBNPU_BO_EXPORTED));
	memset(buffer.data, 0x5a, buffer.size);
	writable = kmd_export_fd(buffer.handle, DRM_RDWR);
	read_only = kmd_export_fd(buffer.handle, DRM_CLOEXEC);
	ck_assert_int_ne(writable, read_only);
	ck_assert_int_eq(fcntl(writable, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(read_only, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(writable, F_GETFL) & O_ACCMODE, O_RDWR);
	ck_assert_int_eq(fcntl(read_only, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_ptr_eq(mmap(NULL, SIZE, READ_WRITE, MAP_SHARED, read_only, 0),
			 MAP_FAILED);
	ck_assert_int_eq(errno, EACCES);
	seen = mmap(NULL, SIZE, READ_WRITE, MAP_SHARED, writable, 0);
	ck_assert_ptr_ne(seen, MAP_FAILED);
	ck_assert_uint_eq(seen[SIZE - 1], 0x5a);
	seen[0] = 1;
	ck_assert_uint_eq(buffer.data[0], 1);
	/* whole pages, which may be of 2 MiB */
	ck_assert_int_eq(munmap(seen, (size_t)lseek(writable, 0, SEEK_END)), 0);
	ck_assert(kmd_get_info(buffer.handle).flags & DRM_QBNPU_BO_EXPORTED);
	ck_assert_int_eq(close(writable), 0);
	ck_assert_int_eq(close(read_only), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(close(kmd_export_fd(buffer.handle, DRM_RDWR)),
				 0);
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

/* K002 K003 K130 */
START_TEST(bad_exports_and_imports_are_refused)
{
	struct drm_prime_handle prime = { 0 };
	int pipes[2];
	int fd;

	kmd_begin(_i);
	prime.fd = -7;
	kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, ENOENT);
	prime.handle = 77;
	kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, ENOENT);
	prime.handle = kmd_create_buffer(SIZE);
	fd = kmd_export_fd(prime.handle, DRM_RDWR);
	for (int bit = 0; bit < 32; bit++) {
		prime.flags = 1u << bit;
		if (prime.flags & (DRM_RDWR | DRM_CLOEXEC))
			continue;
		kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, EINVAL);
		prime.fd = fd;
		kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EINVAL);
	}
	prime.flags = 0;
	ck_assert_int_eq(close(fd), 0);
	prime.fd = fd;
	kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EBADF);
	prime.fd = -1;
	kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EBADF);
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	prime.fd = pipes[0];
	kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EINVAL);
	ck_assert_int_eq(close(pipes[0]), 0);
	ck_assert_int_eq(close(pipes[1]), 0);
	kmd_end();
}
END_TEST

/* K131: no handle more, so no GEM_CLOSE more */
START_TEST(importing_ones_own_buffer_gives_its_handle)
{
	struct drm_gem_close gem_close = { 0 };
	uint32_t handle;
	uint64_t used;
	int fd;

	kmd_begin(_i);
	handle = kmd_create_buffer(SIZE);
	used = query_used(kmd_file);
	fd = kmd_export_fd(handle, DRM_RDWR);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
	ck_assert_uint_eq(query_used(kmd_file), used);
	kmd_close_buffer(handle);
	gem_close.handle = handle;
	kmd_refuse(DRM_IOCTL_GEM_CLOSE, &gem_close, EINVAL);
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

/* K049 K131 K008 */
START_TEST(another_file_sees_the_same_buffer)
{
	struct kmd_buffer buffer;
	uint32_t other_handle;
	uint8_t *seen;
	int other, fd;

	kmd_begin(_i);
	other = kmd_open_another();
	/* so that equal numbers would be another buffer */
	kmd_create_buffer(SIZE);
	kmd_alloc(&buffer, SIZE);
	fd = kmd_export_fd(buffer.handle, DRM_RDWR);
	other_handle = kmd_import_fd(other, fd);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_uint_ne(other_handle, buffer.handle);
	ck_assert_uint_eq(get_info(other, other_handle).id,
			  kmd_get_info(buffer.handle).id);
	ck_assert_uint_eq(get_info(other, other_handle).size, buffer.size);
	ck_assert_uint_eq(get_info(other, other_handle).device_addr,
			  kmd_get_info(buffer.handle).device_addr);
	seen = kmd_map(other, other_handle, READ_WRITE);
	buffer.data[5] = 55;
	ck_assert_uint_eq(seen[5], 55);
	kmd_free(&buffer);
	seen[5] = 56;
	ck_assert_int_eq(kmd->munmap(other, seen, SIZE), 0);
	kmd->close(other);
	kmd_end();
}
END_TEST

/* K046 K135: no handle and no file is left, only the descriptor */
START_TEST(a_descriptor_keeps_the_memory)
{
	struct kmd_buffer buffer, next;
	uint32_t handle;
	uint8_t *seen;
	int fd, other;

	kmd_begin(_i);
	kmd_alloc(&buffer, SIZE);
	memset(buffer.data, 0x77, buffer.size);
	fd = kmd_export_fd(buffer.handle, DRM_RDWR);
	kmd_free(&buffer);
	for (int i = 0; i < 20; i++) {
		kmd_alloc(&next, SIZE);
		memset(next.data, 0xa5, next.size);
		kmd_free(&next);
	}
	kmd_end();
	kmd_begin(_i);
	other = kmd_open_another();
	handle = kmd_import_fd(other, fd);
	ck_assert_int_eq(close(fd), 0);
	seen = kmd_map(other, handle, READ_WRITE);
	for (size_t i = 0; i < SIZE; i++)
		ck_assert_uint_eq(seen[i], 0x77);
	kmd->close(other);
	seen[0] = 1;
	ck_assert_int_eq(kmd->munmap(other, seen, SIZE), 0);
	kmd_end();
}
END_TEST

static void refuse_writes(const struct kmd_set *set,
			  const struct kmd_buffer *shared)
{
	struct drm_prime_handle prime = {
		.handle = shared->handle,
		.flags = DRM_RDWR,
	};
	struct drm_qbnpu_copy copy = {
		.queue = set->queue,
		.src = set->input.handle,
		.dst = shared->handle,
		.rank = 1,
		.element_size = 1,
		.dims = { KMD_BYTES },
		.src_strides = { 1 },
		.dst_strides = { 1 },
	};
	struct drm_qbnpu_bo_info info = kmd_get_info(shared->handle);
	struct kmd_job job;
	void *data;

	ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, info.size,
				   READ_WRITE, &data),
			 -EACCES);
	kmd_prepare(&job, set->queue, set->copy64, &set->input, shared);
	kmd_refuse_but(DRM_IOCTL_QBNPU_SUBMIT, &job.submit, EACCES,
		       offsetof(struct drm_qbnpu_submit, fail_what),
		       sizeof(job.submit));
	ck_assert_uint_eq(job.submit.fail_what, DRM_QBNPU_FAIL_BINDING);
	ck_assert_uint_eq(job.submit.fail_index, 1);
	kmd_refuse_but(DRM_IOCTL_QBNPU_COPY, &copy, EACCES,
		       offsetof(struct drm_qbnpu_copy, fail_what),
		       offsetof(struct drm_qbnpu_copy, dims));
	ck_assert_uint_eq(copy.fail_what, DRM_QBNPU_FAIL_DESTINATION);
	kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, EACCES);
}

static void allow_reads(const struct kmd_set *set,
			const struct kmd_buffer *shared)
{
	struct kmd_job job;
	uint8_t *data;

	data = kmd_map(kmd_file, shared->handle, PROT_READ);
	ck_assert_uint_eq(data[KMD_BYTES - 1], 0x66);
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	kmd_prepare(&job, set->queue, set->copy64, shared, &set->output);
	ck_assert_int_eq(kmd_wait(set->queue, kmd_submit(&job)).status, 0);
	ck_assert_uint_eq(set->output.data[KMD_BYTES - 1], 0x66);
	ck_assert_int_eq(close(kmd_export_fd(shared->handle, 0)), 0);
}

static void allow_writes(const struct kmd_set *set,
			 const struct kmd_buffer *shared)
{
	struct kmd_job job;
	uint8_t *data;

	kmd_prepare(&job, set->queue, set->copy64, &set->input, shared);
	ck_assert_int_eq(kmd_wait(set->queue, kmd_submit(&job)).status, 0);
	data = kmd_map(kmd_file, shared->handle, READ_WRITE);
	ck_assert_mem_eq(data, set->input.data, KMD_BYTES);
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	ck_assert_int_eq(close(kmd_export_fd(shared->handle, DRM_RDWR)), 0);
}

/* Another file of the device imports; its maker may be gone by then. */
static void import_read_only(int driver, bool is_maker_gone)
{
	struct kmd_buffer made, shared = { 0 };
	int maker, fd, writable;
	struct kmd_set set;

	kmd_begin(driver);
	maker = kmd_file;
	kmd_alloc(&made, SIZE);
	memset(made.data, 0x66, SIZE);
	fd = kmd_export_fd(made.handle, 0);
	writable = kmd_export_fd(made.handle, DRM_RDWR);
	if (is_maker_gone) {
		kmd_free(&made);
		kmd->close(maker);
	}
	kmd_begin_set(driver, &set);
	shared.handle = kmd_import_fd(kmd_file, fd);
	refuse_writes(&set, &shared);
	allow_reads(&set, &shared);
	/* who has a writable descriptor may write from then on */
	ck_assert_uint_eq(kmd_import_fd(kmd_file, writable), shared.handle);
	allow_writes(&set, &shared);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), shared.handle);
	allow_writes(&set, &shared);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(writable), 0);
	kmd_end_set(&set);
	if (!is_maker_gone) {
		kmd_file = maker;
		kmd_free(&made);
		kmd->close(maker);
	}
}

/* K134 K080 */
START_TEST(a_read_only_descriptor_gives_read_bindings)
{
	import_read_only(_i, false);
}
END_TEST

/* K134 K135 */
START_TEST(a_read_only_descriptor_is_all_that_is_left)
{
	import_read_only(_i, true);
}
END_TEST

/* K136 */
START_TEST(imports_count_as_used)
{
	struct drm_gem_close gem_close = { 0 };
	uint32_t handle;
	int other, fd;
	uint64_t size;

	kmd_begin(_i);
	other = kmd_open_another();
	handle = kmd_create_buffer(SIZE);
	size = kmd_get_info(handle).size;
	fd = kmd_export_fd(handle, DRM_RDWR);
	ck_assert_uint_eq(query_used(other), 0);
	gem_close.handle = kmd_import_fd(other, fd);
	ck_assert_uint_eq(query_used(other), size);
	ck_assert_uint_eq(kmd_import_fd(other, fd), gem_close.handle);
	ck_assert_uint_eq(query_used(other), size);
	ck_assert_int_eq(kmd->ioctl(other, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	ck_assert_uint_eq(query_used(other), 0);
	ck_assert_uint_eq(query_used(kmd_file), size);
	ck_assert_int_eq(close(fd), 0);
	kmd->close(other);
	kmd_end();
}
END_TEST

/* Section 4: EMFILE where no descriptor is left, and nothing is changed */
START_TEST(an_export_without_a_descriptor_left_is_refused)
{
	struct drm_prime_handle prime = { .fd = -7 };
	struct rlimit limit, none;

	kmd_begin(_i);
	prime.handle = kmd_create_buffer(SIZE);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3; /* standard input, output and error */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, EMFILE);
	prime.flags = DRM_RDWR;
	kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(close(kmd_export_fd(prime.handle, DRM_RDWR)), 0);
	kmd_end();
}
END_TEST

struct shared {
	int other, fd;
	uint32_t handle;
};

/* Imports, exports and closes under the hands of the others. */
static void *share(void *arg)
{
	const struct shared *shared = arg;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		struct drm_prime_handle prime = { .flags = DRM_RDWR };
		struct drm_gem_close gem_close = { 0 };
		int err;

		gem_close.handle = kmd_import_fd(shared->other, shared->fd);
		ck_assert_uint_eq(kmd_import_fd(kmd_file, shared->fd),
				  shared->handle);
		prime.handle = gem_close.handle;
		err = kmd->ioctl(shared->other, DRM_IOCTL_PRIME_HANDLE_TO_FD,
				 &prime);
		/* another thread may have closed it */
		ck_assert(!err || err == -ENOENT);
		if (!err)
			ck_assert_int_eq(close(prime.fd), 0);
		err = kmd->ioctl(shared->other, DRM_IOCTL_GEM_CLOSE,
				 &gem_close);
		ck_assert(!err || err == -EINVAL);
	}
	return NULL;
}

/* K011 K049 */
START_TEST(four_threads_share_one_buffer)
{
	pthread_t threads[NUM_THREADS];
	struct shared shared;

	kmd_begin(_i);
	shared.other = kmd_open_another();
	shared.handle = kmd_create_buffer(SIZE);
	shared.fd = kmd_export_fd(shared.handle, DRM_RDWR);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, share, &shared), 0);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(query_used(shared.other), 0);
	ck_assert_uint_eq(
		get_info(shared.other, kmd_import_fd(shared.other, shared.fd))
			.id,
		kmd_get_info(shared.handle).id);
	ck_assert_int_eq(close(shared.fd), 0);
	kmd->close(shared.other);
	kmd_end();
}
END_TEST

/* A file of its own each round, whose end takes the handle along. */
static void *share_among_files(void *arg)
{
	const struct shared *shared = arg;

	for (int i = 0; i < NUM_ROUNDS; i++) {
		struct drm_prime_handle prime = { .flags = DRM_RDWR };
		int file = kmd_open_another();
		uint8_t *data;

		prime.handle = kmd_import_fd(file, shared->fd);
		data = kmd_map(file, prime.handle, READ_WRITE);
		ck_assert_uint_eq(data[1], 0x5a);
		ck_assert_int_eq(
			kmd->ioctl(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime),
			0);
		kmd->close(file);
		ck_assert_uint_eq(data[1], 0x5a);
		ck_assert_int_eq(kmd->munmap(file, data, SIZE), 0);
		ck_assert_int_eq(close(prime.fd), 0);
	}
	return NULL;
}

/* K011 K046: nobody but the descriptor holds it between two rounds */
START_TEST(files_close_while_others_import)
{
	struct kmd_buffer buffer;
	pthread_t threads[NUM_THREADS];
	struct shared shared;

	kmd_begin(_i);
	kmd_alloc(&buffer, SIZE);
	buffer.data[1] = 0x5a;
	shared.fd = kmd_export_fd(buffer.handle, DRM_RDWR);
	kmd_free(&buffer);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						share_among_files, &shared),
				 0);
	for (int i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(close(shared.fd), 0);
	kmd_end();
}
END_TEST

void kmd_share_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(an_export_has_the_rights_that_were_asked_for),
		QBRT_TEST(bad_exports_and_imports_are_refused),
		QBRT_TEST(importing_ones_own_buffer_gives_its_handle),
		QBRT_TEST(another_file_sees_the_same_buffer),
		QBRT_TEST(a_descriptor_keeps_the_memory),
		QBRT_TEST(a_read_only_descriptor_gives_read_bindings),
		QBRT_TEST(a_read_only_descriptor_is_all_that_is_left),
		QBRT_TEST(imports_count_as_used),
		QBRT_TEST(an_export_without_a_descriptor_left_is_refused),
		QBRT_TEST(four_threads_share_one_buffer),
		QBRT_TEST(files_close_while_others_import),
	};

	kmd_add_tests(all, tests, qbrt_array_size(tests));
}
