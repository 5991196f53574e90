// SPDX-License-Identifier: MIT
#include <stdlib.h>

int qbrt_planted(int a);

int qbrt_planted(int a)
{
	int *memory = malloc(sizeof(*memory));

	if (!memory)
		return 0;
	*memory = a;
	return *memory;
}
