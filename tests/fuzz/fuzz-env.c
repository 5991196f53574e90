// SPDX-License-Identifier: MIT
/*
 * Environment variables: the first byte of a line chooses the variable, the
 * rest is its value. However malformed, what is read stays inside its arrays,
 * names are names that exist, and a refusal has a sentence.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const variables[] = {
	"QBRUNTIME_VISIBLE_DEVICES",
	"MACCEL_VISIBLE_DEVICES",
	"MBLT_DEVICES",
	"QBRUNTIME_NPU_TIMEOUT_MS",
	"QBRUNTIME_LOG_LEVEL",
	"MACCEL_LOG_LEVEL",
	"QBRUNTIME_SOFT_DEVICES",
	"QBRUNTIME_SOFT_MEMORY",
	"QBRUNTIME_SOFT_BACKEND",
	"QBRUNTIME_SOFT_POISON",
	"QBRUNTIME_SOFT_FAULT",
};
#define NUM_VARIABLES (sizeof(variables) / sizeof(variables[0]))

static void require(int is_true)
{
	if (!is_true)
		abort();
}

static int is_name(const char *name)
{
	return !strcmp(name, "aries-rb") || !strcmp(name, "regulus-ra") ||
	       !strcmp(name, "regulus-rb") || !strcmp(name, "regulus-ra-usb") ||
	       !strcmp(name, "regulus-rb-usb");
}

static void set_variables(char *text)
{
	char *rest = NULL;
	char *line;
	size_t i;

	for (i = 0; i < NUM_VARIABLES; i++)
		require(!unsetenv(variables[i]));
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		require(!setenv(variables[(uint8_t)line[0] % NUM_VARIABLES],
				line + 1, 1));
}

static void check_env(const struct qbrt_env *env)
{
	size_t i, at;

	require(env->num_visible <= QBRT_ENV_MAX_VISIBLE);
	require(!env->is_visible_malformed || !env->num_visible);
	require(!env->num_visible || env->visible_variable);
	for (i = 0; i < env->num_visible; i++)
		require(env->visible[i].number >= 0 &&
			(!*env->visible[i].name ||
			 is_name(env->visible[i].name)));
	require(env->kmd.num_soft_names <= QBRT_KMD_MAX_SOFT_NODES);
	require(!env->is_soft_malformed || !env->kmd.num_soft_names);
	for (i = 0; i < env->kmd.num_soft_names; i++)
		require(is_name(env->kmd.soft_names[i]));
	require(memchr(env->kmd.soft_fault_plan, 0, QBRT_KMD_PLAN_SIZE) &&
		(!*env->kmd.soft_fault_plan ||
		 qbrt_kmd_soft_is_fault_plan(env->kmd.soft_fault_plan, &at)));
	require(env->npu_timeout_ns >= 0 &&
		env->npu_timeout_ns <= INT32_MAX * INT64_C(1000000));
	require((int)env->log_level >= 0 &&
		(int)env->log_level <= QBRT_LOG_LEVEL_OFF);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qbrt_env env;
	char *text = malloc(size + 1);
	enum qbrt_status status;

	require(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	set_variables(text);
	free(text);
	status = qbrt_env_read(&env);
	require(status == QBRT_OK ||
		(status == QBRT_INVALID_ARGUMENT && *qbrt_error_detail()));
	require(status != QBRT_OK ||
		(!env.is_visible_malformed && !env.is_soft_malformed));
	check_env(&env);
	qbrt_env_apply_log_level();
	return 0;
}
