// SPDX-License-Identifier: MIT
/*
 * Programs: bytes copied once, validated, made ready by the device model, with
 * their weights bound and their scratch accounted (K060 to K068). A program
 * lives until its handle is gone and its last job is complete.
 */
#include "soft/soft.h"

#include <errno.h>
#include <stdlib.h>

#include "util.h"

#define PROGRAM_ALIGNMENT 16u
#define ACCOUNT_GRANULARITY 4096u

/* A program on its way to its handle. */
struct creation {
	struct qbnpu_soft_program *program;
	void *bytes;
	void *work;
	const struct qbnpu_facts *facts;
};

static bool is_mode_known(uint32_t mode)
{
	return mode == QBNPU_MODE_SINGLE || mode == QBNPU_MODE_MULTI ||
	       mode == QBNPU_MODE_GLOBAL4 || mode == QBNPU_MODE_GLOBAL8;
}

/* K062: what can be said without the program. */
static bool is_placement_valid(const struct qbnpu_npu_facts *facts,
			       uint32_t mode, uint64_t core_mask)
{
	if (!is_mode_known(mode) || !(facts->core_modes & 1u << mode))
		return false;
	if (!core_mask || core_mask & ~facts->core_mask)
		return false;
	if (mode == QBNPU_MODE_GLOBAL8)
		return core_mask == facts->core_mask;
	if (mode != QBNPU_MODE_GLOBAL4)
		return true;
	for (uint32_t i = 0; i < facts->clusters; i++) {
		uint64_t cluster = facts->core_mask & UINT64_C(0xff) << 8 * i;

		if (core_mask & cluster && (core_mask & cluster) != cluster)
			return false;
	}
	return true;
}

static bool is_create_valid(const struct qbnpu_soft_file *file,
			    const struct drm_qbnpu_program_create *create)
{
	if (create->flags || create->reserved)
		return false;
	if (create->size < QBNPU_MIN_PROGRAM_SIZE ||
	    create->size > QBNPU_MAX_PROGRAM_SIZE ||
	    create->data % PROGRAM_ALIGNMENT)
		return false;
	if (!create->weights &&
	    (create->weights_offset || create->weights_size))
		return false;
	return is_placement_valid(file->device->facts, create->mode,
				  create->core_mask);
}

static void count_rejection(struct qbnpu_soft_file *file, uint32_t rule)
{
	struct qbnpu_counters *device = qbnpu_npu_get_counters(file->npu);
	struct qbnpu_soft_counters *own = &file->counters;

	atomic_fetch_add_explicit(&device->programs_rejected, 1,
				  memory_order_relaxed);
	(void)pthread_mutex_lock(&file->lock);
	own->programs_rejected++;
	if (rule < qbrt_array_size(own->rejected_by_rule)) {
		own->rejected_by_rule[rule]++;
		atomic_fetch_add_explicit(&device->rejected_by_rule[rule], 1,
					  memory_order_relaxed);
	}
	(void)pthread_mutex_unlock(&file->lock);
}

static void write_report(struct drm_qbnpu_program_create *create, int err,
			 const struct qbnpu_report *report)
{
	create->rule = report->rule;
	create->command = report->command;
	if (err != -ENOEXEC)
		return;
	create->operand = report->operand;
	create->limit = report->limit;
}

static int validate(struct qbnpu_soft_file *file,
		    struct drm_qbnpu_program_create *create,
		    struct creation *creation)
{
	struct qbnpu_report report = { 0 };
	struct qbnpu_work work = { 0 };
	int err;

	work.size = qbnpu_validate_work_size(creation->bytes, create->size);
	if (work.size) {
		creation->work = malloc(work.size);
		if (!creation->work)
			return -ENOMEM;
	}
	work.memory = creation->work;
	err = qbnpu_validate(creation->bytes, create->size,
			     &file->device->facts->caps, &work, &report);
	if (err) {
		write_report(create, err, &report);
		count_rejection(file, report.rule);
		return err;
	}
	creation->facts = report.facts;
	return 0;
}

/* K062: what the program's own mode allows. */
static bool is_mode_allowed(uint32_t core_mode, uint32_t mode)
{
	if (core_mode == QBNPU_MODE_SINGLE)
		return mode == QBNPU_MODE_SINGLE || mode == QBNPU_MODE_MULTI;
	return mode == core_mode;
}

static const struct qbnpu_binding_facts *
find_binding(const struct qbnpu_facts *facts, uint32_t kind)
{
	for (uint32_t i = 0; i < facts->binding_count; i++) {
		if (facts->bindings[i].kind == kind)
			return &facts->bindings[i];
	}
	return NULL;
}

/* K064: the same checks in the same order as a binding's of SUBMIT. */
static int bind_weights(struct qbnpu_soft_file *file,
			const struct drm_qbnpu_program_create *create,
			const struct qbnpu_facts *facts,
			struct qbnpu_soft_program *program)
{
	const struct qbnpu_binding_facts *binding;
	struct qbnpu_soft_buffer *buffer = NULL;
	const struct qbnpu_soft_bo *bo;
	uint64_t end;

	binding = find_binding(facts, QBNPU_BINDING_WEIGHTS);
	if (!binding != !create->weights)
		return -EINVAL;
	if (!binding)
		return 0;
	(void)pthread_mutex_lock(&file->lock);
	bo = qbnpu_soft_bo_get(file, create->weights);
	if (bo) {
		buffer = bo->buffer;
		atomic_fetch_add(&buffer->references, 1);
		atomic_fetch_add(&buffer->num_programs, 1);
	}
	(void)pthread_mutex_unlock(&file->lock);
	if (!buffer)
		return -ENOENT;
	program->weights = buffer;
	if (create->weights_offset % (UINT64_C(1) << binding->align_log2) ||
	    buffer->align_log2 < binding->align_log2)
		return -EINVAL;
	if (qbrt_add_overflows(create->weights_offset, create->weights_size,
			       &end) ||
	    end > buffer->memory.size || create->weights_size < binding->size)
		return -ERANGE;
	return 0;
}

/* Scratch arenas: one per core, in the global modes one per gang. */
static uint64_t count_arenas(uint32_t mode, uint64_t core_mask)
{
	uint64_t num_cores = (uint64_t)__builtin_popcountll(core_mask);

	if (mode == QBNPU_MODE_GLOBAL8)
		return 1;
	return mode == QBNPU_MODE_GLOBAL4 ? num_cores / 4 : num_cores;
}

static uint64_t
compute_device_size(const struct drm_qbnpu_program_create *create,
		    const struct qbnpu_facts *facts)
{
	const struct qbnpu_binding_facts *scratch;
	uint64_t size = qbrt_round_up(create->size, ACCOUNT_GRANULARITY);

	scratch = find_binding(facts, QBNPU_BINDING_SCRATCH);
	if (scratch)
		size += count_arenas(create->mode, create->core_mask) *
			qbrt_round_up(scratch->size, ACCOUNT_GRANULARITY);
	return size;
}

static int load_executable(struct qbnpu_soft_file *file,
			   struct drm_qbnpu_program_create *create,
			   const struct creation *creation)
{
	struct qbnpu_soft_program *program = creation->program;
	struct qbnpu_report report = { 0 };
	const uint8_t *weights = NULL;
	uint64_t missing = 0;
	int err;

	program->device_size = compute_device_size(create, creation->facts);
	err = qbnpu_npu_take_memory(file->npu, program->device_size, &missing);
	if (err) {
		program->device_size = 0;
		create->limit = missing;
		return err;
	}
	if (program->weights)
		weights = (const uint8_t *)program->weights->memory.base +
			  create->weights_offset;
	err = qbnpu_executable_load(file->npu, creation->bytes, creation->facts,
				    weights, create->core_mask,
				    &program->executable, &report);
	if (err == -EOPNOTSUPP)
		write_report(create, err, &report);
	if (err)
		return err;
	program->facts = qbnpu_executable_get_facts(program->executable);
	return 0;
}

/* K068, before the work and again when the handle is made. File lock. */
static bool has_room(const struct qbnpu_soft_file *file, uint64_t size)
{
	return file->programs.num_items < QBNPU_SOFT_MAX_PROGRAMS &&
	       size <= QBNPU_SOFT_MAX_PROGRAM_BYTES - file->program_bytes;
}

static int add_handle(struct qbnpu_soft_file *file,
		      struct drm_qbnpu_program_create *create,
		      struct qbnpu_soft_program *program)
{
	uint32_t handle;
	int err = -ENOSPC;

	(void)pthread_mutex_lock(&file->lock);
	if (has_room(file, create->size))
		err = qbnpu_soft_table_add(&file->programs,
					   QBNPU_SOFT_MAX_PROGRAMS, program,
					   &handle);
	if (!err) {
		program->program_size = create->size;
		file->program_bytes += create->size;
		file->counters.programs_loaded++;
		create->handle = handle;
		create->device_size = program->device_size;
	}
	(void)pthread_mutex_unlock(&file->lock);
	return err;
}

static int create_program(struct qbnpu_soft_file *file,
			  struct drm_qbnpu_program_create *create,
			  struct creation *creation)
{
	int err;

	creation->program = calloc(1, sizeof(*creation->program));
	if (!creation->program)
		return -ENOMEM;
	atomic_init(&creation->program->references, 1);
	creation->program->file = file;
	creation->bytes = malloc(create->size);
	if (!creation->bytes)
		return -ENOMEM;
	creation->program->mode = create->mode;
	creation->program->core_mask = create->core_mask;
	err = qbnpu_soft_copy_from_user(creation->bytes, create->data,
					create->size);
	if (!err)
		err = validate(file, create, creation);
	if (!err && !is_mode_allowed(creation->facts->core_mode, create->mode))
		err = -EINVAL;
	if (!err)
		err = bind_weights(file, create, creation->facts,
				   creation->program);
	if (!err)
		err = load_executable(file, create, creation);
	if (!err)
		err = add_handle(file, create, creation->program);
	return err;
}

int qbnpu_soft_ioctl_program_create(struct qbnpu_soft_file *file, void *arg)
{
	struct drm_qbnpu_program_create *create = arg;
	struct creation creation = { 0 };
	bool is_room;
	int err;

	if (!is_create_valid(file, create))
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	is_room = has_room(file, create->size);
	(void)pthread_mutex_unlock(&file->lock);
	if (!is_room)
		return -ENOSPC;
	err = create_program(file, create, &creation);
	if (err && creation.program)
		qbnpu_soft_program_unref(creation.program);
	free(creation.bytes);
	free(creation.work);
	return err;
}

/* May be called with the file lock or without; takes the device's locks. */
void qbnpu_soft_program_unref(struct qbnpu_soft_program *program)
{
	if (atomic_fetch_sub(&program->references, 1) != 1)
		return;
	if (program->executable)
		qbnpu_executable_free(program->executable);
	if (program->device_size)
		qbnpu_npu_give_memory(program->file->npu, program->device_size);
	if (program->weights) {
		atomic_fetch_sub(&program->weights->num_programs, 1);
		qbnpu_soft_buffer_unref(program->weights);
	}
	free(program);
}

int qbnpu_soft_ioctl_program_destroy(struct qbnpu_soft_file *file, void *arg)
{
	const struct drm_qbnpu_program_destroy *destroy = arg;
	struct qbnpu_soft_program *program;

	if (destroy->flags)
		return -EINVAL;
	(void)pthread_mutex_lock(&file->lock);
	program = qbnpu_soft_table_remove(&file->programs, destroy->handle);
	if (program)
		file->program_bytes -= program->program_size;
	(void)pthread_mutex_unlock(&file->lock);
	if (!program)
		return -ENOENT;
	qbnpu_soft_program_unref(program);
	return 0;
}
