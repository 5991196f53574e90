// SPDX-License-Identifier: MIT
/*
 * The dispatch set of qbinfo bench, on the devices of this folder: P20 P21 P22
 * P23 P24 P31 P36.
 */
#include "subject.h"

int main(int argc, char **argv)
{
	subject_setup();
	return bench_main(argc, argv, bench_dispatch, bench_num_dispatch);
}
