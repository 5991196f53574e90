// SPDX-License-Identifier: MIT
/*
 * The three containers of build-model.h. Together they use every field of the
 * format that is not fixed.
 */
#include "build-model.h"

#include <string.h>

#define SINGLE_MASK 0x01u
#define ALL_MASK 0x1bu
#define INPUT 0
#define OUTPUT 1
#define STATE 2

static void add_meta(struct build *build, const char *key, const char *value)
{
	struct qbm_meta_entry *entry = &build->meta[build->num_meta++];

	entry->key = build_string(build, key);
	entry->value = build_string(build, value);
}

/* A variant and its bundle, without ranges; every mode names program. */
static struct qbm_variant *add_variant(struct build *build, const char *name,
				       uint32_t mode_mask, uint32_t program)
{
	uint32_t number = build->num_variants++;
	struct qbm_variant *variant = &build->variants[number];
	struct qbm_bundle *bundle = &build->bundles[number];
	const struct qbnpu_program *header =
		prog_at_header(&build->programs[program]);
	uint32_t mode;

	variant->name = build_string(build, name);
	variant->first_bundle = number;
	variant->bundle_count = 1;
	variant->batch = header->batch;
	variant->mode_mask = mode_mask;
	variant->mac_count = header->mac_count;
	variant->seq_param = QBNPU_NONE32;
	variant->past_param = QBNPU_NONE32;
	bundle->name = build_string(build, "main");
	bundle->mode_mask = mode_mask;
	bundle->mac_count = header->mac_count;
	for (mode = 0; mode < 5; mode++)
		bundle->program[mode] =
			mode_mask & 1u << mode ? program : QBNPU_NONE32;
	return variant;
}

static void set_range(uint32_t *first, uint32_t *count, uint32_t from,
		      uint32_t num)
{
	*first = from;
	*count = num;
}

void build_plain(struct build *build)
{
	struct prog *prog = &build->programs[0];
	struct qbnpu_cmd_copy *copy;
	struct qbm_variant *variant;
	struct qbm_io *io;
	uint16_t x;
	uint16_t y;
	int i;

	memset(build, 0, sizeof(*build));
	build->num_programs = 1;
	prog_begin(prog);
	x = prog_input(prog, QBNPU_DTYPE_U8, DIMS(4, 4, 3));
	y = prog_output(prog, QBNPU_DTYPE_U8, DIMS(4, 4, 3));
	prog->bindings[1].io = 1;
	prog_get_tensor(prog, x)->name = build_string(build, "x in");
	copy = prog_cmd(prog, QBNPU_OP_COPY);
	copy->src = x;
	copy->dst = y;
	copy->head.debug = 1;
	prog_finish(prog);

	build->target = 1;
	add_meta(build, "labels", "cat\ndog");
	add_meta(build, "model.name", "plain");
	variant = add_variant(build, "default", SINGLE_MASK, 0);
	variant->flags = 1;
	set_range(&variant->first_input, &variant->input_count, 0, 1);
	set_range(&variant->first_output, &variant->output_count, 1, 1);
	io = build_io(build, 0, INPUT, 0, "x", QBNPU_DTYPE_U8, DIMS(4, 4, 3));
	io->layout = 1;
	io->host_dtype = QBNPU_DTYPE_F32;
	io->accepted_dtypes = 1u << QBNPU_DTYPE_U8 | 1u << QBNPU_DTYPE_F32;
	io->flags = 2;
	io->norm_channels = 3;
	for (i = 0; i < 3; i++) {
		io->mean[i] = 0.5f;
		io->std[i] = 0.25f;
		build->scales[i] = 0.125f * (float)(i + 1);
	}
	build->num_scales = 3;
	io->scale = 0.0f;
	io->scale_count = 3;
	io->scale_axis = 2;
	build_io(build, 0, OUTPUT, 0, "y", QBNPU_DTYPE_U8, DIMS(4, 4, 3));
	build->ios[1].zero_point = 128;
	build->num_debug = 2;
	build->debug[0].nodes = build_string(build, "Conv_0\nRelu_1");
	build->debug[0].op_types = build_string(build, "Conv\nRelu");
	build->debug[0].fused = 2;
	build->extra_size = 40;
	build_finish(build);
}

void build_copy(struct build *build, uint32_t dtype, uint32_t rank,
		const uint32_t *dims)
{
	struct prog *prog = &build->programs[0];
	struct qbm_variant *variant;
	uint16_t x;

	memset(build, 0, sizeof(*build));
	build->num_programs = 1;
	prog_begin(prog);
	x = prog_input(prog, dtype, rank, dims);
	prog_copy(prog, x, prog_output(prog, dtype, rank, dims));
	prog->bindings[1].io = 1;
	prog_finish(prog);
	add_meta(build, "model.name", "copy");
	variant = add_variant(build, "default", SINGLE_MASK, 0);
	set_range(&variant->first_input, &variant->input_count, 0, 1);
	set_range(&variant->first_output, &variant->output_count, 1, 1);
	build_io(build, 0, INPUT, 0, "x", dtype, rank, dims);
	build_io(build, 0, OUTPUT, 0, "y", dtype, rank, dims);
}

void build_modes(struct build *build)
{
	static const uint32_t core_modes[] = { QBNPU_MODE_SINGLE,
					       QBNPU_MODE_GLOBAL4,
					       QBNPU_MODE_GLOBAL8 };
	struct qbm_variant *variant;
	uint32_t i;

	memset(build, 0, sizeof(*build));
	build->num_programs = 3;
	for (i = 0; i < 3; i++) {
		struct prog *prog = &build->programs[i];
		struct qbnpu_cmd_unary *unary;
		uint16_t x;
		uint16_t y;

		prog_begin(prog);
		prog->core_mode = core_modes[i];
		prog->batch = 2;
		x = prog_input(prog, QBNPU_DTYPE_F32, DIMS(2, 16));
		y = prog_output(prog, QBNPU_DTYPE_F32, DIMS(2, 16));
		prog->bindings[1].io = 1;
		prog->bindings[1].alias = 0;
		unary = prog_cmd(prog, QBNPU_OP_UNARY);
		unary->head.flags = QBNPU_CMD_IN_PLACE;
		unary->src = x;
		unary->dst = y;
		unary->fn = QBNPU_UNARY_NEG;
		prog_finish(prog);
	}
	variant = add_variant(build, "default", ALL_MASK, 0);
	build->bundles[0].program[QBNPU_MODE_GLOBAL4] = 1;
	build->bundles[0].program[QBNPU_MODE_GLOBAL8] = 2;
	set_range(&variant->first_input, &variant->input_count, 0, 1);
	set_range(&variant->first_output, &variant->output_count, 1, 1);
	for (i = 0; i < 2; i++) {
		struct qbm_io *io =
			build_io(build, 0, i ? OUTPUT : INPUT, 0, i ? "y" : "x",
				 QBNPU_DTYPE_F32, DIMS(16));

		io->flags = 1;
		io->size *= 2;
	}
	build->ios[1].alias = 0;
	build_finish(build);
}

/* x to the cache's rows and to the output; the state to the other output. */
static void fill_full_program(struct prog *prog, uint32_t first_io)
{
	struct qbnpu_tensor *tensor;
	uint8_t tokens;
	uint8_t past;
	uint16_t weights;
	uint16_t rows;
	uint16_t state;
	uint16_t x;
	uint16_t y;
	uint16_t z;

	prog_begin(prog);
	tokens = prog_param(prog, QBNPU_PARAM_TOKENS, 1, 8, 1);
	past = prog_param(prog, QBNPU_PARAM_CACHE, 0, 24, 1);
	x = prog_input(prog, QBNPU_DTYPE_F32, DIMS(8, 4));
	prog_get_tensor(prog, x)->extent_params[0] = tokens;
	y = prog_output(prog, QBNPU_DTYPE_F32, DIMS(8, 4));
	prog_get_tensor(prog, y)->extent_params[0] = tokens;
	z = prog_output(prog, QBNPU_DTYPE_F32, DIMS(16));
	prog->bindings[0].io = first_io;
	prog->bindings[1].io = first_io + 1;
	prog->bindings[2].io = first_io + 2;
	weights = prog_weights(prog, QBNPU_DTYPE_F32, DIMS(16));
	rows = prog_state(prog, QBNPU_DTYPE_F32, DIMS(32, 4));
	state = prog_state(prog, QBNPU_DTYPE_F32, DIMS(16));
	rows = prog_view(prog, rows);
	tensor = prog_get_tensor(prog, rows);
	tensor->dims[0] = 8;
	tensor->extent_params[0] = tokens;
	tensor->offset_axis = 0;
	tensor->offset_params = past;
	tensor->window = 32;
	prog_copy(prog, x, rows);
	prog_copy(prog, x, y);
	prog_copy(prog, state, z);
	prog_copy(prog, weights, state);
	prog_finish(prog);
}

static void add_full_variant(struct build *build, uint32_t number)
{
	const uint32_t first = number * 5;
	struct qbm_variant *variant;
	struct qbm_io *io;
	uint32_t i;

	fill_full_program(&build->programs[number], first);
	variant = add_variant(build, number ? "second" : "first", SINGLE_MASK,
			      number);
	set_range(&variant->first_input, &variant->input_count, first, 1);
	set_range(&variant->first_output, &variant->output_count, first + 1, 2);
	set_range(&variant->first_state, &variant->state_count, first + 3, 2);
	variant->max_tokens = 8;
	variant->max_cache = 32;
	variant->seq_param = 0;
	variant->past_param = 1;
	variant->activation_slots = 1;
	for (i = 0; i < 2; i++) {
		io = build_io(build, number, i ? OUTPUT : INPUT, 0,
			      i ? "y" : "x", QBNPU_DTYPE_F32, DIMS(8, 4));
		io->shape[0] = -1;
		io->source_shape[0] = -1;
		io->dyn_axis = 0;
		io->dyn_param = 0;
	}
	build_io(build, number, OUTPUT, 1, "z", QBNPU_DTYPE_F32, DIMS(16));
	io = build_io(build, number, STATE, 0, "kv", QBNPU_DTYPE_F32,
		      DIMS(32, 4));
	io->cache = 0;
	io = build_io(build, number, STATE, 1, "h", QBNPU_DTYPE_F32, DIMS(16));
	io->state_offset = 512;
	io->state_init = 1;
	io->init_offset = 64;
}

void build_full(struct build *build)
{
	struct qbm_cache *cache = &build->caches[0];
	size_t i;

	memset(build, 0, sizeof(*build));
	build->num_programs = 2;
	build->state_size = 576;
	build->weights_size = 128;
	for (i = 0; i < build->weights_size; i++)
		build->weights[i] = (uint8_t)(i * 7);
	add_full_variant(build, 0);
	add_full_variant(build, 1);
	build->num_caches = 2;
	build->cach.cache_count = 2;
	build->cach.max_tokens = 32;
	build->cach.cache_type = 1;
	for (i = 0; i < 2; i++, cache++) {
		cache->name = build_string(build, i ? "kv.values" : "kv.keys");
		/* first eight bytes of the SHA-256 of the names */
		cache->layer_hash =
			i ? 0x8fecb8444b455d96u : 0x29bd3d77f230278cu;
		cache->offset = i * 256;
		cache->size = 256;
		cache->max_tokens = 16;
		cache->outer_count = 1;
		cache->token_stride = 16;
		cache->token_size = 16;
		cache->state = 3;
	}
	build_finish(build);
}
