// SPDX-License-Identifier: MIT
/*
 * Rules of the reader for header, section table, STRS, META, DBGI, and how a
 * refused program is named. Programs' own rules belong to check-validate.
 */
#include "model-file.h"

#include <string.h>

#include "edit-model.h"
#include "test-util.h"
#include "util.h"

/* LD02 LD03 */
START_TEST(what_is_newer_is_told_apart)
{
	static const struct edit edits[] = {
		{ HEAD(magic), 0, 3, "not a qbruntime container" },
		{ HEAD(format_major), 2, 1300, "header byte 8: format 2.0" },
		{ HEAD(format_major), 0, 1300, "format 0.0" },
		{ HEAD(min_reader_minor), 1, 1300,
		  "header byte 28: needs a reader of format 1.1" },
		{ HEAD(isa_major), 2, 1300, "instruction set 2.0" },
		{ HEAD(isa_minor), 1, 1300, "instruction set 1.1" },
		{ HEAD(isa_features), 4, 1300, "unknown isa_features 0x4" },
		{ HEAD(isa_features), 0x100, 1300, "isa_features 0x100" },
		/* the optional section becomes a required one */
		{ ENTRY(6, flags), 1, 1300, "section \"XTRA\" at byte" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* LD04 */
START_TEST(header_fields_are_checked)
{
	static const struct edit edits[] = {
		{ HEAD(header_size), 255, 20,
		  "header at byte 0: header_size is 255, must be 256" },
		{ HEAD(section_count), 4, 20,
		  "section_count is 4, must be 5 to 256" },
		{ HEAD(section_count), 257, 20, "section_count is 257" },
		{ HEAD(section_entry_size), 79, 20,
		  "section_entry_size is 79, must be 80" },
		{ HEAD(target), 6, 20, "target is 6, must be 0 to 5" },
		{ HEAD(file_size), 1, 20, "file_size is 1, must be" },
		{ HEAD(section_table_offset), 257, 20,
		  "section_table_offset is 257, must be 256" },
		{ HEAD(flags), 1, 20, "flags is 1, must be 0" },
		{ BYTE("HEAD", 64), 0x07, 20, "producer is not printable" },
		{ BYTE("HEAD", 64 + 31), 'x', 20, "producer is not printable" },
		{ BYTE("HEAD", 128), 1, 20, "reserved is not 0" },
		{ BYTE("HEAD", 251), 1, 20, "reserved is not 0" },
		{ HEAD(isa_features), 1, 20,
		  "isa_features is 0x1, the programs use 0x0" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* LD04 FM02 FM05 */
START_TEST(section_table_is_checked)
{
	static const struct edit edits[] = {
		{ ENTRY(0, flags), 0, 20, "flags of STRS are 0x0, must be" },
		{ ENTRY(0, flags), 3, 20, "flags of STRS are 0x3, must be" },
		{ ENTRY(5, flags), 1, 20, "flags of DBGI are 0x1, must be 0" },
		{ ENTRY(0, instance), 1, 20,
		  "section table entry 0 at byte 256: instance of STRS is 1" },
		{ ENTRY(4, instance), 1, 20, "instance of PROG is 1, must be" },
		{ ENTRY(5, instance), 1, 20,
		  "instance is 1, the file has 1 programs" },
		{ ENTRY(0, align_log2), 2, 20,
		  "align_log2 is 2, must be 3 to 21" },
		{ ENTRY(6, align_log2), 22, 20, "align_log2 is 22" },
		{ ENTRY(4, align_log2), 11, 20,
		  "align_log2 of PROG is 11, must be 12 or more" },
		{ BYTE("TABL", 80 + 13), 1, 20, "reserved0 is not 0" },
		{ ENTRY(1, reserved1), 1, 20, "reserved1 is not 0" },
		{ ENTRY(1, reserved2), 1, 20, "reserved2 is not 0" },
		{ ENTRY(1, offset), 0, 20, "offset is 0, must be" },
		{ ENTRY(6, offset), 1ull << 40, 20, "offset is 1099511627776" },
		{ ENTRY(6, size), 0, 20, "size is 0, must be 1 to" },
		{ ENTRY(6, size), 41, 20, "reach beyond the file's" },
		{ ENTRY(6, size), (32ull << 30) + 1, 20,
		  "size is 34359738369, must be" },
		{ ENTRY(6, size), 39, 20, "the last section ends at byte" },
		{ ENTRY(1, size), 1ull << 20, 20, "size of META is 1048576" },
		{ ENTRY(0, kind), 0x4154454d, 20,
		  "0 sections STRS, must be 1" },
		{ ENTRY(0, kind), 0x474f5250, 20, "align_log2 of PROG is 3" },
		{ ENTRY(3, kind), 0x49524156, 20, "sections VARI, must be" },
		{ ENTRY(1, kind), 0x53525453, 20, "sections STRS, must be 1" },
		{ ENTRY(5, kind), 0x474f5250, 20, "flags of PROG are 0x0" },
		{ ENTRY(6, kind), 0x49474244, 20, "the file has 1 programs" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* FM02 */
START_TEST(known_sections_come_before_unknown_ones)
{
	struct qbm_section *entry;
	struct build build;

	build_plain(&build);
	entry = build_entry(&build, "IOTB", 0);
	entry->kind = BUILD_KIND("DATA");
	entry->flags = 0;
	check_refused(&build, "PROG is out of order");
	build_end(&build);

	build_plain(&build);
	build_entry(&build, "META", 0)->kind = BUILD_KIND("VARI");
	check_refused(&build, "0 sections META, must be 1 to 1");
	build_end(&build);
}
END_TEST

/* LD04 FM02 */
START_TEST(gaps_are_zero)
{
	struct build build;
	struct edit edit = { "PROG", 0, (size_t)-1, 1, 1, 20, "gap at byte" };

	build_plain(&build);
	check_edit(&build, &edit);
	edit.text = "0x01 between two sections, must be 0";
	edit.offset = (size_t)-100;
	check_edit(&build, &edit);
	build_end(&build);
}
END_TEST

/* FM10 FM04 */
START_TEST(strings_are_checked)
{
	static const struct edit edits[] = {
		{ BYTE("STRS", 0), 'a', 20, "does not begin and end with NUL" },
		{ BYTE("STRS", 1), 0x1b, 20,
		  "0x1b is a control character or not UTF-8" },
		{ BYTE("STRS", 1), 0x7f, 20, "0x7f is a control character" },
		{ BYTE("STRS", 1), 0xff, 20, "0xff is a control character" },
		{ BYTE("STRS", 1), 0xc3, 20, "0xc3 is a control character" },
		{ META_ENTRY(0, key), 2, 20,
		  "META entry 0 at byte 904: key is 2, which is not the start "
		  "of a string in STRS" },
		{ META_ENTRY(0, value), 1 << 20, 20, "value is 1048576" },
		/* the strings with line feeds, where none may be */
		{ META_ENTRY(0, key), 13, 20, "key is a string with a line" },
		{ VARIANT(0, name), 13, 20, "name is a string with a line" },
		{ VARIANT(0, name), 2, 20, "variant 0 at byte" },
		{ BUNDLE(1, 0, name), 13, 20, "name is a string with a line" },
		{ BUNDLE(1, 0, name), 2, 20, "bundle 0 at byte" },
		{ IO(0, name), 2, 20, "IOTB entry 0 at byte" },
		{ IO(1, name), 13, 20, "name is a string with a line feed" },
		{ DEBUG(1, nodes), 2, 20, "DBGI entry 1 at byte" },
		{ DEBUG(0, op_types), 2, 20, "op_types is 2" },
		/* names of tensors, behind header and two bindings */
		{ "PROG", 0, 128 + 64 + 108, 4, 2, 20, "tensor name is 2" },
		{ "PROG", 0, 128 + 64 + 108, 4, 13, 20, "tensor name is a" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* FM10 */
START_TEST(strings_have_at_most_4096_bytes)
{
	struct qbrt_model_file *file = NULL;
	struct build build;
	char text[4098];

	memset(text, 'a', sizeof(text));
	text[4096] = '\0';
	build_plain(&build);
	build.meta[0].value = build_string(&build, text);
	build_finish(&build);
	ck_assert_ok(qbrt_model_file_parse(build.bytes, build.nbytes, "m.qbm",
					   &file));
	ck_assert_str_eq(qbrt_model_file_string(file, build.meta[0].value),
			 text);
	qbrt_model_file_free(file);
	build_end(&build);

	text[4096] = 'a';
	text[4097] = '\0';
	build_plain(&build);
	build.meta[0].value = build_string(&build, text);
	build_finish(&build);
	check_refused(&build, "a string longer than 4096 bytes");
	build_end(&build);
}
END_TEST

/* FM11 FM12 */
START_TEST(meta_is_checked)
{
	static const struct edit edits[] = {
		{ META(count), 3, 20,
		  "META at byte 896: 24 bytes, must be 32 for 3 entries" },
		{ META(count), 1, 20, "24 bytes, must be 16 for 1 entries" },
		{ META(count), 4097, 20, "count is 4097, must be 0 to 4096" },
		{ META(reserved), 1, 20, "reserved is not 0" },
		/* equal keys, then keys in falling order */
		{ META_ENTRY(1, key), 6, 20,
		  "META entry 1 at byte 912: its key does not come after" },
		{ META_ENTRY(1, key), 0, 20, "does not come after" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* LD06 */
START_TEST(debug_names_are_checked)
{
	static const struct edit edits[] = {
		{ DBGI(count), 3, 20, "48 bytes, must be 64 for 3 entries" },
		{ DBGI(entry_size), 15, 20, "entry_size is 15, must be 16" },
		{ DBGI(reserved), 1, 20, "reserved is not 0" },
		{ DEBUG(1, reserved), 1, 20, "reserved is not 0" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

/* LD06 */
START_TEST(a_refused_program_is_named_with_rule_command_and_nodes)
{
	static const struct edit edits[] = {
		{ "PROG", 0, 0, 4, 0, 1301,
		  "program 0: rule V02 refuses its header or tables" },
		/* the opcode of the one command */
		{ "PROG", 0, 128 + 64 + 256 + 16, 2, 0xee, 1301,
		  "program 0: rule V32 refuses command 0 (Conv_0 Relu_1)" },
		{ "PROG", 0, 4, 2, 2, 1301, "rule V03" },
	};

	check_edits(build_plain, edits, qbrt_array_size(edits));
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(what_is_newer_is_told_apart),
		QBRT_TEST(header_fields_are_checked),
		QBRT_TEST(section_table_is_checked),
		QBRT_TEST(known_sections_come_before_unknown_ones),
		QBRT_TEST(gaps_are_zero),
		QBRT_TEST(strings_are_checked),
		QBRT_TEST(strings_have_at_most_4096_bytes),
		QBRT_TEST(meta_is_checked),
		QBRT_TEST(debug_names_are_checked),
		QBRT_TEST(
			a_refused_program_is_named_with_rule_command_and_nodes),
	};

	return qbrt_test_run("model-file-head", tests, qbrt_array_size(tests));
}
