// SPDX-License-Identifier: MIT
/*
 * What a model tells about itself: getters, counters, the memory that a launch
 * takes, and its cores. Its inputs, outputs and caches: model-query.c.
 */
#include "model.h"

#include <stdio.h>

#include "status.h"
#include "util.h"

/* Programs, scratch arenas and weights take whole pages on the device. */
#define PAGE_NBYTES UINT64_C(4096)

const char *const qbrt_core_mode_names[QBRT_CORE_MODE_AUTO] = {
	"Single", "Multi", "Global", "Global4", "Global8",
};

const char *const qbrt_target_names[QBRT_NUM_TARGETS] = {
	"any device", "aries-rb",       "regulus-ra",
	"regulus-rb", "regulus-ra-usb", "regulus-rb-usb"
};

const char *qbrt_list_bits(uint64_t bits, const char *const *names, size_t num,
			   char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < num && used < size; i++)
		if (bits >> i & 1)
			used += (size_t)snprintf(text + used, size - used,
						 "%s%s", used ? ", " : "",
						 names[i]);
	return text;
}

QBRT_API const char *qbrt_model_get_path(const struct qbrt_model *model)
{
	return model ? model->path : NULL;
}

QBRT_API uint32_t qbrt_model_get_identifier(const struct qbrt_model *model)
{
	return model ? model->identifier : 0;
}

QBRT_API size_t qbrt_model_get_num_variants(const struct qbrt_model *model)
{
	return model ? model->file->vari->variant_count : 0;
}

QBRT_API size_t qbrt_model_get_num_inputs(const struct qbrt_model *model)
{
	return model ? model->file->variants[0].input_count : 0;
}

QBRT_API size_t qbrt_model_get_num_outputs(const struct qbrt_model *model)
{
	return model ? model->file->variants[0].output_count : 0;
}

QBRT_API size_t qbrt_model_get_num_cache_layers(const struct qbrt_model *model)
{
	return model && model->file->cach ? model->file->cach->count : 0;
}

QBRT_API uint32_t qbrt_model_get_core_modes(const struct qbrt_model *model)
{
	return model ? model->file->bundles[0].mode_mask : 0;
}

QBRT_API enum qbrt_core_mode
qbrt_model_get_core_mode(const struct qbrt_model *model)
{
	return model ? (enum qbrt_core_mode)model->mode : QBRT_CORE_MODE_SINGLE;
}

QBRT_API size_t qbrt_model_get_activation_slots(const struct qbrt_model *model)
{
	return model ? atomic_load(&model->num_slots) : 0;
}

QBRT_API void qbrt_model_get_counters(const struct qbrt_model *model,
				      struct qbrt_model_counters *counters)
{
	struct qbrt_model_counters now = { 0 };

	if (!counters || counters->size < sizeof(counters->size))
		return;
	now.size = counters->size;
	if (model) {
		const struct qbrt_model_totals *totals = &model->totals;

		now.submitted = atomic_load(&totals->submitted);
		now.completed = atomic_load(&totals->completed);
		now.failed = atomic_load(&totals->failed);
		now.cancelled = atomic_load(&totals->cancelled);
		now.input_nbytes = atomic_load(&totals->input_nbytes);
		now.output_nbytes = atomic_load(&totals->output_nbytes);
		now.copied_nbytes = atomic_load(&totals->copied_nbytes);
		now.queue_time = atomic_load(&totals->queue_time);
		now.device_time = atomic_load(&totals->device_time);
	}
	qbrt_answer(counters, now.size, &now, sizeof(now));
}

static uint64_t get_scratch_nbytes(const struct qbnpu_facts *facts)
{
	for (uint32_t i = 0; i < facts->binding_count; i++)
		if (facts->bindings[i].kind == QBNPU_BINDING_SCRATCH)
			return facts->bindings[i].size;
	return 0;
}

static bool has_cluster(uint64_t core_mask, unsigned int cluster)
{
	return (core_mask >> (cluster * 8) & 0xff) != 0;
}

/* One per core, in the global modes per gang. */
static uint64_t count_arenas(uint32_t mode, uint64_t core_mask)
{
	uint64_t num = 0;

	if (mode == QBRT_CORE_MODE_GLOBAL8)
		return 1;
	if (mode != QBRT_CORE_MODE_GLOBAL4)
		return (uint64_t)__builtin_popcountll(core_mask);
	for (unsigned int cluster = 0; cluster < 8; cluster++)
		num += has_cluster(core_mask, cluster);
	return num;
}

/* Bytes of one launch on these local cores. */
static uint64_t estimate(const struct qbrt_model *model, uint64_t core_mask)
{
	const struct qbrt_model_file *file = model->file;
	uint64_t num_caches = file->cach ? file->cach->cache_count : 1;
	uint64_t num_arenas = count_arenas(model->mode, core_mask);
	uint64_t nbytes = qbrt_round_up(file->weights_size, PAGE_NBYTES);

	for (uint32_t i = 0; i < file->vari->variant_count; i++) {
		const struct qbrt_model_program *program =
			&file->programs[file->bundles[i].program[model->mode]];

		nbytes += qbrt_round_up(program->size, PAGE_NBYTES);
		nbytes += num_arenas *
			  qbrt_round_up(get_scratch_nbytes(program->facts),
					PAGE_NBYTES);
	}
	return nbytes +
	       num_caches * qbrt_round_up(file->iotb->state_size, PAGE_NBYTES);
}

/*
 * Before a launch the device is the file's target, or the larger profile for
 * a file that takes any; which cores a count means does not matter here.
 */
static uint64_t get_expected_cores(const struct qbrt_model *model)
{
	uint64_t core_mask = model->file->header.target > 1 ? 0x1 : 0x0f0f;

	if (model->wanted_cores)
		return model->wanted_cores;
	while (model->wanted_num_cores &&
	       model->wanted_num_cores <
		       (unsigned int)__builtin_popcountll(core_mask))
		core_mask &= core_mask - 1;
	return core_mask;
}

QBRT_API uint64_t qbrt_model_get_memory_estimate(const struct qbrt_model *model)
{
	uint64_t core_mask;

	if (!model)
		return 0;
	core_mask = atomic_load(&model->core_mask);
	if (!core_mask)
		core_mask = get_expected_cores(model);
	return estimate(model, core_mask);
}

/* What launch was given; else what it will get, if a list says so (Q273). */
static uint64_t get_known_cores(const struct qbrt_model *model)
{
	uint64_t core_mask = atomic_load(&model->core_mask);

	if (!core_mask && model->mode == QBRT_CORE_MODE_SINGLE)
		return model->wanted_cores;
	return core_mask;
}

static struct qbrt_core_id make_core_id(unsigned int cluster, uint32_t core)
{
	return (struct qbrt_core_id){
		.cluster = (enum qbrt_cluster)((cluster + 1) << 16),
		.core = (enum qbrt_core)core,
	};
}

/*
 * The n-th target core: local ones by cluster and core, then the global core
 * of each cluster in the modes that have one. false: there are fewer.
 */
static bool get_target_core(const struct qbrt_model *model, uint64_t core_mask,
			    size_t number, struct qbrt_core_id *core_id)
{
	for (unsigned int bit = 0; bit < 64; bit++)
		if (core_mask & (UINT64_C(1) << bit) && number-- == 0) {
			*core_id = make_core_id(bit / 8, QBRT_CORE_0 + bit % 8);
			return true;
		}
	for (unsigned int cluster = 0; cluster < 8; cluster++)
		if (model->mode != QBRT_CORE_MODE_SINGLE &&
		    has_cluster(core_mask, cluster) && number-- == 0) {
			*core_id = make_core_id(cluster, QBRT_CORE_GLOBAL);
			return true;
		}
	return false;
}

QBRT_API bool qbrt_model_is_target(const struct qbrt_model *model,
				   struct qbrt_core_id core_id)
{
	uint64_t core_mask = model ? get_known_cores(model) : 0;
	struct qbrt_core_id target;

	for (size_t i = 0;
	     core_mask && get_target_core(model, core_mask, i, &target); i++)
		if (target.cluster == core_id.cluster &&
		    target.core == core_id.core)
			return true;
	return false;
}

QBRT_API enum qbrt_status
qbrt_model_query_target_cores(const struct qbrt_model *model,
			      struct qbrt_core_id *cores, size_t max_cores,
			      size_t *num_cores)
{
	uint64_t core_mask;
	struct qbrt_core_id core_id;
	size_t num = 0;

	if (!model || !num_cores || (!cores && max_cores))
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "qbrt_model_query_target_cores: %s is NULL",
				 !model       ? "model"
				 : !num_cores ? "num_cores"
					      : "cores");
	core_mask = get_known_cores(model);
	for (; get_target_core(model, core_mask, num, &core_id); num++)
		if (num < max_cores)
			cores[num] = core_id;
	*num_cores = num;
	return QBRT_OK;
}
