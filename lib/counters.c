// SPDX-License-Identifier: MIT
/*
 * The one instance of the counters: static storage, so zero at start, and
 * never reset.
 */
#include "counters.h"

struct qbrt_counters qbrt_counters;
