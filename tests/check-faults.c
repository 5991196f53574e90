// SPDX-License-Identifier: MIT
#include "test-util.h"
int main(void)
{
	return 0;
}
