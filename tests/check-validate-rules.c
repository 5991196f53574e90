// SPDX-License-Identifier: MIT
/*
 * What check-validate asks beyond one program per row: the order of the rows,
 * work memory, yields, caps, facts, and sets of intervals and windows against
 * a plain search.
 */
#include "check-validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define U8 QBNPU_DTYPE_U8

static void build_nop(struct prog *prog)
{
	prog_good(prog, QBNPU_OP_NOP);
}

/* V04: known but not offered is the one other code */
START_TEST(feature_that_the_device_lacks_is_not_supported)
{
	struct qbnpu_caps caps = qbnpu_caps_isa;
	struct qbnpu_report report;
	struct prog prog;

	caps.isa_features &= ~QBNPU_FEATURE_GATHER;
	prog_good(&prog, QBNPU_OP_GATHER);
	ck_assert_int_eq(validate(&prog, &caps, &report, NULL), -EOPNOTSUPP);
	ck_assert_uint_eq(report.rule, 4);
	ck_assert_uint_eq(report.command, NONE);
	ck_assert_uint_eq(report.limit, QBNPU_FEATURE_GATHER);
	prog_at_header(&prog)->isa_features = 0;
	ck_assert_int_eq(validate(&prog, &caps, &report, NULL), -ENOEXEC);
	ck_assert_uint_eq(report.rule, 4);
	prog_end(&prog);
}
END_TEST

/* V03 */
START_TEST(minor_version_above_the_caps_is_refused)
{
	struct qbnpu_caps caps = qbnpu_caps_isa;
	struct qbnpu_report report;
	struct prog prog;

	caps.isa_minor = 7; /* more than this validator knows */
	prog_copy64(&prog);
	prog_at_header(&prog)->isa_minor = 1;
	ck_assert_int_eq(validate(&prog, &caps, &report, NULL), -ENOEXEC);
	ck_assert_uint_eq(report.rule, 3);
	prog_end(&prog);
}
END_TEST

/* V01 */
START_TEST(size_out_of_range_is_refused)
{
	static const size_t sizes[] = { 0,   1,   112, 127, 128,
					480, 495, 497, 512, (1u << 24) + 16 };
	struct qbnpu_report report;
	struct prog prog;
	size_t i;

	prog_copy64(&prog);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct qbnpu_work work = { NULL, 0, NULL, NULL };

		ck_assert_uint_eq(
			qbnpu_validate_work_size(prog.bytes, sizes[i]), 0);
		ck_assert_int_eq(qbnpu_validate(prog.bytes, sizes[i],
						&qbnpu_caps_isa, &work,
						&report),
				 -ENOEXEC);
		ck_assert_uint_eq(report.rule, 1);
	}
	prog_end(&prog);
}
END_TEST

/* V00: no work memory is asked for what the header alone refuses */
START_TEST(header_is_refused_without_work)
{
	size_t i;

	for (i = 0; i < num_bad_tables; i++) {
		const struct bad_case *bad = &bad_tables[i];
		struct qbnpu_work work = { NULL, 0, NULL, NULL };
		struct qbnpu_report report;
		struct prog prog;
		size_t size;

		build_bad(bad, &prog);
		size = qbnpu_validate_work_size(prog.bytes, prog.nbytes);
		if (bad->rule <= 6 && !size) {
			ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
							&qbnpu_caps_isa, &work,
							&report),
					 -ENOEXEC);
			ck_assert_uint_eq(report.rule, bad->rule);
		} else {
			/* V04's last part needs all commands */
			ck_assert(bad->rule == 4 || bad->rule > 6);
			ck_assert_uint_gt(size, 0);
		}
		prog_end(&prog);
	}
}
END_TEST

/* V00: the header of a program at all caps, of which no more is read */
START_TEST(work_size_is_bounded_and_reads_the_header_only)
{
	struct qbnpu_program *header = malloc(sizeof(*header));
	struct prog prog;
	size_t size;

	prog_copy64(&prog);
	*header = *prog_at_header(&prog);
	prog_end(&prog);
	header->binding_count = QBNPU_MAX_BINDINGS;
	header->tensor_count = QBNPU_MAX_TENSORS;
	header->command_count = QBNPU_MAX_COMMANDS;
	header->param_count = QBNPU_MAX_PARAMS;
	header->pool_count = QBNPU_MAX_POOL;
	header->tensors_offset = 128 + 64 * 32;
	header->lists_offset = header->tensors_offset + (16384 * 128);
	header->params_offset = header->lists_offset + 16;
	header->pool_offset = header->params_offset + 4 * 16;
	header->commands_offset = header->pool_offset + (4 << 20);
	header->commands_size = 65536 * 32;
	header->size = header->commands_offset + header->commands_size;
	size = qbnpu_validate_work_size(header, header->size);
	ck_assert_uint_gt(size, 4u << 20);
	ck_assert_uint_le(size, 8u << 20);
	free(header);
}
END_TEST

/* V00 */
START_TEST(work_that_is_too_small_or_not_aligned_is_refused)
{
	struct qbnpu_report report;
	struct qbnpu_work work = { NULL, 0, NULL, NULL };
	struct prog prog;
	uint8_t *memory;

	prog_copy64(&prog);
	work.size = qbnpu_validate_work_size(prog.bytes, prog.nbytes);
	memory = aligned_alloc(16, work.size + 16);
	work.memory = memory;
	work.size--;
	ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
					&qbnpu_caps_isa, &work, &report),
			 -EINVAL);
	ck_assert_uint_eq(report.rule, 0);
	work.size++;
	work.memory = memory + 8;
	ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
					&qbnpu_caps_isa, &work, &report),
			 -EINVAL);
	work.memory = memory;
	ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
					&qbnpu_caps_isa, &work, &report),
			 0);
	free(memory);
	prog_end(&prog);
}
END_TEST

static void count_yield(void *arg)
{
	(*(uint32_t *)arg)++;
}

/* V00: at least once every 256 commands, in each walk over them */
START_TEST(yield_is_called_every_256_commands)
{
	uint32_t num_yields[2] = { 0, 0 };
	uint32_t i, j;

	for (i = 0; i < 2; i++) {
		struct qbnpu_work work = { NULL, 0, count_yield,
					   &num_yields[i] };
		struct qbnpu_report report;
		struct prog prog;

		prog_copy64(&prog);
		for (j = 0; j < i * 25600; j++)
			prog_copy(&prog, 0, 1);
		prog_finish(&prog);
		work.size = qbnpu_validate_work_size(prog.bytes, prog.nbytes);
		work.memory = aligned_alloc(16, work.size);
		ck_assert_int_eq(qbnpu_validate(prog.bytes, prog.nbytes,
						&qbnpu_caps_isa, &work,
						&report),
				 0);
		free(work.memory);
		prog_end(&prog);
	}
	ck_assert_uint_ge(num_yields[1] - num_yields[0], 2 * 25600 / 256);
}
END_TEST

/* 5.7: a fuzz target divides the caps, so each of them counts */
START_TEST(each_cap_is_taken_from_the_caps)
{
	const struct {
		size_t offset;
		size_t size;
		uint64_t least; /* with which the program passes */
		uint32_t rule;
		void (*build)(struct prog *prog);
	} cases[] = {
#define CAP(name, least, rule, build) \
	{ offsetof(struct qbnpu_caps, name), sizeof(qbnpu_caps_isa.name), \
	  least, rule, build }
		CAP(max_program_size, 496, 1, prog_copy64),
		CAP(max_bindings, 2, 5, prog_copy64),
		CAP(max_tensors, 2, 5, prog_copy64),
		CAP(max_commands, 3, 5, build_aliases),
		CAP(max_pool, 3, 5, build_spare),
		CAP(max_binding_size, 64, 11, prog_copy64),
		CAP(max_extent, 64, 20, prog_copy64),
		CAP(max_span, 64, 22, prog_copy64),
		CAP(max_intervals, 1024, 43, build_most_intervals),
		CAP(max_command_macs, 864, 44, build_conv_int8),
		CAP(max_program_macs, 864, 44, build_conv_int8),
		CAP(max_byte_count, 128, 44, prog_copy64),
		CAP(max_delay_ns, 1000, 48, build_nop),
		CAP(max_delays_ns, 1000, 48, build_nop),
#undef CAP
	};
	struct qbnpu_caps caps = qbnpu_caps_isa;
	struct qbnpu_report report;
	struct prog prog;
	uint64_t less = cases[_i].least - 1;

	cases[_i].build(&prog);
	memcpy((uint8_t *)&caps + cases[_i].offset, &cases[_i].least,
	       cases[_i].size);
	ck_assert_int_eq(validate(&prog, &caps, &report, NULL), 0);
	memcpy((uint8_t *)&caps + cases[_i].offset, &less, cases[_i].size);
	ck_assert_int_eq(validate(&prog, &caps, &report, NULL), -ENOEXEC);
	ck_assert_uint_eq(report.rule, cases[_i].rule);
	prog_end(&prog);
}
END_TEST

/* IS50, V43: exactly at the cap */
START_TEST(largest_sums_and_most_intervals_pass)
{
	static void (*const builds[])(struct prog *) = {
		build_most_intervals, build_deepest, build_deepest_shifted
	};
	struct qbnpu_report report;
	struct prog prog;

	builds[_i](&prog);
	ck_assert_int_eq(validate(&prog, &qbnpu_caps_isa, &report, NULL), 0);
	prog_end(&prog);
}
END_TEST

/* Place of a refusal in the order of section 7.2; not asked for V04 */
static uint64_t get_place(uint32_t rule, uint32_t command)
{
	static const uint8_t last[] = { 44, 48, 47, 49 };
	uint32_t i;

	for (i = 0; i < sizeof(last); i++) {
		if (rule == last[i] && command == NONE)
			return (1ull << 40) + i;
	}
	if (rule <= 30)
		return rule;
	if (command == NONE)
		command = 0; /* V45 of the header */
	/* an unknown opcode has no size, so V32 may be the only row */
	return (command + 1ull) * 256 + (rule == 32 ? 31 : rule);
}

static _Bool is_same_place(const struct patch *a, const struct patch *b)
{
	return a->table == b->table && a->index == b->index &&
	       a->offset < b->offset + b->size &&
	       b->offset < a->offset + a->size;
}

/* Both cases' changes of one good program; 0 if they change the same bytes. */
static _Bool join(const struct bad_case *a, const struct bad_case *b,
		  struct bad_case *both)
{
	uint32_t num = 0;
	uint32_t i, j;

	*both = *a;
	while (num < 5 && a->patches[num].table)
		num++;
	for (i = 0; i < 5 && b->patches[i].table; i++) {
		for (j = 0; j < num; j++) {
			if (is_same_place(&both->patches[j], &b->patches[i]))
				return 0;
		}
		if (num == 5)
			return 0;
		both->patches[num++] = b->patches[i];
	}
	return num > 0;
}

static const struct bad_case *get_bad(size_t i)
{
	if (i < num_bad_tables)
		return &bad_tables[i];
	i -= num_bad_tables;
	if (i < num_bad_commands)
		return &bad_commands[i];
	i -= num_bad_commands;
	return i < num_bad_ops ? &bad_ops[i] : NULL;
}

/* 7.2: the first failing check decides */
START_TEST(two_faults_give_the_earlier_one)
{
	uint32_t num_pairs = 0;
	size_t i, j;

	for (i = 0; get_bad(i); i++) {
		for (j = i + 1; get_bad(j); j++) {
			const struct bad_case *a = get_bad(i);
			const struct bad_case *b = get_bad(j);
			struct qbnpu_report report;
			struct bad_case both;
			struct prog prog;
			uint64_t first, second, bound;

			if (a->build != b->build || a->opcode != b->opcode ||
			    a->rule == 4 || b->rule == 4 || !join(a, b, &both))
				continue;
			build_bad(&both, &prog);
			ck_assert_int_eq(
				validate(&prog, &qbnpu_caps_isa, &report, NULL),
				-ENOEXEC);
			prog_end(&prog);
			first = get_place(a->rule, a->command);
			second = get_place(b->rule, b->command);
			bound = first < second ? first : second;
			/* types and extents hang on the numbers of V37 */
			if (a->command == b->command &&
			    (a->rule == 37 || b->rule == 37) &&
			    bound >= get_place(35, a->command))
				bound = get_place(37, a->command);
			ck_assert_msg(get_place(report.rule, report.command) <=
					      bound,
				      "v%02u-%s and v%02u-%s: V%02u command %d",
				      a->rule, a->name, b->rule, b->name,
				      report.rule, (int)report.command);
			num_pairs++;
		}
	}
	ck_assert_uint_gt(num_pairs, 500);
}
END_TEST

void add_rule_tests(struct qbrt_tests *all)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(feature_that_the_device_lacks_is_not_supported),
		QBRT_TEST(minor_version_above_the_caps_is_refused),
		QBRT_TEST(size_out_of_range_is_refused),
		QBRT_TEST(header_is_refused_without_work),
		QBRT_TEST(work_size_is_bounded_and_reads_the_header_only),
		QBRT_TEST(work_that_is_too_small_or_not_aligned_is_refused),
		QBRT_TEST(yield_is_called_every_256_commands),
		QBRT_LOOP_TEST(each_cap_is_taken_from_the_caps, 14),
		QBRT_LOOP_TEST(largest_sums_and_most_intervals_pass, 3),
		QBRT_TEST(two_faults_give_the_earlier_one),
	};

	qbrt_tests_add(all, tests, sizeof(tests) / sizeof(tests[0]));
}
