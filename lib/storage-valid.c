// SPDX-License-Identifier: MIT
/*
 * Whether the contents of a storage count, and the wait for those who write it.
 */
#include "storage.h"

#include <errno.h>
#include <stdio.h>

#include "status.h"
#include "util.h"

enum qbrt_status qbrt_storage_check_valid(const struct qbrt_storage *storage)
{
	enum qbrt_status status = atomic_load_explicit(&storage->invalid_status,
						       memory_order_acquire);

	if (status == QBRT_OK)
		return QBRT_OK;
	return qbrt_fail(QBRT_TENSOR_INVALID,
			 "the job that wrote this buffer failed with %s: %s; "
			 "fill it, or write all of it, to use it again",
			 qbrt_status_name(status), storage->invalid_detail);
}

/* false: another job writes it by now. The sentence stays within a use alone. */
static bool judge(struct qbrt_storage *storage, enum qbrt_status *status)
{
	*status = QBRT_OK;
	if (qbrt_storage_is_valid(storage))
		return true;
	if (!qbrt_storage_begin_read(storage))
		return false;
	*status = qbrt_storage_check_valid(storage);
	qbrt_storage_end_read(storage);
	return true;
}

enum qbrt_status qbrt_storage_wait(struct qbrt_storage *storage,
				   int64_t timeout)
{
	int64_t deadline_ns = timeout < 0 ? INT64_MAX : 0;
	enum qbrt_status status = QBRT_OK;
	int err;

	if (timeout > 0)
		deadline_ns = qbrt_deadline_ns(timeout);
	do {
		err = qbrt_storage_wait_written(storage, deadline_ns);
	} while (!err && !judge(storage, &status));
	if (err == -ETIME)
		return qbrt_fail(QBRT_TIMED_OUT,
				 "the memory is still being written after %lld "
				 "ns; the job goes on",
				 (long long)timeout);
	if (err == -EDEADLK)
		return qbrt_storage_fail_asking();
	if (err)
		return qbrt_fail(QBRT_INTERRUPTED,
				 "the interrupt function ended the wait for "
				 "the memory; the job goes on");
	return status;
}

void qbrt_storage_invalidate(struct qbrt_storage *storage,
			     enum qbrt_status status, const char *detail)
{
	if (atomic_load_explicit(&storage->invalid_status,
				 memory_order_relaxed) != QBRT_OK)
		return;
	(void)snprintf(storage->invalid_detail, sizeof(storage->invalid_detail),
		       "%s", detail);
	/* last, so that who sees it sees the sentence */
	atomic_store_explicit(&storage->invalid_status, status,
			      memory_order_release);
}
