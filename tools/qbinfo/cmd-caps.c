// SPDX-License-Identifier: MIT
/* caps: what works on one device. */
#include "collect.h"
#include "qbinfo.h"

int cmd_caps(struct request *request)
{
	const char *standard = "auto";
	struct words ids = { .items = &standard, .num = 1 };
	struct inventory *inventory = &request->inventory;
	struct document document = {
		.name = "caps",
		.parts = {
			{ .form = FORM_CAPS,
			  .list = LIST_DEVICES,
			  .records = &inventory->devices },
		},
		.num_parts = 1,
		.inventory = inventory,
	};
	struct part *part = &document.parts[0];
	int code = select_fields(request, LIST_DEVICES, NULL, 0, part);

	if (code)
		return code < 0 ? 0 : code;
	if (!request->has[OPTION_OUTPUT])
		select_all(request, LIST_DEVICES, part);
	code = collect_all(request, false);
	if (code)
		return code;
	if (request->arguments.num)
		ids = request->arguments;
	else if (request->devices.num)
		ids = request->devices;
	code = select_devices(request, &ids);
	if (code)
		return code;
	collect_caps_notes(inventory->devices.first);
	return show_document(request, &document);
}
