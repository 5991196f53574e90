// SPDX-License-Identifier: MIT
/*
 * Where the software driver's memory comes from (docs/spec/kernel.md, 8). The
 * driver's own descriptors are found by their names in /proc.
 */
#include "check-soft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soft/soft-registry.h"
#include "soft/soft.h"
#include "util.h"

#define NOBODY 65534

/* The descriptor of the memfd with this name; -1: there is none. */
static int find_memfd(const char *name)
{
	char link[64], target[128];
	int found = -1;

	for (int fd = 3; fd < 64 && found < 0; fd++) {
		ssize_t length;

		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = 0;
		if (strstr(target, name))
			found = fd;
	}
	return found;
}

/* K304 K317: nothing that is mapped can shrink */
START_TEST(memory_files_are_sealed)
{
	const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fd;

	kmd_begin(0);
	kmd_create_buffer(4096);
	fd = find_memfd("memfd:qbnpu-soft-bo");
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GET_SEALS), size_seals);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	fd = find_memfd("memfd:qbnpu-soft-progress");
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GET_SEALS),
			 size_seals | F_SEAL_FUTURE_WRITE);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	kmd_end();
}
END_TEST

/* K045 K305: the device uses the caller's own addresses */
START_TEST(the_device_address_is_that_of_the_mapping)
{
	struct kmd_buffer buffer;

	kmd_begin(0);
	kmd_alloc(&buffer, 4096);
	ck_assert_uint_eq(kmd_get_info(buffer.handle).device_addr,
			  (uintptr_t)buffer.data);
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

/* K319 Q121 K305: the account of LOCAL is the configured one */
START_TEST(device_memory_is_what_was_configured)
{
	struct drm_qbnpu_bo_create create = { .size = (1 << 20) + 1 };
	int file;

	kmd_begin(0);
	kmd_end();
	kmd_options.soft_memory = 1 << 20;
	ck_assert_int_eq(kmd->open(&kmd_options, "soft:0", &file), 0);
	kmd_file = file;
	kmd_refuse_but(DRM_IOCTL_QBNPU_BO_CREATE, &create, ENOMEM,
		       offsetof(struct drm_qbnpu_bo_create, limit),
		       sizeof(create));
	ck_assert_uint_eq(create.limit, 1 << 20);
	create.size = 1 << 20;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	ck_assert_uint_eq(create.size, 1 << 20);
	create.size = 1;
	kmd_refuse_but(DRM_IOCTL_QBNPU_BO_CREATE, &create, ENOMEM,
		       offsetof(struct drm_qbnpu_bo_create, limit),
		       sizeof(create));
	ck_assert_uint_eq(create.limit, 0);
	kmd_end();
}
END_TEST

/* In a child without privileges: 0, or the number of what went wrong. */
static int try_lock_limit(void)
{
	const struct rlimit limit = { 64 << 10, 64 << 10 };
	struct drm_qbnpu_bo_create create = {
		.size = (64 << 10) + 1,
		.region = DRM_QBNPU_REGION_SYSTEM,
	};
	int file;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(NOBODY) ||
	    setuid(NOBODY))
		return 1;
	if (kmd->open(&kmd_options, "soft:0", &file))
		return 2;
	/* with 2 MiB pages nothing is locked */
	if (!kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create))
		return create.contiguity == DRM_QBNPU_CONTIGUITY_LOCKED ? 3 : 0;
	if (create.limit != 64 << 10)
		return 4;
	create.size = 60 << 10;
	if (kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create))
		return 5;
	create.size = 8 << 10;
	if (kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create) != -ENOMEM)
		return 6;
	if (create.limit != 4 << 10)
		return 7;
	create.size = create.limit;
	if (kmd->ioctl(file, DRM_IOCTL_QBNPU_BO_CREATE, &create))
		return 8;
	kmd->close(file);
	return 0;
}

/* K303 K140 K526 */
START_TEST(the_lock_limit_is_told)
{
	int status;
	pid_t child;

	if (geteuid())
		QBRT_TEST_SKIP("cannot become user 65534");
	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("the sanitizer's mlock does nothing");
	kmd_begin(0);
	child = fork();
	if (!child)
		_exit(try_lock_limit());
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	kmd_end();
}
END_TEST

#define NUM_LOOKS 100000
#define LEFT 4096u

static atomic_bool is_stopping;

static void *ask_for_too_much(void *arg)
{
	struct drm_qbnpu_bo_create create;

	while (!atomic_load(&is_stopping)) {
		create = (struct drm_qbnpu_bo_create){
			.size = 2 * LEFT,
			.region = DRM_QBNPU_REGION_SYSTEM,
		};
		if (kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create) != -ENOMEM)
			atomic_fetch_add((atomic_int *)arg, 1);
	}
	return NULL;
}

/* K044: what is refused is in no account for a moment either */
START_TEST(a_refused_size_takes_nothing_from_others)
{
	const uint64_t taken = qbnpu_soft_get_system_limit() - LEFT;
	atomic_uint_fast64_t *used;
	atomic_int num_bad = 0;
	pthread_t threads[2];

	kmd_begin(0);
	used = qbnpu_soft_get_system_used();
	atomic_fetch_add(used, taken);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						ask_for_too_much, &num_bad),
				 0);
	for (int i = 0; i < NUM_LOOKS; i++)
		ck_assert_uint_eq(atomic_load(used), taken);
	atomic_store(&is_stopping, true);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(num_bad, 0);
	atomic_fetch_sub(used, taken);
	kmd_end();
}
END_TEST

/* K015: so many buffers that their ids need more bits than an offset has */
START_TEST(map_offsets_do_not_run_out)
{
	static const uint64_t last_ids[] = {
		(UINT64_C(1) << 29) - 2, (UINT64_C(1) << 29) - 1,
		(UINT64_C(1) << 30) - 1, UINT64_C(1) << 30,
		UINT64_C(5) << 60,
	};
	struct qbnpu_soft_device *device;
	struct drm_qbnpu_bo_info info;
	uint32_t handles[2];
	uint8_t *data;
	void *refused;

	kmd_begin(0);
	device = qbnpu_soft_registry_get_file(kmd_file)->device;
	for (size_t i = 0; i < qbrt_array_size(last_ids); i++) {
		atomic_store(&device->last_buffer_id, last_ids[i]);
		for (int k = 0; k < 2; k++)
			handles[k] = kmd_create_buffer(4096);
		info = kmd_get_info(handles[0]);
		ck_assert_uint_eq(info.id, last_ids[i] + 1);
		ck_assert_uint_ne(info.map_offset, 0);
		ck_assert_int_gt((off_t)info.map_offset, 0);
		ck_assert_uint_ne(info.map_offset,
				  kmd_get_info(handles[1]).map_offset);
		data = kmd_map(kmd_file, handles[0], PROT_READ | PROT_WRITE);
		ck_assert_uint_eq(info.device_addr, (uintptr_t)data);
		ck_assert_int_eq(kmd->munmap(kmd_file, data, 4096), 0);
		ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset + 4096,
					   4096, PROT_READ, &refused),
				 -EINVAL);
		kmd_close_buffer(handles[0]);
		ck_assert_int_eq(kmd->mmap(kmd_file, info.map_offset, 4096,
					   PROT_READ, &refused),
				 -EACCES);
		kmd_close_buffer(handles[1]);
	}
	kmd_end();
}
END_TEST

/* In a child: the second of two mappings at one address is still there. */
static int unmap_once(const struct kmd_buffer *buffer)
{
	if (kmd->munmap(kmd_file, buffer->data, buffer->size))
		return 1;
	if (buffer->data[0] != 7)
		return 2;
	buffer->data[0] = 8;
	return kmd->munmap(kmd_file, buffer->data, buffer->size) ? 3 : 0;
}

/* K016 */
START_TEST(a_child_of_fork_keeps_what_it_inherited)
{
	struct kmd_buffer buffer;
	uint8_t *again;
	pid_t child;
	int status;

	kmd_begin(0);
	kmd_alloc(&buffer, 4096);
	again = kmd_map(kmd_file, buffer.handle, PROT_READ | PROT_WRITE);
	ck_assert_ptr_eq(again, buffer.data);
	again[0] = 7;
	child = fork();
	if (!child)
		_exit(unmap_once(&buffer));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(again[0], 8);
	ck_assert_int_eq(kmd->munmap(kmd_file, again, 4096), 0);
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

static uint64_t count_free_pages(void)
{
	uint64_t num_pages, num_free;

	qbnpu_soft_query_huge_pages(&num_pages, &num_free);
	return num_free;
}

/* K301 K303 K041 */
START_TEST(a_2_mib_page_is_contiguous_by_construction)
{
	struct drm_qbnpu_bo_create create = {
		.size = 5,
		.flags = DRM_QBNPU_BO_CONTIGUOUS,
		.region = DRM_QBNPU_REGION_SYSTEM,
	};

	if (!count_free_pages())
		QBRT_TEST_SKIP("no free 2 MiB page");
	kmd_begin(0);
	ck_assert(kmd_device.features & DRM_QBNPU_FEATURE_CONTIGUOUS_SYSTEM);
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	ck_assert_uint_eq(create.size, 1 << 21);
	ck_assert_uint_eq(create.contiguity, DRM_QBNPU_CONTIGUITY_HUGEPAGE);
	ck_assert_uint_eq(kmd_get_info(create.handle).segments, 1);
	ck_assert_uint_eq(kmd_get_info(create.handle).align_log2, 21);
	kmd_end();
}
END_TEST

/* Whether the frames of a mapping of 2 MiB pages follow each other. */
static bool is_one_run(const void *data, size_t size)
{
	uint64_t entry, frame, first = 0;
	FILE *file = fopen("/proc/self/pagemap", "re");
	bool is_run = true;

	ck_assert_ptr_nonnull(file);
	for (size_t at = 0; at < size; at += 4096) {
		long place = (long)(((uintptr_t)data + at) / 4096 * 8);

		ck_assert_int_eq(fseek(file, place, SEEK_SET), 0);
		ck_assert_uint_eq(fread(&entry, sizeof(entry), 1, file), 1);
		frame = entry & ((UINT64_C(1) << 55) - 1);
		if (!at)
			first = frame;
		is_run = is_run && frame && frame == first + at / 4096;
	}
	(void)fclose(file);
	return is_run;
}

/* K301 K302: several pages are what the frame numbers say, and no more */
START_TEST(several_pages_are_contiguous_only_if_seen_to_be)
{
	struct kmd_buffer buffer;
	struct drm_qbnpu_bo_info info;

	if (count_free_pages() < 3)
		QBRT_TEST_SKIP("no three free 2 MiB pages");
	kmd_begin(0);
	kmd_alloc(&buffer, 3 << 21);
	info = kmd_get_info(buffer.handle);
	ck_assert_uint_eq(info.size, 3 << 21);
	if (is_one_run(buffer.data, buffer.size)) {
		ck_assert_uint_eq(info.contiguity,
				  DRM_QBNPU_CONTIGUITY_HUGEPAGE);
		ck_assert_uint_eq(info.segments, 1);
	} else {
		ck_assert_uint_eq(info.contiguity, DRM_QBNPU_CONTIGUITY_LOCKED);
		ck_assert_uint_ne(info.segments, 1);
	}
	for (size_t i = 0; i < buffer.size; i += 4096)
		ck_assert_uint_eq(buffer.data[i], 0);
	kmd_free(&buffer);
	kmd_end();
}
END_TEST

/* K302 K303: what the pool does not have is locked memory, or refused */
START_TEST(the_pool_of_2_mib_pages_is_never_grown)
{
	uint64_t num_before, num_after, num_free;
	struct drm_qbnpu_bo_create create = {
		.flags = DRM_QBNPU_BO_CONTIGUOUS,
		.region = DRM_QBNPU_REGION_SYSTEM,
	};

	qbnpu_soft_query_huge_pages(&num_before, &num_free);
	create.size = (num_free + 1) << 21;
	kmd_begin(0);
	kmd_refuse_but(DRM_IOCTL_QBNPU_BO_CREATE, &create, ENOMEM,
		       offsetof(struct drm_qbnpu_bo_create, limit),
		       sizeof(create));
	ck_assert_uint_eq(create.limit, num_free ? 1 << 21 : 0);
	create.flags = 0;
	ck_assert_int_eq(kmd_call(DRM_IOCTL_QBNPU_BO_CREATE, &create), 0);
	ck_assert_uint_eq(create.contiguity, DRM_QBNPU_CONTIGUITY_LOCKED);
	ck_assert_uint_eq(kmd_get_info(create.handle).segments, 0);
	kmd_end();
	qbnpu_soft_query_huge_pages(&num_after, &num_free);
	ck_assert_uint_eq(num_after, num_before);
}
END_TEST

void soft_bo_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(memory_files_are_sealed),
		QBRT_TEST(the_device_address_is_that_of_the_mapping),
		QBRT_TEST(device_memory_is_what_was_configured),
		QBRT_TEST(the_lock_limit_is_told),
		QBRT_TEST(a_refused_size_takes_nothing_from_others),
		QBRT_TEST(map_offsets_do_not_run_out),
		QBRT_TEST(a_child_of_fork_keeps_what_it_inherited),
		QBRT_TEST(a_2_mib_page_is_contiguous_by_construction),
		QBRT_TEST(several_pages_are_contiguous_only_if_seen_to_be),
		QBRT_TEST(the_pool_of_2_mib_pages_is_never_grown),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
