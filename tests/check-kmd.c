// SPDX-License-Identifier: MIT
/*
 * K500: the contract of docs/spec/kernel.md, over the drivers that the program
 * chooses. The tests are in check-kmd-<request group>.c.
 */
#include "check-kmd.h"

#include "util.h"

void kmd_add_tests(struct qbrt_tests *all, const struct qbrt_test *tests,
		   size_t num)
{
	qbrt_tests_add(all, tests, num);
	for (size_t i = all->num - num; i < all->num; i++)
		all->tests[i].num_rounds = kmd_num_drivers;
}

int main(void)
{
	static struct qbrt_tests all;
	const char *unit = kmd_choose_drivers(&all);

	kmd_request_tests(&all);
	kmd_user_tests(&all);
	kmd_file_tests(&all);
	kmd_query_tests(&all);
	kmd_buffer_tests(&all);
	kmd_program_tests(&all);
	kmd_weights_tests(&all);
	kmd_queue_tests(&all);
	kmd_sleeper_tests(&all);
	kmd_order_tests(&all);
	kmd_submit_tests(&all);
	kmd_copy_tests(&all);
	kmd_wait_tests(&all);
	kmd_share_tests(&all);
	kmd_share_process_tests(&all);
	kmd_syncobj_tests(&all);
	kmd_syncobj_wait_tests(&all);
	kmd_syncobj_eventfd_tests(&all);
	return qbrt_test_run(unit, all.tests, all.num);
}
