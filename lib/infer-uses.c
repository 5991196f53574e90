// SPDX-License-Identifier: MIT
/*
 * Inputs wait, outputs refuse. All uses are taken before the job is submitted,
 * outputs first, and given back together: nobody waits while it holds one. An
 * input that is also an output (the model allows it) is held by its write.
 */
#include "infer.h"

#include "pinned-memory.h"
#include "status.h"
#include "storage.h"

static bool is_aliased(const struct qbrt_inference *inference, size_t input)
{
	return inference->aliased_inputs >> input & 1;
}

static void end_reads(const struct qbrt_inference *inference, size_t num)
{
	for (size_t i = 0; i < num; i++)
		if (!is_aliased(inference, i))
			qbrt_storage_end_read(inference->inputs[i]->storage);
}

static void end_writes(const struct qbrt_inference *inference, size_t num)
{
	for (size_t i = 0; i < num; i++)
		qbrt_storage_end_write(inference->outputs[i]->storage);
}

static enum qbrt_status begin_writes(const struct qbrt_inference *inference)
{
	for (size_t i = 0; i < inference->num_outputs; i++) {
		if (qbrt_storage_begin_write(inference->outputs[i]->storage))
			continue;
		end_writes(inference, i);
		return qbrt_fail(QBRT_PINNED_MEMORY_IN_USE,
				 "%s: output %zu is in use by another call: "
				 "give each call its own outputs",
				 inference->model->name, i);
	}
	return QBRT_OK;
}

/* Index of the first input that is written, none is taken; or their number. */
static size_t begin_reads(const struct qbrt_inference *inference)
{
	size_t i;

	for (i = 0; i < inference->num_inputs; i++)
		if (!is_aliased(inference, i) &&
		    !qbrt_storage_begin_read(inference->inputs[i]->storage)) {
			end_reads(inference, i);
			break;
		}
	return i;
}

static enum qbrt_status check_valid(const struct qbrt_inference *inference)
{
	enum qbrt_status status = QBRT_OK;

	for (size_t i = 0; i < inference->num_inputs && !status; i++)
		status = qbrt_pinned_memory_check_valid(inference->inputs[i]);
	return status;
}

enum qbrt_status
qbrt_inference_begin_uses(const struct qbrt_inference *inference)
{
	enum qbrt_status status;
	size_t written;

	for (;;) {
		status = begin_writes(inference);
		if (status)
			return status;
		written = begin_reads(inference);
		if (written == inference->num_inputs)
			break;
		end_writes(inference, inference->num_outputs);
		if (!qbrt_storage_wait_written(
			    inference->inputs[written]->storage,
			    inference->deadline_ns))
			return qbrt_fail(
				QBRT_MODEL_TASK_QUEUE_TIMEOUT,
				"%s: input %zu was being written by others "
				"until the time limit; nothing ran, the "
				"outputs are unchanged",
				inference->model->name, written);
	}
	status = check_valid(inference);
	if (status)
		qbrt_inference_end_uses(inference);
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
		qbrt_storage_validate(inference->outputs[i]->storage);
}

void qbrt_inference_invalidate_outputs(const struct qbrt_inference *inference,
				       enum qbrt_status status)
{
	for (size_t i = 0; i < inference->num_outputs; i++)
		qbrt_storage_invalidate(inference->outputs[i]->storage, status);
}
