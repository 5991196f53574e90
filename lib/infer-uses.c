// SPDX-License-Identifier: MIT
/*
 * Inputs wait, outputs refuse. All uses are taken before the job is submitted,
 * outputs first, and given back together: nobody waits while it holds one. An
 * input that a queued job writes is taken behind that job, for which the device
 * will wait. An input that is also an output (the model allows it) is held by
 * its write.
 */
#include "infer.h"

#include <errno.h>

#include "pinned-memory.h"
#include "status.h"
#include "storage.h"
#include "util.h"

#define STOP_SLICE_NS (100 * QBRT_NS_PER_MS)

static bool is_aliased(const struct qbrt_inference *inference, size_t input)
{
	return inference->aliased_inputs >> input & 1;
}

static struct qbrt_storage *get_input(const struct qbrt_inference *inference,
				      size_t i)
{
	return inference->inputs[i]->storage;
}

static struct qbrt_storage *get_output(const struct qbrt_inference *inference,
				       size_t i)
{
	return inference->outputs[i]->storage;
}

static void end_reads(const struct qbrt_inference *inference, size_t num)
{
	for (size_t i = 0; i < num; i++)
		if (!is_aliased(inference, i))
			qbrt_storage_end_read(get_input(inference, i));
}

static void end_writes(const struct qbrt_inference *inference, size_t num)
{
	for (size_t i = 0; i < num; i++)
		qbrt_storage_end_write(get_output(inference, i));
}

void qbrt_inference_drop_writers(struct qbrt_inference *inference)
{
	for (uint32_t i = 0; i < inference->num_writers; i++)
		qbrt_job_unref(inference->writers[i]);
	inference->num_writers = 0;
}

/* Index of the first output that is refused, none is taken; or their number. */
static size_t begin_writes(const struct qbrt_inference *inference)
{
	size_t i;

	for (i = 0; i < inference->num_outputs; i++)
		if (!qbrt_storage_begin_write(get_output(inference, i))) {
			end_writes(inference, i);
			break;
		}
	return i;
}

static enum qbrt_status refuse_output(const struct qbrt_inference *inference,
				      size_t i)
{
	if (qbrt_storage_is_held(get_output(inference, i)))
		return qbrt_fail(QBRT_PINNED_MEMORY_IN_USE,
				 "%s: output %zu belongs to a future whose "
				 "result has not been taken: take or free it "
				 "first",
				 inference->model->name, i);
	return qbrt_fail(QBRT_PINNED_MEMORY_IN_USE,
			 "%s: output %zu is in use by another call, or by a "
			 "job that has not ended: give each its own outputs",
			 inference->model->name, i);
}

/* Jobs that are complete and that nobody has asked for still have uses. */
static enum qbrt_status take_outputs(const struct qbrt_inference *inference)
{
	size_t refused = begin_writes(inference);

	if (refused == inference->num_outputs)
		return QBRT_OK;
	qbrt_device_collect(inference->launched->device);
	refused = begin_writes(inference);
	if (refused == inference->num_outputs)
		return QBRT_OK;
	return refuse_output(inference, refused);
}

/* A read now, or behind the queued job that writes it. */
static bool begin_read(struct qbrt_inference *inference, size_t i)
{
	struct qbrt_storage *storage = get_input(inference, i);
	struct qbrt_job *writer;

	if (is_aliased(inference, i) || qbrt_storage_begin_read(storage))
		return true;
	qbrt_device_collect(storage->device);
	if (qbrt_storage_begin_read(storage))
		return true;
	writer = qbrt_storage_begin_read_after(storage);
	if (!writer)
		return false;
	inference->writers[inference->num_writers++] = writer;
	inference->late_inputs |= UINT64_C(1) << i;
	return true;
}

/* Index of the first input that the host writes, none is taken; or their num. */
static size_t begin_reads(struct qbrt_inference *inference)
{
	size_t i;

	for (i = 0; i < inference->num_inputs; i++)
		if (!begin_read(inference, i)) {
			end_reads(inference, i);
			qbrt_inference_drop_writers(inference);
			break;
		}
	return i;
}

static enum qbrt_status refuse_open(const struct qbrt_inference *inference,
				    const char *what, size_t i)
{
	return qbrt_fail(QBRT_PINNED_MEMORY_IN_USE,
			 "%s: %s %zu is open for access by the CPU: call "
			 "qbrt_pinned_memory_end_cpu_access first",
			 inference->model->name, what, i);
}

/* What a queued job is about to write will be judged by that job. */
static enum qbrt_status check_contents(const struct qbrt_inference *inference)
{
	enum qbrt_status status = QBRT_OK;

	for (size_t i = 0; i < inference->num_inputs && !status; i++) {
		if (qbrt_storage_is_open(get_input(inference, i), true))
			return refuse_open(inference, "input", i);
		if (!(inference->late_inputs >> i & 1))
			status = qbrt_storage_check_valid(
				inference->inputs[i]->storage);
	}
	for (size_t i = 0; i < inference->num_outputs && !status; i++)
		if (qbrt_storage_is_open(get_output(inference, i), false))
			return refuse_open(inference, "output", i);
	return status;
}

/* In slices: a dispose wakes nobody who waits for other models' jobs. */
static int sleep_until_written(const struct qbrt_inference *inference,
			       struct qbrt_storage *storage)
{
	int64_t until_ns;
	int err;

	do {
		if (atomic_load(&inference->launched->is_stopping))
			return -ESHUTDOWN;
		until_ns = qbrt_now_ns() + STOP_SLICE_NS;
		if (until_ns > inference->deadline_ns)
			until_ns = inference->deadline_ns;
		err = qbrt_storage_wait_written(storage, until_ns);
	} while (err == -ETIME && until_ns < inference->deadline_ns);
	return err;
}

static enum qbrt_status wait_written(const struct qbrt_inference *inference,
				     size_t i)
{
	int err;

	if (inference->is_try)
		return qbrt_fail(QBRT_WOULD_BLOCK,
				 "%s: input %zu is being written, or about to "
				 "be, by another call",
				 inference->model->name, i);
	err = sleep_until_written(inference, get_input(inference, i));
	if (err == -ESHUTDOWN)
		return qbrt_inference_fail_disposed(inference);
	if (err == -EDEADLK)
		return qbrt_storage_fail_asking();
	if (err == -EINTR)
		return qbrt_fail(QBRT_INTERRUPTED,
				 "%s: the interrupt function ended the wait "
				 "for input %zu%s",
				 inference->model->name, i,
				 qbrt_inference_unchanged(inference));
	if (err)
		return qbrt_fail(QBRT_MODEL_TASK_QUEUE_TIMEOUT,
				 "%s: input %zu was being written by others "
				 "until the time limit%s",
				 inference->model->name, i,
				 qbrt_inference_unchanged(inference));
	return QBRT_OK;
}

static bool begin_plain_write(struct qbrt_storage *storage)
{
	if (!qbrt_storage_begin_write(storage))
		return false;
	if (!qbrt_storage_is_open(storage, false))
		return true;
	qbrt_storage_end_write(storage);
	return false;
}

static bool begin_plain_read(struct qbrt_storage *storage)
{
	if (!qbrt_storage_begin_read(storage))
		return false;
	if (!qbrt_storage_is_open(storage, true) &&
	    qbrt_storage_is_valid(storage))
		return true;
	qbrt_storage_end_read(storage);
	return false;
}

/* All uses at once when nobody is in the way; else none. */
static bool begin_plain_uses(const struct qbrt_inference *inference)
{
	size_t num_reads, num_writes;

	for (num_writes = 0; num_writes < inference->num_outputs; num_writes++)
		if (!begin_plain_write(get_output(inference, num_writes)))
			goto err_end_writes;
	for (num_reads = 0; num_reads < inference->num_inputs; num_reads++)
		if (!is_aliased(inference, num_reads) &&
		    !begin_plain_read(get_input(inference, num_reads)))
			goto err_end_reads;
	return true;

err_end_reads:
	end_reads(inference, num_reads);
err_end_writes:
	end_writes(inference, num_writes);
	return false;
}

enum qbrt_status qbrt_inference_begin_uses(struct qbrt_inference *inference)
{
	enum qbrt_status status;
	size_t written;

	inference->num_writers = 0;
	inference->late_inputs = 0;
	if (begin_plain_uses(inference))
		return QBRT_OK;
	for (;;) {
		inference->late_inputs = 0;
		status = take_outputs(inference);
		if (status)
			return status;
		written = begin_reads(inference);
		if (written == inference->num_inputs)
			break;
		end_writes(inference, inference->num_outputs);
		status = wait_written(inference, written);
		if (status)
			return status;
	}
	status = check_contents(inference);
	if (status) {
		qbrt_inference_end_uses(inference);
		qbrt_inference_drop_writers(inference);
	}
	return status;
}

void qbrt_inference_end_uses(const struct qbrt_inference *inference)
{
	end_reads(inference, inference->num_inputs);
	end_writes(inference, inference->num_outputs);
}

void qbrt_inference_validate_outputs(const struct qbrt_inference *inference)
{
	for (size_t i = 0; i < inference->num_outputs; i++)
		qbrt_storage_validate(get_output(inference, i));
}

void qbrt_inference_invalidate_outputs(const struct qbrt_inference *inference,
				       enum qbrt_status status)
{
	for (size_t i = 0; i < inference->num_outputs; i++)
		qbrt_storage_invalidate(get_output(inference, i), status,
					qbrt_error_detail());
}
