// SPDX-License-Identifier: MIT
/*
 * What a launch asks of the device: memory for the weights, a program per PROG
 * section in use, and per variant the bindings of its jobs, so that an
 * inference has only handles to fill in. All of it or nothing.
 */
#include "model.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "device-info.h"
#include "model-config.h"
#include "status.h"
#include "util.h"

static atomic_uint_fast64_t next_number;

/* "Cluster0/Core0, Cluster0/Core1", into text. */
static const char *list_cores(uint64_t core_mask, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned int bit = 0; bit < 64 && used < size; bit++)
		if (core_mask >> bit & 1)
			used += (size_t)snprintf(
				text + used, size - used, "%sCluster%u/Core%u",
				used ? ", " : "", bit / 8, bit % 8);
	return text;
}

/* Q155: what the configuration asks for, against what the device has. */
static enum qbrt_status check_cores(const struct qbrt_model *model,
				    const struct qbrt_device *device)
{
	uint64_t core_mask = device->facts.core_mask;
	uint64_t lacking = model->wanted_cores & ~core_mask;
	unsigned int num = (unsigned int)__builtin_popcountll(core_mask);
	char there[256];
	char wanted[256];

	if (lacking)
		return qbrt_fail(
			QBRT_MODEL_NO_TARGET_CORES,
			"%s: is configured for cores that %s lacks (%s); it "
			"has %s",
			model->name, device->id,
			list_cores(lacking, wanted, sizeof(wanted)),
			list_cores(core_mask, there, sizeof(there)));
	if (model->wanted_num_cores > num)
		return qbrt_fail(
			QBRT_MODEL_NO_TARGET_CORES,
			"%s: is configured for %u core%s, and %s has %u: %s",
			model->name, model->wanted_num_cores,
			qbrt_plural(model->wanted_num_cores), device->id, num,
			list_cores(core_mask, there, sizeof(there)));
	return QBRT_OK;
}

static enum qbrt_status check_device(const struct qbrt_model *model,
				     const struct qbrt_device *device)
{
	const struct qbm_header *header = &model->file->header;

	if (header->target &&
	    strcasecmp(qbrt_target_names[header->target], device->name) != 0)
		return qbrt_fail(QBRT_MODEL_IS_NOT_SUPPORTED_HARDWARE,
				 "%s: was compiled for %s, and this device is "
				 "%s",
				 model->name, qbrt_target_names[header->target],
				 device->name);
	if (!(device->facts.core_modes & (1u << model->mode)))
		return qbrt_fail(
			QBRT_MODEL_NO_GLOBAL_CORE_WITH_GLOBAL_MULTI_MODE,
			"%s: needs core mode %s, which %s does not run",
			model->name, qbrt_core_mode_names[model->mode],
			device->id);
	if (model->file->iotb->state_size)
		return qbrt_fail(QBRT_NOT_IMPLEMENTED,
				 "%s: keeps state between inferences (%s), "
				 "which this version does not run",
				 model->name,
				 model->file->cach ? "a KV cache"
						   : "recurrent");
	return check_cores(model, device);
}

/* check_cores has found that the device has them. */
static uint64_t take_cores(const struct qbrt_model *model,
			   struct qbrt_device *device)
{
	uint64_t mask = device->facts.core_mask;
	unsigned int num = model->wanted_num_cores;

	if (model->wanted_cores)
		mask = model->wanted_cores;
	if (!num)
		num = (unsigned int)__builtin_popcountll(mask);
	return qbrt_device_take_cores(device, mask, num);
}

/* Q244: gangs, or cores of Single, times two. */
static uint32_t get_default_slots(const struct qbrt_launched *launched)
{
	uint32_t num = 0;

	if (launched->mode == DRM_QBNPU_MODE_GLOBAL8)
		return 2;
	if (launched->mode == DRM_QBNPU_MODE_SINGLE)
		return 2 * (uint32_t)__builtin_popcountll(launched->core_mask);
	for (unsigned int cluster = 0; cluster < 8; cluster++)
		num += launched->core_mask >> cluster * 8 & 0xff ? 2 : 0;
	return num;
}

/* The configuration's or the default, bounded by what each variant allows. */
static uint32_t choose_slots(const struct qbrt_model *model,
			     const struct qbrt_launched *launched)
{
	const struct qbrt_model_file *file = model->file;
	uint32_t num = model->wanted_slots;

	if (!num)
		num = get_default_slots(launched);
	if (num > QBRT_MAX_ACTIVATION_SLOTS)
		num = QBRT_MAX_ACTIVATION_SLOTS;
	for (uint32_t i = 0; i < file->vari->variant_count; i++) {
		uint32_t limit = file->variants[i].activation_slots;

		if (limit && limit < num)
			num = limit;
	}
	return num;
}

/*
 * The copy into the device's memory. The memfd is kept for the next launch. A
 * sealed memfd cannot end early.
 */
static enum qbrt_status place_weights(const struct qbrt_model *model,
				      struct qbrt_launched *launched)
{
	const struct qbrt_model_file *file = model->file;
	enum qbrt_status status;
	uint64_t done = 0;

	if (!file->weights_size)
		return QBRT_OK;
	status = qbrt_device_take_weights(launched->device, file->weights_size,
					  &launched->weights);
	if (status)
		return status;
	while (done < file->weights_size) {
		ssize_t got = pread(file->weights_fd,
				    (char *)launched->weights.data + done,
				    file->weights_size - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			status = qbrt_fail(QBRT_INTERNAL_ERROR,
					   "%s: its weights cannot be read "
					   "back: %m",
					   model->name);
			qbrt_device_give_buffer(launched->device,
						&launched->weights);
			return status;
		}
		done += (uint64_t)got;
	}
	launched->has_weights = true;
	return QBRT_OK;
}

/* The loader has validated the program, so its commands can be walked. */
static uint32_t get_opcode(const struct qbrt_model_program *program,
			   uint32_t command)
{
	const struct qbnpu_program *header = program->data;
	const char *at = (const char *)program->data + header->commands_offset;

	for (uint32_t i = 0; i < command && i < header->command_count; i++)
		at += 16 * ((const struct qbnpu_cmd *)(const void *)at)->size16;
	return ((const struct qbnpu_cmd *)(const void *)at)->opcode;
}

static enum qbrt_status
refuse_program(const struct qbrt_model *model, const struct qbrt_device *device,
	       uint32_t instance, int err,
	       const struct drm_qbnpu_program_create *in)
{
	const struct qbrt_model_program *program =
		&model->file->programs[instance];
	const char *node =
		qbrt_model_file_get_node(model->file, instance, in->command);
	uint64_t lacking = program->facts->isa_features &
			   ~(uint64_t)device->facts.isa_features;
	char text[96];

	if (err == -ENOEXEC)
		return qbrt_fail_errno(
			QBRT_AT_PROGRAM_CREATE, err,
			"%s: %s refuses program %u by rule V%02u: command "
			"%d%s%s%s, operand %d, limit %llu",
			model->name, device->id, instance, in->rule,
			(int)in->command, *node ? " (" : "", node,
			*node ? ")" : "", (int)in->operand,
			(unsigned long long)in->limit);
	if (err == -EOPNOTSUPP && in->rule == 4)
		return qbrt_fail_errno(QBRT_AT_PROGRAM_CREATE, err,
				       "%s: program %u needs what %s lacks: %s",
				       model->name, instance, device->id,
				       qbrt_list_bits(lacking,
						      qbrt_isa_feature_names,
						      QBRT_NUM_ISA_FEATURES,
						      text, sizeof(text)));
	if (err == -EOPNOTSUPP)
		return qbrt_fail_errno(
			QBRT_AT_PROGRAM_CREATE, err,
			"%s: %s has no kernel for opcode 0x%04x of program %u, "
			"command %u%s%s%s",
			model->name, device->id,
			get_opcode(program, in->command), instance, in->command,
			*node ? " (" : "", node, *node ? ")" : "");
	if (err == -ENOMEM)
		return qbrt_fail_errno(
			QBRT_AT_PROGRAM_CREATE, err,
			"%s: %s lacks %llu bytes of memory for program %u and "
			"its scratch",
			model->name, device->id, (unsigned long long)in->limit,
			instance);
	return qbrt_fail_errno(QBRT_AT_PROGRAM_CREATE, err,
			       "%s: %s did not take program %u", model->name,
			       device->id, instance);
}

static bool has_weights_binding(const struct qbnpu_facts *facts)
{
	for (uint32_t i = 0; i < facts->binding_count; i++)
		if (facts->bindings[i].kind == QBNPU_BINDING_WEIGHTS)
			return true;
	return false;
}

/* Freed buffers that wait for reuse must not be why a program finds no room. */
static enum qbrt_status create_program(const struct qbrt_model *model,
				       struct qbrt_launched *launched,
				       uint32_t instance)
{
	const struct qbrt_model_program *program =
		&model->file->programs[instance];
	struct qbrt_device *device = launched->device;
	struct drm_qbnpu_program_create create = {
		.data = (uintptr_t)program->data,
		.size = program->size,
		.core_mask = launched->core_mask,
		.mode = launched->mode,
	};
	int err;

	if (has_weights_binding(program->facts)) {
		create.weights = launched->weights.handle;
		create.weights_size = model->file->weights_size;
	}
	err = device->kmd->ioctl(device->file, DRM_IOCTL_QBNPU_PROGRAM_CREATE,
				 &create);
	if (qbrt_device_make_room(device, err))
		err = device->kmd->ioctl(
			device->file, DRM_IOCTL_QBNPU_PROGRAM_CREATE, &create);
	if (err)
		return refuse_program(model, device, instance, err, &create);
	launched->programs[instance] = create.handle;
	return QBRT_OK;
}

uint32_t qbrt_model_get_instance(const struct qbrt_model *model,
				 uint32_t variant)
{
	const struct qbrt_model_file *file = model->file;

	return file->bundles[file->variants[variant].first_bundle]
		.program[model->mode];
}

/* One per variant: a program binds its own variant's inputs and outputs. */
static enum qbrt_status create_programs(const struct qbrt_model *model,
					struct qbrt_launched *launched)
{
	for (uint32_t i = 0; i < model->file->vari->variant_count; i++) {
		enum qbrt_status status = create_program(
			model, launched, qbrt_model_get_instance(model, i));

		if (status)
			return status;
	}
	return QBRT_OK;
}

/* The binding that is the IOTB entry io. The loader has checked that it is. */
static void fill_binding(const struct qbrt_model_program *program, uint32_t io,
			 struct drm_qbnpu_binding *binding)
{
	const struct qbnpu_program *header = program->data;
	const struct qbnpu_binding_desc *desc =
		(const void *)((const char *)program->data +
			       header->bindings_offset);
	uint32_t index = 0;

	while (index < header->binding_count &&
	       !((desc[index].kind == QBNPU_BINDING_INPUT ||
		  desc[index].kind == QBNPU_BINDING_OUTPUT) &&
		 desc[index].io == io))
		index++;
	assert(index < header->binding_count);
	binding->index = index;
	binding->length = desc[index].size;
	binding->access = desc[index].access;
}

static void prepare_variant(const struct qbrt_model *model,
			    const struct qbrt_launched *launched,
			    uint32_t number,
			    struct qbrt_launched_variant *variant)
{
	const struct qbrt_model_file *file = model->file;
	const struct qbm_variant *entry = &file->variants[number];
	const struct qbrt_model_program *program;

	variant->variant = entry;
	variant->inputs = file->ios + entry->first_input;
	variant->outputs = file->ios + entry->first_output;
	variant->instance = qbrt_model_get_instance(model, number);
	program = &file->programs[variant->instance];
	variant->facts = program->facts;
	variant->program = launched->programs[variant->instance];
	for (uint32_t i = 0; i < entry->input_count; i++)
		fill_binding(program, entry->first_input + i,
			     &variant->bindings[i]);
	for (uint32_t i = 0; i < entry->output_count; i++)
		fill_binding(program, entry->first_output + i,
			     &variant->bindings[entry->input_count + i]);
}

static void prepare_variants(const struct qbrt_model *model,
			     struct qbrt_launched *launched)
{
	struct drm_qbnpu_binding *bindings = launched->bindings;

	for (uint32_t i = 0; i < launched->num_variants; i++) {
		struct qbrt_launched_variant *variant = &launched->variants[i];

		variant->bindings = bindings;
		prepare_variant(model, launched, i, variant);
		bindings += variant->variant->input_count +
			    variant->variant->output_count;
	}
}

/* Host memory for one launch; NULL: none. */
static struct qbrt_launched *alloc_launched(const struct qbrt_model *model)
{
	const struct qbrt_model_file *file = model->file;
	size_t num_variants = file->vari->variant_count;
	struct qbrt_launched *launched =
		calloc(1, sizeof(*launched) +
				  num_variants * sizeof(launched->variants[0]));

	if (!launched)
		return NULL;
	launched->num_variants = num_variants;
	launched->num_programs = file->num_programs;
	launched->programs =
		calloc(file->num_programs, sizeof(launched->programs[0]));
	launched->bindings =
		calloc(file->iotb->count, sizeof(launched->bindings[0]));
	if (!launched->programs || !launched->bindings) {
		free(launched->bindings);
		free(launched->programs);
		free(launched);
		return NULL;
	}
	return launched;
}

static void destroy_programs(struct qbrt_launched *launched)
{
	struct qbrt_device *device = launched->device;

	for (size_t i = 0; i < launched->num_programs; i++) {
		struct drm_qbnpu_program_destroy destroy = {
			.handle = launched->programs[i],
		};

		if (destroy.handle)
			(void)device->kmd->ioctl(
				device->file, DRM_IOCTL_QBNPU_PROGRAM_DESTROY,
				&destroy);
	}
}

/*
 * Programs hold the weights: they go first. A child of fork asks its parent's
 * device for nothing, and leaves a lock alone that a thread may have held.
 */
void qbrt_launched_free(struct qbrt_launched *launched)
{
	if (!qbrt_device_is_inherited(launched->device)) {
		destroy_programs(launched);
		qbrt_device_give_cores(launched->device, launched->core_mask);
		qbrt_slots_free(&launched->slots);
		(void)pthread_mutex_destroy(&launched->jobs.lock);
	}
	qbrt_staging_free(&launched->staging);
	if (launched->has_weights)
		qbrt_device_give_buffer(launched->device, &launched->weights);
	qbrt_device_unref(launched->device);
	free(launched->bindings);
	free(launched->programs);
	free(launched);
}

enum qbrt_status qbrt_launched_start(const struct qbrt_model *model,
				     struct qbrt_device *device,
				     struct qbrt_launched **launched)
{
	struct qbrt_launched *new_launched;
	enum qbrt_status status = check_device(model, device);

	if (status)
		return status;
	new_launched = alloc_launched(model);
	if (!new_launched)
		return qbrt_fail(QBRT_DRIVER_FAILED_TO_ALLOCATE_HOST_MEMORY,
				 "%s: no memory to launch it", model->name);
	new_launched->device = qbrt_device_ref(device);
	new_launched->mode = model->mode;
	new_launched->core_mask = take_cores(model, device);
	new_launched->num_slots = choose_slots(model, new_launched);
	qbrt_slots_start(&new_launched->slots, device, new_launched->num_slots);
	(void)pthread_mutex_init(&new_launched->jobs.lock, NULL);
	qbrt_staging_start(&new_launched->staging);
	new_launched->number = atomic_fetch_add(&next_number, 1);
	status = place_weights(model, new_launched);
	if (!status)
		status = create_programs(model, new_launched);
	if (status) {
		qbrt_launched_free(new_launched);
		return status;
	}
	prepare_variants(model, new_launched);
	*launched = new_launched;
	return QBRT_OK;
}
