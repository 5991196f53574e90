/* SPDX-License-Identifier: MIT */
/*
 * Every environment variable of the library: read with secure_getenv, parsed,
 * range checked, in one table. Values are untrusted; nothing below lib/ reads
 * a variable. Read anew at each discovery and open (Q092).
 */
#ifndef QBRT_ENV_H
#define QBRT_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qbruntime/qbrt.h>

#include "kmd.h"

#define QBRT_ENV_MAX_VISIBLE 256

/* One item of QBRUNTIME_VISIBLE_DEVICES; name "": that number of every name. */
struct qbrt_env_visible {
	char name[QBRT_KMD_NAME_SIZE];
	int number;
};

struct qbrt_env {
	/* the variable that decides visibility, NULL: all are visible */
	const char *visible_variable;
	struct qbrt_env_visible visible[QBRT_ENV_MAX_VISIBLE];
	size_t num_visible;
	bool is_soft_default;      /* QBRUNTIME_SOFT_DEVICES is not set */
	bool is_soft_malformed;    /* no software device then, hardware stays */
	bool is_visible_malformed; /* nothing is visible then */
	/* QBRUNTIME_NPU_TIMEOUT_MS in ns; 0: the longest the device takes */
	int64_t npu_timeout_ns;
	enum qbrt_log_level log_level; /* 0: not set */
	size_t malformed_at;           /* in a plan; 0: elsewhere */
	struct qbrt_kmd_options kmd;
};

/*
 * Reads all variables. QBRT_OK, or QBRT_INVALID_ARGUMENT for the first
 * malformed one with a sentence that names variable, value and accepted form;
 * env is whole in both cases (discovery goes on with what Q090 and Q114 say,
 * opening fails).
 */
enum qbrt_status qbrt_env_read(struct qbrt_env *env);

/*
 * QBRUNTIME_LOG_LEVEL, MACCEL_LOG_LEVEL; once: at the first call in the process,
 * which stands before whatever may log.
 */
void qbrt_env_apply_log_level(void);
void qbrt_env_apply_log_level_once(void);

#endif
