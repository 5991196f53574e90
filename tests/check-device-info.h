/* SPDX-License-Identifier: MIT */
/* The parts of check-device-info. */
#ifndef TESTS_CHECK_DEVICE_INFO_H
#define TESTS_CHECK_DEVICE_INFO_H

#include "test-util.h"

void add_device_info_caps_tests(struct qbrt_tests *all);

#endif
