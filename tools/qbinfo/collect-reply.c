// SPDX-License-Identifier: MIT
/*
 * What was captured of devices: replies/<node>.json holds the kernel's answers
 * by the names of the uAPI, devices.json the software NPUs as section 7 has
 * them. Both are untrusted: a value of another type is "invalid", never more.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "collect.h"
#include "source.h"

struct json_object *reply_read(const char *path, int *err)
{
	size_t length;
	char *text = source_read_long(path, &length, err);
	struct json_tokener *tokener;
	struct json_object *object;

	if (!text)
		return NULL;
	tokener = json_tokener_new_ex(32);
	if (!tokener) {
		*err = -EINVAL;
		return NULL;
	}
	object = json_tokener_parse_ex(tokener, text, (int)length + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success) {
		json_object_put(object);
		object = NULL;
		*err = -EINVAL;
	}
	json_tokener_free(tokener);
	return object;
}

/* "/dev/accel/accel0" is replies/dev-accel-accel0.json. */
struct json_object *reply_read_node(const char *node, int *err)
{
	char *name = inventory_copy(node + 1);

	for (char *c = name; *c; c++) {
		if (*c == '/')
			*c = '-';
	}
	return reply_read(inventory_format("replies/%s.json", name), err);
}

struct json_object *reply_get(struct json_object *object, const char *name)
{
	struct json_object *member;

	if (!object || !json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, name, &member))
		return NULL;
	return member;
}

/* ---- values ---- */

static bool take_integer(struct record *record, enum field_id field,
			 struct json_object *json)
{
	if (!json_object_is_type(json, json_type_int))
		return false;
	if (json_object_get_int64(json) < 0)
		set_signed(record, field, json_object_get_int64(json));
	else
		set_integer(record, field, json_object_get_uint64(json));
	return true;
}

static bool take_texts(struct record *record, enum field_id field,
		       struct json_object *json)
{
	const char **texts;
	size_t num;

	if (!json_object_is_type(json, json_type_array))
		return false;
	num = json_object_array_length(json);
	texts = inventory_alloc((num + 1) * sizeof(*texts));
	for (size_t i = 0; i < num; i++) {
		struct json_object *item = json_object_array_get_idx(json, i);

		if (!json_object_is_type(item, json_type_string))
			return false;
		texts[i] = json_object_get_string(item);
	}
	set_texts(record, field, texts, num);
	return true;
}

static bool take(struct record *record, enum field_id field,
		 struct json_object *json)
{
	switch (field_get(field)->type) {
	case TYPE_TEXT:
	case TYPE_ENUM:
		if (!json_object_is_type(json, json_type_string))
			return false;
		set_text(record, field, json_object_get_string(json));
		return true;
	case TYPE_INTEGER:
		return take_integer(record, field, json);
	case TYPE_NUMBER:
		if (!json_object_is_type(json, json_type_double) &&
		    !json_object_is_type(json, json_type_int))
			return false;
		set_number(record, field, json_object_get_double(json));
		return true;
	case TYPE_BOOLEAN:
		if (!json_object_is_type(json, json_type_boolean))
			return false;
		set_boolean(record, field, json_object_get_boolean(json));
		return true;
	case TYPE_TEXTS:
	case TYPE_ENUMS:
		return take_texts(record, field, json);
	default: /* limits, env: collectors of their own */
		return true;
	}
}

/* The member at a path with dots. */
static struct json_object *find(struct json_object *object, const char *path)
{
	const char *dot = strchr(path, '.');

	if (!dot)
		return reply_get(object, path);
	return find(reply_get(object, inventory_format(
					      "%.*s", (int)(dot - path), path)),
		    dot + 1);
}

/* ---- devices that the library listed ---- */

static void set_no_place(struct record *device)
{
	set_absent(device, FIELD_BUS, REASON_ABSENT, NULL);
	set_absent(device, FIELD_VENDOR_ID, REASON_ABSENT, NULL);
	set_absent(device, FIELD_DEVICE_ID, REASON_ABSENT, NULL);
	set_absent(device, FIELD_NODE, REASON_ABSENT, NULL);
	set_absent(device, FIELD_NUMA, REASON_ABSENT, NULL);
}

/* A device without a serial number has no uuid either: that is an answer. */
static void set_absent_if_unset(struct record *device, enum field_id field)
{
	if (!record_get_text(device, field))
		set_absent(device, field, REASON_ABSENT, NULL);
}

static void add_listed(struct inventory *inventory, struct json_object *json)
{
	const struct list *list = list_get(LIST_DEVICES);
	struct record *device = records_add(&inventory->devices);

	set_no_place(device);
	for (size_t i = 0; i < list->num_fields; i++) {
		enum field_id field = list->first + (enum field_id)i;
		struct json_object *member = find(json, field_get(field)->path);

		if (member && !take(device, field, member))
			set_absent(device, field, REASON_INVALID,
				   "devices.json");
	}
	/* what every printer and order relies on */
	if (!record_get_text(device, FIELD_NAME))
		set_text(device, FIELD_NAME, "?");
	if (!record_get_text(device, FIELD_ID))
		set_text(device, FIELD_ID, "?");
	if (!record_get_text(device, FIELD_KIND))
		set_text(device, FIELD_KIND, "software");
	collect_backend(device);
	collect_listed_readings(device);
	set_absent_if_unset(device, FIELD_SERIAL);
	set_absent_if_unset(device, FIELD_UUID);
	if (!strcmp(record_get_text(device, FIELD_KIND), "hardware"))
		inventory->has_hardware = true;
}

/* ---- devices of nodes ---- */

uint64_t reply_get_count(struct json_object *object, const char *name)
{
	struct json_object *json = reply_get(object, name);

	return json && json_object_is_type(json, json_type_int) &&
			       json_object_get_int64(json) >= 0
		       ? json_object_get_uint64(json)
		       : 0;
}

static void set_count(struct record *device, enum field_id field,
		      struct json_object *object, const char *name)
{
	struct json_object *json = reply_get(object, name);

	if (!json)
		return;
	if (json_object_is_type(json, json_type_int) &&
	    json_object_get_int64(json) >= 0)
		set_integer(device, field, json_object_get_uint64(json));
	else
		set_absent(device, field, REASON_INVALID, name);
}

static void set_string(struct record *device, enum field_id field,
		       struct json_object *object, const char *name)
{
	struct json_object *json = reply_get(object, name);

	if (json && json_object_is_type(json, json_type_string) &&
	    *json_object_get_string(json))
		set_text(device, field, json_object_get_string(json));
	else if (json && !json_object_is_type(json, json_type_string))
		set_absent(device, field, REASON_INVALID, name);
}

/* As the library reads them: region 0 is the device's own, 1 the host's. */
static void set_memory(struct record *device, struct json_object *memory)
{
	static const char *const classes[] = { NULL, "locked", "hugepage",
					       "driver" };
	size_t num = memory && json_object_is_type(memory, json_type_array)
			     ? json_object_array_length(memory)
			     : 0;

	for (size_t i = 0; i < num; i++) {
		struct json_object *region =
			json_object_array_get_idx(memory, i);
		uint64_t total = reply_get_count(region, "total");
		uint64_t limit = reply_get_count(region, "client_limit");

		if (reply_get_count(region, "region") == 0) {
			uint64_t free = reply_get_count(region, "free");

			set_count(device, FIELD_DEVICE_TOTAL, region, "total");
			set_integer(device, FIELD_DEVICE_USED,
				    free < total ? total - free : 0);
		} else if (reply_get_count(region, "flags") & 1) {
			uint64_t class = reply_get_count(region, "contiguity");

			if (class && class < 4)
				set_texts(device, FIELD_CONTIGUITY,
					  &classes[class], 1);
			set_integer(device, FIELD_PINNED_LIMIT,
				    limit < total ? limit : total);
		}
	}
}

/* What this build does not know. */
static void set_extra(struct record *device, struct json_object *object,
		      const char *prefix, const char *const *known)
{
	if (!object || !json_object_is_type(object, json_type_object))
		return;
	json_object_object_foreach(object, name, value)
	{
		const char *const *word = known;

		while (*word && strcmp(*word, name) != 0)
			word++;
		if (!*word)
			add_extra(device,
				  inventory_format("%s%s", prefix, name),
				  json_object_to_json_string_ext(
					  value, JSON_C_TO_STRING_PLAIN));
	}
}

static const char *const device_members[] = {
	"uapi_major",
	"uapi_minor",
	"features",
	"isa_features",
	"isa_major",
	"isa_minor",
	"kind",
	"profile",
	"revision",
	"clusters",
	"local_cores",
	"global_cores",
	"core_modes",
	"core_mask",
	"max_bindings",
	"max_syncs",
	"max_queues",
	"max_programs",
	"max_jobs",
	"results_kept",
	"priority_min",
	"priority_max",
	"max_program_size",
	"max_bo_size",
	"default_job_ns",
	"max_job_ns",
	"page_size",
	"memory_flags",
	"num_regions",
	"progress_size",
	"instance",
	"name",
	"product",
	"serial",
	"state",
	"reset_count",
	NULL,
};

static const char *const queries[] = {
	"DEVICE",   "MEMORY",   "CORES",  "SENSORS",
	"COUNTERS", "FIRMWARE", "EVENTS", NULL,
};

void collect_reply(struct record *device, struct json_object *query)
{
	static const char *const families[] = { NULL, "aries", "regulus" };
	struct json_object *reply = reply_get(query, "DEVICE");
	uint64_t profile = reply_get_count(reply, "profile");

	set_string(device, FIELD_NAME, reply, "name");
	set_string(device, FIELD_PRODUCT, reply, "product");
	set_text(device, FIELD_KIND,
		 reply_get_count(reply, "kind") == 2 ? "software" : "hardware");
	if (profile < 3)
		set_text(device, FIELD_FAMILY, families[profile]);
	set_count(device, FIELD_CLUSTERS, reply, "clusters");
	set_count(device, FIELD_LOCAL_CORES, reply, "local_cores");
	set_count(device, FIELD_GLOBAL_CORES, reply, "global_cores");
	collect_modes(device, FIELD_CORE_MODES,
		      (uint32_t)reply_get_count(reply, "core_modes"));
	set_memory(device, reply_get(query, "MEMORY"));
	set_string(device, FIELD_SERIAL, reply, "serial");
	collect_reply_caps(device, reply);
	set_count(device, FIELD_MAX_JOBS, reply, "max_jobs");
	set_count(device, FIELD_MAX_QUEUES, reply, "max_queues");
	set_count(device, FIELD_MAX_BINDINGS, reply, "max_bindings");
	set_string(device, FIELD_FIRMWARE, reply_get(query, "FIRMWARE"),
		   "version");
	set_extra(device, query, "query.", queries);
	set_extra(device, reply, "device.", device_members);
}

static void set_place(struct record *device, const struct own_node *node)
{
	unsigned int part[4];
	const char *address = node->bus_address ?: "";

	set_text(device, FIELD_NODE, node->path);
	set_text(device, FIELD_BUS, node->bus_address);
	set_text(device, FIELD_BUS_TYPE,
		 sscanf(address, "%4x:%2x:%2x.%1x", &part[0], &part[1],
			&part[2], &part[3]) == 4
			 ? "pci"
		 : sscanf(address, "%u-%u", &part[0], &part[1]) == 2
			 ? "usb"
			 : "platform");
	set_absent(device, FIELD_NUMA, REASON_ABSENT, NULL);
}

/* accel3 has number 3, renderD130 has 2. */
static uint64_t get_number_of_node(const char *path)
{
	size_t length = strlen(path);
	uint64_t number = 0;

	while (length && path[length - 1] >= '0' && path[length - 1] <= '9')
		length--;
	(void)source_parse_number(path + length, &number);
	return strstr(path, "renderD") && number >= 128 ? number - 128 : number;
}

static void add_node(struct inventory *inventory, struct own_node *node)
{
	int err;
	struct json_object *reply = reply_read_node(node->path, &err);
	struct json_object *open = reply_get(reply, "open");
	struct json_object *query = reply_get(reply, "query");
	struct json_object *version = reply_get(reply, "version");
	struct json_object *file = reply_get(reply, "node");
	struct record *device;

	node->open_err = open ? json_object_get_int(open) : 0;
	node->mode = (unsigned int)reply_get_count(file, "mode");
	if (reply_get(file, "gid"))
		node->gid = (int64_t)reply_get_count(file, "gid");
	node->owner = file ? inventory_copy(json_object_get_string(
						    reply_get(file, "owner"))
						    ?: "")
			   : NULL;
	node->group = file ? inventory_copy(json_object_get_string(
						    reply_get(file, "group"))
						    ?: "")
			   : NULL;
	if (version && !node->open_err) {
		node->uapi_major = (int)reply_get_count(version, "major");
		node->version = inventory_format(
			"%d.%d.%d", node->uapi_major,
			(int)reply_get_count(version, "minor"),
			(int)reply_get_count(version, "patchlevel"));
		if (node->uapi_major == QBINFO_UAPI_MAJOR) {
			set_text(inventory->driver, FIELD_DRIVER_NAME, "qbnpu");
			set_text(inventory->driver, FIELD_DRIVER_VERSION,
				 node->version);
		}
	}
	if (reply && !node->open_err && query &&
	    node->uapi_major == QBINFO_UAPI_MAJOR) {
		device = records_add(&inventory->devices);
		collect_reply(device, query);
		collect_reply_readings(inventory, device, query);
		set_place(device, node);
		set_integer(device, FIELD_NUMBER,
			    get_number_of_node(node->path));
		if (!record_get_text(device, FIELD_NAME))
			set_text(device, FIELD_NAME, "?");
		collect_aliases(device);
		set_text(device, FIELD_ID,
			 inventory_format(
				 "%s:%llu", record_get_text(device, FIELD_NAME),
				 (unsigned long long)record_get_integer(
					 device, FIELD_NUMBER, 0)));
		/* the uAPI counts from 0 */
		if (reply_get(reply_get(query, "DEVICE"), "state"))
			collect_state(
				inventory, device,
				(unsigned int)reply_get_count(
					reply_get(query, "DEVICE"), "state") +
					1);
		inventory->has_hardware = true;
	} else if (!reply && err != -ENOENT) {
		node->open_err = -EIO;
	}
	json_object_put(reply);
}

/* Names in the order of Q080, others after them, then numbers. */
static size_t get_rank(const char *name)
{
	static const char *const names[] = { "aries-rb", "regulus-ra",
					     "regulus-rb", "regulus-ra-usb",
					     "regulus-rb-usb" };
	size_t i = 0;

	while (i < sizeof(names) / sizeof(*names) && strcmp(names[i], name))
		i++;
	return i;
}

static int compare_devices(const struct record *a, const struct record *b)
{
	const char *x = record_get_text(a, FIELD_NAME);
	const char *y = record_get_text(b, FIELD_NAME);
	size_t rank_x = get_rank(x), rank_y = get_rank(y);
	uint64_t m = record_get_integer(a, FIELD_NUMBER, UINT64_MAX);
	uint64_t n = record_get_integer(b, FIELD_NUMBER, UINT64_MAX);

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	if (strcmp(x, y) != 0)
		return strcmp(x, y);
	return (m > n) - (m < n);
}

/* After the nodes. */
void collect_software(struct inventory *inventory)
{
	int err;
	struct json_object *json = reply_read("devices.json", &err);

	for (struct own_node *node = inventory->own_nodes; node;
	     node = node->next)
		add_node(inventory, node);
	if (json && json_object_is_type(json, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(json); i++)
			add_listed(inventory,
				   json_object_array_get_idx(json, i));
	} else if ((json || err != -ENOENT) && !inventory->own_nodes) {
		inventory->failed = "devices.json is no JSON array, and there "
				    "is no node";
		inventory->failed_exit = 8;
	} else if (json || err != -ENOENT) {
		add_warning(inventory, "devices.json cannot be read as JSON",
			    "qbinfo show -v");
	}
	json_object_put(json);
	records_sort(&inventory->devices, compare_devices);
}
