// SPDX-License-Identifier: MIT
/*
 * COPY: a job of its own kind with SUBMIT's steps 1 to 3 and 10 to 14; in the
 * place of 4 to 9 stand K134, K066 and qbnpu_check_copy (K100, K101). It never
 * blocks, so it never runs inline.
 */
#include "soft/soft-submit.h"

#include <errno.h>
#include <string.h>

#include "util.h"

struct copy {
	const struct drm_qbnpu_copy *given;
	struct qbnpu_copy_shape shape;
	uint64_t size; /* bytes moved */
};

enum {
	SOURCE = 0, /* place in the entry's buffers */
	DESTINATION = 1,
};

static bool is_struct_valid(const struct drm_qbnpu_copy *copy)
{
	if (copy->flags || copy->in_count > QBNPU_SOFT_MAX_SYNCS ||
	    !qbnpu_soft_entry_has_sync_size(copy->in_count, copy->sync_size))
		return false;
	if (!copy->rank || copy->rank > QBNPU_MAX_RANK ||
	    !qbrt_is_power_of_two(copy->element_size) ||
	    copy->element_size > 16)
		return false;
	for (uint32_t i = 0; i < QBNPU_MAX_RANK; i++) {
		if (i < copy->rank ? !copy->dims[i]
				   : copy->dims[i] || copy->src_strides[i] ||
					     copy->dst_strides[i])
			return false;
	}
	return true;
}

/* Step 3; file lock. */
static int find_objects(struct qbnpu_soft_entry *entry,
			const struct drm_qbnpu_copy *copy)
{
	int err = qbnpu_soft_entry_find_queue(entry, copy->queue);

	if (!err)
		err = qbnpu_soft_entry_find_buffer(entry, copy->src);
	if (!err)
		err = qbnpu_soft_entry_find_buffer(entry, copy->dst);
	if (!err)
		err = qbnpu_soft_entry_check_timelines(entry);
	return err;
}

static void fill_side(struct qbnpu_copy_side *side,
		      const struct qbnpu_soft_buffer *buffer, uint64_t offset,
		      const __u64 *strides)
{
	side->buffer_id = buffer->id;
	side->buffer_size = buffer->memory.size;
	side->offset = offset;
	for (uint32_t i = 0; i < QBNPU_MAX_RANK; i++)
		side->strides[i] = strides[i];
}

static int check_shape(struct qbnpu_soft_entry *entry, struct copy *copy)
{
	const struct qbnpu_soft_buffer *dst =
		entry->buffers[DESTINATION]->buffer;
	const struct drm_qbnpu_copy *given = copy->given;
	struct qbnpu_copy_shape *shape = &copy->shape;
	struct qbnpu_report report = { 0 };
	int err;

	if (entry->buffers[DESTINATION]->is_read_only)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_DESTINATION,
					     0, 0, -EACCES);
	if (atomic_load(&dst->num_programs))
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_DESTINATION,
					     0, 0, -EBUSY);
	shape->rank = given->rank;
	shape->element_size = given->element_size;
	memcpy(shape->dims, given->dims, sizeof(shape->dims));
	fill_side(&shape->src, entry->buffers[SOURCE]->buffer,
		  given->src_offset, given->src_strides);
	fill_side(&shape->dst, dst, given->dst_offset, given->dst_strides);
	err = qbnpu_check_copy(shape, &report);
	if (err)
		return qbnpu_soft_entry_fail(entry, report.rule, report.operand,
					     report.limit, err);
	copy->size = given->element_size;
	for (uint32_t i = 0; i < given->rank; i++)
		copy->size *= given->dims[i];
	return 0;
}

static void fill_job(struct qbnpu_soft_job *job,
		     const struct qbnpu_soft_entry *entry)
{
	const struct copy *copy = entry->arg;
	struct qbnpu_soft_buffer *source = entry->buffers[SOURCE]->buffer;
	struct qbnpu_soft_buffer *target = entry->buffers[DESTINATION]->buffer;
	const uint8_t *src = source->memory.base;
	uint8_t *dst = target->memory.base;

	job->npu.type = QBNPU_JOB_COPY;
	job->npu.core_mask = 0;
	job->copy = copy->shape;
	job->copy_size = copy->size;
	job->npu.copy = &job->copy;
	job->npu.copy_src = src + copy->shape.src.offset;
	job->npu.copy_dst = dst + copy->shape.dst.offset;
	qbnpu_soft_job_add_buffer(job, source);
	qbnpu_soft_job_add_buffer(job, target);
}

/* Steps 3 to 10. */
static int check_job(struct qbnpu_soft_entry *entry)
{
	struct copy *copy = entry->arg;
	int err = find_objects(entry, copy->given);

	if (!err)
		err = check_shape(entry, copy);
	return err ? err : qbnpu_soft_entry_check_deadline(entry);
}

/* Step 2. */
static int copy_syncs(struct qbnpu_soft_entry *entry,
		      const struct drm_qbnpu_copy *given)
{
	int err = qbnpu_soft_entry_copy_syncs(
		entry, given->in_syncs, given->in_count, given->sync_size);

	return err ? err : qbnpu_soft_entry_check_syncs(entry);
}

int qbnpu_soft_ioctl_copy(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_copy *given = arg;
	struct qbnpu_soft_entry entry;
	struct copy copy = { .given = given };
	int err = -EINVAL;

	qbnpu_soft_entry_begin(&entry, file);
	entry.type = QBNPU_SOFT_JOB_COPY;
	entry.item_count = 1;
	entry.room = 2;
	entry.deadline_ns = given->deadline_ns;
	entry.user_data = given->user_data;
	entry.check = check_job;
	entry.fill = fill_job;
	entry.arg = &copy;
	if (is_struct_valid(given))
		err = copy_syncs(&entry, given);
	if (!err)
		err = qbnpu_soft_entry_submit(&entry);
	if (!err) {
		given->job = entry.number;
		return 0;
	}
	given->fail_what = entry.fail_what;
	given->fail_index = entry.fail_index;
	given->fail_limit = entry.fail_limit;
	return err;
}
