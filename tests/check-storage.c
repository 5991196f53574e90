// SPDX-License-Identifier: MIT
/*
 * Uses, waiters, references and validity of a storage, on a real device so
 * that the last reference gives a real buffer back.
 */
#include "test-util.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "counters.h"
#include "storage.h"
#include "util.h"

#define NUM_THREADS 8
#define NUM_ROUNDS 2000

static struct qbrt_accelerator *acc;

static struct qbrt_storage *alloc_storage(size_t nbytes)
{
	struct qbrt_storage *storage;
	struct qbrt_buffer buffer;

	if (!acc)
		ck_assert_ok(qbrt_accelerator_open(NULL, -1, &acc));
	ck_assert_ok(qbrt_device_take_buffer(acc->device, nbytes, 64, false,
					     &buffer));
	storage = qbrt_storage_alloc(acc->device, &buffer, buffer.size);
	ck_assert_ptr_nonnull(storage);
	return storage;
}

static void close_device(void)
{
	qbrt_accelerator_close(acc);
	acc = NULL;
}

/* PM17 Q488 */
START_TEST(readers_share_and_keep_a_writer_out)
{
	struct qbrt_storage *storage = alloc_storage(100);

	ck_assert(qbrt_storage_begin_read(storage));
	ck_assert(qbrt_storage_begin_read(storage));
	ck_assert(!qbrt_storage_begin_write(storage));
	qbrt_storage_end_read(storage);
	ck_assert(!qbrt_storage_begin_write(storage));
	qbrt_storage_end_read(storage);
	ck_assert(qbrt_storage_begin_write(storage));
	qbrt_storage_end_write(storage);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

/* PM17 Q488 */
START_TEST(a_writer_keeps_everybody_out)
{
	struct qbrt_storage *storage = alloc_storage(100);

	ck_assert(qbrt_storage_begin_write(storage));
	ck_assert(!qbrt_storage_begin_write(storage));
	ck_assert(!qbrt_storage_begin_read(storage));
	qbrt_storage_end_write(storage);
	ck_assert(qbrt_storage_begin_read(storage));
	qbrt_storage_end_read(storage);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

START_TEST(nobody_waits_for_readers_or_for_nobody)
{
	struct qbrt_storage *storage = alloc_storage(100);

	ck_assert_int_eq(qbrt_storage_wait_written(storage, INT64_MAX), 0);
	ck_assert(qbrt_storage_begin_read(storage));
	ck_assert_int_eq(qbrt_storage_wait_written(storage, INT64_MAX), 0);
	ck_assert_ok(qbrt_storage_take_read(storage));
	qbrt_storage_end_read(storage);
	qbrt_storage_end_read(storage);
	ck_assert_ok(qbrt_storage_take_write(storage));
	qbrt_storage_end_write(storage);
	ck_assert_uint_eq(atomic_load(&storage->uses), 0);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

/* Q340: the deadline is absolute; one that has passed polls. */
START_TEST(a_deadline_ends_the_wait_for_a_writer)
{
	struct qbrt_storage *storage = alloc_storage(100);
	int64_t deadline_ns = qbrt_now_ns() + QBRT_NS_PER_MS;

	ck_assert_int_eq(qbrt_storage_wait_written(storage, 0), 0);
	ck_assert(qbrt_storage_begin_write(storage));
	ck_assert_int_eq(qbrt_storage_wait_written(storage, 0), -ETIME);
	ck_assert_int_eq(qbrt_storage_wait_written(storage, deadline_ns),
			 -ETIME);
	ck_assert_int_ge(qbrt_now_ns(), deadline_ns);
	ck_assert_uint_eq(atomic_load(&storage->waiters), 0);
	qbrt_storage_end_write(storage);
	ck_assert_int_eq(qbrt_storage_wait_written(storage, INT64_MAX), 0);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

static void *take_and_end_write(void *arg)
{
	if (!qbrt_storage_take_write(arg))
		qbrt_storage_end_write(arg);
	return NULL;
}

/* No stream of readers keeps a writer out for ever. */
START_TEST(no_reader_comes_before_a_host_write_that_waits)
{
	struct qbrt_storage *storage = alloc_storage(100);
	pthread_t threads[2];
	int i;

	ck_assert(qbrt_storage_begin_read(storage));
	ck_assert(qbrt_storage_begin_read(storage));
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						take_and_end_write, storage),
				 0);
	while (atomic_load(&storage->waiters) < 2)
		sched_yield();
	ck_assert(!qbrt_storage_begin_read(storage));
	ck_assert(!qbrt_storage_begin_write(storage));
	qbrt_storage_end_read(storage);
	ck_assert(!qbrt_storage_begin_read(storage));
	qbrt_storage_end_read(storage);
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(atomic_load(&storage->uses), 0);
	ck_assert(qbrt_storage_begin_read(storage));
	qbrt_storage_end_read(storage);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

static _Thread_local bool may_give_up;

static bool gives_up(void *arg)
{
	return may_give_up && atomic_load((atomic_bool *)arg);
}

static void *take_or_give_up(void *arg)
{
	may_give_up = true;
	return (void *)(uintptr_t)qbrt_storage_take_write(arg);
}

/* Q499 Q739: the mark of writers that wait is set again by those who stay. */
START_TEST(a_writer_that_gives_up_lets_no_reader_before_another)
{
	struct qbrt_storage *storage = alloc_storage(100);
	atomic_bool says_stop = false;
	pthread_t staying;
	pthread_t leaving;
	void *status;

	qbrt_set_interrupt_function(gives_up, &says_stop);
	ck_assert(qbrt_storage_begin_read(storage));
	ck_assert(!pthread_create(&staying, NULL, take_and_end_write, storage));
	ck_assert(!pthread_create(&leaving, NULL, take_or_give_up, storage));
	while (atomic_load(&storage->waiters) < 2)
		sched_yield();
	atomic_store(&says_stop, true);
	qbrt_storage_tell_waiters(storage);
	ck_assert(!pthread_join(leaving, &status));
	ck_assert_uint_eq((uintptr_t)status, QBRT_INTERRUPTED);
	while (!(atomic_load(&storage->uses) & QBRT_STORAGE_WAITING_WRITER))
		sched_yield();
	ck_assert(!qbrt_storage_begin_read(storage));
	qbrt_storage_end_read(storage);
	ck_assert(!pthread_join(staying, NULL));
	ck_assert_uint_eq(atomic_load(&storage->uses), 0);
	qbrt_set_interrupt_function(NULL, NULL);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

static void *wait_and_read(void *arg)
{
	struct qbrt_storage *storage = arg;
	int value;

	(void)qbrt_storage_wait_written(storage, INT64_MAX);
	memcpy(&value, storage->buffer.data, sizeof(value));
	return (void *)(intptr_t)value;
}

/* PM11 */
START_TEST(waiters_wake_when_the_writer_ends_and_see_what_it_wrote)
{
	struct qbrt_storage *storage = alloc_storage(100);
	pthread_t threads[NUM_THREADS];
	const int value = 42;
	void *seen;
	int i;

	ck_assert(qbrt_storage_begin_write(storage));
	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL,
						wait_and_read, storage),
				 0);
	/* in the second round all of them are on their way to sleep */
	while (_i && atomic_load(&storage->waiters) < NUM_THREADS)
		sched_yield();
	memcpy(storage->buffer.data, &value, sizeof(value));
	qbrt_storage_end_write(storage);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &seen), 0);
		ck_assert_int_eq((int)(intptr_t)seen, value);
	}
	ck_assert_uint_eq(atomic_load(&storage->waiters), 0);
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

struct contest {
	struct qbrt_storage *storage;
	atomic_ulong num_writes;
};

static void *contend(void *arg)
{
	struct contest *contest = arg;
	struct qbrt_storage *storage = contest->storage;
	unsigned long *words = storage->buffer.data;
	unsigned long num_torn = 0;
	int i;

	for (i = 0; i < NUM_ROUNDS; i++) {
		bool is_writer =
			i % 8 == 0 && !qbrt_storage_take_write(storage);

		if (is_writer ||
		    (i % 4 == 0 && qbrt_storage_begin_write(storage))) {
			words[0]++;
			words[1]++;
			atomic_fetch_add(&contest->num_writes, 1);
			qbrt_storage_end_write(storage);
		} else if (qbrt_storage_begin_read(storage)) {
			num_torn += words[0] != words[1];
			qbrt_storage_end_read(storage);
		} else {
			(void)qbrt_storage_wait_written(storage, INT64_MAX);
		}
	}
	return (void *)num_torn;
}

START_TEST(a_write_use_is_exclusive_among_eight_threads)
{
	struct contest contest = { .storage = alloc_storage(64) };
	pthread_t threads[NUM_THREADS];
	unsigned long *words = contest.storage->buffer.data;
	void *num_torn;
	int i;

	for (i = 0; i < NUM_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, contend, &contest),
			0);
	for (i = 0; i < NUM_THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &num_torn), 0);
		ck_assert_ptr_null(num_torn);
	}
	ck_assert_uint_gt(atomic_load(&contest.num_writes), 0);
	ck_assert_uint_eq(words[0], atomic_load(&contest.num_writes));
	ck_assert_uint_eq(atomic_load(&contest.storage->uses), 0);
	qbrt_storage_unref(contest.storage);
	close_device();
}
END_TEST

/* Q495 */
START_TEST(the_last_reference_gives_the_buffer_back)
{
	struct qbrt_storage *storage = alloc_storage(5000);
	unsigned long before = atomic_load(&qbrt_counters.pooled_nbytes);
	unsigned long size = storage->buffer.size;

	ck_assert_ptr_eq(qbrt_storage_ref(storage), storage);
	qbrt_storage_unref(storage);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes), before);
	ck_assert(qbrt_storage_begin_read(storage));
	qbrt_storage_end_read(storage);
	qbrt_storage_unref(storage);
	/* a huge page is larger than what the pool takes */
	ck_assert_uint_eq(atomic_load(&qbrt_counters.pooled_nbytes),
			  size <= (1u << 20) ? before + size : before);
	close_device();
}
END_TEST

/* Q201 */
START_TEST(a_storage_keeps_its_device_open)
{
	struct qbrt_storage *storage = alloc_storage(100);

	close_device();
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 1);
	memset(storage->buffer.data, 1, 100);
	qbrt_storage_unref(storage);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
}
END_TEST

/* Q485 PM14 */
START_TEST(the_first_failure_stays_until_the_contents_count_again)
{
	struct qbrt_storage *storage = alloc_storage(100);

	ck_assert_uint_eq(atomic_load(&storage->invalid_status), QBRT_OK);
	qbrt_storage_invalidate(storage, QBRT_MODEL_PREDICT_ERROR, "first");
	qbrt_storage_invalidate(storage, QBRT_CANCELLED, "second");
	ck_assert_uint_eq(atomic_load(&storage->invalid_status),
			  QBRT_MODEL_PREDICT_ERROR);
	ck_assert_str_eq(storage->invalid_detail, "first");
	qbrt_storage_validate(storage);
	ck_assert_uint_eq(atomic_load(&storage->invalid_status), QBRT_OK);
	qbrt_storage_invalidate(storage, QBRT_CANCELLED, "third");
	ck_assert_uint_eq(atomic_load(&storage->invalid_status),
			  QBRT_CANCELLED);
	ck_assert_str_eq(storage->invalid_detail, "third");
	qbrt_storage_unref(storage);
	close_device();
}
END_TEST

START_TEST(unref_takes_null)
{
	qbrt_storage_unref(NULL);
	ck_assert_uint_eq(atomic_load(&qbrt_counters.open_devices), 0);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(readers_share_and_keep_a_writer_out),
		QBRT_TEST(a_writer_keeps_everybody_out),
		QBRT_TEST(nobody_waits_for_readers_or_for_nobody),
		QBRT_TEST(a_deadline_ends_the_wait_for_a_writer),
		QBRT_TEST(no_reader_comes_before_a_host_write_that_waits),
		QBRT_TEST(a_writer_that_gives_up_lets_no_reader_before_another),
		QBRT_LOOP_TEST(
			waiters_wake_when_the_writer_ends_and_see_what_it_wrote,
			2),
		QBRT_TEST(a_write_use_is_exclusive_among_eight_threads),
		QBRT_TEST(the_last_reference_gives_the_buffer_back),
		QBRT_TEST(a_storage_keeps_its_device_open),
		QBRT_TEST(
			the_first_failure_stays_until_the_contents_count_again),
		QBRT_TEST(unref_takes_null),
	};

	return qbrt_test_run("storage", tests, qbrt_array_size(tests));
}
