// SPDX-License-Identifier: MIT
/*
 * Capabilities: those of a recorded reply, by the bits of the driver interface
 * (docs/spec/kernel.md, 2.1), and what is to say of any.
 */
#include <string.h>

#include "collect.h"
#include "reply.h"
#include "source.h"

#define NUM(array) (sizeof(array) / sizeof(*(array)))

void collect_reply_caps(struct record *device, struct json_object *reply)
{
	static const struct {
		enum field_id field;
		unsigned int bit;
	} features[] = {
		{ FIELD_SYNCOBJ_TIMELINE, 0 }, { FIELD_SYNCOBJ_FD, 3 },
		{ FIELD_SYNC_FILE, 4 },        { FIELD_FENCE_EVENTFD, 5 },
		{ FIELD_DMABUF_EXPORT, 6 },    { FIELD_DMABUF_IMPORT, 7 },
		{ FIELD_MEMFD_EXPORT, 8 },
	};
	static const char *const isa_features[] = { "int8",    "half",
						    "lists",   "state",
						    "dynamic", "lstm",
						    "gather",  "diag" };
	const char *names[NUM(isa_features)];
	uint64_t mask, major, minor;
	enum member member =
		reply_find_count(reply, "features", UINT64_MAX, &mask);
	size_t num = 0;

	for (size_t i = 0; i < NUM(features); i++) {
		if (member == MEMBER_VALUE)
			set_boolean(device, features[i].field,
				    mask >> features[i].bit & 1);
		else if (member == MEMBER_INVALID)
			set_absent(device, features[i].field, REASON_INVALID,
				   "features");
	}
	member = reply_find_count(reply, "isa_features", UINT64_MAX, &mask);
	for (size_t i = 0; i < NUM(isa_features); i++) {
		if (mask >> i & 1)
			names[num++] = isa_features[i];
	}
	if (member == MEMBER_VALUE)
		set_texts(device, FIELD_ISA_FEATURES, names, num);
	else if (member == MEMBER_INVALID)
		set_absent(device, FIELD_ISA_FEATURES, REASON_INVALID,
			   "isa_features");
	member = reply_find_count(reply, "isa_major", UINT32_MAX, &major);
	if (member == MEMBER_VALUE)
		member = reply_find_count(reply, "isa_minor", UINT32_MAX,
					  &minor);
	if (member == MEMBER_VALUE)
		set_text(device, FIELD_ISA,
			 inventory_format("%llu.%llu",
					  (unsigned long long)major,
					  (unsigned long long)minor));
	else if (member == MEMBER_INVALID)
		set_absent(device, FIELD_ISA, REASON_INVALID, "isa_major");
	/* kernels of ours run on software devices alone */
	set_texts(device, FIELD_BACKENDS, NULL, 0);
	collect_derived_caps(device);
}

/* What the host maps is memory of the CPU to those who take DLPack. */
static void set_dlpack(struct record *device)
{
	const struct value *classes = record_see(device, FIELD_CONTIGUITY);

	if (!classes->is_set || !classes->texts.num ||
	    record_see(device, FIELD_DLPACK_TYPE)->is_set)
		return;
	set_integer(device, FIELD_DLPACK_TYPE, 1);
	set_integer(device, FIELD_DLPACK_ID, 0);
}

static void set_backend(struct record *device)
{
	const struct value *backends = record_see(device, FIELD_BACKENDS);
	size_t num = backends->is_set ? backends->texts.num : 0;
	/* with a choice it is made by the first program */
	enum reason reason = num > 1 ? REASON_NOT_LOADED : REASON_ABSENT;

	if (!backends->is_set)
		return;
	if (!record_get_text(device, FIELD_CPU_ISA))
		set_absent(device, FIELD_CPU_ISA, reason, NULL);
	if (record_get_text(device, FIELD_BACKEND))
		return;
	if (num == 1)
		set_text(device, FIELD_BACKEND, backends->texts.items[0]);
	else
		set_absent(device, FIELD_BACKEND, reason,
			   num ? "the plugin loads with the first program"
			       : NULL);
}

void collect_derived_caps(struct record *device)
{
	set_dlpack(device);
	set_backend(device);
}

static bool is_no(const struct record *device, enum field_id field)
{
	const struct value *value = record_see(device, field);

	return value->is_set && !value->boolean;
}

static void set_software_notes(struct record *device)
{
	const char *why = source_has_node("dev/udmabuf")
				  ? "/dev/udmabuf may not be opened"
				  : "no /dev/udmabuf here";
	const char *backend = record_get_text(device, FIELD_BACKEND);

	if (is_no(device, FIELD_DMABUF_IMPORT))
		set_note(device, FIELD_DMABUF_IMPORT, why);
	if (is_no(device, FIELD_DMABUF_EXPORT))
		set_note(device, FIELD_DMABUF_EXPORT,
			 is_no(device, FIELD_MEMFD_EXPORT)
				 ? why
				 : inventory_format("%s; memfd_export works",
						    why));
	if (is_no(device, FIELD_SYNCOBJ_FD))
		set_note(device, FIELD_SYNCOBJ_FD,
			 "timelines of a software device stay in their "
			 "process");
	if (backend && !strcmp(backend, "ref"))
		set_note(device, FIELD_CPU_ISA, "8-bit sums run on ref");
}

void collect_caps_notes(struct record *device)
{
	const char *kind = record_get_text(device, FIELD_KIND);

	if (kind && !strcmp(kind, "software"))
		set_software_notes(device);
	if (record_see(device, FIELD_MAX_JOBS)->is_set)
		set_note(device, FIELD_MAX_JOBS, "not complete, in one queue");
	if (record_see(device, FIELD_MAX_QUEUES)->is_set)
		set_note(device, FIELD_MAX_QUEUES, "of one open file");
}
