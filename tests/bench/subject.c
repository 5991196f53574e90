// SPDX-License-Identifier: MIT
/*
 * Devices of one core each, so that there is one thread to place beside the
 * caller. QBRUNTIME_SOFT_DEVICES is set here, whatever it was.
 */
#include "subject.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * models.c states what cannot be through Check, which answers only inside a
 * running test. Here, in its place: a broken assertion ends the program.
 */
void _mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expr,
		       const char *msg, ...)
{
	fprintf(stderr, "%s:%d: %s%s%s\n", file, line, expr, msg ? ": " : "",
		msg ? msg : "");
	abort();
}

void subject_setup(void)
{
	(void)setenv("QBRUNTIME_SOFT_DEVICES", SUBJECT_WARM "," SUBJECT_COLD,
		     1);
	(void)setenv("QBRUNTIME_SOFT_BACKEND", "ref", 1);
	bench_setup = (struct bench_setup){
		.name = SUBJECT_WARM,
		.id = SUBJECT_WARM ":0",
		.cold = SUBJECT_COLD,
	};
}
