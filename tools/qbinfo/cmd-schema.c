// SPDX-License-Identifier: MIT
/* schema: the JSON Schema of a command's output, or the names of all. */
#include "qbinfo.h"

int cmd_schema(struct request *request)
{
	const char *name =
		request->arguments.num ? request->arguments.items[0] : NULL;

	if (!name && request->has[OPTION_STRICT])
		return fail(2, "schema --strict needs a name: qbinfo schema "
			       "lists them");
	if (!print_schema(request->out, name, request->has[OPTION_STRICT]))
		return fail(2,
			    "there is no schema %s; qbinfo schema lists "
			    "the names",
			    name);
	return 0;
}
