// SPDX-License-Identifier: MIT
/*
 * What is checked of an inference before its model is entered: the options, and
 * that all buffers are there and of this process.
 */
#include "infer.h"

#include <string.h>

#include "pinned-memory.h"
#include "status.h"
#include "util.h"

/* Longer options than this are garbage, not a newer library's. */
#define MAX_OPTIONS_NBYTES 4096

enum qbrt_status qbrt_infer_options_read(const struct qbrt_infer_options *from,
					 struct qbrt_infer_options *to)
{
	const unsigned char *bytes = (const unsigned char *)from;

	memset(to, 0, sizeof(*to));
	if (!from)
		return QBRT_OK;
	if (from->size < sizeof(from->size) || from->size > MAX_OPTIONS_NBYTES)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: size is %zu, expected %zu: "
				 "set it to sizeof(struct qbrt_infer_options)",
				 from->size, sizeof(*from));
	for (size_t i = sizeof(*from); i < from->size; i++)
		if (bytes[i])
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "infer options: byte %zu is set and "
					 "unknown to this version",
					 i);
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	return QBRT_OK;
}

/* Bits of flags. */
static const char *const flag_names[] = {
	"QBRT_INFER_BLOCKING", "QBRT_INFER_TRY",      "QBRT_INFER_HWC",
	"QBRT_INFER_CHW",      "QBRT_INFER_TO_FLOAT",
};

static enum qbrt_status refuse_flags(uint32_t flags, uint32_t allowed)
{
	const size_t num = qbrt_array_size(flag_names);
	uint32_t known = flags & ((1u << num) - 1);
	char given[160];
	char taken[160];

	qbrt_list_bits(allowed, flag_names, num, taken, sizeof(taken));
	if (flags != known)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: flags 0x%x are unknown to "
				 "this version; this call takes %s",
				 flags & ~known, taken);
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "infer options: this call does not take %s, it takes "
			 "%s",
			 qbrt_list_bits(flags & ~allowed, flag_names, num,
					given, sizeof(given)),
			 taken);
}

enum qbrt_status qbrt_infer_options_check_flags(uint32_t flags,
						uint32_t allowed)
{
	return flags & ~allowed ? refuse_flags(flags, allowed) : QBRT_OK;
}

static enum qbrt_status check_options(const struct qbrt_infer_options *options,
				      uint32_t allowed)
{
	if (options->flags & ~allowed)
		return refuse_flags(options->flags, allowed);
	if (options->reserved)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: reserved is not 0");
	if (options->items || options->num_items)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "infer options: items are not for inference "
				 "on pinned memory");
	if (options->stream)
		return qbrt_fail(QBRT_NOT_IMPLEMENTED,
				 "infer options: streams are not offered yet: "
				 "pass NULL");
	return QBRT_OK;
}

enum qbrt_status
qbrt_inference_read_options(struct qbrt_inference *inference,
			    const struct qbrt_infer_options *options,
			    uint32_t allowed)
{
	struct qbrt_infer_options known;
	enum qbrt_status status;

	inference->timeout = 0;
	inference->wait_flags = 0;
	inference->is_try = false;
	if (!options)
		return QBRT_OK;
	if (options->size != sizeof(*options)) {
		status = qbrt_infer_options_read(options, &known);
		if (status)
			return status;
		options = &known;
	}
	status = check_options(options, allowed);
	if (status)
		return status;
	if (options->cache_size && !inference->model->file->cach)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s: has no cache, and cache_size is %llu",
				 inference->model->name,
				 (unsigned long long)options->cache_size);
	inference->timeout = options->timeout;
	if (options->flags & QBRT_INFER_BLOCKING)
		inference->wait_flags = DRM_QBNPU_WAIT_BLOCKING;
	inference->is_try = options->flags & QBRT_INFER_TRY;
	return QBRT_OK;
}

static enum qbrt_status refuse_list(const struct qbrt_inference *inference,
				    const char *what,
				    struct qbrt_pinned_memory *const *buffers,
				    size_t num)
{
	enum qbrt_status status = QBRT_OK;

	if (num && !buffers)
		return qbrt_fail(QBRT_INVALID_ARGUMENT, "%s: %ss is NULL",
				 inference->model->name, what);
	for (size_t i = 0; i < num && !status; i++) {
		if (!buffers[i])
			return qbrt_fail(QBRT_INVALID_ARGUMENT,
					 "%s: %s %zu is NULL",
					 inference->model->name, what, i);
		status = qbrt_device_check_fork(buffers[i]->storage->device);
	}
	return status;
}

static bool is_list_available(struct qbrt_pinned_memory *const *buffers,
			      size_t num, int generation)
{
	if (num && !buffers)
		return false;
	for (size_t i = 0; i < num; i++)
		if (!buffers[i] ||
		    buffers[i]->storage->device->owner_pid_generation !=
			    generation)
			return false;
	return true;
}

enum qbrt_status
qbrt_inference_check_available(const struct qbrt_inference *inference)
{
	int generation = qbrt_fork_generation();
	enum qbrt_status status;

	if (is_list_available(inference->inputs, inference->num_inputs,
			      generation) &&
	    is_list_available(inference->outputs, inference->num_outputs,
			      generation))
		return QBRT_OK;
	status = refuse_list(inference, "input", inference->inputs,
			     inference->num_inputs);
	if (status)
		return status;
	return refuse_list(inference, "output", inference->outputs,
			   inference->num_outputs);
}
