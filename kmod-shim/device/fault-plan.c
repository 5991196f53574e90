// SPDX-License-Identifier: MIT
/*
 * Fault plans from text to rules. Written by whoever starts the process, so
 * every character is accounted for: what no word or key takes is refused, with
 * the place where it stands.
 */
#include "fault.h"

#include <errno.h>
#include <string.h>

#include "util.h"

#define MAX_NS UINT64_C(1000000000000)
#define MAX_FACTOR UINT64_C(1000000)
#define P_DIGITS 6

/* Sets of words, a bit each. */
#define HANG (1u << QBNPU_FAULT_HANG)
#define ERROR (1u << QBNPU_FAULT_ERROR)
#define SLOW (1u << QBNPU_FAULT_SLOW)
#define LATE (1u << QBNPU_FAULT_LATE)
#define ALL (HANG | ERROR | SLOW | LATE)

static const struct {
	const char *name;
	enum qbnpu_fault_word word;
} words[] = {
	{ "hang", QBNPU_FAULT_HANG },
	{ "error", QBNPU_FAULT_ERROR },
	{ "slow", QBNPU_FAULT_SLOW },
	{ "late", QBNPU_FAULT_LATE },
};

/* The value at *text, which moves behind it. false: it is none. */
typedef bool parse_value(const char **text, uint64_t *value);

static bool parse_number(const char **text, uint64_t *value)
{
	const char *first = *text;

	*value = 0;
	for (; **text >= '0' && **text <= '9'; ++*text) {
		if (qbrt_mul_overflows(*value, 10, value) ||
		    qbrt_add_overflows(*value, (uint64_t)(**text - '0'), value))
			return false;
	}
	return *text > first;
}

/* Cluster, point, core of it. */
static bool parse_core(const char **text, uint64_t *value)
{
	uint64_t cluster, core;

	if (!parse_number(text, &cluster) || cluster > 7 || **text != '.')
		return false;
	++*text;
	if (!parse_number(text, &core) || core > 7)
		return false;
	*value = cluster * 8 + core;
	return true;
}

/* 0 to 1 with up to six decimals. */
static bool parse_probability(const char **text, uint64_t *value)
{
	uint64_t unit = QBNPU_FAULT_P_ALWAYS;
	const char *first;

	if (!parse_number(text, value) || *value > 1)
		return false;
	*value *= unit;
	if (**text != '.')
		return true;
	first = ++*text;
	for (; **text >= '0' && **text <= '9'; ++*text) {
		if (*text - first == P_DIGITS)
			return false;
		unit /= 10;
		*value += (uint64_t)(**text - '0') * unit;
	}
	return *text > first;
}

static const struct key {
	const char *name;
	unsigned int words; /* that take it */
	parse_value *parse;
	uint64_t min, max, preset;
} keys[QBNPU_FAULT_NUM_KEYS] = {
	[QBNPU_FAULT_JOB] = { "job", ALL, parse_number, 1, UINT64_MAX, 1 },
	[QBNPU_FAULT_EVERY] = { "every", ALL, parse_number, 1, UINT64_MAX, 1 },
	[QBNPU_FAULT_COUNT] = { "count", ALL, parse_number, 0, UINT64_MAX, 1 },
	[QBNPU_FAULT_QUEUE] = { "queue", ALL, parse_number, 1, UINT32_MAX, 0 },
	[QBNPU_FAULT_CORE] = { "core", ALL, parse_core, 0, 63, 0 },
	[QBNPU_FAULT_P] = { "p", ALL, parse_probability, 0,
			    QBNPU_FAULT_P_ALWAYS, QBNPU_FAULT_P_ALWAYS },
	[QBNPU_FAULT_SEED] = { "seed", ALL, parse_number, 0, UINT64_MAX, 0 },
	[QBNPU_FAULT_DEV] = { "dev", ALL, parse_number, 0, UINT32_MAX, 0 },
	[QBNPU_FAULT_CMD] = { "cmd", HANG | ERROR, parse_number, 0, UINT32_MAX,
			      0 },
	[QBNPU_FAULT_ITEM] = { "item", HANG | ERROR, parse_number, 0,
			       QBNPU_MAX_ITEMS - 1, 0 },
	[QBNPU_FAULT_FACTOR] = { "factor", SLOW, parse_number, 1, MAX_FACTOR,
				 1 },
	[QBNPU_FAULT_NS] = { "ns", SLOW | LATE, parse_number, 0, MAX_NS, 0 },
};

static size_t count_letters(const char *text)
{
	size_t length = 0;

	while (text[length] >= 'a' && text[length] <= 'z')
		length++;
	return length;
}

static bool equals(const char *text, size_t length, const char *name)
{
	return strlen(name) == length && !memcmp(text, name, length);
}

static bool parse_word(const char **text, enum qbnpu_fault_word *word)
{
	const size_t length = count_letters(*text);
	size_t i;

	for (i = 0; i < qbrt_array_size(words); i++) {
		if (!equals(*text, length, words[i].name))
			continue;
		*word = words[i].word;
		*text += length;
		return true;
	}
	return false;
}

/* key "=" value; false leaves *text where it went wrong. */
static bool parse_pair(const char **text, struct qbnpu_fault *fault)
{
	const size_t length = count_letters(*text);
	const char *first;
	uint64_t value;
	size_t i;

	for (i = 0; i < QBNPU_FAULT_NUM_KEYS; i++) {
		if (equals(*text, length, keys[i].name))
			break;
	}
	if (i == QBNPU_FAULT_NUM_KEYS || !(keys[i].words >> fault->word & 1) ||
	    qbnpu_fault_has(fault, (enum qbnpu_fault_key)i))
		return false;
	*text += length;
	if (**text != '=')
		return false;
	first = ++*text;
	if (!keys[i].parse(text, &value) || value < keys[i].min ||
	    value > keys[i].max) {
		*text = first;
		return false;
	}
	fault->values[i] = value;
	fault->given |= 1u << i;
	return true;
}

/* What a word cannot do without. */
static bool is_complete(const struct qbnpu_fault *fault)
{
	if (fault->word == QBNPU_FAULT_SLOW)
		return qbnpu_fault_has(fault, QBNPU_FAULT_FACTOR) !=
		       qbnpu_fault_has(fault, QBNPU_FAULT_NS);
	return fault->word != QBNPU_FAULT_LATE ||
	       qbnpu_fault_has(fault, QBNPU_FAULT_NS);
}

static bool parse_fault(const char **text, struct qbnpu_fault *fault)
{
	char before = ':';
	size_t i;

	*fault = (struct qbnpu_fault){ .word = QBNPU_FAULT_NONE };
	for (i = 0; i < QBNPU_FAULT_NUM_KEYS; i++)
		fault->values[i] = keys[i].preset;
	if (!parse_word(text, &fault->word))
		return false;
	while (**text == before) {
		++*text;
		if (!parse_pair(text, fault))
			return false;
		before = ',';
	}
	/* each n-th begins with the n-th */
	if (!qbnpu_fault_has(fault, QBNPU_FAULT_JOB))
		fault->values[QBNPU_FAULT_JOB] =
			fault->values[QBNPU_FAULT_EVERY];
	fault->random = fault->values[QBNPU_FAULT_SEED];
	return is_complete(fault);
}

int qbnpu_fault_parse(const char *text, struct qbnpu_fault *faults, size_t *num,
		      size_t *at)
{
	const char *rest = text;
	struct qbnpu_fault fault;
	size_t found = 0;

	for (;;) {
		if (!parse_fault(&rest, &fault) || (*rest && *rest != ';')) {
			*at = (size_t)(rest - text);
			return -EINVAL;
		}
		if (faults && found < *num)
			faults[found] = fault;
		found++;
		if (!*rest++)
			break;
	}
	*num = found;
	return 0;
}
