/* SPDX-License-Identifier: MIT */
/*
 * Untrusted bytes from the validator to the end of a run, with memory for each
 * binding between canaries (and, under ASan, between bytes that may not be
 * touched). For the fuzz target and the mutation test; uses no test framework.
 */
#ifndef TESTS_GUARDED_RUN_H
#define TESTS_GUARDED_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "device/npu.h"

enum guarded_end {
	GUARDED_REFUSED,   /* by a rule: of the validator, or no kernel */
	GUARDED_RAN,       /* inside its bindings */
	GUARDED_NO_MEMORY, /* nothing is known */
	GUARDED_BROKEN,    /* an answer or a byte that must not be */
};

/*
 * The device's caps small enough for a run of a moment: divided by 1,024, and
 * further where that is not small.
 */
struct qbnpu_caps guarded_caps(struct qbnpu_npu *npu);

/*
 * Validates a copy of size bytes, loads and runs it once, inline. The sums of
 * the header are put right when only they are wrong, if mends_sums.
 */
enum guarded_end guarded_run(struct qbnpu_npu *npu, const uint8_t *bytes,
			     size_t size, int mends_sums,
			     struct qbnpu_report *report);

#endif
