// SPDX-License-Identifier: MIT
/* Lines of validate. */
#include <string.h>

#include "print.h"

static void print_test(FILE *out, const struct record *test,
		       const struct style *style)
{
	const char *state = record_get_text(test, FIELD_TEST_STATE);
	const char *reason = record_get_text(test, FIELD_TEST_REASON);
	const char *word = "ok    ";

	if (!strcmp(state, "fail"))
		word = print_paint(style, "31", "FAIL  ");
	else if (!strcmp(state, "skip"))
		word = "skip  ";
	(void)fprintf(out, "%s%-12s%s%s%s\n", word,
		      record_get_text(test, FIELD_TEST_NAME), reason ?: "",
		      reason ? ": " : "",
		      print_safe(record_get_text(test, FIELD_TEST_TEXT)));
}

void print_tests(FILE *out, const struct part *part, const struct style *style)
{
	size_t passed = 0, failed = 0, skipped = 0, index = 0;

	for (const struct record *test = part->records->first; test;
	     test = test->next) {
		const char *state = record_get_text(test, FIELD_TEST_STATE);

		passed += !strcmp(state, "ok");
		failed += !strcmp(state, "fail");
		skipped += !strcmp(state, "skip");
		if (index++ >= part->num_printed)
			print_test(out, test, style);
	}
	if (!style->has_no_headings)
		(void)fprintf(out, "%zu passed, %zu failed, %zu skipped\n",
			      passed, failed, skipped);
}
