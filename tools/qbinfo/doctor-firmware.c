// SPDX-License-Identifier: MIT
/*
 * Check of firmware: does it run the programs of models, and is it alive. Only
 * hardware has firmware, and what a device does not tell is not judged.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

/* The oldest instruction set that programs of models are made for is x.0. */
#define LEAST_ISA_MAJOR 1u

/* The driver takes a device for hung after that long without a sign. */
#define MAX_SILENCE_NS UINT64_C(2000000000)

static bool is_too_old(const char *isa)
{
	unsigned int major;

	return isa && sscanf(isa, "%u.", &major) == 1 &&
	       major < LEAST_ISA_MAJOR;
}

/* Whether a finding was told. */
static bool check_device(struct doctor *doctor, const struct record *device)
{
	const char *id = record_get_text(device, FIELD_ID);
	const char *version = record_get_text(device, FIELD_FIRMWARE) ?: "?";
	const char *isa = record_get_text(device, FIELD_ISA);
	uint64_t age = record_get_integer(device, FIELD_HEARTBEAT_AGE, 0);

	if (age >= MAX_SILENCE_NS)
		doctor_fail(doctor, 7, "firmware",
			    inventory_format("%s: its firmware, version %s, "
					     "has given no sign of life for "
					     "%" PRIu64 " s",
					     id, version,
					     age / UINT64_C(1000000000)),
			    "E-FW-2",
			    "sudo modprobe -r qbnpu, then sudo modprobe qbnpu");
	if (is_too_old(isa))
		doctor_fail(
			doctor, 5, "firmware",
			inventory_format("%s: its firmware, version %s, has "
					 "instruction set %s, models need "
					 "%u.0 at least",
					 id, version, isa, LEAST_ISA_MAJOR),
			"E-FW-1",
			inventory_format(
				"install the firmware of release %s, then "
				"sudo modprobe -r qbnpu, then sudo modprobe "
				"qbnpu",
				record_get_text(doctor->inventory->tool,
						FIELD_TOOL_LIBRARY)));
	return age >= MAX_SILENCE_NS || is_too_old(isa);
}

void doctor_check_firmware(struct doctor *doctor)
{
	size_t found = 0, known = 0;

	for (const struct record *device = doctor->inventory->devices.first;
	     device; device = device->next) {
		const char *kind = record_get_text(device, FIELD_KIND);

		if (kind && !strcmp(kind, "software"))
			continue;
		found += check_device(doctor, device);
		known += record_get_text(device, FIELD_FIRMWARE) ||
			 record_get_text(device, FIELD_ISA);
	}
	if (found)
		return;
	if (known)
		doctor_ok(doctor, "firmware",
			  "no firmware is too old or silent");
	else
		doctor_skip(doctor, "firmware", "no device tells its firmware");
}
