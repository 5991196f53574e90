// SPDX-License-Identifier: MIT
/*
 * The drivers of this build, in the order in which their devices are listed.
 * The only place in lib/ that names one.
 */
#include "kmd.h"

const struct qbrt_kmd *const qbrt_kmd_drivers[] = { &qbrt_kmd_drm,
						    &qbrt_kmd_soft, NULL };
