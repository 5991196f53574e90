// SPDX-License-Identifier: MIT
/*
 * The layouts of isa.h and qbnpu_drm.h, field by field as the specs print
 * them: no field is missing in the tables, none has padding before it.
 * layout-assert.c asserts the same numbers at compile time, for 32 bits too.
 */
#include <stddef.h>
#include <string.h>

#include "isa/isa.h"
#include "test-util.h"
#include "uapi/qbnpu_drm.h"

/* A field; or, without a name, the size of a struct and where its fields are */
struct entry {
	const char *type;
	const char *field;
	size_t offset;
	size_t size;
	size_t expected;
};

#define LAYOUT_SIZE(type, size) { #type, NULL, 0, sizeof(struct type), size },
#define LAYOUT(type, field, offset) \
	{ #type, #field, offsetof(struct type, field), \
	  sizeof(((struct type *)0)->field), offset },
#define LAYOUT_WORD(request, word)

static const struct entry entries[] = {
#include "layout-isa.h"
#include "layout-uapi.h"
	{ "", NULL, 0, 0, 0 },
};

#undef LAYOUT_SIZE
#undef LAYOUT
#undef LAYOUT_WORD
#define LAYOUT_SIZE(type, size)
#define LAYOUT(type, field, offset)
#define LAYOUT_WORD(request, word) \
	{ #request, NULL, DRM_IOCTL_QBNPU_##request, 0, word },

static const struct entry words[] = {
#include "layout-uapi.h"
};

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

/* Sections 4 and 5 of the ISA's page, and every struct of the uAPI */
START_TEST(each_struct_has_the_printed_size)
{
	size_t i;

	for (i = 0; i < NUM(entries); i++) {
		if (!entries[i].field)
			ck_assert_msg(entries[i].size == entries[i].expected,
				      "%s: %zu", entries[i].type,
				      entries[i].size);
	}
}
END_TEST

START_TEST(each_field_is_where_it_is_printed)
{
	size_t i;

	for (i = 0; i < NUM(entries); i++) {
		if (entries[i].field)
			ck_assert_msg(entries[i].offset == entries[i].expected,
				      "%s.%s: %zu", entries[i].type,
				      entries[i].field, entries[i].offset);
	}
}
END_TEST

/* SK1: fields follow each other, commands behind their head, to the end. */
START_TEST(no_struct_has_padding)
{
	size_t end = 0;
	size_t size = 0;
	size_t i;

	for (i = 0; i < NUM(entries); i++) {
		if (!entries[i].field) {
			ck_assert_msg(end == size, "before %s: ends at %zu",
				      entries[i].type, end);
			ck_assert_uint_eq(entries[i].size % 8, 0);
			size = entries[i].size;
			end = strncmp(entries[i].type, "qbnpu_cmd_", 10)
				      ? 0
				      : sizeof(struct qbnpu_cmd);
			continue;
		}
		ck_assert_msg(entries[i].offset == end, "%s.%s: gap at %zu",
			      entries[i].type, entries[i].field, end);
		end += entries[i].size;
	}
}
END_TEST

/* Section 1 of kernel.md: direction, size, type and number of each request */
START_TEST(each_request_has_its_word)
{
	size_t i;

	ck_assert_uint_eq(NUM(words), 12);
	for (i = 0; i < NUM(words); i++)
		ck_assert_msg(words[i].offset == words[i].expected, "%s: %zx",
			      words[i].type, words[i].offset);
}
END_TEST

int main(void)
{
	const struct qbrt_test tests[] = {
		QBRT_TEST(each_struct_has_the_printed_size),
		QBRT_TEST(each_field_is_where_it_is_printed),
		QBRT_TEST(no_struct_has_padding),
		QBRT_TEST(each_request_has_its_word),
	};

	return qbrt_test_run("isa-layout", tests, NUM(tests));
}
