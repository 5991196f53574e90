// SPDX-License-Identifier: MIT
/*
 * What was captured of devices: replies/<node>.json holds the kernel's answers
 * by the names of the uAPI, devices.json the software NPUs as section 7 has
 * them. A value of another type or range is "invalid", never more.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "collect.h"
#include "reply.h"
#include "source.h"

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

		if (member && !reply_set(device, field, member))
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
	collect_derived_caps(device);
	collect_listed_readings(device);
	set_absent_if_unset(device, FIELD_SERIAL);
	set_absent_if_unset(device, FIELD_UUID);
	if (!strcmp(record_get_text(device, FIELD_KIND), "hardware"))
		inventory->has_hardware = true;
}

/* ---- devices of nodes ---- */

/* Unless another region told it. */
static void mark(struct record *device, enum field_id field, const char *detail)
{
	if (!record_see(device, field)->is_set)
		set_absent(device, field, REASON_INVALID, detail);
}

/* The device's own memory. */
static void set_local(struct record *device, struct json_object *region)
{
	uint64_t total, free;
	enum member has_total =
		reply_find_count(region, "total", UINT64_MAX, &total);
	enum member has_free =
		reply_find_count(region, "free", UINT64_MAX, &free);

	reply_set_count(device, FIELD_DEVICE_TOTAL, region, "total");
	if (has_total == MEMBER_VALUE && has_free == MEMBER_VALUE &&
	    free <= total)
		set_integer(device, FIELD_DEVICE_USED, total - free);
	else if (has_total == MEMBER_INVALID)
		mark(device, FIELD_DEVICE_USED, "total");
	else if (has_free != MEMBER_ABSENT)
		mark(device, FIELD_DEVICE_USED, "free");
}

/* Memory of the host that is pinned for it. */
static void set_pinned(struct record *device, struct json_object *region)
{
	static const char *const classes[] = { NULL, "locked", "hugepage",
					       "driver" };
	uint64_t class, total, limit;
	enum member has_total =
		reply_find_count(region, "total", UINT64_MAX, &total);
	enum member has_limit =
		reply_find_count(region, "client_limit", UINT64_MAX, &limit);
	enum member has_class =
		reply_find_count(region, "contiguity", UINT64_MAX, &class);

	if (class && class < 4)
		set_texts(device, FIELD_CONTIGUITY, &classes[class], 1);
	else if (has_class == MEMBER_INVALID)
		mark(device, FIELD_CONTIGUITY, "contiguity");
	if (has_total == MEMBER_VALUE && has_limit == MEMBER_VALUE)
		set_integer(device, FIELD_PINNED_LIMIT,
			    limit < total ? limit : total);
	else if (has_total == MEMBER_INVALID)
		mark(device, FIELD_PINNED_LIMIT, "total");
	else if (has_limit == MEMBER_INVALID)
		mark(device, FIELD_PINNED_LIMIT, "client_limit");
}

static void mark_memory(struct record *device, const char *detail)
{
	mark(device, FIELD_DEVICE_TOTAL, detail);
	mark(device, FIELD_DEVICE_USED, detail);
	mark(device, FIELD_PINNED_LIMIT, detail);
}

/* As the library reads them: region 0 is the device's own, 1 the host's. */
static void set_memory(struct record *device, struct json_object *memory)
{
	bool is_array = json_object_is_type(memory, json_type_array);
	size_t num = is_array ? json_object_array_length(memory) : 0;

	if (memory && !is_array)
		mark_memory(device, "MEMORY");
	for (size_t i = 0; i < num; i++) {
		struct json_object *region =
			json_object_array_get_idx(memory, i);
		uint64_t number, flags;

		if (reply_find_count(region, "region", UINT32_MAX, &number) !=
		    MEMBER_VALUE)
			mark_memory(device, "region");
		else if (!number)
			set_local(device, region);
		else if (reply_find_count(region, "flags", UINT32_MAX,
					  &flags) == MEMBER_INVALID)
			mark(device, FIELD_PINNED_LIMIT, "flags");
		else if (flags & 1)
			set_pinned(device, region);
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

static void set_kind(struct record *device, struct json_object *reply)
{
	static const char *const families[] = { NULL, "aries", "regulus" };
	uint64_t kind, profile, modes;
	enum member member =
		reply_find_count(reply, "profile", UINT32_MAX, &profile);

	if (reply_find_count(reply, "kind", UINT32_MAX, &kind) ==
	    MEMBER_INVALID)
		set_absent(device, FIELD_KIND, REASON_INVALID, "kind");
	else
		set_text(device, FIELD_KIND,
			 kind == 2 ? "software" : "hardware");
	if (member == MEMBER_INVALID)
		set_absent(device, FIELD_FAMILY, REASON_INVALID, "profile");
	else if (profile < 3)
		set_text(device, FIELD_FAMILY, families[profile]);
	member = reply_find_count(reply, "core_modes", UINT32_MAX, &modes);
	if (member == MEMBER_VALUE)
		collect_modes(device, FIELD_CORE_MODES, (uint32_t)modes);
	else if (member == MEMBER_INVALID)
		set_absent(device, FIELD_CORE_MODES, REASON_INVALID,
			   "core_modes");
}

void collect_reply(struct record *device, struct json_object *query)
{
	struct json_object *reply = reply_get(query, "DEVICE");

	reply_set_text(device, FIELD_NAME, reply, "name");
	reply_set_text(device, FIELD_PRODUCT, reply, "product");
	set_kind(device, reply);
	reply_set_count(device, FIELD_CLUSTERS, reply, "clusters");
	reply_set_count(device, FIELD_LOCAL_CORES, reply, "local_cores");
	reply_set_count(device, FIELD_GLOBAL_CORES, reply, "global_cores");
	set_memory(device, reply_get(query, "MEMORY"));
	reply_set_text(device, FIELD_SERIAL, reply, "serial");
	collect_reply_caps(device, reply);
	reply_set_count(device, FIELD_MAX_JOBS, reply, "max_jobs");
	reply_set_count(device, FIELD_MAX_QUEUES, reply, "max_queues");
	reply_set_count(device, FIELD_MAX_BINDINGS, reply, "max_bindings");
	reply_set_text(device, FIELD_FIRMWARE, reply_get(query, "FIRMWARE"),
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

/* Who may open it. */
static void set_owner(struct own_node *node, struct json_object *file)
{
	uint64_t mode, gid;

	(void)reply_find_count(file, "mode", 07777, &mode);
	node->mode = (unsigned int)mode;
	if (reply_find_count(file, "gid", UINT32_MAX, &gid) == MEMBER_VALUE)
		node->gid = (int64_t)gid;
	(void)reply_find_text(file, "owner", &node->owner);
	(void)reply_find_text(file, "group", &node->group);
}

/* The uAPI counts states from 0. */
static void set_state(struct inventory *inventory, struct record *device,
		      struct json_object *reply)
{
	uint64_t state;
	enum member member = reply_find_count(reply, "state", 3, &state);

	if (member == MEMBER_VALUE)
		collect_state(inventory, device, (unsigned int)state + 1);
	else if (member == MEMBER_INVALID)
		set_absent(device, FIELD_STATE, REASON_INVALID, "state");
}

static void add_answer(struct inventory *inventory, const struct own_node *node,
		       struct json_object *query)
{
	struct record *device = records_add(&inventory->devices);

	collect_reply(device, query);
	collect_reply_readings(inventory, device, query);
	set_place(device, node);
	set_integer(device, FIELD_NUMBER, get_number_of_node(node->path));
	if (!record_get_text(device, FIELD_NAME))
		set_text(device, FIELD_NAME, "?");
	collect_aliases(device);
	set_text(device, FIELD_ID,
		 inventory_format("%s:%llu",
				  record_get_text(device, FIELD_NAME),
				  (unsigned long long)record_get_integer(
					  device, FIELD_NUMBER, 0)));
	set_state(inventory, device, reply_get(query, "DEVICE"));
	inventory->has_hardware = true;
}

static void add_node(struct inventory *inventory, struct own_node *node)
{
	int err;
	struct json_object *reply = reply_read_node(node->path, &err);
	struct json_object *query = reply_get(reply, "query");

	if (!reply && err != -ENOENT)
		node->open_err = -EIO;
	if (!reply)
		return;
	node->open_err = reply_get_open(reply);
	set_owner(node, reply_get(reply, "node"));
	if (!node->open_err)
		node->version = reply_get_version(reply, &node->uapi_major);
	if (node->uapi_major == QBINFO_UAPI_MAJOR) {
		set_text(inventory->driver, FIELD_DRIVER_NAME, "qbnpu");
		set_text(inventory->driver, FIELD_DRIVER_VERSION,
			 node->version);
		if (json_object_is_type(reply_get(query, "DEVICE"),
					json_type_object))
			add_answer(inventory, node, query);
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
	size_t broken = 0;

	for (struct own_node *node = inventory->own_nodes; node;
	     node = node->next)
		add_node(inventory, node);
	if (json && json_object_is_type(json, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(json); i++) {
			struct json_object *entry =
				json_object_array_get_idx(json, i);

			if (json_object_is_type(entry, json_type_object))
				add_listed(inventory, entry);
			else
				broken++;
		}
	} else if ((json || err != -ENOENT) && !inventory->own_nodes) {
		inventory->failed = "devices.json is no JSON array, and there "
				    "is no node";
		inventory->failed_exit = 8;
	} else if (json || err != -ENOENT) {
		add_warning(inventory, "devices.json cannot be read as JSON",
			    "qbinfo show -v");
	}
	if (broken)
		add_warning(inventory,
			    inventory_format("devices.json: %zu entries are no "
					     "objects",
					     broken),
			    "qbinfo show -v");
	json_object_put(json);
	records_sort(&inventory->devices, compare_devices);
}
