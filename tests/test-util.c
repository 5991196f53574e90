// SPDX-License-Identifier: MIT
/*
 * One TCase per test, so that a result carries its test's name, and TAP from
 * the results. A page shared with the children holds the reasons of skipped
 * tests, by the number of the test in the order of running, which is also the
 * order of srunner_results(). Relies on /proc.
 */
#include "test-util.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "util.h"

/* Tests of isa/, soft/ and device/ link without lib/counters.c. */
#pragma weak qbrt_counters

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN
#endif
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN
#endif

#define MAX_RESULTS 4096
#define REASON_SIZE 120

/* Stops a hang, far above what the slowest instrumented test takes. */
#define HANG_SECONDS 300

/* How often a count is taken again before a thread or object counts as left
 * behind: a joined thread leaves /proc a moment after the join. */
#define MAX_SETTLE_ROUNDS 2000

struct shared_notes {
	atomic_uint num_started;
	char reasons[MAX_RESULTS][REASON_SIZE];
};

struct snapshot {
	long descriptors;
	long threads;
	long shared_mappings;
	unsigned long open_devices;
	unsigned long live_buffers;
	unsigned long live_models;
	unsigned long pooled_nbytes;
};

static const struct timespec settle_pause = { .tv_nsec = 1000000 };
static struct shared_notes *notes;
static struct snapshot before;
static int saved_standard;

static long count_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	long num = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		num++;
	closedir(dir);
	return num - 2; /* "." and ".." */
}

long qbrt_test_count_descriptors(void)
{
	return count_entries("/proc/self/fd") - 1; /* opendir's own */
}

long qbrt_test_count_threads(void)
{
	return count_entries("/proc/self/task");
}

bool qbrt_test_is_asleep(int thread)
{
	char path[64], line[256] = "";
	const char *state;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
	(void)fclose(file);
	state = strrchr(line, ')');
	return state && state[2] == 'S';
}

long qbrt_test_count_shared_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	long num = 0;

	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		const char *rights = strchr(line, ' ');

		if (rights && strnlen(rights, 5) == 5 && rights[4] == 's')
			num++;
	}
	(void)fclose(maps);
	return num;
}

void qbrt_test_close_standard(int fd)
{
	saved_standard = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	ck_assert_int_gt(saved_standard, STDERR_FILENO);
	ck_assert_int_eq(close(fd), 0);
}

void qbrt_test_reopen_standard(int fd)
{
	ck_assert_int_eq(dup2(saved_standard, fd), fd);
	ck_assert_int_eq(close(saved_standard), 0);
}

static void take_snapshot(struct snapshot *now)
{
	memset(now, 0, sizeof(*now));
	now->descriptors = qbrt_test_count_descriptors();
	now->threads = qbrt_test_count_threads();
	now->shared_mappings = qbrt_test_count_shared_mappings();
	if (!&qbrt_counters)
		return;
	now->open_devices = atomic_load(&qbrt_counters.open_devices);
	now->live_buffers = atomic_load(&qbrt_counters.live_buffers);
	now->live_models = atomic_load(&qbrt_counters.live_models);
	now->pooled_nbytes = atomic_load(&qbrt_counters.pooled_nbytes);
}

#ifdef HAS_TSAN
static void *return_at_once(void *arg)
{
	return arg;
}

/* TSan starts a thread of its own with the first one of a process. */
static void start_tsan_thread(void)
{
	pthread_t thread;
	long num_before;
	long num = 0;
	int round = 0;

	if (pthread_create(&thread, NULL, return_at_once, NULL))
		return;
	(void)pthread_join(thread, NULL);
	do {
		num_before = num;
		(void)nanosleep(&settle_pause, NULL);
		num = qbrt_test_count_threads();
	} while (num != num_before && round++ < MAX_SETTLE_ROUNDS);
}
#endif

static void begin_test(void)
{
	atomic_fetch_add(&notes->num_started, 1);
#ifdef HAS_TSAN
	start_tsan_thread();
#endif
	take_snapshot(&before);
}

static void end_test(void)
{
	struct snapshot now;
	int round = 0;

	take_snapshot(&now);
	while (memcmp(&now, &before, sizeof(now)) &&
	       round++ < MAX_SETTLE_ROUNDS) {
		(void)nanosleep(&settle_pause, NULL);
		take_snapshot(&now);
	}
	ck_assert_int_eq(now.descriptors, before.descriptors);
	ck_assert_int_eq(now.threads, before.threads);
	ck_assert_int_eq(now.shared_mappings, before.shared_mappings);
	ck_assert_uint_eq(now.open_devices, before.open_devices);
	ck_assert_uint_eq(now.live_buffers, before.live_buffers);
	ck_assert_uint_eq(now.live_models, before.live_models);
	ck_assert_uint_eq(now.pooled_nbytes, before.pooled_nbytes);
}

void qbrt_test_note_skip(const char *reason)
{
	unsigned int current = atomic_load(&notes->num_started) - 1;

	(void)snprintf(notes->reasons[current], REASON_SIZE, "%s", reason);
}

bool qbrt_test_contains(const char *sentence, const char *text)
{
	return strstr(sentence, text) != NULL;
}

bool qbrt_test_is_instrumented(void)
{
#if defined(HAS_TSAN) || defined(HAS_ASAN)
	return true;
#else
	/* valgrind preloads its core, and its children keep the variable */
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
#endif
}

bool qbrt_test_has_sanitizer(void)
{
#if defined(HAS_TSAN) || defined(HAS_ASAN)
	return true;
#else
	return false;
#endif
}

int qbrt_test_skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	return EXIT_SUCCESS;
}

static Suite *fill_suite(const char *unit, const struct qbrt_test *tests,
			 size_t num)
{
	Suite *suite = suite_create(unit);
	size_t i;

	for (i = 0; i < num; i++) {
		TCase *tcase = tcase_create(tests[i].name);

		tcase_set_timeout(tcase, HANG_SECONDS);
		tcase_add_checked_fixture(tcase, begin_test, end_test);
		if (tests[i].num_rounds == 1)
			tcase_add_test(tcase, tests[i].test);
		else
			tcase_add_loop_test(tcase, tests[i].test, 0,
					    tests[i].num_rounds);
		suite_add_tcase(suite, tcase);
	}
	return suite;
}

/* A message of several lines stays a TAP comment. */
static void print_message(const TestResult *result)
{
	const char *message = tr_msg((TestResult *)(uintptr_t)result);

	printf("# %s:%d: ", tr_lfile((TestResult *)(uintptr_t)result),
	       tr_lno((TestResult *)(uintptr_t)result));
	for (; *message; message++) {
		putchar(*message);
		if (*message == '\n')
			printf("# ");
	}
	putchar('\n');
}

/* Returns the number of failed tests. */
static int print_results(const char *unit, SRunner *runner)
{
	TestResult **results = srunner_results(runner);
	int num = srunner_ntests_run(runner);
	const char *last = "";
	int num_skipped = 0;
	int round = 0;
	int i;

	printf("1..%d\n", num);
	for (i = 0; i < num; i++) {
		const char *name = tr_tcname(results[i]);
		bool is_pass = tr_rtype(results[i]) == CK_PASS;
		const char *reason = notes->reasons[i];

		round = strcmp(name, last) ? 0 : round + 1;
		last = name;
		printf("%s %d - %s/%s", is_pass ? "ok" : "not ok", i + 1, unit,
		       name);
		if (round)
			printf(".%d", round);
		if (is_pass && *reason) {
			printf(" # SKIP %s", reason);
			num_skipped++;
		}
		putchar('\n');
		if (!is_pass)
			print_message(results[i]);
	}
	printf("# %s: %d tests, %d skipped, %d failed\n", unit, num,
	       num_skipped, srunner_ntests_failed(runner));
	free(results);
	return srunner_ntests_failed(runner);
}

void qbrt_tests_add(struct qbrt_tests *all, const struct qbrt_test *tests,
		    size_t num)
{
	if (num > qbrt_array_size(all->tests) - all->num)
		abort();
	memcpy(all->tests + all->num, tests, num * sizeof(*tests));
	all->num += num;
}

int qbrt_test_run(const char *unit, const struct qbrt_test *tests, size_t num)
{
	SRunner *runner;
	int num_failed;

	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED) {
		perror("test-util");
		return EXIT_FAILURE;
	}
	runner = srunner_create(fill_suite(unit, tests, num));
	srunner_run_all(runner, CK_SILENT);
	num_failed = print_results(unit, runner);
	srunner_free(runner);
	(void)munmap(notes, sizeof(*notes));
	return num_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

bool qbrt_test_has_huge_pages(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/"
			   "nr_hugepages",
			   "re");
	long num = 0;

	if (!file)
		return false;
	if (fscanf(file, "%ld", &num) != 1)
		num = 0;
	(void)fclose(file);
	return num > 0;
}
