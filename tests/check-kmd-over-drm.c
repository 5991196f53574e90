// SPDX-License-Identifier: MIT
/*
 * What check-kmd-over-drm runs over: lib/kmd-drm.c, above a kernel that
 * answers as soft does. Same request, same code, same bytes (ST3).
 */
#include "check-kmd.h"
#include "fake-drm.h"

/* K500 K501: the fake node, by its path, and nothing of soft's */
START_TEST(the_driver_under_test_is_drm)
{
	kmd_begin(_i);
	ck_assert_str_eq(kmd->name, "drm");
	ck_assert_str_eq(kmd_node.path, "/dev/accel/accel0");
	ck_assert_uint_ge(fake_drm.num_requests, 3);
	kmd_end();
}
END_TEST

const char *kmd_choose_drivers(struct qbrt_tests *all)
{
	const struct qbrt_test test = QBRT_TEST(the_driver_under_test_is_drm);

	fake_drm_begin();
	kmd_drivers[0] = &qbrt_kmd_drm;
	kmd_add_tests(all, &test, 1);
	return "kmd-over-drm";
}
