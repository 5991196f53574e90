/* SPDX-License-Identifier: MIT */
/* The C API by the name that the vendor's programs include. */
#ifndef QBRUNTIME_H
#define QBRUNTIME_H

#include <qbruntime/qbrt.h>

#endif
