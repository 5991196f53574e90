// SPDX-License-Identifier: MIT
/*
 * Counts references and uses of one allocation. A use is taken by one
 * compare-and-swap and never waited for while another is held. Waiters sleep
 * on the word of the uses itself; who ends a use makes a system call only when
 * somebody sleeps. Nothing here takes a lock.
 */
#include "storage.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "futex.h"
#include "util.h"

/* of uses; the rest counts readers */
#define WRITER 0x80000000u
#define WAITING_WRITER 0x40000000u

struct qbrt_storage *qbrt_storage_alloc(struct qbrt_device *device,
					const struct qbrt_buffer *buffer)
{
	struct qbrt_storage *storage = calloc(1, sizeof(*storage));

	if (!storage)
		return NULL;
	storage->device = qbrt_device_ref(device);
	storage->buffer = *buffer;
	atomic_init(&storage->references, 1);
	atomic_init(&storage->uses, 0);
	atomic_init(&storage->waiters, 0);
	atomic_init(&storage->invalid_status, QBRT_OK);
	return storage;
}

struct qbrt_storage *qbrt_storage_ref(struct qbrt_storage *storage)
{
	atomic_fetch_add_explicit(&storage->references, 1,
				  memory_order_relaxed);
	return storage;
}

void qbrt_storage_unref(struct qbrt_storage *storage)
{
	if (!storage || atomic_fetch_sub_explicit(&storage->references, 1,
						  memory_order_acq_rel) != 1)
		return;
	qbrt_device_give_buffer(storage->device, &storage->buffer);
	qbrt_device_unref(storage->device);
	free(storage);
}

/* Sequentially consistent, so that it sees the count of who went to sleep. */
static void wake(struct qbrt_storage *storage)
{
	if (atomic_load(&storage->waiters))
		qbrt_futex_wake(&storage->uses, INT_MAX);
}

bool qbrt_storage_begin_read(struct qbrt_storage *storage)
{
	unsigned int uses =
		atomic_load_explicit(&storage->uses, memory_order_relaxed);

	do {
		if (uses & (WRITER | WAITING_WRITER))
			return false;
	} while (
		!atomic_compare_exchange_weak(&storage->uses, &uses, uses + 1));
	return true;
}

/* Only a writer waits for readers, and only for the last one. */
void qbrt_storage_end_read(struct qbrt_storage *storage)
{
	if (atomic_fetch_sub(&storage->uses, 1) == (WAITING_WRITER | 1))
		wake(storage);
}

bool qbrt_storage_begin_write(struct qbrt_storage *storage)
{
	unsigned int idle = 0;

	return atomic_compare_exchange_strong(&storage->uses, &idle, WRITER);
}

void qbrt_storage_end_write(struct qbrt_storage *storage)
{
	atomic_store(&storage->uses, 0);
	wake(storage);
}

/* Sleeps until no bit of the mask is set; false: the deadline has passed. */
static bool wait_while(struct qbrt_storage *storage, unsigned int mask,
		       int64_t deadline_ns)
{
	bool is_in_time = true;
	unsigned int uses;

	atomic_fetch_add(&storage->waiters, 1);
	/* the futex looks at the word again: no end of a use is missed */
	while ((uses = atomic_load(&storage->uses)) & mask && is_in_time) {
		qbrt_futex_wait(&storage->uses, uses, deadline_ns);
		is_in_time =
			deadline_ns == INT64_MAX || qbrt_now_ns() < deadline_ns;
	}
	atomic_fetch_sub(&storage->waiters, 1);
	return is_in_time;
}

bool qbrt_storage_wait_written(struct qbrt_storage *storage,
			       int64_t deadline_ns)
{
	return qbrt_now_ns() < deadline_ns &&
	       wait_while(storage, WRITER | WAITING_WRITER, deadline_ns);
}

void qbrt_storage_take_read(struct qbrt_storage *storage)
{
	while (!qbrt_storage_begin_read(storage))
		(void)wait_while(storage, WRITER | WAITING_WRITER, INT64_MAX);
}

/* Taken at once when nobody uses it, else announced and waited for. */
void qbrt_storage_take_write(struct qbrt_storage *storage)
{
	unsigned int uses = atomic_load(&storage->uses);

	for (;;) {
		bool is_free = !(uses & ~WAITING_WRITER);

		if (!atomic_compare_exchange_weak(
			    &storage->uses, &uses,
			    is_free ? WRITER : uses | WAITING_WRITER))
			continue;
		if (is_free)
			return;
		(void)wait_while(storage, ~WAITING_WRITER, INT64_MAX);
		uses = atomic_load(&storage->uses);
	}
}

void qbrt_storage_invalidate(struct qbrt_storage *storage,
			     enum qbrt_status status)
{
	if (atomic_load_explicit(&storage->invalid_status,
				 memory_order_relaxed) != QBRT_OK)
		return;
	(void)snprintf(storage->invalid_detail, sizeof(storage->invalid_detail),
		       "%s", qbrt_error_detail());
	/* last, so that who sees it sees the sentence */
	atomic_store_explicit(&storage->invalid_status, status,
			      memory_order_release);
}

void qbrt_storage_validate(struct qbrt_storage *storage)
{
	atomic_store_explicit(&storage->invalid_status, QBRT_OK,
			      memory_order_release);
}
