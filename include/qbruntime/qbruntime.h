/* SPDX-License-Identifier: MIT */
/* What programs include: the C API. */
#ifndef QBRUNTIME_H
#define QBRUNTIME_H

#include <qbruntime/qbrt.h>

#endif
