// SPDX-License-Identifier: MIT
/*
 * The validator (kmod-shim/isa/validate*.c): each good program passes, each
 * program that breaks one V row is refused with that row, command and operand.
 * The cases stand in check-validate-*.c; QBRUNTIME_WRITE_CORPUS=FOLDER writes
 * their programs there, the corpus of fuzz-validate, instead of testing.
 */
#include "check-validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint8_t *find_patched(struct prog *prog, const struct patch *patch)
{
	uint32_t offset = 0;
	uint32_t i;

	switch (patch->table) {
	case PATCH_HEADER:
		return prog->bytes;
	case PATCH_LIST:
		return (uint8_t *)prog_at_list(prog);
	case PATCH_PAD:
		return prog->bytes + prog_at_header(prog)->pool_offset +
		       (size_t)prog->num_pool * 4;
	case PATCH_BINDING:
		return (uint8_t *)&prog->bindings[patch->index];
	case PATCH_TENSOR:
		return (uint8_t *)&prog->tensors[patch->index];
	case PATCH_PARAM:
		return (uint8_t *)&prog->params[patch->index];
	case PATCH_POOL:
		return (uint8_t *)&prog->pool[patch->index];
	default:
		for (i = 0; i < patch->index; i++) {
			struct qbnpu_cmd head;

			memcpy(&head, prog->commands + offset, sizeof(head));
			offset += prog_command_size(head.opcode);
		}
		return prog->commands + offset;
	}
}

static _Bool apply(struct prog *prog, const struct bad_case *bad,
		   _Bool is_before)
{
	const struct patch *patch = bad->patches;
	_Bool is_patched = 0;

	for (; patch < bad->patches + 5 && patch->table; patch++) {
		if ((patch->table >= PATCH_BINDING) != is_before)
			continue;
		memcpy(find_patched(prog, patch) + patch->offset, &patch->value,
		       patch->size);
		is_patched = 1;
	}
	return is_patched;
}

void build_bad(const struct bad_case *bad, struct prog *prog)
{
	if (bad->build)
		bad->build(prog);
	else
		prog_good(prog, bad->opcode);
	if (apply(prog, bad, 1))
		prog_finish(prog);
	apply(prog, bad, 0);
}

int validate(const struct prog *prog, const struct qbnpu_caps *caps,
	     struct qbnpu_report *report, struct qbnpu_facts **facts)
{
	size_t size = qbnpu_validate_work_size(prog->bytes, prog->nbytes);
	struct qbnpu_work work = { NULL, size, NULL, NULL };
	int err;

	if (size)
		work.memory = aligned_alloc(16, size);
	memset(report, 0xa5, sizeof(*report));
	err = qbnpu_validate(prog->bytes, prog->nbytes, caps, &work, report);
	ck_assert_int_eq(!err, !!report->facts);
	if (!err && facts) {
		*facts = malloc(report->facts->size);
		memcpy(*facts, report->facts, report->facts->size);
	}
	report->facts = NULL;
	free(work.memory);
	return err;
}

static void check_good(struct prog *prog, const char *name)
{
	struct qbnpu_report report;
	struct qbnpu_facts *facts;
	int err = validate(prog, &qbnpu_caps_isa, &report, &facts);

	ck_assert_msg(!err, "%s: V%02u command %d operand %u limit %llu", name,
		      report.rule, (int)report.command, report.operand,
		      (unsigned long long)report.limit);
	ck_assert_uint_eq(report.rule, 0);
	ck_assert_uint_eq(facts->binding_count, prog->num_bindings);
	ck_assert_uint_eq(facts->mac_count, prog_at_header(prog)->mac_count);
	free(facts);
	prog_end(prog);
}

/* V63 */
START_TEST(each_opcode_has_a_good_program)
{
	struct prog prog;

	if (prog_opcodes[_i].opcode == QBNPU_OP_BARRIER) {
		ck_assert(!prog_good(&prog, QBNPU_OP_BARRIER));
		return;
	}
	ck_assert(prog_good(&prog, prog_opcodes[_i].opcode));
	check_good(&prog, prog_opcodes[_i].name);
}
END_TEST

/* V63 KV12 IS10 */
START_TEST(each_form_passes)
{
	struct prog prog;

	forms[_i].build(&prog);
	check_good(&prog, forms[_i].name);
}
END_TEST

static void check_bad(const struct bad_case *bad)
{
	struct qbnpu_report report;
	struct prog prog;
	int err;

	build_bad(bad, &prog);
	err = validate(&prog, &qbnpu_caps_isa, &report, NULL);
	ck_assert_msg(err == -ENOEXEC && report.rule == bad->rule &&
			      report.command == bad->command &&
			      report.operand == bad->operand,
		      "v%02u-%s: %d V%02u command %d operand %u limit %llu",
		      bad->rule, bad->name, err, report.rule,
		      (int)report.command, report.operand,
		      (unsigned long long)report.limit);
	prog_end(&prog);
}

/* V63: V01 to V30 */
START_TEST(each_bad_table_is_refused_by_its_row)
{
	check_bad(&bad_tables[_i]);
}
END_TEST

/* V63: V31 to V34, V40 to V49 */
START_TEST(each_bad_command_is_refused_by_its_row)
{
	check_bad(&bad_commands[_i]);
}
END_TEST

/* V63: V35 to V39, V42 */
START_TEST(each_bad_operation_is_refused_by_its_row)
{
	check_bad(&bad_ops[_i]);
}
END_TEST

static size_t read_golden(uint8_t *bytes, size_t nbytes)
{
	FILE *file = fopen(TEST_SRCDIR "/data/golden/copy64.prog", "rb");
	size_t got;

	ck_assert_ptr_nonnull(file);
	got = fread(bytes, 1, nbytes, file);
	ck_assert_int_eq(fclose(file), 0);
	return got;
}

/* Section 20 of the ISA's page */
START_TEST(golden_program_is_what_the_builder_makes)
{
	uint8_t bytes[512];
	struct prog prog;

	prog_copy64(&prog);
	ck_assert_uint_eq(read_golden(bytes, sizeof(bytes)), 496);
	ck_assert_uint_eq(prog.nbytes, 496);
	ck_assert_mem_eq(prog.bytes, bytes, 496);
	ck_assert_uint_eq(crc32(0, bytes, 496), 0x91292aa0);
	prog_end(&prog);
}
END_TEST

/* Large programs only slow the fuzzer down. */
#define MAX_CORPUS_SIZE 16384

static int write_program(const char *dir, const char *name,
			 const struct prog *prog)
{
	char path[512];
	FILE *file;
	int err;

	if (prog->nbytes > MAX_CORPUS_SIZE)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file) {
		perror(path);
		return 1;
	}
	err = fwrite(prog->bytes, 1, prog->nbytes, file) != prog->nbytes;
	return fclose(file) || err;
}

static int write_bad(const char *dir, const struct bad_case *bad, size_t num)
{
	int err = 0;
	size_t i;

	for (i = 0; i < num && !err; i++) {
		struct prog prog;
		char name[64];

		(void)snprintf(name, sizeof(name), "bad-v%02u-%s", bad[i].rule,
			       bad[i].name);
		build_bad(&bad[i], &prog);
		err = write_program(dir, name, &prog);
		prog_end(&prog);
	}
	return err;
}

static int write_corpus(const char *dir)
{
	struct prog prog;
	char name[64];
	int err = 0;
	size_t i;

	for (i = 0; i < prog_num_opcodes && !err; i++) {
		if (!prog_good(&prog, prog_opcodes[i].opcode))
			continue;
		(void)snprintf(name, sizeof(name), "good-%s",
			       prog_opcodes[i].name);
		err = write_program(dir, name, &prog);
		prog_end(&prog);
	}
	for (i = 0; i < num_forms && !err; i++) {
		(void)snprintf(name, sizeof(name), "good-form-%s",
			       forms[i].name);
		forms[i].build(&prog);
		err = write_program(dir, name, &prog);
		prog_end(&prog);
	}
	return err || write_bad(dir, bad_tables, num_bad_tables) ||
	       write_bad(dir, bad_commands, num_bad_commands) ||
	       write_bad(dir, bad_ops, num_bad_ops);
}

int main(void)
{
	const struct qbrt_test cases[] = {
		QBRT_TEST(golden_program_is_what_the_builder_makes),
		QBRT_LOOP_TEST(each_opcode_has_a_good_program,
			       (int)prog_num_opcodes),
		QBRT_LOOP_TEST(each_form_passes, (int)num_forms),
		QBRT_LOOP_TEST(each_bad_table_is_refused_by_its_row,
			       (int)num_bad_tables),
		QBRT_LOOP_TEST(each_bad_command_is_refused_by_its_row,
			       (int)num_bad_commands),
		QBRT_LOOP_TEST(each_bad_operation_is_refused_by_its_row,
			       (int)num_bad_ops),
	};
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread yet */
	const char *corpus = getenv("QBRUNTIME_WRITE_CORPUS");
	static struct qbrt_tests all;

	if (corpus)
		return write_corpus(corpus);
	qbrt_tests_add(&all, cases, sizeof(cases) / sizeof(cases[0]));
	add_rule_tests(&all);
	add_type_tests(&all);
	return qbrt_test_run("validate", all.tests, all.num);
}
