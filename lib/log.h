/* SPDX-License-Identifier: MIT */
/*
 * Log lines: one level, one callback, for the whole process. Free of the
 * environment, so that drivers may use it; env.c's value of
 * QBRUNTIME_LOG_LEVEL arrives through qbrt_log_set_default.
 */
#ifndef QBRT_LOG_H
#define QBRT_LOG_H

#include <stdbool.h>

#include <qbruntime/qbrt.h>

/* component: the unit's name ("model", "pinned-memory"). No newline. */
void qbrt_log(enum qbrt_log_level level, const char *component,
	      const char *format, ...) __attribute__((format(printf, 3, 4)));

bool qbrt_log_is_on(enum qbrt_log_level level);

/* The level from the environment; a call to qbrt_set_log_level wins. */
void qbrt_log_set_default(enum qbrt_log_level level);

#endif
