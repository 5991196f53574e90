// SPDX-License-Identifier: MIT
int qbrt_planted(int a);

int qbrt_planted(int a)
{
	for (int i = 0; i < a; i++) {
		int a = i;

		if (a > 3)
			return a;
	}
	return 0;
}
