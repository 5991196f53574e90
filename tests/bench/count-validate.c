// SPDX-License-Identifier: MIT
/*
 * P122: the validator over a program of so many commands, for callgrind:
 * count-validate COMMANDS. Each command reads what the one before it wrote.
 */
#include "count.h"

#include <stdio.h>
#include <stdlib.h>

#include "isa/validate.h"
#include "prog.h"
#include "subject.h"

int main(int argc, char **argv)
{
	unsigned long num = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	struct qbnpu_work work = { 0 };
	struct qbnpu_report report;
	struct prog prog;
	uint16_t scratch[2];
	int err;

	if (num < 4 || num > 65536) {
		fprintf(stderr, "usage: count-validate COMMANDS\n");
		return 2;
	}
	prog_begin(&prog);
	prog_input(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch[0] = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	scratch[1] = prog_scratch(&prog, QBNPU_DTYPE_U8, DIMS(64));
	prog_copy(&prog, 0, scratch[0]);
	for (unsigned long i = 0; i < num - 2; i++)
		prog_copy(&prog, scratch[i % 2], scratch[(i + 1) % 2]);
	prog_copy(&prog, scratch[num % 2],
		  prog_output(&prog, QBNPU_DTYPE_U8, DIMS(64)));
	prog_finish(&prog);
	work.size = qbnpu_validate_work_size(prog.bytes, prog.nbytes);
	work.memory = aligned_alloc(64, (work.size + 63) & ~(size_t)63);
	count_begin();
	err = work.memory ? qbnpu_validate(prog.bytes, prog.nbytes,
					   &qbnpu_caps_isa, &work, &report)
			  : -1;
	if (err)
		fprintf(stderr, "refused: %d, rule %u\n", err, report.rule);
	free(work.memory);
	prog_end(&prog);
	return err ? 1 : 0;
}
