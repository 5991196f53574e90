// SPDX-License-Identifier: MIT
/* model: each file is looked at; a bad one does not stop the others. */
#include "collect.h"
#include "qbinfo.h"

static const enum field_id default_fields[] = { FIELD_MODEL_PATH };

/* A file whose name looks like an option. */
static const char *get_operand(const char *path)
{
	return *path == '-' ? inventory_format("./%s", path) : path;
}

int cmd_model(struct request *request)
{
	struct inventory *inventory = &request->inventory;
	struct document document = {
		.name = "model",
		.parts = { { .form = FORM_MODELS,
			     .list = LIST_MODELS,
			     .records = &inventory->models } },
		.num_parts = 1,
		.inventory = inventory,
	};
	struct part *models = &document.parts[0];
	bool is_data = request->style.is_json || request->style.is_jsonl;
	struct failure worst = { .exit = 0 };
	int code;

	if (request->has[OPTION_COMMANDS] && request->has[OPTION_OUTPUT] &&
	    !is_data)
		return fail(2, "commands are listed below a model: "
			       "they do not go with the table of -o");
	code = select_fields(request, LIST_MODELS, default_fields, 1, models);

	if (code)
		return code < 0 ? 0 : code;
	if (request->has[OPTION_OUTPUT])
		models->form = FORM_TABLE;
	else
		select_all(request, LIST_MODELS, models);
	collect_tool(inventory);
	for (size_t i = 0; i < request->arguments.num; i++) {
		struct failure what = { .exit = 0 };

		what.exit =
			collect_model(inventory, request->arguments.items[i],
				      request->has[OPTION_COMMANDS],
				      &what.message, &what.status);
		if (!what.exit)
			continue;
		/* 8 is worse than 5: the file will never load */
		if (what.exit > worst.exit)
			worst = what;
		add_warning(inventory, what.message,
			    inventory_format(
				    "qbm verify %s",
				    inventory_quote(get_operand(
					    request->arguments.items[i]))));
	}
	if (worst.exit)
		(void)fail_with(&worst);
	if (!inventory->models.num)
		return worst.exit;
	if (worst.exit)
		document.failure = get_failure();
	code = show_document(request, &document);
	return worst.exit ? worst.exit : code;
}
