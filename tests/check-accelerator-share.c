// SPDX-License-Identifier: MIT
/*
 * One device shared: by handles, by threads, by what was made on it, and not
 * by a child of fork. A child reports the number of its check that failed.
 */
#include "test-util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerator.h"
#include "counters.h"
#include "kmd-bend.h"
#include "pinned-memory.h"
#include "util.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &kmd_bend_driver, NULL };

#define SENTINEL ((struct qbrt_accelerator *)(uintptr_t)0x5a5a)
#define NUM_THREADS 8
#define NUM_FORKS 20

static void set(const char *name, const char *value)
{
	ck_assert_int_eq(setenv(name, value, 1), 0);
}

static void open_and_close_once(void)
{
	struct qbrt_accelerator *acc;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	qbrt_accelerator_close(acc);
}

static const int64_t shape[] = { 4, 8 };

static struct qbrt_pinned_memory *alloc_bytes(struct qbrt_accelerator *acc)
{
	struct qbrt_pinned_memory *mem;

	ck_assert_ok(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 2,
					      NULL, &mem));
	return mem;
}

/* Q194 Q122 */
START_TEST(handles_of_one_device_share_one_open_file)
{
	struct qbrt_accelerator *a, *b, *other;

	set("QBRUNTIME_SOFT_DEVICES", "aries:2");
	ck_assert_ok(qbrt_accelerator_open("aries", 0, &a));
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &b));
	ck_assert_ok(qbrt_accelerator_open(NULL, 1, &other));
	ck_assert_ptr_eq(a->device, b->device);
	ck_assert_ptr_ne(a->device, other->device);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 2);
	qbrt_accelerator_close(a);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 2);
	ck_assert_str_eq(qbrt_accelerator_get_id(b), "aries-rb:0");
	qbrt_accelerator_close(b);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 1);
	qbrt_accelerator_close(other);
}
END_TEST

/* Q194 */
START_TEST(another_instance_behind_a_node_is_another_device)
{
	struct qbrt_accelerator *old, *new;

	kmd_bend.instance = 1;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &old));
	kmd_bend.instance = 2;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &new));
	ck_assert_ptr_ne(old->device, new->device);
	qbrt_accelerator_close(old);
	ck_assert_str_eq(qbrt_accelerator_get_id(new), "aries-rb:0");
	qbrt_accelerator_close(new);
}
END_TEST

static void *open_and_close(void *arg)
{
	struct qbrt_accelerator *acc;
	int i;

	(void)arg;
	for (i = 0; i < 50; i++) {
		if (qbrt_accelerator_open(NULL, -1, &acc))
			return SENTINEL;
		qbrt_accelerator_close(acc);
	}
	return NULL;
}

/* Q194 Q740 */
START_TEST(eight_threads_open_and_close_one_device)
{
	pthread_t threads[NUM_THREADS];
	void *result;
	int i;

	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, open_and_close, NULL),
			0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_ptr_null(result);
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_opens),
			  atomic_load(&kmd_bend.num_closes));
}
END_TEST

/* Q747 */
START_TEST(a_thousand_cycles_leave_nothing)
{
	long descriptors = qbrt_test_count_descriptors();
	int i;

	for (i = 0; i < 1000; i++)
		open_and_close_once();
	ck_assert_int_eq(qbrt_test_count_descriptors(), descriptors);
}
END_TEST

static void *take_write_give(void *arg)
{
	struct qbrt_device *device = arg;
	uintptr_t failures = 0;
	struct qbrt_buffer buffer;
	unsigned int i, at;

	for (i = 0; i < 300; i++) {
		size_t nbytes = 4096 * (1 + i % 5);
		unsigned char *bytes;

		if (qbrt_device_take_buffer(device, nbytes, 64, false, &buffer))
			return (void *)UINTPTR_MAX;
		bytes = buffer.data;
		for (at = 0; at < nbytes; at += 512)
			failures += bytes[at] != 0;
		memset(bytes, (int)i + 1, nbytes);
		for (at = 0; at < nbytes; at += 512)
			failures += bytes[at] != (unsigned char)(i + 1);
		qbrt_device_give_buffer(device, &buffer);
	}
	return (void *)failures;
}

/* Q473 Q467 Q740 */
START_TEST(eight_threads_never_share_a_buffer)
{
	pthread_t threads[NUM_THREADS];
	struct qbrt_accelerator *acc;
	void *failures;
	int i;

	kmd_bend.is_paged = true;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						take_write_give, acc->device),
				 0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &failures), 0);
		ck_assert_ptr_null(failures);
	}
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q200 Q201 Q495 */
START_TEST(memory_outlives_its_accelerator_in_any_order)
{
	struct qbrt_accelerator *a, *b;
	struct qbrt_pinned_memory *x, *y;

	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &a));
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &b));
	x = alloc_bytes(a);
	y = alloc_bytes(b);
	ck_assert_ptr_eq(x->storage->device, y->storage->device);
	qbrt_accelerator_close(a);
	qbrt_accelerator_close(b);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 1);
	ck_assert(qbrt_pinned_memory_is_available(x));
	ck_assert_str_eq(qbrt_pinned_memory_get_device(x), "aries-rb:0");
	memset(qbrt_pinned_memory_get_data(x), 1, 32);
	qbrt_pinned_memory_free(x);
	memset(qbrt_pinned_memory_get_data(y), 2, 32);
	qbrt_pinned_memory_free(y);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
	ck_assert_uint_eq(atomic_load(&kmd_bend.num_opens),
			  atomic_load(&kmd_bend.num_closes));
}
END_TEST

/* In a child: the process ends with the number of the check that failed. */
static int step;

#define CHILD_CHECK(condition) \
	do { \
		step++; \
		if (!(condition)) \
			_exit(step); \
	} while (0)
#define CHILD_FORKED(call) \
	CHILD_CHECK((call) == QBRT_FORKED_PROCESS && *qbrt_error_detail())

static void join_child(pid_t child)
{
	int status;

	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status), "the child died of signal %d",
		      WTERMSIG(status));
	ck_assert_msg(!WEXITSTATUS(status), "check %d of the child failed",
		      WEXITSTATUS(status));
}

static void use_inherited(struct qbrt_accelerator *acc,
			  struct qbrt_pinned_memory *mem)
{
	const int64_t index[] = { 0, 0 };
	const struct qbrt_slice slices[] = { { 0, 4, 1 }, { 0, 8, 1 } };
	struct qbrt_pinned_memory *other = NULL;
	struct qbrt_device_info *info = NULL;
	unsigned char bytes[32] = { 0 };
	const struct qbrt_array array = {
		.data = bytes,
		.shape = shape,
		.ndim = 2,
		.dtype = QBRT_DTYPE_UINT8,
	};
	uint64_t address;
	size_t num;

	CHILD_FORKED(qbrt_accelerator_query_info(acc, &info));
	CHILD_FORKED(qbrt_accelerator_query_cores(acc, NULL, 0, &num));
	CHILD_FORKED(qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 2,
					      NULL, &other));
	CHILD_FORKED(qbrt_pinned_memory_query_device_address(mem, &address));
	CHILD_FORKED(qbrt_pinned_memory_read_at(mem, index, 2, QBRT_DTYPE_UINT8,
						bytes));
	CHILD_FORKED(qbrt_pinned_memory_write_at(mem, index, 2,
						 QBRT_DTYPE_UINT8, bytes));
	CHILD_FORKED(qbrt_pinned_memory_read_slice(mem, slices, 2, &array));
	CHILD_FORKED(qbrt_pinned_memory_write_slice(mem, slices, 2, &array));
	CHILD_FORKED(qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, bytes));
	CHILD_CHECK(!info && !other);
	CHILD_CHECK(!qbrt_pinned_memory_is_available(mem));
	CHILD_CHECK(qbrt_pinned_memory_get_nbytes(mem) == 32);
	CHILD_CHECK(!strcmp(qbrt_accelerator_get_id(acc), "aries-rb:0"));
}

static void use_anew(void)
{
	const unsigned char value = 9;
	struct qbrt_pinned_memory *mem;
	struct qbrt_accelerator *acc;

	CHILD_CHECK(!qbrt_accelerator_open(NULL, -1, &acc));
	CHILD_CHECK(!qbrt_pinned_memory_alloc(acc, QBRT_DTYPE_UINT8, shape, 2,
					      NULL, &mem));
	CHILD_CHECK(qbrt_pinned_memory_is_available(mem));
	CHILD_CHECK(!qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, &value));
	CHILD_CHECK(((unsigned char *)qbrt_pinned_memory_get_data(mem))[31] ==
		    9);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}

/* Q748 Q205 K016 */
START_TEST(a_child_of_fork_is_refused_and_opens_anew)
{
	struct qbrt_pinned_memory *mem, *pooled;
	struct qbrt_accelerator *acc;
	unsigned char *bytes;
	unsigned long before;
	pid_t child;

	/* hardware is the same one for the child */
	kmd_bend.instance = 1;
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	mem = alloc_bytes(acc);
	pooled = alloc_bytes(acc);
	qbrt_pinned_memory_free(pooled);
	bytes = qbrt_pinned_memory_get_data(mem);
	child = fork();
	if (!child) {
		before = atomic_load(&kmd_bend.num_requests);
		use_inherited(acc, mem);
		/* bytes are shared with the parent */
		CHILD_CHECK(bytes[0] == 0);
		bytes[0] = 77;
		CHILD_CHECK(atomic_load(&kmd_bend.num_requests) == before);
		use_anew();
		before = atomic_load(&kmd_bend.num_requests);
		qbrt_accelerator_close(acc);
		qbrt_pinned_memory_free(mem);
		CHILD_CHECK(atomic_load(&kmd_bend.num_requests) == before);
		use_anew();
		_exit(0);
	}
	join_child(child);
	/* the parent notices nothing */
	ck_assert_int_eq(bytes[0], 77);
	pooled = alloc_bytes(acc);
	qbrt_pinned_memory_free(pooled);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}
END_TEST

/* Q748 */
START_TEST(a_grandchild_is_refused_what_the_child_opened)
{
	struct qbrt_accelerator *acc;
	struct qbrt_pinned_memory *mem;
	pid_t child = fork();
	pid_t grandchild;
	int status;

	if (!child) {
		CHILD_CHECK(!qbrt_accelerator_open(NULL, -1, &acc));
		mem = alloc_bytes(acc);
		grandchild = fork();
		if (!grandchild) {
			use_inherited(acc, mem);
			qbrt_pinned_memory_free(mem);
			qbrt_accelerator_close(acc);
			use_anew();
			_exit(0);
		}
		CHILD_CHECK(waitpid(grandchild, &status, 0) == grandchild);
		CHILD_CHECK(!status);
		CHILD_CHECK(qbrt_pinned_memory_is_available(mem));
		qbrt_pinned_memory_free(mem);
		qbrt_accelerator_close(acc);
		_exit(0);
	}
	join_child(child);
}
END_TEST

struct busy {
	struct qbrt_accelerator *acc;
	atomic_bool is_over;
	atomic_int num_failures;
};

static void *be_busy(void *arg)
{
	struct busy *busy = arg;
	const unsigned char value = 3;
	struct qbrt_pinned_memory *mem;
	struct qbrt_accelerator *acc;

	while (!atomic_load(&busy->is_over)) {
		if (qbrt_accelerator_open(NULL, -1, &acc) ||
		    qbrt_pinned_memory_alloc(busy->acc, QBRT_DTYPE_UINT8, shape,
					     2, NULL, &mem) ||
		    qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, &value)) {
			atomic_fetch_add(&busy->num_failures, 1);
			break;
		}
		qbrt_pinned_memory_free(mem);
		qbrt_accelerator_close(acc);
	}
	return NULL;
}

/* Q748: locks that other threads hold at that moment do not stop the child */
START_TEST(forks_among_eight_busy_threads_work)
{
	struct busy busy = { 0 };
	pthread_t threads[NUM_THREADS];
	struct qbrt_pinned_memory *mem;
	int i;

	if (qbrt_test_is_instrumented())
		QBRT_TEST_SKIP("a sanitizer's allocator hangs in the child");
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &busy.acc));
	mem = alloc_bytes(busy.acc);
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, be_busy, &busy), 0);
	for (i = 0; i < NUM_FORKS; i++) {
		pid_t child = fork();

		if (!child) {
			use_inherited(busy.acc, mem);
			use_anew();
			qbrt_pinned_memory_free(mem);
			qbrt_accelerator_close(busy.acc);
			_exit(0);
		}
		join_child(child);
	}
	atomic_store(&busy.is_over, true);
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_int_eq(atomic_load(&busy.num_failures), 0);
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(busy.acc);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(handles_of_one_device_share_one_open_file),
		QBRT_TEST(another_instance_behind_a_node_is_another_device),
		QBRT_TEST(eight_threads_open_and_close_one_device),
		QBRT_TEST(a_thousand_cycles_leave_nothing),
		QBRT_TEST(eight_threads_never_share_a_buffer),
		QBRT_TEST(memory_outlives_its_accelerator_in_any_order),
		QBRT_TEST(a_child_of_fork_is_refused_and_opens_anew),
		QBRT_TEST(a_grandchild_is_refused_what_the_child_opened),
		QBRT_TEST(forks_among_eight_busy_threads_work),
	};

	return qbrt_test_run("accelerator-share", tests,
			     qbrt_array_size(tests));
}
