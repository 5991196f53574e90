/* SPDX-License-Identifier: MIT */
/*
 * One allocation: its buffer, who uses it, and whether its contents count.
 * Pinned memory (and later tensors) are views of a storage. Inputs wait,
 * outputs refuse: a job takes all its uses at once, before it is submitted,
 * by one atomic per buffer; it never holds one while it waits for another, so
 * no order of buffers can deadlock. An access of the host is a use too, of one
 * buffer alone, and waits for it.
 */
#ifndef QBRT_STORAGE_H
#define QBRT_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "accelerator.h"

struct qbrt_storage {
	struct qbrt_device *device; /* a reference */
	struct qbrt_buffer buffer;
	atomic_uint references;
	/* readers, and in the top bits a writer and a host write that waits */
	atomic_uint uses;
	atomic_uint waiters; /* threads asleep on uses */
	/* 0: valid; else the status of the job that left it half written */
	atomic_uint invalid_status;
	char invalid_detail[240]; /* that job's sentence; read in a use */
};

/* Takes over buffer; holds a reference on device. NULL: no memory. */
struct qbrt_storage *qbrt_storage_alloc(struct qbrt_device *device,
					const struct qbrt_buffer *buffer);
struct qbrt_storage *qbrt_storage_ref(struct qbrt_storage *storage);
void qbrt_storage_unref(struct qbrt_storage *storage);

/* false: somebody writes it or waits to; nothing was taken. */
bool qbrt_storage_begin_read(struct qbrt_storage *storage);
void qbrt_storage_end_read(struct qbrt_storage *storage);

/* false: somebody reads or writes it; nothing was taken. */
bool qbrt_storage_begin_write(struct qbrt_storage *storage);
void qbrt_storage_end_write(struct qbrt_storage *storage);

/*
 * Sleeps until nobody writes it or waits to. false: the absolute deadline
 * (INT64_MAX: none) has passed.
 */
bool qbrt_storage_wait_written(struct qbrt_storage *storage,
			       int64_t deadline_ns);

/*
 * The same uses for the host, waited for without a limit. No new reader comes
 * before a writer that waits.
 */
void qbrt_storage_take_read(struct qbrt_storage *storage);
void qbrt_storage_take_write(struct qbrt_storage *storage);

/*
 * Called by the writer, right after qbrt_fail: this thread's sentence is kept
 * for those who read. The first failure stays until the contents count again.
 */
void qbrt_storage_invalidate(struct qbrt_storage *storage,
			     enum qbrt_status status);
void qbrt_storage_validate(struct qbrt_storage *storage);

#endif
