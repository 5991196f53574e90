// SPDX-License-Identifier: MIT
/*
 * What the software driver takes as a buffer and what it gives away as one
 * (docs/spec/kernel.md, K133, K134, K306): files of the test's own making.
 */
#include "check-soft.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/udmabuf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "count-alloc.h"
#include "soft/soft.h"
#include "util.h"

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define SIZE 8192

static int make_memfd(unsigned int flags, off_t size, int seals)
{
	int fd = memfd_create("qbnpu-foreign",
			      flags | MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	if (seals)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int reopen(int fd, int flags)
{
	char path[32];
	int opened;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, flags | O_CLOEXEC);
	ck_assert_int_ge(opened, 0);
	return opened;
}

/* Takes fd. */
static void refuse(int fd)
{
	struct drm_prime_handle prime = { .fd = fd };

	ck_assert_int_ge(fd, 0);
	kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EINVAL);
	ck_assert_int_eq(close(fd), 0);
}

/* K133 */
START_TEST(what_is_no_memory_or_can_shrink_is_refused)
{
	char path[] = "/tmp/qbnpu-ordinary-XXXXXX";
	int sockets[2], pipes[2];
	int fd;

	kmd_begin(0);
	fd = mkostemp(path, O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(ftruncate(fd, SIZE), 0);
	refuse(fd);
	refuse(open("/", O_RDONLY | O_CLOEXEC));
	refuse(open("/dev/zero", O_RDWR | O_CLOEXEC));
	refuse(eventfd(0, EFD_CLOEXEC));
	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	refuse(sockets[0]);
	refuse(sockets[1]);
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	refuse(pipes[0]);
	refuse(pipes[1]);
	refuse(make_memfd(0, SIZE, 0));
	refuse(make_memfd(0, SIZE, F_SEAL_GROW | F_SEAL_WRITE));
	refuse(make_memfd(0, 0, F_SEAL_SHRINK));
	refuse(make_memfd(0, (off_t)QBNPU_SOFT_MAX_BO_SIZE + 4096,
			  F_SEAL_SHRINK));
	fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	refuse(reopen(fd, O_WRONLY));
	refuse(reopen(fd, O_PATH));
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

/* K133: locked by nobody, of no class; its size is read once */
START_TEST(a_memfd_that_cannot_shrink_is_a_buffer)
{
	struct drm_qbnpu_bo_info info;
	uint32_t handle;
	uint8_t *data;
	int fd;

	kmd_begin(0);
	fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	handle = kmd_import_fd(kmd_file, fd);
	/* the caller's place in the file is where it was */
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0);
	info = kmd_get_info(handle);
	ck_assert_uint_eq(info.flags, DRM_QBNPU_BO_IMPORTED);
	ck_assert_uint_eq(info.region, DRM_QBNPU_REGION_SYSTEM);
	ck_assert_uint_eq(info.contiguity, DRM_QBNPU_CONTIGUITY_NONE);
	ck_assert_uint_eq(info.segments, 0);
	ck_assert_uint_eq(info.size, SIZE);
	ck_assert_int_eq(ftruncate(fd, 4L * SIZE), 0);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
	ck_assert_uint_eq(kmd_get_info(handle).size, SIZE);
	ck_assert_int_eq(pwrite(fd, "x", 1, SIZE - 1), 1);
	ck_assert_int_eq(close(fd), 0);
	data = kmd_map(kmd_file, handle, READ_WRITE);
	ck_assert_uint_eq(data[SIZE - 1], 'x');
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	kmd_close_buffer(handle);
	kmd_end();
}
END_TEST

/* K131 K049: a copy of a descriptor, or one opened anew, is the same memory */
START_TEST(memory_is_known_by_its_file)
{
	uint32_t handle, other_handle;
	struct drm_qbnpu_bo_info info = { 0 };
	int fd, copy, other;

	kmd_begin(0);
	other = kmd_open_another();
	fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	handle = kmd_import_fd(kmd_file, fd);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, copy), handle);
	ck_assert_int_eq(close(copy), 0);
	copy = reopen(fd, O_RDONLY);
	ck_assert_uint_eq(kmd_import_fd(kmd_file, copy), handle);
	other_handle = kmd_import_fd(other, copy);
	ck_assert_int_eq(close(copy), 0);
	info.handle = other_handle;
	ck_assert_int_eq(kmd->ioctl(other, DRM_IOCTL_QBNPU_BO_INFO, &info), 0);
	ck_assert_uint_eq(info.id, kmd_get_info(handle).id);
	/* an import can be exported, and is the same again */
	copy = kmd_export_fd(handle, DRM_RDWR);
	ck_assert_uint_eq(kmd_import_fd(other, copy), other_handle);
	ck_assert_int_eq(close(copy), 0);
	ck_assert_uint_eq(kmd_get_info(handle).flags,
			  DRM_QBNPU_BO_IMPORTED | DRM_QBNPU_BO_EXPORTED);
	/* other memory is another buffer */
	copy = make_memfd(0, SIZE, F_SEAL_SHRINK);
	ck_assert_uint_ne(kmd_get_info(kmd_import_fd(kmd_file, copy)).id,
			  kmd_get_info(handle).id);
	ck_assert_int_eq(close(copy), 0);
	ck_assert_int_eq(close(fd), 0);
	kmd->close(other);
	kmd_end();
}
END_TEST

/* K134: nobody writes to it, through whatever descriptor */
START_TEST(a_write_sealed_memfd_is_read_only)
{
	static const int seals[] = { F_SEAL_WRITE, F_SEAL_FUTURE_WRITE };
	struct drm_prime_handle prime = { .flags = DRM_RDWR };
	struct drm_qbnpu_bo_info info;
	uint8_t *data;
	void *refused;
	int fd;

	kmd_begin(0);
	for (size_t i = 0; i < qbrt_array_size(seals); i++) {
		fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
		ck_assert_int_eq(pwrite(fd, "y", 1, 0), 1);
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
		prime.handle = kmd_import_fd(kmd_file, fd);
		ck_assert_int_eq(close(fd), 0);
		info = kmd_get_info(prime.handle);
		ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, SIZE,
					   READ_WRITE, &refused),
				 -EACCES);
		data = kmd_map(kmd_file, prime.handle, PROT_READ);
		ck_assert_uint_eq(data[0], 'y');
		ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
		kmd_refuse(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime, EACCES);
		fd = kmd_export_fd(prime.handle, 0);
		ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), prime.handle);
		ck_assert_int_eq(close(fd), 0);
	}
	kmd_end();
}
END_TEST

/* K133 K301 */
START_TEST(an_import_of_one_2_mib_page_is_contiguous)
{
	struct drm_qbnpu_bo_info info;
	uint64_t num, num_free;
	int fd;

	qbnpu_soft_query_huge_pages(&num, &num_free);
	if (!num_free)
		QBRT_TEST_SKIP("no free 2 MiB page");
	kmd_begin(0);
	fd = make_memfd(MFD_HUGETLB | MFD_HUGE_2MB, (off_t)QBNPU_SOFT_HUGE_SIZE,
			F_SEAL_SHRINK);
	info = kmd_get_info(kmd_import_fd(kmd_file, fd));
	ck_assert_uint_eq(info.contiguity, DRM_QBNPU_CONTIGUITY_HUGEPAGE);
	ck_assert_uint_eq(info.segments, 1);
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

static bool has_kind(int fd, const char *kind)
{
	char path[32], target[64] = "";

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_gt(readlink(path, target, sizeof(target) - 1), 0);
	return strstr(target, kind) != NULL;
}

/* K306: the kind of a writable export; a read-only one is a memfd */
START_TEST(an_export_is_a_dma_buf_where_the_kernel_makes_one)
{
	const char *kind = access("/dev/udmabuf", R_OK | W_OK)
				   ? "memfd:qbnpu-soft-bo"
				   : "dmabuf";
	uint64_t features = DRM_QBNPU_FEATURE_DMABUF_EXPORT |
			    DRM_QBNPU_FEATURE_DMABUF_IMPORT;
	uint32_t handle;
	int fd;

	kmd_begin(0);
	ck_assert(kmd_device.features & DRM_QBNPU_FEATURE_MEMFD);
	ck_assert_uint_eq(kmd_device.features & features,
			  *kind == 'd' ? features : 0);
	handle = kmd_create_buffer(SIZE);
	for (int i = 0; i < 3; i++) {
		fd = kmd_export_fd(handle, DRM_RDWR);
		ck_assert(has_kind(fd, kind));
		ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
		ck_assert_int_eq(close(fd), 0);
	}
	fd = kmd_export_fd(handle, 0);
	ck_assert(has_kind(fd, "memfd:qbnpu-soft-bo"));
	ck_assert_uint_eq(kmd_import_fd(kmd_file, fd), handle);
	ck_assert_int_eq(close(fd), 0);
	kmd_end();
}
END_TEST

/* K133: a dma-buf of somebody else */
START_TEST(a_foreign_dma_buf_is_a_buffer)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = SIZE };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	uint8_t *data;
	uint32_t handle;
	int memfd, fd;

	if (device < 0)
		QBRT_TEST_SKIP("no /dev/udmabuf");
	kmd_begin(0);
	memfd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	ck_assert_int_eq(pwrite(memfd, "z", 1, SIZE - 1), 1);
	create.memfd = (__u32)memfd;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	ck_assert_int_ge(fd, 0);
	handle = kmd_import_fd(kmd_file, fd);
	ck_assert_uint_eq(kmd_get_info(handle).size, SIZE);
	data = kmd_map(kmd_file, handle, READ_WRITE);
	ck_assert_uint_eq(data[SIZE - 1], 'z');
	ck_assert_int_eq(kmd->munmap(kmd_file, data, SIZE), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(close(memfd), 0);
	ck_assert_int_eq(close(device), 0);
	kmd_end();
}
END_TEST

/* K136: who imports did not lock it, and does not pay for it */
START_TEST(an_import_takes_nothing_from_the_region)
{
	struct drm_qbnpu_query_memory before, after;
	struct drm_qbnpu_query query = {
		.type = DRM_QBNPU_QUERY_MEMORY,
		.index = DRM_QBNPU_REGION_SYSTEM,
		.data = (uintptr_t)&before,
		.size = sizeof(before),
	};
	int fd;

	kmd_begin(0);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	kmd_import_fd(kmd_file, fd);
	ck_assert_int_eq(close(fd), 0);
	query.data = (uintptr_t)&after;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	ck_assert_uint_eq(after.free, before.free);
	ck_assert_uint_eq(after.client_used, before.client_used + SIZE);
	ck_assert_uint_eq(after.buffers, before.buffers + 1);
	kmd_end();
	kmd_begin(0);
	query.data = (uintptr_t)&after;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_QUERY, &query), 0);
	ck_assert_uint_eq(after.free, before.free);
	kmd_end();
}
END_TEST

/* Section 4, ST7 */
START_TEST(an_import_that_finds_nothing_left_changes_nothing)
{
	struct drm_prime_handle prime = { 0 };
	struct rlimit limit, none;
	long nth = 0;
	int err;

	kmd_begin(0);
	/* the handle table has its room */
	kmd_create_buffer(1);
	prime.fd = make_memfd(0, SIZE, F_SEAL_SHRINK);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3; /* standard input, output and error */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	kmd_refuse(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime, EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	do {
		count_alloc_begin(++nth);
		err = kmd_call(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
		(void)count_alloc_end();
		ck_assert(!err || err == -ENOMEM);
		if (err)
			ck_assert_uint_eq(prime.handle, 0);
	} while (err);
	/* the buffer and its handle */
	ck_assert_int_eq(nth, 3);
	ck_assert_int_eq(close(prime.fd), 0);
	kmd_end();
}
END_TEST

void soft_share_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(what_is_no_memory_or_can_shrink_is_refused),
		QBRT_TEST(a_memfd_that_cannot_shrink_is_a_buffer),
		QBRT_TEST(memory_is_known_by_its_file),
		QBRT_TEST(a_write_sealed_memfd_is_read_only),
		QBRT_TEST(an_import_of_one_2_mib_page_is_contiguous),
		QBRT_TEST(an_export_is_a_dma_buf_where_the_kernel_makes_one),
		QBRT_TEST(a_foreign_dma_buf_is_a_buffer),
		QBRT_TEST(an_import_takes_nothing_from_the_region),
		QBRT_TEST(an_import_that_finds_nothing_left_changes_nothing),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
