// SPDX-License-Identifier: MIT
/*
 * One table of variables with a parser and the accepted form of each. A parser
 * writes env only when the whole value is good; the exceptions, devices that
 * vanish when their variable is malformed, are set here and nowhere else.
 * Every value is of unbounded length and in the hands of whoever started the
 * process; in set-user-ID programs secure_getenv answers none of them.
 */
#include "env.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"
#include "status.h"
#include "util.h"

#define MAX_SOFT_COUNT 16
#define DEFAULT_TIMEOUT_MS 10000

/* Names of targets (Q080), then profiles (Q111) with the name they stand for */
static const char *const concrete_names[] = {
	"aries-rb",       "regulus-ra",     "regulus-rb",
	"regulus-ra-usb", "regulus-rb-usb",
};

static const struct {
	const char *profile;
	const char *name;
} profiles[] = {
	{ "aries", "aries-rb" },
	{ "regulus", "regulus-ra" },
};

/* A piece of a value: no copy, so no limit on its length. */
struct piece {
	const char *text;
	size_t length;
};

struct variable {
	const char *name;
	bool (*parse)(struct qbrt_env *env, const char *name,
		      const char *value);
	const char *form;
};

static bool equals(const struct piece *piece, const char *word)
{
	return strlen(word) == piece->length &&
	       !strncasecmp(piece->text, word, piece->length);
}

static const char *find_concrete_name(const struct piece *piece)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(concrete_names); i++)
		if (equals(piece, concrete_names[i]))
			return concrete_names[i];
	return NULL;
}

/* Decimal digits only; false above max too. */
static bool parse_number(const struct piece *piece, uint64_t max,
			 uint64_t *number)
{
	uint64_t value = 0;
	size_t i;

	for (i = 0; i < piece->length; i++) {
		unsigned int digit = (unsigned char)piece->text[i] - '0';

		if (digit > 9 || qbrt_mul_overflows(value, 10, &value) ||
		    qbrt_add_overflows(value, digit, &value))
			return false;
	}
	if (!piece->length || value > max)
		return false;
	*number = value;
	return true;
}

static bool parse_text_number(const char *value, uint64_t max, uint64_t *number)
{
	const struct piece piece = { value, strlen(value) };

	return parse_number(&piece, max, number);
}

static void trim(struct piece *piece)
{
	while (piece->length && strchr(" \t", piece->text[0])) {
		piece->text++;
		piece->length--;
	}
	while (piece->length && strchr(" \t", piece->text[piece->length - 1]))
		piece->length--;
}

/* Takes the next item off a comma-separated list; false: there is none. */
static bool next_item(const char **rest, struct piece *item)
{
	if (!*rest)
		return false;
	item->text = *rest;
	item->length = strcspn(*rest, ",");
	*rest = (*rest)[item->length] ? *rest + item->length + 1 : NULL;
	trim(item);
	return true;
}

/* Splits "a:b"; false without a colon, item is all of it then. */
static bool split_colon(struct piece *item, struct piece *after)
{
	const char *colon = memchr(item->text, ':', item->length);

	if (!colon)
		return false;
	after->text = colon + 1;
	after->length = item->length - (size_t)(after->text - item->text);
	item->length = (size_t)(colon - item->text);
	return true;
}

static bool is_blank(const char *value)
{
	return !value[strspn(value, " \t")];
}

static bool parse_visible_item(struct piece *item,
			       struct qbrt_env_visible *visible)
{
	struct piece number = *item;
	const char *name = "";
	uint64_t value;

	if (split_colon(item, &number)) {
		name = find_concrete_name(item);
		if (!name)
			return false;
	}
	if (!parse_number(&number, INT32_MAX, &value))
		return false;
	(void)snprintf(visible->name, sizeof(visible->name), "%s", name);
	visible->number = (int)value;
	return true;
}

static bool has_visible(const struct qbrt_env *env,
			const struct qbrt_env_visible *item)
{
	size_t i;

	for (i = 0; i < env->num_visible; i++)
		if (env->visible[i].number == item->number &&
		    !strcmp(env->visible[i].name, item->name))
			return true;
	return false;
}

/* The first of the three variables that is set decides alone (Q089). */
static bool parse_visible(struct qbrt_env *env, const char *name,
			  const char *value)
{
	struct qbrt_env_visible visible;
	const char *rest = value;
	struct piece item;

	if (env->visible_variable)
		return true;
	env->visible_variable = name;
	if (is_blank(value))
		return true;
	while (next_item(&rest, &item)) {
		bool is_good = parse_visible_item(&item, &visible);

		if (is_good && has_visible(env, &visible))
			continue;
		if (!is_good || env->num_visible == QBRT_ENV_MAX_VISIBLE) {
			env->is_visible_malformed = true;
			env->num_visible = 0;
			return false;
		}
		env->visible[env->num_visible++] = visible;
	}
	return true;
}

static const char *find_profile(const struct piece *piece)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(profiles); i++)
		if (equals(piece, profiles[i].profile))
			return profiles[i].name;
	return find_concrete_name(piece);
}

static bool add_soft_item(struct qbrt_kmd_options *kmd, struct piece *item)
{
	struct piece number;
	uint64_t count = 1;
	const char *name;

	if (split_colon(item, &number) &&
	    (!parse_number(&number, MAX_SOFT_COUNT, &count) || !count))
		return false;
	name = find_profile(item);
	if (!name || kmd->num_soft_names + count > QBRT_KMD_MAX_SOFT_NODES)
		return false;
	while (count--)
		(void)snprintf(kmd->soft_names[kmd->num_soft_names++],
			       QBRT_KMD_NAME_SIZE, "%s", name);
	return true;
}

static bool parse_soft_devices(struct qbrt_env *env, const char *name,
			       const char *value)
{
	const char *rest = value;
	struct piece item = { value, strlen(value) };

	(void)name;
	env->is_soft_default = false;
	env->kmd.num_soft_names = 0;
	trim(&item);
	if (!item.length || equals(&item, "none"))
		return true;
	while (next_item(&rest, &item)) {
		if (add_soft_item(&env->kmd, &item))
			continue;
		env->is_soft_malformed = true;
		env->kmd.num_soft_names = 0;
		return false;
	}
	return true;
}

static bool parse_soft_memory(struct qbrt_env *env, const char *name,
			      const char *value)
{
	static const char suffixes[] = "KMG";
	struct piece piece = { value, strlen(value) };
	uint64_t factor = 1;
	uint64_t number;
	const char *suffix;

	(void)name;
	suffix =
		piece.length ? strchr(suffixes, value[piece.length - 1]) : NULL;
	if (suffix) {
		factor = 1024ull << 10 * (suffix - suffixes);
		piece.length--;
	}
	if (!parse_number(&piece, UINT64_MAX, &number) || !number ||
	    qbrt_mul_overflows(number, factor, &number))
		return false;
	env->kmd.soft_memory = number;
	return true;
}

static bool parse_soft_backend(struct qbrt_env *env, const char *name,
			       const char *value)
{
	static const char *const words[] = {
		[QBRT_KMD_BACKEND_AUTO] = "auto",
		[QBRT_KMD_BACKEND_REF] = "ref",
		[QBRT_KMD_BACKEND_ONEDNN] = "onednn",
	};
	size_t i;

	(void)name;
	for (i = 0; i < qbrt_array_size(words); i++) {
		if (!strcasecmp(value, words[i])) {
			env->kmd.soft_backend = (enum qbrt_kmd_backend)i;
			return true;
		}
	}
	return false;
}

static bool parse_soft_poison(struct qbrt_env *env, const char *name,
			      const char *value)
{
	uint64_t number;

	(void)name;
	if (strlen(value) != 1 || !parse_text_number(value, 1, &number))
		return false;
	env->kmd.soft_poison = number;
	return true;
}

static bool parse_soft_fault(struct qbrt_env *env, const char *name,
			     const char *value)
{
	const size_t room = sizeof(env->kmd.soft_fault_plan) - 1;
	const size_t length = strlen(value);

	(void)name;
	/* none, as a variable that is not set */
	if (!length)
		return true;
	if (!qbrt_kmd_soft_is_fault_plan(value, &env->malformed_at))
		return false;
	if (length > room) {
		env->malformed_at = room;
		return false;
	}
	memcpy(env->kmd.soft_fault_plan, value, length + 1);
	return true;
}

static bool parse_timeout(struct qbrt_env *env, const char *name,
			  const char *value)
{
	uint64_t number;

	(void)name;
	if (!parse_text_number(value, INT32_MAX, &number))
		return false;
	env->npu_timeout_ns = (int64_t)number * QBRT_NS_PER_MS;
	return true;
}

/* The older variable is read only when the newer one is not set (Q765). */
static bool parse_log_level(struct qbrt_env *env, const char *name,
			    const char *value)
{
	static const char *const words[] = { "debug", "info",  "warn",
					     "err",   "fatal", "off" };
	uint64_t number;
	size_t i;

	if (env->log_level || (!strcmp(name, "MACCEL_LOG_LEVEL") &&
			       secure_getenv("QBRUNTIME_LOG_LEVEL")))
		return true;
	for (i = 0; i < qbrt_array_size(words); i++) {
		if (!strcasecmp(value, words[i])) {
			env->log_level = (enum qbrt_log_level)(i + 1);
			return true;
		}
	}
	if (!parse_text_number(value, QBRT_LOG_LEVEL_OFF, &number) || !number)
		return false;
	env->log_level = (enum qbrt_log_level)number;
	return true;
}

#define VISIBLE_FORM \
	"a comma-separated list of device numbers N or NAME:N, NAME one of " \
	"aries-rb, regulus-ra, regulus-rb, regulus-ra-usb, regulus-rb-usb; " \
	"at most 256 different ones; empty: no device"
#define FAULT_FORM \
	"FAULT[;FAULT]..., at most 1023 characters, FAULT one of hang, error, " \
	"slow, late, optionally with :KEY=NUMBER[,KEY=NUMBER]..., KEY job, " \
	"every, count, queue, core (CLUSTER.CORE), p (0 to 1), seed, dev; for " \
	"hang and error also cmd, item; slow takes factor or ns, late ns"
#define LOG_LEVEL_FORM \
	"debug, info, warn, err, fatal, off, or a number from 1 (debug) " \
	"to 6 (off)"

static const struct variable variables[] = {
	{ "QBRUNTIME_VISIBLE_DEVICES", parse_visible, VISIBLE_FORM },
	{ "MACCEL_VISIBLE_DEVICES", parse_visible, VISIBLE_FORM },
	{ "MBLT_DEVICES", parse_visible, VISIBLE_FORM },
	{ "QBRUNTIME_NPU_TIMEOUT_MS", parse_timeout,
	  "milliseconds from 1 to 2147483647, or 0 for the longest that the "
	  "device takes" },
	{ "QBRUNTIME_LOG_LEVEL", parse_log_level, LOG_LEVEL_FORM },
	{ "MACCEL_LOG_LEVEL", parse_log_level, LOG_LEVEL_FORM },
	{ "QBRUNTIME_SOFT_DEVICES", parse_soft_devices,
	  "none, or a comma-separated list of PROFILE or PROFILE:COUNT, "
	  "PROFILE aries, regulus or a device name, COUNT 1 to 16, 128 devices "
	  "at most" },
	{ "QBRUNTIME_SOFT_MEMORY", parse_soft_memory,
	  "bytes above 0, optionally with K, M or G behind the number" },
	{ "QBRUNTIME_SOFT_BACKEND", parse_soft_backend, "auto, ref or onednn" },
	{ "QBRUNTIME_SOFT_POISON", parse_soft_poison, "0 or 1" },
	{ "QBRUNTIME_SOFT_FAULT", parse_soft_fault, FAULT_FORM },
};

static void fill_defaults(struct qbrt_env *env)
{
	const char *data_dir = qbrt_get_data_dir();

	memset(env, 0, sizeof(*env));
	env->npu_timeout_ns = DEFAULT_TIMEOUT_MS * QBRT_NS_PER_MS;
	env->is_soft_default = true;
	env->kmd.num_soft_names = 1;
	(void)snprintf(env->kmd.soft_names[0], QBRT_KMD_NAME_SIZE, "%s",
		       profiles[0].name);
	/* a folder whose name does not fit cannot be opened either */
	if (data_dir && strlen(data_dir) < sizeof(env->kmd.plugin_dir))
		(void)snprintf(env->kmd.plugin_dir, sizeof(env->kmd.plugin_dir),
			       "%s", data_dir);
}

/* rest: the value from what is wrong with it on. */
static enum qbrt_status fail_malformed(const struct variable *variable,
				       const char *value, const char *rest)
{
	char escaped[128], escaped_rest[32];

	qbrt_escape(value, strlen(value), escaped, sizeof(escaped));
	if (rest == value)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "%s is \"%s\", accepted is %s", variable->name,
				 escaped, variable->form);
	return qbrt_fail(QBRT_INVALID_ARGUMENT,
			 "%s is \"%s\", wrong from character %zu on (\"%s\"), "
			 "accepted is %s",
			 variable->name, escaped, (size_t)(rest - value) + 1,
			 qbrt_escape(rest, strlen(rest), escaped_rest,
				     sizeof(escaped_rest)),
			 variable->form);
}

enum qbrt_status qbrt_env_read(struct qbrt_env *env)
{
	enum qbrt_status status = QBRT_OK;
	const char *value;
	size_t i;

	fill_defaults(env);
	for (i = 0; i < qbrt_array_size(variables); i++) {
		value = secure_getenv(variables[i].name);
		if (!value || variables[i].parse(env, variables[i].name, value))
			continue;
		if (!status)
			status = fail_malformed(&variables[i], value,
						value + env->malformed_at);
	}
	return status;
}

void qbrt_env_apply_log_level(void)
{
	struct qbrt_env env = { 0 };
	size_t i;

	for (i = 0; i < qbrt_array_size(variables); i++) {
		const char *value = secure_getenv(variables[i].name);

		if (value && variables[i].parse == parse_log_level &&
		    parse_log_level(&env, variables[i].name, value) &&
		    env.log_level)
			qbrt_log_set_default(env.log_level);
	}
}

void qbrt_env_apply_log_level_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, qbrt_env_apply_log_level);
}
