// SPDX-License-Identifier: MIT
/* show: all that is known about devices, by topics. */
#include <string.h>

#include "collect.h"
#include "qbinfo.h"

static const char *const topics[] = {
	"device", "firmware", "driver", "caps",    "memory",
	"queues", "clocks",   "power",  "thermal", "health",
	"limits", "topology", "env",
};
#define NUM_TOPICS (sizeof(topics) / sizeof(*topics))

static int check_topics(const struct request *request)
{
	for (size_t i = 0; i < request->topics.num; i++) {
		const char *list = "";
		size_t j = 0;

		while (j < NUM_TOPICS &&
		       strcmp(topics[j], request->topics.items[i]) != 0)
			j++;
		if (j < NUM_TOPICS)
			continue;
		for (j = 0; j < NUM_TOPICS; j++)
			list = inventory_format("%s %s", list, topics[j]);
		return fail(2, "there is no topic %s; the topics are%s",
			    request->topics.items[i], list);
	}
	return 0;
}

static bool is_chosen(const struct request *request, const char *topic)
{
	for (size_t i = 0; i < request->topics.num; i++) {
		if (!strcmp(request->topics.items[i], topic))
			return true;
	}
	return !request->topics.num;
}

/* The id always, so that a line of JSON says which device it is about. */
static void select_topics(struct request *request, struct part *part)
{
	enum field_id *fields;
	size_t num = 0;

	select_all(request, LIST_DEVICES, part);
	fields = inventory_alloc(part->num_fields * sizeof(*fields));
	for (size_t i = 0; i < part->num_fields; i++) {
		if (part->fields[i] == FIELD_ID ||
		    is_chosen(request, field_get(part->fields[i])->topic))
			fields[num++] = part->fields[i];
	}
	part->fields = fields;
	part->num_fields = num;
}

/* With all devices hidden there is no report to say by what. */
static void warn_of_hidden(struct inventory *inventory,
			   struct document *document)
{
	for (const struct record *line = inventory->env->first; line;
	     line = line->next) {
		const char *effect = record_get_text(line, FIELD_ENV_EFFECT);

		if (!effect || strncmp(effect, "decides", 7) != 0)
			continue;
		document->note = "No device is visible.";
		add_warning(
			inventory,
			inventory_format("%s=%s %s",
					 record_get_text(line, FIELD_ENV_NAME),
					 record_get_text(line, FIELD_ENV_VALUE),
					 effect),
			"qbinfo doctor");
	}
}

int cmd_show(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	struct document document = {
		.name = "show",
		.parts = {
			{ .form = FORM_DATA,
			  .list = LIST_DRIVER,
			  .record = inventory->driver },
			{ .form = FORM_REPORT,
			  .list = LIST_DEVICES,
			  .records = &inventory->devices },
		},
		.num_parts = 2,
		.inventory = inventory,
		.topics = request->topics.items,
		.num_topics = request->topics.num,
	};
	struct part *devices = &document.parts[1];
	int code = check_topics(request);

	if (!code && request->has[OPTION_OUTPUT] && request->topics.num)
		return fail(2, "fields are chosen by -o or by -t, not by both");
	if (!code)
		code = select_fields(request, LIST_DEVICES, NULL, 0, devices);
	if (code)
		return code < 0 ? 0 : code;
	if (request->has[OPTION_OUTPUT])
		devices->form = FORM_TABLE;
	else
		select_topics(request, devices);
	code = collect_all(request, true);
	/* before some are chosen: what -d leaves out is not hidden */
	collect_environment(inventory);
	if (!inventory->devices.num && is_chosen(request, "env"))
		warn_of_hidden(inventory, &document);
	if (!code)
		code = select_devices(request, request->arguments.num
						       ? &request->arguments
						       : &request->devices);
	if (code)
		return code;
	collect_readings(inventory);
	return show_document(request, &document);
}
