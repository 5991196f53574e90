// SPDX-License-Identifier: MIT
/* summary: a row a device, other DRM nodes, and what deserves a look. */
#include "collect.h"
#include "qbinfo.h"

static const enum field_id device_fields[] = {
	FIELD_ID,           FIELD_BUS,          FIELD_KIND,
	FIELD_STATE,        FIELD_CLUSTERS,     FIELD_LOCAL_CORES,
	FIELD_GLOBAL_CORES, FIELD_IN_FLIGHT,    FIELD_PINNED_USED,
	FIELD_PINNED_LIMIT, FIELD_DEVICE_TOTAL, FIELD_TEMPERATURE,
	FIELD_POWER,        FIELD_FIRMWARE,
};
static const enum field_id drm_fields[] = { FIELD_DRM_NODE, FIELD_DRM_TYPE,
					    FIELD_DRM_DRIVER, FIELD_DRM_VERSION,
					    FIELD_DRM_BUS };

static const char *get_note(const struct inventory *inventory)
{
	const char *drm =
		inventory->drm_nodes.num ? "" : "\nNo other DRM node.";

	if (inventory->has_hardware)
		return NULL;
	if (!inventory->devices.num)
		return inventory_format("No NPU, neither hardware nor "
					"software, is visible (qbinfo doctor "
					"tells why).%s",
					drm);
	if (inventory->own_nodes)
		return inventory_format("No NPU hardware that answers: the "
					"software NPU is shown (qbinfo doctor "
					"tells why).%s",
					drm);
	return inventory_format("No NPU hardware: the software NPU is used "
				"(qbinfo doctor tells why).%s",
				drm);
}

int cmd_summary(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	bool is_json = request->style.is_json || request->style.is_jsonl;
	struct document document = {
		.name = "summary",
		.parts = {
			{ .form = FORM_DATA,
			  .list = LIST_DRIVER,
			  .record = inventory->driver },
			{ .form = FORM_TABLE,
			  .list = LIST_DEVICES,
			  .records = &inventory->devices },
			{ .form = FORM_TABLE,
			  .list = LIST_DRM,
			  .records = &inventory->drm_nodes,
			  .fields = drm_fields,
			  .num_fields = 5 },
		},
		.num_parts = 3,
		.inventory = inventory,
		.has_banner = true,
	};
	int code = select_fields(request, LIST_DEVICES, device_fields,
				 sizeof(device_fields) / sizeof(*device_fields),
				 &document.parts[1]);

	if (code)
		return code < 0 ? 0 : code;
	code = collect_all(request, true);
	if (!code)
		code = select_devices(request, &request->devices);
	if (code)
		return code;
	collect_readings(inventory);
	if (is_json && !request->has[OPTION_OUTPUT])
		select_all(request, LIST_DEVICES, &document.parts[1]);
	if (is_json)
		select_all(request, LIST_DRM, &document.parts[2]);
	if (request->devices.num)
		inventory->has_hardware = true; /* the note is about all */
	document.note = get_note(inventory);
	return show_document(request, &document);
}
