// SPDX-License-Identifier: MIT
/* version: all parts, and whether they fit. */
#include <string.h>

#include "collect.h"
#include "qbinfo.h"

int cmd_version(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	struct document document = {
		.name = "version",
		.parts = {
			{ .form = FORM_DATA,
			  .list = LIST_DRIVER,
			  .record = inventory->driver },
			{ .form = FORM_PARTS,
			  .list = LIST_PARTS,
			  .records = &inventory->parts },
			{ .form = FORM_DATA,
			  .list = LIST_VERDICT,
			  .record = inventory->verdict },
		},
		.num_parts = 3,
		.inventory = inventory,
	};
	const char *state;
	int code = collect_all(request, false);

	if (!code)
		code = select_devices(request, &request->devices);
	if (code)
		return code;
	collect_parts(inventory, request->timeout);
	state = record_get_text(inventory->verdict, FIELD_VERDICT_STATE);
	if (strcmp(state, "mismatch") != 0)
		return show_document(request, &document);
	(void)fail(5, "the parts do not fit: %s",
		   record_get_text(inventory->verdict, FIELD_VERDICT_TEXT));
	document.failure = get_failure();
	(void)show_document(request, &document);
	return 5;
}
