/* SPDX-License-Identifier: MIT */
/*
 * One allocation: its buffer, who uses it, and whether its contents count; or
 * memory of others, with what gives it back. Pinned memory and tensors are
 * views of a storage. Inputs wait,
 * outputs refuse: a job takes all its uses at once, before it is submitted,
 * by one atomic per buffer; it never holds one while it waits for another, so
 * no order of buffers can deadlock. An access of the host is a use too, of one
 * buffer alone, and waits for it.
 *
 * The uses of a job that nobody waits for last until the job has ended
 * (job.h), and no thread does that by itself. So who finds a buffer in use
 * looks for such a job, and ends it, waits for it, or comes after it.
 */
#ifndef QBRT_STORAGE_H
#define QBRT_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "accelerator.h"
#include "job.h"

/* of uses; the rest counts readers */
#define QBRT_STORAGE_WRITER 0x80000000u
#define QBRT_STORAGE_WAITING_WRITER 0x40000000u
#define QBRT_STORAGE_HELD 0x20000000u
#define QBRT_STORAGE_READERS 0x1fffffffu

#define QBRT_STORAGE_MAX_BRACKETS 48
#define QBRT_STORAGE_OPEN_WRITES \
	((UINT64_C(1) << QBRT_STORAGE_MAX_BRACKETS) - 1)

struct qbrt_storage {
	/* a reference; NULL: memory of others, of which only release is set */
	struct qbrt_device *device;
	struct qbrt_buffer buffer;
	size_t nbytes; /* what was asked for of it */
	atomic_uint references;
	/* memory of others */
	qbrt_release_function release; /* NULL: nothing is to be done */
	void *release_arg;
	bool is_deferred; /* qbrt_bridge_drain() releases it */
	struct qbrt_storage *next_deferred;
	/* storage-find.c's tree, by address */
	struct qbrt_storage *left;
	struct qbrt_storage *right;
	uint32_t priority;
	/* readers, and in the top bits who writes, waits to, or holds it */
	atomic_uint uses;
	atomic_uint waiters; /* threads that wait for a change of the uses */
	atomic_uint changes; /* futex: counts them while somebody waits */
	/*
	 * Open brackets of the host: how many in the top byte, below it a bit
	 * for each, the first one lowest: does it write?
	 */
	atomic_uint_fast64_t brackets;
	/* 0: valid; else the status of the job that left it half written */
	atomic_uint invalid_status;
	char invalid_detail[240]; /* that job's sentence; read in a use */
};

/*
 * Takes over buffer, of which nbytes were asked for; holds a reference on
 * device. NULL: no memory.
 */
struct qbrt_storage *qbrt_storage_alloc(struct qbrt_device *device,
					const struct qbrt_buffer *buffer,
					size_t nbytes);
/*
 * Of memory of others: nobody but its owner knows who uses it, so all below but
 * ref and unref are for storages with a device. NULL: no memory.
 */
struct qbrt_storage *qbrt_storage_alloc_foreign(qbrt_release_function release,
						void *arg, bool is_deferred);
struct qbrt_storage *qbrt_storage_ref(struct qbrt_storage *storage);
void qbrt_storage_unref(struct qbrt_storage *storage);

/*
 * storage-find.c: the storage of this process's devices that all bytes from
 * begin to end lie in, with a reference; NULL: none.
 */
struct qbrt_storage *qbrt_storage_find(uintptr_t begin, uintptr_t end);
void qbrt_storage_add_to_find(struct qbrt_storage *storage);
void qbrt_storage_remove_from_find(struct qbrt_storage *storage);

/* Something has changed that threads may wait for. */
void qbrt_storage_tell_waiters(struct qbrt_storage *storage);

/* false: somebody writes it or waits to; nothing was taken. */
static inline bool qbrt_storage_begin_read(struct qbrt_storage *storage)
{
	unsigned int uses =
		atomic_load_explicit(&storage->uses, memory_order_relaxed);

	do {
		if (uses & (QBRT_STORAGE_WRITER | QBRT_STORAGE_WAITING_WRITER))
			return false;
	} while (
		!atomic_compare_exchange_weak(&storage->uses, &uses, uses + 1));
	return true;
}

/* true: somebody is to be told; only a writer waits for readers. */
static inline bool qbrt_storage_end_read_quietly(struct qbrt_storage *storage)
{
	return atomic_fetch_sub(&storage->uses, 1) &
	       QBRT_STORAGE_WAITING_WRITER;
}

static inline void qbrt_storage_end_read(struct qbrt_storage *storage)
{
	if (qbrt_storage_end_read_quietly(storage))
		qbrt_storage_tell_waiters(storage);
}

/*
 * A read that comes after the job that writes the storage: that job, with a
 * reference, for the reader's job to wait for. NULL: no queued job writes it,
 * nothing was taken.
 */
struct qbrt_job *qbrt_storage_begin_read_after(struct qbrt_storage *storage);

/* false: somebody reads, writes or holds it; nothing was taken. */
static inline bool qbrt_storage_begin_write(struct qbrt_storage *storage)
{
	unsigned int idle = 0;

	return atomic_compare_exchange_strong(&storage->uses, &idle,
					      QBRT_STORAGE_WRITER);
}

/*
 * Readers that come after the write have begun before its end. Sequentially
 * consistent, so that who is to wait is seen. true: somebody is to be told.
 */
static inline bool qbrt_storage_end_write_quietly(struct qbrt_storage *storage)
{
	atomic_fetch_and(&storage->uses, ~QBRT_STORAGE_WRITER);
	return atomic_load(&storage->waiters);
}

static inline void qbrt_storage_end_write(struct qbrt_storage *storage)
{
	if (qbrt_storage_end_write_quietly(storage))
		qbrt_storage_tell_waiters(storage);
}

/*
 * Ends a write and keeps other jobs from writing it (its future has not been
 * taken): it may be read, and the host may write it.
 */
void qbrt_storage_end_write_and_hold(struct qbrt_storage *storage);
void qbrt_storage_unhold(struct qbrt_storage *storage);
bool qbrt_storage_is_held(const struct qbrt_storage *storage);

/*
 * Waits until a read may begin. 0; -ETIME: not until the absolute deadline
 * (INT64_MAX: none); -EINTR: the interrupt function asked to stop; -EDEADLK:
 * asked for inside that function, which a call that uses it may be waiting for.
 */
int qbrt_storage_wait_written(struct qbrt_storage *storage,
			      int64_t deadline_ns);

/* The sentence of -EDEADLK. */
enum qbrt_status qbrt_storage_fail_asking(void);

/* The host has it open: for writing no job may use it, else none write it. */
static inline bool qbrt_storage_is_open(const struct qbrt_storage *storage,
					bool for_writing)
{
	uint64_t brackets =
		atomic_load_explicit(&storage->brackets, memory_order_relaxed);

	return for_writing ? brackets & QBRT_STORAGE_OPEN_WRITES : brackets;
}

/* Nobody writes it, as far as can be seen without waiting. */
bool qbrt_storage_is_written(struct qbrt_storage *storage);

/*
 * Uses of the host, waited for without a limit; no new reader comes before a
 * writer that waits. QBRT_INTERRUPTED with its sentence: nothing was taken.
 */
enum qbrt_status qbrt_storage_take_read(struct qbrt_storage *storage);
enum qbrt_status qbrt_storage_take_write(struct qbrt_storage *storage);

/*
 * Called by the writer: detail, the sentence, is kept for those who read. The
 * first failure stays until the contents count again.
 */
void qbrt_storage_invalidate(struct qbrt_storage *storage,
			     enum qbrt_status status, const char *detail);
/*
 * QBRT_TENSOR_INVALID with the first error's sentence when a failed job left
 * the contents half written, else QBRT_OK. In a use.
 */
enum qbrt_status qbrt_storage_check_valid(const struct qbrt_storage *storage);

/*
 * Until no job writes it, at most timeout ns, negative for no limit; then its
 * validity. Without a use.
 */
enum qbrt_status qbrt_storage_wait(struct qbrt_storage *storage,
				   int64_t timeout);

/* In a use. */
static inline bool qbrt_storage_is_valid(const struct qbrt_storage *storage)
{
	return atomic_load_explicit(&storage->invalid_status,
				    memory_order_acquire) == QBRT_OK;
}

/* Nobody writes it or waits to, and its contents count: as of now. */
static inline bool qbrt_storage_is_readable(const struct qbrt_storage *storage)
{
	return !(atomic_load(&storage->uses) &
		 (QBRT_STORAGE_WRITER | QBRT_STORAGE_WAITING_WRITER)) &&
	       qbrt_storage_is_valid(storage);
}

static inline void qbrt_storage_validate(struct qbrt_storage *storage)
{
	atomic_store_explicit(&storage->invalid_status, QBRT_OK,
			      memory_order_release);
}

#endif
