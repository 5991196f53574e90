// SPDX-License-Identifier: MIT
/*
 * Programs that break one of the rows V01 to V30 each: header and tables.
 * Bases are the small programs of check-validate-forms.c.
 */
#include "check-validate.h"

#include <stdlib.h>
#include <string.h>

#define TABLE NONE /* no command */

/* A second list, laid out as it should be, for list_count 2. */
static void build_two_lists(struct prog *prog)
{
	const uint32_t size = sizeof(struct qbnpu_list);
	struct qbnpu_program *header;
	uint8_t *bytes;
	size_t at;

	prog_copy64(prog);
	at = prog_at_header(prog)->params_offset;
	bytes = aligned_alloc(16, prog->nbytes + size);
	if (!bytes)
		abort();
	memcpy(bytes, prog->bytes, at);
	memset(bytes + at, 0, size);
	memcpy(bytes + at + size, prog->bytes + at, prog->nbytes - at);
	free(prog->bytes);
	prog->bytes = bytes;
	prog->nbytes += size;
	header = prog_at_header(prog);
	header->size += size;
	header->list_count = 2;
	header->params_offset += size;
	header->pool_offset += size;
	header->commands_offset += size;
}

/* copy64 and one pool value, so that 12 pad bytes follow. */
static void build_padded(struct prog *prog)
{
	const float one = 1.0f;

	prog_copy64(prog);
	prog_pool(prog, &one, 1);
	prog_finish(prog);
}

/* copy64 and a second binding of a kind that there may be one of. */
static void add_two(struct prog *prog, uint32_t kind)
{
	prog_copy64(prog);
	prog_binding(prog, kind, 64);
	prog_binding(prog, kind, 64);
	prog_finish(prog);
}

static void build_two_weights(struct prog *prog)
{
	add_two(prog, QBNPU_BINDING_WEIGHTS);
}

static void build_two_scratch(struct prog *prog)
{
	add_two(prog, QBNPU_BINDING_SCRATCH);
}

static void build_two_states(struct prog *prog)
{
	add_two(prog, QBNPU_BINDING_STATE);
}

/* An axis (of state tensor 2) that is the cache length alone. */
static void build_cache_axis(struct prog *prog)
{
	uint16_t state;

	prog_copy64(prog);
	state = prog_state(prog, QBNPU_DTYPE_U8, DIMS(4));
	prog_get_tensor(prog, state)->extent_params[0] =
		prog_param(prog, QBNPU_PARAM_CACHE, 1, 4, 1);
	prog_finish(prog);
}

/* An axis that could be empty: parameter 0 may be 0. */
static void build_empty_axis(struct prog *prog)
{
	build_cache_axis(prog);
	prog->params[0].kind = QBNPU_PARAM_OTHER;
	prog->params[0].min = 0;
	prog_finish(prog);
}

/* A destination with a broadcast axis, one whose rows overlap. */
static void build_wide_dst(struct prog *prog, uint64_t stride)
{
	uint16_t dst, src;

	prog_begin(prog);
	src = prog_input(prog, QBNPU_DTYPE_U8, DIMS(2, 8));
	dst = prog_state(prog, QBNPU_DTYPE_U8, DIMS(2, 8));
	prog_get_tensor(prog, dst)->strides[0] = stride;
	prog_copy(prog, src, dst);
	prog_finish(prog);
}

static void build_broadcast_dst(struct prog *prog)
{
	build_wide_dst(prog, 0);
}

static void build_overlapping_dst(struct prog *prog)
{
	build_wide_dst(prog, 7);
}

#define HEADER_CASE(name, rule, field, ...) \
	{ \
		name, rule, TABLE, AT_HEADER(field), prog_copy64, 0, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define CASE(name, rule, index, build, ...) \
	{ \
		name, rule, TABLE, index, build, 0, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define COMMAND_CASE(name, rule, command, operand, opcode, ...) \
	{ \
		name, rule, command, operand, NULL, QBNPU_OP_##opcode, \
		{ \
			__VA_ARGS__ \
		} \
	}

const struct bad_case bad_tables[] = {
	/* V01 */
	HEADER_CASE("size", 1, size, H(size, 512)),
	HEADER_CASE("size-huge", 1, size, H(size, ~0ull)),
	/* V02 */
	HEADER_CASE("magic", 2, magic, H(magic, 0x47504250)),
	/* V03 */
	HEADER_CASE("major", 3, isa_major, H(isa_major, 2)),
	HEADER_CASE("major-0", 3, isa_major, H(isa_major, 0)),
	HEADER_CASE("minor", 3, isa_minor, H(isa_minor, 1)),
	/* V04 */
	HEADER_CASE("lists", 4, isa_features, H(isa_features, 4)),
	HEADER_CASE("unknown", 4, isa_features, H(isa_features, 1ull << 63)),
	HEADER_CASE("not-used", 4, isa_features, H(isa_features, 1)),
	CASE("int8-not-declared", 4, AT_HEADER(isa_features), build_conv_int8,
	     H(isa_features, 0)),
	CASE("half-not-declared", 4, AT_HEADER(isa_features), build_conv_half,
	     H(isa_features, QBNPU_FEATURE_STATE)),
	CASE("state-not-declared", 4, AT_HEADER(isa_features), build_conv_half,
	     H(isa_features, QBNPU_FEATURE_HALF)),
	CASE("dynamic-not-declared", 4, AT_HEADER(isa_features), build_param,
	     H(isa_features, 0)),
	/* V05 */
	HEADER_CASE("no-binding", 5, binding_count, H(binding_count, 0)),
	HEADER_CASE("bindings", 5, binding_count, H(binding_count, 65)),
	HEADER_CASE("no-tensor", 5, tensor_count, H(tensor_count, 0)),
	HEADER_CASE("tensors", 5, tensor_count, H(tensor_count, 16385)),
	HEADER_CASE("no-command", 5, command_count, H(command_count, 0)),
	HEADER_CASE("commands", 5, command_count, H(command_count, 65537)),
	HEADER_CASE("params", 5, param_count, H(param_count, 5)),
	HEADER_CASE("pool", 5, pool_count, H(pool_count, (1u << 20) + 1)),
	/* V06 */
	HEADER_CASE("bindings", 6, bindings_offset, H(bindings_offset, 144)),
	HEADER_CASE("tensors", 6, tensors_offset, H(tensors_offset, 200)),
	HEADER_CASE("lists", 6, lists_offset, H(lists_offset, 0)),
	HEADER_CASE("list-count", 6, params_offset, H(list_count, 0xffffffffu)),
	HEADER_CASE("params", 6, params_offset, H(params_offset, 448)),
	HEADER_CASE("pool", 6, pool_offset, H(pool_offset, ~0u)),
	HEADER_CASE("commands", 6, commands_offset, H(commands_offset, 480)),
	HEADER_CASE("end", 6, commands_size, H(commands_size, 16)),
	HEADER_CASE("end-huge", 6, commands_size, H(commands_size, ~0u)),
	/* V07 */
	HEADER_CASE("header", 7, flags, H(reserved[0], 1)),
	HEADER_CASE("header-last", 7, flags, H(reserved[19], 0x80)),
	HEADER_CASE("header-flags", 7, flags, H(flags, 2)),
	CASE("pad", 7, AT_HEADER(pool_count), build_padded, PAD(0, 1)),
	CASE("pad-last", 7, AT_HEADER(pool_count), build_padded, PAD(11, 1)),
	CASE("binding", 7, 1, prog_copy64, B(1, reserved[11], 1)),
	CASE("binding-flags", 7, 0, prog_copy64, B(0, flags, 0x80)),
	CASE("tensor-flags", 7, 0, prog_copy64, T(0, flags, 1)),
	CASE("tensor", 7, 1, prog_copy64, T(1, reserved0, 1)),
	CASE("tensor-last", 7, 1, prog_copy64, T(1, reserved1, 1u << 31)),
	COMMAND_CASE("command-flags", 7, 1, offsetof(struct qbnpu_cmd, flags),
		     COPY, HEAD(1, flags, 2)),
	COMMAND_CASE("command", 7, 1, offsetof(struct qbnpu_cmd, reserved),
		     COPY, HEAD(1, reserved, 1)),
	COMMAND_CASE("post-flags", 7, 0, 51, CONV2D,
		     C(0, conv2d, post.flags, 2)),
	COMMAND_CASE("matmul-flags", 7, 0, 35, MATMUL,
		     C(0, matmul, post.flags, 0x80)),
	COMMAND_CASE("reduce-flags", 7, 0, AT(reduce, flags), REDUCE,
		     C(0, reduce, flags, 2)),
	COMMAND_CASE("softmax-flags", 7, 0, AT(softmax, flags), SOFTMAX,
		     C(0, softmax, flags, 6)),
	COMMAND_CASE("layernorm-flags", 7, 0, AT(layernorm, flags), LAYERNORM,
		     C(0, layernorm, flags, 2)),
	/* V08 */
	HEADER_CASE("multi", 8, core_mode, H(core_mode, 1)),
	HEADER_CASE("mode", 8, core_mode, H(core_mode, 5)),
	HEADER_CASE("batch", 8, batch, H(batch, 0)),
	CASE("core", 8, 0, prog_copy64, L(core, 1)),
	CASE("lists", 8, AT_HEADER(list_count), build_two_lists, { 0 }),
	/* V10 */
	CASE("kind-0", 10, 2, build_spare, B(2, kind, 0)),
	CASE("kind", 10, 2, build_spare, B(2, kind, 6)),
	CASE("weights-access", 10, 2, build_spare, B(2, access, 3)),
	CASE("scratch-access", 10, 3, build_spare, B(3, access, 1)),
	CASE("state-access", 10, 4, build_spare, B(4, access, 2)),
	CASE("input-access", 10, 0, build_spare, B(0, access, 3)),
	CASE("output-access", 10, 1, build_spare, B(1, access, 1)),
	CASE("access-bit", 10, 1, build_spare, B(1, access, 6)),
	CASE("two-weights", 10, 3, build_two_weights, { 0 }),
	CASE("two-scratch", 10, 3, build_two_scratch, { 0 }),
	CASE("two-states", 10, 3, build_two_states, { 0 }),
	/* V11 */
	CASE("align-low", 11, 0, prog_copy64, B(0, align_log2, 5)),
	CASE("align-high", 11, 1, prog_copy64, B(1, align_log2, 22)),
	CASE("size-0", 11, 3, build_spare, B(3, size, 0)),
	CASE("size", 11, 3, build_spare, B(3, size, (1ull << 34) + 64)),
	CASE("scratch", 11, 3, build_spare, B(3, size, 96)),
	CASE("state", 11, 4, build_spare, B(4, size, 65)),
	/* V12 */
	CASE("input", 12, 0, build_aliases, B(0, alias, 1)),
	CASE("range", 12, 4, build_aliases, B(4, alias, 6)),
	CASE("output", 12, 4, build_aliases, B(4, alias, 3)),
	CASE("size", 12, 4, build_aliases, B(4, alias, 2)),
	CASE("twice", 12, 4, build_aliases, B(4, alias, 1)),
	CASE("weights", 12, 2, build_spare, B(2, alias, 0)),
	/* V13 */
	CASE("range", 13, 1, prog_copy64, B(1, tensor, 2)),
	CASE("none", 13, 0, prog_copy64, B(0, tensor, 0xffff)),
	CASE("other", 13, 0, prog_copy64, B(0, tensor, 1)),
	CASE("size", 13, 0, prog_copy64, B(0, size, 128)),
	CASE("offset", 13, 0, prog_copy64, T(0, offset, 64)),
	CASE("stride", 13, 0, prog_copy64, T(0, dims[0], 32),
	     T(0, strides[0], 2), T(0, span, 64), B(0, size, 64)),
	CASE("weights-tensor", 13, 2, build_spare, B(2, tensor, 2)),
	CASE("weights-io", 13, 2, build_spare, B(2, io, 7)),
	/* V14 */
	CASE("inputs", 14, 1, build_aliases, B(1, io, 0)),
	CASE("outputs", 14, 4, build_aliases, B(4, io, 3)),
	/* V16 */
	CASE("min", 16, 0, build_param, P(0, min, 20)),
	CASE("multiple-0", 16, 0, build_param, P(0, multiple, 0)),
	CASE("min-multiple", 16, 0, build_param, P(0, min, 5)),
	CASE("max-multiple", 16, 0, build_param, P(0, max, 15)),
	CASE("max", 16, 0, build_param, P(0, max, (1u << 24) + 4)),
	CASE("kind-0", 16, 0, build_param, P(0, kind, 0)),
	CASE("kind", 16, 0, build_param, P(0, kind, 4)),
	CASE("tokens", 16, 0, build_param, P(0, min, 0)),
	/* V20 */
	CASE("dtype", 20, 2, build_spare, T(2, dtype, 13)),
	CASE("rank-0", 20, 2, build_spare, T(2, rank, 0)),
	CASE("rank", 20, 2, build_spare, T(2, rank, 7)),
	CASE("extent-0", 20, 2, build_spare, T(2, dims[0], 0)),
	CASE("extent", 20, 2, build_spare, T(2, dims[0], (1u << 24) + 1)),
	CASE("dims", 20, 2, build_spare, T(2, dims[1], 1)),
	CASE("strides", 20, 2, build_spare, T(2, strides[5], 4)),
	CASE("masks", 20, 2, build_spare, T(2, extent_params[1], 1)),
	CASE("binding", 20, 2, build_spare, T(2, binding, 5)),
	/* V21 */
	CASE("multiple", 21, 2, build_spare, T(2, strides[0], 6),
	     T(2, span, 22)),
	CASE("cap", 21, 2, build_spare, T(2, strides[0], (1ull << 34) + 4),
	     T(2, dims[0], 1), T(2, span, 4)),
	/* V22 */
	CASE("short", 22, 2, build_spare, T(2, span, 12)),
	CASE("long", 22, 2, build_spare, T(2, span, 20)),
	CASE("cap", 22, 2, build_spare, T(2, strides[0], 1ull << 32),
	     T(2, dims[0], 2), T(2, span, (1ull << 32) + 4),
	     B(2, size, 1ull << 34)),
	CASE("window", 22, 3, build_cache, T(3, span, 80)),
	/* V23 */
	CASE("multiple", 23, 2, build_spare, T(2, offset, 2)),
	CASE("end", 23, 2, build_spare, T(2, offset, 52)),
	CASE("overflow", 23, 2, build_spare, T(2, offset, ~3ull)),
	/* V24, NC16 */
	CASE("scale-0", 24, 2, build_spare, T(2, scale, 0)),
	CASE("scale-low", 24, 2, build_spare, T(2, scale, 0x217fffff)),
	CASE("scale-high", 24, 2, build_spare, T(2, scale, 0x47800001)),
	CASE("scale-negative", 24, 2, build_spare, T(2, scale, 0xbf800000)),
	CASE("scale-nan", 24, 2, build_spare, T(2, scale, 0x7fc00000)),
	CASE("zero-point-i32", 24, 2, build_spare, T(2, zero_point, 1)),
	CASE("zero-point-u8", 24, 4, build_spare, T(4, zero_point, 256)),
	CASE("zero-point-negative", 24, 4, build_spare, T(4, zero_point, -1)),
	CASE("zero-point-i8", 24, 4, build_spare, T(4, dtype, 2),
	     T(4, zero_point, -129)),
	CASE("scale-f32", 24, 3, build_spare, T(3, scale, 0x3f800000)),
	CASE("zero-point-f32", 24, 3, build_spare, T(3, zero_point, 1)),
	CASE("quant-f32", 24, 3, build_spare, T(3, quant, 0)),
	CASE("axis-f32", 24, 3, build_spare, T(3, quant_axis, 0)),
	CASE("axis-alone", 24, 2, build_spare, T(2, quant_axis, 0)),
	CASE("axis", 24, 4, build_spare, T(4, quant_axis, 2)),
	CASE("axis-none", 24, 4, build_spare, T(4, quant_axis, 0xff)),
	CASE("both", 24, 4, build_spare, T(4, scale, 0x3f800000)),
	CASE("pool", 24, 4, build_spare, T(4, quant, 1)),
	CASE("pool-overflow", 24, 4, build_spare, T(4, quant, 0xfffffffe)),
	CASE("pool-value", 24, 4, build_spare, POOL(2, 0x7f800000)),
	/* V25, PF02, PF04 */
	CASE("no-param", 25, 0, build_dynamic, T(0, extent_params[0], 5)),
	CASE("no-offset-param", 25, 4, build_dynamic, T(4, offset_params, 7)),
	CASE("sum", 25, 4, build_dynamic, T(4, dims[0], 5)),
	CASE("cache-alone", 25, 2, build_cache_axis, { 0 }),
	CASE("empty", 25, 2, build_empty_axis, { 0 }),
	CASE("axis-alone", 25, 2, build_spare, T(2, offset_axis, 0)),
	CASE("params-alone", 25, 3, build_cache, T(3, offset_axis, 0xff),
	     T(3, span, 176)),
	CASE("axis", 25, 3, build_cache, T(3, offset_axis, 3), T(3, span, 176)),
	CASE("window", 25, 3, build_cache, T(3, window, 7), T(3, span, 240)),
	CASE("no-window", 25, 3, build_cache, T(3, window, 0), T(3, span, 176)),
	CASE("window-alone", 25, 2, build_spare, T(2, window, 4)),
	CASE("weights", 25, 2, build_empty_axis, P(0, min, 1), B(2, kind, 1),
	     B(2, access, 1)),
	/* V26 */
	CASE("broadcast", 26, 1, build_broadcast_dst, { 0 }),
	CASE("rows", 26, 1, build_overlapping_dst, { 0 }),
	/* V30 */
	CASE("offset", 30, 0, prog_copy64, L(offset, 16)),
	CASE("size", 30, 0, prog_copy64, L(size, 16)),
	CASE("odd", 30, 0, prog_copy64, L(size, 31)),
	CASE("count", 30, 0, prog_copy64, L(command_count, 2)),
	CASE("rest", 30, 0, build_aliases, H(command_count, 2),
	     L(command_count, 2)),
};

const size_t num_bad_tables = sizeof(bad_tables) / sizeof(bad_tables[0]);
