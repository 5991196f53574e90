// SPDX-License-Identifier: MIT
/*
 * What check-validate compares with a second, plain description: reserved
 * bytes, the types of functions, windows and intervals by search, the facts.
 */
#include "check-validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define F32 QBNPU_DTYPE_F32
#define U8 QBNPU_DTYPE_U8
#define I8 QBNPU_DTYPE_I8
#define I32 QBNPU_DTYPE_I32
#define I64 QBNPU_DTYPE_I64
#define BOOL QBNPU_DTYPE_BOOL

/* The rule that refuses the finished program, 0 none; ends it. */
static uint32_t get_rule(struct prog *prog)
{
	struct qbnpu_report report;

	validate(prog, &qbnpu_caps_isa, &report, NULL);
	prog_end(prog);
	return report.rule;
}

static const struct {
	uint32_t opcode;
	uint32_t offset;
	uint32_t size;
} reserved[] = {
	{ QBNPU_OP_NOP, 24, 8 },         { QBNPU_OP_TIMESTAMP, 18, 14 },
	{ QBNPU_OP_FILL, 18, 6 },        { QBNPU_OP_COPY, 20, 12 },
	{ QBNPU_OP_CRC, 20, 12 },        { QBNPU_OP_CONV2D, 30, 2 },
	{ QBNPU_OP_CONV2D, 44, 4 },      { QBNPU_OP_DECONV2D, 44, 4 },
	{ QBNPU_OP_MATMUL, 28, 4 },      { QBNPU_OP_POOL, 21, 3 },
	{ QBNPU_OP_POOL, 44, 4 },        { QBNPU_OP_UNARY, 22, 2 },
	{ QBNPU_OP_BINARY, 37, 3 },      { QBNPU_OP_COMPARE, 24, 8 },
	{ QBNPU_OP_SELECT, 24, 8 },      { QBNPU_OP_REDUCE, 28, 4 },
	{ QBNPU_OP_SOFTMAX, 28, 4 },     { QBNPU_OP_LAYERNORM, 26, 2 },
	{ QBNPU_OP_RESIZE, 23, 1 },      { QBNPU_OP_RESIZE, 40, 8 },
	{ QBNPU_OP_PAD_REFLECT, 21, 3 }, { QBNPU_OP_GATHER, 24, 8 },
	{ QBNPU_OP_QUANT, 24, 8 },       { QBNPU_OP_CAST, 21, 1 },
	{ QBNPU_OP_CAST, 26, 6 },        { QBNPU_OP_LUT8, 22, 10 },
	{ QBNPU_OP_LSTM_CELL, 36, 12 },
};

/* V07: each byte that 5.2 says is 0 */
START_TEST(each_reserved_byte_of_a_command_is_checked)
{
	uint32_t i;

	for (i = 0; i < reserved[_i].size; i++) {
		struct prog prog;

		prog_good(&prog, reserved[_i].opcode);
		((uint8_t *)prog_at_command(&prog,
					    0))[reserved[_i].offset + i] = 0x10;
		ck_assert_uint_eq(get_rule(&prog), 7);
	}
}
END_TEST

#define TYPE(name) (1u << QBNPU_DTYPE_##name)
#define INTS (TYPE(I32) | TYPE(I64))

/* 5.6: types of src (and dst, but 50 and 51), 0 for a number that is none */
static uint32_t get_unary_types(uint32_t fn)
{
	switch (fn) {
	case 1:
	case 18:
	case 19:
	case 20:
		return TYPE(F32) | INTS;
	case 24:
		return TYPE(F32) | TYPE(I32);
	case 48:
		return TYPE(BOOL);
	case 49:
		return INTS | TYPE(U8) | TYPE(I8);
	default:
		return (fn >= 1 && fn <= 44) || fn == 50 || fn == 51 ? TYPE(F32)
								     : 0;
	}
}

/* V35 V37: every function with every type */
START_TEST(unary_functions_take_their_types_and_no_others)
{
	const uint32_t fn = (uint32_t)_i;
	const uint32_t types = get_unary_types(fn);
	uint32_t dtype;

	for (dtype = 0; dtype < QBNPU_NUM_DTYPES; dtype++) {
		uint32_t result = fn == 50 || fn == 51 ? BOOL : dtype;
		uint32_t expected = types >> dtype & 1 ? 0 : 35;
		struct prog prog;
		uint16_t src, dst;

		prog_begin(&prog);
		src = prog_input(&prog, dtype, DIMS(3));
		dst = prog_output(&prog, result, DIMS(3));
		prog_unary(&prog, fn, src, dst, fn == 51 ? 2.0f : 0.0f, 0.0f);
		prog_finish(&prog);
		ck_assert_uint_eq(get_rule(&prog), types ? expected : 37);
	}
}
END_TEST

/* V38: as many parameters as the function has */
START_TEST(unary_functions_take_their_parameters_and_no_others)
{
	static const uint8_t one[] = { 2, 7, 10, 12, 16, 44, 51 };
	static const uint8_t two[] = { 1, 5, 11, 17, 43 };
	const uint32_t fn = (uint32_t)_i;
	const uint32_t types = get_unary_types(fn);
	uint32_t count = 0;
	uint32_t given;

	if (memchr(one, _i, sizeof(one)))
		count = 1;
	if (memchr(two, _i, sizeof(two)))
		count = 2;
	for (given = 0; given <= 2 && types & TYPE(F32); given++) {
		uint32_t result = fn == 50 || fn == 51 ? BOOL : F32;
		struct prog prog;
		uint16_t src, dst;

		prog_begin(&prog);
		src = prog_input(&prog, F32, DIMS(3));
		dst = prog_output(&prog, result, DIMS(3));
		prog_unary(&prog, fn, src, dst, given > 0 ? 1.0f : 0.0f,
			   given > 1 ? 2.0f : 0.0f);
		prog_finish(&prog);
		if (fn == 51) /* its one parameter is never 0 */
			ck_assert_uint_eq(get_rule(&prog), given == 1 ? 0 : 38);
		else if (fn == 1 && given == 1) /* lo > hi */
			ck_assert_uint_eq(get_rule(&prog), 38);
		else
			ck_assert_uint_eq(get_rule(&prog),
					  given <= count ? 0 : 38);
	}
}
END_TEST

/* V38: CLIP sorts its bounds as numbers, zeros and infinities too */
START_TEST(clip_bounds_are_ordered)
{
	static const float values[] = {
		-__builtin_inff(), -2.0f, -1e-40f, -0.0f, 0.0f, 1e-40f, 2.0f,
		__builtin_inff()
	};
	uint32_t i, j;

	for (i = 0; i < 8; i++) {
		for (j = 0; j < 8; j++) {
			struct prog prog;

			prog_good(&prog, QBNPU_OP_UNARY);
			prog.num_commands = 0;
			prog.commands_size = 0;
			prog_unary(&prog, QBNPU_UNARY_CLIP, 0, 1, values[i],
				   values[j]);
			prog_finish(&prog);
			ck_assert_uint_eq(get_rule(&prog),
					  values[i] <= values[j] ? 0 : 38);
		}
	}
}
END_TEST

/* V35 V37: BINARY of equal types (8-bit ones that are quantised apart) */
START_TEST(binary_functions_take_their_types_and_no_others)
{
	const uint32_t fn = (uint32_t)_i;
	const uint32_t scale = 0x3f000000;
	uint32_t types = 0;
	uint32_t dtype;

	if (fn >= 1 && fn <= 9)
		types = TYPE(F32) | INTS;
	if (fn == 1 || fn == 2 || fn == 3 || fn == 5 || fn == 6)
		types |= TYPE(U8) | TYPE(I8);
	if (fn == 10)
		types = TYPE(F32);
	if (fn >= 11 && fn <= 13)
		types = TYPE(BOOL);
	if (fn >= 14 && fn <= 16)
		types = INTS | TYPE(U8) | TYPE(I8);
	for (dtype = 0; dtype < QBNPU_NUM_DTYPES; dtype++) {
		uint32_t expected = types >> dtype & 1 ? 0 : 35;
		struct qbnpu_cmd_binary *binary;
		struct prog prog;

		prog_begin(&prog);
		prog_input(&prog, dtype, DIMS(3));
		prog_input(&prog, dtype, DIMS(3));
		prog_output(&prog, dtype, DIMS(3));
		prog_binary(&prog, fn, 0, 1, 2);
		binary = (void *)prog.commands;
		if ((dtype == U8 || dtype == I8) && fn < 10) {
			binary->scale_a = scale;
			binary->scale_b = scale;
			binary->out_scale = scale;
		}
		prog_finish(&prog);
		ck_assert_uint_eq(get_rule(&prog), types ? expected : 37);
	}
}
END_TEST

/* V35 V37: REDUCE along one axis */
START_TEST(reduce_functions_take_their_types_and_no_others)
{
	const uint32_t fn = (uint32_t)_i;
	uint32_t types = fn >= 1 && fn <= 10 ? TYPE(F32) : 0;
	uint32_t dtype;

	if (fn == 1 || fn == 3 || fn == 4 || fn == 5)
		types |= INTS;
	if (fn >= 1 && fn <= 4)
		types |= TYPE(U8) | TYPE(I8);
	if (fn == 11 || fn == 12)
		types = TYPE(F32) | TYPE(I32) | TYPE(U8) | TYPE(I8);
	for (dtype = 0; dtype < QBNPU_NUM_DTYPES; dtype++) {
		uint32_t expected = types >> dtype & 1 ? 0 : 35;
		struct qbnpu_cmd_reduce *reduce;
		struct prog prog;
		uint16_t src, dst;

		prog_begin(&prog);
		src = prog_input(&prog, dtype, DIMS(3));
		dst = prog_output(&prog, fn > 10 ? I64 : dtype, DIMS(1));
		reduce = prog_cmd(&prog, QBNPU_OP_REDUCE);
		reduce->src = src;
		reduce->dst = dst;
		reduce->fn = (uint16_t)fn;
		reduce->axes = 1;
		if ((dtype == U8 || dtype == I8) && fn && fn <= 2)
			reduce->requant = 0x3f000000;
		prog_finish(&prog);
		ck_assert_uint_eq(get_rule(&prog), types ? expected : 37);
	}
}
END_TEST

/* V35: CAST mode 0 takes any pair of types, mode 1 U8, I8, I32 to F32 */
START_TEST(cast_takes_any_pair_of_types)
{
	uint32_t src, dst, mode;

	for (src = 0; src < QBNPU_NUM_DTYPES; src++) {
		for (dst = 0; dst < QBNPU_NUM_DTYPES; dst++) {
			for (mode = 0; mode < 2; mode++) {
				_Bool is_good =
					!mode || ((src == U8 || src == I8 ||
						   src == I32) &&
						  dst == F32);
				struct qbnpu_cmd_cast *cast;
				struct prog prog;

				prog_begin(&prog);
				prog_input(&prog, src, DIMS(3));
				prog_output(&prog, dst, DIMS(3));
				cast = prog_cmd(&prog, QBNPU_OP_CAST);
				cast->dst = 1;
				cast->mode = (uint8_t)mode;
				prog_finish(&prog);
				ck_assert_uint_eq(get_rule(&prog),
						  is_good ? 0 : 35);
			}
		}
	}
}
END_TEST

/* A small generator: the same numbers in each run. */
static uint32_t get_random(uint32_t *state, uint32_t bound)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % bound;
}

/* Each of num windows has a tap inside [0, size). */
static _Bool are_inside(const struct qbnpu_cmd_pool *pool, int32_t size,
			int32_t num)
{
	int32_t i, tap;

	for (i = 0; i < num; i++) {
		_Bool is_inside = 0;

		for (tap = 0; tap < pool->kh; tap++) {
			int32_t at =
				i * pool->sh - pool->pad_top + tap * pool->dh;

			is_inside |= at >= 0 && at < size;
		}
		if (!is_inside)
			return 0;
	}
	return 1;
}

/* V37: POOL windows by search */
START_TEST(pool_windows_without_a_position_inside_are_refused)
{
	uint32_t state = 7;
	uint32_t num_bad = 0;
	uint32_t i;

	for (i = 0; i < 4000; i++) {
		struct qbnpu_cmd_pool *pool;
		struct prog prog;
		uint32_t size = 1 + get_random(&state, 9);
		uint32_t total, num, reach, expected;

		prog_begin(&prog);
		pool = prog_cmd(&prog, QBNPU_OP_POOL);
		pool->dst = 1;
		pool->kh = (uint8_t)(1 + get_random(&state, 4));
		pool->sh = (uint8_t)(1 + get_random(&state, 5));
		pool->dh = (uint8_t)(1 + get_random(&state, 9));
		reach = (pool->kh - 1u) * pool->dh;
		pool->pad_top = (uint16_t)get_random(&state, reach + 1);
		pool->pad_bottom = (uint16_t)get_random(&state, reach + 1);
		pool->ceil_h = (uint8_t)get_random(&state, pool->sh);
		total = size + pool->pad_top + pool->pad_bottom + pool->ceil_h;
		num = total > reach ? (total - reach - 1) / pool->sh + 1 : 1;
		expected =
			are_inside(pool, (int32_t)size, (int32_t)num) ? 0 : 37;
		if (total <= reach)
			expected = 36;
		num_bad += expected == 37;
		prog_input(&prog, F32, DIMS(1, size, 1, 1));
		prog_output(&prog, F32, DIMS(1, num, 1, 1));
		prog_finish(&prog);
		ck_assert_uint_eq(get_rule(&prog), expected);
	}
	ck_assert_uint_gt(num_bad, 100);
}
END_TEST

/* V43: random writes and reads of 64 bytes of SCRATCH */
START_TEST(reads_are_covered_by_earlier_writes)
{
	uint32_t state = 11;
	uint32_t num_bad = 0;
	uint32_t round, i;

	for (round = 0; round < 400; round++) {
		uint8_t is_written[64] = { 0 };
		uint32_t expected = 0;
		struct prog prog;
		uint16_t whole;

		prog_begin(&prog);
		whole = prog_scratch(&prog, U8, DIMS(64));
		prog_output(&prog, QBNPU_DTYPE_U32, DIMS(1));
		prog_fill(&prog, 1, 0);
		for (i = 0; i < 8; i++) {
			uint32_t begin = get_random(&state, 60);
			uint32_t size = 1 + get_random(&state, 64 - begin);
			uint16_t part = prog_tensor(
				&prog, prog_get_tensor(&prog, whole)->binding,
				begin, U8, DIMS(size));
			struct qbnpu_cmd_crc *crc;

			if (get_random(&state, 5)) {
				prog_fill(&prog, part, 0);
				memset(is_written + begin, 1, size);
				continue;
			}
			crc = prog_cmd(&prog, QBNPU_OP_CRC);
			crc->src = part;
			crc->dst = 1;
			if (memchr(is_written + begin, 0, size))
				expected = 43;
		}
		prog_finish(&prog);
		num_bad += expected == 43;
		ck_assert_uint_eq(get_rule(&prog), expected);
	}
	ck_assert_uint_gt(num_bad, 50);
	ck_assert_uint_lt(num_bad, 350);
}
END_TEST

/* PF03: pairs of a window, once each, the least limit */
START_TEST(facts_hold_bindings_parameters_and_pairs)
{
	struct qbnpu_facts *facts;
	struct qbnpu_report report;
	struct prog prog;

	build_dynamic(&prog);
	ck_assert_int_eq(validate(&prog, &qbnpu_caps_isa, &report, &facts), 0);
	prog_end(&prog);
	ck_assert_uint_eq(facts->size, sizeof(*facts) + sizeof(*facts->pairs));
	ck_assert_uint_eq(facts->isa_features,
			  QBNPU_FEATURE_DYNAMIC | QBNPU_FEATURE_STATE);
	ck_assert_uint_eq(facts->byte_count, 4 * 30 + 18);
	ck_assert_uint_eq(facts->param_count, 2);
	ck_assert_uint_eq(facts->params[0].multiple, 2);
	ck_assert_uint_eq(facts->binding_count, 4);
	ck_assert_uint_eq(facts->bindings[1].kind, QBNPU_BINDING_OUTPUT);
	ck_assert_uint_eq(facts->bindings[1].access, QBNPU_ACCESS_WRITE);
	ck_assert_uint_eq(facts->bindings[1].alias, NONE);
	ck_assert_uint_eq(facts->bindings[3].size, 64);
	ck_assert_uint_eq(facts->pair_count, 1);
	ck_assert_uint_eq(facts->pairs[0].params, 3);
	ck_assert_uint_eq(facts->pairs[0].twice, 1);
	ck_assert_uint_eq(facts->pairs[0].limit, 16);
	free(facts);

	build_aliases(&prog);
	ck_assert_int_eq(validate(&prog, &qbnpu_caps_isa, &report, &facts), 0);
	prog_end(&prog);
	ck_assert_uint_eq(facts->bindings[3].alias, 1);
	free(facts);
}
END_TEST

void add_type_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_LOOP_TEST(each_reserved_byte_of_a_command_is_checked,
			       sizeof(reserved) / sizeof(reserved[0])),
		QBRT_LOOP_TEST(unary_functions_take_their_types_and_no_others,
			       53),
		QBRT_LOOP_TEST(
			unary_functions_take_their_parameters_and_no_others,
			53),
		QBRT_TEST(clip_bounds_are_ordered),
		QBRT_LOOP_TEST(binary_functions_take_their_types_and_no_others,
			       18),
		QBRT_LOOP_TEST(reduce_functions_take_their_types_and_no_others,
			       14),
		QBRT_TEST(cast_takes_any_pair_of_types),
		QBRT_TEST(pool_windows_without_a_position_inside_are_refused),
		QBRT_TEST(reads_are_covered_by_earlier_writes),
		QBRT_TEST(facts_hold_bindings_parameters_and_pairs),
	};

	qbrt_tests_add(all, tests, sizeof(tests) / sizeof(tests[0]));
}
