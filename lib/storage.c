// SPDX-License-Identifier: MIT
/*
 * Counts references and uses of one allocation. A use is taken by one
 * compare-and-swap and never waited for while another is held. Who waits
 * announces it, then looks at the uses and at the queued jobs, then sleeps
 * until something changes; who changes something counts it only if somebody
 * has announced to wait, and makes a system call only then.
 */
#include "storage.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "counters.h"
#include "futex.h"
#include "interrupt.h"
#include "status.h"
#include "util.h"

struct qbrt_storage *qbrt_storage_alloc(struct qbrt_device *device,
					const struct qbrt_buffer *buffer,
					size_t nbytes)
{
	struct qbrt_storage *storage = malloc(sizeof(*storage));

	if (!storage)
		return NULL;
	storage->device = qbrt_device_ref(device);
	storage->buffer = *buffer;
	storage->nbytes = nbytes;
	storage->is_deferred = false;
	atomic_init(&storage->references, 1);
	atomic_init(&storage->uses, 0);
	atomic_init(&storage->waiters, 0);
	atomic_init(&storage->changes, 0);
	atomic_init(&storage->brackets, 0);
	atomic_init(&storage->invalid_status, QBRT_OK);
	storage->invalid_detail[0] = '\0';
	qbrt_storage_add_to_find(storage);
	qbrt_count(storages);
	return storage;
}

struct qbrt_storage *qbrt_storage_alloc_foreign(qbrt_release_function release,
						void *arg, bool is_deferred)
{
	struct qbrt_storage *storage = malloc(sizeof(*storage));

	if (!storage)
		return NULL;
	storage->device = NULL;
	atomic_init(&storage->references, 1);
	storage->release = release;
	storage->release_arg = arg;
	storage->is_deferred = is_deferred && release;
	qbrt_count(storages);
	return storage;
}

struct qbrt_storage *qbrt_storage_ref(struct qbrt_storage *storage)
{
	atomic_fetch_add_explicit(&storage->references, 1,
				  memory_order_relaxed);
	return storage;
}

/* Storages whose release waits for a thread that may run it, last one first. */
static _Atomic(struct qbrt_storage *) deferred;

static void defer(struct qbrt_storage *storage)
{
	struct qbrt_storage *first = atomic_load(&deferred);

	qbrt_count(deferred_releases);
	do {
		storage->next_deferred = first;
	} while (!atomic_compare_exchange_weak(&deferred, &first, storage));
}

/* No lock is held: it may be anybody's function. */
static void release(struct qbrt_storage *storage)
{
	qbrt_release_function function = storage->release;
	void *arg = storage->release_arg;

	free(storage);
	qbrt_uncount(storages);
	if (function)
		function(arg);
}

void qbrt_storage_unref(struct qbrt_storage *storage)
{
	if (!storage || atomic_fetch_sub_explicit(&storage->references, 1,
						  memory_order_acq_rel) != 1)
		return;
	if (!storage->device) {
		if (storage->is_deferred)
			defer(storage);
		else
			release(storage);
		return;
	}
	qbrt_storage_remove_from_find(storage);
	qbrt_device_give_buffer(storage->device, &storage->buffer);
	qbrt_device_unref(storage->device);
	free(storage);
	qbrt_uncount(storages);
}

/* The first that was deferred first. */
static struct qbrt_storage *take_deferred(void)
{
	struct qbrt_storage *last = atomic_exchange(&deferred, NULL);
	struct qbrt_storage *first = NULL;

	while (last) {
		struct qbrt_storage *next = last->next_deferred;

		last->next_deferred = first;
		first = last;
		last = next;
	}
	return first;
}

QBRT_API enum qbrt_status qbrt_bridge_drain(size_t *num_released)
{
	struct qbrt_storage *storage;
	size_t num = 0;

	while (atomic_load(&deferred))
		for (storage = take_deferred(); storage; num++) {
			struct qbrt_storage *next = storage->next_deferred;

			qbrt_uncount(deferred_releases);
			release(storage);
			storage = next;
		}
	if (num_released)
		*num_released = num;
	return QBRT_OK;
}

/* Sequentially consistent, so that it sees the count of who is to wait. */
void qbrt_storage_tell_waiters(struct qbrt_storage *storage)
{
	if (!atomic_load(&storage->waiters))
		return;
	atomic_fetch_add(&storage->changes, 1);
	qbrt_futex_wake(&storage->changes, INT_MAX);
}

void qbrt_storage_end_write_and_hold(struct qbrt_storage *storage)
{
	atomic_fetch_or(&storage->uses, QBRT_STORAGE_HELD);
	qbrt_storage_end_write(storage);
}

void qbrt_storage_unhold(struct qbrt_storage *storage)
{
	atomic_fetch_and(&storage->uses, ~QBRT_STORAGE_HELD);
}

bool qbrt_storage_is_held(const struct qbrt_storage *storage)
{
	return atomic_load_explicit(&storage->uses, memory_order_relaxed) &
	       QBRT_STORAGE_HELD;
}

static bool writes(const struct qbrt_job *job, void *arg)
{
	return job->ops->get_use(job, arg) == QBRT_JOB_WRITES;
}

static bool uses_it(const struct qbrt_job *job, void *arg)
{
	return job->ops->get_use(job, arg) != QBRT_JOB_USES_NOT;
}

/* Under the lock of the writer's queue: its write lasts meanwhile. */
static bool join_reader(const struct qbrt_job *job, void *arg)
{
	struct qbrt_storage *storage = arg;
	unsigned int uses = atomic_load(&storage->uses);

	if (!writes(job, arg) || !qbrt_job_is_queued(job))
		return false;
	while (!(uses & QBRT_STORAGE_WAITING_WRITER))
		if (atomic_compare_exchange_weak(&storage->uses, &uses,
						 uses + 1))
			return true;
	return false;
}

struct qbrt_job *qbrt_storage_begin_read_after(struct qbrt_storage *storage)
{
	return qbrt_device_find_job(storage->device, join_reader, storage);
}

/*
 * One sleep, or the end of one job that is in the way. patience_ns: until when
 * a use that is no job's is waited for.
 */
static int wait_change(struct qbrt_storage *storage, unsigned int changes,
		       bool (*is_in_way)(const struct qbrt_job *job, void *arg),
		       int64_t deadline_ns, int64_t patience_ns)
{
	struct qbrt_job *job =
		qbrt_device_find_job(storage->device, is_in_way, storage);
	int64_t until_ns;
	int err;

	if (job) {
		err = qbrt_job_wait(job, deadline_ns);
		qbrt_job_unref(job);
		return err;
	}
	until_ns = qbrt_interrupt_slice(deadline_ns);
	if (until_ns > patience_ns)
		until_ns = patience_ns;
	qbrt_futex_wait(&storage->changes, changes, until_ns);
	if (qbrt_interrupt_ask())
		return -EINTR;
	if (patience_ns != INT64_MAX && qbrt_now_ns() >= patience_ns)
		return -EDEADLK;
	return deadline_ns != INT64_MAX && qbrt_now_ns() >= deadline_ns ? -ETIME
									: 0;
}

/*
 * Until none of the bits of mask is set. mark: bits to set each time before the
 * uses are looked at.
 */
static int wait_while(struct qbrt_storage *storage, unsigned int mask,
		      unsigned int mark, int64_t deadline_ns)
{
	bool is_read = !(mask & QBRT_STORAGE_READERS);
	/* the use may be of the call that waits for this one to return */
	int64_t patience_ns = qbrt_interrupt_is_asking()
				      ? qbrt_interrupt_cut(INT64_MAX)
				      : INT64_MAX;
	int err = 0;

	atomic_fetch_add(&storage->waiters, 1);
	while (!err) {
		unsigned int changes = atomic_load(&storage->changes);

		if (!(atomic_fetch_or(&storage->uses, mark) & mask))
			break;
		err = wait_change(storage, changes, is_read ? writes : uses_it,
				  deadline_ns, patience_ns);
	}
	atomic_fetch_sub(&storage->waiters, 1);
	return err;
}

int qbrt_storage_wait_written(struct qbrt_storage *storage, int64_t deadline_ns)
{
	const unsigned int mask =
		QBRT_STORAGE_WRITER | QBRT_STORAGE_WAITING_WRITER;

	/* as most find it: who does not wait need not be told */
	if (!(atomic_load(&storage->uses) & mask))
		return 0;
	return wait_while(storage, mask, 0, deadline_ns);
}

bool qbrt_storage_is_written(struct qbrt_storage *storage)
{
	struct qbrt_job *job;

	if (!(atomic_load(&storage->uses) & QBRT_STORAGE_WRITER))
		return true;
	job = qbrt_device_find_job(storage->device, writes, storage);
	if (job) {
		(void)qbrt_job_collect(job);
		qbrt_job_unref(job);
	}
	return !(atomic_load(&storage->uses) & QBRT_STORAGE_WRITER);
}

enum qbrt_status qbrt_storage_fail_asking(void)
{
	return qbrt_fail(QBRT_PINNED_MEMORY_IN_USE,
			 "a call uses the memory that may be waiting for the "
			 "interrupt function, or the signal handler, to "
			 "return: use other memory in there");
}

static enum qbrt_status fail_wait(int err)
{
	if (err == -EDEADLK)
		return qbrt_storage_fail_asking();
	return qbrt_fail(QBRT_INTERRUPTED,
			 "the interrupt function ended the wait for a buffer "
			 "that jobs use; the jobs go on");
}

/* Jobs that are complete and that nobody has asked for still have uses. */
static bool begin_read(struct qbrt_storage *storage)
{
	if (qbrt_storage_begin_read(storage))
		return true;
	qbrt_device_collect(storage->device);
	return qbrt_storage_begin_read(storage);
}

enum qbrt_status qbrt_storage_take_read(struct qbrt_storage *storage)
{
	int err = 0;

	if (begin_read(storage))
		return QBRT_OK;
	qbrt_count(host_blocks);
	do
		err = qbrt_storage_wait_written(storage, INT64_MAX);
	while (!err && !qbrt_storage_begin_read(storage));
	return err ? fail_wait(err) : QBRT_OK;
}

/* It is not announced any more that this thread waits to write. */
static void give_up_write(struct qbrt_storage *storage)
{
	atomic_fetch_and(&storage->uses, ~QBRT_STORAGE_WAITING_WRITER);
	qbrt_storage_tell_waiters(storage);
}

/* true: nobody read or wrote it; the mark of who waits goes with it. */
static bool try_write(struct qbrt_storage *storage)
{
	unsigned int uses = atomic_load(&storage->uses);

	while (!(uses & (QBRT_STORAGE_WRITER | QBRT_STORAGE_READERS)))
		if (atomic_compare_exchange_weak(&storage->uses, &uses,
						 (uses & QBRT_STORAGE_HELD) |
							 QBRT_STORAGE_WRITER))
			return true;
	return false;
}

/*
 * Taken at once when nobody uses it, else announced and waited for. Several
 * that wait share one mark: who gets it, or gives up, takes the mark with it,
 * and the others set it again when they look next.
 */
enum qbrt_status qbrt_storage_take_write(struct qbrt_storage *storage)
{
	int err;

	if (try_write(storage))
		return QBRT_OK;
	qbrt_device_collect(storage->device);
	if (try_write(storage))
		return QBRT_OK;
	qbrt_count(host_blocks);
	do
		err = wait_while(storage,
				 QBRT_STORAGE_WRITER | QBRT_STORAGE_READERS,
				 QBRT_STORAGE_WAITING_WRITER, INT64_MAX);
	while (!err && !try_write(storage));
	if (!err)
		return QBRT_OK;
	give_up_write(storage);
	return fail_wait(err);
}
