// SPDX-License-Identifier: MIT
/* The memory set of qbinfo bench, on these devices: P60 P61 P62 P67. */
#include "subject.h"

int main(int argc, char **argv)
{
	subject_setup();
	return bench_main(argc, argv, bench_memory, bench_num_memory);
}
