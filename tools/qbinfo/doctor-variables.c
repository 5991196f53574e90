// SPDX-License-Identifier: MIT
/*
 * Checks of variables, judged as the library judges them (Q086 to Q092, Q110).
 * Only a value that is well formed is proposed.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "collect.h"
#include "doctor.h"
#include "source.h"

#define MAX_ITEMS 256 /* of a visibility variable, each once */
#define MAX_COUNT 16  /* of "aries:COUNT" */
#define MAX_NODES 128 /* software devices */

static const char *const variables[] = { "QBRUNTIME_VISIBLE_DEVICES",
					 "MACCEL_VISIBLE_DEVICES",
					 "MBLT_DEVICES" };

/* The names of devices first, then profiles, which stand for one. */
static const char *const names[] = {
	"aries-rb",       "regulus-ra", "regulus-rb", "regulus-ra-usb",
	"regulus-rb-usb", "aries",      "regulus",
};
#define NUM_NAMES 7
#define NUM_CONCRETE 5

static bool is_name(const char *word, size_t num)
{
	for (size_t i = 0; i < num; i++) {
		if (!strcasecmp(word, names[i]))
			return true;
	}
	return false;
}

/* Items between commas, without the blanks around them. */
static char **split(const char *text, size_t *num)
{
	char *copy = inventory_copy(text);
	char **items = inventory_alloc((strlen(text) + 1) * sizeof(*items));

	*num = 0;
	while (copy) {
		char *next = strchr(copy, ',');
		size_t length;

		if (next)
			*next++ = '\0';
		copy += strspn(copy, " \t");
		length = strlen(copy);
		while (length && strchr(" \t", copy[length - 1]))
			length--;
		copy[length] = '\0';
		items[(*num)++] = copy;
		copy = next;
	}
	return items;
}

static bool is_blank(const char *text)
{
	return !text[strspn(text, " \t")];
}

/* "N" or "name:N". */
static bool is_item(const char *item)
{
	const char *colon = strchr(item, ':');
	uint64_t number;

	if (colon &&
	    !is_name(inventory_format("%.*s", (int)(colon - item), item),
		     NUM_CONCRETE))
		return false;
	return source_parse_number(colon ? colon + 1 : item, &number) &&
	       number <= INT32_MAX;
}

/* Empty hides all, and says so. */
static bool is_well_formed(const char *text)
{
	size_t num, different = 0;
	char **items = split(text, &num);

	if (is_blank(text))
		return true;
	for (size_t i = 0; i < num; i++) {
		size_t j = 0;

		if (!is_item(items[i]))
			return false;
		while (j < i && strcasecmp(items[j], items[i]) != 0)
			j++;
		different += j == i;
	}
	return different <= MAX_ITEMS;
}

/* Of QBRUNTIME_SOFT_DEVICES: none, or items "name" and "name:COUNT". */
static bool is_soft_well_formed(const char *text)
{
	size_t num, devices = 0;
	char **items = split(text, &num);

	if (is_blank(text) || (num == 1 && !strcasecmp(items[0], "none")))
		return true;
	for (size_t i = 0; i < num; i++) {
		char *colon = strchr(items[i], ':');
		uint64_t count = 1;

		if (colon) {
			*colon = '\0';
			if (!source_parse_number(colon + 1, &count) || !count ||
			    count > MAX_COUNT)
				return false;
		}
		if (!is_name(items[i], NUM_NAMES))
			return false;
		devices += count;
	}
	return devices <= MAX_NODES;
}

/* ---- visibility ---- */

/* The items that no visible device has, or NULL. */
static const char *find_absent(const struct inventory *inventory,
			       const char *text)
{
	size_t num;
	char **items = split(text, &num);
	const char *absent = NULL;

	for (size_t i = 0; i < num; i++) {
		const struct record *device = inventory->devices.first;
		const char *item = items[i], *colon = strchr(item, ':');
		uint64_t number = UINT64_MAX;

		(void)source_parse_number(colon ? colon + 1 : item, &number);
		if (colon)
			item = inventory_format("%.*s:%llu",
						(int)(colon - item), item,
						(unsigned long long)number);
		while (device &&
		       (colon ? strcasecmp(record_get_text(device, FIELD_ID),
					   item) != 0
			      : record_get_integer(device, FIELD_NUMBER, 0) !=
					number))
			device = device->next;
		if (!device)
			absent = absent ? inventory_format("%s, %s", absent,
							   item)
					: item;
	}
	return absent;
}

/* Whether there is something to hide. A capture lacks what was hidden. */
static bool has_devices(const struct inventory *inventory)
{
	const char *soft = environment_get("QBRUNTIME_SOFT_DEVICES");

	if (!source_get_sysroot())
		return collect_hidden(inventory);
	if (inventory->own_nodes || !soft)
		return true;
	return !is_blank(soft) && strcasecmp(soft, "none") != 0 &&
	       is_soft_well_formed(soft);
}

static void check_deciding(struct doctor *doctor, const char *name,
			   const char *value)
{
	const struct inventory *inventory = doctor->inventory;
	const char *absent;

	if (!is_well_formed(value)) {
		doctor_fail(doctor, 3, "visibility",
			    inventory_format("%s=%s is malformed, so no "
					     "device is visible",
					     name, value),
			    "E-VIS-1", inventory_format("unset %s", name));
		return;
	}
	if (!inventory->devices.num && has_devices(inventory)) {
		doctor_fail(doctor, 3, "visibility",
			    inventory_format("%s=%s hides all devices", name,
					     value),
			    "E-VIS-2", inventory_format("unset %s", name));
		return;
	}
	absent = inventory->devices.num ? find_absent(inventory, value) : NULL;
	if (absent)
		doctor_warn(doctor, "visibility",
			    inventory_format("%s=%s names what is not there: "
					     "%s",
					     name, value, absent),
			    "E-VIS-3",
			    inventory_format("export %s=%d", name,
					     (int)record_get_integer(
						     inventory->devices.first,
						     FIELD_NUMBER, 0)));
	else
		doctor_ok(doctor, "visibility",
			  inventory_format(
				  inventory->devices.num
					  ? "%s=%s decides"
					  : "%s=%s hides nothing: there is no "
					    "device",
				  name, value));
}

static void check_soft_devices(struct doctor *doctor)
{
	const char *value = environment_get("QBRUNTIME_SOFT_DEVICES");

	if (value && !is_soft_well_formed(value))
		doctor_warn(doctor, "visibility",
			    inventory_format("QBRUNTIME_SOFT_DEVICES=%s is "
					     "malformed, so there is no "
					     "software NPU",
					     value),
			    "E-VIS-6", "unset QBRUNTIME_SOFT_DEVICES");
}

/* A name that nothing reads, and the one that is meant. */
static void check_old_name(struct doctor *doctor, bool is_decided)
{
	const char *value = environment_get("MBLT_VISIBLE_DEVICES");

	if (!value)
		return;
	doctor_warn(doctor, "visibility",
		    "MBLT_VISIBLE_DEVICES is set and has no effect", "E-VIS-5",
		    is_decided || is_blank(value) || !is_well_formed(value)
			    ? "unset MBLT_VISIBLE_DEVICES"
			    : inventory_format(
				      "export QBRUNTIME_VISIBLE_DEVICES=%s",
				      inventory_quote(value)));
}

void doctor_check_visibility(struct doctor *doctor)
{
	const char *deciding = NULL, *value = NULL;
	size_t num = doctor->inventory->checks.num;

	for (size_t i = 0; i < 3; i++) {
		const char *other = environment_get(variables[i]);

		if (!other)
			continue;
		if (!deciding) {
			deciding = variables[i];
			value = other;
		} else if (strcmp(other, value) != 0) {
			doctor_warn(doctor, "visibility",
				    inventory_format("%s=%s contradicts "
						     "%s=%s, which decides",
						     variables[i], other,
						     deciding, value),
				    "E-VIS-4",
				    inventory_format("unset %s", variables[i]));
		}
	}
	check_old_name(doctor, deciding);
	check_soft_devices(doctor);
	if (deciding)
		check_deciding(doctor, deciding, value);
	else if (doctor->inventory->checks.num == num)
		doctor_ok(doctor, "visibility", "no variable hides a device");
}

/* ---- the software NPU ---- */

const char *doctor_get_soft_fix(const char *sentence)
{
	static const char *const soft[][2] = {
		{ "QBRUNTIME_SOFT_FAULT", "QBRUNTIME_SOFT_FAULT" },
		{ "QBRUNTIME_SOFT_POISON", "QBRUNTIME_SOFT_POISON" },
		{ "QBRUNTIME_SOFT_MEMORY", "do not fit in the memory" },
		{ "QBRUNTIME_SOFT_MEMORY", "QBRUNTIME_SOFT_MEMORY" },
		{ "QBRUNTIME_SOFT_BACKEND", "backend" },
		{ "QBRUNTIME_SOFT_BACKEND", "QBRUNTIME_SOFT_BACKEND" },
		{ "QBRUNTIME_NPU_TIMEOUT_MS", "QBRUNTIME_NPU_TIMEOUT_MS" },
	};
	const char *fix = "";

	for (size_t i = 0; i < 7; i++) {
		if (environment_get(soft[i][0]) && strstr(sentence, soft[i][1]))
			return inventory_format("unset %s", soft[i][0]);
	}
	/* a planned fault does not say that it was planned */
	for (size_t i = 0; i < 7; i++) {
		if (environment_get(soft[i][0]) && !strstr(fix, soft[i][0]))
			fix = inventory_format("%s %s", fix, soft[i][0]);
	}
	return *fix ? inventory_format("unset%s", fix)
		    : "QBRUNTIME_LOG_LEVEL=Debug qbinfo doctor";
}
