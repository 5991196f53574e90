/* SPDX-License-Identifier: MIT */
/*
 * Collectors: each fills its part of the inventory, in any order that the
 * comments name. Live or under --sysroot is decided inside them.
 */
#ifndef QBINFO_COLLECT_H
#define QBINFO_COLLECT_H

#include <qbruntime/qbrt.h>

#include "inventory.h"

/* The tool, its library, time and host. */
void collect_tool(struct inventory *inventory);
/* Now, RFC 3339; NULL: the clocks cannot be read. */
const char *collect_now(uint64_t *monotonic);

/*
 * The devices, through qbrt.h; under --sysroot from nodes (which are there
 * before), replies and devices.json. A failure is kept in inventory->failed.
 */
void collect_devices(struct inventory *inventory);
/* What info tells of one device; device: a new record. */
void collect_info(struct inventory *inventory, struct record *device,
		  const struct qbrt_device_info *info);
/* driver.*: after the devices and the nodes. */
void collect_driver(struct inventory *inventory);
/* Ids of devices that the visibility variables hide, or NULL. Live only. */
char *collect_hidden(const struct inventory *inventory);

/*
 * Other DRM nodes, and ours. with_versions: asks each node of another driver
 * for its version; else only those are opened that sysfs does not name.
 */
void collect_nodes(struct inventory *inventory, bool with_versions);
/* A "!" line for each node of ours that did not answer: after the devices. */
void collect_silent_nodes(struct inventory *inventory);

/* Whether it was opened and gave no device, nor a reason for that. */
bool collect_is_silent(const struct own_node *own);
/* Asks a node of ours that is not in the list; of collect-drm.c. */
void collect_own_reason(struct own_node *own);

/* state, and a "!" line if it is not ready: after the id. */
void collect_state(struct inventory *inventory, struct record *device,
		   unsigned int state);
/* aliases: after the name. */
void collect_aliases(struct record *device);
/* The words of the bits of a mask of core modes: bit n is mode n. */
void collect_modes(struct record *record, enum field_id field, uint32_t mask);

/* caps.* of what the driver told of itself; of collect-caps.c. */
struct json_object;
void collect_reply_caps(struct record *device, struct json_object *reply);
/* What follows from the other caps, unless it is known; when those are set. */
void collect_derived_caps(struct record *device);
/* What is to say of caps.* beside their values. */
void collect_caps_notes(struct record *device);

/*
 * Firmware, sensors, counters, events, health: opens each device once, so after
 * those that are chosen, and never for list. Adds "!" lines.
 */
void collect_readings(struct inventory *inventory);
/* What of that a reply tells: after the tool. */
void collect_reply_readings(const struct inventory *inventory,
			    struct record *device, struct json_object *query);

/* Of an open device, and of a reply; counters with what follows from them. */
enum qbrt_status collect_counters(struct record *device,
				  const struct qbrt_accelerator *acc);
enum qbrt_status collect_sensors(struct record *device,
				 const struct qbrt_accelerator *acc);
void collect_reply_counters(struct record *device, struct json_object *query);
void collect_reply_sensors(struct record *device, struct json_object *query);
/* Why the fields of topics that nobody has set are null, unless status is OK. */
void collect_mark_failed(struct record *device, const char *topics,
			 enum qbrt_status status);

/* The last error, of collect-events.c. */
enum qbrt_status collect_events(struct record *device,
				const struct record *tool,
				const struct qbrt_accelerator *acc);
void collect_reply_events(struct record *device, const struct record *tool,
			  struct json_object *events);
/* The time of day of an instant of CLOCK_MONOTONIC; NULL: it cannot be told. */
const char *collect_time_at(const struct record *tool, int64_t monotonic);

/* health.*, and its "!" lines: after the state and the readings. */
void collect_health(struct inventory *inventory, struct record *device);
/* What follows from the readings of devices.json. */
void collect_listed_readings(struct record *device);

/* limits.* and env of each device, and which limit of pinned memory rules. */
void collect_limits(struct inventory *inventory);
void collect_environment(struct inventory *inventory);

/* Of collect-proc.c, for doctor too. NULL: not set. */
const char *environment_get(const char *name);
/* The variable that decides which devices are visible; NULL: none is set. */
const char *environment_get_deciding(void);
/* A variable that the runtime reads, or an old name of one. */
bool environment_is_known(const char *name);
enum limit {
	LIMIT_UNKNOWN,
	LIMIT_NONE,
	LIMIT_SET
};
enum limit limit_get_memlock(uint64_t *bytes);
/* Whether CAP_IPC_LOCK makes RLIMIT_MEMLOCK void. */
bool limit_has_ipc_lock(void);

/*
 * What the control group and the groups above it allow, of collect-cgroup.c.
 * Each of them binds: lowest is the smallest limit; limit and used are those of
 * the group that leaves least.
 */
struct cgroup_limit {
	enum limit state;
	uint64_t lowest, limit, used;
	const char *file;   /* of limit */
	const char *unread; /* a limit (then LIMIT_UNKNOWN) or a use; or NULL */
	int err;            /* of unread, as source_read; 0: not a number */
};
/* controller: "memory" or "pids", of either version of control groups. */
void cgroup_read(const char *controller, struct cgroup_limit *limit);
bool cgroup_has_dmem(void);

void collect_reply(struct record *device, struct json_object *query);
void collect_software(struct inventory *inventory);

/* model FILE; the exit code. */
int collect_model(struct inventory *inventory, const char *path,
		  bool with_commands, const char **sentence,
		  const char **status);
/* The commands of a variant, by the place of its bundle in VARI. */
struct qbm_reader;
void collect_commands(struct record *variant, const struct qbm_reader *reader,
		      size_t bundle);

/* "float32": qbrt_dtype_name in lower case. */
const char *collect_dtype_word(enum qbrt_dtype dtype);

/* Which qbruntime the first python3 on the path imports. */
struct python_package {
	const char *python;  /* NULL: no python3 */
	const char *folder;  /* NULL: no package of that name */
	const char *version; /* NULL: not ours */
	const char *library; /* the file that it has loaded; NULL: none */
	const char *problem; /* why it could not be asked */
};
void collect_python(struct python_package *package, double limit);
/* Ends a python3 that is being asked; from handlers of signals too. */
void collect_end_python(void);
/* The file that this process has loaded; "" if that cannot be told. */
const char *collect_library_path(void);
void collect_parts(struct inventory *inventory, double limit);

#endif
