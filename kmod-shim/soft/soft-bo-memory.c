// SPDX-License-Identifier: MIT
/*
 * Where a buffer's memory comes from (K301 to K305): 2 MiB pages when the
 * machine has them, whose contiguity is then looked up, else a locked memfd.
 * Nothing here can shrink, so no access raises SIGBUS: the files are sealed,
 * and every page is there before the mapping is used.
 */
#include "soft/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util.h"

#define HUGE_FOLDER "/sys/kernel/mm/hugepages/hugepages-2048kB/"

/* Linux's, which a libc's header may lack. */
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

#define MAX_TRIES 16

/* So many bytes are taken between two looks at what is available. */
#define BYTES_PER_LOOK (UINT64_C(16) << 20)

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_FRAME ((UINT64_C(1) << 55) - 1)

/* One number of a line that begins with key, in a small text file. */
static bool read_number(const char *path, const char *key, uint64_t *number)
{
	FILE *file = fopen(path, "re");
	size_t key_length = strlen(key);
	char line[128];
	bool is_found = false;

	if (!file)
		return false;
	while (!is_found && fgets(line, sizeof(line), file)) {
		const char *text = line + key_length;
		char *end;

		if (strncmp(line, key, key_length) != 0)
			continue;
		*number = strtoull(text, &end, 10);
		is_found = end != text;
	}
	(void)fclose(file);
	return is_found;
}

uint64_t qbnpu_soft_get_page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

void qbnpu_soft_query_huge_pages(uint64_t *num_pages, uint64_t *num_free)
{
	uint64_t num_reserved;

	if (!read_number(HUGE_FOLDER "nr_hugepages", "", num_pages))
		*num_pages = 0;
	if (!read_number(HUGE_FOLDER "free_hugepages", "", num_free))
		*num_free = 0;
	if (!read_number(HUGE_FOLDER "resv_hugepages", "", &num_reserved))
		num_reserved = 0;
	*num_free -= num_reserved < *num_free ? num_reserved : *num_free;
}

uint64_t qbnpu_soft_get_system_limit(void)
{
	uint64_t page_size = qbnpu_soft_get_page_size();
	uint64_t num_pages = (uint64_t)sysconf(_SC_PHYS_PAGES);

	return num_pages / 2 * page_size;
}

/*
 * Whether the kernel can give size bytes without ending a process for it
 * (K044). *available: how much it can, UINT64_MAX when that was not looked at.
 */
static bool is_available(uint64_t size, uint64_t *available)
{
	static atomic_uint_fast64_t taken; /* since the last look */
	uint64_t kib;

	*available = UINT64_MAX;
	if (atomic_fetch_add(&taken, size) + size < BYTES_PER_LOOK)
		return true;
	if (read_number("/proc/meminfo", "MemAvailable:", &kib))
		*available = kib << 10;
	if (size > *available)
		return false;
	atomic_store(&taken, 0);
	return true;
}

static bool may_lock_anything(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return !syscall(SYS_capget, &header, data) &&
	       data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &
		       CAP_TO_MASK(CAP_IPC_LOCK);
}

uint64_t qbnpu_soft_get_lock_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || may_lock_anything())
		return UINT64_MAX;
	return limit.rlim_cur;
}

/* The largest file that the process may make, in whole pages. */
static uint64_t get_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur & ~(qbnpu_soft_get_page_size() - 1);
}

/* What the limit leaves, in whole pages. */
static uint64_t get_lockable(void)
{
	uint64_t limit = qbnpu_soft_get_lock_limit();
	uint64_t kib = 0;

	if (limit == UINT64_MAX)
		return limit;
	(void)read_number("/proc/self/status", "VmLck:", &kib);
	if (limit <= kib << 10)
		return 0;
	return (limit - (kib << 10)) & ~(qbnpu_soft_get_page_size() - 1);
}

/*
 * Maps the whole file at a multiple of alignment, which is what mmap finds
 * anyway for 2 MiB pages and for an ordinary page's alignment. Else a wider
 * range is looked for and given back, and the place in it asked for; another
 * thread may be faster, so once more.
 */
static void *map_aligned(int fd, uint64_t size, uint64_t alignment)
{
	int rights = PROT_READ | PROT_WRITE;
	void *mapped = mmap(NULL, size, rights, MAP_SHARED, fd, 0);
	uintptr_t start;

	for (int i = 0; i < MAX_TRIES && mapped != MAP_FAILED; i++) {
		if (!((uintptr_t)mapped & (alignment - 1)))
			return mapped;
		(void)munmap(mapped, size);
		mapped = mmap(NULL, size + alignment, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
		if (mapped == MAP_FAILED)
			return NULL;
		(void)munmap(mapped, size + alignment);
		start = (uintptr_t)mapped;
		start += -start & (alignment - 1);
		mapped = mmap((uint8_t *)mapped + (start - (uintptr_t)mapped),
			      size, rights, MAP_SHARED | MAP_FIXED_NOREPLACE,
			      fd, 0);
		if (mapped == MAP_FAILED && errno == EEXIST)
			mapped = mmap(NULL, size, rights, MAP_SHARED, fd, 0);
	}
	if (mapped != MAP_FAILED)
		(void)munmap(mapped, size);
	return NULL;
}

/* A sealed file of size bytes, mapped. */
static int map_file(unsigned int flags, uint64_t size, uint64_t alignment,
		    struct qbnpu_soft_memory *memory)
{
	memory->fd = qbnpu_soft_fd_alloc("qbnpu-soft-bo", flags, size);
	if (memory->fd < 0)
		return memory->fd;
	if (fcntl(memory->fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto err_close;
	/*
	 * takes the pages, with an error where a page fault would be a signal;
	 * of other files mlock does
	 */
	if (flags & MFD_HUGETLB && fallocate(memory->fd, 0, 0, (off_t)size))
		goto err_close;
	memory->base = map_aligned(memory->fd, size, alignment);
	if (!memory->base)
		goto err_close;
	memory->size = size;
	return 0;

err_close:
	qbnpu_soft_fd_close(memory->fd);
	return -ENOMEM;
}

/*
 * Number of physically contiguous runs of a mapping of 2 MiB pages; 0: the
 * frame numbers cannot be read, which the kernel shows as zeros.
 */
static uint32_t count_runs(const struct qbnpu_soft_memory *memory)
{
	uint64_t page_size = qbnpu_soft_get_page_size();
	uint64_t frames_per_page = QBNPU_SOFT_HUGE_SIZE / page_size;
	uint64_t entry, frame, next = 0;
	uint32_t num_runs = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	for (uint64_t at = 0; at < memory->size; at += QBNPU_SOFT_HUGE_SIZE) {
		uintptr_t address = (uintptr_t)memory->base + at;
		off_t place = (off_t)(address / page_size * sizeof(entry));

		if (pread(fd, &entry, sizeof(entry), place) != sizeof(entry))
			entry = 0;
		frame = entry & PAGEMAP_FRAME;
		if (!(entry & PAGEMAP_PRESENT) || !frame) {
			num_runs = 0;
			break;
		}
		if (frame != next)
			num_runs++;
		next = frame + frames_per_page;
	}
	(void)close(fd);
	return num_runs;
}

void qbnpu_soft_memory_look_up_runs(struct qbnpu_soft_memory *memory)
{
	volatile const uint8_t *page = memory->base;

	for (uint64_t at = 0; at < memory->size; at += QBNPU_SOFT_HUGE_SIZE)
		(void)page[at];
	memory->segments = count_runs(memory);
	if (memory->size == QBNPU_SOFT_HUGE_SIZE)
		memory->segments = 1;
}

int qbnpu_soft_memory_alloc_huge(uint64_t size, uint64_t alignment,
				 struct qbnpu_soft_memory *memory)
{
	int err;

	size = qbrt_round_up(size, QBNPU_SOFT_HUGE_SIZE);
	if (alignment < QBNPU_SOFT_HUGE_SIZE)
		alignment = QBNPU_SOFT_HUGE_SIZE;
	err = map_file(MFD_HUGETLB | MFD_HUGE_2MB, size, alignment, memory);
	if (err)
		return err;
	qbnpu_soft_memory_look_up_runs(memory);
	memory->contiguity = memory->segments == 1
				     ? DRM_QBNPU_CONTIGUITY_HUGEPAGE
				     : DRM_QBNPU_CONTIGUITY_LOCKED;
	return 0;
}

int qbnpu_soft_memory_alloc_locked(uint64_t size, uint64_t alignment,
				   struct qbnpu_soft_memory *memory,
				   uint64_t *limit)
{
	uint64_t available, lockable, file_limit;
	int err = -ENOMEM;

	size = qbrt_round_up(size, qbnpu_soft_get_page_size());
	if (is_available(size, &available))
		err = map_file(0, size, alignment, memory);
	/* also makes every page; segments of what can move are not told */
	if (!err && mlock(memory->base, size)) {
		qbnpu_soft_memory_free(memory);
		err = -ENOMEM;
	}
	if (err) {
		lockable = get_lockable();
		file_limit = get_file_limit();
		*limit = lockable < available ? lockable : available;
		if (file_limit < *limit)
			*limit = file_limit;
		return err;
	}
	memory->segments = 0;
	memory->contiguity = DRM_QBNPU_CONTIGUITY_LOCKED;
	return 0;
}

void qbnpu_soft_memory_free(struct qbnpu_soft_memory *memory)
{
	(void)munmap(memory->base, memory->size);
	qbnpu_soft_fd_close(memory->fd);
}
