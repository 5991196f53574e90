// SPDX-License-Identifier: MIT
/* list: a line a device, for "while read"; a tree; or other DRM nodes. */
#include "collect.h"
#include "qbinfo.h"

static const enum field_id device_fields[] = { FIELD_ID, FIELD_BUS, FIELD_KIND,
					       FIELD_NODE };
static const enum field_id drm_fields[] = { FIELD_DRM_NODE, FIELD_DRM_TYPE,
					    FIELD_DRM_DRIVER, FIELD_DRM_BUS };

/* For people: who reads lines sees that there are none. */
static void tell_none(const struct request *request)
{
	if (!request->inventory.devices.num && !request->has[OPTION_QUIET])
		(void)fputs("qbinfo: no NPU is visible, neither hardware nor "
			    "software; qbinfo doctor tells why, and "
			    "QBRUNTIME_SOFT_DEVICES=aries asks for a software "
			    "NPU\n",
			    stderr);
}

int cmd_list(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	bool is_drm = request->has[OPTION_DRM];
	bool is_json = request->style.is_json || request->style.is_jsonl;
	struct document document = {
		.name = "list",
		.num_parts = 1,
		.inventory = inventory,
	};
	struct part *part = &document.parts[0];
	int code;

	if (is_drm && (request->has[OPTION_LONG] || request->devices.num))
		return fail(2, "nodes of other drivers (--drm) go neither "
			       "with -l nor with -d");
	if (request->has[OPTION_LONG] &&
	    (is_json || request->has[OPTION_OUTPUT]))
		return fail(2, "-l draws a tree of fixed columns: it goes "
			       "neither with -o nor with --json");
	code = collect_all(request, false);
	if (code)
		return code;
	part->form = request->has[OPTION_LONG] ? FORM_TREE : FORM_LINES;
	part->list = is_drm ? LIST_DRM : LIST_DEVICES;
	part->records = is_drm ? &inventory->drm_nodes : &inventory->devices;
	code = is_drm ? select_fields(request, LIST_DRM, drm_fields, 4, part)
		      : select_fields(request, LIST_DEVICES, device_fields, 4,
				      part);
	if (code)
		return code < 0 ? 0 : code;
	if (is_json && !request->has[OPTION_OUTPUT])
		select_all(request, part->list, part);
	code = select_devices(request, &request->devices);
	if (!code && !is_drm && !is_json)
		tell_none(request);
	return code ? code : show_document(request, &document);
}
