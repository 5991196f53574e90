// SPDX-License-Identifier: MIT
/*
 * Accesses of the host are uses of the buffer: they wait for jobs, jobs do not
 * overtake them, and threads may access one buffer at a time.
 */
#include "test-util.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "counters.h"
#include "pinned-memory.h"
#include "status.h"
#include "util.h"

#define NUM_THREADS 8

static struct qbrt_accelerator *acc;
static struct qbrt_pinned_memory *mem;

static void open_memory(enum qbrt_dtype dtype, const int64_t *shape,
			size_t ndim)
{
	ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(
		qbrt_pinned_memory_alloc(acc, dtype, shape, ndim, NULL, &mem));
}

static void close_memory(void)
{
	qbrt_pinned_memory_free(mem);
	qbrt_accelerator_close(acc);
}

static unsigned char *get_bytes(void)
{
	return qbrt_pinned_memory_get_data(mem);
}

static void *read_first(void *arg)
{
	const int64_t index[] = { 0 };
	const struct qbrt_slice slice = { 0, 1, 1 };
	const int64_t one[] = { 1 };
	unsigned char value = 0;
	const struct qbrt_array array = { .data = &value,
					  .shape = one,
					  .ndim = 1,
					  .dtype = QBRT_DTYPE_UINT8 };
	enum qbrt_status status;

	if (arg)
		status = qbrt_pinned_memory_read_slice(mem, &slice, 1, &array);
	else
		status = qbrt_pinned_memory_read_at(mem, index, 1,
						    QBRT_DTYPE_UINT8, &value);
	return (void *)(uintptr_t)(status ? 1000 : value);
}

/* Q499 PM11 */
START_TEST(reading_waits_for_the_job_that_writes)
{
	const int64_t shape[] = { 4 };
	pthread_t threads[NUM_THREADS];
	void *seen;
	int i;

	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	ck_assert(qbrt_storage_begin_write(mem->storage));
	/* half written, and the last job had failed */
	get_bytes()[0] = 1;
	qbrt_storage_invalidate(mem->storage, QBRT_CANCELLED, "stopped");
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_first,
						i % 2 ? mem : NULL),
				 0);
	while (atomic_load(&mem->storage->waiters) < NUM_THREADS)
		sched_yield();
	get_bytes()[0] = 200;
	qbrt_storage_validate(mem->storage);
	qbrt_storage_end_write(mem->storage);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &seen), 0);
		ck_assert_uint_eq((uintptr_t)seen, 200);
	}
	ck_assert_uint_eq(atomic_load(&qbrt_counters.host_blocks), NUM_THREADS);
	close_memory();
}
END_TEST

static void *fill_seven(void *arg)
{
	const unsigned char value = 7;

	(void)arg;
	return (void *)(uintptr_t)qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8,
							  &value);
}

/* Q499 */
START_TEST(writing_waits_for_the_job_that_writes)
{
	const int64_t shape[] = { 4 };
	pthread_t thread;
	void *status;

	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	ck_assert(qbrt_storage_begin_write(mem->storage));
	ck_assert_int_eq(pthread_create(&thread, NULL, fill_seven, NULL), 0);
	while (!atomic_load(&mem->storage->waiters))
		sched_yield();
	get_bytes()[3] = 1;
	qbrt_storage_end_write(mem->storage);
	ck_assert_int_eq(pthread_join(thread, &status), 0);
	ck_assert_ptr_null(status);
	ck_assert_int_eq(get_bytes()[3], 7);
	/* and nobody waits for nothing */
	ck_assert_ptr_null(fill_seven(NULL));
	ck_assert_uint_eq(atomic_load(&qbrt_counters.host_blocks), 1);
	close_memory();
}
END_TEST

static void *write_seven(void *arg)
{
	const int64_t index[] = { 3 };
	const struct qbrt_slice slice = { 3, 1, 1 };
	const int64_t one[] = { 1 };
	unsigned char value = 7;
	const struct qbrt_array array = { .data = &value,
					  .shape = one,
					  .ndim = 1,
					  .dtype = QBRT_DTYPE_UINT8 };
	enum qbrt_status status;

	if (*(const int *)arg == 0)
		status = qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, &value);
	else if (*(const int *)arg == 1)
		status = qbrt_pinned_memory_write_at(mem, index, 1,
						     QBRT_DTYPE_UINT8, &value);
	else
		status = qbrt_pinned_memory_write_slice(mem, &slice, 1, &array);
	return (void *)(uintptr_t)status;
}

/* Q499 PM17: the job reads what was there when it began. */
START_TEST(writing_waits_for_the_job_that_reads)
{
	const int64_t shape[] = { 4 };
	pthread_t thread;
	void *status;

	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	get_bytes()[3] = 1;
	ck_assert(qbrt_storage_begin_read(mem->storage));
	ck_assert_int_eq(pthread_create(&thread, NULL, write_seven, &_i), 0);
	while (!atomic_load(&mem->storage->waiters))
		sched_yield();
	ck_assert_int_eq(get_bytes()[3], 1);
	qbrt_storage_end_read(mem->storage);
	ck_assert_int_eq(pthread_join(thread, &status), 0);
	ck_assert_ptr_null(status);
	ck_assert_int_eq(get_bytes()[3], 7);
	ck_assert_uint_eq(atomic_load(&mem->storage->uses), 0);
	close_memory();
}
END_TEST

#define RACE_NBYTES 16384
static atomic_bool is_race_over;
static atomic_uint num_fills;

/* Jobs that fail half way, until the test is over, each after another fill. */
static void *scribble(void *arg)
{
	unsigned char value = 0;
	unsigned int seen = 0;

	(void)arg;
	while (!atomic_load(&is_race_over)) {
		if (atomic_load(&num_fills) == seen) {
			sched_yield();
			continue;
		}
		seen = atomic_load(&num_fills);
		if (!qbrt_storage_begin_write(mem->storage))
			continue;
		memset(get_bytes(), ++value, RACE_NBYTES / 2);
		qbrt_storage_invalidate(mem->storage, QBRT_CANCELLED,
					"stopped");
		qbrt_storage_end_write(mem->storage);
	}
	return NULL;
}

static void *fill_often(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_race_over)) {
		if (fill_seven(NULL))
			return mem;
		atomic_fetch_add(&num_fills, 1);
	}
	return NULL;
}

/* Q485: neither a read nor a fill can be overtaken by a job that fails. */
START_TEST(what_is_read_is_never_half_a_failed_job)
{
	static unsigned char bytes[RACE_NBYTES], sevens[RACE_NBYTES];
	const int64_t shape[] = { RACE_NBYTES };
	const struct qbrt_slice whole = { 0, RACE_NBYTES, 1 };
	const struct qbrt_array array = { .data = bytes,
					  .shape = shape,
					  .ndim = 1,
					  .dtype = QBRT_DTYPE_UINT8 };
	pthread_t threads[2];
	int num_read = 0;
	void *failed;

	memset(sevens, 7, RACE_NBYTES);
	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	ck_assert_ptr_null(fill_seven(NULL));
	ck_assert_int_eq(pthread_create(&threads[0], NULL, scribble, NULL), 0);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, fill_often, NULL),
			 0);
	while (num_read < 500) {
		enum qbrt_status status =
			qbrt_pinned_memory_read_slice(mem, &whole, 1, &array);

		ck_assert(!status || status == QBRT_TENSOR_INVALID);
		if (status)
			continue;
		ck_assert_mem_eq(bytes, sevens, RACE_NBYTES);
		num_read++;
	}
	atomic_store(&is_race_over, true);
	ck_assert_int_eq(pthread_join(threads[0], NULL), 0);
	ck_assert_int_eq(pthread_join(threads[1], &failed), 0);
	ck_assert_ptr_null(failed);
	close_memory();
}
END_TEST

/* The caller's side of an access: the first touch finds out who may use it. */
static struct {
	void *page;
	int num_touches;
	bool can_read, can_write;
} touched;

static void note_uses(int number)
{
	(void)number;
	touched.num_touches++;
	touched.can_read = qbrt_storage_begin_read(mem->storage);
	if (touched.can_read)
		qbrt_storage_end_read(mem->storage);
	touched.can_write = qbrt_storage_begin_write(mem->storage);
	if (touched.can_write)
		qbrt_storage_end_write(mem->storage);
	if (mprotect(touched.page, 4096, PROT_READ | PROT_WRITE))
		_exit(1);
}

static enum qbrt_status access_memory(int way, void *value)
{
	const int64_t index[] = { 0 };
	const int64_t shape[] = { 4 };
	const struct qbrt_slice slice = { 0, 4, 1 };
	const struct qbrt_array array = { .data = value,
					  .shape = shape,
					  .ndim = 1,
					  .dtype = QBRT_DTYPE_UINT8 };

	switch (way) {
	case 0:
		return qbrt_pinned_memory_read_at(mem, index, 1,
						  QBRT_DTYPE_UINT8, value);
	case 1:
		return qbrt_pinned_memory_read_slice(mem, &slice, 1, &array);
	case 2:
		return qbrt_pinned_memory_write_at(mem, index, 1,
						   QBRT_DTYPE_UINT8, value);
	case 3:
		return qbrt_pinned_memory_write_slice(mem, &slice, 1, &array);
	default:
		return qbrt_pinned_memory_fill(mem, QBRT_DTYPE_UINT8, value);
	}
}

/* Q485 Q499: no job begins while the host's bytes move. */
START_TEST(an_access_is_a_use_while_bytes_move)
{
	const struct sigaction action = { .sa_handler = note_uses };
	const int64_t shape[] = { 4 };

	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	touched.page =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(touched.page != MAP_FAILED);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	ck_assert_ok(access_memory(_i, touched.page));
	ck_assert_int_eq(touched.num_touches, 1);
	/* reads are shared with readers, writes with nobody */
	ck_assert(touched.can_read == (_i < 2));
	ck_assert(!touched.can_write);
	ck_assert_uint_eq(atomic_load(&mem->storage->uses), 0);
	ck_assert_int_eq(munmap(touched.page, 4096), 0);
	close_memory();
}
END_TEST

static void *index_own_row(void *arg)
{
	int64_t row = (int64_t)(intptr_t)arg;
	int32_t value, seen;
	int64_t i;

	for (i = 0; i < 500; i++) {
		const int64_t index[] = { row, i % 16 };

		value = (int32_t)(row * 1000 + i);
		if (qbrt_pinned_memory_write_at(mem, index, 2, QBRT_DTYPE_INT32,
						&value) ||
		    qbrt_pinned_memory_read_at(mem, index, 2, QBRT_DTYPE_INT32,
					       &seen) ||
		    seen != value)
			return mem;
	}
	return NULL;
}

/* Q740 */
START_TEST(eight_threads_index_one_buffer)
{
	const int64_t shape[] = { NUM_THREADS, 16 };
	pthread_t threads[NUM_THREADS];
	void *result;
	int i;

	open_memory(QBRT_DTYPE_INT32, shape, 2);
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						index_own_row,
						(void *)(intptr_t)i),
				 0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_ptr_null(result);
	}
	close_memory();
}
END_TEST

/* Links --wrap: while set, jobs begin and fail behind the back of who waits. */
static unsigned int num_waits;
static bool is_played;

int __real_qbrt_storage_wait_written(struct qbrt_storage *storage,
				     int64_t deadline_ns);
int __wrap_qbrt_storage_wait_written(struct qbrt_storage *storage,
				     int64_t deadline_ns);

int __wrap_qbrt_storage_wait_written(struct qbrt_storage *storage,
				     int64_t deadline_ns)
{
	int err;

	if (is_played && num_waits++) {
		qbrt_storage_validate(storage);
		qbrt_storage_invalidate(storage, QBRT_CANCELLED, "the second");
		qbrt_storage_end_write(storage);
		is_played = false;
	}
	err = __real_qbrt_storage_wait_written(storage, deadline_ns);
	if (is_played)
		ck_assert(qbrt_storage_begin_write(storage));
	return err;
}

/* Q485 Q499: a job that begins when the wait has ended writes it anew. */
START_TEST(a_wait_takes_no_sentence_that_a_job_may_write)
{
	const int64_t shape[] = { 4 };

	open_memory(QBRT_DTYPE_UINT8, shape, 1);
	qbrt_storage_invalidate(mem->storage, QBRT_CANCELLED, "the first");
	num_waits = 0;
	is_played = true;
	ck_assert_status(qbrt_pinned_memory_wait(mem, -1), QBRT_TENSOR_INVALID);
	ck_assert_detail("the second");
	ck_assert_uint_eq(atomic_load(&mem->storage->uses), 0);
	close_memory();
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(reading_waits_for_the_job_that_writes),
		QBRT_TEST(writing_waits_for_the_job_that_writes),
		QBRT_LOOP_TEST(writing_waits_for_the_job_that_reads, 3),
		QBRT_TEST(what_is_read_is_never_half_a_failed_job),
		QBRT_LOOP_TEST(an_access_is_a_use_while_bytes_move, 5),
		QBRT_TEST(eight_threads_index_one_buffer),
		QBRT_TEST(a_wait_takes_no_sentence_that_a_job_may_write),
	};

	return qbrt_test_run("pinned-index-use", tests, qbrt_array_size(tests));
}
