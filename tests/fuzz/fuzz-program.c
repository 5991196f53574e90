// SPDX-License-Identifier: MIT
/*
 * V61: arbitrary bytes through the validator, and what it passes through the
 * reference kernels, on a device that poisons and on one that does not, inside
 * memory with canaries. Corpus: that of fuzz-validate.
 */
#include <stdlib.h>
#include <string.h>

#include "guarded-run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_SIZE (1u << 14)

static struct qbnpu_npu *open_device(bool poison)
{
	const struct qbnpu_config config = {
		.name = "regulus-ra",
		.backend = QBNPU_BACKEND_REF,
		.poison = poison,
	};
	struct qbnpu_npu *npu;

	if (qbnpu_npu_open(&config, &npu))
		abort();
	return npu;
}

/* What only bookkeeping would refuse is put right: sizes and features. */
static void mend(uint8_t *bytes, size_t size)
{
	struct qbnpu_program *program = (void *)bytes;

	if (size < sizeof(*program))
		return;
	program->magic = QBNPU_PROGRAM_MAGIC;
	program->isa_major = QBNPU_ISA_MAJOR;
	program->isa_minor = QBNPU_ISA_MINOR;
	program->isa_features &= QBNPU_FEATURE_DIAG;
	program->size = size;
	program->list_count = 1;
	program->core_mode = QBNPU_MODE_SINGLE;
	program->barrier_count = 0;
	program->flags &= QBNPU_PROGRAM_TIMESTAMPS;
	memset(program->reserved, 0, sizeof(program->reserved));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qbnpu_npu *plain, *poison;
	struct qbnpu_report report;
	uint8_t *bytes;

	if (!size || size > MAX_SIZE)
		return 0;
	if (!plain) {
		plain = open_device(false);
		poison = open_device(true);
	}
	if (guarded_run(plain, data, size, 0, &report) == GUARDED_BROKEN)
		abort();
	bytes = aligned_alloc(16, (size + 15) & ~(size_t)15);
	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	mend(bytes, size & ~(size_t)15);
	if (guarded_run(poison, bytes, size & ~(size_t)15, 1, &report) ==
	    GUARDED_BROKEN)
		abort();
	free(bytes);
	return 0;
}
