// SPDX-License-Identifier: MIT
/*
 * SUBMIT: the fourteen steps of its table (docs/spec/kernel.md, 2.6) in their
 * order. Steps 4 to 9 are qbnpu_check_bindings of isa/bind.c; the cost is
 * that of the bindings and syncs, never of the program (K081).
 */
#include "soft/soft-submit.h"

#include <errno.h>
#include <string.h>

#include "util.h"

/* What the caller gave: between its arrays and the job's ranges. */
struct given {
	struct drm_qbnpu_submit submit;
	uint32_t first_bad; /* binding with a tail that is not zero */
	struct drm_qbnpu_binding bindings[QBNPU_MAX_BINDINGS];
};

/* Step 1. */
static bool is_struct_valid(const struct drm_qbnpu_submit *submit)
{
	if (submit->flags || submit->binding_count > QBNPU_MAX_BINDINGS ||
	    submit->in_count > QBNPU_SOFT_MAX_SYNCS)
		return false;
	if (!qbnpu_soft_is_element_size(submit->binding_size,
					sizeof(struct drm_qbnpu_binding)) ||
	    !qbnpu_soft_entry_has_sync_size(submit->in_count,
					    submit->sync_size))
		return false;
	if (submit->wait
		    ? !qbnpu_soft_is_element_size(submit->wait_size,
						  sizeof(struct drm_qbnpu_wait))
		    : submit->wait_size)
		return false;
	if (!submit->item_count || submit->item_count > QBNPU_MAX_ITEMS)
		return false;
	if (submit->program)
		return true;
	return !submit->mode && !submit->core_mask && !submit->binding_count &&
	       submit->item_count == 1;
}

/* A tail that is not zero is noted as a queue, which has to be 0 as well. */
static int copy_wait(struct qbnpu_soft_entry *entry,
		     const struct drm_qbnpu_submit *submit)
{
	uint32_t first_bad;

	entry->wait_address = submit->wait;
	if (!submit->wait)
		return 0;
	if (submit->wait_size == sizeof(entry->wait) &&
	    submit->wait % _Alignof(struct drm_qbnpu_wait) == 0 &&
	    qbnpu_soft_is_on_stack(entry->stack, submit->wait,
				   sizeof(entry->wait))) {
		entry->stack_wait = qbnpu_soft_to_pointer(submit->wait);
		entry->wait = *entry->stack_wait;
		return 0;
	}
	if (qbnpu_soft_copy_elements(entry->stack, &entry->wait,
				     sizeof(entry->wait), submit->wait,
				     submit->wait_size, 1, &first_bad))
		return -EFAULT;
	if (!first_bad)
		entry->wait.queue = UINT32_MAX;
	return 0;
}

static int check_reserved(struct qbnpu_soft_entry *entry,
			  const struct given *given)
{
	const uint32_t count = given->submit.binding_count;
	uint32_t flags = 0;

	for (uint32_t i = 0; i < count; i++)
		flags |= given->bindings[i].flags;
	if (!flags && given->first_bad == count)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		if (given->bindings[i].flags || i == given->first_bad)
			return qbnpu_soft_entry_fail(
				entry, DRM_QBNPU_FAIL_BINDING, i, 0, -EINVAL);
	}
	return 0;
}

/* Step 2: all copies, then what they must hold. */
static int copy_arrays(struct qbnpu_soft_entry *entry, struct given *given)
{
	const struct drm_qbnpu_submit *submit = &given->submit;
	int err = qbnpu_soft_copy_array(
		entry->stack, given->bindings, sizeof(given->bindings[0]),
		submit->bindings, submit->binding_size, submit->binding_count,
		&given->first_bad);

	if (err)
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_BINDING, 0,
					     0, err);
	if (submit->in_count) {
		err = qbnpu_soft_entry_copy_syncs(entry, submit->in_syncs,
						  submit->in_count,
						  submit->sync_size);
	}
	if (!err)
		err = copy_wait(entry, submit);
	if (!err)
		err = check_reserved(entry, given);
	if (!err && submit->in_count)
		err = qbnpu_soft_entry_check_syncs(entry);
	if (err)
		return err;
	if (entry->wait_address &&
	    (entry->wait.queue || entry->wait.job ||
	     entry->wait.flags & ~DRM_QBNPU_WAIT_BLOCKING))
		return -EINVAL;
	return 0;
}

static inline void fill_bound(struct qbnpu_bound *bound,
			      const struct drm_qbnpu_binding *given,
			      const struct qbnpu_soft_bo *bo)
{
	const struct qbnpu_soft_buffer *buffer = bo->buffer;

	bound->index = given->index;
	bound->access = given->access;
	bound->rights = QBNPU_RIGHT_READ;
	if (!bo->is_read_only)
		bound->rights |= QBNPU_RIGHT_WRITE;
	if (atomic_load_explicit(&buffer->num_programs, memory_order_relaxed))
		bound->rights |= QBNPU_RIGHT_WEIGHTS;
	bound->align_log2 = buffer->align_log2;
	bound->buffer_id = buffer->id;
	bound->buffer_size = buffer->memory.size;
	bound->offset = given->offset;
	bound->length = given->length;
	bound->item_stride = given->item_stride;
}

/* Step 3; file lock. What steps 4 to 9 look at is noted on the way. */
static int find_objects(struct qbnpu_soft_entry *entry,
			const struct given *given, struct qbnpu_bound *bound)
{
	const struct drm_qbnpu_submit *submit = &given->submit;
	int err = qbnpu_soft_entry_find_queue(entry, submit->queue);

	if (err)
		return err;
	if (submit->program) {
		entry->program = qbnpu_soft_table_get(&entry->file->programs,
						      submit->program);
		if (!entry->program)
			return -ENOENT;
	}
	for (uint32_t i = 0; i < submit->binding_count; i++) {
		err = qbnpu_soft_entry_find_buffer(entry,
						   given->bindings[i].handle);
		if (err)
			return err;
		fill_bound(&bound[i], &given->bindings[i], entry->buffers[i]);
	}
	return entry->num_syncs ? qbnpu_soft_entry_check_timelines(entry) : 0;
}

/* Steps 4 to 9. */
static int check_bindings(struct qbnpu_soft_entry *entry,
			  const struct drm_qbnpu_submit *submit,
			  const struct qbnpu_bound *bound)
{
	struct qbnpu_report report;
	int err = qbnpu_check_bindings(entry->program->facts, bound,
				       submit->binding_count, submit->params,
				       submit->item_count, &report);

	if (!err)
		return 0;
	return qbnpu_soft_entry_fail(entry, report.rule, report.operand,
				     report.limit, err);
}

/* An empty job has no parameters. */
static int check_no_params(struct qbnpu_soft_entry *entry,
			   const struct drm_qbnpu_submit *submit)
{
	for (uint32_t i = 0; i < qbrt_array_size(submit->params); i++) {
		if (submit->params[i])
			return qbnpu_soft_entry_fail(
				entry, DRM_QBNPU_FAIL_PARAM, i, 0, -EINVAL);
	}
	return 0;
}

/* A gang runs whole or not at all. */
static bool has_whole_gangs(const struct qbnpu_soft_entry *entry, uint64_t mask)
{
	if (entry->program->mode == QBNPU_MODE_SINGLE)
		return true;
	if (entry->program->mode == QBNPU_MODE_GLOBAL8)
		return mask == entry->program->core_mask;
	if (entry->program->mode != QBNPU_MODE_GLOBAL4)
		return true;
	for (unsigned int i = 0; i < QBNPU_MAX_CORES; i += 8) {
		uint64_t gang = entry->program->core_mask & UINT64_C(0xff) << i;

		if (mask & gang && (mask & gang) != gang)
			return false;
	}
	return true;
}

/* Step 10. */
static int check_placement(struct qbnpu_soft_entry *entry,
			   const struct drm_qbnpu_submit *submit)
{
	if (entry->program && submit->mode != entry->program->mode)
		return -EINVAL;
	if (entry->program && (!submit->core_mask ||
			       submit->core_mask & ~entry->program->core_mask ||
			       !has_whole_gangs(entry, submit->core_mask)))
		return qbnpu_soft_entry_fail(entry, DRM_QBNPU_FAIL_CORE_MASK, 0,
					     entry->program->core_mask,
					     -EINVAL);
	return qbnpu_soft_entry_check_deadline(entry);
}

static void fill_job(struct qbnpu_soft_job *job,
		     const struct qbnpu_soft_entry *entry)
{
	const struct given *given = entry->arg;
	const struct drm_qbnpu_submit *submit = &given->submit;
	const struct qbnpu_facts *facts;

	if (!job->program)
		return;
	facts = job->program->facts;
	job->npu.type = QBNPU_JOB_RUN;
	job->npu.item_count = submit->item_count;
	memcpy(job->npu.params, submit->params, sizeof(job->npu.params));
	job->npu.core_mask = submit->core_mask;
	job->npu.executable = job->program->executable;
	job->num_macs = facts->mac_count * submit->item_count;
	/* the device knows the others itself: SCRATCH and WEIGHTS */
	for (uint32_t i = 0; i < submit->binding_count; i++) {
		const struct drm_qbnpu_binding *binding = &given->bindings[i];
		struct qbnpu_soft_buffer *buffer = entry->buffers[i]->buffer;
		uint8_t *base = buffer->memory.base;

		job->ranges[binding->index] = (struct qbnpu_range){
			.base = base + binding->offset,
			.length = binding->length,
			.item_stride = binding->item_stride,
		};
		qbnpu_soft_job_add_buffer(job, buffer);
	}
}

/* Steps 3 to 10. Its array is off the stack again when the job runs. */
static int check_job(struct qbnpu_soft_entry *entry)
{
	const struct given *given = entry->arg;
	const struct drm_qbnpu_submit *submit = &given->submit;
	struct qbnpu_bound bound[QBNPU_MAX_BINDINGS];
	int err = find_objects(entry, given, bound);

	if (err)
		return err;
	err = entry->program ? check_bindings(entry, submit, bound)
			     : check_no_params(entry, submit);
	if (!err)
		err = check_placement(entry, submit);
	if (err)
		return err;
	if (entry->program) {
		entry->type = QBNPU_SOFT_JOB_RUN;
		entry->room = entry->program->facts->binding_count;
	}
	return 0;
}

/* The caller's struct is copied once, and written only where it may be. */
static void write_job(void *arg, uint64_t number)
{
	memcpy((uint8_t *)arg + offsetof(struct drm_qbnpu_submit, job), &number,
	       sizeof(number));
}

static void write_failure(void *arg, const struct qbnpu_soft_entry *entry,
			  struct drm_qbnpu_submit *submit)
{
	const size_t start = offsetof(struct drm_qbnpu_submit, fail_what);

	submit->fail_what = entry->fail_what;
	submit->fail_index = entry->fail_index;
	submit->fail_limit = entry->fail_limit;
	memcpy((uint8_t *)arg + start, (const uint8_t *)submit + start,
	       sizeof(*submit) - start);
}

int qbnpu_soft_ioctl_submit(struct qbnpu_soft_file *file, void *arg)
{
	struct qbnpu_soft_entry entry;
	struct given given;
	int err = -EINVAL;

	memcpy(&given.submit, arg, sizeof(given.submit));
	qbnpu_soft_entry_begin(&entry, file);
	entry.item_count = given.submit.item_count;
	entry.deadline_ns = given.submit.deadline_ns;
	entry.user_data = given.submit.user_data;
	entry.check = check_job;
	entry.fill = fill_job;
	entry.arg = &given;
	if (is_struct_valid(&given.submit))
		err = copy_arrays(&entry, &given);
	if (!err)
		err = qbnpu_soft_entry_submit(&entry);
	if (err)
		write_failure(arg, &entry, &given.submit);
	else
		write_job(arg, entry.number);
	return err;
}
