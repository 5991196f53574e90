// SPDX-License-Identifier: MIT
/*
 * What check-kmd runs over: every driver of this build that has a node. One
 * without is a skipped line, so that it is seen.
 */
#include "check-kmd.h"

#include <stdio.h>

/* K500 */
START_TEST(the_driver_has_a_node)
{
	const struct qbrt_kmd *driver = qbrt_kmd_drivers[_i];
	char reason[64];

	(void)snprintf(reason, sizeof(reason), "no node of driver %s",
		       driver->name);
	if (!kmd_has_node(driver))
		QBRT_TEST_SKIP(reason);
}
END_TEST

const char *kmd_choose_drivers(struct qbrt_tests *all)
{
	const struct qbrt_test test = QBRT_TEST(the_driver_has_a_node);
	int num = 0;

	kmd_num_drivers = 0;
	for (; qbrt_kmd_drivers[num]; num++) {
		if (kmd_has_node(qbrt_kmd_drivers[num]))
			kmd_drivers[kmd_num_drivers++] = qbrt_kmd_drivers[num];
	}
	kmd_add_tests(all, &test, 1);
	all->tests[0].num_rounds = num;
	return "kmd";
}
