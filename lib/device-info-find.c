// SPDX-License-Identifier: MIT
/*
 * Names, aliases, and the choice of the device that a name and a number mean.
 * Pure over a discovery; each refusal says what is visible, or what hides it.
 */
#include "device-info.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "status.h"
#include "util.h"

#define AUTO_NAME "auto"
#define ACCEPTED_NAMES \
	"auto, aries, regulus, regulus-usb, aries-rb, regulus-ra, regulus-rb, " \
	"regulus-ra-usb or regulus-rb-usb"

/* In the order of listing (Q080), with the alias of each (Q081). */
static const struct {
	const char *name;
	const char *alias;
} known_names[] = {
	{ "aries-rb", "aries" },
	{ "regulus-ra", "regulus" },
	{ "regulus-rb", "regulus" },
	{ "regulus-ra-usb", "regulus-usb" },
	{ "regulus-rb-usb", "regulus-usb" },
};

size_t qbrt_device_name_rank(const char *name)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(known_names); i++)
		if (!strcasecmp(name, known_names[i].name))
			break;
	return i;
}

bool qbrt_device_name_matches(const char *name, const char *device_name)
{
	size_t rank = qbrt_device_name_rank(device_name);

	if (!name || !strcasecmp(name, AUTO_NAME) ||
	    !strcasecmp(name, device_name))
		return true;
	return rank < qbrt_array_size(known_names) &&
	       !strcasecmp(name, known_names[rank].alias);
}

/* A concrete name, an alias, or the name of a device that is there. */
static bool is_accepted_name(const struct qbrt_discovery *discovery,
			     const char *name)
{
	size_t i;

	for (i = 0; i < qbrt_array_size(known_names); i++)
		if (qbrt_device_name_matches(name, known_names[i].name))
			return true;
	for (i = 0; i < discovery->num_answering; i++)
		if (!strcasecmp(name, discovery->devices[i].name))
			return true;
	return false;
}

/* Appends name, and ":number" unless that is negative. */
static void append(char *text, size_t size, const char *name, int number)
{
	size_t length = strlen(text);
	const char *comma = length ? ", " : "";

	if (number < 0)
		(void)snprintf(text + length, size - length, "%s%s", comma,
			       name);
	else
		(void)snprintf(text + length, size - length, "%s%s:%d", comma,
			       name, number);
}

/* "aries-rb:0, regulus-ra:0", or "none", and why where it was asked for */
static const char *list_visible(const struct qbrt_discovery *discovery,
				char *text, size_t size)
{
	size_t i;

	*text = '\0';
	for (i = 0; i < discovery->num_answering; i++) {
		const struct qbrt_found_device *device = &discovery->devices[i];

		if (device->is_visible)
			append(text, size, device->name, device->number);
	}
	if (!*text)
		(void)snprintf(text, size, "none%s",
			       discovery->env.is_soft_default ||
					       discovery->env.kmd.num_soft_names
				       ? ""
				       : " (QBRUNTIME_SOFT_DEVICES asks for no "
					 "software NPU)");
	return text;
}

enum qbrt_status
qbrt_discovery_check_name(const struct qbrt_discovery *discovery,
			  const char *name)
{
	const char *last = NULL;
	size_t num_names = 0;
	char text[256] = "";
	size_t i;

	/* equal names stand together */
	for (i = 0; i < discovery->num_answering; i++) {
		const struct qbrt_found_device *device = &discovery->devices[i];

		if (!device->is_visible ||
		    !qbrt_device_name_matches(name, device->name) ||
		    (last && !strcasecmp(last, device->name)))
			continue;
		last = device->name;
		num_names++;
		append(text, sizeof(text), device->name, -1);
	}
	if (num_names < 2)
		return QBRT_OK;
	return qbrt_fail(
		QBRT_ACC_AMBIGUOUS_DEVICE_NAME,
		"device name %.32s means several: %s; give one of them",
		name ? name : AUTO_NAME, text);
}

/* The first in order, so the lowest number, that fits. */
static const struct qbrt_found_device *
find_device(const struct qbrt_discovery *discovery, const char *name,
	    int number, bool want_visible)
{
	size_t i;

	for (i = 0; i < discovery->num_answering; i++) {
		const struct qbrt_found_device *device = &discovery->devices[i];

		if (device->is_visible == want_visible &&
		    (number < 0 || device->number == number) &&
		    qbrt_device_name_matches(name, device->name))
			return device;
	}
	return NULL;
}

/*
 * A node that does not answer has no name, software not even a number, so it
 * may be what was meant: its reason is worth more than "not found".
 */
static const struct qbrt_found_device *
find_silent(const struct qbrt_discovery *discovery, int number)
{
	size_t i;

	for (i = discovery->num_answering; i < discovery->num_devices; i++) {
		const struct qbrt_found_device *device = &discovery->devices[i];

		if (number < 0 || device->number < 0 ||
		    (device->number == number && device->is_visible))
			return device;
	}
	return NULL;
}

static enum qbrt_status fail_not_found(const struct qbrt_discovery *discovery,
				       const char *name, int number)
{
	const struct qbrt_found_device *hidden =
		find_device(discovery, name, number, false);
	const struct qbrt_found_device *silent = find_silent(discovery, number);
	char text[512];

	list_visible(discovery, text, sizeof(text));
	if (hidden)
		return qbrt_fail(QBRT_ACC_DEVICE_NOT_FOUND,
				 "device %s:%d exists, but %s hides it; "
				 "visible: %s",
				 hidden->name, hidden->number,
				 discovery->env.visible_variable, text);
	if (silent && silent->err == -EINVAL &&
	    discovery->env.kmd.soft_backend == QBRT_KMD_BACKEND_ONEDNN)
		return qbrt_fail(QBRT_INVALID_ARGUMENT,
				 "QBRUNTIME_SOFT_BACKEND is onednn, but its "
				 "plugin is not in \"%.256s\": use auto or ref",
				 discovery->env.kmd.plugin_dir);
	if (silent)
		return qbrt_fail_errno(QBRT_AT_OPEN, silent->err,
				       "device node %s does not open: %s",
				       silent->node.path,
				       qbrt_errno_words(silent->err));
	if (number < 0)
		return qbrt_fail(QBRT_ACC_DEVICE_NOT_FOUND,
				 "no device of name %.32s; visible: %s", name,
				 text);
	return qbrt_fail(QBRT_ACC_DEVICE_NOT_FOUND,
			 "no device %.32s:%d; visible: %s", name, number, text);
}

enum qbrt_status qbrt_discovery_find(const struct qbrt_discovery *discovery,
				     const char *name, int number,
				     const struct qbrt_found_device **found)
{
	const struct qbrt_found_device *device;
	enum qbrt_status status;
	char escaped[64];

	if (!name)
		name = AUTO_NAME;
	if (!is_accepted_name(discovery, name))
		return qbrt_fail(QBRT_ACC_DEVICE_NOT_FOUND,
				 "unknown device name \"%s\"; expected %s",
				 qbrt_escape(name, strlen(name), escaped,
					     sizeof(escaped)),
				 ACCEPTED_NAMES);
	if (number < -1)
		return qbrt_fail(QBRT_ACC_DEVICE_NOT_FOUND,
				 "no device has number %d; numbers start at 0, "
				 "-1 means the lowest visible",
				 number);
	status = qbrt_discovery_check_name(discovery, name);
	if (status)
		return status;
	device = find_device(discovery, name, number, true);
	if (!device)
		return fail_not_found(discovery, name, number);
	*found = device;
	return QBRT_OK;
}
