// SPDX-License-Identifier: MIT
/* Health: the state of a device, its errors and readings in one word. */
#include <inttypes.h>
#include <string.h>

#include "collect.h"

#define NUM(array) (sizeof(array) / sizeof(*(array)))

struct reasons {
	const char *texts[8];
	size_t num;
};

/* A reason that the state does not tell, so a "!" line, too. */
static void add_reason(struct inventory *inventory, struct record *device,
		       struct reasons *reasons, const char *text)
{
	const char *id = record_get_text(device, FIELD_ID);

	reasons->texts[reasons->num++] = text;
	add_warning(inventory, inventory_format("%s: %s", id, text),
		    inventory_format("qbinfo show %s -t health",
				     inventory_quote(id)));
}

void collect_health(struct inventory *inventory, struct record *device)
{
	static const struct {
		enum field_id field;
		const char *text;
	} errors[] = {
		{ FIELD_TIMEOUTS, "jobs timed out" },
		{ FIELD_ECC_UNCORRECTED, "memory errors were not mended" },
		{ FIELD_DMA_FAULTS, "accesses of it were stopped" },
		{ FIELD_DEVICE_LIES, "answers of it cannot be" },
	};
	const char *state = record_get_text(device, FIELD_STATE);
	const struct value *throttling = record_see(device, FIELD_THROTTLING);
	struct reasons reasons = { .num = 0 };

	if (!state)
		return;
	if (strcmp(state, "ready") != 0)
		reasons.texts[reasons.num++] =
			inventory_format("the device is %s", state);
	if (throttling->is_set && throttling->boolean)
		add_reason(inventory, device, &reasons, "it is slowed down");
	for (size_t i = 0; i < NUM(errors); i++) {
		uint64_t num = record_get_integer(device, errors[i].field, 0);

		if (num)
			add_reason(inventory, device, &reasons,
				   inventory_format("%" PRIu64 " %s", num,
						    errors[i].text));
	}
	set_text(device, FIELD_HEALTH,
		 !strcmp(state, "lost") ? "failed"
		 : reasons.num          ? "warning"
					: "ok");
	set_texts(device, FIELD_HEALTH_REASONS, reasons.texts, reasons.num);
}
