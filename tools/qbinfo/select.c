// SPDX-License-Identifier: MIT
/* Which devices, which fields, and how a document is shown. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "collect.h"
#include "doctor.h"
#include "qbinfo.h"
#include "source.h"

/* ---- ids ---- */

static bool is_alias_of(const char *alias, const char *name)
{
	bool is_regulus = !strncmp(name, "regulus-", 8);
	bool is_usb =
		strlen(name) > 4 && !strcmp(name + strlen(name) - 4, "-usb");

	if (!strcasecmp(alias, "auto") || !strcasecmp(alias, "npu") ||
	    !strcasecmp(alias, name))
		return true;
	if (!strcasecmp(alias, "aries"))
		return !strcmp(name, "aries-rb");
	if (!strcasecmp(alias, "regulus"))
		return is_regulus && !is_usb;
	return !strcasecmp(alias, "regulus-usb") && is_regulus && is_usb;
}

/* Digits alone: in ids nothing else is a number. */
static bool parse_number(const char *text, uint64_t *value)
{
	return !text[strspn(text, "0123456789")] &&
	       source_parse_number(text, value) && *value <= INT32_MAX;
}

/* "aries:1", "1", "auto": the name and the number, -1: the lowest. */
static void split_id(const char *id, const char **name, int64_t *number)
{
	const char *colon = strrchr(id, ':');
	uint64_t value;

	*number = -1;
	*name = id;
	if (parse_number(id, &value)) {
		*name = "auto";
		*number = (int64_t)value;
	} else if (colon && parse_number(colon + 1, &value)) {
		*name = inventory_format("%.*s", (int)(colon - id), id);
		*number = (int64_t)value;
	}
}

static bool is_text(const struct record *device, enum field_id field,
		    const char *text)
{
	const char *own = record_get_text(device, field);

	return own && !strcasecmp(own, text);
}

static bool is_named(const struct record *device, const char *id)
{
	return is_text(device, FIELD_ID, id) ||
	       is_text(device, FIELD_BUS, id) ||
	       is_text(device, FIELD_UUID, id) ||
	       is_text(device, FIELD_NODE, id);
}

static const char *list_ids(const struct record *device, const char *alias)
{
	const char *text = "";

	for (; device; device = device->next) {
		if (alias &&
		    !is_alias_of(alias, record_get_text(device, FIELD_NAME)))
			continue;
		text = inventory_format("%s%s%s", text, *text ? ", " : "",
					record_get_text(device, FIELD_ID));
	}
	return *text ? text : "none";
}

static struct record *find_soft(const struct records *devices, int64_t number)
{
	struct record *device = devices->first;

	for (; device; device = device->next) {
		if (is_text(device, FIELD_KIND, "software") && number-- <= 0)
			break;
	}
	return device;
}

/* What else the id may be: a node of another driver, or a silent one of ours. */
static int fail_not_found(struct request *request, const char *id)
{
	struct inventory *inventory = &request->inventory;

	for (struct own_node *node = inventory->own_nodes; node;
	     node = node->next) {
		struct failure what = { .exit = 4, .device = id };
		const char *text, *fix;

		if (strcmp(node->path, id) != 0)
			continue;
		if (node->uapi_major >= 0 &&
		    node->uapi_major != QBINFO_UAPI_MAJOR) {
			what.exit = 5;
			what.status = "Acc_VersionMismatch";
			what.message = inventory_format(
				"%s: the driver speaks version %d, the "
				"library version %d",
				id, node->uapi_major, QBINFO_UAPI_MAJOR);
			what.doc = node->uapi_major < QBINFO_UAPI_MAJOR
					   ? "E-VER-1"
					   : "E-VER-2";
			return fail_with(&what);
		}
		if (node->open_err != -EACCES && node->open_err != -EPERM)
			break;
		what.status = "Acc_PermissionDenied";
		what.message = inventory_format(
			"cannot open %s: permission denied", id);
		what.fix = "qbinfo doctor says what to do";
		what.doc = doctor_explain_denied(node, &text, &fix);
		return fail_with(&what);
	}
	for (const struct record *node = inventory->drm_nodes.first; node;
	     node = node->next) {
		if (is_text(node, FIELD_DRM_NODE, id))
			return fail(3,
				    "%s is a node of the driver %s, not an "
				    "NPU of this runtime",
				    id,
				    record_get_text(node, FIELD_DRM_DRIVER)
					    ?: "?");
	}
	if (!inventory->devices.num)
		return fail(3,
			    "there is no device %s, nor any other; qbinfo "
			    "doctor tells why",
			    id);
	return fail(3, "there is no device %s; visible: %s", id,
		    list_ids(inventory->devices.first, NULL));
}

/* The one device that id means, by the rules of Accelerator. */
static int find_device(struct request *request, const char *id,
		       struct record **found)
{
	struct records *devices = &request->inventory.devices;
	const char *name, *first_name = NULL;
	int64_t number;
	size_t num = 0;

	*found = NULL;
	for (struct record *device = devices->first; device;
	     device = device->next) {
		if (!is_named(device, id))
			continue;
		*found = device;
		num++;
	}
	if (num > 1)
		return fail(3, "%s means several devices, name one of them: %s",
			    id, list_ids(devices->first, NULL));
	if (num)
		return 0;
	split_id(id, &name, &number);
	if (!strcasecmp(name, "soft")) {
		*found = find_soft(devices, number);
		return *found ? 0 : fail_not_found(request, id);
	}
	for (struct record *device = devices->first; device;
	     device = device->next) {
		const char *own = record_get_text(device, FIELD_NAME);

		if (!is_alias_of(name, own))
			continue;
		if (first_name && strcmp(first_name, own) != 0)
			return fail(
				3,
				"%s means devices of several names, name one "
				"of them: %s",
				id, list_ids(devices->first, name));
		first_name = own;
		if (!*found &&
		    (number < 0 ||
		     record_get_integer(device, FIELD_NUMBER, UINT64_MAX) ==
			     (uint64_t)number))
			*found = device;
	}
	return *found ? 0 : fail_not_found(request, id);
}

static int check_hardware(const struct request *request)
{
	if (!request->has[OPTION_REQUIRE])
		return 0;
	for (const struct record *device = request->inventory.devices.first;
	     device; device = device->next) {
		if (is_text(device, FIELD_KIND, "hardware"))
			return 0;
	}
	return fail(3, "no hardware device matches; qbinfo doctor tells why");
}

int select_devices(struct request *request, const struct words *ids)
{
	struct inventory *inventory = &request->inventory;
	bool *is_chosen;
	struct record *device;
	size_t i = 0;

	if (inventory->failed)
		return fail(inventory->failed_exit, "%s", inventory->failed);
	if (!ids->num)
		return check_hardware(request);
	is_chosen = inventory_alloc(inventory->devices.num + 1);
	for (size_t j = 0; j < ids->num; j++) {
		struct record *found;
		int code = find_device(request, ids->items[j], &found);

		if (code)
			return code;
		i = 0;
		for (device = inventory->devices.first; device != found;
		     device = device->next)
			i++;
		is_chosen[i] = true;
	}
	device = inventory->devices.first;
	inventory->devices.first = NULL;
	inventory->devices.last = NULL;
	inventory->devices.num = 0;
	for (i = 0; device; i++) {
		struct record *next = device->next;

		if (is_chosen[i])
			records_append(&inventory->devices, device);
		device = next;
	}
	return check_hardware(request);
}

/* ---- fields ---- */

static bool is_of_command(const struct request *request, enum field_id field)
{
	return strchr(field_get(field)->commands, request->style.command);
}

void select_all(struct request *request, enum list_id id, struct part *part)
{
	const struct list *list = list_get(id);
	enum field_id *fields =
		inventory_alloc((list->num_fields + 1) * sizeof(*fields));
	size_t num = 0;

	for (size_t i = 0; i < list->num_fields; i++) {
		if (is_of_command(request, list->first + (enum field_id)i))
			fields[num++] = list->first + (enum field_id)i;
	}
	part->fields = fields;
	part->num_fields = num;
}

static int find_field(struct request *request, enum list_id id,
		      const char *word, enum field_id *found)
{
	const struct list *list = list_get(id);
	const char **names =
		inventory_alloc((list->num_fields + 1) * sizeof(*names));
	size_t num = 0;
	const char *nearest;
	bool has_heading = false;

	for (size_t i = 0; i < list->num_fields; i++) {
		enum field_id field = list->first + (enum field_id)i;

		if (!is_of_command(request, field))
			continue;
		names[num++] = field_get(field)->path;
		if (!strcmp(field_get(field)->path, word)) {
			*found = field;
			return 0;
		}
		if (!has_heading &&
		    !strcasecmp(field_get(field)->heading, word)) {
			*found = field;
			has_heading = true;
		}
	}
	if (has_heading)
		return 0;
	nearest = get_nearest(word, names, num);
	return fail(2, "%s shows no field %s; %s%s",
		    options_get_name(request->command), word,
		    nearest ? "the nearest is " : "-o help lists them",
		    nearest ?: "");
}

int select_fields(struct request *request, enum list_id list,
		  const enum field_id *defaults, size_t num_defaults,
		  struct part *part)
{
	const char *text = request->value[OPTION_OUTPUT];
	enum field_id *fields;
	char *word, *rest;
	size_t num = 0;

	part->fields = defaults;
	part->num_fields = num_defaults;
	if (!text)
		return 0;
	select_all(request, list, part);
	if (!strcmp(text, "help") &&
	    (request->has[OPTION_JSON] || request->has[OPTION_JSONL]))
		return fail(2, "-o help prints text: it does not go with JSON");
	if (!strcmp(text, "help")) {
		print_field_help(request->out, part->fields, part->num_fields);
		return -1;
	}
	part->is_chosen = true;
	if (!strcmp(text, "all"))
		return 0;
	fields = inventory_alloc((strlen(text) + num_defaults + 1) *
				 sizeof(*fields));
	if (*text == '+') {
		memcpy(fields, defaults, num_defaults * sizeof(*fields));
		num = num_defaults;
		text++;
	}
	for (word = strtok_r(inventory_copy(text), ",", &rest); word;
	     word = strtok_r(NULL, ",", &rest)) {
		int code = find_field(request, list, word, &fields[num]);

		if (code)
			return code;
		num++;
	}
	if (!num)
		return fail(2, "-o needs fields; -o help lists them");
	part->fields = fields;
	part->num_fields = num;
	return 0;
}

/* ---- the rest ---- */

int collect_all(struct request *request, bool with_versions)
{
	struct inventory *inventory = &request->inventory;

	collect_tool(inventory);
	collect_nodes(inventory, with_versions);
	collect_devices(inventory);
	collect_silent_nodes(inventory);
	collect_driver(inventory);
	collect_limits(inventory);
	return 0;
}

int show_document(struct request *request, const struct document *document)
{
	struct document shown = *document;
	int code = 0;

	if (request->has[OPTION_STRICT] && !print_is_complete(document)) {
		code = fail(9, "a field is not available (--strict)");
		if (!shown.failure)
			shown.failure = get_failure();
	}
	if (request->style.is_json || request->style.is_jsonl)
		print_json(request->out, &shown, &request->style);
	else
		print_text(request->out, &shown, &request->style);
	return code;
}
