// SPDX-License-Identifier: MIT
/* alloc and index: pinned memory and its elements. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect.h"
#include "print.h"
#include "validate.h"

#define HUGE_SIZE (2u << 20)
#define NUM_ROUNDS 4
#define NUM_ATTEMPTS 16

bool validate_has_room(const struct validate *validate, uint64_t num)
{
	return record_get_integer(validate->device, FIELD_PINNED_LIMIT, 0) /
		       4 >=
	       num;
}

static enum qbrt_status alloc_bytes(struct validate *validate, uint64_t num,
				    uint32_t flags, size_t alignment,
				    struct qbrt_pinned_memory **mem)
{
	const struct qbrt_pinned_options options = { .size = sizeof(options),
						     .flags = flags,
						     .alignment = alignment };
	const int64_t shape = (int64_t)num;

	return qbrt_pinned_memory_alloc(validate->acc, QBRT_DTYPE_UINT8, &shape,
					1, &options, mem);
}

/* ---- alloc: classes ---- */

/* Whether a line of smaps is the head of a mapping, and then whose. */
static bool read_head(const char *line, uintptr_t *start, uintptr_t *end)
{
	char *rest;

	*start = strtoul(line, &rest, 16);
	if (rest == line || *rest != '-')
		return false;
	*end = strtoul(rest + 1, &rest, 16);
	return *rest == ' ';
}

/*
 * What the kernel says of the mapping that data lies in. An errno: it does not
 * say that; ESRCH: it knows of none.
 */
static int read_mapping(const void *data, uint64_t *page_size, bool *is_locked)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uintptr_t start, end, at = (uintptr_t)data;
	bool is_ours = false, is_found = false;
	char line[512];

	*page_size = 0;
	*is_locked = false;
	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file)) {
		if (read_head(line, &start, &end))
			is_ours = at >= start && at < end;
		if (!is_ours)
			continue;
		is_found = true;
		if (!strncmp(line, "KernelPageSize:", 15))
			*page_size = strtoull(line + 15, NULL, 10) << 10;
		if (!strncmp(line, "VmFlags:", 8))
			*is_locked = strstr(line, " lo") != NULL;
	}
	(void)fclose(file);
	return is_found ? 0 : ESRCH;
}

/* Sandboxes and sanitizers have an mlock that locks nothing, or do not tell. */
static bool shows_locks(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t page_size;
	bool is_locked = false;

	if (page == MAP_FAILED)
		return false;
	if (!mlock(page, size))
		(void)read_mapping(page, &page_size, &is_locked);
	(void)munmap(page, size);
	return is_locked;
}

/* The driver alone can know what it promises of its own memory. */
static bool check_class(struct validate *validate,
			const struct qbrt_pinned_memory *mem)
{
	enum qbrt_contiguity class = qbrt_pinned_memory_get_contiguity(mem);
	uint64_t page_size;
	bool is_locked;
	int err;

	if (class == QBRT_CONTIGUITY_DRIVER)
		return true;
	err = read_mapping(qbrt_pinned_memory_get_data(mem), &page_size,
			   &is_locked);
	if (err == ESRCH)
		return validate_fail(validate, "/proc/self/smaps does not show "
					       "a buffer that was allocated");
	/* where there is no /proc, or none of ours, nothing is told */
	if (err == ENOENT || err == EACCES || err == EPERM)
		return true;
	if (err)
		return validate_fail(validate,
				     "/proc/self/smaps cannot be read: %s",
				     strerror(err));
	if (class == QBRT_CONTIGUITY_HUGEPAGE && page_size < HUGE_SIZE)
		return validate_fail(validate,
				     "memory of class hugepage has pages of %s",
				     print_amount(page_size, UNIT_BYTES));
	if (class == QBRT_CONTIGUITY_LOCKED && !is_locked && shows_locks())
		return validate_fail(validate, "memory of class locked is not "
					       "locked");
	return true;
}

static bool is_zero(const unsigned char *bytes, size_t num)
{
	return !num || (!bytes[0] && !memcmp(bytes, bytes + 1, num - 1));
}

/* Size, class, alignment and zeros of a buffer, which is dirty then. */
static bool check_buffer(struct validate *validate,
			 const struct qbrt_pinned_memory *mem, size_t size,
			 size_t alignment, uint32_t classes)
{
	enum qbrt_contiguity class = qbrt_pinned_memory_get_contiguity(mem);
	unsigned char *data = qbrt_pinned_memory_get_data(mem);

	if (qbrt_pinned_memory_get_nbytes(mem) != size)
		return validate_fail(validate,
				     "%zu bytes were asked for, but there are "
				     "%zu",
				     size, qbrt_pinned_memory_get_nbytes(mem));
	if ((unsigned int)class > QBRT_CONTIGUITY_DRIVER ||
	    !(classes >> class & 1))
		return validate_fail(validate,
				     "memory has class %d, which caps do not "
				     "tell of",
				     (int)class);
	if ((uintptr_t)data % alignment)
		return validate_fail(validate,
				     "alignment %zu was asked for, but the "
				     "address is %p",
				     alignment, (void *)data);
	if (!is_zero(data, size))
		return validate_fail(validate,
				     "new memory of %zu bytes is not "
				     "all zeros",
				     size);
	memset(data, 0xA5, size);
	return check_class(validate, mem);
}

static bool try_size(struct validate *validate, uint32_t classes, size_t size,
		     size_t alignment)
{
	struct qbrt_pinned_memory *mem = NULL;
	bool is_good =
		validate_try(validate, "allocating pinned memory",
			     alloc_bytes(validate, size, 0, alignment, &mem)) &&
		check_buffer(validate, mem, size, alignment, classes);

	qbrt_pinned_memory_free(mem);
	return is_good;
}

static bool try_sizes(struct validate *validate, uint32_t classes)
{
	static const size_t sizes[] = { 1, 64, 4096, 100000, HUGE_SIZE };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (i && !validate_has_room(validate, sizes[i]))
			break;
		for (size_t align = 64; align <= HUGE_SIZE; align *= 32) {
			if (!try_size(validate, classes, sizes[i], align))
				return false;
		}
	}
	return true;
}

/* Contiguous memory, asked for once; *is_missing: there is none. */
static bool try_contiguous_once(struct validate *validate, bool *is_missing)
{
	struct qbrt_pinned_memory *mem = NULL;
	enum qbrt_status status = alloc_bytes(
		validate, HUGE_SIZE, QBRT_PINNED_REQUIRE_CONTIGUOUS, 64, &mem);
	enum qbrt_contiguity class = qbrt_pinned_memory_get_contiguity(mem);
	bool is_good = true;

	*is_missing = status == QBRT_PINNED_MEMORY_NOT_CONTIGUOUS;
	if (*is_missing)
		return true;
	if (!validate_try(validate, "allocating contiguous memory", status))
		return false;
	if (class == QBRT_CONTIGUITY_HUGEPAGE ||
	    class == QBRT_CONTIGUITY_DRIVER)
		is_good = check_class(validate, mem);
	else
		is_good = validate_fail(validate,
					"contiguous memory was asked for, but "
					"has class %d",
					(int)class);
	qbrt_pinned_memory_free(mem);
	return is_good;
}

/* Is there where that is told; others take and give back the same pages. */
static bool try_contiguous(struct validate *validate)
{
	struct qbrt_device_info *info = NULL;
	uint64_t free = HUGE_SIZE;
	bool is_missing = true;

	for (size_t i = 0; i < NUM_ATTEMPTS && is_missing && free >= HUGE_SIZE;
	     i++) {
		if (!try_contiguous_once(validate, &is_missing) ||
		    !validate_try(
			    validate, "asking the open device",
			    qbrt_accelerator_query_info(validate->acc, &info)))
			return false;
		free = qbrt_device_info_get_contiguous_free(info);
		qbrt_device_info_free(info);
	}
	return !is_missing || free < HUGE_SIZE ||
	       validate_fail(validate,
			     "%s of contiguous memory are told to be free, but "
			     "%s cannot be had",
			     print_amount(free, UNIT_BYTES),
			     print_amount(HUGE_SIZE, UNIT_BYTES));
}

/* ---- alloc: limits and the pool ---- */

static bool try_limits(struct validate *validate,
		       const struct qbrt_device_info *info)
{
	struct qbrt_device_limits limits = { .size = sizeof(limits) };
	struct qbrt_pinned_memory *mem = NULL;

	qbrt_device_info_get_limits(info, &limits);
	if (!validate_refused(validate, "a buffer above the device's limit",
			      QBRT_INVALID_ARGUMENT,
			      alloc_bytes(validate,
					  limits.max_pinned_nbytes + 1, 0, 64,
					  &mem)) ||
	    !validate_refused(validate, "an empty buffer",
			      QBRT_INVALID_ARGUMENT,
			      alloc_bytes(validate, 0, 0, 64, &mem)) ||
	    !validate_refused(validate, "alignment 32", QBRT_INVALID_ARGUMENT,
			      alloc_bytes(validate, 64, 0, 32, &mem)))
		return false;
	return !mem || validate_fail(validate, "a call that was refused gave "
					       "memory");
}

uint64_t validate_get_locked(void)
{
	static const char *const names[] = { "VmLck:", "HugetlbPages:" };
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t total = 0;
	char line[256];

	if (!file)
		return VALIDATE_UNKNOWN;
	while (fgets(line, sizeof(line), file)) {
		for (size_t i = 0; i < 2; i++) {
			size_t length = strlen(names[i]);

			if (!strncmp(line, names[i], length))
				total += strtoull(line + length, NULL, 10)
					 << 10;
		}
	}
	(void)fclose(file);
	return total;
}

/* What came back is used again: only what is lost grows with each round. */
static bool try_pool(struct validate *validate, uint32_t classes)
{
	uint64_t last = 0, locked;
	size_t num_grown = 0;

	for (size_t i = 0; i < NUM_ROUNDS; i++) {
		if (!try_sizes(validate, classes))
			return false;
		locked = validate_get_locked();
		num_grown += i && locked > last;
		last = locked;
	}
	return num_grown < NUM_ROUNDS - 1 ||
	       validate_fail(validate,
			     "memory that was given back is not used again: "
			     "each round locks more, the last %s",
			     print_amount(last, UNIT_BYTES));
}

bool validate_alloc(struct validate *validate)
{
	struct qbrt_device_info *info = NULL;
	uint32_t classes;
	bool is_good;

	if (!validate_try(validate, "asking the open device",
			  qbrt_accelerator_query_info(validate->acc, &info)))
		return false;
	classes = qbrt_device_info_get_contiguity_classes(info);
	if (!classes) {
		qbrt_device_info_free(info);
		return validate_skip(validate, REASON_NOT_SUPPORTED,
				     "the device has no pinned memory");
	}
	is_good = try_sizes(validate, classes) &&
		  (!validate_has_room(validate, HUGE_SIZE) ||
		   try_contiguous(validate)) &&
		  try_limits(validate, info) && try_pool(validate, classes);
	qbrt_device_info_free(info);
	return is_good &&
	       validate_ok(validate, "classes %s, limits hold, %s",
			   print_value(record_see(validate->device,
						  FIELD_CONTIGUITY),
				       FIELD_CONTIGUITY, true),
			   validate->locked == VALIDATE_UNKNOWN
				   ? "but no /proc tells what came back"
				   : "all came back");
}

/* ---- index ---- */

#define ROWS 3
#define COLUMNS 5

/* Elements by index: each has bytes of its own, and keeps them. */
static bool try_elements(struct validate *validate,
			 struct qbrt_pinned_memory *mem, enum qbrt_dtype dtype)
{
	size_t size = qbrt_dtype_itemsize(dtype);
	unsigned char value[16], found[16];

	for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
		const int64_t index[2] = { i / COLUMNS, i % COLUMNS };

		validate_fill(value, size, i);
		if (!validate_try(validate, "writing an element",
				  qbrt_pinned_memory_write_at(mem, index, 2,
							      dtype, value)))
			return false;
	}
	for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
		const int64_t index[2] = { i / COLUMNS, i % COLUMNS };
		const unsigned char *data = qbrt_pinned_memory_get_data(mem);

		if (!validate_try(validate, "reading an element",
				  qbrt_pinned_memory_read_at(mem, index, 2,
							     dtype, found)))
			return false;
		if (!validate_has_pattern(found, size, i) ||
		    !validate_has_pattern(data + i * size, size, i))
			return validate_fail(
				validate,
				"element (%u, %u) of type %s is not what was "
				"written",
				i / COLUMNS, i % COLUMNS,
				collect_dtype_word(dtype));
	}
	return true;
}

/* The last column from the bottom up. */
static bool try_slice(struct validate *validate, struct qbrt_pinned_memory *mem,
		      enum qbrt_dtype dtype)
{
	const struct qbrt_slice slices[2] = { { ROWS - 1, ROWS, -1 },
					      { COLUMNS - 1, 1, 1 } };
	const int64_t shape[2] = { ROWS, 1 };
	unsigned char column[ROWS * 16];
	const struct qbrt_array array = {
		.data = column, .shape = shape, .ndim = 2, .dtype = dtype
	};
	size_t size = qbrt_dtype_itemsize(dtype);

	if (!validate_try(
		    validate, "reading a slice",
		    qbrt_pinned_memory_read_slice(mem, slices, 2, &array)))
		return false;
	for (uint32_t i = 0; i < ROWS; i++) {
		uint32_t row = ROWS - 1 - i;

		if (!validate_has_pattern(column + i * size, size,
					  row * COLUMNS + COLUMNS - 1))
			return validate_fail(validate,
					     "a slice of type %s is not what "
					     "was written",
					     collect_dtype_word(dtype));
	}
	return true;
}

/* What is outside or of another type is refused, and changes nothing. */
static bool try_errors(struct validate *validate,
		       struct qbrt_pinned_memory *mem, enum qbrt_dtype dtype)
{
	const int64_t outside[2] = { ROWS, 0 }, first[2] = { 0, 0 };
	const enum qbrt_dtype other = dtype == QBRT_DTYPE_INT32
					      ? QBRT_DTYPE_FLOAT32
					      : QBRT_DTYPE_INT32;
	unsigned char value[16] = { 0 };
	size_t size = qbrt_pinned_memory_get_nbytes(mem);
	void *before = inventory_alloc(size);

	memcpy(before, qbrt_pinned_memory_get_data(mem), size);
	if (!validate_refused(validate, "an index outside",
			      QBRT_PINNED_MEMORY_OUT_OF_BOUNDS,
			      qbrt_pinned_memory_write_at(mem, outside, 2,
							  dtype, value)) ||
	    !validate_refused(
		    validate, "an element of another type",
		    QBRT_MODEL_DTYPE_MISMATCHED,
		    qbrt_pinned_memory_write_at(mem, first, 2, other, value)))
		return false;
	return !memcmp(before, qbrt_pinned_memory_get_data(mem), size) ||
	       validate_fail(validate, "a write that was refused changed the "
				       "memory");
}

static bool try_dtype(struct validate *validate, enum qbrt_dtype dtype)
{
	const int64_t shape[2] = { ROWS, COLUMNS };
	struct qbrt_pinned_memory *mem = NULL;
	bool is_good =
		validate_try(validate, "allocating pinned memory",
			     qbrt_pinned_memory_alloc(validate->acc, dtype,
						      shape, 2, NULL, &mem)) &&
		try_elements(validate, mem, dtype) &&
		try_slice(validate, mem, dtype) &&
		try_errors(validate, mem, dtype);

	qbrt_pinned_memory_free(mem);
	return is_good;
}

bool validate_index(struct validate *validate)
{
	struct qbrt_device_info *info = NULL;
	size_t num = 0;
	uint32_t dtypes;

	if (!validate_try(validate, "asking the open device",
			  qbrt_accelerator_query_info(validate->acc, &info)))
		return false;
	dtypes = qbrt_device_info_get_dtypes(info);
	qbrt_device_info_free(info);
	for (uint32_t i = 0; i < 32; i++) {
		if (!(dtypes >> i & 1))
			continue;
		if (!try_dtype(validate, (enum qbrt_dtype)i))
			return false;
		num++;
	}
	return validate_ok(validate, "%zu types: elements, slices, bounds",
			   num);
}
