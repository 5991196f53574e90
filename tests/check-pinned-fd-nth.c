// SPDX-License-Identifier: MIT
/*
 * Export and import with their first, second, third... allocation failing, then
 * their n-th request to the driver, until they need no more: nothing is left
 * behind, nothing is given, and the same call works the next time.
 */
#include "check-pinned-fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "account.h"
#include "count-alloc.h"
#include "kmd-bend.h"
#include "util.h"

#define NO_FD (-7)

/* What there is to export or import, and what came of it. */
struct scene {
	struct qbrt_pinned_memory *mem;
	int fd;
	int exported;
	struct qbrt_pinned_memory *imported;
};

struct scenario {
	const char *name;
	void (*set_up)(struct scene *scene);
	enum qbrt_status (*run)(struct scene *scene);
};

static void alloc(struct scene *scene)
{
	scene->mem = pinned_fd_alloc();
	scene->fd = pinned_fd_export(scene->mem);
}

/* No export has been made. */
static void alloc_only(struct scene *scene)
{
	scene->mem = pinned_fd_alloc();
	scene->fd = -1;
}

/* The device has no handle of it any more. */
static void alloc_and_free(struct scene *scene)
{
	alloc(scene);
	qbrt_pinned_memory_free(scene->mem);
	scene->mem = NULL;
}

static void reopen_read_only(struct scene *scene)
{
	int fd;

	alloc_and_free(scene);
	fd = pinned_fd_reopen_read_only(scene->fd);
	ck_assert_int_eq(close(scene->fd), 0);
	scene->fd = fd;
}

/* Not the library's, and mapped in two tries. */
static void seal_memfd(struct scene *scene)
{
	scene->fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(scene->fd, 0);
	ck_assert_int_eq(ftruncate(scene->fd, PINNED_FD_NBYTES), 0);
	ck_assert_int_eq(
		fcntl(scene->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
}

static enum qbrt_status export_memory(struct scene *scene)
{
	return qbrt_pinned_memory_export_fd(scene->mem, &scene->exported);
}

static enum qbrt_status import_all(struct scene *scene)
{
	return pinned_fd_try_import(scene->fd, 0, PINNED_FD_NBYTES,
				    &scene->imported);
}

static enum qbrt_status import_a_part(struct scene *scene)
{
	return pinned_fd_try_import(scene->fd, 64, 128, &scene->imported);
}

static const struct scenario scenarios[] = {
	{ "first export", alloc_only, export_memory },
	{ "second export", alloc, export_memory },
	{ "import of the device's own", alloc, import_all },
	{ "import of a part", alloc, import_a_part },
	{ "import of what nobody holds", alloc_and_free, import_all },
	{ "import by a read-only descriptor", reopen_read_only, import_all },
	{ "import of a sealed memfd", seal_memfd, import_all },
};

/* What fails: some requests are made twice before the call gives up. */
enum kind {
	ALLOCATION,
	REQUEST,
	TWO_REQUESTS,
	NUM_KINDS,
};

static void begin_faults(enum kind kind, int n)
{
	kmd_bend.fails_any = kind != ALLOCATION;
	kmd_bend.fail_err = -ENOMEM;
	atomic_store(&kmd_bend.fail_skip, n - 1);
	atomic_store(&kmd_bend.fail_times, kind == TWO_REQUESTS ? 2 : 1);
	count_alloc_begin(kind == ALLOCATION ? n : 0);
}

/* true: the n-th was reached. */
static bool end_faults(enum kind kind, int n)
{
	long num_allocs = count_alloc_end();
	int left = atomic_exchange(&kmd_bend.fail_times, 0);

	kmd_bend.fails_any = false;
	return kind == ALLOCATION ? num_allocs >= n
				  : left < (kind == TWO_REQUESTS ? 2 : 1);
}

static void check_failed(const struct scene *scene, enum qbrt_status status,
			 const struct account *before)
{
	ck_assert_status(status, QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY);
	ck_assert_int_eq(scene->exported, NO_FD);
	ck_assert_ptr_eq(scene->imported, PINNED_FD_SENTINEL);
	account_check(acc, before);
}

/* With the n-th of them failing. false: there was no n-th. */
static bool run_with_fault(const struct scenario *scenario, enum kind kind,
			   int n, unsigned int *num_failed)
{
	struct scene scene = { .exported = NO_FD,
			       .imported = PINNED_FD_SENTINEL };
	enum qbrt_status status;
	struct account before;
	bool was_reached;

	scenario->set_up(&scene);
	before = account_get(acc);
	begin_faults(kind, n);
	status = scenario->run(&scene);
	was_reached = end_faults(kind, n);
	if (status) {
		++*num_failed;
		check_failed(&scene, status, &before);
		ck_assert_ok(scenario->run(&scene));
	}
	if (scene.exported != NO_FD)
		ck_assert_int_eq(close(scene.exported), 0);
	if (scene.imported != PINNED_FD_SENTINEL)
		qbrt_pinned_memory_free(scene.imported);
	account_check(acc, &before);
	qbrt_pinned_memory_free(scene.mem);
	if (scene.fd >= 0)
		ck_assert_int_eq(close(scene.fd), 0);
	return was_reached;
}

/* ST7 Q615 */
START_TEST(each_allocation_and_each_request_may_fail)
{
	const struct scenario *scenario = &scenarios[_i / NUM_KINDS];
	unsigned int num_failed = 0;
	int n = 1;

	pinned_fd_open_device();
	while (run_with_fault(scenario, _i % NUM_KINDS, n, &num_failed))
		ck_assert_int_lt(++n, 100);
	/* one request alone may be borne by asking again */
	if (_i % NUM_KINDS != REQUEST)
		ck_assert_msg(num_failed > 0, "%s: none of %d was fatal",
			      scenario->name, n - 1);
	qbrt_accelerator_close(acc);
}
END_TEST

void pinned_fd_add_nth_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(each_allocation_and_each_request_may_fail,
			       NUM_KINDS * (int)qbrt_array_size(scenarios)),
	};

	qbrt_tests_add(all, tests, qbrt_array_size(tests));
}
